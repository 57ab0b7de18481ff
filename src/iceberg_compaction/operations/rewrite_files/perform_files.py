"""A plan becomes commits: groups are rewritten, proved and published in batches as they are done, and staged files that
did not become part of the table are removed."""

from __future__ import annotations

import dataclasses
import functools
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.execute.prepare import cut_tasks, prepare_job
from iceberg_compaction.metadata import table_folders
from iceberg_compaction.metadata.manifest import snapshot_manifests
from iceberg_compaction.operations import engine_for_work
from iceberg_compaction.operations.rewrite_files import (
    commit_batch,
    failed_files,
    rewrite_progress,
    staged_files,
    task_rounds,
)
from iceberg_compaction.operations.rewrite_files.groups import collect_groups
from iceberg_compaction.operations.rewrite_files.planning import spending
from iceberg_compaction.record.checkpoint import open_checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table import Table

    from iceberg_compaction.execute.engine_door import Engine, Job
    from iceberg_compaction.execute.task_failure import Failure
    from iceberg_compaction.model.rewrite_plan import Plan
    from iceberg_compaction.operations.operation import PlannedWork
    from iceberg_compaction.operations.rewrite_files.staged_files import StagedFiles
    from iceberg_compaction.operations.rewrite_files.task_rounds import Inherited
    from iceberg_compaction.operations.run_ledger import Ledger
    from iceberg_compaction.record.checkpoint.open_checkpoint import OpenCheckpoint
    from iceberg_compaction.record.runs import Run

_log = logging.getLogger(__name__)


def apply(table: Table, planned: PlannedWork[Plan], engine: Engine, run: Run, ledger: Ledger) -> None:
    """Perform a plan that is not empty; what becomes of each group goes to the ledger, where the plan is open. Raises
    what went wrong; by then nothing of the run is left behind but what landed or may have landed."""
    plan = planned.plan
    check_same_table(table, plan)
    progress = rewrite_progress.RewriteProgress(plan=plan, run=run, ledger=ledger)
    engine = engine_for_work.for_plan(engine, plan, run, ledger)
    cores = progress.await_engine(engine)
    job = prepare(table, planned, run, cores=cores)
    checkpoint = open_checkpoint.begin(run, table_folders.entry(table), plan, job.tasks, cores=cores)
    perform(PlannedJob(plan=plan, job=job, checkpoint=checkpoint), table, engine, progress)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """A plan with its tasks. `inherited`: the results of tasks that an earlier run has done."""

    plan: Plan
    job: Job
    checkpoint: OpenCheckpoint | None = None
    inherited: Inherited = dataclasses.field(default_factory=dict)

    @property
    def kept(self) -> frozenset[str]:
        """Files of earlier runs."""
        return frozenset(file.file_path for result in self.inherited.values() for file in result.staged)


def perform(planned: PlannedJob, table: Table, engine: Engine, progress: rewrite_progress.RewriteProgress) -> None:
    """Perform the tasks of a plan that are not done yet, and commit its groups."""
    plan, run, ledger, checkpoint = planned.plan, progress.run, progress.ledger, planned.checkpoint
    job = dataclasses.replace(planned.job, on_progress=progress.moved if run.has_listener else None)
    meter = spending.meter(plan, run, ledger, cores=engine.cores())
    groups = collect_groups.CollectedGroups(plan, job.tasks, clock=run.clock, unreached=meter.unreached)
    commits = commit_batch.BatchCommits(table=table, plan=plan, run=run, ledger=ledger, checkpoint=checkpoint)
    progress.begin(job.tasks)
    save = None if checkpoint is None else checkpoint.save
    past = task_rounds.PastWork(inherited=planned.inherited, save=save, meter=meter)
    work = task_rounds.Rounds(
        engine,
        job,
        cancel=run.cancel,
        renew=task_rounds.renewing(table),
        later=groups.second_round,
        past=past,
    )
    staged = staged_files.StagedFiles(table.io, run, checkpoint=checkpoint, kept=planned.kept)
    try:
        with _writing(checkpoint, run, ledger), run.cancel.looking(), staged_files.removing(staged, work, run), work:
            for step in groups.steps(progress.counted(work.results(), job.tasks, inherited=work.inherited_ids)):
                take(step, commits, staged, progress)
    except errors.ConflictError as conflict:
        # Not of one batch, but of all that the plan still holds.
        ledger.conflict(dict.fromkeys(ledger.open_groups(), str(conflict)))


@contextmanager
def _writing(checkpoint: OpenCheckpoint | None, run: Run, ledger: Ledger) -> Iterator[None]:
    """Keep the checkpoint while there is work. At the end it is removed, unless files that it names may still become
    part of the table."""
    if checkpoint is None:
        yield
        return
    try:
        with checkpoint.writing():
            yield
    finally:
        if ledger.in_doubt or not checkpoint.close():
            run.may_leave_files()


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
