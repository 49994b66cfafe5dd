"""The facets of all tiles -> the subdivision as flat arrays.

``Joiner`` takes the facets of tile after tile, joins what was cut, finds the layers from the start on, and numbers facets,
edges and vertices: the result does not depend on the tiles. A tile knows which of its facets are neighbours and which corners
are one vertex; only facets that were cut, and their vertices, are merged by name. Partitions are recovered by walking up the
parents (``states_of``).
"""

from __future__ import annotations

from concurrent.futures import Executor
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from svmatlas.compiled import caller, entry, kernel, owner
from svmatlas.facet import CUT, Region
from svmatlas.layers import (
    OPEN,
    Engine,
    Facets,
    Words,
    corner_of_triangle,
    facet_of,
    key_of,
    number_names,
    states_of,
)
from svmatlas.polygon import is_far, is_suspect
from svmatlas.threads import make_pool

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Int32 = npt.NDArray[np.int32]
States = npt.NDArray[np.int8]


class Mesh(NamedTuple):
    """Vertices, edges and facets with their connectivity. Codes: 2 * point + type, or -1 - side."""

    vertices: Floats  # (V, 3)
    edge_code: Int32  # (E,)
    edge_facets: Int32  # (E, 2) facet numbers; the second may be BOUNDARY or OPEN
    edge_vertices: Int32  # (E, 2)
    facet_layer: Int32  # (F,)
    facet_parent: Int32  # (F,) facet of the layer before, -1 for the first
    facet_flips: Int32  # (F, 2) codes crossed from the parent
    facet_at: Ints  # (F + 1,) facet f has the entries facet_at[f] : facet_at[f + 1] of the next two
    facet_edges: Int32  # edges in order
    facet_vertices: Int32  # the vertex at the end of that edge
    facet_tie: npt.NDArray[np.bool_]  # (F,) exists only because of the jitter
    start: States  # (N,) partition of facet 0


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
        self.at, self.tie = _Growing(np.zeros(1, dtype=np.intp)), _Growing(np.empty(0, dtype=np.bool_))
        self.place = _Growing(np.empty((0, 3), dtype=np.int32))  # by the names below
        self.corner = _Growing(np.empty((0, 3)))
        self.cut: list[tuple[Ints, Words]] = []  # numbers and keys of facets that were cut
        self.shared: list[tuple[Ints, Words]] = []  # numbers and names of vertices that other tiles may have too

    def add(self, facets: Facets) -> None:
        """Take the facets of a tile; their partitions are not kept."""
        n_facets, n_places, n_vertices = self.tie.size, self.place.size, self.corner.size
        cut, shared = _find_cut(facets.at, facets.code, facets.vertex, facets.corner)
        self.cut.append((cut + n_facets, facets.key[cut]))
        self.shared.append((shared + n_vertices, facets.name[shared]))
        known = np.flatnonzero(facets.key == self.key)
        if known.size > 0:
            self.root = n_facets + int(known[0])
        self.first = self.first or (n_facets, facets.bare())
        self.at.append(facets.at[1:] + n_places)
        self.tie.append(facets.tie)
        self.corner.append(facets.corner)
        place = self.place.grow(facets.code.size)
        _take(facets.code, facets.vertex, facets.neighbour, n_vertices, n_facets, place)

    def finish(self, n_jobs: int = 1) -> Mesh:
        """All facets that are connected to that of the start, numbered layer after layer from there."""
        n_pieces = self.tie.size
        now = self._stitch()
        at, tie, place, corner = (part.hand_over() for part in (self.at, self.tie, self.place, self.corner))
        around = _look_around(at, place, now, self._one_each(), corner)
        root, start = self._find_root(now)
        del now
        number, order, layer, parent, flips, new_at, edge_at, origin = _walk_layers(root, at, place, around)
        edges, vertex = (np.empty(new_at[-1], dtype=np.int32) for _ in range(2))
        code, vertices = np.empty(edge_at[-1], dtype=np.int32), np.empty((origin.size, 3))
        edge_facets, edge_vertices = (np.empty((code.size, 2), dtype=np.int32) for _ in range(2))
        with make_pool(n_jobs) as pool:
            old = number, order, at, place, around, corner, origin
            new = new_at, edge_at, edges, vertex, code, edge_facets, edge_vertices, vertices
            parts = (np.linspace(0, size, n_jobs + 1, dtype=np.intp) for size in (order.size, origin.size))
            for future in [pool.submit(_put_down, *of, *old, *new) for of in zip(*map(pairwise, parts), strict=True)]:
                future.result()
            tie, joined = tie[order], order >= n_pieces
            del old, new, number, order, at, place, around, corner, origin, edge_at
            suspects = _suspects(joined, new_at, vertices, vertex)
            self._judge_all(pool, suspects, parent, flips, start, new_at, code, edges, tie)
        vertices = _join_at_infinity(vertices, vertex, edge_vertices, edges, code, new_at)
        return Mesh(vertices, code, edge_facets, edge_vertices, layer, parent, flips, new_at, edges, vertex, tie, start)

    def _stitch(self) -> Int32:
        """Append the facets that were cut as a whole; returns what is now the number of each facet, -1 if it is not known."""
        now = np.arange(self.tie.size, dtype=np.int32)
        cut, key = (np.concatenate(part) for part in zip(*self.cut, strict=True))
        _, group = number_names(key)
        counts = np.bincount(group)
        order = cut[_sort(group, counts)]
        at, places = _stitch(counts, order, self.at.view(), self.place.view(), self.corner.view())
        whole = now.size + np.arange(counts.size, dtype=np.int32)
        whole[np.diff(at) == 0] = -1
        now[cut] = whole[group]
        self.at.append(at[1:] + self.place.size)
        self.tie.append(np.zeros(counts.size, dtype=np.bool_))
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
        known = np.flatnonzero(now[number : number + facets.key.size] >= 0)
        if known.size == 0:
            raise ValueError("the exploration was stopped before a single facet was known: give it more time")
        return int(now[number + known[0]]), facets.state(int(known[0]))

    def _judge_all(
        self,
        pool: Executor,
        suspect: npt.NDArray[np.int8],
        parent: Int32,
        flips: Int32,
        start: States,
        at: Ints,
        edge_code: Int32,
        slot_edge: Int32,
        tie: npt.NDArray[np.bool_],
    ) -> None:
        """Whether facets that were cut are ties, seen as a whole."""

        def judge(facets: Ints) -> None:
            sizes = at[facets + 1] - at[facets]
            own = np.concatenate([[0], np.cumsum(sizes)])
            places = np.repeat(at[facets] - own[:-1], sizes) + np.arange(own[-1])
            states, far = states_of(facets, parent, flips, start), suspect[facets] == FAR
            tie[facets] = self.engine.judge(self.region, states, far, own, edge_code[slot_edge[places]])

        doubt = np.flatnonzero(suspect)
        parts = np.array_split(doubt, doubt.size // 1024 + 1)  # one, if only of none, so that the first map compiles all
        for _ in pool.map(judge, parts):
            pass


CODE, VERTEX, BEHIND = range(3)
"""Of a place: the code of the edge, the vertex at its end, the facet behind it."""


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
            self.memory = np.empty((2 * self.size, *old.shape[1:]), dtype=old.dtype)  # takes no memory until it is filled
            self.memory[:start] = old[:start]
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
def _take(code, vertex, neighbour, n_vertices, n_facets, place):
    """The places of a tile, where so many vertices and facets are already."""
    for k in range(code.size):
        place[k, CODE], place[k, VERTEX] = code[k], vertex[k] + n_vertices
        place[k, BEHIND] = neighbour[k] + n_facets if neighbour[k] >= 0 else neighbour[k]


@entry
def _find_cut(at, code, vertex, corner):
    """The facets of a tile that have an edge on a cut; the vertices that other tiles may have too: of those, or far away."""
    cut, n_cut, shared = np.empty(at.size - 1, np.int64), 0, np.zeros(corner.shape[0], np.bool_)
    for f in range(at.size - 1):
        whole = True
        for k in range(at[f], at[f + 1]):
            whole = whole and code[k] > CUT_CODE
        if whole:
            continue
        cut[n_cut] = f
        n_cut += 1
        for k in range(at[f], at[f + 1]):
            shared[vertex[k]] |= code[k] > CUT_CODE and code[k + 1 if k + 1 < at[f + 1] else at[f]] > CUT_CODE
    for v in range(corner.shape[0]):
        shared[v] |= _is_far_out(corner[v])
    return cut[:n_cut].copy(), np.flatnonzero(shared)


@kernel
def _is_far_out(v):
    """Is a vertex at infinity, or a corner of the triangle of costs? Any number of facets may meet there."""
    return v[2] == 0.0 or corner_of_triangle(v) >= 0


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
                a = np.int64(place[k, CODE])
                b = np.int64(place[k + 1 if k + 1 < at[piece + 1] else at[piece], CODE])
                if a > CUT_CODE and b > CUT_CODE:
                    edge[links], following[links], used[links] = a, b, k
                    links += 1
                    continue
                c = corner_of_triangle(corner[place[k, VERTEX]])
                if c >= 0 and a > CUT_CODE:
                    ends[c], spare[c] = a, k
                if c >= 0 and b > CUT_CODE:
                    starts[c] = b
        first += counts[f]
        for c in range(3):
            if ends[c] != NO_EDGE and starts[c] != NO_EDGE:
                edge[links], following[links], used[links] = ends[c], starts[c], spare[c]
                links += 1
        least = 0
        for k in range(links):
            if edge[k] > edge[least]:
                least = k
        k = least
        for step in range(links):
            places[end + step] = used[k]
            wanted, k = following[k], -1
            for other in range(links):
                if edge[other] == wanted:
                    k = other
            if k < 0 or (k == least) != (step == links - 1):
                links = 0
                break
        end += links
        whole_at[f + 1] = end
    return whole_at, places[:end].copy()


@entry
def _look_around(at, place, now, one, corner):
    """Bring vertices and neighbours of all whole facets up to date; returns what is around vertices.

    That is the XOR of the numbers of their facets; how many they are, FAR_OUT less if any number may be; -1.
    """
    around = np.zeros((one.size, 3), np.int32)
    for f in range(at.size - 1):
        if now[f] != f:
            continue
        for k in range(at[f], at[f + 1]):
            v, behind = one[place[k, VERTEX]], place[k, BEHIND]
            place[k, VERTEX] = v
            around[v, 0] ^= f
            around[v, 1] += 1
            if behind >= 0:
                place[k, BEHIND] = now[behind] if now[behind] >= 0 else OPEN
    for v in range(one.size):
        around[v, 2] = -1
        around[v, 1] -= FAR_OUT if _is_far_out(corner[v]) else 0
    return around


FAR_OUT = 2**30
"""More than there are facets around any vertex."""


@entry
def _walk_layers(root, at, place, around):
    """The facets in the order of their layers from the root on, as the four steps of layers.py name them.

    A facet names those behind its edges, and those opposite to the vertices that no facet had before it: the one of the
    facets around a vertex which is neither the facet nor a neighbour. Returns for each facet its number; in the new order the
    facets, their layers, parents and flips, where their places begin and where the edges that they number; and the vertices
    in the order of their numbers, which are in ``around`` then.
    """
    n_facets = at.size - 1
    number = np.full(n_facets, -1, np.int32)
    order, layer, parent = np.empty(n_facets, np.int32), np.empty(n_facets, np.int32), np.empty(n_facets, np.int32)
    flips, origin = np.empty((n_facets, 2), np.int32), np.empty(around.shape[0], np.int32)
    new_at, edge_at = np.zeros(n_facets + 1, np.int64), np.zeros(n_facets + 1, np.int64)
    order[0], layer[0], parent[0], flips[0, 0], flips[0, 1] = root, 0, -1, -1, -1
    number[root], n, v = 0, 1, 0
    for f in range(n_facets):
        if f == n:
            break
        g = order[f]
        first, end, n_new = at[g], at[g + 1], 0
        for k in range(first, end):
            h = place[k, BEHIND]
            if h >= 0 and number[h] < 0:
                number[h], order[n], layer[n], parent[n] = n, h, layer[f] + 1, f
                flips[n, 0], flips[n, 1] = place[k, CODE], -1
                n += 1
            n_new += h < 0 or number[h] > f
        new_at[f + 1], edge_at[f + 1] = new_at[f] + end - first, edge_at[f] + n_new
        for k in range(first, end):
            w = place[k, VERTEX]
            if around[w, 2] >= 0:
                continue
            around[w, 2], origin[v] = v, w
            v += 1
            following = k + 1 if k + 1 < end else first
            h, others = around[w, 0] ^ g, around[w, 1] - 1
            for other in (place[k, BEHIND], place[following, BEHIND]):
                if other >= 0:
                    h ^= other
                    others -= 1
            if others == 1 and number[h] < 0:
                a, b = place[k, CODE], place[following, CODE]
                number[h], order[n], layer[n], parent[n] = n, h, layer[f] + 1, f
                flips[n, 0] = a if b >= 0 and a >= 0 else max(a, b)
                flips[n, 1] = b if b >= 0 and a >= 0 else max(a, b) ^ 1
                n += 1
    return (
        number, order[:n].copy(), layer[:n].copy(), parent[:n].copy(), flips[:n].copy(), new_at[: n + 1].copy(),
        edge_at[: n + 1].copy(), origin[:v].copy(),
    )  # fmt: skip


@caller
def _put_down(
    some_facets, some_vertices, number, order, at, place, around, corner, origin,
    new_at, edge_at, edges, vertex, code, facets, ends, vertices,
):  # fmt: skip
    """The corners of some vertices; the vertices of some facets and the edges that they number, also in the facets behind.

    Two facets share at most one edge, so each place is written once.
    """
    for v in range(some_vertices[0], some_vertices[1]):
        for c in range(3):
            vertices[v, c] = corner[origin[v], c]
    for f in range(some_facets[0], some_facets[1]):
        g, e, new = order[f], edge_at[f], new_at[f]
        first, size = at[g], at[g + 1] - at[g]
        for k in range(size):
            vertex[new + k] = around[place[first + k, VERTEX], 2]
        for k in range(size):
            h = place[first + k, BEHIND]
            if h >= 0 and number[h] < f:
                continue
            edges[new + k], code[e], facets[e, 0], facets[e, 1] = e, place[first + k, CODE], f, h
            ends[e, 0], ends[e, 1] = vertex[new + (k - 1 if k > 0 else size - 1)], vertex[new + k]
            if h >= 0:
                facets[e, 1], there = number[h], new_at[number[h]] - at[h]
                for j in range(at[h], at[h + 1]):
                    if place[j, BEHIND] == g:
                        edges[there + j] = e
            e += 1


@entry
def _suspects(which, at, corner, places):
    """Which of some facets may be ties: FAR or 1. Corner k of all facets is corner[places[k]]."""
    out = np.zeros(which.size, np.int8)
    for f in np.flatnonzero(which):
        n = at[f + 1] - at[f]
        polygon = np.empty((n, 3))
        for k in range(n):
            for c in range(3):
                polygon[k, c] = corner[places[at[f] + k], c]
        out[f] = FAR if is_far(polygon, n) else is_suspect(polygon, n)
    return out


FAR = 2
"""Marks facets that only exact arithmetic can tell to be ties."""


@owner
def _longer(array):
    return np.concatenate((array, np.empty_like(array)))


NO_EDGE = -(2**40)
CUT_CODE = -1 - CUT
"""Codes up to this are of cuts."""


def _after(corner: Ints, at: Ints) -> Ints:
    """The corners after some in their facets."""
    facet = facet_of(corner, at)
    return np.where(corner + 1 == at[facet + 1], at[facet], corner + 1)


def _join_at_infinity(
    vertices: Floats, vertex: Int32, edge_vertices: Int32, slot_edge: Int32, edge_code: Int32, at: Ints
) -> Floats:
    """Give one number to corners at infinity that end the same edge, in place; returns the vertices then.

    Where rows depend on each other several strips may end in one point at infinity, and each has named it after itself. An
    edge of an event has at most one end there, so all corners at infinity of the places of one edge are the same point.
    """
    far = (vertices[:, 2] == 0) & (vertices[:, 0] > 0) & (vertices[:, 1] > 0)
    if not far.any():
        return vertices
    infinite = np.flatnonzero(far[vertex])
    corner = np.concatenate([infinite, infinite])
    edge = slot_edge[np.concatenate([infinite, _after(infinite, at)])]  # a corner ends one edge of its facet, begins the next
    event = edge_code[edge] >= 0
    corner, edge = corner[event], edge[event]
    unique, label = np.unique(vertex[infinite], return_inverse=True)
    which = label[np.searchsorted(infinite, corner)]
    graph = coo_array((np.ones(edge.size), (which, edge)), shape=(unique.size, edge_code.size)).tocsr()
    n_groups, group = connected_components(graph @ graph.T, directed=False)
    if n_groups == unique.size:
        return vertices
    _, first = np.unique(group, return_index=True)
    one = np.arange(len(vertices))
    one[unique] = unique[first[group]]
    kept = one == np.arange(len(vertices))
    number = (np.cumsum(kept) - 1)[one].astype(np.int32)
    vertex[:], edge_vertices[:] = number[vertex], number[edge_vertices]
    left: Floats = vertices[kept]
    return left
