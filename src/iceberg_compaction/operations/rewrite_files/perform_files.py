"""A plan becomes commits: groups are rewritten, proved and published in batches as they are done, and staged files that
did not become part of the table are removed."""

from __future__ import annotations

import dataclasses
import functools
import logging
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.execute.prepare import cut_tasks, prepare_job
from iceberg_compaction.metadata.manifest import snapshot_manifests
from iceberg_compaction.operations.rewrite_files import (
    commit_batch,
    failed_files,
    rewrite_progress,
    staged_files,
    task_rounds,
)
from iceberg_compaction.operations.rewrite_files.groups import collect_groups

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from iceberg_compaction.execute.engine_door import Engine, Job
    from iceberg_compaction.execute.task_failure import Failure
    from iceberg_compaction.model.rewrite_plan import Plan
    from iceberg_compaction.operations.operation import PlannedWork
    from iceberg_compaction.operations.rewrite_files.staged_files import StagedFiles
    from iceberg_compaction.operations.run_ledger import Ledger
    from iceberg_compaction.record.runs import Run

_log = logging.getLogger(__name__)


def apply(table: Table, planned: PlannedWork[Plan], engine: Engine, run: Run, ledger: Ledger) -> None:
    """Perform a plan that is not empty; what becomes of each group goes to the ledger, where the plan is open. Raises
    what went wrong; by then nothing of the run is left behind but what landed or may have landed."""
    plan = planned.plan
    check_same_table(table, plan)
    progress = rewrite_progress.RewriteProgress(plan=plan, run=run, ledger=ledger)
    job = prepare(table, planned, run, cores=progress.await_engine(engine))
    job = dataclasses.replace(job, on_progress=progress.moved if run.has_listener else None)
    groups = collect_groups.CollectedGroups(plan, job.tasks, clock=run.clock)
    commits = commit_batch.BatchCommits(table=table, plan=plan, run=run, ledger=ledger)
    progress.begin(job.tasks)
    renew = task_rounds.renewing(table)
    work = task_rounds.Rounds(engine, job, cancel=run.cancel, renew=renew, later=groups.second_round)
    try:
        with run.cancel.looking(), staged_files.removing(table.io, work, run) as staged, work:
            for step in groups.steps(progress.counted(work.results(), job.tasks)):
                take(step, commits, staged, progress)
    except errors.ConflictError as conflict:
        # Not of one batch, but of all that the plan still holds.
        ledger.conflict(dict.fromkeys(ledger.open_groups(), str(conflict)))


def take(
    step: collect_groups.Step,
    commits: commit_batch.BatchCommits,
    staged: StagedFiles,
    progress: rewrite_progress.RewriteProgress,
) -> None:
    """Do what a step asks for."""
    match step:
        case collect_groups.Batch():
            _commit(step, commits, staged)
            progress.emit()
        case collect_groups.FailedGroup():
            _enter_failure(step.failure, commits.plan, commits.ledger)
            staged.remove(step.staged)
            progress.emit_failure(step.failure)
        case collect_groups.Unused():
            staged.remove(step.staged)


def _commit(batch: collect_groups.Batch, commits: commit_batch.BatchCommits, staged: StagedFiles) -> None:
    """Commit a batch. What stopped the work is worth more than trouble with its last batch."""
    try:
        commits.commit(batch, staged)
    except errors.StateUnknownError:
        raise
    except errors.CommitError as error:
        if not batch.parting:
            raise
        _log.warning("Groups of %s that were done could not be committed: %s", commits.plan.table, error)


def prepare(table: Table, planned: PlannedWork[Plan], run: Run, *, cores: int, gathers: bool = True) -> Job:
    """The job of the plan. Groups that earlier runs failed at come last. `gathers`: small files of several tasks are
    put together by a second round."""
    plan = planned.plan
    manifests = snapshot_manifests.of_plan(table, plan, planned.manifests)
    cut = functools.partial(cut_tasks.build_tasks, cores=cores, gathers=gathers)
    job = prepare_job.prepare(table, plan, run.run_id, manifests, cache=run.cache, cut=cut)
    return dataclasses.replace(job, tasks=tuple(failed_files.put_last(job.tasks, plan.table, run)))


def check_same_table(table: Table, plan: Plan) -> None:
    """Raises StalePlanError for a table that only has the name of the planned one."""
    if str(table.metadata.table_uuid) != plan.pin.table_uuid:
        raise errors.StalePlanError(
            f"The table {plan.table} is not the one that the plan was made on (its uuid differs); make a new plan."
        )


def _enter_failure(failure: Failure, plan: Plan, ledger: Ledger) -> None:
    ledger.fail(
        failure.group_id,
        failure.sentence,
        file_path=failure.file_path,
        surely=failure.of_its_files,
        refused=failure.refused,
    )
    _log.warning("Group %d of %s failed and stays as it is: %s", failure.group_id, plan.table, failure.sentence)
