"""A problem as named arrays and plain values, for files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse

from svmatlas.data.columns import Columns, check_names
from svmatlas.data.features import Features
from svmatlas.data.kernels import Kernel
from svmatlas.data.problem import ZERO, Problem
from svmatlas.engine.workspace import Data, States
from svmatlas.support.arrays import KINDS, FileError, digest_of, explained, read_arrays, write_arrays
from svmatlas.support.writing import naming, placing

Array = npt.NDArray[Any]

Range = tuple[Array, tuple[int, ...], float, float]
"""An array, the shape that it should have, and its least and largest values."""

BY_POINT = ("norm", "target_jitter", "weight", "weight_jitter")
"""What the rows of ``data.point`` are."""


def take_apart(problem: Problem) -> tuple[dict[str, Array], dict[str, Any]]:
    """All arrays of a problem by name, and all its other values."""
    features, kernel = problem.features, problem.features.kernel
    if not isinstance(kernel.name, str):
        raise ValueError("an atlas with a callable as kernel cannot be saved: use kernel='precomputed'")
    arrays: dict[str, Any] = {}
    data = problem.data
    arrays |= {"data.rows": data.rows, "data.point": np.array([getattr(data, name) for name in BY_POINT])}
    arrays |= {"data.axis": data.axis, "data.probe": data.probe}
    for name in ("classes", "point", "weight", "sign", "distinct"):
        arrays[f"problem.{name}"] = getattr(problem, name)
    for name in ("center", "scale"):
        if getattr(problem.columns, name) is not None:
            arrays[f"columns.{name}"] = getattr(problem.columns, name)
    arrays["features.origin"] = features.origin
    if features.factor is not None:
        arrays["features.factor"] = features.factor
    if features.turn is not None:
        arrays["features.turn"] = features.turn
    if issparse(features.X):
        arrays |= {f"X.{name}": getattr(features.X, name) for name in ("data", "indices", "indptr")}
    elif features.X is not None:
        arrays["X"] = features.X
    is_object = problem.classes.dtype.kind == "O"
    if is_object and all(isinstance(label, str) for label in problem.classes):
        arrays["problem.classes"] = problem.classes.astype(str)
    parameters = {
        "kernel": {"name": kernel.name, "gamma": kernel.gamma, "degree": kernel.degree, "coef0": kernel.coef0},
        "bias": features.bias,
        "n_features": features.n_features,
        "names": problem.columns.names,
        "exponent": features.exponent,
        "cost_exponent": problem.cost_exponent,
        "rank": problem.data.rank,
        "anchor": problem.data.anchor,
        "seed": problem.seed,
        "object_labels": is_object,
    }
    return checked(arrays), parameters


def checked(arrays: dict[str, Any]) -> dict[str, Array]:
    """The arrays, contiguous; ValueError if a file cannot hold one of them."""
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    for name, array in whole.items():
        if array.dtype.kind not in KINDS:
            raise ValueError(f"{name.split('.')[-1]} of type {array.dtype} cannot be saved")
    return whole


def identity(problem: Problem) -> dict[str, Any]:
    """What makes two problems the same, by name: values of the user, digests of his data."""
    arrays, parameters = take_apart(problem)
    rows = [name for name in arrays if name == "X" or name.startswith("X.")] or ["data.rows"]  # a factor is rounded anew
    labels = ["problem.classes", "problem.sign", "problem.point"]
    return {
        "X": digest_of(arrays, [*rows, "problem.point"]),
        "y": digest_of(arrays, labels),
        "sample_weight": digest_of(arrays, ["problem.weight"]),
        "bias": parameters["bias"],
        "kernel": parameters["kernel"],
        "standardize": digest_of(arrays, [name for name in arrays if name.startswith("columns.")]),
        "feature_names": None if parameters["names"] is None else list(parameters["names"]),
        "random_state": parameters["seed"],
    }


def put_together(held: dict[str, Array], parameters: dict[str, Any]) -> Problem:
    """The problem of some arrays, which are not views of a file; ValueError if they do not belong together."""
    rows = held["data.rows"]
    data = Data(
        rows=rows, columns=np.ascontiguousarray(rows.T), axis=held["data.axis"], probe=held["data.probe"],
        rank=parameters["rank"], anchor=parameters["anchor"], **dict(zip(BY_POINT, held["data.point"], strict=True)),
    )  # fmt: skip
    n_features, origin = parameters["n_features"], held["features.origin"]
    X: Any = held.get("X")
    if "X.data" in held:
        X = csr_array((held["X.data"], held["X.indices"], held["X.indptr"]), shape=(origin.size, n_features))
    features = Features(
        Kernel(**parameters["kernel"]), parameters["bias"], n_features, parameters["exponent"], origin,
        held.get("features.factor"), X, held.get("features.turn"),
    )  # fmt: skip
    classes = held["problem.classes"].astype(object) if parameters["object_labels"] else held["problem.classes"]
    problem = Problem(
        data, features, _columns(held, parameters["names"]), classes, held["problem.point"], held["problem.weight"],
        held["problem.sign"], held["problem.distinct"], parameters["cost_exponent"], parameters["seed"],
    )  # fmt: skip
    _check_columns(problem.columns, n_features)
    check_ranges(_ranges(problem))
    return problem


def _columns(arrays: dict[str, Array], names: list[str] | None) -> Columns:
    return Columns(None if names is None else tuple(names), arrays.get("columns.center"), arrays.get("columns.scale"))


def _check_columns(columns: Columns, n_features: int) -> None:
    """Names and scaling are those of the features."""
    if columns.names is not None:
        check_names(columns.names, n_features)
    for array, low in ((columns.center, -np.inf), (columns.scale, 0.0)):
        if array is not None and not (array.shape == (n_features,) and np.all((array > low) & np.isfinite(array))):
            raise ValueError("its arrays do not belong together")


def _ranges(problem: Problem) -> list[Range]:
    """Numbers that say where to look must not lead outside: compiled code follows them blindly."""
    n_points, n_columns = problem.n_points, problem.data.rows.shape[1]
    return [
        (problem.point, problem.weight.shape, ZERO, n_points - 1),
        (problem.distinct, (n_points,), 0, problem.features.origin.size - 1),
        (problem.data.axis, (n_points,), 0, 1),
        *((getattr(problem.data, name), (n_points,), -np.inf, np.inf) for name in BY_POINT),
        (problem.data.probe, (n_columns,), -np.inf, np.inf),
        (np.array(problem.data.rank), (), 0, min(n_points, n_columns)),
    ]


def check_ranges(ranges: list[Range]) -> None:
    """ValueError if an array has another shape, or values out of its range."""
    for array, shape, low, high in ranges:
        if array.shape != shape or not (array.size == 0 or (array.min() >= low and array.max() <= high)):
            raise ValueError("its arrays do not belong together")


# ----------------------------------------------------------------------------------------------------------------------
# The file of a problem

MAGIC, FORMAT = b"SVMPROBL", 1


def write_problem(path: Path, store: str, problem: Problem, start: States) -> None:
    """Write the problem of a store, and the partition from which the layers of its map begin."""
    arrays, parameters = take_apart(problem)
    arrays["start"] = start
    with naming(path), placing(path) as draft, open(draft, "wb") as file:
        write_arrays(file, MAGIC, {"format": FORMAT, "store": store, "parameters": parameters}, arrays)
        file.flush()


def read_problem(path: Path, store: str) -> tuple[Problem, States]:
    """Read what was written; FileError if it is of another store, or not whole."""
    with explained(path, "is no problem that this version can read"):
        header, arrays = read_arrays(path, MAGIC, FORMAT)
        if header["store"] != store:
            raise FileError("it belongs to another store")
        held = {name: array.copy() for name, array in arrays.items()}
        return put_together(held, header["parameters"]), held["start"]
