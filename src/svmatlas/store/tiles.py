"""The file of one tile: its pieces (canonical.py) as flat arrays, each of the narrowest type that holds it.

What follows from the rest is left out: keys of pieces, from the partition of the first and the way to the others; neighbours,
from keys; names of vertices that no other tile has; the facets that the pieces are parts of. Pieces of plateaus that are left
out (plateaus.py) have no edges; only those stay that others have their partitions from. This is the only module that knows how
``Facets`` lie on disk.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.data.problem import Bounds
from svmatlas.engine.arena import BOUNDARY, OPEN, PLATEAUS
from svmatlas.engine.clipping import CLOSED
from svmatlas.engine.names import key_of
from svmatlas.engine.tile import Facets
from svmatlas.engine.workspace import CUT, Bools, Int32, Ints, Words
from svmatlas.store.problems import Range, check_ranges
from svmatlas.support.arrays import FileError, explained, read_arrays, write_arrays
from svmatlas.support.writing import naming, placing

Array = npt.NDArray[Any]

MAGIC, FORMAT = b"SVMATILE", 2

NARROW = (np.uint8, np.uint16, np.uint32, np.uint64)

LEAST = -16
"""Whole numbers are stored less this: names of sides are -12 and more, a missing parent is -1."""


class Tile(NamedTuple):
    """A box of costs."""

    number: int
    bounds: Bounds
    depth: int  # so often it was cut


class Summary(NamedTuple):
    """What the whole map has to know of a tile. See ``count`` in atlas/single.py."""

    n_pieces: int
    n_facets: int  # that reach into the tile
    n_vertices: int  # not on cuts, nor in corners of the triangle of costs
    n_ends: int  # of edges, not on cuts: each edge of the whole map has two
    corners: int  # bit c: corner c of the triangle is in the tile


class Packed(NamedTuple):
    """A tile as it lies on disk."""

    arrays: dict[str, Array]
    summary: Summary


def pack(facets: Facets, left_out: Bools, summary: Summary, cut: Int32, cut_key: Words) -> Packed:
    """The arrays of a file; ``cut`` are the facets that have an edge on a cut, with their keys.

    ``left_out`` says whether plateaus were, those of the positives and of the negatives.
    """
    facets = _without_others(facets)
    plateau = np.flatnonzero(facets.neighbour <= PLATEAUS)
    named = np.flatnonzero(_is_named(facets))
    every = facets.which.size == facets.start.size
    arrays = {
        "start": facets.start,
        "which": _narrow(facets.which[: 0 if every else None]),
        "kind": facets.kind,
        "size": _narrow(np.diff(facets.at)),
        "code": _narrow(facets.code),
        "vertex": _narrow(facets.vertex),
        "parent": _narrow(facets.parent),
        "flips": _narrow(facets.flips),
        "corner": facets.corner,
        "named": _narrow(named),
        "name": facets.name[named],
        "cut": _narrow(cut),
        "cut_key": cut_key,
        "plateau": _narrow(plateau),  # edges that lead there,
        "behind": _narrow(facets.neighbour[plateau]),  # and to what
        "left_out": left_out,
    }
    return Packed({name: np.ascontiguousarray(array) for name, array in arrays.items()}, summary)


def _without_others(facets: Facets) -> Facets:
    """The same without pieces that have no edges, unless others have their partitions from them, and without their vertices.

    Where no piece has edges, all stay.
    """
    sizes, kept = np.diff(facets.at), _with_parents(facets)
    used = np.zeros(len(facets.corner), dtype=bool)
    used[facets.vertex] = True
    number, vertex = (np.append(np.cumsum(which) - 1, -1).astype(np.int32) for which in (kept, used))  # -1 stays
    behind = np.where(facets.neighbour >= 0, number[np.maximum(facets.neighbour, -1)], facets.neighbour)
    return facets._replace(
        key=facets.key[kept], kind=facets.kind[kept], at=np.concatenate([[0], np.cumsum(sizes[kept])]),
        vertex=vertex[facets.vertex], neighbour=behind, name=facets.name[used], corner=facets.corner[used],
        parent=number[facets.parent[kept]], flips=facets.flips[kept],
    )  # fmt: skip


def _with_parents(facets: Facets) -> Bools:
    """Which pieces have edges, or are on the way to those that have; the first is in any case."""
    kept: Bools = np.diff(facets.at) > 0
    new: npt.NDArray[np.signedinteger] = np.flatnonzero(kept)
    if new.size == 0:
        return ~kept
    kept[0] = True
    while new.size > 0:
        above = np.unique(facets.parent[new])
        new = above[(above >= 0) & ~kept[above]]
        kept[new] = True
    return kept


def unpack(arrays: dict[str, Array], words: Words) -> Facets:
    """The pieces of a tile."""
    start, corner, kind = arrays["start"].copy(), arrays["corner"].copy(), arrays["kind"].copy()
    which = _wide(arrays["which"]) if arrays["which"].size else np.arange(start.size)
    at = np.concatenate([[0], np.cumsum(_wide(arrays["size"]))])
    code, vertex, parent, flips = (_wide(arrays[name]).astype(np.int32) for name in ("code", "vertex", "parent", "flips"))
    named, name, nothing = _wide(arrays["named"]), np.zeros(len(corner), dtype=np.uint64), np.empty(0, dtype=np.int32)
    facets = Facets(
        start, which, CLOSED, np.zeros((3, 2)), nothing.astype(np.uint64), kind, at, code, vertex, nothing, name, corner,
        np.empty((0, 0)), parent, flips,
    )  # fmt: skip
    plateau, behind = _wide(arrays["plateau"]), _wide(arrays["behind"])
    check_ranges([*_ranges(facets, named), (plateau, behind.shape, 0, code.size - 1)])
    check_ranges([(behind, behind.shape, PLATEAUS - 3, PLATEAUS)])
    name[named] = arrays["name"]
    facets = facets._replace(key=_keys(facets, words))
    neighbour = _neighbours(facets, words)
    neighbour[plateau] = behind
    return facets._replace(neighbour=neighbour)


def _narrow(array: npt.NDArray[np.signedinteger]) -> Array:
    """The same numbers in fewer bytes."""
    above = array.astype(np.int64) - LEAST
    return above.astype(next(kind for kind in NARROW if above.max(initial=0) <= np.iinfo(kind).max))


def _wide(array: Array) -> Ints:
    """The numbers again."""
    wide: Ints = array.astype(np.intp) + LEAST
    return wide


def _is_named(facets: Facets) -> npt.NDArray[np.bool_]:
    """Vertices that other tiles may have too: those of pieces on cuts, and those with a cost that is zero or infinite."""
    sizes = np.diff(facets.at)
    piece = np.repeat(np.arange(sizes.size), sizes)
    on_cut = np.zeros(sizes.size, dtype=bool)
    on_cut[piece[facets.code <= -1 - CUT]] = True
    named: npt.NDArray[np.bool_] = np.any(facets.corner == 0.0, axis=1)
    named[facets.vertex[on_cut[piece]]] = True
    return named


def _keys(facets: Facets, words: Words) -> Words:
    """Keys of all pieces: of the first, with the words that were crossed on the way from it; twice as far in each round."""
    n, own = facets.kind.size, words.reshape(-1, 2)[facets.which].ravel()
    crossed = np.where(facets.flips >= 0, own[facets.flips], np.uint64(0)) if own.size else np.zeros((n, 2), dtype=np.uint64)
    key = np.append(crossed[:, 0] ^ crossed[:, 1], np.uint64(0))
    above = np.append(np.where(facets.parent >= 0, facets.parent, n), n)
    while np.any(above != n):
        key ^= key[above]
        above = above[above]
    keys: Words = key[:n] ^ key_of(facets.start, words)
    return keys


def _neighbours(facets: Facets, words: Words) -> Int32:
    """The pieces behind all edges: those with the key that crossing the edge gives."""
    order, event = np.argsort(facets.key), np.flatnonzero(facets.code >= 0)
    behind = np.repeat(facets.key, np.diff(facets.at))[event] ^ words[facets.code[event]]
    found = order[np.minimum(np.searchsorted(facets.key, behind, sorter=order), order.size - 1)]
    neighbour = np.full(facets.code.size, BOUNDARY, dtype=np.int32)
    neighbour[event] = np.where(facets.key[found] == behind, found, OPEN)
    return neighbour


def _ranges(facets: Facets, named: Ints) -> list[Range]:
    """Compiled code follows these numbers blindly."""
    n, n_points, n_places, n_vertices = facets.kind.size, facets.start.size, facets.code.size, len(facets.corner)
    return [
        (facets.at, (n + 1,), 0, n_places),
        (np.diff(facets.at), (n,), 0, n_places),
        (facets.at[-1:], (1,), n_places, n_places),
        (facets.code, (n_places,), -np.inf, 2 * n_points - 1),
        (facets.vertex, (n_places,), 0, n_vertices - 1),
        (facets.parent, (n,), -1, n - 1),
        (facets.flips, (n, 2), -1, 2 * facets.which.size - 1),
        (facets.which, facets.which.shape, 0, n_points - 1),
        (facets.corner, (n_vertices, 3), 0, np.inf),
        (named, named.shape, 0, n_vertices - 1),
    ]


def left_out_of(packed: Packed) -> Bools:
    """Whether the plateaus of the positives, and of the negatives, were left out of a tile."""
    return packed.arrays["left_out"].astype(bool)


def on_cuts(packed: Packed) -> tuple[Int32, Words]:
    """The facets that have an edge on a cut, and their keys."""
    return _wide(packed.arrays["cut"]).astype(np.int32), packed.arrays["cut_key"].copy()


def write_tile(path: Path, store: str, tile: Tile, packed: Packed) -> tuple[str, Summary, int]:
    """Write the file of a tile, whole or not at all; returns its digest, its summary, and how many bytes it has.

    A tile may be explored twice, if a worker was thought to be dead, with other numbers for its pieces. The first file stays.
    """
    header = {"format": FORMAT, "store": store, "tile": tile.number, "bounds": plain(tile.bounds), "summary": packed.summary}
    with naming(path), placing(path, first=True) as draft, open(draft, "wb") as file:
        write_arrays(file, MAGIC, header, packed.arrays)
        file.flush()
    there, digest = read_tile(path, store, tile)
    return digest, there.summary, path.stat().st_size


def read_tile(path: Path, store: str, tile: Tile) -> tuple[Packed, str]:
    """What the file of a tile holds, checked in full, and its digest; FileError if it is not that tile of that store."""
    with explained(path, "is no tile that this version can read"):
        header, arrays = read_arrays(path, MAGIC, FORMAT)
        if (header["store"], header["tile"], header["bounds"]) != (store, tile.number, plain(tile.bounds)):
            raise FileError("it belongs to another store or to another tile")
        return Packed(arrays, Summary(*header["summary"])), header["body"]["digest"]


def plain(bounds: Bounds) -> list[list[float | None]]:
    """Bounds as JSON knows them: infinity is null."""
    return [[lo, None if np.isinf(hi) else hi] for lo, hi in bounds]


def bounds_of(text: Any) -> Bounds:
    """Bounds from JSON."""
    (a, b), (c, d) = ((float(lo), np.inf if hi is None else float(hi)) for lo, hi in text)
    return (a, b), (c, d)
