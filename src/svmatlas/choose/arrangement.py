"""The arrangement of zero curves, searched from above: convex boxes, split until no curve enters them.

A *box* is a convex polygon of homogeneous costs c = (p, q, l) with the pieces of curves inside it and one *seat*, an inner
point at which the prediction for every point is known. It is split by a line: while many pieces enter, by one of the
lines C+ = const, C- = const, C+ / C- = const through the middle of them (all three are lines in c, so axes and infinity are
like any other place); when few do, by the line of a piece itself. In a box that no piece enters every prediction is that
at the seat. What is left then are convex *fragments* of the cells between the curves.

The seat of the half in which the old seat does not lie is reached by a straight walk, and each crossing of a curve on the way
turns the prediction of its point. Pieces of one curve join exactly, and a piece is crossed if its ends are on two sides of the
walk, so the count is right also where the walk meets a joint.

Unknown. Where the map of a fold is not explored, an extra point of that fold is positive. It has as many negative rows as the
fold, and all other points of the fold are negative there, so that none of its rows counts as right; for a bound all do. (Of
pairs all are wrong there.)

Bound. A point whose curve enters a box may be predicted either way there; the box can not do better than with all of these
right. Scores do not fall when a prediction becomes right (scoring.py), so a box is dropped if that is not good enough.

Narrow. Whatever is within ``SAME`` (relative to the costs) of a line lies on it. So curves that are one curve up to rounding
and jitter do not have cells between them.

Names. A line is named by the segment of a curve that it follows, or by the split that it was chosen for. A corner is named by
the two lines that made it. The fragments of one cell are put together by these names (cells.py), never by distances.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from svmatlas.choose.judge import mean_score
from svmatlas.engine.compiled import entry, kernel_alloc
from svmatlas.engine.doubledouble import two_prod
from svmatlas.engine.names import mix

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]

SAME = 2.0**-33
"""Relative distance of costs (1e-10) below which they are the same: the corners of facets are good to 2e-10."""

FEW = 12
"""Boxes with no more pieces than this are split along a piece."""

SAMPLE = 64
"""Pieces that are looked at for the middle of all."""

LONG = 2.0**-20
"""Relative length (1e-6) from which on a piece with both ends on a line has the direction of that line."""

SAFE = 1e-7
"""A walk to a new seat must not pass a curve closer to its ends than this share of its length."""

TRIES = 30
"""Seats that are tried; beyond that the box is too narrow to have one and is dropped."""


class Box(NamedTuple):
    """A convex polygon and what is known of it."""

    corners: Floats  # (m, 3)
    names: Words  # (m,) names of the corners
    codes: Ints  # (m,) edge i goes from corner i to i + 1 and lies on line codes[i]: 2 * name + half, or -1 - side
    pieces: Floats  # (n, 6) begin and end
    points: Int32  # (n,) the point whose curve it is
    lines: Ints  # (n,) number of the line that it is a part of
    seat: Floats  # (3,) an inner point
    positive: Bools  # (J,) predictions there
    counts: Ints  # (2, G) what is right there
    key: Words  # (1,) name of these predictions


class Best(NamedTuple):
    """What has been reached, updated in place. ``front`` is empty in a search for the best score."""

    score: Floats  # (2,) best mean score; a score that is good enough even if there are better ones
    front: Ints  # (n_neg + 1,) most true positives with at most so many false positives, -1 for none
    random: Words  # (1,)
    splits: Ints  # (1,) number of splits that follow no segment
    refuted: Words  # keys of predictions that are made by no models, but by rounding and jitter only
    key: Words  # (1,) key of the predictions with the best score


# ----------------------------------------------------------------------------------------------------------------------
# Scores


@kernel_alloc
def _optimistic(judge, points, positive, counts, seen, out):
    """Counts if all predictions that are open in a box were right. ``seen`` is all False before and after."""
    for row in range(2):
        for k in range(counts.shape[1]):
            out[row, k] = counts[row, k]
    for j in points:
        if not seen[j]:
            seen[j] = True
            if positive[j]:
                out[1, judge.group[j]] += judge.n_neg[j]
            else:
                out[0, judge.group[j]] += judge.n_pos[j]
    for k in range(judge.unknown.size):
        j = judge.unknown[k]
        if j >= 0 and (seen[j] or positive[j]):
            for g in range(judge.group_at[k], judge.group_at[k + 1]):
                out[0, g], out[1, g] = judge.group_pos[g], judge.group_neg[g]
    for j in points:
        seen[j] = False


@kernel_alloc
def _is_refuted(best, key):
    """Whether no models make the predictions with a key."""
    for refuted in best.refuted:
        if key[0] == refuted:
            return True
    return False


@kernel_alloc
def _note(judge, best, counts, key):
    """The predictions at some costs have been seen."""
    if _is_refuted(best, key):
        return
    if best.front.size == 0:
        score = mean_score(judge, counts, False)
        if score > best.score[0]:
            best.score[0], best.key[0] = score, key[0]
        return
    tp, fp = counts[0].sum(), best.front.size - 1 - counts[1].sum()
    while fp < best.front.size and best.front[fp] < tp:
        best.front[fp] = tp
        fp += 1


@kernel_alloc
def _promising(judge, best, counts, upper):
    """Whether counts are as good as the best so far: not below the best score, or not dominated. ``upper``: some are open."""
    if best.front.size == 0:
        return mean_score(judge, counts, upper) >= min(best.score[0], best.score[1]) - judge.equal
    tp, fp = counts[0].sum(), best.front.size - 1 - counts[1].sum()
    return best.front[fp] <= tp and (fp == 0 or best.front[fp - 1] < tp)


# ----------------------------------------------------------------------------------------------------------------------
# Lines


@kernel_alloc
def _difference(a, b, c, d):
    """``a b - c d``, accurate."""
    x, e = two_prod(a, b)
    y, f = two_prod(c, d)
    return (x - y) + (e - f)


@kernel_alloc
def line_through(a, b, out):
    """The line through two points, accurate also where they are close."""
    out[0] = _difference(a[1], b[2], a[2], b[1])
    out[1] = _difference(a[2], b[0], a[0], b[2])
    out[2] = _difference(a[0], b[1], a[1], b[0])


@kernel_alloc
def _length(a, b):
    """Relative distance of two points."""
    out = 0.0
    for i in range(3):
        x, y = a[i] * b[(i + 1) % 3], b[i] * a[(i + 1) % 3]
        if x + y > 0.0:
            out = max(out, abs(x - y) / (x + y))
    return out


@kernel_alloc
def _value(h, c):
    return h[0] * c[0] + h[1] * c[1] + h[2] * c[2]


@kernel_alloc
def side_of(h, c, near):
    """+1, -1, or 0 for a point whose distance from the line is at most ``near``, relative to the costs."""
    size = abs(h[0] * c[0]) + abs(h[1] * c[1]) + abs(h[2] * c[2])
    value = _value(h, c)
    if abs(value) <= near * size:
        return 0
    return 1 if value > 0.0 else -1


@kernel_alloc
def _side(h, c):
    """+1, -1, or 0 on the line."""
    return side_of(h, c, SAME)


@kernel_alloc
def _meet(h, a, b, out):
    """The point between a and b, on two sides of a line, on the line."""
    x, y = abs(_value(h, b)), abs(_value(h, a))
    top = 0.0
    for i in range(3):
        out[i] = x * a[i] + y * b[i]
        top = max(top, out[i])
    for i in range(3):
        out[i] /= top


@kernel_alloc
def _middle_line(pieces, family, out):
    """Line of a family (C+, C-, their ratio) through the middle of the pieces; returns how far they spread along it."""
    step = max(1, pieces.shape[0] // SAMPLE)
    values = np.empty((pieces.shape[0] + step - 1) // step)
    over, under = (0, 2) if family == 0 else ((1, 2) if family == 1 else (0, 1))
    for k in range(values.size):
        piece = pieces[k * step]
        a, b = piece[0] + piece[1] + piece[2], piece[3] + piece[4] + piece[5]
        x = piece[over] / a + piece[3 + over] / b
        y = piece[under] / a + piece[3 + under] / b
        values[k] = min(max(np.log(x) - np.log(y), -300.0), 300.0)
    values.sort()
    n = values.size
    out[:] = 0.0
    middle = np.exp(0.5 * values[n // 2])
    out[over], out[under] = 1.0 / middle, -middle
    return values[(3 * n) // 4] - values[n // 4]


# ----------------------------------------------------------------------------------------------------------------------
# Splitting


@kernel_alloc
def _cuts(corners, h):
    """Whether a line has corners on both sides."""
    above, below = False, False
    for i in range(corners.shape[0]):
        side = _side(h, corners[i])
        above, below = above or side > 0, below or side < 0
    return above and below


@kernel_alloc
def _crossing_name(a, b):
    """Name of the corner where two lines with codes a and b cross, whatever their halves and order."""
    a, b = a >> 1 if a >= 0 else a, b >> 1 if b >= 0 else b
    return mix(mix(np.uint64(a)) + mix(np.uint64(b)))


@kernel_alloc
def _half(corners, names, codes, h, half, code):
    """The part of a polygon on the positive (half 0) or negative (half 1) side of a line that cuts it."""
    m = corners.shape[0]
    out, out_names, out_codes = np.empty((m + 2, 3)), np.empty(m + 2, np.uint64), np.empty(m + 2, np.int64)
    sign = 1 - 2 * half
    n = 0
    for i in range(m):
        a, b = corners[i], corners[(i + 1) % m]
        here, there = sign * _side(h, a), sign * _side(h, b)
        if here >= 0:
            out[n, 0], out[n, 1], out[n, 2], out_names[n] = a[0], a[1], a[2], names[i]
            out_codes[n] = code if here == 0 and there < 0 else codes[i]
            n += 1
        if here * there < 0:
            _meet(h, a, b, out[n])
            out_names[n] = _crossing_name(code, codes[i])
            out_codes[n] = code if here > 0 else codes[i]
            n += 1
    return out[:n].copy(), out_names[:n].copy(), out_codes[:n].copy()


@kernel_alloc
def _pieces_of_half(box, h, half, chosen):
    """Pieces on one side of a line, clipped, with their points and lines; the chosen one lies on the line."""
    out, points, lines = np.empty_like(box.pieces), np.empty_like(box.points), np.empty_like(box.lines)
    sign = 1 - 2 * half
    n = 0
    for k in range(points.size):
        piece = box.pieces[k]
        a, b = sign * _side(h, piece[:3]), sign * _side(h, piece[3:])
        if k == chosen or (a <= 0 and b <= 0):
            continue
        for c in range(6):
            out[n, c] = piece[c]
        if a < 0:
            _meet(h, piece[:3], piece[3:], out[n, :3])
        elif b < 0:
            _meet(h, piece[:3], piece[3:], out[n, 3:])
        points[n], lines[n] = box.points[k], box.lines[k]
        n += 1
    return out[:n].copy(), points[:n].copy(), lines[:n].copy()


@kernel_alloc
def _choose_line(box, h):
    """A line that cuts the box, and which piece lies on it (-1: none); -2 if there is none that matters."""
    n = box.points.size
    if n > FEW:
        most, trial = 0.0, np.empty(3)
        for family in range(3):
            spread = _middle_line(box.pieces, family, trial)
            if spread > most and _cuts(box.corners, trial):
                most = spread
                h[0], h[1], h[2] = trial[0], trial[1], trial[2]
        if most > 0.0 and _divides(box.pieces, h):
            return -1
    return _choose_piece(box, h)


@kernel_alloc
def _divides(pieces, h):
    """Whether each side of a line has less than all of the pieces."""
    above, below = 0, 0
    for k in range(pieces.shape[0]):
        a, b = _side(h, pieces[k, :3]), _side(h, pieces[k, 3:])
        above += a > 0 or b > 0
        below += a < 0 or b < 0
    return above < pieces.shape[0] and below < pieces.shape[0]


@kernel_alloc
def _choose_piece(box, h):
    """The longest piece whose line cuts the box; -2 if there is none: what enters is too short or grazes the box."""
    n = box.points.size
    step = max(1, n // SAMPLE)
    longest, chosen, trial = SAME, -2, np.empty(3)
    for k in range(0, n, step):
        length = _length(box.pieces[k, :3], box.pieces[k, 3:])
        if length > longest:
            line_through(box.pieces[k, :3], box.pieces[k, 3:], trial)
            if _cuts(box.corners, trial):
                longest, chosen = length, k
                h[0], h[1], h[2] = trial[0], trial[1], trial[2]
    if chosen == -2 and step > 1:
        for k in range(n):
            if _length(box.pieces[k, :3], box.pieces[k, 3:]) > SAME:
                line_through(box.pieces[k, :3], box.pieces[k, 3:], h)
                if _cuts(box.corners, h):
                    return k
    return chosen


@kernel_alloc
def _random(best):
    """Uniform in [0.5, 1.5)."""
    x = best.random[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    best.random[0] = x
    return 0.5 + (x >> np.uint64(11)) * 2.0**-53


@kernel_alloc
def _new_seat(best, corners, out):
    """A random inner point of a polygon."""
    out[:] = 0.0
    for i in range(corners.shape[0]):
        weight = _random(best) / corners[i].sum()
        for k in range(3):
            out[k] += weight * corners[i, k]


@kernel_alloc
def _walk(judge, box, to, positive, counts):
    """Turn the predictions at a box's seat into those at another inner point; returns their key and whether it is safe."""
    key, r, safe = box.key.copy(), box.seat, True
    s = to / r
    n = np.array([s[2] - s[1], s[0] - s[2], s[1] - s[0]])  # the line from (1, 1, 1), the seat in units of itself, to s
    x = np.empty(3)
    for k in range(box.points.size):
        a, b = box.pieces[k, :3] / r, box.pieces[k, 3:] / r
        o, u = _value(n, a), _value(n, b)
        if (o > 0.0) == (u > 0.0):
            continue
        for i in range(3):
            x[i] = abs(u) * a[i] + abs(o) * b[i]
        # x = near s + far (1, 1, 1)
        far = n[0] * (x[1] * s[2] - x[2] * s[1]) + n[1] * (x[2] * s[0] - x[0] * s[2]) + n[2] * (x[0] * s[1] - x[1] * s[0])
        near = n[0] * (x[2] - x[1]) + n[1] * (x[0] - x[2]) + n[2] * (x[1] - x[0])
        safe = safe and min(abs(near), abs(far)) > SAFE * max(abs(near), abs(far))
        if near > 0.0 and far > 0.0:
            j = box.points[k]
            turn(judge, j, positive, counts)
            key[0] ^= judge.words[j]
    return key, safe


@kernel_alloc
def turn(judge, j, positive, counts):
    """Turn one prediction."""
    sign = -1 if positive[j] else 1
    positive[j] = not positive[j]
    counts[0, judge.group[j]] += sign * judge.n_pos[j]
    counts[1, judge.group[j]] -= sign * judge.n_neg[j]


@kernel_alloc
def _child(judge, best, box, h, chosen, half, code):
    """One half of a box, and whether it exists."""
    corners, names, codes = _half(box.corners, box.names, box.codes, h, half, code + half)
    pieces, points, lines = _pieces_of_half(box, h, half, chosen)
    old = Box(corners, names, codes, pieces, points, lines, box.seat, box.positive, box.counts, box.key)
    if _side(h, box.seat) == 1 - 2 * half:
        return old, True
    seat = np.empty(3)
    for _ in range(TRIES):
        _new_seat(best, corners, seat)
        positive, counts = box.positive.copy(), box.counts.copy()
        key, safe = _walk(judge, box, seat, positive, counts)
        if safe:
            return Box(corners, names, codes, pieces, points, lines, seat, positive, counts, key), True
    return old, False


@kernel_alloc
def _code_of(best, box, h, chosen):
    """Code of half 0 of a split: its line is named by an even number for a segment, by a new odd one for no segment.

    A line that was chosen for no segment is named by one all the same if that lies on it, as curves of constant C+ / C- may.
    """
    if chosen >= 0:
        return 4 * box.lines[chosen]
    for k in range(box.lines.size):
        a, b = box.pieces[k, :3], box.pieces[k, 3:]
        if _side(h, a) == 0 and _side(h, b) == 0 and _length(a, b) > LONG:
            return 4 * box.lines[k]
    best.splits[0] += 1
    return 4 * best.splits[0] + 2


@entry
def halve(judge, best, box):
    """The two halves of a box (which may be missing), as a list; empty if nothing splits it."""
    out = [box]
    out.clear()
    h = np.empty(3)
    chosen = _choose_line(box, h)
    if chosen == -2:
        return out
    code = _code_of(best, box, h, chosen)
    for half in range(2):
        child, exists = _child(judge, best, box, h, chosen, half, code)
        if exists:
            _note(judge, best, child.counts, child.key)
            out.append(child)
    return out


@entry
def bound_of(judge, box):
    """Counts (2, G) that a box can not beat, and their mean score."""
    out = np.empty_like(box.counts)
    _optimistic(judge, box.points, box.positive, box.counts, np.zeros(box.positive.size, np.bool_), out)
    return out, mean_score(judge, out, True)


@entry
def is_promising(judge, best, counts, upper):
    """Whether counts, of which some are open if ``upper``, are as good as the best so far."""
    return _promising(judge, best, counts, upper)


@kernel_alloc
def _is_known(judge, box):
    """Whether the maps of all folds have been explored at the seat."""
    for j in judge.unknown:
        if j >= 0 and box.positive[j]:
            return False
    return True


@kernel_alloc
def _is_better(judge, box, other):
    """Whether the seat of a box has a better score than that of another one."""
    return mean_score(judge, box.counts, False) > mean_score(judge, other.counts, False)


@entry
def fragments_of(judge, best, box):
    """All fragments of a box that are as good as the best so far, which is updated.

    Returns also the highest bound of parts that are not known, and the number of boxes looked at. Not known are unexplored
    parts; and of average precision there is only a bound where positive rows are equal (judge.py).
    """
    stack, out = [box], [box]
    out.clear()
    seen, counts = np.zeros(box.positive.size, np.bool_), np.empty_like(box.counts)
    n_boxes, unknown, ranking = 0, -np.inf, judge.table.size == 0 and judge.linear.size == 0
    _note(judge, best, box.counts, box.key)  # no curve may enter it
    while len(stack) > 0:
        box = stack.pop()
        n_boxes += 1
        _optimistic(judge, box.points, box.positive, box.counts, seen, counts)
        if not _promising(judge, best, counts, True):
            continue
        children = halve(judge, best, box) if box.points.size > 0 else out[:0]
        if len(children) == 0:
            known = _is_known(judge, box)
            if ranking or not known:
                unknown = max(unknown, mean_score(judge, box.counts if known else counts, True))
            if known and _promising(judge, best, box.counts, False) and not _is_refuted(best, box.key):
                out.append(box)
            continue
        # The half with the better seat is searched first.
        if len(children) == 2 and _is_better(judge, children[0], children[1]):
            children[0], children[1] = children[1], children[0]
        for child in children:
            stack.append(child)
    return out, unknown, n_boxes


@kernel_alloc
def _count_each(judge, box, costs, which, out):
    """Counts at some costs in a box, by a walk to each."""
    for n in which:
        positive, counts = box.positive.copy(), box.counts.copy()
        _walk(judge, box, costs[n], positive, counts)
        for row in range(2):
            for k in range(counts.shape[1]):
                out[n, row, k] = counts[row, k]


@entry
def counts_at(judge, best, box, costs):
    """Counts (n, 2, G) at some costs in a box."""
    out = np.empty((costs.shape[0], *box.counts.shape), np.int64)
    stack, h = [(box, np.arange(costs.shape[0]))], np.empty(3)
    while len(stack) > 0:
        box, mine = stack.pop()
        chosen = _choose_line(box, h) if mine.size > FEW and box.points.size > FEW else -2
        if chosen == -2:
            _count_each(judge, box, costs, mine, out)
            continue
        above = np.zeros(mine.size, np.bool_)
        for k in range(mine.size):
            above[k] = _value(h, costs[mine[k]]) >= 0.0
        for half in range(2):
            child, exists = _child(judge, best, box, h, chosen, half, 0)
            some = mine[above] if half == 0 else mine[~above]
            if some.size == 0:
                continue
            if exists and (child.points.size < box.points.size or some.size < mine.size):
                stack.append((child, some))
            else:  # the line does not get any further
                _count_each(judge, box, costs, some, out)
    return out
