"""How the kernels are compiled: those that Python calls as a whole, with what they call. Where they are kept: cache.py.

Only the kernels that Python calls, and large ones that several kernels share, are optimised, become machine code, and are
cached on disk. The others are drafts that are linked into them (internals.py). The first use of the package takes less than
half of the time that way.

Three ways to run a kernel:

    compiled      as above
    plain         by numba's public ``njit`` alone, in memory: if numba has no such parts, or with SVMATLAS_PLAIN=1
    uncompiled    in Python, for a debugger and for coverage: with NUMBA_DISABLE_JIT=1
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

import numpy as np
from numba import config, njit
from numba.extending import intrinsic

from svmatlas.engine.cache import Store

try:
    if os.environ.get("SVMATLAS_PLAIN"):
        raise ImportError("plain kernels are asked for")
    internals: Any = import_module("svmatlas.engine.internals")
except (ImportError, AttributeError):  # of a numba that we do not know
    internals = None

UNCOMPILED = bool(config.DISABLE_JIT)  # type: ignore[attr-defined]
"""Whether kernels run in Python (NUMBA_DISABLE_JIT)."""

PLAIN = internals is None and not UNCOMPILED
"""Whether kernels are compiled by numba's public interface alone."""

# ----------------------------------------------------------------------------------------------------------------------
# Decorators

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
"""Kernels are free of the GIL, and divide as IEEE says."""

DRAFT: dict[str, Any] = {"no_cfunc_wrapper": True, "no_cpython_wrapper": True, "_nrt": False}
"""Kernels that only kernels call own no memory, so they count no references; wrappers would only cost compile time."""

WHOLES: list[Any] = []
"""The kernels that become machine code, in the order in which they were defined."""

_STORES: dict[Any, Store] = {}
"""Where each of these is kept."""


def is_kept(compiled: Any) -> bool:
    """Whether one of these is compiled, for any kind of arguments, in this process or on disk."""
    return bool(compiled.signatures) or _STORES[compiled].is_kept()


def _inner(function: Callable[..., Any], **options: Any) -> Any:
    if UNCOMPILED:
        return _as_ieee(function)
    if internals is None:
        options.pop("_nrt", None)
        return njit(**OPTIONS | options)(function)
    return njit(**OPTIONS | DRAFT | {"pipeline_class": internals.DraftCompiler} | options)(function)


def _outer(function: Callable[..., Any], shared: bool = False, **options: Any) -> Any:
    if UNCOMPILED or internals is None:
        return _inner(function)
    whole = {"no_cfunc_wrapper": True, "pipeline_class": internals.WholeCompiler}
    kind = DRAFT | {"pipeline_class": internals.SharedCompiler} if shared else whole
    compiled = njit(**OPTIONS | kind | options)(function)
    _STORES[compiled] = Store(function)
    compiled._cache = internals.Cache(_STORES[compiled], (function.__module__, function.__qualname__) if shared else None)
    WHOLES.append(compiled)
    return compiled


def _as_ieee(function: Callable[..., Any]) -> Any:
    """A function in Python that divides as IEEE says, and lets integers overflow, without a warning."""

    @wraps(function)
    def run(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*arguments)

    return run


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that only kernels call. It does not allocate, and returns arrays to such kernels only."""
    return _inner(function)


def kernel_shared(function: Callable[..., Any]) -> Any:
    """Compile a large kernel that several others call, once for all of them, as machine code of its own."""
    return _outer(function, shared=True)


def kernel_reassoc(function: Callable[..., Any]) -> Any:
    """Compile a kernel that only adds up doubles, in whatever order is quickest: its error bound holds for all of them."""
    return _inner(function, fastmath={"reassoc", "contract"})


def kernel_no_nan(function: Callable[..., Any]) -> Any:
    """Compile a kernel that only compares doubles, none of them NaN, in whatever order is quickest."""
    return _inner(function, fastmath={"nnan", "nsz"})


def kernel_alloc(function: Callable[..., Any]) -> Any:
    """Compile a kernel that allocates. It may be called by @kernel_alloc and @entry kernels only."""
    return _inner(function, _nrt=True)


def entry_noalloc(function: Callable[..., Any]) -> Any:
    """Compile a kernel that Python calls and that does not allocate."""
    return _outer(function, _nrt=False)


def entry(function: Callable[..., Any]) -> Any:
    """Compile a kernel that Python calls; it may allocate."""
    return _outer(function)


def instruction(in_python: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function that says what LLVM is to do, as ``numba.extending.intrinsic``; uncompiled kernels call another."""
    return lambda function: in_python if UNCOMPILED else intrinsic(function)
