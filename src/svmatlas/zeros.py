"""Which determinants of three lines of a facet are zero: the lines modulo the prime 2^61 - 1 (mersenne.py).

Three lines may meet in one point by structure, on an axis or at infinity, jitter or not. Doubles never prove that, and
integers take milliseconds. Modulo a prime all lines of a facet are a small linear system: the notation is that of facet.py,

    A = (X_M X_M')^-1 [-X_M b+, -X_M b-, t_M],    Beta = [b+, b-, 0] + X_M' A,

with the weights and targets as they are jittered, which are sums of two doubles.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.compiled import entry, owner
from svmatlas.facet import INSIDE, MARGIN, TARGET_LO, WEIGHT, WEIGHT_LO, L, P, Q
from svmatlas.mersenne import ONE, PRIME, ZERO, inverse, plus, residue, times

Words = npt.NDArray[np.uint64]


class _Lines(NamedTuple):
    """What the lines of a facet are made of, modulo the prime."""

    alpha: Words  # (N, 3), of points of M
    beta: Words  # (3, d)


@owner
def _minus(a):
    return PRIME - a if a > ZERO else a


@owner
def _weight(point, i):
    return plus(residue(point[WEIGHT, i]), residue(point[WEIGHT_LO, i]))


@owner
def _target(point, i):
    return plus(ONE, residue(point[TARGET_LO, i]))


@owner
def _dot(a, b):
    total = ZERO
    for j in range(a.size):
        total = plus(total, times(a[j], b[j]))
    return total


@owner
def _residues(row):
    out = np.empty(row.size, np.uint64)
    for j in range(row.size):
        out[j] = residue(row[j])
    return out


@owner
def _pulls(rows, point, axis, state):
    """The sums of the weighted rows inside the margin, of both classes, and zeros: (3, d)."""
    out = np.zeros((3, rows.shape[1]), np.uint64)
    for i in range(state.size):
        if state[i] == INSIDE:
            w = _weight(point, i)
            for j in range(rows.shape[1]):
                out[axis[i], j] = plus(out[axis[i], j], times(w, residue(rows[i, j])))
    return out


@owner
def _solve(a, m):
    """Bring (m, m + 3) equations to the unit matrix; False if they are singular."""
    for k in range(m):
        top = k
        while top < m and a[top, k] == ZERO:
            top += 1
        if top == m:
            return False
        for j in range(a.shape[1]):
            a[k, j], a[top, j] = a[top, j], a[k, j]
        factor = inverse(a[k, k])
        for j in range(a.shape[1]):
            a[k, j] = times(factor, a[k, j])
        for i in range(m):
            if i != k and a[i, k] != ZERO:
                factor = _minus(a[i, k])
                for j in range(k, a.shape[1]):
                    a[i, j] = plus(a[i, j], times(factor, a[k, j]))
    return True


@owner
def _lines(rows, point, axis, state):
    """What the lines of a facet are made of, and whether it is known."""
    pull, members = _pulls(rows, point, axis, state), np.flatnonzero(state == MARGIN)
    m, d = members.size, rows.shape[1]
    margin = np.empty((m, d), np.uint64)
    for k in range(m):
        margin[k] = _residues(rows[members[k]])
    system = np.empty((m, m + 3), np.uint64)
    for k in range(m):
        for j in range(m):
            system[k, j] = _dot(margin[k], margin[j])
        system[k, m + P], system[k, m + Q] = _minus(_dot(margin[k], pull[P])), _minus(_dot(margin[k], pull[Q]))
        system[k, m + L] = _target(point, members[k])
    known = _solve(system, m)
    alpha, beta = np.zeros((state.size, 3), np.uint64), pull.copy()
    for k in range(m):
        for c in range(3):
            alpha[members[k], c] = system[k, m + c]
            for j in range(d):
                beta[c, j] = plus(beta[c, j], times(system[k, m + c], margin[k, j]))
    return _Lines(alpha, beta), known


@owner
def _line(lines, rows, point, axis, state, sides, code):
    """The line of a code, up to its sign."""
    if code < 0:
        return _residues(sides[-1 - code])
    i = code >> 1
    if state[i] == MARGIN:
        out = lines.alpha[i].copy()
        if code & 1:
            out[axis[i]] = plus(out[axis[i]], _minus(_weight(point, i)))
        return out
    x, out = _residues(rows[i]), np.empty(3, np.uint64)
    for c in range(3):
        out[c] = _dot(x, lines.beta[c])
    out[L] = plus(out[L], _minus(_target(point, i)))
    return out


@owner
def _minor(a, b, i, j):
    return plus(times(a[i], b[j]), _minus(times(a[j], b[i])))


@entry
def are_zero(rows, point, axis, state, sides, codes):
    """Which determinants of the lines with codes (n, 3) of a facet are zero; none if that is not known."""
    out = np.zeros(codes.shape[0], np.bool_)
    lines, known = _lines(rows, point, axis, state)
    for n in range(codes.shape[0] if known else 0):
        a = _line(lines, rows, point, axis, state, sides, codes[n, 0])
        b = _line(lines, rows, point, axis, state, sides, codes[n, 1])
        c = _line(lines, rows, point, axis, state, sides, codes[n, 2])
        total = times(a[0], _minor(b, c, 1, 2))
        total = plus(total, times(a[1], _minor(b, c, 2, 0)))
        out[n] = plus(total, times(a[2], _minor(b, c, 0, 1))) == ZERO
    return out
