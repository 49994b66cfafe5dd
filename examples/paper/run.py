"""``make paper``: the four experiments of the paper, its two figures, and numbers for the questions that it leaves open.

D. Wesierski, *Exploring the Entire Regularization Path for the Asymmetric Cost Linear Support Vector Machine*: (i) few points
with very many features, (ii) many points with two features, (iii) as many points as features, (iv) sparse features; B = 0.01
throughout. The paper does not give the means of its Gaussians, so they are chosen here: distances of the two means are of the
order of one standard deviation, larger in (i) where d is so large. The features of (iv) (a part-based model of persons) were
not published: rows here are made up in their likeness, see ``part_histograms``.

    python examples/paper/run.py [--output DIR] [--quick]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array, issparse

import svmatlas
from svmatlas.show.displays import AlphaDisplay, AtlasDisplay, use_files

BIAS = 0.01
"""The constant feature B of all experiments."""

SIDE, SEVERAL = -1, -2
"""In place of the event of an edge: the edge is a side of the quadrant; several events happen on it."""

SWEEP = [(2, (25, 50, 100, 200)), (10, (25, 50, 100, 200)), (100, (25, 50, 100))]
"""Features, and numbers of points, of the data for M against N."""


# ----------------------------------------------------------------------------------------------------------------------
# Data


def gaussian(n_pos, n_neg, d, shift, seed=0):
    """Two Gaussian classes of unit variance whose means differ by ``shift`` in every feature."""
    rng = np.random.default_rng(seed)
    y = np.r_[np.ones(n_pos, dtype=int), np.zeros(n_neg, dtype=int)]
    X = rng.normal(size=(n_pos + n_neg, d))
    X[:n_pos] += shift
    return X, y


def part_histograms(seed=4, n_pos=10, n_neg=40, parts=26, types=5, cells=25, bins=32):
    """Sparse rows like those of a mixture of parts: of each part one of its types is there, with its gradient histograms.

    Entries lie between 0 and 0.2, as in truncated histograms of oriented gradients. Types of a part look alike in all
    positive rows; negative rows show parts of no particular look. 26 x 5 x 25 x 32 = 104,000 features, a fifth of them used.
    """
    rng = np.random.default_rng(seed)
    size = cells * bins
    look = 0.2 * rng.random((parts, types, size)) ** 2
    X, y = np.zeros((n_pos + n_neg, parts, types, size)), np.r_[np.ones(n_pos, dtype=int), np.zeros(n_neg, dtype=int)]
    for row, label in zip(X, y, strict=True):
        for part in range(parts):
            kind = rng.integers(types)
            noise = 0.2 * rng.random(size) ** 2
            row[part, kind] = 0.3 * look[part, kind] + 0.7 * noise if label else noise
    return X.reshape(len(y), -1), y


def sparse_part_histograms():
    X, y = part_histograms()
    return csr_array(X), y


EXPERIMENTS = {
    "i": ("d = 10^6, N+ = 25, N = 50", lambda: gaussian(25, 25, 10**6, 0.01)),
    "ii": ("d = 2, N+ = 50, N = 100", lambda: gaussian(50, 50, 2, 1.0)),
    "iii": ("d = 10^2, N+ = 50, N = 100", lambda: gaussian(50, 50, 100, 0.2)),
    "iv": ("sparse, d ~ 10^5, N+ = 10, N = 50", sparse_part_histograms),
}


# ----------------------------------------------------------------------------------------------------------------------
# What the paper leaves open


def short_rows(X):
    """The rows with B appended, in at most N coordinates: the factor R' of R'Q' has the same inner products."""
    rows = np.column_stack([X.toarray() if issparse(X) else X, np.full(X.shape[0], BIAS)])
    return np.linalg.qr(rows.T, mode="r").T


def tied_facets(atlas, X):
    """Facets on whose margin are more rows than are linearly independent: X_M X_M' is singular there.

    This is where the paper leaves the plane unexplored. Ranks are those up to rounding, as numpy counts them.
    """
    rows, tied = short_rows(X), np.zeros(atlas.n_facets, dtype=bool)
    if np.linalg.matrix_rank(rows) == len(rows):
        return tied  # and so are any of them
    for f in range(atlas.n_facets):
        margin = atlas.partition(f).margin
        tied[f] = margin.size > 0 and np.linalg.matrix_rank(rows[margin]) < margin.size
    return tied


def share_at_infinity(atlas, tied):
    """Share of the directions C+ : C- whose far end is tied: the share of a large disc in the plane that is tied."""
    angle = 0.0
    for f in np.flatnonzero(tied):
        far = atlas.polygon(f)
        ends = np.arctan2(far[far[:, 2] == 0, 1], far[far[:, 2] == 0, 0])
        angle += np.ptp(ends) if ends.size > 1 else 0.0
    return angle / (np.pi / 2)


def share_in_view(atlas, tied):
    """Share of the picture (logarithmic costs, within the default limits) that is tied."""
    import matplotlib.pyplot as plt

    display = AtlasDisplay.from_atlas(atlas, color_by=tied.astype(float), resolution=400, edges=False)
    plt.close(display.figure_)
    return float(np.mean(display.values))


def events_per_edge(atlas):
    """How many events happen on each edge that is not a side of the quadrant."""
    row = atlas.edge_events[atlas.edge_at[:-1], 0]
    return np.diff(atlas.edge_at)[row >= 0]


def single_events(atlas):
    """The event of each edge as a code 2 * row + type; ``SIDE`` or ``SEVERAL`` where there is not just one."""
    row, kind = atlas.edge_events[atlas.edge_at[:-1]].astype(np.int64).T
    code = np.where(row >= 0, 2 * row + kind, SIDE)
    return np.where(np.diff(atlas.edge_at) > 1, SEVERAL, code)


def is_inner(atlas):
    """Vertices inside the quadrant: on no axis, and not at infinity."""
    return np.all(atlas.vertices > 0, axis=1)


def joint_events(atlas):
    """The vertices in which two event paths meet and nothing else happens, and the two events of each, a row of codes.

    Such a vertex is inside the quadrant and has four edges of one event each. Around it what moves comes back: the events
    are two and two the same.
    """
    end, code = atlas.edge_vertices.ravel(), np.repeat(single_events(atlas), 2)
    plain = is_inner(atlas) & (np.bincount(end, minlength=atlas.n_vertices) == 4)
    plain[end[code < 0]] = False
    order = np.lexsort((code, end))
    order = order[plain[end[order]]].reshape(-1, 4)
    code = code[order]
    assert np.all((code[:, 0] == code[:, 1]) & (code[:, 2] == code[:, 3])), "a path that ends in a vertex"
    return end[order[:, 0]], code[:, ::2]


# ----------------------------------------------------------------------------------------------------------------------
# Tables


def table_of_experiments(atlases, seconds):
    lines = [
        "| | data | facets | edges | vertices | layers M | M/N | tied | tied in view | tied at infinity | valid | time |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, (_, y, atlas, tied) in atlases.items():
        report = atlas.validate()
        cells = [
            f"({name})", EXPERIMENTS[name][0], f"{atlas.n_facets:,}", f"{atlas.n_edges:,}", f"{atlas.n_vertices:,}",
            atlas.n_layers, f"{atlas.n_layers / len(y):.2f}", f"{tied.sum():,}",
            f"{share_in_view(atlas, tied):.1%}", f"{share_at_infinity(atlas, tied):.1%}",
            "yes" if report.ok else "NO", f"{seconds[name]:.1f} s",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def table_of_layers(sweep, seeds=(0, 1, 2)):
    """M against N."""
    lines = ["| d | N | facets | layers M | M/N |", "|---|---|---|---|---|"]
    for d, sizes in sweep:
        for n in sizes:
            atlases = [svmatlas.explore(*gaussian(n // 2, n - n // 2, d, d**-0.5, seed), bias=BIAS) for seed in seeds]
            facets, layers = (sorted(getattr(a, what) for a in atlases) for what in ("n_facets", "n_layers"))
            lines.append(
                f"| {d} | {n} | {facets[0]:,} - {facets[-1]:,} | {layers[0]} - {layers[-1]} "
                f"| {layers[0] / n:.2f} - {layers[-1] / n:.2f} |"
            )
    return "\n".join(lines)


def table_of_joint_events(atlases):
    lines = [
        "| | vertices of two paths | other inner vertices | pairs of paths that meet | more than once | most often |",
        "|---|---|---|---|---|---|",
    ]
    for name, (_, _, atlas, _) in atlases.items():
        vertex, events = joint_events(atlas)
        _, counts = np.unique(events, axis=0, return_counts=True)
        lines.append(
            f"| ({name}) | {vertex.size:,} | {is_inner(atlas).sum() - vertex.size:,} | {counts.size:,} "
            f"| {np.sum(counts > 1):,} | {counts.max()} times |"
        )
    return "\n".join(lines)


def table_of_multiple_events(atlases):
    lines = ["| | inner edges | of several events | share | most events |", "|---|---|---|---|---|"]
    for name, (_, _, atlas, _) in atlases.items():
        n = events_per_edge(atlas)
        lines.append(f"| ({name}) | {n.size:,} | {np.sum(n > 1):,} | {np.mean(n > 1):.2%} | {n.max()} |")
    return "\n".join(lines)


# ----------------------------------------------------------------------------------------------------------------------
# Figures


def figure_1(atlases, path):
    """The planes: (i) a part with facet means, (ii) layers and event paths, (iii) and (iv) the whole."""
    import matplotlib.pyplot as plt
    from matplotlib.colors import ListedColormap

    figure, axes = plt.subplots(2, 2, figsize=(11, 9.5), layout="constrained")
    for ax, name in zip(axes.ravel(), atlases, strict=True):
        ax.set_title(f"({name})  {_in_math(EXPERIMENTS[name][0])}")
    atlas = atlases["i"][2]
    finite = atlas.vertices[np.all(atlas.vertices > 0, axis=1)]
    limits = np.quantile(finite[:, :2] / finite[:, 2:], (0.25, 0.7), axis=0).T
    AtlasDisplay.from_atlas(atlas, scale="linear", limits=limits, ax=axes[0, 0], means=True)
    _, y, atlas, _ = atlases["ii"]
    last = int(np.quantile(atlas.facet_layer, 0.8))
    layers = np.where(atlas.facet_layer <= last, atlas.facet_layer % 2, np.nan)
    AtlasDisplay.from_atlas(
        atlas, color_by=layers, ax=axes[0, 1], events=[0, 1, len(y) - 1], edges=False, colorbar=False,
        cmap=ListedColormap(["#8da0cb", "#66c2a5"]),
    )  # fmt: skip
    axes[0, 1].set_title(f"(ii)  {_in_math(EXPERIMENTS['ii'][0])}; layers up to {last}")
    AtlasDisplay.from_atlas(atlases["iii"][2], ax=axes[1, 0])
    AtlasDisplay.from_atlas(atlases["iv"][2], ax=axes[1, 1])
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _in_math(what):
    return what.replace("10^6", "$10^6$").replace("10^5", "$10^5$").replace("10^2", "$10^2$").replace("~", "$\\approx$")


def figure_2(atlas, path):
    """Dual variables of (iv) over the plane: three positive rows and three negative ones."""
    display = AlphaDisplay.from_atlas(atlas, [0, 1, 2, 10, 11, 12], kind="surface", share=False, scale="linear")
    display.figure_.savefig(path, dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "out")
    parser.add_argument("--quick", action="store_true", help="leave out the table of M against N")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    use_files()
    svmatlas.explore(*gaussian(10, 10, 2, 1.0), bias=BIAS)  # compiles
    atlases, seconds = {}, {}
    for name, (what, make) in EXPERIMENTS.items():
        X, y = make()
        begin = time.perf_counter()
        atlas = svmatlas.explore(X, y, bias=BIAS)
        seconds[name] = time.perf_counter() - begin
        print(f"({name}) {what}: {atlas}, {seconds[name]:.1f} s", flush=True)
        atlases[name] = (X, y, atlas, tied_facets(atlas, X))
    parts = ["# The experiments of the paper", table_of_experiments(atlases, seconds)]
    if not arguments.quick:
        parts += ["Is M about N? Three draws each, B = 0.01:", table_of_layers(SWEEP)]
    parts += ["Do two event paths meet at most once?", table_of_joint_events(atlases)]
    parts += ["How often do several events happen at once, on a whole edge?", table_of_multiple_events(atlases)]
    figure_1(atlases, arguments.output / "figure1.png")
    figure_2(atlases["iv"][2], arguments.output / "figure2.png")
    text = "\n\n".join(parts) + "\n"
    (arguments.output / "results.md").write_text(text, encoding="utf-8")
    print(f"\n{text}\nTables and figures are in {arguments.output}.")


if __name__ == "__main__":
    main()
