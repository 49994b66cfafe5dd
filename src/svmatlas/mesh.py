"""Closed layers -> the subdivision as flat arrays, merged by name.

``Recorder`` takes layer after layer while the engine runs and keeps of each facet only how it was reached and its edges;
``finish`` numbers vertices and edges. Partitions are recovered by walking up the parents (``states_of``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from svmatlas.doubledouble import entry
from svmatlas.facet import INSIDE, MARGIN, OUTSIDE
from svmatlas.layers import Closed, Layer

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Int32 = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint64]
States = npt.NDArray[np.int8]

BOUNDARY, OPEN = -1, -2
"""In place of a facet: nothing, the edge is a side of the region; a facet that was not explored."""


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


class Recorder:
    """Collects layers; partitions and keys are dropped as soon as their neighbours are numbered."""

    def __init__(self, start: States) -> None:
        self.start = start
        self.n_facets = 0
        self.layers: list[tuple[Int32, Int32, Int32, npt.NDArray[np.bool_]]] = []
        self.closed: list[tuple[Ints, Int32, npt.NDArray[np.uint64], Floats]] = []
        self.neighbours: list[Int32] = []
        self.waiting: list[tuple[npt.NDArray[np.uint64], int, npt.NDArray[np.uint64] | None]] = []

    def add(self, layer: Layer, closed: Closed) -> None:
        """Record the closed facets of a layer (the first ones of it, if it was cut short)."""
        n = closed.at.size - 1
        number = len(self.layers)
        first = self.waiting[-1][1] if self.waiting else 0
        parent = (layer.parent[:n] + first).astype(np.int32) if number else np.full(n, -1, dtype=np.int32)
        self.layers.append((np.full(n, number, dtype=np.int32), parent, layer.flips[:n], closed.tie))
        self.closed.append((np.diff(closed.at), closed.code, closed.vertex, closed.corner))
        self.waiting.append((layer.keys[:n], self.n_facets, closed.near))
        self.n_facets += n
        if len(self.waiting) >= 2:
            self._number(-2)
        if len(self.waiting) > 3:
            del self.waiting[0]

    def share(self, closed: Closed) -> float:
        """Share of the triangle of costs that some facets cover, by area in barycentric coordinates."""
        corner = closed.corner / closed.corner.sum(axis=1, keepdims=True)
        first = np.repeat(closed.at[:-1], np.diff(closed.at))
        before = np.arange(first.size) - 1
        before[closed.at[:-1]] = closed.at[1:] - 1
        return float(np.einsum("ij,ij->", corner[first], np.cross(corner[before], corner)))

    def _number(self, which: int) -> None:
        """Turn the keys of the neighbours of one waiting layer into facet numbers."""
        keys, first, near = self.waiting[which]
        if near is None:
            return
        known = np.concatenate([k for k, _, _ in self.waiting])
        numbers = np.concatenate([np.arange(f, f + k.size) for k, f, _ in self.waiting])
        order = np.argsort(known)
        place = np.minimum(np.searchsorted(known, near, sorter=order), known.size - 1)
        found = known[order[place]] == near
        self.neighbours.append(np.where(near == 0, BOUNDARY, np.where(found, numbers[order[place]], OPEN)).astype(np.int32))
        self.waiting[which] = (keys, first, None)

    def finish(self) -> Mesh:
        """Number vertices and edges."""
        self._number(-1)
        layer, parent, flips, tie = (np.concatenate(part) for part in zip(*self.layers, strict=True))
        sizes, code, names, corners = (np.concatenate(part) for part in zip(*self.closed, strict=True))
        neighbour = np.concatenate(self.neighbours)
        self.closed.clear()
        at = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
        facet = np.repeat(np.arange(at.size - 1, dtype=np.int32), sizes)
        before = np.arange(code.size) - 1
        before[at[:-1]] = at[1:] - 1
        slot_edge, first = _number_edges(facet, neighbour, at.size - 1)
        _join_at_infinity(names, corners, slot_edge, code, before)
        _, leader, inverse = np.unique(names, return_index=True, return_inverse=True)
        vertices, vertex = corners[leader], inverse.astype(np.int32)
        del names, corners, inverse
        return Mesh(
            vertices, code[first], np.column_stack([facet[first], neighbour[first]]),
            np.column_stack([vertex[before[first]], vertex[first]]), layer, parent, flips.astype(np.int32), at, slot_edge,
            vertex, tie, self.start,
        )  # fmt: skip


def _number_edges(facet: Int32, neighbour: Int32, n_facets: int) -> tuple[Int32, Ints]:
    """Edge of each (facet, place), and for each edge the first such place. Two facets share at most one edge."""
    low, high = np.minimum(facet, neighbour).astype(np.int64), np.maximum(facet, neighbour).astype(np.int64)
    pair = low * n_facets + high
    alone = neighbour < 0
    pair[alone] = -1 - np.flatnonzero(alone)
    _, first, edge = np.unique(pair, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(order.size, dtype=np.int32)
    rank[order] = np.arange(order.size)
    return rank[edge], first[order]


def _join_at_infinity(names: Words, corners: Floats, slot_edge: Int32, code: Int32, before: Ints) -> None:
    """Give one name to corners at infinity that end the same edge, in place.

    Where rows depend on each other several strips may end in one point at infinity, and each has named it after itself. An
    edge of an event has at most one end there, so all corners at infinity of the places of one edge are the same point.
    """
    infinite = np.flatnonzero((corners[:, 2] == 0) & (corners[:, 0] > 0) & (corners[:, 1] > 0))
    if infinite.size == 0:
        return
    after = np.empty_like(before)
    after[before] = np.arange(before.size)
    corner = np.concatenate([infinite, infinite])
    place = np.concatenate([infinite, after[infinite]])  # a corner ends one edge of its facet and begins the next
    event = code[place] >= 0
    corner, edge = corner[event], slot_edge[place[event]]
    unique, label = np.unique(names[infinite], return_inverse=True)
    which = label[np.searchsorted(infinite, corner)]
    graph = coo_array((np.ones(edge.size), (which, edge)), shape=(unique.size, int(slot_edge.max()) + 1)).tocsr()
    _, group = connected_components(graph @ graph.T, directed=False)
    _, first = np.unique(group, return_index=True)
    names[infinite] = unique[first[group]][label]


# ----------------------------------------------------------------------------------------------------------------------
# Partitions


@entry
def states_of(facets, parent, flips, start):
    """Partitions of some facets: the way up to the first facet, then all flips on the way down."""
    out = np.empty((facets.size, start.size), np.int8)
    path = np.empty(64, np.int64)
    for n in range(facets.size):
        depth, f = 0, facets[n]
        while f >= 0:
            if depth == path.size:
                path = np.concatenate((path, np.empty(path.size, np.int64)))
            path[depth] = f
            depth += 1
            f = parent[f]
        state = out[n]
        for i in range(start.size):
            state[i] = start[i]
        for k in range(depth - 1, -1, -1):
            for step in range(2):
                code = flips[path[k], step]
                if code >= 0:
                    away = INSIDE if code & 1 else OUTSIDE
                    state[code >> 1] = away if state[code >> 1] == MARGIN else MARGIN
    return out
