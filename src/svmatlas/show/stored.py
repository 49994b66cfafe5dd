"""Pixels of a map on disk: tile by tile, those tiles alone that are in view, each read once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from svmatlas.show.pixels import Floats, Ints, pixel_values
from svmatlas.show.plane import Plane, make_plane
from svmatlas.show.raster import fill
from svmatlas.support.messages import shown

if TYPE_CHECKING:
    from svmatlas.atlas.opened import AtlasStore

LAYERS = ("layer", "alternating")
"""What only a map in memory can be coloured by."""


def stored_view(store: AtlasStore, scale: str, limits: Any) -> Plane:
    """The view of a store in which almost all of its cuts are: there are more of them where there are more facets."""
    axes = store._manifest.cuts or ([], [])
    cuts = [np.array([cost for cost in axis if 0 < cost < np.inf]) for axis in axes]
    n = min(map(len, cuts))
    costs = np.column_stack([np.quantile(axis, np.linspace(0, 1, n)) for axis in cuts]) if n else np.empty((0, 2))
    return make_plane(costs, store.region, scale, limits)


def stored_pixels(store: AtlasStore, plane: Plane, color_by: Any, n: int) -> tuple[Ints, Floats, str]:
    """Facets at n by n pixels, -1 where there is none, their values, and what these are."""
    if not (callable(color_by) or (isinstance(color_by, str) and color_by not in LAYERS)):
        raise ValueError(
            f"color_by: a picture of a store has no layers, and no values of single facets, got {shown(color_by)}: use "
            "'margin_size', 'support', 'tie', 'score' or a function, or join the store first: store.atlas()"
        )
    facets, values, label = np.full((n, n), -1), np.full((n, n), np.nan), ""
    (p, q), (x, y) = plane.pixels(n), plane.middles(n)
    for t, row, column in _tiles_in_view(store, p, q):
        atlas = store._tile(t).atlas
        box = tuple(slice(which.min(), which.max() + 1) for which in (row, column))
        found = fill(plane.weigh(atlas.vertices), atlas.facet_at, atlas.facet_vertices, x[box[1]], y[box[0]])
        own = np.full((n, n), -1)[box]
        own[row - row.min(), column - column.min()] = found[row - row.min(), column - column.min()]
        held = own >= 0
        part, label = pixel_values(atlas, color_by, own, p[box], q[box])
        facets[box][held], values[box][held] = store._index.numbers(t, own[held]), part[held]
    return facets, values, label


def _tiles_in_view(store: AtlasStore, p: Floats, q: Floats) -> Iterator[tuple[int, Ints, Ints]]:
    """Tiles that are done, by their numbers in the index, each with the rows and columns of its pixels."""
    (a, b), (c, d) = store.region
    inside = np.flatnonzero((p >= a) & (p <= b) & (q >= c) & (q <= d))  # not where a pixel has no costs
    number = store._tiles_at(p.ravel()[inside], q.ravel()[inside])
    order = np.argsort(number, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(number[order])) + 1):
        t = int(np.searchsorted(store._index.tile, number[group[0]])) if group.size else 0
        if group.size and t < store._index.tile.size and store._index.tile[t] == number[group[0]]:
            row, column = np.unravel_index(inside[group], p.shape)
            yield t, row, column
