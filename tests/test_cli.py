"""The command line: the same answers as the library, one-line errors, exit codes, whole files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Bunch

import svmatlas
from svmatlas.cli.main import main
from tests import cases

X, Y = cases.gaussian(8, 12, 3, 0.5)
X = X * [1, 10, 0.1] + [0, 5, 0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A CSV file, a map of it, and one of its standardised features."""
    path = tmp_path_factory.mktemp("cli")
    rows = [",".join([*map(repr, x.tolist()), "yes" if label else "no"]) for x, label in zip(X, Y, strict=True)]
    (path / "data.csv").write_text("\n".join(["a,b,c,sick", *rows]) + "\n")
    (path / "new.csv").write_text("\n".join(["a,b,c", *(",".join(map(repr, x.tolist())) for x in X + 0.1)]) + "\n")
    assert main(["explore", str(path / "data.csv"), "-q", "-o", str(path / "plain.atlas")]) == 0
    assert main(["explore", str(path / "data.csv"), "-q", "--standardize", "-o", str(path / "scaled.atlas")]) == 0
    return path


@pytest.fixture
def run(folder, capsys, monkeypatch):
    """Run a command in the folder: (exit code, standard output, standard error)."""
    monkeypatch.chdir(folder)
    capsys.readouterr()

    def call(*argv):
        code = main([str(a) for a in argv])
        return code, *capsys.readouterr()

    return call


@pytest.fixture(scope="module")
def atlas():
    return svmatlas.explore(X, np.where(Y == 1, "yes", "no"))


def test_a_map_holds_what_was_explored(folder, atlas):
    loaded = svmatlas.load(folder / "plain.atlas")
    np.testing.assert_array_equal(loaded.vertices, atlas.vertices)
    np.testing.assert_array_equal(loaded.edge_events, atlas.edge_events)
    assert loaded.columns.names == ("a", "b", "c")
    assert loaded.notes == {}


def test_info(run, atlas):
    code, out, err = run("info", "plain.atlas", "--json")
    facts = json.loads(out)
    assert (code, err) == (0, "")
    assert facts["n_facets"] == atlas.n_facets
    assert facts["labels"] == ["no", "yes"]
    assert facts["region"] == [[0.0, None], [0.0, None]]
    assert (facts["rows"], facts["features"], facts["standardized"]) == (20, 3, False)
    assert facts["names"] == ["a", "b", "c"]
    assert json.loads(run("info", "scaled.atlas", "--json")[1])["standardized"] is True
    assert f"{atlas.n_facets} facets" in run("info", "plain.atlas")[1]


def test_at_gives_the_exact_model(run, atlas):
    code, out, _ = run("at", "plain.atlas", "--costs", 2, 0.5, "--json")
    facts = json.loads(out)
    assert code == 0
    np.testing.assert_allclose(list(facts["coef"].values()), atlas.coef(2, 0.5))
    assert list(facts["coef"]) == ["a", "b", "c"]
    assert facts["intercept"] == pytest.approx(atlas.intercept(2, 0.5))
    assert facts["margin"] + facts["inside"] + facts["outside"] == 20
    text = dict(line.split("\t") for line in run("at", "plain.atlas", "--costs", 2, 0.5)[1].splitlines()[1:])
    assert float(text["b"]) == pytest.approx(atlas.coef(2, 0.5)[1])


def test_models_of_scaled_features_are_in_the_units_of_the_file(run):
    scaler = StandardScaler().fit(X)
    exact = svmatlas.explore(scaler.transform(X), Y)
    facts = json.loads(run("at", "scaled.atlas", "--costs", 2, 0.5, "--json")[1])
    decision = X @ list(facts["coef"].values()) + facts["intercept"]
    np.testing.assert_allclose(decision, scaler.transform(X) @ exact.coef(2, 0.5) + exact.intercept(2, 0.5))


def test_a_map_of_scaled_features_says_the_same_in_python(run, folder):
    facts = json.loads(run("at", "scaled.atlas", "--costs", 1, 1, "--predict", "data.csv", "--json")[1])
    atlas = svmatlas.load(folder / "scaled.atlas")
    np.testing.assert_array_equal(atlas.decision_function(X, 1, 1), facts["decision"])
    np.testing.assert_allclose(X @ atlas.coef(1, 1) + atlas.intercept(1, 1), facts["decision"])


@pytest.mark.parametrize("data", ["new.csv", "data.csv"])
def test_predictions(run, atlas, data):
    rows = X if data == "data.csv" else X + 0.1
    code, out, _ = run("at", "plain.atlas", "--costs", 2, 0.5, "--predict", data)
    decision = rows @ atlas.coef(2, 0.5) + atlas.intercept(2, 0.5)
    assert code == 0
    assert out.split() == np.where(decision > 0, "yes", "no").tolist()
    facts = json.loads(run("at", "plain.atlas", "--costs", 2, 0.5, "--predict", data, "--json")[1])
    np.testing.assert_allclose(facts["decision"], decision)


def rows_of(columns, header=True):
    """A CSV file of the given columns, with or without a header."""
    lines = zip(*(map(str, values) for values in columns.values()), strict=True)
    return "\n".join([",".join(columns)] * header + [",".join(line) for line in lines]) + "\n"


NAMED = {name: X[:, k].tolist() for k, name in enumerate("abc")}


@pytest.mark.parametrize("map", ["plain.atlas", "scaled.atlas"])
@pytest.mark.parametrize(
    "columns",
    [
        {name: NAMED[name] for name in "cab"},
        {"": range(20)} | NAMED,
        {"sick": ["?"] * 20, "b": NAMED["b"], "when": ["today"] * 20, "a": NAMED["a"], "c": NAMED["c"]},
    ],
    ids=["another order", "an index in front", "other columns between"],
)
def test_columns_are_matched_by_name(run, folder, map, columns):
    (folder / "columns.csv").write_text(rows_of(columns))
    code, out, _ = run("at", map, "--costs", 1, 1, "--predict", "columns.csv", "--json")
    assert code == 0
    expected = json.loads(run("at", map, "--costs", 1, 1, "--predict", "data.csv", "--json")[1])["decision"]
    np.testing.assert_allclose(json.loads(out)["decision"], expected)


@pytest.mark.parametrize(
    ("text", "label", "message"),
    [
        (rows_of({"a": NAMED["a"], "c": NAMED["c"]}), None, "no column 'b'; the columns are 'a', 'c'"),
        (rows_of({"a": NAMED["a"], "c": NAMED["c"], "B": NAMED["b"]}), None, "no column 'b'; the columns are 'a', 'c', 'B'"),
        (rows_of(NAMED).replace("a,b,c", "a,b,b"), None, "no column 'c'"),
        ("a,b,c,b\n1,2,3,4\n", None, "more than one column 'b'"),
        (rows_of(NAMED), "b", "no column 'b'; the columns are 'a', 'c'"),
        ("1,2\n3,4\n", None, "2 columns of features, but the map has 3"),
        ("0,1,2,3\n1,3,4,5\n", None, "4 columns of features, but the map has 3 features; --label names a column to leave out"),
        ("1,2,3\n3,4,5\n", "0", "2 columns of features, but the map has 3"),
    ],
)
def test_columns_that_do_not_fit_the_map(run, folder, text, label, message):
    (folder / "wrong.csv").write_text(text)
    arguments = ["at", "plain.atlas", "--costs", 1, 1, "--predict", "wrong.csv"]
    code, out, err = run(*arguments, *(["--label", label] if label else []))
    assert (code, out) == (2, "")
    assert err.startswith("svmatlas: wrong.csv: ")
    assert message in err
    assert err.count("\n") == 1


def test_columns_without_names_are_counted(run, folder):
    (folder / "bare.csv").write_text(rows_of(NAMED, header=False))
    (folder / "labels.csv").write_text(rows_of({"y": Y} | NAMED, header=False))
    expected = run("at", "plain.atlas", "--costs", 1, 1, "--predict", "data.csv")[1]
    assert run("at", "plain.atlas", "--costs", 1, 1, "--predict", "bare.csv")[:2] == (0, expected)
    assert run("at", "plain.atlas", "--costs", 1, 1, "--predict", "labels.csv", "--label", 0)[:2] == (0, expected)
    assert run("explore", "labels.csv", "--label", 0, "-o", "bare.atlas")[0] == 0  # a map without names
    (folder / "named.csv").write_text(rows_of(NAMED))
    decision = [
        json.loads(run("at", "bare.atlas", "--costs", 1, 1, "--predict", *data, "--json")[1])["decision"]
        for data in (["named.csv"], ["bare.csv"], ["data.csv", "--label", "sick"])
    ]
    assert decision[0] == decision[1] == decision[2]
    code, _, err = run("at", "bare.atlas", "--costs", 1, 1, "--predict", "data.csv")
    assert code == 2
    assert "4 columns of features, but the map has 3 features; --label names a column to leave out" in err


def test_names_that_are_numbers(run, folder):
    (folder / "years.csv").write_text(rows_of(dict(zip(("2019", "2020", "sick"), [*X.T[:2].tolist(), Y], strict=True))))
    (folder / "new.years.csv").write_text(rows_of({"2020": NAMED["b"], "2019": NAMED["a"]}))
    (folder / "other.years.csv").write_text(rows_of({"2020": NAMED["b"], "2021": NAMED["a"]}))
    assert run("explore", "years.csv", "--label", "sick", "-o", "years.atlas")[0] == 0
    labels = [run("at", "years.atlas", "--costs", 1, 1, "--predict", name)[1] for name in ("years.csv", "new.years.csv")]
    assert labels[0] == labels[1]
    assert len(labels[0].split()) == 20
    assert "no column '2019'" in run("at", "years.atlas", "--costs", 1, 1, "--predict", "other.years.csv")[2]


def test_ray(run):
    code, out, _ = run("ray", "data.csv", "--ratio", 2, "--max-cost", 5)
    lines = out.split()
    path = svmatlas.ray(X, Y, ratio=2.0, C_max=5.0)
    assert code == 0
    assert lines[0] == "C_neg,row,type"
    np.testing.assert_allclose([float(line.split(",")[0]) for line in lines[1:]], path.breakpoints)
    assert [int(line.split(",")[1]) for line in lines[1:]] == path.events[:, 0].tolist()
    assert len(json.loads(run("ray", "data.csv", "--ratio", 2, "--max-cost", 5, "--json")[1])["events"]) == len(lines) - 1


def test_select(run):
    code, out, _ = run("select", "data.csv", "--cv", 3, "--scoring", "f1", "--json")
    facts = json.loads(out)
    selection = svmatlas.select(X, Y, cv=3, scoring="f1")
    assert code == 0
    assert facts["best_score"] == pytest.approx(selection.best_score)
    assert facts["certified"] is True
    assert facts["C_pos"] == pytest.approx(selection.C_pos)
    assert "no costs do better" in run("select", "data.csv", "--cv", 3, "--scoring", "f1")[1]


def test_select_with_a_tolerance_and_a_threshold(run):
    code, out, _ = run("select", "data.csv", "--cv", 3, "--tolerance", 0.2, "--threshold", "tuned", "--json")
    facts, exact = json.loads(out), svmatlas.select(X, Y, cv=3)
    assert facts["upper_bound"] - facts["best_score"] <= 0.2
    assert facts["best_score"] <= exact.best_score <= facts["upper_bound"]
    assert facts["threshold_score"] >= facts["score"]
    assert code == (0 if facts["certified"] else 1)
    _, text, _ = run("select", "data.csv", "--cv", 3, "--tolerance", 0.2, "--threshold", "tuned")
    assert f"decision threshold {facts['threshold']:.6g}" in text


def test_plot(run, folder):
    code, _, _ = run("plot", "plain.atlas", "-o", "map.png", "--events", 0, 3, "--ray", 1, "--dpi", 40)
    assert code == 0
    assert mpl.image.imread(folder / "map.png").shape[2] == 4
    assert run("plot", "plain.atlas", "-o", "map.svg", "--scale", "triangle", "--dpi", 40)[0] == 0
    assert (folder / "map.svg").read_text().startswith("<?xml")
    assert run("plot", "plain.atlas", "-o", "map", "--dpi", 40)[0] == 0
    assert (folder / "map").read_bytes().startswith(b"\x89PNG")


def test_validate(run, folder):
    code, out, _ = run("validate", "plain.atlas", "--costs", 50)
    assert code == 0
    assert out.startswith("valid, complete")
    facts = json.loads(run("validate", "plain.atlas", "--costs", 50, "--json")[1])
    assert facts["ok"] is True
    assert facts["euler"] == 1


def test_a_map_that_is_not_complete_exits_with_1(run):
    code, out, _ = run("explore", "data.csv", "--max-facets", 20, "-o", "part.atlas", "--json")
    assert code == 1
    assert json.loads(out)["complete"] is False
    assert run("validate", "part.atlas", "--costs", 20)[0] == 0  # a part, but a valid one


def test_a_region(run):
    assert run("explore", "data.csv", "--region", 0.01, 1, 0.1, "inf", "-o", "region.atlas")[0] == 0
    assert json.loads(run("info", "region.atlas", "--json")[1])["region"] == [[0.01, 1.0], [0.1, None]]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["explore", "none.csv", "-o", "m"], "none.csv: No such file or directory"),
        (["explore", "data.csv", "-o", "nowhere/m"], "the folder nowhere does not exist"),
        (["explore", "data.csv", "--label", "well", "-o", "m"], "data.csv: no column 'well'; the columns are a, b, c, sick"),
        (["explore", "data.csv", "--label", "a", "-o", "m"], "data.csv, row 2, column 'sick': 'yes' is not a number"),
        (["explore", "new.csv", "-o", "m"], "new.csv: two labels are needed, the column of labels has 20"),
        (["explore", "data.csv", "--region", "1", "0", "0", "1", "-o", "m"], "data.csv: region: C+ needs"),
        (["info", "none.atlas"], "none.atlas: No such file or directory"),
        (["info", "data.csv"], "data.csv cannot be opened: it is not an atlas"),
        (["at", "plain.atlas", "--costs", "-1", "1"], "C_pos = -1.0"),
        (["at", "plain.atlas", "--costs", "1", "1", "--predict", "data.csv", "--label", "9"], "no column 9"),
        (["select", "data.csv", "--cv", "many"], "--cv must be"),
        (["select", "data.csv", "--scoring", "luck"], "luck"),
        (["plot", "plain.atlas", "-o", "map.jpog"], "jpog"),
        (["plot", "plain.atlas", "-o", "m.png", "--events", "99"], "row 99 does not exist"),
        (["explore", "none.csv", "-o", "fifo"], "fifo: this is no regular file"),
        (["plot", "none.atlas", "-o", "fifo"], "fifo: this is no regular file"),
        (["explore", "none.csv", "-o", "."], ".: this is a folder"),
        (["explore", "none.csv", "-o", "/dev/null"], "/dev/null: this is no regular file"),
    ],
)
def test_errors_are_one_line(run, folder, argv, message):
    if not (folder / "fifo").exists():
        os.mkfifo(folder / "fifo")
    before = sorted(folder.iterdir())
    code, out, err = run(*argv)
    assert code == 2
    assert out == ""
    assert err.startswith("svmatlas: ")
    assert message in err
    assert err.count("\n") == 1
    assert sorted(folder.iterdir()) == before


def test_an_interrupt_leaves_the_old_file(run, folder, monkeypatch):
    (folder / "old.png").write_bytes(b"old")

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", interrupted)
    before = sorted(folder.iterdir())
    code, _, err = run("plot", "plain.atlas", "-o", "old.png")
    assert code == 130
    assert err == "svmatlas: interrupted\n"
    assert (folder / "old.png").read_bytes() == b"old"
    assert sorted(folder.iterdir()) == before


def test_as_a_program(folder):
    """``python -m svmatlas`` reads standard input, and does not mind a reader that leaves."""
    command = f"{sys.executable} -m svmatlas ray - --label sick < data.csv | head -1"
    environment = os.environ | {"PYTHONPATH": str(Path(svmatlas.__file__).parents[1])}
    done = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "C_neg,row,type\n"
    assert done.stderr == ""


@pytest.mark.parametrize("argv", [[], ["fly"], ["at", "plain.atlas"], ["explore", "data.csv", "--lab", "x", "-o", "m"]])
def test_wrong_use(run, argv):
    with pytest.raises(SystemExit) as exit_info:
        run(*argv)
    assert exit_info.value.code == 2


@pytest.mark.parametrize("command", ["explore", "info", "at", "ray", "select", "plot", "validate", "compile", "demo"])
def test_help_has_an_example(run, capsys, command):
    with pytest.raises(SystemExit) as exit_info:
        run(command, "--help")
    assert exit_info.value.code == 0
    assert f"example:\n  svmatlas {command}" in capsys.readouterr().out


@pytest.mark.parametrize("scaling", [[], ["--standardize"]])
def test_sparse_data(run, folder, scaling):
    sparse = np.where(np.abs(X) > 0.5, X, 0.0)
    rows = zip(sparse.tolist(), Y, strict=True)
    lines = [" ".join([str(label), *(f"{j + 1}:{v!r}" for j, v in enumerate(x) if v)]) for x, label in rows]
    (folder / "data.svm").write_text("\n".join(lines) + "\n")
    assert run("explore", "data.svm", *scaling, "-o", "sparse.atlas")[0] == 0
    scale = StandardScaler(with_mean=False).fit(sparse).scale_ if scaling else np.ones(3)
    atlas = svmatlas.explore(sparse / scale, Y)
    facts = json.loads(run("at", "sparse.atlas", "--costs", 1, 2, "--predict", "data.svm", "--json")[1])
    decision = sparse / scale @ atlas.coef(1, 2) + atlas.intercept(1, 2)
    np.testing.assert_allclose(facts["decision"], decision, rtol=1e-9, atol=1e-9)


def test_demo(run, folder, monkeypatch):
    X, y = cases.gaussian(30, 35, 2, 1.0)
    data = Bunch(data=X, target=y, target_names=np.array(["malignant", "benign"]), feature_names=["one", "two"])
    monkeypatch.setattr("svmatlas.cli.demo.load_breast_cancer", lambda: data)
    code, out, _ = run("demo", "-q", "-o", "pictures")
    assert code == 0
    assert "valid, complete" in out
    assert "no costs do better" in out
    assert out.startswith("The map to look at will be pictures/map.html")
    names = {"map.html", "map.png", "triangle.png", "alpha.png", "selection.png"}
    assert {path.name for path in (folder / "pictures").iterdir()} == names
    assert all(name in out for name in names)


def test_compile_says_how_long_it_took(capsys):
    assert main(["compile", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["seconds"] > 0
    assert "once" in err


def test_a_page_holds_the_map_and_held_out_rows(run, folder):
    code, out, _ = run("page", "scaled.atlas", "--data", "data.csv", "--label", "sick", "-o", "map.html", "--title", "a <b>")
    assert (code, out) == (0, "written to map.html\n")
    text = (folder / "map.html").read_text()
    assert "a <b>" not in text  # texts of the user are in the packed data only
    assert text.startswith("<!doctype html>")


def test_a_page_needs_the_labels_of_the_map(run, folder):
    (folder / "other.csv").write_text((folder / "data.csv").read_text().replace("yes", "maybe"))
    code, _, err = run("page", "plain.atlas", "--data", "other.csv", "-o", "map2.html")
    assert (code, err) == (2, "svmatlas: other.csv: labels are not those of the map, no and yes\n")
    assert not (folder / "map2.html").exists()
