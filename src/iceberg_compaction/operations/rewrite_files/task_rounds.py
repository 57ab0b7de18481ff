"""Work in rounds, one job each. A task gets the credentials of its round, and those that a catalog gives expire: tasks
that storage has refused for that reason go into another round, with fresh ones. So a run may last longer than its
credentials. Rows that move to other partitions have a second round, see gather_pieces. Tasks that an earlier run has
done are not performed again."""

from __future__ import annotations

import dataclasses
import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeAlias

from iceberg_compaction.catalog import publish
from iceberg_compaction.execute import task_failure
from iceberg_compaction.model import rewrite_task
from iceberg_compaction.storage import file_io, request_counts, vended_credentials

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType

    from pyiceberg.table import Table
    from typing_extensions import Self

    from iceberg_compaction.cancel import CancelToken
    from iceberg_compaction.execute.engine_door import Engine, Job, RunningJob, TaskEnd
    from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask, TaskResult
    from iceberg_compaction.operations.rewrite_files.planning.spending import SpendingMeter

_log = logging.getLogger(__name__)

Renew: TypeAlias = "Callable[[RewriteContext], RewriteContext]"
# Results of tasks that an earlier run has done, by the input files of the task.
Inherited: TypeAlias = "Mapping[tuple[str, ...], TaskResult]"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PastWork:
    """The results that earlier runs have left, where a later run finds those of this one, and what they cost."""

    inherited: Inherited = dataclasses.field(default_factory=dict)
    save: Callable[[RewriteTask, TaskResult], None] | None = None
    meter: SpendingMeter | None = None


def renewing(table: Table) -> Renew | None:
    """How the context of a run on the table gets the credentials that the catalog gives now; None: it gives none."""
    if not vended_credentials.is_vended(table):
        return None
    return lambda context: context.model_copy(update={"io_properties": file_io.io_properties(publish.reload(table))})


class Rounds:
    """The work on a job, and on the tasks that `later` names when all of its own have ended."""

    def __init__(
        self,
        engine: Engine,
        job: Job,
        *,
        cancel: CancelToken,
        renew: Renew | None,
        later: Callable[[], Sequence[RewriteTask]] = list,
        past: PastWork | None = None,
    ) -> None:
        self._engine = engine
        self._job = job
        self._cancel = cancel
        self._renew = renew
        self._later = later
        self._meter = None if past is None else past.meter
        self._save = None if past is None else past.save
        self._inherited = {} if past is None else past.inherited
        self.inherited_ids: set[int] = set()  # tasks, so far
        self._works: list[RunningJob] = []
        self._complete, self._task_left_files = False, False
        self._open = ExitStack()

    @property
    def staged(self) -> list[TaskResult]:
        return [result for work in self._works for result in work.staged]

    @property
    def left_behind(self) -> bool:
        """Whether files may exist that no result names: a task says so, or was stopped, and whoever is killed removes
        nothing."""
        return self._task_left_files or (bool(self._works) and not self._complete)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, error, trace)

    def results(self) -> Iterator[TaskEnd]:
        for wave in [self._job.tasks] if self._meter is None else self._meter.waves(self._job.tasks):
            yield from self._either(wave)
        yield from self._either(self._later())
        self._complete = True

    def _either(self, tasks: Sequence[RewriteTask]) -> Iterator[TaskEnd]:
        """First the tasks that are done already."""
        left = [task for task in tasks if task.file_paths not in self._inherited]
        for task in tasks:
            if task.file_paths in self._inherited:
                self.inherited_ids.add(task.id)
                result = self._inherited[task.file_paths]
                yield result.model_copy(update={"task_id": task.id, "group_id": task.group_id})
        yield from self._all(left)

    def _all(self, tasks: Sequence[RewriteTask]) -> Iterator[TaskEnd]:
        """Rounds end when one in which nothing was done shows that fresh credentials do not help, or when there are
        none."""
        fruitless = 0
        while tasks:
            expired: dict[int, task_failure.Failure] = {}  # by group
            ended, done = set(), False
            for end in self._round(tasks):
                if self._renew is not None and isinstance(end, task_failure.Failure) and end.expired:
                    expired.setdefault(end.group_id, end)
                    continue
                ended.add(end.task_id)
                done |= isinstance(end, rewrite_task.TaskResult)
                yield end
            fruitless = 0 if done else fruitless + 1
            if not expired or fruitless > 1 or not self._has_fresh_credentials():
                yield from expired.values()
                return
            # Engines leave out what has not begun of a group that failed.
            tasks = [task for task in tasks if task.group_id in expired and task.id not in ended]
            _log.info("Credentials for storage have expired; %d tasks go on with fresh ones", len(tasks))

    def _round(self, tasks: Sequence[RewriteTask]) -> Iterator[TaskEnd]:
        work = self._engine.start(dataclasses.replace(self._job, tasks=tuple(tasks)), cancel=self._cancel)
        self._works.append(work)
        self._open.enter_context(work)
        by_id = {task.id: task for task in tasks}
        for end in work.results():
            self._task_left_files |= end.left_behind
            if isinstance(end, rewrite_task.TaskResult):
                request_counts.current().add_all(end.requests)
                if self._meter is not None:
                    self._meter.charge(by_id[end.task_id], end)
                if self._save is not None:
                    self._save(by_id[end.task_id], end)
            yield end
        self._open.close()

    def _has_fresh_credentials(self) -> bool:
        assert self._renew is not None  # else nothing would count as expired
        fresh = self._renew(self._job.context)
        changed = fresh.io_properties != self._job.context.io_properties
        self._job = dataclasses.replace(self._job, context=fresh)
        return changed
