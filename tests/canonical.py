"""Canonical facets of tiny data, exactly: an oracle in Fractions that shares no code with the package.

Costs are homogeneous, c = (p, q, l) with C+ = p/l and C- = q/l, scaled so that p + q + l = 1. The whole quadrant with its
infinity is then a triangle in the plane, lines stay lines, and areas are finite.

Rows are signed and have the bias appended, x_i = y_i (x, B). At costs c the optimal beta is unique, and so is the partition

    M = {i : x_i.beta = 1},   I = {i : x_i.beta < 1},   O = {i : x_i.beta > 1}.

The costs of one partition, if they have an area, are a canonical facet. With b(c) = sum over I of w_i C_i x_i:

    beta(c) = (part of b(c) orthogonal to the rows of M) + l * (least-norm solution of X_M beta = 1)       (affine)
    x_i.beta(c) <= l for i in I,   x_i.beta(c) >= l for i in O
    beta(c) - b(c) lies in the zonotope Z(c) = {sum over M of a_i x_i : 0 <= a_i <= w_i C_i}               (alpha exists)

A zonotope is the intersection of half-spaces whose normals v are orthogonal to as many of its generators as possible.
These normals do not depend on the lengths of the generators, so the last condition is linear in c, too:

    v.(beta(c) - b(c)) <= sum over M of w_i C_i max(0, v.x_i)     for each such v.

So a polygon needs no elimination of alpha. The facets are found by a walk: the costs just beyond an open piece of an edge
are solved by Lemke's algorithm, the solution is checked (KKT), its partition has a polygon, and so on. The walk takes nothing
for granted about how facets meet. `check` proves that the result is the whole map: the areas add up to that of the region.

Theorem: the map is edge-to-edge, also where rows are tied: the intersection of two facets is a whole edge or vertex of both.
Give each row its own cost c_i > 0 and add a shift s: minimise |beta - s|^2 / 2 + sum c_i hinge_i(beta), so that beta - s - b
lies in Z. The partition (M, I, O) of any beta has a face R of the arrangement of the hyperplanes x_i.beta = 1, and the cell
{(s, c) : s in R - b - Z}. R is orthogonal to Z, so the cell is a convex polyhedron of full dimension, and its sides are of
two kinds: a side R' of R with Z, and R with a side of Z. The first kind is of the second one, seen from the other cell: R'
has a set M' of one rank more, and the rows of M' that were in I or O are at a bound, which makes Z a side of Z'. Vice versa,
a side of Z with the normal v keeps the rows with v.x_i = 0 on the margin, and R is a side of the face that is reached along
-v. So each side of a cell is a whole side of the next cell; reflected at c_i = 0 they cover the whole space, and such cells
are a complex (Gruber, Ryshkov 1989, Facet-to-facet implies face-to-face). The costs (C+, C-) are a plane in this space: s =
0, c_i = w_i C_i. The section of a complex by a plane is a complex, and a canonical facet is the section of its cell, if that
has an area. Two facets share one edge at most, as they are convex.

Theorem: across an edge no row passes from I to O at once. Take costs at a distance t before and behind the edge, and let D
be differences between them: 0 <= |D beta|^2 = sum D alpha_i D g_i, g_i = x_i.beta, which is O(t^2). If alpha_i jumps up as t
-> 0, it is below its bound before the edge and above zero behind it, so g_i >= 1 before and g_i <= 1 behind it; the opposite
if it jumps down. So no term of order t is positive, hence none is negative: where alpha_i jumps, row i is in M on both
sides.

What does happen: several rows change at once; some enter the margin while others leave it; a row is on the margin on the
edge only, and in the same set on both sides (tiny.py has examples).
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import gcd, inf, lcm
from typing import NamedTuple

from tests.reference import cross, dot

NOWHERE = -1
"""Number of the facet behind a side of the region."""

SHRINK = Fraction(1, 8)
"""Each step towards an edge is so much shorter than the one before; any value below 1 is right."""

ATTEMPTS = 40
"""Points that are tried for a facet; more are needed only if polygons are wrong."""


class Partition(NamedTuple):
    """Row numbers on the margin, inside it and outside it."""

    margin: frozenset
    inside: frozenset
    outside: frozenset


class Edge(NamedTuple):
    """A segment of positive length between two facets.

    left, right: numbers of facets, seen from ends[0] to ends[1]; right is NOWHERE on a side of the region.
    events: {row: (its set in left, its set in right)} for rows whose set differs, sets named "M", "I", "O".
    """

    left: int
    right: int
    ends: tuple
    events: dict


class CanonicalMap(NamedTuple):
    """The canonical facets in a region.

    region: corners of the region, counter-clockwise.
    partitions: a Partition for each facet.
    polygons: corners of each facet, counter-clockwise from the least one, none on the line through its neighbours;
        each is Fractions (p, q, l) with sum 1, see `costs`.
    edges: the Edges; vertices: the distinct ends of edges, sorted.
    """

    region: tuple
    partitions: list
    polygons: list
    edges: list
    vertices: list


class Problem(NamedTuple):
    """Signed rows, their weights, and the place of their cost in (p, q, l)."""

    rows: list
    weights: list
    classes: list


def canonical_map(X, y, bias=1, weights=None, box=((0, 8), (0, 8))):
    """All canonical facets with costs in a box, as a CanonicalMap.

    Parameters
    ----------
    X : list of lists of numbers
        Rows; Fraction takes integers, floats and Fractions exactly.
    y : list
        Two labels; the larger one is the positive class, with cost C+.
    bias : number
        The constant that is appended to each row.
    weights : list of numbers, optional
        Positive weights of the costs.
    box : ((lo, hi), (lo, hi))
        Bounds of C+ and of C-; hi may be math.inf.

    """
    problem = make_problem(X, y, bias, weights)
    region = corners_of(box)
    partitions, polygons = walk(problem, region)
    edges = join(partitions, polygons, region)
    vertices = sorted({v for edge in edges for v in edge.ends})
    return CanonicalMap(region, partitions, polygons, edges, vertices)


def make_problem(X, y, bias=1, weights=None):
    positive = [label == max(y) for label in y]
    rows = [[(1 if s else -1) * Fraction(v) for v in [*row, bias]] for row, s in zip(X, positive, strict=True)]
    weights = [Fraction(1)] * len(rows) if weights is None else [Fraction(w) for w in weights]
    assert len(set(y)) == 2
    assert min(weights) > 0
    return Problem(rows, weights, [0 if s else 1 for s in positive])


def corners_of(box):
    (a, b), (c, d) = box
    if b == d == inf:
        ring = [(a, c, 1), (1, 0, 0), (0, 1, 0)]
    elif b == inf:
        ring = [(a, c, 1), (1, 0, 0), (a, d, 1)]
    elif d == inf:
        ring = [(a, c, 1), (b, c, 1), (0, 1, 0)]
    else:
        ring = [(a, c, 1), (b, c, 1), (b, d, 1), (a, d, 1)]
    return tuple(normalised(v) for v in ring)


def normalised(c):
    c = [Fraction(v) for v in c]
    return tuple(v / sum(c) for v in c)


def costs(corner):
    """(C+, C-) of homogeneous costs, with infinity where l = 0."""
    p, q, l = corner
    return tuple(v / l if l else inf if v else Fraction(0) for v in (p, q))


# ----------------------------------------------------------------------------------------------------------------------
# Vectors


def combine(*terms):
    """The sum of factor * vector."""
    factors, vectors = zip(*terms, strict=True)
    return [dot(factors, column) for column in zip(*vectors, strict=True)]


def rejected(x, basis):
    """The part of x that is orthogonal to an orthogonal basis [(row, vector), ...]."""
    return combine((1, x), *[(-dot(x, e) / dot(e, e), e) for _, e in basis])


def orthogonal(rows):
    """Gram-Schmidt: [(row, its part orthogonal to the rows before), ...] for rows that are independent of those before."""
    basis = []
    for x in rows:
        e = rejected(x, basis)
        if any(e):
            basis.append((x, e))
    return basis


def middle(points):
    return tuple(sum(v) / len(points) for v in zip(*points, strict=True))


def primitive(h):
    """The multiple of a vector that has coprime integers, of the same direction."""
    scale = lcm(*[Fraction(v).denominator for v in h])
    integers = [int(v * scale) for v in h]
    return tuple(v // gcd(*integers) for v in integers)


# ----------------------------------------------------------------------------------------------------------------------
# The polygon of a partition


def pull(problem, inside):
    """b(c) as columns (p, q, l)."""
    b = [[Fraction(0)] * len(problem.rows[0]) for _ in range(3)]
    for i in inside:
        k = problem.classes[i]
        b[k] = combine((1, b[k]), (problem.weights[i], problem.rows[i]))
    return b


def beta_columns(problem, partition):
    """beta(c) as columns (p, q, l)."""
    basis = orthogonal([problem.rows[i] for i in sorted(partition.margin)])
    p, q, least = pull(problem, partition.inside)
    for x, e in basis:
        least = combine((1, least), ((1 - dot(x, least)) / dot(x, e), e))
    return rejected(p, basis), rejected(q, basis), least


def normals(rows):
    """Normals of the sides of the zonotope of rows, within their span, one of each opposite pair."""
    rank = len(orthogonal(rows))
    out = {}
    for some in combinations(rows, max(rank - 1, 0)):
        basis = orthogonal(some)
        if rank and len(basis) == rank - 1:
            v = primitive(next(filter(any, (rejected(x, basis) for x in rows))))
            out[max(v, tuple(-w for w in v))] = None
    return list(out)


def score_lines(problem, partition, beta):
    """Lines h with h.c >= 0 where rows of I and O are on their side of the margin."""
    for sign, some in ((-1, partition.inside), (1, partition.outside)):
        for i in sorted(some):
            h = [dot(problem.rows[i], column) for column in beta]
            yield [sign * h[0], sign * h[1], sign * (h[2] - 1)]


def alpha_lines(problem, partition, beta):
    """Lines h with h.c >= 0 where some alpha exists."""
    margin = sorted(partition.margin)
    rest = [combine((1, a), (-1, b)) for a, b in zip(beta, pull(problem, partition.inside), strict=True)]
    for normal in normals([problem.rows[i] for i in margin]):
        for sign in (1, -1):
            v = [sign * w for w in normal]
            h = [-dot(v, column) for column in rest]
            for i in margin:
                h[problem.classes[i]] += problem.weights[i] * max(0, dot(v, problem.rows[i]))
            yield h


def polygon_of(problem, partition, region):
    """Corners of a partition's costs in the region, the least first; () if they have no area."""
    beta = beta_columns(problem, partition)
    polygon = region
    for h in [*score_lines(problem, partition, beta), *alpha_lines(problem, partition, beta)]:
        polygon = clip(polygon, h)
    least = polygon.index(min(polygon)) if polygon else 0
    return polygon[least:] + polygon[:least]


def clip(polygon, h):
    """The part of a convex polygon with h.c >= 0; () if it has no area. h = 0 where alpha is at a bound and the score is 1."""
    if not any(h):
        return polygon
    value = [dot(h, c) for c in polygon]
    if max(value, default=0) <= 0:
        return ()
    out = []
    for k, c in enumerate(polygon):
        if value[k - 1] * value[k] < 0:
            out.append(crossing(polygon[k - 1], c, value[k - 1], value[k]))
        if value[k] >= 0:
            out.append(c)
    return tuple(out)


def crossing(a, b, at_a, at_b):
    return tuple((at_b * v - at_a * w) / (at_b - at_a) for v, w in zip(a, b, strict=True))


def depth(polygon, c):
    """Positive inside a polygon, zero on its boundary, negative outside."""
    return min(dot(cross(polygon[k - 1], v), c) for k, v in enumerate(polygon))


def area(polygon):
    """Area in the plane of (p, q), with p + q + l = 1."""
    return sum(polygon[k - 1][0] * v[1] - polygon[k - 1][1] * v[0] for k, v in enumerate(polygon)) / 2


# ----------------------------------------------------------------------------------------------------------------------
# The partition at some costs


def partition_at(problem, c, margin=None, inside=frozenset()):
    """The partition at costs with l > 0; None if rows other than those of margin (default: all) must move for it.

    The solution is checked: it satisfies the KKT conditions, so it is the optimum, however it was found.
    """
    rows, unit = problem.rows, [c[0] / c[2], c[1] / c[2]]
    bound = [w * unit[k] for w, k in zip(problem.weights, problem.classes, strict=True)]
    margin = sorted(range(len(rows)) if margin is None else margin)
    base = combine((0, rows[0]), *[(bound[i], rows[i]) for i in inside])
    kernel = [[dot(rows[i], rows[j]) for j in margin] for i in margin]
    solved = box_program(kernel, [dot(rows[i], base) - 1 for i in margin], [bound[i] for i in margin])
    alpha = {i: bound[i] if i in inside else Fraction(0) for i in range(len(rows))} | dict(zip(margin, solved, strict=True))
    beta = combine((0, rows[0]), *[(alpha[i], rows[i]) for i in alpha])
    score = [dot(x, beta) for x in rows]
    assert all(0 <= alpha[i] <= bound[i] for i in alpha)
    wrong = {i for i, g in enumerate(score) if (g < 1 and alpha[i] < bound[i]) or (g > 1 and alpha[i] > 0)}
    assert not wrong.intersection(margin)
    if wrong:
        return None
    return Partition(*(frozenset(i for i, g in enumerate(score) if (g > 1) - (g < 1) == s) for s in (0, -1, 1)))


def box_program(kernel, linear, bound):
    """The a with 0 <= a <= bound that minimises a.kernel.a / 2 + linear.a, by Lemke's algorithm."""
    n = len(linear)
    unit = [[Fraction(i == j) for j in range(n)] for i in range(n)]
    upper = [[*k, *e] for k, e in zip(kernel, unit, strict=True)]
    lower = [[-v for v in e] + [Fraction(0)] * n for e in unit]
    return lemke(upper + lower, [*linear, *bound])[:n]


def lemke(matrix, offset):
    """Find z >= 0 with w = matrix z + offset >= 0 and w.z = 0, for a positive semidefinite matrix.

    The ratio test is lexicographic, so it ends. Columns of the tableau: w (0 to n - 1), z (n to 2n - 1), the
    artificial variable (2n), the right side (2n + 1).
    """
    n = len(offset)
    table = [
        [Fraction(i == j) for j in range(n)] + [-v for v in matrix[i]] + [Fraction(-1), Fraction(offset[i])] for i in range(n)
    ]
    basis = list(range(n))
    order = [2 * n + 1, *range(n)]
    if n and min(offset) < 0:
        row, entering = min(range(n), key=lambda i: [table[i][j] for j in order]), 2 * n
        while True:
            pivot(table, row, entering)
            basis[row], leaving = entering, basis[row]
            if leaving == 2 * n:
                break
            entering = (leaving + n) % (2 * n)
            ready = [i for i in range(n) if table[i][entering] > 0]
            row = min(ready, key=lambda i: [table[i][j] / table[i][entering] for j in order])
    z = dict(zip(basis, (line[-1] for line in table), strict=True))
    return [z.get(n + i, Fraction(0)) for i in range(n)]


def pivot(table, row, column):
    table[row] = [v / table[row][column] for v in table[row]]
    for i, line in enumerate(table):
        if i != row and line[column]:
            table[i] = [v - line[column] * w if w else v for v, w in zip(line, table[row], strict=True)]


# ----------------------------------------------------------------------------------------------------------------------
# The walk


def walk(problem, region):
    """Partitions and polygons of all facets: through each piece of an edge that has no facet behind it yet."""
    partitions, polygons, lines = [], [], {}
    note(lines, NOWHERE, region[::-1])
    found = first(problem, region)
    while found:
        assert found[0] not in partitions
        partitions.append(found[0])
        polygons.append(found[1])
        note(lines, len(polygons) - 1, found[1])
        gap = next(gaps(lines), None)
        found = gap and beyond(problem, region, partitions[gap[0]], polygons[gap[0]], gap[1])
    return partitions, polygons


def note(lines, facet, polygon):
    """Enter the edges of a facet: {line: ([(from, to, facet) on its left], [the same on its right])}, from < to."""
    for k, b in enumerate(polygon):
        a = polygon[k - 1]
        h = primitive(cross(min(a, b), max(a, b)))
        lines.setdefault(h, ([], []))[0 if a < b else 1].append((min(a, b), max(a, b), facet))


def gaps(lines):
    """Pieces (facet, (from, to)) of edges without a facet on the other side."""
    for sides in lines.values():
        for here, there in (sides, sides[::-1]):
            for a, b, facet in here:
                for lo, hi, _ in sorted(there):
                    if facet != NOWHERE and a < min(lo, b):
                        yield facet, (a, min(lo, b))
                    a = max(a, hi)  # noqa: PLW2901
                if facet != NOWHERE and a < b:
                    yield facet, (a, b)


def first(problem, region):
    """A facet in the region, at one of some points that are not on one line."""
    for k in range(1, ATTEMPTS):
        c = normalised(combine(*[(k**j, corner) for j, corner in enumerate(region)]))
        partition = partition_at(problem, c)
        polygon = polygon_of(problem, partition, region)
        if polygon:
            return partition, polygon
    raise AssertionError("no facet in the region")


def beyond(problem, region, partition, polygon, piece):
    """The facet behind a piece of an edge of a facet. At the edge the margin holds all rows that can move there."""
    beta = beta_columns(problem, partition)
    centre = middle(polygon)
    for k in range(1, ATTEMPTS):
        m = crossing(*piece, Fraction(-k), Fraction(k + 1))
        score = [dot(combine(*zip(m, beta, strict=True)), x) / m[2] for x in problem.rows]
        margin = [i for i, g in enumerate(score) if g == 1]
        c = crossing(m, centre, SHRINK**k, 1 + SHRINK**k)
        if depth(region, c) <= 0:
            continue
        found = partition_at(problem, c, margin, [i for i, g in enumerate(score) if g < 1])
        ring = found and polygon_of(problem, found, region)
        if ring and depth(ring, m) >= 0:
            return found, ring
    raise AssertionError(f"no facet behind {piece}")


def join(partitions, polygons, region):
    """All edges: where a facet on the left of a line and one on its right overlap."""
    lines, edges = {}, []
    note(lines, NOWHERE, region[::-1])
    for f, polygon in enumerate(polygons):
        note(lines, f, polygon)
    for left, right in lines.values():
        for a, b, f in left:
            for lo, hi, g in right:
                ends = max(a, lo), min(b, hi)
                if ends[0] < ends[1]:
                    edges.append(make_edge(partitions, f, g, ends))
    return edges


def make_edge(partitions, left, right, ends):
    if left == NOWHERE:
        left, right, ends = right, left, ends[::-1]
    if right == NOWHERE:
        return Edge(left, right, ends, {})
    one, other = states(partitions[left]), states(partitions[right])
    return Edge(left, right, ends, {i: (one[i], other[i]) for i in sorted(one) if one[i] != other[i]})


def states(partition):
    """{row: "M", "I" or "O"}."""
    return {i: name for name, some in zip("MIO", partition, strict=True) for i in some}


# ----------------------------------------------------------------------------------------------------------------------
# What a map must satisfy


def check(found):
    """Raise AssertionError unless a CanonicalMap is a complete, edge-to-edge subdivision of its region."""
    assert len(set(found.partitions)) == len(found.partitions)
    assert all(area(polygon) > 0 for polygon in found.polygons)
    assert sum(map(area, found.polygons)) == area(found.region)
    assert len(found.vertices) - len(found.edges) + len(found.polygons) == 1
    assert not split_edges(found)
    pairs = [(edge.left, edge.right) for edge in found.edges if edge.right != NOWHERE]
    assert len({frozenset(pair) for pair in pairs}) == len(pairs)
    events = [edge.events for edge in found.edges if edge.right != NOWHERE]
    assert all(events)
    assert all("M" in change for some in events for change in some.values())


def split_edges(found):
    """Edges that are only a part of an edge of a facet beside them: none if the map is edge-to-edge."""
    whole = [{frozenset((ring[k - 1], v)) for k, v in enumerate(ring)} for ring in found.polygons]
    return [e for e in found.edges if any(frozenset(e.ends) not in whole[f] for f in e[:2] if f != NOWHERE)]
