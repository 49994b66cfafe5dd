"""Scores of points: x_i.beta at given weights, for one point or for all, in doubles and in single precision."""

from __future__ import annotations

import numpy as np

from svmatlas.engine.compiled import kernel, kernel_reassoc
from svmatlas.engine.doubledouble import UNIT
from svmatlas.engine.facet import dot, length_of
from svmatlas.engine.workspace import OUTSIDE, L, P, Q, U


@kernel_reassoc
def _score(columns, beta, out):
    """x_i . beta of all points; four columns at a time, so that the sums stay in registers."""
    out[:] = 0.0
    d = columns.shape[0]
    for j in range(0, d - d % 4, 4):
        s0, s1, s2, s3 = beta[j], beta[j + 1], beta[j + 2], beta[j + 3]
        c0, c1, c2, c3 = columns[j], columns[j + 1], columns[j + 2], columns[j + 3]
        for i in range(out.size):
            out[i] += (s0 * c0[i] + s1 * c1[i]) + (s2 * c2[i] + s3 * c3[i])
    for j in range(d - d % 4, d):
        s, column = beta[j], columns[j]
        for i in range(out.size):
            out[i] += s * column[i]


@kernel
def fill_score(t, i):
    """The line of a point outside M into ``t.lines.score``, once for a facet, signed so that h.c >= 0 holds there.

    With |M| = rank - 1 row P holds sign * x_i.u instead, and row Q is unused.
    """
    if t.lines.stamp[i] == t.facet.serial:
        return
    t.lines.stamp[i] = t.facet.serial
    sign = 1.0 if t.state[i] == OUTSIDE else -1.0
    row = t.data.rows[i]
    if t.facet.n_margin == t.data.rank - 1:
        t.lines.score[P, i] = sign * dot(row, t.maps.beta[U])
    else:
        t.lines.score[P, i] = sign * dot(row, t.maps.beta[P])
        t.lines.score[Q, i] = sign * dot(row, t.maps.beta[Q])
    t.lines.score[L, i] = sign * (dot(row, t.maps.beta[L]) - (1.0 + t.jitter * t.data.target_jitter[i]))


@kernel
def score_tied(t, v0, v1, v2, out):
    """Scores at costs v with S in place of Beta_l (see Anchored facets)."""
    beta = t.maps.weights
    _combine(t.maps.beta[P], t.maps.beta[Q], t.maps.beta_derivative[L], v0, v1, v2, beta)
    _score(t.data.columns, beta, out)


@kernel
def weights_at(t, v0, v1, v2):
    """Weights l beta at costs v into ``maps.weights``."""
    _combine(t.maps.beta[P], t.maps.beta[Q], t.maps.beta[L], v0, v1, v2, t.maps.weights)


@kernel
def _combine(a, b, c, x, y, z, out):
    """The sum of x a, y b and z c."""
    for j in range(out.size):
        out[j] = a[j] * x + b[j] * y + c[j] * z


@kernel
def distance_from_center(t, l, error):
    """Distance of the weights beta from the center of the ball, if l beta is in ``maps.weights``.

    ``error`` bounds the error of the score of a point, relative to its length.
    """
    square = _square_apart(t.maps.weights, t.ball.center, l)
    return ((1.0 + 2.0 * t.ball.center.size * UNIT) * np.sqrt(square) + 2.0 * error) / l if l > 0.0 else np.inf


@kernel_reassoc
def _square_apart(beta, center, l):
    """Square of the distance of two vectors, of which the second is to be multiplied."""
    s = 0.0
    for j in range(beta.size):
        x = beta[j] - l * center[j]
        s += x * x
    return s


LANES = 32
"""Numbers in single precision that are in hand at once, in several vectors."""


@kernel
def score_all(t, out):
    """Scores of all points with ``maps.weights``."""
    _score(t.data.columns, t.maps.weights, out)


@kernel
def score_one(t, i):
    """Score of a point with these weights."""
    return dot(t.data.rows[i], t.maps.weights)


MARGIN_WIDTH = 1e-8
"""A point may be on the margin without jitter if its score is that near, relative to the sizes of what it is made of."""


@kernel
def is_near_margin(t, i, score, l, reach):
    """Is a score, at costs with the entry l, within ``reach`` for each unit of its row, and MARGIN_WIDTH l, of the margin?"""
    return not abs(score - l) > reach * t.data.norm[i] + MARGIN_WIDTH * l


@kernel
def cosines(t, single, beta, out):
    """Cosines of the first of some points with some weights, in single precision; returns the length of the weights."""
    weights, length = t.single.weights, length_of(beta)
    scale = 1.0 / length
    for j in range(t.data.columns.shape[0]):
        weights[j] = beta[j] * scale
    _score_32(single.unit, weights, out)
    return length


@kernel_reassoc
def _score_32(unit, weights, out):
    """As _score, in single precision."""
    out[:] = np.float32(0.0)
    d = unit.shape[0]
    for j in range(0, d - d % 8, 8):
        s0, s1, s2, s3 = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        s4, s5, s6, s7 = weights[j + 4], weights[j + 5], weights[j + 6], weights[j + 7]
        c0, c1, c2, c3, c4, c5, c6, c7 = (
            unit[j], unit[j + 1], unit[j + 2], unit[j + 3], unit[j + 4], unit[j + 5], unit[j + 6], unit[j + 7],
        )  # fmt: skip
        for i in range(out.size):
            x = (s0 * c0[i] + s1 * c1[i]) + (s2 * c2[i] + s3 * c3[i])
            out[i] += x + ((s4 * c4[i] + s5 * c5[i]) + (s6 * c6[i] + s7 * c7[i]))
    for j in range(d - d % 8, d, 4):
        s0, s1, s2, s3 = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        c0, c1, c2, c3 = unit[j], unit[j + 1], unit[j + 2], unit[j + 3]
        for i in range(out.size):
            out[i] += (s0 * c0[i] + s1 * c1[i]) + (s2 * c2[i] + s3 * c3[i])
