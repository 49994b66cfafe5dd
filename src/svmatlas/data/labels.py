"""The user's labels and weights of rows: checked here, once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from svmatlas.support.messages import shown

Floats = npt.NDArray[np.float64]

MULTICLASS = "sklearn.multiclass.OneVsRestClassifier"
"""What makes a classifier for more than two classes of one for two."""


def validate_labels(given: Any) -> npt.NDArray[Any]:
    """Labels of two classes."""
    y: npt.NDArray[Any] = column_or_1d(given, warn=True)
    check_classification_targets(y)
    kind = type_of_target(y, input_name="y")
    if kind != "binary":
        raise ValueError(
            f"Only binary classification is supported. The type of the target is {kind}. "
            f"For more classes wrap the classifier in {MULTICLASS}."
        )
    return y


def check_labels(y: npt.NDArray[Any], pos_label: Any = None) -> tuple[npt.NDArray[Any], Floats]:
    """The two labels, and the sign of each row: +1 for the second label, which is ``pos_label``, or else the larger one."""
    if y.dtype.kind == "f" and not np.all(np.isfinite(y)):
        raise ValueError("y contains NaN or infinity")
    classes, index = np.unique(y, return_inverse=True)
    if classes.size != 2:
        more = f"; for more wrap a classifier in {MULTICLASS}" if classes.size > 2 else ""
        count = "1 class" if classes.size == 1 else classes.size
        raise ValueError(f"y must hold exactly two classes, got {count}: {classes[:5].tolist()}{more}")
    if pos_label is None or is_label(pos_label, classes[1]):
        return classes, np.where(index == 1, 1.0, -1.0)
    if not is_label(pos_label, classes[0]):
        raise ValueError(f"pos_label must be one of the labels {shown(classes.tolist())}, got {shown(pos_label)}")
    return classes[::-1].copy(), np.where(index == 0, 1.0, -1.0)


def is_label(value: Any, label: Any) -> bool:
    """Whether the user's value is a label; comparisons of unlike things are no error."""
    return np.ndim(value) == 0 and bool(np.all(value == label))


def check_weights(sample_weight: Any, n: int, sign: Floats) -> Floats:
    """The weights of the rows, 1 by default: both classes have a positive one."""
    if sample_weight is None:
        return np.ones(n)
    weight = np.array(check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"))
    if weight.shape != (n,):
        raise ValueError(f"sample_weight must have shape ({n},), got {weight.shape}")
    if np.any(weight < 0):
        raise ValueError(f"sample_weight must not be negative, row {int(np.argmin(weight))} is {weight.min()}")
    if not (np.any(weight[sign > 0] > 0) and np.any(weight[sign < 0] > 0)):
        raise ValueError("sample_weight is zero for all rows of a class")
    return weight
