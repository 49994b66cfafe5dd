"""The affine maps of a facet in double-double: residuals with twice the digits, corrected through the factor in doubles."""

from __future__ import annotations

import numpy as np

from svmatlas.engine.compiled import kernel
from svmatlas.engine.doubledouble import UNIT, UNIT_DD, dd_add, dd_axpy, two_prod, two_sum
from svmatlas.engine.facet import dot, solve_back, solve_forward
from svmatlas.engine.workspace import (
    ALPHA,
    ALPHA_HI,
    ALPHA_LO,
    BASIS,
    BETA,
    BETA_HI,
    BETA_LO,
    DERIVATIVE,
    ETA,
    ETA_DD,
    HIGH,
    KAPPA,
    LOW,
    MEMBER,
    PULL,
    PULL_HI,
    PULL_LO,
    REAL,
    RHO,
    SCRATCH,
    TARGET_LO,
    WEIGHT,
    WEIGHT_LO,
    L,
    U,
)


@kernel
def target_dd(t, i):
    """The jittered target of a point: the jitter is large against a rounding error, so the sum has to be made anew."""
    return two_sum(1.0, t.jitter * t.point[TARGET_LO, i])


@kernel
def weight_dd(t, i):
    """The jittered weight of a point."""
    return two_sum(t.point[WEIGHT, i], t.jitter * t.point[WEIGHT_LO, i])


@kernel
def _gather_dd(t):
    """The pulls of I+ and I- in double-double; that of column U is the probe."""
    for j in range(t.column.shape[2]):
        t.column[PULL_HI, U, j], t.column[PULL_LO, U, j] = t.column[PULL, U, j], 0.0
        t.column[PULL_HI, L, j], t.column[PULL_LO, L, j] = 0.0, 0.0
        for c in range(2):
            t.column[PULL_HI, c, j], t.column[PULL_LO, c, j] = dd_add(
                t.pull[HIGH, c, j], t.pull[LOW, c, j], t.jitter * t.pull[DERIVATIVE, c, j], 0.0
            )


@kernel
def _residual_dd(t, m, c):
    """Residuals of the augmented system: scratch[3] = b + X_M'A - Beta, rho[1] = t - X_M Beta (rounded once).

    Sums are those of Ogita, Rump and Oishi: the errors of all operations are added up in one double.
    """
    r, f, low = t.rows.shape[1], t.column[SCRATCH, 3], t.column[RHO, 3]
    for j in range(r):
        f[j], low[j] = two_sum(t.column[PULL_HI, c, j], -t.column[BETA_HI, c, j])
        low[j] += t.column[PULL_LO, c, j] - t.column[BETA_LO, c, j]
    for k in range(m):
        row, a, a_lo = t.rows[t.members[MEMBER, k]], t.column[ALPHA_HI, c, k], t.column[ALPHA_LO, c, k]
        for j in range(r):
            p, e = two_prod(row[j], a)
            f[j], rounding = two_sum(f[j], p)
            low[j] += e + rounding + row[j] * a_lo
    for j in range(r):
        f[j] += low[j]
    beta, beta_lo = t.column[BETA_HI, c], t.column[BETA_LO, c]
    for k in range(m):
        row, sh, sl = t.rows[t.members[MEMBER, k]], 0.0, 0.0
        if c == L:
            sh, sl = target_dd(t, t.members[MEMBER, k])
        for j in range(r):
            p, e = two_prod(row[j], beta[j])
            sh, rounding = two_sum(sh, -p)
            sl += rounding - (e + row[j] * beta_lo[j])
        t.column[RHO, 1, k] = sh + sl


@kernel
def _correct_dd(t, m, c):
    """One step: R dA = R^-T g - Q f, dBeta = f + Q'(R^-T g - Q f). Returns the length of the step."""
    r = t.column.shape[2]
    z, step = t.column[SCRATCH, 1], t.column[SCRATCH, 2]
    solve_forward(t, m, t.column[RHO, 1], z)
    for k in range(m):
        z[k] -= dot(t.square[BASIS, k], t.column[SCRATCH, 3])
    size = 0.0
    for k in range(m):
        size += z[k] * z[k]
    solve_back(t, m, z, step)
    for k in range(m):
        t.column[ALPHA_HI, c, k], t.column[ALPHA_LO, c, k] = dd_add(
            t.column[ALPHA_HI, c, k], t.column[ALPHA_LO, c, k], step[k], 0.0
        )
    if m == t.rank and c != L:
        return np.sqrt(size)
    for j in range(r):
        s = t.column[SCRATCH, 3, j]
        for k in range(m):
            s += z[k] * t.square[BASIS, k, j]
        size += s * s
        t.column[BETA_HI, c, j], t.column[BETA_LO, c, j] = dd_add(t.column[BETA_HI, c, j], t.column[BETA_LO, c, j], s, 0.0)
    return np.sqrt(size)


@kernel
def refine(t):
    """Correct all columns to double-double accuracy; t.facet.refined tells whether that worked."""
    m, r, d = t.facet.n_margin, t.rows.shape[1], t.columns.shape[0]
    _gather_dd(t)
    gamma = 2.0 * (d + m + 8) * UNIT
    kappa = t.bound[REAL, KAPPA]
    t.facet.refined = 1
    for c in range(4 if m == t.rank - 1 else 3):
        for j in range(r):
            t.column[ALPHA_HI, c, j], t.column[ALPHA_LO, c, j] = t.column[ALPHA, c, j], 0.0
            t.column[BETA_HI, c, j], t.column[BETA_LO, c, j] = t.column[BETA, c, j], 0.0
        floor = t.bound[ETA, c] * ((4.0 + (d + m) / 64.0) * UNIT_DD / UNIT)  # sums of n terms have errors of n^2 2^-106
        if c < L and t.facet.n_pull[c] > 0:
            floor += t.drift
        for _ in range(8):
            _residual_dd(t, m, c)
            left = 4.0 * gamma * kappa * _correct_dd(t, m, c)
            if left <= floor:
                break
        t.bound[ETA_DD, c] = left + floor


@kernel
def dot_dd(t, i, c):
    """x_i . Beta_c from the refined maps."""
    sh, sl = 0.0, 0.0
    for j in range(t.rows.shape[1]):
        sh, sl = dd_axpy(sh, sl, t.rows[i, j], t.column[BETA_HI, c, j], t.column[BETA_LO, c, j])
    return sh, sl
