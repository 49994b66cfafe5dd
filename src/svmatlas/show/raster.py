"""Facets -> pixels: which facet holds the middle of each pixel.

Facets are filled row by row: a row of pixels is a straight line, which meets a convex polygon in one stretch. The work is
that of all facets times the rows they span, whatever the scale, and parts that were not explored stay empty.
"""

from __future__ import annotations

import numpy as np

from svmatlas.engine.compiled import entry, kernel

EMPTY = -1
"""In place of a facet: no facet holds the middle of the pixel."""


@kernel
def _ratio(a, b):
    """Quotient a / b, infinite where b is zero."""
    return a / b if b > 0.0 else np.inf


@kernel
def _stretch(corner, y):
    """First and last x of a convex polygon (k, 3) on the line at height y; corners (X, Y, W) stand at X/W, Y/W."""
    first, last = np.inf, -np.inf
    for j in range(corner.shape[0]):
        a, b = corner[j - 1], corner[j]
        above_a, above_b = a[1] - y * a[2], b[1] - y * b[2]
        if above_b == 0.0:
            x = _ratio(b[0], b[2])
        elif above_a * above_b < 0.0:
            t = above_a / (above_a - above_b)
            x = _ratio(a[0] + t * (b[0] - a[0]), a[2] + t * (b[2] - a[2]))
        else:
            continue
        first, last = min(first, x), max(last, x)
    return first, last


@entry
def fill(vertices, at, corners, x, y):
    """Facet at each of the points (x[j], y[i]), both ascending, as an array (len(y), len(x)); EMPTY where there is none."""
    out = np.full((y.size, x.size), EMPTY, np.int64)
    for f in range(at.size - 1):
        corner = vertices[corners[at[f] : at[f + 1]]]
        low, high = np.inf, -np.inf
        for j in range(corner.shape[0]):
            if corner[j, 1] > 0.0 or corner[j, 2] > 0.0:  # else it is the common end of all rows
                height = _ratio(corner[j, 1], corner[j, 2])
                low, high = min(low, height), max(high, height)
        for i in range(np.searchsorted(y, low), np.searchsorted(y, high, side="right")):
            first, last = _stretch(corner, y[i])
            for j in range(np.searchsorted(x, first), np.searchsorted(x, last, side="right")):
                out[i, j] = f
    return out
