"""A map on disk beside the same map in memory, and a cluster of two workers beside two threads (``--case store``).

``--case "ten million"`` is the whole quadrant of data whose map has more than 10^7 facets.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import joblib
import numpy as np

import svmatlas

ROUNDS = 3
"""So often what is compared is timed in turn."""

MILLION = (1500, 10)
"""Rows and columns of Gaussian data with about 10^6 facets."""

LARGE = (5000, 10)
"""The same with more than 10^7."""


def gaussian(n, d):
    """Two classes whose means are one standard deviation apart."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    return rng.normal(size=(n, d)) + y[:, None] / np.sqrt(d), y


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
            with client.as_current(), joblib.parallel_config(backend="dask"):
                other, *dask = timed(lambda k=k: svmatlas.explore(X, y, store=Path(folder) / f"dask{k}"))
            for name, found in zip(seconds, (memory, disk, dask), strict=True):
                seconds[name].append(found[0])
            assert atlas.n_facets == store.n_facets == other.n_facets
            print(f"round {k + 1}: processor time of store / memory {disk[1] / memory[1]:.2f}", flush=True)
        n_bytes = store.progress().n_bytes
    print(f"Gaussian N={size[0]} d={size[1]}, whole quadrant, 2 threads: {atlas.n_facets} facets, {atlas.n_pieces} pieces")
    print(f"  store / memory           {np.median(np.divide(seconds['store'], seconds['memory'])):.2f} times the time")
    print(f"  2 workers / 2 threads    {np.median(np.divide(seconds['dask'], seconds['store'])):.2f} times the time, on disk")
    print(f"  on disk                  {n_bytes / store.n_facets:.0f} bytes a facet, {n_bytes / store.n_pieces:.0f} a piece")


def cluster(folder):
    """A scheduler and two workers on this machine, each a process of its own."""
    from distributed import Client, LocalCluster

    workers = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", local_directory=str(folder))
    client = Client(workers)
    client.run(lambda: svmatlas.explore(*gaussian(200, 3)))  # loads the kernels
    return client


def run_ten_million(size=LARGE):
    """A map of more than 10^7 facets in a process of its own, whose peak memory is told."""
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import store; store.explore_large({size!r})"
    subprocess.run([sys.executable, "-c", code], check=True)


def explore_large(size):
    X, y = gaussian(*size)
    with tempfile.TemporaryDirectory() as folder:
        store, seconds, _ = timed(lambda: svmatlas.explore(X, y, n_jobs=2, store=Path(folder) / "map"))
        now = store.progress()
        sizes = f"{store.n_facets} facets, {store.n_pieces} pieces, {store.n_tiles} tiles"
        print(f"Gaussian N={size[0]} d={size[1]}, whole quadrant: {sizes}")
        print(
            f"  {seconds:.0f} s on two threads, {now.n_bytes / store.n_facets:.0f} bytes a facet, peak memory {peak():.2f} GiB"
        )
        rng = np.random.default_rng(1)
        p, q = np.exp(rng.uniform(np.log(1e-6), np.log(1e6), size=(2, 10**5)))
        _, seconds, _ = timed(lambda: store.coef(p, q))
        print(f"  10^5 random coef: {seconds:.1f} s, peak memory {peak():.2f} GiB")
        report, seconds, _ = timed(lambda: store.validate(n_jobs=2))
        print(f"  validated in {seconds:.0f} s: {'valid' if report.ok else 'NOT VALID'}, peak memory {peak():.2f} GiB")


def peak():
    """Largest resident memory of this process so far, GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    run_ten_million(tuple(map(int, sys.argv[1:])) or LARGE)
