"""What pieces of the split map (canonical.py) are without jitter: points that are tied to the margin, edges without length.

A point is tied in a piece if it is on the margin all over it, beside the points of M: its score line, zero but for the
jitter, is no line at all. An edge has no length if its two ends are one point but for the jitter. Both are told by the
jitter: without it less is left than the share TIED of what the jitter moves. So ties that hold up to rounding of the data
only are ties, too.

All lines are affine in the jitter: the maps without it are those with it, in double-double, less their derivatives.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from svmatlas.engine.compiled import entry_noalloc, kernel
from svmatlas.engine.doubledouble import UNIT
from svmatlas.engine.exact import ExactFacet, ExactProblem
from svmatlas.engine.facet import dot, drift_of, length_of, solve_derivatives, take_up
from svmatlas.engine.mesh import Split
from svmatlas.engine.predicates import NO_CODE, cross_dd, cross_entry_dd
from svmatlas.engine.refinement import dot_dd, refine
from svmatlas.engine.scores import is_near_margin, score_all
from svmatlas.engine.tie_test import measure_corners, weights_inside
from svmatlas.engine.workspace import INSIDE, MARGIN, Data, L, P, Q, Region, largest_jitter, make_space, open_task

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Bools = npt.NDArray[np.bool_]
States = npt.NDArray[np.int8]

TIED = 0.25
"""A line or an edge is tied if without jitter less is left of it than this share of what the jitter moves it by. Ties of the
data leave nothing, or where they hold up to rounding of the data (2^-53, the jitter is 2^-43 or so) some thousandths."""

SEEN = 1e-9
"""Relative distance from the margin beyond which a point is not tied, whatever the jitter hides: models would show it."""

SHORT, SHORT_AT_PLATEAU = 1e-8, 5e-6
"""Only edges shorter than this, relative to their costs, are asked whether they have length; the second if a plateau is behind
them, where many facets have only a corner. Ties are near the jitter, 1e-13, times their conditioning, which is large there."""

LESS = 2.0**-5
"""Edges are measured with so much of the jitter: without any, both edges of a corner may be one line."""

ROUNDING = 2.0**-48
"""Relative distance of corners that are the same up to rounding of the data, 2^-53."""

NOTHING = 2.0**-7
"""The same as it is, in units of the jitter, for entries that are small against the largest, 1, which rounding of the data
moves as well. Where rows are of very different size the jitter is less, and what is smaller still counts."""


# ----------------------------------------------------------------------------------------------------------------------
# Points


@kernel
def _refine_with_derivatives(task):
    """Maps in double-double and their derivatives by the jitter; False if the rows are too badly conditioned."""
    if task.facet.refined == 0:
        refine(task)
        solve_derivatives(task)
    return task.facet.refined == 1


@kernel
def _remove_jitter(task):
    """The map of beta without jitter, in doubles; False if double-double does not know it."""
    if not _refine_with_derivatives(task):
        return False
    for c in range(3):
        for j in range(task.data.rows.shape[1]):
            high, low, moved = task.maps.beta_hi[c, j], task.maps.beta_lo[c, j], task.maps.beta_derivative[c, j]
            task.maps.beta[c, j] = (high - moved) + low
        task.maps.length[c] = length_of(task.maps.beta[c])
    return True


@kernel
def _score_without(task, i, c, precise):
    """Entry c of the score of point i without jitter, from double-double if that is to be precise."""
    if not precise:
        return dot(task.data.rows[i], task.maps.beta[c])
    high, low = dot_dd(task, i, c)
    target = 1.0 if c == L else 0.0
    return ((high - target) + (low - dot(task.data.rows[i], task.maps.beta_derivative[c]))) + target


@kernel
def _is_tied(task, i, v, jitter, precise):
    """Is point i on the margin all over the piece around v: 1, 0, -1 if that is not known, BLURRED if it nearly is."""
    norm, tiny = task.data.norm[i], (task.data.rows.shape[1] + 2) * UNIT * (0.0 if precise else 1.0)
    left, error, moved = 0.0, 4.0 * UNIT * v[2], jitter * v[2]
    for c in range(3):
        one, derivative = 1.0 if c == L else 0.0, length_of(task.maps.beta_derivative[c])
        off = abs(_score_without(task, i, c, precise) - one)
        rounding = task.maps.eta_dd[c] + 2.0 * (task.data.rows.shape[1] + 2) * UNIT * (task.maps.length[c] + derivative)
        if off > SEEN * (norm * task.maps.length[c] + one) + norm * rounding + 4.0 * UNIT * one:
            return 0
        left += off * v[c]
        error += norm * (task.maps.eta_dd[c] + tiny * task.maps.length[c]) * v[c]
        moved += norm * derivative * v[c]
    if error > 0.5 * TIED * moved:
        return -1
    if left <= TIED * moved:
        return 1
    return BLURRED if TIED * left < moved else 0


BLURRED = 2
"""A point that is not on the margin, by no more than what the jitter moves it times 1 / TIED: the jitter has its part in which
side it is on."""


@kernel
def _find_tied(task, v, jitter, truth):
    """Put the points that are tied in the piece in hand into M: 1, or BLURRED; -1 if double-double does not tell."""
    state, ready, found = task.state, False, 1
    reach, score = weights_inside(task, v), task.lines.at_corner
    score_all(task, score)
    for i in range(state.size):
        if state[i] == MARGIN or not is_near_margin(task, i, score[i], v[L], reach):
            continue
        ready = ready or _remove_jitter(task)
        if not ready:
            return -1
        tied = _is_tied(task, i, v, jitter, False)
        if tied < 0:
            tied = _is_tied(task, i, v, jitter, True)
        if tied < 0:
            return -1
        found = max(found, tied)
        if tied == 1:
            truth[i] = MARGIN
    return found


@kernel
def _is_anchored(data, state):
    """The class that M is all of, if there are so many that beta is e (see Anchored facets in facet.py); else -1."""
    count, first = 0, -1
    for i in range(state.size if data.anchor > 0.0 else 0):
        if state[i] == MARGIN:
            first = data.axis[i] if count == 0 else first
            if data.axis[i] != first:
                return -1
            count += 1
    return first if count == data.rank else -1


@kernel
def _middle(vertices, corner, first, end, out):
    """A point inside a piece."""
    out[0], out[1], out[2] = 0.0, 0.0, 0.0
    for k in range(first, end):
        v = vertices[corner[k]]
        top = max(v[0], v[1], v[2])
        for c in range(3):
            out[c] += v[c] / top


@entry_noalloc
def _find_all_tied(task, drift, jitter, pieces, states, truth, vertices, at, corner, middle, found):
    """Put the points that are tied in some pieces into M of ``truth``."""
    data, moves, last = task.data, states.shape[1], -1
    for f in range(pieces.size):
        kind = _is_anchored(data, states[f])
        if kind >= 0:  # beta is e: all of the class are on the margin, the others have the score -1
            for i in range(data.axis.size):
                truth[f, i] = MARGIN if data.axis[i] == kind else INSIDE
            continue
        moves, last = take_up(task, states, f, last, drift, moves), f
        _middle(vertices, corner, at[pieces[f]], at[pieces[f] + 1], middle)
        found[f] = _find_tied(task, middle, jitter, truth[f])


def find_tied(data: Data, region: Region, split: Split, pieces: Ints) -> tuple[States, States, Bools]:
    """Partitions of some pieces with jitter and without it; and in which of them are points BLURRED."""
    mesh, states = split.mesh, split.states(pieces)
    truth, found = states.copy(), np.ones(pieces.size, dtype=np.int8)
    jitter, space = largest_jitter(data), make_space(data, region, closing=False)
    _find_all_tied(
        open_task(data, region, space), drift_of(data, 1), jitter, pieces, states, truth,
        mesh.vertices, mesh.facet_at, mesh.facet_vertices, np.empty(3), found,
    )  # fmt: skip
    exact = ExactProblem(data, region, 0.0)
    for f in np.flatnonzero(found < 0):
        truth[f] = _find_exactly(exact, states[f])
    return states, truth, found == BLURRED


def _find_exactly(problem: ExactProblem, state: States) -> States:
    """The partition of a piece without jitter, by exact arithmetic."""
    facet, truth = ExactFacet(problem, state), state.copy()
    for i in np.flatnonzero(state != MARGIN).tolist():
        if facet.line(2 * i + int(state[i] == INSIDE)) == (0, 0, 0):
            truth[i] = MARGIN
    return truth


# ----------------------------------------------------------------------------------------------------------------------
# Edges


@kernel
def is_short(a, b, bound):
    """Is an edge between two vertices, of largest entry 1, that short? Close to an axis or infinity most are."""
    top = 0.0
    for c in range(3):
        top = max(top, abs(a[(c + 1) % 3] * b[(c + 2) % 3] - a[(c + 2) % 3] * b[(c + 1) % 3]))
    return top < bound


@kernel
def _cross_of(a, i, b, j, c):
    """Size of entry c of the cross product of two corners, in double-double, and that of its terms."""
    p, q = (c + 1) % 3, (c + 2) % 3
    d, _, _ = cross_entry_dd(a, i, b, j, c)
    return abs(d), abs(a.high[i, p] * b.high[j, q]) + abs(a.high[i, q] * b.high[j, p])


@kernel
def _are_zero(old, new, i, p, q):
    """Are entries p and q of corner i zero without jitter? One may be of second order in it, so that rounding is left."""
    x, y = abs(old.high[i, p]), abs(old.high[i, q])
    least = ROUNDING * max(x, y)
    return abs(new.high[i, p]) <= max(TIED * x, least) and abs(new.high[i, q]) <= max(TIED * y, least)


@kernel
def _has_no_length(old, new, i, j, nothing):
    """Do two corners become one without jitter? Each ratio of two entries by itself, for they differ in size."""
    for c in range(3):
        p, q = (c + 1) % 3, (c + 2) % 3
        if _are_zero(old, new, i, p, q) and _are_zero(old, new, j, p, q):  # both are in the corner of the triangle there
            return True
        left, size = _cross_of(new, i, new, j, c)
        moved = _cross_of(old, i, new, i, c)[0] + _cross_of(old, j, new, j, c)[0]
        if left > TIED * moved + ROUNDING * size + nothing:
            return False
    return True


@kernel
def _corners_with_less(task, less, vertices, corner, first, out):
    """The corners with that much less jitter; zeros by structure are zeros."""
    measure_corners(task, less, out)
    for j in range(task.polygon.n_corners):
        v = vertices[corner[first + j]]
        for c in range(3):
            if not v[c] > 0.0:
                out.high[j, c], out.low[j, c] = 0.0, 0.0


@entry_noalloc
def _find_all_collapsed(task, drift, pieces, states, vertices, at, corner, edges, edge_code, short):
    """Leave of the short edges of some pieces those without length."""
    data, moves, old, new, jitter = task.data, states.shape[1], task.lines.ends, task.lines.ends_less, 0.0
    for i in range(data.target_jitter.size):
        jitter = max(jitter, abs(data.target_jitter[i]))
    for f in range(pieces.size):
        moves = take_up(task, states, f, f - 1, drift, moves)
        first, n = at[pieces[f]], at[pieces[f] + 1] - at[pieces[f]]
        task.polygon.n_corners = n
        for j in range(n):
            task.edges.code[j] = edge_code[edges[first + j]]
        known = _refine_with_derivatives(task)
        if known:
            _corners_with_less(task, 0.0, vertices, corner, first, old)
            _corners_with_less(task, 1.0 - LESS, vertices, corner, first, new)
        for j in range(n):
            if short[first + j]:
                short[first + j] = known and _has_no_length(old, new, j - 1 if j > 0 else n - 1, j, NOTHING * jitter)


def find_collapsed(data: Data, region: Region, split: Split, pieces: Ints, short: Bools) -> None:
    """Leave of some short edges, marked by their places in the split mesh, those of some pieces that have no length."""
    mesh, space = split.mesh, make_space(data, region, closing=False)
    _find_all_collapsed(
        open_task(data, region, space), drift_of(data, 1), pieces, split.states(pieces),
        mesh.vertices, mesh.facet_at, mesh.facet_vertices, mesh.facet_edges, mesh.edge_code, short,
    )  # fmt: skip


# ----------------------------------------------------------------------------------------------------------------------
# Corners


@entry_noalloc
def _find_all_corners(task, drift, states, codes, distance, corners):
    """Where the lines of two codes meet without jitter, for some pieces; corners that are not known better stay."""
    task.jitter = 0.0
    moves = states.shape[1]
    v, error = task.lines.cross.high, task.lines.cross.error
    for n in range(states.shape[0]):
        moves = take_up(task, states, n, n - 1, drift, moves)
        if task.facet.refined == 0:
            refine(task)
        task.polygon.crossed[0] = NO_CODE
        if task.facet.refined != 1 or not cross_dd(task, codes[n, 0], codes[n, 1]):
            continue
        top = max(v[P], v[Q], v[L])
        near, corner = max(error[P], error[Q], error[L]) < ROUNDING * top, corners[n]
        for c in range(3):
            near = near and abs(v[c] / top - corner[c] / max(corner[0], corner[1], corner[2])) < distance[n]
        for c in range(3 if near else 0):  # zeros by structure are zeros
            corners[n, c] = max(v[c] / top, 0.0) if corners[n, c] > 0.0 else 0.0


NEAR, NEAR_AT_PLATEAU = 1e-6, 1e-5
"""Largest distance of a corner from where it is with jitter: what is further off is another one. The jitter moves corners at
plateaus by 1e-6 or so."""


def find_corners(
    data: Data, region: Region, split: Split, pieces: Ints, codes: npt.NDArray[np.int32], corners: Floats, distance: Floats
) -> Floats:
    """Corners of some pieces between the edges of two codes (n, 2) each, without jitter.

    A corner that is further than ``distance`` from where it was stays there.
    """
    found = corners.copy()
    space = make_space(data, region, closing=False)
    task = open_task(data, region, space)
    _find_all_corners(task, drift_of(data, 1), split.states(pieces), codes.astype(np.intp), distance, found)
    return found
