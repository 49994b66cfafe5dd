"""The first query after a map is loaded, beside later ones: nothing is made of all facets before it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np


def time_of(function):
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def ask(path):
    """One row of the table, in a process of its own: to load, the first query, and the mean of 1,000."""
    import svmatlas

    rng = np.random.default_rng(0)
    svmatlas.explore(rng.normal(size=(20, 2)), np.arange(20) % 2).coef(1.0, 1.0)  # loads the kernels
    load = time_of(lambda: svmatlas.load(path))
    atlas = svmatlas.load(path)
    first = time_of(lambda: atlas.coef(0.03, 0.02))
    C_pos, C_neg = np.exp(rng.uniform(np.log(2e-3), 0.0, (2, 1000)))
    later = min(time_of(lambda: atlas.coef(C_pos, C_neg)) for _ in range(3)) / 1000
    size = Path(path).stat().st_size / 2**20
    sizes = f"{atlas.n_facets:,} ({atlas.n_pieces:,}) | {size:.0f} MiB"
    print(f"| {sizes} | {load:.2f} s | {1e3 * first:.0f} ms | {1e3 * later:.2f} ms |")


def compare_queries(atlases):
    """Print one table."""
    print(
        "| facets (pieces) | file | load, checked in full | first model | each of 1,000 models |\n" + 5 * "|---" + "|",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "map.atlas"
        for atlas in atlases:
            atlas.save(path)
            subprocess.run([sys.executable, __file__, str(path)], check=True)
    print(flush=True)


if __name__ == "__main__":
    ask(sys.argv[1])
