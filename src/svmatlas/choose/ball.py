r"""The interpolation ball: what the solutions at the corners of a box say of all costs in it.

Notation: :math:`c = \sum \lambda_j c_j` costs in a triangle with corners :math:`c_j = (p_j, q_j)`; :math:`\beta_j` the
solution there with hinge losses :math:`H^\pm_j` and duality gap :math:`\gamma_j`; :math:`b = \sum \lambda_j \beta_j`.

*Theorem.* :math:`|\beta(c) - b|^2 \le \sum_j \lambda_j \gamma_j + \sum_{j<k} \lambda_j \lambda_k g_{jk}`, where
:math:`g_{jk} = -|\beta_j - \beta_k|^2 - (p_j - p_k)(H^+_j - H^+_k) - (q_j - q_k)(H^-_j - H^-_k)`.

The bounds of the dual variables are linear in c, so :math:`\alpha = \sum \lambda_j \alpha_j` is feasible; hinge losses are
convex; the right-hand side is what then bounds the duality gap of :math:`(b, \alpha)` at c. The primal objective is strongly
convex with modulus 1, so b is at least :math:`\tfrac12 |\beta(c) - b|^2` above the minimum. The dual objective is quadratic in
:math:`X'\alpha = b`, so :math:`\alpha` is at least as much below it. If the corners have :math:`\beta_j \ne X'\alpha_j`, then
:math:`|\beta_j - X'\alpha_j|^2 \le 2 \gamma_j`, and b is at most :math:`\sqrt{\max_j \gamma_j / 2}` further off.

*Which rows are decided.* A row z has :math:`v_j = z \cdot \beta_j` at the corners, all positive, say. It is positive in the
whole triangle if :math:`(\sum \lambda_j v_j)^2 > |z|^2 (\ldots)` for all weights: if a quadratic form in them is
strictly copositive, with diagonal :math:`u_j^2 = v_j^2 - |z|^2 \gamma_j` and beside it
:math:`v_j v_k - |z|^2 (g_{jk} + \gamma_j + \gamma_k) / 2 = u_j u_k (1 - t_{jk})`. For three corners that is, in closed form
(Hadeler 1983), :math:`t_{jk} < 2` and :math:`4 - \sum t_{jk} + \sqrt{2 \prod (2 - t_{jk})} > 0`.

A box is cut into two triangles in either of two ways; one way is enough for a row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from svmatlas.choose.corners import Corner

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

CUTS = (((0, 1, 2), (0, 2, 3)), ((0, 1, 3), (1, 2, 3)))
"""The two ways to cut a box with corners in order around it into triangles."""

ROUNDING = 2.0**-44
"""Relative error (6e-14) of a gap between two solutions: it is a difference of sums of thousands of terms."""

SAFE = 1.0 - 2.0**-30
"""Share (1 - 1e-9) of a decision value that is counted on: a hundred times what rounding takes of one that is not zero."""


def decide(corners: Sequence[Corner], square: Floats) -> tuple[Bools, Bools]:
    """Which rows are positive, and which are negative, at all costs in the box of four corners; ``square`` (n,) is |z|^2."""
    value = np.array([corner.value for corner in corners])
    positive, negative = np.all(value > 0, axis=0), np.all(value < 0, axis=0)
    some = np.flatnonzero(positive | negative)
    sure = np.zeros(square.size, dtype=bool)
    own = _own_gaps(corners)
    apart = np.sqrt(square[some] * own.max() / 2)
    sure[some] = _is_decided(SAFE * np.abs(value[:, some]) - apart, pairwise_gaps(corners), own, square[some])
    return positive & sure, negative & sure


def pairwise_gaps(corners: Sequence[Corner]) -> Floats:
    """The numbers g (k, k) of all pairs, rounded up."""
    beta, loss, cost = (np.array([getattr(corner, name) for corner in corners]) for name in ("beta", "loss", "internal"))
    products = (cost[:, None] - cost[None]) * (loss[:, None] - loss[None])
    g = -np.sum((beta[:, None] - beta[None]) ** 2, axis=2) - np.sum(products, axis=2)
    size = np.sum(beta**2, axis=1) + np.sum(cost * loss, axis=1)
    cross = np.max(cost, axis=0) @ np.max(loss, axis=0)
    rounded_up: Floats = np.maximum(g, 0.0) + ROUNDING * (np.max(size) + cross)
    return rounded_up


def _own_gaps(corners: Sequence[Corner]) -> Floats:
    """Duality gaps (k,) of the corners themselves, rounded up."""
    sizes = [corner.beta @ corner.beta + corner.internal @ corner.loss for corner in corners]
    return np.array([corner.gap + ROUNDING * size for corner, size in zip(corners, sizes, strict=True)])


def _is_decided(value: Floats, g: Floats, gap: Floats, square: Floats) -> Bools:
    """Which rows, of sizes ``value`` (4, n) at the corners, have no zero in the box."""
    with np.errstate(all="ignore"):  # what is not a number is not decided
        own = np.sqrt(np.where(value > 0, value**2, np.nan) - square * gap[:, None])
        sure = np.zeros(square.size, dtype=bool)
        for cut in CUTS:
            sure |= np.all([_in_triangle(value, own, g, gap, square, triangle) for triangle in cut], axis=0)
    return sure


def _in_triangle(value: Floats, own: Floats, g: Floats, gap: Floats, square: Floats, triangle: tuple[int, ...]) -> Bools:
    i, j, k = triangle
    left = []  # 2 - t of the three pairs
    for a, b in ((i, j), (i, k), (j, k)):
        inner = value[a] * value[b] - square * (g[a, b] + gap[a] + gap[b]) / 2
        left.append(1.0 + inner / (own[a] * own[b]))
    x, y, z = left
    decided: Bools = (x > 0) & (y > 0) & (z > 0) & (x + y + z - 2.0 + np.sqrt(2.0 * x * y * z) > 0)
    return decided
