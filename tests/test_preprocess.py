"""Preprocessing that is fitted to the training rows of each fold and to all rows for the model."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import svmatlas
from svmatlas import AsymmetricSVC, AsymmetricSVCCV

REGION = ((0.05, 1.0), (0.05, 1.0))


def raw(n=60):
    """A data frame with categories, some of them rare, missing values, and a column of large numbers."""
    rng = np.random.default_rng(0)
    sick = np.arange(n) % 4 == 0
    frame = pd.DataFrame({
        "age": np.where(rng.uniform(size=n) < 0.1, np.nan, rng.normal(50, 9, n) + 6 * sick),
        "dose": rng.normal(3e4, 8e3, n),
        "ward": np.where(np.arange(n) == 7, "rare", rng.choice(["a", "b", "c"], n)),
    })  # fmt: skip
    frame.loc[3, "ward"] = None
    return frame, np.where(sick, "sick", "well")


def preparation():
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    words = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    return make_column_transformer((numbers, ["age", "dose"]), (words, ["ward"]))


@pytest.mark.parametrize("form", [pd.DataFrame, pl.from_pandas])
def test_scores_are_those_of_a_pipeline_that_is_fitted_fold_by_fold(form):
    X, y = raw()
    X = form(X)
    best = svmatlas.select(
        X, y, cv=3, scoring="accuracy", region=REGION, preprocessor=preparation(), pos_label="sick"
    )  # fmt: skip
    model = make_pipeline(preparation(), AsymmetricSVC(best.C_pos, best.C_neg, pos_label="sick"))
    scores = cross_val_score(model, X, y, cv=StratifiedKFold(3))
    assert np.allclose(scores, best.fold_scores)


class Spy(TransformerMixin, BaseEstimator):
    """Remembers, in the class, what it was fitted to."""

    seen: list[list[float]] = []

    def fit(self, X, y):
        assert len(X) == len(y)
        self.seen.append(np.asarray(X)[:, 0].tolist())
        self.mean_ = np.mean(X, axis=0)
        return self

    def transform(self, X):
        return np.asarray(X) - self.mean_


def test_nothing_is_fitted_to_held_out_rows():
    X = np.random.default_rng(0).normal(size=(40, 2))
    y = np.arange(40) % 2
    Spy.seen.clear()
    splits = list(StratifiedKFold(2).split(X, y))
    model = AsymmetricSVCCV(cv=splits, region=REGION, preprocessor=Spy()).fit(X, y)
    assert Spy.seen == [*(X[train, 0].tolist() for train, _ in splits), X[:, 0].tolist()]
    assert not hasattr(model.preprocessor, "mean_")


def test_a_fitted_model_takes_raw_rows():
    X, y = raw()
    model = AsymmetricSVCCV(cv=3, region=REGION, preprocessor=preparation(), pos_label="sick").fit(X, y)
    own = make_pipeline(preparation(), AsymmetricSVC(model.C_pos_, model.C_neg_, pos_label="sick")).fit(X, y)
    assert model.predict(X).tolist() == own.predict(X).tolist()
    assert model.feature_names_in_.tolist() == ["age", "dose", "ward"]
    assert model.predict(X.assign(ward="new")).shape == (60,)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X.rename(columns={"age": "years"}))
    again = pickle.loads(pickle.dumps(model))
    assert again.predict(X).tolist() == model.predict(X).tolist()


def test_frontiers_and_kernels_are_preprocessed_too():
    X, y = raw(40)
    front = svmatlas.roc_frontier(X, y, cv=2, region=REGION, preprocessor=preparation(), kernel="rbf", gamma=0.3)
    assert front.n_pos + front.n_neg == 40


@pytest.mark.parametrize(("wrong", "text"), [
    (StandardScaler, "must be a transformer"), ("scale", "must be a transformer"), (AsymmetricSVC(), "must be a transformer"),
])  # fmt: skip
def test_what_is_no_transformer_is_refused(wrong, text):
    X, y = raw()
    for run in (svmatlas.select, lambda X, y, **more: AsymmetricSVCCV(**more).fit(X, y)):
        with pytest.raises(ValueError, match=text):
            run(X, y, preprocessor=wrong)


def test_a_kernel_matrix_is_not_preprocessed():
    with pytest.raises(ValueError, match="a precomputed kernel cannot be preprocessed"):
        svmatlas.select(np.eye(6), [0, 1] * 3, kernel="precomputed", preprocessor=StandardScaler())


def test_what_a_preprocessor_leaves_missing_is_said():
    X, y = raw()
    with pytest.raises(ValueError, match="NaN"):
        svmatlas.select(X[["age"]], y, cv=2, preprocessor=StandardScaler())


def test_a_pickled_classifier_is_as_small_as_its_model():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3 == 0
    X = rng.normal(size=(120, 2)) + y[:, None]
    model = AsymmetricSVCCV(cv=3, region=((0.01, 10.0), (0.01, 10.0))).fit(X, y)
    small = len(pickle.dumps(AsymmetricSVC(model.C_pos_, model.C_neg_).fit(X, y)))
    assert len(pickle.dumps(model)) < small + 20_000 < len(pickle.dumps(model.selection_))
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    assert again.selection_.cell.center == model.selection_.cell.center
    assert model.selection_.score_at(0.1, 0.1) > 0
    with pytest.raises(ValueError, match="keeps no zero curves"):
        again.selection_.score_at(0.1, 0.1)


def test_the_scores_of_the_best_and_of_the_chosen_cell_have_names_of_their_own():
    rng = np.random.default_rng(1)
    y = np.arange(80) % 3 == 0
    X = rng.normal(size=(80, 2)) + y[:, None]
    model = AsymmetricSVCCV(cv=4, rule="one_se").fit(X, y)
    found = model.selection_
    assert found.best_score == pytest.approx(found.best_fold_scores.mean())
    assert found.score == pytest.approx(found.fold_scores.mean()) == found.score_at(found.C_pos, found.C_neg)
    assert found.score < found.best_score
    assert (model.best_score_, model.chosen_score_) == (found.best_score, found.score)
