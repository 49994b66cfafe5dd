"""Pictures show what the atlas says."""

from __future__ import annotations

import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.collections import LineCollection
from sklearn.metrics import balanced_accuracy_score

import svmatlas
from svmatlas.show.displays import AlphaDisplay, AtlasDisplay, RocFrontierDisplay, SelectionDisplay
from tests import cases

mpl.use("Agg")

SCALES = ["log", "linear", "triangle"]


@pytest.fixture(autouse=True)
def _close():
    yield
    mpl.pyplot.close("all")


@pytest.fixture(scope="module")
def tied():
    X, y = cases.gaussian(8, 12, 2, 0.5)
    return X, y, svmatlas.explore(X, y)


def shown(display, n, seed=0):
    """Some pixels that show a facet: (place, C+, C-)."""
    p, q = display.plane.pixels(len(display.values))
    places = np.argwhere(display.facets >= 0)
    for place in np.random.default_rng(seed).permutation(places)[:n]:
        i, j = place
        yield (i, j), p[i, j], q[i, j]


@pytest.mark.parametrize("scale", SCALES)
def test_pixels_show_the_facet_at_their_costs(small, scale):
    _, _, atlas = small
    display = AtlasDisplay.from_atlas(atlas, scale=scale, resolution=60, edges=False)
    p, q = display.plane.pixels(60)
    inside = np.isfinite(p)
    assert inside.sum() == (60 * 59 / 2 if scale == "triangle" else 3600)
    np.testing.assert_array_equal(display.facets[inside], atlas.locate(p[inside], q[inside]))
    np.testing.assert_array_equal(display.values[inside], atlas.facet_layer[display.facets[inside]])
    assert np.isnan(display.values[~inside]).all()


def test_unexplored_pixels_are_empty(small):
    X, y, whole = small
    atlas = svmatlas.explore(X, y, max_facets=60)
    display = AtlasDisplay.from_atlas(atlas, scale="triangle", resolution=40)
    p, q = display.plane.pixels(40)
    empty = 0
    for i, j in np.argwhere(np.isfinite(p)):
        same = whole.locate(p[i, j], q[i, j]) < 60
        assert same == (display.facets[i, j] >= 0)
        empty += not same
    assert 0 < empty < np.isfinite(p).sum()


def test_a_region_bounds_the_view(small):
    X, y, _ = small
    atlas = svmatlas.explore(X, y, region=((0.05, 0.5), (0.2, 3)))
    display = AtlasDisplay.from_atlas(atlas, resolution=30)
    assert display.ax_.get_xlim() == (0.05, 0.5)
    assert display.ax_.get_ylim() == (0.2, 3)
    assert np.isfinite(display.values).all()


@pytest.mark.parametrize("scale", ["log", "triangle"])
def test_values_of_facets(tied, scale):
    X, y, atlas = tied
    sign = np.where(y == 1, 1, -1)
    pictures = {
        name: AtlasDisplay.from_atlas(atlas, color_by=name, scale=scale, resolution=50, edges=False)
        for name in ("margin_size", "support", "tie", "score", "alternating")
    }
    for place, p, q in shown(pictures["tie"], 60):
        partition = atlas.partition(atlas.locate(p, q))
        decision = X @ atlas.coef(p, q) + atlas.intercept(p, q)
        assert pictures["margin_size"].values[place] == partition.margin.size
        assert pictures["support"].values[place] == partition.margin.size + partition.inside.size
        on_margin = np.abs(sign * decision - 1) < 1e-9
        np.testing.assert_array_equal(np.flatnonzero(on_margin), partition.margin)
        independent = np.linalg.matrix_rank(np.column_stack([X, np.ones(len(y))])[on_margin]) if on_margin.any() else 0
        assert pictures["tie"].values[place] == partition.margin.size - independent
        assert pictures["score"].values[place] == pytest.approx(balanced_accuracy_score(y, decision > 0), rel=1e-12)
        assert pictures["alternating"].values[place] == atlas.facet_layer[atlas.locate(p, q)] % 2
    assert np.nanmax(pictures["tie"].values) > 0  # with N > d all of a class is tied where its cost is far larger


def test_own_values(small):
    _, _, atlas = small
    areas = np.arange(atlas.facet_layer.size) ** 0.5
    display = AtlasDisplay.from_atlas(atlas, color_by=areas, resolution=20)
    np.testing.assert_array_equal(display.values, areas[display.facets])
    display = AtlasDisplay.from_atlas(atlas, color_by=lambda C_pos, C_neg: C_pos / C_neg, resolution=20)
    p, q = display.plane.pixels(20)
    np.testing.assert_allclose(display.values, p / q)


def test_weights_and_rows_of_zeros_count():
    X, y = cases.gaussian(6, 8, 2, 0.5)
    X[0] = 0
    weight = np.ones(14)
    weight[[3, 9]] = 0
    atlas = svmatlas.explore(X, y, bias=0.0, sample_weight=weight)
    display = AtlasDisplay.from_atlas(atlas, color_by="support", resolution=30)
    score = AtlasDisplay.from_atlas(atlas, color_by="score", resolution=30)
    alpha = AlphaDisplay.from_atlas(atlas, [0, 3, 5], resolution=30)
    used = weight > 0
    for place, p, q in shown(display, 20):
        partition = atlas.partition(atlas.locate(p, q))
        assert display.values[place] == partition.margin.size + partition.inside.size
        predicted = X @ atlas.coef(p, q) > 0
        assert score.values[place] == pytest.approx(balanced_accuracy_score(y[used], predicted[used]), rel=1e-12)
        np.testing.assert_allclose(alpha.values[(slice(None), *place)], atlas.alpha(p, q)[[0, 3, 5]] / p, atol=1e-9)


@pytest.mark.parametrize("scale", SCALES)
def test_event_paths_follow_the_events(small, scale):
    """Every point of a path has the row on the margin, at the end of its range of alpha."""
    _, _, atlas = small
    display = AtlasDisplay.from_atlas(atlas, scale=scale, resolution=20, edges=False, events=[3])
    paths = [c for c in display.ax_.collections if isinstance(c, LineCollection)][1::2]
    assert len(paths) == 2
    for kind, path in enumerate(paths):
        points = np.concatenate(path.get_segments())
        p, q = display.plane.costs(*points.T)
        held = np.isfinite(p) & (p > 0) & (q > 0)
        share = atlas.alpha(p[held], q[held])[:, 3] / (q[held] if atlas._problem.sign[3] < 0 else p[held])
        assert held.sum() > 20
        np.testing.assert_allclose(share, kind, atol=1e-6)


def test_a_ray_has_its_ratio(small):
    display = AtlasDisplay.from_atlas(small[2], resolution=20, edges=False, rays=[0.25])
    ray = [c for c in display.ax_.collections if isinstance(c, LineCollection)][-1]
    x, y = np.concatenate(ray.get_segments()).T
    np.testing.assert_allclose(x / y, 0.25)
    assert y[-1] == pytest.approx(display.ax_.get_ylim()[1])  # C+ ends at a quarter of the same limit


def test_cells_are_outlined_in_view(small):
    """Of a cell that goes on to infinity the borders in view are drawn, up to where the view ends."""
    _, _, atlas = small
    polygon = atlas.polygon(atlas.locate(1e3, 1e-3))
    assert np.any(polygon[:, 2] == 0)
    display = AtlasDisplay.from_atlas(atlas, resolution=20, edges=False, limits=((1e-2, 10), (1e-4, 10)), cells=[polygon])
    outline = [c for c in display.ax_.collections if isinstance(c, LineCollection)][-1]
    x, y = np.concatenate(outline.get_segments()).T
    assert x.max() == pytest.approx(10)
    assert np.all((x >= 1e-2 * 0.999) & (y >= 1e-4 * 0.999) & (y <= 10 * 1.001))
    sides = np.roll(polygon, 1, axis=0)
    lines = np.cross(sides, polygon)
    lines /= np.abs(lines).max(axis=1, keepdims=True)
    distance = np.abs(np.column_stack([x, y, np.ones_like(x)]) @ lines.T).min(axis=1)
    np.testing.assert_allclose(distance, 0, atol=1e-12)


def test_edges_are_left_out_where_they_would_hide_the_map(small, monkeypatch):
    def count(**kwargs):
        display = AtlasDisplay.from_atlas(small[2], resolution=20, **kwargs)
        return sum(isinstance(c, LineCollection) for c in display.ax_.collections)

    assert count() == 1
    monkeypatch.setattr("svmatlas.show.displays.MOST_EDGES", 100)
    assert count() == 0
    assert count(edges=True) == 1


def test_means_lie_in_their_facets(small):
    _, _, atlas = small
    display = AtlasDisplay.from_atlas(atlas, scale="triangle", resolution=20, means=True)
    dots = next(line for line in display.ax_.lines if line.get_marker() == ".").get_xydata()
    p, q = display.plane.costs(*dots.T)
    np.testing.assert_array_equal(atlas.locate(p, q), np.arange(atlas.n_facets))


@pytest.mark.parametrize(("kind", "scale"), [("map", "log"), ("map", "triangle"), ("surface", "linear"), ("surface", "log")])
def test_dual_variables(small, kind, scale):
    _, y, atlas = small
    rows = [0, 4, 9, 11]
    display = AlphaDisplay.from_atlas(atlas, rows, kind=kind, scale=scale, resolution=24)
    plain = AlphaDisplay.from_atlas(atlas, rows, scale="log", share=False, resolution=24)
    for shares, picture in ((True, display), (False, plain)):
        p, q = picture.plane.pixels(24)
        held = np.isfinite(p)
        expected = atlas.alpha(p[held], q[held])[:, rows]
        scale_by = np.where(y[rows] == 1, p[held][:, None], q[held][:, None]) if shares else 1.0
        np.testing.assert_allclose(picture.values[:, held].T, expected / scale_by, atol=1e-8, rtol=1e-8)
    assert len(display.axes_) == 4
    assert display.figure_ is display.ax_.figure


def test_draws_where_it_is_told(small):
    figure, (left, right) = mpl.pyplot.subplots(1, 2)
    display = AtlasDisplay.from_atlas(small[2], resolution=20, ax=left)
    assert display.ax_ is left
    assert display.figure_ is figure
    assert display.plot(ax=right, cmap="cividis").ax_ is right


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scale": "cube"}, "scale must be one of"),
        ({"color_by": "mood"}, "color_by must be one of"),
        ({"color_by": [1.0, 2.0]}, "one value for each of"),
        ({"limits": ((0, 1), (1, 2))}, "limits need finite lo < hi"),
        ({"limits": ((1, 1), (1, 2)), "scale": "linear"}, "limits need"),
        ({"limits": (1, 2)}, "limits must be"),
        ({"limits": ((1, 2), (1, 2)), "scale": "triangle"}, "takes no limits"),
        ({"events": [99]}, "row 99 does not exist"),
        ({"rays": [-1]}, "ratio"),
    ],
)
def test_bad_input(small, arguments, message):
    with pytest.raises(ValueError, match=message):
        AtlasDisplay.from_atlas(small[2], resolution=10, **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rows": []}, "rows must be"),
        ({"rows": [30]}, "rows must be numbers from 0 to 29"),
        ({"rows": 0, "kind": "song"}, "kind must be"),
        ({"rows": 0, "kind": "surface", "scale": "triangle"}, "surface"),
        ({"rows": 0, "share": False, "scale": "triangle"}, "share=True"),
    ],
)
def test_bad_input_for_alpha(small, arguments, message):
    with pytest.raises(ValueError, match=message):
        AlphaDisplay.from_atlas(small[2], resolution=10, **arguments)


def test_matplotlib_is_imported_when_it_is_used():
    code = "import sys, svmatlas, svmatlas.plot; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_matplotlib(small, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"svmatlas\[plot\]"):
        AtlasDisplay.from_atlas(small[2], resolution=10)


@pytest.fixture(scope="module")
def selection():
    X, y = cases.gaussian(12, 18, 2, 0.7)
    return svmatlas.select(X, y, cv=3)


@pytest.mark.parametrize("scale", SCALES)
def test_scores_are_those_of_the_cells(selection, scale):
    display = SelectionDisplay.from_selection(selection, scale=scale, resolution=40)
    p, q = display.plane.pixels(40)
    held = np.isfinite(p)
    np.testing.assert_array_equal(display.values[held], selection.score_at(p[held], q[held]))
    assert np.isnan(display.values[~held]).all()
    assert np.nanmax(display.values) <= selection.best_score
    assert display.grid_score_ is None


def test_a_grid_shows_what_it_lost(selection):
    grid = np.geomspace(1e-2, 1e2, 4)
    display = SelectionDisplay.from_selection(selection, resolution=20, grid=(grid, grid))
    best = max(selection.score_at(a, b) for a in grid for b in grid)
    assert display.grid_score_ == pytest.approx(best)
    assert f"lost {selection.best_score - best:.4f}" in display.ax_.get_title()
    dots, rings, star = display.ax_.lines
    assert len(dots.get_xdata()) == 16
    assert all(selection.score_at(*place) == best for place in rings.get_xydata())
    np.testing.assert_allclose(star.get_xydata(), [[selection.C_pos, selection.C_neg]])


def test_the_best_cells_are_outlined(selection):
    display = SelectionDisplay.from_selection(selection, resolution=20, limits=((1e-4, 1e4), (1e-4, 1e4)))
    outline = [c for c in display.ax_.collections if isinstance(c, LineCollection)][-1]
    corners = np.concatenate([np.concatenate([cell.polygon, *cell.holes]) for cell in selection.cells])
    corners = corners[corners[:, 2] > 0]
    costs = corners[:, :2] / corners[:, 2:]
    costs = costs[np.all((costs > 1e-4) & (costs < 1e4), axis=1)]
    drawn = np.concatenate(outline.get_segments())
    for corner in costs:
        assert np.abs(drawn / corner - 1).sum(axis=1).min() < 1e-9


def test_a_region_bounds_the_view_of_a_selection():
    X, y = cases.gaussian(12, 18, 2, 0.7)
    bounded = svmatlas.select(X, y, cv=3, region=((0.1, 1), (0.05, 2)))
    display = SelectionDisplay.from_selection(bounded, resolution=20)
    assert display.ax_.get_xlim() == (0.1, 1)
    assert display.ax_.get_ylim() == (0.05, 2)
    assert np.isfinite(display.values).all()
    triangle = SelectionDisplay.from_selection(bounded, scale="triangle", resolution=20)
    p, q = triangle.plane.pixels(20)
    inside = (p >= 0.1) & (p <= 1) & (q >= 0.05) & (q <= 2)
    np.testing.assert_array_equal(np.isfinite(triangle.values), inside)


def test_roc_frontier():
    X, y = cases.gaussian(12, 18, 2, 0.7)
    frontier = svmatlas.roc_frontier(X, y, cv=3)
    display = RocFrontierDisplay.from_frontier(frontier, points={"a guess": (0.5, 0.5)})
    _, steps, dots, hull, guess = display.ax_.lines
    np.testing.assert_array_equal(dots.get_xydata(), np.column_stack([frontier.fpr, frontier.tpr]))
    np.testing.assert_array_equal(hull.get_xydata()[1:-1], np.column_stack([frontier.fpr, frontier.tpr])[frontier.hull])
    assert np.all(np.diff(steps.get_ydata()) >= 0)
    assert guess.get_label() == "a guess"
