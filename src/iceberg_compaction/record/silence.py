"""Whether runs are over. The operating system answers for its own machine; runs on other machines are over when they
are silent for two heartbeats. Clocks of machines differ, so the time in a heartbeat alone does not make a run silent:
one that seems to be is watched until the next heartbeat should have come."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iceberg_compaction.record import processes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iceberg_compaction.model.run_record import UnfinishedRun
    from iceberg_compaction.record.store import RunStore

SURELY_MS = 60 * 60_000  # clocks do not differ by more than this
_WATCHED = 1500  # milliseconds for each second between two heartbeats
_LOOKS = 10  # in that time


@dataclass(slots=True, kw_only=True)
class _Heartbeat:
    """A heartbeat as it was first seen, by the clock of this machine."""

    heartbeat_ms: int
    seen_ms: int
    is_next: bool  # there was another one before


@dataclass(slots=True, kw_only=True)
class Watch:
    """The heartbeats that one run has seen of others."""

    clock: Callable[[], int]
    pause: Callable[[float], None]
    _seen: dict[str, _Heartbeat] = field(default_factory=dict)

    def over(self, runs: Sequence[UnfinishedRun], store: RunStore) -> list[UnfinishedRun]:
        """The runs that are over. This may take the time of one or two of their heartbeats."""
        for run in runs:
            self._see(run)
        return [run for run in runs if self._is_over(run, store)]

    def _is_over(self, run: UnfinishedRun, store: RunStore) -> bool:
        if run.ended:
            return True
        alive = processes.is_alive(run.start.process)
        if alive is not None:
            return not alive
        silent_ms, age_ms = run.start.silent_ms, self.clock() - run.heartbeat_ms
        if age_ms >= max(SURELY_MS, silent_ms):
            return True
        if -silent_ms <= age_ms < silent_ms:
            return False
        return self._stays_silent(run, store)

    def _stays_silent(self, run: UnfinishedRun, store: RunStore) -> bool:
        """Watch a run whose last heartbeat seems to be old, or to be of the future."""
        heartbeat, long_ms = self._see(run), round(_WATCHED * run.start.heartbeat_s)
        if heartbeat.is_next and self.clock() - heartbeat.seen_ms < long_ms:
            return False
        waited_ms = self.clock() - heartbeat.seen_ms
        while waited_ms < long_ms:
            self.pause(long_ms / _LOOKS / 1000)
            waited_ms = max(waited_ms + long_ms // _LOOKS + 1, self.clock() - heartbeat.seen_ms)
            unfinished = store.unfinished(run.start.table_uuid)
            now = next((each for each in unfinished if each.start.run_id == run.start.run_id), None)
            if now is None or now.ended:
                return True
            if self._see(now) is not heartbeat:
                return False
        return True

    def _see(self, run: UnfinishedRun) -> _Heartbeat:
        before = self._seen.get(run.start.run_id)
        if before is not None and before.heartbeat_ms == run.heartbeat_ms:
            return before
        heartbeat = _Heartbeat(heartbeat_ms=run.heartbeat_ms, seen_ms=self.clock(), is_next=before is not None)
        self._seen[run.start.run_id] = heartbeat
        return heartbeat
