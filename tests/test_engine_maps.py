"""The whole engine uncompiled, line by line, on tiny data: the maps are those of exact rationals."""

from __future__ import annotations

import numpy as np
import pytest

import svmatlas
from svmatlas.atlas import survey
from svmatlas.engine import predicates, tile
from tests import tiny
from tests.canonical import canonical_map
from tests.engine import gaussian
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
    for row in t.answers:
        if row[0] == predicates.ASK_SIGN and row[3] == k and {row[1], row[2]} == {a, b}:
            return row[4]
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


def test_small_rooms_grow(monkeypatch):
    """Room for four facets at first, and tiles of few events: the map is the same."""
    X, y, *_ = gaussian(8, 2)
    whole = svmatlas.explore(X, y)
    monkeypatch.setattr(tile, "SMALL", 4)
    monkeypatch.setattr(survey, "EVENTS", 6)
    tiled = svmatlas.explore(X, y)
    assert (tiled.n_facets, tiled.n_edges, tiled.n_vertices) == (whole.n_facets, whole.n_edges, whole.n_vertices)


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
    monkeypatch.setattr(tile, "NEIGHBOURS", 4)
    few = svmatlas.explore(X, y, region=region)
    assert (few.n_facets, few.n_edges, few.n_vertices) == (whole.n_facets, whole.n_edges, whole.n_vertices)


@pytest.mark.parametrize("scale", [1e7, 1e-7])
def test_unscaled_rows(scale):
    """Ill-conditioned rows: corners are computed again in double-double, signs by integers."""
    X, y, *_ = gaussian(7, 2, scale=scale)
    atlas = svmatlas.explore(X, y)
    assert atlas.n_vertices - atlas.n_edges + atlas.n_facets == 1
