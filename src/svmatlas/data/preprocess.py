"""The user's own preprocessing: a transformer of scikit-learn that makes numbers of raw rows, fitted where that is no leak."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from svmatlas.data.problem import check_rows
from svmatlas.support.messages import shown


def check_preprocessor(preprocessor: Any, kernel: Any) -> None:
    """ValueError if this cannot make rows of numbers, None being fine."""
    if preprocessor is None:
        return
    if isinstance(preprocessor, type) or not (hasattr(preprocessor, "fit") and hasattr(preprocessor, "transform")):
        raise ValueError(
            f"preprocessor must be a transformer of scikit-learn, with fit and transform, got {shown(preprocessor)}"
        )
    if isinstance(kernel, str) and kernel == "precomputed":
        raise ValueError("a precomputed kernel cannot be preprocessed: preprocess the rows that it is made of")


def fit_preprocessor(preprocessor: Any, X: Any, y: npt.NDArray[Any]) -> tuple[Any, Any]:
    """A clone that is fitted to some raw rows, and these rows as numbers."""
    fitted = clone(preprocessor)
    transformed = fitted.fit_transform(X, y) if hasattr(fitted, "fit_transform") else fitted.fit(X, y).transform(X)
    return fitted, check_rows(transformed)


def some_rows(X: Any, which: npt.NDArray[Any]) -> Any:
    """Some rows of a data frame, an array, a list or a sparse matrix."""
    return _safe_indexing(X, which)
