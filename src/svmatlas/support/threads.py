"""Pools of threads: the kernels release the GIL. And the number of workers of joblib."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from joblib import effective_n_jobs
from joblib.parallel import SequentialBackend, ThreadingBackend, get_active_backend
from threadpoolctl import ThreadpoolController  # which scikit-learn brings along

T = TypeVar("T")


class _Inline(Executor):
    """A pool of one: does what it is given at once."""

    def submit(self, fn: Callable[..., T], /, *arguments: Any, **options: Any) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*arguments, **options))
        except Exception as error:
            future.set_exception(error)
        return future


@contextmanager
def make_pool(n_jobs: int) -> Iterator[Executor]:
    """So many threads; for one job none but the caller's. Those of BLAS, which wait in a loop, do not stand in their way."""
    if n_jobs == 1:
        yield _Inline()
        return
    with limit_blas(), ThreadPoolExecutor(n_jobs) as pool:
        yield pool


def count_workers(n_jobs: int | None) -> int:
    """How many there are."""
    return int(effective_n_jobs(asked_workers(n_jobs)))


def asked_workers(n_jobs: int | None) -> int:
    """What the user asks for, here or in ``joblib.parallel_config``; all workers of a backend that has no number."""
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0")
    backend, n_set = get_active_backend(prefer="threads")
    asked = n_set if n_jobs is None else n_jobs
    return int(getattr(backend, "default_n_jobs", -1) if asked is None else asked)


def uses_threads() -> bool:
    """Whether joblib works in threads of this process, or one thing after the other."""
    return type(get_active_backend(prefer="threads")[0]) in (ThreadingBackend, SequentialBackend)


_guard = threading.Lock()
_limits: list[Any] = []  # one for each context that is open; the first has set the number of threads


@contextmanager
def limit_blas() -> Iterator[None]:
    """A context in which BLAS has one thread: more are of no use for small arrays. Several threads may be in it at a time."""
    with _guard:
        _limits.append(_limits[0] if _limits else _blas().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _guard:
            limit = _limits.pop()
            if not _limits:
                limit.restore_original_limits()


@cache
def _blas() -> ThreadpoolController:
    """The thread pools of BLAS; to find them takes milliseconds."""
    return ThreadpoolController()
