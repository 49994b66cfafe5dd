"""Proof that an atlas is right: each invariant by name, with the facet, edge or vertex at fault.

- ``edges``: every edge has two facets (or a side of the region), which both list it with the same two ends.
- ``vertices``: around a vertex inside the region three facets meet or more, around others two or more.
- ``euler``: V - E + F = 1, the number of a disc: no holes, no handles.
- ``coverage``: the signed areas of all facets add up to the region, seen at nine scales of the two costs, and no facet is
  turned over: so none overlap.
- ``kkt``: at every corner of every piece (canonical.py) its partition satisfies all conditions of optimality (of the jittered
  data, whose vertices these are), in doubles, or else in exact arithmetic; they are affine, so they hold in all of the piece.
  With the coverage, which pieces have as well: the solution is right everywhere. (On a plateau, plateaus.py, alpha is that of
  the pieces around it.)
- ``ties``: at every corner of a facet with tied points all scores are where its partition has them, without jitter.
- ``gap``: relative duality gap at random costs, of the solution as the map has it, and on the user's rows as it is reported.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from joblib import effective_n_jobs
from sklearn.utils import check_random_state

from svmatlas.atlas.log_area import log_share
from svmatlas.engine.arena import BOUNDARY, OPEN
from svmatlas.engine.canonical import TURNED
from svmatlas.engine.compiled import entry, entry_noalloc, kernel, kernel_no_nan
from svmatlas.engine.exact import ExactFacet, ExactProblem, rounded
from svmatlas.engine.geometry import triple_product
from svmatlas.engine.locate import NOWHERE
from svmatlas.engine.maps import affine_maps
from svmatlas.engine.mesh import Mesh
from svmatlas.engine.workspace import INSIDE, MARGIN, OUTSIDE, Data, P, Region
from svmatlas.models.gap import INACCURATE, INACCURATE_KERNEL, user_gaps
from svmatlas.models.solve import Solution
from svmatlas.support.progress import make_bar
from svmatlas.support.stopping import Limit, stoppable
from svmatlas.support.threads import limit_blas

if TYPE_CHECKING:
    from svmatlas.atlas.atlas import Atlas

Floats = npt.NDArray[np.float64]

COVERAGE_TOLERANCE = 1e-9
"""Allowed difference of a coverage from 1: areas of up to 10^7 facets are added up in doubles."""

KKT_TOLERANCE = 1e-9
"""Allowed violation of a condition at a corner, relative to the size of its terms: corners are good to 2e-10."""

MOVED = 1e-5
"""Largest distance of a corner of a facet from where its piece has it: the jitter, 1e-13, by the square of the condition."""

GAP_TOLERANCE = 1e-9
"""Allowed duality gap relative to the objective: rounding in sums over thousands of points, times the conditioning."""

POLISH = 1e-10
"""Maps with entries that have a larger relative error bound than this are refined before they are checked."""

MOST_EXACT = 64
"""Facets of a block that are checked in exact arithmetic where doubles find a violation: these are few, or all is lost."""

MEASURED, FEWEST = 2**32, 16
"""Entries of the user's rows, over all costs, from which gaps are measured, some seconds; and the least number of costs."""

CHUNK, BLOCK = 64, 8192
"""Facets whose conditions are checked at once: some (64, 3, N) arrays; and those whose partitions are found at once."""

SURE = 2.0**-40
"""Distance of a score from 1, relative to the size of its terms, beyond which rounding cannot have moved it there."""

SCALES = (2.0**-20, 1.0, 2.0**20)
"""Factors of each cost at which the coverage is measured: around costs of 1e-6, 1 and 1e6 (in units of the data)."""


ROWS = {"given": "on the rows as they were given", "factored": "on rows with the same inner products"}
"""What conditions are checked on."""


@dataclass(frozen=True)
class Report:
    """What :meth:`svmatlas.Atlas.validate` found; ``ok`` says whether all invariants hold.

    ``coverage`` is the share of the region that the facets cover, of the nine scales of costs that which is furthest from 1;
    ``log_coverage`` the share of its logarithmic area, costs from 1e-6 to 1e6: an integral along the border of the map.

    ``rows`` says what the conditions at corners were checked on: "given", the rows as they were given, or "factored", other
    rows with the same inner products up to rounding. ``max_user_gap`` is measured on the rows as they were given in any case,
    at ``n_user_costs`` of the random costs.
    """

    ok: bool
    complete: bool
    coverage: float
    log_coverage: float
    max_gap: float
    max_user_gap: float
    max_kkt: float
    n_open_edges: int
    euler: int
    n_facets: int
    n_edges: int
    n_vertices: int
    n_costs: int
    n_refined: int
    n_zero: int
    n_exact: int
    rows: str
    n_user_costs: int
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [
            f"{'valid' if self.ok else 'NOT VALID'}, {'complete' if self.complete else 'partial'}",
            f"  facets {self.n_facets}, edges {self.n_edges}, vertices {self.n_vertices}",
            f"  coverage        {self.coverage:.15f}" + self._log_text(),
            f"  open edges      {self.n_open_edges}",
            f"  Euler's formula V - E + F = {self.euler}",
            f"  largest KKT violation at a corner  {self.max_kkt:.1e}  ({ROWS[self.rows]})",
            f"  largest relative duality gap       {self.max_gap:.1e}  ({self.n_costs} random costs)",
            f"  ... on the rows as they were given {self.max_user_gap:.1e}  ({self.n_user_costs} of them)",
            f"  predicates beyond doubles          {self.n_refined} in double-double, {self.n_zero} zeros modulo a prime, "
            f"{self.n_exact} in exact integers",
        ]
        return "\n".join(lines + [f"  fault: {fault}" for fault in self.faults])

    def _log_text(self) -> str:
        """The logarithmic coverage of a partial map."""
        return "" if self.complete else f"  ({100 * self.log_coverage:.2f} % of the logarithmic area)"


def validate(atlas: Atlas, n_costs: int, random_state: Any, progress: bool, n_jobs: int | None) -> Report:
    """Check all invariants of an atlas."""
    with stoppable() as limit:
        return validate_within(limit, atlas, n_costs, random_state, progress, n_jobs)


def validate_within(limit: Limit, atlas: Atlas, n_costs: int, random_state: Any, progress: bool, n_jobs: int | None) -> Report:
    """The same; Stopped if it is time before all is checked."""
    mesh, split = atlas._mesh, atlas._canonical.split
    nowhere, none = np.zeros(mesh.vertices.shape[0], dtype=bool), np.zeros(atlas.n_facets, dtype=bool)
    faults, coverage = _check_mesh(atlas, mesh, none, nowhere)
    if split.mesh is not mesh:
        around = _around(split.mesh, np.flatnonzero(split.left_out))
        faults += [f"among the pieces {fault}" for fault in _check_mesh(atlas, split.mesh, split.tie, around)[0]]
    kkt, worst = _check_kkt(atlas, progress, n_jobs, limit)
    tied, where = _check_tied(atlas, limit)
    moved, there = _check_untied(atlas)
    ((gap, at), (own_gap, own_at)), n_own = _check_gap(atlas, n_costs, random_state)
    if max(kkt, tied) > KKT_TOLERANCE:
        facet = where if tied > kkt else atlas._locator.facet_of(worst)
        faults.append(f"facet {facet} violates a condition of optimality by {max(kkt, tied):.1e}")
    if moved > MOVED:
        faults.append(f"facet {there} has a corner where none of its edges meet, by {moved:.1e}")
    if gap > GAP_TOLERANCE:
        faults.append(f"the duality gap at costs {at} is {gap:.1e}")
    if own_gap > (INACCURATE if atlas._problem.features.linear else INACCURATE_KERNEL):
        faults.append(f"the duality gap at costs {own_at} on the given rows is {own_gap:.1e}: standardise the features")
    return Report(
        not faults, atlas.complete, coverage, _log_coverage(atlas), gap, own_gap, max(kkt, tied),
        int(np.sum(mesh.edge_facets == OPEN)), _euler(mesh), atlas.n_facets, atlas.n_edges, atlas.n_vertices, n_costs,
        atlas.n_refined, atlas.n_zero, atlas.n_exact,
        "given" if atlas._problem.features.factor is None else "factored", n_own, faults,
    )  # fmt: skip


def _around(mesh: Mesh, facets: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
    """Which vertices are corners of some facets."""
    found = np.zeros(mesh.vertices.shape[0], dtype=bool)
    for f in facets:
        found[mesh.facet_vertices[mesh.facet_at[f] : mesh.facet_at[f + 1]]] = True
    return found


def _check_mesh(
    atlas: Atlas, mesh: Mesh, tie: npt.NDArray[np.bool_], joined: npt.NDArray[np.bool_]
) -> tuple[list[str], float]:
    """Topology and geometry of a mesh, of which some facets may have no area; and its coverage.

    At ``joined`` vertices edges are missing, of pieces that are put together to plateaus.
    """
    faults = _check_edges(mesh) + _check_vertices(mesh, atlas.complete, joined)
    coverage, turned = _coverage(atlas, mesh)
    faults += [f"facet {f} is turned over" for f in turned[~tie[turned]][:5]]
    is_open = np.any(mesh.edge_facets == OPEN, axis=1)
    if atlas.complete:
        if is_open.any():
            faults.append(f"edge {int(np.argmax(is_open))} is open")
        if _euler(mesh) != 1:
            faults.append(f"V - E + F is {_euler(mesh)}, not 1")
        if abs(coverage - 1) > max(COVERAGE_TOLERANCE, _rounding(atlas)):
            faults.append(f"the facets cover {coverage:.12f} of the region")
    return faults, coverage


def _euler(mesh: Mesh) -> int:
    return int(mesh.vertices.shape[0] - mesh.edge_code.size + mesh.facet_layer.size)


# ----------------------------------------------------------------------------------------------------------------------
# Topology


def _check_edges(mesh: Mesh) -> list[str]:
    """Each edge is listed once by each of its facets, between the same two vertices."""
    facet = np.repeat(np.arange(mesh.facet_at.size - 1), np.diff(mesh.facet_at))
    before = np.arange(facet.size) - 1
    before[mesh.facet_at[:-1]] = mesh.facet_at[1:] - 1
    edge = mesh.facet_edges
    ends = np.sort(np.column_stack([mesh.facet_vertices[before], mesh.facet_vertices]), axis=1)
    wrong_ends = np.any(ends != np.sort(mesh.edge_vertices, axis=1)[edge], axis=1)
    faults = [f"edge {edge[k]} of facet {facet[k]} has other ends there" for k in np.flatnonzero(wrong_ends)[:5]]
    uses = np.bincount(edge, minlength=mesh.edge_code.size)
    wanted = np.where(mesh.edge_facets[:, 1] >= 0, 2, 1)
    faults += [f"edge {k} is used by {uses[k]} facets" for k in np.flatnonzero(uses != wanted)[:5]]
    side = (mesh.edge_facets[:, 1] == BOUNDARY) != (mesh.edge_code < 0)
    faults += [f"edge {k} has no facet behind it but is no side of the region" for k in np.flatnonzero(side)[:5]]
    faults += [f"facet {f} has less than three edges" for f in np.flatnonzero(np.diff(mesh.facet_at) < 3)[:5]]
    listed = np.all(mesh.edge_facets[edge] != facet[:, None], axis=1)
    return faults + [f"facet {facet[k]} lists edge {edge[k]} of others" for k in np.flatnonzero(listed)[:5]]


def _check_vertices(mesh: Mesh, complete: bool, joined: npt.NDArray[np.bool_]) -> list[str]:
    """Inside the region three edges or more end at a vertex, on its sides and in its corners two or more."""
    degree = np.bincount(mesh.edge_vertices.ravel(), minlength=mesh.vertices.shape[0])
    sides = np.bincount(mesh.edge_vertices[mesh.edge_code < 0].ravel(), minlength=mesh.vertices.shape[0])
    inner = (sides == 0) & (np.count_nonzero(mesh.vertices, axis=1) >= 2)
    wrong = (degree < 2) | (inner & ~joined & (degree < 3)) if complete else degree < 2
    return [f"vertex {v} has {degree[v]} edges" for v in np.flatnonzero(wrong)[:5]]


# ----------------------------------------------------------------------------------------------------------------------
# Geometry


@entry
def _areas(vertices, corners, at, a, b):
    """Signed area of each facet in barycentric coordinates of (a p, b q, l), and its largest relative determinant."""
    areas, sizes = np.zeros(at.size - 1), np.zeros(at.size - 1)
    v = np.empty((3, 3))
    for f in range(at.size - 1):
        for k in range(at[f], at[f + 1]):
            for n, place in enumerate((at[f], (k if k > at[f] else at[f + 1]) - 1, k)):
                p, q, l = vertices[corners[place]]
                total = a * p + b * q + l
                v[n, 0], v[n, 1], v[n, 2] = a * p / total, b * q / total, l / total
            det, size = triple_product(v[0], v[1], v[2])
            areas[f] += det
            if abs(det) > abs(sizes[f]) * size:
                sizes[f] = det / size
    return areas, sizes


def _rounding(atlas: Atlas) -> float:
    """Rounding of a coverage: areas are differences of products, which are large against the area of a thin region."""
    n = atlas._region.corners.shape[0]
    _, relative = _areas(atlas._region.corners, np.arange(n, dtype=np.int32), np.array([0, n]), 1.0, 1.0)
    return float(2.0**-48 / abs(relative[0]))


def _coverage(atlas: Atlas, mesh: Mesh) -> tuple[float, npt.NDArray[np.intp]]:
    """The coverage furthest from 1 over all scales, and the facets that are turned over."""
    region = atlas._region
    n = region.corners.shape[0]
    worst = 1.0
    for a in SCALES:
        for b in SCALES:
            whole, _ = _areas(region.corners, np.arange(n, dtype=np.int32), np.array([0, n]), a, b)
            areas, sizes = _areas(mesh.vertices, mesh.facet_vertices, mesh.facet_at, a, b)
            share = float(areas.sum() / whole[0])
            worst = share if abs(share - 1) > abs(worst - 1) else worst
    return worst, np.flatnonzero(sizes < -TURNED)


# ----------------------------------------------------------------------------------------------------------------------
# Optimality


def _violations_of(atlas: Atlas, facets: npt.NDArray[np.intp], limit: Limit) -> Floats:
    """The same for any number of pieces in a row."""
    limit.check()
    states = atlas._split_states(facets)
    parts = []
    for k in range(0, facets.size, CHUNK):
        limit.check()
        mesh = atlas._canonical.split.mesh
        parts.append(_violations(atlas._problem.data, atlas._region, mesh, int(facets[k]), states[k : k + CHUNK], 1.0))
    found = np.concatenate(parts)
    found[atlas._canonical.split.left_out[facets]] = 0.0  # see ``ties``; alpha is that of the pieces around
    problem = ExactProblem(atlas._problem.data, atlas._region, limit=limit)  # makes its integers when it is asked
    for k in np.flatnonzero(found > KKT_TOLERANCE)[:MOST_EXACT]:
        found[k] = _violation_exactly(atlas, problem, int(facets[k]), states[k])
    return found


def _violation_exactly(atlas: Atlas, problem: ExactProblem, f: int, state: npt.NDArray[np.int8]) -> float:
    """The same for one facet in exact arithmetic: infinite, or how far its corners are from where its edges meet.

    Where tied lines meet at costs of 1e48 doubles do not know the terms whose sum they should judge.
    """
    mesh = atlas._canonical.split.mesh
    places = slice(mesh.facet_at[f], mesh.facet_at[f + 1])
    codes = mesh.edge_code[mesh.facet_edges[places]].tolist()
    facet = ExactFacet(problem, state)
    lines = [2 * i + kind for i, s in enumerate(state.tolist()) for kind in (0, 1) if s == MARGIN or kind == (s == INSIDE)]
    for a, b in zip(codes, codes[1:] + codes[:1], strict=True):
        if any(facet.sign(a, b, k) < 0 for k in lines):
            return np.inf
    if atlas._canonical.facet[f] < 0:  # it has no area, and nobody sees where it is
        return 0.0
    exact = rounded(facet.corners(codes))
    apart = np.abs(mesh.vertices[mesh.facet_vertices[places]] - exact)
    return float(np.max(np.divide(apart, exact, out=apart, where=exact > 0)))


def _violations(data: Data, region: Region, mesh: Mesh, first: int, states: npt.NDArray[np.int8], jitter: float) -> Floats:
    """Largest relative violation of the conditions of optimality at the corners of facets ``first``, ... of a mesh."""
    alpha, beta = affine_maps(data, region, states, jitter=jitter, accuracy=POLISH)
    lengths, at = np.linalg.norm(beta, axis=2), mesh.facet_at[first : first + states.shape[0] + 1]
    some = _undecided(data, mesh.vertices[mesh.facet_vertices[at[0] : at[-1]]], np.diff(at), states, beta, lengths)
    few = data._replace(**{name: getattr(data, name)[some] for name in OF_POINTS}, columns=np.take(data.columns, some, axis=1))
    states, alpha, scores = np.take(states, some, axis=1), np.take(alpha, some, axis=2), beta @ few.columns
    worst, ratio = np.zeros(states.shape[0]), np.empty((2, some.size))
    _worst_corners(few, mesh.vertices, at, mesh.facet_vertices, states, alpha, scores, lengths, ratio, worst)
    return worst


OF_POINTS = "norm", "axis", "weight", "weight_jitter", "target_jitter"
"""What conditions of optimality have to know of points."""


def _undecided(
    data: Data, corners: Floats, sizes: npt.NDArray[np.intp], states: npt.NDArray[np.int8], beta: Floats, lengths: Floats
) -> npt.NDArray[np.intp]:
    """Points that may violate a condition at a corner (n, 3) of some facets, which have so many each.

    All weights at the corners are in a ball. For other points it is on the side of the margin where all partitions have them.
    """
    facet, l = np.repeat(np.arange(sizes.size), sizes), corners[:, 2:]
    if not (l > 0.0).all():
        return np.arange(data.norm.size)
    weights = np.einsum("kc,kcj->kj", corners, beta[facet]) / l
    middle = weights.mean(axis=0)
    size = np.max(np.einsum("kc,kc->k", corners, lengths[facet]) / l[:, 0])
    radius = np.linalg.norm(weights - middle, axis=1).max() + SURE * size
    score = middle @ data.columns - 1.0
    sure = np.abs(score) > data.norm * radius + np.abs(data.target_jitter) + SURE
    right = np.all(states == np.where(score > 0.0, OUTSIDE, INSIDE).astype(np.int8), axis=0)
    return np.flatnonzero(~(sure & right))


@entry_noalloc
def _worst_corners(data, vertices, at, corners, states, alpha, scores, lengths, ratio, out):
    """Per facet the largest violation over its corners and all points, relative to the size of its terms."""
    for f in range(states.shape[0]):
        state, sign = states[f], ratio[1]
        for i in range(state.size):
            sign[i] = 1.0 * (state[i] == INSIDE) - 1.0 * (state[i] == OUTSIDE)
        for j in range(at[f], at[f + 1]):
            v = vertices[corners[j]]
            length = lengths[f, 0] * v[0] + lengths[f, 1] * v[1] + lengths[f, 2] * v[2]
            _score_ratios(scores[f], v[0], v[1], v[2], sign, length, data.norm, data.target_jitter, ratio[0])
            for i in range(state.size):
                if state[i] == MARGIN:
                    a, b, c = alpha[f, 0, i] * v[0], alpha[f, 1, i] * v[1], alpha[f, 2, i] * v[2]
                    bound = (data.weight[i] + data.weight_jitter[i]) * (v[0] if data.axis[i] == P else v[1])
                    size = abs(a) + abs(b) + abs(c) + bound
                    wrong = max(-(a + b + c), a + b + c - bound)
                    ratio[0, i] = wrong / size if wrong > 0.0 else wrong - wrong  # zero, if it is a number
            out[f] = max(out[f], _largest(ratio[0]) if _count_wrong(ratio[0]) == 0 else np.inf)


@kernel
def _score_ratios(scores, v0, v1, v2, sign, length, norm, low, out):
    """Violation of the score lines at one corner, zero for points of M."""
    for i in range(out.size):
        wrong = scores[0, i] * v0 + scores[1, i] * v1 + scores[2, i] * v2 - v2 * (1.0 + low[i])
        size = length * norm[i] + v2
        out[i] = sign[i] * wrong / (size if size > 0.0 else 1.0)


@kernel
def _count_wrong(values):
    """How many are infinite or not a number."""
    count = 0
    for i in range(values.size):
        count += not abs(values[i]) < np.inf
    return count


@kernel_no_nan
def _largest(values):
    top = 0.0
    for i in range(values.size):
        top = values[i] if values[i] > top else top
    return top


def _check_kkt(atlas: Atlas, progress: bool, n_jobs: int | None, limit: Limit) -> tuple[float, int]:
    """The largest violation over all facets, and where."""
    n = atlas._canonical.split.kind.size
    jobs = 1 if n_jobs is None else int(effective_n_jobs(n_jobs))
    pieces = np.array_split(np.arange(n), max(-(-n // BLOCK), min(jobs, n)))
    worst, where = 0.0, -1
    bar = make_bar(" facets", n) if progress else nullcontext()
    with limit_blas(), bar as shown, ThreadPoolExecutor(jobs) as pool:
        found = pool.map(lambda facets: _violations_of(atlas, facets, limit), pieces)
        for facets, violations in zip(pieces, found, strict=True):
            if violations.max() > worst:
                worst, where = float(violations.max()), int(facets[violations.argmax()])
            if shown is not None:
                shown.update(facets.size)
    return worst, where


def _check_untied(atlas: Atlas) -> tuple[float, int]:
    """How far a corner of a facet without ties is from all corners of its piece, at most, and where."""
    canonical = atlas._canonical
    mesh, split = canonical.mesh, canonical.split.mesh
    piece = np.where((np.diff(canonical.tied_at) > 0) | canonical.is_cut, -1, canonical.piece)
    worst, where = _furthest(
        mesh.vertices, mesh.facet_at, mesh.facet_vertices, split.vertices, split.facet_at, split.facet_vertices, piece
    )
    return float(worst), int(where)


@entry
def _furthest(vertices, at, corner, others, other_at, other_corner, piece):
    """The same for some facets, of which the piece is not -1; in costs with largest entry 1."""
    worst, where = 0.0, -1
    for f in range(piece.size):
        for k in range(at[f] if piece[f] >= 0 else at[f + 1], at[f + 1]):
            v, nearest = vertices[corner[k]], np.inf
            for j in range(other_at[piece[f]], other_at[piece[f] + 1]):
                w, apart = others[other_corner[j]], 0.0
                for c in range(3):
                    apart = max(apart, abs(v[c] / max(v[0], v[1], v[2]) - w[c] / max(w[0], w[1], w[2])))
                nearest = min(nearest, apart)
            if nearest > worst:
                worst, where = nearest, f
    return worst, where


def _check_tied(atlas: Atlas, limit: Limit) -> tuple[float, int]:
    """The largest distance of a score from where the partition has it, over the corners of facets with ties; and where.

    Relative to the size of its terms, without jitter.
    """
    canonical, data, worst, where = atlas._canonical, atlas._problem.data, 0.0, -1
    tied = np.flatnonzero(np.diff(canonical.tied_at))
    for facets in np.array_split(tied, tied.size // CHUNK + 1):
        limit.check()
        _, beta = affine_maps(data, atlas._region, atlas._split_states(canonical.piece[facets]), jitter=0.0, accuracy=POLISH)
        for f, state, maps in zip(facets.tolist(), atlas._states(facets), beta, strict=True):
            corners = canonical.mesh.vertices[canonical.mesh.facet_vertices[slice(*canonical.mesh.facet_at[f : f + 2])]]
            corners = corners[corners[:, 2] > 0]  # at infinity l beta is zero
            score = corners @ (maps @ data.columns) - corners[:, 2:]
            size = (corners @ np.linalg.norm(maps, axis=1))[:, None] * data.norm + corners[:, 2:]
            wrong = np.where(state == MARGIN, np.abs(score), np.where(state == INSIDE, score, -score))
            wrong = np.divide(wrong, size, out=np.zeros_like(wrong), where=size > 0)
            if wrong.max() > worst:
                worst, where = float(wrong.max()), f
    return worst, where


def _check_gap(atlas: Atlas, n_costs: int, random_state: Any) -> tuple[list[tuple[float, tuple[float, float]]], int]:
    """The largest relative duality gap at random costs, and where: on the rows of the engine, and on the user's.

    Beside these, at how many costs the second was measured.
    """
    problem, random = atlas._problem, check_random_state(random_state)
    p, q = (
        np.clip(np.exp(random.uniform(*np.log(limits), n_costs)), *bounds)
        for limits, bounds in zip(_limits(atlas), atlas.region, strict=True)
    )
    if not atlas.complete:  # costs that are not explored would be searched for in all facets
        there = atlas._locator.walk(problem.homogeneous(p, q)) != NOWHERE
        p, q = p[there], q[there]
    c = problem.homogeneous(p, q)
    facets, solution = atlas._solver.settle(c)
    explored = np.flatnonzero(facets != NOWHERE)
    some = explored[: max(FEWEST, MEASURED // problem.features.size)]
    own = user_gaps(problem, Solution(*(array[some] for array in solution)), c[some])  # type: ignore[arg-type]
    worst = [_largest_at(gaps, p[at], q[at]) for gaps, at in ((solution.gap[explored], explored), (own, some))]
    return worst, int(some.size)


def _largest_at(gaps: Floats, p: Floats, q: Floats) -> tuple[float, tuple[float, float]]:
    """The largest gap and its costs; zero if there are none."""
    if gaps.size == 0:
        return 0.0, (0.0, 0.0)
    k = int(np.argmax(gaps))
    return float(gaps[k]), (float(p[k]), float(q[k]))


def _limits(atlas: Atlas) -> list[tuple[float, float]]:
    """The costs that are looked at: [1e-6, 1e6] as far as that lies in the region and within 1e15 of the unit of the data.

    Beyond that rounding errors of alpha alone make the duality gap. If nothing is left: as wide a range around the unit.
    """
    tiny, huge = np.finfo(float).tiny, np.finfo(float).max
    unit = float(np.ldexp(1.0, int(np.clip(-atlas._problem.cost_exponent, -1000, 1000))))
    low, high = max(1e-6, 1e-15 * unit), min(1e6, 1e15 * unit)
    if low >= high:
        low, high = max(1e-6 * unit, tiny), min(1e6 * unit, huge)
    found = []
    for bounds in atlas.region:
        least, most = low, high
        if not max(low, bounds[0]) < min(high, bounds[1]):
            finite = np.isfinite(bounds[1])
            least, most = (bounds[1] * 1e-12, bounds[1]) if finite else (bounds[0], min(bounds[0] * 1e12, huge))
        found.append((max(least, bounds[0]), min(most, bounds[1])))
    return found


def _log_coverage(atlas: Atlas) -> float:
    """Share of the logarithmic area of the costs that are looked at."""
    border = np.any(atlas.edge_facets < 0, axis=1)
    return log_share(atlas.vertices[atlas.edge_vertices[border]], *_limits(atlas))
