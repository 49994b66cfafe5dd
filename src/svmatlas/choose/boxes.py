"""The best costs at any time: boxes of costs, bounded by arcs and corners, halved, and explored where the best can still be.

A box of costs has a bound: no costs in it score higher. At first it is the best score there is. It falls

- when patches between arcs (patches.py) that meet the box are halved: their bounds hold in it;
- when the models at its corners are known: they decide most held-out rows in all of the box (ball.py), and the others count as
  right;
- when the box is halved;
- when it is explored: the map of each fold in it is made, and its cells are searched (overlay.py, search.py). That is exact.

Arcs and corners have scores of their own, and so have the cells: the best of them is the *incumbent*. A box whose bound
is below it is dropped. Most steps are of patches, as long as these can lower the bound. Boxes are taken in turn from two ends:
the one with the highest bound, so that the bound falls, and the one with the best known score, so that the incumbent rises. A
box is explored rather than halved if it has few facets. Boxes that reach an axis or infinity have few, whatever the data, and
no corners: they are explored as they are, and cut only if that takes too long.

Whole maps of some hundred rows take seconds, and tell all. How long they are going to take is estimated from the events on the
ray of equal costs. If there is time for them, they are made after patches and boxes had a share of it, one *region* after the
other: many boxes at once, as many as memory allows.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from svmatlas.atlas.jobs import Team, make_team
from svmatlas.choose.arrangement import Box
from svmatlas.choose.ball import decide
from svmatlas.choose.cells import Cell
from svmatlas.choose.corners import SHORT, Corner, Costs, Solver
from svmatlas.choose.curves import Tile
from svmatlas.choose.division import (
    boxes_between,
    cut_in_two,
    distance_of,
    finite_sizes,
    hull_of,
    intersection,
    is_inside,
    make_cuts,
    make_edges,
    middle_of,
)
from svmatlas.choose.folds import Folds, check_scorable
from svmatlas.choose.judge import Judge, fold_scores
from svmatlas.choose.overlay import MAPS_SHARE, Overlay, make_fold, make_judge, overlay_of
from svmatlas.choose.patches import Patch, PatchSearch
from svmatlas.choose.proof import Record
from svmatlas.choose.scoring import Score
from svmatlas.choose.search import Confirmed, find_best, fresh_best, make_cells, search
from svmatlas.choose.searched import SearchedFold
from svmatlas.data.problem import Bounds, make_region
from svmatlas.support.progress import scores, show
from svmatlas.support.settings import SETTINGS
from svmatlas.support.stopping import Limit, Stopped

Floats = npt.NDArray[np.float64]

LARGE, FURTHEST = 2.0**12, 2.0**20
"""The largest costs of the first boxes, in units of the data, are between these: beyond, rounding spoils arcs..."""

TAIL = 0.01
"""...and, if they can, this share of the events on the ray of equal costs is beyond them: facets are few there."""

PART = 0.5
"""Share of the time that is left for one box that reaches an axis or infinity; it is cut if that is not enough."""

RAYS_SHARE = 0.2
"""Share of the time for the rays that tell where events are: what they have found by then is a rough idea, too."""

MODELS_SHARE = 0.4
"""Share of the time for models at many costs, where rays did not end in theirs: walks are slow there, and models quick."""

SIDE = 20
"""Costs of each class among these."""

SHIFT = (1.0371, 1.1093)
"""Factors on the costs of the first boxes, and..."""

SHARES = (0.4871, 0.5273)
"""...where boxes are halved, in logarithms: no round numbers, as costs with a round ratio may lie on curves of tied data."""

MOST = 6000
"""Facets that are expected in a box that is explored: a tenth of a second for each fold."""

FEW = 300
"""The same for a box whose corners decide some rows: to halve it is then quicker."""

LAST, LAST_SHARE = 2.0, 0.1
"""Seconds, and share of the time, that are kept for the cells in the end."""

TINY = 2.0**-20
"""Relative width (1e-6) of the box that stands for costs of which only the models are known."""

AROUND = 1.003, 1.03, 1.3, 3.0
"""Factors on the best costs: the boxes around them in which their cell is looked for, one after the other."""

TURNS = 3
"""One box in so many is that with the best known score: it takes longer, as it is explored more often than not."""

SMALL = 100
"""Points up to which there are no patches: whole maps are quicker."""

PATCHES = 12
"""In so many steps all but one are of patches, while these lower the bound."""

PER_SQUARE = 1e-5
"""Seconds for each of n^2 in the map of a fold, with n events on the ray of equal costs: 0.2 to 1 pieces, 5 to 20 us each."""

PATIENCE = 4.0
"""A region that takes so many times as long as all of them should is given up; the next is begun so much later, squared."""

SQUARES = 1e6
"""The sum of n^2 over folds in a region: some 500 MB of curves."""

LATE = 2
"""Boxes at infinity wait until the others have been halved so often."""


class Node:
    """The models of all folds at one pair of costs."""

    def __init__(self, costs: Costs, corners: list[Corner], counts: npt.NDArray[np.int64], scores: Floats) -> None:
        self.costs = costs
        self.corners = corners
        self.counts = counts  # (2, G)
        self.scores = scores  # (K,)


class CostBox:
    """A box of costs and what is known of it."""

    def __init__(self, bounds: Bounds, upper: float, level: int) -> None:
        self.bounds = bounds
        self.upper = upper  # no costs in it score higher
        self.level = level  # how often it was halved
        self.nodes: list[Node] = []  # its corners, in order around it, if they are known
        self.seen = -np.inf  # the score of the best costs so far if they are in it
        self.ticket = -1  # of its place in the queue; -1 if it is closed

    @property
    def known(self) -> float:
        """The best score that is known in it."""
        return max((float(node.scores.mean()) for node in self.nodes), default=self.seen)

    def holds(self, costs: Costs) -> bool:
        """Whether it holds some costs."""
        return all(lo <= cost <= hi for cost, (lo, hi) in zip(costs, self.bounds, strict=True))

    @property
    def is_finite(self) -> bool:
        """Whether it reaches neither an axis nor infinity."""
        return all(lo > 0 and hi < np.inf for lo, hi in self.bounds)

    def corner_costs(self) -> list[Costs]:
        """Costs at its corners, in order around it."""
        (a, b), (c, d) = self.bounds
        return [(a, c), (b, c), (b, d), (a, d)]

    def events(self, i: int, j: int) -> int:
        """Points that change their set between two corners, the most of all folds."""
        return max(a.events_to(b) for a, b in zip(self.nodes[i].corners, self.nodes[j].corners, strict=True))


class Incumbent(NamedTuple):
    """The best costs so far."""

    score: float
    costs: Costs
    found: tuple[Overlay, list[Cell]] | None = None  # the box and the cells in it, or else
    node: Node | None = None  # the models


class Explored(NamedTuple):
    """A box that was explored, and holds cells as good as the best."""

    bounds: Bounds
    tiles: list[list[Tile]]  # of each fold


class BoxSearch:
    """The search; ``best`` never falls and ``upper`` never rises."""

    def __init__(
        self, team: Team[SearchedFold], judge: Judge, bounds: Bounds, bar: Any, limit: Limit, record: Record | None = None
    ) -> None:
        self.team, self.judge, self.bounds, self.bar, self.record = team, judge, bounds, bar, record
        self.folds = [own.fold for own in team.things]
        self.solvers = [own.solver for own in team.things]
        perfect = float(self._scores(np.array([judge.group_pos, judge.group_neg]), upper=True).mean())
        self.perfect = self.upper = perfect
        self.floor = -np.inf  # what the bound cannot fall below: cells of rankings with equal positive rows
        self.best = Incumbent(-np.inf, (np.nan, np.nan))
        self.nodes: WeakValueDictionary[Costs, Node] = WeakValueDictionary()
        self.explored: list[Explored] = []
        self.closed: list[Bounds] = []  # boxes without cells as good as the best
        self.n_steps = self.n_boxes = 0
        self.begin = time.monotonic()
        self.tickets = count()
        self.by_bound: list[tuple[float, int, int, CostBox]] = []
        self.by_score: list[tuple[float, float, int, CostBox]] = []
        with suppress(Stopped):
            self._try_usual_costs(limit)
        rays = limit.within(RAYS_SHARE * limit.left)
        events = team.each(SearchedFold.ray_events, (), rays)
        self.is_slow = rays.expired and limit.finite and record is None
        large = self._large(events)
        counts = [max(own.size, fold.problem.n_points) for own, fold in zip(events, team.things, strict=True)]
        squares = float(sum(n**2 for n in counts))  # every point has an event, even if there was no time to find it
        self.expected = PER_SQUARE * squares  # seconds for the maps of all folds
        sizes = np.concatenate([own * _unit(solver) for own, solver in zip(events, self.solvers, strict=True)])
        edges = [make_edges(bound, self._small(axis), large, SHIFT[axis]) for axis, bound in enumerate(bounds)]
        cuts = [make_cuts(edges[k], sizes * SHIFT[k], int(np.sqrt(squares / SQUARES))) for k in range(2)]
        self.edges = [sorted({*edge, *cut}) for edge, cut in zip(edges, cuts, strict=True)]
        self.regions = boxes_between(cuts)
        for box in _first_boxes(self.edges, perfect):
            box.seen = self.best.score if box.holds(self.best.costs) else -np.inf
            self._push(box)
        is_small = max(solver.problem.n_points for solver in self.solvers) <= SMALL
        arcs = (1.0, 1.0) if is_small or record is not None else finite_sizes(self.edges)  # a proof is of boxes
        self.patches = PatchSearch(team, judge, bounds, arcs, perfect)

    # The queue

    def run(self, limit: Limit, tolerance: float | None) -> None:
        """Search until no box is open, the bound is within a tolerance above 0 of the best score, or it is time."""
        if self.is_slow:
            with suppress(Stopped):
                self._try_many_costs(limit.within(MODELS_SHARE * limit.left))
        begin = limit.left, self.perfect - self.best.score
        while self._open():
            self.upper = min(self.upper, max(self.best.score, self.floor, self._open()[0].upper))
            show(self.bar, scores(self.best.score, self.upper), self._share_done(limit, begin, tolerance or 0.0))
            if limit.expired or (tolerance and self.upper - self.best.score <= tolerance):
                return
            try:
                self._step(limit)
            except Stopped:
                return
        self.upper = min(self.upper, max(self.best.score, self.floor))

    def _share_done(self, limit: Limit, begin: tuple[float, float], tolerance: float) -> float:
        """Of the time, or of the way from the first gap between best score and bound to the tolerance, whichever is more."""
        seconds, gap = begin
        by_time = 1.0 - limit.left / seconds if 0.0 < seconds < np.inf else 0.0
        by_gap = 1.0 - (self.upper - self.best.score - tolerance) / (gap - tolerance) if tolerance < gap < np.inf else 0.0
        return MAPS_SHARE * max(by_time, by_gap)

    def _explore_region(self, limit: Limit) -> None:
        """Explore what is open of the region with the highest bound, unless it takes much longer than expected."""
        top = self._open()[0]
        region = next(bounds for bounds in self.regions if is_inside(top.bounds, bounds))
        boxes = [box for box in self.open_boxes if is_inside(box.bounds, region)]
        whole = CostBox(hull_of([box.bounds for box in boxes], self.edges), self.upper, 0)
        try:
            self._explore(whole, limit.within(min(PATIENCE * self.expected, limit.left / 2)))
        except Stopped:
            self.expected *= PATIENCE**2
            return
        for box in boxes:
            box.ticket = -1

        def is_part(bounds: Bounds) -> bool:
            return bounds != whole.bounds and is_inside(bounds, whole.bounds)

        self.closed = [bounds for bounds in self.closed if not is_part(bounds)]
        self.explored = [part for part in self.explored if not is_part(part.bounds)]

    def _try_usual_costs(self, limit: Limit) -> None:
        """Models at one pair of costs, both classes of the same weight: so there is a score from the first moment on."""
        weights = [[float(s.problem.data.weight[s.problem.data.axis == k].sum()) for k in range(2)] for s in self.solvers]
        total = np.mean(weights, axis=0)
        usual = np.median([_unit(solver) for solver in self.solvers]) * total.max() / total * np.array(SHIFT)
        p, q = (u if lo < u < hi else middle_of(lo, hi) for u, (lo, hi) in zip(usual.tolist(), self.bounds, strict=True))
        self._node((p, q), limit, None)

    def _try_many_costs(self, limit: Limit) -> None:
        """Models at the costs of a grid over the first boxes, in random order."""
        ends = [[cost for cost in edge if 0 < cost < np.inf] for edge in self.edges]
        axes = [np.geomspace(end[0], end[-1], SIDE) if len(end) > 1 else np.array(end) for end in ends]
        pairs = np.array(np.meshgrid(*axes)).reshape(2, -1).T
        for p, q in np.random.default_rng(0).permutation(pairs).tolist():
            limit.check()
            self._node((p, q), limit, None)

    def _step(self, limit: Limit) -> None:
        """Explore a region, halve a patch, or work on a box."""
        self.n_steps += 1
        if time.monotonic() - self.begin > SETTINGS.maps_share * self.expected < limit.left / 2:
            self._explore_region(limit)
        elif self.n_steps % PATCHES and self._can_lower_by_patches():
            self._work_on_patches(limit)
        else:
            self.n_boxes += 1
            self._work_on(self._open()[int(self.n_boxes % TURNS == 0)], limit)

    def _can_lower_by_patches(self) -> bool:
        """Whether the highest bound can fall when a patch is halved, and there is room for the halves."""
        box = self._open()[0]
        if self.patches.is_full:
            self.patches.forget(self.best.score)
        can_halve = self.patches.is_open and not self.patches.is_full
        return can_halve and box.upper > self.best.score + self.judge.equal and self.patches.reaches(box.bounds)

    def _work_on_patches(self, limit: Limit) -> None:
        """Halve a patch, and try the costs that it offers."""
        open_bounds = [box.bounds for box in self.open_boxes]

        def is_needed(patch: Patch) -> bool:
            return any(patch.meets(bounds) for bounds in open_bounds)

        for offer in self.patches.step(self.best.score, is_needed, limit):
            if offer.score > self.best.score + self.judge.equal:
                self._node(offer.costs, limit, self._nearest(offer.costs))

    def _push(self, box: CostBox) -> None:
        box.ticket = next(self.tickets)
        heapq.heappush(self.by_bound, (-box.upper, box.level, box.ticket, box))
        heapq.heappush(self.by_score, (-box.known, -box.upper, box.ticket, box))

    def _open(self) -> list[CostBox]:
        """The open box with the highest bound and that with the best corner; what cannot be best is dropped before."""
        found = []
        heaps: tuple[list[Any], ...] = self.by_bound, self.by_score
        for heap in heaps:
            while heap:
                *_, ticket, box = heap[0]
                if ticket == box.ticket:
                    upper = self.patches.upper_bound(box.bounds)
                    if upper >= box.upper >= self.best.score - self.judge.equal:
                        found.append(box)
                        break
                    heapq.heappop(heap)
                    box.upper = min(box.upper, upper)
                    if box.upper >= self.best.score - self.judge.equal:
                        self._push(box)
                    else:
                        box.ticket = -1
                        self.closed.append(box.bounds)
                        self.note(box)
                else:
                    heapq.heappop(heap)
        return found if len(found) == 2 else []

    def note(self, box: CostBox) -> None:
        """Write down why a box is not looked at any more."""
        if self.record is not None:
            self.record.note(box.bounds, [node.corners for node in box.nodes])

    @property
    def open_boxes(self) -> list[CostBox]:
        """The boxes that are open."""
        return [box for *_, ticket, box in self.by_bound if ticket == box.ticket]

    # What is done with a box

    def _work_on(self, box: CostBox, limit: Limit) -> None:
        if box.is_finite and not box.nodes:
            box.nodes = [self._node(costs, limit, self._nearest(costs)) for costs in box.corner_costs()]
            self._bound(box)
            self._push(box)
        elif box.is_finite and _expected_facets(box) > (MOST if box.upper >= self.perfect else FEW):
            for half in self._halves(box, limit):
                self._push(half)
            box.ticket = -1
        elif box.is_finite:
            self._explore(box, limit)
        else:
            self._explore_or_cut(box, limit)

    def _explore_or_cut(self, box: CostBox, limit: Limit) -> None:
        """Explore a box that reaches an axis or infinity; cut it if that takes too long."""
        part = limit.within(PART * limit.left) if limit.finite else limit
        try:
            self._explore(box, part)
        except Stopped:
            if limit.expired or not part.expired:
                raise
            for bounds in cut_in_two(box.bounds):
                smaller = CostBox(bounds, box.upper, box.level + 1)
                smaller.seen = self.best.score if smaller.holds(self.best.costs) else -np.inf
                self._push(smaller)
            box.ticket = -1

    def _bound(self, box: CostBox) -> None:
        """The bound from the models at the corners."""
        if self.record is not None:
            box.upper = min(box.upper, self.record.bound([node.corners for node in box.nodes]))
            return
        parts = []
        for k, fold in enumerate(self.team.things):
            positive, negative = decide([node.corners[k] for node in box.nodes], fold.squares)
            parts.append(fold.rows.tally(~negative, ~positive))
        box.upper = min(box.upper, float(self._scores(np.concatenate(parts, axis=1), upper=True).mean()))

    def _halves(self, box: CostBox, limit: Limit) -> list[CostBox]:
        """Two halves, cut along the axis with more events."""
        along = [max(box.events(0, 1), box.events(3, 2)), max(box.events(0, 3), box.events(1, 2))]
        axis = int(along[1] > along[0])
        lo, hi = box.bounds[axis]
        middle = lo * (hi / lo) ** SHARES[axis]
        halves = []
        for part in ((lo, middle), (middle, hi)):
            bounds = (part, box.bounds[1]) if axis == 0 else (box.bounds[0], part)
            half = CostBox(bounds, box.upper, box.level + 1)
            half.seen = self.best.score if half.holds(self.best.costs) else -np.inf
            half.nodes = [
                self._node(costs, limit, near, along[axis] // 2)
                for costs, near in zip(half.corner_costs(), box.nodes, strict=True)
            ]
            self._bound(half)
            halves.append(half)
        return halves

    def _explore(self, box: CostBox, limit: Limit) -> None:
        """Search the cells of a box. Stopped if there is no time; its bound may have fallen then."""
        tiles = self.team.each(SearchedFold.explore, (), box.bounds, limit)
        folds = self.folds
        if box.nodes:
            near = zip(self.folds, self.solvers, box.nodes[0].corners, strict=True)
            folds = [fold._replace(near=(solver, corner)) for fold, solver, corner in near]
        overlay = overlay_of(box.bounds, self.bounds, self.judge, folds, tiles, [], limit)
        upper = self._search_cells(overlay, limit)
        if upper > self.best.score + self.judge.equal:
            box.upper = min(box.upper, upper)
            if not self.judge.is_ranking or limit.expired:
                raise Stopped
            self.floor = max(self.floor, upper)
        box.ticket = -1
        if self.record is not None:
            self.record.note_explored(box.bounds, [node.corners for node in box.nodes])
        if upper < self.best.score - self.judge.equal:
            self.closed.append(box.bounds)
        else:
            self.explored.append(Explored(box.bounds, tiles))

    def _search_cells(self, overlay: Overlay, limit: Limit) -> float:
        """The bound of a box that was explored; the incumbent rises to it, unless the models say otherwise."""
        refuted = np.empty(0, dtype=np.uint64)
        while True:
            best = fresh_best(refuted=refuted, floor=self.best.score)
            found = search(overlay, best, limit, None)
            if not found.fragments:
                is_open = found.upper_bound > self.best.score + self.judge.equal  # the order of positive rows, for rankings
                return found.upper_bound if limit.expired or is_open else -np.inf
            if best.score[0] <= self.best.score + self.judge.equal:
                return found.upper_bound
            cells = make_cells(overlay, found.fragments)
            for k, cell in enumerate(cells):
                if overlay.confirms(cell, limit):
                    self._take(Incumbent(cell.score, cell.center, found=(overlay, cells[k:])))
                    return found.upper_bound
            refuted = np.concatenate([refuted, np.array([cell.key for cell in cells], dtype=np.uint64)])

    # Models

    def _nearest(self, costs: Costs) -> Node | None:
        """The known models at the nearest costs."""

        def distance(node: Node) -> float:
            return float(np.sum(np.log(np.divide(node.costs, costs)) ** 2))

        return min(list(self.nodes.values()), key=distance, default=None)

    def _node(self, costs: Costs, limit: Limit, near: Node | None, events: int = SHORT + 1) -> Node:
        """The models at some costs; ``near`` are models nearby, some events off."""
        known = self.nodes.get(costs)
        if known is not None:
            return known
        starts = [None] * len(self.folds) if near is None else [corner.near for corner in near.corners]
        corners = self.team.each(SearchedFold.solve, (starts,), costs, events, limit)
        signs = [corner.value > 0 for corner in corners]
        own = zip(self.team.things, signs, strict=True)
        counts = np.concatenate([fold.rows.tally(sign, ~sign) for fold, sign in own], axis=1)
        self.nodes[costs] = node = Node(costs, corners, counts, self._scores(counts))
        if all(lo < cost < hi for cost, (lo, hi) in zip(costs, self.bounds, strict=True)):
            self._take(Incumbent(float(node.scores.mean()), costs, node=node))
        return node

    def _scores(self, counts: npt.NDArray[np.int64], upper: bool = False) -> Floats:
        """Scores (K,) of counts (2, G); the highest that they can be if some are open."""
        scores: Floats = fold_scores(self.judge, counts[None], upper)[0]
        return scores

    def _take(self, new: Incumbent) -> None:
        """Costs that reach a score."""
        if new.score > self.best.score + self.judge.equal:
            self.best = new
            self.closed += [part.bounds for part in self.explored]
            self.explored.clear()
            for *_, ticket, box in self.by_bound.copy():
                if ticket == box.ticket and box.holds(new.costs):
                    box.seen = new.score
                    heapq.heappush(self.by_score, (-box.known, -box.upper, ticket, box))

    # The first boxes

    def _small(self, axis: int) -> float:
        """Costs of one class below which nothing happens if those of the other are as small."""
        found = []
        for solver in self.solvers:
            data = solver.problem.data
            pull = np.linalg.norm((data.weight * (data.axis == axis)) @ data.rows) * data.norm.max()
            found.append(0.4 / max(pull, np.finfo(float).tiny) * _unit(solver))
        return float(min(found))

    def _large(self, events: list[Floats]) -> float:
        """Costs beyond which facets are few: hardly any events on a ray are larger."""
        sizes = [np.clip(np.quantile(own, 1.0 - TAIL) if own.size else 0.0, LARGE, FURTHEST) for own in events]
        return float(max(size * _unit(solver) for size, solver in zip(sizes, self.solvers, strict=True)))


def _first_boxes(edges: list[list[float]], upper: float) -> Iterator[CostBox]:
    """Boxes that make up the region, those in the middle first."""
    boxes = [CostBox(bounds, upper, 0) for bounds in boxes_between(edges)]
    for box in boxes:
        box.level = 0 if box.is_finite else LATE
    middle = [edge[len(edge) // 2] for edge in edges]
    yield from sorted(boxes, key=lambda box: (not box.is_finite, distance_of(box.bounds, middle)))


def _unit(solver: Solver) -> float:
    """A cost of 1 in the units of the data, in the user's."""
    return float(np.ldexp(1.0, int(np.clip(-solver.problem.cost_exponent, -1000, 1000))))


def _expected_facets(box: CostBox) -> int:
    """Lines that separate one pair of opposite corners cross those that separate the other pair."""
    return (1 + box.events(0, 2)) * (1 + box.events(1, 3))


# ----------------------------------------------------------------------------------------------------------------------
# From the folds to the best cells


def find_any_time(
    folds: Folds, tolerance: float | None, score: Score, model: dict[str, Any], bounds: Bounds, n_jobs: int | None,
    limit: Limit, bar: Any, record: Record | None = None,
) -> tuple[Overlay, Confirmed]:  # fmt: skip
    """The best cells that are found in a time, or up to a tolerance. Stopped if no costs at all were looked at.

    What is dropped or left open, and why, goes into a record.
    """
    check_scorable(folds, score)
    maps = [make_fold(folds, k, score, model, bounds, limit) for k in range(len(folds.splits))]
    with make_team([SearchedFold(fold, record is not None) for fold in maps], n_jobs) as team:
        work = BoxSearch(team, make_judge(score, maps), bounds, bar, limit, record)
        work.run(limit.within(limit.left - min(LAST, LAST_SHARE * limit.left)) if limit.finite else limit, tolerance)
    if work.best.score == -np.inf:
        raise Stopped
    for box in work.open_boxes:
        work.note(box)
    overlay, found = _best_cells(work, limit, bar)
    certified = work.upper <= found.best_score + work.judge.equal
    upper = found.best_score if certified else max(work.upper, found.best_score)
    return overlay, found._replace(upper_bound=upper, certified=certified, n_boxes=work.n_boxes)


def _best_cells(work: BoxSearch, limit: Limit, bar: Any) -> tuple[Overlay, Confirmed]:
    """All best cells if the search came to its end, else those of the box of the incumbent."""
    if work.explored and not work.open_boxes:
        with suppress(Stopped):
            overlay = _join(work, limit)
            return overlay, find_best(overlay, limit, bar, work.best.score)
    around = _look_around(work, limit, bar)
    if around is not None:
        return around
    if work.best.found is not None:
        overlay, cells = work.best.found
        return overlay, Confirmed(cells, np.inf, False, 0, np.empty(0, dtype=np.uint64))
    overlay = _overlay_of_point(work)
    cells = make_cells(overlay, [overlay.box])
    cells[0].__dict__["center"] = work.best.costs  # known already: the costs that were tried
    return overlay, Confirmed(cells, np.inf, False, 0, np.empty(0, dtype=np.uint64))


def _look_around(work: BoxSearch, limit: Limit, bar: Any) -> tuple[Overlay, Confirmed] | None:
    """The best cells in a box around the best costs: larger and larger ones are explored, until the best cell is inside."""
    found = None
    for factor in AROUND:
        (a, b), (c, d) = (
            (max(lo, cost / factor), min(hi, cost * factor))
            for cost, (lo, hi) in zip(work.best.costs, work.bounds, strict=True)
        )
        bounds, part = ((a, b), (c, d)), limit.within(limit.left / 2)
        try:
            tiles = [fold.explore(bounds, part) for fold in work.folds]
            overlay = overlay_of(bounds, work.bounds, work.judge, work.folds, tiles, [], part)
            found = overlay, find_best(overlay, part, bar, work.best.score - work.judge.equal)
        except Stopped:
            break
        corners = np.concatenate(found[1].cells[0].pieces)
        p, q = corners[:, 0] / corners[:, 2], corners[:, 1] / corners[:, 2]
        if p.min() > a and p.max() < b and q.min() > c and q.max() < d:
            break
    return found


def _join(work: BoxSearch, limit: Limit) -> Overlay:
    """The explored boxes in one; the others among them count as unexplored."""
    ends = np.array([part.bounds for part in work.explored])
    (a, b), (c, d) = zip(ends[:, :, 0].min(axis=0).tolist(), ends[:, :, 1].max(axis=0).tolist(), strict=True)
    hull = (a, b), (c, d)
    rest = [part for bounds in work.closed for part in intersection(bounds, hull)]
    tiles = [[tile for part in work.explored for tile in part.tiles[k]] for k in range(len(work.folds))]
    return overlay_of(hull, work.bounds, work.judge, work.folds, tiles, rest, limit)


def _overlay_of_point(work: BoxSearch) -> Overlay:
    """A tiny box around the best costs, where nothing is known but the models at these."""
    (a, b), (c, d) = (
        (max(lo, cost * (1 - TINY)), min(hi, cost * (1 + TINY)))
        for cost, (lo, hi) in zip(work.best.costs, work.bounds, strict=True)
    )
    bounds = (a, b), (c, d)
    polygon, node = make_region(bounds, 0).corners, work.best.node
    assert node is not None
    box = Box(
        corners=polygon,
        names=np.arange(len(polygon), dtype=np.uint64),
        codes=-1 - np.roll(np.arange(len(polygon), dtype=np.int64), -1),
        pieces=np.empty((0, 6)),
        points=np.empty(0, dtype=np.int32),
        lines=np.empty(0, dtype=np.int64),
        seat=np.array([*work.best.costs, 1.0]),
        positive=np.concatenate([np.append(corner.value > 0, False) for corner in node.corners]),
        counts=node.counts,
        key=np.zeros(1, dtype=np.uint64),
    )
    return Overlay(box, work.judge, bounds, work.bounds, 0, [fold.holdout for fold in work.folds])
