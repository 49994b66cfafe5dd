"""Without an atlas in memory: the map tile by tile, and what all of it would cost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from joblib import effective_n_jobs

from svmatlas.atlas.atlas import Atlas
from svmatlas.atlas.budget import AT_LEAST, JOINING, Estimate, samples
from svmatlas.atlas.single import unite_tile
from svmatlas.atlas.survey import RAY_SHARE, Surveyor
from svmatlas.data.problem import Bounds, check_bounds, make_problem
from svmatlas.engine.ahead import compile_kernels, get_help
from svmatlas.engine.upright import set_upright
from svmatlas.support.progress import finish, make_bar, move_to
from svmatlas.support.stopping import Limit, check_budget, stoppable
from svmatlas.support.threads import make_pool

SPREAD = 1.0
"""Least standard deviation of the pieces of tiles, relative to their mean, that is assumed: a few are alike by chance."""

LATE = 1.0
"""Seconds more for the last tile of a sample: to leave it out would leave out the large ones, and they count most."""


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
    pos_label: Any = None,
) -> Iterator[Atlas]:
    """Explore the map tile by tile, in constant memory.

    Each tile is an atlas of its own box of costs (``tile.region``); together the boxes are the region. A facet that reaches
    over several tiles is in each of them, cut off at its border, with the same partition.

    Parameters
    ----------
    X, y, bias, sample_weight, kernel, gamma, degree, coef0, standardize, region, random_state, pos_label
        As in :func:`svmatlas.explore`.

    Yields
    ------
    Atlas
        The facets, edges and vertices in one tile, and their solutions.

    """
    bounds = check_bounds(region)
    with stoppable() as limit:
        problem = make_problem(
            X, y, bias, sample_weight, random_state, kernel, gamma, degree, coef0, standardize, pos_label=pos_label
        )  # fmt: skip
        surveyor = Surveyor(problem, bounds)
        waiting = [(tile, 0) for tile in surveyor.cut((bounds[0][0], bounds[1][0]), limit)]
        limit.check()
    while waiting:
        tile, depth = waiting.pop(0)
        with stoppable() as limit:  # no longer than one tile: who uses the tiles has Ctrl-C for himself
            found = _atlas_of(surveyor, tile, depth, limit)
        if isinstance(found, Atlas):
            yield found
        else:
            waiting = [(part, depth + 1) for part in found] + waiting


def _atlas_of(surveyor: Surveyor, tile: Bounds, depth: int, limit: Limit) -> Atlas | list[Bounds]:
    """The atlas of one tile, or the parts to cut it into."""
    problem, engine = surveyor.problem, surveyor.engine
    before = engine.counts
    facets = surveyor.explore(tile, depth, limit=limit)
    if isinstance(facets, list):
        return facets
    limit.check()
    surveyor.remember(tile, facets)
    counts = {name: count - before[name] for name, count in engine.counts.items()}
    with make_pool(1) as pool:
        canonical = unite_tile(engine, problem, surveyor.region, tile, facets, pool)
    set_upright(canonical.mesh, tile, problem.cost_exponent)
    return Atlas(problem, tile, canonical, True, counts)


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
    pos_label: Any = None,
    progress: bool = False,
    n_jobs: int | None = None,
) -> Estimate:
    """Estimate the size of an atlas from a random sample of its tiles.

    Parameters
    ----------
    X, y, bias, sample_weight, kernel, gamma, degree, coef0, standardize, region, random_state, pos_label
        As in :func:`svmatlas.explore`.
    time_budget : float, default=5.0
        Seconds; the last tile of the sample may take one more. To factor X takes as long as it takes, the sample a second at
        least. The first use, which compiles, is not counted.
    progress : bool, default=False
        Show a progress bar (needs tqdm).
    n_jobs : int, optional
        Threads or workers that the whole map would have; -1 for all that there are. The sample is taken by one. Default: 1.

    Returns
    -------
    Estimate
        Pieces of facets, their error, bytes, and seconds with so many cores. If all tiles could be explored the error is
        that of counting pieces on cuts more than once.
        If the tiles of the sample could not be finished the error is infinite, and the numbers are less than the true ones.

    """
    bounds = check_bounds(region)
    check_budget(time_budget)
    get_help(explore=True)
    compile_kernels(explore=True)  # or load them: that takes no part of the budget, and of the time that is measured
    with stoppable() as limit:
        end = time.monotonic() + time_budget
        problem = make_problem(
            X, y, bias, sample_weight, random_state, kernel, gamma, degree, coef0, standardize, pos_label=pos_label
        )  # fmt: skip
        begin = time.monotonic()
        late = max(end, begin) + LATE
        surveyor = Surveyor(problem, bounds)
        surveyor.leave_out_plateaus()
        grid = surveyor.grid(limit.within(RAY_SHARE * (late - begin)))
        set_up = time.monotonic() - begin

        def share(m: int) -> Limit:
            return limit.within((late - time.monotonic()) / max(1, 3 - m))

        bar = make_bar(" s", round(late - begin, 1)) if progress else None
        for sample in samples(surveyor, grid, share):
            if bar is not None:
                move_to(bar, round(min(time.monotonic(), late) - begin, 1), bar.total)
            if sample.n_sampled > 1 and (not sample.whole or time.monotonic() > end):
                break
        finish(bar)
    n_tiles = len(grid[0]) * len(grid[1])
    least = SPREAD * float(np.sqrt((1 - sample.n_sampled / n_tiles) / sample.n_sampled))
    error = max(sample.error, least, AT_LEAST) if sample.whole and surveyor.all_cut else np.inf
    jobs = int(effective_n_jobs(1 if n_jobs is None else n_jobs))
    seconds = (1.0 + JOINING) * sample.seconds / min(jobs, n_tiles) + set_up
    return Estimate(sample.n_pieces, seconds, sample.bytes, error, n_tiles, sample.n_sampled, jobs)
