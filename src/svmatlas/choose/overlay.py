"""The zero curves of the held-out rows of all folds, laid over each other.

Each fold's training rows give a map (survey.py), its held-out rows zero curves in it (curves.py). The curves of all folds
divide the plane into cells (arrangement.py). Where a walk through the cells starts, the predictions are those of models.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.atlas.explore import count_jobs, first_state
from svmatlas.atlas.survey import Surveyor, outside
from svmatlas.choose.arrangement import EQUAL, Box, Judge
from svmatlas.choose.cells import Cell
from svmatlas.choose.corners import Corner, Solver
from svmatlas.choose.curves import ZERO, Collector, Curves, Tile
from svmatlas.choose.folds import Folds, check_scorable
from svmatlas.choose.scoring import Score, make_table, roc_auc
from svmatlas.data.features import decision_values
from svmatlas.data.problem import Bounds, Problem, make_problem, make_region
from svmatlas.models.svc import make_classifier, solve_at
from svmatlas.support.progress import show
from svmatlas.support.stopping import Limit, Stopped

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]

SEATS = 16
"""Costs at which a walk may start."""

CLEAR = 1e-6
"""Least decision value of held-out rows where a walk starts: curves are then further off than their errors."""

PAIRS = 200_000
"""Pairs of held-out rows of a fold that are looked at for the area under the ROC curve: some 20 MB a column."""

GRACE = 1.0
"""Seconds for the models of one pair of costs, also when the time is over."""

FOLDS_SHARE = 0.9
"""Share of a budget of time for the maps of the folds; the rest is for the search."""


def with_grace(limit: Limit) -> Limit:
    """A limit for what must still be done, also after the time is over or Ctrl-C was pressed."""
    return limit if limit.left > GRACE else Limit(GRACE)


class Holdout(NamedTuple):
    """The training rows of a fold as a problem, and its held-out rows."""

    problem: Problem
    X: Any
    rows: Floats  # X in the coordinates of the problem
    positive: npt.NDArray[np.bool_]

    def decide(self, C_pos: float, C_neg: float, limit: Limit) -> Floats:
        """Decision values of the model with these costs.

        Of a linear model they are made of its weights in the problem's coordinates: wide data have fewer of these.
        """
        solution = solve_at(self.problem, C_pos, C_neg, limit)
        if self.problem.features.linear:
            return decision_values(self.rows, solution.beta[0], 0.0)
        return make_classifier(self.problem, solution, C_pos, C_neg).decision_function(self.X)

    def counts(self, C_pos: float, C_neg: float, limit: Limit) -> tuple[int, int]:
        """True positives and true negatives of the model with these costs."""
        positive = self.decide(C_pos, C_neg, limit) > 0
        return int(np.sum(positive & self.positive)), int(np.sum(~positive & ~self.positive))


class Overlay(NamedTuple):
    """All curves of all folds, how predictions become scores, and the folds to ask models of."""

    box: Box  # all that is laid over each other
    judge: Judge
    bounds: Bounds  # of that
    region: Bounds  # that is searched
    n_curves: int
    holdouts: list[Holdout]

    def fold_scores(self, counts: npt.NDArray[np.int64]) -> Floats:
        """Scores (n, K) of counts (n, 2, K)."""
        judge = self.judge
        scores: Floats = judge.table[judge.table_at + counts[:, 0] * (judge.fold_neg + 1) + counts[:, 1]]
        return scores

    def model_counts(self, C_pos: float, C_neg: float, limit: Limit) -> npt.NDArray[np.int64]:
        """True positives and true negatives (2, K) of the models with these costs: each fold is fitted."""
        return np.array([holdout.counts(C_pos, C_neg, limit) for holdout in self.holdouts], dtype=np.int64).T

    def model_values(self, C_pos: float, C_neg: float, limit: Limit) -> list[Floats]:
        """Decision values of the held-out rows of each fold, of the models with these costs."""
        return [holdout.decide(C_pos, C_neg, limit) for holdout in self.holdouts]

    def model_scores(self, cell: Cell, limit: Limit) -> Floats:
        """Scores (K,) of the models at the center of a cell."""
        scores: Floats = self.fold_scores(self.model_counts(*cell.center, limit)[None])[0]
        return scores

    def confirms(self, cell: Cell, limit: Limit) -> bool:
        """Whether the models at the center of a cell have the scores that the curves claim."""
        return bool(np.allclose(self.model_scores(cell, limit), cell.fold_scores, rtol=0.0, atol=EQUAL))


# ----------------------------------------------------------------------------------------------------------------------
# Fold by fold


class FoldMap(NamedTuple):
    """A fold in work."""

    holdout: Holdout
    first: Ints  # (n,) a held-out row for each distinct one
    counts: npt.NDArray[np.int32]  # (2, n + 1) positive and negative rows that are equal to it; the last is what is unexplored
    surveyor: Surveyor
    collector: Collector
    near: tuple[Solver, Corner] | None = None  # a solution nearby, for what is looked at one box at a time
    n_tied: int = 0  # of pairs: how many are of equal rows

    def decide(self, C_pos: float, C_neg: float, limit: Limit) -> Floats:
        """Decision values (n + 1,) of the model at some costs; of the unexplored part 1 if they lie in it, and else -1."""
        tiles = (tile.bounds for tile in self.collector.tiles)
        if not any(a <= C_pos < b and c <= C_neg < d for (a, b), (c, d) in tiles):
            return np.append(-np.ones(self.first.size), 1.0)
        if self.near is not None:
            solver, corner = self.near
            return np.append(solver.solve((C_pos, C_neg), limit, corner, events=0).value, -1.0)
        values = self.holdout.decide(C_pos, C_neg, limit)[self.first]
        values = np.where(np.abs(values) <= ZERO * max(1.0, np.abs(values).max(initial=0.0)), 0.0, values)
        return np.append(values, -1.0)

    def explore(self, box: Bounds, limit: Limit) -> list[Tile]:
        """The curves in a box, tile by tile. Stopped if there is no time for all of it."""
        waiting, tiles = [(box, 0)], []
        while waiting:
            limit.check()
            part, depth = waiting.pop()
            facets = self.surveyor.explore(part, depth, limit=limit)
            if isinstance(facets, list):
                waiting += [(smaller, depth + 1) for smaller in facets]
                continue
            tile = self.collector.visit(part, facets)
            if tile is None:
                raise Stopped
            self.surveyor.remember(part, facets)
            tiles.append(tile)
        return tiles


def make_overlay(
    folds: Folds, score: Score, model: dict[str, Any], bounds: Bounds, n_jobs: int | None, limit: Limit, bar: Any
) -> Overlay:
    """Maps of all folds, one after the other, and the zero curves of their held-out rows. ``model``: see make_problem.

    If time is limited a small box of costs, the same for all folds, is explored first: so there are costs that all know.
    """
    check_scorable(folds, score)
    n_folds = len(folds.splits)
    made: Iterable[FoldMap] = (make_fold(folds, k, score, model, bounds, limit) for k in range(n_folds))
    looks: list[Tile | None] = [None] * n_folds
    if limit.finite:
        made = kept = list(made)
        looks = [_look(fold, kept[0].surveyor.small_box(), limit) for fold in kept]
    done, curves = [], []
    for k, (fold, look) in enumerate(zip(made, looks, strict=True)):
        show(bar, f"fold {k + 1} of {n_folds}")
        curves.append(_follow_curves(fold, look, n_jobs, limit.within(FOLDS_SHARE * limit.left / (n_folds - k))))
        done.append(fold)
    return _assemble(bounds, bounds, make_judge(score, done), done, curves, limit)


def overlay_of(
    bounds: Bounds, region: Bounds, judge: Judge, folds: list[FoldMap], tiles: list[list[Tile]], undone: list[Bounds],
    limit: Limit,
) -> Overlay:  # fmt: skip
    """The overlay of tiles (of each fold) in a part of a region; ``undone`` are boxes of it that no fold has explored."""
    parts = [fold._replace(collector=fold.collector.within(bounds, some)) for fold, some in zip(folds, tiles, strict=True)]
    return _assemble(bounds, region, judge, parts, [part.collector.finish(undone) for part in parts], limit)


def make_fold(folds: Folds, k: int, score: Score, model: dict[str, Any], bounds: Bounds, limit: Limit) -> FoldMap:
    """The problem of the training rows of a fold, and its held-out rows, or their pairs if the score is of these."""
    limit.check()
    train, test = folds.splits[k]
    positive = folds.positive[test]
    X_train, X_test = folds.rows(k, model["kernel"] == "precomputed")
    problem = make_problem(X_train, folds.positive[train].astype(int), sample_weight=folds.weight[train], **model)
    holdout, n_tied = Holdout(problem, X_test, problem.features.coordinates(X_test), positive), 0
    if score is roc_auc:
        holdout, n_tied = _pairs_of(holdout)
        positive = holdout.positive
    rows, first, which = np.unique(holdout.rows, axis=0, return_index=True, return_inverse=True)
    counts = np.zeros((2, len(rows) + 1), dtype=np.int32)
    np.add.at(counts, (np.where(positive, 0, 1), which.ravel()), 1)
    counts[1, -1] = np.sum(~positive)
    surveyor, collector = Surveyor(problem, bounds, betas=True), Collector(problem, bounds, rows)
    return FoldMap(holdout, first, counts, surveyor, collector, n_tied=n_tied)


def _pairs_of(holdout: Holdout) -> tuple[Holdout, int]:
    """The differences of positive and negative rows as rows, all positive; and the number of pairs that are equal."""
    if not holdout.problem.features.linear:
        raise ValueError("scoring='roc_auc' is for the linear kernel")
    rows, positive = holdout.rows, holdout.positive
    n_pairs = int(positive.sum()) * int((~positive).sum())
    if n_pairs > PAIRS:
        raise ValueError(f"scoring='roc_auc' looks at pairs of held-out rows: {n_pairs:,} in a fold are more than {PAIRS:,}")
    pairs = (rows[positive][:, None] - rows[~positive][None]).reshape(n_pairs, rows.shape[1])
    apart = np.any(pairs != 0.0, axis=1)
    return Holdout(holdout.problem, None, pairs[apart], np.ones(int(apart.sum()), dtype=bool)), int(np.sum(~apart))


def _look(fold: FoldMap, box: Bounds, limit: Limit) -> Tile:
    """The curves in a small box of costs."""
    facets = fold.surveyor.explore(box, limit=limit)
    tile = None if isinstance(facets, list) else fold.collector.visit(box, facets)
    if tile is None:
        raise Stopped
    return tile


def _follow_curves(fold: FoldMap, look: Tile | None, n_jobs: int | None, limit: Limit) -> Curves:
    """The zero curves of the held-out rows of a fold in the map of its training rows."""
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


# ----------------------------------------------------------------------------------------------------------------------
# All folds together


def _choose_seat(polygon: Floats, folds: list[FoldMap], limit: Limit) -> tuple[Floats, list[Floats]]:
    """An inner point of the region that is clear of all curves, and the decision values there, fold by fold.

    Random points are tried; if none is clear, it is the one furthest from all curves.
    """
    random = np.random.default_rng(0)
    best, furthest = None, -np.inf
    for weights in random.uniform(0.5, 1.5, size=(SEATS, len(polygon))):
        seat = weights @ polygon
        seat /= seat[2]
        values = [fold.decide(seat[0], seat[1], limit) for fold in folds]
        sizes = np.abs(np.concatenate(values))
        distance = sizes[sizes > 0].min()
        if distance > furthest:
            best, furthest = (seat, values), distance
        if distance > CLEAR:
            break
    assert best is not None
    return best


def make_judge(score: Score, folds: list[FoldMap]) -> Judge:
    """The points of all folds, numbered one after the other, and the scores of their predictions."""
    sizes = [fold.counts.shape[1] for fold in folds]
    number = np.repeat(np.arange(len(folds), dtype=np.int32), sizes)
    n_pos, n_neg = np.concatenate([fold.counts for fold in folds], axis=1)
    totals = [(int(np.sum(fold.holdout.positive)), int(np.sum(~fold.holdout.positive))) for fold in folds]
    tables = [make_table(score, *total) for total in totals]
    if score is roc_auc:  # a pair of equal rows is half right
        tables = [
            (np.arange(n + 1.0) + fold.n_tied / 2) / (n + fold.n_tied) for (n, _), fold in zip(totals, folds, strict=True)
        ]
    fold_pos, fold_neg = np.array(totals, dtype=np.int64).T
    return Judge(
        number, n_pos, n_neg, np.concatenate([table.ravel() for table in tables]),
        np.cumsum([0, *(table.size for table in tables)])[:-1].astype(np.int64), np.ascontiguousarray(fold_pos),
        np.ascontiguousarray(fold_neg), np.cumsum(sizes).astype(np.int64) - 1,
        np.random.default_rng(0).integers(1, 2**64, size=number.size, dtype=np.uint64),
    )  # fmt: skip


def _assemble(
    bounds: Bounds, region: Bounds, judge: Judge, folds: list[FoldMap], curves: list[Curves], limit: Limit
) -> Overlay:
    """Number the points and lines of all folds, and start at a seat that is clear of all curves."""
    polygon = make_region(bounds, 0).corners
    seat, values = _choose_seat(polygon, folds, limit.at_least(GRACE))
    positive = np.concatenate(values) > 0
    counts = np.zeros((2, len(folds)), dtype=np.int64)
    np.add.at(counts[0], judge.fold, np.where(positive, judge.n_pos, 0))
    np.add.at(counts[1], judge.fold, np.where(positive, 0, judge.n_neg))
    counts[1] -= judge.n_neg[judge.unknown]
    first_point = np.cumsum([0, *(fold.counts.shape[1] for fold in folds)])
    first_line = np.cumsum([0, *(c.line.max(initial=-1) + 1 for c in curves)])
    owner = np.concatenate([c.point + first_point[k] for k, c in enumerate(curves)]).astype(np.int32)
    box = Box(
        corners=polygon,
        names=np.arange(len(polygon), dtype=np.uint64),
        codes=-1 - np.roll(np.arange(len(polygon), dtype=np.int64), -1),
        pieces=np.concatenate([np.hstack([c.begin, c.end]) for c in curves]),
        points=owner,
        lines=np.concatenate([c.line + first_line[k] for k, c in enumerate(curves)]),
        seat=seat,
        positive=positive,
        counts=counts,
        key=np.zeros(1, dtype=np.uint64),
    )
    n_curves = int(np.setdiff1d(owner, judge.unknown).size)
    return Overlay(box, judge, bounds, region, n_curves, [fold.holdout for fold in folds])
