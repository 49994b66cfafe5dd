"""Files that appear whole or not at all.

A file is written as a *draft* beside its goal and then moved there. Links are followed. The mode of an older file is kept.
A process holds a lock on its draft. A draft without a lock was left by a killed process, and the next one removes it.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows has no such locks: there drafts of killed processes stay
    fcntl = None  # type: ignore[assignment]

PathLike = str | os.PathLike[str]

DRAFT = ".draft-"
"""Between the name of a file and what tells its drafts apart."""


def check_goal(path: PathLike) -> None:
    """Raise OSError if no file can be written at a path: before the work, not after it."""
    _find_goal(path)


@contextmanager
def replacing(path: PathLike) -> Iterator[Path]:
    """A draft to write to, which takes the place of the file at a path if all goes well.

    If anything goes wrong, an older file stays as it was and the draft is removed.
    """
    goal, old = _find_goal(path)
    _remove_stale(goal)
    with placing(goal, old) as draft:
        yield draft


@contextmanager
def placing(goal: Path, old: os.stat_result | None = None, first: bool = False) -> Iterator[Path]:
    """The same, but drafts of killed processes stay (see ``remove_drafts``). Of several processes the last one's file stays.

    If ``first`` it is that of the first one, and others leave it as it is, where the file system has links.
    """
    draft, held = _open_draft(goal, 0o666 if old is None else 0o600)
    try:
        yield draft
        if old is not None:
            _copy_access(old, draft)
        os.fsync(held.fileno())
        if fcntl is None:
            held.close()  # Windows moves no open file
        if not (first and _link(draft, goal)):
            os.replace(draft, goal)
        sync_folder(goal.parent)
    finally:
        held.close()
        draft.unlink(missing_ok=True)


def _link(draft: Path, goal: Path) -> bool:
    """Give a draft its second name, if nothing has that name; False where there are no links."""
    try:
        os.link(draft, goal)
    except FileExistsError:
        return True
    except OSError:
        return False
    return True


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors of the system, such as a full disk, say at which path they happened."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename == str(path):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def sync_folder(folder: Path) -> None:
    """Make sure that the names of new files in a folder survive a loss of power, where the system can do that."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def remove_drafts(folder: Path) -> None:
    """Remove all drafts in a folder that nobody holds."""
    for name in os.listdir(folder):
        if DRAFT in name:
            _remove_if_free(folder / name)


def _find_goal(path: PathLike) -> tuple[Path, os.stat_result | None]:
    """The file that a path leads to, and its status if it exists; OSError if it is no regular file or cannot be made."""
    name, goal = os.fspath(path), Path(os.path.realpath(path))
    folder = goal.parent if os.path.islink(path) else Path(path).parent
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"the folder {folder} does not exist", name)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, f"no file can be made in the folder {folder}", name)
    try:
        old = os.stat(goal)
    except FileNotFoundError:
        return goal, None
    if stat.S_ISDIR(old.st_mode):
        raise IsADirectoryError(errno.EISDIR, "this is a folder", name)
    if not stat.S_ISREG(old.st_mode):
        raise OSError(errno.EINVAL, "this is no regular file, it is not replaced", name)
    return goal, old


def _copy_access(old: os.stat_result, draft: Path) -> None:
    """Give a draft the mode of an older file, and its owner if that is allowed."""
    if hasattr(os, "chown"):
        with suppress(PermissionError):
            os.chown(draft, old.st_uid, old.st_gid)
    os.chmod(draft, stat.S_IMODE(old.st_mode))


# ----------------------------------------------------------------------------------------------------------------------
# Drafts


def _draft_prefix(goal: Path) -> str:
    return f".{goal.name}{DRAFT}"


def _open_draft(goal: Path, mode: int) -> tuple[Path, IO[bytes]]:
    """A new empty draft and its file, open and locked."""
    while True:
        draft = goal.with_name(_draft_prefix(goal) + uuid.uuid4().hex)
        held = open(draft, "xb", opener=lambda name, flags: os.open(name, flags, mode))  # noqa: SIM115
        if lock(held) and draft.exists():
            return draft, held
        held.close()  # another process removed it as a stale one, in the moment before it was locked


def lock(file: IO[Any]) -> bool:
    """Lock a file; False if another process holds it. True also where there are no locks."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _remove_stale(goal: Path) -> None:
    """Remove the drafts of this goal that nobody holds. Those that cannot be locked or removed stay."""
    if fcntl is None:
        return
    names = re.compile(re.escape(_draft_prefix(goal)) + "[0-9a-f]{32}")
    with suppress(OSError):
        for name in filter(names.fullmatch, os.listdir(goal.parent)):
            _remove_if_free(goal.with_name(name))


def _remove_if_free(draft: Path) -> None:
    if fcntl is None:
        return
    with suppress(OSError):
        handle = os.open(draft, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            draft.unlink()
        finally:
            os.close(handle)
