"""layers.py, kernel by kernel: names, the table of facets, the queues, what facets are told, and what lies behind a vertex."""

from __future__ import annotations

from collections import deque
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest

from svmatlas.engine import clipping, layers, names, polygon, queue, rings
from svmatlas.engine.arena import (
    CLOSED_SINCE,
    CROWD,
    LONE,
    OTHER,
    RINGED,
    SAME,
    cross,
    make_arena,
    move,
)  # fmt: skip
from svmatlas.engine.facet import sum_pull
from svmatlas.engine.record import make_record
from svmatlas.engine.scores import weights_at
from svmatlas.engine.workspace import HINT, INSIDE, MARGIN, OUTSIDE, make_pull
from tests.engine import Exact, gaussian, partitions, take, task_of


@pytest.fixture
def arena():
    """Room for a few facets, all of which are named and wait in no queue."""
    made = make_record(make_arena(64, 5, 2, False, np.zeros(0, np.uint8)), None)
    for array in (made.counts, made.table_key, made.holders, made.n_corners, made.n_loose):
        array.fill(0)
    made.counts[0].unused, made.counts[0].n_named = -1, 64
    made.corner_list_head.fill(-1)
    return made


def test_keys_depend_on_the_partition_only():
    """Whatever the way: each crossing is one XOR."""
    words, random = names.make_words(5, np.random.default_rng(0)), Random(0)
    state = np.full(5, INSIDE, np.int8)
    key, seen = names.key_of(state, words), {}
    for _ in range(300):
        code = 2 * random.randrange(5)
        if state[code >> 1] == MARGIN:
            code += random.randrange(2)
        else:
            code += state[code >> 1] == INSIDE
        cross(state, code)
        key ^= words[code]
        assert key == names.key_of(state, words)
        assert seen.setdefault(state.tobytes(), key) == key
    assert len(set(seen.values())) == len(seen) > 50


def test_moves_carry_the_pulls():
    """A crossing and its way back; the pulls are those of the partition."""
    _, data, _ = task_of(*gaussian())
    state = next(partitions(data, 2))
    pull, true = make_pull(data.rows.shape[1]), make_pull(data.rows.shape[1])
    sum_pull(data, state, pull)
    for code in [*range(0, 8, 2), *range(1, 8, 2)]:
        if state[code >> 1] in (MARGIN, INSIDE if code & 1 else OUTSIDE):
            move(data, state, pull, code)
            sum_pull(data, state, true)
            assert np.allclose(sum(pull[:3]), sum(true[:3]), rtol=0, atol=1e-15)


def test_the_table_finds_what_was_entered():
    """Also keys that fall on the same place, and around its end."""
    size = 16
    keys = np.array([3, 3 + size, 3 + 2 * size, 15, 15 + size, 15 + 2 * size], np.uint64)
    table_key, table_value = np.zeros(size, np.uint64), np.zeros(size, np.int32)
    names.enter(table_key, table_value, keys)
    assert [table_value[names.find(table_key, key)] for key in keys] == list(range(len(keys)))
    assert table_key[names.find(table_key, np.uint64(7))] == 0


def test_the_queues_are_served_in_their_order(arena):
    """RINGED first; of LONE the last; what has been met twice since waits among SAME; OTHER in the end."""
    for f, which in [(1, OTHER), (2, SAME), (3, LONE), (4, LONE), (5, LONE), (6, RINGED)]:
        queue.enqueue(arena, f, which)
    arena.n_corners[4] = 2  # another corner of it became known
    arena.corner_list_head[2] = CLOSED_SINCE  # closed in the meantime
    assert [queue.dequeue(arena) for _ in range(6)] == [6, 5, 3, 4, 1, -1]


def test_queues_against_a_model(arena):
    """Random waits and takes."""
    random, model = Random(1), {which: deque() for which in (RINGED, LONE, SAME, OTHER)}
    fresh = iter(range(64))
    for _ in range(120):
        if random.random() < 0.5:
            f, which = next(fresh, None), random.choice(list(model))
            if f is None:
                break
            queue.enqueue(arena, f, which)
            model[which].append(f)
            continue
        which = next((q for q in model if model[q]), None)
        expected = -1 if which is None else model[which].pop() if which == LONE else model[which].popleft()
        assert queue.dequeue(arena) == expected


def test_a_facet_is_told_of_a_corner_once(arena):
    queue.record_corner(arena, 7, 2, 4, 11)
    queue.record_corner(arena, 7, 2, 4, 11)
    assert (arena.counts[0].n_known, arena.n_corners[7], arena.n_loose[7]) == (
        1,
        1,
        2,
    )


def test_a_ring_of_corners_is_ready(arena):
    """When every edge has both ends the facet waits with the first; its corners are recalled as they were told."""
    corners = [(2, 4, 0), (4, 9, 1), (9, 2, 2)]
    for a, b, number in corners:
        assert arena.counts[0].end[RINGED] == 0
        queue.record_corner(arena, 7, a, b, number)
    assert (arena.n_corners[7], arena.n_loose[7]) == (3, 0)
    assert queue.dequeue(arena) == 7
    hints = np.zeros(CROWD, HINT)
    n = queue.known_corners_of(arena, 7, hints)
    assert sorted(map(tuple, hints[:n].tolist())) == sorted(corners)


def test_what_was_told_is_room_for_more(arena):
    """When a facet is closed its corners are forgotten, and their places used again."""
    for number in range(3):
        queue.record_corner(arena, 7, number, number + 1, number)
    arena.partition_row[7], arena.holders[0] = 0, 2
    queue.release_row(arena, 7)
    assert arena.corner_list_head[7] == CLOSED_SINCE
    for number in range(3):
        queue.record_corner(arena, 8, number, number + 1, number)
    assert arena.counts[0].n_known == 3
    queue.record_corner(arena, 7, 1, 2, 3)  # is not told any more
    assert arena.corner_list_head[7] == CLOSED_SINCE


def test_rows_that_none_needs_are_used_again(arena):
    arena.counts[0].n_rows = 0
    seats = [queue._new_row(arena) for _ in range(3)]
    arena.partition_row[:3], arena.holders[:3] = seats, 1
    queue.release_row(arena, 1)
    assert queue._new_row(arena) == seats[1]


@pytest.mark.parametrize("layered", [0, 1])
def test_facets_are_merged_by_name(arena, layered):
    """A key that is there already has its number; a new one waits, by the parity of its |M|, or layer by layer."""
    task = SimpleNamespace(
        state=np.array([MARGIN, INSIDE, OUTSIDE], np.int8), data=SimpleNamespace(axis=np.array([0, 1, 0], np.int8), rank=3)
    )
    arena.counts[0].n_named, arena.counts[0].layered = 1, layered
    arena.key[0], arena.partition_row[0], arena.margin[0] = 5, 0, [1, 0]
    new = layers._mef(task, arena, 0, np.uint64(99), 3, 3)
    assert new == layers._mef(task, arena, 0, np.uint64(99), 3, 3) == 1
    assert arena.margin[1].tolist() == [1, 1]  # point 1 enters M
    assert (arena.parent[1], *arena.flips[1]) == (0, 3, -1)
    queue = SAME if layered else LONE  # |M| = 2 = rank - 1
    assert arena.counts[0].end[queue] - arena.counts[0].front[queue] == 1
    both = layers._mef(task, arena, 0, np.uint64(77), 1, 4)
    assert arena.margin[both].tolist() == [1, 0]  # point 0 leaves, point 2 enters
    through = layers._mef(task, arena, 0, np.uint64(55), 0, 1)
    assert arena.margin[through].tolist() == [1, 0]  # a point that passes through M


def test_corners_of_the_triangle():
    for c in range(3):
        v = np.zeros(3)
        v[c] = 1.0
        assert names.corner_of_triangle(v) == c
    assert names.corner_of_triangle(np.array([0.5, 1.0, 0.0])) == -1


def test_the_neighbourhood_holds_wherever_it_says(arena):
    """``_spread``: weights at all corners of a polygon are within the box and the radius around it that are found."""
    task, data, _region = task_of(*gaussian(7, 2))
    state = np.full(7, INSIDE, np.int8)
    take(task, data, state)
    assert polygon.close_facet(task, task.lines.no_hints) == clipping.CLOSED
    frame = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    frame[0] = 0.1
    spread = np.array([[np.inf, -np.inf], [np.inf, -np.inf], [0.0, 0.0]])
    layers._spread(task, frame, spread)
    exact, checked = Exact(data, state), 0
    for j in range(task.polygon.n_corners):
        v = task.edges.corner[j]
        if v[2] == 0:
            continue
        beta = np.array([[float(x) for x in column] for column in exact.beta]).T @ v / v[2] - frame[0]
        along = frame[1:] @ beta
        assert np.all(spread[:2, 0] - 1e-12 <= along)
        assert np.all(along <= spread[:2, 1] + 1e-12)
        assert beta @ beta - along @ along <= (spread[2, 0] * (1 + 1e-9)) ** 2
        weights_at(task, *v)
        assert np.allclose(task.maps.weights / v[2] - frame[0], beta, atol=1e-12)
        checked += 1
    assert checked > 1
    assert task.maps.pull.any()


@pytest.mark.parametrize("n", [0, 1, 2, 3, 8, 13, 64, 100])
def test_values_in_order(n):
    """From the least on; equal values stay in their order."""
    values = np.random.default_rng(n).integers(0, max(1, n // 2), n) / 3
    assert rings._order_of(values).tolist() == sorted(range(n), key=lambda k: values[k])


def test_edges_are_seen_in_order():
    """Of a polygon around any place, however flat: the angles of its edges, in order, go round once."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        angle = np.sort(rng.uniform(0, 2 * np.pi, 9))
        vertices = np.column_stack([3 + np.cos(angle), 2 + 1e-3 * np.sin(angle), np.ones(9)])
        corner = np.roll(np.arange(9), -1)
        shuffled = rng.permutation(9)
        order = rings._order_of(rings._angles(vertices, corner, shuffled, shuffled))
        assert np.all(np.diff(np.append(shuffled[order], shuffled[order[0]])) % 9 == 1)
