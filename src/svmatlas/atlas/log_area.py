"""How much of the plane of logarithmic costs a map covers: an integral along its border.

With x = log C+ and y = log C- the area of a polygon is minus the integral of y dx around it. Edges inside the map are passed
in both directions and cancel: those with a facet on one side only are left. Such an edge is straight in (C+, C-). It is cut
where it enters and leaves the box of costs that is asked for; above the box y is that of its upper side. The rest is cut until
neither cost changes by more than a factor of two, where a rule of eight points has 14 digits.

All lines C+ = const meet in the corner (0, 1, 0) of infinity. A border that comes to it at one C+ and leaves it at another
passes, infinitely high, all those between.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Limits = tuple[float, float]

NODES, WEIGHTS = np.polynomial.legendre.leggauss(8)


def log_share(ends: Floats, pos: Limits, neg: Limits) -> float:
    """Share of the logarithmic area of a box of costs, inside the border of a map.

    ``ends`` (n, 2, 3): the edges of the border, homogeneous costs, with the map on their left.
    """
    a, b = _between(ends[:, 0], ends[:, 1], 0, pos)
    high = np.log(neg[1] / neg[0])
    above = _clip(a, b, np.array([0.0, 1.0, -neg[1]]))
    finite = (above[0][:, 2] > 0) & (above[1][:, 2] > 0)  # the others are lines C+ = const, up to the corner
    wide = _log_ratio(above[0][finite], above[1][finite], 0).sum() + _at_corner(ends, pos)
    a, b = _split(*_between(a, b, 1, neg))
    return float(-(high * wide + _integral(a, b, neg[0]).sum()) / (high * np.log(pos[1] / pos[0])))


def _at_corner(ends: Floats, pos: Limits) -> float:
    """What a border passes of log C+ in the corner (0, 1, 0): where edges leave it, less where they come to it."""
    passed = 0.0
    for corner, other, sign in ((ends[:, 0], ends[:, 1], 1.0), (ends[:, 1], ends[:, 0], -1.0)):
        p, _, l = other[(corner[:, 0] == 0) & (corner[:, 2] == 0)].T
        cost = np.divide(p, l, out=np.full(p.shape, np.inf), where=l > 0)
        passed += sign * np.log(np.clip(cost, *pos) / pos[0]).sum()
    return float(passed)


def _between(a: Floats, b: Floats, axis: int, limits: Limits) -> tuple[Floats, Floats]:
    """The parts of segments where a cost is between two limits."""
    lower, upper = np.zeros(3), np.zeros(3)
    lower[[axis, 2]], upper[[axis, 2]] = (1.0, -limits[0]), (-1.0, limits[1])
    return _clip(*_clip(a, b, lower), upper)


def _clip(a: Floats, b: Floats, h: Floats) -> tuple[Floats, Floats]:
    """The parts of segments where h.c >= 0. New ends are sums of terms that are not negative: nothing cancels."""
    da, db = a @ h, b @ h
    kept = (da > 0) | (db > 0)
    a, b, da, db = a[kept], b[kept], da[kept], db[kept]
    size = np.where(da * db < 0, np.abs(da) + np.abs(db), 1.0)[:, None]
    middle = (np.abs(db)[:, None] * a + np.abs(da)[:, None] * b) / size
    return np.where((da < 0)[:, None], middle, a), np.where((db < 0)[:, None], middle, b)


def _log_ratio(a: Floats, b: Floats, axis: int) -> Floats:
    """Difference of the logarithms of a cost from a to b."""
    ratio: Floats = np.log((b[:, axis] / b[:, 2]) / (a[:, axis] / a[:, 2]))
    return ratio


def _split(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Segments of finite costs that are not zero, cut so that neither cost changes by more than a factor of two."""
    a, b = a / a[:, 2:], b / b[:, 2:]
    done = [(a[:0], b[:0])]
    while a.shape[0]:
        x, y = np.abs(_log_ratio(a, b, 0)), np.abs(_log_ratio(a, b, 1))
        short = np.maximum(x, y) <= np.log(2.0)
        done.append((a[short], b[short]))
        a, b, axis = a[~short], b[~short], np.where(x >= y, 0, 1)[~short]
        rows = np.arange(axis.size)
        u, v = np.sqrt(b[rows, axis])[:, None], np.sqrt(a[rows, axis])[:, None]
        middle = (u * a + v * b) / (u + v)  # there the wider of the two has its geometric mean
        a, b = np.concatenate([a, middle]), np.concatenate([middle, b])
    return np.concatenate([one for one, _ in done]), np.concatenate([other for _, other in done])


def _integral(a: Floats, b: Floats, low: float) -> Floats:
    """Integrals of log(C- / low) over log C+ along straight segments, with third entry 1."""
    wide = _log_ratio(a, b, 0)[:, None]
    x = 0.5 * wide * (1.0 + NODES)
    along = np.divide(np.expm1(x), np.expm1(wide), out=np.zeros_like(x), where=wide != 0)
    cost = a[:, 1:2] + (b[:, 1:2] - a[:, 1:2]) * along
    return np.asarray((0.5 * wide * np.log(cost / low)) @ WEIGHTS)
