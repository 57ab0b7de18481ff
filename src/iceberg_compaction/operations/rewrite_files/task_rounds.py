"""Rounds of tasks. A task gets the credentials of its round, and those that a catalog gives expire: what storage has
refused for that reason goes into another round, with fresh ones. So a run may last longer than its credentials."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeAlias

from iceberg_compaction.catalog import publish
from iceberg_compaction.execute import task_failure
from iceberg_compaction.storage import file_io, vended_credentials

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyiceberg.table import Table

    from iceberg_compaction.execute.engine_door import Engine, OnEnd, TaskEnd
    from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask

_log = logging.getLogger(__name__)

Renew: TypeAlias = "Callable[[RewriteContext], RewriteContext]"


def renewing(table: Table) -> Renew | None:
    """How the context of a run on the table gets the credentials that the catalog gives now; None: it gives none."""
    if not vended_credentials.is_vended(table):
        return None
    return lambda context: context.model_copy(update={"io_properties": file_io.io_properties(publish.reload(table))})


def perform(
    engine: Engine, tasks: Sequence[RewriteTask], context: RewriteContext, on_end: OnEnd, renew: Renew | None
) -> RewriteContext:
    """Have all tasks performed. Rounds end when one in which nothing was done shows that fresh credentials do not help,
    or when there are none. Returns the context of the last round."""
    in_vain = 0
    if renew is None:
        engine.run(tasks, context, on_end)
        return context
    while tasks:
        heard = _Heard(on_end)
        engine.run(tasks, context, heard.on_end)
        in_vain = 0 if heard.done else in_vain + 1
        fresh = renew(context) if heard.expired and in_vain < 2 else context
        if fresh.io_properties == context.io_properties:
            for failed in heard.expired.values():
                on_end(failed)
            return fresh
        # Engines leave out what has not begun of a group that failed.
        tasks = [task for task in tasks if task.group_id in heard.expired and task.id not in heard.ended]
        _log.info("Credentials for storage have expired; %d tasks go on with fresh ones", len(tasks))
        context = fresh
    return context


class _Heard:
    """What an engine reports in one round."""

    def __init__(self, on_end: OnEnd) -> None:
        self.done = False
        self.ended: set[int] = set()
        self.expired: dict[int, task_failure.Failure] = {}  # by group
        self._on_end = on_end

    def on_end(self, end: TaskEnd) -> None:
        if isinstance(end, task_failure.Failure) and end.expired:
            self.expired.setdefault(end.group_id, end)
            return
        self.done |= not isinstance(end, task_failure.Failure)
        self.ended.add(end.task_id)
        self._on_end(end)
