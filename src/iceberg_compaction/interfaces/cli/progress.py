"""Progress on standard error: a live bar on a terminal, a plain line now and then elsewhere. Draws the workflow's
events and knows nothing else of the work."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Protocol

from iceberg_compaction.model.byte_size import format_size
from iceberg_compaction.model.outcome import Stage

if TYPE_CHECKING:
    from types import TracebackType

    from rich.progress import TaskID

    from iceberg_compaction.interfaces.cli.options import ConsoleOptions
    from iceberg_compaction.model.outcome import Event, Outcome

_LINE_EVERY_SECONDS = 5.0


class Progress(Protocol):
    """Something that shows events while a block of work runs."""

    def on_event(self, event: Event) -> None: ...
    def on_outcome(self, outcome: Outcome) -> None: ...
    def __enter__(self) -> Progress: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def progress(console: ConsoleOptions) -> Progress:
    """The display that fits the flags and the terminal."""
    if console.quiet or not console.progress:
        return Silent()
    return Bars() if sys.stderr.isatty() else Lines()


class Silent:
    """Shows nothing."""

    def on_event(self, event: Event) -> None:
        """Nobody looks."""

    def on_outcome(self, outcome: Outcome) -> None:
        """Nobody looks."""

    def __enter__(self) -> Silent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing was opened."""


class Lines(Silent):
    """One line when a stage begins, and while rewriting every few seconds: for logs of a scheduler."""

    def __init__(self) -> None:
        self._stage: tuple[str, Stage] | None = None
        self._started = self._said = 0.0

    def on_event(self, event: Event) -> None:
        now = time.monotonic()
        if event.stage is Stage.DONE:
            return  # the outcome says it
        if (event.table, event.stage) != self._stage:
            if event.stage is Stage.REWRITING and not event.bytes_done:  # not when a commit was in between
                self._started = now
            self._stage = (event.table, event.stage)
        elif now - self._said < _LINE_EVERY_SECONDS and event.files_done < event.files_total:
            return
        self._said = now
        sys.stderr.write(f"{event.table}: {event.stage.value}{self._figures(event, now)}\n")
        sys.stderr.flush()

    def on_outcome(self, outcome: Outcome) -> None:
        sys.stderr.write(f"{outcome.table}: {outcome.kind.value}\n")

    def _figures(self, event: Event, now: float) -> str:
        if event.stage is not Stage.REWRITING:
            return ""
        speed = event.bytes_done / max(now - self._started, 1e-3)
        told = f", {event.files_done} of {event.files_total} files, {format_size(event.bytes_done)}"
        told += f", {event.groups_landed} of {event.groups_total} groups committed" if event.groups_landed else ""
        return told + (f", {format_size(speed)}/s" if event.bytes_done else "")


class Bars:
    """One live bar for each table: files, bytes, speed, time left."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self._bars = Progress(
            TextColumn("[bold]{task.description}"),
            TextColumn("{task.fields[stage]:<10}"),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[files]}"),
            TextColumn("{task.fields[bytes]}"),
            TextColumn("{task.fields[speed]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Bars:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def on_event(self, event: Event) -> None:
        from rich.markup import escape

        if event.table not in self._tasks:
            self._tasks[event.table] = self._bars.add_task(
                escape(event.table), total=None, stage="", files="", bytes="", speed=""
            )
        task = self._tasks[event.table]
        if event.bytes_total == 0:
            self._bars.update(task, stage=event.stage.value)
            return
        self._bars.update(
            task,
            total=event.bytes_total,
            completed=event.bytes_done,
            stage=event.stage.value,
            files=f"{event.files_done}/{event.files_total} files, {event.groups_landed}/{event.groups_total} groups in",
            bytes=f"{format_size(event.bytes_done)} of {format_size(event.bytes_total)}",
            speed=self._speed(task),
        )

    def on_outcome(self, outcome: Outcome) -> None:
        task = self._tasks.get(outcome.table)
        if task is not None:
            total = max(outcome.bytes_removed, 1)
            done = total if outcome.ok else outcome.bytes_removed
            self._bars.update(task, stage=outcome.kind.value, total=total, completed=done)
            self._bars.stop_task(task)

    def _speed(self, task: TaskID) -> str:
        speed = next(known.finished_speed or known.speed for known in self._bars.tasks if known.id == task)
        return f"{speed / 1e6:.1f} MB/s" if speed else ""
