"""Counts requests to object stores. A run, or a task in a worker, opens a count; every FileIO that is opened inside it
counts there, whichever thread uses it. Where nobody counts, nothing is kept."""

from __future__ import annotations

import contextlib
import math
import threading
from collections import Counter
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from iceberg_compaction.model import storage_requests

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.io import FileIO

_ATTRIBUTE = "request_count"
_PAGE = 1000  # files in one answer of a listing


class RequestCount:
    """A count that several threads add to."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, **counts: int) -> None:
        """So many more requests, by the names of StorageRequests."""
        with self._lock:
            self._counts.update(counts)

    def add_all(self, requests: storage_requests.StorageRequests) -> None:
        """The requests that a worker made."""
        self.add(**requests.model_dump())

    @property
    def requests(self) -> storage_requests.StorageRequests:
        with self._lock:
            return storage_requests.StorageRequests(**self._counts)


_open: ContextVar[RequestCount | None] = ContextVar("request_count", default=None)


@contextlib.contextmanager
def counting() -> Iterator[RequestCount]:
    """A new count. Requests inside it are not part of the count around it."""
    count = RequestCount()
    token = _open.set(count)
    try:
        yield count
    finally:
        _open.reset(token)


def current() -> RequestCount:
    """The innermost open count; one that nobody reads where there is none."""
    return _open.get() or RequestCount()


def attach(io: FileIO, count: RequestCount) -> None:
    """Requests of this FileIO count there."""
    vars(io)[_ATTRIBUTE] = count


def count_listing(io: FileIO, files: int) -> None:
    """So many files of an object store were listed."""
    of(io).add(lists=max(1, math.ceil(files / _PAGE)))


def of(io: Any) -> RequestCount:
    """The count of a FileIO."""
    count = getattr(io, _ATTRIBUTE, None)
    return count if isinstance(count, RequestCount) else RequestCount()
