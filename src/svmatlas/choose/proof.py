"""The proof of a selection, for :func:`svmatlas.certify`: the parts of the region that were dropped or explored, and why.

A search with a record bounds boxes by the checker's own arithmetic (proof/ball.py), so that the checker finds the same. Boxes
that were explored are explored again, as maps in files. The others come with the dual variables of models at their corners.
"""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.atlas.atlas import Atlas
from svmatlas.atlas.explore import explore
from svmatlas.choose.corners import Corner, Costs
from svmatlas.choose.folds import Folds
from svmatlas.choose.scoring import NAMED
from svmatlas.data.problem import Bounds
from svmatlas.proof.ball import FoldRows
from svmatlas.proof.cells import MOST
from svmatlas.proof.selection import FORMAT, NAME, Bounder
from svmatlas.support.messages import shown
from svmatlas.support.stopping import NEVER, Limit
from svmatlas.support.writing import PathLike, check_goal, replacing

Floats = npt.NDArray[np.float64]

AROUND = 2.0**-14
"""Relative width (6e-5) of the box around the recommended costs of which there are maps."""


def check_proof(path: PathLike | None, scoring: Any, kernel: Any, preprocessor: Any) -> None:
    """ValueError if no proof can be written of a selection."""
    if path is None:
        return
    check_goal(path)
    if not (isinstance(scoring, str) and scoring in NAMED):
        raise ValueError(f"proof: the score must be one of {', '.join(map(repr, NAMED))}, got {shown(scoring)}")
    if kernel != "linear" or preprocessor is not None:
        raise ValueError("proof: the kernel must be linear, and the rows be those of X: transform them before")


class Noted(NamedTuple):
    """A box that the search is done with."""

    bounds: Bounds
    nodes: list[list[Corner]]  # the models of all folds at its corners, in order around it, if they are known


class Record:
    """What a search dropped, explored and left open."""

    def __init__(self, folds: Folds, scoring: str, model: dict[str, Any], region: Bounds, n_jobs: int | None) -> None:
        self.folds, self.scoring, self.model, self.region, self.n_jobs = folds, scoring, model, region, n_jobs
        rows, held = [], []
        for k, (train, test) in enumerate(folds.splits):
            if np.intersect1d(train, test).size:
                raise ValueError(f"proof: fold {k} holds out rows that it is trained on")
            given = folds.X[train], folds.positive[train], folds.weight[train], folds.X[test]
            rows.append(FoldRows(*given, float(model["bias"])))
            held.append(folds.positive[test])
        self.bounder = Bounder(rows, held, scoring)
        self.boxes: list[Noted] = []
        self.explored: list[Noted] = []

    def bound(self, nodes: list[list[Corner]]) -> float:
        """The bound of a box from the models at its corners."""
        costs = np.array([[node[0].costs for node in nodes]])
        shares = [np.array([[node[k].share for node in nodes]], dtype=float) for k in range(len(self.folds.splits))]
        with np.errstate(all="ignore"):
            return float(self.bounder.bounds(costs, shares)[0])

    def note(self, bounds: Bounds, nodes: list[list[Corner]]) -> None:
        """A box that cannot hold the best, or is left open."""
        self.boxes.append(Noted(bounds, nodes))

    def note_explored(self, bounds: Bounds, nodes: list[list[Corner]]) -> None:
        """A box of which all cells are known."""
        self.explored.append(Noted(bounds, nodes))

    # The file

    def write(self, path: PathLike, score: float, costs: Costs, limit: Limit) -> float:
        """Write the proof that these costs reach a score; returns the bound that is proven with it.

        Boxes that were explored, and for whose maps there is no time, are bounded as if they were not.
        """
        with (
            replacing(path) as draft,
            zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive,
            tempfile.TemporaryDirectory() as folder,
        ):
            around: Bounds = tuple(  # type: ignore[assignment]
                (max(lo, cost * (1 - AROUND)), min(hi, cost * (1 + AROUND)))
                for cost, (lo, hi) in zip(costs, self.region, strict=True)
            )
            self._save(archive, folder, "best", list(self._maps(around, None, NEVER)))
            parts, boxes = self._explore(archive, folder, score, costs, limit)
            models: dict[Costs, list[Corner]] = {node[0].costs: node for box in boxes for node in box.nodes}
            number = {where: k for k, where in enumerate(models)}
            for box in boxes:
                bound = self.bound(box.nodes) if box.nodes else self.bounder.perfect
                part = {"box": _ends(box.bounds), "bound": max(bound, score)}
                parts.append({**part, "models": [number[node[0].costs] for node in box.nodes]} if box.nodes else part)
            for k in range(len(self.folds.splits)):
                shares = np.array([node[k].share for node in models.values()], dtype="<f8")
                archive.writestr(f"models.fold{k}", shares.tobytes())
            upper = max(part["bound"] for part in parts)
            said = self._claims(score, costs, upper) | {"around": _ends(around), "models": list(models), "parts": parts}
            archive.writestr(NAME, json.dumps(said))
        return float(upper)

    def _claims(self, score: float, costs: Costs, upper: float) -> dict[str, Any]:
        positive = self.folds.classes.tolist()[1]
        return {
            "format": FORMAT,
            "scoring": self.scoring,
            "bias": float(self.model["bias"]),
            "best_score": float(score),
            "upper_bound": float(upper),
            "costs": [float(cost) for cost in costs],
            "region": _ends(self.region),
            "n_rows": len(self.folds.y),
            "positive": positive if isinstance(positive, bool | int | float) else str(positive),
            "folds": [[train.tolist(), test.tolist()] for train, test in self.folds.splits],
        }

    def _explore(
        self, archive: zipfile.ZipFile, folder: str, score: float, costs: Costs, limit: Limit
    ) -> tuple[list[dict[str, Any]], list[Noted]]:
        """The parts with maps, and the boxes that are left."""
        waiting, parts, left = joined([box.bounds for box in self.explored]), list[dict[str, Any]](), list[Bounds]()
        while waiting:
            bounds = waiting.pop()
            maps = list(self._maps(bounds, [MOST // (6 * len(test)) for _, test in self.folds.splits], limit))
            if all(atlas is not None and atlas.complete for atlas in maps):
                parts.append({"box": _ends(bounds), "bound": float(score), "maps": f"part{len(parts)}"})
                self._save(archive, folder, parts[-1]["maps"], maps)
            elif limit.expired:
                left.append(bounds)
            else:
                waiting += _halves(bounds, costs)
        held = [_bounds(part["box"]) for part in parts]
        boxes = [box for box in self.boxes if not any(_is_inside(box.bounds, part) for part in held)]
        boxes += [box for box in self.explored if any(_meets(box.bounds, part) for part in left)]
        return parts, boxes

    def _maps(self, bounds: Bounds, most: list[int] | None, limit: Limit) -> Iterator[Atlas | None]:
        """The maps of all folds in a box; the last is not complete, or None, if it is larger than ``most`` facets."""
        for k, (train, _) in enumerate(self.folds.splits):
            atlas = None
            if not limit.expired:
                try:
                    atlas = explore(
                        self.folds.X[train], self.folds.positive[train].astype(int), sample_weight=self.folds.weight[train],
                        region=bounds, n_jobs=self.n_jobs, max_facets=None if most is None else most[k],
                        time_budget=limit.left if limit.finite else None, **self.model,
                    )  # fmt: skip
                except (MemoryError, ValueError):
                    if most is None or not (limit.expired or limit.finite):
                        raise
            yield atlas
            if atlas is None or not atlas.complete:
                return

    def _save(self, archive: zipfile.ZipFile, folder: str, name: str, maps: Sequence[Atlas | None]) -> None:
        for k, atlas in enumerate(maps):
            assert atlas is not None
            part = Path(folder) / f"{name}.fold{k}.atlas"
            atlas.save(part)
            archive.write(part, part.name)
            part.unlink()


# ----------------------------------------------------------------------------------------------------------------------
# Boxes


def joined(boxes: list[Bounds]) -> list[Bounds]:
    """The same costs in fewer boxes: two with a side in common are one."""
    for axis in (0, 1, 0, 1):
        rows: dict[tuple[float, float], list[tuple[float, float]]] = {}
        for box in boxes:
            rows.setdefault(box[1 - axis], []).append(box[axis])
        boxes = []
        for side, ends in rows.items():
            for low, high in _united(ends):
                boxes.append(((low, high), side) if axis == 0 else (side, (low, high)))
    return boxes


def _united(ends: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Intervals that touch or overlap, as one."""
    found: list[tuple[float, float]] = []
    for low, high in sorted(ends):
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(high, found[-1][1])
        else:
            found.append((low, high))
    return found


def _halves(bounds: Bounds, costs: Costs) -> list[Bounds]:
    """Two halves of a box, cut along its longer side; at the given costs if that reaches from zero to infinity."""
    ratio = [hi / lo if lo > 0 else np.inf for lo, hi in bounds]
    axis = int(ratio[1] > ratio[0])
    lo, hi = bounds[axis]
    if lo > 0 and hi < np.inf:
        middle = float(np.sqrt(lo) * np.sqrt(hi))
    elif lo < costs[axis] < hi:
        middle = costs[axis]
    else:
        middle = 4.0 * lo if lo > 0 else hi / 4.0
    parts = (lo, middle), (middle, hi)
    return [(part, bounds[1]) if axis == 0 else (bounds[0], part) for part in parts]


def _ends(bounds: Bounds) -> list[list[float | None]]:
    return [[lo, hi if hi < np.inf else None] for lo, hi in bounds]


def _bounds(ends: list[list[Any]]) -> Bounds:
    (a, b), (c, d) = ((lo, np.inf if hi is None else hi) for lo, hi in ends)
    return (a, b), (c, d)


def _is_inside(box: Bounds, other: Bounds) -> bool:
    return all(low <= lo and hi <= high for (lo, hi), (low, high) in zip(box, other, strict=True))


def _meets(box: Bounds, other: Bounds) -> bool:
    return all(lo < high and low < hi for (lo, hi), (low, high) in zip(box, other, strict=True))
