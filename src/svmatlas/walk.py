"""Along a straight line through the plane of costs, from facet to facet.

Inside a facet a line is an interval. Its far end is one corner, that of the line and of the edge through which it leaves, and
is found as polygon.py finds corners: begin with the goal of the walk; as long as some line of the facet is violated at the
corner in hand, the corner of that line with the path's line is nearer. A corner that violates nothing is the end of the
interval; if it is the goal, the walk is over, else the event is crossed. The predicates are those of polygon.py, and are never
wrong, so a walk passes the same facets as an atlas of the same problem has along that line.

The path's line and the goal are lines of the table like the sides of a region, but nothing is cut by them. Two places need care:

- Infinity. Where no point is inside the margin, alpha and all scores do not depend on the costs: nothing happens any more.
- On an axis, say C+ = 0, the facet with a positive point on the margin is met in one point only (alpha_i = 0 and
  alpha_i = w_i C+ meet there): that point goes from I to O, or back, by two events at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.doubledouble import entry, kernel
from svmatlas.exact import ExactFacet, ExactProblem, answer
from svmatlas.facet import (
    CHECKED,
    CODE,
    INSIDE,
    MARGIN,
    N_ASKED,
    N_CORNERS,
    N_PULL,
    N_REFINED,
    PENCIL,
    REFINED,
    SIZE,
    L,
    P,
    Q,
    Region,
    make_space,
    make_task,
    refine,
    score_lines,
    solve_maps,
    tabulate_margin,
    tabulate_pencil,
)
from svmatlas.layers import PUT_OFF, EngineError, cross, crossed
from svmatlas.polygon import (
    ASK,
    ASKING,
    BROKEN,
    CLOSED,
    CROSS,
    NO_CODE,
    NONE,
    _check_corner,
    _is_coarse,
    _make_corner,
    _reduce_pencil,
)
from svmatlas.problem import Problem

Floats = npt.NDArray[np.float64]
States = npt.NDArray[np.int8]

STRIDE = 256
"""Events between two looks at what was found, which are also the places where partitions are kept."""


# ----------------------------------------------------------------------------------------------------------------------
# The end of a line in one facet


@kernel
def _place_corner(t, line, code):
    """The corner of the path's line and another line as corner 0."""
    _make_corner(t, 0, line, code)
    t.edge[0, CODE, 0], t.edge[0, CODE, 1] = line, code
    t.edge[0, CHECKED, 0] = 0
    t.tally[N_CORNERS] = 2
    for c in range(6):
        t.corner[0, 0, c] = t.corner[1, 0, c]


@kernel
def _attempt(t, line, goal):
    """The line through which the path leaves, with the precision that the maps have."""
    t.tally[N_ASKED] = 0
    t.tally[CROSS] = NO_CODE
    if t.counts[SIZE] == t.rank - 1:
        if _reduce_pencil(t) == ASKING:
            return ASKING, goal
        for side in range(2):
            if t.counts[PENCIL + side] >= 0:
                tabulate_pencil(t, side)
    code = goal
    for _ in range(t.edge.shape[2] + t.members.shape[1]):  # each line is nearer than the one before
        _place_corner(t, line, code)
        k = _check_corner(t, 0)
        if k == NONE:
            return CLOSED, code
        if k == ASK:
            return ASKING, goal
        code = k
    return BROKEN, goal


@kernel
def find_exit(t, line, goal):
    """Outcome, and the code of the line through which the path leaves the facet; ``goal`` if it ends there."""
    if not solve_maps(t):
        return BROKEN, goal
    if t.side_axis[-1 - goal] == L and t.counts[N_PULL] == 0 and t.counts[N_PULL + 1] == 0:
        return CLOSED, goal
    tabulate_margin(t)
    if t.counts[SIZE] < t.rank:
        score_lines(t)
    while True:
        outcome, code = _attempt(t, line, goal)
        if t.counts[REFINED] != 0 or not (outcome == ASKING or (outcome == CLOSED and _is_coarse(t.corner[0, 0]))):
            return outcome, code
        refine(t)


# ----------------------------------------------------------------------------------------------------------------------
# From facet to facet


class Steps(NamedTuple):
    """Events in a row."""

    code: npt.NDArray[np.int64]
    corner: Floats  # (n, 3) where the event is
    coarse: npt.NDArray[np.bool_]  # corners that even double-double does not know well


@kernel
def _record(t, code, out, n):
    """Write an event down and cross it."""
    out.code[n] = code
    out.coarse[n] = _is_coarse(t.corner[0, 0])
    for c in range(3):
        out.corner[n, c] = t.corner[0, 0, c]
    cross(t.state, code)


@entry
def _follow(data, region, space, state, line, goal, answers, n, out):
    """Walk on from event n until the goal (CLOSED), the end of the buffers (PUT_OFF) or questions (ASKING)."""
    t = make_task(data, region, space)
    t.state = state
    t.answers = answers
    t.tally[N_REFINED] = 0
    axis = t.side_axis[-1 - line]
    while n + 1 < out.code.size:
        outcome, code = find_exit(t, line, goal)
        if outcome != CLOSED or code == goal:
            return outcome, n
        if n > 0 and code == out.code[n - 1]:
            return BROKEN, n
        _record(t, code, out, n)
        n += 1
        if t.axis[code >> 1] == axis:
            _record(t, code ^ 1, out, n)
            n += 1
        t.answers = answers[:0]
    return PUT_OFF, n


class Walker:
    """Walks along some lines (k, 3) of homogeneous costs; line j has the code -1 - j."""

    def __init__(self, problem: Problem, lines: Floats) -> None:
        axis = {(1.0, 0.0, 0.0): P, (0.0, 1.0, 0.0): Q, (0.0, 0.0, 1.0): L}
        kinds = np.array([axis.get(tuple(h), -1) for h in lines.tolist()], dtype=np.int8)
        self.data = problem.data
        self.region = Region(lines, lines, kinds)
        self.space = make_space(self.data, self.region)
        self.exact = ExactProblem(self.data, self.region)
        self.n_refined = 0
        self.n_exact = 0

    def follow(self, state: States, line: int, goal: int) -> Iterator[Steps]:
        """Walk along a line to its corner with another one; ``state`` is changed, and is right whenever this yields."""
        while True:
            before = state.copy()
            steps = Steps(np.empty(STRIDE, dtype=np.int64), np.empty((STRIDE, 3)), np.empty(STRIDE, dtype=bool))
            n, outcome = 0, ASKING
            answers = np.empty((0, 5), dtype=np.intp)
            while outcome == ASKING:
                known = n
                outcome, n = _follow(self.data, self.region, self.space, state, -1 - line, -1 - goal, answers, n, steps)
                self.n_refined += int(self.space.tally[N_REFINED])
                if outcome == ASKING:
                    asked = self.space.asked[: self.space.tally[N_ASKED]]
                    self.n_exact += asked.shape[0]
                    new = answer(self.exact, state, asked)
                    answers = np.concatenate([answers, new]) if n == known else new
            if outcome not in (CLOSED, PUT_OFF):
                raise EngineError(
                    f"a path ends in a facet without extent (outcome {outcome}): margin {np.flatnonzero(state == MARGIN).tolist()},"
                    f" inside {np.flatnonzero(state == INSIDE).tolist()}"
                )
            self._settle(before, steps, line, n)
            yield Steps(*(array[:n] for array in steps))
            if outcome == CLOSED:
                return

    def finish(self, state: States, line: int, goal: int) -> None:
        """The same, where only the partition at the end is asked for."""
        for _ in self.follow(state, line, goal):
            pass

    def _settle(self, state: States, steps: Steps, line: int, n: int) -> None:
        """Corners that double-double does not know well, from exact arithmetic."""
        done = 0
        for k in np.flatnonzero(steps.coarse[:n]):
            for code in steps.code[done:k].tolist():
                state = crossed(state, code)
            done = k
            codes = [-1 - line, int(steps.code[k])]
            corner = np.array([float(v) for v in ExactFacet(self.exact, state).corners(codes)[0]])
            steps.corner[k] = np.where(steps.corner[k] == 0.0, 0.0, np.maximum(corner, 0.0))
            self.n_exact += 1


# ----------------------------------------------------------------------------------------------------------------------
# Lines of homogeneous costs


def tidy(line: Floats) -> Floats:
    """The same line with its largest entry near 1 in size; an axis is exactly (1, 0, 0) or (0, 1, 0)."""
    if np.count_nonzero(line) == 1:
        return (line != 0.0).astype(float)
    scaled: Floats = np.ldexp(line, -int(np.frexp(np.abs(line).max())[1])) + 0.0
    return scaled


def line_between(a: Floats, b: Floats) -> Floats:
    """The line through two costs."""
    return tidy(np.cross(a, b))


def line_across(line: Floats, c: Floats) -> Floats:
    """A line that crosses another one at costs c: an axis if c is on it, else that of the cost that changes more, relatively."""
    p, q, l = c
    for k in (P, Q):
        if c[k] == 0.0 and line[1 - k] == line[L] == 0.0:  # along the axis k
            return tidy(np.array([l, 0.0, -p]) if k == Q else np.array([0.0, l, -q]))
    for k in (P, Q):
        if c[k] == 0.0:
            return np.eye(3)[k]
    return tidy(np.array([l, 0.0, -p]) if abs(line[Q]) * q >= abs(line[P]) * p else np.array([0.0, l, -q]))


def state_at(problem: Problem, C_pos: float, C_neg: float) -> States:
    """Partition of a facet at finite costs: the end of the ray to them."""
    state = np.full(problem.n_points, INSIDE, dtype=np.int8)
    if C_pos == C_neg == 0:
        return state
    c = problem.homogeneous(np.array([C_pos]), np.array([C_neg]))[0]
    line = tidy(np.array([c[Q], -c[P], 0.0]))
    Walker(problem, np.array([line, line_across(line, c)])).finish(state, 0, 1)
    return state
