from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings

import svmatlas
from svmatlas.engine.compiled import UNCOMPILED

collect_ignore_glob = [] if UNCOMPILED else ["test_engine_*.py"]  # kernels by themselves: `make test` runs them uncompiled

settings.register_profile("same", derandomize=True, deadline=None)  # a run that passed passes again, on any machine
settings.register_profile("search", derandomize=False, deadline=None)  # other examples in every run
settings.load_profile("same")


@pytest.fixture(scope="session")
def small():
    """A generic data set and its atlas, for tests that only look."""
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(30, 3)), np.arange(30) % 2
    X[y == 1] += 1
    return X, y, svmatlas.explore(X, y)


def relative_gap(X, y, C_pos, C_neg, coef, intercept, alpha, bias=1.0, weight=None):
    """Relative duality gap in the user's units: nothing of the package's own arithmetic is used."""
    sign = np.where(y == np.unique(y)[1], 1.0, -1.0)
    cost = np.where(sign > 0, C_pos, C_neg) * (1.0 if weight is None else weight)
    assert np.all(alpha >= 0)
    assert np.all(alpha <= cost * (1 + 1e-12))
    b = intercept / bias if bias else 0.0
    hinge = np.maximum(0, 1 - sign * (X @ coef + intercept))
    primal = 0.5 * (coef @ coef + b * b) + cost @ hinge
    pull = (alpha * sign) @ X
    dual = alpha.sum() - 0.5 * (pull @ pull + (bias * (alpha @ sign)) ** 2)
    return (primal - dual) / primal


@pytest.fixture(scope="session")
def gap():
    return relative_gap
