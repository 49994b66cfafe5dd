"""What a page holds of an atlas: its mesh, partitions, rows and held-out rows, as a header and flat arrays.

Everything else is computed in the browser from these: neighbours, models, scores. Numbers that models are made of are doubles.
What a page cannot hold is left out: coefficients of very many columns, rows of classes that are not asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_consistent_length, column_or_1d

from svmatlas.data.problem import check_bounds
from svmatlas.engine.mesh import take_lists
from svmatlas.engine.workspace import MARGIN, L
from svmatlas.models.solve import solution_maps
from svmatlas.show.pixels import facets_of_pixels, pixel_values
from svmatlas.show.plane import Plane, make_plane
from svmatlas.support.messages import shown

if TYPE_CHECKING:
    from svmatlas.atlas.atlas import Atlas
    from svmatlas.choose.cells import Cell
    from svmatlas.choose.overlay import Overlay
    from svmatlas.choose.roc import Frontier
    from svmatlas.choose.select import Selection

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]

MOST_FACETS = 2_000_000
"""Facets that a browser holds and draws without trouble. Of larger maps a page holds those of a region, or a picture."""

MOST_WEIGHTS = 4_000_000
"""Entries of the matrix that makes coefficients of internal weights, where the rows are factored: 32 MB of doubles."""

MOST_PIECES = 400_000
"""Straight pieces of zero curves that a page holds: some 25 bytes each."""

PIXELS = 768
"""Of pictures on each axis, where there are more, or more facets."""

QUANTILES = 1001
"""Of the values of the facets in a picture."""

PICTURES = {"margin": "margin_size", "support": "support", "layer": "layer"}
"""What there are pictures of where a page does not hold all facets, by the page's names, and by those of pixels.py."""

MOST_CELLS = 400
"""Cells of a selection or of one point of a frontier that are outlined, the largest first."""


class Contents(NamedTuple):
    """A header, as JSON knows it, and arrays by name."""

    header: dict[str, Any]
    arrays: dict[str, npt.NDArray[Any]]


def gather(
    atlas: Atlas,
    selection: Selection | None = None,
    frontier: Frontier | None = None,
    X_test: Any = None,
    y_test: Any = None,
    region: Any = None,
    title: str | None = None,
) -> Contents:
    """Everything that a page shows."""
    header, facets = {**_facts(atlas), "title": title or "svmatlas"}, _chosen_facets(atlas, region)
    arrays = {**_mesh(atlas, facets), **_partitions(atlas, facets), **_rows(atlas), **_weights(atlas)}
    if facets is not None and facets.size < atlas.n_facets:
        header["pictures"], pictures = _pictures(atlas, header["home"])
        arrays |= pictures
    if not (X_test is None and y_test is None):
        arrays |= _held_out(atlas, X_test, y_test)
    if selection is not None:
        header["selection"], curves = _selection(selection)
        arrays |= curves
    if frontier is not None:
        header["frontier"] = _frontier(frontier)
    return Contents(header, arrays)


def gather_selection(selection: Selection, frontier: Frontier | None = None, title: str | None = None) -> Contents:
    """A selection, with its frontier, without any atlas."""
    facts, curves = _selection(selection)
    header = {
        "version": 1, "complete": True, "totalFacets": 0, "nLayers": 0, "nRows": 0, "nFeatures": 0, "costExponent": 0,
        "region": _bounded(selection._held_overlay.region), "classes": [str(label) for label in selection.classes_],
        "home": facts["limits"], "selection": facts, "title": title or "svmatlas",
    }  # fmt: skip
    if frontier is not None:
        header["frontier"] = _frontier(frontier)
    none = {name: np.empty(0) for name in ("vertexP", "vertexQ", "vertexL", "weight")}
    return Contents(header, {**none, "point": _int32(np.empty(0)), **curves})


def _facts(atlas: Atlas) -> dict[str, Any]:
    problem = atlas._problem
    features = problem.features
    view = make_plane(_inner(atlas.vertices), atlas.region, "log", None)
    return {
        "version": 1, "complete": atlas.complete, "totalFacets": atlas.n_facets, "nLayers": atlas.n_layers,
        "nRows": int(problem.point.size), "nFeatures": features.n_features, "rank": int(problem.data.rows.shape[1]),
        "trueRank": int(problem.data.rank), "exponent": features.exponent, "costExponent": problem.cost_exponent,
        "bias": features.bias,
        "kernel": _kernel_name(atlas), "arguments": _arguments(atlas), "ownRows": features.factor is None,
        "region": _bounded(atlas.region), "classes": [str(label) for label in atlas.classes_],
        "names": _names(atlas) if _has_weights(atlas) else None,
        "standardized": atlas.columns.scale is not None, "home": [*view.x, *view.y],
    }  # fmt: skip


def _names(atlas: Atlas) -> list[str]:
    return list(atlas.columns.names or (f"column {j}" for j in range(atlas._problem.features.n_features)))


def _kernel_name(atlas: Atlas) -> str:
    name = atlas._problem.features.kernel.name
    return name if isinstance(name, str) else str(getattr(name, "__name__", "kernel"))


def _arguments(atlas: Atlas) -> str:
    """What a classifier of one model needs beside its costs, as Python's arguments after these."""
    features, (negative, positive) = atlas._problem.features, atlas.classes_.tolist()
    kernel = features.kernel
    used = {"rbf": ("gamma",), "poly": ("gamma", "degree", "coef0")}.get(str(kernel.name), ())
    given: list[tuple[str, Any]] = [("bias", features.bias)] if features.bias != 1 else []
    given += [("kernel", kernel.name)] if kernel.name != "linear" else []
    given += [(name, getattr(kernel, name)) for name in used]
    given += [("pos_label", positive)] if positive < negative else []
    return "".join(f", {name}={value.__name__ if callable(value) else repr(value)}" for name, value in given)


def _inner(c: Floats) -> Floats:
    """Those of some homogeneous costs (n, 3) that are neither zero nor infinite, as costs (m, 2)."""
    inner = c[np.all(c > 0, axis=1)]
    return np.asarray(inner[:, :2] / inner[:, 2:])


def _bounded(region: Any) -> list[list[float | None]]:
    """Bounds as JSON knows them: infinity is null."""
    return [[lo, hi if np.isfinite(hi) else None] for lo, hi in region]


# ----------------------------------------------------------------------------------------------------------------------
# The map


def _chosen_facets(atlas: Atlas, region: Any) -> Ints | None:
    """The facets that the page holds: all (None), those that meet a region, or none of a map that is too large."""
    if region is None:
        return None if atlas.n_facets <= MOST_FACETS else np.empty(0, dtype=np.intp)
    facets = _meeting(atlas, check_bounds(region))
    if facets.size > MOST_FACETS:
        raise ValueError(f"{facets.size} facets meet the region, a page holds at most {MOST_FACETS}: choose a smaller one")
    return facets


def _meeting(atlas: Atlas, bounds: tuple[tuple[float, float], tuple[float, float]]) -> Ints:
    """Facets whose bounding box meets a region."""
    p, q, l = atlas.vertices[atlas.facet_vertices].T
    meets = np.ones(atlas.n_facets, dtype=bool)
    for cost, (lo, hi) in zip((p, q), bounds, strict=True):
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.where(l > 0, cost / l, np.where(cost > 0, np.inf, 0.0))
        meets &= np.maximum.reduceat(value, atlas.facet_at[:-1]) >= lo
        meets &= np.minimum.reduceat(value, atlas.facet_at[:-1]) <= hi
    return np.flatnonzero(meets)


def _mesh(atlas: Atlas, facets: Ints | None) -> dict[str, npt.NDArray[Any]]:
    """Rings of vertices, in internal units; of some facets only those vertices that they have."""
    mesh = atlas._mesh
    sizes, corners, vertices = np.diff(mesh.facet_at), mesh.facet_vertices, mesh.vertices
    layer, number = mesh.facet_layer, {}
    if facets is not None:
        held = np.zeros(sizes.size, dtype=bool)
        held[facets] = True
        used, place = np.unique(corners[np.repeat(held, sizes)], return_inverse=True)
        corners = _int32(place)
        sizes, vertices, layer, number = sizes[facets], vertices[used], layer[facets], {"number": _int32(facets)}
    p, q, l = (np.ascontiguousarray(column) for column in vertices.T)
    return {
        "vertexP": p, "vertexQ": q, "vertexL": l, "sizes": _int32(sizes), "corners": _int32(corners), "layer": _int32(layer),
        **number,
    }  # fmt: skip


def _int32(array: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    return np.ascontiguousarray(array, dtype=np.int32)


def _partitions(atlas: Atlas, facets: Ints | None) -> dict[str, npt.NDArray[Any]]:
    """The tree of pieces, with the events crossed from each one's parent, one piece of each facet, and its tied points.

    Where nothing is tied and all facets are held, pieces are facets, and only the tree is needed.
    """
    canonical = atlas._canonical
    split = canonical.split
    parent, flips, start = split.mesh.facet_parent, split.flips, {"start": split.start.astype(np.int8)}
    if facets is None and canonical.mesh is split.mesh:
        return {**start, **_tree(parent, flips)}
    chosen = np.arange(atlas.n_facets) if facets is None else facets
    pieces = _with_ancestors(np.unique(canonical.piece[chosen]), parent)
    rank = np.full(parent.size, -1)
    rank[pieces] = np.arange(pieces.size)
    above = parent[pieces]
    tied_at, tied = take_lists(canonical.tied_at, canonical.tied, chosen)
    return {
        **start, **_tree(np.where(above < 0, -1, rank[above]), flips[pieces]), "piece": _int32(rank[canonical.piece[chosen]]),
        "tiedAt": _int32(tied_at), "tied": _int32(tied), **_alpha(atlas, chosen),
    }  # fmt: skip


def _alpha(atlas: Atlas, chosen: Ints) -> dict[str, npt.NDArray[Any]]:
    """Dual variables at the corners of those facets that ties cut: between corners they may be interpolated (page/ties.js).

    For each of these facets its place among the chosen ones, the number of points on its margin, and their homogeneous dual
    variables, corner by corner.
    """
    mesh = atlas._mesh
    cut = np.flatnonzero(atlas._canonical.is_cut[chosen])
    sizes, parts = [], [np.empty(0)]
    for f in chosen[cut]:
        margin = np.flatnonzero(atlas._states(np.array([f]))[0] == MARGIN)
        sizes.append(margin.size)
        parts.append(_alpha_at(atlas, mesh.vertices[mesh.facet_vertices[mesh.facet_at[f] : mesh.facet_at[f + 1]]])[:, margin])
    return {
        "cutFacet": _int32(cut),
        "cutSize": _int32(np.array(sizes)),
        "cutAlpha": np.concatenate([p.ravel() for p in parts]),
    }


def _alpha_at(atlas: Atlas, c: Floats) -> Floats:
    """Dual variables (n, N) times l at homogeneous costs (n, 3) of vertices; at infinity those of a piece there, or zero."""
    data = atlas._problem.data
    bound, finite = data.weight * c[:, data.axis], c[:, L] > 0
    alpha: Floats = np.empty_like(bound)
    alpha[finite] = atlas._solver.at(c[finite]).share * bound[finite]
    for k in np.flatnonzero(~finite):
        piece = atlas._locator.beside_at_infinity(c[k])
        alpha[k] = 0.0
        if piece >= 0:
            maps, _ = solution_maps(data, atlas._region, atlas._split_states(np.array([piece]))[0])
            alpha[k] = np.clip(c[k] @ maps, 0.0, bound[k])
    return alpha


def _tree(parent: npt.NDArray[Any], flips: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
    return {"parent": _int32(parent), "flipA": _int32(flips[:, 0]), "flipB": _int32(flips[:, 1])}


def _with_ancestors(pieces: Ints, parent: npt.NDArray[np.int32]) -> Ints:
    """Some pieces, their parents, and so on, in ascending order: the first piece is among them."""
    held = np.zeros(parent.size, dtype=bool)
    held[0] = True
    while pieces.size:
        held[pieces] = True
        pieces = np.unique(parent[pieces])
        pieces = pieces[(pieces >= 0) & ~held[pieces]]
    return np.flatnonzero(held)


def _pictures(atlas: Atlas, home: list[float]) -> tuple[list[dict[str, Any]], dict[str, npt.NDArray[Any]]]:
    """Pictures of the whole map where the page does not hold all facets: values in the middle of pixels.

    With each come quantiles of the facets in it, for the colours: most pixels may be of few facets.
    """
    plane = Plane("log", (home[0], home[1]), (home[2], home[3]))
    facets, costs = facets_of_pixels(atlas, plane, PIXELS), plane.pixels(PIXELS)
    _, first = np.unique(facets[facets >= 0], return_index=True)
    facts, arrays = [], {}
    for name, color_by in PICTURES.items():
        values, _ = pixel_values(atlas, color_by, facets, *costs)
        quantiles = np.quantile(values[facets >= 0][first], np.linspace(0, 1, QUANTILES), method="lower").tolist()
        facts.append({"name": name, "pixels": PIXELS, "limits": home, "quantiles": quantiles})
        arrays[f"picture:{name}"] = values.astype(np.float32)
    return facts, arrays


# ----------------------------------------------------------------------------------------------------------------------
# Rows and weights


def _rows(atlas: Atlas) -> dict[str, npt.NDArray[Any]]:
    """The points of the engine, and which of them each of the user's rows is."""
    problem = atlas._problem
    return {
        "rows": problem.data.rows, "weight": problem.data.weight, "axis": problem.data.axis.astype(np.int8),
        "point": _int32(problem.point), "sign": problem.sign.astype(np.int8), "rowWeight": problem.weight,
    }  # fmt: skip


def _has_weights(atlas: Atlas) -> bool:
    """Whether the page holds what coefficients are made of."""
    features = atlas._problem.features
    rank = 0 if features.factor is None else features.factor.shape[1]
    return features.linear and rank * features.n_features <= MOST_WEIGHTS


def _weights(atlas: Atlas) -> dict[str, npt.NDArray[Any]]:
    """How internal weights become coefficients and intercepts of the user's columns, as far as a page holds that."""
    features, columns = atlas._problem.features, atlas.columns
    found = {name: array for name, array in (("scale", columns.scale), ("center", columns.center)) if array is not None}
    if features.factor is None:
        return found
    unit = np.eye(features.factor.shape[1])
    if not features.linear:
        return {"interceptOf": features.intercept(features.expand(unit))}
    if not _has_weights(atlas):
        z = features.expand(unit)
        return found | {"interceptOf": features.bias**2 * np.ldexp(z, 2 * features.exponent).sum(axis=1)}
    coef, intercept = features.weights(unit)
    return found | {"coefOf": coef, "interceptOf": intercept}


def _held_out(atlas: Atlas, X: Any, y: Any) -> dict[str, npt.NDArray[Any]]:
    """Held-out rows in the coordinates of the engine, and which of them are positive."""
    if X is None or y is None:
        raise ValueError("held-out rows need both X_test and y_test")
    rows, y = atlas._check_rows(X), column_or_1d(y)
    check_consistent_length(rows, y)
    strange = ~np.isin(y, atlas.classes_)
    if np.any(strange):
        raise ValueError(f"y_test has the label {shown(y[strange][0])}, the atlas knows {shown(atlas.classes_)} only")
    coordinates = atlas._problem.features.coordinates(rows)
    return {"testRows": coordinates, "testSign": np.where(y == atlas.classes_[1], 1, -1).astype(np.int8)}


# ----------------------------------------------------------------------------------------------------------------------
# Selections and frontiers


def _selection(selection: Selection) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """The best cells, and the curves between which the score is constant, or a picture of it if they are too many."""
    box, bounds = selection._held_overlay.box, selection._held_overlay.bounds
    plane = make_plane(_inner(box.pieces.reshape(-1, 3)), bounds, "log", None)
    facts = {
        "bestScore": selection.best_score, "bound": selection.upper_bound, "certified": selection.certified,
        "costs": [selection.C_pos, selection.C_neg], "nFolds": selection.n_folds, "nCells": len(selection.cells),
        "cells": _outlines(selection.cells), "limits": [*plane.x, *plane.y], "pixels": PIXELS, "grid": _grid(selection, plane),
        "region": _bounded(bounds),
    }  # fmt: skip
    few = len(box.pieces) <= MOST_PIECES and selection._held_overlay.judge.table.size > 0  # the page knows tables only
    return facts, _curves(selection._held_overlay) if few else {"scores": _scores(selection, plane)}


def _curves(overlay: Overlay) -> dict[str, npt.NDArray[Any]]:
    """Zero curves in single precision, predictions at a seat, and how these become scores.

    Ends of pieces that join stay equal when they are rounded, so curves stay closed.
    """
    box, judge = overlay.box, overlay.judge
    ends = box.pieces.reshape(-1, 3)
    return {
        "curves": (ends / ends.max(axis=1, keepdims=True)).astype(np.float32), "curvePoint": _int32(box.points),
        "seat": box.seat, "seatPositive": box.positive.astype(np.uint8), "seatCounts": _int32(box.counts),
        "pointFold": _int32(judge.group), "pointPos": _int32(judge.n_pos), "pointNeg": _int32(judge.n_neg),
        "table": judge.table, "tableAt": _int32(judge.table_at), "foldPos": _int32(judge.group_pos),
        "foldNeg": _int32(judge.group_neg),
    }  # fmt: skip


def _scores(selection: Selection, plane: Plane) -> npt.NDArray[np.float32]:
    """The score in the middle of pixels."""
    p, q = plane.pixels(PIXELS)
    held = np.ones(p.shape, dtype=bool)
    for cost, (lo, hi) in zip((p, q), selection._held_overlay.bounds, strict=True):
        held &= (cost >= lo) & (cost <= hi)
    values = np.full(p.shape, np.nan, dtype=np.float32)
    values[held] = selection.scores_on_map(p[held], q[held]).mean(axis=-1)
    return values


def _grid(selection: Selection, plane: Plane) -> dict[str, Any]:
    """A grid as it is often taken, two values a decade, and its best score."""
    sides = []
    for lo, hi in (plane.x, plane.y):
        exponents = np.arange(np.ceil(2 * np.log10(lo)), np.floor(2 * np.log10(hi)) + 1) / 2
        sides.append(10.0**exponents)
    p, q = (v.ravel() for v in np.meshgrid(*sides))
    best = float(np.max(selection.score_at(p, q))) if p.size else None
    return {"pos": sides[0].tolist(), "neg": sides[1].tolist(), "best": best}


def _frontier(frontier: Frontier) -> dict[str, Any]:
    """The points of a ROC frontier, and the cells of each."""
    return {
        "fpr": frontier.fpr.tolist(), "tpr": frontier.tpr.tolist(), "costs": np.c_[frontier.C_pos, frontier.C_neg].tolist(),
        "hull": frontier.hull.tolist(), "area": frontier.auc_hull, "prior": frontier.n_pos / (frontier.n_pos + frontier.n_neg),
        "cells": [_outlines(cells) for cells in frontier.cells],
    }  # fmt: skip


def _outlines(cells: Sequence[Cell]) -> list[list[list[float]]]:
    """Borders of cells, each as one list of homogeneous costs p, q, l, p, q, l, ..."""
    return [[ring.ravel().tolist() for ring in (cell.polygon, *cell.holes)] for cell in cells[:MOST_CELLS]]
