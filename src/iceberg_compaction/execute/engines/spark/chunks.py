"""Which tasks share a Spark job, and what the job is called. Tiny tasks travel together, because a job costs a few
hundredths of a second; but never so few jobs that cores idle."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from iceberg_compaction.model import plurals

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from iceberg_compaction.model.rewrite_task import RewriteTask

MAX_BYTES, MIN_BYTES = 64 * 2**20, 24 * 2**20
MAX_TASKS = 32
_JOBS_PER_CORE = 4  # enough for a last job to be short, few enough for the cost of a job not to show


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskChunk:
    """Consecutive tasks of a run that one Spark job performs."""

    first: int  # position of the first task in the run
    total: int  # tasks of the whole run
    tasks: tuple[RewriteTask, ...]

    def without(self, groups: Collection[int]) -> TaskChunk:
        """The same without the tasks of these groups."""
        return replace(self, tasks=tuple(task for task in self.tasks if task.group_id not in groups))

    def alone(self) -> list[TaskChunk]:
        """A chunk for each of the tasks."""
        return [replace(self, first=self.first + at, tasks=(task,)) for at, task in enumerate(self.tasks)]

    def describe(self, table: str) -> str:
        """What the Spark UI shows: iceberg-compaction: shop.events, rewrite task 3/12 (group 2, 23 files)."""
        last = self.first + len(self.tasks)
        numbers = f"task {last}" if len(self.tasks) == 1 else f"tasks {self.first + 1}-{last}"
        groups = sorted({task.group_id for task in self.tasks})
        group = f"group {groups[0]}" if len(groups) == 1 else f"groups {groups[0]}-{groups[-1]}"
        files = sum(len(task.file_paths) for task in self.tasks)
        if all(task.folders is not None for task in self.tasks):
            return f"iceberg-compaction: {table}, list {numbers}/{self.total} ({plurals.count(files, 'folder')})"
        return f"iceberg-compaction: {table}, rewrite {numbers}/{self.total} ({group}, {plurals.count(files, 'file')})"


def build_chunks(tasks: Sequence[RewriteTask], cores: int) -> list[TaskChunk]:
    """The tasks in their own order, cut so that a chunk stays small and every core has several of them to do."""
    total = sum(task.bytes for task in tasks)
    share = max(total // (cores * _JOBS_PER_CORE), min(MIN_BYTES, total // cores))
    max_tasks = max(1, min(MAX_TASKS, len(tasks) // cores))
    chunks, first = [], 0
    for members in _cut(tasks, min(MAX_BYTES, share), max_tasks):
        chunks.append(TaskChunk(first=first, total=len(tasks), tasks=members))
        first += len(members)
    return chunks


def _cut(tasks: Sequence[RewriteTask], max_bytes: int, max_tasks: int) -> Iterator[tuple[RewriteTask, ...]]:
    members: list[RewriteTask] = []
    held = 0
    for task in tasks:
        if members and (held + task.bytes > max_bytes or len(members) >= max_tasks):
            yield tuple(members)
            members, held = [], 0
        members.append(task)
        held += task.bytes
    if members:
        yield tuple(members)
