"""``make study-bounds``: how near ``select`` gets to a proof on each set, beside exact models at the costs of a 20 x 20 grid.

Five stratified folds of all rows, balanced accuracy, one core. One file is written for each set, so it can be stopped and goes
on where it was. The grid is looked at after all sets have been searched.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import StratifiedKFold

import svmatlas
from clock import use_processor_time
from data import HERE, names, read
from study import SCORE, preprocessor, warm_up
from svmatlas import AsymmetricSVC

VALUES = np.logspace(-3, 3, 20)
"""Costs of the grid, for each class."""

TOLERANCE = 1e-9
"""The search ends when the best score is certain; with 0 it would go on to find all cells that reach it."""

FIELDS = [
    "set", "n", "d", "positive", "limit", "best", "bound", "certified", "time", "peak", "grid", "C_pos", "C_neg", "error",
]  # fmt: skip


def search(name, limit):
    """One set: the best score and its bound after some seconds of processor time."""
    table = read(name)
    row = {"set": name, "n": len(table.y), "d": table.X.shape[1], "positive": int(table.y.sum()), "limit": limit}
    forget_peak()
    begin = time.process_time()
    try:
        found = svmatlas.select(
            table.X, table.y, cv=folds_of(table), scoring=SCORE, preprocessor=preprocessor(table), time_budget=limit,
            tolerance=TOLERANCE,
        )  # fmt: skip
    except Exception as error:  # on record: none must fail
        return {**row, "time": time.process_time() - begin, "error": repr(error)}
    taken, peak = time.process_time() - begin, peak_memory()
    result = {"best": found.best_score, "bound": found.upper_bound, "certified": found.certified, "time": taken, "peak": peak}
    return {**row, **result, "C_pos": found.C_pos, "C_neg": found.C_neg}


def forget_peak():
    """The peak of memory is that from now on (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_memory():
    """The most memory that the process held, in GB (2^30 bytes)."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 2**20


def folds_of(table):
    n_folds = int(min(5, np.bincount(table.y).min()))
    return list(StratifiedKFold(n_folds, shuffle=True, random_state=0).split(table.X, table.y))


def best_of_grid(name):
    """The best score of the exact models at the costs of the grid."""
    table, total = read(name), np.zeros((VALUES.size, VALUES.size))
    folds = folds_of(table)
    for train, test in folds:
        change = preprocessor(table).fit(table.X[train])
        X, Z, y, truth = change.transform(table.X[train]), change.transform(table.X[test]), table.y[train], table.y[test]
        for i, C_pos in enumerate(VALUES):
            for j, C_neg in enumerate(VALUES):
                total[i, j] += balanced_accuracy_score(truth, AsymmetricSVC(C_pos, C_neg).fit(X, y).predict(Z))
    return float(total.max() / len(folds))


def write(path, row):
    """A file that is whole or not there."""
    path.with_suffix(".part").write_text(json.dumps(row))
    path.with_suffix(".part").rename(path)


def collect(folder, path):
    """All files as one table, by name. Rows of the table that have no file stay as they are."""
    rows = {}
    if path.exists():
        with path.open(newline="") as table:
            rows = {row["set"]: row for row in csv.DictReader(table)}
    for file in folder.glob("*.search"):
        row = json.loads(file.read_text())
        grid = rows.get(row["set"], {}).get("grid", "")
        rows[row["set"]] = {key: f"{value:.7g}" if isinstance(value, float) else value for key, value in row.items()} | {
            "grid": grid
        }
    for file in folder.glob("*.grid"):
        if file.stem in rows:
            rows[file.stem]["grid"] = f"{json.loads(file.read_text())['grid']:.7g}"
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, FIELDS)
        writer.writeheader()
        writer.writerows(rows[name] for name in sorted(rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=float, default=600.0, help="seconds of processor time for each set")
    parser.add_argument("--sets", nargs="*", help="names; all 50 by default, those with few rows first")
    parser.add_argument("--results", type=Path, default=HERE / "results" / "bounds")
    arguments = parser.parse_args()
    arguments.results.mkdir(exist_ok=True, parents=True)
    warm_up()
    use_processor_time()
    chosen = arguments.sets or sorted(names(), key=lambda name: len(read(name).y))
    for kind in ("search", "grid"):
        for name in chosen:
            path = arguments.results / f"{name}.{kind}"
            if not path.exists():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    row = search(name, arguments.limit) if kind == "search" else {"grid": best_of_grid(name)}
                write(path, row)
                print(name, row, flush=True)
                collect(arguments.results, HERE / "bounds.csv")


if __name__ == "__main__":
    main()
