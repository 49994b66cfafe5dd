"""The records of the engine: the data and the region as kernels read them, and the facet in hand with its workspaces.

Lines and corners are vectors with three entries, in the columns P, Q, L. Columns are the last axis of an array: entry c of
corner j is ``edges.corner[j, c]``. What else is known of a vector is in another array of the same shape, with its own name:
``edges.corner_error[j, c]`` bounds the error of that entry. A vector in double-double is ``high`` and ``low``, with ``error``.
A vector that is a polynomial in the jitter has one more axis, before the columns: the power of the jitter. Only where a loop
goes over all lines, or all points, columns come first: ``lines.table``, ``lines.score``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.engine.compiled import entry_noalloc, kernel
from svmatlas.engine.record import make_memory, make_record

OUTSIDE, INSIDE, MARGIN = 0, 1, 2
"""States of a point: g > 1 and alpha = 0; g < 1 and alpha at its bound; g = 1."""

P, Q, L, U = np.arange(4)
"""Columns: the cost of positives, the cost of negatives, the homogeneous one, and the free direction u.

(NumPy integers: numba compiles a function anew for each Python integer that is passed to it as a constant.)"""

CUT = 8
"""Least name of the sides of a tile that are inside the region: CUT and the number of the side."""

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]
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
            ("kappa", np.float64),  # condition number of the rows of M, scaled to length 1
            ("anchor_eta", np.float64),  # eta and length of the column S of an anchored facet (see Anchored facets)
            ("anchor_length", np.float64),
            ("radius", np.float64),  # of the ball, 0 if not known yet
            ("refined", np.int64),  # are the maps in double-double? 0 not yet, 1 yes, -1 they cannot be
            ("n_pull", np.int64, 2),  # |I+| and |I-|
            ("pencil", np.int64, 2),  # codes of the two lines of the pencil that can be edges, -1 for none
            ("serial", np.int64),  # number of the facet in hand: the next has one more. What follows from a facet bears it
            ("anchor_axis", np.int64),  # P or Q if M is all of that class (see Anchored facets), else -1
            ("signed", np.int64),  # serial of the facet that ``sign`` of all points is of (sign_points)
            ("reduced", np.int64),  # serial of the facet that the lines of the pencil are of
            ("kept", np.int64),  # columns of the factor that are those of the first points of M
            ("in_ball", np.int64),  # are the near points enough, while weights are in the ball?
            ("n_near", np.int64),  # number of near points
            ("pencil_is_near", np.int64),  # was the pencil chosen from the near points only?
            ("solved", np.int64),  # serial of the facet that ``modular`` is of; minus that if it could not be solved
            ("normal", np.int64),  # the same of ``modular.normal``
            ("sloped", np.int64),  # the same of ``lines.slopes``
            ("derived", np.int64),  # serial of the facet that the derivatives by the jitter are of
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
            ("crossed", np.int64, 2),  # two codes, whose corner is in ``lines.cross``
            ("entered", np.int64, 2),  # two codes, whose corner is in ``modular``,
            ("entered_facet", np.int64),  # the serial of the facet that they are lines of,
            ("entered_turn", np.int64),  # and the sign of that corner, 0 if it is not certain
        ],
    )
)
"""Numbers of the polygon in hand, in an array of one record."""

HINT = np.dtype((np.record, [(name, np.int64) for name in ("first", "second", "number")]))
"""A known corner: the codes of its edges, in order; its place in ``Task.known``, or -1. If both codes are one: an edge."""

QUESTION = np.dtype((np.record, [(name, np.int64) for name in ("kind", "first", "second", "line", "answer")]))
"""A question for exact arithmetic, and its answer (predicates.py): its kind, the codes of two edges, and that of a line."""

FacetRecord = npt.NDArray[np.void]
PolygonRecord = npt.NDArray[np.void]


class Data(NamedTuple):
    """The rows of a problem as the kernels read them."""

    rows: Floats  # (N, d) signed rows x_i
    columns: Floats  # (d, N) the same, transposed
    norm: Floats  # (N,) |x_i|
    target_jitter: Floats  # (N,) jitter r_i of the target 1
    weight: Floats  # (N,) w_i
    weight_jitter: Floats  # (N,) jitter s_i of w_i
    axis: npt.NDArray[np.int8]  # (N,) column of the cost that bounds alpha_i: P or Q
    probe: Floats  # (d,) a random combination of the rows
    rank: int  # of the rows
    anchor: float  # a where e = (0, ..., 0, a) has x_i.e = 1 for all positive rows and -1 for all others: 1/B; 0 for none


def largest_jitter(data: Data) -> float:
    """The size of the jitter of targets; it is less where rows are badly conditioned."""
    return float(np.abs(data.target_jitter).max(initial=0.0))


class Region(NamedTuple):
    """A convex part of the triangle of costs. Corner j ends side j and begins side j + 1."""

    sides: Floats  # (k, 3) lines h.c >= 0
    corners: Floats  # (k, 3)
    axis: npt.NDArray[np.int8]  # (k,) P, Q or L where the side is p = 0, q = 0 or l = 0; else -1
    name: Ints  # (k,) number of the side; in a tile that of the side of the region that it is part of, CUT + j if of none


class Pull(NamedTuple):
    """Sums of w_i x_i over I+ and I-: high + low + jitter * derivative."""

    high: Floats  # (2, d)
    low: Floats  # (2, d)
    derivative: Floats  # (2, d)
    n_points: Ints  # (2,)


class Factor(NamedTuple):
    """The set M, and the factor X_M' = Q'R of its rows."""

    member: Ints  # (d,) points of M
    slot: Ints  # (N,) place of each point in M, or -1
    basis: Floats  # (d, d) Q
    triangle: Floats  # (d, d) R, and R' below the diagonal
    inverse: Floats  # (d, d) R^-1
    rho: Floats  # (d,) lengths of the rows of R^-1


class Maps(NamedTuple):
    """The affine maps of the facet, by columns P, Q, L, U, with error bounds (facet.py), and room to solve for them."""

    pull: Floats  # (4, d) b
    alpha: Floats  # (4, d) A on M
    beta: Floats  # (4, d) Beta
    eta: Floats  # (4,) error bound of a column
    length: Floats  # (4,) |Beta|
    pull_hi: Floats  # the same in double-double (refinement.py)
    pull_lo: Floats
    alpha_hi: Floats
    alpha_lo: Floats
    beta_hi: Floats
    beta_lo: Floats
    eta_dd: Floats
    alpha_derivative: Floats  # derivatives by the jitter
    beta_derivative: Floats
    eta_derivative: Floats
    length_derivative: Floats
    weights: Floats  # (d,) l beta at one corner
    coefficients: Floats  # (d,) room, also the next five
    step: Floats
    shares: Floats
    residual: Floats
    residual_low: Floats
    target_residual: Floats


class DoubleDoubles(NamedTuple):
    """Vectors in double-double, high + low, with error bounds: (n, 3), or (3,) for a single one."""

    high: Floats
    low: Floats
    error: Floats


class Bounds(NamedTuple):
    """What the listed lines of a pencil say of its one number (pencil.py)."""

    side: Ints  # (cap,) 0 for a bound from below, 1 from above, -1 if it is not known which
    lower: Floats  # the bound is between these
    upper: Floats
    slope: Floats  # s_i of the line, with low word and error,
    slope_low: Floats
    slope_error: Floats
    rest: Floats  # and n_i
    rest_low: Floats
    rest_error: Floats


class Lines(NamedTuple):
    """Lines of the facet, and their values at one corner."""

    table: Floats  # (3, n_sides + 2 d + 2) lines: sides, those of M, two of the pencil
    table_error: Floats  # their error bounds
    surplus: Floats  # by how much each of these exceeds its error bound at a corner
    score: Floats  # (3, N) score lines, see fill_score
    stamp: Ints  # (N,) serial of the facet that a score line is of
    at_corner: Floats  # (N,) scores at one corner
    tied: Floats  # (N,) the same without what is common to tied points
    precise: DoubleDoubles  # lines of the polygon,
    ends: DoubleDoubles  # its corners,
    ends_less: DoubleDoubles  # and these with less jitter
    cross: DoubleDoubles  # one corner,
    pair: DoubleDoubles  # and the two lines that meet there
    slopes: DoubleDoubles  # (3,) u.b+, u.b- and u.u of a pencil
    bounds: Bounds
    derivative: Floats  # (3,) of one line by the jitter
    listed: Ints  # codes to be looked at again
    asked: npt.NDArray[np.void]  # of QUESTION
    no_hints: npt.NDArray[np.void]  # (0,) of HINT


class Singles(NamedTuple):
    """Some points in single precision. Rows are aligned, and filled up with zeros."""

    points: Ints  # (n,) which points
    slot: Ints  # (N,) place of each point among them, or -1
    unit: Floats32  # (d + 3 or less, n) rows of length 1, transposed
    per_norm: Floats32  # 1 / |x_i|
    jitter: Floats32  # that of the target, divided by |x_i|
    axis: Floats32  # as in Data
    sign: Floats32  # -1 for I, else 1
    weights: Floats32  # some weights, of length 1
    cosine: Floats32  # of points with these weights
    slope: Floats32  # of a pencil: cosines with u
    per_slope: Floats32  # 1 / |these|
    derivative: Floats32  # cosines with S
    value: Floats32  # bounds of the lines of the pencil
    error: Floats32  # their errors
    folded: Floats32  # room


class Ball(NamedTuple):
    """Weights in a ball: only some points, the near ones, can change their set there (neighbourhood.py)."""

    center: Floats  # (d,)
    fixed_state: npt.NDArray[np.int8]  # (N,) the set that a point is in wherever weights are in the ball, or -1


class Edges(NamedTuple):
    """A polygon: edges in order, and the corner at the end of each."""

    code: Ints
    checked: Ints  # does corner j satisfy all lines?
    sign: Ints  # of a line at corner j
    hint: Ints  # which of the known corners it is, or -1
    corner: Floats  # (cap, 3) corner j between edges j and j + 1
    corner_error: Floats


class Modular(NamedTuple):
    """The facet modulo a prime, by powers of the jitter (zeros.py)."""

    rows: Words  # (N, d + 1) rows, and whether they are known; without rows nothing is found modulo the prime
    summed: npt.NDArray[np.int8]  # (N,) a partition,
    sums: Words  # (2, 2, d) and its pulls
    system: Words  # (d, d) equations
    right: Words  # (d, 2, 3) their right sides
    alpha: Words  # (2, 3, d) A
    beta: Words  # (2, 3, d) Beta
    lines: Words  # (cap, 2, 3) lines of the polygon
    ends: Words  # (cap, 3) its corners without jitter
    end: Words  # (3, 3) room for one of these
    corner: Words  # (3, 3) one corner
    pair: Words  # (2, 2, 3) the two lines that meet there
    pair_value: Floats  # (2, 2, 3) the same in doubles
    pair_error: Floats
    corner_value: Floats  # (3, 3) and their corner
    corner_error: Floats
    weights: Words  # (d,) weights at this corner without jitter
    echelon: Words  # (d, d) room for zero tests (mersenne.py),
    pivot: Ints  # (d,)
    normal: Words  # (d,) and a vector orthogonal to M


class Space(NamedTuple):
    """The workspaces of a Task, allocated by the caller."""

    pull: Pull
    factor: Factor
    maps: Maps
    lines: Lines
    single: Singles  # all points
    near: Singles  # the near points
    ball: Ball
    edges: Edges
    clipped: Edges  # the polygon that a clip makes
    modular: Modular
    facet: FacetRecord  # (1,) see FACET
    polygon: PolygonRecord  # (1,) see POLYGON
    shortest: float  # least length of a row
    n_near_wanted: int  # so many points are to be in the ball; 0 for no ball
    neighbour: Ints  # room for layers.py
    memory: npt.NDArray[np.uint8]  # for the record


class Task(NamedTuple):
    """The facet in hand, a record (record.py): what is read, and the workspaces, as in Space."""

    data: Data
    region: Region
    state: npt.NDArray[np.int8]  # (N,) the partition
    jitter: float  # factor of the jitter: 1 for decisions, 0 for solutions
    pull: Pull
    drift: float  # bound on the error of the pulls
    answers: npt.NDArray[np.void]  # of QUESTION, with answers
    known: Floats  # (n, 3) corners of other facets, none of them coarse (polygon.py)
    hints: npt.NDArray[np.void]  # of HINT, those that are known of this facet
    shortest: float
    n_near_wanted: int
    factor: Factor
    maps: Maps
    lines: Lines
    single: Singles
    near: Singles
    ball: Ball
    edges: Edges
    clipped: Edges
    modular: Modular
    facet: FacetRecord
    polygon: PolygonRecord


def make_space(data: Data, region: Region, closing: bool = True) -> Space:
    """Allocate the workspaces: a polygon has at most as many edges as there are lines.

    They are for any region of no more than MOST_SIDES sides, or as many as this one has. ``closing``: are polygons wanted,
    beside maps?
    """
    n, d = data.rows.shape
    n_sides = max(MOST_SIDES, region.sides.shape[0])
    cap = n + d + n_sides + 8
    single, near = (_singles(*(data.columns.shape if closing else (0, 0))) for _ in range(2))
    if closing:
        _fill_single(data, single)
    return Space(
        pull=make_pull(d),
        factor=_factor(n, d),
        maps=_maps(d),
        lines=_lines(n, d, n_sides, cap),
        single=single,
        near=near,
        ball=Ball(center=np.zeros(d), fixed_state=np.zeros(n, np.int8)),
        edges=_edges(cap),
        clipped=_edges(cap),
        modular=_modular(n if closing else 0, n, d, cap),
        facet=np.zeros(1, FACET),
        polygon=np.zeros(1, POLYGON),
        shortest=float(data.norm.min(initial=1.0)),
        n_near_wanted=0,
        neighbour=np.zeros(cap, np.int64),
        memory=make_memory(),
    )


MOST_SIDES = 4
"""A box of costs has no more."""


def make_pull(d: int) -> Pull:
    """The pulls of a partition with no point in I."""
    high, low, derivative = np.zeros((3, 2, d))
    return Pull(high, low, derivative, np.zeros(2, np.int64))


def _factor(n: int, d: int) -> Factor:
    basis, triangle, inverse = np.zeros((3, d, d))
    return Factor(np.full(d, -1), np.full(n, -1), basis, triangle, inverse, np.zeros(d))


def _maps(d: int) -> Maps:
    columns = dict.fromkeys(("eta", "length", "eta_dd", "eta_derivative", "length_derivative"), (4,))
    columns |= dict.fromkeys(Maps._fields[-7:], (d,))
    return Maps(*(np.zeros(columns.get(name, (4, d))) for name in Maps._fields))


def _lines(n: int, d: int, n_sides: int, cap: int) -> Lines:
    size = n_sides + 2 * d + 2
    return Lines(
        table=np.zeros((3, size)),
        table_error=np.zeros((3, size)),
        surplus=np.zeros(size),
        score=np.zeros((3, n)),
        stamp=np.full(n, -1, np.int64),
        at_corner=np.zeros(n),
        tied=np.zeros(n),
        precise=DoubleDoubles(*np.zeros((3, cap, 3))),
        ends=DoubleDoubles(*np.zeros((3, cap, 3))),
        ends_less=DoubleDoubles(*np.zeros((3, cap, 3))),
        cross=DoubleDoubles(*np.zeros((3, 3))),
        pair=DoubleDoubles(*np.zeros((3, 2, 3))),
        slopes=DoubleDoubles(*np.zeros((3, 3))),
        bounds=Bounds(np.zeros(cap, np.int64), *np.zeros((8, cap))),
        derivative=np.zeros(3),
        listed=np.zeros(2 * cap, np.int64),
        asked=np.zeros(2 * cap, QUESTION),
        no_hints=np.zeros(0, HINT),
    )


def _edges(cap: int) -> Edges:
    code, checked, sign, hint = np.zeros((4, cap), np.int64)
    return Edges(code, checked, sign, hint, *np.zeros((2, cap, 3)))


def _modular(n_rows: int, n: int, d: int, cap: int) -> Modular:
    words = np.uint64
    return Modular(
        rows=np.zeros((n_rows, d + 1), words),
        summed=np.full(n, OUTSIDE, np.int8),
        sums=np.zeros((2, 2, d), words),
        system=np.zeros((d, d), words),
        right=np.zeros((d, 2, 3), words),
        alpha=np.zeros((2, 3, d), words),
        beta=np.zeros((2, 3, d), words),
        lines=np.zeros((cap, 2, 3), words),
        ends=np.zeros((cap, 3), words),
        end=np.zeros((3, 3), words),
        corner=np.zeros((3, 3), words),
        pair=np.zeros((2, 2, 3), words),
        pair_value=np.zeros((2, 2, 3)),
        pair_error=np.zeros((2, 2, 3)),
        corner_value=np.zeros((3, 3)),
        corner_error=np.zeros((3, 3)),
        weights=np.zeros(d, words),
        echelon=np.zeros((d, d), words),
        pivot=np.zeros(d, np.int64),
        normal=np.zeros(d, words),
    )


def clear(space: Space) -> None:
    """Forget the facet in hand, and the ball."""
    for array in (space.factor.member, space.factor.slot, space.lines.stamp):
        array.fill(-1)
    space.facet.view(np.int64).fill(0)


def _singles(d: int, n: int) -> Singles:
    """Room for n points with d coordinates."""
    padded = d + -d % 4
    return Singles(np.arange(n), np.arange(n), _on_lines(padded, n), *_on_lines(12, max(n, padded)))


def _fill_single(data: Data, single: Singles) -> None:
    """All points in single precision."""
    (d, n), norm = data.columns.shape, data.norm
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # what is not finite says nothing
        single.per_norm[:n], single.jitter[:n], single.axis[:n] = 1.0 / norm, data.target_jitter / norm, data.axis
    np.divide(data.columns, norm, out=single.unit[:d, :n], where=norm > 0, casting="same_kind")


def _on_lines(rows: int, columns: int) -> Floats32:
    """Zeros of which each row begins with a cache line: vectors of a row are then in one line each."""
    size = columns + -columns % 16
    memory = np.zeros(rows * size + 16, np.float32)
    first = -memory.ctypes.data // 4 % 16
    return memory[first : first + rows * size].reshape(rows, size)


@kernel
def code_of_hint(hints, n):
    """The codes of some hints, counted through."""
    return hints[n >> 1].second if n & 1 else hints[n >> 1].first


@kernel
def make_task(data, region, space):
    """A Task over given workspaces."""
    for j in range(region.sides.shape[0]):
        for c in range(3):
            space.lines.table[c, j], space.lines.table_error[c, j] = region.sides[j, c], 0.0
    fields = Task(
        data=data,
        region=region,
        state=data.axis,
        jitter=1.0,
        pull=space.pull,
        drift=0.0,
        answers=space.lines.asked[:0],
        known=region.corners,
        hints=space.lines.no_hints,
        shortest=space.shortest,
        n_near_wanted=space.n_near_wanted,
        factor=space.factor,
        maps=space.maps,
        lines=space.lines,
        single=space.single,
        near=space.near,
        ball=space.ball,
        edges=space.edges,
        clipped=space.clipped,
        modular=space.modular,
        facet=space.facet[0],
        polygon=space.polygon[0],
    )
    return make_record(fields, space.memory)


@entry_noalloc
def open_task(data, region, space):
    """A Task for kernels that Python calls. It must not outlive what it is made of."""
    return make_task(data, region, space)
