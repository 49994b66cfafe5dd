"""Tiles through joblib: other processes, a cluster, workers that die. The map is the same."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import joblib
import numpy as np
import pytest
from joblib.externals.loky import get_reusable_executor

import svmatlas
from svmatlas.atlas import jobs, storing, survey
from svmatlas.choose import arcs
from svmatlas.store.manifest import is_begun, read_manifest
from svmatlas.support.settings import SETTINGS
from tests import cases
from tests.test_tiles import assert_same

DASK = Path(sys.executable).with_name("dask")


@pytest.fixture
def in_tiles(monkeypatch):
    """Cuts are made here: workers take what they are given."""
    monkeypatch.setattr(SETTINGS, "one_tile_points", 4)
    monkeypatch.setattr(SETTINGS, "events_per_tile", 7)


@pytest.fixture(scope="module")
def plain():
    return svmatlas.explore(*cases.lattice())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A scheduler and two workers, by their command lines: the processes of the workers, and a client."""
    distributed = pytest.importorskip("distributed")
    folder = tmp_path_factory.mktemp("cluster")
    address, here = folder / "scheduler.json", ("--host", "127.0.0.1", "--no-dashboard")
    options = {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    processes = [subprocess.Popen([DASK, "scheduler", *here, "--port", "0", "--scheduler-file", address], **options)]
    try:
        worker = [DASK, "worker", *here, "--nthreads", "1", "--no-nanny", "--scheduler-file", address]
        processes += [subprocess.Popen(worker, **options) for _ in range(2)]
        with distributed.Client(scheduler_file=str(address), timeout=60) as client:
            client.wait_for_workers(2, timeout=60)
            yield processes[1:], client
    finally:
        for process in processes:
            process.kill()
            process.wait()


@contextmanager
def killing(path, pids, after):
    """Kill a process as soon as a store has so many tiles."""
    killed = []

    def watch():
        while not killed:
            if is_begun(path) and len(read_manifest(path).done) >= after:
                killed.append(pids()[0])
                os.kill(killed[0], signal.SIGKILL)
            time.sleep(0.002)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        alive = not killed
        killed.append(0)
        thread.join()
    assert not alive, "the map was done before a worker could be killed"


def loky_workers():
    """Processes that loky has started for this one."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"PPid:\t{os.getpid()}\n" in (process / "status").read_text() and b"loky" in (process / "cmdline").read_bytes():
                found.append(int(process.name))
    return sorted(found)[-2:]  # the first is the tracker of resources


def assert_same_map(store, plain):
    assert store.complete
    assert (store.n_facets, store.n_edges, store.n_vertices) == (plain.n_facets, plain.n_edges, plain.n_vertices)
    assert_same(store.atlas(), svmatlas.explore(*cases.lattice()))


def mixed(n=60):
    """A table with a binary and a five-valued column."""
    rng, y = np.random.default_rng(0), np.arange(n) % 3 == 0
    X = rng.normal(size=(n, 3)) + 0.6 * y[:, None]
    X[:, 0], X[:, 1] = rng.random(n) < 0.3 + 0.2 * y, np.clip(np.round(X[:, 1] + 2), 0, 4)
    return X, y


def forbid(*arguments, **options):
    raise AssertionError("this is for the workers to do")


@pytest.mark.alone
@pytest.mark.parametrize("backend", ["dask", "loky"])
def test_workers_explore_the_folds_of_select(backend, cluster, monkeypatch):
    X, y = mixed()
    plain, model = svmatlas.select(X, y, cv=3), svmatlas.AsymmetricSVCCV(cv=3).fit(X, y)
    monkeypatch.setattr(SETTINGS, "one_tile_points", 4)
    monkeypatch.setattr(SETTINGS, "events_per_tile", 30)
    monkeypatch.setattr(survey.Surveyor, "explore", forbid)
    with joblib.parallel_config(backend=backend, n_jobs=2):
        for found in (svmatlas.select(X, y, cv=3), svmatlas.select(X, y, cv=3, n_jobs=2)):
            assert (found.best_score, found.certified) == (plain.best_score, True)
            assert (found.C_pos, found.C_neg) == pytest.approx((plain.C_pos, plain.C_neg), rel=1e-9)
            assert len(found.cells) == len(plain.cells)
        other = svmatlas.AsymmetricSVCCV(cv=3).fit(X, y)
        assert (other.C_pos_, other.C_neg_) == pytest.approx((model.C_pos_, model.C_neg_), rel=1e-9)


@pytest.mark.alone
def test_workers_search_boxes(cluster):
    """A budget of time, and a tolerance: what is certain is the same. The workers are told of the folds once."""
    X, y = mixed(150)
    plain, (_, client) = svmatlas.select(X, y, cv=3, tolerance=0.0), cluster
    before = client.run(time.process_time)
    client.run(lambda: [jobs._known.clear()])
    with joblib.parallel_config(backend="dask"):
        assert_same_choice(svmatlas.select(X, y, cv=3, tolerance=0.0), plain)
        assert max(client.run(lambda: len(jobs._known)).values()) == 1  # however many boxes
        found = svmatlas.select(X, y, cv=3, time_budget=60)
    assert found.best_score <= plain.best_score <= found.upper_bound
    assert all(now > before[worker] for worker, now in client.run(time.process_time).items())


def assert_same_choice(found, plain):
    """Scores and their bound, and all best cells."""
    assert (found.best_score, found.upper_bound, len(found.cells)) == (plain.best_score, plain.upper_bound, len(plain.cells))
    assert (found.C_pos, found.C_neg) == pytest.approx((plain.C_pos, plain.C_neg), rel=1e-9)


class Elsewhere(joblib.parallel.SequentialBackend):
    """Jobs are done at once, but as those of another process."""

    supports_sharedmem = False


def carried(n, d, monkeypatch):
    """The jobs of a search on so many rows: what is done, on how many points, how many knots it is about, and its bytes."""
    joblib.register_parallel_backend("elsewhere", Elsewhere)
    rng, y, found = np.random.default_rng(0), np.arange(n) % 3 == 0, []
    X = np.hstack([mixed(n)[0], rng.normal(size=(n, d - 3))])

    def told(function):
        def job(name, data, *own):
            _, (_, done, arguments) = own[1:]
            knots = sum(part.ratio.size for part in arguments if isinstance(part, arcs.Knots))
            found.append((done.__name__, knots, len(pickle.dumps(own))))
            return joblib.delayed(function)(name, data, *own)

        return job

    monkeypatch.setattr(jobs, "delayed", told)
    monkeypatch.setattr(SETTINGS, "maps_share", 0.0 if n < 100 else np.inf)
    with joblib.parallel_config(backend="elsewhere"):
        svmatlas.select(X, y, cv=2, time_budget=2.0)
    return found


def test_jobs_of_boxes_carry_no_data(monkeypatch):
    """A job has bounds or costs; a partition to start from, a byte a row; or solutions along arcs, which it is about."""
    names = set()
    for n, d in ((60, 3), (600, 3), (600, 12)):
        for name, knots, size in carried(n, d, monkeypatch):
            names.add(name)
            of_rows = {"solve": 1, "follow": 1, "halve": 2 + 4}.get(name, 0)  # bytes: partitions, and numbers of held-out rows
            assert size < 2000 + n * of_rows + 8 * knots * (1 + (d + 1) + 2 + 1 + 1 + 1)  # fields of Knots
    assert names == {"solve", "ray_events", "explore", "follow", "halve"}


@pytest.mark.alone
@pytest.mark.parametrize("backend", ["dask", "loky"])
def test_a_worker_that_is_replaced_is_told_of_the_folds(backend, monkeypatch):
    """The only worker dies, and what it knew with it, before some boxes are searched."""
    distributed = pytest.importorskip("distributed")
    X, y = mixed(150)
    plain, each, calls = svmatlas.select(X, y, cv=3, tolerance=0.0), jobs.Team.each, []

    def kill_before(team, *arguments):
        calls.append(1)
        if len(calls) == 3:
            os.kill(next(iter(client.run(os.getpid).values())) if client else loky_workers()[-1], signal.SIGKILL)
        return each(team, *arguments)

    monkeypatch.setattr(jobs.Team, "each", kill_before)
    with ExitStack() as stack:
        client = None
        if backend == "dask":
            quiet = {"dashboard_address": ":0", "silence_logs": logging.CRITICAL}
            cluster = stack.enter_context(distributed.LocalCluster(n_workers=1, threads_per_worker=1, **quiet))
            client = stack.enter_context(distributed.Client(cluster))
        stack.enter_context(joblib.parallel_config(backend=backend, n_jobs=2))
        assert_same_choice(svmatlas.select(X, y, cv=3, tolerance=0.0), plain)
    assert len(calls) >= 3
    get_reusable_executor().shutdown()


@pytest.mark.alone
def test_a_cluster_of_which_a_worker_dies(cluster, plain, in_tiles, tmp_path):
    workers, client = cluster
    X, y = cases.lattice()
    with joblib.parallel_config(backend="dask"):
        client.run(lambda: [jobs._known.clear()])
        assert_same(svmatlas.explore(X, y), plain)
        kept = client.run(lambda: len(jobs._known))
        assert list(kept.values()) == [1, 1]  # one run, however many tiles
        with killing(tmp_path / "map", lambda: [workers[0].pid], 10):
            store = svmatlas.explore(X, y, store=tmp_path / "map")
    assert_same_map(store, plain)
    assert workers[0].wait(10) == -signal.SIGKILL
    assert len(client.scheduler_info()["workers"]) == 1


@pytest.mark.alone
def test_processes_of_which_one_dies(plain, in_tiles, tmp_path):
    X, y = cases.lattice()
    with joblib.parallel_config(backend="loky", n_jobs=2):
        assert_same(svmatlas.explore(X, y), plain)
        with killing(tmp_path / "map", loky_workers, 10):
            store = svmatlas.explore(X, y, store=tmp_path / "map")
    get_reusable_executor().shutdown()
    assert_same_map(store, plain)


def test_threads_that_joblib_is_told_of(plain, in_tiles, tmp_path, monkeypatch):
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert_same_map(svmatlas.explore(*cases.lattice(), store=tmp_path / "map"), plain)
        threads, explore = set(), survey.Surveyor.explore
        monkeypatch.setattr(
            survey.Surveyor, "explore", lambda *arguments: threads.add(threading.get_ident()) or explore(*arguments)
        )
        assert_same(svmatlas.explore(*cases.lattice()), plain)
        assert len(threads) == 2


def test_workers_that_do_not_see_the_store(plain, in_tiles, tmp_path, monkeypatch):
    """What they found comes back, and is written here."""
    calls = []
    monkeypatch.setattr(storing, "_is_seen", lambda folder, store: calls.append(folder))
    assert_same_map(svmatlas.explore(*cases.lattice(), store=tmp_path / "map"), plain)
    assert len(calls) == len(read_manifest(tmp_path / "map").done) > 20


def test_workers_that_keep_dying_are_given_up(plain, in_tiles, monkeypatch):
    class KilledWorker(Exception):  # noqa: N818 - the name that distributed has for it
        pass

    rounds = []

    def die(*arguments):
        rounds.append(1)
        raise KilledWorker("lost")
        yield

    monkeypatch.setattr(jobs.Crew, "_results", die)
    surveyor = survey.Surveyor(plain._problem, plain.region)
    tiles = [jobs.Tile(0, plain.region, 0)]
    with pytest.raises(KilledWorker):
        list(jobs.explore_tiles(surveyor, tiles, 1, svmatlas.support.stopping.NEVER, jobs.as_found, True))
    assert len(rounds) == jobs.PATIENCE


@pytest.mark.alone
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_budget_leaves_a_store_to_go_on_with(n_jobs, monkeypatch, tmp_path):
    X, y = cases.gaussian(300, 300, 5, 1.0)
    svmatlas.explore(X[::10], y[::10], store=tmp_path / "first")  # loads the kernels
    monkeypatch.setattr(SETTINGS, "events_per_tile", 24)
    begin = time.monotonic()
    store = svmatlas.explore(X, y, store=tmp_path / "map", time_budget=2.0, n_jobs=n_jobs)
    assert time.monotonic() - begin < 2.0 + 2.0
    assert not store.complete
    assert 0 < store.n_tiles < len(read_manifest(tmp_path / "map").tiles)
    assert np.isfinite(store.progress().rate)
    assert svmatlas.resume(tmp_path / "map", max_facets=store.n_pieces + 1).n_tiles > store.n_tiles
