"""The public function of the checker, and its report."""

from __future__ import annotations

import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from svmatlas.proof.cover import Box, find_fault
from svmatlas.proof.gaps import Prover, facets_of
from svmatlas.proof.partitions import Partitions, check_events
from svmatlas.proof.reading import Map, ProofError, read_map
from svmatlas.proof.rows import make_points
from svmatlas.proof.selection import SelectionCertificate, certify_selection, is_selection
from svmatlas.proof.single import Subject
from svmatlas.proof.stretches import SLIP, Cuts, Stretches, find_missing
from svmatlas.proof.tiling import Tiling, check_tiling, make_region

GAP = 1e-9
"""Largest relative duality gap of a map that is certified: some digits more than anyone reads of a model, and some less than
rounding leaves where columns differ in scale by 10^7."""

MOVED = 1e-6
"""Largest distance of a score or a dual variable at a corner from where the partition has it, relative to its terms. Corners
are those of data whose ties are split by 1e-13, times the condition of the rows; the gap grows with the square of it."""

WORST = 5
"""Facets above these that are named."""


@dataclass(frozen=True)
class Certificate:
    """What :func:`svmatlas.certify` found.

    Attributes
    ----------
    ok : bool
        Whether all of it is proven: nothing is at fault, and the gap is at most 1e-9.
    gap : float
        Largest relative duality gap that the models of the map can have, at any costs of the region up to ``largest_costs``.
    facet, costs : int and tuple of float
        Where that is: the facet, and the costs of its corner. The facet is -1 if there is none.
    tiles : bool
        Whether the facets tile the region exactly, up to ``largest_costs``: no hole, no overlap, in exact arithmetic.
    largest_costs : float
        Costs C+ + C- up to which all of this is proven; infinite if it is for the whole region.
    n_beyond : int
        Facets that reach beyond them, and are proven up to there.
    moved : float
        Largest distance of a score or a dual variable at a corner from where the partition has it, relative to its terms.
    complete : bool
        Whether the map is complete. If not, the explored facets are checked, and the region is not covered.
    data : {"given", "stored"}
        Which rows the map was checked against.
    n_facets, n_pieces : int
        Sizes of the map.
    faults : list of str
        What is wrong, by place.
    tile : int
        Of a store: the tile, as :meth:`AtlasStore.tiles` counts them, whose facet ``facet`` is; -1 if it is not of a store.

    """

    ok: bool
    gap: float
    facet: int
    costs: tuple[float, float]
    tiles: bool
    largest_costs: float
    n_beyond: int
    moved: float
    complete: bool
    data: str
    n_facets: int
    n_pieces: int
    faults: list[str] = field(default_factory=list)
    tile: int = -1

    def __str__(self) -> str:
        covers = "tile the region exactly" if self.complete else "are a part of the region"
        place = "" if self.tile < 0 else f" of tile {self.tile}"
        limit = "" if np.isinf(self.largest_costs) else f", for C+ + C- up to {self.largest_costs:.1e}"
        lines = [
            f"{'certified' if self.ok else 'NOT CERTIFIED'}, for the rows as they were {self.data}",
            f"  {self.n_facets} facets, of {self.n_pieces} pieces" + ("" if self.faults else f": they {covers}"),
            f"  relative duality gap of all models at most {self.gap:.1e}{limit}",
            f"  ... at costs ({self.costs[0]:.6g}, {self.costs[1]:.6g}), a corner of facet {self.facet}{place}",
            f"  conditions of optimality hold at all corners up to {self.moved:.1e}",
        ]
        return "\n".join(lines + [f"  fault: {fault}" for fault in self.faults])


def certify(
    atlas: Any, X: Any = None, y: Any = None, sample_weight: Any = None, progress: Any = None, n_jobs: int | None = None
) -> Certificate | SelectionCertificate:
    """Prove that a map is right for given data, by a program that shares nothing with the one that made it.

    For all costs in the region up to ``largest_costs``, the model of the map is optimal for X and y within the relative
    duality gap of the report; and the facets tile the region. See docs/proof.md for what that rests on.

    A file that ``select`` wrote as a proof is checked likewise: the score at its costs, and that no others score higher.

    Parameters
    ----------
    atlas : Atlas, AtlasStore, str or path-like
        The map, or its file, or the proof of a selection. (A map is written to a temporary file first, and read by the
        checker's own reader; a store tile by tile.)
    X, y : array-like, optional
        The data as they were given to ``explore``: rows or, for a precomputed kernel, the kernel matrix; dense, sparse, or a
        data frame. Default: the rows in the file; then the check is of the map, not of what became of the data before.
    sample_weight : array-like of shape (n_rows,), optional
        The weights, if there were any.
    progress : callable, optional
        Called with the number of facets checked so far and of all; of a store, tiles.
    n_jobs : int, optional
        Number of threads; -1 for all cores. Default: 1.

    Returns
    -------
    Certificate, or SelectionCertificate for a selection

    Raises
    ------
    ProofError
        If the file is no map, or the data are not those of the map.

    """
    if (X is None) != (y is None):
        raise ValueError("give both X and y, or none of them")
    try:
        return _certify_file(atlas, X, y, sample_weight, progress, n_jobs)
    except KeyError as error:
        raise ProofError(f"the file has no {error}") from None


def _certify_file(
    atlas: Any, X: Any, y: Any, sample_weight: Any, progress: Any, n_jobs: int | None
) -> Certificate | SelectionCertificate:
    if hasattr(atlas, "tiles"):
        with np.errstate(all="ignore"):
            return _certify_store(atlas, X, y, sample_weight, progress, n_jobs)
    if not hasattr(atlas, "save") and os.path.isdir(atlas):
        raise ProofError(f"{atlas} is a folder: a store is checked when it is open (svmatlas.open)")
    if not hasattr(atlas, "save") and is_selection(atlas):
        if X is None:
            raise ProofError("a selection is proven for data: give X and y")

        def certify_map(stored: Map, *rows: Any) -> Certificate:
            X, y, weight = rows
            return _certify(stored, X, y, weight, None, n_jobs)

        with np.errstate(all="ignore"):
            return certify_selection(atlas, X, y, sample_weight, certify_map, progress)
    stored = _read(atlas)
    with np.errstate(all="ignore"):
        return _certify(stored, X, y, sample_weight, progress, n_jobs)


def _read(atlas: Any) -> Map:
    if not hasattr(atlas, "save"):
        return read_map(atlas)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "map.atlas"
        atlas.save(path)
        return read_map(path)


def _certify(
    stored: Map, X: Any, y: Any, weight: Any, progress: Any, n_jobs: int | None, tile: Cuts | None = None
) -> Certificate:
    """The certificate of a map; of a tile the stretches of plateaus on its cuts are noted."""
    points, faults = make_points(stored, X, y, weight)
    tiling = check_tiling(stored.facets, make_region(stored), stored.parameters["complete"])
    faults += tiling.faults
    if stored.tied:
        faults += _check_pieces(stored)
    data = "stored" if X is None else "given"
    if not faults:
        partitions = Partitions(stored)
        faults += partitions.faults or check_events(partitions)
    if faults:
        return _report(stored, tiling, _Worst(), data, faults)
    worst, done, subject = _Worst(), 0, facets_of(stored, partitions)
    lines = make_region(stored).lines
    prover = Prover(subject, partitions, points, lines, (False, False) if tile is None else tile.is_below)
    if tile is not None:
        tile.note(subject.mesh, subject.states, subject.plateau, points.positive, len(lines))
    for bounds, facets in _run(prover, np.arange(subject.mesh.n_facets), n_jobs):
        worst.take(subject, bounds, facets)
        done += facets.size
        if progress is not None:
            progress(done, subject.mesh.n_facets)
    return _report(stored, tiling, worst, data, worst.faults)


def _certify_store(store: Any, X: Any, y: Any, weight: Any, progress: Any, n_jobs: int | None) -> Certificate:
    """Each tile as a map of its own box of costs, one at a time; that the boxes tile the region, and plateaus go on."""
    found: list[Certificate] = []
    boxes: list[Box] = []
    stretches = Stretches([], [])
    for tile in store.tiles():
        stored = _read(tile)
        (a, b), (c, d) = ((lo, np.inf if hi is None else hi) for lo, hi in stored.parameters["region"])
        boxes.append(((a, b), (c, d)))
        cuts = Cuts(boxes[-1], (a > store.region[0][0], c > store.region[1][0]), stretches)
        found.append(_certify(stored, X, y, weight, None, n_jobs, cuts))
        if progress is not None:
            progress(len(found), store.n_tiles)
    faults = [f"tile {k}: {fault}" for k, each in enumerate(found) for fault in each.faults[:1]][:WORST]
    hole = find_fault(store.region, boxes) if store.complete else None
    missing = find_missing(stretches)
    if missing is not None:
        faults.append(
            f"a plateau at C{'+-'[missing.axis]} = {missing.cost:g} does not go on in the tile behind, or that is not done"
        )
    return _join(
        store, found, faults + ([] if hole is None else [hole]), store.complete and hole is None, bool(stretches.needed)
    )


def _join(store: Any, found: list[Certificate], faults: list[str], tiles: bool, slipped: bool) -> Certificate:
    """The certificate of a store from those of its tiles."""
    worst = max(range(len(found)), key=lambda k: found[k].gap, default=-1)
    place = found[worst] if found else None
    return Certificate(
        ok=not faults,
        gap=0.0 if place is None else place.gap + (8 * float(SLIP) if slipped else 0.0),
        facet=-1 if place is None else place.facet,
        costs=(0.0, 0.0) if place is None else place.costs,
        tiles=tiles and all(each.tiles for each in found),
        largest_costs=min((each.largest_costs for each in found), default=np.inf),
        n_beyond=sum(each.n_beyond for each in found),
        moved=max((each.moved for each in found), default=0.0),
        complete=store.complete,
        data="stored" if place is None else place.data,
        n_facets=store.n_facets,
        n_pieces=store.n_pieces,
        faults=faults,
        tile=worst,
    )


def _check_pieces(stored: Map) -> list[str]:
    """The pieces cover the region, too; those without area, and plateaus, may have any shape."""
    flat = (stored.arrays["canonical.facet"] < 0) | stored.plateaus()
    found = check_tiling(stored.mesh("split"), make_region(stored), stored.parameters["complete"], flat)
    return [f"among the pieces: {fault}" for fault in found.faults]


def _run(prover: Prover, which: Any, n_jobs: int | None) -> Any:
    """Bounds and facets, block after block."""
    blocks = [which[k : k + prover.block] for k in range(0, which.size, prover.block)]
    jobs = 1 if n_jobs is None else n_jobs if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + n_jobs)

    def step(facets: Any) -> Any:
        with np.errstate(all="ignore"):  # threads do not inherit it
            return prover.bounds(facets), facets

    if jobs == 1:
        yield from map(step, blocks)
        return
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(step, blocks)


class _Worst:
    """The worst bounds so far."""

    def __init__(self) -> None:
        self.gap, self.moved, self.facet, self.n_beyond, self.limit = 0.0, 0.0, -1, 0, np.inf
        self.corner: Any = None
        self.faults: list[str] = []

    def take(self, subject: Subject, bounds: Any, facets: Any) -> None:
        """Look at the bounds of some facets."""
        k = int(bounds.gap.argmax())
        if bounds.gap[k] > self.gap:
            self.gap, self.facet = float(bounds.gap[k]), int(facets[k])
            self.corner = subject.mesh.vertices[bounds.corner[k]] if bounds.corner[k] >= 0 else None
        self.moved = max(self.moved, float(bounds.moved.max()))
        self.n_beyond += int(np.isfinite(bounds.limit).sum())
        self.limit = min(self.limit, float(bounds.limit.min()))
        for k in np.flatnonzero((bounds.gap > GAP) | ~(bounds.moved <= MOVED))[: max(0, WORST - len(self.faults))].tolist():
            place = f"facet {facets[k]}, vertex {bounds.corner[k]}"
            if bounds.gap[k] > GAP:
                self.faults.append(f"{place}: the relative duality gap may be {bounds.gap[k]:.1e}")
            else:
                self.faults.append(f"{place}: a condition of optimality is violated by {bounds.moved[k]:.1e}")


def _report(stored: Map, tiling: Tiling, worst: _Worst, data: str, faults: list[str]) -> Certificate:
    exponent, costs = stored.parameters["cost_exponent"], (0.0, 0.0)
    if worst.corner is not None:
        p, q, l = worst.corner.tolist()
        costs = tuple(float(np.ldexp(np.float64(x) / l, -exponent)) if x else 0.0 for x in (p, q))  # type: ignore[assignment]
    return Certificate(
        ok=not faults,
        gap=worst.gap if worst.facet >= 0 or not faults else np.inf,
        facet=worst.facet,
        costs=costs,
        tiles=not tiling.faults and stored.parameters["complete"],
        largest_costs=float(np.ldexp(min(worst.limit, tiling.limit), -exponent)),
        n_beyond=worst.n_beyond,
        moved=worst.moved,
        complete=stored.parameters["complete"],
        data=data,
        n_facets=stored.facets.n_facets,
        n_pieces=stored.mesh("split").n_facets,
        faults=faults,
    )
