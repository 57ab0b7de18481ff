"""An engine whose run hears when files of unfinished tasks may be left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.execute.engine_door import Engine, OnEnd, TaskEnd
    from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask, TaskResult
    from iceberg_compaction.record.runs import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedEngine:
    """The same engine otherwise."""

    engine: Engine
    work: Run

    def cores(self) -> int:
        return self.engine.cores()

    def cancel(self) -> None:
        self.engine.cancel()

    def run(self, tasks: Sequence[RewriteTask], context: RewriteContext, on_end: OnEnd) -> list[TaskResult]:
        def look(end: TaskEnd) -> None:
            if end.left_behind:
                self.work.may_leave_files()
            on_end(end)

        try:
            return self.engine.run(tasks, context, look)
        except BaseException:
            self.work.may_leave_files()  # a worker that is killed removes nothing
            raise
