"""Models of a partition in exact arithmetic: at infinite costs, and where doubles do not tell.

Rows, weights and inner products are doubles, which are integers times a power of two. With M the points on the margin, P the
weighted sums of the rows inside it, and c = (p, q, l), the dual variables on the margin and the weights are

    G A = (-X_M P_p, -X_M P_q, 1) c,     G = X_M X_M',          B = (P_p, P_q, 0) c + X_M' A,

linear in c with rational coefficients: they are found by elimination without fractions (Bareiss). At infinity (l = 0) B is
zero, for all costs or for one ratio of them alone, and then it is so exactly: A is a certificate for all costs, however
large.

Stored corners are rounded. A corner is replaced by the costs where its two edges meet exactly (or by the ratio where B is
zero), and how far it is moved thereby is counted: costs that change by a factor of 1 + d change a relative gap by 8 d.
"""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.proof.partitions import INSIDE, MARGIN
from svmatlas.proof.rows import UNIT, Points

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.object_]
States = npt.NDArray[np.int8]
Flags = npt.NDArray[np.bool_]
Vector = tuple[Fraction, Fraction, Fraction]

MOST_ON_MARGIN = 48
"""Points on the margin up to which equations are solved exactly: some tenths of a second."""

MOST_MOVED = 2.0**-24
"""A corner is moved by no more than this, relative to each of its coordinates."""

MOST_LIFTED = 2.0**-40
"""Weights are lengthened by no more than this: so much is added to the gap at most."""


class Linear(NamedTuple):
    """Numbers that are linear in c: ``whole @ (unit * c)``."""

    whole: Integers  # (k, 3)
    unit: Vector

    def at(self, c: Vector) -> tuple[Integers, int]:
        """Their values at c: integers, and a common denominator."""
        factors = [u * x for u, x in zip(self.unit, c, strict=True)]
        denominator = lcm(*(f.denominator for f in factors))
        return self.whole @ np.array([int(f * denominator) for f in factors], dtype=object), denominator

    def row(self, k: int) -> Vector:
        """The coefficients of one of them."""
        a, b, e = (Fraction(int(x)) * u for x, u in zip(self.whole[k], self.unit, strict=True))
        return a, b, e


class ExactMaps(NamedTuple):
    """A partition."""

    state: States
    own: npt.NDArray[np.intp]  # (m,) points on the margin
    alpha: Linear  # (m, 3) their dual variables
    beta: Linear  # (d, 3) weights; of inner products alone the scores (N, 3)
    score: Linear  # (N, 3)


class ExactModel(NamedTuple):
    """At one corner; all is rounded, each number by itself, so that its sign is right."""

    c: Floats  # (3,)
    alpha: Floats  # (N + 1,) in their boxes
    free: Floats  # (N + 1,) what is left of the boxes
    lack: Floats  # (N + 1,) l minus the scores
    error: Floats  # (N + 1,) bounds on the errors of these
    length: float  # at least that of the weights
    rest: float  # at least the length of what the weights differ from the sum of the rows
    outside_box: float  # how far dual variables were outside their boxes, relative to these
    moved: float  # how far the corner was moved, relative


def integers(values: Floats) -> tuple[Integers, int]:
    """Doubles as integers times 2 to a common power."""
    mantissa, exponent = np.frexp(values)
    low = int(exponent[values != 0].min(initial=0)) - 53
    whole = (mantissa * 2.0**53).astype(np.int64).astype(object)
    shift = np.where(values != 0, exponent - 53 - low, 0)
    return np.array([a << int(s) for a, s in zip(whole.ravel(), shift.ravel(), strict=True)] + [0], dtype=object)[:-1].reshape(
        values.shape
    ), low


def power(n: int) -> Fraction:
    """2 to the n."""
    return Fraction(2**n) if n >= 0 else Fraction(1, 2**-n)


def eliminate(matrix: Integers, right: Integers) -> tuple[Integers, int] | None:
    """Integers Y (m, k) and a determinant D with matrix (m, m) Y = D right (m, k); None if the matrix is singular."""
    m = len(matrix)
    table = np.concatenate([matrix, right], axis=1)  # its first column is k of the matrix: those before are done
    last = 1
    for k in range(m):
        pivot = next((i for i in range(k, m) if table[i, 0] != 0), None)
        if pivot is None:
            return None
        if pivot != k:
            table[[k, pivot]] = table[[pivot, k]]
            table[k] = -table[k]
        head, row, factor = table[k, 0], table[k, 1:].copy(), table[:, 0].copy()
        table = (head * table[:, 1:] - np.outer(factor, row)) // last
        table[k], last = row, head
    return table, int(last)


class ExactSolver:
    """Exact models of points, by their rows or their inner products."""

    def __init__(self, points: Points) -> None:
        self.points, self.has_rows = points, points.rows is not None
        given = points.rows if points.rows is not None else points.gram
        assert given is not None
        self.given, self.power = integers(given)
        self.weight, self.weight_power = integers(points.weight)
        values, place = np.unique(points.weight, return_inverse=True)
        first = np.array([int(np.argmax(place == k)) for k in range(values.size)], dtype=np.intp)
        self.different_weights = self.weight[first].tolist(), place

    def maps(self, state: States) -> ExactMaps | None:
        """The maps of a partition; None if its points on the margin depend on each other, or are too many."""
        own, inside, given = np.flatnonzero(state == MARGIN), state == INSIDE, self.given
        if own.size > MOST_ON_MARGIN:
            return None
        zero = np.zeros(given.shape[1], dtype=object)
        classes = (self.points.positive & inside, ~self.points.positive & inside)
        pulls = np.array([self.weight[which] @ given[which] if which.any() else zero for which in classes], dtype=object)
        rows = given[own]
        gram = rows @ rows.T if self.has_rows else rows[:, own]
        right = np.ones((own.size, 3), dtype=object)
        right[:, :2] = -(rows @ pulls.T) if self.has_rows else -pulls[:, own].T
        found = eliminate(gram, right) if own.size else (right, 1)
        if found is None:
            return None
        return self._maps(state, own, pulls, *found)

    def _maps(self, state: States, own: npt.NDArray[np.intp], pulls: Integers, whole: Integers, determinant: int) -> ExactMaps:
        """The maps from alpha times a determinant, in the units of integers."""
        given, scale = self.given, power(self.power)
        beta = np.zeros((given.shape[1], 3), dtype=object)
        beta[:, :2] = pulls.T * determinant
        beta = beta + given[own].T @ whole if own.size else beta
        weights = power(self.weight_power) / determinant
        target = 1 / (determinant * (scale**2 if self.has_rows else scale))
        alpha = Linear(whole, (weights, weights, target))
        made = Linear(beta, (weights * scale, weights * scale, target * scale))
        if not self.has_rows:
            return ExactMaps(state, own, alpha, made, made)
        a, b, e = made.unit
        return ExactMaps(state, own, alpha, made, Linear(given @ beta, (a * scale, b * scale, e * scale)))

    def line(self, maps: ExactMaps, code: int) -> Vector:
        """The line of an event: zero where it takes place."""
        point, kind = code >> 1, code & 1
        place = np.flatnonzero(maps.own == point)
        if place.size == 0:
            a, b, e = maps.score.row(point)
            return -a, -b, 1 - e
        a, b, e = maps.alpha.row(int(place[0]))
        if kind == 0:
            return a, b, e
        weight, positive = Fraction(float(self.points.weight[point])), bool(self.points.positive[point])
        return (weight if positive else 0) - a, (0 if positive else weight) - b, -e

    def corner(self, maps: ExactMaps, c: Floats, lines: list[Vector], lossless: Flags) -> ExactModel | None:
        """The model at a corner, where two lines meet or else where it is; None if at infinity weights are not zero.

        Where a corner is not exactly on the line of a point, this may lack a little, which infinite costs make a loss without
        bound. Then weights are lengthened, so that points that should be ``lossless`` (N,) are.
        """
        place = _at_infinity(maps.beta, lines, c) if c[2] == 0 else _meeting(lines, c)
        if place is None:
            return None
        exact, moved = place
        bound, inside = self._boxes(exact), np.append(maps.state == INSIDE, False)
        alpha, free = np.where(inside, bound, 0.0), np.where(inside, 0.0, bound)
        change = self._put_into_boxes(maps, exact, alpha, free)
        combined, wrong = alpha.copy(), Fraction(0)
        for i, x in change.items():
            box = self._box(i, exact)
            combined[i], wrong = combined[i] + float(x), max(wrong, abs(x) / box if box else Fraction(1))
        scores, denominator = maps.score.at(exact)
        lack, score = _lacks(scores, denominator, exact[2], Fraction(1)), _wide([int(s) / denominator for s in scores])
        more = _lift_of(lack, score, lossless)
        lack = _lacks(scores, denominator, exact[2], 1 + Fraction(more)) if more > 0 else lack
        error = 2 * UNIT * np.abs(lack)
        if self.points.gram_error is not None:
            error[:-1] += (np.abs(combined[:-1]) @ self.points.gram_error) * (1 + 2.0**-20)
        length = float(np.sqrt(np.abs(combined) @ (np.abs(score) + error))) * (1 + 2.0**-20)
        c_rounded = np.array([float(x) for x in exact])
        rest = self._pull(change) + more * length * (1 + 2.0**-20)
        return ExactModel(c_rounded, alpha, free, lack, error, length * (1 + more), rest, float(wrong), moved)

    def _put_into_boxes(self, maps: ExactMaps, c: Vector, alpha: Floats, free: Floats) -> dict[int, Fraction]:
        """Dual variables of the points on the margin, and what is left of their boxes; and what is cut off from them."""
        values, denominator = maps.alpha.at(c)
        change = {}
        for i, whole in zip(maps.own.tolist(), values, strict=True):
            value, box = Fraction(int(whole), denominator), self._box(i, c)
            held = min(max(value, Fraction(0)), box)
            alpha[i], free[i] = float(held), float(box - held)
            if value != held:
                change[i] = value - held
        return change

    def _box(self, i: int, c: Vector) -> Fraction:
        """The bound of a dual variable."""
        return Fraction(float(self.points.weight[i])) * c[0 if self.points.positive[i] else 1]

    def _boxes(self, c: Vector) -> Floats:
        """The same of all, rounded, and a zero for none; equal weights are looked at once."""
        values, place = self.different_weights
        factors = [power(self.weight_power) * x for x in c[:2]]
        ends = [[w * factor.numerator / factor.denominator for w in values] for factor in factors]
        positive, negative = np.array(ends)[:, place]
        return np.append(np.where(self.points.positive, positive, negative), 0.0)

    def _pull(self, change: dict[int, Fraction]) -> float:
        """The length of a sum of few rows."""
        if not change:
            return 0.0
        which, factors = list(change), np.array(list(change.values()), dtype=object)
        if self.has_rows:
            total = [float(x * power(self.power)) for x in factors @ self.given[which]]
            return float(np.linalg.norm(total)) * (1 + 2.0**-40)
        square = abs(float(factors @ self.given[np.ix_(which, which)] @ factors * power(self.power)))
        size = np.abs([float(x) for x in factors])
        if self.points.gram_error is not None:
            square += float(size @ self.points.gram_error[np.ix_(which, which)] @ size)
        return float(np.sqrt(square)) * (1 + 2.0**-20)


def _wide(values: list[float]) -> Floats:
    """Numbers of points, and a zero for none."""
    return np.array([*values, 0.0])


def _lacks(scores: Integers, denominator: int, l: Fraction, longer: Fraction) -> Floats:
    """What scores, times a factor, lack of l; each rounded once."""
    top, below = l.numerator * denominator * longer.denominator, l.denominator * longer.numerator
    unit = denominator * l.denominator * longer.denominator
    return _wide([(top - int(s) * below) / unit for s in scores])


def _lift_of(lack: Floats, score: Floats, lossless: Flags) -> float:
    """By which part weights are to be longer so that lossless points lack nothing; 0 if none does, or that is too much."""
    short = np.append(lossless, False) & (lack > 0) & (score > 0)
    more = 2.0 * float(np.max(lack[short] / score[short], initial=0.0))
    return more if more <= MOST_LIFTED else 0.0


def _at_infinity(beta: Linear, lines: list[Vector], c: Floats) -> tuple[Vector, float] | None:
    """Costs at infinity where weights are zero, near given ones, and how far these were moved."""
    place = _meeting(lines, c)
    values, _ = beta.at(place[0])
    if not np.any(values):
        return place
    a, b, _ = beta.row(max(range(len(values)), key=lambda k: abs(values[k])))
    near = _near((abs(b), abs(a), Fraction(0)), place[0]) if a * b < 0 else None
    return None if near is None or np.any(beta.at(near[0])[0]) else near


def _meeting(lines: list[Vector], c: Floats) -> tuple[Vector, float]:
    """The costs where two lines meet, if that is near given ones, or else these; and how far these were moved."""
    given = (Fraction(float(c[0])), Fraction(float(c[1])), Fraction(float(c[2])))
    if len(lines) < 2:
        return given, 0.0
    (a, b, e), (f, g, h) = lines
    return _near((b * h - e * g, e * f - a * h, a * g - b * f), given) or (given, 0.0)


def _near(exact: Vector, given: Vector) -> tuple[Vector, float] | None:
    """Homogeneous costs at the scale of given ones, and how far they are from them; None if that is too much."""
    k = max(range(3), key=lambda j: given[j])
    if exact[k] == 0:
        return None
    scale = given[k] / exact[k]
    own = (exact[0] * scale, exact[1] * scale, exact[2] * scale)
    moved = max(Fraction(x != y) if x == y or not y else abs(x - y) / y for x, y in zip(own, given, strict=True))
    return None if moved > MOST_MOVED else (own, float(moved) * (1 + 2.0**-40))
