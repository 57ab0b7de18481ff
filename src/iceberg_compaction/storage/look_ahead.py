"""Work in threads whose results come in order, only a few items at a time: what is under way takes memory."""

from __future__ import annotations

import collections
import os
from concurrent import futures
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")
R = TypeVar("R")

_MOST = 4  # threads; more would wait for each other


def in_order(work: Callable[[T], R], items: Iterable[T], *, threads: int | None = None) -> Iterator[R]:
    """The result of each item. The first failure is raised, and what was not begun then is not done."""
    count = threads or max(2, min(_MOST, os.cpu_count() or 1))
    under_way: collections.deque[futures.Future[R]] = collections.deque()
    with futures.ThreadPoolExecutor(count, thread_name_prefix="manifests") as pool:
        try:
            for item in items:
                if len(under_way) > count:
                    yield under_way.popleft().result()
                under_way.append(pool.submit(work, item))
            while under_way:
                yield under_way.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
