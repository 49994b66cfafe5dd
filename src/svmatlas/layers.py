"""Layer after layer of facets: the paper's AC-LSVMPath over flat arrays, each layer in four steps.

1. ``CEF`` closes the facets of the layer: polygon of each partition, known edges first (polygon.py).
2. ``MEV`` names what lies behind each edge: crossing it flips one point. Equal facets, edges and vertices are merged by name.
3. ``CV`` closes each vertex by the vertex loop property: behind a vertex of two events lies the facet with both points
   flipped, and at that vertex all four facets have the same two events as edges ("open" edges: one end is known).
4. ``MEF`` merges open edges and facets into the next layer: a facet is there once, with all edges that are known of it.

Names. ``words`` holds one random 64-bit word for each code; a facet's key is the XOR of the words that were crossed from
the partition with all points in I, so it depends on the partition only. A vertex is named by the sum of the mixed keys of the
facets around it:

    two events            facets f, f^a, f^b, f^a^b                        inside the region
    on an axis, C+ = 0    i in I, i in M, i in O, for one positive i       alpha_i = 0 and alpha_i = w_i C+ meet there
    on another side       f, f^a, and the side
    at infinity           the strip whose two parallel sides end there
    a corner of the region, or a corner of the triangle where any number of parallel strips end

A facet touches only facets of its own layer, the one before and the one after, so only those are held as partitions.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.doubledouble import entry, kernel
from svmatlas.exact import ExactProblem, answer
from svmatlas.facet import CODE, INSIDE, MARGIN, N_ASKED, N_CORNERS, N_REFINED, OUTSIDE, Data, Region, make_task
from svmatlas.polygon import ASKING, CLOSED, close_facet, is_tie

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Words = npt.NDArray[np.uint64]

class EngineError(RuntimeError):
    """A facet came out impossible. This contradicts the mathematics: please report the data."""


# ----------------------------------------------------------------------------------------------------------------------
# Names


def make_words(n_points: int, random_state: np.random.Generator) -> Words:
    """One random word for each code."""
    return random_state.integers(1, 2**64, size=2 * n_points, dtype=np.uint64)


@kernel
def _mix(x):  # type: ignore[no-untyped-def]
    """A fixed random-looking bijection of 64-bit words (the finaliser of splitmix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def _place(kind, number):  # type: ignore[no-untyped-def]
    """Word of a place that is not named by facets."""
    return _mix(np.uint64(0x9E3779B97F4A7C15) * np.uint64(1 + number * 8 + kind))


@kernel
def _name_vertex(region, axis, words, key, a, b, v):  # type: ignore[no-untyped-def]
    """Name of the corner v (entries, errors) between edges a and b of facet ``key``, and the key of the facet opposite to it (0: none)."""
    none = np.uint64(0)
    zero = (v[0] == 0.0 and v[3] == 0.0), (v[1] == 0.0 and v[4] == 0.0), (v[2] == 0.0 and v[5] == 0.0)
    for c in range(3):
        if zero[(c + 1) % 3] and zero[(c + 2) % 3]:
            return _place(1, c), none
    if a < 0 and b < 0:
        return _place(2, a * b), none
    event, side = max(a, b), min(a, b)
    if zero[2]:
        return _mix((key if side >= 0 else key ^ words[event])) ^ _place(3, 0), none
    beyond = key ^ words[event]
    if side < 0:
        if region.axis[-1 - side] == axis[event >> 1]:
            far = beyond ^ words[event ^ 1]
            return _mix(key) + _mix(beyond) + _mix(far), far
        return _mix(key) + _mix(beyond) + _place(4, -side), none
    near = key ^ words[side]
    if a ^ b == 1:
        return _mix(key) + _mix(beyond) + _mix(near), none
    far = beyond ^ words[side]
    return _mix(key) + _mix(beyond) + _mix(near) + _mix(far), far


# ----------------------------------------------------------------------------------------------------------------------
# 1. CEF


class Closed(NamedTuple):
    """Closed facets: facet f has the edges at[f] : at[f + 1], in order."""

    at: Ints
    code: npt.NDArray[np.int32]
    near: Words  # key of the facet behind the edge, 0 behind a side
    vertex: Words  # name of the corner at the end of the edge
    far: Words  # key of the facet opposite to that corner, 0 if there is none
    corner: Floats  # (n, 3) that corner
    tie: npt.NDArray[np.bool_]  # (F,) facets that the jitter made


@entry
def _close_some(data, region, words, states, keys, which, hint_at, hints, answer_at, answers):  # type: ignore[no-untyped-def]
    """Close the facets ``which`` of a layer. Returns the arrays of Closed, questions, outcomes and a count."""
    task = make_task(data, region)
    cap = 8 * which.size + 64
    code, name = np.empty(cap, np.int32), np.empty((3, cap), np.uint64)
    corner = np.empty((cap, 3))
    at = np.zeros(which.size + 1, np.int64)
    outcome = np.empty(which.size, np.int64)
    tie = np.zeros(which.size, np.bool_)
    asked = np.empty((0, 5), np.int64)
    end = 0
    for f in range(which.size):
        g = which[f]
        task.answers = answers[answer_at[f] : answer_at[f + 1]]
        task.state = states[g]
        outcome[f] = close_facet(task, hints[hint_at[g] : hint_at[g + 1]])
        size = task.tally[N_CORNERS] if outcome[f] == CLOSED else 0
        if end + size > cap:
            cap = 2 * (end + size)
            code = np.concatenate((code, np.empty(cap - code.size, np.int32)))
            name = np.concatenate((name, np.empty((3, cap - name.shape[1]), np.uint64)), axis=1)
            corner = np.concatenate((corner, np.empty((cap - corner.shape[0], 3))))
        for j in range(size):
            a, b = task.edge[0, CODE, j], task.edge[0, CODE, (j + 1) % size]
            v = task.corner[0, j]
            code[end + j] = a
            name[0, end + j] = keys[g] ^ words[a] if a >= 0 else np.uint64(0)
            name[1, end + j], name[2, end + j] = _name_vertex(region, data.axis, words, keys[g], a, b, v)
            for c in range(3):
                corner[end + j, c] = v[c]
        end += size
        at[f + 1] = end
        if size > 0:
            tie[f] = is_tie(task)
        if outcome[f] == ASKING:
            rows = np.empty((task.tally[N_ASKED], 5), np.int64)
            for k in range(rows.shape[0]):
                rows[k, 0] = f
                for c in range(4):
                    rows[k, 1 + c] = task.asked[k, c]
            asked = np.concatenate((asked, rows))
    return at, code[:end], name[:, :end], corner[:end], tie, asked, outcome, task.tally[N_REFINED]


class Engine:
    """The four steps, for one problem in one region."""

    def __init__(self, data: Data, region: Region, words: Words, n_jobs: int = 1) -> None:
        self.data = data
        self.region = region
        self.words = words
        self.exact = ExactProblem(data, region)
        self.n_jobs = n_jobs
        self.n_refined = 0
        self.n_exact = 0

    def cef(self, layer: Layer, count: int) -> Closed:
        """Close the first ``count`` facets of a layer."""
        pieces = [part for part in np.array_split(np.arange(count), self.n_jobs) if part.size]
        if len(pieces) == 1:
            return self._close(layer, pieces[0])
        with ThreadPoolExecutor(self.n_jobs) as pool:
            return join(list(pool.map(lambda which: self._close(layer, which), pieces)))

    def _close(self, layer: Layer, which: Ints) -> Closed:
        """Close some facets; those that ask are closed again with exact answers until they ask no more."""
        answers: list[Ints] = [np.empty((0, 5), dtype=np.intp) for _ in which]
        done: list[Closed | None] = [None] * which.size
        pending = np.arange(which.size)
        whole = None
        while pending.size:
            some = [answers[f] for f in pending]
            answer_at = np.concatenate([[0], np.cumsum([a.shape[0] for a in some])]).astype(np.intp)
            at, code, name, corner, tie, asked, outcome, refined = _close_some(
                self.data, self.region, self.words, layer.states, layer.keys, which[pending], layer.hint_at, layer.hints,
                answer_at, np.concatenate(some),
            )  # fmt: skip
            self.n_refined += int(refined)
            closed = Closed(at, code, name[0], name[1], name[2], corner, tie)
            if whole is None and np.all(outcome == CLOSED):
                return closed
            whole = closed
            self._check(layer, which[pending], outcome)
            for k in np.flatnonzero(outcome == CLOSED):
                part = slice(at[k], at[k + 1])
                arrays = (array[part] for array in closed[1:-1])
                done[pending[k]] = Closed(np.array([0, at[k + 1] - at[k]]), *arrays, tie[k : k + 1])
            for k in np.flatnonzero(outcome == ASKING):
                questions = asked[asked[:, 0] == k, 1:]
                self.n_exact += questions.shape[0]
                f = pending[k]
                answers[f] = np.concatenate([answers[f], answer(self.exact, layer.states[which[f]], questions)])
            pending = pending[outcome == ASKING]
        return join([part for part in done if part is not None])

    def _check(self, layer: Layer, which: Ints, outcome: Ints) -> None:
        wrong = np.flatnonzero((outcome != CLOSED) & (outcome != ASKING))
        if wrong.size:
            state = layer.states[which[wrong[0]]]
            raise EngineError(
                f"{wrong.size} facets without area (outcome {outcome[wrong[0]]}), first: "
                f"margin {np.flatnonzero(state == MARGIN).tolist()}, inside {np.flatnonzero(state == INSIDE).tolist()}"
            )

    # 2. - 4.

    def mev(self, closed: Closed) -> Named:
        """Name the facet behind each edge, and tell it that edge."""
        facet = np.repeat(np.arange(closed.at.size - 1), np.diff(closed.at))
        event = closed.code >= 0
        code = closed.code[event]
        flips = np.column_stack([code, np.full(code.size, -1, dtype=np.int32)])
        return Named(closed.near[event], facet[event], flips, closed.near[event], code)

    def cv(self, closed: Closed) -> Named:
        """Name the facet opposite to each vertex, and tell the facets around the vertex its two open edges."""
        facet = np.repeat(np.arange(closed.at.size - 1), np.diff(closed.at))
        after = np.arange(closed.code.size) + 1
        after[closed.at[1:] - 1] = closed.at[:-1]
        loop = np.flatnonzero(closed.far != 0)
        a, b = closed.code[loop], closed.code[after[loop]]
        near_a, near_b, far = closed.near[loop], closed.near[after[loop]], closed.far[loop]
        # On an axis one of the two is a side: the facet behind the event has both types of it, the opposite one the other.
        first = np.where(a < 0, b, a)
        on_axis = (a < 0) | (b < 0)
        second = np.where(on_axis, first ^ 1, b)
        flips = np.column_stack([first, second])
        near_first = np.where(a < 0, near_b, near_a)
        full = ~on_axis
        told = np.concatenate([near_first, far, near_b[full], far[full]])
        codes = np.concatenate([second, second, first[full], first[full]])
        return Named(far, facet[loop], flips, told, codes)

    def mef(self, layer: Layer, before: Words, named: list[Named]) -> Layer:
        """Merge all that was named into the next layer."""
        key = np.concatenate([n.key for n in named])
        unique, first = np.unique(key, return_index=True)
        fresh = ~(np.isin(unique, layer.keys) | np.isin(unique, before))
        unique, first = unique[fresh], first[fresh]
        order = np.argsort(first)
        rank = np.empty(order.size, dtype=np.intp)
        rank[order] = np.arange(order.size)
        parent = np.concatenate([n.facet for n in named])[first[order]]
        flips = np.concatenate([n.flips for n in named])[first[order]]
        hint_at, hints = _group(unique, rank, named)
        return Layer(unique[order], flip(layer.states, parent, flips), parent, flips, hint_at, hints)


class Layer(NamedTuple):
    """The facets of a layer: keys, partitions, how each was reached from the layer before, and its known edges."""

    keys: Words
    states: npt.NDArray[np.int8]  # (F, N)
    parent: Ints  # place in the layer before
    flips: npt.NDArray[np.int32]  # (F, 2) codes crossed from the parent, -1 for none
    hint_at: Ints
    hints: Ints


class Named(NamedTuple):
    """Facets that a layer names (key, facet that named it, codes crossed), and edges it tells of (key of facet, code)."""

    key: Words
    facet: Ints
    flips: npt.NDArray[np.int32]
    told: Words
    code: npt.NDArray[np.int32]


def first_layer(state: npt.NDArray[np.int8], words: Words) -> Layer:
    """The layer of one given partition."""
    none = np.empty(0, dtype=np.intp)
    flips = np.full((1, 2), -1, dtype=np.int32)
    return Layer(key_of(state, words), state[None], none, flips, np.zeros(2, dtype=np.intp), none)


def key_of(state: npt.NDArray[np.int8], words: Words) -> Words:
    """Key of a partition, as an array of one: words crossed from all points in I."""
    margin, outside = state == MARGIN, state == OUTSIDE
    crossed = np.concatenate([words[1::2][margin | outside], words[0::2][outside]])
    return np.bitwise_xor.reduce(crossed, initial=np.uint64(0)).reshape(1)


def flip(states: npt.NDArray[np.int8], parent: Ints, flips: npt.NDArray[np.int32]) -> npt.NDArray[np.int8]:
    """Partitions of new facets: those of the parents with one or two points moved."""
    new = states[parent]
    for step in range(2):
        rows = np.flatnonzero(flips[:, step] >= 0)
        code = flips[rows, step]
        away = np.where(code & 1, INSIDE, OUTSIDE)
        new[rows, code >> 1] = np.where(new[rows, code >> 1] == MARGIN, away, MARGIN)
    return new


def _group(unique: Words, rank: Ints, named: list[Named]) -> tuple[Ints, Ints]:
    """Known edges of the new facets, without repetition, as (start of each facet's part, codes)."""
    told = np.concatenate([n.told for n in named])
    code = np.concatenate([n.code for n in named]).astype(np.intp)
    if unique.size == 0:
        return np.zeros(1, dtype=np.intp), np.empty(0, dtype=np.intp)
    place = np.minimum(np.searchsorted(unique, told), unique.size - 1)
    known = unique[place] == told
    facet, code = rank[place[known]], code[known]
    order = np.lexsort((code, facet))
    facet, code = facet[order], code[order]
    single = np.ones(code.size, dtype=bool)
    single[1:] = (facet[1:] != facet[:-1]) | (code[1:] != code[:-1])
    facet, code = facet[single], code[single]
    return np.searchsorted(facet, np.arange(unique.size + 1)).astype(np.intp), code


def join(parts: list[Closed]) -> Closed:
    """Several lots of closed facets as one."""
    sizes = np.concatenate([np.diff(part.at) for part in parts])
    at = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
    return Closed(at, *(np.concatenate(arrays) for arrays in list(zip(*parts, strict=True))[1:]))
