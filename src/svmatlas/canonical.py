"""The split map -> the map of the data: what the jitter cut is put together again, and what it made is left out.

The engine explores jittered data (problem.py), where at most rank(X) points are on the margin at once. Its facets are
called *pieces* here, and its mesh the *split* mesh. The facets of the data as they are:

    M = all points with score 1,  I = those below,  O = those above;   the facet: all costs of one such partition.

That set is convex: with M, I, O fixed all conditions are linear in the costs and alpha together, and a projection of a
polyhedron is convex. So pieces with the same M, I and O *without jitter* are one facet, and only those.

Two facets share at most one edge, for both are convex. And no corner of a facet lies inside an edge of another: over one edge
of the projection lies one face of the polyhedron, so along all of it the same points are at the bounds of their alpha,
and the same cone holds the directions into which beta can turn behind it; so one and the same facet lies behind all of it.
Hence the map is known when the neighbours of each facet, in order, are: an edge is a pair of facets, and its ends follow
from who comes next around them. No coordinates are compared.

1. ``Looked``: which points are on the margin all over a piece, beside those of its M, and which of its edges have no length.
   Both are told by the jitter: a line or an edge is tied if without jitter less is left of it than the jitter moves it.
2. The piece behind each edge: through pieces without area, on a straight way (``_cross_ties``).
3. Facets from pieces, edges from pairs of facets, vertices from the ends of edges (``_assemble``, ``_join_corners``).
4. Events of an edge: points whose set is not the same on both sides.
"""

from __future__ import annotations

from concurrent.futures import Executor
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.compiled import caller, entry, kernel, owner
from svmatlas.doubledouble import dd_add, dd_mul
from svmatlas.exact import ExactFacet, ExactProblem
from svmatlas.facet import (
    CODE,
    INSIDE,
    LENGTH,
    MARGIN,
    N_CORNERS,
    NORM,
    OUTSIDE,
    REFINED,
    SCORES,
    SCRATCH,
    SIZE,
    SWAY_BETA,
    TARGET_LO,
    Data,
    L,
    P,
    Q,
    Region,
    U,
    drift_of,
    follow_pull,
    line_dd,
    line_sway,
    make_space,
    make_task,
    refine,
    score_all,
    solve_maps,
    solve_sway,
    sum_pull,
    weights_at,
)
from svmatlas.layers import BOUNDARY, CROWDED, OPEN, Words, number_names
from svmatlas.mesh import BEHIND, COUNT, FACETS, FAR_OUT, NUMBER, VERTEX, Mesh, Split, is_far_out, number_all
from svmatlas.mesh import CODE as EDGE
from svmatlas.polygon import THIN, _measure_corners

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Int32 = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]
States = npt.NDArray[np.int8]

TIED = 0.25
"""A line or an edge is tied if without jitter less is left of it than this share of what the jitter moves it by. Ties of the
data leave nothing, or where they hold up to rounding of the data (2^-53, the jitter is 2^-43 or so) some thousandths."""

LESS = 2.0**-5
"""Edges are measured with so much of the jitter: without any, both edges of a corner may be one line."""

ROUNDING = 2.0**-48
"""Relative distance of corners that are the same up to rounding of the data, 2^-53."""

STRAIGHT = 1e-6
"""Sine of an angle below which an edge may go straight on behind another one."""

WAY = 2.0**0.5 - 1
"""Where on an edge the way through ties is begun, as a share of its length: at no place that data would have."""

CHUNK = 1024
"""Pieces or edges whose partitions are in hand at once."""


class Looked(NamedTuple):
    """What some pieces are without jitter."""

    piece: Ints  # (n,)
    key: Words  # (n,) of their partition
    collapsed: Bools  # of each place of the split mesh: the edge has no length
    tied_at: Ints  # (n + 1,) piece f has the entries tied_at[f] : tied_at[f + 1] of the next
    tied: Int32  # points on the margin beside those of its M


# ----------------------------------------------------------------------------------------------------------------------
# 1. Pieces without jitter


@kernel
def _apart(a, b):
    """Distance of two vertices: the largest relative difference of their ratios."""
    top = 0.0
    for c in range(3):
        x, y = a[(c + 1) % 3] * b[(c + 2) % 3], a[(c + 2) % 3] * b[(c + 1) % 3]
        top = max(top, abs(x - y) / (x + y) if x + y > 0.0 else 0.0)
    return top


@kernel
def _is_short(a, b):
    """May an edge between two vertices, of largest entry 1, have no length? Close to an axis or infinity most have little."""
    top = 0.0
    for c in range(3):
        top = max(top, abs(a[(c + 1) % 3] * b[(c + 2) % 3] - a[(c + 2) % 3] * b[(c + 1) % 3]))
    return top < THIN


@kernel
def _is_straight(a, b, c):
    """May b lie between a and c, on one line?"""
    det = a[0] * (b[1] * c[2] - b[2] * c[1]) + a[1] * (b[2] * c[0] - b[0] * c[2]) + a[2] * (b[0] * c[1] - b[1] * c[0])
    size = a[0] * (b[1] * c[2] + b[2] * c[1]) + a[1] * (b[2] * c[0] + b[0] * c[2]) + a[2] * (b[0] * c[1] + b[1] * c[0])
    return abs(det) <= size * (STRAIGHT * _apart(a, b) * _apart(b, c) + STRAIGHT * THIN)


@kernel
def _place_of(edges, at, f, edge):
    """The place of an edge in a facet."""
    for k in range(at[f], at[f + 1]):
        if edges[k] == edge:
            return k
    return -1


@kernel
def _step(at, f, k, n):
    """The place n before or after place k of facet f."""
    return at[f] + (k - at[f] + n) % (at[f + 1] - at[f])


@entry
def _find_doubtful(vertices, at, corner, edges, behind, tie):
    """Pieces that may have ties: those beside a piece without area, with a short edge, or with one where others go straight on.

    Behind an edge that the jitter made all is as before it, so the other edges go straight on at its ends; at one of them
    only if the other is in a corner of the region.
    """
    out = np.zeros(tie.size, np.bool_)
    for f in range(tie.size):
        for k in range(at[f], at[f + 1]):
            g, v, w = behind[k], vertices[corner[k]], vertices[corner[_step(at, f, k, -1)]]
            if tie[f]:
                if g >= 0 and not tie[g]:
                    out[g] = True
                continue
            if _is_short(v, w):
                out[f] = True
            if g > f and not tie[g] and not (out[f] and out[g]):
                j = _place_of(edges, at, g, edges[k])
                x, y = vertices[corner[_step(at, f, k, 1)]], vertices[corner[_step(at, g, j, -2)]]
                z, u = vertices[corner[_step(at, f, k, -2)]], vertices[corner[_step(at, g, j, 1)]]
                if _is_straight(x, v, y) or _is_straight(z, w, u):
                    out[f] = out[g] = True
    return out


@kernel
def _middle(vertices, corner, first, end, out):
    """A point inside a piece."""
    out[0], out[1], out[2] = 0.0, 0.0, 0.0
    for k in range(first, end):
        v = vertices[corner[k]]
        top = max(v[0], v[1], v[2])
        for c in range(3):
            out[c] += v[c] / top


@kernel
def _length(v):
    s = 0.0
    for j in range(v.size):
        s += v[j] * v[j]
    return np.sqrt(s)


@kernel
def _sharpen(task):
    """Maps in double-double and their derivatives by the jitter, once; False if the rows are too badly conditioned."""
    if task.counts[REFINED] == 0:
        refine(task)
        solve_sway(task)
    return task.counts[REFINED] == 1


@kernel
def _is_tied(task, i, v, jitter):
    """Is point i on the margin all over the piece, at v and so on? 1, 0, or -1 if double-double does not tell."""
    line, sway, moves = task.exact[0], task.exact[1], task.column[SWAY_BETA]
    code = 2 * i + (0 if task.state[i] == OUTSIDE else 1)
    line_dd(task, code, line)
    line_sway(task, code, sway)
    unit = task.bound[LENGTH, U] ** 2 if task.counts[SIZE] == task.rank - 1 else 1.0
    left, error, moved = 0.0, 0.0, jitter * v[2]
    for c in range(3):
        left += abs((line[c] - sway[c]) + line[3 + c]) * v[c]
        error += line[6 + c] * v[c]
        moved += task.point[NORM, i] * _length(moves[c]) * v[c]
    if error > 0.5 * TIED * unit * moved:
        return -1
    return 1 if left <= TIED * unit * moved else 0


@kernel
def _find_tied(task, v, jitter, truth):
    """Put the points that are on the margin all over the piece in hand into M; False if double-double does not tell."""
    score, state = task.score[SCORES], task.state
    weights_at(task, v[0], v[1], v[2])
    length = _length(task.column[SCRATCH, 0])
    score_all(task, score)
    for i in range(state.size):
        size = task.point[NORM, i] * length + v[2]
        if state[i] == MARGIN or abs(score[i] - v[2]) > THIN * size:
            continue
        tied = _is_tied(task, i, v, jitter) if _sharpen(task) else -1
        if tied < 0:
            return False
        if tied == 1:
            truth[i] = MARGIN
    return True


@kernel
def _cross_dd(a, b, c):
    """Entry c of the cross product of two corners in double-double, and the size of its terms."""
    p, q = (c + 1) % 3, (c + 2) % 3
    x, x_lo = dd_mul(a[p], a[3 + p], b[q], b[3 + q])
    y, y_lo = dd_mul(a[q], a[3 + q], b[p], b[3 + p])
    d, _ = dd_add(x, x_lo, -y, -y_lo)
    return abs(d), abs(x) + abs(y)


@kernel
def _vanishes(old, new, i, c):
    """Do all costs of a corner but cost c vanish without jitter? Their ratio is then one of zeros."""
    a, b = (c + 1) % 3, (c + 2) % 3
    least = ROUNDING * max(abs(old[i, a]), abs(old[i, b]))  # of second order in the jitter
    return abs(new[i, a]) <= max(TIED * abs(old[i, a]), least) and abs(new[i, b]) <= max(TIED * abs(old[i, b]), least)


@kernel
def _has_no_length(old, new, i, j):
    """Do two corners become one without jitter? Each ratio of two costs by itself: they differ in size."""
    for c in range(3):
        if _vanishes(old, new, i, c) and _vanishes(old, new, j, c):  # both in a corner of the triangle of costs
            return True
    for c in range(3):
        left, size = _cross_dd(new[i], new[j], c)
        moved = _cross_dd(old[i], new[i], c)[0] + _cross_dd(old[j], new[j], c)[0]
        if left > TIED * moved + ROUNDING * size:
            return False
    return True


@kernel
def _measure(task, less, vertices, corner, first, out):
    """The corners with that much less jitter; zeros by structure are zeros."""
    _measure_corners(task, less)
    for j in range(task.tally[N_CORNERS]):
        v = vertices[corner[first + j]]
        for c in range(6):
            out[j, c] = task.corner[1, j, c] if v[c % 3] > 0.0 else 0.0


@kernel
def _find_collapsed(task, vertices, corner, first, collapsed):
    """Of the short edges of the piece in hand, those without length; False if double-double does not tell."""
    n, old, new = task.tally[N_CORNERS], task.corner[0], task.corner[1]
    some = False
    for j in range(n):
        before = first + (j - 1 if j > 0 else n - 1)
        collapsed[first + j] = _is_short(vertices[corner[before]], vertices[corner[first + j]])
        some = some or collapsed[first + j]
    if not some:
        return True
    if not _sharpen(task):
        return False
    _measure(task, 0.0, vertices, corner, first, old)
    _measure(task, 1.0 - LESS, vertices, corner, first, new)
    for j in range(n):
        if collapsed[first + j]:
            collapsed[first + j] = _has_no_length(old, new, j - 1 if j > 0 else n - 1, j)
    return True


@caller
def _look(data, region, space, drift, jitter, states, truth, vertices, at, corner, code, middle, collapsed, hopeless):
    """See which points are tied, into ``truth``, and which edges have no length, for some pieces."""
    task = make_task(data, region, space)
    moves = task.state.size
    for f in range(states.shape[0]):
        task.state = states[f]
        if f == 0:
            sum_pull(task.rows, task.point, task.axis, task.state, task.pull)
        else:
            moves += follow_pull(task.rows, task.point, task.axis, states[f - 1], task.state, task.pull)
        task.drift = drift * moves
        solve_maps(task)
        task.tally[N_CORNERS] = at[f + 1] - at[f]
        for k in range(at[f], at[f + 1]):
            task.edge[0, CODE, k - at[f]] = code[k]
        _middle(vertices, corner, at[f], at[f + 1], middle)
        sure = _find_tied(task, middle, jitter, truth[f])
        hopeless[f] = not (_find_collapsed(task, vertices, corner, at[f], collapsed) and sure)


def _look_at(data: Data, region: Region, split: Split, pieces: Ints, jitter: float) -> tuple[States, States, Bools]:
    """Partitions of some pieces with jitter and without it, and which of their edges have no length."""
    mesh = split.mesh
    states = split.states(pieces)
    truth, sizes = states.copy(), mesh.facet_at[pieces + 1] - mesh.facet_at[pieces]
    at = np.concatenate([[0], np.cumsum(sizes)])
    places = np.repeat(mesh.facet_at[pieces] - at[:-1], sizes) + np.arange(at[-1])
    code, corner = mesh.edge_code[mesh.facet_edges[places]], mesh.facet_vertices[places]
    collapsed, hopeless = np.zeros(places.size, dtype=bool), np.zeros(pieces.size, dtype=bool)
    space = make_space(data, region, closing=False)
    _look(
        data, region, space, drift_of(data, 1), jitter, states, truth, mesh.vertices, at, corner, code, np.empty(3),
        collapsed, hopeless,
    )  # fmt: skip
    exact = ExactProblem(data, region, 0.0)
    for f in np.flatnonzero(hopeless):
        truth[f] = _look_exactly(exact, states[f])
    return states, truth, collapsed


def _look_exactly(problem: ExactProblem, state: States) -> States:
    """The partition of a piece without jitter, by exact arithmetic."""
    facet, truth = ExactFacet(problem, state), state.copy()
    for i in np.flatnonzero(state != MARGIN).tolist():
        if facet.line(2 * i + int(state[i] == INSIDE)) == (0, 0, 0):
            truth[i] = MARGIN
    return truth


@entry
def _keys(states, words):
    """Keys of partitions, as ``layers.key_of``."""
    out = np.empty(states.shape[0], np.uint64)
    for n in range(out.size):
        key = np.uint64(1)
        for i in range(states.shape[1]):
            if states[n, i] != INSIDE:
                key ^= words[2 * i + 1]
                if states[n, i] == OUTSIDE:
                    key ^= words[2 * i]
        out[n] = key
    return out


# ----------------------------------------------------------------------------------------------------------------------
# 2. What lies behind the edges


@kernel
def _along(v, a, b):
    """How far v is along the way from a to b, as a share of it."""
    va, vb, vv = a[0] + a[1] + a[2], b[0] + b[1] + b[2], v[0] + v[1] + v[2]
    top = 0 if a[0] + b[0] >= max(a[1] + b[1], a[2] + b[2]) else (1 if a[1] + b[1] >= a[2] + b[2] else 2)
    dot, square = 0.0, 0.0
    for c in ((top + 1) % 3, (top + 2) % 3):  # not the largest: costs may be small, and differ by less
        step = b[c] / vb - a[c] / va
        dot += (v[c] / vv - a[c] / va) * step
        square += step * step
    return dot / square


@kernel
def _cross_ties(vertices, at, corner, edges, behind, tie, f, k):
    """The place of the last edge on the way from piece f through its edge k and pieces without area behind it; -1: no way.

    Such a piece lies along one line: it is left by the edge that holds the point of that line where it was entered.
    """
    a, b = vertices[corner[_step(at, f, k, -1)]], vertices[corner[k]]
    for _ in range(tie.size):
        g = behind[k]
        if g < 0 or not tie[g]:
            return k
        best, widest = -1, 0.0
        for j in range(at[g], at[g + 1]):
            if edges[j] == edges[k]:
                continue
            x, y = _along(vertices[corner[_step(at, g, j, -1)]], a, b), _along(vertices[corner[j]], a, b)
            if (x - WAY) * (y - WAY) < 0.0 and abs(y - x) > widest:
                best, widest = j, abs(y - x)
        if best < 0:
            return -1
        k = best
    return -1


@entry
def _find_beyond(vertices, at, corner, edges, behind, code, tie, collapsed, group):
    """For each place of a true piece the facet behind it, or the code of a side, or UNEXPLORED; NOT_AN_EDGE for others.

    Also the code of its edge if that is the only one on the way.
    """
    beyond, event = np.full(corner.size, NOT_AN_EDGE, np.int64), np.full(corner.size, SEVERAL, np.int64)
    n_lost = 0
    for f in range(tie.size):
        for k in range(at[f] if not tie[f] else at[f + 1], at[f + 1]):
            if collapsed[k]:
                continue
            last = k if behind[k] < 0 or not tie[behind[k]] else _cross_ties(vertices, at, corner, edges, behind, tie, f, k)
            if last < 0:
                n_lost += 1
                continue
            g = behind[last]
            if g >= 0 and group[g] == group[f]:
                continue
            beyond[k] = group[g] if g >= 0 else (code[last] if g == BOUNDARY else UNEXPLORED - k)
            if last == k or g == OPEN:
                event[k] = code[k]
    return beyond, event, n_lost


NOT_AN_EDGE, SEVERAL, UNEXPLORED = -(2**40), -(2**41), -(2**42)
"""Behind an edge within a facet, or one without length; events that are not known yet; behind an edge where nothing was
explored: this less the place of the edge."""


# ----------------------------------------------------------------------------------------------------------------------
# 3. Facets, edges and vertices


class _Rings(NamedTuple):
    """The edges of all facets in order."""

    at: Ints  # (F + 1,) facet f has the places at[f] : at[f + 1] of the others
    beyond: Ints  # the facet behind the edge, the code of a side, or UNEXPLORED
    event: Ints  # code of the event, or SEVERAL
    first: Ints  # vertices of the split mesh
    last: Ints


@owner
def _angles(vertices, corner, places, starts):
    """Angles at which edges of one facet are seen from inside, in coordinates in which it is about round."""
    scale, points = np.zeros(3), np.empty((places.size, 2))
    for n in range(places.size):
        scale += vertices[corner[places[n]]]
    for n in range(places.size):
        a, b = _flat(vertices[starts[n]], scale), _flat(vertices[corner[places[n]]], scale)
        points[n, 0], points[n, 1] = (a[0] + b[0]) / 2, (a[1] + b[1]) / 2
    points[:, 0] -= points[:, 0].mean()
    points[:, 1] -= points[:, 1].mean()
    xx, xy, yy = (points[:, 0] ** 2).sum(), (points[:, 0] * points[:, 1]).sum(), (points[:, 1] ** 2).sum()
    slope = xy / xx if xx > 0.0 else 0.0
    rest = yy - slope * xy
    points[:, 1] -= slope * points[:, 0]
    points[:, 0] /= np.sqrt(xx) if xx > 0.0 else 1.0
    points[:, 1] /= np.sqrt(rest) if rest > 0.0 else 1.0
    return np.arctan2(points[:, 1], points[:, 0])


@kernel
def _flat(v, scale):
    """Two of the barycentric coordinates of costs, in the given scale of each, so that a turn to the left is one."""
    x = v[0] / scale[0] if scale[0] > 0.0 else 0.0
    y = v[1] / scale[1] if scale[1] > 0.0 else 0.0
    z = v[2] / scale[2] if scale[2] > 0.0 else 0.0
    return x / (x + y + z), y / (x + y + z)


@owner
def _boundary_of(at, corner, beyond, pieces):
    """The places of some pieces that are on the boundary of their facet, and the vertices where their edges begin."""
    n = 0
    for f in pieces:
        n += at[f + 1] - at[f]
    places, starts, n = np.empty(n, np.int64), np.empty(n, np.int64), 0
    for f in pieces:
        for k in range(at[f], at[f + 1]):
            places[n], starts[n] = k, corner[_step(at, f, k, -1)]
            n += beyond[k] != NOT_AN_EDGE
    return places[:n].copy(), starts[:n].copy()


@owner
def _neighbours(beyond, places, length):
    """The facets behind some places in the order of the longest place of each: that place, and for all places which it is."""
    longest, which, n = np.empty(places.size, np.int64), np.empty(places.size, np.int64), 0
    for k in range(places.size):
        found = which[k - 1] if k > 0 and beyond[places[k - 1]] == beyond[places[k]] else 0
        while found < n and beyond[places[longest[found]]] != beyond[places[k]]:
            found += 1
        if found == n:
            longest[n] = k
            n += 1
        if length[k] > length[longest[found]]:
            longest[found] = k
        which[k] = found
    order = np.argsort(longest[:n])
    number = np.empty(n, np.int64)
    for k in range(n):
        number[order[k]] = k
    return longest[order], number[which]


@entry
def _assemble(vertices, at, corner, beyond, event, member_at, members):
    """The edges of all facets in order, from the boundaries of their pieces: see _Rings."""
    ring_at, size = np.zeros(member_at.size, np.int64), 0
    rings = np.empty((4, corner.size), np.int64)
    for g in range(member_at.size - 1):
        pieces = members[member_at[g] : member_at[g + 1]]
        if pieces.size == 1:
            size = _go_round(at, corner, beyond, event, pieces[0], rings, size)
        else:
            size = _gather(vertices, at, corner, beyond, event, pieces, rings, size)
        ring_at[g + 1] = size
    return ring_at, rings[:, :size].copy()


BEYOND, EVENT, FIRST, LAST = range(4)
"""Rows of the rings: see _Rings."""


@kernel
def _go_round(at, corner, beyond, event, f, rings, size):
    """Append the ring of a facet that is one piece: edges to the same facet follow each other."""
    start, before = size, corner[at[f + 1] - 1]
    for k in range(at[f], at[f + 1]):
        first, before = before, corner[k]
        if beyond[k] == NOT_AN_EDGE:
            continue
        if size > start and rings[BEYOND, size - 1] == beyond[k]:
            rings[EVENT, size - 1], rings[LAST, size - 1] = SEVERAL, corner[k]
            continue
        rings[BEYOND, size], rings[EVENT, size], rings[FIRST, size], rings[LAST, size] = beyond[k], event[k], first, corner[k]
        size += 1
    if size > start + 1 and rings[BEYOND, start] == rings[BEYOND, size - 1]:
        size -= 1
        rings[EVENT, start], rings[FIRST, start] = SEVERAL, rings[FIRST, size]
    return size


@owner
def _gather(vertices, at, corner, beyond, event, pieces, rings, size):
    """Append the ring of a facet of several pieces: an edge is where its longest part is seen from inside."""
    places, starts = _boundary_of(at, corner, beyond, pieces)
    order = np.argsort(_angles(vertices, corner, places, starts))
    places, starts = places[order], starts[order]
    length = np.empty(places.size)
    for k in range(places.size):
        length[k] = _apart(vertices[starts[k]], vertices[corner[places[k]]])
    longest, which = _neighbours(beyond, places, length)
    for n in range(longest.size):
        k = longest[n]
        rings[BEYOND, size + n], rings[EVENT, size + n] = beyond[places[k]], event[places[k]]
        rings[FIRST, size + n], rings[LAST, size + n] = starts[k], corner[places[k]]
    for k in range(places.size):
        n, top = size + which[k], longest[which[k]]
        if k != top:
            rings[EVENT, n] = SEVERAL
            a, b = vertices[starts[top]], vertices[corner[places[top]]]
            if _along(vertices[starts[k]], a, b) < _along(vertices[rings[FIRST, n]], a, b):
                rings[FIRST, n] = starts[k]
            if _along(vertices[corner[places[k]]], a, b) > _along(vertices[rings[LAST, n]], a, b):
                rings[LAST, n] = corner[places[k]]
    return size + longest.size


@entry
def _pair(at, beyond):
    """For each place the place of the same edge in the facet behind it; -1 if that has none."""
    twin = np.full(beyond.size, -1, np.int64)
    for f in range(at.size - 1):
        for k in range(at[f], at[f + 1]):
            g = beyond[k]
            for j in range(at[g] if g > f else 0, at[g + 1] if g > f else 0):
                if beyond[j] == f:
                    twin[k], twin[j] = j, k
    return twin


@kernel
def _top(one, v):
    """The vertex that stands for v and all that are the same."""
    while one[v] != v:
        one[v] = one[one[v]]
        v = one[v]
    return v


@kernel
def _unite(one, vertices, v, w):
    """Two vertices are the same: the one with more zeros by structure, or the first, stands for both."""
    a, b = _top(one, v), _top(one, w)
    if a != b:
        zeros = 0
        for c in range(3):
            zeros += (vertices[a, c] == 0.0) - (vertices[b, c] == 0.0)
        if zeros < 0 or (zeros == 0 and b < a):
            a, b = b, a
        one[b] = a


@entry
def _join_corners(vertices, at, twin, first, last):
    """For each vertex of the split mesh the one that stands for it: ends of edges that follow each other, or are the same."""
    one = np.arange(vertices.shape[0])
    for f in range(at.size - 1):
        for k in range(at[f], at[f + 1]):
            _unite(one, vertices, last[k], first[_step(at, f, k, 1)])
            if twin[k] >= 0:
                _unite(one, vertices, last[k], first[twin[k]])
                _unite(one, vertices, first[k], last[twin[k]])
    for v in range(one.size):
        one[v] = _top(one, v)
    return one


# ----------------------------------------------------------------------------------------------------------------------
# 4. Events


@entry
def _differences(a, b):
    """The codes of the points that are not in the same set in partitions a (n, N) and b, and where those of each begin."""
    at, size = np.zeros(a.shape[0] + 1, np.int64), 0
    codes = np.empty(64, np.int32)
    for n in range(a.shape[0]):
        for i in range(a.shape[1] - 1, -1, -1):
            if a[n, i] == b[n, i]:
                continue
            if size + 2 > codes.size:
                codes = np.concatenate((codes, np.empty_like(codes)))
            for kind, other in ((1, INSIDE), (0, OUTSIDE)):
                codes[size] = 2 * i + kind
                size += a[n, i] == other or b[n, i] == other
        at[n + 1] = size
    return at, codes[:size].copy()


class _Facets(NamedTuple):
    """Facets as sets of pieces."""

    member_at: Ints  # (F + 1,) facet f has the pieces members[member_at[f] : member_at[f + 1]]
    members: Int32
    tied_at: Ints  # (F + 1,) and beside M of its first piece the points tied[tied_at[f] : tied_at[f + 1]] on the margin
    tied: Int32

    def states(self, split: Split, facets: Ints) -> States:
        """Partitions of some facets without jitter."""
        states = split.states(self.members[self.member_at[facets]].astype(np.intp))
        sizes = self.tied_at[facets + 1] - self.tied_at[facets]
        row = np.repeat(np.arange(facets.size), sizes)
        places = np.repeat(self.tied_at[facets] - (np.cumsum(sizes) - sizes), sizes) + np.arange(row.size)
        states[row, self.tied[places]] = MARGIN
        return states


def _find_events(split: Split, facets: _Facets, pairs: Ints, event: Ints) -> tuple[Ints, Int32]:
    """The codes of the events between pairs (n, 2) of facets, the largest first, and where those of each pair begin.

    ``event`` is the code that was crossed, or SEVERAL: where no point is tied it is the only one.
    """
    is_tied = (np.diff(facets.tied_at) > 0) | (np.diff(facets.member_at) > 1)  # what M of one piece holds is tied in others
    unknown = np.flatnonzero((event == SEVERAL) | is_tied[pairs].any(axis=1))
    counts, codes = np.ones(len(pairs), dtype=np.intp), [np.empty(0, dtype=np.int32)]
    for part in np.array_split(unknown, unknown.size // CHUNK + 1):
        which, place = np.unique(pairs[part], return_inverse=True)
        states, place = facets.states(split, which), place.reshape(-1, 2)
        at, found = _differences(states[place[:, 0]], states[place[:, 1]])
        counts[part] = np.diff(at)
        codes.append(found)
    out = np.empty(counts.sum(), dtype=np.int32)
    several = np.zeros(len(pairs), dtype=bool)
    several[unknown] = True
    out[np.repeat(~several, counts)] = event[~several]
    out[np.repeat(several, counts)] = np.concatenate(codes)
    return np.concatenate([[0], np.cumsum(counts)]), out


# ----------------------------------------------------------------------------------------------------------------------
# The map


class Canonical(NamedTuple):
    """The map of the data, and how it hangs together with that of the jittered data."""

    split: Split
    mesh: Mesh  # that of ``split`` where nothing is tied; the code of an edge is the largest of its events
    event_at: Ints  # (E + 1,) edge e has the events event_at[e] : event_at[e + 1]
    event_code: Int32
    piece: Int32  # (F,) one of the pieces of each facet
    facet: Int32  # (pieces,) the facet that each piece is part of, -1 for ties
    tied_at: Ints  # (F + 1,) facet f has the points tied_at[f] : tied_at[f + 1] on its margin beside M of its piece
    tied: Int32

    def is_cut(self, facet: int) -> bool:
        """Is a facet made of several pieces, each with an alpha of its own?"""
        return int(np.sum(self.facet == facet)) > 1

    def states(self, facets: Ints) -> States:
        """Partitions of some facets: M is all points on the margin."""
        member_at = np.arange(self.piece.size + 1)
        return _Facets(member_at, self.piece, self.tied_at, self.tied).states(self.split, facets)


def unite(data: Data, region: Region, words: Words, split: Split, pool: Executor) -> Canonical:
    """The map of the data from that of the jittered data."""
    mesh = split.mesh
    tie = split.tie & ~split.tie.all()  # where there is nothing else, a tie is better than nothing
    beside = behind(mesh)
    looked = _look_where_doubtful(data, region, words, split, beside, tie, pool)
    flat = np.add.reduceat(~looked.collapsed, mesh.facet_at[:-1]) < 3  # up to rounding of the data
    if flat.any() and not (tie | flat).all():
        tie |= flat
        looked = _look_where_doubtful(data, region, words, split, beside, tie, pool)
    if not tie.any() and not looked.collapsed.any() and looked.tied.size == 0:
        return untied(split)
    facets, group = _group(looked, tie)
    code = mesh.edge_code[mesh.facet_edges]
    beyond, event, n_lost = _find_beyond(
        mesh.vertices, mesh.facet_at, mesh.facet_vertices, mesh.facet_edges, beside, code, tie, looked.collapsed, group
    )
    at, ring = _assemble(mesh.vertices, mesh.facet_at, mesh.facet_vertices, beyond, event, facets.member_at, facets.members)
    return _number(region, split, facets, group, _Rings(at, *ring), pool)


def _look_where_doubtful(
    data: Data, region: Region, words: Words, split: Split, beside: Int32, tie: Bools, pool: Executor
) -> Looked:
    """What the pieces are without jitter that may have ties."""
    mesh = split.mesh
    doubtful = _find_doubtful(mesh.vertices, mesh.facet_at, mesh.facet_vertices, mesh.facet_edges, beside, tie)
    doubtful |= split.kind == CROWDED
    return _look_at_all(data, region, words, split, np.flatnonzero(doubtful & ~tie), pool)


def behind(mesh: Mesh) -> Int32:
    """For each place the facet behind its edge."""
    facets = mesh.edge_facets[mesh.facet_edges]
    own = np.repeat(np.arange(mesh.facet_at.size - 1, dtype=np.int32), np.diff(mesh.facet_at))
    return np.where(facets[:, 0] == own, facets[:, 1], facets[:, 0])


def untied(split: Split) -> Canonical:
    """Nothing is tied: every piece is a facet."""
    n, n_edges = split.tie.size, split.mesh.edge_code.size
    all_pieces = np.arange(n, dtype=np.int32)
    none, nowhere = np.empty(0, dtype=np.int32), np.zeros(n + 1, dtype=np.intp)
    return Canonical(
        split, split.mesh, np.arange(n_edges + 1), split.mesh.edge_code, all_pieces, all_pieces, nowhere, none
    )  # fmt: skip


def _look_at_all(data: Data, region: Region, words: Words, split: Split, pieces: Ints, pool: Executor) -> Looked:
    """What some pieces are without jitter."""
    at, n_places = split.mesh.facet_at, split.mesh.facet_edges.size
    jitter = float(np.abs(data.point[TARGET_LO]).max(initial=0.0))

    def look(part: Ints) -> tuple[Words, Bools, Ints, Int32]:
        states, truth, collapsed = _look_at(data, region, split, part, jitter)
        piece, point = np.nonzero(states != truth)
        return _keys(truth, words), collapsed, np.bincount(piece, minlength=part.size), point.astype(np.int32)

    parts = np.array_split(pieces, pieces.size // CHUNK + 1)
    keys, collapsed, counts, tied = (np.concatenate(found) for found in zip(*pool.map(look, parts), strict=True))
    sizes = at[pieces + 1] - at[pieces]
    places = np.repeat(at[pieces] - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())
    all_collapsed = np.zeros(n_places, dtype=bool)
    all_collapsed[places] = collapsed
    return Looked(pieces, keys, all_collapsed, np.concatenate([[0], np.cumsum(counts)]), tied)


def _group(looked: Looked, tie: Bools) -> tuple[_Facets, Int32]:
    """Facets from pieces of the same key, and the facet of each piece, -1 for ties."""
    group = np.full(tie.size, -1, dtype=np.int32)
    first, number = number_names(looked.key)
    group[looked.piece] = number
    alone = ~tie
    alone[looked.piece] = False
    group[alone] = first.size + np.arange(np.sum(alone))
    true = np.flatnonzero(~tie).astype(np.int32)
    n = first.size + int(np.sum(alone))
    member_at = np.concatenate([[0], np.cumsum(np.bincount(group[true], minlength=n))])
    members = true[np.argsort(group[true], kind="stable")]
    counts = np.zeros(n, dtype=np.intp)
    counts[: first.size] = np.diff(looked.tied_at)[first]
    mine = np.zeros(looked.piece.size, dtype=bool)
    mine[first] = True
    tied = looked.tied[np.repeat(mine, np.diff(looked.tied_at))]
    return _Facets(member_at, members, np.concatenate([[0], np.cumsum(counts)]), tied), group


def _number(region: Region, split: Split, facets: _Facets, group: Int32, rings: _Rings, pool: Executor) -> Canonical:
    """Pair the edges, join the corners, find the events, and number all in the order of the layers."""
    rings, twin = _paired(rings)
    one = _join_corners(split.mesh.vertices, rings.at, twin, rings.first, rings.last)
    f = np.repeat(np.arange(rings.at.size - 1), np.diff(rings.at))
    mine, unexplored = np.flatnonzero(twin > np.arange(twin.size)), np.flatnonzero(rings.beyond <= UNEXPLORED)
    pairs = np.column_stack([f[mine], rings.beyond[mine]])
    event_at, event_code = _find_events(split, facets, pairs, rings.event[mine])
    event_at = np.concatenate([event_at, event_at[-1] + 1 + np.arange(unexplored.size)])
    event_code = np.concatenate([event_code, rings.event[unexplored].astype(np.int32)])
    edge = rings.beyond.copy()  # number of the edge, or the code of a side
    edge[mine] = edge[twin[mine]] = np.arange(mine.size)
    edge[unexplored] = mine.size + np.arange(unexplored.size)
    largest = np.where(edge >= 0, event_code[event_at[np.maximum(edge, 0)]], edge) if event_code.size else edge
    vertices = _on_sides(region, split.mesh.vertices, rings, one)
    place, around = _lay_out(vertices, rings.at, rings.beyond, edge, largest, one[rings.last])
    root = int(group[np.argmax(group >= 0)])
    order, mesh, _ = number_all(pool, root, rings.at, place, around, vertices)
    number = np.full(rings.at.size, -1, dtype=np.int32)
    number[order] = np.arange(order.size)
    events = _take(event_at, event_code, mesh.edge_code)
    tied = _take(facets.tied_at, facets.tied, order)
    mesh = mesh._replace(edge_code=events[1][events[0][:-1]])
    return Canonical(split, mesh, *events, facets.members[facets.member_at[order]], number[group], *tied)


def _on_sides(region: Region, vertices: Floats, rings: _Rings, one: Ints) -> Floats:
    """Vertices where the ends of edges on an axis or at infinity are there, as they are without jitter."""
    vertices = vertices.copy()
    for side, axis in enumerate(region.axis.tolist()):
        on_side = rings.beyond == -1 - side
        if axis >= 0:
            vertices[one[np.concatenate([rings.first[on_side], rings.last[on_side]])], axis] = 0.0
    return vertices


def _take(at: Ints, values: Int32, which: Int32) -> tuple[Ints, Int32]:
    """Of lists those with some numbers; a negative number is a list of itself."""
    first = at[np.maximum(which, 0)] if at.size > 1 else np.zeros(which.size, dtype=np.intp)
    sizes = np.where(which >= 0, at[np.minimum(np.maximum(which, 0) + 1, at.size - 1)] - first, 1)
    new = np.concatenate([[0], np.cumsum(sizes)])
    places = np.repeat(first - new[:-1], sizes) + np.arange(new[-1])
    own = np.repeat(which, sizes)
    taken = values[np.where(own >= 0, places, 0)] if values.size else own
    return new, np.where(own >= 0, taken, own).astype(np.int32)


def _paired(rings: _Rings) -> tuple[_Rings, Ints]:
    """Edges that both facets have, or that have one; and the place of each in the other facet.

    An edge hardly longer than what the jitter moves it by may be taken for none from one side.
    """
    twin = _pair(rings.at, rings.beyond)
    kept = (rings.beyond < 0) | (twin >= 0)
    if not kept.all():
        at = np.concatenate([[0], np.cumsum(kept)])[rings.at]
        rings = _Rings(at, *(array[kept] for array in rings[1:]))
        twin = _pair(rings.at, rings.beyond)
    return rings, twin


@entry
def _lay_out(vertices, at, beyond, edge, largest, vertex):
    """Places and what is around the vertices, as mesh.py numbers them; the edges of a facet begin with the largest event."""
    place, around = np.empty((beyond.size, 3), np.int32), np.zeros((vertices.shape[0], 3), np.int32)
    for v in range(vertices.shape[0]):
        around[v, COUNT], around[v, NUMBER] = -FAR_OUT if is_far_out(vertices, v) else 0, -1
    for f in range(at.size - 1):
        first = at[f]
        for k in range(at[f], at[f + 1]):
            first = k if largest[k] > largest[first] else first
        for k in range(at[f], at[f + 1]):
            old = _step(at, f, first, k - at[f])
            behind = beyond[old]
            place[k, EDGE], place[k, VERTEX] = edge[old], vertex[old]
            place[k, BEHIND] = behind if behind >= 0 else (OPEN if behind <= UNEXPLORED else BOUNDARY)
            around[vertex[old], FACETS] ^= f
            around[vertex[old], COUNT] += 1
    return place, around
