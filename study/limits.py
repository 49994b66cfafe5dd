"""Limits of processor time, which other work on the machine does not shorten."""

from __future__ import annotations

import signal
from contextlib import contextmanager

WALL = 50.0
"""Seconds by the clock for each second of processor time: a budget for ``select``, so that Ctrl-C gives what there is."""


@contextmanager
def processor_limit(seconds):
    """Press Ctrl-C after some seconds of processor time. What is inside is to have a result then, as ``select`` has."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell may have turned off
    known = signal.signal(signal.SIGPROF, lambda *_: signal.raise_signal(signal.SIGINT))
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, known)
