"""A zero test for sums of products of doubles: arithmetic modulo the prime p = 2^61 - 1.

Doubles, however many digits are added, can tell that a number is not zero, but never that it is. Where data are tied, exact
zeros are common: a row that lies in the span of the rows on the margin has a score that does not depend on the costs.

A double is m 2^e with integers m and e, so it has a residue modulo p; as 2^61 = 1, a power of two only turns the bits of m
around. What is not zero modulo p is not zero. What is zero modulo p is zero but for a chance of about 2^-61.
"""

from __future__ import annotations

import math

import numpy as np

from svmatlas.compiled import entry, kernel

PRIME = np.uint64(2**61 - 1)
LOW_31, LOW_30 = np.uint64(2**31 - 1), np.uint64(2**30 - 1)
ZERO, ONE = np.uint64(0), np.uint64(1)


@kernel
def residue(x):
    """A double modulo p."""
    mantissa, exponent = math.frexp(abs(x))
    bits = np.uint64(mantissa * 2.0**53)
    turn = np.uint64((exponent - 53) % 61)
    value = ((bits << turn) & PRIME) | (bits >> (np.uint64(61) - turn))
    return PRIME - value if x < 0.0 else value


@kernel
def times(a, b):
    """The product of two residues, from products of their halves."""
    a1, a0, b1, b0 = a >> np.uint64(31), a & LOW_31, b >> np.uint64(31), b & LOW_31
    middle = a1 * b0 + a0 * b1
    total = np.uint64(2) * a1 * b1 + (middle >> np.uint64(30)) + ((middle & LOW_30) << np.uint64(31)) + a0 * b0
    total = (total & PRIME) + (total >> np.uint64(61))
    return total - PRIME if total >= PRIME else total


@kernel
def plus(a, b):
    """The sum of two residues."""
    total = a + b
    return total - PRIME if total >= PRIME else total


@kernel
def inverse(a):
    """The inverse of a residue, a^(p - 2)."""
    out, power, rest = ONE, a, PRIME - np.uint64(2)
    while rest > ZERO:
        if rest & ONE:
            out = times(out, power)
        power = times(power, power)
        rest >>= ONE
    return out


@kernel
def _subtract(a, factor, b):
    """Subtract a multiple of a row of residues from another."""
    for j in range(a.size):
        a[j] = plus(a[j], PRIME - times(factor, b[j]))


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
        total = ZERO
        for j in range(out.size):
            total = plus(total, times(work[k, j], out[j]))
        out[pivots[k]] = PRIME - total if total > ZERO else ZERO
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
