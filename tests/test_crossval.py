"""The classifier that chooses its costs."""

from __future__ import annotations

import numpy as np
import pytest

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


def test_bad_refit_costs(fitted):
    X, y, _ = fitted
    with pytest.raises(ValueError, match="refit_costs"):
        AsymmetricSVCCV(refit_costs="sum").fit(X, y)
