"""polygon.py, kernel by kernel, against Fractions: values at corners, corners, clips, pencils, the single-precision filter."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from svmatlas.engine import checking, clipping, facet, polygon, predicates, tie_test
from svmatlas.engine.doubledouble import UNIT
from svmatlas.engine.workspace import INSIDE, MARGIN, OUTSIDE, DoubleDoubles
from tests import tiny
from tests.engine import Exact, closed_facets, cross, dot, fractions, gaussian, partitions, take, task_of, weighted

DATA = {"gaussian": gaussian(7, 2), "unscaled": gaussian(7, 2, scale=1e4), "weights": weighted()} | {
    case.__name__: tuple(case()) for case in (tiny.lattice, tiny.one_hot, tiny.repeated_rows, tiny.one_feature)
}


@pytest.fixture(params=DATA)
def case(request):
    return task_of(*DATA[request.param])


# ----------------------------------------------------------------------------------------------------------------------
# Values at corners


def test_the_bound_of_a_value_is_nearly_reached():
    """Lines that pass a corner almost: rounding alone makes a fifth of the bound, and never more than all."""
    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(2000):
        h, v = rng.uniform(-1, 1, 3), rng.uniform(0.5, 1, 3)
        h[2] = -(h[0] * v[0] + h[1] * v[1]) / v[2]
        value, bound, size = predicates.value_at_corner(*h, 0.0, 0.0, 0.0, v, np.zeros(3))
        error = abs(Fraction(value) - dot(fractions(h), fractions(v)))
        assert error <= Fraction(bound)
        assert size == pytest.approx(np.abs(h) @ v)
        worst = max(worst, float(error / Fraction(bound)))
    assert worst > 0.2


def test_errors_of_lines_and_corners_count():
    """A line and a corner, each off by its error: the value is off by less than the bound, and by nearly all of it."""
    rng, worst = np.random.default_rng(1), 0.0
    for _ in range(500):
        h, v, e, d = rng.uniform(-1, 1, 3), rng.uniform(0, 1, 3), *(1e-6 * rng.uniform(0, 1, (2, 3)))
        _, bound, _ = predicates.value_at_corner(*h, *e, v, d)
        true_h, true_v = h + e, v + d * np.sign(h + e)
        error = abs(dot(fractions(h), fractions(v)) - dot(fractions(true_h), fractions(true_v)))
        assert error <= Fraction(bound)
        worst = max(worst, float(error / Fraction(bound)))
    assert worst > 0.99


def test_minors_in_double_double():
    """Of nearly parallel lines, where all leading digits cancel."""
    rng = np.random.default_rng(2)
    for _ in range(300):
        a, b = rng.normal(size=2)
        c, d = a * (1 + 1e-13 * rng.normal()), b * (1 + 1e-13 * rng.normal())
        low = 2.0**-60 * rng.normal(size=4)
        high, rest, error = predicates.minor_dd(a, low[0], b, low[1], c, low[2], d, low[3], 0, 0, 0, 0)
        A, B, C, D = (Fraction(x) + Fraction(y) for x, y in zip((a, b, c, d), low, strict=True))
        assert abs(Fraction(high) + Fraction(rest) - (A * D - B * C)) <= Fraction(error)
        assert error < 1e-13 * abs(high)


def test_cross_products_in_double_double():
    """Every entry, of nearly parallel vectors too, is within its error of that in Fractions."""
    rng = np.random.default_rng(3)
    for trial in range(100):
        high = rng.normal(size=(2, 3))
        if trial % 2:
            high[1] = high[0] * (1 + 1e-14 * rng.normal(size=3))
        low, error = 2.0**-60 * rng.normal(size=(2, 3)), 2.0**-104 * rng.uniform(size=(2, 3))
        vectors = DoubleDoubles(high, low, error)
        a, b = ([Fraction(x) + Fraction(y) for x, y in zip(high[k], low[k], strict=True)] for k in range(2))
        moved = [[x + Fraction(e) for x, e in zip(v, error[k], strict=True)] for k, v in enumerate((a, b))]
        for c in range(3):
            x, x_low, bound = predicates.cross_entry_dd(vectors, 0, vectors, 1, c)
            for true in (cross(a, b), cross(*moved)):  # the vectors themselves may be off by their errors
                assert abs(Fraction(x) + Fraction(x_low) - true[c]) <= Fraction(bound)


def lines_of(exact, region):
    """The line of a code, of sides too."""
    return lambda code: fractions(region.sides[-1 - code]) if code < 0 else exact.line(code)


def test_corners_are_within_their_bounds(case):
    """Of any two lines of a facet; the exact corner, scaled to the same largest entry."""
    task, data, region = case
    for size in range(data.rank):
        for state in partitions(data, size, 2, seed=size):
            if not take(task, data, state) or not task.facet.kappa < facet.WORST_KAPPA:
                continue
            exact = Exact(data, state)
            codes = exact.codes()[: 2 * size + 3] if size < data.rank - 1 else exact.codes()[: 2 * size]
            for a, b in itertools.pairwise(codes):
                clipping.make_corner(task, 0, a, b)
                corner, error = task.clipped.corner[0], task.clipped.corner_error[0]
                true = cross(*map(lines_of(exact, region), (a, b)))
                top = int(np.argmax(np.abs(corner)))
                if not error[top] < 1e-3 or min(true) * max(true) < 0:  # unknown, or no corner of the triangle
                    continue
                check_corner(corner, error, true, top)


def check_corner(corner, error, true, top):
    """All ratios to the largest entry agree up to the errors of both."""
    for c in range(3):
        bound = Fraction(error[c]) + Fraction(error[top]) + 4 * Fraction(UNIT)
        assert abs(Fraction(corner[c]) - Fraction(corner[top]) * true[c] / true[top]) <= 2 * bound


# ----------------------------------------------------------------------------------------------------------------------
# Polygons


def test_polygons_are_those_of_all_lines(case):
    """Every corner satisfies every line, in Fractions; and every edge has two different ends."""
    task, data, region = case
    checked = 0
    for state, codes in closed_facets(task, data):
        exact = Exact(data, state)
        line = lines_of(exact, region)
        corners = [cross(line(a), line(b)) for a, b in zip(codes, codes[1:] + codes[:1], strict=True)]
        corners = [v if sum(v) > 0 else [-x for x in v] for v in corners]
        sides = [fractions(side) for side in region.sides]
        assert all(dot(h, v) >= 0 for v in corners for h in [*map(exact.line, exact.codes()), *sides])
        assert all(any(cross(a, b)) for a, b in zip(corners, corners[1:] + corners[:1], strict=True))
        checked += 1
    assert checked > 10


def test_one_clip():
    """The triangle of costs, cut by one line: the corner beyond it is replaced by two."""
    task, data, region = task_of(*gaussian(6, 2))
    state = np.full(6, INSIDE, np.int8)
    take(task, data, state)
    polygon._start(task)
    assert task.edges.code[: task.polygon.n_corners].tolist() == [-1, -2, -3]
    exact = Exact(data, state)
    line = lines_of(exact, region)
    beyond = {c: [j for j in range(3) if dot(exact.line(c), fractions(region.corners[j])) < 0] for c in exact.codes()}
    code = next(c for c, corners in beyond.items() if len(corners) == 1)
    assert clipping.clip(task, code) == clipping.CLOSED
    n = task.polygon.n_corners
    codes = task.edges.code[:n].tolist()
    assert n == 4
    assert codes.count(code) == 1
    for j in range(n):
        corner, true = task.edges.corner[j], cross(line(codes[j]), line(codes[(j + 1) % n]))
        true = true if sum(true) > 0 else [-x for x in true]
        check_corner(corner, task.edges.corner_error[j], true, int(np.argmax(corner)))
    assert clipping.clip(task, code) == clipping.CLOSED  # again: nothing is beyond
    assert task.edges.code[:n].tolist() == codes


# ----------------------------------------------------------------------------------------------------------------------
# The pencil


def test_the_tightest_lines_of_a_pencil(case):
    """|M| = rank - 1: of all score lines s v >= n the tightest lower and the tightest upper bound on v."""
    task, data, _ = case
    found = 0
    for state, _ in closed_facets(task, data):
        if np.sum(state == MARGIN) != data.rank - 1 or task.facet.n_margin != data.rank - 1:
            continue
        exact, bounds = Exact(data, state), ([], [])
        for code in exact.codes()[2 * len(exact.margin) :]:
            i, sign = code >> 1, 1 if state[code >> 1] == OUTSIDE else -1
            s = sign * dot(exact.rows[i], exact.free)
            if s != 0:
                n = sign * (exact.targets[i] - dot(exact.rows[i], exact.beta[2]))
                bounds[0 if s > 0 else 1].append((n / s, code))
        take(task, data, state)
        polygon.close_facet(task, task.lines.no_hints)
        lower, upper = task.facet.pencil[0], task.facet.pencil[1]
        if lower >= 0 and upper >= 0:
            assert lower == max(bounds[0])[1]
            assert upper == min(bounds[1])[1]
            found += 1
    assert found > 0


def test_steep_pencils():
    """A pencil that is called steep has a slope without jitter, in Fractions; some strips between tied lines are so called."""
    found, odd_row = 0, ([[0, 0], [1, 0], [2, 0], [3, 0], [1, 0], [2, 1]], [0, 1, 0, 1, 0, 1], 1, None)
    for case in (tiny.one_feature(), tiny.lattice(), tiny.whole_weights(), odd_row):  # of the last many have none
        task, data, _ = task_of(*case)
        still = data._replace(target_jitter=0 * data.target_jitter, weight_jitter=0 * data.weight_jitter)
        for state, _ in closed_facets(task, data, 200):
            if np.sum(state == MARGIN) != data.rank - 1 or not tie_test.is_steep(task):
                continue
            exact = Exact(still, state)
            assert any(dot(exact.free, pull) != 0 for pull in exact.pull)
            found += tie_test.is_between_tied(task)
    assert found > 0


# ----------------------------------------------------------------------------------------------------------------------
# The filter in single precision


@pytest.mark.parametrize("scale", [1.0, 1e5])
def test_single_precision_never_decides_wrongly(scale):
    """Scores at costs that are almost on a line: the filter names a line that is violated, or lists it for doubles."""
    task, data, _ = task_of(*gaussian(40, 3, scale=scale, seed=4))
    state = next(partitions(data, 1, seed=4))
    take(task, data, state)
    polygon._start(task)
    exact, rng = Exact(data, state), np.random.default_rng(4)
    for trial in range(60):
        v = rng.uniform(0, 1, 3)
        i = int(rng.integers(40))
        h = [float(x) for x in exact.line(2 * i + (state[i] != OUTSIDE))]
        if state[i] != MARGIN and h[2] != 0:
            l = -(h[0] * v[0] + h[1] * v[1]) / h[2]
            v[2] = abs(l) * (1 + 2.0 ** -rng.integers(10, 50)) if l != 0 else v[2]
        task.edges.corner[0], task.edges.corner_error[0] = v, 0.0
        task.polygon.n_listed = 0
        worst = checking._check_scores(task, 0)
        listed = set(task.lines.listed[: task.polygon.n_listed].tolist())
        signs = {c: dot(exact.line(c), fractions(v)) for c in exact.codes() if state[c >> 1] != MARGIN}
        violated = {c for c, s in signs.items() if s < 0}
        assert worst in (checking.NONE, checking.ALL_CLEAR) or worst in violated, trial
        if worst in (checking.NONE, checking.ALL_CLEAR):
            assert violated <= listed
        if worst == checking.ALL_CLEAR:
            assert not violated
