"""tie_test.py against Fractions: facets that keep their area without jitter, and points that may be tied."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from svmatlas.engine import tie_test
from svmatlas.engine.checking import CLEAR
from svmatlas.engine.workspace import MARGIN
from tests import tiny
from tests.engine import Exact, closed_facets, cross, dot, fractions, gaussian, task_of

TIED = (tiny.lattice, tiny.one_hot, tiny.repeated_rows, tiny.one_feature, tiny.both_labels, tiny.touching)
DATA = {"gaussian": gaussian(12, 2), "unscaled": gaussian(9, 2, scale=1e4)} | {case.__name__: case() for case in TIED}
UNTIED = ("repeated_rows", "touching")
"""Without facets that hold tied points, as equal rows are one point."""


@pytest.fixture(params=DATA)
def case(request):
    task, data, region = task_of(*DATA[request.param])
    still = data._replace(target_jitter=0 * data.target_jitter, weight_jitter=0 * data.weight_jitter)
    return task, data, region, still


def has_area(exact, codes, region):
    """Whether the lines of some codes leave a part of the triangle with area, without jitter."""
    corners = [fractions(v) for v in region.corners]
    for h in (exact.line(c) for c in codes if c >= 0):
        values, kept = [dot(h, v) for v in corners], []
        for j, (value, v) in enumerate(zip(values, corners, strict=True)):
            after, w = values[(j + 1) % len(values)], corners[(j + 1) % len(corners)]
            kept += [v] * (value >= 0)
            if value * after < 0:
                share = value / (value - after)
                kept.append([(1 - share) * x + share * y for x, y in zip(v, w, strict=True)])
        corners = kept
    return any(dot(corners[0], cross(a, b)) != 0 for a in corners for b in corners)


def test_what_survives_has_area_without_jitter(case):
    """On tiny data numbers are either zero or far larger than the jitter, so that the bound tells all facets apart."""
    task, data, region, still = case
    survived = []
    for state, codes in closed_facets(task, data):
        survived.append(bool(tie_test.survives(task)))
        assert survived[-1] == has_area(Exact(still, state), codes, region)
    assert any(survived)


def test_a_facet_as_wide_as_the_jitter_does_not_survive():
    """A strip between two rows that are 2^-30 apart, thousands of times the jitter; and less than the jitter apart."""
    for gap, wide in ((2.0**-30, True), (2.0**-46, False)):
        X, y = [[-1.0, 0.0], [-1.0 - gap, 0.0], [1.0, 0.25], [0.5, 3.0]], [0, 0, 1, 1]
        task, data, _ = task_of(X, y, 1, None)
        narrow = []
        for _ in closed_facets(task, data, 200):
            n = task.polygon.n_corners
            if tie_test.is_suspect(task.edges.corner, n, tie_test.WIDE) and not tie_test.is_far(task.edges.corner, n):
                narrow.append(bool(tie_test.survives(task)))
        assert narrow
        assert set(narrow) == {wide}


def test_nobody_is_tied_but_who_may_be(case, request):
    """Points whose lines vanish without jitter are among those that corners do not rule out, and near the margin."""
    task, data, region, still = case
    answers, n_tied = [], 0
    for state, codes in closed_facets(task, data):
        exact = Exact(still, state)
        if not has_area(exact, codes, region):
            continue
        tied = {i for i in np.flatnonzero(state != MARGIN).tolist() if not any(map(Fraction, exact.line(2 * i)))}
        edges, n = task.edges, len(codes)
        for j in range(n):
            edges.sign[j] = codes[j] >= 0 and task.factor.slot[codes[j] >> 1] >= 0
            near = edges.corner[j, 2] > tie_test.THIN
            edges.checked[j] = CLEAR if near and not tie_test.is_crowded(task, j) else 1
        who = tie_test.who_may_be_tied(task)
        entering = {codes[j] >> 1 for j in range(n) if tie_test.is_edge_of_clear(task, j)}
        assert tied <= {tie_test.NOBODY: set(), tie_test.EDGES: entering}.get(who, tied)
        assert tie_test.may_hold_tied(task, who) == bool(tied)  # it may say so of others, but not on tiny data
        answers.append(who)
        n_tied += bool(tied)
    assert tie_test.NOBODY in answers
    assert (n_tied > 0) == (request.node.callspec.params["case"] not in UNTIED)
