"""Progress of one run in the output of a notebook's cell: one display that is drawn again a few times a second, so that
elapsed time moves while nothing else does. Events come in, HTML goes out; no widget is needed."""

from __future__ import annotations

import threading
import time
import uuid
from contextlib import contextmanager
from contextvars import copy_context
from html import escape
from typing import TYPE_CHECKING

from iceberg_compaction.interfaces.cli.live import table_progress
from iceberg_compaction.interfaces.notebook import kernel
from iceberg_compaction.model import events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Self

    from iceberg_compaction.cancel import CancelToken
    from iceberg_compaction.model.events import Event

EVERY_SECONDS = 0.4
_TRACK = "display:inline-block;vertical-align:middle;width:14em;height:.7em;border-radius:.4em;overflow:hidden"
_GREY, _BLUE = "rgba(128,128,128,.3)", "#2f62c8"


@contextmanager
def drawn(
    on_event: Callable[[Event], None] | None, cancel: CancelToken, *, wanted: bool
) -> Iterator[Callable[[Event], None] | None]:
    """A listener that draws, and passes events on to `on_event`; just `on_event` where nothing is drawn."""
    publish = kernel.publisher() if wanted else None
    if publish is None:
        yield on_event
        return
    with CellProgress(publish, cancel) as progress:

        def both(event: Event) -> None:
            progress.on_event(event)
            if on_event is not None:
                on_event(event)

        yield both


class CellProgress:
    """Events may come from any thread. A display that fails is given up; the run goes on."""

    def __init__(
        self, publish: kernel.Publish, cancel: CancelToken, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._publish = publish
        self._cancel = cancel
        self._clock = clock
        self._id = f"iceberg-compaction-{uuid.uuid4().hex}"
        self._table: table_progress.TableProgress | None = None
        self._shown: dict[str, str] | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._finished = False
        # In a context like ours: the kernel knows by it which cell the display belongs to.
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._tick,), daemon=True, name="notebook-progress"
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        self._ended.set()
        self._thread.join()
        if self._table is not None and not self._finished:  # a check has no outcome
            self._table.stage = "done" if kind is None else "stopped"
        self._draw()

    def on_event(self, event: Event) -> None:
        now = self._clock()
        with self._lock:
            if self._table is None:
                self._table = table_progress.TableProgress(event.table, now)
            self._table.enter(event, now)
            self._finished = isinstance(event, events.Finished)

    def _tick(self) -> None:
        while not self._ended.wait(EVERY_SECONDS):
            self._draw()

    def _draw(self) -> None:
        with self._lock:
            shown = None if self._table is None else self._render(self._table)
        if shown is None or shown == self._shown:
            return
        try:
            self._publish(shown, self._id, self._shown is not None)
        except Exception:  # noqa: BLE001 - a notebook that is gone does not matter to the run
            self._ended.set()
        self._shown = shown

    def _render(self, table: table_progress.TableProgress) -> dict[str, str]:
        now = self._clock()
        stopping = self._cancel.cancelled and not self._ended.is_set()
        words = [table.stage, *(["stopping: what is finished is committed"] if stopping else [])]
        line = f"<b>{escape(table.table)}</b>: {escape(', '.join(words))}"
        if table.share is not None:
            bar = f'<span style="display:block;height:100%;width:{100 * table.share:.0f}%;background:{_BLUE}"></span>'
            line += f' <span style="{_TRACK};background:{_GREY}">{bar}</span> {table.share:.0%}, {escape(table.size)}'
        details = escape(", ".join(table.details(now)))
        html = f'<div role="status">{line}<br><small>{details}</small></div>'
        return {"text/html": html, "text/plain": table.line(now)}
