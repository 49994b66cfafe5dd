"""Costs and facets -> solutions, each with its duality gap.

A solution is read off the affine maps of its facet. Where its gap is not what rounding allows (costs on a tie, where jitter
and rounding decide which facet they are in, or maps that are too ill-conditioned for doubles), the facets nearby are tried,
and in the end exact arithmetic.

Far out the jitter of the weights, times the costs, is more than the width of facets: the facet of the jittered data that holds
the costs need not be that of the data as they are. Nor does the gap tell, which is relative to an objective that hardly
depends on the length of beta. There the conditions of optimality are decided exactly, for the data as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.data.features import lift
from svmatlas.engine.exact import ExactFacet, ExactProblem
from svmatlas.engine.maps import affine_maps
from svmatlas.engine.workspace import INSIDE, MARGIN, Data, L, P, Q, Region
from svmatlas.models.gap import beyond_rounding, relative_gap
from svmatlas.support.stopping import NEVER, Limit
from svmatlas.support.threads import limit_blas

Floats = npt.NDArray[np.float64]
States = npt.NDArray[np.int8]

ENTRIES = 2**16
"""Numbers in the arrays (n, N) of the solutions that are computed at once: these stay in the processor's cache."""

CANCELLED = 2.0**-50
"""A weight below this times the size of the three terms that it is the sum of is zero: each term carries a few roundings."""

ALARM = 1e-11
"""Relative duality gap of a solution beyond which a better one is looked for: rounding leaves some 1e-14."""

FAR = 2.0**40
"""Costs, in units of the data, from which on the jitter (2^-43 of them) may decide which facet holds them."""

MOST_EXACT = 48
"""Partitions of a group that are tried in exact arithmetic, the likeliest first."""

STEPS = (8, 16, 24, 32, 40, 48, 64, 96, 128, 256)
"""Powers of two of large costs, in units of the data, where facets for larger ones are looked for: there the last change is
most often below 2^30."""


class Solution(NamedTuple):
    """Solutions at n costs."""

    share: Floats  # (n, N) dual variables of the points as shares of their bounds
    beta: Floats  # (n, d) internal weights
    gap: Floats  # (n,) duality gap relative to the primal objective
    lossless: npt.NDArray[np.bool_]  # (n, N) points that are not inside the margin


def solve(data: Data, region: Region, states: States, c: Floats) -> Solution:
    """Solutions at homogeneous costs (n, 3) with l > 0 for given partitions (n, N)."""
    size = max(1, ENTRIES // max(1, data.weight.size))
    parts = [slice(k, k + size) for k in range(0, max(len(c), 1), size)]
    solutions = [_solve(data, states[part], c[part], *_evaluate(data, region, states[part], c[part])) for part in parts]
    return Solution(*(np.concatenate(arrays) for arrays in zip(*solutions, strict=True)))


def solve_on_plateau(data: Data, region: Region, states: States, c: Floats, beside: States, at: Floats) -> Solution:
    """Solutions on plateaus (plateaus.py): beta is that of the partition, alpha that of another one at smaller costs."""
    _, beta = _evaluate(data, region, states, c)
    plateau = _plateau_of(data, states)
    alpha_map, beta_map = affine_maps(data, region, beside, jitter=0.0, accuracy=0.0)
    at = _without_jitter(beta_map, beta, plateau, at)
    held = np.where(beside == INSIDE, data.weight * at[:, data.axis], np.einsum("kci,kc->ki", alpha_map, at))
    return _solve(data, np.where(data.axis == plateau[:, None], MARGIN, INSIDE), c, held, beta)


def solve_with_alpha(data: Data, region: Region, states: States, c: Floats, held: Floats) -> Solution:
    """The same where alpha times l is given."""
    _, beta = _evaluate(data, region, states, c)
    return _solve(data, np.where(data.axis == _plateau_of(data, states)[:, None], MARGIN, INSIDE), c, held, beta)


def _plateau_of(data: Data, states: States) -> npt.NDArray[np.integer]:
    """The classes that M is all of."""
    axes: npt.NDArray[np.integer] = data.axis[np.argmax(states == MARGIN, axis=1)]
    return axes


def _without_jitter(beta_map: Floats, beta: Floats, axes: npt.NDArray[np.integer], at: Floats) -> Floats:
    """Homogeneous costs (n, 3) close to given ones, on these axes, where the maps come closest to given weights."""
    each, moved = np.arange(len(at)), at.copy()
    slope = beta_map[each, axes]
    apart = np.einsum("kc,kcj->kj", at, beta_map) - at[:, L, None] * beta
    with np.errstate(all="ignore"):
        step = np.nan_to_num((apart * slope).sum(axis=1) / (slope * slope).sum(axis=1))
    near = np.abs(step) <= NEARBY * at[each, axes]
    moved[each, axes] -= np.where(near, step, 0.0)
    return moved


NEARBY = 2.0**-20
"""Relative distance that the jitter, 1e-13, moves the floor of a plateau at most, at any angle."""


def is_doubtful(solution: Solution, c: Floats) -> npt.NDArray[np.bool_]:
    """Which of some solutions (n,) are not proven by their gap: a better one may be found by ``choose``."""
    doubtful: npt.NDArray[np.bool_] = (solution.gap > ALARM) | is_far(c)
    return doubtful


def is_far(c: Floats) -> npt.NDArray[np.bool_]:
    """Which homogeneous costs (n, 3) are so large that the jitter matters."""
    far: npt.NDArray[np.bool_] = np.maximum(c[:, P], c[:, Q]) > FAR * c[:, L]
    return far


def choose(data: Data, region: Region, groups: Iterable[States], c: Floats, limit: Limit = NEVER) -> tuple[int, Solution]:
    """Which of some partitions is right at homogeneous costs (3,), and its solution.

    Partitions come in groups (k, N), and are numbered through. A later group is looked at if the earlier ones hold none that
    is proven to be right. If there is no such one at all, it is that of the smallest gap.
    """
    problem = ExactProblem(data, region, 0.0, limit)
    best, chosen, count = -1, None, 0
    for states in groups:
        k, solution, proven = _choose(problem, states, c)
        if chosen is None or proven or solution.gap[0] < chosen.gap[0]:
            best, chosen = count + k, solution
        if proven:
            break
        count += len(states)
    assert chosen is not None
    return best, chosen


def _choose(problem: ExactProblem, states: States, c: Floats) -> tuple[int, Solution, bool]:
    """The same for one group, and whether the solution is proven: by its gap, or at large costs by exact arithmetic."""
    data, far = problem.data, bool(is_far(c[None])[0])
    trials = solve(data, problem.region, states, np.repeat(c[None], len(states), axis=0))
    for k in _by_likelihood(trials)[: MOST_EXACT if far else 0].tolist():
        facet = ExactFacet(problem, states[k])
        if facet.is_optimal(c):
            return k, _solve_exactly(data, facet, c), True
    best = int(np.argmin(trials.gap))
    solution = Solution(*(array[best : best + 1] for array in trials))  # type: ignore[arg-type]
    if solution.gap[0] > ALARM:
        exact = _solve_exactly(data, ExactFacet(problem, states[best]), c)
        solution = exact if exact.gap[0] < solution.gap[0] else solution
    return best, solution, not far and bool(solution.gap[0] <= ALARM)


def _by_likelihood(trials: Solution) -> npt.NDArray[np.intp]:
    """First those with a small gap, the shortest beta first, then the others."""
    with np.errstate(over="ignore"):
        length = np.nan_to_num(np.linalg.norm(trials.beta, axis=1), nan=np.inf)
    return np.lexsort([length, np.where(trials.gap > ALARM, trials.gap, 0.0)])


def _solve_exactly(data: Data, facet: ExactFacet, c: Floats) -> Solution:
    """One solution, read off in exact arithmetic."""
    alpha, beta = facet.solution(c)
    return _solve(data, facet.state[None], c[None], alpha[None], beta[None] / c[L])


def smaller_costs(c: Floats) -> Floats:
    """Homogeneous costs (n, 3) on the ways down from large ones (3,): both costs shrink by one factor, or one alone."""
    top, found = max(c[P], c[Q]), []
    for axes in ([P, Q], [P], [Q]):
        for step in STEPS:
            moved = c.copy()
            moved[axes] *= 2.0**step * c[L] / top
            if moved[axes].max() > 0.0 and 2.0**step * c[L] < top:
                found.append(moved / moved.max())
    return np.array(found).reshape(-1, 3)


def solution_maps(data: Data, region: Region, state: States) -> tuple[Floats, Floats]:
    """The maps of alpha (3, N), of points inside the margin too, and of beta (3, d) in one facet."""
    alpha, beta = affine_maps(data, region, state[None], jitter=0.0, accuracy=0.0)
    inside = np.flatnonzero(state == INSIDE)
    alpha[0, data.axis[inside], inside] = data.weight[inside]
    return alpha[0], beta[0]


def _evaluate(data: Data, region: Region, states: States, c: Floats) -> tuple[Floats, Floats]:
    """Alpha times l on M, and beta."""
    alpha_map, beta_map = affine_maps(data, region, states, jitter=0.0, accuracy=0.0)
    with np.errstate(all="ignore"):  # what overflows is no solution
        terms = beta_map * (c / c[:, L, None])[:, :, None]
        beta = terms.sum(axis=1)
        beta[np.abs(beta) <= CANCELLED * np.abs(terms).sum(axis=1)] = 0.0
        return np.einsum("kci,kc->ki", alpha_map, c), beta


def _solve(data: Data, states: States, c: Floats, alpha: Floats, beta: Floats) -> Solution:
    """Put alpha into its bounds, lift beta (see ``features.lift``), and measure the gap."""
    bound, root = data.weight * c[:, data.axis], np.sqrt(c[:, L])
    with limit_blas(), np.errstate(all="ignore"):  # what overflows is no solution, and has an infinite gap
        share = np.divide(alpha, bound, out=np.zeros_like(alpha), where=bound > 0)
        share[states == INSIDE] = 1.0
        share = np.clip(np.nan_to_num(share), 0, 1)
        lossless = states != INSIDE
        beta = beta * lift(beta @ data.columns, np.sqrt(beta**2 @ data.columns**2), lossless, beta.shape[1])[:, None]
        held = share * bound
        length = np.linalg.norm(root[:, None] * beta - held @ data.rows / root[:, None], axis=1)
        apart = beyond_rounding(length, held, data.norm, root)
        gap = relative_gap(1.0 - beta @ data.columns, apart, np.linalg.norm(root[:, None] * beta, axis=1), held, bound)
    return Solution(share, beta, gap, lossless)
