"""Random changes of a map: each changes what it says, and the checker has to refuse it and to name the place.

``trial(seed)`` makes one change. The maps are three small ones: without ties, with ties, and with a plateau, edges of several
events and infinite costs.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import numpy as np

import svmatlas
from svmatlas.proof.certify import _certify
from svmatlas.proof.reading import Map, read_map
from tests import cases


@cache
def maps():
    """A map without ties, one with, and one with a plateau, as files hold them, and their data."""
    lattice = np.array([(i, j) for i in range(3) for j in range(3)], float), np.arange(9) % 2
    binary = np.array([(i & 1, i >> 1 & 1, i >> 2 & 1) for i in range(16)], float), (np.arange(16) * 7 % 5 > 1).astype(int)
    inner, whole = ((0.1, 3.0), (0.1, 3.0)), None
    found = []
    for (X, y), region in ((cases.gaussian(6, 6, 2, 1.0), inner), (lattice, inner), (binary, whole)):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "map.atlas"
            svmatlas.explore(X, y, region=region).save(path)
            stored = read_map(path)
        found.append((Map({name: array.copy() for name, array in stored.arrays.items()}, stored.parameters), X, y))
    assert [stored.tied for stored, _, _ in found] == [False, True, True]
    assert [bool(stored.plateaus().any()) for stored, _, _ in found][-1]
    assert found[-1][0].arrays["canonical.joint"].size > 0
    return found


def check(stored, X, y):
    with np.errstate(all="ignore"):
        return _certify(stored, X, y, None, None, None)


NUMBERS = (
    "edge_code",
    "edge_facets",
    "edge_vertices",
    "facet_layer",
    "facet_parent",
    "facet_at",
    "facet_edges",
    "facet_vertices",
)


def with_array(stored, name, array):
    return stored._replace(arrays={**stored.arrays, name: array})


def difference(stored, changed):
    """What a mutation did."""
    names = [name for name in stored.arrays if not np.array_equal(stored.arrays[name], changed.arrays[name])]
    return [(name, np.argwhere(stored.arrays[name] != changed.arrays[name]).tolist()) for name in names]


def change_number(rng, stored):
    """Another value of one of the numbers that say how all hangs together."""
    mesh = "mesh" if stored.tied else "split"
    names = [f"{mesh}.{name}" for name in NUMBERS if not (stored.tied and name == "facet_parent")] + [
        "split.flips",
        "split.start",
        "problem.point",
        "problem.sign",
        "data.axis",
    ]
    names += ["canonical.piece", "canonical.tied", "canonical.joint_code"] if stored.tied else []
    name = names[rng.integers(len(names))]
    array = stored.arrays[name].copy()
    place = rng.integers(array.size)
    old = array.flat[place]
    while array.flat[place] == old:
        array.flat[place] = old + rng.integers(-3, 4) if rng.random() < 0.5 else rng.integers(-2, max(3, array.max() + 2))
    return with_array(stored, name, array)


def coordinates(vertices):
    """Places of coordinates that count: not zero, and not the only one of a corner at infinity."""
    return np.flatnonzero((vertices != 0) & (np.count_nonzero(vertices, axis=1) > 1)[:, None])


def flip_bit(rng, stored):
    """One bit of a vertex, or of a row or a weight, that counts: of the first 12 bits behind the point, or before it."""
    name = rng.choice(["mesh.vertices" if stored.tied else "split.vertices", "data.rows", "problem.weight"])
    array = stored.arrays[name].copy()
    bits = array.reshape(-1).view(np.uint64)
    place = rng.choice(coordinates(array) if name.endswith("vertices") else np.flatnonzero(array))
    bits[place] ^= np.uint64(1) << np.uint64(rng.integers(40 if name.endswith("vertices") else 0, 64))
    return with_array(stored, name, array)


def swap_facets(rng, stored):
    """The partitions of two pieces, by the steps to them; their order in a step says nothing."""
    flips = stored.arrays["split.flips"].copy()
    a, b = rng.choice(np.arange(1, len(flips)), 2, replace=False)
    flips[[a, b]] = flips[[b, a]]
    return None if sorted(flips[a]) == sorted(flips[b]) else with_array(stored, "split.flips", flips)


def move_vertex(rng, stored):
    name = "mesh.vertices" if stored.tied else "split.vertices"
    array = stored.arrays[name].copy()
    array.flat[rng.choice(coordinates(array))] *= 1 + 10.0 ** rng.uniform(-4, 0)
    return with_array(stored, name, array)


def drop_facet(rng, stored):
    """One facet less: its places are gone."""
    mesh = "mesh" if stored.tied else "split"
    f, at = rng.integers(stored.facets.n_facets), stored.arrays[f"{mesh}.facet_at"]
    arrays = dict(stored.arrays)
    for name in ("facet_edges", "facet_vertices"):
        arrays[f"{mesh}.{name}"] = np.delete(arrays[f"{mesh}.{name}"], np.arange(at[f], at[f + 1]))
    for name in ("facet_layer", "facet_parent"):
        arrays[f"{mesh}.{name}"] = np.delete(arrays[f"{mesh}.{name}"], f)
    arrays[f"{mesh}.facet_at"] = np.concatenate([at[: f + 1], at[f + 2 :] - (at[f + 1] - at[f])])
    return stored._replace(arrays=arrays)


def change_parameter(rng, stored):
    name = rng.choice(["region", "bias", "exponent", "cost_exponent"])
    value = stored.parameters[name]
    new = [[0.1, 3.0], [0.2, 3.0]] if name == "region" else value + int(rng.integers(1, 4))
    return stored._replace(parameters={**stored.parameters, name: new})


def flip_sign(rng, stored):
    """The sign of a coordinate, of an entry of a row, of a weight or of a label."""
    mesh = "mesh" if stored.tied else "split"
    name = rng.choice([f"{mesh}.vertices", "data.rows", "problem.weight", "problem.sign"])
    array = stored.arrays[name].copy()
    place = rng.choice(np.flatnonzero(array))
    array.flat[place] = -array.flat[place]
    return with_array(stored, name, array)


def shift_alpha(rng, stored):
    """The dual variable of one row in one piece, and in those that are reached from it: the set of its point says it."""
    flips = stored.arrays["split.flips"].copy()
    piece = rng.integers(1, len(flips))
    old = flips[piece, 0]
    while flips[piece, 0] == old:
        flips[piece, 0] = rng.integers(2 * stored.arrays["split.start"].size)
    return with_array(stored, "split.flips", flips)


MUTATIONS = [
    change_number, change_number, change_number, flip_bit, flip_sign, swap_facets, move_vertex, drop_facet, shift_alpha,
    change_parameter,
]  # fmt: skip


def trial(seed):
    """What was changed; AssertionError if that is not found, or no place is named."""
    rng = np.random.default_rng(seed)
    stored, X, y = maps()[seed // len(MUTATIONS) % 3]
    mutation = MUTATIONS[seed % len(MUTATIONS)]
    changed = None
    while changed is None:
        changed = mutation(rng, stored)
    try:
        found = check(changed, X, y)
    except svmatlas.ProofError:
        return f"{mutation.__name__}: other data"
    assert not found.ok, (mutation.__name__, difference(stored, changed))
    assert found.faults, (mutation.__name__, difference(stored, changed))
    return f"{mutation.__name__}: refused"
