"""``svmatlas compile``: compile all kernels ahead of their first use, by a small problem that needs them all."""

from __future__ import annotations

import warnings
from contextlib import suppress

import numpy as np

import svmatlas
from svmatlas.engine.residues import solve_integer
from svmatlas.show.raster import fill


def compile_kernels() -> None:
    """Use every kernel once: there are more rows in each fold than go into one tile."""
    y = np.arange(600) % 2
    X = np.random.default_rng(0).normal(size=(600, 2)) + y[:, None]
    wide = np.random.default_rng(1).normal(size=(600, 10))
    region = ((0.5, 0.6), (0.5, 0.6))
    atlas = svmatlas.explore(X, y, region=region)
    atlas.validate()
    atlas.coef(0.55, 0.55)
    place = np.array([0.55])
    fill(atlas.vertices, atlas.facet_at, atlas.facet_vertices, place, place)
    with suppress(ValueError):
        svmatlas.explore(X, y, region=region, max_facets=9).locate(0.5, 0.6)  # nowhere
    selection = svmatlas.select(X, y, cv=2, region=region)
    selection.score_at(0.55, 0.55)
    selection.cells[0].contains(0.55, 0.55)
    with warnings.catch_warnings(), suppress(ValueError):  # on a slow machine a second may be too short for anything
        warnings.simplefilter("ignore")
        svmatlas.select(np.hstack([X, wide]), y, cv=2, time_budget=1.0)  # takes eight: the rest is not explored
    svmatlas.ray(X, y, C_max=1e-3).coef(1e-4)
    k = np.arange(24)
    svmatlas.explore(np.hstack([np.eye(3)[k % 3], np.eye(4)[k * k % 4]]), k % 5 == 0)  # tied, and of low rank
    solve_integer([[1]], [[1]])
