"""The subdivision as flat arrays: facets, edges and vertices in the order of the layers from the start on.

Partitions are recovered by walking up the parents (``states_of``).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.engine.arena import NEGATIVE_PLATEAU, PLATEAU_SLIVER, POSITIVE_PLATEAU, TIE, states_of
from svmatlas.engine.compiled import entry_noalloc, kernel
from svmatlas.engine.names import corner_of_triangle

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
    facet_at: Ints  # (F + 1,) facet f has the entries facet_at[f] : facet_at[f + 1] of the next two
    facet_edges: Int32  # edges in order
    facet_vertices: Int32  # the vertex at the end of that edge


class Split(NamedTuple):
    """The map of the jittered data."""

    mesh: Mesh
    flips: Int32  # (F, 2) codes crossed from the parent of each facet
    kind: npt.NDArray[np.int8]  # (F,) PLAIN, TIE and so on, see arena.py
    start: States  # (N,) partition of facet 0

    @property
    def tie(self) -> npt.NDArray[np.bool_]:
        """Which facets exist only because of the jitter."""
        tie: npt.NDArray[np.bool_] = (self.kind == TIE) | (self.kind == PLATEAU_SLIVER)
        return tie

    @property
    def plateau(self) -> npt.NDArray[np.bool_]:
        """Which facets are whole plateaus: alpha is not that of their partition."""
        plateau: npt.NDArray[np.bool_] = (self.kind == POSITIVE_PLATEAU) | (self.kind == NEGATIVE_PLATEAU)
        return plateau

    @property
    def left_out(self) -> npt.NDArray[np.bool_]:
        """Which facets were not explored: plateaus, and slivers of them."""
        left_out: npt.NDArray[np.bool_] = self.kind >= POSITIVE_PLATEAU
        return left_out

    def states(self, facets: npt.NDArray[np.signedinteger]) -> States:
        """Partitions of some facets."""
        states: States = states_of(facets.astype(np.intp), self.mesh.facet_parent, self.flips, self.start)
        return states


PLACE = np.dtype((np.record, [("code", np.int32), ("vertex", np.int32), ("behind", np.int32)]))
"""The code of an edge of a facet, the vertex at its end, the facet behind it."""


AROUND = np.dtype((np.record, [("facets", np.int32), ("count", np.int32), ("number", np.int32)]))
"""Around a vertex: the XOR of the numbers of its facets; how many they are, FAR_OUT less if any number may be; its own number
in the end, -1 before."""


Places = npt.NDArray[np.void]
"""Arrays of PLACE or AROUND."""


FAR_OUT = 2**30
"""More than there are facets around any vertex."""


class _Walk(NamedTuple):
    """The way through the layers; arrays have room for all that may come, which takes no memory until it is filled."""

    number: Int32  # (n,) number of each facet, -1 before it is named
    facet: Int32  # the facets by their numbers
    flips: Int32  # (n, 2) the codes crossed to them
    edge_at: Ints  # where the edges that each of them numbers begin
    vertex: Int32  # the vertices by their numbers
    counts: npt.NDArray[np.void]  # (1,) see WALKED


WALKED = np.dtype((np.record, [("n_named", np.int64), ("n_walked", np.int64), ("n_seen", np.int64)]))
"""So many facets are named, and gone through; so many vertices are seen."""


STRIDE = 2**13
"""Facets that are gone through before they are put down: what they need stays in the cache."""


def number_all(
    pool: Executor, root: int, at: Ints, place: Places, around: Places, corner: Floats, doors: Sequence[Ints] = ()
) -> tuple[Int32, Mesh, Int32]:
    """Facets, edges and vertices in the order of the layers from the root on: the facets, the mesh, and codes from parents.

    The last facets are plateaus, with their ``doors``: they name no others, and come last. What the walk finds is put down at
    once, by other threads if there are any.
    """

    def room(n: int, *more: int) -> Int32:
        return np.empty((n, *more), dtype=np.int32)

    n, n_places, n_vertices, n_parents = at.size - 1, len(place), len(around), at.size - 1 - len(doors)
    walk = _Walk(
        np.full(n, -1, dtype=np.int32), room(n), room(n, 2), np.zeros(n + 1, dtype=np.intp), room(n_vertices),
        np.zeros(1, WALKED),
    )  # fmt: skip
    mesh = Mesh(
        np.empty((n_vertices, 3)), room(n_places), room(n_places, 2), room(n_places, 2), room(n), room(n),
        np.zeros(n + 1, dtype=np.intp), np.full(n_places, -1, dtype=np.int32), room(n_places),
    )  # fmt: skip
    n_named, n_walked, n_seen = (walk.counts[name] for name in ("n_named", "n_walked", "n_seen"))
    futures = []

    def go_on() -> None:
        while n_walked[0] < max(1, n_named[0]):
            f, v = int(n_walked[0]), int(n_seen[0])
            _walk_layers(root, f + STRIDE, at, place, around, walk, mesh, n_parents)
            which = (f, int(n_walked[0])), (v, int(n_seen[0]))
            futures.append(pool.submit(_put_down, which, at, place, around, corner, walk, mesh, n_parents))

    pool.submit(go_on).result()  # in a thread of the pool, so that no more threads work than there are in it
    for future in futures:
        future.result()
    for h, door in enumerate(doors, n_parents):
        _put_last(h, door[np.argmin(walk.number[place["behind"][door]])], at, place, around, corner, walk, mesh)
    n, n_places, n_edges = int(n_walked[0]), int(mesh.facet_at[n_walked[0]]), int(walk.edge_at[n_walked[0]])
    sizes = int(n_seen[0]), n_edges, n_edges, n_edges, n, n, n + 1, n_places, n_places
    arrays: list[Any] = list(mesh)
    return walk.facet[:n], Mesh._make(array[:size] for array, size in zip(arrays, sizes, strict=True)), walk.flips[:n]


def take_lists(at: Ints, values: Int32, which: npt.NDArray[np.signedinteger]) -> tuple[Ints, Int32]:
    """Of lists, the n-th of which is values[at[n] : at[n + 1]], those with some numbers."""
    sizes = at[which + 1] - at[which]
    new = np.concatenate([[0], np.cumsum(sizes)])
    return new, values[np.repeat(at[which] - new[:-1], sizes) + np.arange(new[-1])]


def in_parts(items: Ints, size: int) -> list[Ints]:
    """Some items in parts of at most that size; none if there are no items."""
    return np.array_split(items, items.size // size + 1) if items.size > 0 else []


@kernel
def is_far_out(corner, v):
    """Is vertex v at infinity, or a corner of the triangle of costs? Any number of facets may meet there."""
    return corner[v, 2] == 0.0 or corner_of_triangle(corner[v]) >= 0


@entry_noalloc
def _walk_layers(root, end, at, place, around, walk, mesh, n_parents):
    """Go on through the facets in the order of their layers, as the four steps of layers.py name them, up to that number.

    A facet names those behind its edges, and those opposite to its vertices: the one of the facets around a vertex which is
    neither the facet nor a neighbour.
    """
    counts, number = walk.counts[0], walk.number
    if counts.n_named == 0:
        _name(root, -1, -1, -1, at, walk, mesh)
    f, v = counts.n_walked, counts.n_seen
    while f < min(end, counts.n_named):
        g = walk.facet[f]
        first, end_of, n_new = at[g], at[g + 1], 0
        for k in range(first, end_of):
            h = place[k].behind
            if 0 <= h < n_parents and number[h] < 0:
                _name(h, f, place[k].code, -1, at, walk, mesh)
            n_new += h < 0 or h >= n_parents or number[h] > f
        walk.edge_at[f + 1] = walk.edge_at[f] + n_new
        for k in range(first, end_of):
            w = place[k].vertex
            if around[w].number < 0:
                around[w].number, walk.vertex[v] = v, w
                v += 1
            following = k + 1 if k + 1 < end_of else first
            h, others = around[w].facets ^ g, around[w].count - 1
            for other in (place[k].behind, place[following].behind):
                if other >= 0:
                    h ^= other
                    others -= 1
            if others == 1 and h < n_parents and number[h] < 0:
                a, b = place[k].code, place[following].code
                both = a >= 0 and b >= 0
                _name(h, f, a if both else max(a, b), b if both else max(a, b) ^ 1, at, walk, mesh)
        f += 1
    counts.n_walked, counts.n_seen = f, v


@kernel
def _name(h, parent, a, b, at, walk, mesh):
    """Give facet h the next number; it is reached from its parent by one code or two."""
    n = walk.counts[0].n_named
    walk.number[h], walk.facet[n], mesh.facet_parent[n] = n, h, parent
    mesh.facet_layer[n] = mesh.facet_layer[parent] + 1 if parent >= 0 else 0
    walk.flips[n, 0], walk.flips[n, 1] = a, b
    mesh.facet_at[n + 1] = mesh.facet_at[n] + at[h + 1] - at[h]
    walk.counts[0].n_named += 1


@entry_noalloc
def _put_down(which, at, place, around, corner, walk, mesh, n_parents):
    """The corners of some vertices; the vertices of some facets and the edges that they number, also in the facets behind.

    Two facets share at most one edge with the same code, so each place is written once.
    """
    number, edges, vertex, ends = walk.number, mesh.facet_edges, mesh.facet_vertices, mesh.edge_vertices
    for v in range(which[1][0], which[1][1]):
        for c in range(3):
            mesh.vertices[v, c] = corner[walk.vertex[v], c]
    for f in range(which[0][0], which[0][1]):
        g, e, new = walk.facet[f], walk.edge_at[f], mesh.facet_at[f]
        first, size = at[g], at[g + 1] - at[g]
        for k in range(size):
            vertex[new + k] = around[place[first + k].vertex].number
        for k in range(size):
            h = place[first + k].behind
            if 0 <= h < n_parents and number[h] < f:
                continue
            edges[new + k], mesh.edge_code[e] = e, place[first + k].code
            mesh.edge_facets[e, 0], mesh.edge_facets[e, 1] = f, h
            ends[e, 0], ends[e, 1] = vertex[new + (k - 1 if k > 0 else size - 1)], vertex[new + k]
            if 0 <= h < n_parents:
                mesh.edge_facets[e, 1], there = number[h], mesh.facet_at[number[h]] - at[h]
                for j in range(at[h], at[h + 1]):
                    if place[j].behind == g and place[j].code == place[first + k].code:
                        edges[there + j] = e
            e += 1


@entry_noalloc
def _put_last(h, door, at, place, around, corner, walk, mesh):
    """Number a facet all of whose neighbours have numbers, and put it down; it has its partition from behind that place."""
    n, v = walk.counts[0].n_walked, walk.counts[0].n_seen
    e, first, new, size = walk.edge_at[n], at[h], mesh.facet_at[n], at[h + 1] - at[h]
    for j in range(size):  # from the door on
        w = place[first + (door - first + j) % size].vertex
        if around[w].number < 0:
            around[w].number = v
            for c in range(3):
                mesh.vertices[v, c] = corner[w, c]
            v += 1
        mesh.facet_vertices[new + j] = around[w].number
    _name(h, walk.number[place[door].behind], place[door].code, -1, at, walk, mesh)
    for j in range(size):
        k = first + (door - first + j) % size
        g, code = place[k].behind, place[k].code
        if g < 0:
            mesh.facet_edges[new + j], mesh.edge_code[e] = e, code
            mesh.edge_facets[e, 0], mesh.edge_facets[e, 1] = n, g
            mesh.edge_vertices[e, 0] = mesh.facet_vertices[new + (j - 1 if j > 0 else size - 1)]
            mesh.edge_vertices[e, 1] = mesh.facet_vertices[new + j]
            e += 1
            continue
        there = mesh.facet_at[walk.number[g]] - at[g]
        for i in range(at[g], at[g + 1]):
            if place[i].behind == h and place[i].code == code:
                mesh.facet_edges[new + j] = mesh.facet_edges[there + i]
                mesh.edge_facets[mesh.facet_edges[there + i], 1] = n
    walk.counts[0].n_walked, walk.counts[0].n_seen, walk.edge_at[n + 1] = n + 1, v, e
