"""Random maps that are hard on purpose: extreme scales, weights, costs and regions, ties, partial maps, kernels.

``trial(seed)`` makes one, asks it at random costs of its region, and measures what it answers on the given rows, in extended
precision and with no code of the package. It returns what happened in a word, or raises AssertionError.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

import svmatlas

inf = np.inf
Long = np.longdouble

TINY = 1e-300
"""Dual variables smaller than this lose digits; models with such ones alone are not measured."""

RIGHT, KERNEL = 1e-9, 1e-5
"""Largest relative duality gap of an answer without a warning, and ten times that by a kernel, 1e-6: there the length of the
weights is measured from the dual variables, and not from those that decide."""

REFUSALS = (
    "standardise", "differ in scale", "out of range", "sample_weight", "not positive semidefinite", "NaN or infinity",
    "outside the explored part",
)  # fmt: skip
"""A refusal says one of these."""


class Case(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    arguments: dict


# ----------------------------------------------------------------------------------------------------------------------
# Data


def rows(rng):
    n, d = int(rng.integers(2, 13)), int(rng.integers(1, 5))
    kind = rng.choice(["gaussian", "lattice", "binary", "repeated", "nearly repeated", "wide", "shares"])
    X = rng.normal(size=(n, d))
    if kind == "lattice":
        X = rng.integers(-2, 3, (n, d)).astype(float)
    elif kind == "binary":
        X = rng.integers(0, 2, (n, d)).astype(float)
    elif kind == "repeated":
        X = X[rng.integers(0, n, n)]
    elif kind == "nearly repeated":
        X = X[rng.integers(0, n, n)] + 10 ** rng.uniform(-16, -3) * rng.normal(size=(n, d))
    elif kind == "wide":
        X = rng.normal(size=(n, 70))
    elif kind == "shares":
        X = np.column_stack([rng.dirichlet(np.ones(3), n), X])
    y = rng.permutation(np.arange(n) % 2)
    if rng.random() < 0.15:
        y = np.eye(n, dtype=int)[rng.integers(n)]  # one positive row
    return X, y


def scaled(rng, X):
    """X with other scales."""
    X = X + rng.choice([0.0, 0.0, 1.0, 1e3, 1e6])
    spread = rng.choice([0.0, 1.0, 2.0, 4.0, 6.0, 12.0, 40.0, 140.0], p=[0.25, 0.15, 0.15, 0.15, 0.1, 0.1, 0.05, 0.05])
    which = rng.choice(["columns", "rows", "entries"])
    shape = {"columns": (1, X.shape[1]), "rows": (X.shape[0], 1), "entries": X.shape}[which]
    power = rng.uniform(-spread, spread, shape) + rng.choice(
        [0.0, rng.uniform(-8, 8), rng.uniform(-150, 150)], p=[0.6, 0.2, 0.2]
    )
    return X * 10.0**power


def weights(rng, n):
    spread = rng.choice([0.0, 3.0, 12.0, 290.0], p=[0.5, 0.2, 0.25, 0.05])
    return None if spread == 0.0 else 10.0 ** rng.uniform(-spread, spread, n)


def bounds(rng):
    """Bounds of one cost."""
    low = 10.0 ** rng.uniform(-4, 4)
    choice = [(0.0, inf), (0.0, low), (low, inf), (low, 3 * low), (low, low * (1 + 10.0 ** rng.uniform(-15, -3))),
              (10.0 ** -rng.uniform(1, 100), 10.0 ** rng.uniform(1, 100))]  # fmt: skip
    return choice[rng.integers(len(choice))]


def make(seed):
    rng = np.random.default_rng(seed)
    X, y = rows(rng)
    X = scaled(rng, X)
    arguments = {
        "bias": float(rng.choice([0.0, 1e-6, 1.0, 1e6], p=[0.3, 0.1, 0.5, 0.1])),
        "sample_weight": weights(rng, len(y)),
    }
    arguments["random_state"] = int(rng.integers(100))
    if rng.random() < 0.5:
        arguments["region"] = bounds(rng), bounds(rng)
    arguments["max_facets"] = int(rng.choice([1, 3, 10, 60, 400, 2000]))
    if rng.random() < 0.25:
        arguments["kernel"] = str(rng.choice(["rbf", "rbf", "poly"]))
        if rng.random() < 0.3:
            arguments["gamma"] = 10.0 ** rng.uniform(-6, 6)
    return Case(X, y, arguments)


def costs(rng, region, unit, n=6):
    """Random costs of a region: its ends and between them, by magnitude around the unit of the data."""
    out = []
    for low, high in region:
        a = np.log(low) if low > 0 else np.log(unit) - 30
        b = np.log(high) if high < inf else max(np.log(unit), a) + 30
        drawn = np.exp(rng.uniform(a, max(a, b), n))
        ends = rng.random(n)
        drawn = np.where(ends < 0.1, low, np.where(ends > 0.9, high, drawn))
        out.append(np.clip(drawn, low, high))
    return zip(*out, strict=True)


# ----------------------------------------------------------------------------------------------------------------------
# Answers


def gap(X, y, weight, bias, C_pos, C_neg, coef, intercept, alpha):
    """Relative duality gap on the given rows, but for the rounding of alpha; the terms of the sum are not negative."""
    X, alpha, coef, bias = X.astype(Long), alpha.astype(Long), coef.astype(Long), Long(bias)
    sign = np.where(y == 1, Long(1), Long(-1))
    cost = np.where(y == 1, Long(C_pos), Long(C_neg)) * weight.astype(Long)
    assert np.all((alpha >= 0) & (alpha <= cost * (1 + Long(1e-12)) + Long(TINY)))
    lack = 1 - sign * (X @ coef + Long(intercept))
    Z, beta = np.column_stack([X, np.full(len(X), bias)]), np.append(coef, Long(intercept) / bias if bias else 0)
    norm = np.sqrt((Z**2).sum(axis=1))
    apart = np.sqrt(((beta - (alpha * sign) @ Z) ** 2).sum())
    apart = max(Long(0), apart - Long(2.0) ** -50 * (alpha * norm).sum())
    loss = cost * np.maximum(0, lack)
    primal = (beta**2).sum() / 2 + loss.sum()
    return float((apart**2 / 2 + (loss - alpha * lack).sum()) / primal) if primal > 0 else 0.0


def kernel_gap(gram, y, weight, bias, C_pos, C_neg, scores, alpha):
    """The same for decision values of the rows themselves by a kernel."""
    sign, alpha = np.where(y == 1, Long(1), Long(-1)), alpha.astype(Long)
    cost = np.where(y == 1, Long(C_pos), Long(C_neg)) * weight.astype(Long)
    assert np.all((alpha >= 0) & (alpha <= cost * (1 + Long(1e-12)) + Long(TINY)))
    z = alpha * sign
    square = z @ (gram.astype(Long) + Long(bias) ** 2) @ z
    primal = square / 2 + (cost * np.maximum(0, 1 - sign * scores)).sum()
    dual = alpha.sum() - square / 2
    slip = Long(2.0) ** -50 * np.abs(z).sum() ** 2 * np.abs(gram).max()
    return float((primal - dual - slip) / primal) if primal > 0 else 0.0


def primal(X, y, weight, bias, C_pos, C_neg, coef, intercept):
    """The objective, but for what the rounding of scores may add to it."""
    sign = np.where(y == 1, Long(1), Long(-1))
    cost = np.where(y == 1, Long(C_pos), Long(C_neg)) * weight.astype(Long)
    lack = 1 - sign * (X.astype(Long) @ coef.astype(Long) + Long(intercept))
    lack -= Long(2.0) ** -45 * (np.abs(X).astype(Long) @ np.abs(coef).astype(Long) + abs(Long(intercept)))
    b = Long(intercept) / Long(bias) if bias else Long(0)
    return ((coef.astype(Long) ** 2).sum() + b**2) / 2 + (cost * np.maximum(0, lack)).sum()


def check_finite(case, atlas, weight, p, q):
    X, y, bias = case.X, case.y, case.arguments["bias"]
    alpha = atlas.alpha(p, q)
    if Long(max(p, q)) * weight.max() < TINY:
        return 0.0
    if "kernel" in case.arguments:
        kernel = atlas._problem.features.kernel
        scores = atlas.decision_function(X, p, q)
        return kernel_gap(kernel(X, X), y, weight, bias, p, q, scores, alpha)
    return gap(X, y, weight, bias, p, q, atlas.coef(p, q), atlas.intercept(p, q), alpha)


def check_infinite(case, atlas, weight, p, q):
    """How much worse the limit is than what is answered at very large costs."""
    X, y, bias = case.X, case.y, case.arguments["bias"]
    coef, intercept = atlas.coef(p, q), atlas.intercept(p, q)
    assert np.all(np.isfinite(coef))
    with np.errstate(over="ignore"):
        large = np.ldexp(1.0, 240 - atlas._problem.cost_exponent)
    if not (np.isfinite(large) and large > 0):
        return 0.0
    large = max([large, *(2.0**100 * cost for cost in (p, q) if np.isfinite(cost))])  # beside a finite cost, too
    p, q = (max(large, low) if np.isinf(cost) else cost for cost, (low, _) in zip((p, q), atlas.region, strict=True))
    other = primal(X, y, weight, bias, p, q, atlas.coef(p, q), atlas.intercept(p, q))
    own = primal(X, y, weight, bias, p, q, coef, intercept)
    return float((own - other) / other) if other > 0 else 0.0


def trial(seed):
    """What happened: right, warned, or refused and why."""
    case = make(seed)
    rng = np.random.default_rng(seed + 10**6)
    weight = case.arguments["sample_weight"]
    weight = np.ones(len(case.y)) if weight is None else weight
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", svmatlas.AccuracyWarning)  # of polygons: here models are asked for
                atlas = svmatlas.explore(case.X, case.y, time_budget=20.0, **case.arguments)
        except (ValueError, MemoryError) as error:
            return refusal(error)
        outcome = "right" if atlas.complete else "right, partial"
        unit = float(np.ldexp(1.0, int(np.clip(-atlas._problem.cost_exponent, -900, 900))))
        for p, q in costs(rng, atlas.region, unit):
            finite = np.isfinite(p) and np.isfinite(q)
            if not finite and "kernel" in case.arguments:
                continue
            try:
                value = (check_finite if finite else check_infinite)(case, atlas, weight, p, q)
            except svmatlas.AccuracyWarning:
                outcome = "warned"
                continue
            except ValueError as error:
                outcome = max(outcome, refusal(error))
                continue
            assert value <= (KERNEL if "kernel" in case.arguments else RIGHT), f"gap {value:.1e} at costs ({p}, {q})"
    return outcome


def refusal(error):
    assert any(part in str(error) for part in REFUSALS), f"{type(error).__name__}: {error}"
    return "refused: " + next(part for part in REFUSALS if part in str(error))
