"""One tile as a map of its own, and what the map of all tiles has to know of it.

A facet that reaches over several tiles is in each of them, cut off at the cut, with the same partition. So is an edge.

A tile from which plateaus are left out (plateaus.py) is a map of its own if what is left hangs together. If it does not,
plateaus have to be explored in this tile. A tile may also be all plateau: then it is one facet.
"""

from __future__ import annotations

from concurrent.futures import Executor
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.data.problem import Bounds, Problem, make_region, make_tile
from svmatlas.engine.arena import BOUNDARY, OPEN, PLATEAUS, POSITIVE_PLATEAU
from svmatlas.engine.canonical import Canonical, keys_of_states, unite
from svmatlas.engine.joining import Joiner
from svmatlas.engine.mesh import Mesh, Split
from svmatlas.engine.plateaus import UnclosedError
from svmatlas.engine.tile import Engine, Facets
from svmatlas.engine.workspace import CUT, MARGIN, Int32, Ints, Region, States, Words
from svmatlas.store.tiles import Summary

CHUNK = 256
"""Facets whose partitions are in hand at once."""


def unite_tile(engine: Engine, problem: Problem, whole: Region, tile: Bounds, facets: Facets, pool: Executor) -> Canonical:
    """The map of one tile of a region, from the pieces found in it. Its sides are those of the tile.

    UnclosedError if plateaus were left out, and what is left does not tell all.
    """
    region = make_region(tile, problem.cost_exponent)
    if facets.code.size == 0:
        return _all_plateau(problem, region, _find_full(facets, problem.data.rank))
    joiner = Joiner(engine, region, facets.start)
    joiner.add(facets._replace(code=_by_side(facets.code, make_tile(tile, problem.cost_exponent, whole).name)))
    canonical = unite(joiner, pool)
    if np.any(facets.neighbour <= PLATEAUS):
        _check_whole(canonical, facets)
    return canonical


def _check_whole(canonical: Canonical, facets: Facets) -> None:
    """UnclosedError if pieces that were found are not in a map with plateaus, or if it does not hang together."""
    mesh, split = canonical.mesh, canonical.split
    euler = len(mesh.vertices) - mesh.edge_code.size + mesh.facet_layer.size
    missing = np.count_nonzero(~split.left_out) != facets.n_pieces
    if missing or euler != 1 or np.any(mesh.edge_facets == OPEN) or np.any(split.mesh.edge_facets == OPEN):
        raise UnclosedError


def _find_full(facets: Facets, rank: int) -> States:
    """The partition of a piece with |M| = rank: beta is that of the plateau."""
    for f in range(facets.kind.size):
        state = facets.state(f)
        if np.count_nonzero(state == MARGIN) == rank:
            return state
    raise UnclosedError


def _all_plateau(problem: Problem, region: Region, start: States) -> Canonical:
    """The map of a tile that lies on a plateau: one facet. Its partition without jitter follows from that of a piece."""
    n, axis = len(region.corners), problem.data.axis
    side = np.arange(n, dtype=np.int32)
    zero, none = np.zeros(1, dtype=np.int32), np.empty(0, dtype=np.int32)
    own = int(axis[np.argmax(start == MARGIN)])
    beside = np.column_stack([np.zeros(n), np.full(n, BOUNDARY)]).astype(np.int32)
    mesh = Mesh(
        region.corners.copy(), -1 - side, beside, np.column_stack([np.roll(side, 1), side]), zero, zero - 1,
        np.array([0, n]), side, side,
    )  # fmt: skip
    split = Split(mesh, np.full((1, 2), -1, dtype=np.int32), np.full(1, POSITIVE_PLATEAU + own, dtype=np.int8), start)
    tied = np.flatnonzero((axis == own) & (start != MARGIN)).astype(np.int32)
    own_mesh = Mesh(*mesh)  # the facet is not its piece: it has more points on the margin
    return Canonical(split, own_mesh, none, np.zeros(1, dtype=np.intp), none, zero, zero, np.array([0, tied.size]), tied)


def _by_side(code: Int32, names: Ints) -> Int32:
    """Codes with the numbers of the sides of a tile in place of their names."""
    numbered = code.copy()
    for j, name in enumerate(names):
        numbered[code == -1 - name] = -1 - j
    return numbered


class Cuts(NamedTuple):
    """What of the map of a tile lies on cuts."""

    name: Ints  # of each side of the tile: the number of a side of the region, or more
    edge: npt.NDArray[np.bool_]  # (E,)
    vertex: npt.NDArray[np.bool_]  # (V,)
    corner: npt.NDArray[np.bool_]  # (V,) which vertices are corners of the triangle of costs: cuts may end there
    facets: Int32  # that have an edge on a cut


def find_cuts(problem: Problem, whole: Region, tile: Bounds, mesh: Mesh) -> Cuts:
    """What of the map of a tile lies on cuts."""
    name = make_tile(tile, problem.cost_exponent, whole).name
    edge = (mesh.edge_code < 0) & (name[np.maximum(-1 - mesh.edge_code, 0)] >= CUT)
    vertex = np.zeros(len(mesh.vertices), dtype=bool)
    vertex[mesh.edge_vertices[edge].ravel()] = True
    corner = (np.count_nonzero(mesh.vertices, axis=1) == 1) | (vertex & (mesh.vertices[:, 2] == 0.0))
    corner[_far_corners(mesh, make_region(tile, problem.cost_exponent))] = True
    return Cuts(name, edge, vertex, corner, np.unique(mesh.edge_facets[edge, 0]))


def _far_corners(mesh: Mesh, region: Region) -> Ints:
    """Vertices where two sides of a tile meet at infinity. Where ties end there, too, they may be stored beside it."""
    found = [np.empty(0, dtype=np.intp)]
    ends = [np.unique(mesh.edge_vertices[mesh.edge_code == -1 - side]) for side in range(len(region.sides))]
    for side, corner in enumerate(region.corners):
        if corner[2] == 0.0:
            found.append(np.intersect1d(ends[side], ends[(side + 1) % len(ends)]))
    return np.concatenate(found)


def count(mesh: Mesh, cuts: Cuts, n_pieces: int) -> Summary:
    """Sizes that add up over tiles: what is on cuts is left out, and an edge that crosses a cut has an end less on each side.

    With F facets, of which those with the same partition count once, V - E + F is 1 for a whole map. So a facet that was
    found on one side of a cut only does not go unnoticed.
    """
    ends = mesh.edge_vertices[~cuts.edge]
    n_ends = ends.size - int(np.count_nonzero((cuts.vertex & ~cuts.corner)[ends]))
    corners = np.unique(np.argmax(mesh.vertices[cuts.corner], axis=1))
    n_vertices = int(np.count_nonzero(~cuts.vertex & ~cuts.corner))
    return Summary(n_pieces, mesh.facet_layer.size, n_vertices, n_ends, int(np.sum(2**corners)))


def keys_of(canonical: Canonical, facets: Int32, words: Words) -> Words:
    """Keys of the partitions of some facets: the same on both sides of a cut."""
    parts = np.array_split(facets.astype(np.intp), facets.size // CHUNK + 1)
    return np.concatenate([keys_of_states(canonical.states(part), words) for part in parts])
