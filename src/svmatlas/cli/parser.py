"""The arguments of the command line. Nothing heavy is imported here, so that help comes at once."""

from __future__ import annotations

import argparse

import svmatlas

FORMATS = ("csv", "svmlight", "npz", "parquet")

EPILOG = """\
examples:
  svmatlas explore data.csv --label sick --standardize -o data.atlas
  svmatlas explore large.csv --store large.svmatlas --jobs -1
  svmatlas explore --resume large.svmatlas
  svmatlas validate data.atlas
  svmatlas certify data.atlas --data data.csv --label sick
  svmatlas at data.atlas --costs 2 0.5 --predict new.csv
  svmatlas plot data.atlas -o map.png --scale triangle
  svmatlas page data.atlas --data new.csv --label sick -o map.html
  svmatlas select data.csv --cv 5 --scoring f1 --json
  svmatlas ray data.csv.gz --ratio 3 --positive yes | head
  svmatlas estimate data.csv --label sick --standardize
  svmatlas export data.atlas -o tables --format csv

DATA is a CSV, svmlight/LIBSVM, npz (arrays X and y) or Parquet file, compressed (gz, bz2, xz, zst) or not, or - for standard
input. Of two labels the larger one in sorted order is the positive class, with cost C+, unless --positive names the other.

exit codes: 0 done; 1 done, but the answer is no (a map that is not valid or not complete, costs that are not certified);
2 wrong use or wrong data; 130 interrupted.
"""


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="svmatlas", description=svmatlas.__doc__, epilog=EPILOG, formatter_class=plain, allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"svmatlas {svmatlas.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, text: str, example: str) -> argparse.ArgumentParser:
        command = commands.add_parser(
            name, help=text, description=text, epilog=f"example:\n  {example}", formatter_class=plain, allow_abbrev=False
        )
        command.set_defaults(command=name)
        command.add_argument("--json", action="store_true", help="print one JSON object")
        command.add_argument("-q", "--quiet", action="store_true", help="no progress bar")
        return command

    _add_explore(add("explore", "compute a map", "svmatlas explore data.csv --label sick -o data.atlas"))
    _add_map(add("info", "what a map holds", "svmatlas info data.atlas"))
    _add_at(add("at", "the exact model at given costs", "svmatlas at data.atlas --costs 2 0.5"))
    _add_ray(add("ray", "the exact path along C+ = ratio C-", "svmatlas ray data.csv --ratio 3"))
    _add_select(add("select", "the exact best costs", "svmatlas select data.csv --cv 5 --scoring f1"))
    _add_estimate(add("estimate", "what a map would take", "svmatlas estimate data.csv --time-budget 5"))
    _add_export(add("export", "write a map as tables", "svmatlas export data.atlas -o tables --format csv"))
    _add_plot(add("plot", "draw a map", "svmatlas plot data.atlas -o map.png --scale triangle"))
    _add_page(add("page", "the map as one HTML file to look at", "svmatlas page data.atlas -o map.html"))
    _add_validate(add("validate", "check a map, quickly", "svmatlas validate data.atlas"))
    _add_certify(
        add("certify", "prove that a map is right for the data as given", "svmatlas certify data.atlas --data data.csv")
    )
    add("compile", "compile all kernels now, not at their first use", "svmatlas compile")
    add("demo", "a tour on the breast-cancer data", "svmatlas demo").add_argument(
        "-o", "--output", default="demo", metavar="DIR", help="where the pictures go (default: demo)"
    )
    return parser


def _add_data(command: argparse.ArgumentParser, nargs: str | None = None) -> None:
    command.add_argument("data", metavar="DATA", nargs=nargs, help="CSV, svmlight, npz or Parquet file; - for standard input")
    command.add_argument("--label", metavar="COL", help="column of labels by name or number (default: the last)")
    command.add_argument("--format", choices=FORMATS, help="of DATA (default: by its suffix or content)")
    command.add_argument("--bias", type=float, default=1.0, metavar="B", help="constant feature (default: 1; 0 for none)")
    command.add_argument(
        "--standardize", action="store_true",
        help="scale features to mean 0 (if dense) and variance 1, over all rows; in select over the training rows of a fold",
    )  # fmt: skip
    command.add_argument("--seed", type=int, default=0, help="of the jitter that splits ties, and of folds (default: 0)")


def _add_model(command: argparse.ArgumentParser) -> None:
    command.add_argument("--positive", metavar="LABEL", help="the label with cost C+ (default: the larger one)")
    command.add_argument("--weights", metavar="COL", help="column of weights of the rows, by name or number")
    command.add_argument("--kernel", choices=["linear", "poly", "rbf"], default="linear", help="default: linear")
    command.add_argument("--gamma", type=_number_or_name, default="scale", help="of the kernel (default: scale)")
    command.add_argument("--degree", type=float, default=3, help="of the kernel (default: 3)")
    command.add_argument("--coef0", type=float, default=0.0, help="of the kernel (default: 0)")


def _number_or_name(text: str) -> float | str:
    """A value of --gamma: "scale", "auto" or a number."""
    return text if text in ("scale", "auto") else float(text)


def _add_jobs(command: argparse.ArgumentParser) -> None:
    command.add_argument("-j", "--jobs", "--threads", type=int, metavar="N", help="threads; -1 for all cores (default: 1)")


def _add_region(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--region",
        nargs=4,
        type=float,
        metavar=("P0", "P1", "Q0", "Q1"),
        help="P0 <= C+ <= P1, Q0 <= C- <= Q1 (inf is allowed)",
    )
    command.add_argument("--time-budget", type=float, metavar="SECONDS", help="stop after about this long")


def _add_map(command: argparse.ArgumentParser) -> None:
    command.add_argument("map", metavar="MAP", help="file, or folder, made by svmatlas explore")


def _add_explore(command: argparse.ArgumentParser) -> None:
    _add_data(command, "?")
    _add_model(command)
    _add_region(command)
    _add_jobs(command)
    command.add_argument("--start", nargs=2, type=float, metavar=("C+", "C-"), help="begin at these costs")
    command.add_argument("--max-facets", type=int, metavar="N", help="stop after so many facets")
    goal = command.add_mutually_exclusive_group(required=True)
    goal.add_argument("-o", "--output", metavar="MAP", help="file to write")
    goal.add_argument("--store", metavar="DIR", help="folder to build the map up in: for maps larger than memory")
    goal.add_argument("--resume", metavar="DIR", help="go on in such a folder, without DATA")


def _add_at(command: argparse.ArgumentParser) -> None:
    _add_map(command)
    command.add_argument("--costs", nargs=2, type=float, required=True, metavar=("C+", "C-"), help="the two costs")
    command.add_argument("--predict", metavar="DATA", help="print the labels of these rows instead of the model")
    command.add_argument("--label", metavar="COL", help="column of labels in DATA, if it has one, to be left out")
    command.add_argument("--format", choices=FORMATS, help="of DATA (default: by its suffix or content)")


def _add_ray(command: argparse.ArgumentParser) -> None:
    _add_data(command)
    _add_model(command)
    command.add_argument("--ratio", type=float, default=1.0, help="C+ / C- (default: 1)")
    command.add_argument("--max-cost", type=float, metavar="C", help="largest C- (default: infinity)")


def _add_select(command: argparse.ArgumentParser) -> None:
    _add_data(command)
    _add_model(command)
    _add_region(command)
    _add_jobs(command)
    command.add_argument("--cv", default="5", metavar="K", help="folds, or a share to hold out, as 0.25 (default: 5)")
    command.add_argument(
        "--scoring", default="balanced_accuracy", help="accuracy, balanced_accuracy, f1, ... (default: %(default)s)"
    )
    command.add_argument(
        "--rule", choices=["best", "one_se"], default="best",
        help="the largest of the best cells, or the most regularised within one standard error (default: best)",
    )  # fmt: skip
    command.add_argument("--tolerance", type=float, metavar="T", help="stop when no costs can be better by more than this")
    command.add_argument(
        "--threshold", choices=["tuned"], help="tuned: choose the decision threshold, too, on the held-out rows (default: 0)"
    )
    command.add_argument("--groups", metavar="COL", help="column of groups: no group is in training and held-out rows at once")
    command.add_argument("--proof", metavar="FILE", help="write a proof of the score and the bound, for certify --data")


def _add_estimate(command: argparse.ArgumentParser) -> None:
    _add_data(command)
    _add_model(command)
    _add_region(command)
    _add_jobs(command)


def _add_export(command: argparse.ArgumentParser) -> None:
    _add_map(command)
    command.add_argument("-o", "--output", required=True, metavar="DIR", help="folder to write to; made if need be")
    command.add_argument(
        "--format", choices=["parquet", "csv", "geojson"], default="parquet", help="of the tables (default: parquet)"
    )


def _add_plot(command: argparse.ArgumentParser) -> None:
    _add_map(command)
    command.add_argument("-o", "--output", required=True, metavar="FILE", help="png, pdf or svg file to write")
    command.add_argument(
        "--color-by", choices=["layer", "alternating", "margin_size", "support", "tie", "score"],
        help="what the colours say (default: layer; of a large store margin_size)",
    )  # fmt: skip
    command.add_argument("--scale", default="log", choices=["log", "linear", "triangle"], help="default: log")
    command.add_argument("--limits", nargs=4, type=float, metavar=("P0", "P1", "Q0", "Q1"), help="costs in view")
    command.add_argument("--events", nargs="+", type=int, default=[], metavar="ROW", help="draw the event paths of these rows")
    command.add_argument("--ray", nargs="+", type=float, default=[], metavar="RATIO", help="draw the rays C+ = RATIO C-")
    command.add_argument("--dpi", type=float, default=150, help="dots per inch (default: 150)")


def _add_page(command: argparse.ArgumentParser) -> None:
    _add_map(command)
    command.add_argument("-o", "--output", required=True, metavar="FILE", help="HTML file to write")
    command.add_argument("--data", metavar="DATA", help="held-out rows with labels, for confusion matrices and scores")
    command.add_argument("--label", metavar="COL", help="column of labels in DATA by name or number (default: the last)")
    command.add_argument("--format", choices=FORMATS, help="of DATA (default: by its suffix or content)")
    command.add_argument(
        "--region", nargs=4, type=float, metavar=("P0", "P1", "Q0", "Q1"), help="only facets that meet these costs"
    )
    command.add_argument("--title", help="what the page is called (default: the name of the map)")


def _add_validate(command: argparse.ArgumentParser) -> None:
    _add_map(command)
    command.add_argument(
        "--costs", type=int, default=1000, metavar="N", help="random costs to measure gaps at (default: 1000)"
    )
    _add_jobs(command)


def _add_certify(command: argparse.ArgumentParser) -> None:
    _add_map(command)
    command.add_argument("--data", metavar="DATA", help="the data that the map was made of (default: the rows in the map)")
    command.add_argument("--label", metavar="COL", help="column of labels by name or number (default: the last)")
    command.add_argument("--format", choices=FORMATS, help="of DATA (default: by its suffix or content)")
    command.add_argument("--weights", metavar="COL", help="column of weights of the rows, by name or number")
    command.add_argument("--groups", metavar="COL", help="column of groups that a selection was told of: it is no feature")
    _add_jobs(command)
