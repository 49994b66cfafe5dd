"""Scores of predictions, by their counts in each fold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

EQUAL = 1e-12
"""Scores are means of ratios of counts: they differ by more, or are equal."""


def _ratio(over: Any, under: Any) -> Any:
    return np.divide(over, under, out=np.zeros(np.shape(over + under)), where=np.asarray(under) != 0)


def _matthews(tp: Any, tn: Any, P: Any, N: Any) -> Any:
    fp, fn = N - tn, P - tp
    return _ratio(tp * tn - fp * fn, np.sqrt((tp + fp) * P * N * (tn + fn)))


SCORES: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "accuracy": lambda tp, tn, P, N: _ratio(tp + tn, P + N),
    "balanced_accuracy": lambda tp, tn, P, N: (_ratio(tp, P) + _ratio(tn, N)) / 2,
    "f1": lambda tp, tn, P, N: _ratio(2 * tp, tp + P + N - tn),
    "jaccard": lambda tp, tn, P, N: _ratio(tp, P + N - tn),
    "matthews_corrcoef": _matthews,
    "precision": lambda tp, tn, P, N: _ratio(tp, tp + N - tn),
    "recall": lambda tp, tn, P, N: _ratio(tp, P),
}
"""Scores of tp right positive and tn right negative rows among P and N; all are monotone in both."""
