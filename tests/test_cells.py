"""Cells from fragments: borders, neighbours and points, also where cells are as narrow as doubles can tell."""

from __future__ import annotations

import numpy as np
import pytest

from svmatlas.choose.arrangement import Box
from svmatlas.choose.cells import join, make_window
from svmatlas.choose.search import _make_cell


def fragment(corners, names, codes, key=7):
    """A convex fragment with nothing inside it; costs (C+, C-)."""
    corners = np.column_stack([corners, np.ones(len(corners))])
    none = np.empty(0)
    return Box(
        corners, np.array(names, dtype=np.uint64), np.array(codes, dtype=np.int64), none.reshape(0, 6),
        none.astype(np.int32), none.astype(np.int64), corners.mean(axis=0), none.astype(bool),
        np.zeros((2, 1), dtype=np.int64), np.array([key], dtype=np.uint64),
    )  # fmt: skip


def beside(width, height=1.0, key=7):
    """Two rectangles on both sides of the line C+ = 1, which has the name 5; the right one is lower by half."""
    left = [(1 - width, 1), (1, 1), (1, 1 + height), (1 - width, 1 + height)]
    right = [(1, 1), (1 + width, 1), (1 + width, 1 + height / 2), (1, 1 + height / 2)]
    return [
        fragment(left, [1, 2, 3, 4], [20, 10, 22, 24]),
        fragment(right, [2, 5, 6, 7], [20, 26, 28, 11], key),
    ]


@pytest.mark.parametrize("width", [0.5, 1e-9, 1e-12, 1e-15])
def test_one_fragment_is_a_cell_with_its_own_border(width):
    (part,) = join(beside(width)[:1])
    assert len(part.rings) == 1
    assert len(part.rings[0]) == 4


@pytest.mark.parametrize("width", [0.5, 1e-9, 1e-12, 1e-15])
def test_neighbours_with_the_same_predictions_are_one_cell(width):
    """The line between them is gone, as is the corner in the middle of the lower side: six corners are left."""
    (part,) = join(beside(width))
    assert len(part.rings) == 1
    expected = {(1 - width, 1), (1 + width, 1), (1 + width, 1.5), (1, 1.5), (1, 2), (1 - width, 2)}
    assert {tuple(corner[:2]) for corner in part.rings[0]} == expected


def test_neighbours_with_other_predictions_are_two_cells():
    assert len(join(beside(0.5, key=8))) == 2


def test_fragments_that_share_a_corner_only_are_two_cells():
    first, second = beside(0.5)
    low = [(1, 0.5), (1.5, 0.5), (1.5, 1), (1, 1)]
    assert len(join([first, fragment(low, [8, 9, 5, 2], [30, 32, 21, 11])])) == 2
    assert len(join([first, second, fragment(low, [8, 9, 5, 2], [30, 32, 21, 11])])) == 1


def test_a_ring_around_a_hole():
    """Nine squares without the one in the middle, cut by the lines C+ = 1, 2 and C- = 1, 2 (names 1 to 4)."""
    boxes = []
    for i, j in np.ndindex(3, 3):
        if (i, j) == (1, 1):
            continue
        corners = [(1 + i, 1 + j), (2 + i, 1 + j), (2 + i, 2 + j), (1 + i, 2 + j)]
        names = [10 * x + y for x, y in corners]
        vertical, horizontal = [-4, 2, 4, -2], [-1, 6, 8, -3]  # half 0 is left of and below a line
        codes = [horizontal[j] + (j > 0), vertical[i + 1], horizontal[j + 1], vertical[i] + (i > 0)]
        boxes.append(fragment(corners, names, codes))
    (part,) = join(boxes)
    assert [len(ring) for ring in part.rings] == [4, 4]
    assert {tuple(corner[:2]) for corner in part.rings[1]} == {(2, 2), (3, 2), (3, 3), (2, 3)}
    assert part.sides == {0, 1, 2, 3}


def test_a_corner_between_the_same_lines_is_one_corner():
    """The right rectangle knows the corner in the middle of the lower side by another name, and a little elsewhere."""
    left, right = beside(0.5)
    right.names[0] = 99
    right.corners[0, 1] += 1e-14
    (part,) = join([left, right])
    assert [len(ring) for ring in part.rings] == [6]


@pytest.mark.parametrize("width", [1e-3, 1e-9, 1e-12])
def test_a_narrow_cell_holds_its_center_and_nothing_beside_it(width):
    class Scores:
        def fold_scores(self, counts):
            return np.zeros((len(counts), 1))

    parts = join(beside(width)[:1])
    cell = _make_cell(Scores(), parts[0], make_window(parts, ((0.0, np.inf), (0.0, np.inf))), np.ones(4, dtype=bool))
    assert cell.contains(*cell.center)
    assert 1 - width < cell.center[0] < 1
    assert not cell.contains(1 + width / 4, 1.5)
    assert not cell.contains(1 - 1.25 * width, 1.5)
    assert cell.is_narrow == (width < 1e-8)
