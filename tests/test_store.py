"""A map on disk: the same facets as in memory, whatever happens to the process that makes it, or to its files."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import svmatlas
from svmatlas import FileError
from svmatlas.atlas import checks, single, survey
from svmatlas.atlas.plateau_tiles import PlateauTiles
from svmatlas.atlas.solver import Solver
from svmatlas.cli.main import main
from svmatlas.engine.names import make_words
from svmatlas.engine.plateaus import UnclosedError
from svmatlas.show.displays import AtlasDisplay
from svmatlas.show.stored import stored_pixels
from svmatlas.store import manifest as manifests
from svmatlas.store import tiles as tile_files
from svmatlas.store.manifest import read_manifest
from svmatlas.support.settings import SETTINGS
from svmatlas.support.threads import make_pool
from tests import cases
from tests.facts import cut_finely, explore_pieces
from tests.test_tiles import assert_same


def small(make, n):
    """Some of the rows of a data set, both labels among them."""
    X, y = make()
    rows = np.random.default_rng(0).permutation(len(y))[:n]
    return X[rows], y[rows]


DATA = {
    "gaussian": lambda: cases.gaussian(10, 10, 2, 1.0),
    "binary": lambda: small(cases.binary, 25),
    "lattice": lambda: small(cases.lattice, 20),
    "one_hot": lambda: small(cases.one_hot, 30),
    "one_positive": lambda: cases.gaussian(1, 15, 3, 0.0),
    "separable": lambda: cases.gaussian(8, 8, 2, 10.0),
    "both_labels": cases.both_labels,
}


def mixed(n=30, seed=0):
    """A table as people have them: a decimal, a binary and a one-hot column, repeated rows, and no scaling."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"age": rng.integers(20, 80, n), "dose": rng.normal(size=n).round(1), "sex": rng.integers(0, 2, n)})
    table[["a", "b", "c"]] = np.eye(3, dtype=int)[rng.integers(0, 3, n)]
    y = np.where(table["dose"] + 0.03 * table["age"] + rng.normal(size=n) > 1.5, "ill", "well")
    return pd.concat([table, table[:5]]), np.r_[y, y[:5]]


@pytest.fixture
def finely(monkeypatch):
    cut_finely(monkeypatch, 5)


@pytest.fixture
def made(tmp_path, finely):
    """A small store, complete: its data and its path."""
    X, y = DATA["lattice"]()
    path = tmp_path / "map.svmatlas"
    assert svmatlas.explore(X, y, store=path).complete
    return X, y, path


def name_of(partition):
    return tuple(part.tobytes() for part in partition)


def assert_same_facets(store, plain):
    """Facet for facet: partitions, polygons, events, neighbours."""
    assert store.complete
    assert (store.n_facets, store.n_edges, store.n_vertices) == (plain.n_facets, plain.n_edges, plain.n_vertices)
    number = {name_of(plain.partition(f)): f for f in range(plain.n_facets)}
    there = [number[name_of(store.partition(f))] for f in range(store.n_facets)]
    assert sorted(there) == list(range(plain.n_facets))
    for f, g in enumerate(there):
        one, other = store.facet(f), plain.facet(g)
        neighbours = [there[k] if k >= 0 else int(k) for k in one.neighbours]
        first = next(
            r for r in range(len(neighbours))
            if np.array_equal(np.roll(neighbours, -r), other.neighbours)
            and all(np.array_equal(a, b) for a, b in zip(one.events[r:] + one.events[:r], other.events, strict=True))
        )  # fmt: skip
        np.testing.assert_allclose(np.roll(one.polygon, -first, axis=0), other.polygon, rtol=1e-9, atol=1e-9)
        assert (one.alpha is None) == (other.alpha is None)
        np.testing.assert_allclose(one.coef, other.coef, rtol=1e-6, atol=1e-9)


# ----------------------------------------------------------------------------------------------------------------------
# The same map


@pytest.mark.parametrize(("name", "bias"), list(zip(DATA, [0.01, 0.01, 1.0, 1.0, 0.01, 1.0, 1.0], strict=True)))
def test_a_store_holds_the_map_of_memory(name, bias, tmp_path, finely):
    X, y = DATA[name]()
    store = svmatlas.explore(X, y, bias=bias, store=tmp_path / "map.svmatlas")
    assert store.n_tiles > 3 or name == "both_labels"  # which has few events
    assert_same_facets(svmatlas.open(tmp_path / "map.svmatlas"), svmatlas.explore(X, y, bias=bias))
    assert_same(store.atlas(), svmatlas.explore(X, y, bias=bias))


@pytest.mark.parametrize("region", [((1e-2, 10), (1e-3, 1)), ((0.01, np.inf), (0, 5))])
def test_a_store_of_a_region_with_tiles_that_were_cut_again(region, tmp_path, finely, monkeypatch):
    X, y = cases.gaussian(20, 20, 2, 1.0)
    plain = svmatlas.explore(X, y, region=region)
    monkeypatch.setattr(SETTINGS, "events_per_tile", 1000)
    monkeypatch.setattr(SETTINGS, "tile_bytes", 0)
    store = svmatlas.explore(X, y, region=region, store=tmp_path / "map.svmatlas", n_jobs=2)
    assert read_manifest(tmp_path / "map.svmatlas").parts
    assert_same_facets(store, plain)
    assert_same(store.atlas(), plain)


@settings(max_examples=10)
@given(st.integers(6, 16), st.integers(1, 3), st.sampled_from([0.0, 0.01, 1.0]), st.integers(0, 10**6))
def test_stores_of_hostile_data(tmp_path_factory, n, d, bias, seed):
    """Small integers: repeated rows, ties, both labels."""
    rng = np.random.default_rng(seed)
    X, y = rng.integers(-2, 3, size=(n, d)).astype(float), np.arange(n) % 2
    plain = svmatlas.explore(X, y, bias=bias)
    with pytest.MonkeyPatch.context() as patch:
        cut_finely(patch, events=2, many=4)
        assert_same_facets(svmatlas.explore(X, y, bias=bias, store=tmp_path_factory.mktemp("map") / "s"), plain)


def test_queries_are_those_of_the_atlas(tmp_path, finely):
    X, y = mixed()
    plain = svmatlas.explore(X, y, standardize=True)
    svmatlas.explore(X, y, standardize=True, store=tmp_path / "map")
    store = svmatlas.open(tmp_path / "map", cache_bytes=1)  # one tile at a time
    rng = np.random.default_rng(0)
    p, q = np.exp(rng.uniform(-9, 9, size=(2, 300)))
    p[:4], q[:4] = [0.0, np.inf, 1.0, np.inf], [1.0, 1.0, np.inf, np.inf]
    for ask in ("coef", "intercept"):
        np.testing.assert_allclose(getattr(store, ask)(p, q), getattr(plain, ask)(p, q), rtol=1e-7, atol=1e-10)
    on = np.abs(plain.coef(p, q)).max(axis=1) < 1e-9  # plateaus: alpha is not unique there
    assert 20 < on.sum() < 200
    p_off, q_off = p[~on & np.isfinite(p + q)], q[~on & np.isfinite(p + q)]
    np.testing.assert_allclose(store.alpha(p_off, q_off), plain.alpha(p_off, q_off), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(store.decision_function(X, p, q), plain.decision_function(X, p, q), rtol=1e-7, atol=1e-9)
    for k in (0, 1, 2, 3, 50, 100):
        one, other = store.partition(store.locate(p[k], q[k])), plain.partition(plain.locate(p[k], q[k]))
        assert name_of(one) == name_of(other)
    assert store.coef(2.0, 0.5).shape == (6,)
    assert isinstance(store.intercept(2.0, 0.5), float)
    assert isinstance(store.locate(2.0, 0.5), int)
    assert store.coef([], []).shape == (0, 6)
    assert list(store.columns.names) == list(X.columns)
    assert (store.estimator(2.0, 0.5).predict(X) == plain.estimator(2.0, 0.5).predict(X)).all()
    with pytest.raises(ValueError, match="not a cost in the region"):
        store.coef(-1.0, 1.0)
    with pytest.raises(ValueError, match="facet -1 does not exist"):
        store.polygon(-1)


def test_costs_on_cuts_have_the_lowest_facet_on_either_side(made):
    _, _, path = made
    store = svmatlas.open(path)
    rows, columns = read_manifest(path).cuts
    p, q = (axis.ravel() for axis in np.meshgrid(rows[1:-1], columns[1:-1]))
    around = [store.locate(p * a, q * b) for a in (1 - 1e-7, 1 + 1e-7) for b in (1 - 1e-7, 1 + 1e-7)]
    np.testing.assert_array_equal(store.locate(p, q), np.min(around, axis=0))
    np.testing.assert_allclose(store.coef(p, q), store.coef(p * (1 + 1e-9), q), rtol=1e-6, atol=1e-9)


def test_a_store_is_validated_tile_by_tile(made):
    _, _, path = made
    report = svmatlas.open(path, cache_bytes=1).validate(n_costs=200)
    assert report.ok
    assert (report.complete, report.euler) == (True, 1)
    assert abs(report.coverage - 1) < 1e-9
    assert report.n_costs >= 200


def test_a_check_that_is_stopped_says_how_far_it_is(made, monkeypatch):
    _, _, path = made
    store = svmatlas.open(path)
    report = store.validate(time_budget=1e-9)
    assert not report.ok
    assert report.faults[0] == f"stopped when 0 of {store.n_tiles} tiles had been checked"
    check, calls = checks.validate_within, []

    def interrupt(limit, *arguments):
        calls.append(arguments)
        limit.note.interrupted = len(calls) > 2
        limit.check()
        return check(limit, *arguments)

    monkeypatch.setattr(checks, "validate_within", interrupt)
    assert store.validate().faults == [f"stopped when 2 of {store.n_tiles} tiles had been checked"]
    with pytest.raises(ValueError, match="time_budget"):
        store.validate(time_budget=0)


def test_tiles_that_do_not_fit_together_are_found(made):
    """As if a facet, or an edge, of one tile were missing in the one beside it."""
    _, _, path = made
    for field in ("n_vertices", "n_ends"):
        store = svmatlas.open(path)
        done = store._manifest.done
        summary = done[5].summary
        done[5] = done[5]._replace(summary=summary._replace(**{field: getattr(summary, field) + 2}))
        report = store.validate(n_costs=1)
        assert not report.ok
        assert "do not fit together" in report.faults[-1]


def test_tiles_come_back_bit_for_bit(made):
    _, _, path = made
    store = svmatlas.open(path)
    surveyor = survey.Surveyor(store._problem, store.region)
    words = make_words(store._problem.n_points, np.random.default_rng(store._problem.seed))
    for tile in read_manifest(path).tiles[:20]:
        facets = surveyor.explore(tile.bounds)
        nothing, summary = np.zeros(2, dtype=bool), tile_files.Summary(0, 0, 0, 0, 0)
        packed = tile_files.pack(facets, nothing, summary, np.empty(0, dtype=np.int32), np.empty(0, dtype=np.uint64))
        again = tile_files.unpack(packed.arrays, words)
        for name in (
            "start",
            "which",
            "outcome",
            "key",
            "kind",
            "at",
            "code",
            "vertex",
            "neighbour",
            "corner",
            "parent",
            "flips",
        ):
            one, other = getattr(facets, name), getattr(again, name)
            np.testing.assert_array_equal(one, other, err_msg=name)
            assert np.asarray(one).dtype == np.asarray(other).dtype, name
        held = again.name != 0
        np.testing.assert_array_equal(again.name[held], facets.name[held])


# ----------------------------------------------------------------------------------------------------------------------
# Plateaus


def kinds_of_tiles(store):
    """Of how many tiles plateaus were left out, in how many they were explored, and how many are all plateau."""
    files = [store._read(store._manifest.tiles[number]) for number in store._manifest.done]
    left_out = [tile_files.left_out_of(file).all() for file in files]
    return sum(left_out), len(files) - sum(left_out), sum(file.arrays["code"].size == 0 for file in files)


def few_positives(n=60, d=3):
    """A table with a binary and a five-valued column."""
    rng, y = np.random.default_rng(0), np.arange(n) % 4 == 0
    X = rng.normal(size=(n, d)) + 0.5 * y[:, None]
    X[:, 0], X[:, 1] = rng.random(n) < 0.3, rng.integers(0, 5, n)
    return X, y


def test_plateaus_are_left_out_of_stores(tmp_path, monkeypatch):
    """Also of tiles that lie on one, where alpha is found from that at two corners."""
    X, y = few_positives()
    plain = svmatlas.explore(X, y)
    cut_finely(monkeypatch, 10)
    store = svmatlas.explore(X, y, store=tmp_path / "map")
    left_out, explored, all_plateau = kinds_of_tiles(store)
    assert left_out > 5 * explored
    assert all_plateau > 3
    assert_same_facets(store, plain)
    assert_same(store.atlas(), plain)
    report = store.validate()
    assert report.ok
    p, q = 10 ** np.random.default_rng(0).uniform(-3, 3, (2, 400))
    on = np.flatnonzero(np.all(plain.coef(p, q) == 0, axis=1))
    p, q = p[on], q[on]
    assert on.size > 100
    asked = []
    monkeypatch.setattr(Solver, "_search", lambda *arguments: asked.append(arguments))
    assert np.all(store.coef(p, q) == 0)
    np.testing.assert_array_equal(store.intercept(p, q), plain.intercept(p, q))
    alpha, bound = store.alpha(p, q), np.where(y, p[:, None], q[:, None])
    assert not asked  # no solution had to be looked for
    assert np.all((alpha >= 0) & (alpha <= bound * (1 + 1e-12)))
    signed = np.column_stack([X, np.ones(len(X))]) * np.where(y, 1.0, -1.0)[:, None]
    beta = np.column_stack([plain.coef(p, q), plain.intercept(p, q)])
    assert np.all(np.abs(alpha @ signed - beta) <= 1e-10 * (alpha @ np.abs(signed)))


@pytest.mark.parametrize("every", [1, 3])
def test_plateaus_may_be_explored_in_some_tiles(every, tmp_path, monkeypatch):
    """As in tiles where what is around them does not hang together."""
    X, y = few_positives(40)
    plain, check, count = svmatlas.explore(X, y), single._check_whole, 0

    def fail(canonical, facets):
        nonlocal count
        count += 1
        if count % every == 0:
            raise UnclosedError
        check(canonical, facets)

    cut_finely(monkeypatch, 4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(single, "_check_whole", fail)
        store = svmatlas.explore(X, y, store=tmp_path / "map")
    left_out, explored, _ = kinds_of_tiles(store)
    assert min(left_out, explored) > 1
    assert_same_facets(store, plain)
    assert_same(store.atlas(), plain)
    monkeypatch.setattr(survey.Surveyor, "leave_out_plateaus", lambda surveyor: None)  # as if they could not be
    assert_same(store.atlas(), explore_pieces(X, y))


def test_a_tile_where_a_plateau_parts_the_rest_is_not_joined(tmp_path):
    """The floor of a plateau is convex, and here lowest in the middle: above that, the rest is in two corners of a tile."""
    X, y = cases.gaussian(20, 30, 2, 0.5, 5)
    X[:, 0] += 3.0
    atlas = svmatlas.explore(X, y)
    plateau = atlas.locate(1e4, 1.0)
    corners = atlas.polygon(plateau)
    costs = corners[corners[:, 2] > 0, :2] / corners[corners[:, 2] > 0, 2:]
    low, other = costs[np.argmin(costs[:, 0])]
    box = (1.1 * low, 2 * low), (other / 20, 2 * low)
    on = atlas.locate(np.full(3, box[0][0]), [box[1][0], other, box[1][1]]) == plateau
    assert on.tolist() == [False, True, False]
    surveyor = survey.Surveyor(atlas._problem, atlas.region)
    surveyor.leave_out_plateaus()
    with make_pool(1) as pool, pytest.raises(UnclosedError):
        single.unite_tile(
            surveyor.engine, atlas._problem, surveyor.region, box, surveyor.explore(box), pool,
        )  # fmt: skip


def test_tiles_known_to_be_on_a_plateau_are_on_it(tmp_path, monkeypatch):
    """What is not explored, explored by one who knows nothing of other tiles, has no facet but the plateau."""
    X, y = few_positives()
    cut_finely(monkeypatch, 4)
    known, find = [], PlateauTiles.find

    def watch(tiles, tile, left_out):
        found = find(tiles, tile, left_out)
        known.extend([tile] if found is not None else [])
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlateauTiles, "find", watch)
        store = svmatlas.explore(X, y, store=tmp_path / "map")
    assert len(known) > 5
    for tile in known:
        surveyor = survey.Surveyor(store._problem, store.region)
        surveyor.leave_out_plateaus()
        assert surveyor.explore(tile).code.size == 0


def test_alpha_on_plateaus_is_found_without_walks(tmp_path, monkeypatch):
    X, y = few_positives(150)
    monkeypatch.setattr(SETTINGS, "events_per_tile", 6)
    store = svmatlas.explore(X, y, store=tmp_path / "map")
    walks, walk = [], Solver._state_at
    monkeypatch.setattr(Solver, "_state_at", lambda solver, point: walks.append(point) or walk(solver, point))
    signed = np.column_stack([X, np.ones(len(X))]) * np.where(y, 1.0, -1.0)[:, None]
    tiles = [store._manifest.tiles[k] for k in sorted(store._manifest.done)]
    tiles = [tile for tile in tiles if store._read(tile).arrays["code"].size == 0]
    assert len(tiles) > 5
    for tile in tiles:
        p, q = (lo + (min(hi, 2 * lo + 1) - lo) * np.linspace(0.1, 0.9, 5) for lo, hi in tile.bounds)
        alpha, beta = store.alpha(p, q), np.column_stack([store.coef(p, q), store.intercept(p, q)])
        assert np.all((alpha >= 0) & (alpha <= np.where(y, p[:, None], q[:, None]) * (1 + 1e-12)))
        assert np.all(np.abs(alpha @ signed - beta) <= 1e-12 * (alpha @ np.abs(signed)))
    assert len(walks) < len(tiles) / 2


# ----------------------------------------------------------------------------------------------------------------------
# All of it


@pytest.mark.parametrize("scale", ["log", "linear", "triangle"])
def test_a_picture_of_a_store_is_that_of_the_map(scale, tmp_path, finely):
    X, y = mixed()
    plain, store = svmatlas.explore(X, y), svmatlas.explore(X, y, store=tmp_path / "map")
    for color_by in ("margin_size", "score", lambda p, q: p / (p + q)):
        picture = AtlasDisplay.from_atlas(plain, color_by=color_by, scale=scale, resolution=60)
        facets, values, label = stored_pixels(store, picture.plane, color_by, 60)
        assert label == picture.label
        np.testing.assert_array_equal(facets >= 0, picture.facets >= 0)
        held = facets >= 0
        assert np.mean(np.abs(values[held] - picture.values[held]) > 1e-9) < 0.01  # where a pixel is on an edge
    p, q = picture.plane.pixels(60)
    assert np.mean(store.locate(p[held], q[held]) == facets[held]) > 0.99
    assert AtlasDisplay.from_atlas(store, resolution=20).label == "rows on the margin"
    with pytest.raises(ValueError, match="no layers"):
        AtlasDisplay.from_atlas(store, color_by="layer")
    with pytest.raises(ValueError, match="join the store first"):
        AtlasDisplay.from_atlas(store, resolution=20, events=[0])


def test_a_picture_of_a_part_of_a_store(tmp_path, finely):
    X, y = DATA["gaussian"]()
    store = svmatlas.explore(X, y, store=tmp_path / "map", max_facets=50)
    facets = AtlasDisplay.from_atlas(store, resolution=50).facets
    assert 0 < np.mean(facets >= 0) < 1


def test_a_store_too_large_for_memory_is_not_joined(made, monkeypatch):
    _, _, path = made
    monkeypatch.setattr("svmatlas.atlas.opened.available_memory", lambda: 1000.0)
    with pytest.raises(MemoryError, match="pieces of facets: joined they need"):
        svmatlas.open(path).atlas()


# ----------------------------------------------------------------------------------------------------------------------
# Budgets, and going on


def test_budgets_leave_a_store_to_go_on_with(tmp_path, finely):
    X, y = DATA["gaussian"]()
    path = tmp_path / "map"
    store = svmatlas.explore(X, y, store=path, max_facets=50)
    assert not store.complete
    assert 50 <= store.n_pieces < 300
    assert svmatlas.open(path).n_facets == store.n_facets > 0
    with pytest.raises(ValueError, match="partial map that is not done"):
        store.coef(1e9, 1e9)
    with pytest.raises(ValueError, match="partial store cannot be joined"):
        store.atlas()
    assert not svmatlas.explore(X, y, store=path, time_budget=1e-6 + 0.05).complete
    store = svmatlas.explore(X, y, store=path)
    assert_same_facets(store, svmatlas.explore(X, y))
    done = {file: file.stat().st_mtime_ns for file in path.rglob("*.tile")}
    svmatlas.explore(X, y, store=path)
    assert done == {file: file.stat().st_mtime_ns for file in path.rglob("*.tile")}


def test_the_seed_of_a_store_is_kept(tmp_path, finely):
    X, y = DATA["lattice"]()
    svmatlas.explore(X, y, store=tmp_path / "map", max_facets=100, random_state=None)
    assert svmatlas.explore(X, y, store=tmp_path / "map", random_state=None).complete


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"X": lambda X: X + 1}, "X"),
        ({"y": lambda y: 1 - y}, "y"),
        ({"bias": 2.0}, "bias"),
        ({"region": ((0, 1), (0, 1))}, "region"),
        ({"random_state": 1}, "random_state"),
        ({"sample_weight": "twice"}, "sample_weight"),
        ({"standardize": True}, "standardize"),
        ({"start": (1.0, 1.0)}, "start"),
        ({"kernel": "rbf"}, "kernel"),
    ],
)
def test_other_data_and_parameters_are_refused(change, what, made):
    X, y, path = made
    change = dict(change)
    X, y = change.pop("X", lambda X: X)(X), change.pop("y", lambda y: y)(y)
    if "sample_weight" in change:
        change["sample_weight"] = np.full(len(y), 2.0)
    with pytest.raises(FileError, match=rf"store of another map: .*\b{what}\b.* differ"):
        svmatlas.explore(X, y, store=path, **change)


def test_another_version_is_refused(made, monkeypatch):
    X, y, path = made
    monkeypatch.setattr("svmatlas.atlas.storing.__version__", "0.0.1")
    with pytest.raises(FileError, match=r"cannot go on"):
        svmatlas.explore(X, y, store=path)


def test_a_folder_with_other_things_is_refused(tmp_path):
    X, y = DATA["lattice"]()
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(FileError, match="not empty"):
        svmatlas.explore(X, y, store=tmp_path)
    with pytest.raises(FileError, match="has no manifest"):
        svmatlas.open(tmp_path)
    with pytest.raises(OSError, match=r"letter\.txt"):
        svmatlas.explore(X, y, store=tmp_path / "letter.txt")


# ----------------------------------------------------------------------------------------------------------------------
# Damage


def cut(path):
    path.write_bytes(path.read_bytes()[:-100])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(bytes(content))


def exchange(path):
    """A file of the same store, of another tile."""
    shutil.copy(next(other for other in sorted(path.parent.glob("*.tile")) if other != path), path)


@pytest.mark.parametrize("damage", [cut, flip, exchange, Path.unlink])
def test_damaged_tiles_are_noticed_and_done_again(damage, made):
    X, y, path = made
    damage(path / "tiles" / "0000007.tile")
    store = svmatlas.open(path)
    with pytest.raises(FileError, match=r"0000007\.tile"):
        list(store.tiles())
    assert_same(svmatlas.explore(X, y, store=path).atlas(), svmatlas.explore(X, y))


@pytest.mark.parametrize("name", ["problem", "index"])
@pytest.mark.parametrize("damage", [cut, flip, Path.unlink])
def test_damage_to_other_files_is_an_error(name, damage, made):
    _, _, path = made
    damage(path / name)
    with pytest.raises((FileError, FileNotFoundError), match=name):
        svmatlas.open(path).locate(1.0, 1.0)


def test_every_flip_in_the_manifest_is_noticed_or_harmless(made):
    """The last line may be lost, as by a kill; then its tile, or the index, is taken up again."""
    X, y, path = made
    content = (path / "manifest").read_bytes()
    last = content.rindex(b"\n", 0, -1)
    rng = np.random.default_rng(0)
    for at in [*rng.integers(0, last, 20).tolist(), last + 3, len(content) - 1]:
        (path / "manifest").write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        if at < last:
            with pytest.raises(FileError, match="manifest"):
                svmatlas.open(path)
        else:
            assert svmatlas.explore(X, y, store=path).complete
    (path / "manifest").write_bytes(b"")
    with pytest.raises(FileError, match="manifest"):
        svmatlas.open(path)


def test_a_foreign_store_inside_a_store(made, tmp_path):
    X, y, path = made
    svmatlas.explore(X, y, store=tmp_path / "other")
    for name in ("tiles/0000003.tile", "problem", "index"):
        kept = (path / name).read_bytes()
        shutil.copy(tmp_path / "other" / name, path / name)
        with pytest.raises(FileError, match="another store"):
            list(svmatlas.open(path).tiles())
        (path / name).write_bytes(kept)


def test_a_tile_that_is_written_twice_stays_as_it_was(made):
    """As by a worker that was thought to be dead: what the manifest says of the file stays true."""
    _, _, path = made
    manifest = read_manifest(path)
    tile, file = manifest.tiles[3], manifest.tile_path(3)
    packed, digest = tile_files.read_tile(file, manifest.name, tile)
    other = packed._replace(arrays=packed.arrays | {"corner": 2.0 * packed.arrays["corner"]})
    assert tile_files.write_tile(file, manifest.name, tile, other)[:2] == (digest, packed.summary)
    assert not list(path.rglob("*.draft-*"))
    list(svmatlas.open(path).tiles())
    file.unlink()
    assert tile_files.write_tile(file, manifest.name, tile, other)[0] != digest


def test_a_full_disk_is_told_with_its_path_and_loses_nothing(tmp_path, finely, monkeypatch):
    """The n-th write finds no room, for several n: in the file of a tile, or in the manifest."""
    X, y = DATA["lattice"]()
    plain, path = svmatlas.explore(X, y), tmp_path / "map"
    sync, left = os.fsync, 0

    def fail(handle):
        nonlocal left
        left -= stat.S_ISREG(os.fstat(handle).st_mode)
        if left == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(handle)

    monkeypatch.setattr(os, "fsync", fail)
    done = -1
    for after in (1, 2, 3, 6, 7, 8, 9):
        left = after
        with pytest.raises(OSError, match="No space left") as error:
            svmatlas.explore(X, y, store=path)
        assert str(error.value.filename).startswith(str(path))
        if manifests.is_begun(path):
            now = len(read_manifest(path).done)
            assert now >= done
            done = now
    assert done > 5
    assert not list(path.rglob("*.draft-*"))
    monkeypatch.undo()
    with pytest.MonkeyPatch.context() as patch:
        cut_finely(patch, 5)
        assert_same_facets(svmatlas.explore(X, y, store=path), plain)


def test_two_processes_on_one_store(tmp_path, finely):
    X, y = DATA["lattice"]()
    path = tmp_path / "map"
    path.mkdir()
    with manifests.locked(path):
        code = "import sys, svmatlas; svmatlas.explore([[0.0], [1.0]], [0, 1], store=sys.argv[1])"
        run = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=False)
        assert f"process {os.getpid()} on" in run.stderr
        assert "is in use" in run.stderr
    assert svmatlas.explore(X, y, store=path).complete


KILLED = """
    import os, random, shutil, signal, sys, time
    from pathlib import Path
    import svmatlas
    from svmatlas.support.settings import SETTINGS
    from svmatlas.store.manifest import read_manifest
    from tests import cases
    SETTINGS.one_tile_points, SETTINGS.events_per_tile = 4, 7
    X, y = cases.lattice()
    svmatlas.explore(X, y, store=sys.argv[2], max_facets=500)  # loads all kernels
    random.seed(0)
    done, kills = set(), 0
    while kills < 20:
        child = os.fork()
        if child == 0:
            svmatlas.explore(X, y, store=sys.argv[1])
            os._exit(0)
        time.sleep(random.uniform(0.0, 0.12))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        kills += os.WIFSIGNALED(status)
        try:
            now = read_manifest(Path(sys.argv[1]))
        except ValueError:
            continue  # killed before the first line
        assert done <= set(now.done), done - set(now.done)
        done = set(now.done)
        if now.finished:
            done = set()
            shutil.rmtree(sys.argv[1])
"""


@pytest.mark.alone
def test_kills_lose_nothing_that_was_done(tmp_path):
    code = textwrap.dedent(KILLED)
    run = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "map", tmp_path / "other"], capture_output=True, text=True, check=False,
        cwd=Path(__file__).parents[1],
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    X, y = cases.lattice()
    store, plain = svmatlas.explore(X, y, store=tmp_path / "map"), svmatlas.explore(X, y)
    assert (store.n_facets, store.n_edges, store.n_vertices) == (plain.n_facets, plain.n_edges, plain.n_vertices)
    assert_same(store.atlas(), plain)


# ----------------------------------------------------------------------------------------------------------------------
# The command line


def test_commands_of_stores(tmp_path, finely, capsys):
    X, y = DATA["lattice"]()
    np.savez(tmp_path / "data.npz", X=X, y=y)
    data, store = str(tmp_path / "data.npz"), str(tmp_path / "map.svmatlas")

    def run(*arguments):
        code = main([*arguments, "--json"])
        out = capsys.readouterr().out
        return code, json.loads(out) if out else None

    code, facts = run("explore", data, "--store", store, "--max-facets", "40")
    assert (code, facts["complete"]) == (1, False)
    code, facts = run("info", store)
    assert code == 0
    assert 0 < facts["n_done"] < facts["n_tiles"]
    assert 0 < facts["share"] < 1
    assert not facts["running"]
    assert run("explore", "--resume", store)[0] == 0
    plain = svmatlas.explore(X, y)
    code, facts = run("info", store)
    assert (facts["complete"], facts["n_facets"], facts["share"]) == (True, plain.n_facets, pytest.approx(1))
    with manifests.locked(Path(store)):
        assert run("info", store)[1]["running"]
    assert run("validate", store, "--costs", "20")[0] == 0
    _, facts = run("at", store, "--costs", "2", "0.5")
    np.testing.assert_allclose(list(facts["coef"].values()), plain.coef(2, 0.5), atol=1e-12)
    assert run("certify", store, "--data", data)[0] == 0
    assert run("export", store, "-o", str(tmp_path / "tables"), "--format", "csv")[0] == 0
    assert run("explore", data, "--store", store, "--bias", "3")[0] == 2
    assert run("explore", "--resume", str(tmp_path))[0] == 2
    assert run("explore", "--resume", store, data)[0] == 2
