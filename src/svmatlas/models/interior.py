"""One linear model at one pair of costs, in plain doubles, proven by its duality gap.

    min over a   1/2 |b + X'a|^2 - 1'a     s.t.  0 <= a_i <= u_i

A primal-dual interior point method (Mehrotra's predictor and corrector) comes close, whatever the costs, in some tens of
steps. Each solves with XX' + D, D diagonal, of size N x N, or by a matrix of size d x d if that is smaller. Its multipliers
tell which points are on the margin, and linear equations for these then give the solution up to rounding. Nothing here is
trusted: what does not reach the gap that rounding allows is solved by the walk of walk.py.

| here | paper |
|---|---|
| a, u | alpha and its upper bounds w_i C |
| b | the pull of points that are known to be inside the margin |
| z, v | multipliers of a >= 0 and of a <= u |

Where both N and d are large, LIBLINEAR's solution tells which points are far from the margin. They are left out, and looked at
again at the end. No sparse X is made dense, but for the inner products of the rows that are left.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse import csr_array, hstack, issparse
from sklearn.exceptions import ConvergenceWarning

from svmatlas.data.features import lift
from svmatlas.engine.compiled import entry
from svmatlas.models.gap import SLIP, relative_gap
from svmatlas.models.solve import ALARM, FAR
from svmatlas.support.stopping import Limit
from svmatlas.support.threads import limit_blas

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Solve = Callable[[Floats], Floats]

STEPS = 80
"""Steps of the interior point method: it takes 10 to 40."""

CLOSE = 1e-12
"""Duality gap, relative to the objective, at which its multipliers surely tell the sets apart."""

SHORT = 0.995
"""Share of the way to the border that a step takes."""

STUCK = 1e-8
"""A step shorter than this gets nowhere: rounding is all that is left."""

LEFT = 1e-10
"""Violation of a condition, in scores or relative to a bound, that is left to the gap: rounding, where data are tied."""

TURNS = 12
"""Times that points change their set after the interior point method: it is seldom wrong about more than a few."""

DEPENDENT = 2.0**-40
"""Singular values of rows on the margin below this times the largest are those of dependent rows."""

RIDGE = 2.0**-48
"""Added to the inner products of rows on the margin, relative to their mean square length; refinement takes it out again."""

DENSE = 1500
"""Rows and columns up to which all points are taken into the interior point method: a step takes some 0.1 s then."""

NEAR, MOST = 0.1, 6000
"""Distance of scores from 1 up to which points are taken into it, if there are more of both, and how many at most at first:
their inner products take 0.3 GB."""

GUESS = 100
"""Rounds of LIBLINEAR, which cannot be stopped."""

ROUNDS = 8
"""Times that points are added to those."""


class Fit(NamedTuple):
    """A model in the user's units."""

    alpha: Floats  # (n_rows,)
    coef: Floats  # (d,)
    intercept: float
    gap: float  # relative to the primal objective


class _Data(NamedTuple):
    """Signed, augmented rows, scaled by a power of two to a mean square length near 1, and the bounds in these units."""

    rows: Any  # (n, d) dense or CSR
    bound: Floats
    exponent: int


class _Sides(NamedTuple):
    """Where points are: on the margin, inside it; the others are outside."""

    margin: Flags
    inside: Flags


def fit_linear(X: Any, sign: Floats, cost: Floats, bias: float, limit: Limit) -> Fit | None:
    """The model of checked rows X with labels 1 and -1 and a cost for each row; None if rounding is in the way."""
    held = cost > 0
    if not held.any():
        return None
    with np.errstate(all="ignore"), limit_blas():  # its threads wait in a loop, which is dear on a busy machine
        data = _prepare(X if held.all() else X[held], sign[held], cost[held], bias)
        if data is None or not data.bound.max() < FAR:
            return None
        try:
            solved = _solve(data, limit)
        except (LinAlgError, ValueError):  # not finite, not positive definite
            return None
    if solved is None:
        return None
    alpha = np.zeros(cost.size)
    alpha[held] = np.ldexp(solved[0], 2 * data.exponent)
    weights = np.ldexp(solved[1], data.exponent)
    d = X.shape[1]
    return Fit(np.minimum(alpha, cost), weights[:d], float(weights[d] * bias) if bias else 0.0, solved[2])


def _prepare(X: Any, sign: Floats, cost: Floats, bias: float) -> _Data | None:
    """Rows and bounds; None if the scale is out of range."""
    entries = X.data if issparse(X) else X.ravel()
    mean = float(entries @ entries) / X.shape[0] + bias**2
    if not (np.isfinite(mean) and mean > 0):
        return None
    exponent = -round(float(np.log2(mean)) / 2)
    if issparse(X):
        signed = csr_array((X.data * np.repeat(sign, np.diff(X.indptr)), X.indices, X.indptr), shape=X.shape)
        rows = csr_array(hstack([signed, (bias * sign)[:, None]])) if bias else signed
        rows.data = np.ldexp(rows.data, exponent)
    else:
        rows = np.ldexp(np.column_stack([X, np.full(len(X), bias)]) if bias else X, exponent) * sign[:, None]
    return _Data(rows, np.ldexp(cost, -2 * exponent), exponent)


def _solve(data: _Data, limit: Limit) -> tuple[Floats, Floats, float] | None:
    """Dual variables, weights and their gap, in internal units; None if the gap is more than rounding explains."""
    n, d = data.rows.shape
    inside = np.zeros(n, dtype=bool)
    some = np.ones(n, dtype=bool)
    if min(n, d) > DENSE:
        score = data.rows @ _guess(data)
        near = np.partition(np.abs(score - 1.0), MOST)[MOST] if n > MOST else np.inf
        some, inside = np.abs(score - 1.0) <= min(NEAR, near), score < 1.0
    for _ in range(ROUNDS):
        if min(int(some.sum()), d) > 2 * MOST:
            return None
        alpha, beta, margin = _solve_some(data, some, inside, limit)
        score = data.rows @ beta
        wrong = ~some & (inside == (score > 1.0)) & (np.abs(score - 1.0) > LEFT)
        if not wrong.any():
            return _proven(data, alpha, beta, margin | (alpha < data.bound))
        some |= wrong
    return None


def _guess(data: _Data) -> Floats:
    """Weights by LIBLINEAR: roughly right."""
    from sklearn.svm import LinearSVC

    rows, (n, d) = data.rows, data.rows.shape
    side = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)  # rows are signed: labels may be any
    if issparse(rows):
        turned = rows.data * np.repeat(side, np.diff(rows.indptr))
        rows = csr_array((turned, rows.indices.astype(np.int32), rows.indptr.astype(np.int32)), shape=rows.shape)
    else:
        rows = rows * side[:, None]
    model = LinearSVC(loss="hinge", dual=True, fit_intercept=False, tol=1e-3, max_iter=GUESS, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(rows, side, sample_weight=data.bound)
    weights: Floats = model.coef_[0].reshape(d)
    return weights


def _solve_some(data: _Data, some: Flags, inside: Flags, limit: Limit) -> tuple[Floats, Floats, Flags]:
    """Dual variables of all points, weights and points on the margin, if all but some points stay where they are."""
    alpha = np.where(inside, data.bound, 0.0)
    alpha[some] = 0.0
    rows, bound, pull = data.rows[some], data.bound[some], np.asarray(alpha @ data.rows)
    gram = _inner(rows) if rows.shape[0] <= rows.shape[1] else None
    a, sides = _interior(rows, bound, pull, gram, limit)
    a, beta, sides = _settle(rows, bound, pull, gram, a, sides)
    alpha[some] = a
    margin = np.zeros(some.size, dtype=bool)
    margin[some] = sides.margin
    return alpha, beta, margin


def _inner(rows: Any) -> Floats:
    """Inner products of rows."""
    products = rows @ rows.T
    return np.asarray(products.toarray() if issparse(products) else products)


CANCELLED = 2.0**-44
"""A weight below this (6e-14) times the terms that it is the sum of is zero: alpha solves equations in doubles, and has the
rounding of these times their conditioning, which is more than that of the sum. The gap says whether it does harm."""


def _proven(data: _Data, alpha: Floats, beta: Floats, lossless: Flags) -> tuple[Floats, Floats, float] | None:
    """The solution and its gap, with weights that are rounding errors set to zero if that does no harm."""
    zero = np.abs(beta) <= CANCELLED * np.asarray(alpha @ abs(data.rows))
    for weights in (np.where(zero, 0.0, beta), beta):
        found = _measure(data, alpha, weights, lossless)
        if found[2] <= ALARM:
            return found
    return None


def _measure(data: _Data, alpha: Floats, beta: Floats, lossless: Flags) -> tuple[Floats, Floats, float]:
    """The solution with weights that are lifted (see ``features.lift``), and its relative gap."""
    rows = data.rows
    squares = rows.multiply(rows) if issparse(rows) else rows**2
    sizes = np.sqrt(np.asarray(squares @ beta**2))
    beta = beta * lift((rows @ beta)[None], sizes[None], lossless[None], beta.size)[0]
    norm = np.sqrt(np.asarray(squares.sum(axis=1)).ravel())
    apart = np.linalg.norm(beta - alpha @ rows) - SLIP * np.sqrt(alpha.size) * float(alpha @ norm)
    one = np.array([max(0.0, float(apart))]), np.array([np.linalg.norm(beta)])
    gap = relative_gap(1.0 - (rows @ beta)[None], *one, alpha[None], data.bound[None])
    return alpha, beta, float(gap[0])


# ----------------------------------------------------------------------------------------------------------------------
# The interior point method


def _interior(rows: Any, bound: Floats, pull: Floats, gram: Floats | None, limit: Limit) -> tuple[Floats, _Sides]:
    """Dual variables that are nearly right, strictly between their bounds, and the sets that their multipliers tell."""
    shift, n = np.asarray(rows @ pull) - 1.0, bound.size
    a = bound / 2.0
    slope = _slope(rows, gram, a, shift)
    size = float(np.abs(slope).sum()) / max(1, n) or 1.0
    z, v = np.maximum(slope, 0.0) + size, np.maximum(-slope, 0.0) + size
    for _ in range(STEPS):
        limit.check()
        room, gap = bound - a, float(a @ z + (bound - a) @ v)
        if not gap > CLOSE * (float(a.sum()) + abs(float(a @ slope))):
            break
        solve = _factor(rows, gram, z / a + v / room)
        da, dz, dv = _direction(solve, -slope, a, room, z, v, np.zeros(n), np.zeros(n))
        step = min(1.0, _reach(a, da, room, z, dz, v, dv))
        after = float((a + step * da) @ (z + step * dz) + (room - step * da) @ (v + step * dv))
        center = max(after / gap, 0.0) ** 3 * gap / (2 * n)
        low, high = (center - da * dz) / a, (center + da * dv) / room
        da, dz, dv = _direction(solve, -slope + low - high, a, room, z, v, low, high)
        step = min(1.0, SHORT * _reach(a, da, room, z, dz, v, dv))
        if not step > STUCK:
            break
        a, z, v = a + step * da, z + step * dz, v + step * dv
        slope = _slope(rows, gram, a, shift)
    inside = bound - a < v * bound
    return a, _Sides(~inside & (a >= z * bound), inside)


def _direction(
    solve: Solve, right: Floats, a: Floats, room: Floats, z: Floats, v: Floats, low: Floats, high: Floats
) -> tuple[Floats, Floats, Floats]:
    """Newton's direction of a, z and v; ``low`` and ``high`` are what a z and room v should become, over a and room."""
    da = solve(right)
    return da, low - z - z / a * da, high - v + v / room * da


def _slope(rows: Any, gram: Floats | None, a: Floats, shift: Floats) -> Floats:
    """The derivatives of the objective."""
    return shift + (np.asarray(rows @ np.asarray(a @ rows)) if gram is None else gram @ a)


def _factor(rows: Any, gram: Floats | None, diagonal: Floats) -> Solve:
    """A function that solves with XX' and a diagonal added to it."""
    if gram is not None:
        matrix = gram.copy()
        matrix[np.diag_indices_from(matrix)] += diagonal
        factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        return partial(cho_solve, factor, check_finite=False)
    weight = 1.0 / diagonal
    inner = _factor_small(rows, weight)

    def solve(right: Floats) -> Floats:
        first = weight * right
        second: Floats = weight * np.asarray(rows @ cho_solve(inner, np.asarray(first @ rows), check_finite=False))
        return first - second

    return solve


def _factor_small(rows: Any, weight: Floats) -> Any:
    """The Cholesky factor of 1 + X'WX, for ``cho_solve``; by QR where its condition is too bad for Cholesky's way."""
    if issparse(rows):
        small = np.eye(rows.shape[1])
        rows.sort_indices()
        _add_products(rows.indptr.astype(np.intp), rows.indices.astype(np.intp), rows.data, weight, small)
        return cho_factor(small, lower=True, overwrite_a=True, check_finite=False)
    scaled = rows * np.sqrt(weight)[:, None]
    small = scaled.T @ scaled
    small[np.diag_indices_from(small)] += 1.0
    try:
        return cho_factor(small, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        tall = np.vstack([scaled, np.eye(rows.shape[1])])
        return np.linalg.qr(tall, mode="r"), False


@entry
def _add_products(begin, column, value, weight, out):
    """Add X'WX of sparse rows with sorted columns to a matrix, below its diagonal and on it."""
    for i in range(weight.size):
        for k in range(begin[i], begin[i + 1]):
            x, row = weight[i] * value[k], out[column[k]]
            for m in range(begin[i], k + 1):
                row[column[m]] += x * value[m]


def _reach(a: Floats, da: Floats, room: Floats, z: Floats, dz: Floats, v: Floats, dv: Floats) -> float:
    """How often a step can be taken until something is zero."""
    return min(_first_zero(a, da), _first_zero(room, -da), _first_zero(z, dz), _first_zero(v, dv))


def _first_zero(values: Floats, change: Floats) -> float:
    """How often a change can be added to positive values until one is zero."""
    fastest = -float(np.fmin.reduce(change / values, initial=0.0))
    return 1.0 / fastest if fastest > 0.0 else np.inf


# ----------------------------------------------------------------------------------------------------------------------
# From nearly right to right


def _settle(
    rows: Any, bound: Floats, pull: Floats, gram: Floats | None, near: Floats, sides: _Sides
) -> tuple[Floats, Floats, _Sides]:
    """Dual variables and weights for given sets, which are changed where that is not optimal; LinAlgError if that goes on."""
    for _ in range(TURNS):
        start = np.where(sides.margin, near, np.where(sides.inside, bound, 0.0))
        a, beta = _on_margin(rows, pull, gram, start, np.flatnonzero(sides.margin))
        score = np.asarray(rows @ beta)
        low, high = sides.margin & (a < -LEFT * bound), sides.margin & (a > (1.0 + LEFT) * bound)
        enters = ~sides.margin & (sides.inside == (score > 1.0)) & (np.abs(score - 1.0) > LEFT)
        if not (low.any() or high.any() or enters.any()):
            return np.clip(a, 0.0, bound), beta, sides
        sides = _Sides((sides.margin & ~low & ~high) | enters, (sides.inside & ~enters) | high)
    raise LinAlgError


def _on_margin(rows: Any, pull: Floats, gram: Floats | None, a: Floats, margin: Any) -> tuple[Floats, Floats]:
    """Dual variables and weights for which points on the margin have a score of 1.

    Dual variables on the margin change as little as possible: where they are not unique they stay between their bounds.
    """
    if margin.size == 0:
        return a, pull + np.asarray(a @ rows)
    part = rows[margin]
    if gram is not None or issparse(part):
        return _by_products(rows, pull, part, a, margin)
    u, size, turn = np.linalg.svd(part, full_matrices=False)
    held = size > DEPENDENT * size[:1]
    u, size, turn = u[:, held], size[held], turn[held]
    a = a.copy()
    for _ in range(2):
        a[margin] += u @ ((u.T @ (1.0 - part @ (pull + a @ rows))) / size**2)
    rest = a.copy()
    rest[margin] = 0.0
    other = pull + rest @ rows
    for _ in range(2):
        other = other - (other @ turn.T) @ turn
    return a, other + (u.sum(axis=0) / size) @ turn


def _by_products(rows: Any, pull: Floats, part: Any, a: Floats, margin: Any) -> tuple[Floats, Floats]:
    """The same by the inner products of the rows on the margin, which may be long or sparse."""
    inner = _inner(part)
    inner[np.diag_indices_from(inner)] += RIDGE * np.trace(inner) / margin.size
    factor = cho_factor(inner, lower=True, overwrite_a=True, check_finite=False)
    a = a.copy()
    for _ in range(3):
        short = 1.0 - np.asarray(part @ (pull + np.asarray(a @ rows)))
        a[margin] += cho_solve(factor, short, check_finite=False)
    return a, pull + np.asarray(a @ rows)
