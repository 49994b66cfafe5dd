"""Whether boxes of costs cover a region. Their ends are doubles, which are compared and never computed with: this is exact."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Box = tuple[tuple[float, float], tuple[float, float]]


def find_hole(region: Box, boxes: Sequence[Box]) -> Box | None:
    """Costs of a region that are in no box; None if there are none.

    Between two neighbours of all ends of boxes along C+, the boxes that reach from one to the other must cover C-.
    """
    ends = np.array(boxes, dtype=float).reshape(-1, 2, 2)
    (left, right), (bottom, top) = region
    cuts = np.unique(np.clip(np.concatenate([ends[:, 0].ravel(), [left, right]]), left, right))
    ends = ends[np.argsort(ends[:, 1, 0], kind="stable")]
    for a, b in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        reached = bottom
        for low, high in [*ends[(ends[:, 0, 0] <= a) & (ends[:, 0, 1] >= b), 1].tolist(), (top, top)]:
            if low > reached and reached < top:
                return (a, b), (reached, min(low, top))
            reached = max(reached, high)
    return None


def find_fault(region: Box, boxes: Sequence[Box]) -> str | None:
    """What keeps boxes from tiling a region; None if they do, so that no costs lie inside two of them, or in none.

    Between two neighbours of all ends of boxes along C+, those that are there must follow one another along C-.
    """
    (left, right), (bottom, top) = region
    ends = np.array(boxes, dtype=float).reshape(-1, 2, 2)
    if np.any(ends[:, :, 0] >= ends[:, :, 1]):
        return "a tile is empty"
    cuts = np.unique(np.append(ends[:, 0].ravel(), [left, right]))
    if cuts[0] < left or cuts[-1] > right or cuts.size < 2:
        return "a tile reaches beyond the region"
    ends = ends[np.argsort(ends[:, 1, 0], kind="stable")]
    for a, b in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        rows = ends[(ends[:, 0, 0] <= a) & (ends[:, 0, 1] >= b), 1]
        reached = np.concatenate([[bottom], rows[:, 1]])
        for low, before in zip([*rows[:, 0].tolist(), top], reached.tolist(), strict=True):
            if low != before:
                what = "are in no tile" if low > before else "are in two tiles, or outside the region"
                return f"costs with C+ from {a:g} to {b:g} and C- from {min(low, before):g} to {max(low, before):g} {what}"
    return None
