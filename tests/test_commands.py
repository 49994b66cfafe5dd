"""The command line: what it imports, labels, weights, groups, kernels, compressed data, estimates and exports."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import subprocess
import sys

import numpy as np
import pytest
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.preprocessing import StandardScaler

import svmatlas
from svmatlas.cli.main import main
from svmatlas.cli.tables import DataError, read_table

RNG = np.random.default_rng(0)
Y = np.arange(36) % 3 == 0
X = np.round(RNG.normal(size=(36, 2)) + Y[:, None], 3)
WEIGHTS = RNG.integers(1, 4, 36)
GROUPS = np.arange(36) // 4
REGION = ((0.1, 2.0), (0.1, 2.0))
BOX = ("--region", "0.1", "2", "0.1", "2")


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = zip(X, WEIGHTS, GROUPS, Y, strict=True)
    lines = ["a,b,w,ward,sick", *(f"{x[0]},{x[1]},{w},g{g},{'yes' if y else 'no'}" for x, w, g, y in rows)]
    (tmp_path / "data.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


@pytest.fixture
def run(data, capsys):
    def call(*argv, code=0):
        capsys.readouterr()
        found = main([*argv, "-q"])
        out, err = capsys.readouterr()
        assert found == code, err
        return (json.loads(out) if "--json" in argv else out) if code < 2 else err

    return call


def columns(*more):
    return ("data.csv", "--weights", "w", *more, "--json")


def test_help_imports_nothing_heavy():
    program = "import sys; from svmatlas.cli.main import main\ntry: main(['explore', '--help'])\nexcept SystemExit: pass\n"
    program += "print([name for name in ('numpy', 'scipy', 'sklearn', 'numba') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_package_shows_and_imports_its_names_when_they_are_used():
    program = "import svmatlas, sys\nassert 'numpy' not in sys.modules\nassert 'explore' in dir(svmatlas)\n"
    program += "svmatlas.scoring.fbeta(2.0); svmatlas.plot.AtlasDisplay\n"
    program += "for name in svmatlas.__all__: getattr(svmatlas, name)\n"
    program += "try: svmatlas.nothing\nexcept AttributeError: print('none')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "none\n"


def test_positive_weights_and_groups(run):
    found = run("select", *columns("--groups", "ward", "--positive", "no", "--cv", "2", "--scoring", "f1", *BOX))
    own = svmatlas.select(
        X, Y, cv=StratifiedGroupKFold(2), groups=GROUPS, sample_weight=WEIGHTS, pos_label=False, scoring="f1", region=REGION
    )  # fmt: skip
    assert (found["best_score"], found["C_pos"]) == (own.best_score, own.C_pos)
    assert found["positive"] == "no"


def test_rules_and_scaling_of_folds(run):
    found = run(
        "select", "data.csv", "--weights", "w", "--groups", "ward", "--rule", "one_se", "--standardize", "--json", *BOX
    )
    own = svmatlas.select(
        X, Y, cv=StratifiedGroupKFold(5), groups=GROUPS, sample_weight=WEIGHTS, rule="one_se", region=REGION,
        preprocessor=StandardScaler(),
    )  # fmt: skip
    assert (found["score"], found["best_score"], found["C_neg"]) == (own.score, own.best_score, own.C_neg)


def test_kernels_and_threads(run):
    kernel = ("--kernel", "rbf", "--gamma", "0.5", "--groups", "ward")
    assert "ward" not in run("select", *columns(*kernel, "--cv", "2", "--threads", "2", *BOX))
    run("explore", "data.csv", "--weights", "w", "--label", "sick", *BOX, "-o", "map", code=2)  # ward is no number
    (svm := np.column_stack([X, Y])).tofile("unused")
    np.savetxt("plain.csv", svm, delimiter=",", header="a,b,sick", comments="")
    run("explore", "plain.csv", "--kernel", "poly", "--degree", "2", "--coef0", "1", "-j", "2", *BOX, "-o", "map")
    atlas = svmatlas.explore(X, Y, kernel="poly", degree=2, coef0=1.0, region=REGION)
    assert svmatlas.load("map").n_facets == atlas.n_facets
    events = run("ray", "plain.csv", "--kernel", "rbf", "--gamma", "auto", "--max-cost", "0.5", "--json")["events"]
    assert len(events) == svmatlas.ray(X, Y, kernel="rbf", gamma="auto", C_max=0.5).breakpoints.size


def test_estimate_and_export(run, data):
    np.savetxt("plain.csv", np.column_stack([X, Y]), delimiter=",")
    assert run("estimate", "plain.csv", "--time-budget", "1", "--json")["n_pieces"] > 100
    assert "pieces (facets, or parts of facets with ties)" in run("estimate", "plain.csv", *BOX)
    run("explore", "plain.csv", "-o", "map")
    atlas = svmatlas.load("map")
    for kind in ("parquet", "csv"):
        run("export", "map", "-o", "tables", "--format", kind)
        assert sorted(path.name for path in (data / "tables").glob(f"*.{kind}")) == [
            f"{name}.{kind}" for name in ("edges", "facets", "vertices")
        ]
    run("export", "map", "-o", "tables", "--format", "geojson")
    facets = json.loads((data / "tables" / "facets.geojson").read_text())["features"]
    assert len(facets) == atlas.n_facets
    total = 0.0
    for facet in facets:
        (ring,) = facet["geometry"]["coordinates"]
        assert ring[0] == ring[-1]
        x, y = np.array(ring).T
        total += (x[:-1] @ y[1:] - x[1:] @ y[:-1]) / 2
    assert total == pytest.approx(0.5, abs=1e-9)  # the whole quadrant is half a unit square


def pack_zstd(content):
    """Two frames, as programs write that work in parallel."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        import zstandard as zstd
    return zstd.compress(content[:50]) + zstd.compress(content[50:])


@pytest.mark.parametrize(
    ("pack", "suffix"), [(gzip.compress, "gz"), (bz2.compress, "bz2"), (lzma.compress, "xz"), (pack_zstd, "zst")]
)
def test_compressed_files_are_read(data, pack, suffix):
    whole = pack((data / "data.csv").read_bytes())
    (data / f"data.csv.{suffix}").write_bytes(whole)
    table = read_table(f"data.csv.{suffix}", aside=["w", "ward"])
    np.testing.assert_array_equal(table.X, X)
    np.testing.assert_array_equal(table.aside[0], WEIGHTS)
    svm = "\n".join(f"{int(y)} 1:{x[0]} 2:{x[1]}" for x, y in zip(X, Y, strict=True))
    (data / f"data.svm.{suffix}").write_bytes(pack(svm.encode()))
    np.testing.assert_array_equal(read_table(f"data.svm.{suffix}").X.toarray(), X)
    (data / "broken").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="broken: not a whole"):
        read_table("broken")


def test_without_its_package_zstd_says_what_to_install(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "compression" if sys.version_info >= (3, 14) else "zstandard", None)
    (data / "data.csv.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    with pytest.raises(
        DataError, match=r"data.csv.zst: zstd needs Python 3.14 or the extra zstd: pip install 'svmatlas\[zstd\]'"
    ):
        read_table("data.csv.zst", "sick")


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (("--positive", "maybe"), "no label 'maybe'; the labels are 'no' and 'yes'"),
        (("--weights", "none"), "no column 'none'"),
        (("--weights", "ward"), "weights must be numbers"),
        (("--weights", "sick"), "cannot also be the column of labels"),
    ],
)
def test_wrong_columns_and_labels_are_named(run, argv, text):
    assert text in run("select", "data.csv", "--groups", "ward", *argv, code=2)


def test_a_bar_of_an_estimate_shows_its_share(capsys):
    svmatlas.estimate(X, Y, region=REGION, time_budget=0.5, progress=True)
    text = capsys.readouterr().err
    assert "/1.5 [" in text  # a second more is allowed for the last tile
    assert text.split("\r")[-1].startswith("100%")
    assert "inf" not in text


def test_a_partial_map_tells_its_logarithmic_coverage():
    """The first facets, at the smallest costs, are large in logarithms. Random costs are explored as often as it says."""
    whole = svmatlas.explore(X, Y).validate()
    part = svmatlas.explore(X, Y, max_facets=60)
    report = part.validate()
    assert report.ok
    assert whole.log_coverage == pytest.approx(1.0, abs=1e-12)
    assert f"({100 * report.log_coverage:.2f} % of the logarithmic area)" in str(report)
    assert "logarithmic" not in str(whole)
    costs = 10 ** np.random.default_rng(0).uniform(-6, 6, (2, 2000))
    explored = np.mean(part._locator(part._problem.homogeneous(*costs)) >= 0)
    assert abs(explored - report.log_coverage) < 4 * np.sqrt(explored * (1 - explored) / costs.shape[1])
    assert 0.05 < report.log_coverage < 0.95


def test_a_message_names_its_file_once(run):
    error = run("select", "data.csv", "--weights", "w", "--groups", "ward", "--positive", "maybe", code=2)
    assert error.count("data.csv") == 1


@pytest.mark.parametrize(
    ("line", "expected"), [("svmatlas ex", "explore export"), ("svmatlas select data.csv --rule ", "best one_se")]
)
def test_a_shell_is_told_how_a_line_may_go_on(line, expected, tmp_path):
    """As argcomplete asks, for bash, zsh and fish."""
    asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": " ", "COMP_LINE": line, "COMP_POINT": str(len(line))}
    asked["_ARGCOMPLETE_STDOUT_FILENAME"] = str(tmp_path / "answer")
    program = "from svmatlas.cli.main import main; main([])"
    subprocess.run([sys.executable, "-c", program], env=os.environ | asked, check=True)
    assert (tmp_path / "answer").read_text().split() == expected.split()
