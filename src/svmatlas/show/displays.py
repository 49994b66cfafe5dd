"""Pictures of the plane of costs (extra ``plot``), in scikit-learn's Display convention.

The plane is coloured pixel by pixel: each pixel has the value of the facet that holds its middle, so a map of a million
facets costs no more than one of a hundred, and nothing is interpolated. Edges, event paths and rays are drawn on top as
what they are: straight lines in homogeneous costs, which a logarithmic scale bends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from svmatlas.show.pixels import (
    FACET_VALUES,
    Floats,
    Ints,
    alpha_shares,
    by_facet,
    facets_of_pixels,
    finite,
    pixel_values,
    view_of,
)
from svmatlas.show.plane import INK, Plane, make_plane
from svmatlas.show.stored import stored_pixels, stored_view

if TYPE_CHECKING:
    from svmatlas.atlas.atlas import Atlas
    from svmatlas.atlas.opened import AtlasStore
    from svmatlas.choose.roc import Frontier
    from svmatlas.choose.select import Selection


LAYER_COLORS = ("#a6cde4", "#1b7c53")
EVENT_COLORS = ("#00e5ff", "#d7191c")
"""Of event paths by type: cyan for 0 (margin and outside), red for 1 (margin and inside)."""

UNEXPLORED = "#e4e4e4"

MOST_EDGES = 30_000
"""Edges in view beyond which they would hide the facets, so that they are left out unless asked for."""


# ----------------------------------------------------------------------------------------------------------------------
# Displays


def use_files() -> None:
    """Draw into files only: no window is opened, whatever matplotlib is set to."""
    _pyplot().switch_backend("agg")


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("pictures need matplotlib: pip install 'svmatlas[plot]'") from None
    return plt


def _axes(ax: Any, **kwargs: Any) -> Any:
    """The user's axes, or new ones."""
    return _pyplot().subplots(layout="constrained", **kwargs)[1] if ax is None else ax


def _is_store(atlas: Atlas | AtlasStore) -> bool:
    return not hasattr(atlas, "vertices")


def _paint(ax: Any, plane: Plane, values: Floats, **style: Any) -> Any:
    """Colour the pixels."""
    import matplotlib as mpl

    cmap = mpl.colormaps[style.pop("cmap")] if isinstance(style.get("cmap"), str) else style.pop("cmap")
    colors = cmap.with_extremes(bad=(0, 0, 0, 0))
    ax.set_facecolor("white" if plane.scale == "triangle" else UNEXPLORED)
    if plane.scale == "triangle":
        ax.fill([0, 1, 0], [0, 0, 1], color=UNEXPLORED, zorder=-1)
    return ax.pcolormesh(
        *plane.grid(len(values)), np.ma.masked_invalid(values), cmap=colors, rasterized=True, **{"zorder": 0} | style
    )


def _draw_lines(ax: Any, lines: Iterable[Floats], **style: Any) -> None:
    from matplotlib.collections import LineCollection

    lines = list(lines)
    if lines:
        ax.add_collection(LineCollection(lines, capstyle="round", **style), autolim=False)


class AtlasDisplay:
    """The map of an atlas over the plane of costs; made by :meth:`from_atlas`.

    Parameters
    ----------
    atlas : Atlas
        What is shown.
    plane : Plane
        The scale and its limits.
    facets : ndarray of shape (n, n)
        Facet in the middle of each pixel; -1 for none.
    values : ndarray of shape (n, n)
        Value of each pixel; NaN where there is no facet.
    label : str
        What the values are.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the map.
    figure_ : matplotlib Figure
        Figure with the map and its colour bar.
    image_ : matplotlib QuadMesh
        The coloured pixels.

    """

    ax_: Any
    figure_: Any
    image_: Any

    def __init__(self, atlas: Atlas | AtlasStore, plane: Plane, facets: Ints, values: Floats, label: str) -> None:
        self.atlas: Any = atlas
        self.plane = plane
        self.facets = facets
        self.values = values
        self.label = label

    @classmethod
    def from_atlas(
        cls,
        atlas: Any,
        *,
        color_by: str | Sequence[float] | Floats | Callable[[Floats, Floats], Floats] | None = None,
        scale: str = "log",
        limits: Any = None,
        resolution: int = 500,
        ax: Any = None,
        **kwargs: Any,
    ) -> AtlasDisplay:
        """Draw an atlas.

        Parameters
        ----------
        atlas : Atlas or AtlasStore
            The map. Of a store the tiles in view are read, one after the other; it has no layers, and edges, events and means
            are not drawn.
        color_by : str, array-like of shape (F,) or callable, optional
            "layer", the default; "alternating", layers in two colours; "margin_size", rows on the margin, the default of a
            store; "support", rows on it or inside it; "tie", rows on the margin beyond those that determine the solution
            (alpha is not unique there); "score", balanced accuracy on the training rows; a value for each facet; or a
            function of arrays of C+ and C-, called with the costs in the middle of the pixels.
        scale : {"log", "linear", "triangle"}, default="log"
            The triangle shows the whole quadrant with infinity.
        limits : ((lo, hi), (lo, hi)), optional
            Costs in view. Default: where almost all vertices are.
        resolution : int, default=500
            Pixels on each axis.
        ax : matplotlib Axes, optional
            Where to draw. Default: a new figure.
        **kwargs
            Passed to :meth:`plot`.

        Returns
        -------
        AtlasDisplay
            The display, drawn.

        """
        if _is_store(atlas):
            plane = stored_view(atlas, scale, limits)
            by = "margin_size" if color_by is None else color_by
            return cls(atlas, plane, *stored_pixels(atlas, plane, by, resolution)).plot(ax=ax, **kwargs)
        plane = view_of(atlas, scale, limits)
        p, q = plane.pixels(resolution)
        facets = np.where(np.isfinite(p), facets_of_pixels(atlas, plane, resolution), -1)
        values, label = pixel_values(atlas, "layer" if color_by is None else color_by, facets, p, q)
        return cls(atlas, plane, facets, values, label).plot(ax=ax, **kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        edges: bool | None = None,
        events: Sequence[int] = (),
        means: bool = False,
        rays: Sequence[float] = (),
        cells: Sequence[Any] = (),
        colorbar: bool = True,
        cmap: Any = None,
        **kwargs: Any,
    ) -> AtlasDisplay:
        """Draw the map.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw. Default: a new figure.
        edges : bool, optional
            Draw the edges of the facets. Default: if there are not too many in view.
        events : sequence of int
            Rows whose events are drawn as paths: cyan where the row moves between margin and outside (type 0), red where it
            moves between margin and inside (type 1).
        means : bool, default=False
            A dot at the mean of the corners of each facet.
        rays : sequence of float
            Ratios C+/C- drawn as rays; 1 is the diagonal.
        cells : sequence of Cell, or of ndarrays of shape (k, 3)
            Cells of a selection, or polygons of homogeneous costs, that are outlined.
        colorbar : bool, default=True
            Add a colour bar.
        cmap : str or matplotlib Colormap, optional
            Default: viridis, and two colours for alternating layers.
        **kwargs
            Passed to ``ax.pcolormesh``.

        Returns
        -------
        AtlasDisplay
            The display itself.

        """
        if _is_store(self.atlas):
            if edges or means or len(events):
                raise ValueError("edges, events and means are drawn of a map in memory: join the store first, store.atlas()")
            edges = False
        self.ax_ = _axes(ax, figsize=(6.4, 5.4))
        self.figure_ = self.ax_.figure
        two = self.label == FACET_VALUES["alternating"]
        self.image_ = _paint(self.ax_, self.plane, self.values, cmap=cmap or (_two_colors() if two else "viridis"), **kwargs)
        self.plane.dress(self.ax_)
        if colorbar and not two:
            self._add_colorbar()
        self._draw_edges(edges)
        self._draw_events(events)
        if means:
            dots = self.plane.project(self._means())
            self.ax_.plot(*dots.T, ".", color=EVENT_COLORS[1], markersize=2.0)
        self._draw_rays(rays)
        _outline(self.ax_, self.plane, cells)
        return self

    def _add_colorbar(self) -> None:
        low, high = self.image_.get_clim()
        if low == high:
            self.image_.set_clim(low, high + 1)
        bar = self.figure_.colorbar(self.image_, ax=self.ax_, label=self.label)
        if np.all(self.values[np.isfinite(self.values)] % 1 == 0):
            bar.ax.yaxis.get_major_locator().set_params(integer=True)

    def _draw_edges(self, edges: bool | None) -> None:
        if edges is False:
            return
        vertices, ends = self.atlas.vertices, self.atlas.edge_vertices
        a, b = self.plane._clip(vertices[ends[:, 0]], vertices[ends[:, 1]])
        if edges or len(a) <= MOST_EDGES:
            width = float(np.clip(40 / np.sqrt(len(a) + 1), 0.15, 0.6))
            _draw_lines(self.ax_, self.plane.lines(a, b), colors=INK, linewidths=width)

    def _draw_events(self, rows: Sequence[int]) -> None:
        if len(rows) == 0:
            return
        vertices, ends = self.atlas.vertices, self.atlas.edge_vertices
        edge = np.repeat(np.arange(self.atlas.n_edges), np.diff(self.atlas.edge_at))
        for row in rows:
            if not 0 <= row < self.atlas._problem.point.size:
                raise ValueError(f"events: row {row} does not exist")
            if self.atlas._problem.point[row] < 0:
                continue  # a row of zeros or of weight zero: nothing ever happens to it
            first = self.atlas._problem.first_rows[self.atlas._problem.point[row]]
            for kind, color in enumerate(EVENT_COLORS):
                path = ends[edge[np.all(self.atlas.edge_events == (first, kind), axis=1)]]
                lines = self.plane.lines(vertices[path[:, 0]], vertices[path[:, 1]])
                _draw_lines(self.ax_, lines, colors=INK, linewidths=2.3)
                _draw_lines(self.ax_, lines, colors=color, linewidths=1.7)

    def _means(self) -> Floats:
        """Mean of the corners of each facet, homogeneous; on scales without infinity of those that do not reach it."""
        drawn = np.ones(self.atlas.n_facets, dtype=bool)
        corners = self.atlas.vertices[self.atlas.facet_vertices]
        scale = (self.plane.unit, self.plane.unit, 1.0)
        if self.plane.scale == "triangle":
            corners = corners / scale
            corners = corners / corners.sum(axis=1, keepdims=True) * scale
        else:
            bounded = corners[:, 2] > 0
            drawn = np.logical_and.reduceat(bounded, self.atlas.facet_at[:-1])
            corners = corners / np.where(bounded, corners[:, 2], 1.0)[:, None]
        sizes = np.diff(self.atlas.facet_at)
        return np.asarray((np.add.reduceat(corners, self.atlas.facet_at[:-1], axis=0) / sizes[:, None])[drawn])

    def _draw_rays(self, ratios: Sequence[float]) -> None:
        for ratio in ratios:
            if not 0 < ratio < np.inf:
                raise ValueError(f"rays: a ratio C+/C- must be a positive number, got {ratio}")
            lines = self.plane.lines(np.array([[0.0, 0.0, 1.0]]), np.array([[ratio, 1.0, 0.0]]))
            _draw_lines(self.ax_, lines, colors="white", linewidths=2.6)
            _draw_lines(self.ax_, lines, colors=INK, linewidths=1.2, linestyles="dashed")


def _two_colors() -> Any:
    from matplotlib.colors import ListedColormap

    return ListedColormap(LAYER_COLORS)


def _outline(ax: Any, plane: Plane, cells: Sequence[Any]) -> None:
    """Draw the borders of cells, or of polygons of homogeneous costs, so that they stand out on any colour."""
    rings = [ring for cell in cells for ring in ([cell.polygon, *cell.holes] if hasattr(cell, "polygon") else [cell])]
    lines = [line for ring in rings for line in plane.border(ring)]
    _draw_lines(ax, lines, colors="white", linewidths=3.0)
    _draw_lines(ax, lines, colors=EVENT_COLORS[1], linewidths=1.6)


class AlphaDisplay:
    """Chosen dual variables over the plane of costs, as maps or as surfaces; made by :meth:`from_atlas`.

    Parameters
    ----------
    plane : Plane
        The scale and its limits.
    rows : sequence of int
        The rows whose variables are shown.
    values : ndarray of shape (len(rows), n, n)
        Their values in the middle of the pixels; NaN where there is no facet.
    labels : sequence of str
        What they are.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes
        One for each row.
    ax_ : matplotlib Axes
        The first of them.
    figure_ : matplotlib Figure
        The figure.

    """

    ax_: Any
    axes_: Any
    figure_: Any

    def __init__(self, plane: Plane, rows: Sequence[int], values: Floats, labels: Sequence[str]) -> None:
        self.plane = plane
        self.rows = rows
        self.values = values
        self.labels = labels

    @classmethod
    def from_atlas(
        cls,
        atlas: Atlas,
        rows: Sequence[int],
        *,
        share: bool = True,
        kind: str = "map",
        scale: str = "log",
        limits: Any = None,
        resolution: int = 120,
        ax: Any = None,
    ) -> AlphaDisplay:
        """Draw dual variables.

        Parameters
        ----------
        atlas : Atlas
            The map.
        rows : sequence of int
            Rows of the data.
        share : bool, default=True
            Show alpha as a share of its bound (0 outside the margin, 1 inside it), not as it is.
        kind : {"map", "surface"}, default="map"
            Colours, or surfaces in three dimensions.
        scale, limits, resolution
            As in :meth:`AtlasDisplay.from_atlas`; surfaces have no triangle.
        ax : sequence of matplotlib Axes, optional
            Where to draw, one for each row (with a 3-D projection for surfaces). Default: a new figure.

        Returns
        -------
        AlphaDisplay
            The display, drawn.

        """
        n = atlas._problem.point.size
        rows = [int(row) for row in np.atleast_1d(rows)]
        if not rows or min(rows) < 0 or max(rows) >= n:
            raise ValueError(f"rows must be numbers from 0 to {n - 1}, got {rows}")
        if scale == "triangle" and not share:
            raise ValueError("on the triangle alpha has no bound: it needs share=True")
        plane = view_of(atlas, scale, limits)
        p, q = plane.pixels(resolution)
        facets = facets_of_pixels(atlas, plane, resolution)
        held = (facets >= 0) & np.isfinite(p)
        found = by_facet(partial(alpha_shares, atlas, rows), facets[held], p[held], q[held]).reshape(-1, len(rows))
        if not share:
            positive = atlas._problem.sign[rows] > 0
            found = found * atlas._problem.weight[rows] * np.where(positive, p[held][:, None], q[held][:, None])
        values = np.full((len(rows), *p.shape), np.nan)
        values[:, held] = found.T
        labels = [_alpha_name(atlas, row, share) for row in rows]
        return cls(plane, rows, values, labels).plot(ax=ax, kind=kind)

    def plot(self, ax: Any = None, *, kind: str = "map", cmap: Any = "viridis") -> AlphaDisplay:
        """Draw the variables.

        Parameters
        ----------
        ax : sequence of matplotlib Axes, optional
            Where to draw, one for each row. Default: a new figure.
        kind : {"map", "surface"}, default="map"
            Colours, or surfaces in three dimensions.
        cmap : str or matplotlib Colormap, default="viridis"
            Colours.

        Returns
        -------
        AlphaDisplay
            The display itself.

        """
        if kind not in ("map", "surface"):
            raise ValueError(f"kind must be 'map' or 'surface', got {kind!r}")
        if kind == "surface" and self.plane.scale == "triangle":
            raise ValueError("kind='surface' needs scale='log' or 'linear'")
        n = len(self.rows)
        wide = min(n, 3)
        shape = {"nrows": -(-n // wide), "ncols": wide, "squeeze": False}
        size = (4.2 * wide, (3.4 if kind == "map" else 4.0) * shape["nrows"])
        ax = _axes(ax, figsize=size, subplot_kw={"projection": "3d"} if kind == "surface" else {}, **shape)
        self.axes_ = np.atleast_1d(ax).ravel()
        for extra in self.axes_[n:]:
            extra.set_axis_off()
        self.axes_ = self.axes_[:n]
        self.ax_ = self.axes_[0]
        self.figure_ = self.ax_.figure
        for one, row, values, label in zip(self.axes_, self.rows, self.values, self.labels, strict=True):
            if kind == "map":
                one.set_title(f"row {row}")
            self._draw_map(one, values, label, cmap) if kind == "map" else self._draw_surface(one, values, label, cmap)
        return self

    def _draw_map(self, ax: Any, values: Floats, label: str, cmap: Any) -> None:
        image = _paint(ax, self.plane, values, cmap=cmap)
        self.plane.dress(ax)
        self.figure_.colorbar(image, ax=ax, label=label)

    def _draw_surface(self, ax: Any, values: Floats, label: str, cmap: Any) -> None:
        log = self.plane.scale == "log"
        p, q = self.plane.pixels(values.shape[0])
        x, y = (np.log10(p), np.log10(q)) if log else (p, q)
        ax.plot_surface(x, y, values, cmap=cmap, rcount=60, ccount=60, linewidth=0, antialiased=False, rasterized=True)
        ax.set(xlabel=r"$\log_{10} C_+$" if log else "$C_+$", ylabel=r"$\log_{10} C_-$" if log else "$C_-$", title=label)
        ax.locator_params(nbins=4)
        ax.view_init(elev=28, azim=-125)


def _alpha_name(atlas: Atlas, row: int, share: bool) -> str:
    sign = "+" if atlas._problem.sign[row] > 0 else "-"
    name = rf"\alpha_{{{row}}}"
    return rf"${name} / C_{{{sign}}}$" if share else f"${name}$ ({'positive' if sign == '+' else 'negative'} row)"


class SelectionDisplay:
    """A score over the plane of costs, in its true cells, with the best ones outlined; made by :meth:`from_selection`.

    Parameters
    ----------
    selection : Selection
        What is shown.
    plane : Plane
        The scale and its limits.
    values : ndarray of shape (n, n)
        Score in the middle of each pixel; NaN outside the region.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the map.
    figure_ : matplotlib Figure
        Figure with the map and its colour bar.
    image_ : matplotlib QuadMesh
        The coloured pixels.
    grid_score_ : float or None
        The best score on the grid, if there was one.

    """

    ax_: Any
    figure_: Any
    image_: Any
    grid_score_: float | None

    def __init__(self, selection: Selection, plane: Plane, values: Floats) -> None:
        self.selection = selection
        self.plane = plane
        self.values = values

    @classmethod
    def from_selection(
        cls,
        selection: Selection,
        *,
        scale: str = "log",
        limits: Any = None,
        resolution: int = 300,
        ax: Any = None,
        **kwargs: Any,
    ) -> SelectionDisplay:
        """Draw a selection.

        Parameters
        ----------
        selection : Selection
            Made by :func:`svmatlas.select`.
        scale, limits, resolution, ax
            As in :meth:`AtlasDisplay.from_atlas`. Limits default to where almost all predictions change.
        **kwargs
            Passed to :meth:`plot`.

        Returns
        -------
        SelectionDisplay
            The display, drawn.

        """
        box, region = selection._held_overlay.box, selection._held_overlay.region
        plane = make_plane(finite(box.pieces.reshape(-1, 3)), region, scale, limits)
        p, q = plane.pixels(resolution)
        held = np.isfinite(p)
        for cost, (lo, hi) in zip((p, q), region, strict=True):
            held &= (cost >= lo) & (cost <= hi)
        values = np.full(p.shape, np.nan)
        values[held] = selection.scores_on_map(p[held], q[held]).mean(axis=-1)
        return cls(selection, plane, values).plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, *, grid: Any = None, cmap: Any = "viridis", **kwargs: Any) -> SelectionDisplay:
        """Draw the score.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw. Default: a new figure.
        grid : (array-like, array-like), optional
            Values of C+ and C- of a grid: its points are drawn, and the title says what it lost.
        cmap : str or matplotlib Colormap, default="viridis"
            Colours.
        **kwargs
            Passed to ``ax.pcolormesh``.

        Returns
        -------
        SelectionDisplay
            The display itself.

        """
        self.ax_ = _axes(ax, figsize=(6.4, 5.4))
        self.figure_ = self.ax_.figure
        self.image_ = _paint(self.ax_, self.plane, self.values, cmap=cmap, **kwargs)
        self.plane.dress(self.ax_)
        self.figure_.colorbar(self.image_, ax=self.ax_, label="mean score of the held-out rows")
        chosen = self.selection
        title = f"best score {chosen.best_score:.4f}"
        self.grid_score_ = None if grid is None else self._draw_grid(*grid)
        if self.grid_score_ is not None:
            title += f", of the grid {self.grid_score_:.4f} (lost {chosen.best_score - self.grid_score_:.4f})"
        _outline(self.ax_, self.plane, chosen.cells)
        x, y = self.plane.project(np.array([chosen.C_pos, chosen.C_neg, 1.0]))
        self.ax_.plot(x, y, "*", markersize=10, color=EVENT_COLORS[1], markeredgecolor="white", clip_on=False)
        self.ax_.set_title(title, fontsize="medium")
        return self

    def _draw_grid(self, C_pos: Any, C_neg: Any) -> float:
        """Dots at the costs of a grid, rings around its best ones; returns their score."""
        p, q = (v.ravel() for v in np.meshgrid(np.asarray(C_pos, dtype=float), np.asarray(C_neg, dtype=float)))
        scores = np.asarray(self.selection.score_at(p, q))
        places = self.plane.project(np.column_stack([p, q, np.ones_like(p)]))
        best = scores == scores.max()
        self.ax_.plot(*places.T, "o", markersize=3, color="white", markeredgecolor=INK, markeredgewidth=0.5)
        self.ax_.plot(*places[best].T, "o", markersize=7, color="none", markeredgecolor=INK, markeredgewidth=1.4)
        return float(scores.max())


class RocFrontierDisplay:
    """The ROC frontier of all asymmetric-cost SVMs; made by :meth:`from_frontier`.

    Parameters
    ----------
    frontier : Frontier
        What is shown.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the curve.
    figure_ : matplotlib Figure
        Figure with the curve.

    """

    ax_: Any
    figure_: Any

    def __init__(self, frontier: Frontier) -> None:
        self.frontier = frontier

    @classmethod
    def from_frontier(cls, frontier: Frontier, *, ax: Any = None, **kwargs: Any) -> RocFrontierDisplay:
        """Draw a frontier.

        Parameters
        ----------
        frontier : Frontier
            Made by :func:`svmatlas.roc_frontier`.
        ax : matplotlib Axes, optional
            Where to draw. Default: a new figure.
        **kwargs
            Passed to :meth:`plot`.

        Returns
        -------
        RocFrontierDisplay
            The display, drawn.

        """
        return cls(frontier).plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, *, points: dict[str, tuple[float, float]] | None = None) -> RocFrontierDisplay:
        """Draw the frontier and its convex hull.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw. Default: a new figure.
        points : dict of str to (fpr, tpr), optional
            Other classifiers to compare with, by name.

        Returns
        -------
        RocFrontierDisplay
            The display itself.

        """
        self.ax_ = _axes(ax, figsize=(5.4, 5.2))
        self.figure_ = self.ax_.figure
        front = self.frontier
        x, y = np.r_[0.0, front.fpr, 1.0], np.r_[0.0, front.tpr, 1.0]
        hull = [(0.0, 0.0), *zip(front.fpr[front.hull], front.tpr[front.hull], strict=True), (1.0, 1.0)]
        self.ax_.plot([0, 1], [0, 1], ":", color="#888888", linewidth=1.0)
        self.ax_.step(x, y, where="post", color="#0072b2", linewidth=1.6, label="frontier")
        self.ax_.plot(front.fpr, front.tpr, "o", color="#0072b2", markersize=3.5)
        self.ax_.plot(*zip(*hull, strict=True), "--", color="#d55e00", linewidth=1.2, label=f"hull, area {front.auc_hull:.4f}")
        for (name, (fpr, tpr)), marker in zip((points or {}).items(), "sD^vP*X", strict=False):
            self.ax_.plot(fpr, tpr, marker, color=INK, markersize=6, label=name)
        self.ax_.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
        self.ax_.set(xlabel="false positive rate", ylabel="true positive rate")
        self.ax_.legend(loc="lower right")
        return self
