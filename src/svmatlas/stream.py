"""Without an atlas in memory: the map tile by tile, and what all of it would cost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from svmatlas.atlas import Atlas
from svmatlas.budget import Estimate, samples
from svmatlas.mesh import Joiner
from svmatlas.problem import check_bounds, make_problem, make_region, make_tile
from svmatlas.survey import Surveyor


def tiles(
    X: Any,
    y: Any,
    *,
    bias: float = 1.0,
    sample_weight: Any = None,
    kernel: Any = "linear",
    gamma: Any = "scale",
    degree: float = 3,
    coef0: float = 0.0,
    standardize: bool = False,
    region: Any = None,
    random_state: Any = 0,
) -> Iterator[Atlas]:
    """Explore the map tile by tile, in constant memory.

    Each tile is an atlas of its own box of costs (``tile.region``); together the boxes are the region. A facet that reaches
    over several tiles is in each of them, cut off at its border, with the same partition.

    Parameters
    ----------
    X, y, bias, sample_weight, kernel, gamma, degree, coef0, standardize, region, random_state
        As in :func:`svmatlas.explore`.

    Yields
    ------
    Atlas
        The facets, edges and vertices in one tile, and their solutions.

    """
    bounds = check_bounds(region)
    problem = make_problem(X, y, bias, sample_weight, random_state, kernel, gamma, degree, coef0, standardize)
    surveyor = Surveyor(problem, bounds)
    waiting = [(tile, 0) for tile in surveyor.cut((bounds[0][0], bounds[1][0]))]
    while waiting:
        tile, depth = waiting.pop(0)
        before = surveyor.engine.n_refined, surveyor.engine.n_exact
        facets = surveyor.explore(tile, depth)
        if isinstance(facets, list):
            waiting = [(part, depth + 1) for part in facets] + waiting
            continue
        surveyor.remember(tile, facets)
        joiner = Joiner(surveyor.engine, make_region(tile, problem.cost_exponent), facets.start)
        joiner.add(facets._replace(code=_by_side(facets.code, make_tile(tile, problem.cost_exponent, surveyor.region).name)))
        counts = {
            "n_refined": surveyor.engine.n_refined - before[0],
            "n_exact": surveyor.engine.n_exact - before[1],
        }
        yield Atlas(problem, tile, joiner.finish(), True, counts)


def _by_side(code: npt.NDArray[np.int32], names: npt.NDArray[np.intp]) -> npt.NDArray[np.int32]:
    """Codes with the numbers of the sides of a tile in place of their names."""
    numbered = code.copy()
    for j, name in enumerate(names):
        numbered[code == -1 - name] = -1 - j
    return numbered


def estimate(
    X: Any,
    y: Any,
    *,
    bias: float = 1.0,
    sample_weight: Any = None,
    kernel: Any = "linear",
    gamma: Any = "scale",
    degree: float = 3,
    coef0: float = 0.0,
    standardize: bool = False,
    region: Any = None,
    time_budget: float = 5.0,
    random_state: Any = 0,
) -> Estimate:
    """Estimate the size of an atlas from a random sample of its tiles.

    Parameters
    ----------
    X, y, bias, sample_weight, kernel, gamma, degree, coef0, standardize, region, random_state
        As in :func:`svmatlas.explore`.
    time_budget : float, default=5.0
        Seconds for the sample; at least two tiles are explored.

    Returns
    -------
    Estimate
        Facets, seconds on one core and bytes, with their standard error. If all tiles could be explored the error is zero.

    """
    bounds = check_bounds(region)
    if not time_budget > 0:
        raise ValueError(f"time_budget must be a positive number of seconds, got {time_budget}")
    problem = make_problem(X, y, bias, sample_weight, random_state, kernel, gamma, degree, coef0, standardize)
    surveyor = Surveyor(problem, bounds)
    begin = time.monotonic()
    known = surveyor.cut((bounds[0][0], bounds[1][0]))
    set_up = time.monotonic() - begin
    for whole in samples(surveyor, known):
        if whole.n_sampled > 1 and time.monotonic() - begin > time_budget:
            break
    return replace(whole, seconds=whole.seconds + set_up)
