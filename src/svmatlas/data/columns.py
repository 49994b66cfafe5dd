"""The columns of the user's X: their names, and how they are standardised.

The engine sees standardised rows z. Users give rows x and get weights in their own units:

    z = (x - center) / scale          w.z + b = (w / scale).x + (b - (w / scale).center)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse

Floats = npt.NDArray[np.float64]

SHOWN = 8
"""Names that an error message lists: a line must stay readable."""


ADVICE = "preprocessor= of select and AsymmetricSVCCV takes transformers for that, OneHotEncoder and SimpleImputer among them"
"""For columns of text and missing values."""


@dataclass(frozen=True, eq=False)
class Columns:
    """Names and scaling of the features of an atlas.

    Attributes
    ----------
    names : tuple of str or None
        Names of the features. None if the data had none.
    center : ndarray of shape (n_features,) or None
        What is subtracted from each feature. None if nothing is.
    scale : ndarray of shape (n_features,) or None
        What each feature is then divided by. None if the features are not standardised.

    """

    names: tuple[str, ...] | None = None
    center: Floats | None = None
    scale: Floats | None = None

    def __post_init__(self) -> None:
        for array in (self.center, self.scale):
            if array is not None:
                array.flags.writeable = False

    def in_order(self, X: Any) -> Any:
        """The named columns of a data frame, in the order of the atlas. Rows without names are returned as they are."""
        given = column_names(X)
        if self.names is None or given is None or given == self.names:
            return X
        match_names(self.names, given)
        return X.select(list(self.names)) if hasattr(type(X), "select") else X[list(self.names)]

    def standardized(self, X: Any) -> Any:
        """Rows (k, n_features) in the units of the engine."""
        if self.scale is None:
            return X
        if self.center is not None:
            return ((X.toarray() if issparse(X) else X) - self.center) / self.scale
        if issparse(X):
            return csr_array((X.data / self.scale[X.indices], X.indices, X.indptr), shape=X.shape)
        return X / self.scale

    def user_weights(self, coef: Floats, intercept: Floats) -> tuple[Floats, Floats]:
        """Coefficients (n, n_features) and intercepts (n,) in the units of the user."""
        if self.scale is None:
            return coef, intercept
        coef = coef / self.scale
        return coef, intercept if self.center is None else intercept - coef @ self.center

    def before(self, model: Any) -> Any:
        """A classifier of standardised rows as one of the user's rows: itself, or a pipeline that standardises first."""
        if self.scale is None:
            return self._named(model)
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        scaler = StandardScaler(with_mean=self.center is not None)
        scaler.mean_, scaler.scale_, scaler.n_features_in_ = self.center, self.scale, self.scale.size
        return make_pipeline(self._named(scaler), model)

    def _named(self, estimator: Any) -> Any:
        """A fitted estimator that knows the names of its features, as scikit-learn has it."""
        if self.names is not None:
            estimator.feature_names_in_ = np.array(self.names, dtype=object)
        return estimator


# ----------------------------------------------------------------------------------------------------------------------
# Names


def column_names(X: Any) -> tuple[str, ...] | None:
    """Names of the columns of a data frame. None if X has none, or if not all of them are text."""
    arrow = hasattr(type(X), "column_names")  # asked of the type: in pandas a column may have this name
    names = X.column_names if arrow else getattr(X, "columns", None)
    try:
        found = tuple(names) if names is not None else ()
    except TypeError:
        return None
    return tuple(map(str, found)) if found and all(isinstance(name, str) for name in found) else None


def check_names(names: Any, n_features: int) -> tuple[str, ...]:
    """The user's names of the columns of an array."""
    found = tuple(names)
    if len(found) != n_features or not all(isinstance(name, str) for name in found):
        raise ValueError(f"feature_names must be {n_features} strings, one for each column of X")
    return tuple(map(str, found))


def column_at_fault(X: Any) -> str:
    """The first column of a data frame with a text, or else with a missing value, and what to do; empty if there is none."""
    gap = ""
    for name in column_names(X) or ():
        column = np.asarray(X[name])
        try:
            missing = np.flatnonzero(np.isnan(column.astype(np.float64)).reshape(len(column), -1).any(axis=1))
        except (TypeError, ValueError):
            return f": column {name!r} holds {_first_text(column)}, which is no number; {ADVICE}"
        if missing.size and not gap:
            gap = f": column {name!r} has no value in row {missing[0]} ({missing.size} in all); {ADVICE}"
    return gap


def _first_text(column: npt.NDArray[Any]) -> str:
    """The first entry of a column that is no number."""
    for value in column.ravel().tolist():
        try:
            float(value)
        except (TypeError, ValueError):
            return repr(value)
    return "something"


def match_names(wanted: Sequence[str], given: Sequence[str]) -> list[int]:
    """Where each wanted name is among the given ones; ValueError that tells which are missing or occur twice."""
    if list(wanted) == list(given):
        return list(range(len(given)))
    place = {name: j for j, name in enumerate(given)}
    missing = [name for name in wanted if name not in place]
    if missing:
        raise ValueError(f"no column {_listed(missing)}; the columns are {_listed(given)}")
    often = Counter(given) | Counter(wanted)  # the larger count of each name
    ambiguous = [name for name in dict.fromkeys(wanted) if often[name] > 1]
    if ambiguous:
        raise ValueError(f"more than one column {_listed(ambiguous)}")
    return [place[name] for name in wanted]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:SHOWN])) + ", ..." * (len(names) > SHOWN)


def describe_rows(X: Any) -> str:
    """How many rows and columns there are, in scikit-learn's words."""
    n_rows, n_features = np.shape(X)
    return f"(n_samples={n_rows}, n_features={n_features})"


# ----------------------------------------------------------------------------------------------------------------------
# Scaling


def standardize_columns(X: Any, weight: Floats, names: tuple[str, ...] | None = None) -> Columns:
    """Columns of mean 0 (if X is dense: sparse ones keep their zeros) and variance 1, over rows with weights.

    A column of one value is shifted to 0 (if X is dense) and not scaled.
    """
    if issparse(X):
        used, place = np.unique(X.indices, return_inverse=True)
        scale = np.ones(X.shape[1])
        _, scale[used] = _moments(csr_array((X.data, place, X.indptr), shape=(X.shape[0], used.size)), weight)
        center = None
    else:
        center, scale = _moments(X, weight)
    columns = Columns(names, center, scale)
    _check_scaled(columns, X)
    return columns


def _moments(X: Any, weight: Floats) -> tuple[Floats | None, Floats]:
    """Mean (None if X is sparse) and standard deviation of the columns, whatever their magnitudes."""
    from sklearn.preprocessing import StandardScaler

    sparse = issparse(X)
    exponent = _exponents(X)
    if sparse:
        near_one = csr_array((np.ldexp(X.data, -exponent[X.indices]), X.indices, X.indptr), shape=X.shape)
    else:
        near_one = np.ldexp(X, -exponent)
    equal = bool(np.all(weight == weight[0]))
    scaler = StandardScaler(with_mean=not sparse).fit(near_one, sample_weight=None if equal else weight)
    constant = scaler.scale_ != np.sqrt(scaler.var_)
    scale: Floats = np.where(constant, 1.0, np.ldexp(scaler.scale_, exponent))
    if sparse:
        return None, scale
    return np.where(constant, X[np.argmax(weight > 0)], np.ldexp(scaler.mean_, exponent)), scale


def _exponents(X: Any) -> npt.NDArray[np.intp]:
    """Powers of two that are just above the largest entries of the columns."""
    top = np.zeros(X.shape[1])
    if issparse(X):
        np.maximum.at(top, X.indices, np.abs(X.data))
    else:
        np.abs(X).max(axis=0, out=top)
    return np.frexp(top)[1].astype(np.intp)


def _check_scaled(columns: Columns, X: Any) -> None:
    """Columns whose values or weights would leave the range of doubles cannot be standardised."""
    assert columns.scale is not None
    with np.errstate(all="ignore"):
        wrong = ~np.isfinite(1.0 / columns.scale)
        if columns.center is not None:
            wrong |= ~np.all(np.isfinite(columns.standardized(X)), axis=0)
    if np.any(wrong):
        j = int(np.argmax(wrong))
        column = repr(columns.names[j]) if columns.names else j
        raise ValueError(f"column {column} of X cannot be standardised: its values are at the limits of doubles")
