"""The only gate: the user's data -> a ``Problem``, and solutions back to the user's units.

    min over beta   1/2 |beta|^2 + C+ sum_{+} w_i xi_i + C- sum_{-} w_i xi_i     s.t.  x_i.beta >= 1 - xi_i, xi_i >= 0

Rows are signed and augmented, ``x_i = y_i [x_i, B]``. Rows of one class that are equal are one point with the summed weight;
rows of weight zero are dropped; rows of zeros are always inside the margin and bind nothing. Where there are more columns than
rows, or a kernel, the rows are replaced by others with the same inner products (features.py). All is scaled by a power of two,
which is exact, to a mean square length near 1.

**Jitter.** The targets 1 and the weights w_i are moved by relative amounts up to ``JITTER``, for all decisions and for no
reported solution. Then at most r points can be on their margins at once, no three lines meet but by structure, and the facets
tile the plane even where the data are tied. The jitter of targets acts at finite costs, that of weights at infinity.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse
from sklearn.utils import check_array, check_consistent_length, check_random_state, column_or_1d

from svmatlas.data.columns import Columns, check_names, column_at_fault, column_names, standardize_columns
from svmatlas.data.features import Features, lift, make_features
from svmatlas.data.kernels import Kernel, check_gram, make_kernel
from svmatlas.data.labels import check_labels, check_weights
from svmatlas.engine.workspace import CUT, Data, L, P, Q, Region
from svmatlas.support.messages import shown
from svmatlas.support.threads import limit_blas

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

SMALL = 2**20
"""Entries of a matrix up to which threads of BLAS are not worth that they wait in a loop for more to do, some 0.03 s. So many
are in hand at once where rows are compared."""

LIGHTEST = 1e30
"""Largest ratio of the weights of two points: products of a few of them stay in the range of doubles."""

WIDEST = 1010
"""Largest power of two between the user's unit of costs and that of the data, either way: costs around it are doubles."""

FURTHEST = 2.0**300
"""Largest bound of a region in units of the data, and the inverse of the least one that is not zero: products of three of
them stay in the range of doubles."""

DROPPED, ZERO = -1, -2
"""In ``Problem.point``: a row of weight zero; a row of zeros, inside the margin at all costs."""


Bounds = tuple[tuple[float, float], tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Problem:
    """Standardised, signed, augmented, weighted, joined, factored and scaled data."""

    data: Data
    features: Features
    columns: Columns
    classes: npt.NDArray[Any]
    point: npt.NDArray[np.intp]  # (n_rows,) point of each row of the user's X, or DROPPED or ZERO
    weight: Floats  # (n_rows,) the user's weights
    sign: Floats  # (n_rows,) +1 for classes[1]
    distinct: npt.NDArray[np.intp]  # (n_points,) which of the distinct rows of ``features`` a point is
    cost_exponent: int  # an internal cost is the user's times 2^cost_exponent
    seed: int  # for the names of facets

    @property
    def n_points(self) -> int:
        """Number of distinct points."""
        return int(self.data.rows.shape[0])

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
        with np.errstate(over="ignore"):
            alpha: Floats = full[:, self.point] * cost * self.weight
        if not np.all(np.isfinite(alpha)):
            raise ValueError(f"dual variables at a cost of {max(C_pos.max(), C_neg.max()):g} are out of range of doubles")
        return alpha

    def row_alpha(self, alpha: Floats, C_pos: Floats, C_neg: Floats) -> Floats:
        """Dual variables (n, n_rows) of the user's rows at user's costs, from those of the points (n, N) in units of l = 1."""
        cost = np.where(self.sign > 0, C_pos[:, None], C_neg[:, None])
        full = np.column_stack([alpha / self.data.weight, np.zeros((len(alpha), 2))])  # then ZERO and DROPPED
        shared = np.ldexp(full, -self.cost_exponent)[:, self.point]
        rows: Floats = np.where(self.point == ZERO, cost, shared) * self.weight
        return rows

    def user_rows(self, which: npt.NDArray[np.intp]) -> Any:
        """Some rows of X as it was standardised, none of weight zero; not of a precomputed kernel."""
        features, point = self.features, self.point[which]
        if features.X is not None and np.all(point >= 0):
            return features.X[self.distinct[point]]
        rows = np.zeros((which.size, features.n_features))
        held = point >= 0
        if features.X is not None:
            own = features.X[self.distinct[point[held]]]
            rows[held] = own.toarray() if issparse(own) else own
        else:
            own = self.data.rows[point[held], : features.n_features] * self.sign[which[held], None]
            rows[held] = np.ldexp(own, -features.exponent)
        return rows

    def report(self, beta: Floats, lossless: npt.NDArray[np.bool_]) -> tuple[Floats, ...]:
        """Internal weights (n, r) as they are reported, for standardised rows.

        ``lossless`` (n, n_points) marks the points that are not inside the margin.

        They are coefficients (n, d) and intercepts (n,), or of a nonlinear kernel the combination (n, m) of the distinct rows.
        """
        return self.weights_of(beta, lossless) if self.features.linear else (self._combination_of(beta, lossless),)

    def weights_of(self, beta: Floats, lossless: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Coefficients (n, d) and intercepts (n,) of a linear kernel; lossless points are so with these, too."""
        features = self.features
        coef, intercept = features.weights(beta)
        if features.factor is None:  # the engine's rows are the user's: solve.py has lifted them
            return coef, intercept
        sizes = features.sizes(coef, intercept)[:, self.distinct]
        factor = lift(self._signed(features.scores(coef, intercept)), sizes, lossless, features.n_features + 1)
        return coef * factor[:, None], intercept * factor

    def _combination_of(self, beta: Floats, lossless: npt.NDArray[np.bool_]) -> Floats:
        """The combination of the distinct rows, in internal units, by a nonlinear kernel; likewise."""
        z = self.features.expand(beta)
        sizes = np.linalg.norm(z, axis=1)[:, None] * self.data.norm.max(initial=0.0) ** 2  # at least those of the terms
        factor = lift(self._signed(self.features.times_gram(z)), sizes, lossless, z.shape[1])
        return z * factor[:, None]

    def _signed(self, scores: Floats) -> Floats:
        """Scores (n, n_points) of the points from decision values (n, m) of the distinct rows."""
        signed: Floats = scores[:, self.distinct] * np.where(self.data.axis == P, 1.0, -1.0)
        return signed


def make_problem(
    X: Any,
    y: Any,
    bias: float,
    sample_weight: Any,
    random_state: Any,
    kernel: Any = "linear",
    gamma: Any = "scale",
    degree: Any = 3,
    coef0: Any = 0.0,
    standardize: bool = False,
    feature_names: Any = None,
    pos_label: Any = None,
) -> Problem:
    """Check the user's data and turn them into a Problem; ValueError with a clear text for anything wrong."""
    names = column_names(X)
    X = check_rows(X)
    if feature_names is not None:
        names = check_names(feature_names, X.shape[1])
    y = column_or_1d(y)
    check_consistent_length(X, y)
    bias = check_bias(bias)
    classes, sign = check_labels(y, pos_label)
    weight = check_weights(sample_weight, X.shape[0], sign)
    columns = _columns(X, names, weight, standardize, kernel)
    X = columns.standardized(X)
    chosen = make_kernel(kernel, gamma, degree, coef0, X, weight)
    if kernel == "precomputed":
        X = check_gram(X.toarray() if issparse(X) else X)
    number, origin = _join(X, chosen, bias, weight)
    with limit_blas() if X.shape[0] * X.shape[1] < SMALL else nullcontext():
        features, made = make_features(X, chosen, bias, origin)
    point, distinct = _points(number, sign, np.all(made.rows == 0, axis=1))
    total, shift = _total_weights(point, weight, distinct.size)
    random = check_random_state(random_state)
    side = np.zeros(distinct.size)
    side[point[point >= 0]] = sign[point >= 0]
    rows = made.rows[distinct] * side[:, None]
    data = _data(rows, made.rank, made.kappa, side, total, random)
    seed = int(random.randint(2**31))
    exponent = _check_unit(-2 * features.exponent - shift)
    return Problem(data, features, columns, classes, point, weight, sign, distinct, exponent, seed)


def check_rows(X: Any) -> Any:
    """The user's X as an array of doubles, or as a sparse one in canonical CSR format."""
    try:
        X = check_array(X, accept_sparse="csr", dtype=np.float64, order="C", input_name="X")
    except ValueError as error:
        raise ValueError(f"{error}{column_at_fault(X)}") from None
    if issparse(X):
        X = csr_array(X, copy=not X.has_canonical_format or not np.all(X.data))
        X.sum_duplicates()
        X.eliminate_zeros()
    return X


def _columns(X: Any, names: tuple[str, ...] | None, weight: Floats, standardize: bool, kernel: Any) -> Columns:
    """Names and scaling of the columns."""
    if not standardize:
        return Columns(names)
    if isinstance(kernel, str) and kernel == "precomputed":
        raise ValueError("a precomputed kernel cannot be standardised: standardise the rows that it is made of")
    return standardize_columns(X, weight, names)


def check_bias(bias: Any) -> float:
    """The user's bias constant."""
    value = float(bias)
    if not np.isfinite(value) or value < 0:
        raise ValueError(f"bias must be a finite number >= 0, got {shown(bias)}")
    return value


def _join(X: Any, kernel: Kernel, bias: float, weight: Floats) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Number the distinct rows of X in order of appearance; returns (number of each row, first row of each number)."""
    held = counted = weight > 0
    if kernel.name == "linear" and bias == 0:
        counted = held & (np.diff(X.indptr) > 0 if issparse(X) else X.any(axis=1))
    number: list[int] = np.where(held, ZERO, DROPPED).tolist()
    seen: dict[bytes, int] = {}
    first: list[int] = []
    for i, (key, counts) in enumerate(zip(_keys_of_rows(X), counted.tolist(), strict=True)):
        if counts:
            number[i] = seen.setdefault(key, len(first))
            if number[i] == len(first):
                first.append(i)
    return np.array(number, dtype=np.intp), np.array(first, dtype=np.intp)


def _keys_of_rows(X: Any) -> Iterator[bytes]:
    """Keys of all rows, the same for equal ones: -0.0 is 0.0."""
    if not issparse(X):
        some = max(1, SMALL // max(1, X.shape[1]))
        for part in range(0, X.shape[0], some):
            for row in X[part : part + some] + 0.0:
                yield hashlib.blake2b(row, digest_size=16).digest()
        return
    for a, b in pairwise(X.indptr.tolist()):
        key = hashlib.blake2b(X.data[a:b] + 0.0, digest_size=16)
        key.update(X.indices[a:b])
        yield key.digest()


def _points(
    number: npt.NDArray[np.intp], sign: Floats, zero: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Point of each row of the user's X, one for each distinct row and class, and the distinct row of each point."""
    number = np.where((number >= 0) & np.append(zero, [False, False])[number], ZERO, number)
    point = number.copy()
    held = np.flatnonzero(number >= 0)
    code = 2 * number[held] + (sign[held] > 0)
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    point[held] = rank[inverse]
    return point, number[held[first[order]]]


def _total_weights(point: npt.NDArray[np.intp], weight: Floats, n_points: int) -> tuple[Floats, int]:
    """Weights of the points, the largest between 1/2 and 1, and the power of two that they were multiplied with."""
    held = point >= 0
    if not held.any():
        return np.zeros(0), 0
    first = -int(np.frexp(weight[held].max())[1])  # sums of weights do not overflow
    total: Floats = np.bincount(point[held], weights=np.ldexp(weight[held], first), minlength=n_points).astype(float)
    if total.max() > LIGHTEST * total.min():
        raise ValueError(
            f"sample_weight: the weights of rows differ by more than a factor of {LIGHTEST:.0e}: give those that hardly count "
            "the weight zero"
        )
    second = -int(np.frexp(total.max())[1])
    return np.ldexp(total, second), first + second


def _check_unit(exponent: int) -> int:
    """The power of two between the units of costs; ValueError if the costs that matter are not doubles."""
    if abs(exponent) > WIDEST:
        raise ValueError(
            f"models of these data change at costs of around 1e{-exponent * np.log10(2):.0f}, which is out of range: "
            "standardise the features, and scale sample_weight"
        )
    return exponent


def _data(rows: Floats, rank: int, kappa: float, sign: Floats, weight: Floats, random: Any) -> Data:
    n = rows.shape[0]
    constant = rows[:, -1] * sign if rows.size else np.zeros(1)  # the column of the bias
    norm = np.linalg.norm(rows, axis=1) * (1 + 2.0**-50)  # an upper bound
    jitter = JITTER * min(1.0, (TAME / kappa) ** 2)
    steps = random.randint(-(2**JITTER_BITS), 2**JITTER_BITS, size=(2, n)) * 2.0**-JITTER_BITS
    return Data(
        rows=rows,
        columns=np.ascontiguousarray(rows.T),
        norm=norm,
        target_jitter=jitter * steps[0],
        weight=weight,
        weight_jitter=jitter * steps[1] * weight,
        axis=np.where(sign > 0, P, Q).astype(np.int8),
        probe=np.einsum("i,ij->j", random.uniform(-1, 1, n), rows),
        rank=rank,
        anchor=1.0 / float(constant[0]) if constant[0] > 0 and np.all(constant == constant[0]) else 0.0,
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
        raise ValueError(f"region must be ((lo, hi), (lo, hi)) for C+ and C-, got {shown(region)}") from None
    for name, (lo, hi) in zip(("C+", "C-"), bounds, strict=True):
        if not (0 <= lo < hi) or np.isinf(lo):
            raise ValueError(f"region: {name} needs 0 <= lo < hi, got ({lo}, {hi})")
    return bounds


def make_region(bounds: Bounds, cost_exponent: int) -> Region:
    """The polygon of a box of costs, in internal units, its sides in order: C- >= lo, C+ <= hi, C- <= hi, C+ >= lo."""
    (p_lo, p_hi), (q_lo, q_hi) = (_scale_bounds(pair, cost_exponent) for pair in bounds)
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


def _scale_bounds(pair: tuple[float, float], cost_exponent: int) -> tuple[float, float]:
    """Bounds of one cost in internal units."""
    with np.errstate(over="ignore", under="ignore"):
        low, high = np.ldexp(pair, cost_exponent).tolist()
    for given, value in zip(pair, (low, high), strict=True):
        if not (given in {0.0, np.inf} or 1 / FURTHEST <= value <= FURTHEST):
            unit = float(np.ldexp(1.0, int(np.clip(-cost_exponent, -1000, 1000))))
            raise ValueError(
                f"region: a bound of {given:g} is out of range, where costs of around {unit:.0e} matter by the scale of the "
                "data: use 0 or infinity"
            )
    return low, high


def make_tile(bounds: Bounds, cost_exponent: int, whole: Region) -> Region:
    """The same for a part of a region."""
    region = make_region(bounds, cost_exponent)
    same = np.all(region.sides[:, None] == whole.sides, axis=2)
    return region._replace(name=np.where(same.any(axis=1), same.argmax(axis=1), CUT + region.name))
