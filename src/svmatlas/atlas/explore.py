"""The public function: data and a region -> the atlas."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.atlas.atlas import Atlas
from svmatlas.atlas.budget import check_memory
from svmatlas.atlas.doubts import warn_of_doubts
from svmatlas.atlas.jobs import as_found, is_elsewhere, survey_elsewhere
from svmatlas.atlas.storing import Task, explore_into
from svmatlas.atlas.survey import Surveyor
from svmatlas.data.problem import JITTER, TAME, Bounds, Problem, check_bounds, make_problem, make_region
from svmatlas.engine.ahead import get_help
from svmatlas.engine.arena import CROWDED
from svmatlas.engine.canonical import unite
from svmatlas.engine.joining import Joiner
from svmatlas.engine.mesh import in_parts
from svmatlas.engine.plateaus import UnclosedError
from svmatlas.engine.tie_test import THIN
from svmatlas.engine.ties import find_tied
from svmatlas.engine.tile import EngineError, Facets
from svmatlas.engine.upright import set_upright
from svmatlas.engine.workspace import INSIDE, MARGIN, P, largest_jitter
from svmatlas.models.gap import warn_of_accuracy
from svmatlas.models.walk import state_at
from svmatlas.support.messages import shown
from svmatlas.support.progress import make_bar, move_to
from svmatlas.support.stopping import NEVER, Limit, check_budget, stoppable
from svmatlas.support.threads import count_workers, make_pool

INWARD = 2.0**-20
"""The start is moved this far towards the middle of the region, so that it is inside a facet of the region."""

NARROW = 2.0**-10
"""Relative width of a region below which the start is moved to its middle."""

TIED, MOVED = 2.0**-46, 1e-7
"""Distance of two rows, relative to their length, up to which they are tied: rounding, and less than the jitter. And what the
jitter, or the rounding of a corner, may be, relative to the distance of rows, before there is a warning."""

ROUNDED = 2.0**-53
"""Rounding of a stored corner, or of an entry of a row."""

LOST = 1e-6
"""What rows may lose where columns that depend on each other are joined, relative to what is left of them in any direction,
before there is a warning: corners are known to about that."""

DEPENDENT = 2.0**-46
"""Least singular value of rows, relative to the largest, below which they depend on each other up to rounding."""

BLOCK = 4096
"""Pieces that are looked at at once."""

FAINT = 2.0**50
"""Ratio of two weights, times the lengths of their rows, beyond which there is a warning: the lighter point is a rounding
error of sums with the heavier."""

STEEPEST = 2.0**44
"""Condition of the rows beyond which there is a warning: corners in doubles keep some digits of what small columns say."""

ASIDE = 1e-9
"""A corner on a side of the region that lies beside it by more than this, relative to its terms, is that of another facet."""

SURVEY_SHARE = 0.9
"""Share of the time that is left in which facets are explored; in the rest they are joined."""

GRACE = 0.5
"""Seconds for exact arithmetic where facets of an exploration that was stopped are joined."""


def explore(
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
    feature_names: Any = None,
    region: Any = None,
    start: Any = None,
    max_facets: int | None = None,
    time_budget: float | None = None,
    progress: bool = False,
    n_jobs: int | None = None,
    random_state: Any = 0,
    pos_label: Any = None,
    store: Any = None,
) -> Any:
    r"""Compute the whole map of the asymmetric-cost linear SVM over its two costs.

    .. math:: \min_\beta \tfrac12 |\beta|^2 + C_+ \sum_{y_i=+1} w_i \xi_i + C_- \sum_{y_i=-1} w_i \xi_i,
              \quad \xi_i = \max(0, 1 - y_i (x_i, B) \cdot \beta)

    Parameters
    ----------
    X : {array-like, sparse matrix, data frame} of shape (n_rows, n_features)
        Features; with ``kernel="precomputed"`` the kernel matrix (n_rows, n_rows). The atlas remembers the names of the
        columns of a data frame.
    y : array-like of shape (n_rows,)
        Any two labels.
    bias : float, default=1.0
        The constant B that is appended to each row; 0 for no intercept. Its square is added to a kernel.
    sample_weight : array-like of shape (n_rows,), optional
        Weights w_i >= 0 of the costs. A row of weight zero is dropped.
    kernel : {"linear", "poly", "rbf", "precomputed"} or callable, default="linear"
        Kernel, positive semidefinite; a callable takes two sets of rows and returns the matrix of their kernels.
    gamma : {"scale", "auto"} or float, default="scale"
        Of "rbf" and "poly", as in scikit-learn's SVC.
    degree : float, default=3
        Of "poly".
    coef0 : float, default=0.0
        Of "poly".
    standardize : bool, default=False
        Scale the features to mean 0 (if X is dense; sparse features keep their zeros) and variance 1, over all rows with
        their weights. The atlas remembers the scaling. All queries take and give the units of X.
    feature_names : sequence of str, optional
        Names of the columns of X. Default: those of a data frame.
    region : ((lo, hi), (lo, hi)), optional
        Bounds for C+ and C-; hi may be infinite. Default: the entire quadrant, with infinity.
    start : (C_pos, C_neg), optional
        Where the exploration begins. The map does not depend on it, the layers do. Default: the smallest costs.
    max_facets : int, optional
        Stop after this many facets; the atlas is then valid but not complete.
    time_budget : float, optional
        Stop after about this many seconds, two more at most. To factor wide data or a kernel takes as long as it takes.
    progress : bool, default=False
        Show a progress bar (needs tqdm).
    n_jobs : int, optional
        Number of threads; -1 for all cores. Default: 1, or the workers of ``joblib.parallel_config`` if that is set.
    random_state : int, RandomState or None, default=0
        Seed of the jitter that splits ties, and of the names of facets.
    pos_label : int, str or other label, optional
        The label of the positive class, with cost C+. Default: the larger one in sorted order.

    store : str or path-like, optional
        A folder in which the map is built up, tile by tile, for maps that are larger than memory or take long; see
        :doc:`large`. If the folder holds a part of the same map, the exploration goes on there.

    Returns
    -------
    Atlas or AtlasStore
        The map; with ``store`` the open store. ``complete`` is False if it was stopped, also by Ctrl-C.

    Notes
    -----
    Inside ``with joblib.parallel_config(backend=...)`` tiles are explored where that says: in other processes ("loky"), or on
    a cluster ("dask").

    Raises
    ------
    MemoryError
        Before a large exploration begins, if a sample of it says that the memory available is surely not enough.
    ValueError
        If ``time_budget`` ends before a single facet is known.
    KeyboardInterrupt
        If Ctrl-C is pressed before that, or twice.
    FileError
        If ``store`` is a folder with something else, the store of another map or of another version, or in use.
    OSError
        If ``store`` cannot be written to. What was written stays, and the same call goes on with it.

    """
    bounds = check_bounds(region)
    start = _check_start(start, bounds)
    most = _check_most(max_facets)
    check_budget(time_budget)
    count_jobs(n_jobs)  # an error is one at once
    get_help(explore=True)
    with stoppable(time_budget) as limit:
        problem = make_problem(
            X, y, bias, sample_weight, random_state, kernel, gamma, degree, coef0, standardize, feature_names, pos_label
        )
        said = [warn(problem) for warn in (_warn_of_weights, _warn_of_scales, _warn_of_rows)]
        if store is not None:
            task = Task(problem, bounds, start, random_state is None)
            stored = explore_into(store, task, partial(first_state, problem, bounds, start), n_jobs, most, limit, progress)
            limit.answered = True
            if not any(said):
                warn_of_doubts(stored)
            return stored
        run = _Run(problem, bounds, start, n_jobs, most, progress)
        atlas = run.map(limit)
        limit.answered = True
    said += [warn(atlas) for warn in (_warn_of_region, _warn_of_pieces)]
    if not any(said):
        warn_of_doubts(atlas)
    return atlas


class _Run(NamedTuple):
    """What is to be explored."""

    problem: Problem
    bounds: Bounds
    start: tuple[float, float] | None
    n_jobs: int | None
    most: float
    progress: bool

    def map(self, limit: Limit) -> Atlas:
        """Explore; without plateaus (plateaus.py), if nothing speaks against it."""
        if self.most == np.inf:
            with suppress(UnclosedError, EngineError):
                return self._map(limit, leave_out=True)
        return self._map(limit, leave_out=False)

    def _map(self, limit: Limit, leave_out: bool) -> Atlas:
        """Explore, with plateaus or without."""
        problem, bounds = self.problem, self.bounds
        state, jobs = first_state(problem, bounds, self.start, limit), count_jobs(self.n_jobs)
        surveyor = Surveyor(problem, bounds)
        if leave_out:
            surveyor.leave_out_plateaus()
        place = self.start or (bounds[0][0], bounds[1][0])
        if self.most == np.inf:
            check_memory(surveyor, jobs, limit)
        joiner = Joiner(surveyor.engine, surveyor.region, state)
        survey = limit.within(SURVEY_SHARE * limit.left)
        found = (
            survey_elsewhere(surveyor, self.n_jobs, survey, as_found)
            if self.most == np.inf and is_elsewhere()
            else surveyor.survey(state, place, jobs, self.most, survey, as_found)
        )
        with _bar(self.progress) as show:
            for facets in found:
                joiner.add(facets)
                show(facets, surveyor)
        surveyor.engine.memory.take()  # and let go of it: joining needs room
        with make_pool(jobs) as pool:
            canonical = unite(joiner, pool, NEVER if surveyor.complete else Limit(GRACE))
        set_upright(canonical.mesh, bounds, problem.cost_exponent)
        return Atlas(problem, bounds, canonical, surveyor.complete, surveyor.engine.counts)


# ----------------------------------------------------------------------------------------------------------------------
# The start


def first_state(problem: Problem, bounds: Bounds, start: tuple[float, float] | None, limit: Limit) -> npt.NDArray[np.int8]:
    """Partition at the start, or at the smallest costs."""
    if start is None and bounds[0][0] == bounds[1][0] == 0:
        return np.full(problem.n_points, INSIDE, dtype=np.int8)
    return state_at(problem, *_inside(start or (bounds[0][0], bounds[1][0]), bounds), limit)


def _inside(goal: tuple[float, float], bounds: Bounds) -> tuple[float, float]:
    """A point close to the goal in the interior of the region."""
    moved = []
    for value, (lo, hi) in zip(goal, bounds, strict=True):
        middle = (lo + hi) / 2 if np.isfinite(hi) else 2 * max(lo, value, np.finfo(float).tiny ** 0.5)
        thin = hi - lo < NARROW * hi
        moved.append(middle if thin else value + INWARD * (middle - value))
    return moved[0], moved[1]


# ----------------------------------------------------------------------------------------------------------------------
# Arguments


def _check_start(start: Any, bounds: Bounds) -> tuple[float, float] | None:
    if start is None:
        return None
    try:
        a, b = (float(v) for v in start)
    except (TypeError, ValueError):
        raise ValueError(f"start must be a pair (C_pos, C_neg), got {shown(start)}") from None
    for name, value, (lo, hi) in zip(("C_pos", "C_neg"), (a, b), bounds, strict=True):
        if not (np.isfinite(value) and lo <= value <= hi):
            raise ValueError(f"start: {name} = {value} is not in the region [{lo}, {hi}]")
    return a, b


def _warn_of_region(atlas: Atlas) -> bool:
    """Warn of a region that is so thin, or so far out, that what splits ties decides about its facets."""
    for name, (lo, hi) in zip(("C+", "C-"), atlas.region, strict=True):
        if np.isfinite(hi) and hi - lo < THIN * hi:
            warn_of_accuracy(
                f"region: {name} from {lo!r} to {hi!r} is too thin for polygons to be exact, models are: use svmatlas.segment"
            )
            return True
    mesh, sides = atlas._mesh, make_region(atlas.region, atlas._problem.cost_exponent).sides
    edges = np.flatnonzero(mesh.edge_code < 0)
    line, ends = sides[-1 - mesh.edge_code[edges]][:, None], mesh.vertices[mesh.edge_vertices[edges]]
    aside = bool(np.any(np.abs((line * ends).sum(axis=2)) > ASIDE * (np.abs(line) * ends).sum(axis=2)))
    if aside:
        unit = float(np.ldexp(1.0, int(np.clip(-atlas._problem.cost_exponent, -1000, 1000))))
        warn_of_accuracy(
            f"region: its costs are far beyond those around {unit:.0e} that matter by the scale of the data: polygons are not "
            "exact there, models are; use smaller costs, or standardise the features"
        )
    return aside


def _warn_of_weights(problem: Problem) -> bool:
    """Warn of points that count only at costs where those of large weight, and long rows, are beyond all digits."""
    weight = problem.data.weight
    pull = weight * problem.data.norm
    ratio = float(pull.max() / pull[pull > 0].min()) if np.any(pull > 0) else 1.0
    faint = ratio > FAINT
    if faint:
        warn_of_accuracy(
            f"sample_weight: the weights of rows differ by a factor of {weight.max() / weight.min():.0e}, and times the "
            f"lengths of rows by {ratio:.0e}: polygons at large costs are not exact, models are; give rows that hardly "
            "count the weight zero"
        )
    return faint


def _warn_of_scales(problem: Problem) -> bool:
    """Warn of rows whose columns, or the bias, differ too much in scale; the jitter says how much."""
    jitter = largest_jitter(problem.data)
    condition = TAME * np.sqrt(JITTER / jitter) if jitter > 0 else 1.0
    if condition > STEEPEST:
        warn_of_accuracy(
            f"columns of X and the bias differ in scale by a factor of {condition:.0e}: polygons are not exact, models are; "
            "standardise the features"
        )
    lost = problem.features.lost()
    if lost > LOST:
        warn_of_accuracy(
            f"columns of X and the bias depend on each other up to a part of {lost:.0e} that is no rounding: polygons are not "
            "exact, models are; standardise the features, or leave out such columns"
        )
    return bool(condition > STEEPEST or lost > LOST)


def _warn_of_pieces(atlas: Atlas) -> bool:
    """Warn of pieces that could not be put together, because rounding or the jitter says which rows are tied."""
    fault = _fault_of_pieces(atlas)
    if fault is not None:
        warn_of_accuracy(fault)
    return fault is not None


def _fault_of_pieces(atlas: Atlas) -> str | None:
    """Why pieces are shown that could not be put together, and what would help; None if that is as it should be."""
    data, split = atlas._problem.data, atlas._canonical.split
    if atlas._canonical.mesh is not split.mesh or not split.tie.any():
        return None
    if largest_jitter(data) < ROUNDED:
        parts = in_parts(np.flatnonzero(split.tie), BLOCK)
        if any(_has_dependent(data.rows, split.states(part) == MARGIN) for part in parts):
            return (
                "X, or its kernel matrix, is so badly conditioned that rounding decides which rows are tied: some facets are "
                "rounding errors, models are right; standardise the features, or choose a region of smaller costs"
            )
        return None
    region = make_region(atlas.region, atlas._problem.cost_exponent)
    parts = in_parts(np.flatnonzero(split.kind == CROWDED), BLOCK)
    if any(find_tied(data, region, split, part)[2].any() for part in parts):
        return (
            "some rows are so nearly tied that the jitter which splits ties decides about them: facets are shown in pieces, "
            "and some depend on random_state, models are right; round X, or transform columns in which few values are huge"
        )
    return None


def _has_dependent(rows: npt.NDArray[np.float64], margin: npt.NDArray[np.bool_]) -> bool:
    """Whether the rows on the margin of a piece depend on each other up to rounding, whatever the scales of columns."""
    counts = margin.sum(axis=1)
    for m in np.unique(counts[counts > 0]).tolist():
        own = rows[np.nonzero(margin[counts == m])[1].reshape(-1, m)]
        own = own / np.linalg.norm(own, axis=2, keepdims=True)
        sizes = np.linalg.svd(own / np.maximum(np.abs(own).max(axis=1, keepdims=True), np.finfo(float).tiny), compute_uv=False)
        if np.any(sizes[:, -1] < DEPENDENT * sizes[:, 0]):
            return True
    return False


def _warn_of_rows(problem: Problem) -> bool:
    """Warn of rows that are nearly equal, but not so nearly that they are tied: jitter and rounding move corners between them.

    Rows that are close to each other are so along any direction; those that are neighbours there are looked at. Jitter counts
    beside the length of a row. Rounding is that of each entry: rows that differ in a small column alone are not close by it.
    """
    data = problem.data
    rows = data.rows * np.where(data.axis == P, 1.0, -1.0)[:, None]
    order = np.argsort(rows @ np.cos(np.arange(rows.shape[1])), kind="stable")
    step, size = np.abs(np.diff(rows[order], axis=0)), np.abs(rows[order])
    with np.errstate(divide="ignore", invalid="ignore"):  # rows of zeros
        apart = np.linalg.norm(step, axis=1) / data.norm[order[1:]]
        by_entry = np.nanmax(step / np.maximum(size[1:], size[:-1]), axis=1, initial=0.0)
        jitter = largest_jitter(data)
        moved = np.where(apart > TIED, np.maximum(jitter / apart, ROUNDED / by_entry), 0.0)
    k = int(np.argmax(moved)) if moved.size else -1
    if k < 0 or not moved[k] > MOVED:
        return False
    i, j = sorted(problem.first_rows[order[k : k + 2]].tolist())
    warn_of_accuracy(
        f"rows {i} and {j} of X differ by {apart[k]:.0e} of their length: corners of facets between them are known to about "
        f"{min(1.0, moved[k]):.0e} only, models are right; round X, so that such rows are equal"
    )
    return True


def _check_most(max_facets: Any) -> float:
    if max_facets is not None and not max_facets >= 1:
        raise ValueError(f"max_facets must be at least 1, got {max_facets}")
    return np.inf if max_facets is None else int(max_facets)


def count_jobs(n_jobs: int | None) -> int:
    """Number of threads that the user asks for, here or by ``joblib.parallel_config``."""
    return 1 if n_jobs is None and is_elsewhere() else count_workers(n_jobs)


@contextmanager
def _bar(progress: bool) -> Iterator[Any]:
    """A function that shows the state of the run after each tile."""
    if not progress:
        yield lambda facets, surveyor: None
        return
    count = 0
    with make_bar(" tiles", 1) as bar:

        def show(facets: Facets, surveyor: Surveyor) -> None:
            nonlocal count
            count += facets.n_pieces
            bar.set_postfix_str(f"{count} facets", refresh=False)
            move_to(bar, surveyor.n_tiles, surveyor.n_known)

        yield show
