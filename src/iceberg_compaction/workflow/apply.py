"""A plan becomes one commit: rewrite, prove, publish; and what did not get published is swept. This is the product's
safety rule: staged files are deleted only when their commit surely did not land, and nothing else ever is."""

from __future__ import annotations

import logging
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from iceberg_compaction import errors, version
from iceberg_compaction.commit import replace, sweep
from iceberg_compaction.execute import tasks as rewrite_tasks
from iceberg_compaction.execute.worker import context as contexts
from iceberg_compaction.metadata import applied
from iceberg_compaction.model import outcome, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table

    from iceberg_compaction.execute.engine import Engine
    from iceberg_compaction.model.plan import Plan
    from iceberg_compaction.model.proof import Proof
    from iceberg_compaction.model.task import RewriteTask, StagedFile, TaskResult
    from iceberg_compaction.workflow.run import Run

_log = logging.getLogger(__name__)


def apply(table: Table, plan: Plan, engine: Engine, run: Run) -> outcome.Outcome:
    """Perform a plan that is not empty. Raises what went wrong; by then nothing of the run is left behind."""
    _check_same_table(table, plan)
    tasks = rewrite_tasks.build_tasks(plan, applied.applied_deletes(table, plan), cores=engine.cores())
    context = contexts.build_context(table, plan, run.run_id, rewrite_tasks.all_deletes(tasks))
    progress = _Progress(plan, tasks, run)
    try:
        engine.run(tasks, context, progress.on_result)
        proof = prove(plan, tasks, progress.results)
    except BaseException:
        # Whatever stopped the rewrite, nothing was committed: everything staged is ours alone.
        _sweep(table, progress.staged)
        raise
    run.on_event(progress.event(outcome.Stage.COMMITTING, "committing"))
    result = _commit(table, plan, progress.staged, proof, run)
    run.on_event(progress.event(outcome.Stage.DONE, "done"))
    return _compacted(plan, progress.staged, proof, result, run)


def _check_same_table(table: Table, plan: Plan) -> None:
    if plan.pin is None or str(table.metadata.table_uuid) != plan.pin.table_uuid:
        raise errors.StalePlanError(
            f"The table {plan.table} is not the one that the plan was made on (its uuid differs); make a new plan."
        )


def prove(plan: Plan, tasks: Sequence[RewriteTask], results: Sequence[TaskResult]) -> Proof:
    """The run's proof from its tasks' proofs. Each must hold alone, and together they must cover the plan."""
    if sorted(result.task_id for result in results) != sorted(task.id for task in tasks):
        raise errors.ProofError(f"{len(results)} results came back for {len(tasks)} tasks; nothing was committed.")
    for result in results:
        if result.proof.failures:
            raise errors.ProofError(f"Task {result.task_id} on {plan.table}: {result.proof.sentence}")
    proof = reduce(add, (result.proof for result in results))
    staged = sum(file.record_count for result in results for file in result.staged)
    planned = plan.input_records
    if planned != proof.source.rows + proof.deleted_rows or staged != proof.source.rows:
        raise errors.ProofError(
            f"The plan for {plan.table} names {planned} rows; {proof.source.rows} were read, {proof.deleted_rows} "
            f"found deleted and {staged} staged."
        )
    return proof


def _commit(table: Table, plan: Plan, staged: Sequence[StagedFile], proof: Proof, run: Run) -> replace.CommitResult:
    assert plan.pin is not None  # an empty table has an empty plan, and that is never applied
    group = replace.ReplaceGroup(
        id=0, removed=plan.files, partitions=plan.partitions, added=tuple(staged), deleted_records=proof.deleted_rows
    )
    request = replace.ReplaceRequest(
        pin=plan.pin,
        groups=(group,),
        snapshot_properties=snapshot_properties(plan, proof, run),
    )
    try:
        return replace.replace(table, request)
    except errors.StateUnknownError:
        raise  # the commit may have landed: nothing may be deleted
    except errors.CompactionError:
        _sweep(table, staged)
        raise


def snapshot_properties(plan: Plan, proof: Proof, run: Run) -> dict[str, str]:
    """Who made the snapshot, why, and what was proved, for anyone who reads the table's history."""
    told = {
        "engine-name": "iceberg-compaction",
        "engine-version": version.__version__,
        "compaction.run-id": run.run_id,
        "compaction.plan-id": plan.id,
        "compaction.strategy": plan.policy.strategy.value,
        "compaction.planned-snapshot-id": str(plan.pin.snapshot_id) if plan.pin else "",
        "compaction.proof.level": proof.level.value,
        "compaction.proof.rows": str(proof.source.rows),
    }
    told |= {"compaction.proof.deleted-rows": str(proof.deleted_rows)} if proof.deleted_rows else {}
    return told | ({"compaction.proof.checksum": proof.checksum} if proof.checksum else {})


def _compacted(
    plan: Plan, staged: Sequence[StagedFile], proof: Proof, result: replace.CommitResult, run: Run
) -> outcome.Outcome:
    written = sum(file.file_size_in_bytes for file in staged)
    return outcome.Outcome(
        kind=outcome.Kind.COMPACTED,
        table=plan.table,
        sentence=(
            f"{plan.input_files} files ({size.format_size(plan.input_bytes)}) became {len(staged)} "
            f"({size.format_size(written)}) in snapshot {result.snapshot_id}{_deletes(proof, result)}."
        ),
        run_id=run.run_id,
        plan_id=plan.id,
        strategy=plan.policy.strategy,
        snapshot_id=result.snapshot_id,
        files_removed=plan.input_files,
        files_added=len(staged),
        bytes_removed=plan.input_bytes,
        bytes_added=written,
        records=proof.source.rows,
        deleted_rows=proof.deleted_rows,
        delete_files_removed=result.removed_delete_files,
        groups=len(plan.groups),
        attempts=result.attempts,
        proof=proof,
    )


def _deletes(proof: Proof, result: replace.CommitResult) -> str:
    """What became of deletes, in words."""
    rows, files = proof.deleted_rows, result.removed_delete_files
    told = []
    if rows:
        told.append(f"{rows} deleted {'row is' if rows == 1 else 'rows are'} gone")
    if files:
        told.append(f"{files} delete {'file was' if files == 1 else 'files were'} removed")
    return f"; {' and '.join(told)}" if told else ""


def _sweep(table: Table, staged: Sequence[StagedFile]) -> None:
    left = sweep.sweep(table.io, [file.file_path for file in staged])
    if left:
        _log.warning("%d staged files could not be removed, the first is %s", len(left), left[0])


class _Progress:
    """What has come back so far. The engine reports from one thread at a time."""

    def __init__(self, plan: Plan, tasks: Sequence[RewriteTask], run: Run) -> None:
        self._plan = plan
        self._run = run
        self._tasks = {task.id: task for task in tasks}
        self._files = 0
        self._bytes = 0
        self.results: list[TaskResult] = []
        run.on_event(self.event(outcome.Stage.REWRITING, plan.sentence))

    @property
    def staged(self) -> list[StagedFile]:
        return [file for result in sorted(self.results, key=lambda r: r.task_id) for file in result.staged]

    def on_result(self, result: TaskResult) -> None:
        task = self._tasks[result.task_id]
        self.results.append(result)
        self._files += len(task.file_paths)
        self._bytes += task.bytes
        self._run.on_event(self.event(outcome.Stage.REWRITING, f"group {result.group_id}"))

    def event(self, stage: outcome.Stage, message: str) -> outcome.Event:
        return outcome.Event(
            table=self._plan.table,
            run_id=self._run.run_id,
            stage=stage,
            message=message,
            files_done=self._files,
            files_total=self._plan.input_files,
            bytes_done=self._bytes,
            bytes_total=self._plan.input_bytes,
        )
