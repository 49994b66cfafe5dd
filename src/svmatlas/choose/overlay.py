"""The zero curves of the held-out rows of all folds, laid over each other.

Each fold's training rows give a map (survey.py), its held-out rows zero curves in it (curves.py). The curves of all folds
divide the plane into cells (arrangement.py). Where a walk through the cells starts, the predictions are those of models.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.atlas.explore import first_state
from svmatlas.atlas.jobs import survey_elsewhere
from svmatlas.atlas.survey import Surveyor
from svmatlas.choose.arrangement import Box
from svmatlas.choose.cells import Cell
from svmatlas.choose.corners import Corner, Solver
from svmatlas.choose.curves import ZERO, Collector, Curves, Tile
from svmatlas.choose.division import outside
from svmatlas.choose.folds import Folds, check_scorable
from svmatlas.choose.judge import EQUAL, Judge, fold_scores
from svmatlas.choose.scoring import Amounts, RowGains, Score, average_precision, make_table, roc_auc
from svmatlas.data.features import decision_values
from svmatlas.data.problem import Bounds, Problem, make_problem, make_region
from svmatlas.engine.tile import Facets
from svmatlas.models.svc import fit_at, make_classifier, solve_at
from svmatlas.store.tiles import Tile as CostTile
from svmatlas.support.progress import show
from svmatlas.support.stopping import Limit, Stopped
from svmatlas.support.threads import count_workers, limit_blas, uses_threads

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Counts = npt.NDArray[np.int64]

SEATS = 16
"""Costs at which a walk may start."""

CLEAR = 1e-6
"""Least decision value of held-out rows where a walk starts: curves are then further off than their errors."""

PAIRS = 200_000
"""Pairs of held-out rows of a fold that are looked at for scores of rankings: some 20 MB a column."""

GRACE = 1.0
"""Seconds for the models of one pair of costs, also when the time is over."""

MAPS_SHARE = 0.9
"""Share of the work, as it is shown, that is done when the maps of all folds are there."""

FOLDS_SHARE = 0.9
"""Share of a budget of time for the maps of the folds; the rest is for the search."""


def with_grace(limit: Limit) -> Limit:
    """A limit for what must still be done, also after the time is over or Ctrl-C was pressed."""
    return limit if limit.left > GRACE else Limit(GRACE)


class Holdout(NamedTuple):
    """The training rows of a fold as a problem, and its held-out rows."""

    problem: Problem
    X: Any
    rows: Floats  # X in the coordinates of the problem, or the differences of pairs
    amounts: Counts  # (2, n) what a row counts if it is predicted positive, and negative
    group: Counts  # (n,) the group in which it counts
    group_size: Counts  # (groups,) equal positive rows behind a group of pairs, else 1
    n_negative: int = 0  # negative rows behind groups of pairs

    def decide(self, C_pos: float, C_neg: float, limit: Limit) -> Floats:
        """Decision values of the model with these costs.

        Of a linear model they are made of its weights in the problem's coordinates: wide data have fewer of these.
        """
        try:
            solution = solve_at(self.problem, C_pos, C_neg, limit)
        except Stopped:  # on tied tables a walk may take long
            fit = fit_at(self.problem, self.problem.homogeneous(np.array([C_pos]), np.array([C_neg]))[0], Limit(GRACE))
            if fit is None or not self.problem.features.linear:
                raise
            return decision_values(self.rows, fit.coef, 0.0)
        if self.problem.features.linear:
            return decision_values(self.rows, solution.beta[0], 0.0)
        return make_classifier(self.problem, solution, C_pos, C_neg).decision_function(self.X)

    def counts(self, C_pos: float, C_neg: float, limit: Limit) -> Counts:
        """What is right (2, groups) of the model with these costs."""
        positive = self.decide(C_pos, C_neg, limit) > 0
        return self.tally(positive, ~positive)

    def tally(self, positive: npt.NDArray[np.bool_], negative: npt.NDArray[np.bool_]) -> Counts:
        """What rows with these predictions count, by group: (2, groups)."""
        counts = np.zeros((2, self.group_size.size), dtype=np.int64)
        for k, some in enumerate((positive, negative)):
            np.add.at(counts[k], self.group[some], self.amounts[k, some])
        return counts

    @property
    def total(self) -> Counts:
        """What all rows count, by group: (2, groups)."""
        everything = np.ones(len(self.group), dtype=bool)
        return self.tally(everything, everything)


class Overlay(NamedTuple):
    """All curves of all folds, how predictions become scores, and the folds to ask models of."""

    box: Box  # all that is laid over each other
    judge: Judge
    bounds: Bounds  # of that
    region: Bounds  # that is searched
    n_curves: int
    holdouts: list[Holdout]

    def fold_scores(self, counts: npt.NDArray[np.int64]) -> Floats:
        """Scores (n, K) of counts (n, 2, G)."""
        scores: Floats = fold_scores(self.judge, counts, False)
        return scores

    def model_counts(self, C_pos: float, C_neg: float, limit: Limit) -> npt.NDArray[np.int64]:
        """What is right (2, G) of the models with these costs: each fold is fitted."""
        return np.concatenate([holdout.counts(C_pos, C_neg, limit) for holdout in self.holdouts], axis=1)

    def model_values(self, C_pos: float, C_neg: float, limit: Limit) -> list[Floats]:
        """Decision values of the held-out rows of each fold, of the models with these costs."""
        return [holdout.decide(C_pos, C_neg, limit) for holdout in self.holdouts]

    def model_scores(self, cell: Cell, limit: Limit) -> Floats:
        """Scores (K,) of the models at the center of a cell."""
        scores: Floats = self.fold_scores(self.model_counts(*cell.center, limit)[None])[0]
        return scores

    def confirms(self, cell: Cell, limit: Limit) -> bool:
        """Whether the models at the center of a cell have the scores that the curves claim."""
        return bool(np.allclose(self.model_scores(cell, limit), cell.fold_scores, rtol=0.0, atol=self.judge.equal))


# ----------------------------------------------------------------------------------------------------------------------
# Fold by fold


class Sum(NamedTuple):
    """A score (wrong + unit n) / n_rows, n being what right predictions count."""

    wrong: float  # of all rows, if all predictions are wrong
    unit: float
    n_rows: int

    @classmethod
    def of(cls, gains: Amounts, rows: Ints) -> Sum:
        """The sum over some rows."""
        return cls(math.fsum(gains.wrong[rows]), gains.unit, rows.size)


class FoldMap(NamedTuple):
    """A fold in work."""

    holdout: Holdout
    first: Ints  # (n,) a held-out row for each distinct one
    counts: Counts  # (2, n + 1) what the rows that are equal to it count; the last is what is unexplored
    group: Counts  # (n + 1,) where
    surveyor: Surveyor
    collector: Collector
    near: tuple[Solver, Corner] | None = None  # a solution nearby, for what is looked at one box at a time
    n_tied: int = 0  # of pairs: how many are of equal rows
    sum: Sum | None = None  # of a score that is a sum over rows

    def decide(self, C_pos: float, C_neg: float, limit: Limit) -> Floats:
        """Decision values (n + 1,) of the model at some costs; of the unexplored part 1 if they lie in it, and else -1."""
        tiles = (tile.bounds for tile in self.collector.tiles)
        if not any(a <= C_pos < b and c <= C_neg < d for (a, b), (c, d) in tiles):
            return np.append(-np.ones(self.first.size), 1.0)
        if self.near is not None:
            solver, corner = self.near
            return np.append(solver.solve((C_pos, C_neg), limit, corner.near, events=0).value, -1.0)
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
                self.surveyor.spare = None
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
    with limit_blas():  # its threads wait in a loop between the many small products of signs
        for k, (fold, look) in enumerate(zip(made, looks, strict=True)):
            part = limit.within(FOLDS_SHARE * limit.left / (n_folds - k))
            undone = _follow_curves(fold, look, n_jobs, part, partial(_show_fold, bar, k, n_folds))
            curves.append(fold.collector.finish(undone))
            done.append(fold)
    return _assemble(bounds, bounds, make_judge(score, done), done, curves, limit)


def _show_fold(bar: Any, k: int, n_folds: int, share: float) -> None:
    """So much of the map of a fold is there."""
    show(bar, f"fold {k + 1} of {n_folds}", MAPS_SHARE * (k + share) / n_folds)


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
    rows = problem.features.coordinates(X_test)
    amounts, n_tied, total = np.array([positive, ~positive], dtype=np.int64), 0, None
    if isinstance(score, RowGains):
        gains = score.amounts(folds.positive)
        amounts, total = amounts * gains.units[test], Sum.of(gains, test)
    holdout = Holdout(problem, X_test, rows, amounts, np.zeros(len(rows), dtype=np.int64), np.ones(1, dtype=np.int64))
    if score in (roc_auc, average_precision):
        holdout, n_tied = _pairs_of(holdout, positive, score is average_precision)
    return _make_map(holdout, bounds, n_tied, total)


def _make_map(holdout: Holdout, bounds: Bounds, n_tied: int, total: Sum | None) -> FoldMap:
    """Rows of a group that are equal are one."""
    keyed = np.column_stack([holdout.group, holdout.rows])
    _, first, which = np.unique(keyed, axis=0, return_index=True, return_inverse=True)
    counts = np.zeros((2, first.size + 1), dtype=np.int64)
    for k in range(2):
        np.add.at(counts[k], which.ravel(), holdout.amounts[k])
    counts[1, -1] = 0 if holdout.n_negative else holdout.amounts[1].sum()
    group = np.append(holdout.group[first], 0)
    surveyor = Surveyor(holdout.problem, bounds, betas=True)
    if holdout.X is not None:  # on a plateau all rows have the same decision value, 1 or -1, and pairs are equal
        surveyor.leave_out_plateaus(joined=False)
    collector = Collector(holdout.problem, bounds, holdout.rows[first])
    return FoldMap(holdout, first, counts, group, surveyor, collector, n_tied=n_tied, sum=total)


def _pairs_of(holdout: Holdout, positive: npt.NDArray[np.bool_], grouped: bool) -> tuple[Holdout, int]:
    """Differences of positive and negative rows, in groups by the former if asked for; and the number of equal pairs."""
    if not holdout.problem.features.linear:
        raise ValueError("scores of rankings are for the linear kernel")
    rows, size = np.unique(holdout.rows[positive], axis=0, return_counts=True)
    n_neg = int(np.sum(~positive))
    if len(rows) * n_neg > PAIRS:
        raise ValueError(
            f"scores of rankings look at pairs of held-out rows: {len(rows) * n_neg:,} in a fold are more than {PAIRS:,}"
        )
    pairs = (rows[:, None] - holdout.rows[~positive][None]).reshape(len(rows) * n_neg, rows.shape[1])
    group, apart = np.repeat(np.arange(len(rows)), n_neg), np.any(pairs != 0.0, axis=1)
    pairs, group, n_tied = pairs[apart], group[apart], int(size[group[~apart]].sum())
    if grouped:
        return Holdout(holdout.problem, None, pairs, np.ones((2, len(pairs)), dtype=np.int64), group, size, n_neg), n_tied
    amounts = np.array([size[group], np.zeros(len(pairs), dtype=np.int64)])
    return Holdout(holdout.problem, None, pairs, amounts, np.zeros_like(group), np.ones(1, dtype=np.int64)), n_tied


def _look(fold: FoldMap, box: Bounds, limit: Limit) -> Tile:
    """The curves in a small box of costs."""
    facets = fold.surveyor.explore(box, limit=limit)
    tile = None if isinstance(facets, list) else fold.collector.visit(box, facets)
    if tile is None:
        raise Stopped
    return tile


def _follow_curves(
    fold: FoldMap, look: Tile | None, n_jobs: int | None, limit: Limit, tell: Callable[[float], None]
) -> list[Bounds]:
    """Follow the zero curves of the held-out rows of a fold in the map of its training rows; returns what is missing."""
    surveyor, collector, bounds = fold.surveyor, fold.collector, fold.surveyor.bounds
    undone = [bounds]
    with suppress(Stopped):
        state, start = first_state(surveyor.problem, bounds, None, limit), (bounds[0][0], bounds[1][0])
        found = (
            surveyor.survey(state, start, count_workers(n_jobs), np.inf, limit, collector.visit)
            if uses_threads()
            else survey_elsewhere(surveyor, n_jobs, limit, partial(_curves_of, collector))
        )
        for tile in found:
            if tile is not None:
                collector.tiles.append(tile)
            tell(surveyor.n_tiles / max(1, surveyor.n_known))
        undone = surveyor.undone
    if look is not None and all(outside(tile.bounds, look.bounds) == [tile.bounds] for tile in collector.tiles):
        collector.tiles.append(look)
        undone = [part for tile in undone for part in outside(tile, look.bounds)]
    if not collector.tiles:
        raise Stopped
    return undone


def _curves_of(collector: Collector, surveyor: Surveyor, tile: CostTile, facets: Facets) -> Tile | None:
    """The curves in a tile, by a worker elsewhere."""
    return collector.visit(tile.bounds, facets)


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
    group_at = np.cumsum([0, *(fold.holdout.group_size.size for fold in folds)]).astype(np.int64)
    group = np.concatenate([fold.group + first for fold, first in zip(folds, group_at, strict=False)])
    n_pos, n_neg = np.concatenate([fold.counts for fold in folds], axis=1)
    group_pos, group_neg = np.concatenate([fold.holdout.total for fold in folds], axis=1)
    tables, linear, largest = _scores_of(score, folds)
    return Judge(
        group, n_pos, n_neg, group_at, group_pos, group_neg, np.concatenate([fold.holdout.group_size for fold in folds]),
        np.concatenate([np.empty(0), *(table.ravel() for table in tables)]),
        np.cumsum([0, *(table.size for table in tables)])[:-1].astype(np.int64), linear,
        np.array([fold.holdout.n_negative for fold in folds], dtype=np.int64), np.cumsum(sizes).astype(np.int64) - 1,
        np.random.default_rng(0).integers(1, 2**64, size=group.size, dtype=np.uint64), EQUAL * largest,
    )  # fmt: skip


def _scores_of(score: Score, folds: list[FoldMap]) -> tuple[list[Floats], Floats, float]:
    """A table for each fold, or the numbers (K, 3) of sums, or neither for average precision; and the largest score."""
    sums = [fold.sum for fold in folds if fold.sum is not None]
    if sums:
        linear = np.array([(total.wrong, total.unit, total.n_rows) for total in sums])
        most = linear[:, 0] + linear[:, 1] * [fold.holdout.amounts.sum() for fold in folds]
        return [], linear, float(np.max(np.abs([linear[:, 0], most]) / linear[:, 2]))
    if score is average_precision:
        return [], np.empty((0, 3)), 1.0
    totals = [fold.holdout.total.sum(axis=1).tolist() for fold in folds]
    if score is roc_auc:  # a pair of equal rows is half right
        tables = [
            (np.arange(n + 1.0) + fold.n_tied / 2) / (n + fold.n_tied) for (n, _), fold in zip(totals, folds, strict=True)
        ]
    else:
        tables = [make_table(score, *total) for total in totals]
    return tables, np.empty((0, 3)), max(float(np.abs(table).max()) for table in tables)


def _assemble(
    bounds: Bounds, region: Bounds, judge: Judge, folds: list[FoldMap], curves: list[Curves], limit: Limit
) -> Overlay:
    """Number the points and lines of all folds, and start at a seat that is clear of all curves."""
    polygon = make_region(bounds, 0).corners
    seat, values = _choose_seat(polygon, folds, with_grace(limit))
    positive = np.concatenate(values) > 0
    counts = np.zeros((2, judge.group_pos.size), dtype=np.int64)
    np.add.at(counts[0], judge.group, np.where(positive, judge.n_pos, 0))
    np.add.at(counts[1], judge.group, np.where(positive, 0, judge.n_neg))
    np.subtract.at(counts[1], judge.group[judge.unknown], judge.n_neg[judge.unknown])
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
