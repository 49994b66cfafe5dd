"""Laws that tie atlases of related data together, and the map to independent references."""

from __future__ import annotations

import dataclasses
import importlib
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import svmatlas
from tests import cases, facts, reference


def generic(n, d, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, d)), np.arange(n) % 2
    return X + 0.5 * y[:, None], y


def integers(n, d, seed):
    """Small integers without ties: the reference stays quick."""
    rng = np.random.default_rng(seed)
    return rng.integers(-99, 100, size=(n, d)).astype(float) / 64, np.arange(n) % 2


def lattice_of_15():
    """Points of a lattice, all different."""
    return np.array([(i, j) for i in range(5) for j in range(3)], dtype=float), np.arange(15) * 7 % 3 % 2


@pytest.mark.parametrize("seed", range(4))
def test_exact_rationals_give_the_same_facets(seed):
    X, y = integers(6, 7, seed)
    atlas = svmatlas.explore(X, y)
    assert set(facts.names(atlas)) == reference.explore(X, 2 * y - 1, 1.0)
    assert not atlas._canonical.split.tie.any()


@pytest.mark.parametrize("seed", range(3))
def test_diagonal_is_the_one_dimensional_path(seed):
    X, y = integers(8, 9, seed)
    atlas = svmatlas.explore(X, y)
    path = reference.diagonal(X, 2 * y - 1, 1.0)
    assert len(path) > 5
    breaks = np.array([float(c) for c, _ in path])
    for k, (_, partition) in enumerate(path):
        after = breaks[k + 1] if k + 1 < breaks.size else 4 * breaks[k]
        for C in (breaks[k] + 1e-9 * (after - breaks[k]), after - 1e-9 * (after - breaks[k])):
            expected = [[i for i, s in enumerate(partition) if s == letter] for letter in "MIO"]
            assert [rows.tolist() for rows in atlas.partition(atlas.locate(C, C))] == expected


@pytest.mark.parametrize("n", range(6, 13))
def test_facet_count_of_an_independent_solver(n):
    ppopt = pytest.importorskip("ppopt", reason="ppopt is part of the test extra")
    assert ppopt
    X, y = generic(n, 20, n)
    assert svmatlas.explore(X, y, region=((0, 1), (0, 1))).n_facets == ppopt_regions(X, y, 1.0)


def ppopt_regions(X, y, high):
    """Critical regions of the dual over [0, high]^2, by PPOPT."""
    import contextlib
    import io

    from ppopt.mp_solvers.solve_mpqp import mpqp_algorithm, solve_mpqp
    from ppopt.mpqp_program import MPQP_Program

    n, sign = len(y), np.where(y == 1, 1.0, -1.0)
    rows = np.column_stack([X, np.ones(n)]) * sign[:, None]
    F = np.zeros((2 * n, 2))
    F[:n, 0], F[:n, 1] = sign > 0, sign < 0
    program = MPQP_Program(
        np.vstack([np.eye(n), -np.eye(n)]), np.zeros((2 * n, 1)), -np.ones((n, 1)), np.zeros((n, 2)), rows @ rows.T,
        np.vstack([np.eye(2), -np.eye(2)]), np.array([[high], [high], [0.0], [0.0]]), F,
    )  # fmt: skip
    with contextlib.redirect_stdout(io.StringIO()):
        return len(solve_mpqp(program, mpqp_algorithm.geometric).critical_regions)


@pytest.mark.parametrize("seed", range(5))
def test_the_map_depends_on_the_data_only(seed):
    X, y = generic(12, 14, seed)
    plain = svmatlas.explore(X, y)
    order = np.random.default_rng(seed).permutation(len(y))
    facts.assert_same(plain, svmatlas.explore(X, y, random_state=seed + 100))
    facts.assert_same(plain, svmatlas.explore(X, y, start=(0.7, 0.2)), layers=False)
    facts.assert_same(plain, svmatlas.explore(X, y, start=(50.0, 1e-3)), layers=False)
    facts.assert_same(plain, svmatlas.explore(X[order], y[order]), facts.Change(rows=order[:, None].tolist()))
    facts.assert_same(plain, svmatlas.explore(X, y, n_jobs=2))


def test_threads_do_not_change_the_map():
    X, y = cases.iris()
    a, b = svmatlas.explore(X, y, n_jobs=1), svmatlas.explore(X, y, n_jobs=2)
    for name in (
        "edge_at", "edge_events", "edge_facets", "edge_vertices", "facet_layer", "facet_parent", "facet_at", "facet_edges",
    ):  # fmt: skip
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


def test_swapping_labels_mirrors_the_plane():
    X, y = generic(20, 4, 1)
    a, b = svmatlas.explore(X, y), svmatlas.explore(X, 1 - y)
    facts.assert_same(a, b, facts.Change(mirrored=True))
    np.testing.assert_allclose(a.coef(0.3, 2.0), -b.coef(2.0, 0.3), rtol=1e-10)
    np.testing.assert_allclose(a.intercept(0.3, 2.0), -b.intercept(2.0, 0.3), rtol=1e-10)


@pytest.mark.parametrize("s", [0.3, 8.0])
def test_scaling_the_data_scales_the_costs(s):
    X, y = generic(20, 4, 2)
    a, b = svmatlas.explore(X, y), svmatlas.explore(X * s, y, bias=s)
    facts.assert_same(a, b, facts.Change(costs=s**2))
    np.testing.assert_allclose(a.coef(0.3, 2.0), s * b.coef(0.3 / s**2, 2.0 / s**2), rtol=1e-9)
    np.testing.assert_allclose(a.alpha(0.3, 2.0), s**2 * b.alpha(0.3 / s**2, 2.0 / s**2), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", [lambda: generic(15, 4, 3), lattice_of_15], ids=["generic", "lattice"])
def test_weight_two_is_a_repeated_row(case):
    X, y = case()
    weight = np.ones(15)
    weight[[2, 7]] = 2
    a = svmatlas.explore(X, y, sample_weight=weight)
    b = svmatlas.explore(np.vstack([X, X[[2, 7]]]), np.r_[y, y[[2, 7]]])
    stands_for = [[i] for i in range(15)]
    stands_for[2], stands_for[7] = [2, 15], [7, 16]
    facts.assert_same(b, a, facts.Change(rows=stands_for))
    np.testing.assert_allclose(a.coef(0.4, 1.5), b.coef(0.4, 1.5), rtol=1e-12)
    shared = b.alpha(0.4, 1.5)
    np.testing.assert_allclose(shared[[2, 7]], shared[[15, 16]])
    np.testing.assert_allclose(a.alpha(0.4, 1.5)[[2, 7]], 2 * shared[[2, 7]], rtol=1e-12)


def test_zero_weight_drops_a_row():
    X, y = generic(15, 4, 3)
    weight = np.ones(15)
    weight[4] = 0
    a = svmatlas.explore(X, y, sample_weight=weight)
    b = svmatlas.explore(np.delete(X, 4, axis=0), np.delete(y, 4))
    facts.assert_same(a, b, facts.Change(rows=[[i] for i in range(15) if i != 4]))
    assert a.alpha(1.0, 1.0)[4] == 0
    assert all(4 not in rows for rows in a.partition(3))


def test_a_region_is_a_part_of_the_whole():
    X, y = generic(25, 3, 4)
    whole, part = svmatlas.explore(X, y), svmatlas.explore(X, y, region=((0.1, 2.0), (0.3, 5.0)))
    report = part.validate()
    assert report.ok, str(report)
    rng = np.random.default_rng(0)
    C_pos, C_neg = rng.uniform(0.1, 2.0, 300), rng.uniform(0.3, 5.0, 300)
    np.testing.assert_allclose(whole.coef(C_pos, C_neg), part.coef(C_pos, C_neg), rtol=1e-9, atol=1e-12)
    for p, q in zip(C_pos[:30], C_neg[:30], strict=True):
        for a, b in zip(whole.partition(whole.locate(p, q)), part.partition(part.locate(p, q)), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "region",
    [((0, 1), (0, 1)), ((0.5, np.inf), (0, 2)), ((0, 2), (1, np.inf)), ((1, np.inf), (1, np.inf)), ((0.25, 0.5), (1, 1.5))],
)
@pytest.mark.parametrize("case", [cases.lattice, cases.separable, cases.both_labels], ids=lambda case: case.__name__)
def test_regions_of_tied_data(case, region):
    X, y = case()
    report = svmatlas.explore(X, y, region=region).validate()
    assert report.ok, str(report)


@settings(max_examples=60)
@given(data=st.data())
def test_hostile_data(data):
    """Few points on a small lattice: everything coincides with everything."""
    d = data.draw(st.integers(1, 3), label="d")
    n = data.draw(st.integers(2, 12), label="n")
    row = st.tuples(*[st.sampled_from([-1.0, 0.0, 0.1, 0.5, 1.0, 2.0])] * d)
    X = np.array(data.draw(st.lists(row, min_size=n, max_size=n), label="X"))
    y = np.array([0, 1, *data.draw(st.lists(st.integers(0, 1), min_size=n - 2, max_size=n - 2), label="y")])
    weight = np.array(data.draw(st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=n, max_size=n), label="weight"))
    bias = data.draw(st.sampled_from([0.0, 0.01, 1.0]), label="bias")
    report = svmatlas.explore(X, y, bias=bias, sample_weight=weight).validate(n_costs=50)
    assert report.ok, str(report)


def test_equal_rows_share_alpha_by_weight():
    X, y = cases.every_row_three_times()
    atlas = svmatlas.explore(X, y)
    alpha = atlas.alpha(0.7, 0.9).reshape(3, -1)
    np.testing.assert_allclose(alpha[0], alpha[1])
    assert Counter(len(rows) % 3 for rows in atlas.partition(atlas.locate(0.7, 0.9))) == {0: 3}


@pytest.mark.parametrize(("n", "d", "bias"), [(60, 2, 0.01), (50, 4, 1.0)])
def test_anchor_is_only_a_shortcut(n, d, bias, monkeypatch):
    """Ties of a whole class are resolved in doubles, to the same facets as by double-double and exact arithmetic."""
    module = importlib.import_module("svmatlas.atlas.explore")
    X, y = generic(n, d, 5)
    quick = facts.explore_pieces(X, y, bias=bias)
    make = module.make_problem

    def without_anchor(*arguments):
        problem = make(*arguments)
        return dataclasses.replace(problem, data=problem.data._replace(anchor=0.0))

    monkeypatch.setattr(module, "make_problem", without_anchor)
    slow = svmatlas.explore(X, y, bias=bias)
    splits = [atlas._canonical.split for atlas in (quick, slow)]
    assert splits[1].tie.sum() > n
    assert slow.n_refined > 10 * quick.n_refined
    named = [{(a, b.tobytes()) for a, b in zip(m.tie, m.states(np.arange(m.tie.size)), strict=True)} for m in splits]
    assert named[0] == named[1]
    facts.assert_same(quick, slow)
