"""Facets that the rounding of their corners has turned over are turned back, so that the map tiles its region exactly.

Corners are doubles, and a facet may be narrower than their last place. Its corners then lie as rounding has left them: the
facet may be turned over, and overlap its neighbours by 1e-16. Whether it is so is decided by the checker's own test
(proof/tiling.py), in fractions. Its corners are moved by some units in their last place, by chance, where no more facets are
turned over by that than before, until none is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from svmatlas.engine.compiled import entry
from svmatlas.engine.geometry import triple_product
from svmatlas.engine.mesh import Mesh
from svmatlas.proof.tiling import TURN, Region, Vector, exact_corner, has_triangles, region_of, turn_of

Floats = npt.NDArray[np.float64]

FURTHEST = 7
"""A coordinate of a corner is moved by at most 2^7 units in its last place at a time."""

TRIES, MOST_TRIES = 400, 10_000
"""Moves that are tried for each facet that is turned over, and for all: most are turned back by one of the first."""

UNIT = 2.0**-53
"""Rounding of a coordinate."""

MOST = 1000
"""Facets that are looked at in fractions: where doubles doubt more, corners are where they are by chance, not by rounding."""


def set_upright(mesh: Mesh, bounds: Sequence[tuple[float, float]], cost_exponent: int) -> None:
    """Move corners of a mesh of all costs within some bounds, in place."""
    doubtful = _find_doubtful(mesh.vertices, mesh.facet_at, mesh.facet_vertices, TURN)
    if 0 < doubtful.size <= MOST:
        ends = [[value if np.isfinite(value) else None for value in pair] for pair in bounds]
        _Ring(mesh, region_of(ends, cost_exponent)).mend(doubtful.tolist())


@entry
def _find_doubtful(vertices, at, corner, least):
    """Facets of which doubles do not tell that all triangles at their first corner are turned to the left."""
    found = np.empty(at.size - 1, np.intp)
    count = 0
    for f in range(at.size - 1):
        a = vertices[corner[at[f]]]
        for k in range(at[f] + 2, at[f + 1]):
            turn, size = triple_product(a, vertices[corner[k - 1]], vertices[corner[k]])
            if not turn > least * size:
                found[count] = f
                count += 1
                break
    return found[:count]


class _Ring:
    """A mesh with its vertices as fractions, as far as they are looked at."""

    def __init__(self, mesh: Mesh, region: Region) -> None:
        self.mesh, self.lines = mesh, region.lines
        on_side = np.flatnonzero((mesh.edge_code < 0) & (mesh.edge_code >= -len(region.lines)))
        vertex = mesh.edge_vertices[on_side].ravel().astype(np.intp)
        order = np.argsort(vertex)
        self.ends, self.side_of_end = vertex[order], np.repeat(-1 - mesh.edge_code[on_side], 2)[order]
        self.exact: dict[int, Vector] = {}
        self.wrong: dict[int, float] = {}

    def mend(self, facets: list[int]) -> None:
        """Turn back what is turned over of some facets, and of those around them."""
        over, random = [f for f in facets if self._wrong(f) > 0], np.random.default_rng(0)
        for _ in range(min(TRIES * len(over), MOST_TRIES)):
            f = over[random.integers(len(over))]
            self._move(int(random.choice(self._vertices(f))), random)
            over = [f for f, wrong in self.wrong.items() if wrong > 0]
            if not over:
                return

    @cached_property
    def _order(self) -> npt.NDArray[np.intp]:
        """Places by their vertices."""
        return np.argsort(self.mesh.facet_vertices, kind="stable")

    def _vertices(self, f: int) -> Any:
        return self.mesh.facet_vertices[self.mesh.facet_at[f] : self.mesh.facet_at[f + 1]]

    def _around(self, v: int) -> list[int]:
        """The facets around a vertex."""
        first, last = np.searchsorted(self.mesh.facet_vertices, [v, v + 1], sorter=self._order)
        places = self._order[first:last]
        around: list[int] = (np.searchsorted(self.mesh.facet_at, places, side="right") - 1).tolist()
        return around

    def _sides(self, v: int) -> list[int]:
        """The sides on which a vertex lies."""
        first, last = np.searchsorted(self.ends, [v, v + 1])
        return sorted(set(self.side_of_end[first:last].tolist()))

    def _wrong(self, f: int) -> float:
        """Zero if a facet is not turned over; else 1 and how much it is, from 0 to 1."""
        if f not in self.wrong:
            corners = [self._corner(int(v)) for v in self._vertices(f)]
            self.wrong[f] = 0.0 if has_triangles(corners) else 1.0 + _turned(corners)
        return self.wrong[f]

    def _corner(self, v: int) -> Vector:
        if v not in self.exact:
            self.exact[v] = exact_corner(self.mesh.vertices[v], [self.lines[k] for k in self._sides(v)])
        return self.exact[v]

    def _move(self, v: int, random: np.random.Generator) -> None:
        """Move a vertex by chance, unless more of the facets around it are turned over then."""
        if len(self._sides(v)) > 1:  # a corner of the region
            return
        old, around = self.mesh.vertices[v].copy(), self._around(v)
        before = {f: self._wrong(f) for f in around}
        steps = random.integers(-1, 2, 3) * 2.0 ** random.integers(0, FURTHEST + 1)
        self._put(v, old + steps * np.spacing(old) * (old > 0), around)
        if sum(self._wrong(f) for f in around) > sum(before.values()):
            self._put(v, old, around)
            self.wrong.update(before)

    def _put(self, v: int, c: Floats, around: list[int]) -> None:
        self.mesh.vertices[v] = c
        self.exact.pop(v, None)
        for f in around:
            self.wrong.pop(f, None)


def _turned(corners: list[Vector]) -> float:
    """How far triangles at a corner are turned to the right, in units of rounding, at the best corner; from 0 to 1."""
    least = np.inf
    for k in range(len(corners)):
        fan = corners[k:] + corners[:k]
        turns = [(turn_of(fan[0], a, b), turn_of(fan[0], a, b, sizes=True)) for a, b in pairwise(fan[1:])]
        least = min(least, sum(max(0.0, float(-turn / size)) for turn, size in turns if size > 0) / UNIT)
    return float(least / (1.0 + least))
