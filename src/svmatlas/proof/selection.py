"""The proof of a selection: no costs in the region have a higher mean score on held-out rows than it says.

The file (docs/format.md, section Selections) holds the folds and the *parts* of the region that the search dropped, explored
or left open. A part is a box of costs with a bound. Its bound holds

- by models at its four corners: these decide most held-out rows in all of the box (ball.py), and others count as right;
- by the maps of all folds in it: these are certified, and no cell has a higher score (cells.py);
- by nothing: it is the score of predictions that are all right.

Here it is checked that the boxes cover the region (cover.py), and each bound is made anew from X, y and the folds. The score
at the recommended costs is that of maps around them.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.proof.ball import FoldRows
from svmatlas.proof.cells import MOST_NAMED, Fold, Scores, prove_bound, triangles_of
from svmatlas.proof.cover import Box, find_hole
from svmatlas.proof.reading import Map, ProofError, parse_map
from svmatlas.proof.rows import make_points
from svmatlas.proof.scores import EQUAL, SCORES

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]

NAME, FORMAT = "selection.json", 2

BOXES = 256
"""Boxes that are bounded by models at once."""


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
        Largest relative duality gap that a model of the maps of the folds can have, at costs up to ``largest_costs``.
    largest_costs : float
        The least of those of these maps.
    n_boxes, n_explored : int
        Parts that are bounded by models at their corners, and those that are by maps.
    n_models, n_facets, n_triangles : int
        Models of the folds, facets of their maps, and triangles of the proof in these.
    faults : list of str
        What is wrong, by place.

    """

    ok: bool
    best_score: float
    costs: tuple[float, float]
    upper_bound: float
    gap: float
    largest_costs: float
    n_folds: int
    n_boxes: int
    n_explored: int
    n_models: int
    n_facets: int
    n_triangles: int
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        limit = "" if np.isinf(self.largest_costs) else f", for C+ + C- up to {self.largest_costs:.1e}"
        lines = [
            f"{'certified' if self.ok else 'NOT CERTIFIED'}: a selection, {self.n_folds} folds",
            f"  score {self.best_score:.6g} at costs ({self.costs[0]:.6g}, {self.costs[1]:.6g})",
            f"  no costs in the region score higher than {self.upper_bound:.6g}",
            f"  {self.n_boxes} boxes are bounded by {self.n_models} models",
            f"  {self.n_explored} boxes by maps of {self.n_facets} facets ({self.n_triangles} triangles)",
            f"  relative duality gap of all models of the maps at most {self.gap:.1e}{limit}",
        ]
        return "\n".join(lines + [f"  fault: {fault}" for fault in self.faults])


# ----------------------------------------------------------------------------------------------------------------------
# The file


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


class Part(NamedTuple):
    """A box of costs, and why no costs in it have a higher score than a bound."""

    box: Box
    bound: float
    models: list[int]  # at its corners, in order around it; none if it is bounded otherwise
    maps: str  # the name of its maps; empty if there are none


def _box(ends: Any) -> Box:
    (a, b), (c, d) = ends
    return (float(a), np.inf if b is None else float(b)), (float(c), np.inf if d is None else float(d))


def _parts(said: dict[str, Any]) -> list[Part]:
    return [Part(_box(p["box"]), float(p["bound"]), p.get("models", []), p.get("maps", "")) for p in said["parts"]]


class _Data(NamedTuple):
    """What was given, and the file."""

    archive: zipfile.ZipFile
    said: dict[str, Any]
    X: Any
    positive: npt.NDArray[np.bool_]
    weight: Floats

    @property
    def folds(self) -> list[tuple[Ints, Ints]]:
        """Training and held-out rows of each fold."""
        return [(np.array(train, dtype=np.intp), np.array(test, dtype=np.intp)) for train, test in self.said["folds"]]

    def shares(self, k: int) -> Floats:
        """Dual variables of the models of a fold, as shares of their bounds: (models, training rows)."""
        blob, shape = self._read(f"models.fold{k}"), (len(self.said["models"]), len(self.said["folds"][k][0]))
        if len(blob) != 8 * shape[0] * shape[1]:
            raise ProofError(f"models.fold{k} are not those of {shape[0]} models and {shape[1]} training rows")
        return np.frombuffer(blob, "<f8").reshape(shape)

    def map_of(self, name: str, k: int) -> Map:
        """A map of a fold."""
        return parse_map(self._read(f"{name}.fold{k}.atlas"), f"{name}.fold{k}.atlas")

    def _read(self, name: str) -> bytes:
        if name not in self.archive.namelist():
            raise ProofError(f"the proof lacks {name}")
        return self.archive.read(name)


def _check_folds(said: dict[str, Any]) -> None:
    """ProofError for rows that there are not."""
    for k, (train, test) in enumerate(said["folds"]):
        if not (train and test and min(*train, *test) >= 0 and max(*train, *test) < said["n_rows"]):
            raise ProofError(f"fold {k} has no rows, or rows that there are not")
        if set(train) & set(test):
            raise ProofError(f"fold {k} holds out a row that it is trained on")


# ----------------------------------------------------------------------------------------------------------------------
# Parts


def highest_scores(scoring: str, counts: list[tuple[Any, Any]], classes: list[tuple[int, int]]) -> Any:
    """Mean scores over the folds of counts of right rows (tp, tn) among rows of two ``classes``."""
    scores = [
        SCORES[scoring](np.asarray(tp, dtype=float), np.asarray(tn, dtype=float), float(P), float(N))
        for (tp, tn), (P, N) in zip(counts, classes, strict=True)
    ]
    return np.mean(scores, axis=0)


class Bounder:
    """Bounds of boxes by models at their corners; ``held`` says which held-out rows of each fold are positive."""

    def __init__(self, rows: list[FoldRows], held: list[npt.NDArray[np.bool_]], scoring: str) -> None:
        self.rows, self.held, self.scoring = rows, held, scoring
        self.classes = [(int(positive.sum()), int((~positive).sum())) for positive in held]

    @property
    def perfect(self) -> float:
        """The score of predictions that are all right."""
        return float(highest_scores(self.scoring, self.classes, self.classes))

    def bounds(self, costs: Floats, shares: list[Floats]) -> Floats:
        """Bounds (B,) of boxes with corners at costs (B, 4, 2), and the shares (B, 4, n) of each fold's models there."""
        counts = []
        for rows, held, share in zip(self.rows, self.held, shares, strict=True):
            found = rows.decide(costs, share)
            counts.append((np.sum(held & ~found.negative, axis=1), np.sum(~held & ~found.positive, axis=1)))
        return np.asarray(highest_scores(self.scoring, counts, self.classes))


def corners_of(box: Box) -> list[tuple[float, float]]:
    """The corners of a box, in order around it."""
    (a, b), (c, d) = box
    return [(a, c), (b, c), (b, d), (a, d)]


def _check_boxes(data: _Data, parts: list[Part], bounder: Bounder) -> Iterator[str]:
    """Make the bounds of boxes anew that have models at their corners, or nothing."""
    costs = np.array(data.said["models"], dtype=float).reshape(-1, 2)
    for part in parts:
        where = [tuple(costs[j].tolist()) if 0 <= j < len(costs) else None for j in part.models]
        if part.models and where != corners_of(part.box):
            yield f"{_place(part)}: its models are not those at its corners"
            return
    shares = [data.shares(k) for k in range(len(bounder.rows))]
    bounded = [part for part in parts if part.models]
    for k in range(0, len(bounded), BOXES):
        block = bounded[k : k + BOXES]
        own = np.array([part.models for part in block], dtype=np.intp)
        found = bounder.bounds(costs[own], [share[own] for share in shares])
        for part, bound in zip(block, found.tolist(), strict=True):
            if not bound <= part.bound + EQUAL:
                yield _too_low(part, bound)
    yield from (
        _too_low(part, bounder.perfect)
        for part in parts
        if not part.models and not part.maps and bounder.perfect > part.bound + EQUAL
    )


def _too_low(part: Part, bound: float) -> str:
    return f"{_place(part)}: costs in it may score {bound:.9g}, higher than {part.bound:.9g}"


def _place(part: Part) -> str:
    (a, b), (c, d) = part.box
    return f"the box [{a:.6g}, {b:.6g}] x [{c:.6g}, {d:.6g}]"


class _Explored:
    """What is known of the maps of a selection."""

    def __init__(self, data: _Data, certify_map: Callable[..., Any], progress: Any) -> None:
        self.data, self.certify_map, self.progress = data, certify_map, progress
        self.gap, self.largest_costs, self.n_facets, self.n_triangles = 0.0, np.inf, 0, 0
        self.faults: list[str] = []

    def read(self, name: str, box: Box) -> Scores | None:
        """Certify the maps of a box; None if they are not right, which is then among the faults."""
        folds = []
        for k, (train, test) in enumerate(self.data.folds):
            stored, X, positive = self.data.map_of(name, k), self.data.X, self.data.positive
            given = X[train], positive[train].astype(int), self.data.weight[train]
            found = self.certify_map(stored, *given)
            self.gap, self.n_facets = max(self.gap, found.gap), self.n_facets + found.n_facets
            self.largest_costs = min(self.largest_costs, found.largest_costs)
            faults = list(found.faults)
            if _box(stored.parameters["region"]) != box or not found.complete:
                faults.append("its map is not of the whole box")
            if stored.parameters["bias"] != self.data.said["bias"] or stored.parameters["kernel"]["name"] != "linear":
                faults.append("its map is of other models")
            if faults:
                self.faults += [f"{name}, fold {k}: {fault}" for fault in faults]
                return None
            Z = X[test].toarray() if hasattr(X, "tocsr") else X[test]
            folds.append(Fold(stored, make_points(stored, *given)[0], Z, positive[test]))
        return Scores(folds, self.data.said["scoring"])

    def check(self, part: Part) -> None:
        """Prove the bound of a part."""
        scores = self.read(part.maps, part.box)
        if scores is not None:
            region = [[lo, None if hi == np.inf else hi] for lo, hi in part.box]
            n, faults = prove_bound(scores, triangles_of(region), part.bound, self.progress)
            self.n_triangles += n
            self.faults += [f"{_place(part)}: {fault}" for fault in faults]

    def score(self) -> float:
        """The score at the recommended costs."""
        said = self.data.said
        scores = self.read("best", _box(said["around"]))
        if scores is None:
            return np.nan
        low, high = scores.at((said["costs"][0], said["costs"][1]))
        if abs(low - said["best_score"]) > EQUAL or abs(high - said["best_score"]) > EQUAL:
            found = f"{low:.9g}" if low == high else f"between {low:.9g} and {high:.9g}"
            self.faults.append(f"the score at costs {tuple(said['costs'])} is {found}, not {said['best_score']:.9g}")
        return low


def certify_selection(
    path: Any, X: Any, y: Any, weight: Any, certify_map: Callable[..., Any], progress: Any
) -> SelectionCertificate:
    """Check a proof; ``certify_map`` certifies a map on rows, labels and weights."""
    said = read_selection(path)
    X = X.tocsr() if hasattr(X, "tocsr") else np.asarray(X, dtype=float)
    y = np.asarray(y).ravel()
    if X.shape[0] != said["n_rows"] or len(y) != said["n_rows"]:
        raise ProofError(f"the selection was made of {said['n_rows']} rows, got X with {X.shape[0]} and y with {len(y)}")
    positive = (y.astype(str) if isinstance(said["positive"], str) else y) == said["positive"]
    weight = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=float)
    _check_folds(said)
    faults, parts = list[str](), _parts(said)
    hole = find_hole(_box(said["region"]), [part.box for part in parts])
    if hole is not None:
        faults.append(f"{_place(Part(hole, 0.0, [], ''))} is in no part")
    faults += [f"{_place(part)}: its bound is above that of all" for part in parts if not part.bound <= said["upper_bound"]]
    with zipfile.ZipFile(path) as archive:
        data = _Data(archive, said, X, positive, weight)
        rows = [FoldRows(X[train], positive[train], weight[train], X[test], said["bias"]) for train, test in data.folds]
        faults += _check_boxes(data, parts, Bounder(rows, [positive[test] for _, test in data.folds], said["scoring"]))
        maps = _Explored(data, certify_map, progress)
        score = maps.score() if not faults else np.nan
        for part in parts:
            if part.maps and not faults and not maps.faults:
                maps.check(part)
    faults = faults[:MOST_NAMED] + maps.faults
    return SelectionCertificate(
        ok=not faults,
        best_score=score,
        costs=(float(said["costs"][0]), float(said["costs"][1])),
        upper_bound=float(said["upper_bound"]) if not faults else np.inf,
        gap=maps.gap,
        largest_costs=maps.largest_costs,
        n_folds=len(rows),
        n_boxes=sum(bool(part.models) for part in parts),
        n_explored=sum(bool(part.maps) for part in parts),
        n_models=len(said["models"]) * len(rows),
        n_facets=maps.n_facets,
        n_triangles=maps.n_triangles,
        faults=faults,
    )
