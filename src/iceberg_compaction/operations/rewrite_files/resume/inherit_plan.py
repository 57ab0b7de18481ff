"""What of a dead run's plan a run can go on with. A checkpoint and the table come in; out come the groups that still
hold, with the results of their tasks that can be used. The plan keeps its pin: its files hold the rows of that
snapshot, and the commit checks all that others have changed since, as it does for a run that took long."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from enum import Enum, auto
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from iceberg_compaction import errors, version
from iceberg_compaction.execute.prepare import cut_tasks
from iceberg_compaction.metadata import look, table_folders
from iceberg_compaction.model import checkpoint, table_view
from iceberg_compaction.operations.operation import PlannedWork
from iceberg_compaction.operations.rewrite_files import perform_files, rebase
from iceberg_compaction.operations.rewrite_files.change import validate_replace
from iceberg_compaction.operations.rewrite_files.groups import inherited_groups, match_results
from iceberg_compaction.plan import build, plan_request
from iceberg_compaction.record import leases
from iceberg_compaction.storage import file_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table

    from iceberg_compaction.execute.engine_door import Job
    from iceberg_compaction.model.rewrite_plan import Plan
    from iceberg_compaction.model.rewrite_task import RewriteTask, TaskResult
    from iceberg_compaction.model.table_view import TableView
    from iceberg_compaction.operations.operation import Legacy
    from iceberg_compaction.operations.rewrite_files.groups.inherited_groups import InheritedGroup
    from iceberg_compaction.operations.rewrite_files.task_rounds import Inherited
    from iceberg_compaction.record.runs import Run


class GroupScope(Enum):
    """The groups of the plan that a run goes on with."""

    READY = auto()  # those whose tasks are all done: the run has another policy
    STARTED = auto()  # those of which a task is done
    ALL = auto()  # the whole plan


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """A dead run's plan as it is worth now."""

    plan: Plan  # as it was made
    job: Job  # all of its tasks
    groups: tuple[InheritedGroup, ...]
    leased: frozenset[int]  # groups whose partitions another run works on
    view: TableView  # of the branch's head

    def select(self, scope: GroupScope, *, first_id: int | None) -> Selected | None:
        """The groups to go on with, numbered from `first_id` on, or as they are. None: there are none."""
        chosen = [group for group in self.groups if not group.reason and _is_in(group, scope)]
        if not chosen:
            return None
        useless_deletes = self.plan.useless_deletes if scope is GroupScope.ALL else 0
        ids = [group.id for group in chosen]
        plan = rebase.select(self.plan, ids, first_id=first_id, useless_deletes=useless_deletes)
        in_order = [row_id for row_id in self.plan.groups.columns["id"].to_pylist() if row_id in set(ids)]
        numbers = dict(zip(in_order, plan.groups.columns["id"].to_pylist(), strict=True))
        tasks = tuple(
            task.model_copy(update={"group_id": numbers[task.group_id]})
            for task in self.job.tasks
            if task.group_id in numbers
        )
        results = {paths: result for group in chosen for paths, result in group.results.items()}
        return Selected(plan=plan, job=dataclasses.replace(self.job, tasks=tasks), results=results)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """Groups of a dead run's plan that a run performs, with ids of its own."""

    plan: Plan
    job: Job
    results: Inherited

    @property
    def done(self) -> int:
        """Tasks of the plan that need not be performed."""
        return sum(task.file_paths in self.results for task in self.job.tasks)


def _is_in(group: InheritedGroup, scope: GroupScope) -> bool:
    if scope is GroupScope.READY:
        return group.complete
    return bool(group.results) or scope is GroupScope.ALL


def examine(table: Table, legacy: Legacy, run: Run) -> Examined:
    """What a checkpoint is worth on the table as it is now. StalePlanError, ConflictError, UnsupportedError,
    MetadataError: nothing, and it never will be. Reads metadata and asks for files; writes nothing."""
    plan = _check(legacy)
    perform_files.check_same_table(table, plan)
    validate_replace.check_history(table.metadata, plan.pin)
    view = look.look(table, name=plan.table, branch=plan.pin.branch, cache=run.cache).view
    view = leases.leave_to_others(view, table_folders.entry(table), run)
    build.check(plan_request.resolve(view, plan.policy))
    job = perform_files.prepare(table, PlannedWork(plan=plan), run, cores=legacy.held.head.cores)
    rebased = rebase.rebase(plan, view)
    dropped = rebased.dropped
    candidates = _candidates(table, legacy, plan)
    of_group: dict[int, list[RewriteTask]] = defaultdict(list)
    for task in job.tasks:
        of_group[task.group_id].append(task)
    groups = []
    for row in plan.groups.columns.to_pylist():
        if row["id"] in dropped:
            groups.append(inherited_groups.lost(row["id"], of_group[row["id"]], dropped[row["id"]]))
            continue
        group = inherited_groups.match(plan, row, of_group[row["id"]], candidates)
        groups.append(_with_deletes(group, view))
    return Examined(plan=plan, job=job, groups=tuple(groups), leased=rebased.leased, view=view)


def _check(legacy: Legacy) -> Plan:
    head, plan = legacy.held.head, legacy.content.plan
    if head.format != checkpoint.FORMAT or head.version != version.__version__:
        raise errors.StalePlanError(
            f"Version {head.version} has made the checkpoint of run {head.run_id}, and this is {version.__version__}, "
            "so that its work is done again."
        )
    if plan is None or plan.id != head.plan_id or plan.pin.branch != head.branch:
        raise errors.StalePlanError(f"The checkpoint of run {head.run_id} is damaged, so that its work is done again.")
    return plan


def _candidates(table: Table, legacy: Legacy, plan: Plan) -> inherited_groups.Candidates:
    """The results by the input files of their tasks, and the staged files that can be committed."""
    results: dict[tuple[str, ...], list[TaskResult]] = defaultdict(list)
    for saved in legacy.content.results:
        if saved.plan_id == plan.id and not saved.result.proof.failures:
            results[saved.file_paths].append(saved.result)
    named = {file.file_path: file for each in results.values() for result in each for file in result.staged}
    # A file that a snapshot has, on whatever branch, must not be added a second time.
    free = [
        file
        for path, file in named.items()
        if path not in legacy.content.gone and file_names.base_name(path) not in legacy.in_table
    ]
    missing = match_results.missing_files(table.io, free)
    return inherited_groups.Candidates(
        results=results, usable=frozenset(file.file_path for file in free if file.file_path not in missing)
    )


def _with_deletes(group: InheritedGroup, view: TableView) -> InheritedGroup:
    """The group, unless tasks that are left need delete files which the table has no more."""
    left: Sequence[RewriteTask] = [task for task in group.tasks if task.file_paths not in group.results]
    needed = [delete.file_path for delete in cut_tasks.all_deletes(left)]
    if group.reason or not needed:
        return group
    deletes = view.files.filter(pc.not_equal(view.files["content"], table_view.DATA))
    gone = sorted(set(needed) - set(deletes["file_path"].to_pylist()))
    if not gone:
        return group
    reason = f"The delete file {gone[0]}, which its tasks apply, is no longer in the table."
    return inherited_groups.lost(group.id, group.tasks, reason)
