"""Removals of files that a run has begun, in the run store. A run writes down which snapshots expire before it commits
that, and forgets it when their files are gone, so that another run can remove the rest after a crash. The files
themselves are not listed: they are found again through the snapshots' manifest lists, which are removed last."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from pydantic import ValidationError

from iceberg_compaction.model.run_record import CatalogEntry
from iceberg_compaction.model.value import Count, Value
from iceberg_compaction.record.entries import blobs, door, keys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iceberg_compaction.record.entries.door import StoreEntries

_REMOVAL = "removal"
_BATCH = door.MOST_BYTES // door.LONGEST_VALUE
_log = logging.getLogger(__name__)


class ExpiredSnapshot(Value):
    """A snapshot that has left the table, or was about to."""

    snapshot_id: int
    manifest_list: str


class PendingRemoval(Value):
    """Snapshots whose files may be removed once the table has them no more."""

    run_id: str
    entry: CatalogEntry  # only its metadata can say that a snapshot is gone (R48)
    since_ms: Count
    snapshots: tuple[ExpiredSnapshot, ...]
    statistics: tuple[str, ...] = ()  # files of statistics of these snapshots


@dataclass(frozen=True, slots=True)
class PendingRemovals:
    """All removals of a run store that are not done."""

    entries: StoreEntries

    def save(self, removal: PendingRemoval) -> None:
        """Write down a removal before the snapshots leave the table."""
        words = (_REMOVAL, removal.entry.table_uuid, removal.run_id)
        self._write(blobs.pieces(removal.model_dump_json().encode(), *words))

    def of(self, entry: CatalogEntry) -> list[PendingRemoval]:
        """The removals on a catalog entry, the oldest first, as far as they can be read."""
        pieces = self.entries.scan(keys.prefix(_REMOVAL, entry.table_uuid))
        removals = []
        for base, parts in groupby(pieces, lambda each: each.key.rpartition("/")[0]):
            try:
                removal = PendingRemoval.model_validate_json(blobs.join(parts) or b"")
            except ValidationError:
                _log.debug("The removal %s in the run store is not readable.", base)
                continue
            if removal.entry == entry:
                removals.append(removal)
        return sorted(removals, key=lambda each: (each.since_ms, each.run_id))

    def forget_damaged(self, table_uuid: str) -> None:
        """Let go of records that nobody can read, and say so once. One of another version of this product is none."""
        pieces = self.entries.scan(keys.prefix(_REMOVAL, table_uuid))
        for base, parts in groupby(pieces, lambda each: each.key.rpartition("/")[0]):
            listed = list(parts)
            if not _is_json(blobs.join(iter(listed))):
                _log.warning("The removal %s in the run store is damaged; files that it left are orphans now.", base)
                self._write({each.key: None for each in listed})

    def forget(self, removal: PendingRemoval) -> None:
        """Nothing of it is left to do."""
        listed = self.entries.scan(keys.prefix(_REMOVAL, removal.entry.table_uuid, removal.run_id))
        self._write({each.key: None for each in listed})

    def _write(self, values: Mapping[str, str | None]) -> None:
        pairs = list(values.items())
        for at in range(0, len(pairs), _BATCH):
            self.entries.change(dict(pairs[at : at + _BATCH]))


def _is_json(content: bytes | None) -> bool:
    try:
        json.loads(content or b"")
    except ValueError:
        return False
    return True
