"""Closed layers -> the subdivision as flat arrays, merged by name.

``Recorder`` takes layer after layer while the engine runs and keeps of each facet only how it was reached and its edges;
``finish`` numbers vertices and edges. Partitions are recovered by walking up the parents (``states_of``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from svmatlas.doubledouble import entry
from svmatlas.layers import Closed, Layer, cross

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Int32 = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint64]
States = npt.NDArray[np.int8]

OPEN = -2
"""In place of a facet's number (beside BOUNDARY): a facet that was not explored."""


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
    """Collects closed layers; their partitions and keys are not kept."""

    def __init__(self, start: States) -> None:
        self.start = start
        self.layers: list[tuple[npt.NDArray[Any], ...]] = []
        self.n_facets = 0

    def add(self, layer: Layer, closed: Closed, neighbours: Int32) -> None:
        """Record the closed facets of a layer (the first ones of it, if it was cut short) and what is behind their edges."""
        n = closed.at.size - 1
        facets = (layer.parent[:n], layer.flips[:n], closed.tie, closed.at[1:] - closed.at[:-1])
        self.layers.append((*facets, closed.code, closed.vertex, closed.corner, neighbours))
        self.n_facets += n

    def share(self, closed: Closed) -> float:
        """Share of the triangle of costs that some facets cover, by area in barycentric coordinates."""
        corner = closed.corner / closed.corner.sum(axis=1, keepdims=True)
        first = np.repeat(closed.at[:-1], np.diff(closed.at))
        before = np.arange(first.size) - 1
        before[closed.at[:-1]] = closed.at[1:] - 1
        return float(np.einsum("ij,ij->", corner[first], np.cross(corner[before], corner)))

    def finish(self) -> Mesh:
        """Number vertices and edges."""
        layer = np.repeat(np.arange(len(self.layers), dtype=np.int32), [part[0].size for part in self.layers])
        arrays = (np.concatenate(part) for part in zip(*self.layers, strict=True))
        parent, flips, tie, sizes, code, names, corners, neighbour = arrays
        self.layers.clear()
        neighbour[neighbour >= layer.size] = OPEN
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
            np.column_stack([vertex[before[first]], vertex[first]]), layer, parent, flips, at, slot_edge,
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
                    cross(state, code)
    return out
