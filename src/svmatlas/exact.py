"""The last level of the predicates: the lines of a facet in exact integers.

All data are doubles, so all data are integers over powers of two. With X = x / 2^e, w = v / 2^g, t = s / 2^f for
integers x, v, s the line of any code is an integer vector up to a positive factor, once the columns (p, q, l) are counted
in the units (2^-(g+2e), 2^-(g+2e), 2^-f); units of columns do not change the sign of a determinant.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from itertools import combinations

import numpy as np
import numpy.typing as npt

from svmatlas.facet import INSIDE, MARGIN, OUTSIDE, TARGET_LO, WEIGHT, WEIGHT_LO, Data, Region
from svmatlas.polygon import ASK_PENCIL, ASK_SIGN, TIE_LOSS, TIE_SHRINK

Line = tuple[int, int, int]


def integers(values: npt.NDArray[np.float64], low: npt.NDArray[np.float64] | None = None) -> tuple[list[int], int]:
    """Integers n and an exponent e with values (+ low) = n / 2^e exactly."""
    numbers = [Fraction(v) for v in values.ravel().tolist()]
    if low is not None:
        numbers = [a + Fraction(b) for a, b in zip(numbers, low.ravel().tolist(), strict=True)]
    e = max((n.denominator.bit_length() - 1 for n in numbers), default=0)
    return [n.numerator << (e - n.denominator.bit_length() + 1) for n in numbers], e


def solve_integer(matrix: list[list[int]], right: list[list[int]]) -> tuple[list[list[int]], int]:
    """Fraction-free Gauss-Jordan (Bareiss): the integer solution N and divisor D > 0 with matrix N = D right."""
    m = len(matrix)
    rows = [list(a) + list(b) for a, b in zip(matrix, right, strict=True)]
    previous = 1
    for k in range(m):
        pivot = rows[k][k]
        if pivot <= 0:
            raise ArithmeticError("the rows on the margin are linearly dependent: no facet has this partition")
        for i in range(m):
            if i != k:
                factor, row = rows[i][k], rows[i]
                rows[i] = [(pivot * a - factor * b) // previous for a, b in zip(row, rows[k], strict=True)]
        previous = pivot
    return [row[m:] for row in rows], previous


class ExactProblem:
    """The data as integers, with the jitter scaled by a factor; made once, on the first question."""

    def __init__(self, data: Data, region: Region, jitter: float = 1.0) -> None:
        self.data = data
        self.region = region
        self.jitter = jitter

    @cached_property
    def shrunk(self) -> ExactProblem:
        """The same with less jitter, to tell ties."""
        other = ExactProblem(self.data, self.region, TIE_SHRINK)
        other.__dict__["rows"] = self.rows
        return other

    def within(self, region: Region) -> ExactProblem:
        """The same in another region; the integers are shared."""
        other = ExactProblem(self.data, region, self.jitter)
        other.__dict__.update(rows=self.rows, targets=self.targets, weights=self.weights)
        return other

    @cached_property
    def rows(self) -> tuple[list[list[int]], int]:
        """Integer rows and their exponent."""
        flat, e = integers(self.data.rows)
        r = self.data.rows.shape[1]
        return [flat[i : i + r] for i in range(0, len(flat), r)], e

    @cached_property
    def targets(self) -> tuple[list[int], int]:
        """Integer targets and their exponent."""
        return integers(np.ones(self.data.point.shape[1]), self.jitter * self.data.point[TARGET_LO])

    @cached_property
    def weights(self) -> tuple[list[int], int]:
        """Integer weights and their exponent."""
        return integers(self.data.point[WEIGHT], self.jitter * self.data.point[WEIGHT_LO])

    def side(self, index: int) -> Line:
        """A side of the region as an integer line in the common units of the columns."""
        (_, e), (_, f), (_, g) = self.rows, self.targets, self.weights
        h = [Fraction(v) for v in self.region.sides[index].tolist()]
        unit = Fraction(2) ** (g + 2 * e)
        h = [h[0] * unit, h[1] * unit, h[2] * Fraction(2) ** f]
        common = max(v.denominator for v in h)
        p, q, l = (int(v * common) for v in h)
        return p, q, l


class ExactFacet:
    """The lines of one partition, exactly."""

    def __init__(self, problem: ExactProblem, state: npt.NDArray[np.int8]) -> None:
        self.problem = problem
        self.state = state
        x, _ = problem.rows
        weight, _ = problem.weights
        target, _ = problem.targets
        self.margin = np.flatnonzero(state == MARGIN).tolist()
        r = len(x[0])
        pull = [[0] * r, [0] * r]
        for i in np.flatnonzero(state == INSIDE).tolist():
            column = pull[problem.data.axis[i]]
            pull[problem.data.axis[i]] = [a + weight[i] * b for a, b in zip(column, x[i], strict=True)]
        rows = [x[i] for i in self.margin]
        gram = [[_dot(a, b) for b in rows] for a in rows]
        right = [[-_dot(a, pull[0]), -_dot(a, pull[1]), target[i]] for a, i in zip(rows, self.margin, strict=True)]
        self.alpha, self.divisor = solve_integer(gram, right)
        d = self.divisor
        self.beta = [[d * b for b in pull[0]], [d * b for b in pull[1]], [0] * r]
        for row, a in zip(rows, self.alpha, strict=True):
            self.beta = [[s + a[c] * v for s, v in zip(self.beta[c], row, strict=True)] for c in range(3)]

    def line(self, code: int) -> Line:
        """The line of a code."""
        if code < 0:
            return self.problem.side(-1 - code)
        i, kind = code >> 1, code & 1
        weight, _ = self.problem.weights
        if self.state[i] == MARGIN:
            a = self.alpha[self.margin.index(i)]
            if kind == 0:
                return a[0], a[1], a[2]
            bound = self.divisor * weight[i]
            return (bound - a[0], -a[1], -a[2]) if self.problem.data.axis[i] == 0 else (-a[0], bound - a[1], -a[2])
        x, t = self.problem.rows[0][i], self.problem.targets[0][i]
        p, q, l = _dot(x, self.beta[0]), _dot(x, self.beta[1]), _dot(x, self.beta[2]) - self.divisor * t
        return (p, q, l) if self.state[i] == OUTSIDE else (-p, -q, -l)

    def sign(self, a: int, b: int, k: int) -> int:
        """Side of line k on which the corner of lines a and b lies: -1, 0 or 1."""
        x, y = self.line(a), self.line(b)
        v = (x[1] * y[2] - x[2] * y[1], x[2] * y[0] - x[0] * y[2], x[0] * y[1] - x[1] * y[0])
        s = _dot(v, self.line(k))
        if max(v, key=abs) < 0:
            s = -s
        return (s > 0) - (s < 0)

    def maps(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """A (3, N) and Beta (3, d), correctly rounded."""
        (_, e), (_, f), (_, g) = self.problem.rows, self.problem.targets, self.problem.weights
        two = Fraction(2)
        alpha_unit, beta_unit = (two**-g, two**-g, two ** (2 * e - f)), (two ** (-g - e), two ** (-g - e), two ** (e - f))
        alpha = np.zeros((3, self.state.size))
        for i, a in zip(self.margin, self.alpha, strict=True):
            alpha[:, i] = [float(v * unit / self.divisor) for v, unit in zip(a, alpha_unit, strict=True)]
        beta = [[float(v * unit / self.divisor) for v in b] for b, unit in zip(self.beta, beta_unit, strict=True)]
        return alpha, np.array(beta)

    def solution(self, c: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Alpha (N,) on M and beta (d,), both times l, at homogeneous costs, correctly rounded."""
        (_, e), (_, f), (_, g) = self.problem.rows, self.problem.targets, self.problem.weights
        two, cost = Fraction(2), [Fraction(v) for v in c.tolist()]
        weights = [v * two**-g / self.divisor for v in cost[:2]] + [cost[2] * two ** (2 * e - f) / self.divisor]
        alpha = np.zeros(self.state.size)
        for i, a in zip(self.margin, self.alpha, strict=True):
            alpha[i] = float(sum(v * w for v, w in zip(a, weights, strict=True)))
        columns = zip(*self.beta, strict=True)
        return alpha, np.array([float(sum(v * w for v, w in zip(b, weights, strict=True)) / two**e) for b in columns])

    def corners(self, codes: list[int]) -> list[tuple[Fraction, Fraction, Fraction]]:
        """The corners between the edges of a polygon, largest entry 1."""
        (_, e), (_, f), (_, g) = self.problem.rows, self.problem.targets, self.problem.weights
        units = Fraction(2) ** f, Fraction(2) ** f, Fraction(2) ** (g + 2 * e)  # the inverse units of the columns
        out = []
        for a, b in zip(codes, codes[1:] + codes[:1], strict=True):
            x, y = self.line(a), self.line(b)
            v = (x[1] * y[2] - x[2] * y[1], x[2] * y[0] - x[0] * y[2], x[0] * y[1] - x[1] * y[0])
            scaled = [n / unit for n, unit in zip(v, units, strict=True)]
            top = max(scaled, key=abs)
            out.append((scaled[0] / top, scaled[1] / top, scaled[2] / top))
        return out

    def pencil(self, codes: list[int]) -> tuple[int, int]:
        """The tightest of parallel score lines on either side, -1 where there is none."""
        best: dict[bool, tuple[Fraction, int]] = {}
        for code in codes:
            h = self.line(code)
            slope = h[0] or h[1]
            if slope == 0:
                continue
            bound = Fraction(-h[2], abs(slope))  # direction * (p, q) / l >= bound
            if (slope > 0) not in best or bound > best[slope > 0][0]:
                best[slope > 0] = (bound, code)
        return tuple(best[side][1] if side in best else -1 for side in (True, False))  # type: ignore[return-value]


def _dot(a: list[int] | Line, b: list[int] | Line) -> int:
    return sum(map(int.__mul__, a, b))


def settle(problem: ExactProblem, state: npt.NDArray[np.int8], codes: list[int]) -> tuple[npt.NDArray[np.float64], bool]:
    """Corners of a polygon, correctly rounded, and whether the facet is a tie (see ``polygon.is_tie``)."""
    corners = ExactFacet(problem, state).corners(codes)
    full, less = _measure(corners), _measure(ExactFacet(problem.shrunk, state).corners(codes))
    tie = bool(less[0] <= TIE_LOSS**2 * full[0] or less[1] <= TIE_LOSS**2 * full[1])
    return np.array([[float(x) for x in v] for v in corners]), tie


Corner = tuple[Fraction, Fraction, Fraction]


def _cross(a: Corner, b: Corner) -> Corner:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def _measure(corners: list[tuple[Fraction, Fraction, Fraction]]) -> tuple[Fraction, Fraction]:
    """Squares of the diameter and of the area of a polygon, in homogeneous costs with largest entry 1 (as in polygon.py)."""
    pairs = [_cross(a, b) for a, b in combinations(corners, 2)]
    edges = [_cross(a, b) for a, b in zip(corners, corners[1:] + corners[:1], strict=True)]
    diameter = max((sum((x * x for x in u), Fraction(0)) for u in pairs), default=Fraction(0))
    area = max((abs(u[0] * c[0] + u[1] * c[1] + u[2] * c[2]) for u in edges for c in corners), default=Fraction(0))
    return diameter, area**2


def answer(problem: ExactProblem, state: npt.NDArray[np.int8], asked: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Answers to the questions that the kernel put about one facet, as rows for ``polygon.Facet.answers``."""
    facet = ExactFacet(problem, state)
    answers = [(ASK_SIGN, a, b, k, facet.sign(a, b, k)) for kind, a, b, k in asked.tolist() if kind == ASK_SIGN]
    codes = [k for kind, _, _, k in asked.tolist() if kind == ASK_PENCIL]
    if codes:
        answers.append((ASK_PENCIL, *facet.pencil(codes), 0, 0))
    return np.array(answers, dtype=np.intp).reshape(-1, 5)
