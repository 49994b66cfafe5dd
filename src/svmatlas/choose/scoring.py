r"""Scores of predictions: functions of the counts (tn, fp, fn, tp) that do not fall when a prediction becomes right.

With P positive and N negative rows, fp = N - tn and fn = P - tp, so a score is a function of (tp, tn); it is *monotone* if it
falls in neither. That is what a search needs: with all open predictions right, a score is at its highest.

Matthews' correlation is monotone. With a = tp/P, b = fp/N, s = Pa + Nb and T = P + N it is
sqrt(PN) (a - b) / sqrt(s (T - s)). Its derivative in a has the sign of 2s(T - s) - P(a - b)(T - 2s). For a >= b and T > 2s
this is >= 0 as s >= P(a - b) and 2(T - s) >= T - 2s; for a < b and T < 2s as T - s >= P(b - a) and s >= 2s - T; else both
terms are >= 0. Exchanging the classes (a, b -> 1 - b, 1 - a) leaves it as it is, so the same holds for tn; at s = 0 and
s = T it is 0 by convention, between the values around. Monotony of the others is plain; whatever is given is checked in full.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.data.labels import is_label
from svmatlas.support.messages import shown

Floats = npt.NDArray[np.float64]
Score = Callable[[Any, Any, Any, Any], Any]

SLACK = 1e-12
"""A score may fall by this much by rounding, relative to the largest (or to 1)."""

DIGITS = 52
"""Bits of the sum of the amounts of all rows, in their unit: it is a double, and so are all parts of it."""


def _ratio(over: Any, under: Any) -> Any:
    """Ratio, 0 where it is 0/0, as scikit-learn's scores have it."""
    over, under = np.asarray(over, dtype=float), np.asarray(under, dtype=float)
    return np.divide(over, under, out=np.zeros(np.broadcast(over, under).shape), where=under != 0)


def accuracy(tn: Any, fp: Any, fn: Any, tp: Any) -> Any:
    """Share of right predictions."""
    return _ratio(tp + tn, tn + fp + fn + tp)


def balanced_accuracy(tn: Any, fp: Any, fn: Any, tp: Any) -> Any:
    """Mean of the shares of right predictions of both classes."""
    return (_ratio(tp, tp + fn) + _ratio(tn, tn + fp)) / 2


def fbeta(beta: float) -> Score:
    """F score: the weighted harmonic mean of precision and recall, recall being ``beta`` times as important."""
    if not beta > 0:
        raise ValueError(f"beta must be positive, got {shown(beta)}")
    b = float(beta) ** 2

    def fbeta_score(tn: Any, fp: Any, fn: Any, tp: Any) -> Any:
        return _ratio((1 + b) * tp, (1 + b) * tp + b * fn + fp)

    return fbeta_score


def jaccard(tn: Any, fp: Any, fn: Any, tp: Any) -> Any:
    """Jaccard's index of the positive class."""
    return _ratio(tp, tp + fp + fn)


def matthews_corrcoef(tn: Any, fp: Any, fn: Any, tp: Any) -> Any:
    """Matthews' correlation coefficient."""
    tn, fp, fn, tp = (np.asarray(v, dtype=float) for v in (tn, fp, fn, tp))
    return _ratio(tp * tn - fp * fn, np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)))


def precision(tn: Any, fp: Any, fn: Any, tp: Any) -> Any:
    """Share of positive rows among those that are predicted so, 0 if there are none."""
    return _ratio(tp, tp + fp)


def recall(tn: Any, fp: Any, fn: Any, tp: Any) -> Any:
    """Share of positive rows that are predicted so."""
    return _ratio(tp, tp + fn)


def precision_at_recall(recall: float) -> Score:
    """Precision where the recall is at least this, 0 elsewhere."""
    _check_share(recall, "recall")

    def precision_at_recall_score(tn: Any, fp: Any, fn: Any, tp: Any) -> Any:
        return np.where(_ratio(tp, tp + fn) >= recall, _ratio(tp, tp + fp), 0.0)

    return precision_at_recall_score


def recall_at_precision(precision: float) -> Score:
    """Recall where the precision is at least this, 0 elsewhere."""
    _check_share(precision, "precision")

    def recall_at_precision_score(tn: Any, fp: Any, fn: Any, tp: Any) -> Any:
        return np.where(_ratio(tp, tp + fp) >= precision, _ratio(tp, tp + fn), 0.0)

    return recall_at_precision_score


def expected_cost(cost_fp: float, cost_fn: float, prior: float | None = None) -> Score:
    """Minus the expected cost of a prediction, given what a false positive and a false negative cost.

    Parameters
    ----------
    cost_fp, cost_fn : float
        Costs of the errors, not negative.
    prior : float, optional
        Probability of the positive class where the model will be used. Default: its share of the rows that are scored.

    """
    for name, cost in (("cost_fp", cost_fp), ("cost_fn", cost_fn)):
        if not (np.isfinite(cost) and cost >= 0):
            raise ValueError(f"{name} must be a finite number >= 0, got {shown(cost)}")
    if prior is not None:
        _check_share(prior, "prior")

    def expected_cost_score(tn: Any, fp: Any, fn: Any, tp: Any) -> Any:
        share = _ratio(tp + fn, tn + fp + fn + tp) if prior is None else prior
        return -(cost_fn * share * _ratio(fn, tp + fn) + cost_fp * (1 - share) * _ratio(fp, tn + fp))

    return expected_cost_score


class Amounts(NamedTuple):
    """What predictions of rows bring: ``wrong``, and ``unit * units`` more if they are right."""

    wrong: Floats  # (n,)
    units: npt.NDArray[np.int64]  # (n,)
    unit: float  # a power of 2


@dataclass(frozen=True, eq=False)
class RowGains:
    """Gains of predictions that differ from row to row; made by :func:`expected_gain`.

    What a right prediction brings more than a wrong one is rounded to a multiple of a unit, at most 2^-51 of the sum over all
    rows. So sums are of integers, and the same in any order.
    """

    entries: tuple[tuple[Any, Any], tuple[Any, Any]]  # numbers, or arrays with one for each row

    def amounts(self, positive: npt.NDArray[np.bool_]) -> Amounts:
        """The amounts of rows of which some are positive; ValueError if they do not fit."""
        for entry in (entry for pair in self.entries for entry in pair):
            if entry.ndim == 1 and entry.size != positive.size:
                raise ValueError(f"scoring: expected_gain has amounts of {entry.size} rows, and X has {positive.size}")
        (tn, fp), (fn, tp) = self.entries
        right, wrong = np.where(positive, tp, tn), np.where(positive, fn, fp)
        less = np.flatnonzero(right < wrong)
        if less.size:
            k = int(less[0])
            text = f"scoring: a right prediction for row {k} brings {right[k]:g}, a wrong one {wrong[k]:g}"
            raise ValueError(f"{text}; it must not bring less")
        total = math.fsum(right - wrong)
        unit = 2.0 ** (math.frexp(total)[1] - DIGITS) if total > 0 else 1.0
        return Amounts(wrong, np.rint((right - wrong) / unit).astype(np.int64), unit)

    def __call__(self, tn: Any, fp: Any, fn: Any, tp: Any) -> Any:
        """Not known: counts do not tell which rows they are of."""
        raise ValueError("gains that differ from row to row are no function of counts")


def expected_gain(matrix: Any) -> Score:
    """Mean gain of a prediction, in money or any other unit.

    Parameters
    ----------
    matrix : array-like of shape (2, 2)
        What a row brings, losses being negative, by its true class (rows) and the prediction (columns), as in scikit-learn's
        confusion matrix: ``[[tn, fp], [fn, tp]]``. A right prediction must bring no less than a wrong one. Each of the four is
        a number, or an array with one for each row of X, such as amounts of money.

    """
    if any(np.ndim(entry) == 1 for pair in matrix for entry in np.atleast_1d(np.asarray(pair, dtype=object))):
        return _row_gains(matrix)
    gain = np.asarray(matrix, dtype=float)
    if gain.shape != (2, 2) or not np.all(np.isfinite(gain)):
        raise ValueError(f"matrix must be two rows of two finite numbers, [[tn, fp], [fn, tp]], got {shown(matrix)}")
    for k, name in enumerate(("negative", "positive")):
        if gain[k, k] < gain[k, 1 - k]:
            text = f"matrix: a right prediction for a {name} row brings {gain[k, k]:g}, a wrong one {gain[k, 1 - k]:g}"
            raise ValueError(f"{text}; it must not bring less")

    def expected_gain_score(tn: Any, fp: Any, fn: Any, tp: Any) -> Any:
        total = gain[0, 0] * tn + gain[0, 1] * fp + gain[1, 0] * fn + gain[1, 1] * tp
        return _ratio(total, tn + fp + fn + tp)

    return expected_gain_score


def _row_gains(matrix: Any) -> RowGains:
    """Gains of which some differ from row to row."""
    if [len(pair) for pair in matrix] != [2, 2]:
        raise ValueError(
            "matrix must be two rows of two entries, [[tn, fp], [fn, tp]]: numbers, or arrays of one for each row"
        )
    first, second = ([np.asarray(entry, dtype=float) for entry in pair] for pair in matrix)
    for entry in (*first, *second):
        if entry.ndim > 1 or not np.all(np.isfinite(entry)):
            raise ValueError("matrix: amounts must be finite numbers, or arrays of one for each row")
    return RowGains(((first[0], first[1]), (second[0], second[1])))


def _check_share(value: Any, name: str) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must lie between 0 and 1, got {shown(value)}")


NAMED: dict[str, Score] = {
    "accuracy": accuracy,
    "balanced_accuracy": balanced_accuracy,
    "f1": fbeta(1.0),
    "jaccard": jaccard,
    "matthews_corrcoef": matthews_corrcoef,
    "precision": precision,
    "recall": recall,
}

FUNCTIONS: dict[str, Score] = {f"{name}_score": score for name, score in NAMED.items() if name != "matthews_corrcoef"} | {
    "matthews_corrcoef": matthews_corrcoef
}
"""The same by the names of scikit-learn's functions."""

HARMLESS: dict[str, tuple[Any, ...]] = {
    "average": ("binary",), "zero_division": ("warn", 0, 0.0), "sample_weight": (None,), "labels": (None,),
    "normalize": (True,), "adjusted": (False,),
}  # fmt: skip
"""Arguments of scikit-learn's functions, with the values that leave a score of counts as it is here."""


def roc_auc(tn: Any, fp: Any, fn: Any, tp: Any) -> Any:
    """Area under the ROC curve: the share of pairs of a positive and a negative row in the right order.

    Its counts are of pairs. A pair is a positive "row", the difference of the two: right if its decision value is positive.
    """
    return recall(tn, fp, fn, tp)


def average_precision(tn: Any, fp: Any, fn: Any, tp: Any) -> Any:
    """Average precision: the mean over positive rows of the precision at the threshold that is their decision value.

    It is made of pairs of a positive and a negative row (judge.py), not of these counts.
    """
    raise ValueError("average precision ranks rows: it is no function of counts")


RANKED = "roc_auc", "average_precision", "log_loss", "brier", "top_k", "ndcg", "d2_"
"""Parts of the names of scores that are made of decision values or probabilities."""

RANKINGS: dict[str, Score] = {"roc_auc": roc_auc, "average_precision": average_precision}
"""Scores of pairs of rows, of which the search gives a bound."""

ONE_CLASS_ALLOWED = {accuracy}
"""Scores that mean something for rows of one class only."""


def get_score(scoring: Any, positive: Any = 1) -> Score:
    """The function of (tn, fp, fn, tp) for the user's ``scoring``: a name, a function, or what scikit-learn has for these.

    A scorer may name the label that is positive anyway.
    """
    for name, score in RANKINGS.items():
        if _is_ranking(scoring, name, score):
            return score
    if isinstance(scoring, str):
        if scoring not in NAMED:
            raise ValueError(f"unknown scoring {scoring!r}: {_reason(scoring)}{ADVICE}")
        return NAMED[scoring]
    if not callable(scoring):
        raise ValueError(f"scoring must be a name or a function of (tn, fp, fn, tp), got {shown(scoring)}")
    if hasattr(scoring, "_score_func"):
        return _from_scorer(scoring, positive)
    if str(getattr(scoring, "__module__", "")).startswith("sklearn."):
        return _from_function(scoring, {}, positive)
    _check_arguments(scoring)
    function: Score = scoring
    return function


def _check_arguments(score: Any) -> None:
    """ValueError if a function surely does not take four counts."""
    try:
        arguments = signature(score)
    except (TypeError, ValueError):  # of a builtin function
        return
    try:
        arguments.bind(0, 0, 0, 0)
    except TypeError:
        name = getattr(score, "__name__", shown(score))
        raise ValueError(f"scoring must be a function of four counts (tn, fp, fn, tp): {name} takes {arguments}") from None


def _is_ranking(scoring: Any, name: str, score: Score) -> bool:
    """Whether this is a score of rankings: its name, scikit-learn's function, or a scorer of that."""
    function = getattr(scoring, "_score_func", scoring)
    plain = not getattr(scoring, "_kwargs", {}) and getattr(scoring, "_sign", 1) == 1
    known = str(getattr(function, "__module__", "")).startswith("sklearn.") and function.__name__ == f"{name}_score"
    return scoring is score or (isinstance(scoring, str) and scoring == name) or (known and plain)


KNOWN = ", ".join(map(repr, [*NAMED, *RANKINGS]))
ADVICE = f"use one of {KNOWN}, a function of svmatlas.scoring, or a function of (tn, fp, fn, tp)"


def _reason(name: str) -> str:
    """Why a score that scikit-learn knows is not known here."""
    if any(part in name for part in RANKED):
        return (
            "it is made of decision values or probabilities, not counted from predictions, so it is not constant in cells of "
            "the plane (svmatlas.roc_frontier has the rates that all costs can reach); "
        )
    return ""


def _from_scorer(scorer: Any, positive: Any) -> Score:
    """What ``sklearn.metrics.make_scorer`` was given, as a function of counts."""
    if getattr(scorer, "_sign", 1) != 1:
        raise ValueError("scoring: a scorer with greater_is_better=False is a loss; give minus that, as a function of counts")
    if getattr(scorer, "_response_method", "predict") != "predict":
        raise ValueError(f"scoring: the scorer {shown(scorer)} is not made of predictions: {ADVICE}")
    return _from_function(scorer._score_func, dict(scorer._kwargs), positive)


def _from_function(function: Any, arguments: dict[str, Any], positive: Any) -> Score:
    """A function of ``sklearn.metrics`` with some arguments, as a function of counts."""
    name = getattr(function, "__name__", "")
    if not str(getattr(function, "__module__", "")).startswith("sklearn."):
        raise ValueError(
            f"scoring: {name or 'the function'} of a scorer takes labels, and counts are needed: "
            "give a function of (tn, fp, fn, tp)"
        )
    beta = arguments.pop("beta", None)
    score = fbeta(beta) if name == "fbeta_score" and beta is not None else FUNCTIONS.get(name)
    if score is None:
        missing = "it needs beta: use svmatlas.scoring.fbeta; " if name == "fbeta_score" else _reason(name)
        raise ValueError(f"scoring: sklearn.metrics.{name} is not known here: {missing}{ADVICE}")
    for key, value in arguments.items():
        if key == "pos_label" and not is_label(value, positive):
            other = f"the positive label here is {shown(positive)}: pos_label is an argument of select"
            raise ValueError(f"scoring: {name} with pos_label={shown(value)}, but {other}")
        if key != "pos_label" and value not in HARMLESS.get(key, ()):
            raise ValueError(f"scoring: {name} with {key}={shown(value)} is not known here")
    return score


def make_table(score: Score, n_pos: int, n_neg: int) -> Floats:
    """Scores (n_pos + 1, n_neg + 1) by tp and tn; ValueError if the score is not monotone."""
    tp, tn = np.meshgrid(np.arange(n_pos + 1), np.arange(n_neg + 1), indexing="ij")
    counts = tn, n_neg - tn, n_pos - tp, tp
    if getattr(score, "__module__", None) == __name__:
        table = np.asarray(score(*counts), dtype=float)
    else:
        table = np.vectorize(lambda *c: float(score(*map(int, c))), otypes=[float])(*counts)
    if not np.all(np.isfinite(table)):
        raise ValueError(f"the score is {table[~np.isfinite(table)][0]} for some predictions, it must be finite")
    for axis, name in ((0, "tp"), (1, "tn")):
        falls = np.argwhere(np.diff(table, axis=axis) < -SLACK * max(1.0, float(np.abs(table).max())))
        if falls.size:
            a, b = falls[0]
            c = (a + 1, b) if axis == 0 else (a, b + 1)
            raise ValueError(
                f"the score is not monotone: with {n_pos} positive and {n_neg} negative rows it falls from {table[a, b]:g} to "
                f"{table[c]:g} when {name} rises from {(a, b)[axis]} at tp = {a}, tn = {b}"
            )
    return table
