"""One partition of the points -> the affine maps of its facet.

In homogeneous costs c = (p, q, l), C+ = p/l, C- = q/l, a partition (M, I, O) fixes, with t the targets (1 and a jitter)
and w the weights,

    b+ = sum of w_i x_i over positive I,  b- over negative I                        ``pull``
    A    = (X_M X_M')^-1 [ -X_M b+ | -X_M b- | t_M ]     dual variables on M        ``alpha``, eq. (8) of the paper
    Beta = [ b+ | b- | 0 ] + X_M' A                      weights                    ``beta``

and its facet is the set of c where all lines h.c >= 0 (eq. 8-12; lines.py):

    i in M, type 0:  A_i                   i leaves to O       i in O, type 0:  x_i.Beta - t_i e_l     i enters M
    i in M, type 1:  w_i e - A_i           i leaves to I       i in I, type 1:  t_i e_l - x_i.Beta     i enters M

The *code* of a line is ``2 i + type``; a side of the region has code ``-1 - side``. Crossing the line of a code moves
the point i between M and O (type 0) or between M and I (type 1), in both directions.

Precision. X_M' = Q'R by Gram-Schmidt, repeated where a vector loses length; the normal equations are never formed. The
computed columns solve a nearby system, so with ``eta`` = gamma (sum |x_j||A_j| + |b| + kappa |Beta|), kappa the condition
number of the rows scaled to length 1 and rho_i the length of row i of R^-1,

    |error of A_i| <= rho_i eta,     |error of Beta| <= eta         (first order, Bjoerck's augmented system).

Where doubles cannot decide, ``refine`` corrects the same columns with residuals in double-double; the factor stays as it is.

Anchored facets. With a bias, all rows of a class score 1 at the weights e = +-(0, ..., 0, 1/B): where M is all of one class,
the facet may lie at costs whose solution is e but for the jitter, and all of that class are tied. There Beta_l - e is in the
span of what M leaves, plus the jitter's share: for all i of the class the score line has

    h_l = -p0 h_p - q0 h_q + (x_i.S - r_i),   S = the column of Beta for the targets r (the jitter) alone,

with p0, q0 common to all. So determinants of three such lines are those with x_i.S - r_i in place of h_l, and doubles resolve
the jitter (``anchored_line``); in a pencil the same is n_i / s_i = v0 + (r_i - x_i.S) / s_i with one v0 for all.

Structure. With r the rank of all rows (r <= d): |M| = r makes the first two columns of Beta exactly zero, so no score line
is an edge; |M| = r - 1 makes all score lines parallel to one direction (D+, D-) = (u.b+, u.b-), where u spans what M leaves
free of the rows (it is what M leaves of a random combination of them, the ``probe``). Both are used as facts, not found by
rounding.
"""

from __future__ import annotations

import numpy as np

from svmatlas.engine.compiled import kernel, kernel_reassoc, kernel_shared
from svmatlas.engine.doubledouble import UNIT, UNIT_DD, two_prod, two_sum
from svmatlas.engine.workspace import INSIDE, MARGIN, Data, L, U

SHORTENED = 0.25
"""A vector that keeps less than this share of its length is orthogonalised again (loss of orthogonality <= 4 roundoffs)."""

WORST_KAPPA = 1e11
"""Refinement contracts errors by about kappa * gamma < 1e-2 below this; above it exact arithmetic takes over at once."""


@kernel_reassoc
def dot(a, b):
    """Product of two vectors."""
    s = 0.0
    for j in range(a.size):
        s += a[j] * b[j]
    return s


@kernel
def length_of(v):
    """Length of a vector."""
    return np.sqrt(dot(v, v))


@kernel
def move_pull(data, pull, i, sign):
    """Add point i to the pulls, or subtract it (sign -1)."""
    c, row = data.axis[i], data.rows[i]
    high, low, derivative = pull.high[c], pull.low[c], pull.derivative[c]
    w, w_derivative = sign * data.weight[i], sign * data.weight_jitter[i]
    for j in range(row.size):
        p, e = two_prod(row[j], w)
        s, f = two_sum(high[j], p)
        high[j], low[j] = two_sum(s, low[j] + (e + f))
        derivative[j] += row[j] * w_derivative
    pull.n_points[c] += np.int64(sign)


@kernel
def sum_pull(data, state, pull):
    """The pulls of a partition."""
    pull.high[:], pull.low[:], pull.derivative[:], pull.n_points[:] = 0.0, 0.0, 0.0, 0
    for i in range(state.size):
        if state[i] == INSIDE:
            move_pull(data, pull, i, 1.0)


@kernel
def follow_pull(data, before, state, pull):
    """The pulls of a partition from those of another one; returns the number of moves."""
    moves = 0
    for i in range(state.size):
        if before[i] != state[i] and (before[i] == INSIDE or state[i] == INSIDE):
            move_pull(data, pull, i, 1.0 if state[i] == INSIDE else -1.0)
            moves += 1
    return moves


def drift_of(data: Data, n_moves: int) -> float:
    """Bound on the error of pulls after so many moves: each is a double-double addition, in the jitter one of doubles."""
    size, jitter = data.norm @ np.abs(np.array([data.weight, data.weight_jitter]).T)
    return float(n_moves * (UNIT_DD * size + UNIT * jitter))


@kernel_shared
def gather(t):
    """List M, and round the pulls. Points that were in M before come first, in their order: see _orthogonalise."""
    state, m, kept, r = t.state, 0, 0, t.data.rows.shape[1]
    member, slot = t.factor.member, t.factor.slot
    for k in range(min(t.facet.n_margin, r)):
        i = member[k]
        slot[i] = -1
        if state[i] == MARGIN:
            kept += m == k
            member[m], slot[i] = i, m
            m += 1
    t.facet.kept = min(t.facet.kept, kept)
    n = state.size - state.size % 8
    words = state[:n].view(np.uint64)
    for w in range(words.size):
        left = words[w] & EIGHT_MARGINS
        while left != 0:
            lowest = left & (~left + BIT)
            i = 8 * w + np.int64((lowest >> BIT) * WHICH_BYTE >> TOP_BYTE)
            left ^= lowest
            if slot[i] < 0:
                if m < r:
                    member[m], slot[i] = i, m
                m += 1
    for i in range(n, state.size):
        if state[i] == MARGIN and slot[i] < 0:
            if m < r:
                member[m], slot[i] = i, m
            m += 1
    for c in range(2):
        high, low, derivative = t.pull.high[c], t.pull.low[c], t.pull.derivative[c]
        t.facet.n_pull[c] = t.pull.n_points[c]
        if t.pull.n_points[c] == 0:  # zero by structure, not up to rounding
            high[:], low[:], derivative[:] = 0.0, 0.0, 0.0
        _round_pull(high, low, derivative, t.jitter, t.maps.pull[c])
    t.facet.n_margin = m
    t.facet.refined = 0
    t.facet.pencil[0], t.facet.pencil[1] = -1, -1
    t.facet.serial += 1
    return m


@kernel
def _round_pull(high, low, derivative, jitter, out):
    """A pull with its jitter, as one double for each column."""
    for j in range(out.size):
        out[j] = high[j] + (low[j] + jitter * derivative[j])


EIGHT_MARGINS = np.uint64(0x0202020202020202)
"""The bit of MARGIN in eight states."""

WHICH_BYTE, TOP_BYTE, BIT = np.uint64(0x0001020304050607), np.uint64(56), np.uint64(1)
"""2^(8 k) times the first has k in its top byte."""


@kernel
def sign_points(t):
    """Fill ``sign`` of all points, once for a facet."""
    if t.facet.signed != t.facet.serial:
        t.facet.signed = t.facet.serial
        state, signs = t.state, t.single.sign
        for i in range(state.size):
            signs[i] = MINUS if state[i] == INSIDE else PLUS


PLUS, MINUS = np.float32(1.0), np.float32(-1.0)
"""Signs in single precision."""


@kernel_reassoc
def _shares(basis, k, v, out):
    """Products of a vector with the first k of a basis, four at a time."""
    for j in range(0, k - k % 4, 4):
        q0, q1, q2, q3 = basis[j], basis[j + 1], basis[j + 2], basis[j + 3]
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for i in range(v.size):
            x = v[i]
            s0 += q0[i] * x
            s1 += q1[i] * x
            s2 += q2[i] * x
            s3 += q3[i] * x
        out[j], out[j + 1], out[j + 2], out[j + 3] = s0, s1, s2, s3
    for j in range(k - k % 4, k):
        out[j] = dot(basis[j], v)


@kernel_reassoc
def _subtract(basis, k, shares, v):
    """Take these shares of the first k of a basis off a vector."""
    for j in range(0, k - k % 4, 4):
        q0, q1, q2, q3 = basis[j], basis[j + 1], basis[j + 2], basis[j + 3]
        s0, s1, s2, s3 = shares[j], shares[j + 1], shares[j + 2], shares[j + 3]
        for i in range(v.size):
            v[i] -= (s0 * q0[i] + s1 * q1[i]) + (s2 * q2[i] + s3 * q3[i])
    for j in range(k - k % 4, k):
        s, q = shares[j], basis[j]
        for i in range(v.size):
            v[i] -= s * q[i]


@kernel
def _project_out(t, k, v, r):
    """Remove the first k basis vectors from v, adding the coefficients to r[:k]; returns the length left."""
    basis, shares = t.factor.basis, t.maps.shares
    before = length_of(v)
    for _ in range(3):
        _shares(basis, k, v, shares)
        _subtract(basis, k, shares, v)
        for j in range(k):
            r[j] += shares[j]
        after = length_of(v)
        if after >= SHORTENED * before:
            break
        before = after
    return after


@kernel
def _orthogonalise(t, m):
    """X_M' = Q'R, the inverse of R, and the condition number of the normalised rows.

    The first ``facet.kept`` columns are those of the facet before, and stay: points that move mostly came last into M.
    """
    coefficients = t.maps.coefficients
    basis, triangle, inverse, rho = t.factor.basis, t.factor.triangle, t.factor.inverse, t.factor.rho
    for k in range(t.facet.kept, m):
        t.facet.kept = k
        v, row = basis[k], t.data.rows[t.factor.member[k]]
        for j in range(v.size):
            v[j] = row[j]
            coefficients[j] = 0.0
        left = _project_out(t, k, v, coefficients)
        for j in range(k):
            triangle[j, k] = triangle[k, j] = coefficients[j]
        triangle[k, k] = left
        if left == 0.0:
            t.facet.kappa = np.inf
            return
        scale = 1.0 / left
        for j in range(v.size):
            v[j] *= scale
        for i in range(k):
            inverse[i, k] = -scale * dot(inverse[i, i:k], coefficients[i:k])
        inverse[k, k] = scale
    t.facet.kept = m
    squares, norm, member = 0.0, t.data.norm, t.factor.member
    for k in range(m):
        square = dot(inverse[k, k:m], inverse[k, k:m])
        squares += square * norm[member[k]] ** 2
        rho[k] = np.sqrt(square)
    t.facet.kappa = max(1.0, np.sqrt(squares))


@kernel
def solve_back(t, m, y, out):
    """Solve R out = y."""
    triangle, inverse = t.factor.triangle, t.factor.inverse
    for i in range(m):
        out[i] = y[i]
    for i in range(m - 1, -1, -1):
        s, column = out[i] * inverse[i, i], triangle[i]
        out[i] = s
        for j in range(i):
            out[j] -= s * column[j]


@kernel
def solve_forward(t, m, g, out):
    """Solve R' out = g."""
    triangle, inverse = t.factor.triangle, t.factor.inverse
    for i in range(m):
        out[i] = g[i]
    for i in range(m):
        s, row, rest = out[i] * inverse[i, i], triangle[i, i + 1 : m], out[i + 1 : m]
        out[i] = s
        for j in range(rest.size):
            rest[j] -= s * row[j]


@kernel
def _solve_column(t, m, pull, alpha, beta):
    """A column of A and Beta for the pull of that column."""
    y = t.maps.coefficients
    for j in range(beta.size):
        beta[j] = pull[j]
        y[j] = 0.0
    _project_out(t, m, beta, y)
    solve_back(t, m, y, alpha)
    for k in range(m):
        alpha[k] = -alpha[k]
    if m == t.data.rank:
        beta[:] = 0.0


@kernel
def _solve_targets(t, m, base, jitter, alpha, beta):
    """Column l: the weights of least length with the targets base + jitter r_i on M."""
    target, y, low, member = t.maps.coefficients, t.maps.step, t.data.target_jitter, t.factor.member
    for k in range(m):
        target[k] = base + jitter * low[member[k]]
    solve_forward(t, m, target, y)
    solve_back(t, m, y, alpha)
    beta[:] = 0.0
    basis = t.factor.basis
    for k in range(m):
        s, q = y[k], basis[k]
        for j in range(beta.size):
            beta[j] += s * q[j]


@kernel_reassoc
def _size_of(norm, member, alpha):
    """Sum of |x_j||A_j| over M."""
    s = 0.0
    for k in range(member.size):
        s += norm[member[k]] * abs(alpha[k])
    return s


@kernel
def _bound_column(t, m, c):
    """Eta of column c (see the head of this file)."""
    gamma = 2.0 * (t.data.columns.shape[0] + m + 8) * UNIT
    kappa = t.facet.kappa
    eta = _size_of(t.data.norm, t.factor.member[:m], t.maps.alpha[c])
    t.maps.length[c] = length_of(t.maps.beta[c])
    eta += kappa * t.maps.length[c]
    if c == L:
        eta += kappa
    else:
        eta += length_of(t.maps.pull[c])
    t.maps.eta[c] = gamma * eta
    if c < L and t.facet.n_pull[c] > 0:
        t.maps.eta[c] += t.drift


@kernel_shared
def solve_maps(t):
    """The affine maps of the partition in hand, in doubles. False if |M| exceeds the rank, which no facet can have."""
    m = gather(t)
    if m > t.data.rank:
        return False
    _orthogonalise(t, m)
    if not t.facet.kappa < WORST_KAPPA:
        t.facet.refined = -1
    n_columns = 3
    if m == t.data.rank - 1:
        n_columns = 4
        for j in range(t.data.probe.size):
            t.maps.pull[U, j] = t.data.probe[j]
    for c in range(n_columns):
        if c == L:
            _solve_targets(t, m, 1.0, t.jitter, t.maps.alpha[c], t.maps.beta[c])
        else:
            _solve_column(t, m, t.maps.pull[c], t.maps.alpha[c], t.maps.beta[c])
        _bound_column(t, m, c)
    t.facet.anchor_axis = -1
    if can_anchor(t, m):
        _anchor(t, m)
    return True


@kernel
def take_up(t, states, f, before, drift, moves):
    """Put partition f of some in hand, with its maps; its pulls follow from those in hand, of another one (-1: of none).

    Returns the number of moves that the pulls have seen.
    """
    t.state = states[f]
    if before < 0:
        sum_pull(t.data, t.state, t.pull)
    else:
        moves += follow_pull(t.data, states[before], t.state, t.pull)
    t.drift = drift * moves
    solve_maps(t)
    return moves


@kernel
def can_anchor(t, m):
    """Is a facet with |M| = m anchored, if M is all of one class? (Smaller ones could be, but are few.)"""
    return t.data.anchor > 0.0 and 0 < m < t.data.rank and m >= t.data.rank - 2


@kernel
def _anchor(t, m):
    """Is M all of one class? Then the column of the jitter alone."""
    axis = t.data.axis[t.factor.member[0]]
    top = 0.0
    for k in range(m):
        if t.data.axis[t.factor.member[k]] != axis:
            return
    t.facet.anchor_axis = axis
    alpha, beta = t.maps.alpha_derivative[L], t.maps.beta_derivative[L]
    _solve_targets(t, m, 0.0, 1.0, alpha, beta)
    for k in range(m):
        top = max(top, abs(t.data.target_jitter[t.factor.member[k]]))
    size, length = _size_of(t.data.norm, t.factor.member[:m], alpha), length_of(beta)
    gamma = 2.0 * (t.data.columns.shape[0] + m + 8) * UNIT
    t.facet.anchor_length = length
    t.facet.anchor_eta = gamma * (size + t.facet.kappa * (length + top))


@kernel
def bound_derivatives(t):
    """The derivatives of the maps by the jitter, once for a facet, with bounds as those of the maps."""
    if t.facet.derived == t.facet.serial:
        return
    t.facet.derived = t.facet.serial
    solve_derivatives(t)
    m, kappa, top = t.facet.n_margin, t.facet.kappa, 0.0
    for k in range(m):
        top = max(top, abs(t.data.target_jitter[t.factor.member[k]]))
    for c in range(3):
        length = length_of(t.maps.beta_derivative[c])
        eta = _size_of(t.data.norm, t.factor.member[:m], t.maps.alpha_derivative[c]) + kappa * length
        eta += kappa * top if c == L else length_of_pull_derivative(t, c)
        t.maps.eta_derivative[c] = 2.0 * (t.data.columns.shape[0] + m + 8) * UNIT * eta
        if c < L and t.facet.n_pull[c] > 0:
            t.maps.eta_derivative[c] += t.drift
        t.maps.length_derivative[c] = length


@kernel
def length_of_pull_derivative(t, c):
    """Of the derivative of a pull by the jitter."""
    return length_of(t.pull.derivative[c])


@kernel_shared
def solve_derivatives(t):
    """The derivatives of the maps by the jitter; they need no more than doubles."""
    m = t.facet.n_margin
    for c in range(2):
        _solve_column(t, m, t.pull.derivative[c], t.maps.alpha_derivative[c], t.maps.beta_derivative[c])
    _solve_targets(t, m, 0.0, 1.0, t.maps.alpha_derivative[L], t.maps.beta_derivative[L])
