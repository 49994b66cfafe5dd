"""Files of data -> arrays, for the command line: CSV, svmlight, NumPy's npz, Parquet; any of them compressed.

Whatever is wrong in a file is one sentence that names the file, the row and the column. Rows are counted as an editor counts
lines, from 1; in files that are no text, from 0 as arrays are.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import math
import sys
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from svmatlas.data.columns import match_names

Floats = npt.NDArray[np.float64]

SUFFIXES = {".svm": "svmlight", ".svmlight": "svmlight", ".libsvm": "svmlight", ".npz": "npz", ".parquet": "parquet"}

PACKED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
"""How compressed files begin."""

PACKED_SUFFIXES = (".gz", ".bz2", ".xz", ".zst")

MOST_FEATURES = 2**27
"""Largest index in an svmlight file. A model has a weight of 8 bytes for each feature up to it: 1 GiB."""


class DataError(ValueError):
    """A file that cannot be read, with where and why."""


@dataclass(frozen=True)
class Table:
    """Features, labels (None in data to predict) and the names of the features (None if they have numbers only)."""

    X: Any  # dense or CSR
    y: npt.NDArray[Any] | None
    names: tuple[str, ...] | None
    aside: tuple[npt.NDArray[Any], ...] = ()  # columns that are neither: weights, groups


@dataclass(frozen=True)
class Wanted:
    """The features of a map: how many, and their names (None if they have numbers only)."""

    n_features: int
    names: tuple[str, ...] | None


@dataclass(frozen=True)
class _Grid:
    """A table of text with the label not yet told from the features."""

    names: list[str]
    named: bool  # by a header
    rows: list[list[str]]
    lines: list[int]


def read_table(
    source: str,
    label: str | None = None,
    kind: str | None = None,
    wanted: Wanted | None = None,
    aside: Sequence[str] = (),
) -> Table:
    """Read a file, or standard input for "-"; compressed ones (gzip, bzip2, xz, zstd) are told by their content.

    Data to predict need no labels. If both the file and the map have names of columns, the features are matched by name and
    other columns are ignored. Else all columns are features, but for one that ``label`` names.

    Parameters
    ----------
    source : str
        Path of the file.
    label : str, optional
        Name or number (from 0; negative from the end) of the column of labels, or the name of the array in an npz file.
        Default: the last column, or the array "y"; none in data to predict.
    kind : {"csv", "svmlight", "npz", "parquet"}, optional
        Default: told by the suffix and the content.
    wanted : Wanted, optional
        Read data to predict: these features.
    aside : sequence of str, optional
        Names or numbers of columns, or names of arrays in an npz file, that are no features: weights, groups.

    """
    try:
        content = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    except OSError as error:
        raise DataError(f"{source}: {error.strerror or error}") from None
    name = "standard input" if source == "-" else source
    if not content.strip():
        raise DataError(f"{name}: the file is empty")
    content = _unpacked(name, content)
    path = Path(source.lower())
    suffix = Path(path.stem).suffix if path.suffix in PACKED_SUFFIXES else path.suffix
    kind = kind or SUFFIXES.get(suffix) or _guess(content)
    if kind == "svmlight" and aside:
        raise DataError(f"{name}: svmlight files have no columns for {' or '.join(aside)}")
    read: dict[str, Callable[..., Table]] = {
        "csv": _read_csv, "svmlight": _read_svmlight, "npz": _read_npz, "parquet": _read_parquet
    }  # fmt: skip
    return read[kind](name, content, label, wanted, aside)


def _unpacked(name: str, content: bytes) -> bytes:
    """The content of a compressed file; of others as it is."""
    kind = next((kind for magic, kind in PACKED.items() if content.startswith(magic)), None)
    if kind is None:
        return content
    unpack: dict[str, Callable[[bytes], bytes]] = {
        "gzip": gzip.decompress, "bzip2": bz2.decompress, "xz": lzma.decompress, "zstd": _unpack_zstd
    }  # fmt: skip
    try:
        return unpack[kind](content)
    except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error) as error:
        raise DataError(f"{name}: not a whole {kind} file ({_one_line(error)})") from None
    except ImportError:
        raise DataError(f"{name}: zstd needs Python 3.14 or the extra zstd: pip install 'svmatlas[zstd]'") from None


def _unpack_zstd(content: bytes) -> bytes:
    if sys.version_info >= (3, 14):
        from compression import zstd

        unpacked: bytes = zstd.decompress(content)
        return unpacked
    import zstandard

    parts = []
    while content:  # a file may be several frames
        frame = zstandard.ZstdDecompressor().decompressobj()
        try:
            parts.append(frame.decompress(content))
        except zstandard.ZstdError as error:
            raise ValueError(str(error)) from None
        if not frame.eof:
            raise EOFError("it ends early")
        content = frame.unused_data
    return b"".join(parts)


def _guess(content: bytes) -> str:
    """The format of some content."""
    if content[:2] == b"PK":
        return "npz"
    if content[:4] == b"PAR1":
        return "parquet"
    line = next((t for t in content.splitlines() if t.strip() and not t.startswith(b"#")), b"")
    cells = line.split(b"#")[0].split()
    return "svmlight" if len(cells) > 1 and all(b":" in cell for cell in cells[1:]) else "csv"


def _text(name: str, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        row = content[: error.start].count(b"\n") + 1
        raise DataError(f"{name}, row {row}: not a text file in UTF-8") from None


# ----------------------------------------------------------------------------------------------------------------------
# CSV


def _read_csv(name: str, content: bytes, label: str | None, wanted: Wanted | None, aside: Sequence[str]) -> Table:
    grid = _grid(name, _text(name, content), label, wanted)
    others = _aside(name, grid, aside)
    features, column = _choose(name, grid, label, wanted, others)
    X = np.empty((len(grid.rows), len(features)))
    for i, row in enumerate(grid.rows):
        for k, j in enumerate(features):
            try:
                X[i, k] = _number(row[j])
            except ValueError as error:
                raise DataError(f"{name}, row {grid.lines[i]}, column {_show(grid, j)}: {error}") from None
    y = None if column is None else _csv_labels(name, grid, column)
    names = tuple(grid.names[j] for j in features) if grid.named else None
    return Table(X, y, names, tuple(_csv_labels(name, grid, j) for j in others))


def _grid(name: str, text: str, label: str | None, wanted: Wanted | None) -> _Grid:
    """Cells of a CSV file, with or without a header, separated by commas, semicolons, tabs or blanks."""
    first = next(line for line in text.splitlines() if line.strip())
    delimiter = max(",;\t", key=first.count)
    if delimiter not in first:
        delimiter = " "
    reader = csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True, strict=True)
    rows, lines = [], []
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if any(cells):
                rows.append([cell for cell in cells if cell] if delimiter == " " else cells)
                lines.append(reader.line_num)
    except csv.Error as error:
        raise DataError(f"{name}, row {reader.line_num}: {error}") from None
    if not rows:
        raise DataError(f"{name}: no rows")
    width = len(rows[0])
    for cells, line in zip(rows, lines, strict=True):
        if len(cells) != width:
            raise DataError(f"{name}, row {line}: {len(cells)} cells, but the first row has {width}")
    named = _is_header(rows, label) or (wanted is not None and not set(rows[0]).isdisjoint(wanted.names or ()))
    names = rows[0] if named else [str(j) for j in range(width)]
    if len(rows) == named:
        raise DataError(f"{name}: no rows but the header")
    return _Grid(names, named, rows[named:], lines[named:])


def _is_header(rows: list[list[str]], label: str | None) -> bool:
    """The first row is a header if it names the label, or if none of its cells is a number where the next row has some."""
    if label in rows[0] and not _is_number(label or ""):
        return True
    below = rows[1] if len(rows) > 1 else rows[0]
    return not any(map(_is_number, rows[0])) and (len(rows) == 1 or any(map(_is_number, below)))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _aside(name: str, grid: _Grid, aside: Sequence[str]) -> list[int]:
    """Numbers of the columns that are neither features nor labels."""
    return [_label_column(name, grid, column) for column in aside]


def _choose(
    name: str, grid: _Grid, label: str | None, wanted: Wanted | None, aside: list[int]
) -> tuple[list[int], int | None]:
    """Numbers of the columns of features, in order, and of the column of labels; None for data to predict."""
    width = len(grid.names)
    column = None if label is None and wanted is not None else _label_column(name, grid, label)
    if column is not None and column in aside:
        raise DataError(f"{name}: column {_show(grid, column)} cannot also be the column of labels: use --label")
    others = [j for j in range(width) if j != column and j not in aside]
    if wanted is not None:
        return _choose_wanted(name, grid, others, wanted), None
    if not others:
        raise DataError(f"{name}: one column only, but features and labels are needed")
    return others, column


def _choose_wanted(name: str, grid: _Grid, others: list[int], wanted: Wanted) -> list[int]:
    """The features of a map among the columns that are no labels: by name if both have names, else all of them."""
    if grid.named and wanted.names is not None:
        try:
            return [others[k] for k in match_names(wanted.names, [grid.names[j] for j in others])]
        except ValueError as error:
            raise DataError(f"{name}: {error}") from None
    if len(others) != wanted.n_features:
        hint = "; --label names a column to leave out" if len(others) == wanted.n_features + 1 else ""
        raise DataError(f"{name}: {len(others)} columns of features, but the map has {wanted.n_features} features{hint}")
    return others


def _label_column(name: str, grid: _Grid, label: str | None) -> int:
    """Number of the column of labels."""
    width = len(grid.names)
    if label is None:
        return width - 1
    if grid.named and grid.names.count(label) > 1:
        raise DataError(f"{name}: more than one column {label!r}")
    if grid.named and label in grid.names:
        return grid.names.index(label)
    return _column_number(name, label, grid.names if grid.named else [], width)


def _column_number(name: str, label: str, names: list[str], width: int) -> int:
    try:
        column = int(label)
    except ValueError:
        known = f"the columns are {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}" if names else "there is no header"
        raise DataError(f"{name}: no column {label!r}; {known}") from None
    if not -width <= column < width:
        raise DataError(f"{name}: no column {column}; there are {width}")
    return column % width


def _show(grid: _Grid, column: int) -> str:
    return repr(grid.names[column]) if grid.named else str(column)


def _number(cell: str) -> float:
    """A finite number; ValueError with what the cell is instead."""
    if not cell:
        raise ValueError("no value")
    try:
        value = float(cell)
    except ValueError:
        raise ValueError(f"{_quote(cell)} is not a number") from None
    if not math.isfinite(value):
        raise ValueError(f"{cell} is not a finite number")
    return value


def _quote(cell: str) -> str:
    return repr(cell if len(cell) <= 30 else cell[:27] + "...")


def _csv_labels(name: str, grid: _Grid, column: int) -> npt.NDArray[Any]:
    cells = [row[column] for row in grid.rows]
    for cell, line in zip(cells, grid.lines, strict=True):
        if not cell:
            raise DataError(f"{name}, row {line}, column {_show(grid, column)}: no label")
    return _labels(cells)


def _labels(cells: list[str]) -> npt.NDArray[Any]:
    """Numbers if all are numbers, integers if all are integers."""
    try:
        values = np.array([float(cell) for cell in cells])
    except ValueError:
        return np.array(cells)
    whole = np.all(np.abs(values) < 2**53) and np.all(values % 1 == 0)
    return values.astype(int) if whole else values


# ----------------------------------------------------------------------------------------------------------------------
# Svmlight


def _read_svmlight(name: str, content: bytes, label: str | None, wanted: Wanted | None, aside: Sequence[str]) -> Table:
    """Lines "label index:value ...", indices from 1 unless a 0 occurs; what follows # is a comment."""
    if label is not None:
        raise DataError(f"{name}: svmlight files have their label in front, --label does not apply")
    labels: list[str] = []
    at, columns, values = [0], list[int](), list[float]()
    for number, line in enumerate(_text(name, content).splitlines(), 1):
        cells = line.split("#", 1)[0].split()
        if not cells:
            continue
        where = f"{name}, row {number}"
        try:
            _number(cells[0])
            for cell in cells[1:]:
                _add_entry(cell, columns, values)
        except ValueError as error:
            raise DataError(f"{where}: {error}") from None
        labels.append(cells[0])
        if len(set(columns[at[-1] :])) < len(columns) - at[-1]:
            raise DataError(f"{where}: an index occurs twice")
        at.append(len(columns))
    if not labels:
        raise DataError(f"{name}: no rows")
    shift = 1 if columns and min(columns) > 0 else 0
    width = max(columns, default=0) + 1 - shift
    if wanted is not None and width > wanted.n_features:
        raise DataError(f"{name}: {width} features, but the map has {wanted.n_features}")
    width = max(width, 1) if wanted is None else wanted.n_features
    X = csr_array((np.array(values, dtype=float), np.array(columns, dtype=np.intp) - shift, at), shape=(len(labels), width))
    X.sort_indices()
    return Table(X, _labels(labels) if wanted is None else None, None)


def _add_entry(cell: str, columns: list[int], values: list[float]) -> None:
    """One index:value; ValueError with what it is instead."""
    index, colon, value = cell.partition(":")
    if index == "qid":
        return
    if not colon or not (index.isascii() and index.isdecimal()):
        raise ValueError(f"{_quote(cell)} is not index:value")
    if int(index) > MOST_FEATURES:
        raise ValueError(f"the index {index} is larger than {MOST_FEATURES}, the largest that is read")
    columns.append(int(index))
    try:
        values.append(_number(value))
    except ValueError as error:
        raise ValueError(f"index {index}: {error}") from None


# ----------------------------------------------------------------------------------------------------------------------
# Files that are no text


def _read_npz(name: str, content: bytes, label: str | None, wanted: Wanted | None, aside: Sequence[str]) -> Table:
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{name}: not an npz file of plain arrays ({_one_line(error)})") from None
    key = label or "y"
    for needed in ("X", key, *aside) if wanted is None else ("X",):
        if needed not in arrays:
            raise DataError(f"{name}: no array {needed!r}; it has {', '.join(arrays) or 'none'}")
    X, y = arrays["X"], arrays[key] if wanted is None else None
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise DataError(f"{name}: the array 'X' must be a table of numbers, got shape {X.shape} of {X.dtype}")
    for other in () if wanted is not None else (key, *aside):
        if arrays[other].shape != X.shape[:1]:
            raise DataError(f"{name}: 'X' has {X.shape[0]} rows, {other!r} has shape {arrays[other].shape}")
    if wanted is not None and X.shape[1] != wanted.n_features:
        raise DataError(f"{name}: {X.shape[1]} features, but the map has {wanted.n_features}")
    return Table(_finite(name, X.astype(float), None), y, None, tuple(arrays[other] for other in aside))


def _read_parquet(name: str, content: bytes, label: str | None, wanted: Wanted | None, aside: Sequence[str]) -> Table:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise DataError(f"{name}: Parquet needs pyarrow: pip install 'svmatlas[parquet]'") from None
    try:
        table = pq.read_table(pa.BufferReader(content))
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{name}: not a Parquet file ({_one_line(error)})") from None
    grid = _Grid(list(table.column_names), True, [], [])
    others = _aside(name, grid, aside)
    features, column = _choose(name, grid, label, wanted, others)
    for j in features if column is None else [*features, column, *others]:
        if table.column(j).null_count:
            raise DataError(f"{name}, row {table.column(j).is_null().to_numpy().argmax()}, column {grid.names[j]!r}: no value")
    for j in features:
        if not (pa.types.is_integer(t := table.column(j).type) or pa.types.is_floating(t) or pa.types.is_boolean(t)):
            raise DataError(f"{name}, column {grid.names[j]!r}: {t} is not a number")
    X = np.column_stack([table.column(j).to_numpy().astype(float) for j in features])
    y = None if column is None else np.asarray(table.column(column).to_pylist())
    names = tuple(grid.names[j] for j in features)
    return Table(_finite(name, X, names), y, names, tuple(np.asarray(table.column(j).to_pylist()) for j in others))


def _finite(name: str, X: Floats, names: tuple[str, ...] | None) -> Floats:
    wrong = np.argwhere(~np.isfinite(X))
    if wrong.size:
        i, j = wrong[0]
        raise DataError(f"{name}, row {i}, column {repr(names[j]) if names else j}: {X[i, j]} is not a finite number")
    return X


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:120]
