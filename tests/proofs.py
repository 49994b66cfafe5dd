"""Random maps for the checker: those of ``hostile``, explored whole as far as they are small, each certified on its rows.

``trial(seed)`` returns what happened in a word: certified, refused by ``explore`` and why, or refused by the checker after a
warning, of ``explore`` or of the model at the place, or not proven because the kernel matrix is singular up to rounding. A map
that the checker refuses and nothing warned of is an AssertionError.
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

import svmatlas
from tests import hostile

SINGULAR = 1e-13
"""Relative size of eigenvalues that are rounding errors, of rows of length 1."""


def trial(seed):
    """What happened."""
    case = hostile.make(seed)
    arguments = {**case.arguments, "max_facets": max(400, case.arguments["max_facets"])}
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", svmatlas.AccuracyWarning)
            atlas = svmatlas.explore(case.X, case.y, time_budget=20.0, **arguments)
    except (ValueError, MemoryError) as error:
        return hostile.refusal(error)
    found = svmatlas.certify(atlas, case.X, case.y, sample_weight=arguments["sample_weight"])
    if found.ok:
        return "certified" if found.complete else "certified, partial"
    if is_singular(case):
        return "not proven: a kernel matrix that is singular up to rounding"
    assert said or warns(atlas, found), str(found)
    return "refused, after a warning of explore" if said else "refused, and its models warn"


def is_singular(case):
    """Whether a kernel matrix says nothing of some combinations of rows but rounding errors."""
    if "kernel" not in case.arguments:
        return False
    scale = {"gamma": case.arguments.get("gamma", 1.0 / (case.X.shape[1] * case.X.var()))}
    gram = rbf_kernel(case.X, **scale) if case.arguments["kernel"] == "rbf" else polynomial_kernel(case.X, coef0=0.0, **scale)
    gram = gram + case.arguments["bias"] ** 2
    sizes = np.linalg.eigvalsh(gram / np.sqrt(np.outer(np.diag(gram), np.diag(gram))))
    return bool(sizes[0] < SINGULAR * sizes[-1])


def warns(atlas, found):
    """Whether a model of the map says that it is inaccurate, at the costs where the checker finds the map worst."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", svmatlas.AccuracyWarning)
        try:
            atlas.alpha(*np.clip(found.costs, *np.transpose(atlas.region)))
        except svmatlas.AccuracyWarning:
            return True
    return False
