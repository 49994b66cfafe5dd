"""Atlases in files: plain arrays behind a JSON header, nothing that could run.

    8 bytes   b"SVMATLAS"
    8 bytes   length of the header, little-endian
    32 bytes  BLAKE2b digest of the header
    header    JSON: format and package version, parameters, digest of the data; name, type, shape and place of each array;
              digest and length of the body
    body      the arrays, each at a multiple of 64 bytes from the beginning of the body

A file is checked in full when it is opened: every byte is covered by a digest, so that one that was cut, altered or is
foreign gives an error, never a wrong atlas. The arrays of the mesh are then mapped into memory and read when they are needed.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import mmap
import os
from collections.abc import Iterator
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse

from svmatlas.data.columns import Columns, check_names
from svmatlas.data.features import Features
from svmatlas.data.kernels import Kernel
from svmatlas.data.problem import ZERO, Bounds, Problem
from svmatlas.engine.canonical import Canonical, untied
from svmatlas.engine.mesh import Mesh, Split
from svmatlas.engine.workspace import Data
from svmatlas.support.writing import check_goal, replacing
from svmatlas.version import __version__

if TYPE_CHECKING:
    from svmatlas.atlas.atlas import Atlas

Array = npt.NDArray[Any]

MAGIC = b"SVMATLAS"
FORMAT = 3
"""Version of the layout of the file. Since 2 the names and the scaling of the features are part of it; since 3 it has the
map of the data as they are beside that of the jittered data, if it is another one."""
PREFIX = len(MAGIC) + 8 + 32
ALIGN = 64
"""Arrays begin at multiples of this, as vector instructions like it."""
MAPPED = ("split.", "mesh.", "canonical.")
"""Parts of an atlas that make up the map."""
BY_POINT = ("norm", "target_jitter", "weight", "weight_jitter")
"""What the rows of ``data.point`` are."""
KINDS = "biufU"
"""Kinds of arrays in a file: numbers, truth values and text, never objects."""


class FileError(ValueError):
    """A file is not an atlas, or not whole."""


# ----------------------------------------------------------------------------------------------------------------------
# Writing


def save(atlas: Atlas, path: str | os.PathLike[str]) -> None:
    """Write an atlas to a file; an older one is replaced when the new one is whole."""
    check_goal(path)
    arrays, parameters = _take_apart(atlas)
    places, end = {}, 0
    for name, array in arrays.items():
        places[name] = {"type": array.dtype.str, "shape": array.shape, "at": end}
        end += -(-array.nbytes // ALIGN) * ALIGN
    body = hashlib.blake2b(digest_size=32)
    for part in _parts(arrays):
        body.update(part)
    header = {
        "format": FORMAT,
        "package": f"svmatlas {__version__}",
        "parameters": parameters,
        "data": _digest_of(arrays, [name for name in arrays if not name.startswith(MAPPED)]),
        "arrays": places,
        "body": {"length": end, "digest": body.hexdigest()},
    }
    text = json.dumps(header, allow_nan=False).encode()
    text += b" " * (-(PREFIX + len(text)) % ALIGN)
    with replacing(path) as draft, open(draft, "wb") as file:
        file.write(MAGIC + len(text).to_bytes(8, "little") + hashlib.blake2b(text, digest_size=32).digest() + text)
        for part in _parts(arrays):
            file.write(part)


def _parts(arrays: dict[str, Array]) -> Iterator[memoryview | bytes]:
    """The bytes of the body."""
    for array in arrays.values():
        if array.nbytes:
            yield array.reshape(-1).view(np.uint8).data
        yield b"\0" * (-array.nbytes % ALIGN)


def _digest_of(arrays: dict[str, Array], names: list[str]) -> str:
    digest = hashlib.blake2b(digest_size=32)
    for name in names:
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()


def _take_apart(atlas: Atlas) -> tuple[dict[str, Array], dict[str, Any]]:
    """All arrays of an atlas by name, and all its other values."""
    problem, canonical = atlas._problem, atlas._canonical
    features, kernel = problem.features, problem.features.kernel
    if not isinstance(kernel.name, str):
        raise ValueError("an atlas with a callable as kernel cannot be saved: use kernel='precomputed'")
    arrays: dict[str, Any] = {f"split.{name}": array for name, array in canonical.split.mesh._asdict().items()}
    arrays |= {f"split.{name}": getattr(canonical.split, name) for name in Split._fields[1:]}
    if canonical.mesh is not canonical.split.mesh:
        arrays |= {f"mesh.{name}": array for name, array in canonical.mesh._asdict().items()}
        arrays |= {f"canonical.{name}": getattr(canonical, name) for name in Canonical._fields[2:]}
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
    if problem.classes.dtype.kind == "O" and all(isinstance(label, str) for label in problem.classes):
        arrays["problem.classes"] = problem.classes.astype(str)
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    for name, array in whole.items():
        if array.dtype.kind not in KINDS:
            raise ValueError(f"{name.split('.')[-1]} of type {array.dtype} cannot be saved")
    return whole, _parameters(atlas)


def _parameters(atlas: Atlas) -> dict[str, Any]:
    """All values of an atlas that are not arrays."""
    problem, features, kernel = atlas._problem, atlas._problem.features, atlas._problem.features.kernel
    return {
        "region": [[lo, None if np.isinf(hi) else hi] for lo, hi in atlas.region],
        "complete": atlas.complete,
        "n_refined": atlas.n_refined,
        "n_zero": atlas.n_zero,
        "n_exact": atlas.n_exact,
        "kernel": {"name": kernel.name, "gamma": kernel.gamma, "degree": kernel.degree, "coef0": kernel.coef0},
        "bias": features.bias,
        "n_features": features.n_features,
        "names": problem.columns.names,
        "exponent": features.exponent,
        "cost_exponent": problem.cost_exponent,
        "rank": problem.data.rank,
        "anchor": problem.data.anchor,
        "seed": problem.seed,
        "object_labels": problem.classes.dtype.kind == "O",
        "notes": atlas.notes,
    }


# ----------------------------------------------------------------------------------------------------------------------
# Reading


class Stored(NamedTuple):
    """What makes an atlas."""

    problem: Problem
    bounds: Bounds
    canonical: Canonical
    complete: bool
    counts: dict[str, int]
    notes: dict[str, Any]


def read(path: str | os.PathLike[str]) -> Stored:
    """What a file holds, checked in full; FileError if it is not an atlas, not whole, or was altered."""
    try:
        with open(path, "rb") as file:
            header, begin = _read_header(file)
            if os.fstat(file.fileno()).st_size != begin + header["body"]["length"]:
                raise FileError("it is cut off or has grown: it is not as long as it says")
            view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)  # writable for compiled code, which never writes
        if hashlib.blake2b(memoryview(view)[begin:], digest_size=32).hexdigest() != header["body"]["digest"]:
            raise FileError("it was altered: its arrays do not match their digest")
        arrays = {name: _array(view, begin, place) for name, place in header["arrays"].items()}
        return _put_together(arrays, header["parameters"])
    except FileError as error:
        raise FileError(f"{path} cannot be opened: {error}") from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise FileError(f"{path} is no atlas that this version can read: {error}") from error


def _read_header(file: IO[bytes]) -> tuple[dict[str, Any], int]:
    """The header, checked, and where the body begins."""
    prefix = file.read(PREFIX)
    if prefix[: len(MAGIC)] != MAGIC:
        raise FileError("it is not an atlas")
    length = int.from_bytes(prefix[len(MAGIC) : len(MAGIC) + 8], "little")
    if len(prefix) < PREFIX or length > os.fstat(file.fileno()).st_size - PREFIX:
        raise FileError("it is cut off")
    text = file.read(length)
    if hashlib.blake2b(text, digest_size=32).digest() != prefix[-32:]:
        raise FileError("it was altered: its header does not match its digest")
    header: dict[str, Any] = json.loads(text)
    if header["format"] != FORMAT:
        raise FileError(f"it has format {header['format']}, this version of svmatlas reads format {FORMAT}: explore again")
    return header, PREFIX + length


def _array(view: mmap.mmap, begin: int, place: dict[str, Any]) -> Array:
    """One array of the body, as it lies in the file."""
    kind, shape = np.dtype(place["type"]), tuple(place["shape"])
    if kind.kind not in KINDS:
        raise ValueError(f"type {kind}")
    count = prod(shape)
    return np.frombuffer(view, kind, count, begin + place["at"]).reshape(shape) if count else np.empty(shape, kind)


def _put_together(arrays: dict[str, Array], parameters: dict[str, Any]) -> Stored:
    held = {name: array if name.startswith((*MAPPED, "X")) else array.copy() for name, array in arrays.items()}
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
    canonical = _canonical(held)
    _check_columns(problem.columns, n_features)
    _check_numbers(problem, canonical)
    (a, b), (c, d) = ((lo, np.inf if hi is None else hi) for lo, hi in parameters["region"])
    counts = {name: parameters[name] for name in ("n_refined", "n_zero", "n_exact")}
    return Stored(problem, ((a, b), (c, d)), canonical, parameters["complete"], counts, dict(parameters["notes"]))


def _canonical(arrays: dict[str, Array]) -> Canonical:
    """The map of the data; that of the jittered data if there is no other."""
    mesh = Mesh(**{name: arrays[f"split.{name}"] for name in Mesh._fields})
    split = Split(mesh, **{name: arrays[f"split.{name}"] for name in Split._fields[1:]})
    if not any(name.startswith(("mesh.", "canonical.")) for name in arrays):
        return untied(split)
    whole = Mesh(**{name: arrays[f"mesh.{name}"] for name in Mesh._fields})
    return Canonical(split, whole, **{name: arrays[f"canonical.{name}"] for name in Canonical._fields[2:]})


def _columns(arrays: dict[str, Array], names: list[str] | None) -> Columns:
    return Columns(None if names is None else tuple(names), arrays.get("columns.center"), arrays.get("columns.scale"))


def _check_columns(columns: Columns, n_features: int) -> None:
    """Names and scaling are those of the features."""
    if columns.names is not None:
        check_names(columns.names, n_features)
    for array, low in ((columns.center, -np.inf), (columns.scale, 0.0)):
        if array is not None and not (array.shape == (n_features,) and np.all((array > low) & np.isfinite(array))):
            raise ValueError("its arrays do not belong together")


Range = tuple[Array, tuple[int, ...], float, float]
"""An array, the shape that it should have, and its least and largest values."""


def _check_numbers(problem: Problem, canonical: Canonical) -> None:
    """Numbers that say where to look must not lead outside: compiled code follows them blindly."""
    n_points, n_columns, split = problem.n_points, problem.data.rows.shape[1], canonical.split
    ranges = (
        _mesh_ranges(split.mesh, n_points) + _mesh_ranges(canonical.mesh, n_points) + _canonical_ranges(canonical, n_points)
    )
    ranges += [
        (split.flips, (split.mesh.facet_layer.size, 2), -1, 2 * n_points - 1),
        (split.kind, split.mesh.facet_layer.shape, 0, 6),
        (split.start, (n_points,), 0, 2),
        (problem.point, problem.weight.shape, ZERO, n_points - 1),
        (problem.distinct, (n_points,), 0, problem.features.origin.size - 1),
        (problem.data.axis, (n_points,), 0, 1),
        *((getattr(problem.data, name), (n_points,), -np.inf, np.inf) for name in BY_POINT),
        (problem.data.probe, (n_columns,), -np.inf, np.inf),
        (np.array(problem.data.rank), (), 0, min(n_points, n_columns)),
    ]
    for array, shape, low, high in ranges:
        if array.shape != shape or not (array.size == 0 or (array.min() >= low and array.max() <= high)):
            raise ValueError("its arrays do not belong together")


def _mesh_ranges(mesh: Mesh, n_points: int) -> list[Range]:
    n_facets, n_edges = mesh.facet_layer.size, mesh.edge_code.size
    n_vertices, n_places = mesh.vertices.shape[0], mesh.facet_edges.size
    return [
        (mesh.vertices, (n_vertices, 3), 0, np.inf),
        (mesh.edge_code, (n_edges,), -np.inf, 2 * n_points - 1),
        (mesh.edge_facets, (n_edges, 2), -2, n_facets - 1),
        (mesh.edge_vertices, (n_edges, 2), 0, n_vertices - 1),
        (mesh.facet_parent, (n_facets,), -1, n_facets - 1),
        (mesh.facet_parent - np.arange(n_facets), (n_facets,), -n_facets, -1),  # no circles
        (mesh.facet_at, (n_facets + 1,), 0, n_places),
        (np.diff(mesh.facet_at), (n_facets,), 1, n_places),
        (mesh.facet_edges, (n_places,), 0, n_edges - 1),
        (mesh.facet_vertices, (n_places,), 0, n_vertices - 1),
    ]


def _canonical_ranges(canonical: Canonical, n_points: int) -> list[Range]:
    n_facets, n_pieces = canonical.mesh.facet_layer.size, canonical.split.kind.size
    return [
        (canonical.piece, (n_facets,), 0, n_pieces - 1),
        (canonical.facet, (n_pieces,), -1, n_facets - 1),
        (canonical.joint, canonical.joint.shape, 0, canonical.mesh.edge_code.size - 1),
        (canonical.joint_at, (canonical.joint.size + 1,), 0, canonical.joint_code.size),
        (np.diff(canonical.joint_at), canonical.joint.shape, 2, np.inf),
        (canonical.joint_code, canonical.joint_code.shape, 0, 2 * n_points - 1),
        (canonical.tied_at, (n_facets + 1,), 0, canonical.tied.size),
        (np.diff(canonical.tied_at), (n_facets,), 0, np.inf),
        (canonical.tied, canonical.tied.shape, 0, n_points - 1),
    ]


# ----------------------------------------------------------------------------------------------------------------------
# Tables


def export(atlas: Atlas, folder: str | os.PathLike[str], format: str) -> None:
    """Write the tables of vertices, edges and facets; of GeoJSON one file of facets."""
    if format == "geojson":
        Path(folder).mkdir(parents=True, exist_ok=True)
        with replacing(Path(folder) / "facets.geojson") as draft, open(draft, "w", encoding="utf-8") as text:
            _write_geojson(text, atlas)
        return
    if format not in ("csv", "parquet"):
        raise ValueError(f"format must be 'csv', 'parquet' or 'geojson', got {format!r}")
    write = _write_csv if format == "csv" else _write_parquet
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, table in _tables(atlas).items():
        with replacing(Path(folder) / f"{name}.{format}") as draft, open(draft, "wb") as file:
            write(file, table)


def _tables(atlas: Atlas) -> dict[str, dict[str, Any]]:
    """Columns of the tables; a column of lists is a pair (values, where each list begins)."""
    p, q, l = atlas.vertices.T
    with np.errstate(divide="ignore", invalid="ignore"):
        finite = {"C_pos": np.where(p > 0, p / l, 0.0), "C_neg": np.where(q > 0, q / l, 0.0)}
    return {
        "vertices": {"p": p, "q": q, "l": l, **finite},
        "edges": {
            "rows": (atlas.edge_events[:, 0], atlas.edge_at),
            "types": (atlas.edge_events[:, 1], atlas.edge_at),
            "left_facet": atlas.edge_facets[:, 0],
            "right_facet": atlas.edge_facets[:, 1],
            "first_vertex": atlas.edge_vertices[:, 0],
            "last_vertex": atlas.edge_vertices[:, 1],
        },
        "facets": {
            "layer": atlas.facet_layer,
            "parent": atlas.facet_parent,
            "edges": (atlas.facet_edges, atlas.facet_at),
            "vertices": (atlas.facet_vertices, atlas.facet_at),
        },
    }


def _write_geojson(file: IO[str], atlas: Atlas) -> None:
    """Facets as polygons of places (p, q) / (p + q + l) in the triangle that is the whole quadrant, infinity included."""
    places = (atlas.vertices[:, :2] / atlas.vertices.sum(axis=1, keepdims=True)).tolist()
    at, corners = atlas.facet_at.tolist(), atlas.facet_vertices.tolist()
    layers, parents = atlas.facet_layer.tolist(), atlas.facet_parent.tolist()
    file.write('{"type": "FeatureCollection", "features": [')
    for f, (a, b) in enumerate(pairwise(at)):
        ring = [places[k] for k in (*corners[a:b], corners[a])]
        feature = {
            "type": "Feature", "id": f, "properties": {"layer": layers[f], "parent": parents[f]},
            "geometry": {"type": "Polygon", "coordinates": [ring]},
        }  # fmt: skip
        file.write(",\n" * (f > 0) + json.dumps(feature))
    file.write("]}\n")


def _write_csv(file: IO[bytes], table: dict[str, Any]) -> None:
    columns = []
    for column in table.values():
        if isinstance(column, tuple):
            words, at = [str(v) for v in column[0].tolist()], column[1].tolist()
            columns.append([" ".join(words[a:b]) for a, b in pairwise(at)])
        else:
            columns.append(column.tolist())
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text)
    writer.writerow(table)
    writer.writerows(zip(*columns, strict=True))
    text.detach()


def _write_parquet(file: IO[bytes], table: dict[str, Any]) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ImportError("Parquet needs pyarrow: pip install svmatlas[parquet]") from None
    columns = {
        name: pa.ListArray.from_arrays(pa.array(column[1].astype(np.int32)), pa.array(column[0]))
        if isinstance(column, tuple)
        else pa.array(column)
        for name, column in table.items()
    }
    pq.write_table(pa.table(columns), file)
