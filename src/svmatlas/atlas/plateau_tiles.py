"""Tiles that lie on a plateau (engine/plateaus.py), known from others that do.

A plateau is convex, and with some costs it has all that have a larger cost of its class and the same other cost. So a tile
lies on it if at its least cost of the class two other costs are known to be on it, one below the tile and one above. Half of
the tiles of a large map are such, and to find a partition there, to start from, takes longer than to explore others.
"""

from __future__ import annotations

import numpy as np

from svmatlas.data.problem import Bounds
from svmatlas.engine.tile import Facets
from svmatlas.engine.workspace import Bools


class PlateauTiles:
    """What is known of the plateaus of the positives, 0, and of the negatives, 1."""

    def __init__(self) -> None:
        self.reach: tuple[dict[float, float], ...] = {}, {}  # other cost -> a cost of the class from which on all is on it
        self.piece: dict[int, Facets] = {}  # one of its pieces, in the form of a tile

    def take(self, c: int, tile: Bounds, facets: Facets) -> None:
        """A tile was explored, and lies on the plateau of class c; so does the partition that it begins with.

        What is known begins at the far side of the tile: tiles beside others that were explored are explored.
        """
        known = self.reach[c]
        for other in tile[1 - c]:
            known[other] = min(known.get(other, np.inf), tile[c][1])
        self.piece.setdefault(c, _first_of(facets))

    def find(self, tile: Bounds, left_out: Bools) -> Facets | None:
        """The facets of a tile that lies on one of the plateaus that are ``left_out``; None if that is not known."""
        for c in np.flatnonzero(left_out).tolist():
            known = [other for other, cost in list(self.reach[c].items()) if cost <= tile[c][0]]
            if known and min(known) <= tile[1 - c][0] and tile[1 - c][1] <= max(known):
                return self.piece[c]
        return None


def _first_of(facets: Facets) -> Facets:
    """The first facet of a tile, without edges."""
    return facets.bare()._replace(
        key=facets.key[:1].copy(), kind=facets.kind[:1].copy(), at=np.zeros(2, dtype=np.intp), name=facets.name[:0],
        parent=np.full(1, -1, dtype=np.int32), flips=np.full((1, 2), -1, dtype=np.int32),
    )  # fmt: skip
