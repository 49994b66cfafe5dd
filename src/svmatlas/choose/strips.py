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
from svmatlas.choose.curves import ZERO
from svmatlas.choose.judge import Judge, fold_scores, scores_of_steps
from svmatlas.engine.compiled import entry

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Points = tuple[Floats, Floats, Floats, Floats]

VALUES = 2**21
"""Decision values that are computed at once: 16 MB."""

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


@entry
def _count_possible(first, second, length, slack, corner, middle, n_pos, n_neg, group, counts, cell, known):
    """For each interval between knots what rows count that may be right, by group: ``counts`` (m - 1, 2, groups).

    ``first`` and ``second`` (m, n) are decision values on both arcs, ``slack`` (m,) is rho, ``corner`` (m,) and ``middle``
    (m - 1,) are the coefficients of g, ``cell`` (m - 1,) says which cell an interval is in, ``known`` what is sure in it.
    """
    m, n = first.shape
    for k in range(m - 1):
        s = max(slack[k], slack[k + 1])
        for j in range(n):
            z, a, b, c, d = length[j], first[k, j], second[k, j], first[k + 1, j], second[k + 1, j]
            sure = 0
            if a > 0.0 and b > 0.0 and c > 0.0 and d > 0.0:
                sure = 1
            elif a < 0.0 and b < 0.0 and c < 0.0 and d < 0.0:
                sure = -1
                a, b, c, d = -a, -b, -c, -d
            if sure != 0:
                off, square = z * s, z * z
                a, b, c, d = SAFE * a - off, SAFE * b - off, SAFE * c - off, SAFE * d - off
                if not (
                    a > 0.0
                    and b > 0.0
                    and c > 0.0
                    and d > 0.0
                    and 4.0 * a * b > square * corner[k]
                    and 4.0 * c * d > square * corner[k + 1]
                    and 2.0 * (a * d + c * b) > square * middle[k]
                ):
                    sure = 0
            if known[cell[k], j] == 0:
                known[cell[k], j] = sure if sure != 0 else 2
            elif known[cell[k], j] != sure:
                known[cell[k], j] = 2
            if sure >= 0:
                counts[k, 0, group[j]] += n_pos[j]
            if sure <= 0:
                counts[k, 1, group[j]] += n_neg[j]


def possible_counts(lower: Knots, upper: Knots, more: Floats, edges: Floats, side: int, unit: float, rows: Rows) -> Possible:
    """What may be right between two arcs. Rows are looked at between knots, and some ``more`` ratios.

    ``edges`` are the ends of the cells; ``unit`` is a cost of 1 in the units of the problem.
    """
    ratio = np.unique(np.concatenate([lower.ratio, upper.ratio, more, edges]))
    cell = np.clip(np.searchsorted(edges, ratio[:-1], side="right") - 1, 0, edges.size - 2)
    counts = np.repeat(rows.right[None], ratio.size - 1, axis=0)
    sure = np.zeros((edges.size - 1, rows.length.size), dtype=np.int8)
    step = max(2, VALUES // max(1, rows.length.size))
    for k in range(0, ratio.size - 1, step):
        part = ratio[k : k + step + 1]
        low, high = lower.at(part), upper.at(part)
        corner, middle = _gaps(low, high, side, part, unit * lower.size, unit * upper.size)
        slack = np.sqrt(np.maximum(low[2], high[2])) + np.maximum(low[3], high[3])
        _count_possible(
            low[0] @ rows.z.T, high[0] @ rows.z.T, rows.length, slack, corner, middle, rows.n_pos, rows.n_neg, rows.group,
            counts[k : k + step], cell[k : k + step], sure,
        )  # fmt: skip
    return Possible(ratio, counts, sure)


def _gaps(
    low: tuple[Floats, ...], high: tuple[Floats, ...], side: int, ratio: Floats, s: float, t: float
) -> tuple[Floats, Floats]:
    """Coefficients of g at the knots (m,) and between them (m - 1,), rounded up."""
    beta, loss = high[0] - low[0], high[1] - low[1]
    cost = np.empty((ratio.size, 2))
    cost[:, side], cost[:, 1 - side] = t - s, (t - s) * ratio
    top = np.maximum(np.sum(low[0] ** 2, axis=1), np.sum(high[0] ** 2, axis=1)) + t * np.sum(low[1] + high[1], axis=1)
    corner = np.maximum(-np.sum(beta**2, axis=1) - np.sum(cost * loss, axis=1), 0.0) + ROUNDING * top
    cross = np.sum(cost[1:] * loss[:-1], axis=1) + np.sum(cost[:-1] * loss[1:], axis=1)
    middle = -np.sum(beta[1:] * beta[:-1], axis=1) - cross / 2 + ROUNDING * np.maximum(top[1:], top[:-1])
    return corner, middle


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


def crossings(knots: Knots, rows: Rows) -> Crossings:
    """All changes of predictions of a fold along an arc. Zero is negative."""
    step = max(2, VALUES // max(1, rows.length.size))
    ratios, points, signs, start = [], [], [], None
    for k in range(0, knots.ratio.size - 1, step):
        beta, ratio = knots.beta[k : k + step + 1], knots.ratio[k : k + step + 1]
        value = beta @ rows.z.T
        positive = value > ZERO * (np.abs(beta) @ rows.size.T)
        if start is None:
            start = rows.right + rows.tally(positive[0], ~positive[0])
        i, j = np.nonzero(positive[1:] != positive[:-1])
        a, b = np.abs(value[i, j]), np.abs(value[i + 1, j])
        share = np.divide(a, a + b, out=np.zeros(a.size), where=a + b > 0)
        ratios.append(ratio[i] + share * (ratio[i + 1] - ratio[i]))
        points.append(j)
        signs.append(np.where(positive[i + 1, j], 1, -1))
    assert start is not None
    point, sign = np.concatenate(points), np.concatenate(signs)
    change = np.column_stack([sign * rows.n_pos[point], -sign * rows.n_neg[point]])
    return Crossings(start, np.concatenate(ratios), rows.group[point], change)


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
