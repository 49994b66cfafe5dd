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
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.compiled import entry, kernel
from svmatlas.facet import CUT, Region
from svmatlas.layers import Facets, before_in, mix
from svmatlas.polygon import CLOSED
from svmatlas.problem import Bounds, Problem, make_region, make_tile

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Int32 = npt.NDArray[np.int32]
Bits = npt.NDArray[np.uint64]

ZERO = 2.0**-33
"""Scores below this (1e-10) times |z||beta| are zero: what the jitter of 1e-13 and conditioning may make of a true zero."""

CHUNK = 4096
"""Vertices whose scores are computed at once."""


class Curves(NamedTuple):
    """Straight pieces of zero curves, in homogeneous costs in the user's units. The positive side is on the right."""

    begin: Floats  # (S, 3)
    end: Floats  # (S, 3)
    point: Int32  # (S,) number of the point


def inner_rows(problem: Problem, X: Any) -> Floats:
    """New rows in the coordinates of the problem, not signed: the decision value is row . beta."""
    features, unit = problem.features, np.eye(problem.data.rows.shape[1])
    if not features.linear:
        return np.ascontiguousarray(features.decide(X, features.expand(unit)).T)
    coef, intercept = features.weights(unit)
    return np.ascontiguousarray(X @ coef.T + intercept)


class Edges(NamedTuple):
    """The edges of facets on one side of a tile: costs and l beta at their ends."""

    ends: Floats  # (E, 2, 3)
    beta: Floats  # (E, 2, d)


class Tile(NamedTuple):
    """The curves in one tile, in internal homogeneous costs."""

    begin: Floats  # (S, 3)
    end: Floats  # (S, 3)
    point: Int32  # (S,)
    names: Bits  # (S, 2) of begin and end if these are on a cut, else 0
    sides: npt.NDArray[np.int8]  # (S, 2) and on which side of the tile that is
    bounds: Bounds
    edges: list[Edges]  # of each side, if tiles may be missing
    held: Ints  # costs that are in this tile,
    positive: npt.NDArray[np.bool_]  # (., n) the signs there
    margin: Floats  # (.,)


class Collector:
    """The zero curves of n rows from the tiles of a map, and the signs at homogeneous costs (m, 3) in the user's units."""

    def __init__(self, problem: Problem, bounds: Bounds, rows: Floats, costs: Floats, partial: bool) -> None:
        self.problem = problem
        self.bounds = bounds
        self.region = make_region(bounds, problem.cost_exponent)
        self.rows = rows
        self.costs = costs
        self.partial = partial  # may tiles be missing?
        self.tiles: list[Tile] = []

    def visit(self, tile: Bounds, facets: Facets) -> Tile | None:
        """The curves in a tile; none if it was not finished."""
        if facets.outcome != CLOSED:
            return None
        region, rows = make_tile(tile, self.problem.cost_exponent, self.region), self.rows
        vertices, beta, corners = facets.corner, facets.beta, facets.vertex
        positive = _positive_bits(rows, beta)
        count, *arrays = _segments(vertices, facets.at, corners, facets.code, facets.key, _lines(region), beta, positive, rows)
        begin, end = (array[:count] for array in arrays[:2])
        kept = np.any(begin != end, axis=1) & ((begin[:, 2] > 0) | (end[:, 2] > 0))
        begin, end, point, names, sides = (array[:count][kept] for array in arrays)
        (a, b), (c, d) = tile
        p, q, l = self.costs.T
        held = np.flatnonzero((a * l <= p) & (p < b * l) & (c * l <= q) & (q < d * l))
        inner = self.costs[held] * np.ldexp(1.0, [self.problem.cost_exponent, self.problem.cost_exponent, 0])
        where = _find(vertices, facets.at, corners, inner)
        signs, margin = _signs(vertices, facets.at, corners, beta, rows, where, inner)
        edges = [_edges_of(facets, vertices, beta, corners, CUT + j) for j in range(len(region.sides)) if self.partial]
        return Tile(begin, end, point, names, sides, tile, edges, held, signs, margin)

    def finish(self, undone: list[Bounds]) -> tuple[Curves, npt.NDArray[np.bool_], Floats]:
        """All curves, the signs (m, n + 1), and how far the costs (m,) are from any curve.

        An extra point, number n, is positive where the map has not been explored, and no other is positive there. The last
        array is the smallest score relative to |z||beta|, of those that do not vanish.
        """
        n = len(self.rows)
        parts = [(tile.begin, tile.end, tile.point, tile.names) for tile in self.tiles]
        parts.append((np.empty((0, 3)), np.empty((0, 3)), np.empty(0, np.int32), np.empty((0, 2), np.uint64)))
        for k, side in _shores([tile.bounds for tile in self.tiles], undone, self.bounds):
            tile = self.tiles[k]
            tile.names[tile.sides == side] = 0
            edges = tile.edges[side]
            count = len(edges.ends)
            vertices, beta = edges.ends.reshape(2 * count, 3), edges.beta.reshape(2 * count, -1)
            ends = np.arange(2 * count, dtype=np.int32).reshape(count, 2)
            begin, end, point = _open_segments(vertices, ends, beta, _positive_bits(self.rows, beta), self.rows)
            parts.append((begin, end, point, np.zeros((point.size, 2), np.uint64)))
        begin, end, point, names = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        _join(begin, end, names)
        kept = np.any(begin != end, axis=1)
        signs, margin = np.zeros((len(self.costs), n + 1), dtype=bool), np.full(len(self.costs), np.inf)
        signs[:, n] = True
        for tile in self.tiles:
            signs[tile.held, :n], signs[tile.held, n], margin[tile.held] = tile.positive, False, tile.margin
        to_user = self.problem.to_user
        return Curves(to_user(begin[kept]), to_user(end[kept]), point[kept]), signs, margin


def _lines(region: Region) -> Bits:
    """A word for the line of each cut by name, CUT the first; the same on both sides of a cut."""
    digests = [hashlib.blake2b(np.abs(line).tobytes(), digest_size=8).digest() for line in region.sides + 0.0]
    return np.array([int.from_bytes(digest, "little") for digest in digests], dtype=np.uint64)


def _edges_of(facets: Facets, vertices: Floats, beta: Floats, corners: Int32, name: int) -> Edges:
    """The edges of facets on the side of a tile with a name."""
    place = np.flatnonzero(facets.code == -1 - name)
    ends = np.column_stack([corners[before_in(place, facets.at)], corners[place]])
    return Edges(vertices[ends], beta[ends])


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


@entry
def _segments(vertices, at, corners, code, key, lines, beta, positive, rows):
    """Segments of all curves in all facets: their number, and arrays of begins, ends, points, names and sides with room."""
    begin, end, point = np.empty((1024, 3)), np.empty((1024, 3)), np.empty(1024, np.int32)
    names, sides = np.zeros((1024, 2), np.uint64), np.zeros((1024, 2), np.int8)
    count = 0
    first, first_name, first_side = np.empty(3), np.uint64(0), -1
    for f in range(at.size - 1):
        for word in range(positive.shape[1]):
            some, all_ = np.uint64(0), ~np.uint64(0)
            for k in range(at[f], at[f + 1]):
                some |= positive[corners[k], word]
                all_ &= positive[corners[k], word]
            mixed, j = some & ~all_, 64 * word
            while mixed != np.uint64(0):
                if mixed & np.uint64(1):
                    # From each crossing into the positive corners to the next crossing out of them.
                    a, opened, wrapped = corners[at[f + 1] - 1], False, -1
                    for k in range(at[f], at[f + 1]):
                        b = corners[k]
                        up, down = _is_positive(positive, b, j), _is_positive(positive, a, j)
                        if up and not down:
                            _crossing(vertices, beta, positive, rows, j, a, b, first)
                            first_name, first_side = _name(code[k], key[f], lines, j)
                            opened = True
                        elif down and not up:
                            if count == point.size:
                                begin = np.concatenate((begin, np.empty_like(begin)))
                                end = np.concatenate((end, np.empty_like(end)))
                                point = np.concatenate((point, np.empty_like(point)))
                                names = np.concatenate((names, np.empty_like(names)))
                                sides = np.concatenate((sides, np.empty_like(sides)))
                            _crossing(vertices, beta, positive, rows, j, a, b, end[count])
                            names[count, 1], sides[count, 1] = _name(code[k], key[f], lines, j)
                            if opened:
                                _begin(begin, names, sides, count, first, first_name, first_side)
                                opened = False
                            else:
                                wrapped = count
                            point[count] = j
                            count += 1
                        a = b
                    if wrapped >= 0:
                        _begin(begin, names, sides, wrapped, first, first_name, first_side)
                mixed >>= np.uint64(1)
                j += 1
    return count, begin, end, point, names, sides


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


@entry
def _find(vertices, at, corners, costs):
    """The facet of each of some costs: that with the edges furthest away."""
    out = np.zeros(costs.shape[0], np.int64)
    for n in range(costs.shape[0]):
        c, best = costs[n], -np.inf
        for f in range(at.size - 1):
            least, before = np.inf, corners[at[f + 1] - 1]
            for k in range(at[f], at[f + 1]):
                least = min(least, _det(vertices[before], vertices[corners[k]], c))
                before = corners[k]
            if least > best:
                out[n], best = f, least
    return out


@entry
def _signs(vertices, at, corners, beta, rows, facets, costs):
    """Signs (m, n) of the scores at some costs within given facets, and the smallest relative score that is not zero."""
    out, margin = np.zeros((costs.shape[0], rows.shape[0]), np.bool_), np.full(costs.shape[0], np.inf)
    local = np.empty(rows.shape[1])
    for n in range(costs.shape[0]):
        f, c = facets[n], costs[n]
        a, best, share = corners[at[f]], -np.inf, np.empty(3)
        place = at[f] + 1
        for k in range(at[f] + 1, at[f + 1] - 1):
            x, y, z = _barycentric(vertices[a], vertices[corners[k]], vertices[corners[k + 1]], c)
            if np.isfinite(x + y + z) and min(x, y, z) > best:
                best, place = min(x, y, z), k
                share[0], share[1], share[2] = x, y, z
        three = (a, corners[place], corners[place + 1])
        length = 0.0
        for i in range(rows.shape[1]):
            local[i] = share[0] * beta[three[0], i] + share[1] * beta[three[1], i] + share[2] * beta[three[2], i]
            length += local[i] ** 2
        for j in range(rows.shape[0]):
            score, norm = 0.0, 0.0
            for i in range(rows.shape[1]):
                score += local[i] * rows[j, i]
                norm += rows[j, i] ** 2
            size = np.sqrt(norm * length)
            out[n, j] = score > ZERO * size
            if abs(score) > ZERO * size:
                margin[n] = min(margin[n], abs(score) / size)
    return out, margin


@kernel
def _barycentric(a, b, c, x):
    """Shares of the corners of a triangle in a point."""
    return (
        _det(x, b, c) / _det(a, b, c),
        _det(a, x, c) / _det(a, b, c),
        _det(a, b, x) / _det(a, b, c),
    )


@kernel
def _det(a, b, c):
    return a[0] * (b[1] * c[2] - b[2] * c[1]) + a[1] * (b[2] * c[0] - b[0] * c[2]) + a[2] * (b[0] * c[1] - b[1] * c[0])
