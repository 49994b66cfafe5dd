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
    at infinity           the strip whose parallel sides end there; where there are several, mesh.py makes them one
    a corner of the region, or a corner of the triangle where any number of parallel strips end

A facet touches only facets of its own layer, the one before and the one after, so only those are held as partitions.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.doubledouble import entry, kernel
from svmatlas.exact import ExactProblem, answer, settle
from svmatlas.facet import CODE, INSIDE, MARGIN, N_ASKED, N_CORNERS, N_REFINED, OUTSIDE, Data, Region, make_space, make_task
from svmatlas.polygon import ASKING, BROKEN, CLOSED, EMPTY, close_facet, has_coarse, is_tie

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Words = npt.NDArray[np.uint64]

PUT_OFF = 4
"""One more outcome (beside those of polygon.py): closed, but the buffers are full."""


class EngineError(RuntimeError):
    """A facet came out impossible. This contradicts the mathematics: please report the data."""


# ----------------------------------------------------------------------------------------------------------------------
# Names


def make_words(n_points: int, random_state: np.random.Generator) -> Words:
    """One random word for each code."""
    return random_state.integers(1, 2**64, size=2 * n_points, dtype=np.uint64)


@kernel
def _mix(x):
    """A fixed random-looking bijection of 64-bit words (the finaliser of splitmix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def _place(kind, number):
    """Word of a place that is not named by facets."""
    return _mix(np.uint64(0x9E3779B97F4A7C15) * np.uint64(1 + number * 8 + kind))


@kernel
def _name_vertex(task, words, key, a, b, v):
    """Name of the corner v (entries, errors) between edges a and b of a facet, and the key of the facet opposite (0: none)."""
    none = np.uint64(0)
    zero = (v[0] == 0.0 and v[3] == 0.0), (v[1] == 0.0 and v[4] == 0.0), (v[2] == 0.0 and v[5] == 0.0)
    for c in range(3):
        if zero[(c + 1) % 3] and zero[(c + 2) % 3]:
            return _place(1, c), none
    if a < 0 and b < 0:
        return _place(2, a * b), none
    event, side = max(a, b), min(a, b)
    if zero[2]:
        return _mix(key if side >= 0 else key ^ words[event]) ^ _place(3, 0), none
    beyond = key ^ words[event]
    if side < 0:
        if task.side_axis[-1 - side] == task.axis[event >> 1]:
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


class Buffers(NamedTuple):
    """Where a run of the kernel writes to."""

    at: Ints
    code: npt.NDArray[np.int32]
    name: Words  # (3, cap): near, vertex, far
    corner: Floats
    tie: npt.NDArray[np.bool_]
    coarse: npt.NDArray[np.bool_]  # facets with corners that even double-double does not know well
    outcome: Ints
    asked: Ints  # (cap, 5): facet and question


def _make_buffers(n: int) -> Buffers:
    cap = 8 * n + 4096  # a facet has 4 edges on average; what does not fit is put off to the next run
    return Buffers(
        at=np.zeros(n + 1, dtype=np.intp),
        code=np.empty(cap, dtype=np.int32),
        name=np.empty((3, cap), dtype=np.uint64),
        corner=np.empty((cap, 3)),
        tie=np.zeros(n, dtype=bool),
        coarse=np.zeros(n, dtype=bool),
        outcome=np.empty(n, dtype=np.intp),
        asked=np.empty((cap, 5), dtype=np.intp),
    )


@kernel
def _write_facet(task, words, key, f, out):
    """Append the polygon in hand to the buffers as facet f."""
    start, size = out.at[f], task.tally[N_CORNERS]
    for j in range(size):
        a, b = task.edge[0, CODE, j], task.edge[0, CODE, j + 1 if j + 1 < size else 0]
        v, k = task.corner[0, j], start + j
        out.code[k] = a
        out.name[0, k] = key ^ words[a] if a >= 0 else np.uint64(0)
        out.name[1, k], out.name[2, k] = _name_vertex(task, words, key, a, b, v)
        for c in range(3):
            out.corner[k, c] = v[c]
    out.at[f + 1] = start + size


@entry
def _close_some(data, region, space, words, layer, which, answer_at, answers, out):
    """Close the facets ``which`` of a layer into ``out``. Returns the numbers of questions and of refined predicates."""
    task = make_task(data, region, space)
    n_asked = 0
    for f in range(which.size):
        g = which[f]
        out.at[f + 1] = out.at[f]
        task.answers = answers[answer_at[f] : answer_at[f + 1]]
        task.state = layer.states[g]
        out.outcome[f] = close_facet(task, layer.hints[layer.hint_at[g] : layer.hint_at[g + 1]])
        if out.outcome[f] == CLOSED:
            if out.at[f] + task.tally[N_CORNERS] > out.code.size:
                out.outcome[f] = PUT_OFF
                continue
            _write_facet(task, words, layer.keys[g], f, out)
            out.coarse[f] = has_coarse(task)
            out.tie[f] = not out.coarse[f] and is_tie(task)
        elif out.outcome[f] == ASKING:
            for k in range(min(task.tally[N_ASKED], out.asked.shape[0] - n_asked)):
                out.asked[n_asked, 0] = f
                for c in range(4):
                    out.asked[n_asked, 1 + c] = task.asked[k, c]
                n_asked += 1
    return n_asked, task.tally[N_REFINED]


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

    def cef(self, layer: Layer, count: int, chunk: int = 4096, deadline: float = np.inf) -> Closed:
        """Close the first ``count`` facets of a layer, fewer if the time of the monotonic clock passes ``deadline``."""
        parts = []
        for first in range(0, count, chunk):
            parts.append(self._close_parallel(layer, np.arange(first, min(first + chunk, count))))
            if time.monotonic() > deadline:
                break
        return parts[0] if len(parts) == 1 else join(parts)

    def _close_parallel(self, layer: Layer, which: Ints) -> Closed:
        if self.n_jobs == 1 or which.size < 2 * self.n_jobs:
            return self._close(layer, which)
        with ThreadPoolExecutor(self.n_jobs) as pool:
            return join(list(pool.map(lambda part: self._close(layer, part), np.array_split(which, self.n_jobs))))

    def _close(self, layer: Layer, which: Ints) -> Closed:
        """Close some facets; those that ask are closed again with exact answers until they ask no more."""
        answers: list[Ints] = [np.empty((0, 5), dtype=np.intp) for _ in which]
        done: list[Closed | None] = [None] * which.size
        pending = np.arange(which.size)
        while pending.size:
            some = [answers[f] for f in pending]
            answer_at = np.concatenate([[0], np.cumsum([a.shape[0] for a in some])]).astype(np.intp)
            out = _make_buffers(pending.size)
            n_asked, refined = _close_some(
                self.data,
                self.region,
                make_space(self.data, self.region),
                self.words,
                layer,
                which[pending],
                answer_at,
                np.concatenate(some),
                out,
            )
            self.n_refined += int(refined)
            self._check(layer, which[pending], out.outcome)
            self._settle(layer, which[pending], out)
            closed = _closed(out)
            if pending.size == which.size and np.all(out.outcome == CLOSED):
                return closed
            for k in np.flatnonzero(out.outcome == CLOSED):
                done[pending[k]] = _one(closed, int(k))
            for k in np.flatnonzero(out.outcome == ASKING):
                questions = out.asked[:n_asked][out.asked[:n_asked, 0] == k, 1:]
                self.n_exact += questions.shape[0]
                f = pending[k]
                answers[f] = np.concatenate([answers[f], answer(self.exact, layer.states[which[f]], questions)])
            pending = pending[out.outcome != CLOSED]
        return join([part for part in done if part is not None])

    def _settle(self, layer: Layer, which: Ints, out: Buffers) -> None:
        """Corners and ties of facets that are too ill-conditioned for double-double."""
        for f in np.flatnonzero(out.coarse & (out.outcome == CLOSED)):
            place = slice(out.at[f], out.at[f + 1])
            codes = out.code[place].tolist()
            corners, out.tie[f] = settle(self.exact, layer.states[which[f]], codes)
            known = out.corner[place] == 0.0  # zero by structure
            out.corner[place] = np.where(known, 0.0, np.maximum(corners, 0.0))
            self.n_exact += len(codes)

    def _check(self, layer: Layer, which: Ints, outcome: Ints) -> None:
        wrong = np.flatnonzero((outcome == EMPTY) | (outcome == BROKEN))
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
    """Key of a partition, as an array of one: words crossed from all points in I, whose key is 1 (0 names no facet)."""
    margin, outside = state == MARGIN, state == OUTSIDE
    crossed = np.concatenate([words[1::2][margin | outside], words[0::2][outside]])
    key: Words = np.bitwise_xor.reduce(crossed, initial=np.uint64(1)).reshape(1)
    return key


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


def _closed(out: Buffers) -> Closed:
    """The filled part of the buffers."""
    end = out.at[-1]
    near, vertex, far = out.name[:, :end]
    return Closed(out.at, out.code[:end], near, vertex, far, out.corner[:end], out.tie)


def _one(closed: Closed, k: int) -> Closed:
    """Facet k alone."""
    begin, end = closed.at[k], closed.at[k + 1]
    arrays: list[Any] = [a[begin:end] for a in closed[1:-1]]
    return Closed(closed.at[k : k + 2] - begin, *arrays, closed.tie[k : k + 1])  # type: ignore[call-arg]


def join(parts: list[Closed]) -> Closed:
    """Several lots of closed facets as one."""
    at, *arrays = zip(*parts, strict=True)
    sizes = np.concatenate([np.diff(part) for part in at])
    return Closed(np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp), *(np.concatenate(part) for part in arrays))
