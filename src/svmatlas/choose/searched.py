"""One fold of a search at any time: what is done with it is a job, by whoever knows the fold.

Workers elsewhere are told the folds once (jobs.py). What a job carries is its own: costs, a partition to start from, arcs.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.choose.arcs import ArcWalker, Knots
from svmatlas.choose.corners import Corner, Costs, Near, Solver
from svmatlas.choose.curves import Tile
from svmatlas.choose.overlay import FoldMap
from svmatlas.choose.strips import Crossings, Kept, Possible, Rows, crossings, possible_counts
from svmatlas.data.problem import Bounds
from svmatlas.engine.tile import EngineError
from svmatlas.engine.workspace import INSIDE
from svmatlas.models.walk import Walker
from svmatlas.support.stopping import Limit, Stopped

Floats = npt.NDArray[np.float64]
States = npt.NDArray[np.int8]

CELLS = 8
"""Patches are cut at so many ratios per decade, ..."""

DECADES = 6
"""...for so many decades below 1."""

COARSE, FINE = 2, 10
"""Rows are looked at between ratios of which there are 2^COARSE per decade at first, then 2^FINE at most."""


class Stretch(NamedTuple):
    """A stretch of an arc: costs of one size, on one side of the diagonal, between two ratios."""

    side: int
    size: float
    low: float
    high: float


class Half(NamedTuple):
    """A half of a patch."""

    low: float
    high: float
    level: int  # how often the patch was halved before

    @property
    def more(self) -> Floats:
        """Ratios between which rows are looked at, more of them on each level: events may be far apart."""
        per_decade = 2.0 ** min(COARSE + self.level, FINE)
        lowest = max(self.low, self.high * 10.0**-DECADES)
        inner: Floats = np.geomspace(lowest, self.high, 2 + int(per_decade * np.log10(self.high / lowest)))[1:-1]
        return inner

    @property
    def edges(self) -> Floats:
        """The ends of its cells: round ratios, and the two ends."""
        inner = [10.0 ** (-k / CELLS) for k in range(CELLS * DECADES, 0, -1)]
        return np.array([self.low, *(ratio for ratio in inner if self.low < ratio < self.high), self.high])


class Halved(NamedTuple):
    """What one fold says of both halves of a patch."""

    knots: Knots  # on the arc in its middle
    crossings: Crossings  # there
    possible: list[Possible | None]  # of the halves that are there


class SearchedFold:
    """A fold, and the jobs of it. ``shares``: are dual variables wanted?"""

    def __init__(self, fold: FoldMap, shares: bool) -> None:
        self.fold, self.problem = fold, fold.holdout.problem
        self.solver = Solver(self.problem, fold.holdout.rows[fold.first], shares)
        self.walker = ArcWalker(self.problem)
        self.unit = self.walker.internal(1.0)
        self.rows = Rows.of(self.solver.rows, fold.counts[:, :-1], fold.group[:-1], fold.holdout.group_size.size)
        self.squares = np.sum(self.solver.rows**2, axis=1)

    def ray_events(self, limit: Limit) -> Floats:
        """The costs of the events on the ray of equal costs, in units of the data; if the walk fails, those before."""
        walker = Walker(self.problem, np.array([[1.0, -1.0, 0.0], [0.0, 0.0, 1.0]]), limit)
        found = [np.empty(0)]
        with suppress(EngineError, ValueError, Stopped):
            for steps in walker.follow(np.full(self.problem.n_points, INSIDE, dtype=np.int8), 0, 1, rough=True):
                p, _, scale = steps.corner[: steps.code.size].T
                found.append(p / np.maximum(scale, np.finfo(float).tiny))
        return np.concatenate(found)

    def solve(self, near: Near | None, costs: Costs, events: int, limit: Limit) -> Corner:
        """The model at some costs; ``near`` is a solution nearby, some ``events`` off."""
        return self.solver.solve(costs, limit, near, events)

    def explore(self, bounds: Bounds, limit: Limit) -> list[Tile]:
        """The curves in a box, tile by tile. Stopped if there is no time for all of it."""
        return self.fold.explore(bounds, limit)

    def follow(self, state: States, arc: Stretch, limit: Limit) -> tuple[Knots, Crossings]:
        """The solutions along an arc, from a partition on the ray of its highest ratio, and where predictions change."""
        knots = self._knots(state, arc, limit)
        return knots, crossings(knots, self.rows)

    def halve(
        self, lower: Knots, upper: Knots, kept: Kept, middle: Stretch, halves: list[Half | None], limit: Limit
    ) -> Halved:
        """Follow the arc in the middle of a patch between two others, and count what may be right in both halves."""
        knots, rows = self._knots(lower.state, middle, limit), self.rows.some(kept)
        possible = [
            None if half is None else self._possible(*pair, half, middle.side, rows)
            for half, pair in zip(halves, ((lower, knots), (knots, upper)), strict=True)
        ]
        return Halved(knots, crossings(knots, rows), possible)

    def _knots(self, state: States, arc: Stretch, limit: Limit) -> Knots:
        start = self.walker.climb(state, arc.side, arc.high, arc.size, limit)
        return self.walker.follow(start, *arc, limit)

    def _possible(self, below: Knots, above: Knots, half: Half, side: int, rows: Rows) -> Possible:
        parts = below.piece(half.low, half.high), above.piece(half.low, half.high)
        return possible_counts(*parts, half.more, half.edges, side, self.unit, rows)
