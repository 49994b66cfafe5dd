"""The pencil of parallel score lines of a facet with |M| = r - 1, and the two of them that can be edges.

All score lines are s_i D.(p, q) >= n_i l: bounds v_i = n_i / s_i on the one number D.(p, q) / l. The tightest from below and
from above are found in single precision, doubles, double-double, modulo a prime, or by exact arithmetic.
"""

from __future__ import annotations

import numpy as np

from svmatlas.engine.checking import NONE, list_line, score_error
from svmatlas.engine.clipping import ASKING, CLOSED
from svmatlas.engine.compiled import kernel, kernel_shared
from svmatlas.engine.doubledouble import UNIT
from svmatlas.engine.facet import bound_derivatives, dot, sign_points
from svmatlas.engine.lines import anchored_rest, pencil_dd, pencil_origin, rest_dd, slope, slope_dd, tabulate_pencil
from svmatlas.engine.mersenne import normal_to
from svmatlas.engine.neighbourhood import GROWN, UNIT_32, is_in_ball
from svmatlas.engine.predicates import ASK_PENCIL, ask, minor_dd
from svmatlas.engine.scores import cosines, fill_score, weights_at
from svmatlas.engine.workspace import INSIDE, OUTSIDE, L, P, U, code_of_hint
from svmatlas.engine.zeros import UNKNOWN, is_spanned, tied_in_pencil


@kernel
def _pencil_answered(t):
    """Did exact arithmetic name the lines of the pencil? Then take them."""
    for n in range(t.answers.size):
        if t.answers[n].kind == ASK_PENCIL:
            t.facet.pencil[0], t.facet.pencil[1] = t.answers[n].first, t.answers[n].second
            return True
    return False


@kernel
def _is_flat(t):
    """Is D certainly zero (1), certainly not (0), or not known (UNKNOWN)?"""
    if t.facet.n_pull[0] == 0 and t.facet.n_pull[1] == 0:
        return 1
    for c in range(2):
        d, error = slope(t, c)
        if abs(d) > error:
            return 0
    if t.facet.refined == 1:
        for c in range(2):
            d, _, error = slope_dd(t, c)
            if abs(d) > error:
                return 0
    return UNKNOWN


@kernel
def _bound_listed(t, refined):
    """For each listed point the interval of v_i - v0, v_i = n_i / s_i, and the side: 0 lower, 1 upper; into ``bounds``.

    n_i, which is all jitter where the data are tied, is taken from doubles, from the anchor (v0 as there, else 0) or from
    double-double. Where the side is not known (-1): n_i and s_i with their errors instead.
    """
    state, axis, score, out, listed, norms = t.state, t.data.axis, t.lines.score, t.lines.bounds, t.lines.listed, t.data.norm
    tiny = (t.data.columns.shape[0] + 2) * UNIT
    anchor = t.facet.anchor_axis
    origin, shift = 0.0, 0.0
    if anchor >= 0:
        origin, shift = pencil_origin(t)
    es_norm = t.maps.eta[U] + tiny * t.maps.length[U]
    en_norm = t.maps.eta[L] + tiny * t.maps.length[L]
    for k in range(t.polygon.n_listed):
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
            out.lower[k], out.upper[k], out.side[k] = v - v0 - error, v - v0 + error, (0 if s > 0 else 1)
        else:
            out.side[k] = -1
            out.slope[k], out.slope_error[k], out.rest[k], out.rest_error[k] = s, es, n, en
    return abs(origin) + shift


@kernel
def _narrow(t, refined):
    """Keep of the listed points those that can have the tightest bound on a side; returns how many for each, and unsure."""
    reach = _bound_listed(t, refined)
    bounds, listed, count = t.lines.bounds, t.lines.listed, t.polygon.n_listed
    lower, upper = -np.inf, np.inf
    for n in range(count):
        if bounds.side[n] == 0:
            lower = max(lower, bounds.lower[n])
        elif bounds.side[n] == 1:
            upper = min(upper, bounds.upper[n])
    reach += max(abs(lower), abs(upper))
    n_lower, n_upper, n_unsure, kept = 0, 0, 0, 0
    for n in range(count):
        side = bounds.side[n]
        if side == 0 and not bounds.upper[n] < lower:
            n_lower += 1
        elif side == 1 and not bounds.lower[n] > upper:
            n_upper += 1
        elif side == -1 and not _is_far_off(bounds, n, reach):
            n_unsure += 1
        else:
            continue
        listed[kept] = listed[n]
        kept += 1
    t.polygon.n_listed = kept
    return n_lower, n_upper, n_unsure


@kernel
def _is_far_off(bounds, n, reach):
    """Is a listed line, whose side is not known, certainly not met while the pencil's number is at most ``reach`` in size?"""
    return reach * (abs(bounds.slope[n]) + bounds.slope_error[n]) < abs(bounds.rest[n]) - bounds.rest_error[n]


@kernel
def _bound_all(t, single, n):
    """The bounds of ``_bound_listed`` for the first n of some points, in single precision: ``value`` and ``error``.

    They are with n_i / |s_i| in place of v_i, so upper bounds are negated, and the tightest is the largest. The unit is
    |Beta_l| / |u|. Returns |s_i| / |x_i||u| from which on the side is certain.
    """
    d = t.data.columns.shape[0]
    slope, per_slope, rest, inverse = single.slope[:n], single.per_slope, single.cosine[:n], single.per_norm
    signs, value, error = single.sign, single.value, single.error
    length_u, length = cosines(t, single, t.maps.beta[U], slope), cosines(t, single, t.maps.beta[L], rest)
    for i in range(n):
        per_slope[i] = ONE_32 / abs(slope[i])
    tiny, own = (d + 2) * UNIT, (d + 8) * UNIT_32
    es = np.float32(GROWN * (own + t.maps.eta[U] / length_u + tiny))
    e = np.float32(GROWN * (own + t.maps.eta[L] / length + tiny))
    _value_all(per_slope[:n], rest, signs, inverse, np.float32(1.0 / length), value)
    _error_all(per_slope[:n], inverse, value, es, e, np.float32(GROWN * 8.0 * UNIT_32 / length), error)
    if t.facet.anchor_axis >= 0:
        derivative, jitter, axis, anchor = single.derivative[:n], single.jitter, single.axis, np.float32(t.facet.anchor_axis)
        origin, shift = pencil_origin(t)
        ratio = length_u / length
        v0, e0 = np.float32(origin * ratio), np.float32(GROWN * (shift + 8.0 * UNIT_32 * abs(origin)) * ratio)
        length_s = cosines(t, single, t.maps.beta_derivative[L], derivative)
        scale, per_derivative = np.float32(length_s / length), np.float32(1.0 / length_s)
        e = np.float32(GROWN * (own + t.facet.anchor_eta / length_s + tiny))
        for i in range(n):
            value[i] -= v0 * signs[i] * (ONE_32 if slope[i] > 0 else -ONE_32)
        _value_tied(per_slope, derivative, signs, jitter, axis, anchor, per_derivative, scale, value)
        _error_tied(per_slope[:n], jitter, axis, anchor, per_derivative, scale, value, es, e, e0, error)
    for k in range(t.facet.n_margin):
        i = single.slot[t.factor.member[k]]
        if 0 <= i < n:
            slope[i], value[i], error[i] = 1.0, -HUGE, 0.0
    return np.float32(4.0) * es


ONE_32, THREE_HALVES, FEW_32 = np.float32(1.0), np.float32(1.5), np.float32(8.0 * UNIT_32)
"""Numbers in single precision; where |s_i| is 4 errors or more, 1 / (|s_i| - error) is less than 1.5 / |s_i|."""

HUGE, NO_BOUND = np.float32(1e30), np.float32(1e32)
"""More than all bounds; a value or error that says nothing."""


@kernel
def _value_all(per_slope, rest, signs, inverse, target, value):
    """Bounds of all points. (These loops write to one array each, and do not branch: so they become vector instructions.)"""
    for i in range(per_slope.size):
        v = signs[i] * (target * inverse[i] - rest[i]) * per_slope[i]
        value[i] = v if abs(v) < HUGE else NO_BOUND


@kernel
def _error_all(per_slope, inverse, value, es, e, e_target, error):
    """Errors of these."""
    for i in range(per_slope.size):
        size = abs(value[i])
        x = THREE_HALVES * (e + e_target * inverse[i] + size * es) * per_slope[i] + FEW_32 * size
        error[i] = x if (x < HUGE) & (size < HUGE) else np.float32(2.0) * NO_BOUND


@kernel
def _value_tied(per_slope, derivative, signs, jitter, axis, anchor, per_derivative, scale, value):
    """Bounds of the tied points of an anchored pencil, from its origin on."""
    for i in range(derivative.size):
        v, other = scale * signs[i] * (jitter[i] * per_derivative - derivative[i]) * per_slope[i], value[i]
        v = v if abs(v) < HUGE else NO_BOUND
        value[i] = v if axis[i] == anchor else other


@kernel
def _error_tied(per_slope, jitter, axis, anchor, per_derivative, scale, value, es, e, e0, error):
    """Errors of these, and of the others from the origin on."""
    for i in range(per_slope.size):
        size, target = abs(value[i]), abs(jitter[i]) * per_derivative
        x = THREE_HALVES * (scale * (e + FEW_32 * target) + size * es) * per_slope[i] + FEW_32 * size
        x, other = x if (x < HUGE) & (size < HUGE) else np.float32(2.0) * NO_BOUND, error[i] + e0 + FEW_32 * size
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
def _list_tight(t, single, n):
    """List those of the first n of some points whose bounds may be the tightest, or whose side is not certain."""
    least, points = _bound_all(t, single, n), single.points
    slope, signs, value, error = single.slope[:n], single.sign, single.value, single.error
    beyond = single.folded[:n]
    lower = _largest_low(slope, signs, value, error, least, ONE_32, beyond)
    upper = _largest_low(slope, signs, value, error, least, -ONE_32, beyond)
    for i in range(n):
        x = value[i] + error[i] - (lower if signs[i] * slope[i] > 0 else upper)
        beyond[i] = -ONE_32 if (x < 0) & (abs(slope[i]) > least) else ONE_32
    _fold(beyond, BLOCK)
    t.polygon.n_listed = 0
    for first in range(min(n, BLOCK)):
        if beyond[first] > 0:
            for i in range(first, n, BLOCK):
                loose = value[i] + error[i] - (lower if signs[i] * slope[i] > 0 else upper) < 0
                if not (loose and abs(slope[i]) > least) and t.factor.slot[points[i]] < 0:
                    list_line(t, 2 * points[i] + (0 if t.state[points[i]] == OUTSIDE else 1))


BLOCK = 64
"""Points that are looked at together."""


@kernel
def _tighter_dd(t, a, b, lower):
    """Is the bound of listed point a tighter than that of b on the same side? 1, 0 or UNKNOWN."""
    bounds = t.lines.bounds
    rest, rest_low, rest_error = bounds.rest, bounds.rest_low, bounds.rest_error
    s, s_low, s_error = bounds.slope, bounds.slope_low, bounds.slope_error
    x, _, error = minor_dd(
        rest[a], rest_low[a], rest[b], rest_low[b], s[a], s_low[a], s[b], s_low[b],
        rest_error[a], rest_error[b], s_error[a], s_error[b],
    )  # fmt: skip
    if abs(x) > error:
        t.polygon.n_refined += 1
    else:
        x, error = _minor_of_jitter(t, a, b)
        if not abs(x) > error:
            return UNKNOWN
        t.polygon.n_zero += 1
    larger = (x > 0) == ((s[a] > 0) == (s[b] > 0))  # n_a / s_a - n_b / s_b has the sign of (n_a s_b - n_b s_a) s_a s_b
    return 1 if larger == lower else 0


@kernel
def _minor_of_jitter(t, a, b):
    """What the jitter adds to n_a s_b - n_b s_a, which is zero without it, with its error; (0, 0) if it is not known to be."""
    i, j = t.lines.listed[a] >> 1, t.lines.listed[b] >> 1
    if not _find_normal(t) or not tied_in_pencil(t, i, j):
        return 0.0, 0.0
    bound_derivatives(t)
    s, s_error = t.lines.bounds.slope, t.lines.bounds.slope_error
    n, n_error = _rest_derivative(t, i)
    m, m_error = _rest_derivative(t, j)
    error = abs(n) * s_error[b] + n_error * (abs(s[b]) + s_error[b]) + abs(m) * s_error[a]
    error += m_error * (abs(s[a]) + s_error[a]) + 4.0 * UNIT * (abs(n * s[b]) + abs(m * s[a]))
    return n * s[b] - m * s[a], error


@kernel
def _rest_derivative(t, i):
    """Derivative of n = t_i - x_i.Beta_l by the jitter, and its error."""
    r, g = t.data.target_jitter[i], dot(t.data.rows[i], t.maps.beta_derivative[L])
    tiny = (t.data.columns.shape[0] + 4) * UNIT * t.maps.length_derivative[L]
    return r - g, t.data.norm[i] * (t.maps.eta_derivative[L] + tiny) + 4.0 * UNIT * (abs(r) + abs(g))


@kernel
def _tightest_dd(t):
    """Choose among the listed points in double-double; False where that cannot be decided."""
    best, bounds, listed, count = t.facet.pencil, t.lines.bounds, t.lines.listed, t.polygon.n_listed
    slope, slope_low, slope_error = bounds.slope, bounds.slope_low, bounds.slope_error
    rest, rest_low, rest_error = bounds.rest, bounds.rest_low, bounds.rest_error
    best[0], best[1] = -1, -1  # places in the list, then codes
    if t.facet.refined != 1:
        return False
    for n in range(count):
        slope[n], slope_low[n], slope_error[n], rest[n], rest_low[n], rest_error[n] = pencil_dd(t, listed[n] >> 1)
        if abs(slope[n]) > slope_error[n]:  # its side is certain
            side = 0 if (slope[n] > 0) == (listed[n] & 1 == 0) else 1
            tighter = 1 if best[side] < 0 else _tighter_dd(t, n, best[side], side == 0)
            if tighter == UNKNOWN:
                return False
            if tighter == 1:
                best[side] = n
    reach = 0.0
    for side in range(2):
        if best[side] < 0:
            reach = np.inf
        else:
            n = best[side]
            best[side] = listed[n]
            reach = max(reach, 1.01 * (abs(rest[n]) + rest_error[n]) / (abs(slope[n]) - slope_error[n]))
    for n in range(count):
        if not abs(slope[n]) > slope_error[n] and not _is_far_off(bounds, n, reach):
            return False
    return True


@kernel
def _find_normal(t):
    """The vector normal to the rows of M modulo the prime, once for a facet; False if it is not known."""
    if abs(t.facet.normal) != t.facet.serial:
        members = t.factor.member[: t.facet.n_margin]
        found = normal_to(t.data.rows, members, t.modular.echelon, t.modular.pivot, t.modular.normal)
        t.facet.normal = t.facet.serial if found else -t.facet.serial
    return t.facet.normal > 0


@kernel
def _drop_spanned(t):
    """Leave out listed points whose rows lie in the span of M: s_i is zero. False if it is not known which these are."""
    if not _find_normal(t):
        return False
    count, kept = t.polygon.n_listed, 0
    for n in range(count):
        if not is_spanned(t, t.lines.listed[n] >> 1):
            t.lines.listed[kept] = t.lines.listed[n]
            kept += 1
    t.polygon.n_listed = kept
    t.polygon.n_zero += count - kept
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
            t.polygon.n_zero += 1
    return count == t.facet.n_pull[0] + t.facet.n_pull[1]  # else some are not candidates


MANY_LISTED = 32
"""So many points whose bounds single precision does not tell apart: most of them are then in the span of M."""


@kernel
def _reduce_pencil(t):
    """Find the at most two score lines of the pencil that can be edges."""
    if _pencil_answered(t):
        return CLOSED
    flat = _is_flat(t)
    if flat == 1:
        return CLOSED
    if t.facet.pencil_is_near == 1:
        _list_tight(t, t.near, t.facet.n_near)
    else:
        sign_points(t)
        _list_tight(t, t.single, t.state.size)
    dropped = t.polygon.n_listed > MANY_LISTED and _drop_spanned(t)
    for level in range(2 if t.facet.refined == 1 else 1):
        n_lower, n_upper, n_unsure = _narrow(t, level == 1)
    if (flat == UNKNOWN or n_unsure > 0) and t.polygon.n_listed > 0 and (dropped or _drop_spanned(t)):
        if flat == UNKNOWN and _all_spanned(t):
            return CLOSED
        if not dropped:
            n_lower, n_upper, n_unsure = _narrow(t, t.facet.refined == 1)
    if t.polygon.n_listed == 0:  # nor does it matter if D is zero
        return CLOSED
    if flat == 0 and n_unsure == 0 and n_lower <= 1 and n_upper <= 1:
        for n in range(t.polygon.n_listed):
            i = t.lines.listed[n] >> 1
            t.facet.pencil[(0 if t.lines.score[P, i] > 0 else 1)] = t.lines.listed[n]
        return CLOSED
    if flat == 0 and _tightest_dd(t):
        return CLOSED
    for n in range(t.polygon.n_listed):
        ask(t, ASK_PENCIL, t.lines.listed[n], t.lines.listed[n], t.lines.listed[n])
    return ASKING


@kernel
def _pencil_known(t):
    """Are both lines of the pencil among the known edges? Then take them."""
    first, second = NONE, NONE
    for n in range(2 * t.hints.size):
        k = code_of_hint(t.hints, n)
        if k >= 0 and t.factor.slot[k >> 1] < 0 and k != first:
            first, second = k, first
    if second == NONE:
        return False
    t.facet.pencil[0], t.facet.pencil[1] = first, second
    return True


@kernel
def _has_known(t):
    """Are all score lines among the known edges lines of the pencil found?

    If not, it was chosen from too few points: a corner that is known badly may be far from the ball.
    """
    for n in range(2 * t.hints.size):
        k = code_of_hint(t.hints, n)
        if k >= 0 and t.factor.slot[k >> 1] < 0 and k != t.facet.pencil[0] and k != t.facet.pencil[1]:
            return False
    return True


ALL, ONLY_NEAR = np.arange(2)
"""Points that a pencil is chosen from."""


@kernel
def _all_in_ball(t):
    """Are all known corners in the ball?"""
    for k in range(t.hints.size if t.facet.in_ball == 1 else 0):
        if t.hints[k].number >= 0:
            v = t.known[t.hints[k].number]
            weights_at(t, v[0], v[1], v[2])
            if not is_in_ball(t, v[2], 0.0):
                return False
    return t.facet.in_ball == 1


@kernel
def is_near(t):
    """Are all points that the pencil was not chosen from certainly on their side at all corners?"""
    for j in range(t.polygon.n_corners if t.facet.pencil_is_near == 1 else 0):
        v = t.edges.corner[j]
        per_norm, fixed = score_error(t, v, t.edges.corner_error[j])
        weights_at(t, v[0], v[1], v[2])
        if not is_in_ball(t, v[2], per_norm + fixed / t.shortest):
            return False
    return True


@kernel_shared
def find_pencil(t, near):
    """Tabulate the lines of the pencil, which are looked for once in a facet; False if that takes exact arithmetic.

    ``near``: ONLY_NEAR if it is enough to look among the points that are near the known corners, else ALL.
    """
    if t.facet.reduced != t.facet.serial:
        t.facet.pencil_is_near = 0
        if not _pencil_known(t):
            if near == ONLY_NEAR and not _pencil_answered(t):
                t.facet.pencil_is_near = _all_in_ball(t)
            outcome = _reduce_pencil(t)
            if t.facet.pencil_is_near == 1 and (outcome == ASKING or not _has_known(t)):  # answers hold for all points
                t.facet.pencil_is_near, t.polygon.n_asked = 0, 0
                t.facet.pencil[0], t.facet.pencil[1] = -1, -1
                outcome = _reduce_pencil(t)
            if outcome == ASKING:
                return False
        t.facet.reduced = t.facet.serial
    for side in range(2):
        if t.facet.pencil[side] >= 0:
            tabulate_pencil(t, side)
    return True
