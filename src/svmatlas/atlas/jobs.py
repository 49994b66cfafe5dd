"""Tiles as jobs for joblib: threads of this process, other processes, or a cluster, as the user has chosen.

    with joblib.parallel_config(backend="dask"):
        svmatlas.explore(X, y, store="map.svmatlas")

A job is a few numbers. The problem goes to each worker once and is kept there, with what tiles have told of their neighbours.
Kernels are read from the cache of the worker's machine. Jobs of a worker that died are done again. Jobs in this process share
its surveyor and its limit; others have a deadline by the clock of their machine.
"""

from __future__ import annotations

import pickle
import threading
import time
import uuid
import warnings
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, nullcontext
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed, parallel_config
from joblib.parallel import get_active_backend

from svmatlas.atlas.survey import RAY_SHARE, Surveyor
from svmatlas.data.problem import Bounds
from svmatlas.engine.clipping import CLOSED
from svmatlas.engine.plateaus import UnclosedError
from svmatlas.engine.tile import EngineError, Facets
from svmatlas.store.tiles import Tile
from svmatlas.support.stopping import Limit, Stopped
from svmatlas.support.threads import limit_blas

T = TypeVar("T")

Visit = Callable[[Surveyor, Tile, Facets], T | None]
"""What is made of the facets of a tile, where they were found; None if they are of no use. It is sent to the workers."""

KEPT = 2
"""Problems that a worker keeps."""

LARGE = "16K"
"""Problems of more bytes than this are sent to other processes of this machine as a file."""

PATIENCE = 3
"""So often in a row workers may die before any tile is done."""


class Found(NamedTuple, Generic[T]):
    """What a job returns; nothing of it is there if it was stopped."""

    parts: list[Bounds] | None = None  # to cut the tile into, if it has too many facets
    made: T | None = None  # what ``visit`` makes of it
    whole: bool = False  # are all facets of the tile known?
    seconds: float = 0.0


class Order(NamedTuple):
    """What all jobs of a run have in common."""

    name: str
    deadline: float  # by the clock of the machine
    by_itself: bool  # is each tile a map of its own? Then plateaus may be left out of some tiles, and explored in others


class Run(NamedTuple, Generic[T]):
    """What a process keeps of a run."""

    surveyor: Surveyor
    visit: Visit[T]


_runs: OrderedDict[str, Run[Any]] = OrderedDict()
_limits: dict[str, Limit] = {}
_guard = threading.Lock()


def is_elsewhere() -> bool:
    """Whether the user has told joblib to work in other processes, here or on other machines."""
    backend, _ = get_active_backend(prefer="threads")
    return not getattr(backend, "supports_sharedmem", False)


def explore_tiles(
    surveyor: Surveyor, tiles: list[Tile], n_jobs: int | None, limit: Limit, visit: Visit[T], by_itself: bool
) -> Generator[tuple[Tile, Found[T]]]:
    """Explore some tiles, and give what is found, in any order. Those that it was too late for are not among them.

    If each tile is a map ``by_itself``, plateaus are explored in those that cannot do without.
    """
    left, deaths = {tile.number: tile for tile in tiles}, 0
    order, run = Order(uuid.uuid4().hex, time.time() + limit.left if limit.finite else np.inf, by_itself), Run(surveyor, visit)
    with _at_home(order.name, run, limit), _sent(order.name, run) as problem:
        while left and not limit.expired:
            before = len(left)
            try:
                with closing(_run(order, problem, list(left.values()), n_jobs)) as results:
                    for number, found in results:
                        tile = left.pop(number)
                        if found.parts is not None or found.made is not None:
                            yield tile, found
                        if limit.expired:
                            return
            except Exception as error:
                deaths = deaths + 1 if len(left) == before else 0
                if not _is_death(error) or deaths >= PATIENCE:
                    raise


def survey_elsewhere(surveyor: Surveyor, n_jobs: int | None, limit: Limit, visit: Visit[T]) -> Iterator[T]:
    """What ``visit`` makes of all tiles, round by round: parts of tiles that are cut again come in the next one.

    As ``Surveyor.survey``; ``surveyor`` knows how many tiles there are, and those of which facets are missing.
    """
    corner = surveyor.bounds[0][0], surveyor.bounds[1][0]
    waiting = [Tile(k, tile, 0) for k, tile in enumerate(surveyor.cut(corner, limit, RAY_SHARE * limit.left))]
    surveyor.n_known = last = len(waiting)
    while waiting and not limit.expired:
        left, waiting = {tile.number: tile for tile in waiting}, []
        for tile, found in explore_tiles(surveyor, list(left.values()), n_jobs, limit, visit, by_itself=False):
            if found.parts is not None:
                waiting += [Tile(last + k, part, tile.depth + 1) for k, part in enumerate(found.parts)]
                last += len(found.parts)
                surveyor.n_known += len(found.parts) - 1
                del left[tile.number]
            if found.made is not None:
                surveyor.n_tiles += 1
                if found.whole:
                    del left[tile.number]
                yield found.made
        surveyor.undone += [tile.bounds for tile in left.values()]
    surveyor.undone += [tile.bounds for tile in waiting]


def as_found(surveyor: Surveyor, tile: Tile, facets: Facets) -> Facets:
    """The facets of a tile themselves."""
    return facets


def _run(order: Order, problem: Any, tiles: list[Tile], n_jobs: int | None) -> Generator[tuple[int, Found[Any]]]:
    """Jobs by joblib, as they come."""
    workers = Parallel(n_jobs=n_jobs, prefer="threads", batch_size=1, max_nbytes=LARGE, return_as="generator_unordered")
    results = workers(delayed(_work)(order, problem, tile) for tile in tiles)
    try:
        for result in results:  # noqa: UP028 - "yield from" would close them by itself
            yield result
    finally:
        with warnings.catch_warnings():  # of results that nobody waited for
            warnings.simplefilter("ignore")
            results.close()


def _is_death(error: Exception) -> bool:
    """Whether it is the loss of a worker, or of what was on it: classes of libraries that need not be there."""
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & {"TerminatedWorkerError", "BrokenProcessPool", "KilledWorker", "CancelledError"})


@contextmanager
def _at_home(name: str, run: Run[T], limit: Limit) -> Iterator[None]:
    """Jobs of a run that stay in this process share its surveyor and its limit."""
    with _guard:
        _runs[name], _limits[name] = run, limit
    try:
        yield
    finally:
        with _guard:
            _runs.pop(name, None)
            _limits.pop(name, None)


@contextmanager
def _sent(name: str, run: Run[T]) -> Iterator[npt.NDArray[np.uint8] | None]:
    """What workers elsewhere need to know; on a cluster all have it at once, so that none is the only one.

    One array: joblib sends that to each process once, and not with each job. Dask names data by their content, and forgets
    that name when a run ends: with the name of the run among them the next run on the same rows keeps its own.
    """
    if not is_elsewhere():
        yield None
        return
    own = run.surveyor
    told = name, own.problem, own.bounds, own.room, own.engine.betas, own.engine.plateaus, list(own.seeds), run.visit
    problem = np.frombuffer(pickle.dumps(told), dtype=np.uint8)
    backend, _ = get_active_backend(prefer="threads")
    client = getattr(backend, "client", None)
    with nullcontext() if client is None else parallel_config("dask", client=client, scatter=[problem]):
        yield problem


def _work(order: Order, problem: npt.NDArray[np.uint8] | None, tile: Tile) -> tuple[int, Found[Any]]:
    """One job: explore a tile; without plateaus (plateaus.py), if they are to be left out and nothing speaks against it."""
    begin = time.monotonic()
    run = _run_of(order.name, problem)
    limit = _limits.get(order.name) or Limit(order.deadline - time.time())
    with limit_blas():
        try:
            found = _explore(run, tile, limit)
        except (UnclosedError, EngineError):
            if not (order.by_itself and run.surveyor.engine.plateaus.any()):
                raise
            found = _explore(run._replace(surveyor=run.surveyor.thorough), tile, limit)
    return tile.number, found._replace(seconds=time.monotonic() - begin)


def _explore(run: Run[T], tile: Tile, limit: Limit) -> Found[T]:
    """What is found in a tile."""
    surveyor = run.surveyor
    try:
        limit.check()
        facets = surveyor.explore(tile.bounds, tile.depth, limit=limit)
    except Stopped:
        return Found()
    if isinstance(facets, list):
        surveyor.spare = None
        return Found(facets)
    surveyor.remember(tile.bounds, facets)
    return Found(None, run.visit(surveyor, tile, facets), facets.outcome == CLOSED)


def _run_of(name: str, problem: npt.NDArray[np.uint8] | None) -> Run[Any]:
    """A run: that of this process, or one made from what was sent."""
    with _guard:
        if name not in _runs:
            assert problem is not None
            _, known, bounds, room, betas, plateaus, seeds, visit = pickle.loads(problem.tobytes())
            surveyor = Surveyor(known, bounds, betas)
            surveyor.room, surveyor.engine.plateaus = room, plateaus
            surveyor.seeds.extend(seeds)
            _runs[name] = Run(surveyor, visit)
            while len(_runs) > KEPT:
                _runs.popitem(last=False)
        _runs.move_to_end(name)
        return _runs[name]
