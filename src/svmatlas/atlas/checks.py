"""Proof that a store is right: each tile by itself (validate.py), and that they fit together.

Each tile is a whole map of its box, and the boxes are the region. A facet, edge or vertex that two tiles see differently at a
cut changes V - E + F of the whole map. There facets with the same partition count once, edges that cross cuts once, and what
is on cuts not at all.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import effective_n_jobs

from svmatlas.atlas.validate import Report, validate_within
from svmatlas.support.arrays import FileError
from svmatlas.support.progress import make_bar
from svmatlas.support.stopping import Limit, Stopped, check_budget, stoppable
from svmatlas.support.threads import limit_blas

if TYPE_CHECKING:
    from svmatlas.atlas.opened import AtlasStore

MOST = 20
"""Faults that are told."""


def validate_store(
    store: AtlasStore, n_costs: int, random_state: Any, progress: bool, n_jobs: int | None, time_budget: float | None
) -> Report:
    """Check all invariants of a store, tile by tile; if it is stopped, that is a fault."""
    check_budget(time_budget)
    reports: list[Report] = []
    faults: list[str] = []
    jobs = 1 if n_jobs is None else int(effective_n_jobs(n_jobs))
    bar = make_bar(" tiles", store.n_tiles) if progress else nullcontext()
    with stoppable(time_budget) as limit, bar as shown, limit_blas(), ThreadPoolExecutor(jobs) as pool:
        check = partial(_check_tile, store, -(-n_costs // max(1, store.n_tiles)), random_state, limit)
        for t, found in enumerate(pool.map(check, range(store._index.tile.size))):
            if found is None:
                faults.insert(0, f"stopped when {t} of {store.n_tiles} tiles had been checked")
                break
            if isinstance(found, Report):
                reports.append(found)
                faults += [f"tile {store._index.tile[t]}: {fault}" for fault in found.faults]
            else:
                faults.append(found)
            if shown is not None:
                shown.update(1)
        limit.answered = True
    euler = store.n_vertices - store.n_edges + store.n_facets
    if store.complete and euler != 1:
        faults.append(f"V - E + F is {euler}, not 1: tiles do not fit together")
    return Report(
        ok=not faults,
        complete=store.complete,
        coverage=_furthest_from_one([report.coverage for report in reports]) * store.progress().share,
        log_coverage=float(np.mean([report.log_coverage for report in reports] or [0.0])),
        max_gap=max((report.max_gap for report in reports), default=0.0),
        max_user_gap=max((report.max_user_gap for report in reports), default=0.0),
        max_kkt=max((report.max_kkt for report in reports), default=0.0),
        n_open_edges=sum(report.n_open_edges for report in reports),
        euler=euler,
        n_facets=store.n_facets,
        n_edges=store.n_edges,
        n_vertices=store.n_vertices,
        n_costs=sum(report.n_costs for report in reports),
        n_refined=0,
        n_zero=0,
        n_exact=0,
        rows=next((report.rows for report in reports), "given"),
        n_user_costs=sum(report.n_user_costs for report in reports),
        faults=faults[:MOST],
    )


def _check_tile(store: AtlasStore, n_costs: int, random_state: Any, limit: Limit, t: int) -> Report | str | None:
    """What is found in a tile, by its number in the index, or what is wrong with its file; None if it is time to stop."""
    try:
        limit.check()
        return validate_within(limit, store._load(t).atlas, n_costs, random_state, False, 1)
    except FileError as error:
        return str(error)
    except Stopped:
        return None


def _furthest_from_one(values: list[float]) -> float:
    return max(values, key=lambda value: abs(value - 1.0), default=0.0)
