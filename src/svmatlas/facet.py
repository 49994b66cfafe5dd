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

Structure. With r the rank of all rows (r <= d): |M| = r makes the first two columns of Beta exactly zero, so no score line
is an edge; |M| = r - 1 makes all score lines parallel to one direction (D+, D-) = (u.b+, u.b-), where u spans what M leaves
free of the rows (it is what M leaves of a random combination of them, the ``probe``). Both are used as facts, not found by
rounding.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types
from numba.experimental import structref

from svmatlas.doubledouble import UNIT, UNIT_DD, dd_add, dd_axpy, dd_mul, kernel, two_prod, two_sum

OUTSIDE, INSIDE, MARGIN = 0, 1, 2
"""States of a point: g > 1 and alpha = 0; g < 1 and alpha at its bound; g = 1."""

P, Q, L, U = np.arange(4)
"""Columns: the cost of positives, the cost of negatives, the homogeneous one, and the free direction u.

(NumPy integers: numba compiles a function anew for each Python integer that is passed to it as a constant.)"""

# Named places in the workspaces
NORM, TARGET_LO, WEIGHT, WEIGHT_LO = 0, 1, 2, 3
MEMBER, SLOT = 0, 1
PULL, ALPHA, BETA, PULL_HI, PULL_LO, ALPHA_HI, ALPHA_LO, BETA_HI, BETA_LO, SCRATCH, RHO = range(11)
BASIS, TRIANGLE, INVERSE = 0, 1, 2
ETA, LENGTH, ETA_DD, REAL = 0, 1, 2, 3
KAPPA, MASS = 0, 1
SIZE, REFINED, N_PULL, PENCIL = 0, 1, 2, 4
CODE, CHECKED, SIGN = 0, 1, 2
N_REFINED, N_CORNERS, N_ASKED, N_LISTED, CROSS = 0, 1, 2, 3, 4

SHORTENED = 0.25
"""A vector that keeps less than this share of its length is orthogonalised again (loss of orthogonality <= 4 roundoffs)."""

WORST_KAPPA = 1e11
"""Refinement contracts errors by about kappa * gamma < 1e-2 below this; above it exact arithmetic takes over at once."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]


class Data(NamedTuple):
    """The rows of a problem as the kernels read them."""

    rows: Floats  # (N, d) signed rows x_i
    columns: Floats  # (d, N) the same, transposed
    point: Floats  # (4, N) by NORM, TARGET_LO, WEIGHT, WEIGHT_LO: |x_i|, jitter of the target 1, w_i, jitter of w_i
    axis: npt.NDArray[np.int8]  # (N,) column of the cost that bounds alpha_i: P or Q
    probe: Floats  # (d,) a random combination of the rows
    rank: int  # of the rows


class Region(NamedTuple):
    """A convex part of the triangle of costs. Corner j ends side j and begins side j + 1."""

    sides: Floats  # (k, 3) lines h.c >= 0
    corners: Floats  # (k, 3)
    axis: npt.NDArray[np.int8]  # (k,) P, Q or L where the side is p = 0, q = 0 or l = 0; else -1


@structref.register
class TaskType(types.StructRef):
    """Numba's type of a Task."""


class Task(structref.StructRefProxy):
    """The facet in hand with all workspaces, passed by reference between kernels. Its fields, first what is read:

    rows, columns, point, axis, probe, rank  as in Data;  sides, corners, side_axis  as in Region
    state (N,), jitter              the partition, and the factor of the jitter: 1 for decisions, 0 for solutions
    answers (n, 5)                  questions with their exact answers (polygon.py)

    then the maps of the facet:

    members (2, N + d + 1)          MEMBER: the points of M; SLOT: place of each point in M, or -1
    column (11, 4, r)               PULL b, ALPHA A, BETA Beta of each column, their double-doubles; SCRATCH; RHO: rho, scratch
    square (3, r, r)                BASIS Q, TRIANGLE R, INVERSE R^-1
    score (3, N)                    score lines, see score_lines
    bound (4, 4)                    ETA, LENGTH |Beta|, ETA_DD of each column; REAL: KAPPA, MASS sum of w_i |x_i| over I+, I-
    table (n_sides + 2 r + 2, 6)    lines with error bounds: sides, those of M, two of the pencil
    counts                          SIZE |M|; REFINED 0 not yet, 1 done, -1 hopeless; N_PULL |I+|, |I-|; PENCIL two codes

    and the polygon (first half) with the one that a clip makes of it (second half):

    edge (2, 3, cap)                CODE of the edges; CHECKED: corner j satisfies all lines; SIGN of a line at corner j
    corner (2, cap, 6)              corner j between edges j and j + 1, and its error bounds
    listed, asked (n, 4)            codes to be looked at again; questions for exact arithmetic
    exact (cap, 9)                  lines in double-double
    tally                           N_REFINED, N_CORNERS, N_ASKED, N_LISTED; CROSS the two codes in the last row of exact
    """


FIELDS = [
    "rows", "columns", "point", "axis", "probe", "rank", "sides", "corners", "side_axis", "state", "jitter", "answers",
    "members", "column", "square", "score", "bound", "table", "counts", "edge", "corner", "listed", "asked", "exact", "tally",
]  # fmt: skip
structref.define_constructor(Task, TaskType, FIELDS)


class Space(NamedTuple):
    """The workspaces of a Task, allocated by the caller."""

    members: Ints
    column: Floats
    square: Floats
    score: Floats
    bound: Floats
    table: Floats
    counts: Ints
    edge: Ints
    corner: Floats
    listed: Ints
    asked: Ints
    exact: Floats
    tally: Ints


def make_space(data: Data, region: Region) -> Space:
    """Allocate the workspaces: a polygon has at most as many edges as there are lines."""
    n, d = data.rows.shape
    n_sides = region.sides.shape[0]
    cap = n + d + n_sides + 8
    i = np.int64
    table = np.zeros((n_sides + 2 * d + 2, 6))
    table[:n_sides, :3] = region.sides
    return Space(
        members=np.zeros((2, n + d + 1), i),
        column=np.zeros((11, 4, d)),
        square=np.zeros((3, d, d)),
        score=np.zeros((3, n)),
        bound=np.zeros((4, 4)),
        table=table,
        counts=np.zeros(6, i),
        edge=np.zeros((2, 3, cap), i),
        corner=np.zeros((2, cap, 6)),
        listed=np.zeros(2 * cap, i),
        asked=np.zeros((2 * cap, 4), i),
        exact=np.zeros((cap, 9)),
        tally=np.zeros(6, i),
    )


@kernel
def make_task(data, region, space):
    """A Task over given workspaces."""
    return Task(
        data.rows, data.columns, data.point, data.axis, data.probe, data.rank, region.sides, region.corners, region.axis,
        data.axis, 1.0, space.asked, space.members, space.column, space.square, space.score, space.bound, space.table,
        space.counts, space.edge, space.corner, space.listed, space.asked, space.exact, space.tally,
    )  # fmt: skip


@kernel
def _dot(a, b):
    s = 0.0
    for j in range(a.size):
        s += a[j] * b[j]
    return s


@kernel
def gather(t):
    """List M and sum the pull of I."""
    t.column[PULL] = 0.0
    t.counts[N_PULL : N_PULL + 2] = 0
    t.bound[REAL, MASS : MASS + 2] = 0.0
    m = 0
    for i in range(t.state.size):
        t.members[SLOT, i] = -1
        if t.state[i] == MARGIN:
            if m < t.rows.shape[1]:
                t.members[MEMBER, m] = i
                t.members[SLOT, i] = m
            m += 1
        elif t.state[i] == INSIDE:
            c = t.axis[i]
            w = t.point[WEIGHT, i] + t.jitter * t.point[WEIGHT_LO, i]
            row, pull = t.rows[i], t.column[PULL, c]
            for j in range(row.size):
                pull[j] += w * row[j]
            t.counts[N_PULL + c] += 1
            t.bound[REAL, MASS + c] += w * t.point[NORM, i]
    t.counts[SIZE] = m
    t.counts[REFINED] = 0
    t.counts[PENCIL : PENCIL + 2] = -1
    return m


@kernel
def _project_out(t, k, v, r):
    """Remove the first k basis vectors from v, adding the coefficients to r[:k]; returns the length left."""
    before = np.sqrt(_dot(v, v))
    for _ in range(3):
        for j in range(k):
            q = t.square[BASIS, j]
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
def _orthogonalise(t, m):
    """X_M' = Q'R, the inverse of R, and the condition number of the normalised rows."""
    coefficients = t.column[SCRATCH, 0]
    for k in range(m):
        v = t.square[BASIS, k]
        for j in range(v.size):
            v[j] = t.rows[t.members[MEMBER, k], j]
            coefficients[j] = 0.0
        left = _project_out(t, k, v, coefficients)
        for j in range(k):
            t.square[TRIANGLE, j, k] = coefficients[j]
        t.square[TRIANGLE, k, k] = left
        if left == 0.0:
            t.bound[REAL, KAPPA] = np.inf
            return
        for j in range(v.size):
            v[j] /= left
    squares = 0.0
    for k in range(m):  # column k of R^-1
        t.column[RHO, 0, k] = 0.0
        t.square[INVERSE, k, k] = 1.0 / t.square[TRIANGLE, k, k]
        for i in range(k - 1, -1, -1):
            s = 0.0
            for j in range(i + 1, k + 1):
                s += t.square[TRIANGLE, i, j] * t.square[INVERSE, j, k]
            t.square[INVERSE, i, k] = -s / t.square[TRIANGLE, i, i]
        for i in range(k + 1):
            t.column[RHO, 0, i] += t.square[INVERSE, i, k] ** 2
    for k in range(m):
        squares += t.column[RHO, 0, k] * t.point[NORM, t.members[MEMBER, k]] ** 2
        t.column[RHO, 0, k] = np.sqrt(t.column[RHO, 0, k])
    t.bound[REAL, KAPPA] = max(1.0, np.sqrt(squares))


@kernel
def _back(t, m, y, out):
    """Solve R out = y."""
    for i in range(m - 1, -1, -1):
        s = y[i]
        for j in range(i + 1, m):
            s -= t.square[TRIANGLE, i, j] * out[j]
        out[i] = s / t.square[TRIANGLE, i, i]


@kernel
def _forward(t, m, g, out):
    """Solve R' out = g."""
    for i in range(m):
        s = g[i]
        for j in range(i):
            s -= t.square[TRIANGLE, j, i] * out[j]
        out[i] = s / t.square[TRIANGLE, i, i]


@kernel
def _solve_column(t, m, c):
    """Column c of A and Beta for the pull of that column."""
    y, beta = t.column[SCRATCH, 1], t.column[BETA, c]
    for j in range(beta.size):
        beta[j] = t.column[PULL, c, j]
        y[j] = 0.0
    _project_out(t, m, beta, y)
    _back(t, m, y, t.column[ALPHA, c])
    for k in range(m):
        t.column[ALPHA, c, k] = -t.column[ALPHA, c, k]
    if m == t.rank:
        beta[:] = 0.0


@kernel
def _solve_targets(t, m):
    """Column l: the weights of least length with X_M beta = t."""
    target, y, beta = t.column[SCRATCH, 1], t.column[SCRATCH, 2], t.column[BETA, L]
    for k in range(m):
        target[k] = 1.0 + t.jitter * t.point[TARGET_LO, t.members[MEMBER, k]]
    _forward(t, m, target, y)
    _back(t, m, y, t.column[ALPHA, L])
    beta[:] = 0.0
    for k in range(m):
        for j in range(beta.size):
            beta[j] += y[k] * t.square[BASIS, k, j]


@kernel
def _bound_column(t, m, c):
    """Eta of column c (see the head of this file)."""
    gamma = 2.0 * (t.column.shape[2] + m + 8) * UNIT
    kappa = t.bound[REAL, KAPPA]
    eta = 0.0
    for k in range(m):
        eta += t.point[NORM, t.members[MEMBER, k]] * abs(t.column[ALPHA, c, k])
    t.bound[LENGTH, c] = np.sqrt(_dot(t.column[BETA, c], t.column[BETA, c]))
    eta = gamma * (eta + kappa * t.bound[LENGTH, c])
    if c < L:
        eta += (gamma + t.counts[N_PULL + c] * UNIT) * t.bound[REAL, MASS + c]
    else:
        eta += gamma * kappa
    t.bound[ETA, c] = eta


@kernel
def _score(t, c, out):
    """x_i . Beta_c of all points."""
    out[:] = 0.0
    for j in range(t.column.shape[2]):
        s = t.column[BETA, c, j]
        column = t.columns[j]
        for i in range(out.size):
            out[i] += s * column[i]


@kernel
def solve_maps(t):
    """The maps of one partition, in doubles. False if |M| exceeds the rank, which no facet can have."""
    return solve_gathered(t, gather(t))


@kernel
def solve_gathered(t, m):
    """The same once M, of size m, and the pull of I are known."""
    if m > t.rank:
        return False
    _orthogonalise(t, m)
    if not t.bound[REAL, KAPPA] < WORST_KAPPA:
        t.counts[REFINED] = -1
    n_columns = 3
    if m == t.rank - 1:
        n_columns = 4
        for j in range(t.probe.size):
            t.column[PULL, U, j] = t.probe[j]
    for c in range(n_columns):
        if c == L:
            _solve_targets(t, m)
        else:
            _solve_column(t, m, c)
        _bound_column(t, m, c)
    return True


@kernel
def score_lines(t):
    """Lines of all points outside M into ``t.score``, one column a point, signed so that h.c >= 0 holds on the facet.

    With |M| = rank - 1 row P holds sign * x_i.u instead, and row Q is unused; with |M| = rank only row L is filled.
    """
    m = t.counts[SIZE]
    if m == t.rank - 1:
        _score(t, U, t.score[P])
    elif m < t.rank:
        _score(t, P, t.score[P])
        _score(t, Q, t.score[Q])
    _score(t, L, t.score[L])
    for i in range(t.state.size):
        sign = 1.0 if t.state[i] == OUTSIDE else -1.0
        t.score[P, i] *= sign
        t.score[Q, i] *= sign
        t.score[L, i] = sign * (t.score[L, i] - (1.0 + t.jitter * t.point[TARGET_LO, i]))


# ----------------------------------------------------------------------------------------------------------------------
# The same columns in double-double


@kernel
def target_dd(t, i):
    """The jittered target of a point: the jitter is large against a rounding error, so the sum has to be made anew."""
    return two_sum(1.0, t.jitter * t.point[TARGET_LO, i])


@kernel
def weight_dd(t, i):
    """The jittered weight of a point."""
    return two_sum(t.point[WEIGHT, i], t.jitter * t.point[WEIGHT_LO, i])


@kernel
def gather_dd(t):
    """The pulls of I+ and I- in double-double; that of column U is the probe."""
    t.column[PULL_HI] = 0.0
    t.column[PULL_LO] = 0.0
    for j in range(t.column.shape[2]):
        t.column[PULL_HI, U, j] = t.column[PULL, U, j]
    for i in range(t.state.size):
        if t.state[i] != INSIDE:
            continue
        c = t.axis[i]
        w, w_lo = weight_dd(t, i)
        for j in range(t.rows.shape[1]):  # the low parts add up in doubles: an error of N roundings of a rounding
            p, e = two_prod(t.rows[i, j], w)
            t.column[PULL_HI, c, j], f = two_sum(t.column[PULL_HI, c, j], p)
            t.column[PULL_LO, c, j] += f + (e + t.rows[i, j] * w_lo)
    for c in range(2):
        for j in range(t.rows.shape[1]):
            t.column[PULL_HI, c, j], t.column[PULL_LO, c, j] = two_sum(t.column[PULL_HI, c, j], t.column[PULL_LO, c, j])


@kernel
def _residual_dd(t, m, c):
    """Residuals of the augmented system: scratch[3] = b + X_M'A - Beta, scratch[4] = t - X_M Beta (rounded once)."""
    r = t.column.shape[2]
    for j in range(r):
        sh, sl = dd_add(t.column[PULL_HI, c, j], t.column[PULL_LO, c, j], -t.column[BETA_HI, c, j], -t.column[BETA_LO, c, j])
        for k in range(m):
            sh, sl = dd_axpy(sh, sl, t.rows[t.members[MEMBER, k], j], t.column[ALPHA_HI, c, k], t.column[ALPHA_LO, c, k])
        t.column[SCRATCH, 3, j] = sh + sl
    for k in range(m):
        sh, sl = 0.0, 0.0
        if c == L:
            sh, sl = target_dd(t, t.members[MEMBER, k])
        for j in range(r):
            sh, sl = dd_axpy(sh, sl, -t.rows[t.members[MEMBER, k], j], t.column[BETA_HI, c, j], t.column[BETA_LO, c, j])
        t.column[RHO, 1, k] = sh + sl


@kernel
def _correct_dd(t, m, c):
    """One step: R dA = R^-T g - Q f, dBeta = f + Q'(R^-T g - Q f). Returns the length of the step."""
    r = t.column.shape[2]
    z, step = t.column[SCRATCH, 1], t.column[SCRATCH, 2]
    _forward(t, m, t.column[RHO, 1], z)
    for k in range(m):
        z[k] -= _dot(t.square[BASIS, k], t.column[SCRATCH, 3])
    size = 0.0
    for k in range(m):
        size += z[k] * z[k]
    _back(t, m, z, step)
    for k in range(m):
        t.column[ALPHA_HI, c, k], t.column[ALPHA_LO, c, k] = dd_add(
            t.column[ALPHA_HI, c, k], t.column[ALPHA_LO, c, k], step[k], 0.0
        )
    if m == t.rank and c != L:
        return np.sqrt(size)
    for j in range(r):
        s = t.column[SCRATCH, 3, j]
        for k in range(m):
            s += z[k] * t.square[BASIS, k, j]
        size += s * s
        t.column[BETA_HI, c, j], t.column[BETA_LO, c, j] = dd_add(t.column[BETA_HI, c, j], t.column[BETA_LO, c, j], s, 0.0)
    return np.sqrt(size)


@kernel
def refine(t):
    """Correct all columns to double-double accuracy; t.counts[REFINED] tells whether that worked."""
    gather_dd(t)
    refine_gathered(t)


@kernel
def refine_gathered(t):
    """The same once the pull is known."""
    m, r = t.counts[SIZE], t.rows.shape[1]
    gamma = 2.0 * (r + m + 8) * UNIT
    kappa = t.bound[REAL, KAPPA]
    t.counts[REFINED] = 1
    for c in range(4 if m == t.rank - 1 else 3):
        for j in range(r):
            t.column[ALPHA_HI, c, j], t.column[ALPHA_LO, c, j] = t.column[ALPHA, c, j], 0.0
            t.column[BETA_HI, c, j], t.column[BETA_LO, c, j] = t.column[BETA, c, j], 0.0
        floor = t.bound[ETA, c] * (4.0 * UNIT_DD / UNIT)
        if c < L:
            floor += (t.counts[N_PULL + c] * UNIT) ** 2 * t.bound[REAL, MASS + c]
        for _ in range(8):
            _residual_dd(t, m, c)
            left = 4.0 * gamma * kappa * _correct_dd(t, m, c)
            if left <= floor:
                break
        t.bound[ETA_DD, c] = left + floor


@kernel
def dot_dd(t, i, c):
    """x_i . Beta_c from the refined maps."""
    sh, sl = 0.0, 0.0
    for j in range(t.rows.shape[1]):
        sh, sl = dd_axpy(sh, sl, t.rows[i, j], t.column[BETA_HI, c, j], t.column[BETA_LO, c, j])
    return sh, sl


# ----------------------------------------------------------------------------------------------------------------------
# Lines


@kernel
def slope(t, c):
    """D_c = u.b_c / u.u of the pencil (|M| = r - 1), and its error."""
    if t.counts[N_PULL + c] == 0:
        return 0.0, 0.0
    uu = t.bound[LENGTH, U] ** 2
    d = _dot(t.column[BETA, U], t.column[PULL, c]) / uu
    size = np.sqrt(_dot(t.column[PULL, c], t.column[PULL, c]))
    error = (t.bound[ETA, c] * t.bound[LENGTH, U] + 2.0 * t.bound[ETA, U] * (size + abs(d) * t.bound[LENGTH, U])) / uu
    return d, error


@kernel
def slope_dd(t, c):
    """u.b_c in double-double (not divided by u.u: one positive factor for the whole pencil), and its error."""
    sh, sl = 0.0, 0.0
    if t.counts[N_PULL + c] == 0:
        return sh, sl, 0.0
    size = 0.0
    for j in range(t.column.shape[2]):
        ph, pl = dd_mul(t.column[BETA_HI, U, j], t.column[BETA_LO, U, j], t.column[PULL_HI, c, j], t.column[PULL_LO, c, j])
        sh, sl = dd_add(sh, sl, ph, pl)
        size += t.column[PULL, c, j] ** 2
    error = t.bound[ETA_DD, U] * np.sqrt(size) + t.bound[ETA_DD, c] * t.bound[LENGTH, U]
    return sh, sl, error


@kernel
def rest_dd(t, i):
    """t_i - x_i.Beta_l from double-double, rounded, and its error."""
    g, g_lo = dot_dd(t, i, L)
    h, h_lo = target_dd(t, i)
    n, _ = dd_add(h, h_lo, -g, -g_lo)
    tiny = t.rows.shape[1] * UNIT_DD
    error = t.point[NORM, i] * (t.bound[ETA_DD, L] + tiny * t.bound[LENGTH, L]) + 4.0 * UNIT_DD
    return n, error + 2.0 * UNIT * abs(n)


@kernel
def pencil_dd(t, i):
    """S = x_i.u and n = t_i - x_i.Beta_l in double-double, each with its error: the line is s D.(p,q) = n l."""
    sh, sl = dot_dd(t, i, U)
    gh, gl = dot_dd(t, i, L)
    h, h_lo = target_dd(t, i)
    nh, nl = dd_add(h, h_lo, -gh, -gl)
    tiny = t.rows.shape[1] * UNIT_DD
    es = t.point[NORM, i] * (t.bound[ETA_DD, U] + tiny * t.bound[LENGTH, U])
    en = t.point[NORM, i] * (t.bound[ETA_DD, L] + tiny * t.bound[LENGTH, L]) + 4.0 * UNIT_DD
    return sh, sl, es, nh, nl, en


@kernel
def tabulate_margin(t):
    """The lines of M in doubles, with error bounds, into the table."""
    row = t.table.shape[0] - 2 * t.rows.shape[1] - 2
    for k in range(t.counts[SIZE]):
        i = t.members[MEMBER, k]
        w = t.point[WEIGHT, i] + t.jitter * t.point[WEIGHT_LO, i]
        for c in range(3):
            a = t.column[ALPHA, c, k]
            e = t.column[RHO, 0, k] * t.bound[ETA, c] + 2.0 * UNIT * abs(a)
            t.table[row, c], t.table[row, 3 + c] = a, e
            t.table[row + 1, c], t.table[row + 1, 3 + c] = -a, e
            if c == t.axis[i]:
                t.table[row + 1, c] += w
                t.table[row + 1, 3 + c] += 2.0 * UNIT * w
        row += 2


@kernel
def tabulate_pencil(t, side):
    """One line of the pencil, divided by |x_i.u|: all of the pencil have the same first two entries."""
    i = t.counts[PENCIL + side] >> 1
    tiny = t.rows.shape[1] * UNIT
    h = t.table[t.table.shape[0] - 2 + side]
    s, rest, norm = t.score[P, i], t.score[L, i], t.point[NORM, i]
    size = abs(s)
    es = norm * (t.bound[ETA, U] + tiny * t.bound[LENGTH, U])
    e = norm * (t.bound[ETA, L] + tiny * t.bound[LENGTH, L]) + 4.0 * UNIT
    for c in range(2):
        d, error = slope(t, c)
        h[c] = d if s > 0 else -d
        h[3 + c] = error if size > es else np.inf
    h[2] = rest / size
    h[5] = (e + abs(rest) * es / size) / (size - es) + 4.0 * UNIT * abs(h[2]) if size > es else np.inf


@kernel
def table_row(t, code):
    """Where the line of a code stands in the table; -1 for a score line outside a pencil."""
    if code < 0:
        return -1 - code
    n = t.table.shape[0] - 2
    k = t.members[SLOT, code >> 1]
    if k >= 0:
        return n - 2 * t.rows.shape[1] + 2 * k + (code & 1)
    if t.counts[PENCIL] == code:
        return n
    return n + 1 if t.counts[PENCIL + 1] == code else -1


@kernel
def line(t, code):
    """The line of a code in doubles: (h_p, h_q, h_l, e_p, e_q, e_l), e bounding the errors."""
    row = table_row(t, code)
    if row >= 0:
        h = t.table
        return h[row, 0], h[row, 1], h[row, 2], h[row, 3], h[row, 4], h[row, 5]
    i = code >> 1
    norm = t.point[NORM, i]
    tiny = t.rows.shape[1] * UNIT
    e0 = norm * (t.bound[ETA, P] + tiny * t.bound[LENGTH, P])
    e1 = norm * (t.bound[ETA, Q] + tiny * t.bound[LENGTH, Q])
    e2 = norm * (t.bound[ETA, L] + tiny * t.bound[LENGTH, L]) + 4.0 * UNIT
    return t.score[P, i], t.score[Q, i], t.score[L, i], e0, e1, e2


@kernel
def _pencil_line_dd(t, i, out):
    """x_i.Beta - t_i e_l of a pencil, times u.u: (s u.b+, s u.b-, -n u.u)."""
    sh, sl, es, nh, nl, en = pencil_dd(t, i)
    for c in range(2):
        d, d_lo, e = slope_dd(t, c)
        out[c], out[3 + c] = dd_mul(sh, sl, d, d_lo)
        out[6 + c] = abs(sh) * e + es * (abs(d) + e) + 4.0 * UNIT_DD * abs(out[c])
    uu, uu_lo = 0.0, 0.0
    for j in range(t.column.shape[2]):
        h, lo = t.column[BETA_HI, U, j], t.column[BETA_LO, U, j]
        ph, pl = dd_mul(h, lo, h, lo)
        uu, uu_lo = dd_add(uu, uu_lo, ph, pl)
    z, z_lo = dd_mul(nh, nl, uu, uu_lo)
    out[2], out[5] = -z, -z_lo
    out[8] = en * uu + 4.0 * abs(nh) * t.bound[ETA_DD, U] * t.bound[LENGTH, U] + 8.0 * UNIT_DD * abs(z)


@kernel
def _score_line_dd(t, i, out):
    """x_i.Beta - t_i e_l."""
    tiny = t.rows.shape[1] * UNIT_DD
    for c in range(3):
        out[c], out[3 + c] = dot_dd(t, i, c)
        out[6 + c] = t.point[NORM, i] * (t.bound[ETA_DD, c] + tiny * t.bound[LENGTH, c])
    h, h_lo = target_dd(t, i)
    out[2], out[5] = dd_add(out[2], out[5], -h, -h_lo)
    out[8] += 4.0 * UNIT_DD


@kernel
def line_dd(t, code, out):
    """The line of a code in double-double: out[0:3] + out[3:6], with the error bounds out[6:9]."""
    if code < 0:
        for c in range(3):
            out[c], out[3 + c], out[6 + c] = t.table[-1 - code, c], 0.0, 0.0
        return
    i = code >> 1
    k = t.members[SLOT, i]
    flip = 1.0
    if k >= 0:
        for c in range(3):
            out[c], out[3 + c] = t.column[ALPHA_HI, c, k], t.column[ALPHA_LO, c, k]
            out[6 + c] = t.column[RHO, 0, k] * t.bound[ETA_DD, c]
        if code & 1 == 1:
            flip = -1.0
            c = t.axis[i]
            w, w_lo = weight_dd(t, i)
            out[c], out[3 + c] = dd_add(-w, -w_lo, out[c], out[3 + c])
            out[6 + c] += UNIT_DD * w
    elif t.counts[SIZE] == t.rank - 1:
        _pencil_line_dd(t, i, out)
    else:
        _score_line_dd(t, i, out)
    if k < 0 and t.state[i] != OUTSIDE:
        flip = -1.0
    for c in range(6):
        out[c] *= flip
