"""One tile as a map of its own, and what the map of all tiles has to know of it.

A facet that reaches over several tiles is in each of them, cut off at the cut, with the same partition. So is an edge.
"""

from __future__ import annotations

from concurrent.futures import Executor
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.data.problem import Bounds, Problem, make_region, make_tile
from svmatlas.engine.canonical import Canonical, unite
from svmatlas.engine.joining import Joiner
from svmatlas.engine.mesh import Mesh
from svmatlas.engine.tile import Engine, Facets
from svmatlas.engine.workspace import CUT, INSIDE, OUTSIDE, Int32, Ints, Region, States, Words
from svmatlas.store.tiles import Summary

CHUNK = 256
"""Facets whose partitions are in hand at once."""


def unite_tile(engine: Engine, problem: Problem, whole: Region, tile: Bounds, facets: Facets, pool: Executor) -> Canonical:
    """The map of one tile of a region, from the pieces found in it. Its sides are those of the tile."""
    joiner = Joiner(engine, make_region(tile, problem.cost_exponent), facets.start)
    joiner.add(facets._replace(code=_by_side(facets.code, make_tile(tile, problem.cost_exponent, whole).name)))
    return unite(joiner, pool)


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
    return np.concatenate([_keys(canonical.states(part), words) for part in parts])


def _keys(states: States, words: Words) -> Words:
    """As ``key_of`` (engine/names.py), for several partitions."""
    crossed = np.where(states != INSIDE, words[1::2], np.uint64(0)) ^ np.where(states == OUTSIDE, words[0::2], np.uint64(0))
    keys: Words = np.bitwise_xor.reduce(crossed, axis=1, initial=np.uint64(1))
    return keys
