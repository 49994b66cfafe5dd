"""A map on disk beside the same map in memory, and a cluster of two workers beside two threads (``--case store``).

``--case "ten million"`` is the whole quadrant of a table whose map has more than 10^7 facets. Its last columns are whole
numbers, and binary. It is explored into a store, asked, validated, and explored in memory, each in a process of its own.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import joblib
import numpy as np

import svmatlas

ROUNDS = 3
"""So often what is compared is timed in turn."""

MILLION = (1500, 10)
"""Rows and columns of Gaussian data with about 10^6 facets."""

LARGE = (4000, 6)
"""Rows and columns of a table with more than 10^7."""


def gaussian(n, d):
    """Two classes whose means are one standard deviation apart."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    return rng.normal(size=(n, d)) + y[:, None] / np.sqrt(d), y


def table(n, d):
    """The same with a binary column, and one of whole numbers."""
    X, y = gaussian(n, d)
    X[:, -1], X[:, -2] = np.random.default_rng(1).random(n) < 0.3 + 0.2 * y, np.round(X[:, -2])
    return X, y


def timed(function):
    begin, processor = time.perf_counter(), time.process_time()
    result = function()
    return result, time.perf_counter() - begin, time.process_time() - processor


def compare_stores(size=MILLION):
    """Memory, store, threads, cluster: the same map, in turn."""
    X, y = gaussian(*size)
    seconds = {name: [] for name in ("memory", "store", "dask")}
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder)) as client:
        for k in range(ROUNDS):
            atlas, *memory = timed(lambda: svmatlas.explore(X, y, n_jobs=2))
            store, *disk = timed(lambda k=k: svmatlas.explore(X, y, n_jobs=2, store=Path(folder) / f"threads{k}"))
            before = sum(client.run(time.process_time).values())
            with client.as_current(), joblib.parallel_config(backend="dask"):
                other, *dask = timed(lambda k=k: svmatlas.explore(X, y, store=Path(folder) / f"dask{k}"))
            dask[1] += sum(client.run(time.process_time).values()) - before
            for name, found in zip(seconds, (memory, disk, dask), strict=True):
                seconds[name].append(found[0])
            assert atlas.n_facets == store.n_facets == other.n_facets
            print(
                f"round {k + 1}: processor time of store / memory {disk[1] / memory[1]:.2f}, "
                f"workers / threads {dask[1] / disk[1]:.2f}", flush=True,
            )  # fmt: skip
        n_bytes = store.progress().n_bytes
    print(f"Gaussian N={size[0]} d={size[1]}, whole quadrant, 2 threads: {atlas.n_facets} facets, {atlas.n_pieces} pieces")
    print(f"  store / memory           {np.median(np.divide(seconds['store'], seconds['memory'])):.2f} times the time")
    print(f"  2 workers / 2 threads    {np.median(np.divide(seconds['dask'], seconds['store'])):.2f} times the time, on disk")
    print(f"  on disk                  {n_bytes / store.n_facets:.0f} bytes a facet, {n_bytes / store.n_pieces:.0f} a piece")


@contextmanager
def cluster(folder):
    """A scheduler and two workers on this machine, each worker a process of its own."""
    from distributed import Client, LocalCluster

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "local_directory": str(folder)}
    with LocalCluster(**options) as workers, Client(workers) as client:
        client.run(lambda: svmatlas.explore(*gaussian(200, 3)))  # loads the kernels
        yield client


def run_ten_million(size=LARGE):
    """A map of more than 10^7 facets, each step in a process of its own, whose peak memory is told."""
    with tempfile.TemporaryDirectory() as folder:
        for step in ("explore_large", "ask_large", "validate_large", "explore_in_memory"):
            call = f"import store; store.{step}({size!r}, {folder!r})"
            code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); {call}"
            subprocess.run([sys.executable, "-c", code], check=True)


def explore_large(size, folder):
    X, y = table(*size)
    svmatlas.explore(*table(150, 4), store=Path(folder) / "first")  # loads the kernels
    store, seconds, processor = timed(lambda: svmatlas.explore(X, y, n_jobs=2, store=Path(folder) / "map"))
    (Path(folder) / "seconds").write_text(f"{seconds} {processor}")
    sizes = f"{store.n_facets} facets, {store.n_pieces} pieces, {store.n_tiles} tiles"
    print(f"N={size[0]} d={size[1]}, a binary and a rounded column, whole quadrant: {sizes}")
    print(f"  {seconds:.0f} s on two threads, {processor:.0f} s of the processor, peak memory {peak():.2f} GiB")
    print(f"  {store.progress().n_bytes / store.n_facets:.0f} bytes a facet on disk", flush=True)


def ask_large(size, folder):
    store = svmatlas.open(Path(folder) / "map")
    rng = np.random.default_rng(1)
    p, q = np.exp(rng.uniform(np.log(1e-6), np.log(1e6), size=(2, 10**5)))
    _, seconds, processor = timed(lambda: store.coef(p, q))
    print(f"  10^5 random coef: {seconds:.1f} s, {processor:.1f} s of the processor, peak memory {peak():.2f} GiB", flush=True)


def validate_large(size, folder):
    store = svmatlas.open(Path(folder) / "map")
    report, seconds, processor = timed(lambda: store.validate(n_jobs=2))
    print(f"  validated in {seconds:.0f} s, {processor:.0f} s of the processor, peak memory {peak():.2f} GiB")
    print(f"  {report}", flush=True)


def explore_in_memory(size, folder):
    X, y = table(*size)
    svmatlas.explore(*table(150, 4))
    atlas, *found = timed(lambda: svmatlas.explore(X, y, n_jobs=2))
    stored = map(float, (Path(folder) / "seconds").read_text().split())
    ratio, processor = (disk / memory for disk, memory in zip(stored, found, strict=True))
    print(f"  in memory {atlas.n_facets} facets, {found[0]:.0f} s, peak memory {peak():.2f} GiB")
    print(f"  store / memory: {ratio:.2f} times the time, {processor:.2f} times the processor time", flush=True)


def peak():
    """Largest resident memory of this process so far, GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    run_ten_million(tuple(map(int, sys.argv[1:])) or LARGE)
