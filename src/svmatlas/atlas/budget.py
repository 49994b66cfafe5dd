"""What a map would take, from a random sample of its tiles, and whether there is memory for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from svmatlas.atlas.survey import Bound, Surveyor
from svmatlas.data.problem import Bounds
from svmatlas.engine.clipping import CLOSED
from svmatlas.support.stopping import Limit, Stopped

BYTES = 600
"""Memory at the peak of an exploration for each piece (breast cancer: 330; N = 500 to 2,000, d = 6 to 10: 650 to 780)."""

DISK = 55
"""Bytes of a store for each piece (N = 500, d = 10: 52)."""

JOINING = 0.25
"""Time to join tiles and put pieces together, as a share of that to explore them (0.07 to 0.5; 300 to 700 rows)."""

FEW_TILES = 64
"""With no more tiles than this an exploration is not refused: a sample would take too large a share of it."""

PLENTY = 2**16
"""Pieces that a tile has seldom on average. If there is memory for as many in each, that is not looked into."""

LEAST, SHARE = 3, 1 / 32
"""Least number of tiles, and largest share of them, that are explored to see whether there is memory for all."""

LOOK, LONGER, GLANCE = 2.0, 4.0, 1.0
"""Seconds that the ray is followed before the first sample is taken; the factor for each further one; seconds for a tile."""

FASTEST = 2e-6
"""Seconds for a piece, at least, in one thread."""

AT_LEAST = 0.1
"""Least relative error that is told: what cuts add to the number of pieces (up to 0.05 in maps of 10^5)."""

SAMPLE_SHARE = 0.1
"""Share of a budget of time that goes into the sample."""

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/proc/self/cgroup")
CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Estimate:
    """What an atlas would take; ``error`` is the relative error of the number of pieces: twice of it is seldom exceeded.

    Pieces are what is explored: facets, and the parts of facets that ties cut (``Atlas.n_pieces``). There are no more facets
    than pieces. The error is never zero, also where all tiles were explored: what reaches over several tiles is counted in
    each. It is infinite if there was no time to finish the tiles of the sample. The numbers are then less than the true ones.
    Memory for a piece is from half to 1.3 times what is assumed. Seconds are for a machine as busy as during the sample.
    """

    n_pieces: float
    seconds: float
    bytes: float  # at the peak
    error: float
    n_tiles: int
    n_sampled: int
    n_jobs: int = 1  # threads or workers that ``seconds`` are for

    @property
    def disk_bytes(self) -> float:
        """Bytes of a store of the map."""
        return DISK * self.n_pieces

    def __str__(self) -> str:
        known = np.isfinite(self.error)
        cores = "one core" if self.n_jobs == 1 else f"{self.n_jobs} cores"
        return (
            f"{'about' if known else 'more than'} {self.n_pieces:.3g} pieces (facets, or parts of facets with ties)"
            f"{f', give or take {100 * self.error:.0f} %' if known else ''}; some {self.bytes / 2**20:.2g} MiB in memory "
            f"or {self.disk_bytes / 2**20:.2g} MiB on disk, and {self.seconds:.2g} s on {cores} "
            f"(from {self.n_sampled} of {self.n_tiles} tiles)"
        )


class Sample(NamedTuple):
    """Some tiles of many."""

    n_pieces: float  # of all, if others are like these
    seconds: float
    error: float  # relative, see ``relative_error``
    standard_error: float  # relative, as if tiles were alike
    n_sampled: int
    whole: bool  # have all facets of these tiles been found?

    @property
    def bytes(self) -> float:
        """Memory for all pieces."""
        return BYTES * self.n_pieces


def samples(surveyor: Surveyor, grid: tuple[list[Bound], list[Bound]], limits: Callable[[int], Limit]) -> Iterator[Sample]:
    """Explore the tiles of a grid in random order; tile m, from 1 on, up to ``limits(m)``."""
    engine = surveyor.engine
    pieces: list[int] = []
    seconds, whole = 0.0, True
    rows, columns = grid
    n = len(rows) * len(columns)
    for m, k in enumerate(np.random.default_rng(surveyor.problem.seed).permutation(n), 1):
        begin, counts = time.monotonic(), (engine.n_refined, engine.n_zero, engine.n_exact)
        count, finished = _count(surveyor, (rows[k // len(columns)], columns[k % len(columns)]), 0, limits(m))
        engine.n_refined, engine.n_zero, engine.n_exact = counts
        pieces.append(count)
        whole = whole and finished
        seconds += time.monotonic() - begin
        yield Sample(
            float(np.mean(pieces)) * n, seconds / m * n, relative_error(pieces, n), standard_error(pieces, n), m, whole
        )


def standard_error(counts: list[int], n: int) -> float:
    """Relative standard error of the mean of n numbers, of which some are known."""
    m, mean = len(counts), float(np.mean(counts))
    if m == n:
        return 0.0
    return float(np.std(counts, ddof=1) / mean * np.sqrt((1.0 - m / n) / m)) if m > 1 and mean > 0 else np.inf


def relative_error(counts: list[int], n: int) -> float:
    """Relative error of the mean of n numbers, of which some are known: twice of it holds the mean in nine of ten cases.

    Most pieces are in a few tiles, and the largest of some tiles is not the largest of all: one more is imagined, of twice its
    size. By Student's distribution few numbers say little about their spread.
    """
    m, plain = len(counts), standard_error(counts, n)
    if not 0.0 < plain < np.inf:
        return plain
    wider = np.std([*counts, 2 * max(counts)], ddof=1) / np.std(counts, ddof=1)
    return float(plain * wider * stdtrit(m - 1, 0.975) / 2.0)


def _count(surveyor: Surveyor, tile: Bounds, depth: int, limit: Limit) -> tuple[int, bool]:
    """Number of pieces in a tile that are found up to a limit, and whether these are all."""
    try:
        facets = surveyor.explore(tile, depth, limit=limit)
    except Stopped:
        return 0, False
    if not isinstance(facets, list):
        return facets.n_pieces, facets.outcome == CLOSED
    total, finished = 0, True
    for part in facets:
        if finished:
            count, finished = _count(surveyor, part, depth + 1, limit)
            total += count
    return total, finished


def check_memory(surveyor: Surveyor, n_jobs: int, limit: Limit) -> None:
    """Refuse to explore, before that begins, if the facets that can be found in time surely need too much memory.

    This is known as soon as those of a part of the region do. So the ray that tells how many tiles there are is followed for
    a while, then longer, and each time some tiles are looked into. The system is asked for its memory if there are many.
    """
    seconds = min(LOOK, SAMPLE_SHARE * limit.left)
    while True:
        grid = surveyor.grid(limit, seconds)
        n = len(grid[0]) * len(grid[1])
        available = available_memory() if n > FEW_TILES else np.inf
        if min(PLENTY * n, n_jobs * limit.left / FASTEST) * BYTES > available:
            _look_into(surveyor, grid, n_jobs, limit, available)
        if surveyor.all_cut or limit.finite or limit.expired:
            return
        seconds *= LONGER


def _look_into(surveyor: Surveyor, grid: tuple[list[Bound], list[Bound]], n_jobs: int, limit: Limit, available: float) -> None:
    """MemoryError if the tiles of a grid surely have too many facets."""
    end = limit.within(SAMPLE_SHARE * limit.left)
    n = int(SHARE * len(grid[0]) * len(grid[1]))
    for sample in islice(samples(surveyor, grid, lambda m: end.within(GLANCE)), LEAST - 1, max(LEAST, n)):
        share = min(1.0, n_jobs * limit.left / sample.seconds)
        needed, margin = share * sample.bytes, 2.0 * sample.standard_error
        if end.expired or (sample.whole and needed * (1.0 + margin) < available):
            return
        if needed * (1.0 - margin) > available:
            raise MemoryError(
                f"{'about' if sample.whole else 'more than'} {share * sample.n_pieces:.2g} pieces of facets are expected, "
                f"give or take {50 * margin:.0f} %; they need {needed / 2**30:.3g} GiB, and {available / 2**30:.3g} GiB are "
                "available: choose a smaller region, set max_facets, build the map up on disk with store=, or go "
                "through it tile by tile with svmatlas.tiles"
            )


# ----------------------------------------------------------------------------------------------------------------------
# Memory


def available_memory() -> float:
    """Bytes that may still be taken, of the machine and of the control groups; infinite where nothing is known of them."""
    kilobytes = _entries(MEMINFO).get("MemAvailable", np.inf)
    return min([1024.0 * kilobytes, *(_left(group) for group in _groups())])


def _groups() -> list[Path]:
    """The control groups of memory, of version 1 and 2, that this process is in."""
    try:
        lines = [line.split(":", 2) for line in CGROUP.read_text().splitlines()]
    except OSError:
        return []
    groups = []
    for _, controllers, name in lines:
        if controllers == "" or "memory" in controllers.split(","):
            group = CGROUPS / controllers / name.lstrip("/")
            groups += [group, *(parent for parent in group.parents if parent.is_relative_to(CGROUPS / controllers))]
    return groups


def _left(group: Path) -> float:
    """Bytes that a control group has left; what it keeps of files can be given up."""
    for limit, usage, prefix in (("max", "current", ""), ("limit_in_bytes", "usage_in_bytes", "total_")):
        try:
            most, used = (int((group / f"memory.{name}").read_text()) for name in (limit, usage))
        except (OSError, ValueError):  # no such file, or "max"
            continue
        kept = _entries(group / "memory.stat")
        return max(0.0, most - used + kept.get(f"{prefix}inactive_file", 0.0) + kept.get(f"{prefix}active_file", 0.0))
    return np.inf


def _entries(path: Path) -> dict[str, float]:
    """Names and numbers of a file of the system."""
    try:
        words = [line.replace(":", " ").split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    return {line[0]: float(line[1]) for line in words if len(line) > 1}
