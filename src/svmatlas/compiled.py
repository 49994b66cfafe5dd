"""How the kernels are compiled: those that Python calls as a whole, with all that they call.

Numba optimises each function by itself, with all that it calls, and makes machine code of it; then it does so again for each
of its callers. Here only the kernels that Python calls are optimised, become machine code, and are cached on disk. Those that
only kernels call are kept as drafts to be linked into them (by ``entry`` and ``caller``: numba's own ``njit`` cannot). The
first use of the package takes half as long that way.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags

# ----------------------------------------------------------------------------------------------------------------------
# Drafts and wholes


class _Draft(JITCodeLibrary):
    """The code of a function that only kernels call: it never runs by itself."""

    def finalize(self) -> None:
        """Neither link nor optimise."""
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """There is no machine code."""
        return 0

    @property
    def codegen(self) -> _Draft:
        """What sets the environment of the machine code."""
        return self

    def set_env(self, name: str, env: object) -> None:
        """There is none to be set."""


class _Whole(JITCodeLibrary):
    """The code of a function that Python calls, with all drafts that it needs."""

    def finalize(self) -> None:
        """Link and optimise."""
        libraries = dict.fromkeys(self._linking_libraries)
        waiting = list(libraries)
        while waiting:
            library = waiting.pop()
            if isinstance(library, _Draft):
                new = [other for other in library._linking_libraries if other not in libraries]
                libraries.update(dict.fromkeys(new))
                waiting += new
        self._linking_libraries = list(libraries)
        super().finalize()


class _Flags(Flags):
    """Numba compares the flags of the function in hand thousands of times, one by one: equal ones are one object here."""

    _known: dict[str, Flags] = {}

    def copy(self) -> Flags:
        """The flags that are compared."""
        return self._known.setdefault(repr(self), super().copy())

    __hash__ = object.__hash__
    __eq__ = object.__eq__


class _Compiler(Compiler):
    """Numba's compiler with a library of another kind."""

    kind: type[JITCodeLibrary]

    def __init__(self, typingctx, targetctx, library, args, return_type, flags, locals):
        super().__init__(typingctx, targetctx, library, args, return_type, _Flags(flags), locals)

    def compile_extra(self, func: Callable[..., Any]) -> Any:
        """Compile, with no search for garbage among all that is new and needed."""
        search = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(func)
        finally:
            if search:
                gc.enable()

    def define_pipelines(self) -> Any:
        """The passes of the compiler, which write into the library."""
        self.state.library = self.kind(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        self.state.library.enable_object_caching()
        return super().define_pipelines()


class _DraftCompiler(_Compiler):
    kind = _Draft


class _WholeCompiler(_Compiler):
    kind = _Whole


# ----------------------------------------------------------------------------------------------------------------------
# Decorators

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
"""Kernels are free of the GIL, and divide as IEEE says; C wrappers would only cost compile time."""

INNER: dict[str, Any] = OPTIONS | {"no_cpython_wrapper": True, "_nrt": False, "pipeline_class": _DraftCompiler}
"""Kernels that only kernels call own no memory, so they count no references."""

OUTER: dict[str, Any] = OPTIONS | {"cache": True, "pipeline_class": _WholeCompiler}
"""Kernels that Python calls are cached on disk."""


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that only kernels call."""
    return njit(**INNER)(function)


def sums(function: Callable[..., Any]) -> Any:
    """Compile a kernel that only adds up doubles, in whatever order is quickest: its error bound holds for all of them."""
    return njit(**INNER | {"fastmath": {"reassoc", "contract"}})(function)


def largest(function: Callable[..., Any]) -> Any:
    """Compile a kernel that only compares doubles, none of them NaN, in whatever order is quickest."""
    return njit(**INNER | {"fastmath": {"nnan", "nsz"}})(function)


def owner(function: Callable[..., Any]) -> Any:
    """Compile a kernel that makes arrays; only such and those that Python calls may call it."""
    return njit(**INNER | {"_nrt": True})(function)


def caller(function: Callable[..., Any]) -> Any:
    """Compile a kernel that Python calls and that makes no arrays."""
    return njit(**OUTER | {"_nrt": False})(function)


def entry(function: Callable[..., Any]) -> Any:
    """Compile a kernel that Python calls."""
    return njit(**OUTER)(function)
