"""Budgets of processor time, which other work on the machine does not shorten."""

from __future__ import annotations

import time


def use_processor_time():
    """From now on the clock that budgets are read off counts processor time."""
    time.monotonic = time.process_time
