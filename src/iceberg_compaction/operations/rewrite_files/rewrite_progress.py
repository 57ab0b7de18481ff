"""The events of a rewrite: how many files are done, how many groups are in the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction.model import events

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from iceberg_compaction.execute.engine_door import TaskEnd
    from iceberg_compaction.execute.task_failure import Failure
    from iceberg_compaction.model.rewrite_plan import Plan
    from iceberg_compaction.model.rewrite_task import RewriteTask
    from iceberg_compaction.operations.run_ledger import Ledger
    from iceberg_compaction.record.runs import Run


@dataclass(slots=True, kw_only=True)
class RewriteProgress:
    """How far a run has come with a plan."""

    plan: Plan
    run: Run
    ledger: Ledger
    _files: int = 0
    _bytes: int = 0

    def counted(self, ends: Iterable[TaskEnd], tasks: Sequence[RewriteTask]) -> Iterator[TaskEnd]:
        """The same ends, each with an event. Further tasks than these work on files that were counted already."""
        by_id = {task.id: task for task in tasks}
        for end in ends:
            if (task := by_id.get(end.task_id)) is not None:
                self._files += len(task.file_paths)
                self._bytes += task.bytes
            self.emit()
            yield end

    def emit(self) -> None:
        self.run.emit(
            events.Rewriting(
                table=self.plan.table,
                run_id=self.run.run_id,
                files_done=self._files,
                files_total=self.plan.input_files,
                bytes_done=self._bytes,
                bytes_total=self.plan.input_bytes,
                groups_committed=self.ledger.groups_committed,
                groups_total=len(self.plan.groups),
            )
        )

    def emit_failure(self, failure: Failure) -> None:
        self.run.emit(
            events.GroupFailed(
                table=self.plan.table, run_id=self.run.run_id, group_id=failure.group_id, sentence=failure.sentence
            )
        )
