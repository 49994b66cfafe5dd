r"""Bounds on the score between two arcs: what the exact solutions on both say of all costs between them.

Costs between two arcs are on a ray, between a point of either with the same ratio. With :math:`\beta_1, \beta_2` the solutions
there, costs :math:`c = \lambda_1 c_1 + \lambda_2 c_2` and :math:`b = \lambda_1 \beta_1 + \lambda_2 \beta_2`, ball.py has

.. math:: |\beta(c) - b|^2 \le \lambda_1 \lambda_2\, g + \max(\gamma_1, \gamma_2), \qquad
          g = -|\beta_1 - \beta_2|^2 - (c_1 - c_2) \cdot (H_1 - H_2).

So a row z that is positive at both ends, :math:`v_j = z \cdot \beta_j - |z| \rho > 0` with :math:`\rho` for gaps and errors,
is positive between them if :math:`4 v_1 v_2 > |z|^2 g`: the least of
:math:`(\lambda_1 v_1 + \lambda_2 v_2)^2 / \lambda_1 \lambda_2` is :math:`4 v_1 v_2`. From one knot to the next both sides are
quadratic in the ratio. If all three coefficients of Bernstein's form are greater on the left, so is the whole.

Beside it there is the *ball of an end*. Take :math:`\alpha` as before, but :math:`\beta_2` in place of b, and let
:math:`\delta = \beta_2 - \beta_1`. As :math:`\alpha_j` sums up to :math:`|\beta_j|^2 + c_j \cdot H_j`, the duality gap is
:math:`\Gamma = \lambda_1 e_1 + \lambda_1^2 |\delta|^2 / 2` with :math:`e_1 = \beta_1 \cdot \delta + c_1 \cdot (H_2 - H_1) \ge
0`. So :math:`|\beta(c) - \beta_2|^2 + |\beta(c) - b|^2 \le 2 \Gamma`, which is a ball:

.. math:: |\beta(c) - (\beta_2 + b) / 2|^2 \le \lambda_1 e_1 + \lambda_1^2 |\delta|^2 / 4 \le \lambda_1 Q,
          \qquad Q = e_1 + |\delta|^2 / 4.

At its center the row has the value :math:`\lambda_2 v_2 + \lambda_1 (v_1 + v_2) / 2`. If :math:`v_1 \le 3 v_2`, the least of
its square over :math:`\lambda_1` is :math:`(v_1 + v_2)^2 / 4`: so :math:`(v_1 + v_2)^2 > 4 |z|^2 Q` is enough. The same
holds with both ends exchanged, :math:`e_2 = -\beta_2 \cdot \delta - c_2 \cdot (H_2 - H_1)`. As :math:`g = e_1 + e_2`, the
first test is better if both are alike, as between arcs that are near to each other. Between arcs far apart at large costs
:math:`e_2` is larger by a factor of their sizes: beta is close to its limit, and the second test knows.

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
from svmatlas.engine.facet import dot

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
    n_pos: Counts  # (n,) what each counts if it is predicted positive
    n_neg: Counts  # (n,) and negative
    group: Counts  # (n,) group of each, from 0 on
    right: Counts  # (2, groups) the same of further rows, whose predictions are known whatever the costs

    @classmethod
    def of(cls, z: Floats, counts: Counts, group: Counts, n_groups: int) -> Rows:
        """Rows with counts (2, n) in their groups."""
        right = np.zeros((2, n_groups), dtype=np.int64)
        return cls(z, np.linalg.norm(z, axis=1), counts[0], counts[1], group, right)

    def some(self, kept: Kept) -> Rows:
        """The same where the predictions of the others are known."""
        k = kept.numbers
        return Rows(self.z[k], self.length[k], self.n_pos[k], self.n_neg[k], self.group[k], kept.right)

    def tally(self, positive: Bools, negative: Bools) -> Counts:
        """What rows with these predictions count, by group: (2, groups)."""
        counts = np.zeros_like(self.right)
        np.add.at(counts[0], self.group[positive], self.n_pos[positive])
        np.add.at(counts[1], self.group[negative], self.n_neg[negative])
        return counts


class Kept(NamedTuple):
    """Rows of a fold whose predictions are not known, by their numbers; and what the others count."""

    numbers: npt.NDArray[np.int32]
    right: Counts  # (2, groups)


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
def _is_sure(a, b, c, d, square, corner, other, middle, end):
    """Whether a row with values a, b on both arcs at one knot, and c, d at the next one, does not change between them.

    The coefficients are those of g, and ``end`` (3,) those of 4 Q.
    """
    if not (a > 0.0 and b > 0.0 and c > 0.0 and d > 0.0):
        return False
    if 4.0 * a * b > square * corner and 4.0 * c * d > square * other and 2.0 * (a * d + c * b) > square * middle:
        return True
    one, two = a + b, c + d
    alike = a <= 3.0 * b and b <= 3.0 * a and c <= 3.0 * d and d <= 3.0 * c
    return alike and one * one > square * end[0] and two * two > square * end[2] and one * two > square * end[1]


@kernel
def _surely_in_block(one, two, off, other, square, most, least):
    """The sign of a row at all knots of a block, and between both arcs: 1 or -1; 0 if it is sure at none; else 2.

    ``one`` and ``two`` are values at the centers, ``off`` and ``other`` how far they may be off, ``most`` (2,) the largest
    coefficients of g and 4 Q, ``least`` the least of them at knots.
    """
    sign = 1 if one > 0.0 else -1
    a, b, c, d = SAFE * sign * one - off, SAFE * sign * two - other, abs(one) + off, abs(two) + other
    if a > 0.0 and b > 0.0:
        if 4.0 * a * b > square * most[0] or (c <= 3.0 * b and d <= 3.0 * a and (a + b) ** 2 > square * most[1]):
            return sign
    if (a > 0.0 and sign * two < -other) or (4.0 * c * d < square * least[0] and (c + d) ** 2 < square * least[1]):
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
    first, second, z, length, slack, corner, middle, end, at, low, low_off, high, high_off, most, least, n_pos, n_neg,
    group, counts, cell, known,
):  # fmt: skip
    """For each interval between knots what rows count that may be right, by group: ``counts`` (m - 1, 2, groups).

    ``first`` and ``second`` (m, d) are solutions on both arcs, ``slack`` (m,) is rho, ``corner`` (m,) and ``middle`` (m - 1,)
    are the coefficients of g, ``end`` (m - 1, 3) those of 4 Q, ``cell`` (m - 1,) says which cell an interval is in, ``known``
    what is sure in it. Blocks begin ``at`` some knots. Of each: the centers ``low`` and ``high``, how far off the solutions
    are, and the largest and the least coefficients (n, 2).
    """
    base = np.empty((2, counts.shape[2]), dtype=np.int64)
    for block in range(len(most)):
        begin, last = at[block], at[block + 1]
        base[:] = 0
        for j in range(length.size):
            one, two, square = dot(low[block], z[j]), dot(high[block], z[j]), length[j] ** 2
            off, other = length[j] * low_off[block], length[j] * high_off[block]
            sure = _surely_in_block(one, two, off, other, square, most[block], least[block])
            if sure != 2:
                _note_sure(known, cell[begin], j, sure)
                _add(base, sure, group[j], n_pos[j], n_neg[j])
                continue
            sign = 1 if one > 0.0 else -1
            a, b = SAFE * sign * dot(first[begin], z[j]), SAFE * sign * dot(second[begin], z[j])
            for k in range(begin, last):
                c, d = SAFE * sign * dot(first[k + 1], z[j]), SAFE * sign * dot(second[k + 1], z[j])
                off = length[j] * max(slack[k], slack[k + 1])
                is_sure = _is_sure(a - off, b - off, c - off, d - off, square, corner[k], corner[k + 1], middle[k], end[k])
                _note_sure(known, cell[k], j, sign if is_sure else 0)
                _add(counts[k], sign if is_sure else 0, group[j], n_pos[j], n_neg[j])
                a, b = c, d
        for k in range(begin, last):
            for sign in range(2):
                for j in range(counts.shape[2]):
                    counts[k, sign, j] += base[sign, j]


def possible_counts(lower: Knots, upper: Knots, more: Floats, edges: Floats, side: int, unit: float, rows: Rows) -> Possible:
    """What may be right between two arcs. Rows are looked at between knots, and some ``more`` ratios.

    ``edges`` are the ends of the cells; ``unit`` is a cost of 1 in the units of the problem.
    """
    ratio = np.unique(np.concatenate([lower.ratio, upper.ratio, more, edges]))
    cell = np.clip(np.searchsorted(edges, ratio[:-1], side="right") - 1, 0, edges.size - 2)
    counts = np.repeat(rows.right[None], ratio.size - 1, axis=0)
    sure = np.zeros((edges.size - 1, rows.length.size), dtype=np.int8)
    low, high = (_along(ratio, *arc[1:6]) for arc in (lower, upper))
    corner, middle, end, slack = _gaps(*low, *high, side, ratio, unit * lower.size, unit * upper.size)
    at = starts_in_cells(cell, low[0], high[0])
    below, above, rho = make_blocks(at, low[0]), make_blocks(at, high[0]), highest(at, slack)
    outer, first = np.maximum(highest(at, corner), np.maximum.reduceat(middle, at[:-1])), at[:-1]
    most = np.column_stack([outer, np.maximum.reduceat(end.max(axis=1), first)])
    least = np.column_stack([-highest(at, -corner), np.minimum.reduceat(np.minimum(end[:, 0], end[:, 2]), first)])
    _count_possible(
        low[0], high[0], rows.z, rows.length, slack, corner, middle, end, at, below.center, rho + below.radius,
        above.center, rho + above.radius, most, least, rows.n_pos, rows.n_neg, rows.group, counts, cell, sure,
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


@kernel
def _products(beta, other, loss, other_loss, side, ratio, s, k, n, out):
    """What g and Q are made of, between knots k and n (symmetric; k may be n): into ``out`` (5,).

    The products of the change of beta with itself, and with beta on both arcs; of the change of losses with costs of sizes 1;
    and the size of it all.
    """
    out[:] = 0.0
    for j in range(beta.shape[1]):
        one, two = other[k, j] - beta[k, j], other[n, j] - beta[n, j]
        out[0] += one * two
        out[1] += (beta[k, j] * two + beta[n, j] * one) / 2.0
        out[2] += (other[k, j] * two + other[n, j] * one) / 2.0
        out[4] += beta[k, j] ** 2 + other[k, j] ** 2 + beta[n, j] ** 2 + other[n, j] ** 2
    one, two = other_loss[k, side] - loss[k, side], other_loss[n, side] - loss[n, side]
    out[3] = (one + two) / 2.0
    one, two = other_loss[k, 1 - side] - loss[k, 1 - side], other_loss[n, 1 - side] - loss[n, 1 - side]
    out[3] += (ratio[k] * two + ratio[n] * one) / 2.0
    for c in range(2):
        out[4] += s * (loss[k, c] + other_loss[k, c] + loss[n, c] + other_loss[n, c])


@kernel
def _ball_of_end(out, s, t):
    """The two coefficients 4 Q, of the upper end and of the lower one, rounded up; ``out``: see _products."""
    upper, lower = 4.0 * (out[1] + s * out[3]) + out[0], 4.0 * (-out[2] - t * out[3]) + out[0]
    return upper + 4.0 * ROUNDING * out[4], lower + 4.0 * ROUNDING * (t / s) * out[4]


@entry
def _gaps(beta, loss, gap, error, other, other_loss, other_gap, other_error, side, ratio, s, t):
    """Coefficients of g at the knots (m,) and between them (m - 1,), of 4 Q (m - 1, 3), and rho (m,), from both arcs.

    All are rounded up. Q is that of the end for which it is less.
    """
    m = len(beta)
    corner, middle, slack, end, out = np.empty(m), np.empty(m - 1), np.empty(m), np.empty((m - 1, 3)), np.empty(5)
    ends, between = np.empty((m, 2)), np.empty((m - 1, 2))
    for k in range(m):
        _products(beta, other, loss, other_loss, side, ratio, s, k, k, out)
        corner[k] = max(-out[0] - (t - s) * out[3], 0.0) + ROUNDING * (t / s) * out[4]
        ends[k, 0], ends[k, 1] = _ball_of_end(out, s, t)
        slack[k] = np.sqrt(max(gap[k], other_gap[k])) + max(error[k], other_error[k])
        if k > 0:
            _products(beta, other, loss, other_loss, side, ratio, s, k - 1, k, out)
            middle[k - 1] = -out[0] - (t - s) * out[3] + ROUNDING * (t / s) * out[4]
            between[k - 1, 0], between[k - 1, 1] = _ball_of_end(out, s, t)
    for k in range(m - 1):
        which = 0 if ends[k, 0] + ends[k + 1, 0] < ends[k, 1] + ends[k + 1, 1] else 1
        end[k, 0], end[k, 1], end[k, 2] = ends[k, which], between[k, which], ends[k + 1, which]
    return corner, middle, end, slack


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
def _is_positive(beta, z, k, j):
    """Whether a decision value is positive; those that may be rounding errors are not."""
    total, most = 0.0, 0.0
    for i in range(z.shape[1]):
        total += beta[k, i] * z[j, i]
        most += abs(beta[k, i] * z[j, i])
    return total > ZERO * most


@entry
def _changes(beta, z, length, at, center, off):
    """Where signs change along an arc: knot, row and the sign after it, one after the other. ``at``...: blocks."""
    found = [0]
    for block in range(off.size):
        for j in range(length.size):
            if abs(dot(center[block], z[j])) > length[j] * off[block]:
                continue
            before = _is_positive(beta, z, at[block], j)
            for k in range(at[block], at[block + 1]):
                after = _is_positive(beta, z, k + 1, j)
                if after != before:
                    found += [k, j, 1 if after else -1]
                before = after
    return np.array(found)


def crossings(knots: Knots, rows: Rows) -> Crossings:
    """All changes of predictions of a fold along an arc. Zero is negative."""
    beta, ratio, blocks = knots.beta, knots.ratio, make_blocks(starts_of(knots.beta), knots.beta)
    off = blocks.radius + ZERO * (blocks.radius + np.linalg.norm(blocks.center, axis=1))
    positive = rows.z @ beta[0] > ZERO * (np.abs(rows.z) @ np.abs(beta[0]))
    start = rows.right + rows.tally(positive, ~positive)
    i, j, sign = _changes(beta, rows.z, rows.length, blocks.at, blocks.center, off)[1:].reshape(-1, 3).T
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
