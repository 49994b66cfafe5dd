"""A bound on the relative duality gap for all costs of a facet, from models at its corners (docs/proof.md has the proof).

With the names of models.py, at corners c_j of a facet, and for costs c = sum_j m_j c_j in their hull (m_j >= 0), let A(c) and
B(c) be the same sums of A_j and B_j. A(c) is in its box, since boxes are linear in c. Then

    l^2 (primal - dual) (c)  <=  sum_jk m_j m_k G_jk,      l^2 dual (c)  >=  sum_jk m_j m_k D_jk,

    G_jk = 1/2 |R_j| |R_k| + 1/2 (T_jk + T_kj),            T_jk = sum_i (b_ij - A_ij) max(0, L_ik) + A_ij max(0, -L_ik),
    D_jk = 1/4 (l_j a_k + l_k a_j - T_jk - T_kj - |X'A_j| |R_k| - |X'A_k| |R_j|),      a_j = sum_i A_ij,

so that the relative gap is at most the largest G_jk / D_jk. All terms of G are not negative: nothing cancels. In T most points
have no part: inside the margin at all corners (A = b, L > 0), or outside (A = 0, L < 0). Only the others are looked at.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.proof.models import Models
from svmatlas.proof.partitions import INSIDE, MARGIN, OUTSIDE
from svmatlas.proof.rows import UNIT

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
States = npt.NDArray[np.int8]

ALLOWED = 2.0**-48
"""What is added to every bound, for the rounding of boxes, of sums of weights, and of corners on sides and on edges that are
cut: if boxes are changed by a factor of 1 + d, the relative gap grows by at most 4 |d| (docs/proof.md), and |d| is at most six
roundings."""

SLACK = 1 + 2.0**-20
"""More than the roundings of sums of up to 2^30 terms that are not negative."""


class Corners(NamedTuple):
    """Facet f has the models ``model[first[f] : first[f] + sizes[f]]`` at its corners."""

    model: Ints
    first: Ints
    sizes: Ints
    l: Floats  # of each model


def bound(models: Models, corners: Corners, states: States) -> tuple[Floats, Ints, Floats]:
    """The largest G / D of each facet, the model where it is worst, and how far scores are from where ``states`` have them."""
    sizes, n = corners.sizes, corners.first.size
    low, high = _range(_calm(models), corners)
    restless = (low != high) | (low == 0)
    restless[:, -1] = False
    turned = np.any(~restless[:, :-1] & ((low[:, :-1] == 1) != (states == INSIDE)), axis=1)
    total = models.alpha.sum(axis=1)
    gap, worst, moved = np.empty(n), np.empty(n, dtype=np.intp), np.where(turned, 1.0, 0.0)
    counts = restless.sum(axis=1)
    for size in np.flatnonzero(np.bincount(sizes)).tolist():
        group = np.flatnonzero(sizes == size)
        group = group[np.argsort(counts[group])]
        for part in np.array_split(group, group.size * size // 4096 + 1):
            own, points = corners.model[corners.first[part][:, None] + np.arange(size)], _lists(restless[part])
            at = own[:, :, None] * restless.shape[1] + points[:, None]
            lack, error = models.lack.take(at), models.error.take(at)
            wrong = models.free.take(at) @ np.maximum(lack + error, 0.0).transpose(0, 2, 1)
            wrong += models.alpha.take(at) @ np.maximum(error - lack, 0.0).transpose(0, 2, 1)
            gap[part], corner = _ratios(models, corners.l, total, own, wrong)
            worst[part] = own[np.arange(part.size), corner]
            wide = np.concatenate([states[part], np.full((part.size, 1), MARGIN, dtype=np.int8)], axis=1)
            moved[part] = np.maximum(moved[part], _misplaced(lack, error, np.take_along_axis(wide, points, 1)))
    return gap, worst, moved


def _range(calm: npt.NDArray[np.int8], corners: Corners) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int8]]:
    """The least and the largest value of each facet's models."""
    low = calm[corners.model[corners.first]]
    high = low.copy()
    for j in range(1, int(corners.sizes.max(initial=0))):
        which = np.flatnonzero(corners.sizes > j)
        more = calm[corners.model[corners.first[which] + j]]
        low[which], high[which] = np.minimum(low[which], more), np.maximum(high[which], more)
    return low, high


def _calm(models: Models) -> npt.NDArray[np.int8]:
    """Per model and point: 1 if it is certainly inside the margin, with alpha at its bound; -1 if outside, with 0; else 0."""
    inside = (models.lack >= models.error) & (models.free == 0.0)
    outside = (models.lack <= -models.error) & (models.alpha == 0.0)
    calm: npt.NDArray[np.int8] = inside.astype(np.int8) - (outside & ~inside).astype(np.int8)
    return calm


def _lists(which: npt.NDArray[np.bool_]) -> Ints:
    """The marked columns of each row, filled up with the last column."""
    counts = which.sum(axis=1)
    out = np.full((len(which), max(1, int(counts.max(initial=0)))), which.shape[1] - 1, dtype=np.intp)
    row, column = np.nonzero(which)
    out[row, np.arange(row.size) - np.repeat(np.cumsum(counts) - counts, counts)] = column
    return out


def _ratios(models: Models, l: Floats, total: Floats, own: Ints, wrong: Floats) -> tuple[Floats, Ints]:
    """The largest G / D of facets with the models ``own`` (f, k), from their T (f, k, k); and the corner."""
    wrong = (wrong + wrong.transpose(0, 2, 1)) * SLACK
    rest, length = models.rest[own], models.length[own] + models.rest[own]
    part = l[own][:, :, None] * total[own][:, None] / SLACK
    pulled = length[:, :, None] * rest[:, None] * SLACK
    gap = 0.5 * rest[:, :, None] * rest[:, None] + 0.5 * wrong
    dual = 0.25 * (part + part.transpose(0, 2, 1) - wrong - pulled - pulled.transpose(0, 2, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(dual > 0.0, gap / dual, np.where((gap == 0.0) & (dual == 0.0), 0.0, np.inf))
    ratio[np.isnan(ratio)] = np.inf
    flat = ratio.reshape(len(own), -1)
    k = flat.argmax(axis=1)
    return flat[np.arange(len(own)), k] * SLACK + ALLOWED, k % own.shape[1]


# ----------------------------------------------------------------------------------------------------------------------
# Conditions, to first order


def _misplaced(lack: Floats, error: Floats, states: States) -> Floats:
    """How far scores, which lack so much (f, k, m) at the corners, are from where partitions (f, m) have them; relative."""
    lack = lack / (np.maximum(error, np.finfo(float).tiny) / UNIT)
    wrong = np.maximum(np.where(states == OUTSIDE, 0.0, -lack.min(axis=1)), np.where(states == INSIDE, 0.0, lack.max(axis=1)))
    found: Floats = wrong.max(axis=1, initial=0.0)
    return found


def off_edges(models: Models, corners: Corners, edge: Ints) -> Floats:
    """How far scores of the points of edges are from 1 at both ends; edge j ends in corner j."""
    place = np.arange(corners.model.size)
    facet = np.repeat(np.arange(corners.first.size), corners.sizes)
    before = np.where(place == corners.first[facet], (corners.first + corners.sizes - 1)[facet], place - 1)
    event, wrong = np.where(edge >= 0, edge >> 1, models.lack.shape[1] - 1), np.zeros(place.size)
    for end in (corners.model, corners.model[before]):
        size = np.maximum(models.error[end, event], np.finfo(float).tiny) / UNIT
        wrong = np.maximum(wrong, np.abs(models.lack[end, event]) / size)
    wrong = np.maximum(wrong, models.outside_box[corners.model])
    return np.maximum.reduceat(wrong, corners.first)


def partition_error(models: Models, state: States, size: Floats) -> float:
    """The same for one facet with models of its own."""
    lack = np.divide(models.lack, size, out=np.zeros_like(models.lack), where=size > 0)[:, :-1]
    wrong = np.where(state == MARGIN, np.abs(lack), np.where(state == INSIDE, -lack, lack))
    return float(wrong.max(initial=0.0))
