"""The kernels that put a map together from pieces, one by one."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svmatlas.data.problem import JITTER
from svmatlas.engine import canonical, rings, ties
from svmatlas.engine.arena import crossed
from svmatlas.engine.compiled import entry
from svmatlas.engine.mesh import Mesh, Split, take_lists
from svmatlas.engine.names import key_of, make_words
from svmatlas.engine.ties import LESS
from svmatlas.engine.workspace import INSIDE, MARGIN, OUTSIDE, DoubleDoubles


def plain(name, module=rings):
    """A kernel as the Python function that it is."""
    kernel = getattr(module, name)
    return getattr(kernel, "py_func", kernel)


costs = st.tuples(*[st.floats(0.01, 1.0)] * 3).map(np.array)
share = st.floats(-0.5, 1.5)


@given(costs, costs, share)
def test_along_is_the_share_of_the_way(a, b, t):
    """In barycentric coordinates, whatever the scale of the homogeneous costs."""
    x, y = a / a.sum(), b / b.sum()
    if np.abs(x - y).max() < 1e-3:
        return
    v = x + t * (y - x)
    assert plain("share_along")(3.0 * v, 5.0 * a, 0.1 * b) == pytest.approx(t, abs=1e-9)


@given(costs, costs, st.floats(0.1, 10.0))
def test_apart_is_symmetric_and_knows_no_scale(a, b, s):
    apart = plain("_distance")
    assert apart(a, b) == pytest.approx(apart(s * b, a), rel=1e-12, abs=1e-15)
    assert apart(a, s * a) < 1e-15
    assert 0 <= apart(a, b) <= 1


# ----------------------------------------------------------------------------------------------------------------------
# Edges without length


def test_vertices_vanish_into_a_corner_with_the_jitter():
    old = np.array([[4e-13, 1.0, 2e-13], [4e-13, 1.0, 0.5]])
    new = old * [[LESS, 1, LESS], [LESS, 1, 1]]
    assert [is_in_corner(old, new, 0, c) for c in range(3)] == [False, True, False]
    assert not any(is_in_corner(old, new, 1, c) for c in range(3))  # on an axis, but in no corner
    assert not is_in_corner(old, old, 0, 1)  # there without jitter too


def test_vertices_vanish_into_a_corner_up_to_rounding():
    """An entry of second order in the jitter: what is left of it is rounding of the other, and does not shrink."""
    old = np.array([[4e-13, 1.0, 1e-27], [4e-13, 1.0, 1e-20]])
    new = old * [LESS, 1, 1]
    assert is_in_corner(old, new, 0, 1)
    assert not is_in_corner(old, new, 1, 1)


def is_in_corner(old, new, i, c):
    """Is vertex i, without jitter, the corner of the triangle of costs where only entry c is left?"""
    return plain("_are_zero", ties)(precise(old), precise(new), i, (c + 1) % 3, (c + 2) % 3)


def precise(corners):
    """Corners that doubles know exactly, in double-double."""
    return DoubleDoubles(corners, np.zeros_like(corners), np.zeros_like(corners))


@entry
def _no_length(old, new, nothing):
    return ties._has_no_length(old, new, 0, 1, nothing)


def has_no_length(a, b, moved_a, moved_b):
    """Is the edge from a to b, two vertices without jitter and what it adds to them, one point?"""
    corners = [np.array([a + share * moved_a, b + share * moved_b]) for share in (1.0, LESS)]
    largest_is_one = [part / part.max(axis=1, keepdims=True) for part in corners]
    return _no_length(*map(precise, largest_is_one), ties.NOTHING * JITTER)


jitters = st.tuples(*[st.floats(-1.0, 1.0)] * 3).map(lambda t: 1e-13 * np.array(t))


@given(costs, jitters, jitters)
def test_an_edge_made_by_the_jitter_has_no_length(a, moved_a, moved_b):
    assert has_no_length(a, a, moved_a, moved_b)


@given(costs, jitters, jitters, st.integers(0, 2), st.floats(1e-11, 1.0))
def test_an_edge_of_the_data_has_a_length(a, moved_a, moved_b, c, length):
    """However short: if one ratio of two costs is not the same at both ends, but for less than a jitter."""
    b = a * np.where(np.arange(3) == c, 1.0 + 100 * length, 1.0)
    assert not has_no_length(a, b, moved_a, moved_b)


@given(costs, st.lists(st.integers(-2, 2), min_size=3, max_size=3))
def test_an_edge_of_rounding_has_no_length(a, steps):
    """Ends that the jitter does not move, and that are as far apart as the rounding of the data makes them."""
    assert has_no_length(a, a * (1.0 + 2.0**-52 * np.array(steps)), np.zeros(3), np.zeros(3))


def test_an_edge_within_a_corner_has_no_length():
    """Both ends vanish into one corner of the triangle, where the ratio of what vanishes says nothing."""
    for c in range(3):
        corner, one, other = (np.roll(entries, c) for entries in ([1.0, 0, 0], [0, 4e-13, 2e-13], [0, 1e-13, 7e-13]))
        assert has_no_length(corner, corner, one, other)
        assert not has_no_length(corner, corner + 8 * other, one, other)  # on the same line, but in no corner


# ----------------------------------------------------------------------------------------------------------------------
# Facets as sets of pieces


def walk(start, codes):
    """Partitions, each once, on the way from a first one over the lines of some codes; the codes that were crossed."""
    states, crossed_codes = [start], [-1]
    for code in codes:
        allowed = states[-1][code >> 1] in (MARGIN, INSIDE if code & 1 else OUTSIDE)
        if allowed and not any(np.array_equal(crossed(states[-1], code), state) for state in states):
            states.append(crossed(states[-1], code))
            crossed_codes.append(code)
    return np.array(states), crossed_codes


def split_of(start, flips):
    """A map of jittered data, as far as its partitions go: each piece is the parent of the next."""
    mesh = Mesh(*[np.empty(0)] * len(Mesh._fields))._replace(facet_parent=np.arange(-1, len(flips) - 1, dtype=np.int32))
    flips = np.array([[code, -1] for code in flips], dtype=np.int32)
    return Split(mesh, flips, np.zeros(len(flips), dtype=np.int8), start)


def true_states(split, facets, which):
    return canonical._true_states(split, facets.piece, facets.tied_at, facets.tied, which)


@given(st.data())
def test_pieces_of_one_partition_are_one_facet(data):
    """Those that were looked at by what they are without jitter, the others by what they are; ties are in no facet."""
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    n, words = 3, make_words(3, rng)
    codes = data.draw(st.lists(st.integers(0, 2 * n - 1), max_size=25))
    states, flips = walk(np.full(n, INSIDE, dtype=np.int8), codes)
    truth, tie, looked_at = states.copy(), rng.random(len(states)) < 0.2, rng.random(len(states)) < 0.4
    truth[(rng.random(states.shape) < 0.4) & looked_at[:, None]] = MARGIN
    looked = looked_at_pieces(np.flatnonzero(looked_at & ~tie), states, truth, words)
    split = split_of(states[0], flips)
    facets, group = canonical._group(split, words, looked, tie)
    assert np.all((group == -1) == tie)
    true = np.flatnonzero(~tie)
    same = np.all(truth[true, None] == truth[None, true], axis=2)
    np.testing.assert_array_equal(group[true, None] == group[None, true], same)
    np.testing.assert_array_equal(true_states(split, facets, group[true].astype(np.intp)), truth[true])
    np.testing.assert_array_equal(group[facets.piece], np.arange(facets.piece.size))
    for f, members in enumerate(np.split(facets.members, facets.member_at[1:-1])):
        assert members.tolist() == np.flatnonzero(group == f).tolist()


def looked_at_pieces(pieces, states, truth, words):
    """What some pieces are without jitter."""
    tied = [np.flatnonzero(states[f] != truth[f]) for f in pieces]
    key = np.array([key_of(truth[f], words) for f in pieces], dtype=np.uint64)
    at = np.cumsum([0, *map(len, tied)])
    return canonical._Looked(pieces, key, at, np.array(list(chain(*tied)), dtype=np.int32))


# ----------------------------------------------------------------------------------------------------------------------
# Lists


states = st.lists(st.sampled_from([OUTSIDE, INSIDE, MARGIN]), min_size=90, max_size=90)


@given(states, states)
def test_differences_are_all_moves_the_largest_code_first(a, b):
    """Of more points than there is room for at first; one that goes from inside to outside has both codes."""
    pairs = np.array([[a, b], [b, a], [a, a]], dtype=np.int8)
    at, codes = canonical._differences(pairs[:, 0], pairs[:, 1])
    for n, (x, y) in enumerate(pairs):
        expected = []
        for i in range(89, -1, -1):
            sets = {x[i], y[i]} if x[i] != y[i] else set()
            expected += [2 * i + 1] * (INSIDE in sets) + [2 * i] * (OUTSIDE in sets)
        assert codes[at[n] : at[n + 1]].tolist() == expected
        assert expected == sorted(expected, reverse=True)


lists_of_codes = st.lists(st.lists(st.integers(0, 99), max_size=4), min_size=1, max_size=8)


def in_a_row(lists):
    """Lists in one array, and where each begins."""
    return np.cumsum([0, *map(len, lists)]), np.array(list(chain(*lists)), dtype=np.int32)


@given(lists_of_codes, st.data())
def test_take_takes_lists_by_number(lists, data):
    which = data.draw(st.lists(st.integers(0, len(lists) - 1), max_size=10))
    new, taken = take_lists(*in_a_row(lists), np.array(which, dtype=np.int32))
    assert [part.tolist() for part in np.split(taken, new[1:])[:-1]] == [lists[k] for k in which]
    assert (new[0], new[-1]) == (0, taken.size)


def test_take_where_there_are_no_lists():
    new, taken = take_lists(*in_a_row([]), np.empty(0, dtype=np.int32))
    assert (new.tolist(), taken.tolist()) == ([0], [])


@given(st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=4, unique=True), max_size=8))
def test_events_are_those_of_joint_edges_and_the_codes_of_all_others(lists):
    """The code of an edge is the first of its events; more are kept only of edges that have more."""
    lists = [sorted(codes, reverse=True) for codes in lists]
    joint = [e for e, codes in enumerate(lists) if len(codes) > 1]
    nothing = canonical.untied(split_of(np.zeros(0, dtype=np.int8), [-1]))
    mesh = nothing.mesh._replace(edge_code=np.array([codes[0] for codes in lists], dtype=np.int32))
    at, codes = in_a_row([lists[e] for e in joint])
    known = nothing._replace(mesh=mesh, joint=np.array(joint, dtype=np.int32), joint_at=at, joint_code=codes)
    assert [part.tolist() for part in known.events()] == [part.tolist() for part in in_a_row(lists)]


def test_pairs_are_edges_that_both_facets_have():
    """Three facets around a vertex; what one of them says alone has no twin."""
    at, beyond = np.array([0, 3, 5, 8]), np.array([1, 2, -1, 0, 2, -2, 0, 1])
    twin = rings._pair(at, beyond)
    assert twin.tolist() == [3, 6, -1, 0, 7, -1, 1, 4]
    alone = beyond.copy()
    alone[3] = -3  # facet 1 no longer has the edge to facet 0
    assert rings._pair(at, alone).tolist() == [-1, 6, -1, -1, 7, -1, 1, 4]


def test_edges_that_one_facet_has_alone_are_left_out():
    at, beyond = np.array([0, 3, 5, 8]), np.array([1, 2, -1, -3, 2, -2, 0, 1])
    numbers = np.arange(8)
    left, twin = rings.paired(rings.Rings(at, beyond, numbers, numbers, numbers, numbers))
    assert left.at.tolist() == [0, 2, 4, 7]
    assert left.event.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert twin.tolist() == [5, -1, -1, 6, -1, 0, 3]


def test_joined_corners_stand_where_zeros_are():
    """Two triangles with an edge in common, whose ends were found twice: one vertex each, that on the axis if one is."""
    vertices = np.array([[1.0, 1, 1], [1.0, 0, 1], [1.0, 2, 1], [1.0, 1, 1.0], [1.0, 1e-15, 1], [2.0, 1, 1]])
    at = np.array([0, 3, 6])
    first, last = np.array([0, 4, 2, 1, 3, 5]), np.array([4, 2, 0, 3, 5, 1])
    twin = np.array([3, -1, -1, 0, -1, -1])
    one = rings.join_corners(vertices, at, twin, first, last)
    assert one[0] == one[3] in (0, 3)
    assert one[[1, 2, 4, 5]].tolist() == [1, 2, 1, 5]
