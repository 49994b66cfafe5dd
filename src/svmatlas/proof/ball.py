"""What models at the four corners of a box of costs say of the held-out rows at all costs in it.

Of a model nothing is taken but its dual variables, as shares of their bounds. With costs c = sum_j m_j c_j in a triangle of
corners (m_j >= 0, sum 1), A_j the dual variables at them, B_j = X'A_j as rounded, A(c) and B(c) the same sums:

    primal - dual (c)  <=  Q(m) = sum_jk m_j m_k G_jk           (bound.py has G, with l = 1)

Let b be the optimal weights at c. The primal objective of B(c) is at least 1/2 |B(c) - b|^2 above the optimum, the dual one
of A(c), a quadratic function of X'A, at least 1/2 |X'A(c) - b|^2 below it. With |B(c) - X'A(c)| <= r, the largest |R_j|,

    |B(c) - b|  <=  r / 2 + sqrt(Q(m)).

So a held-out row z with decision values of at least v_j > 0 at the corners is positive at c if sum_j m_j x_j > |z| sqrt(Q(m)),
x_j = v_j - |z| r / 2; and in the whole triangle if the matrix x_j x_k - |z|^2 G_jk is strictly copositive. With
u_j^2 its diagonal and u_j u_k n_jk beside it, it is so if all u_j^2 > 0, all n_jk > -1 and

    1 + n_12 + n_13 + n_23 + sqrt(2 (1 + n_12) (1 + n_13) (1 + n_23)) > 0          (Hadeler 1983).

A box is cut into two triangles along either diagonal. One of the two ways is enough for a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.proof.bound import SLACK
from svmatlas.proof.rows import UNIT

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]

CUTS = (((0, 1, 2), (0, 2, 3)), ((0, 1, 3), (1, 2, 3)))
"""The two ways to cut a box, with corners in order around it, into triangles."""

INSIDE_BOX = 1.0 - 2.0**-50
"""Dual variables are made smaller by this factor: three roundings of a product do not lift them above their bounds then."""

MARGIN = 2.0**-30
"""What numbers of the test for copositivity must exceed, relative to their terms: some thousand roundings of each."""

NUMBERS = 2**22
"""Numbers in the largest arrays: 32 MB."""


class Decided(NamedTuple):
    """Per box (B,) and held-out row (h,): whether its prediction is known at all costs of the box."""

    positive: Flags
    negative: Flags


class _Models(NamedTuple):
    """Models at the corners of boxes: (B, 4, n) or as said."""

    alpha: Floats
    free: Floats  # at least bound - alpha
    short: Floats  # at least max(0, 1 - score)
    over: Floats  # at least max(0, score - 1)
    rest: Floats  # (B, 4) at least |B - X'A|
    beta: Floats  # (B, 4, d)
    offset: Floats  # (B, 4) weight of the bias constant


class FoldRows:
    """The training rows and the held-out rows of a fold, as they were given."""

    def __init__(self, X: Any, positive: Flags, weight: Floats, Z: Any, bias: float) -> None:
        self.X, self.Z, self.bias, self.weight, self.positive = X, Z, bias, weight, positive
        self.sign = np.where(positive, 1.0, -1.0)
        self.X_size, self.Z_size = abs(X), abs(Z)
        squares = self.Z_size.multiply(self.Z_size) if hasattr(Z, "multiply") else np.square(Z)
        self.length = np.sqrt(np.asarray(squares.sum(axis=1)).ravel() + bias**2) * SLACK
        self.block = max(1, NUMBERS // (4 * max(X.shape[0] + X.shape[1], Z.shape[0])))

    def decide(self, costs: Floats, shares: Floats) -> Decided:
        """What models at costs (B, 4, 2), with dual variables given as shares (B, 4, n), decide."""
        parts = [self._decide(*part) for part in self._blocks(costs, shares)]
        return Decided(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def _blocks(self, costs: Floats, shares: Floats) -> Iterator[tuple[Floats, Floats]]:
        for k in range(0, len(costs), self.block):
            yield costs[k : k + self.block], shares[k : k + self.block]

    def _decide(self, costs: Floats, shares: Floats) -> Decided:
        models = self._models(costs, shares)
        value, error = self._products(self.Z, self.Z_size, models)
        positive, negative = np.all(value > 0, axis=1), np.all(value < 0, axis=1) | (self.length == 0.0)
        least = np.abs(value) - error - 0.5 * models.rest.max(axis=1)[:, None, None] * self.length * SLACK
        sure = _is_decided(least, _gaps(models), self.length**2 * SLACK)
        return Decided(positive & sure, negative & (sure | (self.length == 0.0)))

    def _models(self, costs: Floats, shares: Floats) -> _Models:
        cost = np.where(self.positive, costs[:, :, :1], costs[:, :, 1:])
        most = self.weight * cost
        alpha = np.clip(shares, 0.0, 1.0) * most * INSIDE_BOX
        free = np.maximum(most * (2.0 - INSIDE_BOX) - alpha, 0.0) * SLACK
        signed, size = alpha * self.sign, alpha
        beta, offset = _combine(signed, self.X), self.bias * signed.sum(axis=2)
        terms = np.sum(_combine(size, self.X_size) ** 2, axis=2) + (self.bias * size.sum(axis=2)) ** 2
        rest = (self.X.shape[0] + 6) * UNIT * np.sqrt(terms) * SLACK
        models = _Models(alpha, free, alpha, alpha, rest, beta, offset)
        score, error = self._products(self.X, self.X_size, models)
        lack, error = 1.0 - self.sign * score, error + 2 * UNIT * (1.0 + np.abs(score))
        return models._replace(short=np.maximum(lack + error, 0.0), over=np.maximum(error - lack, 0.0))

    def _products(self, rows: Any, sizes: Any, models: _Models) -> tuple[Floats, Floats]:
        """Decision values (B, 4, rows) and bounds on their errors."""
        shift = (self.bias * models.offset)[:, :, None]
        value = _combine(models.beta, rows.T) + shift
        size = _combine(np.abs(models.beta), sizes.T) + np.abs(shift)
        return value, (rows.shape[1] + 6) * UNIT * size * SLACK


def _combine(weights: Floats, rows: Any) -> Floats:
    """Combinations (B, 4, d) of rows (n, d), dense or sparse."""
    flat = weights.reshape(-1, weights.shape[-1])
    product = np.asarray((rows.T @ flat.T).T) if hasattr(rows, "tocsr") else flat @ rows
    return np.ascontiguousarray(product).reshape(*weights.shape[:2], rows.shape[1])


def _gaps(models: _Models) -> Floats:
    """The numbers G (B, 4, 4), rounded up."""
    wrong = models.free @ models.short.transpose(0, 2, 1) + models.alpha @ models.over.transpose(0, 2, 1)
    rest = models.rest[:, :, None] * models.rest[:, None]
    gaps: Floats = 0.5 * (wrong + wrong.transpose(0, 2, 1) + rest) * SLACK
    return gaps


def _is_decided(least: Floats, gaps: Floats, square: Floats) -> Flags:
    """Which rows (B, h), of decision values of at least ``least`` (B, 4, h) in size, have no zero in the box."""
    with np.errstate(all="ignore"):  # what is not a number is not decided
        x = np.where(least > 0, least, np.nan)
        entry = [[_entry(x, gaps, square, j, k) for k in range(4)] for j in range(4)]
        root = [np.sqrt(entry[j][j]) for j in range(4)]
        beside = [[entry[j][k] / (root[j] * root[k]) for k in range(4)] for j in range(4)]
        ways = [np.logical_and(*(_is_copositive(beside, triangle) for triangle in cut)) for cut in CUTS]
    found: Flags = np.logical_or(*ways)
    return found


def _entry(x: Floats, gaps: Floats, square: Floats, j: int, k: int) -> Floats:
    """An entry (B, h) of the matrix, rounded down; nan on the diagonal if it is not positive."""
    product = x[:, j] * x[:, k]
    entry = product * (2.0 - SLACK) - square * gaps[:, j, k, None] * SLACK
    return np.where(entry > 0, entry, np.nan) if j == k else entry


def _is_copositive(beside: list[list[Floats]], triangle: tuple[int, int, int]) -> Flags:
    i, j, k = triangle
    a, b, c = beside[i][j], beside[i][k], beside[j][k]
    least = MARGIN * (1.0 + np.abs(a) + np.abs(b) + np.abs(c))
    pairs = (1.0 + a > least) & (1.0 + b > least) & (1.0 + c > least)
    found: Flags = pairs & (1.0 + a + b + c + np.sqrt(2.0 * (1.0 + a) * (1.0 + b) * (1.0 + c)) > least)
    return found
