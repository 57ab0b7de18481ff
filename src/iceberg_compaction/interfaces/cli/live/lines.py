"""Progress without a terminal, for logs of a scheduler: a line where a table's rewrite begins and ends, and in between
one every few seconds, whatever happens or does not happen."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from iceberg_compaction.interfaces.cli import logs
from iceberg_compaction.interfaces.cli.live import table_progress
from iceberg_compaction.model import events

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

    from iceberg_compaction.model.events import Event

EVERY_SECONDS = 5.0


class Lines:
    """Events may come from any thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._tables: dict[str, table_progress.TableProgress] = {}
        self._printed: dict[str, float] = {}  # when the last line of a table was
        self._begun: set[tuple[str, str]] = set()  # tables, and stages that had a line when they began
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True, name="progress-lines")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._ended.set()
        self._thread.join()

    def on_event(self, event: Event) -> None:
        self.show(event, self._clock())

    def show(self, event: Event, at: float) -> None:
        with self._lock:
            if event.table not in self._tables:
                self._tables[event.table] = table_progress.TableProgress(event.table, at)
                self._printed[event.table] = at
            table = self._tables[event.table]
            first = _begins(event) and (event.table, event.kind) not in self._begun
            table.enter(event, at)
            if isinstance(event, events.EngineChosen):
                _write(f"{event.table}: {event.sentence}")
            elif isinstance(event, events.Finished):
                del self._tables[event.table]
                self._begun = {stage for stage in self._begun if stage[0] != event.table}
                _write(table.line(at))
            elif first:
                self._begun.add((event.table, event.kind))
                self._print(table, at)
            elif at - self._printed[table.table] >= EVERY_SECONDS:
                self._print(table, at)

    def _tick(self) -> None:
        while not self._ended.wait(EVERY_SECONDS / 5):
            with self._lock:
                now = self._clock()
                for table in self._tables.values():
                    if now - self._printed[table.table] >= EVERY_SECONDS:
                        self._print(table, now)

    def _print(self, table: table_progress.TableProgress, now: float) -> None:
        self._printed[table.table] = now
        _write(table.line(now))


def _begins(event: Event) -> bool:
    """Whether it is of a stage that has a line when it begins. Others are over in no time, or come for each batch."""
    return isinstance(event, events.Starting | events.Rewriting | events.Comparing)


def _write(line: str) -> None:
    logs.write(line, source="progress")
