"""Arithmetic modulo 2^61 - 1 against Python's integers, and the zero tests made of it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import svmatlas
from svmatlas.engine import mersenne
from svmatlas.engine.compiled import entry

P = 2**61 - 1
residues = st.integers(0, P - 1)


@entry
def operations(a, b):
    """Product, sum and inverse."""
    return mersenne.times(a, b), mersenne.plus(a, b), mersenne.inverse(a)


@entry
def dot(a, b):
    return mersenne.dot(a, b)


@entry
def residue(x):
    return mersenne.residue(x)


@entry
def spanned(rows, members, row):
    """1 if a row lies in the span of others, 0 if not, -1 if these are dependent."""
    d = rows.shape[1]
    work, pivots, vector = np.zeros((d, d), np.uint64), np.zeros(d, np.int64), np.zeros(d, np.uint64)
    if not mersenne.normal_to(rows, members, work, pivots, vector):
        return -1
    return 1 if mersenne.is_orthogonal(row, vector) else 0


def modulo(x):
    value = Fraction(x)
    return value.numerator * pow(value.denominator, -1, P) % P


@given(residues, residues)
def test_operations(a, b):
    product, total, inverse = operations(np.uint64(a), np.uint64(b))
    assert (int(product), int(total)) == (a * b % P, (a + b) % P)
    assert a == 0 or int(inverse) * a % P == 1


@given(st.lists(st.tuples(residues, residues), max_size=9))
def test_products_of_vectors(pairs):
    a, b = (np.array([pair[k] for pair in pairs], dtype=np.uint64) for k in range(2))
    assert int(dot(a, b)) == sum(x * y for x, y in pairs) % P


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_residues_of_doubles(x):
    assert int(residue(x)) % P == modulo(x)


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(0, 2))
def test_rows_in_the_span_of_others(seed, n, spare):
    """Integer combinations of rows are in their span; a row with an entry of its own is not."""
    rng = np.random.default_rng(seed)
    d = n + 1 + spare
    rows = np.ldexp(rng.integers(-3, 4, (n, d)).astype(float), rng.integers(-12, 12, d))
    rows[:, :n] += np.eye(n) * 2.0**20
    rows[:, -1] = 0.0
    members = np.arange(n)
    inside = rng.integers(-3, 4, n).astype(float) @ rows
    outside = inside + np.eye(d)[-1] * 2.0**-60
    assert (spanned(rows, members, inside), spanned(rows, members, outside)) == (1, 0)


def test_dependent_rows_are_told():
    rows = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]])
    assert spanned(rows, np.arange(2), rows[0]) == -1


@pytest.mark.parametrize("rank", [0, 1, 3, 5])
def test_ranks(rank):
    rng = np.random.default_rng(rank)
    rows = rng.integers(-3, 4, (9, rank)).astype(float) @ np.hstack([np.eye(rank), rng.integers(-3, 4, (rank, 6 - rank))])
    rows[:rank] += np.hstack([np.eye(rank) * 64, np.zeros((rank, 6 - rank))]) @ np.vstack([rows[:0], np.eye(6)])
    assert mersenne.rank_of(rows) == np.linalg.matrix_rank(rows)
    assert mersenne.rank_of(rows[:, ::-1] * 2.0**-500) == np.linalg.matrix_rank(rows)


def test_an_odd_row_takes_no_integers():
    """All rows but one lie in the span of the rows on the margin, again and again: zeros are proven modulo a prime."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(60, 3)), rng.integers(0, 2, 60), np.arange(60) == 7])
    atlas = svmatlas.explore(X, rng.integers(0, 2, 60))
    assert atlas.n_zero > 1000
    assert atlas.n_exact == 0
    assert atlas.validate().ok
