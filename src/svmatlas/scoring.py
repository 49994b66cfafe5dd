"""Scores for ``select``: functions of the counts (tn, fp, fn, tp), beside those known by name."""

from svmatlas.choose.scoring import (
    accuracy,
    balanced_accuracy,
    expected_cost,
    expected_gain,
    fbeta,
    jaccard,
    matthews_corrcoef,
    precision,
    precision_at_recall,
    recall,
    recall_at_precision,
)

__all__ = [
    "accuracy",
    "balanced_accuracy",
    "expected_cost",
    "expected_gain",
    "fbeta",
    "jaccard",
    "matthews_corrcoef",
    "precision",
    "precision_at_recall",
    "recall",
    "recall_at_precision",
]
