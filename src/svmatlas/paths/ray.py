"""One-dimensional paths: the exact solutions along a ray or a segment of the plane of costs, with no atlas.

A path is the list of its events. Partitions are kept every few hundred events, the others are made from them on demand, and
a solution is read off its partition (solve.py), so a path takes some 24 bytes an event and N bytes a kept partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.atlas.facets import Partition
from svmatlas.data.features import decision_values
from svmatlas.data.problem import Problem, check_bounds, check_rows, make_problem, make_region
from svmatlas.engine.arena import cross
from svmatlas.engine.compiled import entry
from svmatlas.engine.guess import guess
from svmatlas.engine.workspace import INSIDE, MARGIN, OUTSIDE, L, P, Q, Region
from svmatlas.models.gap import user_gaps, warn_if_inaccurate
from svmatlas.models.solve import STEPS, Solution, choose, is_doubtful, is_far, solve
from svmatlas.models.walk import Steps, Walker, line_across, line_between, state_at, states_below, tidy
from svmatlas.support.messages import positive_of, shown
from svmatlas.support.progress import make_bar
from svmatlas.support.stopping import Limit, stoppable

__all__ = ["Path", "ray", "segment", "state_at"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
States = npt.NDArray[np.int8]

WIDEST = 1e100
"""Largest ratio of the costs of a path: products of a few of them stay in the range of doubles."""

TRIED = 64
"""Pieces of the path on either side that are tried where a solution is not what rounding allows: ties are rarely longer."""

BATCH = 2**22
"""Dual variables computed at once."""


class _Line(NamedTuple):
    """Costs as a function of the parameter t: (1 - t) first + t unit."""

    first: Floats
    unit: Floats
    start: float
    stop: float

    def costs(self, t: Floats) -> tuple[Floats, Floats]:
        """The costs (C+, C-) at some parameters; ValueError where they are beyond the range of doubles."""
        with np.errstate(over="ignore"):
            pos, neg = (1.0 - t) * self.first[:, None] + t * self.unit[:, None]
        wrong = ~np.isfinite(pos + neg)
        if np.any(wrong):
            raise ValueError(f"C = {t[np.argmax(wrong)]} makes the costs infinite")
        return pos, neg

    def parameters(self, c: Floats) -> Floats:
        """Parameters of homogeneous costs (n, 3) in the user's units, made to ascend where rounding and ties do not."""
        top = np.maximum(np.maximum(self.unit, self.first), np.finfo(float).tiny)
        change = np.abs(self.unit - self.first) / top
        k = int(change[1] >= change[0])
        t = (c[:, k] / c[:, 2] - self.first[k]) / (self.unit[k] - self.first[k])
        ascending: Floats = np.maximum.accumulate(np.clip(t, self.start, self.stop))
        return ascending


class _Record(NamedTuple):
    """The events of a path, and its partitions after the first ``at[k]`` of them."""

    code: npt.NDArray[np.int64]
    breakpoints: Floats
    at: Ints
    states: States


class Path:
    """Exact solutions along a straight line of costs; made by :func:`svmatlas.ray` and :func:`svmatlas.segment`.

    On a ray the parameter C is the cost C- (C+ where ``ratio`` is infinite); on a segment it runs from 0 to 1. Between two
    breakpoints alpha, the weights and the intercept are affine in it.

    Attributes
    ----------
    breakpoints : ndarray of shape (K,)
        Where an event happens, in ascending order. Ties are split as in an atlas, by a jitter of 1e-13: events that happen
        at once have breakpoints that are equal up to that and to rounding.
    events : ndarray of shape (K, 2)
        (row, type) of each: that row (the first of equal rows) moves between margin and outside (type 0) or between margin
        and inside (type 1).
    start, stop : float
        The range of the parameter; ``stop`` may be infinite.
    classes_ : ndarray of shape (2,)
        Labels; ``classes_[1]`` is the positive class, with cost C+.
    n_refined, n_zero, n_exact : int
        Predicates that doubles could not decide, by what did: double-double, zeros modulo a prime, exact integers.

    """

    def __init__(self, problem: Problem, line: _Line, record: _Record, counts: tuple[int, int, int]) -> None:
        self._problem = problem
        self._line = line
        self._record = record
        self.start, self.stop = line.start, line.stop
        self.classes_ = problem.classes
        self.breakpoints = record.breakpoints
        code = record.code
        self.events = np.column_stack([problem.first_rows[code >> 1], code & 1]).astype(np.int32)
        self.breakpoints.flags.writeable = self.events.flags.writeable = False
        self.n_refined, self.n_zero, self.n_exact = counts

    def __repr__(self) -> str:
        return f"Path({self.breakpoints.size} events in [{self.start:g}, {self.stop:g}]; {positive_of(self.classes_)})"

    def costs(self, C: Any) -> tuple[Any, Any]:
        """The costs (C+, C-) at a parameter, each with the shape of C."""
        values, scalar = self._check(C)
        pos, neg = self._line.costs(values)
        return (float(pos[0]), float(neg[0])) if scalar else (pos, neg)

    def partition(self, C: float) -> Partition:
        """Row numbers on the margin, inside and outside it; at a breakpoint, after it. Rows of weight zero are in none."""
        values, scalar = self._check(C)
        if not scalar:
            raise ValueError("partition takes one value of C")
        state, point = self._states(self._pieces(values))[0], self._problem.point
        row = np.append(state, [INSIDE, -1])[point]  # the last two are the places ZERO and DROPPED
        return Partition(*(np.flatnonzero(row == s) for s in (MARGIN, INSIDE, OUTSIDE)))

    def alpha(self, C: Any) -> Floats:
        """Dual variables of the user's rows, (N,) or (n, N). Where they are not unique: one valid choice."""
        values, scalar = self._check(C)
        pos, neg = self._line.costs(values)
        shares, gaps = [], []
        for part in self._batches(values.size):
            solution, c = self._solve(values[part])
            shares.append(solution.share)
            gaps.append(user_gaps(self._problem, solution, c))
        warn_if_inaccurate(np.concatenate(gaps), pos, neg, self._problem.features.linear)
        alpha = self._problem.spread_alpha(np.concatenate(shares), pos, neg)
        return alpha[0] if scalar else alpha

    def coef(self, C: Any) -> Floats:
        """Weights of the features, (d,) or (n, d)."""
        if not self._problem.features.linear:
            raise ValueError("there are coefficients for the linear kernel only: use decision_function or alpha")
        (coef, _), scalar = self._report(C)
        return coef[0] if scalar else coef

    def intercept(self, C: Any) -> Any:
        """Intercept, a float or (n,): what the bias constant adds to decision values."""
        weights, scalar = self._report(C)
        features = self._problem.features
        intercept = weights[1] if features.linear else features.intercept(weights[0])
        return float(intercept[0]) if scalar else intercept

    def decision_function(self, X: Any, C: Any) -> Floats:
        """Decision values of rows X (k, n_features), positive for ``classes_[1]``: (k,) or (n, k)."""
        X, features = check_rows(X), self._problem.features
        if X.shape[1] != features.n_features:
            raise ValueError(f"X has {X.shape[1]} features, but the path was made with {features.n_features}")
        weights, scalar = self._report(C)
        if features.linear:
            values = decision_values(X, weights[0].T, weights[1]).T
        else:
            values = features.decide(X, weights[0])
        return values[0] if scalar else values

    def _report(self, C: Any) -> tuple[tuple[Floats, ...], bool]:
        """What is reported of the solutions at some parameters (see ``Problem.report``), and whether that is one."""
        values, scalar = self._check(C)
        parts, gaps = [], []
        for part in self._batches(values.size):
            solution, c = self._solve(values[part])
            parts.append(self._problem.report(solution.beta, solution.lossless))
            gaps.append(user_gaps(self._problem, solution, c, parts[-1]))
        warn_if_inaccurate(np.concatenate(gaps), *self._line.costs(values), self._problem.features.linear)
        return tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True)), scalar

    def _batches(self, n: int) -> list[slice]:
        size = max(1, BATCH // max(1, self._problem.n_points))
        return [slice(k, k + size) for k in range(0, max(n, 1), size)]

    def _solve(self, values: Floats) -> tuple[Solution, Floats]:
        """Solutions at some parameters, and the homogeneous costs there."""
        c = self._problem.homogeneous(*self._line.costs(values))
        pieces = self._pieces(values)
        solution = solve(self._problem.data, self._region, self._states(pieces), c)
        for k in np.flatnonzero(is_doubtful(solution, c)):
            better = self._search(int(pieces[k]), float(values[k]), c[k])
            for array, value in zip(solution, better, strict=True):
                array[k] = value[0]
        return solution, c

    def _search(self, piece: int, value: float, c: Floats) -> Solution:
        """The solution at a parameter and its homogeneous costs, from its piece, those at smaller costs, and those nearby."""
        data = self._problem.data
        return choose(data, self._region, self._candidates(piece, value, c), c)[1]

    def _candidates(self, piece: int, value: float, c: Floats) -> Iterator[States]:
        """Partitions that may be right, in groups."""
        yield self._states(np.array([piece]))
        far = bool(is_far(c[None])[0])
        if far:
            shares = np.ldexp(1.0, [-step for step in STEPS])
            yield self._states(np.unique(self._pieces(self.start + (value - self.start) * shares)))
        yield self._states(np.arange(max(0, piece - TRIED), min(self.breakpoints.size, piece + TRIED) + 1))
        if far:
            yield from (state[None] for state in states_below(self._problem, c))

    def _pieces(self, values: Floats) -> Ints:
        """Number of events before each parameter, those at it included."""
        return np.searchsorted(self.breakpoints, values, side="right")

    def _states(self, pieces: Ints) -> States:
        kept = np.searchsorted(self._record.at, pieces, side="right") - 1
        states: States = self._record.states[kept].copy()
        _cross_some(states, self._record.code, self._record.at[kept], pieces)
        return states

    @property
    def _region(self) -> Region:
        return make_region(check_bounds(None), self._problem.cost_exponent)

    def _check(self, C: Any) -> tuple[Floats, bool]:
        values = np.asarray(C, dtype=float)
        if values.ndim > 1:
            raise ValueError("C must be a scalar or a one-dimensional array")
        flat = np.atleast_1d(values)
        wrong = ~(np.isfinite(flat) & (flat >= self.start) & (flat <= self.stop))
        if np.any(wrong):
            raise ValueError(f"C = {flat[np.argmax(wrong)]} is not a finite number in [{self.start}, {self.stop}]")
        return flat, values.ndim == 0


@entry
def _cross_some(states, code, begin, end):
    """Cross the events begin[n] : end[n] of each partition n."""
    for n in range(states.shape[0]):
        for k in range(begin[n], end[n]):
            cross(states[n], code[k])


# ----------------------------------------------------------------------------------------------------------------------
# The public functions


def ray(
    X: Any,
    y: Any,
    *,
    ratio: float = 1.0,
    C_max: float = np.inf,
    bias: float = 1.0,
    sample_weight: Any = None,
    kernel: Any = "linear",
    gamma: Any = "scale",
    degree: float = 3,
    coef0: float = 0.0,
    random_state: Any = 0,
    progress: bool = False,
    pos_label: Any = None,
) -> Path:
    """Compute the exact path of solutions along C+ = ratio * C-, from 0 to infinity or ``C_max``.

    The problem is that of :func:`svmatlas.explore`; no atlas is built.

    Parameters
    ----------
    X : {array-like, sparse matrix, data frame} of shape (n_rows, n_features)
        Features; with ``kernel="precomputed"`` the kernel matrix (n_rows, n_rows).
    y : array-like of shape (n_rows,)
        Any two labels.
    ratio : float, default=1.0
        C+ / C-. With 0, C+ is 0; with infinity, C- is 0 and the parameter of the path is C+.
    C_max : float, default=inf
        Where the path ends: the largest C- (C+ where ``ratio`` is infinite).
    bias : float, default=1.0
        The constant B that is appended to each row; 0 for no intercept.
    sample_weight : array-like of shape (n_rows,), optional
        Weights w_i >= 0 of the costs. A row of weight zero is dropped.
    kernel, gamma, degree, coef0
        Kernel and its parameters, as in :func:`svmatlas.explore`.
    random_state : int, RandomState or None, default=0
        Seed of the jitter that splits ties.
    progress : bool, default=False
        Show a progress bar (needs tqdm).
    pos_label : int, str or other label, optional
        The label of the positive class, with cost C+. Default: the larger one in sorted order.

    Returns
    -------
    Path
        The path, with C- as its parameter.

    """
    ratio, C_max = _check_ratio(ratio), _check_end(C_max)
    with stoppable() as limit:
        problem = make_problem(
            X, y, bias, sample_weight, random_state, kernel, gamma, degree, coef0, pos_label=pos_label
        )  # fmt: skip
        return _ray(problem, ratio, C_max, progress, limit)


def _ray(problem: Problem, ratio: float, C_max: float, progress: bool, limit: Limit) -> Path:
    unit = np.array([1.0, 0.0] if np.isinf(ratio) else [ratio, 1.0])
    line = _Line(np.zeros(2), unit, 0.0, C_max)
    track = tidy(np.array([unit[1], -unit[0], 0.0]))
    goal = np.array([0.0, 0.0, 1.0])
    if np.isfinite(C_max):
        goal = line_across(track, problem.homogeneous(*line.costs(np.array([C_max])))[0])
    walker = Walker(problem, np.array([track, goal]), limit)
    return _record(problem, walker, line, np.full(problem.n_points, INSIDE, dtype=np.int8), progress)


def segment(
    X: Any,
    y: Any,
    start: Any,
    stop: Any,
    *,
    bias: float = 1.0,
    sample_weight: Any = None,
    kernel: Any = "linear",
    gamma: Any = "scale",
    degree: float = 3,
    coef0: float = 0.0,
    random_state: Any = 0,
    progress: bool = False,
    pos_label: Any = None,
) -> Path:
    """Compute the exact path of solutions along a straight segment between two pairs of costs.

    Parameters
    ----------
    X : {array-like, sparse matrix, data frame} of shape (n_rows, n_features)
        Features; with ``kernel="precomputed"`` the kernel matrix (n_rows, n_rows).
    y : array-like of shape (n_rows,)
        Any two labels.
    start, stop : (C_pos, C_neg)
        The two ends, finite costs >= 0.
    bias : float, default=1.0
        The constant B that is appended to each row; 0 for no intercept.
    sample_weight : array-like of shape (n_rows,), optional
        Weights w_i >= 0 of the costs. A row of weight zero is dropped.
    kernel, gamma, degree, coef0
        Kernel and its parameters, as in :func:`svmatlas.explore`.
    random_state : int, RandomState or None, default=0
        Seed of the jitter that splits ties.
    progress : bool, default=False
        Show a progress bar (needs tqdm).
    pos_label : int, str or other label, optional
        The label of the positive class, with cost C+. Default: the larger one in sorted order.

    Returns
    -------
    Path
        The path; its parameter runs from 0 at ``start`` to 1 at ``stop``.

    """
    ends = np.array([_check_pair("start", start), _check_pair("stop", stop)])
    if np.array_equal(ends[0], ends[1]):
        raise ValueError(f"start and stop must differ, both are {tuple(ends[0].tolist())}")
    if ends.max() / WIDEST > ends[ends > 0].min():
        raise ValueError(f"the costs of start and stop must not differ by more than a factor of {WIDEST:g}")
    with stoppable() as limit:
        problem = make_problem(
            X, y, bias, sample_weight, random_state, kernel, gamma, degree, coef0, pos_label=pos_label
        )  # fmt: skip
        return _segment(problem, ends, progress, limit)


def _segment(problem: Problem, ends: Floats, progress: bool, limit: Limit) -> Path:
    line = _Line(ends[0], ends[1], 0.0, 1.0)
    a, b = problem.homogeneous(*ends.T)
    track = line_between(a, b)
    axis = np.eye(3)[P if _meets_axis(track) else Q]
    walker = Walker(problem, np.array([track, line_across(track, b), line_across(track, a), axis]), limit)
    return _record(problem, walker, line, _state_at_start(problem, walker, a), progress)


def _state_at_start(problem: Problem, walker: Walker, c: Floats) -> States:
    """Partition at the start c of a segment, the corner of lines 0 and 2: a guess, or else by an axis, line 3, and line 0."""
    state = guess(problem.data, c, walker.limit)
    if state is not None and walker.holds(state, 0, 2):
        return state
    state = np.full(problem.n_points, INSIDE, dtype=np.int8)
    if not np.array_equal(walker.region.sides[0], walker.region.sides[3]):
        walker.finish(state, 3, 0)
    walker.finish(state, 0, 2)
    return state


def _meets_axis(line: Floats) -> bool:
    """Does a line meet the axis C+ = 0 at a cost C- >= 0 (or is it that axis)? If not, it meets the other axis so."""
    if line[Q] == 0.0:
        return bool(line[L] == 0.0)
    return bool(line[Q] * line[L] <= 0.0)


def _record(problem: Problem, walker: Walker, line: _Line, state: States, progress: bool) -> Path:
    """Walk along line 0 of the walker to line 1, and keep what happens."""
    at, kept, parts = [0], [state.copy()], []
    with _bar(progress) as show:
        for steps in walker.follow(state, 0, 1):
            parts.append(steps)
            at.append(at[-1] + steps.code.size)
            kept.append(state.copy())
            show(steps, problem)
    corner = problem.to_user(np.concatenate([steps.corner for steps in parts]))
    code = np.concatenate([steps.code for steps in parts])
    record = _Record(code, line.parameters(corner), np.array(at[:-1]), np.array(kept[:-1]))
    return Path(problem, line, record, (walker.n_refined, walker.n_zero, walker.n_exact))


@contextmanager
def _bar(progress: bool) -> Iterator[Any]:
    """A function that shows where the walk is."""
    if not progress:
        yield lambda steps, problem: None
        return
    with make_bar(" events") as bar:

        def show(steps: Steps, problem: Problem) -> None:
            if steps.code.size:
                p, q, l = problem.to_user(steps.corner[-1:])[0]
                bar.set_postfix_str(f"C+ {p / l:.3g}, C- {q / l:.3g}", refresh=False)
            bar.update(steps.code.size)

        yield show


# ----------------------------------------------------------------------------------------------------------------------
# Arguments


def _check_ratio(ratio: Any) -> float:
    value = float(ratio)
    if not (value in {0.0, np.inf} or 1 / WIDEST <= value <= WIDEST):
        raise ValueError(f"ratio must be 0, infinite or a number in [{1 / WIDEST:g}, {WIDEST:g}], got {shown(ratio)}")
    return value


def _check_end(C_max: Any) -> float:
    value = float(C_max)
    if not value > 0:
        raise ValueError(f"C_max must be positive, got {shown(C_max)}")
    return value


def _check_pair(name: str, pair: Any) -> tuple[float, float]:
    try:
        a, b = (float(v) for v in pair)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a pair (C_pos, C_neg), got {shown(pair)}") from None
    for cost, value in (("C_pos", a), ("C_neg", b)):
        if not (np.isfinite(value) and value >= 0):
            raise ValueError(f"{name}: {cost} = {value} is not a finite cost >= 0")
    return a, b
