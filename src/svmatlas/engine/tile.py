"""One tile: explore its facets step by step, look at the clock, answer questions by exact arithmetic, tidy up.

``Engine`` is the entry for all that is above: one problem, tile after tile.

Candidates. In a tile few points change their set. The others are *frozen*: they are in the pull, but not among the rows, and a
facet costs what the candidates cost. Afterwards it is known how far the weights beta moved from a centre m, as lengths h_1,
h_2 along two directions f_1, f_2 and a radius R around that plane: a frozen point with

    |x.m - t| > h_1 |x.f_1| + h_2 |x.f_2| + R |x|

cannot have changed in the tile: beta is affine in each facet, so what holds at all corners holds everywhere. If all are so,
the facets are those of all points; else the others become candidates, and the tile is explored again.
"""

from __future__ import annotations

import threading
from typing import NamedTuple
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from svmatlas.engine.arena import (
    CROWD,
    LIKELY,
    POSITIVES,
    TIE,
    facet_of,
    full_state,
    larger,
    make_arena,
    plant_start,
    states_of,
)
from svmatlas.engine.clipping import ASKING, CLOSED, EMPTY
from svmatlas.engine.exact import ExactFacet, ExactProblem, answer, corners_and_tie, rounded
from svmatlas.engine.facet import drift_of
from svmatlas.engine.layers import ACCURACY, FULL, PAUSED, close_all, judge, tidy
from svmatlas.engine.maps import affine_maps
from svmatlas.engine.names import enter, key_of
from svmatlas.engine.record import open_record
from svmatlas.engine.workspace import (
    HINT,
    INSIDE,
    MARGIN,
    OUTSIDE,
    QUESTION,
    Data,
    Floats,
    Int32,
    Ints,
    Region,
    Space,
    States,
    Words,
    clear,
    make_space,
    open_task,
)
from svmatlas.engine.zeros import sum_words
from svmatlas.support.settings import SETTINGS
from svmatlas.support.stopping import NEVER, Limit, Pace, Stopped

SPARE = 1.25
"""Room for a tile, as a multiple of what the largest before it needed."""

FIRST_CHUNK, CHUNK = 2**4, 2**13
"""Facets closed before the first look at the clock, and at most between two of them."""


class EngineError(RuntimeError):
    """A facet came out impossible. This contradicts the mathematics: please report the data."""


HOPELESS = 2.0**53
"""Condition of the rows beyond which doubles do not even know their rank; the jitter is then lost in double-double, too."""


def impossible(data: Data, what: str) -> Exception:
    """The error for a facet that came out impossible: of the data if these are hopeless, else of the engine."""
    sizes = np.linalg.svd(data.rows, compute_uv=False)
    if data.rank > 0 and not sizes[0] < HOPELESS * sizes[data.rank - 1]:
        return ValueError(
            "rows of X and the bias are dependent but for less than doubles tell, or differ too much in scale: standardise "
            f"the features, and drop those that follow from others ({what})"
        )
    return EngineError(what)


def more_answers(answers: npt.NDArray[np.void], new: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """All that exact arithmetic answered for one facet. Some of it must be new, or the facet would ask for ever."""
    if (new[:, None] == answers).any(axis=1).all():
        raise EngineError("a facet asks for nothing that it was not told")
    return np.concatenate([answers, new])


class Frame(NamedTuple):
    """Where the weights are expected: a point m and two orthonormal directions, as rows; none of them if nothing is frozen."""

    axes: Floats  # (3, d) or (0, d)
    which: Ints  # the candidates


class Facets(NamedTuple):
    """The closed facets of a tile. Codes: 2 * point + type, or -1 - name of the side."""

    start: States  # (N,) partition of facet 0
    which: Ints  # the candidates
    outcome: int  # CLOSED, FULL, PAUSED, or EMPTY if the start is not in the tile
    spread: Floats  # see Arena
    key: Words  # (F,)
    kind: npt.NDArray[np.int8]  # (F,) PLAIN, TIE and so on
    at: Ints  # (F + 1,) facet j has the places at[j] : at[j + 1] of the next three
    code: Int32  # the edges in order, from the largest code on
    vertex: Int32  # number of the vertex at the end of the edge
    neighbour: Int32  # number of the facet behind it, BOUNDARY or OPEN
    name: Words  # (V,) names of vertices
    corner: Floats  # (V, 3) the vertices
    beta: Floats  # (V, d) l beta there, if wanted
    parent: Int32  # (F,) the facet of the tile that named this one, and
    flips: Int32  # (F, 2) the codes of candidates crossed from there, -1 for none

    @property
    def n_pieces(self) -> int:
        """So many facets, without those of plateaus that are left out."""
        return int(np.count_nonzero(np.diff(self.at)))

    def states(self, facets: Ints) -> States:
        """Partitions of some facets."""
        states = np.tile(self.start, (facets.size, 1))
        states[:, self.which] = states_of(facets, self.parent, self.flips, self.start[self.which])
        return states

    def state(self, f: int) -> States:
        """Partition of a facet."""
        state: States = self.states(np.array([f]))[0]
        return state

    def bare(self) -> Facets:
        """What it takes to tell partitions, without the polygons."""
        none, nowhere = np.empty(0, dtype=np.int32), np.empty((0, 3))
        return self._replace(code=none, vertex=none, neighbour=none, corner=nowhere, beta=nowhere)


class Memory(threading.local):
    """What a thread may use for one tile after the other; it is gone with the thread."""

    def __init__(self) -> None:
        self.block = np.empty(0, dtype=np.uint8)  # for the facets of a tile

    def take(self) -> npt.NDArray[np.uint8]:
        """The block of this thread, which has none until it is given back."""
        block, self.block = self.block, np.empty(0, dtype=np.uint8)
        return block


class Local(threading.local):
    """What a thread keeps from tile to tile of one problem."""

    space: Space | None = None  # for all points


_memories: WeakValueDictionary[str, Memory] = WeakValueDictionary()


def _shared_memory() -> Memory:
    """The memory of all engines that there are: a search has one for each fold, and they work one after the other."""
    memory = _memories.get("of all engines") or Memory()
    return _memories.setdefault("of all engines", memory)


class Engine:
    """The four steps for one problem, tile by tile."""

    def __init__(self, data: Data, words: Words, betas: bool = False) -> None:
        self.data = data
        self.plateaus = np.zeros(2, dtype=bool)  # which are left out, of the positives and of the negatives (plateaus.py)
        self.wide = widen(data)
        self.words = words
        self.betas = betas  # are the weights at the corners wanted?
        self.exact: ExactProblem | None = None
        self.drift = drift_of(data, 1)
        # Facets for which the next tile is to have room, and that are closed at once
        self.room = int(np.clip(64 * data.rows.shape[0], *SETTINGS.first_facets))
        self.pace = FIRST_CHUNK
        self.memory = _shared_memory()
        self.local = Local()
        self.n_refined = 0  # predicates that double-double decided, zeros that were proven modulo a prime, and
        self.n_zero = 0
        self.n_exact = 0  # questions to exact arithmetic

    @property
    def counts(self) -> dict[str, int]:
        """How often doubles did not decide."""
        return {"n_refined": self.n_refined, "n_zero": self.n_zero, "n_exact": self.n_exact}

    def explore(
        self,
        region: Region,
        start: States,
        frame: Frame,
        capacity: int,
        max_facets: float = np.inf,
        limit: Limit = NEVER,
    ) -> Facets:
        """All facets of a tile from the partition of one of them; PAUSED if they are too many or the time has come."""
        work = _Work(self, region, start, frame, capacity, max_facets, limit)
        return work.finish(work.run())

    def judge(
        self, region: Region, states: States, suspect: npt.NDArray[np.int8], at: Ints, code: Int32, limit: Limit = NEVER
    ) -> npt.NDArray[np.bool_]:
        """Which of some whole facets with given edges are ties; ``suspect``: 1 for thin ones, SLIM or FAR, else 0."""
        (tie, coarse), margin = np.zeros((2, len(states)), dtype=bool), np.zeros(2, dtype=np.int32)
        space, drift = make_space(self.data, region), drift_of(self.data, 1)
        judge(open_task(self.data, region, space), states, drift, at, code, margin, suspect, tie, coarse)
        if coarse.any():
            problem = self.exact_in(region, limit)
            for f in np.flatnonzero(coarse):
                _, tie[f] = corners_and_tie(problem, states[f], code[at[f] : at[f + 1]].tolist())
        return tie

    def exact_in(self, region: Region, limit: Limit) -> ExactProblem:
        """The data for exact arithmetic in a region."""
        if self.exact is None:
            self.exact = ExactProblem(self.data, region)
        return self.exact.within(region, limit)


class _Work:
    """A tile in work. Some facets are closed, then it is looked at the clock, and so on.

    What only exact arithmetic knows of closed facets is found as they come, so that it is known of all if work is stopped. A
    facet is told with all that were closed before it, or not at all: its parent is one of them, and it shares their corners.
    """

    def __init__(
        self, engine: Engine, region: Region, start: States, frame: Frame, capacity: int, max_facets: float, limit: Limit
    ) -> None:
        self.engine, self.region, self.start, self.which = engine, region, start, frame.which
        self.capacity, self.max_facets, self.limit = capacity, max_facets, limit
        self.data, self.words, space = engine.wide, engine.words, engine.local.space
        engine.local.space = None  # until the tile is done
        if self.which.size < start.size:
            self.data, self.words, space = subset(self.data, self.which), self.words.reshape(-1, 2)[self.which].ravel(), None
        self.space = space or make_space(self.data, region)._replace(n_near_wanted=SETTINGS.near_points)
        clear(self.space)
        if space is None:
            frozen = full_state(start, self.which, np.int8(OUTSIDE))
            sum_words(engine.wide, frozen, self.space.modular.sums)
        self.axes = _widen(frame.axes)
        self.arena = make_arena(
            min(capacity, engine.room), self.which.size, self.data.rows.shape[1], engine.betas, engine.memory.take()
        )  # fmt: skip
        plant_start(engine.wide, self.arena, start, self.which, key_of(start, engine.words))
        enter(self.arena.table_key, self.arena.table_value, self.arena.key[:1])
        self.arena.counts["layered"] = max_facets < np.inf  # these are the first facets then
        self.arena.plateau[:] = engine.plateaus & (max_facets == np.inf)
        self._open()
        self.hints = np.empty(CROWD, HINT)
        self.answers, self.asked = np.empty(0, QUESTION), -1  # all answers, and the facet that they are for
        self.pace = Pace(engine.pace, CHUNK)
        self.sharpened: list[tuple[int, Floats]] = []  # closed facets with corners from exact arithmetic
        self.n_sharp = 0  # all closed facets up to this one are known well

    def _open(self) -> None:
        """Records of the tile and of its arena, as long as the arena has room."""
        self.records = open_task(self.data, self.region, self.space), open_record(self.arena)

    def run(self) -> int:
        """Close facets until the tile is done, or it is time to stop; returns the outcome."""
        while True:
            outcome = self._close_some()
            try:
                self._sharpen()
                if outcome == ASKING:
                    self._ask()
            except Stopped:
                return PAUSED
            if outcome == FULL and self.arena.key.size < self.capacity:
                self.arena = larger(self.arena, min(2 * self.arena.key.size, self.capacity))
                self._open()
            elif outcome not in (PAUSED, ASKING) or (outcome == PAUSED and self.n_sharp >= self.max_facets):
                return outcome
            if self.limit.expired:
                return PAUSED

    def _close_some(self) -> int:
        """Close some more facets."""
        counts, polygon = self.arena.counts, self.space.polygon  # fields of arrays: those of a record take long in Python
        polygon["n_refined"] = polygon["n_zero"] = 0
        done = int(counts["n_done"][0])
        goal = int(min(self.max_facets, done + self.pace.start()))
        task, arena = self.records
        outcome = close_all(
            task, self.space.neighbour, self.words, self.engine.drift, self.start.size, self.axes, self.answers, arena,
            self.hints, goal,
        )  # fmt: skip
        self.pace.stop(int(counts["n_done"][0]) - done)
        self.engine.n_refined += int(polygon["n_refined"][0])
        self.engine.n_zero += int(polygon["n_zero"][0])
        if counts["in_hand"][0] != self.asked:
            self.answers = self.answers[:0]
        return int(outcome)

    def _full_state(self, state: States) -> States:
        return full_state(self.start, self.which, state)

    def _ask(self) -> None:
        """Answer the questions about the facet in hand by exact arithmetic."""
        f, asked = int(self.arena.counts[0].in_hand), self.space.lines.asked[: self.space.polygon[0].n_asked]
        questions = _rename_asked(asked, self.which)
        problem = self.engine.exact_in(self.region, self.limit)
        new = answer(problem, self._full_state(self.arena.state[self.arena.partition_row[f]]), questions)
        self.engine.n_exact += asked.size
        place = np.full(self.start.size, -1)
        place[self.which] = np.arange(self.which.size)
        self.answers, self.asked = more_answers(self.answers, _rename_asked(new, place)), f

    def _sharpen(self) -> None:
        """Corners of closed facets that double-double does not know well, from exact arithmetic.

        Ties, likely ones, and what is left out are left as they are: nobody sees their corners.
        """
        arena, done = self.arena, int(self.arena.counts["n_done"][0])
        new = slice(self.n_sharp, done)
        if not arena.coarse[new].any():
            self.n_sharp = done
            return
        seen = (arena.kind[new] != TIE) & (arena.kind[new] != LIKELY)
        for kind in np.flatnonzero(arena.plateau & (not self.engine.betas)):
            seen &= arena.kind[new] != POSITIVES + kind
        coarse = self.n_sharp + np.flatnonzero(arena.coarse[new] & seen)
        problem = self.engine.exact_in(self.region, self.limit)
        states = states_of(arena.order[coarse].astype(np.intp), arena.parent, arena.flips, self.start[self.which])
        for f, state in zip(coarse.tolist(), states, strict=True):
            self.n_sharp = f
            codes = _rename(arena.code[arena.at[f] : arena.at[f + 1]].astype(np.intp), self.which).tolist()
            self.sharpened.append((f, rounded(ExactFacet(problem, self._full_state(state)).corners(codes))))
            self.engine.n_exact += len(codes)
        self.n_sharp = done

    def finish(self, outcome: int) -> Facets:
        """The closed facets."""
        engine, arena, n = self.engine, self.arena, self.n_sharp
        self._check(outcome)
        engine.room = max(engine.room, int(SPARE * arena.counts["n_named"][0]))
        engine.pace = self.pace.size
        arena.counts["n_done"], arena.counts["n_found"] = n, arena.vertex[: arena.at[n]].max(initial=-1) + 1
        for f, corners in self.sharpened:
            mine = arena.vertex[arena.at[f] : arena.at[f + 1]]
            known = arena.corner[mine] == 0.0  # zero by structure
            arena.corner[mine] = np.where(known, 0.0, np.maximum(corners, 0.0))
        if engine.betas and outcome == CLOSED and not self._mend():
            outcome = PAUSED
        told = tidy(arena, self.words, self.which, self.region.name, engine.data.rows.shape[1], engine.data.rank)
        engine.memory.block = arena.block
        if self.which.size == self.start.size:
            engine.local.space = self.space
        return Facets(self.start, self.which, outcome, arena.spread.copy(), *told)

    def _check(self, outcome: int) -> None:
        """Raise an error if the facet in hand came out impossible."""
        if outcome in (CLOSED, FULL, PAUSED) or (outcome == EMPTY and self.arena.counts[0].n_done == 0):
            return
        state = self._full_state(self.arena.state[self.arena.partition_row[self.arena.counts[0].in_hand]])
        sets = [np.flatnonzero(state == s).tolist() for s in (MARGIN, INSIDE)]
        what = f"a facet without area (outcome {outcome}): margin {sets[0]}, inside {sets[1]}"
        raise impossible(self.engine.data, what)

    def _mend(self) -> bool:
        """Weights at corners that double-double does not know, from exact arithmetic. False if it is time to stop."""
        arena, region, n = self.arena, self.region, self.n_sharp
        wrong, vertex = np.nonzero(np.isnan(arena.beta[: arena.counts[0].n_found]))[0], arena.vertex[: arena.at[n]]
        if wrong.size == 0:
            return True
        exact = self.engine.exact_in(region, self.limit)
        for f in np.unique(facet_of(np.flatnonzero(np.isin(vertex, wrong)), arena.at[: n + 1])):
            (state,) = states_of(arena.order[f : f + 1], arena.parent, arena.flips, self.start[self.which])
            full = self._full_state(state)[None]
            try:
                _, (maps,) = affine_maps(self.engine.data, region, full, jitter=1.0, accuracy=ACCURACY, exact=exact)
            except Stopped:
                return False
            mine = vertex[arena.at[f] : arena.at[f + 1]]
            arena.beta[mine, : maps.shape[1]] = (arena.corner[mine] @ maps) * (arena.corner[mine, 2:] > 0)
        return True


def subset(data: Data, which: Ints) -> Data:
    """The data of some points; rank, probe and anchor stay those of all."""
    columns = np.ascontiguousarray(data.columns[:, which])
    by_point = ("rows", "norm", "target_jitter", "weight", "weight_jitter", "axis")
    return data._replace(columns=columns, **{name: getattr(data, name)[which] for name in by_point})


WIDTH = 4
"""Rows are filled up with zeros to a multiple of this: loops over them are then of whole vector instructions."""


def widen(data: Data) -> Data:
    """The same data with rows filled up."""
    return data._replace(rows=_widen(data.rows), probe=_widen(data.probe))


def _widen(array: Floats) -> Floats:
    n = array.shape[-1]
    wide = np.zeros((*array.shape[:-1], n + -n % WIDTH))
    wide[..., :n] = array
    return wide


def uncertain(data: Data, facets: Facets, axes: Floats) -> npt.NDArray[np.bool_]:
    """Frozen points that are not certain to have been in one set all over the tile (see Candidates above)."""
    with np.errstate(over="ignore", invalid="ignore"):  # weights without end leave all points uncertain
        low, high = facets.spread[:2].T
        centre = axes[0] + (low + high) / 2 @ axes[1:]
        score, along = data.rows @ centre, np.abs(data.rows @ axes[1:].T)
        reach = along @ ((high - low) / 2) + facets.spread[2, 0] * data.norm
        rounding = ROUNDING * (1.0 + data.norm * (np.linalg.norm(centre) + reach))
        unsure: npt.NDArray[np.bool_] = ~(np.abs(score - (1.0 + data.target_jitter)) > reach + rounding)
    unsure[facets.which] = False
    return unsure


ROUNDING = 2.0**-40
"""Relative rounding of a score and of the bounds that it is compared with: sums of up to 10^3 terms."""


def _rename(codes: npt.NDArray[np.signedinteger], points: npt.NDArray[np.signedinteger]) -> npt.NDArray[np.signedinteger]:
    """Codes of points by other numbers; sides stay what they are."""
    named = codes.copy()
    event = codes >= 0
    named[event] = 2 * points[codes[event] >> 1] + (codes[event] & 1)
    return named


def _rename_asked(asked: npt.NDArray[np.void], points: npt.NDArray[np.signedinteger]) -> npt.NDArray[np.void]:
    """Questions about codes of points by other numbers."""
    named = asked.copy()
    for name in ("first", "second", "line"):
        named[name] = _rename(asked[name], points)
    return named
