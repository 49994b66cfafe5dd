"""The exact best costs against brute force, scikit-learn and themselves."""

from __future__ import annotations

import itertools
import re
import time
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import maximum_bipartite_matching
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_classification
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score, fbeta_score, jaccard_score, matthews_corrcoef
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut, StratifiedKFold, StratifiedShuffleSplit, cross_val_score
from sklearn.preprocessing import StandardScaler

import svmatlas
from svmatlas.atlas import survey
from svmatlas.choose import scoring
from svmatlas.support import stopping
from svmatlas.support.settings import SETTINGS
from tests import brute, selections

REGION = ((0.01, 100.0), (0.01, 100.0))


def noisy(n=40, d=3, seed=0, shift=0.7):
    rng = np.random.default_rng(seed)
    y = (np.arange(n) % 3 == 0).astype(int)
    return rng.normal(size=(n, d)) + shift * y[:, None], y


@pytest.fixture(scope="module")
def easy():
    """A small problem and its selection, for tests that only look."""
    X, y = noisy()
    return X, y, svmatlas.select(X, y, cv=3)


def check_against_brute_force(X, y, score, region=REGION):
    splits = list(StratifiedKFold(3).split(X, y))
    selection = svmatlas.select(X, y, cv=splits, scoring=score, region=region)
    best, points, labels = brute.best_cells(X, y, splits, score, region)
    assert selection.certified
    assert selection.best_score == pytest.approx(best, abs=1e-12)
    held = np.array([[cell.contains(*point) for cell in selection.cells] for point in points])
    whole = np.array([held[labels == label].all(axis=0) for label in range(labels.max() + 1)])
    assert whole.shape == (len(selection.cells),) * 2
    # One to one; samples in very narrow cells may be on the borders of others too
    assert maximum_bipartite_matching(scipy.sparse.csr_array(whole)).min() >= 0


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(12, 48),
    d=st.integers(1, 4),
    tied=st.booleans(),
    score=st.sampled_from([scoring.accuracy, scoring.balanced_accuracy, scoring.fbeta(1.0)]),
)
@example(31, 12, 1, False, scoring.fbeta(1.0))  # a cell narrower than a sample's distance from its corner
def test_brute_force_finds_the_same_cells(seed, n, d, tied, score):
    X, y = noisy(n, d, seed, 0.5)
    if tied:
        X = np.random.default_rng(seed).integers(0, 3, size=(n, d)).astype(float)
    check_against_brute_force(X, y, score)


@pytest.mark.parametrize("kind", selections.KINDS)
def test_scikit_learn_confirms_what_is_certified(kind):
    first = selections.KINDS.index(kind)
    for seed in range(first, 40 * len(selections.KINDS), len(selections.KINDS)):
        selections.trial(seed, most_rows=20)


@pytest.mark.parametrize("seed", range(20))
def test_one_column_far_from_zero(seed):
    """Cells are narrow here: their width is small against the distances of their corners."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(10, 1, (40, 1)), rng.integers(0, 2, 40)
    selection = svmatlas.select(X, y, cv=5)
    scores = cross_val_score(svmatlas.AsymmetricSVC(selection.C_pos, selection.C_neg), X, y, scoring="balanced_accuracy")
    np.testing.assert_allclose(scores, selection.fold_scores, rtol=1e-12)
    assert selection.certified


def test_a_column_of_large_numbers_hides_nothing():
    """A weight that is small because its column is large does not make the other columns count less."""
    rng = np.random.default_rng(0)
    y = (rng.random(60) < 0.35).astype(int)
    X = np.column_stack([rng.normal(size=60) + y, rng.integers(0, 2, 60), rng.normal(size=60)])
    scores = [svmatlas.select(X * [1.0, 1.0, scale], y, cv=3).best_score for scale in (2.0**20, 2.0**30)]
    assert scores[0] == scores[1]


def test_rows_on_the_boundary_are_negative_for_models_and_curves():
    """On a lattice held-out rows lie on the decision boundary in whole facets: their decision values are zeros."""
    rng = np.random.default_rng(1)
    X, y = rng.integers(-2, 3, (40, 2)).astype(float), rng.integers(0, 2, 40)
    train, test = np.arange(20), np.arange(20, 40)
    selection = svmatlas.select(X, y, cv=[(train, test)], bias=0.0, scoring="accuracy")
    atlas, zeros = svmatlas.explore(X[train], y[train], bias=0.0), 0
    for C_pos, C_neg in 10.0 ** rng.uniform(-3, 3, (200, 2)):
        values = atlas.decision_function(X[test], C_pos, C_neg)
        zeros += np.sum(values == 0)
        assert np.all((values == 0) | (np.abs(values) > 1e-12))
        assert selection.score_at(C_pos, C_neg) == pytest.approx(np.mean((values > 0) == (y[test] == 1)))
        model = svmatlas.AsymmetricSVC(C_pos, C_neg, bias=0.0).fit(X[train], y[train])
        np.testing.assert_array_equal(model.decision_function(X[test]) > 0, values > 0)
    assert zeros > 200


def two_classes(load, labels, columns, n):
    X, y = load(return_X_y=True)
    keep = np.flatnonzero(np.isin(y, labels))[:n]
    return StandardScaler().fit_transform(X[keep][:, columns]), y[keep]


DATA = {
    "breast cancer": lambda: two_classes(load_breast_cancer, (0, 1), slice(0, 5), 90),
    "iris": lambda: two_classes(load_iris, (1, 2), slice(None), 100),
    "wine": lambda: two_classes(load_wine, (0, 1), slice(0, 6), 120),
    "digits": lambda: two_classes(load_digits, (3, 8), slice(20, 27), 90),
    "imbalanced": lambda: make_classification(90, 4, weights=[0.85], random_state=0),
}


@pytest.mark.parametrize("name", DATA)
def test_no_costs_are_better_and_scikit_learn_agrees(name):
    X, y = DATA[name]()
    selection = svmatlas.select(X, y, cv=3)
    model = svmatlas.AsymmetricSVC(selection.C_pos, selection.C_neg)
    scores = cross_val_score(model, X, y, cv=3, scoring="balanced_accuracy")
    np.testing.assert_allclose(scores, selection.fold_scores, rtol=1e-12)
    assert scores.mean() == pytest.approx(selection.best_score, rel=1e-12)
    assert selection.certified
    rng = np.random.default_rng(0)
    C = 10.0 ** rng.uniform(-4, 4, size=(2, 10**5))
    grid = np.meshgrid(np.logspace(-4, 4, 200), np.logspace(-4, 4, 200))
    for C_pos, C_neg in (C, (grid[0].ravel(), grid[1].ravel())):
        assert selection.score_at(C_pos, C_neg).max() <= selection.best_score + 1e-12
    # The scores that are read off the curves are those of models.
    some = C[:, :200]
    expected = np.zeros((200, 3))
    for k, (train, test) in enumerate(StratifiedKFold(3).split(X, y)):
        atlas = svmatlas.explore(X[train], y[train])
        positive, truth = atlas.decision_function(X[test], *some) > 0, y[test] == atlas.classes_[1]
        expected[:, k] = (positive[:, truth].mean(axis=1) + (~positive[:, ~truth]).mean(axis=1)) / 2
    np.testing.assert_allclose(selection.fold_scores_at(*some), expected, rtol=1e-12)


def test_swapping_labels_mirrors_the_cells(easy):
    X, y, a = easy
    b = svmatlas.select(X, 1 - y, cv=3)
    assert b.best_score == pytest.approx(a.best_score)
    assert len(a.cells) == len(b.cells)
    np.testing.assert_allclose(sorted(c.area for c in a.cells), sorted(c.area for c in b.cells), rtol=1e-3)
    assert a.score_at(b.C_neg, b.C_pos) == pytest.approx(a.best_score)


def test_scaling_the_data_scales_the_costs(easy):
    X, y, a = easy
    b = svmatlas.select(X * 8, y, cv=3, bias=8.0)
    np.testing.assert_allclose([b.C_pos * 64, b.C_neg * 64], [a.C_pos, a.C_neg], rtol=1e-6)


def test_same_twice(easy):
    X, y, a = easy
    b = svmatlas.select(X, y, cv=3)
    assert (a.C_pos, a.C_neg, a.best_score, a.n_boxes) == (b.C_pos, b.C_neg, b.best_score, b.n_boxes)


def test_a_kernel_matrix_and_sparse_rows_are_the_rows(easy):
    X, y, a = easy
    for other in (
        svmatlas.select(X @ X.T, y, cv=3, kernel="precomputed"),
        svmatlas.select(scipy.sparse.csr_array(X), y, cv=3),
    ):
        assert other.best_score == a.best_score
        np.testing.assert_allclose([other.C_pos, other.C_neg], [a.C_pos, a.C_neg], rtol=1e-6)


def test_a_share_is_a_hold_out_set(easy):
    X, y, _ = easy
    split = next(StratifiedShuffleSplit(1, test_size=0.4, random_state=3).split(X, y))
    a, b = svmatlas.select(X, y, cv=0.4, random_state=3), svmatlas.select(X, y, cv=[split], random_state=3)
    assert a.best_score == b.best_score
    assert a.n_folds == b.n_folds == 1


def test_groups_reach_the_splitter(easy):
    X, y, _ = easy
    groups = np.arange(len(y)) // 10
    a = svmatlas.select(X, y, cv=GroupKFold(4), groups=groups, region=REGION)
    b = svmatlas.select(X, y, cv=list(GroupKFold(4).split(X, y, groups)), region=REGION)
    assert a.n_folds == 4
    assert (a.C_pos, a.C_neg) == (b.C_pos, b.C_neg)


def test_weights_are_repeated_training_rows():
    X, y = noisy(30)
    train, test = np.arange(20), np.arange(20, 30)
    weight = np.ones(30)
    weight[:5] = 2
    a = svmatlas.select(X, y, cv=[(train, test)], sample_weight=weight)
    b = svmatlas.select(X, y, cv=[(np.r_[train, :5], test)])
    assert a.best_score == b.best_score
    np.testing.assert_allclose([a.C_pos, a.C_neg], [b.C_pos, b.C_neg], rtol=1e-9)


def test_perfect_costs_reach_infinity():
    X, y = noisy(shift=10.0)
    selection = svmatlas.select(X, y, cv=3)
    assert selection.best_score == 1.0
    assert selection.cell.unbounded
    assert not selection.at_edge
    assert np.isfinite([selection.C_pos, selection.C_neg]).all()
    assert selection.cell.contains(1e9, 1e9)


def test_a_cell_at_the_edge_of_the_region_says_so(easy):
    X, y, whole = easy
    selection = svmatlas.select(X, y, cv=3, region=((1e-4, whole.C_pos), (1e-4, 10 * whole.C_neg)))
    assert any(cell.at_edge for cell in selection.cells)
    assert not selection.cell.unbounded
    assert selection.best_score == whole.best_score


def test_the_center_is_deepest():
    X, y = noisy(36, 2, 4)
    selection = svmatlas.select(X, y, cv=3, region=REGION)
    cell = selection.cell
    ring = np.concatenate([cell.polygon, cell.polygon[:1]])
    t = np.linspace(0, 1, 3000)[:, None]
    border = np.concatenate([a / a.max() * (1 - t) + b / b.max() * t for a, b in pairwise(ring)])
    border = np.log(border[:, :2] / border[:, 2:])

    def depth(point):
        return np.linalg.norm(border - point, axis=1).min()

    inside = np.random.default_rng(0).uniform(border.min(axis=0), border.max(axis=0), size=(2000, 2))
    inside = [point for point in inside if cell.contains(*np.exp(point))]
    assert len(inside) > 20
    assert depth(np.log(cell.center)) >= 0.94 * max(depth(point) for point in inside)
    assert cell.contains(*cell.center)


def test_areas_are_square_decades():
    """Of a cell that is the whole region: no held-out row changes its prediction."""
    X, y = np.array([[-1.0], [1.0], [-1.5], [1.5], [-1.2], [1.2]]), np.array([0, 1, 0, 1, 0, 1])
    selection = svmatlas.select(X, y, cv=[(np.arange(4), np.array([4, 5]))], bias=0.0, region=((0.1, 10.0), (1.0, 100.0)))
    assert selection.n_curves == 0
    assert len(selection.cells) == 1
    assert selection.cell.area == pytest.approx(4.0, rel=1e-3)
    np.testing.assert_allclose(np.log10([selection.C_pos, selection.C_neg]), [0.0, 1.0], atol=0.05)
    assert selection.at_edge


def test_one_standard_error():
    X, y = noisy(45, 2, 1)
    best, simple = svmatlas.select(X, y, cv=3), svmatlas.select(X, y, cv=3, rule="one_se")
    error = best.fold_scores.std(ddof=1) / np.sqrt(3)
    assert simple.best_score == best.best_score
    assert len(simple.cells) > len(best.cells)
    assert best.best_score >= simple.cell.score >= best.best_score - error - 1e-12
    assert sum(simple.cell.center) == min(sum(cell.center) for cell in simple.cells)
    assert simple.score_at(simple.C_pos, simple.C_neg) == pytest.approx(simple.cell.score)


def test_a_rule_of_the_user(easy):
    X, y, _ = easy
    selection = svmatlas.select(X, y, cv=3, rule=lambda cells: len(cells) - 1)
    assert selection.cell is selection.cells[-1]
    with pytest.raises(ValueError, match="index"):
        svmatlas.select(X, y, cv=3, rule=len)


def cut_finely(monkeypatch, events=4):
    monkeypatch.setattr(SETTINGS, "one_tile_points", 4)
    monkeypatch.setattr(SETTINGS, "events_per_tile", events)


@pytest.mark.parametrize(("n", "region"), [(45, None), (60, ((0.01, 3.0), (0.02, np.inf)))])
def test_tiles_change_nothing(n, region, monkeypatch):
    """Curves that were collected tile after tile are those of the map in one piece."""
    X, y = noisy(n, 2, 3)
    plain = svmatlas.select(X, y, cv=3, region=region)
    random = np.random.default_rng(0)
    costs = np.exp(random.uniform(np.log(0.03), np.log(2.9), size=(2, 4000)))
    for events, n_jobs in ((3, 1), (6, 2)):
        cut_finely(monkeypatch, events)
        tiled = svmatlas.select(X, y, cv=3, region=region, n_jobs=n_jobs)
        assert tiled.best_score == plain.best_score
        assert tiled.certified
        assert tiled.n_curves == plain.n_curves
        assert len(tiled.cells) == len(plain.cells)
        for one, other in zip(tiled.cells, plain.cells, strict=True):
            corners = (cell.polygon[np.argsort(cell.polygon[:, 0] - cell.polygon[:, 1])] for cell in (one, other))
            np.testing.assert_allclose(*corners, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose([tiled.C_pos, tiled.C_neg], [plain.C_pos, plain.C_neg], rtol=1e-6)
        np.testing.assert_array_equal(tiled.score_at(*costs), plain.score_at(*costs))


def test_a_partial_search_has_an_honest_bound(easy, monkeypatch):
    """The rule needs the maps of all folds. Time passes after so many tiles: some of each fold are missing."""
    X, y, whole = easy
    cut_finely(monkeypatch)
    certified, wait = [], survey.wait
    for tiles in (1, 3, 20, 10**9):
        passed, count = [0.0], itertools.count(1)
        clock = SimpleNamespace(monotonic=lambda passed=passed: time.monotonic() + passed[0])

        def slow(*arguments, passed=passed, count=count, tiles=tiles, **options):
            passed[0] += 400.0 if next(count) % tiles == 0 else 0.0
            return wait(*arguments, **options)

        monkeypatch.setattr(stopping, "time", clock)
        monkeypatch.setattr(survey, "wait", slow)
        part = svmatlas.select(X, y, cv=3, rule="one_se", time_budget=1000.0)
        assert part.best_score <= whole.best_score + 1e-12
        assert part.upper_bound >= whole.best_score - 1e-12
        assert whole.score_at(part.C_pos, part.C_neg) == pytest.approx(part.cell.score)
        certified.append(part.certified)
    assert certified[-1]
    assert not certified[0]


@pytest.mark.alone
def test_little_time_for_many_tied_rows():
    """Walks through 3,000 one-hot rows take long, models do not: there is a result, no worse than models at usual costs."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 6, (3000, 8))
    X = (codes[:, :, None] == np.arange(6)).reshape(3000, 48).astype(float)
    y = ((codes[:, 0] > 3) & (codes[:, 1] > 2)) | (rng.random(3000) < 0.03)
    svmatlas.select(X[:200], y[:200], time_budget=1.0)
    begin = time.monotonic()
    found = svmatlas.select(X, y, time_budget=5.0, threshold="tuned")
    assert time.monotonic() - begin < 7.0
    model = svmatlas.AsymmetricSVC(1.0, 1.0, class_weight="balanced")
    assert found.best_score >= cross_val_score(model, X, y, scoring="balanced_accuracy").mean() - 1e-12
    assert found.upper_bound >= found.best_score


@pytest.mark.alone
def test_time_budget():
    X, y = noisy(500, 8)
    part = svmatlas.select(X, y, cv=3, time_budget=2.0)
    assert not part.certified
    assert part.upper_bound > part.best_score


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("accuracy", accuracy_score),
        ("balanced_accuracy", balanced_accuracy_score),
        ("f1", lambda y, p: f1_score(y, p, zero_division=0)),
        (scoring.fbeta(2.0), lambda y, p: fbeta_score(y, p, beta=2, zero_division=0)),
        ("jaccard", lambda y, p: jaccard_score(y, p, zero_division=0)),
        ("matthews_corrcoef", matthews_corrcoef),
    ],
)
def test_scores_are_those_of_scikit_learn(ours, theirs):
    table = scoring.make_table(scoring.get_score(ours), 5, 7)
    y = np.r_[np.ones(5, dtype=int), np.zeros(7, dtype=int)]
    for tp in range(6):
        for tn in range(8):
            predicted = np.r_[np.arange(5) < tp, np.arange(7) >= tn].astype(int)
            assert table[tp, tn] == pytest.approx(theirs(y, predicted), abs=1e-15)


def test_scores_with_conditions_and_costs():
    assert scoring.precision_at_recall(0.5)(5, 1, 1, 3) == pytest.approx(3 / 4)
    assert scoring.precision_at_recall(0.8)(5, 1, 1, 3) == 0
    assert scoring.recall_at_precision(0.7)(5, 1, 1, 3) == pytest.approx(3 / 4)
    assert scoring.recall_at_precision(0.8)(5, 1, 1, 3) == 0
    assert scoring.expected_cost(2, 10)(5, 1, 1, 3) == pytest.approx(-(2 * 1 + 10 * 1) / 10)
    assert scoring.expected_gain([[1, -2], [-30, 12]])(5, 1, 1, 3) == pytest.approx((5 - 2 - 30 + 36) / 10)
    assert scoring.expected_cost(2, 10, prior=0.1)(5, 1, 1, 3) == pytest.approx(-(2 * 0.9 / 6 + 10 * 0.1 / 4))


@pytest.mark.parametrize("n_pos", [0, 1, 2, 9])
@pytest.mark.parametrize("n_neg", [1, 3, 10])
@pytest.mark.parametrize(
    "score",
    [*scoring.NAMED.values(), scoring.fbeta(0.3), scoring.precision_at_recall(0.6), scoring.recall_at_precision(0.6),
     scoring.expected_cost(3.0, 1.0, 0.2), scoring.expected_gain([[1.0, -3.0], [-20.0, 15.0]])],
)  # fmt: skip
def test_named_scores_are_monotone(score, n_pos, n_neg):
    table = scoring.make_table(score, n_pos, n_neg)
    assert np.diff(table, axis=0).min(initial=0) >= -1e-12
    assert np.diff(table, axis=1).min(initial=0) >= -1e-12


@pytest.mark.parametrize("score", ["balanced_accuracy", "f1", scoring.expected_gain([[1.0, -1.0], [-8.0, 5.0]])])
def test_no_threshold_is_better_than_the_tuned_one(easy, score):
    """All thresholds between the pooled decision values of models of scikit-learn's folds."""
    X, y, _ = easy
    tuned = svmatlas.select(X, y, cv=3, scoring=score, threshold="tuned")
    plain = svmatlas.select(X, y, cv=3, scoring=score)
    folds = list(StratifiedKFold(3).split(X, y))
    model = svmatlas.AsymmetricSVC(tuned.C_pos, tuned.C_neg)
    values = [model.fit(X[train], y[train]).decision_function(X[test]) for train, test in folds]

    def mean_score(threshold):
        counts = [np.bincount(2 * y[test] + (v > threshold), minlength=4) for v, (_, test) in zip(values, folds, strict=True)]
        return np.mean([scoring.get_score(score)(*count) for count in counts])

    pooled = np.sort(np.concatenate(values))
    best = max(mean_score(t) for t in [pooled[0] - 1, *((pooled[1:] + pooled[:-1]) / 2), pooled[-1] + 1])
    assert (tuned.C_pos, tuned.C_neg, tuned.best_score) == (plain.C_pos, plain.C_neg, plain.best_score)
    assert tuned.threshold_score == pytest.approx(best, abs=1e-12)
    assert mean_score(tuned.threshold) == pytest.approx(best, abs=1e-12)
    assert tuned.threshold_score >= tuned.best_score == plain.threshold_score
    assert plain.threshold == 0.0


def test_a_score_of_the_user(easy):
    X, y, _ = easy
    own = svmatlas.select(X, y, cv=3, scoring=lambda tn, fp, fn, tp: (tp + tn) / (tn + fp + fn + tp))
    assert own.best_score == pytest.approx(svmatlas.select(X, y, cv=3, scoring="accuracy").best_score)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scoring": "nonsense"}, "unknown scoring"),
        ({"scoring": 3}, "scoring must be"),
        ({"scoring": lambda tn, fp, fn, tp: fp - tp}, "not monotone"),
        ({"scoring": lambda tn, fp, fn, tp: float("nan")}, "finite"),
        ({"cv": 1.5}, "between 0 and 1"),
        ({"cv": []}, "no folds"),
        ({"cv": [(np.arange(0, 40, 3), np.arange(1, 40, 3))]}, "training rows of fold 0 hold one class"),
        ({"cv": [(np.arange(30), np.array([], dtype=int))]}, "no held-out rows"),
        ({"rule": "two_se"}, "rule must be"),
        ({"region": ((1, 0), (0, 1))}, "region"),
        ({"sample_weight": np.ones(3)}, "sample_weight must have shape"),
        ({"sample_weight": np.full(40, np.nan)}, "NaN"),
        ({"sample_weight": -np.ones(40)}, "must not be negative"),
        ({"time_budget": 0}, "time_budget"),
        ({"tolerance": -0.1}, "tolerance must be"),
        ({"tolerance": float("nan")}, "tolerance must be"),
        ({"threshold": "best"}, "threshold must be"),
    ],
)
def test_bad_arguments(arguments, message):
    X, y = noisy()
    with pytest.raises(ValueError, match=message):
        svmatlas.select(X, y, **{"cv": 3} | arguments)


def rare(n_rare):
    """Twenty rows, some of them of the class "b", all at the end."""
    y = np.where(np.arange(20) < 20 - n_rare, "a", "b")
    return np.random.default_rng(0).normal(size=(20, 2)), y


UNSTRATIFIED = "the folds are not stratified; use stratified ones, cv={}, or shuffle the rows"


@pytest.mark.filterwarnings("ignore:The least populated class in y has only")
@pytest.mark.parametrize(
    ("n_rare", "cv", "part", "advice"),
    [
        (3, 5, "held-out", "class 'b' has 3 rows for 5 folds; use at most cv=3, or scoring='accuracy'"),
        (3, StratifiedKFold(4), "held-out", "class 'b' has 3 rows for 4 folds; use at most cv=3, or scoring='accuracy'"),
        (1, 5, "training", "class 'b' has 1 row; each class needs at least 2"),
        (9, 10, "held-out", "class 'b' has 9 rows for 10 folds; use at most cv=9, or scoring='accuracy'"),
        (10, LeaveOneOut(), "held-out", "they are a single row; use stratified folds, cv=5, or scoring='accuracy'"),
        (3, LeaveOneOut(), "held-out", "they are a single row; use stratified folds, cv=3, or scoring='accuracy'"),
        (1, LeaveOneOut(), "training", "class 'b' has 1 row; each class needs at least 2"),
        (10, KFold(2), "training", UNSTRATIFIED.format(2)),
        (10, KFold(4), "held-out", UNSTRATIFIED.format(4) + ", or scoring='accuracy'"),
        (5, [(range(18), [18, 19])], "held-out", "train on and hold out rows of both classes, or scoring='accuracy'"),
        (5, [(range(9), range(9, 20))], "training", "train on and hold out rows of both classes"),
    ],
)
def test_folds_of_one_class(n_rare, cv, part, advice):
    X, y = rare(n_rare)
    message = rf"the {part} rows of fold \d+ hold one class only: {re.escape(advice)} \(n_samples=20, n_features=2\)$"
    with pytest.raises(ValueError, match=message):
        svmatlas.select(X, y, cv=cv)
    if "accuracy" in advice:
        assert svmatlas.select(X, y, cv=cv, scoring="accuracy", region=((1, 2), (1, 2))).n_folds > 0


def test_more_folds_than_rows_of_either_class():
    X, y = rare(9)
    with pytest.raises(ValueError, match=r"12 folds .* class 'a' has 11 rows and class 'b' has 9 rows; use at most cv=9"):
        svmatlas.select(X, y, cv=12, scoring="accuracy")


def test_folds_without_weight():
    X, y = rare(4)
    for n_heavy, advice in [(1, "class 'b' has 1 row of positive weight"), (2, "those of class 'b' have weight zero")]:
        with pytest.raises(ValueError, match=f"training rows of fold 0 hold one class only: {advice}"):
            svmatlas.select(X, y, cv=2, sample_weight=np.arange(20) < 16 + n_heavy)
    with pytest.raises(ValueError, match="sample_weight is zero for all rows of a class"):
        svmatlas.select(X, y, cv=2, sample_weight=np.where(y == "a", 1.0, 0.0))


def test_bad_data(easy):
    X, y, selection = easy
    with pytest.raises(ValueError, match="NaN"):
        svmatlas.select(np.where(X > 1, np.nan, X), y)
    with pytest.raises(ValueError, match="two classes"):
        svmatlas.select(X, np.arange(len(y)))
    with pytest.raises(ValueError, match="inconsistent"):
        svmatlas.select(X, y[1:])
    with pytest.raises(ValueError, match="C_pos"):
        selection.score_at(-1.0, 1.0)
    for make in (
        lambda: scoring.fbeta(0), lambda: scoring.expected_cost(-1, 1), lambda: scoring.precision_at_recall(2),
        lambda: scoring.expected_gain([1, 2]), lambda: scoring.expected_gain([[1, 2], [0, 1]]),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="must"):
            make()
