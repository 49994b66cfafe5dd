"""The one predicate of the polygon: on which side of line k lies the corner of edges a and b? Its sign is never wrong.

It is the sign of h_k . (h_a x h_b), by the first of these levels that decides it:

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
from svmatlas.engine.lines import anchored_line, is_anchored, line, line_dd
from svmatlas.engine.workspace import L, P, Q
from svmatlas.engine.zeros import UNKNOWN, sign_of_jitter

ASK_SIGN, ASK_PENCIL = np.arange(2)
"""Kinds of questions: the sign above, of edges a and b and line k; the tightest lines of a pencil, with one question for each
candidate. The one answer to the latter has the tightest lines in place of the edges."""

TINY = 1e-300
"""In place of an entry of a corner that rounding made zero or negative: all costs are positive where they are not zero."""

NO_CODE = -(2**40)
"""A code that no line has."""

FIRST, SECOND = np.arange(2)
"""The first corner, line or number, and the second (NumPy integers: see the columns in workspace.py)."""


@kernel
def is_parallel(t, code):
    """Does a line pass through the end of the pencil: a score line of it, or the line at infinity?"""
    if code < 0:
        return t.region.axis[-1 - code] == L
    return t.facet.n_margin == t.data.rank - 1 and t.factor.slot[code >> 1] < 0


@kernel
def structural_points(t, code):
    """The structural points that a line passes through: bits 0-2 corners of the triangle, bit 3 the end of the pencil."""
    h0, h1, h2, e0, e1, e2 = line(t, code)
    bits = 0
    if h0 == 0.0 and e0 == 0.0:
        bits |= 1
    if h1 == 0.0 and e1 == 0.0:
        bits |= 2
    if h2 == 0.0 and e2 == 0.0:
        bits |= 4
    if is_parallel(t, code):
        bits |= 8
    return bits


@kernel
def _on_axis(t, a, b, side):
    """Do a and b bound the same alpha, and is the side the axis where both bounds meet?"""
    if a < 0 or b < 0 or side >= 0 or a ^ b != 1 or t.factor.slot[a >> 1] < 0:
        return False
    return t.region.axis[-1 - side] == t.data.axis[a >> 1]


@kernel
def _meet(t, k, a, b):
    """Do three lines meet by structure?"""
    if structural_points(t, k) & structural_points(t, a) & structural_points(t, b) != 0:
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
def cross_entry_dd(a, i, b, j, c):
    """Entry c of the cross product of vector i of some in double-double and vector j of others, with its error."""
    p, q = (c + 1) % 3, (c + 2) % 3
    return minor_dd(
        a.high[i, p], a.low[i, p], a.high[i, q], a.low[i, q], b.high[j, p], b.low[j, p], b.high[j, q], b.low[j, q],
        a.error[i, p], a.error[i, q], b.error[j, p], b.error[j, q],
    )  # fmt: skip


@kernel
def cross_dd(t, a, b):
    """h_a x h_b in double-double, turned into the triangle, into ``cross``, unless it is there already.

    Returns whether its direction is certain.
    """
    high, low, error, pair = t.lines.cross.high, t.lines.cross.low, t.lines.cross.error, t.lines.pair
    if t.polygon.crossed[0] != a or t.polygon.crossed[1] != b:
        line_dd(t, a, pair.high[0], pair.low[0], pair.error[0])
        line_dd(t, b, pair.high[1], pair.low[1], pair.error[1])
        for c in range(3):
            high[c], low[c], error[c] = cross_entry_dd(pair, FIRST, pair, SECOND, c)
        if is_parallel(t, a) and is_parallel(t, b):
            high[L], low[L], error[L] = 0.0, 0.0, 0.0
        t.polygon.crossed[0], t.polygon.crossed[1] = a, b
    top = 0
    for c in range(1, 3):
        if abs(high[c]) > abs(high[top]):
            top = c
    if high[top] < 0.0:
        for c in range(3):
            high[c], low[c] = -high[c], -low[c]
    return abs(high[top]) > error[top]


@kernel
def _sign_dd(t, k, a, b):
    """Level 3, then the answers of level 5. Before the maps are refined: UNKNOWN."""
    if t.facet.refined == 0:
        return UNKNOWN
    if t.facet.refined == 1:
        sure = cross_dd(t, a, b)
        v, w, d = t.lines.cross.high, t.lines.cross.low, t.lines.cross.error
        h, g, e = t.lines.pair.high[0], t.lines.pair.low[0], t.lines.pair.error[0]
        line_dd(t, k, h, g, e)
        s, sl, bound = 0.0, 0.0, 0.0
        for c in range(3):
            p, pl = dd_mul(v[c], w[c], h[c], g[c])
            s, sl = dd_add(s, sl, p, pl)
            bound += abs(h[c]) * d[c] + e[c] * (abs(v[c]) + d[c]) + 8.0 * UNIT_DD * abs(p)
        if sure and abs(s) > bound:
            t.polygon.n_refined += 1
            return 1 if s > 0 else -1
    for n in range(t.answers.size):
        asked = t.answers[n]
        edges = (asked.first == a and asked.second == b) or (asked.first == b and asked.second == a)
        if asked.kind == ASK_SIGN and asked.line == k and edges:
            return asked.answer
    return UNKNOWN


@kernel
def _is_strip(t, k, a, b):
    """Is one of a and b the other side of the strip that k bounds? No facet is empty: k is positive there but at infinity."""
    lower, upper = t.facet.pencil[0], t.facet.pencil[1]
    if lower < 0 or upper < 0:
        return False
    return (k == lower and (a == upper or b == upper)) or (k == upper and (a == lower or b == lower))


@kernel
def cross_anchored(t, a, b):
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
    v0, v1, v2, d0, d1, d2 = cross_anchored(t, a, b)
    h0, h1, h2, e0, e1, e2 = anchored_line(t, k)
    size = abs(h0 * v0) + abs(h1 * v1) + abs(h2) * v2
    bound = abs(h0) * d0 + e0 * (abs(v0) + d0) + abs(h1) * d1 + e1 * (abs(v1) + d1)
    bound += abs(h2) * d2 + e2 * (v2 + d2) + 4.0 * UNIT * size
    s = h0 * v0 + h1 * v1 + h2 * v2
    if not abs(s) > bound:
        return UNKNOWN
    return 1 if s > 0 else -1


@kernel
def ask(t, question, a, b, k):
    """Put a question for exact arithmetic on the list."""
    n = t.polygon.n_asked
    if n < t.lines.asked.size:
        asked = t.lines.asked[n]
        asked.kind, asked.first, asked.second, asked.line = question, a, b, k
        t.polygon.n_asked += 1


@kernel
def value_at_corner(h0, h1, h2, e0, e1, e2, v, d):
    """Level 2: the value of a line at a corner v with errors d, its error bound, and the size of its terms."""
    v0, v1, v2, d0, d1, d2 = v[P], v[Q], v[L], d[P], d[Q], d[L]
    size = abs(h0) * v0 + abs(h1) * v1 + abs(h2) * v2
    bound = abs(h0) * d0 + e0 * (v0 + d0) + abs(h1) * d1 + e1 * (v1 + d1)
    bound += abs(h2) * d2 + e2 * (v2 + d2) + 4.0 * UNIT * size
    return h0 * v0 + h1 * v1 + h2 * v2, bound, size


@kernel
def sign_at_corner(t, k, j):
    """Sign of line k at corner j where doubles do not tell: all other levels. UNKNOWN puts the question on the list."""
    n = t.polygon.n_corners
    a, b = t.edges.code[j], t.edges.code[j + 1 if j + 1 < n else 0]
    if k == a or k == b or _meet(t, k, a, b):
        return 0
    if t.edges.corner[j, L] > t.edges.corner_error[j, L] and _is_strip(t, k, a, b):
        return 1
    sign = UNKNOWN
    if t.facet.n_margin < t.data.rank - 1 and is_anchored(t, k) and is_anchored(t, a) and is_anchored(t, b):
        sign = _sign_anchored(t, k, a, b)
    if sign == UNKNOWN:
        sign = _sign_dd(t, k, a, b)
    if sign == UNKNOWN:
        sign = sign_of_jitter(t, k, a, b)
    if sign == UNKNOWN:
        ask(t, ASK_SIGN, a, b, k)
    return sign
