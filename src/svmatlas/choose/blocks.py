r"""Solutions along an arc in blocks of consecutive knots: most rows need not be looked at knot by knot.

The solutions of a block lie in a ball with center :math:`\beta_0` and radius R, and so do those between its knots, as they are
affine there. A row z has decision values within :math:`|z| R` of :math:`z \cdot \beta_0`. Events move beta a little each, so R
is small, and for most rows that is enough: for the others, those *nearby*, each knot is looked at.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.engine.compiled import entry, kernel_reassoc

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

KNOTS = 128
"""Most intervals between knots in a block: a look at all rows then costs little, ..."""

WAY = 0.05
"""...and beta moves by no more than this share of its length: few rows are nearby then."""

ROUNDING = 2.0**-40
"""What is added to a radius, relative to the length of beta (1e-12): errors of products of some hundred terms."""


class Blocks(NamedTuple):
    """Blocks of intervals between knots; one ends with the knot with which the next one begins."""

    at: Ints  # (n + 1,) the first knot of each, and the last knot of all
    center: Floats  # (n, d)
    radius: Floats  # (n,) rounded up


@kernel_reassoc
def add(total, factor, a):
    """Add a multiple of a vector to another one."""
    for i in range(a.size):
        total[i] += factor * a[i]


@entry
def _balls(at, beta):
    """Centers (n, d) and radii (n,) of blocks."""
    n, d = at.size - 1, beta.shape[1]
    center, radius = np.empty((n, d)), np.empty(n)
    for block in range(n):
        most, length = 0.0, 0.0
        for j in range(d):
            center[block, j] = (beta[at[block], j] + beta[at[block + 1], j]) / 2.0
            length += center[block, j] ** 2
        for k in range(at[block], at[block + 1] + 1):
            square = 0.0
            for j in range(d):
                square += (beta[k, j] - center[block, j]) ** 2
            if not square <= most:  # what is not a number is not known
                most = square
        radius[block] = (1.0 + ROUNDING) * np.sqrt(most) + ROUNDING * np.sqrt(length)
    return center, radius


def make_blocks(at: Ints, beta: Floats) -> Blocks:
    """Blocks that begin at some knots, with solutions (m, d) at the knots."""
    return Blocks(at, *_balls(at, beta))


def highest(at: Ints, value: Floats) -> Floats:
    """The highest of values (m,) at the knots of each block."""
    top: Floats = np.maximum(np.maximum.reduceat(value[:-1], at[:-1]), value[at[1:]])
    return top


def starts_of(beta: Floats) -> Ints:
    """Where blocks of solutions (m, d) begin, and the last knot."""
    return starts_in_cells(np.zeros(len(beta) - 1, dtype=np.int64), beta)


def starts_in_cells(cell: Ints, *betas: Floats) -> Ints:
    """The same where a block is in one cell; ``cell`` (m - 1,) says where an interval is. All ``betas`` have these knots."""
    n, way = cell.size, np.zeros(cell.size)
    for beta in betas:
        way += _relative_steps(beta)
    way = np.nan_to_num(np.cumsum(way) / WAY, nan=0.0, posinf=0.0)
    block = np.column_stack([cell, np.arange(n) // KNOTS, way.astype(np.int64)])
    change = np.flatnonzero(np.any(block[1:] != block[:-1], axis=1)) + 1
    return np.concatenate([[0], change, [n]])


@entry
def _relative_steps(beta):
    """How far it is from knot to knot (m - 1,), relative to the length of beta."""
    out = np.empty(beta.shape[0] - 1)
    for k in range(out.size):
        square, length = 0.0, 0.0
        for j in range(beta.shape[1]):
            square += (beta[k + 1, j] - beta[k, j]) ** 2
            length += beta[k, j] ** 2
        out[k] = min(np.sqrt(square / length), 1.0) if length > 0.0 else 1.0
    return out
