"""The relative duality gap of a model, on the rows of the engine and on those of the user.

With scores g_i = x_i.beta, bounds b_i and dual variables 0 <= a_i <= b_i the gap is

    primal - dual = 1/2 |beta - X'a|^2 + sum_i (b_i max(0, 1 - g_i) - a_i (1 - g_i)),

a sum of terms that are not negative: nothing large cancels. Where costs are large, X'a is a small sum of large terms, and dual
variables in doubles do not say more about beta than their rounding allows (``SLIP``).

The rows of the engine are the user's own times a power of two, or else a factor of them (features.py). In the second case the
gap is measured once more, on the user's rows and with the weights as they are reported.
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from svmatlas.data.problem import Problem
from svmatlas.engine.workspace import L, P

if TYPE_CHECKING:
    from svmatlas.models.solve import Solution

Floats = npt.NDArray[np.float64]

SLIP = 2.0**-51
"""Rounding of a sum of rows, relative to the sum of their lengths times the square root of their number: four roundings of
each dual variable, and those of the sum itself."""

INACCURATE, INACCURATE_KERNEL = 1e-9, 1e-6
"""Relative duality gap of a reported model above which there is a warning: with a linear kernel, and with others, where large
costs multiply the rounding errors of the kernel matrix."""

ENTRIES = 2**22
"""Numbers in the arrays of the models that are measured at once."""


class AccuracyWarning(UserWarning):
    """A model whose relative duality gap on the given rows is above 1e-9 (1e-6 with a kernel), or a map that is not exact."""


def relative_gap(lack: Floats, apart: Floats, beta: Floats, held: Floats, bound: Floats) -> Floats:
    """Relative gaps (n,) of n models; all is multiplied by l, so that large costs do not overflow.

    ``lack`` (n, N) are the values 1 - g_i. ``apart`` (n,) and ``beta`` (n,) are the lengths of beta - X'a and of beta, times
    the root of l. ``held`` and ``bound`` (n, N) are a_i and b_i, times l.
    """
    with np.errstate(all="ignore"):  # what overflows is no solution
        loss = bound * np.maximum(0.0, lack)
        primal = 0.5 * beta**2 + loss.sum(axis=1)
        gap: Floats = (0.5 * apart**2 + (loss - held * lack).sum(axis=1)) / np.maximum(primal, np.finfo(float).tiny)
    gap[np.isnan(gap)] = np.inf
    return gap


def beyond_rounding(length: Floats, held: Floats, norm: Floats, root: Floats) -> Floats:
    """What rounding does not explain of the lengths (n,) of beta - X'a."""
    slip = SLIP * np.sqrt(norm.size) * (held @ norm) / root
    rest: Floats = np.maximum(0.0, length - slip)
    return rest


def user_gaps(problem: Problem, solution: Solution, c: Floats, weights: tuple[Floats, ...] | None = None) -> Floats:
    """Relative gaps (n,) of solutions at homogeneous costs (n, 3), as they are reported, on the user's rows.

    ``weights`` are what is reported of them (``Problem.report``); if they are not given they are made, some at a time.
    """
    features, n = problem.features, len(c)
    if features.factor is None or n == 0:
        return solution.gap
    measure = _linear_gaps if features.linear else _kernel_gaps
    size = max(1, ENTRIES // (problem.n_points + features.n_features + 1))
    found = []
    for part in (slice(k, k + size) for k in range(0, n, size)):
        if weights is None:
            reported = problem.report(solution.beta[part], solution.lossless[part])
        else:
            reported = tuple(array[part] for array in weights)
        with np.errstate(all="ignore"):  # what overflows is no solution
            found.append(measure(problem, solution.share[part], c[part], *reported))
    return np.concatenate(found)


def combination(problem: Problem, share: Floats, c: Floats) -> Floats:
    """The signed dual variables (n, m) of the distinct rows, in internal units and times l."""
    held = share * problem.data.weight * c[:, problem.data.axis]
    sums = np.zeros((problem.features.origin.size, len(share)))
    np.add.at(sums, problem.distinct, np.transpose(held * _sides(problem)))
    return sums.T


def _sides(problem: Problem) -> Floats:
    """The sign (N,) of each point."""
    return np.where(problem.data.axis == P, 1.0, -1.0)


def _linear_gaps(problem: Problem, share: Floats, c: Floats, coef: Floats, intercept: Floats) -> Floats:
    """Gaps of coefficients and intercepts on the user's rows."""
    features, root = problem.features, np.sqrt(c[:, L, None])
    sums = np.ldexp(combination(problem, share, c) / root, features.exponent)
    pull = np.column_stack([np.asarray(sums @ features.X), features.bias * sums.sum(axis=1)])
    constant = intercept / features.bias if features.bias else np.zeros(len(intercept))
    beta = root * np.ldexp(np.column_stack([coef, constant]), -features.exponent)
    scores = features.scores(coef, intercept)[:, problem.distinct] * _sides(problem)
    return _finish(problem, share, c, scores, np.linalg.norm(beta - pull, axis=1), np.linalg.norm(beta, axis=1))


def _kernel_gaps(problem: Problem, share: Floats, c: Floats, z: Floats) -> Floats:
    """Gaps of combinations of the user's rows by a nonlinear kernel."""
    root = np.sqrt(c[:, L, None])
    apart = root * z - combination(problem, share, c) / root
    products = problem.features.times_gram(np.concatenate([z, apart]))
    scores, turned = products[: len(z)], products[len(z) :]
    square = np.einsum("ij,ij->i", z, scores) * c[:, L], np.einsum("ij,ij->i", apart, turned)
    beta, length = (np.sqrt(np.maximum(s, 0.0)) for s in square)
    return _finish(problem, share, c, scores[:, problem.distinct] * _sides(problem), length, beta)


def _finish(problem: Problem, share: Floats, c: Floats, scores: Floats, length: Floats, beta: Floats) -> Floats:
    data = problem.data
    bound = data.weight * c[:, data.axis]
    held = share * bound
    apart = beyond_rounding(length, held, data.norm, np.sqrt(c[:, L]))
    return relative_gap(1.0 - scores, apart, beta, held, bound)


def warn_if_inaccurate(gaps: Floats, C_pos: Floats, C_neg: Floats, linear: bool) -> None:
    """Warn of the worst of some models, if it is inaccurate."""
    if not np.any(gaps > (INACCURATE if linear else INACCURATE_KERNEL)):
        return
    k = int(np.argmax(gaps))
    warn_of_accuracy(
        f"the model at costs ({C_pos[k]:g}, {C_neg[k]:g}) has a relative duality gap of {gaps[k]:.1e} on the given rows: "
        "columns of X are nearly dependent or differ much in scale; standardise them, or drop those that follow from others"
    )


def warn_of_accuracy(text: str) -> None:
    """Warn at the user's line."""
    warnings.warn(text, AccuracyWarning, stacklevel=_frames_inside() + 1)


def _frames_inside() -> int:
    """Number of calls between the user's line and this function."""
    frame, count = sys._getframe(1), 0
    while frame is not None and frame.f_globals.get("__name__", "").startswith("svmatlas."):
        frame, count = frame.f_back, count + 1  # type: ignore[assignment]
    return count
