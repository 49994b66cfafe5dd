"""Layer after layer of facets: the paper's AC-LSVMPath over the flat arrays of one tile, a part of the plane, in four steps.

1. ``CEF`` closes a facet: polygon of its partition, known edges and corners first (polygon.py).
2. ``MEV`` names what lies behind each edge: crossing it flips one point. Equal facets, edges and vertices are merged by name.
3. ``CV`` closes each vertex by the vertex loop property: behind a vertex of two events lies the facet with both points
   flipped, and at that vertex all four facets have the same two events as edges ("open" edges: one end is known).
4. ``MEF`` merges open edges and facets into the layer after: a facet is there once, with all corners that are known of it.

Each facet knows what all facets before it found: a vertex is checked once, by the facet that found it, which names the facets
around it and tells them of it. So a facet of which all corners are known needs no maps: it is put together from its corners.
Crossing an edge changes |M| by one, so facets are coloured like a chessboard by the parity of |M|, and at each vertex two of
each colour meet. All vertices are found from facets of one colour alone, and with those first of which least is known two
facets in five have to be closed from their maps. That colour is the one of |M| = rank - 1, where all score lines are parallel.
Layers are found in the end, when tiles are joined (mesh.py).

Names. ``words`` holds one random 64-bit word for each code; a facet's key is the XOR of the words that were crossed from
the partition with all points in I, so it depends on the partition only. A vertex is named by the sum of the mixed keys of the
facets around it:

    two events            facets f, f^a, f^b, f^a^b                        inside the region
    on an axis, C+ = 0    i in I, i in M, i in O, for one positive i       alpha_i = 0 and alpha_i = w_i C+ meet there
    on another side       f, f^a, and the side
    at infinity           the strip whose parallel sides end there; where there are several, mesh.py makes them one
    a corner of the region, or a corner of the triangle where any number of parallel strips end

Candidates. In a tile few points change their set. The others are *frozen*: they are in the pull, but not among the rows, and a
facet costs what the candidates cost. Afterwards it is known how far the weights beta moved from a centre m, as lengths h_1,
h_2 along two directions f_1, f_2 and a radius R around that plane: a frozen point with

    |x.m - t| > h_1 |x.f_1| + h_2 |x.f_2| + R |x|

cannot have changed in the tile: beta is affine in each facet, so what holds at all corners holds everywhere. If all are so,
the facets are those of all points; else the others become candidates, and the tile is explored again.
"""

from __future__ import annotations

import math
from threading import get_ident
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.engine.compiled import caller, entry, kernel, owner
from svmatlas.engine.doubledouble import UNIT
from svmatlas.engine.exact import ExactFacet, ExactProblem, answer, rounded, settle
from svmatlas.engine.facet import (
    BETA,
    BETA_HI,
    CODE,
    CROSS,
    ETA,
    ETA_DD,
    HINT,
    INSIDE,
    LENGTH,
    MARGIN,
    N_ASKED,
    N_CORNERS,
    N_REFINED,
    N_ZERO,
    NORM,
    OUTSIDE,
    REFINED,
    SIGN,
    SLOT,
    TARGET_LO,
    Data,
    L,
    P,
    Q,
    Region,
    Space,
    can_anchor,
    clear,
    drift_of,
    gather,
    make_space,
    make_task,
    move_pull,
    refine,
    sum_pull,
)
from svmatlas.engine.maps import affine_maps
from svmatlas.engine.polygon import (
    ASKING,
    CLOSED,
    EMPTY,
    FIRST,
    NO_CODE,
    THIN,
    WIDE,
    close_facet,
    has_coarse,
    is_coarse,
    is_crowded,
    is_far,
    is_steep,
    is_suspect,
    is_tie,
    path_of,
    shrinks,
    trace_facet,
)
from svmatlas.engine.record import MEMORY, make_record
from svmatlas.engine.zeros import UNKNOWN, sum_words, vanishes
from svmatlas.support.stopping import NEVER, Limit, Pace, Stopped

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Int32 = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint64]
States = npt.NDArray[np.int8]

FULL, PAUSED = 4, 5
"""Two more outcomes (beside those of polygon.py): there is no room for more facets; more is not asked for, or not now."""

SMALL, LARGE = 2**11, 2**15
"""Facets for which there is room at first, with few points and with many; memory is taken as facets come."""

SPARE = 1.25
"""Room for a tile, as a multiple of what the largest before it needed."""

FIRST_CHUNK, CHUNK = 2**2, 2**13
"""Facets closed before the first look at the clock, and at most between two of them."""


class EngineError(RuntimeError):
    """A facet came out impossible. This contradicts the mathematics: please report the data."""


HOPELESS = 2.0**53
"""Condition of the rows beyond which doubles do not even know their rank; the jitter is then lost in double-double, too."""


def impossible(data: Data, what: str) -> Exception:
    """The error for a facet that came out impossible: of the data if these are hopeless, else of the engine."""
    sizes = np.linalg.svd(data.rows, compute_uv=False)
    if data.rank > 0 and not sizes[0] < HOPELESS * sizes[data.rank - 1]:
        return ValueError(
            "rows of X and the bias are dependent but for less than doubles tell, or differ too much in scale: standardise "
            f"the features, and drop those that follow from others ({what})"
        )
    return EngineError(what)


def more_answers(answers: Ints, new: Ints) -> Ints:
    """All that exact arithmetic answered for one facet. Some of it must be new, or the facet would ask for ever."""
    if (new[:, None] == answers).all(axis=2).any(axis=1).all():
        raise EngineError("a facet asks for nothing that it was not told")
    return np.concatenate([answers, new])


# ----------------------------------------------------------------------------------------------------------------------
# Names


def make_words(n_points: int, random_state: np.random.Generator) -> Words:
    """One random word for each code."""
    return random_state.integers(1, 2**64, size=2 * n_points, dtype=np.uint64)


def key_of(state: States, words: Words) -> np.uint64:
    """Key of a partition: words crossed from all points in I, whose key is 1 (0 names no facet)."""
    margin, outside = state == MARGIN, state == OUTSIDE
    crossed = np.concatenate([words[1::2][margin | outside], words[0::2][outside]])
    return np.uint64(np.bitwise_xor.reduce(crossed, initial=np.uint64(1)))


@kernel
def mix(x):
    """A fixed random-looking bijection of 64-bit words (the finaliser of splitmix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


AT_CORNER, OF_SIDES, AT_INFINITY, ON_SIDE = 1 + np.arange(4)
"""Kinds of places that are not named by facets (NumPy's numbers: see the columns in facet.py)."""


@kernel
def place(kind, number):
    """Word of a place that is not named by facets."""
    return mix(np.uint64(0x9E3779B97F4A7C15) * np.uint64(1 + number * 8 + kind))


@kernel
def corner_of_triangle(v):
    """Which corner of the triangle of costs v is, -1 for none."""
    for c in range(3):
        if v[(c + 1) % 3] == 0.0 and v[(c + 2) % 3] == 0.0:
            return c
    return -1


@kernel
def opposite(words, axis, side_axis, key, a, b, v):
    """Key of the facet opposite to corner v of edges a and b (0: none), and the two codes that lead to it."""
    none = np.uint64(0)
    event, side = max(a, b), min(a, b)
    if event < 0 or v[2] == 0.0 or corner_of_triangle(v) >= 0 or a ^ b == 1:
        return none, a, b
    if side >= 0:
        return key ^ words[event] ^ words[side], a, b
    if side_axis[-1 - side] == axis[event >> 1]:
        return key ^ words[event] ^ words[event ^ 1], event, event ^ 1
    return none, a, b


@kernel
def _name_vertex(task, words, key, a, b, v):
    """Name of the corner v between edges a and b of a facet."""
    c = corner_of_triangle(v)
    if c >= 0:
        return place(AT_CORNER, c)
    names = task.side_name
    if a < 0 and b < 0:
        return place(OF_SIDES, 64 * max(names[-1 - a], names[-1 - b]) + min(names[-1 - a], names[-1 - b]))
    event, side = max(a, b), min(a, b)
    if v[2] == 0.0:
        return mix(key if side >= 0 else key ^ words[event]) ^ place(AT_INFINITY, FIRST)
    beyond = key ^ words[event]
    far, _, _ = opposite(words, task.axis, task.side_axis, key, a, b, v)
    name = mix(key) + mix(beyond)
    if side >= 0:
        name += mix(key ^ words[side])
    elif far == np.uint64(0):
        name += place(ON_SIDE, 1 + names[-1 - side])
    if far != np.uint64(0):
        name += mix(far)
    return name


# ----------------------------------------------------------------------------------------------------------------------
# The facets of a tile


class Arena(NamedTuple):
    """All facets of a tile, those that wait included. Codes are those of the candidates."""

    key: Words  # (n,)
    seat: Int32  # (n,) row of the next two; -1 - that of the parent until the facet is closed from its maps
    state: States  # (n, K)
    pull: Floats  # (n, 3, 2, d + 1) as in Task
    holders: Int32  # (n,) facets that need a row
    free: Int32  # rows that none needs
    parent: Int32  # (n,) the facet that named this one,
    flips: Int32  # (n, 2) and the codes crossed from there, -1 for none
    depth: Int32  # (n,) parents up to the first facet
    margin: Int32  # (n, 2) positives and negatives in M
    queue: Int32  # (4, n) facets that wait, see RINGED
    told: Int32  # (m, 4) known corners of facets that wait, as linked lists: two codes in order, number (_cv), next
    last_told: Int32  # (n,) CLOSED_SINCE for facets that do not wait any more
    met: Int32  # (n, 2) corners that are known of a facet, and edges of which only one end is
    order: Int32  # (n,) the closed facets; what follows is in this order
    kind: npt.NDArray[np.int8]  # (n,) PLAIN, TIE and so on, see there
    coarse: npt.NDArray[np.bool_]  # (n,) facets with corners that even double-double does not know well
    at: Ints  # (n + 1,) closed facet j has the places at[j] : at[j + 1] of the next two
    code: Int32  # the edges in order
    vertex: Int32  # number of the corner at the end of the edge, in the next three
    name: Words  # (m,) names of corners
    corner: Floats  # (m, 3)
    crowded: npt.NDArray[np.bool_]  # (m,) more points may be on the margin there than two events explain
    beta: Floats  # (m, d) l beta there, if wanted; else (0, d)
    table_key: Words  # open addressing, 0 for empty
    table_value: Int32  # numbers of facets
    spread: Floats  # (3, 2): least and largest coordinate of beta - m along f_1 and f_2; radius R, unused
    counts: Ints  # by the names below
    memory: npt.NDArray[np.uint8]  # for the record of all this
    block: npt.NDArray[np.uint8]  # holds all of the above


DONE, NAMED, SEATS, FREE, TOLD, FOUND, LAST, HAND, LAYERED, FRONT, END = *range(10), 13
"""Facets closed and named; rows in use, and free ones; corners told, and found; the last of those free to be told anew; the
facet in hand, or -1; is one layer to be closed before the next? Front and end of the queues."""
RINGED, LONE, SAME, OTHER = range(4)
"""The queues, in the order in which they are served: facets of which all corners are known; those of one colour of which
one corner is known, and all of that colour; those of the other colour. Of LONE the last is served first: it shares most points
with the facet before, and so most columns of its factor."""
PLAIN, TIE, CROWDED, POSITIVES, NEGATIVES, UNSURE, LIKELY = np.arange(7)
"""Kinds of facets: plain ones; those without area, which the jitter made; those where points may be tied (canonical.py): at a
corner more points may be on the margin than M and two events explain; those where without jitter all positive, or all
negative, points are on the margin: M is so many of them that beta is e (see Anchored facets in facet.py); those that may be
ties up to rounding of the data, which mesh.py judges anew, whatever the way to them was, UNSURE ones and LIKELY ones."""
FAR = 2
"""Marks facets close to infinity or an axis, where thin ones are marked by 1."""
CLOSED_SINCE = -2
"""Marks facets to which nothing needs to be told."""
PLACES, CORNERS = 5, 2
"""Places and corners for each facet: they have 4 edges on average, and most corners are of four facets."""
LINE = 64
"""Bytes to which arrays in a block are aligned."""
NOWHERE = np.int64(-1)
"""Number of a corner that is not known."""
CROWD = 64
"""Most corners that are told to a facet; what is not told is found again."""


def make_arena(n: int, n_candidates: int, d: int, betas: bool, block: npt.NDArray[np.uint8]) -> Arena:
    """Room for n facets, in a block of memory if that is large enough."""
    places, corners = PLACES * n + 256, CORNERS * n + 256
    size = 1 << (2 * n).bit_length()
    fields: dict[str, tuple[Any, tuple[int, ...]]] = {
        "key": (np.uint64, (n,)),
        "seat": (np.int32, (n,)),
        "state": (np.int8, (n, n_candidates)),
        "pull": (np.float64, (n, 3, 2, d + 1)),
        "holders": (np.int32, (n,)),
        "free": (np.int32, (n,)),
        "parent": (np.int32, (n,)),
        "flips": (np.int32, (n, 2)),
        "depth": (np.int32, (n,)),
        "margin": (np.int32, (n, 2)),
        "queue": (np.int32, (4, n)),
        "told": (np.int32, (12 * n + 256, 4)),
        "last_told": (np.int32, (n,)),
        "met": (np.int32, (n, 2)),
        "order": (np.int32, (n,)),
        "kind": (np.int8, (n,)),
        "coarse": (np.bool_, (n,)),
        "at": (np.intp, (n + 1,)),
        "code": (np.int32, (places,)),
        "vertex": (np.int32, (places,)),
        "name": (np.uint64, (corners,)),
        "corner": (np.float64, (corners, 3)),
        "crowded": (np.bool_, (corners,)),
        "beta": (np.float64, (corners if betas else 0, d)),
        "table_key": (np.uint64, (size,)),
        "table_value": (np.int32, (size,)),
        "spread": (np.float64, (3, 2)),
        "counts": (np.intp, (END + 4,)),
        "memory": (np.uint8, (MEMORY,)),
    }
    sizes = [-(-np.dtype(kind).itemsize * math.prod(shape) // LINE) * LINE for kind, shape in fields.values()]
    if block.size < sum(sizes):
        block = np.empty(sum(sizes), dtype=np.uint8)
    arrays, first = {}, 0
    for (name, (kind, shape)), step in zip(fields.items(), sizes, strict=True):
        arrays[name] = block[first : first + np.dtype(kind).itemsize * math.prod(shape)].view(kind).reshape(shape)
        first += step
    return Arena(**arrays, block=block)


def larger(arena: Arena, room: int) -> Arena:
    """The same facets with room for more."""
    n, (_, n_candidates), d = arena.key.size, arena.state.shape, arena.pull.shape[3] - 1
    new = make_arena(room, n_candidates, d, arena.beta.size > 0, np.empty(0, dtype=np.uint8))
    done, named, seats, free, told, found = arena.counts[:6]
    used = {"state": seats, "pull": seats, "holders": seats, "free": free, "told": told, "at": done + 1}
    used |= dict.fromkeys(("order", "kind", "coarse"), done)
    used |= dict.fromkeys(("code", "vertex"), arena.at[done])
    used |= dict.fromkeys(("name", "corner", "crowded", "beta"), found)
    new.queue[:, :n] = arena.queue
    new.table_key[:] = 0
    for name in set(Arena._fields) - {"block", "memory", "table_key", "table_value", "queue"}:
        old = getattr(arena, name)
        some = slice(min(used.get(name, named), old.shape[0]))  # what is not in use takes no memory
        getattr(new, name)[some] = old[some]
    enter(new.table_key, new.table_value, new.key[: new.counts[NAMED]])
    return new


@entry
def _plant(data, arena, start, which, key):
    """The first facet, with a partition of all points, in an arena that is empty from now on."""
    arena.table_key[:], arena.spread[:], arena.counts[:] = np.uint64(0), 0.0, 0
    arena.key[0], arena.seat[0], arena.holders[0], arena.at[0] = key, 0, 1, 0
    arena.depth[0], arena.parent[0], arena.last_told[0] = 0, -1, -1
    arena.flips[0], arena.margin[0], arena.met[0] = -1, 0, 0
    for k in range(which.size):
        arena.state[0, k] = start[which[k]]
    for i in range(start.size):
        arena.margin[0, data.axis[i]] += start[i] == MARGIN
    sum_pull(data.rows, data.point, data.axis, start, arena.pull[0])
    arena.counts[NAMED], arena.counts[SEATS], arena.counts[LAST], arena.counts[HAND] = 1, 1, -1, 0


@entry
def enter(table_key, table_value, keys):
    """Enter facets into an empty table."""
    for n in range(keys.size):
        where = find(table_key, keys[n])
        table_key[where], table_value[where] = keys[n], n


@kernel
def find(table_key, key):
    """Place of a key in a table, or the empty place where it belongs."""
    mask = np.uint64(table_key.size - 1)
    place = key & mask
    while table_key[place] != key and table_key[place] != np.uint64(0):
        place = (place + np.uint64(1)) & mask
    return place


@kernel
def cross(state, code):
    """Move the point of a code between M and O (type 0) or I (type 1)."""
    i = code >> 1
    if state[i] == MARGIN:
        state[i] = INSIDE if code & 1 else OUTSIDE
    else:
        state[i] = MARGIN


@kernel
def move(rows, point, axis, state, pull, code):
    """Cross the line of a code, and carry the pull along."""
    i, before = code >> 1, state[code >> 1]
    cross(state, code)
    if before == INSIDE:
        move_pull(rows, point, axis, pull, i, -1.0)
    elif state[i] == INSIDE:
        move_pull(rows, point, axis, pull, i, 1.0)


# ----------------------------------------------------------------------------------------------------------------------
# 1. CEF


@kernel
def _cef(task, arena, f, hints):
    """Close facet f."""
    _take_up(task, arena, f)
    return close_facet(task, hints)


@kernel
def _take_up(task, arena, f):
    """The partition of facet f is that in hand."""
    _sit(task, arena, f)
    task.state, task.pull = arena.state[arena.seat[f]], arena.pull[arena.seat[f]]


@kernel
def _recall(arena, f, hints):
    """What facet f was told; returns how much of it there is room for."""
    n, k = 0, arena.last_told[f]
    while k >= 0 and n < hints.shape[0]:
        for c in range(3):
            hints[n, c] = arena.told[k, c]
        n += 1
        k = arena.told[k, 3]
    return n


@kernel
def _sit(task, arena, f):
    """Give a facet a row of its own for its partition, once."""
    if arena.seat[f] >= 0:
        return
    parent = -1 - arena.seat[f]
    seat = parent
    if arena.holders[parent] > 1:
        arena.holders[parent] -= 1
        seat = _take_seat(arena)
        _copy(arena.state[parent], arena.state[seat])
        for part in range(3):
            for c in range(2):
                _copy(arena.pull[parent, part, c], arena.pull[seat, part, c])
    for step in range(2):
        if arena.flips[f, step] >= 0:
            move(task.rows, task.point, task.axis, arena.state[seat], arena.pull[seat], np.int64(arena.flips[f, step]))
    arena.seat[f], arena.holders[seat] = seat, 1


@kernel
def _close_ringed(task, arena, f, hints):
    """Put together a facet of which all corners are known, from the facets around.

    Returns EMPTY if they are not known well, or if it takes more to tell whether it is a tie.
    """
    edge, corner = task.edge, task.corner
    n, _, closed = path_of(hints, edge[0, CODE], edge[0, HINT])
    if n < 3 or not closed:
        return EMPTY
    for j in range(n):
        told = hints[edge[0, HINT, j], 2]
        if told < 0:
            return EMPTY
        for c in range(3):
            corner[0, j, c] = arena.corner[told, c]
    task.tally[N_CORNERS] = n
    for j in range(n):
        edge[0, SIGN, j] = edge[0, CODE, j] >= 0 and _is_on_margin(arena, f, edge[0, CODE, j] >> 1)
    far = is_far(corner[0], n)
    between = not far and _is_between_tied(task, arena.margin[f], edge[0, CODE, :n], edge[0, SIGN])
    if not far and not is_suspect(corner[0], n, THIN):
        if between and is_suspect(corner[0], n, WIDE):  # a tie if it is steep
            return EMPTY
        n_clear, n_near, entering = 0, 0, False
        for j in range(n):
            n_clear += not arena.crowded[hints[edge[0, HINT, j], 2]]
            n_near += corner[0, j, L] > THIN
        for j in range(n if n_near <= 2 else 0):
            entering = entering or (edge[0, CODE, j] >= 0 and edge[0, SIGN, j] == 0)
        arena.kind[arena.counts[DONE]] = _kind_of(task, arena.margin[f], n_clear == n_near, entering)
        return CLOSED
    arena.kind[arena.counts[DONE]] = TIE
    if between:
        return CLOSED
    _take_up(task, arena, f)
    gather(task)
    return CLOSED if vanishes(task) else EMPTY


@kernel
def _is_between_tied(task, margin, codes, on_margin):
    """What polygon.py asks of an anchored facet, for one whose maps are not known: from its edges, and which are of M."""
    m, axis = margin[P] + margin[Q], (P if margin[P] > 0 else Q)
    if not can_anchor(task, m) or margin[axis] != m:
        return False
    n_tied, n_others = 0, 0
    for j in range(codes.size):
        if codes[j] < 0 or on_margin[j]:
            n_others += 1
        elif task.axis[codes[j] >> 1] == axis:
            n_tied += 1
        else:
            return False
    return n_tied == 2 if m == task.rank - 1 else n_others == 0


@kernel
def _is_on_margin(arena, f, i):
    """Is a point in M, in a facet that has no row of its own?"""
    on_margin = arena.state[-1 - arena.seat[f], i] == MARGIN
    for step in range(2):
        if arena.flips[f, step] >> 1 == i:
            on_margin = not on_margin
    return on_margin


@kernel
def _write(task, words, arena, f, hints):
    """Put down the polygon in hand as that of facet f; returns how many corners there are then, the new ones included."""
    done, size, key = arena.counts[DONE], task.tally[N_CORNERS], arena.key[f]
    start, found = arena.at[done], arena.counts[FOUND]
    edge, corners = task.edge, task.corner
    for j in range(size):
        a, b, v = edge[0, CODE, j], edge[0, CODE, j + 1 if j + 1 < size else 0], corners[0, j]
        arena.code[start + j] = a
        if edge[0, HINT, j] >= 0:
            told = hints[edge[0, HINT, j], 2]
            arena.vertex[start + j] = _number_of(told)
            if told < 0 and not is_coarse(v):  # this facet knows better
                _copy(v, arena.corner[_number_of(told)])
            continue
        arena.vertex[start + j], arena.name[found] = found, _name_vertex(task, words, key, a, b, v)
        for c in range(3):
            arena.corner[found, c] = v[c]
        found += 1
    arena.order[done], arena.at[done + 1] = f, start + size
    return found


@kernel
def _has_room(task, arena):
    """Is there room for the polygon in hand?"""
    n, counts = task.tally[N_CORNERS], arena.counts
    return arena.at[counts[DONE]] + n <= arena.code.size and counts[FOUND] + n <= arena.name.size


@kernel
def _number_of(told):
    """Number of a corner that was told, be it coarse."""
    return told if told >= 0 else -2 - told


@kernel
def _write_beta(task, arena):
    """Put down l beta at the new corners, refined where it is not good to ACCURACY; not a number if that fails."""
    first, n, d = arena.at[arena.counts[DONE]], task.tally[N_CORNERS], arena.beta.shape[1]
    for _ in range(2):
        refined, good = task.counts[REFINED] == 1, True
        beta, eta = task.column[BETA_HI if refined else BETA], task.bound[ETA_DD if refined else ETA]
        for j in range(n):
            if not _is_new(task, j):
                continue
            v, out = task.corner[0, j], arena.beta[arena.vertex[first + j]]
            error, square = 0.0, 0.0
            for i in range(d):
                out[i] = (beta[P, i] * v[0] + beta[Q, i] * v[1] + beta[L, i] * v[2]) * (v[2] > 0.0)
                square += out[i] * out[i]
            for c in range(3):
                error += (eta[c] + 4.0 * UNIT * task.bound[LENGTH, c]) * v[c]
            good = good and (v[2] == 0.0 or error <= ACCURACY * np.sqrt(square))
            if square <= error * error:
                out[:] = 0.0
        if good or task.counts[REFINED] != 0:
            break
        refine(task)
        task.tally[CROSS] = NO_CODE
    if not good and task.counts[REFINED] == -1:
        for j in range(n):
            if _is_new(task, j):
                arena.beta[arena.vertex[first + j]] = np.nan


ACCURACY = 1e-10
"""Relative error of weights at corners, which are as good themselves."""


@kernel
def _spread(task, frame, spread):
    """Widen what is known of the weights by those at the corners of the polygon in hand."""
    if task.counts[REFINED] == -1:
        spread[2, 0] = np.inf
        return
    beta, d = task.column[BETA], frame.shape[1]
    for j in range(task.tally[N_CORNERS]):
        v = task.corner[0, j]
        a, b, square, error = 0.0, 0.0, 0.0, 0.0
        for c in range(3):
            length = task.bound[LENGTH, c]
            error += (task.bound[ETA, c] + d * UNIT * length) * (v[c] + v[3 + c]) + length * v[3 + c]
        for i in range(d):
            x = beta[P, i] * v[0] + beta[Q, i] * v[1] + beta[L, i] * v[2]
            if v[2] > 0.0:
                x = x / v[2] - frame[0, i]
            a += frame[1, i] * x
            b += frame[2, i] * x
            square += x * x
        if v[2] == 0.0:  # infinity: unless zero by structure, be it only by the jitter, the weights grow without end
            if square > 0.0:
                spread[2, 0] = np.inf
            continue
        spread[0, 0], spread[0, 1] = min(spread[0, 0], a), max(spread[0, 1], a)
        spread[1, 0], spread[1, 1] = min(spread[1, 0], b), max(spread[1, 1], b)
        radius = np.sqrt(max(0.0, square - a * a - b * b) + 64.0 * d * UNIT * square) + error / (v[2] - v[5])
        spread[2, 0] = max(spread[2, 0], radius if v[2] > v[5] else np.inf)


# ----------------------------------------------------------------------------------------------------------------------
# 2. - 4. MEV, CV, MEF


@kernel
def _mef(task, arena, f, key, a, b):
    """Number of the facet with this key; if there is none yet it waits from now on, reached from f by one or two codes."""
    where = find(arena.table_key, key)
    if arena.table_key[where] != key:
        n = arena.counts[NAMED]
        if n == arena.key.size:
            return -1
        arena.table_key[where], arena.table_value[where] = key, n
        arena.key[n], arena.last_told[n], arena.depth[n] = key, -1, arena.depth[f] + 1
        arena.met[n, 0], arena.met[n, 1] = 0, 0
        arena.parent[n], arena.flips[n, 0], arena.flips[n, 1] = f, a, (b if b != a else -1)
        arena.seat[n] = -1 - arena.seat[f]
        arena.holders[arena.seat[f]] += 1
        arena.counts[NAMED] += 1
        margin = arena.margin[n]
        margin[P], margin[Q] = arena.margin[f, P], arena.margin[f, Q]
        if a >> 1 != b >> 1 or a == b:  # else a point passes through M
            _move_margin(task, margin, a)
        if a >> 1 != b >> 1:
            _move_margin(task, margin, b)
        first = OTHER if (margin[P] + margin[Q] + task.rank) % 2 == 0 else LONE
        _wait(arena, n, SAME if arena.counts[LAYERED] else first)
    return arena.table_value[where]


@kernel
def _move_margin(task, margin, code):
    """Count the point of a code where it goes from the facet in hand."""
    i = code >> 1
    margin[task.axis[i]] += -1 if task.state[i] == MARGIN else 1


@kernel
def _wait(arena, f, queue):
    """Put a facet at the end of a queue."""
    arena.queue[queue, arena.counts[END + queue]] = f
    arena.counts[END + queue] += 1


@kernel
def _next(arena):
    """The facet to be closed now; -1 if none waits."""
    counts = arena.counts
    for queue in range(4):
        while counts[FRONT + queue] < counts[END + queue]:
            if queue == LONE:
                counts[END + queue] -= 1
                f = arena.queue[queue, counts[END + queue]]
            else:
                f = arena.queue[queue, counts[FRONT + queue]]
                counts[FRONT + queue] += 1
            if arena.last_told[f] == CLOSED_SINCE:
                continue
            if queue == LONE and arena.met[f, 0] > 1:
                _wait(arena, f, SAME)
                continue
            return f
    return -1


@kernel
def _take_seat(arena):
    """A row for the partition of a facet: one that was left last, so that few are in use."""
    counts = arena.counts
    if counts[FREE] > 0:
        counts[FREE] -= 1
        return np.int64(arena.free[counts[FREE]])
    counts[SEATS] += 1
    return counts[SEATS] - 1


@kernel
def _leave(arena, f):
    """Give up what only facets that wait need."""
    counts, told, k = arena.counts, arena.told, arena.last_told[f]
    seat = arena.seat[f] if arena.seat[f] >= 0 else -1 - arena.seat[f]
    arena.holders[seat] -= 1
    if arena.holders[seat] == 0:
        arena.free[counts[FREE]] = seat
        counts[FREE] += 1
    while k >= 0:
        following = told[k, 3]
        told[k, 3], counts[LAST] = counts[LAST], k
        k = following
    arena.last_told[f] = CLOSED_SINCE


@kernel
def _copy(source, goal):
    for j in range(goal.size):
        goal[j] = source[j]


@kernel
def _tell(arena, facet, a, b, number):
    """Tell a facet that waits of a corner between two of its edges, in order, once; of an edge alone if these are one."""
    told, k = arena.told, arena.last_told[facet]
    if k == CLOSED_SINCE:
        return
    n_a, n_b = 0, 0
    while k >= 0:
        x, y = told[k, 0], told[k, 1]
        if x == a and y == b:
            return
        if x != y:
            n_a += (x == a) + (y == a)
            n_b += (x == b) + (y == b)
        k = told[k, 3]
    k = arena.counts[LAST]
    if k >= 0:
        arena.counts[LAST] = told[k, 3]
    elif arena.counts[TOLD] < told.shape[0]:
        k = arena.counts[TOLD]
        arena.counts[TOLD] += 1
    else:
        return
    told[k, 0], told[k, 1], told[k, 2], told[k, 3] = a, b, number, arena.last_told[facet]
    arena.last_told[facet] = k
    if a != b:
        arena.met[facet, 0] += 1
        arena.met[facet, 1] += (1 if n_a == 0 else -1) + (1 if n_b == 0 else -1)
        if arena.met[facet, 1] == 0 and not arena.counts[LAYERED]:
            _wait(arena, facet, RINGED)


@kernel
def _is_new(task, j):
    """Was a corner not known before? Else the facets around it have names, and were told."""
    return task.edge[0, HINT, j] < 0


@kernel
def _mev(task, words, arena, f, neighbour):
    """Name the facet behind each edge with a new end. False if there is no room."""
    size, edge = task.tally[N_CORNERS], task.edge
    for j in range(size):
        code = edge[0, CODE, j]
        neighbour[j] = -1
        if code >= 0 and (_is_new(task, j) or _is_new(task, j - 1 if j > 0 else size - 1)):
            neighbour[j] = _mef(task, arena, f, arena.key[f] ^ words[code], code, code)
            if neighbour[j] < 0:
                return False
    return True


@kernel
def _cv(task, words, arena, f, neighbour):
    """Name the facet opposite to each new vertex, and tell the facets around the vertex its two open edges.

    On an axis one of the two edges is a side: the facet behind the other has both types of its event, the opposite one
    the other type only. On another side, away from infinity, the facet behind the other has the same two edges. Going round
    a facet as f is gone round, neighbours have the edges in the other order, opposite facets in the same. The number of a
    coarse corner is told as -2 - number. Returns False if there is no room.
    """
    size, edge, first = task.tally[N_CORNERS], task.edge, arena.at[arena.counts[DONE]]
    for j in range(size):
        if not _is_new(task, j):
            continue
        after = j + 1 if j + 1 < size else 0
        v, a, b = task.corner[0, j], edge[0, CODE, j], edge[0, CODE, after]
        beyond, other = neighbour[j], neighbour[after]
        far, x, y = opposite(words, task.axis, task.side_axis, arena.key[f], a, b, v)
        number = np.int64(arena.vertex[first + j])
        number = -2 - number if arena.coarse[arena.counts[DONE]] else number
        if far == np.uint64(0):
            if (a < 0) != (b < 0) and v[2] > 0.0 and corner_of_triangle(v) < 0:
                _tell(arena, max(beyond, other), b, a, number)
            else:
                for code, behind in ((a, beyond), (b, other)):
                    if behind >= 0:
                        _tell(arena, behind, code, code, NOWHERE)
            continue
        n = _mef(task, arena, f, far, x, y)
        if n < 0:
            return False
        if a < 0:
            _tell(arena, other, x, y, number)
            _tell(arena, n, y, a, number)
        elif b < 0:
            _tell(arena, beyond, y, x, number)
            _tell(arena, n, b, y, number)
        else:
            _tell(arena, beyond, b, a, number)
            _tell(arena, other, b, a, number)
            _tell(arena, n, a, b, number)
    return True


@caller
def _close_all(data, region, space, words, drift, moves, frame, answers, arena, hints, limit):
    """The four steps for all facets that wait: CLOSED, FULL, PAUSED, ASKING, or what is impossible for the facet in hand."""
    task, arena = make_task(data, region, space), make_record(arena, arena.memory)
    counts = arena.counts
    task.answers, task.known = answers, arena.corner
    while True:
        f = counts[HAND]
        if f < 0:
            f = np.int64(_next(arena))
        if f < 0:
            return CLOSED
        counts[HAND] = f
        done = counts[DONE]
        if done >= limit:
            return PAUSED
        told = hints[: _recall(arena, f, hints)]
        if arena.seat[f] < 0 and arena.met[f, 1] == 0 and _close_ringed(task, arena, f, told) == CLOSED:
            if not _has_room(task, arena):
                return FULL
            found = _write(task, words, arena, f, told)
            arena.coarse[done] = False
        else:
            task.drift = drift * (moves + 2 * arena.depth[f])
            outcome = _cef(task, arena, f, told)
            if outcome != CLOSED:
                return outcome
            if not _has_room(task, arena):
                return FULL
            found = _write(task, words, arena, f, told)
            if frame.shape[0] > 0:
                _spread(task, frame, arena.spread)
            if arena.beta.shape[0] > 0:
                _write_beta(task, arena)
            arena.coarse[done], kind = _is_coarse_or_tie(task)
            clear, entering = _crowd(task, arena, kind == TIE)
            arena.kind[done] = kind if kind != PLAIN else _kind_of(task, arena.margin[f], clear, entering)
            if not (_mev(task, words, arena, f, space.neighbour) and _cv(task, words, arena, f, space.neighbour)):
                return FULL
            task.answers = answers[:0]
        _leave(arena, f)
        counts[HAND] = -1
        counts[DONE] += 1
        counts[FOUND] = found


@kernel
def _kind_of(task, margin, clear, entering):
    """The kind of a facet with area and so many positives and negatives in M.

    A point that is tied is on the margin at all corners. It is missed in the two corners of its own edge only, if it has one:
    ``entering`` says whether there may be such an edge of all corners but those at infinity, or almost there, of which nothing
    is known: the jitter of weights, times the costs, hides it.
    """
    if task.anchor > 0.0 and margin[P] + margin[Q] == task.rank and min(margin[P], margin[Q]) == 0:
        return POSITIVES if margin[P] > 0 else NEGATIVES
    return PLAIN if clear and not entering else CROWDED


@kernel
def _crowd(task, arena, tied):
    """Put down whether the new corners of the facet in hand are crowded; are all clear that are not at infinity?

    Also whether there are two of them or less, and a point outside M has an edge. Corners of a tie are crowded.
    """
    first, n_clear, n_near, entering = arena.at[arena.counts[DONE]], 0, 0, False
    for j in range(task.tally[N_CORNERS]):
        number, near, code = arena.vertex[first + j], task.corner[0, j, L] > THIN, task.edge[0, CODE, j]
        if _is_new(task, j):
            arena.crowded[number] = tied or not near or is_crowded(task, j)
        n_clear += not arena.crowded[number]
        n_near += near
        entering = entering or (code >= 0 and task.members[SLOT, code >> 1] < 0)
    return n_clear == n_near, entering and n_near <= 2


@kernel
def _is_coarse_or_tie(task):
    """Are corners of the facet just closed not known well? And its kind as to ties, PLAIN if it is certainly none."""
    if has_coarse(task) or is_far(task.corner[0], task.tally[N_CORNERS]):
        if vanishes(task):
            return True, TIE
        return True, (LIKELY if task.counts[REFINED] != -1 and is_tie(task) == 1 else UNSURE)
    tie = is_tie(task)
    return False, (UNSURE if tie == UNKNOWN else (TIE if tie == 1 else PLAIN))


@caller
def _judge(data, region, space, states, drift, at, code, margin, suspect, tie, coarse):
    """See whether facets with known edges are ties; of ``coarse`` ones only integers can tell.

    A facet that is not ``suspect`` can only be a strip between tied lines; one that is FAR is not asked whether it is.
    """
    task = make_task(data, region, space)
    task.drift = drift
    edge = task.edge
    for f in range(states.shape[0]):
        state, n = states[f], at[f + 1] - at[f]
        for j in range(n):
            edge[0, CODE, j] = code[at[f] + j]
            edge[0, SIGN, j] = edge[0, CODE, j] >= 0 and state[edge[0, CODE, j] >> 1] == MARGIN
        margin[P], margin[Q] = 0, 0
        for i in range(state.size):
            margin[data.axis[i]] += state[i] == MARGIN
        between = suspect[f] != FAR and _is_between_tied(task, margin, edge[0, CODE, :n], edge[0, SIGN])
        tie[f] = between and suspect[f] == 1
        if tie[f] or (suspect[f] == 0 and not between):
            continue
        task.state, task.tally[N_CORNERS] = state, n
        sum_pull(data.rows, data.point, data.axis, state, task.pull)
        gather(task)
        if between:
            tie[f] = trace_facet(task, n) and is_steep(task)
            continue
        tie[f] = vanishes(task) or (trace_facet(task, n) and shrinks(task) == 1)
        coarse[f] = not tie[f] and task.counts[REFINED] == -1


@entry
def states_of(facets, parent, flips, start):
    """Partitions of some facets: the way from that of the parent, if it is in the list, or of the one before in the list.

    That goes up to the first facet that both come from, then down again. A parent has a smaller number than its facet.
    """
    out = np.empty((facets.size, start.size), np.int8)
    path = np.empty(64, np.int64)
    for n in range(facets.size):
        f, depth, state = np.int64(facets[n]), 0, out[n]
        other, source = (np.int64(facets[n - 1]), out[n - 1]) if n > 0 else (np.int64(-1), start)
        above = parent[f] - facets[0]
        if 0 <= above < n and facets[above] == parent[f]:  # of facets in a row
            other, source = np.int64(parent[f]), out[above]
        for i in range(start.size):
            state[i] = source[i]
        while f != other:
            if f < other:
                for step in (1, 0):
                    if flips[other, step] >= 0:
                        cross(state, np.int64(flips[other, step]))
                other = np.int64(parent[other])
                continue
            if depth == path.size:
                path = np.concatenate((path, np.empty(path.size, np.int64)))
            path[depth] = f
            depth += 1
            f = np.int64(parent[f])
        for k in range(depth - 1, -1, -1):
            for step in range(2):
                if flips[path[k], step] >= 0:
                    cross(state, np.int64(flips[path[k], step]))
    return out


@entry
def _tidy(arena, words, which, side_name, d):
    """What Facets say of the closed facets, from ``key`` to ``flips``; weights have d coordinates.

    The codes are those of all points and the names of sides; the edges begin with the largest.
    """
    n, size = arena.counts[DONE], arena.at[arena.counts[DONE]]
    once, vertices = _number_names(arena.name[: arena.counts[FOUND]])
    keys, parent, flips = np.empty(n, np.uint64), np.empty(n, np.int32), np.empty((n, 2), np.int32)
    name, corner = np.empty(once.size, np.uint64), np.empty((once.size, 3))
    beta = np.empty((once.size if arena.beta.shape[0] > 0 else 0, d))
    code, vertex, neighbour = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int32)
    number = np.full(arena.counts[NAMED], -1, np.int32)
    for f in range(n):
        number[arena.order[f]] = f
    for v in range(once.size):
        name[v] = arena.name[once[v]]
        for c in range(3):
            corner[v, c] = arena.corner[once[v], c]
        for c in range(d if beta.shape[0] > 0 else 0):
            beta[v, c] = arena.beta[once[v], c]
    for f in range(n):
        named = arena.order[f]
        keys[f], flips[f, 0], flips[f, 1] = arena.key[named], arena.flips[named, 0], arena.flips[named, 1]
        parent[f] = number[arena.parent[named]] if arena.parent[named] >= 0 else -1
        key, first, end = keys[f], arena.at[f], arena.at[f + 1]
        largest, top = first, np.int64(NO_SIDE)
        for k in range(first, end):
            c = np.int64(arena.code[k])
            public = 2 * which[c >> 1] + (c & 1) if c >= 0 else -1 - side_name[-1 - c]
            if public > top:
                largest, top = k, public
        for k in range(first, end):
            c, new = np.int64(arena.code[k]), k - largest + (first if k >= largest else end)
            vertex[new] = vertices[arena.vertex[k]]
            if c < 0:
                code[new], neighbour[new] = -1 - side_name[-1 - c], BOUNDARY
                continue
            code[new] = 2 * which[c >> 1] + (c & 1)
            where = find(arena.table_key, key ^ words[c])
            there = arena.table_key[where] != np.uint64(0)
            other = number[arena.table_value[where]] if there else np.int32(-1)
            neighbour[new] = other if other >= 0 else OPEN
    return keys, arena.kind[:n].copy(), arena.at[: n + 1].copy(), code, vertex, neighbour, name, corner, beta, parent, flips


BOUNDARY, OPEN = -1, -2
"""In place of a facet's number: nothing, the edge is a side of the tile; a facet that was not closed."""

NO_SIDE = -(2**31)
"""Less than any code."""


@owner
def _number_names(names):
    """See number_names."""
    size = 8
    while size < 2 * names.size:
        size *= 2
    table, value = np.zeros(size, np.uint64), np.full(size, -1, np.int32)
    first, number, n = np.empty(names.size, np.int64), np.empty(names.size, np.int32), 0
    for k in range(names.size):
        where = find(table, names[k])
        if value[where] < 0:
            table[where], value[where], first[n] = names[k], n, k
            n += 1
        number[k] = value[where]
    return first[:n].copy(), number


@entry
def number_names(names):
    """Number equal names in the order in which they appear: the first place of each number, and the number of each place."""
    return _number_names(names)


@entry
def pull_of(data, state, pull):
    """The pulls of a partition (for Python)."""
    sum_pull(data.rows, data.point, data.axis, state, pull)


def crossed(state: States, code: int) -> States:
    """A partition with the point of a code moved (``cross`` for Python)."""
    new = state.copy()
    new[code >> 1] = (INSIDE if code & 1 else OUTSIDE) if state[code >> 1] == MARGIN else MARGIN
    return new


# ----------------------------------------------------------------------------------------------------------------------
# The engine


class Frame(NamedTuple):
    """Where the weights are expected: a point m and two orthonormal directions, as rows; none of them if nothing is frozen."""

    axes: Floats  # (3, d) or (0, d)
    which: Ints  # the candidates


class Facets(NamedTuple):
    """The closed facets of a tile. Codes: 2 * point + type, or -1 - name of the side."""

    start: States  # (N,) partition of facet 0
    which: Ints  # the candidates
    outcome: int  # CLOSED, FULL, PAUSED, or EMPTY if the start is not in the tile
    spread: Floats  # see Arena
    key: Words  # (F,)
    kind: npt.NDArray[np.int8]  # (F,) PLAIN, TIE and so on
    at: Ints  # (F + 1,) facet j has the places at[j] : at[j + 1] of the next three
    code: Int32  # the edges in order, from the largest code on
    vertex: Int32  # number of the vertex at the end of the edge
    neighbour: Int32  # number of the facet behind it, BOUNDARY or OPEN
    name: Words  # (V,) names of vertices
    corner: Floats  # (V, 3) the vertices
    beta: Floats  # (V, d) l beta there, if wanted
    parent: Int32  # (F,) the facet of the tile that named this one, and
    flips: Int32  # (F, 2) the codes of candidates crossed from there, -1 for none

    def states(self, facets: Ints) -> States:
        """Partitions of some facets."""
        states = np.tile(self.start, (facets.size, 1))
        states[:, self.which] = states_of(facets, self.parent, self.flips, self.start[self.which])
        return states

    def state(self, f: int) -> States:
        """Partition of a facet."""
        state: States = self.states(np.array([f]))[0]
        return state

    def bare(self) -> Facets:
        """What it takes to tell partitions, without the polygons."""
        none, nowhere = np.empty(0, dtype=np.int32), np.empty((0, 3))
        return self._replace(code=none, vertex=none, neighbour=none, corner=nowhere, beta=nowhere)


class Engine:
    """The four steps for one problem, tile by tile."""

    def __init__(self, data: Data, words: Words, betas: bool = False) -> None:
        self.data = data
        self.wide = widen(data)
        self.words = words
        self.betas = betas  # are the weights at the corners wanted?
        self.exact: ExactProblem | None = None
        self.drift = drift_of(data, 1)
        self.room = int(np.clip(64 * data.rows.shape[0], SMALL, LARGE))  # facets for which the next tile is to have room, and
        self.pace = FIRST_CHUNK  # that are closed at once
        self.blocks: dict[int, npt.NDArray[np.uint8]] = {}  # for each thread the memory that it may use
        self.spaces: dict[int, Space] = {}  # and workspaces for all points
        self.n_refined = 0  # predicates that double-double decided, zeros that were proven modulo a prime, and
        self.n_zero = 0
        self.n_exact = 0  # questions to exact arithmetic

    @property
    def counts(self) -> dict[str, int]:
        """How often doubles did not decide."""
        return {"n_refined": self.n_refined, "n_zero": self.n_zero, "n_exact": self.n_exact}

    def explore(
        self,
        region: Region,
        start: States,
        frame: Frame,
        capacity: int,
        max_facets: float = np.inf,
        limit: Limit = NEVER,
    ) -> Facets:
        """All facets of a tile from the partition of one of them; PAUSED if they are too many or the time has come."""
        work = _Work(self, region, start, frame, capacity, max_facets, limit)
        return work.finish(work.run())

    def judge(
        self, region: Region, states: States, suspect: npt.NDArray[np.int8], at: Ints, code: Int32, limit: Limit = NEVER
    ) -> npt.NDArray[np.bool_]:
        """Which of some whole facets with given edges are ties; ``suspect``: 1 for thin ones, FAR for far ones, else 0."""
        (tie, coarse), margin = np.zeros((2, len(states)), dtype=bool), np.zeros(2, dtype=np.int32)
        space, drift = make_space(self.data, region), drift_of(self.data, states.shape[1])
        _judge(self.data, region, space, states, drift, at, code, margin, suspect, tie, coarse)
        if coarse.any():
            problem = self.exact_in(region, limit)
            for f in np.flatnonzero(coarse):
                _, tie[f] = settle(problem, states[f], code[at[f] : at[f + 1]].tolist())
        return tie

    def exact_in(self, region: Region, limit: Limit) -> ExactProblem:
        """The data for exact arithmetic in a region."""
        if self.exact is None:
            self.exact = ExactProblem(self.data, region)
        return self.exact.within(region, limit)


class _Work:
    """A tile in work. Some facets are closed, then it is looked at the clock, and so on.

    What only exact arithmetic knows of closed facets is found as they come, so that it is known of all if work is stopped. A
    facet is told with all that were closed before it, or not at all: its parent is one of them, and it shares their corners.
    """

    def __init__(
        self, engine: Engine, region: Region, start: States, frame: Frame, capacity: int, max_facets: float, limit: Limit
    ) -> None:
        self.engine, self.region, self.start, self.which = engine, region, start, frame.which
        self.capacity, self.max_facets, self.limit = capacity, max_facets, limit
        self.data, self.words, space = engine.wide, engine.words, engine.spaces.pop(get_ident(), None)
        if self.which.size < start.size:
            self.data, self.words, space = subset(self.data, self.which), self.words.reshape(-1, 2)[self.which].ravel(), None
        self.space = space or make_space(self.data, region)._replace(neighbours=NEIGHBOURS)
        clear(self.space)
        if space is None:
            sum_words(engine.wide, full_state(start, self.which, np.int8(OUTSIDE)), self.space.sums)  # of frozen points
        self.axes = _widen(frame.axes)
        block = engine.blocks.pop(get_ident(), np.empty(0, dtype=np.uint8))
        self.arena = make_arena(
            min(capacity, engine.room), self.which.size, self.data.rows.shape[1], engine.betas, block
        )  # fmt: skip
        _plant(engine.wide, self.arena, start, self.which, key_of(start, engine.words))
        enter(self.arena.table_key, self.arena.table_value, self.arena.key[:1])
        self.arena.counts[LAYERED] = max_facets < np.inf  # these are the first facets then
        self.hints = np.empty((CROWD, 3), dtype=np.intp)
        self.answers, self.asked = np.empty((0, 5), dtype=np.intp), -1  # all answers, and the facet that they are for
        self.pace = Pace(engine.pace, CHUNK)
        self.settled: list[tuple[int, Floats]] = []  # closed facets with corners from exact arithmetic
        self.n_settled = 0  # all closed facets up to this one are known well

    def run(self) -> int:
        """Close facets until the tile is done, or it is time to stop; returns the outcome."""
        while True:
            outcome = self._close_some()
            try:
                self._settle()
                if outcome == ASKING:
                    self._ask()
            except Stopped:
                return PAUSED
            if outcome == FULL and self.arena.key.size < self.capacity:
                self.arena = larger(self.arena, min(2 * self.arena.key.size, self.capacity))
            elif outcome not in (PAUSED, ASKING) or (outcome == PAUSED and self.n_settled >= self.max_facets):
                return outcome
            if self.limit.expired:
                return PAUSED

    def _close_some(self) -> int:
        """Close some more facets."""
        counts, tally = self.arena.counts, self.space.tally
        tally[N_REFINED] = tally[N_ZERO] = 0
        done = int(counts[DONE])
        goal = int(min(self.max_facets, done + self.pace.start()))
        outcome = _close_all(
            self.data, self.region, self.space, self.words, self.engine.drift, self.start.size, self.axes, self.answers,
            self.arena, self.hints, goal,
        )  # fmt: skip
        self.pace.stop(int(counts[DONE]) - done)
        self.engine.n_refined += int(tally[N_REFINED])
        self.engine.n_zero += int(tally[N_ZERO])
        if counts[HAND] != self.asked:
            self.answers = self.answers[:0]
        return int(outcome)

    def _full_state(self, state: States) -> States:
        return full_state(self.start, self.which, state)

    def _ask(self) -> None:
        """Answer the questions about the facet in hand by exact arithmetic."""
        f, asked = int(self.arena.counts[HAND]), self.space.asked[: self.space.tally[N_ASKED]]
        questions = asked.copy()
        questions[:, 1:] = _rename(asked[:, 1:], self.which)
        problem = self.engine.exact_in(self.region, self.limit)
        new = answer(problem, self._full_state(self.arena.state[self.arena.seat[f]]), questions)
        self.engine.n_exact += asked.shape[0]
        place = np.full(self.start.size, -1)
        place[self.which] = np.arange(self.which.size)
        new[:, 1:4] = _rename(new[:, 1:4], place)
        self.answers, self.asked = more_answers(self.answers, new), f

    def _settle(self) -> None:
        """Corners of closed facets that double-double does not know well, from exact arithmetic.

        Ties, and likely ones, are left as they are: nobody sees their corners.
        """
        arena, done = self.arena, int(self.arena.counts[DONE])
        new = slice(self.n_settled, done)
        coarse = self.n_settled + np.flatnonzero(arena.coarse[new] & (arena.kind[new] != TIE) & (arena.kind[new] != LIKELY))
        if coarse.size > 0:
            problem = self.engine.exact_in(self.region, self.limit)
            states = states_of(arena.order[coarse], arena.parent, arena.flips, self.start[self.which])
            for f, state in zip(coarse.tolist(), states, strict=True):
                self.n_settled = f
                codes = _rename(arena.code[arena.at[f] : arena.at[f + 1]].astype(np.intp), self.which).tolist()
                self.settled.append((f, rounded(ExactFacet(problem, self._full_state(state)).corners(codes))))
                self.engine.n_exact += len(codes)
        self.n_settled = done

    def finish(self, outcome: int) -> Facets:
        """The closed facets."""
        engine, arena, n = self.engine, self.arena, self.n_settled
        self._check(outcome)
        engine.room = max(engine.room, int(SPARE * arena.counts[NAMED]))
        engine.pace = self.pace.size
        arena.counts[DONE], arena.counts[FOUND] = n, arena.vertex[: arena.at[n]].max(initial=-1) + 1
        for f, corners in self.settled:
            mine = arena.vertex[arena.at[f] : arena.at[f + 1]]
            known = arena.corner[mine] == 0.0  # zero by structure
            arena.corner[mine] = np.where(known, 0.0, np.maximum(corners, 0.0))
        if engine.betas and outcome == CLOSED and not self._mend():
            outcome = PAUSED
        told = _tidy(arena, self.words, self.which, self.region.name, engine.data.rows.shape[1])
        engine.blocks[get_ident()] = arena.block
        if self.which.size == self.start.size:
            engine.spaces[get_ident()] = self.space
        return Facets(self.start, self.which, outcome, arena.spread.copy(), *told)

    def _check(self, outcome: int) -> None:
        """Raise an error if the facet in hand came out impossible."""
        if outcome in (CLOSED, FULL, PAUSED) or (outcome == EMPTY and self.arena.counts[DONE] == 0):
            return
        state = self._full_state(self.arena.state[self.arena.seat[self.arena.counts[HAND]]])
        sets = [np.flatnonzero(state == s).tolist() for s in (MARGIN, INSIDE)]
        what = f"a facet without area (outcome {outcome}): margin {sets[0]}, inside {sets[1]}"
        raise impossible(self.engine.data, what)

    def _mend(self) -> bool:
        """Weights at corners that double-double does not know, from exact arithmetic. False if it is time to stop."""
        arena, region, n = self.arena, self.region, self.n_settled
        wrong, vertex = np.nonzero(np.isnan(arena.beta[: arena.counts[FOUND]]))[0], arena.vertex[: arena.at[n]]
        if wrong.size == 0:
            return True
        exact = self.engine.exact_in(region, self.limit)
        for f in np.unique(facet_of(np.flatnonzero(np.isin(vertex, wrong)), arena.at[: n + 1])):
            (state,) = states_of(arena.order[f : f + 1], arena.parent, arena.flips, self.start[self.which])
            full = self._full_state(state)[None]
            try:
                _, (maps,) = affine_maps(self.engine.data, region, full, jitter=1.0, accuracy=ACCURACY, exact=exact)
            except Stopped:
                return False
            mine = vertex[arena.at[f] : arena.at[f + 1]]
            arena.beta[mine, : maps.shape[1]] = (arena.corner[mine] @ maps) * (arena.corner[mine, 2:] > 0)
        return True


NEIGHBOURS = 128
"""Points near home: enough for some hundred facets, and so few that it takes no longer to see which they are."""


def subset(data: Data, which: Ints) -> Data:
    """The data of some points; rank, probe and anchor stay those of all."""
    columns = np.ascontiguousarray(data.columns[:, which])
    point = np.ascontiguousarray(data.point[:, which])
    return data._replace(rows=data.rows[which], columns=columns, point=point, axis=data.axis[which])


WIDTH = 4
"""Rows are filled up with zeros to a multiple of this: loops over them are then of whole vector instructions."""


def widen(data: Data) -> Data:
    """The same data with rows filled up."""
    return data._replace(rows=_widen(data.rows), probe=_widen(data.probe))


def _widen(array: Floats) -> Floats:
    return np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, -array.shape[-1] % WIDTH)])


def uncertain(data: Data, facets: Facets, axes: Floats) -> npt.NDArray[np.bool_]:
    """Frozen points that are not certain to have been in one set all over the tile (see Candidates above)."""
    with np.errstate(over="ignore", invalid="ignore"):  # weights without end leave all points uncertain
        low, high = facets.spread[:2].T
        centre = axes[0] + (low + high) / 2 @ axes[1:]
        score, along = data.rows @ centre, np.abs(data.rows @ axes[1:].T)
        reach = along @ ((high - low) / 2) + facets.spread[2, 0] * data.point[NORM]
        rounding = ROUNDING * (1.0 + data.point[NORM] * (np.linalg.norm(centre) + reach))
        unsure: npt.NDArray[np.bool_] = ~(np.abs(score - (1.0 + data.point[TARGET_LO])) > reach + rounding)
    unsure[facets.which] = False
    return unsure


ROUNDING = 2.0**-40
"""Relative rounding of a score and of the bounds that it is compared with: sums of up to 10^3 terms."""


def facet_of(corner: Ints, at: Ints) -> Int32:
    """The facets that some corners belong to."""
    return (np.searchsorted(at, corner, side="right") - 1).astype(np.int32)


def before_in(corner: Ints, at: Ints) -> Ints:
    """The corners before some in their facets."""
    facet = facet_of(corner, at)
    return np.where(corner == at[facet], at[facet + 1], corner) - 1


def full_state(start: States, which: Ints, state: States | np.int8) -> States:
    """Partition of all points from that of the candidates."""
    full = start.copy()
    full[which] = state
    return full


def _rename(codes: npt.NDArray[np.signedinteger], points: npt.NDArray[np.signedinteger]) -> npt.NDArray[np.signedinteger]:
    """Codes of points by other numbers; sides stay what they are."""
    named = codes.copy()
    event = codes >= 0
    named[event] = 2 * points[codes[event] >> 1] + (codes[event] & 1)
    return named
