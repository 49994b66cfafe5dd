"""The only gate: the user's data -> a ``Problem``, and solutions back to the user's units.

    min over beta   1/2 |beta|^2 + C+ sum_{+} w_i xi_i + C- sum_{-} w_i xi_i     s.t.  x_i.beta >= 1 - xi_i, xi_i >= 0

Rows are signed and augmented, ``x_i = y_i [x_i, B]``. Rows of one class that are equal are one point with the summed weight;
rows of weight zero are dropped; rows of zeros are always inside the margin and bind nothing. Where there are more columns than
rows, the rows are replaced by a triangular factor with the same inner products. All is scaled by a power of two, which is
exact, to a mean square length near 1.

**Jitter.** The targets 1 and the weights w_i are moved by relative amounts up to ``JITTER``, for all decisions and for no
reported solution. Then at most r points can be on their margins at once, no three lines meet but by structure, and the facets
tile the plane even where the data are tied. The jitter of targets acts at finite costs, that of weights at infinity.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_array, check_consistent_length, check_random_state, column_or_1d

from svmatlas.facet import CUT, Data, L, P, Q, Region

Floats = npt.NDArray[np.float64]

JITTER = 2.0**-43
"""Largest relative change of targets and weights (1e-13). Large against the rounding of the data (2^-53), so that ties of
decimal numbers are ties; small against everything that a solution in doubles can show. Which facet holds given costs can
be in doubt within this of an edge only, and is then settled by the duality gap (atlas.py)."""

TAME = 1e4
"""Condition of the rows up to which the jitter is as above. Solutions move with the jitter times at most the square of the
condition, so beyond this the jitter is less, by that square; ties are then left to exact arithmetic."""

JITTER_BITS = 30
"""The jitter is a multiple of JITTER / 2^30: two of N points coincide with probability N^2 / 2^31."""

RANK_TOLERANCE = 2.0**-50
"""Singular values (of rows scaled to length 1) below this times the larger dimension times the largest are rounding errors."""

WILD = 1e30
"""A condition of the rows beyond which products of a few entries would leave the range of doubles."""

LIFT = 2.0**-50
"""Scores are lifted to 1 and this times sqrt(number of terms) times the length of the terms: eight times the standard
deviation of the rounding errors of a sum, so that they round to 1 or more whoever adds them up."""

DROPPED, ZERO = -1, -2
"""In ``Problem.point``: a row of weight zero; a row of zeros, inside the margin at all costs."""

Bounds = tuple[tuple[float, float], tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Problem:
    """Signed, augmented, weighted, joined, factored and scaled data."""

    data: Data
    classes: npt.NDArray[Any]
    point: npt.NDArray[np.intp]  # (n_rows,) point of each row of the user's X, or DROPPED or ZERO
    weight: Floats  # (n_rows,) the user's weights
    sign: Floats  # (n_rows,) +1 for classes[1]
    X: Floats  # the user's X
    bias: float
    factored: bool  # the rows were replaced by others with the same inner products
    turn: Floats | None  # see _factor
    exponent: int  # rows were multiplied by 2^exponent
    cost_exponent: int  # an internal cost is the user's times 2^cost_exponent
    seed: int  # for the names of facets

    @property
    def n_points(self) -> int:
        """Number of distinct points."""
        return int(self.data.rows.shape[0])

    @cached_property
    def basis(self) -> Floats:
        """(d, r) orthonormal: internal weights of factored rows are coordinates in it."""
        d = self.X.shape[1] + (self.bias > 0)
        if d <= self.n_points and self.turn is not None:
            return self.turn
        rows, _ = _scale(_augment(self.X, self.bias))
        basis: Floats = np.linalg.qr((rows * self.sign[:, None])[self.first_rows].T)[0]
        return basis if self.turn is None else basis @ self.turn

    @cached_property
    def first_rows(self) -> npt.NDArray[np.intp]:
        """The first row of the user's X at each point."""
        first = np.full(self.n_points, -1, dtype=np.intp)
        rows = np.flatnonzero(self.point >= 0)[::-1]
        first[self.point[rows]] = rows
        return first

    def homogeneous(self, C_pos: Floats, C_neg: Floats) -> Floats:
        """Finite costs (n,) and (n,) as internal homogeneous costs (n, 3), the largest entry near 1."""
        c = np.column_stack([C_pos, C_neg, np.ones_like(C_pos)])
        mantissa, exponent = np.frexp(c)
        exponent[:, :2] += self.cost_exponent
        top = np.max(np.where(c > 0, exponent, -(2**30)), axis=1, keepdims=True)
        with np.errstate(under="ignore"):
            scaled: Floats = np.ldexp(mantissa, exponent - top)
        scaled[:, 2] = np.maximum(scaled[:, 2], np.finfo(float).tiny)
        return scaled

    def to_user(self, c: Floats) -> Floats:
        """Internal homogeneous costs (n, 3) in the user's units, largest entry 1."""
        c = np.array(c, dtype=float)
        top = np.maximum(np.max(c[..., :2], axis=-1), np.finfo(float).tiny)
        c = c / np.maximum(top, np.max(c, axis=-1))[..., None]
        with np.errstate(under="ignore", over="ignore"):
            if self.cost_exponent < 0:
                c[..., :2] = np.ldexp(c[..., :2], -self.cost_exponent)
            else:
                c[..., 2] = np.ldexp(c[..., 2], self.cost_exponent)
        scaled: Floats = c / np.max(c, axis=-1, keepdims=True)
        return scaled

    def spread_alpha(self, share: Floats, C_pos: Floats, C_neg: Floats) -> Floats:
        """Dual variables (n, n_rows) of the user's rows, from those of the points as shares (n, N) of their bounds."""
        full = np.column_stack([share, np.ones(len(share)), np.zeros(len(share))])  # then the places ZERO and DROPPED
        cost = np.where(self.sign > 0, C_pos[:, None], C_neg[:, None])
        alpha: Floats = full[:, self.point] * (self.weight * cost)
        return alpha

    def weights_of(self, beta: Floats, lossless: npt.NDArray[np.bool_]) -> tuple[Floats, float]:
        """Coefficients and intercept from internal weights; ``lossless`` marks the points that are not inside the margin."""
        d = self.X.shape[1]
        full = np.ldexp(self.basis @ beta if self.factored else beta, self.exponent)
        coef, intercept = full[:d], float(full[d] * self.bias) if self.bias else 0.0
        rows = self.X[self.first_rows[lossless]]
        scores = self.sign[self.first_rows[lossless]] * (rows @ coef + intercept)
        sizes = np.sqrt(rows**2 @ coef**2 + intercept**2)
        factor = lift(scores[None], sizes[None], np.ones((1, scores.size), dtype=bool), d + 1)[0]
        return coef * factor, intercept * factor


def lift(scores: Floats, sizes: Floats, lossless: npt.NDArray[np.bool_], n_terms: int) -> Floats:
    """Factors (n,) that lengthen weights by the little that rounding may leave lossless scores (n, N) short of 1.

    With a cost of 1e6, one rounding error of the score of a point on the margin is a loss of 1e-10; a longer beta costs that
    rounding error only. ``sizes`` are the Euclidean lengths of the terms of the scores.
    """
    short = 1.0 + LIFT * np.sqrt(n_terms) * sizes - scores
    factors: Floats = 1.0 + np.max(np.where(lossless, short, 0.0), axis=1, initial=0.0)
    return factors


def make_problem(X: Any, y: Any, bias: float, sample_weight: Any, random_state: Any) -> Problem:
    """Check the user's data and turn them into a Problem; ValueError with a clear text for anything wrong."""
    X = check_array(X, dtype=np.float64, order="C", input_name="X")
    y = column_or_1d(y)
    check_consistent_length(X, y)
    bias = _check_bias(bias)
    classes, sign = _check_labels(y)
    weight = _check_weights(sample_weight, X.shape[0], sign)
    rows, exponent = _scale(_augment(X, bias))
    rows = rows * sign[:, None]
    point, first = _join(rows, sign, weight)
    rows = rows[first]
    signed = rows
    rows, rank, kappa, turn = _factor(signed)
    total: Floats = np.bincount(point[point >= 0], weights=weight[point >= 0], minlength=rows.shape[0]).astype(float)
    shift = -int(np.frexp(total.max())[1]) if total.size else 0
    total = np.ldexp(total, shift)
    random = check_random_state(random_state)
    anchor = 1.0 / abs(float(rows[0, -1])) if bias and rows is signed and len(rows) else 0.0
    data = _data(rows, rank, kappa, sign[first], total, random, anchor)
    seed = int(random.randint(2**31))
    return Problem(
        data, classes, point, weight, sign, X, bias, rows is not signed, turn, exponent, -2 * exponent - shift, seed
    )


def _check_bias(bias: Any) -> float:
    value = float(bias)
    if not np.isfinite(value) or value < 0:
        raise ValueError(f"bias must be a finite number >= 0, got {bias!r}")
    return value


def _check_labels(y: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Floats]:
    if y.dtype.kind == "f" and not np.all(np.isfinite(y)):
        raise ValueError("y contains NaN or infinity")
    classes, index = np.unique(y, return_inverse=True)
    if classes.size != 2:
        raise ValueError(f"y must hold exactly two classes, got {classes.size}: {classes[:5].tolist()}")
    return classes, np.where(index == 1, 1.0, -1.0)


def _check_weights(sample_weight: Any, n: int, sign: Floats) -> Floats:
    if sample_weight is None:
        return np.ones(n)
    weight = np.array(check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"))
    if weight.shape != (n,):
        raise ValueError(f"sample_weight must have shape ({n},), got {weight.shape}")
    if np.any(weight < 0):
        raise ValueError(f"sample_weight must not be negative, row {int(np.argmin(weight))} is {weight.min()}")
    if not (np.any(weight[sign > 0] > 0) and np.any(weight[sign < 0] > 0)):
        raise ValueError("sample_weight is zero for all rows of a class")
    return weight


def _augment(X: Floats, bias: float) -> Floats:
    return np.column_stack([X, np.full(X.shape[0], bias)]) if bias else X


def _scale(rows: Floats) -> tuple[Floats, int]:
    """Multiply by the power of two that brings the mean square length near 1."""
    top = float(np.abs(rows).max(initial=0.0))
    if top == 0.0:
        return rows, 0
    first = -int(np.frexp(top)[1])
    rows = np.ldexp(rows, first)
    mean = float(np.mean(np.einsum("ij,ij->i", rows, rows)))
    second = -round(np.log2(mean) / 2)
    return np.ldexp(rows, second), first + second


def _join(rows: Floats, sign: Floats, weight: Floats) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Number the distinct rows of each class in order of appearance; returns (point of each row, first row of each point)."""
    point = np.full(rows.shape[0], DROPPED, dtype=np.intp)
    seen: dict[bytes, int] = {}
    first: list[int] = []
    for i in range(rows.shape[0]):
        if weight[i] == 0:
            continue
        if not rows[i].any():
            point[i] = ZERO
            continue
        key = (rows[i] + 0.0).tobytes() + (b"+" if sign[i] > 0 else b"-")
        if key not in seen:
            seen[key] = len(first)
            first.append(i)
        point[i] = seen[key]
    return point, np.array(first, dtype=np.intp)


def _factor(rows: Floats) -> tuple[Floats, int, float, Floats | None]:
    """Rows with the same inner products, their rank, their condition, and the turn that they got beside the QR factor.

    They are the rows themselves if these have no more columns than there are rows, and if their rank is what it seems: columns
    that are dependent up to rounding only would be independent to exact arithmetic.
    """
    n, d = rows.shape
    new, turn = (np.transpose(np.linalg.qr(rows.T, mode="r")) if d > n else rows), None
    sizes = np.linalg.svd(new, compute_uv=False)
    rank, least = new.shape[1], RANK_TOLERANCE * max(n, d)
    if n == 0 or not sizes[-1] > least * sizes[0]:
        length = np.linalg.norm(new, axis=1)
        _, relative, directions = np.linalg.svd(new / length[:, None], full_matrices=False) if n else (0, sizes, new)
        rank = int(np.sum(relative > least * relative[:1]))
        if d <= n:
            _check_scales(rows, rank)
        if rank < new.shape[1] and (d > n or rank_exactly(rows) != rank):
            turn = directions[:rank].T
            new = new @ turn
            sizes = np.linalg.svd(new, compute_uv=False)
    kappa = float(sizes[0] / max(sizes[rank - 1], np.finfo(float).tiny)) if rank else 1.0
    if kappa > WILD:
        raise ValueError(f"rows of X and the bias differ in scale by a factor of {kappa:.0e}: standardise the features")
    if new is not rows:
        new = _opposite(rows, np.ascontiguousarray(new))
    return new, rank, kappa, turn


def _opposite(rows: Floats, new: Floats) -> Floats:
    """Rows that were exactly opposite (one point with both labels) are so again."""
    seen = {(-row + 0.0).tobytes(): i for i, row in enumerate(rows)}
    for i, row in enumerate(rows):
        j = seen.get((row + 0.0).tobytes(), i)
        if j < i:
            new[i] = -new[j]
    return new


def _check_scales(rows: Floats, rank: int) -> None:
    """Columns that only their scale makes look dependent would get lost: an error."""
    length = np.linalg.norm(rows, axis=0)
    sizes = np.linalg.svd(rows[:, length > 0] / length[length > 0], compute_uv=False)
    if np.sum(sizes > RANK_TOLERANCE * max(rows.shape) * sizes[:1]) > rank:
        factor = length.max() / length[length > 0].min()
        raise ValueError(f"columns of X and the bias differ in scale by a factor of {factor:.0e}: standardise the features")


def rank_exactly(rows: Floats) -> int:
    """Rank of a matrix of doubles as what they are, rational numbers (but for a chance of 2^-61: modulo a prime)."""
    prime = 2**61 - 1
    matrix = [[(f.numerator * pow(f.denominator, -1, prime)) % prime for f in map(Fraction, row)] for row in rows.tolist()]
    rank = 0
    for column in range(rows.shape[1]):
        pivot = next((i for i in range(rank, len(matrix)) if matrix[i][column]), None)
        if pivot is None:
            continue
        matrix[rank], matrix[pivot] = matrix[pivot], matrix[rank]
        inverse = pow(matrix[rank][column], -1, prime)
        for i in range(rank + 1, len(matrix)):
            if matrix[i][column]:
                factor = matrix[i][column] * inverse % prime
                matrix[i] = [(a - factor * b) % prime for a, b in zip(matrix[i], matrix[rank], strict=True)]
        rank += 1
    return rank


def _data(rows: Floats, rank: int, kappa: float, sign: Floats, weight: Floats, random: Any, anchor: float) -> Data:
    n = rows.shape[0]
    norm = np.linalg.norm(rows, axis=1) * (1 + 2.0**-50)  # an upper bound
    jitter = JITTER * min(1.0, (TAME / kappa) ** 2)
    steps = random.randint(-(2**JITTER_BITS), 2**JITTER_BITS, size=(2, n)) * 2.0**-JITTER_BITS
    return Data(
        rows=rows,
        columns=np.ascontiguousarray(rows.T),
        point=np.array([norm, jitter * steps[0], weight, jitter * steps[1] * weight]),
        axis=np.where(sign > 0, P, Q).astype(np.int8),
        probe=random.uniform(-1, 1, n) @ rows,
        rank=rank,
        anchor=anchor,
    )


# ----------------------------------------------------------------------------------------------------------------------
# Regions


def check_bounds(region: Any) -> Bounds:
    """The user's region as ((lo, hi), (lo, hi)); None is the whole quadrant."""
    if region is None:
        return ((0.0, np.inf), (0.0, np.inf))
    try:
        (a, b), (c, d) = region
        bounds = ((float(a), float(b)), (float(c), float(d)))
    except (TypeError, ValueError):
        raise ValueError(f"region must be ((lo, hi), (lo, hi)) for C+ and C-, got {region!r}") from None
    for name, (lo, hi) in zip(("C+", "C-"), bounds, strict=True):
        if not (0 <= lo < hi) or np.isinf(lo):
            raise ValueError(f"region: {name} needs 0 <= lo < hi, got ({lo}, {hi})")
    return bounds


def make_region(bounds: Bounds, cost_exponent: int) -> Region:
    """The polygon of a box of costs, in internal units, its sides in order: C- >= lo, C+ <= hi, C- <= hi, C+ >= lo."""
    (p_lo, p_hi), (q_lo, q_hi) = (tuple(np.ldexp(b, cost_exponent).tolist()) for b in bounds)
    sides = [(0.0, 1.0, -q_lo)]
    corners = []
    if np.isfinite(p_hi):
        corners.append((p_hi, q_lo, 1.0))
        sides.append((-1.0, 0.0, p_hi))
    else:
        corners.append((1.0, 0.0, 0.0))
    if np.isfinite(q_hi):
        if np.isfinite(p_hi):
            corners.append((p_hi, q_hi, 1.0))
        sides.append((0.0, -1.0, q_hi))
        corners.append((p_lo, q_hi, 1.0))
    else:
        if not np.isfinite(p_hi):
            sides.append((0.0, 0.0, 1.0))
        corners.append((0.0, 1.0, 0.0))
    sides.append((1.0, 0.0, -p_lo))
    corners.append((p_lo, q_lo, 1.0))
    axis = {(1.0, 0.0, 0.0): P, (0.0, 1.0, 0.0): Q, (0.0, 0.0, 1.0): L}
    lines = np.array(sides) + 0.0
    kinds = np.array([axis.get(tuple(s), -1) for s in lines.tolist()], dtype=np.int8)
    return Region(lines, np.array(corners), kinds, np.arange(len(lines)))


def make_tile(bounds: Bounds, cost_exponent: int, whole: Region) -> Region:
    """The same for a part of a region."""
    region = make_region(bounds, cost_exponent)
    same = np.all(region.sides[:, None] == whole.sides, axis=2)
    return region._replace(name=np.where(same.any(axis=1), same.argmax(axis=1), CUT))
