"""Exact solutions of one fold at single costs, and what they say of its held-out rows.

A solution is found by a guess that is then proven, or by a short walk from a solution nearby (walk.py). So the many solutions
of a search cost a few events each, not a whole ray.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.choose.curves import ZERO
from svmatlas.data.problem import Problem, check_bounds, make_region
from svmatlas.engine.guess import guess
from svmatlas.engine.tile import EngineError
from svmatlas.engine.workspace import INSIDE, MARGIN, OUTSIDE, L
from svmatlas.models.interior import Fit
from svmatlas.models.solve import Solution, is_doubtful, solve
from svmatlas.models.svc import fit_at, solve_at
from svmatlas.models.walk import Walker, line_across, line_between
from svmatlas.support.stopping import Limit

Floats = npt.NDArray[np.float64]
States = npt.NDArray[np.int8]
Costs = tuple[float, float]

SHORT = 128
"""Events up to which a walk is quicker than a guess."""


class Near(NamedTuple):
    """Where a search for a solution starts from."""

    internal: Floats  # (2,) costs in the units of the problem
    state: States  # (N,) the partition there


class Corner(NamedTuple):
    """The solution at one pair of costs, in the units of the problem."""

    costs: Costs  # the user's
    internal: Floats  # (2,) the same in the units of the problem
    state: States  # (N,) the partition
    beta: Floats  # (d,)
    loss: Floats  # (2,) summed hinge losses of the positive and the negative class
    gap: float  # duality gap
    value: Floats  # (n,) decision values of the held-out rows; 0 if they are rounding errors
    share: Floats | None = None  # (rows,) dual variables of the user's rows as shares of their bounds, for a proof

    @property
    def near(self) -> Near:
        """What solutions nearby are found from."""
        return Near(self.internal, self.state)

    def events_to(self, other: Corner) -> int:
        """Number of points that are in another set there: no walk between the two has fewer events."""
        return int(np.count_nonzero(self.state != other.state))


class Solver:
    """Solutions of the training rows of one fold; ``rows`` are its held-out rows in the coordinates of the problem.

    With ``shares`` they come with dual variables.
    """

    def __init__(self, problem: Problem, rows: Floats, shares: bool = False) -> None:
        self.problem = problem
        self.shares = shares
        self.rows = rows
        self.sizes = np.abs(rows)
        self.region = make_region(check_bounds(None), problem.cost_exponent)

    def solve(self, costs: Costs, limit: Limit, near: Near | None = None, events: int = SHORT + 1) -> Corner:
        """The solution at some costs; ``near`` is a solution nearby, some ``events`` off."""
        c = self.problem.homogeneous(np.array([costs[0]]), np.array([costs[1]]))
        if near is not None:
            for way in (self._walk, self._guess) if events <= SHORT else (self._guess, self._walk):
                state = way(near, c[0], limit)
                if state is not None:
                    solution = solve(self.problem.data, self.region, state[None], c)
                    if not is_doubtful(solution, c)[0]:
                        return self._corner(costs, c[0], state, solution)
        elif not self.shares:
            fit = fit_at(self.problem, c[0], limit)
            if fit is not None:
                return self._first_corner(costs, c[0], fit)
        solution = solve_at(self.problem, *costs, limit)
        outside = np.where(solution.share[0] > 0, MARGIN, OUTSIDE)
        state = np.where(solution.lossless[0], outside, INSIDE).astype(np.int8)
        return self._corner(costs, c[0], state, solution)

    def _first_corner(self, costs: Costs, c: Floats, fit: Fit) -> Corner:
        """The corner of a model that was fitted: on tied tables a walk to it may take far longer.

        Points with dual variables between their bounds are on the margin. A walk from here may fail, and is not used then.
        """
        data = self.problem.data
        score = data.rows @ fit.coef
        state = np.where(fit.alpha > 0, MARGIN, OUTSIDE)
        state = np.where((fit.alpha >= data.weight * c[data.axis] / c[L]) & (score < 1.0), INSIDE, state).astype(np.int8)
        return self._make_corner(costs, c, state, fit.coef, fit.gap, None)

    def _guess(self, near: Near, c: Floats, limit: Limit) -> States | None:
        """The partition at costs (3,) if a guess is certainly right."""
        state = guess(self.problem.data, c, limit)
        if state is None:
            return None
        line = line_between(np.append(near.internal, 1.0), c)
        return state if Walker(self.problem, np.array([line, line_across(line, c)]), limit).holds(state, 0, 1) else None

    def _walk(self, near: Near, c: Floats, limit: Limit) -> States | None:
        """The partition at the end of a walk; None if it did not get there, as where the start is a tie."""
        line, state = line_between(np.append(near.internal, 1.0), c), near.state.copy()
        try:
            Walker(self.problem, np.array([line, line_across(line, c)]), limit).finish(state, 0, 1)
        except (EngineError, ValueError):
            return None
        return state

    def _corner(self, costs: Costs, c: Floats, state: States, solution: Solution) -> Corner:
        share = np.append(solution.share[0], [1.0, 0.0])[self.problem.point] if self.shares else None  # then ZERO, DROPPED
        return self._make_corner(costs, c, state, solution.beta[0], float(solution.gap[0]), share)

    def _make_corner(
        self, costs: Costs, c: Floats, state: States, beta: Floats, relative_gap: float, share: Floats | None
    ) -> Corner:
        data, internal = self.problem.data, c[:2] / c[L]
        loss = data.weight * np.maximum(0.0, 1.0 - data.rows @ beta)
        losses = np.array([loss[data.axis == k].sum() for k in range(2)])
        gap = relative_gap * (0.5 * beta @ beta + internal @ losses)
        value = self.rows @ beta
        value[np.abs(value) <= ZERO * (self.sizes @ np.abs(beta))] = 0.0
        return Corner(costs, internal, state, beta, losses, gap, value, share)
