"""The split map -> the map of the data: what the jitter cut is put together again, and what it made is left out.

The engine explores jittered data (problem.py), where at most rank(X) points are on the margin at once. Its facets are
called *pieces* here, and its mesh the *split* mesh. The facets of the data as they are:

    M = all points with score 1,  I = those below,  O = those above;   the facet: all costs of one such partition.

That set is convex: with M, I, O fixed all conditions are linear in the costs and alpha together, and a projection of a
polyhedron is convex. So pieces with the same M, I and O *without jitter* are one facet, and only those.

Two facets share at most one edge, for both are convex. And no corner of a facet lies inside an edge of another: over one edge
of the projection lies one face of the polyhedron, so along all of it the same points are at the bounds of their alpha,
and the same cone holds the directions into which beta can turn behind it; so one and the same facet lies behind all of it.
Hence the map is known when the neighbours of each facet, in order, are: an edge is a pair of facets, and its ends follow
from who comes next around them. Vertices are not compared by where they are.

1. Facets: pieces with the same partition without jitter (ties.py). Most pieces are PLAIN (arena.py): no point can be tied.
2. What lies behind each edge: through pieces without area, on a straight way. Edges without length are left out (ties.py).
3. Edges from pairs of facets, vertices from the ends of edges.
4. Events of an edge: points whose set is not the same on both sides.

Where rows are so badly conditioned that doubles do not tell places apart, the result may not hang together. It is checked, and
the pieces are shown as facets then.
"""

from __future__ import annotations

from concurrent.futures import Executor
from typing import NamedTuple

import numpy as np

from svmatlas.engine.arena import BOUNDARY, CROWDED, LIKELY, NEGATIVES, OPEN, POSITIVE_PLATEAU, POSITIVES, TIE, UNSURE
from svmatlas.engine.compiled import entry, entry_noalloc, kernel
from svmatlas.engine.geometry import triple_product
from svmatlas.engine.joining import Joiner
from svmatlas.engine.mesh import (
    AROUND,
    FAR_OUT,
    PLACE,
    Mesh,
    Split,
    in_parts,
    is_far_out,
    number_all,
    take_lists,
)
from svmatlas.engine.names import enter, find, key_of, number_names
from svmatlas.engine.plateaus import UnclosedError
from svmatlas.engine.rings import (
    NOT_AN_EDGE,
    SEVERAL,
    UNEXPLORED,
    Rings,
    assemble,
    join_corners,
    paired,
    place_after,
    share_along,
    sharpness,
)
from svmatlas.engine.ties import (
    NEAR,
    NEAR_AT_PLATEAU,
    SHORT,
    SHORT_AT_PLATEAU,
    find_collapsed,
    find_corners,
    find_tied,
    is_short,
)
from svmatlas.engine.workspace import INSIDE, MARGIN, OUTSIDE, Bools, Data, Floats, Int32, Ints, P, Q, Region, States, Words
from svmatlas.support.stopping import NEVER, Limit

WAY = 2.0**0.5 - 1
"""Where on an edge the way through ties is begun, as a share of its length: at no place that data would have."""

UNEVEN = 1e-6
"""Least coordinate of a vertex, relative to its largest, from which on the jitter moves it by 1e-7 of itself at most."""

CHUNK = 1024
"""Pieces or edges whose partitions are in hand at once."""


class _Looked(NamedTuple):
    """What some pieces are without jitter."""

    piece: Ints  # (n,)
    key: Words  # (n,) of their partition
    tied_at: Ints  # (n + 1,) piece f has the entries tied_at[f] : tied_at[f + 1] of the next
    tied: Int32  # points on the margin beside those of its M


@entry
def keys_of_states(states, words):
    """Keys of partitions, as ``key_of`` (names.py)."""
    out = np.empty(states.shape[0], np.uint64)
    for n in range(out.size):
        key = np.uint64(1)
        for i in range(states.shape[1]):
            if states[n, i] != INSIDE:
                key ^= words[2 * i + 1]
                if states[n, i] == OUTSIDE:
                    key ^= words[2 * i]
        out[n] = key
    return out


@kernel
def _behind(edges, edge_facets, f, k):
    """The facet behind place k of facet f."""
    return edge_facets[edges[k], 1 if edge_facets[edges[k], 0] == f else 0]


@kernel
def _cross_ties(vertices, at, corner, edges, edge_facets, tie, f, k):
    """On the way from piece f through its edge k and pieces without area behind it: what is behind, the last edge; -1: no way.

    Such a piece lies along one line: it is left by the edge that holds the point of that line where it was entered.
    """
    a, b = vertices[corner[place_after(at, f, k, -1)]], vertices[corner[k]]
    for _ in range(tie.size):
        g = _behind(edges, edge_facets, f, k)
        if g < 0 or not tie[g]:
            return g, edges[k]
        best, widest = -1, 0.0
        for j in range(at[g], at[g + 1]):
            if edges[j] == edges[k]:
                continue
            x, y = share_along(vertices[corner[place_after(at, g, j, -1)]], a, b), share_along(vertices[corner[j]], a, b)
            if (x - WAY) * (y - WAY) < 0.0 and abs(y - x) > widest:
                best, widest = j, abs(y - x)
        if best < 0:
            break
        f, k = g, best
    return g, np.int32(-1)


@entry
def _find_beyond(vertices, at, corner, edges, edge_facets, edge_code, tie, plateau, group):
    """For each place of a true piece the facet behind it, or the code of a side, or UNEXPLORED; NOT_AN_EDGE for others.

    Also the code of its edge if that is the only one on the way, and whether the edge may have no length.
    """
    beyond, event = np.full(corner.size, NOT_AN_EDGE, np.int32), np.full(corner.size, SEVERAL, np.int32)
    short = np.zeros(corner.size, np.bool_)
    for f in range(tie.size):
        for k in range(at[f] if not tie[f] else at[f + 1], at[f + 1]):
            g, last = _behind(edges, edge_facets, f, k), edges[k]
            if g >= 0 and tie[g]:
                g, last = _cross_ties(vertices, at, corner, edges, edge_facets, tie, f, k)
            if last < 0 or (g >= 0 and group[g] == group[f]):
                continue
            beyond[k] = group[g] if g >= 0 else (edge_code[last] if g == BOUNDARY else UNEXPLORED)
            bound = SHORT_AT_PLATEAU if g >= 0 and plateau[g] and not plateau[f] else SHORT
            short[k] = is_short(vertices[corner[place_after(at, f, k, -1)]], vertices[corner[k]], bound)
            if last == edges[k] or g == OPEN:
                event[k] = edge_code[edges[k]]
    return beyond, event, short


# ----------------------------------------------------------------------------------------------------------------------
# 4. Events


@entry
def _differences(a, b):
    """The codes of the points that are not in the same set in partitions a (n, N) and b, and where those of each begin."""
    at, size = np.zeros(a.shape[0] + 1, np.int64), 0
    codes = np.empty(64, np.int32)
    for n in range(a.shape[0]):
        for i in range(a.shape[1] - 1, -1, -1):
            if a[n, i] == b[n, i]:
                continue
            if size + 2 > codes.size:
                codes = np.concatenate((codes, np.empty_like(codes)))
            for kind, other in ((1, INSIDE), (0, OUTSIDE)):
                codes[size] = 2 * i + kind
                size += a[n, i] == other or b[n, i] == other
        at[n + 1] = size
    return at, codes[:size].copy()


class _Facets(NamedTuple):
    """Facets as sets of pieces."""

    member_at: Ints  # (F + 1,) facet f has the pieces members[member_at[f] : member_at[f + 1]]
    members: Int32
    piece: Int32  # (F,) one of them
    tied_at: Ints  # (F + 1,) beside M of which the points tied[tied_at[f] : tied_at[f + 1]] are on the margin
    tied: Int32

    @property
    def is_tied(self) -> Bools:
        """Which facets have several pieces, or points on the margin beside M of their only one."""
        tied: Bools = (np.diff(self.tied_at) > 0) | (np.diff(self.member_at) > 1)
        return tied


def _true_states(split: Split, piece: Int32, tied_at: Ints, tied: Int32, facets: Ints) -> States:
    """Partitions of some facets without jitter: those of one piece of each, with the tied points on the margin."""
    states, (at, points) = split.states(piece[facets]), take_lists(tied_at, tied, facets)
    states[np.repeat(np.arange(facets.size), np.diff(at)), points] = MARGIN
    return states


@entry
def _find_joint(at, beyond, event, twin, is_tied):
    """Edges of which more must be known than the code that was crossed: their places, and the facets on both sides.

    Where no point is tied a code is the only event.
    """
    places, pairs, n = np.empty(beyond.size, np.int32), np.empty((beyond.size, 2), np.int64), 0
    for f in range(at.size - 1):
        for k in range(at[f], at[f + 1]):
            if twin[k] > k and (event[k] == SEVERAL or is_tied[f] or is_tied[beyond[k]]):
                places[n], pairs[n, 0], pairs[n, 1] = k, f, beyond[k]
                n += 1
    return places[:n].copy(), pairs[:n].copy()


def _find_events(split: Split, facets: _Facets, pairs: Ints) -> tuple[Ints, Int32]:
    """The codes of the events between pairs (n, 2) of facets, the largest first, and where those of each pair begin."""
    counts, codes = [np.zeros(1, dtype=np.intp)], [np.empty(0, dtype=np.int32)]
    for part in in_parts(pairs, 2 * CHUNK):
        which, place = np.unique(part, return_inverse=True)
        states = _true_states(split, facets.piece, facets.tied_at, facets.tied, which)
        place = place.reshape(-1, 2)
        at, found = _differences(states[place[:, 0]], states[place[:, 1]])
        counts.append(np.diff(at))
        codes.append(found)
    return np.cumsum(np.concatenate(counts)), np.concatenate(codes)


# ----------------------------------------------------------------------------------------------------------------------
# The map


class Canonical(NamedTuple):
    """The map of the data, and how it hangs together with that of the jittered data."""

    split: Split
    mesh: Mesh  # that of ``split`` where nothing is tied; the code of an edge is the largest of its events
    joint: Int32  # edges with several events, in order,
    joint_at: Ints  # the n-th of which has the codes joint_at[n] : joint_at[n + 1]
    joint_code: Int32
    piece: Int32  # (F,) one of the pieces of each facet
    facet: Int32  # (pieces,) the facet that each piece is part of, -1 for ties
    tied_at: Ints  # (F + 1,) facet f has the points tied_at[f] : tied_at[f + 1] on its margin beside M of its piece
    tied: Int32

    def events(self) -> tuple[Ints, Int32]:
        """The codes of the events of all edges, and where those of each edge begin."""
        sizes = np.ones(self.mesh.edge_code.size, dtype=np.intp)
        sizes[self.joint] = np.diff(self.joint_at)
        codes = np.repeat(self.mesh.edge_code, sizes)
        several = np.zeros(sizes.size, dtype=bool)
        several[self.joint] = True
        codes[np.repeat(several, sizes)] = self.joint_code
        return np.concatenate([[0], np.cumsum(sizes)]), codes

    @property
    def is_cut(self) -> Bools:
        """Which facets are made of several pieces, each with an alpha of its own, or plateaus."""
        cut: Bools = np.bincount(self.facet[self.facet >= 0], minlength=self.piece.size) > 1
        return cut | self.split.plateau[self.piece]

    def states(self, facets: Ints) -> States:
        """Partitions of some facets: M is all points on the margin."""
        return _true_states(self.split, self.piece, self.tied_at, self.tied, facets)


def unite(joiner: Joiner, pool: Executor, limit: Limit = NEVER) -> Canonical:
    """The map of the data from the facets of all tiles; the limit is as in ``Joiner.finish``."""
    engine = joiner.engine
    return _unite(engine.data, joiner.region, engine.words, joiner.finish(pool, limit), joiner.start, pool)


def _unite(data: Data, region: Region, words: Words, split: Split, start: States, pool: Executor) -> Canonical:
    """The map of the data from that of the jittered data; layers are counted from the facet of a partition."""
    mesh = split.mesh
    tie = split.tie & ~split.tie.all()  # where there is nothing else, a tie is better than nothing
    crowded = (split.kind == CROWDED) | (split.kind == UNSURE) | (split.kind == LIKELY)
    looked = _look_at_all(data, region, words, split, np.flatnonzero(crowded), pool)
    looked = _add_anchored(data, words, split, looked)
    facets, group = _group(split, words, looked, tie)
    plateau = split.plateau | (split.kind == POSITIVES) | (split.kind == NEGATIVES)  # explored, or left out
    beyond, event, short = _find_beyond(
        mesh.vertices, mesh.facet_at, mesh.facet_vertices, mesh.facet_edges, mesh.edge_facets, mesh.edge_code, tie, plateau,
        group,
    )  # fmt: skip
    _leave_out_partial(facets, group, mesh, beyond, event)
    _leave_collapsed(data, region, split, short, pool)
    _leave_seen(split.plateau, mesh.facet_at, beyond, short, group)
    if looked.tied.size == 0 and not tie.any() and not short.any():
        return untied(split)
    beyond[short] = NOT_AN_EDGE
    rings, size = assemble(
        mesh.vertices, mesh.facet_at, mesh.facet_vertices, beyond, event, split.plateau, facets.member_at, facets.members
    )
    rings = Rings(rings.at, *(array[:size] for array in rings[1:]))
    flat = (np.diff(rings.at) < 3)[group] & (group >= 0)
    if np.any(flat & split.plateau):
        raise UnclosedError  # it has no area: the pieces tell more
    if flat.any() and not (flat | (group < 0)).all():  # ties up to rounding of the data
        if split.tie.all():
            return untied(split)  # a part of a map, and nothing but ties
        return _unite(data, region, words, split._replace(kind=np.where(flat, TIE, split.kind)), start, pool)
    root = group[_first_of(split, group, start, data)]
    canonical = _number(data, region, split, facets, group, int(root), rings, pool)
    if _is_sound(canonical, int(group.max()) + 1):
        return canonical
    if split.plateau.any():
        raise UnclosedError
    return untied(split)


def _first_of(split: Split, group: Int32, start: States, data: Data) -> int:
    """The first piece that is none by the jitter alone; or the plateau that holds the start.

    A start that is none of the pieces lies on one: on that of the class on its margin.
    """
    axes = np.unique(data.axis[start == MARGIN])
    if axes.size == 1 and not np.array_equal(split.start, start):
        plateau = np.flatnonzero(split.kind == POSITIVE_PLATEAU + axes[0])
        if plateau.size > 0:
            return int(plateau[0])
    return int(np.argmax(group >= 0))


@entry
def _leave_seen(plateau, at, beyond, short, group):
    """Of the short edges of plateaus those have length that are edges of a piece behind: from inside nothing is known."""
    n = 0
    for f in range(plateau.size):
        n = max(n, group[f] + 1)
    seen = np.zeros(n, np.bool_)
    for p in range(plateau.size):
        if not plateau[p]:
            continue
        seen[:] = False
        for f in range(plateau.size):
            for k in range(at[f], at[f + 1]):
                if f != p and group[f] >= 0 and beyond[k] == group[p] and not short[k]:
                    seen[group[f]] = True
        for k in range(at[p], at[p + 1]):
            short[k] = short[k] and not (beyond[k] >= 0 and seen[beyond[k]])


def _leave_out_partial(facets: _Facets, group: Int32, mesh: Mesh, beyond: Int32, event: Int32) -> None:
    """Leave out facets with ties of which pieces may not have been explored; unless nothing else is left."""
    unexplored = np.flatnonzero(beyond == UNEXPLORED)
    if unexplored.size == 0:
        return
    piece = np.repeat(np.arange(group.size), np.diff(mesh.facet_at))
    partial = np.zeros(facets.piece.size, dtype=bool)
    partial[group[piece[unexplored]]] = True
    partial &= facets.is_tied
    if not partial.any() or partial.all():
        return
    behind = (beyond >= 0) & partial[np.maximum(beyond, 0)]
    beyond[behind], event[behind] = UNEXPLORED, mesh.edge_code[mesh.facet_edges[behind]]
    beyond[partial[group[piece]] & (group[piece] >= 0)] = NOT_AN_EDGE
    group[partial[group] & (group >= 0)] = -1


def _is_sound(canonical: Canonical, n_facets: int) -> bool:
    """Does the map hang together? Where rows are so badly conditioned that doubles do not tell places apart it may not."""
    mesh = canonical.mesh
    whole = not np.any(canonical.split.mesh.edge_facets == OPEN)
    euler = mesh.vertices.shape[0] - mesh.edge_code.size + mesh.facet_layer.size
    if whole and (euler != 1 or mesh.facet_layer.size != n_facets or np.any(mesh.edge_facets == OPEN)):
        return False
    return bool(
        _fits(mesh.vertices, mesh.facet_at, mesh.facet_edges, mesh.facet_vertices, mesh.edge_vertices, mesh.edge_facets)
    )


@entry
def _fits(vertices, at, edges, corner, edge_vertices, edge_facets):
    """Has every facet three edges or more, the same in both of their facets, with the same ends, and is none turned over?"""
    uses = np.zeros(edge_vertices.shape[0], np.int8)
    for f in range(at.size - 1):
        if at[f + 1] - at[f] < 3:
            return False
        largest, before = 0.0, corner[at[f + 1] - 1]
        for k in range(at[f], at[f + 1]):
            e, a, b = edges[k], vertices[corner[at[f]]], vertices[before]
            if e < 0:
                return False
            uses[e] += 1
            if min(before, corner[k]) != min(edge_vertices[e, 0], edge_vertices[e, 1]) or max(before, corner[k]) != max(
                edge_vertices[e, 0], edge_vertices[e, 1]
            ):
                return False
            before = corner[k]
            det, size = triple_product(vertices[before], a, b)
            largest = det / size if abs(det) > abs(largest) * size else largest
        if largest < -TURNED:
            return False
    for e in range(uses.size):
        if uses[e] != (2 if edge_facets[e, 1] >= 0 else 1):
            return False
    return True


TURNED = 2.0**-32
"""Relative determinant of corners below which doubles do not tell which way round a facet is: corners are good to 2e-10."""


def _leave_collapsed(data: Data, region: Region, split: Split, short: Bools, pool: Executor) -> None:
    """Leave of the short edges those without length; of plateaus all."""
    pieces = np.unique(np.searchsorted(split.mesh.facet_at, np.flatnonzero(short), side="right") - 1)
    pieces = pieces[~split.plateau[pieces]]
    for _ in pool.map(lambda part: find_collapsed(data, region, split, part, short), in_parts(pieces, CHUNK)):
        pass


def untied(split: Split) -> Canonical:
    """Every piece is a facet: nothing is tied, or it cannot be told what is."""
    n = split.kind.size
    pieces, none = np.arange(n, dtype=np.int32), np.empty(0, dtype=np.int32)
    nowhere = np.zeros(n + 1, dtype=np.intp)
    return Canonical(split, split.mesh, none, nowhere[:1], none, pieces, pieces, nowhere, none)


def _look_at_all(data: Data, region: Region, words: Words, split: Split, pieces: Ints, pool: Executor) -> _Looked:
    """What some pieces are without jitter."""

    def look(part: Ints) -> tuple[Words, Ints, Int32]:
        states, truth, _ = find_tied(data, region, split, part)
        key = keys_of_states(truth, words)
        first, _ = number_names(key)  # the others of a facet have no points of their own to tell
        piece, point = np.divmod(np.flatnonzero(states[first] != truth[first]), data.axis.size)  # np.nonzero takes much longer
        counts = np.zeros(part.size, dtype=np.intp)
        counts[first] = np.bincount(piece, minlength=first.size)
        return key, counts, point.astype(np.int32)

    parts = np.array_split(pieces, pieces.size // CHUNK + 1)
    keys, counts, tied = (np.concatenate(found) for found in zip(*pool.map(look, parts), strict=True))
    return _Looked(pieces, keys, np.concatenate([[0], np.cumsum(counts)]), tied)


def _add_anchored(data: Data, words: Words, split: Split, looked: _Looked) -> _Looked:
    """The same with the pieces where all of one class are on the margin, and all others inside it, in order."""
    for axis in (P, Q):
        pieces = np.flatnonzero((split.kind == POSITIVES + axis) | (split.kind == POSITIVE_PLATEAU + axis))
        if pieces.size > 0:
            truth = np.where(data.axis == axis, MARGIN, INSIDE).astype(np.int8)[None]
            tied = np.flatnonzero(split.states(pieces[:1])[0] != truth[0]).astype(np.int32)
            end = np.full(pieces.size, looked.tied_at[-1] + tied.size)  # the first tells for all
            looked = _Looked(
                np.concatenate([looked.piece, pieces]),
                np.concatenate([looked.key, np.repeat(keys_of_states(truth, words), pieces.size)]),
                np.concatenate([looked.tied_at, end]),
                np.concatenate([looked.tied, tied]),
            )
    order = np.argsort(looked.piece)
    return _Looked(looked.piece[order], looked.key[order], *take_lists(looked.tied_at, looked.tied, order))


@entry
def _number_facets(tie, parent, flips, words, start_key, table_key, table_value, n_looked, looked, number):
    """The facet of each piece, -1 for ties, and one piece of each facet after the first ``n_looked``; pieces by facet.

    A piece that was not looked at has the key of its partition, which may be that of others without jitter: of those in
    the table.
    """
    group, keys, piece, n = np.full(tie.size, -1, np.int32), np.empty(tie.size, np.uint64), np.empty(tie.size, np.int32), 0
    for k in range(looked.size):
        group[looked[k]] = number[k]
    for f in range(tie.size):
        keys[f] = start_key if f == 0 else keys[parent[f]]
        for step in range(2):
            if f > 0 and flips[f, step] >= 0:
                keys[f] ^= words[flips[f, step]]
        if tie[f] or group[f] >= 0:
            continue
        where = find(table_key, keys[f])
        if table_key[where] == keys[f]:
            group[f] = table_value[where]
        else:
            group[f], piece[n] = n_looked + n, f
            n += 1
    at = np.zeros(n_looked + n + 1, np.int64)
    for f in range(tie.size):
        at[group[f] + 1] += group[f] >= 0
    at = np.cumsum(at)
    place, members = at.copy(), np.empty(at[-1], np.int32)
    for f in range(tie.size):
        if group[f] >= 0:
            members[place[group[f]]] = f
            place[group[f]] += 1
    return group, piece[:n].copy(), at, members


def _group(split: Split, words: Words, looked: _Looked, tie: Bools) -> tuple[_Facets, Int32]:
    """Facets from pieces of the same key, and the facet of each piece, -1 for ties."""
    first, number = number_names(looked.key)
    size = 1 << (2 * first.size + 1).bit_length()
    table_key, table_value = np.zeros(size, dtype=np.uint64), np.zeros(size, dtype=np.int32)
    enter(table_key, table_value, looked.key[first])
    group, piece, member_at, members = _number_facets(
        tie, split.mesh.facet_parent, split.flips, words, key_of(split.start, words), table_key, table_value, first.size,
        looked.piece, number,
    )  # fmt: skip
    counts = np.diff(looked.tied_at)
    sizes = np.concatenate([counts[first], np.zeros(piece.size, dtype=np.intp)])
    mine = np.zeros(looked.piece.size, dtype=bool)
    mine[first] = True
    piece = np.concatenate([looked.piece[first], piece]).astype(np.int32)
    tied_at = np.concatenate([[0], np.cumsum(sizes)])
    return _Facets(member_at, members, piece, tied_at, looked.tied[np.repeat(mine, counts)]), group


def _number(
    data: Data, region: Region, split: Split, facets: _Facets, group: Int32, root: int, rings: Rings, pool: Executor
) -> Canonical:
    """Pair the edges, join the corners, find the events, and number all in the order of the layers."""
    rings, twin = paired(rings)
    one = join_corners(split.mesh.vertices, rings.at, twin, rings.first, rings.last)
    vertices = split.mesh.vertices.copy()
    _without_jitter(data, region, split, facets, rings, one, vertices)
    _put_on_sides(region.axis, region.corners, *rings[:2], rings.first, rings.last, one, vertices)
    places, pairs = _find_joint(rings.at, rings.beyond, rings.event, twin, facets.is_tied)
    event_at, event_code = _find_events(split, facets, pairs)
    rings.event[places] = event_code[event_at[:-1]]
    place, around = np.empty(rings.beyond.size, PLACE), np.zeros(len(vertices), AROUND)
    _lay_out(vertices, rings.at, rings.beyond, rings.event, twin, one[rings.last], place, around)
    order, mesh, _ = number_all(pool, root, rings.at, place, around, vertices)
    number = np.full(rings.at.size, -1, dtype=np.int32)
    number[order] = np.arange(order.size)
    edges = _edges_between(mesh.facet_at, mesh.facet_edges, mesh.edge_facets, number[pairs])
    several = np.flatnonzero((np.diff(event_at) > 1) & (edges >= 0))
    several = several[np.argsort(edges[several])]
    return Canonical(
        split, mesh, edges[several], *take_lists(event_at, event_code, several), facets.piece[order],
        number[group], *take_lists(facets.tied_at, facets.tied, order),
    )  # fmt: skip


@entry
def _edges_between(at, edges, edge_facets, pairs):
    """The edges between pairs of facets; -1 if there is none."""
    out = np.full(pairs.shape[0], -1, np.int32)
    for n in range(pairs.shape[0]):
        f, g = pairs[n, 0], pairs[n, 1]
        for k in range(at[f] if min(f, g) >= 0 else 0, at[f + 1] if min(f, g) >= 0 else 0):
            if edges[k] < 0:  # the map does not hang together
                continue
            a, b = edge_facets[edges[k], 0], edge_facets[edges[k], 1]
            if max(a, b) == max(f, g) and min(a, b) == min(f, g):
                out[n] = edges[k]
    return out


@entry
def _put_on_sides(axes, corners, at, beyond, first, last, one, out):
    """Vertices on an axis, at infinity and in corners of the region are there."""
    for f in range(at.size - 1):
        for k in range(at[f], at[f + 1]):
            side = -1 - beyond[k]
            if side < 0 or side >= axes.size:
                continue
            following = -1 - beyond[place_after(at, f, k, 1)]
            if axes[side] >= 0:
                out[one[first[k]], axes[side]] = out[one[last[k]], axes[side]] = 0.0
            if following == (side + 1) % axes.size:
                for c in range(3):
                    out[one[last[k]], c] = corners[side, c]


@kernel
def _is_uneven(c):
    """Has a vertex a coordinate so small that the jitter, which counts beside the largest, moves it?"""
    least = UNEVEN * max(c[0], c[1], c[2])
    return 0.0 < c[0] < least or 0.0 < c[1] < least or 0.0 < c[2] < least


@entry
def _sharpest(vertices, split_at, plateau, much_tied, at, place, first, last, one):
    """For vertices that stand for several, are uneven, or of a much tied facet the sharpest corner of a piece with both edges.

    A corner is a piece and two of its places. Also: which vertices are of such facets. The jitter moves others by 1e-10 or so.
    """
    several, at_much_tied, best = np.zeros(one.size, np.bool_), np.zeros(one.size, np.bool_), np.zeros(one.size)
    chosen = np.full((one.size, 3), -1, np.int64)
    for v in range(one.size):
        several[one[v]] |= one[v] != v or _is_uneven(vertices[v])
    for f in range(at.size - 1):
        for k in range(at[f] if much_tied[f] else at[f + 1], at[f + 1]):
            at_much_tied[one[last[k]]] = True
    for f in range(at.size - 1):
        for k in range(at[f], at[f + 1]):
            v, following = one[last[k]], k + 1 if k + 1 < at[f + 1] else at[f]
            if not (several[v] or at_much_tied[v]):
                continue
            piece = _piece_of(split_at, place[k])
            if plateau[piece] or not split_at[piece] <= place[following] < split_at[piece + 1]:
                continue
            sharp = sharpness(vertices[one[first[k]]], vertices[v], vertices[one[last[following]]])
            if sharp > best[v]:
                best[v], chosen[v, 0], chosen[v, 1], chosen[v, 2] = sharp, piece, place[k], place[following]
    return chosen, at_much_tied


@kernel
def _piece_of(at, place):
    """The piece that a place of the split mesh belongs to."""
    return np.searchsorted(at, place, "right") - 1


def _without_jitter(
    data: Data, region: Region, split: Split, facets: _Facets, rings: Rings, one: Int32, vertices: Floats
) -> None:
    """Put vertices that the jitter moves where the lines of two edges meet without it.

    Much tied are plateaus, and facets with more tied points than M can have: the jitter moves their corners most.
    """
    mesh, much_tied = split.mesh, split.plateau[facets.piece] | (np.diff(facets.tied_at) > data.rank)
    chosen, at_much_tied = _sharpest(
        vertices, mesh.facet_at, split.plateau, much_tied, rings.at, rings.place, rings.first, rings.last, one
    )
    which = np.flatnonzero(chosen[:, 0] >= 0)
    which = which[np.argsort(chosen[which, 0])]
    for part in in_parts(which, CHUNK):
        codes = mesh.edge_code[mesh.facet_edges[chosen[part, 1:]]]
        near = np.where(at_much_tied[part], NEAR_AT_PLATEAU, NEAR)
        vertices[part] = find_corners(data, region, split, chosen[part, 0], codes, vertices[part], near)


@kernel
def _is_greater_from(event, start, end, a, b):
    """Are the events of a facet greater from place a on, round about, than from place b on, as words are compared?"""
    for _ in range(start, end):
        if event[a] != event[b]:
            return event[a] > event[b]
        a, b = a + 1 if a + 1 < end else start, b + 1 if b + 1 < end else start
    return False


@entry_noalloc
def _lay_out(vertices, at, beyond, event, twin, vertex, place, around):
    """Fill the places, and what is around the vertices, which is zero. The edges of a facet begin with the largest event.

    The event of an edge is known in the first of its two places.

    Of several the one is taken from which on the events are greatest, so that the order is a fact about the data.
    """
    for v in range(vertices.shape[0]):
        around[v].count, around[v].number = -FAR_OUT if is_far_out(vertices, v) else 0, -1
    for f in range(at.size - 1):
        first = at[f]
        for k in range(at[f], at[f + 1]):
            if UNEXPLORED < beyond[k] < 0:
                event[k] = beyond[k]
            elif twin[k] > k:
                event[twin[k]] = event[k]
        for k in range(at[f] + 1, at[f + 1]):
            first = k if event[k] >= event[first] and _is_greater_from(event, at[f], at[f + 1], k, first) else first
        for k in range(at[f], at[f + 1]):
            old = k - at[f] + first - (at[f + 1] - at[f] if k - at[f] + first >= at[f + 1] else 0)
            behind = beyond[old]
            place[k].code, place[k].vertex = event[old], vertex[old]
            place[k].behind = behind if behind >= 0 else (OPEN if behind == UNEXPLORED else BOUNDARY)
            around[vertex[old]].facets ^= f
            around[vertex[old]].count += 1
