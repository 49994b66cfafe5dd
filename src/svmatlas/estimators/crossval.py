"""A classifier for scikit-learn that chooses its two costs exactly, by cross-validation."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from svmatlas.choose.folds import Folds, make_folds
from svmatlas.choose.select import Selection, select
from svmatlas.data.labels import validate_labels
from svmatlas.data.preprocess import check_preprocessor, fit_preprocessor
from svmatlas.data.problem import check_rows
from svmatlas.models.svc import BaseSVC, check_raw, validate_training
from svmatlas.support.messages import shown
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
    pos_label : int, str or other label, optional
        The label of the positive class, as in :class:`AsymmetricSVC`.
    preprocessor : transformer, optional
        Any transformer or pipeline of scikit-learn. A clone is fitted to the training rows of each fold, and one to all rows
        for the model, which then takes raw rows. Transformers in front of this classifier, in a pipeline, see held-out rows.

    Attributes
    ----------
    selection_ : Selection
        The best costs on the folds, all cells that reach them, and the proof. A pickled classifier keeps the recommended cell
        and the numbers only, so that it takes no more space than its model.
    best_score_ : float
        The highest mean score over the folds, with a tuned threshold if that is asked for.
    chosen_score_ : float
        Mean score over the folds at the chosen costs and threshold; with ``rule="best"`` the same.
    preprocessor_ : transformer
        The preprocessor, fitted to all rows, with ``refit=True`` only; None if there is none.
    C_pos_, C_neg_ : float
        The costs of the fitted model.
    threshold_ : float
        Rows with a decision value above this are predicted to be of ``classes_[1]``; 0 unless tuned.
    classes_, pos_label_, coef_, intercept_, support_, support_vectors_, dual_coef_, n_support_, duality_gap_
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
        pos_label: Any = None,
        preprocessor: Any = None,
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
        self.pos_label = pos_label
        self.preprocessor = preprocessor

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Choose the costs, and fit a model with them.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_rows, n_features)
            Features; with ``kernel="precomputed"`` the kernel matrix (n_rows, n_rows). With a ``preprocessor`` whatever that
            takes.
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
        check_preprocessor(self.preprocessor, self.kernel)
        if self.preprocessor is None:
            X, y = validate_training(self, X, y)
        else:
            check_raw(self, X, reset=True)
            y = validate_labels(y)
        if self.refit_costs not in ("same", "mean_loss"):
            raise ValueError(f"refit_costs must be 'same' or 'mean_loss', got {shown(self.refit_costs)}")
        with stoppable() as limit:
            return self._choose_and_fit(X, y, sample_weight, groups, limit)

    def _labels(self, values: Floats) -> npt.NDArray[Any]:
        """Labels for decision values, by the threshold."""
        return super()._labels(values - self.threshold_)

    def _choose_and_fit(self, X: Any, y: Any, sample_weight: Any, groups: Any, limit: Limit) -> Self:
        folds = make_folds(
            X, y, self.cv, sample_weight, groups, self.random_state, self.pos_label, self.preprocessor
        )  # fmt: skip
        selection = select(
            X, y, cv=folds.splits, scoring=self.scoring, bias=self.bias, sample_weight=sample_weight, kernel=self.kernel,
            gamma=self.gamma, degree=self.degree, coef0=self.coef0, region=self.region, rule=self.rule, n_jobs=self.n_jobs,
            time_budget=self.time_budget, tolerance=self.tolerance, threshold=self.threshold, random_state=self.random_state,
            pos_label=self.pos_label, preprocessor=self.preprocessor,
        )  # fmt: skip
        limit.check()  # half a search is no choice
        self.selection_: Selection = selection
        self.chosen_score_ = selection.threshold_score
        self.best_score_ = max(selection.best_score, self.chosen_score_)
        turn = self._take_labels(selection.classes_)
        self.threshold_ = turn * selection.threshold + 0.0  # no -0
        _warn_of_ends(selection)
        shares = _shares(folds) if self.refit_costs == "mean_loss" else np.ones(2)
        self.C_pos_, self.C_neg_ = self.selection_.C_pos * float(shares[0]), self.selection_.C_neg * float(shares[1])
        if not self.refit:
            return self
        self.preprocessor_ = None
        if self.preprocessor is not None:
            self.preprocessor_, X = fit_preprocessor(self.preprocessor, X, y)
        return self._fit_at(X, y, sample_weight, self.C_pos_, self.C_neg_, limit)

    def _check_new(self, X: Any) -> Any:
        preprocessor = getattr(self, "preprocessor_", None)
        if preprocessor is None:
            return super()._check_new(X)
        check_raw(self, X, reset=False)
        return check_rows(preprocessor.transform(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.preprocessor is not None:
            tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: of the selection what is about the chosen costs."""
        state: dict[str, Any] = super().__getstate__()
        if "selection_" in state:
            state = state | {"selection_": state["selection_"].without_curves()}
        return state


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
