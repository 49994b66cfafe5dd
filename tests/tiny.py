"""Tiny data sets, tied in all ways, for the exact maps of canonical.py: (X, y, bias, weights), numbers exact in doubles."""

from __future__ import annotations

from random import Random


def lattice():
    """Seven points of a 3 x 3 lattice."""
    return [[0, 0], [1, 0], [0, 1], [1, 1], [2, 0], [2, 2], [0, 2]], [0, 0, 1, 1, 0, 1, 1], 1, None


def repeated_rows():
    return [[0, 1], [0, 1], [2, 0], [2, 0], [2, 0], [1, 3], [1, 1]], [1, 1, 0, 0, 0, 1, 0], 1, None


def one_hot():
    """Two and three categories: the columns of each sum to the bias column."""
    choices = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 0), (1, 1)]
    X = [[int(a == j) for j in range(2)] + [int(b == j) for j in range(3)] for a, b in choices]
    return X, [1, 1, 0, 0, 0, 1, 0, 1], 1, None


def both_labels():
    """Each point with both labels."""
    X = [[0, 1], [2, 0], [1, 3], [-1, 1]]
    return X + X, [0, 0, 1, 1, 1, 1, 0, 0], 1, None


def one_line():
    """Points on a line that does not pass through the origin."""
    return [[1 + 2 * t, t] for t in (-2, -1, 0, 1, 2, 3, 1)], [0, 0, 1, 0, 1, 1, 1], 1, None


def one_feature():
    """Whole classes lie on the margin over an area."""
    return [[-3], [-1], [0], [2], [-2], [1], [3], [4]], [0, 0, 0, 0, 1, 1, 1, 1], 1, None


def whole_weights():
    return [[0, 0], [1, 0], [0, 1], [1, 1], [2, 1], [2, 2]], [0, 0, 1, 1, 0, 1], 1, [1, 3, 2, 1, 2, 1]


def no_bias():
    """Rows of zeros are always inside."""
    return [[0, 0], [1, 0], [1, 1], [-1, 0], [2, 1], [0, 0]], [1, 1, 1, 0, 0, 0], 0, None


def touching():
    """Rows 0 and 3 reach the margin on a whole edge, and are inside it on both sides."""
    X = [[1, 2], [0, 1], [-2, -2]]
    return X + X, [0, 1, 0, 1, 0, 1], 0.25, None


def exchange():
    """Across an edge row 0 leaves the margin and row 2 enters it."""
    return [[0.5, -1], [1, -2], [0.5, 1.5], [0, 1.5], [-0.5, 2]], [0, 0, 1, 1, 0], 2, None


CASES = [
    lattice,
    repeated_rows,
    one_hot,
    both_labels,
    one_line,
    one_feature,
    whole_weights,
    no_bias,
    touching,
    exchange,
]


def random_ties(seed):
    """Up to eight rows of small numbers, some of them repeated with either label, perhaps with weights."""
    rng = Random(seed)
    d, bias, unit = rng.choice([1, 2, 2]), rng.choice([0, 0.25, 1, 1, 1, 2]), rng.choice([0.5, 1, 1])
    X = [[unit * rng.randint(-2, 2) for _ in range(d)] for _ in range(rng.randint(2, 8))]
    X = [*X, *rng.choices(X, k=rng.randint(0, 8 - len(X)))]
    y = [0, 1, *rng.choices([0, 1], k=len(X) - 2)]
    weights = rng.choice([None, rng.choices([0.5, 1, 3], k=len(X))])
    return X, y, bias, weights
