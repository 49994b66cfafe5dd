"""The proof of a selection, for :func:`svmatlas.certify`: the folds, and the whole map of the training rows of each.

Where the maps are known, the checker needs nothing of the search: it bounds the scores by itself (proof/selection.py).
"""

from __future__ import annotations

import json
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from svmatlas.atlas.explore import explore
from svmatlas.choose.folds import Folds
from svmatlas.choose.scoring import NAMED
from svmatlas.data.problem import Bounds
from svmatlas.support.messages import shown
from svmatlas.support.writing import PathLike, check_goal, replacing

FORMAT = 1
"""Of the file: docs/format.md, section Selections."""


def check_proof(path: PathLike | None, scoring: Any, kernel: Any, preprocessor: Any, time_budget: Any) -> None:
    """ValueError if no proof can be written of a selection."""
    if path is None:
        return
    check_goal(path)
    if not (isinstance(scoring, str) and scoring in NAMED):
        raise ValueError(f"proof: the score must be one of {', '.join(map(repr, NAMED))}, got {shown(scoring)}")
    if kernel != "linear" or preprocessor is not None:
        raise ValueError("proof: the kernel must be linear, and the rows be those of X: transform them before")
    if time_budget is not None:
        raise ValueError("proof: the maps of all folds are explored for it, which has no time budget")


def write_proof(
    path: PathLike, folds: Folds, scoring: str, best: tuple[float, float, tuple[float, float]], model: dict[str, Any],
    bounds: Bounds, n_jobs: int | None,
) -> None:  # fmt: skip
    """Explore the maps of all folds, and write what the checker needs; ``best`` are the score, the bound and the costs."""
    score, upper, costs = best
    positive = folds.classes.tolist()[1]
    said = {
        "format": FORMAT,
        "scoring": scoring,
        "best_score": float(score),
        "upper_bound": float(upper),
        "costs": [float(cost) for cost in costs],
        "region": [[lo, hi if hi < float("inf") else None] for lo, hi in bounds],
        "n_rows": len(folds.y),
        "positive": positive if isinstance(positive, bool | int | float) else str(positive),
        "folds": [[train.tolist(), test.tolist()] for train, test in folds.splits],
    }
    with replacing(path) as draft, zipfile.ZipFile(draft, "w") as archive, tempfile.TemporaryDirectory() as folder:
        archive.writestr("selection.json", json.dumps(said))
        for k, (train, _) in enumerate(folds.splits):
            atlas = explore(
                folds.X[train], folds.positive[train].astype(int), sample_weight=folds.weight[train], region=bounds,
                n_jobs=n_jobs, **model,
            )  # fmt: skip
            part = Path(folder) / f"fold{k}.atlas"
            atlas.save(part)
            archive.write(part, part.name)
            part.unlink()
