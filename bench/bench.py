"""``make bench``: what a facet costs, as ratios measured in one run on this machine.

What is compared is timed in turn, in several rounds. Times are the best of them; a ratio is the median of those of single
rounds, for a shared machine that is slow for a while is so to both. The first use, which compiles, is not counted. Every atlas
is validated.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import itertools
import multiprocessing
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_classification
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    StratifiedShuffleSplit,
    TunedThresholdClassifierCV,
    cross_val_score,
)
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.svm import SVC, LinearSVC

import svmatlas
from page import compare_page
from query import compare_queries
from store import compare_stores, run_ten_million
from svmatlas import AsymmetricSVC
from svmatlas.choose import select as select_module
from svmatlas.cli.prepare import compile_all


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


ROUNDS = 7
"""So often fits and maps are timed in turn."""

LARGE_ROUNDS = 3
"""The same for large maps and the small one beside them."""


def ratio(times, others):
    """Median of the ratios of single rounds."""
    return np.median(np.divide(times, others))


class Pair:
    """Two processes that make the same map at once, each with one thread: what a second core of this machine can give.

    Two cores may share their caches, their clock and their units with each other and with those of other users, so that they
    do less than twice the work of one. No thread of ours can gain more than two processes that share nothing.
    """

    def __init__(self, name):
        context = multiprocessing.get_context("spawn")
        self._pool = context.Pool(2)
        self._name = name
        self.time()

    def time(self):
        """Seconds until both are done."""
        begin = time.perf_counter()
        waiting = [self._pool.apply_async(map_case, (self._name,)) for _ in range(2)]
        for one in waiting:
            one.get()
        return time.perf_counter() - begin


@functools.cache
def data_of_case(name):
    make, _ = CASES[name]
    return make()


def map_case(name):
    svmatlas.explore(*data_of_case(name), **CASES[name][1])


def run_apart(case):
    """A row or a table in a process of its own; one that was large itself would hand its peak of memory down to others."""
    subprocess.run([sys.executable, __file__, "--case", case], check=True)


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def array_bytes(atlas):
    canonical = atlas._canonical
    arrays = [*canonical.split.mesh, *canonical.split[1:], *canonical.mesh, *canonical[2:]]
    return sum({id(array): array.nbytes for array in arrays}.values())


def run_case(name):
    """One row of the table, in a process of its own so that the peak of memory is its own."""
    X, y = data_of_case(name)
    arguments = CASES[name][1]
    compile_all()
    before = peak()
    atlas, _ = explore_timed(X, y, **arguments)
    memory = peak() - before
    pair = Pair(name)
    rounds = []
    for _ in range(ROUNDS):
        one, two = (explore_timed(X, y, **arguments, n_jobs=jobs)[1] for jobs in (1, 2))
        rounds.append((fit_time(X, y), one, two, pair.time()))
    fit, one, two, both = np.transpose(rounds)
    report = atlas.validate()
    facets = atlas.n_pieces
    print(
        f"| {name} | {count_text(atlas)} | {atlas.n_layers} | {1e6 * one.min() / facets:.1f} us "
        f"| 1/{facets / ratio(one, fit):.0f} | {ratio(one, fit):,.0f} ({ratio(two, fit):,.0f}) "
        f"| {ratio(one, two):.2f} ({ratio(2 * one, both):.2f}) "
        f"| {array_bytes(atlas) / facets:.0f} B | {memory / facets:.0f} B | {report.max_gap:.0e} "
        f"| {'valid' if report.ok else 'NOT VALID'} |",
        flush=True,
    )


def count_text(atlas):
    return f"{atlas.n_facets:,} ({atlas.n_pieces:,})"


# ----------------------------------------------------------------------------------------------------------------------
# Growth and large maps


GROWTH = ((1e-3, 10), (1e-3, 10))
SIZES = (100, 200, 500, 1000, 2000)
VALIDATED = 500
"""Atlases of the growth table are validated up to this many rows; those of more in the table of large maps."""

LARGE = {
    "a": ("N=2,000 d=10, 1e-3 <= C <= 10", 2000, (1e-3, 10)),
    "b": ("N=10,000 d=10, 0.01 <= C <= 0.02", 10000, (0.01, 0.02)),
    "c": ("N=20,000 d=10, 0.01 <= C <= 0.013", 20000, (0.01, 0.013)),
}


def explore_timed(X, y, **arguments):
    begin = time.perf_counter()
    atlas = svmatlas.explore(X, y, **arguments)
    return atlas, time.perf_counter() - begin


def run_growth(picture=None, time_budget=300.0):
    """Facets and time against N, and their exponents by least squares in logarithms; the time is that of one run."""
    compile_all()
    explore_timed(*gaussian(30, 2))  # kernels are loaded when they are first called
    print(
        "| d | N | facets (pieces) | time | time per piece | share of a LinearSVC fit | atlas |\n|---|---|---|---|---|---|---|"
    )
    found = {}
    for d in (2, 10):
        rows = []
        for n in SIZES:
            X, y = gaussian(n, d)
            fit = fit_time(X, y)
            atlas, taken = explore_timed(X, y, region=GROWTH, time_budget=time_budget)
            facets = atlas.n_pieces
            state = "not validated" if atlas.complete else f"stopped after {time_budget:.0f} s, not in the fit"
            if atlas.complete:
                rows.append((n, facets, taken, atlas.n_facets))
            if atlas.complete and n <= VALIDATED:
                state = "valid" if atlas.validate().ok else "NOT VALID"
            print(
                f"| {d} | {n:,} | {count_text(atlas)} | {taken:.3g} s "
                f"| {1e6 * taken / facets:.0f} us | 1/{fit / (taken / facets):.0f} | {state} |",
                flush=True,
            )
        found[d] = np.array(rows)
    print()
    for d, rows in found.items():
        a, b, c = (exponent(rows[:, 0], rows[:, k])[0] for k in (1, 2, 3))
        print(f"d = {d}: facets grow as N^{c:.2f}, pieces as N^{a:.2f}, time as N^{b:.2f}.", flush=True)
    if picture:
        draw_growth(found, picture)


def exponent(n, values):
    """Slope and offset of the straight line through logarithms."""
    return np.polyfit(np.log(n), np.log(values), 1)


def draw_growth(found, picture):
    """Facets and time against N with the fitted lines."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, both = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for axes, column, label in zip(both, (1, 2), ("pieces", "seconds, one thread"), strict=True):
        for d, rows in found.items():
            n, values = rows[:, 0], rows[:, column]
            slope, offset = exponent(n, values)
            (points,) = axes.loglog(n, values, "o")
            axes.loglog(n, np.exp(offset) * n**slope, "-", color=points.get_color(), label=f"d = {d}: $N^{{{slope:.2f}}}$")
        axes.set(xlabel="rows N", ylabel=label)
        axes.legend()
    figure.suptitle(r"Gaussian data, $10^{-3} \leq C_\pm \leq 10$")
    figure.savefig(picture, dpi=120)


def run_large(which):
    """One row of the table of large maps, in a process of its own."""
    name, n, bounds = LARGE[which]
    compile_all()
    X, y = gaussian(n, 10)
    before = peak()
    atlas, _ = explore_timed(X, y, region=(bounds, bounds))
    memory = peak() - before
    rounds = []
    for _ in range(LARGE_ROUNDS):
        other, small = explore_timed(*gaussian(500, 10), region=GROWTH)
        rounds.append((fit_time(X, y), small, explore_timed(X, y, region=(bounds, bounds))[1]))
    fit, small, taken = np.transpose(rounds)
    begin = time.perf_counter()
    report = atlas.validate(n_jobs=2)
    checked = time.perf_counter() - begin
    facets = atlas.n_pieces
    beside = ratio(taken / facets, small / other.n_pieces)
    state = f"{'complete' if atlas.complete else 'NOT COMPLETE'}, {'valid' if report.ok else 'NOT VALID'}"
    print(
        f"| {name} | {count_text(atlas)} | {taken.min():.0f} s | {1e6 * taken.min() / facets:.1f} us | {beside:.2f} "
        f"| 1/{facets / ratio(taken, fit):,.0f} | {array_bytes(atlas) / facets:.0f} B | {memory / facets:.0f} B "
        f"| {checked:.0f} s | {report.max_gap:.0e} | {state} |",
        flush=True,
    )
    if not report.ok:
        print(report, flush=True)


def compare_large():
    print(
        "| Gaussian data | facets (pieces) | time | time per piece | beside N=500 | share of a LinearSVC fit | arrays a piece "
        "| peak a piece | time to validate | largest duality gap | atlas |\n|---|---|---|---|---|---|---|---|---|---|---|",
        flush=True,
    )
    for which in LARGE:
        run_apart(f"large {which}")


# ----------------------------------------------------------------------------------------------------------------------
# Tied data


def categories(sizes=(4, 4, 4, 3, 3, 3)):
    """Every combination of six categories, one-hot, and noisy labels: 1,728 x 21."""
    codes = np.stack(np.meshgrid(*map(np.arange, sizes)), axis=-1).reshape(-1, len(sizes))
    X = np.hstack([np.eye(size)[codes[:, j]] for j, size in enumerate(sizes)])
    rng = np.random.default_rng(0)
    return X, X @ rng.normal(size=X.shape[1]) + rng.normal(size=len(X)) > 1.0


def tied_data():
    """Names, data and regions of tables with ties."""
    rng = np.random.default_rng(0)
    normal, coin = rng.normal(size=(222, 6)), rng.integers(0, 2, (222, 8)).astype(float)
    iris, wine = load_iris(), load_wine()
    part = ((0.01, 0.1), (0.01, 0.1))
    yield "one binary column", np.column_stack([normal, coin[:, 0]]), coin[:, 1], part
    odd = np.arange(222) == 7
    yield "two binary columns, one with a single odd row", np.column_stack([normal[:, :5], coin[:, 0], odd]), coin[:, 1], part
    yield "all binary", coin[:100], rng.integers(0, 2, 100), None
    yield "one-hot, six categories", *categories(), ((0.01, 0.02), (0.01, 0.02))
    yield "lattice", rng.integers(0, 4, (80, 3)).astype(float), rng.integers(0, 2, 80), None
    yield "every row three times", np.tile(normal[:50, :5], (3, 1)), np.tile(coin[:50, 0], 3), None
    yield "iris", iris.data[50:], iris.target[50:] == 2, None
    yield "wine, standardised", StandardScaler().fit_transform(wine.data), wine.target == 1, ((1e-3, 0.1), (1e-3, 0.1))


def compare_tied(rounds=5):
    """Time per piece beside Gaussian rows with the same labels in the same region; both are timed in turn."""
    print(
        "\n| tied data | rows x columns | facets | pieces | time per facet | time per piece | Gaussian piece | ratio "
        "| zeros modulo a prime | integers | atlas |\n" + 11 * "|---" + "|",
        flush=True,
    )
    for name, X, y, region in tied_data():
        G = np.random.default_rng(1).normal(size=X.shape)
        times = []
        for _ in range(rounds + 1):  # the first round compiles
            pair = [explore_timed(rows, y, region=region) for rows in (X, G)]
            times.append([seconds / atlas.n_pieces for atlas, seconds in pair])
        atlas, (own, other) = pair[0][0], np.median(times[1:], axis=0)
        quotient = np.median([a / b for a, b in times[1:]])
        print(
            f"| {name} | {X.shape[0]:,} x {X.shape[1]} | {atlas.n_facets:,} | {atlas.n_pieces:,} "
            f"| {1e6 * own * atlas.n_pieces / atlas.n_facets:.1f} us | {1e6 * own:.1f} us | {1e6 * other:.1f} us "
            f"| {quotient:.1f} | {atlas.n_zero:,} | {atlas.n_exact:,} "
            f"| {'valid' if atlas.validate().ok else 'NOT VALID'} |",
            flush=True,
        )


# ----------------------------------------------------------------------------------------------------------------------
# Rays and other solvers


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


def sparse_text(n=2000, d=5000, words=50):
    """Rows of a table of words: non-negative, of length 1."""
    random = np.random.default_rng(0)
    place = random.integers(0, d, n * words, dtype=np.int32)  # SVC takes no longer ones
    X = csr_array(
        (np.abs(random.normal(size=n * words)), place, np.arange(0, n * words + 1, words, dtype=np.int32)), shape=(n, d)
    )
    X = normalize(X)
    return X, X @ random.normal(size=d) + 0.1 * random.normal(size=n) > 0


def one_hot_table(n=20_000):
    """Two columns of numbers, five binary ones and eight of ten categories each, one-hot and sparse: 87 in all."""
    random = np.random.default_rng(0)
    numbers, binary, categories = random.normal(size=(n, 2)), random.integers(0, 2, (n, 5)), random.integers(0, 10, (n, 8))
    y = numbers[:, 0] + binary[:, 0] + 0.5 * (categories[:, 0] == 0) + random.normal(size=n) > 1.2
    return csr_array(np.column_stack([numbers, binary, *(np.eye(10)[column] for column in categories.T)])), y


def compare_fits(rounds=3):
    """One fit beside those of scikit-learn, timed in turn."""
    digits = load_digits(return_X_y=True)
    many = gaussian(200_000, 20)
    others = {
        'SVC(kernel="linear")': lambda X, y: SVC(kernel="linear").fit(X, y),
        'LinearSVC(loss="hinge", tol=1e-6)': lambda X, y: LinearSVC(loss="hinge", tol=1e-6).fit(X, y),
    }
    svc, linear = others
    table = (
        ("text, 2,000 x 5,000, sparse", sparse_text(), svc),
        ("digits, odd or even, 1,797 x 64", (digits[0], digits[1] % 2), svc),
        ("one-hot, binary and scaled columns, 20,000 x 87, sparse", one_hot_table(), linear),
        ("Gaussian, 200,000 x 20", many, linear),
    )
    print("| one fit, C = 1 | beside | ratio of times | duality gap |\n|---|---|---|---|", flush=True)
    for name, (X, y), other in table:
        own, its = [], []
        for _ in range(rounds):
            own.append(best(lambda X=X, y=y: AsymmetricSVC().fit(X, y), repeat=1))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                its.append(best(lambda X=X, y=y, fit=others[other]: fit(X, y), repeat=1))
        gap = AsymmetricSVC().fit(X, y).duality_gap_
        print(f"| {name} | `{other}` | {ratio(own, its):.2f} | {gap:.0e} |", flush=True)
    print(flush=True)


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


def ppopt_time(X, y, high, clock=time.perf_counter):
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
        begin = clock()
        with contextlib.redirect_stdout(io.StringIO()):
            regions = len(solve_mpqp(program, algorithm).critical_regions)
        results.append((algorithm.name, regions, clock() - begin))
    return min(results, key=lambda result: result[2])


def compare_ppopt(sizes=(6, 8, 10, 12)):
    print("\n| N = d | facets | PPOPT regions | PPOPT per region | svmatlas per facet | ratio |\n|---|---|---|---|---|---|")
    for n in sizes:
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


# ----------------------------------------------------------------------------------------------------------------------
# Choosing the costs


GRID = np.logspace(-4, 2, 60)
"""Costs of a grid search, for each of the two."""


def imbalanced():
    return make_classification(600, 8, n_informative=4, weights=[0.9], flip_y=0.05, random_state=0)


SELECTIONS = {"breast cancer": breast_cancer, "imbalanced 600 x 8": imbalanced}
METHODS = ("exact", "grid", "random", "optuna", "threshold")


def linear_svc(C_pos, C_neg):
    return LinearSVC(loss="hinge", C=1.0, class_weight={0: C_neg, 1: C_pos}, random_state=0)


def grid_time(X, y, share=0.05):
    """Seconds of a 60 x 60 grid with five folds by GridSearchCV, and of its 18,000 fits alone, from a share of its points."""
    rng = np.random.default_rng(0)
    pairs = rng.choice(GRID, size=(int(share * GRID.size**2), 2))
    grid = {"class_weight": [{0: a, 1: b} for a, b in pairs]}
    search = GridSearchCV(LinearSVC(loss="hinge"), grid, cv=5, scoring="balanced_accuracy", refit=False)
    begin = time.perf_counter()
    search.fit(X, y)
    taken = time.perf_counter() - begin
    fits = 5 * len(pairs) * search.cv_results_["mean_fit_time"].mean()
    return taken / share, fits / share


def run_certified():
    """Five folds of all of the breast cancer data: the exact optimum beside a grid, in one run."""
    X, y = breast_cancer()
    svmatlas.select(X[:60, :3], y[:60], cv=2)
    begin = time.perf_counter()
    selection = svmatlas.select(X, y, cv=5)
    taken = time.perf_counter() - begin
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search, fits = grid_time(X, y)
    print(
        f"breast cancer 569 x 30, 5 folds: best balanced accuracy {selection.best_score:.6f}, "
        f"{'certified' if selection.certified else 'NOT CERTIFIED'}, {len(selection.cells)} cells, {taken:.0f} s; "
        f"a 60 x 60 grid by GridSearchCV {search:.0f} s, its 18,000 fits alone {fits:.0f} s (both from a twentieth of it)",
        flush=True,
    )


def search_costs(method, X, y, folds, seconds):
    """(fitted model, score on the folds, number of costs looked at, costs) of a method that may take so many seconds."""
    deadline = time.perf_counter() + seconds
    low, high = np.log(GRID[[0, -1]])
    top, looked = (-1.0, 1.0, 1.0), 0

    def look(C_pos, C_neg):
        nonlocal top, looked
        score = cross_val_score(linear_svc(C_pos, C_neg), X, y, cv=folds, scoring="balanced_accuracy").mean()
        top, looked = max(top, (score, C_pos, C_neg)), looked + 1
        return score

    rng = np.random.default_rng(0)
    if method == "grid":
        side = max(2, int(np.sqrt(seconds / best(lambda: look(0.1, 0.1), seconds=0.2))))
        for a, b in itertools.product(np.exp(np.linspace(low, high, side)), repeat=2):
            look(a, b)
    elif method == "random":
        while time.perf_counter() < deadline:
            look(*np.exp(rng.uniform(low, high, 2)))
    else:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
        study.optimize(
            lambda t: look(
                t.suggest_float("p", *np.exp([low, high]), log=True), t.suggest_float("q", *np.exp([low, high]), log=True)
            ),
            timeout=seconds,
        )
    return linear_svc(*top[1:]).fit(X, y), top[0], looked, top[1:]


def tune_threshold(X, y, folds, seconds):
    """class_weight="balanced", C from as many values as the time allows, and a threshold tuned on inner folds."""
    deadline, top, looked = time.perf_counter() + seconds, (-1.0, 1.0), 0
    rng = np.random.default_rng(0)
    while time.perf_counter() < deadline:
        C = float(np.exp(rng.uniform(*np.log(GRID[[0, -1]]))))
        model = TunedThresholdClassifierCV(LinearSVC(loss="hinge", C=C, class_weight="balanced"), random_state=0)
        top = max(top, (cross_val_score(model, X, y, cv=folds, scoring="balanced_accuracy").mean(), C))
        looked += 1
    model = TunedThresholdClassifierCV(LinearSVC(loss="hinge", C=top[1], class_weight="balanced"), random_state=0)
    return model.fit(X, y), top[0], looked


def run_selection(name):
    """Rows of one data set: all methods at equal time, on the same folds, and on rows held out from everything."""
    X, y = SELECTIONS[name]()
    train, test = next(StratifiedShuffleSplit(1, test_size=0.3, random_state=0).split(X, y))
    folds = list(StratifiedKFold(5).split(X[train], y[train]))
    svmatlas.AsymmetricSVCCV(cv=2).fit(X[:60, :3], np.arange(60) % 2)
    seconds = selection = None
    for method in METHODS:
        begin = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if method == "exact":
                model = svmatlas.AsymmetricSVCCV(cv=folds).fit(X[train], y[train])
                selection = model.selection_
                score, looked, exact = model.best_score_, "all", f"{selection.best_score:.5f}"
            elif method == "threshold":
                model, score, looked = tune_threshold(X[train], y[train], folds, seconds)
                exact = "-"
            else:
                model, score, looked, costs = search_costs(method, X[train], y[train], folds, seconds)
                exact = f"{selection.score_at(*costs):.5f}"
        taken = time.perf_counter() - begin
        seconds = seconds or taken
        held_out = balanced_accuracy_score(y[test], model.predict(X[test]))
        print(f"| {name} | {method} | {looked} | {taken:.1f} s | {score:.5f} | {exact} | {held_out:.5f} |", flush=True)


def mixture(n, d, seed=0):
    """Gaussian mixtures, one class in four rows, with a binary and a five-valued column."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.25).astype(int)
    centers = rng.normal(size=(2, 3, d - 2))
    X = 0.6 * centers[y, rng.integers(0, 3, n)] + rng.normal(size=(n, d - 2))
    return np.column_stack([X, rng.random(n) < 0.3 + 0.2 * y, rng.integers(0, 5, n)]), y


class Trace:
    """A bar that writes down the best score and the bound at some processor times."""

    def __init__(self, shares, seconds):
        self.begin, self.times, self.rows, self.text = time.process_time(), [s * seconds for s in shares], [], ""
        self.n = self.total = 0.0

    def set_postfix_str(self, text, refresh):
        self.text = text

    def update(self, n):
        taken = time.process_time() - self.begin
        while self.times and taken > self.times[0]:
            self.rows.append(f"{self.times.pop(0):.0f} s: {self.text}")

    def close(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def sample_grid(X, y, values, share=0.05):
    """Processor time of a grid of LinearSVC with five folds by GridSearchCV, from a random share of its pairs of costs."""
    pairs = np.array(list(itertools.product(values, values)))
    some = np.random.default_rng(0).permutation(len(pairs))[: int(share * len(pairs))]
    weights = [{0: float(a), 1: float(b)} for a, b in pairs[some]]
    grid = GridSearchCV(LinearSVC(loss="hinge"), {"class_weight": weights}, cv=5, scoring="balanced_accuracy", refit=False)
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        grid.fit(X, y)
    return (time.process_time() - begin) * len(pairs) / len(some)


def run_any_time(n, d):
    """``select`` stopped after the processor time of a 20 x 20 grid of LinearSVC, and exact models at all its costs."""
    X, y = mixture(n, d)
    svmatlas.select(X[:300], y[:300], cv=2, time_budget=2.0)
    values = np.logspace(-3, 3, 20)
    seconds = sample_grid(X, y, values)
    trace = Trace((0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0), seconds)
    kept = select_module.make_share_bar, time.monotonic
    select_module.make_share_bar, time.monotonic = lambda: trace, time.process_time  # budgets are of processor time
    found = svmatlas.select(X, y, cv=5, time_budget=seconds, progress=True)
    select_module.make_share_bar, time.monotonic = kept
    taken, memory = time.process_time() - trace.begin, peak()
    exact = found.score_at(*(axis.ravel() for axis in np.meshgrid(values, values)))
    print(
        f"{n} x {d}, 5 folds: 20 x 20 grid of LinearSVC some {seconds:.0f} s, best of the exact models at its costs "
        f"{exact.max():.4f}; select {taken:.0f} s, best {found.best_score:.4f}, bound {found.upper_bound:.4f}"
        f"{', certified' if found.certified else ''} ({'; '.join(trace.rows)}); peak {memory / 2**30:.2f} GB; "
        f"{'NOT AS GOOD' if found.best_score < exact.max() - 1e-12 else 'as good or better'}",
        flush=True,
    )


def compare_any_time():
    for n, d in ((846, 18), (5000, 10)):
        run_any_time(n, d)


def compare_selections():
    print(
        "\nBalanced accuracy of the best costs, all methods given the time that the exact one takes. LinearSVC stops early:\n"
        "the best of many such models may score higher on the folds than any true solution; the next column is the exact\n"
        "model at the same costs.\n\n| data | method | costs looked at | time | on the folds | exact model on the folds "
        "| held out from everything |\n|---|---|---|---|---|---|---|",
        flush=True,
    )
    for name in SELECTIONS:
        run_selection(name)
    print()
    run_certified()


def compare_certify(rounds=3):
    """The proof of the breast-cancer map, on all cores, beside its exploration by one thread; both are timed in turn."""
    X, y = breast_cancer()
    svmatlas.certify(svmatlas.explore(X[:60], y[:60]))
    ratios = []
    for _ in range(rounds):
        begin = time.perf_counter()
        atlas = svmatlas.explore(X, y)
        middle = time.perf_counter()
        report = svmatlas.certify(atlas, X, y, n_jobs=-1)
        ratios.append((time.perf_counter() - middle) / (middle - begin))
    print(
        f"\nThe proof of {atlas.n_facets:,} facets: {np.median(ratios):.1f} times their exploration "
        f"({', '.join(f'{ratio:.1f}' for ratio in ratios)}), {'certified' if report.ok else 'NOT CERTIFIED'}",
        flush=True,
    )


def run_page():
    """What the page of the breast-cancer map takes a browser."""
    compare_page(svmatlas.explore(*breast_cancer()))


def run_queries():
    """Maps of half a million to six million facets, as files; the last one needs 6 GiB."""
    small_costs = {"region": ((1e-3, 1.0), (1e-3, 1.0))}
    maps = [(*breast_cancer(), {}), (*gaussian(1000, 10), {"region": GROWTH}), (*gaussian(3500, 10), small_costs)]
    compare_queries(svmatlas.explore(X, y, **arguments) for X, y, arguments in maps)


HEAD = (
    "| data | facets (pieces) | layers | time per piece | share of a LinearSVC fit | whole map in fits (two threads) "
    "| gain by two threads (by two processes) | arrays a piece | peak a piece | largest duality gap | atlas |\n"
    + 11 * "|---"
    + "|"
)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    tables = {
        "growth": lambda: run_growth(arguments.picture),
        "large": compare_large,
        "tied": compare_tied,
        "ray": compare_rays,
        "fit": compare_fits,
        "select": compare_selections,
        "any time": compare_any_time,
        "certify": compare_certify,
        "page": run_page,
        "query": run_queries,
        "readme": lambda: subprocess.run([sys.executable, str(Path(__file__).with_name("readme.py"))], check=True),
        "store": compare_stores,
        "ten million": run_ten_million,
    } | {f"large {which}": lambda which=which: run_large(which) for which in LARGE}
    parser.add_argument("--case", choices=[*CASES, *tables], help="run one row or one table")
    parser.add_argument("--picture", help="where to draw the growth of facets, with --case growth")
    arguments = parser.parse_args()
    if arguments.case in tables:
        tables[arguments.case]()
        return
    if arguments.case:
        run_case(arguments.case)
        return
    print(HEAD, flush=True)
    for name in CASES:
        run_apart(name)
    print(flush=True)
    run_apart("growth")
    print(flush=True)
    compare_large()
    compare_tied()
    compare_rays()
    compare_fits()
    compare_ppopt()
    compare_selections()
    compare_any_time()
    compare_certify()
    run_queries()
    run_page()
    compare_stores()
    run_ten_million()
    first_use()


if __name__ == "__main__":
    main()
