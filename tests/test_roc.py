"""The ROC frontier against brute force and the best costs."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold

import svmatlas
from svmatlas.choose import scoring
from svmatlas.choose.folds import make_folds
from tests import brute
from tests.test_select import REGION, noisy


@pytest.mark.parametrize("seed", range(3))
def test_brute_force_finds_the_same_frontier(seed):
    X, y = noisy(30, 3, seed)
    if seed == 2:
        X = np.round(X)
    splits = list(StratifiedKFold(2).split(X, y))
    frontier = svmatlas.roc_frontier(X, y, cv=splits, region=REGION)
    atlases = [svmatlas.explore(X[train], y[train], region=REGION) for train, _ in splits]
    lines = [brute.curves(atlas, X[test]) for atlas, (_, test) in zip(atlases, splits, strict=True)]
    points = brute.samples(np.concatenate(lines), REGION)
    fp = tp = 0
    for atlas, (_, test) in zip(atlases, splits, strict=True):
        positive = brute.predictions(atlas, X[test], *points.T)
        fp, tp = fp + (positive & (y[test] == 0)).sum(axis=1), tp + (positive & (y[test] == 1)).sum(axis=1)
    seen = {(int(a), int(b)) for a, b in zip(fp, tp, strict=True)}
    best = {(a, b) for a, b in seen if not any(c <= a and d >= b and (c, d) != (a, b) for c, d in seen)}
    assert best == {(int(a), int(b)) for a, b in zip(frontier.fp, frontier.tp, strict=True)}


@pytest.fixture(scope="module")
def frontier():
    X, y = noisy(60, 3, 5)
    return X, y, svmatlas.roc_frontier(X, y, cv=0.4)


def test_the_costs_reach_the_points(frontier):
    X, y, roc = frontier
    (split,) = make_folds(X, y, 0.4, None, None, 0).splits
    atlas = svmatlas.explore(X[split[0]], y[split[0]])
    truth = y[split[1]] == 1
    for k, values in enumerate(atlas.decision_function(X[split[1]], roc.C_pos, roc.C_neg)):
        assert np.sum((values > 0) & truth) == roc.tp[k] == round(roc.tpr[k] * roc.n_pos)
        assert np.sum((values > 0) & ~truth) == roc.fp[k] == round(roc.fpr[k] * roc.n_neg)


def test_rates_rise_together(frontier):
    _, _, roc = frontier
    assert np.all(np.diff(roc.fpr) > 0)
    assert np.all(np.diff(roc.tpr) > 0)


@pytest.mark.parametrize(("cost_fp", "cost_fn", "prior"), [(1.0, 1.0, None), (1.0, 8.0, None), (3.0, 1.0, 0.1)])
def test_the_best_point_is_the_best_selection(frontier, cost_fp, cost_fn, prior):
    X, y, roc = frontier
    k = roc.best(cost_fp, cost_fn, prior)
    share = roc.n_pos / (roc.n_pos + roc.n_neg) if prior is None else prior
    cost = cost_fn * share * (1 - roc.tpr[k]) + cost_fp * (1 - share) * roc.fpr[k]
    selection = svmatlas.select(X, y, cv=0.4, scoring=scoring.expected_cost(cost_fp, cost_fn, prior))
    assert -selection.best_score == pytest.approx(cost, abs=1e-12)


def test_the_hull_is_convex_and_above(frontier):
    _, _, roc = frontier
    x, y = np.r_[0, roc.fpr[roc.hull], 1], np.r_[0, roc.tpr[roc.hull], 1]
    moves = np.diff(x) > 0
    assert np.all(np.diff(np.diff(y)[moves] / np.diff(x)[moves]) < 0)
    assert np.all(np.interp(roc.fpr, x, y) >= roc.tpr - 1e-12)
    assert roc.auc_hull == pytest.approx(np.diff(x) @ (y[1:] + y[:-1]) / 2)


def test_bad_arguments(frontier):
    X, y, roc = frontier
    with pytest.raises(ValueError, match="cost_fp"):
        roc.best(-1.0, 1.0)
    with pytest.raises(ValueError, match="prior"):
        roc.best(prior=2.0)
    with pytest.raises(ValueError, match="one class only"):
        svmatlas.roc_frontier(X, y, cv=[(np.arange(30), np.flatnonzero(y == 1)[-3:])])
