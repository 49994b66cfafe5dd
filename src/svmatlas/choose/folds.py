"""The user's data split into training and held-out rows; what is wrong with a split is said here, with what to do about it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit, check_cv
from sklearn.utils import check_consistent_length, column_or_1d, indexable

from svmatlas.choose.scoring import ONE_CLASS_ALLOWED, Score
from svmatlas.data.columns import describe_rows
from svmatlas.data.labels import check_labels, check_weights
from svmatlas.data.preprocess import fit_preprocessor, some_rows
from svmatlas.data.problem import check_rows

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Bools = npt.NDArray[np.bool_]

USUAL = 5
"""Number of folds to recommend where the data allow it."""


class Folds(NamedTuple):
    """Checked data and the rows of each fold."""

    X: Any  # as they were given if there is a preprocessor
    y: npt.NDArray[Any]
    positive: Bools
    weight: Floats
    splits: list[tuple[Ints, Ints]]
    classes: npt.NDArray[Any]
    preprocessor: Any

    def rows(self, k: int, precomputed: bool) -> tuple[Any, Any]:
        """Training and held-out rows of a fold, preprocessed by what is fitted to the former; those of a kernel matrix."""
        train, test = self.splits[k]
        if self.preprocessor is None:
            return tuple(self.X[part][:, train] if precomputed else self.X[part] for part in (train, test))
        fitted, X_train = fit_preprocessor(self.preprocessor, some_rows(self.X, train), self.y[train])
        return X_train, check_rows(fitted.transform(some_rows(self.X, test)))

    def missing(self, rows: Ints) -> int | None:
        """The class (0 or 1) that some rows do not hold; None if they hold both."""
        held = [bool(np.any(self.positive[rows] == positive)) for positive in (False, True)]
        return None if all(held) else held.index(False)

    def members(self, which: int) -> Ints:
        """Rows of a class."""
        return np.flatnonzero(self.positive == bool(which))


def make_folds(
    X: Any,
    y: Any,
    cv: Any,
    sample_weight: Any,
    groups: Any,
    random_state: Any,
    pos_label: Any = None,
    preprocessor: Any = None,
) -> Folds:
    """Check the user's data and split them; ValueError with a clear text for anything wrong."""
    X = check_rows(X) if preprocessor is None else X
    y = column_or_1d(y)
    check_consistent_length(X, y)
    classes, sign = check_labels(y, pos_label)
    weight = check_weights(sample_weight, len(y), sign)
    splits = _split(X, y, cv, groups, random_state)
    folds = Folds(X, y, sign > 0, weight, splits, classes, preprocessor)
    for k, (train, test) in enumerate(folds.splits):
        for part, rows in (("training", train), ("held-out", test)):
            if rows.size == 0:
                raise ValueError(f"fold {k} has no {part} rows: each fold needs some")
        missing = folds.missing(train[weight[train] > 0])
        if missing is not None:
            raise ValueError(_text(folds, k, "training", _training_advice(folds, train, missing)))
    return folds


def check_scorable(folds: Folds, score: Score) -> None:
    """ValueError if a score needs rows of both classes and some held-out rows are of one."""
    if score in ONE_CLASS_ALLOWED:
        return
    for k, (_, test) in enumerate(folds.splits):
        missing = folds.missing(test)
        if missing is not None:
            raise ValueError(_text(folds, k, "held-out", f"{_scoring_advice(folds, test, missing)}, or scoring='accuracy'"))


def _split(X: Any, y: npt.NDArray[Any], cv: Any, groups: Any, random_state: Any) -> list[tuple[Ints, Ints]]:
    if isinstance(cv, float | np.floating):
        if not 0 < cv < 1:
            raise ValueError(f"cv as a share of rows must lie between 0 and 1, got {cv}")
        cv = StratifiedShuffleSplit(1, test_size=float(cv), random_state=random_state)
    splitter = check_cv(cv, y, classifier=True)
    if isinstance(splitter, StratifiedKFold):
        _check_number(splitter.n_splits, y)
    X, y, groups = indexable(X, y, groups)
    rows = np.arange(len(y))
    splits = [(rows[train], rows[test]) for train, test in splitter.split(X, y, groups)]
    if not splits:
        raise ValueError("cv gives no folds: it must give at least one pair (train, test)")
    return splits


def _check_number(n_splits: int, y: npt.NDArray[Any]) -> None:
    """ValueError if both classes have fewer rows than there are to be folds."""
    classes, counts = np.unique(y, return_counts=True)
    if n_splits > counts.max():
        sizes = " and ".join(f"class {label!r} has {_rows(n)}" for label, n in zip(classes.tolist(), counts, strict=True))
        raise ValueError(f"{n_splits} folds are too many: {sizes}; use at most cv={counts.min()}")


# ----------------------------------------------------------------------------------------------------------------------
# Advice


def _text(folds: Folds, k: int, part: str, advice: str) -> str:
    return f"the {part} rows of fold {k} hold one class only: {advice} {describe_rows(folds.X)}"


def _training_advice(folds: Folds, train: Ints, missing: int) -> str:
    """Why the training rows of positive weight are of one class, and what to do."""
    members, label = folds.members(missing), _label(folds, missing)
    if np.count_nonzero(folds.weight[members]) == 1:
        weight = " of positive weight" if members.size > 1 else ""
        return f"class {label} has 1 row{weight}; each class needs at least 2"
    if np.isin(members, train).any():
        return f"those of class {label} have weight zero; leave out rows of weight zero, or use other folds"
    return _stratify(folds)


def _scoring_advice(folds: Folds, test: Ints, missing: int) -> str:
    """Why held-out rows are of one class, and what to do."""
    n, n_folds = folds.members(missing).size, len(folds.splits)
    if test.size == 1:
        return f"they are a single row; use stratified folds, cv={_most(folds, USUAL)}"
    if n < n_folds and _is_partition(folds):
        return f"class {_label(folds, missing)} has {_rows(n)} for {n_folds} folds; use at most cv={n}"
    return _stratify(folds)


def _stratify(folds: Folds) -> str:
    n_folds = len(folds.splits)
    if n_folds == 1:
        return "train on and hold out rows of both classes"
    number = _most(folds, n_folds if _is_partition(folds) else USUAL)
    return f"the folds are not stratified; use stratified ones, cv={number}, or shuffle the rows"


def _is_partition(folds: Folds) -> bool:
    """Whether each row is held out once."""
    held = np.sort(np.concatenate([test for _, test in folds.splits]))
    return np.array_equal(held, np.arange(folds.positive.size))


def _most(folds: Folds, n_folds: int) -> int:
    """The number of folds nearest to this that can be stratified."""
    return min(n_folds, folds.members(0).size, folds.members(1).size)


def _label(folds: Folds, which: int) -> str:
    return repr(folds.classes.tolist()[which])


def _rows(n: Any) -> str:
    return f"{n} row{'s' if n != 1 else ''}"
