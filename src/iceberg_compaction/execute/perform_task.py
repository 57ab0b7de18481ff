"""One task in this process, wherever that is: inline, on a Spark executor, or under somebody's own scheduler. A failure
becomes a value here, the same everywhere."""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.execute import task_failure

if TYPE_CHECKING:
    from iceberg_compaction.execute.engine_door import Rewrite, TaskEnd
    from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask

_log = logging.getLogger(__name__)


def perform_task(task: RewriteTask, context: RewriteContext, attempt: str, rewrite: Rewrite | None = None) -> TaskEnd:
    """The task's result, or its failure, after which none of its files is left but for what the failure tells."""
    try:
        return (rewrite or worker())(task, context, attempt)
    except errors.CancelledError:
        raise
    except Exception as error:  # noqa: BLE001 - the border where a worker's errors become data
        _log.debug("task %d failed", task.id, exc_info=error)
        return task_failure.describe(error, task, context)


def new_attempt(prefix: str = "0") -> str:
    """The name of an attempt that no other attempt has, in this process or another one."""
    return f"{prefix}-{secrets.token_hex(4)}"


def worker() -> Rewrite:
    """The real rewrite, imported only where tasks are performed."""
    from iceberg_compaction.execute.worker import execute_task

    return execute_task.rewrite
