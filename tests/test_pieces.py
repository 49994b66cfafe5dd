"""The kernels that put a map together from pieces, one by one."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svmatlas import canonical
from svmatlas.facet import INSIDE, MARGIN, OUTSIDE


def plain(name):
    """A kernel as the Python function that it is."""
    kernel = getattr(canonical, name)
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
    assert plain("_along")(3.0 * v, 5.0 * a, 0.1 * b) == pytest.approx(t, abs=1e-9)


@given(costs, costs, share)
def test_straight_is_on_one_line(a, b, t):
    c = b / b.sum() + (1.5 + abs(t)) * (b / b.sum() - a / a.sum())
    if np.any(c <= 0.01) or plain("_apart")(a, b) < 0.1:
        return
    canonical_straight = with_plain_helpers("_is_straight")
    assert canonical_straight(a, b, c)
    bent = c + 0.05 * np.cross(a, b) / np.linalg.norm(np.cross(a, b))
    assert not canonical_straight(a, b, np.abs(bent))


def with_plain_helpers(name):
    """The same with the kernels that it calls as Python functions too."""
    function = plain(name)
    return type(function)(function.__code__, {**function.__globals__, "_apart": plain("_apart")})


@given(costs, costs, st.floats(0.1, 10.0))
def test_apart_is_symmetric_and_knows_no_scale(a, b, s):
    apart = plain("_apart")
    assert apart(a, b) == pytest.approx(apart(s * b, a), rel=1e-12, abs=1e-15)
    assert apart(a, s * a) < 1e-15
    assert 0 <= apart(a, b) <= 1


def test_vertices_vanish_into_a_corner_with_the_jitter():
    old = np.array([[4e-13, 1.0, 2e-13, 0, 0, 0], [4e-13, 1.0, 0.5, 0, 0, 0]])
    new = old * [[1 / 32, 1, 1 / 32, 1, 1, 1], [1 / 32, 1, 1, 1, 1, 1]]
    vanishes = plain("_vanishes")
    assert [vanishes(old, new, 0, c) for c in range(3)] == [False, True, False]
    assert not any(vanishes(old, new, 1, c) for c in range(3))  # on an axis, but in no corner
    assert not vanishes(old, old, 0, 1)  # there without jitter too


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


@given(st.lists(st.lists(st.integers(0, 99), max_size=4), min_size=1, max_size=8), st.data())
def test_take_takes_lists_by_number(lists, data):
    at = np.cumsum([0, *map(len, lists)])
    values = np.array(list(chain(*lists)), dtype=np.int32)
    which = data.draw(st.lists(st.integers(-4, len(lists) - 1), max_size=10))
    new, taken = canonical._take(at, values, np.array(which, dtype=np.int32))
    expected = [lists[k] if k >= 0 else [k] for k in which]
    assert new.tolist() == np.cumsum([0, *map(len, expected)]).tolist()
    assert taken.tolist() == list(chain(*expected))


def test_take_where_there_are_no_lists():
    new, taken = canonical._take(np.zeros(1, np.intp), np.empty(0, np.int32), np.array([-1, -3], dtype=np.int32))
    assert (new.tolist(), taken.tolist()) == ([0, 1, 2], [-1, -3])


def test_pairs_are_edges_that_both_facets_have():
    """Three facets around a vertex; what one of them says alone has no twin."""
    at, beyond = np.array([0, 3, 5, 8]), np.array([1, 2, -1, 0, 2, -2, 0, 1])
    twin = canonical._pair(at, beyond)
    assert twin.tolist() == [3, 6, -1, 0, 7, -1, 1, 4]
    alone = beyond.copy()
    alone[3] = -3  # facet 1 no longer has the edge to facet 0
    assert canonical._pair(at, alone).tolist() == [-1, 6, -1, -1, 7, -1, 1, 4]


def test_edges_that_one_facet_has_alone_are_left_out():
    at, beyond = np.array([0, 3, 5, 8]), np.array([1, 2, -1, -3, 2, -2, 0, 1])
    numbers = np.arange(8)
    rings, twin = canonical._paired(canonical._Rings(at, beyond, numbers, numbers, numbers))
    assert rings.at.tolist() == [0, 2, 4, 7]
    assert rings.event.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert twin.tolist() == [5, -1, -1, 6, -1, 0, 3]


def test_joined_corners_stand_where_zeros_are():
    """Two triangles with an edge in common, whose ends were found twice: one vertex each, that on the axis if one is."""
    vertices = np.array([[1.0, 1, 1], [1.0, 0, 1], [1.0, 2, 1], [1.0, 1, 1.0], [1.0, 1e-15, 1], [2.0, 1, 1]])
    at = np.array([0, 3, 6])
    first, last = np.array([0, 4, 2, 1, 3, 5]), np.array([4, 2, 0, 3, 5, 1])
    twin = np.array([3, -1, -1, 0, -1, -1])
    one = canonical._join_corners(vertices, at, twin, first, last)
    assert one.tolist() == [0, 1, 2, 0, 1, 5]
