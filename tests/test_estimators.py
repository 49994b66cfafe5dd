"""The classifiers: scikit-learn's own checks, exactness, and agreement with its solvers."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import svmatlas
from svmatlas import AsymmetricSVC, AsymmetricSVCCV, AtlasSVC
from tests import cases

BOTH = [AsymmetricSVC, AtlasSVC]
ALL = [*BOTH, AsymmetricSVCCV]
LINEAR = [{}, {"bias": 0}]
RBF = [{"kernel": "rbf"}, {"kernel": "rbf", "bias": 0}]
FINITE = {"region": ((0.5, 2.0), (0.5, 2.0))}
"""The whole plane takes minutes: exact arithmetic decides much of the map of 100 rows with random labels at large costs."""


@parametrize_with_checks(
    [AsymmetricSVC(**kind) for kind in LINEAR + RBF]
    + [estimator(**kind) for estimator in (AtlasSVC, AsymmetricSVCCV) for kind in LINEAR]
    + [estimator(**kind, **FINITE) for estimator in (AtlasSVC, AsymmetricSVCCV) for kind in RBF]
)  # no check is expected to fail
@pytest.mark.filterwarnings("ignore:the best costs touch the edge of the region")
@pytest.mark.filterwarnings("ignore:the best costs reach infinity")
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


# ----------------------------------------------------------------------------------------------------------------------
# Exactness


def dense():
    return cases.gaussian(15, 15, 3, 0.7)


def wide_and_sparse():
    return sp.random(30, 120, density=0.1, random_state=3, format="csr"), np.arange(30) % 3 == 0


def long_and_sparse():
    return sp.random(40, 4, density=0.4, random_state=4, format="csr"), np.arange(40) % 2


def gram_of(X, kernel):
    """Kernel matrix with the bias constant of 1."""
    A = X.toarray() if sp.issparse(X) else X
    return (A @ A.T if kernel == "linear" else np.exp(-((A[:, None] - A[None]) ** 2).sum(axis=2) / 2)) + 1.0


def gap_of(model, K, y, C_pos, C_neg):
    """Relative duality gap from the dual variables alone, of the model as it decides on its training data."""
    sign = np.where(y, 1.0, -1.0)
    signed = np.zeros(len(y))
    signed[model.support_] = model.dual_coef_[0]
    alpha, cost = sign * signed, np.where(y, C_pos, C_neg)
    assert np.all(alpha >= 0)
    assert np.all(alpha <= cost)
    square = signed @ K @ signed
    primal = square / 2 + cost @ np.maximum(0, 1 - sign * (K @ signed))
    return abs(primal - (alpha.sum() - square / 2)) / primal


@pytest.mark.parametrize(
    ("case", "kernel"),
    [(dense, "linear"), (wide_and_sparse, "linear"), (long_and_sparse, "linear"), (dense, "rbf")],
)
def test_duality_gap_at_200_random_costs(case, kernel):
    X, y = case()
    K = gram_of(X, kernel)
    arguments = {"kernel": kernel, "gamma": 0.5}
    atlas = svmatlas.explore(X, y, **arguments)
    for C_pos, C_neg in np.exp(np.random.default_rng(0).uniform(np.log(1e-3), np.log(1e3), (200, 2))):
        fitted = AsymmetricSVC(C_pos, C_neg, **arguments).fit(X, y)
        for model in (fitted, atlas.estimator(C_pos, C_neg)):
            assert gap_of(model, K, y, C_pos, C_neg) < 1e-9
            assert model.duality_gap_ < 1e-9
            np.testing.assert_allclose(model.decision_function(X), atlas.decision_function(X, C_pos, C_neg), atol=1e-8)


@pytest.mark.parametrize("case", [dense, wide_and_sparse, long_and_sparse])
def test_never_worse_than_liblinear(case):
    X, y = case()
    for C_pos, C_neg in [(0.01, 0.01), (1.0, 0.1), (3.0, 20.0)]:
        own = AsymmetricSVC(C_pos, C_neg, bias=2.0).fit(X, y)
        other = LinearSVC(
            loss="hinge", C=1.0, class_weight={0: C_neg, 1: C_pos}, intercept_scaling=2.0, tol=1e-10, max_iter=10**6
        ).fit(X, y.astype(int))

        def objective(model, C_pos=C_pos, C_neg=C_neg):
            hinge = np.maximum(0, 1 - np.where(y, 1, -1) * (X @ model.coef_[0] + model.intercept_[0]))
            return (model.coef_ @ model.coef_.T + model.intercept_**2 / 4).item() / 2 + np.where(y, C_pos, C_neg) @ hinge

        assert objective(own) <= objective(other) * (1 + 1e-14)
        np.testing.assert_allclose(own.coef_, other.coef_, atol=1e-5)


def test_rbf_agrees_with_liblinear_on_a_factor_of_the_kernel():
    X, y = dense()
    values, vectors = np.linalg.eigh(gram_of(X, "rbf"))
    own = AsymmetricSVC(2.0, 0.5, kernel="rbf", gamma=0.5).fit(X, y)
    other = LinearSVC(loss="hinge", fit_intercept=False, class_weight={0: 0.5, 1: 2.0}, tol=1e-10, max_iter=10**6)
    factor = vectors * np.sqrt(np.maximum(values, 0))
    np.testing.assert_allclose(own.decision_function(X), other.fit(factor, y).decision_function(factor), atol=1e-5)


def test_attributes_are_those_of_svc():
    X, y = dense()
    model = AsymmetricSVC(2.0, 0.5).fit(X, y)
    assert model.coef_.shape == (1, 3)
    assert model.intercept_.shape == (1,)
    assert model.dual_coef_.shape == (1, model.support_.size)
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
    np.testing.assert_allclose(model.dual_coef_ @ model.support_vectors_, model.coef_, atol=1e-12)
    np.testing.assert_allclose(model.dual_coef_.sum(), model.intercept_[0], atol=1e-12)
    assert model.n_support_.tolist() == [np.sum(y[model.support_] == k) for k in (0, 1)]
    assert np.all(np.sign(model.dual_coef_[0]) == np.where(y[model.support_] == 1, 1, -1))
    rbf = AsymmetricSVC(kernel="rbf").fit(X, y)
    assert not hasattr(rbf, "coef_")
    by_hand = rbf_kernel(X, rbf.support_vectors_, gamma=1 / (3 * X.var())) @ rbf.dual_coef_[0] + rbf.intercept_[0]
    np.testing.assert_allclose(rbf.decision_function(X), by_hand, atol=1e-12)
    A, b = wide_and_sparse()
    sparse = AsymmetricSVC().fit(A, b)
    np.testing.assert_array_equal(sparse.support_vectors_.toarray(), A[sparse.support_].toarray())


# ----------------------------------------------------------------------------------------------------------------------
# Costs and weights


def test_class_weight_multiplies_the_costs():
    X, y = cases.gaussian(10, 20, 3, 0.7)
    balanced = AsymmetricSVC(C=0.3, class_weight="balanced").fit(X, y)
    assert (balanced.C_pos_, balanced.C_neg_) == pytest.approx((0.3 * 30 / 20, 0.3 * 30 / 40))
    np.testing.assert_array_equal(balanced.coef_, AsymmetricSVC(balanced.C_pos_, balanced.C_neg_).fit(X, y).coef_)
    weighted = AsymmetricSVC(2.0, 3.0, class_weight={0: 0.5, 1: 4.0}).fit(X, y)
    assert (weighted.C_pos_, weighted.C_neg_) == (8.0, 1.5)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_weight_two_is_a_row_twice(kernel):
    X, y = dense()
    weight = np.where(np.arange(len(y)) % 3 == 0, 2.0, 1.0)
    weight[4] = 0.0
    often = np.repeat(np.arange(len(y)), weight.astype(int))
    a = AsymmetricSVC(kernel=kernel).fit(X, y, sample_weight=weight)
    b = AsymmetricSVC(kernel=kernel).fit(X[often], y[often])
    np.testing.assert_allclose(a.decision_function(X), b.decision_function(X), atol=1e-10)


@pytest.mark.parametrize("C", [-1.0, np.nan, np.inf, "1", None])
def test_bad_costs(C):
    X, y = dense()
    with pytest.raises(ValueError, match="C_pos must be a finite number >= 0"):
        AsymmetricSVC(C_pos=C).fit(X, y)


@pytest.mark.parametrize("C", [-1.0, np.nan, np.inf, "1", 3.0])
def test_bad_costs_of_an_atlas(C):
    X, y = dense()
    with pytest.raises(ValueError, match=r"C_neg must be a finite cost in the region \[0.0, 2.0\]"):
        AtlasSVC(C_neg=C, region=((0, 2), (0, 2))).fit(X, y)


def test_zero_costs_give_the_zero_model():
    X, y = dense()
    model = AsymmetricSVC(0.0, 0.0).fit(X, y)
    assert not model.coef_.any()
    assert model.support_.size == 0
    assert not AsymmetricSVC(0.0, 0.0, kernel="rbf").fit(X, y).decision_function(X).any()


def test_set_costs_is_a_fit_of_these_costs():
    X, y = dense()
    model = AtlasSVC().fit(X, y)
    atlas = model.atlas_
    for C_pos, C_neg in [(0.1, 0.1), (2.0, 0.3), (0.02, 40.0)]:
        model.set_costs(C_pos, C_neg)
        assert model.atlas_ is atlas
        assert model.get_params()["C_pos"] == C_pos
        np.testing.assert_allclose(model.coef_, AsymmetricSVC(C_pos, C_neg).fit(X, y).coef_, atol=1e-12)
    with pytest.raises(ValueError, match=r"C_pos = -1\.0"):
        model.set_costs(-1.0, 1.0)
    with pytest.raises(ValueError, match="two finite costs"):
        model.set_costs(np.inf, 1.0)


# ----------------------------------------------------------------------------------------------------------------------
# In the company of scikit-learn


@pytest.mark.parametrize("estimator", BOTH)
def test_pipeline_search_clone_and_pickle(estimator):
    X, y = dense()
    search = GridSearchCV(
        make_pipeline(StandardScaler(), estimator()), {f"{estimator.__name__.lower()}__C_pos": [0.1, 1.0]}, cv=3
    )
    search.fit(X, y)
    model = search.best_estimator_
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    assert clone(model[-1]).get_params() == model[-1].get_params()


@pytest.mark.parametrize("estimator", BOTH)
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_with_feature_names(estimator, frame):
    X, y = dense()
    table = frame({name: X[:, k] for k, name in enumerate("abc")})
    model = estimator().fit(table, y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(model.predict(table), estimator().fit(X, y).predict(X))


def test_several_classes_and_probabilities():
    X, y = load_iris(return_X_y=True)
    assert OneVsRestClassifier(AsymmetricSVC()).fit(X[::3], y[::3]).score(X, y) > 0.8
    X, y = dense()
    probability = CalibratedClassifierCV(AsymmetricSVC(), cv=3).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    for estimator in ALL:
        with pytest.raises(ValueError, match=r"Only binary classification.*sklearn\.multiclass\.OneVsRestClassifier"):
            estimator().fit(X, np.arange(len(y)) % 3)
        with pytest.raises(ValueError, match=r"exactly two classes, got 1 class: \[7\]$"):
            estimator().fit(X, np.full(len(y), 7))


def test_labels_of_any_kind():
    X, y = dense()
    names = np.where(y == 1, "yes", "no")
    model = AsymmetricSVC(C_pos=3.0).fit(X, names)
    assert model.classes_.tolist() == ["no", "yes"]
    np.testing.assert_array_equal(model.predict(X) == "yes", AsymmetricSVC(C_pos=3.0).fit(X, y).predict(X) == 1)


def test_precomputed_kernels_are_cut_in_cross_validation():
    X, y = dense()
    K = rbf_kernel(X, gamma=0.5)
    given = cross_val_score(AsymmetricSVC(kernel="precomputed"), K, y, cv=3)
    np.testing.assert_array_equal(given, cross_val_score(AsymmetricSVC(kernel="rbf", gamma=0.5), X, y, cv=3))
