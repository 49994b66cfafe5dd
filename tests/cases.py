"""Data sets that are hard on purpose, by name. Each is a function of nothing that returns (X, y)."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.preprocessing import StandardScaler


def gaussian(n_pos, n_neg, d, shift, seed=0):
    rng = np.random.default_rng(seed)
    y = np.r_[np.ones(n_pos, dtype=int), np.zeros(n_neg, dtype=int)]
    return rng.normal(size=(n_pos + n_neg, d)) + shift * y[:, None], y


def few_rows_many_columns():
    """Experiment (i) of the paper."""
    return gaussian(25, 25, 10**6, 0.01)


def many_rows_two_columns():
    """Experiment (ii) of the paper."""
    return gaussian(50, 50, 2, 1.0)


def as_many_columns_as_rows():
    """Experiment (iii) of the paper."""
    return gaussian(50, 50, 100, 0.2)


def sparse_histograms():
    """Experiment (iv) of the paper, with features made up: its part-model features were not published."""
    rng = np.random.default_rng(4)
    X, y = np.zeros((50, 10**5)), np.r_[np.ones(10, dtype=int), np.zeros(40, dtype=int)]
    for row in X:
        row[rng.choice(row.size, 2000, replace=False)] = 0.2 * rng.random(2000)
    return X, y


def binary():
    rng = np.random.default_rng(1)
    return rng.integers(0, 2, size=(100, 8)).astype(float), rng.integers(0, 2, 100)


def lattice():
    rng = np.random.default_rng(2)
    X = np.array([(i, j) for i in range(7) for j in range(7)], dtype=float)
    return X, (X @ [1, 2] + 3 * rng.normal(size=49) > 9).astype(int)


def one_hot():
    rng = np.random.default_rng(3)
    X = np.hstack([np.eye(6)[rng.integers(0, 6, 60)], np.eye(4)[rng.integers(0, 4, 60)]])
    return X, rng.integers(0, 2, 60)


def segments(seed, n=200):
    """A display of seven segments, one in ten of them wrong, and whether it is to show a 1: few rows, each many times."""
    digits = ["1110111", "0010010", "1011101", "1011011", "0111010", "1101011", "1101111", "1010010", "1111111", "1111011"]
    random = np.random.default_rng(seed)
    digit = random.integers(0, 10, n)
    on = np.array([[int(segment) for segment in digits[k]] for k in digit])
    return np.where(random.random(on.shape) < 0.1, 1 - on, on).astype(float), (digit == 1).astype(int)


def every_row_three_times():
    X, y = gaussian(10, 10, 3, 0.5)
    return np.vstack([X, X, X]), np.tile(y, 3)


def both_labels():
    X, y = gaussian(10, 10, 3, 0.5)
    return np.vstack([X, X]), np.r_[y, 1 - y]


def decimals_of_low_rank(seed):
    """Random rows that are tied up to rounding, and a bias."""
    rng = np.random.default_rng(seed)
    n, d, _ = int(rng.integers(3, [12, 40, 160][rng.integers(0, 3)])), int(rng.integers(1, 8)), rng.integers(0, 8)
    X = (rng.integers(-2, 3, (n, 2)) @ rng.integers(-2, 3, (2, d + 4))) / [1, 10][rng.integers(0, 2)]
    y = rng.random(n) < [0.5, 0.2, 0.05][rng.integers(0, 3)]
    return X, y, [0.0, 1.0, 0.01][rng.integers(0, 3)]


def oxides(n=60, seed=2):
    """Shares of oxides in glass: eight columns that add up to nearly 100, beside an index with five digits."""
    rng = np.random.default_rng(seed)
    mean, spread = [13.3, 2.7, 1.45, 72.6, 0.5, 8.9, 0.17, 0.06], [0.8, 1.4, 0.5, 0.8, 0.65, 1.4, 0.5, 0.1]
    shares = mean + spread * rng.normal(size=(n, 8))
    shares = np.abs(shares) * (100 + 0.3 * rng.normal(size=(n, 1))) / np.abs(shares).sum(axis=1, keepdims=True)
    index, y = 1.518 + 0.003 * rng.normal(size=n), (rng.random(n) < 0.15).astype(int)
    return np.column_stack([np.round(index, 5), np.round(shares, 2)]), y


def standardised_oxides():
    X, y = oxides()
    return StandardScaler().fit_transform(X), y


def proteins(n=70, seed=24):
    """Scores of proteins, two decimals, beside two columns in which few rows differ: most of a class can be on the margin."""
    rng = np.random.default_rng(seed)
    scores = np.round(np.clip(rng.normal(0.5, 0.12, (n, 5)), 0, 1), 2)
    rare = [np.where(rng.random(n) < 0.02, 1.0, 0.5), np.where(rng.random(n) < 0.02, 0.83, 0.0)]
    y = (rng.random(n) < 0.12).astype(int)
    y[:2] = 0, 1
    return np.column_stack([scores, *rare]), y


def unscaled(n=40, seed=13):
    """A category, a yes or no, ages, incomes rounded to hundreds and a column with an offset, as they are."""
    rng = np.random.default_rng(seed)
    columns = [np.eye(3)[rng.integers(0, 3, n)], rng.random((n, 1)) < 0.4, np.round(rng.normal(40, 12, (n, 1)))]
    columns += [np.round(rng.lognormal(10, 0.6, (n, 1)), -2), np.round(1000 + 50 * rng.normal(size=(n, 1)))]
    return np.hstack(columns), (rng.random(n) < 0.3).astype(int)


def few_huge_values(n=60, seed=1):
    """Three-valued columns beside counts of which few are huge: standardised, ones beside 7e8 move scores by 1e-13."""
    rng = np.random.default_rng(seed)
    X, huge = np.column_stack([np.zeros((n, 2)), rng.integers(0, 3, size=(n, 4)) / 2]), rng.choice(n, 5, replace=False)
    X[:, 0] = rng.integers(0, 14, n) * (rng.random(n) < 0.5)
    X[huge, 0], X[huge[:3], 1], X[rng.integers(n), 1] = rng.integers(5000, 43000, 5), 1.0, 693375640.0
    return X, (X[:, 2:].sum(axis=1) + 0.7 * rng.normal(size=n) > 2.2).astype(int)


def one_positive():
    return gaussian(1, 29, 3, 0.0)


def one_feature():
    return gaussian(20, 20, 1, 1.0)


def separable():
    return gaussian(20, 20, 3, 10.0)


def iris():
    """Two overlapping classes, decimals as they are."""
    X, y = load_iris(return_X_y=True)
    return X[50:], y[50:]


def breast_cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def goldfarb(d=4):
    """After Gärtner, Jaggi and Maria (2012): the polar dual of a Goldfarb cube, stretched, against two points.

    The shadow of the cube in its last two coordinates has all 2^d corners, so the section of its dual by that plane has 2^d
    edges; a point that moves around in the plane is nearest to each of them in turn.
    """
    normals, offsets = goldfarb_cube(d)
    centre = np.full(d, 0.5)
    dual = normals / (offsets - normals @ centre)[:, None]
    stretched = dual * np.r_[np.full(d - 2, 100.0), 1.0, 1.0]
    reach = 3 * np.abs(stretched[:, -2:]).max()
    others = np.zeros((2, d))
    others[:, -2:] = [[-reach, reach], [reach, reach]]
    return np.vstack([stretched, others]), np.r_[np.ones(2 * d, dtype=int), 0, 0]


def goldfarb_cube(d, epsilon=0.45, gamma=0.1):
    """Inequalities normals.x <= offsets of the cube, 4 gamma < epsilon < 1/2."""
    normals, offsets = [], []
    for k in range(d):
        tilt = np.zeros(d)
        if k >= 1:
            tilt[k - 1] = epsilon
        if k >= 2:
            tilt[k - 2] = -epsilon * gamma
        unit = np.eye(d)[k]
        normals += [tilt - unit, tilt + unit]
        offsets += [0.0, 1.0]
    return np.array(normals), np.array(offsets)


PAPER = [few_rows_many_columns, many_rows_two_columns, as_many_columns_as_rows, sparse_histograms]
TIED = [binary, lattice, one_hot, every_row_three_times, both_labels, one_positive, one_feature, separable, iris]
