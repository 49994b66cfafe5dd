"""Data files of every kind read the same; what is wrong in one is named by file, row and column."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file

from svmatlas.cli.tables import DataError, Wanted, read_table

X = np.array([[1.5, -2.0, 0.0], [0.25, 1e-3, 4.0], [7.0, 0.0, 1.0]])
Y = np.array([1, 0, 1])


@pytest.fixture
def write(tmp_path):
    def put(content, name="data.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return put


def csv_text(header=True, delimiter=","):
    rows = [["a", "b", "c", "label"]] * header
    rows += [[*map(repr, x.tolist()), str(label)] for x, label in zip(X, Y, strict=True)]
    return "\n".join(delimiter.join(row) for row in rows) + "\n"


def npz_bytes(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def parquet_bytes(columns):
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def svmlight_bytes(zero_based):
    buffer = io.BytesIO()
    dump_svmlight_file(X, Y, buffer, zero_based=zero_based)
    return buffer.getvalue()


COLUMNS = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "label": Y}


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (csv_text(), "d.csv"),
        (csv_text(header=False), "d.csv"),
        (csv_text(delimiter=";"), "d.txt"),
        (csv_text(delimiter="\t"), "d.tsv"),
        (csv_text(delimiter=" "), "d.dat"),
        ("\ufeff" + csv_text(), "d.csv"),
        (csv_text().replace("\n", "\r\n"), "d.csv"),
        ("\n" + csv_text() + "\n\n", "d.csv"),
        (svmlight_bytes(True), "d.svm"),
        (svmlight_bytes(False), "d.anything"),
        (npz_bytes(X=X, y=Y), "d.npz"),
        (npz_bytes(X=X, y=Y), "d.anything"),
        (parquet_bytes(COLUMNS), "d.parquet"),
        (parquet_bytes(COLUMNS), "d.anything"),
    ],
)
def test_all_formats_read_the_same(write, content, name):
    table = read_table(write(content, name))
    dense = table.X if isinstance(table.X, np.ndarray) else table.X.toarray()
    np.testing.assert_array_equal(dense, X)
    np.testing.assert_array_equal(table.y, Y)
    assert table.y.dtype.kind == "i"
    assert table.names in (("a", "b", "c"), None)


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(csv_text().encode())))
    np.testing.assert_array_equal(read_table("-").X, X)


@pytest.mark.parametrize("label", ["sick", "0", "-3"])
def test_the_label_may_be_any_column(write, label):
    table = read_table(write("sick,a,b\nyes,1,2\nno,3,4\n"), label)
    assert table.y.tolist() == ["yes", "no"]
    assert table.names == ("a", "b")
    np.testing.assert_array_equal(table.X, [[1, 2], [3, 4]])


def test_a_header_is_told_from_rows(write):
    assert read_table(write("1,2,yes\n3,4,no\n")).X.shape == (2, 2)
    assert read_table(write("x,y,z\n1,2,yes\n3,4,no\n")).names == ("x", "y")
    assert read_table(write('"x, left",y,z\n1,2,yes\n')).names == ("x, left", "y")


@pytest.mark.parametrize(
    ("content", "name", "label", "message"),
    [
        ("a,b,y\n1,2,0\n3,x,1\n", "d.csv", None, "d.csv, row 3, column 'b': 'x' is not a number"),
        ("1,2,0\n3,x,1\n", "d.csv", None, "d.csv, row 2, column 1: 'x' is not a number"),
        ("a,b,y\n1,2,0\n\n3,,1\n", "d.csv", None, "d.csv, row 4, column 'b': no value"),
        ("a,b,y\n1,2,0\n3,nan,1\n", "d.csv", None, "d.csv, row 3, column 'b': nan is not a finite number"),
        ("a,b,y\n1,2,0\n3,1e999,1\n", "d.csv", None, "1e999 is not a finite number"),
        ("a,b,y\n1,2,0\n3,4\n", "d.csv", None, "d.csv, row 3: 2 cells, but the first row has 3"),
        ("a,b,y\n1,2,0\n3,4,\n", "d.csv", None, "d.csv, row 3, column 'y': no label"),
        ("a,b,y\n1,2,0\n", "d.csv", "z", "d.csv: no column 'z'; the columns are a, b, y"),
        ("1,2,0\n", "d.csv", "z", "d.csv: no column 'z'; there is no header"),
        ("1,2,0\n", "d.csv", "3", "d.csv: no column 3; there are 3"),
        ("a,b,y\n", "d.csv", None, "d.csv: no rows but the header"),
        ("a\n1\n", "d.csv", None, "d.csv: one column only"),
        ('a,b\n"1,2\n', "d.csv", None, "row 2: unexpected end of data"),
        (b"a,b\n1,\xff\n", "d.csv", None, "row 2: not a text file"),
        ("", "d.csv", None, "d.csv: the file is empty"),
        ("1 1:2 2:x\n", "d.svm", None, "d.svm, row 1: index 2: 'x' is not a number"),
        ("1 1:2\n0 99999999999:2\n", "d.svm", None, "d.svm, row 2: the index 99999999999 is larger"),
        ("1 1:2\n0 2147483647:2\n", "d.svm", None, "d.svm, row 2: the index 2147483647 is larger than 134217728"),
        ("a,y,y\n1,2,0\n", "d.csv", "y", "d.csv: more than one column 'y'"),
        ("1 1:2\n0 two\n", "d.svm", None, "d.svm, row 2: 'two' is not index:value"),
        ("1 1:2\n0 1:2 1:3\n", "d.svm", None, "d.svm, row 2: an index occurs twice"),
        ("1 1:2\nno 1:2\n", "d.svm", None, "d.svm, row 2: 'no' is not a number"),
        ("1 1:2\n", "d.svm", "y", "--label does not apply"),
        ("# nothing\n", "d.svm", None, "d.svm: no rows"),
        (npz_bytes(X=X), "d.npz", None, "d.npz: no array 'y'; it has X"),
        (npz_bytes(X=X, y=Y[:2]), "d.npz", None, "'X' has 3 rows, 'y' has shape (2,)"),
        (npz_bytes(X=X[0], y=Y), "d.npz", None, "must be a table of numbers"),
        (npz_bytes(X=np.where(X == 7, np.nan, X), y=Y), "d.npz", None, "d.npz, row 2, column 0: nan is not a finite number"),
        (npz_bytes(X=X, y=np.array([{}, 1, 2])), "d.npz", None, "not an npz file of plain arrays"),
        (npz_bytes(X=X, y=Y)[:100], "d.npz", None, "not an npz file"),
        (parquet_bytes(COLUMNS | {"b": ["x", "y", "z"]}), "d.parquet", None, "column 'b': string is not a number"),
        (parquet_bytes(COLUMNS | {"b": [1, None, 3]}), "d.parquet", None, "d.parquet, row 1, column 'b': no value"),
        (b"PAR1 and no more", "d.parquet", None, "not a Parquet file"),
    ],
)
def test_errors_say_where(write, content, name, label, message):
    with pytest.raises(DataError) as error:
        read_table(write(content, name), label)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match=r"none\.csv: No such file"):
        read_table(str(tmp_path / "none.csv"))


@pytest.mark.parametrize(
    ("content", "name", "label"),
    [
        ("a,b,c\n1,2,3\n", "d.csv", None),
        ("1,2,3,yes\n", "d.csv", "-1"),
        ("1 1:1 2:2 3:3\n", "d.svm", None),
        (npz_bytes(X=np.array([[1.0, 2, 3]])), "d.npz", None),
        (npz_bytes(X=np.array([[1.0, 2, 3]]), y=np.zeros((2, 2))), "d.npz", None),
        (parquet_bytes({"a": [1], "b": [2], "c": [3], "label": ["yes"]}), "d.parquet", "label"),
    ],
)
def test_data_to_predict_need_no_labels(write, content, name, label):
    table = read_table(write(content, name), label, wanted=Wanted(3, None))
    dense = table.X if isinstance(table.X, np.ndarray) else table.X.toarray()
    np.testing.assert_array_equal(dense, [[1, 2, 3]])
    assert table.y is None
    with pytest.raises(DataError, match=r"but the map has (7|1)"):
        read_table(write(content, name), label, wanted=Wanted(1 if name.endswith("svm") else 7, None))


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("c,who,a,b\n3,me,1,2\n", "d.csv"),
        (parquet_bytes({"c": [3], "who": ["me"], "when": [None], "a": [1], "b": [2]}), "d.parquet"),
    ],
)
def test_columns_to_predict_are_matched_by_name(write, content, name):
    path = write(content, name)
    table = read_table(path, wanted=Wanted(3, ("a", "b", "c")))
    np.testing.assert_array_equal(table.X, [[1, 2, 3]])
    assert table.names == ("a", "b", "c")
    with pytest.raises(DataError, match=r"d\.\w+: no column 'd'; the columns are 'c', 'who'"):
        read_table(path, wanted=Wanted(3, ("a", "b", "d")))
    with pytest.raises(DataError, match=r"d\.\w+: no column 'b'; the columns are 'c', 'who'"):
        read_table(path, "b", wanted=Wanted(3, ("a", "b", "c")))


def test_svmlight_pads_missing_features(write):
    assert read_table(write("1 1:1\n", "d.svm"), wanted=Wanted(5, None)).X.shape == (1, 5)


@given(st.text(alphabet='0123456789.,;:e-+ab"# \n', max_size=60))
def test_any_text_gives_a_table_or_a_data_error(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "fuzz.csv"
    path.write_text(text)
    for kind in ("csv", "svmlight"):
        try:
            table = read_table(str(path), kind=kind)
        except DataError as error:
            assert "\n" not in str(error)  # noqa: PT017
        else:
            assert table.X.shape[0] == len(table.y) > 0
            assert table.names is None or table.X.shape[1] == len(table.names)
