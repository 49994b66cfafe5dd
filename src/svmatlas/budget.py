"""What a map would take, from a random sample of its tiles, and whether there is memory for it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from svmatlas.problem import Bounds
from svmatlas.survey import Surveyor

BYTES = 400
"""Memory at the peak of an exploration for each facet, ties included (N = 500, d = 10); the atlas itself has 120 of them."""

FEW_TILES = 64
"""With no more tiles than this an exploration is not refused: a sample would take too large a share of it."""

PLENTY = 2**16
"""Facets that a tile has seldom on average. If there is memory for as many in each, that is not looked into."""

LEAST, SHARE = 3, 1 / 32
"""Least number of tiles, and largest share of them, that are explored to see whether there is memory for all."""

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/proc/self/cgroup")
CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Estimate:
    """What an atlas would take; ``error`` is the relative standard error of all three numbers."""

    n_facets: float  # ties included
    seconds: float
    bytes: float  # at the peak
    error: float
    n_tiles: int
    n_sampled: int

    def __str__(self) -> str:
        return (
            f"about {self.n_facets:.3g} facets (ties included), {self.seconds:.3g} s on one core, "
            f"{self.bytes / 2**20:.3g} MiB, all give or take {100 * self.error:.0f} % "
            f"(from {self.n_sampled} of {self.n_tiles} tiles)"
        )


def samples(surveyor: Surveyor, tiles: Sequence[Bounds]) -> Iterator[Estimate]:
    """What some tiles would take, better after each of them; they are explored in random order."""
    engine = surveyor.engine
    facets: list[int] = []
    seconds = 0.0
    n = len(tiles)
    for m, k in enumerate(np.random.default_rng(surveyor.problem.seed).permutation(n), 1):
        begin, counts = time.monotonic(), (engine.n_refined, engine.n_exact)
        facets.append(_count(surveyor, tiles[k], 0))
        engine.n_refined, engine.n_exact = counts
        seconds += time.monotonic() - begin
        mean, error = float(np.mean(facets)), 0.0
        if m < n:
            error = float(np.std(facets, ddof=1) / mean * np.sqrt((1.0 - m / n) / m)) if m > 1 else np.inf
        yield Estimate(mean * n, seconds / m * n, BYTES * mean * n, error, n, m)


def _count(surveyor: Surveyor, tile: Bounds, depth: int) -> int:
    """Number of facets in a tile."""
    facets = surveyor.explore(tile, depth)
    return sum(_count(surveyor, part, depth + 1) for part in facets) if isinstance(facets, list) else facets.key.size


def check_memory(surveyor: Surveyor, tiles: Sequence[Bounds], n_jobs: int, deadline: float) -> None:
    """Refuse to explore tiles, before that begins, if the facets that can be found in time surely need too much memory."""
    if len(tiles) <= FEW_TILES:
        return
    available = available_memory()
    if PLENTY * len(tiles) * BYTES < available:
        return
    for whole in islice(samples(surveyor, tiles), LEAST - 1, max(LEAST, int(SHARE * len(tiles)))):
        share = min(1.0, n_jobs * max(0.0, deadline - time.monotonic()) / whole.seconds)
        needed, margin = share * whole.bytes, 2.0 * whole.error
        if needed * (1.0 + margin) < available:
            return
        if needed * (1.0 - margin) > available:
            raise MemoryError(
                f"about {share * whole.n_facets:.2g} facets are expected, give or take {100 * whole.error:.0f} %; they need "
                f"{needed / 2**30:.3g} GiB, and {available / 2**30:.3g} GiB are available: choose a smaller region, set "
                "max_facets, or go through the map tile by tile with svmatlas.tiles"
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
