"""The rows to check a map against: those that are given, or those that lie in its file.

A point is one or several equal rows of one class (docs/format.md, section Points). Rows are signed, the bias constant is
appended, and all is multiplied by the power of two of the file, which is exact. Where there are many more columns than rows,
or a kernel, their inner products are made instead, with a bound on their rounding for a linear kernel. The matrix of another
kernel, as it is computed here, is taken as the input; of a polynomial kernel with few monomials, these.
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import comb, factorial, fsum, prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.proof.reading import Map, ProofError

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

MANY = 256
"""Columns, or monomials, up to which rows are used as they are, be they fewer."""

COLUMNS = 2**14
"""Columns that are multiplied at once."""

ROUNDED = 2.0**-40
"""Relative rounding of sums of weights, by whatever order."""

SAME = 1e-7
"""Error of inner products of rows that stand for others, relative to their lengths: beyond it they are other rows. It does not
enter any bound."""

UNIT = 2.0**-53
"""Unit roundoff of doubles."""

DROPPED, ZERO = -1, -2


class Points(NamedTuple):
    """Signed points; either ``rows`` or ``gram``."""

    rows: Floats | None  # (n, d)
    gram: Floats | None  # (n, n) inner products
    gram_error: Floats | None  # (n, n) bounds on their errors
    weight: Floats  # (n,)
    positive: npt.NDArray[np.bool_]  # (n,)


def make_points(stored: Map, X: Any, y: Any, sample_weight: Any) -> tuple[Points, list[str]]:
    """The points of given data, or of the file if X is None; and what does not belong together."""
    parameters, point = stored.parameters, stored.arrays["problem.point"]
    n = stored.arrays["split.start"].size
    if X is None:
        given, sign, weight = _stored_rows(stored), stored.arrays["problem.sign"], stored.arrays["problem.weight"]
        faults = _check_point(point, n)
    else:
        given, sign, weight = _given_rows(stored, X), _signs(stored, y), _weights(sample_weight, len(point))
        if len(given) != point.size or sign.size != point.size:
            raise ProofError(f"the map was made of {point.size} rows, got X with {len(given)} and y with {sign.size}")
        faults = _check_point(point, n) or _check_equal(point, given, sign, weight, parameters)
        if not np.array_equal(weight, stored.arrays["problem.weight"]):
            raise ProofError("sample_weight is not that of the map")
        if not np.array_equal(sign, stored.arrays["problem.sign"]):
            faults.append("the file has other labels of rows than y")
    if faults:
        return Points(None, None, None, np.ones(0), np.ones(0, dtype=bool)), faults
    first = np.empty(n, dtype=np.intp)
    held = np.flatnonzero(point >= 0)[::-1]
    first[point[held]] = held
    order = np.argsort(point, kind="stable")[np.sum(point < 0) :]
    groups = np.split(weight[order], np.flatnonzero(np.diff(point[order])) + 1) if order.size else []
    total = np.array([fsum(group) for group in groups])
    total = np.ldexp(total, -2 * parameters["exponent"] - parameters["cost_exponent"])
    points = _make(parameters, given, first, sign[first], total)
    return points, _check_stored(stored, points, given, first)


def _check_stored(stored: Map, points: Points, given: Any, first: Array) -> list[str]:
    """The rows and weights in the file, which models are made of, are those that are checked."""
    arrays, faults = stored.arrays, []
    if not np.array_equal(arrays["data.axis"], np.where(points.positive, 0, 1)):
        faults.append("the file has points of other classes")
    shift = arrays["data.point"][2] - points.weight
    if not np.all(np.abs(shift) <= ROUNDED * points.weight):
        faults.append("the file has other weights of points")
    if "X.data" in arrays or "X" in arrays:
        own = _stored_rows(stored)
        wrong = [i for i in first.tolist() if np.any(_dense(own, np.array([i])) != _dense(given, np.array([i])))]
        return faults + [f"row {i} of the file is not that of X" for i in wrong[:5]] + _check_factor(arrays, points)
    if points.rows is not None and "features.factor" not in arrays:
        wrong = np.flatnonzero(np.any(arrays["data.rows"] != points.rows, axis=1)).tolist()
        return faults + [f"row {first[i]} of the file is not that of X" for i in wrong[:5]]
    return faults + _check_factor(arrays, points)


def _check_factor(arrays: dict[str, Array], points: Points) -> list[str]:
    """Rows of the engine that stand for others have the same inner products, up to rounding."""
    own, n = arrays["data.rows"], len(points.weight)
    length = np.linalg.norm(own, axis=1)
    for k in range(0, n, COLUMNS):
        given = points.gram[k : k + COLUMNS] if points.gram is not None else points.rows[k : k + COLUMNS] @ points.rows.T  # type: ignore[index,union-attr]
        wrong = ~(np.abs(own[k : k + COLUMNS] @ own.T - given) <= SAME * np.outer(length[k : k + COLUMNS], length))
        if wrong.any():
            return [f"point {k + int(np.argmax(wrong.any(axis=1)))} of the file has other inner products than its rows"]
    return []


def _make(parameters: dict[str, Any], given: Any, first: Array, sign: Floats, weight: Floats) -> Points:
    kernel, bias, exponent = parameters["kernel"]["name"], parameters["bias"], parameters["exponent"]
    positive, few = sign > 0, max(MANY, first.size)
    own = None
    if kernel == "linear" and given.shape[1] <= few:
        own = _dense(given, first)
        own = np.column_stack([own, np.full(first.size, bias)]) if bias else own
    elif _count_monomials(parameters["kernel"], given.shape[1]) <= few:
        own = _monomials(parameters["kernel"], _dense(given, first), bias)
    if own is not None and np.all(np.isfinite(own)):
        return Points(np.ldexp(own, exponent) * sign[:, None], None, None, weight, positive)
    error = np.zeros((first.size, first.size))
    if kernel == "linear":
        gram, error = _products(given, first)
        gram, error = gram + bias**2, error + 2 * UNIT * (np.abs(gram) + bias**2)
    elif kernel == "precomputed":
        gram = _dense(given, first)[:, first] + bias**2
    else:
        gram = _kernel(parameters["kernel"], _dense(given, first)) + bias**2
    return Points(None, np.ldexp(gram, 2 * exponent) * np.outer(sign, sign), np.ldexp(error, 2 * exponent), weight, positive)


def _products(given: Any, first: Array) -> tuple[Floats, Floats]:
    """Inner products of rows, and bounds on their errors."""
    gram, size = np.zeros((first.size, first.size)), np.zeros((first.size, first.size))
    used = _used_columns(given)
    for k in range(0, used.size, COLUMNS):
        part = _dense(given, first, used[k : k + COLUMNS])
        gram += part @ part.T
        size += np.abs(part) @ np.abs(part).T
    return gram, (used.size + 4) * UNIT * size * (1 + 2.0**-20)


def _count_monomials(kernel: dict[str, Any], d: int) -> float:
    """Columns that a polynomial kernel stands for; infinite if it is none, or these are not real."""
    m = kernel["degree"]
    return comb(d + int(m), int(m)) if kernel["name"] == "poly" and m == int(m) and kernel["coef0"] >= 0 else np.inf


def _monomials(kernel: dict[str, Any], X: Floats, bias: float) -> Floats:
    """Rows whose inner products are (gamma x.y + coef0)^degree + bias^2: monomials, times roots of their coefficients."""
    m, coef0 = int(kernel["degree"]), np.float64(kernel["coef0"])
    gamma, X = _balanced(kernel, X)
    squares: dict[bytes, float] = {}  # coefficients of monomials; those that are equal for all rows are one
    for k in range(m + 1):
        for which in combinations_with_replacement(range(X.shape[1]), k):
            orders = factorial(k) // prod(factorial(which.count(j)) for j in set(which))
            column = (np.prod(X[:, list(which)], axis=1) + 0.0).tobytes()
            added = comb(m, k) * orders * gamma**k * coef0 ** (m - k) + (0.0 if which else bias**2)
            squares[column] = squares.get(column, 0.0) + added
    return np.column_stack([np.sqrt(square) * np.frombuffer(column) for column, square in squares.items()])


def _balanced(kernel: dict[str, Any], X: Floats) -> tuple[np.float64, Floats]:
    """Gamma between 1 and 4, and rows to go with it: powers of two are exact, powers of a tiny gamma are not."""
    gamma = np.float64(kernel["gamma"])
    half = int(np.frexp(gamma)[1] - 1) // 2 if gamma > 0 else 0
    return np.ldexp(gamma, -2 * half), np.ldexp(X, half)


def _kernel(kernel: dict[str, Any], X: Floats) -> Floats:
    """The matrix of a kernel by its definition."""
    gamma, X = _balanced(kernel, X)
    if kernel["name"] == "poly":
        values: Floats = (gamma * (X @ X.T) + kernel["coef0"]) ** kernel["degree"]
        return values
    if kernel["name"] != "rbf":
        raise ProofError(f"there is no kernel of the name {kernel['name']}")
    squares = np.array([np.sum((X - row) ** 2, axis=1) for row in X])
    return np.asarray(np.exp(-gamma * squares))


# ----------------------------------------------------------------------------------------------------------------------
# Data as they come


class _Sparse(NamedTuple):
    """Rows of a sparse matrix."""

    data: Floats
    indices: Array
    indptr: Array
    shape: tuple[int, int]

    def __len__(self) -> int:
        return self.shape[0]


def _dense(X: Any, rows: Array, columns: Array | None = None) -> Floats:
    """Some rows, and of these some columns, ascending."""
    if not isinstance(X, _Sparse):
        return np.asarray(X[rows] if columns is None else X[np.ix_(rows, columns)], dtype=float)
    which = np.arange(X.shape[1]) if columns is None else columns
    out = np.zeros((rows.size, which.size))
    for k, i in enumerate(rows.tolist()):
        part = slice(X.indptr[i], X.indptr[i + 1])
        place = np.searchsorted(which, X.indices[part])
        held = (place < which.size) & (which[np.minimum(place, which.size - 1)] == X.indices[part])
        np.add.at(out[k], place[held], X.data[part][held])
    return out


def _used_columns(X: Any) -> Array:
    return np.unique(X.indices) if isinstance(X, _Sparse) else np.arange(X.shape[1])


def _given_rows(stored: Map, X: Any) -> Any:
    """The user's rows, standardised as the map says."""
    names, scale, center = stored.parameters["names"], stored.arrays.get("columns.scale"), stored.arrays.get("columns.center")
    if hasattr(X, "columns") and names is not None:
        X = X[list(names)]
    if hasattr(X, "tocsr"):
        X = X.tocsr()
        rows = _Sparse(np.asarray(X.data, dtype=float), X.indices, X.indptr, tuple(X.shape))
        if center is None:
            return rows if scale is None else rows._replace(data=rows.data / scale[rows.indices])
        X = _dense(rows, np.arange(len(rows)))
    X = np.asarray(X, dtype=float)
    n_features = stored.parameters["n_features"]
    if X.ndim != 2 or X.shape[1] != n_features or not np.all(np.isfinite(X)):
        raise ProofError(f"X must have {n_features} columns of finite numbers")
    X = X if center is None else X - center
    return X if scale is None else X / scale


def _stored_rows(stored: Map) -> Any:
    """The rows that the file holds, as many as the user's."""
    arrays, parameters = stored.arrays, stored.parameters
    point, distinct = arrays["problem.point"], arrays["problem.distinct"]
    if parameters["kernel"]["name"] == "precomputed":
        raise ProofError("the map holds no kernel matrix: give the data")
    row = np.zeros(point.size, dtype=np.intp)
    held = point >= 0
    row[held] = distinct[point[held]]
    if "X.data" in arrays:
        shape = (arrays["features.origin"].size, parameters["n_features"])
        own = _Sparse(arrays["X.data"], arrays["X.indices"], arrays["X.indptr"], shape)
        return own if np.array_equal(row, np.arange(len(own))) else _some_rows(own, row)
    if "X" in arrays:
        return arrays["X"][row]
    rows = np.ldexp(arrays["data.rows"][:, : parameters["n_features"]], -parameters["exponent"])
    rows = rows * np.where(arrays["data.axis"] == 0, 1.0, -1.0)[:, None]
    return rows[np.where(held, point, 0)] if held.any() else np.zeros((point.size, rows.shape[1]))


def _some_rows(X: _Sparse, rows: Array) -> _Sparse:
    sizes = np.diff(X.indptr)[rows]
    at = np.concatenate([[0], np.cumsum(sizes)])
    place = np.concatenate([np.arange(X.indptr[i], X.indptr[i + 1]) for i in rows]) if rows.size else at[:0]
    return _Sparse(X.data[place], X.indices[place], at, (rows.size, X.shape[1]))


def _signs(stored: Map, y: Any) -> Floats:
    classes = stored.arrays["problem.classes"]
    y = np.asarray(y).ravel()
    labels = y.astype(str) if classes.dtype.kind == "U" else y
    if not np.array_equal(np.unique(labels), np.unique(classes)):
        raise ProofError(f"the labels of the map are {classes.tolist()}, got {np.unique(labels).tolist()[:5]}")
    return np.where(labels == classes[1], 1.0, -1.0)


def _weights(sample_weight: Any, n: int) -> Floats:
    return np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=float)


def _check_point(point: Array, n: int) -> list[str]:
    if point.min(initial=0) < ZERO or point.max(initial=-1) >= n or np.unique(point[point >= 0]).size != n:
        return ["rows name points that there are not, or a point has no row"]
    return []


def _check_equal(point: Array, X: Any, sign: Floats, weight: Floats, parameters: dict[str, Any]) -> list[str]:
    """Rows of one point are equal and of one class; rows without a point weigh nothing, or are zero."""
    faults: list[str] = []
    first: dict[int, int] = {}
    linear = parameters["kernel"]["name"] == "linear"
    for i, p in enumerate(point.tolist()):
        if p == DROPPED and weight[i] != 0:
            faults.append(f"row {i} is left out but has a weight")
        elif p == ZERO and linear and (parameters["bias"] or np.any(_dense(X, np.array([i])))):
            faults.append(f"row {i} is said to be zero")
        elif p >= 0 and weight[i] == 0:
            faults.append(f"row {i} has no weight but is a point")
        elif p >= 0 and first.setdefault(p, i) != i:
            j = first[p]
            if sign[i] != sign[j] or np.any(_dense(X, np.array([i])) != _dense(X, np.array([j]))):
                faults.append(f"rows {i} and {j} are said to be equal")
    return faults[:5]
