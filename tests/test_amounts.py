"""Scores that are not counted from predictions alone: average precision, and gains that differ from row to row."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold, cross_val_score

import svmatlas
from svmatlas import scoring
from svmatlas.choose.judge import EQUAL, Judge, fold_scores
from tests import brute
from tests.test_boxes import CASES, Watched
from tests.test_select import REGION, noisy

# ----------------------------------------------------------------------------------------------------------------------
# Average precision from pairs


def judge_of(sizes, n_neg, tied):
    """One fold with groups of equal positive rows; ``tied`` of the negative rows are equal to those of each group."""
    none, size = np.empty(0, dtype=np.int64), np.array(sizes, dtype=np.int64)
    most = n_neg - np.array(tied, dtype=np.int64)
    return Judge(
        none, none, none, np.array([0, size.size]), most, most, size, np.empty(0), np.zeros(1, dtype=np.int64),
        np.empty((0, 3)), np.array([n_neg]), none, none.astype(np.uint64), EQUAL,
    )  # fmt: skip


def score_of(judge, least, most, upper):
    """The score if the number of negative rows above each group is between two numbers."""
    tied = judge.n_negative[0] - judge.group_pos
    counts = np.array([[judge.n_negative[0] - least, most - tied]])
    return fold_scores(judge, counts, upper)[0, 0]


@settings(max_examples=200)
@given(st.data())
def test_average_precision_of_any_order_is_between_its_bounds(data):
    """Whatever the values of the rows are: of all that is allowed, and of what is known of each group."""
    sizes = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=6))
    n_neg = data.draw(st.integers(1, 8))
    ranks = data.draw(st.permutations(range(len(sizes) + n_neg)))
    values = np.array(ranks[: len(sizes)])
    negative = np.array(ranks[len(sizes) :])
    if data.draw(st.booleans()):  # a negative row that is equal to a positive one
        negative[0] = values[0]
    tied = np.array([np.sum(negative == value) for value in values])
    above = np.array([np.sum(negative >= value) for value in values])
    judge = judge_of(sizes, n_neg, tied)
    truth = average_precision_score(
        [*np.ones(sum(sizes)), *np.zeros(n_neg)], np.concatenate([np.repeat(values, sizes), negative])
    )
    assert score_of(judge, above, above, False) <= truth + 1e-12
    assert truth <= score_of(judge, above, above, True) + 1e-12
    if max(sizes) == 1:
        assert score_of(judge, above, above, False) == pytest.approx(truth, abs=1e-12)
        assert score_of(judge, above, above, True) == pytest.approx(truth, abs=1e-12)
    least = [data.draw(st.integers(int(t), int(f))) for t, f in zip(tied, above, strict=True)]
    most = [data.draw(st.integers(int(f), n_neg)) for f in above]
    bound = score_of(judge, np.array(least), np.array(most), True)
    assert truth <= bound + 1e-12
    assert bound <= 1.0 + 1e-12


def repeated_positive():
    """A table with equal positive rows, equal negative ones, and rows that are both."""
    random = np.random.default_rng(11)
    X = random.integers(0, 3, (48, 3)).astype(float)
    return X, (X.sum(axis=1) + random.normal(0, 1.2, 48) > 3.6).astype(int)


RANKED = {**{name: CASES[name] for name in ("plain", "tied", "few positive", "repeated")}, "equal positive": repeated_positive}


@pytest.mark.parametrize("steps", [None, 3])
@pytest.mark.parametrize("name", RANKED)
def test_average_precision_is_bounded(name, steps):
    """The score is reached, no costs exceed the bound, and the tolerance is kept where all positive rows differ."""
    X, y = RANKED[name]()
    y = np.asarray(y).astype(int)
    folds = list(StratifiedKFold(3).split(X, y))
    with Watched(steps or 10**9, maps_after=10):
        budget = {"time_budget": 1000.0} if steps else {"tolerance": 0.02}
        found = svmatlas.select(X, y, cv=folds, scoring="average_precision", **budget)
    assert found.best_score <= found.upper_bound

    def score(C_pos, C_neg):
        return cross_val_score(svmatlas.AsymmetricSVC(C_pos, C_neg), X, y, cv=folds, scoring="average_precision").mean()

    reached = score(found.C_pos, found.C_neg)
    assert reached >= found.best_score - 1e-12
    if all(len(np.unique(X[test][y[test] == 1], axis=0)) == y[test].sum() for _, test in folds):
        assert reached == pytest.approx(found.best_score, abs=1e-12)
        assert steps or found.upper_bound <= found.best_score + 0.02 + 1e-12
    for costs in 10.0 ** np.random.default_rng(0).uniform(-3, 2, (40, 2)):
        assert score(*costs) <= found.upper_bound + 1e-12


def test_the_bound_of_a_ranking_never_rises():
    X, y = repeated_positive()
    with Watched(maps_after=15) as watched:
        found = svmatlas.select(X, y, cv=3, scoring="average_precision")
    best, upper = np.array(watched.steps).T
    assert np.all(np.diff(best) >= 0)
    assert np.all(np.diff(upper) <= 0)
    assert best[-1] <= found.best_score <= found.upper_bound <= upper[-1]


def test_rankings_say_that_they_are_bounds():
    found = svmatlas.select(*noisy(40, 2, 3), cv=2, scoring="average_precision")
    assert found.upper_bound - found.best_score <= 1e-3
    assert found.certified == (found.upper_bound == found.best_score)
    assert ("certified" in repr(found)) == found.certified


# ----------------------------------------------------------------------------------------------------------------------
# Gains that differ from row to row


def gain_at(X, y, folds, gains, C_pos, C_neg):
    """Mean over folds of the mean gain, from models."""
    means = []
    for train, test in folds:
        model = svmatlas.AsymmetricSVC(C_pos, C_neg).fit(X[train], y[train])
        predicted = model.predict(X[test])
        means.append(math.fsum(gains[y[i]][p][i] for i, p in zip(test, predicted, strict=True)) / test.size)
    return float(np.mean(means))


def money(n, seed):
    """Amounts of money in cents, some of them zero; some large."""
    random = np.random.default_rng(seed)
    amount = np.round(random.lognormal(2, 2, n), 2)
    amount[::7] = 0.0
    return amount


@settings(max_examples=6)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(14, 26),
    tied=st.booleans(),
    limit=st.sampled_from([{}, {"tolerance": 0.0}]),
    maps_after=st.sampled_from([1, 6, 10**9]),
)
def test_brute_force_finds_the_same_gain(seed, n, tied, limit, maps_after):
    """Predictions next to all corners of the curves are looked at."""
    X, y = noisy(n, 2, seed, 0.5)
    if tied:
        X = np.random.default_rng(seed).integers(0, 3, size=(n, 2)).astype(float)
    folds, amount = list(StratifiedKFold(2).split(X, y)), money(n, seed)
    matrix = [[0.02 * amount, -5.0], [-amount, 50.0]]
    gains = [[np.broadcast_to(entry, n) for entry in pair] for pair in matrix]
    with Watched(maps_after=maps_after):
        found = svmatlas.select(X, y, cv=folds, scoring=scoring.expected_gain(matrix), region=REGION, **limit)
    assert found.certified
    assert gain_at(X, y, folds, gains, found.C_pos, found.C_neg) == pytest.approx(found.best_score, rel=1e-12, abs=1e-12)
    total = 0.0
    for positive, (_, test) in zip(brute.all_predictions(X, y, folds, REGION)[2], folds, strict=True):
        own = [np.where(y[test] == 1, gains[1][k][test], gains[0][k][test]) for k in range(2)]
        total = total + np.where(positive, own[1], own[0]).mean(axis=1) / len(folds)
    assert total.max() == pytest.approx(found.best_score, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("limit", [{}, {"tolerance": 0.0}])
def test_equal_amounts_are_counts(limit):
    X, y = CASES["tied"]()
    y = y.astype(int)
    counted = svmatlas.select(X, y, cv=3, scoring=scoring.expected_gain([[1.0, -2.0], [-7.0, 4.0]]), **limit)
    rows = svmatlas.select(
        X, y, cv=3, scoring=scoring.expected_gain([[np.ones(50), -2.0], [-7.0, np.full(50, 4.0)]]), threshold="tuned", **limit
    )
    assert rows.best_score == pytest.approx(counted.best_score, abs=1e-12)
    assert rows.certified
    assert len(rows.cells) == len(counted.cells)
    tuned = svmatlas.select(X, y, cv=3, scoring=scoring.expected_gain([[1.0, -2.0], [-7.0, 4.0]]), threshold="tuned", **limit)
    assert (rows.threshold, rows.threshold_score) == (tuned.threshold, pytest.approx(tuned.threshold_score))


@pytest.mark.parametrize("factor", [1e-9, 1e9])
def test_the_unit_of_money_changes_nothing(factor):
    """Amounts that doubles do not hold exactly, in another order of rows and in another unit: the same cells, certified."""
    X, y = noisy(60, 2, 8)
    amount, folds = money(60, 8) + 0.1, list(StratifiedKFold(3).split(X, y))
    order = np.random.default_rng(1).permutation(60)
    place = np.argsort(order)
    one = svmatlas.select(X, y, cv=folds, scoring=scoring.expected_gain([[0.0, -amount], [-3 * amount, 1.0]]), tolerance=0.0)
    other = svmatlas.select(
        X[order], y[order], cv=[(place[train], place[test]) for train, test in folds], tolerance=0.0,
        scoring=scoring.expected_gain([[0.0, -factor * amount[order]], [-3 * factor * amount[order], factor]]),
    )  # fmt: skip
    assert one.certified
    assert other.certified
    assert other.best_score == pytest.approx(factor * one.best_score, rel=1e-12)
    assert len(other.cells) == len(one.cells)


def test_large_sums_of_money_are_monotone():
    """Rounding errors of a million are no fall of the score."""
    gain = scoring.expected_gain([[1e6 / 3, -1e6 / 7], [-1e7 / 9, 1e6 / 11]])
    found = svmatlas.select(*noisy(60, 2, 8), cv=3, scoring=gain, tolerance=0.0)
    assert found.certified
    assert found.best_score == pytest.approx(svmatlas.select(*noisy(60, 2, 8), cv=3, scoring=gain).best_score, rel=1e-12)


@pytest.mark.parametrize(
    ("matrix", "text"),
    [
        ([[np.ones(9), 0.0], [0.0, 1.0]], "amounts of 9 rows, and X has 40"),
        ([[np.ones(40), 2.0], [0.0, 1.0]], "brings 1, a wrong one 2"),
        ([[np.full(40, np.nan), 0.0], [0.0, 1.0]], "finite"),
        ([[np.ones(40), 0.0], [0.0, np.ones((40, 1))]], "finite numbers, or arrays"),
        ([[np.ones(40), 0.0, 1.0], [0.0, 1.0]], "two rows of two"),
    ],
)
def test_amounts_that_do_not_fit_are_refused(matrix, text):
    with pytest.raises(ValueError, match=text):
        svmatlas.select(*noisy(40, 2), cv=2, scoring=scoring.expected_gain(matrix))
