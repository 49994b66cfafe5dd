r"""Exact solutions of one fold along arcs of equal size of the costs.

The *size* of costs is the larger one, their *ratio* the smaller one over it. Costs with a size s are two segments, one on each
*side* of the diagonal: (s, r s) and (r s, s), with r from 0 to 1. On such an arc the solution is affine between two events, so
its values at the events and at the two ends, the *knots*, are all there is to know: beta, and the summed hinge losses H of
both classes.

How well a knot is known. Its costs are those at which the walk places the event; beta and alpha are made of the maps of the
facet there. Alpha is put into its bounds, losses are those of all points. So the duality gap is measured, not assumed:

    gap = |beta|^2 / 2 + C+ H+ + C- H- - (sum of alpha) + |X' alpha|^2 / 2,      |beta - X' alpha| <= error.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.choose.blocks import add, make_blocks, starts_of
from svmatlas.data.problem import Problem
from svmatlas.engine.arena import cross
from svmatlas.engine.compiled import entry
from svmatlas.engine.facet import dot
from svmatlas.engine.workspace import INSIDE
from svmatlas.models.walk import Walker, tidy
from svmatlas.support.stopping import Limit

Floats = npt.NDArray[np.float64]
States = npt.NDArray[np.int8]

ROUNDING = 2.0**-48
"""Relative error (4e-15) of a gap: a difference of sums of thousands of terms, added pairwise."""


class Knots(NamedTuple):
    """Solutions of one fold along a piece of an arc, in the units of the problem; the ratio ascends."""

    size: float
    ratio: Floats  # (m,)
    beta: Floats  # (m, d)
    loss: Floats  # (m, 2)
    gap: Floats  # (m,) duality gap, rounded up
    error: Floats  # (m,) bound on |beta - X' alpha|
    code: npt.NDArray[np.int64]  # (m - 2,) the events, from the highest ratio down
    state: States  # (N,) the partition at the highest ratio

    def at(self, ratio: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Beta, losses, gaps and errors at some ratios of the piece: affine between two knots, but for what is a bound."""
        k = np.clip(np.searchsorted(self.ratio, ratio, side="right") - 1, 0, self.ratio.size - 2)
        width = self.ratio[k + 1] - self.ratio[k]
        share = np.clip(np.divide(ratio - self.ratio[k], width, out=np.zeros(ratio.size), where=width > 0), 0.0, 1.0)
        beta, loss = (a[k] + share[:, None] * (a[k + 1] - a[k]) for a in (self.beta, self.loss))
        gap, error = (np.maximum(a[k], a[k + 1]) for a in (self.gap, self.error))
        return beta, loss, gap, error

    def piece(self, low: float, high: float) -> Knots:
        """The part between two ratios."""
        if low <= self.ratio[0] and high >= self.ratio[-1]:
            return self
        i, j = np.searchsorted(self.ratio[1:-1], low, side="right"), np.searchsorted(self.ratio[1:-1], high, side="left")
        n, ends = self.code.size, self.at(np.array([low, high]))
        beta, loss, gap, error = (
            np.concatenate([end[:1], a[1 + i : 1 + j], end[1:]])
            for a, end in zip((self.beta, self.loss, self.gap, self.error), ends, strict=True)
        )
        ratio = np.concatenate([[low], self.ratio[1 + i : 1 + j], [high]])
        return Knots(self.size, ratio, beta, loss, gap, error, self.code[n - j : n - i].copy(), self.state_at(int(n - j)))

    def state_at(self, n_events: int) -> States:
        """The partition after the first events from the highest ratio down."""
        state = self.state.copy()
        _cross_all(state, self.code[:n_events])
        return state


@entry
def _cross_all(state, code):
    """Cross some events of a partition, which is changed."""
    for k in range(code.size):
        cross(state, code[k])


class ArcWalker:
    """Walks along arcs and rays in the problem of one fold. Sizes are in the user's units."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        data = problem.data
        self.jittered = float(data.norm @ np.abs(data.weight_jitter))  # what the jitter of weights may add to beta, per cost
        self.idle: list[Walker] = []  # with workspaces, for one walk after the other; another thread takes another one

    def __reduce__(self) -> tuple[type[ArcWalker], tuple[Problem]]:
        """In another process: with workspaces of its own."""
        return ArcWalker, (self.problem,)

    @contextmanager
    def _along(self, lines: list[Floats], limit: Limit, weights: bool) -> Iterator[Walker]:
        """A walker along some lines."""
        if self.idle:
            walker = self.idle.pop()
            walker.turn(np.array(lines), limit, weights)
        else:
            walker = Walker(self.problem, np.array(lines), limit, weights)
        yield walker
        self.idle.append(walker)

    def internal(self, size: float) -> float:
        """A cost in the units of the problem."""
        return float(np.ldexp(size, self.problem.cost_exponent))

    def climb(self, state: States, side: int, ratio: float, size: float, limit: Limit) -> States:
        """The partition at another size on a ray, from one on it."""
        line, goal = np.zeros(3), np.zeros(3)
        line[side], line[1 - side] = ratio, -1.0
        goal[side], goal[2] = 1.0, -self.internal(size)
        state = state.copy()
        with self._along([tidy(line), tidy(goal)], limit, False) as walker:
            walker.finish(state, 0, 1)
        return state

    def follow(self, state: States, side: int, size: float, low: float, high: float, limit: Limit) -> Knots:
        """The knots of an arc from a ratio, with the partition there, down to another one."""
        s, line = self.internal(size), np.zeros(3)
        line[side], line[2] = 1.0, -s
        goals = [self._across(side, ratio * s) for ratio in (low, high)]
        with self._along([tidy(line), *goals], limit, True) as walker:
            first = [steps for steps in walker.follow(state.copy(), 0, 2)]  # to where it is: the weights there
            parts = [steps for steps in walker.follow(state.copy(), 0, 1)]
        code = np.concatenate([steps.code for steps in parts])
        corner = np.concatenate([steps.corner for steps in parts])
        ratio = np.concatenate([[high], corner[:, 1 - side] / corner[:, side], [low]])
        ratio = np.minimum.accumulate(np.clip(ratio, low, high))
        beta = np.concatenate([first[-1].beta[-1:], *(steps.beta for steps in parts)])
        margin, error = np.concatenate([first[-1].sums[-1:], *(steps.sums for steps in parts)]).T
        loss, costs = hinge_losses(self.problem, beta), np.empty((ratio.size, 2))
        costs[:, side], costs[:, 1 - side] = s, ratio * s
        inside = inside_weights(self.problem, state, code)[[0, *range(code.size + 1)]]
        error = error + costs.sum(axis=1) * self.jittered
        gap = duality_gaps(costs, beta, loss, inside, margin, error)
        down = slice(None, None, -1)
        return Knots(size, ratio[down], beta[down], loss[down], gap[down], error[down], code, state)

    def _across(self, side: int, other: float) -> Floats:
        """The line where the smaller cost has a value."""
        line = np.zeros(3)
        line[1 - side], line[2] = 1.0, -other
        return tidy(line)


def hinge_losses(problem: Problem, beta: Floats) -> Floats:
    """Summed hinge losses (m, 2) of both classes at weights (m, d) along a path, two at least.

    In a block of them points far from the margin stay on their side of it: what they lose is affine in beta.
    """
    data, blocks = problem.data, make_blocks(starts_of(beta), beta)
    losses: Floats = _hinge_losses(data.rows, data.norm, data.weight, data.axis, beta, *blocks)
    return losses


@entry
def _hinge_losses(rows, norm, weight, axis, beta, at, center, radius):
    """The same with blocks ``at`` some knots, their centers and radii."""
    n, d = rows.shape
    loss, pull, mass, near = np.zeros((len(beta), 2)), np.empty((2, d)), np.empty(2), np.empty(n, np.int64)
    for block in range(radius.size):
        pull[:], mass[:], count = 0.0, 0.0, 0
        for i in range(n):
            short, reach = 1.0 - dot(rows[i], center[block]), norm[i] * radius[block]
            if short > reach:
                mass[axis[i]] += weight[i]
                add(pull[axis[i]], weight[i], rows[i])
            elif not short < -reach:
                near[count] = i
                count += 1
        for k in range(at[block], at[block + 1] + 1):
            for c in range(2):
                loss[k, c] = mass[c] - dot(pull[c], beta[k])
            for i in near[:count]:
                loss[k, axis[i]] += weight[i] * max(1.0 - dot(rows[i], beta[k]), 0.0)
    return loss


def duality_gaps(costs: Floats, beta: Floats, loss: Floats, inside: Floats, margin: Floats, error: Floats) -> Floats:
    """Gaps (m,), rounded up, from the weights (m, 2) of points ``inside`` and sums (m,) of alpha on the ``margin``."""
    square, lost, held = np.sum(beta**2, axis=1), np.sum(costs * loss, axis=1), np.sum(costs * inside, axis=1)
    size = square + lost + held + margin
    with np.errstate(invalid="ignore"):  # what is not a number is not known
        gap = np.maximum(square + lost - held - margin, 0.0) + np.sqrt(square) * error + error**2 / 2 + ROUNDING * size
    known: Floats = np.nan_to_num(gap, nan=np.inf)
    return known


def inside_weights(problem: Problem, state: States, code: npt.NDArray[np.int64]) -> Floats:
    """Weights of the points inside the margin, by class: (n + 1, 2) before each of n events and at last."""
    data = problem.data
    inside = np.array([data.weight[(state == INSIDE) & (data.axis == axis)].sum() for axis in range(2)])
    change = np.zeros((code.size + 1, 2))
    some = np.flatnonzero(code & 1)
    point = code[some] >> 1
    order = np.argsort(point, kind="stable")
    ranked = point[order]
    begins = np.r_[True, ranked[1:] != ranked[:-1]] if ranked.size else np.zeros(0, dtype=bool)
    before = np.arange(ranked.size) - np.maximum.accumulate(np.where(begins, np.arange(ranked.size), 0))
    leaves = (state[ranked] == INSIDE) ^ (before % 2 == 1)
    change[some[order] + 1, data.axis[ranked]] = np.where(leaves, -1.0, 1.0) * data.weight[ranked]
    weights: Floats = inside + np.cumsum(change, axis=0)
    return weights
