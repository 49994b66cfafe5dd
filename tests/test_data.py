"""Sparse data and kernels: the same map as of dense rows with the same inner products."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.svm import SVC

import svmatlas
from svmatlas.data.kernels import Kernel
from svmatlas.data.problem import make_problem
from tests import cases, facts

C_POS, C_NEG = np.exp(np.random.default_rng(7).uniform(np.log(1e-3), np.log(1e3), (2, 50)))


def sparse(n, d, density, seed=0):
    rng = np.random.default_rng(seed)
    columns = [np.sort(rng.choice(d, int(density * d), replace=False)) for _ in range(n)]
    at = np.r_[0, np.cumsum([c.size for c in columns])]
    return sp.csr_array((rng.normal(size=at[-1]), np.concatenate(columns), at), shape=(n, d)), np.arange(n) % 2


def same(a, b, X, Y=None):
    """Two atlases have the same facets and decide alike; of several equal rows in the first one stands in the second."""
    n, m = (atlas._problem.point.size for atlas in (a, b))
    facts.assert_same(a, b, facts.Change(rows=[list(range(i, n, m)) for i in range(m)]))
    alike(a, b, X, Y)


def alike(a, b, X, Y=None):
    first, second = a.decision_function(X, C_POS, C_NEG), b.decision_function(X if Y is None else Y, C_POS, C_NEG)
    np.testing.assert_allclose(first, second, atol=1e-9 * np.abs(second).max())


# ----------------------------------------------------------------------------------------------------------------------
# Sparse data


@pytest.mark.parametrize(
    ("n", "d", "form"), [(20, 100, sp.csr_array), (30, 4, sp.csr_matrix), (20, 20, sp.csc_array), (20, 60, sp.coo_array)]
)
@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_sparse_is_dense(n, d, form, bias):
    X, y = sparse(n, d, 0.3)
    a, b = svmatlas.explore(form(X), y, bias=bias), svmatlas.explore(X.toarray(), y, bias=bias)
    same(a, b, form(X), X.toarray())
    np.testing.assert_allclose(a.coef(C_POS, C_NEG), b.coef(C_POS, C_NEG), atol=1e-10)
    report = a.validate(n_costs=20)
    assert report.ok, str(report)


def test_memory_is_a_few_times_the_data():
    X, y = sparse(50, 10**6, 0.02)
    size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    svmatlas.explore(X[:, :100], y, max_facets=5)  # which compiles
    tracemalloc.start()
    try:
        atlas = svmatlas.explore(X, y, max_facets=200)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * size
    assert size < 50 * 10**6  # dense it would be 400 MB
    weights = 1e-8 * X[y == 1].sum(axis=0) - 2e-8 * X[y == 0].sum(axis=0)  # all rows are inside the margin
    np.testing.assert_allclose(atlas.decision_function(X, 1e-8, 2e-8), X @ weights - 25 * 1e-8, rtol=1e-12)


@pytest.mark.parametrize(("n", "d"), [(20, 100), (30, 4)], ids=["wide", "narrow"])
@pytest.mark.parametrize("form", [sp.csr_array, sp.csr_array.toarray])
def test_coordinates_of_new_rows_give_their_decision_values(n, d, form):
    X, y = sparse(n, d, 0.3)
    features = make_problem(form(X[:15]), y[:15], 0.7, None, 0).features
    coef, intercept = features.weights(np.eye(15 if d > n else d + 1))
    np.testing.assert_allclose(features.coordinates(form(X)), X @ coef.T + intercept, atol=1e-12)


def test_a_selection_takes_no_memory_for_features_that_never_occur():
    """Weights of all features for every dimension of the rows would take 16 GiB."""
    X, y = sparse(32, 100, 0.3)
    wide = sp.csr_array((X.data, X.indices * 1_000_003, X.indptr), shape=(32, 2**27))
    svmatlas.select(X, y, cv=2, region=((0.1, 1), (0.1, 1)))  # compiles
    tracemalloc.start()
    selection = svmatlas.select(wide, y, cv=2, region=((0.1, 1), (0.1, 1)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**26
    assert selection.best_score == svmatlas.select(X, y, cv=2, region=((0.1, 1), (0.1, 1))).best_score


def test_stored_zeros_and_duplicates_change_nothing():
    plain, y = sparse(20, 30, 0.2)
    coo = plain.tocoo()
    twice = sp.coo_array((np.r_[coo.data, coo.data, 0.0], (np.r_[coo.row, coo.row, 3], np.r_[coo.col, coo.col, 5])), (20, 30))
    odd = sp.csr_array((twice.data, twice.coords[1], np.searchsorted(np.sort(twice.coords[0]), np.arange(21))), (20, 30))
    rows = np.argsort(twice.coords[0], kind="stable")
    odd = sp.csr_array((twice.data[rows], twice.coords[1][rows], odd.indptr), (20, 30))
    before = odd.data.copy()
    atlas = svmatlas.explore(odd, y)
    np.testing.assert_array_equal(odd.data, before)  # the user's matrix is left alone
    same(atlas, svmatlas.explore(2 * plain, y), 2 * plain)


def test_equal_sparse_rows_are_one_point():
    X, y = sparse(10, 40, 0.2)
    thrice = svmatlas.explore(sp.vstack([X, X, X]), np.tile(y, 3))
    same(thrice, svmatlas.explore(X, y, sample_weight=np.full(10, 3.0)), X)


def test_sparse_rows_of_zeros():
    X = sp.vstack([sparse(10, 40, 0.2)[0], sp.csr_array((2, 40))]).tocsr()
    y = np.arange(12) % 2
    for bias in (0.0, 1.0):
        assert svmatlas.explore(X, y, bias=bias).validate().ok


# ----------------------------------------------------------------------------------------------------------------------
# Kernels


def linear(X, Y):
    return X @ Y.T


@pytest.mark.parametrize("bias", [0.0, 0.5])
def test_linear_kernels_are_the_linear_map(bias):
    X, y = cases.gaussian(12, 12, 3, 0.5)
    own = svmatlas.explore(X, y, bias=bias)
    same(svmatlas.explore(X, y, kernel=linear, bias=bias), own, X)
    same(svmatlas.explore(X @ X.T, y, kernel="precomputed", bias=bias), own, X @ X.T, X)
    poly = svmatlas.explore(X, y, kernel="poly", degree=1, gamma=1.0, coef0=bias**2, bias=0.0)
    alike(poly, own, X)  # which hides the bias: its ties are broken by rounding
    np.testing.assert_allclose(svmatlas.explore(X, y, kernel=linear, bias=bias).alpha(1, 2), own.alpha(1, 2), atol=1e-9)


def test_quadratic_kernel_is_its_feature_map():
    X, y = cases.gaussian(15, 15, 2, 0.5)
    a, b = X.T
    features = np.column_stack([a * a, b * b, np.sqrt(2) * a * b])  # (x.y)^2
    atlas = svmatlas.explore(X, y, kernel="poly", degree=2, gamma=1.0)
    same(atlas, svmatlas.explore(features, y), X, features)
    assert atlas.validate().ok


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_rbf_is_its_matrix(form):
    X, y = cases.gaussian(12, 12, 2, 0.5)
    K = np.exp(-0.3 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    atlas = svmatlas.explore(form(X), y, kernel="rbf", gamma=0.3)
    same(atlas, svmatlas.explore(K, y, kernel="precomputed"), form(X), K)
    report = atlas.validate()
    assert report.ok, str(report)


@pytest.mark.parametrize("offset", [1e3, 1e6])
@pytest.mark.parametrize("seed", range(5))
def test_rbf_does_not_depend_on_the_origin(offset, seed):
    X, y = cases.gaussian(10, 10, 2, 0.5, seed)
    X = np.round(X, 6) + 0.0
    plain, moved = svmatlas.explore(X, y, kernel="rbf"), svmatlas.explore(X + offset, y, kernel="rbf")
    first, second = plain.decision_function(X, 1, 2), moved.decision_function(X + offset, 1, 2)
    np.testing.assert_allclose(first, second, atol=1e-6)
    model = svmatlas.AsymmetricSVC(1, 2, kernel="rbf").fit(X + offset, y)
    np.testing.assert_allclose(model.decision_function(X + offset), second, atol=1e-9)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_rbf_of_close_rows_far_from_each_other(form):
    """Kernels of rows with themselves are 1, be they computed beside others or not."""
    X = np.array([[0.0, 1.0], [1e-3, 1.0], [1e7, 2.0], [1e7 + 1, 2.0], [-1e22, 0.0]])
    kernel = Kernel("rbf", gamma=0.5)
    expected = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    np.testing.assert_allclose(kernel(form(X), form(X)), expected, rtol=1e-12)
    np.testing.assert_allclose(kernel(form(X[1:3]), form(X)), expected[1:3], rtol=1e-12)


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
@pytest.mark.parametrize("gamma", ["scale", "auto"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_parameters_mean_what_they_do_in_svc(kernel, gamma, form):
    X, y = cases.gaussian(8, 8, 3, 0.5)
    X = X * 3 + 1
    other = SVC(kernel=kernel, gamma=gamma).fit(form(X), y)
    own = make_problem(form(X), y, 1.0, None, 0, kernel=kernel, gamma=gamma).features.kernel
    assert own.gamma == pytest.approx(other._gamma, rel=1e-12)
    assert (own.degree, own.coef0) == (other.degree, other.coef0)


def both_labels():
    X, y = cases.gaussian(5, 5, 3, 0.5)
    return np.vstack([X, X]), np.r_[y, 1 - y]


@pytest.mark.parametrize("case", [cases.every_row_three_times, both_labels, cases.lattice], ids=lambda c: c.__name__)
@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_ties_and_low_rank(case, kernel):
    X, y = case()
    atlas = svmatlas.explore(X, y, kernel=kernel, coef0=1.0, gamma=0.1)
    report = atlas.validate()
    assert report.ok, str(report)


def test_equal_rows_are_one_point_of_a_kernel():
    X, y = cases.gaussian(8, 8, 3, 0.5)
    once = svmatlas.explore(X, y, kernel="rbf", gamma=0.5, sample_weight=np.full(16, 2.0))
    A, b = np.vstack([X, X]), np.tile(y, 2)
    same(svmatlas.explore(A, b, kernel="rbf", gamma=0.5), once, X)
    K = np.exp(-0.5 * ((A[:, None] - A[None]) ** 2).sum(axis=2))
    twice = svmatlas.explore(K, b, kernel="precomputed")
    same(twice, once, K[:16], X)
    np.testing.assert_array_equal(twice.alpha(1, 2)[:16], twice.alpha(1, 2)[16:])


def test_rows_of_zeros_in_feature_space():
    X, y = cases.gaussian(6, 6, 2, 0.5)
    X[[0, 7]] = 0.0
    atlas = svmatlas.explore(X, y, kernel="poly", degree=2, gamma=1.0, bias=0.0)
    assert atlas.validate().ok
    np.testing.assert_array_equal(atlas.alpha(3.0, 5.0)[[0, 7]], [3.0, 5.0])  # inside the margin at all costs


def test_a_kernel_of_zeros():
    atlas = svmatlas.explore(np.zeros((4, 4)), [0, 1, 0, 1], kernel="precomputed", bias=0.0)
    assert atlas.validate().ok
    assert not atlas.decision_function(np.zeros((3, 4)), 1, 2).any()
    np.testing.assert_array_equal(atlas.alpha(1, 2), [2, 1, 2, 1])


def test_no_coefficients_of_a_nonlinear_kernel():
    X, y = cases.gaussian(6, 6, 2, 0.5)
    atlas = svmatlas.explore(X, y, kernel="rbf")
    with pytest.raises(ValueError, match="linear kernel only"):
        atlas.coef(1, 1)
    signed = atlas.alpha(1, 2) * np.where(y == 1, 1, -1)
    assert atlas.intercept(1, 2) == pytest.approx(signed.sum(), abs=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kernel": "sigmoid"}, "kernel must be one of linear, poly, rbf, precomputed or a callable"),
        ({"kernel": "rbf", "gamma": -1.0}, "gamma must be a finite number >= 0"),
        ({"kernel": "rbf", "gamma": "wide"}, "gamma must be a finite number"),
        ({"kernel": "poly", "degree": np.nan}, "degree must be"),
        ({"kernel": "poly", "coef0": np.inf}, "coef0 must be"),
        ({"kernel": "precomputed"}, "square matrix"),
        ({"kernel": lambda X, Y: np.ones(3)}, "kernel returned shape"),
        ({"kernel": lambda X, Y: np.full((len(X), len(Y)), np.nan)}, "contains NaN"),
        ({"kernel": lambda X, Y: X[:, :1] + 0 * Y.T[:1]}, "not symmetric"),
        ({"kernel": lambda X, Y: -(X @ Y.T), "bias": 0.1}, "not positive semidefinite: its matrix has the eigenvalue -"),
        ({"kernel": lambda X, Y: np.tanh(X @ Y.T - 1)}, "not positive semidefinite"),
    ],
)
def test_bad_kernels(arguments, message):
    X, y = cases.gaussian(6, 6, 2, 0.5)
    with pytest.raises(ValueError, match=message):
        svmatlas.explore(X, y, **arguments)


@pytest.mark.parametrize("columns", [2, 70])
def test_kernels_of_rows_out_of_all_scale_are_refused(columns):
    """Cubes of lengths that differ by 10^40 are no rows of doubles: their condition would be a division by zero."""
    X, y = cases.gaussian(3, 3, columns, 0.5)
    X[0] *= 1e-20
    X[1] *= 1e20
    with pytest.raises(ValueError, match=r"rows by the kernel differ in scale .* standardise the features"):
        svmatlas.explore(X, y, kernel="poly", bias=0.0)


# ----------------------------------------------------------------------------------------------------------------------
# Accuracy on the given rows


def shares(scale):
    """Three columns that add up to one beside a large one."""
    rng = np.random.default_rng(0)
    return np.column_stack([rng.dirichlet(np.ones(3), 30), scale * rng.normal(size=30)]), np.arange(30) % 2


def mixed_shares(scale):
    """The same with so many sums of the three columns that rows are factored, and lose digits."""
    X, y = shares(scale)
    return np.hstack([X, X[:, :3] @ np.random.default_rng(0).normal(size=(3, 1100))]), y


def test_an_inaccurate_model_comes_with_a_warning(gap):
    X, y = mixed_shares(1e7)
    atlas, path = svmatlas.explore(X, y), svmatlas.ray(X, y)
    with pytest.warns(svmatlas.AccuracyWarning, match="standardise") as caught:
        solution = atlas.coef(1, 1), atlas.intercept(1, 1), atlas.alpha(1, 1)
    assert len(caught) == 3
    assert all(warning.filename == __file__ for warning in caught)
    assert f"gap of {gap(X, y, 1, 1, *solution):.1e}" in str(caught[0].message)
    model, mapped = svmatlas.AsymmetricSVC(), svmatlas.AtlasSVC()
    for query in (
        lambda: atlas.decision_function(X, 1, 1), lambda: atlas.estimator(1, 1), lambda: path.coef(1),
        lambda: path.intercept(1), lambda: path.alpha(1), lambda: model.fit(X, y), lambda: mapped.fit(X, y),
    ):  # fmt: skip
        with pytest.warns(svmatlas.AccuracyWarning, match="standardise"):
            query()
    assert model.duality_gap_ == pytest.approx(gap(X, y, 1, 1, *solution), rel=0.1)
    report = atlas.validate(n_costs=50)
    assert not report.ok
    assert "on the given rows" in report.faults[0]


@pytest.mark.parametrize("scale", [1e2, 1e5, 1e7])
def test_accurate_models_come_without_a_warning(gap, scale):
    X, y = shares(scale)
    atlas = svmatlas.explore(X, y)
    for C_pos, C_neg in ((1, 1), (1e3, 10)):
        assert gap(X, y, C_pos, C_neg, *(f(C_pos, C_neg) for f in (atlas.coef, atlas.intercept, atlas.alpha))) < 1e-9
    model = svmatlas.AsymmetricSVC(C_pos=10.0).fit(X, y)
    assert model.duality_gap_ < 1e-9
    path = svmatlas.ray(X, y)
    assert gap(X, y, 7.0, 7.0, path.coef(7.0), path.intercept(7.0), path.alpha(7.0)) < 1e-9
    assert atlas.validate(n_costs=20).max_user_gap < 1e-9


def test_a_column_that_is_no_number_is_named_with_what_to_do():
    frame = pd.DataFrame({"age": [50.0, 61, 70, 44], "ward": ["3", "b", "c", "b"]})
    with pytest.raises(ValueError, match=r"column 'ward' holds 'b', which is no number; preprocessor= .*OneHotEncoder"):
        svmatlas.explore(frame, [0, 1, 0, 1])
    with pytest.raises(ValueError, match=r"column 'ward' holds 'b', which is no number"):  # what float() failed at
        svmatlas.explore(frame.assign(age=[50.0, 61, None, 44]), [0, 1, 0, 1])
    with pytest.raises(ValueError, match=r"NaN(.|\n)*: column 'age' has no value in row 2 \(1 in all\); preprocessor="):
        svmatlas.explore(frame.drop(columns="ward").assign(age=[50.0, 61, None, 44], size=1.0), [0, 1, 0, 1])
    with pytest.raises(ValueError, match="contains NaN") as caught:
        svmatlas.explore([[1.0], [np.nan]], [0, 1])
    assert "column" not in str(caught.value)


def test_ties_that_only_the_jitter_splits_come_with_a_warning_and_its_remedy_helps():
    X, y = cases.few_huge_values()
    with pytest.warns(svmatlas.AccuracyWarning, match="so nearly tied.*few values are huge"):
        svmatlas.explore(X, y, standardize=True)
    one, other = (svmatlas.explore(np.log1p(X), y, standardize=True, random_state=seed) for seed in (0, 1))
    facts.assert_same(one, other)
