"""``make bench``: what a facet costs, as ratios measured in one run on this machine.

Times are the best of several runs; the first use, which compiles, is not counted. Every atlas is validated.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import resource
import subprocess
import sys
import time
import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import svmatlas


def gaussian(n, d, seed=0):
    """Two classes whose means are one standard deviation apart."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    return rng.normal(size=(n, d)) + y[:, None] / np.sqrt(d), y


def breast_cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


CASES = {
    "Gaussian N=500 d=10, 1e-4 <= C <= 10": (lambda: gaussian(500, 10), {"region": ((1e-4, 10), (1e-4, 10))}),
    "Gaussian N=100 d=2, whole quadrant": (lambda: gaussian(100, 2), {}),
    "Gaussian N=100 d=10, whole quadrant": (lambda: gaussian(100, 10), {}),
    "Gaussian N=100 d=100, whole quadrant": (lambda: gaussian(100, 100), {}),
    "breast cancer 569 x 30, whole quadrant": (breast_cancer, {}),
}


def best(function, seconds=1.0, repeat=20):
    """Shortest time of one call."""
    times, begin = [], time.perf_counter()
    while len(times) < repeat and (not times or time.perf_counter() - begin < seconds):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def fit_time(X, y):
    """A LinearSVC(loss="hinge") fit at C = 1, with its default tolerance."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return best(lambda: LinearSVC(loss="hinge", C=1.0).fit(X, y))


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run_case(name):
    """One row of the table, in a process of its own so that the peak of memory is its own."""
    make, arguments = CASES[name]
    X, y = make()
    svmatlas.explore(X[:20, :2], y[:20]).validate()
    fit = fit_time(X, y)
    before = peak()
    begin = time.perf_counter()
    atlas = svmatlas.explore(X, y, **arguments)
    taken = time.perf_counter() - begin
    memory = peak() - before
    report = atlas.validate()
    facets = report.n_facets + report.n_tie_facets
    print(
        f"| {name} | {report.n_facets:,} ({report.n_tie_facets:,}) | {atlas.n_layers} | {1e6 * taken / facets:.0f} us "
        f"| 1/{fit / (taken / facets):.0f} | {taken / fit:,.0f} | {memory / facets:.0f} B | {report.max_gap:.0e} "
        f"| {'valid' if report.ok else 'NOT VALID'} |",
        flush=True,
    )


def compare_rays():
    """Rays C+ = C- up to C = 1, each checked by its duality gap at 20 costs."""
    print(
        "\n| ray to C = 1 | events | time | time per event | share of a LinearSVC fit | path in fits | largest duality gap |"
        "\n|---|---|---|---|---|---|---|",
        flush=True,
    )
    for n, d in ((200, 10), (1000, 10), (20000, 10)):
        X, y = gaussian(n, d)
        svmatlas.ray(X[:20], y[:20])
        fit = fit_time(X, y)
        path = svmatlas.ray(X, y, C_max=1.0)
        taken = best(lambda X=X, y=y: svmatlas.ray(X, y, C_max=1.0), seconds=3.0)
        step = taken / path.breakpoints.size
        print(
            f"| Gaussian N={n:,} d={d} | {path.breakpoints.size:,} | {taken:.3f} s | {1e6 * step:.0f} us "
            f"| 1/{fit / step:,.0f} | {taken / fit:.1f} | {ray_gap(path, X, y):.0e} |",
            flush=True,
        )


def ray_gap(path, X, y):
    """Largest relative duality gap at 20 places of a path, in the user's units."""
    sign, gaps = np.where(y == 1, 1.0, -1.0), []
    for C in np.geomspace(1e-4, 1.0, 20):
        coef, intercept, alpha = path.coef(C), path.intercept(C), path.alpha(C)
        primal = 0.5 * (coef @ coef + intercept**2) + C * np.maximum(0, 1 - sign * (X @ coef + intercept)).sum()
        pull = (alpha * sign) @ X
        dual = alpha.sum() - 0.5 * (pull @ pull + (alpha @ sign) ** 2)
        gaps.append(abs(primal - dual) / primal)
    return max(gaps)


def ppopt_time(X, y, high):
    """PPOPT on the dual over [0, high]^2: (algorithm, regions, seconds) of its quickest serial algorithm."""
    from ppopt.mp_solvers.solve_mpqp import mpqp_algorithm, solve_mpqp
    from ppopt.mpqp_program import MPQP_Program

    n, sign = len(y), np.where(y == 1, 1.0, -1.0)
    rows = np.column_stack([X, np.ones(n)]) * sign[:, None]
    F = np.zeros((2 * n, 2))
    F[:n, 0], F[:n, 1] = sign > 0, sign < 0
    results = []
    for algorithm in (mpqp_algorithm.geometric, mpqp_algorithm.graph):
        program = MPQP_Program(
            np.vstack([np.eye(n), -np.eye(n)]), np.zeros((2 * n, 1)), -np.ones((n, 1)), np.zeros((n, 2)), rows @ rows.T,
            np.vstack([np.eye(2), -np.eye(2)]), np.array([[high], [high], [0.0], [0.0]]), F,
        )  # fmt: skip
        begin = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()):
            regions = len(solve_mpqp(program, algorithm).critical_regions)
        results.append((algorithm.name, regions, time.perf_counter() - begin))
    return min(results, key=lambda result: result[2])


def compare_ppopt():
    print("\n| N = d | facets | PPOPT regions | PPOPT per region | svmatlas per facet | ratio |\n|---|---|---|---|---|---|")
    for n in (6, 8, 10, 12):
        rng = np.random.default_rng(n)
        X, y = rng.normal(size=(n, n)), np.arange(n) % 2
        atlas = svmatlas.explore(X, y, region=((0, 1), (0, 1)))
        own = best(lambda X=X, y=y: svmatlas.explore(X, y, region=((0, 1), (0, 1)))) / atlas.n_facets
        algorithm, regions, seconds = ppopt_time(X, y, 1.0)
        other = seconds / regions
        print(
            f"| {n} | {atlas.n_facets} | {regions} ({algorithm}) | {1e3 * other:.1f} ms | {1e6 * own:.0f} us "
            f"| {other / own:,.0f} |",
            flush=True,
        )


def first_use():
    """Seconds for the first use after installation and for a second process, with an empty and a full cache."""
    import os
    import tempfile

    code = (
        "import time; t = time.perf_counter(); import numpy as np, svmatlas; r = np.random.default_rng(0);"
        "svmatlas.explore(r.normal(size=(30, 3)), np.arange(30) % 2).validate(); print(time.perf_counter() - t)"
    )
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"NUMBA_CACHE_DIR": cache}
        times = [
            float(subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True).stdout)
            for _ in range(2)
        ]
    print(f"\nFirst use after installation (compiles): {times[0]:.1f} s; a second process: {times[1]:.1f} s.")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=[*CASES, "ray"], help="run one row, or the table of rays, only")
    arguments = parser.parse_args()
    if arguments.case == "ray":
        compare_rays()
        return
    if arguments.case:
        run_case(arguments.case)
        return
    print(
        "| data | facets (ties) | layers | time per facet | share of a LinearSVC fit | whole map in fits | memory a facet "
        "| largest duality gap | atlas |\n|---|---|---|---|---|---|---|---|---|",
        flush=True,
    )
    for name in CASES:
        subprocess.run([sys.executable, __file__, "--case", name], check=True)
    compare_rays()
    compare_ppopt()
    first_use()


if __name__ == "__main__":
    main()
