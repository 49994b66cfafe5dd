"""Linear equations in integers, exactly, by residues modulo many primes.

Fraction-free elimination divides integers of thousands of bits at each of its m^3 steps. Here each prime below 2^31 takes m^3
steps in machine words, and as many primes are taken as make Hadamard's bound of all minors of the equations: the integers that
have these residues are then the only ones in question (Chinese remainder theorem). Nothing is left to chance: a prime that
divides the determinant is seen and left out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import isqrt, prod
from operator import mul

import numpy as np
import numpy.typing as npt

from svmatlas.engine.compiled import entry_noalloc, kernel

Ints = npt.NDArray[np.int64]

TOP = 2**31
"""Primes lie below this, so that products of residues fit into 64 bits."""

BITS = 30
"""Each prime is larger than 2 to this power."""

DIGIT = 16
"""Bits of a digit of an integer: the products of 65,536 digits and residues add up in 64 bits."""

SPARE = 4
"""So many primes more than needed: as many may divide the determinant, each does with a probability near 2^-31."""


CHUNK = 16
"""Primes between two looks at the clock: some 0.1 s for 100 equations."""

DEPENDENT = "the rows on the margin are linearly dependent: no facet has this partition"


def _nothing() -> None:
    """No clock to look at."""


def solve_integer(
    matrix: list[list[int]], right: list[list[int]], check: Callable[[], None] = _nothing
) -> tuple[list[list[int]], int]:
    """Integers N and D with matrix N = D right; ArithmeticError if the determinant D is not positive.

    ``check`` is called again and again, and may raise to end it all.
    """
    rows = [[*a, *b] for a, b in zip(matrix, right, strict=True)]
    primes, weights, product = _basis(-(-_bits(rows) // BITS) + SPARE)
    residues = _eliminate(rows, primes, check)
    good = residues[:, 0] != 0
    if np.count_nonzero(~good) > SPARE:
        raise ArithmeticError(DEPENDENT)
    if not good.all():
        weights, product = _weights(primes[good].tolist())
    values = []
    for column in residues[good].T.tolist():
        check()
        values.append(_lift(column, weights, product))
    if values[0] <= 0:
        raise ArithmeticError(DEPENDENT)
    n = (len(values) - 1) // len(rows) if rows else 0
    return [values[k : k + n] for k in range(1, len(values), n or 1)], values[0]


def _bits(rows: list[list[int]]) -> int:
    """Bits of all minors of the equations, by Hadamard's bound, and one for their sign."""
    squares: list[int] = [sum(map(mul, row, row)) for row in rows]
    return 1 + sum((square.bit_length() + 1) // 2 for square in squares)


def _lift(residues: list[int], weights: list[int], product: int) -> int:
    """The integer of least size with these residues."""
    value: int = sum(map(mul, residues, weights)) % product
    return value if 2 * value < product else value - product


@cache
def _basis(count: int) -> tuple[Ints, list[int], int]:
    """The largest primes below TOP, and what makes an integer of residues."""
    primes = _primes(count)
    return primes, *_weights(primes.tolist())


def _weights(primes: list[int]) -> tuple[list[int], int]:
    """Integers that are 1 modulo one prime and 0 modulo the others, and the product of all."""
    product = prod(primes)
    others = [product // p for p in primes]
    return [other * pow(other, -1, p) for other, p in zip(others, primes, strict=True)], product


def _primes(count: int) -> Ints:
    """The largest primes below TOP, in falling order, by a sieve."""
    width = 32 * count + 1000  # a number near TOP is prime with a probability of 1 / 21.5
    small = np.arange(isqrt(TOP) + 1)
    for p in range(2, isqrt(isqrt(TOP)) + 1):
        if small[p]:
            small[p * p :: p] = 0
    isprime = np.ones(width, dtype=bool)
    for p in small[2:][small[2:] > 0].tolist():
        isprime[(-(TOP - width)) % p :: p] = False
    return np.ascontiguousarray((TOP - width + np.flatnonzero(isprime))[::-1][:count], dtype=np.int64)


def _eliminate(rows: list[list[int]], primes: Ints, check: Callable[[], None]) -> Ints:
    """For each prime the determinant D, and N row by row."""
    limbs = _limbs(rows)
    m, n, _ = limbs.shape
    out, room = np.empty((primes.size, 1 + m * (n - m)), dtype=np.int64), np.empty((m, n), dtype=np.int64)
    powers = np.empty(limbs.shape[2] + 1, dtype=np.int64)
    for first in range(0, primes.size, CHUNK):
        check()
        _solve(limbs, primes[first : first + CHUNK], room, powers, out[first : first + CHUNK])
    return out


def _limbs(rows: list[list[int]]) -> npt.NDArray[np.uint16]:
    """The entries (m, n, L) in digits, the lowest first, as two's complement."""
    size = max((v.bit_length() for row in rows for v in row), default=0) // DIGIT + 1
    data = b"".join(v.to_bytes(size * DIGIT // 8, "little", signed=True) for row in rows for v in row)
    return np.frombuffer(data, dtype="<u2").astype(np.uint16).reshape(len(rows), len(rows[0]) if rows else 0, size)


@kernel
def _residue(digits, powers, p):
    """An integer modulo a prime, given the powers of the base."""
    n = digits.size
    value = np.int64(0)
    for k in range(n):
        value += np.int64(digits[k]) * powers[k]
    return (value - (np.int64(digits[n - 1]) >> (DIGIT - 1)) * powers[n]) % p  # two's complement


@kernel
def _inverse(a, p):
    """The inverse modulo a prime."""
    old, new, u, v = p, a, np.int64(0), np.int64(1)
    while new > 1:
        q = old // new
        old, new = new, old - q * new
        u, v = v, u - q * v
    return v % p


@kernel
def _add(a, b, factor, square):
    """Add a multiple of a row to another, modulo the square of a prime; the factor and ``b`` are residues modulo the prime."""
    for j in range(a.size):
        value = a[j] + factor * b[j]
        a[j] = value - square if value >= square else value


@kernel
def _reduce(a, p):
    """Equations modulo a prime become triangular, with ones on the diagonal; the determinant, 0 if they cannot."""
    m, n = a.shape
    det = np.int64(1)
    for k in range(m):
        top = k
        while top < m and a[top, k] % p == 0:
            top += 1
        if top == m:
            return np.int64(0)
        if top > k:
            det = p - det
            for j in range(k, n):
                a[k, j], a[top, j] = a[top, j], a[k, j]
        det = det * (a[k, k] % p) % p
        inverse = _inverse(a[k, k] % p, p)
        for j in range(k, n):
            a[k, j] = a[k, j] % p * inverse % p
        for i in range(k + 1, m):
            _add(a[i, k + 1 :], a[k, k + 1 :], p - a[i, k] % p, p * p)
    return det


@entry_noalloc
def _solve(limbs, primes, a, powers, out):
    """For each prime the determinant D, and N row by row, into ``out``; ``a`` and ``powers`` are room."""
    m, n = a.shape
    for at in range(primes.size):
        p = primes[at]
        powers[0] = 1
        for k in range(1, powers.size):
            powers[k] = (powers[k - 1] << DIGIT) % p
        for i in range(m):
            for j in range(n):
                a[i, j] = _residue(limbs[i, j], powers, p)
        det = _reduce(a, p)
        out[at, 0] = det
        for i in range(m - 1, -1, -1):
            for j in range(i + 1, m):
                _add(a[i, m:], a[j, m:], p - a[i, j], p * p)
            for c in range(m, n):
                a[i, c] %= p
                out[at, 1 + i * (n - m) + c - m] = a[i, c] * det % p
