"""The records of the engine: the data and the region as kernels read them, and the facet in hand with its workspaces."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.engine.compiled import kernel
from svmatlas.engine.record import make_memory, make_record

OUTSIDE, INSIDE, MARGIN = 0, 1, 2
"""States of a point: g > 1 and alpha = 0; g < 1 and alpha at its bound; g = 1."""

P, Q, L, U = np.arange(4)
"""Columns: the cost of positives, the cost of negatives, the homogeneous one, and the free direction u.

(NumPy integers: numba compiles a function anew for each Python integer that is passed to it as a constant.)"""

# Named places in the workspaces
NORM, TARGET_LO, WEIGHT, WEIGHT_LO = 0, 1, 2, 3
MEMBER, SLOT, STAMP = 0, 1, 2
PULL, ALPHA, BETA, PULL_HI, PULL_LO, ALPHA_HI, ALPHA_LO, BETA_HI, BETA_LO = range(9)
SCRATCH, RHO, ALPHA_DERIVATIVE, BETA_DERIVATIVE = range(9, 13)
HIGH, LOW, DERIVATIVE = 0, 1, 2
BASIS, TRIANGLE, INVERSE = 0, 1, 2
ETA, LENGTH, ETA_DD, REAL, ETA_JITTER, LENGTH_JITTER = range(6)
KAPPA, ETA_DERIVATIVE, LENGTH_DERIVATIVE, RADIUS = 0, 1, 2, 3
SCORES, TIED = 3, 4
SURPLUS = 6
PER_NORM, JITTERS, AXES, SIGNS, WEIGHTS, COSINES, SLOPES, PER_SLOPE, DERIVATIVES, VALUES, ERRORS, FOLDED = range(12)
CODE, CHECKED, SIGN, HINT = 0, 1, 2, 3

CUT = 8
"""Least name of the sides of a tile that are inside the region: CUT and the number of the side."""

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Ints = npt.NDArray[np.intp]
Words = npt.NDArray[np.uint64]
Int32 = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]
States = npt.NDArray[np.int8]


FACET = np.dtype(
    (
        np.record,
        [
            ("n_margin", np.int64),  # |M|
            ("refined", np.int64),  # are the maps in double-double? 0 not yet, 1 yes, -1 they cannot be
            ("n_pull", np.int64, 2),  # |I+| and |I-|
            ("pencil", np.int64, 2),  # codes of the two lines of the pencil that can be edges, -1 for none
            ("filled", np.int64),  # number of the facet, see fill_score
            ("anchor_axis", np.int64),  # P or Q if M is all of that class (see Anchored facets), else -1
            ("signed", np.int64),  # as filled if the signs of all points are known, see sign_points
            ("reduced", np.int64),  # as filled if the lines of the pencil are known
            ("kept", np.int64),  # columns of ``square`` that are those of the first points of M
            ("in_ball", np.int64),  # are only the near points to be looked at, while weights are in the ball?
            ("n_near", np.int64),  # number of these points
            ("around", np.int64),  # was the pencil chosen from these?
            ("solved", np.int64),  # as filled if ``solved`` is of this facet, minus that if it cannot be
            ("derived", np.int64),  # as filled if the derivatives by the jitter are of this facet
        ],
    )
)
"""Numbers of the facet in hand, in an array of one record."""

POLYGON = np.dtype(
    (
        np.record,
        [
            ("n_corners", np.int64),
            ("n_listed", np.int64),  # lines to be looked at again
            ("n_asked", np.int64),  # questions for exact arithmetic
            ("n_refined", np.int64),  # predicates that double-double decided
            ("n_zero", np.int64),  # zeros that were proven modulo a prime
            ("cross", np.int64, 2),  # two codes, whose corner is in the last row of ``exact``
            ("entered", np.int64, 4),  # two codes, ``filled``, and the sign of the corner in ``parts``
        ],
    )
)
"""Numbers of the polygon in hand, in an array of one record."""

FacetRecord = npt.NDArray[np.void]
PolygonRecord = npt.NDArray[np.void]


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
    pull (3, 2, d + 1), drift       sums of w_i x_i over I+ and I- as HIGH + LOW + jitter DERIVATIVE, after HIGH the number of
                                    points, and a bound on the error of the sums
    answers (n, 5)                  questions with their exact answers (predicates.py)
    known (n, 3)                    corners of other facets, none of them coarse (polygon.py)
    shortest                        least length of a row
    unit (d + 3 or less, N)         rows of length 1, transposed, in single precision, filled up with zeros
    all_points (N,)                 0, 1, 2, ...
    ball_center (d,), fixed_state   weights; for each point the set that it is in wherever weights are within RADIUS, or -1;
    near_points, near_slot (N,)     the points with -1, and the place of each point among them, or -1 (neighbourhood.py)
    near_unit, near_single          ``unit`` and ``single`` of these points
    n_near_wanted                   so many points are to be in the ball; 0 for no ball

    then the maps of the facet:

    members (3, N + d + 1)          MEMBER: the points of M; SLOT: place of each point in M, or -1; STAMP: see fill_score
    column (13, 4, r)               PULL b, ALPHA A, BETA Beta of each column, their double-doubles; SCRATCH; RHO: rho,
                                    three scratch rows; DERIVATIVE: derivatives by the jitter
    square (3, r, r)                BASIS Q; TRIANGLE R, and R' below the diagonal; INVERSE R^-1
    score (5, N)                    score lines, see fill_score; SCORES of all points at one corner; TIED scratch
    single (12, N or d + 3)         in single precision: PER_NORM 1 / |x_i|; JITTERS of targets divided by |x_i|; AXES as axis;
                                    SIGNS -1 for I, else 1; COSINES of points with some WEIGHTS of length 1; of a pencil SLOPES
                                    with u and PER_SLOPE 1 / |these|, DERIVATIVES with S, VALUES and ERRORS of bounds; FOLDED
    bound (6, 4)                    ETA, LENGTH |Beta|, ETA_DD of each column; REAL: KAPPA; ETA, LENGTH of BETA_DERIVATIVE_l;
                                    RADIUS of the ball, 0 if not known yet; ETA_JITTER, LENGTH_JITTER as the first two, of
                                    the derivatives by the jitter
    table (7, n_sides + 2 r + 2)    lines with error bounds: sides, those of M, two of the pencil; SURPLUS of these at a corner
    facet                           numbers of the facet in hand: see FACET

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
    polygon                         numbers of the polygon in hand: see POLYGON
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
    all_points: Ints
    ball_center: Floats
    fixed_state: npt.NDArray[np.int8]
    near_points: Ints
    near_slot: Ints
    near_unit: Singles
    near_single: Singles
    n_near_wanted: int
    members: Ints
    column: Floats
    square: Floats
    score: Floats
    single: Singles
    bound: Floats
    table: Floats
    facet: FacetRecord
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
    polygon: PolygonRecord


class Space(NamedTuple):
    """The workspaces of a Task, allocated by the caller."""

    members: Ints
    column: Floats
    square: Floats
    score: Floats
    single: Singles
    bound: Floats
    table: Floats
    facet: FacetRecord
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
    polygon: PolygonRecord
    pull: Floats
    shortest: float
    unit: Singles
    all_points: Ints
    ball_center: Floats
    fixed_state: npt.NDArray[np.int8]
    near_points: Ints
    near_slot: Ints
    near_unit: Singles
    near_single: Singles
    n_near_wanted: int
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
        facet=np.zeros(1, FACET),
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
        polygon=np.zeros(1, POLYGON),
        pull=np.zeros((3, 2, d + 1)),
        shortest=float(data.point[NORM].min(initial=1.0)),
        unit=unit,
        all_points=np.arange(n),
        ball_center=np.zeros(d),
        fixed_state=np.zeros(n, np.int8),
        near_points=np.zeros(n, i),
        near_slot=np.zeros(n, i),
        near_unit=_on_lines(*unit.shape),
        near_single=_on_lines(*single.shape),
        n_near_wanted=0,
        neighbour=np.zeros(cap, i),
        memory=make_memory(),
    )


MOST_SIDES = 4
"""A box of costs has no more."""


def clear(space: Space) -> None:
    """Forget the facet in hand, and home."""
    space.members.fill(-1)
    space.facet.view(np.int64).fill(0)
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
        region.corners, space.shortest, space.unit, space.all_points, space.ball_center,
        space.fixed_state, space.near_points, space.near_slot,
        space.near_unit, space.near_single, space.n_near_wanted,
        space.members, space.column, space.square, space.score, space.single, space.bound, space.table, space.facet[0],
        space.edge, space.corner, space.listed, space.asked, space.exact, space.residue, space.pivot,
        space.modular, space.summed, space.sums, space.system, space.solved, space.traced, space.ends, space.parts,
        space.polygon[0],
    )  # fmt: skip
    return make_record(fields, space.memory)
