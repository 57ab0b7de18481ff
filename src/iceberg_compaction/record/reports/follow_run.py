"""A run from another process: its events and progress as they come to the store, and how it ended. The store is asked
again and again; it may be away for a while."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iceberg_compaction.model.run_listing import RunState
from iceberg_compaction.record import event_log, past_runs

if TYPE_CHECKING:
    from iceberg_compaction.model.events import Event, LatestProgress
    from iceberg_compaction.model.run_record import RunRecord, UnfinishedRun
    from iceberg_compaction.record.store import RunStore

GRACE_MS = 20_000  # between the last sign of a run and its record in the history


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An event of the run, and when it was."""

    at_ms: int
    event: Event


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """The end of a run. `record`: None if it has no outcome, because it died."""

    record: RunRecord | None
    sentence: str = ""
    command: str | None = None  # that goes on with its work


@dataclass(slots=True, kw_only=True)
class RunFollower:
    """One run of a store. `run_id` is of the history or of the journal."""

    store: RunStore
    run_id: str
    _number: int = -1  # of the last event
    _progress: LatestProgress | None = None
    _missing_since_ms: int | None = None
    _heartbeat_ms: int | None = None  # the last one
    _heard_ms: int = 0  # when it came, by the clock of this machine
    _log: event_log.EventLog = field(init=False)

    def __post_init__(self) -> None:
        self._log = event_log.EventLog(entries=self.store.entries)

    def steps(self) -> list[Step]:
        """The events since the last call, in the order of their times. Of progress only the latest is there; before
        the first one comes the moment at which the rewrite began."""
        logged = self._log.events(self.run_id, after=self._number)
        self._number = logged[-1].number if logged else self._number
        steps = [Step(at_ms=each.at_ms, event=each.event) for each in logged]
        progress = self._log.progress(self.run_id)
        if progress is not None and progress != self._progress:
            if self._progress is None or self._progress.since_ms != progress.since_ms:
                nothing = progress.event.model_copy(update={"files_done": 0, "bytes_done": 0})
                steps.append(Step(at_ms=progress.since_ms, event=nothing))
            steps.append(Step(at_ms=progress.at_ms, event=progress.event))
            self._progress = progress
        return sorted(steps, key=lambda step: step.at_ms)

    def end(self, now_ms: int) -> RunEnd | None:
        """How the run ended; None: it has not. A record is written a moment after the last event, so that its absence
        counts only after a while."""
        journal = next((run for run in self.store.unfinished() if run.start.run_id == self.run_id), None)
        record = self.store.run(self.run_id)
        if record is not None:
            return RunEnd(record=record)
        listing = (
            None
            if journal is None
            else past_runs.listing(journal, self.store, now_ms, self._silent_ms(journal, now_ms))
        )
        if listing is not None and listing.state is RunState.RUNNING:
            self._missing_since_ms = None
            return None
        if listing is not None and journal is not None and not journal.ended:
            return RunEnd(record=None, sentence=listing.sentence, command=listing.command)  # its process is gone
        self._missing_since_ms = now_ms if self._missing_since_ms is None else self._missing_since_ms
        if now_ms - self._missing_since_ms < GRACE_MS:
            return None
        if listing is not None:
            return RunEnd(record=None, sentence=listing.sentence, command=listing.command)
        return RunEnd(record=None, sentence="The run has ended, and the run store does not have its outcome.")

    def _silent_ms(self, run: UnfinishedRun, now_ms: int) -> int:
        """Since when there was no heartbeat. Clocks of machines differ, so only this machine's counts."""
        if run.heartbeat_ms != self._heartbeat_ms:
            self._heartbeat_ms, self._heard_ms = run.heartbeat_ms, now_ms
        return now_ms - self._heard_ms
