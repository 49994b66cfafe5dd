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

from svmatlas.engine.predicates import ASK_PENCIL, ASK_SIGN
from svmatlas.engine.residues import solve_integer
from svmatlas.engine.tie_test import TIE_LOSS, TIE_SHRINK
from svmatlas.engine.workspace import INSIDE, MARGIN, OUTSIDE, QUESTION, Data, Region
from svmatlas.support.settings import SETTINGS
from svmatlas.support.stopping import NEVER, Limit

Line = tuple[int, int, int]


def integers(values: npt.NDArray[np.float64], low: npt.NDArray[np.float64] | None = None) -> tuple[list[int], int]:
    """Integers n and an exponent e with values (+ low) = n / 2^e exactly."""
    numbers, e = _scaled(values)
    if low is None:
        return numbers, e
    more, f = _scaled(low)
    most = max(e, f)
    return [(a << (most - e)) + (b << (most - f)) for a, b in zip(numbers, more, strict=True)], most


def _scaled(values: npt.NDArray[np.float64]) -> tuple[list[int], int]:
    """Integers n and the least exponent e >= 0 with values = n / 2^e."""
    mantissa, exponent = np.frexp(values.ravel())
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    zeros = np.frexp((whole & -whole).astype(float))[1] - 1  # at the end of each, -1 for a zero
    places = np.where(whole == 0, 0, 53 - exponent - zeros)
    e = max(0, int(places.max(initial=0)))
    odd, shift = (whole >> np.maximum(zeros, 0)).tolist(), (e - places).tolist()
    return [n << k for n, k in zip(odd, shift, strict=True)], e


class ExactProblem:
    """The data as integers, with the jitter scaled by a factor; made once, on the first question.

    All exact arithmetic with it raises Stopped when the limit says so.
    """

    def __init__(self, data: Data, region: Region, jitter: float = 1.0, limit: Limit = NEVER) -> None:
        self.data = data
        self.region = region
        self.jitter = jitter
        self.limit = limit

    @cached_property
    def shrunk(self) -> ExactProblem:
        """The same with less jitter, to tell ties."""
        other = ExactProblem(self.data, self.region, TIE_SHRINK, self.limit)
        other.__dict__["rows"] = self.rows
        return other

    def within(self, region: Region, limit: Limit) -> ExactProblem:
        """The same in another region and with another limit; the integers are shared."""
        other = ExactProblem(self.data, region, self.jitter, limit)
        other.__dict__.update(rows=self.rows, targets=self.targets, weights=self.weights)
        return other

    def turned(self, region: Region) -> ExactProblem:
        """The same in another region; the integers are shared if they are known."""
        other = ExactProblem(self.data, region, self.jitter, self.limit)
        known = ("rows", "targets", "weights", "weighted")
        other.__dict__.update({name: self.__dict__[name] for name in known if name in self.__dict__})
        return other

    @cached_property
    def rows(self) -> tuple[list[list[int]], int]:
        """Integer rows and their exponent."""
        flat, e = integers(self.data.rows)
        n, r = self.data.rows.shape
        return [flat[i * r : (i + 1) * r] for i in range(n)], e

    @cached_property
    def targets(self) -> tuple[list[int], int]:
        """Integer targets and their exponent."""
        return integers(np.ones(self.data.norm.size), self.jitter * self.data.target_jitter)

    @cached_property
    def weights(self) -> tuple[list[int], int]:
        """Integer weights and their exponent."""
        return integers(self.data.weight, self.jitter * self.data.weight_jitter)

    @cached_property
    def weighted(self) -> list[list[int]]:
        """The rows times their weights."""
        return [[w * x for x in row] for w, row in zip(self.weights[0], self.rows[0], strict=True)]

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
        target, _ = problem.targets
        self.margin = np.flatnonzero(state == MARGIN).tolist()
        r = problem.data.rows.shape[1]
        pull = []
        for axis in range(2):
            inside = np.flatnonzero((state == INSIDE) & (problem.data.axis == axis)).tolist()
            pull.append([sum(column) for column in zip([0] * r, *(problem.weighted[i] for i in inside), strict=True)])
        rows = [x[i] for i in self.margin]
        gram: list[list[int]] = []
        for a in rows:
            problem.limit.check()
            gram.append([_dot(a, b) for b in rows])
        right = [[-_dot(a, pull[0]), -_dot(a, pull[1]), target[i]] for a, i in zip(rows, self.margin, strict=True)]
        self.alpha, self.divisor = solve_integer(gram, right, problem.limit.check)
        d = self.divisor
        self.beta = [[d * b for b in pull[0]], [d * b for b in pull[1]], [0] * r]
        for row, a in zip(rows, self.alpha, strict=True):
            problem.limit.check()
            self.beta = [[s + a[c] * v for s, v in zip(self.beta[c], row, strict=True)] for c in range(3)]

    def line(self, code: int) -> Line:
        """The line of a code."""
        self.problem.limit.check()
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
        s = _dot(_turn(_cross(self.line(a), self.line(b))), self.line(k))
        return (s > 0) - (s < 0)

    def maps(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """A (3, N) and Beta (3, d), correctly rounded; infinite where that is out of range."""
        (_, e), (_, f), (_, g) = self.problem.rows, self.problem.targets, self.problem.weights
        two = Fraction(2)
        alpha_unit, beta_unit = (two**-g, two**-g, two ** (2 * e - f)), (two ** (-g - e), two ** (-g - e), two ** (e - f))
        alpha = np.zeros((3, self.state.size))
        for i, a in zip(self.margin, self.alpha, strict=True):
            alpha[:, i] = [_as_double(v * unit / self.divisor) for v, unit in zip(a, alpha_unit, strict=True)]
        beta = [[_as_double(v * unit / self.divisor) for v in b] for b, unit in zip(self.beta, beta_unit, strict=True)]
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

    def is_optimal(self, *costs: npt.NDArray[np.float64]) -> bool:
        """Does the partition satisfy all conditions of optimality at homogeneous costs?

        With more than one: at the first plus an infinitely small part of the second.
        """
        places = [self._in_units(c) for c in costs]
        states = enumerate(self.state.tolist())
        lines = (self.line(2 * i + k) for i, s in states for k in (0, 1) if s == MARGIN or k == (s == INSIDE))
        return all([_dot(line, place) for place in places] >= [0] * len(places) for line in lines)

    def _in_units(self, c: npt.NDArray[np.float64]) -> Line:
        """Homogeneous costs in the units of the columns, up to a common factor."""
        (_, e), (_, f), (_, g) = self.problem.rows, self.problem.targets, self.problem.weights
        (p, q, l), _ = integers(c)
        return p << f, q << f, l << (g + 2 * e)

    def corners(self, codes: list[int]) -> list[Line]:
        """The corners between the edges of a polygon, as integers whose largest is positive."""
        (_, e), (_, f), (_, g) = self.problem.rows, self.problem.targets, self.problem.weights
        most = max(f, g + 2 * e)
        shift = most - f, most - f, most - g - 2 * e  # to undo the units of the columns
        lines = [self.line(code) for code in codes]
        out = []
        for a, b in zip(lines, lines[1:] + lines[:1], strict=True):
            p, q, l = (n << k for n, k in zip(_cross(a, b), shift, strict=True))
            out.append(_turn((p, q, l)))
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


def _cross(a: Line, b: Line) -> Line:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def _turn(v: Line) -> Line:
    """One of the two vectors of a point: the entry of largest size is positive."""
    return v if max(v, key=abs) > 0 else (-v[0], -v[1], -v[2])


def _as_double(value: Fraction) -> float:
    """A number, correctly rounded; infinite if it is out of range."""
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


def rounded(corners: list[Line]) -> npt.NDArray[np.float64]:
    """Corners with largest entry 1, correctly rounded."""
    return np.array([[x / max(v) for x in v] for v in corners])


def corners_and_tie(
    problem: ExactProblem, state: npt.NDArray[np.int8], codes: list[int]
) -> tuple[npt.NDArray[np.float64], bool]:
    """Corners of a polygon, correctly rounded, and whether the facet is a tie (see ``polygon.is_tie``)."""
    corners, shrunk = (ExactFacet(p, state).corners(codes) for p in (problem, problem.shrunk))
    first = bits = SETTINGS.measure_bits
    enough = 3 * max(n.bit_length() for v in corners for n in v) + first
    full = _measure(corners, bits)
    while full[1] >> (2 * bits + first // 2) == 0 and bits < enough:
        bits *= 2
        full = _measure(corners, bits)
    less, loss = _measure(shrunk, bits), Fraction(TIE_LOSS)
    return rounded(corners), less[0] <= loss**2 * full[0] or less[1] <= loss * full[1]


def _measure(corners: list[Line], bits: int) -> tuple[int, int]:
    """Square of the diameter, and area, of a polygon, in homogeneous costs with largest entry 1 (as in tie_test.py).

    Corners are rounded to so many bits, twice and three times as many of which the results have.
    """
    short: list[Line] = []
    for v in corners:
        p, q, l = ((n << bits) // max(v) for n in v)
        short.append((p, q, l))
    pairs = [_cross(a, b) for a, b in combinations(short, 2)]
    edges = [_cross(a, b) for a, b in zip(short, short[1:] + short[:1], strict=True)]
    return max((_dot(u, u) for u in pairs), default=0), max(abs(_dot(u, c)) for u in edges for c in short)


def answer(problem: ExactProblem, state: npt.NDArray[np.int8], asked: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """The questions that the kernel put about one facet with their answers, for ``Task.answers``."""
    facet, is_sign = ExactFacet(problem, state), asked["kind"] == ASK_SIGN
    answers = [(kind, a, b, k, facet.sign(a, b, k)) for kind, a, b, k, _ in asked[is_sign].tolist()]
    if not is_sign.all():
        answers.append((ASK_PENCIL, *facet.pencil(asked["line"][~is_sign].tolist()), 0, 0))
    return np.array(answers, QUESTION)
