"""The checker on stores: tile by tile, the tiles tile the region, and plateaus go on from tile to tile."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import svmatlas
from svmatlas.cli.main import main
from svmatlas.proof import certify as checker
from svmatlas.proof.cover import find_fault
from svmatlas.proof.reading import ProofError
from svmatlas.proof.stretches import Stretch, Stretches, find_missing
from tests import cases, hostile
from tests.facts import cut_finely
from tests.test_store import DATA, mixed

RNG = np.random.default_rng
INF = np.inf
WHOLE = ((0.0, INF), (0.0, INF))


@pytest.fixture
def finely(monkeypatch):
    cut_finely(monkeypatch, 5)


def plateaus():
    """Many rows in few columns: most of the plane is a plateau, and cuts go through it."""
    rng = RNG(0)
    y = np.arange(80) % 3 == 0
    return rng.normal(size=(80, 2)) + 0.5 * y[:, None], y


def has_plateaus(tile):
    return bool(tile._canonical.split.left_out.any())


@pytest.mark.parametrize("name", [*DATA, "mixed", "plateaus"])
def test_stores_are_certified(name, tmp_path, finely):
    X, y = mixed() if name == "mixed" else plateaus() if name == "plateaus" else DATA[name]()
    store = svmatlas.explore(X, y, store=tmp_path / "map")
    found = svmatlas.certify(store, X, y)
    assert found.ok, str(found)
    assert found.tiles
    assert found.complete
    assert found.gap <= 1e-9
    assert (found.n_facets, found.n_pieces) == (store.n_facets, store.n_pieces)


def test_a_store_certifies_itself(tmp_path):
    X, y = DATA["separable"]()
    store = svmatlas.explore(X, y, store=tmp_path / "map")
    assert store.certify(X, y) == svmatlas.certify(svmatlas.open(tmp_path / "map"), X, y)
    assert store.atlas().certify(X, y).ok
    assert store.certify().data == "stored"


def test_plateaus_are_proven_from_tile_to_tile(tmp_path, finely, monkeypatch):
    """By itself a tile that a plateau reaches into across a cut is not proven: there are no dual variables in it."""
    X, y = plateaus()
    store = svmatlas.explore(X, y, store=tmp_path / "map")
    cut = [tile for tile in store.tiles() if has_plateaus(tile) and max(lo for lo, _ in tile.region) > 0]
    assert not all(svmatlas.certify(tile, X, y).ok for tile in cut)
    assert svmatlas.certify(store, X, y).ok
    monkeypatch.setattr(checker, "find_missing", lambda found: find_missing(found._replace(there=found.there[:-1])))
    assert any("does not go on" in fault for fault in svmatlas.certify(store, X, y).faults)


@pytest.mark.parametrize("change", ["drop", "twice", "other data"])
def test_stores_that_are_not_whole_are_refused(change, tmp_path, finely):
    X, y = DATA["lattice"]()
    store = svmatlas.explore(X, y, store=tmp_path / "map")
    tiles = list(store.tiles())
    given = {"drop": tiles[:3] + tiles[4:], "twice": [*tiles, tiles[3]], "other data": tiles}[change]
    other = SimpleNamespace(
        tiles=lambda: iter(given), region=store.region, complete=True, n_tiles=len(given), n_facets=store.n_facets,
        n_pieces=store.n_pieces,
    )  # fmt: skip
    found = svmatlas.certify(other, X + (change == "other data"), y)
    assert not found.ok
    assert found.faults
    assert found.tiles == (change == "other data")


def test_a_partial_store_is_not_said_to_tile_the_region(tmp_path, finely):
    X, y = DATA["gaussian"]()
    store = svmatlas.explore(X, y, store=tmp_path / "map", max_facets=20)
    assert not store.complete
    found = svmatlas.certify(store, X, y)
    assert not found.tiles
    assert not found.complete


@pytest.mark.filterwarnings("ignore::svmatlas.AccuracyWarning")  # of weights that differ by 10^19, and the like
@pytest.mark.parametrize("seed", [20048, 20081, 20097, 20199, 20344])
def test_facets_of_tiles_are_not_turned_over(seed, tmp_path):
    case = hostile.make(seed)
    arguments = {name: value for name, value in case.arguments.items() if name != "max_facets"}
    store = svmatlas.explore(case.X, case.y, store=tmp_path / "map", **arguments)
    found = svmatlas.certify(store, case.X, case.y, arguments["sample_weight"])
    assert found.ok, str(found)
    assert found.tiles


@pytest.mark.parametrize("seed", [700076, 900116, 921568])
def test_stores_that_cannot_be_certified_are_warned_of(seed, tmp_path):
    case = hostile.make(seed)
    arguments = {name: value for name, value in case.arguments.items() if name != "max_facets"}
    with pytest.warns(svmatlas.AccuracyWarning, match="cannot be certified, models are right; "):
        store = svmatlas.explore(case.X, case.y, store=tmp_path / "map", **arguments)
    assert not svmatlas.certify(store, case.X, case.y, arguments["sample_weight"]).ok


def test_the_command_certifies_a_folder(tmp_path, capsys, finely):
    X, y = cases.gaussian(12, 12, 2, 1.0)
    pd.DataFrame(X).assign(y=y).to_csv(tmp_path / "data.csv", index=False)
    folder = str(tmp_path / "map")
    assert main(["explore", str(tmp_path / "data.csv"), "--label", "y", "--store", folder]) == 0
    assert main(["certify", folder, "--data", str(tmp_path / "data.csv"), "--label", "y"]) == 0
    assert "they tile the region exactly" in capsys.readouterr().out
    with pytest.raises(ProofError, match="is a folder: a store is checked when it is open"):
        svmatlas.certify(folder)


# ----------------------------------------------------------------------------------------------------------------------
# Boxes and stretches


def boxes(rng, region, depth):
    """A region cut at random, again and again."""
    if depth == 0:
        return [region]
    axis = int(rng.integers(2))
    lo, hi = region[axis]
    cut = lo + rng.uniform(0.1, 0.9) * (hi - lo) if hi < INF else lo + rng.uniform(1, 2)
    parts = [(lo, cut), (cut, hi)]
    return [box for part in parts for box in boxes(rng, (part, region[1]) if axis == 0 else (region[0], part), depth - 1)]


@pytest.mark.parametrize("seed", range(20))
def test_boxes_that_tile_a_region_are_told_from_others(seed):
    rng = RNG(seed)
    region = WHOLE if seed % 2 else ((0.5, 3.0), (0.0, 7.0))
    tiles = boxes(rng, region, 4)
    assert find_fault(region, [tiles[k] for k in rng.permutation(len(tiles))]) is None
    k = int(rng.integers(len(tiles)))
    (a, b), (c, d) = tiles[k]
    assert "no tile" in find_fault(region, tiles[:k] + tiles[k + 1 :])
    assert "two tiles" in find_fault(region, [*tiles, tiles[k]])
    less, more = np.nextafter(c, -INF), np.nextafter(c, INF)
    assert find_fault(region, [*tiles[:k], ((a, b), (less, d)), *tiles[k + 1 :]]) is not None
    assert find_fault(region, [*tiles[:k], ((a, b), (more, d)), *tiles[k + 1 :]]) is not None
    assert find_fault(region, [*tiles[:k], ((a, np.nextafter(b, 0)), (c, d)), *tiles[k + 1 :]]) is not None
    assert find_fault(region, []) is not None


def stretch(low, high, axis=0, cost=1.0):
    return Stretch(axis, cost, Fraction(low), None if high == INF else Fraction(high))


@pytest.mark.parametrize(
    ("needed", "there", "is_missing"),
    [
        (stretch(1, 3), [stretch(2, INF), stretch(0.5, 2)], False),
        (stretch(1, INF), [stretch(2, INF), stretch(0.5, 2)], False),
        (stretch(1, 3), [stretch(1 + 2.0**-45, 3 - 2.0**-45)], False),  # rounding
        (stretch(1, 3), [stretch(1 + 1e-9, 3)], True),
        (stretch(1, 3), [stretch(1, 2), stretch(2.5, 4)], True),
        (stretch(1, INF), [stretch(1, 1e300)], True),
        (stretch(1, 3), [stretch(1, 3, axis=1)], True),
        (stretch(1, 3), [stretch(1, 3, cost=np.nextafter(1, 2))], True),
        (stretch(1, 3), [], True),
    ],
)
def test_stretches_that_are_there(needed, there, is_missing):
    assert (find_missing(Stretches([needed], there)) is not None) == is_missing
