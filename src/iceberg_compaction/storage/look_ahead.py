"""Work on a few items at a time, in threads, with results in order. Results that wait take memory, so they are bounded;
whoever stops early leaves no thread and no open result behind."""

from __future__ import annotations

import collections
import itertools
import os
from concurrent import futures
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

T = TypeVar("T")
R = TypeVar("R")

_MOST_CORES = 4  # more threads that compute would wait for each other


def in_order(
    work: Callable[[T], R],
    items: Iterable[T],
    *,
    at_once: int | None = None,
    release: Callable[[R], object] = lambda result: None,
) -> Generator[R, None, None]:
    """The result of each item. `at_once` items are begun before the first result is awaited; by default as many as
    there are cores, for work that computes rather than waits. A failure is raised in the item's turn, and items that
    are not begun by then are never begun. `release` gets the results that nobody took."""
    count = at_once or max(2, min(_MOST_CORES, os.cpu_count() or 1))
    rest: Iterator[T] = iter(items)
    first = list(itertools.islice(rest, 2))
    if len(first) < 2:
        yield from map(work, first)
        return
    rest = itertools.chain(first, rest)
    under_way: collections.deque[futures.Future[R]] = collections.deque()
    pool = futures.ThreadPoolExecutor(count, thread_name_prefix="look-ahead")
    try:
        while True:
            under_way.extend(pool.submit(work, item) for item in itertools.islice(rest, count - len(under_way)))
            if not under_way:
                return
            result = under_way[0].result()
            under_way.popleft()
            yield result
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        for future in under_way:
            if not future.cancelled() and future.exception() is None:
                release(future.result())
