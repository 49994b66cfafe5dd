"""One facet of an atlas, in the user's terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]


class Partition(NamedTuple):
    """Row numbers of the user's X: on the margin (M), inside it (I), outside it (O)."""

    margin: Ints
    inside: Ints
    outside: Ints


@dataclass(frozen=True, eq=False)
class Facet:
    """One facet of an atlas.

    Attributes
    ----------
    number, layer : int
        Its number and its layer.
    partition : Partition
        Row numbers on the margin, inside and outside it.
    polygon : ndarray of shape (k, 3)
        Its corners in order, homogeneous costs.
    events : list of k ndarrays of shape (n, 2)
        (row, type) of the events on each edge, as in ``Atlas.edge_events``. Edge j ends in corner j.
    neighbours : ndarray of shape (k,)
        The facet behind each edge; -1: none, a side of the region; -2: one that was not explored.
    alpha : ndarray of shape (3, n_rows) or None
        Dual variables in the facet: ``alpha[0] * C_pos + alpha[1] * C_neg + alpha[2]``. None where rows on the margin depend
        on each other, so that alpha is not unique, and the choice of ``Atlas.alpha`` is affine in parts of the facet only.
    coef : ndarray of shape (3, n_features) or None
        Weights in the facet, likewise, in the units of X. None if the kernel is not linear.
    intercept : ndarray of shape (3,)
        Intercept in the facet, likewise.

    """

    number: int
    layer: int
    partition: Partition
    polygon: Floats
    events: list[npt.NDArray[np.int32]]
    neighbours: npt.NDArray[np.int32]
    alpha: Floats | None
    coef: Floats | None
    intercept: Floats

    def __repr__(self) -> str:
        margin, inside, outside = map(len, self.partition)
        corners = ", ".join(
            f"({p / l:.4g}, {q / l:.4g})" if l > 0 else f"infinity at C+ : C- = {p:.4g} : {q:.4g}" for p, q, l in self.polygon
        )
        return (
            f"Facet({self.number}: layer {self.layer}, {margin} on the margin, "
            f"{inside} inside, {outside} outside; corners {corners}; neighbours {', '.join(map(str, self.neighbours))})"
        )
