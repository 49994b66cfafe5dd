"""Kernels compiled ahead of their first use, by two processes at once.

Numba compiles one kernel at a time in a process, whatever the threads. But compiled kernels are kept on disk (compiled.py), so
two processes can share the work without a word: one compiles a list of kernels from its beginning, the other from its end, and
each finds what the other has done. The first ``explore`` of an installation does so, and ``svmatlas compile``.

The list, ``kernels.json``, names each kernel that becomes machine code, and the types of its arguments: first those of
``explore``, then the others. ``make kernels`` writes it anew (a test tells when it is out of date). A kernel
that it does not name is compiled when it is used.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from contextlib import suppress
from functools import cache
from importlib import import_module
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

import numpy as np
from numba import from_dtype, types

from svmatlas.engine import compiled
from svmatlas.engine.record import is_record, record_type

LIST = Path(__file__).with_name("kernels.json")

Kernel = tuple[Any, tuple[Any, ...]]
"""A kernel that becomes machine code, and the types of its arguments."""

Row = tuple[str, str, tuple[str, ...]]
"""Module and name of a kernel, and the types of its arguments as texts."""

# ----------------------------------------------------------------------------------------------------------------------
# Types as text


def describe(kind: Any) -> Any:
    """The type of an argument as lists and strings."""
    if isinstance(kind, types.Array):
        return ["array", describe(kind.dtype), kind.ndim, kind.layout, kind.mutable, kind.aligned]
    if isinstance(kind, types.BaseTuple):
        name = getattr(kind, "instance_class", tuple)
        return ["tuple", f"{name.__module__}:{name.__qualname__}", *map(describe, kind.types)]  # type: ignore[attr-defined]
    if isinstance(kind, types.Record):
        return ["record", *([name, kind, *map(list, shape)] for name, kind, *shape in kind.dtype.descr)]
    if is_record(kind):
        return ["opened", describe(kind.fields)]
    return "boolean" if kind == types.boolean else str(kind)


def parse(text: Any) -> Any:
    """The type that ``describe`` was given."""
    if isinstance(text, str):
        return getattr(types, text)
    if text[0] == "array":
        _, dtype, ndim, layout, mutable, aligned = text
        return types.Array(parse(dtype), ndim, layout, readonly=not mutable, aligned=aligned)
    if text[0] == "record":
        return from_dtype(np.dtype([(name, kind, *map(tuple, shape)) for name, kind, *shape in text[1:]]))
    if text[0] == "opened":
        return record_type.Record(parse(text[1]))
    module, name = text[1].split(":")
    kind, parts = getattr(import_module(module), name), [parse(part) for part in text[2:]]
    if len(parts) != len(getattr(kind, "_fields", parts)):
        raise ValueError(f"{name} has other fields by now")
    return types.BaseTuple.from_types(parts, kind)


# ----------------------------------------------------------------------------------------------------------------------
# The list


def read_kernels(explore: bool) -> list[Kernel]:
    """All kernels, or those of ``explore``; not those that are there no longer, take other records, or have become drafts."""
    lists, found = json.loads(LIST.read_text()), []
    parsed = cache(lambda number: parse(lists["types"][number]))
    for module, name, kinds in lists["explore"] + ([] if explore else lists["other"]):
        with suppress(ImportError, AttributeError, ValueError):
            found.append((getattr(import_module(module), name), tuple(map(parsed, kinds))))
    return [row for row in found if row[0] in compiled.WHOLES]


def compiled_kernels() -> list[Row]:
    """All kernels that were compiled in this process, in an order that two processes share best.

    First the entries that take records, most of the engine; then other entries; then the shared kernels that they need,
    those that need most themselves at the end. So one process has what is small of these when the other has what is large.
    """
    found = [(k.py_func, kinds, *_place(k, kinds)) for k in compiled.WHOLES for kinds in k.signatures]
    found.sort(key=lambda row: row[2:])
    return [(f.__module__, f.__name__, tuple(json.dumps(describe(kind)) for kind in kinds)) for f, kinds, *_ in found]


def _place(kernel: Any, kinds: Any) -> tuple[bool, bool, int]:
    library = kernel.overloads[kinds].library
    shared = hasattr(library, "shared")
    return shared, not any(map(is_record, kinds)), len(library.needs) if shared else 0


def write_list(lists: dict[str, list[Row]]) -> None:
    """Write the list anew, each type once: kernels name types by their numbers."""
    number = {kind: n for n, kind in enumerate(dict.fromkeys(k for rows in lists.values() for row in rows for k in row[2]))}
    parts = {"types": list(number)}
    for name, rows in lists.items():
        parts[name] = [json.dumps([module, kernel, [number[kind] for kind in kinds]]) for module, kernel, kinds in rows]
    text = ",\n".join(f'"{name}": [\n' + ",\n".join(lines) + "\n]" for name, lines in parts.items())
    LIST.write_text("{\n" + text + "\n}\n")


# ----------------------------------------------------------------------------------------------------------------------
# Two processes


def compile_kernels(explore: bool = False, backwards: bool = False) -> None:
    """Compile kernels, or load what is compiled, from the beginning of the list or from its end; none that cannot be kept."""
    kernels = [] if compiled.UNCOMPILED or compiled.PLAIN else read_kernels(explore)
    for entry, kinds in reversed(kernels) if backwards else kernels:
        entry.compile(kinds)


CODE = "from svmatlas.engine.ahead import compile_kernels; compile_kernels(explore={}, backwards=True)"


@cache
def get_help(explore: bool) -> None:
    """Let another process compile from the end of the list, if this one is about to compile; once."""
    alone = (os.cpu_count() or 1) == 1 or parent_process() is not None or not sys.executable
    if alone or compiled.UNCOMPILED or compiled.PLAIN or all(compiled.is_kept(entry) for entry, _ in read_kernels(explore)):
        return
    paths = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    helper = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", CODE.format(explore)], env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    atexit.register(_dismiss, helper)


def _dismiss(helper: subprocess.Popen[bytes]) -> None:
    """End a process that compiles: this one has all that it needs."""
    helper.kill()
    helper.wait()
