"""A facet in hand for tests of single kernels, which run uncompiled (NUMBA_DISABLE_JIT), and the same facet in Fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from svmatlas.data.problem import check_bounds, make_problem, make_region
from svmatlas.engine import clipping, polygon
from svmatlas.engine.compiled import UNCOMPILED
from svmatlas.engine.facet import drift_of, solve_maps, sum_pull
from svmatlas.engine.lines import tabulate_margin
from svmatlas.engine.workspace import INSIDE, MARGIN, OUTSIDE, make_space, make_task

if not UNCOMPILED:  # Python cannot call a compiled kernel that only kernels call
    pytest.exit("tests of single kernels need NUMBA_DISABLE_JIT=1", returncode=4)


def gaussian(n=9, d=3, scale=1.0, seed=0):
    """Generic rows; ``scale``: of the last column."""
    X = np.random.default_rng(seed).normal(size=(n, d))
    X[:, -1] *= scale
    return X, np.arange(n) % 2, 1.0, None


def nearly_dependent(gap=2.0**-20, seed=1):
    """Rows of which each two differ by a little."""
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(4, 3))
    return np.vstack([half, -half - gap * rng.normal(size=half.shape)]), np.arange(8) // 4, 1.0, None


def weighted(seed=2):
    X, y, bias, _ = gaussian(8, 2, seed=seed)
    return X, y, bias, np.random.default_rng(seed).uniform(0.1, 9.0, len(y))


def task_of(X, y, bias, weights):
    """A task in the whole quadrant, and its data."""
    problem = make_problem(np.asarray(X, float), np.asarray(y), bias, weights, 0)
    region = make_region(check_bounds(None), problem.cost_exponent)
    return make_task(problem.data, region, make_space(problem.data, region)), problem.data, region


def take(task, data, state):
    """Put a partition in hand; False if it is impossible."""
    task.state, task.drift = state, drift_of(data, state.size)
    sum_pull(data, state, task.pull)
    if not solve_maps(task):
        return False
    tabulate_margin(task)
    return True


def partitions(data, size, count=4, seed=0):
    """Partitions with so many points on the margin."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        state = rng.choice(np.array([INSIDE, OUTSIDE], np.int8), data.rows.shape[0])
        state[rng.choice(state.size, size, replace=False)] = MARGIN
        yield state


def fractions(values):
    return [Fraction(float(v)) for v in values]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def solve(matrix, right):
    """Solve equations in Fractions (Gauss-Jordan)."""
    rows = [[*a, *b] for a, b in zip(matrix, right, strict=True)]
    for k in range(len(rows)):
        pivot = next(i for i in range(k, len(rows)) if rows[i][k] != 0)
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [v / rows[k][k] for v in rows[k]]
        for i in range(len(rows)):
            if i != k:
                rows[i] = [v - rows[i][k] * w for v, w in zip(rows[i], rows[k], strict=True)]
    return [row[len(rows) :] for row in rows]


class Exact:
    """The maps of a partition in Fractions, with the jitter as it is."""

    def __init__(self, data, state):
        self.rows, self.state, self.axis = [fractions(row) for row in data.rows], state, data.axis
        self.weights = [a + b for a, b in zip(fractions(data.weight), fractions(data.weight_jitter), strict=True)]
        self.targets = [1 + r for r in fractions(data.target_jitter)]
        self.margin = np.flatnonzero(state == MARGIN).tolist()
        self.pull = [self.sum(np.flatnonzero((state == INSIDE) & (data.axis == c))) for c in range(2)]
        probe = fractions(data.probe)
        right = [[-dot(self.rows[i], b) for b in (*self.pull, probe)] + [self.targets[i]] for i in self.margin]
        gram = [[dot(self.rows[i], self.rows[j]) for j in self.margin] for i in self.margin]
        solution = solve(gram, right)
        self.alpha = [[row[0], row[1], row[3]] for row in solution]
        zero = [Fraction(0)] * len(probe)
        self.beta = [self.add(b, [row[c] for row in solution]) for c, b in enumerate((*self.pull, probe, zero))]
        self.free = self.beta.pop(2)  # what M leaves of the probe

    def sum(self, which):
        return [sum((self.weights[i] * self.rows[i][j] for i in which), Fraction(0)) for j in range(len(self.rows[0]))]

    def add(self, b, alpha):
        return [b[j] + sum(a * self.rows[i][j] for a, i in zip(alpha, self.margin, strict=True)) for j in range(len(b))]

    def line(self, code):
        """The line of a code: h.c >= 0."""
        i = code >> 1
        if i in self.margin:
            a = self.alpha[self.margin.index(i)]
            unit = [Fraction(0)] * 3
            unit[self.axis[i]] = self.weights[i]
            return a if code & 1 == 0 else [u - v for u, v in zip(unit, a, strict=True)]
        sign = 1 if self.state[i] == OUTSIDE else -1
        h = [dot(self.rows[i], b) for b in self.beta]
        return [sign * h[0], sign * h[1], sign * (h[2] - self.targets[i])]

    def codes(self):
        """Of all lines."""
        inner = [2 * i + t for i in self.margin for t in range(2)]
        return inner + [2 * i + (self.state[i] != OUTSIDE) for i in range(len(self.rows)) if i not in self.margin]


def cross(a, b):
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def close(task, data, state):
    """The polygon of a partition: its codes, or None if it has none or doubles do not tell."""
    if not take(task, data, state):
        return None
    outcome = polygon.close_facet(task, task.lines.no_hints)
    n = task.polygon.n_corners
    return task.edges.code[:n].tolist() if outcome == clipping.CLOSED else None


def closed_facets(task, data, count=60):
    """Facets that exist, reached from the origin, where all points are inside, by crossing edges."""
    waiting, seen = [np.full(data.rows.shape[0], INSIDE, np.int8)], set()
    while waiting and len(seen) < count:
        state = waiting.pop(0)
        if state.tobytes() in seen:
            continue
        seen.add(state.tobytes())
        codes = close(task, data, state)
        if codes is None:
            continue
        yield state, codes
        for code in codes:
            if code >= 0:
                new, i = state.copy(), code >> 1
                new[i] = (INSIDE if code & 1 else OUTSIDE) if state[i] == MARGIN else MARGIN
                waiting.append(new)
