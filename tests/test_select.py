"""The exact best costs against brute force, scikit-learn and themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import StratifiedKFold

import svmatlas
from svmatlas import scoring
from tests import brute

REGION = ((0.01, 100.0), (0.01, 100.0))


def check_against_brute_force(X, y, score, region=REGION, bias=1.0):
    splits = list(StratifiedKFold(3).split(X, y))
    selection = svmatlas.select(X, y, cv=splits, scoring=score, region=region, bias=bias)
    best, points, labels = brute.best_cells(X, y, splits, score, region, bias)
    assert selection.certified
    assert selection.best_score == pytest.approx(best, abs=1e-12)
    held = np.array([[cell.contains(*point) for cell in selection.cells] for point in points])
    assert held.any(axis=1).all()
    clear = held.sum(axis=1) == 1  # a sample in a very narrow corner may be on the border of two
    pairs = {(int(label), int(np.argmax(row))) for label, row in zip(labels[clear], held[clear], strict=True)}
    assert len(pairs) == len(selection.cells) == labels.max() + 1
    return selection


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_brute_force_finds_the_same_cells(data):
    seed = data.draw(st.integers(0, 10**6), label="seed")
    n = data.draw(st.integers(12, 36), label="n")
    d = data.draw(st.integers(1, 4), label="d")
    tied = data.draw(st.booleans(), label="tied")
    score = data.draw(st.sampled_from([scoring.accuracy, scoring.balanced_accuracy, scoring.fbeta(1.0)]), label="score")
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3 == 0
    X = rng.integers(0, 3, size=(n, d)).astype(float) if tied else rng.normal(size=(n, d))
    check_against_brute_force(X + 0.5 * y[:, None] * (not tied), y.astype(int), score)
