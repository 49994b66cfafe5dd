"""The facets of all tiles -> the subdivision as flat arrays, merged by name.

``Joiner`` takes the facets of tile after tile, joins what was cut, finds the layers from the start on, and numbers facets,
edges and vertices: the result does not depend on the tiles. Partitions are recovered by walking up the parents
(``states_of``).
"""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from svmatlas.compiled import entry, kernel, owner
from svmatlas.facet import CUT, Region
from svmatlas.layers import (
    Engine,
    Facets,
    Words,
    corner_of_triangle,
    facet_of,
    find,
    key_of,
    opposite,
    states_of,
)
from svmatlas.polygon import is_far, is_suspect
from svmatlas.threads import make_pool

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Int32 = npt.NDArray[np.int32]
States = npt.NDArray[np.int8]

BOUNDARY, OPEN = -1, -2
"""In place of a facet's number: nothing, the edge is a side of the region; a facet that was not explored."""


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
    """Collects the facets of tiles and joins those that are the same on both sides of a cut, by their keys."""

    def __init__(self, engine: Engine, region: Region) -> None:
        self.engine = engine
        self.words = engine.words
        self.region = region
        self.parts: list[_Growing] = []
        self.first: Facets | None = None

    def add(self, facets: Facets) -> None:
        """Take the facets of a tile; their partitions are not kept."""
        arrays: list[npt.NDArray[Any]] = [
            facets.key, facets.tie, np.diff(facets.at), facets.code, facets.vertex, facets.corner,
        ]  # fmt: skip
        self.parts = self.parts or [_Growing(array) for array in arrays]
        for part, array in zip(self.parts, arrays, strict=True):
            part.append(array)
        self.first = self.first or facets

    def finish(self, start: States, n_jobs: int = 1) -> Mesh:
        """All facets that are connected to that of a partition, numbered layer after layer from there.

        This is where memory is at its peak: corners are not moved until one is chosen for each vertex.
        """
        with make_pool(n_jobs) as pool:
            return self._finish(start, pool)

    def _finish(self, start: States, pool: Executor) -> Mesh:
        key, tie, sizes, code, vertex, corner = (part.array() for part in self.parts)
        self.parts.clear()
        at = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
        del sizes
        named = pool.submit(_number_vertices, vertex)
        del vertex
        table = make_table(key.size)
        first, piece = number_names(key, *table)
        counts = np.bincount(piece, minlength=first.size)
        order = _sort(piece, counts)
        key, tie, joined = key[first], tie[first], counts > 1
        whole_at, places = _stitch(counts, order, at, code, corner)
        del order, piece, counts, at, first
        start = self._find_root(start, key[np.diff(whole_at) > 0])
        code = code[places]
        number, n_vertices = named.result()
        number = number[places]
        del named
        order, layer, parent, flips, neighbour = _walk_layers(
            *table, key, whole_at, code, number, n_vertices, corner, places, self.words, self.engine.data.axis,
            self.region.axis, key_of(start, self.words),
        )  # fmt: skip
        tie, joined = tie[order] & ~joined[order], joined[order]
        at, code, neighbour, places, vertex = _reorder(order, whole_at, code, neighbour, places, number)
        del whole_at, key, order, number, table
        suspect = _suspects(joined, at, corner, places)
        doubt = np.flatnonzero(suspect)
        parts = np.array_split(doubt, doubt.size // 1024 + 1)  # one, if only of none, so that the first map compiles all
        judged = [pool.submit(self._judge, part, suspect, parent, flips, start, at, code, tie) for part in parts]
        mesh = _number(layer, parent, flips, tie, at, code, vertex, n_vertices, corner, places, neighbour, start)
        for part in judged:
            part.result()
        return mesh

    def _judge(
        self,
        facets: Ints,
        suspect: npt.NDArray[np.int8],
        parent: Int32,
        flips: Int32,
        start: States,
        at: Ints,
        code: Int32,
        tie: npt.NDArray[np.bool_],
    ) -> None:
        """Whether some facets that were cut are ties, seen as a whole."""
        sizes = at[facets + 1] - at[facets]
        own = np.concatenate([[0], np.cumsum(sizes)])
        places = np.repeat(at[facets] - own[:-1], sizes) + np.arange(own[-1])
        states, far = states_of(facets, parent, flips, start), suspect[facets] == FAR
        tie[facets] = self.engine.judge(self.region, states, far, own, code[places])

    def _find_root(self, start: States, whole: Words) -> States:
        """The start, or where the exploration was stopped before all of its facet was known, the next facet of its tile."""
        if key_of(start, self.words) in whole:
            return start
        assert self.first is not None
        known = np.flatnonzero(np.isin(self.first.key, whole))
        if known.size == 0:
            raise ValueError("the exploration was stopped before a single facet was known: give it more time")
        return self.first.state(int(known[0]))


class _Growing:
    """An array to which others are appended: it grows in place, where the parts and their whole would take twice as much."""

    def __init__(self, like: npt.NDArray[Any]) -> None:
        self.memory = np.empty((0, *like.shape[1:]), dtype=like.dtype)
        self.size = 0

    def append(self, more: npt.NDArray[Any]) -> None:
        end = self.size + len(more)
        if end > len(self.memory):
            self._resize(end + end // 16)
        self.memory[self.size : end] = more
        self.size = end

    def array(self) -> npt.NDArray[Any]:
        self._resize(self.size)
        return self.memory

    def _resize(self, size: int) -> None:
        self.memory.resize((size, *self.memory.shape[1:]), refcheck=False)


def make_table(most: int) -> tuple[Words, Int32]:
    """An empty table for so many names, and the numbers that it will find."""
    size = 1 << max(3, (2 * most - 1).bit_length())
    return np.zeros(size, dtype=np.uint64), np.full(size, -1, dtype=np.int32)


@entry
def number_names(names, table, value):
    """Number equal names in the order in which they appear: the first place of each number, and the number of each place.

    The empty table that is given is that of all names then, unless it is too small: then some places have no number.
    """
    first, number = np.empty(table.size, np.int64), np.empty(names.size, np.int32)
    n = 0
    for k in range(names.size):
        if 4 * n > 3 * table.size:
            break
        where = find(table, names[k])
        if value[where] < 0:
            table[where], value[where], first[n] = names[k], n, k
            n += 1
        number[k] = value[where]
    return first[:n].copy(), number


def _number_vertices(names: Words) -> tuple[Int32, int]:
    """Number equal names of corners: the number of each, and how many there are."""
    most = names.size // 4 + 1  # most vertices are of four facets
    while True:
        table, value = make_table(most)
        first, number = number_names(names, table, value)
        if 4 * first.size <= 3 * table.size:
            return number, first.size
        most *= 2


@entry
def _renumber(number, most):
    """Number numbers in the order in which they appear, in place; returns the first place of each."""
    new, first = np.full(most, -1, np.int32), np.empty(most, np.int64)
    n = 0
    for k in range(number.size):
        if new[number[k]] < 0:
            new[number[k]], first[n] = n, k
            n += 1
        number[k] = new[number[k]]
    return first[:n].copy()


@entry
def _sort(number, counts):
    """Places in the order of their numbers."""
    at = np.cumsum(counts) - counts
    order = np.empty(number.size, np.int64)
    for k in range(number.size):
        order[at[number[k]]] = k
        at[number[k]] += 1
    return order


@kernel
def _is_whole(code):
    """Is none of some edges on a cut?"""
    for k in range(code.size):
        if code[k] <= CUT_CODE:
            return False
    return True


@kernel
def _turn(code, first, last, places, end):
    """The places first, ..., last - 1 as a cycle from that with the largest code on; returns where they end."""
    largest = first
    for k in range(first, last):
        if code[k] > code[largest]:
            largest = k
    for k in range(largest, last):
        places[end] = k
        end += 1
    for k in range(first, largest):
        places[end] = k
        end += 1
    return end


@entry
def _stitch(counts, order, at, code, corner):
    """The polygons of facets from their pieces in tiles: places of their corners, in order; none where a piece is missing.

    A corner of a piece is one of the facet unless it is on a cut; it follows from which edges meet in it where the pieces
    belong. Only in a corner of the triangle of costs, where cuts may end too, two edges can meet that no piece has both of.
    """
    n = counts.size
    whole_at = np.zeros(n + 1, np.int64)
    places = np.empty(code.size, np.uint32)
    edge, following, used = np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64, np.int64)
    ends, starts, spare = np.empty(3, np.int64), np.empty(3, np.int64), np.empty(3, np.int64)
    first, end = 0, 0
    for f in range(n):
        if counts[f] == 1 and _is_whole(code[at[order[first]] : at[order[first] + 1]]):
            end = _turn(code, at[order[first]], at[order[first] + 1], places, end)
            first += 1
            whole_at[f + 1] = end
            continue
        links = 0
        ends[:], starts[:], spare[:] = NO_EDGE, NO_EDGE, -1
        for piece in order[first : first + counts[f]]:
            while links + at[piece + 1] - at[piece] + 3 > edge.size:
                edge, following, used = _longer(edge), _longer(following), _longer(used)
            for k in range(at[piece], at[piece + 1]):
                a, b = np.int64(code[k]), np.int64(code[k + 1 if k + 1 < at[piece + 1] else at[piece]])
                if a > CUT_CODE and b > CUT_CODE:
                    edge[links], following[links], used[links] = a, b, k
                    links += 1
                    continue
                c = corner_of_triangle(corner[k])
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


@entry
def _walk_layers(table, value, keys, at, code, vertex, n_vertices, corner, places, words, axis, side_axis, start):
    """The facets in the order of their layers from the one with key ``start``, as the four steps of layers.py name them.

    The table finds the number of a key. Corner k of all facets is corner[places[k]]. The first facet of a vertex names all
    that are around it.
    """
    number = np.full(keys.size, -1, np.int32)  # in the new order
    neighbour = np.full(code.size, BOUNDARY, np.int32)
    order = np.empty(keys.size, np.int64)
    layer, parent = np.zeros(keys.size, np.int32), np.full(keys.size, -1, np.int32)
    flips = np.full((keys.size, 2), -1, np.int32)
    seen = np.zeros(n_vertices, np.bool_)
    for f in range(keys.size):
        if at[f] == at[f + 1]:  # only a part of it is known
            value[find(table, keys[f])] = -1
    order[0], n = value[find(table, start)], 1
    number[order[0]] = 0
    for f in range(keys.size):
        if f == n:
            break
        g = order[f]
        for step in range(2):  # behind edges, then opposite to corners
            for k in range(at[g], at[g + 1]):
                a, b = np.int64(code[k]), np.int64(code[k + 1 if k + 1 < at[g + 1] else at[g]])
                key, x, y = np.uint64(0), a, np.int64(-1)
                if step == 1 and not seen[vertex[k]]:
                    seen[vertex[k]] = True
                    key, x, y = opposite(words, axis, side_axis, keys[g], a, b, corner[places[k]])
                elif step == 0 and a >= 0:
                    key = keys[g] ^ words[a]
                if key == np.uint64(0):
                    continue
                h = value[find(table, key)]
                if step == 0:
                    neighbour[k] = h if h >= 0 else OPEN
                if h < 0 or number[h] >= 0:
                    continue
                number[h], order[n], layer[n], parent[n] = n, h, layer[f] + 1, f
                flips[n, 0], flips[n, 1] = x, y
                n += 1
    for k in range(code.size):
        if neighbour[k] >= 0:
            neighbour[k] = number[neighbour[k]]
    return order[:n].copy(), layer[:n].copy(), parent[:n].copy(), flips[:n].copy(), neighbour


@entry
def _reorder(order, at, code, neighbour, places, vertex):
    """Facets in a new order: where each begins, and what is given for each of its corners."""
    new_at = np.zeros(order.size + 1, np.intp)
    for f in range(order.size):
        new_at[f + 1] = new_at[f] + at[order[f] + 1] - at[order[f]]
    size = new_at[-1]
    new_code, new_neighbour, new_places = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.uint32)
    new_vertex = np.empty(size, np.int32)
    for f in range(order.size):
        for k in range(new_at[f + 1] - new_at[f]):
            new, old = new_at[f] + k, at[order[f]] + k
            new_code[new], new_neighbour[new], new_places[new] = code[old], neighbour[old], places[old]
            new_vertex[new] = vertex[old]
    return new_at, new_code, new_neighbour, new_places, new_vertex


def _number(
    layer: Int32,
    parent: Int32,
    flips: Int32,
    tie: npt.NDArray[np.bool_],
    at: Ints,
    code: Int32,
    vertex: Int32,
    n_vertices: int,
    corners: Floats,
    places: npt.NDArray[np.uint32],
    neighbour: Int32,
    start: States,
) -> Mesh:
    """Number vertices and edges."""
    slot_edge, first, before, edge_facets = _number_edges(at, neighbour)
    _join_at_infinity(vertex, corners, places, slot_edge, code, at)
    leader = _renumber(vertex, n_vertices)
    return Mesh(
        corners[places[leader]], code[first], edge_facets, np.column_stack([vertex[before], vertex[first]]),
        layer, parent, flips, at, slot_edge, vertex, tie, start,
    )  # fmt: skip


def _after(corner: Ints, at: Ints) -> Ints:
    """The corners after some in their facets."""
    facet = facet_of(corner, at)
    return np.where(corner + 1 == at[facet + 1], at[facet], corner + 1)


@entry
def _number_edges(at, neighbour):
    """Edge of each place; for each edge the first such place, the place before in its facet, and the two facets.

    Two facets share at most one edge.
    """
    size = neighbour.size
    edge, first, before = np.empty(size, np.int32), np.empty(size, np.uint32), np.empty(size, np.uint32)
    facets = np.empty((size, 2), np.int32)
    n = 0
    for f in range(at.size - 1):
        last = at[f + 1] - 1
        for k in range(at[f], at[f + 1]):
            other = neighbour[k]
            if 0 <= other < f:  # numbered there
                for j in range(at[other], at[other + 1]):
                    if neighbour[j] == f:
                        edge[k] = edge[j]
            else:
                edge[k], first[n], before[n], facets[n, 0], facets[n, 1] = n, k, last, f, other
                n += 1
            last = k
    return edge, first[:n].copy(), before[:n].copy(), facets[:n].copy()


def _join_at_infinity(
    vertex: Int32, corners: Floats, places: npt.NDArray[np.uint32], slot_edge: Int32, code: Int32, at: Ints
) -> None:
    """Give one number to corners at infinity that end the same edge, in place.

    Where rows depend on each other several strips may end in one point at infinity, and each has named it after itself. An
    edge of an event has at most one end there, so all corners at infinity of the places of one edge are the same point.
    """
    far = corners[:, 2] == 0
    if not far.any():
        return
    infinite = np.flatnonzero((far & (corners[:, 0] > 0) & (corners[:, 1] > 0))[places])
    if infinite.size == 0:
        return
    corner = np.concatenate([infinite, infinite])
    place = np.concatenate([infinite, _after(infinite, at)])  # a corner ends one edge of its facet and begins the next
    event = code[place] >= 0
    corner, edge = corner[event], slot_edge[place[event]]
    unique, label = np.unique(vertex[infinite], return_inverse=True)
    which = label[np.searchsorted(infinite, corner)]
    graph = coo_array((np.ones(edge.size), (which, edge)), shape=(unique.size, int(slot_edge.max()) + 1)).tocsr()
    _, group = connected_components(graph @ graph.T, directed=False)
    _, first = np.unique(group, return_index=True)
    vertex[infinite] = unique[first[group]][label]
