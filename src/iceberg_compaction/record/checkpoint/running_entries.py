"""The entries of a store for a run that is at work. A change is made only if, at that very moment, no other run has
taken this one over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction import errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iceberg_compaction.record.entries.door import StoreEntries, StoreEntry
    from iceberg_compaction.record.store import RunStore


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningEntries:
    """Changes are fenced by the run's row in the journal. A StoreError says that the run is not at work any more."""

    entries: StoreEntries
    store: RunStore
    run_id: str

    def change(self, values: Mapping[str, str | None], expected: Mapping[str, int | None] | None = None) -> bool:
        before: Mapping[str, int] | None = None
        while True:
            row = self.store.running_row(self.run_id)
            if row is None:
                raise errors.StoreError(f"Another run took run {self.run_id} for dead.")
            if row == before:
                return False  # the row is not the reason
            if self.entries.change(values, {**(expected or {}), **row}):
                return True
            before = row  # a heartbeat may have changed it

    def get(self, names: Sequence[str]) -> dict[str, StoreEntry]:
        return self.entries.get(names)

    def scan(
        self, prefix: str, *, after: str = "", limit: int | None = None, reverse: bool = False
    ) -> list[StoreEntry]:
        return self.entries.scan(prefix, after=after, limit=limit, reverse=reverse)

    def close(self) -> None:
        """The entries are not its own."""
