"""Layer after layer of facets: the paper's AC-LSVMPath over the flat arrays of one tile, a part of the plane, in four steps.

1. ``CEF`` closes a facet: polygon of its partition, known edges and corners first (polygon.py).
2. ``MEV`` names what lies behind each edge: crossing it flips one point. Equal facets, edges and vertices are merged by name.
3. ``CV`` closes each vertex by the vertex loop property: behind a vertex of two events lies the facet with both points
   flipped, and at that vertex all four facets have the same two events as edges ("open" edges: one end is known).
4. ``MEF`` merges open edges and facets into the layer after: a facet is there once, with all corners that are known of it.

Each facet knows what all facets before it found: a vertex is checked once, by the facet that found it, which names the facets
around it and tells them of it. So a facet of which all corners are known needs no maps: it is put together from its corners.
Crossing an edge changes |M| by one, so facets are coloured like a chessboard by the parity of |M|, and at each vertex two of
each colour meet. All vertices are found from facets of one colour alone, and with those first of which least is known two
facets in five have to be closed from their maps. That colour is the one of |M| = rank - 1, where all score lines are parallel.
Layers are found in the end, when tiles are joined (joining.py).

Names of facets and vertices: names.py. What is explored again with more points: tile.py.
"""

from __future__ import annotations

import numpy as np

from svmatlas.engine.arena import (
    BOUNDARY,
    CROWDED,
    FAR,
    LIKELY,
    LONE,
    NEGATIVES,
    NO_SIDE,
    NOWHERE,
    OPEN,
    OTHER,
    PLAIN,
    PLATEAUS,
    POSITIVES,
    SAME,
    TIE,
    UNSURE,
    UNVISITED,
    take_pull,
)
from svmatlas.engine.checking import CLEAR
from svmatlas.engine.clipping import CLOSED, EMPTY, is_coarse
from svmatlas.engine.compiled import entry, entry_noalloc, kernel
from svmatlas.engine.doubledouble import UNIT
from svmatlas.engine.facet import can_anchor, gather, solve_maps, take_up
from svmatlas.engine.names import corner_of_triangle, find, name_vertex, numbers_of_names, opposite
from svmatlas.engine.polygon import close_facet, has_coarse, path_of, sharpen_traced, tabulate_edges, trace_facet
from svmatlas.engine.predicates import NO_CODE
from svmatlas.engine.queue import (
    copy_row,
    dequeue,
    enqueue,
    known_corners_of,
    number_of,
    record_corner,
    release_row,
    take_row,
)
from svmatlas.engine.refinement import refine
from svmatlas.engine.tie_test import (
    ANYBODY,
    EDGES,
    NOBODY,
    THIN,
    WIDE,
    is_between_tied,
    is_crowded,
    is_far,
    is_steep,
    is_suspect,
    is_tie,
    may_hold_tied,
    shrinks,
    survives,
    who_may_be_tied,
)
from svmatlas.engine.workspace import MARGIN, L, P, Q
from svmatlas.engine.zeros import UNKNOWN, vanishes

FULL, PAUSED = 4, 5
"""Two more outcomes (beside those of clipping.py): there is no room for more facets; more is not asked for, or not now."""


# ----------------------------------------------------------------------------------------------------------------------
# 1. CEF


@kernel
def _cef(task, arena, f, hints):
    """Close facet f."""
    _take_up(task, arena, f)
    return close_facet(task, hints)


@kernel
def _take_up(task, arena, f):
    """The partition of facet f is that in hand."""
    take_row(task, arena, f)
    row = arena.partition_row[f]
    task.state = arena.state[row]
    take_pull(task.pull, arena, row)


@kernel
def _close_ringed(task, arena, f, hints):
    """Put together a facet of which all corners are known, from the facets around.

    Returns EMPTY if they are not known well, or if it takes more to tell whether it is a tie.
    """
    edges = task.edges
    n, _, closed = path_of(hints, edges.code, edges.hint)
    if n < 3 or not closed:
        return EMPTY
    task.polygon.n_corners, n_clear = n, 0
    for j in range(n):
        number = hints[edges.hint[j]].number
        if number < 0:
            return EMPTY
        for c in range(3):
            edges.corner[j, c] = arena.corner[number, c]
        edges.checked[j] = 1 if arena.crowded[number] else CLEAR
        n_clear += edges.checked[j] == CLEAR
    if n_clear > 2 and _is_wide_and_mixed(task, arena.margin[f]):
        arena.kind[arena.counts[0].n_done] = PLAIN
        return CLOSED
    for j in range(n):
        edges.sign[j] = edges.code[j] >= 0 and _is_on_margin(arena, f, edges.code[j] >> 1)
    plateau = _plateau_of(task, arena, arena.margin[f], n)
    if plateau == UNKNOWN:
        return EMPTY
    if plateau >= 0:
        arena.kind[arena.counts[0].n_done] = POSITIVES + plateau
        return CLOSED
    kind = _kind_of_ringed(task, arena, f)
    arena.kind[arena.counts[0].n_done] = max(kind, PLAIN)
    return CLOSED if kind != UNKNOWN_KIND else EMPTY


@kernel
def _is_wide_and_mixed(task, margin):
    """Is the polygon in hand no suspect, and are both classes in M? Then it is no tie, and on no plateau."""
    corner, n = task.edges.corner, task.polygon.n_corners
    return min(margin[P], margin[Q]) > 0 and not is_far(corner, n) and not is_suspect(corner, n, WIDE)


UNKNOWN_KIND = -1


@kernel
def _kind_of_ringed(task, arena, f):
    """The kind of a facet whose polygon is known from the facets around; UNKNOWN_KIND if it takes more to tell."""
    edges, n, kind = task.edges, task.polygon.n_corners, _kind_of(task, arena.margin[f])
    far = is_far(edges.corner, n)
    suspect = far or is_suspect(edges.corner, n, WIDE)
    thin = far or (suspect and is_suspect(edges.corner, n, THIN))
    if suspect and not far and _is_between_tied(task, arena.margin[f], edges.code[:n], edges.sign):
        return TIE if thin else UNKNOWN_KIND  # a tie, or one if it is steep
    who = who_may_be_tied(task) if kind == PLAIN else NOBODY
    if not suspect and who != EDGES:
        return CROWDED if who == ANYBODY else kind
    _take_up(task, arena, f)
    if thin:
        gather(task)
        return TIE if vanishes(task) else UNKNOWN_KIND
    if not solve_maps(task):
        return UNKNOWN_KIND
    if suspect:
        tabulate_edges(task)
        if not survives(task):
            return TIE if vanishes(task) else UNKNOWN_KIND
    if who == EDGES and not may_hold_tied(task, who):
        who = NOBODY
    return kind if who == NOBODY else CROWDED


@kernel
def _is_between_tied(task, margin, codes, on_margin):
    """What tie_test.py asks of an anchored facet, for one whose maps are not known: from its edges, and which are of M."""
    m, axis = margin[P] + margin[Q], (P if margin[P] > 0 else Q)
    if not can_anchor(task, m) or margin[axis] != m:
        return False
    n_tied, n_others = 0, 0
    for j in range(codes.size):
        if codes[j] < 0 or on_margin[j]:
            n_others += 1
        elif task.data.axis[codes[j] >> 1] == axis:
            n_tied += 1
        else:
            return False
    return n_tied == 2 if m == task.data.rank - 1 else n_others == 0


@kernel
def _is_on_plateau(arena, margin, rank):
    """Is beta e, since M is so many of one class, and is the plateau of that class left out?"""
    m = margin[P] + margin[Q]
    return m == rank and m > 0 and max(margin[P], margin[Q]) == m and arena.plateau[P if margin[P] > 0 else Q]


@kernel
def _plateau_of(task, arena, margin, n):
    """The class with a plateau, to be left out, that holds a facet of n known edges, of which ``sign`` marks those of M.

    -1 for none, UNKNOWN if a side hides what bounds a strip. So the answer is the same in all tiles.
    """
    m, axis, edges = margin[P] + margin[Q], P if margin[P] > 0 else Q, task.edges
    if not arena.plateau[axis] or margin[axis] != m:
        return -1
    if m == task.data.rank or _is_between_tied(task, margin, edges.code[:n], edges.sign):
        return axis
    for j in range(n if m == task.data.rank - 1 else 0):
        if edges.code[j] < 0:
            return UNKNOWN
    return -1


@kernel
def _plateau_in_hand(task, arena, margin):
    """The same for the facet just closed from its maps."""
    axis = P if margin[P] > 0 else Q
    if not arena.plateau[axis] or margin[axis] != margin[P] + margin[Q]:
        return -1
    between = task.facet.anchor_axis >= 0 and is_between_tied(task)
    return axis if between or _is_on_plateau(arena, margin, task.data.rank) else -1


@kernel
def _mark_margin(task):
    """Mark the edges of points of M by ``sign``; has the facet in hand an edge on a side?"""
    edges, on_side = task.edges, False
    for j in range(task.polygon.n_corners):
        code = edges.code[j]
        edges.sign[j] = code >= 0 and task.factor.slot[code >> 1] >= 0
        on_side = on_side or code < 0
    return on_side


@kernel
def _is_on_margin(arena, f, i):
    """Is a point in M, in a facet that has no row of its own?"""
    on_margin = arena.state[-1 - arena.partition_row[f], i] == MARGIN
    for step in range(2):
        if arena.flips[f, step] >> 1 == i:
            on_margin = not on_margin
    return on_margin


@kernel
def _write(task, words, arena, f, hints):
    """Put down the polygon in hand as that of facet f; returns how many corners there are then, the new ones included."""
    done, size, key = arena.counts[0].n_done, task.polygon.n_corners, arena.key[f]
    start, found = arena.at[done], arena.counts[0].n_found
    edges = task.edges
    for j in range(size):
        a, b, v = edges.code[j], edges.code[j + 1 if j + 1 < size else 0], edges.corner[j]
        arena.code[start + j] = a
        if edges.hint[j] >= 0:
            number = hints[edges.hint[j]].number
            arena.vertex[start + j] = number_of(number)
            if number < 0 and not is_coarse(v, edges.corner_error[j]):  # this facet knows the corner better
                copy_row(v, arena.corner[number_of(number)])
            continue
        arena.vertex[start + j], arena.name[found] = found, name_vertex(task, words, key, a, b, v)
        for c in range(3):
            arena.corner[found, c] = v[c]
        found += 1
    arena.order[done], arena.at[done + 1] = f, start + size
    return found


@kernel
def _has_room(task, arena):
    """Is there room for the polygon in hand?"""
    n, counts = task.polygon.n_corners, arena.counts[0]
    return arena.at[counts.n_done] + n <= arena.code.size and counts.n_found + n <= arena.name.size


@kernel
def _write_beta(task, arena):
    """Put down l beta at the new corners, refined where it is not good to ACCURACY; not a number if that fails."""
    first, n, d = arena.at[arena.counts[0].n_done], task.polygon.n_corners, arena.beta.shape[1]
    for _ in range(2):
        refined, good = task.facet.refined == 1, True
        beta, eta = (task.maps.beta_hi, task.maps.eta_dd) if refined else (task.maps.beta, task.maps.eta)
        for j in range(n):
            if not _is_new(task, j):
                continue
            v, out = task.edges.corner[j], arena.beta[arena.vertex[first + j]]
            error, square = 0.0, 0.0
            for i in range(d):
                out[i] = (beta[P, i] * v[0] + beta[Q, i] * v[1] + beta[L, i] * v[2]) * (v[2] > 0.0)
                square += out[i] * out[i]
            for c in range(3):
                error += (eta[c] + 4.0 * UNIT * task.maps.length[c]) * v[c]
            good = good and (v[2] == 0.0 or error <= ACCURACY * np.sqrt(square))
            if square <= error * error:
                out[:] = 0.0
        if good or task.facet.refined != 0:
            break
        refine(task)
        task.polygon.crossed[0] = NO_CODE
    if not good and task.facet.refined == -1:
        for j in range(n):
            if _is_new(task, j):
                arena.beta[arena.vertex[first + j]] = np.nan


ACCURACY = 1e-10
"""Relative error of weights at corners, which are as good themselves."""


@kernel
def _spread(task, frame, spread):
    """Widen what is known of the weights by those at the corners of the polygon in hand."""
    if task.facet.refined == -1:
        spread[2, 0] = np.inf
        return
    beta, d = task.maps.beta, frame.shape[1]
    for j in range(task.polygon.n_corners):
        v, e = task.edges.corner[j], task.edges.corner_error[j]
        a, b, square, error = 0.0, 0.0, 0.0, 0.0
        for c in range(3):
            length = task.maps.length[c]
            error += (task.maps.eta[c] + d * UNIT * length) * (v[c] + e[c]) + length * e[c]
        for i in range(d):
            x = beta[P, i] * v[0] + beta[Q, i] * v[1] + beta[L, i] * v[2]
            if v[2] > 0.0:
                x = x / v[2] - frame[0, i]
            a += frame[1, i] * x
            b += frame[2, i] * x
            square += x * x
        if v[2] == 0.0:  # infinity: unless zero by structure, be it only by the jitter, the weights grow without end
            if square > 0.0:
                spread[2, 0] = np.inf
            continue
        spread[0, 0], spread[0, 1] = min(spread[0, 0], a), max(spread[0, 1], a)
        spread[1, 0], spread[1, 1] = min(spread[1, 0], b), max(spread[1, 1], b)
        radius = np.sqrt(max(0.0, square - a * a - b * b) + 64.0 * d * UNIT * square) + error / (v[L] - e[L])
        spread[2, 0] = max(spread[2, 0], radius if v[L] > e[L] else np.inf)


# ----------------------------------------------------------------------------------------------------------------------
# 2. - 4. MEV, CV, MEF


@kernel
def _mef(task, arena, f, key, a, b):
    """Number of the facet with this key; if there is none yet it waits from now on, reached from f by one or two codes."""
    where = find(arena.table_key, key)
    if arena.table_key[where] != key:
        n = arena.counts[0].n_named
        if n == arena.key.size:
            return -1
        arena.table_key[where], arena.table_value[where] = key, n
        arena.key[n], arena.corner_list_head[n], arena.depth[n] = key, -1, arena.depth[f] + 1
        arena.n_corners[n], arena.n_loose[n] = 0, 0
        arena.parent[n], arena.flips[n, 0], arena.flips[n, 1] = f, a, (b if b != a else -1)
        arena.partition_row[n] = -1 - arena.partition_row[f]
        arena.holders[arena.partition_row[f]] += 1
        arena.counts[0].n_named += 1
        margin = arena.margin[n]
        margin[P], margin[Q] = arena.margin[f, P], arena.margin[f, Q]
        if a >> 1 != b >> 1 or a == b:  # else a point passes through M
            _move_margin(task, margin, a)
        if a >> 1 != b >> 1:
            _move_margin(task, margin, b)
        first = OTHER if (margin[P] + margin[Q] + task.data.rank) % 2 == 0 else LONE
        if _is_on_plateau(arena, margin, task.data.rank):
            arena.corner_list_head[n] = UNVISITED
        else:
            enqueue(arena, n, SAME if arena.counts[0].layered else first)
    return arena.table_value[where]


@kernel
def _visit(arena, f):
    """Let a facet wait that lies on a plateau and on a side of the tile: by the sides one gets to all that is around."""
    if f >= 0 and arena.corner_list_head[f] == UNVISITED:
        arena.corner_list_head[f] = -1
        enqueue(arena, f, OTHER)


@kernel
def _move_margin(task, margin, code):
    """Count the point of a code where it goes from the facet in hand."""
    i = code >> 1
    margin[task.data.axis[i]] += -1 if task.state[i] == MARGIN else 1


@kernel
def _is_new(task, j):
    """Was a corner not known before? If it was, the facets around it have names, and know it."""
    return task.edges.hint[j] < 0


@kernel
def _mev(task, words, arena, f, neighbour, inner):
    """Name the facet behind each edge with a new end; if ``inner`` of points of M only. False if there is no room."""
    size, edges = task.polygon.n_corners, task.edges
    for j in range(size):
        code = edges.code[j]
        neighbour[j] = -1
        if code < 0 or (inner and edges.sign[j] == 0):
            continue
        if _is_new(task, j) or _is_new(task, j - 1 if j > 0 else size - 1):
            neighbour[j] = _mef(task, arena, f, arena.key[f] ^ words[code], code, code)
            if neighbour[j] < 0:
                return False
    return True


@kernel
def _cv(task, words, arena, f, neighbour):
    """Name the facet opposite to each new vertex. Record the vertex, with its two open edges, for all facets around it.

    On an axis one of the two edges is a side: the facet behind the other has both types of its event, the opposite one
    the other type only. On another side, away from infinity, the facet behind the other has the same two edges. Going round
    a facet as f is gone round, neighbours have the edges in the other order, opposite facets in the same. The number of a
    coarse corner is recorded as -2 - number. Returns False if there is no room.
    """
    size, edges, first = task.polygon.n_corners, task.edges, arena.at[arena.counts[0].n_done]
    for j in range(size):
        if not _is_new(task, j):
            continue
        after = j + 1 if j + 1 < size else 0
        v, a, b = task.edges.corner[j], edges.code[j], edges.code[after]
        beyond, other = neighbour[j], neighbour[after]
        far, x, y = opposite(words, task.data.axis, task.region.axis, arena.key[f], a, b, v)
        number = np.int64(arena.vertex[first + j])
        number = -2 - number if arena.coarse[arena.counts[0].n_done] else number
        if min(a, b) < 0:
            _visit(arena, beyond)
            _visit(arena, other)
        if far == np.uint64(0):
            if (a < 0) != (b < 0) and v[2] > 0.0 and corner_of_triangle(v) < 0:
                record_corner(arena, max(beyond, other), b, a, number)
            else:
                for code, behind in ((a, beyond), (b, other)):
                    if behind >= 0:
                        record_corner(arena, behind, code, code, NOWHERE)
            continue
        n = _mef(task, arena, f, far, x, y)
        if n < 0:
            return False
        if min(a, b) < 0:
            _visit(arena, n)
        if a < 0:
            record_corner(arena, other, x, y, number)
            record_corner(arena, n, y, a, number)
        elif b < 0:
            record_corner(arena, beyond, y, x, number)
            record_corner(arena, n, b, y, number)
        else:
            record_corner(arena, beyond, b, a, number)
            record_corner(arena, other, b, a, number)
            record_corner(arena, n, a, b, number)
    return True


@entry_noalloc
def close_all(task, neighbour, words, drift, moves, frame, answers, arena, hints, limit):
    """The four steps for all facets that wait: CLOSED, FULL, PAUSED, ASKING, or what is impossible for the facet in hand."""
    counts = arena.counts[0]
    task.answers, task.known = answers, arena.corner
    while True:
        f = counts.in_hand
        if f < 0:
            f = np.int64(dequeue(arena))
        if f < 0:
            return CLOSED
        counts.in_hand = f
        done = counts.n_done
        if done >= limit:
            return PAUSED
        known = hints[: known_corners_of(arena, f, hints)]
        task.drift = drift * (moves + 2 * arena.depth[f])
        if arena.partition_row[f] < 0 and arena.n_loose[f] == 0 and _close_ringed(task, arena, f, known) == CLOSED:
            if not _has_room(task, arena):
                return FULL
            found = _write(task, words, arena, f, known)
            arena.coarse[done] = False
        else:
            outcome = _cef(task, arena, f, known)
            if outcome != CLOSED:
                return outcome
            if not _has_room(task, arena):
                return FULL
            found = _write(task, words, arena, f, known)
            if frame.shape[0] > 0:
                _spread(task, frame, arena.spread)
            if arena.beta.shape[0] > 0:
                _write_beta(task, arena)
            on_side = _mark_margin(task)
            arena.coarse[done], arena.kind[done] = _kind_in_hand(task, arena, f)
            if not _name_around(task, words, arena, f, neighbour, on_side):
                return FULL
            task.answers = answers[:0]
        release_row(arena, f)
        counts.in_hand = -1
        counts.n_done += 1
        counts.n_found = found


@kernel
def _name_around(task, words, arena, f, neighbour, on_side):
    """Name the facets around the one just closed; False if there is no room.

    From inside a plateau that is left out, away from sides, only those behind the ends of a strip: they may lie outside.
    """
    plateau = _plateau_in_hand(task, arena, arena.margin[f])
    if plateau >= 0:
        arena.kind[arena.counts[0].n_done] = POSITIVES + plateau
    inner = plateau >= 0 and not on_side
    return _mev(task, words, arena, f, neighbour, inner) and (inner or _cv(task, words, arena, f, neighbour))


@kernel
def _kind_in_hand(task, arena, f):
    """Are corners of the facet just closed not known well? And its kind."""
    coarse, kind = _is_coarse_or_tie(task)
    _crowd(task, arena, kind == TIE)
    kind = kind if kind != PLAIN else _kind_of(task, arena.margin[f])
    who = who_may_be_tied(task) if kind == PLAIN and arena.beta.shape[0] == 0 else NOBODY
    return coarse, CROWDED if who != NOBODY and may_hold_tied(task, who) else kind


@kernel
def _kind_of(task, margin):
    """The kind of a facet with area and so many positives and negatives in M, of which nobody else is tied."""
    if task.data.anchor > 0.0 and margin[P] + margin[Q] == task.data.rank and min(margin[P], margin[Q]) == 0:
        return POSITIVES if margin[P] > 0 else NEGATIVES
    return PLAIN


@kernel
def _crowd(task, arena, tied):
    """Mark the corners of the facet in hand that are clear, and in the arena the new ones that are crowded.

    All corners of a tie are, and those at infinity or almost there: the jitter of weights, times the costs, hides what meets
    there. Where weights are wanted pieces are not put together: there all count as crowded.
    """
    first, edges, unasked = arena.at[arena.counts[0].n_done], task.edges, arena.beta.shape[0] > 0
    n, same, seen, crowded = task.polygon.n_corners, task.facet.n_margin == task.data.rank, False, False
    for j in range(n):
        if not _is_new(task, j):
            edges.checked[j] = 1 if arena.crowded[arena.vertex[first + j]] else CLEAR
    for j in range(n):
        if _is_new(task, j):
            hidden = tied or unasked or not edges.corner[j, L] > THIN
            if not (hidden or (same and seen)):
                seen, crowded = True, not _has_clear_twin(task, j) and is_crowded(task, j)
            arena.crowded[arena.vertex[first + j]] = hidden or crowded
            edges.checked[j] = 1 if hidden or crowded else CLEAR


@kernel
def _has_clear_twin(task, j):
    """Is a corner with the weights of corner j known to be clear? Then so is j: the same points are on the margin.

    With |M| = rank all corners have the same weights, with one less those at both ends of a line of the pencil.
    """
    edges, n, short = task.edges, task.polygon.n_corners, task.data.rank - task.facet.n_margin
    before, after = j - 1 if j > 0 else n - 1, j + 1 if j + 1 < n else 0
    if short == 1:
        return (edges.checked[before] == CLEAR and _is_of_pencil(task, edges.code[j])) or (
            edges.checked[after] == CLEAR and _is_of_pencil(task, edges.code[after])
        )
    for k in range(n if short == 0 else 0):
        if edges.checked[k] == CLEAR:
            return True
    return False


@kernel
def _is_of_pencil(task, code):
    """Is an edge a score line, where |M| = rank - 1?"""
    return code >= 0 and task.factor.slot[code >> 1] < 0


@kernel
def _is_coarse_or_tie(task):
    """Are corners of the facet just closed not known well? And its kind as to ties, PLAIN if it is certainly none."""
    coarse = has_coarse(task)
    if coarse or is_far(task.edges.corner, task.polygon.n_corners):
        if vanishes(task):
            return coarse, TIE
        return coarse, (LIKELY if task.facet.refined != -1 and is_tie(task) == 1 else UNSURE)
    tie = is_tie(task)
    return coarse, (UNSURE if tie == UNKNOWN else (TIE if tie == 1 else PLAIN))


@entry_noalloc
def judge(task, states, drift, at, code, margin, suspect, tie, coarse):
    """See whether facets with known edges are ties; of ``coarse`` ones only integers can tell.

    One that is not ``suspect`` is none. A strip between tied lines is one if it is thin, or SLIM and steep, unless it is FAR.
    """
    edges, data, moves, last = task.edges, task.data, states.shape[1], -1
    for f in range(states.shape[0]):
        if suspect[f] == 0:
            continue
        moves, last, n = take_up(task, states, f, last, drift, moves), f, at[f + 1] - at[f]
        for j in range(n):
            edges.code[j] = code[at[f] + j]
            edges.sign[j] = edges.code[j] >= 0 and task.state[edges.code[j] >> 1] == MARGIN
        margin[P], margin[Q] = 0, 0
        for k in range(min(task.facet.n_margin, data.rank)):
            margin[data.axis[task.factor.member[k]]] += 1
        between = suspect[f] != FAR and _is_between_tied(task, margin, edges.code[:n], edges.sign)
        tie[f] = between and suspect[f] == 1
        if tie[f]:
            continue
        traced = trace_facet(task, n)
        if between:
            tie[f] = sharpen_traced(task) and is_steep(task)
        elif not (traced and survives(task)):
            tie[f] = vanishes(task) or (sharpen_traced(task) and shrinks(task) == 1)
            coarse[f] = not tie[f] and task.facet.refined == -1


@kernel
def _is_left_out(arena, f):
    """Is closed facet f part of a plateau that is left out?"""
    kind = arena.kind[f]
    return (kind == POSITIVES and arena.plateau[P]) or (kind == NEGATIVES and arena.plateau[Q])


@kernel
def _behind(arena, rank, number, key):
    """The closed facet with this key, as its number, or what is there instead."""
    where = find(arena.table_key, key)
    if arena.table_key[where] == np.uint64(0):
        return np.int64(OPEN)
    other = arena.table_value[where]
    if number[other] >= 0 and not _is_left_out(arena, number[other]):
        return np.int64(number[other])
    full = _is_on_plateau(arena, arena.margin[other], rank)
    plateau = PLATEAUS - (0 if arena.margin[other, P] > 0 else 1) - (0 if full else 2)
    return np.int64(plateau if full or number[other] >= 0 else OPEN)


@entry
def tidy(arena, words, which, side_name, d, rank):
    """What Facets say of the closed facets, from ``key`` to ``flips``; weights have d coordinates.

    The codes are those of all points and the names of sides; the edges begin with the largest. Facets of plateaus that are
    left out have no edges, unless weights are wanted: then those on sides tell what these are there.
    """
    n, at = arena.counts[0].n_done, np.zeros(arena.counts[0].n_done + 1, np.int64)
    for f in range(n):
        forgotten = arena.beta.shape[0] == 0 and _is_left_out(arena, f)
        at[f + 1] = at[f] + (0 if forgotten else arena.at[f + 1] - arena.at[f])
    size = at[n]
    once, vertices = numbers_of_names(arena.name[: arena.counts[0].n_found])
    keys, parent, flips = np.empty(n, np.uint64), np.empty(n, np.int32), np.empty((n, 2), np.int32)
    name, corner = np.empty(once.size, np.uint64), np.empty((once.size, 3))
    beta = np.empty((once.size if arena.beta.shape[0] > 0 else 0, d))
    code, vertex, neighbour = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int32)
    number = np.full(arena.counts[0].n_named, -1, np.int32)
    for f in range(n):
        number[arena.order[f]] = f
    for v in range(once.size):
        name[v] = arena.name[once[v]]
        for c in range(3):
            corner[v, c] = arena.corner[once[v], c]
        for c in range(d if beta.shape[0] > 0 else 0):
            beta[v, c] = arena.beta[once[v], c]
    for f in range(n):
        named = arena.order[f]
        keys[f], flips[f, 0], flips[f, 1] = arena.key[named], arena.flips[named, 0], arena.flips[named, 1]
        parent[f] = number[arena.parent[named]] if arena.parent[named] >= 0 else -1
        key, first, end = keys[f], arena.at[f], arena.at[f] + at[f + 1] - at[f]
        largest, top = first, np.int64(NO_SIDE)
        for k in range(first, end):
            c = np.int64(arena.code[k])
            public = 2 * which[c >> 1] + (c & 1) if c >= 0 else -1 - side_name[-1 - c]
            if public > top:
                largest, top = k, public
        for k in range(first, end):
            c, new = np.int64(arena.code[k]), k - largest + (0 if k >= largest else end - first) + at[f]
            vertex[new] = vertices[arena.vertex[k]]
            if c < 0:
                code[new], neighbour[new] = -1 - side_name[-1 - c], BOUNDARY
                continue
            code[new] = 2 * which[c >> 1] + (c & 1)
            neighbour[new] = _behind(arena, rank, number, key ^ words[c])
    return keys, arena.kind[:n].copy(), at, code, vertex, neighbour, name, corner, beta, parent, flips
