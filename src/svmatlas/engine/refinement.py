"""The affine maps of a facet in double-double: residuals with twice the digits, corrected through the factor in doubles."""

from __future__ import annotations

import numpy as np

from svmatlas.engine.compiled import kernel, kernel_shared
from svmatlas.engine.doubledouble import UNIT, UNIT_DD, dd_add, dd_axpy, two_prod, two_sum
from svmatlas.engine.facet import dot, solve_back, solve_forward
from svmatlas.engine.workspace import L, U


@kernel
def target_dd(t, i):
    """The jittered target of a point: the jitter is large against a rounding error, so the sum has to be made anew."""
    return two_sum(1.0, t.jitter * t.data.target_jitter[i])


@kernel
def weight_dd(t, i):
    """The jittered weight of a point."""
    return two_sum(t.data.weight[i], t.jitter * t.data.weight_jitter[i])


@kernel
def _gather_dd(t):
    """The pulls of I+ and I- in double-double; that of column U is the probe."""
    for j in range(t.data.rows.shape[1]):
        t.maps.pull_hi[U, j], t.maps.pull_lo[U, j] = t.maps.pull[U, j], 0.0
        t.maps.pull_hi[L, j], t.maps.pull_lo[L, j] = 0.0, 0.0
        for c in range(2):
            t.maps.pull_hi[c, j], t.maps.pull_lo[c, j] = dd_add(
                t.pull.high[c, j], t.pull.low[c, j], t.jitter * t.pull.derivative[c, j], 0.0
            )


@kernel
def _residual_dd(t, m, c):
    """Residuals of the augmented system: residual = b + X_M'A - Beta, target_residual = t - X_M Beta (rounded once).

    Sums are those of Ogita, Rump and Oishi: the errors of all operations are added up in one double.
    """
    r, f, low = t.data.rows.shape[1], t.maps.residual, t.maps.residual_low
    for j in range(r):
        f[j], low[j] = two_sum(t.maps.pull_hi[c, j], -t.maps.beta_hi[c, j])
        low[j] += t.maps.pull_lo[c, j] - t.maps.beta_lo[c, j]
    for k in range(m):
        row, a, a_lo = t.data.rows[t.factor.member[k]], t.maps.alpha_hi[c, k], t.maps.alpha_lo[c, k]
        for j in range(r):
            p, e = two_prod(row[j], a)
            f[j], rounding = two_sum(f[j], p)
            low[j] += e + rounding + row[j] * a_lo
    for j in range(r):
        f[j] += low[j]
    beta, beta_lo = t.maps.beta_hi[c], t.maps.beta_lo[c]
    for k in range(m):
        row, sh, sl = t.data.rows[t.factor.member[k]], 0.0, 0.0
        if c == L:
            sh, sl = target_dd(t, t.factor.member[k])
        for j in range(r):
            p, e = two_prod(row[j], beta[j])
            sh, rounding = two_sum(sh, -p)
            sl += rounding - (e + row[j] * beta_lo[j])
        t.maps.target_residual[k] = sh + sl


@kernel
def _correct_dd(t, m, c):
    """One step: R dA = R^-T g - Q f, dBeta = f + Q'(R^-T g - Q f). Returns the length of the step."""
    r = t.data.rows.shape[1]
    z, step = t.maps.coefficients, t.maps.step
    solve_forward(t, m, t.maps.target_residual, z)
    for k in range(m):
        z[k] -= dot(t.factor.basis[k], t.maps.residual)
    size = 0.0
    for k in range(m):
        size += z[k] * z[k]
    solve_back(t, m, z, step)
    for k in range(m):
        t.maps.alpha_hi[c, k], t.maps.alpha_lo[c, k] = dd_add(t.maps.alpha_hi[c, k], t.maps.alpha_lo[c, k], step[k], 0.0)
    if m == t.data.rank and c != L:
        return np.sqrt(size)
    for j in range(r):
        s = t.maps.residual[j]
        for k in range(m):
            s += z[k] * t.factor.basis[k, j]
        size += s * s
        t.maps.beta_hi[c, j], t.maps.beta_lo[c, j] = dd_add(t.maps.beta_hi[c, j], t.maps.beta_lo[c, j], s, 0.0)
    return np.sqrt(size)


@kernel_shared
def refine(t):
    """Correct all columns to double-double accuracy; t.facet.refined tells whether that worked."""
    m, r, d = t.facet.n_margin, t.data.rows.shape[1], t.data.columns.shape[0]
    _gather_dd(t)
    gamma = 2.0 * (d + m + 8) * UNIT
    kappa = t.facet.kappa
    t.facet.refined = 1
    for c in range(4 if m == t.data.rank - 1 else 3):
        for j in range(r):
            t.maps.alpha_hi[c, j], t.maps.alpha_lo[c, j] = t.maps.alpha[c, j], 0.0
            t.maps.beta_hi[c, j], t.maps.beta_lo[c, j] = t.maps.beta[c, j], 0.0
        floor = t.maps.eta[c] * ((4.0 + (d + m) / 64.0) * UNIT_DD / UNIT)  # sums of n terms have errors of n^2 2^-106
        if c < L and t.facet.n_pull[c] > 0:
            floor += t.drift
        for _ in range(8):
            _residual_dd(t, m, c)
            left = 4.0 * gamma * kappa * _correct_dd(t, m, c)
            if left <= floor:
                break
        t.maps.eta_dd[c] = left + floor


@kernel
def dot_dd(t, i, c):
    """x_i . Beta_c from the refined maps."""
    sh, sl = 0.0, 0.0
    for j in range(t.data.rows.shape[1]):
        sh, sl = dd_axpy(sh, sl, t.data.rows[i, j], t.maps.beta_hi[c, j], t.maps.beta_lo[c, j])
    return sh, sl
