"""A partition at given costs that is probably right, in plain doubles.

Dual coordinate descent (Hsieh et al., 2008) over all points, then over those that still move, comes close; an active set
method for the box-constrained dual finds which points are on the margin. Nothing here is trusted: walk.py checks the result.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve

from svmatlas.engine.compiled import entry
from svmatlas.engine.workspace import INSIDE, MARGIN, OUTSIDE, Data, P
from svmatlas.support.stopping import NEVER, Limit

Floats = npt.NDArray[np.float64]
States = npt.NDArray[np.int8]

ROUNDS, PASSES = 10, 20
"""Rounds of coordinate descent, each a pass over all points and some over the points that move."""

CLOSE = 1e-4
"""Largest violation of a condition, in scores, at which coordinate descent is close enough."""

MOST_FREE = 4
"""More than this times the rank points between their bounds: far from a solution, a walk is quicker than the active set."""

SETTLED = 1e-10
"""Largest violation, in scores, that is left to the check."""

SHARINGS, SHARED = 8, 2.0**-48
"""So often what is left is shared out on a plateau; and how small it has to be, relative to its terms: rounding is less."""

RIDGE = 1e-12
"""Relative to the mean square length of the rows on the margin: keeps their Gram matrix positive definite."""


@entry
def _descend(rows, square, bound, order, alpha, beta):
    """Coordinate descent from alpha and beta, which are changed."""
    n, d = rows.shape
    moving = np.empty(n, np.int64)
    for _ in range(ROUNDS):
        size, count = n, 0
        for step in range(1 + PASSES):
            worst = 0.0
            for k in range(size):
                i = order[k] if step == 0 else moving[k]
                g = -1.0
                for j in range(d):
                    g += rows[i, j] * beta[j]
                new = min(max(alpha[i] - g / square[i], 0.0), bound[i])
                change = new - alpha[i]
                if change != 0.0:
                    worst = max(worst, abs(g))
                    alpha[i] = new
                    for j in range(d):
                        beta[j] += change * rows[i, j]
                if step == 0 and (change != 0.0 or 0.0 < new < bound[i]):
                    moving[count] = i
                    count += 1
            if step == 0 and worst < CLOSE:
                return
            size = count
            if worst < CLOSE:
                break


def guess(data: Data, c: Floats, limit: Limit = NEVER) -> States | None:
    """A partition at finite homogeneous costs, or None where none was found, in particular in ties and on the axes."""
    if not c.min() > 0:
        return None
    with np.errstate(all="ignore"):  # what overflows fails the check
        try:
            return _guess(data, c, limit)
        except np.linalg.LinAlgError:
            return None


def approximate(data: Data, c: Floats) -> tuple[States, Floats]:
    """Partition and weights at finite homogeneous costs, but for what coordinate descent leaves."""
    alpha, beta, bound = _solve(data, c)
    side = np.where(data.rows @ beta < 1.0, INSIDE, OUTSIDE)
    return np.where((alpha > 0) & (alpha < bound), MARGIN, side).astype(np.int8), beta


def alpha_on_plateau(data: Data, c: Floats, axis: int) -> Floats | None:
    """Dual variables at finite homogeneous costs on the plateau of a class (plateaus.py); None where none were found.

    Nothing but their sum of alpha_i x_i and their bounds is asked of them. What coordinate descent leaves is shared out among
    all points of the class that are between their bounds.
    """
    alpha, _, bound = _solve(data, c)
    own, e = data.axis == axis, np.zeros(data.rows.shape[1])
    e[-1] = data.anchor if axis == P else -data.anchor
    alpha = np.where(own, alpha, bound)
    for _ in range(SHARINGS):
        apart = e - alpha @ data.rows
        if np.all(np.abs(apart) <= SHARED * (alpha @ np.abs(data.rows))):
            return alpha
        free = own & (alpha > 0) & (alpha < bound)
        alpha[free] += np.linalg.lstsq(data.rows[free].T, apart, rcond=None)[0]
        alpha = np.clip(alpha, 0.0, bound)
    return None


def _solve(data: Data, c: Floats) -> tuple[Floats, Floats, Floats]:
    """Dual variables and weights by coordinate descent, and the bounds of the former."""
    rows = data.rows
    bound = data.weight * (c[data.axis] / c[2])
    alpha, beta = np.zeros(rows.shape[0]), np.zeros(rows.shape[1])
    order = np.random.default_rng(0).permutation(rows.shape[0])
    _descend(rows, np.einsum("ij,ij->i", rows, rows), bound, order, alpha, beta)
    return alpha, beta, bound


def _guess(data: Data, c: Floats, limit: Limit) -> States | None:
    rows = data.rows
    alpha, _, bound = _solve(data, c)
    free = (alpha > 0) & (alpha < bound)
    most = MOST_FREE * data.rank
    if free.sum() > most:
        return None
    for _ in range(2 * most):
        limit.check()
        if _step(rows, bound, alpha, free):
            continue
        if free.sum() > data.rank:  # a tie
            return None
        score = rows @ (alpha @ rows) - 1.0
        wrong = np.where(free, 0.0, np.where(alpha > 0, score, -score))
        worst = int(np.argmax(wrong))
        if wrong[worst] < SETTLED:
            return np.where(free, MARGIN, np.where(alpha > 0, INSIDE, OUTSIDE)).astype(np.int8)
        free[worst] = True
    return None


def _step(rows: Floats, bound: Floats, alpha: Floats, free: npt.NDArray[np.bool_]) -> bool:
    """Newton's step for the free variables, up to the first bound. Was there one? Its variable is then free no more."""
    index = np.flatnonzero(free)
    if index.size == 0:
        return False
    part = rows[index]
    gram = part @ part.T
    gram[np.diag_indices_from(gram)] += RIDGE * np.trace(gram) / index.size
    factor = cho_factor(gram, check_finite=False)
    move = cho_solve(factor, 1.0 - part @ (alpha @ rows), check_finite=False)
    if not np.all(np.isfinite(move)):
        raise np.linalg.LinAlgError
    room = np.where(move > 0, bound[index] - alpha[index], alpha[index])
    reach = np.where(move != 0, room / np.abs(move), np.inf)
    first = int(np.argmin(reach))
    length = min(1.0, float(reach[first]))
    alpha[index] = np.clip(alpha[index] + length * move, 0.0, bound[index])
    if length == 1.0:
        return False
    alpha[index[first]] = bound[index[first]] if move[first] > 0 else 0.0
    free[index[first]] = False
    return True
