"""The cells of an overlay with the best score, by branch and bound, and what the models say of them.

Curves carry rounding errors, and the jitter that splits ties. So the costs that are returned are first given to models: each
fold is fitted at them, and must score what the curves claim. A claim that the models do not confirm is dropped, and the search
is done again without it.
"""

from __future__ import annotations

import heapq
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.choose.arrangement import Best, Box, bound_of, fragments_of, halve, is_promising
from svmatlas.choose.cells import Cell, Parts, Window, area_within, join, make_window
from svmatlas.choose.overlay import GRACE, MAPS_SHARE, Overlay
from svmatlas.data.problem import make_region
from svmatlas.support.progress import scores, show
from svmatlas.support.stopping import Limit, Stopped

Words = npt.NDArray[np.uint64]

SMALL = 2000
"""Boxes with no more pieces of curves than this are searched at once, in compiled code: some milliseconds."""

SEARCH_SHARE = 0.9
"""Share of the time that is left for the search; the rest is for the models."""


class Found(NamedTuple):
    """What a search found."""

    fragments: list[Box]
    upper_bound: float
    n_boxes: int


def fresh_best(n_front: int = 0, refuted: Words | None = None, floor: float = -np.inf) -> Best:
    """Nothing has been reached but a score of ``floor``; ``refuted``: see Best."""
    none, zero = np.empty(0, dtype=np.uint64), np.zeros(1, dtype=np.uint64)
    random = np.array([88172645463325252], dtype=np.uint64)
    return Best(
        np.array([floor, np.inf]), np.full(n_front, -1, dtype=np.int64), random, np.zeros(1, np.int64),
        none if refuted is None else refuted, zero,
    )  # fmt: skip


def search(overlay: Overlay, best: Best, limit: Limit, bar: Any) -> Found:
    """All fragments of cells that are as good as the best: large boxes are halved, the one with the highest bound first.

    Of equal bounds the one with the better known score comes first, so that something good is known soon. It is stopped by the
    limit only if some score is known.
    """
    judge = overlay.judge
    heap = [(-np.inf, 0.0, 0, overlay.box)]
    fragments: list[Box] = []
    n_boxes, unknown, ticket, floor = 0, -np.inf, 0, best.score[0]
    while heap and not (limit.expired and (fragments or floor > -np.inf)):
        bound, _, _, box = heapq.heappop(heap)
        counts, _ = bound_of(judge, box)
        if not is_promising(judge, best, counts, True):
            continue
        if box.points.size <= SMALL:
            more, missed, looked = fragments_of(judge, best, box)
            fragments += more
            unknown, n_boxes = max(unknown, missed), n_boxes + looked
        else:
            n_boxes += 1
            for child in halve(judge, best, box):
                ticket += 1
                known = float(overlay.fold_scores(child.counts[None]).mean())
                heapq.heappush(heap, (-bound_of(judge, child)[1], -known, ticket, child))
        show(bar, scores(best.score[0], -bound), MAPS_SHARE + (1.0 - MAPS_SHARE) * n_boxes / (n_boxes + len(heap) + 1))
    fragments = [box for box in fragments if is_promising(judge, best, box.counts, False)]
    left = max((-bound for bound, _, _, _ in heap), default=-np.inf)
    return Found(fragments, float(max(best.score[0], unknown, left)), n_boxes)


# ----------------------------------------------------------------------------------------------------------------------
# What the models say


class Confirmed(NamedTuple):
    """The best cells, as the models have them."""

    cells: list[Cell]
    upper_bound: float
    certified: bool  # no costs can have a higher score
    n_boxes: int
    refuted: Words  # keys of predictions that no models make

    @property
    def best_score(self) -> float:
        """The score of the cells."""
        return self.cells[0].score


def find_best(overlay: Overlay, limit: Limit, bar: Any, floor: float = -np.inf) -> Confirmed:
    """Search for the best cells until the models confirm some. Stopped if there are none whose score is at least ``floor``."""
    refuted, n_boxes = np.empty(0, dtype=np.uint64), 0
    while True:
        best = fresh_best(refuted=refuted, floor=floor)
        found = search(overlay, best, limit.within(SEARCH_SHARE * limit.left), bar)
        n_boxes += found.n_boxes
        candidates = make_cells(overlay, found.fragments)
        if not candidates and (limit.expired or best.score[0] == floor):
            raise Stopped
        try:
            cells, confirmed = _confirmed(overlay, candidates, limit), True
        except Stopped:
            cells, confirmed = _in_a_hurry(overlay, candidates[0])
        if cells:
            top = cells[0].score
            certified = confirmed and found.upper_bound <= top + overlay.judge.equal
            return Confirmed(cells, top if certified else found.upper_bound, certified, n_boxes, refuted)
        keys = [cell.key for cell in candidates] or best.key.tolist()
        refuted = np.concatenate([refuted, np.array(keys, dtype=np.uint64)])


def _confirmed(overlay: Overlay, cells: list[Cell], limit: Limit) -> list[Cell]:
    """Cells that the models confirm: the first of them, and others that rounding or jitter may have made."""
    confirmed: list[Cell] = []
    for cell in cells:
        if (confirmed and not cell.is_narrow) or overlay.confirms(cell, limit):
            confirmed.append(cell)
    return confirmed


def _in_a_hurry(overlay: Overlay, cell: Cell) -> tuple[list[Cell], bool]:
    """A cell with the scores of its models, or of the curves if even this would take too long; whether it is the former."""
    try:
        scores = overlay.model_scores(cell, Limit(GRACE))
    except Stopped:
        return [cell], False
    return [replace(cell, score=float(scores.mean()), fold_scores=scores)], True


# ----------------------------------------------------------------------------------------------------------------------
# Cells


def make_cells(overlay: Overlay, fragments: list[Box]) -> list[Cell]:
    """Cells from fragments, the largest first."""
    parts = join(fragments)
    window = make_window(parts, overlay.bounds)
    whole = make_region(overlay.region, 0)
    edges = {tuple(side) for side in whole.sides[whole.axis < 0].tolist()}
    natural = np.array([tuple(side) not in edges for side in make_region(overlay.bounds, 0).sides.tolist()])
    cells = [_make_cell(overlay, part, window, natural) for part in parts]
    return sorted(cells, key=lambda cell: (-cell.area, cell.polygon[0].tolist()))


def _make_cell(overlay: Overlay, part: Parts, window: Window, natural: npt.NDArray[np.bool_]) -> Cell:
    pieces = [box.corners for box in part.boxes]
    scores = overlay.fold_scores(part.boxes[0].counts[None])[0]
    return Cell(
        polygon=part.rings[0],
        holes=part.rings[1:],
        pieces=pieces,
        score=float(scores.mean()),
        fold_scores=scores,
        area=area_within(pieces, window),
        unbounded=any(np.any(piece[:, 2] == 0) for piece in pieces),
        at_edge=any(not natural[side] for side in part.sides),
        key=int(part.boxes[0].key[0]),
        _window=window,
    )
