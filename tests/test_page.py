"""The page in a real browser says what the atlas says."""

from __future__ import annotations

import base64
from io import BytesIO

import numpy as np
import pytest
from matplotlib.image import imread
from scipy.sparse import csr_array
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import confusion_matrix

import svmatlas
from svmatlas.support.settings import SETTINGS
from tests import cases
from tests.browser import HOW, MISSING, browser

pytestmark = pytest.mark.skipif(MISSING, reason=HOW)

ATTACK = "</script><script>window.stolen = 1</script><img src=x onerror='window.stolen = 2'>\"'"


def cancer():
    data = load_breast_cancer()
    names, region = list(map(str, data.feature_names)), ((0.005, 0.5), (0.005, 0.5))
    return data.data, data.target, {"standardize": True, "feature_names": names, "region": region}


def sparse():
    X, y = cases.sparse_histograms()
    return csr_array(X[:, :2000]), y, {}


MAPS = {
    "breast cancer": cancer,
    "lattice": lambda: (*cases.lattice(), {}),
    "one hot": lambda: (*cases.one_hot(), {}),
    "repeated": lambda: (*cases.every_row_three_times(), {}),
    "one positive": lambda: (*cases.one_positive(), {}),
    "unscaled": lambda: (cases.gaussian(12, 20, 3, 0.5)[0] * [1, 1e3, 1e-2], cases.gaussian(12, 20, 3, 0.5)[1], {}),
    "sparse": sparse,
    "rbf": lambda: (*cases.gaussian(20, 20, 3, 0.5), {"kernel": "rbf"}),
    "part": lambda: (*cases.gaussian(20, 20, 2, 0.5), {"region": ((0.01, 10), (0.001, 1))}),
}


FRESH = "{ color: 'margin', theme: 'light', pins: [], rows: [] }"
"""State of a page that was just opened, so that it need not be."""


@pytest.fixture(scope="module")
def tab():
    with browser() as found:
        yield found


@pytest.fixture(scope="module", params=MAPS)
def shown(request, tab, tmp_path_factory):
    """An atlas, its rows, and its page in the browser."""
    X, y, arguments = MAPS[request.param]()
    atlas = svmatlas.explore(X, y, **arguments)
    path = tmp_path_factory.mktemp("page") / "map.html"
    atlas.page(path, X_test=X[::2], y_test=y[::2])
    return atlas, X[::2], y[::2], tab.open(path)


@pytest.fixture(scope="module")
def small_page(tmp_path_factory):
    """Rows, an atlas, a selection, a frontier, and the page of all."""
    X, y = cases.gaussian(20, 20, 3, 0.5)
    atlas = svmatlas.explore(X, y, feature_names=["first", ATTACK, "third"])
    selection, frontier = svmatlas.select(X, y, cv=3), svmatlas.roc_frontier(X, y, cv=3)
    path = tmp_path_factory.mktemp("page") / "map.html"
    atlas.page(path, selection, frontier, title=ATTACK)
    return path, X, y, atlas, selection, frontier


@pytest.fixture
def small(small_page, tab):
    path, *rest = small_page
    if not tab.page.url.startswith(path.as_uri()):
        tab.open(path)
    tab.run(f"(app.setScale('log'), app.point = null, app.toggleHelp(false), app.apply({FRESH}))")
    tab.settle()
    return tab, *rest


def random_costs(atlas, n, seed=0):
    rng, sides = np.random.default_rng(seed), []
    for lo, hi in atlas.region:
        sides.append(np.exp(rng.uniform(np.log(max(lo, 1e-5)), np.log(min(hi, 1e3)), n)))
    return sides


def hard_costs(atlas, n, seed=0):
    """Costs on vertices and in the middle of edges, on the axes and at infinity, as far as they are in the region."""
    rng, v = np.random.default_rng(seed), atlas.vertices
    ends = v[atlas.edge_vertices[rng.integers(0, atlas.n_edges, n)]]
    ends = ends[np.all(ends[:, :, 2] > 0, axis=1)]
    middle = (ends / ends[:, :, 2:]).mean(axis=1)
    vertex = v[rng.integers(0, len(v), n)]
    vertex = vertex[vertex[:, 2] > 0]
    rest = [(0, 0), (0, 0.5), (0.5, 0), (np.inf, np.inf), (np.inf, 0.2), (0.2, np.inf)]
    costs = np.vstack([middle[:, :2], vertex[:, :2] / vertex[:, 2:], rest])
    inside = [np.all([lo <= c <= hi for c, (lo, hi) in zip(pair, atlas.region, strict=True)]) for pair in costs]
    return costs[inside].T


def to_browser(C_pos, C_neg):
    """Pairs of costs, infinity as text: JSON has none."""
    return [["Infinity" if np.isinf(c) else float(c) for c in pair] for pair in zip(C_pos, C_neg, strict=True)]


def test_the_page_loads_without_complaint_and_asks_for_nothing(shown):
    *_, tab = shown
    assert tab.complaints == []
    assert [url for url in tab.requests if not url.startswith("file:")] == []
    assert len(tab.requests) == 1


def test_facets_are_those_of_the_atlas(shown):
    atlas, _, _, tab = shown
    for C_pos, C_neg in (random_costs(atlas, 1000), hard_costs(atlas, 60)):
        found = tab.run("given.map(([p, q]) => app.locate(Number(p), Number(q)))", to_browser(C_pos, C_neg))
        np.testing.assert_array_equal(found, atlas.locate(C_pos, C_neg))


def test_models_are_those_of_the_atlas(shown):
    atlas, X, y, tab = shown
    C_pos, C_neg = np.hstack([random_costs(atlas, 100, seed=1), hard_costs(atlas, 10, seed=1)])
    found = tab.run("given.map(([p, q]) => app.query(Number(p), Number(q)))", to_browser(C_pos, C_neg))
    intercept = atlas.intercept(C_pos, C_neg)
    np.testing.assert_allclose([one["intercept"] for one in found], intercept, rtol=1e-9, atol=1e-9)
    assert max(one["gap"] for one in found) <= 1e-9
    if atlas._problem.features.linear:
        coef = atlas.coef(C_pos, C_neg)
        size = np.maximum(np.abs(coef).max(axis=1, keepdims=True), 1e-3)
        np.testing.assert_allclose(np.array([one["coef"] for one in found]) / size, coef / size, rtol=0, atol=1e-9)
    else:
        assert all(one["coef"] is None for one in found)
    decided = atlas.decision_function(X, C_pos, C_neg) > 0
    for one, positive in zip(found, decided, strict=True):
        expected = confusion_matrix(y == atlas.classes_[1], positive).ravel().tolist()
        assert [one["counts"][name] for name in ("tn", "fp", "fn", "tp")] == expected


NOTED = """(() => {
  const noted = new Map(), { values } = app, put = values.putOne;
  values.putOne = function (id, ...four) { noted.set(id, four); return put.call(this, id, ...four); };
  app.noted = noted;
  app.setRows([given.row]), app.setPins([given.pin]), app.setColor(given.color);
})()"""
"""Begin with a colour, and note its values in doubles; the card has them in single precision."""


def noted_values(atlas, tab, color, row=0, pin=(0.1, 0.1)):
    """Some facets, and the four numbers of each."""
    tab.run(NOTED, {"color": color, "row": row, "pin": list(pin)})
    tab.settle()
    noted, pick = tab.run("(delete app.values.putOne, app.noted.size)"), np.random.default_rng(0)
    assert noted >= 0.5 * atlas.n_facets
    facets = pick.permutation(atlas.n_facets)[:300]
    found = tab.run("given.map((f) => app.noted.get(f) ?? null)", facets.tolist())
    known = np.array([four is not None for four in found])
    return facets[known], np.array([four for four in found if four is not None])


def inside(atlas, tab, facets):
    """Costs that the page takes for the middles of some facets, and which facets hold them; others are too thin."""
    costs = np.array(tab.run("given.map((f) => Array.from(app.values.middles.subarray(2 * f, 2 * f + 2)))", facets.tolist()))
    good = np.all(np.isfinite(costs) & (costs > 0), axis=1)
    good[good] &= atlas.locate(*costs[good].T) == facets[good]
    assert np.mean(good) > 0.8
    return costs.T, good


def test_the_colours_of_a_coefficient_are_the_coefficient(shown):
    """All facets in one walk, from neighbour to neighbour: each has the coefficient that the atlas solves for alone."""
    atlas, _, _, tab = shown
    if not atlas._problem.features.linear:
        assert not any(one.startswith("coef") for one in tab.run("app.quantities.map(({ id }) => id)"))
        return
    j = atlas._problem.features.n_features - 1
    facets, values = noted_values(atlas, tab, f"coef:{j}")
    costs, good = inside(atlas, tab, facets)
    C_pos, C_neg = costs[:, good]
    p, q, l, _ = values[good].T
    coef = atlas.coef(C_pos, C_neg)
    size = np.maximum(np.abs(coef).max(axis=1), 1e-3)
    np.testing.assert_allclose((p * C_pos + q * C_neg + l) / size, coef[:, j] / size, rtol=0, atol=1e-9)


def test_the_colours_of_alpha_are_alpha(shown):
    """As a share of its bound. Where ties cut a facet alpha is not unique: another test looks at that."""
    atlas, _, _, tab = shown
    sizes = np.zeros(atlas._problem.point.size, dtype=int)
    for f in np.random.default_rng(1).integers(0, atlas.n_facets, 200):
        sizes[atlas.partition(int(f)).margin] += 1
    row = int(np.argmax(sizes))
    facets, values = noted_values(atlas, tab, "alpha", row)
    costs, good = inside(atlas, tab, facets)
    good &= ~atlas._canonical.is_cut[facets]
    C_pos, C_neg = costs[:, good]
    p, q, l, kind = values[good].T
    bound = C_pos if atlas._problem.sign[row] > 0 else C_neg
    share = np.where(kind == 1, (p * C_pos + q * C_neg + l) / bound, l)
    np.testing.assert_allclose(share, atlas.alpha(C_pos, C_neg)[:, row] / bound, rtol=0, atol=1e-9)
    assert np.any(kind == 1)


def test_the_colours_of_scores_count_the_held_out_rows(shown):
    atlas, X, y, tab = shown
    pin, truth = np.array([0.1, 0.1]), y == atlas.classes_[1]
    for color in ("score", "disagree"):
        facets, values = noted_values(atlas, tab, color, pin=pin)
        costs, good = inside(atlas, tab, facets)
        positive, pinned = atlas.decision_function(X, *costs[:, good]) > 0, atlas.decision_function(X, *pin) > 0
        right = (positive[:, truth].mean(axis=1) + (~positive[:, ~truth]).mean(axis=1)) / 2
        expected = right if color == "score" else np.sum(positive != pinned, axis=1)
        np.testing.assert_allclose(values[good, 2], expected, rtol=0, atol=1e-12)


def test_without_held_out_rows_those_of_the_data_are_scored(small):
    tab, X, y, atlas, *_ = small
    counts = tab.run("app.query(0.3, 0.2).counts")
    expected = confusion_matrix(y == 1, atlas.decision_function(X, 0.3, 0.2) > 0).ravel().tolist()
    assert [counts[name] for name in ("tn", "fp", "fn", "tp")] == expected


COLORS = ["margin", "support", "layer", "parity", "coef:0", "alpha"]


@pytest.mark.parametrize("color", COLORS)
def test_pixels_have_the_colour_of_their_value(small, color):
    tab, _, _, atlas, *_ = small
    tab.run("app.setRows([3])")
    tab.run("(app.view = { x: -0.5, y: -0.6, step: 0.0007 }, app.setColor(given))", color)
    tab.settle()
    low, high = tab.run("app.range")
    pixels = np.random.default_rng(0).integers(50, 600, (30, 2)).tolist()
    near = 0
    for (p, q), shown in tab.run("given.map(([i, j]) => [app.costsOfPixel(i, j), app.colorOfPixel(i, j)])", pixels):
        place = place_of(value_at(atlas, color, p, q), low, high)
        near += np.abs(np.array(shown) - tab.run("app.tableColor(given[0], given[1])", [color, place])).max() <= 4
    assert near >= 25  # some pixels show an edge


def place_of(value, low, high):
    """In the table of 256 colours."""
    return round(255 * np.clip((value - low) / (high - low), 0, 1))


def value_at(atlas, color, p, q):
    f = atlas.locate(p, q)
    margin, inside, _ = atlas.partition(f)
    if color == "coef:0":
        return atlas.coef(p, q)[0]
    if color == "alpha":
        return atlas.alpha(p, q)[3] / (p if atlas._problem.sign[3] > 0 else q)
    return {
        "margin": margin.size, "support": margin.size + inside.size, "layer": atlas.facet_layer[f],
        "parity": atlas.facet_layer[f] % 2,
    }[color]  # fmt: skip


@pytest.mark.parametrize("name", ["lattice", "one hot"])
def test_alpha_is_valid_where_ties_cut_a_facet_and_its_colour_is_shown(tab, tmp_path, name):
    """It is not unique there. Whatever is shown adds up to the weights, which are, and is the same in panel and picture."""
    X, y, _ = MAPS[name]()
    atlas = svmatlas.explore(X, y)
    atlas.page(tmp_path / "map.html")
    tab.open(tmp_path / "map.html")
    C_pos, C_neg = random_costs(atlas, 300, seed=2)
    cut = atlas._canonical.is_cut[atlas.locate(C_pos, C_neg)]
    assert np.sum(cut) >= 10
    sign, point = np.where(y == atlas.classes_[1], 1, -1), atlas._problem.point
    C_pos, C_neg = C_pos[cut], C_neg[cut]
    shares = tab.run("given.map(([p, q]) => app.query(p, q).share)", to_browser(C_pos, C_neg))
    for p, q, share in zip(C_pos, C_neg, shares, strict=True):
        assert 0 <= min(share) <= max(share) <= 1
        alpha = np.where(sign > 0, p, q) * np.array(share)[point]
        np.testing.assert_allclose((sign * alpha) @ X, atlas.coef(p, q), rtol=0, atol=1e-9 * (1 + alpha.sum()))
    row = int(atlas.partition(int(atlas.locate(C_pos[0], C_neg[0]))).margin[0])
    view = [*np.log10([C_pos[0], C_neg[0]]), 0.004]
    tab.run(
        "(app.view = { x: given[0], y: given[1], step: given[2] }, app.setRows([given[3]]), app.setColor('alpha'))",
        [*view, row],
    )
    tab.settle()
    pixels = np.random.default_rng(0).integers([60, 60], [700, 550], (60, 2)).tolist()
    found = tab.run("given.map(([i, j]) => [app.costsOfPixel(i, j), app.colorOfPixel(i, j)])", pixels)
    share = tab.run("given.map(([p, q]) => app.query(p, q).share)", [costs for costs, _ in found])
    expected = tab.run("given.map((k) => app.tableColor('alpha', k))", [round(255 * one[point[row]]) for one in share])
    near = np.abs(np.array([color for _, color in found]) - expected).max(axis=1) <= 4
    assert np.mean(near) >= 0.9  # some pixels show an edge


def test_facets_stay_sharp_at_any_zoom(small):
    tab, _, _, atlas, *_ = small
    inner = atlas.vertices[np.all(atlas.vertices > 0, axis=1)]
    pixels = np.random.default_rng(0).integers(50, 600, (20, 2)).tolist()
    for p, q, l in inner[:: len(inner) // 3]:
        tab.run("(app.view = { x: given[0], y: given[1], step: 1e-10 }, app.changed())", np.log10([p / l, q / l]).tolist())
        tab.settle()
        right = 0
        for (s, t), shown in tab.run("given.map(([i, j]) => [app.costsOfPixel(i, j), app.colorOfPixel(i, j)])", pixels):
            place = place_of(value_at(atlas, "margin", s, t), *tab.run("app.range"))
            right += np.abs(np.array(shown) - tab.run("app.tableColor('margin', given)", place)).max() <= 4
        assert right >= 17  # some pixels show an edge


def share_drawn(tab):
    """Share of the pixels of the plane that have the colour of a facet."""
    return tab.run(
        """(() => { const { gl } = app.painter; const [w, h] = [app.plane.width, app.plane.height];
        const out = new Uint8Array(4 * w * h); gl.readPixels(0, 0, w, h, 6408, 5121, out);
        let blank = 0; for (let i = 0; i < out.length; i += 4) blank += out[i] + out[i + 1] + out[i + 2] === 765;
        return 1 - blank / (w * h); })()"""
    )


def test_large_facets_that_reach_a_corner_of_infinity_are_drawn(tab, tmp_path):
    """All of a class on the margin: many rows with a binary column, few columns, the whole quadrant."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=60).round(1), rng.integers(0, 2, 60)])
    atlas = svmatlas.explore(X, X[:, 0] + X[:, 1] + rng.normal(size=60) > 1)
    atlas.page(tmp_path / "map.html")
    tab.open(tmp_path / "map.html")
    tab.settle()
    assert share_drawn(tab) > 0.995


@pytest.mark.parametrize("scale", ["log", "linear", "triangle"])
def test_all_scales_show_all_of_the_window_that_has_costs(small, scale):
    tab, *_ = small
    tab.run("app.setScale(given)", scale)
    tab.settle()
    share = share_drawn(tab)
    width, height = tab.run("[app.size.width, app.size.height]")
    square = (0.92 * min(width, height)) ** 2 / (width * height)
    expected = {"log": 1.0, "triangle": square / 2, "linear": None}[scale]
    assert share > 0.4 if expected is None else abs(share - expected) < 0.01
    assert tab.complaints == []


def test_a_zoom_keeps_the_place_under_the_pointer_and_a_drag_moves_it(small):
    tab, *_ = small
    box = tab.page.locator(".window").bounding_box()
    x, y = round(box["x"] + 200), round(box["y"] + 300)  # a wheel knows whole pixels only
    tab.page.mouse.move(x, y)
    before = tab.run("app.costs")
    tab.page.mouse.wheel(0, -120)
    tab.settle()
    tab.page.mouse.move(x + 1, y)
    tab.page.mouse.move(x, y)
    np.testing.assert_allclose(tab.run("app.costs"), before, rtol=1e-6)
    tab.page.mouse.down()
    tab.page.mouse.move(x + 70, y + 20)
    tab.page.mouse.up()
    np.testing.assert_allclose(tab.run("app.costs"), before, rtol=1e-6)
    assert tab.run("app.pins.length") == 0


def photo(tab):
    """What is seen of the plane, as whole numbers (height, width, 3)."""
    return (255 * imread(BytesIO(tab.page.locator(".window").screenshot()))[:, :, :3]).round().astype(int)


def test_slow_machines_move_what_was_drawn_until_it_rests(small):
    tab, *_ = small
    before = photo(tab)[200:500, 100:600]  # away from axes and legend
    tab.run("(app.prepareFine = () => undefined)")  # nothing else draws while the photo is taken
    tab.run("(app.last.milliseconds = 1000, app.move(-40, 30), app.frame(), clearTimeout(app.resting), app.resting = 0)")
    assert tab.run("app.plane.style.transform") == "translate(40px, 30px) scale(1)"
    moved = photo(tab)[230:530, 140:640]
    assert np.mean(np.abs(moved - before).max(axis=2) <= 2) >= 0.99
    tab.run("(delete app.prepareFine, app.last.milliseconds = 1, app.changed())")
    tab.settle()
    assert tab.run("app.plane.style.transform") == ""
    assert np.mean(np.abs(photo(tab)[230:530, 140:640] - before).max(axis=2) <= 2) >= 0.7  # edges are drawn anew
    assert tab.complaints == []


def test_two_clicks_pin_two_models_and_compare_them(small):
    tab, _, _, atlas, *_ = small
    box = tab.page.locator(".window").bounding_box()
    for dx, dy in ((380, 330), (440, 300)):
        tab.page.mouse.click(box["x"] + dx, box["y"] + dy)
    tab.settle()
    (p, q), (s, t) = tab.run("app.pins")
    one, other = atlas.partition(atlas.locate(p, q)), atlas.partition(atlas.locate(s, t))
    text = tab.page.locator(".compare").inner_text()
    left = np.setdiff1d(np.intersect1d(one.inside, other.outside), [])
    assert ("inside → outside" in text) == (left.size > 0)
    assert tab.page.locator(".card").count() == 6  # here, comparison, selection, frontier, A, B


def test_every_key_does_something(small):
    tab, *_ = small
    state = "JSON.stringify([app.link, app.help.hidden, document.activeElement.className])"
    tab.run("app.window.focus()")
    for key in [
        "ArrowLeft",
        "ArrowUp",
        "Shift+ArrowRight",
        "Shift+ArrowDown",
        "+",
        "-",
        "p",
        "x",
        "c",
        "Shift+C",
        "s",
        "t",
        "n",
        "Shift+N",
    ]:
        before = tab.run(state)
        tab.page.keyboard.press(key)
        assert tab.run(state) != before, key
    for key, expected in (("/", "search"), ("r", "row")):
        tab.page.keyboard.press(key)
        assert tab.run("document.activeElement.className") == expected
        tab.run("app.window.focus()")
    tab.page.keyboard.press("?")
    assert tab.page.locator(".help li").count() == 10
    assert tab.page.locator(".help").is_visible()
    tab.page.keyboard.press("Escape")
    assert not tab.page.locator(".help").is_visible()


def test_keys_are_heard_before_anything_is_clicked(small_page, tab):
    tab.open(small_page[0])
    tab.page.keyboard.press("?")
    assert tab.page.locator(".help").is_visible()


def test_the_keyboard_stays_where_it_is_when_the_panel_changes(small):
    """Also what was opened, and a number that is half typed."""
    tab, *_ = small
    focused = "document.activeElement.closest('label')?.innerText ?? document.activeElement.innerText"
    tab.page.locator("summary", has_text="rows on the margin").first.click()
    for text, costs in (("pin", None), ("copy as Python", None), ("go there", "app.atlas.selection.costs")):
        tab.page.locator(".side button", has_text=text).first.focus()
        tab.run("app.setCosts([0.3, 0.4])")
        tab.settle()
        tab.page.keyboard.press("Enter")
        tab.settle()
        assert tab.run(focused) == text
        assert costs is None or tab.run(f"app.costs.join() === {costs}.join()")
    assert tab.page.locator("details").first.get_attribute("open") is not None
    field = tab.page.locator(".money input")
    field.first.fill("7")
    tab.run("app.setCosts([0.2, 0.1])")
    tab.settle()
    assert field.first.input_value() == "7"
    tab.page.keyboard.press("Tab")
    tab.settle()
    assert tab.run("app.money.fp") == 7
    assert tab.run(focused).startswith("of a false negative")
    field.nth(2).fill("1.5")  # a share of positives
    tab.page.keyboard.press("Tab")
    assert tab.run("app.money.prior") <= 1
    assert tab.page.locator(".money .wrong").count() == 1


TICKS = """Array.from({ length: 60 }, () => {
  app.zoom(0.8);
  app.overlay.begin(app.view, app.size, app.scale, "#111111");
  return [0, 1].map((axis) => app.overlay.ticks(axis).map(({ at, text }) => [at / app.view.step, text]));
})"""
"""Numbers beside both axes, their places in pixels, at 60 zooms."""


def test_numbers_beside_the_axes_are_round_and_apart(small):
    tab, *_ = small
    for scale in ("log", "linear", "triangle"):
        tab.run("app.setScale(given)", scale)
        for both in tab.run(TICKS):
            for ticks, length, apart in zip(both, tab.run("[app.size.width, app.size.height]"), (30, 15), strict=True):
                at, texts = [one for one, _ in ticks], {text for _, text in ticks}
                assert scale == "triangle" or 2 <= len(at) <= length / 25
                assert np.all(np.diff(at) > apart)
                assert len(texts) == len(at)


def test_costs_are_searched_for(small):
    tab, _, _, atlas, *_ = small
    for text, costs in (("0.3, 2", (0.3, 2.0)), ("inf 0.5", (np.inf, 0.5)), ("1e-2;1e-1", (0.01, 0.1))):
        tab.page.fill(".search", text)
        tab.page.press(".search", "Enter")
        assert tab.run("app.model.number") == atlas.locate(*costs)
    tab.page.fill(".search", "-1, x")
    tab.page.press(".search", "Enter")
    assert tab.page.locator(".search.wrong").count() == 1


def test_a_link_reproduces_the_view(small, small_page):
    tab, *_ = small
    tab.run("(app.setScale('triangle'), app.zoom(0.2), app.setRows([5, 2]), app.setColor('coef:1'), app.setTheme('dark'))")
    tab.run("(app.setCosts([0.3, 0.4]), app.setPins([[0.1, 0.2], [Infinity, 0.7]]))")
    tab.run("(app.setMoney({ fp: 3, fn: 2, prior: 0.1 }), app.setPoint(2))")
    link = tab.run("app.link")
    tab.open(small_page[0], link)
    assert tab.run("app.link") == link
    tab.open(small_page[0], "#view=1,nonsense&scale=cubic&color=%ZZ&pin=a&rows=1e9,x")
    assert tab.complaints == []


def test_hostile_names_are_shown_as_text(small):
    tab, *_ = small
    assert tab.run("window.stolen ?? null") is None
    assert tab.page.locator("h1").inner_text() == ATTACK
    assert ATTACK in tab.page.locator(".bars").first.inner_text()
    assert tab.page.title() == " ".join(ATTACK.split())


def test_the_best_cells_and_the_bound_are_those_of_the_selection(small):
    tab, _, _, _, selection, _ = small
    facts = tab.run("app.atlas.selection")
    assert facts["bestScore"] == selection.best_score
    np.testing.assert_allclose(tab.run("app.costs"), [selection.C_pos, selection.C_neg])
    for cell, rings in zip(selection.cells, facts["cells"], strict=True):
        np.testing.assert_array_equal(np.reshape(rings[0], (-1, 3)), cell.polygon)
    assert f"{selection.best_score:.6g}" in tab.page.locator(".selection").inner_text()


def test_scores_are_those_of_the_selection(small):
    tab, *_, selection, _ = small
    C_pos, C_neg = 10 ** np.random.default_rng(1).uniform(-4, 3, (2, 400))
    found = tab.run("given.map(([p, q]) => app.scoreAt(p, q))", to_browser(C_pos, C_neg))
    np.testing.assert_allclose(found, selection.score_at(C_pos, C_neg), rtol=0, atol=1e-12)


@pytest.mark.parametrize("scale", ["log", "linear", "triangle"])
def test_pixels_of_the_score_are_scores(small, scale):
    tab, *_, selection, _ = small
    tab.run("(app.setScale(given), app.setColor('selection'))", scale)
    tab.settle()
    low, high = tab.run("app.range")
    assert high == pytest.approx(selection.best_score, abs=1e-7)
    pixels = np.random.default_rng(1).integers([180, 60], [700, 600], (60, 2)).tolist()
    found = tab.run("given.map(([i, j]) => [app.costsOfPixel(i, j), app.colorOfPixel(i, j)])", pixels)
    shown = [(costs, color) for costs, color in found if costs is not None]
    assert len(shown) >= 20
    for costs, color in shown:
        place = place_of(selection.score_at(*costs), low, high)
        expected = tab.run("given.map((i) => app.tableColor('selection', i))", [max(place - 1, 0), place, min(place + 1, 255)])
        assert np.abs(np.array(expected) - color).max(axis=1).min() <= 1


def test_money_chooses_the_point_of_the_frontier(small):
    tab, *_, frontier = small
    for fp, fn, prior in ((1, 1, 0.5), (1, 20, 0.5), (30, 1, 0.4), (1, 5, 0.01)):
        tab.run("app.setMoney(given)", {"fp": fp, "fn": fn, "prior": prior})
        k = frontier.best(fp, fn, prior)
        assert tab.run("app.point") == k
        np.testing.assert_allclose(tab.run("app.costs"), [frontier.C_pos[k], frontier.C_neg[k]])
    tab.page.locator(".roc circle").nth(1).click()
    assert tab.run("app.point") == 1


def test_event_paths_are_the_edges_of_the_atlas(tab, tmp_path):
    for name in ("lattice", "repeated"):
        X, y, _ = MAPS[name]()
        atlas = svmatlas.explore(X, y)
        atlas.page(tmp_path / "map.html")
        tab.open(tmp_path / "map.html")
        for row in (0, 5, 11):
            first = atlas._problem.first_rows[atlas._problem.point[row]]
            found = tab.run("(app.setRows([given]), app.paths.map((edges) => edges.length))", row)
            at = np.repeat(np.arange(atlas.n_edges), np.diff(atlas.edge_at))
            on = [at[np.all(atlas.edge_events == (first, kind), axis=1)] for kind in (0, 1)]
            assert found == [len(edges) for edges in on]


def test_a_part_of_a_map_has_the_same_numbers(small_page, tab, tmp_path):
    _, _, _, atlas, *_ = small_page
    atlas.page(tmp_path / "part.html", region=((0.1, 1.0), (0.05, 0.5)))
    tab.open(tmp_path / "part.html")
    C_pos, C_neg = 10 ** np.random.default_rng(2).uniform([[-1], [-1.3]], [[0], [-0.3]], (2, 200))
    found = tab.run("given.map(([p, q]) => app.query(p, q))", to_browser(C_pos, C_neg))
    np.testing.assert_array_equal([one["facet"] for one in found], atlas.locate(C_pos, C_neg))
    assert max(one["gap"] for one in found) < 1e-9
    assert tab.run("app.query(10, 9)") is None
    assert "picture in pixels" in tab.page.locator("footer").inner_text()


@pytest.mark.parametrize("part", [None, ((0.1, 1.0), (0.05, 0.5))])
def test_a_large_map_is_a_picture_that_says_so(small_page, tab, tmp_path, monkeypatch, part):
    """Pixels have the colours of the facets in their middles, as where the page holds these."""
    _, _, _, atlas, *_ = small_page
    most = atlas.n_facets - 1
    monkeypatch.setattr("svmatlas.show.contents.MOST_FACETS", most)
    atlas.page(tmp_path / "large.html", region=part)
    tab.open(tmp_path / "large.html")
    assert tab.complaints == []
    assert f"holds {tab.run('app.atlas.nFacets')} of them" in tab.page.locator("footer").inner_text()
    for color in ("margin", "support", "layer"):
        tab.run("app.setColor(given)", color)
        tab.settle()
        low, high = tab.run("app.range")
        pixels = np.random.default_rng(0).integers([60, 60], [800, 500], (60, 2)).tolist()
        found = tab.run("given.map(([i, j]) => [app.costsOfPixel(i, j), app.colorOfPixel(i, j)])", pixels)
        places = [place_of(value_at(atlas, color, *costs), low, high) for costs, _ in found]
        expected = tab.run("given.map((k) => app.tableColor('layer', k))", places)
        assert np.mean(np.abs(np.array([shown for _, shown in found]) - expected).max(axis=1) <= 4) > 0.75  # the rest: edges
    tab.run("app.setCosts([20, 30])")
    tab.settle()
    assert "does not hold the facet here" in tab.page.locator(".card").first.inner_text()
    with pytest.raises(ValueError, match=f"a page holds at most {most}"):
        atlas.page(tmp_path / "large.html", region=((0, np.inf), (0, np.inf)))


def test_colours_tell_facets_apart_beside_those_with_a_whole_class_on_the_margin(tab, tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    X = np.column_stack([rng.normal(size=120) + y, rng.integers(0, 2, 120)])
    atlas = svmatlas.explore(X, y, region=((0.001, 10), (0.001, 10)))
    sizes = np.array([atlas.partition(f).margin.size for f in range(atlas.n_facets)])
    assert sizes.max() == 60
    atlas.page(tmp_path / "map.html")
    tab.open(tmp_path / "map.html")
    low, high = tab.run("app.range")
    assert (low, high) == (sizes.min(), np.quantile(sizes, 0.98, method="lower"))
    assert high < 30
    assert f"≥ {high}" in tab.page.locator(".legend").inner_text()


def test_too_many_columns_are_left_out_and_the_rest_is_right(tab, tmp_path, monkeypatch):
    monkeypatch.setattr("svmatlas.show.contents.MOST_WEIGHTS", 1000)
    X, y, _ = sparse()
    atlas = svmatlas.explore(X, y, region=((0.01, 1), (0.01, 1)))
    atlas.page(tmp_path / "map.html")
    tab.open(tmp_path / "map.html")
    found = tab.run("app.query(0.2, 0.1)")
    assert found["coef"] is None
    assert found["intercept"] == pytest.approx(atlas.intercept(0.2, 0.1), abs=1e-9)
    assert "too many columns" in tab.page.locator(".card").first.inner_text()
    assert tab.complaints == []


def test_a_selection_has_a_page_of_its_own(small_page, tab, tmp_path):
    *_, selection, frontier = small_page
    selection.page(tmp_path / "selection.html", frontier)
    tab.open(tmp_path / "selection.html")
    assert tab.complaints == []
    assert tab.run("app.quantity.id") == "selection"
    assert tab.page.locator(".frontier").count() == 1


def test_a_selection_that_ended_early_is_grey_where_it_did_not_look(tab, tmp_path, monkeypatch):
    """Its best score and bound are shown, and no score of costs that were never looked at."""
    monkeypatch.setattr(SETTINGS, "maps_share", np.inf)  # no whole maps
    X, y, _ = MAPS["one hot"]()
    monkeypatch.setattr(SETTINGS, "maps_share", np.inf)  # there is never time for whole maps
    selection = svmatlas.select(X, y, cv=3, tolerance=0.02)
    selection.page(tmp_path / "selection.html")
    tab.open(tmp_path / "selection.html")
    C_pos, C_neg = 10 ** np.random.default_rng(1).uniform(-4, 3, (2, 300))
    found = np.array(tab.run("given.map(([p, q]) => app.scoreAt(p, q))", to_browser(C_pos, C_neg)), dtype=float)
    expected = selection.scores_on_map(C_pos, C_neg).mean(axis=1)
    assert 0 < np.sum(np.isnan(expected)) < expected.size
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_a_phone_shows_all_of_it(small_page, tab):
    tab.page.set_viewport_size({"width": 390, "height": 844})
    try:
        tab.open(small_page[0])
        assert tab.complaints == []
        assert tab.run("document.documentElement.scrollWidth") <= 390
        assert tab.page.locator(".window").bounding_box()["height"] > 300
        assert tab.page.locator(".side .card").first.is_visible()
    finally:
        tab.page.set_viewport_size({"width": 1280, "height": 720})


def test_python_is_copied(small):
    tab, X, y, atlas, *_ = small
    text = tab.run("(app.setCosts([0.25, 0.5]), app.python())")
    np.testing.assert_allclose(made_by(text, X=X, y=y).coef_.ravel(), atlas.coef(0.25, 0.5), rtol=1e-9)
    tab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab.page.bring_to_front()
    tab.page.locator("button", has_text="copy as Python").click()
    tab.page.locator("footer", has_text="Copied").wait_for()
    assert tab.page.evaluate("navigator.clipboard.readText()") == text


def made_by(text, **given):
    """The model that some lines of Python make."""
    exec(text, given)
    return given["model"]


def squared(A, B):
    return (A @ B.T) ** 2


@pytest.mark.parametrize(
    "options",
    [{"kernel": "rbf", "gamma": 0.7}, {"kernel": "poly", "degree": 2, "coef0": 1.0}, {"kernel": squared}, {"bias": 2.0}],
    ids=["rbf", "poly", "function", "bias"],
)
def test_python_that_is_copied_makes_the_model_of_the_page(tab, tmp_path, options):
    """With the kernel's parameters, and with the label that is positive here."""
    X, y = cases.gaussian(5, 15, 2, 0.5)
    label = np.where(y == 1, "it's well", "ill")
    atlas = svmatlas.explore(X, label, pos_label="ill", region=((0.1, 1), (0.1, 1)), **options)
    atlas.page(tmp_path / "map.html")
    tab.open(tmp_path / "map.html")
    text = tab.run("(app.setCosts([0.25, 0.5]), app.python())")
    model = made_by(text, X=X, y=label, squared=squared)
    assert model.pos_label_ == "ill"
    sign = 1 if model.classes_[1] == "ill" else -1
    np.testing.assert_allclose(sign * model.decision_function(X), atlas.decision_function(X, 0.25, 0.5), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("store", [np.asarray, csr_array], ids=["dense", "sparse"])
def test_python_that_is_copied_scales_and_weighs_as_the_atlas(tab, tmp_path, store, standardize, weighted):
    X, y = cases.gaussian(5, 15, 2, 0.5)
    X, given = store(X * [1, 20] * (np.abs(X) > 0.3)), {"sample_weight": np.arange(1.0, 21)} if weighted else {}
    atlas = svmatlas.explore(X, y, standardize=standardize, region=((0.1, 1), (0.1, 1)), **given)
    atlas.page(tmp_path / "map.html")
    tab.open(tmp_path / "map.html")
    model = made_by(tab.run("(app.setCosts([0.25, 0.5]), app.python())"), X=X, y=y, **given)
    np.testing.assert_allclose(model.decision_function(X), atlas.decision_function(X, 0.25, 0.5), rtol=1e-8, atol=1e-8)


def test_colours_of_models_fill_in_and_disagreement_is_counted(small):
    tab, X, _, atlas, *_ = small
    tab.run("(app.setPins([[0.3, 0.3]]), app.setColor('disagree'))")
    tab.settle()
    assert tab.run("app.values.done") == atlas.n_facets
    high = tab.run("app.range")[1]
    far = atlas.decision_function(X, np.array([1e3, 1e-3, 0.3]), np.array([1e-3, 1e3, 0.3])) > 0
    assert high >= max(np.sum(far[0] != far[2]), np.sum(far[1] != far[2]))


def test_colours_of_coefficients_are_for_what_is_in_view(small):
    """The largest coefficient in view has the last colour, whatever was in view before."""
    tab, _, _, atlas, *_ = small
    tab.run("app.setColor('coef:0')")
    tab.settle()
    whole = tab.run("app.range")[1]
    tab.run("(app.view = { x: -2, y: -2, step: 0.0005 }, app.changed())")
    tab.settle()
    low, high = tab.run("app.range")
    p, q = 10 ** np.random.default_rng(0).uniform(-2.2, -1.8, (2, 300))
    assert low == -high
    assert np.abs(atlas.coef(p, q)[:, 0]).max() <= 1.2 * high < whole
    tab.run("(app.view = { x: -0.5, y: -0.6, step: 0.00001 }, app.changed())")
    tab.settle()
    low, high = tab.run("app.range")
    assert 0 < high - low < 0.25 * max(abs(low), abs(high))  # nearly alike: the colours still tell them apart
    assert tab.run("app.values.table") == "size"


def test_what_cannot_be_shown_is_said(small_page, tmp_path):
    _, X, y, atlas, *_ = small_page
    with pytest.raises(ValueError, match="both X_test and y_test"):
        atlas.page(tmp_path / "x.html", X_test=X)
    with pytest.raises(ValueError, match="y_test has the label 7"):
        atlas.page(tmp_path / "x.html", X_test=X, y_test=np.full(y.size, 7))
    with pytest.raises(OSError, match="does not exist"):
        atlas.page(tmp_path / "none" / "x.html")
    assert not (tmp_path / "x.html").exists()


def test_the_widget_goes_both_ways_in_a_browser(small_page, tab):
    _, _, _, atlas, *_ = small_page
    widget = atlas.widget()
    tab.page.goto("about:blank")
    found = tab.page.evaluate(
        """async ([script, data]) => {
          const { default: widget } = await import(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
          const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
          const values = { data: new DataView(bytes.buffer), costs: [0.7, 0.6] };
          const listeners = [];
          const model = {
            get: (name) => values[name], set: (name, value) => { values[name] = value; }, save_changes: () => {},
            on: (event, listener) => listeners.push(listener),
          };
          await widget.render({ model, el: document.body });
          await new Promise((done) => setTimeout(done, 300));
          const first = [values.costs, document.querySelector(".card h2").textContent];
          values.costs = [0.3, 0.4];
          listeners.forEach((listener) => listener());
          await new Promise((done) => setTimeout(done, 300));
          return [first, document.querySelector(".card h2").textContent];
        }""",
        [widget._esm, base64.b64encode(widget.data).decode()],
    )
    assert found[0][0] == [0.7, 0.6]  # what was set before it showed
    assert "C+ = 0.7, C− = 0.6" in found[0][1]
    assert "C+ = 0.3, C− = 0.4" in found[1]
