"""Pools of threads: the kernels release the GIL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

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


def limit_blas() -> Any:
    """A context in which BLAS has one thread."""
    return _blas().limit(limits=1, user_api="blas")


@cache
def _blas() -> ThreadpoolController:
    """The thread pools of BLAS; to find them takes milliseconds."""
    return ThreadpoolController()
