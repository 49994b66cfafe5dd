"""One facet by itself, with the dual variables of its own pieces, by exact sums, and where that is not enough exactly.

1. At each corner, dual variables of the piece that fits best, in doubles with exact sums. At infinity all are zero, if no
   point with a cost there is inside the margin: then the classes that these costs are of are separated.
2. The same in exact arithmetic (exact.py).
3. Where neither leads to infinity: of the part of the facet with costs up to a limit, its edges cut there.

A plateau, where all points of one class are on the margin and all others inside, has no dual variables of its own. From costs
on it the cost of the class is made less, until a facet beside it is met. The weights there, lifted so that no point of the
class lacks anything, and the dual variables have the same gap on the plateau: only the bounds of the class have grown.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.proof.bound import Corners, bound, partition_error
from svmatlas.proof.exact import ExactMaps, ExactModel, ExactSolver, Vector
from svmatlas.proof.models import GramModels, Models, RowModels
from svmatlas.proof.partitions import INSIDE, MARGIN, OUTSIDE, Partitions
from svmatlas.proof.reading import Mesh
from svmatlas.proof.rows import Points

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
States = npt.NDArray[np.int8]
Flags = npt.NDArray[np.bool_]

LIMITS = (2.0**56, 2.0**40)
"""Costs (C+ + C-, in units of the data) up to which the gap is bounded where exact arithmetic does not lead to infinity, one
after the other. Beyond the first, dual variables in doubles say nothing of the weights any more. Beyond the second, facets are
narrower than what splits ties, a change of 2^-43 of weights and targets."""

LIMITS_KERNEL = (2.0**40, 2.0**16)
"""The same for kernels: dual variables that cancel are weighed by a matrix that is known up to rounding."""

ENOUGH, FINE = 1e-10, 1e-9
"""Where sums of doubles give a larger bound than the first, a tenth of what is certified, exact arithmetic is tried; where it
gives a larger one than the second, far facets are cut."""

LEAVING, RELEASED = 32, 1e-13
"""Times that a point may leave the margin at a corner or come back, and what its score lacks then, relative to 1."""

CLIPPED = 1e-7
"""Dual variables that are outside their boxes by less than this, relative to them, are put on their ends: the gap grows with
the square of it."""

CLOSE, TRIED = 1e-12, 64
"""So many pieces of a facet are tried at a corner, until the pull that is not explained adds less than this to the gap."""

FINE_MOVED = 1e-6
"""And where conditions at corners are violated by more than this, relative to their terms."""

BEYOND = 1.25
"""Facets are cut at this times the limit."""

TRIED_EXACTLY = 8
"""And so many in exact arithmetic, until one has all dual variables in their boxes."""


class Subject(NamedTuple):
    """A mesh, and the pieces that each of its facets is made of."""

    mesh: Mesh
    states: Callable[[Ints], States]  # partitions of some facets
    piece: Ints  # (F,) one piece of each facet
    members: Ints  # pieces by facets,
    member_at: Ints  # (F + 1,) and where those of each facet begin
    plateau: npt.NDArray[np.bool_]  # (F,) facets that are plateaus


class Found(NamedTuple):
    """A bound for one facet."""

    gap: float
    vertex: int  # where it is worst
    moved: float  # how far conditions are from where they should be
    limit: float  # costs up to which it holds

    def is_good(self, gap: float) -> bool:
        """Whether the gap is at most that, and conditions are where they should be."""
        return self.gap <= gap and self.moved <= FINE_MOVED


def better(a: Found, b: Found) -> Found:
    """The better of two bounds: a good one, or else that of the lesser gap."""
    return min(a, b, key=lambda found: (not found.is_good(FINE), found.gap))


class Solved(NamedTuple):
    """At one corner."""

    alpha: Floats  # (N + 1,)
    beta: Floats


class Single:
    """Bounds the gap of facets, one by one."""

    def __init__(
        self,
        subject: Subject,
        partitions: Partitions,
        points: Points,
        solver: RowModels | GramModels,
        lines: list[Vector],
        is_cut: tuple[bool, bool],
    ) -> None:
        self.is_cut = is_cut
        self.mesh, self.states_of, _, self.members, self.member_at, self.plateau = subject
        self.pieces_of, self.points, self.solver, self.lines = partitions.of_pieces, points, solver, lines
        self.limits = limits_of(points)

    @cached_property
    def exact(self) -> ExactSolver:
        """The same points, as integers."""
        return ExactSolver(self.points)

    def bound(self, f: int) -> Found:
        """The least bound that is found for one facet."""
        places = np.arange(self.mesh.facet_at[f], self.mesh.facet_at[f + 1])
        vertex, code = self.mesh.facet_vertices[places], self.mesh.edge_code[self.mesh.facet_edges[places]]
        state = self.states_of(np.array([f]))[0]
        if self.plateau[f]:
            return self._bound_plateau(f, state, vertex, code)
        found = self._bound_hull(state, self._pieces_in(f), vertex, _corners(self.mesh.vertices[vertex], code))
        if np.isfinite(found.limit) or not found.is_good(FINE):
            found = better(found, self._bound_plateau(f, state, vertex, code))
        return found

    def _pieces_in(self, f: int) -> States:
        """Partitions of the pieces of a facet."""
        return self.pieces_of(self.members[self.member_at[f] : self.member_at[f + 1]])

    def _bound_plateau(self, f: int, state: States, vertex: Ints, code: Ints) -> Found:
        """The worst bound on the edges of a plateau that have a facet behind them, from its dual variables.

        If the cost of the class can be made no less because that is the end of the region, it is so on this edge, too, from
        the dual variables of the pieces that the plateau was explored as.
        """
        margin, positive = state == MARGIN, self.points.positive
        whole = [np.array_equal(margin, own) and np.all(state[~own] == INSIDE) for own in (positive, ~positive)]
        if not any(whole):
            return Found(np.inf, int(vertex[0]), 0.0, np.inf)
        worst = Found(0.0, int(vertex[0]), 0.0, np.inf)
        edges = self.mesh.facet_edges[self.mesh.facet_at[f] : self.mesh.facet_at[f + 1]]
        beside = self.mesh.edge_facets[edges].sum(axis=1) - f
        axis = 0 if whole[0] else 1
        lowest = code == (-len(self.lines) if axis == 0 else -1)
        lowest &= not (self.plateau[f] and self.is_cut[axis])  # the tile behind has it (stretches.py)
        for j in np.flatnonzero((self.mesh.edge_facets[edges] >= 0).all(axis=1) | lowest).tolist():
            ends = self.mesh.vertices[vertex[[j - 1, j]]]
            near = np.flatnonzero(
                (ends[:, 2] > 0) | (ends[:, 1 - axis] > 0)
            )  # else only the cost of the class is infinite there
            corners = [Corner(ends[n], (int(code[j]),), n) for n in near.tolist()]
            pieces = self._pieces_in(f if lowest[j] else int(beside[j]))
            found = self._bound_hull(state, pieces, vertex[[j - 1, j]], corners)
            limit = min(worst.limit, found.limit)
            worst = max(worst, found, key=lambda each: (not each.is_good(FINE), each.gap))._replace(limit=limit)
        return worst

    def _bound_hull(self, state: States, states: States, vertex: Ints, corners: list[Corner]) -> Found:
        """The least bound that is found for the hull of some corners, from the dual variables of some pieces."""
        c = np.array([corner.c for corner in corners])
        found = Found(np.inf, int(vertex[0]), 0.0, np.inf)
        if all(self._is_separated(state, x) for x in c[c[:, 2] == 0]):
            found = self._rounded(state, states, vertex, corners)
        if not found.is_good(ENOUGH):
            found = better(found, self._exactly(state, states, vertex, corners))
        for limit in self.limits:
            if not found.is_good(FINE) and is_far(c, limit).any():
                cut = _cut(corners, limit)
                tried = better(self._rounded(state, states, vertex, cut), self._exactly(state, states, vertex, cut))
                found = better(found, tried._replace(limit=limit))
        return found

    def _is_separated(self, state: States, c: Floats) -> bool:
        """Whether no point that has a cost at infinite costs is inside the margin."""
        inside = state == INSIDE
        return not np.any(inside & np.where(self.points.positive, c[0] > 0, c[1] > 0))

    # In doubles

    def _rounded(self, state: States, states: States, vertex: Ints, corners: list[Corner]) -> Found:
        if not corners:
            return Found(0.0, -1, 0.0, np.inf)
        c = np.array([corner.c for corner in corners])
        trials = self._outside(states, c)
        solved = [self._best(states, tried, corner) for tried, corner in zip(trials, corners, strict=True)]
        alpha, beta = (np.array([getattr(found, name) for found in solved]) for name in ("alpha", "beta"))
        vertices = vertex[[corner.number for corner in corners]]
        found = self._found(self.solver.exactly(alpha, beta, c, state != INSIDE), c, state, vertices)
        if isinstance(self.solver, GramModels) and not found.is_good(ENOUGH):  # the weights of alpha as it is in its box
            found = better(found, self._found(self.solver.exactly(alpha, alpha, c, state != INSIDE), c, state, vertices))
        return found

    def _found(self, models: Models, c: Floats, state: States, vertex: Ints) -> Found:
        whole = Corners(np.arange(len(c)), np.zeros(1, dtype=np.intp), np.array([len(c)]), c[:, 2])
        gap, corner, _ = bound(models, whole, state[None])
        moved = max(float(np.max(models.rest / self._pulls(c))), partition_error(models, state, self._spread(c)))
        return Found(float(gap[0]), int(vertex[corner[0]]), moved, np.inf)

    def _solve(self, state: States, corner: Corner) -> Solved:
        """Alpha and beta at a corner; on an edge that is cut, beta is a sum of those at its ends, and none at infinity."""
        if corner.c[2] == 0.0:
            return Solved(np.zeros(state.size + 1), np.zeros_like(self.solver.empty))
        found = self._settle(state, corner.c, corner.touching)
        if corner.ends is None:
            return found
        near, beyond = corner.ends
        beta = corner.share * self._settle(state, near.c, near.touching).beta
        if beyond.c[2] > 0:
            beta = beta + self._settle(state, beyond.c, beyond.touching).beta
        return found._replace(beta=beta)

    def _settle(self, state: States, c: Floats, touching: Ints) -> Solved:
        """Alpha and beta of a partition at some costs, alpha in its box: by active sets, where its solution is not.

        Corners are rounded, so that they may be just outside a facet; and dual variables of points that nearly depend on each
        other are known by their sum alone.
        """
        state, bound, margin = state.copy(), self.solver.bounds(c[None])[0, :-1], state == MARGIN
        wanted, beta = self.solver.corner(state, c, touching)
        alpha = np.append(np.clip(np.nan_to_num(wanted[:-1]), 0.0, bound), 0.0)
        close = np.all(np.abs(wanted[:-1] - alpha[:-1]) <= CLIPPED * bound)
        for _ in range(0 if close else LEAVING):
            free = np.flatnonzero(state == MARGIN)
            first, part = _blocking(wanted[free] - alpha[free], alpha[free], bound[free])
            step = wanted[free] - alpha[free]
            alpha[free] = np.clip(alpha[free] + part * step, 0.0, bound[free])
            if first >= 0:
                state[free[first]] = OUTSIDE if step[first] < 0 else INSIDE
            else:
                lack = self.solver.lacks(alpha, c)
                wrong = np.where(margin & (state != MARGIN), np.where(state == OUTSIDE, lack, -lack), 0.0)
                if not wrong.max(initial=0.0) > RELEASED * c[2]:
                    break
                state[int(np.argmax(wrong))] = MARGIN
            wanted = self.solver.corner(state, c, touching)[0]
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

    # Exactly

    def _exactly(self, state: States, states: States, vertex: Ints, corners: list[Corner]) -> Found:
        """The bound from exact models at all corners; infinite if there are none."""
        if not corners:
            return Found(0.0, -1, 0.0, np.inf)
        maps: dict[int, ExactMaps | None] = {}
        found: list[ExactModel] = []
        for corner, tried in zip(corners, self._outside(states, np.array([corner.c for corner in corners])), strict=True):
            model = self._exact_corner(states, np.argsort(tried)[:TRIED_EXACTLY], maps, corner, state != INSIDE)
            if model is not None and 8.0 * model.moved > ENOUGH:
                model = self._exact_there(states[int(np.argmin(tried))], corner, state != INSIDE) or model
            if model is None:
                return Found(np.inf, int(vertex[corner.number]), 0.0, np.inf)
            found.append(model)
        c = np.array([model.c for model in found])
        models = Models(*(np.array([getattr(model, name) for model in found]) for name in Models._fields))
        result = self._found(models, c, state, vertex[[corner.number for corner in corners]])
        return result._replace(gap=result.gap + 8.0 * max(model.moved for model in found))

    def _exact_corner(
        self, states: States, order: Ints, maps: dict[int, ExactMaps | None], corner: Corner, lossless: Flags
    ) -> ExactModel | None:
        """The model of the first piece with all dual variables in their boxes, or else of that with the least outside."""
        best = None
        for k in order.tolist():
            own = maps[k] = maps[k] if k in maps else self.exact.maps(states[k])
            if own is None:
                continue
            lines = [self._line(own, code) for code in corner.codes] + ([] if corner.cut is None else [corner.cut])
            model = self.exact.corner(own, corner.c, lines, lossless)
            if model is not None and (best is None or model.outside_box < best.outside_box):
                best = model
            if best is not None and best.outside_box == 0.0:
                break
        return best

    def _exact_there(self, state: States, corner: Corner, lossless: Flags) -> ExactModel | None:
        """The model at a corner as it is stored, with the points of its edges on the margin, too.

        Scores of these are then 1, and dual variables are outside their boxes by the little that the corner is wrong. Both
        enter the gap with their squares.
        """
        state = state.copy()
        state[corner.touching] = MARGIN
        maps = self.exact.maps(state)
        return None if maps is None else self.exact.corner(maps, corner.c, [], lossless)

    def _line(self, maps: ExactMaps, code: int) -> Vector:
        """The line of an edge, or of a side of the region."""
        return self.lines[-1 - code] if code < 0 else self.exact.line(maps, code)


def limits_of(points: Points) -> tuple[float, ...]:
    """Costs up to which gaps are bounded where they are not for all costs."""
    return LIMITS_KERNEL if points.rows is None else LIMITS


def is_far(c: Floats, far: float) -> npt.NDArray[np.bool_]:
    """Which homogeneous costs (n, 3) are beyond a limit."""
    beyond: npt.NDArray[np.bool_] = c[:, 0] + c[:, 1] > far * c[:, 2]
    return beyond


def _blocking(step: Floats, here: Floats, box: Floats) -> tuple[int, float]:
    """Which of some numbers leaves its box first on its way, and after which part of it; (-1, 1.0) if none does."""
    room = np.where(step < 0, here, box - here)
    part = np.divide(room, np.abs(step), out=np.full(step.size, np.inf), where=np.abs(step) > room)
    first = int(np.argmin(part)) if step.size else -1
    return (first, float(part[first])) if first >= 0 and part[first] < 1.0 else (-1, 1.0)


class Corner(NamedTuple):
    """A corner of what is left of a facet: one of its own, or a sum ``share * near + beyond`` on an edge that is cut."""

    c: Floats  # (3,)
    codes: tuple[int, ...]  # of the edges that end there
    number: int  # of the corner of the facet, or the one nearby
    ends: tuple[Corner, Corner] | None = None  # near and beyond, if it is on an edge that is cut
    share: float = 0.0
    cut: Vector | None = None  # the line that cuts it

    @property
    def touching(self) -> Ints:
        """Points of the edges that end there."""
        return np.array([code >> 1 for code in self.codes if code >= 0], dtype=np.intp)


def _corners(c: Floats, code: npt.NDArray[Any]) -> list[Corner]:
    """The corners of a facet. Edge j ends in corner j."""
    n = len(c)
    return [Corner(c[j], (int(code[j]), int(code[(j + 1) % n])), j) for j in range(n)]


def _cut(own: list[Corner], limit: float) -> list[Corner]:
    """The corners of a facet as far as costs are not beyond a limit; an edge beyond is cut."""
    far, corners = is_far(np.array([corner.c for corner in own]), limit), []
    for j, corner in enumerate(own):
        after = (j + 1) % len(own)
        if not far[j]:
            corners.append(corner)
        if far[j] != far[after]:
            near, beyond = (own[after], corner) if far[j] else (corner, own[after])
            share = max(0.0, _excess(beyond.c, limit) / -_excess(near.c, limit))
            line = Fraction(-1), Fraction(-1), Fraction(BEYOND * limit)
            corners.append(Corner(share * near.c + beyond.c, corner.codes[1:], near.number, (near, beyond), share, line))
    return corners if not far.all() else []


def _excess(c: Floats, limit: float) -> float:
    """How much costs are beyond a limit, and a quarter of it more."""
    return float(c[0] + c[1] - BEYOND * limit * c[2])
