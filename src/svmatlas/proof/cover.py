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
