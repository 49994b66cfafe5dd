"""A zero test for sums of products of doubles: arithmetic modulo the prime p = 2^61 - 1.

Doubles, however many digits are added, can tell that a number is not zero, but never that it is. Where data are tied, exact
zeros are common: a row that lies in the span of the rows on the margin has a score that does not depend on the costs.

A double is m 2^e with integers m and e, so it has a residue modulo p; as 2^61 = 1, a power of two only turns the bits of m
around. What is not zero modulo p is not zero. What is zero modulo p is zero but for a chance of about 2^-61.
"""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba import types

from svmatlas.engine.compiled import entry, instruction, kernel

PRIME = np.uint64(2**61 - 1)
BITS = np.uint64(61)
ZERO, ONE = np.uint64(0), np.uint64(1)


@kernel
def residue(x):
    """A double modulo p."""
    mantissa, exponent = math.frexp(abs(x))
    bits = np.uint64(mantissa * 2.0**53)
    turn = np.uint64((exponent - 53) % 61)
    value = ((bits << turn) & PRIME) | (bits >> (BITS - turn))
    return PRIME - value if x < 0.0 else value


def _product_in_python(a: np.uint64, b: np.uint64) -> np.uint64:
    high, low = divmod(int(a) * int(b), 2**61)
    return np.uint64(high + low)


@instruction(_product_in_python)
def _product(typingctx, a, b):
    """Of two residues a number below 2^62 that is the product modulo p: its high and low 61 bits, added."""

    def codegen(context, builder, signature, args):
        word, wide = ir.IntType(64), ir.IntType(128)
        product = builder.mul(*(builder.zext(value, wide) for value in args))
        high = builder.trunc(builder.lshr(product, wide(61)), word)
        low = builder.and_(builder.trunc(product, word), word(2**61 - 1))
        return builder.add(high, low)

    return types.uint64(types.uint64, types.uint64), codegen


@kernel
def _reduce(a):
    """The residue of a number below 2^63."""
    total = (a & PRIME) + (a >> BITS)
    return total - PRIME if total >= PRIME else total


@kernel
def times(a, b):
    """The product of two residues."""
    total = _product(a, b)
    return total - PRIME if total >= PRIME else total


@kernel
def plus(a, b):
    """The sum of two residues."""
    total = a + b
    return total - PRIME if total >= PRIME else total


@kernel
def minus(a):
    """The negative of a residue."""
    return PRIME - a if a > ZERO else a


@kernel
def plus_times(s, a, b):
    """The residue of s + a b."""
    return _reduce(s + _product(a, b))


@kernel
def sum_of_two(a, b, c, d):
    """The residue of a b + c d."""
    return _reduce(_product(a, b) + _product(c, d))


@kernel
def dot(a, b):
    """The product of two vectors of residues."""
    total, even = ZERO, a.size - a.size % 2
    for j in range(0, even, 2):  # three numbers below 2^62 are reduced at once
        total += _product(a[j], b[j]) + _product(a[j + 1], b[j + 1])
        total = (total & PRIME) + (total >> BITS)
    if even < a.size:
        total += _product(a[even], b[even])
    return _reduce(total)


@kernel
def _power(a, b, squarings):
    """The product of b and a, squared so many times."""
    for _ in range(squarings):
        a = times(a, a)
    return times(a, b)


@kernel
def inverse(a):
    """The inverse of a residue, a^(p - 2); in binary p - 2 is 59 ones and 01."""
    two = _power(a, a, 1)
    three = _power(two, a, 1)
    six = _power(three, three, 3)
    seven = _power(six, a, 1)
    fourteen = _power(seven, seven, 7)
    half = _power(_power(fourteen, fourteen, 14), a, 1)
    return _power(_power(_power(half, half, 29), a, 1), a, 2)


@kernel
def _subtract(a, factor, b):
    """Subtract a multiple of a row of residues from another."""
    if factor == ZERO:
        return
    opposite = minus(factor)
    for j in range(a.size):
        a[j] = plus_times(a[j], opposite, b[j])


@kernel
def _add_to_echelon(row, work, pivots, k):
    """Bring row k of ``work`` into reduced echelon form with those before it; False if it lies in their span."""
    new = work[k]
    for j in range(new.size):
        new[j] = residue(row[j])
    for i in range(k):
        _subtract(new, new[pivots[i]], work[i])
    column = 0
    while column < new.size and new[column] == ZERO:
        column += 1
    if column == new.size:
        return False
    factor = inverse(new[column])
    for j in range(new.size):
        new[j] = times(factor, new[j])
    for i in range(k):
        _subtract(work[i], work[i, column], new)
    pivots[k] = column
    return True


@kernel
def normal_to(rows, members, work, pivots, out):
    """A vector modulo p that is orthogonal to some rows, and to another row only if it lies in their span.

    False if the rows are dependent. Entries at columns without a pivot are fixed words that look random. ``work`` and
    ``pivots`` are room.
    """
    for k in range(members.size):
        if not _add_to_echelon(rows[members[k]], work, pivots, k):
            return False
    word = np.uint64(0x1234567)
    for j in range(out.size):
        word = plus(times(word, np.uint64(0x15BF58476D1CE4E5)), np.uint64(j + 1))
        out[j] = word
    for k in range(members.size):
        out[pivots[k]] = ZERO
    for k in range(members.size):
        out[pivots[k]] = minus(dot(work[k], out))
    return True


@kernel
def is_orthogonal(row, vector):
    """Whether the product of a row of doubles and a vector of residues is zero modulo p."""
    total = ZERO
    for j in range(row.size):
        if row[j] != 0.0:
            total = plus(total, times(residue(row[j]), vector[j]))
    return total == ZERO


@entry
def rank_of(rows):
    """Rank of a matrix of doubles as what they are, rational numbers, but for a chance of about 2^-61."""
    n, d = rows.shape
    work, pivots = np.zeros((d + 1, d), np.uint64), np.zeros(d + 1, np.int64)
    rank = 0
    for i in range(n):
        if rank < d and _add_to_echelon(rows[i], work, pivots, rank):
            rank += 1
    return rank
