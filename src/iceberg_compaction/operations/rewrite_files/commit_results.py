"""The two ends of a rewrite whose tasks are performed elsewhere: a plan becomes tasks that need nothing else, and their
results become commits, proved and journaled as those of any run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction.model import portable_task, rewrite_task
from iceberg_compaction.operations.operation import BeginsAnew, PlannedWork
from iceberg_compaction.operations.rewrite_files import (
    commit_batch,
    drop_useless,
    perform_files,
    rewrite_progress,
    staged_files,
)
from iceberg_compaction.operations.rewrite_files.groups import collect_groups, match_results

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyiceberg.table import Table

    from iceberg_compaction.model.outcome import Outcome
    from iceberg_compaction.model.rewrite_plan import Plan
    from iceberg_compaction.model.rewrite_task import RewriteTask, StagedFile, TaskResult
    from iceberg_compaction.operations.operation import EngineFactory
    from iceberg_compaction.operations.run_ledger import Ledger
    from iceberg_compaction.record.runs import Run


def tasks(table: Table, plan: Plan, run: Run, *, cores: int) -> list[portable_task.PortableTask]:
    """The tasks of a plan, on the very snapshot that it is pinned to. `cores`: how many will run at a time."""
    perform_files.check_same_table(table, plan)
    job = perform_files.prepare(table, PlannedWork(plan=plan), run, cores=cores, gathers=False)
    return [portable_task.PortableTask(plan_id=plan.id, task=task, context=job.context) for task in job.tasks]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResults(BeginsAnew):
    """Commit results of a plan's tasks. The plan keeps its pin, since the tasks applied the deletes of that snapshot:
    whatever others have changed since is a conflict or harmless, and the commit knows which."""

    given: Plan
    results: Sequence[portable_task.PortableResult]

    @property
    def table(self) -> str:
        return self.given.table

    @property
    def branch(self) -> str:
        return self.given.pin.branch

    @property
    def command(self) -> str:
        return "the commit, with the same results,"

    def plan(self, table: Table, run: Run, ledger: Ledger) -> PlannedWork[Plan]:
        ledger.open(self.given)
        perform_files.check_same_table(table, self.given)
        return PlannedWork(plan=self.given)

    def perform(
        self, planned: PlannedWork[Plan], table: Table, run: Run, ledger: Ledger, engines: EngineFactory
    ) -> Outcome:
        plan = planned.plan
        if not len(plan.groups):
            drop_useless.drop_useless_deletes(table, plan, run, ledger)
            return ledger.close()
        matched = match_results.match(table.io, plan, self.results)
        for group_id, reason in matched.reasons.items():
            ledger.fail(group_id, reason)
        numbered = [result.model_copy(update={"task_id": at}) for at, result in enumerate(matched.results)]
        done = [_stand_in(result) for result in numbered]
        groups = collect_groups.CollectedGroups(plan, done, clock=run.clock, gathers=False)
        progress = rewrite_progress.RewriteProgress(plan=plan, run=run, ledger=ledger)
        commits = commit_batch.BatchCommits(table=table, plan=plan, run=run, ledger=ledger)
        staged = _KeptFiles(table.io, run)
        for step in groups.steps(numbered):
            perform_files.take(step, commits, staged, progress)
        return ledger.close()

    def idle(self, plan: Plan, run: Run, ledger: Ledger) -> Outcome:
        return ledger.close()


class _KeptFiles(staged_files.StagedFiles):
    """Files of results are never removed here: the same results may have been committed before, or may be again."""

    def remove(self, files: Iterable[StagedFile]) -> None:
        """They are not this run's."""


def _stand_in(result: TaskResult) -> RewriteTask:
    """A task that is done: only its number and its group matter."""
    return rewrite_task.RewriteTask(
        id=result.task_id,
        group_id=result.group_id,
        spec_id=0,
        partition="{}",
        file_paths=(),
        file_sizes=(),
        record_counts=(),
    )
