"""Columns have names, by which they are matched, and units, in which all queries take and give."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import svmatlas
from svmatlas import AsymmetricSVC, AtlasSVC
from svmatlas.data.columns import column_names, match_names, standardize_columns
from tests import cases

X, Y = cases.gaussian(9, 11, 3, 0.5)
X = X * [1, 1000, 0.01] + [0, 5000, -3]
COSTS = [0.1, 0.3, 1.0], [0.1, 0.3, 1.2]


def frame(kind, columns):
    return {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}[kind](columns)


def named(kind, order="abc", **others):
    return frame(kind, others | {name: X[:, "abc".index(name)] for name in order})


@pytest.fixture(scope="module")
def atlas():
    return svmatlas.explore(named("pandas"), Y)


@pytest.fixture(scope="module")
def scaled():
    return svmatlas.explore(X, Y, standardize=True, feature_names=["a", "b", "c"])


# ----------------------------------------------------------------------------------------------------------------------
# Names


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_columns_are_matched_by_name(atlas, kind):
    expected = atlas.decision_function(X, *COSTS)
    assert svmatlas.explore(named(kind), Y).columns.names == ("a", "b", "c")
    np.testing.assert_array_equal(atlas.decision_function(named(kind), *COSTS), expected)
    np.testing.assert_array_equal(atlas.decision_function(named(kind, "cab"), *COSTS), expected)
    more = named(kind, "bca", index=list(range(20)), who=["text"] * 20)
    np.testing.assert_array_equal(atlas.decision_function(more, *COSTS), expected)
    with pytest.raises(ValueError, match="no column 'b', 'c'; the columns are 'index', 'a'"):
        atlas.decision_function(named(kind, "a", index=list(range(20))), 1, 1)


def test_columns_of_one_name_are_an_error_if_they_are_wanted(atlas):
    twice = pd.DataFrame(np.column_stack([X, X]), columns=["a", "b", "c", "b", "x", "x"])
    with pytest.raises(ValueError, match=r"more than one column 'b'$"):
        atlas.decision_function(twice, 1, 1)
    others = pd.DataFrame(np.column_stack([X, X]), columns=["a", "b", "c", "x", "x", "x"])
    np.testing.assert_array_equal(atlas.decision_function(others, *COSTS), atlas.decision_function(X, *COSTS))


def test_columns_may_have_the_names_of_methods():
    names = ["select", "column_names", "columns"]
    atlas = svmatlas.explore(pd.DataFrame(X, columns=names), Y)
    assert atlas.columns.names == tuple(names)
    turned = pd.DataFrame(X[:, ::-1], columns=names[::-1])
    np.testing.assert_array_equal(atlas.decision_function(turned, *COSTS), atlas.decision_function(X, *COSTS))


def test_names_that_occur_twice_in_the_map_have_to_be_in_its_order():
    assert match_names(["a", "b", "a"], ["a", "b", "a"]) == [0, 1, 2]
    for given in (["a", "a", "b"], ["b", "a"]):
        with pytest.raises(ValueError, match="more than one column 'a'"):
            match_names(["a", "b", "a"], given)


@pytest.mark.parametrize("rows", [X[:, :2], np.column_stack([X, X[:, 0]]), sp.csr_array(X[:, :2]), pd.DataFrame(X[:, :2])])
def test_rows_without_names_need_the_right_number_of_columns(atlas, rows):
    with pytest.raises(ValueError, match=rf"X has {rows.shape[1]} features, but the atlas was made with 3"):
        atlas.decision_function(rows, 1, 1)


def test_names_against_a_map_without_names(atlas):
    plain = svmatlas.explore(X, Y)
    assert plain.columns.names is None
    np.testing.assert_array_equal(plain.decision_function(named("pandas"), 1, 1), atlas.decision_function(X, 1, 1))
    with pytest.raises(ValueError, match="X has 4 features, but the atlas was made with 3"):
        plain.decision_function(named("pandas", d=Y), 1, 1)


def test_what_has_names():
    assert column_names(X) is None
    assert column_names(sp.csr_array(X)) is None
    assert column_names(pd.DataFrame(X)) is None  # numbers, as in scikit-learn
    assert column_names(pd.DataFrame(X, columns=["a", 1, "c"])) is None
    for wrong in (["a", "b"], ["a", "b", 3]):
        with pytest.raises(ValueError, match="feature_names must be 3 strings"):
            svmatlas.explore(X, Y, feature_names=wrong)


def test_a_classifier_knows_the_names(atlas):
    model = atlas.estimator(1.0, 1.2)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(model.decision_function(named("pandas")), atlas.decision_function(X, 1, 1.2))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(named("pandas", "cab"))
    assert AtlasSVC().fit(named("pandas"), Y).atlas_.columns.names == ("a", "b", "c")
    assert next(svmatlas.tiles(named("pandas"), Y)).columns.names == ("a", "b", "c")


# ----------------------------------------------------------------------------------------------------------------------
# Units


def test_a_standardized_map_is_that_of_standardized_rows(scaled):
    Z = StandardScaler().fit_transform(X)
    plain = svmatlas.explore(Z, Y)
    np.testing.assert_array_equal(scaled.vertices, plain.vertices)
    np.testing.assert_array_equal(scaled.alpha(*COSTS), plain.alpha(*COSTS))
    np.testing.assert_allclose(scaled.decision_function(X, *COSTS), plain.decision_function(Z, *COSTS), rtol=1e-12)


def test_all_queries_are_in_the_units_of_the_rows(scaled, tmp_path):
    scaled.save(tmp_path / "map")
    for atlas in (scaled, svmatlas.load(tmp_path / "map")):
        expected = atlas.decision_function(X, *COSTS)
        values = atlas.coef(*COSTS) @ X.T + atlas.intercept(*COSTS)[:, None]
        np.testing.assert_allclose(values, expected, atol=1e-9)
        facet = atlas.facet(atlas.locate(1.0, 1.2))
        costs = np.array([1.0, 1.2, 1.0])
        np.testing.assert_allclose(costs @ facet.coef @ X.T + costs @ facet.intercept, expected[2], atol=1e-9)
        np.testing.assert_allclose(atlas.estimator(1.0, 1.2).decision_function(named("pandas")), expected[2], atol=1e-9)
        np.testing.assert_array_equal(atlas.decision_function(named("polars", "bca"), *COSTS), expected)
        np.testing.assert_array_equal(atlas.decision_function(sp.csr_array(X), *COSTS), expected)
        assert atlas.validate(n_costs=50).ok


def test_what_notes_say_has_no_effect(scaled, tmp_path):
    plain = svmatlas.explore(X, Y)
    plain.notes.update(names=["c", "b", "a"], mean=[1.0, 2.0, 3.0], scale=[1.0, 2.0, 3.0])
    plain.save(tmp_path / "map")
    loaded = svmatlas.load(tmp_path / "map")
    assert loaded.notes == plain.notes
    np.testing.assert_array_equal(loaded.decision_function(X, *COSTS), svmatlas.explore(X, Y).decision_function(X, *COSTS))


def test_a_classifier_of_a_standardized_map_can_be_fitted_again(scaled):
    model = scaled.estimator(1.0, 1.2)
    again = make_pipeline(StandardScaler(), AsymmetricSVC(1.0, 1.2)).fit(named("pandas"), Y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    for other in (again, clone(model).fit(named("pandas"), Y)):
        np.testing.assert_allclose(model.decision_function(named("pandas")), other.decision_function(named("pandas")))
        np.testing.assert_allclose(model[-1].coef_, other[-1].coef_)
    np.testing.assert_array_equal(model.predict(named("pandas")), again.predict(named("pandas")))


def test_tiles_and_estimates_of_a_standardized_map(scaled):
    region = ((0.5, 1.5), (0.5, 1.5))
    for tile in svmatlas.tiles(X, Y, standardize=True, region=region):
        costs = tile.region[0][0], tile.region[1][0]
        np.testing.assert_allclose(tile.decision_function(X, *costs), scaled.decision_function(X, *costs), atol=1e-9)
    whole, plain = svmatlas.estimate(X, Y, standardize=True), svmatlas.estimate(X, Y)
    assert whole.n_pieces == svmatlas.estimate(StandardScaler().fit_transform(X), Y).n_pieces != plain.n_pieces


def test_the_scaling_cannot_be_changed(scaled):
    with pytest.raises(ValueError, match="read-only"):
        scaled.columns.scale[0] = 1.0
    with pytest.raises(AttributeError):
        scaled.columns.names = None


def test_kernels_of_standardized_rows(tmp_path):
    atlas = svmatlas.explore(X, Y, kernel="rbf", standardize=True)
    Z = StandardScaler().fit_transform(X)
    plain = svmatlas.explore(Z, Y, kernel="rbf")
    np.testing.assert_allclose(atlas.decision_function(X, *COSTS), plain.decision_function(Z, *COSTS), rtol=1e-9)
    np.testing.assert_allclose(atlas.intercept(*COSTS), plain.intercept(*COSTS), rtol=1e-9)
    np.testing.assert_allclose(atlas.estimator(1.0, 1.2).decision_function(X), plain.decision_function(Z, 1, 1.2), rtol=1e-9)
    with pytest.raises(ValueError, match="precomputed kernel cannot be standardised"):
        svmatlas.explore(X @ X.T, Y, kernel="precomputed", standardize=True)


def test_sparse_rows_keep_their_zeros():
    rows = np.where(np.abs(X - [0, 5000, -3]) > [0.3, 300, 0.003], X, 0.0)
    atlas = svmatlas.explore(sp.csr_array(rows), Y, standardize=True)
    Z = StandardScaler(with_mean=False).fit_transform(rows)
    assert atlas.columns.center is None
    np.testing.assert_allclose(atlas.columns.standardized(sp.csr_array(rows)).toarray(), Z, rtol=1e-12)
    np.testing.assert_array_equal(atlas.decision_function(rows, 1, 2), atlas.decision_function(sp.csr_array(rows), 1, 2))
    np.testing.assert_allclose(rows @ atlas.coef(1, 2) + atlas.intercept(1, 2), atlas.decision_function(rows, 1, 2), atol=1e-9)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_a_weight_of_two_is_a_repeated_row(form):
    weight = np.arange(20) % 3
    once = standardize_columns(form(X), weight.astype(float))
    repeated = standardize_columns(form(np.repeat(X, weight, axis=0)), np.ones(weight.sum()))
    np.testing.assert_allclose(once.scale, repeated.scale, rtol=1e-12)
    if once.center is not None:
        np.testing.assert_allclose(once.center, repeated.center, rtol=1e-12)


@pytest.mark.parametrize("factor", [2.0**1000, 2.0**-1000])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_magnitudes_do_not_matter(form, factor):
    """A variance would be beyond the range of doubles."""
    plain, wild = standardize_columns(form(X), np.ones(20)), standardize_columns(form(X * factor), np.ones(20))
    np.testing.assert_array_equal(wild.scale, plain.scale * factor)
    np.testing.assert_array_equal(wild.standardized(X * factor), plain.standardized(X))


def test_a_column_of_one_value_is_zero_after_standardizing():
    rows = np.column_stack([X, np.full(20, 0.1)])
    columns = standardize_columns(rows, np.ones(20))
    assert columns.scale[3] == 1
    assert not columns.standardized(rows)[:, 3].any()


def test_columns_at_the_limits_of_doubles_are_refused():
    rows = X.copy()
    rows[:, 1] = np.where(Y == 1, 1.7e308, -1.7e308)
    with pytest.raises(ValueError, match="column 1 of X cannot be standardised"):
        standardize_columns(rows, np.ones(20))
    rows[:, 1] = np.where(Y == 1, 5e-324, 0)
    with pytest.raises(ValueError, match="column 'b' of X cannot be standardised"):
        svmatlas.explore(pd.DataFrame(rows, columns=["a", "b", "c"]), Y, standardize=True)
