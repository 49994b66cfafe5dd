"""The ball around known weights: which points can change their set near a facet.

Points whose distance to their line is more than a radius stay on their side for all weights in the ball of that radius. Only
the others, the near points, are looked at while the weights of a facet are in the ball.
"""

from __future__ import annotations

import numpy as np

from svmatlas.engine.compiled import kernel
from svmatlas.engine.facet import MINUS, PLUS
from svmatlas.engine.scores import LANES, cosines, distance_from_center, weights_at
from svmatlas.engine.workspace import INSIDE, OUTSIDE


@kernel
def is_in_ball(t, l, error):
    """Are all points but the near ones certainly on their side, with ``maps.weights``?"""
    return t.facet.in_ball == 1 and distance_from_center(t, l, error) <= t.facet.radius


@kernel
def center_ball(t, hints):
    """See that the ball is around the facet in hand; a new one is centered at a known corner."""
    t.facet.in_ball = 0
    if t.n_near_wanted == 0:
        return
    k = 0
    while k < hints.size and (hints[k].number < 0 or t.known[max(hints[k].number, 0), 2] == 0.0):
        k += 1
    if k == hints.size:
        return
    v = t.known[hints[k].number]
    weights_at(t, v[0], v[1], v[2])
    near = t.facet.n_near > 0 and distance_from_center(t, v[2], 0.0) < WITHIN * t.facet.radius
    if not near or _strays(t.state, t.ball.fixed_state):
        _make_ball(t, v[2])
        if t.n_near_wanted == 0 or _strays(t.state, t.ball.fixed_state):
            return
    t.facet.in_ball = 1
    signs, state, points = t.near.sign, t.state, t.near.points[: t.facet.n_near]
    for place in range(points.size):
        signs[place] = MINUS if state[points[place]] == INSIDE else PLUS


WITHIN = 0.75
"""Share of the radius in which the known corner has to be, so that there is room for the others."""


@kernel
def _strays(state, fixed):
    """Is a point that is not near in another set than its fixed one?"""
    found = np.int8(0)
    for i in range(state.size):
        found = np.int8(found | ((fixed[i] >= 0) & (state[i] != fixed[i])))
    return found != 0


@kernel
def _make_ball(t, l):
    """Center the ball at ``maps.weights``; find the points that can change their set in it."""
    center, rest, inverse, size = t.ball.center, t.single.cosine, t.single.per_norm, t.state.size
    slack = t.single.value[:size]
    for j in range(center.size):
        center[j] = t.maps.weights[j] / l
    length = cosines(t, t.single, center, rest[:size])
    per_unit, rounding = np.float32(length), np.float32(GROWN * (t.data.columns.shape[0] + 12) * UNIT_32 * length)
    for i in range(size):
        rest[i] = per_unit * rest[i] - inverse[i]
    for i in range(size):
        slack[i] = abs(rest[i]) - np.float32(16.0 * UNIT_32) * inverse[i] - rounding
    if t.facet.radius == 0.0:
        t.facet.radius = _choose_radius(slack, t.n_near_wanted)
    if t.facet.radius == 0.0:
        t.n_near_wanted = 0
        return
    reach = np.float32(GROWN * t.facet.radius)
    n, fixed, points, slot = 0, t.ball.fixed_state, t.near.points, t.near.slot
    for i in range(size):
        far = slack[i] > reach
        fixed[i] = (OUTSIDE if rest[i] > 0 else INSIDE) if far else -1
        points[n] = i
        n += not far
    for i in range(size):
        if n % LANES == 0:
            break
        if fixed[i] >= 0:
            fixed[i], points[n] = -1, i
            n += 1
    slot[:] = -1
    for place in range(n):
        slot[points[place]] = place
    single, near = t.single, t.near
    for row in range(single.unit.shape[0]):
        _pick(single.unit[row], points[:n], near.unit[row])
    _pick(single.per_norm, points[:n], near.per_norm)
    _pick(single.jitter, points[:n], near.jitter)
    _pick(single.axis, points[:n], near.axis)
    t.facet.n_near = n


@kernel
def _choose_radius(slack, wanted):
    """A distance at which so many points, beside those that are tied, may be on their lines; 0 if most points would be."""
    tied, top = count_below(slack, np.float32(0.0)), np.float32(0.0)
    if slack.size - tied <= 2 * wanted:
        return np.float32(0.0)
    for i in range(slack.size):
        top = slack[i] if slack[i] > top else top
    return find_bound(slack, tied + wanted, np.float32(0.0), top, np.float32(0.5), HALVINGS)


@kernel
def find_bound(values, most, low, high, half, halvings):
    """About the largest bound between two that at most so many values are below; ``half`` is 0.5 in the type of the values."""
    for _ in range(halvings):
        middle = (low + high) * half
        if count_below(values, middle) <= most:
            low = middle
        else:
            high = middle
    return low


@kernel
def count_below(values, bound):
    """How many values are below a bound."""
    count = 0
    for i in range(values.size):
        count += values[i] < bound
    return count


HALVINGS = 16
"""Of the range of distances from the center, to find the radius."""


@kernel
def _pick(source, which, goal):
    """Copy some entries of an array to the begin of another."""
    for k in range(which.size):
        goal[k] = source[np.uint64(which[k])]  # which cannot be negative


UNIT_32 = 2.0**-24
"""Rounding error of single precision."""

GROWN = 1.0 + 2.0**-16
"""Factor on bounds that are computed in single precision."""
