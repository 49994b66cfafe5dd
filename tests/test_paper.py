"""What the experiments in examples/paper say about the questions that the paper leaves open."""

from __future__ import annotations

import importlib.util
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import svmatlas
from tests import cases
from tests.reference import dot, signed_rows

PATH = Path(__file__).parents[1] / "examples" / "paper" / "run.py"


@pytest.fixture(scope="module")
def paper():
    spec = importlib.util.spec_from_file_location("paper_run", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FOUR = np.array([[2.0, -2.0], [-3.0, -1.0], [-1.0, 2.0], [0.0, -3.0]]), np.array([1, 1, 0, 0])


@pytest.mark.parametrize(
    ("costs", "alpha"),
    [
        (("1/5", "1/10"), ("1/5", "1/5", "1/10", "1/10")),
        (("1/2", "19/34"), ("1/2", "1/2", "13/34", "19/34")),
    ],
)
def test_two_event_paths_cross_twice(costs, alpha):
    """Four points, in fractions: at two pairs of costs both positives are on the margin with alpha at its bound."""
    X, y = FOUR
    sign = np.where(y == 1, 1, -1)
    rows = signed_rows(X, sign, 1)
    alpha = [Fraction(a) for a in alpha]
    bound = [Fraction(costs[0]) if s > 0 else Fraction(costs[1]) for s in sign]
    beta = [dot(alpha, column) for column in zip(*rows, strict=True)]
    for a, c, row in zip(alpha, bound, rows, strict=True):  # the solution is optimal
        score = dot(row, beta)
        assert 0 < a <= c
        assert score == 1 if a < c else score <= 1
    assert [dot(rows[i], beta) for i in (0, 1)] == [1, 1]  # and both events of type 1 happen
    assert alpha[:2] == bound[:2]


def test_the_atlas_knows_that_they_cross_twice(paper):
    atlas = svmatlas.explore(*FOUR)
    pairs, counts, vertices = paper.joint_events(atlas, np.array(atlas.facet_is_tie))
    k = pairs.tolist().index([1, 3])  # codes of (row 0, type 1) and (row 1, type 1)
    assert counts[k] == 2
    p, q, l = atlas.vertices[vertices[k]].T
    np.testing.assert_allclose(sorted(zip(p / l, q / l, strict=True)), [(1 / 5, 1 / 10), (1 / 2, 19 / 34)], rtol=1e-9)


def test_the_number_of_layers_is_of_the_order_of_the_number_of_points(paper):
    for d, sizes in ((2, (25, 50, 100)), (10, (25, 50)), (100, (25, 50))):
        for n in sizes:
            atlas = svmatlas.explore(*paper.gaussian(n // 2, n - n // 2, d, d**-0.5), bias=paper.BIAS)
            assert 0.5 < atlas.n_layers / n < 1.5


def test_what_the_paper_leaves_unexplored(paper):
    """With more points than features a cone of the plane is tied; with independent rows nothing is."""
    X, y = cases.many_rows_two_columns()
    atlas = svmatlas.explore(X, y, bias=paper.BIAS)
    tied = paper.tied_facets(atlas, X, y)
    assert tied.sum() > atlas.facet_is_tie.sum()
    for f in np.flatnonzero(tied & ~atlas.facet_is_tie)[::100]:
        p, q = (v[0] for v in paper.inner_costs(atlas, [f]))
        assert atlas.locate(p, q) == f
        scores = np.where(y == 1, 1, -1) * (X @ atlas.coef(p, q) + atlas.intercept(p, q))
        assert np.sum(np.abs(scores - 1) < 1e-9) > 3  # three columns with the bias: more than determine the solution
    assert 0.1 < paper.share_at_infinity(atlas, tied) < 0.2
    X, y = cases.gaussian(20, 20, 50, 0.2)
    atlas = svmatlas.explore(X, y, bias=paper.BIAS)
    assert not paper.tied_facets(atlas, X, y).any()


def test_the_far_end_of_tied_directions_is_a_constant_model(paper):
    """Where C+ outweighs C- by far, all positives are on the margin of the model that is 1 everywhere."""
    X, y = cases.many_rows_two_columns()
    atlas = svmatlas.explore(X, y, bias=paper.BIAS)
    np.testing.assert_allclose(atlas.coef(1e9, 1.0), 0, atol=1e-9)
    assert atlas.intercept(1e9, 1.0) == pytest.approx(1)


def test_histograms_are_sparse(paper):
    X, y = paper.part_histograms()
    assert X.shape == (50, 104_000)
    assert y.sum() == 10
    assert np.mean(X != 0) == pytest.approx(0.2, abs=0.01)
    assert X.min() >= 0
    assert X.max() <= 0.2
