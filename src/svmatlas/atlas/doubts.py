"""A warning of maps that the checker refuses (docs/proof.md), where rows, weights, kernel or region are such that this may be.

Corners of facets are doubles. Where rows are badly conditioned, or weights differ by many powers of ten, corners are where
rounding or the jitter has put them, and no bound on the gap of a facet follows from them. It is the checker that knows:
``explore`` has it look at facets of such maps, those first whose corners are most in doubt. Other maps are not looked at.
"""

from __future__ import annotations

from time import thread_time
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.atlas.atlas import Atlas
from svmatlas.atlas.files import arrays_of_map
from svmatlas.atlas.opened import AtlasStore
from svmatlas.data.problem import JITTER, Problem
from svmatlas.engine.canonical import Canonical
from svmatlas.engine.workspace import MARGIN, Floats, P, States, largest_jitter
from svmatlas.models.gap import warn_of_accuracy
from svmatlas.proof.certify import GAP, MOVED
from svmatlas.proof.gaps import Prover, facets_of
from svmatlas.proof.reading import Map
from svmatlas.proof.rows import Points, make_points
from svmatlas.proof.single import Subject
from svmatlas.proof.tiling import check_tiling, determinants, region_of
from svmatlas.store.problems import take_apart
from svmatlas.store.tiles import plain

Ints = npt.NDArray[np.signedinteger[Any]]

UNEVEN = 1e4
"""Ratio of two weights, times the lengths of their rows, up to which no map was refused; some are from 2e5 on."""

NARROW = 1e-3
"""Relative width of a region below which the jitter may decide about its facets; those that were refused are of 1e-6."""

EACH, SOME = 64, 512
"""Facets of each kind that are looked at, and those whose points on the margin are looked at before."""

LARGE = 4096
"""Facets of a map up to which its tiling is looked at."""

BLOCK, SECONDS = 4, 1.0
"""Facets that are looked at at once, and how long it goes on: exact arithmetic takes some hundredths of a second a facet."""


class _Partitions(NamedTuple):
    """The partitions of a map, as the checker asks for them."""

    canonical: Canonical

    def of_pieces(self, pieces: Any) -> States:
        return self.canonical.split.states(pieces)

    def of_facets(self, facets: Any) -> States:
        return self.canonical.states(facets)


def warn_of_doubts(made: Atlas | AtlasStore) -> None:
    """Warn if the checker refuses a map that it may refuse, or a tile of a store; models are right all the same."""
    remedy, end = _remedy(made), thread_time() + SECONDS
    if remedy is None or made._problem.n_points == 0:
        return
    for tile in made.tiles() if isinstance(made, AtlasStore) else [made]:
        (a, _), (c, _) = tile.region
        with np.errstate(all="ignore"):
            fault = _find_fault(tile, (a > made.region[0][0], c > made.region[1][0]), end)
        if fault is not None:
            warn_of_accuracy(f"{fault}: the map cannot be certified, models are right; {remedy}")
        if fault is not None or thread_time() > end:
            return


def _remedy(atlas: Atlas | AtlasStore) -> str | None:
    """What would help, if a map may be refused; else None."""
    problem = atlas._problem
    data = problem.data
    if not problem.features.linear:
        return "choose a kernel of which rows differ more (rbf: a larger gamma), or a region of smaller costs"
    pull = data.weight * data.norm
    if pull.size > 0 and pull.max() > UNEVEN * pull[pull > 0].min(initial=np.inf):
        return "give rows that hardly count the weight zero, or scale rows that are longer than others"
    if largest_jitter(data) < JITTER / 4:  # the rows are badly conditioned
        return "standardise the features, or choose a region of smaller costs"
    if any(np.isfinite(hi) and hi - lo < NARROW * hi for lo, hi in atlas.region):
        return "use a wider region, or svmatlas.segment"
    return None


def _find_fault(atlas: Atlas, is_cut: tuple[bool, bool], end: float) -> str | None:
    """What the checker finds wrong with some facets of a map, and with how they tile the region, until it is time to end."""
    problem = atlas._problem
    stored = Map(arrays_of_map(atlas._canonical), {})
    region = region_of(plain(atlas.region), problem.cost_exponent)
    if atlas.n_facets <= LARGE:
        faults = check_tiling(stored.facets, region, atlas.complete).faults
        if faults:
            return faults[0]
    partitions: Any = _Partitions(atlas._canonical)
    subject = facets_of(stored, partitions)
    prover = Prover(subject, partitions, _points(problem), region.lines, is_cut)
    doubtful = _most_doubtful(subject, problem.data.rows)
    for facets in np.split(doubtful, range(BLOCK, doubtful.size, BLOCK)):
        found = prover.bounds(facets)
        wrong = np.flatnonzero((found.gap > GAP) | ~(found.moved <= MOVED))
        if wrong.size > 0:
            return f"corners of facet {facets[wrong[0]]} are not where its models are optimal (gap {found.gap[wrong[0]]:.0e})"
        if thread_time() > end:
            break
    return None


def _points(problem: Problem) -> Points:
    """The rows that the checker is to look at; of a kernel matrix that was given, or made by a function, the engine's."""
    data = problem.data
    if problem.features.kernel.name in ("linear", "poly", "rbf"):
        arrays, parameters = take_apart(problem)
        return make_points(Map(arrays | {"split.start": data.axis}, parameters), None, None, None)[0]
    return Points(None, data.rows @ data.rows.T, np.zeros((len(data.rows),) * 2), data.weight, data.axis == P)


def _most_doubtful(subject: Subject, rows: Floats) -> Ints:
    """The facets whose points on the margin are closest to being dependent, the narrowest, and those at the most uneven costs.

    In turn, so that those of each kind that are most in doubt come first.
    """
    mesh = subject.mesh
    corner, facet = mesh.facet_vertices.astype(np.intp), mesh.place_facet()
    turn, size = determinants(
        mesh.vertices, np.column_stack([corner[mesh.place_before()], corner, corner[mesh.place_after()]])
    )
    narrow = np.abs(turn) / np.maximum(size, np.finfo(float).tiny)
    uneven = np.where(mesh.vertices > 0, mesh.vertices, np.inf).min(axis=1) / mesh.vertices.max(axis=1)
    some = np.unique(np.linspace(0, mesh.n_facets - 1, SOME).astype(np.intp))
    orders = [some[np.argsort(_independence(rows, subject.states(some) == MARGIN), kind="stable")][:EACH]]
    for doubt in (narrow, uneven[corner]):
        least = np.full(mesh.n_facets, np.inf)
        np.minimum.at(least, facet, doubt)
        orders.append(np.argsort(least, kind="stable")[:EACH])
    turns = [order[k] for k in range(EACH) for order in orders if k < order.size]
    return np.array(list(dict.fromkeys(turns)), dtype=np.intp)


def _independence(rows: Floats, margin: npt.NDArray[np.bool_]) -> Floats:
    """The least singular value of the rows on some margins, of length 1, relative to the largest; 1 where there are none."""
    out, counts = np.ones(len(margin)), margin.sum(axis=1)
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(float).tiny)
    for m in np.unique(counts[counts > 0]).tolist():
        which = np.flatnonzero(counts == m)
        sizes = np.linalg.svd(unit[np.nonzero(margin[which])[1].reshape(-1, m)], compute_uv=False)
        out[which] = sizes[:, -1] / np.maximum(sizes[:, 0], np.finfo(float).tiny) if m <= rows.shape[1] else 0.0
    return out
