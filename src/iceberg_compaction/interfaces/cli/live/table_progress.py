"""The progress of one table, out of the events of its run: the stage, and figures that were measured. Events and the
time come in, words for people go out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import assert_never

from iceberg_compaction.model import events, plurals
from iceberg_compaction.model.byte_size import format_size

if TYPE_CHECKING:
    from iceberg_compaction.model.events import Event

_SOON = 1.0  # seconds of rewriting before which a rate says little
_BY_TASK_AFTER = 10.0  # seconds of rewriting after which bytes of running tasks would have come


class TableProgress:
    """`table`: its name. `stage`: what the run does now, in words."""

    def __init__(self, table: str, now: float) -> None:
        self.table = table
        self.stage = ""
        self._started = now
        self._rewriting_since: float | None = None
        self._rewriting: events.Rewriting | events.Comparing | None = None

    def enter(self, event: Event, now: float) -> None:
        """Take an event of the run."""
        match event:
            case (
                events.Planned()
                | events.TaskEnded()
                | events.Committed()
                | events.GroupFailed()
                | events.EngineChosen()
            ):
                return  # no stage of their own
            case events.Planning() | events.Recovering() | events.Committing():
                self.stage = event.kind
            case events.Starting():
                self.stage = f"starting {event.engine}"
            case events.Rewriting() | events.Comparing():
                if self._rewriting_since is None or self._is_another(event):
                    self._rewriting_since = now
                self.stage, self._rewriting = event.kind, event
            case events.Finished():
                self.stage = event.outcome.kind.value
            case _:
                assert_never(event)

    def _is_another(self, event: events.Rewriting | events.Comparing) -> bool:
        """Whether it begins anew, as when groups are planned again: its bytes are counted from nothing."""
        before = self._rewriting
        return before is not None and before.bytes_total != event.bytes_total

    @property
    def share(self) -> float | None:
        """Of the bytes, how much is done; None: nothing is rewritten yet."""
        if self._rewriting is None or not self._rewriting.bytes_total:
            return None
        return min(1.0, self._rewriting.bytes_done / self._rewriting.bytes_total)

    @property
    def size(self) -> str:
        """Bytes done, of all."""
        event = self._rewriting
        return "" if event is None else f"{format_size(event.bytes_done)} of {format_size(event.bytes_total)}"

    def line(self, now: float) -> str:
        """All of it."""
        return f"{self.table}: {', '.join(filter(None, [self.stage, self.size, *self.details(now)]))}"

    def details(self, now: float) -> list[str]:
        """Files, groups, rate, elapsed time and time left, as far as they are known."""
        details = []
        if (event := self._rewriting) is not None:
            details.append(f"{event.files_done:,} of {plurals.count(event.files_total, 'file')}")
            if event.groups_committed:
                details.append(f"{event.groups_committed:,} of {plurals.count(event.groups_total, 'group')} committed")
            details += self._measured(event, now)
        return [*details, self.elapsed(now)]

    def elapsed(self, now: float) -> str:
        return f"{format_seconds(now - self._started)} elapsed"

    def _measured(self, event: events.Rewriting | events.Comparing, now: float) -> list[str]:
        seconds = now - (self._rewriting_since or now)
        measured = []
        if event.by_task and seconds >= _BY_TASK_AFTER and event.bytes_done < event.bytes_total:
            measured.append("counted by whole tasks")
        if event.bytes_done and seconds >= _SOON:
            rate = event.bytes_done / seconds
            measured.append(f"{format_size(rate)}/s")
            if self.stage == event.kind and (left := event.bytes_total - event.bytes_done) > 0:
                measured.append(f"about {format_seconds(left / rate)} left")
        return measured


def format_seconds(seconds: float) -> str:
    """A duration for people: 8 s, 3 min 20 s, 2 h 5 min."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
