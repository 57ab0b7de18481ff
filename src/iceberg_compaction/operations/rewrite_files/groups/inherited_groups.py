"""Which results of a dead run can be used, group by group. A result counts only if every file that it wrote is there,
and if its proof covers its task. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from iceberg_compaction.operations.rewrite_files.groups import gather_pieces

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iceberg_compaction.model.rewrite_plan import Plan
    from iceberg_compaction.model.rewrite_task import RewriteTask, TaskResult

_SECOND_ROUND = 10**9  # ids of tasks that are only compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Results by the input files of their tasks, and the paths of staged files that are there."""

    results: Mapping[tuple[str, ...], Sequence[TaskResult]]
    usable: frozenset[str]

    def of(self, task: RewriteTask) -> list[TaskResult]:
        """The results of a task whose proof covers it, those with all of their files first."""
        found = [
            result.model_copy(update={"task_id": task.id, "group_id": task.group_id})
            for result in self.results.get(task.file_paths, ())
            if result.proof.expected_rows == sum(task.record_counts)
        ]
        return sorted(found, key=lambda result: not self.has_files(result))

    def has_files(self, result: TaskResult) -> bool:
        return all(file.file_path in self.usable for file in result.staged)

    def complete(self, tasks: Sequence[RewriteTask]) -> dict[tuple[str, ...], TaskResult]:
        """The results of these tasks whose files are all there."""
        best = {task.file_paths: each[0] for task in tasks if (each := self.of(task))}
        return {paths: result for paths, result in best.items() if self.has_files(result)}


@dataclass(frozen=True, slots=True, kw_only=True)
class InheritedGroup:
    """A group of a dead run's plan, with the results that can be used."""

    id: int
    tasks: tuple[RewriteTask, ...]  # of the first round
    results: Mapping[tuple[str, ...], TaskResult] = field(default_factory=dict)  # of both rounds, by input files
    complete: bool = False  # nothing is left to do but the commit
    reason: str = ""  # why the group does not hold any more

    @property
    def done(self) -> int:
        """Tasks of the first round."""
        return sum(task.file_paths in self.results for task in self.tasks)


def lost(group_id: int, tasks: Sequence[RewriteTask], reason: str) -> InheritedGroup:
    """A group that cannot be gone on with."""
    return InheritedGroup(id=group_id, tasks=tuple(tasks), reason=reason)


def match(plan: Plan, row: Mapping[str, Any], tasks: Sequence[RewriteTask], candidates: Candidates) -> InheritedGroup:
    """A group with the results of its tasks."""
    group = InheritedGroup(id=row["id"], tasks=tuple(tasks))
    first = {task.file_paths: each[0] for task in tasks if (each := candidates.of(task))}
    if len(first) == len(tasks):
        gathered = gather_pieces.second_round(plan, row, list(first.values()), first_id=_SECOND_ROUND)
        second, pieces = candidates.complete(gathered), gather_pieces.pieces(gathered)
        kept = [file.file_path for result in first.values() for file in result.staged]
        if len(second) == len(gathered) and candidates.usable.issuperset(set(kept) - pieces):
            # Pieces that the second round has gathered may be gone.
            return InheritedGroup(id=group.id, tasks=group.tasks, results={**first, **second}, complete=True)
    usable = candidates.complete(tasks)
    if len(usable) < len(tasks):
        return InheritedGroup(id=group.id, tasks=group.tasks, results=usable)
    gathered = gather_pieces.second_round(plan, row, list(usable.values()), first_id=_SECOND_ROUND)
    return InheritedGroup(id=group.id, tasks=group.tasks, results={**usable, **candidates.complete(gathered)})
