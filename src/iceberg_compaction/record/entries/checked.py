"""Entries of a format that this version knows, in changes of a size that every place takes. A store says its format in
the entry `meta/format`; a store of a newer one is neither read nor written."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.record.entries import door, migrations

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iceberg_compaction.record.entries.door import StoreEntries, StoreEntry


class CheckedEntries:
    """See `door.StoreEntries`. The format is looked at once, when it is first needed."""

    def __init__(self, entries: StoreEntries) -> None:
        self._entries = entries
        self._may_read = self._may_write = False

    def __str__(self) -> str:
        return str(self._entries)

    def get(self, keys: Sequence[str]) -> dict[str, StoreEntry]:
        self._check_format()
        return self._entries.get(keys)

    def scan(
        self, prefix: str, *, after: str = "", limit: int | None = None, reverse: bool = False
    ) -> list[StoreEntry]:
        self._check_format()
        return self._entries.scan(prefix, after=after, limit=limit, reverse=reverse)

    def change(self, values: Mapping[str, str | None], expected: Mapping[str, int | None] | None = None) -> bool:
        if not self._may_write:
            migrations.bring_forward(self._entries)
            self._may_read = self._may_write = True
        self._check_size(values, expected or {})
        return self._entries.change(values, expected)

    def stay_open(self) -> contextlib.AbstractContextManager[None]:
        """Keep connections until the end of the `with`, where the place would open a new one for each call."""
        return self._entries.stay_open() if isinstance(self._entries, door.StaysOpen) else contextlib.nullcontext()

    def hold(self) -> None:
        """From now on only the store that is there now counts, where the place may vanish (`door.MayVanish`)."""
        if isinstance(self._entries, door.MayVanish):
            self.change({})  # of a format that this version knows
            self._entries.hold()

    def close(self) -> None:
        self._entries.close()

    def _check_format(self) -> None:
        if not self._may_read:
            migrations.check(self._entries)
            self._may_read = True

    def _check_size(self, values: Mapping[str, str | None], expected: Mapping[str, int | None]) -> None:
        sizes = {key: len(value.encode()) for key, value in values.items() if value is not None}
        if len(values.keys() | expected.keys()) > door.MOST_KEYS:
            raise errors.StoreError(f"The run store {self} takes at most {door.MOST_KEYS} entries at a time.")
        if sizes and (max(sizes.values()) > door.LONGEST_VALUE or sum(sizes.values()) > door.MOST_BYTES):
            largest = max(sizes, key=lambda key: sizes[key])
            raise errors.StoreError(f"The entry {largest} with {sizes[largest]} bytes is too large for a run store.")
