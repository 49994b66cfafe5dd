"""A classifier for scikit-learn that chooses its two costs exactly, by cross-validation."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from svmatlas.choose.folds import Folds, make_folds
from svmatlas.choose.select import Selection, select
from svmatlas.models.svc import BaseSVC, solve_at, validate_training
from svmatlas.support.stopping import Limit, stoppable

Floats = npt.NDArray[np.float64]


class AsymmetricSVCCV(BaseSVC):
    r"""Support vector classifier with one cost for each class, chosen exactly by cross-validation.

    The costs are the best over the whole plane (or a region) for the score on held-out rows, see :func:`svmatlas.select`; the
    model is then fitted to all rows.

    The costs were found with the rows of a fold left out. The objective adds up losses, so on all rows the same costs weigh
    losses more against the length of beta: by 5/4 with five folds. ``refit_costs="same"`` leaves that so, as grid searches do;
    ``"mean_loss"`` multiplies each cost by the share of the weight of its class that the training rows of the folds had on
    average, so that the *mean* loss of each class weighs what it did on the folds.

    Parameters
    ----------
    cv : int, float, splitter or iterable, default=5
        Folds, or the share of rows to hold out, as in :func:`svmatlas.select`.
    scoring : str or callable, default="balanced_accuracy"
        Score, as in :func:`svmatlas.select`.
    refit : bool, default=True
        Fit a model with the best costs to all rows. Else there are only the costs.
    refit_costs : {"same", "mean_loss"}, default="same"
        How costs found on folds carry over to all rows.
    rule : "best", "one_se" or callable, default="best"
        Which of the best cells to take, as in :func:`svmatlas.select`.
    bias : float, default=1.0
        The constant that is appended to each row; 0 for no intercept.
    kernel, gamma, degree, coef0
        Kernel and its parameters, as in :class:`AsymmetricSVC`.
    region : ((lo, hi), (lo, hi)), optional
        Bounds for C_pos and C_neg. Default: all costs.
    time_budget : float, optional
        Stop the search after about this many seconds.
    tolerance : float, optional
        Stop the search when no costs can be better by more than this, as in :func:`svmatlas.select`.
    threshold : {None, "tuned"}, default=None
        With "tuned", predictions are made with the decision threshold that is best for the held-out rows at the chosen costs;
        else with 0.
    n_jobs : int, optional
        Number of threads; -1 for all cores.
    random_state : int, default=0
        Seed of a hold-out set given by its share, and of the jitter that splits ties.

    Attributes
    ----------
    selection_ : Selection
        The best costs on the folds, all cells that reach them, and the proof.
    best_score_ : float
        Mean score over the folds.
    C_pos_, C_neg_ : float
        The costs of the fitted model.
    threshold_ : float
        Rows with a decision value above this are predicted to be of ``classes_[1]``; 0 unless tuned. ``best_score_`` is the
        score with it.
    classes_, coef_, intercept_, support_, support_vectors_, dual_coef_, n_support_, duality_gap_
        As in :class:`AsymmetricSVC`, with ``refit=True`` only.

    Examples
    --------
    >>> import numpy as np
    >>> from svmatlas import AsymmetricSVCCV
    >>> X, y = np.arange(12.0)[:, None], np.arange(12) > 7
    >>> AsymmetricSVCCV(cv=2).fit(X, y).best_score_
    1.0

    """

    def __init__(
        self,
        *,
        cv: Any = 5,
        scoring: Any = "balanced_accuracy",
        refit: bool = True,
        refit_costs: str = "same",
        rule: Any = "best",
        bias: float = 1.0,
        kernel: Any = "linear",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        region: Any = None,
        time_budget: float | None = None,
        tolerance: float | None = None,
        threshold: str | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.refit_costs = refit_costs
        self.rule = rule
        self.bias = bias
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.region = region
        self.time_budget = time_budget
        self.tolerance = tolerance
        self.threshold = threshold
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Choose the costs, and fit a model with them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Features; with ``kernel="precomputed"`` the kernel matrix (n_rows, n_rows).
        y : array-like of shape (n_rows,)
            Two labels.
        sample_weight : array-like of shape (n_rows,), optional
            Weights w_i >= 0 of the costs. Scores are not weighted.
        groups : array-like of shape (n_rows,), optional
            Passed to the splitter.

        Returns
        -------
        AsymmetricSVCCV
            Itself.

        """
        X, y = validate_training(self, X, y)
        if self.refit_costs not in ("same", "mean_loss"):
            raise ValueError(f"refit_costs must be 'same' or 'mean_loss', got {self.refit_costs!r}")
        with stoppable() as limit:
            return self._choose_and_fit(X, y, sample_weight, groups, limit)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Labels of rows, by the threshold ``threshold_``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            Rows; with ``kernel="precomputed"`` their kernels with all rows of the training data.

        Returns
        -------
        ndarray of shape (n,)

        """
        positive = self.decision_function(X) > self.threshold_
        labels: npt.NDArray[Any] = self.classes_[positive.astype(np.intp)]
        return labels

    def _choose_and_fit(self, X: Any, y: Any, sample_weight: Any, groups: Any, limit: Limit) -> Self:
        folds = make_folds(X, y, self.cv, sample_weight, groups, self.random_state)
        selection = select(
            X, y, cv=folds.splits, scoring=self.scoring, bias=self.bias, sample_weight=sample_weight, kernel=self.kernel,
            gamma=self.gamma, degree=self.degree, coef0=self.coef0, region=self.region, rule=self.rule, n_jobs=self.n_jobs,
            time_budget=self.time_budget, tolerance=self.tolerance, threshold=self.threshold, random_state=self.random_state,
        )  # fmt: skip
        limit.check()  # half a search is no choice
        self.selection_: Selection = selection
        self.best_score_ = self.selection_.threshold_score
        self.threshold_ = self.selection_.threshold
        self.classes_ = self.selection_.classes_
        _warn_of_ends(selection)
        shares = _shares(folds) if self.refit_costs == "mean_loss" else np.ones(2)
        self.C_pos_, self.C_neg_ = self.selection_.C_pos * float(shares[0]), self.selection_.C_neg * float(shares[1])
        if not self.refit:
            return self
        problem = self._problem(X, y, sample_weight, random_state=0)
        return self._take(problem, solve_at(problem, self.C_pos_, self.C_neg_, limit), self.C_pos_, self.C_neg_)._checked()


def _warn_of_ends(selection: Selection) -> None:
    """Say so if better costs may lie beyond the region, or if the best ones are as large as one likes."""
    if selection.at_edge:
        text = "the best costs touch the edge of the region: better ones may lie beyond it"
        warnings.warn(text, UserWarning, stacklevel=4)
    elif selection.cell.unbounded:
        text = "the best costs reach infinity: larger ones than those chosen score the same on the held-out rows"
        warnings.warn(text, UserWarning, stacklevel=4)


def _shares(folds: Folds) -> Floats:
    """Share of the weight of the positive and of the negative class in the training rows, mean over folds."""
    classes = np.array([np.where(folds.positive, folds.weight, 0.0), np.where(folds.positive, 0.0, folds.weight)])
    shares: Floats = np.mean([classes[:, train].sum(axis=1) / classes.sum(axis=1) for train, _ in folds.splits], axis=0)
    return shares
