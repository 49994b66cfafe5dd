"""The partitions of pieces and facets: which points are outside the margin, inside, and on it.

They are stored as steps from piece to piece (docs/format.md, section Partitions), and kept here with two bits a point.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from svmatlas.proof.reading import Map, Mesh

Array = npt.NDArray[Any]

OUTSIDE, INSIDE, MARGIN = 0, 1, 2

MOST_NAMED = 5
"""Faults of a kind that are named."""

EDGES = 2**16
"""Edges that are looked at at once."""


class Partitions:
    """Partitions of all pieces; ``faults`` says which of the steps between them are none."""

    def __init__(self, stored: Map) -> None:
        self.stored = stored
        self.n_points = stored.arrays["split.start"].size
        plateau = stored.plateaus()
        n_last = int(np.sum(plateau))
        self.faults = _check_parents(stored.mesh("split"), "piece" if stored.tied else "facet", n_last)
        if n_last > 0 and not (stored.tied and plateau[-n_last:].all()):
            self.faults.append("plateaus are not the last pieces")
        if stored.tied:
            self.faults += _check_parents(stored.facets, "facet", 0)
        codes = stored.arrays["split.flips"]
        if codes.shape != (stored.mesh("split").n_facets, 2) or codes.min() < -1 or codes.max() >= 2 * self.n_points:
            self.faults.append("flips name points that there are not")
        elif np.any(codes[0] != -1):
            self.faults.append("piece 0 is the first, and has a step that leads to it")
        self.packed = np.zeros((stored.mesh("split").n_facets, -(-self.n_points // 4)), dtype=np.uint8)
        if not self.faults:
            self._walk(codes)

    def _walk(self, codes: Array) -> None:
        """From the partition of piece 0, layer after layer."""
        start, mesh = self.stored.arrays["split.start"], self.stored.mesh("split")
        if start.min(initial=0) < OUTSIDE or start.max(initial=0) > MARGIN:
            self.faults.append("the partition of piece 0 has a set that is none")
            return
        self.packed[0] = pack(start[None])[0]
        ends = np.flatnonzero(np.diff(mesh.facet_layer)) + 1
        for first, last in pairwise([*ends.tolist(), mesh.n_facets]):
            self.packed[first:last] = self.packed[mesh.facet_parent[first:last]]
            for step in range(2):
                wrong = cross(self.packed[first:last], codes[first:last, step])
                self.faults += [f"piece {first + k}: no step leads there from its parent" for k in np.flatnonzero(wrong)]

    def of_pieces(self, pieces: Array) -> npt.NDArray[np.int8]:
        """Partitions (n, n_points) of some pieces."""
        return unpack(self.packed[pieces], self.n_points)

    def of_facets(self, facets: Array) -> npt.NDArray[np.int8]:
        """Partitions of some facets: all points on the margin are."""
        if not self.stored.tied:
            return self.of_pieces(facets)
        arrays = self.stored.arrays
        states, at = self.of_pieces(arrays["canonical.piece"][facets]), arrays["canonical.tied_at"]
        for state, f in zip(states, facets.tolist(), strict=True):
            state[arrays["canonical.tied"][at[f] : at[f + 1]]] = MARGIN
        return states


def _check_parents(mesh: Mesh, name: str, n_last: int) -> list[str]:
    """Each facet but the first has one of the layer before as its parent. The last ones may be of any layer."""
    layer, parent = mesh.facet_layer, mesh.facet_parent
    numbers = np.arange(layer.size)
    wrong = np.where(numbers == 0, (layer != 0) | (parent != -1), (parent < 0) | (parent >= numbers))
    in_order = numbers[1:] < layer.size - n_last
    wrong[1:] |= (in_order & (np.diff(layer) < 0)) | (layer[1:] != layer[np.clip(parent[1:], 0, layer.size - 1)] + 1)
    faults = [f"{name} {f} is not in the layer after that of its parent" for f in np.flatnonzero(wrong)[:MOST_NAMED]]
    if faults or mesh.facet_vertices.max() >= len(mesh.vertices):
        return faults
    facet, n, vertex = mesh.place_facet(), len(mesh.vertices), mesh.facet_vertices
    own, wanted = (of.astype(np.int64) * n + vertex for of in (facet, parent[facet]))
    own.sort()
    named = own[np.minimum(np.searchsorted(own, wanted), own.size - 1)] == wanted
    apart = np.bincount(facet[named], minlength=layer.size) == 0
    return [f"{name} {f} has no vertex in common with its parent" for f in np.flatnonzero(apart[1:])[:MOST_NAMED] + 1]


def pack(states: Array) -> npt.NDArray[np.uint8]:
    """Partitions (n, N) with two bits a point."""
    wide = np.zeros((len(states), -(-states.shape[1] // 4) * 4), dtype=np.uint8)
    wide[:, : states.shape[1]] = states
    packed: npt.NDArray[np.uint8] = wide[:, ::4] | wide[:, 1::4] << 2 | wide[:, 2::4] << 4 | wide[:, 3::4] << 6
    return packed


def unpack(packed: npt.NDArray[np.uint8], n_points: int) -> npt.NDArray[np.int8]:
    """And back."""
    wide = np.empty((len(packed), 4 * packed.shape[1]), dtype=np.int8)
    for k in range(4):
        wide[:, k::4] = packed >> 2 * k & 3
    return wide[:, :n_points]


def cross(packed: npt.NDArray[np.uint8], codes: Array) -> npt.NDArray[np.bool_]:
    """Move one point of each partition by a code, -1 for none; which of these moves are none."""
    row = np.flatnonzero(codes >= 0)
    code = codes[row].astype(np.intp)
    byte, shift, kind = code >> 3, ((code >> 1 & 3) * 2).astype(np.uint8), (code & 1).astype(np.uint8)
    old = packed[row, byte]
    state = old >> shift & 3
    new = np.where(state == MARGIN, kind, MARGIN).astype(np.uint8)
    packed[row, byte] = old & ~(np.uint8(3) << shift) | new << shift
    wrong = np.zeros(len(packed), dtype=bool)
    wrong[row] = (state != MARGIN) & (state != kind)
    return wrong


# ----------------------------------------------------------------------------------------------------------------------
# Events


def check_events(partitions: Partitions) -> list[str]:
    """The events of each edge are what differs between the partitions on its two sides."""
    stored = partitions.stored
    faults = _check_steps(partitions, stored.mesh("split"), "piece" if stored.tied else "facet")
    if stored.tied:
        faults += _check_tied(stored) or _check_beside(partitions) or _check_joint(partitions)
    return faults


def _check_steps(partitions: Partitions, mesh: Mesh, name: str) -> list[str]:
    """Two pieces beside an edge differ by its code alone, unless one is a plateau."""
    plateau = partitions.stored.plateaus()
    inner = np.flatnonzero(np.all(mesh.edge_facets >= 0, axis=1) & ~np.any(plateau[mesh.edge_facets], axis=1))
    faults = []
    for k in range(0, inner.size, EDGES):
        edges = inner[k : k + EDGES]
        moved = partitions.packed[mesh.edge_facets[edges, 0]]
        code = np.where(mesh.edge_code[edges] < 2 * partitions.n_points, mesh.edge_code[edges], -1)
        wrong = (code < 0) | cross(moved, code)
        wrong |= np.any(moved != partitions.packed[mesh.edge_facets[edges, 1]], axis=1)
        faults += [f"the event of edge {e} does not lead from one {name} to the other" for e in edges[wrong]]
    return faults[:MOST_NAMED]


def _check_tied(stored: Map) -> list[str]:
    """Facets and pieces, and points that are on the margin beside those of a piece."""
    arrays, n_facets, n_points = stored.arrays, stored.facets.n_facets, stored.arrays["split.start"].size
    piece, facet, at, tied = (arrays[f"canonical.{name}"] for name in ("piece", "facet", "tied_at", "tied"))
    faults = []
    if piece.size != n_facets or facet.size != stored.mesh("split").n_facets or at.size != n_facets + 1:
        return ["facets and pieces do not belong together"]
    if piece.min() < 0 or piece.max() >= facet.size or facet.min() < -1 or facet.max() >= n_facets:
        return ["facets and pieces name others that there are not"]
    wrong = facet[piece] != np.arange(n_facets)
    faults += [f"facet {f} is made of a piece of another" for f in np.flatnonzero(wrong)[:MOST_NAMED]]
    if at[0] != 0 or at[-1] != tied.size or np.any(np.diff(at) < 0) or np.any((tied < 0) | (tied >= n_points)):
        faults.append("tied points that there are not")
    return faults


def _check_beside(partitions: Partitions) -> list[str]:
    """Tied points are on the margin beside those of the piece, which alone make its weights: they are none of these."""
    arrays = partitions.stored.arrays
    piece, at, tied = (arrays[f"canonical.{name}"] for name in ("piece", "tied_at", "tied"))
    facet = np.repeat(np.arange(piece.size), np.diff(at))
    state = partitions.packed[piece[facet], tied >> 2] >> (2 * (tied & 3)).astype(np.uint8) & 3
    wrong = np.unique(facet[state == MARGIN])
    return [f"facet {f} has tied points that are on the margin of its piece" for f in wrong[:MOST_NAMED]]


def _check_joint(partitions: Partitions) -> list[str]:
    """Each point that changes its set across an edge of a facet is one of its events, and no other."""
    stored, mesh = partitions.stored, partitions.stored.facets
    joint, at, code = (stored.arrays[f"canonical.{name}"] for name in ("joint", "joint_at", "joint_code"))
    if (
        at.size != joint.size + 1
        or at[0] != 0
        or at[-1] != code.size
        or np.any(np.diff(at) < 0)
        or np.any(np.diff(joint) <= 0)
    ):
        return ["events of edges are not in order"]
    several = {int(e): code[at[n] : at[n + 1]].tolist() for n, e in enumerate(joint)}
    inner, faults, size = np.flatnonzero(np.all(mesh.edge_facets >= 0, axis=1)), [], max(1, 2**24 // partitions.n_points)
    for k in range(0, inner.size, size):
        edges = inner[k : k + size]
        left, right = (partitions.of_facets(mesh.edge_facets[edges, side]) for side in (0, 1))
        for e, a, b in zip(edges.tolist(), left, right, strict=True):
            events = several.get(e, [int(mesh.edge_code[e])])
            if events != _events(a, b) or (e in several and max(events) != mesh.edge_code[e]):
                faults.append(f"edge {e} has other events than what differs between its facets")
    wrong = set(several) - set(inner.tolist())
    return (faults + [f"edge {e} has several events and one facet" for e in sorted(wrong)])[:MOST_NAMED]


def _events(a: npt.NDArray[np.int8], b: npt.NDArray[np.int8]) -> list[int]:
    """Codes of what differs between two partitions, the largest first."""
    codes = [2 * i + kind for i in np.flatnonzero(a != b).tolist() for kind in {int(a[i]), int(b[i])} - {MARGIN}]
    return sorted(codes, reverse=True)
