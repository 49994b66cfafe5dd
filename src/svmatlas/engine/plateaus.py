"""Plateaus: all costs where the weights are e, so that all points of one class are on the margin. They are not explored.

With a bias, e = (0, ..., 0, 1/B) has the score 1 for all positives and -1 for all negatives (see Anchored facets in facet.py).
It is the solution exactly if some alpha of the positives, within its bounds, has

    sum of alpha_i x_i = e - q b-,   0 <= alpha_i <= w_i p        (l = 1; b- is the pull of all negatives)

so the *plateau* of the positives is convex, and with costs (p, q) all (p', q) with p' > p are on it, too: the same alpha will
do. The same holds for the negatives with p and q in each other's place. The product with e says sum alpha_i = e.e + q W-, with
W the sum of weights of a class, and so

    p W+ >= e.e + q W-                                            (1)

in the plateau of the positives. With many more points than columns the jitter cuts plateaus into more pieces than there are
facets in the rest of the plane. All of them are one facet, and nothing about it has to be found inside:

- its boundary is known from the facets around it, whose edges lead into it;
- beta is e, and alpha is that at the costs where p is as small as the plateau allows for this q (floors.py): there
  a facet around it has the same alpha.

The facets around a plateau hang together if it does not touch the side of the region where p is smallest, which (1) tells. For
then every facet outside of both plateaus is connected, through smaller p or smaller q, to the corner of the least costs. In a
tile that is not so: there facets of the plateau along the sides of the tile are visited, and forgotten in the end (layers.py).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.engine.arena import BOUNDARY, OPEN, PLATEAUS, TIE, after_in, before_in, facet_of
from svmatlas.engine.compiled import entry
from svmatlas.engine.workspace import Bools, Data, Floats, Int32, Ints, L, P, Q, Region

Kinds = npt.NDArray[np.int8]

CERTAIN = 1.0 - 2.0**-20
"""Condition (1) counts as violated if it fails by this factor: the jitter moves it by some 1e-13."""


class UnclosedError(Exception):
    """The facets around a plateau do not enclose it: it has to be explored."""


def class_weights(data: Data) -> Floats:
    """The summed weights W of the positives and of the negatives."""
    return np.array([data.weight[data.axis == axis].sum() for axis in (P, Q)])


def find_plateaus(data: Data, least: Floats) -> Bools:
    """Whose plateaus can be left out of a region with these least costs (p, q), l = 1: the positives', the negatives'."""
    weight = class_weights(data)
    count = np.array([np.sum(data.axis == axis) for axis in (P, Q)])
    bound = data.anchor**2 + (least * weight)[::-1]
    found: Bools = (data.anchor > 0) & (count > data.rank) & (least * weight < CERTAIN * bound)
    return found


class Ring(NamedTuple):
    """The boundary of a plateau: its edges in order, with the corners of the region that it holds as vertices -1 - corner."""

    code: Ints
    vertex: Ints  # at the end of the edge
    behind: Ints
    twin: Ints  # the place of the edge in the facet behind it, -1 on a side
    is_full: Ints  # 1 for edges that lead, from the facet behind them, to a partition with |M| = rank


@entry
def find_facing(root, at, place):
    """The places, in order, whose edges lead into a plateau from facets that are connected to the root.

    What is between a plateau and a side alone has no area. In a partial map there are none: what is behind is unknown.
    """
    n_facing, n_open = 0, 0
    for k in range(place.size):
        n_facing += place[k].behind <= PLATEAUS
        n_open += place[k].behind == OPEN
    for k in range(place.size if n_open > 0 else 0):
        place[k].behind = OPEN if place[k].behind <= PLATEAUS else place[k].behind
    if n_facing == 0 or n_open > 0:
        return np.empty(0, np.int64)
    seen, waiting, n = np.zeros(at.size - 1, np.bool_), np.empty(at.size - 1, np.int64), 1
    seen[root], waiting[0] = True, root
    while n > 0:
        n -= 1
        f = waiting[n]
        for k in range(at[f], at[f + 1]):
            g = place[k].behind
            if g >= 0 and not seen[g]:
                seen[g], waiting[n] = True, g
                n += 1
    facing, n = np.empty(n_facing, np.int64), 0
    for f in range(at.size - 1):
        for k in range(at[f], at[f + 1] if seen[f] else at[f]):
            if place[k].behind <= PLATEAUS:
                facing[n] = k
                n += 1
    return facing[:n].copy()


def find_rings(
    axis: int, facing: Ints, at: Ints, place: npt.NDArray[np.void], kind: Kinds, vertices: Floats, region: Region
) -> list[Ring]:
    """The boundary of the plateau of a class, if there is one, from all places whose edges lead into plateaus.

    The jitter may cut it: then there are several rings. Facet f has the places at[f] : at[f + 1], as in mesh.py. UnclosedError
    if the facets around the plateau do not enclose it.
    """
    facing = facing[(PLATEAUS - place["behind"][facing]) % 2 == axis]
    if facing.size == 0:
        return []
    code, vertex = place["code"], place["vertex"]
    facet, before, after = facet_of(facing, at), before_in(facing, at), after_in(facing, at)
    start, end = vertex[facing], vertex[before]  # as the plateau is gone round
    following = _follow(facet, start, end)
    is_tail = following < 0
    tails, heads = np.flatnonzero(is_tail), np.flatnonzero(np.bincount(following[~is_tail], minlength=facing.size) == 0)
    sides = _Sides(region)
    leaves = [sides.begin(vertices[end[k]], int(code[before[k]])) for k in tails]
    enters = [sides.end(vertices[start[k]], int(code[after[k]])) for k in heads]
    links = {int(k): sides.link(*leave, enters) for k, leave in zip(tails, leaves, strict=True)}
    for k, (_, n) in links.items():
        following[k] = heads[n]
    if np.bincount(following).max() > 1:
        raise UnclosedError
    full = place["behind"][facing] == PLATEAUS - axis
    edges = np.column_stack([code[facing], end, facet, facing, full])

    def ring_of(order: Ints) -> Ring:
        rows = list(edges[order])
        for n in np.flatnonzero(is_tail[order])[::-1].tolist():  # the last first, for places of others to stay
            passed, goal = links[int(order[n])][0], start[following[order[n]]]
            ends = [-1 - side for side in passed[:-1]] + [goal]
            rows[n + 1 : n + 1] = [(-1 - side, v, BOUNDARY, -1, 0) for side, v in zip(passed, ends, strict=True)]
        return Ring(*np.array(rows).T)

    return [ring_of(order) for order in _rings(following, kind[facet], full)]


def _follow(facet: Int32, start: Int32, end: Int32) -> Ints:
    """For each edge of a plateau the one that begins where it ends; -1 if there is none: it ends on a side.

    Where two begin, the plateau touches itself in a vertex: of its two parts there each lies between two facets.
    """
    order = np.argsort(start, kind="stable")
    low, high = (np.searchsorted(start[order], end, side=side) for side in ("left", "right"))
    if np.any(high - low > 2):
        raise UnclosedError
    chosen = order[np.minimum(low, order.size - 1)]
    second = order[np.minimum(low + 1, order.size - 1)]
    chosen = np.where((high - low == 2) & (facet[chosen] == facet), second, chosen)
    return np.where(high > low, chosen, -1)


def _rings(following: Ints, kind: Kinds, full: Bools) -> list[Ints]:
    """The edges of all rings in order. One without |M| = rank may only be between pieces without area: a sliver."""
    order, ends = _go_round(following)
    rings = np.split(order, ends[:-1])
    whole = [bool(full[ring].any()) for ring in rings]
    if not any(whole) or any(np.any(kind[ring] != TIE) for ring, is_whole in zip(rings, whole, strict=True) if not is_whole):
        raise UnclosedError
    return rings


@entry
def _go_round(following):
    """The edges of all rings, one ring after the other, each from its first edge on; and where they end."""
    order, ends, seen, n, m = np.empty_like(following), np.empty_like(following), np.zeros(following.size, np.bool_), 0, 0
    for start in range(following.size):
        if seen[start]:
            continue
        k = start
        while not seen[k]:
            order[m], seen[k] = k, True
            m += 1
            k = following[k]
        ends[n] = m
        n += 1
    return order, ends[:n].copy()


class _Sides:
    """The sides of the region, in order."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.n = len(region.corners)

    def begin(self, v: Floats, code: int) -> tuple[int, float]:
        """The side on which a plateau goes on from v, which the edge with this code leads to, and how far along it v is."""
        corner = self._corner(v)
        if corner >= 0:
            return (corner + 1) % self.n, 0.0
        side = self._side(v, code)
        return side, self._along(v, side)

    def end(self, v: Floats, code: int) -> tuple[int, float]:
        """The side on which a plateau comes to v, from which the edge with this code leads on, and how far along it v is."""
        corner = self._corner(v)
        if corner >= 0:
            return corner, 1.0
        side = self._side(v, code)
        return side, self._along(v, side)

    def link(self, side: int, along: float, enters: list[tuple[int, float]]) -> tuple[list[int], int]:
        """The sides from a place on to the next of some others, and which of these it is."""
        passed: list[int] = []
        for _ in range(self.n + 1):
            passed.append(side)
            ahead = [(there, n) for n, (other, there) in enumerate(enters) if other == side and there >= along]
            if ahead:
                return passed, min(ahead)[1]
            side, along = (side + 1) % self.n, -np.inf
        raise UnclosedError

    def _corner(self, v: Floats) -> int:
        """The corner of the region that v is, if it is one of the triangle of costs, else -1."""
        if np.count_nonzero(v) != 1:
            return -1
        same = [j for j in range(self.n) if np.array_equal(self.region.corners[j] > 0, v > 0)]
        return same[0] if same else -1

    def _side(self, v: Floats, code: int) -> int:
        """The side that v lies on."""
        infinity = np.flatnonzero(self.region.axis == L)
        if code >= 0 and v[L] == 0.0 and infinity.size > 0:
            return int(infinity[0])
        if not -self.n <= code < 0:
            raise UnclosedError
        return -1 - code

    def _along(self, v: Floats, side: int) -> float:
        """How far v is along a side, from 0 to 1."""
        a, b, v = (point / point.sum() for point in (self.region.corners[side - 1], self.region.corners[side], v))
        return float((v - a) @ (b - a) / ((b - a) @ (b - a)))
