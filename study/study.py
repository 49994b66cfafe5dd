"""``make study``: do exact asymmetric costs help on rows that nobody has seen?

Nested: outer stratified splits (70/30), 5 inner folds, the same for all methods; numeric columns are standardised and
categories one-hot within each training part. All methods choose by balanced accuracy on the inner folds. The searches over
both costs have the processor time that ``select`` took. One file is written for each set and split, so it can be stopped and
goes on where it was.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, f1_score
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    StratifiedShuffleSplit,
    TunedThresholdClassifierCV,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

import svmatlas
from clock import use_processor_time
from data import HERE, names, read
from svmatlas import AsymmetricSVC

SCORE = "balanced_accuracy"
ONE_C = np.logspace(-3, 3, 13)
FN, FP = 10.0, 1.0
"""Money: what a missed positive row and a false alarm cost."""


def preprocessor(table):
    d = table.X.shape[1]
    return ColumnTransformer(
        [
            ("numbers", StandardScaler(), list(range(table.n_numeric))),
            ("categories", OneHotEncoder(handle_unknown="ignore"), list(range(table.n_numeric, d))),
        ],
        sparse_threshold=0.0,
    )


class Split:
    """The training and the unseen rows of one split of one set."""

    def __init__(self, name, number):
        self.name, self.number, self.table = name, number, read(name)
        splitter = StratifiedShuffleSplit(5, test_size=0.3, random_state=0)
        self.train, self.test = list(splitter.split(self.table.X, self.table.y))[number]
        self.X, self.y = self.table.X[self.train], self.table.y[self.train]
        n_folds = int(min(5, np.bincount(self.y).min()))
        folds = StratifiedKFold(n_folds, shuffle=True, random_state=number)
        self.folds = list(folds.split(self.X, self.y))

    def pipeline(self, model):
        return make_pipeline(preprocessor(self.table), model)

    def inner(self, C_pos, C_neg):
        """Score on the inner folds of the exact model at some costs."""
        model = self.pipeline(AsymmetricSVC(C_pos, C_neg))
        return float(cross_val_score(model, self.X, self.y, cv=self.folds, scoring=SCORE).mean())

    def outer(self, model, threshold=None):
        """Scores on the unseen rows of a fitted model."""
        X, y = self.table.X[self.test], self.table.y[self.test]
        predicted = model.predict(X) if threshold is None else (model.decision_function(X) > threshold).astype(int)
        missed, alarms = np.sum((y == 1) & (predicted == 0)), np.sum((y == 0) & (predicted == 1))
        return {
            "balanced_accuracy": float(balanced_accuracy_score(y, predicted)),
            "f1": float(f1_score(y, predicted, zero_division=0)),
            "money": float((FN * missed + FP * alarms) / y.size),
        }

    def exact(self, C_pos, C_neg):
        return self.pipeline(AsymmetricSVC(C_pos, C_neg)).fit(self.X, self.y)


# ----------------------------------------------------------------------------------------------------------------------
# Methods: each returns rows of results


def select(split, limit):
    begin = time.process_time()
    found = svmatlas.select(
        split.X, split.y, cv=split.folds, scoring=SCORE, preprocessor=preprocessor(split.table), time_budget=limit,
        threshold="tuned",
    )  # fmt: skip
    taken, model = time.process_time() - begin, split.exact(found.C_pos, found.C_neg)
    row = {"inner": found.best_score, "bound": found.upper_bound, "certified": found.certified, "time": taken}
    costs = {"C_pos": found.C_pos, "C_neg": found.C_neg}
    yield {"method": "select", **row, **costs, **split.outer(model)}
    yield {"method": "select, threshold", **row, **costs, **split.outer(model, found.threshold)}


def select_one_se(split, limit):
    begin = time.process_time()
    found = svmatlas.select(
        split.X, split.y, cv=split.folds, scoring=SCORE, preprocessor=preprocessor(split.table), time_budget=limit,
        rule="one_se",
    )  # fmt: skip
    taken = time.process_time() - begin
    costs = {"C_pos": found.C_pos, "C_neg": found.C_neg}
    yield {
        "method": "select, one_se",
        "inner": found.score,
        "time": taken,
        **costs,
        **split.outer(split.exact(*costs.values())),
    }


def balanced_line(split, limit):
    """C+/C- = N-/N+: exact paths of all folds at 200 costs from 1e-4 to 1e4."""
    begin, n = time.process_time(), np.bincount(split.y)
    ratio, C = n[0] / n[1], np.logspace(-4, 4, 200)
    values, truths = [], []
    for train, test in split.folds:
        change = preprocessor(split.table).fit(split.X[train])
        path = svmatlas.ray(change.transform(split.X[train]), split.y[train], ratio=ratio, C_max=2 * C[-1])
        values.append(path.decision_function(change.transform(split.X[test]), C))
        truths.append(split.y[test])

    def mean(shifts, k):
        """Mean balanced accuracy over the folds at some thresholds, for cost k."""
        rates = []
        for value, truth in zip(values, truths, strict=True):
            above = value[k][None] > np.atleast_1d(shifts)[:, None]
            rates.append((above[:, truth == 1].mean(axis=1) + (~above)[:, truth == 0].mean(axis=1)) / 2)
        return np.mean(rates, axis=0)

    plain = [float(mean(0.0, k)[0]) for k in range(C.size)]
    best = int(np.argmax(plain))
    model = split.exact(ratio * C[best], C[best])
    costs = {"C_pos": ratio * C[best], "C_neg": C[best]}
    yield {"method": "balanced line", "inner": plain[best], "time": time.process_time() - begin, **costs, **split.outer(model)}
    pooled = np.unique(np.concatenate([v[best] for v in values]))
    shifts = (pooled[1:] + pooled[:-1]) / 2 if pooled.size > 1 else np.zeros(1)
    shift = float(shifts[np.argmax(mean(shifts, best))])
    row = {"method": "balanced line, threshold", "inner": plain[best], "time": time.process_time() - begin}
    yield {**row, **costs, **split.outer(model, shift)}


def one_cost(split, limit):
    begin = time.process_time()
    grid = GridSearchCV(split.pipeline(linear_svc(1.0, 1.0)), {"linearsvc__C": ONE_C}, cv=split.folds, scoring=SCORE)
    grid.fit(split.X, split.y)
    C = float(grid.best_params_["linearsvc__C"])
    row = {"method": "LinearSVC, one C", "inner": split.inner(C, C), "time": time.process_time() - begin}
    yield {**row, "C_pos": C, "C_neg": C, **split.outer(grid.best_estimator_)}


def tuned(split, limit, name, model, key):
    """A grid of one C, and then the threshold."""
    begin = time.process_time()
    grid = GridSearchCV(split.pipeline(model), {key: ONE_C}, cv=split.folds, scoring=SCORE).fit(split.X, split.y)
    best = TunedThresholdClassifierCV(clone(grid.best_estimator_), scoring=SCORE, cv=split.folds).fit(split.X, split.y)
    yield {"method": name, "time": time.process_time() - begin, **split.outer(best)}


def balanced_svc(split, limit):
    model = LinearSVC(loss="hinge", dual=True, class_weight="balanced", random_state=0)
    yield from tuned(split, limit, "LinearSVC, balanced, threshold", model, "linearsvc__C")


def logistic(split, limit):
    yield from tuned(split, limit, "logistic, threshold", LogisticRegression(max_iter=1000), "logisticregression__C")


def linear_svc(C_pos, C_neg):
    return LinearSVC(loss="hinge", dual=True, class_weight={0: C_neg, 1: C_pos}, random_state=0)


def look(split, costs, deadline):
    """Score of LinearSVC on the inner folds; None if it is time."""
    scores = []
    for train, test in split.folds:
        if time.process_time() > deadline:
            return None
        model = split.pipeline(linear_svc(*costs)).fit(split.X[train], split.y[train])
        scores.append(balanced_accuracy_score(split.y[test], model.predict(split.X[test])))
    return float(np.mean(scores))


def searched(split, name, tried, begin):
    """The best of the costs that were tried."""
    (C_pos, C_neg), _ = max(tried, key=lambda pair: pair[1])
    taken, model = time.process_time() - begin, split.pipeline(linear_svc(C_pos, C_neg)).fit(split.X, split.y)
    row = {"method": name, "inner": split.inner(C_pos, C_neg), "time": taken, "tried": len(tried)}
    yield {**row, "C_pos": float(C_pos), "C_neg": float(C_neg), **split.outer(model)}


def grid(split, limit):
    """A 20 x 20 grid in random order, so that what is left out at the limit is spread."""
    begin, tried = time.process_time(), []
    pairs = list(product(np.logspace(-3, 3, 20), repeat=2))
    for k in np.random.default_rng(0).permutation(len(pairs)):
        score = look(split, pairs[k], begin + limit if tried else np.inf)
        if score is None:
            break
        tried.append((pairs[k], score))
    yield from searched(split, "grid", tried, begin)


def random_search(split, limit):
    begin, tried, random = time.process_time(), [], np.random.default_rng(1)
    while (score := look(split, costs := 10.0 ** random.uniform(-3, 3, 2), begin + limit if tried else np.inf)) is not None:
        tried.append((costs, score))
    yield from searched(split, "random search", tried, begin)


def optuna_search(split, limit):
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    begin, tried = time.process_time(), []
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
    while True:
        trial = study.ask()
        costs = tuple(trial.suggest_float(name, 1e-3, 1e3, log=True) for name in ("C_pos", "C_neg"))
        score = look(split, costs, begin + limit if tried else np.inf)
        if score is None:
            break
        study.tell(trial, score)
        tried.append((costs, score))
    yield from searched(split, "Optuna", tried, begin)


SEARCHES = grid, random_search, optuna_search
"""These have the time that ``select`` took."""

METHODS = select, select_one_se, balanced_line, one_cost, balanced_svc, logistic, grid, random_search, optuna_search


# ----------------------------------------------------------------------------------------------------------------------
# One file for each set and split


def run_one(name, number, limit):
    split, rows = Split(name, number), []
    for method in METHODS:
        given = rows[0].get("time", limit) if rows and method in SEARCHES else limit
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                rows += list(method(split, given))
            except ValueError as error:  # such as a budget that is too short: it is on record
                rows.append({"method": method.__name__, "error": str(error)})
    shape = {"set": name, "split": number, "limit": limit, "n": len(split.table.y), "d": split.table.X.shape[1]}
    return [{**shape, **row} for row in rows]


FIELDS = [
    "set", "split", "limit", "n", "d", "method", "inner", "bound", "certified", "balanced_accuracy", "f1", "money", "time",
    "tried", "C_pos", "C_neg", "error",
]  # fmt: skip


def collect(folder, path):
    """All files as one table."""
    rows = [row for file in sorted(folder.glob("*.json")) for row in json.loads(file.read_text())]
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, FIELDS)
        writer.writeheader()
        for row in rows:
            writer.writerow({key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()})


def warm_up():
    """Load or compile the kernels, which is not counted."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(40, 2)), np.arange(40) % 2
    svmatlas.select(X, y, cv=2, tolerance=0.0, threshold="tuned")
    svmatlas.select(X, y, cv=2, rule="one_se")
    svmatlas.ray(X, y).decision_function(X, [0.1, 1.0])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=float, default=20.0, help="seconds of processor time for select")
    parser.add_argument("--splits", type=int, default=5, help="outer splits")
    parser.add_argument("--sets", nargs="*", help="names; all 50 by default, those with few rows first")
    parser.add_argument("--seconds", type=float, default=np.inf, help="begin no further split after this time")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    arguments = parser.parse_args()
    arguments.results.mkdir(exist_ok=True)
    warm_up()
    use_processor_time()
    begin = time.perf_counter()
    for number, name in product(
        range(arguments.splits), arguments.sets or sorted(names(), key=lambda name: len(read(name).y))
    ):
        path = arguments.results / f"{name}-{number}.json"
        if path.exists() or time.perf_counter() - begin > arguments.seconds:
            continue
        rows = run_one(name, number, arguments.limit)
        path.with_suffix(".part").write_text(json.dumps(rows))
        path.with_suffix(".part").rename(path)
        print(f"{name}, split {number}: {time.perf_counter() - begin:.0f} s", flush=True)
    collect(arguments.results, HERE / "results.csv")


if __name__ == "__main__":
    main()
