"""Reports of a task while it is performed: a thread looks twice a second at the bytes that have moved, and sends them.
Nobody waits for a report, and no task fails for want of one."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from iceberg_compaction.storage import task_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from iceberg_compaction.model.rewrite_task import RewriteTask

EVERY_SECONDS = 0.5


@contextlib.contextmanager
def reporting(
    task: RewriteTask,
    send: Callable[[int], None] | None,
    *,
    wait: bool = False,
    check: Callable[[], None] | None = None,
) -> Iterator[None]:
    """While this thread performs the task inside, `send` gets the bytes of its inputs that are done so far, from
    another thread. `wait`: none comes after the end. None: nobody wants to know. `check`: raises an error to end the
    task."""
    if send is None and check is None:
        yield
        return
    with task_progress.watching(size=task.bytes, rows=sum(task.record_counts), check=check) as progress:
        if send is None:
            yield
            return
        ended = threading.Event()
        thread = threading.Thread(target=_report, args=(progress, send, ended), daemon=True, name="task-progress")
        thread.start()
        try:
            yield
        finally:
            ended.set()
            if wait:
                thread.join()


def _report(progress: task_progress.TaskProgress, send: Callable[[int], None], ended: threading.Event) -> None:
    with contextlib.suppress(Exception):  # reports inform, and steer nothing
        while not ended.wait(EVERY_SECONDS):
            send(progress.bytes_done)
