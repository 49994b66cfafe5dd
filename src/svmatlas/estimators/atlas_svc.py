"""A classifier for scikit-learn that holds the models of all pairs of costs."""

from __future__ import annotations

from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from svmatlas.atlas.atlas import Atlas
from svmatlas.atlas.explore import explore
from svmatlas.data.problem import check_bounds
from svmatlas.models.svc import BaseSVC, validate_training
from svmatlas.support.messages import shown
from svmatlas.support.stopping import stoppable


class AtlasSVC(BaseSVC):
    """Support vector classifier for all pairs of costs: ``fit`` makes the atlas, ``set_costs`` picks a pair at no expense.

    Parameters
    ----------
    C_pos, C_neg : float, default=1.0
        Costs of errors on rows of the positive and of the negative class that predictions are made with. On a fitted model
        ``set_params`` changes them as ``set_costs`` does; other parameters have their effect with the next ``fit``.
    bias : float, default=1.0
        The constant B that is appended to each row; 0 for no intercept. Its square is added to a kernel.
    kernel : {"linear", "poly", "rbf", "precomputed"} or callable, default="linear"
        Kernel, positive semidefinite.
    gamma, degree, coef0 : default="scale", 3 and 0.0
        Parameters of the kernel, as in scikit-learn's SVC.
    region : ((lo, hi), (lo, hi)), optional
        Bounds for C_pos and C_neg. Default: all costs.
    n_jobs : int, optional
        Number of threads; -1 for all cores.
    random_state : int, RandomState or None, default=0
        Seed of the jitter that splits ties.
    verbose : bool, default=False
        Show a progress bar while the atlas is made (needs tqdm).
    pos_label : int, str or other label, optional
        The label of the positive class, as in :class:`AsymmetricSVC`.

    Attributes
    ----------
    atlas_ : Atlas
        The map of all solutions.
    classes_, pos_label_, C_pos_, C_neg_, coef_, intercept_, support_, support_vectors_, dual_coef_, n_support_, duality_gap_
        As in :class:`AsymmetricSVC`, at the present costs.

    Examples
    --------
    >>> from svmatlas import AtlasSVC
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
    >>> model = AtlasSVC().fit(X, y)
    >>> model.set_costs(2.0, 1.0).predict([[0.5], [2.5]])
    array([0, 1])

    """

    def __init__(
        self,
        C_pos: float = 1.0,
        C_neg: float = 1.0,
        *,
        bias: float = 1.0,
        kernel: Any = "linear",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        region: Any = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: bool = False,
        pos_label: Any = None,
    ) -> None:
        self.C_pos = C_pos
        self.C_neg = C_neg
        self.bias = bias
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.region = region
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.pos_label = pos_label

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Make the atlas, and pick the costs ``C_pos`` and ``C_neg``.

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
        AtlasSVC
            Itself.

        """
        X, y = validate_training(self, X, y)
        for name, (low, high) in zip(("C_pos", "C_neg"), check_bounds(self.region), strict=True):
            value = getattr(self, name)
            if not (isinstance(value, Real) and np.isfinite(float(value)) and low <= float(value) <= high):
                raise ValueError(f"{name} must be a finite cost in the region [{low}, {high}], got {shown(value)}")
        with stoppable() as limit:
            atlas = explore(
                X, y, bias=self.bias, sample_weight=sample_weight, kernel=self.kernel, gamma=self.gamma, degree=self.degree,
                coef0=self.coef0, feature_names=getattr(self, "feature_names_in_", None), region=self.region,
                n_jobs=self.n_jobs, random_state=self.random_state, progress=self.verbose, pos_label=self.pos_label,
            )  # fmt: skip
            limit.check()  # half a map is no model
            self.atlas_: Atlas = atlas
            return self.set_costs(self.C_pos, self.C_neg)

    def set_params(self, **params: Any) -> Self:
        """Set parameters; costs of a fitted model as :meth:`set_costs` does.

        Parameters
        ----------
        **params
            Parameters by name.

        Returns
        -------
        AtlasSVC
            Itself.

        """
        super().set_params(**params)
        if hasattr(self, "atlas_") and not params.keys().isdisjoint(("C_pos", "C_neg")):
            self.set_costs(self.C_pos, self.C_neg)
        return self

    def set_costs(self, C_pos: float, C_neg: float) -> Self:
        """Change the costs; nothing is fitted again.

        Parameters
        ----------
        C_pos, C_neg : float
            Costs within the region of the atlas.

        Returns
        -------
        AtlasSVC
            Itself.

        """
        check_is_fitted(self, "atlas_")
        solution = self.atlas_._solution(C_pos, C_neg)
        self.C_pos, self.C_neg = C_pos, C_neg
        return self._take(self.atlas_._problem, solution, float(C_pos), float(C_neg))._checked()
