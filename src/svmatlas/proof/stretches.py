"""Plateaus that reach over several tiles of a store: what one tile leaves to the next, and whether the next has it.

On a plateau the gap is that at a smaller cost of its class (single.py), where a facet lies beside it. In a tile the way to
smaller costs may end at a cut. Then the gap on that stretch of the cut is that of the tile behind, if the same plateau lies
there, too. Costs become less from tile to tile, so the way ends: at a facet beside the plateau, or at a side of the region.

Two tiles have the ends of a stretch up to rounding. If costs are off by a factor of 1 + d, a relative gap grows by 8 d.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.proof.cover import Box
from svmatlas.proof.partitions import INSIDE, MARGIN
from svmatlas.proof.reading import Mesh

States = npt.NDArray[np.int8]

SLIP = Fraction(1, 2**37)
"""Ends of stretches that differ by less than this, relative (7e-12), are one. Eight times it is added to the gap: a twentieth
of what is certified."""


class Stretch(NamedTuple):
    """A part of a cut through the plateau of a class."""

    axis: int  # whose cost is the same along it: 0 for positives, 1 for negatives
    cost: float  # that cost, in the user's units
    low: Fraction  # of the other cost, in internal units
    high: Fraction | None  # None if it is infinite


class Stretches(NamedTuple):
    """Those of one tile, or of many."""

    needed: list[Stretch]  # on lower sides of tiles, for plateaus to be proven
    there: list[Stretch]  # on upper sides


class Cuts(NamedTuple):
    """The box of a tile, whether other tiles are behind the sides of its least C+ and C-, and the stretches of all tiles."""

    box: Box
    is_below: tuple[bool, bool]
    found: Stretches

    def note(self, mesh: Mesh, states_of: Callable[[Any], States], plateau: Any, positive: Any, n_sides: int) -> None:
        """Put down the stretches of the tile: those of its plateaus on lower sides, and what upper sides have for others."""
        upper = (-2, -2 - int(np.isfinite(self.box[0][1])))
        for axis, lower in ((0, -n_sides), (1, -1)):
            low, high = self.box[axis]
            own = positive if axis == 0 else ~positive
            for code, cost, kept in ((lower, low, self.found.needed), (upper[axis], high, self.found.there)):
                if not (self.is_below[axis] if code == lower else np.isfinite(high)):
                    continue
                edges = np.flatnonzero(mesh.edge_code == code)
                edges = edges[plateau[mesh.edge_facets[edges, 0]]] if code == lower else edges
                whole = np.all(states_of(mesh.edge_facets[edges, 0]) == np.where(own, MARGIN, INSIDE), axis=1)
                kept.extend(_stretch(mesh, e, axis, cost) for e in edges[whole].tolist())


def _stretch(mesh: Mesh, e: int, axis: int, cost: float) -> Stretch:
    ends = []
    for v in mesh.edge_vertices[e]:
        other, l = Fraction(float(mesh.vertices[v, 1 - axis])), Fraction(float(mesh.vertices[v, 2]))
        ends.append(other / l if l else None)
    low, high = sorted(ends, key=lambda end: (end is None, end or 0))
    assert low is not None
    return Stretch(axis, cost, low, high)


def find_missing(all_of: Stretches) -> Stretch | None:
    """A stretch that is needed, and that no tile has behind the cut; None if there is none."""
    there: dict[tuple[int, float], list[Stretch]] = {}
    for stretch in sorted(all_of.there, key=lambda each: each.low):
        there.setdefault((stretch.axis, stretch.cost), []).append(stretch)
    for stretch in all_of.needed:
        reached: Fraction | None = stretch.low
        for other in there.get((stretch.axis, stretch.cost), []):
            if reached is not None and other.low <= reached * (1 + SLIP):
                reached = None if other.high is None else max(reached, other.high)
        if reached is not None and (stretch.high is None or reached * (1 + SLIP) < stretch.high):
            return stretch
    return None
