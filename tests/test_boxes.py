"""The search at any time: the interpolation ball, and bounds that hold at every moment."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.model_selection import StratifiedKFold, cross_val_score

import svmatlas
from svmatlas.choose import boxes, scoring
from svmatlas.choose.ball import decide, pairwise_gaps
from svmatlas.choose.corners import Solver
from svmatlas.data.problem import make_problem
from svmatlas.support.stopping import NEVER
from tests import brute
from tests.test_select import REGION, noisy

CASES = {
    "plain": lambda: noisy(60, 4, 1),
    "tied": lambda: (np.random.default_rng(2).integers(0, 3, (60, 4)).astype(float), np.arange(60) % 3 == 0),
    "repeated": lambda: tuple(np.concatenate([a, a]) for a in noisy(30, 3, 3)),
    "unscaled": lambda: (noisy(60, 4, 4)[0] * [1.0, 1e4, 1e-4, 1.0], noisy(60, 4, 4)[1]),
    "few positive": lambda: (noisy(30, 3, 5)[0], np.arange(30) % 9 == 3),
    "wine": lambda: tuple(a[:130] for a in load_wine(return_X_y=True)),
}


def solver_of(X, y, train):
    problem = make_problem(X[train], y[train], 1.0, None, 0)
    return Solver(problem, problem.features.coordinates(X))


@pytest.mark.parametrize("name", CASES)
def test_rows_that_the_ball_decides_are_decided(name):
    """At random costs of random boxes the models predict what the corners of the box say."""
    X, y = CASES[name]()
    rng, train = np.random.default_rng(0), np.arange(len(y)) % 3 != 1
    solver = solver_of(X, y, train)
    square, n_decided = np.sum(solver.rows**2, axis=1), 0
    for _ in range(12):
        low, width = 10.0 ** rng.uniform(-4, 3, 2), 10.0 ** rng.uniform(0, rng.choice([0.03, 0.3, 1.0]), 2)
        sizes = [(1, 1), (width[0], 1), (width[0], width[1]), (1, width[1])]
        corners = [solver.solve(tuple(low * size), NEVER) for size in sizes]
        positive, negative = decide(corners, square)
        n_decided += int(np.sum(positive | negative))
        for share in rng.uniform(size=(4, 2)):
            value = solver.solve(tuple(low * (1 + share * (width - 1))), NEVER, corners[0]).value
            assert np.all(value[positive] > 0)
            assert np.all(value[negative] < 0)
    assert n_decided > 0


@pytest.mark.parametrize("name", CASES)
def test_no_solution_leaves_the_ball(name):
    """Of three corners: |beta(c) - b|^2 is at most twice the sum of the products of weights and gaps."""
    X, y = CASES[name]()
    rng = np.random.default_rng(1)
    solver = solver_of(X, y, np.arange(len(y)))
    for _ in range(8):
        costs = 10.0 ** (rng.uniform(-3, 2, 2) + rng.uniform(-0.5, 0.5, (3, 2)))
        corners = [solver.solve(tuple(cost), NEVER) for cost in costs]
        g, weights = pairwise_gaps(corners), rng.dirichlet(np.ones(3))
        middle = solver.solve(tuple(weights @ costs), NEVER)
        b = weights @ np.array([corner.beta for corner in corners])
        bound = weights @ g @ weights + 2 * weights @ [corner.gap for corner in corners]
        assert np.sum((middle.beta - b) ** 2) <= bound + 2 * middle.gap + 1e-12 * (b @ b)


@pytest.mark.parametrize("name", CASES)
def test_walks_and_guesses_end_in_the_solution(name):
    X, y = CASES[name]()
    rng = np.random.default_rng(2)
    solver = solver_of(X, y, np.arange(len(y)))
    near = solver.solve((0.1, 0.2), NEVER)
    for costs in 10.0 ** rng.uniform(-3, 3, (6, 2)):
        plain = solver.solve(tuple(costs), NEVER)
        for events in (0, 10**6):
            other = solver.solve(tuple(costs), NEVER, near, events)
            np.testing.assert_allclose(other.value, plain.value, rtol=1e-6, atol=1e-8 * np.abs(plain.value).max())
