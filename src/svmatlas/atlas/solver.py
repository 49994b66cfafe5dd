"""The solution at any costs: the piece of the map is looked up, and its maps are evaluated there.

The mesh leads the way by corners in doubles. The duality gap, or exact arithmetic, says whether the piece is the right one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np
import numpy.typing as npt

from svmatlas.data.problem import Problem
from svmatlas.engine.canonical import Canonical
from svmatlas.engine.floors import ON_SIDE, Floor
from svmatlas.engine.guess import alpha_on_plateau
from svmatlas.engine.locate import NOWHERE, Locator
from svmatlas.engine.workspace import Floats, Ints, L, Region
from svmatlas.models.gap import user_gaps, warn_if_inaccurate
from svmatlas.models.limits import LimitSolution, Way, first_limit, way_to
from svmatlas.models.solve import (
    ALARM,
    Solution,
    choose,
    is_doubtful,
    is_far,
    smaller_costs,
    solve,
    solve_on_plateau,
    solve_with_alpha,
)
from svmatlas.models.walk import state_at

SEARCHED = 512
"""Pieces nearby that are tried where the one that holds the costs has a gap."""

LARGE = 3
"""Number of the stop on the way to infinite costs where solutions on plateaus are taken: 2^32 units."""

ENDLESS = 2.0**-30
"""Dual variables with a larger share of their bounds there are infinite in the limit."""

LOST = 1e-9
"""Relative duality gap beyond which costs are taken to lie outside the explored part of a partial atlas: rounding and bad
conditioning leave less, and just outside a facet its solution is almost right."""


class Solver:
    """Looks up the piece of a map at given costs, and solves there."""

    def __init__(self, problem: Problem, canonical: Canonical, region: Region, complete: bool) -> None:
        self.problem = problem
        self.split = canonical.split
        self.region = region
        self.complete = complete  # else some costs are outside the explored part
        self.locator = Locator(canonical, region)
        self.sides: dict[int, Floats] = {}  # alpha at the ends of the stretch of a floor on a side, by the axis of the floor

    def limit(self, p: float, q: float) -> LimitSolution:
        """The solution at costs of which one or both are infinite."""
        way = way_to(p, q, self.problem.cost_exponent)
        limit = self._limit_on_plateau(way) or first_limit(self.problem.data, self.region, self._along(way.stops), way)
        if limit is None or (not self.complete and limit.violation > LOST):
            raise ValueError(f"costs ({p:g}, {q:g}) are outside the explored part of this partial atlas")
        gap = max(limit.violation, limit.longer, self._gap_on_the_way(limit.facet, way.stops))
        warn_if_inaccurate(np.array([gap]), np.array([p]), np.array([q]), self.problem.features.linear)
        return limit

    def _gap_on_the_way(self, piece: int, stops: Floats) -> float:
        """Relative duality gap on the user's rows at the first of some costs on the way to infinity where a piece is right.

        Where it is at none of them, at those where it is least wrong.
        """
        if self.problem.features.factor is None:
            return 0.0
        states = np.repeat(self.split.states(np.array([piece])), len(stops), axis=0)
        solution = solve(self.problem.data, self.region, states, stops)
        right = np.flatnonzero(solution.gap <= max(ALARM, solution.gap.min()))[:1]
        first = Solution(*(array[right] for array in solution))  # type: ignore[arg-type]
        return float(np.max(user_gaps(self.problem, first, stops[right]), initial=0.0))

    def _along(self, stops: Floats) -> Iterator[tuple[int, npt.NDArray[np.int8]]]:
        """The pieces at some homogeneous costs with their partitions, each once, then those nearby, in the end ties."""
        seen, locator = {NOWHERE}, self.locator
        for pieces in chain([locator(stops)], map(locator.near, stops), map(locator.near_ties, stops)):
            for f in pieces.tolist():
                if f not in seen:
                    seen.add(f)
                    yield f, self.split.states(np.array([f]))[0]

    def _limit_on_plateau(self, way: Way) -> LimitSolution | None:
        """The limit if the way leads along a plateau, whose solutions do not depend on the cost of its class; else None."""
        data, stop = self.problem.data, way.stops[LARGE : LARGE + 1]
        pieces = self.locator(way.stops)
        if pieces[-1] == NOWHERE or not self.split.plateau[pieces[-1]] or pieces[LARGE] != pieces[-1]:
            return None
        solution, _ = self._solve_in(pieces[LARGE : LARGE + 1], stop)
        share, grows = solution.share[0], (way.direction > 0)[data.axis]
        bound = data.weight * np.where(grows, np.inf, way.rest[data.axis])
        held = share * data.weight * stop[0, data.axis] / stop[0, 2]
        endless = grows & np.where(solution.lossless[0], way.direction.sum() > 1, True) & (share > ENDLESS)
        alpha = np.where(endless, np.inf, np.minimum(held, bound))
        return LimitSolution(alpha, solution.beta[0], solution.lossless[0], float(solution.gap[0]), int(pieces[-1]))

    def _state_at(self, point: Floats) -> npt.NDArray[np.int8]:
        """The partition of the jittered data at homogeneous costs, by a walk to there."""
        p, q, l = self.problem.to_user(point)
        return state_at(self.problem, float(p / l), float(q / l))

    def at(self, c: Floats) -> Solution:
        """Solutions at homogeneous costs (n, 3); ValueError if some are outside the explored part."""
        pieces, solution = self.settle(c)
        self._check_explored(c, pieces == NOWHERE)
        return solution

    def locate(self, c: Floats) -> Ints:
        """Facets at homogeneous costs (n, 3); ValueError if some are outside the explored part."""
        pieces = self.locator(c)
        doubtful = is_far(c) | (pieces == NOWHERE) | (not self.complete)
        pieces[doubtful] = self.settle(c[doubtful])[0]
        self._check_explored(c, pieces == NOWHERE)
        return self.locator.facets(pieces, c)

    def settle(self, c: Floats) -> tuple[Ints, Solution]:
        """Pieces at homogeneous costs (n, 3), and the solutions there.

        It is the gap, or far out exact arithmetic, that says what is right: the way through the mesh is led by corners in
        doubles. NOWHERE is told of costs in a partial atlas where no explored facet nearby has a solution.
        """
        pieces = self.locator(c)
        first = np.where(pieces == NOWHERE, self.locator.true[0], pieces)
        solution, at = self._solve_in(first, c)
        for k in np.flatnonzero(is_doubtful(solution, at)):
            first[k], better = self._search(c[k], int(first[k]))
            for array, value in zip(solution, better, strict=True):
                array[k] = value[0]
        lost = solution.gap > LOST
        return np.where(lost & (not self.complete), NOWHERE, first), solution

    def _solve_in(self, pieces: Ints, c: Floats) -> tuple[Solution, Floats]:
        """Solutions at homogeneous costs in pieces, and the costs that alpha is found at: smaller ones on plateaus."""
        data, region = self.problem.data, self.region
        states = self.split.states(pieces)
        solution = solve(data, region, states, c)
        beside, at = self.locator.slide(pieces, c)
        moved = np.flatnonzero(self.split.plateau[pieces] & (beside != ON_SIDE))
        if moved.size > 0:
            others = self.split.states(beside[moved])
            _put(solution, moved, solve_on_plateau(data, region, states[moved], c[moved], others, at[moved]))
        for floor in self.locator.floors:
            own = np.flatnonzero(np.isin(pieces, floor.pieces) & (beside == ON_SIDE))
            if own.size > 0:
                _put(solution, own, solve_with_alpha(data, region, states[own], c[own], self._above_side(floor, c[own])))
        return solution, at

    def _above_side(self, floor: Floor, c: Floats) -> Floats:
        """Alpha times l on a plateau above the stretch of its floor that is a side: between those at its ends (floors.py)."""
        (a, b), other = floor.side / floor.side[:, L, None], 1 - floor.axis
        if floor.axis not in self.sides:
            self.sides[floor.axis] = np.array([self._alpha_at(end, floor.axis) for end in (a, b)])
        first, last = self.sides[floor.axis]
        length = b[other] - a[other]
        way = np.clip((c[:, other] / c[:, L] - a[other]) / (length or 1.0), 0.0, 1.0)[:, None]
        held: Floats = c[:, L, None] * ((1.0 - way) * first + way * last)
        return held

    def _alpha_at(self, point: Floats, axis: int) -> Floats:
        """Alpha at costs (p, q, 1) on the plateau of a class."""
        data = self.problem.data
        alpha = alpha_on_plateau(data, point, axis)
        if alpha is None:
            share = solve(data, self.region, self._state_at(point)[None], point[None]).share[0]
            alpha = share * data.weight * point[data.axis]
        return alpha

    def _search(self, point: Floats, first: int) -> tuple[int, Solution]:
        """The piece at homogeneous costs and the solution there, from ``first``, pieces at smaller costs, and those nearby."""
        tried: list[int] = []

        def groups() -> Iterator[npt.NDArray[np.int8]]:
            if self.split.plateau[first]:
                tried.append(first)
                yield self._state_at(point)[None]
            for pieces in self._candidates(point, first):
                new = [f for f in dict.fromkeys(pieces.tolist()) if f != NOWHERE and f not in tried]
                tried.extend(new)
                if new:
                    yield self.split.states(np.array(new))

        best, solution = choose(self.problem.data, self.region, groups(), point)
        return tried[best], solution

    def _candidates(self, point: Floats, first: int) -> Iterator[Ints]:
        yield np.array([first])
        if is_far(point[None])[0]:
            yield self.locator(smaller_costs(point))
        yield self.locator.near(point, SEARCHED)
        yield self.locator.near_ties(point)

    def _check_explored(self, c: Floats, lost: npt.NDArray[np.bool_]) -> None:
        if np.any(lost):
            p, q, l = self.problem.to_user(c[np.argmax(lost)])
            raise ValueError(f"costs ({p / l:g}, {q / l:g}) are outside the explored part of this partial atlas")


def _put(solution: Solution, which: Ints, others: Solution) -> None:
    """Put other solutions in place of some."""
    for array, values in zip(solution, others, strict=True):
        array[which] = values
