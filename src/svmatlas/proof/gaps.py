"""A bound on the relative duality gap for all costs of a facet, from models at its corners (docs/proof.md has the proof).

With the names of models.py, at corners c_j of a facet, and for costs c = sum_j m_j c_j in their hull (m_j >= 0), let A(c) and
B(c) be the same sums of A_j and B_j. A(c) is in its box, since boxes are linear in c. Then

    l^2 (primal - dual) (c)  <=  sum_jk m_j m_k G_jk,      l^2 dual (c)  >=  sum_jk m_j m_k D_jk,

    G_jk = 1/2 |R_j| |R_k| + 1/2 (T_jk + T_kj),            T_jk = sum_i (b_ij - A_ij) max(0, L_ik) + A_ij max(0, -L_ik),
    D_jk = 1/4 (l_j a_k + l_k a_j - T_jk - T_kj - |X'A_j| |R_k| - |X'A_k| |R_j|),      a_j = sum_i A_ij,

so that the relative gap is at most the largest G_jk / D_jk. All terms of G are not negative: nothing cancels. In T most points
have no part: inside the margin at all corners (A = b, L > 0), or outside (A = 0, L < 0). Only the others are looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.proof.models import GramModels, Models, RowModels
from svmatlas.proof.partitions import INSIDE, MARGIN, OUTSIDE, Partitions
from svmatlas.proof.reading import Map, Mesh
from svmatlas.proof.rows import UNIT, Points

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
States = npt.NDArray[np.int8]

FAR = 2.0**56
"""Costs (C+ + C-, in units of the data) up to which the gap is bounded. Beyond it, dual variables in doubles say nothing of
the weights any more."""

FAR_KERNEL = 2.0**16
"""The same for kernels: dual variables that cancel are weighed by a matrix that is known up to rounding."""

AGAIN = 1e-11
"""Facets with a larger bound are looked at again, with the dual variables of their own pieces and exact sums."""

ALLOWED = 2.0**-48
"""What is added to every bound, for the rounding of boxes, of sums of weights, and of corners on sides and on edges that are
cut: if boxes are changed by a factor of 1 + d, the relative gap grows by at most 4 |d| (docs/proof.md), and |d| is at most six
roundings."""

SLACK = 1 + 2.0**-20
"""More than the roundings of sums of up to 2^30 terms that are not negative."""

AGAIN_MOVED = 1e-7
"""And those where conditions at corners are violated by more than this."""

LEAVING = 4
"""Times that points may leave the margin at a corner."""

CLOSE, TRIED = 1e-12, 64
"""So many pieces of a facet are tried at a corner, until the pull that is not explained adds less than this to the gap."""

ENTRIES = 2**21
"""Numbers in an array of the models of a block."""


class Bounds(NamedTuple):
    """For some facets."""

    gap: Floats  # (n,) bound on the relative duality gap
    corner: Ints  # (n,) the vertex where it is worst
    moved: Floats  # (n,) how far conditions at a corner are from where the partition has them, relative to their terms
    beyond: npt.NDArray[np.bool_]  # (n,) facets that reach costs beyond FAR


class Solved(NamedTuple):
    """At one corner."""

    alpha: Floats  # (N + 1,)
    beta: Floats


class Subject(NamedTuple):
    """A mesh, and the pieces that each of its facets is made of."""

    mesh: Mesh
    states: Callable[[Ints], States]  # partitions of some facets
    piece: Ints  # (F,) one piece of each facet
    members: Ints  # pieces by facets,
    member_at: Ints  # (F + 1,) and where those of each facet begin


def facets_of(stored: Map, partitions: Partitions) -> Subject:
    """The facets of the data; where nothing is tied they are the pieces that were explored."""
    mesh, n = stored.facets, stored.facets.n_facets
    if not stored.tied:
        return Subject(mesh, partitions.of_pieces, np.arange(n), np.arange(n), np.arange(n + 1))
    facet = stored.arrays["canonical.facet"]
    order = np.argsort(facet, kind="stable")
    at = np.searchsorted(facet[order], np.arange(n + 1))
    return Subject(mesh, partitions.of_facets, stored.arrays["canonical.piece"].astype(np.intp), order, at)


class Prover:
    """Bounds the gap of facets, block by block; nothing in it changes."""

    def __init__(self, subject: Subject, partitions: Partitions, points: Points) -> None:
        self.mesh, self.states_of, self.piece, self.members, self.member_at = subject
        self.pieces_of = partitions.of_pieces
        self.solver = RowModels(points) if points.rows is not None else GramModels(points)
        self.far = farthest(points)
        self.is_far = _is_far(self.mesh.vertices, self.far)
        self.block = max(16, ENTRIES // max(1, points.weight.size))

    def bounds(self, facets: Ints) -> Bounds:
        """Bounds for some facets."""
        n, (facet, place) = facets.size, self._places(facets)
        found = Bounds(np.full(n, np.inf), np.full(n, -1), np.zeros(n), np.zeros(n, dtype=bool))
        found.beyond[facet[self.is_far[self.mesh.facet_vertices[place]]]] = True
        cut = self.member_at[facets + 1] - self.member_at[facets] > 1
        easy = np.flatnonzero(~found.beyond & ~cut)
        if easy.size:
            self._shared(facets, easy, found)
        for k in np.flatnonzero(~((found.gap <= AGAIN) & (found.moved <= AGAIN_MOVED))).tolist():
            found.gap[k], found.corner[k], found.moved[k] = self._own(int(facets[k]))
        return found

    def _places(self, facets: Ints) -> tuple[Ints, Ints]:
        """Which of some facets has a place, and the places."""
        at = self.mesh.facet_at
        sizes = at[facets + 1] - at[facets]
        facet = np.repeat(np.arange(facets.size), sizes)
        return facet, np.arange(facet.size) - (np.cumsum(sizes) - sizes)[facet] + at[facets][facet]

    # One model for each vertex

    def _shared(self, facets: Ints, easy: Ints, found: Bounds) -> None:
        """Bounds of some facets, from one model at each vertex: right where dual variables are unique."""
        mesh, own = self.mesh, facets[easy]
        facet, place = self._places(own)
        sizes = np.bincount(facet)
        first = np.cumsum(sizes) - sizes
        states = self.states_of(own)
        odd = (np.sum(states == MARGIN, axis=1) % 2)[facet]
        order = np.lexsort([odd, mesh.facet_vertices[place]])
        vertex, start, number = np.unique(mesh.facet_vertices[place][order], return_index=True, return_inverse=True)
        model = np.empty(place.size, dtype=np.intp)
        model[order] = number
        users, which = np.unique(facet[order][start], return_inverse=True)
        maps = self.solver.maps(self.pieces_of(self.piece[own[users]]))
        models = self.solver.models(maps, which, mesh.vertices[vertex])
        corners = Corners(model, first, sizes, mesh.vertices[vertex, 2])
        found.gap[easy], corner, moved = _bound(models, corners, states)
        edge = mesh.edge_code[mesh.facet_edges[place]].astype(np.intp)
        found.corner[easy], found.moved[easy] = vertex[corner], np.maximum(moved, _off_edges(models, corners, edge))

    # A model for each corner of each facet

    def _own(self, f: int) -> tuple[float, int, float]:
        """Bound of one facet, the vertex where it is worst, and how far conditions are from where they should be."""
        mesh = self.mesh
        places = np.arange(mesh.facet_at[f], mesh.facet_at[f + 1])
        vertex = mesh.facet_vertices[places]
        corners = _cut(mesh.vertices[vertex], mesh.edge_code[mesh.facet_edges[places]], self.far)
        if not corners:
            return 0.0, -1, 0.0
        c = np.array([corner.c for corner in corners])
        states = self.pieces_of(self.members[self.member_at[f] : self.member_at[f + 1]])
        trials = self._outside(states, c)
        solved = [self._best(states, tried, corner) for tried, corner in zip(trials, corners, strict=True)]
        alpha, beta = (np.array([getattr(found, name) for found in solved]) for name in ("alpha", "beta"))
        state = self.states_of(np.array([f]))[0]
        models = self.solver.exactly(alpha, beta, c, state != INSIDE)
        whole = Corners(np.arange(len(c)), np.zeros(1, dtype=np.intp), np.array([len(c)]), c[:, 2])
        gap, corner, _ = _bound(models, whole, state[None])
        moved = max(float(np.max(models.rest / self._pulls(c))), _partition_error(models, state, self._spread(c)))
        return float(gap[0]), int(vertex[corners[corner[0]].number]), moved

    def _solve(self, state: States, corner: Corner) -> Solved:
        """Alpha and beta at a corner; on an edge that is cut, beta is a sum of those at its ends, and none at infinity."""
        found = self._settle(state, corner.c, corner.touching)
        if corner.ends is None:
            return found
        near, beyond = corner.ends
        beta = corner.share * self._settle(state, near.c, near.touching).beta
        if beyond.c[2] > 0:
            beta = beta + self._settle(state, beyond.c, beyond.touching).beta
        return found._replace(beta=beta)

    def _settle(self, state: States, c: Floats, touching: Ints) -> Solved:
        """Alpha and beta of a partition at some costs; points whose alpha is out of its box are put on it, and others follow.

        Corners are rounded, so that they may be just outside a facet.
        """
        state, bound = state.copy(), self.solver.bounds(c[None])[0, :-1]
        alpha, beta = self.solver.corner(state, c, touching)
        for _ in range(LEAVING):
            low, high = (alpha[:-1] < 0) & (state == MARGIN), (alpha[:-1] > bound) & (state == MARGIN)
            if not (low | high).any():
                break
            state[low], state[high] = OUTSIDE, INSIDE
            alpha = self.solver.corner(state, c, touching)[0]
        return Solved(alpha, beta)

    def _spread(self, c: Floats) -> Floats:
        """Sizes of the terms of scores at some costs (m, N + 1), where weights are sums over all rows."""
        if isinstance(self.solver, GramModels):
            return np.asarray(self.solver.bounds(c) @ self.solver.size + c[:, 2:])
        return np.asarray(
            np.outer(np.linalg.norm(c[:, :2] @ self.solver.total * self.solver.scale, axis=1), self.solver.sizes) + c[:, 2:]
        )

    def _pulls(self, c: Floats) -> Floats:
        """At least the lengths of sums of rows with dual variables in their boxes at some costs (m,)."""
        if isinstance(self.solver, GramModels):
            box = self.solver.bounds(c)
            return np.asarray(np.sqrt(np.einsum("ki,ki->k", box @ self.solver.size, box)) + np.finfo(float).tiny)
        return np.asarray(np.linalg.norm(c[:, :2] @ self.solver.total, axis=1) + np.finfo(float).tiny)

    def _outside(self, states: States, c: Floats) -> Floats:
        """How far dual variables of pieces are outside their boxes at each corner, relative to their terms, in doubles."""
        maps, n = self.solver.maps(states), len(states)
        return np.array([self.solver.models(maps, np.arange(n), np.repeat(x[None], n, axis=0)).outside_box for x in c])

    def _best(self, states: States, outside: Floats, corner: Corner) -> Solved:
        """Alpha and beta at a corner, of the first piece that explains beta well, those that are least outside first."""
        none, best, least = np.zeros(states.shape[1], dtype=bool), None, np.inf
        for k in np.argsort(outside)[:TRIED]:
            found = self._solve(states[k], corner)
            model = self.solver.exactly(found.alpha[None], found.beta[None], corner.c[None], none)
            part = float(model.rest[0] ** 2 / max(corner.c[2] * model.alpha.sum(), np.finfo(float).tiny))
            if best is None or part < least:
                best, least = found, part
            if part <= CLOSE:
                break
        assert best is not None
        return best


def farthest(points: Points) -> float:
    """Costs up to which gaps are bounded."""
    return FAR_KERNEL if points.rows is None else FAR


def _is_far(c: Floats, far: float) -> npt.NDArray[np.bool_]:
    beyond: npt.NDArray[np.bool_] = c[:, 0] + c[:, 1] > far * c[:, 2]
    return beyond


class Corner(NamedTuple):
    """A corner of what is left of a facet: one of its own, or a sum ``share * near + beyond`` on an edge that is cut."""

    c: Floats  # (3,)
    touching: Ints  # points of the edges that end there
    number: int  # of the corner of the facet, or the one nearby
    ends: tuple[Corner, Corner] | None = None  # near and beyond, if it is on an edge that is cut
    share: float = 0.0


def _cut(c: Floats, code: npt.NDArray[Any], limit: float) -> list[Corner]:
    """The corners of a facet as far as costs are not beyond a limit; an edge beyond is cut. Edge j ends in corner j."""
    far, n = _is_far(c, limit), len(c)
    events = [np.array([k >> 1] if k >= 0 else [], dtype=np.intp) for k in code.tolist()]
    own = [Corner(c[j], np.concatenate([events[j], events[(j + 1) % n]]), j) for j in range(n)]
    corners = []
    for j in range(n):
        after = (j + 1) % n
        if not far[j]:
            corners.append(own[j])
        if far[j] != far[after]:
            near, beyond = (own[after], own[j]) if far[j] else (own[j], own[after])
            share = max(0.0, _excess(beyond.c, limit) / -_excess(near.c, limit))
            corners.append(Corner(share * near.c + beyond.c, events[after], near.number, (near, beyond), share))
    return corners if not far.all() else []


def _excess(c: Floats, limit: float) -> float:
    """How much costs are beyond a limit, and a quarter of it more."""
    return float(c[0] + c[1] - 1.25 * limit * c[2])


# ----------------------------------------------------------------------------------------------------------------------
# The bound


class Corners(NamedTuple):
    """Facet f has the models ``model[first[f] : first[f] + sizes[f]]`` at its corners."""

    model: Ints
    first: Ints
    sizes: Ints
    l: Floats  # of each model


def _bound(models: Models, corners: Corners, states: States) -> tuple[Floats, Ints, Floats]:
    """The largest G / D of each facet, the model where it is worst, and how far scores are from where ``states`` have them."""
    sizes, n = corners.sizes, corners.first.size
    low, high = _range(_calm(models), corners)
    restless = (low != high) | (low == 0)
    restless[:, -1] = False
    turned = np.any(~restless[:, :-1] & ((low[:, :-1] == 1) != (states == INSIDE)), axis=1)
    total = models.alpha.sum(axis=1)
    gap, worst, moved = np.empty(n), np.empty(n, dtype=np.intp), np.where(turned, 1.0, 0.0)
    counts = restless.sum(axis=1)
    for size in np.unique(sizes).tolist():
        group = np.flatnonzero(sizes == size)
        group = group[np.argsort(counts[group])]
        for part in np.array_split(group, group.size * size // 4096 + 1):
            own, points = corners.model[corners.first[part][:, None] + np.arange(size)], _lists(restless[part])
            gap[part], corner = _ratios(models, corners.l, total, own, points)
            worst[part] = own[np.arange(part.size), corner]
            wide = np.concatenate([states[part], np.full((part.size, 1), MARGIN, dtype=np.int8)], axis=1)
            moved[part] = np.maximum(moved[part], _misplaced(models, own, points, np.take_along_axis(wide, points, 1)))
    return gap, worst, moved


def _range(calm: npt.NDArray[np.int8], corners: Corners) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int8]]:
    """The least and the largest value of each facet's models."""
    low = calm[corners.model[corners.first]]
    high = low.copy()
    for j in range(1, int(corners.sizes.max(initial=0))):
        which = np.flatnonzero(corners.sizes > j)
        more = calm[corners.model[corners.first[which] + j]]
        low[which], high[which] = np.minimum(low[which], more), np.maximum(high[which], more)
    return low, high


def _calm(models: Models) -> npt.NDArray[np.int8]:
    """Per model and point: 1 if it is certainly inside the margin, with alpha at its bound; -1 if outside, with 0; else 0."""
    inside = (models.lack >= models.error) & (models.alpha == models.bound)
    outside = (models.lack <= -models.error) & (models.alpha == 0.0)
    calm: npt.NDArray[np.int8] = inside.astype(np.int8) - (outside & ~inside).astype(np.int8)
    return calm


def _lists(which: npt.NDArray[np.bool_]) -> Ints:
    """The marked columns of each row, filled up with the last column."""
    counts = which.sum(axis=1)
    out = np.full((len(which), max(1, int(counts.max(initial=0)))), which.shape[1] - 1, dtype=np.intp)
    row, column = np.nonzero(which)
    out[row, np.arange(row.size) - np.repeat(np.cumsum(counts) - counts, counts)] = column
    return out


def _ratios(models: Models, l: Floats, total: Floats, own: Ints, points: Ints) -> tuple[Floats, Ints]:
    """The largest G / D of facets with the models ``own`` (f, k), from some points (f, m); and the corner."""
    at = own[:, :, None], points[:, None]
    alpha, lack, error = models.alpha[at], models.lack[at], models.error[at]
    free = models.bound[at] - alpha
    short, over = np.maximum(lack + error, 0.0), np.maximum(error - lack, 0.0)
    wrong = free @ short.transpose(0, 2, 1) + alpha @ over.transpose(0, 2, 1)
    wrong = (wrong + wrong.transpose(0, 2, 1)) * SLACK
    rest, length = models.rest[own], models.length[own] + models.rest[own]
    part = l[own][:, :, None] * total[own][:, None] / SLACK
    pulled = length[:, :, None] * rest[:, None] * SLACK
    gap = 0.5 * rest[:, :, None] * rest[:, None] + 0.5 * wrong
    dual = 0.25 * (part + part.transpose(0, 2, 1) - wrong - pulled - pulled.transpose(0, 2, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(dual > 0.0, gap / dual, np.where((gap == 0.0) & (dual == 0.0), 0.0, np.inf))
    ratio[np.isnan(ratio)] = np.inf
    flat = ratio.reshape(len(own), -1)
    k = flat.argmax(axis=1)
    return flat[np.arange(len(own)), k] * SLACK + ALLOWED, k % own.shape[1]


# ----------------------------------------------------------------------------------------------------------------------
# Conditions, to first order


def _misplaced(models: Models, own: Ints, points: Ints, states: States) -> Floats:
    """How far scores of some points (f, m) are, at corners (f, k), from where partitions have them; relative."""
    at = own[:, :, None], points[:, None]
    size = np.maximum(models.error[at], np.finfo(float).tiny) / UNIT
    lack = models.lack[at] / size
    wrong = np.maximum(np.where(states == OUTSIDE, 0.0, -lack.min(axis=1)), np.where(states == INSIDE, 0.0, lack.max(axis=1)))
    found: Floats = wrong.max(axis=1, initial=0.0)
    return found


def _off_edges(models: Models, corners: Corners, edge: Ints) -> Floats:
    """How far scores of the points of edges are from 1 at both ends; edge j ends in corner j."""
    place = np.arange(corners.model.size)
    facet = np.repeat(np.arange(corners.first.size), corners.sizes)
    before = np.where(place == corners.first[facet], (corners.first + corners.sizes - 1)[facet], place - 1)
    event, wrong = np.where(edge >= 0, edge >> 1, models.lack.shape[1] - 1), np.zeros(place.size)
    for end in (corners.model, corners.model[before]):
        size = np.maximum(models.error[end, event], np.finfo(float).tiny) / UNIT
        wrong = np.maximum(wrong, np.abs(models.lack[end, event]) / size)
    wrong = np.maximum(wrong, models.outside_box[corners.model])
    return np.maximum.reduceat(wrong, corners.first)


def _partition_error(models: Models, state: States, size: Floats) -> float:
    """The same for one facet with models of its own."""
    lack = (models.lack / size)[:, :-1]
    wrong = np.where(state == MARGIN, np.abs(lack), np.where(state == INSIDE, -lack, lack))
    return float(wrong.max(initial=0.0))
