"""What pictures show in each pixel: the facet, and a value of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from svmatlas.data.problem import DROPPED, ZERO
from svmatlas.engine.locate import NOWHERE
from svmatlas.engine.maps import affine_maps
from svmatlas.engine.workspace import INSIDE, MARGIN
from svmatlas.show.plane import Plane, make_plane
from svmatlas.show.raster import fill

if TYPE_CHECKING:
    from svmatlas.atlas.atlas import Atlas

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]

FACET_VALUES: dict[str, str] = {
    "layer": "layer",
    "alternating": "layer, odd and even",
    "margin_size": "rows on the margin",
    "support": "support vectors",
    "tie": "rows tied on the margin",
    "score": "balanced accuracy on the training rows",
}
"""What facets can be coloured by, with the label of the colour bar."""

CHUNK = 1024
"""Pixels or facets worked on at once: some (1024, 3, N) arrays."""

ACCURACY = 1e-10
"""Relative error of the affine maps that pictures are made of."""


# ----------------------------------------------------------------------------------------------------------------------
# Values of facets and pixels


def view_of(atlas: Atlas, scale: str, limits: Any) -> Plane:
    """The view of an atlas in which almost all of its vertices are."""
    return make_plane(finite(atlas.vertices), atlas.region, scale, limits)


def finite(c: Floats) -> Floats:
    """Those of some homogeneous costs (n, 3) that are neither zero nor infinite, as costs (m, 2)."""
    inner = c[np.all(c > 0, axis=1)]
    return np.asarray(inner[:, :2] / inner[:, 2:])


def facets_of_pixels(atlas: Atlas, plane: Plane, n: int) -> Ints:
    """Facets at n by n pixels, -1 where there is none: outside the region, or not explored."""
    corners, places = plane.weigh(atlas.vertices), plane.middles(n)
    facets: Ints = fill(corners, atlas.facet_at, atlas.facet_vertices, *places)
    return facets


def _chunks(n: int) -> list[slice]:
    return [slice(k, k + CHUNK) for k in range(0, n, CHUNK)]


def by_facet(function: Callable[..., Floats], facets: Ints, p: Floats, q: Floats) -> Floats:
    """Call a function of facets and costs piece by piece; pixels of one facet come together, so its maps are made once."""
    order = np.argsort(facets, kind="stable")
    parts = [function(facets[order[k]], p[order[k]], q[order[k]]) for k in _chunks(facets.size)]
    values = np.concatenate(parts) if parts else np.empty(0)
    values[order] = values.copy()
    return values


def _sizes(atlas: Atlas, facets: Ints, kinds: Sequence[int]) -> Floats:
    """Number of the user's rows in some of the sets M and I, for each facet."""
    point = atlas._problem.point
    count = np.bincount(point[point >= 0], minlength=atlas._problem.n_points)
    zeros = int(np.sum(point == ZERO)) * (INSIDE in kinds)
    parts = [np.isin(atlas._states(facets[part]), kinds) @ count + zeros for part in _chunks(facets.size)]
    return np.concatenate([np.empty(0), *parts])


def _maps(atlas: Atlas, pieces: npt.NDArray[np.signedinteger]) -> tuple[Floats, Floats]:
    """Affine maps of alpha (n, 3, N) and beta (n, 3, d) of pieces, good enough for a picture."""
    return affine_maps(atlas._problem.data, atlas._region, atlas._split_states(pieces), jitter=0.0, accuracy=ACCURACY)


def _margins(atlas: Atlas, facets: Ints, p: Floats, q: Floats) -> Floats:
    """Signed decision values (n, N) of the points at costs in facets."""
    c = atlas._problem.homogeneous(p, q)
    seen, inverse = np.unique(atlas._canonical.piece[facets], return_inverse=True)
    beta = np.einsum("kcj,kc->kj", _maps(atlas, seen)[1][inverse], c / c[:, 2:])
    return np.asarray(beta @ atlas._problem.data.columns)


def _pieces(atlas: Atlas, facets: Ints, c: Floats) -> tuple[Ints, Floats]:
    """Pieces, in each of which alpha is affine, for homogeneous costs in facets; and costs where they have the alpha there."""
    pieces = atlas._canonical.piece[facets].astype(np.intp)
    cut = atlas._canonical.is_cut[facets]
    held = atlas._locator(c[cut])
    pieces[cut] = np.where(held == NOWHERE, pieces[cut], held)
    return atlas._locator.slide(pieces, c)


def alpha_shares(atlas: Atlas, rows: Sequence[int], facets: Ints, p: Floats, q: Floats) -> Floats:
    """Alpha of some rows as a share of its bound (n, len(rows)) at costs in facets."""
    problem, c = atlas._problem, atlas._problem.homogeneous(p, q)
    pieces, at = _pieces(atlas, facets, c)
    seen, inverse = np.unique(pieces, return_inverse=True)
    point = problem.point[rows]
    states = atlas._split_states(seen)[inverse][:, point]
    alpha = np.einsum("kci,kc->ki", _maps(atlas, seen)[0][:, :, point][inverse], at)
    axis = problem.data.axis[point]
    share = np.clip(alpha / (problem.data.weight[point] * at[:, axis]), 0, 1)
    share = np.where(states == MARGIN, share, states == INSIDE) * (at[:, axis] / c[:, axis])
    return np.where(point == ZERO, 1.0, np.where(point == DROPPED, 0.0, share))


def _tied(atlas: Atlas, facets: Ints, p: Floats, q: Floats) -> Floats:
    """Points on the margin that depend on others there: alpha is not unique where there are any."""
    return np.diff(atlas._canonical.tied_at)[facets].astype(float)


def _training_score(atlas: Atlas, facets: Ints, p: Floats, q: Floats) -> Floats:
    """Balanced accuracy on the training rows at costs in facets; a decision value of 0 is a negative prediction."""
    sign, point = atlas._problem.sign, atlas._problem.point
    margin = _margins(atlas, facets, p, q)
    shares = []
    for positive in (True, False):
        rows = point[(point != DROPPED) & ((sign > 0) == positive)]
        right = margin[:, rows[rows != ZERO]] > 0 if positive else margin[:, rows[rows != ZERO]] >= 0
        shares.append((right.sum(axis=1) + np.sum(rows == ZERO) * (not positive)) / rows.size)
    return np.asarray((shares[0] + shares[1]) / 2)


def _facet_values(atlas: Atlas, name: str, facets: Ints, p: Floats, q: Floats) -> Floats:
    """Values of some facets; (p, q) are costs in each of them."""
    layer = atlas.facet_layer[facets].astype(float)
    if name == "layer":
        return layer
    if name == "alternating":
        return layer % 2
    if name == "margin_size":
        return _sizes(atlas, facets, [MARGIN])
    if name == "support":
        return _sizes(atlas, facets, [MARGIN, INSIDE])
    return by_facet(partial(_tied, atlas), facets, p, q)


def pixel_values(atlas: Atlas, color_by: Any, facets: Ints, p: Floats, q: Floats) -> tuple[Floats, str]:
    """Values of all pixels (NaN where there is no facet), and the label of the colour bar."""
    values, held = np.full(facets.shape, np.nan), facets >= 0
    if callable(color_by):
        values[held] = np.asarray(color_by(p[held], q[held]), dtype=float)
        return values, getattr(color_by, "__name__", "value").replace("<lambda>", "value")
    if isinstance(color_by, str):
        if color_by not in FACET_VALUES:
            raise ValueError(f"color_by must be one of {', '.join(map(repr, FACET_VALUES))}, got {color_by!r}")
        if color_by == "score":
            values[held] = by_facet(partial(_training_score, atlas), facets[held], p[held], q[held])
        else:
            seen, first, inverse = np.unique(facets[held], return_index=True, return_inverse=True)
            values[held] = _facet_values(atlas, color_by, seen, p[held][first], q[held][first])[inverse]
        return values, FACET_VALUES[color_by]
    given = np.asarray(color_by, dtype=float)
    if given.shape != atlas.facet_layer.shape:
        raise ValueError(f"color_by must have one value for each of {atlas.facet_layer.size} facets, got shape {given.shape}")
    values[held] = given[facets[held]]
    return values, "value"
