"""A map on disk: queries that read the tiles they need."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.atlas.atlas import Atlas, check_costs
from svmatlas.atlas.budget import available_memory
from svmatlas.atlas.checker import certify_map
from svmatlas.atlas.checks import validate_store
from svmatlas.atlas.facets import Facet, Partition
from svmatlas.atlas.single import Cuts, find_cuts, unite_tile
from svmatlas.atlas.stitch import ON_CUT, Part, Ring, stitch
from svmatlas.atlas.survey import Surveyor
from svmatlas.atlas.validate import Report
from svmatlas.data.columns import Columns
from svmatlas.data.problem import Bounds, Problem, make_region
from svmatlas.engine.canonical import unite
from svmatlas.engine.joining import Joiner
from svmatlas.engine.names import make_words
from svmatlas.engine.plateaus import UnclosedError
from svmatlas.engine.tile import Engine, EngineError, Facets
from svmatlas.engine.upright import set_upright
from svmatlas.engine.workspace import Region, States
from svmatlas.store.index import Index, OnCuts, make_index, read_index
from svmatlas.store.manifest import INDEX, PROBLEM, Manifest, Progress, progress_of, read_manifest
from svmatlas.store.problems import read_problem
from svmatlas.store.tiles import Packed, Tile, bounds_of, left_out_of, on_cuts, read_tile, unpack
from svmatlas.support.arrays import FileError
from svmatlas.support.messages import positive_of
from svmatlas.support.threads import make_pool

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from svmatlas.models.svc import AsymmetricSVC

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]

CACHE = 2**28
"""Bytes of tiles that an open map keeps, by default."""

NOT_COUNTED = {"n_refined": 0, "n_zero": 0, "n_exact": 0}
"""Files of tiles do not say how often doubles did not decide."""

JOINED = 250
"""Bytes of memory for each piece while tiles are joined: assumed low, not measured, so that none is refused that would fit."""

AT_ONCE = 512
"""Costs that are asked of a tile at once: some (512, N) arrays."""

OVERHEAD = 2
"""Bytes of a tile in the cache for each byte of its arrays: the tree of its middles, and neighbours."""


class _Held(NamedTuple):
    """A tile in the cache."""

    atlas: Atlas
    cuts: Cuts
    n_bytes: int


class AtlasStore:
    """A map on disk, made by ``explore(..., store=...)``; opened by :func:`svmatlas.open`.

    It answers the queries of an :class:`Atlas`, and reads the tiles that a query needs. Facets have other numbers than in an
    atlas, and no layers; they are the same facets.

    Attributes
    ----------
    path : Path
        The folder.
    region : ((lo, hi), (lo, hi))
        Bounds for C+ and C-.
    complete : bool
        Whether all tiles are done. If not, queries at costs in tiles that are not done are a ValueError, numbers of facets
        are for now, and ``explore`` with the same arguments goes on.
    n_facets, n_edges, n_vertices, n_pieces, n_tiles : int
        Sizes of the map, as those of an atlas; number of tiles that are done.
    classes_ : ndarray of shape (2,)
        Labels; ``classes_[1]`` is the positive class, with cost C+.

    """

    def __init__(self, manifest: Manifest, problem: Problem, start: States, cache_bytes: int = CACHE) -> None:
        self._manifest = manifest
        self._problem = problem
        self._start = start
        self._cache_bytes = cache_bytes
        self._held: OrderedDict[int, _Held] = OrderedDict()
        self._lock = threading.RLock()
        self.path = manifest.folder
        self.region: Bounds = bounds_of(manifest.head["region"])
        self.complete = manifest.complete
        self.classes_ = problem.classes

    # Sizes

    @property
    def columns(self) -> Columns:
        """Names and scaling of the features."""
        return self._problem.columns

    @property
    def n_tiles(self) -> int:
        """Number of tiles that are done."""
        return len(self._manifest.done)

    @property
    def n_pieces(self) -> int:
        """Number of facets that were explored, ties included; those on cuts count in each tile."""
        return sum(tile.summary.n_pieces for tile in self._manifest.done.values())

    @property
    def n_facets(self) -> int:
        """Number of facets."""
        return self._index.n_facets

    @property
    def n_edges(self) -> int:
        """Number of edges, of a complete map."""
        return sum(tile.summary.n_ends for tile in self._manifest.done.values()) // 2

    @property
    def n_vertices(self) -> int:
        """Number of vertices, of a complete map."""
        corners = np.bitwise_or.reduce([tile.summary.corners for tile in self._manifest.done.values()] or [0])
        return sum(tile.summary.n_vertices for tile in self._manifest.done.values()) + int(corners).bit_count()

    def __repr__(self) -> str:
        state = "complete" if self.complete else "partial"
        return (
            f"AtlasStore({self.path}, {state}: {self.n_facets} facets in {self.n_tiles} tiles; {positive_of(self.classes_)})"
        )

    def progress(self) -> Progress:
        """How far the exploration is now: tiles, facets, share of the region, rate, time left."""
        return progress_of(read_manifest(self.path))

    # Facets

    def partition(self, facet: int) -> Partition:
        """Row numbers on the margin, inside and outside it, in a facet. Rows of weight zero are in none."""
        t, part = self._parts(facet)[0]
        return self._tile(t).atlas.partition(part)

    def polygon(self, facet: int) -> Floats:
        """Corners of a facet in order, homogeneous costs (n, 3)."""
        return self._problem.to_user(self._ring(facet).corners)

    def facet(self, facet: int) -> Facet:
        """Everything about one facet; see :class:`Facet`. Its layer is -1: a store has none."""
        parts, ring = self._parts(facet), self._ring(facet)
        first, last = (self._tile(t).atlas.facet(part) for t, part in (parts[0], parts[-1]))
        whole = all(not self._tile(t).atlas._canonical.is_cut[part] for t, part in parts)
        if whole and len(parts) > 1:
            pieces = [self._tile(t).atlas._split_states(self._tile(t).atlas._canonical.piece[[part]])[0] for t, part in parts]
            whole = all(np.array_equal(pieces[0], piece) for piece in pieces)
        events = {name: event for t, part in parts for name, event in self._events(t, part)}
        return Facet(
            int(facet), -1, first.partition, self._problem.to_user(ring.corners), [events[name] for name in ring.names],
            np.array([max(name, -1) for name in ring.names], dtype=np.intp), last.alpha if whole else None, first.coef,
            first.intercept,
        )  # fmt: skip

    def _events(self, t: int, part: int) -> Iterator[tuple[int, npt.NDArray[np.int32]]]:
        """The events of the edges of a facet of a tile, by the names of the edges."""
        held = self._tile(t)
        atlas, mesh = held.atlas, held.atlas._mesh
        edges = mesh.facet_edges[mesh.facet_at[part] : mesh.facet_at[part + 1]]
        for name, e in zip(self._names(t, part), edges.tolist(), strict=True):
            event = atlas.edge_events[atlas.edge_at[e] : atlas.edge_at[e + 1]]
            yield name, event if name >= 0 else np.array([[-1, -1 - name]], dtype=np.int32)

    def _names(self, t: int, part: int) -> list[int]:
        """The edges of a facet of a tile, by the facets behind them, or the sides of the region; ON_CUT for others."""
        held = self._tile(t)
        mesh = held.atlas._mesh
        edges = mesh.facet_edges[mesh.facet_at[part] : mesh.facet_at[part + 1]]
        beside = mesh.edge_facets[edges]
        behind = np.where(beside[:, 0] == part, beside[:, 1], beside[:, 0])
        names = np.where(behind >= 0, self._index.numbers(t, np.maximum(behind, 0)), ON_CUT)
        side = (behind < 0) & ~held.cuts.edge[edges]
        names[side] = -1 - held.cuts.name[-1 - mesh.edge_code[edges[side]]]
        return [int(name) for name in names]

    def _ring(self, facet: int) -> Ring:
        """The edges and corners of a facet, in internal costs."""
        parts = []
        for t, part in self._parts(facet):
            held = self._tile(t)
            mesh = held.atlas._mesh
            vertices = mesh.facet_vertices[mesh.facet_at[part] : mesh.facet_at[part + 1]]
            corners = mesh.vertices[vertices]
            far = np.where(held.cuts.corner[vertices], np.argmax(corners, axis=1), -1)
            parts.append(Part(self._names(t, part), corners, far.tolist()))
        ring = stitch(parts)
        if ring is None:
            raise ValueError(
                f"facet {facet} reaches into tiles that are not done"
                if not self.complete
                else f"the parts of facet {facet} do not make a polygon: validate the store"
            )
        return ring

    def _parts(self, facet: int) -> list[tuple[int, int]]:
        n = self.n_facets
        if not 0 <= facet < n:
            raise ValueError(f"facet {facet} does not exist: the map has facets 0 to {n - 1}")
        return self._index.parts(int(facet))

    # Solutions

    def locate(self, C_pos: Any, C_neg: Any) -> Any:
        """Number of the facet at some costs; see :meth:`Atlas.locate`."""
        (p, q), scalar = self._check_costs(C_pos, C_neg)
        facets = np.full(p.size, self.n_facets)
        for a, b in self._sides_of_cuts(p, q):
            here = self._tiles_at(a, b)
            new = facets == self.n_facets if a is p and b is q else here != self._tiles_at(p, q)
            for t, which in self._by_tile(here, np.flatnonzero(new), p, q):
                found = np.atleast_1d(self._tile(t).atlas.locate(p[which], q[which]))
                facets[which] = np.minimum(facets[which], self._index.numbers(t, found))
        return int(facets[0]) if scalar else facets

    def alpha(self, C_pos: Any, C_neg: Any) -> Floats:
        """Dual variables of the user's rows; see :meth:`Atlas.alpha`."""
        return self._ask(lambda atlas, p, q: atlas.alpha(p, q), C_pos, C_neg)

    def coef(self, C_pos: Any, C_neg: Any) -> Floats:
        """Weights of the features, for a linear kernel; see :meth:`Atlas.coef`."""
        return self._ask(lambda atlas, p, q: atlas.coef(p, q), C_pos, C_neg)

    def intercept(self, C_pos: Any, C_neg: Any) -> Any:
        """Intercept; see :meth:`Atlas.intercept`."""
        values = self._ask(lambda atlas, p, q: atlas.intercept(p, q), C_pos, C_neg)
        return float(values) if np.ndim(values) == 0 else values

    def decision_function(self, X: Any, C_pos: Any, C_neg: Any) -> Floats:
        """Decision values of rows; see :meth:`Atlas.decision_function`."""
        return self._ask(lambda atlas, p, q: atlas.decision_function(X, p, q), C_pos, C_neg)

    def estimator(self, C_pos: float, C_neg: float) -> AsymmetricSVC | Pipeline:
        """Make a fitted classifier for a pair of finite costs; see :meth:`Atlas.estimator`."""
        (p, q), _ = self._check_costs(C_pos, C_neg)
        ((t, _),) = self._by_tile(self._tiles_at(p, q), np.arange(1), p, q)
        return self._tile(t).atlas.estimator(C_pos, C_neg)

    def _ask(self, query: Callable[[Atlas, Floats, Floats], Floats], C_pos: Any, C_neg: Any) -> Floats:
        """What the tiles answer at some costs."""
        (p, q), scalar = self._check_costs(C_pos, C_neg)
        values: Floats | None = None
        for t, which in self._by_tile(self._tiles_at(p, q), np.arange(p.size), p, q):
            found = query(self._tile(t).atlas, p[which], q[which])
            if values is None:
                values = np.empty((p.size, *found.shape[1:]))
            values[which] = found
        if values is None:
            values = query(self._tile(0).atlas, p, q)  # of no costs
        return values[0] if scalar else values

    def _check_costs(self, C_pos: Any, C_neg: Any) -> tuple[tuple[Floats, Floats], bool]:
        if not self._manifest.done:
            raise ValueError("no tile of this map is done")
        return check_costs(self.region, C_pos, C_neg)

    def _tiles_at(self, p: Floats, q: Floats) -> Ints:
        """Numbers in the manifest of the tiles at some costs; on a cut, that of the larger costs."""
        manifest = self._manifest
        assert manifest.cuts is not None
        place = [np.searchsorted(cuts[1:-1], cost, side="right") for cuts, cost in zip(manifest.cuts, (p, q), strict=True)]
        number: Ints = place[0] * (len(manifest.cuts[1]) - 1) + place[1]
        waiting = set(np.unique(number).tolist()) & manifest.parts.keys()
        while waiting:
            for whole in waiting:
                held = np.flatnonzero(number == whole)
                for part in manifest.parts[whole]:
                    (a, _), (c, _) = manifest.tiles[part].bounds
                    number[held[(p[held] >= a) & (q[held] >= c)]] = part
            waiting = set(np.unique(number).tolist()) & manifest.parts.keys()
        return number

    def _sides_of_cuts(self, p: Floats, q: Floats) -> Iterator[tuple[Floats, Floats]]:
        """The costs, and costs just below them: on a cut these are in other tiles."""
        below = [
            np.where(np.isinf(cost), cost, np.maximum(np.nextafter(cost, 0.0), lo))
            for cost, (lo, _) in zip((p, q), self.region, strict=True)
        ]
        yield p, q
        yield below[0], q
        yield p, below[1]
        yield below[0], below[1]

    def _by_tile(self, number: Ints, which: Ints, p: Floats, q: Floats) -> Iterator[tuple[int, Ints]]:
        """Tiles, by their numbers in the index, and which of some costs are in each."""
        order = which[np.argsort(number[which], kind="stable")]
        for group in np.split(order, np.flatnonzero(np.diff(number[order])) + 1):
            if group.size == 0:
                continue
            k = int(np.searchsorted(self._index.tile, number[group[0]]))
            if k == self._index.tile.size or self._index.tile[k] != number[group[0]]:
                a, b = p[group[0]], q[group[0]]
                raise ValueError(f"costs ({a:g}, {b:g}) are in a tile of this partial map that is not done")
            for first in range(0, group.size, AT_ONCE):
                yield k, group[first : first + AT_ONCE]

    # Tiles

    @cached_property
    def _words(self) -> npt.NDArray[np.uint64]:
        return make_words(self._problem.n_points, np.random.default_rng(self._problem.seed))

    @cached_property
    def _engine(self) -> Engine:
        return Engine(self._problem.data, self._words)

    @cached_property
    def _region(self) -> Region:
        return make_region(self.region, self._problem.cost_exponent)

    @cached_property
    def _index(self) -> Index:
        """The numbers of facets: from their file if the store is finished, else of the tiles that are done."""
        if self._manifest.finished:
            index = read_index(self.path / INDEX, self._manifest.name)
            if sorted(self._manifest.done) != index.tile.tolist():
                raise FileError(f"{self.path / INDEX} does not belong to the manifest")
            return index
        return make_index([self._on_cuts(number) for number in sorted(self._manifest.done)])

    def _on_cuts(self, number: int) -> OnCuts:
        packed = self._read(self._manifest.tiles[number])
        return OnCuts(number, packed.summary.n_facets, *on_cuts(packed))

    def _read(self, tile: Tile) -> Packed:
        """The file of a tile, checked."""
        path = self._manifest.tile_path(tile.number)
        try:
            packed, digest = read_tile(path, self._manifest.name, tile)
        except FileNotFoundError:
            raise FileError(f"{path} is missing: explore with the same arguments to have it made again") from None
        if digest != self._manifest.done[tile.number].digest:
            raise FileError(f"{path} is not the file of the manifest: explore with the same arguments to have it made again")
        return packed

    def _facets(self, tile: Tile) -> Facets:
        """The pieces of a tile."""
        return unpack(self._read(tile).arrays, self._words)

    def _tile(self, t: int) -> _Held:
        """The map of a tile by its number in the index, from the cache if it is there."""
        with self._lock:
            if t in self._held:
                self._held.move_to_end(t)
                return self._held[t]
            self._held[t] = held = self._load(t)
            while len(self._held) > 1 and sum(other.n_bytes for other in self._held.values()) > self._cache_bytes:
                self._held.popitem(last=False)
            return held

    def _load(self, t: int) -> _Held:
        """The map of a tile, from its file. Several threads may do so at a time."""
        tile = self._manifest.tiles[int(self._index.tile[t])]
        facets = self._facets(tile)
        with make_pool(1) as pool:
            canonical = unite_tile(self._engine, self._problem, self._region, tile.bounds, facets, pool)
        if canonical.mesh.facet_layer.size != self._manifest.done[tile.number].summary.n_facets:
            raise FileError(f"{self._manifest.tile_path(tile.number)} has other facets than when it was made: explore again")
        set_upright(canonical.mesh, tile.bounds, self._problem.cost_exponent)
        atlas = Atlas(self._problem, tile.bounds, canonical, True, NOT_COUNTED)
        n_bytes = OVERHEAD * sum(array.nbytes for array in (*canonical.mesh, *canonical.split.mesh))
        return _Held(atlas, find_cuts(self._problem, self._region, tile.bounds, canonical.mesh), n_bytes)

    def tiles(self) -> Iterator[Atlas]:
        """The tiles that are done, each as an atlas of its own box of costs, as :func:`svmatlas.tiles` gives them."""
        for t in range(self._index.tile.size):
            yield self._tile(t).atlas

    # All of it

    def validate(
        self,
        n_costs: int = 1000,
        random_state: Any = 0,
        progress: bool = False,
        n_jobs: int | None = None,
        time_budget: float | None = None,
    ) -> Report:
        """Check the whole map tile by tile, and that the tiles fit together; see :meth:`Atlas.validate`.

        Parameters
        ----------
        n_costs : int, default=1000
            Number of random costs at which the duality gap is measured, over all tiles; one in each at least.
        random_state : int, RandomState or None, default=0
            Seed of these costs.
        progress : bool, default=False
            Show a progress bar (needs tqdm).
        n_jobs : int, optional
            Number of threads; -1 for all cores. Default: 1.
        time_budget : float, optional
            Stop after about this many seconds. The report is then, as after Ctrl-C, of the tiles that were checked, and not
            ``ok``: its first fault says how many these were.

        """
        return validate_store(self, n_costs, random_state, progress, n_jobs, time_budget)

    certify = certify_map

    def atlas(self, n_jobs: int | None = None) -> Atlas:
        """Join the tiles of a complete store into an atlas in memory: the one that ``explore`` gives without a store.

        Parameters
        ----------
        n_jobs : int, optional
            Number of threads; -1 for all cores. Default: 1.

        Raises
        ------
        MemoryError
            If its pieces surely need more memory than there is. Stores are asked, validated and drawn without it.

        """
        if not self.complete:
            raise ValueError("a partial store cannot be joined: explore with the same arguments to finish it")
        needed, available = JOINED * self.n_pieces, available_memory()
        if needed > available:
            raise MemoryError(
                f"{self.path} has {self.n_pieces} pieces of facets: joined they need {needed / 2**30:.3g} GiB, and "
                f"{available / 2**30:.3g} GiB are available. Ask, validate or draw the store itself, or explore a part of it"
            )
        from joblib import effective_n_jobs

        jobs = 1 if n_jobs is None else int(effective_n_jobs(n_jobs))
        surveyor = Surveyor(self._problem, self.region, frugal=True)
        surveyor.leave_out_plateaus()
        if surveyor.engine.plateaus.any():
            with suppress(UnclosedError, EngineError):
                return self._join(surveyor, jobs)
        return self._join(surveyor.thorough, jobs)

    def _join(self, surveyor: Surveyor, n_jobs: int) -> Atlas:
        """The tiles as one atlas. Those in which other plateaus are left out than the surveyor would are explored again."""
        joiner = Joiner(surveyor.engine, self._region, self._start)
        for number in self._index.tile.tolist():
            tile = self._manifest.tiles[number]
            packed = self._read(tile)
            if np.array_equal(left_out_of(packed), surveyor.engine.plateaus):
                joiner.add(unpack(packed.arrays, self._words))
                continue
            for facets in surveyor.explore_parts(tile.bounds, tile.depth):
                joiner.add(facets)
        with make_pool(n_jobs) as pool:
            canonical = unite(joiner, pool)
        set_upright(canonical.mesh, self.region, self._problem.cost_exponent)
        return Atlas(self._problem, self.region, canonical, True, NOT_COUNTED)


def open_store(path: str | os.PathLike[str], *, cache_bytes: int = CACHE) -> AtlasStore:
    """Open a map on disk, that ``explore(..., store=path)`` has made or makes.

    Parameters
    ----------
    path : str or path-like
        The folder.
    cache_bytes : int, default=2**28
        About how many bytes of tiles are kept in memory.

    Returns
    -------
    AtlasStore
        What is done of it now.

    Raises
    ------
    FileError
        If the folder is not a store, or a file of it is missing, not whole, altered, or of another store. Files of tiles are
        checked when they are read; ``validate`` reads all of them.

    """
    manifest = read_manifest(Path(path))
    problem, start = read_problem(manifest.folder / PROBLEM, manifest.name)
    return AtlasStore(manifest, problem, start, cache_bytes)
