"""Exact arithmetic against Fractions, and the guess that it judges."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from svmatlas.engine.exact import ExactFacet, ExactProblem, answer, corners_and_tie
from svmatlas.engine.guess import approximate, guess
from svmatlas.engine.predicates import ASK_PENCIL, ASK_SIGN
from svmatlas.engine.workspace import INSIDE, MARGIN, OUTSIDE, QUESTION, L
from tests.engine import Exact, dot, fractions, gaussian, nearly_dependent, partitions, task_of, weighted

DATA = {"gaussian": gaussian(), "nearly dependent": nearly_dependent(), "weights": weighted()}
every = pytest.mark.parametrize("data", DATA.values(), ids=DATA)


def facets(given, size):
    """Some partitions, by integers and in Fractions."""
    _, data, region = task_of(*given)
    problem = ExactProblem(data, region)
    for state in partitions(data, min(size, data.rank)):
        yield ExactFacet(problem, state), Exact(data, state), state


@every
@pytest.mark.parametrize("size", [0, 1, 2, 3])
def test_maps_are_rounded_once(data, size):
    for facet, true, _ in facets(data, size):
        alpha, beta = facet.maps()
        assert beta.tolist() == [[float(v) for v in column] for column in true.beta]
        for i, a in zip(true.margin, true.alpha, strict=True):
            assert alpha[:, i].tolist() == [float(v) for v in a]


@every
def test_solutions_are_rounded_once(data):
    c = np.array([0.75, 0.3, 1.0])
    for facet, true, _ in facets(data, 2):
        alpha, beta = facet.solution(c)
        assert beta.tolist() == [float(dot(fractions(c), column)) for column in zip(*true.beta, strict=True)]
        assert alpha[true.margin].tolist() == [float(dot(fractions(c), a)) for a in true.alpha]


@every
def test_a_partition_is_optimal_where_all_its_lines_say_so(data):
    rng, outcomes = np.random.default_rng(0), set()
    for facet, true, _ in facets(data, 0):
        for c in np.exp(rng.uniform(-9, 0, (8, 3))):
            optimal = all(dot(fractions(c), true.line(code)) >= 0 for code in true.codes())
            assert facet.is_optimal(c) == optimal
            outcomes.add(optimal)
    _, inner, region = task_of(*data)
    inside = ExactFacet(ExactProblem(inner, region), np.full(inner.norm.size, INSIDE, np.int8))
    assert inside.is_optimal(np.array([1e-9, 1e-9, 1.0]))
    assert inside.is_optimal(np.array([0.0, 0.0, 1.0]), np.array([1.0, 1.0, 0.0]))  # just beside no costs


def test_the_tightest_of_a_pencil():
    """Of parallel score lines those with the largest bound on either side; those without a slope bound nothing."""
    for facet, true, state in facets(gaussian(), 3):
        codes = [code for code in true.codes() if state[code >> 1] != MARGIN]
        asked = np.array([(ASK_PENCIL, code, code, code, 0) for code in codes], QUESTION)
        ((kind, *best, _, _),) = answer(facet.problem, state, asked).tolist()
        bounds = {}
        for code in codes:
            p, q, l = true.line(code)
            slope = p if p != 0 else q
            bounds.setdefault(slope > 0, []).append((-l / abs(slope), code))
        assert kind == ASK_PENCIL
        assert best == [max(bounds[side])[1] if side in bounds else -1 for side in (True, False)]


def test_answers_are_signs_of_determinants():
    """At corners in the triangle of costs."""
    count = 0
    for facet, true, state in facets(gaussian(), 2):
        for a, b in combinations(true.codes(), 2):
            (x, y, z), (u, v, w) = true.line(a), true.line(b)
            corner = [y * w - z * v, z * u - x * w, x * v - y * u]
            if not (min(corner) >= 0 or max(corner) <= 0):
                continue
            turn = 1 if max(corner) > 0 else -1
            asked = np.array([(ASK_SIGN, a, b, k, 0) for k in true.codes()], QUESTION)
            for row, k in zip(answer(facet.problem, state, asked).tolist(), true.codes(), strict=True):
                value = turn * dot(corner, true.line(k))
                assert row == (ASK_SIGN, a, b, k, (value > 0) - (value < 0))
                count += 1
    assert count > 50


def test_what_the_jitter_makes_is_a_tie():
    """Three score lines that meet in one point but for the jitter bound a tie; a plain triangle is none."""
    X = [[1.0, 0.0], [1.0, 0.0], [2.0, 1.0], [0.0, 2.0], [-1.0, 1.0], [-2.0, -1.0]]
    _, data, region = task_of(X, [1, 0, 1, 0, 1, 0], 1.0, None)
    problem = ExactProblem(data, region)
    state = np.full(data.norm.size, INSIDE, np.int8)
    corners, tie = corners_and_tie(problem, state, [-1, -2, -3])
    assert not tie
    assert np.all(corners.max(axis=1) == 1.0)


@pytest.mark.parametrize("seed", range(4))
def test_a_guess_is_right_but_for_ties(seed):
    X, y, *_ = gaussian(14, 3, seed=seed)
    _, data, region = task_of(X, y, 1.0, None)
    c = np.array([0.5, 0.25, 1.0])
    state = guess(data, c)
    assert state is not None
    assert ExactFacet(ExactProblem(data, region), state).is_optimal(c)
    near, beta = approximate(data, c)
    assert np.sum(near != state) <= 4  # but for what coordinate descent leaves
    assert np.allclose(beta, ExactFacet(ExactProblem(data, region), state).solution(c)[1] / c[L], atol=1e-3)
    assert guess(data, np.array([0.0, 0.25, 1.0])) is None  # on an axis
    assert set(np.unique(state)) <= {INSIDE, OUTSIDE, MARGIN}


def test_no_guess_in_a_tie():
    """One positive and one negative row, at costs where all alpha do the same: more points are free than the rank."""
    X = np.array([[1.0], [1.0 + 2.0**-40], [-1.0], [-1.0 - 2.0**-40]])
    _, data, _ = task_of(X, [1, 1, 0, 0], 0.0, None)
    state = guess(data, np.array([3.0, 3.0, 1.0]))
    assert state is None or np.sum(state == MARGIN) <= data.rank
