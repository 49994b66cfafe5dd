"""Do the polygons tile the region? Decided exactly, from the stored vertices, which are dyadic rationals.

1. Each edge is run through once in each direction by the two facets beside it, or once along a side of the region; and the
   edges on the sides are one closed way around the region. So the polygons, as a chain, have the boundary of the region as
   their boundary: the winding numbers of all polygons about any costs inside add up to 1. Hence some polygon winds around
   them: they lie in the hull of its corners. The polygons cover the region, whatever their shapes.
2. Each polygon is cut into triangles of its corners, none of which is turned to the right: the winding number of each about
   any costs off their edges is 0 or 1. Those of all triangles add up to 1, so costs lie inside one triangle, and one polygon.

Polygons need not be convex, to the last bit, for that. Turns are signs of determinants of three vertices, by doubles with an
error bound, and by fractions where these do not tell. Most polygons are cut by diagonals from their first corner.

Vertices on a side lie on it by definition (C+ = lo is p = lo l, whatever was stored as p to the last bit).
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.proof.reading import Map, Mesh

Ints = npt.NDArray[np.intp]
Floats = npt.NDArray[np.float64]
Vector = tuple[Fraction, Fraction, Fraction]

TURN = 2.0**-48
"""Error of a determinant of 3 x 3 in doubles, relative to the sum of the sizes of its six terms: four roundings of each term,
five of the sum, and two of each coordinate on a side are below 16 units of 2^-53; twice that."""

LIMIT = 2.0**40
"""Costs (C+ + C-, in units of the data) up to which polygons have to be so. Beyond it what splits ties is more than the width
of facets: corners are then where they are by chance, as seen from each other."""

PIECE = 2.0**-40
"""Pieces of facets have to cover the region; one is wrong if it is turned over by more than this, relative to the terms of its
determinants: its corners are those of data whose ties are split by 2^-43."""

SNAP = 1e-12
"""How far a vertex on a side may be stored from it, relative to its terms: some roundings."""

MOST_NAMED = 5
"""Faults of a kind that are named."""

OPEN, BOUNDARY = -2, -1


class Region(NamedTuple):
    """The sides of a region in order, each with the costs of its first and last corner (p, q, l) as exact numbers."""

    lines: list[Vector]  # line.c >= 0 inside
    corners: list[Vector]  # side k goes from corner k - 1 to corner k


class Tiling(NamedTuple):
    """What was found."""

    faults: list[str]
    limit: float  # costs up to which the facets tile the region


def make_region(stored: Map) -> Region:
    """The region of a map."""
    return region_of(stored.parameters["region"], stored.parameters["cost_exponent"])


def region_of(bounds: Any, cost_exponent: int) -> Region:
    """The region of costs (lo, hi) and (lo, hi), None for infinity, in the units of the vertices."""
    unit = Fraction(2) ** cost_exponent
    (p, p_end), (q, q_end) = bounds
    p, q, one, nil = Fraction(p) * unit, Fraction(q) * unit, Fraction(1), Fraction(0)
    far_p = None if p_end is None else Fraction(p_end) * unit
    far_q = None if q_end is None else Fraction(q_end) * unit
    lines: list[Vector] = [(nil, one, -q)]
    corners: list[Vector] = [(one, nil, nil) if far_p is None else (far_p, q, one)]
    if far_p is not None:
        lines.append((-one, nil, far_p))
    if far_q is not None:
        corners += [(far_p, far_q, one)] if far_p is not None else []
        lines.append((nil, -one, far_q))
    elif far_p is None:
        lines.append((nil, nil, one))
    corners += [(nil, one, nil) if far_q is None else (p, far_q, one), (p, q, one)]
    return Region([*lines, (one, nil, -p)], corners)


def check_tiling(mesh: Mesh, region: Region, complete: bool, flat: npt.NDArray[np.bool_] | None = None) -> Tiling:
    """Faults of a mesh by name; of pieces if it is said which of them may have no area (``flat``)."""
    faults = _check_numbers(mesh)
    if faults:
        return Tiling(faults, np.inf)
    faults = _check_rings(mesh, complete)
    side_of = sides_of(mesh, region)
    faults += _check_sides(mesh, region, side_of)
    if complete and not faults:
        faults += _check_way(mesh, region, side_of)
    doubtful, turn = _doubtful(mesh)
    if flat is not None:
        doubtful = doubtful[~flat[doubtful] & (turn < -PIECE)]
    corners = ((f, _corners(mesh, region, side_of, f)) for f in doubtful.tolist())
    over = [(f, c) for f, c in corners if not has_triangles(c)]
    bad = [f for f, c in over if not has_triangles(_cut(c))]
    faults += [f"facet {f} is turned over, or overlaps others" for f in bad[:MOST_NAMED]]
    return Tiling(faults, LIMIT if over else np.inf)


# ----------------------------------------------------------------------------------------------------------------------
# Incidence


def _check_numbers(mesh: Mesh) -> list[str]:
    """Numbers that name edges, vertices and facets name existing ones."""
    n_edges, n_vertices, n_places = mesh.edge_code.size, len(mesh.vertices), mesh.facet_vertices.size
    sizes = np.diff(mesh.facet_at)
    ranges = (
        ("facet_edges", mesh.facet_edges, 0, n_edges),
        ("facet_vertices", mesh.facet_vertices, 0, n_vertices),
        ("edge_facets", mesh.edge_facets, OPEN, mesh.n_facets),
        ("edge_vertices", mesh.edge_vertices, 0, n_vertices),
    )
    faults = [
        f"{name} has the number {array[~((array >= low) & (array < high))][0]}"
        for name, array, low, high in ranges
        if array.size and not np.all((array >= low) & (array < high))
    ]
    if mesh.facet_at[0] != 0 or mesh.facet_at[-1] != n_places or mesh.facet_edges.size != n_places:
        faults.append("facet_at does not end with the last place")
    faults += [f"facet {f} has less than three corners" for f in np.flatnonzero(sizes < 3)[:MOST_NAMED]]
    v = mesh.vertices
    wrong = ~(np.all(np.isfinite(v) & (v >= 0), axis=1) & np.any(v > 0, axis=1))
    return faults + [f"vertex {k} is not a pair of costs" for k in np.flatnonzero(wrong)[:MOST_NAMED]]


def _check_rings(mesh: Mesh, complete: bool) -> list[str]:
    """The first facet of an edge runs from its first vertex to its last, the second one back, and no one else."""
    facet, before = mesh.place_facet(), mesh.place_before()
    edge, first, last = mesh.facet_edges, mesh.facet_vertices[before], mesh.facet_vertices
    left = mesh.edge_facets[edge, 0] == facet
    right = ~left & (mesh.edge_facets[edge, 1] == facet)
    a, b = mesh.edge_vertices[edge].T
    wrong = ~((left & (first == a) & (last == b)) | (right & (first == b) & (last == a)))
    faults = [f"facet {facet[k]} has edge {edge[k]} otherwise than the edge says" for k in np.flatnonzero(wrong)[:MOST_NAMED]]
    beside = np.sum(mesh.edge_facets >= 0, axis=1)
    uses = np.bincount(edge, minlength=beside.size)
    both = mesh.edge_facets[:, 0] == mesh.edge_facets[:, 1]
    odd = (uses != beside) | both | (mesh.edge_facets[:, 0] < 0)
    faults += [f"edge {e} is listed by {uses[e]} facets" for e in np.flatnonzero(odd)[:MOST_NAMED]]
    unused = np.flatnonzero(np.bincount(mesh.facet_vertices, minlength=len(mesh.vertices)) == 0)
    faults += [f"vertex {v} belongs to no facet" for v in unused[:MOST_NAMED]]
    if complete:
        open_edges = np.flatnonzero(np.any(mesh.edge_facets == OPEN, axis=1))
        faults += [f"edge {e} is open" for e in open_edges[:MOST_NAMED]]
    return faults


def sides_of(mesh: Any, region: Region) -> dict[int, set[int]]:
    """The sides of the region on which vertices lie, as the codes of edges say."""
    sides: dict[int, set[int]] = {}
    for e in np.flatnonzero(mesh.edge_code < 0).tolist():
        k = -1 - int(mesh.edge_code[e])
        for v in mesh.edge_vertices[e].tolist() if k < len(region.lines) else []:
            sides.setdefault(v, set()).add(k)
    return sides


def _check_sides(mesh: Mesh, region: Region, side_of: dict[int, set[int]]) -> list[str]:
    """Edges on sides have no facet behind them, and vertices lie where edges say so."""
    odd = np.flatnonzero((mesh.edge_code < 0) != (mesh.edge_facets[:, 1] == BOUNDARY))
    faults = [f"edge {e} is a side of the region and is not, or the other way round" for e in odd[:MOST_NAMED]]
    none = np.flatnonzero(mesh.edge_code < -len(region.lines))
    faults += [f"edge {e} lies on side {-1 - mesh.edge_code[e]}, which the region has not" for e in none[:MOST_NAMED]]
    for v, sides in side_of.items():
        c = mesh.vertices[v]
        for line in (np.array(region.lines[k], dtype=float) for k in sides):
            if abs(float(line @ c)) > SNAP * float(np.abs(line) @ c):
                faults.append(f"vertex {v} does not lie on a side of the region where an edge says so")
    return faults


def _check_way(mesh: Mesh, region: Region, side_of: dict[int, set[int]]) -> list[str]:
    """The edges on the sides are one closed way, which visits the sides in order and changes them at corners of the region."""
    sides = np.flatnonzero(mesh.edge_code < 0)
    follow = dict(zip(mesh.edge_vertices[sides, 0].tolist(), sides.tolist(), strict=True))
    first = int(sides[0]) if sides.size else -1
    e, turns = first, 0
    for _ in range(sides.size):
        v = int(mesh.edge_vertices[e, 1])
        if v not in follow:
            return [f"the way along the sides ends at vertex {v}"]
        step = int(mesh.edge_code[e]) - int(mesh.edge_code[follow[v]])
        if step not in (0, 1, 1 - len(region.lines)):
            return [f"the way along the sides leaves out a side at vertex {v}"]
        if step and not _is_corner(mesh.vertices[v], region.corners[-1 - int(mesh.edge_code[e])]):
            return [f"vertex {v} is not the corner of the region where two sides meet"]
        e, turns = follow[v], turns + (step != 0)
    if e != first or len(follow) != sides.size or turns != len(region.lines):
        return ["the edges on the sides are not one closed way around the region"]
    return []


def _is_corner(c: Floats, corner: Vector) -> bool:
    """Is a vertex, which lies on both sides up to rounding, their corner?"""
    exact = np.array(corner, dtype=float)
    return bool(np.all(np.abs(c * exact.sum() - exact * c.sum()) <= SNAP * exact.sum() * c.sum()))


# ----------------------------------------------------------------------------------------------------------------------
# Triangles


def _doubtful(mesh: Mesh) -> tuple[Ints, Floats]:
    """Facets of which doubles do not tell that all triangles at their first corner are turned to the left.

    And the determinant that is furthest to the right, relative to its terms, of each.
    """
    after, corner = mesh.place_after(), mesh.facet_vertices.astype(np.intp)
    facet = mesh.place_facet()
    first = mesh.facet_at[:-1][facet]
    fan = np.flatnonzero((np.arange(corner.size) != first) & (after != first))
    turn, size = determinants(mesh.vertices, np.column_stack([corner[first[fan]], corner[fan], corner[after[fan]]]))
    doubt = np.flatnonzero(~(turn > TURN * size))
    relative = np.zeros(mesh.n_facets)
    np.minimum.at(relative, facet[fan[doubt]], turn[doubt] / np.maximum(size[doubt], np.finfo(float).tiny))
    doubtful = np.unique(facet[fan[doubt]])
    return doubtful, relative[doubtful]


def determinants(vertices: Floats, triple: Ints) -> tuple[Floats, Floats]:
    """Determinants of three vertices each, and the sums of the sizes of their terms."""
    turn, size = np.zeros(len(triple)), np.zeros(len(triple))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        x, (y, z), (v, w) = vertices[triple[:, 0], i], vertices[triple[:, 1]][:, [j, k]].T, vertices[triple[:, 2]][:, [k, j]].T
        turn += x * (y * v - z * w)
        size += x * (y * v + z * w)
    return turn, size


def has_triangles(corners: list[Vector]) -> bool:
    """Whether a polygon can be cut by diagonals into triangles none of which is turned to the right.

    The triangles at one corner are tried first, of all corners; then all ways, from short chains of edges to longer ones.
    """
    n = len(corners)
    for k in range(n):
        turned = corners[k:] + corners[:k]
        if all(turn_of(turned[0], a, b) >= 0 for a, b in pairwise(turned[1:])):
            return True
    can = {(i, i + 1) for i in range(n - 1)}
    for length in range(2, n):
        for i in range(n - length):
            j = i + length
            if any({(i, k), (k, j)} <= can and turn_of(corners[i], corners[k], corners[j]) >= 0 for k in range(i + 1, j)):
                can.add((i, j))
    return (0, n - 1) in can


def turn_of(x: Vector, y: Vector, z: Vector, sizes: bool = False) -> Fraction:
    """The determinant of three vertices; or the sum of the sizes of its terms."""
    (a, b, c), (d, e, f), (g, h, i) = x, y, z
    if sizes:
        return a * (e * i + f * h) + b * (f * g + d * i) + c * (d * h + e * g)
    return a * (e * i - f * h) + b * (f * g - d * i) + c * (d * h - e * g)


def _cut(corners: list[Vector]) -> list[Vector]:
    """What is left of a polygon where costs beyond the limit are cut off; none if nothing is."""
    cut: list[Vector] = []
    for a, b in zip(corners, corners[1:] + corners[:1], strict=True):
        x, y = (c[0] + c[1] - Fraction(LIMIT) * c[2] for c in (a, b))
        cut += [a] if x <= 0 else []
        if (x > 0) != (y > 0):
            cut.append((abs(y) * a[0] + abs(x) * b[0], abs(y) * a[1] + abs(x) * b[1], abs(y) * a[2] + abs(x) * b[2]))
    return cut


def _corners(mesh: Mesh, region: Region, side_of: dict[int, set[int]], f: int) -> list[Vector]:
    """The corners of a facet as exact numbers."""
    vertices = mesh.facet_vertices[mesh.facet_at[f] : mesh.facet_at[f + 1]].tolist()
    return [exact_corner(mesh.vertices[v], [region.lines[k] for k in sorted(side_of.get(v, ()))]) for v in vertices]


def exact_corner(c: Floats, lines: list[Vector]) -> Vector:
    """A vertex as exact numbers, on the sides that it is said to lie on."""
    p, q, l = (Fraction(value) for value in c.tolist())
    for a, b, bound in lines:
        if a:
            p = -bound * l / a
        elif b:
            q = -bound * l / b
        else:
            l = Fraction(0)
    return p, q, l
