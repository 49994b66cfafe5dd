"""The lines of a facet as polynomials in the jitter: which coefficients are zero, and the sign of what is left.

Targets t_i + e r_i and weights w_i + e s_i, with e = 1 the jitter, enter the maps of a facet linearly. So each line is
h + e k exactly, a corner is u + e v + e^2 w, and a determinant of three lines is D_0 + e D_1 + e^2 D_2 + e^3 D_3. Where data
are tied, D_0 is zero, and the jitter decides. Doubles never prove that, and integers take milliseconds. Modulo the prime
2^61 - 1 (mersenne.py) the maps are a small linear system, with two right sides for the two powers of e:

    A = (X_M X_M')^-1 [-X_M b+, -X_M b-, t_M],    Beta = [b+, b-, 0] + X_M' A.

What is left without the coefficients that are zero takes no more than doubles: the jitter is not mixed with the data.
Lines are (2, 3), by powers of the jitter and columns: the line without jitter, then its derivative. Corners are (3, 3).
"""

from __future__ import annotations

import numpy as np

from svmatlas.engine.compiled import entry, kernel, kernel_shared
from svmatlas.engine.doubledouble import UNIT
from svmatlas.engine.facet import length_of
from svmatlas.engine.lines import line_powers
from svmatlas.engine.mersenne import (
    ONE,
    ZERO,
    dot,
    inverse,
    is_orthogonal,
    minus,
    plus,
    plus_times,
    residue,
    sum_of_two,
    times,
)
from svmatlas.engine.scores import score_one
from svmatlas.engine.workspace import INSIDE, OUTSIDE, L, P, Q

UNKNOWN = 2
"""Beside the signs -1, 0 and 1: not decided."""

NO_POWER = 4
"""In place of the first power of the jitter with a coefficient that is not zero: all are."""


# ----------------------------------------------------------------------------------------------------------------------
# The maps modulo the prime


@entry
def sum_words(data, state, out):
    """The pulls of a partition, added to (2, 2, d)."""
    for i in range(state.size):
        if state[i] == INSIDE:
            weight, jitter, c = residue(data.weight[i]), residue(data.weight_jitter[i]), data.axis[i]
            for j in range(out.shape[2]):
                x = residue(data.rows[i, j])
                out[0, c, j], out[1, c, j] = plus_times(out[0, c, j], weight, x), plus_times(out[1, c, j], jitter, x)


@kernel
def _make_row(t, i):
    """Row of a point, once."""
    row, d = t.modular.rows[i], t.data.rows.shape[1]
    if row[d] == ZERO:
        for j in range(d):
            row[j] = residue(t.data.rows[i, j])
        row[d] = ONE


@kernel
def _move_sums(t, i, sign):
    """Add a point to the pulls modulo the prime, or subtract it."""
    _make_row(t, i)
    x = t.modular.rows[i]
    for e in range(2):
        w, out = residue(sign * (t.data.weight_jitter[i] if e else t.data.weight[i])), t.modular.sums[e, t.data.axis[i]]
        for j in range(out.size):
            out[j] = plus_times(out[j], w, x[j])


@kernel
def _follow_sums(t):
    """The pulls of the facet in hand from those of the facet before."""
    state, summed = t.state, t.modular.summed
    whole = state.size >> 3
    new, old = state[: 8 * whole].view(np.uint64), summed[: 8 * whole].view(np.uint64)
    for word in range(whole + 1):  # eight at once, and the rest
        for i in range(8 * word, 8 * word if word < whole and new[word] == old[word] else min(8 * word + 8, state.size)):
            if state[i] == INSIDE and summed[i] != INSIDE:
                _move_sums(t, i, 1.0)
            elif state[i] != INSIDE and summed[i] == INSIDE:
                _move_sums(t, i, -1.0)
            summed[i] = state[i]


@kernel
def _fill_system(t, m):
    """The equations: the upper half of X_M X_M', and six right sides."""
    d = t.data.rows.shape[1]
    for k in range(m):
        i = t.factor.member[k]
        _make_row(t, i)
        x, row = t.modular.rows[i, :d], t.modular.system[:, k]
        for j in range(k + 1):
            row[j] = dot(x, t.modular.rows[t.factor.member[j]])
        right = t.modular.right[k]
        for e in range(2):
            for c in range(2):
                right[e, c] = minus(dot(x, t.modular.sums[e, c]))
        right[0, L], right[1, L] = ONE, residue(t.data.target_jitter[i])


@kernel
def _eliminate(a, right, m):
    """Bring m symmetric equations to triangular form, without division; False if they are singular."""
    for k in range(m):
        pivot = a[k, k]
        if pivot == ZERO:
            return False
        for i in range(k + 1, m):
            factor = minus(a[k, i])
            for j in range(i, m):
                a[i, j] = sum_of_two(pivot, a[i, j], factor, a[k, j])
            for e in range(2):
                for c in range(3):
                    right[i, e, c] = sum_of_two(pivot, right[i, e, c], factor, right[k, e, c])
    return True


@kernel
def _substitute(a, right, m, alpha):
    """Solve the triangular equations; the inverses of all pivots are made of one."""
    product = ONE
    for k in range(m):  # below the diagonal: the products of pivots
        product = times(product, a[k, k])
        a[m - 1, k] = product if k < m - 1 else a[m - 1, k]
    rest = inverse(product)
    for k in range(m - 1, -1, -1):
        factor = times(rest, a[m - 1, k - 1]) if k > 0 else rest
        rest = times(rest, a[k, k])
        for e in range(2):
            for c in range(3):
                total = right[k, e, c]
                for j in range(k + 1, m):
                    total = plus_times(total, minus(a[k, j]), alpha[e, c, j])
                alpha[e, c, k] = times(factor, total)


@kernel
def _add_margin(t, m):
    """Beta of the pulls and A. It is zero where M spans all rows, but for column l."""
    alpha, beta = t.modular.alpha, t.modular.beta
    for e in range(2):
        for c in range(3):
            out = beta[e, c]
            for j in range(out.size):
                out[j] = ZERO if c == L or m == t.data.rank else t.modular.sums[e, c, j]
            for k in range(m if c == L or m < t.data.rank else 0):
                x, a = t.modular.rows[t.factor.member[k]], alpha[e, c, k]
                for j in range(out.size):
                    out[j] = plus_times(out[j], a, x[j])


@kernel
def _solve(t):
    m = t.facet.n_margin
    if t.modular.rows.shape[0] == 0 or m > t.data.rank:
        return False
    _follow_sums(t)
    _fill_system(t, m)
    if not _eliminate(t.modular.system, t.modular.right, m):
        return False
    _substitute(t.modular.system, t.modular.right, m, t.modular.alpha)
    _add_margin(t, m)
    return True


@kernel_shared
def solve_words(t):
    """The maps modulo the prime, once for a facet whose points are gathered; False if they cannot be known."""
    if abs(t.facet.solved) != t.facet.serial:
        t.facet.solved = t.facet.serial if _solve(t) else -t.facet.serial
    return t.facet.solved > 0


@kernel
def is_spanned(t, i):
    """Whether the row of a point is orthogonal to the vector ``normal``."""
    if t.modular.rows.shape[0] == 0:
        return is_orthogonal(t.data.rows[i], t.modular.normal)
    _make_row(t, i)
    return dot(t.modular.normal, t.modular.rows[i]) == ZERO


@kernel_shared
def tied_in_pencil(t, i, j):
    """Have two lines of a pencil the same bound without jitter: n_i s_j = n_j s_i (``pencil_dd``)? After ``normal_to``."""
    if not solve_words(t):
        return False
    _make_row(t, i)
    _make_row(t, j)
    x, y, beta, normal = t.modular.rows[i], t.modular.rows[j], t.modular.beta[0, L], t.modular.normal
    n, m = plus(ONE, minus(dot(beta, x))), plus(ONE, minus(dot(beta, y)))
    return times(n, dot(normal, y)) == times(m, dot(normal, x))


# ----------------------------------------------------------------------------------------------------------------------
# Lines, corners and determinants modulo the prime, all up to their sign


@kernel_shared
def line_words(t, code, out):
    """The line of a code."""
    if code < 0:
        for c in range(3):
            out[0, c], out[1, c] = residue(t.region.sides[-1 - code, c]), ZERO
        return
    i = code >> 1
    k = t.factor.slot[i]
    if k < 0:
        _make_row(t, i)
    for e in range(2):
        for c in range(3):
            out[e, c] = t.modular.alpha[e, c, k] if k >= 0 else dot(t.modular.beta[e, c], t.modular.rows[i])
    if k < 0:
        out[0, L], out[1, L] = plus(out[0, L], minus(ONE)), plus(out[1, L], residue(-t.data.target_jitter[i]))
    elif code & 1:
        c = t.data.axis[i]
        for e in range(2):
            out[e, c] = plus(out[e, c], residue(-(t.data.weight_jitter[i] if e else t.data.weight[i])))


@kernel
def _add_cross(a, b, out):
    """Add the cross product of two vectors."""
    for c in range(3):
        i, j = (c + 1) % 3, (c + 2) % 3
        out[c] = plus_times(plus_times(out[c], a[i], b[j]), minus(a[j]), b[i])


@kernel
def corner_words(a, b, out):
    """The corner of two lines."""
    out[:] = ZERO
    for e in range(2):
        for f in range(2):
            _add_cross(a[e], b[f], out[e + f])


@kernel
def power_of_entry(corner, c):
    """First power of the jitter that an entry of a corner has; NO_POWER for none."""
    for e in range(3):
        if corner[e, c] != ZERO:
            return e
    return NO_POWER


@kernel
def power_of_sign(corner, line):
    """First power of the jitter that a line has at a corner; NO_POWER for none."""
    for power in range(4):
        total = ZERO
        for e in range(2):
            if 0 <= power - e <= 2:
                for c in range(3):
                    total = plus_times(total, corner[power - e, c], line[e, c])
        if total != ZERO:
            return power
    return NO_POWER


# ----------------------------------------------------------------------------------------------------------------------
# Ties


@kernel
def _fill_ends(t, n):
    """The corners of a polygon where the jitter goes to zero: their first coefficients. False if one has none."""
    lines, corner = t.modular.lines, t.modular.end
    for j in range(n):
        line_words(t, t.edges.code[j], lines[j])
    for j in range(n):
        corner_words(lines[j], lines[j + 1 if j + 1 < n else 0], corner)
        first = min(power_of_entry(corner, P), power_of_entry(corner, Q), power_of_entry(corner, L))
        if first == NO_POWER:
            return False
        for c in range(3):
            t.modular.ends[j, c] = corner[first, c]
    return True


@kernel_shared
def vanishes(t):
    """Has the polygon in hand no area where the jitter goes to zero? Then the facet is a tie. False if that is not proven."""
    n, join = t.polygon.n_corners, t.modular.end[0]
    if not (solve_words(t) and _fill_ends(t, n)):
        return False
    join[:] = ZERO
    for j in range(1, n):
        if join[P] == ZERO and join[Q] == ZERO and join[L] == ZERO:  # all corners so far are one
            _add_cross(t.modular.ends[0], t.modular.ends[j], join)
        elif dot(join, t.modular.ends[j]) != ZERO:
            return False
    return True


# ----------------------------------------------------------------------------------------------------------------------
# Signs and corners from the coefficients that are not zero, in doubles


@kernel
def _coefficient(pair, pair_error, c, power):
    """Coefficient of a power of the jitter in an entry of the corner of a pair of lines, and its error."""
    i, j, s, error = (c + 1) % 3, (c + 2) % 3, 0.0, 0.0
    for e in range(max(0, power - 1), min(power, 1) + 1):
        a, d, b, f = pair[0, e], pair_error[0, e], pair[1, power - e], pair_error[1, power - e]
        s += a[i] * b[j] - a[j] * b[i]
        error += abs(a[i]) * f[j] + d[i] * (abs(b[j]) + f[j]) + abs(a[j]) * f[i]
        error += d[j] * (abs(b[i]) + f[i]) + ROUNDINGS * UNIT * (abs(a[i] * b[j]) + abs(a[j] * b[i]))
    return s, error


ROUNDINGS = 16.0
"""Roundings of a sum of some products, in units of its largest terms."""


@kernel_shared
def enter_corner(t, a, b):
    """The corner of two lines, once: words into ``modular.corner``, doubles into ``modular.corner_value``, with errors.

    Returns 1 or -1 if entries certainly have that sign, else 0.
    """
    entered = t.polygon.entered
    if entered[0] == a and entered[1] == b and t.polygon.entered_facet == t.facet.serial:
        return t.polygon.entered_turn
    words, pair, out, errors = t.modular.corner, t.modular.pair, t.modular.corner_value, t.modular.corner_error
    value, error = t.modular.pair_value, t.modular.pair_error
    line_words(t, a, pair[0])
    line_words(t, b, pair[1])
    corner_words(pair[0], pair[1], words)
    line_powers(t, a, value[0], error[0])
    line_powers(t, b, value[1], error[1])
    turn = 0
    for c in range(3):
        for e in range(3):
            out[e, c], errors[e, c] = _coefficient(value, error, c, e) if words[e, c] != ZERO else (0.0, 0.0)
        s, bound = entry_of_corner(t, c)
        if abs(s) > bound:
            turn = 1 if s > 0.0 else -1
    entered[0], entered[1], t.polygon.entered_facet, t.polygon.entered_turn = a, b, t.facet.serial, turn
    return turn


@kernel
def entry_of_corner(t, c):
    """An entry of the corner entered, and its error."""
    v, d = t.modular.corner_value, t.modular.corner_error
    error = d[0, c] + d[1, c] + d[2, c]
    return v[0, c] + v[1, c] + v[2, c], error + ROUNDINGS * UNIT * (abs(v[0, c]) + abs(v[1, c]))


@kernel
def sign_of_jitter(t, k, a, b):
    """Sign of line k at the corner of a and b, where it is zero without jitter; UNKNOWN if it is not, or by doubles."""
    if not solve_words(t):
        return UNKNOWN
    turn = enter_corner(t, a, b)
    words, corner, errors = t.modular.pair[0], t.modular.corner_value, t.modular.corner_error
    line, line_error = t.modular.pair_value[0], t.modular.pair_error[0]
    line_words(t, k, words)
    power = power_of_sign(t.modular.corner, words)
    if power == 0:
        return UNKNOWN
    t.polygon.n_zero += 1
    if power == NO_POWER:
        return 0
    line_powers(t, k, line, line_error)
    s, error = 0.0, 0.0
    for e in range(2):
        for f in range(max(0, power - e), 3):
            for c in range(3):
                h, d, v, w = line[e, c], line_error[e, c], corner[f, c], errors[f, c]
                s += h * v
                error += abs(h) * w + d * (abs(v) + w) + ROUNDINGS * UNIT * abs(h * v)
    if turn == 0 or not abs(s) > error:
        return UNKNOWN
    return turn if s > 0.0 else -turn


@kernel
def enter_weights(t):
    """The weights at the corner entered: without jitter into ``modular.weights``, what the jitter adds into ``maps.weights``.

    Returns the error of the latter.
    """
    words, corner, errors = t.modular.corner, t.modular.corner_value, t.modular.corner_error
    beta, derivative, exact, out, error = t.maps.beta, t.maps.beta_derivative, t.modular.weights, t.maps.weights, 0.0
    exact[:], out[:] = ZERO, 0.0
    for c in range(3):
        v, w = corner[1, c] + corner[2, c], errors[1, c] + errors[2, c]  # of the jitter,
        x, y = corner[0, c] + v, errors[0, c] + w  # and in all
        for j in range(out.size):
            exact[j] = plus_times(exact[j], words[0, c], t.modular.beta[0, c, j])
            out[j] += (beta[c, j] - derivative[c, j]) * v + derivative[c, j] * x
        size, less, tiny = t.maps.length[c], t.maps.length_derivative[c], ROUNDINGS * UNIT
        error += (t.maps.eta[c] + t.maps.eta_derivative[c] + tiny * size) * (abs(v) + w) + (size + less) * w
        error += (t.maps.eta_derivative[c] + tiny * less) * (abs(x) + y) + less * y
    return error + (out.size + ROUNDINGS) * UNIT * length_of(out)


@kernel
def sign_of_score(t, k, turn, error):
    """As ``sign_of_jitter`` for the score line k at the corner entered, whose weights are, too: one product for each point."""
    i, corner, errors = k >> 1, t.modular.corner_value, t.modular.corner_error
    _make_row(t, i)
    if dot(t.modular.weights, t.modular.rows[i]) != t.modular.corner[0, L]:
        return UNKNOWN
    t.polygon.n_zero += 1
    v, w, r = corner[1, L] + corner[2, L], errors[1, L] + errors[2, L], t.data.target_jitter[i]
    x, y = corner[0, L] + v, errors[0, L] + w
    s = score_one(t, i) - (v + r * x)
    bound = t.data.norm[i] * error + w + abs(r) * y + ROUNDINGS * UNIT * (abs(v) + abs(r * x))
    if not abs(s) > bound:
        return UNKNOWN
    return turn if (s > 0.0) == (t.state[i] == OUTSIDE) else -turn
