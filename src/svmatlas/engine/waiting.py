"""The queue of facets that wait, the corners that are known of them, and the rows that hold their partitions."""

from __future__ import annotations

import numpy as np

from svmatlas.engine.arena import CLOSED_SINCE, END, FREE, FRONT, LAST, LAYERED, LONE, RINGED, SAME, SEATS, TOLD, move
from svmatlas.engine.compiled import kernel


@kernel
def known_corners_of(arena, f, hints):
    """What facet f was told; returns how much of it there is room for."""
    n, k = 0, arena.corner_list_head[f]
    while k >= 0 and n < hints.shape[0]:
        for c in range(3):
            hints[n, c] = arena.known_corners[k, c]
        n += 1
        k = arena.known_corners[k, 3]
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
        for part in range(3):
            for c in range(2):
                copy_row(arena.pull[parent, part, c], arena.pull[seat, part, c])
    for step in range(2):
        if arena.flips[f, step] >= 0:
            move(task.rows, task.point, task.axis, arena.state[seat], arena.pull[seat], np.int64(arena.flips[f, step]))
    arena.partition_row[f], arena.holders[seat] = seat, 1


@kernel
def number_of(told):
    """Number of a corner that was told, be it coarse."""
    return told if told >= 0 else -2 - told


@kernel
def enqueue(arena, f, queue):
    """Put a facet at the end of a queue."""
    arena.queue[queue, arena.counts[END + queue]] = f
    arena.counts[END + queue] += 1


@kernel
def dequeue(arena):
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
            if arena.corner_list_head[f] == CLOSED_SINCE:
                continue
            if queue == LONE and arena.corner_counts[f, 0] > 1:
                enqueue(arena, f, SAME)
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
def release_row(arena, f):
    """Give up what only facets that wait need."""
    counts, told, k = arena.counts, arena.known_corners, arena.corner_list_head[f]
    seat = arena.partition_row[f] if arena.partition_row[f] >= 0 else -1 - arena.partition_row[f]
    arena.holders[seat] -= 1
    if arena.holders[seat] == 0:
        arena.free[counts[FREE]] = seat
        counts[FREE] += 1
    while k >= 0:
        following = told[k, 3]
        told[k, 3], counts[LAST] = counts[LAST], k
        k = following
    arena.corner_list_head[f] = CLOSED_SINCE


@kernel
def copy_row(source, goal):
    """Copy the first entries of a row."""
    for j in range(goal.size):
        goal[j] = source[j]


@kernel
def record_corner(arena, facet, a, b, number):
    """Tell a facet that waits of a corner between two of its edges, in order, once; of an edge alone if these are one."""
    told, k = arena.known_corners, arena.corner_list_head[facet]
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
    told[k, 0], told[k, 1], told[k, 2], told[k, 3] = a, b, number, arena.corner_list_head[facet]
    arena.corner_list_head[facet] = k
    if a != b:
        arena.corner_counts[facet, 0] += 1
        arena.corner_counts[facet, 1] += (1 if n_a == 0 else -1) + (1 if n_b == 0 else -1)
        if arena.corner_counts[facet, 1] == 0 and not arena.counts[LAYERED]:
            enqueue(arena, facet, RINGED)
