"""One partition of the points -> the affine maps and the lines of its facet.

In homogeneous costs c = (p, q, l), C+ = p/l, C- = q/l, a partition (M, I, O) fixes, with t the targets (1 and a jitter)
and w the weights,

    b+ = sum of w_i x_i over positive I,  b- over negative I                        ``pull``
    A    = (X_M X_M')^-1 [ -X_M b+ | -X_M b- | t_M ]     dual variables on M        ``alpha``, eq. (8) of the paper
    Beta = [ b+ | b- | 0 ] + X_M' A                      weights                    ``beta``

and its facet is the set of c where all lines h.c >= 0 (eq. 8-12):

    i in M, type 0:  A_i                   i leaves to O       i in O, type 0:  x_i.Beta - t_i e_l     i enters M
    i in M, type 1:  w_i e - A_i           i leaves to I       i in I, type 1:  t_i e_l - x_i.Beta     i enters M

The *code* of a line is ``2 i + type``; a side of the region has code ``-1 - side``. Crossing the line of a code moves
the point i between M and O (type 0) or between M and I (type 1), in both directions.

Precision. X_M' = Q'R by Gram-Schmidt, repeated where a vector loses length; the normal equations are never formed. The
computed columns solve a nearby system, so with ``eta`` = gamma (sum |x_j||A_j| + |b| + kappa |Beta|), kappa the condition
number of the rows scaled to length 1 and rho_i the length of row i of R^-1,

    |error of A_i| <= rho_i eta,     |error of Beta| <= eta         (first order, Bjoerck's augmented system).

Where doubles cannot decide, ``refine`` corrects the same columns with residuals in double-double; the factor stays as it is.

Structure. With r the rank of all rows: |M| = r makes the first two columns of Beta exactly zero, so no score line is an
edge; |M| = r - 1 makes all score lines parallel to one direction (D+, D-) = (u.b+, u.b-), where u spans what M leaves
free. Both are used as facts, not found by rounding.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.doubledouble import UNIT, UNIT_DD, dd_add, dd_axpy, dd_mul, kernel

OUTSIDE, INSIDE, MARGIN = 0, 1, 2
"""States of a point: g > 1 and alpha = 0; g < 1 and alpha at its bound; g = 1."""

P, Q, L, U = 0, 1, 2, 3
"""Columns: the cost of positives, the cost of negatives, the homogeneous one, and the free direction u."""

# Named places in the workspaces
NORM, TARGET_LO, WEIGHT, WEIGHT_LO = 0, 1, 2, 3
MEMBER, SLOT = 0, 1
PULL, ALPHA, BETA, PULL_HI, PULL_LO, ALPHA_HI, ALPHA_LO, BETA_HI, BETA_LO, SCRATCH, RHO = range(11)
BASIS, TRIANGLE, INVERSE = 0, 1, 2
ETA, LENGTH, ETA_DD, REAL = 0, 1, 2, 3
KAPPA, MASS = 0, 1
SIZE, REFINED, N_PULL = 0, 1, 2

SHORTENED = 0.25
"""A vector that keeps less than this share of its length is orthogonalised again (loss of orthogonality <= 4 roundoffs)."""

WORST_KAPPA = 1e11
"""Refinement contracts errors by about kappa * gamma < 1e-2 below this; above it exact arithmetic takes over at once."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]


class Data(NamedTuple):
    """The rows of a problem as the kernels read them."""

    rows: Floats  # (N, r) signed rows x_i
    columns: Floats  # (r, N) the same, transposed
    point: Floats  # (4, N) by NORM, TARGET_LO, WEIGHT, WEIGHT_LO: |x_i|, jitter of the target 1, w_i, jitter of w_i
    axis: npt.NDArray[np.int8]  # (N,) column of the cost that bounds alpha_i: P or Q


class Maps(NamedTuple):
    """Workspace: the affine maps of one facet. Few arrays, since each one costs compile time in every kernel."""

    index: Ints  # MEMBER: the points of M; SLOT: place of each point in M, or -1
    column: Floats  # (11, 4, r): PULL b, ALPHA A, BETA Beta, their double-doubles; SCRATCH; RHO: rho, scratch
    square: Floats  # (3, r, r): BASIS Q, TRIANGLE R, INVERSE R^-1
    score: Floats  # (3, N): score lines, see score_lines
    bound: Floats  # (4, 4): ETA and LENGTH |Beta| and ETA_DD of each column; REAL: KAPPA, MASS sum of w_i |x_i| over I+, I-
    table: Floats  # (n_sides + 2 r + 2, 6): sides, lines of M, two lines of the pencil: h and error bounds
    count: Ints  # SIZE |M|; REFINED 0 not yet, 1 done, -1 hopeless; N_PULL |I+|, |I-|; then the codes of the pencil


@kernel
def make_maps(n, r, sides):  # type: ignore[no-untyped-def]
    """Allocate the workspace for N points of rank r."""
    table = np.zeros((sides.shape[0] + 2 * r + 2, 6))
    for k in range(sides.shape[0]):
        for c in range(3):
            table[k, c] = sides[k, c]
    return Maps(
        np.empty((2, n + r + 1), np.int64), np.empty((11, 4, r)), np.empty((3, r, r)), np.zeros((3, n)),
        np.empty((4, 4)), table, np.empty(6, np.int64),
    )  # fmt: skip


@kernel
def _dot(a, b):  # type: ignore[no-untyped-def]
    s = 0.0
    for j in range(a.size):
        s += a[j] * b[j]
    return s


@kernel
def _gather(data, state, jitter, f):  # type: ignore[no-untyped-def]
    """List M and sum the pull of I."""
    f.column[PULL] = 0.0
    f.count[N_PULL : N_PULL + 2] = 0
    f.bound[REAL, MASS : MASS + 2] = 0.0
    m = 0
    for i in range(state.size):
        f.index[SLOT, i] = -1
        if state[i] == MARGIN:
            if m < data.rows.shape[1]:
                f.index[MEMBER, m] = i
                f.index[SLOT, i] = m
            m += 1
        elif state[i] == INSIDE:
            c = data.axis[i]
            w = data.point[WEIGHT, i] + jitter * data.point[WEIGHT_LO, i]
            row, pull = data.rows[i], f.column[PULL, c]
            for j in range(row.size):
                pull[j] += w * row[j]
            f.count[N_PULL + c] += 1
            f.bound[REAL, MASS + c] += w * data.point[NORM, i]
    f.count[SIZE] = m
    f.count[REFINED] = 0
    f.count[N_PULL + 2 : N_PULL + 4] = -1
    return m


@kernel
def _project_out(f, k, v, r):  # type: ignore[no-untyped-def]
    """Remove the first k basis vectors from v, adding the coefficients to r[:k]; returns the length left."""
    before = np.sqrt(_dot(v, v))
    for _ in range(3):
        for j in range(k):
            q = f.square[BASIS, j]
            s = _dot(q, v)
            r[j] += s
            for i in range(v.size):
                v[i] -= s * q[i]
        after = np.sqrt(_dot(v, v))
        if after >= SHORTENED * before:
            break
        before = after
    return after


@kernel
def _orthogonalise(data, f, m):  # type: ignore[no-untyped-def]
    """X_M' = Q'R, the inverse of R, and the condition number of the normalised rows."""
    coefficients = f.column[SCRATCH, 0]
    for k in range(m):
        v = f.square[BASIS, k]
        for j in range(v.size):
            v[j] = data.rows[f.index[MEMBER, k], j]
            coefficients[j] = 0.0
        left = _project_out(f, k, v, coefficients)
        for j in range(k):
            f.square[TRIANGLE, j, k] = coefficients[j]
        f.square[TRIANGLE, k, k] = left
        if left == 0.0:
            f.bound[REAL, KAPPA] = np.inf
            return
        for j in range(v.size):
            v[j] /= left
    squares = 0.0
    for k in range(m):  # column k of R^-1
        f.column[RHO, 0, k] = 0.0
        f.square[INVERSE, k, k] = 1.0 / f.square[TRIANGLE, k, k]
        for i in range(k - 1, -1, -1):
            s = 0.0
            for j in range(i + 1, k + 1):
                s += f.square[TRIANGLE, i, j] * f.square[INVERSE, j, k]
            f.square[INVERSE, i, k] = -s / f.square[TRIANGLE, i, i]
        for i in range(k + 1):
            f.column[RHO, 0, i] += f.square[INVERSE, i, k] ** 2
    for k in range(m):
        squares += f.column[RHO, 0, k] * data.point[NORM, f.index[MEMBER, k]] ** 2
        f.column[RHO, 0, k] = np.sqrt(f.column[RHO, 0, k])
    f.bound[REAL, KAPPA] = max(1.0, np.sqrt(squares))


@kernel
def _back(f, m, y, out):  # type: ignore[no-untyped-def]
    """Solve R out = y."""
    for i in range(m - 1, -1, -1):
        s = y[i]
        for j in range(i + 1, m):
            s -= f.square[TRIANGLE, i, j] * out[j]
        out[i] = s / f.square[TRIANGLE, i, i]


@kernel
def _forward(f, m, g, out):  # type: ignore[no-untyped-def]
    """Solve R' out = g."""
    for i in range(m):
        s = g[i]
        for j in range(i):
            s -= f.square[TRIANGLE, j, i] * out[j]
        out[i] = s / f.square[TRIANGLE, i, i]


@kernel
def _free_direction(f, m):  # type: ignore[no-untyped-def]
    """Choose the coordinate axis that M covers least as the pull of column U; its remainder spans the free direction."""
    best, least = 0, 2.0
    for j in range(f.column.shape[2]):
        covered = 0.0
        for k in range(m):
            covered += f.square[BASIS, k, j] ** 2
        if covered < least:
            best, least = j, covered
    f.column[PULL, U, best] = 1.0


@kernel
def _solve_column(data, f, m, c):  # type: ignore[no-untyped-def]
    """Column c of A and Beta for the pull of that column."""
    y, beta = f.column[SCRATCH, 1], f.column[BETA, c]
    for j in range(beta.size):
        beta[j] = f.column[PULL, c, j]
        y[j] = 0.0
    _project_out(f, m, beta, y)
    _back(f, m, y, f.column[ALPHA, c])
    for k in range(m):
        f.column[ALPHA, c, k] = -f.column[ALPHA, c, k]
    if m == f.column.shape[2]:
        beta[:] = 0.0


@kernel
def _solve_targets(data, f, m, jitter):  # type: ignore[no-untyped-def]
    """Column l: the weights of least length with X_M beta = t."""
    t, y, beta = f.column[SCRATCH, 1], f.column[SCRATCH, 2], f.column[BETA, L]
    for k in range(m):
        t[k] = 1.0 + jitter * data.point[TARGET_LO, f.index[MEMBER, k]]
    _forward(f, m, t, y)
    _back(f, m, y, f.column[ALPHA, L])
    beta[:] = 0.0
    for k in range(m):
        for j in range(beta.size):
            beta[j] += y[k] * f.square[BASIS, k, j]


@kernel
def _bound_column(data, f, m, c):  # type: ignore[no-untyped-def]
    """eta of column c (see the head of this file)."""
    gamma = 2.0 * (f.column.shape[2] + m + 8) * UNIT
    kappa = f.bound[REAL, KAPPA]
    eta = 0.0
    for k in range(m):
        eta += data.point[NORM, f.index[MEMBER, k]] * abs(f.column[ALPHA, c, k])
    f.bound[LENGTH, c] = np.sqrt(_dot(f.column[BETA, c], f.column[BETA, c]))
    eta = gamma * (eta + kappa * f.bound[LENGTH, c])
    if c < L:
        eta += (gamma + f.count[N_PULL + c] * UNIT) * f.bound[REAL, MASS + c]
    else:
        eta += gamma * kappa
    f.bound[ETA, c] = eta


@kernel
def _score(data, f, c, out):  # type: ignore[no-untyped-def]
    """x_i . Beta_c of all points."""
    out[:] = 0.0
    for j in range(f.column.shape[2]):
        s = f.column[BETA, c, j]
        column = data.columns[j]
        for i in range(out.size):
            out[i] += s * column[i]


@kernel
def solve_maps(data, state, jitter, f):  # type: ignore[no-untyped-def]
    """Fill ``f`` for one partition, in doubles. False if |M| exceeds the rank, which no facet can have."""
    m = _gather(data, state, jitter, f)
    r = data.rows.shape[1]
    if m > r:
        return False
    _orthogonalise(data, f, m)
    if not f.bound[REAL, KAPPA] < WORST_KAPPA:
        f.count[REFINED] = -1
    n_columns = 3
    if m == r - 1:
        _free_direction(f, m)
        n_columns = 4
    for c in range(n_columns):
        if c == L:
            _solve_targets(data, f, m, jitter)
        else:
            _solve_column(data, f, m, c)
        _bound_column(data, f, m, c)
    return True


@kernel
def score_lines(data, state, jitter, f):  # type: ignore[no-untyped-def]
    """Lines of all points outside M into ``f.score``, one column a point, signed so that h.c >= 0 holds on the facet.

    With |M| = r - 1 row P holds sign * x_i.u instead, and row Q is unused; with |M| = r only row L is filled.
    """
    m, r = f.count[SIZE], data.rows.shape[1]
    if m == r - 1:
        _score(data, f, U, f.score[P])
    elif m < r:
        _score(data, f, P, f.score[P])
        _score(data, f, Q, f.score[Q])
    _score(data, f, L, f.score[L])
    for i in range(state.size):
        sign = 1.0 if state[i] == OUTSIDE else -1.0
        f.score[P, i] *= sign
        f.score[Q, i] *= sign
        f.score[L, i] = sign * (f.score[L, i] - (1.0 + jitter * data.point[TARGET_LO, i]))


# ----------------------------------------------------------------------------------------------------------------------
# The same columns in double-double


@kernel
def _gather_dd(data, state, jitter, f):  # type: ignore[no-untyped-def]
    """The pulls of I+ and I- in double-double; that of column U is a unit vector."""
    f.column[PULL_HI] = 0.0
    f.column[PULL_LO] = 0.0
    for j in range(f.column.shape[2]):
        f.column[PULL_HI, U, j] = f.column[PULL, U, j]
    for i in range(state.size):
        if state[i] != INSIDE:
            continue
        c = data.axis[i]
        w, w_lo = data.point[WEIGHT, i], jitter * data.point[WEIGHT_LO, i]
        for j in range(data.rows.shape[1]):
            f.column[PULL_HI, c, j], f.column[PULL_LO, c, j] = dd_axpy(f.column[PULL_HI, c, j], f.column[PULL_LO, c, j], data.rows[i, j], w, w_lo)


@kernel
def _residual_dd(data, f, m, c, jitter):  # type: ignore[no-untyped-def]
    """Residuals of the augmented system: scratch[3] = b + X_M'A - Beta, scratch[4] = t - X_M Beta (rounded once)."""
    r = f.column.shape[2]
    for j in range(r):
        sh, sl = dd_add(f.column[PULL_HI, c, j], f.column[PULL_LO, c, j], -f.column[BETA_HI, c, j], -f.column[BETA_LO, c, j])
        for k in range(m):
            sh, sl = dd_axpy(sh, sl, data.rows[f.index[MEMBER, k], j], f.column[ALPHA_HI, c, k], f.column[ALPHA_LO, c, k])
        f.column[SCRATCH, 3, j] = sh + sl
    for k in range(m):
        sh, sl = 0.0, 0.0
        if c == L:
            sh, sl = 1.0, jitter * data.point[TARGET_LO, f.index[MEMBER, k]]
        for j in range(r):
            sh, sl = dd_axpy(sh, sl, -data.rows[f.index[MEMBER, k], j], f.column[BETA_HI, c, j], f.column[BETA_LO, c, j])
        f.column[RHO, 1, k] = sh + sl


@kernel
def _correct_dd(f, m, c):  # type: ignore[no-untyped-def]
    """One step: R dA = R^-T g - Q f, dBeta = f + Q'(R^-T g - Q f). Returns the length of the step."""
    r = f.column.shape[2]
    z, step = f.column[SCRATCH, 1], f.column[SCRATCH, 2]
    _forward(f, m, f.column[RHO, 1], z)
    for k in range(m):
        z[k] -= _dot(f.square[BASIS, k], f.column[SCRATCH, 3])
    size = 0.0
    for k in range(m):
        size += z[k] * z[k]
    _back(f, m, z, step)
    for k in range(m):
        f.column[ALPHA_HI, c, k], f.column[ALPHA_LO, c, k] = dd_add(f.column[ALPHA_HI, c, k], f.column[ALPHA_LO, c, k], step[k], 0.0)
    if m == r and c != L:
        return np.sqrt(size)
    for j in range(r):
        s = f.column[SCRATCH, 3, j]
        for k in range(m):
            s += z[k] * f.square[BASIS, k, j]
        size += s * s
        f.column[BETA_HI, c, j], f.column[BETA_LO, c, j] = dd_add(f.column[BETA_HI, c, j], f.column[BETA_LO, c, j], s, 0.0)
    return np.sqrt(size)


@kernel
def refine(data, state, jitter, f):  # type: ignore[no-untyped-def]
    """Correct all columns to double-double accuracy; f.count[REFINED] tells whether that worked."""
    m, r = f.count[SIZE], data.rows.shape[1]
    _gather_dd(data, state, jitter, f)
    gamma = 2.0 * (r + m + 8) * UNIT
    kappa = f.bound[REAL, KAPPA]
    f.count[REFINED] = 1
    for c in range(4 if m == r - 1 else 3):
        for j in range(r):
            f.column[ALPHA_HI, c, j], f.column[ALPHA_LO, c, j] = f.column[ALPHA, c, j], 0.0
            f.column[BETA_HI, c, j], f.column[BETA_LO, c, j] = f.column[BETA, c, j], 0.0
        floor = f.bound[ETA, c] * (4.0 * UNIT_DD / UNIT)
        for _ in range(8):
            _residual_dd(data, f, m, c, jitter)
            left = 4.0 * gamma * kappa * _correct_dd(f, m, c)
            if left <= floor:
                break
        f.bound[ETA_DD, c] = left + floor


@kernel
def dot_dd(data, f, i, c):  # type: ignore[no-untyped-def]
    """x_i . Beta_c from the refined maps."""
    sh, sl = 0.0, 0.0
    for j in range(data.rows.shape[1]):
        sh, sl = dd_axpy(sh, sl, data.rows[i, j], f.column[BETA_HI, c, j], f.column[BETA_LO, c, j])
    return sh, sl


# ----------------------------------------------------------------------------------------------------------------------
# Lines


@kernel
def slope(f, c):  # type: ignore[no-untyped-def]
    """D_c = u.b_c / u.u of the pencil (|M| = r - 1), and its error."""
    if f.count[N_PULL + c] == 0:
        return 0.0, 0.0
    uu = f.bound[LENGTH, U] ** 2
    d = _dot(f.column[BETA, U], f.column[PULL, c]) / uu
    size = np.sqrt(_dot(f.column[PULL, c], f.column[PULL, c]))
    error = (f.bound[ETA, c] * f.bound[LENGTH, U] + 2.0 * f.bound[ETA, U] * (size + abs(d) * f.bound[LENGTH, U])) / uu
    return d, error


@kernel
def slope_dd(f, c):  # type: ignore[no-untyped-def]
    """u.b_c in double-double (not divided by u.u: one positive factor for the whole pencil), and its error."""
    sh, sl = 0.0, 0.0
    if f.count[N_PULL + c] == 0:
        return sh, sl, 0.0
    size = 0.0
    for j in range(f.column.shape[2]):
        ph, pl = dd_mul(f.column[BETA_HI, U, j], f.column[BETA_LO, U, j], f.column[PULL_HI, c, j], f.column[PULL_LO, c, j])
        sh, sl = dd_add(sh, sl, ph, pl)
        size += f.column[PULL, c, j] ** 2
    error = f.bound[ETA_DD, U] * np.sqrt(size) + f.bound[ETA_DD, c] * f.bound[LENGTH, U]
    return sh, sl, error


@kernel
def pencil_dd(data, f, i, jitter):  # type: ignore[no-untyped-def]
    """s = x_i.u and n = t_i - x_i.Beta_l in double-double, each with its error: the line is s D.(p,q) = n l."""
    sh, sl = dot_dd(data, f, i, U)
    gh, gl = dot_dd(data, f, i, L)
    nh, nl = dd_add(1.0, jitter * data.point[TARGET_LO, i], -gh, -gl)
    tiny = data.rows.shape[1] * UNIT_DD
    es = data.point[NORM, i] * (f.bound[ETA_DD, U] + tiny * f.bound[LENGTH, U])
    en = data.point[NORM, i] * (f.bound[ETA_DD, L] + tiny * f.bound[LENGTH, L]) + 4.0 * UNIT_DD
    return sh, sl, es, nh, nl, en


@kernel
def tabulate_margin(data, jitter, f):  # type: ignore[no-untyped-def]
    """The lines of M in doubles, with error bounds, into the table."""
    row = f.table.shape[0] - 2 * data.rows.shape[1] - 2
    for k in range(f.count[SIZE]):
        i = f.index[MEMBER, k]
        w = data.point[WEIGHT, i] + jitter * data.point[WEIGHT_LO, i]
        for c in range(3):
            a = f.column[ALPHA, c, k]
            e = f.column[RHO, 0, k] * f.bound[ETA, c] + 2.0 * UNIT * abs(a)
            f.table[row, c], f.table[row, 3 + c] = a, e
            f.table[row + 1, c], f.table[row + 1, 3 + c] = -a, e
            if c == data.axis[i]:
                f.table[row + 1, c] += w
                f.table[row + 1, 3 + c] += 2.0 * UNIT * w
        row += 2


@kernel
def tabulate_pencil(data, f, side):  # type: ignore[no-untyped-def]
    """One line of the pencil, divided by |x_i.u|: all of the pencil have the same first two entries."""
    i = f.count[N_PULL + 2 + side] >> 1
    tiny = data.rows.shape[1] * UNIT
    h = f.table[f.table.shape[0] - 2 + side]
    s, rest, norm = f.score[P, i], f.score[L, i], data.point[NORM, i]
    size = abs(s)
    es = norm * (f.bound[ETA, U] + tiny * f.bound[LENGTH, U])
    e = norm * (f.bound[ETA, L] + tiny * f.bound[LENGTH, L]) + 4.0 * UNIT
    for c in range(2):
        d, error = slope(f, c)
        h[c] = d if s > 0 else -d
        h[3 + c] = error if size > es else np.inf
    h[2] = rest / size
    h[5] = (e + abs(rest) * es / size) / (size - es) + 4.0 * UNIT * abs(h[2]) if size > es else np.inf


@kernel
def table_row(data, f, code):  # type: ignore[no-untyped-def]
    """Where the line of a code stands in the table; -1 for a score line outside a pencil."""
    if code < 0:
        return -1 - code
    n = f.table.shape[0] - 2
    k = f.index[SLOT, code >> 1]
    if k >= 0:
        return n - 2 * data.rows.shape[1] + 2 * k + (code & 1)
    if f.count[N_PULL + 2] == code:
        return n
    return n + 1 if f.count[N_PULL + 3] == code else -1


@kernel
def line(data, f, code):  # type: ignore[no-untyped-def]
    """The line of a code in doubles: (h_p, h_q, h_l, e_p, e_q, e_l), e bounding the errors."""
    row = table_row(data, f, code)
    if row >= 0:
        h = f.table[row]
        return h[0], h[1], h[2], h[3], h[4], h[5]
    i = code >> 1
    norm = data.point[NORM, i]
    tiny = data.rows.shape[1] * UNIT
    e0 = norm * (f.bound[ETA, P] + tiny * f.bound[LENGTH, P])
    e1 = norm * (f.bound[ETA, Q] + tiny * f.bound[LENGTH, Q])
    e2 = norm * (f.bound[ETA, L] + tiny * f.bound[LENGTH, L]) + 4.0 * UNIT
    return f.score[P, i], f.score[Q, i], f.score[L, i], e0, e1, e2


@kernel
def _pencil_line_dd(data, jitter, f, i, out):  # type: ignore[no-untyped-def]
    """x_i.Beta - t_i e_l of a pencil, times u.u: (s u.b+, s u.b-, -n u.u)."""
    sh, sl, es, nh, nl, en = pencil_dd(data, f, i, jitter)
    for c in range(2):
        d, d_lo, e = slope_dd(f, c)
        out[c], out[3 + c] = dd_mul(sh, sl, d, d_lo)
        out[6 + c] = abs(sh) * e + es * (abs(d) + e) + 4.0 * UNIT_DD * abs(out[c])
    uu, uu_lo = 0.0, 0.0
    for j in range(f.column.shape[2]):
        h, lo = f.column[BETA_HI, U, j], f.column[BETA_LO, U, j]
        ph, pl = dd_mul(h, lo, h, lo)
        uu, uu_lo = dd_add(uu, uu_lo, ph, pl)
    z, z_lo = dd_mul(nh, nl, uu, uu_lo)
    out[2], out[5] = -z, -z_lo
    out[8] = en * uu + 4.0 * abs(nh) * f.bound[ETA_DD, U] * f.bound[LENGTH, U] + 8.0 * UNIT_DD * abs(z)


@kernel
def _score_line_dd(data, jitter, f, i, out):  # type: ignore[no-untyped-def]
    """x_i.Beta - t_i e_l."""
    tiny = data.rows.shape[1] * UNIT_DD
    for c in range(3):
        out[c], out[3 + c] = dot_dd(data, f, i, c)
        out[6 + c] = data.point[NORM, i] * (f.bound[ETA_DD, c] + tiny * f.bound[LENGTH, c])
    out[2], out[5] = dd_add(out[2], out[5], -1.0, -jitter * data.point[TARGET_LO, i])
    out[8] += 4.0 * UNIT_DD


@kernel
def line_dd(data, state, jitter, f, code, out):  # type: ignore[no-untyped-def]
    """The line of a code in double-double: out[0:3] + out[3:6], with the error bounds out[6:9]."""
    if code < 0:
        for c in range(3):
            out[c], out[3 + c], out[6 + c] = f.table[-1 - code, c], 0.0, 0.0
        return
    i = code >> 1
    k = f.index[SLOT, i]
    flip = 1.0
    if k >= 0:
        for c in range(3):
            out[c], out[3 + c] = f.column[ALPHA_HI, c, k], f.column[ALPHA_LO, c, k]
            out[6 + c] = f.column[RHO, 0, k] * f.bound[ETA_DD, c]
        if code & 1 == 1:
            flip = -1.0
            c = data.axis[i]
            w = data.point[WEIGHT, i]
            out[c], out[3 + c] = dd_add(-w, -jitter * data.point[WEIGHT_LO, i], out[c], out[3 + c])
            out[6 + c] += UNIT_DD * w
    elif f.count[SIZE] == data.rows.shape[1] - 1:
        _pencil_line_dd(data, jitter, f, i, out)
    else:
        _score_line_dd(data, jitter, f, i, out)
    if k < 0 and state[i] != OUTSIDE:
        flip = -1.0
    for c in range(6):
        out[c] *= flip
