"""The facets of one tile, those that wait included, as flat arrays in one block of memory."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.engine.compiled import entry, entry_noalloc, kernel
from svmatlas.engine.facet import move_pull, sum_pull
from svmatlas.engine.names import enter
from svmatlas.engine.record import MEMORY
from svmatlas.engine.workspace import INSIDE, MARGIN, OUTSIDE, Floats, Int32, Ints, Pull, States, Words

COUNTS = np.dtype(
    (
        np.record,
        [
            ("n_done", np.int64),  # facets closed
            ("n_named", np.int64),  # facets named
            ("n_rows", np.int64),  # rows of partitions in use, and those in ``free``
            ("n_free", np.int64),  # rows in ``free``
            ("n_known", np.int64),  # corners in ``known_corners``, and those that are not used any more
            ("n_found", np.int64),  # corners found
            ("unused", np.int64),  # first of the corners in ``known_corners`` that are not used, -1 for none
            ("in_hand", np.int64),  # the facet in hand, or -1
            ("layered", np.int64),  # is one layer to be closed before the next?
            ("front", np.int64, 4),  # front and end of the queues
            ("end", np.int64, 4),
        ],
    )
)
"""Numbers of an arena, in an array of one record."""

KNOWN = np.dtype((np.record, [(name, np.int32) for name in ("first", "second", "number", "next")]))
"""A corner that is known: the codes of its edges, in order; its number, -2 - number if it is coarse; the next of the list."""


class Arena(NamedTuple):
    """All facets of a tile, those that wait included. Codes are those of the candidates."""

    key: Words  # (n,)
    partition_row: Int32  # (n,) row of the next two; -1 - that of the parent until the facet is closed from its maps
    state: States  # (n, K)
    pull_high: Floats  # (n, 2, d) as in Pull
    pull_low: Floats
    pull_derivative: Floats
    pull_n_points: Ints  # (n, 2)
    holders: Int32  # (n,) facets that need a row
    free: Int32  # rows that none needs
    parent: Int32  # (n,) the facet that named this one,
    flips: Int32  # (n, 2) and the codes crossed from there, -1 for none
    depth: Int32  # (n,) parents up to the first facet
    margin: Int32  # (n, 2) positives and negatives in M
    queue: Int32  # (4, n) facets that wait, see RINGED
    known_corners: npt.NDArray[np.void]  # known corners of facets that wait, as linked lists, see KNOWN
    corner_list_head: Int32  # (n,) CLOSED_SINCE for facets that do not wait any more
    n_corners: Int32  # (n,) corners that are known of a facet
    n_loose: Int32  # (n,) edges of which only one end is known
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
    counts: npt.NDArray[np.void]  # (1,) see COUNTS
    plateau: npt.NDArray[np.bool_]  # (2,) is the plateau of positives, of negatives, left out (plateaus.py)?
    memory: npt.NDArray[np.uint8]  # for the record of all this
    block: npt.NDArray[np.uint8]  # holds all of the above


RINGED, LONE, SAME, OTHER = range(4)
"""The queues, in the order in which they are served: facets of which all corners are known; those of one colour of which
one corner is known, and all of that colour; those of the other colour. Of LONE the last is served first: it shares most points
with the facet before, and so most columns of its factor."""
PLAIN, TIE, CROWDED, POSITIVES, NEGATIVES, UNSURE, LIKELY, POSITIVE_PLATEAU, NEGATIVE_PLATEAU, PLATEAU_SLIVER = np.arange(10)
"""Kinds of facets: plain ones; those without area, which the jitter made; those where points may be tied (canonical.py): at a
corner more points may be on the margin than M and two events explain; those where without jitter all positive, or all
negative, points are on the margin: M is so many of them that beta is e (see Anchored facets in facet.py); those that may be
ties up to rounding of the data, which joining.py judges anew, whatever the way to them was, UNSURE ones and LIKELY ones; whole
plateaus, which were not explored (plateaus.py); and slivers of them, without area."""
FAR, SLIM = 2, 3
"""Marks facets close to infinity or an axis, and those that are thinner than WIDE (tie_test.py); those thinner than THIN are
marked by 1, all others by 0."""
CLOSED_SINCE, UNVISITED = -2, -3
"""Marks facets to which nothing needs to be told: those that are closed, and those of a plateau that no side leads to."""
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
        "partition_row": (np.int32, (n,)),
        "state": (np.int8, (n, n_candidates)),
        "pull_high": (np.float64, (n, 2, d)),
        "pull_low": (np.float64, (n, 2, d)),
        "pull_derivative": (np.float64, (n, 2, d)),
        "pull_n_points": (np.intp, (n, 2)),
        "holders": (np.int32, (n,)),
        "free": (np.int32, (n,)),
        "parent": (np.int32, (n,)),
        "flips": (np.int32, (n, 2)),
        "depth": (np.int32, (n,)),
        "margin": (np.int32, (n, 2)),
        "queue": (np.int32, (4, n)),
        "known_corners": (KNOWN, (12 * n + 256,)),
        "corner_list_head": (np.int32, (n,)),
        "n_corners": (np.int32, (n,)),
        "n_loose": (np.int32, (n,)),
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
        "counts": (COUNTS, (1,)),
        "plateau": (np.bool_, (2,)),
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
    n, (_, n_candidates), d = arena.key.size, arena.state.shape, arena.pull_high.shape[2]
    new = make_arena(room, n_candidates, d, arena.beta.size > 0, np.empty(0, dtype=np.uint8))
    counts = arena.counts[0]
    used = {"free": counts.n_free, "known_corners": counts.n_known, "at": counts.n_done + 1}
    used |= dict.fromkeys(("state", "pull_high", "pull_low", "pull_derivative", "pull_n_points", "holders"), counts.n_rows)
    used |= dict.fromkeys(("order", "kind", "coarse"), counts.n_done)
    used |= dict.fromkeys(("code", "vertex"), arena.at[counts.n_done])
    used |= dict.fromkeys(("name", "corner", "crowded", "beta"), counts.n_found)
    new.queue[:, :n] = arena.queue
    new.table_key[:] = 0
    new.plateau[:] = arena.plateau
    for name in set(Arena._fields) - {"block", "memory", "table_key", "table_value", "queue", "plateau"}:
        old = getattr(arena, name)
        some = slice(min(used.get(name, counts.n_named), old.shape[0]))  # what is not in use takes no memory
        getattr(new, name)[some] = old[some]
    enter(new.table_key, new.table_value, new.key[: new.counts[0].n_named])
    return new


@kernel
def pull_row(arena, row):
    """The pulls that stand in a row."""
    return Pull(arena.pull_high[row], arena.pull_low[row], arena.pull_derivative[row], arena.pull_n_points[row])


@kernel
def take_pull(pull, arena, row):
    """Let pulls be those that stand in a row."""
    pull.high, pull.low = arena.pull_high[row], arena.pull_low[row]
    pull.derivative, pull.n_points = arena.pull_derivative[row], arena.pull_n_points[row]


@entry_noalloc
def plant_start(data, arena, start, which, key):
    """The first facet, with a partition of all points, in an arena that is empty from now on."""
    arena.table_key[:], arena.spread[:] = np.uint64(0), 0.0
    arena.counts.view(np.int64)[:] = 0
    arena.key[0], arena.partition_row[0], arena.holders[0], arena.at[0] = key, 0, 1, 0
    arena.depth[0], arena.parent[0], arena.corner_list_head[0] = 0, -1, -1
    arena.flips[0], arena.margin[0], arena.n_corners[0], arena.n_loose[0] = -1, 0, 0, 0
    for k in range(which.size):
        arena.state[0, k] = start[which[k]]
    for i in range(start.size):
        arena.margin[0, data.axis[i]] += start[i] == MARGIN
    sum_pull(data, start, pull_row(arena, 0))
    arena.counts[0].n_named, arena.counts[0].n_rows, arena.counts[0].unused, arena.counts[0].in_hand = 1, 1, -1, 0


@kernel
def cross(state, code):
    """Move the point of a code between M and O (type 0) or I (type 1)."""
    i = code >> 1
    if state[i] == MARGIN:
        state[i] = INSIDE if code & 1 else OUTSIDE
    else:
        state[i] = MARGIN


@kernel
def move(data, state, pull, code):
    """Cross the line of a code, and carry the pull along."""
    i, before = code >> 1, state[code >> 1]
    cross(state, code)
    if before == INSIDE:
        move_pull(data, pull, i, -1.0)
    elif state[i] == INSIDE:
        move_pull(data, pull, i, 1.0)


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


BOUNDARY, OPEN, PLATEAUS = -1, -2, -3
"""In place of a facet's number: nothing, the edge is a side of the tile; a facet that was not closed; the plateau of the
positives, or of the negatives by one less, which is left out (plateaus.py), and by two less if |M| behind the edge is less
than the rank."""

NO_SIDE = -(2**31)
"""Less than any code."""


@entry
def pull_of(data, state, pull):
    """The pulls of a partition (for Python)."""
    sum_pull(data, state, pull)


def crossed(state: States, code: int) -> States:
    """A partition with the point of a code moved (``cross`` for Python)."""
    new = state.copy()
    new[code >> 1] = (INSIDE if code & 1 else OUTSIDE) if state[code >> 1] == MARGIN else MARGIN
    return new


def facet_of(corner: Ints, at: Ints) -> Int32:
    """The facets that some corners belong to."""
    return (np.searchsorted(at, corner, side="right") - 1).astype(np.int32)


def before_in(corner: Ints, at: Ints) -> Ints:
    """The corners before some in their facets."""
    facet = facet_of(corner, at)
    return np.where(corner == at[facet], at[facet + 1], corner) - 1


def after_in(corner: Ints, at: Ints) -> Ints:
    """The corners after some in their facets."""
    facet = facet_of(corner, at)
    return np.where(corner + 1 == at[facet + 1], at[facet], corner + 1)


def full_state(start: States, which: Ints, state: States | np.int8) -> States:
    """Partition of all points from that of the candidates."""
    full = start.copy()
    full[which] = state
    return full
