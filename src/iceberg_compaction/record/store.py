"""The run store: the history of runs and the journal of runs under way, above the entries of any place. Leases,
checkpoints, events and the rest are modules of their own on the same entries. tests/contract/test_stores.py holds the
store to its promises in every place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.model.retention_periods import RetentionPeriods
from iceberg_compaction.record.entries import checked
from iceberg_compaction.record.rules import readable, run_history, run_journal

if TYPE_CHECKING:
    from iceberg_compaction.record.entries.door import StoreEntries


class RunStore(run_journal.RunJournal, run_history.RunHistory):
    """The promises of a store to the rest of the product.

    - Concurrency: threads, and processes where the store outlives one, call any method at any time. Every method that
      changes something is atomic: of two callers, one comes first, and the other sees its change.
    - Crashes: a change is durable when the method returns. A process that dies inside a method leaves all of the
      change or nothing.
    - Unknown rows: a row that this version cannot read (a newer version wrote it, or it is damaged) is left out of
      answers with one warning per store object, and no method changes or deletes it unless its run id is given.
    - Reading a store that does not exist gives empty answers and creates nothing.
    - Any trouble is a StoreError. No method returns a guess.
    """

    entries: checked.CheckedEntries

    def __init__(self, entries: StoreEntries, periods: RetentionPeriods | None = None) -> None:
        self.periods = periods or RetentionPeriods()
        self.entries = checked.CheckedEntries(entries)
        self.readable = readable.Readable(str(entries))

    def __str__(self) -> str:
        return str(self.entries)
