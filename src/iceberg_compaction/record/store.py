"""The contract of a run store: the history of runs, and the journal of runs under way. tests/contract/test_stores.py
holds every implementation to it; only `interfaces.wiring` names one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from iceberg_compaction.model.rewrite_task import Effort
    from iceberg_compaction.model.run_record import Attempt, RunRecord, RunStart, UnfinishedRun


class RunStore(Protocol):
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

    def save(self, record: RunRecord) -> None:
        """Add a run to the history. A record of the same run id is replaced."""
        ...

    def history(self, table: str | None = None, limit: int = 50) -> list[RunRecord]:
        """Return the newest runs of one table or of all, the newest first. Unreadable rows do not count."""
        ...

    def efforts(self, table: str, limit: int = 20) -> tuple[list[Effort], list[Effort]]:
        """Return the bytes and seconds of the newest runs that copied or encoded anything, the newest first: those on
        the table, and those on other tables."""
        ...

    def begin(self, start: RunStart) -> bool:
        """Enter a run into the journal, before it writes its first file. False: the run is there already, and may have
        left files. It counts as running again, unless another run has taken it over.

        Runs that were recovered more than 30 days ago are forgotten on this occasion, as far as they can be read. If
        that fails, the run is in the journal nevertheless."""
        ...

    def heartbeat(self, run_id: str, now_ms: int) -> None:
        """Note that the run is at work."""
        ...

    def publishing(self, run_id: str, attempt: Attempt) -> bool:
        """Note a change right before it is published; this counts as a heartbeat. False: it must not be published,
        because the run has ended, was taken over, or is not in the journal (R49).

        A race with `take_over` has one winner: either this answer is False, or `take_over` returns this attempt."""
        ...

    def committed(self, run_id: str, attempt: Attempt) -> None:
        """Replace the attempt by one that lists its own snapshot as committed. Never refused: the commit is a fact."""
        ...

    def attempt(self, run_id: str) -> Attempt | None:
        """Return the last change that the run was about to publish."""
        ...

    def end(self, run_id: str, now_ms: int) -> None:
        """Note that the run has ended and may have left files."""
        ...

    def finish(self, run_id: str) -> None:
        """Remove a run that has ended and left no files."""
        ...

    def unfinished(self, table_uuid: str | None = None) -> list[UnfinishedRun]:
        """Return the runs on a table, or on any, that are running, have crashed, or may have left files; the oldest
        first. Recovered runs are not among them."""
        ...

    def take_over(self, run: UnfinishedRun) -> UnfinishedRun | None:
        """Declare a run dead, for good: from now on it may publish nothing. The answer is its state at that moment,
        with its last attempt. None: the run has sent a heartbeat since `run` was read, is recovered, or is gone. Two
        runs may take over the same one; both get it."""
        ...

    def mark_recovered(self, run_id: str, now_ms: int) -> None:
        """Note that all files of the run are removed. The entry is kept for a while, so that a run which was only
        asleep is still refused by `publishing`."""
        ...
