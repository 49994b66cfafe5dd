"""The lines that bound a facet, from its affine maps, with error bounds.

A code names a line: 2 i + 1 and 2 i for the two lines of point i (score lines if i is not in M, bounds of alpha_i if it is);
-1 - j for side j of the region. A line is h = (h_p, h_q, h_l) with h.c >= 0 on its good side. Anchored lines: see facet.py.
"""

from __future__ import annotations

import numpy as np

from svmatlas.engine.compiled import kernel, kernel_shared
from svmatlas.engine.doubledouble import UNIT, UNIT_DD, dd_add, dd_mul
from svmatlas.engine.facet import bound_derivatives, dot, length_of, length_of_pull_derivative
from svmatlas.engine.refinement import dot_dd, target_dd, weight_dd
from svmatlas.engine.scores import fill_score
from svmatlas.engine.workspace import OUTSIDE, L, P, Q, U


@kernel
def is_anchored(t, code):
    """Is this a score line of the class that the facet is anchored to?"""
    return code >= 0 and t.facet.anchor_axis == t.data.axis[code >> 1] and t.factor.slot[code >> 1] < 0


@kernel
def anchored_rest(t, i):
    """x_i.S - r_i, and its error."""
    norm, r = t.data.norm[i], t.data.target_jitter[i]
    tiny = (t.data.columns.shape[0] + 2) * UNIT
    error = norm * (t.facet.anchor_eta + tiny * t.facet.anchor_length) + 2.0 * UNIT * abs(r)
    return dot(t.data.rows[i], t.maps.beta_derivative[L]) - r, error


@kernel
def anchored_line(t, code):
    """The line of a code (|M| < rank - 1) with x_i.S - r_i in place of h_l, and errors."""
    h0, h1, _, e0, e1, _ = line(t, code)
    rest, error = anchored_rest(t, code >> 1)
    return h0, h1, (rest if t.state[code >> 1] == OUTSIDE else -rest), e0, e1, error


@kernel
def pencil_origin(t):
    """v0 = u.e / u.u, and its error."""
    uu = t.maps.length[U] ** 2
    e = t.data.anchor if t.facet.anchor_axis == P else -t.data.anchor
    v = t.maps.beta[U, t.data.columns.shape[0] - 1] * e / uu
    size = t.maps.length[U]
    return v, 2.0 * t.maps.eta[U] * (t.data.anchor + abs(v) * size) / uu + 16.0 * UNIT * abs(v) * t.data.columns.shape[0]


@kernel
def slope(t, c):
    """D_c = u.b_c / u.u of the pencil (|M| = r - 1), and its error."""
    if t.facet.n_pull[c] == 0:
        return 0.0, 0.0
    uu = t.maps.length[U] ** 2
    d = dot(t.maps.beta[U], t.maps.pull[c]) / uu
    size = length_of(t.maps.pull[c])
    error = (t.maps.eta[c] * t.maps.length[U] + 2.0 * t.maps.eta[U] * (size + abs(d) * t.maps.length[U])) / uu
    return d, error


@kernel
def _sum_slopes(t):
    """u.b+, u.b- and u.u in double-double, once for a facet with refined maps."""
    if t.facet.sloped == t.facet.serial:
        return
    t.facet.sloped = t.facet.serial
    high, low, error, maps = t.lines.slopes.high, t.lines.slopes.low, t.lines.slopes.error, t.maps
    for c in range(3):
        other, other_low = (maps.beta_hi[U], maps.beta_lo[U]) if c == L else (maps.pull_hi[c], maps.pull_lo[c])
        high[c], low[c], size = 0.0, 0.0, 0.0
        for j in range(other.size):
            p, p_low = dd_mul(maps.beta_hi[U, j], maps.beta_lo[U, j], other[j], other_low[j])
            high[c], low[c] = dd_add(high[c], low[c], p, p_low)
            size += other[j] ** 2
        error[c] = maps.eta_dd[U] * np.sqrt(size) + maps.eta_dd[c] * maps.length[U]


@kernel
def slope_dd(t, c):
    """u.b_c in double-double (not divided by u.u: one positive factor for the whole pencil), and its error."""
    if t.facet.n_pull[c] == 0:
        return 0.0, 0.0, 0.0
    _sum_slopes(t)
    return t.lines.slopes.high[c], t.lines.slopes.low[c], t.lines.slopes.error[c]


@kernel
def rest_dd(t, i):
    """t_i - x_i.Beta_l from double-double, rounded, and its error."""
    g, g_lo = dot_dd(t, i, L)
    h, h_lo = target_dd(t, i)
    n, _ = dd_add(h, h_lo, -g, -g_lo)
    tiny = t.data.columns.shape[0] * UNIT_DD
    error = t.data.norm[i] * (t.maps.eta_dd[L] + tiny * t.maps.length[L]) + 4.0 * UNIT_DD
    return n, error + 2.0 * UNIT * abs(n)


@kernel
def pencil_dd(t, i):
    """S = x_i.u and n = t_i - x_i.Beta_l in double-double, each with its error: the line is s D.(p,q) = n l."""
    sh, sl = dot_dd(t, i, U)
    gh, gl = dot_dd(t, i, L)
    h, h_lo = target_dd(t, i)
    nh, nl = dd_add(h, h_lo, -gh, -gl)
    tiny = t.data.columns.shape[0] * UNIT_DD
    es = t.data.norm[i] * (t.maps.eta_dd[U] + tiny * t.maps.length[U])
    en = t.data.norm[i] * (t.maps.eta_dd[L] + tiny * t.maps.length[L]) + 4.0 * UNIT_DD
    return sh, sl, es, nh, nl, en


@kernel
def tabulate_margin(t):
    """The lines of M in doubles, with error bounds, into the table."""
    table, error = t.lines.table, t.lines.table_error
    alpha, rho, eta, member, axes = t.maps.alpha, t.factor.rho, t.maps.eta, t.factor.member, t.data.axis
    weight, low, jitter = t.data.weight, t.data.weight_jitter, t.jitter
    n = table.shape[1] - 2 * t.data.rows.shape[1] - 2
    for k in range(t.facet.n_margin):
        i = member[k]
        axis, w = axes[i], weight[i] + jitter * low[i]
        for c in range(3):
            a = alpha[c, k]
            e = rho[k] * eta[c] + 2.0 * UNIT * abs(a)
            table[c, n], error[c, n] = a, e
            table[c, n + 1], error[c, n + 1] = -a, e
        table[axis, n + 1] += w
        error[axis, n + 1] += 2.0 * UNIT * w
        n += 2


@kernel
def tabulate_pencil(t, side):
    """One line of the pencil, divided by |x_i.u|: all of the pencil have the same first two entries."""
    i = t.facet.pencil[side] >> 1
    fill_score(t, i)
    tiny = t.data.columns.shape[0] * UNIT
    place = t.lines.table.shape[1] - 2 + side
    h, h_error = t.lines.table[:, place], t.lines.table_error[:, place]
    s, rest, norm = t.lines.score[P, i], t.lines.score[L, i], t.data.norm[i]
    size = abs(s)
    es = norm_error(t, i)
    e = norm * (t.maps.eta[L] + tiny * t.maps.length[L]) + 4.0 * UNIT
    for c in range(2):
        d, error = slope(t, c)
        h[c] = d if s > 0 else -d
        h_error[c] = error if size > es else np.inf
    h[L] = rest / size
    h_error[L] = (e + abs(rest) * es / size) / (size - es) + 4.0 * UNIT * abs(h[L]) if size > es else np.inf


@kernel
def table_row(t, code):
    """Where the line of a code stands in the table; -1 for a score line outside a pencil."""
    if code < 0:
        return -1 - code
    n = t.lines.table.shape[1] - 2
    k = t.factor.slot[code >> 1]
    if k >= 0:
        return n - 2 * t.data.rows.shape[1] + 2 * k + (code & 1)
    if t.facet.pencil[0] == code:
        return n
    return n + 1 if t.facet.pencil[1] == code else -1


@kernel
def line(t, code):
    """The line of a code in doubles: (h_p, h_q, h_l, e_p, e_q, e_l), e bounding the errors."""
    row = table_row(t, code)
    if row >= 0:
        h, e = t.lines.table, t.lines.table_error
        return h[P, row], h[Q, row], h[L, row], e[P, row], e[Q, row], e[L, row]
    i = code >> 1
    fill_score(t, i)
    norm = t.data.norm[i]
    tiny = t.data.columns.shape[0] * UNIT
    e0 = norm * (t.maps.eta[P] + tiny * t.maps.length[P])
    e1 = norm * (t.maps.eta[Q] + tiny * t.maps.length[Q])
    e2 = norm * (t.maps.eta[L] + tiny * t.maps.length[L]) + 4.0 * UNIT
    return t.lines.score[P, i], t.lines.score[Q, i], t.lines.score[L, i], e0, e1, e2


@kernel
def line_powers(t, code, out, error):
    """The line of a code without the jitter, as ``line`` scales it, and its derivative by the jitter: (2, 3), with errors.

    It is rounded from double-double, if that is known.
    """
    h, derivative, e, e_derivative = out[0], out[1], error[0], error[1]
    bound_derivatives(t)
    line_derivative(t, code, derivative)
    _bound_line_derivative(t, code, derivative, e_derivative)
    in_pencil = code >= 0 and t.factor.slot[code >> 1] < 0 and t.facet.n_margin == t.data.rank - 1  # scaled otherwise
    if t.facet.refined == 1 and not in_pencil:
        high, low, bound = t.lines.pair.high[0], t.lines.pair.low[0], t.lines.pair.error[0]
        line_dd(t, code, high, low, bound)
        for c in range(3):
            h[c] = (high[c] - t.jitter * derivative[c]) + low[c]
            e[c] = bound[c] + e_derivative[c] + 4.0 * UNIT * (abs(h[c]) + abs(low[c]))
        return
    h[P], h[Q], h[L], e[P], e[Q], e[L] = line(t, code)
    for c in range(3):
        e[c] += e_derivative[c] + 2.0 * UNIT * abs(h[c])
        h[c] -= t.jitter * derivative[c]


@kernel
def _bound_line_derivative(t, code, h, out):
    """Errors of the derivative h of a line by the jitter; in a pencil it is scaled as ``line`` does."""
    i, eta, length = code >> 1, t.maps.eta_derivative, t.maps.length_derivative
    if code < 0:
        out[:] = 0.0
        return
    k, norm, tiny = t.factor.slot[i], t.data.norm[i], (t.data.columns.shape[0] + 4) * UNIT
    if k >= 0:
        for c in range(3):
            out[c] = t.factor.rho[k] * eta[c] + 4.0 * UNIT * abs(h[c])
        if code & 1 == 1:
            out[t.data.axis[i]] += 4.0 * UNIT * abs(t.data.weight_jitter[i])
        return
    for c in range(3):
        out[c] = norm * (eta[c] + tiny * length[c])
    out[2] += 4.0 * UNIT * abs(t.data.target_jitter[i])
    if t.facet.n_margin == t.data.rank - 1:
        _scale_derivative(t, i, h, out)


@kernel
def _scale_derivative(t, i, h, out):
    """Divide the derivative of a line of a pencil by |x_i.u| u.u, with errors as in ``slope`` and ``tabulate_pencil``."""
    u, uu = t.maps.length[U], t.maps.length[U] ** 2
    size, es = abs(t.lines.score[P, i]), norm_error(t, i)
    if not size > es:
        out[:] = np.inf
        return
    for c in range(2):
        h[c] /= size * uu
        pull = t.maps.eta_derivative[c] * u + 2.0 * t.maps.eta[U] * (length_of_pull_derivative(t, c) + abs(h[c]) * u)
        out[c] = pull / uu + 16.0 * UNIT * abs(h[c])
    h[2] /= size * uu
    out[2] = (out[2] + abs(h[2]) * es) / (size - es) + 16.0 * UNIT * abs(h[2])


@kernel
def norm_error(t, i):
    """Error of x_i.u."""
    return t.data.norm[i] * (t.maps.eta[U] + t.data.columns.shape[0] * UNIT * t.maps.length[U])


@kernel
def _pencil_line_dd(t, i, high, low, error):
    """x_i.Beta - t_i e_l of a pencil, times u.u: (s u.b+, s u.b-, -n u.u)."""
    sh, sl, es, nh, nl, en = pencil_dd(t, i)
    for c in range(2):
        d, d_lo, e = slope_dd(t, c)
        high[c], low[c] = dd_mul(sh, sl, d, d_lo)
        error[c] = abs(sh) * e + es * (abs(d) + e) + 4.0 * UNIT_DD * abs(high[c])
    _sum_slopes(t)
    uu, uu_lo = t.lines.slopes.high[L], t.lines.slopes.low[L]
    z, z_lo = dd_mul(nh, nl, uu, uu_lo)
    high[L], low[L] = -z, -z_lo
    error[L] = en * uu + 4.0 * abs(nh) * t.maps.eta_dd[U] * t.maps.length[U] + 8.0 * UNIT_DD * abs(z)


@kernel
def _score_line_dd(t, i, high, low, error):
    """x_i.Beta - t_i e_l."""
    tiny = t.data.columns.shape[0] * UNIT_DD
    for c in range(3):
        high[c], low[c] = dot_dd(t, i, c)
        error[c] = t.data.norm[i] * (t.maps.eta_dd[c] + tiny * t.maps.length[c])
    h, h_lo = target_dd(t, i)
    high[L], low[L] = dd_add(high[L], low[L], -h, -h_lo)
    error[L] += 4.0 * UNIT_DD


@kernel_shared
def line_dd(t, code, high, low, error):
    """The line of a code in double-double, with error bounds."""
    if code < 0:
        for c in range(3):
            high[c], low[c], error[c] = t.lines.table[c, -1 - code], 0.0, 0.0
        return
    i = code >> 1
    k = t.factor.slot[i]
    flip = 1.0
    if k >= 0:
        for c in range(3):
            high[c], low[c] = t.maps.alpha_hi[c, k], t.maps.alpha_lo[c, k]
            error[c] = t.factor.rho[k] * t.maps.eta_dd[c]
        if code & 1 == 1:
            flip = -1.0
            c = t.data.axis[i]
            w, w_lo = weight_dd(t, i)
            high[c], low[c] = dd_add(-w, -w_lo, high[c], low[c])
            error[c] += UNIT_DD * w
    elif t.facet.n_margin == t.data.rank - 1:
        _pencil_line_dd(t, i, high, low, error)
    else:
        _score_line_dd(t, i, high, low, error)
    if k < 0 and t.state[i] != OUTSIDE:
        flip = -1.0
    for c in range(3):
        high[c] *= flip
        low[c] *= flip


@kernel_shared
def line_derivative(t, code, out):
    """Derivative by the jitter of the line of a code, scaled as ``line_dd`` (after ``solve_derivatives``)."""
    out[:] = 0.0
    if code < 0:
        return
    i = code >> 1
    k = t.factor.slot[i]
    derivative = t.maps.beta_derivative
    if k >= 0:
        for c in range(3):
            out[c] = t.maps.alpha_derivative[c, k]
        if code & 1 == 1:
            out[t.data.axis[i]] -= t.data.weight_jitter[i]
    elif t.facet.n_margin == t.data.rank - 1:
        u = t.maps.beta[U]
        s = dot(t.data.rows[i], u)
        for c in range(2):
            out[c] = s * dot(u, t.pull.derivative[c])
        out[2] = (dot(t.data.rows[i], derivative[L]) - t.data.target_jitter[i]) * t.maps.length[U] ** 2
    else:
        for c in range(3):
            out[c] = dot(t.data.rows[i], derivative[c])
        out[2] -= t.data.target_jitter[i]
    if (k >= 0 and code & 1 == 1) or (k < 0 and t.state[i] != OUTSIDE):
        for c in range(3):
            out[c] = -out[c]
