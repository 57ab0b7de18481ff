"""Which table an object of a bucket belongs to, by the folders of the tables that the scheduler has seen."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib import parse

from iceberg_compaction.record.service import schedule_book

if TYPE_CHECKING:
    from collections.abc import Callable

    from iceberg_compaction.interfaces.service.service_house import ServiceHouse

_FRESH_S = 60.0
_METADATA = "/metadata/"


@dataclass(slots=True, kw_only=True)
class TableFolders:
    """Tables by their folders, in memory for a minute."""

    house: ServiceHouse
    monotonic: Callable[[], float]
    _tables: dict[str, tuple[str, str]] = field(default_factory=dict)
    _read_at: float | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def table_of(self, bucket: str, key: str) -> tuple[str, str] | None:
        """The catalog and the table that a file of metadata is of; None: no table that was seen, or another file. Only
        metadata tells of a change: data files come before their commit."""
        path = f"{bucket}/{parse.unquote_plus(key).lstrip('/')}"
        folder, slash, _ = path.rpartition(_METADATA)
        return self._folders().get(folder) if slash else None

    def _folders(self) -> dict[str, tuple[str, str]]:
        with self._lock:
            now = self.monotonic()
            if self._read_at is None or now - self._read_at > _FRESH_S:
                self._tables, self._read_at = self._read(), now
            return self._tables

    def _read(self) -> dict[str, tuple[str, str]]:
        book = schedule_book.ScheduleBook(self.house.store.entries)
        return {
            folder: (catalog, watch.table)
            for catalog in self.house.settings.catalogs
            for watch in book.watches(catalog).values()
            if (folder := _folder(watch.pointer))
        }


def _folder(pointer: str) -> str:
    """The folder of a table as bucket and path, without a scheme: s3, s3a and s3n are one store."""
    _, _, path = pointer.rpartition("://")
    return path.rpartition(_METADATA)[0]
