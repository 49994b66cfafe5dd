"""Models at corners of facets: dual variables in their boxes, weights, and how much both are wrong.

For homogeneous costs c = (p, q, l) all is multiplied by l, so that it is linear in c:

    A_i   dual variables, 0 <= A_i <= b_i = w_i p or w_i q      B     weights, about X'A
    L_i   = l - x_i.B, what the score of a point lacks of 1     R     = B - X'A, the pull that A does not explain

A is made of a partition: b_i inside the margin, 0 outside, and on it what solves the linear equations L_i = 0, R = 0; then it
is put into its box. Nothing is trusted: whatever A and B are, they bound the duality gap (gaps.py).

Rows are used as they are (``RowModels``), or by their inner products alone (``GramModels``). Errors of L and R are bounded a
priori: a sum of n products has an error of at most (n + 2) u times the sum of their sizes, in any order of summation.
Where that is too much (``exactly``), sums are made by ``math.fsum``, which rounds once, of products split without error.
"""

from __future__ import annotations

from math import fsum, prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.proof.partitions import INSIDE, MARGIN
from svmatlas.proof.rows import UNIT, Points

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
States = npt.NDArray[np.int8]
Flags = npt.NDArray[np.bool_]

STEPS = 3
"""Steps of refinement with exact sums: each gains the digits that the condition of the rows leaves of 16."""

CUTOFF = 1e-13
"""Rows on the margin that depend on others by less than this, relative to their length, are left to these."""

LIFTS = 3
"""Times that weights are lengthened, since their own rounding grows with them."""

MOST_LIFTED = 1e-3
"""Weights are lengthened by no more than this: what needs more is wrong."""

SPLIT = 2.0**27 + 1
"""Halves of doubles are made with this (Veltkamp)."""


class Maps(NamedTuple):
    """Affine maps of some partitions."""

    states: States  # (k, N)
    margin: Ints  # (k, m) points on the margin, then N
    alpha: Floats  # (k, 3, m) their dual variables, linear in c
    beta: Floats  # (k, 3, d) weights, linear in c
    pull: Floats  # (k, 2, d) sum of the weighted rows inside the margin, of the two classes


class Models(NamedTuple):
    """Models at m costs; a point more, without rows and weight, stands for none."""

    alpha: Floats  # (m, N + 1) inside their boxes
    free: Floats  # (m, N + 1) what is left of their boxes
    lack: Floats  # (m, N + 1)
    error: Floats  # (m, N + 1) bounds on the errors of ``lack``
    length: Floats  # (m,) at least the length of B
    rest: Floats  # (m,) at least the length of R
    outside_box: Floats  # (m,) how far alpha was out of its box, relative to its terms


def lift(models: Models, c: Floats, lossless: Flags) -> Floats:
    """Factors (m,) that lengthen weights so that scores of lossless points are at least 1 for certain.

    A cost of 1e18 makes a loss of 1e3 of a score that lacks 1e-15; longer weights cost their rounding only.
    """
    short = np.max(np.where(lossless, (models.lack + models.error)[:, :-1], 0.0), axis=1, initial=0.0)
    share = short / np.maximum(c[:, 2], np.finfo(float).tiny)
    return 1.0 + np.where(share > 0.0, np.minimum(1.5 * share + 8 * UNIT, MOST_LIFTED), 0.0)


def margins(states: States) -> Ints:
    """The points on the margin of each partition, filled up with N."""
    which = states == MARGIN
    counts = which.sum(axis=1)
    out = np.full((len(states), int(counts.max(initial=0))), states.shape[1], dtype=np.intp)
    row, point = np.nonzero(which)
    place = np.arange(row.size) - np.repeat(np.cumsum(counts) - counts, counts)
    out[row, place] = point
    return out


def occurring(counts: Ints) -> list[int]:
    """The numbers that occur among some, but for 0."""
    return [m for m in np.flatnonzero(np.bincount(counts)).tolist() if m > 0]


def split_products(a: Floats, b: Floats) -> Floats:
    """Products of doubles as sums of two doubles each, without error (Dekker); along a new last axis."""
    product = a * b
    x, y = a * SPLIT, b * SPLIT
    x, y = x - (x - a), y - (y - b)
    u, v = a - x, b - y
    return np.stack([product, ((x * y - product) + x * v + u * y) + u * v], axis=-1)


def exact_sums(terms: Floats) -> Floats:
    """Sums along the last axis, each rounded once."""
    flat = terms.reshape(prod(terms.shape[:-1]), terms.shape[-1])
    return np.array([fsum(row) for row in flat.tolist()], dtype=float).reshape(terms.shape[:-1])


class RowModels:
    """Models of points with rows."""

    def __init__(self, points: Points) -> None:
        assert points.rows is not None
        self.points = points
        self.n, self.d = points.rows.shape
        self.rows = np.vstack([points.rows, np.zeros((1, self.d))])
        self.weight = np.append(points.weight, 0.0)
        self.positive = np.append(points.positive, False)
        self.boxes = np.array([self.weight * self.positive, self.weight * ~self.positive])
        self.scale = np.abs(points.rows).max(axis=0, initial=0.0) + np.finfo(float).tiny
        self.sizes = np.linalg.norm(self.rows / self.scale, axis=1)
        none = np.append(np.ones(self.n), 0.0)
        self.lacking = np.vstack([-self.rows.T, none])  # (d + 1, N + 1) times B and l: what scores lack
        self.erring = np.vstack([self.sizes, none])
        weighted = np.abs(points.rows) * points.weight[:, None]
        self.total = np.array([weighted[points.positive].sum(axis=0), weighted[~points.positive].sum(axis=0)])
        self.empty = np.zeros(self.d)

    def maps(self, states: States) -> Maps:
        """Affine maps of partitions, in doubles with one step of refinement."""
        inside, k = states == INSIDE, len(states)
        pull = np.empty((k, 2, self.d))
        for side, which in enumerate((self.points.positive, ~self.points.positive)):
            pull[:, side] = (inside[:, which] * self.points.weight[which]) @ self.rows[:-1][which]
        margin = margins(states)
        counts = np.sum(margin < self.n, axis=1)
        alpha, beta = np.zeros((k, 3, margin.shape[1])), np.zeros((k, 3, self.d))
        beta[:, :2] = pull
        for m in occurring(counts[counts <= self.d]):  # more cannot be independent: left at zero
            group = np.flatnonzero(counts == m)
            alpha[group, :, :m], beta[group] = self._equations(margin[group, :m], pull[group])
        return Maps(states, margin, alpha, beta, pull)

    def _equations(self, margin: Ints, pull: Floats) -> tuple[Floats, Floats]:
        """Alpha (k, 3, m) and beta (k, 3, d) where m points are on the margin."""
        rows, (k, m) = self.rows[margin], margin.shape
        factor = Factor(rows)
        given, target = np.zeros((k, 3, self.d)), np.zeros((k, 3, m))
        given[:, :2], target[:, 2] = pull, 1.0
        alpha, beta = factor.solve(given, target)
        if m == self.d:
            beta[:, :2] = 0.0  # the rows on the margin span all, so that beta follows from them alone
        more, change = factor.solve(given + alpha @ rows - beta, target - beta @ rows.transpose(0, 2, 1))
        first = 2 if m == self.d else 0
        beta[:, first:] += change[:, first:]
        return alpha + more, beta

    def models(self, maps: Maps, which: Ints, c: Floats, lossless: Flags | None = None) -> Models:
        """Models of the partitions ``which`` (m,) of some maps at costs (m, 3).

        ``lossless`` (m, N): points that should have no loss, for certain; weights are lengthened for them.
        """
        alpha = np.einsum("kc,kcm->km", c, maps.alpha[which])
        beta = np.einsum("kc,kcd->kd", c, maps.beta[which])
        held, bound, outside = boxed(self.bounds(c), maps, which, c, alpha)
        for flags in [] if lossless is None else [lossless] * LIFTS:
            beta = beta * lift(self._finish(held, bound, outside, c, beta, outside), c, flags)[:, None]
        pulled = np.einsum("kc,kcd->kd", c[:, :2], maps.pull[which])
        margin = maps.margin[which]
        rest = beta - pulled - np.einsum("km,kmd->kd", np.take_along_axis(held, margin, 1), self.rows[margin])
        used = c[:, :2] * held.any(axis=1, keepdims=True)  # where all are zero, nothing is rounded
        slip = (self.n + 8) * UNIT * (used @ self.total + np.abs(beta))
        return self._finish(held, bound, outside, c, beta, np.linalg.norm(rest, axis=1) + np.linalg.norm(slip, axis=1))

    def corner(self, state: States, c: Floats, touching: Ints) -> tuple[Floats, Floats]:
        """Alpha (N + 1,) and beta of a partition at costs (3,), by exact sums; ``touching``: points on the margin there."""
        own = np.flatnonzero(state == MARGIN)[: self.d]
        inside, rows, factor = self._pull_terms(state, c), self.rows[own], Factor(self.rows[own][None])
        alpha, low, beta = np.zeros(own.size), np.zeros(own.size), exact_sums(inside)
        for _ in range(STEPS if own.size else 0):
            pulls = [split_products(rows.T, part).reshape(self.d, -1) for part in (alpha, low)]
            missing = exact_sums(np.concatenate([inside, *pulls, -beta[:, None]], axis=1))
            more, change = factor.solve(missing[None, None], self._lacks(rows, c[2], beta)[None, None])
            beta, low = beta + change[0, 0], low + more[0, 0]
            alpha, low = alpha + low, low - ((alpha + low) - alpha)
        both = self.rows[np.union1d(own, touching)]
        for _ in range(2 if len(both) > own.size else 0):
            beta = beta + np.linalg.lstsq(both, self._lacks(both, c[2], beta), rcond=CUTOFF)[0]
        return filled(state, self.bounds(c[None])[0], own, alpha), beta

    def bounds(self, c: Floats) -> Floats:
        """The boxes (m, N + 1) of dual variables."""
        boxes: Floats = c[:, :2] @ self.boxes
        return boxes

    def lacks(self, alpha: Floats, c: Floats) -> Floats:
        """What scores (N,) lack of l with the weights that dual variables (N + 1,) make, in doubles."""
        lack: Floats = c[2] - self.rows[:-1] @ (alpha @ self.rows)
        return lack

    def exactly(self, alpha: Floats, beta: Floats, c: Floats, lossless: Flags) -> Models:
        """Models of given alpha (m, N + 1) and beta (m, d) at costs (m, 3), with exact sums.

        ``lossless`` (N,): points that should have no loss.
        """
        bound, outside = self.bounds(c), np.zeros(len(c))
        held = np.clip(np.nan_to_num(alpha), 0.0, bound)
        for _ in range(LIFTS):
            beta = beta * lift(self._finish(held, bound, outside, c, beta, outside), c, lossless)[:, None]
        rest = np.array([self._rest(a, b) for a, b in zip(held, beta, strict=True)])
        return self._finish(held, bound, outside, c, beta, np.linalg.norm(rest, axis=1) * (1 + 2.0**-40))

    def _lacks(self, rows: Floats, l: float, beta: Floats) -> Floats:
        """What scores lack of l, rounded once."""
        terms = split_products(rows, -beta).reshape(len(rows), -1)
        return exact_sums(np.concatenate([terms, np.full((len(rows), 1), l)], axis=1))

    def _pull_terms(self, state: States, c: Floats) -> Floats:
        """Terms (d, .) of the pull of the points inside the margin; their alpha is their bound as it was rounded."""
        inside = np.flatnonzero(state == INSIDE)
        bound = np.where(self.positive[inside], c[0], c[1]) * self.weight[inside]
        return split_products(self.rows[inside].T, bound).reshape(self.d, -1)

    def _rest(self, held: Floats, beta: Floats) -> Floats:
        """R, rounded once."""
        terms = split_products(self.rows.T, -held).reshape(self.d, -1)
        return exact_sums(np.concatenate([terms, beta[:, None]], axis=1))

    def _finish(self, held: Floats, bound: Floats, outside: Floats, c: Floats, beta: Floats, rest: Floats) -> Models:
        lack = np.column_stack([beta, c[:, 2]]) @ self.lacking
        unit = (self.d + 4) * UNIT * (1 + 2.0**-20)
        error = (unit * np.column_stack([np.linalg.norm(beta * self.scale, axis=1), c[:, 2]])) @ self.erring
        return Models(held, bound - held, lack, error, np.linalg.norm(beta, axis=1) * (1 + 2.0**-40), rest, outside)


class Factor:
    """QR of the transposed rows (k, m, d) on a margin, each scaled to length 1."""

    def __init__(self, rows: Floats) -> None:
        self.length = np.linalg.norm(rows, axis=2)
        self.length[self.length == 0] = 1.0
        self.q, r = np.linalg.qr((rows / self.length[:, :, None]).transpose(0, 2, 1))
        least = np.finfo(float).eps * 2.0**-20
        diagonal = np.einsum("kii->ki", r)
        diagonal[np.abs(diagonal) < least] = least  # dependent rows: the solution is wrong, and found to be
        self.inverse = np.linalg.inv(r)

    def solve(self, given: Floats, target: Floats) -> tuple[Floats, Floats]:
        """Alpha (k, n, m) and beta (k, n, d) with beta - X'alpha = given (k, n, d) and X beta = target (k, n, m)."""
        along = given @ self.q
        wanted = (target / self.length[:, None]) @ self.inverse
        beta = given + (wanted - along) @ self.q.transpose(0, 2, 1)
        alpha = ((wanted - along) @ self.inverse.transpose(0, 2, 1)) / self.length[:, None]
        return alpha, beta


def filled(state: States, bound: Floats, own: Ints, alpha: Floats) -> Floats:
    """Dual variables of all points and one more: those on the margin are given."""
    held: Floats = bound * np.append(state == INSIDE, False)
    held[own] = alpha
    return held


def boxed(bound: Floats, maps: Maps, which: Ints, c: Floats, alpha: Floats) -> tuple[Floats, Floats, Floats]:
    """All dual variables inside their boxes, the boxes, and how far they were outside, relative to their terms."""
    held = bound.copy()
    held[:, :-1] *= maps.states[which] == INSIDE
    margin = maps.margin[which]
    box = np.take_along_axis(bound, margin, 1)
    sizes = np.einsum("kc,kcm->km", np.abs(c), np.abs(maps.alpha[which])) + box
    wrong = np.maximum(np.maximum(-alpha, alpha - box), 0.0)
    outside = np.divide(wrong, sizes, out=np.zeros_like(wrong), where=sizes > 0).max(axis=1, initial=0.0)
    inner = np.clip(np.nan_to_num(alpha), 0.0, box)
    np.put_along_axis(held, margin, inner, 1)
    held[:, -1] = 0.0
    return held, bound, outside


class GramModels:
    """Models of points with inner products: B is a combination of the points, of which only products are known."""

    def __init__(self, points: Points) -> None:
        assert points.gram is not None
        assert points.gram_error is not None
        self.points, self.n = points, len(points.gram)
        self.gram = np.zeros((self.n + 1, self.n + 1))
        self.gram[:-1, :-1] = points.gram
        self.error = np.zeros_like(self.gram)
        self.error[:-1, :-1] = points.gram_error
        self.size = np.abs(self.gram) + self.error / ((self.n + 4) * UNIT)
        self.empty = np.zeros(self.n + 1)
        self.weight = np.append(points.weight, 0.0)
        self.positive = np.append(points.positive, False)
        self.boxes = np.array([self.weight * self.positive, self.weight * ~self.positive])

    def maps(self, states: States) -> Maps:
        """Affine maps of partitions; there are no weights."""
        margin, k = margins(states), len(states)
        counts, m = np.sum(margin < self.n, axis=1), margin.shape[1]
        alpha = np.zeros((k, 3, m))
        for size in occurring(counts):
            which = np.flatnonzero(counts == size)
            alpha[which, :, :size] = self._equations(states[which], margin[which, :size])
        return Maps(states, margin, alpha, np.zeros((k, 3, 0)), np.zeros((k, 2, 0)))

    def _equations(self, states: States, margin: Ints) -> Floats:
        """Alpha (k, 3, m) where m points are on the margin."""
        inner = self.gram[margin[:, :, None], margin[:, None]]
        weighted = (states == INSIDE) * self.weight[:-1]
        target = np.ones((*margin.shape, 3))
        for side, which in enumerate((self.positive[:-1], ~self.positive[:-1])):
            target[:, :, side] = -np.take_along_axis((weighted * which) @ self.gram[:-1, :-1], margin, 1)
        inverse = np.linalg.pinv(inner, rcond=2.0**-50, hermitian=True)
        alpha = inverse @ target
        for _ in range(2):
            alpha += inverse @ (target - inner @ alpha)
        return np.asarray(alpha.transpose(0, 2, 1), dtype=float)

    def bounds(self, c: Floats) -> Floats:
        """The boxes (m, N + 1) of dual variables."""
        boxes: Floats = c[:, :2] @ self.boxes
        return boxes

    def models(self, maps: Maps, which: Ints, c: Floats) -> Models:
        """Models of the partitions ``which`` (m,) of some maps at costs (m, 3)."""
        alpha = np.einsum("kc,kcm->km", c, maps.alpha[which])
        held, bound, outside = boxed(self.bounds(c), maps, which, c, alpha)
        return self._finish(held, bound, outside, c, held, np.zeros(len(c)))

    def corner(self, state: States, c: Floats, touching: Ints) -> tuple[Floats, Floats]:
        """Alpha (N + 1,) of a partition at costs (3,), and the combination that is beta; ``touching`` as above."""
        maps = self.maps(state[None])
        own = np.flatnonzero(state == MARGIN)
        alpha = filled(state, self.bounds(c[None])[0], own, c @ maps.alpha[0, :, : own.size])
        z, both = alpha.copy(), np.union1d(own, touching).astype(np.intp)
        for _ in range(2 if both.size > own.size else 0):
            lack = c[2] - self.gram[both] @ z
            z[both] += np.linalg.lstsq(self.gram[np.ix_(both, both)], lack, rcond=CUTOFF)[0]
        return alpha, z

    def lacks(self, alpha: Floats, c: Floats) -> Floats:
        """What scores (N,) lack of l with the weights that dual variables (N + 1,) make, in doubles."""
        lack: Floats = c[2] - self.gram[:-1] @ alpha
        return lack

    def exactly(self, alpha: Floats, z: Floats, c: Floats, lossless: Flags) -> Models:
        """Models of given alpha (m, N + 1) and combinations z (m, N + 1); ``lossless`` as above."""
        bound, outside = self.bounds(c), np.zeros(len(c))
        held = np.clip(np.nan_to_num(alpha), 0.0, bound)
        for _ in range(LIFTS):
            z = z * lift(self._finish(held, bound, outside, c, z, outside), c, lossless)[:, None]
        return self._finish(held, bound, outside, c, z, np.array([self._length(x) for x in z - held]))

    def _length(self, change: Floats) -> float:
        """At least the length of a combination of the points, whose terms may cancel."""
        used = np.flatnonzero(change)
        turned = exact_sums(split_products(self.gram[:, used], change[used]).reshape(self.n + 1, -1))
        square = abs(fsum((split_products(change, turned)).ravel().tolist())) + UNIT * float(np.abs(change) @ np.abs(turned))
        error = float(np.abs(change) @ (self.error @ np.abs(change)))
        return float(np.sqrt(square + error)) * (1 + 2.0**-20)

    def _finish(self, held: Floats, bound: Floats, outside: Floats, c: Floats, z: Floats, rest: Floats) -> Models:
        scores, sizes = z @ self.gram, np.abs(z) @ self.size
        lack, error = c[:, 2:] - scores, (self.n + 4) * UNIT * (sizes + c[:, 2:]) * (1 + 2.0**-20)
        lack[:, -1], error[:, -1] = 0.0, 0.0
        length = np.sqrt(np.einsum("ki,ki->k", np.abs(z), np.abs(scores) + error))
        return Models(held, bound - held, lack, error, length, rest, outside)
