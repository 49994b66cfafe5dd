"""Where alpha is found for costs on a plateau (plateaus.py): at the least cost of its class, the other cost being the same.

In a tile that may be a side of the tile: what is beyond is not known. But alpha is affine in the other cost between
any two alpha on that side: both have sum of alpha_i x_i = e - q b-, and the same bounds, so what lies between them has, too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from svmatlas.engine.arena import before_in, facet_of
from svmatlas.engine.mesh import Mesh
from svmatlas.engine.workspace import Bools, Floats, Ints, L, Region

ON_SIDE = -2
"""In place of a piece: there is none beside the floor, which is a side of the tile."""


class Floor(NamedTuple):
    """The least cost of its class on a plateau, for each value of the other cost: edges with a piece or a side behind."""

    pieces: Ints  # the plateau; several if the jitter cuts it
    axis: int  # of the cost of its class
    low: Floats  # (n,) the least other cost on each edge, in ascending order
    top: Floats  # (n,) the largest other cost on it,
    high: Floats  # (n,) and on it and all before
    first: Floats  # (n, 3) its ends
    last: Floats
    beside: Ints  # (n,) the piece behind it, or ON_SIDE

    @property
    def side(self) -> Floats:
        """The ends (2, 3) of the stretch on a side; none (0, 3) if there is no such one."""
        there = np.flatnonzero(self.beside == ON_SIDE)
        return np.concatenate([self.first[there], self.last[there]])

    def within(self, points: Floats) -> Floats:
        """Homogeneous costs, with another cost that is beyond the ends of the floor, if only by the jitter, put there."""
        moved, other = points.copy(), 1 - self.axis
        moved[:, other] = np.clip(points[:, other], self.low[0] * points[:, L], self.high[-1] * points[:, L])
        return moved

    def least(self, points: Floats) -> tuple[Floats, Ints]:
        """The least cost at homogeneous costs (n, 3), inf where no such cost is on the plateau; and the piece beside it."""
        least, beside = np.full(len(points), np.inf), np.full(len(points), -1)
        with np.errstate(divide="ignore", invalid="ignore"):
            other = points[:, 1 - self.axis] / points[:, L]
        begin, end = np.searchsorted(self.high, other, side="left"), np.searchsorted(self.low, other, side="right")
        for step in range(int(np.max(end - begin, initial=0))):
            which = np.flatnonzero(begin + step < end)
            cost, k = self._cost_on(begin[which] + step, points[which]), begin[which] + step
            lower = cost < least[which]
            least[which[lower]], beside[which[lower]] = cost[lower], self.beside[k[lower]]
        return least, beside

    def _cost_on(self, edges: Ints, points: Floats) -> Floats:
        """The cost on edges, at the other cost of points; inf where they have none."""
        a, b, other = self.first[edges], self.last[edges], 1 - self.axis
        x, y = (v[:, other] * points[:, L] - v[:, L] * points[:, other] for v in (a, b))
        beyond = x * y > 0  # by rounding, or by far
        with np.errstate(divide="ignore", invalid="ignore"):
            meet = np.where(beyond, np.abs(x) < np.abs(y), np.abs(y))[:, None] * a  # where the edge has this other cost
            meet += np.where(beyond, np.abs(x) >= np.abs(y), np.abs(x))[:, None] * b
            there = (points[:, other] / points[:, L] <= self.top[edges]) & (meet[:, L] > 0)
        cost: Floats = np.divide(meet[:, self.axis], meet[:, L], out=np.full(len(edges), np.inf), where=there)
        return cost

    def beside_at_infinity(self, point: Floats) -> int:
        """The piece beside the plateau at homogeneous costs (3,) with l = 0; -1 if the plateau is all that is there."""
        for ends in (self.first, self.last):
            there = np.flatnonzero((ends[:, L] == 0) & (ends[:, 1 - self.axis] > 0))
            if there.size > 0 and point[1 - self.axis] > 0:
                ratio = ends[there, self.axis] / ends[there, 1 - self.axis]
                return int(self.beside[there[np.argmin(np.abs(ratio - point[self.axis] / point[1 - self.axis]))]])
        return -1


def make_floor(mesh: Mesh, pieces: Ints, axis: int, region: Region) -> Floor:
    """The floor of a plateau, which is one facet of a mesh of a region or several."""
    place = np.concatenate([np.arange(mesh.facet_at[f], mesh.facet_at[f + 1]) for f in pieces])
    beside = mesh.edge_facets[mesh.facet_edges[place]].sum(axis=1) - facet_of(place, mesh.facet_at)
    inner = np.flatnonzero(beside >= 0)
    ends = [mesh.vertices[mesh.facet_vertices[which]] for which in (before_in(place, mesh.facet_at), place)]
    side = _stretch(np.concatenate([end[_is_on_side(mesh, place, axis, region)] for end in ends]), axis)
    a, b = (np.concatenate([end[inner], other]) for end, other in zip(ends, side, strict=True))
    beside = np.concatenate([beside[inner], np.full(len(side[0]), ON_SIDE)])
    with np.errstate(divide="ignore", invalid="ignore"):
        cost = a[:, 1 - axis] / a[:, L], b[:, 1 - axis] / b[:, L]  # not a number where the cost of the class alone is infinite
    low, high = np.fmin(*cost) * (1.0 - SLACK), np.fmax(*cost) * (1.0 + SLACK)
    order = np.argsort(low, kind="stable")
    low, top = low[order], high[order]
    return Floor(pieces, axis, low, top, np.maximum.accumulate(top), a[order], b[order], beside[order])


def _is_on_side(mesh: Mesh, place: Ints, axis: int, region: Region) -> Bools:
    """Which places have an edge on the side of the region where the cost of the class is least, and not zero."""
    low = np.flatnonzero((region.sides[:, axis] > 0) & (region.sides[:, L] < 0))
    on_side: Bools = np.isin(mesh.edge_code[mesh.facet_edges[place]], -1 - low)
    return on_side


def _stretch(ends: Floats, axis: int) -> tuple[Floats, Floats]:
    """The first and the last of some places on a side, each (1, 3), or (0, 3) if there are none.

    The jitter may cut a plateau; without it all between them is on it.
    """
    order = np.argsort(ends[:, 1 - axis] / ends[:, L])
    return ends[order[:1]], ends[order[-1:]]


SLACK = 2.0**-50
"""Relative rounding of other costs at the ends of edges."""
