"""``python -m svmatlas.demo``: the whole quadrant of the breast-cancer data of scikit-learn, with its certificate."""

from __future__ import annotations

import time

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import svmatlas


def main() -> None:
    """Explore, validate, and show what one can ask the map."""
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    print(f"Breast cancer: {X.shape[0]} rows, {X.shape[1]} features, standardised; {np.sum(y == 1)} positives.")
    print("Exploring every pair of costs (C+, C-) from 0 to infinity ...")
    svmatlas.explore(X[:20, :2], y[:20])  # compiles the kernels on first use
    begin = time.perf_counter()
    atlas = svmatlas.explore(X, y, progress=True)
    taken = time.perf_counter() - begin
    begin = time.perf_counter()
    LinearSVC(loss="hinge", C=1.0, max_iter=100_000).fit(X, y)
    fit = time.perf_counter() - begin
    print(atlas)
    print(f"Every linear SVM there is on these data, for the time of {taken / fit:.0f} fits of LinearSVC(C=1).\n")
    report = atlas.validate(progress=True)
    print("Certificate:", report, sep="\n")
    print("\nThe exact model at C+ = 1, C- = 0.1:")
    facet = atlas.locate(1.0, 0.1)
    margin, inside, outside = atlas.partition(facet)
    print(f"  facet {facet}: {margin.size} rows on the margin, {inside.size} inside, {outside.size} outside")
    corners = atlas.polygon(facet)
    costs = ", ".join(f"({p / l:.4g}, {q / l:.4g})" for p, q, l in corners if l > 0)
    far = ", and on to infinity" if np.any(corners[:, 2] == 0) else ""
    print(f"  the same partition holds in the polygon with corners {costs}{far}")
    decision = X @ atlas.coef(1.0, 0.1) + atlas.intercept(1.0, 0.1)
    print(f"  training accuracy {np.mean((decision > 0) == (y == 1)):.4f}")


if __name__ == "__main__":
    main()
