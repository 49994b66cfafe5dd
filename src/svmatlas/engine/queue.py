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
    """Copy the known corners of facet f into ``hints``, as many as there is room for; returns how many."""
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
    row = parent
    if arena.holders[parent] > 1:
        arena.holders[parent] -= 1
        row = _new_row(arena)
        copy_row(arena.state[parent], arena.state[row])
        _copy_pull(pull_row(arena, parent), pull_row(arena, row))
    for step in range(2):
        if arena.flips[f, step] >= 0:
            move(task.data, arena.state[row], pull_row(arena, row), np.int64(arena.flips[f, step]))
    arena.partition_row[f], arena.holders[row] = row, 1


@kernel
def number_of(recorded):
    """Number of a corner from what was recorded of it: a coarse one is recorded as -2 - number."""
    return recorded if recorded >= 0 else -2 - recorded


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
def _new_row(arena):
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
    counts, known, k = arena.counts[0], arena.known_corners, arena.corner_list_head[f]
    row = arena.partition_row[f] if arena.partition_row[f] >= 0 else -1 - arena.partition_row[f]
    arena.holders[row] -= 1
    if arena.holders[row] == 0:
        arena.free[counts.n_free] = row
        counts.n_free += 1
    while k >= 0:
        following = known[k].next
        known[k].next, counts.unused = counts.unused, k
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
    """Record, once, that edges a and b of a facet that waits meet at this corner, in this order; if a is b, only the edge."""
    known, k = arena.known_corners, arena.corner_list_head[facet]
    if k <= CLOSED_SINCE:
        return
    n_a, n_b = 0, 0
    while k >= 0:
        x, y = known[k].first, known[k].second
        if x == a and y == b:
            return
        if x != y:
            n_a += (x == a) + (y == a)
            n_b += (x == b) + (y == b)
        k = known[k].next
    k = arena.counts[0].unused
    if k >= 0:
        arena.counts[0].unused = known[k].next
    elif arena.counts[0].n_known < known.size:
        k = arena.counts[0].n_known
        arena.counts[0].n_known += 1
    else:
        return
    known[k].first, known[k].second, known[k].number, known[k].next = a, b, number, arena.corner_list_head[facet]
    arena.corner_list_head[facet] = k
    if a != b:
        arena.n_corners[facet] += 1
        arena.n_loose[facet] += (1 if n_a == 0 else -1) + (1 if n_b == 0 else -1)
        if arena.n_loose[facet] == 0 and not arena.counts[0].layered:
            enqueue(arena, facet, RINGED)
