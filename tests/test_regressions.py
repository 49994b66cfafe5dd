"""Data on which an earlier version failed: smallest examples, kept."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

import svmatlas

inf = np.inf
CIRCLE = np.exp(2j * np.pi * np.array([4, 5, 3, 0, 4, 3, 1, 4, 2, 1]) / 6)
CIRCLE = np.column_stack([CIRCLE.real, CIRCLE.imag])

# (X, y, arguments, costs at which the duality gap is measured)
CASES = {
    "start_on_tie": ([[0], [1], [-1], [-2]], [1, -1, 1, -1], {"bias": 0.01, "start": (1 / 3, 0.25)}, []),
    "start_on_axis": ([[0.76], [0.14], [-0.65], [1.33]], [1, 1, 1, -1], {"bias": 0.01, "start": (0, 0.25)}, []),
    "walk_to_region": (
        [[-1], [1], [-1], [-2]], [1, -1, -1, -1], {"bias": 0.01, "region": ((0.1, 1 / 3), (0.25, 3))}, [(0.2, 1)],
    ),
    "located_nowhere": ([[-1], [1], [-2], [-2], [-1]], [1, 1, 1, 1, -1], {"bias": 100}, [(0, 0), (1e-9, 1e-9), (1e-6, 0)]),
    "held_by_ties_only": ([[1], [-1], [-2], [2], [2]], [1, 1, 1, 1, -1], {"bias": 1000}, [(5e-7, 0)]),
    "thin_region": ([[1], [-1]], [-1, 1], {"region": ((0, inf), (20, 20 * (1 + 2e-11)))}, [(1.16, 20)]),
    "tiny_region": ([[1], [1]], [-1, 1], {"bias": 0, "region": ((1, 1 + 1e-8), (1, 1 + 1e-8))}, [(1 + 5e-9, 1 + 3e-9)]),
    "ties_up_to_rounding": (CIRCLE, [-1, 1, 1, 1, -1, -1, -1, 1, -1, -1], {"bias": 0.01, "random_state": 2}, [(0, 2500)]),
    "rank_one_of_two": ([[0, 1], [0, 1]], [1, -1], {}, [(1, 2)]),
    "rank_one_of_three": ([[1, -2, -1], [1, -2, -1]], [1, -1], {}, [(1, 2), (1e6, 1e6)]),
    "few_rows_of_low_rank": (
        [[2, 0, 2, 1], [2, -2, -1, 0], [2, 0, 2, 1], [2, -2, -1, 0]], [1, 1, -1, -1], {"random_state": 2}, [(0, 1 / 13)],
    ),
    "equal_up_to_ulps": (
        [[1.272185823954233, -0.713093009621382], [2.2018273556190704, 0.7260894458715478],
         [2.201827355619071, 0.7260894458715484], [2.2018273556190695, 0.726089445871548]], [-1, -1, -1, 1], {}, [(1, 1)],
    ),
    "factored_rows": ([[0, 0.1], [0, 0]], [-1, 1], {"bias": 100}, [(200.00009999997508, 199.99999999998684)]),
    "factored_unit_rows": ([[1, 0], [0, 1]], [1, -1], {"bias": 100}, [(1, 1), (1e6, 1e3)]),
    "on_a_vertex": (
        [[-0.4], [1.1], [0.4], [-1.4]], [1, -1, 1, 1], {"bias": 0.01}, [(15714.285714288037, 5714.285714285745)],
    ),
    "nearly_equal_rows": (
        [[0, 1.000000002], [-1.000000002, -1e-9], [1.000000001, 1], [-0.999999998, 2e-9]], [1, -1, -1, -1], {},
        [(0, 0.2857306186323138)],
    ),
    "tiny_weights": ([[1], [-1]], [1, -1], {"sample_weight": [1e-160] * 2}, []),
    "huge_weights": ([[1], [-1]], [1, -1], {"sample_weight": [1e160] * 2}, []),
    "two_strips_to_one_point": ([[0], [0], [1]], [1, -1, -1], {"random_state": 1}, [(1, 1)]),
    "strips_to_one_point": ([[-2], [1], [0], [-2]], [1, -1, -1, -1], {"random_state": 2}, [(1, 1)]),
    "large_bias": ([[1.4], [0.1], [0]], [1, -1, -1], {"bias": 100}, [(1, 1)]),
    "pull_in_the_span": ([[2], [1], [1]], [-1, 1, -1], {}, [(1, 1)]),
    "balanced_pull": ([[-1], [1], [-1.5]], [-1, -1, 1], {"bias": 0}, [(1, 1)]),
    "true_but_thin": ([[0.999999999], [0.999999998], [-0.999999998], [-1.000000002]], [1, 1, -1, -1], {}, [(1, 1)]),
    "wide_with_both_labels": (np.eye(6)[[2, 2, 5, 0, 1]], [1, -1, 1, 1, -1], {}, [(1, 1)]),
    "wide_and_both_labels": (np.eye(5)[[0, 0, 4, 1, 2]], [1, -1, -1, 1, -1], {}, [(1, 1)]),
    "wide_large_bias": (np.eye(4)[[2, 2, 3, 1]], [1, -1, 1, -1], {"bias": 100}, [(1, 1)]),
    "tiny_costs": ([[1.0], [-1.0]], [1, -1], {"region": ((0, 1e-6), (0, 1))}, [(1e-6, 0.5)]),
    "wide_and_unscaled": ([[1e4, 0], [2e4, 0]], [1, -1], {}, [(1, 1)]),
    "wide_integers_of_low_rank": (  # rows with the same inner products up to rounding would not be tied at large costs
        np.array([[1, 0], [-1, 1], [-2, -1], [2, 0], [1, -1], [0, 0], [-1, -1]])
        @ [[0, 0, 0, 1, 2, -2, -1, -1, -2, 2, 0, -1, -2, 0], [-2, -2, 1, -2, -1, 0, 0, -1, -2, -2, 0, -2, -1, -2]],
        [1, -1, 1, 1, -1, -1, -1], {}, [(473188.16, 897129.74), (1e6, 1e6)],
    ),
    "tied_decimals_of_low_rank": (  # lines that are tied up to rounding meet at costs of 1e48
        [[0, -0.9, -0.9, 2.7, -1.8], [0, 0.9, 1.8, -1.8, 1.8], [0, 2.7, 3.6, -7.3, 5.4], [1.8, 0.9, 0, 0, 0],
         [-1.8, 0.9, 4.5, -2.7, 3.6], [0, -1.8, -1.8, 5.4, -3.6], [0, 0.9, 2.7, -0.9, 1.8], [0, 0.9, 0.9, -2.7, 1.8],
         [1.8, 1.8, 1.8, -1.8, 1.8], [-1.8, 0.9, 2.7, -4.5, 3.6], [-3.6, 0, 5.4, -1.8, 3.6]],
        [-1, 1, -1, -1, -1, -1, -1, -1, -1, -1, 1], {"bias": 0}, [(1, 1), (1e6, 1e5)],
    ),
    "wide_and_close": ([[1000, 0], [1001, 0]], [1, -1], {}, [(100, 100)]),
}  # fmt: skip


WARNED = ("thin_region", "tiny_region", "true_but_thin", "nearly_equal_rows")
"""There the jitter moves corners."""


@pytest.mark.parametrize("name", CASES)
def test_valid_and_optimal(name, gap):
    X, y, arguments, costs = CASES[name]
    X, y = np.array(X, dtype=float), np.array(y)
    with pytest.warns(svmatlas.AccuracyWarning) if name in WARNED else nullcontext():
        atlas = svmatlas.explore(X, y, **arguments)
    report = atlas.validate()
    assert report.ok, str(report)
    for C_pos, C_neg in costs:
        solution = atlas.coef(C_pos, C_neg), atlas.intercept(C_pos, C_neg), atlas.alpha(C_pos, C_neg)
        if C_pos == C_neg == 0:
            assert not solution[0].any()
        else:
            assert abs(gap(X, y, C_pos, C_neg, *solution, bias=arguments.get("bias", 1.0))) < 1e-9


def test_scales_beyond_hope_are_an_error():
    X = np.random.default_rng(0).integers(-2, 3, (8, 2)) * 1e50
    with pytest.raises(ValueError, match="standardise the features"):
        svmatlas.explore(X, [1, -1] * 4)


@pytest.mark.parametrize("scale", [1e-6, 1e-4, 1e-2, 1, 1e4, 1e8])
def test_gaussian_data_of_any_scale(scale):
    rng = np.random.default_rng(int(-np.log10(scale)) + 20)
    for n in (4, 7, 11):
        report = svmatlas.explore(scale * rng.normal(size=(n, 2)), np.arange(n) % 2).validate()
        assert report.ok, str(report)
