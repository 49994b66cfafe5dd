"""Where alpha is found for costs on a plateau (plateaus.py): at the least cost of its class, the other cost being the same."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from svmatlas.engine.arena import before_in, facet_of
from svmatlas.engine.mesh import Mesh
from svmatlas.engine.workspace import Floats, Ints, L


class Floor(NamedTuple):
    """The least cost of its class on a plateau, for each value of the other cost: the edges with a piece behind them."""

    pieces: Ints  # the plateau; several if the jitter cuts it
    axis: int  # of the cost of its class
    low: Floats  # (n,) the least other cost on each edge, in ascending order
    top: Floats  # (n,) the largest other cost on it,
    high: Floats  # (n,) and on it and all before
    first: Floats  # (n, 3) its ends
    last: Floats
    beside: Ints  # (n,) the piece behind it

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


def make_floor(mesh: Mesh, pieces: Ints, axis: int) -> Floor:
    """The floor of a plateau, which is one facet of a mesh or several."""
    place = np.concatenate([np.arange(mesh.facet_at[f], mesh.facet_at[f + 1]) for f in pieces])
    beside = mesh.edge_facets[mesh.facet_edges[place]].sum(axis=1) - facet_of(place, mesh.facet_at)
    inner = np.flatnonzero(beside >= 0)
    a, b = (mesh.vertices[mesh.facet_vertices[which[inner]]] for which in (before_in(place, mesh.facet_at), place))
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = a[:, 1 - axis] / a[:, L], b[:, 1 - axis] / b[:, L]  # not a number where the cost of the class alone is infinite
    low, high = np.fmin(*ends) * (1.0 - SLACK), np.fmax(*ends) * (1.0 + SLACK)
    order = np.argsort(low, kind="stable")
    low, top = low[order], high[order]
    return Floor(pieces, axis, low, top, np.maximum.accumulate(top), a[order], b[order], beside[inner][order])


SLACK = 2.0**-50
"""Relative rounding of other costs at the ends of edges."""
