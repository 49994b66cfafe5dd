"""The lines of one facet -> its polygon, by predicates that are never wrong.

The polygon is cut out of the region: a cyclic list of edges (line codes) with corners between them. A line can only be an
edge if some corner of a larger polygon lies strictly beyond it, so every corner is checked against all lines once, and the
polygon is clipped by the line that the corner violates most.

Signs are those of predicates.py. The known corners of a facet are clipped first, and are not checked again.
"""

from __future__ import annotations

import numpy as np

from svmatlas.engine.checking import ASK, NONE, TAKEN, check_corner
from svmatlas.engine.clipping import (
    ASKING,
    BROKEN,
    CLOSED,
    COARSE,
    clip,
    copy_place,
    is_coarse,
    make_corner,
    store_corner,
    take_new_polygon,
)
from svmatlas.engine.compiled import kernel
from svmatlas.engine.facet import solve_maps
from svmatlas.engine.lines import line, tabulate_margin, tabulate_pencil
from svmatlas.engine.neighbourhood import center_ball
from svmatlas.engine.pencil import ALL, ONLY_NEAR, find_pencil, is_near
from svmatlas.engine.predicates import NO_CODE, value_at_corner
from svmatlas.engine.refinement import refine
from svmatlas.engine.tie_test import WIDE, is_suspect
from svmatlas.engine.workspace import L, P, Q, code_of_hint
from svmatlas.engine.zeros import enter_corner, entry_of_corner, solve_words


@kernel
def _start(t):
    """The whole region as first polygon."""
    n = t.region.sides.shape[0]
    for j in range(n):
        t.edges.code[j] = -1 - j
        t.edges.checked[j], t.edges.hint[j] = 0, -1
        for c in range(3):
            t.edges.corner[j, c], t.edges.corner_error[j, c] = t.region.corners[j, c], 0.0
    t.polygon.n_corners = n


@kernel
def path_of(hints, edges, which):
    """The edges of the known corners in order, and the corners at their ends, if they are in one row or two.

    Returns the number of edges; where the first row ends, if there are two, else 0; and whether the one row is all around.
    """
    count, first, second = 0, -1, -1
    for k in range(hints.size):
        if hints[k].first == hints[k].second:
            continue
        count += 1
        follows = False
        for n in range(hints.size):
            follows = follows or (hints[n].second == hints[k].first and hints[n].first != hints[n].second)
        if not follows:
            if second >= 0:
                return 0, 0, False
            first, second = k, first
    closed = first < 0
    n, middle = 0, 0
    for row in range(2):
        k = first if row == 0 else second
        if closed and row == 0:
            k = 0
            while k < hints.size and hints[k].first == hints[k].second:
                k += 1
            if k == hints.size:
                return 0, 0, False
        while k >= 0 and count > 0:
            count -= 1
            edges[n], which[n] = hints[k].first, k
            n += 1
            wanted, last = hints[k].second, k
            k = -1
            for other in range(hints.size):
                if hints[other].first == wanted and hints[other].second != wanted:
                    k = other
            if k < 0:
                edges[n], which[n] = hints[last].second, -1
                n += 1
                if row == 0 and second >= 0:
                    middle = n
    return n, middle, closed


@kernel
def _start_from(t, hints):
    """The polygon of the edges of known corners, if these are one row of edges or two, whose ends meet well in the region."""
    path = t.clipped.code
    n, middle, closed = path_of(hints, path, t.clipped.sign)
    if n < 3:
        return False
    sides, v = t.region.sides, t.region.corners[0]
    turn = sides[0, 1] * sides[1, 2] * v[0] + sides[0, 2] * sides[1, 0] * v[1] + sides[0, 0] * sides[1, 1] * v[2]
    turn -= sides[0, 2] * sides[1, 1] * v[0] + sides[0, 0] * sides[1, 2] * v[1] + sides[0, 1] * sides[1, 0] * v[2]
    way = 1 if turn > 0.0 else -1  # of the sides of the region
    for j in range(n):
        a, b = path[j], path[j + 1 if j + 1 < n else 0]
        if a ^ b == 1 or max(a, b) < 0:  # two bounds that meet on an axis, or a corner of the region
            return False
        turned, top = make_corner(t, j, a, b), _largest_entry(t.clipped.corner[j])
        if turned != way or not t.clipped.corner_error[j, top] < 0.5:  # of the largest entry, 1
            return False
    if not closed and not (_is_within(t, n, n - 1) and (middle == 0 or _is_within(t, n, middle - 1))):
        return False
    take_new_polygon(t, n)
    return True


@kernel
def _is_within(t, n, j):
    """Is corner j of the new polygon, of n edges, certainly on the good side of all other edges, and within the region?"""
    path, v, d = t.clipped.code, t.clipped.corner[j], t.clipped.corner_error[j]
    a, b = path[j], path[j + 1 if j + 1 < n else 0]
    for k in range(n + t.region.sides.shape[0]):
        code = path[k] if k < n else -1 - (k - n)
        if code == a or code == b:
            continue
        h0, h1, h2, e0, e1, e2 = line(t, code)
        s, bound, _ = value_at_corner(h0, h1, h2, e0, e1, e2, v, d)
        if not s > bound:
            return False
    return True


@kernel
def _largest_entry(v):
    """Which of the entries of a corner is the largest."""
    return (P if v[0] >= v[2] else L) if v[0] >= v[1] else (Q if v[1] >= v[2] else L)


@kernel
def _is_edge(t, k):
    """Is the line of code k an edge of the polygon?"""
    for j in range(t.polygon.n_corners):
        if t.edges.code[j] == k:
            return True
    return False


@kernel
def _mark(t, hints):
    """Mark the corners that are known vertices: these satisfy all lines, and another facet may know them better."""
    n = t.polygon.n_corners
    for j in range(n):
        a, b = t.edges.code[j], t.edges.code[j + 1 if j + 1 < n else 0]
        corner, error = t.edges.corner[j], t.edges.corner_error[j]
        for k in range(hints.size):
            if hints[k].first == a and hints[k].second == b:
                t.edges.checked[j], t.edges.hint[j] = 1, k
                if hints[k].number >= 0 and t.facet.refined == 0 and is_coarse(corner, error):
                    t.edges.checked[j] = _take_over(t.known[hints[k].number], corner, error)


@kernel
def _take_over(known, corner, error):
    """The same corner as another facet knows it, which is not coarse: TAKEN, if both know the same entries to be zero."""
    for c in range(3):
        if (known[c] == 0.0) != (corner[c] == 0.0):
            return 1
    for c in range(3):
        corner[c], error[c] = known[c], COARSE * known[c]
    return TAKEN


@kernel
def _leans_on_others(t):
    """Is the facet thin, and is a corner of it taken from another facet? The tie test needs corners of its own."""
    for j in range(t.polygon.n_corners):
        if t.edges.checked[j] == TAKEN:
            return is_suspect(t.edges.corner, t.polygon.n_corners, WIDE)
    return False


@kernel
def _attempt(t, hints):
    """Close the facet with the precision that its maps have."""
    outcome = _attempt_with(t, hints, ONLY_NEAR)
    if outcome == CLOSED and t.facet.n_margin == t.data.rank - 1 and not is_near(t):
        t.facet.reduced = 0
        t.facet.pencil[0], t.facet.pencil[1] = -1, -1
        outcome = _attempt_with(t, hints, ALL)
    return outcome


@kernel
def _attempt_with(t, hints, near):
    """Do so with a pencil that is chosen from ALL points, or from those ONLY_NEAR the known corners."""
    t.polygon.n_asked = 0
    if t.facet.n_margin == t.data.rank - 1 and not find_pencil(t, near):
        return ASKING
    if not _start_from(t, hints):
        _start(t)
    for n in range(2 * hints.size):
        k = code_of_hint(hints, n)
        if k >= 0 and not _is_edge(t, k):
            outcome = clip(t, k)
            if outcome != CLOSED:
                return outcome
    _mark(t, hints)
    clips, j = 0, np.int64(0)
    while j < t.polygon.n_corners:
        k = NONE if t.edges.checked[j] != 0 else check_corner(t, j)
        if k == NONE:
            j += 1
            continue
        j = 0
        clips += 1
        if clips > 2 * t.edges.code.size:  # each line cuts once: overflow has made nonsense of the numbers
            return BROKEN
        outcome = ASKING if k == ASK else clip(t, k)
        if outcome != CLOSED:
            return outcome
    return CLOSED


@kernel
def has_coarse(t):
    """Is a corner of the polygon known too badly?"""
    for j in range(t.polygon.n_corners):
        if is_coarse(t.edges.corner[j], t.edges.corner_error[j]):
            return True
    return False


@kernel
def _sharpen(t):
    """Compute coarse corners, and those taken from other facets, again from the refined maps.

    An entry that is zero stays zero: it may come from a side that is cut off by now.
    """
    n = t.polygon.n_corners
    for j in range(n):
        if is_coarse(t.edges.corner[j], t.edges.corner_error[j]) or t.edges.checked[j] == TAKEN:
            make_corner(t, j, t.edges.code[j], t.edges.code[j + 1 if j + 1 < n else 0])
            for c in range(3):
                if t.edges.corner[j, c] != 0.0:
                    t.edges.corner[j, c], t.edges.corner_error[j, c] = t.clipped.corner[j, c], t.clipped.corner_error[j, c]


@kernel
def _sharpen_tied(t):
    """Compute corners that are still coarse from the powers of the jitter, without coefficients that are proven zero."""
    n = t.polygon.n_corners
    for j in range(n):
        if is_coarse(t.edges.corner[j], t.edges.corner_error[j]) and solve_words(t):
            _make_tied(t, j, t.edges.code[j], t.edges.code[j + 1 if j + 1 < n else 0])


@kernel
def _make_tied(t, j, a, b):
    """Do so for corner j. Entries that double-double knows better stay, if both ways agree on the largest entry."""
    old, old_error, new, new_error = t.edges.corner[j], t.edges.corner_error[j], t.clipped.corner[j], t.clipped.corner_error[j]
    enter_corner(t, a, b)
    x, ex = entry_of_corner(t, P)
    y, ey = entry_of_corner(t, Q)
    z, ez = entry_of_corner(t, L)
    for c, e in ((P, ex), (Q, ey), (L, ez)):
        if e == 0.0 and old[c] != 0.0:  # a zero, but not one by structure
            return
    store_corner(new, new_error, x, y, z, ex, ey, ez)
    top = _largest_entry(new)
    if not new_error[top] < 0.5:  # of the largest entry, 1
        return
    mixed = _largest_entry(old) == top and new_error[top] + old_error[top] < 0.25 * COARSE
    for c in range(3):
        if not mixed or new_error[c] * old[c] < old_error[c] * new[c]:
            old[c], old_error[c] = new[c], new_error[c]


@kernel
def close_facet(t, hints):
    """CH of the paper: the polygon of one partition into ``t``. Returns the outcome.

    ``hints`` are known corners, or known edges (see HINT): clipped first, and not checked again.
    """
    t.hints = hints
    if not solve_maps(t):
        return BROKEN
    tabulate_margin(t)
    if t.facet.n_margin < t.data.rank:
        center_ball(t, hints)
    outcome = _attempt(t, hints)
    if t.facet.refined != 0:
        return outcome
    if outcome != ASKING and (outcome != CLOSED or not (has_coarse(t) or _leans_on_others(t))):
        return outcome
    refine(t)
    t.polygon.crossed[0] = NO_CODE
    if outcome == ASKING:
        outcome = _attempt(t, hints)
    else:
        _sharpen(t)
    if outcome == CLOSED and t.facet.refined == 1:
        _sharpen_tied(t)
    return outcome


@kernel
def tabulate_edges(t):
    """The lines of M, and of a pencil those that are edges of the polygon in hand, into the table."""
    tabulate_margin(t)
    side = 0
    for j in range(t.polygon.n_corners if t.facet.n_margin == t.data.rank - 1 else 0):
        code = t.edges.code[j]
        if code >= 0 and t.factor.slot[code >> 1] < 0 and side < 2:
            t.facet.pencil[side] = code
            tabulate_pencil(t, side)
            side += 1


@kernel
def trace_facet(t, n):
    """The polygon of the maps in hand, whose n edges are in ``t``, in order; False if that fails."""
    t.polygon.n_corners = n
    if t.facet.n_margin > t.data.rank:
        return False
    tabulate_edges(t)
    _trace(t)
    return t.facet.refined != -1


@kernel
def sharpen_traced(t):
    """The same polygon by double-double; False if that fails."""
    if t.facet.n_margin > t.data.rank:
        return False
    if t.facet.refined == 0:
        refine(t)
    t.polygon.crossed[0] = NO_CODE
    _trace(t)
    return t.facet.refined == 1


@kernel
def _trace(t):
    n = t.polygon.n_corners
    for j in range(n):
        make_corner(t, j, t.edges.code[j], t.edges.code[j + 1 if j + 1 < n else 0])
        copy_place(t.clipped, j, t.edges, j)
