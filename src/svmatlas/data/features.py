"""The rows of the engine, and the way back: internal weights -> coefficients or decision values.

The engine sees only inner products. Its rows are the user's own, with the bias constant appended, where these have no more
columns than there are rows, are few, or would lose digits. Else they are a *factor*: rows of at most that many columns with
the same inner products, which are those of the columns of a triangular matrix (wide data, dense or sparse, by QR of a few
columns at a time, so that nothing wide is ever made dense) or of a Cholesky factor of the kernel matrix, the square of the
bias constant added to the kernel.

Weights beta of factored rows F are a combination of the user's rows, beta = F'z. The shortest z gives the coefficients X'z
and the decision values k(x)'z; one step of refinement makes up for the rounding of wide sums (Björck's corrected seminormal
equations).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular
from scipy.sparse import csr_array, issparse

from svmatlas.data.kernels import Kernel, check_gram, factor_gram
from svmatlas.engine.mersenne import rank_of
from svmatlas.support.threads import limit_blas

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]

RANK_TOLERANCE = 2.0**-50
"""Singular values (of rows scaled to length 1) below this times the larger dimension times the largest are rounding errors."""

NO_PART = 2.0**-40
"""A part of a column, of length 1, in a direction of length 1: below this (1e-12) it is the rounding of the direction."""

WILD = 1e30
"""A condition of the rows beyond which products of a few entries would leave the range of doubles."""

LIFT = 2.0**-50
"""Scores are lifted to 1 and this times sqrt(number of terms) times the length of the terms: eight times the standard
deviation of the rounding errors of a sum, so that they round to 1 or more whoever adds them up."""

UNDECIDED = 2.0**-44
"""A decision value below this (6e-14) times the sum of the sizes of its terms is zero: weights carry relative errors of some
2^-50, and sums of thousands of terms as much again."""

FEW_COLUMNS = 64
"""With no more columns than this rows are kept as they are, be they fewer: ties of integers then are ties exactly."""

MANY_COLUMNS, STEADY = 1024, 1e3
"""With no more columns than the first rows are kept as they are, too, if their condition is worse than the second: a factor of
them would lose as many digits. Its rounding moves corners of facets by 1e-16 times the square of the condition."""

BLOCK = 4096
"""Least number of columns that are made dense at once; more rows take four times their number."""

GRAM_BLOCK = 2**22
"""Entries of a kernel matrix that are computed at once."""


@dataclass(frozen=True, eq=False)
class Features:
    """What the rows of the engine stand for."""

    kernel: Kernel
    bias: float
    n_features: int  # columns of the user's X
    exponent: int  # rows were multiplied by 2^exponent
    origin: Ints  # (m,) the user's row of each distinct row
    factor: Floats | None  # (m, r) the engine's rows of the distinct rows; None if they are the user's own
    X: Any  # (m, d) the user's distinct rows, if the engine's are others with these inner products
    turn: Floats | None = (
        None  # (d + 1, r) orthonormal: the user's rows times this are the engine's; None if they are not made so
    )

    @property
    def linear(self) -> bool:
        """Whether there are coefficients."""
        return self.kernel.name == "linear"

    @property
    def size(self) -> int:
        """Entries of the distinct rows, or of their kernel matrix."""
        d = self.X.nnz // max(1, self.origin.size) if issparse(self.X) else self.n_features
        return max(1, self.origin.size * (d if self.linear else d + self.origin.size))

    @cached_property
    def _split(self) -> tuple[Floats, Floats]:
        """QR of the factor: Q (m, r) and R (r, r)."""
        assert self.factor is not None
        q, r = np.linalg.qr(self.factor)
        return q, r

    @cached_property
    def _singular(self) -> tuple[Floats, Floats, Floats] | None:
        """The singular value decomposition of a factor whose columns depend on each other, as far as its rank goes."""
        assert self.factor is not None
        left, sizes, right = np.linalg.svd(self.factor, full_matrices=False)
        held = sizes > RANK_TOLERANCE * max(self.factor.shape) * sizes[:1]
        if self.factor.shape[0] >= self.factor.shape[1] and np.all(held):
            return None
        return left[:, held], sizes[held], right[held]

    def expand(self, beta: Floats) -> Floats:
        """The shortest z (n, m) with beta = F'z for weights (n, r), in internal units."""
        if self._singular is not None:  # one factor after the other: their product, a pseudo-inverse, would lose digits
            left, sizes, right = self._singular
            return np.asarray((beta @ right.T / sizes) @ left.T)
        q, r = self._split
        z: Floats = np.transpose(q @ solve_triangular(r, beta.T, trans="T"))
        return z

    def _expand(self, beta: Floats) -> Floats:
        """The same in the user's units."""
        return np.ldexp(self.expand(beta), 2 * self.exponent)

    def times_gram(self, z: Floats) -> Floats:
        """Combinations z (n, m) of the distinct rows times their kernels and the bias constant's, in internal units.

        Of a precomputed kernel there is the factor only, which has these inner products up to rounding.
        """
        assert self.factor is not None
        if self.kernel.name == "precomputed":
            return np.asarray(z @ self.factor @ self.factor.T)
        products = np.empty_like(z)
        size = max(1, GRAM_BLOCK // max(1, z.shape[1]))
        for k in range(0, z.shape[1], size):
            gram = self.kernel(self.X[k : k + size], self.X)
            products[:, k : k + size] = z @ np.ldexp(gram, 2 * self.exponent).T
        products += np.ldexp(self.bias, self.exponent) ** 2 * z.sum(axis=1, keepdims=True)
        return products

    def weights(self, beta: Floats) -> tuple[Floats, Floats]:
        """Coefficients (n, d) and intercepts (n,) of internal weights (n, r)."""
        if self.factor is None:
            full, d = np.ldexp(beta, self.exponent), self.n_features
            return full[:, :d], full[:, d] * self.bias if self.bias else np.zeros(len(full))
        if self.turn is not None:
            full, d = np.ldexp(beta @ self.turn.T, self.exponent), self.n_features
            return full[:, :d], full[:, d] * self.bias if self.bias else np.zeros(len(full))
        z = self._expand(beta)
        short = beta @ self.factor.T - self.scores(z @ self.X, self.bias**2 * z.sum(axis=1))
        q, r = self._split
        z += self._expand(np.transpose(solve_triangular(r, q.T @ short.T)))
        return np.asarray(z @ self.X), self.bias**2 * z.sum(axis=1)

    def coordinates(self, X: Any) -> Floats:
        """Coordinates (k, r) of rows X (k, d): their products with internal weights are the decision values.

        They are made of inner products with the distinct rows, so that nothing takes r times d numbers.
        """
        if self.factor is None:
            return np.ldexp(_augment(X.toarray() if issparse(X) else X, self.bias), self.exponent)
        if self.turn is not None:
            return np.ldexp(_augment(X.toarray() if issparse(X) else X, self.bias), self.exponent) @ self.turn
        unit = np.eye(self.factor.shape[1])
        if not self.linear:
            return np.ascontiguousarray(self.decide(X, self.expand(unit)).T)
        z = self._expand(unit)
        q, r = self._split
        short = self.factor.T - z @ self._products(self.X)
        z += self._expand(np.transpose(solve_triangular(r, q.T @ short.T)))
        return np.ascontiguousarray(self._products(X) @ z.T)

    def _products(self, X: Any) -> Floats:
        """Inner products (k, m) of rows and distinct rows, the bias included, of a linear kernel."""
        own = self.X
        if issparse(X) and issparse(own):
            used = np.unique(own.indices)
            X, own = _some_columns(X, used), _some_columns(own, used)
        products = X @ own.T
        inner: Floats = (products.toarray() if issparse(products) else products) + self.bias**2
        return inner

    def lost(self) -> float:
        """The largest part of a row that the engine's rows leave out, relative to what they say in any direction."""
        if self.turn is None or self.factor is None:
            return 0.0
        own = np.ldexp(_augment(self.X.toarray() if issparse(self.X) else self.X, self.bias), self.exponent)
        rest = np.linalg.norm(own - self.factor @ self.turn.T, axis=1).max(initial=0.0)
        return float(rest / np.linalg.svd(self.factor, compute_uv=False)[-1]) if self.factor.size else 0.0

    def scores(self, coef: Floats, intercept: Floats) -> Floats:
        """Decision values (n, m) of the distinct rows."""
        values: Floats = (self.X @ coef.T + intercept).T
        return values

    def sizes(self, coef: Floats, intercept: Floats) -> Floats:
        """Euclidean lengths (n, m) of the terms of these values."""
        square = self.X.multiply(self.X) if issparse(self.X) else self.X**2
        lengths: Floats = np.sqrt((square @ (coef**2).T + intercept**2).T)
        return lengths

    def intercept(self, z: Floats) -> Floats:
        """Intercepts (n,) of combinations z (n, m) by a nonlinear kernel: what the bias constant adds to decision values."""
        added: Floats = self.bias**2 * np.ldexp(z, 2 * self.exponent).sum(axis=1)
        return added

    def decide(self, X: Any, z: Floats) -> Floats:
        """Decision values (n, k) of rows X (k, d) of such combinations; X holds the kernels if these are precomputed."""
        values = X[:, self.origin] if self.kernel.name == "precomputed" else self.kernel(X, self.X)
        decided: Floats = (values @ np.ldexp(z, 2 * self.exponent).T + self.intercept(z)).T
        return decided


def lift(scores: Floats, sizes: Floats, lossless: Flags, n_terms: int) -> Floats:
    """Factors (n,) that lengthen weights by the little that rounding may leave lossless scores (n, N) short of 1.

    With a cost of 1e6, one rounding error of the score of a point on the margin is a loss of 1e-10; a longer beta costs that
    rounding error only. ``sizes`` are the Euclidean lengths of the terms of the scores.
    """
    sure = scores - LIFT * np.sqrt(n_terms) * sizes
    factors: Floats = 1.0 / np.clip(np.min(np.where(lossless, sure, 1.0), axis=1, initial=1.0), 0.5, 1.0)
    return factors


def decision_values(X: Any, weights: Floats, offset: Any) -> Floats:
    """Decision values ``X @ weights + offset``; what is not larger than its rounding error is zero.

    On tied data a row may lie on the decision boundary for all costs of a facet. Its prediction is then that of zero, not of
    a rounding error.
    """
    values = np.asarray(X @ weights + offset)
    sizes = np.asarray(abs(X) @ np.abs(weights) + np.abs(offset))
    return np.where(np.abs(values) <= UNDECIDED * sizes, 0.0, values)


# ----------------------------------------------------------------------------------------------------------------------
# Rows with given inner products


class Rows(NamedTuple):
    """Rows for the engine."""

    rows: Floats  # (m, r)
    rank: int
    kappa: float  # their condition
    turn: Floats | None = None  # (d, r) orthonormal, what was multiplied with to get them


def make_features(X: Any, kernel: Kernel, bias: float, origin: Ints) -> tuple[Features, Rows]:
    """Features and the engine's rows of the distinct rows ``X[origin]``."""
    d = X.shape[1]
    if kernel.name != "linear":
        return _from_kernel(X, kernel, bias, origin)
    if origin.size < X.shape[0]:
        X = X[origin]
    exponent = _exponent(X.data if issparse(X) else X, bias, origin.size)
    if d + (bias > 0) > max(origin.size, FEW_COLUMNS):
        own = _triangle(X, bias, exponent)
        _check_sizes("rows", np.abs(own).max(axis=1, initial=0.0))
        made = _full_rank(own, d)
        if d > MANY_COLUMNS or made.kappa <= STEADY:
            return Features(kernel, bias, d, exponent, origin, made.rows, X), made
    own = np.ldexp(_augment(X.toarray() if issparse(X) else X, bias), exponent)
    _check_entries(own)
    _check_sizes("rows", np.abs(own).max(axis=1, initial=0.0))
    made = _full_rank(own, 0)
    factor, kept = (made.rows, X) if made.rows is not own else (None, None)
    return Features(kernel, bias, d, exponent, origin, factor, kept, made.turn), made


def _from_kernel(X: Any, kernel: Kernel, bias: float, origin: Ints) -> tuple[Features, Rows]:
    """The same for a kernel that is not linear; X is its matrix if that is precomputed."""
    given = kernel.name == "precomputed"
    kept = None if given else X[origin]
    made = None if given else _from_monomials(kept, kernel, bias)
    if made is not None:
        return Features(kernel, bias, X.shape[1], made[0], origin, made[1].rows, kept), made[1]
    gram = X[np.ix_(origin, origin)] if given else check_gram(kernel(kept, kept))
    mean = float(np.mean(np.diag(gram))) + bias**2 if origin.size else 0.0
    exponent = -round(np.log2(mean) / 2) if mean > 0 else 0
    rows = _factor_kernel(np.ldexp(gram, 2 * exponent), float(np.ldexp(bias, exponent)))
    return Features(kernel, bias, X.shape[1], exponent, origin, rows, kept), Rows(rows, rows.shape[1], _condition(rows))


def _from_monomials(X: Any, kernel: Kernel, bias: float) -> tuple[int, Rows] | None:
    """Rows for a polynomial kernel of few columns, and the power of two that they are scaled by.

    A kernel matrix of more rows than monomials is singular: its factor would say by rounding errors which points depend on
    others. None if there are too many monomials, or if these differ too much in scale.
    """
    own = kernel.monomials(X)
    with np.errstate(over="ignore"):
        constant = float(np.hypot(np.float64(max(0.0, kernel.coef0)) ** (kernel.degree / 2), bias))
    if own is None or own.shape[1] >= max(len(own), FEW_COLUMNS) or np.isinf(constant):
        return None
    exponent = _exponent(own, constant, len(own))
    rows = np.ldexp(_augment(own, constant), exponent)
    filled = np.asarray((X != 0).sum(axis=1)).ravel() > 0
    if constant == 0.0 and np.any(filled & ~rows.any(axis=1)):  # products that are too small for doubles
        return None
    try:
        _check_sizes("rows", np.abs(rows).max(axis=1, initial=0.0))
        return exponent, _full_rank(rows, 0)
    except ValueError:
        return None


def _condition(rows: Floats) -> float:
    """The condition of rows that have a kernel as inner products; an error if it is out of range, or no number at all."""
    if not rows.size:
        return 1.0
    sizes = np.linalg.svd(rows, compute_uv=False)
    if not sizes[0] <= WILD * sizes[-1]:
        length = np.linalg.norm(rows, axis=1)
        factor = length.max() / max(length.min(), length.max() * np.finfo(float).tiny)  # it is a double
        raise ValueError(
            f"rows by the kernel differ in scale by a factor of {factor:.0e}, and its matrix is singular beside that: "
            "standardise the features, or leave out tiny rows"
        )
    return float(sizes[0] / sizes[-1])


def _factor_kernel(gram: Floats, bias: float) -> Floats:
    """Rows whose inner products are a kernel matrix and the square of the bias constant.

    If that adds to the rank it is best added as a column: where all rows of a class are on the margin by the bias alone, they
    then are so exactly.
    """
    rows = factor_gram(gram + bias**2)
    if bias > 0 and rows.shape[1] < rows.shape[0]:
        plain = factor_gram(gram)
        if plain.shape[1] + 1 == rows.shape[1]:
            return _augment(plain, bias)
    return rows


def _augment(X: Floats, bias: float) -> Floats:
    return np.column_stack([X, np.full(X.shape[0], bias)]) if bias else X


def _exponent(entries: Floats, bias: float, n_rows: int) -> int:
    """The power of two that brings the mean square length of the rows near 1."""
    top = max(float(np.abs(entries).max(initial=0.0)), bias)
    if top == 0.0:
        return 0
    first = -int(np.frexp(top)[1])
    scaled = np.ldexp(entries, first).ravel()
    mean = float(scaled @ scaled) / n_rows + float(np.ldexp(bias, first)) ** 2
    return first - int(np.rint(np.log2(mean) / 2))


def _triangle(X: Any, bias: float, exponent: int) -> Floats:
    """The transposed triangular factor of the scaled and augmented rows, by QR of one block of columns after the other."""
    m = X.shape[0]
    upper: Any = np.full((1 if bias else 0, m), np.ldexp(bias, exponent))
    with limit_blas() if 64 <= m < BLOCK else nullcontext():  # threads only slow down a small QR
        for block in _blocks(X, max(BLOCK, 4 * m)):
            upper = np.linalg.qr(np.vstack([upper, np.ldexp(block, exponent)]), mode="r")
    return np.ascontiguousarray(upper.T)


def _blocks(X: Any, size: int) -> Iterator[Floats]:
    """Columns of X as dense rows, some at a time; of a sparse X those that are not empty."""
    if issparse(X):
        X = _some_columns(X, np.unique(X.indices)).tocsc()
    for first in range(0, X.shape[1], size):
        block = X[:, first : first + size]
        yield block.toarray().T if issparse(block) else block.T


def _some_columns(X: Any, which: Ints) -> Any:
    """Some columns of sparse rows, in ascending order: nothing of the size of a row is made."""
    held = np.isin(X.indices, which)
    place = np.where(held, np.searchsorted(which, X.indices), 0)
    return csr_array((X.data * held, place, X.indptr), shape=(X.shape[0], max(which.size, 1)))


def _full_rank(rows: Floats, wide: int) -> Rows:
    """Rows with the same inner products, their rank and condition; ``wide``: columns that they had before they were factored.

    They are the rows themselves if their rank is what it seems: columns that are dependent up to rounding only would be
    independent to exact arithmetic.
    """
    n, d = rows.shape
    new, turn = rows, None
    sizes = np.linalg.svd(rows, compute_uv=False)
    rank, least = min(n, d), RANK_TOLERANCE * max(n, d, wide)
    if n == 0 or d == 0 or not sizes[-1] > least * sizes[0]:
        length = np.linalg.norm(rows, axis=1)
        length[length == 0.0] = 1.0
        _, relative, directions = np.linalg.svd(rows / length[:, None], full_matrices=False) if n else (0, sizes, rows)
        rank = int(np.sum(relative > least * relative[:1]))
        if not wide:
            _check_scales(rows, rank)
        if rank < d and (wide or rank_of(rows) != rank):
            turn = None if wide else _complement(_vanishing(rows, d - rank))
            new = np.ascontiguousarray(rows @ (directions[:rank].T if turn is None else turn))
            sizes = np.linalg.svd(new, compute_uv=False)
    kappa = float(sizes[0] / max(sizes[rank - 1], np.finfo(float).tiny)) if rank else 1.0
    if kappa > WILD:
        raise ValueError(f"rows of X and the bias differ in scale by a factor of {kappa:.0e}: standardise the features")
    return Rows(new, rank, kappa, turn)


def _vanishing(rows: Floats, count: int) -> Floats:
    """The directions (d, count) in which all rows are zero up to rounding, each of the columns that it is made of alone.

    They are found from columns of length 1. A column that has a part in them of the size of rounding has none.
    """
    length = np.linalg.norm(rows, axis=0)
    length[length == 0.0] = 1.0
    _, _, directions = np.linalg.svd(rows / length, full_matrices=True)
    last = directions[-count:]
    last = np.where(np.abs(last) <= NO_PART, 0.0, last) / length
    return np.ascontiguousarray(last.T)


def _complement(directions: Floats) -> Floats:
    """Orthonormal columns (d, d - k) that are orthogonal to given ones (d, k).

    A column in which all of these are zero is left as it is. A rotation of all columns would put rounding errors of the large
    ones into the small ones: where scales differ by 10^7, that leaves models with a gap of 1e-2.
    """
    d, k = directions.shape
    order = np.argsort(-np.abs(directions).max(axis=1), kind="stable")
    q, _ = np.linalg.qr(directions[order], mode="complete")
    turned = np.empty((d, d - k))
    turned[order] = q[:, k:]
    return turned


def _check_entries(rows: Floats) -> None:
    """The same for columns, and for entries beside the largest one of their column."""
    sizes = np.abs(rows)
    largest = sizes.max(axis=0, initial=0.0)
    _check_sizes("columns", largest)
    tiny = (sizes > 0) & (sizes < largest / WILD)
    if np.any(tiny):
        k = int(np.argmax(tiny.any(axis=0)))
        raise ValueError(
            f"entries of column {k} of X differ in scale by more than a factor of {WILD:.0e}: "
            "standardise the features, or set tiny entries to zero"
        )


def _check_sizes(name: str, sizes: Floats) -> None:
    """Rows or columns, given by their largest entries, whose products would leave the range of doubles: an error."""
    sizes = sizes[sizes > 0]
    if sizes.size and sizes.max() > WILD * sizes.min():
        factor = np.log10(sizes.max()) - np.log10(sizes.min())
        raise ValueError(f"{name} of X and the bias differ in scale by a factor of 1e{factor:.0f}: standardise the features")


def _check_scales(rows: Floats, rank: int) -> None:
    """Columns that only their scale makes look dependent would get lost: an error."""
    length = np.linalg.norm(rows, axis=0)
    sizes = np.linalg.svd(rows[:, length > 0] / length[length > 0], compute_uv=False)
    if np.sum(sizes > RANK_TOLERANCE * max(rows.shape) * sizes[:1]) > rank:
        factor = length.max() / length[length > 0].min()
        raise ValueError(f"columns of X and the bias differ in scale by a factor of {factor:.0e}: standardise the features")
