"""``svmatlas demo``: a tour on the breast-cancer data of scikit-learn, with a page to look at and four pictures.

The whole quadrant of costs and its certificate; then the exact best costs by 5-fold cross-validation, beside what a grid
search and ``class_weight="balanced"`` find on the same folds.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

import svmatlas
from svmatlas.support.writing import replacing

POSITIVE = "benign"
"""The class that C+ is the cost of errors on: the majority, as it is labelled 1 in these data."""

GRID = np.geomspace(1e-4, 1e2, 13)
"""Costs of a grid as it is often taken: two values a decade, for both C+ and C-."""

BALANCED = np.geomspace(1e-4, 1e2, 61)
"""Values of C at which class_weight="balanced" is tried."""


def run(folder: Path, progress: bool = True) -> None:
    """Explore, validate, select, and draw."""
    from svmatlas.show.displays import use_files

    use_files()
    cancer = load_breast_cancer()
    X, y = StandardScaler().fit_transform(cancer.data), cancer.target_names[cancer.target]
    print(f"The map to look at will be {folder / 'map.html'}: open it in a browser when this is done.\n")
    classes = f"{np.sum(y == POSITIVE)} {POSITIVE} (positive)"
    print(f"Breast cancer: {X.shape[0]} rows, {X.shape[1]} features, standardised; {classes}.\n")
    print("1. Every linear SVM there is on these data: all costs (C+, C-) from 0 to infinity.", flush=True)
    begin = time.perf_counter()
    names = list(map(str, cancer.feature_names))
    atlas = svmatlas.explore(X, y, pos_label=POSITIVE, n_jobs=-1, progress=progress, feature_names=names)
    print(f"   {atlas.n_facets:,} facets in {atlas.n_layers} layers, {time.perf_counter() - begin:.1f} s.\n")
    print("2. The certificate that nothing is missing and everything is optimal:", flush=True)
    print("   " + str(atlas.validate(progress=progress, n_jobs=-1)).replace("\n", "\n   ") + "\n")
    print("3. The best costs for balanced accuracy, 5-fold cross-validation, over the whole plane:", flush=True)
    begin = time.perf_counter()
    selection = svmatlas.select(X, y, cv=5, pos_label=POSITIVE, n_jobs=-1, progress=progress)
    _compare(selection, y, time.perf_counter() - begin)
    print(f"\n4. The page and pictures in {folder}:", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    atlas.page(folder / "map.html", selection, title="Breast cancer: every linear SVM there is")
    print(f"   {'map.html':14} all of this to zoom and to click: open it in a browser", flush=True)
    _draw(folder, atlas, selection)


def _compare(selection: svmatlas.Selection, y: Any, seconds: float) -> None:
    """The best score beside what a grid and balanced weights reach on the same folds."""
    n_pos, n_neg = np.sum(y == POSITIVE), np.sum(y != POSITIVE)
    n = n_pos + n_neg
    on_grid = selection.score_at(*(v.ravel() for v in np.meshgrid(GRID, GRID)))
    balanced = selection.score_at(BALANCED * n / (2 * n_pos), BALANCED * n / (2 * n_neg))
    proof = "no costs do better" if selection.certified else f"at most {selection.upper_bound:.4f} is possible"
    print(
        f"   exact                      {selection.best_score:.4f}  at C+ = {selection.C_pos:.4g}, C- = {selection.C_neg:.4g}"
    )
    print(f"   grid, {GRID.size} x {GRID.size} costs        {on_grid.max():.4f}")
    print(f'   class_weight="balanced"    {balanced.max():.4f}  best of {BALANCED.size} values of C')
    print(f"   ({proof}; {seconds:.1f} s. The scores of all three are read off the same exact models.)")


def _draw(folder: Path, atlas: svmatlas.Atlas, selection: svmatlas.Selection) -> None:
    from svmatlas.show.displays import AlphaDisplay, AtlasDisplay, SelectionDisplay

    pictures: dict[str, tuple[str, Any]] = {
        "map.png": ("rows on the margin over all costs", AtlasDisplay.from_atlas(atlas, color_by="margin_size")),
        "triangle.png": (
            "layers over the whole quadrant, infinity included; the diagonal is the SVM with one cost",
            AtlasDisplay.from_atlas(atlas, scale="triangle", rays=[1.0]),
        ),
        "alpha.png": ("dual variables of three rows", AlphaDisplay.from_atlas(atlas, [13, 38, 49], resolution=300)),
        "selection.png": (
            "the cross-validated score in its true cells, the best outlined, a grid on top",
            SelectionDisplay.from_selection(selection, grid=(GRID, GRID)),
        ),
    }
    for name, (what, display) in pictures.items():
        with replacing(folder / name) as draft:
            display.figure_.savefig(draft, format="png", dpi=120)
        print(f"   {name:14} {what}")
