"""How the kernels are compiled: those that Python calls as a whole, with all that they call; and where they are kept.

Numba optimises each function by itself, with all that it calls, and makes machine code of it; then it does so again for each
of its callers. Here only the kernels that Python calls are optimised, become machine code, and are cached on disk. Those that
only kernels call are kept as drafts to be linked into them (by ``entry`` and ``caller``: numba's own ``njit`` cannot). The
first use of the package takes half as long that way.

Numba's own cache needs a folder that can be written to when a module is imported, and looks at the source of the outermost
kernel only. The one here needs no folder, reads folders that it cannot write to, and looks at all sources of a kernel.
"""

from __future__ import annotations

import gc
import hashlib
import inspect
import os
import pickle
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from numba import config, njit
from numba.core.caching import IndexDataCacheFile, NullCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult, Flags
from numba.core.dispatcher import Dispatcher
from numba.misc.appdirs import AppDirs

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
# Where compiled kernels are kept

UNUSABLE = (OSError, EOFError, pickle.UnpicklingError)
"""What a file raises that is missing, closed to this user, cut off or damaged."""


@cache
def _read(module: str) -> tuple[str, list[str], bool]:
    """The digest of the source of a module, what it imports from its package and this one, and whether it may hold kernels."""
    try:
        source = inspect.getsource(sys.modules[module])
    except TypeError:  # such as a notebook
        raise OSError(f"there is no source of {module}") from None
    packages = "|".join({name.partition(".")[0] for name in (module, __name__)})
    names = re.findall(rf"^(?:from|import) ((?:{packages})(?:\.\w+)+)", source, re.MULTILINE)
    imports_numba = re.search(r"^(?:from|import) numba", source, re.MULTILINE) is not None
    return hashlib.sha256(source.encode()).hexdigest(), names, imports_numba or __name__ in names


def _stamp(module: str) -> list[tuple[str, str]]:
    """Names and digests of the sources of a module and of all modules with kernels that it imports; OSError without a source.

    A kernel takes nothing from modules without kernels, so that these may change.
    """
    digests: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in digests and name in sys.modules:
            digest, imports, has_kernels = _read(name)
            if has_kernels:
                digests[name] = digest
                waiting += imports
    return sorted(digests.items())


def _folders(source: Path) -> list[Path]:
    """Where kernels of a source file are looked for: the user's choice, beside the source, the cache of the user."""
    tree = f"{source.parent.name}_{hashlib.sha256(str(source.parent).encode()).hexdigest()[:40]}"
    chosen = config.CACHE_DIR  # type: ignore[attr-defined]  # NUMBA_CACHE_DIR
    personal = Path(AppDirs(appname="numba", appauthor=False).user_cache_dir)
    folders = [Path(chosen) / tree] if chosen else []
    folders.append(source.parent / "__pycache__")
    return [*folders, personal / tree] if personal.is_absolute() else folders  # "~" stays if there is no home


class _Store(IndexDataCacheFile):
    """The compiled forms of one kernel in one folder, in files of numba's format."""

    def __init__(self, folder: Path, name: str, stamp: Any, source: Path) -> None:
        super().__init__(str(folder), name, stamp)
        self._folder, self._source = folder, source

    def save(self, key: Any, data: Any) -> None:
        """Save, and make the folder if need be; whoever may enter the folder of the source may enter that beside it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        if self._shared:
            with suppress(OSError):  # of another owner
                self._folder.chmod(self._source.parent.stat().st_mode & 0o777)
        super().save(key, data)

    def _load_index(self) -> Any:
        """The files there are, by kind of arguments; none if that cannot be read, so that it is written anew."""
        try:
            return super()._load_index()
        except UNUSABLE:
            return {}

    @property
    def _shared(self) -> bool:
        """Whether the folder lies beside the source."""
        return self._folder.parent == self._source.parent

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[Any]:
        """Whoever may read the source may read kernels beside it, whatever the umask of the process that compiled them."""
        with super()._open_for_write(filepath) as file:
            if self._shared:
                os.chmod(file.name, self._source.stat().st_mode & 0o666)
            yield file


class _Cache(NullCache):
    """The compiled forms of one kernel: read from any folder, written to the first that takes them, else kept in memory."""

    _warned = False

    def __init__(self, function: Callable[..., Any]) -> None:
        source = Path(function.__code__.co_filename).absolute()
        name = f"{source.stem}.{function.__qualname__}.{sys.implementation.cache_tag}"
        self._folders = _folders(source)
        self._stores: list[_Store] = []
        with suppress(OSError):  # without a source nothing tells when a kernel is out of date
            stamp = _stamp(function.__module__)
            self._stores = [_Store(folder, name, stamp, source) for folder in self._folders]

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The kernel for some types of arguments, or None."""
        target_context.refresh()
        for store in self._stores:
            with suppress(*UNUSABLE):
                data = store.load(_key(sig, target_context))
                if data is not None:
                    return CompileResult._rebuild(target_context, *data)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the kernel for these types of arguments, if its machine code holds no addresses of this process."""
        if data.library.has_dynamic_globals:
            return
        for store in self._stores:
            with suppress(*UNUSABLE):
                store.save(_key(sig, data.target_context), data._reduce())
                return
        self._warn()

    def _warn(self) -> None:
        """Say that other processes will have to compile again; once."""
        if _Cache._warned:
            return
        _Cache._warned = True
        why = (
            f"nothing can be written to {' or '.join(map(str, self._folders))}" if self._stores else "there is no source code"
        )
        warnings.warn(
            f"compiled kernels are kept in memory only, so that each process compiles for about a minute: {why}. "
            "Set NUMBA_CACHE_DIR to a folder that can be written to, or run 'svmatlas compile' as the owner of the package",
            RuntimeWarning,
            stacklevel=2,
        )


def _key(sig: Any, target_context: Any) -> Any:
    """Types of arguments, and the processor that the machine code is for."""
    return sig, target_context.codegen().magic_tuple()


# ----------------------------------------------------------------------------------------------------------------------
# Decorators

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
"""Kernels are free of the GIL, and divide as IEEE says; C wrappers would only cost compile time."""

INNER: dict[str, Any] = OPTIONS | {"no_cpython_wrapper": True, "_nrt": False, "pipeline_class": _DraftCompiler}
"""Kernels that only kernels call own no memory, so they count no references."""

OUTER: dict[str, Any] = OPTIONS | {"pipeline_class": _WholeCompiler}
"""Kernels that Python calls become machine code."""


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
    return _cached(njit(**OUTER | {"_nrt": False})(function))


def entry(function: Callable[..., Any]) -> Any:
    """Compile a kernel that Python calls."""
    return _cached(njit(**OUTER)(function))


def _cached(compiled: Any) -> Any:
    """Keep the machine code of a kernel on disk, where possible; nothing is done to a plain function (NUMBA_DISABLE_JIT)."""
    if isinstance(compiled, Dispatcher):
        compiled._cache = _Cache(compiled.py_func)  # type: ignore[attr-defined]
    return compiled
