"""The quick way to one model: the same as the exact one, proven by its gap, and with no dense copy of sparse rows."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.preprocessing import StandardScaler

from svmatlas import AsymmetricSVC
from svmatlas.data.problem import make_problem
from svmatlas.models import interior
from svmatlas.models.interior import fit_linear
from svmatlas.models.svc import solve_at
from svmatlas.support.stopping import NEVER


def one_hot(rng):
    k = rng.integers(0, 4, (120, 3))
    return np.hstack([np.eye(4)[k[:, j]] for j in range(3)]), k[:, 0] + k[:, 1] + rng.integers(0, 3, 120) > 4


def some_classes(load, label):
    X, y = load(return_X_y=True)
    return X, y == label


CASES = {
    "breast cancer, unscaled": lambda rng: some_classes(load_breast_cancer, 1),
    "wine, unscaled": lambda rng: some_classes(load_wine, 1),
    "iris": lambda rng: some_classes(load_iris, 1),
    "one-hot": one_hot,
    "lattice": lambda rng: (rng.integers(0, 3, (80, 3)).astype(float), rng.integers(0, 2, 80) == 1),
    "repeated": lambda rng: (np.repeat(rng.normal(size=(20, 4)), 3, axis=0), rng.integers(0, 2, 60) == 1),
    "one positive": lambda rng: (rng.normal(size=(60, 3)), np.arange(60) == 4),
    "wide": lambda rng: (rng.normal(size=(40, 200)), rng.integers(0, 2, 40) == 1),
    "sparse": lambda rng: (csr_array(random_array((80, 30), density=0.1, rng=rng)), rng.integers(0, 2, 80) == 1),
    "wide and sparse": lambda rng: (csr_array(random_array((60, 900), density=0.05, rng=rng)), np.arange(60) % 3 == 0),
}


@pytest.mark.parametrize("costs", [(1.0, 1.0), (1e-3, 1e-4), (300.0, 2.0)])
@pytest.mark.parametrize("name", CASES)
def test_the_quick_way_leads_to_the_exact_model(name, costs):
    X, positive = CASES[name](np.random.default_rng(0))
    cost = np.where(positive, *costs)
    fit = fit_linear(X, np.where(positive, 1.0, -1.0), cost, 1.0, NEVER)
    assert fit is not None
    assert fit.gap <= 1e-11
    assert np.all((fit.alpha >= 0) & (fit.alpha <= cost))
    problem = make_problem(X, positive, 1.0, None, 0)
    exact = solve_at(problem, *costs, NEVER)
    (coef,), (intercept,) = problem.weights_of(exact.beta, exact.lossless)
    size = np.abs(coef).max()
    assert np.allclose(fit.coef, coef, rtol=1e-7, atol=1e-9 * size)
    assert fit.intercept == pytest.approx(intercept, rel=1e-7, abs=1e-9 * max(size, 1.0))


def test_weights_are_repetitions_and_rows_without_a_cost_do_not_count():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(50, 3)), np.arange(50) % 3 == 0
    weight = rng.integers(0, 4, 50)
    weighted = AsymmetricSVC(2.0, 0.5).fit(X, y, sample_weight=weight)
    repeated = AsymmetricSVC(2.0, 0.5).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert np.allclose(weighted.coef_, repeated.coef_, rtol=0, atol=1e-12)
    free = AsymmetricSVC(2.0, 0.0).fit(X, y)
    assert free.duality_gap_ < 1e-12
    assert np.all(y[free.support_])


def test_points_that_a_rough_solution_puts_aside_come_back(monkeypatch):
    """With a guess of zero weights all points are inside and far from the margin."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(120, 6)), np.arange(120) % 2 == 0
    X[y, 0] += 2.0
    plain = AsymmetricSVC().fit(X, y)
    monkeypatch.setattr(interior, "DENSE", 2)
    guessed = AsymmetricSVC().fit(X, y)
    assert np.allclose(guessed.coef_, plain.coef_, rtol=0, atol=1e-10)
    sparse = csr_array(X)
    sparse.indices, sparse.indptr = sparse.indices.astype(np.int64), sparse.indptr.astype(np.int64)  # not for LIBLINEAR
    assert fit_linear(sparse, np.where(y, 1.0, -1.0), np.ones(120), 1.0, NEVER) is not None
    monkeypatch.setattr(interior, "_guess", lambda data: np.zeros(data.rows.shape[1]))
    from_nothing = AsymmetricSVC().fit(X, y)
    assert np.allclose(from_nothing.coef_, plain.coef_, rtol=0, atol=1e-10)


def test_what_the_quick_way_does_not_reach_is_solved_exactly(monkeypatch):
    X, y = load_iris(return_X_y=True)
    quick = AsymmetricSVC().fit(X, y == 1)
    monkeypatch.setattr(interior, "STEPS", 1)
    monkeypatch.setattr(interior, "TURNS", 0)
    slow = AsymmetricSVC().fit(X, y == 1)
    assert np.allclose(slow.coef_, quick.coef_, rtol=0, atol=1e-10)
    assert AsymmetricSVC(C=1e40).fit(X, y == 1).duality_gap_ < 1e-9


def test_sparse_rows_stay_sparse():
    rng, place = np.random.default_rng(0), (np.repeat(np.arange(300), 20), np.arange(6000) * 33 % 200_000)
    X = csr_array((rng.normal(size=6000), place), shape=(300, 200_000))
    y = np.arange(300) % 2
    AsymmetricSVC().fit(X[:10], y[:10])  # imports
    tracemalloc.start()
    model = AsymmetricSVC().fit(X, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50e6  # dense: 480e6
    assert model.duality_gap_ < 1e-9


def free_intercept(X, sign, C, weights):
    """The model with an intercept that costs nothing, from the rows that a nearby model has on and inside its margin.

    Its linear system is solved, and all conditions of optimality are checked.
    """
    signed, score = X * sign[:, None], sign * (X @ weights[0] + weights[1])
    on, inside = np.abs(score - 1) < 1e-6, score < 1 - 1e-6
    pull, n = C * signed[inside].sum(axis=0), np.sum(on)
    system = np.block([[signed[on] @ signed[on].T, sign[on, None]], [sign[None, on], np.zeros((1, 1))]])
    solved = np.linalg.solve(system, np.r_[1 - signed[on] @ pull, -C * sign[inside].sum()])
    coef, intercept = pull + solved[:n] @ signed[on], solved[n]
    score = sign * (X @ coef + intercept)
    assert -1e-12 <= solved[:n].min() <= solved[:n].max() <= C + 1e-12
    assert score[inside].max() <= 1 + 1e-12
    assert score[~on & ~inside].min() >= 1 - 1e-12
    return coef, intercept


@pytest.mark.parametrize(("bias", "error"), [(10, 6e-5), (1000, 6e-9)])
def test_a_large_bias_leaves_the_intercept_free(bias, error):
    """The numbers of the guide, "Like SVC"."""
    X, y = load_breast_cancer(return_X_y=True)
    X, sign = StandardScaler().fit_transform(X), np.where(y == 1, 1.0, -1.0)
    near = AsymmetricSVC(bias=1000).fit(X, y)
    coef, intercept = free_intercept(X, sign, 1.0, (near.coef_[0], near.intercept_[0]))
    model = AsymmetricSVC(bias=bias).fit(X, y)
    assert np.abs(model.coef_[0] - coef).max() <= error * np.abs(coef).max()
    assert abs(model.intercept_[0] - intercept) <= error
