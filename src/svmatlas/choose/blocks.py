r"""Solutions along an arc in blocks of consecutive knots: most rows need not be looked at knot by knot.

The solutions of a block lie in a ball with center :math:`\beta_0` and radius R, and so do those between its knots, as they are
affine there. A row z has decision values within :math:`|z| R` of :math:`z \cdot \beta_0`. Events move beta a little each, so R is
small, and for most rows that is enough: for the others, those *nearby*, each knot is looked at.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.engine.compiled import entry

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

KNOTS = 64
"""Intervals between knots in a block: a hundred events change few rows, and a look at all rows then costs little."""

ROUNDING = 2.0**-40
"""What is added to a radius, relative to the length of beta (1e-12): errors of products of some hundred terms."""


class Blocks(NamedTuple):
    """Blocks of intervals between knots; one ends with the knot with which the next one begins."""

    at: Ints  # (n + 1,) the first knot of each, and the last knot of all
    center: Floats  # (n, d)
    radius: Floats  # (n,) rounded up


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


def starts_of(n_knots: int) -> Ints:
    """Where blocks of equal size begin, and the last knot."""
    return np.append(np.arange(0, n_knots - 1, KNOTS), n_knots - 1).astype(np.int64)


def starts_in_cells(cell: Ints) -> Ints:
    """The same where a block is in one cell; ``cell`` (m - 1,) says in which an interval is."""
    n = cell.size
    change = np.flatnonzero(np.diff(cell)) + 1
    return np.unique(np.concatenate([np.arange(0, n, KNOTS), change, [n]])).astype(np.int64)
