"""Bounds on the gap of all facets: block after block from one model at each vertex, and those that are not easy one by one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.proof.bound import Corners, bound, off_edges
from svmatlas.proof.exact import Vector
from svmatlas.proof.models import GramModels, RowModels
from svmatlas.proof.partitions import INSIDE, MARGIN, Partitions
from svmatlas.proof.reading import Map
from svmatlas.proof.rows import Points
from svmatlas.proof.single import Single, Subject, is_far, limits_of

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]

AGAIN = 1e-10
"""Facets with a larger bound, a tenth of what is certified, are looked at again, with the dual variables of their own pieces
and exact sums."""

AGAIN_MOVED = 1e-7
"""And those where conditions at corners are violated by more than this."""

ENTRIES = 2**21
"""Numbers in an array of the models of a block."""


class Bounds(NamedTuple):
    """For some facets."""

    gap: Floats  # (n,) bound on the relative duality gap
    corner: Ints  # (n,) the vertex where it is worst
    moved: Floats  # (n,) how far conditions at a corner are from where the partition has them, relative to their terms
    limit: Floats  # (n,) costs up to which this holds


def facets_of(stored: Map, partitions: Partitions) -> Subject:
    """The facets of the data; where nothing is tied they are the pieces that were explored."""
    mesh, n = stored.facets, stored.facets.n_facets
    plateau = stored.plateaus()
    if not stored.tied:
        return Subject(mesh, partitions.of_pieces, np.arange(n), np.arange(n), np.arange(n + 1), plateau)
    facet = stored.arrays["canonical.facet"]
    order = np.argsort(facet, kind="stable")
    at = np.searchsorted(facet[order], np.arange(n + 1))
    piece = stored.arrays["canonical.piece"].astype(np.intp)
    return Subject(mesh, partitions.of_facets, piece, order, at, plateau[piece])


class Prover:
    """Bounds the gap of facets, block by block; nothing in it changes.

    ``is_cut``: whether behind the sides of the least C+, and of the least C-, there is another tile of the same map.
    """

    def __init__(
        self,
        subject: Subject,
        partitions: Partitions,
        points: Points,
        lines: list[Vector],
        is_cut: tuple[bool, bool] = (False, False),
    ) -> None:
        self.mesh, self.states_of, self.piece, _, self.member_at, self.plateau = subject
        self.pieces_of = partitions.of_pieces
        self.solver = RowModels(points) if points.rows is not None else GramModels(points)
        self.single = Single(subject, partitions, points, self.solver, lines, is_cut)
        self.is_far = is_far(self.mesh.vertices, limits_of(points)[-1])
        self.block = max(16, ENTRIES // max(1, points.weight.size))

    def bounds(self, facets: Ints) -> Bounds:
        """Bounds for some facets."""
        n, (facet, place) = facets.size, self._places(facets)
        found = Bounds(np.full(n, np.inf), np.full(n, -1), np.zeros(n), np.full(n, np.inf))
        hard = (self.member_at[facets + 1] - self.member_at[facets] > 1) | self.plateau[facets]
        far = self.is_far[self.mesh.facet_vertices[place]]
        is_reaching = ~hard & (np.bincount(facet[far], minlength=n) > 0)
        easy, reaching = np.flatnonzero(~hard & ~is_reaching), self._separated(facets, np.flatnonzero(is_reaching))
        if easy.size:
            self._shared(facets, easy, found)
        if reaching.size:
            self._own(facets, reaching, found)
        for k in np.flatnonzero(~((found.gap <= AGAIN) & (found.moved <= AGAIN_MOVED))).tolist():
            found.gap[k], found.corner[k], found.moved[k], found.limit[k] = self.single.bound(int(facets[k]))
        return found

    def _places(self, facets: Ints) -> tuple[Ints, Ints]:
        """Which of some facets has a place, and the places."""
        at = self.mesh.facet_at
        sizes = at[facets + 1] - at[facets]
        facet = np.repeat(np.arange(facets.size), sizes)
        return facet, np.arange(facet.size) - (np.cumsum(sizes) - sizes)[facet] + at[facets][facet]

    def _separated(self, facets: Ints, reaching: Ints) -> Ints:
        """Those of some facets that are far at infinity alone, where no point with a cost is inside the margin."""
        if reaching.size == 0 or not isinstance(self.solver, RowModels):
            return reaching[:0]
        facet, place = self._places(facets[reaching])
        c = self.mesh.vertices[self.mesh.facet_vertices[place]]
        far, inside = self.is_far[self.mesh.facet_vertices[place]], self.states_of(facets[reaching])[facet] == INSIDE
        costly = np.where(self.solver.points.positive, c[:, :1] > 0, c[:, 1:2] > 0)
        wrong = far & ((c[:, 2] > 0) | np.any(inside & costly, axis=1))
        separated: Ints = reaching[np.bincount(facet[wrong], minlength=reaching.size) == 0]
        return separated

    def _own(self, facets: Ints, which: Ints, found: Bounds) -> None:
        """Bounds of some facets that reach infinity, from models of their own.

        Dual variables and weights are zero there, and points that are not inside the margin may lack nothing elsewhere.
        """
        assert isinstance(self.solver, RowModels)
        mesh, own = self.mesh, facets[which]
        facet, place = self._places(own)
        sizes, states, vertex = np.bincount(facet), self.states_of(own), mesh.facet_vertices[place]
        maps = self.solver.maps(self.pieces_of(self.piece[own]))
        models = self.solver.models(maps, facet, mesh.vertices[vertex], states[facet] != INSIDE)
        corners = Corners(np.arange(place.size), np.cumsum(sizes) - sizes, sizes, mesh.vertices[vertex, 2])
        self._note(which, bound(models, corners, states), vertex, off_edges(models, corners, self._codes(place)), found)

    def _codes(self, place: Ints) -> Ints:
        """Codes of the edges that end at some places."""
        return self.mesh.edge_code[self.mesh.facet_edges[place]].astype(np.intp)

    @staticmethod
    def _note(which: Ints, bounds: tuple[Floats, Ints, Floats], vertex: Ints, off: Floats, found: Bounds) -> None:
        """Put down what was found for some facets; ``vertex`` is that of each model."""
        found.gap[which], corner, moved = bounds
        found.corner[which], found.moved[which] = vertex[corner], np.maximum(moved, off)

    # One model for each vertex

    def _shared(self, facets: Ints, easy: Ints, found: Bounds) -> None:
        """Bounds of some facets, from one model at each vertex: right where dual variables are unique."""
        mesh, own = self.mesh, facets[easy]
        facet, place = self._places(own)
        sizes = np.bincount(facet)
        first = np.cumsum(sizes) - sizes
        states = self.states_of(own)
        odd = (np.sum(states == MARGIN, axis=1) % 2)[facet]
        order = np.lexsort([odd, mesh.facet_vertices[place]])
        vertex, start, number = np.unique(mesh.facet_vertices[place][order], return_index=True, return_inverse=True)
        model = np.empty(place.size, dtype=np.intp)
        model[order] = number
        users, which = np.unique(facet[order][start], return_inverse=True)
        maps = self.solver.maps(self.pieces_of(self.piece[own[users]]))
        models = self.solver.models(maps, which, mesh.vertices[vertex])
        corners = Corners(model, first, sizes, mesh.vertices[vertex, 2])
        self._note(easy, bound(models, corners, states), vertex, off_edges(models, corners, self._codes(place)), found)
