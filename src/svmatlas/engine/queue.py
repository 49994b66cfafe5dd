"""The queue of facets that wait, the corners that are known of them, and the rows that hold their partitions."""

from __future__ import annotations

import numpy as np

from svmatlas.engine.arena import (
    CLOSED_SINCE,
    LONE,
    RINGED,
    SAME,
    move,
    pull_row,
)
from svmatlas.engine.compiled import kernel


@kernel
def known_corners_of(arena, f, hints):
    """What facet f was told; returns how much of it there is room for."""
    n, k = 0, arena.corner_list_head[f]
    while k >= 0 and n < hints.size:
        known = arena.known_corners[k]
        hints[n].first, hints[n].second, hints[n].number = known.first, known.second, known.number
        n += 1
        k = known.next
    return n


@kernel
def take_row(task, arena, f):
    """Give a facet a row of its own for its partition, once."""
    if arena.partition_row[f] >= 0:
        return
    parent = -1 - arena.partition_row[f]
    seat = parent
    if arena.holders[parent] > 1:
        arena.holders[parent] -= 1
        seat = _take_seat(arena)
        copy_row(arena.state[parent], arena.state[seat])
        _copy_pull(pull_row(arena, parent), pull_row(arena, seat))
    for step in range(2):
        if arena.flips[f, step] >= 0:
            move(task.data, arena.state[seat], pull_row(arena, seat), np.int64(arena.flips[f, step]))
    arena.partition_row[f], arena.holders[seat] = seat, 1


@kernel
def number_of(told):
    """Number of a corner that was told, be it coarse."""
    return told if told >= 0 else -2 - told


@kernel
def enqueue(arena, f, queue):
    """Put a facet at the end of a queue."""
    arena.queue[queue, arena.counts[0].end[queue]] = f
    arena.counts[0].end[queue] += 1


@kernel
def dequeue(arena):
    """The facet to be closed now; -1 if none waits."""
    counts = arena.counts[0]
    for queue in range(4):
        while counts.front[queue] < counts.end[queue]:
            if queue == LONE:
                counts.end[queue] -= 1
                f = arena.queue[queue, counts.end[queue]]
            else:
                f = arena.queue[queue, counts.front[queue]]
                counts.front[queue] += 1
            if arena.corner_list_head[f] == CLOSED_SINCE:
                continue
            if queue == LONE and arena.n_corners[f] > 1:
                enqueue(arena, f, SAME)
                continue
            return f
    return -1


@kernel
def _take_seat(arena):
    """A row for the partition of a facet: one that was left last, so that few are in use."""
    counts = arena.counts[0]
    if counts.n_free > 0:
        counts.n_free -= 1
        return np.int64(arena.free[counts.n_free])
    counts.n_rows += 1
    return counts.n_rows - 1


@kernel
def release_row(arena, f):
    """Give up what only facets that wait need."""
    counts, told, k = arena.counts[0], arena.known_corners, arena.corner_list_head[f]
    seat = arena.partition_row[f] if arena.partition_row[f] >= 0 else -1 - arena.partition_row[f]
    arena.holders[seat] -= 1
    if arena.holders[seat] == 0:
        arena.free[counts.n_free] = seat
        counts.n_free += 1
    while k >= 0:
        following = told[k].next
        told[k].next, counts.unused = counts.unused, k
        k = following
    arena.corner_list_head[f] = CLOSED_SINCE


@kernel
def _copy_pull(source, goal):
    """Copy the pulls of a partition."""
    for c in range(2):
        copy_row(source.high[c], goal.high[c])
        copy_row(source.low[c], goal.low[c])
        copy_row(source.derivative[c], goal.derivative[c])
    copy_row(source.n_points, goal.n_points)


@kernel
def copy_row(source, goal):
    """Copy the first entries of a row."""
    for j in range(goal.size):
        goal[j] = source[j]


@kernel
def record_corner(arena, facet, a, b, number):
    """Tell a facet that waits of a corner between two of its edges, in order, once; of an edge alone if these are one."""
    told, k = arena.known_corners, arena.corner_list_head[facet]
    if k <= CLOSED_SINCE:
        return
    n_a, n_b = 0, 0
    while k >= 0:
        x, y = told[k].first, told[k].second
        if x == a and y == b:
            return
        if x != y:
            n_a += (x == a) + (y == a)
            n_b += (x == b) + (y == b)
        k = told[k].next
    k = arena.counts[0].unused
    if k >= 0:
        arena.counts[0].unused = told[k].next
    elif arena.counts[0].n_known < told.size:
        k = arena.counts[0].n_known
        arena.counts[0].n_known += 1
    else:
        return
    told[k].first, told[k].second, told[k].number, told[k].next = a, b, number, arena.corner_list_head[facet]
    arena.corner_list_head[facet] = k
    if a != b:
        arena.n_corners[facet] += 1
        arena.n_loose[facet] += (1 if n_a == 0 else -1) + (1 if n_b == 0 else -1)
        if arena.n_loose[facet] == 0 and not arena.counts[0].layered:
            enqueue(arena, facet, RINGED)
