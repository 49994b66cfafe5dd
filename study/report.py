"""The results of the study as tables in docs/study.md, and a picture of all pairs of methods."""

from __future__ import annotations

import csv
import re
import warnings
from collections import defaultdict

import numpy as np
from scipy.stats import wilcoxon

from data import HERE

PAGE = HERE.parent / "docs" / "study.md"
PICTURE = HERE.parent / "docs" / "study.png"
SCORES = {"balanced_accuracy": "balanced accuracy", "f1": "F1", "money": "money, a row"}
ROPE = 0.01
"""Differences of balanced accuracy up to this are of no practical meaning."""

LEAST = 10
"""Sets below which methods are not compared."""

REGIONS = "bounds", "results", "search", "pairs"


def load():
    """Rows by set and split, then by method."""
    found = defaultdict(dict)
    with (HERE / "results.csv").open() as file:
        for row in csv.DictReader(file):
            numbers = {key: float(value) for key, value in row.items() if re.fullmatch(r"-?[\d.]+(e[+-]?\d+)?", value or "")}
            found[row["set"], row["split"]][row["method"]] = row | numbers
    return found


def bounds_table():
    """How near to a proof the search came on each set."""
    with (HERE / "bounds.csv").open() as file:
        rows = list(csv.DictReader(file))
    searched = [row for row in rows if not row["error"]]
    gaps = [float(row["bound"]) - float(row["best"]) for row in searched]
    graded = [row for row in searched if row["grid"]]
    worse = sum(float(row["best"]) < float(row["grid"]) - 1e-9 for row in graded)
    lines = [
        f"{len(rows)} of 50 sets were searched: {sum(row['certified'] == 'True' for row in searched)} are certified, "
        f"{sum(gap <= 0.01 for gap in gaps)} are certified or bounded within 0.01, {len(rows) - len(searched)} failed. "
        f"Exact models at the costs of a 20 x 20 grid were looked at for {len(graded)} of them, and better than the search in "
        f"{worse}.", "",
        "| set | rows | columns | positive | limit | best | bound | time | memory | grid |", "|---" * 10 + "|",
    ]  # fmt: skip
    for row in sorted(rows, key=lambda row: int(row["n"])):
        said = row["error"] or ("certified" if row["certified"] == "True" else f"{float(row['bound']):.4f}")
        best, grid = (f"{float(row[key]):.4f}" if row[key] else "" for key in ("best", "grid"))
        peak = f"{float(row['peak']):.2f} GB" if row["peak"] else ""
        lines.append(
            f"| {row['set']} | {row['n']} | {row['d']} | {row['positive']} | {float(row['limit']):.0f} s | {best} | {said} | "
            f"{float(row['time']):.1f} s | {peak} | {grid} |"
        )
    return lines


def methods_of(found):
    names = list(dict.fromkeys(name for rows in found.values() for name in rows))
    return [name for name in names if any(rows[name].get("balanced_accuracy") for rows in found.values() if name in rows)]


def by_set(found, method, score):
    """Mean over splits of each set, where the method has a result."""
    values = defaultdict(list)
    for (name, _), rows in found.items():
        if method in rows and rows[method]["balanced_accuracy"] != "":
            values[name].append(rows[method][score])
    return {name: float(np.mean(value)) for name, value in values.items()}


def results_table(found, methods):
    """Means on unseen rows, over the sets for which all methods have a result."""
    common = set.intersection(*(set(by_set(found, method, "f1")) for method in methods))
    lines = [f"| method | {' | '.join(SCORES.values())} | processor time, median |", "|---" * (len(SCORES) + 2) + "|"]
    for method in methods:
        means = [np.mean([by_set(found, method, score)[name] for name in common]) for score in SCORES]
        times = np.median([rows[method]["time"] for rows in found.values() if method in rows and rows[method]["time"] != ""])
        lines.append(f"| {method} | {' | '.join(f'{mean:.3f}' for mean in means)} | {times:.1f} s |")
    splits, limits = {split for _, split in found}, {row["limit"] for rows in found.values() for row in rows.values()}
    failed = sum(bool(row["error"]) for rows in found.values() for row in rows.values())
    seconds = " or ".join(f"{float(limit):g}" for limit in sorted(limits))
    head = (
        f"{len({name for name, _ in found})} sets with {len(splits)} outer split{'s' if len(splits) > 1 else ''} each; "
        f"`select` had {seconds} s. Means over the {len(common)} sets for "
        f"which all methods have a result; {failed} runs of a method ended without one."
    )
    return [head, "", *lines]


def search_table(found):
    """What the searches lost on the inner folds, against the certified best."""
    certified = {key: rows for key, rows in found.items() if rows.get("select", {}).get("certified") == "True"}
    bounded = [rows["select"] for rows in found.values() if rows.get("select", {}).get("bound", "") != ""]
    within = [sum(row["bound"] - row["inner"] <= gap for row in bounded) for gap in (0.01, 0.05)]
    lines = [
        f"Certified in the time: {len(certified)} of {len(found)}; bound within 0.01: {within[0]}, within 0.05: {within[1]}.",
        "", "| method | mean loss | largest loss | costs tried, median |", "|---|---|---|---|",
    ]  # fmt: skip
    for method in ("select, one_se", "balanced line", "LinearSVC, one C", "grid", "random search", "Optuna"):
        both = [rows for rows in certified.values() if rows.get(method, {}).get("inner", "") != ""]
        if both:
            losses = [rows["select"]["inner"] - rows[method]["inner"] for rows in both]
            tried = [rows[method]["tried"] for rows in both if rows[method]["tried"] != ""]
            count = f"{np.median(tried):.0f}" if tried else ""
            lines.append(f"| {method} | {np.mean(losses):.4f} | {np.max(losses):.4f} | {count} |")
    return lines


def compare(found, one, other):
    """Better, worse, Wilcoxon's p, and the probabilities that one is better, that both are equal, that it is worse."""
    import baycomp

    a, b = by_set(found, one, "balanced_accuracy"), by_set(found, other, "balanced_accuracy")
    names = sorted(set(a) & set(b))
    x, y = np.array([a[name] for name in names]), np.array([b[name] for name in names])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        p = wilcoxon(x, y).pvalue if np.any(x != y) else 1.0
        better, equal, worse = baycomp.two_on_multiple(x, y, rope=ROPE, random_state=0)
    return int(np.sum(x > y + ROPE)), int(np.sum(x < y - ROPE)), len(names), float(p), better, equal, worse


def pairs_table(found, methods):
    n_sets = len({name for name, _ in found})
    if n_sets < LEAST:
        return [f"With {n_sets} sets nothing can be said: there is no comparison below {LEAST}."]
    draw(found, methods)
    lines = [
        "![All pairs of methods](study.png)",
        "",
        "| | against | better : worse by more than 0.01, of | Wilcoxon | better | equal | worse |",
        "|---" * 7 + "|",
    ]
    ours = [name for name in methods if name.startswith(("select", "balanced line"))]
    others = [name for name in methods if name not in ours]
    for one in ours:
        for other in others:
            better, worse, n, p, *shares = compare(found, one, other)
            lines.append(f"| {one} | {other} | {better} : {worse}, {n} | {p:.3f} | {' | '.join(f'{s:.2f}' for s in shares)} |")
    return lines


def draw(found, methods):
    """Colour: the mean difference of balanced accuracy, row minus column."""
    from matplotlib.figure import Figure

    def difference(one, other):
        a, b = by_set(found, one, "balanced_accuracy"), by_set(found, other, "balanced_accuracy")
        return np.mean([a[name] - b[name] for name in set(a) & set(b)])

    table = np.array([[difference(a, b) for b in methods] for a in methods])
    figure = Figure(figsize=(9, 8), layout="constrained")
    axes = figure.subplots()
    most = max(0.01, float(np.abs(table).max()))
    image = axes.imshow(table, cmap="RdBu", vmin=-most, vmax=most)
    axes.set_xticks(range(len(methods)), methods, rotation=60, ha="right")
    axes.set_yticks(range(len(methods)), methods)
    for i, j in np.ndindex(table.shape):
        color = "white" if abs(table[i, j]) > most / 2 else "black"
        axes.text(j, i, f"{100 * table[i, j]:+.1f}", ha="center", va="center", fontsize=7, color=color)
    axes.set_title("Balanced accuracy on unseen rows: row minus column, mean, in points")
    figure.colorbar(image, shrink=0.7)
    figure.savefig(PICTURE, dpi=110)


def main():
    found = load()
    methods = methods_of(found)
    page = PAGE.read_text()
    tables = bounds_table(), results_table(found, methods), search_table(found), pairs_table(found, methods)
    for region, lines in zip(REGIONS, tables, strict=True):
        begin, end = f"<!-- {region} -->\n", f"<!-- end of {region} -->"
        head, rest = page.split(begin)
        page = head + begin + "\n" + "\n".join(lines) + "\n\n" + end + rest.split(end, 1)[1]
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
