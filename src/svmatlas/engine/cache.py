"""Where compiled kernels are kept, and the key that tells when they are out of date.

Numba's own cache needs a folder that can be written to when a module is imported, and looks at the source of the outermost
kernel only. The one here needs no folder, reads folders that it cannot write to, and looks at all sources of a kernel.
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
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba import config

from svmatlas.support.writing import replacing

COMPILED = "svmatlas.engine.compiled"
COMPILERS = (COMPILED, "svmatlas.engine.internals", "svmatlas.engine.record_type")
"""Modules that decide how kernels are compiled: they are among the sources of each."""


@cache
def read_module(module: str) -> tuple[str, list[str], bool]:
    """The digest of the source of a module, what it imports from its package and this one, and whether it may hold kernels."""
    try:
        source = inspect.getsource(sys.modules[module])
    except TypeError:  # such as a notebook
        raise OSError(f"there is no source of {module}") from None
    packages = "|".join({name.partition(".")[0] for name in (module, COMPILED)})
    names = re.findall(rf"^(?:from|import) ((?:{packages})(?:\.\w+)+)", source, re.MULTILINE)
    imports_numba = re.search(r"^(?:from|import) numba", source, re.MULTILINE) is not None
    return hashlib.sha256(source.encode()).hexdigest(), names, imports_numba or COMPILED in names


@cache
def key_of_sources(module: str) -> bytes:
    """Digest of the sources of a module and of all modules with kernels that it imports, and of versions.

    Raises OSError without a source.

    A kernel takes nothing from modules without kernels, so that these may change.
    """
    digests: dict[str, str] = {}
    waiting = [module, *COMPILERS]
    while waiting:
        name = waiting.pop()
        if name not in digests and name in sys.modules:
            digest, imports, has_kernels = read_module(name)
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


class Store:
    """The compiled forms of one kernel: read from any folder, written to the first that takes them, else kept in memory.

    One file for each kind of arguments: the stamp of the sources, the digest of the rest, the rest.
    """

    _warned = False

    def __init__(self, function: Callable[..., Any]) -> None:
        self.source = Path(function.__code__.co_filename).absolute()
        self.module = function.__module__
        self.name = f"{self.source.stem}.{function.__qualname__}.{sys.implementation.cache_tag}"

    def path(self, folder: Path, kind: str) -> Path:
        """The file for some kind of arguments and processor."""
        return folder / f"{self.name}-{hashlib.sha256(kind.encode()).hexdigest()[:16]}.nbc"

    def load(self, kind: str) -> bytes | None:
        """The machine code for some kind of arguments and processor; None if it is missing, old or damaged."""
        for folder in _folders(self.source):
            with suppress(OSError):
                stamp, digest, data = _cut(self.path(folder, kind).read_bytes())
                if stamp == key_of_sources(self.module) and digest == hashlib.sha256(data).digest():
                    return data
        return None

    def is_kept(self) -> bool:
        """Whether there is machine code for any kind of arguments."""
        with suppress(OSError):
            stamp = key_of_sources(self.module)
            paths = [path for folder in _folders(self.source) for path in folder.glob(f"{self.name}-*.nbc")]
            return any(_head(path) == stamp for path in paths)
        return False

    def save(self, kind: str, data: bytes) -> None:
        """Keep the machine code for some kind of arguments and processor."""
        why = "there is no source code"
        with suppress(OSError):  # without a source nothing tells when a kernel is out of date
            whole = key_of_sources(self.module) + hashlib.sha256(data).digest() + data
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
        if not Store._warned:
            Store._warned = True
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
