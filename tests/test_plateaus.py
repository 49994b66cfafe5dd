"""Plateaus, where all rows of one class are on the margin, are not explored; the map is the same as if they were."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

import svmatlas
from svmatlas.engine.plateaus import UnclosedError, find_plateaus
from tests import cases
from tests.facts import explore_pieces


def mixed(seed, n=60, d=3):
    """A table with a binary and a five-valued column, and few positives."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 4 == 0
    X = rng.normal(size=(n, d)) + 0.5 * y[:, None]
    X[:, 0], X[:, 1] = rng.random(n) < 0.3, rng.integers(0, 5, n)
    return X, y


TABLES = {
    "Gaussian": lambda: (*cases.gaussian(25, 35, 2, 0.5, 3), {}),
    "mixed": lambda: (*mixed(0), {}),
    "lattice": lambda: (*cases.lattice(), {}),
    "one hot": lambda: (*cases.one_hot(), {}),
    "repeated": lambda: (*cases.every_row_three_times(), {}),
    "small bias": lambda: (*cases.gaussian(20, 30, 2, 0.5, 4), {"bias": 0.01}),
    "large bias": lambda: (*mixed(1, 50), {"bias": 10.0}),
    "offset": lambda: (cases.gaussian(20, 30, 2, 0.5, 5)[0] + [5.0, 0.0], cases.gaussian(20, 30, 2, 0.5, 5)[1], {}),
    "weights": lambda: (*mixed(2, 50), {"sample_weight": 1.0 + np.arange(50) % 7}),
    "region": lambda: (*mixed(3), {"region": ((1e-3, 3.0), (1e-4, 20.0))}),
    "tiles": lambda: (*mixed(4, 130, 3), {}),
    "threads": lambda: (*mixed(4, 130, 3), {"n_jobs": 2}),
    "swapped": lambda: (mixed(5)[0], ~mixed(5)[1], {}),
}


def plateaus_of(atlas):
    """Facets that were left out, and the column of the cost of their class."""
    split, piece = atlas._canonical.split, atlas._canonical.piece
    return {int(f): int(split.kind[piece[f]]) % 7 for f in np.flatnonzero(split.plateau[piece])}


@pytest.mark.parametrize("name", TABLES)
def test_the_map_is_that_of_all_pieces(name):
    X, y, options = TABLES[name]()
    atlas = svmatlas.explore(X, y, **options)
    whole = explore_pieces(X, y, **options)
    assert whole.complete
    assert plateaus_of(atlas)
    assert not plateaus_of(whole)
    assert atlas.n_pieces < whole.n_pieces
    for array in ("facet_layer", "facet_parent", "facet_at", "facet_edges", "facet_vertices", "edge_at", "edge_events"):
        assert np.array_equal(getattr(atlas, array), getattr(whole, array)), array
    facets = np.arange(atlas.n_facets)
    assert np.array_equal(atlas._states(facets), whole._states(facets))
    a, b = (v / v.max(axis=1, keepdims=True) for v in (atlas.vertices, whole.vertices))
    assert np.abs(a - b).max() < 1e-9
    assert atlas.validate().ok


def least_cost(X, y, axis, other, bias=1.0):
    """The least cost of a class at which (0, ..., 0, 1/B) is optimal, with that other cost, by linear programming."""
    own = y == (axis == 0)
    rows = np.column_stack([X, np.full(len(X), bias)]) * np.where(own, 1.0, -1.0)[:, None]
    n = int(own.sum())
    goal = np.append(np.zeros(X.shape[1]), 1.0 / bias) - other * rows[~own].sum(axis=0)
    equal = np.column_stack([rows[own].T, np.zeros(rows.shape[1])])
    below = np.column_stack([np.eye(n), -np.ones(n)])  # alpha <= cost
    found = linprog(np.append(np.zeros(n), 1.0), below, np.zeros(n), equal, goal, bounds=(0, None), method="highs")
    return found.fun if found.status == 0 else np.inf


@pytest.mark.parametrize("seed", range(4))
def test_the_floor_of_a_plateau_solves_a_linear_program(seed):
    X, y = mixed(seed + 10, 40)
    atlas = svmatlas.explore(X, y)
    for f, axis in plateaus_of(atlas).items():
        corners = atlas.polygon(f)
        costs = corners[corners[:, 2] > 0, :2] / corners[corners[:, 2] > 0, 2:]
        assert len(costs) > 3
        for cost in costs:
            assert least_cost(X, y, axis, cost[1 - axis]) == pytest.approx(cost[axis], rel=1e-7)


@pytest.mark.parametrize("seed", range(3))
def test_alpha_is_valid_and_continuous_on_a_plateau(seed):
    X, y = mixed(seed + 20)
    atlas, random = svmatlas.explore(X, y), np.random.default_rng(seed)
    rows = np.column_stack([X, np.ones(len(X))]) * np.where(y, 1.0, -1.0)[:, None]
    p, q = 10 ** random.uniform(-3, 3, (2, 400))
    on = np.isin(atlas.locate(p, q), list(plateaus_of(atlas)))
    assert on.sum() > 100
    alpha = atlas.alpha(p[on], q[on])
    bound = np.where(y, p[on][:, None], q[on][:, None])
    assert np.all((alpha >= 0) & (alpha <= bound * (1 + 1e-12)))
    beta = alpha @ rows
    size = alpha @ np.abs(rows)
    assert np.abs(beta[:, :-1] / size[:, :-1]).max() < 1e-9
    assert np.all(atlas.coef(p[on], q[on]) == 0)
    assert np.abs(atlas.intercept(p[on], q[on])) == pytest.approx(1.0)
    step = 1 + 1e-9
    moved = atlas.alpha(p[on] * step, q[on] * step)
    assert np.all(np.abs(moved - alpha) <= 1e-5 * bound)


def test_infinite_costs_on_a_plateau():
    X, y = mixed(30)
    atlas = svmatlas.explore(X, y)
    for f, axis in plateaus_of(atlas).items():
        costs = [0.05, 0.05]
        costs[axis] = np.inf
        assert atlas.locate(*costs) == f
        assert np.all(atlas.coef(*costs) == 0)
        assert atlas.intercept(*costs) == pytest.approx(1.0 if axis == 0 else -1.0)
        assert np.all(np.isfinite(atlas.alpha(*costs)))


def test_layers_are_counted_from_a_plateau_that_holds_the_start():
    X, y = mixed(31)
    plain = svmatlas.explore(X, y)
    f = next(iter(plateaus_of(plain)))
    corner = plain.polygon(f)
    inner = corner[corner[:, 2] > 0]
    start = (inner[:, :2] / inner[:, 2:]).mean(axis=0)
    assert plain.locate(*start) == f
    atlas = svmatlas.explore(X, y, start=tuple(start))
    assert atlas.locate(*start) == 0
    assert atlas.n_facets == plain.n_facets
    around = np.unique(atlas.edge_facets[np.any(atlas.edge_facets == 0, axis=1)])
    assert np.all(atlas.facet_layer[around[around > 0]] == 1)


def test_a_region_that_begins_on_a_plateau_is_explored_whole():
    X, y = mixed(32)
    atlas = svmatlas.explore(X, y, region=((1.0, 2.0), (0.01, 0.02)))
    assert not plateaus_of(atlas)
    assert atlas.validate().ok


def test_which_plateaus_can_be_left_out():
    X, y = mixed(33)
    data = svmatlas.explore(X, y, max_facets=1)._problem.data
    assert find_plateaus(data, np.zeros(2)).all()
    weight = [data.weight[data.axis == axis].sum() for axis in range(2)]
    for axis in range(2):
        least = np.zeros(2)
        least[axis] = data.anchor**2 / weight[axis]
        found = find_plateaus(data, least)
        assert not found[axis]
        assert found[1 - axis]
    assert not find_plateaus(data._replace(anchor=0.0), np.zeros(2)).any()


def test_a_plateau_that_is_not_enclosed_is_explored(monkeypatch):
    X, y = mixed(34)
    expected = svmatlas.explore(X, y)

    def fail(*arguments):
        raise UnclosedError

    monkeypatch.setattr("svmatlas.engine.joining.find_rings", fail)
    atlas = svmatlas.explore(X, y)
    assert not plateaus_of(atlas)
    assert np.array_equal(atlas.facet_vertices, expected.facet_vertices)


@pytest.mark.parametrize("name", ["mixed", "one hot", "small bias", "region", "weights"])
def test_proof_and_files(name, tmp_path):
    X, y, options = TABLES[name]()
    atlas = svmatlas.explore(X, y, **options)
    atlas.save(tmp_path / "map")
    again = svmatlas.load(tmp_path / "map")
    p, q = 10 ** np.random.default_rng(0).uniform(-2, 0, (2, 50))
    assert np.array_equal(again.alpha(p, q), atlas.alpha(p, q))
    certificate = svmatlas.certify(again, X, y, options.get("sample_weight"))
    assert certificate.ok, certificate
    assert certificate.gap < 1e-9
