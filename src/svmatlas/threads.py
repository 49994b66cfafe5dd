"""Pools of threads: the kernels release the GIL."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class _Inline(Executor):
    """A pool of one: does what it is given at once."""

    def submit(self, fn: Callable[..., T], /, *arguments: Any, **options: Any) -> Future[T]:
        future: Future[T] = Future()
        future.set_result(fn(*arguments, **options))
        return future


def make_pool(n_jobs: int) -> Executor:
    """So many threads; for one job none but the caller's."""
    return ThreadPoolExecutor(n_jobs) if n_jobs > 1 else _Inline()
