"""Progress on a terminal: a few live lines for each table at work, of which the first has a bar, and one line that
stays for each table that is done. Names are shown whole; long ones go on in the next line."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from iceberg_compaction.interfaces.cli.live import table_progress
from iceberg_compaction.model import events

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.text import Text
    from typing_extensions import Self

    from iceberg_compaction.model.events import Event

_WIDTH = 20  # characters of a bar
_PER_SECOND = 4  # drawings, so that elapsed time moves while nothing else does


class Bars:
    """Events may come from any thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        from rich.console import Console
        from rich.live import Live

        self._clock = clock
        self._tables: dict[str, table_progress.TableProgress] = {}
        self._lock = threading.Lock()
        self._console = Console(stderr=True, highlight=False)
        self._live = Live(
            get_renderable=self._draw,
            console=self._console,
            refresh_per_second=_PER_SECOND,
            redirect_stdout=False,  # results may go elsewhere
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._live.transient = not self._tables  # tables that were interrupted stay on the screen
        self._live.stop()

    def on_event(self, event: Event) -> None:
        self.show(event, self._clock())

    def show(self, event: Event, at: float) -> None:
        from rich.text import Text

        with self._lock:
            table = self._tables.setdefault(event.table, table_progress.TableProgress(event.table, at))
            table.enter(event, at)
            if isinstance(event, events.Finished):
                del self._tables[event.table]
        if isinstance(event, events.EngineChosen):
            self._console.print(Text.assemble((event.table, "bold"), f": {event.sentence}", overflow="fold"))
        if isinstance(event, events.Finished):
            line = Text(table.line(at), overflow="fold")
            line.stylize("bold", 0, len(table.table))
            self._live.refresh()  # else its last state would be drawn below the line
            self._console.print(line)

    def _draw(self) -> Text:
        from rich.text import Text

        with self._lock:
            lines = [line for table in self._tables.values() for line in self._lines(table)]
        return Text("\n", overflow="fold").join(lines)

    def _lines(self, table: table_progress.TableProgress) -> list[Text]:
        from rich.text import Text

        now, head = self._clock(), Text.assemble((table.table, "bold"), f": {table.stage} ")
        if (share := table.share) is None:
            return [head.append(table.elapsed(now))]
        full, empty = ("━", "─") if self._console.encoding.startswith("utf") else ("#", "-")
        done = int(_WIDTH * share)
        head.append(full * done, "green").append(empty * (_WIDTH - done), "dim")
        head.append(f" {int(100 * share)}%, {table.size}")
        return [head, Text(f"  {', '.join(table.details(now))}")]
