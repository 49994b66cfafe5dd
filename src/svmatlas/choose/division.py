"""How the plane of costs is divided: into the first boxes of a search, and into regions of many of these.

*Edges* are the ends of boxes along one axis; the first may be 0, the last infinity. Beyond the largest finite edges facets are
few, so there are three boxes only: both costs are larger, or one of them is.
"""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import numpy.typing as npt

from svmatlas.data.problem import Bounds

Floats = npt.NDArray[np.float64]

STEP = 10.0
"""Ratio of the costs at the two ends of the first boxes."""


def make_edges(bound: tuple[float, float], small: float, large: float, shift: float) -> list[float]:
    """Ends of the first boxes along one axis."""
    inner = small * shift * STEP ** np.arange(1 + np.ceil(max(0.0, np.log(large / small) / np.log(STEP))))
    return [bound[0], *(cost for cost in inner.tolist() if bound[0] < cost < bound[1]), bound[1]]


def boxes_between(edges: list[list[float]]) -> list[Bounds]:
    """Boxes that make up the region; those that reach infinity have few facets, and are as large as can be."""
    inner = [[cost for cost in edge if cost < np.inf] for edge in edges]
    outer = [[(costs[-1], np.inf)] if edge[-1] == np.inf else [] for costs, edge in zip(inner, edges, strict=True)]
    whole = [[(costs[0], costs[-1])] if len(costs) > 1 else [] for costs in inner]
    parts = (map(pairwise, inner)), (outer[0], whole[1]), (whole[0], outer[1]), outer
    return [box for p, q in parts for box in product(p, q)]


def make_cuts(edges: list[float], sizes: Floats, n: int) -> list[float]:
    """Ends of regions along one axis: about as many events, of some ``sizes``, are between two of n cuts."""
    if n == 0:
        return [edges[0], edges[-1]]
    inner, last = np.unique(np.quantile(sizes, np.arange(1, n + 1) / (n + 1))), edges[-2]
    ends = [] if edges[-1] < np.inf else [last]
    return sorted({edges[0], *inner[(inner > edges[0]) & (inner < last)].tolist(), *ends, edges[-1]})


def hull_of(boxes: list[Bounds], edges: list[list[float]]) -> Bounds:
    """First boxes that hold some boxes, as one."""
    first = [max(cost for cost in edge if cost <= min(box[k][0] for box in boxes)) for k, edge in enumerate(edges)]
    last = [min(cost for cost in edge if cost >= max(box[k][1] for box in boxes)) for k, edge in enumerate(edges)]
    return (first[0], last[0]), (first[1], last[1])


def finite_sizes(edges: list[list[float]]) -> tuple[float, float]:
    """The least and the largest size of arcs: those of the first boxes that reach neither an axis nor infinity."""
    inner = [[cost for cost in edge if 0 < cost < np.inf] for edge in edges]
    ends = [end for end in inner if end]
    return (min(end[0] for end in ends), max(end[-1] for end in ends)) if ends else (1.0, 1.0)


def cut_in_two(box: Bounds) -> list[Bounds]:
    """Two parts of a box that reaches an axis or infinity: where it is wider, but for what has no end."""
    (a, b), (c, d) = box
    width = [np.log(hi / lo) if lo > 0 and hi < np.inf else 1.0 for lo, hi in box]
    if width[0] >= width[1]:
        middle = _cut_at(a, b)
        return [((a, middle), (c, d)), ((middle, b), (c, d))]
    middle = _cut_at(c, d)
    return [((a, b), (c, middle)), ((a, b), (middle, d))]


def _cut_at(lo: float, hi: float) -> float:
    """A cost between two others that cuts off what is near an axis or infinity."""
    if hi == np.inf:
        return STEP * lo if lo > 0 else 1.0
    return float(np.sqrt(lo * hi)) if lo > 0 else hi / STEP


def is_inside(box: Bounds, other: Bounds) -> bool:
    """Whether all of a box is in another one."""
    return all(low <= lo and hi <= high for (lo, hi), (low, high) in zip(box, other, strict=True))


def intersection(box: Bounds, other: Bounds) -> list[Bounds]:
    """What two boxes have in common: one box or none."""
    (a, b), (c, d) = ((max(lo, low), min(hi, high)) for (lo, hi), (low, high) in zip(box, other, strict=True))
    return [((a, b), (c, d))] if a < b and c < d else []


def middle_of(lo: float, hi: float) -> float:
    """A cost between two others, which are not both 0 and infinity."""
    if hi == np.inf:
        return 2.0 * lo
    return float(np.sqrt(lo * hi)) if lo > 0 else hi / 2.0


def distance_of(box: Bounds, middle: list[float]) -> float:
    """How far a box is from the middle, in logarithms; the others by their ends that are costs."""
    ends = [[cost for cost in bound if 0 < cost < np.inf] for bound in box]
    return float(sum(np.mean(np.log(np.divide(end, m))) ** 2 for end, m in zip(ends, middle, strict=True) if end))


def outside(tile: Bounds, box: Bounds) -> list[Bounds]:
    """The parts of a tile outside of a box."""
    inner = [(max(lo, a), min(hi, b)) for (lo, hi), (a, b) in zip(tile, box, strict=True)]
    if any(not a < b for a, b in inner):
        return [tile]
    (lo, hi), (a, b) = tile[0], inner[0]
    (low, high), (c, d) = tile[1], inner[1]
    parts = [((lo, a), tile[1]), ((b, hi), tile[1]), ((a, b), (low, c)), ((a, b), (d, high))]
    return [part for part in parts if all(u < v for u, v in part)]
