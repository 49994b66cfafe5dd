"""``svmatlas compile``: compile all kernels ahead of their first use.

    python -m svmatlas.cli.prepare

writes the list of all kernels (engine/kernels.json), found by small problems that need them all.
"""

from __future__ import annotations

import warnings
from contextlib import suppress

import numpy as np
from scipy.sparse import csr_array

import svmatlas
from svmatlas.engine import ahead
from svmatlas.engine.residues import solve_integer
from svmatlas.show.raster import fill
from svmatlas.support.settings import SETTINGS


def compile_all() -> None:
    """Compile all kernels, in two processes."""
    ahead.get_help(explore=False)
    ahead.compile_kernels()


def use_explore() -> None:
    """Use every kernel of ``explore`` once: there are more rows than go into one tile; tied rows; decimals."""
    y = np.arange(600) % 2
    X = np.random.default_rng(0).normal(size=(600, 2)) + y[:, None]
    svmatlas.explore(X, y, region=((0.5, 0.6), (0.5, 0.6)))
    k = np.arange(24)
    svmatlas.explore(np.hstack([np.eye(3)[k % 3], np.eye(4)[k * k % 4]]), k % 5 == 0)
    svmatlas.explore(np.column_stack([k % 5, k * k % 7]) / 10, k % 3 == 0)  # ties up to rounding


def use_others() -> None:
    """Use every other kernel once."""
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
    share, SETTINGS.maps_share = SETTINGS.maps_share, np.inf
    svmatlas.select(X, y, cv=2, region=region, tolerance=0.0)
    SETTINGS.maps_share = share
    selection.score_at(0.55, 0.55)
    selection.cells[0].contains(0.55, 0.55)
    with warnings.catch_warnings(), suppress(ValueError):  # on a slow machine a second may be too short for anything
        warnings.simplefilter("ignore")
        svmatlas.select(np.hstack([X, wide]), y, cv=2, rule="one_se", time_budget=1.0)  # takes eight: the rest is not explored
    svmatlas.ray(X, y, C_max=1e-3).coef(1e-4)
    svmatlas.AsymmetricSVC().fit(csr_array(X), y)
    solve_integer([[1]], [[1]])


def list_kernels() -> dict[str, list[ahead.Row]]:
    """All kernels that are used, those of ``explore`` first."""
    use_explore()
    explore = ahead.compiled_kernels()
    use_others()
    return {"explore": explore, "other": [row for row in ahead.compiled_kernels() if row not in explore]}


if __name__ == "__main__":
    ahead.write_list(list_kernels())
