"""Progress on standard error: a live bar on a terminal, a plain line now and then elsewhere. Draws the workflow's
events and knows nothing else of the work."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Protocol

from typing_extensions import assert_never

from iceberg_compaction.model import events, plurals
from iceberg_compaction.model.byte_size import format_size

if TYPE_CHECKING:
    from types import TracebackType

    from rich.progress import TaskID

    from iceberg_compaction.interfaces.cli.options import ConsoleOptions
    from iceberg_compaction.model.events import Event
    from iceberg_compaction.model.outcome import Outcome

_LINE_EVERY_SECONDS = 5.0


class Progress(Protocol):
    """Something that shows events while a block of work runs."""

    def on_event(self, event: Event) -> None: ...
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

    def __enter__(self) -> Silent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing was opened."""


class Lines(Silent):
    """One line for each step, and while rewriting one every few seconds: for logs of a scheduler."""

    def __init__(self) -> None:
        self._started = self._said = 0.0
        self._rewriting: str | None = None  # the table, if its last line may stand for a while
        self._all_done = False  # that line says that all files are done

    def on_event(self, event: Event) -> None:
        match event:
            case events.Planned() | events.GroupFailed():
                return  # the plan's figures come with the first progress; failures are warnings in the log
            case events.Rewriting():
                self._rewrite(event)
                return
            case events.Planning() | events.Recovering() | events.Committing():
                self._rewriting = None
                self._say(event, event.kind)
            case events.Committed():
                self._rewriting = event.table
                groups = f"{plurals.count(event.groups, 'group')} in " if event.groups else ""
                self._say(event, f"committed {groups}snapshot {event.snapshot_id}")
            case events.Finished():
                self._say(event, event.outcome.kind.value)
            case _:
                assert_never(event)

    def _rewrite(self, event: events.Rewriting) -> None:
        now, all_done = time.monotonic(), event.files_done >= event.files_total
        if self._rewriting != event.table and not event.bytes_done:  # not when a commit was in between
            self._started = now
        recent = now - self._said < _LINE_EVERY_SECONDS
        if self._rewriting == event.table and (self._all_done if all_done else recent):
            return
        self._rewriting, self._all_done, self._said = event.table, all_done, now
        speed = event.bytes_done / max(now - self._started, 1e-3)
        told = f"rewriting, {event.files_done} of {event.files_total} files, {format_size(event.bytes_done)}"
        told += f", {event.groups_committed} of {event.groups_total} groups committed" if event.groups_committed else ""
        self._say(event, told + (f", {format_size(speed)}/s" if event.bytes_done else ""))

    def _say(self, event: Event, told: str) -> None:
        sys.stderr.write(f"{event.table}: {told}\n")
        sys.stderr.flush()


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
        match event:
            case events.Planned() | events.Committed() | events.GroupFailed():
                return  # the bar's stage and figures say it
            case events.Planning() | events.Recovering() | events.Committing():
                self._bars.update(self._task(event.table), stage=event.kind)
            case events.Rewriting():
                self._rewrite(self._task(event.table), event)
            case events.Finished():
                if event.table in self._tasks:
                    self._finish(self._tasks[event.table], event.outcome)
            case _:
                assert_never(event)

    def _task(self, table: str) -> TaskID:
        from rich.markup import escape

        if table not in self._tasks:
            self._tasks[table] = self._bars.add_task(escape(table), total=None, stage="", files="", bytes="", speed="")
        return self._tasks[table]

    def _rewrite(self, task: TaskID, event: events.Rewriting) -> None:
        groups = f", {event.groups_committed}/{event.groups_total} groups committed" if event.groups_total else ""
        self._bars.update(
            task,
            total=event.bytes_total or None,
            completed=event.bytes_done,
            stage=event.kind,
            files=f"{event.files_done}/{event.files_total} files{groups}",
            bytes=f"{format_size(event.bytes_done)} of {format_size(event.bytes_total)}",
            speed=self._speed(task),
        )

    def _finish(self, task: TaskID, outcome: Outcome) -> None:
        total = max(outcome.bytes_removed, 1)
        done = total if outcome.ok else outcome.bytes_removed
        self._bars.update(task, stage=outcome.kind.value, total=total, completed=done)
        self._bars.stop_task(task)

    def _speed(self, task: TaskID) -> str:
        speed = next(known.finished_speed or known.speed for known in self._bars.tasks if known.id == task)
        return f"{speed / 1e6:.1f} MB/s" if speed else ""
