"""Scores by name, as scikit-learn has them, and what is said of those that are not counted from predictions."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics
from sklearn.metrics import make_scorer
from sklearn.model_selection import cross_val_score

import svmatlas
from svmatlas.choose import scoring
from svmatlas.choose.scoring import get_score
from svmatlas.scoring import fbeta

COUNTS = (9, 4, 2, 5)
Y = np.repeat([0, 0, 1, 1], COUNTS)
PREDICTED = np.repeat([0, 1, 0, 1], COUNTS)


@pytest.mark.parametrize("name", ["accuracy", "balanced_accuracy", "f1", "jaccard", "precision", "recall"])
def test_names_functions_and_scorers_of_scikit_learn_are_understood(name):
    function = getattr(metrics, f"{name}_score")
    for given in (name, function, make_scorer(function), metrics.get_scorer(name)):
        assert get_score(given)(*COUNTS) == pytest.approx(function(Y, PREDICTED))


@pytest.mark.parametrize("name", ["roc_auc", "average_precision"])
def test_rankings_are_understood(name):
    own = getattr(scoring, name)
    for given in (name, own, getattr(metrics, f"{name}_score"), metrics.get_scorer(name)):
        assert get_score(given) is own


def test_scorers_with_arguments_are_understood():
    own = get_score(make_scorer(metrics.fbeta_score, beta=2, zero_division=0))
    assert own(*COUNTS) == pytest.approx(metrics.fbeta_score(Y, PREDICTED, beta=2))
    assert get_score(metrics.matthews_corrcoef)(*COUNTS) == pytest.approx(metrics.matthews_corrcoef(Y, PREDICTED))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("roc_auc_ovr", "'roc_auc_ovr': it is made of decision values.* not counted.* use one of 'accuracy'"),
        ("neg_log_loss", "not counted from predictions"),
        (metrics.ndcg_score, "ndcg_score is not known here: it is made of decision values"),
        ("fancy", "unknown scoring 'fancy': use one of 'accuracy'"),
        (metrics.fbeta_score, "needs beta: use svmatlas.scoring.fbeta"),
        (metrics.get_scorer("roc_auc_ovr"), "is not made of predictions"),
        (make_scorer(metrics.zero_one_loss, greater_is_better=False), "greater_is_better=False is a loss"),
        (make_scorer(metrics.f1_score, pos_label=0), "pos_label=0, but the positive label here is 1: pos_label is an"),
        (make_scorer(metrics.f1_score, average="macro"), "average='macro' is not known"),
        (make_scorer(lambda y, p: 1.0), "takes labels, and counts are needed"),
        (lambda y, p: 1.0, r"a function of four counts \(tn, fp, fn, tp\): <lambda> takes \(y, p\)"),
        (np.float64(2.0), r"a name or a function of \(tn, fp, fn, tp\), got 2.0"),
    ],
)
def test_what_is_not_understood_is_refused_with_the_reason(given, text):
    X, y = np.arange(8.0)[:, None], np.arange(8) % 2
    with pytest.raises(ValueError, match=text):
        svmatlas.select(X, y, cv=2, scoring=given)


def test_a_scorer_may_name_the_positive_label():
    """As scikit-learn needs it where labels are text."""
    rng = np.random.default_rng(1)
    y = np.where(np.arange(24) % 3 == 0, "ill", "well")
    X = rng.normal(size=(24, 2)) + (y == "ill")[:, None]
    scorer = make_scorer(metrics.f1_score, pos_label="ill")
    best = svmatlas.select(X, y, cv=2, scoring=scorer, pos_label="ill", region=((0.1, 1.0), (0.1, 1.0)))
    model = svmatlas.AsymmetricSVC(best.C_pos, best.C_neg, pos_label="ill")
    assert np.mean(cross_val_score(model, X, y, cv=2, scoring=scorer)) == pytest.approx(best.best_score)
    with pytest.raises(ValueError, match="the positive label here is 'well'"):
        svmatlas.select(X, y, cv=2, scoring=scorer)


def test_precision_and_recall_are_searched_exactly():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 3 == 0
    X = rng.normal(size=(40, 2)) + y[:, None]
    for name in ("precision", "recall"):
        best = svmatlas.select(X, y, cv=2, scoring=name, region=((0.1, 10.0), (0.1, 10.0)))
        assert best.certified
        assert best.best_score == pytest.approx(best.score_at(best.C_pos, best.C_neg))


def test_three_classes_are_sent_to_one_against_the_rest():
    X, y = np.arange(9.0)[:, None], np.arange(9) % 3
    runs = (
        lambda: svmatlas.explore(X, y), lambda: svmatlas.ray(X, y), lambda: svmatlas.select(X, y),
        lambda: svmatlas.AsymmetricSVC().fit(X, y), lambda: svmatlas.AsymmetricSVCCV().fit(X, y),
    )  # fmt: skip
    for run in runs:
        with pytest.raises(ValueError, match="OneVsRestClassifier"):
            run()


def test_an_error_shows_plain_numbers():
    with pytest.raises(ValueError, match=r"beta must be positive, got -1.5"):
        fbeta(np.float64(-1.5))
