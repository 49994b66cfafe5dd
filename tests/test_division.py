"""How the plane of costs is divided: boxes and regions cover it, and do not overlap."""

from __future__ import annotations

import numpy as np
import pytest

import svmatlas
from svmatlas.choose import boxes
from svmatlas.choose.division import boxes_between, cut_in_two, hull_of, is_inside, make_cuts, make_edges
from svmatlas.support.stopping import Stopped
from tests.test_select import noisy

BOUNDS = [(0.0, np.inf), (0.5, np.inf), (0.0, 7.0), (0.2, 7.0), (1e9, np.inf), (0.0, 1e-9)]


def holds(box, costs):
    return all(lo < cost < hi for cost, (lo, hi) in zip(costs, box, strict=True))


def is_part(box):
    return all(lo < hi for lo, hi in box)


@pytest.mark.parametrize("p", BOUNDS)
@pytest.mark.parametrize("q", BOUNDS)
@pytest.mark.parametrize("n_cuts", [0, 1, 5])
def test_boxes_and_regions_cover_the_plane_once(p, q, n_cuts):
    rng = np.random.default_rng(0)
    edges = [make_edges(bound, 1e-3, 4e3, 1.07) for bound in (p, q)]
    cuts = [make_cuts(edge, 10.0 ** rng.uniform(-4, 5, 300), n_cuts) for edge in edges]
    edges = [sorted({*edge, *cut}) for edge, cut in zip(edges, cuts, strict=True)]
    small, regions = boxes_between(edges), boxes_between(cuts)
    for _ in range(100):
        costs = [np.clip(10.0 ** rng.uniform(-12, 12), 1.0001 * lo, hi / 1.0001) for lo, hi in (p, q)]
        for parts in (small, regions):
            assert sum(holds(box, costs) for box in parts) == 1
    for box in small:
        assert is_part(box)
        assert sum(is_inside(box, region) for region in regions) == 1
        assert hull_of([box], edges) == box


@pytest.mark.parametrize("box", [(p, q) for p in BOUNDS for q in [*BOUNDS, (2.0, 3.0)]])
def test_a_box_is_cut_in_two(box):
    first, second = cut_in_two(box)
    assert is_part(first)
    assert is_part(second)
    axis = int(first[0] == second[0])
    assert first[axis][1] == second[axis][0]
    assert (first[axis][0], second[axis][1]) == box[axis]
    assert first[1 - axis] == second[1 - axis] == box[1 - axis]


def test_what_takes_too_long_is_cut_and_the_best_is_found(monkeypatch):
    """Boxes that reach infinity are given up until they are small."""
    X, y = noisy(40, 2, 7)
    best = svmatlas.select(X, y, cv=3)
    explore, cut = boxes.BoxSearch._explore, []

    def give_up(search, box, limit):
        if not box.is_finite and box.level < boxes.LATE + 2:
            cut.append(box.bounds)
            limit.deadline = 0.0
            raise Stopped
        explore(search, box, limit)

    monkeypatch.setattr(boxes.BoxSearch, "_explore", give_up)
    monkeypatch.setattr(boxes.SETTINGS, "maps_share", np.inf)
    found = svmatlas.select(X, y, cv=3, time_budget=600.0, tolerance=0.0)
    assert cut
    assert found.certified
    assert found.best_score == pytest.approx(best.best_score, abs=1e-12)
