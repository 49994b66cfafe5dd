r"""How predictions become scores.

Held-out rows are *points*, each for equal rows of one fold, and are counted in *groups*. For each group there are two numbers:
what its positive rows count that are predicted positive, and what its negative rows count that are predicted negative. A score
of a fold is a function of these numbers; it does not fall when one of them rises. There are three kinds:

- A *table*, by true positives and true negatives: one group for each fold, rows count 1.
- A *sum*: one group for each fold, and a row counts what it brings to predict it right rather than wrong, in multiples of a
  common unit. So sums are of integers, and do not depend on their order.
- *Average precision*. Points are pairs of a positive and a negative row, positive if the former has the higher decision value.
  There is one group for each distinct positive row, and a pair counts in both of its numbers: pairs that are right, and pairs
  that are wrong.

*Average precision from pairs.* Let group d have :math:`m_d` equal positive rows, :math:`f_d` the number of negative rows with
no lower value, :math:`T_d` that of positive rows with no lower value, :math:`P = \sum m_d`, :math:`g(t, f) = t / (t + f)`. The
score is :math:`\tfrac1P \sum_d m_d\, g(T_d, f_d)`. Different positive rows have different values inside a cell; so in the
order of values the rows have ranks 1, 2, ... P, and :math:`T_d` is the last rank of its group.

*From above*, if :math:`a_d \le f_d \le b_d`. The r-th smallest of the f, each repeated m times, is at least the r-th smallest
of the a, and g falls in f, so :math:`\sum_r g(r, f_{(r)}) \le \sum_r g(r, a_{(r)})`. That is the score if all m are 1. Else a
row that is i ranks before the last of its group adds :math:`g(T, f) - g(T - i, f) = f i / ((T + f)(T - i + f))`. This falls in
T, which is at least the number of rows that are in the group or certainly above it (:math:`b_e < a_d`), and is highest at
:math:`f^2 = T (T - i)`, or at the end of :math:`[a_d, b_d]` that is next to it.

*From below*, if all pairs are known: groups with the same f are in any order. g is concave in t, so the worst order is that
with small groups first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.engine.compiled import entry, kernel_alloc

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

EQUAL = 1e-12
"""Scores that differ by less, relative to the largest, are equal: means over folds carry rounding errors of 1e-16."""


class Judge(NamedTuple):
    """The points of all folds, and how what is right of them becomes a score."""

    group: Ints  # (J,) group of each point
    n_pos: Ints  # (J,) what it counts if it is predicted positive
    n_neg: Ints  # (J,) and negative
    group_at: Ints  # (K + 1,) where the groups of each fold begin
    group_pos: Ints  # (G,) what the points of each group count together
    group_neg: Ints  # (G,)
    group_size: Ints  # (G,) equal positive rows behind a group of pairs
    table: Floats  # score of a fold by its two numbers, one table after the other; empty if there are none
    table_at: Ints  # (K,) where the table of each fold begins
    linear: Floats  # (K, 3) a, b and c of the sum (a + b n) / c; empty if there are none
    n_negative: Ints  # (K,) negative rows of each fold, for average precision
    unknown: Ints  # (K,) the point that is positive where the map of the fold has not been explored, or -1
    words: Words  # (J,) random names of points
    equal: float  # scores that differ by less are equal

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return self.group_at.size - 1

    @property
    def is_ranking(self) -> bool:
        """Whether the score is average precision, of which cells may tell bounds only."""
        return self.table.size == 0 and self.linear.size == 0

    def of_fold(self, k: int) -> Judge:
        """The same of one fold, with its groups from 0 on."""
        first, last = self.group_at[k : k + 2]
        return self._replace(
            group_at=np.array([0, last - first]), group_pos=self.group_pos[first:last], group_neg=self.group_neg[first:last],
            group_size=self.group_size[first:last], table_at=self.table_at[k : k + 1], linear=self.linear[k : k + 1],
            n_negative=self.n_negative[k : k + 1],
        )  # fmt: skip

    def total(self, counts: Ints) -> Ints:
        """Counts (..., G) summed over the groups of each fold: (..., K)."""
        summed: Ints = np.add.reduceat(counts, self.group_at[:-1], axis=-1)
        return summed


@kernel_alloc
def fold_score(judge, counts, k, upper):
    """The score of fold k from the counts (2, G) of all; if some are open, ``upper`` asks for the highest it can be."""
    first = judge.group_at[k]
    if judge.table.size > 0:
        return judge.table[judge.table_at[k] + counts[0, first] * (judge.group_neg[first] + 1) + counts[1, first]]
    if judge.linear.size > 0:
        return (judge.linear[k, 0] + judge.linear[k, 1] * (counts[0, first] + counts[1, first])) / judge.linear[k, 2]
    return _average_precision(judge, counts, k, upper)


@kernel_alloc
def _average_precision(judge, counts, k, upper):
    """Average precision of fold k: from above, or, of pairs that are all known, from below."""
    first, last = judge.group_at[k], judge.group_at[k + 1]
    size, n_neg = judge.group_size[first:last], judge.n_negative[k]
    least = n_neg - counts[0, first:last]
    total, rank = 0.0, 0
    for g in np.argsort(least * (size.max() + 1) + size):
        for _ in range(size[g] if upper else 1):
            rank += 1 if upper else size[g]
            total += (1 if upper else size[g]) * rank / (rank + least[g])
    if upper and rank > last - first:
        most = counts[1, first:last] + (n_neg - judge.group_pos[first:last])  # pairs of equal rows are in no group
        total = min(total + _gain_of_ties(size, least, most), float(rank))
    return total / rank


@kernel_alloc
def _gain_of_ties(size, least, most):
    """What rows that are not the last of their group can add."""
    total = 0.0
    for g in range(size.size):
        if size[g] > 1:
            above = size[g] + size[most < least[g]].sum()
            for i in range(1, size[g]):
                f = min(max(np.sqrt(above * (above - i)), float(least[g])), float(most[g]))
                total += f * i / ((above + f) * (above - i + f)) if f > 0.0 else 0.0
    return total


@kernel_alloc
def mean_score(judge, counts, upper):
    """Mean over folds."""
    total, n_folds = 0.0, judge.group_at.size - 1
    for k in range(n_folds):
        total += fold_score(judge, counts, k, upper)
    return total / n_folds


@entry
def fold_scores(judge, counts, upper):
    """Scores (n, K) of counts (n, 2, G)."""
    out = np.empty((counts.shape[0], judge.group_at.size - 1))
    for n in range(counts.shape[0]):
        for k in range(out.shape[1]):
            out[n, k] = fold_score(judge, counts[n], k, upper)
    return out


@entry
def scores_of_steps(judge, counts, fold, group, change, out):
    """Mean scores (n + 1,) before and after each of n steps, which change the counts (2, G) of a group of a fold by (n, 2)."""
    n_folds = judge.group_at.size - 1
    scores = np.empty(n_folds)
    for k in range(n_folds):
        scores[k] = fold_score(judge, counts, k, False)
    out[0] = scores.sum() / n_folds
    for n in range(fold.size):
        counts[0, group[n]] += change[n, 0]
        counts[1, group[n]] += change[n, 1]
        scores[fold[n]] = fold_score(judge, counts, fold[n], False)
        out[n + 1] = scores.sum() / n_folds
