"""Ties: facets that exist only because of the jitter; and crowded corners, where more points may be on the margin.

A facet is a tie if its polygon vanishes without jitter: modulo a prime (zeros.py), by structure (anchored strips), or if it
shrinks when the jitter is scaled down.
"""

from __future__ import annotations

import numpy as np

from svmatlas.engine.checking import CLEAR, margin_in_single, score_error
from svmatlas.engine.compiled import kernel
from svmatlas.engine.doubledouble import UNIT, dd_add, dd_mul
from svmatlas.engine.facet import length_of, length_of_pull_derivative, solve_derivatives
from svmatlas.engine.geometry import triple_product
from svmatlas.engine.lines import is_anchored, line_dd, line_derivative, line_powers, slope
from svmatlas.engine.neighbourhood import is_in_ball
from svmatlas.engine.predicates import cross_entry_dd
from svmatlas.engine.refinement import refine
from svmatlas.engine.scores import MARGIN_WIDTH, cosines, is_near_margin, score_all, score_one, weights_at
from svmatlas.engine.workspace import MARGIN, L, P, Q, U
from svmatlas.engine.zeros import ROUNDINGS, UNKNOWN, vanishes

WIDE = 2.0**-21
"""Only facets narrower or shorter than this, relative to their costs, are tested for being ties. Ties are near the jitter,
1e-13, times their conditioning, which can be 1e6: decimals in a few columns suffice for that. What is wider is seen, and
corners without jitter are looked for within 1e-6 (ties.py)."""

THIN = 1e-8
"""Strips between tied lines that are narrower than this are ties, wider ones if they are steep. Facets that are wholly this
close to infinity or an axis are tested without double-double: what the jitter makes there can be of second order, which
doubles do not see."""

TIE_SHRINK = 2.0**-5
"""To detect ties, scale the jitter by this factor: a facet that the jitter made shrinks with it, in area or in all."""

TIE_LOSS = 2.0**-2
"""Less of its area or diameter left than this after the scaling: a tie. True facets keep theirs, ties keep 2^-5 and what
ties that are only so up to rounding of the data (2^-53 against 2^-48 then) add to it."""

TIE_CLEAR = 2.0
"""Factor by which what is left has to be more or less than that; else exact arithmetic tells: where ties are so up to rounding
of the data, and that is not small against the jitter, double-double depends on the way that the sums were made."""

TIE_RESOLVED = 2.0**-100
"""Least area of a facet, relative to the size of the terms of a determinant, that double-double resolves well enough for that:
these are good to some 2^-103."""


@kernel
def is_crowded(t, j):
    """May more points be on the margin at corner j than those of M and of its two edges?"""
    if t.edges.checked[j] == CLEAR:
        return False
    v, n, wanted = t.edges.corner[j], t.polygon.n_corners, t.facet.n_margin
    for code in (t.edges.code[j], t.edges.code[j + 1 if j + 1 < n else 0]):
        wanted += code >= 0 and t.factor.slot[code >> 1] < 0
    per_norm, fixed = score_error(t, v, t.edges.corner_error[j])
    weights_at(t, v[0], v[1], v[2])
    if is_in_ball(t, v[2], per_norm + fixed / t.shortest):
        return _are_more_near(t, t.near, t.facet.n_near, wanted, v[2], per_norm, fixed)
    return _are_more_near(t, t.single, t.state.size, wanted, v[2], per_norm, fixed)


@kernel
def _are_more_near(t, single, n, wanted, l, per_norm, fixed):
    """Are more of the first n of some points on the margin than that? Where single precision says so, doubles are asked."""
    cosine, inverse = single.cosine[:n], single.per_norm
    length = cosines(t, single, t.maps.weights, cosine)
    if not per_norm < length:
        return True
    target, a, b = margin_in_single(t, l, length, per_norm, fixed)
    if _count_near(cosine, inverse, target, a, b) <= wanted:
        return False
    count, reach = 0, MARGIN_WIDTH * length_of(t.maps.weights) + per_norm
    for k in range(n):
        if not abs(cosine[k] - target * inverse[k]) > a + b * inverse[k]:
            i = single.points[k]
            count += is_near_margin(t, i, score_one(t, i), l, reach)
    return count > wanted


@kernel
def _count_near(cosine, inverse, target, a, b):
    """How many of some points single precision does not tell from those on the margin."""
    count = np.int32(0)
    for i in range(cosine.size):
        count = np.int32(count + (not abs(cosine[i] - target * inverse[i]) > a + b * inverse[i]))
    return count


@kernel
def weights_inside(t, v):
    """Weights at a point v inside a facet. Returns how close to the margin a score may be of a point that is on it all over.

    That is for each unit of a row's length; MARGIN_WIDTH for each unit of costs comes on top.
    """
    weights_at(t, v[0], v[1], v[2])
    error = t.maps.eta[P] * v[P] + t.maps.eta[Q] * v[Q] + t.maps.eta[L] * v[L]
    return MARGIN_WIDTH * length_of(t.maps.weights) + error


@kernel
def find_middle(t, middle):
    """A point inside the polygon in hand: the sum of its corners, of which the entries of each add up to 1."""
    middle[:] = 0.0
    for j in range(t.polygon.n_corners):
        v = t.edges.corner[j]
        total = v[0] + v[1] + v[2]
        for c in range(3):
            middle[c] += v[c] / total


@kernel
def is_edge_of_clear(t, j):
    """Does edge j enter M, and end at all corners that are clear?"""
    n = t.polygon.n_corners
    if t.edges.code[j] < 0 or t.edges.sign[j] != 0:
        return False
    for k in range(n):
        if t.edges.checked[k] == CLEAR and k != j and k != (j - 1 if j > 0 else n - 1):
            return False
    return True


NOBODY, EDGES, ANYBODY = 0, 1, 2
"""Who may be tied, beside M: no point; points of edges; any point."""


@kernel
def who_may_be_tied(t):
    """That for the polygon in hand, of which ``checked`` marks clear corners, and ``sign`` the edges of points of M.

    A point that is tied is on the margin at all corners. At a clear one only M and the points of its two edges are. So such a
    point has an edge at each clear corner; it has one line, and so one edge.
    """
    n, n_clear = t.polygon.n_corners, 0
    for j in range(n):
        n_clear += t.edges.checked[j] == CLEAR
    if n_clear == 0:
        return ANYBODY
    for j in range(n if n_clear < 3 else 0):  # an edge has two corners
        if is_edge_of_clear(t, j):
            return EDGES
    return NOBODY


@kernel
def may_hold_tied(t, who):
    """Is a point of those that may be tied near the margin in the middle of the polygon? One that is tied is (ties.py)."""
    middle = t.lines.derivative
    find_middle(t, middle)
    reach = weights_inside(t, middle)
    if who == ANYBODY:
        score_all(t, t.lines.at_corner)
        for i in range(t.state.size):
            if t.state[i] != MARGIN and is_near_margin(t, i, t.lines.at_corner[i], middle[L], reach):
                return True
        return False
    for j in range(t.polygon.n_corners):
        i = t.edges.code[j] >> 1
        if is_edge_of_clear(t, j) and is_near_margin(t, i, score_one(t, i), middle[L], reach):
            return True
    return False


@kernel
def is_far(corner, n):
    """Is a polygon of n corners wholly within THIN of infinity or of an axis?"""
    p, q, l = 0.0, 0.0, 0.0
    for j in range(n):
        p, q, l = max(p, corner[j, P]), max(q, corner[j, Q]), max(l, corner[j, L])
        if min(p, q, l) >= THIN:
            return False
    return True


@kernel
def _difference(x, y):
    """Relative difference of two positive numbers."""
    return abs(x - y) / (x + y) if x + y > 0.0 else 0.0


@kernel
def is_suspect(corner, n, thin):
    """Is a polygon of n corners, of largest entry 1, that thin or small? Whichever corner is the first.

    Relative to the entries of its corners, or as it is: close to a corner of the triangle what the jitter made is not thin
    relative to entries that the jitter made, too.
    """
    if n > 2 and abs(triple_product(corner[0], corner[1], corner[2])[0]) > 24.0 * thin:
        return False  # it is not thin, for sizes are at most 6, and too large to be short
    diameter, length = _extents(corner, n)
    area, extent = 0.0, 0.0
    for i in range(n if diameter >= thin else 0):
        for j in range(n):
            det, size = triple_product(corner[i], corner[j], corner[j + 1 if j + 1 < n else 0])
            if abs(det) > area * size:
                area = abs(det) / size
            extent = max(extent, abs(det))
            if area >= thin * diameter and extent >= thin * length:
                return False
    return True


@kernel
def _extents(corner, n):
    """Largest distance of two of n corners: relative to their entries, and as it is."""
    diameter, length = 0.0, 0.0
    for i in range(n):
        a0, a1, a2 = corner[i, 0], corner[i, 1], corner[i, 2]
        for j in range(i):
            b0, b1, b2 = corner[j, 0], corner[j, 1], corner[j, 2]
            diameter = max(diameter, _difference(a1 * b2, a2 * b1))
            diameter = max(diameter, _difference(a2 * b0, a0 * b2), _difference(a0 * b1, a1 * b0))
            length = max(length, abs(a1 * b2 - a2 * b1), abs(a2 * b0 - a0 * b2), abs(a0 * b1 - a1 * b0))
    return diameter, length


@kernel
def measure_corners(t, less, out):
    """The corners of the same edges with that much less jitter, in double-double, without errors."""
    n, lines, derivative = t.polygon.n_corners, t.lines.precise, t.lines.derivative
    for j in range(n):
        high, low = lines.high[j], lines.low[j]
        line_dd(t, t.edges.code[j], high, low, lines.error[j])
        line_derivative(t, t.edges.code[j], derivative)
        for c in range(3):
            high[c], low[c] = dd_add(high[c], low[c], -less * derivative[c], 0.0)
    for j in range(n):
        high, low, top = out.high[j], out.low[j], 0.0
        for c in range(3):
            high[c], low[c], _ = cross_entry_dd(lines, j, lines, j + 1 if j + 1 < n else 0, c)
            top = high[c] if abs(high[c]) > abs(top) else top
        for c in range(3):
            high[c], low[c] = dd_mul(high[c], low[c], 1.0 / top, 0.0)


@kernel
def _measure(corners, n):
    """Diameter (sine of an angle of homogeneous costs) and area of a polygon of n corners, whichever corner is the first.

    The area is that of the largest triangle of an edge and a corner: with less jitter edges may cross, and what a sum of
    triangles is then depends on where it begins.
    """
    diameter, area = 0.0, 0.0
    for i in range(n):
        for j in range(n):
            after = j + 1 if j + 1 < n else 0
            square, det, det_lo = 0.0, 0.0, 0.0
            for c in range(3):
                x, x_lo, _ = cross_entry_dd(corners, i, corners, j, c)
                square += x * x
                y, y_lo = dd_mul(x, x_lo, corners.high[after, c], corners.low[after, c])
                det, det_lo = dd_add(det, det_lo, y, y_lo)
            diameter, area = max(diameter, np.sqrt(square)), max(area, abs(det))
    return diameter, area


@kernel
def _largest_term(corner, n):
    """Of determinants of the corners of a polygon, which are thin or small, so that terms of one corner will do."""
    top = 0.0
    for j in range(n):
        top = max(top, corner[j, 0] * corner[j, 1] * corner[j, 2])
    return top


@kernel
def is_between_tied(t):
    """Is an anchored facet a strip between two tied lines, or bounded by them all around? Then it scales with the jitter."""
    if t.facet.n_margin == t.data.rank - 1:
        return is_anchored(t, t.facet.pencil[0]) and is_anchored(t, t.facet.pencil[1])
    for j in range(t.polygon.n_corners):
        if not is_anchored(t, t.edges.code[j]):
            return False
    return True


@kernel
def is_steep(t):
    """Is D of the pencil (|M| = r - 1) certainly not zero without jitter? Then a strip between tied lines is a tie.

    Not asked of wide strips. Where double-double cannot tell corners without jitter, the jitter is seen.
    """
    if t.facet.n_margin != t.data.rank - 1:
        return False
    if t.facet.refined == 0:
        refine(t)
    if t.facet.refined != 1:
        return False
    for c in range(2):
        d, error = slope(t, c)
        if abs(d) > error + STEEP * length_of_pull_derivative(t, c) / t.maps.length[U]:
            return True
    return False


STEEP = 2.0**10
"""Slopes that are at most this many times what the jitter may have made of them are taken for zero."""


@kernel
def survives(t):
    """Does the polygon in hand certainly keep its area without jitter? Then the facet is no tie, and doubles say so.

    Lines are affine in the jitter. If it moves none of them at any corner by more than STEADY times what the line is in the
    middle, then with less jitter all that is three quarters of the way from the middle to the corners is still within them.
    """
    n, middle, h, error = t.polygon.n_corners, t.lines.derivative, t.modular.pair_value[0], t.modular.pair_error[0]
    find_middle(t, middle)
    for j in range(n):
        line_powers(t, t.edges.code[j], h, error)
        value, bound = 0.0, 0.0
        for c in range(3):
            size = abs(h[0, c]) + t.jitter * abs(h[1, c])
            value += (h[0, c] + t.jitter * h[1, c]) * middle[c]
            bound += (error[0, c] + t.jitter * error[1, c] + ROUNDINGS * UNIT * size) * middle[c]
        least = STEADY * (value - bound) / n
        for k in range(n):
            v, moved, doubt = t.edges.corner[k], 0.0, 0.0
            for c in range(3):
                moved += t.jitter * h[1, c] * v[c]
                doubt += t.jitter * (error[1, c] + ROUNDINGS * UNIT * abs(h[1, c])) * v[c]
            if not abs(moved) + doubt < least * (v[0] + v[1] + v[2]):
                return False
    return True


STEADY = 2.0**-3
"""With t = 3/4 of the way, (1 - t) (1 - STEADY) > t STEADY. The area that is left, 9/16, is more than TIE_CLEAR TIE_LOSS."""


@kernel
def is_tie(t):
    """Does the facet just closed owe its extent to the jitter: 1 or 0, or UNKNOWN if only exact arithmetic can tell?"""
    if not is_suspect(t.edges.corner, t.polygon.n_corners, WIDE):
        return 0
    if t.facet.anchor_axis >= 0 and is_between_tied(t):
        return 1 if is_suspect(t.edges.corner, t.polygon.n_corners, THIN) or is_steep(t) else 0
    if t.facet.refined != -1 and survives(t):
        return 0
    if vanishes(t):
        t.polygon.n_zero += 1
        return 1
    if t.facet.refined == 0:
        refine(t)
    return shrinks(t) if t.facet.refined == 1 else UNKNOWN


@kernel
def shrinks(t):
    """Does the polygon in hand, with refined maps, shrink with the jitter: 1 or 0, or UNKNOWN?"""
    solve_derivatives(t)
    measure_corners(t, 0.0, t.lines.ends)
    diameter, area = _measure(t.lines.ends, t.polygon.n_corners)
    measure_corners(t, 1.0 - TIE_SHRINK, t.lines.ends_less)
    less, lesser = _measure(t.lines.ends_less, t.polygon.n_corners)
    if TIE_CLEAR * less <= TIE_LOSS * diameter:
        return 1
    if area < TIE_RESOLVED * _largest_term(t.edges.corner, t.polygon.n_corners):
        return UNKNOWN
    if TIE_CLEAR * lesser <= TIE_LOSS * area:
        return 1
    return 0 if less > TIE_CLEAR * TIE_LOSS * diameter and lesser > TIE_CLEAR * TIE_LOSS * area else UNKNOWN
