"""The oracle for canonical facets: against itself, against hand, and against the atlas."""

from __future__ import annotations

from fractions import Fraction
from math import inf
from random import Random

import numpy as np
import pytest

import svmatlas
from tests import tiny
from tests.canonical import (
    NOWHERE,
    Partition,
    area,
    beta_columns,
    canonical_map,
    check,
    combine,
    costs,
    depth,
    make_problem,
    middle,
    normalised,
    partition_at,
)

BOX = ((0, 8), (0, 8))
QUADRANT = ((0, inf), (0, inf))
PART = ((Fraction(1, 2), 3), (Fraction(1, 4), inf))

ROUNDED = 1e-9
"""Corners with p + q + l = 1 and areas of the atlas are within this of the exact ones: the jitter of 1e-13, times how flat
the angles of tiny lattices are, and rounding."""

every_case = pytest.mark.parametrize("case", tiny.CASES, ids=lambda case: case.__name__)


def region_of(box):
    return tuple(tuple(float(v) for v in side) for side in box)


def explore(X, y, bias, weights, box):
    return svmatlas.explore(np.array(X, dtype=float), np.array(y), bias=bias, sample_weight=weights, region=region_of(box))


def ring_of(atlas, f):
    corners = atlas.polygon(f)
    return corners / corners.sum(axis=1, keepdims=True)


def partition_of(atlas, f):
    return Partition(*(frozenset(rows.tolist()) for rows in atlas.partition(f)))


def events_of(atlas, e):
    """Rows (the first of equal ones) and types of the events on an edge."""
    return sorted(map(tuple, atlas.edge_events[atlas.edge_at[e] : atlas.edge_at[e + 1]].tolist()))


def exact_events(edge, data):
    """The same of an edge of the exact map."""
    rows = [(tuple(row), label) for row, label in zip(data[0], data[1], strict=True)]
    return sorted((row, int("I" in moves)) for row, moves in edge.events.items() if rows.index(rows[row]) == row)


def assert_same_map(found, atlas, data):
    """The atlas has the facets, partitions, polygons, events and counts of an exact map."""
    assert (len(found.polygons), len(found.edges), len(found.vertices)) == (atlas.n_facets, atlas.n_edges, atlas.n_vertices)
    partitions = [partition_of(atlas, f) for f in range(atlas.n_facets)]
    polygons = dict(zip(found.partitions, found.polygons, strict=True))
    for f, partition in enumerate(partitions):
        exact, ring = np.array(polygons.pop(partition), dtype=float), ring_of(atlas, f)
        begin = int(np.abs(ring - exact[0]).sum(axis=1).argmin())
        np.testing.assert_allclose(np.roll(ring, -begin, axis=0), exact, rtol=0, atol=ROUNDED)
    inner = {frozenset(partitions[f] for f in atlas.edge_facets[e]): e for e in np.flatnonzero(atlas.edge_facets[:, 1] >= 0)}
    for edge in found.edges:
        if edge.right >= 0:
            e = inner[frozenset([found.partitions[edge.left], found.partitions[edge.right]])]
            assert events_of(atlas, e) == exact_events(edge, data)


def agrees_at_points(problem, found, seed, n_points=5):
    """At random costs an ordinary solution has the partition of the facet there."""
    rng = Random(seed)
    for _ in range(n_points):
        c = normalised(combine(*[(rng.randint(1, 1000), corner) for corner in found.region]))
        partition = partition_at(problem, c)
        inner = [f for f, polygon in enumerate(found.polygons) if depth(polygon, c) > 0]
        assert len(inner) <= 1
        assert inner == [f for f, known in enumerate(found.partitions) if known == partition]


@pytest.mark.parametrize("box", [BOX, QUADRANT, PART], ids=["box", "quadrant", "part"])
@every_case
def test_complete_and_edge_to_edge(case, box):
    found = canonical_map(*case(), box)
    check(found)
    agrees_at_points(make_problem(*case()), found, seed=0)


@pytest.mark.parametrize("seed", range(60))
def test_random_ties(seed):
    data = tiny.random_ties(seed)
    found = canonical_map(*data, [BOX, QUADRANT, PART][seed % 3])
    check(found)
    agrees_at_points(make_problem(*data), found, seed)


def test_areas_in_costs_add_up():
    """Without the scaling to p + q + l = 1, too."""
    found = canonical_map(*tiny.lattice(), BOX)
    assert sum(area([costs(corner) for corner in polygon]) for polygon in found.polygons) == 64


def test_two_orthogonal_rows_by_hand():
    """Scores are 2 C+ and 2 C- up to 1: four squares."""
    found = canonical_map([[1], [-1]], [1, 0], box=((0, 1), (0, 1)))
    half = Fraction(1, 2)
    squares = {
        partition: {costs(corner) for corner in polygon}
        for partition, polygon in zip(found.partitions, found.polygons, strict=True)
    }
    assert squares == {
        Partition(frozenset(margin), frozenset({0, 1} - margin), frozenset()): {
            (half * (i + (0 in margin)), half * (j + (1 in margin))) for i in (0, 1) for j in (0, 1)
        }
        for margin in (set(), {0}, {1}, {0, 1})
    }
    assert (len(found.edges), len(found.vertices)) == (12, 9)
    inner = [edge for edge in found.edges if edge.right != NOWHERE]
    assert sorted(sorted(edge.events) for edge in inner) == [[0], [0], [1], [1]]


def test_one_facet_where_alpha_is_not_unique():
    """Without a bias both rows are one signed row: beta = min(1, C+ + C-), and one facet is all that is beyond 1."""
    found = canonical_map([[1], [-1]], [1, 0], bias=0, box=QUADRANT)
    both = frozenset({0, 1})
    assert set(found.partitions) == {Partition(frozenset(), both, frozenset()), Partition(both, frozenset(), frozenset())}
    beyond = found.polygons[found.partitions.index(Partition(both, frozenset(), frozenset()))]
    assert {costs(corner) for corner in beyond} == {(1, 0), (0, 1), (inf, 0), (0, inf)}


def test_weight_two_is_a_repeated_row():
    X, y, bias, _ = tiny.lattice()
    heavy = canonical_map(X, y, bias, [2, 1, 1, 1, 1, 1, 2])
    double = canonical_map([*X, X[0], X[6]], [*y, y[0], y[6]], bias)
    assert set(heavy.polygons) == set(double.polygons)


def test_order_of_rows_does_not_matter():
    X, y, bias, _ = tiny.lattice()
    assert set(canonical_map(X, y, bias).polygons) == set(canonical_map(X[::-1], y[::-1], bias).polygons)


def test_swapped_labels_mirror_the_map():
    X, y, bias, _ = tiny.one_feature()
    found, mirrored = canonical_map(X, y, bias), canonical_map(X, [1 - label for label in y], bias)
    swapped = {frozenset((q, p, l) for p, q, l in polygon) for polygon in mirrored.polygons}
    assert {frozenset(polygon) for polygon in found.polygons} == swapped
    assert set(found.partitions) == set(mirrored.partitions)


def test_a_row_that_touches_the_margin_on_an_edge():
    problem, found = make_problem(*tiny.touching()), canonical_map(*tiny.touching(), QUADRANT)
    touched = set()
    for edge in found.edges:
        c = middle(edge.ends)
        if edge.right != NOWHERE and c[2] > 0:
            inside = found.partitions[edge.left].inside & found.partitions[edge.right].inside
            touched |= partition_at(problem, c).margin & inside
    assert touched == {0, 3}


def test_rows_that_change_places_on_an_edge():
    found = canonical_map(*tiny.exchange(), QUADRANT)
    assert {0: ("M", "I"), 2: ("O", "M")} in [edge.events for edge in found.edges]


@every_case
def test_beta_of_the_atlas(case):
    """At each vertex with finite costs, from each facet that meets there."""
    data = case()
    problem, found = make_problem(*data), canonical_map(*data, BOX)
    atlas = explore(*data, BOX)
    for partition, polygon in zip(found.partitions, found.polygons, strict=True):
        columns = beta_columns(problem, partition)
        for corner in polygon:
            beta = np.array([float(v / corner[2]) for v in combine(*zip(corner, columns, strict=True))])
            C = [float(v) for v in costs(corner)]
            coef, intercept = atlas.coef(*C), atlas.intercept(*C)
            np.testing.assert_allclose(np.append(coef, intercept), [*beta[:-1], beta[-1] * data[2]], rtol=0, atol=ROUNDED)


@pytest.mark.parametrize("box", [BOX, QUADRANT], ids=["box", "quadrant"])
def test_independent_rows_have_the_facets_of_the_atlas(box):
    """As many columns as rows: no ties, so partitions and polygons are those of the atlas, one by one."""
    rng = np.random.default_rng(3)
    X, y = rng.integers(-9, 10, size=(6, 5)), np.array([0, 1, 0, 1, 1, 0])
    data = X.tolist(), y.tolist(), 1, None
    found = canonical_map(*data, box)
    check(found)
    assert_same_map(found, explore(*data, box), data)


@pytest.mark.parametrize("box", [BOX, QUADRANT, PART], ids=["box", "quadrant", "part"])
@every_case
def test_the_atlas_is_the_exact_map(case, box):
    data = case()
    assert_same_map(canonical_map(*data, box), explore(*data, box), data)


@pytest.mark.parametrize("seed", range(60))
def test_the_atlas_of_random_ties_is_the_exact_map(seed):
    data, box = tiny.random_ties(seed), [BOX, QUADRANT, PART][seed % 3]
    assert_same_map(canonical_map(*data, box), explore(*data, box), data)
