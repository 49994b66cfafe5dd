"""The boundary of each facet as a ring of edges, from the boundaries of its pieces; and which ends of edges are one vertex.

See canonical.py: an edge is a pair of facets, and its ends follow from what comes next around them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from svmatlas.engine.compiled import entry, kernel, kernel_alloc
from svmatlas.engine.geometry import triple_product
from svmatlas.engine.names import identify, root_of
from svmatlas.engine.workspace import Int32, Ints


@kernel
def _distance(a, b):
    """Distance of two vertices: the largest relative difference of their ratios."""
    top = 0.0
    for c in range(3):
        x, y = a[(c + 1) % 3] * b[(c + 2) % 3], a[(c + 2) % 3] * b[(c + 1) % 3]
        top = max(top, abs(x - y) / (x + y) if x + y > 0.0 else 0.0)
    return top


@kernel
def place_after(at, f, k, n):
    """The place one after (n = 1) or before (n = -1) place k of facet f."""
    if n > 0:
        return k + 1 if k + 1 < at[f + 1] else at[f]
    return k - 1 if k > at[f] else at[f + 1] - 1


@kernel
def share_along(v, a, b):
    """How far v is along the way from a to b, as a share of it."""
    va, vb, vv = a[0] + a[1] + a[2], b[0] + b[1] + b[2], v[0] + v[1] + v[2]
    top = 0 if a[0] + b[0] >= max(a[1] + b[1], a[2] + b[2]) else (1 if a[1] + b[1] >= a[2] + b[2] else 2)
    dot, square = 0.0, 0.0
    for c in ((top + 1) % 3, (top + 2) % 3):  # not the largest: costs may be small, and differ by less
        step = b[c] / vb - a[c] / va
        dot += (v[c] / vv - a[c] / va) * step
        square += step * step
    return dot / square


NOT_AN_EDGE, UNEXPLORED, SEVERAL = -100 * (1 + np.arange(3))
"""Behind an edge within a facet, or one without length; behind an edge where nothing was explored; in place of the code of an
event: not known yet. (Less than all codes of sides.)"""


class Rings(NamedTuple):
    """The edges of all facets in order."""

    at: Ints  # (F + 1,) facet f has the places at[f] : at[f + 1] of the others
    beyond: Int32  # the facet behind the edge, the code of a side, or UNEXPLORED
    event: Int32  # code of the event, or SEVERAL
    first: Int32  # vertices of the split mesh
    last: Int32
    place: Int32  # a place of the split mesh on the edge


@kernel_alloc
def _angles(vertices, corner, places, starts):
    """Angles at which edges of one facet are seen from inside, in coordinates in which it is about round."""
    size, scale = places.size, np.zeros(3)
    x, y, angle = np.empty(size), np.empty(size), np.empty(size)
    for n in range(size):
        for c in range(3):
            scale[c] += vertices[corner[places[n]], c]
    x_mean, y_mean = 0.0, 0.0
    for n in range(size):
        a, b = _flat(vertices[starts[n]], scale), _flat(vertices[corner[places[n]]], scale)
        x[n], y[n] = (a[0] + b[0]) / 2, (a[1] + b[1]) / 2
        x_mean, y_mean = x_mean + x[n], y_mean + y[n]
    x_mean, y_mean = x_mean / max(size, 1), y_mean / max(size, 1)
    xx, xy, yy = 0.0, 0.0, 0.0
    for n in range(size):
        x[n], y[n] = x[n] - x_mean, y[n] - y_mean
        xx, xy, yy = xx + x[n] * x[n], xy + x[n] * y[n], yy + y[n] * y[n]
    slope = xy / xx if xx > 0.0 else 0.0
    rest = yy - slope * xy
    width, height = np.sqrt(xx) if xx > 0.0 else 1.0, np.sqrt(rest) if rest > 0.0 else 1.0
    for n in range(size):
        angle[n] = np.arctan2((y[n] - slope * x[n]) / height, x[n] / width)
    return angle


@kernel_alloc
def _order_of(values):
    """The places of values from the least on; equal ones stay in their order. (A merge sort: numba's compiles slowly.)"""
    n, width = values.size, 1
    order, merged = np.empty(n, np.int64), np.empty(n, np.int64)
    for k in range(n):
        order[k] = k
    while width < n:
        for first in range(0, n, 2 * width):
            middle, end = min(first + width, n), min(first + 2 * width, n)
            a, b = first, middle
            for k in range(first, end):
                if b == end or (a < middle and not values[order[b]] < values[order[a]]):
                    merged[k] = order[a]
                    a += 1
                else:
                    merged[k] = order[b]
                    b += 1
        order, merged = merged, order
        width *= 2
    return order


@kernel
def _flat(v, scale):
    """Two of the barycentric coordinates of costs, in the given scale of each, so that a turn to the left is one."""
    x = v[0] / scale[0] if scale[0] > 0.0 else 0.0
    y = v[1] / scale[1] if scale[1] > 0.0 else 0.0
    z = v[2] / scale[2] if scale[2] > 0.0 else 0.0
    return x / (x + y + z), y / (x + y + z)


@kernel_alloc
def _boundary_of(at, corner, beyond, pieces):
    """The places of some pieces that are on the boundary of their facet, and the vertices where their edges begin."""
    n = 0
    for piece in range(pieces.size):
        n += at[pieces[piece] + 1] - at[pieces[piece]]
    places, starts, n = np.empty(n, np.int64), np.empty(n, np.int64), 0
    for piece in range(pieces.size):
        f = pieces[piece]
        for k in range(at[f], at[f + 1]):
            places[n], starts[n] = k, corner[place_after(at, f, k, -1)]
            n += beyond[k] != NOT_AN_EDGE
    return places[:n], starts[:n]


@kernel_alloc
def _neighbours(beyond, places, length):
    """The facets behind some places in the order of the longest place of each: that place, and for all places which it is."""
    longest, which, n = np.empty(places.size, np.int64), np.empty(places.size, np.int64), 0
    for k in range(places.size):
        found = n if beyond[places[k]] == UNEXPLORED else 0
        while found < n and beyond[places[longest[found]]] != beyond[places[k]]:
            found += 1
        if found == n:
            longest[n] = k
            n += 1
        if length[k] > length[longest[found]]:
            longest[found] = k
        which[k] = found
    facet, number, m = np.full(places.size, -1, np.int64), np.empty(n, np.int64), 0
    for k in range(n):
        facet[longest[k]] = k
    for k in range(places.size):
        if facet[k] >= 0:
            longest[m], number[facet[k]] = k, m
            m += 1
    for k in range(places.size):
        which[k] = number[which[k]]
    return longest[:n], which


@entry
def assemble(vertices, at, corner, beyond, event, plateau, member_at, members):
    """The edges of all facets in order, from the boundaries of their pieces: see Rings."""
    n, size = corner.size, 0
    rings = Rings(
        np.zeros(member_at.size, np.int64), np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32),
        np.empty(n, np.int32), np.empty(n, np.int32),
    )  # fmt: skip
    for g in range(member_at.size - 1):
        pieces = members[member_at[g] : member_at[g + 1]]
        if pieces.size == 1 and not plateau[pieces[0]]:
            size = _go_round(at, corner, beyond, event, pieces[0], rings, size)
        else:
            size = _gather(vertices, at, corner, beyond, event, pieces, rings, size)
        rings.at[g + 1] = size
    return rings, size


@kernel
def _go_round(at, corner, beyond, event, f, rings, size):
    """Append the ring of a facet that is one piece: edges to the same facet follow each other."""
    start, before = size, corner[at[f + 1] - 1]
    for k in range(at[f], at[f + 1]):
        first, before = before, corner[k]
        if beyond[k] == NOT_AN_EDGE:
            continue
        if size > start and rings.beyond[size - 1] == beyond[k] != UNEXPLORED:
            rings.event[size - 1], rings.last[size - 1] = SEVERAL, corner[k]
            continue
        rings.beyond[size], rings.event[size], rings.place[size] = beyond[k], event[k], k
        rings.first[size], rings.last[size] = first, corner[k]
        size += 1
    if size > start + 1 and rings.beyond[start] == rings.beyond[size - 1] != UNEXPLORED:
        size -= 1
        rings.event[start], rings.first[start] = SEVERAL, rings.first[size]
    return size


@kernel_alloc
def _gather(vertices, at, corner, beyond, event, pieces, rings, size):
    """Append the ring of a facet of several pieces: an edge is where its longest part is seen from inside."""
    unordered, unordered_starts = _boundary_of(at, corner, beyond, pieces)
    order = _order_of(_angles(vertices, corner, unordered, unordered_starts))
    places, starts, length = np.empty(order.size, np.int64), np.empty(order.size, np.int64), np.empty(order.size)
    for k in range(order.size):
        places[k], starts[k] = unordered[order[k]], unordered_starts[order[k]]
        length[k] = _distance(vertices[starts[k]], vertices[corner[places[k]]])
    longest, which = _neighbours(beyond, places, length)
    for n in range(longest.size):
        k = longest[n]
        rings.beyond[size + n], rings.event[size + n] = beyond[places[k]], event[places[k]]
        rings.first[size + n], rings.last[size + n], rings.place[size + n] = starts[k], corner[places[k]], places[k]
    for k in range(places.size):
        n, top = size + which[k], longest[which[k]]
        if k != top:
            rings.event[n] = SEVERAL
            a, b = vertices[starts[top]], vertices[corner[places[top]]]
            if share_along(vertices[starts[k]], a, b) < share_along(vertices[rings.first[n]], a, b):
                rings.first[n] = starts[k]
            if share_along(vertices[corner[places[k]]], a, b) > share_along(vertices[rings.last[n]], a, b):
                rings.last[n] = corner[places[k]]
    return size + longest.size


@entry
def _pair(at, beyond):
    """For each place the place of the same edge in the facet behind it, looked for in the shorter ring; -1: it has none."""
    twin = np.full(beyond.size, -1, np.int32)
    for f in range(at.size - 1):
        for k in range(at[f], at[f + 1]):
            g = beyond[k]
            if g < 0:
                continue
            size, other = at[f + 1] - at[f], at[g + 1] - at[g]
            for j in range(at[g], at[g + 1] if other < size or (other == size and g > f) else at[g]):
                if beyond[j] == f:
                    twin[k], twin[j] = j, k
    return twin


@kernel
def sharpness(a, v, b):
    """How well the corner v between edges from a and to b is known: zeros by structure first, then the sine of the angle.

    Where tied lines meet, almost parallel, the jitter moves a corner by far more than itself.
    """
    zeros = 1.0 * (v[0] == 0.0) + 1.0 * (v[1] == 0.0) + 1.0 * (v[2] == 0.0)
    det, size = triple_product(a, v, b)
    lengths = _distance(a, v) * _distance(v, b)
    return zeros + (min(1.0, abs(det) / (size * lengths)) / 2.0 if size * lengths > 0.0 else 0.0)


@entry
def join_corners(vertices, at, twin, first, last):
    """For each vertex of the split mesh the one that stands for it: ends of edges that follow each other, or are the same.

    It is the one that is known best.
    """
    n = vertices.shape[0]
    one, count = np.arange(n).astype(np.int32), np.zeros(n, np.int32)
    for f in range(at.size - 1):
        for k in range(at[f], at[f + 1]):
            following = first[place_after(at, f, k, 1)]
            if following != last[k]:
                identify(one, last[k], following)
            if twin[k] > k and last[k] != first[twin[k]]:
                identify(one, last[k], first[twin[k]])
            if twin[k] > k and first[k] != last[twin[k]]:
                identify(one, first[k], last[twin[k]])
    for v in range(n):
        one[v] = root_of(one, v)
        count[one[v]] += 1
    sharpest, best = np.arange(n).astype(np.int32), np.full(n, -1.0)
    for f in range(at.size - 1):
        for k in range(at[f], at[f + 1]):
            v, following = last[k], k + 1 if k + 1 < at[f + 1] else at[f]
            if count[one[v]] == 1 or first[following] != v:
                continue
            sharp = sharpness(vertices[first[k]], vertices[v], vertices[last[following]])
            if sharp > best[one[v]]:
                best[one[v]], sharpest[one[v]] = sharp, v
    for v in range(n):
        one[v] = sharpest[one[v]]
    return one


@entry
def _leave_unpaired(at, twin, beyond, event, first, last, place):
    """Leave out, in place, the edges that only one of two facets has; returns how many places are left."""
    number, size, start = np.empty(twin.size, np.int32), 0, np.int64(0)
    for f in range(at.size - 1):
        for k in range(start, at[f + 1]):
            number[k] = size
            size += beyond[k] < 0 or twin[k] >= 0
        start, at[f + 1] = at[f + 1], size
    for k in range(twin.size):
        if beyond[k] < 0 or twin[k] >= 0:
            n = number[k]
            twin[n] = number[twin[k]] if twin[k] >= 0 else -1
            beyond[n], event[n], first[n], last[n], place[n] = beyond[k], event[k], first[k], last[k], place[k]
    return size


def paired(rings: Rings) -> tuple[Rings, Ints]:
    """Edges that both facets have, or that have one, of rings that are changed; and the place of each in the other facet.

    An edge hardly longer than what the jitter moves it by may be taken for none from one side.
    """
    twin = _pair(rings.at, rings.beyond)
    size = _leave_unpaired(rings.at, twin, *rings[1:])
    return Rings(rings.at, *(array[:size] for array in rings[1:])), twin[:size]
