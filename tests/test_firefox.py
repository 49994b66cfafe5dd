"""The page in Firefox: what is asked of Chromium in test_page.py, in short."""

from __future__ import annotations

import numpy as np
import pytest

import svmatlas
from tests.firefox import HOW, MISSING, firefox
from tests.test_page import MAPS, hard_costs, place_of, random_costs, to_browser

pytestmark = pytest.mark.skipif(MISSING, reason=HOW)


@pytest.fixture(scope="module")
def tab():
    with firefox() as found:
        yield found


@pytest.mark.parametrize("name", ["lattice", "sparse", "rbf", "part"])
def test_the_page_says_what_the_atlas_says(tab, tmp_path, name):
    X, y, arguments = MAPS[name]()
    atlas = svmatlas.explore(X, y, **arguments)
    atlas.page(tmp_path / "map.html")
    tab.open(tmp_path / "map.html")
    C_pos, C_neg = np.hstack([random_costs(atlas, 1000), hard_costs(atlas, 60)])
    found = tab.run("given.map(([p, q]) => app.locate(Number(p), Number(q)))", to_browser(C_pos, C_neg))
    np.testing.assert_array_equal(found, atlas.locate(C_pos, C_neg))
    C_pos, C_neg = random_costs(atlas, 50, seed=1)
    models = tab.run("given.map(([p, q]) => app.query(p, q))", to_browser(C_pos, C_neg))
    assert max(model["gap"] for model in models) <= 1e-9
    np.testing.assert_allclose([model["intercept"] for model in models], atlas.intercept(C_pos, C_neg), rtol=1e-9, atol=1e-9)
    if atlas._problem.features.linear:
        coef = atlas.coef(C_pos, C_neg)
        np.testing.assert_allclose([model["coef"] for model in models], coef, rtol=0, atol=1e-9 * np.abs(coef).max())
    assert tab.complaints == []
    assert [
        url for url in tab.requests if not url.startswith(("file:", "data:"))
    ] == []  # Firefox has a font of its own as data


def test_facets_are_drawn(tab, tmp_path):
    X, y, _ = MAPS["lattice"]()
    atlas = svmatlas.explore(X, y)
    atlas.page(tmp_path / "map.html")
    tab.open(tmp_path / "map.html")
    pixels = np.random.default_rng(0).integers([60, 60], [500, 500], (40, 2)).tolist()
    draw = "(app.goHome(), app.frame(), given.map(([i, j]) => [app.costsOfPixel(i, j), app.colorOfPixel(i, j)]))"
    found, (low, high) = tab.run(draw, pixels), tab.run("app.range")
    sizes = [atlas.partition(int(atlas.locate(*costs))).margin.size for costs, _ in found]
    places = [place_of(size, low, high) for size in sizes]
    expected = tab.run("given.map((k) => app.tableColor('margin', k))", places)
    near = np.abs(np.array([color for _, color in found]) - expected).max(axis=1) <= 4
    assert np.mean(near) >= 0.75  # some pixels show an edge
    assert tab.complaints == []
