"""Atlases in files (support/arrays.py), and tables of them for other programs.

The header says: format and package version, parameters, digest of the data. A file is checked in full when it is opened. The
arrays of the mesh are then mapped into memory and read when they are needed.
"""

from __future__ import annotations

import csv
import io
import json
import os
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np

from svmatlas.data.problem import Bounds, Problem
from svmatlas.engine.canonical import Canonical, untied
from svmatlas.engine.mesh import Mesh, Split
from svmatlas.store.problems import Array, Range, check_ranges, checked, put_together, take_apart
from svmatlas.support.arrays import digest_of, explained, read_arrays, write_arrays
from svmatlas.support.writing import check_goal, replacing
from svmatlas.version import __version__

if TYPE_CHECKING:
    from svmatlas.atlas.atlas import Atlas

MAGIC = b"SVMATLAS"
FORMAT = 3
"""Version of the layout of the file. Since 2 the names and the scaling of the features are part of it; since 3 it has the
map of the data as they are beside that of the jittered data, if it is another one."""
MAPPED = ("split.", "mesh.", "canonical.")
"""Parts of an atlas that make up the map."""


# ----------------------------------------------------------------------------------------------------------------------
# Writing


def save(atlas: Atlas, path: str | os.PathLike[str]) -> None:
    """Write an atlas to a file; an older one is replaced when the new one is whole."""
    check_goal(path)
    arrays, parameters = _take_apart(atlas)
    header = {
        "format": FORMAT,
        "package": f"svmatlas {__version__}",
        "parameters": parameters,
        "data": digest_of(arrays, [name for name in arrays if not name.startswith(MAPPED)]),
    }
    with replacing(path) as draft, open(draft, "wb") as file:
        write_arrays(file, MAGIC, header, arrays)


def _take_apart(atlas: Atlas) -> tuple[dict[str, Array], dict[str, Any]]:
    """All arrays of an atlas by name, and all its other values."""
    canonical = atlas._canonical
    own, values = take_apart(atlas._problem)
    parameters = {
        "region": [[lo, None if np.isinf(hi) else hi] for lo, hi in atlas.region],
        "complete": atlas.complete,
        "n_refined": atlas.n_refined,
        "n_zero": atlas.n_zero,
        "n_exact": atlas.n_exact,
        "notes": atlas.notes,
    }
    return checked(arrays_of_map(canonical) | own), parameters | values


def arrays_of_map(canonical: Canonical) -> dict[str, Array]:
    """The arrays of a map by name."""
    arrays: dict[str, Any] = {f"split.{name}": array for name, array in canonical.split.mesh._asdict().items()}
    arrays |= {f"split.{name}": getattr(canonical.split, name) for name in Split._fields[1:]}
    if canonical.mesh is not canonical.split.mesh:
        arrays |= {f"mesh.{name}": array for name, array in canonical.mesh._asdict().items()}
        arrays |= {f"canonical.{name}": getattr(canonical, name) for name in Canonical._fields[2:]}
    return arrays


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
    with explained(path, "is no atlas that this version can read"):
        header, arrays = read_arrays(path, MAGIC, FORMAT)
        return _put_together(arrays, header["parameters"])


def _put_together(arrays: dict[str, Array], parameters: dict[str, Any]) -> Stored:
    held = {name: array if name.startswith((*MAPPED, "X")) else array.copy() for name, array in arrays.items()}
    problem, canonical = put_together(held, parameters), _canonical(held)
    check_ranges(_ranges(problem.n_points, canonical))
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


def _ranges(n_points: int, canonical: Canonical) -> list[Range]:
    split = canonical.split
    meshes = _mesh_ranges(split.mesh, n_points) + _mesh_ranges(canonical.mesh, n_points)
    return [
        *meshes,
        *_canonical_ranges(canonical, n_points),
        (split.flips, (split.mesh.facet_layer.size, 2), -1, 2 * n_points - 1),
        (split.kind, split.mesh.facet_layer.shape, 0, 9),
        (split.start, (n_points,), 0, 2),
    ]


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
