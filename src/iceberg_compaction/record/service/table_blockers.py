"""Writers that ask for peace: while a blocker lasts, no work begins on its table. Each has an end, so that a writer
that died blocks nothing for ever."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pydantic

from iceberg_compaction.model.service_member import TableBlocker
from iceberg_compaction.record.entries import keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iceberg_compaction.record.entries.door import StoreEntries

_PREFIX = "service-blocker"


@dataclass(frozen=True, slots=True)
class TableBlockers:
    """All blockers."""

    entries: StoreEntries

    def put(self, blocker: TableBlocker) -> None:
        """Ask for peace; one of the same id is replaced, so that its end can be moved."""
        self.entries.change({_key(blocker.catalog, blocker.table, blocker.blocker_id): blocker.model_dump_json()})

    def remove(self, catalog: str, table: str, blocker_id: str) -> bool:
        """End one. False: there is none."""
        key = _key(catalog, table, blocker_id)
        return key in self.entries.get([key]) and self.entries.change({key: None})

    def list(self, now_ms: int, catalog: str | None = None, table: str | None = None) -> list[TableBlocker]:
        """Those that last, of one table or of all."""
        words = [word for word in (catalog, table) if word is not None]
        return [blocker for _, blocker in self._scan(*words) if blocker.until_ms > now_ms]

    def tables(self, now_ms: int) -> frozenset[tuple[str, str]]:
        """The tables that have one now, each with its catalog."""
        return frozenset((blocker.catalog, blocker.table) for blocker in self.list(now_ms))

    def remove_old(self, now_ms: int) -> None:
        """Forget those that are over."""
        for key, blocker in self._scan():
            if blocker.until_ms <= now_ms:
                self.entries.change({key: None})

    def _scan(self, *words: str) -> Iterator[tuple[str, TableBlocker]]:
        for entry in self.entries.scan(keys.prefix(_PREFIX, *words)):
            try:
                yield entry.key, TableBlocker.model_validate_json(entry.value)
            except pydantic.ValidationError:  # a newer version wrote it
                continue


def _key(catalog: str, table: str, blocker_id: str) -> str:
    return keys.key(_PREFIX, catalog, table, blocker_id)
