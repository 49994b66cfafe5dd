"""facet.py, kernel by kernel, against Fractions: pulls, factor, maps, lines, and their error bounds for every |M|."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from svmatlas.engine import facet, lines, refinement, scores, workspace
from svmatlas.engine.doubledouble import UNIT
from svmatlas.engine.workspace import INSIDE, MARGIN
from tests.engine import Exact, dot, fractions, gaussian, nearly_dependent, partitions, take, task_of, weighted

CASES = {
    "gaussian": gaussian(),
    "unscaled": gaussian(scale=1e6),
    "nearly dependent": nearly_dependent(),
    "weights": weighted(),
    "one positive": (gaussian(7, 2)[0], np.arange(7) == 3, 1.0, None),
}


@pytest.fixture(params=CASES)
def case(request):
    return task_of(*CASES[request.param])


def every_partition(data):
    """Some of every |M|."""
    for size in range(data.rank + 1):
        yield from partitions(data, size, 3, seed=size)


def test_pulls_are_sums(case):
    """Also after points went in and out: errors are within ``drift_of`` of the moves."""
    task, data, _ = case
    states = list(every_partition(data))
    facet.sum_pull(data, states[0], task.pull)
    moves = states[0].size
    for before, state in itertools.pairwise(states):
        moves += facet.follow_pull(data, before, state, task.pull)
    true, bound = Exact(data, states[-1]).pull, Fraction(facet.drift_of(data, moves))
    for c in range(2):
        got = [
            sum(fractions(part[c, j] for part in (task.pull.high, task.pull.low, task.pull.derivative)))
            for j in range(data.rows.shape[1])
        ]
        assert dot_of_difference(got, true[c]) <= bound**2
        assert task.pull.n_points[c] == np.sum((states[-1] == INSIDE) & (data.axis == c))


def dot_of_difference(a, b):
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))


def test_the_factor_is_a_factor(case):
    """Q has orthonormal rows, R is triangular with the given inverse, and Q'R is X_M, to 32 roundoffs of each row."""
    task, data, _ = case
    for state in every_partition(data):
        take(task, data, state)
        m = task.facet.n_margin
        basis, inverse = task.factor.basis[:m], np.triu(task.factor.inverse[:m, :m])
        triangle, rows = np.triu(task.factor.triangle[:m, :m]), data.rows[task.factor.member[:m]]
        tiny = 32 * np.finfo(float).eps
        assert np.allclose(basis @ basis.T, np.eye(m), rtol=0, atol=tiny)
        assert np.all(np.abs(triangle.T @ basis - rows) <= tiny * np.linalg.norm(rows, axis=1)[:, None])
        assert np.allclose(inverse @ triangle, np.eye(m), rtol=0, atol=tiny * task.facet.kappa)
        assert sorted(task.factor.member[:m]) == np.flatnonzero(state == MARGIN).tolist()
        assert [task.factor.slot[i] for i in task.factor.member[:m]] == list(range(m))


def test_columns_that_stay_are_kept():
    """A point that enters M comes last, and the factor of the others is not computed again."""
    task, data, _ = task_of(*gaussian())
    state = next(partitions(data, 2))
    take(task, data, state)
    task.factor.basis[0, 0] = np.nextafter(task.factor.basis[0, 0], 9)  # a mark
    before, members = task.factor.basis[:2].copy(), task.factor.member[:2].copy()
    state = state.copy()
    state[np.flatnonzero(state != MARGIN)[0]] = MARGIN
    take(task, data, state)
    assert np.array_equal(task.factor.member[:2], members)
    assert np.array_equal(task.factor.basis[:2], before)
    assert task.facet.kept == 3


def scale_of(exact, task, data, code):
    """What ``line`` divides a line by: |x_i.u| in a pencil."""
    i = code >> 1
    pencil = task.facet.n_margin == data.rank - 1 and i not in exact.margin
    return abs(dot(exact.rows[i], exact.free)) if pencil else Fraction(1)


def lines_and_truth(case):
    """For every code: what ``line`` says, and the same in Fractions."""
    task, data, _ = case
    for state in every_partition(data):
        assert take(task, data, state)
        exact = Exact(data, state)
        for code in exact.codes():
            if task.facet.n_margin == data.rank - 1 and task.factor.slot[code >> 1] < 0:
                task.facet.pencil[0] = code
                lines.tabulate_pencil(task, 0)
            scale = scale_of(exact, task, data, code)
            yield task, code, lines.line(task, code), exact.line(code), scale


def test_lines_are_within_their_bounds(case):
    worst = 0.0
    for _, _, line, truth, scale in lines_and_truth(case):
        for h, e, t in zip(line[:3], line[3:], truth, strict=True):
            if e == np.inf:
                continue
            assert abs(Fraction(h) * scale - t) <= Fraction(e) * scale
            worst = max(worst, float(abs(Fraction(h) - t / scale) / Fraction(e)) if e > 0 else 0.0)
    assert worst > 1e-4  # bounds are of the size of errors: a thousand times less would not hold


def test_lines_in_double_double(case):
    """Refined lines are within their bounds, which are 2^-40 of those of doubles or less."""
    for task, code, line, truth, scale in lines_and_truth(case):
        refinement.refine(task)
        assert task.facet.refined == 1
        high, low, error = np.zeros((3, 3))
        lines.line_dd(task, code, high, low, error)
        got = [a + b for a, b in zip(fractions(high), fractions(low), strict=True)]
        if scale != 1:  # in a pencil lines have a common factor
            cross = [got[a] * truth[b] - got[b] * truth[a] for a, b in ((0, 1), (1, 2), (2, 0))]
            size = sum(abs(v) for v in truth)
            assert all(abs(v) <= 2 * size * Fraction(max(error)) for v in cross)
            continue
        for c in range(3):
            assert abs(got[c] - truth[c]) <= Fraction(error[c])
            assert error[c] <= 2.0**-40 * line[3 + c]


def test_what_is_zero_by_structure_is_zero(case):
    """|M| = rank: the first two columns of Beta. No points in I: the pulls."""
    task, data, _ = case
    for state in partitions(data, data.rank, 2):
        take(task, data, state)
        assert not task.maps.beta[:2].any()
    state = np.where(next(partitions(data, 1)) == MARGIN, MARGIN, workspace.OUTSIDE).astype(np.int8)
    take(task, data, state)
    assert not task.maps.alpha[:2, :1].any()
    assert not task.maps.beta[:2].any()


def test_more_points_than_the_rank_are_impossible(case):
    task, data, _ = case
    assert not take(task, data, next(partitions(data, data.rank + 1)))


def test_rows_that_are_dependent_make_an_infinite_condition_number():
    task, data, _ = task_of([[1.0, 0], [2, 0], [4, 0], [0, 1], [1, 3]], [0, 0, 0, 1, 1], 1.0, None)
    state = np.full(5, INSIDE, np.int8)
    state[:3] = MARGIN
    take(task, data, state)
    assert task.facet.kappa > facet.WORST_KAPPA
    assert task.facet.refined == -1


def errors_of(task, code):
    """Error bounds of a line without jitter."""
    value, error = np.zeros((2, 2, 3))
    lines.line_powers(task, code, value, error)
    return error[0]


@pytest.mark.parametrize("refined", [False, True])
def test_derivatives_by_the_jitter(case, refined):
    """A line is affine in the jitter: without it, and its derivative, are within the bounds of ``line_powers``.

    These are smaller where double-double is known.
    """
    task, data, _ = case
    still = data._replace(target_jitter=0 * data.target_jitter, weight_jitter=0 * data.weight_jitter)
    for state in every_partition(data):
        take(task, data, state)
        with_jitter, without = Exact(data, state), Exact(still, state)
        coarse = {code: errors_of(task, code) for code in with_jitter.codes()}
        if refined and task.facet.refined == 0:
            refinement.refine(task)
        pencil, kappa = task.facet.n_margin == data.rank - 1, task.facet.kappa
        for code in with_jitter.codes():
            if pencil and task.factor.slot[code >> 1] < 0:
                continue
            (h, derivative), (h_error, derivative_error) = out = np.zeros((2, 2, 3))
            lines.line_powers(task, code, *out)
            assert h_error.sum() < (0.5 if task.facet.refined == 1 and kappa > 100 else 1.001) * coarse[code].sum() + UNIT**1.5
            for c, (a, b) in enumerate(zip(with_jitter.line(code), without.line(code), strict=True)):
                assert abs(Fraction(h[c]) - b) <= Fraction(h_error[c])
                assert abs(Fraction(derivative[c]) - (a - b)) <= Fraction(derivative_error[c])


def test_scores_in_single_precision():
    """Cosines are good to d + 4 units, and the bound is nearly reached."""
    worst = 0.0
    for seed in range(40):
        task, data, _ = task_of(*gaussian(40, 5, seed=seed))
        beta = np.random.default_rng(seed).normal(size=data.rows.shape[1])
        out = np.zeros(40, np.float32)
        length = scores.cosines(task, task.single, beta, out)
        norm = data.norm
        errors = np.abs(out - (data.rows @ beta) / (norm * length))
        worst = max(worst, errors.max() / ((data.rows.shape[1] + 4) * 2.0**-24))
    assert 0.05 < worst <= 1
