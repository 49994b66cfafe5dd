"""A facet that reaches over several tiles: its edges in order, from its parts.

An edge is named by the facet behind it, or by the side of the region: two convex facets share at most one edge. A corner of a
part is one of the facet unless it is on a cut, and follows from which edges meet in it. Only in a corner of the triangle of
costs, where cuts may end too, two edges can meet that no part has both of.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

ON_CUT = -100
"""In place of a name: the edge is on a cut. (Sides of the region are -1, -2, ...)"""


class Part(NamedTuple):
    """A facet in one tile."""

    names: list[int]  # of its edges in order
    corners: Floats  # (n, 3) at the end of each
    far: list[int]  # which corner of the triangle of costs each of these is, -1 for none


class Ring(NamedTuple):
    """A whole facet."""

    names: list[int]
    corners: Floats


def stitch(parts: list[Part]) -> Ring | None:
    """The facet of some parts; None if they do not make a ring."""
    following: dict[int, tuple[int, Floats]] = {}
    ends: dict[int, tuple[int, Floats]] = {}
    starts: dict[int, int] = {}
    for part in parts:
        for k, a in enumerate(part.names):
            b, far = part.names[(k + 1) % len(part.names)], part.far[k]
            if a != ON_CUT and b != ON_CUT:
                following[a] = b, part.corners[k]
            elif far >= 0 and a != ON_CUT:
                ends[far] = a, part.corners[k]
            elif far >= 0 and b != ON_CUT:
                starts[far] = b
    for far, (a, corner) in ends.items():
        if far in starts:
            following[a] = starts[far], corner
    names, corners = [], []
    name = first = max(following, default=ON_CUT)
    while name in following:
        following_name, corner = following.pop(name)
        names.append(name)
        corners.append(corner)
        name = following_name
    return Ring(names, np.array(corners)) if name == first and not following else None
