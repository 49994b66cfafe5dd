"""The numbers of README, in one run: ratios of processor times on one thread, which other work on the machine hardly moves.

``python bench/readme.py``, or ``make bench ARGS="--case readme"``. What is compared is timed in turn.
"""

from __future__ import annotations

import contextlib
import time
import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_limits

import svmatlas
from svmatlas.cli.prepare import compile_all

ROUNDS = 3

GRID = np.logspace(-4, 2, 60)
"""Costs of a grid search, for each of the two."""

SHARE = 0.05
"""Of the grid that is fitted."""


def seconds(function, repeat=1):
    """Processor time of one call."""
    begin = time.process_time()
    for _ in range(repeat):
        function()
    return (time.process_time() - begin) / repeat


def ratio(one, other, repeat=1, rounds=ROUNDS):
    """Median over rounds of the processor time of one function over that of another, of which so many calls are made."""
    found = [seconds(one) / seconds(other, repeat) for _ in range(rounds)]
    return float(np.median(found))


def grid_search(X, y):
    """A share of a 60 x 60 grid with five folds."""
    pairs = np.random.default_rng(0).choice(GRID, size=(int(SHARE * GRID.size**2), 2))
    grid = {"class_weight": [{0: a, 1: b} for a, b in pairs]}
    GridSearchCV(LinearSVC(loss="hinge"), grid, cv=5, scoring="balanced_accuracy", refit=False).fit(X, y)


def map_rows():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    atlas = svmatlas.explore(X, y)
    fits = ratio(lambda: svmatlas.explore(X, y), lambda: LinearSVC(loss="hinge").fit(X, y), 100)
    state = "validated" if atlas.validate().ok else "NOT VALID"
    print("| breast cancer 569 x 30 | processor time |\n|---|---|", flush=True)
    fit = 'fits of `LinearSVC(loss="hinge")` at C = 1'
    print(f"| the map of all costs: {atlas.n_facets:,} models, {state} | {fits:,.0f} {fit} |", flush=True)
    print(f"| one facet of it | 1/{atlas.n_pieces / fits:.0f} of a fit |", flush=True)
    found = []
    share = SHARE * ratio(lambda: found.append(svmatlas.select(X, y, cv=5)), lambda: grid_search(X, y), rounds=1)
    certified = "with proof" if found[0].certified else "NOT CERTIFIED"
    grid = "of a 60 x 60 grid on the same folds by `GridSearchCV`"
    print(f"| the exact best costs by 5 folds, {certified} | {share:.2f} {grid} |", flush=True)


def ppopt_row(n=12):
    """One region of PPOPT in facets of ours; its program is that of bench.py."""
    from bench import ppopt_time

    rng = np.random.default_rng(n)
    X, y = rng.normal(size=(n, n)), np.arange(n) % 2
    atlas = svmatlas.explore(X, y, region=((0, 1), (0, 1)))
    own = seconds(lambda: svmatlas.explore(X, y, region=((0, 1), (0, 1))), 20) / atlas.n_facets
    _, regions, taken = ppopt_time(X, y, 1.0, time.process_time)
    print(
        f"| one region of the same kind of map by PPOPT (N = d = {n}) | {taken / regions / own:,.0f} facets of ours |\n",
        flush=True,
    )


def fit_rows():
    from bench import gaussian, one_hot_table, sparse_text

    digits = load_digits(return_X_y=True)
    linear = LinearSVC(loss="hinge", tol=1e-6)
    rows = (
        ('text, 2,000 x 5,000, sparse, beside `SVC(kernel="linear")`', sparse_text(), SVC(kernel="linear"), ROUNDS),
        ("digits, 1,797 x 64, beside the same", (digits[0], digits[1] % 2), SVC(kernel="linear"), ROUNDS),
        (
            'one-hot and scaled columns, 20,000 x 87, sparse, beside `LinearSVC(loss="hinge", tol=1e-6)`',
            one_hot_table(),
            linear,
            ROUNDS,
        ),
        ("Gaussian, 200,000 x 20, beside the same", gaussian(200_000, 20), linear, 1),
    )
    gap = 0.0
    print("| one fit (`AsymmetricSVC`) | ratio of processor times |\n|---|---|", flush=True)
    for name, (X, y), other, rounds in rows:
        own = svmatlas.AsymmetricSVC()
        found = ratio(lambda X=X, y=y, own=own: own.fit(X, y), lambda X=X, y=y, other=other: other.fit(X, y), rounds=rounds)
        gap = max(gap, own.duality_gap_)
        print(f"| {name} | {found:.2f} |", flush=True)
    print(f"\nLargest duality gap of these fits: {gap:.0e}\n", flush=True)


def run_readme():
    """Print the tables."""
    compile_all()
    with threadpool_limits(1), warnings.catch_warnings(), contextlib.suppress(KeyboardInterrupt):
        warnings.simplefilter("ignore")  # LinearSVC does not converge
        map_rows()
        ppopt_row()
        fit_rows()


if __name__ == "__main__":
    run_readme()
