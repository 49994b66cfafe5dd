"""A reader of maps, written from docs/format.md; it shares nothing with the program that writes them."""

from __future__ import annotations

import hashlib
import json
import os
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

MAGIC, FORMAT, PREFIX = b"SVMATLAS", 3, 48

PLATEAU = 7
"""Kinds of pieces from this on are plateaus, or slivers of them."""

MESH = (
    "vertices", "edge_code", "edge_facets", "edge_vertices", "facet_layer", "facet_parent", "facet_at", "facet_edges",
    "facet_vertices",
)  # fmt: skip


class ProofError(ValueError):
    """A file that holds no map, or data that are not those of the map: there is nothing to check."""


class Mesh(NamedTuple):
    """Polygons: docs/format.md, section Meshes."""

    vertices: npt.NDArray[np.float64]
    edge_code: Array
    edge_facets: Array
    edge_vertices: Array
    facet_layer: Array
    facet_parent: Array
    facet_at: Array
    facet_edges: Array
    facet_vertices: Array

    @property
    def n_facets(self) -> int:
        """Number of polygons."""
        return int(self.facet_at.size - 1)

    def place_facet(self) -> Array:
        """The facet of each place."""
        return np.repeat(np.arange(self.n_facets), np.diff(self.facet_at))

    def place_before(self) -> Array:
        """The place before each place, around its facet."""
        before = np.arange(self.facet_vertices.size) - 1
        before[self.facet_at[:-1]] = self.facet_at[1:] - 1
        return before

    def place_after(self) -> Array:
        """The place after each place, around its facet."""
        after = np.arange(self.facet_vertices.size) + 1
        after[self.facet_at[1:] - 1] = self.facet_at[:-1]
        return after


class Map(NamedTuple):
    """What a file holds."""

    arrays: dict[str, Array]
    parameters: dict[str, Any]

    @property
    def tied(self) -> bool:
        """Whether the facets of the data are others than the pieces that were explored."""
        return "mesh.vertices" in self.arrays

    def plateaus(self) -> npt.NDArray[np.bool_]:
        """Which pieces are plateaus: see docs/format.md."""
        found: npt.NDArray[np.bool_] = self.arrays["split.kind"] >= PLATEAU
        return found

    def mesh(self, name: str) -> Mesh:
        """The mesh of pieces, "split", or that of facets, "mesh"."""
        return Mesh(*(self.arrays[f"{name}.{part}"] for part in MESH))

    @property
    def facets(self) -> Mesh:
        """The facets of the data."""
        return self.mesh("mesh" if self.tied else "split")


def read_map(path: str | os.PathLike[str]) -> Map:
    """The arrays and parameters of a file, each byte checked by its digest."""
    with open(path, "rb") as file:
        return parse_map(file.read(), str(path))


def parse_map(blob: bytes, name: str) -> Map:
    """The same of the bytes of a file."""
    if len(blob) < PREFIX or blob[:8] != MAGIC:
        raise ProofError(f"{name} is not a map")
    end = PREFIX + int.from_bytes(blob[8:16], "little")
    text, body = blob[PREFIX:end], memoryview(blob)[end:]
    if hashlib.blake2b(text, digest_size=32).digest() != blob[16:PREFIX]:
        raise ProofError(f"the header of {name} does not match its digest")
    header = json.loads(text)
    if header["format"] != FORMAT:
        raise ProofError(f"{name} has format {header['format']}: this checker reads format {FORMAT}")
    if hashlib.blake2b(body, digest_size=32).hexdigest() != header["body"]["digest"]:
        raise ProofError(f"the arrays of {name} do not match their digest")
    return Map({key: _array(body, place) for key, place in header["arrays"].items()}, header["parameters"])


def _array(body: memoryview, place: dict[str, Any]) -> Array:
    kind, shape = np.dtype(place["type"]), tuple(place["shape"])
    return np.frombuffer(body, kind, prod(shape), place["at"] if prod(shape) else 0).reshape(shape)
