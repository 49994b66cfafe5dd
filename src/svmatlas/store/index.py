"""Numbers for the facets of all tiles: one for each facet, however many tiles it reaches over.

A facet is *owned* by the first tile that has it. Facets are numbered tile by tile, in each in the order of its own map, those
of earlier tiles left out. Only facets on cuts can be in several tiles; they are the same if their keys are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.engine.workspace import Int32, Ints, Words
from svmatlas.support.arrays import FileError, explained, read_arrays, write_arrays
from svmatlas.support.writing import naming, placing

MAGIC, FORMAT = b"SVMINDEX", 1


class OnCuts(NamedTuple):
    """The facets of one tile that are on cuts."""

    tile: int
    n_facets: int  # of all
    facets: npt.NDArray[np.signedinteger]  # in order
    key: Words


class Index(NamedTuple):
    """The facets of all tiles. Tiles are numbered here from 0, in the order of ``tile``."""

    tile: Ints  # (T,) their numbers in the manifest
    first: Ints  # (T + 1,) tile t owns the facets first[t] : first[t + 1]
    other_at: Ints  # (T + 1,) tile t has the entries other_at[t] : other_at[t + 1] of the next two:
    other: Int32  # facets that are owned by earlier tiles,
    other_number: Ints  # and their numbers
    part_number: Ints  # numbers of facets on cuts, once for each tile that they reach into, in order;
    part_tile: Int32  # that tile,
    part: Int32  # and the facet there

    @property
    def n_facets(self) -> int:
        """Number of facets."""
        return int(self.first[-1])

    def numbers(self, t: int, facets: npt.NDArray[np.signedinteger]) -> Ints:
        """The numbers of some facets of a tile."""
        mine = slice(self.other_at[t], self.other_at[t + 1])
        other = self.other[mine]
        before = np.searchsorted(other, facets)
        held = np.append(other, -1)[before] == facets
        theirs = np.append(self.other_number[mine], -1)[before]
        numbers: Ints = np.where(held, theirs, self.first[t] + facets - before)
        return numbers

    def parts(self, number: int) -> list[tuple[int, int]]:
        """Tiles that a facet reaches into, and its number in each."""
        low, high = np.searchsorted(self.part_number, [number, number + 1])
        if low < high:
            return list(zip(self.part_tile[low:high].tolist(), self.part[low:high].tolist(), strict=True))
        t = int(np.searchsorted(self.first, number, side="right")) - 1
        other = self.other[self.other_at[t] : self.other_at[t + 1]]
        rank = number - int(self.first[t])
        local = rank + int(np.searchsorted(other - np.arange(other.size), rank, side="right"))
        return [(t, local)]


def make_index(tiles: list[OnCuts]) -> Index:
    """Number the facets of some tiles."""
    n_facets = np.array([tile.n_facets for tile in tiles], dtype=np.intp)
    sizes = np.array([tile.facets.size for tile in tiles], dtype=np.intp)
    facet, key = (
        np.concatenate([np.empty(0, dtype), *(tile[k] for tile in tiles)]) for k, dtype in ((2, np.int32), (3, np.uint64))
    )
    facet = facet.astype(np.int32)
    where = np.repeat(np.arange(len(tiles)), sizes)
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    owner = first[group]
    other = owner != np.arange(owner.size)
    counts = np.bincount(where[other], minlength=len(tiles))
    base = np.concatenate([[0], np.cumsum(n_facets - counts)])
    at = np.concatenate([[0], np.cumsum(counts)])
    before = np.cumsum(other) - other - at[where]
    number = (base[where] + facet - before)[owner]
    order = np.argsort(number, kind="stable")
    return Index(
        np.array([tile.tile for tile in tiles], dtype=np.intp), base, at, facet[other], number[other], number[order],
        where[order].astype(np.int32), facet[order],
    )  # fmt: skip


def write_index(path: Path, store: str, index: Index) -> None:
    """Write the index of a finished store."""
    arrays: dict[str, Any] = {name: np.ascontiguousarray(array) for name, array in index._asdict().items()}
    with naming(path), placing(path) as draft, open(draft, "wb") as file:
        write_arrays(file, MAGIC, {"format": FORMAT, "store": store}, arrays)
        file.flush()


def read_index(path: Path, store: str) -> Index:
    """Read the index of a finished store; FileError if it is that of another one, or not whole."""
    with explained(path, "is no index that this version can read"):
        header, arrays = read_arrays(path, MAGIC, FORMAT)
        if header["store"] != store:
            raise FileError("it belongs to another store")
        return Index(**arrays)
