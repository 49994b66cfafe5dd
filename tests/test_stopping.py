"""Ctrl-C and budgets of time: what there is so far, or KeyboardInterrupt, and soon."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from functools import partial

import numpy as np
import pytest
from sklearn.datasets import make_moons

import svmatlas
from svmatlas.atlas import budget, stream, survey
from svmatlas.choose import overlay
from svmatlas.engine.arena import TIE
from svmatlas.engine.exact import ExactFacet, ExactProblem, solve_integer
from svmatlas.support import stopping
from svmatlas.support.settings import SETTINGS
from svmatlas.support.stopping import Limit, Stopped, stoppable
from tests import cases

pytestmark = pytest.mark.alone

LATE = 2.0
"""Seconds that a call may go on after its budget."""


def press_ctrl_c(seconds):
    """Send the signal of Ctrl-C to this process, after a while."""
    signal.signal(signal.SIGALRM, _press)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _press(_, frame):
    """Python swallows what is raised while it frees an object: press a moment later, as a person would press again."""
    if _frees_an_object(frame):
        signal.setitimer(signal.ITIMER_REAL, 1e-4)
    else:
        signal.raise_signal(signal.SIGINT)


def _frees_an_object(frame):
    """Whether the frame, or one that called it, is a finalizer or the callback of a weak reference."""
    while frame is not None:
        if frame.f_code.co_name == "__del__" or frame.f_code.co_filename.endswith(("weakref.py", "_weakrefset.py")):
            return True
        frame = frame.f_back
    return False


@pytest.fixture
def _handlers():
    """No alarm is left behind."""
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def outcome_of(call, seconds):
    """What becomes of a call when Ctrl-C is pressed after a while, and what it returns.

    Ctrl-C may also come just before or after the call.
    """
    try:
        press_ctrl_c(seconds)
        try:
            result = call()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            time.sleep(0.0)  # a signal that has arrived is handled here
    except KeyboardInterrupt:
        return "KeyboardInterrupt", None
    whole = getattr(result, "complete", getattr(result, "certified", True))
    return "complete" if whole else "partial", result


def calls():
    """Public calls of some 0.1 s."""
    X, y = cases.gaussian(50, 50, 3, 1.0)
    B, b = cases.binary()
    M, m = make_moons(60, noise=0.2, random_state=0)
    wide = np.vstack([X + 0.1 * k for k in range(8)])
    atlas = svmatlas.explore(X, y)
    return {
        "explore": lambda: svmatlas.explore(X, y),
        "explore in threads": lambda: svmatlas.explore(X, y, n_jobs=2),
        "explore ties": lambda: svmatlas.explore(B, b, region=((0.1, 1), (0.1, 1))),
        "explore rbf": lambda: svmatlas.explore(M, m, kernel="rbf"),
        "select": lambda: svmatlas.select(X[20:80], y[20:80], cv=2),
        "select with a budget": lambda: svmatlas.select(X[20:80], y[20:80], cv=2, time_budget=30.0),
        "roc_frontier": lambda: svmatlas.roc_frontier(X[30:70], y[30:70], cv=2),
        "ray": lambda: svmatlas.ray(wide, np.tile(y, 8)),
        "segment": lambda: svmatlas.segment(wide, np.tile(y, 8), (0.01, 1.0), (1.0, 0.02)),
        "estimate": lambda: svmatlas.estimate(X, y),
        "tiles": lambda: list(svmatlas.tiles(X, y)),
        "validate": atlas.validate,
        "AsymmetricSVC": lambda: svmatlas.AsymmetricSVC().fit(wide, np.tile(y, 8)),
        "AsymmetricSVCCV": lambda: svmatlas.AsymmetricSVCCV(cv=2).fit(X[30:70], y[30:70]),
    }


@pytest.mark.usefixtures("_handlers")
def test_interrupts_at_random_times():
    """Nothing but what there is so far, or KeyboardInterrupt; and what there is is right."""
    random, outcomes = np.random.default_rng(0), {}
    for name, call in calls().items():
        call()  # compiles
        begin = time.monotonic()
        call()
        seconds = time.monotonic() - begin
        outcomes[name] = Counter()
        for k in range(15):
            outcome, result = outcome_of(call, random.uniform(1e-4, max(seconds, 2e-4)))
            outcomes[name][outcome] += 1
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
            if outcome == "partial" and name.startswith("explore") and k < 5:
                assert result.validate(n_costs=10).ok
            if outcome == "partial" and name.startswith("select"):
                assert result.best_score <= result.upper_bound
                assert result.score_at(result.C_pos, result.C_neg) == pytest.approx(result.best_score)
    total = sum(outcomes.values(), Counter())
    assert total.total() >= 200
    assert set(total) == {"complete", "partial", "KeyboardInterrupt"}
    some = {name for name, counts in outcomes.items() if counts["partial"] > 0}
    assert {"explore ties", "explore rbf", "select with a budget"} <= some
    assert some <= {name for name in outcomes if name.startswith(("explore", "select"))}


@pytest.mark.usefixtures("_handlers")
def test_an_interrupt_is_answered_soon():
    """Also in ties, where a facet takes long, and in exact arithmetic."""
    X, y = cases.breast_cancer()
    k = np.arange(1000)
    B = np.hstack([np.eye(20)[k * k % 20], np.eye(19)[3 * k % 19], np.eye(17)[(5 * k + k // 7) % 17]])
    for call in (lambda: svmatlas.explore(X, y), lambda: svmatlas.explore(B, k % 5 == 0)):
        begin = time.monotonic()
        outcome, result = outcome_of(call, 0.7)
        assert time.monotonic() - begin < 0.7 + LATE
        assert outcome == "partial"
        assert result.n_facets > 0


@pytest.mark.usefixtures("_handlers")
def test_one_standard_error_has_a_result_after_an_interrupt():
    """Folds that the interrupt found undone are known in a small box, where all of them begin."""
    X, y = cases.breast_cancer()
    svmatlas.select(X[::10], y[::10], cv=2, rule="one_se")
    outcome, result = outcome_of(lambda: svmatlas.select(X, y, rule="one_se", time_budget=100.0), 1.5)
    assert outcome == "partial"
    assert result.best_score <= result.upper_bound


@pytest.mark.usefixtures("_handlers")
def test_a_second_interrupt_ends_a_call_at_once():
    def go_on():
        with stoppable() as limit:
            signal.raise_signal(signal.SIGINT)
            assert limit.expired
            signal.raise_signal(signal.SIGINT)
            pytest.fail("it went on")

    with pytest.raises(KeyboardInterrupt):
        go_on()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_a_kernel_makes_of_an_interrupt_is_one():
    def fail(interrupted):
        with stoppable() as limit:
            limit.note.interrupted = interrupted
            raise SystemError("returned a result with an exception set")

    with pytest.raises(KeyboardInterrupt):
        fail(interrupted=True)
    with pytest.raises(SystemError):
        fail(interrupted=False)


def test_an_interrupt_is_answered_by_a_result_or_raised():
    with stoppable() as limit:
        signal.raise_signal(signal.SIGINT)
        limit.answered = True
    with pytest.raises(KeyboardInterrupt), stoppable():
        signal.raise_signal(signal.SIGINT)

    def nested():
        with stoppable():
            with stoppable() as inner:
                signal.raise_signal(signal.SIGINT)
                inner.answered = True
            assert inner.interrupted

    with pytest.raises(KeyboardInterrupt):  # the inner call has its answer, the outer one does not
        nested()


def test_handlers_of_others_stay(small):
    X, y, _ = small
    seen = []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append(1))
    try:
        with stoppable() as limit:
            signal.raise_signal(signal.SIGINT)
            assert not limit.expired
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen
    for tile in svmatlas.tiles(X, y):  # between two tiles Ctrl-C is the user's
        assert tile.complete
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_have_no_signals(small):
    X, y, whole = small
    found = []
    thread = threading.Thread(target=lambda: found.append(svmatlas.explore(X, y)))
    thread.start()
    thread.join()
    assert found[0].n_facets == whole.n_facets


def moons():
    """A wide kernel: its rows are nearly dependent, and some facets take exact arithmetic of seconds."""
    X, y = make_moons(200, noise=0.3, random_state=0)
    return X, y, {"kernel": "rbf", "gamma": 0.05}


def text():
    """Wide rows: a facet takes as long as hundreds do elsewhere."""
    random = np.random.default_rng(0)
    X = np.where(random.random((300, 1000)) < 0.01, random.random((300, 1000)), 0.0)
    return X, random.integers(0, 2, 300), {}


def one_hot():
    random = np.random.default_rng(0)
    return np.hstack([np.eye(6)[random.integers(0, 6, 300)] for _ in range(4)]), random.integers(0, 2, 300), {}


@pytest.fixture(scope="module")
def _compiled():
    """Kernels are compiled once, whatever the budget."""
    X, y = cases.gaussian(60, 60, 3, 1.0)
    svmatlas.explore(X, y, time_budget=0.1)
    svmatlas.estimate(X, y, time_budget=0.1)
    svmatlas.select(X, y, cv=2, time_budget=1.0)


@pytest.mark.usefixtures("_compiled")
@pytest.mark.parametrize("make", [moons, text, one_hot])
def test_budgets_hold(make):
    X, y, options = make()
    for call, seconds in ((svmatlas.explore, 2.0), (svmatlas.estimate, 1.0), (partial(svmatlas.select, cv=2), 3.0)):
        begin = time.monotonic()
        result = call(X, y, time_budget=seconds, **options)
        assert time.monotonic() - begin < seconds + LATE
        if isinstance(result, svmatlas.Atlas):
            assert result.validate(n_costs=10).ok
        elif isinstance(result, svmatlas.Selection):
            assert result.score_at(result.C_pos, result.C_neg) == pytest.approx(result.best_score)
            assert result.certified or result.upper_bound > result.best_score


@pytest.mark.usefixtures("_compiled")
def test_folds_that_are_late_leave_a_result(monkeypatch):
    """The models where the search starts, and those of the best cell, are fitted when the time is over, too."""
    X, y = cases.gaussian(20, 20, 2, 1.0)
    follow = overlay._follow_curves

    def late(*arguments):
        curves = follow(*arguments)
        time.sleep(1.0)
        return curves

    monkeypatch.setattr(overlay, "_follow_curves", late)
    part = svmatlas.select(X, y, cv=2, time_budget=1.5)
    assert part.upper_bound >= part.best_score


def test_a_budget_too_small_for_anything_is_an_error():
    X, y = cases.gaussian(60, 60, 3, 1.0)
    with pytest.raises(ValueError, match="give it more time"):
        svmatlas.select(X, y, time_budget=1e-9)
    with pytest.raises(ValueError, match="give it more time"):
        svmatlas.explore(X, y, region=((1.0, 2.0), (1.0, 2.0)), time_budget=1e-9)


def test_an_estimate_without_time_is_a_lower_bound(monkeypatch):
    X, y, options = moons()
    monkeypatch.setattr(stream, "LATE", 0.01)  # no tile of this map takes less
    rough = svmatlas.estimate(X, y, time_budget=1e-3, **options)
    assert rough.error == np.inf
    assert rough.n_pieces < 50_000  # an exploration of two seconds finds more
    assert "more than" in str(rough)


def test_tiles_that_are_alike_by_chance_are_no_proof(monkeypatch):
    X, y = cases.gaussian(60, 60, 3, 1.0)
    found = [budget.Sample(800.0, 1.0, error=0.0, standard_error=0.0, n_sampled=m, whole=True) for m in (1, 2)]
    monkeypatch.setattr(stream, "samples", lambda *_: iter(found))
    monkeypatch.setattr(SETTINGS, "events_per_tile", 32)
    rough = svmatlas.estimate(X, y)
    assert rough.n_tiles > 10
    assert rough.error > 0.5


def test_exact_arithmetic_is_stopped(small):
    _, _, atlas = small
    problem = ExactProblem(atlas._problem.data, atlas._region, limit=Limit(0.0))
    with pytest.raises(Stopped):
        ExactFacet(problem, atlas._split_states(np.array([5]))[0])
    with pytest.raises(Stopped):
        solve_integer([[1]], [[1]], Limit(0.0).check)


@pytest.mark.parametrize("looks", [2, 10, 60])
def test_a_tile_that_is_stopped_has_what_is_known(looks, monkeypatch):
    """Stopped while exact arithmetic is at work: the facets before are those of the whole tile, in the same order."""
    X, y, _ = cases.decimals_of_low_rank(1063)
    region = ((0.0, np.inf), (0.0, np.inf))
    whole = survey.Surveyor(svmatlas.explore(X, y, max_facets=1)._problem, region)
    every = whole.explore(region)
    assert whole.engine.n_exact > 60

    class Bell(Limit):
        """Strikes at the so-manieth look."""

        count = 0

        @property
        def expired(self):
            Bell.count += 1
            return Bell.count > looks

    part = survey.Surveyor(whole.problem, region).explore(region, limit=Bell())
    n = part.key.size
    assert 0 < n < every.key.size
    np.testing.assert_array_equal(part.key, every.key[:n])
    np.testing.assert_array_equal(part.kind == TIE, every.kind[:n] == TIE)
    np.testing.assert_array_equal(part.code, every.code[: part.at[n]])
    corners, known = part.corner[part.vertex], every.corner[every.vertex[: part.at[n]]]
    np.testing.assert_allclose(corners, known, rtol=1e-9, atol=1e-20)  # facets that come later may know a corner better


def test_a_pace_is_learnt():
    pace = stopping.Pace(4, 1000)
    for _ in range(6):
        time.sleep(0.001 * pace.start())
        pace.stop(pace.size)
    assert 10 <= pace.size <= 60  # 0.05 s of 1 ms each
