"""The whole map is valid on every hard case: no holes, no overlaps, optimal everywhere."""

from __future__ import annotations

import numpy as np
import pytest

import svmatlas
from tests import cases


def check(atlas):
    report = atlas.validate()
    assert report.ok, str(report)
    assert atlas.complete
    assert abs(report.coverage - 1) < 1e-9
    assert report.n_open_edges == 0
    assert report.euler == 1
    assert report.max_gap < 1e-9
    assert report.n_costs == 1000
    return report


@pytest.mark.parametrize("bias", [0.01, 1.0])
@pytest.mark.parametrize("case", cases.PAPER, ids=lambda case: case.__name__)
def test_settings_of_the_paper(case, bias, gap):
    X, y = case()
    atlas = svmatlas.explore(X, y, bias=bias)
    check(atlas)
    for C_pos, C_neg in [(1e-3, 1e-3), (2.0, 0.5), (1e6, 1e6)]:
        solution = atlas.coef(C_pos, C_neg), atlas.intercept(C_pos, C_neg), atlas.alpha(C_pos, C_neg)
        assert abs(gap(X, y, C_pos, C_neg, *solution, bias=bias)) < 1e-9


@pytest.mark.parametrize("bias", [0.01, 1.0])
@pytest.mark.parametrize("case", cases.TIED, ids=lambda case: case.__name__)
def test_ties(case, bias, gap):
    X, y = case()
    atlas = svmatlas.explore(X, y, bias=bias)
    check(atlas)
    rng = np.random.default_rng(0)
    C_pos, C_neg = np.r_[np.exp(rng.uniform(np.log(1e-6), np.log(1e6), (2, 200))).T, [[1, 1], [0.5, 2]]].T
    coef, intercept, alpha = (f(C_pos, C_neg) for f in (atlas.coef, atlas.intercept, atlas.alpha))
    for k in range(C_pos.size):
        assert abs(gap(X, y, C_pos[k], C_neg[k], coef[k], intercept[k], alpha[k], bias=bias)) < 1e-9


def test_whole_quadrant_of_breast_cancer():
    report = check(svmatlas.explore(*cases.breast_cancer(), n_jobs=2))
    assert report.n_facets > 100_000


def test_worst_case_of_gaertner_jaggi_maria():
    from scipy.spatial import ConvexHull, HalfspaceIntersection

    d = 4
    normals, offsets = cases.goldfarb_cube(d)
    corners = HalfspaceIntersection(np.column_stack([normals, -offsets]), np.full(d, 0.5)).intersections
    assert len(ConvexHull(corners[:, -2:]).vertices) == 2**d  # the data are what they claim to be
    X, y = cases.goldfarb(d)
    check(svmatlas.explore(X, y))


def test_worst_case_stops_at_max_facets():
    X, y = cases.goldfarb(9)
    atlas = svmatlas.explore(X, y, max_facets=500)
    report = atlas.validate()
    assert not atlas.complete
    assert report.ok, str(report)
    assert atlas._canonical.split.tie.size == 500
    assert 0 < report.n_facets <= 500
