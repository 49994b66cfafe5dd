"""Tiles: the same atlas whatever the cuts, the candidates and the threads."""

from __future__ import annotations

import gc
import threading
import weakref
from itertools import islice

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import svmatlas
from svmatlas.atlas import budget, stream, survey
from svmatlas.data.problem import make_problem
from svmatlas.engine import tile as tiles
from svmatlas.engine.guess import approximate
from svmatlas.engine.maps import affine_maps
from svmatlas.engine.tile import EngineError, uncertain
from svmatlas.models.walk import state_at
from svmatlas.support.settings import SETTINGS
from tests import cases
from tests.facts import cut_finely


def assert_same(one, other):
    """Bit for bit in all that is not a number of the plane, and there up to rounding: the map of the data, and its pieces."""
    a, b = one._canonical, other._canonical
    assert_same_pieces(one, other)
    assert_same_meshes(a.mesh, b.mesh)
    for name in ("joint", "joint_at", "joint_code", "piece", "facet", "tied_at", "tied"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


def assert_same_pieces(one, other):
    a, b = one._canonical.split, other._canonical.split
    assert_same_meshes(a.mesh, b.mesh)
    for name in ("flips", "tie", "start"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


def assert_same_meshes(one, other):
    for name in one._fields[1:]:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    np.testing.assert_allclose(one.vertices, other.vertices, rtol=1e-9, atol=1e-12)


DATA = {
    "gaussian": lambda: cases.gaussian(30, 30, 3, 1.0),
    "binary": cases.binary,
    "lattice": cases.lattice,
    "one_hot": cases.one_hot,
    "both_labels": cases.both_labels,
    "one_positive": cases.one_positive,
    "one_feature": cases.one_feature,
    "separable": cases.separable,
}


@pytest.mark.parametrize("bias", [1.0, 0.01])
@pytest.mark.parametrize("name", DATA)
def test_tiles_change_nothing(name, bias, monkeypatch):
    X, y = DATA[name]()
    plain = svmatlas.explore(X, y, bias=bias)
    for events, n_jobs in ((3, 1), (7, 2)):
        cut_finely(monkeypatch, events)
        count = len(survey.Surveyor(plain._problem, plain.region).cut((0.0, 0.0)))
        tiled = svmatlas.explore(X, y, bias=bias, n_jobs=n_jobs)
        assert count > 3 or name == "both_labels"  # which has few events
        assert_same(tiled, plain)


def test_a_tile_is_the_same_from_wherever_it_is_explored(monkeypatch):
    """Corners are then known in another order, some of them badly: what lies near must not be told from the others alone."""
    X, y = cases.binary()
    problem = svmatlas.explore(X, y, bias=0.01, max_facets=1)._problem
    cut_finely(monkeypatch, 7)
    surveyor, rng = survey.Surveyor(problem, ((0.0, np.inf), (0.0, np.inf))), np.random.default_rng(0)
    for tile in surveyor.cut((0.0, 0.0)):
        facets = surveyor.explore(tile)
        keys = np.sort(facets.key)
        for f in rng.choice(keys.size, 6):
            np.testing.assert_array_equal(np.sort(surveyor.explore(tile, state=facets.state(f)).key), keys)


@pytest.mark.parametrize("region", [((1e-2, 10), (1e-3, 1)), ((0, np.inf), (0.1, 0.5)), ((0.3, np.inf), (0, np.inf))])
def test_tiles_of_a_region(region, monkeypatch):
    X, y = cases.gaussian(40, 40, 2, 1.0)
    plain = svmatlas.explore(X, y, region=region)
    cut_finely(monkeypatch)
    tiled = svmatlas.explore(X, y, region=region)
    assert_same(tiled, plain)
    assert tiled.validate().ok


def test_a_tile_with_too_many_facets_is_cut_again(monkeypatch):
    X, y = cases.gaussian(40, 40, 3, 1.0)
    plain = svmatlas.explore(X, y)
    monkeypatch.setattr(SETTINGS, "tile_bytes", 0)
    surveyor = survey.Surveyor(plain._problem, plain.region)
    assert isinstance(surveyor.explore(plain.region), list)
    assert plain.facet_layer.size > 1000
    assert_same(svmatlas.explore(X, y), plain)


@given(m=st.integers(1, 7), n=st.integers(1, 7), data=st.data())
def test_threads_explore_in_one_piece(m, n, data):
    """An interrupt leaves the facets that are connected to the start: each tile is next to one before, but for the rest."""
    tiles = [((float(i), i + 1.0), (float(j), j + 1.0)) for i in range(m) for j in range(n)]
    tiles.insert(0, tiles.pop(data.draw(st.integers(0, len(tiles) - 1))))
    order, fixed = survey._arrange([(tile, 0) for tile in tiles])
    assert sorted(order) == sorted((tile, 0) for tile in tiles)
    assert order[0][0] == tiles[0]
    place = [(int(p[0]), int(q[0])) for (p, q), _ in order]
    for k in range(1, fixed):
        assert any(abs(a - place[k][0]) + abs(b - place[k][1]) == 1 for a, b in place[:k])
    if place[0] == (0, 0):
        assert (m - 1, n - 1) in place[:fixed]


def test_the_tile_with_most_facets_on_its_sides_comes_next(monkeypatch):
    X, y = cases.gaussian(75, 75, 3, 1.0)
    monkeypatch.setattr(SETTINGS, "events_per_tile", 24)
    surveyor = survey.Surveyor(svmatlas.explore(X, y, max_facets=1)._problem, ((0.0, np.inf), (0.0, np.inf)))
    waiting = [(tile, 0) for tile in surveyor.cut((0.0, 0.0))]
    for tile, _ in waiting[:5]:
        facets = surveyor.explore(tile)
        surveyor.remember(tile, facets)
        for side in [side for sides in survey._sides(tile) for side in sides if side.cost not in (0.0, np.inf)]:
            corner = surveyor._costs(facets.corner)[:, side.axis]
            on_side = np.sum(np.abs(corner - side.cost) <= 1e-9 * side.cost)
            assert surveyor.met[side] == on_side - 1  # corners on a side, all finite here, are one more than edges
    tile, _ = waiting[5 + surveyor._most_promising(waiting[5:])]
    sides = survey._sides(tile)
    assert any(side in surveyor.met for side in sides[0] + sides[1])


@settings(max_examples=30)
@given(st.integers(5, 14), st.integers(1, 3), st.sampled_from([0.0, 0.01, 1.0]), st.integers(0, 10**6))
@example(11, 3, 0.0, 286616)  # weights that grow by the jitter alone, towards infinite costs
@example(11, 3, 0.01, 332743)  # a sliver along an axis that is a tie of second order
def test_tiles_of_hostile_data(n, d, bias, seed):
    """Small integers: repeated rows, ties, both labels."""
    rng = np.random.default_rng(seed)
    X, y = rng.integers(-2, 3, size=(n, d)).astype(float), np.arange(n) % 2
    plain = svmatlas.explore(X, y, bias=bias)
    with pytest.MonkeyPatch.context() as patch:
        cut_finely(patch, events=2, many=4)
        assert_same(svmatlas.explore(X, y, bias=bias), plain)


@pytest.mark.parametrize(("seed", "events", "many"), [(1063, 2, 4), (5000239, 3, 8), (9000219, 3, 8), (7000858, 3, 4)])
def test_ties_up_to_rounding_are_the_same_in_tiles(seed, events, many, monkeypatch):
    """Decimals of low rank: facets of 1e-17, or less, that are as much of the rounding of the data as of the jitter."""
    X, y, bias = cases.decimals_of_low_rank(seed)
    plain = svmatlas.explore(X, y, bias=bias)
    cut_finely(monkeypatch, events, many)
    assert_same_pieces(plain, svmatlas.explore(X, y, bias=bias))


@pytest.mark.parametrize("seed", [1, 7, 10])
def test_tiles_with_all_candidates_on_the_margin(seed, monkeypatch):
    """Repeated rows of wide data: such a facet has no score lines to choose from, and whether they would turn is not known."""
    rng = np.random.default_rng(seed)
    X, y = np.repeat(rng.normal(size=(5, 6)), 3, axis=0), rng.random(15) < 0.5
    plain = svmatlas.explore(X, y, bias=0.01)
    cut_finely(monkeypatch, events=2, many=4)
    assert_same(plain, svmatlas.explore(X, y, bias=0.01))


def test_no_facet_asks_for_ever():
    known = np.array([[0, 1, 2, 3, 1], [0, 1, 2, 5, -1]])
    assert len(tiles.more_answers(known[:1], known)) == 3
    for new in (known[:0], known[:1]):
        with pytest.raises(EngineError, match="not told"):
            tiles.more_answers(known, new)


def test_no_frozen_point_moves(monkeypatch):
    """What the certificate says: outside the candidates, all facets of a tile have the partition of its start."""
    X, y = cases.gaussian(450, 450, 4, 1.0)
    region = ((0.01, 0.012), (0.01, 0.012))
    whole = svmatlas.explore(X, y, region=region)
    surveyor = survey.Surveyor(whole._problem, whole.region)
    facets = surveyor.explore(whole.region)
    frozen = np.setdiff1d(np.arange(900), facets.which)
    assert frozen.size > 300
    monkeypatch.setattr(SETTINGS, "all_candidates_points", 10**6)
    plain = svmatlas.explore(X, y, region=region)
    assert_same(whole, plain)
    states = plain._split_states(np.arange(plain._canonical.split.tie.size))
    assert np.all(states[:, frozen] == facets.start[frozen])


def test_the_certificate_names_points_that_move():
    """With a point of the margin left out of the candidates, the certificate must not hold."""
    X, y = cases.gaussian(450, 450, 4, 1.0)
    whole = svmatlas.explore(X, y, region=((0.01, 0.012), (0.01, 0.012)))
    surveyor = survey.Surveyor(whole._problem, whole.region)
    states = whole._split_states(np.arange(whole._canonical.split.tie.size))
    frame = surveyor._frame(whole.region, states[0])
    moving = np.flatnonzero(np.any(states != states[0], axis=0))
    start = states[0]
    still = moving[start[moving] != 2]
    assert still.size > 0
    which = np.setdiff1d(frame.which, still[:1])
    facets = surveyor.engine.explore(surveyor.region, start, frame._replace(which=which), 10**4)
    assert uncertain(whole._problem.data, facets, frame.axes)[still[0]]


def test_candidates_are_guessed_from_good_weights():
    """At corners of tiles that are not known coordinate descent is close to the solution, also where a class is tied."""
    X, y = cases.gaussian(450, 450, 4, 1.0)
    whole = svmatlas.explore(X, y, region=((0.01, 0.012), (0.01, 0.012)))
    problem = whole._problem
    for C in ((0.01, 0.01), (0.012, 0.0105), (0.0, 0.011), (0.0, 0.0)):
        c = problem.homogeneous(*np.array(C)[:, None])[0]
        state, beta = approximate(problem.data, c)
        exact = state_at(problem, *C)
        _, (maps,) = affine_maps(problem.data, survey.make_region(whole.region, 0), exact[None], jitter=1.0, accuracy=1.0)
        assert np.linalg.norm(beta - c / c[2] @ maps) < 1e-2
        if C[0] > 0:  # on the axis a class is tied
            assert np.linalg.norm(whole.coef(*C) - problem.features.weights(beta[None])[0]) < 1e-2
            assert np.mean(state == exact) > 0.98
            assert np.all((problem.data.rows @ beta < 1) == (state == 1), where=state != 2)
    assert np.all(state == 1)


@pytest.mark.parametrize("name", ["gaussian", "lattice", "tied"])
def test_points_near_home_are_enough(name, monkeypatch):
    """The same map whether scores are checked for all points, or for those near the last home alone."""
    X, y = {"tied": lambda: cases.gaussian(100, 100, 2, 3.0), **DATA}[name]()
    X, y = np.concatenate([X, X + 0.25]), np.concatenate([y, y])
    plain = svmatlas.explore(X, y, region=((1e-3, 1), (1e-3, 1)))
    monkeypatch.setattr(SETTINGS, "near_points", 2)
    assert_same(svmatlas.explore(X, y, region=plain.region), plain)


def test_stream_of_tiles(monkeypatch):
    """Each tile is a valid atlas of its box; together they have the facets of the whole, and its solutions."""
    X, y = cases.gaussian(30, 30, 3, 1.0)
    whole = svmatlas.explore(X, y)
    cut_finely(monkeypatch, events=9)
    seen, area = set(), 0.0
    for tile in svmatlas.tiles(X, y):
        assert tile.validate(n_costs=10).ok
        (a, b), (c, d) = tile.region
        area += (_share(b) - _share(a)) * (_share(d) - _share(c))
        seen |= {state.tobytes() for state in tile._states(np.arange(tile.facet_layer.size))}
        cost = [lo * 1.1 + 0.01 if np.isinf(hi) else (lo + hi) / 2 for lo, hi in tile.region]
        np.testing.assert_allclose(tile.coef(*cost), whole.coef(*cost), rtol=1e-9, atol=1e-12)
    assert area == pytest.approx(1.0)
    assert seen == {state.tobytes() for state in whole._states(np.arange(whole.facet_layer.size))}


def _share(cost):
    return 1.0 if np.isinf(cost) else cost / (1.0 + cost)


def test_estimate(monkeypatch):
    monkeypatch.setattr(SETTINGS, "events_per_tile", 32)
    X, y = cases.gaussian(60, 60, 3, 1.0)
    true = svmatlas.explore(X, y)._canonical.split.tie.size
    exact = svmatlas.estimate(X, y, time_budget=60.0)
    assert exact.n_sampled == exact.n_tiles
    assert exact.error > 0.0  # also of what was sampled in full
    assert true <= exact.n_pieces <= 1.5 * true  # tiles count what they cut twice
    rough = svmatlas.estimate(X, y, time_budget=1e-9)
    assert rough.n_sampled == 2 < rough.n_tiles
    assert rough.error > 0
    assert f"{rough.n_tiles} tiles" in str(rough)
    with pytest.raises(ValueError, match="time_budget"):
        svmatlas.estimate(X, y, time_budget=0)


@pytest.mark.parametrize("case", [cases.one_hot, cases.lattice, cases.every_row_three_times])
def test_the_error_holds_where_all_tiles_of_a_tied_table_were_sampled(monkeypatch, case):
    """What cuts add is within it; facets are no more than pieces."""
    monkeypatch.setattr(SETTINGS, "events_per_tile", 128)
    X, y = case()
    atlas, found = svmatlas.explore(X, y), svmatlas.estimate(X, y, time_budget=60.0)
    assert found.n_sampled == found.n_tiles
    assert abs(found.n_pieces - atlas.n_pieces) <= 2 * found.error * found.n_pieces
    assert atlas.n_facets <= (1 + 2 * found.error) * found.n_pieces


@pytest.mark.parametrize("m", [2, 5, 12, 30])
def test_twice_the_error_of_an_estimate_holds_the_truth(m):
    """In nine of ten samples at least, of counts as tiles have them: a few hold most of all facets."""
    rng, right = np.random.default_rng(m), 0
    for _ in range(500):
        counts = np.exp(rng.normal(5.0, 1.0, 60)).astype(int)
        known = rng.choice(counts, m, replace=False)
        right += abs(known.mean() - counts.mean()) <= 2 * known.mean() * budget.relative_error(known.tolist(), counts.size)
    assert right >= 450


def half_binary(n, d, seed):
    """A table with a binary and a five-valued column."""
    rng, y = np.random.default_rng(seed), np.arange(n) % 3 == 0
    X = rng.normal(size=(n, d)) + 0.5 * y[:, None]
    X[:, 0], X[:, 1] = rng.random(n) < 0.3 + 0.2 * y, np.clip(np.round(X[:, 1] + 2), 0, 4)
    return X, y


TEN = [
    half_binary(90, 5, 2), cases.lattice(), cases.oxides(), cases.iris(), half_binary(150, 4, 0), half_binary(200, 3, 1),
    cases.gaussian(60, 60, 2, 1.0), cases.gaussian(40, 80, 6, 0.5), cases.gaussian(100, 100, 4, 2.0),
    tuple(array[::3] for array in cases.breast_cancer()),
]  # fmt: skip


@pytest.mark.parametrize("m", [6, 12])
def test_errors_of_estimates_hold_in_eight_of_ten_tables(m, monkeypatch):
    """Ten tables, most of them tied, and samples of a few of many tiles."""
    monkeypatch.setattr(SETTINGS, "one_tile_points", 4)
    monkeypatch.setattr(SETTINGS, "events_per_tile", 24)
    every, right = stream.samples, 0
    monkeypatch.setattr(stream, "samples", lambda *arguments: islice(every(*arguments), m))
    for X, y in TEN:
        found = svmatlas.estimate(X, y, time_budget=100.0)
        assert m == found.n_sampled < found.n_tiles
        right += abs(found.n_pieces - svmatlas.explore(X, y).n_pieces) <= found.error * found.n_pieces
    assert right >= 8


def test_the_error_of_an_estimate_ends_where_all_is_known():
    counts = [5, 80, 3, 40]
    assert budget.relative_error(counts, 4) == 0.0
    assert budget.relative_error(counts[:1], 4) == np.inf
    assert budget.relative_error([7, 7, 7], 4) == 0.0  # AT_LEAST is what is told then


def test_no_exploration_without_memory(monkeypatch):
    X, y = cases.gaussian(60, 60, 3, 1.0)
    cut_finely(monkeypatch, events=16)
    monkeypatch.setattr(budget, "available_memory", lambda: 2.0**15)
    with pytest.raises(MemoryError, match=r"facets are expected.* GiB are available.*max_facets.*svmatlas\.tiles"):
        svmatlas.explore(X, y)
    assert svmatlas.explore(X, y, max_facets=100).n_facets >= 90  # as many as were asked for, ties aside
    assert next(svmatlas.tiles(X, y)).complete
    svmatlas.explore(X, y, time_budget=1e-9)  # too few to need much
    monkeypatch.setattr(budget, "available_memory", lambda: 2.0**30)
    counts, count = [], budget._count
    monkeypatch.setattr(budget, "_count", lambda *arguments: counts.append(1) or count(*arguments))
    tiled = svmatlas.explore(X, y)
    n_tiles = len(survey.Surveyor(tiled._problem, tiled.region).cut((0.0, 0.0)))
    assert n_tiles > budget.FEW_TILES
    assert 0 < len(counts) <= max(budget.LEAST, n_tiles // 32)
    counts.clear()
    monkeypatch.setattr(budget, "available_memory", lambda: 2.0**50)
    assert_same(svmatlas.explore(X, y), tiled)
    assert not counts  # there is plenty


def test_no_sample_of_few_tiles(monkeypatch):
    monkeypatch.setattr(budget, "available_memory", lambda: 0.0)
    assert svmatlas.explore(*cases.gaussian(30, 30, 3, 1.0)).complete


@pytest.mark.parametrize(
    ("group", "files", "left"),
    [
        (None, {}, 2.0**20),  # none, or of a kind that is not known
        ("0::/one/two", {"one/memory.max": 5000, "one/memory.current": 3000}, 2000),
        ("0::/one/two", {"one/memory.max": 5000, "one/memory.current": 6000}, 0),
        ("0::/", {"memory.max": "max", "memory.current": 3000}, 2.0**20),
        ("0::/", {"memory.max": 5000, "memory.current": 3000, "memory.stat": "anon 1\ninactive_file 700\n"}, 2700),
        ("4:memory:/a\n0::/", {"memory/a/memory.limit_in_bytes": 900, "memory/a/memory.usage_in_bytes": 400}, 500),
    ],
)
def test_available_memory(group, files, left, monkeypatch, tmp_path):
    monkeypatch.setattr(budget, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(budget, "CGROUP", tmp_path / "cgroup")
    monkeypatch.setattr(budget, "CGROUPS", tmp_path / "groups")
    assert budget.available_memory() == np.inf
    (tmp_path / "meminfo").write_text("MemTotal:  9999 kB\nMemAvailable:  1024 kB\n")
    if group is not None:
        (tmp_path / "cgroup").write_text(f"{group}\n")
    for name, text in files.items():
        path = tmp_path / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(text))
    assert budget.available_memory() == left


def test_engines_of_one_thread_share_memory_that_goes_with_it(monkeypatch):
    """A search has an engine for each fold: each with memory of its own took gigabytes."""
    monkeypatch.setattr(tiles, "_memories", weakref.WeakValueDictionary())  # engines of other tests may be alive
    data = [cases.gaussian(20, 30, 3, 1.0, seed) for seed in range(3)]
    surveyors = [survey.Surveyor(make_problem(X, y, 1.0, None, 0), ((0.0, np.inf), (0.0, np.inf))) for X, y in data]
    blocks = []

    def explore():
        for surveyor in surveyors:
            surveyor.explore(surveyor.bounds)
            blocks.append(weakref.ref(surveyor.engine.memory.block))

    thread = threading.Thread(target=explore)
    thread.start()
    thread.join()
    assert len(blocks) == 3
    gc.collect()
    assert all(block() is None for block in blocks), "memory of a thread that is gone"
    explore()
    alive = [block() for block in blocks[3:]]
    assert sum(block is not None for block in alive) == 1, "one block, whatever the number of engines"
    del alive
    surveyors.clear()
    gc.collect()
    assert blocks[-1]() is None, "memory outlives the engines"
