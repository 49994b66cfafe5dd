"""The exact best costs: the highest score on held-out rows over all pairs of costs, with proof, and all cells that reach it.

Each fold's training rows give a map (explore.py), its held-out rows zero curves in it (curves.py). The curves of all folds
are laid over each other and the cells between them searched by branch and bound (arrangement.py); what is best is put together
to cells (cells.py).

Curves carry rounding errors, and the jitter that splits ties. So the costs that are returned are first given to models: each
fold is fitted at them, and must score what the curves claim. A claim that the models do not confirm is dropped, and the search
is done again without it.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.arrangement import EQUAL, Best, Box, Judge, bound_of, counts_at, fragments_of, halve, is_promising
from svmatlas.cells import Cell, Parts, Window, area_within, join, make_window
from svmatlas.curves import ZERO, Collector, Curves
from svmatlas.estimators import decide_at
from svmatlas.explore import count_jobs, first_state
from svmatlas.folds import Folds, check_scorable, make_folds
from svmatlas.messages import shown
from svmatlas.problem import Bounds, Problem, check_bounds, make_problem, make_region
from svmatlas.progress import make_bar
from svmatlas.scoring import Score, get_score, make_table
from svmatlas.survey import Surveyor

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Words = npt.NDArray[np.uint64]
Rule = str | Callable[[list[Cell]], int]

SMALL = 2000
"""Boxes with no more pieces of curves than this are searched at once, in compiled code: some milliseconds."""

SEATS = 16
"""Costs at which the search may start."""

CLEAR = 1e-6
"""Least decision value of held-out rows where the search starts: curves are then further off than their errors."""


@dataclass(frozen=True, eq=False)
class Selection:
    """The best costs; made by :func:`svmatlas.select`.

    Attributes
    ----------
    best_score : float
        The highest mean score over all costs of the region.
    C_pos, C_neg : float
        The recommended costs: deepest inside the largest optimal cell, in logarithms of the costs.
    fold_scores : ndarray of shape (n_folds,)
        Scores of the folds at these costs.
    cell : Cell
        The cell of these costs.
    cells : list of Cell
        Every cell with the best score (with ``rule="one_se"``: within a standard error of it), the largest first.
    upper_bound : float
        No costs have a higher mean score than this.
    certified : bool
        Whether the bound is the best score. It is, unless ``time_budget`` ran out.
    n_curves : int
        Number of zero curves: distinct held-out rows whose prediction depends on the costs.
    n_folds, n_boxes : int
        Number of folds, and of boxes that the search looked at.
    at_edge : bool
        Whether the recommended cell touches a side of a bounded region: better costs may lie beyond.
    classes_ : ndarray of shape (2,)
        Labels; ``classes_[1]`` is the positive class.

    """

    best_score: float
    C_pos: float
    C_neg: float
    fold_scores: Floats
    cell: Cell
    cells: list[Cell] = field(repr=False)
    upper_bound: float
    certified: bool
    n_curves: int
    n_boxes: int
    classes_: npt.NDArray[Any]
    _plane: Plane = field(repr=False)

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return int(self.fold_scores.size)

    @property
    def at_edge(self) -> bool:
        """Whether the recommended cell touches a side of a bounded region."""
        return self.cell.at_edge

    def score_at(self, C_pos: Any, C_neg: Any) -> Any:
        """Mean score at some costs: a float for a pair of scalars, an array for arrays.

        It is read off the zero curves, without fitting anything. On a curve it is that of one of its sides.
        """
        scores = self.fold_scores_at(C_pos, C_neg).mean(axis=-1)
        return float(scores) if scores.ndim == 0 else scores

    def fold_scores_at(self, C_pos: Any, C_neg: Any) -> Floats:
        """Scores of the folds at some costs, (n_folds,) or (n, n_folds)."""
        p, q = np.broadcast_arrays(np.asarray(C_pos, dtype=float), np.asarray(C_neg, dtype=float))
        for name, values, (lo, hi) in (("C_pos", p, self._plane.bounds[0]), ("C_neg", q, self._plane.bounds[1])):
            wrong = ~(np.isfinite(values) & (values >= lo) & (values <= hi))
            if np.any(wrong):
                raise ValueError(f"{name} = {values[wrong].flat[0]} is not a finite cost in the region [{lo}, {hi}]")
        costs = np.column_stack([p.ravel(), q.ravel(), np.ones(p.size)])
        counts = counts_at(self._plane.judge, fresh_best(), self._plane.box, costs)
        scores = self._plane.fold_scores(counts)
        return scores[0] if p.ndim == 0 else scores


class Holdout(NamedTuple):
    """The training rows of a fold as a problem, and its held-out rows."""

    problem: Problem
    X: Any
    positive: npt.NDArray[np.bool_]

    def counts(self, C_pos: float, C_neg: float) -> tuple[int, int]:
        """True positives and true negatives of the model with these costs."""
        positive = decide_at(self.problem, self.X, C_pos, C_neg) > 0
        return int(np.sum(positive & self.positive)), int(np.sum(~positive & ~self.positive))


class Plane(NamedTuple):
    """All curves of all folds, and how predictions become scores."""

    box: Box  # the whole region
    judge: Judge
    bounds: Bounds
    n_curves: int
    holdouts: list[Holdout]

    def model_counts(self, C_pos: float, C_neg: float) -> npt.NDArray[np.int64]:
        """True positives and true negatives (2, K) of the models with these costs: each fold is fitted."""
        return np.array([holdout.counts(C_pos, C_neg) for holdout in self.holdouts], dtype=np.int64).T

    def confirms(self, cell: Cell) -> bool:
        """Whether the models at the center of a cell have the scores that the curves claim."""
        scores = self.fold_scores(self.model_counts(*cell.center)[None])[0]
        return bool(np.allclose(scores, cell.fold_scores, rtol=0.0, atol=EQUAL))

    def fold_scores(self, counts: npt.NDArray[np.int64]) -> Floats:
        """Scores (n, K) of counts (n, 2, K)."""
        judge = self.judge
        scores: Floats = judge.table[judge.table_at + counts[:, 0] * (judge.fold_neg + 1) + counts[:, 1]]
        return scores


def select(
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    scoring: Any = "balanced_accuracy",
    bias: float = 1.0,
    sample_weight: Any = None,
    groups: Any = None,
    kernel: Any = "linear",
    gamma: Any = "scale",
    degree: float = 3,
    coef0: float = 0.0,
    region: Any = None,
    rule: Rule = "best",
    n_jobs: int | None = None,
    progress: bool = False,
    time_budget: float | None = None,
    random_state: Any = 0,
) -> Selection:
    """Find the costs (C+, C-) with the best score on held-out rows, over the whole plane and with proof.

    The score is scikit-learn's: the mean over folds of the score of the fold. A grid search looks at some costs; this looks at
    every cell of the plane in which predictions stay the same, and returns all that are best.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_rows, n_features)
        Features; with ``kernel="precomputed"`` the kernel matrix (n_rows, n_rows).
    y : array-like of shape (n_rows,)
        Any two labels; the larger one in sorted order is the positive class.
    cv : int, float, splitter or iterable, default=5
        Number of stratified folds, the share of rows of one stratified hold-out set, a splitter of scikit-learn, or an
        iterable of pairs of row numbers (train, test).
    scoring : str or callable, default="balanced_accuracy"
        "accuracy", "balanced_accuracy", "f1", "jaccard", "matthews_corrcoef"; a function of :mod:`svmatlas.scoring`; or any
        function of the counts (tn, fp, fn, tp) of a fold that does not fall when a prediction becomes right (checked).
    bias : float, default=1.0
        The constant that is appended to each row; 0 for no intercept.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the costs in training. Scores are not weighted, as in scikit-learn.
    groups : array-like of shape (n_rows,), optional
        Passed to the splitter.
    kernel, gamma, degree, coef0
        Kernel and its parameters, as in :func:`svmatlas.explore`; made anew from the training rows of each fold.
    region : ((lo, hi), (lo, hi)), optional
        Bounds for C+ and C-; hi may be infinite. Default: the entire quadrant.
    rule : "best", "one_se" or callable, default="best"
        Which cell to recommend: the largest of the best; the most regularised (smallest C+ + C- at its center) of all whose
        score is within one standard error of the best; or a function of the list of best cells that returns an index.
    n_jobs : int, optional
        Number of threads; -1 for all cores. Default: 1.
    progress : bool, default=False
        Show a progress bar (needs tqdm).
    time_budget : float, optional
        Stop after about this many seconds. The result is then the best so far, with a bound that still holds.
    random_state : int, default=0
        Seed of a hold-out set given by its share, and of the jitter that splits ties.

    Returns
    -------
    Selection
        The best score, all cells that reach it, the costs to use, and the bound.

    Notes
    -----
    A decision value of zero is a negative prediction, as in scikit-learn. On a zero curve a score may therefore differ from
    that of the cells beside it; best is meant of cells, and cells narrower than 1e-10 relative to the costs are not looked at.
    With tied data (lattices, few decimals) a held-out row may lie on the decision boundary in a whole part of the plane. It is
    negative there; a model in doubles, whose decision value is then a rounding error, may say either.

    """
    deadline = _deadline(time_budget)
    _check_rule(rule)
    with make_bar(" steps") if progress else nullcontext() as bar:
        folds = make_folds(X, y, cv, sample_weight, groups, random_state)
        kind = {"kernel": kernel, "gamma": gamma, "degree": degree, "coef0": coef0}
        model = {"bias": bias, "random_state": random_state, **kind}
        plane = make_plane(folds, get_score(scoring), model, check_bounds(region), n_jobs, deadline, bar)
        found = find_best(plane, deadline, bar)
        cells, n_boxes = found.cells, found.n_boxes
        if rule == "one_se":
            best = fresh_best(refuted=found.refuted)
            best.score[:] = found.best_score, found.best_score - _standard_error(found.cells)
            more = search(plane, best, deadline, bar)
            cells, n_boxes = make_cells(plane, more.fragments), n_boxes + more.n_boxes
        cell = _recommend(plane, rule, cells)
    return Selection(
        found.best_score, *cell.center, cell.fold_scores, cell, cells, found.upper_bound, found.certified, plane.n_curves,
        n_boxes, folds.classes, plane,
    )  # fmt: skip


def _recommend(plane: Plane, rule: Rule, cells: list[Cell]) -> Cell:
    """The cell that a rule chooses. Cells that the models do not confirm are taken off the list."""
    while True:
        cell = cells[_choose(rule, cells)]
        if len(cells) == 1 or plane.confirms(cell):
            return cell
        cells.remove(cell)


def _choose(rule: Rule, cells: list[Cell]) -> int:
    """Index of the cell to recommend."""
    if rule == "best":
        return 0
    if rule == "one_se":
        return min(range(len(cells)), key=lambda k: sum(cells[k].center))
    index = rule(cells)  # type: ignore[operator]
    if not (isinstance(index, int | np.integer) and 0 <= index < len(cells)):
        raise ValueError(f"rule must return an index of one of the {len(cells)} cells, got {shown(index)}")
    return int(index)


def _standard_error(cells: list[Cell]) -> float:
    """Standard error of the mean over folds, the least of the best cells."""
    n = cells[0].fold_scores.size
    return float(min(cell.fold_scores.std(ddof=1) for cell in cells) / np.sqrt(n)) if n > 1 else 0.0


# ----------------------------------------------------------------------------------------------------------------------
# The plane


def make_plane(
    folds: Folds, score: Score, model: dict[str, Any], bounds: Bounds, n_jobs: int | None, deadline: float, bar: Any
) -> Plane:
    """Maps of all folds, one after the other, and the zero curves of their held-out rows. ``model``: see make_problem."""
    polygon = make_region(bounds, 0).corners
    y = folds.positive.astype(int)
    check_scorable(folds, score)
    tables = [make_table(score, int(y[test].sum()), int(test.size - y[test].sum())) for _, test in folds.splits]
    found = []
    for k, (train, test) in enumerate(folds.splits):
        _show(bar, f"fold {k + 1} of {len(folds.splits)}")
        left = max(0.9 * (deadline - time.monotonic()) / (len(folds.splits) - k), 1e-3)
        given = model["kernel"] == "precomputed"
        X_train, X_test = (folds.X[part][:, train] if given else folds.X[part] for part in (train, test))
        problem = make_problem(X_train, y[train], sample_weight=folds.weight[train], **model)
        holdout = Holdout(problem, X_test, folds.positive[test])
        found.append(_follow_curves(holdout, bounds, n_jobs, time.monotonic() + left))
    return _assemble(polygon, bounds, tables, found)


class FoldCurves(NamedTuple):
    """The zero curves of the distinct held-out rows of a fold, and where they are known."""

    holdout: Holdout
    first: Ints  # (n,) a held-out row for each distinct one
    counts: npt.NDArray[np.int32]  # (2, n + 1) positive and negative rows that are equal to it; the last: see arrangement.py
    curves: Curves
    explored: list[Bounds]

    def decide(self, C_pos: float, C_neg: float) -> Floats:
        """Decision values (n + 1,) of the model at some costs; of the unexplored part 1 if they lie in it, and else -1."""
        known = any(a <= C_pos < b and c <= C_neg < d for (a, b), (c, d) in self.explored)
        if not known:
            return np.append(-np.ones(self.first.size), 1.0)
        values = decide_at(self.holdout.problem, self.holdout.X[self.first], C_pos, C_neg)
        values = np.where(np.abs(values) <= ZERO * max(1.0, np.abs(values).max(initial=0.0)), 0.0, values)
        return np.append(values, -1.0)


def _follow_curves(holdout: Holdout, bounds: Bounds, n_jobs: int | None, deadline: float) -> FoldCurves:
    """The zero curves of the held-out rows of a fold in the map of its training rows."""
    problem, positive = holdout.problem, holdout.positive
    rows, first, which = np.unique(
        problem.features.coordinates(holdout.X), axis=0, return_index=True, return_inverse=True
    )  # fmt: skip
    counts = np.zeros((2, len(rows) + 1), dtype=np.int32)
    np.add.at(counts, (np.where(positive, 0, 1), which.ravel()), 1)
    counts[1, -1] = np.sum(~positive)
    surveyor = Surveyor(problem, bounds, betas=True)
    collector = Collector(problem, bounds, rows, partial=bool(np.isfinite(deadline)))
    state, start = first_state(problem, bounds, None), (bounds[0][0], bounds[1][0])
    for tile in surveyor.survey(state, start, count_jobs(n_jobs), np.inf, deadline, collector.visit, patient=True):
        if tile is not None:
            collector.tiles.append(tile)
    curves = collector.finish(surveyor.undone)
    return FoldCurves(holdout, first, counts, curves, [tile.bounds for tile in collector.tiles])


def _choose_seat(polygon: Floats, found: list[FoldCurves]) -> tuple[Floats, list[Floats]]:
    """An inner point of the region that is clear of all curves, and the decision values there, fold by fold.

    Random points are tried; if none is clear, it is the one furthest from all curves.
    """
    random = np.random.default_rng(0)
    best, furthest = None, -np.inf
    for weights in random.uniform(0.5, 1.5, size=(SEATS, len(polygon))):
        seat = weights @ polygon
        seat /= seat[2]
        values = [fold.decide(seat[0], seat[1]) for fold in found]
        sizes = np.abs(np.concatenate(values))
        distance = sizes[sizes > 0].min()
        if distance > furthest:
            best, furthest = (seat, values), distance
        if distance > CLEAR:
            break
    assert best is not None
    return best


def _assemble(polygon: Floats, bounds: Bounds, tables: list[Floats], found: list[FoldCurves]) -> Plane:
    """Number the points and lines of all folds, and start at a seat that is clear of all curves."""
    seat, values = _choose_seat(polygon, found)
    sizes = [fold.counts.shape[1] for fold in found]
    first = np.concatenate([[0], np.cumsum(sizes)])
    n_pos, n_neg = np.concatenate([fold.counts for fold in found], axis=1)
    fold = np.repeat(np.arange(len(found), dtype=np.int32), sizes)
    fold_pos = np.array([np.sum(f.holdout.positive) for f in found], dtype=np.int64)
    fold_neg = np.array([np.sum(~f.holdout.positive) for f in found], dtype=np.int64)
    judge = Judge(
        fold, n_pos, n_neg, np.concatenate([table.ravel() for table in tables]),
        np.concatenate([[0], np.cumsum([table.size for table in tables])])[:-1].astype(np.int64), fold_pos, fold_neg,
        first[1:].astype(np.int64) - 1, np.random.default_rng(0).integers(1, 2**64, size=fold.size, dtype=np.uint64),
    )  # fmt: skip
    positive = np.concatenate(values) > 0
    counts = np.zeros((2, len(found)), dtype=np.int64)
    np.add.at(counts[0], fold, np.where(positive, n_pos, 0))
    np.add.at(counts[1], fold, np.where(positive, 0, n_neg))
    counts[1] -= n_neg[judge.unknown]
    curves = [f.curves for f in found]
    pieces = np.concatenate([np.hstack([c.begin, c.end]) for c in curves])
    owner = np.concatenate([c.point + first[k] for k, c in enumerate(curves)]).astype(np.int32)
    n_lines = np.cumsum([0, *(c.line.max(initial=-1) + 1 for c in curves)])
    lines = np.concatenate([c.line + n_lines[k] for k, c in enumerate(curves)])
    codes = -1 - np.roll(np.arange(len(polygon), dtype=np.int64), -1)
    names, key = np.arange(len(polygon), dtype=np.uint64), np.zeros(1, dtype=np.uint64)
    box = Box(polygon, names, codes, pieces, owner, lines, seat, positive, counts, key)
    n_curves = int(np.setdiff1d(owner, judge.unknown).size)
    return Plane(box, judge, bounds, n_curves, [f.holdout for f in found])


# ----------------------------------------------------------------------------------------------------------------------
# The search


class Found(NamedTuple):
    """What a search found."""

    fragments: list[Box]
    upper_bound: float
    n_boxes: int


def fresh_best(n_front: int = 0, refuted: Words | None = None) -> Best:
    """Nothing has been reached; ``refuted``: see Best."""
    none, zero = np.empty(0, dtype=np.uint64), np.zeros(1, dtype=np.uint64)
    random = np.array([88172645463325252], dtype=np.uint64)
    return Best(
        np.array([-np.inf, np.inf]), np.full(n_front, -1, dtype=np.int64), random, np.zeros(1, np.int64),
        none if refuted is None else refuted, zero,
    )  # fmt: skip


def search(plane: Plane, best: Best, deadline: float, bar: Any) -> Found:
    """All fragments of cells that are as good as the best: large boxes are halved, the one with the highest bound first."""
    judge = plane.judge
    heap = [(-np.inf, 0, plane.box)]
    fragments: list[Box] = []
    n_boxes, unknown, ticket = 0, -np.inf, 0
    while heap and (time.monotonic() < deadline or not fragments):
        bound, _, box = heapq.heappop(heap)
        counts, _ = bound_of(judge, box)
        if not is_promising(judge, best, counts):
            continue
        if box.points.size <= SMALL:
            more, missed, looked = fragments_of(judge, best, box)
            fragments += more
            unknown, n_boxes = max(unknown, missed), n_boxes + looked
        else:
            n_boxes += 1
            for child in halve(judge, best, box):
                ticket += 1
                heapq.heappush(heap, (-bound_of(judge, child)[1], ticket, child))
        _show(bar, f"best {best.score[0]:.4f}, bound {-bound:.4f}")
    fragments = [box for box in fragments if is_promising(judge, best, box.counts)]
    left = max((-bound for bound, _, _ in heap), default=-np.inf)
    return Found(fragments, float(max(best.score[0], unknown, left)), n_boxes)


class Confirmed(NamedTuple):
    """The best cells that the models confirm; none if no part of the plane is explored in all folds."""

    cells: list[Cell]
    upper_bound: float
    n_boxes: int
    refuted: Words  # keys of predictions that no models make

    @property
    def best_score(self) -> float:
        """The score of the cells."""
        return self.cells[0].score

    @property
    def certified(self) -> bool:
        """Whether no costs can have a higher score."""
        return self.upper_bound <= self.best_score


def find_best(plane: Plane, deadline: float, bar: Any) -> Confirmed:
    """Search for the best cells until the models confirm some. What they do not is left out of the next search."""
    refuted, n_boxes = np.empty(0, dtype=np.uint64), 0
    while True:
        best = fresh_best(refuted=refuted)
        found = search(plane, best, deadline, bar)
        n_boxes += found.n_boxes
        candidates = make_cells(plane, found.fragments)
        cells = _confirmed(plane, candidates)
        if not cells and candidates and time.monotonic() > deadline:
            cells = [_corrected(plane, candidates[0])]
        if cells:
            top = cells[0].score
            bound = found.upper_bound if found.upper_bound > top + EQUAL else top
            return Confirmed(cells, bound, n_boxes, refuted)
        if not candidates and best.score[0] == -np.inf:
            return Confirmed([], found.upper_bound, n_boxes, refuted)
        keys = [cell.key for cell in candidates] or best.key.tolist()
        refuted = np.concatenate([refuted, np.array(keys, dtype=np.uint64)])


def _confirmed(plane: Plane, cells: list[Cell]) -> list[Cell]:
    """Cells that the models confirm: the first of them, and others that rounding or jitter may have made."""
    confirmed: list[Cell] = []
    for cell in cells:
        if (confirmed and not cell.is_narrow) or plane.confirms(cell):
            confirmed.append(cell)
    return confirmed


def _corrected(plane: Plane, cell: Cell) -> Cell:
    """A cell with the scores of the models at its center."""
    scores = plane.fold_scores(plane.model_counts(*cell.center)[None])[0]
    return replace(cell, score=float(scores.mean()), fold_scores=scores)


def make_cells(plane: Plane, fragments: list[Box]) -> list[Cell]:
    """Cells from fragments, the largest first."""
    parts = join(fragments)
    window = make_window(parts, plane.bounds)
    natural = make_region(plane.bounds, 0).axis >= 0
    cells = [_make_cell(plane, part, window, natural) for part in parts]
    return sorted(cells, key=lambda cell: (-cell.area, cell.polygon[0].tolist()))


def _make_cell(plane: Plane, part: Parts, window: Window, natural: npt.NDArray[np.bool_]) -> Cell:
    pieces = [box.corners for box in part.boxes]
    scores = plane.fold_scores(part.boxes[0].counts[None])[0]
    unbounded = any(np.any(piece[:, 2] == 0) for piece in pieces)
    at_edge = any(not natural[side] for side in part.sides)
    return Cell(
        part.rings[0], part.rings[1:], pieces, float(scores.mean()), scores, area_within(pieces, window), unbounded, at_edge,
        int(part.boxes[0].key[0]), window,
    )  # fmt: skip


def _deadline(time_budget: Any) -> float:
    if time_budget is None:
        return np.inf
    if not time_budget > 0:
        raise ValueError(f"time_budget must be a positive number of seconds, got {time_budget}")
    return time.monotonic() + float(time_budget)


def _check_rule(rule: Any) -> None:
    if not (callable(rule) or (isinstance(rule, str) and rule in ("best", "one_se"))):
        raise ValueError(f"rule must be 'best', 'one_se' or a function of a list of cells, got {rule!r}")


def _show(bar: Any, text: str) -> None:
    if bar is not None:
        bar.set_postfix_str(text, refresh=False)
        bar.update(1)
