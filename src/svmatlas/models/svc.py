"""A classifier for scikit-learn: the model of one pair of costs, exactly."""

from __future__ import annotations

from itertools import chain
from numbers import Real
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_is_fitted

from svmatlas.data.features import decision_values
from svmatlas.data.kernels import make_kernel
from svmatlas.data.labels import check_labels, check_weights, validate_labels
from svmatlas.data.problem import (
    Problem,
    check_bias,
    check_bounds,
    check_rows,
    make_problem,
    make_region,
)
from svmatlas.engine.workspace import L
from svmatlas.models.gap import combination, user_gaps, warn_if_inaccurate
from svmatlas.models.interior import Fit, fit_linear
from svmatlas.models.solve import Solution, choose, is_doubtful, solve
from svmatlas.models.walk import state_at, states_below
from svmatlas.support.messages import shown
from svmatlas.support.stopping import Limit, stoppable

Floats = npt.NDArray[np.float64]


def solve_at(problem: Problem, C_pos: float, C_neg: float, limit: Limit) -> Solution:
    """The solution at one pair of finite costs, without an atlas."""
    region = make_region(check_bounds(None), problem.cost_exponent)
    state = state_at(problem, C_pos, C_neg, limit)
    c = problem.homogeneous(np.array([C_pos]), np.array([C_neg]))
    solution = solve(problem.data, region, state[None], c)
    if is_doubtful(solution, c)[0]:
        below = (smaller[None] for smaller in states_below(problem, c[0], limit))
        _, solution = choose(problem.data, region, chain([state[None]], below), c[0], limit)
    return solution


def fit_at(problem: Problem, c: Floats, limit: Limit) -> Fit | None:
    """The solution at homogeneous costs (3,) by the interior point method, in the units of the problem; None if it fails."""
    data = problem.data
    return fit_linear(data.rows, np.ones(len(data.rows)), data.weight * c[data.axis] / c[L], 0.0, limit)


class BaseSVC(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What all classifiers share: predictions from fitted attributes, and these from a solution."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = self._needs_centred_data()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def _more_tags(self) -> dict[str, Any]:
        """Tags for scikit-learn before 1.6."""
        return {
            "binary_only": True, "pairwise": self.kernel == "precomputed", "poor_score": self._needs_centred_data(),
        }  # fmt: skip

    def _needs_centred_data(self) -> bool:
        """Whether the decision boundary is a plane through the origin: on other data it predicts poorly, as it must."""
        return bool(self.kernel == "linear" and self.bias == 0)

    def decision_function(self, X: Any) -> Floats:
        """Decision values of rows, positive for ``classes_[1]``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            Rows; with ``kernel="precomputed"`` their kernels with all rows of the training data.

        Returns
        -------
        ndarray of shape (n,)

        """
        check_is_fitted(self)
        return self._decide(self._check_new(X))

    def _check_new(self, X: Any) -> Any:
        """Rows to be decided on, checked."""
        return check_like_sklearn(self, X, reset=False)

    def _decide(self, X: Any) -> Floats:
        """Decision values of rows that were checked."""
        if self._kernel.name == "linear":
            return decision_values(X, self.coef_[0], self.intercept_[0])
        if self._kernel.name == "precomputed":
            values = X[:, self.support_]
        else:
            values = self._kernel(X, self.support_vectors_) if self.support_.size else np.zeros((X.shape[0], 0))
        return decision_values(values, self.dual_coef_[0], self.intercept_[0])

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Labels of rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            Rows; with ``kernel="precomputed"`` their kernels with all rows of the training data.

        Returns
        -------
        ndarray of shape (n,)

        """
        return self._labels(self.decision_function(X))

    def _labels(self, values: Floats) -> npt.NDArray[Any]:
        """Labels for decision values. On the boundary, at zero, rows are negative."""
        second = values > 0 if self.pos_label_ == self.classes_[1] else values >= 0
        labels: npt.NDArray[Any] = self.classes_[second.astype(np.intp)]
        return labels

    def _problem(self, X: Any, y: Any, sample_weight: Any, random_state: Any) -> Problem:
        return make_problem(
            X, y, self.bias, sample_weight, random_state, self.kernel, self.gamma, self.degree, self.coef0,
            pos_label=self.pos_label,
        )  # fmt: skip

    def _take(self, problem: Problem, solution: Solution, C_pos: float, C_neg: float) -> Self:
        """Set the fitted attributes that depend on the costs.

        As scikit-learn has it, labels are in ascending order and decision values are positive for the larger one, whichever
        of them is positive for the costs.
        """
        features = problem.features
        alpha = problem.spread_alpha(solution.share, np.array([C_pos]), np.array([C_neg]))[0]
        turn = self._take_alpha(problem.classes, problem.sign * alpha, C_pos, C_neg)
        self._kernel = features.kernel
        if features.kernel.name == "precomputed":
            self.support_vectors_ = np.empty((0, 0))
        else:
            self.support_vectors_ = problem.user_rows(self.support_)
        weights: tuple[Floats, ...] = ()
        if features.linear:
            weights = coef, intercept = problem.weights_of(solution.beta, solution.lossless)
            self.coef_, self.intercept_ = turn * coef + 0.0, turn * intercept + 0.0
        else:
            self.intercept_ = np.array([features.bias**2 * self.dual_coef_.sum()])
        self.duality_gap_ = self._gap(problem, solution, weights)
        return self

    def _take_alpha(self, classes: npt.NDArray[Any], signed: Floats, C_pos: float, C_neg: float) -> float:
        """Set labels, costs and dual variables, given with their signs; 1, or -1 if the labels are in descending order."""
        turn = self._take_labels(classes)
        self.C_pos_, self.C_neg_ = C_pos, C_neg
        self.support_ = np.flatnonzero(signed)
        self.dual_coef_ = turn * signed[None, self.support_]
        self.n_support_ = np.array([np.sum(self.dual_coef_ < 0), np.sum(self.dual_coef_ > 0)], dtype=np.int32)
        return turn

    def _take_labels(self, classes: npt.NDArray[Any]) -> float:
        """Set the labels, from the negative and the positive one; 1 if these are in ascending order, -1 if not."""
        self.classes_ = np.unique(classes)
        self.pos_label_ = classes.tolist()[1]
        return 1.0 if classes[1] == self.classes_[1] else -1.0

    def _fit_at(self, X: Any, y: npt.NDArray[Any], sample_weight: Any, C_pos: float, C_neg: float, limit: Limit) -> Self:
        """Solve at finite costs: quickly if that can be proven to be right, or else by following the solution there."""
        if not (self.kernel == "linear" and self._fit_quickly(X, y, sample_weight, C_pos, C_neg, limit)):
            problem = self._problem(X, y, sample_weight, random_state=0)
            self._take(problem, solve_at(problem, C_pos, C_neg, limit), C_pos, C_neg)
        return self._checked()

    def _fit_quickly(self, X: Any, y: npt.NDArray[Any], sample_weight: Any, C_pos: float, C_neg: float, limit: Limit) -> bool:
        """Set the attributes by the interior point method; False, and nothing is set, if it does not get there."""
        X, bias = check_rows(X), check_bias(self.bias)
        classes, sign = check_labels(y, self.pos_label)
        weight = check_weights(sample_weight, X.shape[0], sign)
        kernel = make_kernel(self.kernel, self.gamma, self.degree, self.coef0, X, weight)
        fit = fit_linear(X, sign, weight * np.where(sign > 0, C_pos, C_neg), bias, limit)
        if fit is None:
            return False
        turn = self._take_alpha(classes, sign * fit.alpha, C_pos, C_neg)
        self._kernel, self.duality_gap_ = kernel, fit.gap
        self.support_vectors_ = X[self.support_]
        self.coef_, self.intercept_ = turn * fit.coef[None] + 0.0, np.array([turn * fit.intercept + 0.0])
        return True

    def _checked(self) -> Self:
        """Itself, with a warning if it is inaccurate."""
        warn_if_inaccurate(
            np.array([self.duality_gap_]), np.array([self.C_pos_]), np.array([self.C_neg_]), self.kernel == "linear"
        )
        return self

    def _gap(self, problem: Problem, solution: Solution, weights: tuple[Floats, ...]) -> float:
        """Relative duality gap of the fitted attributes, on the user's rows; ``weights`` of a linear kernel."""
        c = problem.homogeneous(np.array([self.C_pos_]), np.array([self.C_neg_]))
        if not problem.features.linear:
            weights = (combination(problem, solution.share, c) / c[:, L, None],)
        return float(user_gaps(problem, solution, c, weights)[0])


def make_classifier(problem: Problem, solution: Solution, C_pos: float, C_neg: float) -> AsymmetricSVC:
    """The classifier with the solution of a problem at given costs."""
    features = problem.features
    model = AsymmetricSVC(
        C_pos, C_neg, bias=features.bias, kernel=features.kernel.name, gamma=features.kernel.gamma,
        degree=features.kernel.degree, coef0=features.kernel.coef0, pos_label=_unusual(problem.classes),
    )  # fmt: skip
    model.n_features_in_ = features.n_features
    return model._take(problem, solution, C_pos, C_neg)


def _unusual(classes: npt.NDArray[Any]) -> Any:
    """The positive label if it is the smaller one, else None."""
    return classes.tolist()[1] if classes[1] != np.unique(classes)[1] else None


class AsymmetricSVC(BaseSVC):
    r"""Support vector classifier with one cost for each class, solved exactly.

    .. math:: \min_\beta \tfrac12 |\beta|^2 + C_+ \sum_{y_i=+1} w_i \xi_i + C_- \sum_{y_i=-1} w_i \xi_i,
              \quad \xi_i = \max(0, 1 - y_i (x_i, B) \cdot \beta)

    There is no tolerance and no limit of iterations. Rows on the margin are found by an interior point method, and the model
    is solved for them; if its duality gap is not what rounding allows, the solution is followed from zero costs to the given
    ones.

    Parameters
    ----------
    C_pos, C_neg : float, default=1.0
        Costs of errors on rows of the positive and of the negative class.
    C : float, optional
        One cost for both, instead of ``C_pos`` and ``C_neg``.
    class_weight : dict or "balanced", optional
        Factors of the costs of the classes, as in scikit-learn's SVC.
    bias : float, default=1.0
        The constant B that is appended to each row; 0 for no intercept. Its square is added to a kernel.
    kernel : {"linear", "poly", "rbf", "precomputed"} or callable, default="linear"
        Kernel, positive semidefinite.
    gamma, degree, coef0 : default="scale", 3 and 0.0
        Parameters of the kernel, as in scikit-learn's SVC.
    pos_label : int, str or other label, optional
        The label of the positive class, with cost ``C_pos``. Default: the larger one in sorted order. Decision values are
        positive for ``classes_[1]`` in any case, as scikit-learn expects it.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Labels in ascending order; decision values are positive for ``classes_[1]``.
    pos_label_ : label
        The label with cost ``C_pos_``.
    C_pos_, C_neg_ : float
        The costs, with ``class_weight`` multiplied in.
    coef_ : ndarray of shape (1, n_features)
        Weights of the features, for the linear kernel only.
    intercept_ : ndarray of shape (1,)
        Intercept.
    support_ : ndarray of shape (n_SV,)
        Rows with a positive dual variable.
    support_vectors_ : ndarray or sparse array of shape (n_SV, n_features)
        These rows; empty for a precomputed kernel.
    dual_coef_ : ndarray of shape (1, n_SV)
        Their dual variables, times 1 or -1 for the class.
    n_support_ : ndarray of shape (2,)
        Number of them in each class.
    duality_gap_ : float
        Difference of the primal and dual objective, relative to the primal one: a proof of optimality.
    n_features_in_, feature_names_in_
        As in all of scikit-learn.

    Examples
    --------
    >>> from svmatlas import AsymmetricSVC
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
    >>> AsymmetricSVC(C_pos=2.0, C_neg=1.0).fit(X, y).predict([[0.5], [2.5]])
    array([0, 1])

    """

    def __init__(
        self,
        C_pos: float = 1.0,
        C_neg: float = 1.0,
        *,
        C: float | None = None,
        class_weight: Any = None,
        bias: float = 1.0,
        kernel: Any = "linear",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        pos_label: Any = None,
    ) -> None:
        self.C_pos = C_pos
        self.C_neg = C_neg
        self.C = C
        self.class_weight = class_weight
        self.bias = bias
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.pos_label = pos_label

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Solve for the given costs.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Features; with ``kernel="precomputed"`` the kernel matrix (n_rows, n_rows).
        y : array-like of shape (n_rows,)
            Two labels.
        sample_weight : array-like of shape (n_rows,), optional
            Weights w_i >= 0 of the costs.

        Returns
        -------
        AsymmetricSVC
            Itself.

        """
        X, y = validate_training(self, X, y)
        with stoppable() as limit:
            C_pos, C_neg = self._costs(check_labels(y, self.pos_label)[0], y)
            return self._fit_at(X, y, sample_weight, C_pos, C_neg, limit)

    def _costs(self, classes: npt.NDArray[Any], y: npt.NDArray[Any]) -> tuple[float, float]:
        """The costs of both classes, checked."""
        pair = (self.C_pos, self.C_neg) if self.C is None else (self.C, self.C)
        names = ("C_pos", "C_neg") if self.C is None else ("C", "C")
        for name, value in zip(names, pair, strict=True):
            if not (isinstance(value, Real) and np.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be a finite number >= 0, got {shown(value)}")
        negative, positive = compute_class_weight(self.class_weight, classes=classes, y=y)
        return float(pair[0] * positive), float(pair[1] * negative)


def check_like_sklearn(estimator: Any, X: Any, **arguments: Any) -> Any:
    """X, or X and y, checked as scikit-learn does."""
    try:
        from sklearn.utils.validation import validate_data
    except ImportError:  # scikit-learn before 1.6

        def validate_data(estimator: Any, X: Any, **arguments: Any) -> Any:
            return estimator._validate_data(X, **arguments)

    return validate_data(estimator, X, accept_sparse="csr", dtype=np.float64, **arguments)


def check_raw(estimator: Any, X: Any, reset: bool) -> None:
    """Note (``reset``) or check the number and the names of the columns of rows that are preprocessed by others."""
    try:
        from sklearn.utils.validation import validate_data
    except ImportError:  # scikit-learn before 1.6
        estimator._check_feature_names(X, reset=reset)
        estimator._check_n_features(X, reset=reset)
    else:
        validate_data(estimator, X, reset=reset, skip_check_array=True)


def validate_training(estimator: Any, X: Any, y: Any) -> tuple[Any, npt.NDArray[Any]]:
    """X and y of two classes."""
    X, y = check_like_sklearn(estimator, X, y=y)
    return X, validate_labels(y)
