"""The whole engine uncompiled, line by line, on tiny data: the maps are those of exact rationals."""

from __future__ import annotations

import numpy as np
import pytest

import svmatlas
from svmatlas.data.problem import check_bounds, make_problem, make_region
from svmatlas.engine import clipping, predicates, tile
from svmatlas.engine.names import make_words
from svmatlas.engine.workspace import INSIDE
from svmatlas.support.settings import SETTINGS
from tests import hostile, tiny
from tests.canonical import canonical_map
from tests.engine import Exact, gaussian
from tests.facts import assert_same, cut_finely
from tests.test_canonical import BOX, assert_same_map, explore

SMALL = [tiny.one_line, tiny.touching, tiny.exchange, tiny.whole_weights, tiny.both_labels]


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.__name__)
def test_maps_are_exact(case):
    data = case()
    assert_same_map(canonical_map(*data, BOX), explore(*data, BOX), data)


def test_generic_rows():
    X, y, *_ = gaussian(8, 2)
    atlas = svmatlas.explore(X, y)
    assert atlas.complete
    assert atlas.n_vertices - atlas.n_edges + atlas.n_facets == 1
    assert np.allclose(atlas.coef(0.5, 0.25), svmatlas.AsymmetricSVC(0.5, 0.25).fit(X, y).coef_, atol=1e-9)


def test_signs_by_integers(monkeypatch):
    """Where neither double-double nor residues may decide, integers do, and the map is the same."""
    data = tiny.lattice()
    true = explore(*data, BOX)
    monkeypatch.setattr(predicates, "_sign_dd", answered)
    monkeypatch.setattr(predicates, "sign_of_jitter", lambda t, k, a, b: predicates.UNKNOWN)
    other = explore(*data, BOX)
    assert (other.n_facets, other.n_edges, other.n_vertices) == (true.n_facets, true.n_edges, true.n_vertices)
    assert np.allclose(other.vertices, true.vertices, atol=1e-12)


def answered(t, k, a, b):
    """What integers said, if they were asked."""
    for asked in t.answers:
        if asked.kind == predicates.ASK_SIGN and asked.line == k and {asked.first, asked.second} == {a, b}:
            return asked.answer
    return predicates.UNKNOWN


def test_places_are_found():
    """Costs inside, on edges, at corners, at infinity, and outside the explored part."""
    X, y, *_ = gaussian(6, 2)
    atlas = svmatlas.explore(X, y)
    rng = np.random.default_rng(0)
    costs = np.exp(rng.uniform(-4, 4, (2, 30)))
    for f, C_pos, C_neg in zip(atlas.locate(*costs), *costs, strict=True):
        margin, inside, outside = atlas.partition(f)
        assert sorted([*margin, *inside, *outside]) == list(range(6))
        score = np.where(y == 1, 1, -1) * (X @ atlas.coef(C_pos, C_neg) + atlas.intercept(C_pos, C_neg))
        assert np.allclose(score[margin], 1)
        assert np.all(score[inside] < 1 + 1e-9)
        assert np.all(score[outside] > 1 - 1e-9)
    part = svmatlas.explore(X, y, max_facets=5)
    assert not part.complete
    with pytest.raises(ValueError, match="outside the explored part"):
        part.locate(1e6, 1e-6)


@pytest.mark.parametrize("case", [lambda: (*gaussian(9, 2)[:2],), lambda: table_of_categories(12)], ids=["gaussian", "table"])
def test_how_the_work_is_divided_changes_nothing(case, monkeypatch):
    """Many tiles, few candidates, room for four facets at first, few points in the ball, few starts of walks."""
    X, y = case()
    region = ((0.0, 4.0), (0.0, 4.0))
    whole = svmatlas.explore(X, y, region=region)
    cut_finely(monkeypatch)
    for name, value in {"first_facets": (4, 4), "walk_points": 2, "locate_starts": 3, "measure_bits": 64}.items():
        monkeypatch.setattr(SETTINGS, name, value)
    cut = svmatlas.explore(X, y, region=region)
    assert_same(whole, cut, layers=False)
    costs = np.random.default_rng(0).uniform(0.01, 4.0, (2, 20))
    assert np.allclose(cut.coef(*costs), whole.coef(*costs), atol=1e-9)


def table_of_categories(n, seed=1):
    """A binary and a one-hot column, and one of small integers, unscaled."""
    rng = np.random.default_rng(seed)
    return np.column_stack([np.eye(2)[rng.integers(0, 2, n)], rng.integers(0, 2, n), 40 * rng.integers(0, 3, n)]), np.arange(
        n
    ) % 2


def test_weights_at_corners():
    """L beta at all corners of a tile, from the maps of their facets in Fractions."""
    X, y, *_ = gaussian(7, 2, scale=1e4)
    problem = make_problem(X, y, 1.0, None, 0)
    region = make_region(check_bounds(((0.0, 2.0), (0.0, 2.0))), problem.cost_exponent)
    start = np.full(problem.n_points, INSIDE, np.int8)
    engine = tile.Engine(problem.data, make_words(problem.n_points, np.random.default_rng(0)), betas=True)
    facets = engine.explore(region, start, tile.Frame(np.empty((0, 3)), np.arange(problem.n_points)), 10**4)
    assert facets.outcome == clipping.CLOSED
    for f, state in enumerate(facets.states(np.arange(facets.key.size))):
        maps = np.array(Exact(problem.data, state).beta, dtype=float)
        for v in facets.vertex[facets.at[f] : facets.at[f + 1]]:
            true, got = facets.corner[v] @ maps, facets.beta[v]
            assert np.linalg.norm(got - true) <= 1e-9 * np.linalg.norm(true) + 1e-12


def test_the_lowest_facet_is_found():
    """At vertices several facets hold the costs; the lowest is meant."""
    atlas = explore(*tiny.lattice(), BOX)
    for v, (p, q, l) in enumerate(atlas.vertices):
        if l > 0:
            around = [f for f in range(atlas.n_facets) if v in atlas.facet_vertices[atlas.facet_at[f] : atlas.facet_at[f + 1]]]
            assert atlas.locate(p / l, q / l) == min(around)


SEEDS = [
    seed
    for seed, case in ((seed, hostile.make(seed)) for seed in range(80))
    if case.arguments["max_facets"] <= 10 and case.X.shape[1] < 10 and "kernel" not in case.arguments
]
"""Those that do not take long."""


@pytest.mark.parametrize("seed", SEEDS)
def test_hostile_rows(seed):
    """Extreme scales, weights, costs and regions, and ties: what a partial map answers has no duality gap, or a warning."""
    hostile.trial(seed)


def test_a_path_from_facet_to_facet():
    """A ray, and the partition at given costs, are those of the map."""
    X, y, *_ = gaussian(8, 2)
    atlas, path = svmatlas.explore(X, y), svmatlas.ray(X, y, C_max=4.0)
    for C in (0.01, 0.3, 2.0):
        assert np.allclose(path.coef(C), atlas.coef(C, C), atol=1e-9)
    started = svmatlas.explore(X, y, region=((0.1, 2.0), (0.2, 1.0)), start=(1.0, 0.5))
    assert np.allclose(started.coef(0.5, 0.5), atlas.coef(0.5, 0.5), atol=1e-9)


def test_neighbours_of_home(monkeypatch):
    """With few points near home, most are not looked at: the map is the same."""
    X, y, *_ = gaussian(30, 2, seed=3)
    region = ((0.5, 0.8), (0.5, 0.8))
    whole = svmatlas.explore(X, y, region=region)
    monkeypatch.setattr(SETTINGS, "near_points", 4)
    few = svmatlas.explore(X, y, region=region)
    assert (few.n_facets, few.n_edges, few.n_vertices) == (whole.n_facets, whole.n_edges, whole.n_vertices)


@pytest.mark.parametrize("scale", [1e7, 1e-7])
def test_unscaled_rows(scale):
    """Ill-conditioned rows: corners are computed again in double-double, signs by integers."""
    X, y, *_ = gaussian(7, 2, scale=scale)
    atlas = svmatlas.explore(X, y)
    assert atlas.n_vertices - atlas.n_edges + atlas.n_facets == 1
