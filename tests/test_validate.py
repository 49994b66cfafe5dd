"""validate() finds what is broken, and says where."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import spence

import svmatlas
from svmatlas.atlas import validate
from svmatlas.atlas.log_area import log_share
from svmatlas.atlas.validate import _violation_exactly
from svmatlas.engine.arena import OPEN
from svmatlas.engine.exact import ExactProblem
from svmatlas.engine.workspace import INSIDE, MARGIN, OUTSIDE
from tests import cases


@pytest.fixture
def atlas():
    rng = np.random.default_rng(8)
    X, y = rng.normal(size=(20, 3)), np.arange(20) % 2
    return svmatlas.explore(X, y)


def broken(atlas, **arrays):
    """The report on an atlas with other arrays of its mesh."""
    return report_on(atlas, mesh=atlas._mesh._replace(**arrays))


def broken_pieces(atlas, **arrays):
    """The same for the map of the jittered data, from which the solutions come."""
    split = atlas._canonical.split
    return report_on(atlas, split=split._replace(mesh=split.mesh._replace(**arrays)))


def report_on(atlas, **parts):
    atlas._canonical = atlas._canonical._replace(**parts)
    report = atlas.validate(n_costs=20)
    assert not report.ok
    return report


def test_a_whole_atlas_is_valid(atlas):
    report = atlas.validate()
    assert report.ok
    assert str(report).startswith("valid, complete")


def test_open_edge(atlas):
    facets = atlas._mesh.edge_facets.copy()
    e = int(np.flatnonzero(facets[:, 1] >= 0)[3])
    facets[e, 1] = OPEN
    report = broken(atlas, edge_facets=facets)
    assert report.n_open_edges == 1
    assert f"edge {e} is open" in report.faults


def test_missing_vertex(atlas):
    vertices = atlas._mesh.facet_vertices.copy()
    vertices[50] = vertices[51]
    assert "has other ends there" in str(broken(atlas, facet_vertices=vertices))


@pytest.mark.parametrize("part", ["facets", "pieces"])
def test_moved_vertex(atlas, part):
    vertices = (atlas._mesh if part == "facets" else atlas._canonical.split.mesh).vertices.copy()
    inner = int(np.flatnonzero(np.all(vertices > 1e-3, axis=1))[10])
    vertices[inner, 0] *= 1.05
    report = (broken if part == "facets" else broken_pieces)(atlas, vertices=vertices)
    assert "has a corner where none of its edges meet" in str(report)
    assert (report.max_kkt > 1e-4) == ("violates a condition of optimality" in str(report)) == (part == "pieces")


def test_wrong_partition(atlas):
    split, facet = atlas._canonical.split, atlas._canonical.facet
    flips, piece = split.flips.copy(), int(np.flatnonzero(facet >= 0)[-1])
    flips[piece, 0] ^= 2
    report = report_on(atlas, split=split._replace(flips=flips))
    assert f"facet {facet[piece]} violates a condition of optimality" in str(report)


@pytest.mark.parametrize("case", ["gaussian", "binary"])
def test_points_that_are_left_out_violate_nothing(case, monkeypatch):
    """The ball says what looking at all points says, whichever point of a partition is put elsewhere."""
    X, y = cases.gaussian(150, 150, 3, 1.0) if case == "gaussian" else cases.binary()
    atlas = svmatlas.explore(X, y, region=((0.05, 0.06), (0.05, 0.06)))
    problem, split = atlas._problem, atlas._canonical.split
    pieces = np.flatnonzero(~split.left_out)[:40]
    pieces = pieces[pieces == np.arange(pieces[0], pieces[0] + pieces.size)]
    right, some, looked = split.states(pieces), validate._undecided, []
    monkeypatch.setattr(validate, "_undecided", lambda *arguments: looked.append(some(*arguments)) or looked[-1])

    def violations(states):
        return validate._violations(problem.data, atlas._region, split.mesh, int(pieces[0]), states, 1.0)

    def all_violations(states):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(validate, "_undecided", lambda data, *others: np.arange(data.norm.size))
            return violations(states)

    np.testing.assert_allclose(violations(right), all_violations(right), rtol=1e-9, atol=0)
    if case == "gaussian":
        assert looked[-1].size < problem.n_points / 2
    random = np.random.default_rng(0)
    for point in random.permutation(problem.n_points)[:40]:
        wrong = right.copy()
        k = random.integers(pieces.size)
        if wrong[k, point] == MARGIN:
            continue
        wrong[k, point] = INSIDE + OUTSIDE - wrong[k, point]
        np.testing.assert_allclose(violations(wrong), all_violations(wrong), rtol=1e-9, atol=0)
        assert point in looked[-1]
        assert violations(wrong)[k] > 1e-9


def test_a_tie_that_is_none(atlas):
    """A row that is not on the margin, said to be tied there."""
    canonical = atlas._canonical
    f = int(np.flatnonzero(np.diff(canonical.tied_at) == 0)[5])
    tied, at = np.insert(canonical.tied, canonical.tied_at[f], 0), canonical.tied_at.copy()
    tied[at[f]] = np.flatnonzero(atlas._states(np.array([f]))[0] == 1)[0]
    at[f + 1 :] += 1
    report = report_on(atlas, tied=tied, tied_at=at)
    assert f"facet {f} violates a condition of optimality" in str(report)


def test_exact_arithmetic_clears_no_wrong_facet(atlas):
    """What doubles find is looked at again exactly: a true facet stands, one of another partition does not."""
    mesh = atlas._canonical.split.mesh
    facets = np.arange(mesh.facet_layer.size)
    true = np.flatnonzero(atlas._canonical.facet >= 0)
    states, problem = atlas._split_states(facets), ExactProblem(atlas._problem.data, atlas._region)
    for f in true[::20]:
        assert _violation_exactly(atlas, problem, int(f), states[f]) < 1e-9
        other = states[mesh.edge_facets[mesh.facet_edges[mesh.facet_at[f]]].sum() - f]
        assert _violation_exactly(atlas, problem, int(f), other) > 1e-3


def test_doubled_vertex(atlas):
    vertices = np.vstack([atlas._mesh.vertices, atlas._mesh.vertices[:1]])
    report = broken(atlas, vertices=vertices)
    assert report.euler == 2
    assert "V - E + F is 2, not 1" in report.faults


def test_turned_facet(atlas):
    at, order = atlas._mesh.facet_at, np.arange(atlas._mesh.facet_vertices.size)
    order[at[9] : at[10]] = order[at[9] : at[10]][::-1]
    report = broken(atlas, facet_vertices=atlas._mesh.facet_vertices[order])
    assert "facet 9 is turned over" in report.faults


def test_threads_find_the_same(small):
    one, two = (small[2].validate(n_costs=10, n_jobs=n) for n in (None, 2))
    assert one == two


@pytest.mark.parametrize("low", [1e-6, 1e-2])
def test_the_logarithmic_area_below_a_line_is_a_dilogarithm(low):
    """All costs with C+ + C- <= 1: the integral of log(1 - t) / t is minus the dilogarithm of t."""
    ring = np.array([[0.0, 0, 1], [1, 0, 1], [0, 1, 1]])
    ends = np.stack([ring, np.roll(ring, -1, axis=0)], axis=1)
    area = spence(1 - low) - spence(low) - np.log(low) * np.log((1 - low) / low)
    share = log_share(ends, (low, 1e6), (low, 10.0))
    assert share == pytest.approx(area / (np.log(1e6 / low) * np.log(10.0 / low)), rel=1e-12)


def test_the_logarithmic_area_of_parts_adds_up():
    """A map reaches over the box on all sides, to zero and infinity; the box is cut in two."""
    part = svmatlas.explore(*cases.gaussian(12, 24, 2, 0.5), max_facets=200)
    border = np.any(part.edge_facets < 0, axis=1)
    ends = part.vertices[part.edge_vertices[border]]
    whole = log_share(ends, (1e-3, 10.0), (1e-2, 1e2))
    parts = [log_share(ends, pos, (1e-2, 1e2)) for pos in ((1e-3, 0.1), (0.1, 10.0))]
    assert whole == pytest.approx(np.mean(parts), abs=1e-13)
    facets = np.arange(part.n_facets)
    rings = [part.polygon(f) for f in facets]
    alone = [log_share(np.stack([np.roll(ring, 1, axis=0), ring], axis=1), (1e-3, 10.0), (1e-2, 1e2)) for ring in rings]
    assert whole == pytest.approx(sum(alone), abs=1e-10)
    assert min(alone) > -1e-12


def test_the_report_says_which_rows_were_checked():
    rng = np.random.default_rng(0)
    for d, rows in ((3, "given"), (90, "factored")):
        report = svmatlas.explore(rng.normal(size=(12, d)), np.arange(12) % 2).validate(n_costs=20)
        assert report.rows == rows
        assert report.n_user_costs == 20
        assert report.max_user_gap < 1e-9
        assert ("same inner products" in str(report)) == (rows == "factored")
