"""The exact best costs: the highest score on held-out rows over all pairs of costs, with proof, and all cells that reach it.

The zero curves of all folds are laid over each other (overlay.py) and the cells between them are searched (search.py): in the
whole plane, or, where time or accuracy have a limit, in the boxes of costs that can hold the best (boxes.py). A rule then
recommends one of the best cells, and the threshold may be tuned there (threshold.py).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from importlib import import_module
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from svmatlas.choose.arrangement import counts_at
from svmatlas.choose.boxes import find_any_time
from svmatlas.choose.cells import Cell
from svmatlas.choose.folds import make_folds
from svmatlas.choose.overlay import Overlay, make_overlay, with_grace
from svmatlas.choose.proof import Record, check_proof
from svmatlas.choose.scoring import RANKINGS, get_score
from svmatlas.choose.search import Confirmed, find_best, fresh_best, make_cells, search
from svmatlas.choose.threshold import tune_threshold
from svmatlas.data.preprocess import check_preprocessor
from svmatlas.data.problem import check_bounds
from svmatlas.support.messages import positive_of, shown
from svmatlas.support.progress import finish, make_share_bar
from svmatlas.support.stopping import NEVER, Limit, Stopped, check_budget, stoppable

Floats = npt.NDArray[np.float64]
RANKING_TOLERANCE = 1e-3
"""Where the search for the best ranking ends if the user does not say: pairs are many, and change one by one."""

PROOF_SHARE = 0.5
"""Share of a time budget for the search if it writes a proof; in the rest what it has explored is explored again, as maps."""

Rule = str | Callable[[list[Cell]], int]


@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """The best costs; made by :func:`svmatlas.select`.

    Attributes
    ----------
    best_score : float
        The highest mean score over all costs of the region.
    best_fold_scores : ndarray of shape (n_folds,)
        Scores of the folds behind it, in the largest of the best cells.
    C_pos, C_neg : float
        The recommended costs: deepest inside the largest optimal cell (or that of ``rule``), in logarithms of the costs.
    score, fold_scores : float and ndarray of shape (n_folds,)
        Mean score and scores of the folds at these costs. With ``rule="one_se"`` they may be less than the best.
    cell : Cell
        The cell of these costs.
    cells : list of Cell
        Every cell with the best score (with ``rule="one_se"``: within a standard error of it), the largest first. If the
        search ended early: those near the best costs, or a tiny box around these if only the models there are known.
    upper_bound : float
        No costs have a higher mean score than this.
    certified : bool
        Whether the bound is the best score. It is, unless ``time_budget`` or ``tolerance`` ended the search.
    threshold : float
        Rows with a decision value above this are positive. 0 unless ``threshold="tuned"``.
    threshold_score : float
        Mean score at these costs with this threshold.
    n_curves : int
        Number of zero curves: distinct held-out rows whose prediction depends on the costs (in the part that was explored).
    n_folds, n_boxes : int
        Number of folds, and of boxes that the search looked at.
    at_edge : bool
        Whether the recommended cell touches a side of a bounded region: better costs may lie beyond.
    classes_ : ndarray of shape (2,)
        Labels; ``classes_[1]`` is the positive class.

    """

    best_score: float
    C_pos: float
    C_neg: float
    fold_scores: Floats
    cell: Cell
    cells: list[Cell]
    upper_bound: float
    certified: bool
    n_curves: int
    n_boxes: int
    classes_: npt.NDArray[Any]
    best_fold_scores: Floats
    threshold: float
    threshold_score: float
    _overlay: Overlay | None

    @property
    def score(self) -> float:
        """Mean score at the recommended costs."""
        return self.cell.score

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return int(self.fold_scores.size)

    @property
    def at_edge(self) -> bool:
        """Whether the recommended cell touches a side of a bounded region."""
        return self.cell.at_edge

    def score_at(self, C_pos: Any, C_neg: Any) -> Any:
        """Mean score at some costs: a float for a pair of scalars, an array for arrays.

        It is read off the zero curves, without fitting anything. On a curve it is that of one of its sides. Where the plane
        was not explored, because of ``time_budget`` or ``tolerance``, models are fitted.
        """
        scores = self.fold_scores_at(C_pos, C_neg).mean(axis=-1)
        return float(scores) if scores.ndim == 0 else scores

    def fold_scores_at(self, C_pos: Any, C_neg: Any) -> Floats:
        """Scores of the folds at some costs, (n_folds,) or (n, n_folds)."""
        p, q = np.broadcast_arrays(np.asarray(C_pos, dtype=float), np.asarray(C_neg, dtype=float))
        overlay = self._held_overlay
        for name, values, (lo, hi) in (("C_pos", p, overlay.region[0]), ("C_neg", q, overlay.region[1])):
            wrong = ~(np.isfinite(values) & (values >= lo) & (values <= hi))
            if np.any(wrong):
                raise ValueError(f"{name} = {values[wrong].flat[0]} is not a finite cost in the region [{lo}, {hi}]")
        scores = self.scores_on_map(p.ravel(), q.ravel())
        for n in np.flatnonzero(np.isnan(scores[:, 0])):
            counts = overlay.model_counts(float(p.flat[n]), float(q.flat[n]), NEVER)
            scores[n] = overlay.fold_scores(counts[None])[0]
        return scores[0] if p.ndim == 0 else scores

    def scores_on_map(self, C_pos: Floats, C_neg: Floats) -> Floats:
        """Scores of the folds (n, n_folds) at costs (n,) and (n,); nan where the plane was not explored."""
        overlay = self._held_overlay
        (a, b), (c, d) = overlay.bounds
        held = (C_pos >= a) & (C_pos <= b) & (C_neg >= c) & (C_neg <= d)
        scores = np.full((C_pos.size, self.n_folds), np.nan)
        costs = np.column_stack([C_pos, C_neg, np.ones(C_pos.size)])[held]
        counts = counts_at(overlay.judge, fresh_best(), overlay.box, costs)
        right = counts[:, 0] if overlay.judge.is_ranking else counts.sum(axis=1)
        none = np.any(overlay.judge.total(right) == 0, axis=1)  # no row of a fold is right: it is not explored
        scores[held] = np.where(none[:, None], np.nan, overlay.fold_scores(counts))
        return scores

    @property
    def _held_overlay(self) -> Overlay:
        """The curves; ValueError if they were left behind."""
        if self._overlay is None:
            raise ValueError("a pickled classifier keeps no zero curves: call svmatlas.select for scores at other costs")
        return self._overlay

    def without_curves(self) -> Selection:
        """The same in little space: the numbers and the recommended cell, with no curves to read other scores off.

        Returns
        -------
        Selection
            Its ``cells`` hold the recommended one only, and ``score_at`` is an error.

        """
        return replace(self, cells=[self.cell], _overlay=None)

    def __repr__(self) -> str:
        proof = "certified" if self.certified else f"at most {self.upper_bound:.6g}"
        chosen = "" if self.score == self.best_score else f", chosen {self.score:.6g}"
        return (
            f"Selection(best score {self.best_score:.6g}, {proof}{chosen}; C_pos={self.C_pos:.6g}, C_neg={self.C_neg:.6g}; "
            f"{self.n_folds} folds, {len(self.cells)} cells; {positive_of(self.classes_)})"
        )

    def page(self, path: Any, frontier: Any = None, *, title: str | None = None) -> None:
        """Write the score over the plane as one HTML file to look at: its best cells, the bound, and a grid on top.

        For the models themselves, give the selection to :meth:`svmatlas.Atlas.page`.

        Parameters
        ----------
        path : str or path-like
            The file to write.
        frontier : Frontier, optional
            Made by :func:`svmatlas.roc_frontier`.
        title : str, optional
            What the page is called.

        """
        import_module("svmatlas.show.pages").write_selection(self, path, frontier, title)  # called by name: it builds on this


def select(
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    scoring: Any = "balanced_accuracy",
    bias: float = 1.0,
    sample_weight: Any = None,
    groups: Any = None,
    kernel: Any = "linear",
    gamma: Any = "scale",
    degree: float = 3,
    coef0: float = 0.0,
    region: Any = None,
    rule: Rule = "best",
    n_jobs: int | None = None,
    progress: bool = False,
    time_budget: float | None = None,
    tolerance: float | None = None,
    threshold: str | None = None,
    random_state: Any = 0,
    pos_label: Any = None,
    preprocessor: Any = None,
    proof: Any = None,
) -> Selection:
    """Find the costs (C+, C-) with the best score on held-out rows, over the whole plane and with proof.

    The score is scikit-learn's: the mean over folds of the score of the fold. A grid search looks at some costs; this looks at
    every cell of the plane in which predictions stay the same, and returns all that are best.

    Parameters
    ----------
    X : {array-like, sparse matrix, data frame} of shape (n_rows, n_features)
        Features; with ``kernel="precomputed"`` the kernel matrix (n_rows, n_rows). With a ``preprocessor`` whatever it takes.
    y : array-like of shape (n_rows,)
        Any two labels.
    cv : int, float, splitter or iterable, default=5
        Number of stratified folds, the share of rows of one stratified hold-out set, a splitter of scikit-learn, or an
        iterable of pairs of row numbers (train, test).
    scoring : str or callable, default="balanced_accuracy"
        "accuracy", "balanced_accuracy", "f1", "jaccard", "matthews_corrcoef", "precision", "recall"; a function of
        :mod:`svmatlas.scoring`; the same of ``sklearn.metrics``, as they are or in ``make_scorer``; or any function of the
        counts (tn, fp, fn, tp) of a fold that does not fall when a prediction becomes right (checked). "roc_auc" and
        "average_precision", for the linear kernel, look at all pairs of a positive and a negative held-out row. Unless
        ``tolerance`` or ``time_budget`` say otherwise the search ends when no costs can be better by more than 0.001: the
        result is a bound then, not an optimum. A pair of different rows that is tied at some costs counts as wrong there, and
        different positive rows that are tied count as one after the other. Where positive rows are equal, the best average
        precision that is claimed may be a little less than that of the costs, and the bound may stay above it.
    bias : float, default=1.0
        The constant that is appended to each row; 0 for no intercept.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the costs in training. Scores are not weighted, as in scikit-learn.
    groups : array-like of shape (n_rows,), optional
        Passed to the splitter.
    kernel, gamma, degree, coef0
        Kernel and its parameters, as in :func:`svmatlas.explore`; made anew from the training rows of each fold.
    region : ((lo, hi), (lo, hi)), optional
        Bounds for C+ and C-; hi may be infinite. Default: the entire quadrant.
    rule : "best", "one_se" or callable, default="best"
        Which cell to recommend: the largest of the best; the most regularised (smallest C+ + C- at its center) of all whose
        score is within one standard error of the best, for which the whole plane is mapped; or
        a function of the list of best cells that returns an index.
    n_jobs : int, optional
        Number of threads; -1 for all cores. Default: that of ``joblib.parallel_config``, if it is set, or else 1. Inside
        ``with joblib.parallel_config(backend=...)`` tiles of folds, and boxes, are the work of that backend: other processes
        ("loky") or a cluster ("dask"). The result is the same.
    progress : bool, default=False
        Show a progress bar with the best score and the bound so far (needs tqdm).
    time_budget : float, optional
        Stop after about this many seconds, or at Ctrl-C. The result is then the best so far, with a bound that holds.
        ValueError if not even the score of one pair of costs is known by then.
    tolerance : float, optional
        Stop when the bound is so close to the best score. With 0 the best score is certain, as without a tolerance, and all
        cells that reach it are found, but only that part of the plane is explored that can hold them.
    threshold : {None, "tuned"}, default=None
        With "tuned" the decision threshold with the best mean score of the held-out rows at the recommended costs is chosen
        too, exactly; else it is 0.
    random_state : int, default=0
        Seed of a hold-out set given by its share, and of the jitter that splits ties.
    pos_label : int, str or other label, optional
        The label of the positive class, with cost C+. Default: the larger one in sorted order.
    preprocessor : transformer, optional
        Any transformer or pipeline of scikit-learn, such as a ``StandardScaler`` or a ``ColumnTransformer``. For each fold a
        clone is fitted to the training rows alone, so that nothing of the held-out rows leaks into the choice.
    proof : str or path-like, optional
        A file for :func:`svmatlas.certify`, which then proves the score and the bound from X, y and the folds. It holds the
        boxes of costs that the search dropped or left open, with models at their corners, and the maps of those that it
        explored. These are explored again for it; with ``time_budget`` the search has half of that. For scores by name and
        linear kernels.

    Returns
    -------
    Selection
        The best score, all cells that reach it, the costs to use, and the bound.

    Notes
    -----
    A decision value of zero is a negative prediction, as in scikit-learn. On a zero curve a score may therefore differ from
    that of the cells beside it; best is meant of cells, and cells narrower than 1e-10 relative to the costs are not looked at.
    With tied data (lattices, few decimals) a held-out row may lie on the decision boundary in a whole part of the plane. It is
    negative there, for our classifiers too: decision values that are rounding errors are zero. Other solvers may say either.

    The costs that are returned have been tried: models of all folds, fitted at them, reach the score.

    """
    check_budget(time_budget)
    _check_rule(rule)
    check_preprocessor(preprocessor, kernel)
    _check_end(tolerance, threshold)
    check_proof(proof, scoring, kernel, preprocessor)
    with stoppable(time_budget) as limit, make_share_bar() if progress else nullcontext() as bar:
        folds = make_folds(X, y, cv, sample_weight, groups, random_state, pos_label, preprocessor)
        kind = {"kernel": kernel, "gamma": gamma, "degree": degree, "coef0": coef0}
        model = {"bias": bias, "random_state": random_state, **kind}
        score = get_score(scoring, folds.classes[1])
        if score in RANKINGS.values():
            _check_ranking(rule, threshold)
            tolerance = RANKING_TOLERANCE if tolerance is None and not limit.finite else tolerance
        bounds = check_bounds(region)
        record = None if proof is None else Record(folds, scoring, model, bounds, n_jobs)
        searched = limit if proof is None else limit.within(PROOF_SHARE * limit.left)
        how = score, model, bounds, n_jobs, searched, bar
        if rule != "one_se" and (limit.finite or tolerance is not None or record is not None):
            overlay, found = find_any_time(folds, tolerance, *how, record)
        else:
            overlay = make_overlay(folds, *how)
            found = find_best(overlay, searched, bar)
            if record is not None:
                record.note_explored(bounds, [])
        cells, n_boxes = found.cells, found.n_boxes
        if rule == "one_se" and not limit.expired:
            cells, more = _almost_best(overlay, found, limit, bar)
            n_boxes += more
        cell = _recommend(overlay, rule, cells, limit)
        tuned = 0.0, cell.score
        if threshold == "tuned":
            tuned = tune_threshold(overlay, overlay.model_values(*cell.center, with_grace(limit)))
        if record is not None:
            upper = record.write(proof, found.best_score, found.cells[0].center, limit)
            found = found._replace(upper_bound=upper, certified=upper <= found.best_score + overlay.judge.equal)
        finish(bar)
        limit.answered = True
    return Selection(
        found.best_score, *cell.center, cell.fold_scores, cell, cells, found.upper_bound, found.certified, overlay.n_curves,
        n_boxes, folds.classes, found.cells[0].fold_scores, *tuned, overlay,
    )  # fmt: skip


def _almost_best(overlay: Overlay, found: Confirmed, limit: Limit, bar: Any) -> tuple[list[Cell], int]:
    """Cells within one standard error of the best, or the best if there is no time; and the number of boxes looked at."""
    best = fresh_best(refuted=found.refuted)
    best.score[:] = found.best_score, found.best_score - _standard_error(found.cells)
    more = search(overlay, best, limit, bar)
    return found.cells if limit.expired else make_cells(overlay, more.fragments), more.n_boxes


def _recommend(overlay: Overlay, rule: Rule, cells: list[Cell], limit: Limit) -> Cell:
    """The cell that a rule chooses. Cells that the models do not confirm are taken off the list."""
    while True:
        cell = cells[_choose(rule, cells)]
        try:
            if len(cells) == 1 or overlay.confirms(cell, limit):
                return cell
        except Stopped:
            return cell
        cells.remove(cell)


def _choose(rule: Rule, cells: list[Cell]) -> int:
    """Index of the cell to recommend."""
    if rule == "best":
        return 0
    if rule == "one_se":
        return min(range(len(cells)), key=lambda k: sum(cells[k].center))
    index = rule(cells)  # type: ignore[operator]
    if not (isinstance(index, int | np.integer) and 0 <= index < len(cells)):
        raise ValueError(f"rule must return an index of one of the {len(cells)} cells, got {shown(index)}")
    return int(index)


def _standard_error(cells: list[Cell]) -> float:
    """Standard error of the mean over folds, the least of the best cells."""
    n = cells[0].fold_scores.size
    return float(min(cell.fold_scores.std(ddof=1) for cell in cells) / np.sqrt(n)) if n > 1 else 0.0


def _check_end(tolerance: Any, threshold: Any) -> None:
    if tolerance is not None and not (isinstance(tolerance, Real) and 0 <= float(tolerance) < np.inf):
        raise ValueError(f"tolerance must be a finite number >= 0 or None, got {shown(tolerance)}")
    if threshold is not None and not (isinstance(threshold, str) and threshold == "tuned"):
        raise ValueError(f"threshold must be None or 'tuned', got {shown(threshold)}")


def _check_ranking(rule: Any, threshold: Any) -> None:
    if rule == "one_se" or threshold is not None:
        text = "scoring by 'roc_auc' or 'average_precision' ranks rows: it has no threshold, and"
        raise ValueError(f"{text} rule='one_se' needs a score of predictions")


def _check_rule(rule: Any) -> None:
    if not (callable(rule) or (isinstance(rule, str) and rule in ("best", "one_se"))):
        raise ValueError(f"rule must be 'best', 'one_se' or a function of a list of cells, got {shown(rule)}")
