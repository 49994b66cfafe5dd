"""The scores in a part of the plane of which the maps of all folds are known: none is higher than a bound.

The maps are certified before, as any map is, on X and y as they are given. What is left is to bound the score, over all costs
at once, by triangles of homogeneous costs:

- In a facet the weights are linear in homogeneous costs. So a held-out row is positive in all of it if it is at its corners,
  and positive where it meets a triangle if it is at the corners of that. A row that is positive in all facets that meet a
  triangle is predicted positive there; so with negative; others are open.
- With all open rows right, the score of a triangle is at its highest, since scores are monotone. A triangle whose mean over
  the folds is above the bound is cut in two, and the facets that meet its halves are looked for among those that met it.

The triangles cover the part because the first ones are the part, and each is cut or proven. Weights are zero at costs of
zero, and l times the weights are at infinity: many curves end there. So a triangle is cut where most rows differ between two
corners. A value of zero at a corner is on the edge of cells, and does not count.

Curves of ties are one, or meet in one point: open rows are then never right all at once, and no cut tells. So where few are
open, or a cut has decided none, the triangle is divided into its cells: by the edges of the facets of a fold, by the curves of
its open rows, then by those of the next fold. Each cell has its own score.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.proof.models import RowModels
from svmatlas.proof.partitions import Partitions
from svmatlas.proof.reading import Map, ProofError
from svmatlas.proof.rows import Points
from svmatlas.proof.scores import EQUAL, SCORES

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]

NOTHING = 2.0**-40
"""A number below this, relative to the sizes of its terms, is zero: weights of facets that reach infinity, decision values of
rows on the boundary."""

APART = 2.0**-44
"""A triangle is outside a facet if it reaches into it by no more than this, relative to terms: some roundings of a product of
three numbers, and less than the width of cells that are looked at."""

NARROWEST = 2.0**-40
"""Relative difference of costs between the ends of an edge that is not cut any more. Cells that are so narrow are not part of
a selection."""

FEW, MANY = 12, 256
"""Open rows and facets, of all folds, up to which a triangle is divided into its cells: at once, and if cuts decide none."""

MOST_TRIANGLES = 2**16
"""Triangles, some minutes, after which no more are cut."""

MOST_NAMED = 5
"""Faults of a kind that are named."""

FACETS, MOST = 2**10, 2**26
"""A triangle that meets more facets than the first in a fold is cut right away. Numbers in the tables of a fold."""


# ----------------------------------------------------------------------------------------------------------------------
# One fold


class Fold:
    """The map of a fold, and its held-out rows."""

    def __init__(self, stored: Map, points: Points, Z: Floats, positive: Flags) -> None:
        if points.rows is None:
            raise ProofError("a selection on rows with many more columns than rows, or with a kernel, cannot be checked")
        mesh, self.positive = stored.facets, positive
        self.unit = 2.0 ** stored.parameters["cost_exponent"]
        self.vertices, self.at = mesh.vertices, mesh.facet_at
        self.corner = mesh.facet_vertices.astype(np.intp)
        before = mesh.place_before()
        a, b = self.vertices[self.corner[before]], self.vertices[self.corner]
        self.lines, self.line_size = np.cross(a, b), _cross_size(a, b)
        bias, exponent = stored.parameters["bias"], stored.parameters["exponent"]
        rows = np.ldexp(np.column_stack([Z, np.full(len(Z), bias)]) if bias else Z, exponent)
        if mesh.n_facets * max(1, len(rows)) * 6 > MOST:
            raise ProofError(f"maps of {mesh.n_facets} facets with {len(rows)} held-out rows are too large for this checker")
        self.value, self.size = self._values(Partitions(stored), RowModels(points), rows, mesh.n_facets)
        self.sure = self._sure_in_facets()

    def _values(self, partitions: Partitions, solver: RowModels, rows: Floats, n: int) -> tuple[Floats, Floats]:
        """Decision values (F, n, 3) of the rows, linear in homogeneous costs, and the sizes of their terms."""
        value, size = np.empty((n, len(rows), 3)), np.empty((n, len(rows), 3))
        scale = np.maximum(solver.scale, np.abs(rows).max(axis=0, initial=0.0))
        for k in range(0, n, 2**10):
            facets = np.arange(k, min(n, k + 2**10))
            pieces = partitions.stored.arrays["canonical.piece"][facets] if partitions.stored.tied else facets
            beta = solver.maps(partitions.of_pieces(pieces)).beta
            beta[:, :2] = np.where(np.abs(beta[:, :2]) <= NOTHING * solver.total, 0.0, beta[:, :2])
            most = np.max(np.abs(beta[:, 2]) * scale, axis=1, keepdims=True)  # an equation is as right as its largest terms
            beta[:, 2] = np.where(np.abs(beta[:, 2]) * scale <= NOTHING * most, 0.0, beta[:, 2])
            value[facets] = np.einsum("fcd,nd->fnc", beta, rows)
            size[facets] = np.einsum("fcd,nd->fnc", np.abs(beta), np.abs(rows))
        return value, size

    def _sure_in_facets(self) -> npt.NDArray[np.int8]:
        """Per facet and row: 1 if it is positive in all of it, -1 if negative, else 0. At infinity weights are zero."""
        found = np.empty(self.value.shape[:2], dtype=np.int8)
        for f in range(len(found)):
            c = self.vertices[self.corner[self.at[f] : self.at[f + 1]]]
            found[f] = _signs(_rounded_off(self.value[f : f + 1], self.size[f : f + 1], c))[0]
        return found

    def scaled(self, triangle: Floats) -> Floats:
        """Homogeneous costs (n, 3) in the units of the fold."""
        return np.asarray(triangle * [self.unit, self.unit, 1.0])

    def meeting(self, facets: Ints, triangle: Floats) -> Ints:
        """Which of some facets have more than an edge or a corner in common with a triangle: there is no line between them."""
        if facets.size == 0:
            return facets
        c = self.scaled(triangle)
        sizes = self.at[facets + 1] - self.at[facets]
        first = np.cumsum(sizes) - sizes
        place = np.arange(int(sizes.sum())) - np.repeat(first - self.at[facets], sizes)
        behind = np.all(self.lines[place] @ c.T <= APART * (self.line_size[place] @ c.T), axis=1)
        out = np.logical_or.reduceat(behind, first)
        sides, side_size = np.cross(c, c[[1, 2, 0]]), _cross_size(c, c[[1, 2, 0]])
        vertices = self.vertices[self.corner[place]]
        beside = vertices @ sides.T <= APART * (vertices @ side_size.T)
        out |= np.any(np.logical_and.reduceat(beside, first, axis=0), axis=1)
        return facets[~out]

    def holding(self, point: Floats) -> Ints:
        """The facets that hold homogeneous costs (1, 3), inside or on an edge."""
        c = self.scaled(point)[0]
        outside = self.lines @ c < -APART * (self.line_size @ c)
        return np.flatnonzero(~np.logical_or.reduceat(outside, self.at[:-1]))

    def look(self, facets: Ints, triangle: Floats) -> Look:
        """What may be right in a triangle that meets some facets, or at costs that they hold."""
        if facets.size == 0:  # not so, since they cover the part
            most = int(self.positive.sum()), int((~self.positive).sum())
            return Look(self.positive.size, most, (0, 0), np.zeros(len(triangle), dtype=np.intp))
        at = _rounded_off(self.value[facets], self.size[facets], self.scaled(triangle))
        sure = np.where(self.sure[facets] == 0, _signs(at), self.sure[facets])
        negative, positive = np.all(sure == -1, axis=0), np.all(sure == 1, axis=0)
        open_at = at[:, ~(negative | positive)]
        differ = np.any(open_at * np.roll(open_at, -1, axis=2) < 0, axis=0).sum(axis=0)
        most = int(np.sum(self.positive & ~negative)), int(np.sum(~self.positive & ~positive))
        least = int(np.sum(self.positive & positive)), int(np.sum(~self.positive & negative))
        return Look(open_at.shape[1], most, least, differ)

    def cells(self, facets: Ints, polygon: Floats) -> Iterator[tuple[Floats, tuple[int, int]]]:
        """The cells of a polygon of homogeneous costs, and how many positive and negative rows are right in each."""
        to_own = np.array([self.unit, self.unit, 1.0])
        for f in facets.tolist():
            own = self._part_in(f, polygon * to_own)
            if own is None:
                continue
            parts = [(own, np.zeros(self.positive.size, dtype=bool))]
            sure = _signs(_rounded_off(self.value[f : f + 1], self.size[f : f + 1], own))[0]
            parts[0][1][sure == 1] = True
            for i in np.flatnonzero(sure == 0).tolist():
                parts = [part for old in parts for part in divided(*old, i, self.value[f, i], self.size[f, i])]
            for part, found in parts:
                yield part / to_own, (int(np.sum(found & self.positive)), int(np.sum(~found & ~self.positive)))

    def _part_in(self, f: int, polygon: Floats) -> Floats | None:
        """The part of a polygon that is in a facet; None if it is no more than an edge."""
        for k in range(self.at[f], self.at[f + 1]):
            polygon, _ = _split(polygon, self.lines[k], self.line_size[k], APART)
            if len(polygon) == 0:
                return None
        return polygon


class Look(NamedTuple):
    """What is known of one fold in a triangle."""

    n_open: int  # rows of which neither is known
    most: tuple[int, int]  # positive and negative rows that may be right
    least: tuple[int, int]  # those that are
    differ: Ints  # (m,) open rows that differ between the two ends of each edge


def _rounded_off(value: Floats, size: Floats, c: Floats) -> Floats:
    """Values (f, n, m) of linear functions (f, n, 3) at homogeneous costs (m, 3); zero where they are rounding errors."""
    at = value @ c.T
    return np.where(np.abs(at) <= NOTHING * (size @ c.T), 0.0, at)


def _signs(at: Floats) -> npt.NDArray[np.int8]:
    """Signs (f, n) of linear functions between costs where they have some values (f, n, m); 0 is negative; 0: both."""
    low, high = at.min(axis=2), at.max(axis=2)
    found: npt.NDArray[np.int8] = ((low >= 0) & (high > 0)).astype(np.int8) - (high <= 0).astype(np.int8)
    return found


def _split(polygon: Floats, line: Floats, size: Floats, nothing: float) -> tuple[Floats, Floats]:
    """The parts of a convex polygon (k, 3) on the positive and on the negative side of a line, empty if it is not there.

    A corner that is nearer to the line than rounding tells is on it. New corners are sums of numbers that are not negative.
    """
    at, none = polygon @ line, polygon[:0]
    at = np.where(np.abs(at) <= nothing * (polygon @ size), 0.0, at)
    if not np.any(at < 0):
        return (polygon, none) if np.any(at > 0) else (none, polygon)
    if not np.any(at > 0):
        return none, polygon
    after, at_after = np.roll(polygon, -1, axis=0), np.roll(at, -1)
    new = polygon * np.abs(at_after)[:, None] + after * np.abs(at)[:, None]
    crossed = at * at_after < 0
    new[crossed] /= new[crossed].max(axis=1, keepdims=True)
    ring = np.stack([polygon, new], axis=1).reshape(-1, 3)
    used = [np.stack([side, crossed], axis=1).ravel() for side in (at >= 0, at <= 0)]
    return ring[used[0]], ring[used[1]]


def divided(polygon: Floats, found: Flags, i: int, value: Floats, size: Floats) -> Iterator[tuple[Floats, Flags]]:
    """The parts of a polygon where row i is positive and where it is negative; ``found`` are the positive rows."""
    for part, sign in zip(_split(polygon, value, size, NOTHING), (True, False), strict=True):
        if len(part):
            known = found.copy()
            known[i] = sign
            yield part, known


def _cross_size(a: Floats, b: Floats) -> Floats:
    """Sizes of the terms of cross products of numbers that are not negative."""
    return np.column_stack([a[:, i] * b[:, j] + a[:, j] * b[:, i] for i, j in ((1, 2), (2, 0), (0, 1))])


# ----------------------------------------------------------------------------------------------------------------------
# All folds


class Between(NamedTuple):
    """What is known of all folds in a triangle."""

    least: float  # mean score
    most: float
    each_most: list[float]  # of each fold
    n_open: int  # open rows, and facets beside the first, of all folds
    differ: Ints  # (m,) open rows that differ between the two ends of each edge


class Scores:
    """Bounds on the mean score of all folds in triangles."""

    def __init__(self, folds: list[Fold], scoring: str) -> None:
        self.folds, self.score = folds, SCORES[scoring]
        self.classes = [(int(fold.positive.sum()), int((~fold.positive).sum())) for fold in folds]

    def _score(self, k: int, right: tuple[int, int]) -> float:
        """The score of fold k of counts of right rows."""
        return float(self.score(*np.array([*right, *self.classes[k]], dtype=float)))

    def between(self, triangle: Floats, lists: list[Ints]) -> Between:
        """What the mean score may be in a triangle that meets some facets."""
        found = [fold.look(facets, triangle) for fold, facets in zip(self.folds, lists, strict=True)]
        least = np.mean([self._score(k, look.least) for k, look in enumerate(found)])
        most = [self._score(k, look.most) for k, look in enumerate(found)]
        n_open = sum(look.n_open for look in found) + sum(facets.size - 1 for facets in lists)
        return Between(float(least), float(np.mean(most)), most, n_open, np.sum([look.differ for look in found], axis=0))

    def is_below(self, bound: float, polygon: Floats, lists: list[Ints], most: list[float]) -> bool:
        """Whether no cell of a polygon has a higher mean score; ``most`` are the highest of each fold, known or possible."""
        k = len(self.folds) - len(lists)
        if float(np.mean(most)) <= bound + EQUAL:
            return True
        if not lists:
            return False
        return all(
            self.is_below(bound, cell, lists[1:], [*most[:k], self._score(k, right), *most[k + 1 :]])
            for cell, right in self.folds[k].cells(lists[0], polygon)
        )

    def at(self, costs: tuple[float, float]) -> tuple[float, float]:
        """The least and the highest mean score that costs may have."""
        point = np.array([(*costs, 1.0)])
        found = self.between(point, [fold.holding(point) for fold in self.folds])
        return found.least, found.most

    def meeting(self, triangle: Floats, lists: list[Ints]) -> list[Ints]:
        """The facets that meet a triangle, among some."""
        return [fold.meeting(facets, triangle) for fold, facets in zip(self.folds, lists, strict=True)]

    def all_facets(self) -> list[Ints]:
        """All facets of each fold."""
        return [np.arange(fold.at.size - 1) for fold in self.folds]


def prove_bound(scores: Scores, region: list[Floats], bound: float, progress: Any) -> tuple[int, list[str]]:
    """Number of triangles, and those whose score may be above a bound."""
    unit = float(np.median([1.0 / fold.unit for fold in scores.folds]))
    waiting: list[tuple[Floats, list[Ints], int]] = [(triangle, scores.all_facets(), MANY + 1) for triangle in region]
    n, faults = 0, list[str]()
    while waiting and len(faults) < MOST_NAMED:
        triangle, lists, n_open = waiting.pop()
        n, lists, differ, is_above = n + 1, scores.meeting(triangle, lists), np.zeros(3, dtype=np.intp), False
        if progress is not None and n % 256 == 0:
            progress(n, n + len(waiting))
        if all(facets.size <= FACETS for facets in lists):
            found, before = scores.between(triangle, lists), n_open
            differ, n_open = found.differ, found.n_open
            if found.most <= bound + EQUAL:
                continue
            few = n_open <= FEW or before <= n_open <= MANY
            if few and scores.is_below(bound, triangle, lists, found.each_most):
                continue
            is_above = found.least > bound + EQUAL
        halves = _halves(triangle, differ, unit) if n < MOST_TRIANGLES and not is_above else []
        if not halves:
            corners = ", ".join(f"({p / l:.6g}, {q / l:.6g})" if l else "infinity" for p, q, l in triangle.tolist())
            faults.append(f"costs between {corners} may score higher than {bound:.6g}")
        waiting += [(half, lists, n_open) for half in halves]
    return n, faults


def _halves(triangle: Floats, differ: Ints, unit: float) -> list[Floats]:
    """Two halves of a triangle, cut where most rows differ between two corners, or else along the longest edge."""
    c = triangle / [unit, unit, 1.0]
    c = c / c.sum(axis=1, keepdims=True)
    after = c[[1, 2, 0]]
    length, size = np.linalg.norm(c - after, axis=1), _cross_size(c, after)
    apart = np.divide(np.abs(np.cross(c, after)), size, out=np.zeros_like(size), where=size > 0).max(axis=1)
    k = int(np.lexsort([length, np.where(apart < NARROWEST, 0, differ)])[-1])
    if max(apart[k] if differ[k] else 0.0, length[k]) < NARROWEST:
        return []
    middle = (c[k] + c[(k + 1) % 3]) / 2 * [unit, unit, 1.0]
    first, second = triangle.copy(), triangle.copy()
    first[(k + 1) % 3], second[k] = middle, middle
    return [first, second]


def triangles_of(region: Any) -> list[Floats]:
    """The region as triangles of homogeneous costs, turned to the left."""
    (p, p_end), (q, q_end) = region
    corners = [(p, q, 1.0)]
    corners += [(1.0, 0.0, 0.0)] if p_end is None else [(p_end, q, 1.0)]
    corners += [(p_end, q_end, 1.0)] if p_end is not None and q_end is not None else []
    corners += [(0.0, 1.0, 0.0)] if q_end is None else [(p, q_end, 1.0)]
    return [np.array([corners[0], a, b]) for a, b in pairwise(corners[1:])]
