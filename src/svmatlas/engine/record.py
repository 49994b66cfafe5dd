"""A record of arrays and numbers that kernels pass to each other by address, and may change.

Numba passes a named tuple by value, some hundred words, and its ``structref`` counts references: each use of a field is then
an atomic addition, which took two fifths of the time of an exploration. A record is only the address of a named tuple's
fields, in memory that the caller owns. Nothing is counted, so it must not outlive the call that made it.

Where kernels are plain (compiled.py) it is a ``structref`` after all; where they run uncompiled, an object of Python.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types
from numba.experimental import structref
from numba.extending import overload

from svmatlas.engine.compiled import PLAIN, UNCOMPILED, internals

MEMORY = 0 if internals is None else internals.MEMORY
"""Bytes for the fields of a record."""


def make_memory() -> npt.NDArray[np.uint8]:
    """Memory for one record."""
    return np.zeros(MEMORY, dtype=np.uint8)


def _make_object(fields: Any, memory: npt.NDArray[np.uint8]) -> Any:
    """A record of the fields of a named tuple."""
    return SimpleNamespace(**fields._asdict())


@structref.register
class _Counted(types.StructRef):
    """A record whose references are counted."""


def _make_counted(fields, memory):
    """Code that makes such a record: numba has no loop over the names of fields."""
    kind = _Counted(list(zip(fields.fields, map(types.unliteral, fields.types), strict=True)))
    lines = [f"    record.{name} = fields.{name}" for name in fields.fields]
    code = "\n".join(["def make(fields, memory):", "    record = new(kind)", *lines, "    return record"])
    names = {"new": structref.new, "kind": kind}
    exec(code, names)
    return names["make"]


if UNCOMPILED:
    make_record: Any = _make_object
elif PLAIN:
    make_record = _make_object
    overload(_make_object)(_make_counted)
else:
    make_record = internals.make_record
