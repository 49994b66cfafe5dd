"""Random selections at any time on tables as people have them: binary, ordered and one-hot columns, decimals, repeated rows.

``trial(seed)`` makes one, with a budget of time or a tolerance, and asks scikit-learn whether the costs reach the score that
is reported; small tables are selected exactly as well, and the bound is held against that.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler

import svmatlas
from tests import cases
from tests.selections import SCORERS

SMALL = 4000
"""Rows times columns up to which the exact selection is made, too."""

KINDS = ("segments", "binary", "one-hot", "counts", "decimals", "repeated", "mixed")


class Case(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    change: object  # the preprocessor
    arguments: dict


def table(rng, kind):
    """Rows of some kind, and labels that depend on them, of which few are positive."""
    n, d = int(rng.integers(40, 250)), int(rng.integers(2, 9))
    if kind == "segments":
        return cases.segments(int(rng.integers(1000)), n)
    if kind == "one-hot":
        X = np.hstack([np.eye(k)[rng.integers(0, k, n)] for k in rng.integers(2, 6, 3)])
    else:
        X = {
            "binary": lambda: rng.integers(0, 2, (n, d)).astype(float),
            "counts": lambda: rng.poisson(2.0, (n, d)).astype(float),
            "decimals": lambda: np.round(rng.normal(size=(n, d)), 1),
            "repeated": lambda: rng.normal(size=(n // 4 + 1, d))[rng.integers(0, n // 4 + 1, n)],
            "mixed": lambda: np.column_stack(
                [rng.integers(0, 2, n), rng.integers(18, 90, n), np.round(rng.lognormal(9, 1, n)), rng.normal(size=(n, d))]
            ),
        }[kind]()
    value = X / (X.std(axis=0) + 1e-9) @ rng.normal(size=X.shape[1]) + rng.normal(size=n)
    y = (value > np.quantile(value, rng.choice([0.5, 0.8, 0.9]))).astype(int)
    y[rng.permutation(n)[:10]] = np.arange(10) % 2
    return X, y


def make(seed):
    """Data and arguments of one selection."""
    rng = np.random.default_rng(seed)
    X, y = table(rng, KINDS[seed % len(KINDS)])
    change = [FunctionTransformer(), StandardScaler(), StandardScaler(), MinMaxScaler()][rng.integers(4)]
    arguments = {
        "cv": int(rng.integers(2, min(5, np.bincount(y).min()) + 1)),
        "scoring": str(rng.choice(list(SCORERS))),
        "rule": str(rng.choice(["best", "best", "one_se"])),
    }
    if rng.random() < 0.3:
        arguments["threshold"] = "tuned"
    if rng.random() < 0.7:
        arguments["time_budget"] = float(rng.choice([0.3, 1.0, 3.0]))
    if rng.random() < 0.5 or "time_budget" not in arguments:
        arguments["tolerance"] = float(rng.choice([0.0, 0.01, 0.05]))
    return Case(X, y, change, arguments)


def trial(seed):
    """Select, and let scikit-learn score the costs: AssertionError if they do not reach what is reported."""
    X, y, change, arguments = make(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            found = svmatlas.select(X, y, preprocessor=change, **arguments)
        except ValueError as error:
            short = arguments["rule"] == "one_se" and arguments.get("time_budget", 1.0) < 1.0  # maps of all folds in a box
            if short and "give it more time" in str(error):
                return "no time"
            raise
        model = make_pipeline(change, svmatlas.AsymmetricSVC(found.C_pos, found.C_neg))
        scorer, folds = SCORERS[arguments["scoring"]], StratifiedKFold(arguments["cv"])
        scores = cross_val_score(model, X, y, cv=folds, scoring=scorer, error_score="raise")
    assert found.best_score <= found.upper_bound
    assert found.certified == (found.best_score == found.upper_bound)
    assert abs(scores.mean() - found.score_at(found.C_pos, found.C_neg)) < 1e-12
    if arguments["rule"] == "best":
        assert abs(scores.mean() - found.best_score) < 1e-12
    if "time_budget" not in arguments:
        assert found.upper_bound - found.best_score <= arguments["tolerance"] + 1e-12
    if X.size <= SMALL:
        exact = svmatlas.select(X, y, preprocessor=change, cv=arguments["cv"], scoring=arguments["scoring"], time_budget=None)
        assert found.best_score <= exact.best_score + 1e-12
        assert found.upper_bound >= exact.best_score - 1e-12
    return "certified" if found.certified else "bounded"
