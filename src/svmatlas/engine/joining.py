"""The facets of all tiles -> the subdivision as flat arrays.

``Joiner`` takes the facets of tile after tile, joins what was cut, finds the layers from the start on, and numbers facets,
edges and vertices (mesh.py): the result does not depend on the tiles. A tile knows which of its facets are neighbours and
which corners are one vertex; only facets that were cut, and their vertices, are merged by name.
"""

from __future__ import annotations

from concurrent.futures import Executor
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from svmatlas.engine.arena import (
    CROWDED,
    FAR,
    LIKELY,
    OPEN,
    PLAIN,
    PLATEAU_SLIVER,
    POSITIVE_PLATEAU,
    SLIM,
    TIE,
    UNSURE,
)
from svmatlas.engine.compiled import entry, kernel, kernel_alloc
from svmatlas.engine.mesh import AROUND, FAR_OUT, PLACE, Mesh, Split, in_parts, is_far_out, number_all, take_lists
from svmatlas.engine.names import corner_of_triangle, identify, key_of, number_names, root_of
from svmatlas.engine.plateaus import Ring, UnclosedError, find_facing, find_rings
from svmatlas.engine.tie_test import THIN, WIDE, is_far, is_suspect
from svmatlas.engine.tile import Engine, Facets
from svmatlas.engine.workspace import CUT, P, Q, Region, Words
from svmatlas.support.stopping import NEVER, Limit, Stopped

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Int32 = npt.NDArray[np.int32]
States = npt.NDArray[np.int8]


class Joiner:
    """Collects the facets of tiles and joins those that are the same on both sides of a cut, by their keys.

    The layers are to be found from the facet with the partition ``start`` on.
    """

    def __init__(self, engine: Engine, region: Region, start: States) -> None:
        self.engine = engine
        self.region = region
        self.start = start
        self.key = key_of(start, engine.words)
        self.root = -1  # number of a piece of the facet of the start
        self.first: tuple[int, Facets] | None = None  # the first tile, and the number of its first facet
        self.at, self.kind = _Growing(np.zeros(1, dtype=np.intp)), _Growing(np.empty(0, dtype=np.int8))
        self.place = _Growing(np.empty(0, PLACE))
        self.corner = _Growing(np.empty((0, 3)))
        self.around = _Growing(np.empty(0, AROUND))  # of each vertex
        self.cut: list[tuple[Ints, Words]] = []  # numbers and keys of facets that were cut
        self.shared: list[tuple[Ints, Words]] = []  # numbers and names of vertices that other tiles may have too
        self.loose: list[Ints] = []  # places where these are named

    def add(self, facets: Facets) -> None:
        """Take the facets of a tile; their partitions are not kept."""
        n_facets, n_places, n_vertices = self.kind.size, self.place.size, self.corner.size
        cut, shared, loose = _find_cut(facets.at, facets.code, facets.vertex, facets.neighbour, facets.corner)
        self.cut.append((cut + n_facets, facets.key[cut]))
        self.shared.append((shared + n_vertices, facets.name[shared]))
        self.loose.append(loose + n_places)
        known = np.flatnonzero((facets.key == self.key) & (np.diff(facets.at) > 0))
        if known.size > 0:
            self.root = n_facets + int(known[0])
        if facets.code.size > 0:
            self.first = self.first or (n_facets, facets.bare())
        self.at.append(facets.at[1:] + n_places)
        self.kind.append(facets.kind)
        self.corner.append(facets.corner)
        place, around = self.place.grow(facets.code.size), self.around.grow(len(facets.corner))
        _take(facets.at, facets.code, facets.vertex, facets.neighbour, facets.corner, n_vertices, n_facets, place, around)

    def finish(self, pool: Executor, limit: Limit = NEVER) -> Split:
        """All facets that are connected to that of the start, numbered layer after layer from there; Stopped if there is none.

        What takes exact arithmetic is left when the limit says so: a facet that was cut is then a tie if all its pieces are.
        """
        if self.place.size == 0:
            raise UnclosedError if self.engine.plateaus.any() and self.kind.size > 0 else Stopped
        n_pieces = self.kind.size
        now, one = self._stitch(), self._one_each()
        arrays = self.at, self.kind, self.place, self.corner, self.around
        at, _, place, corner, around = (part.view() for part in arrays)
        cut, shared = (np.concatenate([which for which, _ in parts]) for parts in (self.cut, self.shared))
        _mend(n_pieces, cut, shared, np.concatenate(self.loose), now, one, at, corner, place, around)
        root, start = self._find_root(now)
        n_whole = self.kind.size
        doors = self._add_plateaus(root)
        at, kind, place, corner, around = (part.hand_over() for part in arrays)
        order, mesh, flips = number_all(pool, root, at, place, around, corner, doors)
        split = Split(mesh, flips, kind[order], start)
        joined = (order >= n_pieces) & (order < n_whole)
        del order, at, kind, place, corner, around, now, one
        doubtful = (joined & (split.kind == TIE)) | (split.kind == UNSURE) | (split.kind == LIKELY)
        self._judge_all(pool, np.flatnonzero(doubtful), split, limit)
        return split._replace(mesh=mesh._replace(vertices=_join_at_infinity(mesh)))

    def _stitch(self) -> Int32:
        """Append the facets that were cut as a whole; returns what is now the number of each facet, -1 if it is not known."""
        now = np.arange(self.kind.size, dtype=np.int32)
        cut, key = (np.concatenate(part) for part in zip(*self.cut, strict=True))
        _, group = number_names(key)
        counts = np.bincount(group)
        order = cut[_sort(group, counts)]
        at, places = _stitch(counts, order, self.at.view(), self.place.view(), self.corner.view())
        whole = now.size + np.arange(counts.size, dtype=np.int32)
        whole[np.diff(at) == 0] = -1
        now[cut] = whole[group]
        self.at.append(at[1:] + self.place.size)
        kinds = self.kind.view()[order]
        known = (kinds != TIE) & (kinds < UNSURE)
        low, high, some = (
            rule.reduceat(values, np.cumsum(counts) - counts)
            for rule, values in ((np.minimum, kinds), (np.maximum, kinds), (np.logical_or, known))
        )
        # What has area in one part has area; a point that is tied is so in each part.
        self.kind.append(np.where((low == high) | (low == PLAIN), low, np.where(some, CROWDED, UNSURE)))
        self.place.append(self.place.view()[places])
        return np.concatenate([now, whole])

    def _one_each(self) -> Int32:
        """For each vertex one of those that are the same, in whatever tiles."""
        one = np.arange(self.corner.size, dtype=np.int32)
        shared, name = (np.concatenate(part) for part in zip(*self.shared, strict=True))
        first, group = number_names(name)
        one[shared] = shared[first[group]]
        return one

    def _find_root(self, now: Int32) -> tuple[int, States]:
        """The facet of the start, or where the exploration was stopped before all of it was known, the next of its tile."""
        if self.root >= 0 and now[self.root] >= 0:
            return int(now[self.root]), self.start
        assert self.first is not None
        number, facets = self.first
        known = np.flatnonzero((now[number : number + facets.key.size] >= 0) & (np.diff(facets.at) > 0))
        if known.size == 0:
            raise Stopped
        return int(now[number + known[0]]), facets.state(int(known[0]))

    def _add_plateaus(self, root: int) -> list[Ints]:
        """Append the facets that plateaus are, which were left out.

        Of each the places whose edges lead to partitions with |M| = rank. Slivers have none.
        """
        at, kind, place, corner = self.at.view(), self.kind.view(), self.place.view(), self.corner.view()
        facing = find_facing(root, at, place)
        axes, doors = (P, Q) if facing.size > 0 else (), []
        found = [(axis, ring) for axis in axes for ring in find_rings(int(axis), facing, at, place, kind, corner, self.region)]
        for axis, ring in found:
            vertex, number, whole = self._add_corners(ring), self.kind.size, bool(ring.is_full.any())
            self.place.view()["behind"][ring.twin[ring.twin >= 0]] = number
            around = self.around.view()
            np.bitwise_xor.at(around["facets"], vertex, number)
            np.add.at(around["count"], vertex, 1)
            first, more = self.place.size, self.place.grow(vertex.size)
            more["code"], more["vertex"], more["behind"] = ring.code, vertex, ring.behind
            self.at.append(np.array([self.place.size]))
            self.kind.append(np.array([POSITIVE_PLATEAU + axis if whole else PLATEAU_SLIVER]))
            doors.append(first + np.flatnonzero(ring.is_full if whole else ring.twin >= 0))
        return doors

    def _add_corners(self, ring: Ring) -> Ints:
        """Append the corners of the region that a plateau holds to the vertices. Returns the vertices of its ring."""
        new, number = np.unique(ring.vertex[ring.vertex < 0], return_inverse=True)
        vertex, corners = ring.vertex.copy(), self.region.corners[-1 - new]
        vertex[vertex < 0] = self.corner.size + number
        self.corner.append(corners)
        around = self.around.grow(new.size)
        around["facets"], around["number"] = 0, -1
        around["count"] = np.where(np.count_nonzero(corners, axis=1) == 1, -FAR_OUT, 0)
        return vertex

    def _judge_all(self, pool: Executor, doubtful: Ints, split: Split, limit: Limit) -> None:
        """Whether some facets are ties, seen as a whole. None is that is not thin."""
        mesh = split.mesh
        suspect = _suspects(doubtful, mesh.facet_at, mesh.vertices, mesh.facet_vertices)
        kind = split.kind[doubtful]
        known = (suspect > 0) | ((kind != TIE) & (kind < UNSURE))
        split.kind[doubtful] = np.where(known, kind, CROWDED)

        def judge(which: Ints) -> None:
            facets = doubtful[which]
            own, edges = take_lists(mesh.facet_at, mesh.facet_edges, facets)
            with suppress(Stopped):
                limit.check()
                tie = self.engine.judge(self.region, split.states(facets), suspect[which], own, mesh.edge_code[edges], limit)
                split.kind[facets] = np.where(tie, TIE, CROWDED)

        for _ in pool.map(judge, in_parts(np.flatnonzero(suspect), PART)):
            pass


PART = 256
"""Facets that are judged at once: some milliseconds, or in high dimensions 0.1 s."""


class _Growing:
    """An array to which others are appended."""

    def __init__(self, first: npt.NDArray[Any]) -> None:
        self.memory = first
        self.size = len(first)

    def grow(self, n: int) -> npt.NDArray[Any]:
        """Room for more, to be filled."""
        start, self.size = self.size, self.size + n
        if self.size > len(self.memory):
            old = self.memory
            self.memory = np.empty((4 * self.size, *old.shape[1:]), dtype=old.dtype)  # takes no memory until it is filled
            self.memory[:start].view(np.uint8)[...] = old[:start].view(np.uint8)  # NumPy copies records by fields
        return self.memory[start : self.size]

    def append(self, more: npt.NDArray[Any]) -> None:
        """More."""
        self.grow(len(more))[...] = more

    def view(self) -> npt.NDArray[Any]:
        """What is there."""
        return self.memory[: self.size]

    def hand_over(self) -> npt.NDArray[Any]:
        """The same, given away."""
        given, self.memory = self.view(), np.empty(0)
        return given


@entry
def _sort(number, counts):
    """Places in the order of their numbers."""
    at = np.cumsum(counts) - counts
    order = np.empty(number.size, np.int64)
    for k in range(number.size):
        order[at[number[k]]] = k
        at[number[k]] += 1
    return order


@entry
def _take(at, code, vertex, neighbour, corner, n_vertices, n_facets, place, around):
    """The places of a tile, where so many vertices and facets are already, and what is around its vertices."""
    for v in range(corner.shape[0]):
        around[v].facets, around[v].count, around[v].number = 0, -FAR_OUT if is_far_out(corner, v) else 0, -1
    for f in range(at.size - 1):
        for k in range(at[f], at[f + 1]):
            place[k].code, place[k].vertex = code[k], vertex[k] + n_vertices
            place[k].behind = neighbour[k] + n_facets if neighbour[k] >= 0 else neighbour[k]
            around[vertex[k]].facets ^= f + n_facets
            around[vertex[k]].count += 1


@entry
def _find_cut(at, code, vertex, neighbour, corner):
    """Of a tile the facets that have an edge on a cut, the vertices that other tiles may have too, and where both are named.

    Such vertices are those of such facets, and those far out.
    """
    is_cut, shared = np.zeros(at.size - 1, np.bool_), np.zeros(corner.shape[0], np.bool_)
    for k in range(code.size):
        if code[k] <= CUT_CODE:
            is_cut[np.searchsorted(at, k, "right") - 1] = True
    cut = np.flatnonzero(is_cut)
    for f in cut:
        for k in range(at[f], at[f + 1]):
            shared[vertex[k]] |= code[k] > CUT_CODE and code[k + 1 if k + 1 < at[f + 1] else at[f]] > CUT_CODE
    for v in range(corner.shape[0]):
        shared[v] |= is_far_out(corner, v)
    loose, n_loose = np.empty(code.size, np.int64), 0
    for k in range(code.size):
        loose[n_loose] = k
        n_loose += shared[vertex[k]] or (neighbour[k] >= 0 and is_cut[neighbour[k]])
    return cut, np.flatnonzero(shared), loose[:n_loose].copy()


@entry
def _stitch(counts, order, at, place, corner):
    """The polygons of facets from their pieces in tiles: places of their corners, in order; none where a piece is missing.

    A corner of a piece is one of the facet unless it is on a cut; it follows from which edges meet in it where the pieces
    belong. Only in a corner of the triangle of costs, where cuts may end too, two edges can meet that no piece has both of.
    """
    n, size = counts.size, 0
    for piece in order:
        size += at[piece + 1] - at[piece] + 3
    whole_at, places = np.zeros(n + 1, np.int64), np.empty(size, np.int64)
    edge, following, used = np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64, np.int64)
    ends, starts, spare = np.empty(3, np.int64), np.empty(3, np.int64), np.empty(3, np.int64)
    first, end = 0, 0
    for f in range(n):
        links = 0
        ends[:], starts[:], spare[:] = NO_EDGE, NO_EDGE, -1
        for piece in order[first : first + counts[f]]:
            while links + at[piece + 1] - at[piece] + 3 > edge.size:
                edge, following, used = _longer(edge), _longer(following), _longer(used)
            for k in range(at[piece], at[piece + 1]):
                a = np.int64(place[k].code)
                b = np.int64(place[k + 1 if k + 1 < at[piece + 1] else at[piece]].code)
                if a > CUT_CODE and b > CUT_CODE:
                    edge[links], following[links], used[links] = a, b, k
                    links += 1
                    continue
                c = corner_of_triangle(corner[place[k].vertex])
                if c >= 0 and a > CUT_CODE:
                    ends[c], spare[c] = a, k
                if c >= 0 and b > CUT_CODE:
                    starts[c] = b
        first += counts[f]
        for c in range(3):
            if ends[c] != NO_EDGE and starts[c] != NO_EDGE:
                edge[links], following[links], used[links] = ends[c], starts[c], spare[c]
                links += 1
        end += _follow_links(edge[:links], following, used, places[end:])
        whole_at[f + 1] = end
    return whole_at, places[:end].copy()


@kernel
def _follow_links(edge, following, used, places):
    """Put down the places of the corners of a polygon in order, the largest edge first. Returns how many; 0 if it is open."""
    largest = 0
    for k in range(edge.size):
        if edge[k] > edge[largest]:
            largest = k
    k = largest
    for step in range(edge.size):
        places[step] = used[k]
        wanted, k = following[k], -1
        for other in range(edge.size):
            if edge[other] == wanted:
                k = other
        if k < 0 or (k == largest) != (step == edge.size - 1):
            return 0
    return edge.size


@entry
def _mend(n_pieces, cut, shared, loose, now, one, at, corner, place, around):
    """Whole facets, from number n_pieces on, and one of all vertices that are the same take the place of pieces and others."""
    for f in cut:
        for k in range(at[f], at[f + 1]):
            v = place[k].vertex
            around[v].facets ^= f
            around[v].count -= 1
    for v in shared:
        if one[v] != v:
            around[one[v]].facets ^= around[v].facets
            around[one[v]].count += around[v].count + (FAR_OUT if is_far_out(corner, v) else 0)
    for k in loose:
        _bring_up_to_date(k, now, one, place)
    for f in range(n_pieces, now.size):
        for k in range(at[f], at[f + 1]):
            _bring_up_to_date(k, now, one, place)
            v = place[k].vertex
            around[v].facets ^= f
            around[v].count += 1


@kernel
def _bring_up_to_date(k, now, one, place):
    """Vertex and neighbour of a place."""
    behind, place[k].vertex = place[k].behind, one[place[k].vertex]
    if behind >= 0:
        place[k].behind = now[behind] if now[behind] >= 0 else OPEN


@entry
def _suspects(facets, at, corner, places):
    """Which of some facets are thin, 1, SLIM or FAR. Corner k of all facets is corner[places[k]]."""
    out = np.zeros(facets.size, np.int8)
    for j in range(facets.size):
        f = facets[j]
        n = at[f + 1] - at[f]
        polygon = np.empty((n, 3))
        for k in range(n):
            for c in range(3):
                polygon[k, c] = corner[places[at[f] + k], c]
        slim = is_suspect(polygon, n, WIDE)
        out[j] = FAR if is_far(polygon, n) else (SLIM if slim and not is_suspect(polygon, n, THIN) else slim)
    return out


@kernel_alloc
def _longer(array):
    return np.concatenate((array, np.empty_like(array)))


NO_EDGE = -(2**40)


CUT_CODE = -1 - CUT
"""Codes up to this are of cuts."""


def _join_at_infinity(mesh: Mesh) -> Floats:
    """Give one number to corners at infinity that end the same edge, in place; returns the vertices then.

    Where rows depend on each other several strips may end in one point at infinity, and each has named it after itself. An
    edge of an event has at most one end there, so all corners at infinity of the places of one edge are the same point.
    """
    one = _find_same_at_infinity(mesh.vertices, mesh.facet_at, mesh.facet_edges, mesh.facet_vertices, mesh.edge_code)
    kept = one == np.arange(one.size)
    if kept.all():
        return mesh.vertices
    number = (np.cumsum(kept) - 1)[one].astype(np.int32)
    mesh.facet_vertices[:], mesh.edge_vertices[:] = number[mesh.facet_vertices], number[mesh.edge_vertices]
    left: Floats = mesh.vertices[kept]
    return left


@entry
def _find_same_at_infinity(vertices, at, edges, corner, edge_code):
    """For each vertex the first of those that are the same. A corner ends one edge of its facet, and begins the next."""
    one, end = np.arange(vertices.shape[0]), np.full(edge_code.size, -1, np.int32)
    for f in range(at.size - 1):
        for k in range(at[f], at[f + 1]):
            v = corner[k]
            if vertices[v, 2] != 0.0 or not (vertices[v, 0] > 0.0 and vertices[v, 1] > 0.0):
                continue
            for e in (edges[k], edges[k + 1 if k + 1 < at[f + 1] else at[f]]):
                if edge_code[e] >= 0 and end[e] >= 0:
                    identify(one, v, end[e])
                elif edge_code[e] >= 0:
                    end[e] = v
    for v in range(one.size):
        one[v] = root_of(one, v)
    return one
