"""The engine without an engine: tasks one after the other in this process. For small work, for tests, and wherever a
JVM would cost more than it brings."""

from __future__ import annotations

import logging
import secrets
import threading
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.execute import task_failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.execute.engine_door import OnEnd, Rewrite
    from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask, TaskResult

_log = logging.getLogger(__name__)


class InlineEngine:
    """Runs tasks in the calling thread. Cancelling takes effect between two tasks."""

    def __init__(self, *, rewrite: Rewrite | None = None) -> None:
        self._rewrite = rewrite
        self._cancelled = threading.Event()

    def cores(self) -> int:
        return 1

    def run(self, tasks: Sequence[RewriteTask], context: RewriteContext, on_end: OnEnd) -> list[TaskResult]:
        rewrite = self._rewrite or _worker()
        attempt = f"0-{secrets.token_hex(4)}"
        results: list[TaskResult] = []
        failed: set[int] = set()
        for task in tasks:
            if task.group_id in failed:
                continue  # what it would write could not be committed
            if self._cancelled.is_set():
                raise errors.CancelledError(f"Rewriting {context.table} was cancelled after {len(results)} tasks.")
            try:
                result = rewrite(task, context, attempt)
            except errors.CancelledError:
                raise
            except Exception as error:  # noqa: BLE001 - the border where a worker's errors become data
                _log.debug("task %d failed", task.id, exc_info=error)
                failed.add(task.group_id)
                on_end(task_failure.describe(error, task, context))
            else:
                results.append(result)
                on_end(result)
        return results

    def cancel(self) -> None:
        self._cancelled.set()


def _worker() -> Rewrite:
    from iceberg_compaction.execute.worker import execute_task

    return execute_task.rewrite
