"""Convex fragments -> the cells that they are parts of, their borders, their size, and the point deepest inside.

Fragments come from splitting boxes (arrangement.py). Each edge carries the name of its line, each corner its own name. Two
fragments are neighbours only across one line, where they are intervals that overlap; they are parts of one cell if the
predictions are the same in both.

Border. On each line the corners of a cell are put in order. Each edge is then a walk from corner to corner, one way or the
other. Where as many edges go one way as the other, the line is inside the cell; what is left is its border. As many edges of a
fragment end in a corner as begin there, so the same holds for the border: it always falls into closed rings, however narrow
the cell is. A corner between two stretches of one line is left out.

Sizes and depths are measured in decades, (log10 C+, log10 C-), in which straight lines are bent: edges are followed by short
chords. Cells that reach zero or infinite costs have no finite size there; they are measured within a *window*.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from svmatlas.choose.arrangement import SAME, Box, line_through, side_of
from svmatlas.engine.compiled import entry, kernel_alloc

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

TOUCHING = 8 * SAME
"""Fragments that share no more of a line than this, relative to the costs, meet in a corner: each end is on the line to within
SAME."""

ROUNDING = 2.0**-48
"""Relative distance up to which a point is on an edge: corners and points carry a few roundings."""

NARROW = 2.0**-26
"""Width of a cell in barycentric coordinates (p, q, l) below which its models are asked: curves are good to 2e-10 there, and
the jitter moves them by 1e-13 times the conditioning."""

FAR = 2.0**-200
"""Costs below this share of the largest, and its inverse, stand for zero and infinity in logarithms."""

CHORDS = 4
"""Chords per factor e along a bent edge."""

ENOUGH = 1.05
"""A point is deep enough if no other is deeper by this factor."""

COARSE = 2.0**-8
"""Least side of the squares that the search for it begins with, relative to the extent of the cell."""

SQUARES, THIN = 4096, 2.0**-30
"""Squares that are kept at once, and their least side relative to the extent of the cell: limits for cells like threads."""

REACH = 10.0
"""The window reaches this factor beyond the finite corners of the cells."""


class Window(NamedTuple):
    """Bounds of (log10 C+, log10 C-)."""

    low: Floats  # (2,)
    high: Floats  # (2,)


@dataclass(frozen=True, eq=False)
class Cell:
    """A part of the plane of costs in which all predictions for all held-out rows are the same.

    Attributes
    ----------
    polygon : ndarray of shape (m, 3)
        Its border, counter-clockwise, in homogeneous costs (p, q, l): C+ = p/l, C- = q/l, and l = 0 is infinity.
    holes : list of ndarrays of shape (m, 3)
        Borders of what lies inside the cell but is not part of it, clockwise.
    pieces : list of ndarrays of shape (m, 3)
        Convex polygons that make up the cell.
    score : float
        Mean score.
    fold_scores : ndarray of shape (n_folds,)
        Score of each fold.
    area : float
        Area in square decades, of (log10 C+, log10 C-), within the window of the selection.
    unbounded : bool
        The cell reaches infinite costs.
    at_edge : bool
        The cell touches a side of the region other than the axes and infinity: better costs may lie beyond.
    center : (float, float)
        The costs (C+, C-) deepest inside the cell, in decades and within the window.
    key : int
        Name of the predictions: cells with the same key have the same.

    """

    polygon: Floats = field(repr=False)
    holes: list[Floats] = field(repr=False)
    pieces: list[Floats] = field(repr=False)
    score: float
    fold_scores: Floats
    area: float
    unbounded: bool
    at_edge: bool
    key: int = field(repr=False)
    _window: Window = field(repr=False)

    @cached_property
    def center(self) -> tuple[float, float]:
        """The costs deepest inside."""
        return deepest(self.pieces, [self.polygon, *self.holes], self._window)

    @property
    def is_narrow(self) -> bool:
        """Whether rounding and jitter alone may have made the cell."""
        return not any(_area(piece) > NARROW * _diameter(piece) for piece in self.pieces)

    def contains(self, C_pos: float, C_neg: float) -> bool:
        """Whether some costs lie in the cell or on its border."""
        point = np.array([C_pos, C_neg, 1.0])
        return any(_is_in(piece, point) for piece in self.pieces)


class Parts(NamedTuple):
    """A cell before it is measured: its fragments and its borders."""

    boxes: list[Box]
    rings: list[Floats]
    sides: set[int]  # sides of the region that it touches


def join(boxes: list[Box]) -> list[Parts]:
    """Put fragments together to cells."""
    if not boxes:
        return []
    edges = _edges(boxes)
    pairs = _overlaps(edges, np.array([box.key[0] for box in boxes]))
    graph = coo_array((np.ones(len(pairs)), (edges.owner[pairs[:, 0]], edges.owner[pairs[:, 1]])), shape=(len(boxes),) * 2)
    n_cells, cell = connected_components(graph, directed=False)
    border = _border(edges, cell)
    out = []
    for k in range(n_cells):
        mine = [boxes[i] for i in np.flatnonzero(cell == k)]
        rings = _rings(border, k) or [max((box.corners for box in mine), key=_area)]
        sides = {int(-1 - code) for code in edges.code[cell[edges.owner] == k] if code < 0}
        out.append(Parts(mine, rings, sides))
    return out


# ----------------------------------------------------------------------------------------------------------------------
# Neighbours


class _Edges(NamedTuple):
    """All edges of all fragments, with the names of their ends and their places along their lines."""

    ends: Ints  # (E, 2) numbers of the first and last corner
    corners: Floats  # (E, 2, 3)
    code: Ints
    line: Ints  # name of the line, below zero for sides of the region
    owner: Ints  # number of the fragment
    place: Floats  # (E, 2) of both ends along the line


def _edges(boxes: list[Box]) -> _Edges:
    """All edges with their places along their lines."""
    number = _number_corners(boxes)
    ends = [np.column_stack([mine, np.roll(mine, -1)]) for mine in number]
    corners = np.concatenate([np.stack([box.corners, np.roll(box.corners, -1, axis=0)], axis=1) for box in boxes])
    code = np.concatenate([box.codes for box in boxes])
    line = _lines_of(code)
    owner = np.repeat(np.arange(len(boxes)), [len(box.codes) for box in boxes])
    place = np.zeros((len(code), 2))
    order = np.argsort(line, kind="stable")
    logs = _logs(corners)
    for group in np.split(order, np.flatnonzero(np.diff(line[order])) + 1):
        u, v = logs[group, :, 0], logs[group, :, 1]
        # Along a line each of the three ratios rises, falls or stays; the one that changes most tells places apart best.
        place[group] = max([u, v, u - v], key=np.ptp)
    return _Edges(np.concatenate(ends), corners, code, line, owner, place)


def _lines_of(code: Ints) -> Ints:
    """Names of the lines with some codes, below zero for sides of the region."""
    return np.where(code >= 0, code >> 1, code)


def _number_corners(boxes: list[Box]) -> list[Ints]:
    """A number for each corner of each fragment. Corners with one name are one, and so are those between the same two lines.

    A line that passes a corner within SAME makes no new one, so a corner may be between other lines than those that named it.
    """
    names, name = np.unique(np.concatenate([box.names for box in boxes]), return_inverse=True)
    lines = [_lines_of(box.codes) for box in boxes]
    pairs = np.concatenate([np.sort(np.column_stack([np.roll(mine, 1), mine]), axis=1) for mine in lines])
    apart = np.flatnonzero(pairs[:, 0] != pairs[:, 1])  # else it is a corner in the middle of an edge
    _, pair = np.unique(pairs[apart], axis=0, return_inverse=True)
    nodes = names.size + (int(pair.max()) + 1 if pair.size else 0)
    graph = coo_array((np.ones(apart.size), (name.ravel()[apart], names.size + pair.ravel())), shape=(nodes, nodes))
    _, number = connected_components(graph, directed=False)
    return np.split(number.astype(np.int64)[name.ravel()], np.cumsum([box.names.size for box in boxes])[:-1])


def _overlaps(edges: _Edges, key: Words) -> Ints:
    """Pairs of edges of fragments with the same predictions, on two sides of a line, that share more than a corner."""
    pairs = []
    low, high = edges.place.min(axis=1), edges.place.max(axis=1)
    split = np.flatnonzero(edges.code >= 0)
    order = split[np.lexsort((low[split], key[edges.owner[split]], edges.line[split]))]
    line, name = edges.line[order], key[edges.owner[order]]
    cuts = np.flatnonzero((np.diff(line) != 0) | (name[1:] != name[:-1])) + 1
    for group in np.split(order, cuts):
        if group.size < 2:
            continue
        left, right = group[edges.code[group] % 2 == 0], group[edges.code[group] % 2 == 1]
        overlap = np.minimum(high[left][:, None], high[right]) - np.maximum(low[left][:, None], low[right])
        a, b = np.nonzero(overlap > TOUCHING)
        pairs.append(np.column_stack([left[a], right[b]]))
    return np.concatenate(pairs) if pairs else np.empty((0, 2), dtype=np.int64)


# ----------------------------------------------------------------------------------------------------------------------
# Borders


class _Border(NamedTuple):
    """Stretches of lines between two corners that bound a cell, which lies on the left."""

    cell: Ints
    line: Ints
    ends: Ints  # (n, 2) numbers of the corners
    corners: Floats  # (m, 3)


def _border(edges: _Edges, cell: Ints) -> _Border:
    """What is left of all edges when those that go opposite ways are taken out."""
    number, corners = edges.ends, edges.corners.reshape(-1, 3)
    places = np.empty((int(number.max()) + 1, 3))
    places[number.ravel()[::-1]] = corners[::-1]
    mine, line = (np.repeat(values, 2) for values in (cell[edges.owner], edges.line))
    # A corner on a line of a cell is one stop, at the place where it was first seen.
    stops = np.column_stack([mine, line, number.ravel()])
    stops, seen, which = np.unique(stops, axis=0, return_index=True, return_inverse=True)
    order = np.lexsort((edges.place.ravel()[seen], stops[:, 1], stops[:, 0]))
    rank = np.empty(order.size, dtype=np.int64)
    rank[order] = np.arange(order.size)
    stops, which = stops[order], rank[which.ravel()].reshape(-1, 2)
    # Edges that pass from each stop to the next, less those that come back.
    passing = np.cumsum(np.bincount(which[:, 0], minlength=order.size) - np.bincount(which[:, 1], minlength=order.size))
    at = np.repeat(np.arange(order.size), np.abs(passing))
    forth = passing[at] > 0
    ends = np.column_stack([np.where(forth, at, at + 1), np.where(forth, at + 1, at)])
    return _Border(stops[at, 0], stops[at, 1], stops[ends, 2], places)


def _rings(border: _Border, cell: int) -> list[Floats]:
    """The closed rings of the border of a cell, the outer one first."""
    follow: dict[int, list[tuple[int, int]]] = {}
    mine = border.cell == cell
    for (a, b), line in zip(border.ends[mine].tolist(), border.line[mine].tolist(), strict=True):
        follow.setdefault(a, []).append((b, line))
    rings = []
    while follow:
        ring = _follow(follow, next(iter(follow)))
        kept = [a for (a, line), (_, before) in zip(ring, ring[-1:] + ring[:-1], strict=True) if line != before]
        if len(kept) > 2:
            rings.append(border.corners[kept])
    return sorted(rings, key=lambda ring: -_area(ring))


def _follow(follow: dict[int, list[tuple[int, int]]], first: int) -> list[tuple[int, int]]:
    """Take stretches away from a corner on until it is reached again: the corners, each with the line that begins there."""
    ring, here = [], first
    while True:
        there, line = follow[here].pop()
        if not follow[here]:
            del follow[here]
        ring.append((here, line))
        here = there
        if here == first:
            return ring


def _area(ring: Floats) -> float:
    """Signed area in barycentric coordinates."""
    ring = ring / ring.sum(axis=1, keepdims=True)
    return float(np.einsum("j,ij->", ring[0], np.cross(ring, np.roll(ring, -1, axis=0))))


def _diameter(ring: Floats) -> float:
    """Largest distance of corners in barycentric coordinates."""
    ring = ring / ring.sum(axis=1, keepdims=True)
    return float(np.linalg.norm(ring[:, None] - ring, axis=2).max())


def _logs(c: Floats) -> Floats:
    """(log C+, log C-) of homogeneous costs, cut off far out."""
    c = np.maximum(c, FAR * c.max(axis=-1, keepdims=True))
    return np.log(c[..., :2] / c[..., 2:])


# ----------------------------------------------------------------------------------------------------------------------
# Sizes and depths


def make_window(cells: list[Parts], bounds: Any) -> Window:
    """The decades in which cells are measured: their finite corners and somewhat more, within the region."""
    corners = [ring for cell in cells for ring in cell.rings] or [np.ones((1, 3))]
    c = np.concatenate(corners)
    low, high = np.zeros(2), np.zeros(2)
    for i in range(2):
        finite = (c[:, i] > FAR * c.max(axis=1)) & (c[:, 2] > FAR * c.max(axis=1))
        logs = np.log10(c[finite, i] / c[finite, 2]) if finite.any() else np.zeros(1)
        lo, hi = bounds[i]
        low[i] = max(logs.min() - np.log10(REACH), np.log10(lo) if lo > 0 else -np.inf)
        high[i] = min(logs.max() + np.log10(REACH), np.log10(hi))
    return Window(low, high)


def area_within(pieces: list[Floats], window: Window) -> float:
    """Area of convex polygons in square decades within a window."""
    return float(sum(_log_area(_clipped(piece, window)) for piece in pieces) / np.log(10) ** 2)


def _clipped(piece: Floats, window: Window) -> Floats:
    """The part of a convex polygon within a window."""
    for i in range(2):
        for value, sign in ((window.low[i], 1.0), (window.high[i], -1.0)):
            h = np.zeros(3)
            h[i], h[2] = sign, -sign * 10.0**value
            piece = _clip(piece, h)
    return piece


@entry
def _clip(piece, h):
    """The part of a convex polygon where h.c >= 0."""
    m = piece.shape[0]
    out, n = np.empty((m + 2, 3)), 0
    for i in range(m):
        a, b = piece[i], piece[(i + 1) % m]
        x, y = h[0] * a[0] + h[1] * a[1] + h[2] * a[2], h[0] * b[0] + h[1] * b[1] + h[2] * b[2]
        if x >= 0.0:
            out[n, 0], out[n, 1], out[n, 2] = a[0], a[1], a[2]
            n += 1
        if x * y < 0.0:
            for c in range(3):
                out[n, c] = abs(y) * a[c] + abs(x) * b[c]
            top = max(out[n, 0], out[n, 1], out[n, 2])
            for c in range(3):
                out[n, c] /= top
            n += 1
    return out[:n].copy()


@entry
def _chords(a, b):
    """The edge between finite positive costs a and b as points (n, 2) of (log C+, log C-): a + exp(s) b for many s."""
    span = 4.0
    for i in range(3):
        span = max(span, 4.0 + abs(np.log(b[i]) - np.log(a[i])))
    n = int(2 * span * CHORDS)
    out = np.empty((n + 3, 2))
    for k in range(n + 3):
        x, y = 1.0, np.exp(span * (2.0 * (k - 1) / n - 1.0))
        if k == 0:
            y = 0.0
        elif k == n + 2:
            x, y = 0.0, 1.0
        l = np.log(x * a[2] + y * b[2])
        out[k, 0] = np.log(x * a[0] + y * b[0]) - l
        out[k, 1] = np.log(x * a[1] + y * b[1]) - l
    return out


@entry
def _log_area(piece):
    """Area of a convex polygon of finite positive costs in (log C+, log C-)."""
    total = 0.0
    for i in range(piece.shape[0]):
        line = _chords(piece[i], piece[(i + 1) % piece.shape[0]])
        for k in range(1, line.shape[0]):
            total += line[k - 1, 0] * line[k, 1] - line[k - 1, 1] * line[k, 0]
    return 0.5 * total


@kernel_alloc
def _holds(piece, c):
    """Whether a convex polygon holds a point, or has it on its border."""
    m, h = piece.shape[0], np.empty(3)
    for i in range(m):
        line_through(piece[i], piece[(i + 1) % m], h)
        if side_of(h, c, ROUNDING) < 0:
            return False
    return True


@entry
def _is_in(piece, c):
    """Whether a convex polygon holds a point (for Python)."""
    return _holds(piece, c)


@entry
def _depths(squares, corners, at, chords):
    """Distance of each point (n, 2) from the nearest chord, negative if no convex polygon holds it."""
    out = np.empty(squares.shape[0])
    for n in range(squares.shape[0]):
        x, y = squares[n]
        best = np.inf
        for k in range(chords.shape[0]):
            a, b, c, d = chords[k]
            u, v = c - a, d - b
            length = u * u + v * v
            t = 0.0 if length == 0.0 else min(1.0, max(0.0, ((x - a) * u + (y - b) * v) / length))
            best = min(best, (x - a - t * u) ** 2 + (y - b - t * v) ** 2)
        inside, point = False, np.array([np.exp(x), np.exp(y), 1.0])
        for k in range(at.size - 1):
            inside = inside or _holds(corners[at[k] : at[k + 1]], point)
        out[n] = np.sqrt(best) if inside else -np.sqrt(best)
    return out


def deepest(pieces: list[Floats], rings: list[Floats], window: Window) -> tuple[float, float]:
    """The costs deepest inside a cell, in decades within a window: squares that may hold them are quartered."""
    pieces = [clipped for clipped in (_clipped(piece, window) for piece in pieces) if len(clipped) > 2] or pieces
    corners, at = np.concatenate(pieces), np.cumsum([0, *map(len, pieces)])
    chords = _border_chords(rings, window)
    logs = _logs(corners)
    low, high = logs.min(axis=0), logs.max(axis=0)
    points = _logs(np.array([(piece / piece.sum(axis=1, keepdims=True)).mean(axis=0) for piece in pieces]))
    depth = _depths(points, corners, at, chords)
    best, where = depth.max(), points[depth.argmax()]
    half = max(float((high - low).min()), COARSE * float((high - low).max())) / 2
    grid = np.meshgrid(*(np.arange(low[i] + half, high[i] + half, 2 * half) for i in range(2)))
    points = np.column_stack([axis.ravel() for axis in grid])
    while points.size and half > THIN * float((high - low).max()):
        depth = _depths(points, corners, at, chords)
        if depth.max() > best:
            best, where = depth.max(), points[depth.argmax()]
        order = np.argsort(-depth, kind="stable")[:SQUARES]
        points = points[order][depth[order] + np.sqrt(2.0) * half > ENOUGH * best]
        half /= 2
        steps = half * np.array([[-1, -1], [-1, 1], [1, -1], [1, 1]])
        points = (points[:, None] + steps).reshape(-1, 2)
    return float(np.exp(where[0])), float(np.exp(where[1]))


def _border_chords(rings: list[Floats], window: Window) -> Floats:
    """Borders of a cell and of the window as chords (n, 4). A border beyond the window is further than the window."""
    low, high = window.low * np.log(10), window.high * np.log(10)
    lines = [np.array([low, [high[0], low[1]], high, [low[0], high[1]], low])]
    for ring in rings:
        c = np.maximum(ring, FAR * ring.max(axis=1, keepdims=True))
        lines += [_chords(a, b) for a, b in zip(c, np.roll(c, -1, axis=0), strict=True)]
    chords = np.concatenate([np.column_stack([line[:-1], line[1:]]) for line in lines])
    least, most = np.minimum(chords[:, :2], chords[:, 2:]), np.maximum(chords[:, :2], chords[:, 2:])
    return np.ascontiguousarray(chords[np.all((least <= high) & (most >= low), axis=1)])
