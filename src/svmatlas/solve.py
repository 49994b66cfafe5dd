"""Costs and facets -> solutions, each with its duality gap.

A solution is read off the affine maps of its facet. Where its gap is not what rounding allows (costs on a tie, where jitter
and rounding decide which facet they are in, or maps that are too ill-conditioned for doubles), the facets nearby are tried,
and in the end exact arithmetic.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.exact import ExactFacet, ExactProblem
from svmatlas.facet import INSIDE, WEIGHT, Data, L, Region
from svmatlas.features import lift
from svmatlas.maps import affine_maps

Floats = npt.NDArray[np.float64]
States = npt.NDArray[np.int8]

CHUNK = 256
"""Solutions computed at once: some (256, 3, N) arrays."""

CANCELLED = 2.0**-50
"""A weight below this times the size of the three terms that it is the sum of is zero: each term carries a few roundings."""

ALARM = 1e-11
"""Relative duality gap of a solution beyond which a better one is looked for: rounding leaves some 1e-14."""


class Solution(NamedTuple):
    """Solutions at n costs."""

    share: Floats  # (n, N) dual variables of the points as shares of their bounds
    beta: Floats  # (n, d) internal weights
    gap: Floats  # (n,) duality gap relative to the primal objective
    lossless: npt.NDArray[np.bool_]  # (n, N) points that are not inside the margin


def solve(data: Data, region: Region, states: States, c: Floats) -> Solution:
    """Solutions at homogeneous costs (n, 3) with l > 0 for given partitions (n, N)."""
    parts = [slice(k, k + CHUNK) for k in range(0, max(len(c), 1), CHUNK)]
    solutions = [_solve(data, states[part], c[part], *_evaluate(data, region, states[part], c[part])) for part in parts]
    return Solution(*(np.concatenate(arrays) for arrays in zip(*solutions, strict=True)))


def solve_exactly(data: Data, region: Region, state: States, c: Floats) -> Solution:
    """One solution, read off in exact arithmetic."""
    alpha, beta = ExactFacet(ExactProblem(data, region, jitter=0.0), state).solution(c)
    return _solve(data, state[None], c[None], alpha[None], beta[None] / c[L])


def solution_maps(data: Data, region: Region, state: States) -> tuple[Floats, Floats]:
    """The maps of alpha (3, N), of points inside the margin too, and of beta (3, d) in one facet."""
    alpha, beta = affine_maps(data, region, state[None], jitter=0.0, accuracy=0.0)
    inside = np.flatnonzero(state == INSIDE)
    alpha[0, data.axis[inside], inside] = data.point[WEIGHT, inside]
    return alpha[0], beta[0]


def _evaluate(data: Data, region: Region, states: States, c: Floats) -> tuple[Floats, Floats]:
    """Alpha times l on M, and beta."""
    alpha_map, beta_map = affine_maps(data, region, states, jitter=0.0, accuracy=0.0)
    terms = beta_map * (c / c[:, L, None])[:, :, None]
    beta = terms.sum(axis=1)
    beta[np.abs(beta) <= CANCELLED * np.abs(terms).sum(axis=1)] = 0.0
    return np.einsum("kci,kc->ki", alpha_map, c), beta


def _solve(data: Data, states: States, c: Floats, alpha: Floats, beta: Floats) -> Solution:
    """Put alpha into its bounds, lift beta (see ``features.lift``), and measure the gap."""
    bound, l = data.point[WEIGHT] * c[:, data.axis], c[:, L]
    share = np.divide(alpha, bound, out=np.zeros_like(alpha), where=bound > 0)
    share[states == INSIDE] = 1.0
    share = np.clip(share, 0, 1)
    lossless = states != INSIDE
    beta = beta * lift(beta @ data.columns, np.sqrt(beta**2 @ data.columns**2), lossless, beta.shape[1])[:, None]
    hinge = np.maximum(0.0, 1.0 - beta @ data.columns)
    held = share * bound
    pull = held @ data.rows / l[:, None]
    primal = 0.5 * l * np.einsum("ij,ij->i", beta, beta) + np.einsum("ij,ij->i", bound, hinge)  # all times l: no overflow
    dual = held.sum(axis=1) - 0.5 * l * np.einsum("ij,ij->i", pull, pull)
    gap: Floats = np.abs(primal - dual) / np.maximum(primal, np.finfo(float).tiny)
    gap[np.isnan(gap)] = np.inf
    return Solution(share, beta, gap, lossless)
