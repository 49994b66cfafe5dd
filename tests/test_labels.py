"""Which label is positive: ``pos_label`` is the same as other names for the labels, everywhere."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import get_scorer

import svmatlas
from svmatlas import AsymmetricSVC, AsymmetricSVCCV, AtlasSVC

REGION = ((0.05, 2.0), (0.02, 1.0))


def table(kind):
    """Thirty rows with one binary column and repeated rows; "yes" is rare, and larger than "no"."""
    rng = np.random.default_rng(3)
    sick = np.arange(30) % 3 == 0
    X = np.column_stack([rng.normal(size=30) + sick, rng.integers(0, 2, 30), rng.integers(0, 3, 30)])
    X[5], X[7] = X[4], X[6]
    return X, np.where(sick, "yes", "no").astype(kind)


@pytest.mark.parametrize("kind", [str, object])
def test_a_map_with_the_smaller_label_as_positive_is_that_of_exchanged_names(kind):
    X, y = table(kind)
    turned = svmatlas.explore(X, y, region=REGION, pos_label="no")
    renamed = svmatlas.explore(X, y == "no", region=REGION)
    assert turned.classes_.tolist() == ["yes", "no"]
    assert np.array_equal(turned.vertices, renamed.vertices)
    assert np.array_equal(turned.coef(0.5, 0.1), renamed.coef(0.5, 0.1))
    assert "positive: 'no'" in repr(turned)


def test_a_file_keeps_which_label_is_positive(tmp_path):
    X, y = table(str)
    svmatlas.explore(X, y, region=REGION, pos_label="no").save(tmp_path / "map")
    atlas = svmatlas.load(tmp_path / "map")
    assert atlas.classes_.tolist() == ["yes", "no"]
    model = atlas.estimator(0.5, 0.1)
    assert "pos_label='no'" in repr(model)
    assert clone(model).fit(X, y).predict(X).tolist() == model.predict(X).tolist()


def test_paths_follow_the_positive_label():
    X, y = table(str)
    path = svmatlas.ray(X, y, ratio=2.0, C_max=1.0, pos_label="no")
    assert np.array_equal(path.coef(0.3), svmatlas.ray(X, y == "no", ratio=2.0, C_max=1.0).coef(0.3))
    part = svmatlas.segment(X, y, (0.1, 0.1), (0.6, 0.3), pos_label="no")
    assert np.allclose(part.coef(1.0), path.coef(0.3), rtol=0, atol=1e-12)
    assert "positive: 'no'" in repr(path)
    assert "positive: 'no'" in repr(part)


def test_choices_follow_the_positive_label():
    X, y = table(str)
    best = svmatlas.select(X, y, cv=3, scoring="f1", region=REGION, pos_label="no")
    renamed = svmatlas.select(X, y == "no", cv=3, scoring="f1", region=REGION)
    other = svmatlas.select(X, y, cv=3, scoring="f1", region=REGION)
    assert (best.best_score, best.C_pos, best.C_neg) == (renamed.best_score, renamed.C_pos, renamed.C_neg)
    assert best.best_score != other.best_score
    assert "positive: 'no'" in repr(best)
    front = svmatlas.roc_frontier(X, y, cv=3, region=REGION, pos_label="no")
    assert np.array_equal(front.tpr, svmatlas.roc_frontier(X, y == "no", cv=3, region=REGION).tpr)
    assert "positive: 'no'" in repr(front)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_classifiers_keep_to_scikit_learn_whichever_label_is_positive(kernel):
    X, y = table(str)
    turned = AsymmetricSVC(0.3, 1.5, kernel=kernel, pos_label="no").fit(X, y)
    plain = AsymmetricSVC(1.5, 0.3, kernel=kernel).fit(X, y)
    assert turned.classes_.tolist() == ["no", "yes"]
    assert turned.pos_label_ == "no"
    assert np.allclose(turned.decision_function(X), plain.decision_function(X), rtol=0, atol=1e-9)
    assert turned.n_support_.tolist() == plain.n_support_.tolist()
    assert turned.predict(X).tolist() == plain.predict(X).tolist()
    assert get_scorer("roc_auc")(turned, X, y) == get_scorer("roc_auc")(plain, X, y) > 0.5
    assert pickle.loads(pickle.dumps(turned)).predict(X).tolist() == turned.predict(X).tolist()


def test_rows_on_the_boundary_are_negative_whichever_label_that_is():
    X, y = [[-1.0], [1.0]], ["a", "b"]
    for pos_label, negative in (("a", "b"), ("b", "a")):
        model = AsymmetricSVC(bias=0.0, pos_label=pos_label).fit(X, y)
        assert model.decision_function([[0.0]]) == 0.0
        assert model.predict([[0.0], [1.0], [-1.0]]).tolist() == [negative, "b", "a"]


def test_all_classifiers_take_the_positive_label():
    X, y = table(str)
    model = AsymmetricSVC(0.5, 0.1, pos_label="no", class_weight={"no": 2.0, "yes": 3.0}).fit(X, y)
    assert (model.C_pos_, model.C_neg_) == (1.0, pytest.approx(0.3))
    maps = AtlasSVC(1.0, 0.3, region=REGION, pos_label="no").fit(X, y)
    assert np.allclose(maps.coef_, model.coef_, rtol=0, atol=1e-10)
    chosen = AsymmetricSVCCV(cv=3, scoring="f1", region=REGION, pos_label="no").fit(X, y)
    assert chosen.best_score_ == svmatlas.select(X, y == "no", cv=3, scoring="f1", region=REGION).best_score
    again = AsymmetricSVC(chosen.C_pos_, chosen.C_neg_, pos_label="no").fit(X, y)
    assert again.predict(X).tolist() == chosen.predict(X).tolist()


@pytest.mark.parametrize("wrong", ["maybe", 1, ["no"], np.nan])
def test_a_label_that_is_not_there_is_an_error_that_names_those_that_are(wrong):
    X, y = table(str)
    for run in (lambda: svmatlas.explore(X, y, pos_label=wrong), lambda: AsymmetricSVC(pos_label=wrong).fit(X, y)):
        with pytest.raises(ValueError, match=r"pos_label must be one of the labels \['no', 'yes'\], got"):
            run()


def test_costs_of_a_fitted_map_may_be_set_as_parameters():
    X, y = table(str)
    model = AtlasSVC(1.0, 0.3, region=REGION).fit(X, y)
    other = AsymmetricSVC(0.4, 0.1).fit(X, y)
    assert np.allclose(model.set_params(C_pos=0.4, C_neg=0.1).coef_, other.coef_, rtol=0, atol=1e-10)
    assert (model.C_pos_, model.C_neg_) == (0.4, 0.1)
    before = model.coef_
    assert model.set_params(verbose=True).coef_ is before
    with pytest.raises(ValueError, match="not a cost in the region"):
        model.set_params(C_pos=50.0)
    assert clone(model).set_params(C_pos=7.0).C_pos == 7.0  # of one that is not fitted it is for the next fit


@pytest.mark.parametrize("kernel", ["rbf", "poly", "precomputed"])
def test_paths_with_kernels_go_through_the_models_with_kernels(kernel):
    X, y = table(str)
    if kernel == "precomputed":
        X = X @ X.T
    path = svmatlas.ray(X, y, ratio=2.0, C_max=1.0, kernel=kernel)
    part = svmatlas.segment(X, y, (0.2, 0.1), (1.0, 0.5), kernel=kernel)
    model = AsymmetricSVC(1.0, 0.5, kernel=kernel).fit(X, y)
    for values in (path.decision_function(X, 0.5), part.decision_function(X, [0.3, 1.0])[1]):
        assert np.allclose(values, model.decision_function(X), rtol=0, atol=1e-9)
    assert path.intercept(0.5) == pytest.approx(model.intercept_[0], abs=1e-9)
    with pytest.raises(ValueError, match="linear kernel only"):
        path.coef(0.5)
    with pytest.raises(ValueError, match="features, but the path was made with"):
        path.decision_function(X[:, :1], 0.5)
