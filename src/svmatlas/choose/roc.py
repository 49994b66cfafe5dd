"""The ROC frontier of all asymmetric SVMs: what no pair of costs can beat."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from svmatlas.choose.arrangement import Box
from svmatlas.choose.cells import Cell
from svmatlas.choose.folds import make_folds
from svmatlas.choose.overlay import Overlay, make_overlay
from svmatlas.choose.scoring import accuracy
from svmatlas.choose.search import fresh_best, make_cells, search
from svmatlas.data.preprocess import check_preprocessor
from svmatlas.data.problem import check_bounds
from svmatlas.support.messages import positive_of, shown
from svmatlas.support.progress import finish, make_share_bar
from svmatlas.support.stopping import Limit, stoppable

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False, repr=False)
class Frontier:
    """All pairs (false positive rate, true positive rate) that no costs beat; made by :func:`svmatlas.roc_frontier`.

    The points are in the order of rising rates. A point is *dominated*, and not here, if other costs give no more false
    positives and no fewer true positives, and not both the same.

    Attributes
    ----------
    fpr, tpr : ndarrays of shape (n,)
        False and true positive rate.
    fp, tp : ndarrays of shape (n,)
        The counts behind them.
    C_pos, C_neg : ndarrays of shape (n,)
        Costs that reach each point: deepest inside the largest cell.
    cells : list of n lists of Cell
        All cells that reach each point, the largest first. Their scores are accuracies.
    hull : ndarray
        Indices of the points on the upper convex hull: the best ones for some costs of errors.
    auc_hull : float
        Area under the convex hull, with (0, 0) and (1, 1).
    n_pos, n_neg : int
        Number of held-out rows of each class.
    classes_ : ndarray of shape (2,)
        Labels; ``classes_[1]`` is the positive class.

    """

    fpr: Floats
    tpr: Floats
    fp: Ints
    tp: Ints
    C_pos: Floats
    C_neg: Floats
    cells: list[list[Cell]]
    hull: Ints
    auc_hull: float
    n_pos: int
    n_neg: int
    classes_: npt.NDArray[Any]

    def __repr__(self) -> str:
        return (
            f"Frontier({self.fpr.size} points, {self.hull.size} on the hull, auc_hull={self.auc_hull:.6g}; {self.n_pos} "
            f"positive and {self.n_neg} negative rows; {positive_of(self.classes_)})"
        )

    def best(self, cost_fp: float = 1.0, cost_fn: float = 1.0, prior: float | None = None) -> int:
        """Index of the point with the least expected cost of errors.

        Parameters
        ----------
        cost_fp, cost_fn : float, default=1.0
            Costs of a false positive and of a false negative.
        prior : float, optional
            Probability of the positive class. Default: its share of the rows.

        Returns
        -------
        int
            Index into the arrays; of equal points the one with the lowest rates.

        """
        for name, cost in (("cost_fp", cost_fp), ("cost_fn", cost_fn)):
            if not (np.isfinite(cost) and cost >= 0):
                raise ValueError(f"{name} must be a finite number >= 0, got {shown(cost)}")
        share = self.n_pos / (self.n_pos + self.n_neg) if prior is None else prior
        if not 0 <= share <= 1:
            raise ValueError(f"prior must lie between 0 and 1, got {shown(prior)}")
        return int(np.argmin(cost_fn * share * (1 - self.tpr) + cost_fp * (1 - share) * self.fpr))


def roc_frontier(
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    bias: float = 1.0,
    sample_weight: Any = None,
    groups: Any = None,
    kernel: Any = "linear",
    gamma: Any = "scale",
    degree: float = 3,
    coef0: float = 0.0,
    region: Any = None,
    n_jobs: int | None = None,
    progress: bool = False,
    random_state: Any = 0,
    pos_label: Any = None,
    preprocessor: Any = None,
) -> Frontier:
    """Compute every Pareto-optimal pair of false and true positive rate on held-out rows over all costs (C+, C-).

    A ROC curve moves the threshold of one model. This moves both costs, each pair with its own model, and keeps what no other
    pair beats. The held-out rows of all folds are pooled: a point says how many of them in all are predicted right with one
    pair of costs.

    Parameters
    ----------
    X, y, cv, bias, sample_weight, groups, kernel, gamma, degree, coef0, region, n_jobs, progress
        As in :func:`svmatlas.select`.
    random_state, pos_label, preprocessor
        As in :func:`svmatlas.select`.

    Returns
    -------
    Frontier
        The points, the costs that reach them, and their convex hull.

    """
    check_preprocessor(preprocessor, kernel)
    with stoppable() as limit, make_share_bar() if progress else nullcontext() as bar:
        folds = make_folds(X, y, cv, sample_weight, groups, random_state, pos_label, preprocessor)
        kind = {"kernel": kernel, "gamma": gamma, "degree": degree, "coef0": coef0}
        model = {"bias": bias, "random_state": random_state, **kind}
        overlay = make_overlay(folds, accuracy, model, check_bounds(region), n_jobs, limit, bar)
        n_pos, n_neg = int(overlay.judge.group_pos.sum()), int(overlay.judge.group_neg.sum())
        if n_pos == 0 or n_neg == 0:
            raise ValueError("the held-out rows hold one class only: hold out rows of both classes")
        points, cells = _confirmed_points(overlay, n_neg, limit, bar)
        finish(bar)
    fp, tp = np.array(points).T
    costs = np.array([group[0].center for group in cells])
    hull, area = _hull(fp / n_neg, tp / n_pos)
    return Frontier(fp / n_neg, tp / n_pos, fp, tp, costs[:, 0], costs[:, 1], cells, hull, area, n_pos, n_neg, folds.classes)


def _confirmed_points(overlay: Overlay, n_neg: int, limit: Limit, bar: Any) -> tuple[list[tuple[int, int]], list[list[Cell]]]:
    """The frontier as pairs (fp, tp) in ascending order, and the cells of each, the first confirmed by the models.

    A pair that no models reach is left out of the next search.
    """
    refuted = np.empty(0, dtype=np.uint64)
    while True:
        groups: dict[tuple[int, int], list[Box]] = {}
        fragments = search(overlay, fresh_best(n_neg + 1, refuted), limit, bar).fragments
        limit.check()
        for box in fragments:
            tp, tn = box.counts.sum(axis=1).tolist()
            groups.setdefault((n_neg - tn, tp), []).append(box)
        points = sorted(groups)
        cells = [_confirmed_cells(overlay, n_neg, point, groups[point], limit) for point in points]
        wrong = [box.key[0] for point, group in zip(points, cells, strict=True) if not group for box in groups[point]]
        if not wrong:
            return points, cells
        refuted = np.union1d(refuted, np.array(wrong, dtype=np.uint64))


def _confirmed_cells(overlay: Overlay, n_neg: int, point: tuple[int, int], fragments: list[Box], limit: Limit) -> list[Cell]:
    """The cells of a pair (fp, tp) from the first on at whose center the models reach it."""
    cells = make_cells(overlay, fragments)
    while cells:
        tp, tn = overlay.model_counts(*cells[0].center, limit).sum(axis=1).tolist()
        if (n_neg - tn, tp) == point:
            break
        cells.pop(0)
    return cells


def _hull(fpr: Floats, tpr: Floats) -> tuple[Ints, float]:
    """Points on the upper hull of a frontier with (0, 0) and (1, 1), and the area under it."""
    points = np.column_stack([np.r_[0.0, fpr, 1.0], np.r_[0.0, tpr, 1.0]])
    keep: list[int] = []
    for k, point in enumerate(points):
        while len(keep) > 1 and np.linalg.det([points[keep[-1]] - points[keep[-2]], point - points[keep[-2]]]) >= 0:
            keep.pop()
        keep.append(k)
    x, y = points[keep].T
    area = float(np.sum(np.diff(x) * (y[1:] + y[:-1])) / 2)
    return np.array([k - 1 for k in keep if 0 < k <= fpr.size], dtype=np.intp), area
