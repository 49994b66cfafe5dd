"""One-dimensional paths: against the atlas, exact rationals and the duality gap."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import svmatlas
from svmatlas.data.problem import make_problem
from svmatlas.models import walk
from svmatlas.paths.ray import state_at
from svmatlas.support.settings import SETTINGS
from tests import cases, reference
from tests.conftest import relative_gap
from tests.facts import explore_pieces

X = np.array([[0.0, 1.0], [1.0, 0.5], [2.0, -1.0], [0.5, 0.25], [3.0, 1.0]])
Y = np.array([0, 1, 0, 1, 1])

AXES = [0.0, np.inf]
SEGMENTS = [
    ((1, 1), (2, 3)),
    ((0.5, 1.5), (1.5, 0.5)),  # across
    ((0, 2), (3, 1)),  # from an axis
    ((5, 0), (0, 5)),  # from axis to axis
    ((1, 2), (0, 0)),  # to the origin
    ((0, 0.1), (0, 50)),  # along an axis
    ((7, 0), (0.01, 0)),
    ((1, 0.1), (1, 9)),  # one cost only
    ((1, 1), (2, 2.0000000001)),  # almost along a ray
    ((1e-6, 10), (10, 1e-6)),
    ((1e4, 1), (1e5, 1e5)),
]


def generic(n, d, seed):
    rng = np.random.default_rng(seed)
    A, y = rng.normal(size=(n, d)), np.arange(n) % 2
    return A + 0.5 * y[:, None], y


def integers(n, d, seed):
    rng = np.random.default_rng(seed)
    return rng.integers(-99, 100, size=(n, d)).astype(float) / 64, np.arange(n) % 2


def forty():
    return generic(40, 4, 1)


@functools.cache
def with_atlas(case):
    return *case(), explore_pieces(*case())


def letters(partition, n):
    out = np.full(n, "-")
    for letter, rows in zip("MIO", partition, strict=True):
        out[rows] = letter
    return "".join(out)


def pieces_of(atlas):
    """The vertices of the map of the jittered data, which paths go through as well, and the ends and events of its edges."""
    mesh, problem = atlas._canonical.split.mesh, atlas._problem
    inner = mesh.edge_code >= 0
    code = mesh.edge_code[inner]
    return (
        problem.to_user(mesh.vertices),
        mesh.edge_vertices[inner],
        np.column_stack([problem.first_rows[code >> 1], code & 1]),
    )


def crossings(atlas, line):
    """Where a line of homogeneous costs crosses the edges of the pieces of an atlas: homogeneous costs and events."""
    vertices, ends, events = pieces_of(atlas)
    ends = vertices[ends]
    side = ends @ line
    crossed = side[:, 0] * side[:, 1] < 0
    side, ends = np.abs(side[crossed]), ends[crossed]
    return ends[:, 0] * side[:, 1:] + ends[:, 1] * side[:, :1], events[crossed]


def check_crossings(C, events, path):
    """The same events, at the same places; ties in any order."""
    order = np.argsort(C)
    np.testing.assert_allclose(C[order], path.breakpoints, rtol=1e-9, atol=1e-11)
    assert sorted(map(tuple, events.tolist())) == sorted(map(tuple, path.events.tolist()))


@pytest.mark.parametrize("seed", range(4))
def test_exact_rationals_give_the_same_path(seed):
    A, y = integers(8, 9, seed)
    expected = reference.diagonal(A, 2 * y - 1, 1.0)
    path = svmatlas.ray(A, y)
    assert len(expected) > 5
    np.testing.assert_allclose(path.breakpoints, [float(C) for C, _ in expected], rtol=1e-11)
    after = np.r_[path.breakpoints[1:], 2 * path.breakpoints[-1]]
    for C, (_, partition) in zip((path.breakpoints + after) / 2, expected, strict=True):
        assert letters(path.partition(C), 8) == partition
    assert letters(path.partition(0), 8) == "I" * 8


def test_exact_rationals_give_the_same_path_of_unscaled_data():
    A, y = integers(8, 7, 1)
    A = A * 2.0 ** np.array([-18, 18, 0, 9, -9, 3, 0])  # doubles and double-double do not do here
    expected = reference.diagonal(A, 2 * y - 1, 1.0)
    path = svmatlas.ray(A, y)
    np.testing.assert_allclose(path.breakpoints, [float(C) for C, _ in expected], rtol=1e-14)
    assert path.n_exact > 0


def side_of(vertex, ratio):
    return vertex[0] - ratio * vertex[1]


JITTERED = 1e-8
"""Relative distance of a breakpoint from an edge of the data: the jitter, 1e-13, by how flat the angles of tied lines are."""


@pytest.mark.parametrize("ratio", [0.0719, 0.933, 5.31])
@pytest.mark.parametrize(
    "case",
    [forty, cases.lattice, cases.both_labels, cases.one_positive, cases.separable, cases.iris],
    ids=lambda case: case.__name__,
)
def test_a_ray_crosses_the_edges_of_the_atlas(case, ratio):
    A, y, atlas = with_atlas(case)
    costs, events = crossings(atlas, [1, -ratio, 0])
    path = svmatlas.ray(A, y, ratio=ratio)
    check_crossings(costs[:, 1] / costs[:, 2], events, path)
    for a, b in atlas.vertices[atlas.edge_vertices[atlas.edge_facets[:, 1] >= 0]]:  # every edge of the data is on the way
        if side_of(a, ratio) * side_of(b, ratio) < 0:
            p = a * abs(side_of(b, ratio)) + b * abs(side_of(a, ratio))
            assert np.abs(path.breakpoints / (p[1] / p[2]) - 1).min() < JITTERED


@pytest.mark.parametrize("ratio", AXES)
@pytest.mark.parametrize("case", [forty, cases.lattice, cases.both_labels], ids=lambda case: case.__name__)
def test_a_ray_along_an_axis_passes_the_vertices_there(case, ratio):
    A, y, atlas = with_atlas(case)
    fixed, moving = (0, 1) if ratio == 0 else (1, 0)
    vertices, _, _ = pieces_of(atlas)
    vertices = vertices[(vertices[:, fixed] == 0) & np.all(vertices[:, [moving, 2]] > 0, axis=1)]
    path = svmatlas.ray(A, y, ratio=ratio)
    bound = np.flatnonzero(y[path.events[:, 0]] == moving)  # rows whose cost is zero go all the way, by two events at once
    np.testing.assert_array_equal(path.events[bound[::2], 0], path.events[bound[1::2], 0])
    np.testing.assert_array_equal(path.breakpoints[bound[::2]], path.breakpoints[bound[1::2]])
    C = np.delete(path.breakpoints, bound[1::2])
    np.testing.assert_allclose(np.sort(vertices[:, moving] / vertices[:, 2]), C, rtol=1e-9)
    assert len(C) > 10


@pytest.mark.parametrize(
    ("start", "stop"), [((0.31, 1.52), (1.53, 0.2)), ((0.013, 0.02), (2.1, 0.7)), ((9.0, 3.0), (0.1, 40.0))]
)
@pytest.mark.parametrize("case", [forty, cases.lattice], ids=lambda case: case.__name__)
def test_a_segment_crosses_the_edges_of_the_atlas(case, start, stop):
    A, y, atlas = with_atlas(case)
    costs, events = crossings(atlas, np.cross([*start, 1], [*stop, 1]))
    t = (costs[:, 0] / costs[:, 2] - start[0]) / (stop[0] - start[0])
    inside = (t > 0) & (t < 1)
    assert inside.sum() > 5
    check_crossings(t[inside], events[inside], svmatlas.segment(A, y, start, stop))


@pytest.mark.parametrize("ratio", [0.0, 0.3, 1.0, np.inf])
@pytest.mark.parametrize("case", cases.TIED, ids=lambda case: case.__name__)
def test_no_gap_along_a_ray(case, ratio):
    A, y = case()
    path = svmatlas.ray(A, y, ratio=ratio)
    rng = np.random.default_rng(0)
    C = np.r_[10 ** rng.uniform(-5, 5, 30), path.breakpoints[:: max(1, path.breakpoints.size // 10)]]
    for values in zip(*path.costs(C), path.coef(C), path.intercept(C), path.alpha(C), strict=True):
        assert abs(relative_gap(A, y, *values)) < 1e-9


@pytest.mark.parametrize("case", [forty, *cases.TIED[:6]], ids=lambda case: case.__name__)
def test_no_gap_along_a_segment_and_back(case):
    A, y = case()
    for start, stop in SEGMENTS:
        path, back = svmatlas.segment(A, y, start, stop), svmatlas.segment(A, y, stop, start)
        np.testing.assert_allclose(path.breakpoints, 1 - back.breakpoints[::-1], rtol=0, atol=1e-11)
        np.testing.assert_array_equal(path.events, back.events[::-1])
        assert path.costs(0) == start
        assert path.costs(1) == stop
        t = np.r_[0.01:0.99:7j]
        for values in zip(*path.costs(t), path.coef(t), path.intercept(t), path.alpha(t), strict=True):
            assert abs(relative_gap(A, y, *values)) < 1e-9


def test_a_radial_segment_is_a_piece_of_the_ray():
    A, y = generic(40, 4, 2)
    whole, piece = svmatlas.ray(A, y, ratio=2.0), svmatlas.segment(A, y, (0.2, 0.1), (6.0, 3.0))
    inside = (whole.breakpoints > 0.1) & (whole.breakpoints < 3.0)
    assert inside.sum() > 5
    np.testing.assert_allclose(0.1 + 2.9 * piece.breakpoints, whole.breakpoints[inside], rtol=1e-11)
    np.testing.assert_array_equal(piece.events, whole.events[inside])


@pytest.mark.parametrize("ratio", [0.0, 0.5, np.inf])
def test_the_end_of_a_ray_cuts_it(ratio):
    A, y = generic(40, 4, 3)
    whole, part = svmatlas.ray(A, y, ratio=ratio), svmatlas.ray(A, y, ratio=ratio, C_max=0.2)
    assert (whole.start, whole.stop, part.stop) == (0, np.inf, 0.2)
    n = np.sum(whole.breakpoints < 0.2)
    assert 0 < n < whole.breakpoints.size
    np.testing.assert_array_equal(part.breakpoints, whole.breakpoints[:n])
    np.testing.assert_array_equal(part.events, whole.events[:n])
    np.testing.assert_array_equal(part.coef(0.2), whole.coef(0.2))


def test_solutions_are_affine_between_breakpoints():
    A, y = generic(40, 4, 4)
    path = svmatlas.ray(A, y, ratio=0.7)
    for k in range(0, path.breakpoints.size - 1, 5):
        a, b = path.breakpoints[k : k + 2]
        for function in (path.alpha, path.coef, path.intercept):
            np.testing.assert_allclose(function((a + b) / 2), (function(a) + function(b)) / 2, rtol=1e-8, atol=1e-11)


def test_the_partition_is_that_of_the_solution():
    A, y = generic(200, 3, 5)
    path = svmatlas.ray(A, y, ratio=1.5)
    assert path.breakpoints.size > walk.STRIDE / 2
    for C in (path.breakpoints[:-1] + path.breakpoints[1:])[::9] / 2:
        margin, inside, outside = path.partition(C)
        score = np.where(y == 1, 1, -1) * (A @ path.coef(C) + path.intercept(C))
        np.testing.assert_allclose(score[margin], 1, rtol=1e-9)
        assert np.all(score[inside] < 1 + 1e-9)
        assert np.all(score[outside] > 1 - 1e-9)
        assert margin.size + inside.size + outside.size == 200


def test_swapping_labels_inverts_the_ratio():
    A, y = generic(30, 4, 6)
    a, b = svmatlas.ray(A, y, ratio=4.0), svmatlas.ray(A, 1 - y, ratio=0.25)
    np.testing.assert_allclose(a.breakpoints * 4, b.breakpoints, rtol=1e-10)
    np.testing.assert_array_equal(a.events, b.events)
    np.testing.assert_allclose(a.coef(0.3), -b.coef(1.2), rtol=1e-10)


def test_weight_two_is_a_repeated_row():
    A, y = generic(15, 4, 7)
    weight = np.ones(15)
    weight[[2, 7]] = 2
    a = svmatlas.ray(A, y, sample_weight=weight)
    b = svmatlas.ray(np.vstack([A, A[[2, 7]]]), np.r_[y, y[[2, 7]]])
    np.testing.assert_allclose(a.breakpoints, b.breakpoints, rtol=1e-10)
    np.testing.assert_array_equal(a.events, b.events)


@pytest.mark.parametrize("ratio", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("decimals", [None, 1], ids=["generic", "tied"])
def test_following_the_points_nearby_changes_nothing(ratio, decimals, monkeypatch):
    A, y = generic(300, 5, 8)
    A = A if decimals is None else np.round(A, decimals)
    paths = []
    for size in (32, 10**6):
        monkeypatch.setattr(SETTINGS, "walk_points", size)
        paths.append(svmatlas.ray(A, y, ratio=ratio))
    np.testing.assert_array_equal(paths[0].events, paths[1].events)
    np.testing.assert_allclose(paths[0].breakpoints, paths[1].breakpoints, rtol=1e-10)


def test_state_at_is_the_piece_of_the_atlas(small):
    A, y, _ = small
    atlas = explore_pieces(A, y)
    problem = make_problem(A, y, 1.0, None, 0)
    rng = np.random.default_rng(0)
    for p, q in 10 ** rng.uniform(-3, 3, (50, 2)):
        state, piece = state_at(problem, p, q), atlas._locator(problem.homogeneous(np.array([p]), np.array([q])))
        np.testing.assert_array_equal(state, atlas._split_states(piece)[0])
        assert set(np.flatnonzero(state == 2)) <= set(atlas.partition(atlas.locate(p, q)).margin)
    assert np.all(state_at(problem, 0, 0) == 1)


@pytest.mark.parametrize(
    "case",
    [forty, cases.lattice, cases.binary, cases.separable, cases.as_many_columns_as_rows],
    ids=lambda case: case.__name__,
)
def test_state_at_is_the_end_of_a_walk(case, monkeypatch):
    """Whether the partition was guessed and checked, or walked to."""
    problem = make_problem(*case(), 1.0, None, 0)
    costs = [(1e-3, 1e-3), (0.03, 0.5), (2.0, 0.1), (7.0, 9.0), (0.0, 0.4), (1e9, 1e8), (1e-300, 1e-290)]
    states = [state_at(problem, *pair) for pair in costs]
    monkeypatch.setattr(walk, "guess", lambda *_: None)
    for pair, state in zip(costs, states, strict=True):
        np.testing.assert_array_equal(state_at(problem, *pair), state)


def test_guesses_are_good_and_checked(monkeypatch):
    problem = make_problem(*cases.as_many_columns_as_rows(), 1.0, None, 0)
    monkeypatch.setattr(walk.Walker, "finish", None)  # no walk
    state = state_at(problem, 0.5, 0.2)
    assert np.sum(state == 2) > 10
    wrong = state.copy()
    wrong[np.flatnonzero(state == 2)[0]] = 0
    monkeypatch.setattr(walk, "guess", lambda *_: wrong)
    with pytest.raises(TypeError):
        state_at(problem, 0.5, 0.2)


@settings(max_examples=60)
@given(data=st.data())
def test_hostile_data(data):
    """Few points on a small lattice, costs on a small lattice: everything coincides with everything."""
    d = data.draw(st.integers(1, 3), label="d")
    n = data.draw(st.integers(2, 12), label="n")
    row = st.tuples(*[st.sampled_from([-1.0, 0.0, 0.1, 0.5, 1.0, 2.0])] * d)
    A = np.array(data.draw(st.lists(row, min_size=n, max_size=n), label="X"))
    y = np.array([0, 1, *data.draw(st.lists(st.integers(0, 1), min_size=n - 2, max_size=n - 2), label="y")])
    bias = data.draw(st.sampled_from([0.0, 0.01, 1.0]), label="bias")
    cost = st.sampled_from([0.0, 0.125, 0.5, 1.0, 2.0])
    start, stop = data.draw(st.lists(st.tuples(cost, cost), min_size=2, max_size=2, unique=True), label="ends")
    ratio = data.draw(st.sampled_from([0.0, 0.5, 1.0, np.inf]), label="ratio")
    for path in (
        svmatlas.ray(A, y, ratio=ratio, bias=bias),
        svmatlas.segment(A, y, start, stop, bias=bias),
    ):
        t = np.linspace(0.03, 0.97, 5)
        for values in zip(*path.costs(t), path.coef(t), path.intercept(t), path.alpha(t), strict=True):
            assert abs(relative_gap(A, y, *values, bias=bias)) < 1e-9


def test_scalars_and_arrays():
    path = svmatlas.ray(X, Y)
    assert isinstance(path.intercept(1), float)
    assert path.alpha(1).shape == (5,)
    assert path.coef(1).shape == (2,)
    C = [0.1, 1.0, 7.0]
    assert path.alpha(C).shape == (3, 5)
    assert path.coef(C).shape == (3, 2)
    assert path.intercept(C).shape == (3,)
    assert path.coef([]).shape == (0, 2)
    assert path.alpha([]).shape == (0, 5)
    np.testing.assert_array_equal(path.coef(C)[1], path.coef(1))
    assert not path.coef(0).any()
    assert path.intercept(0) == 0
    assert path.events.shape == (path.breakpoints.size, 2)
    assert "events" in repr(path)
    with pytest.raises(ValueError, match="read-only"):
        path.breakpoints[0] = 1


@pytest.mark.parametrize("ratio", [1e-100, 1e-9, 1e100])
def test_extreme_ratios(ratio):
    A, y = generic(20, 3, 0)
    path = svmatlas.ray(A, y, ratio=ratio)
    C = path.breakpoints[::3]
    for values in zip(*path.costs(C), path.coef(C), path.intercept(C), path.alpha(C), strict=True):
        assert abs(relative_gap(A, y, *values)) < 1e-9


def test_rows_of_zeros_have_no_events():
    path = svmatlas.ray(np.zeros((4, 2)), [0, 1, 0, 1], bias=0.0)
    assert path.breakpoints.size == 0
    np.testing.assert_array_equal(path.alpha(3.0), 3)
    assert not path.coef(3.0).any()


@pytest.mark.parametrize("C", [-1, np.nan, np.inf, [[1]], [1, 3]])
def test_bad_parameters(C):
    with pytest.raises(ValueError, match="C "):
        svmatlas.ray(X, Y, C_max=2).coef(C)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ratio": -1}, "ratio must be"),
        ({"ratio": np.nan}, "ratio must be"),
        ({"ratio": 1e-200}, "ratio must be"),
        ({"C_max": 0}, "C_max must be positive"),
        ({"C_max": np.nan}, "C_max must be positive"),
        ({"C_max": 1e300, "ratio": 1e50}, "makes the costs infinite"),
        ({"bias": -1}, "bias"),
        ({"sample_weight": np.zeros(5)}, "zero for all rows of a class"),
    ],
)
def test_bad_rays(arguments, message):
    with pytest.raises(ValueError, match=message):
        svmatlas.ray(X, Y, **arguments)


@pytest.mark.parametrize(
    ("start", "stop", "message"),
    [
        (1, (1, 2), "start must be a pair"),
        ((1, 2), (1, 2, 3), "stop must be a pair"),
        ((1, 2), (1, np.inf), "stop: C_neg = inf is not a finite cost"),
        ((-1, 2), (1, 2), "start: C_pos = -1.0 is not a finite cost"),
        ((1, 2), (1, 2), "must differ"),
        ((1e300, 1), (1, 1e300), "must not differ by more than a factor of 1e\\+100"),
    ],
)
def test_bad_segments(start, stop, message):
    with pytest.raises(ValueError, match=message):
        svmatlas.segment(X, Y, start, stop)


def test_progress_bar(capsys):
    path = svmatlas.ray(X, Y, progress=True)
    assert f"{path.breakpoints.size} events" in capsys.readouterr().err
