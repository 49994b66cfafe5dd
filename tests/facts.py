"""The map as facts of the data: names that depend on no numbering, no seed, no start and no order of rows.

A facet is named by the sets of its rows, an edge by its two facets, a vertex by the facets around it. ``assert_same``
compares two maps by these names. In between rows may be permuted, labels swapped, and data scaled: see ``Change``.
``trial(seed)`` makes random tied data and several maps of them, which have to be the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import svmatlas
from svmatlas.data.problem import DROPPED
from svmatlas.engine.workspace import INSIDE
from svmatlas.support.settings import SETTINGS

ROUNDING = 1e-9
"""Distance of vertices, of largest entry 1, that are the same: each map has moved them by 1e-13 times the conditioning."""


class Change(NamedTuple):
    """How to read a map of other data: its row i stands for the rows ``rows[i]``, its costs times ``costs`` are those here."""

    rows: list | None = None  # None: for itself
    mirrored: bool = False  # labels are swapped
    costs: float = 1.0


AS_IT_IS = Change()


class Facts(NamedTuple):
    """A map by names; an edge or a neighbour that is a side of the region has the name of that side."""

    layers: dict  # of facets
    around: dict  # of facets: the neighbours in order, from the least on
    edges: dict  # of pairs of facets: events (rows, type)
    ends: dict  # of pairs of facets: homogeneous costs (2, 3) from the first facet's first end to its last
    vertices: dict  # of sets of facets and sides: homogeneous costs of the vertices


def read(atlas, change=AS_IT_IS):
    """The facts of a complete map."""
    facets, sides = names(atlas, change), side_names(atlas.region, change)
    vertices = moved(atlas.vertices, change)
    edges = [edge_name(atlas, e, facets, sides) for e in range(atlas.n_edges)]
    events = {pair: edge_events(atlas, e, change) for e, pair in enumerate(edges)}
    ends = {pair: vertices[atlas.edge_vertices[e]] for e, pair in enumerate(edges)}
    assert len(set(facets)) == atlas.n_facets, "two facets have the same partition"
    assert len(events) == atlas.n_edges, "two facets share two edges"
    around = {name: neighbours(atlas, f, edges, facets, change.mirrored) for f, name in enumerate(facets)}
    meeting = [set() for _ in vertices]
    for pair, ab in zip(edges, atlas.edge_vertices, strict=True):
        for v in ab:
            meeting[v].update(pair)
    points = {frozenset(pairs): vertices[v] for v, pairs in enumerate(meeting)}
    assert len(points) == atlas.n_vertices, "two vertices have the same facets around them"
    return Facts(dict(zip(facets, atlas.facet_layer.tolist(), strict=True)), around, events, ends, points)


def names(atlas, change=AS_IT_IS):
    """The letter of each row, in each facet."""
    point = atlas._problem.point
    rows = change.rows or [[i] for i in range(point.size)]
    states = np.column_stack([atlas._states(np.arange(atlas.n_facets)), np.full(atlas.n_facets, INSIDE)])  # for rows of zeros
    letters = np.full((atlas.n_facets, 1 + max(k for group in rows for k in group)), "-")
    for i, group in enumerate(rows):
        if point[i] != DROPPED:
            letters[:, group] = np.array(["O", "I", "M"])[states[:, point[i] if point[i] >= 0 else -1]][:, None]
    return ["".join(row) for row in letters]


def side_names(region, change=AS_IT_IS):
    """Names of the sides of a region, in their order."""
    p, q = (bool(np.isfinite(high)) for _, high in region)
    out = ["C- low"] + ["C+ high"] * p + ["C- high"] * q + ["infinity"] * (not (p or q)) + ["C+ low"]
    swapped = str.maketrans("+-", "-+")
    return [name.translate(swapped) for name in out] if change.mirrored else out


def edge_name(atlas, e, facets, sides):
    """The two facets beside an edge; in place of the second the side of the region."""
    f, g = atlas.edge_facets[e]
    row, side = atlas.edge_events[atlas.edge_at[e]]
    assert g != -2, "the map is not complete"
    assert (g == -1) == (row == -1), f"edge {e} of facets {f} and {g} has the event {row}, {side}"
    return frozenset([facets[f], facets[g] if g >= 0 else sides[side]])


def edge_events(atlas, e, change):
    """The events of an edge: all rows that are equal to the one that is told, and the type."""
    point, out = atlas._problem.point, set()
    for row, kind in atlas.edge_events[atlas.edge_at[e] : atlas.edge_at[e + 1]]:
        equal = np.flatnonzero(point == point[row]).tolist() if row >= 0 else []
        out.add((frozenset(k for i in equal for k in (change.rows[i] if change.rows else [i])), kind if row >= 0 else -1))
    return out


def neighbours(atlas, f, edges, facets, mirrored):
    """The names of the facets around one, in order, the least first."""
    (own,) = {facets[f]}
    mine = [edges[e] for e in atlas.facet_edges[atlas.facet_at[f] : atlas.facet_at[f + 1]]]
    ring = [next(iter(pair - {own})) for pair in (mine[::-1] if mirrored else mine)]
    first = ring.index(min(ring))
    return ring[first:] + ring[:first]


def moved(vertices, change):
    """Homogeneous costs in terms of the data here, of largest entry 1."""
    vertices = vertices[:, [1, 0, 2]] if change.mirrored else vertices
    vertices = vertices * [change.costs, change.costs, 1.0]
    return vertices / vertices.max(axis=1, keepdims=True)


def assert_same(one, other, change=AS_IT_IS, layers=True):
    """Two maps say the same; ``change`` is how to read the other one. Layers are the same from the same start.

    The first may have been read before, if its rows stand for themselves.
    """
    a = one if isinstance(one, Facts) else read(one, Change(change.rows and identity(change.rows)))
    b = read(other, change)
    assert a.layers.keys() == b.layers.keys(), f"facets: {difference(a.layers, b.layers)}"
    assert a.edges.keys() == b.edges.keys(), f"edges: {difference(a.edges, b.edges)}"
    assert a.vertices.keys() == b.vertices.keys(), f"vertices: {difference(a.vertices, b.vertices)}"
    for name in ("around", "edges", *["layers"] * layers):
        mine, others = getattr(a, name), getattr(b, name)
        wrong = [key for key in mine if mine[key] != others[key]]
        assert not wrong, f"{name}: {len(wrong)} differ, {wrong[0]}: {mine[wrong[0]]}, {others[wrong[0]]}"
    for key, vertex in a.vertices.items():
        assert apart(vertex, b.vertices[key]) < ROUNDING, f"vertex {sorted(key)}: {vertex}, {b.vertices[key]}"


def identity(rows):
    """Each row for itself, as many as others stand for."""
    return [[i] for i in range(1 + max(k for group in rows for k in group))]


def difference(a, b):
    """What only one of two has, in short."""
    only = (list(a.keys() - b.keys()), list(b.keys() - a.keys()))
    return [(len(keys), [sorted(key) if isinstance(key, frozenset) else key for key in keys[:2]]) for keys in only]


def apart(a, b):
    """Distance of two vertices of largest entry 1; what is zero by structure is zero in both."""
    if np.any((a == 0) != (b == 0)):
        return np.inf
    return float(np.abs(a - b).max())


def cut_finely(patch, events=4, many=8):
    """Many tiles, few candidates, and few points near home, also for small data."""
    values = {"near_points": 1, "one_tile_points": 4, "all_candidates_points": many, "most_candidates": 0.95}
    for name, value in (values | {"events_per_tile": events}).items():
        patch.setattr(SETTINGS, name, value)


ALL = 2**40
"""With any number of facets asked for the engine visits all pieces, layer after layer, those of plateaus, too."""


def explore_pieces(X, y, **options):
    """The map with all pieces of the map of the jittered data, which rays go through: no plateau is left out."""
    return svmatlas.explore(X, y, max_facets=ALL, **options)


# ----------------------------------------------------------------------------------------------------------------------
# One map against others of the same data


def twins(X, y, weight, arguments, seed):
    """Other ways to the same map: (what, X, y, weight, arguments, change)."""
    rng = np.random.default_rng(seed)
    order, region = rng.permutation(len(y)), arguments.get("region")
    start = arguments.get("start")
    swapped = {**arguments, "region": region and region[::-1], "start": start and start[::-1]}
    scaled = {**arguments, "bias": 4 * arguments["bias"], "region": region and tuple((a / 16, b / 16) for a, b in region)}
    scaled["start"] = start and (start[0] / 16, start[1] / 16)
    inside = [low + 0.3 * (min(high, low + 4) - low) for low, high in region or ((0, np.inf), (0, np.inf))]
    yield "seed", X, y, weight, {**arguments, "random_state": int(rng.integers(1, 1000))}, AS_IT_IS
    yield "start", X, y, weight, {**arguments, "start": tuple(inside)}, AS_IT_IS
    yield "rows", X[order], y[order], weight[order], arguments, Change(rows=[[i] for i in order.tolist()])
    yield "labels", X, 1 - y, weight, swapped, Change(mirrored=True)
    yield "scale", 4 * X, y, weight, scaled, Change(costs=16.0)
    yield "tiles", X, y, weight, arguments, AS_IT_IS


def explore(what, X, y, weight, arguments):
    """One map; in tiles if asked for."""
    with pytest.MonkeyPatch.context() as patch:
        if what == "tiles":
            cut_finely(patch, events=2, many=4)
        return svmatlas.explore(X, y, sample_weight=weight, **arguments)


def check_twins(X, y, weight, arguments, seed):
    """The map of data is valid, and the same in all other ways."""
    plain = explore("", X, y, weight, arguments)
    report, known = plain.validate(n_costs=20), read(plain)
    assert report.ok, str(report.faults)
    for what, *other, change in twins(X, y, weight, arguments, seed):
        try:
            assert_same(known, explore(what, *other), change, layers=what != "start")
        except AssertionError as error:
            raise AssertionError(f"{what}: {error}") from None


# ----------------------------------------------------------------------------------------------------------------------
# Tied data


START = 0.1 * 2**0.5, 0.1 * 3**0.5
"""Where in a region a map begins, as a share of it: on no edge of integers, where any of its facets could be the first."""


def tied_rows(rng):
    """Rows with ties by their nature, that doubles hold as they are."""
    n, d = int(rng.integers(2, 15)), int(rng.integers(1, 5))
    kind = str(rng.choice(["lattice", "binary", "one-hot", "repeated", "both labels", "low rank", "gaussian"]))
    X = rng.normal(size=(n, d))
    if kind == "lattice":
        X = rng.integers(-2, 3, (n, d)).astype(float)
    elif kind == "binary":
        X = rng.integers(0, 2, (n, d)).astype(float)
    elif kind == "one-hot":
        X = np.hstack([np.eye(3)[rng.integers(0, 3, n)], np.eye(2)[rng.integers(0, 2, n)]])
    elif kind == "repeated":
        X = X[rng.integers(0, n, n)]
    elif kind == "both labels":
        X = np.repeat(X, 2, axis=0)[:n]
    elif kind == "low rank":
        X = (rng.integers(-2, 3, (n, 2)) @ rng.integers(-2, 3, (2, d + 3))).astype(float)
    return kind, X, rng.permutation(np.arange(n) % 2) if kind != "both labels" else np.arange(n) % 2


def tied_case(seed):
    """Random tied data: (kind, X, y, weights, arguments)."""
    rng = np.random.default_rng(seed)
    kind, X, y = tied_rows(rng)
    weight = rng.choice([1.0, 0.5, 3.0], len(y)) if rng.random() < 0.3 else np.ones(len(y))
    arguments = {"bias": float(rng.choice([0.0, 1.0, 0.125]))}
    if rng.random() < 0.3:
        arguments["region"] = tuple((low, low * 2.0 ** rng.integers(1, 8)) for low in (2.0 ** rng.integers(-8, 3, 2)).tolist())
        arguments["start"] = tuple(
            low + share * (high - low) for share, (low, high) in zip(START, arguments["region"], strict=True)
        )
    return kind, X, y, weight, arguments


def trial(seed):
    """The kind of the data, if all their maps are the same."""
    kind, *case = tied_case(seed)
    check_twins(*case, seed)
    return kind
