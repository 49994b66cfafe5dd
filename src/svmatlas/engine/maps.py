"""Partitions -> their affine maps A and Beta, for reports: as accurate as asked for, whatever the conditioning."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from svmatlas.engine.compiled import entry_noalloc
from svmatlas.engine.exact import ExactFacet, ExactProblem
from svmatlas.engine.facet import drift_of, take_up
from svmatlas.engine.refinement import refine
from svmatlas.engine.workspace import Data, Region, make_space, open_task

Floats = npt.NDArray[np.float64]


@entry_noalloc
def _affine_maps(task, states, drift, jitter, accuracy, alpha, beta, hopeless):
    task.jitter = jitter
    moves = task.state.size
    for f in range(states.shape[0]):
        moves = take_up(task, states, f, f - 1, drift, moves)
        hopeless[f] = task.facet.refined == -1
        bad = False
        for c in range(3):
            bad = bad or task.maps.eta[c] > accuracy * task.maps.length[c]
            for j in range(task.facet.n_margin):
                bad = bad or task.factor.rho[j] * task.maps.eta[c] > accuracy * abs(task.maps.alpha[c, j])
        maps = task.maps
        refined = bad and not hopeless[f]
        if refined:
            refine(task)
        from_alpha, from_beta, eta = (
            (maps.alpha_hi, maps.beta_hi, maps.eta_dd) if refined else (maps.alpha, maps.beta, maps.eta)
        )
        for c in range(3):
            error = eta[c]
            for j in range(beta.shape[2]):
                b = from_beta[c, j]
                if abs(b) > error:
                    beta[f, c, j] = b
            for j in range(task.facet.n_margin):
                a = from_alpha[c, j]
                if abs(a) > task.factor.rho[j] * error:
                    alpha[f, c, task.factor.member[j]] = a


def affine_maps(
    data: Data,
    region: Region,
    states: npt.NDArray[np.int8],
    jitter: float,
    accuracy: float,
    exact: ExactProblem | None = None,
) -> tuple[Floats, Floats]:
    """The maps A (n, 3, N) and Beta (n, 3, d) of some partitions.

    Maps with an entry whose relative error bound is larger than ``accuracy`` are refined to a few roundings, in exact
    arithmetic if need be, that of ``exact`` if it is given, with the same jitter. What is smaller than its error bound is
    zero.
    """
    (n, d), count = data.rows.shape, states.shape[0]
    alpha, beta, hopeless = np.zeros((count, 3, n)), np.zeros((count, 3, d)), np.zeros(count, dtype=bool)
    space = make_space(data, region, closing=False)
    _affine_maps(open_task(data, region, space), states, drift_of(data, 1), jitter, accuracy, alpha, beta, hopeless)
    if hopeless.any():
        problem = exact or ExactProblem(data, region, jitter)
        for f in np.flatnonzero(hopeless):
            alpha[f], beta[f] = ExactFacet(problem, states[f]).maps()
    return alpha, beta
