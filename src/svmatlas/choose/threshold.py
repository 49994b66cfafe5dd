"""The decision threshold with the best score on held-out rows.

A common threshold t makes every held-out row with a decision value above t positive, in all folds. The score, the mean over
folds, changes only where t passes a decision value, so between two neighbours of the pooled values it is constant: all of
these intervals are looked at. Of the best the widest is taken, and its middle; zero, if nothing is better than that.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from svmatlas.choose.overlay import Overlay

Floats = npt.NDArray[np.float64]


def tune_threshold(overlay: Overlay, values: list[Floats]) -> tuple[float, float]:
    """The best threshold for decision values of the held-out rows of all folds, and its mean score."""
    pooled = np.unique(np.concatenate(values))
    step = max(1.0, float(pooled[-1] - pooled[0]))
    ends = np.concatenate([[pooled[0] - step], pooled, [pooled[-1] + step]])
    middle, width = (ends[1:] + ends[:-1]) / 2, np.diff(ends)
    width[[0, -1]] = 0.0  # all rows of one class: only if nothing else is as good
    tried = np.append(middle, 0.0)
    pairs = zip(values, overlay.holdouts, strict=True)
    counts = np.stack([_counts(value, holdout.amounts, tried) for value, holdout in pairs], axis=2)
    scores = overlay.fold_scores(counts).mean(axis=1)
    if scores[-1] >= scores.max() - overlay.judge.equal:
        return 0.0, float(scores[-1])
    best = np.flatnonzero(scores[:-1] >= scores.max() - overlay.judge.equal)
    chosen = best[np.argmax(width[best])]
    return float(middle[chosen]), float(scores[chosen])


def _counts(value: Floats, amounts: npt.NDArray[np.int64], thresholds: Floats) -> npt.NDArray[np.int64]:
    """What is right (n, 2) of a fold at some thresholds, if rows count ``amounts`` (2, n) above and below."""
    order = np.argsort(value)
    at = np.searchsorted(value[order], thresholds, side="right")
    above, below = np.cumsum(np.concatenate([np.zeros((2, 1), dtype=np.int64), amounts[:, order]], axis=1), axis=1)
    return np.column_stack([above[-1] - above[at], below[at]])
