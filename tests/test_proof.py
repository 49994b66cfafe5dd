"""The checker: it certifies what is right, down to the hard cases, and refuses what is not, by place."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_wine

import svmatlas
from svmatlas.atlas import doubts
from svmatlas.cli.main import main
from svmatlas.proof.exact import eliminate
from svmatlas.proof.models import exact_sums, split_products
from svmatlas.proof.reading import read_map
from svmatlas.proof.tiling import has_triangles
from tests import cases, hostile, mutations, proofs

RNG = np.random.default_rng


def shares(scale):
    """Three columns that add up to one, beside a large one."""
    rng = RNG(5)
    return np.column_stack([rng.dirichlet(np.ones(3), 24), scale * rng.normal(size=24)]), np.arange(24) % 2


def wide():
    rng = RNG(6)
    return rng.normal(size=(20, 30)) * 10.0 ** rng.uniform(0, 7, 30), np.arange(20) % 2


def lengths():
    rng = RNG(7)
    return rng.normal(size=(24, 3)) * 10.0 ** rng.uniform(-4, 4, 24)[:, None], np.arange(24) % 2


def wine():
    X, y = load_wine(return_X_y=True)
    return X[:130:3, :5], y[:130:3]


HOSTILE = [
    cases.one_hot,
    cases.lattice,
    cases.one_positive,
    cases.both_labels,
    cases.every_row_three_times,
    lengths,
    wide,
    wine,
]
HOSTILE += [partial(shares, 1e5), partial(shares, 1e7)]


def name_of(make):
    """The name of a case, with its arguments."""
    return f"{make.func.__name__}-{make.args[0]:g}" if isinstance(make, partial) else make.__name__


@pytest.mark.parametrize("make", HOSTILE, ids=name_of)
def test_hostile_maps_are_certified_on_the_rows_as_given(make):
    X, y = make()
    found = svmatlas.certify(svmatlas.explore(X, y), X, y)
    assert found.ok, str(found)
    assert found.data == "given"
    assert found.gap < 1e-9


@pytest.mark.parametrize(
    "more",
    [
        {"kernel": "rbf"},
        {"kernel": "poly", "degree": 2},
        {"bias": 0.0},
        {"sample_weight": np.r_[0.0, np.arange(1, 20) / 7]},
        {"standardize": True},
        {"region": ((0.01, 2.0), (0.1, np.inf))},
        {"region": ((0.3, 0.7), (0.01, 5.0)), "bias": 0.01},
    ],
    ids=str,
)
def test_maps_of_every_kind_are_certified(more):
    rng = RNG(1)
    X, y = rng.normal(size=(20, 3)), np.array(["no", "yes"])[np.arange(20) % 2]
    X[5:8] = X[2:5] * [1, 1, 2]
    atlas = svmatlas.explore(X, y, **more)
    assert svmatlas.certify(atlas, X, y, sample_weight=more.get("sample_weight")).ok
    assert svmatlas.certify(atlas).ok


def test_sparse_wide_and_precomputed_data_are_certified():
    rng = RNG(2)
    X, y = rng.normal(size=(12, 400)) * (rng.random((12, 400)) < 0.1), np.arange(12) % 2
    atlas = svmatlas.explore(csr_array(X), y)
    assert svmatlas.certify(atlas, csr_array(X), y).ok
    assert svmatlas.certify(atlas, X, y, n_jobs=-1).ok
    assert svmatlas.certify(atlas).ok
    K = X @ X.T
    atlas = svmatlas.explore(K, y, kernel="precomputed")
    assert svmatlas.certify(atlas, K, y).ok
    with pytest.raises(svmatlas.ProofError, match="give the data"):
        svmatlas.certify(atlas)


def test_a_partial_map_is_certified_as_far_as_it_goes():
    X, y = cases.gaussian(15, 15, 3, 1.0)
    found = svmatlas.certify(svmatlas.explore(X, y, max_facets=50), X, y)
    assert found.ok
    assert not found.complete
    assert not found.tiles


def test_other_data_are_refused():
    X, y = cases.gaussian(10, 10, 2, 1.0)
    atlas = svmatlas.explore(X, y)
    other = X.copy()
    other[3, 1] = np.nextafter(other[3, 1], 1)
    assert svmatlas.certify(atlas, other, y).faults == ["row 3 of the file is not that of X"]
    assert not svmatlas.certify(atlas, X, 1 - y).ok
    with pytest.raises(svmatlas.ProofError, match="labels"):
        svmatlas.certify(atlas, X, y + 1)
    with pytest.raises(svmatlas.ProofError, match="20 rows"):
        svmatlas.certify(atlas, X[1:], y[1:])
    with pytest.raises(svmatlas.ProofError, match="sample_weight"):
        svmatlas.certify(atlas, X, y, sample_weight=np.full(20, 2.0))
    with pytest.raises(ValueError, match="both X and y"):
        svmatlas.certify(atlas, X)


def test_the_bound_holds_at_random_costs(gap):
    X, y = cases.gaussian(12, 12, 2, 1.0)
    atlas = svmatlas.explore(X, y)
    bound = svmatlas.certify(atlas, X, y).gap
    for p, q in RNG(0).lognormal(0, 2, (50, 2)):
        assert gap(X, y, p, q, atlas.coef(p, q), atlas.intercept(p, q), atlas.alpha(p, q)) < bound + 1e-13


def test_sums_are_exact():
    rng = RNG(3)
    a, b = rng.normal(size=(5, 40)) * 10.0 ** rng.uniform(-20, 20, 40), rng.normal(size=40)
    terms = split_products(a, b).reshape(5, -1)
    both = np.concatenate([terms, -terms[:, ::-1], np.full((5, 1), 1e-30)], axis=1)
    assert np.all(exact_sums(both) == 1e-30)


def test_the_checker_needs_numpy_alone(tmp_path):
    """Its folder, put anywhere, checks a map; nothing else of the package and no other library is imported."""
    X, y = cases.gaussian(5, 5, 2, 1.0)
    svmatlas.explore(X, y).save(tmp_path / "map.atlas")
    np.savez(tmp_path / "data.npz", X=X, y=y)
    shutil.copytree(Path(svmatlas.__file__).parent / "proof", tmp_path / "svmatlas" / "proof")
    (tmp_path / "svmatlas" / "__init__.py").touch()
    program = """
import sys, numpy
sys.path.insert(0, ".")
from svmatlas.proof.certify import certify
data = numpy.load("data.npz")
assert certify("map.atlas", data["X"], data["y"]).ok
assert not {"scipy", "numba", "sklearn", "joblib"} & set(sys.modules)
assert all(name.startswith("svmatlas.proof") for name in sys.modules if name.startswith("svmatlas."))
"""
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)


# ----------------------------------------------------------------------------------------------------------------------
# Files


def polygons(path):
    """A second reader, from docs/format.md alone."""
    with open(path, "rb") as file:
        blob = file.read()
    (size,) = struct.unpack("<8xQ", blob[:16])
    header = json.loads(blob[48 : 48 + size])

    def values(name):
        place, start = header["arrays"][name], 48 + size
        count = int(np.prod(place["shape"]))
        letter = {"<f8": "d", "<i4": "i", "<i8": "q"}[place["type"]]
        return struct.unpack_from(f"<{count}{letter}", blob, start + place["at"])

    mesh = "mesh" if "mesh.vertices" in header["arrays"] else "split"
    flat, corners, at = (values(f"{mesh}.{name}") for name in ("vertices", "facet_vertices", "facet_at"))
    unit = 2.0 ** header["parameters"]["cost_exponent"]
    found = []
    for first, last in pairwise(at):
        homogeneous = [flat[3 * v : 3 * v + 3] for v in corners[first:last]]
        found.append([(p / unit / l, q / unit / l) if l else (p, q, 0) for p, q, l in homogeneous])
    return found


@pytest.mark.parametrize("make", [cases.lattice, wide])
def test_a_second_reader_gets_the_same_polygons(tmp_path, make):
    atlas = svmatlas.explore(*make())
    atlas.save(tmp_path / "map.atlas")
    found = polygons(tmp_path / "map.atlas")
    assert len(found) == atlas.n_facets
    for f, corners in enumerate(found):
        for mine, (p, q, l) in zip(corners, atlas.polygon(f), strict=True):
            assert (len(mine) == 3) == (l == 0)
            if l:
                np.testing.assert_allclose(mine, (p / l, q / l), rtol=1e-14)


def test_altered_files_are_refused(tmp_path):
    path = tmp_path / "map.atlas"
    svmatlas.explore(*cases.gaussian(5, 5, 2, 1.0)).save(path)
    blob = bytearray(path.read_bytes())
    for place in (3, 20, 60, len(blob) - 100):
        altered = blob.copy()
        altered[place] ^= 1
        path.write_bytes(altered)
        with pytest.raises(svmatlas.ProofError):
            svmatlas.certify(path)


def test_the_command(tmp_path, capsys):
    X, y = cases.gaussian(8, 8, 2, 1.0)
    data, atlas = tmp_path / "data.npz", tmp_path / "map.atlas"
    np.savez(data, X=X, y=y)
    svmatlas.explore(X, y).save(atlas)
    assert main(["certify", str(atlas), "--data", str(data)]) == 0
    assert "certified, for the rows as they were given" in capsys.readouterr().out
    assert main(["certify", str(atlas), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tiles"]
    np.savez(data, X=X + 1e-3, y=y)
    assert main(["certify", str(atlas), "--data", str(data)]) == 1


def test_the_command_for_weighted_rows(tmp_path):
    X, y = cases.gaussian(8, 8, 2, 1.0)
    data, atlas = str(tmp_path / "data.csv"), str(tmp_path / "map.atlas")
    lines = [f"{a},{b},{k % 4},{label}" for k, ((a, b), label) in enumerate(zip(X, y, strict=True))]
    Path(data).write_text("\n".join(["a,b,w,label", *lines]))
    assert main(["explore", data, "--weights", "w", "-o", atlas, "--quiet"]) == 0
    assert main(["certify", atlas, "--data", data, "--weights", "w"]) == 0
    assert main(["certify", atlas, "--data", data]) == 2


# ----------------------------------------------------------------------------------------------------------------------
# Infinite costs, and what cannot be proven


def test_gaussian_maps_are_proven_for_all_costs():
    X, y = cases.gaussian(12, 12, 2, 1.0)
    found = svmatlas.certify(svmatlas.explore(X, y), X, y)
    assert found.ok
    assert np.isinf(found.largest_costs)
    assert found.n_beyond == 0
    assert found.tiles


def test_a_wrong_facet_at_infinity_is_refused(tmp_path):
    """Costs in a bounded region are right, those at infinity are not: the map of other rows, with the same start."""
    X, y = cases.gaussian(6, 6, 2, 1.0)
    path = tmp_path / "map.atlas"
    svmatlas.explore(X, y).save(path)
    stored = read_map(path)
    vertices = stored.arrays["split.vertices"].copy()
    far = np.flatnonzero((vertices[:, 2] == 0) & np.all(vertices[:, :2] > 0, axis=1))
    assert far.size
    vertices[far[0], 0] *= 1.0 + 1e-3
    found = mutations.check(mutations.with_array(stored, "split.vertices", vertices), X, y)
    assert not found.ok or np.isfinite(found.largest_costs)


def polygon(*places):
    """Corners (p, q) as exact homogeneous costs."""
    return [(Fraction(p), Fraction(q), Fraction(1)) for p, q in places]


@pytest.mark.parametrize(
    ("corners", "can"),
    [
        (polygon((0, 0), (2, 0), (2, 2), (0, 2)), True),
        (polygon((0, 2), (2, 2), (2, 0), (0, 0)), False),  # turned over
        (polygon((0, 0), (2, 0), (1, Fraction(1, 2**80)), (0, 2)), True),  # bent: diagonals from two corners only
        (polygon((0, 0), (1, 0), (2, 0)), True),  # no area
        (polygon((0, 0), (2, 2), (2, 0), (0, 2)), False),  # crosses itself
        (polygon((0, 0), (1, 0), (1, 0), (0, 1)), True),  # an edge without length
        (polygon((0, 0), (4, 1), (8, 0), (7, 4), (8, 8), (4, 7), (0, 8), (1, 4)), True),  # a star: no corner sees all others
        (polygon((0, 0), (4, 5), (8, 0), (3, 4), (8, 8), (4, 3), (0, 8), (5, 4)), False),  # its sides cross
    ],
)
def test_polygons_that_triangles_make_up(corners, can):
    for k in range(len(corners)):
        assert has_triangles(corners[k:] + corners[:k]) == can


@pytest.mark.filterwarnings("ignore::svmatlas.AccuracyWarning")  # of weights that differ by 10^19, and the like
@pytest.mark.parametrize("seed", [20048, 20081, 20097, 20199, 20344])
def test_facets_narrower_than_rounding_are_not_turned_over(seed, monkeypatch):
    """The map tiles its region exactly, up to any costs; as corners were rounded it does not."""
    case = hostile.make(seed)
    arguments = {**case.arguments, "max_facets": 1000}
    found = svmatlas.certify(svmatlas.explore(case.X, case.y, **arguments), case.X, case.y, arguments["sample_weight"])
    assert found.ok, str(found)
    assert found.tiles
    monkeypatch.setattr(svmatlas.atlas.explore, "set_upright", lambda *given: None)
    found = svmatlas.certify(svmatlas.explore(case.X, case.y, **arguments), case.X, case.y, arguments["sample_weight"])
    assert any("turned over" in fault for fault in found.faults)


@pytest.mark.filterwarnings("ignore::svmatlas.AccuracyWarning")  # of weights that differ by 10^19, and the like
@pytest.mark.parametrize("seed", [20048, 20081, 20097, 20199, 20261, 20344])
def test_facets_of_a_store_are_not_turned_over(seed, tmp_path):
    case = hostile.make(seed)
    arguments = {name: value for name, value in case.arguments.items() if name != "max_facets"}
    atlas = svmatlas.explore(case.X, case.y, store=tmp_path / "map", **arguments).atlas()
    found = svmatlas.certify(atlas, case.X, case.y, arguments["sample_weight"])
    assert found.ok, str(found)
    assert found.tiles


@pytest.mark.parametrize("seed", [1, 3, 7])
def test_ties_of_a_polynomial_kernel_are_ties_at_all_costs(seed):
    """Its matrix is singular, and a factor of it has ties up to rounding, which made facets of rounding errors."""
    X, y = RNG(seed).integers(0, 2, (40, 5)).astype(float), np.arange(40) % 2
    maps = [svmatlas.explore(X, y, kernel="poly", degree=2, coef0=1.0, random_state=state) for state in (0, 1)]
    assert maps[0].n_facets == maps[1].n_facets < maps[0].n_pieces
    assert maps[0].validate().ok
    found = svmatlas.certify(maps[0], X, y)
    assert found.ok, str(found)
    assert found.largest_costs > 1e12


def test_monomials_have_the_inner_products_of_the_kernel():
    """Also where columns depend on each other, are powers of two times others, or are negative."""
    X, y = RNG(0).integers(-2, 3, (30, 3)).astype(float), np.arange(30) % 2
    X = np.column_stack([X, X[:, 0] + X[:, 1], 0.5 * X[:, 2]])
    for degree, coef0, bias in ((1, 0.0, 1.0), (2, 1.0, 0.5), (3, 0.0, 0.0)):
        arguments = {"kernel": "poly", "degree": degree, "coef0": coef0, "gamma": 0.7, "bias": bias}
        whole = svmatlas.explore(X, y, **arguments)
        matrix = svmatlas.explore((0.7 * X @ X.T + coef0) ** degree, y, kernel="precomputed", bias=bias)
        for costs in ((0.01, 0.02), (1.0, 0.3), (7.0, 20.0)):
            values = matrix.decision_function((0.7 * X @ X.T + coef0) ** degree, *costs)
            np.testing.assert_allclose(whole.decision_function(X, *costs), values, rtol=1e-9, atol=1e-9)


def test_rows_whose_ties_rounding_decides_are_warned_of():
    rng, noise = RNG(1), RNG(0)
    X = np.column_stack([rng.integers(0, 2, (60, 2)), 1e3 * rng.lognormal(size=60)])
    score = X @ (noise.normal(size=3) / [1, 1, 1e4]) + noise.normal(size=60)
    y = score > np.median(score)
    with pytest.warns(svmatlas.AccuracyWarning, match="rounding decides which rows are tied.*standardise"):
        svmatlas.explore(X, y, kernel="poly", degree=2, coef0=1.0)


def test_columns_that_nearly_depend_on_each_other_are_warned_of():
    case = hostile.make(3196)
    with pytest.warns(svmatlas.AccuracyWarning, match="depend on each other up to a part of.*standardise"):
        svmatlas.explore(case.X, case.y, **case.arguments)


def test_elimination_is_exact():
    rng = RNG(4)
    matrix, right = (rng.integers(-(10**6), 10**6, shape).astype(object) for shape in ((7, 7), (7, 2)))
    matrix[0, 0] = 0
    whole, determinant = eliminate(matrix, right)
    assert np.all(matrix @ whole == determinant * right)
    assert eliminate(np.array([[2, 4], [3, 6]], dtype=object), np.ones((2, 1), dtype=object)) is None


@pytest.mark.parametrize("distance", [1e-12, 1e-8])
def test_nearly_equal_rows_are_warned_of(distance):
    X, y = cases.gaussian(8, 8, 3, 0.5)
    X[9] = X[2] + distance * RNG(0).normal(size=3)
    with pytest.warns(svmatlas.AccuracyWarning, match="rows 2 and 9 of X differ"):
        svmatlas.explore(X, y)


def test_nearly_equal_rows_with_a_tiny_jitter_are_warned_of():
    """Corners between them are rounded to doubles, whatever splits ties."""
    case = hostile.make(3212)
    with pytest.warns(svmatlas.AccuracyWarning, match="rows 2 and 3 of X differ by 3e-11 of their length"):
        svmatlas.explore(case.X, case.y, **case.arguments)


def test_columns_of_very_different_scale_are_warned_of():
    X, y = cases.gaussian(8, 8, 2, 0.5)
    with pytest.warns(svmatlas.AccuracyWarning, match="differ in scale.*standardise"):
        svmatlas.explore(X * [1e-7, 1e7], y, bias=0.0)


@pytest.mark.parametrize("scale", [1e-2, 1e-4, 1e-6])
def test_a_small_column_beside_one_with_few_values_keeps_its_facets(scale):
    """Corners at costs beyond 2^50 units were taken for one, and edges that lead there were wrong at small costs, too."""
    X, y = np.array([[0, 1], [1, 0.5], [2, -1], [0.5, 0.25], [3, 1]]) * [scale, 1 / scale], np.array([0, 1, 0, 1, 1])
    found = svmatlas.certify(svmatlas.explore(X, y, bias=0.0), X, y)
    assert found.ok, str(found)
    assert np.isinf(found.largest_costs)


def test_features_that_are_small_beside_the_bias_are_proven_for_all_costs():
    """A point that lacks 1e-21 at a corner would be a loss without bound at infinity: weights are lengthened by as little."""
    case = hostile.make(20261)
    found = svmatlas.certify(svmatlas.explore(case.X, case.y), case.X, case.y)
    assert found.ok, str(found)
    assert np.isinf(found.largest_costs)


def test_weights_that_are_rounding_errors_of_others_are_warned_of():
    X, y = cases.gaussian(6, 6, 2, 0.5)
    with pytest.warns(svmatlas.AccuracyWarning, match="the weights of rows differ by a factor of 1e.16.*the weight zero"):
        svmatlas.explore(X, y, sample_weight=np.where(y == 1, 1e-8, 1e8))


def test_regions_beyond_all_costs_are_warned_of():
    case = hostile.make(148)
    with pytest.warns(svmatlas.AccuracyWarning, match="region: its costs are far beyond"):
        svmatlas.explore(case.X, case.y, **case.arguments)


def test_wide_rows_with_an_offset_keep_their_digits():
    rng = RNG(8)
    X, y = rng.normal(size=(12, 90)) + 1e6, np.arange(12) % 2
    found = svmatlas.certify(svmatlas.explore(X, y), X, y)
    assert found.ok, str(found)


@pytest.mark.parametrize("given", [True, False])
def test_a_map_without_points_is_certified(given):
    """Rows of zeros without a bias are no points; the file has no rows then."""
    X, y = np.zeros((4, 2)), np.arange(4) % 2
    assert svmatlas.certify(svmatlas.explore(X, y, bias=0.0), *((X, y) if given else ())).ok


def test_corners_at_uneven_costs_are_those_without_jitter():
    """Costs that differ by 1e8: the jitter, which counts beside the larger one, moved corners by 1e-9 of the smaller one."""
    assert proofs.trial(710060) == "certified"


@pytest.mark.parametrize("scale", [1e-90, 1e-40, 1e40, 1e80])
def test_polynomial_kernels_are_certified_at_any_scale(scale):
    """Gamma is 1e-160 by the variance of the rows, and its powers are no doubles."""
    X, y = RNG(0).normal(size=(12, 3)) * scale, np.arange(12) % 2
    found = svmatlas.certify(svmatlas.explore(X, y, kernel="poly"), X, y)
    assert found.ok, str(found)


@pytest.mark.parametrize(
    "seed",
    [700018, 700076, 900048, 900116, 900130, 900164, 900322, 910724, 911184, 911612, 921179, 921568, 922242, 922747],
)
def test_maps_that_cannot_be_certified_are_warned_of(seed, monkeypatch):
    """Weights that differ by 1e10, rows of bad condition, kernels that are singular up to rounding, thin regions."""
    monkeypatch.setattr(doubts, "SECONDS", 30.0)  # on any machine: 922747 takes nearly a second
    assert proofs.trial(seed) == "refused, after a warning of explore"


@pytest.mark.parametrize("first", range(0, 40, 20))
def test_random_maps_are_certified_or_warned_of(first):
    outcomes = Counter(proofs.trial(seed) for seed in range(first, first + 20))
    assert outcomes["certified"] > 0.5 * outcomes.total(), outcomes


# ----------------------------------------------------------------------------------------------------------------------
# Mutations


def test_what_is_not_changed_is_certified():
    assert all(mutations.check(stored, X, y).ok for stored, X, y in mutations.maps())


@pytest.mark.parametrize("first", range(0, 300, 100))
def test_mutations_are_refused(first):
    for seed in range(first, first + 100):
        mutations.trial(seed)
