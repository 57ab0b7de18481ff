"""The display of progress on standard error that fits the flags and the terminal. It draws the workflow's events and
knows nothing else of the work."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Protocol

from iceberg_compaction.interfaces.cli.options import LogFormat

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from iceberg_compaction.interfaces.cli.options import ConsoleOptions
    from iceberg_compaction.model.events import Event


class Progress(Protocol):
    """A display of events while a block of work runs."""

    @property
    def on_event(self) -> Callable[[Event], None] | None:
        """Takes events, from any thread; None: nobody looks, and nobody need count."""
        ...

    def show(self, event: Event, at: float) -> None:
        """Take an event of an earlier moment, by the clock of the display."""
        ...

    def __enter__(self) -> Progress: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def progress(console: ConsoleOptions, clock: Callable[[], float] = time.monotonic) -> Progress:
    """The display that fits. `clock`: seconds by which time is shown."""
    if console.quiet or not console.progress:
        return Silent()
    if sys.stderr.isatty() and console.log_format is LogFormat.TEXT:
        from iceberg_compaction.interfaces.cli.live import bars

        return bars.Bars(clock)
    from iceberg_compaction.interfaces.cli.live import lines

    return lines.Lines(clock)


class Silent:
    """Shows nothing."""

    on_event: Callable[[Event], None] | None = None

    def show(self, event: Event, at: float) -> None:
        """Nobody looks."""

    def __enter__(self) -> Silent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing was opened."""
