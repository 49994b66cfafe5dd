"""The best cells of a small problem by brute force: every corner of the arrangement of zero curves is looked at.

Nothing of curves.py, arrangement.py or cells.py is used. Zero curves come facet by facet from the solutions at its corners;
around each end and each crossing of curves one sample is taken in every sector, so every cell is sampled; two samples belong
to one cell if a chain of straight walks between samples that cross no curve joins them (a shortest way in a polygon bends
at its corners only).
"""

from __future__ import annotations

import numpy as np
from scipy.sparse.csgraph import connected_components

import svmatlas

TINY = 1e-10
RADIUS = 1e-7


def predictions(atlas, rows, C_pos, C_neg):
    """Predictions (n, rows): zero is negative."""
    W = np.column_stack([atlas.coef(C_pos, C_neg), atlas.intercept(C_pos, C_neg)])
    Z = np.column_stack([rows, np.ones(len(rows))])
    zero = TINY * np.linalg.norm(W, axis=1)[:, None] * np.linalg.norm(Z, axis=1)
    return zero < W @ Z.T


def curves(atlas, rows):
    """Zero curves (n, 2, 2) of finite costs in a map of a bounded region."""
    C = atlas.vertices[:, :2] / atlas.vertices[:, 2:]
    bounds = np.array(atlas.region)
    C = np.clip(C, bounds[:, 0], bounds[:, 1])
    W = np.column_stack([atlas.coef(*C.T), atlas.intercept(*C.T)])
    Z = np.column_stack([rows, np.ones(len(rows))])
    G = W @ Z.T
    G[np.abs(G) <= TINY * np.linalg.norm(W, axis=1)[:, None] * np.linalg.norm(Z, axis=1)] = 0.0
    out = []
    for f in range(len(atlas.facet_at) - 1):
        ring = atlas.facet_vertices[atlas.facet_at[f] : atlas.facet_at[f + 1]]
        g = G[ring]
        for j in np.flatnonzero((g > 0).any(axis=0) & (g <= 0).any(axis=0)):
            ends = []
            for a, b in zip(ring, np.roll(ring, -1), strict=True):
                if (G[a, j] > 0) != (G[b, j] > 0):
                    t = G[a, j] / (G[a, j] - G[b, j])
                    ends.append(C[a] + t * (C[b] - C[a]))
            out += [ends[k : k + 2] for k in range(0, len(ends), 2)]
    out = np.array(out).reshape(-1, 2, 2)
    return out[np.abs(np.log(out[:, 0] / out[:, 1])).max(axis=1) > TINY]


def cross(u, v):
    return u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]


def crossings(lines):
    """Points where segments meet."""
    a, d = lines[:, 0], lines[:, 1] - lines[:, 0]
    det = cross(d[:, None], d[None])
    offset = a[None] - a[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        s, t = cross(offset, d[None]) / det, cross(offset, d[:, None]) / det
    ok = np.isfinite(s) & (s > -1e-9) & (s < 1 + 1e-9) & (t > -1e-9) & (t < 1 + 1e-9)
    i, _ = np.nonzero(np.triu(ok, 1))
    return a[i] + s[np.triu(ok, 1)][:, None] * d[i]


def samples(lines, region):
    """One point in every sector around every corner of the arrangement."""
    (a, b), (c, d) = region
    box = np.array([[a, c], [b, c], [b, d], [a, d]], dtype=float)
    lines = np.concatenate([lines, np.stack([box, np.roll(box, -1, axis=0)], axis=1)])
    corners = np.concatenate([lines.reshape(-1, 2), crossings(lines)])
    corners = corners[np.unique(np.round(np.log(corners), 9), axis=0, return_index=True)[1]]
    out = []
    for v in corners:
        ends = lines / v - 1  # in units of the corner
        u = ends[:, 1] - ends[:, 0]
        t = np.clip(-np.einsum("ij,ij->i", ends[:, 0], u) / np.einsum("ij,ij->i", u, u), 0, 1)
        near = np.linalg.norm(ends[:, 0] + t[:, None] * u, axis=1) < 1e-8
        rays = ends[near].reshape(-1, 2)
        rays = rays[np.linalg.norm(rays, axis=1) > 1e-8]
        angle = np.unique(np.arctan2(rays[:, 1], rays[:, 0]))
        following = np.r_[angle[1:], angle[0] + 2 * np.pi]
        between = ((angle + following) / 2)[following - angle > 1e-6]  # not between one curve and itself
        out.append(v * (1 + RADIUS * np.column_stack([np.cos(between), np.sin(between)])))
    out = np.concatenate(out)
    inside = (out[:, 0] > a) & (out[:, 0] < b) & (out[:, 1] > c) & (out[:, 1] < d)
    return out[inside]


def joined(points, lines):
    """Labels of points that straight walks join."""
    a, d = lines[:, 0], lines[:, 1] - lines[:, 0]
    free = np.eye(len(points), dtype=bool)
    for i, p in enumerate(points):
        walk = points[i + 1 :] - p
        det = cross(walk[:, None], d[None])
        with np.errstate(divide="ignore", invalid="ignore"):
            s = cross(a - p, d)[None] / det
            t = cross((a - p)[None], walk[:, None]) / det
        hit = (s > 0) & (s < 1) & (t > -1e-12) & (t < 1 + 1e-12)
        free[i, i + 1 :] = ~hit.any(axis=1)
    return connected_components(free, directed=False)


def all_predictions(X, y, splits, region, bias=1.0):
    """Samples of all cells (n, 2), the curves between them, and the predictions (n, rows) of each fold."""
    atlases = [svmatlas.explore(X[train], y[train], region=region, bias=bias) for train, _ in splits]
    lines = np.concatenate([curves(atlas, X[test]) for atlas, (_, test) in zip(atlases, splits, strict=True)])
    points = samples(lines, region)
    return points, lines, [predictions(atlas, X[test], *points.T) for atlas, (_, test) in zip(atlases, splits, strict=True)]


def best_cells(X, y, splits, score, region, bias=1.0):
    """Best mean score, the samples that reach it, and their cells: (score, points (n, 2), labels (n,))."""
    points, lines, predicted = all_predictions(X, y, splits, region, bias)
    total, code = np.zeros(len(points)), []
    for positive, (_, test) in zip(predicted, splits, strict=True):
        truth = y[test] == 1
        tp, tn = (positive & truth).sum(axis=1), (~positive & ~truth).sum(axis=1)
        total += score(tn, (~truth).sum() - tn, truth.sum() - tp, tp) / len(splits)
        code.append(positive)
    keep = total > total.max() - 1e-12
    code = np.unique(np.hstack(code)[keep], axis=0, return_inverse=True)[1].ravel()
    labels = np.full(keep.sum(), -1)
    for k in range(code.max() + 1):
        _, label = joined(points[keep][code == k], lines)
        labels[code == k] = label + labels.max() + 1
    return total.max(), points[keep], labels
