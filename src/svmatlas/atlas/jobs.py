"""Jobs for joblib: threads of this process, other processes, or a cluster, as the user has chosen.

    with joblib.parallel_config(backend="dask"):
        svmatlas.explore(X, y, store="map.svmatlas")

The jobs of a run, such as tiles of a map or boxes of a search, have much in common: problems, and what tiles tell of their
neighbours. That goes to each worker once, and is kept there (``Crew``). A job has what is its own, as the bounds of a tile.
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
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, closing, contextmanager
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
from svmatlas.support.threads import asked_workers, count_workers, limit_blas, make_pool, uses_threads

S = TypeVar("S")
T = TypeVar("T")

Visit = Callable[[Surveyor, Tile, Facets], T | None]
"""What is made of the facets of a tile, where they were found; None if they are of no use. It is sent to the workers."""

KEPT = 2
"""Runs of which a worker keeps what it was told."""

LARGE = "16K"
"""Arrays of more bytes than this are sent to other processes of this machine as a file."""

PATIENCE = 3
"""So often in a row workers may die before any job is done."""


class Found(NamedTuple, Generic[T]):
    """What a job returns; nothing of it is there if it was stopped."""

    parts: list[Bounds] | None = None  # to cut the tile into, if it has too many facets
    made: T | None = None  # what ``visit`` makes of it
    whole: bool = False  # are all facets of the tile known?
    seconds: float = 0.0


class Run(NamedTuple, Generic[T]):
    """What all jobs that explore tiles have in common."""

    surveyor: Surveyor
    visit: Visit[T]
    by_itself: bool  # is each tile a map of its own? Then plateaus may be left out of some tiles, and explored in others


_known: OrderedDict[str, Any] = OrderedDict()  # what this process knows of runs, by their names
_guard = threading.Lock()


def is_elsewhere() -> bool:
    """Whether the user has told joblib to work in other processes, here or on other machines."""
    backend, _ = get_active_backend(prefer="threads")
    return not getattr(backend, "supports_sharedmem", False)


# ----------------------------------------------------------------------------------------------------------------------
# Workers


class Crew(Generic[T]):
    """The workers of joblib, which all know something. It is a context.

    Parameters
    ----------
    known : object
        What all jobs need. It is sent to each worker elsewhere once, and again if a worker died.
    n_jobs : int, optional
        Number of workers.

    """

    def __init__(self, known: T, n_jobs: int | None) -> None:
        self.known = known
        self.n_jobs = asked_workers(n_jobs)
        self.name = ""
        self.data: npt.NDArray[np.uint8] | None = None
        self.workers: Parallel | None = None
        self.open = ExitStack()

    def __enter__(self) -> Crew[T]:
        return self

    def __exit__(self, *error: object) -> None:
        self.open.close()
        self.workers = None

    def run(self, function: Callable[..., S], arguments: dict[int, tuple[Any, ...]]) -> Generator[tuple[int, S]]:
        """What a function makes of what is known and of some arguments: numbers of jobs and results, in any order."""
        left, deaths = arguments.copy(), 0
        while left:
            before = len(left)
            try:
                with closing(self._results(function, left)) as results:
                    for number, result in results:
                        del left[number]
                        yield number, result
            except Exception as error:
                deaths = deaths + 1 if len(left) == before else 0
                if not _is_death(error) or deaths >= PATIENCE:
                    raise
                self.__exit__()

    def _results(self, function: Callable[..., S], left: dict[int, tuple[Any, ...]]) -> Generator[tuple[int, S]]:
        """Jobs by joblib, as they come."""
        workers = self.workers or self._set_up()
        results = workers(delayed(_do)(self.name, self.data, function, *job) for job in list(left.items()))
        try:
            for result in results:  # noqa: UP028 - "yield from" would close them by itself
                yield result
        finally:
            with warnings.catch_warnings():  # of results that nobody waited for
                warnings.simplefilter("ignore")
                results.close()

    def _set_up(self) -> Parallel:
        """Tell workers what they need to know; on a cluster all have it at once, so that none is the only one.

        It is one array: joblib sends that to each process once, and not with each job. Dask names data by their content, and
        forgets that name when a run ends: with the name of the run among them the next run on the same rows keeps its own.
        """
        self.name = uuid.uuid4().hex
        self.open.enter_context(_at_home(self.name, self.known))
        if is_elsewhere():
            self.data = np.frombuffer(pickle.dumps((self.name, self.known)), dtype=np.uint8)
            backend, _ = get_active_backend(prefer="threads")
            client = getattr(backend, "client", None)
            if client is not None:
                self.open.enter_context(parallel_config("dask", client=client, scatter=[self.data]))
        self.workers = Parallel(
            self.n_jobs, prefer="threads", batch_size=1, max_nbytes=LARGE, mmap_mode="c", return_as="generator_unordered"
        )
        return self.open.enter_context(self.workers)


class Team(Generic[T]):
    """Workers that know some things, one by one: threads of our own, or a crew."""

    def __init__(self, things: list[T], pool: Executor | None, crew: Crew[list[T]] | None) -> None:
        self.things, self.pool, self.crew = things, pool, crew

    def each(self, function: Callable[..., S], own: Sequence[Sequence[Any]], *common: Any) -> list[S]:
        """What a function makes of each thing: arguments of its ``own``, and in ``common``. If some fail, the first error."""
        each_own = list(zip(*own, strict=True)) if own else [()] * len(self.things)
        if self.pool is not None:
            return list(self.pool.map(lambda thing, some: function(thing, *some, *common), self.things, each_own))
        assert self.crew is not None
        found = dict(self.crew.run(_try, {k: (k, function, (*some, *common)) for k, some in enumerate(each_own)}))
        return [_good(found[k]) for k in range(len(found))]


class Failed(NamedTuple):
    """A job that ended in an error: others go on, as workers that are interrupted are lost."""

    error: Exception


@contextmanager
def make_team(things: list[T], n_jobs: int | None) -> Iterator[Team[T]]:
    """So many workers of the backend of ``joblib.parallel_config``: threads of our own, if the user has set none or threads.

    If he does not say how many it is the number that is set there, one by default.
    """
    if uses_threads():
        with limit_blas(), make_pool(count_workers(n_jobs)) as pool:
            yield Team(things, pool, None)
        return
    with limit_blas(), Crew(things, n_jobs) as crew:
        yield Team(things, None, crew)


def _do(name: str, data: npt.NDArray[np.uint8] | None, function: Callable[..., S], *job: Any) -> tuple[int, S]:
    """One job, by a worker: its number, and what a function makes of what is known and of some arguments."""
    number, arguments = job
    with limit_blas():
        return number, function(_known_of(name, data), *arguments)


def _try(things: list[T], k: int, function: Callable[..., S], arguments: tuple[Any, ...]) -> S | Failed:
    """What a function makes of one of some things, or the error."""
    try:
        return function(things[k], *arguments)
    except Exception as error:
        return Failed(error)


def _good(result: S | Failed) -> S:
    if isinstance(result, Failed):
        raise result.error
    return result


def _known_of(name: str, data: npt.NDArray[np.uint8] | None) -> Any:
    """What is known of a run: that of this process, or what was sent."""
    with _guard:
        if name not in _known:
            assert data is not None
            _, _known[name] = pickle.loads(data.tobytes())
            while len(_known) > KEPT:
                _known.popitem(last=False)
        _known.move_to_end(name)
        return _known[name]


@contextmanager
def _at_home(name: str, known: Any) -> Iterator[None]:
    """Jobs of a run that stay in this process know it."""
    with _guard:
        _known[name] = known
    try:
        yield
    finally:
        with _guard:
            _known.pop(name, None)


def _is_death(error: Exception) -> bool:
    """Whether it is the loss of a worker, or of what was on it: classes of libraries that need not be there."""
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & {"TerminatedWorkerError", "BrokenProcessPool", "KilledWorker", "CancelledError"})


# ----------------------------------------------------------------------------------------------------------------------
# Tiles


def explore_tiles(
    surveyor: Surveyor, tiles: list[Tile], n_jobs: int | None, limit: Limit, visit: Visit[T], by_itself: bool
) -> Generator[tuple[Tile, Found[T]]]:
    """Explore some tiles, and give what is found, in any order. Those that it was too late for are not among them.

    If each tile is a map ``by_itself``, plateaus are explored in those that cannot do without.
    """
    own, jobs = {tile.number: tile for tile in tiles}, {tile.number: (tile, limit) for tile in tiles}
    with Crew(Run(surveyor, visit, by_itself), n_jobs) as crew, closing(crew.run(_work, jobs)) as results:
        for number, found in results:
            if found.parts is not None or found.made is not None:
                yield own[number], found
            if limit.expired:
                return


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


def as_found(*found: Any) -> Facets:
    """The facets of a tile themselves: the last of what a visitor is shown."""
    facets: Facets = found[-1]
    return facets


def _work(run: Run[T], tile: Tile, limit: Limit) -> Found[T]:
    """One job: explore a tile; without plateaus (plateaus.py), if they are to be left out and nothing speaks against it."""
    begin = time.monotonic()
    try:
        found = _explore(run, tile, limit)
    except (UnclosedError, EngineError):
        if not (run.by_itself and run.surveyor.engine.plateaus.any()):
            raise
        found = _explore(run._replace(surveyor=run.surveyor.thorough), tile, limit)
    return found._replace(seconds=time.monotonic() - begin)


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
