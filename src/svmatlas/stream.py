"""Without an atlas in memory: the map tile by tile, and what all of it would cost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from svmatlas.atlas import Atlas
from svmatlas.mesh import Joiner
from svmatlas.problem import check_bounds, make_problem, make_region, make_tile
from svmatlas.survey import Surveyor

BYTES = 160
"""Memory of an atlas for each facet that is named in it: 125 in its arrays, the rest for facets that tiles cut."""


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
    region: Any = None,
    random_state: Any = 0,
) -> Iterator[Atlas]:
    """Explore the map tile by tile, in constant memory.

    Each tile is an atlas of its own box of costs (``tile.region``); together the boxes are the region. A facet that reaches
    over several tiles is in each of them, cut off at its border, with the same partition.

    Parameters
    ----------
    X, y, bias, sample_weight, kernel, gamma, degree, coef0, region, random_state
        As in :func:`svmatlas.explore`.

    Yields
    ------
    Atlas
        The facets, edges and vertices in one tile, and their solutions.

    """
    bounds = check_bounds(region)
    problem = make_problem(X, y, bias, sample_weight, random_state, kernel, gamma, degree, coef0)
    surveyor = Surveyor(problem, bounds)
    waiting = [(tile, 0) for tile in surveyor.cut((bounds[0][0], bounds[1][0]))]
    while waiting:
        tile, depth = waiting.pop(0)
        before = surveyor.engine.n_refined, surveyor.engine.n_exact
        facets = surveyor.explore(tile, depth)
        if isinstance(facets, list):
            waiting = [(part, depth + 1) for part in facets] + waiting
            continue
        surveyor.remember(facets)
        joiner = Joiner(surveyor.engine, make_region(tile, problem.cost_exponent))
        joiner.add(facets._replace(code=_by_side(facets.code, make_tile(tile, problem.cost_exponent, surveyor.region).name)))
        counts = {
            "n_refined": surveyor.engine.n_refined - before[0],
            "n_exact": surveyor.engine.n_exact - before[1],
        }
        yield Atlas(problem, tile, joiner.finish(facets.start), True, counts)


def _by_side(code: npt.NDArray[np.int32], names: npt.NDArray[np.intp]) -> npt.NDArray[np.int32]:
    """Codes with the numbers of the sides of a tile in place of their names."""
    numbered = code.copy()
    for j, name in enumerate(names):
        numbered[code == -1 - name] = -1 - j
    return numbered


@dataclass(frozen=True)
class Estimate:
    """What an atlas would take; ``error`` is the relative standard error of all three numbers."""

    n_facets: float  # ties included
    seconds: float
    bytes: float
    error: float
    n_tiles: int
    n_sampled: int

    def __str__(self) -> str:
        return (
            f"about {self.n_facets:.3g} facets (ties included), {self.seconds:.3g} s on one core, "
            f"{self.bytes / 2**20:.3g} MiB, all give or take {100 * self.error:.0f} % "
            f"(from {self.n_sampled} of {self.n_tiles} tiles)"
        )


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
    region: Any = None,
    time_budget: float = 5.0,
    random_state: Any = 0,
) -> Estimate:
    """Estimate the size of an atlas from a random sample of its tiles.

    Parameters
    ----------
    X, y, bias, sample_weight, kernel, gamma, degree, coef0, region, random_state
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
    problem = make_problem(X, y, bias, sample_weight, random_state, kernel, gamma, degree, coef0)
    surveyor = Surveyor(problem, bounds)
    begin = time.monotonic()
    known = surveyor.cut((bounds[0][0], bounds[1][0]))
    set_up = time.monotonic() - begin
    order = np.random.default_rng(problem.seed).permutation(len(known))
    facets: list[int] = []
    seconds: list[float] = []
    for k in order:
        started = time.monotonic()
        if len(facets) > 1 and started - begin > time_budget:
            break
        facets.append(_count(surveyor, known[k], 0))
        seconds.append(time.monotonic() - started)
    n, m = len(known), len(facets)
    share = (1.0 - m / n) / m
    error = float(np.std(facets, ddof=1) / np.mean(facets) * np.sqrt(share)) if m < n else 0.0
    total = float(np.mean(facets)) * n
    return Estimate(total, set_up + float(np.mean(seconds)) * n, BYTES * total, error, n, m)


def _count(surveyor: Surveyor, tile: Any, depth: int) -> int:
    """Number of facets in a tile."""
    facets = surveyor.explore(tile, depth)
    return sum(_count(surveyor, part, depth + 1) for part in facets) if isinstance(facets, list) else facets.key.size
