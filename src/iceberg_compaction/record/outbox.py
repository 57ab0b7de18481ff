"""Entries on their way to the store. They are written together, about once a second, so that a thousand tasks and
their events cost a few changes. A crash loses at most that second; whoever must not lose it calls `flush`."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.record import store_warnings
from iceberg_compaction.record.entries import door

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from typing_extensions import Self

    from iceberg_compaction.record.entries.door import StoreEntries

EVERY_S = 1.0
_MOST_WAITING = 10_000  # entries, while the store is away; the oldest are given up
_MOST_DRAFTS = 1000  # that wait for the next flush; more of them become entries at once
_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Outbox:
    """Any thread may put entries in. Within a `with`, a thread of its own writes them."""

    entries: StoreEntries
    warnings: store_warnings.StoreWarnings = field(default_factory=store_warnings.StoreWarnings)
    _drafts: list[Callable[[], Mapping[str, str]]] = field(default_factory=list)
    _waiting: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _writing: threading.Lock = field(default_factory=threading.Lock)
    _over: threading.Event = field(default_factory=threading.Event)
    _has_refused: bool = False

    def put(self, key: str, value: str) -> None:
        """Write this entry soon. One that no store takes is left out: it would keep all others waiting."""
        self._take(key, value)

    def _take(self, key: str, value: str) -> None:
        if len(value.encode()) > door.LONGEST_VALUE:
            self._refuse(key, value)
            return
        with self._lock:
            self._waiting[key] = value
            while len(self._waiting) > _MOST_WAITING:
                del self._waiting[next(iter(self._waiting))]

    def put_later(self, draft: Callable[[], Mapping[str, str]]) -> None:
        """Write the entries of a draft soon. It is called by the next flush: many at a time take a third of the time
        that each alone takes between two tasks, when none of its code is in the cache of the processor."""
        with self._lock:
            self._drafts.append(draft)
        if len(self._drafts) > _MOST_DRAFTS:
            with self._writing:
                self._finish_drafts()

    def _finish_drafts(self) -> None:
        with self._lock:
            drafts, self._drafts = self._drafts, []
        for draft in drafts:
            for key, value in draft().items():
                self._take(key, value)

    def flush(self) -> None:
        """Write all entries now. StoreError: the store is away; they wait."""
        with self._writing:
            self._finish_drafts()
            while batch := self._next():
                self.entries.change(batch)
                with self._lock:
                    for key, value in batch.items():
                        if self._waiting.get(key) == value:
                            del self._waiting[key]

    def _next(self) -> dict[str, str]:
        batch: dict[str, str] = {}
        size = 0
        with self._lock:
            for key, value in self._waiting.items():
                size += len(value.encode())
                if batch and (size > door.MOST_BYTES or len(batch) == door.MOST_KEYS):
                    break
                batch[key] = value
        return batch

    def __enter__(self) -> Self:
        self._over = threading.Event()  # a run may be at work more than once
        threading.Thread(target=self._write, args=(self._over,), name="outbox", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self.try_flush()

    def _write(self, over: threading.Event) -> None:
        while not over.wait(EVERY_S):
            self.try_flush()

    def try_flush(self) -> None:
        """The run goes on without these entries; a warning says so once for each reason."""
        try:
            self.flush()
        except errors.StoreError as error:
            self.warnings.warn("What happens in this run is not written down for now", error)

    def _refuse(self, key: str, value: str) -> None:
        if not self._has_refused:
            _log.warning(
                "What happens in this run is not written down in full: the entry %s is too large for a run store "
                "(%d bytes).",
                key,
                len(value.encode()),
            )
        self._has_refused = True
