"""The search at any time: the interpolation ball, and bounds that hold at every moment."""

from __future__ import annotations

import pickle

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_wine
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.preprocessing import StandardScaler

import svmatlas
from svmatlas.choose import boxes, curves, scoring
from svmatlas.choose.arcs import ArcWalker
from svmatlas.choose.ball import decide, pairwise_gaps
from svmatlas.choose.corners import Solver
from svmatlas.choose.strips import Rows, possible_counts
from svmatlas.data.problem import make_problem
from svmatlas.engine.workspace import INSIDE
from svmatlas.support.settings import SETTINGS
from svmatlas.support.stopping import NEVER, Limit, Stopped
from tests import brute, cases, searches
from tests.test_select import REGION, noisy

CASES = {
    "plain": lambda: noisy(50, 3, 1),
    "tied": lambda: (np.random.default_rng(2).integers(0, 3, (50, 4)).astype(float), np.arange(50) % 3 == 0),
    "repeated": lambda: tuple(np.concatenate([a, a]) for a in noisy(30, 3, 3)),
    "unscaled": lambda: (noisy(30, 3, 4)[0] * [1.0, 1e3, 1e-2], noisy(30, 3, 4)[1]),
    "few positive": lambda: (noisy(30, 3, 5)[0], np.arange(30) % 9 == 3),
    "wine": lambda: (load_wine().data[30:100, 2:5], load_wine().target[30:100]),
}


def solver_of(X, y, train):
    problem = make_problem(X[train], y[train], 1.0, None, 0)
    return Solver(problem, problem.features.coordinates(X))


@pytest.mark.parametrize("seed", range(len(searches.KINDS)))
def test_tables_as_people_have_them(seed):
    assert searches.trial(seed) in {"certified", "bounded", "no time"}


@pytest.mark.parametrize("seed", [2, 3])
def test_starts_with_dependent_rows_on_the_margin(seed):
    """The first solution is that of an interior point, with all tied rows on the margin: no facet has that partition."""
    X, y = cases.segments(seed)
    how = {"cv": 3, "preprocessor": StandardScaler(), "scoring": "balanced_accuracy"}
    found = svmatlas.select(X, y, tolerance=0.0, **how)
    assert found.certified
    assert found.best_score == pytest.approx(svmatlas.select(X, y, **how).best_score, abs=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_rows_that_the_ball_decides_are_decided(name):
    """At random costs of random boxes the models predict what the corners of the box say."""
    X, y = CASES[name]()
    rng, train = np.random.default_rng(0), np.arange(len(y)) % 3 != 1
    solver = solver_of(X, y, train)
    square, n_decided = np.sum(solver.rows**2, axis=1), 0
    for _ in range(12):
        low, width = 10.0 ** rng.uniform(-4, 3, 2), 10.0 ** rng.uniform(0, rng.choice([0.03, 0.3, 1.0]), 2)
        sizes = [(1, 1), (width[0], 1), (width[0], width[1]), (1, width[1])]
        corners = [solver.solve(tuple(low * size), NEVER) for size in sizes]
        positive, negative = decide(corners, square)
        n_decided += int(np.sum(positive | negative))
        for share in rng.uniform(size=(4, 2)):
            value = solver.solve(tuple(low * (1 + share * (width - 1))), NEVER, corners[0].near).value
            assert np.all(value[positive] > 0)
            assert np.all(value[negative] < 0)
    assert n_decided > 0


@pytest.mark.parametrize("name", CASES)
def test_no_solution_leaves_the_ball(name):
    """Of three corners: |beta(c) - b|^2 is at most the sum of the products of weights and gaps."""
    X, y = CASES[name]()
    rng = np.random.default_rng(1)
    solver = solver_of(X, y, np.arange(len(y)))
    for _ in range(8):
        costs = 10.0 ** (rng.uniform(-3, 2, 2) + rng.uniform(-0.5, 0.5, (3, 2)))
        corners = [solver.solve(tuple(cost), NEVER) for cost in costs]
        g, weights = pairwise_gaps(corners), rng.dirichlet(np.ones(3))
        middle = solver.solve(tuple(weights @ costs), NEVER)
        b = weights @ np.array([corner.beta for corner in corners])
        bound = weights @ g @ weights / 2 + weights @ [corner.gap for corner in corners]
        assert np.sqrt(np.sum((middle.beta - b) ** 2)) <= np.sqrt(bound) + 1e-6 * np.sqrt(b @ b)


@pytest.mark.parametrize("name", CASES)
def test_walks_and_guesses_end_in_the_solution(name):
    X, y = CASES[name]()
    rng = np.random.default_rng(2)
    solver = solver_of(X, y, np.arange(len(y)))
    near = solver.solve((0.1, 0.2), NEVER).near
    for costs in 10.0 ** rng.uniform(-3, 3, (6, 2)):
        plain = solver.solve(tuple(costs), NEVER)
        for events in (0, 10**6):
            other = solver.solve(tuple(costs), NEVER, near, events)
            np.testing.assert_allclose(other.value, plain.value, rtol=1e-6, atol=1e-8 * np.abs(plain.value).max())


@pytest.mark.parametrize("name", CASES)
def test_rows_without_curves_in_a_tile_have_one_sign_there(name, monkeypatch):
    """Scores of rows that are left out have the same sign at all vertices of a tile, but for infinity."""
    monkeypatch.setattr(SETTINGS, "one_tile_points", 4)
    monkeypatch.setattr(SETTINGS, "events_per_tile", 9)
    X, y = CASES[name]()
    undecided, seen = curves._undecided, [0, 0]

    def checked(rows, vertices, beta):
        which = undecided(rows, vertices, beta)
        left_out = np.setdiff1d(np.arange(len(rows)), which)
        score = beta[vertices[:, 2] > 0] @ rows[left_out].T
        assert np.all(np.all(score > 0, axis=0) | np.all(score < 0, axis=0))
        seen[:] = seen[0] + left_out.size, seen[1] + which.size
        return which

    monkeypatch.setattr(curves, "_undecided", checked)
    svmatlas.select(X, y, cv=3)
    assert min(seen) > 0
    svmatlas.select(X, y, cv=3, scoring="roc_auc", tolerance=0.1)  # pairs, plateaus and all


# ----------------------------------------------------------------------------------------------------------------------
# Arcs and what is between them


def arcs_of(solver, side, low, high):
    """Two arcs from ratio 1 down to the axis."""
    walker, state = ArcWalker(solver.problem), np.full(solver.problem.n_points, INSIDE, dtype=np.int8)
    return walker, [walker.follow(walker.climb(state, side, 1.0, s, NEVER), side, s, 0.0, 1.0, NEVER) for s in (low, high)]


def costs_of(side, size, ratio):
    return (size, size * ratio) if side == 0 else (size * ratio, size)


@pytest.mark.parametrize("name", CASES)
def test_an_arc_is_a_path_of_solutions(name):
    """At its knots and between them: the weights and losses of models, up to the gap that is claimed."""
    X, y = CASES[name]()
    solver, rng = solver_of(X, y, np.arange(len(y))), np.random.default_rng(3)
    for side in range(2):
        for knots in arcs_of(solver, side, *10.0 ** rng.uniform([-3, 0], [0, 3]))[1]:
            assert np.all(np.diff(knots.ratio) >= 0)
            part = knots.piece(0.2, 0.8)
            tried = np.append(rng.choice(knots.ratio[1:], 3), rng.uniform(0.2, 0.8, 3))
            for ratio in tried[tried > 1e-6]:
                corner = solver.solve(costs_of(side, knots.size, ratio), NEVER)
                for one in (knots, part) if 0.2 <= ratio <= 0.8 else (knots,):
                    beta, loss, gap, _ = (a[0] for a in one.at(np.array([ratio])))
                    assert np.linalg.norm(beta - corner.beta) <= np.sqrt(2 * gap) + np.sqrt(2 * corner.gap) + 1e-6
                    np.testing.assert_allclose(loss, corner.loss, atol=1e-6 * (1 + corner.loss.max()))


@pytest.mark.parametrize("name", CASES)
def test_what_two_arcs_say_holds_between_them(name):
    """At random costs between two arcs: the models are right about no more rows than the arcs allow."""
    X, y = CASES[name]()
    y = np.asarray(y) == np.max(y)
    rng, train = np.random.default_rng(4), np.arange(len(y)) % 3 != 1
    solver, n_decided = solver_of(X, y, train), 0
    rows = Rows.of(solver.rows, np.array([y, ~y], dtype=np.int64), np.zeros(y.size, dtype=np.int64), 1)
    for trial in range(6):
        side, low = trial % 2, 10.0 ** rng.uniform(-3, 2)
        high = low * 10.0 ** [0.001, 0.02, 0.2][trial // 2]
        walker, arcs = arcs_of(solver, side, low, high)
        edges, unit = np.linspace(0.0, 1.0, 11), walker.internal(1.0)
        possible = possible_counts(*arcs, np.linspace(0.01, 0.99, 99), edges, side, unit, rows)
        n_decided += np.sum(np.abs(possible.sure) == 1)
        for ratio, share in rng.uniform([0.01, 0], 1, size=(6, 2)):
            positive = solver.solve(costs_of(side, low + share * (high - low), ratio), NEVER).value > 0
            k = np.searchsorted(possible.ratio, ratio, side="right") - 1
            assert np.all([np.sum(positive & y), np.sum(~positive & ~y)] <= possible.counts[k, :, 0])
            known = possible.sure[np.searchsorted(edges, ratio, side="right") - 1]
            assert np.all(positive[known == 1])
            assert not np.any(positive[known == -1])
    assert n_decided > 0


# ----------------------------------------------------------------------------------------------------------------------
# The search


class Watched:
    """Boxes that are halved often, and each step of the search on record; after so many steps it is time to stop.

    Whole maps, in many regions, are begun after some steps.
    """

    def __init__(self, most_steps=10**9, maps_after=10**9):
        self.steps, self.most_steps, self.maps_after = [], most_steps, maps_after

    def __enter__(self):
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(boxes, "MOST", 200)
        self.patch.setattr(boxes, "FEW", 50)
        self.patch.setattr(boxes, "SMALL", 0)
        self.patch.setattr(boxes, "SQUARES", 500.0)
        self.patch.setattr(SETTINGS, "maps_share", np.inf)
        step = boxes.BoxSearch._step

        def watched(search, limit):
            self.steps.append((search.best.score, search.upper))
            if len(self.steps) > self.most_steps:
                raise Stopped
            if len(self.steps) == self.maps_after:
                self.patch.setattr(SETTINGS, "maps_share", 0.0)
            step(search, limit)

        self.patch.setattr(boxes.BoxSearch, "_step", watched)
        return self

    def __exit__(self, *_):
        self.patch.undo()


@settings(max_examples=8)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(12, 30),
    d=st.integers(1, 3),
    tied=st.booleans(),
    score=st.sampled_from([scoring.accuracy, scoring.balanced_accuracy, scoring.fbeta(1.0)]),
    maps_after=st.sampled_from([1, 5, 20, 10**9]),
)
def test_at_every_moment_the_truth_is_between_score_and_bound(seed, n, d, tied, score, maps_after):
    X, y = noisy(n, d, seed, 0.5)
    if tied:
        X = np.random.default_rng(seed).integers(0, 3, size=(n, d)).astype(float)
    splits = list(StratifiedKFold(3).split(X, y))
    truth = brute.best_cells(X, y, splits, score, REGION)[0]
    with Watched(maps_after=maps_after) as watched:
        selection = svmatlas.select(X, y, cv=splits, scoring=score, region=REGION, tolerance=0.0)
    best, upper = np.array(watched.steps).T
    assert np.all(best[1:] >= best[:-1])
    assert np.all(upper[1:] <= upper[:-1])
    assert np.all((best <= truth + 1e-12) & (truth <= upper + 1e-12))
    assert selection.certified
    assert selection.best_score == pytest.approx(truth, abs=1e-12)
    whole = svmatlas.select(X, y, cv=splits, scoring=score, region=REGION)
    assert len(selection.cells) == len(whole.cells)
    assert [cell.at_edge for cell in selection.cells] == [cell.at_edge for cell in whole.cells]


@pytest.mark.parametrize(("name", "steps"), [("plain", 1), ("tied", 1), *((name, 30) for name in CASES)])
def test_what_was_found_in_time_is_true(name, steps):
    X, y = CASES[name]()
    y = np.asarray(y).astype(int)
    exact = svmatlas.select(X, y, cv=3, tolerance=0.0)
    with Watched(steps):
        part = svmatlas.select(X, y, cv=3, time_budget=1000.0)
    assert part.best_score <= exact.best_score + 1e-12 <= part.upper_bound + 2e-12
    scores = cross_val_score(svmatlas.AsymmetricSVC(part.C_pos, part.C_neg), X, y, cv=3, scoring="balanced_accuracy")
    assert scores.mean() == pytest.approx(part.best_score, abs=1e-12)
    assert part.cell.contains(part.C_pos, part.C_neg)
    assert part.score_at(part.C_pos, part.C_neg) == pytest.approx(part.best_score, abs=1e-12)
    assert part.score_at(0.37, 0.21) == pytest.approx(svmatlas.select(X, y, cv=3).score_at(0.37, 0.21), abs=1e-12)


def one_hot(n, sizes, seed):
    rng = np.random.default_rng(seed)
    X = np.concatenate([np.eye(k)[rng.integers(0, k, n)] for k in sizes], axis=1)
    value = X @ rng.normal(size=X.shape[1]) + rng.normal(size=n)
    return X, (value > np.quantile(value, 0.7)).astype(int)


HOSTILE = {
    "one-hot": lambda: one_hot(90, (3, 4, 2), 1),
    "offset": lambda: (noisy(90, 3, 2)[0] + 100.0, noisy(90, 3, 2)[1]),
    "wide": lambda: noisy(40, 120, 3),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_after_some_steps_no_grid_is_better(name):
    """These steps take less time than the fits of a grid of exact models."""
    X, y = HOSTILE[name]()
    with Watched(40):
        found = svmatlas.select(X, y, cv=3, time_budget=1000.0)
    costs = np.logspace(-3, 3, 6)
    assert found.best_score >= found.score_at(*(axis.ravel() for axis in np.meshgrid(costs, costs))).max() - 1e-12


def test_a_tolerance_ends_the_search_and_is_kept():
    X, y = noisy(80, 3, 6)
    exact = svmatlas.select(X, y, cv=4)
    for tolerance in (0.2, 0.05, 0.0):
        part = svmatlas.select(X, y, cv=4, tolerance=tolerance)
        assert part.upper_bound - part.best_score <= tolerance + 1e-12
        assert part.best_score <= exact.best_score + 1e-12 <= part.upper_bound + 2e-12
        assert part.certified == (part.upper_bound == part.best_score)
    assert part.best_score == exact.best_score
    assert len(part.cells) == len(exact.cells)


@pytest.mark.parametrize("maps_after", [1, 12, 10**9])
def test_cells_that_reach_over_boxes_are_joined(maps_after):
    """Of separable data the cell of the best score reaches from small costs to infinity."""
    X, y = noisy(40, 3, shift=4.0)
    exact = svmatlas.select(X, y, cv=3)
    with Watched(maps_after=maps_after):
        part = svmatlas.select(X, y, cv=3, time_budget=1000.0)
    assert part.certified
    assert part.best_score == exact.best_score == 1.0
    assert len(part.cells) == len(exact.cells)
    assert part.cell.unbounded
    # Areas are sums over pieces, which are cut elsewhere, and are straight in costs, not in decades
    np.testing.assert_allclose([c.area for c in part.cells], [c.area for c in exact.cells], rtol=1e-3)


@pytest.mark.parametrize("name", ["plain", "tied", "few positive"])
def test_the_area_under_the_roc_curve_is_bounded(name):
    """The score is scikit-learn's, no costs of a grid exceed the bound, and the tolerance is kept."""
    X, y = CASES[name]()
    y = np.asarray(y).astype(int)
    found = svmatlas.select(X, y, cv=3, scoring="roc_auc", tolerance=0.05)
    assert found.best_score <= found.upper_bound <= found.best_score + 0.05 + 1e-12

    def score(C_pos, C_neg):
        return cross_val_score(svmatlas.AsymmetricSVC(C_pos, C_neg), X, y, cv=3, scoring="roc_auc").mean()

    assert score(found.C_pos, found.C_neg) >= found.best_score - 1e-12
    assert name == "tied" or score(found.C_pos, found.C_neg) == pytest.approx(found.best_score, abs=1e-12)
    for costs in 10.0 ** np.random.default_rng(0).uniform(-3, 2, (12, 2)):
        assert score(*costs) <= found.upper_bound + 1e-12


@pytest.mark.parametrize(
    ("arguments", "text"),
    [({"threshold": "tuned"}, "no threshold"), ({"rule": "one_se"}, "rule='one_se'"), ({"kernel": "rbf"}, "linear kernel")],
)
def test_rankings_have_their_limits(arguments, text):
    with pytest.raises(ValueError, match=text):
        svmatlas.select(*noisy(30, 2), cv=2, scoring="roc_auc", **arguments)


class Counted(joblib.parallel.SequentialBackend):
    """A backend of the user's."""

    n_calls = 0

    def effective_n_jobs(self, n_jobs):
        return 1

    def submit(self, func, callback=None):
        Counted.n_calls += 1
        return super().submit(func, callback)

    def configure(self, n_jobs=1, **_):
        Counted.n_calls += 1
        return 1


def same(one, other):
    """What is the same of two selections, to the last digit."""
    return [(s.best_score, s.upper_bound, s.C_pos, s.C_neg, len(s.cells), s.n_curves) for s in (one, other)]


@pytest.mark.parametrize("more", [{"tolerance": 0.3}, {}])
@pytest.mark.parametrize(("backend", "n_jobs"), [("threading", None), ("counted", None), ("counted", 2), ("loky", None)])
def test_workers_are_those_of_the_backend_that_is_set(backend, n_jobs, more):
    """Also if the number of jobs is said where costs are chosen. Folds and boxes are their work; the result is the same."""
    joblib.register_parallel_backend("counted", Counted)
    X, y = noisy(110, 2, 7)
    plain, before = svmatlas.select(X, y, cv=2, **more), Counted.n_calls
    with joblib.parallel_config(backend=backend, n_jobs=2 if n_jobs is None else 1):
        one, other = same(plain, svmatlas.select(X, y, cv=2, n_jobs=n_jobs, **more))
    assert one == other
    assert (Counted.n_calls > before) == (backend == "counted")


def test_the_classifier_works_through_the_backend_that_is_set():
    joblib.register_parallel_backend("counted", Counted)
    X, y = noisy(110, 2, 7)
    plain, before = svmatlas.AsymmetricSVCCV(cv=2).fit(X, y), Counted.n_calls
    with joblib.parallel_config(backend="counted", n_jobs=2):
        other = svmatlas.AsymmetricSVCCV(cv=2).fit(X, y)
    assert (other.best_score_, other.C_pos_, other.C_neg_) == (plain.best_score_, plain.C_pos_, plain.C_neg_)
    assert Counted.n_calls > before


@pytest.mark.parametrize("name", CASES)
def test_no_solution_leaves_the_ball_of_an_end(name):
    """Along a ray, with either end: |beta(c) - (beta_2 + b) / 2|^2 <= lambda_1 e_1 + lambda_1^2 |beta_2 - beta_1|^2 / 4."""
    X, y = CASES[name]()
    rng = np.random.default_rng(6)
    solver = solver_of(X, y, np.arange(len(y)))
    for _ in range(8):
        costs = 10.0 ** rng.uniform(-3, 2, 2)
        ends = [solver.solve(tuple(size * costs), NEVER) for size in (1.0, 10.0 ** rng.uniform(0, 4))]
        share = rng.uniform()
        middle = solver.solve(tuple(share * np.array(ends[0].costs) + (1 - share) * np.array(ends[1].costs)), NEVER)
        for (one, two), weight in ((ends, share), (ends[::-1], 1 - share)):
            step = two.beta - one.beta
            e = one.beta @ step + one.internal @ (two.loss - one.loss)
            radius = weight * e + weight**2 * (step @ step) / 4
            off = np.linalg.norm(middle.beta - (two.beta - weight * step / 2))
            assert off <= np.sqrt(max(radius, 0.0) + one.gap + two.gap + 2 * middle.gap) + 1e-6 * np.linalg.norm(two.beta)


def test_the_time_that_is_left_goes_to_other_processes():
    limit = pickle.loads(pickle.dumps(Limit(100.0)))
    assert 90.0 < limit.left <= 100.0


def test_scores_at_many_costs_are_those_at_each():
    """Also far out, where a line that parts costs has the whole box on one side."""
    X, y = cases.one_hot()
    selection = svmatlas.select(X, y, cv=3, tolerance=0.02)
    p, q = (v.ravel() for v in np.meshgrid(10.0 ** np.arange(-1, 14, 0.5), 10.0 ** np.arange(0.5, 14, 0.5)))
    together = selection.scores_on_map(p, q)
    for k in range(0, p.size, 37):
        np.testing.assert_array_equal(together[k], selection.scores_on_map(p[k : k + 1], q[k : k + 1])[0])


def test_rays_that_have_no_time_cost_nothing_but_time(monkeypatch):
    """They only tell where events are: without them there is a result, too, and the best one in the end."""
    rng = np.random.default_rng(0)
    X, y = np.eye(3)[rng.integers(0, 3, 60)] + 0.5 * rng.normal(size=(60, 3)), np.arange(60) % 3 == 0
    best = svmatlas.select(X, y, cv=3)
    monkeypatch.setattr(boxes, "RAYS_SHARE", 0.0)
    found = svmatlas.select(X, y, cv=3, time_budget=60.0, tolerance=1e-9)
    assert found.certified
    assert found.best_score == pytest.approx(best.best_score, abs=1e-12)
