"""Reports of tasks while they are performed: a thread looks twice a second at the bytes that have moved, and sends
them. Nobody waits for a report, and no task fails for want of one."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, NamedTuple

from iceberg_compaction.storage import task_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Self

    from iceberg_compaction.model.rewrite_task import RewriteTask

EVERY_SECONDS = 0.5


class _Report(NamedTuple):
    progress: task_progress.TaskProgress
    send: Callable[[int], None]


class Reporter:
    """Reports of the tasks that one thread performs, one after the other. All of them share the thread that looks: to
    start one for each would cost more than all the rest of the reports of a short task."""

    def __init__(self) -> None:
        self._report: _Report | None = None  # of the task that is performed now
        self._sending = threading.Lock()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._over.set()

    @contextlib.contextmanager
    def reporting(
        self,
        task: RewriteTask,
        send: Callable[[int], None] | None,
        *,
        wait: bool = False,
        check: Callable[[], None] | None = None,
    ) -> Iterator[None]:
        """While this thread performs the task inside, `send` gets the bytes of its inputs that are done so far, from
        another thread. `wait`: none comes after the end. None: nobody wants to know. `check`: raises an error to end
        the task."""
        if send is None and check is None:
            yield
            return
        with task_progress.watching(size=task.bytes, rows=sum(task.record_counts), check=check) as progress:
            if send is None:
                yield
                return
            self._begin(_Report(progress, send))
            try:
                yield
            finally:
                with self._sending if wait else contextlib.nullcontext():
                    self._report = None

    def _begin(self, report: _Report) -> None:
        self._report = report
        if self._thread is None:
            self._thread = threading.Thread(target=self._look, daemon=True, name="task-progress")
            self._thread.start()

    def _look(self) -> None:
        """Short tasks send nothing: a report is sent if its task was performed at the last look as well."""
        last: _Report | None = None
        while not self._over.wait(EVERY_SECONDS):
            report = self._report
            if report is not None and report is last:
                self._send(report)
            last = report

    def _send(self, report: _Report) -> None:
        with self._sending:
            if report is not self._report:
                return
            try:
                report.send(report.progress.bytes_done)
            except Exception:  # noqa: BLE001 - reports inform, and steer nothing
                self._report = None  # there is no second try for this task
