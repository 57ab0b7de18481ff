"""The journal of runs under way, as entries of a store. It lets another run find the files of a run that never
finished, and says which run may still publish (R49)."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.model.run_record import Attempt, RunStart, UnfinishedRun
from iceberg_compaction.record.entries import keys
from iceberg_compaction.record.rules import readable, retention, run_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from iceberg_compaction.model.retention_periods import RetentionPeriods
    from iceberg_compaction.record.entries.door import StoreEntries, StoreEntry
    from iceberg_compaction.record.rules.run_rows import JournalRow

_REMEMBER_RECOVERED_MS = 30 * 24 * 3600 * 1000  # a run that was only asleep may wake up, and must still be refused
_FORGOTTEN = 50  # runs at a time
_AT_ONCE = 50  # runs, with two entries each


class RunJournal:
    """See `record.store.RunStore`."""

    entries: StoreEntries
    readable: readable.Readable
    periods: RetentionPeriods

    def begin(self, start: RunStart, landed: Sequence[int] = ()) -> bool:
        """Enter a run into the journal, before it writes its first file. False: the run is there already, and may have
        left files. It counts as running again, unless another run has taken it over. `landed`: snapshots that the run
        has committed before, when it was in the journal for other work.

        Runs that were recovered more than 30 days ago are forgotten on this occasion, as far as they can be read, and
        old runs and events are removed. If that fails, the run is in the journal nevertheless."""
        before = _no_attempt(start.started_ms, landed).model_dump_json() if landed else None
        row = run_rows.JournalRow(table_uuid=start.table_uuid, heartbeat_ms=start.started_ms, attempt=before)
        entries = run_rows.journal_entries(start.run_id, row, start.model_dump_json())
        if self.entries.change(entries, {keys.key("journal", start.run_id): None}):
            # The run is in the journal and has to know that, whatever happens to the entries of others.
            with contextlib.suppress(errors.StoreError):
                self._forget(start.started_ms - _REMEMBER_RECOVERED_MS)
                retention.Removal(self.entries, self.periods, start.started_ms).perform()
            return True
        again = {"ended": run_rows.RUNNING, "heartbeat_ms": start.started_ms}
        self._update(start.run_id, lambda row: again if _may_go_on(row) else None)
        return False

    def heartbeat(self, run_id: str, now_ms: int) -> None:
        """Note that the run is at work."""
        self._update(run_id, lambda row: {"heartbeat_ms": now_ms})

    def publishing(self, run_id: str, attempt: Attempt) -> bool:
        """Note a change right before it is published; this counts as a heartbeat. False: it must not be published,
        because the run has ended, was taken over, or is not in the journal (R49).

        A race with `take_over` has one winner: either this answer is False, or `take_over` returns this attempt."""
        noted = {"attempt": attempt.model_dump_json(), "heartbeat_ms": attempt.at_ms}
        row = self._update(run_id, lambda row: noted if _is_running(row) else None)
        return row is not None

    def committed(self, run_id: str, attempt: Attempt) -> None:
        """Replace the attempt by one that lists its own snapshot as committed. Never refused: the commit is a fact."""

        def note(row: JournalRow) -> dict[str, object]:
            # Another run may have committed files of this one, which was only asleep.
            landed = tuple(dict.fromkeys((*_last_attempt(row).landed, *attempt.landed)))
            return {"attempt": attempt.model_copy(update={"landed": landed}).model_dump_json()}

        self._update(run_id, note)

    def committed_by_another(self, run_id: str, snapshot_ids: Collection[int]) -> Attempt | None:
        """Note that other runs have committed files of this run, with these snapshots. Returns its last attempt with
        them; None: there was nothing to note."""

        def note(row: JournalRow) -> dict[str, object] | None:
            last = _last_attempt(row)
            landed = tuple(dict.fromkeys((*last.landed, *snapshot_ids)))
            changed = last.model_copy(update={"landed": landed})
            return None if changed == last else {"attempt": changed.model_dump_json()}

        row = self._update(run_id, note)
        return None if row is None else _last_attempt(row)

    def attempt(self, run_id: str) -> Attempt | None:
        """Return the last change that the run was about to publish."""
        return next((run.attempt for run in self._runs([run_id])), None)

    def is_entered(self, run_id: str) -> bool:
        """Return whether the run is in the journal, in whatever state, and whether or not it can be read."""
        key = keys.key("journal", run_id)
        return key in self.entries.get([key])

    def running_row(self, run_id: str) -> dict[str, int] | None:
        """Return the key of the run's row and its version, to be expected by other changes of the run. None: it is not
        at work, or was taken over."""
        key = keys.key("journal", run_id)
        entry = self.entries.get([key]).get(key)
        row = None if entry is None else self._journal_row(entry)
        return None if entry is None or row is None or not _is_running(row) else {key: entry.version}

    def end(self, run_id: str, now_ms: int) -> None:
        """Note that the run has ended and may have left files."""
        self._update(run_id, lambda row: {"ended": row.ended or run_rows.ENDED, "heartbeat_ms": now_ms})

    def finish(self, run_id: str) -> None:
        """Remove a run that has ended and left no files."""
        key = keys.key("journal", run_id)
        while (entry := self.entries.get([key]).get(key)) is not None:
            row = self._journal_row(entry)
            removed = [key, keys.key("start", run_id)] if row is None else run_rows.journal_keys(run_id, row)
            if self.entries.change(dict.fromkeys(removed), {key: entry.version}):
                return

    def unfinished(self, table_uuid: str | None = None) -> list[UnfinishedRun]:
        """Return the runs on a table, or on any, that are running, have crashed, or may have left files; the oldest
        first. Recovered runs are not among them."""
        words = () if table_uuid is None else (table_uuid,)
        listed = self.entries.scan(keys.prefix("unfinished", *words))
        runs = self._runs([keys.words(entry.key)[-1] for entry in listed])
        return sorted(runs, key=lambda run: (run.start.started_ms, run.start.run_id))

    def unfinished_ids(self, table_uuid: str) -> tuple[str, ...]:
        """Return the ids of the same runs on a table, of those as well that this version cannot read."""
        listed = self.entries.scan(keys.prefix("unfinished", table_uuid))
        return tuple(keys.words(entry.key)[-1] for entry in listed)

    def take_over(self, run: UnfinishedRun) -> UnfinishedRun | None:
        """Declare a run dead, for good: from now on it may publish nothing. The answer is its state at that moment,
        with its last attempt. None: the run has sent a heartbeat since `run` was read, is recovered, or is gone. Two
        runs may take over the same one; both get it."""
        run_id = run.start.run_id

        def take(row: JournalRow) -> dict[str, object] | None:
            is_silent = row.heartbeat_ms == run.heartbeat_ms and row.recovered_ms is None
            return {"ended": run_rows.TAKEN_OVER} if is_silent else None

        row = self._update(run_id, take)
        if row is None:
            return None
        key = keys.key("start", run_id)
        start = self.entries.get([key]).get(key)
        return None if start is None else self.readable.parse(run_id, lambda: _unfinished(row, start))

    def mark_recovered(self, run_id: str, now_ms: int) -> None:
        """Note that all files of the run are removed. The entry is kept for a while, so that a run which was only
        asleep is still refused by `publishing`."""
        self._update(run_id, lambda row: {"recovered_ms": now_ms})

    def _update(self, run_id: str, change: Callable[[JournalRow], Mapping[str, object] | None]) -> JournalRow | None:
        """Change a run's row as `change` says, which may be asked again if others change it meanwhile. None: it says
        None, or the run is not in the journal, or this version cannot read the row."""
        key = keys.key("journal", run_id)
        while True:
            entry = self.entries.get([key]).get(key)
            row = None if entry is None else self._journal_row(entry)
            fields = None if row is None else change(row)
            if entry is None or row is None or fields is None:
                return None
            new = row.model_copy(update=dict(fields))
            values: dict[str, str | None] = {key: new.model_dump_json()}
            if run_rows.journal_place(run_id, row) != run_rows.journal_place(run_id, new):
                values |= {run_rows.journal_place(run_id, row): None, run_rows.journal_place(run_id, new): ""}
            if self.entries.change(values, {key: entry.version}):
                return new

    def _runs(self, run_ids: Sequence[str]) -> Iterator[UnfinishedRun]:
        for at in range(0, len(run_ids), _AT_ONCE):
            part = run_ids[at : at + _AT_ONCE]
            entries = self.entries.get([keys.key(word, run_id) for run_id in part for word in ("journal", "start")])
            for run_id in part:
                entry, start = (entries.get(keys.key(word, run_id)) for word in ("journal", "start"))
                row = None if entry is None else self._journal_row(entry)
                if row is None or start is None:
                    continue
                run = self.readable.parse(run_id, lambda row=row, start=start: _unfinished(row, start))  # type: ignore[misc]
                if run is not None:
                    yield run

    def _journal_row(self, entry: StoreEntry) -> JournalRow | None:
        return self.readable.parse(
            keys.words(entry.key)[-1], lambda: run_rows.JournalRow.model_validate_json(entry.value)
        )

    def _forget(self, before_ms: int) -> None:
        listed = self.entries.scan(keys.prefix("recovered"), limit=_FORGOTTEN)
        run_ids = [run_id for _, ms, run_id in (keys.words(entry.key) for entry in listed) if int(ms) < before_ms]
        for run in self._runs(run_ids):
            self.finish(run.start.run_id)


def _last_attempt(row: JournalRow) -> Attempt:
    return _no_attempt(row.heartbeat_ms) if row.attempt is None else Attempt.model_validate_json(row.attempt)


def _no_attempt(at_ms: int, landed: Sequence[int] = ()) -> Attempt:
    return Attempt(snapshot_id=None, parent_snapshot_id=None, sequence_number=None, at_ms=at_ms, landed=tuple(landed))


def _may_go_on(row: JournalRow) -> bool:
    return row.recovered_ms is None and row.ended < run_rows.TAKEN_OVER


def _is_running(row: JournalRow) -> bool:
    return row.recovered_ms is None and row.ended == run_rows.RUNNING


def _unfinished(row: JournalRow, start: StoreEntry) -> UnfinishedRun:
    return UnfinishedRun(
        start=RunStart.model_validate_json(run_rows.unpack(start.value)),
        heartbeat_ms=row.heartbeat_ms,
        ended=row.ended != run_rows.RUNNING,
        taken_over=row.ended == run_rows.TAKEN_OVER,
        attempt=None if row.attempt is None else Attempt.model_validate_json(row.attempt),
    )
