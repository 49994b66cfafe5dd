"""Costs -> the piece of the split map they lie in (canonical.py): a walk through its mesh from a nearby piece.

A piece is left by the edge that the point is furthest beyond, until it is beyond none. Pieces that the jitter made are
walked through but never answered, and edges that the jitter made (shorter than ``SHORT``) have no direction to speak of and
are passed over. Where the walk does not arrive at a true piece (in a tie, at a hole of a partial atlas, in a circle among
slivers), the true pieces around its end are tried, then all. From a point on an edge all pieces that hold it are gone through,
and one of the facet with the lowest number is answered, so that the facet does not depend on the way.

No index of all pieces is needed: the mesh itself leads the way. So the first query after a map is loaded is as fast as others.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree

from svmatlas.engine.arena import NEGATIVE_PLATEAU, POSITIVE_PLATEAU
from svmatlas.engine.canonical import Canonical
from svmatlas.engine.compiled import entry, kernel, kernel_alloc
from svmatlas.engine.doubledouble import two_prod
from svmatlas.engine.floors import ON_SIDE, make_floor
from svmatlas.engine.mesh import Mesh
from svmatlas.engine.workspace import L, P, Q, Region
from svmatlas.support.settings import SETTINGS

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Int32 = npt.NDArray[np.int32]

ROUNDING = 2.0**-44
"""A point is beyond an edge if its relative distance is below minus this. Corners carry errors up to 2e-10 only where
lines are almost parallel, else some 1e-15; a point this close to an edge has the same solution on both sides."""

NOWHERE = -1
"""In place of a piece: the point lies in no explored one."""

SHORT = 2.0**-34
"""Relative length of an edge that may be there by the jitter only (1e-13 times the conditioning): it has no direction."""

WAYS = 4
"""Walks to a point around which pieces are looked for: of several, some go around a hole."""

SPREAD = 8
"""Pieces that are gone through for each that is looked for: ties lie between."""

SLACK = 2.0**-30
"""How far beyond an edge of the best facet a point may be when all are tried: corners are good to 2e-10."""


@kernel
def _beyond(a, b, c):
    """Distance of a point c from the edge with ends a, b, negative beyond it, relative to the costs; inf for short edges."""
    x, y, z = a[1] * b[2], a[2] * b[0], a[0] * b[1]
    u, v, w = a[2] * b[1], a[0] * b[2], a[1] * b[0]
    length = 0.0
    if x + u > 0.0:
        length = abs(x - u) / (x + u)
    if y + v > 0.0:
        length = max(length, abs(y - v) / (y + v))
    if z + w > 0.0:
        length = max(length, abs(z - w) / (z + w))
    size = (x + u) * c[0] + (y + v) * c[1] + (z + w) * c[2]
    if length < SHORT or size == 0.0:
        return np.inf
    det = 0.0
    for j in range(3):
        k, l = (j + 1) % 3, (j + 2) % 3
        det += _difference_of_products(a[k], b[l], a[l], b[k]) * c[j]
    return det / (size * length)


@kernel
def _difference_of_products(a, b, c, d):
    """A b - c d, rounded once: for short edges the products are almost equal."""
    p, e = two_prod(a, b)
    q, f = two_prod(c, d)
    return (p - q) + (e - f)


@kernel
def _worst_edge(vertices, at, corners, f, c):
    """The edge of facet f (place in the arrays) that c is furthest beyond, and by how much."""
    worst, place = np.inf, -1
    before = corners[at[f + 1] - 1]
    for k in range(at[f], at[f + 1]):
        depth = _beyond(vertices[before], vertices[corners[k]], c)
        if depth < worst:
            worst, place = depth, k
        before = corners[k]
    return place, worst


@kernel
def _behind(edges, edge_facets, place, f):
    """The facet behind the edge at a place of facet f; negative if there is none."""
    g = edge_facets[edges[place], 0]
    return edge_facets[edges[place], 1] if g == f else g


@kernel_alloc
def _lowest(vertices, at, corners, edges, edge_facets, facet, f, c):
    """The piece of the lowest facet that holds c, among f and those behind edges that c lies on, and so on."""
    held = np.empty(8, np.int64)
    held[0], n, k, lowest = f, 1, 0, f
    while k < n:
        g = held[k]
        k += 1
        before = corners[at[g + 1] - 1]
        for place in range(at[g], at[g + 1]):
            depth = _beyond(vertices[before], vertices[corners[place]], c)
            before = corners[place]
            h = _behind(edges, edge_facets, place, g)
            if h < 0 or abs(depth) > ROUNDING or np.any(held[:n] == h):
                continue
            _, worst = _worst_edge(vertices, at, corners, h, c)
            if worst < -ROUNDING:
                continue
            if n == held.size:
                held = np.concatenate((held, np.empty(n, np.int64)))
            held[n] = h
            n += 1
            if 0 <= facet[h] < facet[lowest] and worst < np.inf:
                lowest = h
    return lowest


@entry
def _walk(vertices, at, corners, edges, edge_facets, facet, starts, points):
    """Piece of each point, or NOWHERE if the walk from its start did not arrive at a true piece; and where walks ended."""
    out, ends = np.full(points.shape[0], NOWHERE, np.int64), starts.copy()
    limit = 64 + 8 * int(np.sqrt(at.size))
    for n in range(points.shape[0]):
        f = starts[n]
        for _ in range(limit):
            ends[n] = f
            place, depth = _worst_edge(vertices, at, corners, f, points[n])
            if depth >= -ROUNDING:
                if depth < np.inf and facet[f] >= 0:
                    out[n] = f
                    if depth <= ROUNDING:
                        out[n] = _lowest(vertices, at, corners, edges, edge_facets, facet, f, points[n])
                break
            f = _behind(edges, edge_facets, place, f)
            if f < 0:
                break
    return out, ends


@entry
def _spread(at, edges, edge_facets, first, most):
    """Pieces around some pieces, these first, by the number of edges between; at most so many."""
    seen, found, n = np.zeros(at.size - 1, np.bool_), np.empty(most, np.int64), 0
    for f in first[:most]:
        if not seen[f]:
            seen[f], found[n] = True, f
            n += 1
    k = 0
    while k < n < most:
        f = found[k]
        k += 1
        for place in range(at[f], at[f + 1]):
            g = _behind(edges, edge_facets, place, f)
            if g >= 0 and not seen[g] and n < most:
                seen[g], found[n] = True, g
                n += 1
    return found[:n]


@entry
def _try_some(vertices, at, corners, facets, c):
    """Which of some pieces holds c best, and how deep inside it c is."""
    best, deepest = NOWHERE, -np.inf
    for n in range(facets.size):
        _, depth = _worst_edge(vertices, at, corners, facets[n], c)
        if depth > deepest and depth < np.inf:
            best, deepest = facets[n], depth
    return best, deepest


class Locator:
    """Point location in the split mesh of a region."""

    def __init__(self, canonical: Canonical, region: Region) -> None:
        self.canonical = canonical
        self.mesh = canonical.split.mesh
        self.facet = canonical.facet
        self.true = np.flatnonzero(self.facet >= 0)
        plateaus = [np.flatnonzero(canonical.split.kind == kind) for kind in (POSITIVE_PLATEAU, NEGATIVE_PLATEAU)]
        axes = [axis for axis in (int(P), int(Q)) if plateaus[axis].size > 0]
        self.floors = [make_floor(self.mesh, plateaus[axis], axis, region) for axis in axes]
        whole = [self.facet[plateaus[axis][:1]].astype(np.intp) for axis in axes]
        self.true_floors = [make_floor(canonical.mesh, facet, axis, region) for facet, axis in zip(whole, axes, strict=True)]
        self.starts = self.true[:: -(-self.true.size // SETTINGS.locate_starts) or 1]
        self.coarse = cKDTree(_flatten(_middles(self.mesh, self.starts)))

    def __call__(self, points: Floats) -> Ints:
        """Pieces of homogeneous costs (n, 3); NOWHERE where no explored one holds them."""
        found = self.walk(points)
        for n in np.flatnonzero(found == NOWHERE):
            found[n] = self._search(points[n])
        return found

    def walk(self, points: Floats) -> Ints:
        """The same by one walk each, with no search where it does not arrive."""
        found = self._on_plateaus(points)
        left = np.flatnonzero(found == NOWHERE)
        _, nearest = self.coarse.query(_flatten(points[left]))
        found[left], _ = _walk(*_arrays(self.mesh), self.facet, self.starts[nearest], points[left])
        return found

    def slide(self, pieces: Ints, points: Floats) -> tuple[Ints, Floats]:
        """For points on plateaus (plateaus.py) pieces and costs beside them where alpha is the same; others as they are.

        ON_SIDE in place of a piece where the plateau goes on beyond a side (floors.py).
        """
        beside, at = pieces.copy(), points.copy()
        for floor in self.floors:
            own = np.flatnonzero(np.isin(pieces, floor.pieces))
            with np.errstate(invalid="ignore"):
                at[own] = floor.within(points[own])
                least, there = floor.least(at[own])
                at[own, floor.axis] = np.fmin(points[own, floor.axis], least * points[own, L])
            beside[own] = np.where((there >= 0) | (there == ON_SIDE), there, pieces[own])
        return beside, at

    def beside_at_infinity(self, point: Floats) -> int:
        """A piece whose alpha holds at homogeneous costs (3,) with l = 0; -1: zero is valid there."""
        piece = int(self(point[None])[0])
        for floor in self.floors:
            if piece in floor.pieces:
                return floor.beside_at_infinity(point)
        return piece

    def _on_plateaus(self, points: Floats) -> Ints:
        """The plateaus that hold some points, without jitter; NOWHERE if there is none. Jitter bends them: no walk is to be
        trusted there.
        """
        found = np.full(len(points), NOWHERE)
        for floor, true in zip(self.floors, self.true_floors, strict=True):
            least, _ = true.least(points)
            with np.errstate(invalid="ignore"):
                found[least * points[:, L] * (1.0 - ROUNDING) <= points[:, floor.axis]] = floor.pieces[0]
        return found

    def near(self, point: Floats, count: int = 64) -> Ints:
        """True pieces around a point, so many or a few less; the nearest, counted in edges, first."""
        around = self._around(point, count)
        return around[self.facet[around] >= 0][:count]

    def near_ties(self, point: Floats, count: int = 64) -> Ints:
        """The ties around a point: in a region that is thinner than the jitter a piece may be taken for one."""
        around = self._around(point, count)
        return around[self.facet[around] < 0][:count]

    def _around(self, point: Floats, count: int) -> Ints:
        """Pieces, true ones and ties, around the places where walks to a point end, if only at a hole."""
        mesh, ways = self.mesh, min(WAYS, self.starts.size)
        _, nearest = self.coarse.query(_flatten(point[None])[0], k=ways)
        starts, points = self.starts[np.atleast_1d(nearest)], np.repeat(point[None], ways, axis=0)
        _, ends = _walk(*_arrays(mesh), np.zeros_like(self.facet), starts, points)
        around: Ints = _spread(mesh.facet_at, mesh.facet_edges, mesh.edge_facets, ends, SPREAD * count)
        return around

    def _through_ties(self, piece: int) -> Iterator[int]:
        """A piece, or if it is a tie the true ones that are reached from it through ties only, the nearest first."""
        waiting, seen, mesh = [piece], set(), self.mesh
        while waiting:
            f = waiting.pop(0)
            if f < 0 or f in seen:
                continue
            seen.add(f)
            if self.facet[f] >= 0:
                yield f
            else:
                beside = mesh.edge_facets[mesh.facet_edges[mesh.facet_at[f] : mesh.facet_at[f + 1]]]
                waiting += beside[beside != f].tolist()

    def facets(self, pieces: Ints, points: Floats) -> Ints:
        """The facets of points in pieces; of several that hold a point, be it only without jitter, the lowest."""
        facets, mesh = self.facet[pieces].astype(np.intp), self.canonical.mesh
        for n in np.flatnonzero(facets < 0):
            facets[n] = self.facet_of(int(pieces[n]))
        if mesh is self.mesh:
            return facets
        found, _ = _walk(*_arrays(mesh), self._numbers, facets, points)
        return np.where(found == NOWHERE, facets, found)

    @cached_property
    def _numbers(self) -> Int32:
        """The numbers of all facets."""
        return np.arange(self.canonical.mesh.facet_layer.size, dtype=np.int32)

    def facet_of(self, piece: int) -> int:
        """The facet of a piece; of a tie one beside it; NOWHERE if there is none."""
        return next((int(self.facet[f]) for f in self._through_ties(piece)), NOWHERE)

    def _search(self, point: Floats) -> int:
        """Try the true pieces nearby, then all of them."""
        mesh = self.mesh
        for facets, slack in ((self.near(point), ROUNDING), (self.true, SLACK)):
            f, depth = _try_some(mesh.vertices, mesh.facet_at, mesh.facet_vertices, facets, point)
            if depth >= -slack:
                return int(f)
        return NOWHERE


def _arrays(mesh: Mesh) -> tuple[npt.NDArray[Any], ...]:
    """What a walk needs of a mesh."""
    return mesh.vertices, mesh.facet_at, mesh.facet_vertices, mesh.facet_edges, mesh.edge_facets


def _middles(mesh: Mesh, pieces: Ints) -> Floats:
    """Middles (n, 3) of some facets of a mesh, homogeneous costs."""
    if pieces.size == 0:
        return np.empty((0, 3))
    begin, size = mesh.facet_at[pieces], mesh.facet_at[pieces + 1] - mesh.facet_at[pieces]
    first = np.cumsum(size) - size
    places = np.repeat(begin - first, size) + np.arange(size.sum())
    corner = mesh.vertices[mesh.facet_vertices[places]]
    corner = corner / corner.sum(axis=1, keepdims=True)
    middles: Floats = np.add.reduceat(corner, first, axis=0) / size[:, None]
    return middles


def _flatten(c: Floats) -> Floats:
    """Homogeneous costs as (log C+, log C-), cut off far out: near points are near facets."""
    tiny = 2.0**-200
    p, q, l = np.maximum(c, tiny * c.max(axis=1, keepdims=True)).T
    return np.column_stack([np.log(p / l), np.log(q / l)])
