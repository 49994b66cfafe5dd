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

ROUNDING = 1e-9
"""A score this close to 1 is 1 but for rounding: of the constant model all scores are 1 or -1."""

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
    vertex, events = paper.joint_events(atlas)
    both = vertex[np.all(events == [1, 3], axis=1)]  # codes of (row 0, type 1) and (row 1, type 1)
    p, q, l = atlas.vertices[both].T
    np.testing.assert_allclose(sorted(zip(p / l, q / l, strict=True)), [(1 / 5, 1 / 10), (1 / 2, 19 / 34)], rtol=1e-9)


def test_the_number_of_layers_is_of_the_order_of_the_number_of_points(paper):
    for d, sizes in ((2, (25, 50, 100)), (10, (25, 50)), (100, (25, 50))):
        for n in sizes:
            atlas = svmatlas.explore(*paper.gaussian(n // 2, n - n // 2, d, d**-0.5), bias=paper.BIAS)
            assert 0.5 < atlas.n_layers / n < 1.2


@pytest.fixture(scope="module")
def plane_of_two_columns(paper):
    """Experiment (ii): X, y, the atlas, and which of its facets are tied."""
    X, y = cases.many_rows_two_columns()
    atlas = svmatlas.explore(X, y, bias=paper.BIAS)
    return X, y, atlas, paper.tied_facets(atlas, X)


def inner_costs(atlas, facet):
    """Costs inside a facet: the mean of its corners."""
    corners = atlas.polygon(facet)
    p, q, l = np.sum(corners / corners.max(axis=1, keepdims=True), axis=0)
    return p / l, q / l


def test_what_the_paper_leaves_unexplored(paper, plane_of_two_columns):
    """With more points than features two large facets are tied, one for each class: all its points have score 1."""
    X, y, atlas, tied = plane_of_two_columns
    classes = []
    for f in np.flatnonzero(tied):
        p, q = inner_costs(atlas, f)
        assert atlas.locate(p, q) == f
        scores = np.where(y == 1, 1, -1) * (X @ atlas.coef(p, q) + atlas.intercept(p, q))
        margin = np.flatnonzero(np.abs(scores - 1) < ROUNDING)
        assert margin.tolist() == atlas.partition(f).margin.tolist() == np.flatnonzero(y == y[margin[0]]).tolist()
        classes.append(y[margin[0]])
    assert sorted(classes) == [0, 1]
    assert 0.1 < paper.share_at_infinity(atlas, tied) < 0.2
    assert 1 / 3 < paper.share_in_view(atlas, tied) < 1 / 2


def test_independent_rows_leave_nothing_unexplored(paper):
    """No facet is tied; and as the rows are random, one event happens on each edge and two paths meet in each inner vertex."""
    X, y = cases.gaussian(20, 20, 50, 0.2)
    atlas = svmatlas.explore(X, y, bias=paper.BIAS)
    assert not paper.tied_facets(atlas, X).any()
    assert np.all(paper.events_per_edge(atlas) == 1)
    vertex, _ = paper.joint_events(atlas)
    np.testing.assert_array_equal(vertex, np.flatnonzero(paper.is_inner(atlas)))


def test_several_events_happen_around_tied_facets_only(paper, plane_of_two_columns):
    """All but two rows of the class leave the margin at once, in an experiment whose features are not tied by themselves."""
    _, _, atlas, tied = plane_of_two_columns
    inner = np.all(atlas.edge_facets >= 0, axis=1)
    beside = inner & np.any(tied[atlas.edge_facets], axis=1)
    np.testing.assert_array_equal(np.diff(atlas.edge_at), np.where(beside, 48, 1))
    np.testing.assert_array_equal(paper.events_per_edge(atlas), np.diff(atlas.edge_at)[inner])


@pytest.mark.parametrize("case", [cases.lattice, cases.binary])
def test_tied_features_have_many_multiple_events(paper, case):
    """Several events happen on more than a tenth of the edges, and more than two paths meet in some inner vertices."""
    atlas = svmatlas.explore(*case())
    assert np.mean(paper.events_per_edge(atlas) > 1) > 0.1
    assert np.bincount(atlas.edge_vertices.ravel(), minlength=atlas.n_vertices)[paper.is_inner(atlas)].max() > 4


def test_vertices_that_are_left_out_are_corners_of_tied_facets(paper, plane_of_two_columns):
    _, _, atlas, tied = plane_of_two_columns
    owner = np.repeat(np.arange(atlas.n_facets), np.diff(atlas.facet_at))
    corners = atlas.facet_vertices[tied[owner]]
    left_out = np.setdiff1d(np.flatnonzero(paper.is_inner(atlas)), paper.joint_events(atlas)[0])
    np.testing.assert_array_equal(left_out, np.unique(corners[paper.is_inner(atlas)[corners]]))


@pytest.mark.parametrize("case", [cases.lattice, cases.binary])
def test_joint_events_of_tied_data_move_two_points(paper, case):
    """Around each of their vertices are four facets, which differ by two rows and those equal to them, and by nothing else."""
    X, y = case()
    atlas = svmatlas.explore(X, y)
    _, first, same = np.unique(np.column_stack([X, y]), axis=0, return_index=True, return_inverse=True)
    owner = np.repeat(np.arange(atlas.n_facets), np.diff(atlas.facet_at))
    for v, events in zip(*paper.joint_events(atlas), strict=True):
        around = [atlas.partition(f) for f in owner[atlas.facet_vertices == v]]
        states = np.array([np.repeat(range(3), [len(s) for s in p])[np.argsort(np.concatenate(p))] for p in around])
        assert len(np.unique(states, axis=0)) == len(states) == 4
        assert set(first[same[np.ptp(states, axis=0) > 0]]) == set(events // 2)


def rank(rows):
    """Rank of some rows of Fractions, by elimination."""
    rows, n = list(rows), 0
    for column in range(len(rows[0]) if rows else 0):
        pivot = next((row for row in rows if row[column] != 0), None)
        if pivot is None:
            continue
        n += 1
        rows.remove(pivot)
        rows = [[a - row[column] / pivot[column] * b for a, b in zip(row, pivot, strict=True)] for row in rows]
    return n


def test_tied_facets_are_those_of_dependent_rows(paper):
    """Ranks as fractions tell; and dual variables are given as one affine map in all other facets."""
    X, y = cases.lattice()
    atlas = svmatlas.explore(X, y, bias=paper.BIAS)
    rows = signed_rows(X, np.where(y == 1, 1, -1), Fraction(paper.BIAS))
    tied = paper.tied_facets(atlas, X)
    assert 0 < tied.sum() < atlas.n_facets
    for f in range(atlas.n_facets):
        margin = atlas.partition(f).margin
        assert tied[f] == (rank([rows[i] for i in margin]) < margin.size)
        assert tied[f] or atlas.facet(f).alpha is not None


def test_the_far_end_of_tied_directions_is_a_constant_model(plane_of_two_columns):
    """Where C+ outweighs C- by far, all positives are on the margin of the model that is 1 everywhere."""
    atlas = plane_of_two_columns[2]
    np.testing.assert_allclose(atlas.coef(1e9, 1.0), 0, atol=1e-9)
    assert atlas.intercept(1e9, 1.0) == pytest.approx(1)


def test_histograms_are_sparse(paper):
    X, y = paper.part_histograms()
    assert X.shape == (50, 104_000)
    assert y.sum() == 10
    assert np.mean(X != 0) == pytest.approx(0.2, abs=0.01)
    assert X.min() >= 0
    assert X.max() <= 0.2
