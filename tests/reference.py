"""Slow and exact: the same mathematics in Fractions, written for reading, sharing no code with the package."""

from __future__ import annotations

from fractions import Fraction


def solve(matrix, right):
    """Gauss-Jordan elimination in Fractions: the solution columns of matrix x = right."""
    n = len(matrix)
    rows = [list(map(Fraction, a)) + list(map(Fraction, b)) for a, b in zip(matrix, right, strict=True)]
    for k in range(n):
        pivot = next(i for i in range(k, n) if rows[i][k] != 0)
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [v / rows[k][k] for v in rows[k]]
        for i in range(n):
            if i != k:
                rows[i] = [a - rows[i][k] * b for a, b in zip(rows[i], rows[k], strict=True)]
    return [row[n:] for row in rows]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def cross(a, b):
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


def signed_rows(X, y, bias):
    return [[Fraction(s) * Fraction(v) for v in [*row, bias]] for row, s in zip(X.tolist(), y.tolist(), strict=True)]


def lines(rows, y, partition):
    """Lines {(i, type): h} of a partition, a string of M, I and O, by eq. (8)-(12) of the paper."""
    margin = [i for i, s in enumerate(partition) if s == "M"]
    pull = [[Fraction(0)] * len(rows[0]) for _ in range(2)]
    for i, s in enumerate(partition):
        if s == "I":
            c = 0 if y[i] > 0 else 1
            pull[c] = [a + b for a, b in zip(pull[c], rows[i], strict=True)]
    gram = [[dot(rows[i], rows[j]) for j in margin] for i in margin]
    alpha = solve(gram, [[-dot(rows[i], pull[0]), -dot(rows[i], pull[1]), 1] for i in margin]) if margin else []
    beta = [pull[0], pull[1], [Fraction(0)] * len(rows[0])]
    for i, a in zip(margin, alpha, strict=True):
        beta = [[v + a[c] * x for v, x in zip(beta[c], rows[i], strict=True)] for c in range(3)]
    out = {}
    for i, s in enumerate(partition):
        if s == "M":
            a = alpha[margin.index(i)]
            upper = (1, 0, 0) if y[i] > 0 else (0, 1, 0)
            out[i, 0] = tuple(a)
            out[i, 1] = tuple(u - v for u, v in zip(upper, a, strict=True))
        else:
            h = [dot(rows[i], beta[c]) for c in range(3)]
            h[2] -= 1
            out[i, 0 if s == "O" else 1] = tuple(h) if s == "O" else tuple(-v for v in h)
    return out


def polygon(constraints):
    """Edges of {c >= 0 : h.c >= 0 for all}: names of lines, with None for the sides; empty if there is no area."""
    edges = [(None, (0, 1, 0)), (None, (0, 0, 1)), (None, (1, 0, 0))]
    for name, h in constraints.items():
        corners = []
        for k in range(len(edges)):
            v = cross(edges[k][1], edges[(k + 1) % len(edges)][1])
            corners.append(v if max(v, key=abs) > 0 else tuple(-x for x in v))
        values = [dot(h, v) for v in corners]
        if min(values) >= 0:
            continue
        if max(values) <= 0:
            return []
        kept = []
        for k, edge in enumerate(edges):  # edge k runs from corner k - 1 to corner k
            before, after = values[k - 1], values[k]
            if before > 0 or after > 0:
                kept.append(edge)
            if before >= 0 > after:
                kept.append((name, h))
        edges = kept
    return [name for name, _ in edges]


def explore(X, y, bias):
    """All partitions, by crossing edges from the one at the origin."""
    rows = signed_rows(X, y, bias)
    start = "I" * len(rows)
    found, front = {start}, [start]
    while front:
        partition = front.pop()
        for name in polygon(lines(rows, y, partition)):
            if name is None:
                continue
            i, kind = name
            state = ("O" if kind == 0 else "I") if partition[i] == "M" else "M"
            neighbour = partition[:i] + state + partition[i + 1 :]
            if neighbour not in found:
                found.add(neighbour)
                front.append(neighbour)
    return found


def diagonal(X, y, bias):
    """Breakpoints C of the path C+ = C- = C from 0 to infinity, exactly, with the partition after each."""
    rows = signed_rows(X, y, bias)
    partition, now, path = "I" * len(rows), Fraction(0), []
    while True:
        nearest = None
        for name, h in lines(rows, y, partition).items():
            slope = h[0] + h[1]
            if slope < 0 and -h[2] / slope > now and (nearest is None or -h[2] / slope < nearest[0]):
                nearest = (-h[2] / slope, name)
        if nearest is None:
            return path
        now, (i, kind) = nearest
        state = ("O" if kind == 0 else "I") if partition[i] == "M" else "M"
        partition = partition[:i] + state + partition[i + 1 :]
        path.append((now, partition))
