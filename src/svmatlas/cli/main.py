"""The command line: ``svmatlas`` or ``python -m svmatlas``.

Results go to standard output, progress and errors to standard error; ``--json`` prints one object for programs. Errors are
one line.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

import svmatlas
from svmatlas.cli.tables import FORMATS, DataError, Table, Wanted, read_table
from svmatlas.data.columns import match_names, standardize_columns
from svmatlas.support.progress import make_bar
from svmatlas.support.writing import check_goal, replacing

OK, NO, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
"""Exit codes: done; done, but the answer is no (not valid, not complete, not certified); wrong use or data; Ctrl-C."""

EPILOG = """\
examples:
  svmatlas explore data.csv --label sick --standardize -o data.atlas
  svmatlas validate data.atlas
  svmatlas certify data.atlas --data data.csv --label sick
  svmatlas at data.atlas --costs 2 0.5 --predict new.csv
  svmatlas plot data.atlas -o map.png --scale triangle
  svmatlas page data.atlas --data new.csv --label sick -o map.html
  svmatlas select data.csv --cv 5 --scoring f1 --json
  svmatlas ray data.csv --ratio 3 | head

DATA is a CSV, svmlight/LIBSVM, npz (arrays X and y) or Parquet file, or - for standard input. Of two labels the larger one
in sorted order is the positive class, with cost C+.

exit codes: 0 done; 1 done, but the answer is no (a map that is not valid or not complete, costs that are not certified);
2 wrong use or wrong data; 130 interrupted.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    parser = make_parser()
    arguments = parser.parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        _complain("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # the reader has seen enough, as in "| head"
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except OSError as error:
        _complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        return BAD_INPUT
    except (ValueError, ImportError, MemoryError) as error:
        _complain(" ".join(str(error).split()) or type(error).__name__)
        return BAD_INPUT


def _complain(message: str) -> None:
    print(f"svmatlas: {message}", file=sys.stderr)


# ----------------------------------------------------------------------------------------------------------------------
# Arguments


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="svmatlas", description=svmatlas.__doc__, epilog=EPILOG, formatter_class=plain, allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"svmatlas {svmatlas.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(run: Any, name: str, text: str, example: str) -> argparse.ArgumentParser:
        command = commands.add_parser(
            name, help=text, description=text, epilog=f"example:\n  {example}", formatter_class=plain, allow_abbrev=False
        )
        command.set_defaults(run=run)
        command.add_argument("--json", action="store_true", help="print one JSON object")
        command.add_argument("-q", "--quiet", action="store_true", help="no progress bar")
        return command

    _add_explore(add(_explore, "explore", "compute a map", "svmatlas explore data.csv --label sick -o data.atlas"))
    _add_map(add(_info, "info", "what a map holds", "svmatlas info data.atlas"))
    _add_at(add(_at, "at", "the exact model at given costs", "svmatlas at data.atlas --costs 2 0.5"))
    _add_ray(add(_ray, "ray", "the exact path along C+ = ratio C-", "svmatlas ray data.csv --ratio 3"))
    _add_select(add(_select, "select", "the exact best costs", "svmatlas select data.csv --cv 5 --scoring f1"))
    _add_plot(add(_plot, "plot", "draw a map", "svmatlas plot data.atlas -o map.png --scale triangle"))
    _add_page(add(_page, "page", "the map as one HTML file to look at", "svmatlas page data.atlas -o map.html"))
    _add_validate(add(_validate, "validate", "check a map, quickly", "svmatlas validate data.atlas"))
    _add_certify(
        add(
            _certify,
            "certify",
            "prove that a map is right for the data as given",
            "svmatlas certify data.atlas --data data.csv",
        )
    )
    add(_compile, "compile", "compile all kernels now, not at their first use", "svmatlas compile")
    add(_demo, "demo", "a tour on the breast-cancer data", "svmatlas demo").add_argument(
        "-o", "--output", default="demo", metavar="DIR", help="where the pictures go (default: demo)"
    )
    return parser


def _add_data(command: argparse.ArgumentParser) -> None:
    command.add_argument("data", metavar="DATA", help="CSV, svmlight, npz or Parquet file; - for standard input")
    command.add_argument("--label", metavar="COL", help="column of labels by name or number (default: the last)")
    command.add_argument("--format", choices=FORMATS, help="of DATA (default: by its suffix or content)")
    command.add_argument("--bias", type=float, default=1.0, metavar="B", help="constant feature (default: 1; 0 for none)")
    command.add_argument(
        "--standardize", action="store_true", help="scale features to mean 0 (if dense) and variance 1, over all rows"
    )
    command.add_argument("--seed", type=int, default=0, help="of the jitter that splits ties, and of folds (default: 0)")


def _add_region(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--region",
        nargs=4,
        type=float,
        metavar=("P0", "P1", "Q0", "Q1"),
        help="P0 <= C+ <= P1, Q0 <= C- <= Q1 (inf is allowed)",
    )
    command.add_argument("--time-budget", type=float, metavar="SECONDS", help="stop after about this long")
    command.add_argument("-j", "--jobs", type=int, metavar="N", help="threads; -1 for all cores (default: 1)")


def _add_map(command: argparse.ArgumentParser) -> None:
    command.add_argument("map", metavar="MAP", help="file made by svmatlas explore")


def _add_explore(command: argparse.ArgumentParser) -> None:
    _add_data(command)
    _add_region(command)
    command.add_argument("--start", nargs=2, type=float, metavar=("C+", "C-"), help="begin at these costs")
    command.add_argument("--max-facets", type=int, metavar="N", help="stop after so many facets")
    command.add_argument("-o", "--output", required=True, metavar="MAP", help="file to write")


def _add_at(command: argparse.ArgumentParser) -> None:
    _add_map(command)
    command.add_argument("--costs", nargs=2, type=float, required=True, metavar=("C+", "C-"), help="the two costs")
    command.add_argument("--predict", metavar="DATA", help="print the labels of these rows instead of the model")
    command.add_argument("--label", metavar="COL", help="column of labels in DATA, if it has one, to be left out")
    command.add_argument("--format", choices=FORMATS, help="of DATA (default: by its suffix or content)")


def _add_ray(command: argparse.ArgumentParser) -> None:
    _add_data(command)
    command.add_argument("--ratio", type=float, default=1.0, help="C+ / C- (default: 1)")
    command.add_argument("--max-cost", type=float, metavar="C", help="largest C- (default: infinity)")


def _add_select(command: argparse.ArgumentParser) -> None:
    _add_data(command)
    _add_region(command)
    command.add_argument("--cv", default="5", metavar="K", help="folds, or a share to hold out, as 0.25 (default: 5)")
    command.add_argument(
        "--scoring", default="balanced_accuracy", help="accuracy, balanced_accuracy, f1, ... (default: %(default)s)"
    )


def _add_plot(command: argparse.ArgumentParser) -> None:
    _add_map(command)
    command.add_argument("-o", "--output", required=True, metavar="FILE", help="png, pdf or svg file to write")
    command.add_argument(
        "--color-by", default="layer", choices=["layer", "alternating", "margin_size", "support", "tie", "score"],
        help="what the colours say (default: layer)",
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
    command.add_argument("-j", "--jobs", type=int, metavar="N", help="threads; -1 for all cores (default: 1)")


def _add_certify(command: argparse.ArgumentParser) -> None:
    _add_map(command)
    command.add_argument("--data", metavar="DATA", help="the data that the map was made of (default: the rows in the map)")
    command.add_argument("--label", metavar="COL", help="column of labels by name or number (default: the last)")
    command.add_argument("--format", choices=FORMATS, help="of DATA (default: by its suffix or content)")
    command.add_argument("-j", "--jobs", type=int, metavar="N", help="threads; -1 for all cores (default: 1)")


# ----------------------------------------------------------------------------------------------------------------------
# Commands


def _explore(arguments: argparse.Namespace) -> int:
    check_goal(arguments.output)
    table = _read(arguments)
    begin = time.perf_counter()
    with _about(arguments.data):
        atlas = svmatlas.explore(
            table.X, table.y, bias=arguments.bias, standardize=arguments.standardize, feature_names=table.names,
            region=_pairs(arguments.region), start=arguments.start, max_facets=arguments.max_facets,
            time_budget=arguments.time_budget, n_jobs=arguments.jobs, random_state=arguments.seed,
            progress=_progress(arguments),
        )  # fmt: skip
    seconds = time.perf_counter() - begin
    atlas.save(arguments.output)
    _report(
        arguments,
        {"map": arguments.output, "seconds": seconds} | _sizes(atlas),
        f"{atlas!r}\nexplored in {seconds:.1f} s, written to {arguments.output}",
    )
    return OK if atlas.complete else NO


def _info(arguments: argparse.Namespace) -> int:
    atlas = svmatlas.load(arguments.map)
    features = atlas._problem.features
    facts = _sizes(atlas) | {
        "rows": int(atlas._problem.point.size), "features": features.n_features, "labels": atlas.classes_.tolist(),
        "bias": features.bias, "kernel": features.kernel.name, "region": atlas.region, "names": atlas.columns.names,
        "standardized": atlas.columns.scale is not None,
    }  # fmt: skip
    text = [
        repr(atlas),
        f"data    {facts['rows']} rows, {facts['features']} features{', standardized' * facts['standardized']}",
        f"labels  {atlas.classes_[1]} positive (cost C+), {atlas.classes_[0]} negative (cost C-)",
        "region  " + ", ".join(f"{lo:g} <= {c} <= {hi:g}" for c, (lo, hi) in zip(("C+", "C-"), atlas.region, strict=True)),
        f"bias    {features.bias:g}",
    ]
    _report(arguments, facts, "\n".join(text))
    return OK


def _at(arguments: argparse.Namespace) -> int:
    atlas = svmatlas.load(arguments.map)
    C_pos, C_neg = arguments.costs
    if arguments.predict:
        return _predict(arguments, atlas)
    coef, intercept = atlas.coef(C_pos, C_neg), atlas.intercept(C_pos, C_neg)
    facet = atlas.locate(C_pos, C_neg)
    counts = {name: rows.size for name, rows in atlas.partition(facet)._asdict().items()}
    facts = {"C_pos": C_pos, "C_neg": C_neg, "facet": facet, "layer": atlas.facet_layer[facet]} | counts
    facts |= {"intercept": intercept, "coef": dict(zip(_names(atlas), coef, strict=True))}
    text = [
        f"facet {facet} in layer {facts['layer']}: {counts['margin']} rows on the margin, {counts['inside']} inside it, "
        f"{counts['outside']} outside it",
        f"intercept\t{intercept:.17g}",
        *(f"{name}\t{value:.17g}" for name, value in facts["coef"].items()),
    ]
    _report(arguments, facts, "\n".join(text))
    return OK


def _predict(arguments: argparse.Namespace, atlas: svmatlas.Atlas) -> int:
    wanted = Wanted(atlas._problem.features.n_features, atlas.columns.names)
    table = read_table(arguments.predict, arguments.label, arguments.format, wanted)
    decision = atlas.decision_function(table.X, *arguments.costs)
    labels = atlas.classes_[(decision > 0).astype(int)].tolist()
    _report(arguments, {"labels": labels, "decision": decision}, "\n".join(map(str, labels)))
    return OK


def _ray(arguments: argparse.Namespace) -> int:
    table = _read(arguments)
    limit = {} if arguments.max_cost is None else {"C_max": arguments.max_cost}
    with _about(arguments.data):
        path = svmatlas.ray(
            _rows(table, arguments), table.y, ratio=arguments.ratio, bias=arguments.bias, random_state=arguments.seed,
            progress=_progress(arguments), **limit,
        )  # fmt: skip
    events = [
        {"C_neg": float(C), "row": int(row), "type": int(kind)}
        for C, (row, kind) in zip(path.breakpoints, path.events, strict=True)
    ]
    lines = ["C_neg,row,type", *(f"{e['C_neg']!r},{e['row']},{e['type']}" for e in events)]
    _report(arguments, {"ratio": arguments.ratio, "events": events}, "\n".join(lines))
    return OK


def _select(arguments: argparse.Namespace) -> int:
    table = _read(arguments)
    with _about(arguments.data):
        selection = svmatlas.select(
            _rows(table, arguments), table.y, cv=_folds(arguments.cv), scoring=arguments.scoring, bias=arguments.bias,
            region=_pairs(arguments.region), time_budget=arguments.time_budget, n_jobs=arguments.jobs,
            random_state=arguments.seed, progress=_progress(arguments),
        )  # fmt: skip
    facts = {
        "scoring": arguments.scoring, "best_score": selection.best_score, "C_pos": selection.C_pos, "C_neg": selection.C_neg,
        "upper_bound": selection.upper_bound, "certified": selection.certified, "fold_scores": selection.fold_scores,
        "n_cells": len(selection.cells), "n_curves": selection.n_curves,
    }  # fmt: skip
    proof = (
        "no costs do better" if selection.certified else f"stopped early: no costs do better than {selection.upper_bound:.6f}"
    )
    text = [
        f"best {arguments.scoring}  {selection.best_score:.6f}  ({proof})",
        f"at costs C+ = {selection.C_pos:.6g}, C- = {selection.C_neg:.6g}",
        f"optimal cells: {len(selection.cells)}",
    ]
    _report(arguments, facts, "\n".join(text))
    return OK if selection.certified else NO


def _plot(arguments: argparse.Namespace) -> int:
    check_goal(arguments.output)
    from svmatlas.show.displays import AtlasDisplay, use_files

    use_files()
    atlas = svmatlas.load(arguments.map)
    display = AtlasDisplay.from_atlas(
        atlas, color_by=arguments.color_by, scale=arguments.scale, limits=_pairs(arguments.limits),
        events=arguments.events, rays=arguments.ray,
    )  # fmt: skip
    with replacing(arguments.output) as draft:
        display.figure_.savefig(draft, format=Path(arguments.output).suffix[1:] or "png", dpi=arguments.dpi)
    _report(arguments, {"picture": arguments.output}, f"written to {arguments.output}")
    return OK


def _page(arguments: argparse.Namespace) -> int:
    check_goal(arguments.output)
    atlas = svmatlas.load(arguments.map)
    held_out = _held_out(arguments, atlas) if arguments.data else {}
    atlas.page(
        arguments.output, region=_pairs(arguments.region), title=arguments.title or Path(arguments.map).stem, **held_out
    )
    _report(arguments, {"page": arguments.output, "facets": atlas.n_facets}, f"written to {arguments.output}")
    return OK


def _held_out(arguments: argparse.Namespace, atlas: svmatlas.Atlas) -> dict[str, Any]:
    """Rows and labels of a file, columns in the order of the map."""
    table = _read(arguments)
    X, names, y = table.X, atlas.columns.names, np.asarray(table.y)
    with _about(arguments.data):
        if names is not None and table.names is not None:
            X = X[:, match_names(names, table.names)]
    if np.isin(y, atlas.classes_).all():
        return {"X_test": X, "y_test": y}
    raise DataError(f"{arguments.data}: labels are not those of the map, {atlas.classes_[0]} and {atlas.classes_[1]}")


def _validate(arguments: argparse.Namespace) -> int:
    atlas = svmatlas.load(arguments.map)
    report = atlas.validate(n_costs=arguments.costs, progress=_progress(arguments), n_jobs=arguments.jobs)
    _report(arguments, vars(report), str(report))
    return OK if report.ok else NO


def _certify(arguments: argparse.Namespace) -> int:
    table = None if arguments.data is None else _read(arguments)
    X, y = (None, None) if table is None else (table.X, table.y)
    bar: Any = make_bar(" facets") if _progress(arguments) else nullcontext()
    with bar as shown, _about(arguments.data or arguments.map):

        def advance(done: int, total: int) -> None:
            shown.total = total
            shown.update(done - shown.n)

        report = svmatlas.certify(arguments.map, X, y, progress=advance if shown is not None else None, n_jobs=arguments.jobs)
    _report(arguments, vars(report), str(report))
    return OK if report.ok else NO


def _compile(arguments: argparse.Namespace) -> int:
    from svmatlas.cli.prepare import compile_all

    if not arguments.quiet:
        print("compiling the kernels, once (a minute at most) ...", file=sys.stderr)
    begin = time.perf_counter()
    compile_all()
    seconds = time.perf_counter() - begin
    _report(arguments, {"seconds": seconds}, f"kernels compiled in {seconds:.1f} s")
    return OK


def _demo(arguments: argparse.Namespace) -> int:
    from svmatlas.cli.demo import run

    run(Path(arguments.output), progress=_progress(arguments))
    return OK


# ----------------------------------------------------------------------------------------------------------------------
# Helpers


def _read(arguments: argparse.Namespace) -> Table:
    table = read_table(arguments.data, arguments.label, arguments.format)
    n = len(np.unique(table.y)) if table.y is not None else 0
    if n != 2:
        raise DataError(f"{arguments.data}: two labels are needed, the column of labels has {n}")
    return table


def _rows(table: Table, arguments: argparse.Namespace) -> Any:
    """The features, standardised over all rows if that is asked for."""
    if not arguments.standardize:
        return table.X
    return standardize_columns(table.X, np.ones(table.X.shape[0]), table.names).standardized(table.X)


def _names(atlas: svmatlas.Atlas) -> Sequence[str]:
    return atlas.columns.names or [str(j) for j in range(atlas._problem.features.n_features)]


def _pairs(four: Sequence[float] | None) -> tuple[tuple[float, float], tuple[float, float]] | None:
    return None if four is None else ((four[0], four[1]), (four[2], four[3]))


def _folds(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--cv must be a number of folds or a share to hold out, got {text!r}") from None


def _progress(arguments: argparse.Namespace) -> bool:
    """A bar for people who watch: standard error is a terminal, and tqdm is installed."""
    if arguments.quiet or not sys.stderr.isatty():
        return False
    from importlib.util import find_spec

    return find_spec("tqdm") is not None


def _sizes(atlas: svmatlas.Atlas) -> dict[str, Any]:
    return {
        "complete": atlas.complete, "n_facets": atlas.n_facets, "n_edges": atlas.n_edges,
        "n_vertices": atlas.n_vertices, "n_layers": atlas.n_layers,
    }  # fmt: skip


def _report(arguments: argparse.Namespace, facts: dict[str, Any], text: str) -> None:
    """The result, for programs or for people."""
    print(json.dumps(plain(facts), allow_nan=False) if arguments.json else text)


def plain(value: Any) -> Any:
    """A value as JSON knows it; infinity and NaN are null."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def _about(source: str) -> Iterator[None]:
    """Errors say which file they are about."""
    try:
        yield
    except ValueError as error:
        raise DataError(f"{source}: {error}") from None
