"""What a user sees: shapes, arrays, errors, limits."""

from __future__ import annotations

import re
import signal
import time
from functools import partial

import numpy as np
import pytest
import tqdm.auto

import svmatlas
from svmatlas.atlas import survey
from svmatlas.support.settings import SETTINGS
from tests import cases
from tests.facts import explore_pieces

X = np.array([[0.0, 1.0], [1.0, 0.5], [2.0, -1.0], [0.5, 0.25], [3.0, 1.0]])
Y = np.array([0, 1, 0, 1, 1])


def with_value(value):
    out = X.copy()
    out[1, 1] = value
    return out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X": with_value(np.nan)}, "NaN"),
        ({"X": with_value(np.inf)}, "infinity"),
        ({"X": X[:0], "y": Y[:0]}, "0 sample"),
        ({"X": X.astype(str).astype(object) + "a"}, "could not convert string"),
        ({"X": X[:, 0]}, "2D array"),
        ({"y": np.zeros(5)}, "exactly two classes, got 1"),
        ({"y": np.arange(5)}, r"exactly two classes, got 5: .*sklearn\.multiclass\.OneVsRestClassifier"),
        ({"y": [0, 1, np.nan, 1, 0]}, "NaN"),
        ({"y": Y[:3]}, "inconsistent numbers of samples"),
        ({"bias": -1.0}, "bias"),
        ({"bias": np.nan}, "bias"),
        ({"sample_weight": [1, 1, 1, 1, -1]}, "negative, row 4"),
        ({"sample_weight": np.zeros(5)}, "zero for all rows of a class"),
        ({"sample_weight": [1, 0, 1, 0, 0]}, "zero for all rows of a class"),
        ({"sample_weight": np.ones(4)}, r"shape \(5,\)"),
        ({"sample_weight": [1, np.nan, 1, 1, 1]}, "NaN"),
        ({"region": ((1, 1), (0, 1))}, r"C\+ needs 0 <= lo < hi"),
        ({"region": ((0, 1), (2, 1))}, "C- needs 0 <= lo < hi"),
        ({"region": ((-1, 1), (0, 1))}, r"C\+ needs"),
        ({"region": (0, 1)}, r"region must be \(\(lo, hi\), \(lo, hi\)\)"),
        ({"region": ((0, np.nan), (0, 1))}, r"C\+ needs"),
        ({"start": (2, 0.5), "region": ((0, 1), (0, 1))}, "C_pos = 2.0 is not in the region"),
        ({"start": (np.nan, 0.5)}, "C_pos = nan"),
        ({"start": 3}, "start must be a pair"),
        ({"max_facets": 0}, "max_facets"),
        ({"time_budget": 0}, "time_budget"),
        ({"n_jobs": 0}, "n_jobs"),
    ],
)
def test_bad_input(arguments, message):
    arguments = {"X": X, "y": Y} | arguments
    with pytest.raises(ValueError, match=message):
        svmatlas.explore(arguments.pop("X"), arguments.pop("y"), **arguments)


MINUS = np.float64(-1.5)


@pytest.mark.parametrize(
    "call",
    [
        lambda: svmatlas.explore(X, Y, bias=MINUS),
        lambda: svmatlas.explore(X, Y, region=(MINUS, [MINUS])),
        lambda: svmatlas.explore(X, Y, region=np.full((2, 2), MINUS)),
        lambda: svmatlas.explore(X, Y, start=np.array([MINUS])),
        lambda: svmatlas.explore(X, Y, kernel="rbf", gamma=MINUS),
        lambda: svmatlas.explore(X, np.full(5, MINUS)),
        lambda: svmatlas.explore(X, Y, sample_weight=np.full(5, MINUS)),
        lambda: svmatlas.explore(X, Y).estimator(MINUS, np.inf),
        lambda: svmatlas.ray(X, Y, ratio=MINUS),
        lambda: svmatlas.ray(X, Y, C_max=MINUS),
        lambda: svmatlas.segment(X, Y, (MINUS,), (1, 1)),
        lambda: svmatlas.scoring.expected_cost(MINUS, 1),
        lambda: svmatlas.scoring.expected_cost(1, 1, MINUS),
        lambda: svmatlas.scoring.fbeta(MINUS),
        lambda: svmatlas.AsymmetricSVC(MINUS).fit(X, Y),
        lambda: svmatlas.AtlasSVC(MINUS).fit(X, Y),
    ],
)
def test_messages_show_plain_numbers(call):
    with pytest.raises(ValueError, match=r"-1\.5") as error:
        call()
    assert "np." not in str(error.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda A: np.column_stack([A, np.full(len(A), 7.0)]),
        lambda A: np.column_stack([A, A[:, 0]]),
        lambda A: np.vstack([A, np.zeros(A.shape[1])]),
        lambda A: A * 1e150,
        lambda A: A * 1e-150,
        lambda A: A * [1e-6, 1e6],
    ],
    ids=["constant", "duplicate", "zero_row", "huge", "tiny", "mixed"],
)
@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_odd_input_works(make, bias):
    A = make(X)
    y = np.r_[Y, 0][: len(A)]
    if bias:
        bias = float(np.abs(A).max())
    report = svmatlas.explore(A, y, bias=bias).validate()
    assert report.ok, str(report)


def test_labels_of_any_kind():
    named = svmatlas.explore(X, np.where(Y == 1, "yes", "no"))
    assert named.classes_.tolist() == ["no", "yes"]
    np.testing.assert_array_equal(named.coef(1, 2), svmatlas.explore(X, Y).coef(1, 2))


def test_shapes(small):
    A, _, atlas = small
    n, d = A.shape
    assert isinstance(atlas.locate(1, 1), int)
    assert isinstance(atlas.intercept(1, 1), float)
    assert atlas.alpha(1, 1).shape == (n,)
    assert atlas.coef(1, 1).shape == (d,)
    C = [0.1, 1.0, 7.0]
    assert atlas.locate(C, C).shape == (3,)
    assert atlas.alpha(C, 1).shape == (3, n)
    assert atlas.coef(C, C).shape == (3, d)
    assert atlas.intercept(C, C).shape == (3,)
    assert atlas.coef([], []).shape == (0, d)
    np.testing.assert_array_equal(atlas.coef(C, C)[1], atlas.coef(1, 1))


@pytest.mark.parametrize("costs", [(-1, 1), (1, -1e-300), (np.nan, 1), (-np.inf, 1), ([1, 2], [1, 2, 3]), ([[1]], [[1]])])
def test_bad_costs(small, costs):
    with pytest.raises(ValueError, match=r"cost|C_pos|C_neg"):
        small[2].coef(*costs)


def test_costs_outside_the_region():
    atlas = svmatlas.explore(X, Y, region=((0.5, 1), (0, 2)))
    atlas.coef(0.5, 2)
    with pytest.raises(ValueError, match=r"C_pos = 0.4 is not a cost in the region \[0.5, 1.0\]"):
        atlas.coef(0.4, 1)


def test_zero_costs_give_the_zero_model(small):
    assert not small[2].coef(0, 0).any()
    assert small[2].intercept(0, 0) == 0


def test_no_such_facet(small):
    for facet in (-1, small[2].facet_layer.size):
        with pytest.raises(ValueError, match="does not exist"):
            small[2].polygon(facet)


def test_decision_values_satisfy_the_partition(small):
    A, y, atlas = small
    for C_pos, C_neg in [(0.02, 0.5), (1, 1), (30, 0.1)]:
        score = np.where(y == 1, 1, -1) * (A @ atlas.coef(C_pos, C_neg) + atlas.intercept(C_pos, C_neg))
        margin, inside, outside = atlas.partition(atlas.locate(C_pos, C_neg))
        np.testing.assert_allclose(score[margin], 1, rtol=1e-9)
        assert np.all(score[inside] < 1 - 1e-9)
        assert np.all(score[outside] > 1 + 1e-9)
        alpha, cost = atlas.alpha(C_pos, C_neg), np.where(y == 1, C_pos, C_neg)
        np.testing.assert_array_equal(alpha[outside], 0)
        np.testing.assert_allclose(alpha[inside], cost[inside])


def test_flat_arrays_hang_together(small):
    _, _, atlas = small
    F = atlas.facet_layer.size
    own = np.repeat(np.arange(F), np.diff(atlas.facet_at))
    assert np.all(np.any(atlas.edge_facets[atlas.facet_edges] == own[:, None], axis=1))
    for f in (0, 7, F - 1):
        places = slice(atlas.facet_at[f], atlas.facet_at[f + 1])
        np.testing.assert_allclose(atlas.vertices[atlas.facet_vertices[places]], atlas.polygon(f))
    assert atlas.edge_at[0] == 0
    assert atlas.edge_at[-1] == len(atlas.edge_events)
    for e in np.flatnonzero(atlas.edge_facets[:, 1] >= 0)[::97]:
        a, b = (atlas.partition(f) for f in atlas.edge_facets[e])
        events = atlas.edge_events[atlas.edge_at[e] : atlas.edge_at[e + 1]]
        for row, kind in events:
            place = [next(k for k, rows in enumerate(p) if row in rows) for p in (a, b)]
            assert sorted(place) == [0, 2 if kind == 0 else 1]
        assert set(a.margin) ^ set(b.margin) == set(events[:, 0])
    assert atlas.facet_parent[0] == -1
    assert np.all(atlas.facet_layer[atlas.facet_parent[1:]] == atlas.facet_layer[1:] - 1)
    assert atlas.n_layers == atlas.facet_layer.max() + 1
    with pytest.raises(ValueError, match="read-only"):
        atlas.edge_facets[0, 0] = 3


@pytest.mark.parametrize("limit", [1, 10, 300])
def test_max_facets(limit, small):
    A, y, whole = small
    atlas = svmatlas.explore(A, y, max_facets=limit)
    report = atlas.validate()
    assert report.ok, str(report)
    assert not report.complete
    assert report.n_open_edges > 0
    assert report.coverage < 1
    assert atlas._canonical.split.tie.size == limit
    assert 0 < atlas.n_facets <= limit
    np.testing.assert_array_equal(atlas.coef(1e-4, 1e-4), whole.coef(1e-4, 1e-4))
    with pytest.raises(ValueError, match="outside the explored part"):
        atlas.coef(1e5, 1e5)


def test_exactly_enough_facets_is_complete(small):
    A, y, _ = small
    n_pieces = explore_pieces(A, y).n_pieces
    assert svmatlas.explore(A, y, max_facets=n_pieces).complete
    assert not svmatlas.explore(A, y, max_facets=n_pieces - 1).complete


@pytest.mark.alone
@pytest.mark.usefixtures("small")  # which compiles
def test_time_budget():
    A, y = cases.breast_cancer()
    begin = time.monotonic()
    atlas = svmatlas.explore(A, y, time_budget=0.5)
    assert time.monotonic() - begin < 5
    assert not atlas.complete
    assert atlas.validate(n_costs=10).ok


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_interrupt_keeps_what_is_done(n_jobs, monkeypatch):
    A, y = cases.gaussian(75, 75, 3, 1.0)
    # A hundred tiles: far from done after twelve waits, however many each ends; by then the first ones hang together
    monkeypatch.setattr(SETTINGS, "events_per_tile", 24)
    wait, calls = survey.wait, iter(range(10**6))

    def interrupted(*arguments, **options):
        if next(calls) == 12:
            signal.raise_signal(signal.SIGINT)
        return wait(*arguments, **options)

    monkeypatch.setattr(survey, "wait", interrupted)
    atlas = svmatlas.explore(A, y, n_jobs=n_jobs)
    assert not atlas.complete
    assert atlas.n_facets > 100
    report = atlas.validate()
    assert report.ok, str(report)


def test_progress_bar(small, capsys):
    A, y, whole = small
    svmatlas.explore(A, y, progress=True)
    text = capsys.readouterr().err
    n_plateaus = int(whole._canonical.split.plateau.sum())  # which are put together in the end
    assert f"{whole.n_pieces - n_plateaus} facets" in text
    assert "1/1" in text
    assert "100%" in text


@pytest.mark.parametrize(
    "run",
    [
        partial(svmatlas.select, cv=3),
        partial(svmatlas.select, cv=3, rule="one_se"),
        partial(svmatlas.select, cv=3, time_budget=20.0),
        partial(svmatlas.select, cv=3, tolerance=0.02),
        partial(svmatlas.roc_frontier, cv=3),
    ],
    ids=["select", "one standard error", "time", "tolerance", "roc"],
)
def test_bars_have_a_share_and_the_time_left(run, capsys, monkeypatch):
    """Of a table with a binary column: a share that never falls, up to all of it; no number that is not known."""
    monkeypatch.setattr(tqdm.auto, "tqdm", partial(tqdm.auto.tqdm, mininterval=0.0, miniters=0))
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3 == 0
    X = np.column_stack([rng.normal(size=60) + y, rng.integers(0, 2, 60)])
    run(X, y, progress=True)
    text = capsys.readouterr().err
    shares = [int(share) for share in re.findall(r"(\d+)%", text)]
    assert shares[0] == 0
    assert shares == sorted(shares)
    assert shares[-1] == 100
    if not {"time_budget", "tolerance"} & run.keywords.keys():  # else so few rows may take one step
        assert len(set(shares)) > 2
    assert re.search(r"\[\d\d:\d\d<\d\d:\d\d", text)  # gone, and left
    assert "inf" not in text
    assert "nan" not in text


def test_locate_finds_the_facet_that_holds_the_costs(small):
    _, _, atlas = small
    rng = np.random.default_rng(1)
    for f in rng.choice(atlas.n_facets, 100, replace=False):
        corners = atlas.polygon(f)
        p, q, l = (corners / corners.sum(axis=1, keepdims=True)).mean(axis=0)
        assert atlas.locate(p / l, q / l) == f
