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

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.engine.compiled import kernel, sums
from svmatlas.engine.doubledouble import UNIT, UNIT_DD, dd_add, dd_axpy, dd_mul, two_prod, two_sum
from svmatlas.engine.record import make_memory, make_record

OUTSIDE, INSIDE, MARGIN = 0, 1, 2
"""States of a point: g > 1 and alpha = 0; g < 1 and alpha at its bound; g = 1."""

P, Q, L, U = np.arange(4)
"""Columns: the cost of positives, the cost of negatives, the homogeneous one, and the free direction u.

(NumPy integers: numba compiles a function anew for each Python integer that is passed to it as a constant.)"""

# Named places in the workspaces
NORM, TARGET_LO, WEIGHT, WEIGHT_LO = 0, 1, 2, 3
MEMBER, SLOT, STAMP = 0, 1, 2
PULL, ALPHA, BETA, PULL_HI, PULL_LO, ALPHA_HI, ALPHA_LO, BETA_HI, BETA_LO, SCRATCH, RHO, SWAY_ALPHA, SWAY_BETA = range(13)
HIGH, LOW, SWAY = 0, 1, 2
BASIS, TRIANGLE, INVERSE = 0, 1, 2
ETA, LENGTH, ETA_DD, REAL, ETA_JITTER, LENGTH_JITTER = range(6)
KAPPA, ETA_SWAY, LENGTH_SWAY, RADIUS = 0, 1, 2, 3
SIZE, REFINED, N_PULL, PENCIL, FILLED, ANCHOR, SIGNED, REDUCED, KEPT = 0, 1, 2, 4, 6, 7, 8, 9, 10
AT_HOME, N_HOME, AROUND, SOLVED, SWAYED = 11, 12, 13, 14, 15
SCORES, TIED = 3, 4
SURPLUS = 6
PER_NORM, JITTERS, AXES, SIGNS, WEIGHTS, COSINES, SLOPES, PER_SLOPE, SWAYS, VALUES, ERRORS, FOLDED = range(12)
CODE, CHECKED, SIGN, HINT = 0, 1, 2, 3
N_REFINED, N_CORNERS, N_ASKED, N_LISTED, CROSS, N_ZERO, ENTERED = 0, 1, 2, 3, 4, 6, 7

CUT = 8
"""Least name of the sides of a tile that are inside the region: CUT and the number of the side."""

SHORTENED = 0.25
"""A vector that keeps less than this share of its length is orthogonalised again (loss of orthogonality <= 4 roundoffs)."""

WORST_KAPPA = 1e11
"""Refinement contracts errors by about kappa * gamma < 1e-2 below this; above it exact arithmetic takes over at once."""

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Ints = npt.NDArray[np.intp]
Words = npt.NDArray[np.uint64]


class Data(NamedTuple):
    """The rows of a problem as the kernels read them."""

    rows: Floats  # (N, d) signed rows x_i
    columns: Floats  # (d, N) the same, transposed
    point: Floats  # (4, N) by NORM, TARGET_LO, WEIGHT, WEIGHT_LO: |x_i|, jitter of the target 1, w_i, jitter of w_i
    axis: npt.NDArray[np.int8]  # (N,) column of the cost that bounds alpha_i: P or Q
    probe: Floats  # (d,) a random combination of the rows
    rank: int  # of the rows
    anchor: float  # a where e = (0, ..., 0, a) has x_i.e = 1 for all positive rows and -1 for all others: 1/B; 0 for none


class Region(NamedTuple):
    """A convex part of the triangle of costs. Corner j ends side j and begins side j + 1."""

    sides: Floats  # (k, 3) lines h.c >= 0
    corners: Floats  # (k, 3)
    axis: npt.NDArray[np.int8]  # (k,) P, Q or L where the side is p = 0, q = 0 or l = 0; else -1
    name: Ints  # (k,) number of the side; in a tile that of the side of the region that it is part of, CUT + j if of none


class Task(NamedTuple):
    """The facet in hand with all workspaces, a record (record.py). Its fields, first what is read:

    rows, columns, point, axis, probe, rank, anchor  as in Data;  sides, corners, side_axis, side_name  as in Region
    state (N,), jitter              the partition, and the factor of the jitter: 1 for decisions, 0 for solutions
    pull (3, 2, d + 1), drift       sums of w_i x_i over I+ and I- as HIGH + LOW + jitter SWAY, after HIGH the number of
                                    points, and a bound on the error of the sums
    answers (n, 5)                  questions with their exact answers (polygon.py)
    known (n, 3)                    corners of other facets, none of them coarse (polygon.py)
    shortest                        least length of a row
    unit (d + 3 or less, N)         rows of length 1, transposed, in single precision, filled up with zeros
    everyone (N,)                   0, 1, 2, ...
    home (d,), side (N,)            weights; for each point the set that it is in wherever weights are within RADIUS, or -1;
    who (N,), where (N,)            the points with -1, and the place of each point among them, or -1 (_settle in polygon.py)
    home_unit, home_single          ``unit`` and ``single`` of these points
    neighbours                      so many points are to be near home; 0 for no home

    then the maps of the facet:

    members (3, N + d + 1)          MEMBER: the points of M; SLOT: place of each point in M, or -1; STAMP: see fill_score
    column (13, 4, r)               PULL b, ALPHA A, BETA Beta of each column, their double-doubles; SCRATCH; RHO: rho,
                                    three scratch rows; SWAY: derivatives by the jitter
    square (3, r, r)                BASIS Q; TRIANGLE R, and R' below the diagonal; INVERSE R^-1
    score (5, N)                    score lines, see fill_score; SCORES of all points at one corner; TIED scratch
    single (12, N or d + 3)         in single precision: PER_NORM 1 / |x_i|; JITTERS of targets divided by |x_i|; AXES as axis;
                                    SIGNS -1 for I, else 1; COSINES of points with some WEIGHTS of length 1; of a pencil SLOPES
                                    with u and PER_SLOPE 1 / |these|, SWAYS with S, VALUES and ERRORS of bounds; FOLDED scratch
    bound (6, 4)                    ETA, LENGTH |Beta|, ETA_DD of each column; REAL: KAPPA; ETA, LENGTH of SWAY_BETA_l;
                                    RADIUS around home, 0 if not known yet; ETA_JITTER, LENGTH_JITTER as the first two, of
                                    the derivatives by the jitter
    table (7, n_sides + 2 r + 2)    lines with error bounds: sides, those of M, two of the pencil; SURPLUS of these at a corner
    counts                          SIZE |M|; REFINED 0 not yet, 1 done, -1 hopeless; N_PULL |I+|, |I-|; PENCIL two codes;
                                    FILLED see fill_score; ANCHOR P or Q if M is all of that class (see there), else -1;
                                    SIGNED see sign_points; REDUCED as FILLED if the lines of the pencil are known;
                                    KEPT columns of ``square`` that are those of the first points of M; AT_HOME: are only
                                    the N_HOME points of ``who`` to be looked at near ``home``? AROUND: was the pencil
                                    chosen from these? SOLVED as FILLED if ``solved`` is of this facet, minus that if it cannot
                                    be; SWAYED as FILLED if the derivatives by the jitter are

    and the polygon (first half) with the one that a clip makes of it (second half):

    edge (2, 4, cap)                CODE of the edges; CHECKED: corner j satisfies all lines; SIGN of a line at corner j;
                                    HINT: which of the known corners it is, or -1
    corner (2, cap, 6)              corner j between edges j and j + 1, and its error bounds
    listed, asked (n, 4)            codes to be looked at again; questions for exact arithmetic
    exact (cap, 9)                  lines in double-double
    residue (r + 1, r), pivot (r)   room for zero tests modulo a prime; the last row: a vector orthogonal to M (mersenne.py)

    and the same modulo the prime, by powers of the jitter (zeros.py):

    modular (N, d + 1)              rows, and whether they are known; without rows nothing is found modulo the prime
    summed (N,), sums (2, 2, d)     a partition, and its pulls
    system (d, d + 6)               equations
    solved (2, 2, 3, d)             A and Beta
    traced (cap, 9), ends (cap, 3)  lines of the polygon, and its corners without jitter; the last rows are scratch
    parts (3, 18)                   two lines, in doubles: without jitter, errors, derivatives by the jitter, errors; and their
                                    corner by powers of the jitter, errors
    tally                           N_REFINED, N_CORNERS, N_ASKED, N_LISTED, N_ZERO; CROSS two codes, in the last row of exact;
                                    ENTERED two codes, FILLED and the sign of the corner in ``parts``
    """

    rows: Floats
    columns: Floats
    point: Floats
    axis: npt.NDArray[np.int8]
    probe: Floats
    rank: int
    anchor: float
    sides: Floats
    corners: Floats
    side_axis: npt.NDArray[np.int8]
    side_name: Ints
    state: npt.NDArray[np.int8]
    jitter: float
    pull: Floats
    drift: float
    answers: Ints
    known: Floats
    shortest: float
    unit: Singles
    everyone: Ints
    home: Floats
    side: npt.NDArray[np.int8]
    who: Ints
    where: Ints
    home_unit: Singles
    home_single: Singles
    neighbours: int
    members: Ints
    column: Floats
    square: Floats
    score: Floats
    single: Singles
    bound: Floats
    table: Floats
    counts: Ints
    edge: Ints
    corner: Floats
    listed: Ints
    asked: Ints
    exact: Floats
    residue: npt.NDArray[np.uint64]
    pivot: Ints
    modular: Words
    summed: npt.NDArray[np.int8]
    sums: Words
    system: Words
    solved: Words
    traced: Words
    ends: Words
    parts: Floats
    tally: Ints


class Space(NamedTuple):
    """The workspaces of a Task, allocated by the caller."""

    members: Ints
    column: Floats
    square: Floats
    score: Floats
    single: Singles
    bound: Floats
    table: Floats
    counts: Ints
    edge: Ints
    corner: Floats
    listed: Ints
    asked: Ints
    exact: Floats
    residue: npt.NDArray[np.uint64]
    pivot: Ints
    modular: Words
    summed: npt.NDArray[np.int8]
    sums: Words
    system: Words
    solved: Words
    traced: Words
    ends: Words
    parts: Floats
    tally: Ints
    pull: Floats
    shortest: float
    unit: Singles
    everyone: Ints
    home: Floats
    side: npt.NDArray[np.int8]
    who: Ints
    where: Ints
    home_unit: Singles
    home_single: Singles
    neighbours: int
    neighbour: Ints  # scratch of layers.py
    memory: npt.NDArray[np.uint8]  # for the record


def make_space(data: Data, region: Region, closing: bool = True) -> Space:
    """Allocate the workspaces: a polygon has at most as many edges as there are lines.

    They are for any region of no more than MOST_SIDES sides, or as many as this one has. ``closing``: are polygons wanted,
    beside maps?
    """
    n, d = data.rows.shape
    n_sides = max(MOST_SIDES, region.sides.shape[0])
    cap = n + d + n_sides + 8
    i = np.int64
    unit, single = _in_single(data) if closing else np.zeros((2, 0, 0), np.float32)
    return Space(
        members=np.full((3, n + d + 1), -1, i),
        column=np.zeros((13, 4, d)),
        square=np.zeros((3, d, d)),
        score=np.zeros((5, n)),
        single=single,
        bound=np.zeros((6, 4)),
        table=np.zeros((7, n_sides + 2 * d + 2)),
        counts=np.zeros(16, i),
        edge=np.zeros((2, 4, cap), i),
        corner=np.zeros((2, cap, 6)),
        listed=np.zeros(2 * cap, i),
        asked=np.zeros((2 * cap, 4), i),
        exact=np.zeros((cap, 9)),
        residue=np.zeros((d + 1, d), np.uint64),
        pivot=np.zeros(d, i),
        modular=np.zeros((n if closing else 0, d + 1), np.uint64),
        summed=np.full(n, OUTSIDE, np.int8),
        sums=np.zeros((2, 2, d), np.uint64),
        system=np.zeros((d, d + 6), np.uint64),
        solved=np.zeros((2, 2, 3, d), np.uint64),
        traced=np.zeros((cap, 9), np.uint64),
        ends=np.zeros((cap, 3), np.uint64),
        parts=np.zeros((3, 18)),
        tally=np.zeros(11, i),
        pull=np.zeros((3, 2, d + 1)),
        shortest=float(data.point[NORM].min(initial=1.0)),
        unit=unit,
        everyone=np.arange(n),
        home=np.zeros(d),
        side=np.zeros(n, np.int8),
        who=np.zeros(n, i),
        where=np.zeros(n, i),
        home_unit=_on_lines(*unit.shape),
        home_single=_on_lines(*single.shape),
        neighbours=0,
        neighbour=np.zeros(cap, i),
        memory=make_memory(),
    )


MOST_SIDES = 4
"""A box of costs has no more."""


def clear(space: Space) -> None:
    """Forget the facet in hand, and home."""
    space.members.fill(-1)
    space.counts.fill(0)
    space.bound.fill(0.0)


def _in_single(data: Data) -> tuple[Singles, Singles]:
    """What is read in single precision."""
    (d, n), norm = data.columns.shape, data.point[NORM]
    unit, single = _on_lines(d + -d % 4, n), _on_lines(12, max(n, d + -d % 4))
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # what is not finite says nothing
        single[PER_NORM, :n], single[JITTERS, :n], single[AXES, :n] = 1.0 / norm, data.point[TARGET_LO] / norm, data.axis
    np.divide(data.columns, norm, out=unit[:d, :n], where=norm > 0, casting="same_kind")
    return unit, single


def _on_lines(rows: int, columns: int) -> Singles:
    """Zeros of which each row begins with a cache line: vectors of a row are then in one line each."""
    size = columns + -columns % 16
    memory = np.zeros(rows * size + 16, np.float32)
    first = -memory.ctypes.data // 4 % 16
    return memory[first : first + rows * size].reshape(rows, size)


@kernel
def make_task(data, region, space):
    """A Task over given workspaces."""
    for j in range(region.sides.shape[0]):
        for c in range(3):
            space.table[c, j], space.table[3 + c, j] = region.sides[j, c], 0.0
    fields = Task(
        data.rows, data.columns, data.point, data.axis, data.probe, data.rank, data.anchor,
        region.sides, region.corners, region.axis, region.name, data.axis, 1.0, space.pull, 0.0, space.asked[:0],
        region.corners, space.shortest, space.unit, space.everyone, space.home, space.side, space.who, space.where,
        space.home_unit, space.home_single, space.neighbours,
        space.members, space.column, space.square, space.score, space.single, space.bound, space.table, space.counts,
        space.edge, space.corner, space.listed, space.asked, space.exact, space.residue, space.pivot,
        space.modular, space.summed, space.sums, space.system, space.solved, space.traced, space.ends, space.parts,
        space.tally,
    )  # fmt: skip
    return make_record(fields, space.memory)


@sums
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
def move_pull(rows, point, axis, pull, i, sign):
    """Add (or with sign -1 subtract) point i to the pulls."""
    c, w, sway = axis[i], sign * point[WEIGHT, i], sign * point[WEIGHT_LO, i]
    for j in range(rows.shape[1]):
        p, e = two_prod(rows[i, j], w)
        s, f = two_sum(pull[HIGH, c, j], p)
        pull[HIGH, c, j], pull[LOW, c, j] = two_sum(s, pull[LOW, c, j] + (e + f))
        pull[SWAY, c, j] += rows[i, j] * sway
    pull[HIGH, c, rows.shape[1]] += sign


@kernel
def sum_pull(rows, point, axis, state, pull):
    """The pulls of a partition."""
    pull[:] = 0.0
    for i in range(state.size):
        if state[i] == INSIDE:
            move_pull(rows, point, axis, pull, i, 1.0)


@kernel
def follow_pull(rows, point, axis, before, state, pull):
    """The pulls of a partition from those of another one; returns the number of moves."""
    moves = 0
    for i in range(state.size):
        if before[i] != state[i] and (before[i] == INSIDE or state[i] == INSIDE):
            move_pull(rows, point, axis, pull, i, 1.0 if state[i] == INSIDE else -1.0)
            moves += 1
    return moves


def drift_of(data: Data, n_moves: int) -> float:
    """Bound on the error of pulls after so many moves: each is a double-double addition, in the jitter one of doubles."""
    size = data.point[NORM] @ np.abs(data.point[[WEIGHT, WEIGHT_LO]].T)
    return float(n_moves * (UNIT_DD * size[0] + UNIT * size[1]))


@kernel
def gather(t):
    """List M, and round the pulls. Points that were in M before come first, in their order: see _orthogonalise."""
    state, m, kept, r = t.state, 0, 0, t.rows.shape[1]
    member, slot = t.members[MEMBER], t.members[SLOT]
    for k in range(min(t.counts[SIZE], r)):
        i = member[k]
        slot[i] = -1
        if state[i] == MARGIN:
            kept += m == k
            member[m], slot[i] = i, m
            m += 1
    t.counts[KEPT] = min(t.counts[KEPT], kept)
    n = state.size - state.size % 8
    words = state[:n].view(np.uint64)
    for w in range(words.size):
        left = words[w] & EIGHT_MARGINS
        while left != 0:
            lowest = left & (~left + ONE)
            i = 8 * w + np.int64((lowest >> ONE) * WHICH_BYTE >> TOP_BYTE)
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
        t.counts[N_PULL + c] = np.int64(t.pull[HIGH, c, t.rows.shape[1]])
        if t.counts[N_PULL + c] == 0:  # zero by structure, not up to rounding
            t.pull[:, c] = 0.0
        _round_pull(t.pull[HIGH, c], t.pull[LOW, c], t.pull[SWAY, c], t.jitter, t.column[PULL, c])
    t.counts[SIZE] = m
    t.counts[REFINED] = 0
    t.counts[PENCIL : PENCIL + 2] = -1
    t.counts[FILLED] += 1
    return m


@kernel
def _round_pull(high, low, sway, jitter, out):
    for j in range(out.size):
        out[j] = high[j] + (low[j] + jitter * sway[j])


EIGHT_MARGINS = np.uint64(0x0202020202020202)
"""The bit of MARGIN in eight states."""

WHICH_BYTE, TOP_BYTE, ONE = np.uint64(0x0001020304050607), np.uint64(56), np.uint64(1)
"""2^(8 k) times the first has k in its top byte."""


@kernel
def sign_points(t):
    """Fill row SIGNS, once for a facet."""
    if t.counts[SIGNED] != t.counts[FILLED]:
        t.counts[SIGNED] = t.counts[FILLED]
        state, signs = t.state, t.single[SIGNS]
        for i in range(state.size):
            signs[i] = MINUS if state[i] == INSIDE else PLUS


PLUS, MINUS = np.float32(1.0), np.float32(-1.0)
"""Signs in single precision."""


@sums
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


@sums
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
    basis, shares = t.square[BASIS], t.column[RHO, 2]
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

    The first KEPT columns are those of the facet before: the points that move are mostly those that came last.
    """
    coefficients = t.column[SCRATCH, 0]
    basis, triangle, inverse, rho = t.square[BASIS], t.square[TRIANGLE], t.square[INVERSE], t.column[RHO, 0]
    for k in range(t.counts[KEPT], m):
        t.counts[KEPT] = k
        v, row = basis[k], t.rows[t.members[MEMBER, k]]
        for j in range(v.size):
            v[j] = row[j]
            coefficients[j] = 0.0
        left = _project_out(t, k, v, coefficients)
        for j in range(k):
            triangle[j, k] = triangle[k, j] = coefficients[j]
        triangle[k, k] = left
        if left == 0.0:
            t.bound[REAL, KAPPA] = np.inf
            return
        scale = 1.0 / left
        for j in range(v.size):
            v[j] *= scale
        for i in range(k):
            inverse[i, k] = -scale * dot(inverse[i, i:k], coefficients[i:k])
        inverse[k, k] = scale
    t.counts[KEPT] = m
    squares, norm, member = 0.0, t.point[NORM], t.members[MEMBER]
    for k in range(m):
        square = dot(inverse[k, k:m], inverse[k, k:m])
        squares += square * norm[member[k]] ** 2
        rho[k] = np.sqrt(square)
    t.bound[REAL, KAPPA] = max(1.0, np.sqrt(squares))


@kernel
def _back(t, m, y, out):
    """Solve R out = y."""
    triangle, inverse = t.square[TRIANGLE], t.square[INVERSE]
    for i in range(m):
        out[i] = y[i]
    for i in range(m - 1, -1, -1):
        s, column = out[i] * inverse[i, i], triangle[i]
        out[i] = s
        for j in range(i):
            out[j] -= s * column[j]


@kernel
def _forward(t, m, g, out):
    """Solve R' out = g."""
    triangle, inverse = t.square[TRIANGLE], t.square[INVERSE]
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
    y = t.column[SCRATCH, 1]
    for j in range(beta.size):
        beta[j] = pull[j]
        y[j] = 0.0
    _project_out(t, m, beta, y)
    _back(t, m, y, alpha)
    for k in range(m):
        alpha[k] = -alpha[k]
    if m == t.rank:
        beta[:] = 0.0


@kernel
def _solve_targets(t, m, base, jitter, alpha, beta):
    """Column l: the weights of least length with the targets base + jitter r_i on M."""
    target, y, low, member = t.column[SCRATCH, 1], t.column[SCRATCH, 2], t.point[TARGET_LO], t.members[MEMBER]
    for k in range(m):
        target[k] = base + jitter * low[member[k]]
    _forward(t, m, target, y)
    _back(t, m, y, alpha)
    beta[:] = 0.0
    basis = t.square[BASIS]
    for k in range(m):
        s, q = y[k], basis[k]
        for j in range(beta.size):
            beta[j] += s * q[j]


@sums
def _size_of(norm, member, alpha):
    """Sum of |x_j||A_j| over M."""
    s = 0.0
    for k in range(member.size):
        s += norm[member[k]] * abs(alpha[k])
    return s


@kernel
def _bound_column(t, m, c):
    """Eta of column c (see the head of this file)."""
    gamma = 2.0 * (t.columns.shape[0] + m + 8) * UNIT
    kappa = t.bound[REAL, KAPPA]
    eta = _size_of(t.point[NORM], t.members[MEMBER, :m], t.column[ALPHA, c])
    t.bound[LENGTH, c] = length_of(t.column[BETA, c])
    eta += kappa * t.bound[LENGTH, c]
    if c == L:
        eta += kappa
    else:
        eta += length_of(t.column[PULL, c])
    t.bound[ETA, c] = gamma * eta
    if c < L and t.counts[N_PULL + c] > 0:
        t.bound[ETA, c] += t.drift


@sums
def _score(columns, beta, out):
    """x_i . beta of all points; four columns at a time, so that the sums stay in registers."""
    out[:] = 0.0
    d = columns.shape[0]
    for j in range(0, d - d % 4, 4):
        s0, s1, s2, s3 = beta[j], beta[j + 1], beta[j + 2], beta[j + 3]
        c0, c1, c2, c3 = columns[j], columns[j + 1], columns[j + 2], columns[j + 3]
        for i in range(out.size):
            out[i] += (s0 * c0[i] + s1 * c1[i]) + (s2 * c2[i] + s3 * c3[i])
    for j in range(d - d % 4, d):
        s, column = beta[j], columns[j]
        for i in range(out.size):
            out[i] += s * column[i]


@kernel
def solve_maps(t):
    """Fill ``f`` for one partition, in doubles. False if |M| exceeds the rank, which no facet can have."""
    m = gather(t)
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
            _solve_targets(t, m, 1.0, t.jitter, t.column[ALPHA, c], t.column[BETA, c])
        else:
            _solve_column(t, m, t.column[PULL, c], t.column[ALPHA, c], t.column[BETA, c])
        _bound_column(t, m, c)
    t.counts[ANCHOR] = -1
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
        sum_pull(t.rows, t.point, t.axis, t.state, t.pull)
    else:
        moves += follow_pull(t.rows, t.point, t.axis, states[before], t.state, t.pull)
    t.drift = drift * moves
    solve_maps(t)
    return moves


@kernel
def can_anchor(t, m):
    """Is a facet with |M| = m anchored, if M is all of one class? (Smaller ones could be, but are few.)"""
    return t.anchor > 0.0 and 0 < m < t.rank and m >= t.rank - 2


@kernel
def _anchor(t, m):
    """Is M all of one class? Then the column of the jitter alone."""
    axis = t.axis[t.members[MEMBER, 0]]
    top = 0.0
    for k in range(m):
        if t.axis[t.members[MEMBER, k]] != axis:
            return
    t.counts[ANCHOR] = axis
    alpha, beta = t.column[SWAY_ALPHA, L], t.column[SWAY_BETA, L]
    _solve_targets(t, m, 0.0, 1.0, alpha, beta)
    for k in range(m):
        top = max(top, abs(t.point[TARGET_LO, t.members[MEMBER, k]]))
    size, length = _size_of(t.point[NORM], t.members[MEMBER, :m], alpha), length_of(beta)
    gamma = 2.0 * (t.columns.shape[0] + m + 8) * UNIT
    t.bound[REAL, LENGTH_SWAY] = length
    t.bound[REAL, ETA_SWAY] = gamma * (size + t.bound[REAL, KAPPA] * (length + top))


@kernel
def is_anchored(t, code):
    """Is this a score line of the class that the facet is anchored to?"""
    return code >= 0 and t.counts[ANCHOR] == t.axis[code >> 1] and t.members[SLOT, code >> 1] < 0


@kernel
def anchored_rest(t, i):
    """x_i.S - r_i, and its error."""
    norm, r = t.point[NORM, i], t.point[TARGET_LO, i]
    tiny = (t.columns.shape[0] + 2) * UNIT
    error = norm * (t.bound[REAL, ETA_SWAY] + tiny * t.bound[REAL, LENGTH_SWAY]) + 2.0 * UNIT * abs(r)
    return dot(t.rows[i], t.column[SWAY_BETA, L]) - r, error


@kernel
def anchored_line(t, code):
    """The line of a code (|M| < rank - 1) with x_i.S - r_i in place of h_l, and errors."""
    h0, h1, _, e0, e1, _ = line(t, code)
    rest, error = anchored_rest(t, code >> 1)
    return h0, h1, (rest if t.state[code >> 1] == OUTSIDE else -rest), e0, e1, error


@kernel
def pencil_origin(t):
    """v0 = u.e / u.u, and its error."""
    uu = t.bound[LENGTH, U] ** 2
    e = t.anchor if t.counts[ANCHOR] == P else -t.anchor
    v = t.column[BETA, U, t.columns.shape[0] - 1] * e / uu
    size = t.bound[LENGTH, U]
    return v, 2.0 * t.bound[ETA, U] * (t.anchor + abs(v) * size) / uu + 16.0 * UNIT * abs(v) * t.columns.shape[0]


@kernel
def bound_sway(t):
    """The derivatives of the maps by the jitter, once for a facet, with bounds as those of the maps."""
    if t.counts[SWAYED] == t.counts[FILLED]:
        return
    t.counts[SWAYED] = t.counts[FILLED]
    solve_sway(t)
    m, kappa, top = t.counts[SIZE], t.bound[REAL, KAPPA], 0.0
    for k in range(m):
        top = max(top, abs(t.point[TARGET_LO, t.members[MEMBER, k]]))
    for c in range(3):
        length = length_of(t.column[SWAY_BETA, c])
        eta = _size_of(t.point[NORM], t.members[MEMBER, :m], t.column[SWAY_ALPHA, c]) + kappa * length
        eta += kappa * top if c == L else length_of_sway(t, c)
        t.bound[ETA_JITTER, c] = 2.0 * (t.columns.shape[0] + m + 8) * UNIT * eta
        if c < L and t.counts[N_PULL + c] > 0:
            t.bound[ETA_JITTER, c] += t.drift
        t.bound[LENGTH_JITTER, c] = length


@kernel
def length_of_sway(t, c):
    """Of the derivative of a pull by the jitter."""
    return length_of(t.pull[SWAY, c, : t.rows.shape[1]])


@kernel
def solve_sway(t):
    """The derivatives of the maps by the jitter; they need no more than doubles."""
    m = t.counts[SIZE]
    for c in range(2):
        _solve_column(t, m, t.pull[SWAY, c], t.column[SWAY_ALPHA, c], t.column[SWAY_BETA, c])
    _solve_targets(t, m, 0.0, 1.0, t.column[SWAY_ALPHA, L], t.column[SWAY_BETA, L])


@kernel
def fill_score(t, i):
    """The line of a point outside M into ``t.score``, once for a facet, signed so that h.c >= 0 holds there.

    With |M| = rank - 1 row P holds sign * x_i.u instead, and row Q is unused.
    """
    if t.members[STAMP, i] == t.counts[FILLED]:
        return
    t.members[STAMP, i] = t.counts[FILLED]
    sign = 1.0 if t.state[i] == OUTSIDE else -1.0
    row = t.rows[i]
    if t.counts[SIZE] == t.rank - 1:
        t.score[P, i] = sign * dot(row, t.column[BETA, U])
    else:
        t.score[P, i] = sign * dot(row, t.column[BETA, P])
        t.score[Q, i] = sign * dot(row, t.column[BETA, Q])
    t.score[L, i] = sign * (dot(row, t.column[BETA, L]) - (1.0 + t.jitter * t.point[TARGET_LO, i]))


@kernel
def score_tied(t, v0, v1, v2, out):
    """Scores at costs v with S in place of Beta_l (see Anchored facets)."""
    beta = t.column[SCRATCH, 0]
    _combine(t.column[BETA, P], t.column[BETA, Q], t.column[SWAY_BETA, L], v0, v1, v2, beta)
    _score(t.columns, beta, out)


@kernel
def weights_at(t, v0, v1, v2):
    """Weights l beta at costs v into the first scratch column."""
    _combine(t.column[BETA, P], t.column[BETA, Q], t.column[BETA, L], v0, v1, v2, t.column[SCRATCH, 0])


@kernel
def _combine(a, b, c, x, y, z, out):
    for j in range(out.size):
        out[j] = a[j] * x + b[j] * y + c[j] * z


@kernel
def reach_from_home(t, l, error):
    """Distance of the weights beta from home, if l beta is in the first scratch column.

    ``error`` bounds the error of the score of a point, relative to its length.
    """
    square = _square_apart(t.column[SCRATCH, 0], t.home, l)
    return ((1.0 + 2.0 * t.home.size * UNIT) * np.sqrt(square) + 2.0 * error) / l if l > 0.0 else np.inf


@sums
def _square_apart(beta, home, l):
    """Square of the distance of two vectors, of which the second is to be multiplied."""
    s = 0.0
    for j in range(beta.size):
        x = beta[j] - l * home[j]
        s += x * x
    return s


LANES = 32
"""Numbers in single precision that are in hand at once, in several vectors."""


@kernel
def score_all(t, out):
    """Scores of all points with the weights in the first scratch column."""
    _score(t.columns, t.column[SCRATCH, 0], out)


@kernel
def score_one(t, i):
    """Score of a point with these weights."""
    return dot(t.rows[i], t.column[SCRATCH, 0])


@kernel
def cosines(t, unit, beta, out):
    """Cosines of the first of some points with some weights, in single precision; returns the length of the weights."""
    weights, length = t.single[WEIGHTS], length_of(beta)
    scale = 1.0 / length
    for j in range(t.columns.shape[0]):
        weights[j] = beta[j] * scale
    _score_32(unit, weights, out)
    return length


@sums
def _score_32(unit, weights, out):
    """As _score, in single precision."""
    out[:] = np.float32(0.0)
    d = unit.shape[0]
    for j in range(0, d - d % 8, 8):
        s0, s1, s2, s3 = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        s4, s5, s6, s7 = weights[j + 4], weights[j + 5], weights[j + 6], weights[j + 7]
        c0, c1, c2, c3, c4, c5, c6, c7 = (
            unit[j], unit[j + 1], unit[j + 2], unit[j + 3], unit[j + 4], unit[j + 5], unit[j + 6], unit[j + 7],
        )  # fmt: skip
        for i in range(out.size):
            x = (s0 * c0[i] + s1 * c1[i]) + (s2 * c2[i] + s3 * c3[i])
            out[i] += x + ((s4 * c4[i] + s5 * c5[i]) + (s6 * c6[i] + s7 * c7[i]))
    for j in range(d - d % 8, d, 4):
        s0, s1, s2, s3 = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        c0, c1, c2, c3 = unit[j], unit[j + 1], unit[j + 2], unit[j + 3]
        for i in range(out.size):
            out[i] += (s0 * c0[i] + s1 * c1[i]) + (s2 * c2[i] + s3 * c3[i])


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
def _gather_dd(t):
    """The pulls of I+ and I- in double-double; that of column U is the probe."""
    for j in range(t.column.shape[2]):
        t.column[PULL_HI, U, j], t.column[PULL_LO, U, j] = t.column[PULL, U, j], 0.0
        t.column[PULL_HI, L, j], t.column[PULL_LO, L, j] = 0.0, 0.0
        for c in range(2):
            t.column[PULL_HI, c, j], t.column[PULL_LO, c, j] = dd_add(
                t.pull[HIGH, c, j], t.pull[LOW, c, j], t.jitter * t.pull[SWAY, c, j], 0.0
            )


@kernel
def _residual_dd(t, m, c):
    """Residuals of the augmented system: scratch[3] = b + X_M'A - Beta, rho[1] = t - X_M Beta (rounded once).

    Sums are those of Ogita, Rump and Oishi: the errors of all operations are added up in one double.
    """
    r, f, low = t.rows.shape[1], t.column[SCRATCH, 3], t.column[RHO, 3]
    for j in range(r):
        f[j], low[j] = two_sum(t.column[PULL_HI, c, j], -t.column[BETA_HI, c, j])
        low[j] += t.column[PULL_LO, c, j] - t.column[BETA_LO, c, j]
    for k in range(m):
        row, a, a_lo = t.rows[t.members[MEMBER, k]], t.column[ALPHA_HI, c, k], t.column[ALPHA_LO, c, k]
        for j in range(r):
            p, e = two_prod(row[j], a)
            f[j], rounding = two_sum(f[j], p)
            low[j] += e + rounding + row[j] * a_lo
    for j in range(r):
        f[j] += low[j]
    beta, beta_lo = t.column[BETA_HI, c], t.column[BETA_LO, c]
    for k in range(m):
        row, sh, sl = t.rows[t.members[MEMBER, k]], 0.0, 0.0
        if c == L:
            sh, sl = target_dd(t, t.members[MEMBER, k])
        for j in range(r):
            p, e = two_prod(row[j], beta[j])
            sh, rounding = two_sum(sh, -p)
            sl += rounding - (e + row[j] * beta_lo[j])
        t.column[RHO, 1, k] = sh + sl


@kernel
def _correct_dd(t, m, c):
    """One step: R dA = R^-T g - Q f, dBeta = f + Q'(R^-T g - Q f). Returns the length of the step."""
    r = t.column.shape[2]
    z, step = t.column[SCRATCH, 1], t.column[SCRATCH, 2]
    _forward(t, m, t.column[RHO, 1], z)
    for k in range(m):
        z[k] -= dot(t.square[BASIS, k], t.column[SCRATCH, 3])
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
    m, r, d = t.counts[SIZE], t.rows.shape[1], t.columns.shape[0]
    _gather_dd(t)
    gamma = 2.0 * (d + m + 8) * UNIT
    kappa = t.bound[REAL, KAPPA]
    t.counts[REFINED] = 1
    for c in range(4 if m == t.rank - 1 else 3):
        for j in range(r):
            t.column[ALPHA_HI, c, j], t.column[ALPHA_LO, c, j] = t.column[ALPHA, c, j], 0.0
            t.column[BETA_HI, c, j], t.column[BETA_LO, c, j] = t.column[BETA, c, j], 0.0
        floor = t.bound[ETA, c] * ((4.0 + (d + m) / 64.0) * UNIT_DD / UNIT)  # sums of n terms have errors of n^2 2^-106
        if c < L and t.counts[N_PULL + c] > 0:
            floor += t.drift
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
    d = dot(t.column[BETA, U], t.column[PULL, c]) / uu
    size = length_of(t.column[PULL, c])
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
    tiny = t.columns.shape[0] * UNIT_DD
    error = t.point[NORM, i] * (t.bound[ETA_DD, L] + tiny * t.bound[LENGTH, L]) + 4.0 * UNIT_DD
    return n, error + 2.0 * UNIT * abs(n)


@kernel
def pencil_dd(t, i):
    """S = x_i.u and n = t_i - x_i.Beta_l in double-double, each with its error: the line is s D.(p,q) = n l."""
    sh, sl = dot_dd(t, i, U)
    gh, gl = dot_dd(t, i, L)
    h, h_lo = target_dd(t, i)
    nh, nl = dd_add(h, h_lo, -gh, -gl)
    tiny = t.columns.shape[0] * UNIT_DD
    es = t.point[NORM, i] * (t.bound[ETA_DD, U] + tiny * t.bound[LENGTH, U])
    en = t.point[NORM, i] * (t.bound[ETA_DD, L] + tiny * t.bound[LENGTH, L]) + 4.0 * UNIT_DD
    return sh, sl, es, nh, nl, en


@kernel
def tabulate_margin(t):
    """The lines of M in doubles, with error bounds, into the table."""
    table, alpha, rho, eta, member, axes = t.table, t.column[ALPHA], t.column[RHO, 0], t.bound[ETA], t.members[MEMBER], t.axis
    weight, low, jitter = t.point[WEIGHT], t.point[WEIGHT_LO], t.jitter
    n = table.shape[1] - 2 * t.rows.shape[1] - 2
    for k in range(t.counts[SIZE]):
        i = member[k]
        axis, w = axes[i], weight[i] + jitter * low[i]
        for c in range(3):
            a = alpha[c, k]
            e = rho[k] * eta[c] + 2.0 * UNIT * abs(a)
            table[c, n], table[3 + c, n] = a, e
            table[c, n + 1], table[3 + c, n + 1] = -a, e
        table[axis, n + 1] += w
        table[3 + axis, n + 1] += 2.0 * UNIT * w
        n += 2


@kernel
def tabulate_pencil(t, side):
    """One line of the pencil, divided by |x_i.u|: all of the pencil have the same first two entries."""
    i = t.counts[PENCIL + side] >> 1
    fill_score(t, i)
    tiny = t.columns.shape[0] * UNIT
    h = t.table[:, t.table.shape[1] - 2 + side]
    s, rest, norm = t.score[P, i], t.score[L, i], t.point[NORM, i]
    size = abs(s)
    es = norm_error(t, i)
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
    n = t.table.shape[1] - 2
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
        return h[0, row], h[1, row], h[2, row], h[3, row], h[4, row], h[5, row]
    i = code >> 1
    fill_score(t, i)
    norm = t.point[NORM, i]
    tiny = t.columns.shape[0] * UNIT
    e0 = norm * (t.bound[ETA, P] + tiny * t.bound[LENGTH, P])
    e1 = norm * (t.bound[ETA, Q] + tiny * t.bound[LENGTH, Q])
    e2 = norm * (t.bound[ETA, L] + tiny * t.bound[LENGTH, L]) + 4.0 * UNIT
    return t.score[P, i], t.score[Q, i], t.score[L, i], e0, e1, e2


@kernel
def line_parts(t, code, out):
    """The line of a code without the jitter, as ``line`` scales it, errors, its derivative by the jitter, errors: (12,)."""
    h0, h1, h2, e0, e1, e2 = line(t, code)
    out[0], out[1], out[2], out[3], out[4], out[5] = h0, h1, h2, e0, e1, e2
    bound_sway(t)
    line_sway(t, code, out[6:9])
    _bound_line_sway(t, code, out[6:9], out[9:12])
    for c in range(3):
        out[3 + c] += out[9 + c] + 2.0 * UNIT * abs(out[c])
        out[c] -= t.jitter * out[6 + c]


@kernel
def _bound_line_sway(t, code, h, out):
    """Errors of the derivative h of a line by the jitter; in a pencil it is scaled as ``line`` does."""
    i, eta, length = code >> 1, t.bound[ETA_JITTER], t.bound[LENGTH_JITTER]
    if code < 0:
        out[:] = 0.0
        return
    k, norm, tiny = t.members[SLOT, i], t.point[NORM, i], (t.columns.shape[0] + 4) * UNIT
    if k >= 0:
        for c in range(3):
            out[c] = t.column[RHO, 0, k] * eta[c] + 4.0 * UNIT * abs(h[c])
        if code & 1 == 1:
            out[t.axis[i]] += 4.0 * UNIT * abs(t.point[WEIGHT_LO, i])
        return
    for c in range(3):
        out[c] = norm * (eta[c] + tiny * length[c])
    out[2] += 4.0 * UNIT * abs(t.point[TARGET_LO, i])
    if t.counts[SIZE] == t.rank - 1:
        _scale_sway(t, i, h, out)


@kernel
def _scale_sway(t, i, h, out):
    """Divide the derivative of a line of a pencil by |x_i.u| u.u, with errors as in ``slope`` and ``tabulate_pencil``."""
    u, uu = t.bound[LENGTH, U], t.bound[LENGTH, U] ** 2
    size, es = abs(t.score[P, i]), norm_error(t, i)
    if not size > es:
        out[:] = np.inf
        return
    for c in range(2):
        h[c] /= size * uu
        pull = t.bound[ETA_JITTER, c] * u + 2.0 * t.bound[ETA, U] * (length_of_sway(t, c) + abs(h[c]) * u)
        out[c] = pull / uu + 16.0 * UNIT * abs(h[c])
    h[2] /= size * uu
    out[2] = (out[2] + abs(h[2]) * es) / (size - es) + 16.0 * UNIT * abs(h[2])


@kernel
def norm_error(t, i):
    """Error of x_i.u."""
    return t.point[NORM, i] * (t.bound[ETA, U] + t.columns.shape[0] * UNIT * t.bound[LENGTH, U])


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
    tiny = t.columns.shape[0] * UNIT_DD
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
            out[c], out[3 + c], out[6 + c] = t.table[c, -1 - code], 0.0, 0.0
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


@kernel
def line_sway(t, code, out):
    """Derivative by the jitter of the line of a code, as ``line_dd`` scales it, into out[0:3] (after ``solve_sway``)."""
    out[0], out[1], out[2] = 0.0, 0.0, 0.0
    if code < 0:
        return
    i = code >> 1
    k = t.members[SLOT, i]
    sway = t.column[SWAY_BETA]
    if k >= 0:
        for c in range(3):
            out[c] = t.column[SWAY_ALPHA, c, k]
        if code & 1 == 1:
            out[t.axis[i]] -= t.point[WEIGHT_LO, i]
    elif t.counts[SIZE] == t.rank - 1:
        u = t.column[BETA, U]
        s = dot(t.rows[i], u)
        for c in range(2):
            out[c] = s * dot(u, t.pull[SWAY, c])
        out[2] = (dot(t.rows[i], sway[L]) - t.point[TARGET_LO, i]) * t.bound[LENGTH, U] ** 2
    else:
        for c in range(3):
            out[c] = dot(t.rows[i], sway[c])
        out[2] -= t.point[TARGET_LO, i]
    if (k >= 0 and code & 1 == 1) or (k < 0 and t.state[i] != OUTSIDE):
        for c in range(3):
            out[c] = -out[c]
