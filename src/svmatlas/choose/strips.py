r"""Bounds on the score between two arcs: what the exact solutions on both say of all costs between them.

Costs between two arcs are on a ray, between a point of either with the same ratio. With :math:`\beta_1, \beta_2` the solutions
there, costs :math:`c = \lambda_1 c_1 + \lambda_2 c_2` and :math:`b = \lambda_1 \beta_1 + \lambda_2 \beta_2`, ball.py has

.. math:: |\beta(c) - b|^2 \le \lambda_1 \lambda_2\, g + \max(\gamma_1, \gamma_2), \qquad
          g = -|\beta_1 - \beta_2|^2 - (c_1 - c_2) \cdot (H_1 - H_2).

So a row z that is positive at both ends, :math:`v_j = z \cdot \beta_j - |z| \rho > 0` with :math:`\rho` for gaps and errors,
is positive between them if :math:`4 v_1 v_2 > |z|^2 g`: the least of
:math:`(\lambda_1 v_1 + \lambda_2 v_2)^2 / \lambda_1 \lambda_2` is :math:`4 v_1 v_2`. From one knot to the next both sides are
quadratic in the ratio. If all three coefficients of Bernstein's form are greater on the left, so is the whole.

Why arcs. Along a ray the ball is small at all sizes: with :math:`\Lambda` the curvature of the objective its radius is
:math:`|\beta| \Delta \log C / 2 \sqrt\Lambda`, at most. Across rays it is :math:`\sqrt\Lambda` times as large as the change of
beta, and :math:`\Lambda` grows with costs and rows. So solutions are exact across rays, and bounds are along them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.choose.arcs import Knots
from svmatlas.choose.blocks import highest, make_blocks, starts_in_cells, starts_of
from svmatlas.choose.curves import ZERO
from svmatlas.choose.judge import Judge, fold_scores, scores_of_steps
from svmatlas.engine.compiled import entry, kernel

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

SAFE = 1.0 - 2.0**-30
"""Share (1 - 1e-9) of a decision value that is counted on."""

ROUNDING = 2.0**-44
"""Relative error (6e-14) of g: a difference of sums of thousands of terms."""


class Rows(NamedTuple):
    """The distinct held-out rows of a fold, in the coordinates of its problem."""

    z: Floats  # (n, d)
    length: Floats  # (n,)
    size: Floats  # (n, d) |z|
    n_pos: Counts  # (n,) what each counts if it is predicted positive
    n_neg: Counts  # (n,) and negative
    group: Counts  # (n,) group of each, from 0 on
    right: Counts  # (2, groups) the same of further rows, whose predictions are known whatever the costs

    @classmethod
    def of(cls, z: Floats, counts: Counts, group: Counts, n_groups: int) -> Rows:
        """Rows with counts (2, n) in their groups."""
        right = np.zeros((2, n_groups), dtype=np.int64)
        return cls(z, np.linalg.norm(z, axis=1), np.abs(z), counts[0], counts[1], group, right)

    def without(self, positive: Bools, negative: Bools) -> Rows:
        """The same where the predictions of some rows are known."""
        right = self.right + self.tally(positive, negative)
        kept = ~(positive | negative)
        counts = self.n_pos[kept], self.n_neg[kept], self.group[kept]
        return Rows(self.z[kept], self.length[kept], self.size[kept], *counts, right)

    def tally(self, positive: Bools, negative: Bools) -> Counts:
        """What rows with these predictions count, by group: (2, groups)."""
        counts = np.zeros_like(self.right)
        np.add.at(counts[0], self.group[positive], self.n_pos[positive])
        np.add.at(counts[1], self.group[negative], self.n_neg[negative])
        return counts


class Possible(NamedTuple):
    """What may be right in one fold between two arcs."""

    ratio: Floats  # (m,)
    counts: Counts  # (m - 1, 2, groups) between these: what may be right
    sure: npt.NDArray[np.int8]  # (cells, n) by cell and row: 1 positive, -1 negative, 2 neither for sure; 0 if not looked at


class Profile(NamedTuple):
    """A step function of the ratio: value k from ratio[k] to ratio[k + 1]."""

    ratio: Floats  # (m + 1,)
    value: Floats  # (m,)


# ----------------------------------------------------------------------------------------------------------------------
# Which rows may be right


@kernel
def _value(beta, z, k, j):
    """A decision value."""
    total = 0.0
    for i in range(z.shape[1]):
        total += beta[k, i] * z[j, i]
    return total


@kernel
def _is_sure(a, b, c, d, square, corner, other, middle):
    """Whether a row with values a, b on both arcs at one knot, and c, d at the next one, does not change between them."""
    return (
        a > 0.0
        and b > 0.0
        and c > 0.0
        and d > 0.0
        and 4.0 * a * b > square * corner
        and 4.0 * c * d > square * other
        and 2.0 * (a * d + c * b) > square * middle
    )


@kernel
def _surely_in_block(one, two, off, other, square, most, least):
    """The sign of a row at all knots of a block, and between both arcs: 1 or -1; 0 if it is sure at none; else 2.

    ``one`` and ``two`` are values at the centers, ``off`` and ``other`` how far they may be off, ``most`` and ``least`` the
    largest gap and the least one at a knot.
    """
    sign = 1 if one > 0.0 else -1
    a, b = SAFE * sign * one - off, SAFE * sign * two - other
    if _is_sure(a, b, a, b, square, most, most, most):
        return sign
    if (a > 0.0 and sign * two < -other) or 4.0 * (abs(one) + off) * (abs(two) + other) < square * least:
        return 0
    return 2


@kernel
def _note_sure(known, cell, j, sure):
    """Write down what is sure of a row in one more part of a cell."""
    if known[cell, j] == 0:
        known[cell, j] = sure if sure != 0 else 2
    elif known[cell, j] != sure:
        known[cell, j] = 2


@kernel
def _add(counts, sure, g, n_pos, n_neg):
    """A row that may be right if it is predicted so."""
    if sure >= 0:
        counts[0, g] += n_pos
    if sure <= 0:
        counts[1, g] += n_neg


@entry
def _count_possible(
    first, second, z, length, slack, corner, middle, at, low, low_off, high, high_off, most, least, n_pos, n_neg, group,
    counts, cell, known,
):  # fmt: skip
    """For each interval between knots what rows count that may be right, by group: ``counts`` (m - 1, 2, groups).

    ``first`` and ``second`` (m, d) are solutions on both arcs, ``slack`` (m,) is rho, ``corner`` (m,) and ``middle`` (m - 1,)
    are the coefficients of g, ``cell`` (m - 1,) says which cell an interval is in, ``known`` what is sure in it. Blocks begin
    ``at`` some knots. Of each: the centers ``low`` and ``high``, how far off the solutions are, the largest g and the least.
    """
    base = np.empty((2, counts.shape[2]), dtype=np.int64)
    for block in range(most.size):
        begin, end = at[block], at[block + 1]
        base[:] = 0
        for j in range(length.size):
            one, two, square = _value(low, z, block, j), _value(high, z, block, j), length[j] ** 2
            off, other = length[j] * low_off[block], length[j] * high_off[block]
            sure = _surely_in_block(one, two, off, other, square, most[block], least[block])
            if sure != 2:
                _note_sure(known, cell[begin], j, sure)
                _add(base, sure, group[j], n_pos[j], n_neg[j])
                continue
            sign = 1 if one > 0.0 else -1
            a, b = SAFE * sign * _value(first, z, begin, j), SAFE * sign * _value(second, z, begin, j)
            for k in range(begin, end):
                c, d = SAFE * sign * _value(first, z, k + 1, j), SAFE * sign * _value(second, z, k + 1, j)
                off = length[j] * max(slack[k], slack[k + 1])
                is_sure = _is_sure(a - off, b - off, c - off, d - off, square, corner[k], corner[k + 1], middle[k])
                _note_sure(known, cell[k], j, sign if is_sure else 0)
                _add(counts[k], sign if is_sure else 0, group[j], n_pos[j], n_neg[j])
                a, b = c, d
        for k in range(begin, end):
            counts[k] += base


def possible_counts(lower: Knots, upper: Knots, more: Floats, edges: Floats, side: int, unit: float, rows: Rows) -> Possible:
    """What may be right between two arcs. Rows are looked at between knots, and some ``more`` ratios.

    ``edges`` are the ends of the cells; ``unit`` is a cost of 1 in the units of the problem.
    """
    ratio = np.unique(np.concatenate([lower.ratio, upper.ratio, more, edges]))
    cell = np.clip(np.searchsorted(edges, ratio[:-1], side="right") - 1, 0, edges.size - 2)
    counts = np.repeat(rows.right[None], ratio.size - 1, axis=0)
    sure = np.zeros((edges.size - 1, rows.length.size), dtype=np.int8)
    low, high = (_along(ratio, *arc[1:6]) for arc in (lower, upper))
    corner, middle, slack = _gaps(*low, *high, side, ratio, unit * lower.size, unit * upper.size)
    at = starts_in_cells(cell)
    below, above = make_blocks(at, low[0]), make_blocks(at, high[0])
    rho, most = highest(at, slack), np.maximum(highest(at, corner), np.maximum.reduceat(middle, at[:-1]))
    _count_possible(
        low[0], high[0], rows.z, rows.length, slack, corner, middle, at, below.center, rho + below.radius, above.center,
        rho + above.radius, most, -highest(at, -corner), rows.n_pos, rows.n_neg, rows.group, counts, cell, sure,
    )  # fmt: skip
    return Possible(ratio, counts, sure)


@entry
def _along(ratio, knot, beta, loss, gap, error):
    """Beta (m, d), losses (m, 2), gaps and errors (m,) at ascending ratios of an arc: see Knots.at."""
    m, d, k = ratio.size, beta.shape[1], 0
    betas, losses, gaps, errors = np.empty((m, d)), np.empty((m, 2)), np.empty(m), np.empty(m)
    for n in range(m):
        while k < knot.size - 2 and knot[k + 1] <= ratio[n]:
            k += 1
        width = knot[k + 1] - knot[k]
        share = min(max((ratio[n] - knot[k]) / width, 0.0), 1.0) if width > 0.0 else 0.0
        for j in range(d):
            betas[n, j] = beta[k, j] + share * (beta[k + 1, j] - beta[k, j])
        for j in range(2):
            losses[n, j] = loss[k, j] + share * (loss[k + 1, j] - loss[k, j])
        gaps[n], errors[n] = max(gap[k], gap[k + 1]), max(error[k], error[k + 1])
    return betas, losses, gaps, errors


@entry
def _gaps(beta, loss, gap, error, betas, losses, gaps, errors, side, ratio, s, t):
    """Coefficients of g at the knots (m,) and between them (m - 1,), rounded up; and rho (m,), from what is on both arcs."""
    m, d = beta.shape
    corner, middle, slack, sizes = np.empty(m), np.empty(m - 1), np.empty(m), np.empty(m)
    cost, before = np.empty(2), np.empty(2)
    for k in range(m):
        square, one, two, cross = 0.0, 0.0, 0.0, 0.0
        for j in range(d):
            square += (betas[k, j] - beta[k, j]) ** 2
            one += beta[k, j] ** 2
            two += betas[k, j] ** 2
            if k > 0:
                cross += (betas[k, j] - beta[k, j]) * (betas[k - 1, j] - beta[k - 1, j])
        cost[side], cost[1 - side] = t - s, (t - s) * ratio[k]
        lost, total = 0.0, 0.0
        for c in range(2):
            change = losses[k, c] - loss[k, c]
            lost += cost[c] * change
            total += losses[k, c] + loss[k, c]
            if k > 0:
                cross += (cost[c] * (losses[k - 1, c] - loss[k - 1, c]) + before[c] * change) / 2.0
            before[c] = cost[c]
        sizes[k] = max(one, two) + t * total
        corner[k] = max(-square - lost, 0.0) + ROUNDING * sizes[k]
        if k > 0:
            middle[k - 1] = -cross + ROUNDING * max(sizes[k], sizes[k - 1])
        slack[k] = np.sqrt(max(gap[k], gaps[k])) + max(error[k], errors[k])
    return corner, middle, slack


def upper_profile(parts: list[Possible], judge: Judge) -> Profile:
    """The bound on the mean score between two arcs from what each fold says."""
    ratio = np.unique(np.concatenate([part.ratio for part in parts]))
    total = np.zeros(ratio.size - 1)
    for k, (own, counts, _) in enumerate(parts):
        at = np.clip(np.searchsorted(own, ratio[:-1], side="right") - 1, 0, own.size - 2)
        total += fold_scores(judge.of_fold(k), counts, True)[at, 0]
    return Profile(ratio, total / len(parts))


# ----------------------------------------------------------------------------------------------------------------------
# The exact scores on an arc


class Crossings(NamedTuple):
    """Where predictions of a fold change on an arc."""

    start: Counts  # (2, groups) what is right at the lowest ratio
    ratio: Floats  # (c,)
    group: Counts  # (c,)
    change: Counts  # (c, 2) of what is right


@kernel
def _is_positive(beta, z, size, k, j):
    """Whether a decision value is positive; those that may be rounding errors are not."""
    total, most = 0.0, 0.0
    for i in range(z.shape[1]):
        total += beta[k, i] * z[j, i]
        most += abs(beta[k, i]) * size[j, i]
    return total > ZERO * most


@entry
def _changes(beta, z, size, length, at, center, off):
    """Where signs change along an arc: knot, row and the sign after it, one after the other. ``at``...: blocks."""
    found = [0]
    for block in range(off.size):
        for j in range(length.size):
            if abs(_value(center, z, block, j)) > length[j] * off[block]:
                continue
            before = _is_positive(beta, z, size, at[block], j)
            for k in range(at[block], at[block + 1]):
                after = _is_positive(beta, z, size, k + 1, j)
                if after != before:
                    found += [k, j, 1 if after else -1]
                before = after
    return np.array(found)


def crossings(knots: Knots, rows: Rows) -> Crossings:
    """All changes of predictions of a fold along an arc. Zero is negative."""
    beta, ratio, blocks = knots.beta, knots.ratio, make_blocks(starts_of(knots.ratio.size), knots.beta)
    off = blocks.radius + ZERO * (blocks.radius + np.linalg.norm(blocks.center, axis=1))
    positive = rows.z @ beta[0] > ZERO * (rows.size @ np.abs(beta[0]))
    start = rows.right + rows.tally(positive, ~positive)
    i, j, sign = _changes(beta, rows.z, rows.size, rows.length, blocks.at, blocks.center, off)[1:].reshape(-1, 3).T
    a, b = (np.abs(np.sum(beta[k] * rows.z[j], axis=1)) for k in (i, i + 1))
    share = np.divide(a, a + b, out=np.zeros(a.size), where=a + b > 0)
    change = np.column_stack([sign * rows.n_pos[j], -sign * rows.n_neg[j]])
    return Crossings(start, ratio[i] + share * (ratio[i + 1] - ratio[i]), rows.group[j], change)


def score_profile(found: list[Crossings], low: float, high: float, judge: Judge) -> Profile:
    """The exact mean score along an arc."""
    ratio = np.concatenate([c.ratio for c in found])
    fold = np.repeat(np.arange(len(found)), [c.ratio.size for c in found])
    group = np.concatenate([c.group + judge.group_at[k] for k, c in enumerate(found)])
    change = np.concatenate([c.change for c in found])
    order, value = np.argsort(ratio, kind="stable"), np.empty(ratio.size + 1)
    start = np.concatenate([c.start for c in found], axis=1)
    scores_of_steps(judge, start, fold[order], group[order], change[order], value)
    return Profile(np.concatenate([[low], ratio[order], [high]]), value)
