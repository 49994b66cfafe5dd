"""Explore into a store, and go on with one.

Every tile that is done is a file. A process that ends, however it ends, loses no more than the tiles in work.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.atlas.jobs import Found, Visit, explore_tiles
from svmatlas.atlas.opened import AtlasStore
from svmatlas.atlas.single import count, find_cuts, keys_of, unite_tile
from svmatlas.atlas.survey import Surveyor
from svmatlas.data.problem import Bounds, Problem
from svmatlas.engine.ahead import get_help
from svmatlas.engine.clipping import CLOSED
from svmatlas.engine.tile import Facets
from svmatlas.store.index import OnCuts, make_index, write_index
from svmatlas.store.manifest import (
    FORMAT,
    INDEX,
    LOCK,
    MANIFEST,
    PROBLEM,
    TILES,
    Manifest,
    is_begun,
    locked,
    progress_of,
    read_manifest,
)
from svmatlas.store.problems import identity, read_problem, write_problem
from svmatlas.store.tiles import Packed, Summary, Tile, on_cuts, pack, plain, read_tile, write_tile
from svmatlas.support.arrays import FileError
from svmatlas.support.progress import make_bar, move_to
from svmatlas.support.stopping import Limit, Stopped, check_budget, stoppable
from svmatlas.support.threads import make_pool
from svmatlas.support.writing import naming, remove_drafts, sync_folder
from svmatlas.version import __version__

States = npt.NDArray[np.int8]


REFRESH = 0.5
"""Seconds from one look at the whole manifest to the next, to show how far it is."""


class Task(NamedTuple):
    """What was asked for."""

    problem: Problem
    bounds: Bounds
    start: tuple[float, float] | None
    any_seed: bool  # was no random_state given?


def explore_into(
    path: str | os.PathLike[str],
    task: Task,
    first_state: Callable[[Limit], States],
    n_jobs: int | None,
    max_facets: float,
    limit: Limit,
    progress: bool,
) -> AtlasStore:
    """Explore into a store, from its beginning or from where it is, until all is done or it is time to stop."""
    folder = Path(path)
    _make_folder(folder)
    with locked(folder):
        manifest = _take_up(folder, task) if is_begun(folder) else _begin(folder, task, first_state, limit)
        return _go_on(manifest, n_jobs, max_facets, limit, progress)


def resume(
    path: str | os.PathLike[str],
    *,
    max_facets: int | None = None,
    time_budget: float | None = None,
    progress: bool = False,
    n_jobs: int | None = None,
) -> AtlasStore:
    """Go on with the exploration of a map on disk. Its data are in the store.

    Parameters
    ----------
    path : str or path-like
        The folder, as it was given to ``explore(..., store=path)``.
    max_facets, time_budget, progress, n_jobs
        As in :func:`svmatlas.explore`; facets that the store has already count.

    Returns
    -------
    AtlasStore
        The open store.

    Raises
    ------
    FileError
        If the folder is not a store, was made by another version, or is in use.

    """
    check_budget(time_budget)
    get_help(explore=True)
    folder = Path(path)
    read_manifest(folder)
    with stoppable(time_budget) as limit:
        with locked(folder):
            store = _go_on(_take_up(folder, None), n_jobs, np.inf if max_facets is None else max_facets, limit, progress)
        limit.answered = True
    return store


# ----------------------------------------------------------------------------------------------------------------------
# The beginning


def _make_folder(folder: Path) -> None:
    """Make the folder of a new store; FileError if it is there and something else."""
    if folder.is_dir() and not is_begun(folder):
        others = {entry.name for entry in folder.iterdir()} - {MANIFEST, PROBLEM, TILES, LOCK}
        if any(not name.startswith(".") for name in others):
            raise FileError(f"{folder} is not a store of a map, and not empty: choose another folder")
    with naming(folder):
        (folder / TILES).mkdir(parents=True, exist_ok=True)


def _begin(folder: Path, task: Task, first_state: Callable[[Limit], States], limit: Limit) -> Manifest:
    """A new store: the manifest comes last, so that without it there is none."""
    name, problem = uuid.uuid4().hex, task.problem
    asked = identity(problem)
    write_problem(folder / PROBLEM, name, problem, first_state(limit))
    manifest = Manifest(folder)
    manifest.path.unlink(missing_ok=True)
    manifest.begin(
        {
            "store": name, "format": FORMAT, "package": __version__, "region": plain(task.bounds), "start": task.start,
            "unit": float(np.ldexp(1.0, int(np.clip(-problem.cost_exponent, -1000, 1000)))), "asked": asked,
        }
    )  # fmt: skip
    return manifest


def _take_up(folder: Path, task: Task | None) -> Manifest:
    """The manifest of a store, if it is that of this task and this version; files of tiles are verified."""
    manifest = read_manifest(folder)
    head = manifest.head
    if head["package"] != __version__:
        raise FileError(f"{folder} was made by svmatlas {head['package']}, this is {__version__}: it cannot go on with it")
    if task is not None:
        _check_task(folder, head, task)
    os.truncate(manifest.path, manifest.length)
    remove_drafts(folder / TILES)
    for tile in manifest.tiles:
        _verify(manifest, tile)
    return manifest


def _check_task(folder: Path, head: dict[str, Any], task: Task) -> None:
    """FileError if something else was asked for before."""
    asked = identity(task.problem) | {"region": plain(task.bounds), "start": None if task.start is None else list(task.start)}
    before = head["asked"] | {"region": head["region"], "start": head["start"]}
    other = [name for name in asked if asked[name] != before[name] and not (name == "random_state" and task.any_seed)]
    if other:
        raise FileError(f"{folder} is the store of another map: {', '.join(other)} differ. Choose another folder")


def _verify(manifest: Manifest, tile: Tile) -> None:
    """Take note of a tile whose file is there and whole, and of one whose file is not."""
    number, path = tile.number, manifest.tile_path(tile.number)
    if number in manifest.parts:
        return
    try:
        packed, digest = read_tile(path, manifest.name, tile)
    except FileNotFoundError:
        if number in manifest.done:
            manifest.add({"lost": number})
        return
    except FileError:
        path.unlink()
        if number in manifest.done:
            manifest.add({"lost": number})
        return
    if number in manifest.done and manifest.done[number].digest != digest:
        manifest.add({"lost": number})
    if number not in manifest.done:
        manifest.take_done(tile, digest, packed.summary, path.stat().st_size, 0.0)


# ----------------------------------------------------------------------------------------------------------------------
# The run


class Written(NamedTuple):
    """What a job tells of a tile: that its file is written, or what is to be written."""

    digest: str
    summary: Summary
    n_bytes: int
    packed: Packed | None


def write_found(folder: str, store: str, surveyor: Surveyor, tile: Tile, facets: Facets) -> Written | None:
    """Write the facets of a tile, where the folder of the store can be seen; None if they are not all of them."""
    if facets.outcome != CLOSED:
        return None
    packed = pack_tile(surveyor, tile, facets)
    if not _is_seen(folder, store):
        return Written("", packed.summary, 0, packed)
    return Written(*write_tile(Manifest(Path(folder)).tile_path(tile.number), store, tile, packed), None)


def pack_tile(surveyor: Surveyor, tile: Tile, facets: Facets) -> Packed:
    """A tile as it lies on disk."""
    problem, region = surveyor.problem, surveyor.region
    with make_pool(1) as pool:
        canonical = unite_tile(surveyor.engine, problem, region, tile.bounds, facets, pool)
    cuts = find_cuts(problem, region, tile.bounds, canonical.mesh)
    summary = count(canonical.mesh, cuts, canonical.split.kind.size)
    return pack(facets, surveyor.engine.plateaus, summary, cuts.facets, keys_of(canonical, cuts.facets, surveyor.words))


@lru_cache(maxsize=4)
def _is_seen(folder: str, store: str) -> bool:
    """Whether the folder of a store can be seen from here, and is that of this store."""
    try:
        return read_manifest(Path(folder)).name == store
    except (OSError, FileError):
        return False


def _go_on(manifest: Manifest, n_jobs: int | None, max_facets: float, limit: Limit, progress: bool) -> AtlasStore:
    """Explore what is left."""
    problem, start = read_problem(manifest.folder / PROBLEM, manifest.name)
    store = AtlasStore(manifest, problem, start)
    if not manifest.finished:
        manifest.add({"begun": round(time.time(), 3)})
        with _bar(progress, manifest) as show:
            _explore_rest(manifest, Surveyor(problem, store.region, frugal=True), n_jobs, max_facets, limit, show)
        if manifest.complete:
            _finish(manifest)  # the memory of the surveyor is free now
    return AtlasStore(manifest, problem, start)


def _explore_rest(
    manifest: Manifest,
    surveyor: Surveyor,
    n_jobs: int | None,
    max_facets: float,
    limit: Limit,
    show: Callable[[], None],
) -> None:
    """Cut the region, if that was not done, and explore what is left of its tiles."""
    surveyor.leave_out_plateaus()
    if manifest.cuts is None:
        manifest.take_cuts(_find_cuts(surveyor, limit))
    for _ in _explore(manifest, surveyor, n_jobs, max_facets, limit):
        show()


def _find_cuts(surveyor: Surveyor, limit: Limit) -> tuple[list[float], list[float]]:
    """The cuts of both costs; Stopped if there is no time to find them all."""
    rows, columns = surveyor.grid(limit)
    if not surveyor.all_cut:
        raise Stopped
    return [rows[0][0], *(hi for _, hi in rows)], [columns[0][0], *(hi for _, hi in columns)]


def _explore(manifest: Manifest, surveyor: Surveyor, n_jobs: int | None, max_facets: float, limit: Limit) -> Iterator[None]:
    """Do what is left, round by round: parts of tiles that are cut again come in the next one."""
    write: Visit[Written] = partial(write_found, str(manifest.folder.absolute()), manifest.name)
    found = sum(tile.summary.n_pieces for tile in manifest.done.values())
    waiting = manifest.left
    while waiting and not limit.expired and found < max_facets:
        parts: list[Tile] = []
        with closing(explore_tiles(surveyor, waiting, n_jobs, limit, write, by_itself=True)) as results:
            for tile, result in results:
                parts += _take(manifest, tile, result)
                yield
                if tile.number in manifest.done:
                    found += manifest.done[tile.number].summary.n_pieces
                    if found >= max_facets:
                        break
        waiting = parts


def _take(manifest: Manifest, tile: Tile, found: Found[Written]) -> list[Tile]:
    """Take note of what a job found; returns the parts that a tile was cut into."""
    if found.parts is not None:
        return manifest.take_parts(tile, found.parts)
    written = found.made
    assert written is not None
    told = written[:3]
    if written.packed is not None:
        told = write_tile(manifest.tile_path(tile.number), manifest.name, tile, written.packed)
    manifest.take_done(tile, *told, found.seconds)
    return []


def _finish(manifest: Manifest) -> None:
    """Write the numbers of all facets."""
    tiles = []
    for number in sorted(manifest.done):
        packed, _ = read_tile(manifest.tile_path(number), manifest.name, manifest.tiles[number])
        tiles.append(OnCuts(number, packed.summary.n_facets, *on_cuts(packed)))
    write_index(manifest.folder / INDEX, manifest.name, make_index(tiles))
    manifest.add({"finished": round(time.time(), 3)})
    sync_folder(manifest.folder)


@contextmanager
def _bar(progress: bool, manifest: Manifest) -> Iterator[Callable[[], None]]:
    """A function that shows how far a store is, after each tile."""
    if not progress:
        yield lambda: None
        return
    with make_bar(" tiles", 1) as bar:
        bar.initial = bar.n = len(manifest.done)
        shown = 0.0

        def show() -> None:
            nonlocal shown
            if time.monotonic() - shown < REFRESH and not manifest.complete:
                return
            shown, now = time.monotonic(), progress_of(manifest)
            bar.set_postfix_str(f"{now.n_pieces} facets, {100 * now.share:.1f} % of the region", refresh=False)
            move_to(bar, now.n_done, now.n_tiles)

        yield show
