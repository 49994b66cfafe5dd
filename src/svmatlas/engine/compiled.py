"""How the kernels are compiled: those that Python calls as a whole, with all that they call; and where they are kept.

Only the kernels that Python calls are optimised, become machine code, and are cached on disk. Those that only kernels call are
drafts that are linked into them (internals.py). The first use of the package takes half as long that way.

Numba's own cache needs a folder that can be written to when a module is imported, and looks at the source of the outermost
kernel only. The one here needs no folder, reads folders that it cannot write to, and looks at all sources of a kernel.

Three ways to run a kernel:

    compiled      as above
    plain         by numba's public ``njit`` alone, in memory: if numba has no such parts, or with SVMATLAS_PLAIN=1
    uncompiled    in Python, for a debugger and for coverage: with NUMBA_DISABLE_JIT=1
"""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache, wraps
from importlib import import_module
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba import config, njit
from numba.extending import intrinsic

from svmatlas.support.writing import replacing

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
# Where compiled kernels are kept


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


@cache
def _stamp(module: str) -> bytes:
    """Digest of the sources of a module and of all modules with kernels that it imports, and of versions.

    Raises OSError without a source.

    A kernel takes nothing from modules without kernels, so that these may change.
    """
    digests: dict[str, str] = {}
    waiting = [module, __name__]
    while waiting:
        name = waiting.pop()
        if name not in digests and name in sys.modules:
            digest, imports, has_kernels = _read(name)
            if has_kernels:
                digests[name] = digest
                waiting += imports
    checks = config.BOUNDSCHECK  # type: ignore[attr-defined]
    versions = numba.__version__, llvmlite.__version__, checks
    return hashlib.sha256(repr((versions, sorted(digests.items()))).encode()).digest()


def _folders(source: Path) -> list[Path]:
    """Where kernels of a source file are looked for: the user's choice, beside the source, the cache of the user."""
    tree = f"{source.parent.name}_{hashlib.sha256(str(source.parent).encode()).hexdigest()[:40]}"
    chosen = config.CACHE_DIR  # type: ignore[attr-defined]  # NUMBA_CACHE_DIR
    folders = [Path(chosen) / tree] if chosen else []
    folders.append(source.parent / "__pycache__")
    return folders + [personal / "svmatlas" / tree for personal in _personal()]


def _personal() -> list[Path]:
    """The folder of caches of the user, by the custom of the system; none for a user without a home."""
    with suppress(RuntimeError):
        home = Path.home()
        known = {"win32": os.environ.get("LOCALAPPDATA"), "darwin": str(home / "Library" / "Caches")}
        folder = Path(known.get(sys.platform) or os.environ.get("XDG_CACHE_HOME") or home / ".cache")
        return [folder] if folder.is_absolute() else []
    return []


class _Store:
    """The compiled forms of one kernel: read from any folder, written to the first that takes them, else kept in memory.

    One file for each kind of arguments: the stamp of the sources, the digest of the rest, the rest.
    """

    _warned = False

    def __init__(self, function: Callable[..., Any]) -> None:
        self.source = Path(function.__code__.co_filename).absolute()
        self.module = function.__module__
        self.name = f"{self.source.stem}.{function.__qualname__}.{sys.implementation.cache_tag}"

    def path(self, folder: Path, kind: str) -> Path:
        return folder / f"{self.name}-{hashlib.sha256(kind.encode()).hexdigest()[:16]}.nbc"

    def load(self, kind: str) -> bytes | None:
        """The machine code for some kind of arguments and processor; None if it is missing, old or damaged."""
        for folder in _folders(self.source):
            with suppress(OSError):
                stamp, digest, data = _cut(self.path(folder, kind).read_bytes())
                if stamp == _stamp(self.module) and digest == hashlib.sha256(data).digest():
                    return data
        return None

    def is_kept(self) -> bool:
        """Whether there is machine code for any kind of arguments."""
        with suppress(OSError):
            stamp = _stamp(self.module)
            paths = [path for folder in _folders(self.source) for path in folder.glob(f"{self.name}-*.nbc")]
            return any(_head(path) == stamp for path in paths)
        return False

    def save(self, kind: str, data: bytes) -> None:
        """Keep the machine code for some kind of arguments and processor."""
        why = "there is no source code"
        with suppress(OSError):  # without a source nothing tells when a kernel is out of date
            whole = _stamp(self.module) + hashlib.sha256(data).digest() + data
            folders = _folders(self.source)
            why = f"nothing can be written to {' or '.join(map(str, folders))}"
            for folder in folders:
                with suppress(OSError):
                    self._write(self.path(folder, kind), whole)
                    return
        self._warn(why)

    def _write(self, path: Path, data: bytes) -> None:
        """Write a file. Whoever may read the source may read kernels beside it, whatever the umask."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as draft:
            draft.write_bytes(data)
            if path.parent.parent == self.source.parent:
                draft.chmod(self.source.stat().st_mode & 0o666)
                with suppress(OSError):  # of another owner
                    path.parent.chmod(self.source.parent.stat().st_mode & 0o777)

    def _warn(self, why: str) -> None:
        """Say that other processes will have to compile again; once."""
        if not _Store._warned:
            _Store._warned = True
            warnings.warn(
                f"compiled kernels are kept in memory only, so that each process compiles for about a minute: {why}. "
                "Set NUMBA_CACHE_DIR to a folder that can be written to, or run 'svmatlas compile' as the package's owner",
                RuntimeWarning,
                stacklevel=2,
            )


def _head(path: Path) -> bytes:
    """The stamp of a file."""
    with path.open("rb") as file:
        return file.read(32)


def _cut(data: bytes) -> tuple[bytes, bytes, bytes]:
    """The stamp, the digest and the rest of a file."""
    return data[:32], data[32:64], data[64:]


# ----------------------------------------------------------------------------------------------------------------------
# Decorators

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
"""Kernels are free of the GIL, and divide as IEEE says."""

DRAFT: dict[str, Any] = {"no_cfunc_wrapper": True, "no_cpython_wrapper": True, "_nrt": False}
"""Kernels that only kernels call own no memory, so they count no references; wrappers would only cost compile time."""

ENTRIES: list[Any] = []
"""The kernels that Python calls, in the order in which they were defined."""

_STORES: dict[Any, _Store] = {}
"""Where each of these is kept."""


def is_kept(compiled: Any) -> bool:
    """Whether a kernel that Python calls is compiled, for any kind of arguments, in this process or on disk."""
    return bool(compiled.signatures) or _STORES[compiled].is_kept()


def _inner(function: Callable[..., Any], **options: Any) -> Any:
    if UNCOMPILED:
        return _as_ieee(function)
    if internals is None:
        options.pop("_nrt", None)
        return njit(**OPTIONS | options)(function)
    return njit(**OPTIONS | DRAFT | {"pipeline_class": internals.DraftCompiler} | options)(function)


def _outer(function: Callable[..., Any], **options: Any) -> Any:
    if UNCOMPILED:
        return _as_ieee(function)
    if internals is None:
        compiled = njit(**OPTIONS)(function)
    else:
        whole = {"no_cfunc_wrapper": True, "pipeline_class": internals.WholeCompiler}
        compiled = njit(**OPTIONS | whole | options)(function)
        _STORES[compiled] = _Store(function)
        compiled._cache = internals.Cache(_STORES[compiled])
    ENTRIES.append(compiled)
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
