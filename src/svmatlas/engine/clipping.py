r"""Clipping: a polygon and a line -> the part on the good side of the line.

The polygon is a cyclic list of edges (codes). Corner j lies between edges j and j + 1.

          edge j
      ----------o corner j            A clip by k removes the run of corners beyond k. The edges before and after the
                 \                    run meet the new edge k in two new corners. A corner on k itself ends the new edge.
                  \ edge j + 1
"""

from __future__ import annotations

import numpy as np

from svmatlas.engine.compiled import kernel
from svmatlas.engine.doubledouble import UNIT
from svmatlas.engine.lines import line
from svmatlas.engine.predicates import TINY, cross_dd, is_parallel, sign_at_corner, value_at_corner
from svmatlas.engine.workspace import L, P, Q
from svmatlas.engine.zeros import UNKNOWN

CLOSED, ASKING, EMPTY, BROKEN = 0, 1, 2, 3
"""Outcome for a facet: closed; has questions for exact arithmetic; two impossible ones: no area, or |M| > rank."""

COARSE = 2.0**-32
"""Corners with a larger relative error of an entry than this are computed again in double-double, so that all costs of
all vertices are good to 2e-10 even where lines are almost parallel or costs are huge."""


# ----------------------------------------------------------------------------------------------------------------------
# Clipping


@kernel
def store_corner(corner, error, v0, v1, v2, d0, d1, d2):
    """A corner from a cross product: scaled to largest entry 1, and turned into the triangle; returns 1, or -1 if it was."""
    if not 0.0 < abs(v0) + abs(v1) + abs(v2) < np.inf:  # doubles do not know where it is, but for zeros by structure
        nowhere = d0 == 0.0 and d1 == 0.0 and d2 == 0.0
        for c, d in ((P, d0), (Q, d1), (L, d2)):
            corner[c], error[c] = (0.0, 0.0) if d == 0.0 and not nowhere else (1.0, np.inf)
        return 1
    top = max(abs(v0), abs(v1), abs(v2))
    scale = 1.0 / top
    if -min(v0, v1, v2) == top:
        scale = -scale
    corner[P], corner[Q], corner[L] = v0 * scale, v1 * scale, v2 * scale
    error[P], error[Q], error[L] = d0 * abs(scale), d1 * abs(scale), d2 * abs(scale)
    for c in range(3):
        if error[c] == 0.0:
            corner[c] = abs(corner[c])
        elif corner[c] < TINY:  # only a zero by structure is stored as zero
            corner[c] = TINY
    return 1 if scale > 0.0 else -1


@kernel
def is_coarse(corner, error):
    """Is an entry of a corner known too badly?"""
    for c in range(3):
        if not error[c] <= COARSE * corner[c]:
            return True
    return False


@kernel
def _times(a, b):
    """|a| b where zero is exact: zero times an infinite error bound is zero."""
    return 0.0 if a == 0.0 or b == 0.0 else abs(a) * b


@kernel
def make_corner(t, j, a, b):
    """Corner of edges a and b into place j of the new polygon; returns how it was turned."""
    t.clipped.checked[j], t.clipped.hint[j] = 0, -1
    h0, h1, h2, e0, e1, e2 = line(t, a)
    g0, g1, g2, d0, d1, d2 = line(t, b)
    zero = -1  # column that is zero by structure
    if a >= 0 and b >= 0 and a ^ b == 1:  # both bounds of one alpha: the sum of the lines is w_i times the axis
        zero = t.data.axis[a >> 1]
        g0, g1, g2, d0, d1, d2 = 1.0 * (zero == P), 1.0 * (zero == Q), 0.0, 0.0, 0.0, 0.0
    elif is_parallel(t, a) and is_parallel(t, b):
        zero = L
    u = 4.0 * UNIT
    x, y, z = h1 * g2 - h2 * g1, h2 * g0 - h0 * g2, h0 * g1 - h1 * g0
    ex = abs(h1) * d2 + abs(g2) * e1 + abs(h2) * d1 + abs(g1) * e2 + e1 * d2 + e2 * d1
    ey = abs(h2) * d0 + abs(g0) * e2 + abs(h0) * d2 + abs(g2) * e0 + e2 * d0 + e0 * d2
    ez = abs(h0) * d1 + abs(g1) * e0 + abs(h1) * d0 + abs(g0) * e1 + e0 * d1 + e1 * d0
    if not ex + ey + ez < np.inf:
        ex = _times(h1, d2) + _times(g2, e1) + _times(h2, d1) + _times(g1, e2) + _times(e1, d2) + _times(e2, d1)
        ey = _times(h2, d0) + _times(g0, e2) + _times(h0, d2) + _times(g2, e0) + _times(e2, d0) + _times(e0, d2)
        ez = _times(h0, d1) + _times(g1, e0) + _times(h1, d0) + _times(g0, e1) + _times(e0, d1) + _times(e1, d0)
    ex += u * (abs(h1 * g2) + abs(h2 * g1))
    ey += u * (abs(h2 * g0) + abs(h0 * g2))
    ez += u * (abs(h0 * g1) + abs(h1 * g0))
    if zero == L:
        z, ez = 0.0, 0.0
    corner, error = t.clipped.corner[j], t.clipped.corner_error[j]
    turn = store_corner(corner, error, x, y, z, ex, ey, ez)
    if t.facet.refined != 1:
        return turn
    cross_dd(t, a, b)
    v, d = t.lines.cross.high, t.lines.cross.error
    x, ex = (0.0, 0.0) if zero == P else (v[P], d[P])
    y, ey = (0.0, 0.0) if zero == Q else (v[Q], d[Q])
    z, ez = (0.0, 0.0) if zero == L else (v[L], d[L])
    store_corner(corner, error, x, y, z, ex + UNIT * abs(x), ey + UNIT * abs(y), ez + UNIT * abs(z))
    return turn


@kernel
def copy_place(edges, i, goal, j):
    """Corner i of some edges, without what is known of it, becomes corner j of others."""
    for c in range(3):
        goal.corner[j, c], goal.corner_error[j, c] = edges.corner[i, c], edges.corner_error[i, c]


@kernel
def _copy_corner(edges, i, j, clipped):
    """Corner i of the polygon becomes corner j of the new one."""
    copy_place(edges, i, clipped, j)
    clipped.checked[j], clipped.hint[j] = edges.checked[i], edges.hint[i]


@kernel
def clip(t, k):
    """Keep the part of the polygon on the good side of line k."""
    n = t.polygon.n_corners
    edges, clipped = t.edges, t.clipped
    code, sign, new = edges.code, edges.sign, clipped.code
    unknown, negative = False, 0
    h0, h1, h2, e0, e1, e2 = line(t, k)
    for j in range(n):
        s, bound, _ = value_at_corner(h0, h1, h2, e0, e1, e2, edges.corner[j], edges.corner_error[j])
        sign[j] = 1 if s > bound else -1
        if not abs(s) > bound:
            sign[j] = sign_at_corner(t, k, j)
        unknown = unknown or sign[j] == UNKNOWN
        negative += sign[j] == -1
    if unknown:
        return ASKING
    if negative == 0:
        return CLOSED
    if negative == n:
        return EMPTY
    first = 0  # the first corner of the run beyond the line
    while not (sign[first] == -1 and sign[first - 1 if first > 0 else n - 1] != -1):
        first += 1
    before, after = first - 1 if first > 0 else n - 1, first + negative - (n if first + negative >= n else 0)
    if before == after and sign[before] == 0:
        return EMPTY
    # Good corners from ``after`` round to ``before``, then the new edge k. A corner on the line ends the new edge.
    m = np.int64(0)
    j = after
    if sign[after] == 0:
        j = j + 1 if j + 1 < n else 0
    while j != first:
        new[m] = code[j]
        _copy_corner(edges, j, m, clipped)
        m += 1
        j = j + 1 if j + 1 < n else 0
    new[m + (sign[before] == 1)] = k
    for step in range(2):  # the corners where edge k begins and ends
        if step == 0 and sign[before] == 1:
            new[m] = code[first]
        elif step == 1 and sign[after] == 0:
            _copy_corner(edges, after, m, clipped)
            m += 1
            continue
        elif step == 0:
            continue
        make_corner(t, m, code[first] if step == 0 else code[after], k)
        m += 1
    take_new_polygon(t, m)
    return CLOSED


@kernel
def take_new_polygon(t, m):
    """The new polygon, of m corners, is that in hand."""
    edges, clipped = t.edges, t.clipped
    for j in range(m):
        edges.code[j], edges.checked[j], edges.hint[j] = clipped.code[j], clipped.checked[j], clipped.hint[j]
        copy_place(clipped, j, edges, j)
    t.polygon.n_corners = m
