"""Costs -> coordinates on paper, on a logarithmic or linear scale or on the triangle of the whole quadrant.

Edges, event paths and rays are straight lines in homogeneous costs (p, q, l), C+ = p/l and C- = q/l. They stay straight on a
linear scale and on the triangle; a logarithmic scale bends them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from svmatlas.data.problem import Bounds
from svmatlas.support.messages import shown

Floats = npt.NDArray[np.float64]

SCALES = ("log", "linear", "triangle")

BENDS = 12
"""Pieces of a straight line on a logarithmic scale, for each of the two costs."""

TOO_FAR = 1e-9
"""Share of l in the coordinates of the triangle below which a pixel is taken to lie at infinity."""

INK = "#111111"


@dataclass(frozen=True)
class Plane:
    """A view of the costs: a scale and its limits. Costs go through here to become coordinates on paper.

    On the triangle the point (p, q, l) stands at x = p/u / s, y = q/u / s with s = p/u + q/u + l: the axes are two of
    its sides, infinity is the third, and straight lines stay straight. ``unit`` u is the cost in the middle of an axis.
    """

    scale: str
    x: tuple[float, float]
    y: tuple[float, float]
    unit: float = 1.0

    def weigh(self, c: Floats) -> Floats:
        """Homogeneous costs (..., 3) as homogeneous coordinates (X, Y, W) of the point (X/W, Y/W)."""
        if self.scale != "triangle":
            return c
        scaled = c / (self.unit, self.unit, 1.0)
        return np.concatenate([scaled[..., :2], scaled.sum(axis=-1, keepdims=True)], axis=-1)

    def project(self, c: Floats) -> Floats:
        """Homogeneous costs (..., 3) as coordinates (..., 2)."""
        weighed = self.weigh(c)
        return weighed[..., :2] / weighed[..., 2:]

    def costs(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Costs at coordinates; NaN outside the triangle."""
        if self.scale != "triangle":
            return x, y
        rest = 1 - x - y
        rest = np.where(rest > TOO_FAR, rest, np.nan)
        return self.unit * x / rest, self.unit * y / rest

    def grid(self, n: int) -> tuple[Floats, Floats]:
        """Borders of n by n pixels, (n + 1,) each."""
        if self.scale == "triangle":
            return np.linspace(0, 1, n + 1), np.linspace(0, 1, n + 1)
        space = np.geomspace if self.scale == "log" else np.linspace
        return np.asarray(space(*self.x, n + 1)), np.asarray(space(*self.y, n + 1))

    def middles(self, n: int) -> tuple[Floats, Floats]:
        """Coordinates of the middles of n by n pixels, (n,) each."""
        x, y = self.grid(n)
        if self.scale == "log":
            return np.sqrt(x[1:] * x[:-1]), np.sqrt(y[1:] * y[:-1])
        return (x[1:] + x[:-1]) / 2, (y[1:] + y[:-1]) / 2

    def pixels(self, n: int) -> tuple[Floats, Floats]:
        """Costs (n, n) in the middle of the pixels; rows go up."""
        x, y = np.meshgrid(*self.middles(n))
        return self.costs(x, y)

    def lines(self, a: Floats, b: Floats) -> list[Floats]:
        """Straight segments between homogeneous costs (n, 3), as far as they are in view, each as points (m, 2)."""
        a, b = self._clip(a, b)
        if self.scale != "log":
            return list(np.stack([self.project(a), self.project(b)], axis=1))
        a, b = self.project(a), self.project(b)
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = [np.expm1(t * np.log(b / a)) / (b / a - 1) for t in np.linspace(0, 1, BENDS + 1)]
        t = np.sort(np.nan_to_num(np.concatenate(steps, axis=1), nan=0.0), axis=1)  # NaN: this cost does not change
        t[:, -1] = 1.0
        return list(a[:, None] + t[:, :, None] * (b - a)[:, None])

    def border(self, polygon: Floats) -> list[Floats]:
        """The border of a polygon with homogeneous corners (n, 3), as far as it is in view."""
        corners = np.asarray(polygon, dtype=float)
        return self.lines(corners, np.roll(corners, -1, axis=0))

    def _sides(self) -> list[Floats]:
        if self.scale == "triangle":
            return []
        (x0, x1), (y0, y1) = self.x, self.y
        return [np.array(h) for h in ((1.0, 0.0, -x0), (-1.0, 0.0, x1), (0.0, 1.0, -y0), (0.0, -1.0, y1))]

    def _clip(self, a: Floats, b: Floats) -> tuple[Floats, Floats]:
        """Segments as far as they are in view."""
        begin, end = np.zeros(len(a)), np.ones(len(a))
        for side in self._sides():
            da, db = a @ side, b @ side
            meet = np.divide(da, da - db, out=np.zeros(len(a)), where=da != db)
            begin = np.where((da < 0) & (db >= 0), np.maximum(begin, meet), begin)
            end = np.where((db < 0) & (da >= 0), np.minimum(end, meet), end)
            end = np.where((da < 0) & (db < 0), -1.0, end)
        seen = begin < end
        a, way, begin, end = a[seen], (b - a)[seen], begin[seen, None], end[seen, None]
        return a + begin * way, a + end * way

    def dress(self, ax: Any) -> None:
        """Scales, limits and labels of the axes."""
        if self.scale == "triangle":
            self._dress_triangle(ax)
            return
        ax.set(xscale=self.scale, yscale=self.scale, xlim=self.x, ylim=self.y, xlabel="$C_+$", ylabel="$C_-$")

    def _dress_triangle(self, ax: Any) -> None:
        """Two cost axes with ticks at powers of ten, and infinity as the third side."""
        ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="$C_+$", ylabel="$C_-$")
        for name in ("top", "right"):
            ax.spines[name].set_visible(False)
        ax.plot([1, 0], [0, 1], color=INK, linewidth=1.0, clip_on=False)
        ax.text(0.53, 0.53, "infinity", rotation=-45, ha="center", va="center", rotation_mode="anchor")
        middle = round(np.log10(self.unit))
        costs = 10.0 ** np.arange(middle - 1, middle + 2)
        places = costs / (costs + self.unit)
        clear = (places > 0.07) & (places < 0.93)  # of the labels in the corners
        costs, places = costs[clear], places[clear]
        names = ["0", *(f"$10^{{{np.log10(c):.0f}}}$" for c in costs), r"$\infty$"]
        ax.set_xticks([0, *places, 1], names)
        ax.set_yticks([0, *places, 1], names)
        for place in places:  # where one of the costs is constant: lines that meet in a corner
            ax.plot([place, 0], [0, 1], color="white", linewidth=0.4, alpha=0.6)
            ax.plot([0, 1], [place, 0], color="white", linewidth=0.4, alpha=0.6)


def make_plane(costs: Floats, region: Bounds, scale: str, limits: Any) -> Plane:
    """A view of a region: the user's limits, or those within which almost all of some costs (n, 2) lie."""
    if scale not in SCALES:
        raise ValueError(f"scale must be one of {', '.join(map(repr, SCALES))}, got {scale!r}")
    costs = costs if len(costs) else np.ones((1, 2))
    if scale == "triangle":
        if limits is not None:
            raise ValueError("scale='triangle' shows the whole quadrant: it takes no limits")
        return Plane(scale, (0.0, np.inf), (0.0, np.inf), float(np.exp(np.median(np.log(costs)))))
    if limits is None:
        whole = all(bounds == (0.0, np.inf) for bounds in region)
        limits = [_range(costs if whole else costs[:, k], scale, bounds) for k, bounds in enumerate(region)]
    try:
        (x0, x1), (y0, y1) = ((float(lo), float(hi)) for lo, hi in limits)
    except (TypeError, ValueError):
        raise ValueError(f"limits must be ((lo, hi), (lo, hi)), got {shown(limits)}") from None
    for lo, hi in ((x0, x1), (y0, y1)):
        if not (0 <= lo < hi < np.inf) or (scale == "log" and lo == 0):
            raise ValueError(f"limits need finite lo < hi, and lo > 0 on a log scale, got ({lo:g}, {hi:g})")
    return Plane(scale, (x0, x1), (y0, y1))


def _range(costs: Floats, scale: str, bounds: tuple[float, float]) -> tuple[float, float]:
    """Limits of one cost: on a log scale powers of ten around all but the outermost costs."""
    low, high = 0.0, float(np.quantile(costs, 0.9))
    if scale == "log":
        exponents = np.log10(np.quantile(costs, (0.005, 0.995)))
        low, high = (float(10.0**e) for e in (np.floor(exponents[0]), np.ceil(exponents[1])))
    low, high = max(low, bounds[0]), min(high, bounds[1])
    return (low, high) if low < high else (low / 10, low * 10)
