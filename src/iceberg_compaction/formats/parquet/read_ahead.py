"""Reads that wait for storage, a few at once."""

from __future__ import annotations

import collections
from concurrent import futures
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_AT_ONCE = 4


def map_ahead(get: Callable[[_Item], _Result], items: Sequence[_Item], at_once: int = _AT_ONCE) -> Iterator[_Result]:
    """What `get` makes of each item, in order; no more than a few results are held. It should do nothing but wait:
    threads that compute get in each other's way."""
    if len(items) <= 1:
        yield from map(get, items)
        return
    waiting: collections.deque[futures.Future[_Result]] = collections.deque()
    with futures.ThreadPoolExecutor(min(at_once, len(items))) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(get, item))
                if len(waiting) == at_once:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
