"""Files: an atlas comes back as it was, and a file that is not whole is never taken for one."""

from __future__ import annotations

import csv
import hashlib
import json
import os

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

import svmatlas
from svmatlas import FileError
from svmatlas.support.arrays import PREFIX
from tests import cases

LARGE = np.random.default_rng(0).normal(size=(12, 40))
ARRAYS = [
    "vertices", "edge_at", "edge_events", "edge_facets", "edge_vertices", "facet_layer", "facet_parent", "facet_at",
    "facet_edges", "facet_vertices",
]  # fmt: skip


def labels(n, kind):
    return {"numbers": np.arange(n) % 2, "text": np.where(np.arange(n) % 2, "yes", "no")}[kind]


@pytest.mark.parametrize(
    ("X", "arguments"),
    [
        (LARGE[:, :3], {"region": ((0.1, 2.0), (0.0, np.inf)), "sample_weight": np.arange(12) // 3}),
        (LARGE[:, :3], {"max_facets": 100}),
        (LARGE[:, :3], {"standardize": True, "feature_names": ["a", "b", "ü"]}),
        (np.round(LARGE[:, :2]), {}),
        (LARGE, {"bias": 0.3}),
        (sp.csr_array(LARGE * (LARGE > 1)), {}),
        (LARGE, {"kernel": "rbf"}),
        (LARGE @ LARGE.T, {"kernel": "precomputed"}),
    ],
    ids=["region", "partial", "standardized", "tied", "wide", "sparse", "rbf", "precomputed"],
)
@pytest.mark.parametrize("kind", ["numbers", "text"])
def test_an_atlas_comes_back_as_it_was(X, arguments, kind, tmp_path):
    atlas = svmatlas.explore(X, labels(12, kind), **arguments)
    atlas.save(tmp_path / "atlas")
    other = svmatlas.load(tmp_path / "atlas")
    assert repr(other) == repr(atlas)
    assert other.region == atlas.region
    assert other.columns.names == atlas.columns.names
    np.testing.assert_array_equal(other.classes_, atlas.classes_)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(other, name), getattr(atlas, name))
    facets = np.arange(atlas.n_facets)
    np.testing.assert_array_equal(other._states(facets), atlas._states(facets))
    costs = [0.1, 0.5], [1e-3, 0.01]
    np.testing.assert_array_equal(other.alpha(*costs), atlas.alpha(*costs))
    np.testing.assert_array_equal(other.decision_function(X, *costs), atlas.decision_function(X, *costs))
    assert str(other.validate(n_costs=20)) == str(atlas.validate(n_costs=20))


def test_labels_that_are_python_strings(tmp_path):
    atlas = svmatlas.explore(LARGE[:, :2], labels(12, "text").astype(object))
    atlas.save(tmp_path / "atlas")
    classes = svmatlas.load(tmp_path / "atlas").classes_
    assert classes.dtype == object
    assert classes.tolist() == ["no", "yes"]


def test_a_callable_is_not_saved(tmp_path):
    atlas = svmatlas.explore(LARGE, labels(12, "numbers"), kernel=lambda X, Y: X @ Y.T)
    with pytest.raises(ValueError, match="callable"):
        atlas.save(tmp_path / "atlas")
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "atlas"
    svmatlas.explore(*cases.gaussian(5, 5, 2, 0.5)).save(path)
    return path.read_bytes()


def test_every_altered_byte_is_noticed(saved, tmp_path):
    rng = np.random.default_rng(1)
    path = tmp_path / "altered"
    for place in np.r_[np.arange(64), rng.integers(0, len(saved), 400), len(saved) - 1]:
        altered = bytearray(saved)
        altered[place] ^= 1 << rng.integers(8)
        path.write_bytes(altered)
        with pytest.raises(FileError, match=str(path)):
            svmatlas.load(path)


def test_every_cut_is_noticed(saved, tmp_path):
    path = tmp_path / "cut"
    for end in [*range(64), *np.random.default_rng(2).integers(0, len(saved), 200).tolist(), len(saved) - 1]:
        path.write_bytes(saved[:end])
        with pytest.raises(FileError, match=r"not an atlas|cut off"):
            svmatlas.load(path)
    path.write_bytes(saved + b"\0")
    with pytest.raises(FileError, match="has grown"):
        svmatlas.load(path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 a zip", b"SVMATLAS", b"SVMATLAS" + b"\xff" * 40])
def test_foreign_files(content, tmp_path):
    path = tmp_path / "foreign"
    path.write_bytes(content)
    with pytest.raises(FileError):
        svmatlas.load(path)
    with pytest.raises(FileNotFoundError):
        svmatlas.load(tmp_path / "nowhere")


def with_header(saved, change):
    """The file with another header, its digest right."""
    length = int.from_bytes(saved[8:16], "little")
    header = json.loads(saved[PREFIX : PREFIX + length])
    change(header)
    text = json.dumps(header).encode()
    digest = hashlib.blake2b(text, digest_size=32).digest()
    return saved[:8] + len(text).to_bytes(8, "little") + digest + text + saved[PREFIX + length :]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: h.update(format=1), "has format 1, this version of svmatlas reads format 3: explore again"),
        (lambda h: h["parameters"].update(names=["a"]), "no atlas that this version can read"),
        (lambda h: h["arrays"].update({"columns.scale": h["arrays"]["mesh.facet_layer"]}), "do not belong together"),
        (lambda h: h["arrays"]["mesh.vertices"].update(shape=[2**33, 2**31]), "no atlas that this version can read"),
        (lambda h: h["arrays"]["mesh.vertices"].update(at=2**70), "no atlas that this version can read"),
        (lambda h: h.pop("format"), "no atlas that this version can read"),
        (lambda h: h.pop("body"), "no atlas that this version can read"),
        (lambda h: h.update(arrays=[]), "no atlas that this version can read"),
        (lambda h: h["parameters"].update(rank=9), "do not belong together"),
        (lambda h: h["arrays"].pop("mesh.vertices"), "no atlas that this version can read"),
        (lambda h: h["arrays"].pop("split.vertices"), "no atlas that this version can read"),
        (lambda h: h["arrays"].pop("canonical.tied"), "no atlas that this version can read"),
        (lambda h: h["arrays"].update({"canonical.piece": h["arrays"]["canonical.tied"]}), "do not belong together"),
        (lambda h: h["arrays"].update({"split.facet_parent": h["arrays"]["split.facet_layer"]}), "do not belong together"),
        (lambda h: h["parameters"].pop("bias"), "no atlas that this version can read"),
        (lambda h: h["arrays"]["mesh.vertices"].update(type="|O"), "no atlas that this version can read"),
        (lambda h: h["arrays"]["mesh.vertices"].update(shape=[10**9, 3]), "no atlas that this version can read"),
        (lambda h: h["arrays"].update({"mesh.facet_parent": h["arrays"]["mesh.facet_layer"]}), "do not belong together"),
    ],
)
def test_headers_of_others(saved, change, message, tmp_path):
    path = tmp_path / "other"
    path.write_bytes(with_header(saved, change))
    with pytest.raises(FileError, match=message):
        svmatlas.load(path)


def test_a_header_nested_beyond_all_measure(saved, tmp_path):
    text = b"[" * 100_000 + b"]" * 100_000
    prefix = saved[:8] + len(text).to_bytes(8, "little") + hashlib.blake2b(text, digest_size=32).digest()
    (tmp_path / "nested").write_bytes(prefix + text)
    with pytest.raises(FileError, match="no atlas that this version can read") as error:
        svmatlas.load(tmp_path / "nested")
    assert "\n" not in str(error.value)


def test_the_header_says_what_is_in_the_file(saved):
    length = int.from_bytes(saved[8:16], "little")
    header = json.loads(saved[PREFIX : PREFIX + length])
    assert header["format"] == 3
    assert header["package"] == f"svmatlas {svmatlas.__version__}"
    assert header["parameters"]["region"] == [[0.0, None], [0.0, None]]
    assert len(header["data"]) == 64


def test_the_hash_is_that_of_the_data(tmp_path):
    X, y = cases.gaussian(5, 5, 2, 0.5)
    hashes = []
    for k, (A, region) in enumerate([(X, None), (X, ((0, 1), (0, 1))), (X + 1, None)]):
        svmatlas.explore(A, y, region=region).save(tmp_path / str(k))
        content = (tmp_path / str(k)).read_bytes()
        hashes.append(json.loads(content[PREFIX : PREFIX + int.from_bytes(content[8:16], "little")])["data"])
    assert hashes[0] == hashes[1] != hashes[2]


def test_an_interrupted_save_leaves_the_old_file(saved, tmp_path, monkeypatch):
    path = tmp_path / "atlas"
    path.write_bytes(saved)
    atlas = svmatlas.explore(*cases.gaussian(6, 6, 2, 0.5))

    def fail(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(KeyboardInterrupt):
        atlas.save(path)
    assert path.read_bytes() == saved
    assert [p.name for p in tmp_path.iterdir()] == ["atlas"]


def test_a_loaded_atlas_survives_a_save_to_its_file(saved, tmp_path):
    path = tmp_path / "atlas"
    path.write_bytes(saved)
    atlas = svmatlas.load(path)
    expected = svmatlas.load(path).coef(1.0, 2.0)
    svmatlas.explore(*cases.gaussian(6, 6, 2, 0.5)).save(path)
    np.testing.assert_array_equal(atlas.coef(1.0, 2.0), expected)


def test_tables(small, tmp_path):
    _, _, atlas = small
    for form in ("csv", "parquet"):
        atlas.export(tmp_path / form, form)
    vertices, edges, facets = (pl.read_parquet(tmp_path / "parquet" / f"{t}.parquet") for t in ("vertices", "edges", "facets"))
    np.testing.assert_array_equal(vertices.select("p", "q", "l").to_numpy(), atlas.vertices)
    np.testing.assert_array_equal(edges.select("left_facet", "right_facet").to_numpy(), atlas.edge_facets)
    assert facets["vertices"][7].to_list() == atlas.facet_vertices[atlas.facet_at[7] : atlas.facet_at[8]].tolist()
    for column, k in (("rows", 0), ("types", 1)):
        assert edges[column].to_list() == [part.tolist() for part in np.split(atlas.edge_events[:, k], atlas.edge_at[1:-1])]
    for name, table in (("vertices", vertices), ("edges", edges), ("facets", facets)):
        with open(tmp_path / "csv" / f"{name}.csv", newline="") as file:
            head, *lines = csv.reader(file)
        assert head == table.columns
        assert len(lines) == table.height
    assert lines[7][head.index("vertices")].split() == [str(v) for v in facets["vertices"][7]]
    with pytest.raises(ValueError, match="format must be"):
        atlas.export(tmp_path, "xlsx")
