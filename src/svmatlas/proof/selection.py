"""The proof of a selection: no costs in the region have a higher mean score on held-out rows than it says.

The file (docs/format.md, section Selections) holds the folds and the map of the training rows of each. Each map is certified as
any map is, on X and y as they are given. What is left is to bound the score, over all costs at once, by boxes:

- In a facet the weights are linear in homogeneous costs, so a held-out row is positive in all of it if it is at its corners, and
  positive where it meets a box if it is at the corners of the box. A row that is positive in all facets that meet a box
  is predicted positive there; so with negative; others are open. (A decision value of zero is negative.)
- With all open rows right, the score of a box is at its highest, since scores are monotone. A box whose mean over the folds
  is above the bound is cut in two, and the facets that meet its halves are looked for among those that met it.

The boxes cover the region because the first is the region, and a box is cut or proven. Costs are halved by t = C / (C + unit),
from 0 to 1, so that infinity is an end like any other.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.proof.models import RowModels
from svmatlas.proof.partitions import Partitions
from svmatlas.proof.reading import Map, ProofError
from svmatlas.proof.rows import Points

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]
Box = tuple[float, float, float, float]

NAME, FORMAT = "selection.json", 1

NOTHING = 2.0**-40
"""A number below this, relative to the sizes of its terms, is zero: weights of facets that reach infinity, decision values of
rows on the boundary."""

APART = 2.0**-44
"""A box is outside a facet if it is by this, relative to terms: some roundings of a product of three numbers."""

EQUAL = 1e-12
"""Scores are means of ratios of counts: they differ by more, or are equal."""

NARROWEST = 2.0**-40
"""Width of a box, in t, that is not cut any more. Cells that are so narrow are not part of a selection."""

FACETS, MOST = 2**10, 2**26
"""A box that meets more facets than the first in a fold is cut right away. Numbers in the tables of a fold."""


def _ratio(over: Any, under: Any) -> Any:
    return np.divide(over, under, out=np.zeros(np.shape(over + under)), where=np.asarray(under) != 0)


def _matthews(tp: Any, tn: Any, P: Any, N: Any) -> Any:
    fp, fn = N - tn, P - tp
    return _ratio(tp * tn - fp * fn, np.sqrt((tp + fp) * P * N * (tn + fn)))


SCORES: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "accuracy": lambda tp, tn, P, N: _ratio(tp + tn, P + N),
    "balanced_accuracy": lambda tp, tn, P, N: (_ratio(tp, P) + _ratio(tn, N)) / 2,
    "f1": lambda tp, tn, P, N: _ratio(2 * tp, tp + P + N - tn),
    "jaccard": lambda tp, tn, P, N: _ratio(tp, P + N - tn),
    "matthews_corrcoef": _matthews,
    "precision": lambda tp, tn, P, N: _ratio(tp, tp + N - tn),
    "recall": lambda tp, tn, P, N: _ratio(tp, P),
}
"""Scores of tp right positive and tn right negative rows among P and N; all are monotone in both."""


@dataclass(frozen=True)
class SelectionCertificate:
    """What :func:`svmatlas.certify` found of a selection.

    Attributes
    ----------
    ok : bool
        Whether all of it is proven.
    best_score, costs : float and tuple of float
        The score, recomputed at the costs that the selection recommends.
    upper_bound : float
        No costs in the region have a higher mean score on the held-out rows; infinite if that is not proven.
    gap : float
        Largest relative duality gap that a model of any fold can have, at costs up to ``largest_costs``.
    largest_costs : float
        The least of those of the maps of the folds.
    n_boxes : int
        Number of boxes of the proof.
    n_facets : list of int
        Sizes of the maps.
    faults : list of str
        What is wrong, by place.

    """

    ok: bool
    best_score: float
    costs: tuple[float, float]
    upper_bound: float
    gap: float
    largest_costs: float
    n_boxes: int
    n_facets: list[int]
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        limit = "" if np.isinf(self.largest_costs) else f", for C+ + C- up to {self.largest_costs:.1e}"
        lines = [
            f"{'certified' if self.ok else 'NOT CERTIFIED'}: a selection, {len(self.n_facets)} folds",
            f"  score {self.best_score:.6g} at costs ({self.costs[0]:.6g}, {self.costs[1]:.6g})",
            f"  no costs in the region score higher than {self.upper_bound:.6g} ({self.n_boxes} boxes)",
            f"  relative duality gap of all models at most {self.gap:.1e}{limit}",
        ]
        return "\n".join(lines + [f"  fault: {fault}" for fault in self.faults])


def is_selection(path: Any) -> bool:
    """Whether a file is the proof of a selection."""
    return zipfile.is_zipfile(path)


def read_selection(path: Any) -> dict[str, Any]:
    """What a selection says."""
    with zipfile.ZipFile(path) as archive:
        if NAME not in archive.namelist():
            raise ProofError(f"{path} is not the proof of a selection")
        said: dict[str, Any] = json.loads(archive.read(NAME))
    if said["format"] != FORMAT:
        raise ProofError(f"{path} has format {said['format']}: this checker reads format {FORMAT}")
    if said["scoring"] not in SCORES:
        raise ProofError(f"there is no score of the name {said['scoring']}")
    return said


# ----------------------------------------------------------------------------------------------------------------------
# One fold


class Corners(NamedTuple):
    """A box of costs in the units of a fold."""

    c: Floats  # (m, 3) homogeneous
    sides: Floats  # (k, 3) lines, not negative inside


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
        for k in range(0, n, 2**10):
            facets = np.arange(k, min(n, k + 2**10))
            pieces = partitions.stored.arrays["canonical.piece"][facets] if partitions.stored.tied else facets
            beta = solver.maps(partitions.of_pieces(pieces)).beta
            beta[:, :2] = np.where(np.abs(beta[:, :2]) <= NOTHING * solver.total, 0.0, beta[:, :2])
            value[facets] = np.einsum("fcd,nd->fnc", beta, rows)
            size[facets] = np.einsum("fcd,nd->fnc", np.abs(beta), np.abs(rows))
        return value, size

    def _sure_in_facets(self) -> npt.NDArray[np.int8]:
        """Per facet and row: 1 if it is positive in all of it, -1 if negative, else 0. At infinity weights are zero."""
        found = np.empty(self.value.shape[:2], dtype=np.int8)
        for f in range(len(found)):
            c = self.vertices[self.corner[self.at[f] : self.at[f + 1]]]
            found[f] = _signs(self.value[f : f + 1], self.size[f : f + 1], c)[0]
        return found

    def box(self, box: Box) -> Corners:
        """A box of costs in the units of the fold."""
        p, p_end, q, q_end = (x * self.unit for x in box)
        far = [(1.0, 0.0, 0.0)] * np.isinf(p_end) + [(0.0, 1.0, 0.0)] * np.isinf(q_end)
        near = [(x, y, 1.0) for x in {p, p_end} for y in {q, q_end} if np.isfinite(x) and np.isfinite(y)]
        sides = [(1.0, 0.0, -p), (0.0, 1.0, -q)]
        sides += [(-1.0, 0.0, p_end)] * np.isfinite(p_end) + [(0.0, -1.0, q_end)] * np.isfinite(q_end)
        return Corners(np.array(near + far), np.array(sides))

    def meeting(self, facets: Ints, box: Corners) -> Ints:
        """Which of some facets may have costs in common with a box: there is no line between them."""
        sizes = self.at[facets + 1] - self.at[facets]
        first = np.cumsum(sizes) - sizes
        place = np.arange(int(sizes.sum())) - np.repeat(first - self.at[facets], sizes)
        behind = np.all(self.lines[place] @ box.c.T < -APART * (self.line_size[place] @ box.c.T), axis=1)
        out = np.logical_or.reduceat(behind, first)
        vertices = self.vertices[self.corner[place]]
        beside = vertices @ box.sides.T < -APART * (vertices @ np.abs(box.sides).T)
        out |= np.any(np.logical_and.reduceat(beside, first, axis=0), axis=1)
        return facets[~out]

    def best_counts(self, facets: Ints, box: Corners) -> tuple[int, int]:
        """The most rows of both classes that may be right in a box that meets some facets."""
        sure = self.sure[facets]
        sure = np.where(sure == 0, _signs(self.value[facets], self.size[facets], box.c), sure)
        negative, positive = np.all(sure == -1, axis=0), np.all(sure == 1, axis=0)
        return int(np.sum(self.positive & ~negative)), int(np.sum(~self.positive & ~positive))


def _signs(value: Floats, size: Floats, c: Floats) -> npt.NDArray[np.int8]:
    """Signs (f, n) of linear functions (f, n, 3) in the hull of homogeneous costs, as far as these are finite; 0: both."""
    at, error = value @ c.T, NOTHING * (size @ c.T)
    near = c[:, 2] > 0
    positive = np.all(at[..., near] > error[..., near], axis=2) & np.all(at[..., ~near] >= 0.0, axis=2)
    negative = np.all(at[..., near] < -error[..., near], axis=2) & np.all(at[..., ~near] <= 0.0, axis=2)
    negative |= np.all(np.abs(at) <= error, axis=2)
    found: npt.NDArray[np.int8] = positive.astype(np.int8) - negative.astype(np.int8)
    return found


def _cross_size(a: Floats, b: Floats) -> Floats:
    """Sizes of the terms of cross products of numbers that are not negative."""
    return np.column_stack([a[:, i] * b[:, j] + a[:, j] * b[:, i] for i, j in ((1, 2), (2, 0), (0, 1))])


# ----------------------------------------------------------------------------------------------------------------------
# All folds


class Scores:
    """Bounds on the mean score of all folds in boxes."""

    def __init__(self, folds: list[Fold], scoring: str) -> None:
        self.folds, self.score = folds, SCORES[scoring]
        self.classes = [(int(fold.positive.sum()), int((~fold.positive).sum())) for fold in folds]

    def highest(self, box: Box, lists: list[Ints]) -> float:
        """The highest mean score that a box may have that meets some facets of each fold."""
        total = 0.0
        for fold, facets, (P, N) in zip(self.folds, lists, self.classes, strict=True):
            tp, tn = fold.best_counts(facets, fold.box(box))
            total += float(self.score(*np.array([tp, tn, P, N], dtype=float)))
        return total / len(self.folds)

    def meeting(self, box: Box, lists: list[Ints]) -> list[Ints]:
        """The facets that meet a box, among some."""
        return [fold.meeting(facets, fold.box(box)) for fold, facets in zip(self.folds, lists, strict=True)]

    def all_facets(self) -> list[Ints]:
        """All facets of each fold."""
        return [np.arange(fold.at.size - 1) for fold in self.folds]


def prove_bound(scores: Scores, region: Box, bound: float, progress: Any) -> tuple[int, list[str]]:
    """Number of boxes, and those whose score may be above a bound."""
    unit = float(np.median([1.0 / fold.unit for fold in scores.folds]))
    boxes, n, faults = [(region, scores.all_facets())], 0, []
    while boxes:
        box, lists = boxes.pop()
        n += 1
        lists = scores.meeting(box, lists)
        if progress is not None and n % 256 == 0:
            progress(n, n + len(boxes))
        if all(facets.size <= FACETS for facets in lists) and scores.highest(box, lists) <= bound + EQUAL:
            continue
        halves = _halves(box, unit)
        if not halves:
            p, p_end, q, q_end = box
            faults.append(f"costs from ({p:.6g}, {q:.6g}) to ({p_end:.6g}, {q_end:.6g}) may score higher than {bound:.6g}")
            if len(faults) == 5:
                break
        boxes += [(half, lists) for half in halves]
    return n, faults


def _halves(box: Box, unit: float) -> list[Box]:
    """Two halves of a box, along the longer side; none if it is too narrow."""
    p, p_end, q, q_end = box
    ends = [[1.0 if np.isinf(x) else x / (x + unit) for x in pair] for pair in ((p, p_end), (q, q_end))]
    width = [b - a for a, b in ends]
    axis = int(width[1] > width[0])
    a, b = ends[axis]
    middle = unit * ((a + b) / 2) / (1 - (a + b) / 2)
    if width[axis] < NARROWEST or not (p, q)[axis] < middle < (p_end, q_end)[axis]:
        return []
    return [(p, middle, q, q_end), (middle, p_end, q, q_end)] if axis == 0 else [(p, p_end, q, middle), (p, p_end, middle, q_end)]
