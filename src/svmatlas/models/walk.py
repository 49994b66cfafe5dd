"""Along a straight line through the plane of costs, from facet to facet.

Inside a facet a line is an interval. Its far end is one corner, that of the line and of the edge through which it leaves, and
is found as polygon.py finds corners: begin with the goal of the walk; as long as some line of the facet is violated at the
corner in hand, the corner of that line with the path's line is nearer. A corner that violates nothing is the end of the
interval; if it is the goal, the walk is over, else the event is crossed. Signs are those of predicates.py, and are never
wrong, so a walk passes the same facets as an atlas of the same problem has along that line.

The path's line and the goal stand in the table like the sides of a region, but nothing is cut by them. Two places need care:

- Infinity. Where no point is inside the margin, alpha and all scores do not depend on the costs: nothing happens any more.
- On an axis, say C+ = 0, the facet with a positive point on the margin is met in one point only (alpha_i = 0 and
  alpha_i = w_i C+ meet there): that point goes from I to O, or back, by two events at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.data.problem import Problem
from svmatlas.engine.arena import cross, crossed, move, pull_of
from svmatlas.engine.checking import ASK, NONE, check_corner
from svmatlas.engine.clipping import ASKING, BROKEN, CLOSED, copy_place, is_coarse, make_corner
from svmatlas.engine.compiled import entry_noalloc, kernel
from svmatlas.engine.doubledouble import UNIT
from svmatlas.engine.exact import ExactFacet, ExactProblem, answer, rounded
from svmatlas.engine.facet import drift_of, solve_maps
from svmatlas.engine.guess import guess
from svmatlas.engine.lines import tabulate_margin
from svmatlas.engine.neighbourhood import count_below, find_bound
from svmatlas.engine.pencil import ALL, find_pencil
from svmatlas.engine.predicates import FIRST, NO_CODE
from svmatlas.engine.record import make_memory, open_record
from svmatlas.engine.refinement import refine
from svmatlas.engine.tile import impossible, more_answers
from svmatlas.engine.workspace import INSIDE, MARGIN, OUTSIDE, QUESTION, Data, L, P, Q, Region, Space, make_space, open_task
from svmatlas.models.solve import smaller_costs
from svmatlas.support.settings import SETTINGS
from svmatlas.support.stopping import NEVER, TICK, Limit, Pace
from svmatlas.support.threads import limit_blas

Floats = npt.NDArray[np.float64]
States = npt.NDArray[np.int8]

PUT_OFF = 4
"""One more outcome (beside those of clipping.py): to be tried again, with other points nearby or with more room."""

LONGEST = 63
"""Longest wait in events: looking around takes about as long as one event with all points."""

STRIDE = 256
"""Most events between two looks at what was found, which are also the places where partitions are kept."""

FIRST_EVENTS = 4
"""Events before the first look at the clock."""


# ----------------------------------------------------------------------------------------------------------------------
# The end of a line in one facet


@kernel
def _place_corner(t, line, code):
    """The corner of the path's line and another line as corner 0."""
    make_corner(t, FIRST, line, code)
    t.edges.code[0], t.edges.code[1] = line, code
    t.edges.checked[0] = 0
    t.polygon.n_corners = 2
    copy_place(t.clipped, FIRST, t.edges, FIRST)


@kernel
def _is_coarse(t):
    """Is corner 0 known too badly?"""
    return is_coarse(t.edges.corner[0], t.edges.corner_error[0])


@kernel
def _attempt(t, line, goal):
    """The line through which the path leaves, with the precision that the maps have."""
    t.polygon.n_asked = 0
    t.polygon.crossed[0] = NO_CODE
    if t.facet.n_margin == t.data.rank - 1 and not find_pencil(t, ALL):
        return ASKING, goal
    code = goal
    for _ in range(2 * t.edges.code.size):  # each line is nearer than the one before
        _place_corner(t, line, code)
        k = check_corner(t, FIRST)
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
    if t.region.axis[-1 - goal] == L and t.facet.n_pull[0] == 0 and t.facet.n_pull[1] == 0:
        return CLOSED, goal
    tabulate_margin(t)
    while True:
        outcome, code = _attempt(t, line, goal)
        if t.facet.refined != 0 or not (outcome == ASKING or (outcome == CLOSED and _is_coarse(t))):
            return outcome, code
        refine(t)


# ----------------------------------------------------------------------------------------------------------------------
# The points nearby
#
# Along a short piece of the path few points can change their set. With beta_0 the weights somewhere on the path, and
#
#     reach = min over the points far off of |x_i.beta_0 - t_i| / |x_i|,
#
# no point far off changes as long as |beta - beta_0| < reach. The facets there are those of a problem that has the points
# nearby only, and the pull of the others that are inside the margin. What double-double does not decide in it is decided with
# all points, and where the weights leave the reach the points nearby are looked for anew.


class Near(NamedTuple):
    """The points nearby; ``make_near`` makes a problem of their own beside it."""

    state: States
    which: npt.NDArray[np.intp]  # which points they are
    place: npt.NDArray[np.intp]  # (N,) where each point is among them, -1 for points far off
    weights: Floats  # beta_0
    slack: Floats  # (N,) see _fill_slacks
    reach: Floats  # (1,) 0: not known
    entry: Floats  # (3,) where the path entered the facet in hand
    patience: npt.NDArray[np.int64]  # (2,) events to wait before the points nearby are tried again; length of the last wait
    memory: npt.NDArray[np.uint8]  # for the record


def make_near(data: Data, region: Region) -> tuple[Near, Data, Space]:
    """Room for the points nearby; none if there are too few points for it to pay."""
    n, d = data.rows.shape
    size = SETTINGS.walk_points * max(1, d // 16)
    size = size if 2 * size <= n else 0
    near = data._replace(
        rows=np.zeros((size, d)),
        columns=np.zeros((d, size)),
        norm=np.zeros(size),
        target_jitter=np.zeros(size),
        weight=np.zeros(size),
        weight_jitter=np.zeros(size),
        axis=np.zeros(size, np.int8),
    )
    points = Near(
        np.zeros(size, np.int8), np.zeros(size, np.intp), np.full(n, -1), np.zeros(d), np.zeros(n), np.zeros(1),
        np.zeros(3), np.zeros(2, np.int64), make_memory(),
    )  # fmt: skip
    space = make_space(near, region)
    no_rows = space.modular._replace(rows=np.zeros((0, d + 1), np.uint64))  # rows come and go
    return points, near, space._replace(modular=no_rows)


@kernel
def _is_in_reach(t, near):
    """Are the weights at corner 0 within reach of beta_0, whatever the rounding?"""
    v, e, tiny = t.edges.corner[0], t.edges.corner_error[0], (t.data.rows.shape[1] + 8) * UNIT
    square, length, bound = 0.0, 0.0, 0.0
    for c in range(3):
        size = t.maps.length[c]
        bound += (t.maps.eta[c] + tiny * size) * (v[c] + e[c]) + size * e[c]
    for j in range(near.weights.size):
        b = near.weights[j]
        x = t.maps.beta[P, j] * v[0] + t.maps.beta[Q, j] * v[1] + t.maps.beta[L, j] * v[2] - b * v[2]
        square += x * x
        length += b * b
    bound += np.sqrt(length) * (e[L] + tiny * v[L])
    return np.sqrt(square) + bound < (1.0 - 4.0 * tiny) * near.reach[0] * (v[L] - e[L])


@kernel
def _exit_nearby(t, near, line, goal):
    """``find_exit`` with the points nearby: ASKING where that does not decide it, PUT_OFF where it is out of reach."""
    if not solve_maps(t):
        return ASKING, goal
    tabulate_margin(t)
    outcome, code = _attempt(t, line, goal)
    if t.facet.refined == 0 and (outcome == ASKING or (outcome == CLOSED and _is_coarse(t))):
        refine(t)
        outcome, code = _attempt(t, line, goal)
    if outcome == CLOSED and not _is_in_reach(t, near):
        return PUT_OFF, goal
    if outcome != CLOSED or _is_coarse(t):
        return ASKING, goal
    return CLOSED, code


@kernel
def _fill_slacks(t, near):
    """For each point how far the weights may move from beta_0 before it can change its set."""
    slack, length = near.slack, 0.0
    slack[:] = 0.0
    for j in range(near.weights.size):
        b = near.weights[j]
        length += b * b
        column = t.data.columns[j]
        for i in range(slack.size):
            slack[i] += b * column[i]
    error = (near.weights.size + 8) * UNIT * np.sqrt(length)
    for i in range(slack.size):
        g = slack[i] - (1.0 + t.jitter * t.data.target_jitter[i])
        g = g if t.state[i] == OUTSIDE else -g
        slack[i] = -np.inf if t.state[i] == MARGIN else (g - 8.0 * UNIT) / t.data.norm[i] - error


@kernel
def _choose_reach(slack, size):
    """A reach that leaves about as many points nearby as there is room for, and not more; 0 if that is none."""
    high = 0.0
    for i in range(slack.size):
        high = max(high, slack[i])
    if not high < np.inf or count_below(slack, high) <= size:
        return high if high < np.inf else 0.0
    return find_bound(slack, size, 0.0, high, 0.5, HALVINGS)


HALVINGS = 24
"""Of the range of slacks, to find a reach."""


@kernel
def _look_around(t, s, maps, v, near):
    """Find the points nearby anew, with beta_0 from the maps of the facet in hand at a corner v of it, for the task s."""
    near.reach[0] = 0.0
    if not v[2] > 0.0:
        return
    for j in range(near.weights.size):
        near.weights[j] = (maps[P, j] * v[0] + maps[Q, j] * v[1] + maps[L, j] * v[2]) / v[2]
    _fill_slacks(t, near)
    slack, size = near.slack, near.which.size
    reach = _choose_reach(slack, size)
    spare = size - count_below(slack, reach)  # room for some that are further off
    if not reach > 0.0 or spare < 0:
        return
    n, s.facet.kept = 0, 0
    for i in range(slack.size):
        near.place[i] = -1
        if slack[i] < reach or spare > 0:
            spare -= not slack[i] < reach
            near.which[n], near.place[i], near.state[n], s.data.axis[n] = i, n, t.state[i], t.data.axis[i]
            for j in range(t.data.rows.shape[1]):
                s.data.rows[n, j] = s.data.columns[j, n] = t.data.rows[i, j]
            s.data.norm[n], s.data.target_jitter[n] = t.data.norm[i], t.data.target_jitter[i]
            s.data.weight[n], s.data.weight_jitter[n] = t.data.weight[i], t.data.weight_jitter[i]
            for j in range(t.single.unit.shape[0]):
                s.single.unit[j, n] = t.single.unit[j, i]
            s.single.per_norm[n], s.single.jitter[n] = t.single.per_norm[i], t.single.jitter[i]
            s.single.axis[n] = t.single.axis[i]
            n += 1
    near.reach[0] = reach


# ----------------------------------------------------------------------------------------------------------------------
# From facet to facet


class Steps(NamedTuple):
    """Events in a row."""

    code: npt.NDArray[np.int64]
    corner: Floats  # (n, 3) where the event is
    coarse: npt.NDArray[np.bool_]  # corners that even double-double does not know well
    beta: Floats  # (n, d) weights there, or (0, d) if they are not asked for; the last row of a walk is at its goal
    sums: Floats  # (n, 2) the sum of alpha on the margin, in its bounds; a bound on the error of beta as the sum of alpha x
    memory: npt.NDArray[np.uint8]  # for the record


def _make_steps(n: int, n_beta: int, d: int) -> Steps:
    """Room for n events, and for so many weights."""
    return Steps(
        np.empty(n, np.int64), np.empty((n, 3)), np.empty(n, bool), np.empty((n_beta, d)), np.empty((n_beta, 2)),
        make_memory(),
    )  # fmt: skip


def _first_steps(steps: Steps, n: int, n_beta: int) -> Steps:
    """The first n events, and so many weights."""
    return Steps(
        steps.code[:n], steps.corner[:n], steps.coarse[:n], steps.beta[:n_beta], steps.sums[:n_beta], steps.memory
    )  # fmt: skip


@kernel
def _be_patient(near, success):
    """Where the points nearby did not do, because too many are tied, wait ever longer before they are tried again."""
    if success:
        near.patience[1] = 0
    else:
        near.reach[0] = 0.0
        near.patience[1] = min(2 * near.patience[1] + 1, LONGEST)
        near.patience[0] = near.patience[1]


@kernel
def _record_weights(t, out, n):
    """Write down the weights and dual variables at corner 0 of the task in hand, if they are asked for."""
    if out.beta.shape[0] == 0:
        return
    v, maps, data, total, error = t.edges.corner[0], t.maps, t.data, 0.0, 0.0
    if not v[2] > 0.0:
        out.sums[n, 0], out.sums[n, 1] = 0.0, np.inf
        return
    for j in range(out.beta.shape[1]):
        out.beta[n, j] = (maps.beta[P, j] * v[0] + maps.beta[Q, j] * v[1] + maps.beta[L, j] * v[2]) / v[2]
    for k in range(t.facet.n_margin):
        i = t.factor.member[k]
        alpha = maps.alpha[P, k] * v[0] + maps.alpha[Q, k] * v[1] + maps.alpha[L, k] * v[2]
        held = min(max(alpha, 0.0), data.weight[i] * v[data.axis[i]])
        total += held
        error += abs(alpha - held) * data.norm[i]
    for c in range(3):
        error += 2.0 * (maps.eta[c] + (data.rows.shape[1] + 8) * UNIT * maps.length[c]) * v[c]
    out.sums[n, 0], out.sums[n, 1] = total / v[2], error / v[2]


@kernel
def _copy_weights(out, n):
    """The same weights as one event before."""
    if out.beta.shape[0] > 0:
        for j in range(out.beta.shape[1]):
            out.beta[n, j] = out.beta[n - 1, j]
        out.sums[n, 0], out.sums[n, 1] = out.sums[n - 1, 0], out.sums[n - 1, 1]


@kernel
def _record(t, corner, coarse, code, near, out, n):
    """Write an event down and cross it."""
    out.code[n] = code
    out.coarse[n] = coarse
    for c in range(3):
        out.corner[n, c] = corner[c]
        near.entry[c] = corner[c]
    move(t.data, t.state, t.pull, code)
    place = near.place[code >> 1]
    if place >= 0:
        cross(near.state, 2 * place + (code & 1))


@entry_noalloc
def _follow(t, s, near, out, state, drift, line, goal, answers, n):
    """Walk on from event n until the goal (CLOSED), the end of the buffers (PUT_OFF) or questions (ASKING)."""
    t.state, s.state = state, near.state
    s.pull.high, s.pull.low, s.pull.derivative, s.pull.n_points = t.pull.high, t.pull.low, t.pull.derivative, t.pull.n_points
    t.drift, s.drift = drift, drift
    t.answers, s.answers = answers, answers[:0]
    t.polygon.n_refined, t.polygon.n_zero, s.polygon.n_refined, s.polygon.n_zero = 0, 0, 0, 0
    axis = t.region.axis[-1 - line]
    while n + 1 < out.code.size:
        outcome, code, corner, nearby = ASKING, goal, s.edges.corner[0], True
        if near.reach[0] > 0.0:
            outcome, code = _exit_nearby(s, near, line, goal)
            if outcome == PUT_OFF:
                _look_around(t, s, s.maps.beta, near.entry, near)
                outcome, code = _exit_nearby(s, near, line, goal)
            if code >= 0:
                code = 2 * near.which[code >> 1] + (code & 1)
            _be_patient(near, outcome == CLOSED)
        if outcome != CLOSED:
            outcome, code = find_exit(t, line, goal)
            corner, nearby = t.edges.corner[0], False
            if outcome == CLOSED and code != goal and near.which.size > 0:
                near.patience[0] -= 1
                if near.patience[0] < 0:
                    _look_around(t, s, t.maps.beta, corner, near)
        if outcome == CLOSED:
            if nearby:
                _record_weights(s, out, n)
            else:
                _record_weights(t, out, n)
        if outcome != CLOSED or code == goal:
            return outcome, n
        if n > 0 and code == out.code[n - 1]:
            return BROKEN, n
        coarse = not nearby and _is_coarse(t)
        _record(t, corner, coarse, code, near, out, n)
        n += 1
        if t.data.axis[code >> 1] == axis:
            _copy_weights(out, n)
            _record(t, corner, coarse, code ^ 1, near, out, n)
            n += 1
        t.answers = answers[:0]
    return PUT_OFF, n


class Walker:
    """Walks along some lines (k, 3) of homogeneous costs; line j has the code -1 - j."""

    def __init__(self, problem: Problem, lines: Floats, limit: Limit = NEVER, weights: bool = False) -> None:
        self.data = problem.data
        self.region = _region_of(lines)
        self.space = make_space(self.data, self.region)
        self.near, self.near_data, self.near_space = make_near(self.data, self.region)
        self.exact = ExactProblem(self.data, self.region)
        self._open()
        self.stop_at(limit)
        self.pace = Pace(FIRST_EVENTS, STRIDE)
        self.weights = weights
        self.n_refined = 0
        self.n_zero = 0
        self.n_exact = 0

    def turn(self, lines: Floats, limit: Limit, weights: bool) -> None:
        """Walk along other lines, of which there are no more than there is room for, with the same workspaces."""
        self.region, self.weights = _region_of(lines), weights
        self.exact = self.exact.turned(self.region)
        self._open()
        self.near.patience[:] = 0
        self.stop_at(limit)

    def _open(self) -> None:
        """Records of all points and of the near ones, for walks along these lines."""
        whole, near = (self.data, self.space), (self.near_data, self.near_space)
        self.records = *(open_task(data, self.region, space) for data, space in (whole, near)), open_record(self.near)

    def _room(self, n: int) -> Steps:
        return _make_steps(n, n if self.weights else 0, self.data.rows.shape[1])

    def stop_at(self, limit: Limit) -> None:
        """Walk on from now on to this limit."""
        self.limit = self.exact.limit = limit

    def follow(self, state: States, line: int, goal: int, rough: bool = False) -> Iterator[Steps]:
        """Walk along a line to its corner with another one; ``state`` is changed, and is right whenever this yields.

        It yields after ``STRIDE`` events, or after some time. It raises Stopped if the walker's limit says so. If a ``rough``
        idea of where the events are is enough, no exact arithmetic is done for it.
        """
        self.near.reach[0] = 0.0
        pull_of(self.data, state, self.space.pull)
        self.answers = np.empty(0, QUESTION)  # for the facet in hand
        total, outcome = 0, PUT_OFF
        while outcome == PUT_OFF:
            before = state.copy()
            steps = self._room(STRIDE - total % STRIDE + (STRIDE if total % STRIDE == STRIDE - 1 else 0))
            n, outcome = self._stride(state, steps, line, goal, total)
            if outcome not in (CLOSED, PUT_OFF):
                margin, inside = (np.flatnonzero(state == k).tolist() for k in (MARGIN, INSIDE))
                what = f"a path broke off (outcome {outcome}) in the facet with margin {margin}, inside {inside}"
                raise impossible(self.data, what)
            if not rough:
                self._sharpen(before, steps, line, n)
            total += n
            yield _first_steps(steps, n, n + (outcome == CLOSED))

    def _stride(self, state: States, steps: Steps, line: int, goal: int, total: int) -> tuple[int, int]:
        """Walk on, after so many events in total, until there is no more room for steps, or for some time.

        Returns the number of steps and the outcome.
        """
        n, room, begin = 0, steps.code.size, time.monotonic()
        drift = drift_of(self.data, state.size + total + room)
        while n + 1 < room and (n == 0 or time.monotonic() - begin < TICK):
            self.limit.check()
            known, end = n, min(n + 1 + self.pace.start(), room)
            some = _first_steps(steps, end, end)
            outcome, n = self._walk_on(some, state, drift, line, goal, self.answers, n)
            self.pace.stop(n - known)
            self.n_refined += int(self.space.polygon["n_refined"][0] + self.near_space.polygon["n_refined"][0])
            self.n_zero += int(self.space.polygon["n_zero"][0] + self.near_space.polygon["n_zero"][0])
            if outcome not in (ASKING, PUT_OFF):
                return n, outcome
            self.answers = self.answers[: len(self.answers) if n == known else 0]
            if outcome == ASKING:
                asked = self.space.lines.asked[: self.space.polygon[0].n_asked]
                try:
                    self.answers = more_answers(self.answers, answer(self.exact, state, asked))
                except ArithmeticError:  # the walk began at a partition of no facet: rows on its margin are dependent
                    return n, BROKEN
                self.n_exact += asked.size
        return n, PUT_OFF

    def _walk_on(
        self, steps: Steps, state: States, drift: float, line: int, goal: int, answers: npt.NDArray[np.void], n: int
    ) -> tuple[int, int]:
        """Walk on from event n; returns the outcome and the number of events."""
        found: tuple[int, int] = _follow(*self.records, open_record(steps), state, drift, -1 - line, -1 - goal, answers, n)
        return found

    def holds(self, state: States, line: int, goal: int) -> bool:
        """Does the facet of a partition certainly hold the corner of two lines? False if this takes exact arithmetic.

        A walk there has no events then, and all scores are on their side: a walk does not look at score lines that cannot be
        edges of a facet, but this may not be the partition of one.
        """
        self.near.reach[0] = 0.0
        pull_of(self.data, state, self.space.pull)
        drift, none = drift_of(self.data, state.size), np.empty(0, QUESTION)
        outcome, n = self._walk_on(self._room(2), state.copy(), drift, line, goal, none, 0)
        if outcome != CLOSED or n > 0:
            return False
        return bool(self.space.facet[0].n_margin < self.data.rank - 1) or self._scores_hold(state)

    def _scores_hold(self, state: States) -> bool:
        """Are all scores at corner 0 of the facet in hand on their side of the target, beyond doubt?"""
        data, space = self.data, self.space
        v, e = space.edges.corner[0], space.edges.corner_error[0]
        size, tiny = space.maps.length[:3], (self.data.rows.shape[1] + 8) * UNIT
        bound = (space.maps.eta[:3] + tiny * size) @ (v + e) + size @ e  # on the error of the weights
        score = data.rows @ (v @ space.maps.beta[:3]) - (1.0 + data.target_jitter) * v[2]
        score = np.where(state == OUTSIDE, score, -score)
        sure = score > data.norm * bound + 8.0 * UNIT * v[2] + 2.0 * e[2]
        return bool(np.all(sure | (state == MARGIN)))

    def finish(self, state: States, line: int, goal: int) -> None:
        """The same, where only the partition at the end is asked for."""
        for _ in self.follow(state, line, goal, rough=True):
            pass

    def _sharpen(self, state: States, steps: Steps, line: int, n: int) -> None:
        """Corners that double-double does not know well, from exact arithmetic."""
        done = 0
        for k in np.flatnonzero(steps.coarse[:n]):
            for code in steps.code[done:k].tolist():
                state = crossed(state, code)
            done = int(k)
            codes = [-1 - line, int(steps.code[k])]
            corner = rounded(ExactFacet(self.exact, state).corners(codes))[0]
            steps.corner[k] = np.where(steps.corner[k] == 0.0, 0.0, np.maximum(corner, 0.0))
            self.n_exact += 1


# ----------------------------------------------------------------------------------------------------------------------
# Lines of homogeneous costs


def _region_of(lines: Floats) -> Region:
    """Lines as the sides of a region."""
    axis = {(1.0, 0.0, 0.0): P, (0.0, 1.0, 0.0): Q, (0.0, 0.0, 1.0): L}
    kinds = np.array([axis.get(tuple(h), -1) for h in lines.tolist()], dtype=np.int8)
    return Region(lines, lines, kinds, np.arange(len(lines)))


def tidy(line: Floats) -> Floats:
    """The same line with its largest entry near 1 in size; an axis is exactly (1, 0, 0) or (0, 1, 0)."""
    if np.count_nonzero(line) == 1:
        return np.array(line != 0.0, dtype=float)
    scaled: Floats = np.ldexp(line, -int(np.frexp(np.abs(line).max())[1])) + 0.0
    return scaled


def line_between(a: Floats, b: Floats) -> Floats:
    """The line through two costs."""
    return tidy(np.cross(a, b))


def line_across(line: Floats, c: Floats) -> Floats:
    """A line that crosses another one at costs c: an axis if c is on it, else that of one cost, the one that changes more."""
    p, q, l = c.tolist()
    fix_p, fix_q = tidy(np.array([l, 0.0, -p])), tidy(np.array([0.0, l, -q]))
    if line[Q] == line[L] == 0.0:  # along the axis p = 0
        return fix_q
    if line[P] == line[L] == 0.0:
        return fix_p
    if p == 0.0 or q == 0.0:
        return fix_p if p == 0.0 else fix_q
    return fix_p if abs(line[Q]) * q >= abs(line[P]) * p else fix_q


def state_at(problem: Problem, C_pos: float, C_neg: float, limit: Limit = NEVER) -> States:
    """Partition of a facet at finite costs: a guess that is certainly right, or else the end of the ray to them."""
    return _state_at(problem, problem.homogeneous(np.array([C_pos]), np.array([C_neg]))[0], limit)


def states_below(problem: Problem, c: Floats, limit: Limit = NEVER) -> Iterator[States]:
    """The partitions at costs that are smaller than given large ones (3,), where the jitter does no harm."""
    for smaller in smaller_costs(c):
        yield _state_at(problem, smaller, limit)


def _state_at(problem: Problem, c: Floats, limit: Limit) -> States:
    """The same at homogeneous costs (3,)."""
    state = np.full(problem.n_points, INSIDE, dtype=np.int8)
    if c[P] == c[Q] == 0:
        return state
    line = tidy(np.array([c[Q], -c[P], 0.0]))
    walker = Walker(problem, np.array([line, line_across(line, c)]), limit)
    with limit_blas():
        guessed = guess(problem.data, c, limit)
    if guessed is not None and walker.holds(guessed, 0, 1):
        return guessed
    walker.finish(state, 0, 1)
    return state
