"""One task in this process, wherever that is: inline, on a Spark executor, or under somebody's own scheduler. A failure
becomes a value here, the same everywhere."""

from __future__ import annotations

import dataclasses
import functools
import logging
import secrets
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.execute import task_failure
from iceberg_compaction.model import portable_task
from iceberg_compaction.observe.tracing import spans

if TYPE_CHECKING:
    from iceberg_compaction.execute.engine_door import Rewrite, TaskEnd
    from iceberg_compaction.execute.worker.budgets import MemoryShare
    from iceberg_compaction.model.portable_task import PortableResult, PortableTask
    from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask

_log = logging.getLogger(__name__)


def perform_task(task: RewriteTask, context: RewriteContext, attempt: str, rewrite: Rewrite | None = None) -> TaskEnd:
    """The task's result, or its failure, after which none of its files is left but for what the failure tells."""
    if not context.trace:
        return _perform(task, context, attempt, rewrite)
    facts = {"task_id": task.id, "group_id": task.group_id, "files": len(task.file_paths), "bytes": task.bytes}
    with spans.of_task(context.trace, {**facts, "table_name": context.table, "attempt": attempt}) as span:
        end = _perform(task, context, attempt, rewrite)
        if isinstance(end, task_failure.Failure):
            spans.fail(span, end.error)
        return end


def _perform(task: RewriteTask, context: RewriteContext, attempt: str, rewrite: Rewrite | None) -> TaskEnd:
    try:
        return (rewrite or worker())(task, context, attempt)
    except errors.CancelledError:
        raise
    except Exception as error:  # noqa: BLE001 - the border where a worker's errors become data
        _log.debug("task %d failed", task.id, exc_info=error)
        return task_failure.describe(error, task, context)


def execute_task(task: PortableTask) -> PortableResult:
    """Perform a task in this process: write its files and prove that they hold the rows of its inputs. Raises the error
    of a task that fails, after its files are removed. Every call writes files of its own, so a task may be repeated."""
    if not isinstance(task, portable_task.PortableTask):
        raise errors.ConfigError(f"A task of tasks(plan, ...) is needed, not a value of type {type(task).__name__}.")
    end = perform_task(task.task, task.context, new_attempt())
    if isinstance(end, task_failure.Failure):
        raise end.rebuild()
    return portable_task.PortableResult(plan_id=task.plan_id, file_paths=task.task.file_paths, result=end)


def new_attempt(prefix: str = "0") -> str:
    """The name of an attempt that no other attempt has, in this process or another one."""
    return f"{prefix}-{secrets.token_hex(4)}"


def worker(cores: int = 1, memory: MemoryShare | None = None) -> Rewrite:
    """The real rewrite for tasks that may use so many cores each, imported only where tasks are performed. `memory`: of
    a process that performs tasks; None: all that its container or machine has."""
    from iceberg_compaction.execute.worker import budgets, execute_task

    limits = dataclasses.replace(budgets.DEFAULT, cores=cores, memory=memory or budgets.MemoryShare())
    return functools.partial(execute_task.rewrite, limits=limits)
