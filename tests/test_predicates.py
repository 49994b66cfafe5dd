"""The arithmetic under the predicates, against Fractions."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svmatlas.data.problem import check_bounds, make_problem, make_region
from svmatlas.engine import doubledouble, exact, residues
from svmatlas.engine.compiled import entry
from svmatlas.engine.exact import ExactFacet, ExactProblem, integers
from svmatlas.engine.facet import drift_of, solve_maps, sum_pull
from svmatlas.engine.lines import line, line_dd
from svmatlas.engine.lines import tabulate_margin as tabulate
from svmatlas.engine.refinement import refine
from svmatlas.engine.residues import solve_integer
from svmatlas.engine.workspace import INSIDE, MARGIN, OUTSIDE, make_space, make_task
from svmatlas.support.settings import SETTINGS
from tests import cases
from tests.facts import explore_pieces

number = st.floats(-1e10, 1e10).filter(lambda v: v == 0 or abs(v) > 1e-100)


@entry
def dd_operations(a, b):
    return doubledouble.two_sum(a, b), doubledouble.two_prod(a, b), doubledouble.dd_mul(a, a * 1e-17, b, -b * 1e-17)


@given(number, number)
def test_error_free_transformations(a, b):
    total, product, _ = dd_operations(a, b)
    assert sum(map(Fraction, total)) == Fraction(a) + Fraction(b)
    assert sum(map(Fraction, product)) == Fraction(a) * Fraction(b)


@given(number, number)
def test_double_double_product(a, b):
    _, _, product = dd_operations(a, b)
    exact = (Fraction(a) + Fraction(a * 1e-17)) * (Fraction(b) - Fraction(b * 1e-17))
    assert abs(sum(map(Fraction, product)) - exact) <= abs(exact) * Fraction(doubledouble.UNIT_DD)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5))
def test_integers_are_exact(values):
    numbers, e = integers(np.array(values))
    assert [Fraction(n, 2**e) for n in numbers] == [Fraction(v) for v in values]


@given(st.data())
def test_integer_solution(data):
    n = data.draw(st.integers(1, 4))
    root = data.draw(st.lists(st.lists(st.integers(-9, 9), min_size=n, max_size=n), min_size=n, max_size=n))
    matrix = [[sum(a * b for a, b in zip(x, y, strict=True)) + (x is y) for y in root] for x in root]
    right = [[data.draw(st.integers(-9, 9))] for _ in range(n)]
    numerator, divisor = solve_integer(matrix, right)
    assert divisor > 0
    for row, (b,) in zip(matrix, right, strict=True):
        assert sum(a * x for a, (x,) in zip(row, numerator, strict=True)) == divisor * b


@pytest.mark.parametrize(("n", "size"), [(0, 1), (1, 2**200), (3, 2**31), (12, 2**53), (25, 2**90)])
def test_integer_solution_of_large_numbers(n, size):
    random = Random(0)
    root = [[random.randint(-size, size) for _ in range(n + 1)] for _ in range(n)]
    matrix = [[sum(a * b for a, b in zip(x, y, strict=True)) for y in root] for x in root]
    right = [[random.randint(-(size**2), size**2) for _ in range(3)] for _ in range(n)]
    numerator, divisor = solve_integer(matrix, right)
    assert divisor > 0
    for row, b in zip(matrix, right, strict=True):
        assert [sum(a * x[c] for a, x in zip(row, numerator, strict=True)) for c in range(3)] == [divisor * v for v in b]


def test_primes_that_divide_the_determinant_are_left_out():
    primes = residues._primes(residues.SPARE)
    assert all(all(p % k for k in range(2, 46341)) for p in primes.tolist())
    divisor = int(np.prod(primes.astype(object)))
    assert solve_integer([[divisor]], [[5]]) == ([[5]], divisor)


def test_dependent_rows_have_no_solution():
    for matrix in ([[1, 2], [2, 4]], [[0]], [[-1]]):
        with pytest.raises(ArithmeticError, match="linearly dependent"):
            solve_integer(matrix, [[1] for _ in matrix])


def test_a_clock_can_end_an_integer_solution():
    def late():
        raise TimeoutError

    with pytest.raises(TimeoutError):
        solve_integer([[1]], [[1]], late)


@entry
def all_lines(data, region, space, state, drift, codes):
    """Doubles with bounds, and double-doubles with bounds."""
    task = make_task(data, region, space)
    task.state, task.drift = state, drift
    sum_pull(data, state, task.pull)
    solve_maps(task)
    tabulate(task)
    refine(task)
    double, shape = np.empty((codes.size, 6)), (codes.size, 3)
    high, low, error = np.empty(shape), np.empty(shape), np.empty(shape)
    for k in range(codes.size):
        double[k] = line(task, codes[k])
        line_dd(task, codes[k], high[k], low[k], error[k])
    return double[:, :3], double[:, 3:], high, low, error


@pytest.mark.parametrize("bias", [1.0, 0.01])
@settings(max_examples=25)
@given(seed=st.integers(0, 10**6))
def test_bounds_hold(bias, seed):
    """The exact line lies within the error bounds of both levels, for any partition, also of nearly dependent rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(12, 6))
    X[1] = X[0] + 10.0 ** -rng.integers(0, 7) * rng.normal(size=6)
    problem = make_problem(X, np.arange(12) % 2, bias, None, seed)
    region = make_region(check_bounds(None), problem.features.exponent)
    state = rng.choice([OUTSIDE, INSIDE], 12).astype(np.int8)
    state[rng.permutation(12)[: rng.integers(0, 6)]] = MARGIN
    state[:2] = rng.choice([OUTSIDE, INSIDE, MARGIN], 2)
    state[np.flatnonzero(state == MARGIN)[5:]] = INSIDE
    codes = np.array(sorted({2 * i + k for i in range(12) for k in ((0, 1) if state[i] == MARGIN else (state[i],))}))
    space, drift = make_space(problem.data, region), drift_of(problem.data, 12)
    double, bound, high, low, error = all_lines(problem.data, region, space, state, drift, codes)
    facet = ExactFacet(ExactProblem(problem.data, region), state)
    (_, e), (_, f), (_, g) = facet.problem.rows, facet.problem.targets, facet.problem.weights
    units = [Fraction(1, 2 ** (g + 2 * e))] * 2 + [Fraction(1, 2**f)]
    for k, code in enumerate(codes.tolist()):
        scale = Fraction(4**e if state[code >> 1] == MARGIN else 1) / facet.divisor
        for c, h in enumerate(facet.line(code)):
            true = h * units[c] * scale
            assert abs(Fraction(double[k, c]) - true) <= Fraction(bound[k, c])
            assert abs(Fraction(high[k, c]) + Fraction(low[k, c]) - true) <= Fraction(error[k, c])
            assert error[k, c] <= 1e-12 * bound[k, c] + 1e-300


def measure(corners):
    """Square of the diameter, and area, in rationals."""
    units = [[Fraction(x, max(v)) for x in v] for v in corners]

    def cross(a, b):
        return [a[k - 2] * b[k - 1] - a[k - 1] * b[k - 2] for k in range(3)]

    def dot(a, b):
        return sum(x * y for x, y in zip(a, b, strict=True))

    diameter = max(dot(cross(a, b), cross(a, b)) for a in units for b in units)
    edges = zip(units, units[1:] + units[:1], strict=True)
    return diameter, max(abs(dot(cross(a, b), c)) for a, b in edges for c in units)


@pytest.mark.parametrize("bits", [64, SETTINGS.measure_bits])
def test_ties_by_exact_arithmetic(bits, monkeypatch):
    """Facets are ties if less than a quarter is left of them with less jitter, by rationals; 64 bits are too few at first."""
    X, y = cases.lattice()
    atlas = explore_pieces(X[:12], y[:12])
    split, problem = atlas._canonical.split, ExactProblem(atlas._problem.data, atlas._region)
    mesh = split.mesh
    monkeypatch.setattr(SETTINGS, "measure_bits", bits)
    facets = np.arange(mesh.facet_layer.size)
    ties = []
    for f, state in zip(facets, split.states(facets), strict=True):
        codes = mesh.edge_code[mesh.facet_edges[mesh.facet_at[f] : mesh.facet_at[f + 1]]].tolist()
        full, less = (measure(ExactFacet(p, state).corners(codes)) for p in (problem, problem.shrunk))
        corners, tie = exact.corners_and_tie(problem, state, codes)
        assert tie == (16 * less[0] <= full[0] or 4 * less[1] <= full[1])
        assert np.all(np.max(corners, axis=1) == 1.0)
        ties.append(tie)
    assert np.array_equal(ties, split.tie)
    assert 0 < sum(ties) < len(ties)
