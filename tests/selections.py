"""Random small selections that are hard on purpose: offsets, lattices, binary columns, unscaled columns, few rows.

``trial(seed)`` makes one and asks scikit-learn whether the costs reach the score that is certified. Nothing of the package's
own reading of scores is used.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score, jaccard_score, make_scorer, matthews_corrcoef
from sklearn.model_selection import StratifiedKFold, cross_val_score

import svmatlas

SCORERS = {
    "accuracy": make_scorer(accuracy_score),
    "balanced_accuracy": make_scorer(balanced_accuracy_score),
    "f1": make_scorer(f1_score, zero_division=0),
    "jaccard": make_scorer(jaccard_score, zero_division=0),
    "matthews_corrcoef": make_scorer(matthews_corrcoef),
}

KINDS = ("offset 0", "offset 10", "offset 100", "lattice", "binary column", "mixed", "unscaled")


class Case(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    arguments: dict


def make(seed, most_rows=40):
    """Data and arguments of one selection."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    n, d = int(rng.integers(12, most_rows)), int(rng.integers(1, 5))
    y = rng.permutation(np.r_[np.zeros(6, int), np.ones(6, int), rng.integers(0, 2, n - 12)])
    X = rng.normal(size=(n, d)) + rng.integers(0, 2) * y[:, None]
    if kind.startswith("offset"):
        X += float(kind.split()[1])
    elif kind == "lattice":
        X = rng.integers(-2, 3, (n, d)).astype(float)
    elif kind == "binary column":
        X[:, 0] = rng.integers(0, 2, n)
    elif kind == "mixed":
        X = np.column_stack([rng.integers(0, 2, (n, d)), rng.choice([0.0, 10.0, 100.0]) + X[:, :1], rng.integers(0, 5, n)])
    else:
        X = np.column_stack([X, rng.integers(0, 2, n), 10.0 ** rng.integers(3, 9) * rng.normal(size=n)])
    folds = int(rng.integers(2, min(6, np.bincount(y).min()) + 1))
    scoring = str(rng.choice(list(SCORERS)))
    return Case(X, y, {"cv": folds, "scoring": scoring, "bias": float(rng.choice([1.0, 1.0, 0.1, 0.0]))})


def trial(seed, most_rows=40):
    """Select, and let scikit-learn score the costs: AssertionError if they do not reach what is certified."""
    X, y, arguments = make(seed, most_rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        selection = svmatlas.select(X, y, **arguments)
        model = svmatlas.AsymmetricSVC(selection.C_pos, selection.C_neg, bias=arguments["bias"])
        folds = StratifiedKFold(arguments["cv"])
        scores = cross_val_score(model, X, y, cv=folds, scoring=SCORERS[arguments["scoring"]], error_score="raise")
    assert selection.certified
    np.testing.assert_allclose(scores, selection.fold_scores, rtol=0, atol=1e-12)
    assert abs(scores.mean() - selection.best_score) < 1e-12
    assert abs(selection.score_at(selection.C_pos, selection.C_neg) - selection.best_score) < 1e-12
    assert selection.cell.contains(selection.C_pos, selection.C_neg)
    return "certified and reached"
