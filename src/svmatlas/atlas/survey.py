"""The region as tiles: cut, start, explore with few candidates, certify.

A tile is a box of costs. The cuts are where a ray through the region has had so many events, so that tiles have some thousand
facets each; a tile with too many is cut again. Each starts at costs of its own (walk.py), explores with the points that are
near their margins at its corners (tile.py), certifies that the others are where they were, or takes in those for which
it cannot, and explores again. Tiles need nothing of each other, though what is known of a cut makes the start beyond it
quicker: they can be explored in any order, and at once.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from functools import cached_property
from itertools import chain, pairwise, product
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from svmatlas.atlas.plateau_tiles import PlateauTiles
from svmatlas.data.problem import Bounds, Problem, make_region, make_tile
from svmatlas.engine.arena import before_in, facet_of, states_of
from svmatlas.engine.clipping import CLOSED, EMPTY
from svmatlas.engine.compiled import entry
from svmatlas.engine.guess import approximate
from svmatlas.engine.layers import FULL, PAUSED
from svmatlas.engine.maps import affine_maps
from svmatlas.engine.names import make_words
from svmatlas.engine.plateaus import class_weights, find_plateaus
from svmatlas.engine.tile import Engine, Facets, Frame, impossible, uncertain
from svmatlas.engine.workspace import CUT, INSIDE, MARGIN, P, Q
from svmatlas.models.walk import Steps, Walker, line_across, state_at, tidy
from svmatlas.support.settings import SETTINGS
from svmatlas.support.stopping import NEVER, Limit, Stopped
from svmatlas.support.threads import make_pool

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
States = npt.NDArray[np.int8]
Bound = tuple[float, float]
Seed = tuple[Bound, States]
T = TypeVar("T")

USUAL = 768
"""Points up to which tiles have as many events as SETTINGS say."""

FEWEST = 5
"""Tiles along each axis, for threads to share, unless they would have less than half as many events."""

FRUGAL = 8
"""So much smaller tiles are where memory is short: two threads then stay below 1 GiB with all that they load."""

WIDER = 1.5
"""Factor on the extent of the weights at the corners of a tile, for a first choice of candidates."""

BEND = 0.1
"""Share of that extent by which the weights are expected to leave the plane that it spans."""

NARROW = 1.5
"""Ratio of costs up to which a tile is narrow: weights at three corners tell those at the fourth."""

RAY_SHARE = 0.2
"""Share of the time that is left in which the ray is followed that tells where to cut."""

QUICKEST = 1e-3
"""Seconds for a tile, at least: there is no use in more tiles than there is time for."""

AHEAD = 32
"""Tiles among which the next is chosen where threads share them."""

SEEDS = 512
"""Facets on cuts that are remembered, as starts of the tiles beyond."""

LITTLE = 2.0**-14
"""Relative width of a box that has a few facets, whatever the data."""

CLOSE = 1e-9
"""Relative distance at which costs are on a cut: corners are good to 2e-10."""

APART = 1e-6
"""Relative distance of events between which a cut may go: tied ones, 1e-13 apart, count as one."""

BETWEEN = (2.0**0.5 - 1, 3.0**0.5 - 1)
"""Where between two events a cut of C+ goes, and one of C-, as a share of the way: at no place where tied data would have
another edge or vertex, and so that cuts do not cross on the ray, which may be an edge."""

LAST_CUT = 2.0**30
"""Largest cost, in units of the data, at which there is a cut. With tied data the jitter alone, 2^-43, makes events at costs
of 2^40 and more: what lies between them is no facet of the data."""

SLIM = 1e-3
"""Least relative width of the parts of a tile that is cut again."""

DEEPEST = 12
"""So often a tile is cut again before it gets more room instead: some facets are too close together for any cut."""


class Side(NamedTuple):
    """One side of a tile."""

    axis: int  # of the cost that is the same all along,
    cost: float
    other: tuple[float, float]  # and the ends of the other


def _sides(tile: Bounds) -> list[list[Side]]:
    """The sides of a tile, for each axis."""
    return [[Side(axis, cost, tile[1 - axis]) for cost in tile[axis]] for axis in range(2)]


class Ray:
    """A ray through the middle of the region, if it has one, else where classes balance, and the events on it.

    It is followed as far as there is time.
    """

    def __init__(self, problem: Problem, bounds: Bounds) -> None:
        self.problem = problem
        (a, b), (c, d) = bounds
        weight = problem.data.weight
        pos, neg = weight[problem.data.axis == Q].sum(), weight[problem.data.axis == P].sum()
        if min(a, c) > 0 and np.isfinite(b + d):
            pos, neg = np.sqrt(a * b), np.sqrt(c * d)
        self.unit = np.array([pos or 1.0, neg or 1.0]) / (max(pos, neg) or 1.0)  # a class may have no points
        self.begin = max(a / self.unit[0], c / self.unit[1])
        self.end = min(b / self.unit[0], d / self.unit[1])
        self.walker: Walker | None = None
        self.walk: Iterator[Steps] | None = None
        self.start, self.state = np.empty(0, np.int8), np.empty(0, np.int8)  # partitions at the beginning, and now
        self.steps: list[Steps] = []
        self.n_events = 0
        self.done = False

    @property
    def cut_short(self) -> bool:
        """Whether there was no time to follow the ray to its end."""
        return self.walker is not None and not self.done

    def follow(self, limit: Limit, seconds: float) -> bool:
        """Follow the ray on, for so long; were there events?"""
        begin, before = time.monotonic(), self.n_events
        with suppress(Stopped):
            if self.walker is None:
                self._set_out(limit.within(seconds))
            while not self.done and time.monotonic() - begin < seconds:
                self._go_on(limit)
        return self.n_events > before

    def _set_out(self, limit: Limit) -> None:
        """Find the partition at the beginning."""
        problem, unit = self.problem, self.unit
        track = tidy(np.array([unit[1], -unit[0], 0.0]))
        goal = np.array([0.0, 0.0, 1.0])
        if np.isfinite(self.end):
            goal = line_across(track, problem.homogeneous(*(unit * self.end)[:, None])[0])
        self.start = state_at(problem, float(unit[0] * self.begin), float(unit[1] * self.begin), limit)
        self.state = self.start.copy()
        self.walker = Walker(problem, np.array([track, goal]))
        self.walk = self.walker.follow(self.state, 0, 1, rough=True)

    def _go_on(self, limit: Limit) -> None:
        """Follow the ray for a stride. It has no further ones if it is stopped on the way."""
        limit.check()
        assert self.walker is not None
        self.walker.stop_at(limit)
        walk, self.walk = self.walk, None
        if walk is None:
            raise Stopped
        steps = next(walk, None)
        self.walk, self.done = walk, steps is None
        if steps is not None:
            self.steps.append(steps)
            self.n_events += steps.code.size

    def costs(self) -> Floats:
        """Costs (n, 2) of the events."""
        return costs_of(self.problem, np.concatenate([np.empty((0, 3)), *(steps.corner for steps in self.steps)]))

    def seeds(self, n: int) -> list[Seed]:
        """Costs on about n of the longest stretches of the ray, and their partitions."""
        cost, code = self.costs(), np.concatenate([steps.code for steps in self.steps])
        last = []
        if self.done and len(cost) > 0:  # the partition from the last event on
            a, b = (cost[-1] + (self.unit * self.end if np.isfinite(self.end) else 2 * cost[-1])) / 2
            last = [((float(a), float(b)), self.state)]
        if len(cost) < code.size:  # some are at infinity, as far as is known
            return last
        with np.errstate(divide="ignore", invalid="ignore"):  # places are rough
            length = np.max(np.diff(cost, axis=0) / cost[1:], axis=1)
        blocks = np.array_split(np.arange(length.size), max(1, n))
        longest = np.array([block[np.argmax(length[block])] for block in blocks if block.size > 0], dtype=np.intp)
        flips = np.column_stack([code, np.full(code.size, -1)]).astype(np.int32)
        states = states_of(longest, np.arange(-1, code.size - 1, dtype=np.int32), flips, self.start)
        places = ((cost[longest] + cost[longest + 1]) / 2).tolist()
        return last + [((a, b), state) for (a, b), state in zip(places, states, strict=True)]


def costs_of(problem: Problem, corners: Floats) -> Floats:
    """Costs (n, 2) of those corners that are not at infinity."""
    corners = problem.to_user(corners[corners[:, 2] > 0])
    with np.errstate(over="ignore"):
        cost: Floats = corners[:, :2] / corners[:, 2:]
    return cost


class Surveyor:
    """Explores a region tile by tile."""

    def __init__(self, problem: Problem, bounds: Bounds, betas: bool = False, frugal: bool = False) -> None:
        self.problem = problem
        self.bounds = bounds
        self.room = SETTINGS.tile_bytes // FRUGAL if frugal else SETTINGS.tile_bytes
        self.words = make_words(problem.n_points, np.random.default_rng(problem.seed))
        self.region = make_region(bounds, problem.cost_exponent)
        self.engine = Engine(problem.data, self.words, betas)
        self.weights = class_weights(problem.data)
        self.ray = Ray(problem, bounds)
        self.seeds: deque[Seed] = deque(maxlen=SEEDS)
        self.known: dict[tuple[float, ...], tuple[States, Floats | None]] = {}  # partitions at corners of tiles, and weights
        self.plateau_tiles = PlateauTiles()
        self.met: dict[Side, int] = {}  # so many facets are on the sides of tiles; 1 if these are being explored
        self.spare: tuple[Bounds, Facets] | None = None  # of the first tile, if it was too large
        self.undone: list[Bounds] = []
        self.n_tiles = 0  # finished, and
        self.n_known = 1  # all that are known so far

    def __reduce__(self) -> tuple[type[Surveyor], tuple[Any, ...], tuple[Any, ...]]:
        """In another process: what it starts from, and the seeds that are known."""
        told = self.room, self.engine.plateaus, list(self.seeds)
        return Surveyor, (self.problem, self.bounds, self.engine.betas), told

    def __setstate__(self, told: tuple[int, npt.NDArray[np.bool_], list[Seed]]) -> None:
        self.room, self.engine.plateaus, seeds = told
        self.seeds.extend(seeds)

    def leave_out_plateaus(self, joined: bool = True) -> None:
        """From now on leave plateaus out (plateaus.py); if tiles are to be ``joined``, only where the rest hangs together.

        By the sides of a tile one gets to all of it: two convex sets that do not meet enclose nothing.
        """
        least = self.problem.homogeneous(*np.array([[low] for low, _ in self.bounds]))[0]
        self.engine.plateaus = find_plateaus(self.problem.data, joined * least[:2] / least[2])

    @cached_property
    def thorough(self) -> Surveyor:
        """One that leaves nothing out, and shares what this one knows."""
        other = Surveyor.__new__(Surveyor)  # a copy would know no more than another process does
        other.__dict__.update(self.__dict__)
        other.engine = Engine(self.problem.data, self.words, self.engine.betas)
        return other

    def survey(
        self,
        state: States,
        start: tuple[float, float],
        n_jobs: int,
        max_facets: float,
        limit: Limit,
        visit: Callable[[Bounds, Facets], T],
    ) -> Iterator[T]:
        """What ``visit`` makes of all tiles, first of the one that holds ``start``, where the partition is ``state``.

        It is called as ``visit(tile, facets)`` in the thread that explored the tile. Tiles of which facets are missing,
        because there were enough or it was time to stop, are in ``undone`` at the end.
        """
        few = max_facets <= self._room(self.problem.n_points, 0) // 2
        width = n_jobs if max_facets == np.inf else 1
        tiles = [self.bounds] if few else self.cut(start, limit, RAY_SHARE * limit.left, width)
        waiting = [(tile, 0) for tile in tiles]
        in_order = len(waiting)  # so many are taken as they come, the others as they promise most
        if width > 1 and not limit.finite:
            waiting, in_order = _arrange(waiting)
        self.n_known = len(waiting)
        first: States | None = state
        left, enough = _Left(max_facets), False
        running: dict[Future[tuple[Facets, T] | list[Bounds]], tuple[Bounds, int]] = {}
        ahead = width + 1 if width > 1 else 1  # one waits for a thread that is done
        with make_pool(width) as pool:
            while running or (waiting and not enough):
                while waiting and not enough and len(running) < ahead:
                    tile, depth = waiting.pop(0 if in_order > 0 or first is not None else self._most_promising(waiting))
                    in_order -= 1
                    for side in chain(*_sides(tile)):
                        self.met.setdefault(side, 1)
                    running[pool.submit(self._visit, visit, tile, depth, first, left.count, limit)] = tile, depth
                    first = None
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    (tile, depth), result = running.pop(future), _result(future)
                    if isinstance(result, list):
                        if self.n_tiles == 0 and not running:  # the start is in one of the parts
                            result.sort(key=lambda part: not _holds(part, start))
                            first = state
                        waiting = [(part, depth + 1) for part in result] + waiting
                        self.n_known += len(result) - 1
                        continue
                    self._take(tile, result[0] if result else None, left)
                    if result:
                        yield result[1]
                enough = bool(self.undone) or left.count <= 0 or limit.expired
        self.undone += [tile for tile, _ in waiting]
        if self.n_tiles == 0 and self.spare is not None:
            yield visit(*self.spare)

    def _take(self, tile: Bounds, facets: Facets | None, left: _Left) -> None:
        """Take note of what was found in a tile."""
        if facets is None or facets.outcome == PAUSED:
            self.undone.append(tile)
        if facets is not None:
            self.n_tiles, self.spare = self.n_tiles + 1, None
            left.take(facets.key)

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return not self.undone

    def _visit(self, visit: Callable[[Bounds, Facets], T], tile: Bounds, *options: Any) -> tuple[Facets, T] | list[Bounds]:
        """Explore a tile and make of it what is wanted."""
        facets = self.explore(tile, *options)
        if isinstance(facets, list):
            return facets
        self.remember(tile, facets)
        return facets, visit(tile, facets)

    def explore(
        self,
        tile: Bounds,
        depth: int = 0,
        state: States | None = None,
        max_facets: float = np.inf,
        limit: Limit = NEVER,
    ) -> Facets | list[Bounds]:
        """The facets of one tile; if they are too many the parts to cut it into. Stopped if it is time before there is one."""
        on_plateau = self.plateau_tiles.find(tile, self.engine.plateaus & (max_facets == np.inf))
        if on_plateau is not None:
            return on_plateau
        region = make_tile(tile, self.problem.cost_exponent, self.region)
        n = self.problem.n_points
        share = 0.5
        if state is None or self._plateau_at(state) >= 0:
            state = self._start(tile, share, limit)
        frame = self._frame(tile, state, limit)
        while True:
            facets = self.engine.explore(region, state, frame, self._room(frame.which.size, depth), max_facets, limit)
            if facets.outcome == EMPTY:
                share *= 0.7
                if share < 1e-3:
                    raise impossible(self.problem.data, f"no facet found in the tile {tile}")
                state = self._start(tile, share, limit)
                frame = self._frame(tile, state, limit)
                continue
            if facets.outcome == FULL:
                if self.n_tiles == 0 and frame.which.size == n:
                    self.spare = tile, facets._replace(outcome=PAUSED)
                return _halve(tile, self._costs(facets.corner), LAST_CUT * self._unit) if depth < DEEPEST else [tile]
            if facets.key.size == 0:
                raise Stopped
            if frame.which.size == n:
                return facets
            unsure = uncertain(self.problem.data, facets, frame.axes)
            if not unsure.any():
                return facets
            limit.check()
            unsure[frame.which] = True
            frame = self._choose(frame.axes, unsure)

    def explore_parts(self, tile: Bounds, depth: int) -> Iterator[Facets]:
        """The facets of one tile, or of the parts that it is cut into."""
        facets = self.explore(tile, depth)
        if not isinstance(facets, list):
            yield facets
            return
        for part in facets:
            yield from self.explore_parts(part, depth + 1)

    def _room(self, n_candidates: int, depth: int) -> int:
        """Number of facets that a tile may have."""
        # One facet in eight waits, with its partition and pull
        size = n_candidates // 8 + 6 * self.problem.data.rows.shape[1] + 400
        return int(np.clip(self.room // size, 512, 2**18)) << (2 * max(0, depth - DEEPEST))

    def _most_promising(self, waiting: list[tuple[Bounds, int]]) -> int:
        """Which of the next tiles may have most facets, by those on its sides as far as they are known: to be explored next.

        If the largest come first no thread is left alone with one in the end.
        """

        def promise(tile: Bounds) -> int:
            first, second = (max(self.met.get(side, 0) for side in sides) for sides in _sides(tile))
            return (first or self._events) * (second or self._events) if first or second else 0

        return int(np.argmax([promise(tile) for tile, _ in waiting[:AHEAD]]))

    def small_box(self) -> Bounds:
        """Costs in the middle of the region."""
        low, high = [], []
        for bound in self.bounds:
            middle = _between(*bound, 0.5, self._unit)
            low.append(max(bound[0], middle * (1 - LITTLE)))
            high.append(min(bound[1], middle * (1 + LITTLE)))
        return (low[0], high[0]), (low[1], high[1])

    # Starts

    def _start(self, tile: Bounds, share: float, limit: Limit) -> States:
        """Partition somewhere in a tile."""
        if tile[0][0] == tile[1][0] == 0 and not np.isfinite(tile[0][1] + tile[1][1]):
            return np.full(self.problem.n_points, INSIDE, dtype=np.int8)
        for place, state in list(self.seeds) if share == 0.5 else ():
            if _reaches(tile, place) and self._plateau_at(state) < 0:
                return state
        costs = [_between(*bound, share, self._unit) for bound in tile]
        axis = self._plateau_near(costs) if share == 0.5 else -1  # to find a partition on one takes long
        if axis < 0:
            state = state_at(self.problem, costs[0], costs[1], limit)
            axis = self._plateau_at(state)
        if axis >= 0:  # go to where classes balance, which is on no plateau, or to a side of the tile
            costs[axis] = max(tile[axis][0], costs[1 - axis] * self.weights[1 - axis] / self.weights[axis])
            state = state_at(self.problem, costs[0], costs[1], limit)
        return state

    def _plateau_near(self, costs: list[float]) -> int:
        """The class with a plateau that costs may lie on, by (1) of plateaus.py, if it is left out; else -1."""
        c = self.problem.homogeneous(*np.array(costs)[:, None])[0]
        pull = c[:2] / c[2] * self.weights
        holds = self.engine.plateaus & (pull > self.problem.data.anchor**2 + pull[::-1])
        return int(np.argmax(holds)) if holds.any() else -1

    def _plateau_at(self, state: States) -> int:
        """The class with a plateau that a partition lies on, if it is left out; else -1."""
        margin, axis = state == MARGIN, self.problem.data.axis
        for c in np.flatnonzero(self.engine.plateaus):
            if margin.sum() == self.problem.data.rank and np.all(axis[margin] == c):
                return int(c)
        return -1

    def remember(self, tile: Bounds, facets: Facets) -> None:
        """The facets with the longest edges on each cut of a tile, and those at its corners; whether it lies on a plateau."""
        if facets.code.size == 0 and facets.outcome == CLOSED and (axis := self._plateau_at(facets.start)) >= 0:
            self.plateau_tiles.take(axis, tile, facets)
        longest, place, count = longest_on_cuts(facets.at, facets.code, facets.vertex, facets.corner)
        there = longest >= 0
        costs = self._costs(place[there]).tolist()
        for state, (a, b), n in zip(facets.states(longest[there]), costs, count[there].tolist(), strict=True):
            self.seeds.appendleft(((a, b), state))
            for sides, cost in zip(_sides(tile), (a, b), strict=True):
                for side in sides:
                    if abs(cost - side.cost) <= CLOSE * cost:
                        self.met[side] = n
        if self.problem.n_points > SETTINGS.all_candidates_points:
            before = before_in(np.flatnonzero(facets.code < 0), facets.at)
            before = before[(facets.code[before] < 0) & (facets.corner[facets.vertex[before], 2] > 0)]
            places = self._costs(facets.corner[facets.vertex[before]])
            for facet, place in zip(facet_of(before, facets.at).tolist(), places, strict=True):
                for corner in product(*tile):
                    if np.allclose(place, corner, rtol=CLOSE, atol=0.0):
                        self.known.setdefault(corner, (facets.state(facet), None))

    @property
    def _unit(self) -> float:
        """A cost of 1 in internal units."""
        return float(np.ldexp(1.0, int(np.clip(-self.problem.cost_exponent, -1000, 1000))))

    # Cuts

    def cut(
        self, start: tuple[float, float], limit: Limit = NEVER, seconds: float = np.inf, n_jobs: int | None = None
    ) -> list[Bounds]:
        """The tiles, that of the start first; see ``grid``. Where there is no time to come to, they are large."""
        grid, most = self.grid(limit, seconds, n_jobs), 1.0 + (limit.left / QUICKEST) ** 0.5
        tiles = list(product(_around(grid[0], start[0], most), _around(grid[1], start[1], most)))
        first = next((k for k, tile in enumerate(tiles) if _holds(tile, start)), 0)
        tiles.insert(0, tiles.pop(first))
        return tiles

    def grid(
        self, limit: Limit = NEVER, seconds: float = np.inf, n_jobs: int | None = None
    ) -> tuple[list[Bound], list[Bound]]:
        """The bounds of tiles, for C+ and for C-.

        For one job alone there are fewer, as each takes its set-up; but not where weights are wanted: in small tiles most
        held-out rows have no zero curve.

        The ray that tells where to cut is followed for some time. Beyond the place where it ends then, there are no cuts.
        """
        if self.problem.n_points <= SETTINGS.one_tile_points:
            return [self.bounds[0]], [self.bounds[1]]
        events = self._events
        if self.ray.follow(limit, seconds):
            self.seeds.extend(self.ray.seeds(2 * self.ray.n_events // events))
        cuts, fewest = [], 1 if n_jobs == 1 and not self.engine.betas else FEWEST
        for column, (lo, hi), share in zip(self.ray.costs().T, self.bounds, BETWEEN, strict=True):
            inner = _apart(column, lo, min(hi, LAST_CUT * self._unit))
            count = max(inner.size // events, min(fewest, 2 * inner.size // events))
            at = (np.arange(1, count) * inner.size) // max(count, 1)
            cuts.append([lo, *_cut_before(inner, at, share).tolist(), hi])
        return list(pairwise(cuts[0])), list(pairwise(cuts[1]))

    @property
    def all_cut(self) -> bool:
        """Whether no more cuts would come of following the ray."""
        return self.ray.done or self.problem.n_points <= SETTINGS.one_tile_points

    @property
    def _events(self) -> int:
        """Events of the ray from cut to cut."""
        return max(1, int(SETTINGS.events_per_tile * min(1.0, (USUAL / self.problem.n_points) ** 0.5)))

    def _costs(self, corners: Floats) -> Floats:
        return costs_of(self.problem, corners)

    # Candidates

    def _frame(self, tile: Bounds, start: States, limit: Limit = NEVER) -> Frame:
        """Candidates for a tile, from the weights at its corners and the partition that it is explored from."""
        data = self.problem.data
        n, d = data.rows.shape
        if n <= SETTINGS.all_candidates_points or self.ray.cut_short:  # a tile without cuts has too many candidates
            return self._choose(np.empty((0, d)), np.ones(n, dtype=bool))
        states, beta = self._weights(tile, limit)
        states = np.vstack([states, start])
        centre = beta.mean(axis=0)
        _, _, directions = np.linalg.svd(beta - centre)
        axes = np.vstack([centre, directions[:2], np.zeros((max(0, 2 - d), d))])
        along = (beta - centre) @ axes[1:].T
        rest = np.linalg.norm(beta - centre - along @ axes[1:], axis=1).max()
        extent = np.abs(along).max(axis=0)
        rest += BEND * extent.sum()
        score = np.abs(data.rows @ centre - (1.0 + data.target_jitter))
        reach = np.abs(data.rows @ axes[1:].T) @ extent + rest * data.norm
        moving = np.any(states == MARGIN, axis=0) | np.any(states != states[0], axis=0)
        return self._choose(axes, (score <= WIDER * reach) | moving)

    def _weights(self, tile: Bounds, limit: Limit) -> tuple[States, Floats]:
        """Partitions and weights at the corners of a tile, and in its middle if it is wide.

        The tiles around know most corners of a narrow one; the weights at the last are what they are in a parallelogram.
        """
        places = [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0), (0.5, 0.5)]
        costs = [tuple(_between(*bound, s, self._unit) for bound, s in zip(tile, place, strict=True)) for place in places]
        narrow = all(lo > 0 and hi < NARROW * lo for lo, hi in tile)
        if narrow:
            costs = sorted(costs[:4], key=lambda cost: cost not in self.known)
            last = costs.pop()
        c = self.problem.homogeneous(*np.array(costs).T)
        found = [self._weights_at(cost, place, limit) for cost, place in zip(costs, c, strict=True)]
        states, beta = (np.array(part) for part in zip(*found, strict=True))
        if narrow:
            sign = [-1.0 if cost[0] != last[0] and cost[1] != last[1] else 1.0 for cost in costs]
            beta = np.vstack([beta, sign @ beta])
        return states, beta

    def _weights_at(self, costs: tuple[float, ...], c: Floats, limit: Limit) -> tuple[States, Floats]:
        """Partition and weights at some costs; those that are not known nearly so: the candidates are certified anyway."""
        limit.check()
        state, beta = self.known.get(costs) or approximate(self.problem.data, c)
        if beta is None:
            _, (maps,) = affine_maps(self.problem.data, self.region, state[None], jitter=1.0, accuracy=1.0)
            beta = c / c[2] @ maps
        self.known[costs] = state, beta
        return state, beta

    def _choose(self, axes: Floats, wanted: npt.NDArray[np.bool_]) -> Frame:
        """The wanted points as candidates, or all, with nothing to certify, if these are most."""
        if wanted.sum() > SETTINGS.most_candidates * wanted.size:
            return Frame(axes[:0], np.arange(wanted.size))
        return Frame(axes, np.flatnonzero(wanted))


@entry
def longest_on_cuts(at, code, vertex, corner):
    """For each side of a tile that is a cut the facet with the longest edge there, relative to its costs, and a place on it.

    For other sides -1. Last, how many facets have an edge there.
    """
    facet, place, longest, count = np.full(CUT, -1), np.zeros((CUT, 3)), np.zeros(CUT), np.zeros(CUT, np.int64)
    for f in range(at.size - 1):
        for k in range(at[f], at[f + 1]):
            side = -1 - code[k] - CUT
            if side < 0:
                continue
            count[side] += 1
            a, b = corner[vertex[k]], corner[vertex[k - 1 if k > at[f] else at[f + 1] - 1]]
            for c in range(2):
                x, y = a[c] * b[2], b[c] * a[2]
                if abs(x - y) > longest[side] * (x + y):
                    longest[side], facet[side] = abs(x - y) / (x + y), f
                    for j in range(3):
                        place[side, j] = a[j] * b[2] + b[j] * a[2]
                    if place[side, 2] == 0.0:  # one end is at infinity: twice the cost at the other
                        finite = a if a[2] > 0.0 else b
                        for j in range(3):
                            place[side, j] = finite[j] * (2.0 if j == c else 1.0)
    return facet, place, count


class _Left:
    """How many facets are still wanted. What two tiles have both is counted once in the end."""

    def __init__(self, most: float) -> None:
        self.count = self.most = most
        self.keys: list[npt.NDArray[np.uint64]] = []

    def take(self, keys: npt.NDArray[np.uint64]) -> None:
        """Facets were found."""
        if self.most < np.inf:
            self.keys.append(keys)
            self.count -= keys.size
            if self.count <= 0:
                self.count = self.most - np.unique(np.concatenate(self.keys)).size


def _result(future: Future[T]) -> T | None:
    """What a thread returns; None if it was stopped."""
    try:
        return future.result()
    except Stopped:
        return None


def _around(bounds: list[Bound], cost: float, most: float) -> list[Bound]:
    """So many of some bounds in a row, around a cost; those before are one, and so are those behind."""
    n = len(bounds)
    if n <= most:
        return bounds
    place, size = next((k for k, (lo, hi) in enumerate(bounds) if lo <= cost < hi), 0), int(most)
    first = max(0, min(place - size // 2, n - size))
    before, behind = (bounds[0][0], bounds[first][0]), (bounds[first + size - 1][1], bounds[-1][1])
    return [bound for bound in (before, *bounds[first : first + size], behind) if bound[0] < bound[1]]


def _holds(tile: Bounds, start: tuple[float, float]) -> bool:
    return all(lo <= value < hi for value, (lo, hi) in zip(start, tile, strict=True))


def _reaches(tile: Bounds, costs: tuple[float, float]) -> bool:
    """Do costs lie in a tile, or on one side well between its ends?"""
    n_inside = 0
    for cost, (lo, hi) in zip(costs, tile, strict=True):
        if not lo * (1 - CLOSE) <= cost <= hi * (1 + CLOSE):
            return False
        n_inside += lo * (1 + CLOSE) < cost < hi * (1 - CLOSE)
    return n_inside > 0


def _between(lo: float, hi: float, share: float, unit: float) -> float:
    """A cost between two bounds: on a logarithmic scale if these are finite and positive."""
    if lo > 0 and np.isfinite(hi):
        return float(lo * (hi / lo) ** share)
    if np.isfinite(hi):
        return float(hi * share**2)
    return float((lo or unit) * (1.0 + 4.0 * share / (1.0 - 0.9 * share))) if lo or share else 0.0


def _arrange(waiting: list[tuple[Bounds, int]]) -> tuple[list[tuple[Bounds, int]], int]:
    """Tiles in the order in which threads take them, and for how many it is fixed.

    The first stays so. If it is one of those along the diagonal, which are mostly large, these come next, from it on in both
    directions, so that what is explored is in one piece, and the others by their distance from there; else those near it.
    """
    ranks = [{lo: k for k, lo in enumerate(sorted({tile[axis][0] for tile, _ in waiting}))} for axis in range(2)]
    m, n = map(len, ranks)
    places = {tile: (ranks[0][tile[0][0]], ranks[1][tile[1][0]]) for tile, _ in waiting}
    path = {(i, j) for i in range(m) for j in range(i * n // m, min((i + 1) * n // m, n - 1) + 1)}
    a, b = places[waiting[0][0]]

    def rank(item: tuple[Bounds, int]) -> tuple[bool, float]:
        i, j = places[item[0]]
        if (a, b) not in path:
            return (i, j) != (a, b), abs(i - a) + abs(j - b)
        return (i, j) not in path, abs(i + j - a - b) if (i, j) in path else abs(i / m - j / n)

    return sorted(waiting, key=rank), len(path) if (a, b) in path else 1


def _apart(cost: Floats, lo: float, hi: float) -> Floats:
    """Of some costs those between two bounds, in order, each apart from the one before it."""
    inner: Floats = np.unique(cost[(cost > lo * (1 + APART)) & (cost < hi * (1 - APART))])
    return inner[np.concatenate([[True], np.diff(inner) > APART * inner[1:]])] if inner.size else inner


def _cut_before(cost: Floats, which: Ints, share: float) -> Floats:
    """Cuts between some of several costs, in order, and those before them, at a share of the way."""
    cuts: Floats = cost[which - 1] + share * (cost[which] - cost[which - 1])
    return cuts


def _halve(tile: Bounds, cost: Floats, most: float) -> list[Bounds]:
    """Two or four parts of a tile, cut about the medians of costs."""
    parts: list[list[tuple[float, float]]] = []
    for column, (lo, hi), share in zip(cost.T, tile, BETWEEN, strict=True):
        inner = _apart(column, lo, min(hi, most))
        middle = float(_cut_before(inner, np.array([inner.size // 2]), share)[0]) if inner.size > 1 else lo
        apart = middle - lo > SLIM * middle and hi - middle > SLIM * middle
        parts.append([(lo, middle), (middle, hi)] if apart else [(lo, hi)])
    return [(a, b) for a in parts[0] for b in parts[1]]
