"""Infinite costs: the limit of the solutions on the way there.

Costs grow as ``rest + t * direction``, with direction (1, 0), (0, 1) or (1, 1). From some t on they stay in one facet, and
there beta is constant: the facet reaches infinity in that direction, so v = Beta * direction is zero (v.v is a sum of products
alpha_i x_i.v over I, none of them positive). Alpha is affine in t: each of its entries has a limit or grows without bound.

That facet is found by its certificate, not by a large t: the jitter of the weights, harmless at finite costs, turns the
lines that meet at infinity, and rounding errors of the data do when t is their inverse. So the facets at growing t are tried,
and the first one that satisfies the conditions of optimality in the limit, for the data as they are, is right: up to rounding,
so that ties of decimal numbers are ties, or, where weights are of very different size, exactly.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.data.features import lift
from svmatlas.engine.exact import ExactFacet, ExactProblem
from svmatlas.engine.workspace import INSIDE, MARGIN, OUTSIDE, Data, Region
from svmatlas.models.solve import STEPS, choose, solution_maps

Floats = npt.NDArray[np.float64]
States = npt.NDArray[np.int8]

FLAT = 2.0**-40
"""A slope of alpha in t below this, relative to the largest slope and weight, is zero: rounding leaves some 1e-15 times
the conditioning."""


VALID = 2.0**-30
"""Relative violation of the conditions of optimality up to which a limit is right."""


class LimitSolution(NamedTuple):
    """A solution at infinity, as one facet has it."""

    alpha: Floats  # (N,) dual variables of the points, in units of l = 1; may be infinite
    beta: Floats  # (r,) internal weights
    lossless: npt.NDArray[np.bool_]  # (N,) points that are not inside the margin
    violation: float  # of the conditions of optimality, relative
    facet: int
    longer: float = 0.0  # what is added to the objective, relative, by weights that are longer so that no loss is left


class Way(NamedTuple):
    """The way to infinite costs, internal and homogeneous."""

    direction: Floats  # (3,)
    rest: Floats  # (3,)
    stops: Floats  # (n, 3) costs on the way


def way_to(C_pos: float, C_neg: float, cost_exponent: int) -> Way:
    """The way to a pair of costs of which one or both are infinite."""
    costs = np.array([C_pos, C_neg, 1.0])
    far = np.isinf(costs)
    with np.errstate(over="ignore"):
        rest = np.where(far, 0.0, np.ldexp(np.where(far, 0.0, costs), [cost_exponent, cost_exponent, 0]))
    if not np.all(np.isfinite(rest)):
        raise ValueError(f"costs ({C_pos:g}, {C_neg:g}) are out of range by the scale of the data: make both infinite")
    stops = rest / rest.max() + np.ldexp(1.0, STEPS)[:, None] * far
    return Way(far.astype(float), rest, stops / stops.max(axis=1, keepdims=True))


def first_limit(data: Data, region: Region, facets: Iterable[tuple[int, States]], way: Way) -> LimitSolution | None:
    """The limit in the first of the facets on the way, given with their partitions, where it is valid; else the best."""
    best, problem = None, ExactProblem(data, region, jitter=0.0)
    for n, (facet, state) in enumerate(facets):
        limit = _solve_limit(data, region, facet, state, way)
        if limit.violation <= VALID:  # up to rounding; what that hides shows at the last stop
            _, solution = choose(data, region, [state[None]], way.stops[-1])
            limit = limit._replace(violation=max(limit.violation, float(solution.gap[0])))
        if limit.violation > VALID and n < len(STEPS):
            limit = _limit_exactly(problem, facet, state, way) or limit
        if best is None or limit.violation < best.violation:
            best = limit
        if limit.violation <= VALID:
            break
    return best


def _limit_exactly(problem: ExactProblem, facet: int, state: States, way: Way) -> LimitSolution | None:
    """The limit if the given partition is that of the data as they are, by exact arithmetic; else None."""
    exact = ExactFacet(problem, state)
    if not exact.is_optimal(way.direction, way.rest):
        return None
    slope, _ = exact.solution(way.direction)
    rest, beta = exact.solution(way.rest)
    return _make_limit(problem.data, way, facet, state, slope, rest, beta, 0.0)


def _solve_limit(data: Data, region: Region, facet: int, state: States, way: Way) -> LimitSolution:
    """The limit on the way to infinity if the partition there is the given one, up to rounding."""
    alpha_map, beta_map = solution_maps(data, region, state)
    slope, rest = way.direction @ alpha_map, way.rest @ alpha_map
    slope_size = np.max(way.direction @ np.abs(alpha_map), initial=0.0) + data.weight.max(initial=0.0)
    rest_size = np.max(way.rest @ np.abs(alpha_map), initial=0.0)
    slope[np.abs(slope) <= FLAT * slope_size] = 0.0
    cap_slope, cap = data.weight * way.direction[data.axis], data.weight * way.rest[data.axis]
    beta = way.rest @ beta_map
    scores = data.rows @ beta
    margin, inside, outside = state == MARGIN, state == INSIDE, state == OUTSIDE
    full = slope >= (1 - FLAT) * cap_slope
    mass = cap_slope[inside] @ data.norm[inside]
    wrong = [
        _relative(np.linalg.norm(way.direction @ beta_map), mass),
        _relative(np.maximum(-slope, slope - cap_slope)[margin], slope_size),
        _relative(-rest[margin & (slope == 0)], rest_size),
        _relative((rest - cap)[margin & full], rest_size),
        _relative((1 - scores)[outside], 1 + data.norm[outside] * np.linalg.norm(beta)),
        _relative((scores - 1)[inside], 1 + data.norm[inside] * np.linalg.norm(beta)),
    ]
    return _make_limit(data, way, facet, state, slope, rest, beta, max(wrong))


def _make_limit(
    data: Data, way: Way, facet: int, state: States, slope: Floats, rest: Floats, beta: Floats, violation: float
) -> LimitSolution:  # fmt: skip
    """The limit from how fast alpha grows on the margin, from what it is on the way otherwise, and from beta."""
    inside = state == INSIDE
    cap_slope, cap = data.weight * way.direction[data.axis], data.weight * way.rest[data.axis]
    slope, rest = np.where(inside, cap_slope, slope), np.where(inside, cap, rest)
    alpha = np.where(slope > 0, np.inf, np.clip(rest, 0, np.where(cap_slope > 0, np.inf, cap)))
    factor = lift((data.rows @ beta)[None], np.sqrt(data.rows**2 @ beta**2)[None], ~inside[None], beta.size)[0]
    return LimitSolution(alpha, beta * factor, ~inside, violation, facet, float(factor**2 - 1.0))


def _relative(wrong: Floats | np.floating, size: Floats | np.floating) -> float:
    """The largest quotient, 0 if there is none."""
    wrong, size = np.broadcast_arrays(np.atleast_1d(wrong), size)
    return float(np.max(np.divide(wrong, size, out=np.zeros(size.shape), where=size > 0), initial=0.0))
