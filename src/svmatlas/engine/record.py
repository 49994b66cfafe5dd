"""A record of arrays and numbers that kernels pass to each other by address, and may change.

Numba passes a named tuple by value, some hundred words, and its ``structref`` counts references: each use of a field is then
an atomic addition, which took two fifths of the time of an exploration. A record is only the address of a named tuple's
fields, in memory that the caller owns. Nothing is counted, so it must not outlive what it is made of. A named tuple among
the fields is a record, too, at its own address.

Python opens a record once, and gives it to kernels in place of its fields: to take some hundred arrays apart is most of the
machine code of a small kernel.

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

from svmatlas.engine.compiled import PLAIN, UNCOMPILED, entry_noalloc

record_type: Any = None
if not (PLAIN or UNCOMPILED):
    from svmatlas.engine import record_type

MEMORY = 0 if record_type is None else record_type.MEMORY
"""Bytes for the fields of a record."""


def make_memory() -> npt.NDArray[np.uint8]:
    """Memory for one record."""
    return np.zeros(MEMORY, dtype=np.uint8)


def is_record(kind: Any) -> bool:
    """Whether a type of numba is that of a record."""
    return record_type is not None and isinstance(kind, record_type.Record)


def _make_object(fields: Any, memory: npt.NDArray[np.uint8]) -> Any:
    """A record of the fields of a named tuple."""
    nested = {name: _make_object(value, memory) for name, value in fields._asdict().items() if hasattr(value, "_fields")}
    return SimpleNamespace(**fields._asdict() | nested)


@structref.register
class _Counted(types.StructRef):
    """A record whose references are counted."""


def _counted_type(kind):
    """Of a record of a named tuple; other types stay."""
    if not isinstance(kind, types.BaseNamedTuple):
        return types.unliteral(kind)
    return _Counted([(name, _counted_type(field)) for name, field in zip(kind.fields, kind.types, strict=True)])


def _make_counted(fields, memory):
    """Code that makes such a record: numba has no loop over the names of fields."""
    lines = [
        f"    record.{name} = "
        + (f"nest(fields.{name}, memory)" if isinstance(kind, types.BaseNamedTuple) else f"fields.{name}")
        for name, kind in zip(fields.fields, fields.types, strict=True)
    ]
    code = "\n".join(["def make(fields, memory):", "    record = new(kind)", *lines, "    return record"])
    names = {"new": structref.new, "kind": _counted_type(fields), "nest": _make_object}
    exec(code, names)
    return names["make"]


if UNCOMPILED:
    make_record: Any = _make_object
elif PLAIN:
    make_record = _make_object
    overload(_make_object)(_make_counted)
    structref.define_boxing(_Counted, structref.StructRefProxy)
else:
    make_record = record_type.make_record


@entry_noalloc
def open_record(fields):
    """A record for kernels that Python calls, in the memory among its fields. It must not outlive what these hold."""
    return make_record(fields, fields.memory)
