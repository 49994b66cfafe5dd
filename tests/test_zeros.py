"""Lines as polynomials in the jitter: modulo a prime and in doubles, against integers."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svmatlas.data.problem import check_bounds, make_problem, make_region
from svmatlas.engine.clipping import CLOSED, COARSE
from svmatlas.engine.compiled import entry
from svmatlas.engine.exact import ExactFacet, ExactProblem, rounded
from svmatlas.engine.facet import drift_of, solve_maps, sum_pull
from svmatlas.engine.lines import line_powers
from svmatlas.engine.lines import tabulate_margin as tabulate
from svmatlas.engine.polygon import close_facet
from svmatlas.engine.workspace import HINT, INSIDE, MARGIN, OUTSIDE, make_space, make_task
from svmatlas.engine.zeros import UNKNOWN, line_words, sign_of_jitter, solve_words, vanishes
from tests import cases
from tests.facts import explore_pieces

P = 2**61 - 1


@entry
def words_and_doubles(data, region, space, state, drift, codes):
    """Lines modulo the prime, and in doubles with errors; whether the former are known."""
    task = make_task(data, region, space)
    task.state, task.drift = state, drift
    sum_pull(data, state, task.pull)
    solve_maps(task)
    tabulate(task)
    words, known = np.empty((codes.size, 2, 3), np.uint64), solve_words(task)
    value, error = np.empty((codes.size, 2, 3)), np.empty((codes.size, 2, 3))
    for k in range(codes.size):
        line_words(task, codes[k], words[k])
        line_powers(task, codes[k], value[k], error[k])
    return words, value, error, known


@entry
def facet_signs(data, region, space, state, drift, hints):
    """(n, 4): the signs of edges and lines of M at all corners of a facet; is it closed, and does it vanish?"""
    task = make_task(data, region, space)
    task.state, task.drift = state, drift
    sum_pull(data, state, task.pull)
    outcome = close_facet(task, hints)
    n, m = task.polygon.n_corners, task.facet.n_margin
    out, row = np.empty((n * (n + 2 * m), 4), np.int64), 0
    for j in range(n if outcome == CLOSED else 0):
        a, b = task.edges.code[j], task.edges.code[j + 1 if j + 1 < n else 0]
        for i in range(n + 2 * m):
            k = task.edges.code[i] if i < n else 2 * task.factor.member[(i - n) >> 1] + ((i - n) & 1)
            out[row] = a, b, k, sign_of_jitter(task, k, a, b)
            row += 1
    return out[:row], outcome == CLOSED, outcome == CLOSED and vanishes(task)


def true_parts(data, region, state, codes):
    """Lines without jitter, and what the jitter adds, in rationals."""
    out = []
    for jitter in (0.0, 1.0):
        facet = ExactFacet(ExactProblem(data, region, jitter), state)
        (_, e), (_, f), (_, g) = facet.problem.rows, facet.problem.targets, facet.problem.weights
        units = [Fraction(1, 2 ** (g + 2 * e))] * 2 + [Fraction(1, 2**f)]
        scales = [Fraction(4**e if state[code >> 1] == MARGIN else 1) / facet.divisor for code in codes]
        lines = [facet.line(code) for code in codes]
        out.append([[h * u * s for h, u in zip(line, units, strict=True)] for line, s in zip(lines, scales, strict=True)])
    return [[*a, *(y - x for x, y in zip(a, b, strict=True))] for a, b in zip(*out, strict=True)]


def modulo(value):
    return value.numerator * pow(value.denominator, -1, P) % P


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), tied=st.booleans())
def test_lines_are_those_of_integers(seed, tied):
    """Modulo the prime up to a sign, in doubles within their bounds."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (12, 6)).astype(float) if tied else rng.normal(size=(12, 6))
    X[:5] += 4 * np.eye(5, 6)
    problem = make_problem(X, np.arange(12) % 2, 1.0, None, seed)
    region = make_region(check_bounds(None), problem.features.exponent)
    n = problem.data.rows.shape[0]
    state = rng.choice([OUTSIDE, INSIDE], n).astype(np.int8)
    state[rng.permutation(5)[: rng.integers(0, 6)]] = MARGIN
    codes = np.array(sorted({2 * i + k for i in range(n) for k in ((0, 1) if state[i] == MARGIN else (state[i],))}))
    space, drift = make_space(problem.data, region), drift_of(problem.data, n)
    words, values, errors, known = words_and_doubles(problem.data, region, space, state, drift, codes)
    assert known
    for k, line in enumerate(true_parts(problem.data, region, state, codes.tolist())):
        residues = [modulo(entry) for entry in line]
        assert words[k].ravel().tolist() in (residues, [-entry % P for entry in residues])
        for value, true, error in zip(values[k].ravel(), line, errors[k].ravel(), strict=True):
            assert abs(Fraction(value) - true) <= Fraction(error)


def some_pieces(atlas, count):
    """Partitions of some facets of the map of the jittered data, and whether they are ties."""
    ties = atlas._canonical.split.tie
    pieces = np.sort(np.random.default_rng(0).choice(ties.size, min(count, ties.size), replace=False))
    return zip(atlas._split_states(pieces), ties[pieces], strict=True)


@pytest.mark.parametrize("make", [cases.binary, cases.one_hot, cases.lattice, cases.both_labels])
def test_signs_are_those_of_integers(make):
    """Where a sign is zero without jitter, that of what is left is found, in most cases, and never another one."""
    atlas, outcomes = explore_pieces(*make()), Counter()
    data, region = atlas._problem.data, atlas._region
    space, drift, hints = make_space(data, region), drift_of(data, data.rows.shape[0]), np.empty(0, HINT)
    plain, full = ExactProblem(data, region, 0.0), ExactProblem(data, region)
    for state, tie in some_pieces(atlas, 40):
        signs, closed, vanished = facet_signs(data, region, space, state, drift, hints)
        assert not closed or vanished == tie
        still, moved = ExactFacet(plain, state), ExactFacet(full, state)
        for a, b, k, sign in signs.tolist():
            if sign != UNKNOWN:
                assert sign == moved.sign(a, b, k)
            outcomes[still.sign(a, b, k) == 0, sign != UNKNOWN] += 1
    assert outcomes[False, True] == 0  # not zero without jitter: this is for others to decide
    assert outcomes[True, True] > 50 * max(1, outcomes[True, False])


@pytest.mark.parametrize("make", [cases.lattice, cases.one_hot, cases.both_labels, cases.one_feature])
def test_ties_take_no_integers(make):
    """Neither to be told, nor for their corners, which are as good as all others."""
    atlas = explore_pieces(*make())
    split, exact = atlas._canonical.split, ExactProblem(atlas._problem.data, atlas._region)
    assert atlas.n_zero > 0
    assert atlas.n_exact == 0
    assert split.tie.any()
    mesh, pieces = split.mesh, np.flatnonzero(split.tie)[::11]
    for f, state in zip(pieces, atlas._split_states(pieces), strict=True):
        places = np.arange(mesh.facet_at[f], mesh.facet_at[f + 1])
        codes = mesh.edge_code[mesh.facet_edges[places]].tolist()
        vertices = mesh.vertices[mesh.facet_vertices[places]]
        true = rounded(ExactFacet(exact, state).corners(codes))
        scaled = vertices / vertices.max(axis=1, keepdims=True)
        known = (scaled != 0.0) & (true != 0.0)
        np.testing.assert_allclose(scaled[known], true[known], rtol=4 * COARSE)


def test_the_last_facet_is_not_taken_for_another():
    """Words are kept for one facet: its number is that of the points gathered last."""
    problem = make_problem(np.eye(3), [0, 1, 0], 1.0, None, 0)
    region = make_region(check_bounds(None), problem.features.exponent)
    space = make_space(problem.data, region)
    for k in range(3):
        state = np.full(3, INSIDE, dtype=np.int8)
        state[k] = MARGIN
        words, _, _, known = words_and_doubles(problem.data, region, space, state, 0.0, np.array([2 * k]))
        (true,) = true_parts(problem.data, region, state, [2 * k])
        assert known
        assert space.facet[0].serial == k + 1
        assert words[0].ravel().tolist() == [modulo(value) for value in true]
