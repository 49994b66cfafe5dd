"""The exact best costs: the highest score on held-out rows over all pairs of costs, with proof, and all cells that reach it.

Each fold's training rows give a map (explore.py), its held-out rows zero curves in it (curves.py). The curves of all folds
are laid over each other and the cells between them searched by branch and bound (arrangement.py); what is best is put together
to cells (cells.py).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import StratifiedShuffleSplit, check_cv
from sklearn.utils import check_array, check_consistent_length, column_or_1d, indexable

from svmatlas.arrangement import EQUAL, Best, Box, Judge, bound_of, counts_at, fragments_of, halve, is_promising
from svmatlas.cells import Cell, Parts, Window, area_within, join, make_window
from svmatlas.curves import Collector, Curves, Tile, inner_rows
from svmatlas.explore import count_jobs, first_state
from svmatlas.problem import Bounds, check_bounds, check_rows, make_problem, make_region
from svmatlas.progress import make_bar
from svmatlas.scoring import ONE_CLASS_ALLOWED, Score, get_score, make_table
from svmatlas.stopping import Limit, Stopped, check_budget, stoppable
from svmatlas.survey import Surveyor, outside

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Rule = str | Callable[[list[Cell]], int]

SMALL = 2000
"""Boxes with no more pieces of curves than this are searched at once, in compiled code: some milliseconds."""

FOLDS_SHARE = 0.9
"""Share of the time that is left in which the maps of the folds are explored; in the rest the cells are searched."""

SEATS = 16
"""Costs at which predictions are computed; the one furthest from all curves is where the search starts."""


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
        Whether the bound is the best score. It is, unless ``time_budget`` ran out or Ctrl-C was pressed.
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


class Plane(NamedTuple):
    """All curves of all folds, and how predictions become scores."""

    box: Box  # the whole region
    judge: Judge
    bounds: Bounds
    n_curves: int

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
        Stop after about this many seconds. The result is then the best so far, with a bound that still holds. ValueError if
        not even the score of one pair of costs is known by then.
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
    check_budget(time_budget)
    _check_rule(rule)
    with stoppable(time_budget) as limit, make_bar(" steps") if progress else nullcontext() as bar:
        folds = make_folds(X, y, cv, sample_weight, groups, random_state)
        kind = {"kernel": kernel, "gamma": gamma, "degree": degree, "coef0": coef0}
        model = {"bias": bias, "random_state": random_state, **kind}
        plane = make_plane(folds, get_score(scoring), model, check_bounds(region), n_jobs, limit, bar)
        best = fresh_best()
        found = search(plane, best, limit, bar)
        n_boxes, fragments = found.n_boxes, found.fragments
        if rule == "one_se" and not limit.expired:
            best.score[1] = best.score[0] - _standard_error(plane, fragments)
            more = search(plane, best, limit, bar)
            n_boxes, fragments = n_boxes + more.n_boxes, fragments if limit.expired else more.fragments
        cells = make_cells(plane, fragments)
        limit.answered = True
    cell = cells[_choose(rule, cells)]
    top = max(c.score for c in cells)
    certified = bool(found.upper_bound <= top + EQUAL)
    return Selection(
        top, *cell.center, cell.fold_scores, cell, cells, top if certified else found.upper_bound, certified, plane.n_curves,
        n_boxes, folds.classes, plane,
    )  # fmt: skip


def _choose(rule: Rule, cells: list[Cell]) -> int:
    """Index of the cell to recommend."""
    if rule == "best":
        return 0
    if rule == "one_se":
        return min(range(len(cells)), key=lambda k: sum(cells[k].center))
    index = rule(cells)  # type: ignore[operator]
    if not (isinstance(index, int | np.integer) and 0 <= index < len(cells)):
        raise ValueError(f"rule must return an index of one of the {len(cells)} cells, got {index!r}")
    return int(index)


def _standard_error(plane: Plane, fragments: list[Box]) -> float:
    """Standard error of the mean over folds, the least of the best cells."""
    scores = plane.fold_scores(np.array([box.counts for box in fragments]))
    n = scores.shape[1]
    return float(np.min(scores.std(axis=1, ddof=1)) / np.sqrt(n)) if n > 1 else 0.0


# ----------------------------------------------------------------------------------------------------------------------
# Folds


class Folds(NamedTuple):
    """Checked data and the rows of each fold."""

    X: Any
    positive: npt.NDArray[np.bool_]
    weight: Floats | None
    splits: list[tuple[Ints, Ints]]
    classes: npt.NDArray[Any]


def make_folds(X: Any, y: Any, cv: Any, sample_weight: Any, groups: Any, random_state: Any) -> Folds:
    """Check the user's data and split them; ValueError with a clear text for anything wrong."""
    X = check_rows(X)
    y = column_or_1d(y)
    check_consistent_length(X, y)
    if y.dtype.kind == "f" and not np.all(np.isfinite(y)):
        raise ValueError("y contains NaN or infinity")
    classes, index = np.unique(y, return_inverse=True)
    if classes.size != 2:
        raise ValueError(f"y must hold exactly two classes, got {classes.size}: {classes[:5].tolist()}")
    weight = None
    if sample_weight is not None:
        weight = check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
        if weight.shape != y.shape:
            raise ValueError(f"sample_weight must have shape {y.shape}, got {weight.shape}")
    splits = _split(X, y, cv, groups, random_state)
    for k, (train, test) in enumerate(splits):
        if test.size == 0:
            raise ValueError(f"fold {k} has no held-out rows")
        if np.unique(index[train]).size < 2:
            raise ValueError(f"the training rows of fold {k} hold one class only: use fewer or stratified folds")
    return Folds(X, index == 1, weight, splits, classes)


def _split(X: Any, y: npt.NDArray[Any], cv: Any, groups: Any, random_state: Any) -> list[tuple[Ints, Ints]]:
    if isinstance(cv, float | np.floating):
        if not 0 < cv < 1:
            raise ValueError(f"cv as a share of rows must lie between 0 and 1, got {cv}")
        cv = StratifiedShuffleSplit(1, test_size=float(cv), random_state=random_state)
    splitter = check_cv(cv, y, classifier=True)
    X, y, groups = indexable(X, y, groups)
    rows = np.arange(len(y))
    splits = [(rows[train], rows[test]) for train, test in splitter.split(X, y, groups)]
    if not splits:
        raise ValueError("cv gives no folds")
    return splits


# ----------------------------------------------------------------------------------------------------------------------
# The plane


class _Fold(NamedTuple):
    """A fold in work."""

    surveyor: Surveyor
    collector: Collector
    counts: npt.NDArray[np.int32]  # (2, n + 1) positive and negative rows of each point; the last is the unexplored part


def make_plane(
    folds: Folds, score: Score, model: dict[str, Any], bounds: Bounds, n_jobs: int | None, limit: Limit, bar: Any
) -> Plane:
    """Maps of all folds, one after the other, and the zero curves of their held-out rows. ``model``: see make_problem.

    If time is limited a small box of costs, the same for all folds, is explored first: so there are costs that all know.
    """
    polygon = make_region(bounds, 0).corners
    seats = _seats(polygon)
    y = folds.positive.astype(int)
    tables = [make_table(score, int(y[test].sum()), int(test.size - y[test].sum())) for _, test in _checked(folds, score)]
    made: Iterable[_Fold] = (_make_fold(folds, k, model, bounds, seats, limit) for k in range(len(folds.splits)))
    looks: list[Tile | None] = [None] * len(folds.splits)
    if limit.finite:
        made = kept = list(made)
        looks = [_look(fold, kept[0].surveyor.small_box(), limit) for fold in kept]
    curves, signs, margins, points = [], [], [], []
    for k, (fold, look) in enumerate(zip(made, looks, strict=True)):
        _show(bar, f"fold {k + 1} of {len(folds.splits)}")
        part = limit.within(FOLDS_SHARE * limit.left / (len(folds.splits) - k))
        found, positive, margin = _follow_curves(fold, look, n_jobs, part)
        curves.append(found)
        signs.append(positive)
        margins.append(margin)
        points.append(fold.counts)
    return _assemble(polygon, bounds, folds, tables, curves, signs, np.min(margins, axis=0), points, seats)


def _make_fold(folds: Folds, k: int, model: dict[str, Any], bounds: Bounds, seats: Floats, limit: Limit) -> _Fold:
    """The problem of the training rows of a fold, and its held-out rows."""
    limit.check()
    train, test = folds.splits[k]
    y = folds.positive.astype(int)
    weight = None if folds.weight is None else folds.weight[train]
    given = model["kernel"] == "precomputed"
    X_train, X_test = (folds.X[part][:, train] if given else folds.X[part] for part in (train, test))
    problem = make_problem(X_train, y[train], sample_weight=weight, **model)
    rows, which = np.unique(inner_rows(problem, X_test), axis=0, return_inverse=True)
    counts = np.zeros((2, len(rows) + 1), dtype=np.int32)
    np.add.at(counts, (1 - y[test], which.ravel()), 1)
    counts[1, -1] = np.sum(y[test] == 0)
    return _Fold(Surveyor(problem, bounds, betas=True), Collector(problem, bounds, rows, seats), counts)


def _look(fold: _Fold, box: Bounds, limit: Limit) -> Tile:
    """The curves in a small box of costs."""
    facets = fold.surveyor.explore(box, limit=limit)
    tile = None if isinstance(facets, list) else fold.collector.visit(box, facets)
    if tile is None:
        raise Stopped
    return tile


def _follow_curves(
    fold: _Fold, look: Tile | None, n_jobs: int | None, limit: Limit
) -> tuple[Curves, npt.NDArray[np.bool_], Floats]:
    """The zero curves of the held-out rows of a fold, and the signs at the seats."""
    surveyor, collector, bounds = fold.surveyor, fold.collector, fold.surveyor.bounds
    undone = [bounds]
    with suppress(Stopped):
        state, start = first_state(surveyor.problem, bounds, None, limit), (bounds[0][0], bounds[1][0])
        for tile in surveyor.survey(state, start, count_jobs(n_jobs), np.inf, limit, collector.visit):
            if tile is not None:
                collector.tiles.append(tile)
        undone = surveyor.undone
    if look is not None and all(outside(tile.bounds, look.bounds) == [tile.bounds] for tile in collector.tiles):
        collector.tiles.append(look)
        undone = [part for tile in undone for part in outside(tile, look.bounds)]
    if not collector.tiles:
        raise Stopped
    return collector.finish(undone)


def _checked(folds: Folds, score: Score) -> list[tuple[Ints, Ints]]:
    """The splits, if the score can be computed on all of them."""
    for k, (_, test) in enumerate(folds.splits):
        if score not in ONE_CLASS_ALLOWED and np.unique(folds.positive[test]).size < 2:
            raise ValueError(f"the held-out rows of fold {k} hold one class only: use fewer or stratified folds")
    return folds.splits


def _seats(polygon: Floats) -> Floats:
    """Inner points of the region, at random."""
    random = np.random.default_rng(0)
    seats: Floats = random.uniform(0.5, 1.5, size=(SEATS, len(polygon))) @ polygon
    return seats / seats[:, 2:]


def _assemble(
    polygon: Floats, bounds: Bounds, folds: Folds, tables: list[Floats], curves: list[Curves],
    signs: list[npt.NDArray[np.bool_]], margin: Floats, points: list[npt.NDArray[np.int32]], seats: Floats,
) -> Plane:  # fmt: skip
    """Number the points of all folds, and start at the seat that is furthest from all curves."""
    seat = int(np.argmax(margin))
    sizes = [counts.shape[1] for counts in points]
    first = np.concatenate([[0], np.cumsum(sizes)])
    n_pos, n_neg = np.concatenate(points, axis=1)
    fold = np.repeat(np.arange(len(points), dtype=np.int32), sizes)
    fold_pos = np.array([np.sum(folds.positive[test]) for _, test in folds.splits], dtype=np.int64)
    fold_neg = np.array([test.size for _, test in folds.splits], dtype=np.int64) - fold_pos
    judge = Judge(
        fold, n_pos, n_neg, np.concatenate([table.ravel() for table in tables]),
        np.concatenate([[0], np.cumsum([table.size for table in tables])])[:-1].astype(np.int64), fold_pos, fold_neg,
        first[1:].astype(np.int64) - 1, np.random.default_rng(0).integers(1, 2**64, size=fold.size, dtype=np.uint64),
    )  # fmt: skip
    positive = np.concatenate([sign[seat] for sign in signs])
    counts = np.zeros((2, len(points)), dtype=np.int64)
    np.add.at(counts[0], fold, np.where(positive, n_pos, 0))
    np.add.at(counts[1], fold, np.where(positive, 0, n_neg))
    counts[1] -= n_neg[judge.unknown]
    pieces = np.concatenate([np.hstack([c.begin, c.end]) for c in curves])
    owner = np.concatenate([c.point + first[k] for k, c in enumerate(curves)]).astype(np.int32)
    codes = -1 - np.roll(np.arange(len(polygon), dtype=np.int64), -1)
    box = Box(polygon, codes, pieces, owner, seats[seat], positive, counts, np.zeros(1, dtype=np.uint64))
    n_curves = int(np.setdiff1d(owner, judge.unknown).size)
    return Plane(box, judge, bounds, n_curves)


# ----------------------------------------------------------------------------------------------------------------------
# The search


class Found(NamedTuple):
    """What a search found."""

    fragments: list[Box]
    upper_bound: float
    n_boxes: int


def fresh_best(n_front: int = 0) -> Best:
    """Nothing has been reached."""
    score = np.array([-np.inf, np.inf])
    return Best(
        score, np.full(n_front, -1, dtype=np.int64), np.array([88172645463325252], dtype=np.uint64), np.zeros(1, np.int64)
    )


def search(plane: Plane, best: Best, limit: Limit, bar: Any) -> Found:
    """All fragments of cells that are as good as the best: large boxes are halved, the one with the highest bound first.

    Of equal bounds the one with the better known score comes first, so that something good is known soon. Stopped if nothing
    is known of any costs.
    """
    judge = plane.judge
    heap = [(-np.inf, 0.0, 0, plane.box)]
    fragments: list[Box] = []
    n_boxes, unknown, ticket = 0, -np.inf, 0
    while heap and not (limit.expired and fragments):
        bound, _, _, box = heapq.heappop(heap)
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
                known = float(plane.fold_scores(child.counts[None]).mean())
                heapq.heappush(heap, (-bound_of(judge, child)[1], -known, ticket, child))
        _show(bar, f"best {best.score[0]:.4f}, bound {-bound:.4f}")
    fragments = [box for box in fragments if is_promising(judge, best, box.counts)]
    if not fragments:
        raise Stopped
    left = max((-bound for bound, _, _, _ in heap), default=-np.inf)
    return Found(fragments, float(max(best.score[0], unknown, left)), n_boxes)


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
        window,
    )  # fmt: skip


def _check_rule(rule: Any) -> None:
    if not (callable(rule) or (isinstance(rule, str) and rule in ("best", "one_se"))):
        raise ValueError(f"rule must be 'best', 'one_se' or a function of a list of cells, got {rule!r}")


def _show(bar: Any, text: str) -> None:
    if bar is not None:
        bar.set_postfix_str(text, refresh=False)
        bar.update(1)
