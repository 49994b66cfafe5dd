"""Kernels by name or as callables, and rows whose inner products are a given kernel matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb, factorial, prod
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg.lapack import dpstrf
from scipy.sparse import issparse
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel

from svmatlas.support.messages import shown

Floats = npt.NDArray[np.float64]

NAMES = ("linear", "poly", "rbf", "precomputed")

PIVOT_TOLERANCE = 2.0**-50
"""Pivots of the Cholesky factor below this times the number of rows times the largest entry are rounding errors."""

SEMIDEFINITE = 2.0**-40
"""What the factor may miss of a kernel matrix, relative to its largest entry: rounding leaves some 1e-15 times the number
of rows, a matrix with a negative eigenvalue the size of that."""

MOST_SCALED = 8.0
"""Entries of rows that were brought to lengths between 1/2 and 2 are at most 4, or the matrix is not semidefinite."""

SYMMETRIC = 2.0**-40
"""Allowed difference of a kernel matrix from its transpose, relative to its largest entry."""

CLOSE = 2.0**-8
"""Square of a distance relative to the squares of two lengths below which it is not computed from these, which would take
more than eight bits off it."""

PAIRS = 2**12
"""Pairs of rows that are subtracted at once."""

MOST_MONOMIALS = 1024
"""Monomials of the columns that are made of a row at most."""


@dataclass(frozen=True)
class Kernel:
    """A kernel with all its parameters as numbers; called with two sets of rows it gives the matrix of their kernels."""

    name: str | Callable[[Any, Any], Any] = "linear"
    gamma: float = 1.0
    degree: float = 3
    coef0: float = 0.0

    def __call__(self, X: Any, Y: Any) -> Floats:
        """Kernel matrix (n, m) of rows X (n, d) and Y (m, d)."""
        if callable(self.name):
            values = np.asarray(self.name(X, Y), dtype=float)
            if values.shape != (X.shape[0], Y.shape[0]):
                raise ValueError(f"kernel returned shape {values.shape} for {X.shape[0]} and {Y.shape[0]} rows")
        elif self.name in ("rbf", "poly"):
            values = self._evaluate(X, Y)
        else:
            values = linear_kernel(X, Y, dense_output=True)
        if not np.all(np.isfinite(values)):
            raise ValueError("the kernel matrix contains NaN or infinity")
        return np.asarray(values, dtype=float)

    def _evaluate(self, X: Any, Y: Any) -> Floats:
        """Kernel matrix of "rbf" or "poly" from rows that are scaled by a power of two, which leaves gamma between 1 and 4."""
        half = int(np.frexp(self.gamma)[1] - 1) // 2 if self.gamma > 0 else 0
        gamma, X, Y = float(np.ldexp(self.gamma, -2 * half)), _scale(X, half), _scale(Y, half)
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is found by the caller
            if self.name == "rbf":
                return np.asarray(np.exp(-gamma * _square_distances(X, Y)))
            return np.asarray(polynomial_kernel(X, Y, degree=self.degree, gamma=gamma, coef0=self.coef0))

    def monomials(self, X: Any) -> Floats | None:
        """Rows (n, k) with the inner products of a polynomial kernel, but for its constant, coef0^degree.

        None if there are none, or too many columns. (gamma x.y + c)^m is a sum over monomials of at most m factors: x^a y^a
        times gamma^|a| c^(m - |a|) and a multinomial coefficient. A column of few values has monomials of few values, so that
        rows that are tied by the kernel are tied. Those that are the same up to a power of two (powers of a binary column) are
        one.
        """
        d, m = X.shape[1], int(self.degree)
        if self.name != "poly" or m != self.degree or m < 1 or self.coef0 < 0 or comb(d + m, m) > MOST_MONOMIALS:
            return None
        half = int(np.frexp(self.gamma)[1] - 1) // 2 if self.gamma > 0 else 0
        gamma, coef0 = np.ldexp(self.gamma, -2 * half), np.float64(self.coef0)
        X = _scale(X.toarray() if issparse(X) else X, half)
        shares: dict[bytes, float] = {}
        with np.errstate(over="ignore", invalid="ignore"):
            for factors in (a for k in range(1, m + 1) for a in combinations_with_replacement(range(d), k)):
                counts = np.bincount(np.array(factors, dtype=np.intp), minlength=d).tolist()
                ways = factorial(m) // prod(factorial(a) for a in [*counts, m - len(factors)])
                column = np.prod(X[:, list(factors)], axis=1) + 0.0  # -0.0 is 0.0
                half = int(np.frexp(np.abs(column).max(initial=0.0))[1])
                share = float(np.ldexp(ways * gamma ** len(factors) * coef0 ** (m - len(factors)), 2 * half))
                key = np.ldexp(column, -half).tobytes()
                shares[key] = shares.get(key, 0.0) + share
            columns = [np.sqrt(share) * np.frombuffer(column) for column, share in shares.items() if share > 0]
        rows = np.column_stack(columns) if columns else np.zeros((len(X), 0))
        return rows if np.all(np.isfinite(rows)) else None


def _square_distances(X: Any, Y: Any) -> Floats:
    """Squares (n, m) of the distances of rows X (n, d) and Y (m, d), each to some roundings.

    They do not depend on the origin. It is put among the rows, so that sums of large squares do not hide them; not so for
    sparse rows, which would be sparse no more. Rows that are close to each other by their distance from the origin are
    subtracted one by one, as they are given: beside one row that is far out the new origin takes all digits off the others.
    """
    moved, others = X, Y
    if not issparse(X) and not issparse(Y):
        center = Y.mean(axis=0)
        moved, others = X - center, Y - center
    sizes = _squares(moved)[:, None] + _squares(others)
    products = moved @ others.T
    squares: Floats = sizes - 2.0 * (products.toarray() if issparse(products) else products)
    first, second = np.nonzero(squares < CLOSE * sizes)
    for k in range(0, first.size, PAIRS):
        i, j = first[k : k + PAIRS], second[k : k + PAIRS]
        squares[i, j] = _squares(X[i] - Y[j])
    return squares


def _squares(X: Any) -> Floats:
    """Square lengths of rows."""
    squares = X.multiply(X).sum(axis=1) if issparse(X) else np.einsum("ij,ij->i", X, X)
    return np.asarray(squares, dtype=float).ravel()


def _scale(X: Any, exponent: int) -> Any:
    """Rows times a power of two."""
    if not issparse(X):
        return np.ldexp(X, exponent)
    scaled = X.copy()
    scaled.data = np.ldexp(X.data, exponent)
    return scaled


def make_kernel(kernel: Any, gamma: Any, degree: Any, coef0: Any, X: Any, weight: Floats) -> Kernel:
    """Check the parameters of a kernel; ``gamma`` may be "scale" or "auto", as in scikit-learn's SVC.

    In the variance of "scale" rows count by their weights, so that a weight of 2 is the same as a row twice.
    """
    if not callable(kernel) and kernel not in NAMES:
        raise ValueError(f"kernel must be one of {', '.join(NAMES)} or a callable, got {shown(kernel)}")
    if gamma == "scale":
        spread = _variance(X, weight) if kernel in ("poly", "rbf") else 0.0
        gamma = 1.0 / (X.shape[1] * spread) if spread > 0 else 1.0
        if not (np.isfinite(spread) and np.isfinite(gamma)):
            raise ValueError("the variance of X is out of range of doubles: standardise the features")
    elif gamma == "auto":
        gamma = 1.0 / X.shape[1]
    for name, value in (("gamma", gamma), ("degree", degree), ("coef0", coef0)):
        if isinstance(value, str) or not np.isfinite(value) or (name != "coef0" and value < 0):
            raise ValueError(f"{name} must be a finite number{'' if name == 'coef0' else ' >= 0'}, got {shown(value)}")
    return Kernel(kernel, float(gamma), degree, float(coef0))


def _variance(X: Any, weight: Floats) -> float:
    """Variance of all entries of weighted rows."""
    share = np.ldexp(weight, -int(np.frexp(weight.max())[1]))
    share = share / (share.sum() * X.shape[1])
    mean = float((share @ X).sum())
    with np.errstate(over="ignore", invalid="ignore"):
        if issparse(X):
            return float((share @ X.multiply(X)).sum()) - mean**2
        return float((share @ (X - mean) ** 2).sum())


def check_gram(gram: Floats) -> Floats:
    """A kernel matrix of the training rows, made symmetric; ValueError if it is not nearly so."""
    if gram.shape[0] != gram.shape[1]:
        raise ValueError(f"a precomputed kernel must be a square matrix, got shape {gram.shape}")
    if np.abs(gram - gram.T).max(initial=0.0) > SYMMETRIC * np.abs(gram).max(initial=0.0):
        raise ValueError("the kernel matrix is not symmetric")
    return 0.5 * (gram + gram.T)


def factor_gram(gram: Floats) -> Floats:
    """Rows (n, rank) with a given matrix of inner products; ValueError if there are none, the matrix being indefinite.

    They are made of rows of length near 1, by powers of two: what is small beside the longest row is not rounding. But where
    that is not semidefinite, small rows are what rounding has left of a matrix that was given.
    """
    if not np.any(gram):
        return np.zeros((gram.shape[0], 0))
    each = np.frexp(np.diag(gram))[1]
    rows = _factor(gram, -(each // 2))
    if rows is None:
        rows = _factor(gram, np.full(each.size, -(int(np.frexp(np.abs(gram).max())[1]) // 2)))
    if rows is None:
        least = float(np.linalg.eigvalsh(gram)[0])
        raise ValueError(f"the kernel is not positive semidefinite: its matrix has the eigenvalue {least:.3g}")
    return rows


def _factor(gram: Floats, shift: npt.NDArray[Any]) -> Floats | None:
    """The same from rows times 2^shift; None if these are not semidefinite."""
    with np.errstate(over="ignore"):  # infinite beside a zero on the diagonal: not semidefinite
        scaled = np.ldexp(np.ldexp(gram, shift[:, None]), shift)
    n, top = gram.shape[0], float(np.abs(scaled).max())
    if not top <= MOST_SCALED:
        return None
    packed, order, rank, _ = dpstrf(scaled, tol=PIVOT_TOLERANCE * n * top, lower=1)
    rows = np.empty((n, rank))
    rows[order - 1] = np.tril(packed)[:, :rank]
    fits = np.abs(scaled - rows @ rows.T).max() <= SEMIDEFINITE * n * top
    return np.ldexp(rows, -shift[:, None]) if fits else None
