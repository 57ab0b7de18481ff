"""Cancels a run from another process: a request goes into the run's store, and the run ends where it can end cleanly.
What the store knows of the run comes in; out comes what became of the request."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from iceberg_compaction.model.cancel_request import Cancellation, CancelRequest, CancelState
from iceberg_compaction.record import cancel_requests, processes

if TYPE_CHECKING:
    from collections.abc import Callable

    from iceberg_compaction.model.outcome import Outcome
    from iceberg_compaction.model.run_record import UnfinishedRun
    from iceberg_compaction.record.store import RunStore

_LOOK_S = 0.2
_MOST_LOOKS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Canceller:
    """Whoever wants a run to end, and for how long to wait for that."""

    store: RunStore
    user: str
    clock: Callable[[], int]  # milliseconds since the epoch
    pause: Callable[[float], None]
    wait_s: float = 0.0

    def cancel(self, run_id: str, table: str, unfinished: UnfinishedRun | None) -> Cancellation:
        """Ask for the end of a run of the journal, and wait for it. None: it is not in the journal any more."""
        if unfinished is None or (unfinished.ended and not unfinished.taken_over):
            return self._ended(run_id, table)
        if unfinished.taken_over:
            return _answer(run_id, table, CancelState.DEAD, _taken_over(unfinished))
        alive, silent = processes.is_alive(unfinished.start.process), self._is_silent(unfinished)
        if alive is False:
            return _answer(run_id, table, CancelState.DEAD, _process_is_gone(unfinished))
        mine = CancelRequest(by=self.user, machine=processes.this_process().machine, at_ms=self.clock())
        request = cancel_requests.add(self.store.entries, run_id, mine)
        if alive is None and silent:
            return _answer(run_id, table, CancelState.DEAD, _silent(unfinished))
        return self._wait(run_id, table, "" if request == mine else f"This was requested before, by {request.words}.")

    def _wait(self, run_id: str, table: str, before: str) -> Cancellation:
        waited = 0.0
        while self._is_at_work(run_id):
            if waited >= self.wait_s:
                sentence = f"Run {run_id} on {table} will end within seconds, with what it has finished. {before}"
                return _answer(run_id, table, CancelState.REQUESTED, sentence.strip())
            self.pause(_LOOK_S)
            waited += _LOOK_S
        outcome = self._last_words(run_id)
        if outcome is None:
            return _answer(run_id, table, CancelState.CANCELLED, f"Run {run_id} on {table} has ended. {before}".strip())
        sentence = f"Run {run_id} on {table} has ended: {outcome.sentence} {before}"
        return _answer(run_id, table, CancelState.CANCELLED, sentence.strip(), outcome)

    def _ended(self, run_id: str, table: str) -> Cancellation:
        outcome = self._outcome(run_id)
        kind = "" if outcome is None else f" ({outcome.kind.value})"
        sentence = f"Run {run_id} on {table} has ended already{kind}; there is nothing to cancel."
        return _answer(run_id, table, CancelState.ENDED, sentence, outcome)

    def _last_words(self, run_id: str) -> Outcome | None:
        """The outcome of a run that has just left the journal; the history has it a moment later."""
        for _ in range(_MOST_LOOKS):
            outcome = self._outcome(run_id)
            if outcome is not None:
                return outcome
            self.pause(_LOOK_S)
        return None

    def _outcome(self, run_id: str) -> Outcome | None:
        record = self.store.run(run_id)
        return None if record is None else record.outcome

    def _is_at_work(self, run_id: str) -> bool:
        return any(each.start.run_id == run_id and not each.ended for each in self.store.unfinished())

    def _is_silent(self, unfinished: UnfinishedRun) -> bool:
        return self.clock() - unfinished.heartbeat_ms >= unfinished.start.silent_ms


def _answer(run_id: str, table: str, state: CancelState, sentence: str, outcome: Outcome | None = None) -> Cancellation:
    return Cancellation(run_id=run_id, table=table, state=state, sentence=sentence, outcome=outcome)


def _taken_over(run: UnfinishedRun) -> str:
    return (
        f"Another run has declared run {run.start.run_id} on {run.start.table} dead, so it can commit nothing any "
        "more; there is nothing to cancel."
    )


def _process_is_gone(run: UnfinishedRun) -> str:
    return (
        f"The process of run {run.start.run_id} on {run.start.table} is gone, so there is nothing to cancel; the next "
        "run on the table removes what it left."
    )


def _silent(run: UnfinishedRun) -> str:
    last = datetime.fromtimestamp(run.heartbeat_ms / 1000, timezone.utc)
    return (
        f"Run {run.start.run_id} on {run.start.table} has sent no heartbeat from {run.start.process.machine} since "
        f"{last:%Y-%m-%d %H:%M:%S} UTC, so it has probably died; if it lives, it ends now. The next run on the table "
        "takes over."
    )
