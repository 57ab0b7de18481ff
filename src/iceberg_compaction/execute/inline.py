"""The engine without an engine: tasks one after the other in this process. For small work, for tests, and wherever a
JVM would cost more than it brings."""

from __future__ import annotations

import secrets
import threading
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.execute import failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.execute.engine import OnResult, Rewrite
    from iceberg_compaction.model.task import RewriteContext, RewriteTask, TaskResult


class InlineEngine:
    """Runs tasks in the calling thread. Cancelling takes effect between two tasks."""

    def __init__(self, *, rewrite: Rewrite | None = None) -> None:
        self._rewrite = rewrite
        self._cancelled = threading.Event()

    def cores(self) -> int:
        return 1

    def run(self, tasks: Sequence[RewriteTask], context: RewriteContext, on_result: OnResult) -> list[TaskResult]:
        rewrite = self._rewrite or _worker()
        attempt = f"0-{secrets.token_hex(4)}"
        results: list[TaskResult] = []
        for task in tasks:
            if self._cancelled.is_set():
                raise errors.CancelledError(f"Rewriting {context.table} was cancelled after {len(results)} tasks.")
            try:
                result = rewrite(task, context, attempt)
            except Exception as error:
                raise failure.describe(error, task, context).rebuild() from error
            results.append(result)
            on_result(result)
        return results

    def cancel(self) -> None:
        self._cancelled.set()


def _worker() -> Rewrite:
    from iceberg_compaction.execute.worker import rewrite

    return rewrite.rewrite
