"""Names of facets and vertices: 64-bit words. Equal things have equal names, whoever found them.

``words`` holds one random 64-bit word for each code; a facet's key is the XOR of the words that were crossed from
the partition with all points in I, so it depends on the partition only. A vertex is named by the sum of the mixed keys of the
facets around it:

    two events            facets f, f^a, f^b, f^a^b                        inside the region
    on an axis, C+ = 0    i in I, i in M, i in O, for one positive i       alpha_i = 0 and alpha_i = w_i C+ meet there
    on another side       f, f^a, and the side
    at infinity           the strip whose parallel sides end there; where there are several, joining.py makes them one
    a corner of the region, or a corner of the triangle where any number of parallel strips end
"""

from __future__ import annotations

import numpy as np

from svmatlas.engine.compiled import entry, kernel, kernel_alloc
from svmatlas.engine.predicates import FIRST
from svmatlas.engine.workspace import MARGIN, OUTSIDE, States, Words


def make_words(n_points: int, random_state: np.random.Generator) -> Words:
    """One random word for each code."""
    return random_state.integers(1, 2**64, size=2 * n_points, dtype=np.uint64)


def key_of(state: States, words: Words) -> np.uint64:
    """Key of a partition: words crossed from all points in I, whose key is 1 (0 names no facet)."""
    margin, outside = state == MARGIN, state == OUTSIDE
    crossed = np.concatenate([words[1::2][margin | outside], words[0::2][outside]])
    return np.uint64(np.bitwise_xor.reduce(crossed, initial=np.uint64(1)))


@kernel
def mix(x):
    """A fixed random-looking bijection of 64-bit words (the finaliser of splitmix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


AT_CORNER, OF_SIDES, AT_INFINITY, ON_SIDE = 1 + np.arange(4)
"""Kinds of places that are not named by facets (NumPy's numbers: see the columns in workspace.py)."""


@kernel
def word_of_place(kind, number):
    """Word of a place that is not named by facets."""
    return mix(np.uint64(0x9E3779B97F4A7C15) * np.uint64(1 + number * 8 + kind))


@kernel
def corner_of_triangle(v):
    """Which corner of the triangle of costs v is, -1 for none."""
    for c in range(3):
        if v[(c + 1) % 3] == 0.0 and v[(c + 2) % 3] == 0.0:
            return c
    return -1


@kernel
def opposite(words, axis, side_axis, key, a, b, v):
    """Key of the facet opposite to corner v of edges a and b (0: none), and the two codes that lead to it."""
    none = np.uint64(0)
    event, side = max(a, b), min(a, b)
    if event < 0 or v[2] == 0.0 or corner_of_triangle(v) >= 0 or a ^ b == 1:
        return none, a, b
    if side >= 0:
        return key ^ words[event] ^ words[side], a, b
    if side_axis[-1 - side] == axis[event >> 1]:
        return key ^ words[event] ^ words[event ^ 1], event, event ^ 1
    return none, a, b


@kernel
def name_vertex(task, words, key, a, b, v):
    """Name of the corner v between edges a and b of a facet."""
    c = corner_of_triangle(v)
    if c >= 0:
        return word_of_place(AT_CORNER, c)
    names = task.region.name
    if a < 0 and b < 0:
        return word_of_place(OF_SIDES, 64 * max(names[-1 - a], names[-1 - b]) + min(names[-1 - a], names[-1 - b]))
    event, side = max(a, b), min(a, b)
    if v[2] == 0.0:
        return mix(key if side >= 0 else key ^ words[event]) ^ word_of_place(AT_INFINITY, FIRST)
    beyond = key ^ words[event]
    far, _, _ = opposite(words, task.data.axis, task.region.axis, key, a, b, v)
    name = mix(key) + mix(beyond)
    if side >= 0:
        name += mix(key ^ words[side])
    elif far == np.uint64(0):
        name += word_of_place(ON_SIDE, 1 + names[-1 - side])
    if far != np.uint64(0):
        name += mix(far)
    return name


@entry
def enter(table_key, table_value, keys):
    """Enter facets into an empty table."""
    for n in range(keys.size):
        where = find(table_key, keys[n])
        table_key[where], table_value[where] = keys[n], n


@kernel
def find(table_key, key):
    """Place of a key in a table, or the empty place where it belongs."""
    mask = np.uint64(table_key.size - 1)
    place = key & mask
    while table_key[place] != key and table_key[place] != np.uint64(0):
        place = (place + np.uint64(1)) & mask
    return place


@kernel_alloc
def numbers_of_names(names):
    """See number_names."""
    size = 8
    while size < 2 * names.size:
        size *= 2
    table, value = np.zeros(size, np.uint64), np.full(size, -1, np.int32)
    first, number, n = np.empty(names.size, np.int64), np.empty(names.size, np.int32), 0
    for k in range(names.size):
        where = find(table, names[k])
        if value[where] < 0:
            table[where], value[where], first[n] = names[k], n, k
            n += 1
        number[k] = value[where]
    return first[:n].copy(), number


@entry
def number_names(names):
    """Number equal names in the order in which they appear: the first place of each number, and the number of each place."""
    return numbers_of_names(names)


@kernel
def root_of(one, v):
    """Of the things that are the same as v the one that stands for all; ``one`` leads there, step by step."""
    while one[v] != v:
        one[v] = one[one[v]]
        v = one[v]
    return v


@kernel
def identify(one, v, w):
    """Two things are the same: the first stands for both."""
    a, b = root_of(one, v), root_of(one, w)
    one[max(a, b)] = min(a, b)
