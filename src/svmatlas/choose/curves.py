"""Tile after tile of a map and points that it was not made from -> the zero curves of these points.

The prediction for a point z changes only where its score g(c) = z.beta(c) is zero. In a facet l g(c) = z.(Beta c) is linear in
the homogeneous costs c = (p, q, l), and beta is continuous, so the values of l beta at the *vertices* of the map say
everything: a facet whose corners have scores of both signs is crossed by one straight segment, between two of its edges.

Zero counts as negative, as it does for scikit-learn's ``predict``. So where a score vanishes at a vertex, the curve ends
in that vertex itself; where it vanishes along an edge, the curve runs along it; where it vanishes in a whole facet, the
facet is negative and the curve is its border. At infinity v = Beta c has v.v = sum of a_i x_i.v over I <= 0, as x_i.v <= l = 0
there: it is zero. So curves that leave for infinity end in the vertex at infinity of their strip, by the same rule.

A crossing is computed from the two ends of its edge in an order that does not depend on the facet, so the segments of a curve
join exactly. On a cut between tiles the two sides compute it from other ends: it is named by the facet, the cut and the point,
and both get the place that the first has found. A tile is given up as soon as its segments are known.

Where the exploration was stopped, tiles are missing. Beside these, tiles are islands: their curves are closed along the cut.
"""

from __future__ import annotations

import hashlib
from copy import copy
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.choose.blocks import add
from svmatlas.data.problem import Bounds, Problem, make_region, make_tile
from svmatlas.engine.arena import before_in
from svmatlas.engine.clipping import CLOSED
from svmatlas.engine.compiled import entry, kernel
from svmatlas.engine.facet import dot
from svmatlas.engine.names import mix
from svmatlas.engine.tile import Facets
from svmatlas.engine.workspace import CUT, Region

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Int32 = npt.NDArray[np.int32]
Bits = npt.NDArray[np.uint64]

ZERO = 2.0**-33
"""Scores below this (1e-10) times |z||beta| are zero: what the jitter of 1e-13 and conditioning may make of a true zero.

Lengths are taken with all columns scaled to the same size: a column of numbers around 1e9 has small weights, and would hide
the scores that the other columns make."""

NEARLY = 2.0**-20
"""What is added to the radius of a ball of weights of length 1 (1e-6): rounding, some 1e-13, of its square, and ZERO."""

LEAST = 2.0**-900
"""Least square of the length of weights that can be scaled to length 1 without loss."""

CHUNK = 1024
"""Vertices whose scores are computed at once: these stay in the cache of a core."""


class Curves(NamedTuple):
    """Straight pieces of zero curves, in homogeneous costs in the user's units. The positive side is on the right."""

    begin: Floats  # (S, 3)
    end: Floats  # (S, 3)
    point: Int32  # (S,) number of the point
    line: npt.NDArray[np.int64]  # (S,) number of the line: pieces of one segment, cut by tiles, have the same


class Edges(NamedTuple):
    """The edges of facets on one side of a tile: costs and l beta at their ends."""

    ends: Floats  # (E, 2, 3)
    beta: Floats  # (E, 2, d)


class Tile(NamedTuple):
    """The curves in one tile, in internal homogeneous costs."""

    begin: Floats  # (S, 3)
    end: Floats  # (S, 3)
    point: Int32  # (S,)
    line: Bits  # (S,) name of the line
    names: Bits  # (S, 2) of begin and end if these are on a cut, else 0
    sides: npt.NDArray[np.int8]  # (S, 2) and on which side of the tile that is
    bounds: Bounds
    edges: list[Edges]  # of each side


class Collector:
    """The zero curves of n rows from the tiles of a map."""

    def __init__(self, problem: Problem, bounds: Bounds, rows: Floats) -> None:
        self.problem = problem
        self.bounds = bounds
        self.region = make_region(bounds, problem.cost_exponent)
        self.column_size = _column_sizes(problem.data.rows)
        self.rows = rows / self.column_size
        self.tiles: list[Tile] = []

    def within(self, bounds: Bounds, tiles: list[Tile]) -> Collector:
        """The same with some tiles of a part of the region."""
        part = copy(self)
        part.bounds, part.tiles = bounds, tiles
        return part

    def visit(self, tile: Bounds, facets: Facets) -> Tile | None:
        """The curves in a tile; none if it was not finished."""
        if facets.outcome != CLOSED:
            return None
        region = make_tile(tile, self.problem.cost_exponent, self.region)
        vertices, beta, corners = facets.corner, facets.beta, facets.vertex
        if np.any(self.column_size != 1.0):
            beta = beta * self.column_size
        which = _undecided(self.rows, vertices, beta)
        rows, lines = self.rows[which], _lines(region)
        positive, polygons = _positive_bits(rows, beta), (facets.at, corners, facets.code, facets.key)
        count, *arrays = _segments(vertices, *polygons, lines, beta, positive, rows, which)
        begin, end = (array[:count] for array in arrays[:2])
        kept = np.any(begin != end, axis=1) & ((begin[:, 2] > 0) | (end[:, 2] > 0))
        begin, end, point, line, names, sides = (array[:count][kept] for array in arrays)
        return Tile(begin, end, point, line, names, sides, tile, _edges_on_sides(facets, beta, len(region.sides)))

    def finish(self, undone: list[Bounds]) -> Curves:
        """All curves in the user's units.

        An extra point, number n, is positive where the map has not been explored, and no other is positive there.
        """
        parts = [(tile.begin, tile.end, tile.point, tile.line, tile.names) for tile in self.tiles]
        none = np.empty(0, np.uint64)
        parts.append((np.empty((0, 3)), np.empty((0, 3)), np.empty(0, np.int32), none, none.reshape(0, 2)))
        for k, side in _shores([tile.bounds for tile in self.tiles], undone, self.bounds):
            tile = self.tiles[k]
            tile.names[tile.sides == side] = 0
            edges = tile.edges[side]
            count = len(edges.ends)
            vertices, beta = edges.ends.reshape(2 * count, 3), edges.beta.reshape(2 * count, -1)
            ends = np.arange(2 * count, dtype=np.int32).reshape(count, 2)
            begin, end, point = _open_segments(vertices, ends, beta, _positive_bits(self.rows, beta), self.rows)
            own = np.arange(point.size, dtype=np.uint64) + np.uint64(sum(len(part[2]) for part in parts))
            parts.append((begin, end, point, own, np.zeros((point.size, 2), np.uint64)))
        begin, end, point, line, names = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        _join(begin, end, names)
        kept = np.any(begin != end, axis=1)
        to_user = self.problem.to_user
        _, number = np.unique(line[kept], return_inverse=True)
        return Curves(to_user(begin[kept]), to_user(end[kept]), point[kept], number.astype(np.int64))


def _column_sizes(rows: Floats) -> Floats:
    """The power of two nearest to the root mean square of each column, 1 for a column of zeros; relative to the largest."""
    size = np.sqrt(np.mean(rows**2, axis=0)) if len(rows) else np.zeros(rows.shape[1])
    power: Floats = np.exp2(np.rint(np.log2(np.where(size > 0, size, 1.0))))
    power /= power.max(initial=np.finfo(float).tiny)
    return power


def _lines(region: Region) -> Bits:
    """A word for the line of each cut by name, CUT the first; the same on both sides of a cut."""
    digests = [hashlib.blake2b(np.abs(line).tobytes(), digest_size=8).digest() for line in region.sides + 0.0]
    return np.array([int.from_bytes(digest, "little") for digest in digests], dtype=np.uint64)


def _edges_on_sides(facets: Facets, beta: Floats, n_sides: int) -> list[Edges]:
    """The edges of facets on each side of a tile."""
    place = np.flatnonzero(facets.code <= -1 - CUT)
    ends = np.column_stack([facets.vertex[before_in(place, facets.at)], facets.vertex[place]])
    side = -1 - CUT - facets.code[place]
    return [Edges(facets.corner[own], beta[own]) for own in (ends[side == j] for j in range(n_sides))]


def _shores(done: list[Bounds], undone: list[Bounds], bounds: Bounds) -> list[tuple[int, int]]:
    """Sides (tile, number) of tiles that lie on stretches of cuts where tiles are missing."""
    if not undone:
        return []
    sides = []  # axis, value, from, to, tile, number of the side
    for k, tile in enumerate([*done, *undone]):
        number = -1
        finite = np.isfinite(tile[0][1]), np.isfinite(tile[1][1])
        # As make_region numbers the sides: two infinite ones are one
        for axis, end in ((1, 0), (0, 1), (1, 1), (0, 0)):
            number += bool(end == 0 or finite[axis] or (axis == 1 and not any(finite)))
            if np.isfinite(tile[axis][end]) and tile[axis][end] != bounds[axis][end]:
                sides.append((axis, tile[axis][end], *tile[1 - axis], k, number))
    shores = []
    for _, group in groupby(sorted(sides), key=lambda side: side[:2]):
        stretch: list[tuple[int, int]] = []
        far, open_ = -np.inf, False
        for _, _, lo, hi, k, number in [*group, (0, 0.0, np.inf, np.inf, 0, 0)]:
            if lo >= far:
                shores += stretch if open_ else []
                stretch, open_ = [], False
            far = max(far, hi)
            if k < len(done):
                stretch.append((k, number))
            else:
                open_ = True
    return shores


def _join(begin: Floats, end: Floats, names: Bits) -> None:
    """Give ends with the same name the place of the first of them."""
    for_all = np.concatenate([begin, end])
    name = names.T.ravel()
    named = np.flatnonzero(name)
    _, first, which = np.unique(name[named], return_index=True, return_inverse=True)
    for_all[named] = for_all[named[first[which]]]
    begin[:], end[:] = for_all[: len(begin)], for_all[len(begin) :]


# ----------------------------------------------------------------------------------------------------------------------
# Signs and segments


def _undecided(rows: Floats, vertices: Floats, beta: Floats) -> Ints:
    """Rows that may have curves in a tile. The scores of the others have the same sign at all of its vertices.

    Weights, scaled to length 1, lie in a ball with center m and radius R: |z.u - z.m| <= |z| R. Where they are zero, but for
    infinity, nothing is known.
    """
    center, radius = _ball_of_directions(vertices, beta)
    value, length = rows @ center, np.linalg.norm(rows, axis=1)
    return np.flatnonzero(~(np.abs(value) > (radius + NEARLY) * length))


@entry
def _ball_of_directions(vertices, beta):
    """Center and radius of a ball that holds all weights, scaled to length 1. A radius of 2 says nothing."""
    center, scale, radius = np.zeros(beta.shape[1]), np.zeros(beta.shape[0]), 0.0
    for v in range(beta.shape[0]):
        square = dot(beta[v], beta[v])
        if LEAST < square < np.inf:
            scale[v] = 1.0 / np.sqrt(square)
        elif vertices[v, 2] > 0.0:
            return np.zeros_like(center), 2.0
        add(center, scale[v], beta[v])
    length = np.sqrt(dot(center, center))
    if length == 0.0:
        return center, 2.0
    for i in range(center.size):
        center[i] /= length
    for v in range(beta.shape[0]):  # |u - m|^2 = 2 - 2 u.m
        if scale[v] > 0.0:
            radius = max(radius, 2.0 - 2.0 * scale[v] * dot(beta[v], center))
    return center, np.sqrt(radius)


def _positive_bits(rows: Floats, beta: Floats) -> Bits:
    """For each vertex, which scores are positive: (V, ceil(n / 64)) words."""
    out = np.zeros((beta.shape[0], (rows.shape[0] + 63) // 64), dtype=np.uint64)
    size = ZERO * np.linalg.norm(rows, axis=1)
    for k in range(0, beta.shape[0], CHUNK):
        part = beta[k : k + CHUNK]
        _pack(part @ rows.T, size, np.linalg.norm(part, axis=1), out[k : k + CHUNK])
    return out


@entry
def _pack(scores, size, length, out):
    for v in range(scores.shape[0]):
        for j in range(scores.shape[1]):
            if scores[v, j] > size[j] * length[v]:
                out[v, j >> 6] |= np.uint64(1) << np.uint64(j & 63)


@kernel
def _is_positive(positive, v, j):
    return (positive[v, j >> 6] >> np.uint64(j & 63)) & np.uint64(1) != np.uint64(0)


@kernel
def _score(beta, rows, v, j, sign):
    """Size of a score at a vertex, given its sign: what is not positive and not clearly negative is zero."""
    total = 0.0
    for i in range(rows.shape[1]):
        total += beta[v, i] * rows[j, i]
    if sign:
        return max(total, 0.0)
    return max(-total, 0.0)


@kernel
def _crossing(vertices, beta, positive, rows, j, a, b, out):
    """Where the score of j vanishes on the edge between two vertices of unlike signs."""
    if _is_positive(positive, b, j):
        a, b = b, a
    above, below = _score(beta, rows, a, j, True), _score(beta, rows, b, j, False)
    if not above + below > 0.0:
        above, below = 1.0, 0.0
    share = below / (above + below)
    for i in range(3):
        out[i] = share * vertices[a, i] + (1.0 - share) * vertices[b, i]


@kernel
def _begin(begin, names, sides, n, first, name, side):
    """Write down where segment n begins."""
    for i in range(3):
        begin[n, i] = first[i]
    names[n, 0], sides[n, 0] = name, side


@kernel
def _name(code, key, lines, j):
    """Name of the crossing of the curve of j with an edge, and the side of the tile: 0 and -1 if that is not on a cut."""
    if code > -1 - CUT:
        return np.uint64(0), -1
    side = -1 - CUT - code
    return mix(key ^ lines[side]) ^ mix(np.uint64(j + 1)), side


@kernel
def _mixed(vertices, at, corners, f, positive, word, is_finite):
    """Which rows have both signs at the corners of facet f. At infinity all scores, times l, are zero, and tell nothing."""
    some, all_ = np.uint64(0), ~np.uint64(0)
    for k in range(at[f], at[f + 1]):
        if is_finite or vertices[corners[k], 2] > 0.0:
            some |= positive[corners[k], word]
            all_ &= positive[corners[k], word]
    return some & ~all_


@entry
def _segments(vertices, at, corners, code, key, lines, beta, positive, rows, which):
    """Segments of all curves in all facets: their number; arrays, with room, of begins, ends, points, lines, names, sides.

    ``which`` are the numbers of the rows.
    """
    begin, end, point = np.empty((1024, 3)), np.empty((1024, 3)), np.empty(1024, np.int32)
    line, names, sides = np.zeros(1024, np.uint64), np.zeros((1024, 2), np.uint64), np.zeros((1024, 2), np.int8)
    count, is_finite = 0, np.all(vertices[:, 2] > 0.0)
    first, first_name, first_side = np.empty(3), np.uint64(0), -1
    for f in range(at.size - 1):
        for word in range(positive.shape[1]):
            mixed, j = _mixed(vertices, at, corners, f, positive, word, is_finite), 64 * word
            while mixed != np.uint64(0):
                while mixed & np.uint64(255) == np.uint64(0):
                    mixed >>= np.uint64(8)
                    j += 8
                if mixed & np.uint64(1):
                    point_of_row = which[j]
                    # From each crossing into the positive corners to the next crossing out of them.
                    a, opened, wrapped = corners[at[f + 1] - 1], False, -1
                    for k in range(at[f], at[f + 1]):
                        b = corners[k]
                        up, down = _is_positive(positive, b, j), _is_positive(positive, a, j)
                        if up and not down:
                            _crossing(vertices, beta, positive, rows, j, a, b, first)
                            first_name, first_side = _name(code[k], key[f], lines, point_of_row)
                            opened = True
                        elif down and not up:
                            if count == point.size:
                                begin = np.concatenate((begin, np.empty_like(begin)))
                                end = np.concatenate((end, np.empty_like(end)))
                                point = np.concatenate((point, np.empty_like(point)))
                                line = np.concatenate((line, np.empty_like(line)))
                                names = np.concatenate((names, np.empty_like(names)))
                                sides = np.concatenate((sides, np.empty_like(sides)))
                            _crossing(vertices, beta, positive, rows, j, a, b, end[count])
                            names[count, 1], sides[count, 1] = _name(code[k], key[f], lines, point_of_row)
                            if opened:
                                _begin(begin, names, sides, count, first, first_name, first_side)
                                opened = False
                            else:
                                wrapped = count
                            point[count], line[count] = point_of_row, mix(key[f]) ^ mix(np.uint64(point_of_row + 1))
                            count += 1
                        a = b
                    if wrapped >= 0:
                        _begin(begin, names, sides, wrapped, first, first_name, first_side)
                mixed >>= np.uint64(1)
                j += 1
    return count, begin, end, point, line, names, sides


@entry
def _open_segments(vertices, ends, beta, positive, rows):
    """Where the explored part of a map ends: the border of all positive parts, and of what is unexplored (the last point)."""
    n = rows.shape[0]
    begin, end, point = np.empty((ends.shape[0] * (n + 1), 3)), np.empty((ends.shape[0] * (n + 1), 3)), []
    for e in range(ends.shape[0]):
        a, b = ends[e]
        for j in range(n + 1):
            up, down = j == n or _is_positive(positive, a, j), j == n or _is_positive(positive, b, j)
            if up or down:
                begin[len(point)], end[len(point)] = vertices[a], vertices[b]
                if not up:
                    _crossing(vertices, beta, positive, rows, j, a, b, begin[len(point)])
                elif not down:
                    _crossing(vertices, beta, positive, rows, j, a, b, end[len(point)])
                point.append(j)
    return begin[: len(point)].copy(), end[: len(point)].copy(), np.array(point).astype(np.int32)
