"""When to stop: a budget of seconds, and Ctrl-C, both looked at between two kernels.

Python raises KeyboardInterrupt between any two instructions. Inside the code that calls a kernel it becomes a SystemError, and
what was in hand is lost. So for as long as a public function runs, Ctrl-C only leaves a note. Each step of the work looks for
the note, and at the clock, every ``TICK`` seconds or so (``Limit.check``), and is given up if it is time. The public function
then returns what there is, or raises KeyboardInterrupt. A second Ctrl-C raises KeyboardInterrupt at once.

Signals reach the main thread only. In other threads, and where the user has a handler of his own, nothing is changed.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

TICK = 0.05
"""Seconds of work between two looks at the clock: too short to be felt, a thousand times what a look takes."""


class Stopped(Exception):  # noqa: N818 - no error, as StopIteration is none
    """It is time to stop. The step in hand is given up."""


class _Note:
    """Ctrl-C was pressed, or not yet; a handler of its signal."""

    def __init__(self) -> None:
        self.interrupted = False

    def __call__(self, number: int, frame: Any) -> None:
        """Take note; the second time, raise."""
        if self.interrupted:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            raise KeyboardInterrupt
        self.interrupted = True


class Limit:
    """How long a public function may go on.

    Parameters
    ----------
    seconds : float
        From now on.
    note : callable, optional
        The note that Ctrl-C leaves.

    """

    def __init__(self, seconds: float = np.inf, note: _Note | None = None) -> None:
        self.deadline = time.monotonic() + seconds
        self.note = note or _Note()
        self.answered = False  # has Ctrl-C been answered, by a result?

    def __reduce__(self) -> tuple[Callable[[float], Limit], tuple[float]]:
        """In another process, with a clock of its own: the time of day, as it may have to wait for its turn."""
        return _until, (time.time() + self.left,)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self.note.interrupted

    @property
    def left(self) -> float:
        """Seconds that are left; 0 after Ctrl-C."""
        return 0.0 if self.interrupted else max(0.0, self.deadline - time.monotonic())

    @property
    def finite(self) -> bool:
        """Whether there is a budget of time."""
        return self.deadline < np.inf

    @property
    def expired(self) -> bool:
        """Whether it is time to stop."""
        return self.left == 0.0

    def check(self) -> None:
        """Raise Stopped if it is time."""
        if self.expired:
            raise Stopped

    def within(self, seconds: float) -> Limit:
        """A limit for a part of the work: no later than this one, stopped by the same Ctrl-C."""
        part = Limit(seconds, self.note)
        part.deadline = min(part.deadline, self.deadline)
        return part


def _until(time_of_day: float) -> Limit:
    """A limit from another process."""
    return Limit(time_of_day - time.time())


NEVER = Limit()
"""The limit of what has none."""


class Pace:
    """How much of something takes about ``TICK`` seconds, learnt on the way."""

    def __init__(self, first: int, most: int) -> None:
        self.size = first
        self.most = most
        self.begin = 0.0

    def start(self) -> int:
        """How much to do now."""
        self.begin = time.monotonic()
        return self.size

    def stop(self, done: int) -> None:
        """So much was done; less if something came between."""
        seconds = max(time.monotonic() - self.begin, 1e-6)
        if done >= self.size or seconds > TICK:
            self.size = max(1, min(int(TICK * done / seconds), 4 * self.size, self.most))


@contextmanager
def stoppable(time_budget: float | None = None) -> Iterator[Limit]:
    """The limit of a public function.

    Ctrl-C ends in KeyboardInterrupt, unless the function has a result and says so (``limit.answered``). If the time was too
    short for any result, a ValueError says so.
    """
    known = signal.getsignal(signal.SIGINT)
    outer = known if isinstance(known, _Note) and _in_main_thread() else None
    limit = Limit(np.inf if time_budget is None else float(time_budget), outer)
    mine = outer is None and known is signal.default_int_handler and _in_main_thread()
    if mine:
        signal.signal(signal.SIGINT, limit.note)
    try:
        yield limit
    except Stopped:
        if not limit.interrupted:
            raise ValueError("the time budget ended before anything was known: give it more time") from None
    except SystemError:  # what a kernel makes of a second Ctrl-C
        if not limit.interrupted:
            raise
        limit.answered = False
    finally:
        if mine:
            signal.signal(signal.SIGINT, known)
    if limit.interrupted and not limit.answered:
        raise KeyboardInterrupt


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def check_budget(time_budget: Any) -> None:
    """ValueError if this is no budget of seconds."""
    if time_budget is not None and not time_budget > 0:
        raise ValueError(f"time_budget must be a positive number of seconds, got {time_budget}")
