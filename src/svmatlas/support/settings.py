"""How the work is divided: numbers that change what an exploration takes, never what it finds.

Tests set them to extreme values, and compare the maps.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Settings:
    """All such numbers. Only Python reads them: compiled code would keep the values that it was compiled with."""

    one_tile_points: int = 96
    """With no more points than this one tile is all of the region."""

    all_candidates_points: int = 768
    """With no more points than this all are candidates in a tile: to choose would take as long as it saves."""

    most_candidates: float = 0.6
    """With a larger share of candidates than this all points are."""

    events_per_tile: int = 128
    """Events of a ray from cut to cut: a tile then has thousands of facets, and a hundredth of its time is the set-up.

    With more than USUAL points, N, it is (USUAL / N)^0.5 of that (survey.py): there are more facets for each event then, and
    each takes longer, and more memory while it waits, with more candidates. But the smaller the tiles, the more facets are
    cut."""

    tile_bytes: int = 2**27
    """Bytes for the facets of a tile; one that needs more is cut."""

    first_facets: tuple[int, int] = (2**11, 2**15)
    """Facets for which there is room at first, with few points and with many; memory is taken as facets come."""

    near_points: int = 128
    """Points near the ball (neighbourhood.py): enough for some hundred facets, and so few that it takes no longer to see which
    they are."""

    walk_points: int = 256
    """Points that a walk follows closely where there are many more: enough for some hundred events."""

    locate_starts: int = 2**15
    """Pieces that a walk to given costs may start from, spread over all. With millions of pieces it is some ten pieces longer
    for it, which is microseconds; a tree of all of them would take seconds to make."""

    measure_bits: int = 256
    """Bits after the point of the corners of a polygon that is measured exactly; twice as many until half of these are of its
    area."""

    maps_share: float = 0.25
    """Share of the time that whole maps of all folds are expected to take, before a search for the best costs begins them: its
    bounds may be quicker."""


SETTINGS = Settings()
"""The settings of this process."""
