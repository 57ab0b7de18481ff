"""Performs a choice of delete files: tasks find the rows that they take and write position deletes for them, and one
commit exchanges the one for the other. Staged files that did not become part of the table are removed."""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.commit import snapshot_summary
from iceberg_compaction.execute import engine_door, task_failure
from iceberg_compaction.execute.prepare import position_job
from iceberg_compaction.model import events
from iceberg_compaction.model.storage_requests import StorageRequests
from iceberg_compaction.operations import engine_for_work
from iceberg_compaction.operations.deletes import compare_rows, delete_request, replace_deletes
from iceberg_compaction.operations.past_runs import run_commits
from iceberg_compaction.operations.rewrite_files import staged_files, task_rounds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table import Table

    from iceberg_compaction.execute.engine_door import Engine, Job
    from iceberg_compaction.model.deletes_plan import DeletesPlan
    from iceberg_compaction.model.rewrite_task import RewriteTask, StagedFile
    from iceberg_compaction.operations.deletes.choose_deletes import ChosenDeletes, ChosenGroup
    from iceberg_compaction.operations.operation import EngineFactory
    from iceberg_compaction.record.runs import Run

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletesWork:
    """A plan with the choice behind it."""

    plan: DeletesPlan
    chosen: ChosenDeletes
    deep: bool = False  # rows are read before and after, and compared

    @property
    def dangling(self) -> frozenset[str]:
        return frozenset(self.plan.dangling)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletesEnd:
    """What became of a choice."""

    result: replace_deletes.DeletesResult | None  # None: there was nothing left to commit
    groups: tuple[delete_request.DeleteGroup, ...] = ()  # that landed
    failures: Mapping[int, str] = field(default_factory=dict)  # groups that failed, and why
    seconds: float = 0.0  # of all tasks
    requests: StorageRequests = field(default_factory=StorageRequests)  # likewise, to storage


def perform(work: DeletesWork, table: Table, run: Run, engines: EngineFactory) -> DeletesEnd:
    """Perform and commit. Raises ConflictError if others changed what all of it depends on, and the error of a group if
    all of them failed."""
    if not work.chosen.groups:
        run.emit(events.Committing(table=work.plan.table, run_id=run.run_id))
        return DeletesEnd(result=_commit(work, (), table, run))
    with engines() as opened:
        engine = _engine(opened, work, run)
        _await(engine, work.plan, run)
        return _Performance(work, table, run, engine).perform()


def _engine(opened: Engine, work: DeletesWork, run: Run) -> Engine:
    data = pa.array(np.unique(np.concatenate([group.data for group in work.chosen.groups])))
    size = pc.sum(work.chosen.live["file_size_in_bytes"].take(data)).as_py() or 0
    return engine_for_work.for_reading(opened, len(data), size, work.plan.table, run)


def _await(engine: Engine, plan: DeletesPlan, run: Run) -> None:
    if isinstance(engine, engine_door.StartsLate) and (name := engine.starting) is not None:
        run.emit(events.Starting(table=plan.table, run_id=run.run_id, engine=name))
    engine.cores()


def _commit(
    work: DeletesWork, groups: tuple[delete_request.DeleteGroup, ...], table: Table, run: Run
) -> replace_deletes.DeletesResult | None:
    assert work.plan.pin is not None  # a table without a snapshot has an empty plan
    request = delete_request.DeletesRequest(
        pin=work.plan.pin,
        groups=groups,
        live=work.chosen.live,
        dangling=work.dangling,
        snapshot_properties=snapshot_summary.signature(run.run_id) | {run_commits.BRANCH: work.plan.pin.branch},
    )
    try:
        result = replace_deletes.replace(table, request, run)
    except errors.NothingLeftError:
        return None
    return result


class _Performance:
    """The groups of a choice, performed side by side and committed together."""

    def __init__(self, work: DeletesWork, table: Table, run: Run, engine: Engine) -> None:
        self._work, self._table, self._run, self._engine = work, table, run, engine
        chosen = work.chosen
        self._groups = {group.id: group for group in chosen.groups}
        job = position_job.prepare(table, chosen.live, chosen.groups, run.run_id, work.plan.granularity)
        self._progress = _PositionProgress(work.plan.table, job.tasks, run)
        self._job: Job = dataclasses.replace(job, on_progress=self._progress.moved if run.has_listener else None)
        self._added: dict[int, list[StagedFile]] = {group.id: [] for group in chosen.groups}
        self._failures: dict[int, str] = {}
        self._seconds, self._requests = 0.0, StorageRequests()

    def perform(self) -> DeletesEnd:
        run, table = self._run, self._table
        work = task_rounds.Rounds(self._engine, self._job, cancel=run.cancel, renew=task_rounds.renewing(table))
        staged = staged_files.StagedFiles(table.io, run)
        with run.cancel.looking(), staged_files.removing(staged, work, run), work:
            for end in work.results():
                self._progress.done(end.task_id)
                if isinstance(end, task_failure.Failure):
                    self._failures.setdefault(end.group_id, end.sentence)
                    _log.warning("Delete files of group %d stay as they are: %s", end.group_id, end.sentence)
                else:
                    self._added[end.group_id] += end.staged
                    self._seconds += end.seconds
                    self._requests += end.requests
            groups = tuple(self._group(group) for key, group in self._groups.items() if key not in self._failures)
            if not groups and not self._work.dangling:
                raise errors.ExecuteError(next(iter(self._failures.values())))
            if self._work.deep:
                compare_rows.compare(table, self._work.chosen.live, groups, self._engine, run)
            return self._committed(groups, staged)

    def _committed(
        self, groups: tuple[delete_request.DeleteGroup, ...], staged: staged_files.StagedFiles
    ) -> DeletesEnd:
        files = [file for group in groups for file in group.added]
        self._run.emit(events.Committing(table=self._work.plan.table, run_id=self._run.run_id))
        staged.hold(files)
        try:
            result = _commit(self._work, groups, self._table, self._run)
        except errors.StateUnknownError:
            raise
        except errors.CommitError:
            staged.release(files)
            raise
        landed = frozenset(result.landed) if result else frozenset[int]()
        staged.release(file for group in groups if group.id not in landed for file in group.added)
        return DeletesEnd(
            result=result,
            groups=tuple(group for group in groups if group.id in landed),
            failures=self._failures,
            seconds=self._seconds,
            requests=self._requests,
        )

    def _group(self, group: ChosenGroup) -> delete_request.DeleteGroup:
        paths, number = self._work.chosen.live["file_path"], group.sequence_number
        return delete_request.DeleteGroup(
            id=group.id,
            replaced=paths.take(pa.array(group.replaced)).combine_chunks(),
            targets=tuple(group.targets.tolist()),
            data=paths.take(pa.array(group.data)).combine_chunks(),
            added=tuple(file.model_copy(update={"sequence_number": number}) for file in self._added[group.id]),
        )


class _PositionProgress:
    """How far the tasks are, in data files and their bytes."""

    def __init__(self, table: str, tasks: tuple[RewriteTask, ...], run: Run) -> None:
        self._table, self._run = table, run
        self._tasks = {task.id: task for task in tasks}
        self._files = self._bytes = 0
        self._within: dict[int, int] = {}
        self._totals = sum(len(task.file_paths) for task in tasks), sum(task.bytes for task in tasks)
        self._emit()

    def moved(self, done: Mapping[int, int]) -> None:
        self._within |= {task: min(size, self._tasks[task].bytes) for task, size in done.items() if task in self._tasks}
        self._emit()

    def done(self, task_id: int) -> None:
        self._within.pop(task_id, None)
        task = self._tasks.pop(task_id, None)
        if task is not None:
            self._files += len(task.file_paths)
            self._bytes += task.bytes
        self._emit()

    def _emit(self) -> None:
        files, size = self._totals
        self._run.emit(
            events.Rewriting(
                table=self._table,
                run_id=self._run.run_id,
                files_done=self._files,
                files_total=files,
                bytes_done=self._bytes + sum(self._within.values()),
                bytes_total=size,
            )
        )
