"""Bounds on the score over the whole plane from exact solutions along arcs: patches that are bounded, cut and halved.

A patch is the part of the plane between two arcs (arcs.py) and two ratios, on one side of the diagonal. Its bound is what the
solutions on both arcs say (strips.py). To halve it, the arc in its middle is followed: the scores on this are exact, and may
be the best so far. The two halves are cut where the ratio is a round number, and what cannot hold the best is dropped.

Below the smallest arc all points are inside the margin: beta grows in proportion with the costs, so predictions on a ray are
those on the arc. Beyond the largest arc nothing is known here.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count, groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.atlas.jobs import Team
from svmatlas.choose.arcs import Knots
from svmatlas.choose.judge import Judge
from svmatlas.choose.searched import Half, SearchedFold, Stretch
from svmatlas.choose.strips import Crossings, Kept, Possible, Profile, Rows, score_profile, upper_profile
from svmatlas.data.problem import Bounds
from svmatlas.engine.tile import EngineError
from svmatlas.engine.workspace import INSIDE
from svmatlas.support.stopping import Limit, Stopped

Floats = npt.NDArray[np.float64]
States = npt.NDArray[np.int8]
Costs = tuple[float, float]

NARROW = 2.0**-26
"""Relative width (1e-8) of a stretch of an arc below which its score is not trusted: rounding may have made it."""

MEMORY = 2**29
"""Bytes for the arcs of open patches."""

TRIED = 3
"""Stretches of an arc that are offered as better than the best, the best first."""


class Patch(NamedTuple):
    """A part of the plane, and the bound on its scores."""

    side: int
    size: tuple[float, float]
    ratio: tuple[float, float]
    upper: float
    level: int  # how often it was halved
    arcs: tuple[list[Knots], list[Knots]]  # of all folds, on the arc below and on that above
    rows: list[Kept]  # of all folds

    @property
    def n_bytes(self) -> int:
        """What it takes to hold it."""
        return sum(knots.beta.nbytes + knots.code.nbytes for one in self.arcs for knots in one)

    def meets(self, box: Bounds) -> bool:
        """Whether it has costs in common with a box."""
        (lo, hi), (under, over) = box[self.side], box[1 - self.side]
        lo, hi = max(lo, self.size[0]), min(hi, self.size[1])
        return lo < hi and self.ratio[0] * lo < over and self.ratio[1] * hi > under


class Offer(NamedTuple):
    """Costs on an arc, and their score."""

    costs: Costs
    score: float


class PatchSearch:
    """The open patches of both sides; ``sizes`` is the range of sizes with arcs."""

    def __init__(
        self, team: Team[SearchedFold], judge: Judge, bounds: Bounds, sizes: tuple[float, float], perfect: float
    ) -> None:
        self.team, self.judge, self.bounds, self.perfect = team, judge, bounds, perfect
        self.sizes = [_within(sizes, bounds[side]) for side in range(2)]
        self.floor = [perfect, perfect]  # bound below the smallest arc, of each side
        self.waiting: list[int] = [side for side in range(2) if self.sizes[side][0] < self.sizes[side][1]]
        self.heap: list[tuple[float, int, int, Patch]] = []
        self.stuck: list[Patch] = []  # that could not be halved
        self.tickets = count()
        self.n_bytes = 0  # of the open patches
        self._table: Floats | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is something to halve."""
        return bool(self.waiting or self.heap)

    @property
    def is_full(self) -> bool:
        """Whether there is no room for halves."""
        return self.n_bytes > MEMORY

    def step(self, best: float, is_needed: Callable[[Patch], bool], limit: Limit) -> list[Offer]:
        """Make the first patch of a side, or halve the one with the highest bound. Better costs than the best are returned.

        Patches that are not needed, because all of their costs were explored, are given up.
        """
        self._table = None
        if self.waiting:
            offers = self._begin(self.waiting[-1], best, limit)
            self.waiting.pop()
            return offers
        entry = heapq.heappop(self.heap)
        patch = entry[-1]
        self.n_bytes -= patch.n_bytes
        if patch.upper < best - self.judge.equal:
            return []
        if not is_needed(patch):
            return []
        try:
            return self._halve(patch, best, limit)
        except (EngineError, ValueError):
            self.stuck.append(patch)
            return []
        except Stopped:
            self._push(patch)
            raise

    def forget(self, best: float) -> None:
        """Drop all patches that cannot hold the best, to make room."""
        kept = [entry for entry in self.heap if entry[-1].upper >= best - self.judge.equal]
        self.heap, self._table = kept, None
        heapq.heapify(self.heap)
        self.n_bytes = sum(entry[-1].n_bytes for entry in kept)

    def upper_bound(self, box: Bounds) -> float:
        """A bound on the scores in a box of costs."""
        edge = max(self._edge_bound(side, box) for side in range(2))
        return max(edge, self._highest_in(box, False), self._highest_in(box, True))

    def reaches(self, box: Bounds) -> bool:
        """Whether the bound in a box can fall when patches are halved."""
        inside = all(side in self.waiting or self._edge_bound(side, box) < self.perfect for side in range(2))
        return bool(self.waiting) or (inside and self._highest_in(box, False) > self._highest_in(box, True))

    def _edge_bound(self, side: int, box: Bounds) -> float:
        """The bound in that part of a box that is on one side and outside the sizes with arcs."""
        (lo, hi), (other, _) = box[side], box[1 - side]
        if hi <= other:
            return -np.inf
        first, last = self.sizes[side]
        if hi > last or side in self.waiting:
            return self.perfect
        return self.floor[side] if max(lo, other) < first else -np.inf

    def _highest_in(self, box: Bounds, stuck: bool) -> float:
        """The highest bound of the patches that meet a box: of those that can be halved, or of the others."""
        side, first, last, low, high, upper, is_stuck = self._open_table().T
        begin, end = (np.where(side == 0, box[0][k], box[1][k]) for k in range(2))
        under, over = (np.where(side == 0, box[1][k], box[0][k]) for k in range(2))
        begin, end = np.maximum(first, begin), np.minimum(last, end)
        meets = (begin < end) & (low * begin < over) & (high * end > under) & (is_stuck == stuck)
        return float(upper[meets].max(initial=-np.inf))

    def _open_table(self) -> Floats:
        """Side, sizes, ratios and bounds of the open patches, and whether they are stuck: (n, 7)."""
        if self._table is None:
            groups = [entry[-1] for entry in self.heap], self.stuck
            rows = [(p.side, *p.size, *p.ratio, p.upper, k) for k, patches in enumerate(groups) for p in patches]
            self._table = np.array(rows, dtype=float).reshape(-1, 7)
        return self._table

    # One patch

    def _begin(self, side: int, best: float, limit: Limit) -> list[Offer]:
        """The smallest and the largest arc of a side, and the patch between them."""
        first, last = self.sizes[side]
        low, high = self._ratios(side, first, last)
        folds, arcs, profiles = self.team.things, [], []
        states = [np.full(fold.problem.n_points, INSIDE, dtype=np.int8) for fold in folds]
        for size in (first, last):
            found = self.team.each(SearchedFold.follow, (states,), Stretch(side, size, low, high), limit)
            arcs.append([knots for knots, _ in found])
            states = [knots.state for knots in arcs[-1]]
            profiles.append(self._score(arcs[-1], [own for _, own in found]))
        lower, upper = arcs
        calm = all(knots.code.size == 0 and np.all(knots.state == INSIDE) for knots in lower)
        self.floor[side] = float(profiles[0].value.max()) if calm else self.perfect
        self._table = None
        rows = [Kept(np.arange(own.length.size, dtype=np.int32), own.right) for own in (fold.rows for fold in folds)]
        self._push(Patch(side, (first, last), (low, high), self.perfect, 0, (lower, upper), rows))
        return [o for s, p in zip((first, last), profiles, strict=True) for o in self._offers(side, s, p, best)]

    def _halve(self, patch: Patch, best: float, limit: Limit) -> list[Offer]:
        (first, last), (low, high), (lower, upper) = patch.size, patch.ratio, patch.arcs
        middle = float(np.sqrt(first * last))
        sizes = (first, middle), (middle, last)
        halves, arc = [self._half(patch, size) for size in sizes], Stretch(patch.side, middle, low, high)
        found = self.team.each(SearchedFold.halve, (lower, upper, patch.rows), arc, halves, limit)
        arcs = [own.knots for own in found]
        for k, (size, half, pair) in enumerate(zip(sizes, halves, ((lower, arcs), (arcs, upper)), strict=True)):
            if half is not None:
                parts = [part for own in found if (part := own.possible[k]) is not None]
                self._cut(patch, size, half, pair, parts, best)
        return self._offers(patch.side, middle, self._score(arcs, [own.crossings for own in found]), best)

    def _score(self, arcs: list[Knots], found: list[Crossings]) -> Profile:
        """The exact scores on an arc."""
        return score_profile(found, arcs[0].ratio[0], arcs[0].ratio[-1], self.judge)

    def _half(self, patch: Patch, size: tuple[float, float]) -> Half | None:
        """The half of a patch between two sizes, if the region has any of it."""
        low, high = self._ratios(patch.side, *size)
        low, high = max(low, patch.ratio[0]), min(high, patch.ratio[1])
        return Half(low, high, patch.level) if low < high else None

    def _cut(
        self, patch: Patch, size: tuple[float, float], half: Half, arcs: tuple[list[Knots], list[Knots]],
        parts: list[Possible], best: float,
    ) -> None:  # fmt: skip
        """Bound a half of a patch, and cut it into patches with high and with lower bounds; others are dropped."""
        edges = half.edges
        rows = [fold.rows.some(kept) for fold, kept in zip(self.team.things, patch.rows, strict=True)]
        value = _highest(upper_profile(parts, self.judge), edges)
        value = np.minimum(value, patch.upper)
        kind = np.where(value < best - self.judge.equal, 0, np.where(value <= (best + patch.upper) / 2, 1, 2))
        for which, group in groupby(range(value.size), key=lambda k: int(kind[k])):
            cells = list(group)
            ratio, upper = (float(edges[cells[0]]), float(edges[cells[-1] + 1])), float(value[cells].max())
            if which != 0:
                below, above = ([knots.piece(*ratio) for knots in one] for one in arcs)
                known = zip(patch.rows, rows, parts, strict=True)
                kept = [_undecided(before, own, part.sure[cells]) for before, own, part in known]
                self._push(Patch(patch.side, size, ratio, upper, patch.level + 1, (below, above), kept))

    def _push(self, patch: Patch) -> None:
        self.n_bytes += patch.n_bytes
        heapq.heappush(self.heap, (-patch.upper, patch.level, next(self.tickets), patch))

    def _ratios(self, side: int, first: float, last: float) -> tuple[float, float]:
        """The ratios in the region between two sizes."""
        lo, hi = self.bounds[1 - side]
        return min(1.0, lo / last), min(1.0, hi / first)

    def _offers(self, side: int, size: float, profile: Profile, best: float) -> list[Offer]:
        """The best stretches of an arc in the region, if they are better than the best costs."""
        lo, hi = self.bounds[1 - side]
        if not self.bounds[side][0] < size < self.bounds[side][1]:
            return []
        begin, end = np.clip(profile.ratio[:-1], lo / size, hi / size), np.clip(profile.ratio[1:], lo / size, hi / size)
        good = np.flatnonzero((profile.value > best + self.judge.equal) & (end - begin > NARROW * end))
        width = end[good] / np.maximum(begin[good], 1e-3 * end[good])
        offers = []
        for k in good[np.lexsort([-width, -profile.value[good]])][:TRIED].tolist():
            other = size * float((begin[k] + end[k]) / 2)
            offers.append(Offer((size, other) if side == 0 else (other, size), float(profile.value[k])))
        return offers


def _within(sizes: tuple[float, float], bound: tuple[float, float]) -> tuple[float, float]:
    """The sizes with arcs in a region: both ends are the same if there are none."""
    first = max(sizes[0], bound[0])
    return first, max(first, min(sizes[1], bound[1]))


def _highest(profile: Profile, edges: Floats) -> Floats:
    """The highest values between two edges each."""
    begin = np.clip(np.searchsorted(profile.ratio, edges[:-1], side="right") - 1, 0, profile.value.size - 1)
    end = np.searchsorted(profile.ratio, edges[1:], side="left")
    return np.array([profile.value[a : max(b, a + 1)].max() for a, b in zip(begin, end, strict=True)])


def _undecided(kept: Kept, rows: Rows, sure: npt.NDArray[np.int8]) -> Kept:
    """The rows of a fold, among those that were kept, that may change in some cells."""
    positive, negative = np.all(sure == 1, axis=0), np.all(sure == -1, axis=0)
    return Kept(kept.numbers[~(positive | negative)], kept.right + rows.tally(positive, negative))
