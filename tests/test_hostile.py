"""Hostile maps: right by their own duality gap on the given rows, or refused with a clear error.

The environment variable SVMATLAS_HOSTILE is the number of maps, 300 if it is not set; SVMATLAS_HOSTILE_FROM the first seed.
"""

from __future__ import annotations

import os
from collections import Counter

import numpy as np
import pytest

import svmatlas
from tests import cases, hostile

FIRST = int(os.environ.get("SVMATLAS_HOSTILE_FROM", "0"))
COUNT = int(os.environ.get("SVMATLAS_HOSTILE", "300"))
PART = 50


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, PART))
def test_right_or_refused(first):
    outcomes = Counter(hostile.trial(seed) for seed in range(first, min(first + PART, FIRST + COUNT)))
    assert outcomes["right"] + outcomes["right, partial"] > 0.5 * outcomes.total(), outcomes  # most are not refused


@pytest.mark.parametrize("seed", [801582, 802134, 804204, 804785])
def test_polynomial_kernels_of_rows_that_are_nearly_equal_or_vanish(seed):
    """Rows 1e-12 apart, which single combinations of them tell apart; rows of zeros, or whose products are too small."""
    hostile.trial(seed)


@pytest.mark.parametrize("seed", [827339, 828271])
def test_polynomial_kernels_of_rows_whose_ratios_are_out_of_range(seed):
    """Lengths of rows whose ratio is no double, and alpha beyond all doubles."""
    hostile.trial(seed)


def test_the_measure_finds_wrong_models():
    X, y = cases.gaussian(6, 6, 2, 0.5)
    atlas = svmatlas.explore(X, y)
    answer = atlas.coef(2, 1), atlas.intercept(2, 1), atlas.alpha(2, 1)
    assert hostile.gap(X, y, np.ones(12), 1.0, 2, 1, *answer) < 1e-12
    assert hostile.gap(X, y, np.ones(12), 1.0, 2, 1, answer[0] * (1 + 1e-2), *answer[1:]) > hostile.RIGHT
    assert hostile.gap(X, y, np.ones(12), 1.0, 2, 1, *answer[:2], 0.99 * answer[2]) > hostile.RIGHT


# ----------------------------------------------------------------------------------------------------------------------
# The gate


def test_a_part_of_a_map_may_have_nothing_but_ties():
    """Three pieces without area, of rows that differ in scale by 1e11 beside a large bias: they were united for ever."""
    assert hostile.trial(3001087) == "right, partial"


def spans(low, high, seed=0):
    """Data whose entries are of sizes between these powers of ten."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(10, 3)) * 10.0 ** rng.uniform(low, high, (10, 3)), np.arange(10) % 2


def gap_or_refusal(X, y, bias):
    try:
        return svmatlas.AsymmetricSVC(bias=bias).fit(X, y).duality_gap_
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("low", "high"), [(0, 300), (-300, 0), (-160, 160), (0, 60)])
def test_entries_of_hopeless_scales_are_an_error(low, high, seed):
    X, y = spans(low, high, seed)
    for bias in (0.0, 1.0):
        for fit in (svmatlas.explore, svmatlas.ray):
            with pytest.raises(ValueError, match="standardise"):
                fit(X, y, bias=bias)
        result = gap_or_refusal(X, y, bias)  # one model may be found without all that is around it
        assert "standardise" in result if isinstance(result, str) else result < 1e-9


@pytest.mark.parametrize("scale", [1e-140, 1e-60, 1e60, 1e140])
def test_a_common_scale_is_taken_out(scale):
    X, y = cases.gaussian(8, 8, 2, 0.5)
    plain, scaled = svmatlas.explore(X, y, bias=0.0), svmatlas.explore(scale * X, y, bias=0.0)
    assert scaled.n_facets == plain.n_facets
    assert scaled.validate().ok
    for C_pos, C_neg in ((1.0, 2.0), (0.1, 10.0), (np.inf, np.inf)):
        other = scaled.coef(C_pos / scale**2, C_neg / scale**2)
        np.testing.assert_allclose(other * scale, plain.coef(C_pos, C_neg), rtol=1e-9)


def test_infinite_costs_are_warned_of_as_finite_ones_are():
    """Weights are lengthened so that rounding leaves no loss; where columns have a large offset that is more than 1e-9."""
    X, y = np.random.default_rng(0).normal(size=(12, 70)), np.arange(12) % 2
    svmatlas.explore(X, y, max_facets=3000).coef(np.inf, np.inf)
    far = svmatlas.explore(X + 1e7, y, max_facets=3000)
    for cost in (1.0, np.inf):
        with pytest.warns(svmatlas.AccuracyWarning, match="standardise"):
            far.coef(cost, cost)


def test_weights_of_hopeless_scales_are_an_error():
    X, y = cases.gaussian(4, 4, 2, 0.5)
    with pytest.raises(ValueError, match="sample_weight: the weights of rows differ"):
        svmatlas.explore(X, y, sample_weight=10.0 ** np.linspace(-300, 300, 8))
    assert svmatlas.explore(X, y, sample_weight=np.full(8, 1e280)).validate().ok
    with pytest.warns(svmatlas.AccuracyWarning, match="sample_weight"):
        atlas = svmatlas.explore(X, y, sample_weight=10.0 ** np.linspace(-12, 12, 8))
    assert atlas.validate().ok


def test_bounds_beyond_the_range_of_doubles_are_an_error():
    X, y = cases.gaussian(4, 4, 2, 0.5)
    with pytest.raises(ValueError, match=r"region: a bound of 1e\+300 is out of range.*use 0 or infinity"):
        svmatlas.explore(X, y, region=((0, 1e300), (0, 1)))
    with pytest.raises(ValueError, match="out of range"):
        svmatlas.explore(1e100 * X, y, bias=0.0, region=((0, 1), (0, 1)))
    with pytest.raises(ValueError, match="dual variables at a cost of 1e\\+300 are out of range"):
        svmatlas.explore(np.vstack([X, X]), np.r_[y, 1 - y], sample_weight=np.full(16, 1e12)).alpha(1e300, 1e300)


@pytest.mark.filterwarnings("ignore:columns of X and the bias differ in scale")
def test_rows_whose_rank_doubles_do_not_know_are_the_data_s_fault():
    """A condition of 1e18: what breaks off says what to do."""
    X = np.array([[75.7368888, 75.737069, 75.736775], [6.42193989e-3, 6.42192152e-3, 6.42192535e-3], [1.75011763e14] * 3])
    X[2, 1:] -= 7e7, 9e7
    with pytest.raises(ValueError, match="standardise"):
        svmatlas.explore(X, [0, 0, 1], random_state=46)
