"""One map and points that it was not made from -> the zero curves of these points.

The prediction for a point z changes only where its score g(c) = z.beta(c) is zero. In a facet l g(c) = z.(Beta c) is linear in
the homogeneous costs c = (p, q, l), and beta is continuous, so the values of l beta at the *vertices* of the map say
everything: a facet whose corners have scores of both signs is crossed by one straight segment, between two of its edges.

Zero counts as negative, as it does for scikit-learn's ``predict``. So where a score vanishes at a vertex, the curve ends
in that vertex itself; where it vanishes along an edge, the curve runs along it; where it vanishes in a whole facet, the
facet is negative and the curve is its border. At infinity v = Beta c has v.v = sum of a_i x_i.v over I <= 0, as x_i.v <= l = 0
there: it is zero. So curves that leave for infinity end in the vertex at infinity of their strip, by the same rule.

A crossing is computed from the two ends of its edge in an order that does not depend on the facet, so the segments of a curve
join exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.doubledouble import entry, kernel
from svmatlas.facet import INSIDE, MARGIN, WEIGHT, Data, L, P, Q
from svmatlas.layers import cross
from svmatlas.locate import NOWHERE
from svmatlas.maps import affine_maps
from svmatlas.mesh import OPEN

if TYPE_CHECKING:
    from svmatlas.atlas import Atlas
    from svmatlas.mesh import Mesh
    from svmatlas.problem import Problem

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Int32 = npt.NDArray[np.int32]
Bits = npt.NDArray[np.uint64]

ZERO = 2.0**-33
"""Scores below this (1e-10) times |z||beta| are zero: what the jitter of 1e-13 and conditioning may make of a true zero."""

ACCURACY = 1e-10
"""Relative error bound of the maps, as good as the corners of facets are."""

HARD = 2.0**-12
"""Loss of length (of a row on the margin, of the pull) beyond which the maps are taken: up to it, 64 roundings are 3e-11."""

AFRESH = 64
"""Layers after which pulls are added up afresh: until then each carries two roundings a layer."""

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
        return np.ascontiguousarray(features.decide(X, unit).T)
    coef, intercept = features.weights(unit)
    return np.ascontiguousarray(X @ coef.T + intercept)


def zero_curves(atlas: Atlas, rows: Floats, costs: Floats) -> tuple[Curves, npt.NDArray[np.bool_], Floats]:
    """Zero curves of n rows in a map, and at some homogeneous costs (m, 3) in the user's units their signs (m, n + 1).

    An extra point, number n, is positive where the map has not been explored, and no other is positive there. The last array
    (m,) tells how far the costs are from any curve: the smallest score relative to |z||beta|, of those that do not vanish.
    """
    problem, mesh = atlas._problem, atlas._mesh
    beta = vertex_betas(atlas)
    positive = _positive_bits(rows, beta)
    parts = [_segments(mesh.vertices, mesh.facet_at, mesh.facet_vertices, beta, positive, rows)]
    if not atlas.complete:
        ends = mesh.edge_vertices[np.any(mesh.edge_facets == OPEN, axis=1)]
        parts.append(_open_segments(mesh.vertices, ends, beta, positive, rows))
    begin, end, point = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    inner = costs * np.ldexp(1.0, [problem.cost_exponent, problem.cost_exponent, 0])
    facets = atlas._locator(inner)
    is_positive, margin = _signs(mesh.vertices, mesh.facet_at, mesh.facet_vertices, beta, rows, facets, inner)
    return Curves(problem.to_user(begin), problem.to_user(end), point), is_positive, margin


# ----------------------------------------------------------------------------------------------------------------------
# l beta at the vertices


def vertex_betas(atlas: Atlas) -> Floats:
    """The products l beta at the vertices of a map, (V, d), as homogeneous as the vertex; zero at infinity.

    Each vertex is given to one of its facets, few facets in all; what doubles can not resolve there is left to the maps.
    """
    mesh, data = atlas._mesh, atlas._problem.data
    owner = np.full(mesh.vertices.shape[0], -1, dtype=np.int32)
    _cover(mesh.facet_at, mesh.facet_vertices, mesh.facet_tie, owner)
    chosen = np.zeros(mesh.facet_layer.size, dtype=bool)
    chosen[owner] = True
    out = np.zeros((owner.size, data.rows.shape[1]))
    for facets, states, pulls in _layers(mesh, data):
        mine = np.flatnonzero(chosen[facets])
        hard = np.zeros(mine.size, dtype=bool)
        where = mesh.vertices, mesh.facet_at, mesh.facet_vertices, owner
        _evaluate(data.rows, data.rank, states, pulls, mine, facets[0], *where, out, hard)
        if hard.any():
            some = mine[hard]
            _, maps = affine_maps(data, atlas._region, states[some], jitter=0.0, accuracy=ACCURACY)
            _spread(*where, facets[some], maps, out)
    out[mesh.vertices[:, L] == 0] = 0.0
    return out


@entry
def _cover(at, corners, tie, owner):
    """Give each vertex one of its facets, so that few facets own vertices: those first that bring many new ones, ties last."""
    for among_ties in range(2):
        for least in range(8, 0, -1):
            for f in range(at.size - 1):
                if tie[f] != (among_ties == 1):
                    continue
                new = 0
                for k in range(at[f], at[f + 1]):
                    new += owner[corners[k]] < 0
                if new >= least:
                    for k in range(at[f], at[f + 1]):
                        if owner[corners[k]] < 0:
                            owner[corners[k]] = f


def _layers(mesh: Mesh, data: Data) -> Iterator[tuple[Ints, npt.NDArray[np.int8], Floats]]:
    """(facets, partitions, pulls) layer by layer; pulls (F, 2, d) are the sums of w_i x_i over I+ and I-."""
    begins = np.flatnonzero(np.diff(mesh.facet_layer, prepend=-1))
    weights = data.point[WEIGHT] * (data.axis == np.array([P, Q])[:, None])
    states, pulls, before = mesh.start[None], np.empty(0), 0
    for k, (first, last) in enumerate(zip(begins, [*begins[1:], mesh.facet_layer.size], strict=True)):
        parent, flips = mesh.facet_parent[first:last] - before, mesh.facet_flips[first:last]
        if k % AFRESH:
            states, pulls = _next_layer(data.rows, data.point[WEIGHT], data.axis, states, pulls, parent, flips)
        else:
            if k:
                states, _ = _next_layer(data.rows, data.point[WEIGHT], data.axis, states, pulls, parent, flips)
            pulls = np.stack([((states == INSIDE) * w) @ data.rows for w in weights], axis=1)
        before = int(first)
        yield np.arange(first, last), states, pulls


@entry
def _next_layer(rows, weight, axis, before, pulls, parent, flips):
    """Partitions and pulls of a layer from those of the layer before."""
    out, sums = np.empty((parent.size, before.shape[1]), np.int8), np.empty((parent.size, 2, rows.shape[1]))
    for f in range(parent.size):
        out[f], sums[f] = before[parent[f]], pulls[parent[f]]
        for step in range(2):
            code = flips[f, step]
            if code >= 0:
                cross(out[f], code)
                if code & 1:
                    i = code >> 1
                    w = weight[i] if out[f, i] == INSIDE else -weight[i]
                    for j in range(rows.shape[1]):
                        sums[f, axis[i], j] += w * rows[i, j]
    return out, sums


@kernel
def _dot(a, b):
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@kernel
def _project_out(basis, m, v, shares):
    """Take the first m vectors of an orthonormal basis out of a vector, twice, and add up their shares."""
    for _ in range(2):
        for k in range(m):
            s = _dot(basis[k], v)
            shares[k] += s
            for i in range(v.size):
                v[i] -= s * basis[k, i]


@entry
def _evaluate(rows, rank, states, pulls, mine, first, vertices, at, corners, owner, out, hard):
    """Find l beta at the vertices that some facets of a layer own.

    With X_M' = Q R it is what Q leaves of the pull p b+ + q b-, and l Q R^-T 1. ``hard`` marks facets where doubles may lose
    more than ACCURACY: rows that are almost dependent, or a result far shorter than the pull.
    """
    d = rows.shape[1]
    basis, triangle, y, shares = np.empty((d, d)), np.empty((d, d)), np.empty(d), np.empty(d)
    for n in range(mine.size):
        state, m = states[mine[n]], 0
        for i in range(state.size):
            if state[i] == MARGIN and not hard[n]:
                basis[m] = rows[i]
                triangle[:, m] = 0.0
                _project_out(basis, m, basis[m], triangle[:, m])
                length = np.sqrt(_dot(basis[m], basis[m]))
                hard[n] = length <= HARD * np.sqrt(_dot(rows[i], rows[i])) or m + 1 > rank
                triangle[m, m] = length
                basis[m] /= length
                s = 1.0
                for k in range(m):
                    s -= triangle[k, m] * y[k]
                y[m] = s / length
                m += 1
                if m == d:
                    break
        if hard[n]:
            continue
        f = first + mine[n]
        for k in range(at[f], at[f + 1]):
            if owner[corners[k]] != f:
                continue
            c, beta = vertices[corners[k]], out[corners[k]]
            for j in range(d):
                beta[j] = c[0] * pulls[mine[n], 0, j] + c[1] * pulls[mine[n], 1, j]
            size = _dot(beta, beta)
            if m == rank:
                beta[:] = 0.0
            else:
                _project_out(basis, m, beta, shares)
            for e in range(m):
                for j in range(d):
                    beta[j] += c[2] * y[e] * basis[e, j]
            hard[n] = hard[n] or (m < rank and _dot(beta, beta) < HARD**2 * size)


@entry
def _spread(vertices, at, corners, owner, facets, maps, out):
    """Evaluate the maps (n, 3, d) of facets at the vertices that they own."""
    for n in range(facets.size):
        f = facets[n]
        for k in range(at[f], at[f + 1]):
            v = corners[k]
            if owner[v] == f:
                for j in range(out.shape[1]):
                    out[v, j] = (
                        maps[n, 0, j] * vertices[v, 0] + maps[n, 1, j] * vertices[v, 1] + maps[n, 2, j] * vertices[v, 2]
                    )


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


@entry
def _segments(vertices, at, corners, beta, positive, rows):
    """Segments of all curves in all facets, as arrays of begins, ends and points."""
    begin, end, point = np.empty((1024, 3)), np.empty((1024, 3)), np.empty(1024, np.int32)
    count = 0
    first = np.empty(3)
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
                            opened = True
                        elif down and not up:
                            if count == point.size:
                                begin = np.concatenate((begin, np.empty_like(begin)))
                                end = np.concatenate((end, np.empty_like(end)))
                                point = np.concatenate((point, np.empty_like(point)))
                            _crossing(vertices, beta, positive, rows, j, a, b, end[count])
                            if opened:
                                begin[count] = first
                                opened = False
                            else:
                                wrapped = count
                            point[count] = j
                            count += 1
                        a = b
                    if wrapped >= 0:
                        begin[wrapped] = first
                mixed >>= np.uint64(1)
                j += 1
    keep = np.zeros(count, np.bool_)
    for s in range(count):
        a, b = begin[s], end[s]
        same = a[0] == b[0] and a[1] == b[1] and a[2] == b[2]
        keep[s] = not same and (a[2] > 0.0 or b[2] > 0.0)
    return begin[:count][keep], end[:count][keep], point[:count][keep]


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
def _signs(vertices, at, corners, beta, rows, facets, costs):
    """Signs (m, n + 1) of the scores at some costs within given facets, and the smallest relative score that is not zero."""
    out, margin = np.zeros((costs.shape[0], rows.shape[0] + 1), np.bool_), np.full(costs.shape[0], np.inf)
    local = np.empty(rows.shape[1])
    for n in range(costs.shape[0]):
        f, c = facets[n], costs[n]
        if f == NOWHERE:
            out[n, -1] = True
            continue
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
