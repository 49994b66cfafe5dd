"""Solutions at any costs: on edges, on the axes, at infinity, in batches, and as records."""

from __future__ import annotations

import time

import numpy as np
import pytest
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_info, threadpool_limits

import svmatlas
from svmatlas.engine import locate
from svmatlas.support.settings import SETTINGS
from svmatlas.support.threads import limit_blas
from tests import cases

inf = np.inf
INFINITE = [(inf, inf), (inf, 0.3), (2.0, inf), (inf, 0.0), (0.0, inf)]


def finite(C_pos, C_neg, large):
    return (large if np.isinf(C_pos) else C_pos), (large if np.isinf(C_neg) else C_neg)


# ----------------------------------------------------------------------------------------------------------------------
# Edges and vertices


def facets_at(atlas, ends):
    return {int(f) for e in ends for f in atlas.edge_facets[e] if f >= 0}


def test_lowest_number_on_edges(small):
    _, _, atlas = small
    checked = 0
    for e in range(0, atlas.n_edges, 3):
        facets = facets_at(atlas, [e])
        p, q, l = atlas.vertices[atlas.edge_vertices[e]].sum(axis=0)
        if not atlas.vertices[atlas.edge_vertices[e], 2].all():
            continue
        assert atlas.locate(p / l, q / l) == min(facets)
        checked += 1
    assert checked > 100


def test_lowest_number_on_vertices(small):
    _, _, atlas = small
    lowest = checked = 0
    for v in np.flatnonzero(atlas.vertices[:, 2] > 0)[::3]:
        facets = facets_at(atlas, np.flatnonzero(np.any(atlas.edge_vertices == v, axis=1)))
        p, q, l = atlas.vertices[v]
        found = atlas.locate(p / l, q / l)
        assert found in facets
        lowest, checked = lowest + (found == min(facets)), checked + 1
    assert checked > 100
    assert lowest > 0.98 * checked  # where lines are almost parallel a vertex is known less well than a point is located


def test_solutions_are_continuous_over_edges(small):
    _, _, atlas = small
    rng = np.random.default_rng(3)
    for e in rng.choice(np.flatnonzero(atlas.edge_facets[:, 1] >= 0), 50):
        ends = atlas.vertices[atlas.edge_vertices[e]]
        if not ends[:, 2].all():
            continue
        p, q, l = ends.sum(axis=0)
        sides = [atlas.facet(f) for f in atlas.edge_facets[e]]
        unique = all(side.alpha is not None for side in sides)
        for name in ("coef", "intercept", *["alpha"] * unique):
            left, right = (np.array([p / l, q / l, 1.0]) @ getattr(side, name) for side in sides)
            np.testing.assert_allclose(left, right, atol=1e-9 * (1 + np.abs(left).max()))
            np.testing.assert_allclose(getattr(atlas, name)(p / l, q / l), left, atol=1e-9 * (1 + np.abs(left).max()))


# ----------------------------------------------------------------------------------------------------------------------
# Zero and infinity


def test_a_cost_of_zero_makes_errors_free(small):
    X, y, atlas = small
    coef, intercept, alpha = atlas.coef(0, 3.0), atlas.intercept(0, 3.0), atlas.alpha(0, 3.0)
    assert not alpha[y == 1].any()
    score = -(X[y == 0] @ coef + intercept)
    np.testing.assert_allclose(score, 1, atol=1e-12)  # by the bias alone, which is the shortest way
    assert alpha.sum() == pytest.approx(1)


def every_second(case):
    X, y = case()
    return X[::2], y[::2]


@pytest.mark.parametrize(
    "case", [case for case in cases.TIED if case is not cases.one_positive], ids=lambda case: case.__name__
)
@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_infinite_costs_are_a_limit_that_is_attained(case, bias):
    X, y = every_second(case)
    atlas = svmatlas.explore(X, y, bias=bias)
    for costs in INFINITE:
        coef, large = atlas.coef(*costs), finite(*costs, 2.0**28)
        size = 1e-7 * (1 + np.abs(coef).max())
        np.testing.assert_allclose(coef, atlas.coef(*large), atol=size)
        assert atlas.intercept(*costs) == pytest.approx(atlas.intercept(*large), abs=size)
        alpha, (_, inside, outside) = atlas.alpha(*costs), atlas.partition(atlas.locate(*costs))
        np.testing.assert_array_equal(alpha[inside], np.where(y[inside] == atlas.classes_[1], *costs))
        assert not alpha[outside].any()
        assert np.all((alpha >= 0) & (alpha <= np.where(y == atlas.classes_[1], *costs)))


def test_hard_margin_of_separable_classes():
    X, y = cases.separable()
    sign = np.where(y == 1, 1.0, -1.0)
    atlas = svmatlas.explore(X, y)
    coef, intercept, alpha = atlas.coef(inf, inf), atlas.intercept(inf, inf), atlas.alpha(inf, inf)
    score = sign * (X @ coef + intercept)
    assert np.all(score >= 1)
    assert np.all(np.isfinite(alpha))
    assert np.all(alpha >= 0)
    np.testing.assert_allclose(alpha * (score - 1), 0, atol=1e-12)
    np.testing.assert_allclose((alpha * sign) @ X, coef, atol=1e-12)
    assert (alpha * sign).sum() == pytest.approx(intercept)


def test_dual_variables_without_bound_are_infinite():
    X, y = cases.both_labels()
    atlas = svmatlas.explore(X, y)
    alpha = atlas.alpha(inf, inf)
    assert np.isinf(alpha).any()
    _, inside, outside = atlas.partition(atlas.locate(inf, inf))
    assert np.all(np.isinf(alpha[inside]))
    assert not alpha[outside].any()
    one_side = atlas.alpha(inf, 0.5)
    assert np.all(one_side[y == 0] <= 0.5)


def test_infinity_in_batches(small):
    X, _, atlas = small
    p, q = np.array([1.0, inf, 2.0, inf]), np.array([1.0, 0.5, inf, inf])
    for query in (atlas.locate, atlas.alpha, atlas.coef, atlas.intercept, lambda p, q: atlas.decision_function(X, p, q)):
        np.testing.assert_allclose(query(p, q), [query(a, b) for a, b in zip(p, q, strict=True)], atol=1e-12)


def test_infinity_beyond_what_is_known(small):
    X, y, _ = small
    with pytest.raises(ValueError, match="C_pos = inf is not a cost in the region"):
        svmatlas.explore(X, y, region=((0, 1), (0, 1))).coef(inf, 1)
    with pytest.raises(ValueError, match="outside the explored part"):
        svmatlas.explore(X, y, max_facets=10).coef(inf, inf)


def test_infinity_of_a_kernel():
    X, y = cases.gaussian(10, 10, 2, 0.5)
    atlas = svmatlas.explore(X, y, kernel="rbf", gamma=1.0)
    score = np.where(y == 1, 1, -1) * atlas.decision_function(X, inf, inf)
    assert np.all(score > 1 - 1e-9)  # any distinct points can be separated
    np.testing.assert_allclose(np.where(atlas.alpha(inf, inf) > 0, score, 1), 1, atol=1e-9)


@pytest.mark.parametrize("bias", [0.0, 1.0])
@pytest.mark.parametrize("size", [1e20, 1e40, 1e50, 1e90, 1e150, 1e300])
def test_huge_costs_have_the_model_of_infinite_ones(bias, size):
    X, y = cases.gaussian(6, 6, 2, 0.5)
    atlas = svmatlas.explore(X, y, bias=bias)
    for C_pos, C_neg in [(1, 1), (1, 0), (0, 1)]:
        limit = atlas.coef(*(inf if c else 1.0 for c in (C_pos, C_neg)))
        costs = [size if c else 1.0 for c in (C_pos, C_neg)]
        np.testing.assert_allclose(atlas.coef(*costs), limit, rtol=1e-9, atol=1e-9)
        model = svmatlas.AsymmetricSVC(*costs, bias=bias).fit(X, y)
        np.testing.assert_allclose(model.coef_[0], limit, rtol=1e-9, atol=1e-9)
        assert model.duality_gap_ < 1e-9
        if size <= 1e90:
            path = svmatlas.ray(X, y, ratio=costs[0] / costs[1], bias=bias)
            np.testing.assert_allclose(path.coef(costs[1]), limit, rtol=1e-9, atol=1e-9)
    if size <= 1e90:
        across = svmatlas.segment(X, y, (size, 1.0), (1.0, size), bias=bias)
        np.testing.assert_allclose(across.coef(0.5), atlas.coef(inf, inf), rtol=1e-9, atol=1e-9)


def test_rows_of_zeros_alone_at_any_costs():
    X, y = np.zeros((2, 2)), np.array([0, 1])
    atlas = svmatlas.explore(X, y, bias=0.0)
    for costs in [(1, 2), (1e300, 1e20), (inf, 1), (inf, inf)]:
        assert not atlas.coef(*costs).any()
        np.testing.assert_array_equal(atlas.alpha(*costs), costs[::-1])
    assert not svmatlas.AsymmetricSVC(1e50, 1, bias=0.0).fit(X, y).coef_.any()


# ----------------------------------------------------------------------------------------------------------------------
# Partial maps


@pytest.mark.filterwarnings("ignore:region:svmatlas.AccuracyWarning")
@pytest.mark.parametrize("data", ["generic", "tied"])
@pytest.mark.parametrize("width", [1e-15, 1e-13, 1e-11, 1e-3])
def test_thin_partial_maps_know_what_they_do_not_know(data, width, gap):
    rng = np.random.default_rng(0)
    y, low, told = np.arange(12) % 2, 0.7, 0
    X = rng.normal(size=(12, 2)) if data == "generic" else rng.integers(-2, 3, (12, 2)).astype(float)
    for max_facets in (1, 3, 8):
        atlas = svmatlas.explore(X, y, region=((low, low * (1 + width)), (1e-3, 1e3)), max_facets=max_facets)
        assert atlas.validate(n_costs=20).ok
        for C_neg in np.exp(rng.uniform(np.log(1e-3), np.log(1e3), 10)):
            queries = atlas.coef, atlas.intercept, atlas.alpha
            try:
                atlas.locate(low, C_neg)
            except ValueError:
                for query in queries:
                    with pytest.raises(ValueError, match="outside the explored part"):
                        query(low, C_neg)
            else:
                told += 1
                assert gap(X, y, low, C_neg, *(query(low, C_neg) for query in queries)) < 1e-6
    assert 0 < told < 30


@pytest.mark.filterwarnings("ignore:region:svmatlas.AccuracyWarning")
def test_a_partial_map_of_ties_alone(gap):
    X, y = np.array([[1.0], [2.0], [0.0], [1.0], [2.0]]), np.array([0, 1, 0, 1, 0])
    atlas = svmatlas.explore(X, y, region=((1, 1 + 1e-13), (1e-3, 1e3)), start=(1, 1), max_facets=1)
    assert atlas._canonical.split.tie.all()
    assert atlas.n_facets == 1
    assert atlas.validate(n_costs=20).ok
    assert gap(X, y, 1, 1, atlas.coef(1, 1), atlas.intercept(1, 1), atlas.alpha(1, 1)) < 1e-6
    with pytest.raises(ValueError, match="outside the explored part"):
        atlas.coef(1, 1e3)


# ----------------------------------------------------------------------------------------------------------------------
# Records, decisions


def test_a_facet_says_all_about_itself(small):
    _, _, atlas = small
    rng = np.random.default_rng(0)
    for f in rng.choice(atlas.n_facets, 40, replace=False):
        facet = atlas.facet(f)
        assert facet.number == f
        assert facet.layer == atlas.facet_layer[f]
        np.testing.assert_array_equal(facet.polygon, atlas.polygon(f))
        np.testing.assert_array_equal(np.concatenate(facet.partition), np.concatenate(atlas.partition(f)))
        p, q, l = (facet.polygon / facet.polygon.sum(axis=1, keepdims=True)).mean(axis=0)
        costs = np.array([p / l, q / l, 1.0])
        if facet.alpha is not None:
            np.testing.assert_allclose(costs @ facet.alpha, atlas.alpha(p / l, q / l), rtol=1e-8, atol=1e-9 * costs.max())
        np.testing.assert_allclose(costs @ facet.coef, atlas.coef(p / l, q / l), atol=1e-8)
        assert costs @ facet.intercept == pytest.approx(atlas.intercept(p / l, q / l), abs=1e-8)
        for events, neighbour, corner in zip(facet.events, facet.neighbours, facet.polygon, strict=True):
            if neighbour >= 0:
                other = atlas.facet(neighbour)
                assert f in other.neighbours
                assert events.tolist() in [others.tolist() for others in other.events]
                assert np.abs(other.polygon - corner).max(axis=1).min() == 0
        assert f"Facet({f}: layer {facet.layer}" in repr(facet)
    assert "infinity at C+ : C- = 1 : 0" in repr(atlas.facet(atlas.locate(inf, 0.0)))


def test_a_facet_of_weighted_and_nonlinear_data():
    X, y = cases.gaussian(8, 8, 2, 0.5)
    atlas = svmatlas.explore(X, y, kernel="rbf", sample_weight=np.arange(16) % 4, bias=0.5)
    facet = atlas.facet(atlas.locate(0.7, 0.4))
    assert facet.coef is None
    np.testing.assert_allclose([0.7, 0.4, 1.0] @ facet.alpha, atlas.alpha(0.7, 0.4), atol=1e-12)
    assert [0.7, 0.4, 1.0] @ facet.intercept == pytest.approx(atlas.intercept(0.7, 0.4))


def test_decision_values(small):
    X, _, atlas = small
    p, q = np.array([0.1, 2.0]), 3.0
    expected = atlas.coef(p, q) @ X.T + atlas.intercept(p, q)[:, None]
    np.testing.assert_allclose(atlas.decision_function(X, p, q), expected, atol=1e-12)
    assert atlas.decision_function(X, 1, 1).shape == (30,)
    assert atlas.decision_function(X[:4], p, q).shape == (2, 4)
    assert atlas.decision_function(X, [], []).shape == (0, 30)
    with pytest.raises(ValueError, match="X has 2 features, but the atlas was made with 3"):
        atlas.decision_function(X[:, :2], 1, 1)


def test_an_estimator_is_a_fit_of_these_costs(small):
    X, y, atlas = small
    model = atlas.estimator(2.0, 0.3)
    refitted = svmatlas.AsymmetricSVC(**model.get_params()).fit(X, y)
    np.testing.assert_allclose(model.coef_, refitted.coef_, atol=1e-12)
    np.testing.assert_array_equal(model.support_, refitted.support_)
    np.testing.assert_array_equal(model.predict(X), refitted.predict(X))
    with pytest.raises(ValueError, match="two finite costs"):
        atlas.estimator(inf, 1.0)


# ----------------------------------------------------------------------------------------------------------------------
# Speed


@pytest.fixture(scope="module")
def large():
    rng = np.random.default_rng(0)
    y = np.arange(500) % 2
    X = rng.normal(size=(500, 10)) + y[:, None] / np.sqrt(10)
    return X, y, svmatlas.explore(X, y, region=((0.05, 0.08), (0.05, 0.08)))


def best(function, repeat=3):
    """Least time of the processor for one call: what others do on this machine does not count."""
    times = []
    for _ in range(repeat):
        begin = time.process_time()
        function()
        times.append(time.process_time() - begin)
    return min(times)


@pytest.mark.filterwarnings("ignore:Liblinear failed to converge")
def test_a_coefficient_query_is_a_twentieth_of_a_fit(large):
    X, y, atlas = large
    C_pos, C_neg = np.random.default_rng(1).uniform(0.05, 0.08, (2, 1000))
    with threadpool_limits(1):
        fit = best(lambda: LinearSVC(loss="hinge").fit(X, y), 10)
        query = best(lambda: atlas.coef(C_pos, C_neg)) / 1000
    assert query < fit / 20


def test_a_million_points_are_located_in_seconds(large):
    _, _, atlas = large
    assert atlas.n_facets > 1000
    C_pos, C_neg = np.random.default_rng(1).uniform(0.05, 0.08, (2, 10**5))
    atlas.locate(C_pos[:10], C_neg[:10])
    assert best(lambda: atlas.locate(C_pos, C_neg)) < 1.0  # for a tenth of them


def test_facets_do_not_depend_on_where_a_walk_starts(monkeypatch):
    """With few starts walks are long, and lead to the same facets; the middles of some pieces are those of all."""
    X, y = cases.gaussian(20, 30, 2, 1.0)
    atlas = svmatlas.explore(X, y)
    costs = np.exp(np.random.default_rng(0).uniform(-8, 8, size=(2, 500)))
    facets = atlas.locate(*costs)
    monkeypatch.setattr(SETTINGS, "locate_starts", 3)
    again = svmatlas.explore(X, y)
    assert again._locator.starts.size <= 3 < again._locator.true.size
    np.testing.assert_array_equal(again.locate(*costs), facets)
    mesh, pieces = again._canonical.split.mesh, again._locator.true
    np.testing.assert_array_equal(locate._middles(mesh, pieces[::7]), locate._middles(mesh, pieces)[::7])


@pytest.mark.parametrize("name", ["lattice", "one_hot", "one_positive"])
def test_pieces_around_a_point_hold_it(name):
    """Found from wherever a walk starts, ties beside true ones, each once."""
    atlas = svmatlas.explore(*getattr(cases, name)())
    locator, mesh = atlas._locator, atlas._canonical.split.mesh
    for c in atlas._problem.homogeneous(*np.exp(np.random.default_rng(0).uniform(-6, 4, size=(2, 40)))):
        near, ties = locator.near(c, 16), locator.near_ties(c, 16)
        assert np.all(locator.facet[near] >= 0)
        assert np.all(locator.facet[ties] < 0)
        assert np.unique(np.concatenate([near, ties])).size == near.size + ties.size
        _, depth = locate._try_some(mesh.vertices, mesh.facet_at, mesh.facet_vertices, near, c)
        assert depth >= -locate.SLACK or locator._on_plateaus(c[None])[0] in near


def test_a_hole_between_a_point_and_its_start_is_gone_around():
    """Pieces are taken out of a ring around the middle: what is beyond is found as before."""
    atlas = svmatlas.explore(*cases.gaussian(20, 30, 2, 1.0))
    mesh, locator = atlas._canonical.split.mesh, atlas._locator
    costs = np.exp(np.random.default_rng(0).uniform(-6, 6, size=(2, 300)))
    points = atlas._problem.homogeneous(*costs)
    pieces = locator(points)
    hole = np.unique(pieces[np.abs(np.hypot(*np.log(costs)) - 2.0) < 0.3])
    hole = hole[~atlas._canonical.split.plateau[hole]]
    edges = mesh.edge_facets.copy()
    edges[np.isin(edges, hole)] = -2
    facet = atlas._canonical.facet.copy()
    facet[hole] = -1
    holed = atlas._canonical._replace(
        facet=facet, split=atlas._canonical.split._replace(mesh=mesh._replace(edge_facets=edges))
    )
    kept = ~np.isin(pieces, hole)
    assert 20 < np.sum(kept) < kept.size
    np.testing.assert_array_equal(locate.Locator(holed, atlas._solver.region)(points[kept]), pieces[kept])


def test_threads_of_blas_are_given_back_in_whatever_order_queries_end():
    def threads():
        return {pool["filepath"]: pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    first, second = limit_blas(), limit_blas()
    with threadpool_limits(2, "blas"):
        before = threads()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert set(threads().values()) == {1}
        second.__exit__(None, None, None)
        assert threads() == before
