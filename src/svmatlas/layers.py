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
from svmatlas.facet import (
    CODE,
    INSIDE,
    MARGIN,
    N_ASKED,
    N_CORNERS,
    N_REFINED,
    OUTSIDE,
    Data,
    Region,
    Space,
    drift_of,
    make_space,
    make_task,
    move_pull,
    sum_pull,
)
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


class Layer(NamedTuple):
    """The facets of a layer: keys, partitions, how each was reached from the layer before, and its known edges."""

    number: int  # 0 for the first
    first: int  # number of its first facet
    keys: Words
    states: npt.NDArray[np.int8]  # (F, N)
    parent: npt.NDArray[np.int32]  # number of a facet of the layer before, -1 for the first facet
    flips: npt.NDArray[np.int32]  # (F, 2) codes crossed from the parent, -1 for none
    pulls: Floats  # (F, 3, 2, d) as in Task
    hint_at: Ints
    hints: Ints  # (n, 2) pairs of edges with a known corner between them; twice the same for an edge alone


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
    """Buffers for n facets: these have 4 edges on average; what does not fit is put off to the next run."""
    cap = 8 * n + 4096
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
def _close_some(data, region, space, words, keys, states, pulls, drift, hint_at, hints, which, answer_at, answers, out):
    """Close the facets ``which`` of a layer into ``out``. Returns the numbers of questions and of refined predicates."""
    task = make_task(data, region, space)
    task.tally[N_REFINED] = 0
    task.drift = drift
    n_asked = 0
    out.at[0] = 0
    for f in range(which.size):
        g = which[f]
        out.at[f + 1] = out.at[f]
        out.tie[f] = False
        out.coarse[f] = False
        task.answers = answers[answer_at[f] : answer_at[f + 1]]
        task.state, task.pull = states[g], pulls[g]
        out.outcome[f] = close_facet(task, hints[hint_at[g] : hint_at[g + 1]])
        if out.outcome[f] == CLOSED:
            if out.at[f] + task.tally[N_CORNERS] > out.code.size:
                out.outcome[f] = PUT_OFF
                continue
            _write_facet(task, words, keys[g], f, out)
            out.coarse[f] = has_coarse(task)
            out.tie[f] = not out.coarse[f] and is_tie(task)
        elif out.outcome[f] == ASKING:
            for k in range(min(task.tally[N_ASKED], out.asked.shape[0] - n_asked)):
                out.asked[n_asked, 0] = f
                for c in range(4):
                    out.asked[n_asked, 1 + c] = task.asked[k, c]
                n_asked += 1
    return n_asked, task.tally[N_REFINED]


# ----------------------------------------------------------------------------------------------------------------------
# 2. - 4. MEV, CV, MEF


class Next(NamedTuple):
    """Where the next layer is put together. A table finds facets of three layers by their keys."""

    table_key: Words  # open addressing, 0 for empty
    table_value: npt.NDArray[np.int32]  # numbers of facets
    neighbour: npt.NDArray[np.int32]  # facet behind each edge of this layer, BOUNDARY behind a side
    keys: Words  # of the new facets, and how they were reached
    parent: npt.NDArray[np.int32]
    flips: npt.NDArray[np.int32]
    states: npt.NDArray[np.int8]
    pulls: Floats
    told: Ints  # (n, 3) known corners of the new facets as linked lists: code, code, next
    last_told: Ints  # entry of each new facet
    hint_at: Ints  # and in the end one after the other
    hints: Ints
    counts: Ints  # NEW facets, TOLD edges


NEW, TOLD = 0, 1
BOUNDARY = -1
"""In place of a facet's number: nothing, the edge is a side of the region."""


def _make_next(n_known: int, n_edges: int, n_points: int, d: int) -> Next:
    """Room for all that n_edges can name: at most one facet behind each and one opposite to the corner at its end."""
    size = 1 << int(4 * (n_known + 2 * n_edges)).bit_length()
    cap = 2 * n_edges
    return Next(
        table_key=np.zeros(size, dtype=np.uint64),
        table_value=np.empty(size, dtype=np.int32),
        neighbour=np.empty(n_edges, dtype=np.int32),
        keys=np.empty(cap, dtype=np.uint64),
        parent=np.empty(cap, dtype=np.int32),
        flips=np.empty((cap, 2), dtype=np.int32),
        states=np.empty((cap, n_points), dtype=np.int8),
        pulls=np.empty((cap, 3, 2, d)),
        told=np.empty((4 * n_edges, 3), dtype=np.intp),
        last_told=np.empty(cap, dtype=np.intp),
        hint_at=np.empty(cap + 1, dtype=np.intp),
        hints=np.empty((4 * n_edges, 2), dtype=np.intp),
        counts=np.zeros(2, dtype=np.intp),
    )


@kernel
def _find(out, key):
    """Place of a key in the table, or the empty place where it belongs."""
    mask = np.uint64(out.table_key.size - 1)
    place = key & mask
    while out.table_key[place] != key and out.table_key[place] != np.uint64(0):
        place = (place + np.uint64(1)) & mask
    return place


@kernel
def _know(out, keys, first):
    """Enter the facets of a layer into the table."""
    for f in range(keys.size):
        place = _find(out, keys[f])
        out.table_key[place] = keys[f]
        out.table_value[place] = first + f


@kernel
def _merge(out, key, first, parent, code, other):
    """Number of the facet with this key; if there is none it becomes a new one, reached by crossing one or two codes."""
    place = _find(out, key)
    if out.table_key[place] != key:
        n = out.counts[NEW]
        out.table_key[place], out.table_value[place] = key, first + n
        out.keys[n], out.parent[n], out.last_told[n] = key, parent, -1
        out.flips[n, 0], out.flips[n, 1] = code, other
        out.counts[NEW] += 1
    return out.table_value[place]


@kernel
def _tell(out, facet, first, a, b):
    """Tell a new facet of a corner between two of its edges, once; of an edge alone if these are the same."""
    n = facet - first
    if n < 0:
        return
    a, b = max(a, b), min(a, b)
    k = out.last_told[n]
    while k >= 0:
        if out.told[k, 0] == a and out.told[k, 1] == b:
            return
        k = out.told[k, 2]
    k = out.counts[TOLD]
    out.told[k, 0], out.told[k, 1], out.told[k, 2] = a, b, out.last_told[n]
    out.last_told[n] = k
    out.counts[TOLD] += 1


@kernel
def _mev(at, code, near, first_here, first_new, out):
    """Name the facet behind each edge, and tell it that edge."""
    for f in range(at.size - 1):
        for k in range(at[f], at[f + 1]):
            out.neighbour[k] = BOUNDARY
            if code[k] >= 0:
                out.neighbour[k] = _merge(out, near[k], first_new, first_here + f, code[k], -1)
                _tell(out, out.neighbour[k], first_new, code[k], code[k])


@kernel
def _cv(at, code, far, corner, first_here, first_new, out):
    """Name the facet opposite to each vertex, and tell the facets around the vertex its two open edges.

    On an axis one of the two edges is a side: the facet behind the other has both types of its event, the opposite one
    the other type only. On another side, away from infinity, the facet behind the other has the same two edges.
    """
    for f in range(at.size - 1):
        for k in range(at[f], at[f + 1]):
            after = k + 1 if k + 1 < at[f + 1] else at[f]
            event, side = (after, k) if code[k] < 0 else (k, after)
            if far[k] == np.uint64(0):
                zeros = (corner[k, 0] == 0.0) + (corner[k, 1] == 0.0)
                if code[event] >= 0 and code[side] < 0 and zeros < 2 and corner[k, 2] > 0.0:
                    _tell(out, out.neighbour[event], first_new, code[event], code[side])
                continue
            on_axis = code[side] < 0
            second = code[event] ^ 1 if on_axis else code[side]
            opposite = _merge(out, far[k], first_new, first_here + f, code[event], second)
            _tell(out, out.neighbour[event], first_new, code[event], second)
            _tell(out, opposite, first_new, second, code[side] if on_axis else code[event])
            if not on_axis:
                _tell(out, out.neighbour[side], first_new, code[event], second)


@kernel
def _mef(data, states, pulls, first_here, out):
    """Put down the new facets: their partitions and pulls, and their known corners in a row."""
    end = 0
    out.hint_at[0] = 0
    for n in range(out.counts[NEW]):
        parent = out.parent[n] - first_here
        out.states[n] = states[parent]
        out.pulls[n] = pulls[parent]
        for step in range(2):
            if out.flips[n, step] >= 0:
                move(data, out.states[n], out.pulls[n], out.flips[n, step])
        k = out.last_told[n]
        while k >= 0:
            out.hints[end, 0], out.hints[end, 1] = out.told[k, 0], out.told[k, 1]
            end += 1
            k = out.told[k, 2]
        out.hint_at[n + 1] = end


@kernel
def move(data, state, pull, code):
    """Cross the line of a code."""
    i, before = code >> 1, state[code >> 1]
    cross(state, code)
    if before == INSIDE:
        move_pull(data.rows, data.point, data.axis, pull, i, -1.0)
    elif state[i] == INSIDE:
        move_pull(data.rows, data.point, data.axis, pull, i, 1.0)


@kernel
def cross(state, code):
    """Move the point of a code between M and O (type 0) or I (type 1)."""
    i = code >> 1
    if state[i] == MARGIN:
        state[i] = INSIDE if code & 1 else OUTSIDE
    else:
        state[i] = MARGIN


@entry
def pull_of(data, state, pull):
    """The pulls of a partition (for Python)."""
    sum_pull(data.rows, data.point, data.axis, state, pull)


@entry
def _next_layer(data, before, first_before, keys, states, pulls, first, at, code, near, far, corner, out):
    """Steps 2 to 4 for a closed layer."""
    _know(out, before, first_before)
    _know(out, keys, first)
    first_new = first + keys.size
    _mev(at, code, near, first, first_new, out)
    _cv(at, code, far, corner, first, first_new, out)
    _mef(data, states, pulls, first, out)


# ----------------------------------------------------------------------------------------------------------------------
# The engine


class Engine:
    """The four steps, for one problem in one region."""

    def __init__(self, data: Data, region: Region, words: Words, n_jobs: int = 1) -> None:
        self.data = data
        self.region = region
        self.words = words
        self.exact = ExactProblem(data, region)
        self.n_jobs = n_jobs
        self.spaces = [make_space(data, region) for _ in range(n_jobs)]
        self.n_refined = 0
        self.n_exact = 0

    def drift(self, layer: Layer) -> float:
        """Bound on the errors of the pulls of a layer, each point of which was added once and moved twice a layer at most."""
        return drift_of(self.data, self.data.rows.shape[0] + 2 * layer.number)

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
            return self._close(layer, which, self.spaces[0])
        with ThreadPoolExecutor(self.n_jobs) as pool:
            parts = np.array_split(which, self.n_jobs)
            return join(list(pool.map(lambda part, space: self._close(layer, part, space), parts, self.spaces)))

    def _close(self, layer: Layer, which: Ints, space: Space) -> Closed:
        """Close some facets; those that ask are closed again with exact answers until they ask no more."""
        out, n_asked = self._attempt(layer, which, [], space)
        if np.all(out.outcome == CLOSED):
            return _closed(out)
        answers: list[Ints] = [np.empty((0, 5), dtype=np.intp) for _ in which]
        done: list[Closed | None] = [None] * which.size
        pending = np.arange(which.size)
        while pending.size:
            closed = _closed(out)
            for k in np.flatnonzero(out.outcome == CLOSED):
                done[pending[k]] = _one(closed, int(k))
            for k in np.flatnonzero(out.outcome == ASKING):
                questions = out.asked[:n_asked][out.asked[:n_asked, 0] == k, 1:]
                self.n_exact += questions.shape[0]
                f = pending[k]
                answers[f] = np.concatenate([answers[f], answer(self.exact, layer.states[which[f]], questions)])
            pending = pending[out.outcome != CLOSED]
            if pending.size:
                out, n_asked = self._attempt(layer, which[pending], [answers[f] for f in pending], space)
        return join([part for part in done if part is not None])

    def _attempt(self, layer: Layer, which: Ints, answers: list[Ints], space: Space) -> tuple[Buffers, int]:
        """One run of the kernel: the buffers, and how many questions there are in them."""
        out = _make_buffers(which.size)
        answer_at = np.zeros(which.size + 1, dtype=np.intp)
        if answers:
            np.cumsum([a.shape[0] for a in answers], out=answer_at[1:])
        known = np.concatenate(answers) if answers else np.empty((0, 5), dtype=np.intp)
        n_asked, refined = _close_some(
            self.data, self.region, space, self.words, layer.keys, layer.states, layer.pulls, self.drift(layer),
            layer.hint_at, layer.hints, which, answer_at, known, out,
        )  # fmt: skip
        self.n_refined += int(refined)
        if np.any(out.outcome >= EMPTY) and np.any((out.outcome == EMPTY) | (out.outcome == BROKEN)):
            self._complain(layer, which, out.outcome)
        if out.coarse.any():
            self._settle(layer, which, out)
        return out, int(n_asked)

    def _settle(self, layer: Layer, which: Ints, out: Buffers) -> None:
        """Corners and ties of facets that are too ill-conditioned for double-double."""
        for f in np.flatnonzero(out.coarse & (out.outcome == CLOSED)):
            place = slice(out.at[f], out.at[f + 1])
            codes = out.code[place].tolist()
            corners, out.tie[f] = settle(self.exact, layer.states[which[f]], codes)
            known = out.corner[place] == 0.0  # zero by structure
            out.corner[place] = np.where(known, 0.0, np.maximum(corners, 0.0))
            self.n_exact += len(codes)

    def _complain(self, layer: Layer, which: Ints, outcome: Ints) -> None:
        wrong = np.flatnonzero((outcome == EMPTY) | (outcome == BROKEN))
        state = layer.states[which[wrong[0]]]
        raise EngineError(
            f"{wrong.size} facets without area (outcome {outcome[wrong[0]]}), first: "
            f"margin {np.flatnonzero(state == MARGIN).tolist()}, inside {np.flatnonzero(state == INSIDE).tolist()}"
        )

    def grow(self, before: Layer, layer: Layer, closed: Closed) -> tuple[Layer, npt.NDArray[np.int32]]:
        """MEV, CV and MEF: the next layer, and the facets behind the edges of this one."""
        n_points, d = self.data.rows.shape
        out = _make_next(before.keys.size + layer.keys.size, closed.code.size, n_points, d)
        _next_layer(
            self.data, before.keys, before.first, layer.keys, layer.states, layer.pulls, layer.first,
            closed.at, closed.code, closed.near, closed.far, closed.corner, out,
        )  # fmt: skip
        n, first = int(out.counts[NEW]), layer.first + layer.keys.size
        new = Layer(
            layer.number + 1, first, out.keys[:n], out.states[:n], out.parent[:n], out.flips[:n], out.pulls[:n],
            out.hint_at[: n + 1], out.hints,
        )  # fmt: skip
        return new, out.neighbour


def first_layer(state: npt.NDArray[np.int8], words: Words, data: Data) -> Layer:
    """The layer of one given partition."""
    root, pulls = np.full((1, 2), -1, dtype=np.int32), np.empty((1, 3, 2, data.rows.shape[1]))
    pull_of(data, state, pulls[0])
    no_hints = np.zeros(2, dtype=np.intp), np.empty((0, 2), dtype=np.intp)
    return Layer(0, 0, key_of(state, words), state[None], root[:, 0].copy(), root, pulls, *no_hints)


def key_of(state: npt.NDArray[np.int8], words: Words) -> Words:
    """Key of a partition, as an array of one: words crossed from all points in I, whose key is 1 (0 names no facet)."""
    margin, outside = state == MARGIN, state == OUTSIDE
    crossed = np.concatenate([words[1::2][margin | outside], words[0::2][outside]])
    key: Words = np.bitwise_xor.reduce(crossed, initial=np.uint64(1)).reshape(1)
    return key


def crossed(state: npt.NDArray[np.int8], code: int) -> npt.NDArray[np.int8]:
    """A partition with the point of a code moved (``cross`` for Python)."""
    new = state.copy()
    new[code >> 1] = (INSIDE if code & 1 else OUTSIDE) if state[code >> 1] == MARGIN else MARGIN
    return new


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
