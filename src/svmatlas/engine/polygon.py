"""The lines of one facet -> its polygon, by predicates that are never wrong.

The polygon is cut out of the region: a cyclic list of edges (line codes) with corners between them. A line can only be an
edge if some corner of a larger polygon lies strictly beyond it, so every corner is checked against all lines once, and the
polygon is clipped by the line that the corner violates most.

The one predicate is the sign of h_k . (h_a x h_b): on which side of line k lies the corner of edges a and b?

1. Lines that meet by structure: zero, without arithmetic. Three lines meet by structure in a corner of the triangle of
   costs (their entries there are exactly zero), at the end of a pencil of parallel score lines (with the line at infinity), or
   on an axis (alpha_i = 0, alpha_i = w_i C and C = 0).
2. Doubles, with an error bound on the lines and on the corner.
3. Double-double, with the refined maps of the facet.
4. Powers of the jitter (zeros.py): a sign that is zero without jitter modulo a prime is that of what the jitter adds. This
   comes before level 3, too: what is tied needs no refined maps.
5. Exact integers, outside the kernel: the facet is put aside with a list of questions, and closed again with the answers.

The data of these predicates are the jittered data (problem.py), where three lines meet only by structure; from level 3 on
the jitter is resolved, so a tie is split there, one way, for all facets around it.
"""

from __future__ import annotations

import numpy as np

from svmatlas.engine.compiled import kernel
from svmatlas.engine.doubledouble import UNIT, UNIT_DD, dd_add, dd_mul
from svmatlas.engine.facet import (
    ANCHOR,
    AROUND,
    AT_HOME,
    AXES,
    BETA,
    CHECKED,
    CODE,
    COSINES,
    CROSS,
    ERRORS,
    ETA,
    ETA_SWAY,
    FILLED,
    FOLDED,
    HINT,
    INSIDE,
    JITTERS,
    LANES,
    LENGTH,
    LENGTH_SWAY,
    MEMBER,
    MINUS,
    N_ASKED,
    N_CORNERS,
    N_HOME,
    N_LISTED,
    N_PULL,
    N_REFINED,
    N_ZERO,
    NORM,
    OUTSIDE,
    PENCIL,
    PER_NORM,
    PER_SLOPE,
    PLUS,
    RADIUS,
    REAL,
    REDUCED,
    REFINED,
    SCORES,
    SCRATCH,
    SIGN,
    SIGNS,
    SIZE,
    SLOPES,
    SLOT,
    SURPLUS,
    SWAY_BETA,
    SWAYS,
    TARGET_LO,
    TIED,
    VALUES,
    L,
    P,
    Q,
    U,
    anchored_line,
    anchored_rest,
    cosines,
    fill_score,
    is_anchored,
    length_of_sway,
    line,
    line_dd,
    line_sway,
    pencil_dd,
    pencil_origin,
    reach_from_home,
    refine,
    rest_dd,
    score_all,
    score_one,
    score_tied,
    sign_points,
    slope,
    slope_dd,
    solve_maps,
    solve_sway,
    table_row,
    tabulate_margin,
    tabulate_pencil,
    weights_at,
)  # fmt: skip
from svmatlas.engine.mersenne import normal_to
from svmatlas.engine.zeros import (
    UNKNOWN,
    enter_corner,
    enter_weights,
    entry_of_corner,
    is_spanned,
    sign_of_jitter,
    sign_of_score,
    solve_words,
    vanishes,
)

CLOSED, ASKING, EMPTY, BROKEN = 0, 1, 2, 3
"""Outcome for a facet: closed; has questions for exact arithmetic; two impossible ones: no area, or |M| > rank."""

ASK_SIGN, ASK_PENCIL = np.arange(2)
"""Questions: (ASK_SIGN, a, b, k), the sign above; (ASK_PENCIL, k, k, k), one for each candidate k of the tightest lines."""

COARSE = 2.0**-32
"""Corners with a larger relative error of an entry than this are computed again in double-double, so that all costs of
all vertices are good to 2e-10 even where lines are almost parallel or costs are huge."""

THIN = 1e-8
"""Only facets narrower or shorter than this, relative to their costs, or wholly this close to infinity or an axis, are tested
for being ties, the latter without double-double: what the jitter makes there can be of second order, which doubles do not see.
Ties are near JITTER = 1e-13 times their conditioning; the bound only saves time."""

TIE_SHRINK = 2.0**-5
"""Ties are told by scaling the jitter with this: a facet that the jitter made shrinks with it, in area or in all."""

TIE_LOSS = 2.0**-2
"""Less of its area or diameter left than this after the scaling: a tie. True facets keep theirs, ties keep 2^-5 and what
ties that are only so up to rounding of the data (2^-53 against 2^-48 then) add to it."""

TIE_CLEAR = 2.0
"""Factor by which what is left has to be more or less than that; else exact arithmetic tells: where ties are so up to rounding
of the data, and that is not small against the jitter, double-double depends on the way that the sums were made."""

TIE_RESOLVED = 2.0**-100
"""Least area of a facet, relative to the size of the terms of a determinant, that double-double resolves well enough for that:
these are good to some 2^-103."""

TINY = 1e-300
"""In place of an entry of a corner that rounding made zero or negative: all costs are positive where they are not zero."""

NO_CODE = -(2**40)
"""A code that no line has."""

FIRST = np.int64(0)
"""The first corner, or number (a NumPy integer: see the columns in facet.py)."""

NONE, ASK, ALL_CLEAR = -1, -2, -3
"""Answers of a check that names no line: the corner is good; it has questions; it is good, and no score is so close to its
line as the jitter is. (Sides are never named.)"""


# ----------------------------------------------------------------------------------------------------------------------
# The predicate


@kernel
def _is_parallel(t, code):
    """Does a line pass through the end of the pencil: a score line of it, or the line at infinity?"""
    if code < 0:
        return t.side_axis[-1 - code] == L
    return t.counts[SIZE] == t.rank - 1 and t.members[SLOT, code >> 1] < 0


@kernel
def _ends(t, code):
    """The structural points that a line passes through: bits 0-2 corners of the triangle, bit 3 the end of the pencil."""
    h0, h1, h2, e0, e1, e2 = line(t, code)
    bits = 0
    if h0 == 0.0 and e0 == 0.0:
        bits |= 1
    if h1 == 0.0 and e1 == 0.0:
        bits |= 2
    if h2 == 0.0 and e2 == 0.0:
        bits |= 4
    if _is_parallel(t, code):
        bits |= 8
    return bits


@kernel
def _on_axis(t, a, b, side):
    """Do a and b bound the same alpha, and is the side the axis where both bounds meet?"""
    if a < 0 or b < 0 or side >= 0 or a ^ b != 1 or t.members[SLOT, a >> 1] < 0:
        return False
    return t.side_axis[-1 - side] == t.axis[a >> 1]


@kernel
def _meet(t, k, a, b):
    """Do three lines meet by structure?"""
    if _ends(t, k) & _ends(t, a) & _ends(t, b) != 0:
        return True
    return _on_axis(t, a, b, k) or _on_axis(t, a, k, b) or _on_axis(t, b, k, a)


@kernel
def minor_dd(ah, al, bh, bl, ch, cl, dh, dl, ea, eb, ec, ed):
    """A d - b c in double-double, with its error."""
    ph, pl = dd_mul(ah, al, dh, dl)
    qh, ql = dd_mul(bh, bl, ch, cl)
    sh, sl = dd_add(ph, pl, -qh, -ql)
    error = abs(ah) * ed + ea * (abs(dh) + ed) + abs(bh) * ec + eb * (abs(ch) + ec)
    return sh, sl, error + 4.0 * UNIT_DD * (abs(ph) + abs(qh))


@kernel
def cross_dd(t, a, b):
    """h_a x h_b in double-double, turned into the triangle, into the last row of ``exact``, unless it is there already.

    Returns whether its direction is certain.
    """
    end = t.exact.shape[0]
    v, x, y = t.exact[end - 1], t.exact[end - 2], t.exact[end - 3]
    if t.tally[CROSS] != a or t.tally[CROSS + 1] != b:
        line_dd(t, a, x)
        line_dd(t, b, y)
        for c in range(3):
            i, j = (c + 1) % 3, (c + 2) % 3
            v[c], v[3 + c], v[6 + c] = minor_dd(
                x[i], x[3 + i], x[j], x[3 + j], y[i], y[3 + i], y[j], y[3 + j], x[6 + i], x[6 + j], y[6 + i], y[6 + j]
            )
        if _is_parallel(t, a) and _is_parallel(t, b):
            v[2], v[5], v[8] = 0.0, 0.0, 0.0
        t.tally[CROSS], t.tally[CROSS + 1] = a, b
    top = 0
    for c in range(1, 3):
        if abs(v[c]) > abs(v[top]):
            top = c
    if v[top] < 0.0:
        for c in range(6):
            v[c] = -v[c]
    return abs(v[top]) > v[6 + top]


@kernel
def _sign_dd(t, k, a, b):
    """Level 3, then the answers of level 5. Before the maps are refined: UNKNOWN."""
    if t.counts[REFINED] == 0:
        return UNKNOWN
    if t.counts[REFINED] == 1:
        sure = cross_dd(t, a, b)
        end = t.exact.shape[0]
        v, h = t.exact[end - 1], t.exact[end - 2]
        line_dd(t, k, h)
        s, sl, bound = 0.0, 0.0, 0.0
        for c in range(3):
            p, pl = dd_mul(v[c], v[3 + c], h[c], h[3 + c])
            s, sl = dd_add(s, sl, p, pl)
            bound += abs(h[c]) * v[6 + c] + h[6 + c] * (abs(v[c]) + v[6 + c]) + 8.0 * UNIT_DD * abs(p)
        if sure and abs(s) > bound:
            t.tally[N_REFINED] += 1
            return 1 if s > 0 else -1
    for n in range(t.answers.shape[0]):
        row = t.answers[n]
        if row[0] == ASK_SIGN and row[3] == k and ((row[1] == a and row[2] == b) or (row[1] == b and row[2] == a)):
            return row[4]
    return UNKNOWN


@kernel
def _is_strip(t, k, a, b):
    """Is one of a and b the other side of the strip that k bounds? No facet is empty: k is positive there but at infinity."""
    lower, upper = t.counts[PENCIL], t.counts[PENCIL + 1]
    if lower < 0 or upper < 0:
        return False
    return (k == lower and (a == upper or b == upper)) or (k == upper and (a == lower or b == lower))


@kernel
def _cross_anchored(t, a, b):
    """H_a x h_b of anchored lines, turned to l > 0, with errors; infinite ones if that is not certain."""
    h0, h1, h2, e0, e1, e2 = anchored_line(t, a)
    g0, g1, g2, d0, d1, d2 = anchored_line(t, b)
    u = 4.0 * UNIT
    x, y, z = h1 * g2 - h2 * g1, h2 * g0 - h0 * g2, h0 * g1 - h1 * g0
    ex = abs(h1) * d2 + e1 * (abs(g2) + d2) + abs(h2) * d1 + e2 * (abs(g1) + d1) + u * (abs(h1 * g2) + abs(h2 * g1))
    ey = abs(h2) * d0 + e2 * (abs(g0) + d0) + abs(h0) * d2 + e0 * (abs(g2) + d2) + u * (abs(h2 * g0) + abs(h0 * g2))
    ez = abs(h0) * d1 + e0 * (abs(g1) + d1) + abs(h1) * d0 + e1 * (abs(g0) + d0) + u * (abs(h0 * g1) + abs(h1 * g0))
    if not abs(z) > ez:
        return x, y, z, np.inf, np.inf, np.inf
    if z < 0.0:
        x, y, z = -x, -y, -z
    return x, y, z, ex, ey, ez


@kernel
def _sign_anchored(t, k, a, b):
    """Between levels 2 and 3: three tied lines of an anchored facet."""
    v0, v1, v2, d0, d1, d2 = _cross_anchored(t, a, b)
    h0, h1, h2, e0, e1, e2 = anchored_line(t, k)
    size = abs(h0 * v0) + abs(h1 * v1) + abs(h2) * v2
    bound = abs(h0) * d0 + e0 * (abs(v0) + d0) + abs(h1) * d1 + e1 * (abs(v1) + d1)
    bound += abs(h2) * d2 + e2 * (v2 + d2) + 4.0 * UNIT * size
    s = h0 * v0 + h1 * v1 + h2 * v2
    if not abs(s) > bound:
        return UNKNOWN
    return 1 if s > 0 else -1


@kernel
def _ask(t, question, a, b, k):
    n = t.tally[N_ASKED]
    if n < t.asked.shape[0]:
        row = t.asked[n]
        row[0], row[1], row[2], row[3] = question, a, b, k
        t.tally[N_ASKED] += 1


@kernel
def _value(h0, h1, h2, e0, e1, e2, v):
    """Level 2: the value of a line at a corner, its error bound, and the size of its terms."""
    v0, v1, v2, d0, d1, d2 = v[0], v[1], v[2], v[3], v[4], v[5]
    size = abs(h0) * v0 + abs(h1) * v1 + abs(h2) * v2
    bound = abs(h0) * d0 + e0 * (v0 + d0) + abs(h1) * d1 + e1 * (v1 + d1)
    bound += abs(h2) * d2 + e2 * (v2 + d2) + 4.0 * UNIT * size
    return h0 * v0 + h1 * v1 + h2 * v2, bound, size


@kernel
def _sign(t, k, j):
    """Sign of line k at corner j where doubles do not tell: all other levels. UNKNOWN puts the question on the list."""
    n = t.tally[N_CORNERS]
    a, b = t.edge[0, CODE, j], t.edge[0, CODE, j + 1 if j + 1 < n else 0]
    if k == a or k == b or _meet(t, k, a, b):
        return 0
    if t.corner[0, j, 2] > t.corner[0, j, 5] and _is_strip(t, k, a, b):
        return 1
    sign = UNKNOWN
    if t.counts[SIZE] < t.rank - 1 and is_anchored(t, k) and is_anchored(t, a) and is_anchored(t, b):
        sign = _sign_anchored(t, k, a, b)
    if sign == UNKNOWN:
        sign = _sign_dd(t, k, a, b)
    if sign == UNKNOWN:
        sign = sign_of_jitter(t, k, a, b)
    if sign == UNKNOWN:
        _ask(t, ASK_SIGN, a, b, k)
    return sign


# ----------------------------------------------------------------------------------------------------------------------
# Clipping


@kernel
def _store_corner(corner, v0, v1, v2, d0, d1, d2):
    """A corner from a cross product: scaled to largest entry 1, and turned into the triangle; returns 1, or -1 if it was."""
    top = max(abs(v0), abs(v1), abs(v2))
    scale = 1.0 / top
    if -min(v0, v1, v2) == top:
        scale = -scale
    corner[0], corner[1], corner[2] = v0 * scale, v1 * scale, v2 * scale
    corner[3], corner[4], corner[5] = d0 * abs(scale), d1 * abs(scale), d2 * abs(scale)
    for c in range(3):
        if corner[3 + c] == 0.0:
            corner[c] = abs(corner[c])
        elif corner[c] < TINY:  # only a zero by structure is stored as zero
            corner[c] = TINY
    return 1 if scale > 0.0 else -1


@kernel
def is_coarse(corner):
    """Is an entry of a corner known too badly?"""
    for c in range(3):
        if not corner[3 + c] <= COARSE * corner[c]:
            return True
    return False


@kernel
def _times(a, b):
    """|a| b where zero is exact: zero times an infinite error bound is zero."""
    return 0.0 if a == 0.0 or b == 0.0 else abs(a) * b


@kernel
def make_corner(t, j, a, b):
    """Corner of edges a and b into place j of the new polygon; returns how it was turned."""
    t.edge[1, CHECKED, j], t.edge[1, HINT, j] = 0, -1
    h0, h1, h2, e0, e1, e2 = line(t, a)
    g0, g1, g2, d0, d1, d2 = line(t, b)
    zero = -1  # column that is zero by structure
    if a >= 0 and b >= 0 and a ^ b == 1:  # both bounds of one alpha: the sum of the lines is w_i times the axis
        zero = t.axis[a >> 1]
        g0, g1, g2, d0, d1, d2 = 1.0 * (zero == P), 1.0 * (zero == Q), 0.0, 0.0, 0.0, 0.0
    elif _is_parallel(t, a) and _is_parallel(t, b):
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
    corner = t.corner[1, j]
    turn = _store_corner(corner, x, y, z, ex, ey, ez)
    if t.counts[REFINED] != 1:
        return turn
    cross_dd(t, a, b)
    v = t.exact[t.exact.shape[0] - 1]
    x = (0.0 if zero == P else v[0]), (0.0 if zero == Q else v[1]), (0.0 if zero == L else v[2])
    e = (0.0 if zero == P else v[6]), (0.0 if zero == Q else v[7]), (0.0 if zero == L else v[8])
    u = UNIT
    _store_corner(corner, x[0], x[1], x[2], e[0] + u * abs(x[0]), e[1] + u * abs(x[1]), e[2] + u * abs(x[2]))
    return turn


@kernel
def _copy_corner(edge, corner, j, i):
    for c in range(6):
        corner[1, j, c] = corner[0, i, c]
    edge[1, CHECKED, j], edge[1, HINT, j] = edge[0, CHECKED, i], edge[0, HINT, i]


@kernel
def _clip(t, k):
    """Keep the part of the polygon on the good side of line k."""
    n = t.tally[N_CORNERS]
    edge, corner = t.edge, t.corner
    code, sign, new = edge[0, CODE], edge[0, SIGN], edge[1, CODE]
    unknown, negative = False, 0
    h0, h1, h2, e0, e1, e2 = line(t, k)
    for j in range(n):
        s, bound, _ = _value(h0, h1, h2, e0, e1, e2, corner[0, j])
        sign[j] = 1 if s > bound else -1
        if not abs(s) > bound:
            sign[j] = _sign(t, k, j)
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
        _copy_corner(edge, corner, m, j)
        m += 1
        j = j + 1 if j + 1 < n else 0
    new[m + (sign[before] == 1)] = k
    for step in range(2):  # the corners where edge k begins and ends
        if step == 0 and sign[before] == 1:
            new[m] = code[first]
        elif step == 1 and sign[after] == 0:
            _copy_corner(edge, corner, m, after)
            m += 1
            continue
        elif step == 0:
            continue
        make_corner(t, m, code[first] if step == 0 else code[after], k)
        m += 1
    _turn_over(t, m)
    return CLOSED


@kernel
def _turn_over(t, m):
    """The new polygon, of m corners, is that in hand."""
    edge, corner = t.edge, t.corner
    for j in range(m):
        edge[0, CODE, j], edge[0, CHECKED, j], edge[0, HINT, j] = edge[1, CODE, j], edge[1, CHECKED, j], edge[1, HINT, j]
        for c in range(6):
            corner[0, j, c] = corner[1, j, c]
    t.tally[N_CORNERS] = m


@kernel
def _list(t, code):
    t.listed[t.tally[N_LISTED]] = code
    t.tally[N_LISTED] += 1


@kernel
def _weigh(t, code, value, bound, size, worst, least):
    """List a line that is not certainly positive, or if it is certainly negative take it if it is the worst, in its size."""
    if not value < -bound:
        _list(t, code)
    elif value < least * size:
        return code, value / size
    return worst, least


@kernel
def _leave_out(t, j, where, signs, score):
    """Points whose lines are not to be checked at corner j: those of M, and those of its two edges."""
    n, member = t.tally[N_CORNERS], t.members[MEMBER, : t.counts[SIZE]]
    for k in range(member.size):
        place = where[member[k]]
        if 0 <= place < score.size:
            score[place] = np.inf
    for code in (t.edge[0, CODE, j], t.edge[0, CODE, j + 1 if j + 1 < n else 0]):
        place = where[code >> 1] if code >= 0 else -1
        if 0 <= place < score.size:
            score[place] = np.inf * signs[place]


@kernel
def _score_error(t, v):
    """Error bound of scores at a corner: a part for each unit of a row's length, and a fixed part."""
    tiny = (t.columns.shape[0] + 6) * UNIT
    per_norm = 0.0
    for c in range(3):
        size, d = t.bound[LENGTH, c], v[3 + c]
        per_norm += (t.bound[ETA, c] + tiny * size) * (v[c] + d) + size * d
    return per_norm, 8.0 * UNIT * v[2] + 2.0 * v[5]


@kernel
def _check_scores(t, j):
    """A score line that corner j violates, or NONE; undecided ones are listed."""
    v = t.corner[0, j]
    per_norm, fixed = _score_error(t, v)
    weights_at(t, v[0], v[1], v[2])
    if t.counts[ANCHOR] >= 0:  # single precision would leave all tied points open
        return _check_doubles(t, j, per_norm, fixed)
    if _is_at_home(t, v[2], per_norm + fixed / t.shortest):
        return _check_singles(t, j, t.home_unit, t.home_single, t.who, t.where, t.counts[N_HOME], per_norm, fixed)
    sign_points(t)
    return _check_singles(t, j, t.unit, t.single, t.everyone, t.everyone, t.state.size, per_norm, fixed)


@kernel
def _is_at_home(t, l, error):
    """Are all points but those near home certainly on their side, with the weights in the first scratch column?"""
    return t.counts[AT_HOME] == 1 and reach_from_home(t, l, error) <= t.bound[REAL, RADIUS]


@kernel
def _settle(t, hints):
    """See that home is near the facet in hand, at a known corner if it is made anew."""
    t.counts[AT_HOME] = 0
    if t.neighbours == 0:
        return
    k = 0
    while k < hints.shape[0] and (hints[k, 2] < 0 or t.known[max(hints[k, 2], 0), 2] == 0.0):
        k += 1
    if k == hints.shape[0]:
        return
    v = t.known[hints[k, 2]]
    weights_at(t, v[0], v[1], v[2])
    near = t.counts[N_HOME] > 0 and reach_from_home(t, v[2], 0.0) < WITHIN * t.bound[REAL, RADIUS]
    if not near or _strays(t.state, t.side):
        _make_home(t, v[2])
        if t.neighbours == 0 or _strays(t.state, t.side):
            return
    t.counts[AT_HOME] = 1
    signs, state, who = t.home_single[SIGNS], t.state, t.who[: t.counts[N_HOME]]
    for place in range(who.size):
        signs[place] = MINUS if state[who[place]] == INSIDE else PLUS


WITHIN = 0.75
"""Share of the radius in which the known corner has to be, so that there is room for the others."""


@kernel
def _strays(state, side):
    """Is a point in another set than all points but those near home have to be?"""
    found = np.int8(0)
    for i in range(state.size):
        found = np.int8(found | ((side[i] >= 0) & (state[i] != side[i])))
    return found != 0


@kernel
def _make_home(t, l):
    """Home is where the weights in the first scratch column are; points that are further from their lines than a radius."""
    home, rest, inverse, size = t.home, t.single[COSINES], t.single[PER_NORM], t.state.size
    slack = t.single[VALUES, :size]
    for j in range(home.size):
        home[j] = t.column[SCRATCH, 0, j] / l
    length = cosines(t, t.unit, home, rest[:size])
    per_unit, rounding = np.float32(length), np.float32(GROWN * (t.columns.shape[0] + 12) * UNIT_32 * length)
    for i in range(size):
        rest[i] = per_unit * rest[i] - inverse[i]
    for i in range(size):
        slack[i] = abs(rest[i]) - np.float32(16.0 * UNIT_32) * inverse[i] - rounding
    if t.bound[REAL, RADIUS] == 0.0:
        t.bound[REAL, RADIUS] = _choose_radius(slack, t.neighbours)
    if t.bound[REAL, RADIUS] == 0.0:
        t.neighbours = 0
        return
    reach = np.float32(GROWN * t.bound[REAL, RADIUS])
    n, side, who, where = 0, t.side, t.who, t.where
    for i in range(size):
        far = slack[i] > reach
        side[i] = (OUTSIDE if rest[i] > 0 else INSIDE) if far else -1
        who[n] = i
        n += not far
    for i in range(size):
        if n % LANES == 0:
            break
        if side[i] >= 0:
            side[i], who[n] = -1, i
            n += 1
    where[:] = -1
    for place in range(n):
        where[who[place]] = place
    for row in range(t.unit.shape[0]):
        _pick(t.unit[row], who[:n], t.home_unit[row])
    for row in (PER_NORM, JITTERS, AXES):
        _pick(t.single[row], who[:n], t.home_single[row])
    t.counts[N_HOME] = n


@kernel
def _choose_radius(slack, wanted):
    """A distance at which so many points, beside those that are tied, may be on their lines; 0 if most points would be."""
    tied, top = _count_below(slack, np.float32(0.0)), np.float32(0.0)
    if slack.size - tied <= 2 * wanted:
        return np.float32(0.0)
    for i in range(slack.size):
        top = slack[i] if slack[i] > top else top
    low, high = np.float32(0.0), top
    for _ in range(HALVINGS):
        middle = (low + high) / np.float32(2.0)
        if _count_below(slack, middle) <= tied + wanted:
            low = middle
        else:
            high = middle
    return low


@kernel
def _count_below(values, bound):
    count = 0
    for i in range(values.size):
        count += values[i] < bound
    return count


HALVINGS = 16
"""Of the range of distances from home, to find the radius."""


@kernel
def _pick(source, which, goal):
    for k in range(which.size):
        goal[k] = source[np.uint64(which[k])]  # which cannot be negative


UNIT_32 = 2.0**-24
"""Rounding error of single precision."""

GROWN = 1.0 + 2.0**-16
"""Factor on bounds that are computed in single precision."""


@kernel
def _check_singles(t, j, unit, single, who, where, n, per_norm, fixed):
    """The line of the first n of some points that corner j violates most. Doubles are asked what single precision leaves open.

    With x = |x| e and beta = |beta| b the score is beyond its bound if e.b is by as much, divided by |x||beta|. That product
    of vectors of length 1 is good to d + 4 units; the bound adds its own rounding, and that of the difference.
    """
    cosine, signs, inverse = single[COSINES, :n], single[SIGNS], single[PER_NORM]
    length = cosines(t, unit, t.column[SCRATCH, 0], cosine)
    if not per_norm < length:  # all is open
        return _check_doubles(t, j, per_norm, fixed)
    _leave_out(t, j, where, signs, cosine)
    v, jitter = t.corner[0, j, 2], t.jitter
    target, a, b = _margin_in_single(t, v, length, per_norm, fixed)
    surplus = single[FOLDED, :n]
    short, beyond = _count_short(cosine, signs, inverse, target, a, b, surplus)
    if short == 0:
        return ALL_CLEAR
    if MANY * (short - beyond) > n:
        return _check_doubles(t, j, per_norm, fixed)
    worst, least = NONE, 0.0
    for place in range(n):
        if surplus[place] > 0:
            continue
        s, bound = signs[place] * (cosine[place] - target * inverse[place]), a + b * inverse[place]
        i = who[place]
        code, norm = 2 * i + (0 if t.state[i] == OUTSIDE else 1), t.point[NORM, i]
        if s < -bound:
            if s * length < least:
                worst, least = code, s * length
            continue
        value, limit = score_one(t, i) - (v + jitter * t.point[TARGET_LO, i] * v), norm * per_norm + fixed
        value *= signs[place]
        if not value > limit:
            worst, least = _weigh(t, code, value, limit, norm, worst, least)
    return worst


@kernel
def _margin_in_single(t, l, length, per_norm, fixed):
    """Cosine of a point of length 1 on the margin, and its error: a fixed part, and a part for each unit of 1 / |x|."""
    a = np.float32(GROWN * ((t.columns.shape[0] + 8) * UNIT_32 + per_norm / length))
    return np.float32(l / length), a, np.float32(GROWN * (8.0 * UNIT_32 * l + fixed) / length)


@kernel
def _count_short(cosine, signs, inverse, target, a, b, surplus):
    """How many lines are not certainly positive, and how many certainly negative; by how much they exceed their bounds."""
    short, beyond = np.int32(0), np.int32(0)  # as wide as what is compared
    for i in range(cosine.size):
        s, bound = signs[i] * (cosine[i] - target * inverse[i]), a + b * inverse[i]
        surplus[i] = s - bound
        short = np.int32(short + (not surplus[i] > 0))
        beyond = np.int32(beyond + (s < -bound))
    return short, beyond


MANY = 8
"""Where more than one in so many lines is open, doubles are asked about all at once."""


@kernel
def _check_doubles(t, j, per_norm, fixed):
    """The same for all points, in doubles alone."""
    sign_points(t)
    state, norm, low = t.state, t.point[NORM], t.point[TARGET_LO]
    score, signs, target, jitter = t.score[SCORES], t.single[SIGNS], t.corner[0, j, 2], t.jitter
    score_all(t, score)
    _leave_out(t, j, t.everyone, signs, score)
    _settle_tied(t, j, score)
    worst, least = NONE, 0.0
    for i in range(state.size):
        s = signs[i] * (score[i] - (target + jitter * low[i] * target))
        bound = norm[i] * per_norm + fixed
        if not s > bound:
            worst, least = _weigh(t, 2 * i + (0 if state[i] == OUTSIDE else 1), s, bound, norm[i], worst, least)
    return worst


@kernel
def _settle_tied(t, j, score):
    """At a corner of two tied lines of an anchored facet: give tied points that doubles resolve there a score that says so."""
    n = t.tally[N_CORNERS]
    a, b = t.edge[0, CODE, j], t.edge[0, CODE, j + 1 if j + 1 < n else 0]
    if not (is_anchored(t, a) and is_anchored(t, b)):
        return
    v0, v1, v2, d0, d1, d2 = _cross_anchored(t, a, b)
    tiny = (t.columns.shape[0] + 6) * UNIT
    size_p, size_q, size_l = t.bound[LENGTH, P], t.bound[LENGTH, Q], t.bound[REAL, LENGTH_SWAY]
    per_norm = (t.bound[ETA, P] + tiny * size_p) * (abs(v0) + d0) + size_p * d0
    per_norm += (t.bound[ETA, Q] + tiny * size_q) * (abs(v1) + d1) + size_q * d1
    per_norm += (t.bound[REAL, ETA_SWAY] + tiny * size_l) * (v2 + d2) + size_l * d2
    tied = t.score[TIED, : score.size]
    score_tied(t, v0, v1, v2, tied)
    axis, norm, low, anchor, v = t.axis, t.point[NORM], t.point[TARGET_LO], t.counts[ANCHOR], t.corner[0, j, 2]
    for i in range(score.size):
        s = tied[i] - low[i] * v2
        sure = (axis[i] == anchor) & (abs(s) > norm[i] * per_norm + abs(low[i]) * (d2 + 4.0 * UNIT * v2))
        # Far beyond all bounds, in the order of how far: the line violated most is still that
        score[i] = (score[i] if abs(score[i]) == np.inf else v + s * TOLD_APART) if sure else score[i]


TOLD_APART = 1e60
"""Factor on scores that are resolved: jitter, 1e-13 or less, becomes large against all bounds."""


@kernel
def _surplus(table, first, end, v):
    """By how much lines of the table exceed their error bounds at a corner: s > bound of _value as a loop without branches."""
    h0, h1, h2, out = table[0, first:end], table[1, first:end], table[2, first:end], table[SURPLUS, first:end]
    e0, e1, e2 = table[3, first:end], table[4, first:end], table[5, first:end]
    v0, v1, v2, d0, d1, d2, u = v[0], v[1], v[2], v[3], v[4], v[5], 4.0 * UNIT
    for k in range(out.size):
        bound = abs(h0[k]) * (d0 + u * v0) + abs(h1[k]) * (d1 + u * v1) + abs(h2[k]) * (d2 + u * v2)
        bound += e0[k] * (v0 + d0) + e1[k] * (v1 + d1) + e2[k] * (v2 + d2)
        out[k] = h0[k] * v0 + h1[k] * v1 + h2[k] * v2 - bound


@kernel
def _count_not_positive(values):
    count = 0
    for k in range(values.size):
        count += not values[k] > 0.0
    return count


@kernel
def _check_few(t, j):
    """The same for the lines of M and of the pencil, but for the two edges of the corner."""
    worst, least = NONE, 0.0
    table, v, n = t.table, t.corner[0, j], t.tally[N_CORNERS]
    last = table.shape[1] - 2
    for part in range(2):
        first = last - 2 * t.rows.shape[1] if part == 0 else last
        end = first + 2 * t.counts[SIZE] if part == 0 else last + 2
        _surplus(table, first, end, v)
        surplus = table[SURPLUS, first:end]
        for code in (t.edge[0, CODE, j], t.edge[0, CODE, j + 1 if j + 1 < n else 0]):
            row = table_row(t, code) - first
            if 0 <= row < surplus.size:
                surplus[row] = np.inf
        if _count_not_positive(surplus) == 0:
            continue
        for k in range(surplus.size):
            if surplus[k] > 0.0:
                continue
            code = 2 * t.members[MEMBER, k >> 1] + (k & 1) if part == 0 else t.counts[PENCIL + k]
            h = table[:, first + k]
            s, bound, size = _value(h[0], h[1], h[2], h[3], h[4], h[5], v)
            if not s > bound and code >= 0:
                worst, least = _weigh(t, code, s, bound, size, worst, least)
    return worst


@kernel
def check_corner(t, j):
    """The line by which to clip since corner j is beyond it; NONE if the corner is good; ASK if that is not known."""
    t.tally[N_LISTED] = 0
    worst = _check_few(t, j)
    if worst == NONE and t.counts[SIZE] < t.rank - 1:
        worst = _check_scores(t, j)
    if worst != NONE and worst != ALL_CLEAR:
        return worst
    unknown, turn, error = False, UNKNOWN, np.inf
    many = t.tally[N_LISTED] > 4 and t.counts[SIZE] < t.rank - 1
    a, b = t.edge[0, CODE, j], t.edge[0, CODE, j + 1 if j + 1 < t.tally[N_CORNERS] else 0]
    ends = _ends(t, a) & _ends(t, b) if many else 0
    for n in range(t.tally[N_LISTED]):
        k, sign = t.listed[n], UNKNOWN
        if many and t.members[SLOT, k >> 1] < 0 and (ends == 0 or _ends(t, k) & ends == 0):  # else zero by structure
            if turn == UNKNOWN:
                turn = enter_corner(t, a, b) if solve_words(t) else 0
                error = enter_weights(t) if turn != 0 else np.inf
            if turn != 0:
                sign = sign_of_score(t, k, turn, error)
        if sign == UNKNOWN:
            sign = _sign(t, k, j)
        if sign == -1:
            return k
        unknown = unknown or sign == UNKNOWN
    if unknown:
        return ASK
    t.edge[0, CHECKED, j] = CLEAR if worst == ALL_CLEAR else 1
    return NONE


# ----------------------------------------------------------------------------------------------------------------------
# The pencil: |M| = r - 1, all score lines are s_i D.(p, q) >= n_i l, bounds on the one number v = D.(p, q) / l


@kernel
def _pencil_answered(t):
    for n in range(t.answers.shape[0]):
        if t.answers[n, 0] == ASK_PENCIL:
            t.counts[PENCIL], t.counts[PENCIL + 1] = t.answers[n, 1], t.answers[n, 2]
            return True
    return False


@kernel
def _is_flat(t):
    """Is D certainly zero (1), certainly not (0), or not known (UNKNOWN)?"""
    if t.counts[N_PULL] == 0 and t.counts[N_PULL + 1] == 0:
        return 1
    for c in range(2):
        d, error = slope(t, c)
        if abs(d) > error:
            return 0
    if t.counts[REFINED] == 1:
        for c in range(2):
            d, _, error = slope_dd(t, c)
            if abs(d) > error:
                return 0
    return UNKNOWN


@kernel
def _bound_listed(t, refined):
    """For each listed point the interval of v_i - v0, v_i = n_i / s_i, and the side: 0 lower, 1 upper; into ``exact``.

    n_i, which is all jitter where the data are tied, is taken from doubles, from the anchor (v0 as there, else 0) or from
    double-double. Where the side is not known (-1): n_i, the largest |s_i| and the error of n_i instead.
    """
    state, axis, score, out, listed, norms = t.state, t.axis, t.score, t.exact, t.listed, t.point[NORM]
    tiny = (t.columns.shape[0] + 2) * UNIT
    anchor = t.counts[ANCHOR]
    origin, shift = 0.0, 0.0
    if anchor >= 0:
        origin, shift = pencil_origin(t)
    es_norm = t.bound[ETA, U] + tiny * t.bound[LENGTH, U]
    en_norm = t.bound[ETA, L] + tiny * t.bound[LENGTH, L]
    for k in range(t.tally[N_LISTED]):
        i = listed[k] >> 1
        fill_score(t, i)
        s, n = score[P, i], -score[L, i]
        es, en = norms[i] * es_norm, norms[i] * en_norm + 4.0 * UNIT
        v0, e0 = origin, shift
        if axis[i] == anchor:
            n, en = anchored_rest(t, i)
            n = -n if state[i] == OUTSIDE else n
            v0, e0 = 0.0, 0.0
        elif refined:
            n, en = rest_dd(t, i)
            n = n if state[i] == OUTSIDE else -n
        if abs(s) > es:
            v = n / s
            error = (en + abs(v) * es) / (abs(s) - es) + 4.0 * UNIT * (abs(v) + abs(v0)) + e0
            out[k, 0], out[k, 1], out[k, 2], out[k, 3] = v - v0 - error, v - v0 + error, 0.0, (0 if s > 0 else 1)
        else:
            out[k, 0], out[k, 1], out[k, 2], out[k, 3] = n, abs(s) + es, en, -1
    return abs(origin) + shift


@kernel
def _narrow(t, refined):
    """Keep of the listed points those that can have the tightest bound on a side; returns how many for each, and unsure."""
    reach = _bound_listed(t, refined)
    interval, listed, count = t.exact, t.listed, t.tally[N_LISTED]
    lower, upper = -np.inf, np.inf
    for n in range(count):
        if interval[n, 3] == 0:
            lower = max(lower, interval[n, 0])
        elif interval[n, 3] == 1:
            upper = min(upper, interval[n, 1])
    reach += max(abs(lower), abs(upper))
    n_lower, n_upper, n_unsure, kept = 0, 0, 0, 0
    for n in range(count):
        lo, hi, en, side = interval[n, 0], interval[n, 1], interval[n, 2], interval[n, 3]
        if side == 0 and not hi < lower:
            n_lower += 1
        elif side == 1 and not lo > upper:
            n_upper += 1
        elif side == -1 and not reach * hi < abs(lo) - en:
            n_unsure += 1
        else:
            continue
        listed[kept] = listed[n]
        kept += 1
    t.tally[N_LISTED] = kept
    return n_lower, n_upper, n_unsure


@kernel
def _bound_all(t, unit, single, where, n):
    """The bounds of ``_bound_listed`` for the first n of some points, in single precision: VALUES and ERRORS.

    They are with n_i / |s_i| in place of v_i, so upper bounds are negated, and the tightest is the largest. The unit is
    |Beta_l| / |u|. Returns |s_i| / |x_i||u| from which on the side is certain.
    """
    d = t.columns.shape[0]
    slope, per_slope, rest, inverse = single[SLOPES, :n], single[PER_SLOPE], single[COSINES, :n], single[PER_NORM]
    signs, value, error = single[SIGNS], single[VALUES], single[ERRORS]
    length_u, length = cosines(t, unit, t.column[BETA, U], slope), cosines(t, unit, t.column[BETA, L], rest)
    for i in range(n):
        per_slope[i] = ONE / abs(slope[i])
    tiny, own = (d + 2) * UNIT, (d + 8) * UNIT_32
    es = np.float32(GROWN * (own + t.bound[ETA, U] / length_u + tiny))
    e = np.float32(GROWN * (own + t.bound[ETA, L] / length + tiny))
    _value_all(per_slope[:n], rest, signs, inverse, np.float32(1.0 / length), value)
    _error_all(per_slope[:n], inverse, value, es, e, np.float32(GROWN * 8.0 * UNIT_32 / length), error)
    if t.counts[ANCHOR] >= 0:
        sway, jitter, axis, anchor = single[SWAYS, :n], single[JITTERS], single[AXES], np.float32(t.counts[ANCHOR])
        origin, shift = pencil_origin(t)
        ratio = length_u / length
        v0, e0 = np.float32(origin * ratio), np.float32(GROWN * (shift + 8.0 * UNIT_32 * abs(origin)) * ratio)
        length_s = cosines(t, unit, t.column[SWAY_BETA, L], sway)
        scale, per_sway = np.float32(length_s / length), np.float32(1.0 / length_s)
        e = np.float32(GROWN * (own + t.bound[REAL, ETA_SWAY] / length_s + tiny))
        for i in range(n):
            value[i] -= v0 * signs[i] * (ONE if slope[i] > 0 else -ONE)
        _value_tied(per_slope, sway, signs, jitter, axis, anchor, per_sway, scale, value)
        _error_tied(per_slope[:n], jitter, axis, anchor, per_sway, scale, value, es, e, e0, error)
    for k in range(t.counts[SIZE]):
        i = where[t.members[MEMBER, k]]
        if 0 <= i < n:
            slope[i], value[i], error[i] = 1.0, -HUGE, 0.0
    return np.float32(4.0) * es


ONE, HALF, FEW = np.float32(1.0), np.float32(1.5), np.float32(8.0 * UNIT_32)
"""Numbers in single precision; where |s_i| is 4 errors or more, 1 / (|s_i| - error) is less than 1.5 / |s_i|."""

HUGE, NOTHING = np.float32(1e30), np.float32(1e32)
"""More than all bounds; a value or error that says nothing."""


@kernel
def _value_all(per_slope, rest, signs, inverse, target, value):
    """Bounds of all points. (These loops write to one array each, and do not branch: so they become vector instructions.)"""
    for i in range(per_slope.size):
        v = signs[i] * (target * inverse[i] - rest[i]) * per_slope[i]
        value[i] = v if abs(v) < HUGE else NOTHING


@kernel
def _error_all(per_slope, inverse, value, es, e, e_target, error):
    """Errors of these."""
    for i in range(per_slope.size):
        size = abs(value[i])
        x = HALF * (e + e_target * inverse[i] + size * es) * per_slope[i] + FEW * size
        error[i] = x if (x < HUGE) & (size < HUGE) else np.float32(2.0) * NOTHING


@kernel
def _value_tied(per_slope, sway, signs, jitter, axis, anchor, per_sway, scale, value):
    """Bounds of the tied points of an anchored pencil, from its origin on."""
    for i in range(sway.size):
        v, other = scale * signs[i] * (jitter[i] * per_sway - sway[i]) * per_slope[i], value[i]
        v = v if abs(v) < HUGE else NOTHING
        value[i] = v if axis[i] == anchor else other


@kernel
def _error_tied(per_slope, jitter, axis, anchor, per_sway, scale, value, es, e, e0, error):
    """Errors of these, and of the others from the origin on."""
    for i in range(per_slope.size):
        size, target = abs(value[i]), abs(jitter[i]) * per_sway
        x = HALF * (scale * (e + FEW * target) + size * es) * per_slope[i] + FEW * size
        x, other = x if (x < HUGE) & (size < HUGE) else np.float32(2.0) * NOTHING, error[i] + e0 + FEW * size
        error[i] = x if axis[i] == anchor else other


@kernel
def _fold(array, width):
    """The largest of all entries that are multiples of ``width`` apart, into the first of them."""
    low = array[:width]
    for first in range(width, array.size, width):
        part = array[first : first + width]
        for i in range(part.size):
            low[i] = part[i] if part[i] > low[i] else low[i]


@kernel
def _largest_low(slope, signs, value, error, least, side, out):
    """The largest of the lower ends of all bounds that are certain to be on a side, 1 or -1."""
    n = slope.size
    for i in range(n):
        out[i] = value[i] - error[i] if side * signs[i] * slope[i] > least else -HUGE
    _fold(out[:n], BLOCK)
    top = -HUGE
    for i in range(min(n, BLOCK)):
        top = max(top, out[i])
    return top


@kernel
def _list_tight(t, unit, single, who, where, n):
    """List those of the first n of some points whose bounds may be the tightest, or whose side is not certain."""
    least = _bound_all(t, unit, single, where, n)
    slope, signs, value, error = single[SLOPES, :n], single[SIGNS], single[VALUES], single[ERRORS]
    beyond = single[FOLDED, :n]
    lower = _largest_low(slope, signs, value, error, least, ONE, beyond)
    upper = _largest_low(slope, signs, value, error, least, -ONE, beyond)
    for i in range(n):
        x = value[i] + error[i] - (lower if signs[i] * slope[i] > 0 else upper)
        beyond[i] = -ONE if (x < 0) & (abs(slope[i]) > least) else ONE
    _fold(beyond, BLOCK)
    t.tally[N_LISTED] = 0
    for first in range(min(n, BLOCK)):
        if beyond[first] > 0:
            for i in range(first, n, BLOCK):
                loose = value[i] + error[i] - (lower if signs[i] * slope[i] > 0 else upper) < 0
                if not (loose and abs(slope[i]) > least) and t.members[SLOT, who[i]] < 0:
                    _list(t, 2 * who[i] + (0 if t.state[who[i]] == OUTSIDE else 1))


BLOCK = 64
"""Points that are looked at together."""


@kernel
def _tighter_dd(t, code, other, lower):
    """Is the bound of one point tighter than that of another on the same side? 1, 0 or UNKNOWN."""
    s, sl, es, c, cl, ec = pencil_dd(t, code >> 1)
    s2, s2l, es2, c2, c2l, ec2 = pencil_dd(t, other >> 1)
    x, _, error = minor_dd(c, cl, c2, c2l, s, sl, s2, s2l, ec, ec2, es, es2)
    if not abs(x) > error:
        return UNKNOWN
    t.tally[N_REFINED] += 1
    larger = (x > 0) == ((s > 0) == (s2 > 0))  # c/s - c2/s2 has the sign of (c s2 - c2 s) s s2
    return 1 if larger == lower else 0


@kernel
def _tightest_dd(t):
    """Choose among the listed points in double-double; False where that cannot be decided."""
    best = t.counts[PENCIL:]
    best[0], best[1] = -1, -1
    if t.counts[REFINED] != 1:
        return False
    reach = 0.0
    for step in range(2):  # first the points with a certain side, then the others against what these allow
        for n in range(t.tally[N_LISTED]):
            code = t.listed[n]
            s, _, es, c, _, ec = pencil_dd(t, code >> 1)
            if abs(s) > es:
                side = 0 if (s > 0) == (code & 1 == 0) else 1
                tighter = 1
                if step == 0 and best[side] >= 0:
                    tighter = _tighter_dd(t, code, best[side], side == 0)
                if step == 0 and tighter == 1:
                    best[side] = code
                if tighter == UNKNOWN:
                    return False
                if step == 1 and code == best[side]:
                    reach = max(reach, 1.01 * (abs(c) + ec) / (abs(s) - es))
    if best[0] < 0 or best[1] < 0:
        reach = np.inf
    for n in range(t.tally[N_LISTED]):
        s, _, es, c, _, ec = pencil_dd(t, t.listed[n] >> 1)
        if not abs(s) > es and not reach * (abs(s) + es) < abs(c) - ec:
            return False
    return True


@kernel
def _drop_spanned(t):
    """Leave out listed points whose rows lie in the span of M: s_i is zero. False if it is not known which these are."""
    size, count = t.counts[SIZE], t.tally[N_LISTED]
    vector = t.residue[t.residue.shape[0] - 1]
    if not normal_to(t.rows, t.members[MEMBER, :size], t.residue, t.pivot, vector):
        return False
    kept = 0
    for n in range(count):
        if not is_spanned(t, t.listed[n] >> 1):
            t.listed[kept] = t.listed[n]
            kept += 1
    t.tally[N_LISTED] = kept
    t.tally[N_ZERO] += count - kept
    return True


@kernel
def _all_spanned(t):
    """Whether the rows of all points of I lie in the span of M, after ``_drop_spanned``: then D is zero."""
    count = 0
    for i in range(t.state.size):
        if t.state[i] == INSIDE:
            count += 1
            if not is_spanned(t, i):
                return False
            t.tally[N_ZERO] += 1
    return count == t.counts[N_PULL] + t.counts[N_PULL + 1]  # else some are not candidates


CROWDED = 32
"""So many points whose bounds single precision does not tell apart: most of them are then in the span of M."""


@kernel
def _reduce_pencil(t):
    """Find the at most two score lines of the pencil that can be edges."""
    if _pencil_answered(t):
        return CLOSED
    flat = _is_flat(t)
    if flat == 1:
        return CLOSED
    if t.counts[AROUND] == 1:
        _list_tight(t, t.home_unit, t.home_single, t.who, t.where, t.counts[N_HOME])
    else:
        sign_points(t)
        _list_tight(t, t.unit, t.single, t.everyone, t.everyone, t.state.size)
    dropped = t.tally[N_LISTED] > CROWDED and _drop_spanned(t)
    for level in range(2 if t.counts[REFINED] == 1 else 1):
        n_lower, n_upper, n_unsure = _narrow(t, level == 1)
    if (flat == UNKNOWN or n_unsure > 0) and t.tally[N_LISTED] > 0 and (dropped or _drop_spanned(t)):
        if flat == UNKNOWN and _all_spanned(t):
            return CLOSED
        if not dropped:
            n_lower, n_upper, n_unsure = _narrow(t, t.counts[REFINED] == 1)
    if t.tally[N_LISTED] == 0:  # nor does it matter if D is zero
        return CLOSED
    if flat == 0 and n_unsure == 0 and n_lower <= 1 and n_upper <= 1:
        for n in range(t.tally[N_LISTED]):
            i = t.listed[n] >> 1
            t.counts[PENCIL + (0 if t.score[P, i] > 0 else 1)] = t.listed[n]
        return CLOSED
    if flat == 0 and _tightest_dd(t):
        return CLOSED
    for n in range(t.tally[N_LISTED]):
        _ask(t, ASK_PENCIL, t.listed[n], t.listed[n], t.listed[n])
    return ASKING


# ----------------------------------------------------------------------------------------------------------------------
# A facet


@kernel
def _start(t):
    """The whole region as first polygon."""
    n = t.sides.shape[0]
    for j in range(n):
        t.edge[0, CODE, j] = -1 - j
        t.edge[0, CHECKED, j], t.edge[0, HINT, j] = 0, -1
        for c in range(3):
            t.corner[0, j, c] = t.corners[j, c]
            t.corner[0, j, 3 + c] = 0.0
    t.tally[N_CORNERS] = n


@kernel
def path_of(hints, edges, which):
    """The edges of the known corners in order, and the corners at their ends, if they are in one row or two.

    Returns the number of edges; where the first row ends, if there are two, else 0; and whether the one row is all around.
    """
    count, first, second = 0, -1, -1
    for k in range(hints.shape[0]):
        if hints[k, 0] == hints[k, 1]:
            continue
        count += 1
        follows = False
        for n in range(hints.shape[0]):
            follows = follows or (hints[n, 1] == hints[k, 0] and hints[n, 0] != hints[n, 1])
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
            while k < hints.shape[0] and hints[k, 0] == hints[k, 1]:
                k += 1
            if k == hints.shape[0]:
                return 0, 0, False
        while k >= 0 and count > 0:
            count -= 1
            edges[n], which[n] = hints[k, 0], k
            n += 1
            wanted, last = hints[k, 1], k
            k = -1
            for other in range(hints.shape[0]):
                if hints[other, 0] == wanted and hints[other, 1] != wanted:
                    k = other
            if k < 0:
                edges[n], which[n] = hints[last, 1], -1
                n += 1
                if row == 0 and second >= 0:
                    middle = n
    return n, middle, closed


@kernel
def _start_from(t, hints):
    """The polygon of the edges of known corners, if these are one row of edges or two, whose ends meet well in the region."""
    path = t.edge[1, CODE]
    n, middle, closed = path_of(hints, path, t.edge[1, SIGN])
    if n < 3:
        return False
    sides, v = t.sides, t.corners[0]
    turn = sides[0, 1] * sides[1, 2] * v[0] + sides[0, 2] * sides[1, 0] * v[1] + sides[0, 0] * sides[1, 1] * v[2]
    turn -= sides[0, 2] * sides[1, 1] * v[0] + sides[0, 0] * sides[1, 2] * v[1] + sides[0, 1] * sides[1, 0] * v[2]
    way = 1 if turn > 0.0 else -1  # of the sides of the region
    for j in range(n):
        a, b = path[j], path[j + 1 if j + 1 < n else 0]
        if a ^ b == 1 or max(a, b) < 0:  # two bounds that meet on an axis, or a corner of the region
            return False
        if make_corner(t, j, a, b) != way or not t.corner[1, j, 3 + _top(t.corner[1, j])] < 0.5:  # of the largest entry, 1
            return False
    if not closed and not (_is_within(t, n, n - 1) and (middle == 0 or _is_within(t, n, middle - 1))):
        return False
    _turn_over(t, n)
    return True


@kernel
def _is_within(t, n, j):
    """Is corner j of the new polygon, of n edges, certainly on the good side of all other edges, and within the region?"""
    path, v = t.edge[1, CODE], t.corner[1, j]
    a, b = path[j], path[j + 1 if j + 1 < n else 0]
    for k in range(n + t.sides.shape[0]):
        code = path[k] if k < n else -1 - (k - n)
        if code == a or code == b:
            continue
        h0, h1, h2, e0, e1, e2 = line(t, code)
        s, bound, _ = _value(h0, h1, h2, e0, e1, e2, v)
        if not s > bound:
            return False
    return True


@kernel
def _top(v):
    """Which of the entries of a corner is the largest."""
    return (P if v[0] >= v[2] else L) if v[0] >= v[1] else (Q if v[1] >= v[2] else L)


@kernel
def _is_edge(t, k):
    for j in range(t.tally[N_CORNERS]):
        if t.edge[0, CODE, j] == k:
            return True
    return False


@kernel
def _mark(t, hints):
    """Mark the corners that are known vertices: these satisfy all lines, and another facet may know them better."""
    n = t.tally[N_CORNERS]
    for j in range(n):
        a, b = t.edge[0, CODE, j], t.edge[0, CODE, j + 1 if j + 1 < n else 0]
        for k in range(hints.shape[0]):
            if hints[k, 0] == a and hints[k, 1] == b:
                t.edge[0, CHECKED, j], t.edge[0, HINT, j] = 1, k
                if hints[k, 2] >= 0 and t.counts[REFINED] == 0 and is_coarse(t.corner[0, j]):
                    t.edge[0, CHECKED, j] = _take_over(t.known[hints[k, 2]], t.corner[0, j])


@kernel
def _take_over(known, corner):
    """The same corner as another facet knows it, which is not coarse: TAKEN, if both know the same entries to be zero."""
    for c in range(3):
        if (known[c] == 0.0) != (corner[c] == 0.0):
            return 1
    for c in range(3):
        corner[c], corner[3 + c] = known[c], COARSE * known[c]
    return TAKEN


TAKEN, CLEAR = 2, 3
"""In place of 1 for CHECKED: the corner is that of another facet; no score is close to its line there."""


@kernel
def _leans_on_others(t):
    """Is the facet thin, so that it has to be told whether it is a tie, and not all of its corners its own?"""
    for j in range(t.tally[N_CORNERS]):
        if t.edge[0, CHECKED, j] == TAKEN:
            return is_suspect(t.corner[0], t.tally[N_CORNERS], THIN)
    return False


@kernel
def _pencil_known(t, hints):
    """Are both lines of the pencil among the known edges?"""
    first, second = NONE, NONE
    for n in range(2 * hints.shape[0]):
        k = hints[n >> 1, n & 1]
        if k >= 0 and t.members[SLOT, k >> 1] < 0 and k != first:
            first, second = k, first
    if second == NONE:
        return False
    t.counts[PENCIL], t.counts[PENCIL + 1] = first, second
    return True


ALL, ONLY_NEAR = np.arange(2)
"""Points that a pencil is chosen from."""


@kernel
def _all_at_home(t, hints):
    """Are all known corners near home?"""
    for k in range(hints.shape[0] if t.counts[AT_HOME] == 1 else 0):
        if hints[k, 2] >= 0:
            v = t.known[hints[k, 2]]
            weights_at(t, v[0], v[1], v[2])
            if not _is_at_home(t, v[2], 0.0):
                return False
    return t.counts[AT_HOME] == 1


@kernel
def _is_near(t):
    """Are all points that the pencil was not chosen from certainly on their side at all corners?"""
    for j in range(t.tally[N_CORNERS] if t.counts[AROUND] == 1 else 0):
        v = t.corner[0, j]
        per_norm, fixed = _score_error(t, v)
        weights_at(t, v[0], v[1], v[2])
        if not _is_at_home(t, v[2], per_norm + fixed / t.shortest):
            return False
    return True


@kernel
def find_pencil(t, hints, near):
    """Tabulate the lines of the pencil, which are looked for once in a facet; False if that takes exact arithmetic.

    ``near``: ONLY_NEAR if it is enough to look among the points that are near the known corners, else ALL.
    """
    if t.counts[REDUCED] != t.counts[FILLED]:
        t.counts[AROUND] = 0
        if not _pencil_known(t, hints):
            if near == ONLY_NEAR and not _pencil_answered(t):
                t.counts[AROUND] = _all_at_home(t, hints)
            outcome = _reduce_pencil(t)
            if outcome == ASKING and t.counts[AROUND] == 1:  # answers are to hold for all points
                t.counts[AROUND], t.tally[N_ASKED] = 0, 0
                outcome = _reduce_pencil(t)
            if outcome == ASKING:
                return False
        t.counts[REDUCED] = t.counts[FILLED]
    for side in range(2):
        if t.counts[PENCIL + side] >= 0:
            tabulate_pencil(t, side)
    return True


@kernel
def _attempt(t, hints):
    """Close the facet with the precision that its maps have."""
    outcome = _attempt_with(t, hints, ONLY_NEAR)
    if outcome == CLOSED and t.counts[SIZE] == t.rank - 1 and not _is_near(t):
        t.counts[REDUCED] = 0
        t.counts[PENCIL : PENCIL + 2] = -1
        outcome = _attempt_with(t, hints, ALL)
    return outcome


@kernel
def _attempt_with(t, hints, near):
    """The same with the pencil chosen from all points, or those near the known corners."""
    t.tally[N_ASKED] = 0
    if t.counts[SIZE] == t.rank - 1 and not find_pencil(t, hints, near):
        return ASKING
    if not _start_from(t, hints):
        _start(t)
    for n in range(2 * hints.shape[0]):
        k = hints[n >> 1, n & 1]
        if k >= 0 and not _is_edge(t, k):
            outcome = _clip(t, k)
            if outcome != CLOSED:
                return outcome
    _mark(t, hints)
    clips, j = 0, np.int64(0)
    while j < t.tally[N_CORNERS]:
        k = NONE if t.edge[0, CHECKED, j] != 0 else check_corner(t, j)
        if k == NONE:
            j += 1
            continue
        j = 0
        clips += 1
        if clips > 2 * t.edge.shape[2]:  # each line cuts once: overflow has made nonsense of the numbers
            return BROKEN
        outcome = ASKING if k == ASK else _clip(t, k)
        if outcome != CLOSED:
            return outcome
    return CLOSED


@kernel
def has_coarse(t):
    """Is a corner of the polygon known too badly?"""
    for j in range(t.tally[N_CORNERS]):
        if is_coarse(t.corner[0, j]):
            return True
    return False


@kernel
def _sharpen(t):
    """Coarse corners, and those of others, anew from the refined maps. What is zero stays so: it may be of a side cut off."""
    n = t.tally[N_CORNERS]
    for j in range(n):
        old, new = t.corner[0, j], t.corner[1, j]
        if is_coarse(old) or t.edge[0, CHECKED, j] == TAKEN:
            make_corner(t, j, t.edge[0, CODE, j], t.edge[0, CODE, j + 1 if j + 1 < n else 0])
            for c in range(3):
                if old[c] != 0.0:
                    old[c], old[3 + c] = new[c], new[3 + c]


@kernel
def _sharpen_tied(t):
    """Corners that are coarse even so, from what is left of their entries without coefficients of the jitter that are zero."""
    n = t.tally[N_CORNERS]
    for j in range(n):
        if is_coarse(t.corner[0, j]) and solve_words(t):
            _make_tied(t, j, t.edge[0, CODE, j], t.edge[0, CODE, j + 1 if j + 1 < n else 0])


@kernel
def _make_tied(t, j, a, b):
    """The same for corner j. What double-double knows better stays, if both agree on the largest entry."""
    old, new = t.corner[0, j], t.corner[1, j]
    enter_corner(t, a, b)
    x, ex = entry_of_corner(t.parts[2], P)
    y, ey = entry_of_corner(t.parts[2], Q)
    z, ez = entry_of_corner(t.parts[2], L)
    for c, e in ((P, ex), (Q, ey), (L, ez)):
        if e == 0.0 and old[c] != 0.0:  # a zero, but not one by structure
            return
    _store_corner(new, x, y, z, ex, ey, ez)
    top = _top(new)
    if not new[3 + top] < 0.5:  # of the largest entry, 1
        return
    mixed = _top(old) == top and new[3 + top] + old[3 + top] < 0.25 * COARSE
    for c in range(3):
        if not mixed or new[3 + c] * old[c] < old[3 + c] * new[c]:
            old[c], old[3 + c] = new[c], new[3 + c]


@kernel
def close_facet(t, hints):
    """CH of the paper: the polygon of one partition into ``t``. Returns the outcome.

    ``hints`` (n, 3) are known corners as pairs of codes, or known edges (code, code): clipped first, and not checked again;
    and their places in ``known``, or -1.
    """
    if not solve_maps(t):
        return BROKEN
    tabulate_margin(t)
    if t.counts[SIZE] < t.rank:
        _settle(t, hints)
    outcome = _attempt(t, hints)
    if t.counts[REFINED] != 0:
        return outcome
    if outcome != ASKING and (outcome != CLOSED or not (has_coarse(t) or _leans_on_others(t))):
        return outcome
    refine(t)
    t.tally[CROSS] = NO_CODE
    if outcome == ASKING:
        outcome = _attempt(t, hints)
    else:
        _sharpen(t)
    if outcome == CLOSED and t.counts[REFINED] == 1:
        _sharpen_tied(t)
    return outcome


@kernel
def trace_facet(t, n):
    """The polygon of one partition whose n edges are in ``t``, in order, by double-double; False if that fails."""
    if not solve_maps(t):
        return False
    tabulate_margin(t)
    if t.counts[REFINED] == 0:
        refine(t)
    t.tally[CROSS], t.tally[N_CORNERS] = NO_CODE, n
    for j in range(n):
        make_corner(t, j, t.edge[0, CODE, j], t.edge[0, CODE, j + 1 if j + 1 < n else 0])
        for c in range(6):
            t.corner[0, j, c] = t.corner[1, j, c]
    return t.counts[REFINED] == 1


# ----------------------------------------------------------------------------------------------------------------------
# Ties: facets that the jitter made


@kernel
def is_crowded(t, j):
    """May more points be on the margin at corner j than those of M and of its two edges?"""
    if t.edge[0, CHECKED, j] == CLEAR:
        return False
    v, n, wanted = t.corner[0, j], t.tally[N_CORNERS], t.counts[SIZE]
    for code in (t.edge[0, CODE, j], t.edge[0, CODE, j + 1 if j + 1 < n else 0]):
        wanted += code >= 0 and t.members[SLOT, code >> 1] < 0
    per_norm, fixed = _score_error(t, v)
    weights_at(t, v[0], v[1], v[2])
    if _is_at_home(t, v[2], per_norm + fixed / t.shortest):
        return _count_on_margin(t, t.home_unit, t.home_single, t.counts[N_HOME], v[2], per_norm, fixed) > wanted
    return _count_on_margin(t, t.unit, t.single, t.state.size, v[2], per_norm, fixed) > wanted


@kernel
def _count_on_margin(t, unit, single, n, l, per_norm, fixed):
    """How many of the first n of some points may have the score 1, in single precision, with the weights in hand."""
    cosine, inverse = single[COSINES, :n], single[PER_NORM]
    length = cosines(t, unit, t.column[SCRATCH, 0], cosine)
    if not per_norm < length:
        return n
    target, a, b = _margin_in_single(t, l, length, per_norm, fixed)
    count = np.int32(0)
    for i in range(n):
        count = np.int32(count + (not abs(cosine[i] - target * inverse[i]) > a + b * inverse[i]))
    return count


@kernel
def is_far(corner, n):
    """Is a polygon of n corners wholly within THIN of infinity or of an axis?"""
    p, q, l = 0.0, 0.0, 0.0
    for j in range(n):
        p, q, l = max(p, corner[j, P]), max(q, corner[j, Q]), max(l, corner[j, L])
    return min(p, q, l) < THIN


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
    area, diameter, extent, length = 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        a0, a1, a2 = corner[i, 0], corner[i, 1], corner[i, 2]
        for j in range(n):
            k = j + 1 if j + 1 < n else 0
            b0, b1, b2 = corner[j, 0], corner[j, 1], corner[j, 2]
            c0, c1, c2 = corner[k, 0], corner[k, 1], corner[k, 2]
            det = a0 * (b1 * c2 - b2 * c1) + a1 * (b2 * c0 - b0 * c2) + a2 * (b0 * c1 - b1 * c0)
            size = a0 * (b1 * c2 + b2 * c1) + a1 * (b2 * c0 + b0 * c2) + a2 * (b0 * c1 + b1 * c0)
            if abs(det) > area * size:
                area = abs(det) / size
            extent = max(extent, abs(det))
        if extent > 24.0 * thin:  # it is not thin, for sizes are at most 6, and too large to be short
            return False
    for i in range(n):
        a0, a1, a2 = corner[i, 0], corner[i, 1], corner[i, 2]
        for j in range(i):
            b0, b1, b2 = corner[j, 0], corner[j, 1], corner[j, 2]
            diameter = max(diameter, _difference(a1 * b2, a2 * b1))
            diameter = max(diameter, _difference(a2 * b0, a0 * b2), _difference(a0 * b1, a1 * b0))
            length = max(length, abs(a1 * b2 - a2 * b1), abs(a2 * b0 - a0 * b2), abs(a0 * b1 - a1 * b0))
    return area < thin * diameter or diameter < thin or extent < thin * length


@kernel
def measure_corners(t, less):
    """The corners of the same edges with that much less jitter, in double-double, into corner[1]: hi and lo."""
    n = t.tally[N_CORNERS]
    sway = t.column[SCRATCH, 0]
    for j in range(n):
        line_dd(t, t.edge[0, CODE, j], t.exact[j])
        line_sway(t, t.edge[0, CODE, j], sway)
        for c in range(3):
            t.exact[j, c], t.exact[j, 3 + c] = dd_add(t.exact[j, c], t.exact[j, 3 + c], -less * sway[c], 0.0)
    for j in range(n):
        a, b, v = t.exact[j], t.exact[j + 1 if j + 1 < n else 0], t.corner[1, j]
        top = 0.0
        for c in range(3):
            p, q = (c + 1) % 3, (c + 2) % 3
            v[c], v[3 + c], _ = minor_dd(a[p], a[3 + p], a[q], a[3 + q], b[p], b[3 + p], b[q], b[3 + q], 0.0, 0.0, 0.0, 0.0)
            top = v[c] if abs(v[c]) > abs(top) else top
        for c in range(3):
            v[c], v[3 + c] = dd_mul(v[c], v[3 + c], 1.0 / top, 0.0)


@kernel
def _measure(t):
    """Diameter (sine of an angle of homogeneous costs) and area of the polygon in corner[1], whichever corner is the first.

    The area is that of the largest triangle of an edge and a corner: with less jitter edges may cross, and what a sum of
    triangles is then depends on where it begins.
    """
    n, corner = t.tally[N_CORNERS], t.corner[1]
    diameter, area = 0.0, 0.0
    for i in range(n):
        for j in range(n):
            a, b, d = corner[i], corner[j], corner[j + 1 if j + 1 < n else 0]
            square, det, det_lo = 0.0, 0.0, 0.0
            for c in range(3):
                p, q = (c + 1) % 3, (c + 2) % 3
                x, x_lo, _ = minor_dd(a[p], a[3 + p], a[q], a[3 + q], b[p], b[3 + p], b[q], b[3 + q], 0.0, 0.0, 0.0, 0.0)
                square += x * x
                y, y_lo = dd_mul(x, x_lo, d[c], d[3 + c])
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
def _is_between_tied(t):
    """Is an anchored facet a strip between two tied lines, or bounded by them all around? Then it scales with the jitter."""
    if t.counts[SIZE] == t.rank - 1:
        return is_anchored(t, t.counts[PENCIL]) and is_anchored(t, t.counts[PENCIL + 1])
    for j in range(t.tally[N_CORNERS]):
        if not is_anchored(t, t.edge[0, CODE, j]):
            return False
    return True


@kernel
def is_steep(t):
    """Is D of the pencil (|M| = r - 1) certainly not zero without jitter? Then a strip between tied lines is a tie.

    Not asked of wide strips, nor where double-double cannot tell corners without jitter: there the jitter is seen.
    """
    if t.counts[SIZE] != t.rank - 1 or not is_suspect(t.corner[0], t.tally[N_CORNERS], WIDE):
        return False
    if t.counts[REFINED] == 0:
        refine(t)
    if t.counts[REFINED] != 1:
        return False
    for c in range(2):
        d, error = slope(t, c)
        if abs(d) > error + STEEP * length_of_sway(t, c) / t.bound[LENGTH, U]:
            return True
    return False


WIDE = 2.0**-21
"""Relative width of strips beyond which the jitter is seen: corners without it are looked for within 1e-6 (ties.py)."""

STEEP = 2.0**10
"""Slopes that are at most this many times what the jitter may have made of them are taken for zero."""


@kernel
def is_tie(t):
    """Does the facet just closed owe its extent to the jitter: 1 or 0, or UNKNOWN if only exact arithmetic can tell?"""
    suspect = is_suspect(t.corner[0], t.tally[N_CORNERS], THIN)
    if t.counts[ANCHOR] >= 0 and _is_between_tied(t) and (suspect or is_steep(t)):
        return 1
    if not suspect:
        return 0
    if vanishes(t):
        t.tally[N_ZERO] += 1
        return 1
    if t.counts[REFINED] == 0:
        refine(t)
    return shrinks(t) if t.counts[REFINED] == 1 else UNKNOWN


@kernel
def shrinks(t):
    """Does the polygon in hand, with refined maps, shrink with the jitter: 1 or 0, or UNKNOWN?"""
    solve_sway(t)
    measure_corners(t, 0.0)
    diameter, area = _measure(t)
    measure_corners(t, 1.0 - TIE_SHRINK)
    less, lesser = _measure(t)
    if TIE_CLEAR * less <= TIE_LOSS * diameter:
        return 1
    if area < TIE_RESOLVED * _largest_term(t.corner[0], t.tally[N_CORNERS]):
        return UNKNOWN
    if TIE_CLEAR * lesser <= TIE_LOSS * area:
        return 1
    return 0 if less > TIE_CLEAR * TIE_LOSS * diameter and lesser > TIE_CLEAR * TIE_LOSS * area else UNKNOWN
