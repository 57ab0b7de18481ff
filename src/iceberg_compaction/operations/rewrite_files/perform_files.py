"""A plan becomes commits: groups are rewritten, proved and published in batches as they are done; and what did not get
published is removed. This is the product's safety rule: staged files are deleted only when their commit surely did not
land, and nothing else ever is."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.catalog import publish
from iceberg_compaction.execute import task_failure
from iceberg_compaction.execute.prepare import cut_tasks, shared_context
from iceberg_compaction.metadata.deletes import deletes_for_plan
from iceberg_compaction.metadata.manifest import nan_counts
from iceberg_compaction.model import events, file_group
from iceberg_compaction.model.policies import batch_size
from iceberg_compaction.operations import run_ledger
from iceberg_compaction.operations.rewrite_files import failed_files, gather_pieces, give_up, prove_groups, task_rounds
from iceberg_compaction.operations.rewrite_files.change import prune_manifests, replace_files, validate_replace
from iceberg_compaction.storage import remove

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyiceberg.table import Table

    from iceberg_compaction.execute.engine_door import Engine, TaskEnd
    from iceberg_compaction.model.rewrite_plan import Plan
    from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask, StagedFile, TaskResult
    from iceberg_compaction.operations.run_ledger import Ledger
    from iceberg_compaction.record.runs import Run

_log = logging.getLogger(__name__)


def apply(table: Table, plan: Plan, engine: Engine, run: Run, ledger: Ledger) -> None:
    """Perform a plan that is not empty; what becomes of each group goes to the ledger, where the plan is open. Raises
    what went wrong; by then nothing of the run is left behind but what landed or may have landed."""
    check_same_table(table, plan)
    scope = prune_manifests.Scope(table.metadata, plan.partitions)
    deletes, nans = deletes_for_plan.applied_deletes(table, plan), nan_counts.of_plan(table, plan, scope.may_be_in)
    tasks = cut_tasks.build_tasks(plan, deletes, nans, cores=engine.cores())
    tasks = failed_files.put_last(tasks, plan.table, run)
    context = shared_context.build_context(table, plan, run.run_id, cut_tasks.all_deletes(tasks))
    progress = _Progress(plan, tasks, run)
    batches = _Batches(table, plan, progress, ledger)
    progress.emit(ledger)
    try:
        context = batches.perform(engine, tasks, context)
        if gathering := batches.second_round():
            batches.perform(engine, gathering, context)
        batches.finish()
    except errors.ConflictError as conflict:
        # Not of one batch, but of all that the plan still holds.
        batches.sweep()
        ledger.conflict(dict.fromkeys(ledger.open_groups(), str(conflict)))
    except BaseException:
        batches.sweep()
        raise


def check_same_table(table: Table, plan: Plan) -> None:
    """Raises StalePlanError for a table that only has the name of the planned one."""
    if plan.pin is None or str(table.metadata.table_uuid) != plan.pin.table_uuid:
        raise errors.StalePlanError(
            f"The table {plan.table} is not the one that the plan was made on (its uuid differs); make a new plan."
        )


class _Batches:
    """Groups on their way into the table. The engine reports from one thread, and commits happen there too, while
    tasks of other groups go on elsewhere."""

    def __init__(self, table: Table, plan: Plan, progress: _Progress, ledger: Ledger) -> None:
        self._table = table
        self._plan = plan
        self._progress = progress
        self._ledger = ledger
        self._rows = {row["id"]: row for row in plan.groups.columns.to_pylist()}
        self._size = batch_size(plan.policy, len(plan.groups))
        self._results: dict[int, list[TaskResult]] = defaultdict(list)  # of groups that are not complete
        self._gathering: dict[int, list[RewriteTask]] = {}  # of groups that have a second round, see `gather`
        self._ready: list[prove_groups.ProvedGroup] = []  # for the next commit
        self._done: set[int] = set()  # groups that were rewritten
        self._failed: set[int] = set()
        self._patience = give_up.Patience()
        self._given_up: errors.CompactionError | None = None
        self._commits = 0
        self._stopped = False

    def perform(self, engine: Engine, tasks: Sequence[RewriteTask], context: RewriteContext) -> RewriteContext:
        """Have the tasks performed, all of them or until too many have failed. Returns the context as it was last."""
        try:
            return task_rounds.perform(engine, tasks, context, self.on_end, task_rounds.renewing(self._table))
        except errors.CompactionError as error:
            if error is not self._given_up:
                raise
            return context

    def on_end(self, end: TaskEnd) -> None:
        """One more task has ended. After the run was stopped the engine still reports what else was staged, to be
        swept."""
        if not isinstance(end, task_failure.Failure):
            self._results[end.group_id].append(end)
        elif self._stopped:
            self._fail(end)
        if self._stopped:
            return
        try:
            self._progress.on_end(end, self._ledger)
            self._take(end)
        except BaseException:
            self._stopped = True
            raise

    def second_round(self) -> list[RewriteTask]:
        """What is left to do when all tasks of the plan are done; nothing if the run was given up."""
        return [] if self._given_up else [task for tasks in self._gathering.values() for task in tasks]

    def finish(self) -> None:
        """The engine has done what it could: commit the rest."""
        if self._given_up is None and len(self._done | self._failed) < len(self._rows):
            came, all_tasks = self._progress.tasks_done, self._progress.tasks_total
            raise errors.ProofError(
                f"{came} results came back for {all_tasks} tasks; what is not complete was not committed."
            )
        if self._ready:
            self._commit()
        if self._given_up is not None:
            raise self._given_up

    def sweep(self) -> None:
        """Remove what is staged and was never part of a commit."""
        staged = [file for results in self._results.values() for result in results for file in result.staged]
        staged += [file for group in self._ready for file in group.staged]
        self._results.clear()
        self._ready = []
        self._remove(staged)

    def _take(self, end: TaskEnd) -> None:
        if isinstance(end, task_failure.Failure):
            known = end.group_id in self._failed
            self._fail(end)
            if not known:
                self._progress.emit_failure(end)
            if not known and (stop := self._patience.after(end)) is not None:
                self._given_up = None if isinstance(stop, errors.ProofError) else stop
                raise stop
        else:
            self._patience.done()
            self._advance(end.group_id)

    def _fail(self, failed: task_failure.Failure) -> None:
        """The group stays as it is. What other tasks have staged of it goes, since it can never be committed."""
        group_id, told = failed.group_id, failed.sentence
        if group_id not in self._failed:
            self._failed.add(group_id)
            self._ledger.fail(
                group_id, told, file_path=failed.file_path, surely=failed.of_its_files, refused=failed.refused
            )
            _log.warning("Group %d of %s failed and stays as it is: %s", group_id, self._plan.table, told)
        self._discard(group_id)

    def _discard(self, group_id: int) -> None:
        self._remove(file for result in self._results.pop(group_id, []) for file in result.staged)

    def _advance(self, group_id: int) -> None:
        if group_id in self._failed:
            self._discard(group_id)
            return
        if len(self._results[group_id]) < self._progress.tasks_of(group_id) or self._must_gather(group_id):
            return
        results, gathered = self._results[group_id], self._gathering.get(group_id, [])
        try:
            proved = prove_groups.prove(self._plan, self._rows[group_id], results, gathered)
        except errors.ProofError as error:
            self._ledger.fail(group_id, str(error))
            raise
        self._ready.append(proved)
        self._done.add(group_id)
        del self._results[group_id]
        pieces = gather_pieces.pieces(gathered)
        self._remove(file for result in results for file in result.staged if file.file_path in pieces)
        if len(self._ready) >= self._size:
            self._commit()

    def _must_gather(self, group_id: int) -> bool:
        """Whether the group, all of whose tasks are done, has further ones; till then `sweep` reaches its results."""
        if group_id in self._gathering:
            return False
        row, first_id = self._rows[group_id], self._progress.tasks_total
        found = gather_pieces.second_round(self._plan, row, self._results[group_id], first_id=first_id)
        if found:
            self._gathering[group_id] = found
            self._progress.add(found)
        return bool(found)

    def _commit(self) -> None:
        """Publish the groups that are ready. Once a commit begins they are out of reach of `sweep`, so that whatever
        happens they are deleted only if they surely did not land."""
        run, table = self._progress.run, self._plan.table
        run.emit(events.Committing(table=table, run_id=run.run_id, groups=len(self._ready)))
        batch, self._ready = self._ready, []
        self._commits += 1
        try:
            result = replace_files.replace(self._table, self._request(batch), self._progress.run)
        except errors.StateUnknownError as error:
            self._ledger.doubt([group.id for group in batch], str(error))
            raise
        except errors.ConflictError as error:
            self._remove(file for group in batch for file in group.staged)
            self._ledger.conflict({group.id: error.conflicts.get(group.id, str(error)) for group in batch})
            self._check_others()
        except errors.CompactionError:
            self._remove(file for group in batch for file in group.staged)
            raise
        except BaseException as error:  # neither the catalog's word nor ours, so that nobody knows how far it came
            self._ledger.doubt([group.id for group in batch], f"The commit was interrupted ({type(error).__name__}).")
            raise
        else:
            self._land(batch, result)
            committed = len(set(result.landed))
            run.emit(events.Committed(table=table, run_id=run.run_id, snapshot_id=result.snapshot_id, groups=committed))
        self._progress.emit(self._ledger)

    def _request(self, batch: Sequence[prove_groups.ProvedGroup]) -> replace_files.ReplaceRequest:
        assert self._plan.pin is not None  # an empty table has an empty plan, and that is never applied
        groups = tuple(
            replace_files.ReplaceGroup(
                id=group.id,
                removed=self._plan.files.slice(group.row["first"], group.row["files"]),
                partitions=file_group.places(group.row),
                added=group.staged,
                deleted_records=group.proof.deleted_rows,
            )
            for group in batch
        )
        return replace_files.ReplaceRequest(
            pin=self._plan.pin,
            groups=groups,
            snapshot_properties=prove_groups.snapshot_properties(self._plan, self._progress.run, batch=self._commits),
            tidies=self._plan.useless_deletes > 0 and not self._ledger.landed,  # once will do: it looks at all files
            tell=lambda landed: prove_groups.group_properties([group for group in batch if group.id in set(landed)]),
        )

    def _land(self, batch: Sequence[prove_groups.ProvedGroup], result: replace_files.CommitResult) -> None:
        landed = [group for group in batch if group.id in set(result.landed)]
        added = [file for group in landed for file in group.staged]
        self._ledger.land(
            run_ledger.Landed(
                snapshot_id=result.snapshot_id,
                groups=tuple(group.id for group in landed),
                files_added=len(added),
                bytes_added=sum(file.file_size_in_bytes for file in added),
                proof=prove_groups.together(group.proof for group in landed),
                effort=prove_groups.all_efforts(group.effort for group in landed),
                attempts=result.attempts,
                removed_delete_files=result.removed_delete_files,
            )
        )
        self._ledger.conflict(result.conflicts)
        self._remove(file for group in batch if group.id in result.conflicts for file in group.staged)

    def _check_others(self) -> None:
        """After a batch of which nothing landed: raises ConflictError if no other batch of the plan can land either,
        so that nothing is rewritten in vain."""
        assert self._plan.pin is not None
        try:
            validate_replace.check_history(publish.reload(self._table).metadata, self._plan.pin)
        except errors.CatalogError as error:
            _log.warning("Whether other groups can still be committed could not be looked up: %s", error)

    def _remove(self, staged: Iterable[StagedFile]) -> None:
        paths = [file.file_path for file in staged]
        left = remove.remove_files(self._table.io, paths, remove.Proof.NOT_COMMITTED)
        self._progress.run.left_behind(left)
        if left:
            _log.warning("%d staged files could not be removed, the first is %s", len(left), left[0])


class _Progress:
    """How far a run has come, for those who watch."""

    def __init__(self, plan: Plan, tasks: Sequence[RewriteTask], run: Run) -> None:
        self.run = run
        self.tasks_done, self.tasks_total = 0, len(tasks)
        self._plan = plan
        self._tasks = {task.id: task for task in tasks}
        self._tasks_of = Counter(task.group_id for task in tasks)
        self._files = 0
        self._bytes = 0

    def tasks_of(self, group_id: int) -> int:
        return self._tasks_of[group_id]

    def add(self, tasks: Sequence[RewriteTask]) -> None:
        """Further tasks, on files of which those who watch have heard already."""
        self.tasks_total += len(tasks)
        self._tasks_of.update(task.group_id for task in tasks)

    def on_end(self, end: TaskEnd, ledger: Ledger) -> None:
        self.tasks_done += 1
        if (task := self._tasks.get(end.task_id)) is not None:
            self._files += len(task.file_paths)
            self._bytes += task.bytes
        self.emit(ledger)

    def emit_failure(self, failed: task_failure.Failure) -> None:
        self.run.emit(
            events.GroupFailed(
                table=self._plan.table, run_id=self.run.run_id, group_id=failed.group_id, sentence=failed.sentence
            )
        )

    def emit(self, ledger: Ledger) -> None:
        self.run.emit(
            events.Rewriting(
                table=self._plan.table,
                run_id=self.run.run_id,
                files_done=self._files,
                files_total=self._plan.input_files,
                bytes_done=self._bytes,
                bytes_total=self._plan.input_bytes,
                groups_committed=ledger.count_landed,
                groups_total=len(self._plan.groups),
            )
        )
