"""Does a corner satisfy all lines? If not, which does it violate most?

Score lines are filtered in single precision first, then in doubles with error bounds; what both leave open is listed and
decided by the predicate.
"""

from __future__ import annotations

import numpy as np

from svmatlas.engine.compiled import kernel, kernel_shared
from svmatlas.engine.doubledouble import UNIT
from svmatlas.engine.facet import sign_points
from svmatlas.engine.lines import is_anchored, table_row
from svmatlas.engine.neighbourhood import GROWN, UNIT_32, is_in_ball
from svmatlas.engine.predicates import cross_anchored, sign_at_corner, structural_points, value_at_corner
from svmatlas.engine.scores import MARGIN_WIDTH, cosines, is_near_margin, score_all, score_one, score_tied, weights_at
from svmatlas.engine.workspace import OUTSIDE, L, P, Q
from svmatlas.engine.zeros import UNKNOWN, enter_corner, enter_weights, sign_of_score, solve_words

NONE, ASK, ALL_CLEAR = -1, -2, -3
"""Answers of a check that names no line: the corner is good; it has questions; it is good, and no score is near the margin but
those of M and of its two edges. (Sides are never named.)"""


@kernel
def list_line(t, code):
    """Put a line on the list of those to be looked at again."""
    t.lines.listed[t.polygon.n_listed] = code
    t.polygon.n_listed += 1


@kernel
def _weigh(t, code, value, bound, size, worst, least):
    """List a line that is not certainly positive, or if it is certainly negative take it if it is the worst, in its size."""
    if not value < -bound:
        list_line(t, code)
    elif value < least * size:
        return code, value / size
    return worst, least


@kernel
def _leave_out(t, j, where, signs, score):
    """Points whose lines are not to be checked at corner j: those of M, and those of its two edges."""
    n, member = t.polygon.n_corners, t.factor.member[: t.facet.n_margin]
    for k in range(member.size):
        place = where[member[k]]
        if 0 <= place < score.size:
            score[place] = np.inf
    for code in (t.edges.code[j], t.edges.code[j + 1 if j + 1 < n else 0]):
        place = where[code >> 1] if code >= 0 else -1
        if 0 <= place < score.size:
            score[place] = np.inf * signs[place]


@kernel
def score_error(t, v, d):
    """Error bound of scores at a corner v with errors d: a part for each unit of a row's length, and a fixed part."""
    tiny = (t.data.columns.shape[0] + 6) * UNIT
    per_norm = 0.0
    for c in range(3):
        size = t.maps.length[c]
        per_norm += (t.maps.eta[c] + tiny * size) * (v[c] + d[c]) + size * d[c]
    return per_norm, 8.0 * UNIT * v[L] + 2.0 * d[L]


@kernel
def _check_scores(t, j):
    """A score line that corner j violates, or NONE; undecided ones are listed."""
    v = t.edges.corner[j]
    per_norm, fixed = score_error(t, v, t.edges.corner_error[j])
    weights_at(t, v[0], v[1], v[2])
    if t.facet.anchor_axis >= 0:  # single precision would leave all tied points open
        return _check_doubles(t, j, per_norm, fixed)
    if is_in_ball(t, v[2], per_norm + fixed / t.shortest):
        return _check_singles(t, j, t.near, t.facet.n_near, per_norm, fixed)
    sign_points(t)
    return _check_singles(t, j, t.single, t.state.size, per_norm, fixed)


@kernel
def _check_singles(t, j, single, n, per_norm, fixed):
    """The line of the first n of some points that corner j violates most. Doubles are asked what single precision leaves open.

    With x = |x| e and beta = |beta| b the score is beyond its bound if e.b is by as much, divided by |x||beta|. That product
    of vectors of length 1 is good to d + 4 units; the bound adds its own rounding, and that of the difference.
    """
    cosine, signs, inverse = single.cosine[:n], single.sign, single.per_norm
    length = cosines(t, single, t.maps.weights, cosine)
    if not per_norm < length:  # all is open
        return _check_doubles(t, j, per_norm, fixed)
    _leave_out(t, j, single.slot, signs, cosine)
    v, jitter = t.edges.corner[j, 2], t.jitter
    target, a, b = margin_in_single(t, v, length, per_norm, fixed)
    surplus = single.folded[:n]
    short, beyond = _count_short(cosine, signs, inverse, target, a, b, surplus)
    if short == 0:
        return ALL_CLEAR
    if MANY * (short - beyond) > n:
        return _check_doubles(t, j, per_norm, fixed)
    worst, least, clear, reach = NONE, 0.0, True, MARGIN_WIDTH * length + per_norm
    for place in range(n):
        if surplus[place] > 0:
            continue
        s, bound = signs[place] * (cosine[place] - target * inverse[place]), a + b * inverse[place]
        i = single.points[place]
        code, norm = 2 * i + (0 if t.state[i] == OUTSIDE else 1), t.data.norm[i]
        if s < -bound:
            if s * length < least:
                worst, least = code, s * length
            continue
        score, limit = score_one(t, i), norm * per_norm + fixed
        value = signs[place] * (score - (v + jitter * t.data.target_jitter[i] * v))
        clear = clear and value > limit and not is_near_margin(t, i, score, v, reach)
        if not value > limit:
            worst, least = _weigh(t, code, value, limit, norm, worst, least)
    return ALL_CLEAR if worst == NONE and clear else worst


@kernel
def margin_in_single(t, l, length, per_norm, fixed):
    """Cosine of a point of length 1 on the margin, and its error: a fixed part, and a part for each unit of 1 / |x|."""
    a = np.float32(GROWN * ((t.data.columns.shape[0] + 8) * UNIT_32 + per_norm / length))
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
    state, norm, low = t.state, t.data.norm, t.data.target_jitter
    score, signs, target, jitter = t.lines.at_corner, t.single.sign, t.edges.corner[j, 2], t.jitter
    score_all(t, score)
    _leave_out(t, j, t.single.slot, signs, score)
    _resolve_tied(t, j, score)
    worst, least = NONE, 0.0
    for i in range(state.size):
        s = signs[i] * (score[i] - (target + jitter * low[i] * target))
        bound = norm[i] * per_norm + fixed
        if not s > bound:
            worst, least = _weigh(t, 2 * i + (0 if state[i] == OUTSIDE else 1), s, bound, norm[i], worst, least)
    return worst


@kernel
def _resolve_tied(t, j, score):
    """At a corner of two tied lines of an anchored facet: give tied points that doubles resolve there a score that says so."""
    n = t.polygon.n_corners
    a, b = t.edges.code[j], t.edges.code[j + 1 if j + 1 < n else 0]
    if not (is_anchored(t, a) and is_anchored(t, b)):
        return
    v0, v1, v2, d0, d1, d2 = cross_anchored(t, a, b)
    tiny = (t.data.columns.shape[0] + 6) * UNIT
    size_p, size_q, size_l = t.maps.length[P], t.maps.length[Q], t.facet.anchor_length
    per_norm = (t.maps.eta[P] + tiny * size_p) * (abs(v0) + d0) + size_p * d0
    per_norm += (t.maps.eta[Q] + tiny * size_q) * (abs(v1) + d1) + size_q * d1
    per_norm += (t.facet.anchor_eta + tiny * size_l) * (v2 + d2) + size_l * d2
    tied = t.lines.tied[: score.size]
    score_tied(t, v0, v1, v2, tied)
    axis, norm, low, anchor, v = t.data.axis, t.data.norm, t.data.target_jitter, t.facet.anchor_axis, t.edges.corner[j, 2]
    for i in range(score.size):
        s = tied[i] - low[i] * v2
        sure = (axis[i] == anchor) & (abs(s) > norm[i] * per_norm + abs(low[i]) * (d2 + 4.0 * UNIT * v2))
        # Far beyond all bounds, in the order of how far: the line violated most is still that
        score[i] = (score[i] if abs(score[i]) == np.inf else v + s * TOLD_APART) if sure else score[i]


TOLD_APART = 1e60
"""Factor on scores that are resolved: jitter, 1e-13 or less, becomes large against all bounds."""


@kernel
def _fill_surplus(t, first, end, v, d):
    """By how much lines of the table exceed their error bounds at a corner v with errors d, in a loop without branches."""
    table, error, out = t.lines.table, t.lines.table_error, t.lines.surplus[first:end]
    h0, h1, h2 = table[P, first:end], table[Q, first:end], table[L, first:end]
    e0, e1, e2 = error[P, first:end], error[Q, first:end], error[L, first:end]
    v0, v1, v2, d0, d1, d2, u = v[P], v[Q], v[L], d[P], d[Q], d[L], 4.0 * UNIT
    for k in range(out.size):
        bound = abs(h0[k]) * (d0 + u * v0) + abs(h1[k]) * (d1 + u * v1) + abs(h2[k]) * (d2 + u * v2)
        bound += e0[k] * (v0 + d0) + e1[k] * (v1 + d1) + e2[k] * (v2 + d2)
        out[k] = h0[k] * v0 + h1[k] * v1 + h2[k] * v2 - bound


@kernel
def _count_not_positive(values):
    """How many values are not positive; NaN counts."""
    count = 0
    for k in range(values.size):
        count += not values[k] > 0.0
    return count


@kernel
def _check_few(t, j):
    """The same for the lines of M and of the pencil, but for the two edges of the corner."""
    worst, least = NONE, 0.0
    table, error, n = t.lines.table, t.lines.table_error, t.polygon.n_corners
    v, d = t.edges.corner[j], t.edges.corner_error[j]
    last = table.shape[1] - 2
    for part in range(2):
        first = last - 2 * t.data.rows.shape[1] if part == 0 else last
        end = first + 2 * t.facet.n_margin if part == 0 else last + 2
        _fill_surplus(t, first, end, v, d)
        surplus = t.lines.surplus[first:end]
        for code in (t.edges.code[j], t.edges.code[j + 1 if j + 1 < n else 0]):
            row = table_row(t, code) - first
            if 0 <= row < surplus.size:
                surplus[row] = np.inf
        if _count_not_positive(surplus) == 0:
            continue
        for k in range(surplus.size):
            if surplus[k] > 0.0:
                continue
            code = 2 * t.factor.member[k >> 1] + (k & 1) if part == 0 else t.facet.pencil[k]
            h, e = table[:, first + k], error[:, first + k]
            s, bound, size = value_at_corner(h[P], h[Q], h[L], e[P], e[Q], e[L], v, d)
            if not s > bound and code >= 0:
                worst, least = _weigh(t, code, s, bound, size, worst, least)
    return worst


@kernel_shared
def check_corner(t, j):
    """The line by which to clip since corner j is beyond it; NONE if the corner is good; ASK if that is not known."""
    t.polygon.n_listed = 0
    worst = _check_few(t, j)
    if worst == NONE and t.facet.n_margin < t.data.rank - 1:
        worst = _check_scores(t, j)
    if worst != NONE and worst != ALL_CLEAR:
        return worst
    unknown, turn, error = False, UNKNOWN, np.inf
    many = t.polygon.n_listed > 4 and t.facet.n_margin < t.data.rank - 1
    a, b = t.edges.code[j], t.edges.code[j + 1 if j + 1 < t.polygon.n_corners else 0]
    ends = structural_points(t, a) & structural_points(t, b) if many else 0
    for n in range(t.polygon.n_listed):
        k, sign = t.lines.listed[n], UNKNOWN
        if many and t.factor.slot[k >> 1] < 0 and (ends == 0 or structural_points(t, k) & ends == 0):
            if turn == UNKNOWN:
                turn = enter_corner(t, a, b) if solve_words(t) else 0
                error = enter_weights(t) if turn != 0 else np.inf
            if turn != 0:
                sign = sign_of_score(t, k, turn, error)
        if sign == UNKNOWN:
            sign = sign_at_corner(t, k, j)
        if sign == -1:
            return k
        unknown = unknown or sign == UNKNOWN
    if unknown:
        return ASK
    t.edges.checked[j] = CLEAR if worst == ALL_CLEAR else 1
    return NONE


TAKEN, CLEAR = 2, 3
"""In place of 1 for CHECKED: the corner is that of another facet; no score is close to its line there."""
