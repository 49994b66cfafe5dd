"""The map is a fact of the data, also of tied ones: whatever the seed, the start, the rows' order, the tiles, the threads."""

from __future__ import annotations

import functools

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import svmatlas
from tests import cases, facts

SMALL = [case for case in cases.TIED if case not in (cases.iris, cases.binary, cases.separable)]
REGIONS = {"plane": None, "region": ((0.05, 1.5), (0.1, 2.0))}
"""What is compared in all ways is small; the large ones are compared once."""

ON_MARGIN = 1e-9
"""A score this close to 1 is on the margin: solutions at given costs are good to some 1e-12."""


@functools.cache
def map_of(case, region="plane", **arguments):
    X, y = case()
    return svmatlas.explore(X, (y == y.max()).astype(int), region=REGIONS[region], **arguments)


def named(case):
    return case.__name__


everywhere = pytest.mark.parametrize("region", REGIONS)
tied = pytest.mark.parametrize("case", cases.TIED, ids=named)


# ----------------------------------------------------------------------------------------------------------------------
# One map


@everywhere
@pytest.mark.parametrize("case", SMALL, ids=named)
def test_tied_data_have_one_map(case, region):
    """Valid, and the same for another seed, start, order of rows, scale, labels, and in small tiles."""
    X, y = case()
    arguments = {"bias": 1.0, "region": REGIONS[region]} if region != "plane" else {"bias": 1.0}
    facts.check_twins(X, (y == y.max()).astype(int), np.ones(len(y)), arguments, seed=1)


@pytest.mark.parametrize(("case", "seed"), [(cases.iris, 1), (cases.binary, 1), (cases.binary, 2), (cases.separable, 1)])
def test_the_seed_does_not_matter(case, seed):
    facts.assert_same(map_of(case, "region"), map_of(case, "region", random_state=seed))


@pytest.mark.parametrize("case", [cases.oxides, cases.standardised_oxides, cases.unscaled, cases.proteins], ids=named)
def test_badly_conditioned_rows_have_one_map(case):
    """Such as columns that nearly add up to a constant: the jitter moves corners of much tied facets by up to 1e-6."""
    plain = map_of(case)
    assert plain.validate().ok
    for seed in (1, 2):
        facts.assert_same(plain, map_of(case, random_state=seed))


@pytest.mark.parametrize(("case", "share"), [(cases.oxides, 1e-3), (cases.unscaled, 0.1)])
def test_badly_conditioned_rows_take_few_integers(case, share):
    """Corners close to infinity that are known well are not computed again; ties are told by what the jitter adds."""
    atlas = map_of(case)
    assert atlas.n_exact < share * atlas.n_pieces


@pytest.mark.parametrize("case", [cases.lattice, cases.separable, cases.both_labels], ids=named)
@pytest.mark.parametrize("start", [(1.0, 3.0), (50.0, 1e-3)])
def test_the_start_matters_to_the_layers_alone(case, start):
    plain, other = map_of(case), map_of(case, start=start)
    facts.assert_same(plain, other, layers=False)
    assert facts.read(plain).layers != facts.read(other).layers
    assert other.facet_layer[other.locate(*start)] == 0


def test_decimals_in_another_order_are_the_same():
    """Ties that hold up to the rounding of decimals: with these orders of rows some pieces are 1e-15 thin."""
    X, y = cases.iris()
    order = np.random.default_rng(0).permutation(len(y))
    other = svmatlas.explore(X[order], y[order])
    assert other.validate(n_costs=10).ok
    whole = svmatlas.explore(X, y)
    assert (other.n_facets, other.n_edges, other.n_vertices) == (whole.n_facets, whole.n_edges, whole.n_vertices)


@pytest.mark.parametrize("case", [cases.lattice, cases.one_positive], ids=named)
def test_threads_find_the_same(case):
    with pytest.MonkeyPatch.context() as patch:
        facts.cut_finely(patch)
        facts.assert_same(map_of(case), map_of(case, n_jobs=2))


@pytest.mark.parametrize("first", range(0, 75, 25))
def test_random_tied_data_have_one_map(first):
    for seed in range(first, first + 25):
        facts.trial(seed)


@pytest.mark.parametrize(
    "seed",
    [
        56,  # two pieces of one facet, of which only one looked as if it could be tied
        138, 416,  # edges at infinity that end in a corner of the triangle of costs with and without jitter
        770, 1472,  # a facet whose first piece has all tied rows in M, and others not
        1012, 1155, 1481,  # pieces that the jitter made, along a line out to infinity
        13901,  # edges there whose ends have costs of second order in the jitter
        1119,  # four facets around a vertex on an axis
        961802,  # a start on a plateau where it takes fewer points than the rank to tie the rest of the class
    ],
)  # fmt: skip
def test_data_that_had_two_maps(seed):
    facts.trial(seed)


@settings(max_examples=40)
@given(data=st.data())
def test_tiny_tied_data_have_one_map(data):
    """Points of a tiny grid, repeated, with both labels."""
    d, n = data.draw(st.integers(1, 3), label="d"), data.draw(st.integers(2, 9), label="n")
    row = st.tuples(*[st.integers(-1, 2)] * d)
    X = np.array(data.draw(st.lists(row, min_size=n, max_size=n), label="X"), dtype=float)
    y = np.array([0, 1, *data.draw(st.lists(st.integers(0, 1), min_size=n - 2, max_size=n - 2), label="y")])
    bias = data.draw(st.sampled_from([0.0, 0.5, 1.0]), label="bias")
    seeds = data.draw(st.tuples(st.integers(0, 999), st.integers(0, 999)), label="seeds")
    one, other = (svmatlas.explore(X, y, bias=bias, random_state=seed) for seed in seeds)
    assert one.validate(n_costs=10).ok
    facts.assert_same(one, other)


# ----------------------------------------------------------------------------------------------------------------------
# What it says is true


@everywhere
@tied
def test_a_tied_map_is_a_subdivision(case, region):
    """Valid, a disc, its facets convex, edge to edge, with three edges or more at a vertex inside."""
    atlas = map_of(case, region)
    report = atlas.validate(n_costs=100)
    assert report.ok, str(report)
    assert atlas.n_vertices - atlas.n_edges + atlas.n_facets == 1
    check_convex(atlas)
    check_edges(atlas)
    degree = np.bincount(atlas.edge_vertices.ravel(), minlength=atlas.n_vertices)
    on_side = np.unique(atlas.edge_vertices[atlas.edge_facets[:, 1] < 0])
    inner = np.setdiff1d(np.arange(atlas.n_vertices), on_side)
    assert np.all(degree[inner] >= 3)


def check_convex(atlas):
    """Around every facet all turns are to the left, and they are one round."""
    corners = atlas._mesh.vertices[atlas.facet_vertices]
    own = np.repeat(np.arange(atlas.n_facets), np.diff(atlas.facet_at))
    place = np.arange(own.size)
    after = np.where(place + 1 == atlas.facet_at[own + 1], atlas.facet_at[own], place + 1)
    a, b, c = corners, corners[after], corners[after[after]]
    turn = np.einsum("ij,ij->i", np.cross(a, b), c)
    assert np.all(turn >= -facts.ROUNDING)
    assert np.all(np.diff(atlas.facet_at) >= 3)


def check_edges(atlas):
    """Both facets of an edge list it once, with the same ends, the second the other way round."""
    own = np.repeat(np.arange(atlas.n_facets), np.diff(atlas.facet_at))
    place = np.arange(own.size)
    before = np.where(place == atlas.facet_at[own], atlas.facet_at[own + 1] - 1, place - 1)
    ends = np.column_stack([atlas.facet_vertices[before], atlas.facet_vertices])
    first = atlas.edge_facets[atlas.facet_edges, 0] == own
    told = atlas.edge_vertices[atlas.facet_edges]
    np.testing.assert_array_equal(ends, np.where(first[:, None], told, told[:, ::-1]))
    uses = np.bincount(atlas.facet_edges, minlength=atlas.n_edges)
    np.testing.assert_array_equal(uses, np.sum(atlas.edge_facets >= 0, axis=1))


@tied
def test_events_lead_from_one_partition_to_the_other(case):
    """The rows that are told, and those equal to them, are all that move."""
    atlas = map_of(case)
    point, states = atlas._problem.point, atlas._states(np.arange(atlas.n_facets))
    letters = np.array(["O", "I", "M"])
    for e in range(0, atlas.n_edges, 1 + atlas.n_edges // 500):
        f, g = atlas.edge_facets[e]
        events = atlas.edge_events[atlas.edge_at[e] : atlas.edge_at[e + 1]]
        assert len(events) > 0
        if g < 0:
            continue
        moved = np.flatnonzero(states[f] != states[g])
        assert {int(point[row]) for row, _ in events} == set(moved.tolist())
        for i in moved:
            kinds = {int(kind) for row, kind in events if point[row] == i}
            both = {letters[states[f][i]], letters[states[g][i]]}
            assert kinds == {"OM": {0}, "IM": {1}, "IO": {0, 1}}["".join(sorted(both, key="IOM".index))]


def costs_inside(atlas, rng, facet):
    """Random costs inside a facet, away from infinity."""
    corners = atlas.polygon(facet)
    weights = rng.dirichlet(np.ones(len(corners))) / (corners / corners.max(axis=0, initial=0, where=corners >= 0)).sum(axis=1)
    p, q, l = weights @ corners
    return p / l, q / l


@everywhere
@tied
def test_the_margin_is_all_rows_on_it(case, region, gap):
    """At random costs inside facets exactly the rows of M have a score of 1, and alpha is a valid solution."""
    X, y = case()
    y = (y == y.max()).astype(int)
    atlas, rng = map_of(case, region), np.random.default_rng(3)
    for f in rng.choice(atlas.n_facets, 40):
        p, q = costs_inside(atlas, rng, f)
        if not (p > 0 and q > 0 and max(p, q) < 1e6):
            continue
        coef, intercept, alpha = atlas.coef(p, q), atlas.intercept(p, q), atlas.alpha(p, q)
        score = np.where(y == 1, 1, -1) * (X @ coef + intercept)
        margin, inside, outside = atlas.partition(f)
        np.testing.assert_allclose(score[margin], 1, atol=ON_MARGIN)
        assert np.all(score[inside] < 1)
        assert np.all(score[outside] > 1)
        assert abs(gap(X, y, p, q, coef, intercept, alpha)) < 1e-9
        np.testing.assert_array_equal(alpha[outside], 0)
        np.testing.assert_allclose(alpha[inside], np.where(y == 1, p, q)[inside], rtol=1e-12)


@pytest.mark.parametrize("case", [cases.lattice, cases.one_hot, cases.both_labels, cases.one_feature], ids=named)
def test_alpha_has_no_jumps_inside_a_facet(case):
    """Along segments inside facets: halved where it changes most, the change vanishes."""
    atlas, rng = map_of(case), np.random.default_rng(4)
    cut = np.flatnonzero(atlas._canonical.is_cut)
    assert cut.size > 0
    for f in rng.choice(cut, 8):
        a, b = (np.array(costs_inside(atlas, rng, f)) for _ in range(2))
        alpha = atlas.alpha(*np.linspace(a, b, 33).T)
        size = 1 + np.abs(alpha).max()
        k = int(np.argmax(np.abs(np.diff(alpha, axis=0)).max(axis=1)))
        assert largest_jump(atlas, a + (b - a) * k / 32, a + (b - a) * (k + 1) / 32) < 1e-6 * size


def largest_jump(atlas, a, b):
    """The change of alpha between two costs, halved where it is larger 24 times."""
    left, right = atlas.alpha(*a), atlas.alpha(*b)
    for _ in range(24):
        c = (a + b) / 2
        middle = atlas.alpha(*c)
        if np.abs(middle - left).max() > np.abs(right - middle).max():
            b, right = c, middle
        else:
            a, left = c, middle
    return np.abs(right - left).max()


@pytest.mark.parametrize("case", [cases.lattice, cases.one_hot], ids=named)
def test_facets_of_several_pieces_have_no_alpha_of_their_own(case):
    atlas = map_of(case)
    pieces = np.bincount(atlas._canonical.facet[atlas._canonical.facet >= 0], minlength=atlas.n_facets)
    for f in np.r_[np.flatnonzero(pieces > 1)[:5], np.flatnonzero(pieces == 1)[:5]]:
        facet = atlas.facet(int(f))
        assert (facet.alpha is None) == (pieces[f] > 1)
        assert len(facet.events) == len(facet.polygon) == len(facet.neighbours)


@pytest.mark.parametrize("case", [cases.lattice, cases.one_hot, cases.both_labels], ids=named)
def test_files_keep_a_tied_map(case, tmp_path):
    atlas = map_of(case)
    atlas.save(tmp_path / "atlas")
    other = svmatlas.load(tmp_path / "atlas")
    facts.assert_same(atlas, other)
    costs = np.exp(np.random.default_rng(0).uniform(-4, 4, (2, 50)))
    np.testing.assert_array_equal(other.alpha(*costs), atlas.alpha(*costs))
    np.testing.assert_array_equal(other.locate(*costs), atlas.locate(*costs))
    atlas.export(tmp_path)
    edges = pl.read_parquet(tmp_path / "edges.parquet")
    assert edges.height == atlas.n_edges
    told = [part.tolist() for part in np.split(atlas.edge_events, atlas.edge_at[1:-1])]
    assert [list(map(list, zip(*row, strict=True))) for row in zip(edges["rows"], edges["types"], strict=True)] == told
