"""The whole engine uncompiled, line by line, on tiny data: the maps are those of exact rationals."""

from __future__ import annotations

import numpy as np
import pytest

import svmatlas
from svmatlas.engine import polygon
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
    monkeypatch.setattr(polygon, "_sign_dd", lambda t, k, a, b: answered(t, k, a, b))
    monkeypatch.setattr(polygon, "sign_of_jitter", lambda t, k, a, b: polygon.UNKNOWN)
    other = explore(*data, BOX)
    assert (other.n_facets, other.n_edges, other.n_vertices) == (true.n_facets, true.n_edges, true.n_vertices)
    assert np.allclose(other.vertices, true.vertices, atol=1e-12)


def answered(t, k, a, b):
    """What integers said, if they were asked."""
    for row in t.answers:
        if row[0] == polygon.ASK_SIGN and row[3] == k and {row[1], row[2]} == {a, b}:
            return row[4]
    return polygon.UNKNOWN
