"""The classifier that chooses its costs."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import TunedThresholdClassifierCV

import svmatlas
from svmatlas import AsymmetricSVC, AsymmetricSVCCV
from tests.test_select import noisy


@pytest.fixture(scope="module")
def fitted():
    X, y = noisy(42)
    return X, y, AsymmetricSVCCV(cv=3).fit(X, y)


def test_it_is_the_model_of_the_selection(fitted):
    X, y, model = fitted
    selection = svmatlas.select(X, y, cv=3)
    assert (model.C_pos_, model.C_neg_, model.best_score_) == (selection.C_pos, selection.C_neg, selection.best_score)
    plain = AsymmetricSVC(selection.C_pos, selection.C_neg).fit(X, y)
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))


def test_mean_loss_keeps_the_weight_of_each_class(fitted):
    """Three folds of 14 positive and 28 negative rows: two thirds of each class (here 9 or 10 of 14) are trained on."""
    X, y, model = fitted
    scaled = AsymmetricSVCCV(cv=3, refit_costs="mean_loss").fit(X, y)
    np.testing.assert_allclose([scaled.C_pos_ / model.C_pos_, scaled.C_neg_ / model.C_neg_], 2 / 3, rtol=1e-12)


def test_without_refit_there_are_costs_only(fitted):
    X, y, model = fitted
    costs = AsymmetricSVCCV(cv=3, refit=False).fit(X, y)
    assert (costs.C_pos_, costs.C_neg_) == (model.C_pos_, model.C_neg_)
    assert not hasattr(costs, "coef_")


def test_the_edge_of_a_region_is_warned_of(fitted):
    X, y, model = fitted
    with pytest.warns(UserWarning, match="edge of the region"):
        AsymmetricSVCCV(cv=3, region=((model.C_pos_, 2 * model.C_pos_), (model.C_neg_, 2 * model.C_neg_))).fit(X, y)


def test_infinity_is_warned_of():
    X, y = noisy(30, 3, shift=6.0)
    with pytest.warns(UserWarning, match="reach infinity"):
        AsymmetricSVCCV(cv=3, tolerance=0.0).fit(X, y)


@pytest.mark.filterwarnings("ignore:the best costs touch the edge of the region")
def test_predictions_follow_the_tuned_threshold(fitted):
    """Where the costs are poor: too many rows are negative, but for a threshold below zero."""
    X, y, _ = fitted
    poor = {"cv": 3, "region": ((0.1, 0.12), (0.2, 0.25))}
    plain, model = AsymmetricSVCCV(**poor).fit(X, y), AsymmetricSVCCV(**poor, threshold="tuned").fit(X, y)
    assert plain.threshold_ == 0.0 > model.threshold_
    assert model.best_score_ == model.selection_.threshold_score > plain.best_score_
    np.testing.assert_array_equal(model.decision_function(X), plain.decision_function(X))
    np.testing.assert_array_equal(model.predict(X), (model.decision_function(X) > model.threshold_).astype(int))


@pytest.mark.parametrize("model", [AsymmetricSVC(), AsymmetricSVCCV(cv=3, region=((0.1, 1.0), (0.1, 1.0)))])
@pytest.mark.filterwarnings("ignore:the best costs touch the edge of the region")
def test_thresholds_of_scikit_learn_go_around_our_classifiers(fitted, model):
    X, y, _ = fitted
    tuned = TunedThresholdClassifierCV(model, cv=3, response_method="decision_function", thresholds=20).fit(X, y)
    predicted = tuned.estimator_.decision_function(X) >= tuned.best_threshold_
    np.testing.assert_array_equal(tuned.predict(X), predicted.astype(int))


def test_bad_refit_costs(fitted):
    X, y, _ = fitted
    with pytest.raises(ValueError, match="refit_costs"):
        AsymmetricSVCCV(refit_costs="sum").fit(X, y)
