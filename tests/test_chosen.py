"""Proofs of selections: what is decided in a box is so at all of its costs; what is wrong with a proof is found, by place."""

from __future__ import annotations

import json
import zipfile
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import svmatlas
from svmatlas.choose.proof import joined
from svmatlas.cli.main import main
from svmatlas.proof.ball import FoldRows
from svmatlas.proof.cells import divided
from svmatlas.proof.cover import find_hole
from svmatlas.proof.selection import corners_of, read_selection
from svmatlas.support.settings import SETTINGS
from tests import brute, cases

RNG = np.random.default_rng
INF = np.inf
REGION = ((0.001, 10.0), (0.001, 10.0))


def mixed(n, seed):
    """A table with a binary column, one of five values, and one that is large."""
    rng = RNG(seed)
    X = np.column_stack([rng.normal(size=n), rng.integers(0, 2, n), rng.integers(0, 5, n), 100.0 * rng.normal(size=n)])
    return X, (X[:, 0] + X[:, 1] + rng.normal(size=n) > 0.5).astype(int)


# ----------------------------------------------------------------------------------------------------------------------
# Boxes


@pytest.mark.parametrize("bias", [1.0, 0.0])
@pytest.mark.parametrize("spoilt", [0.0, 1e-9, 1e-4])
def test_rows_that_models_at_corners_decide_are_decided(spoilt, bias):
    """At random costs of random boxes; also if the dual variables at the corners are not those of optimal models."""
    rng, n_decided = RNG(3), 0
    for trial in range(6):
        X, y = mixed(40, trial)
        X[:, 3] /= 100.0 ** (trial % 2)
        weight, train = rng.uniform(0.5, 2.0, 40), np.arange(40) % 3 != 1
        given_rows = X[train], y[train] == 1, weight[train]
        low, width = 10.0 ** rng.uniform(-3, 1, 2), 10.0 ** rng.uniform(0, rng.choice([0.03, 0.3, 1.0]), 2)
        box = tuple((a, a * b) for a, b in zip(low.tolist(), width.tolist(), strict=True))
        atlas = svmatlas.explore(X[train], y[train], bias=bias, sample_weight=weight[train], region=box)
        costs = np.array(corners_of(box))
        bound = weight[train] * np.where(y[train] == 1, costs[:, :1], costs[:, 1:])
        shares = np.array([atlas.alpha(p, q) for p, q in costs]) / bound
        shares = np.clip(shares + spoilt * rng.normal(size=shares.shape), 0.0, 1.0)
        for some in (lambda Z: Z, csr_array):
            rows = FoldRows(some(X[train]), *given_rows[1:], some(X[~train]), bias)
            found = rows.decide(costs[None], shares[None])
            n_decided += int(np.sum(found.positive | found.negative))
            for part in rng.uniform(size=(6, 2)):
                value = atlas.decision_function(X[~train], *(low * (1 + part * (width - 1))))
                assert np.all(value[found.positive[0]] > 0)
                assert np.all(value[found.negative[0]] < 0)
    assert n_decided > 0


def test_rows_of_zeros_are_negative_without_a_bias():
    rows = FoldRows(np.array([[1.0], [-2.0]]), np.array([True, False]), np.ones(2), np.array([[0.0], [1.0]]), 0.0)
    costs = np.array([corners_of(((0.1, 0.2), (0.1, 0.2)))])
    found = rows.decide(costs, np.ones((1, 4, 2)))
    assert found.negative.tolist() == [[True, False]]
    assert found.positive.tolist() == [[False, True]]


def cut(rng, box, n):
    """A box cut n times, at random."""
    boxes = [box]
    for _ in range(n):
        k, axis = rng.integers(len(boxes)), rng.integers(2)
        old = boxes.pop(k)
        low, high = old[axis]
        middle = low + 1.0 if high == INF else rng.uniform(low, high)
        for part in ((low, middle), (middle, high)):
            boxes.append((part, old[1]) if axis == 0 else (old[0], part))
    return boxes


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(0, 30), st.booleans())
def test_a_hole_is_found(seed, n, infinite):
    rng = RNG(seed)
    region = ((0.5, 2.0), (0.0, INF if infinite else 3.0))
    boxes = cut(rng, region, n)
    assert find_hole(region, boxes) is None
    assert find_hole(region, joined(boxes)) is None
    k = int(rng.integers(len(boxes)))
    hole = find_hole(region, boxes[:k] + boxes[k + 1 :])
    assert hole is not None
    assert all(low <= a < b <= high for (a, b), (low, high) in zip(hole, boxes[k], strict=True))


def test_boxes_that_touch_are_joined():
    edges = [0.0, 1.0, 2.0, INF]
    boxes = list(product(pairwise(edges), pairwise(edges)))
    assert joined(boxes) == [((0.0, INF), (0.0, INF))]
    assert len(joined(boxes[:4] + boxes[5:])) == 4


# ----------------------------------------------------------------------------------------------------------------------
# Whole proofs


@pytest.fixture(scope="module")
def chosen(tmp_path_factory):
    """A selection with boxes that were dropped and boxes that were explored."""
    X, y = mixed(36, 5)
    path = tmp_path_factory.mktemp("proof") / "chosen.proof"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SETTINGS, "maps_share", INF)
        selection = svmatlas.select(X, y, cv=3, region=REGION, proof=path)
    return path, selection, X, y


def changed(path, blobs=None, **claims):
    """The same proof with other claims, or other files in it."""
    other = path.with_name("changed.proof")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(other, "w") as new:
        for name in old.namelist():
            blob = (blobs or {}).get(name, old.read(name))
            new.writestr(name, json.dumps({**json.loads(blob), **claims}) if name == "selection.json" else blob)
    return other


def parts_of(path, kind):
    """All parts, and the numbers of those with models or with maps."""
    parts = read_selection(path)["parts"]
    return parts, [k for k, part in enumerate(parts) if kind in part]


def test_a_selection_is_certified(chosen):
    path, selection, X, y = chosen
    plain = svmatlas.select(X, y, cv=3, region=REGION)
    assert selection.certified
    assert selection.best_score == pytest.approx(plain.best_score, abs=1e-12)
    found = svmatlas.certify(path, X, y)
    assert found.ok, str(found)
    assert found.best_score == pytest.approx(selection.best_score, abs=1e-12)
    assert found.upper_bound == selection.upper_bound
    assert found.n_boxes > 0
    assert found.n_explored > 0


def test_a_missing_box_is_found(chosen):
    path, _, X, y = chosen
    parts = read_selection(path)["parts"]
    for k in range(len(parts)):
        found = svmatlas.certify(changed(path, parts=parts[:k] + parts[k + 1 :]), X, y)
        assert "is in no part" in found.faults[0]
        assert found.upper_bound == INF


@pytest.mark.parametrize("kind", ["models", "maps"])
def test_a_bound_that_is_too_low_is_found(chosen, kind):
    path, selection, X, y = chosen
    parts, which = parts_of(path, kind)
    k = which[0]
    lower = [*parts[:k], {**parts[k], "bound": 0.3}, *parts[k + 1 :]]
    found = svmatlas.certify(changed(path, parts=lower), X, y)
    assert "the box" in found.faults[0]
    assert "higher than 0.3" in found.faults[0]
    found = svmatlas.certify(changed(path, upper_bound=selection.best_score - 0.01), X, y)
    assert "its bound is above that of all" in found.faults[0]


def test_models_and_boxes_belong_together(chosen):
    """Models of other costs, other dual variables, a larger box, a box without a reason: none is believed."""
    path, _, X, y = chosen
    said, (parts, which) = read_selection(path), parts_of(path, "models")
    k = which[0]

    def with_part(**more):
        return changed(path, parts=[*parts[:k], {**parts[k], **more}, *parts[k + 1 :]])

    (a, b), q = parts[k]["box"]
    wrong = [
        with_part(models=parts[k]["models"][1:] + parts[k]["models"][:1]),
        with_part(models=[10**6] * 4),
        with_part(box=[[a, 2 * b], q]),
        with_part(models=[]),
        changed(path, models=[[p * 1.01, q] for p, q in said["models"]]),
        changed(path, parts=[{"box": said["region"], "bound": said["best_score"]}]),
    ]
    for other in wrong:
        assert "the box" in svmatlas.certify(other, X, y).faults[0]
    zeros = {f"models.fold{j}": bytes(8 * len(said["models"]) * len(train)) for j, (train, _) in enumerate(said["folds"])}
    found = svmatlas.certify(changed(path, zeros), X, y)
    assert any("may score" in fault for fault in found.faults)


def test_maps_of_other_parts_are_refused(chosen):
    path, _, X, y = chosen
    with zipfile.ZipFile(path) as archive:
        best = archive.read("best.fold0.atlas")
    found = svmatlas.certify(changed(path, {"part0.fold0.atlas": best}), X, y)
    assert "not of the whole box" in found.faults[0]


def test_what_is_missing_is_named(chosen):
    path, _, X, y = chosen
    folds, parts = read_selection(path)["folds"], read_selection(path)["parts"]
    (train, test), *others = folds
    for text, files, claims in (
        ("the proof lacks nowhere.fold0.atlas", {}, {"parts": [{**parts[0], "models": [], "maps": "nowhere"}, *parts[1:]]}),
        ("models.fold0 are not those of", {"models.fold0": bytes(8)}, {}),
        ("fold 0 holds out a row that it is trained on", {}, {"folds": [[train, [*test, train[0]]], *others]}),
        ("the file has no 'box'", {}, {"parts": [{"bound": 1.0}]}),
    ):
        with pytest.raises(svmatlas.ProofError, match=text):
            svmatlas.certify(changed(path, files, **claims), X, y)


def test_a_score_that_is_not_reached_is_refused(chosen):
    path, selection, X, y = chosen
    found = svmatlas.certify(changed(path, best_score=selection.best_score + 0.01, upper_bound=1.0), X, y)
    assert "the score at costs" in found.faults[0]
    said = read_selection(path)
    other = svmatlas.certify(changed(path, scoring="f1"), X, y)
    assert not other.ok
    folds = [[said["folds"][0][0][1:] + said["folds"][0][0][:1], said["folds"][0][1]], *said["folds"][1:]]
    assert not svmatlas.certify(changed(path, folds=folds), X, y).ok


def test_other_data_are_refused(chosen):
    path, _, X, y = chosen
    flipped = y.copy()
    flipped[7] = 1 - flipped[7]
    assert not svmatlas.certify(path, X, flipped).ok
    assert not svmatlas.certify(path, X + 1e-9, y).ok
    assert not svmatlas.certify(path, X, y, sample_weight=np.full(len(y), 2.0)).ok
    with pytest.raises(svmatlas.ProofError, match="give X and y"):
        svmatlas.certify(path)
    with pytest.raises(svmatlas.ProofError, match="36 rows"):
        svmatlas.certify(path, X[1:], y[1:])


@pytest.mark.parametrize("more", [{"tolerance": 0.1}, {"time_budget": 2.0}, {"rule": "one_se"}], ids=str)
def test_a_search_that_ended_early_has_a_proof_of_its_bound(tmp_path, more, monkeypatch):
    monkeypatch.setattr(SETTINGS, "maps_share", INF)
    X, y = mixed(36, 6)
    weight = RNG(6).uniform(0.5, 2.0, 36)
    region = ((0.01, INF if "tolerance" in more else 10.0), (0.01, 10.0))
    arguments = {"cv": 3, "sample_weight": weight, "region": region}
    selection = svmatlas.select(X, y, **arguments, **more, proof=tmp_path / "early.proof")
    found = svmatlas.certify(tmp_path / "early.proof", X, y, sample_weight=weight)
    assert found.ok, str(found)
    assert found.upper_bound == selection.upper_bound
    whole = svmatlas.select(X, y, **arguments)
    assert selection.best_score - 1e-12 <= whole.best_score <= selection.upper_bound + 1e-12
    assert selection.upper_bound <= selection.best_score + more.get("tolerance", 1.0) + 1e-12


@pytest.mark.parametrize("seed", range(2))
def test_the_bound_is_that_of_brute_force(tmp_path, seed, monkeypatch):
    """All cells of all folds, one by one: none is better than what is proven."""
    monkeypatch.setattr(SETTINGS, "maps_share", INF)
    X, y = mixed(16, seed)
    y[:4] = 0, 1, 0, 1
    splits = [(np.flatnonzero(np.arange(16) % 2 != k), np.flatnonzero(np.arange(16) % 2 == k)) for k in range(2)]
    region = ((0.01, 10.0), (0.01, 10.0))
    svmatlas.select(X, y, cv=splits, scoring="accuracy", region=region, proof=tmp_path / "tiny.proof")
    found = svmatlas.certify(tmp_path / "tiny.proof", X, y)
    assert found.ok, str(found)
    best, *_ = brute.best_cells(X, y, splits, lambda tn, fp, fn, tp: (tp + tn) / (tn + fp + fn + tp), region)
    assert found.upper_bound == pytest.approx(best, abs=1e-12)


TIED = {
    "binary": lambda rng: rng.integers(0, 2, (90, 4)).astype(float),
    "one-hot": lambda rng: np.concatenate([np.eye(k)[rng.integers(0, k, 90)] for k in (3, 4)], axis=1),
    "repeated": lambda rng: rng.normal(size=(20, 2))[rng.integers(0, 20, 90)],
    "decimals": lambda rng: np.round(2.0 * rng.normal(size=(90, 1)), 1),
}


@pytest.mark.parametrize("scoring", ["matthews_corrcoef", "precision"])
@pytest.mark.parametrize("kind", TIED)
def test_a_selection_on_ties_is_certified(kind, scoring, tmp_path):
    """Equal held-out rows of both classes have one curve, and curves meet in one point: not all rows beside it are right."""
    rng = RNG(1)
    X = TIED[kind](rng)
    value = X @ rng.normal(size=X.shape[1])
    y = (value + value.std() * rng.normal(size=90) > np.median(value)).astype(int)
    selection = svmatlas.select(X, y, cv=3, scoring=scoring, proof=tmp_path / "tied.proof")
    found = svmatlas.certify(tmp_path / "tied.proof", X, y)
    assert found.ok, str(found)
    assert found.upper_bound == selection.best_score
    lower = {"best_score": selection.best_score, "upper_bound": selection.best_score - 1e-6}
    parts = [{**part, "bound": selection.best_score - 1e-6} for part in read_selection(tmp_path / "tied.proof")["parts"]]
    assert not svmatlas.certify(changed(tmp_path / "tied.proof", **lower, parts=parts), X, y).ok


@pytest.mark.parametrize("value", [0.0, 1e-14])
def test_curves_through_one_point_have_no_cell_between_them(value):
    """Three lines through a point make six cells of a triangle around it; the seventh is less than rounding, or has area."""
    lines = np.array([[1.0, -1.0, 0.0], [1.0, 0.0, -1.0], [0.0, 1.0, -1.0 - value]])
    for line, expected in ((lines[2], 6), (lines[2] - [0.0, 0.0, 0.01], 7)):
        parts = [(np.eye(3), np.zeros(3, dtype=bool))]
        for i, own in enumerate([*lines[:2], line]):
            parts = [part for old in parts for part in divided(*old, i, own, np.abs(own))]
        assert len({tuple(found) for _, found in parts}) == len(parts) == expected


def test_the_commands_of_a_selection(tmp_path, capsys):
    X, y = cases.gaussian(8, 8, 2, 1.0)
    data, proof = tmp_path / "data.npz", tmp_path / "chosen.proof"
    np.savez(data, X=X, y=y)
    assert main(["select", str(data), "--cv", "2", "--proof", str(proof), "--quiet"]) == 0
    assert main(["certify", str(proof), "--data", str(data)]) == 0
    assert "certified: a selection, 2 folds" in capsys.readouterr().out


def test_a_proof_that_cannot_be_is_refused_before_the_search(tmp_path):
    X, y = cases.gaussian(6, 6, 2, 1.0)
    for more in ({"kernel": "rbf"}, {"scoring": lambda tn, fp, fn, tp: tp + tn}, {"scoring": "roc_auc"}):
        with pytest.raises(ValueError, match="proof"):
            svmatlas.select(X, y, proof=tmp_path / "no.proof", **more)
