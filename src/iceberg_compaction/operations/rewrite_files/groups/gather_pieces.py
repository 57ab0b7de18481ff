"""Rows that move to another partition spec, gathered per new partition. Each task of a group writes into all partitions
that its rows belong to, so of one partition several tasks may leave a piece. Pieces that are too small for files of
their own are joined by a second round of tasks, which own whole partitions. Results of the first round come in, tasks
and what became of the pieces go out."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors
from iceberg_compaction.model import file_group, sizing
from iceberg_compaction.model.rewrite_task import RewriteTask

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from iceberg_compaction.model.rewrite_plan import Plan
    from iceberg_compaction.model.rewrite_task import StagedFile, TaskResult

_MASK = 2**64 - 1


def second_round(
    plan: Plan, row: Mapping[str, Any], results: Sequence[TaskResult], *, first_id: int
) -> list[RewriteTask]:
    """Tasks that join the pieces of a group, numbered from `first_id` on; none: every partition has its files."""
    if not _moves(plan, row) or len(results) < 2:
        return []
    pieces: dict[tuple[int, str], list[StagedFile]] = defaultdict(list)
    for result in sorted(results, key=lambda result: result.task_id):
        for file in result.staged:
            if file.file_size_in_bytes < plan.sizes.min:
                pieces[file.spec_id, file.partition].append(file)
    joined = [found for found in pieces.values() if _fewer(found, plan)]
    return [_task(first_id + number, row["id"], found) for number, found in enumerate(joined)]


def _moves(plan: Plan, row: Mapping[str, Any]) -> bool:
    """Whether rows of a group leave their partitions."""
    current = plan.pin.spec_id
    return not plan.layout.keep_spec and any(spec_id != current for spec_id, _ in file_group.partition_keys(row))


def _fewer(pieces: Sequence[StagedFile], plan: Plan) -> bool:
    return sizing.file_count(sum(file.file_size_in_bytes for file in pieces), plan.sizes) < len(pieces)


def _task(task_id: int, group_id: int, pieces: Sequence[StagedFile]) -> RewriteTask:
    return RewriteTask(
        id=task_id,
        group_id=group_id,
        spec_id=pieces[0].spec_id,
        partition=pieces[0].partition,
        file_paths=tuple(file.file_path for file in pieces),
        file_sizes=tuple(file.file_size_in_bytes for file in pieces),
        record_counts=tuple(file.record_count for file in pieces),
        nan_counts=tuple(file.nan_value_counts for file in pieces),
    )


def pieces(tasks: Collection[RewriteTask]) -> frozenset[str]:
    """The paths of the files that the second round stands for; nobody needs them afterwards."""
    return frozenset(path for task in tasks for path in task.file_paths)


def check(tasks: Sequence[RewriteTask], first: Sequence[TaskResult], second: Mapping[int, TaskResult]) -> None:
    """Raises ProofError unless each task of the second round found the very rows that the first had written for it.
    Each result is proved in itself; this is what joins the two."""
    written = {file.file_path: file.row_checksum for result in first for file in result.staged}
    for task in tasks:
        result, planned = second[task.id], sum(task.record_counts)
        proof, what = result.proof, f"Task {task.id} was to gather {planned} rows of partition {task.partition}"
        if proof.expected_rows != planned or proof.deleted_rows or proof.rows != planned:
            raise errors.ProofError(f"{what}, but found {proof.rows} and {proof.deleted_rows} deleted.")
        if any((file.spec_id, file.partition) != (task.spec_id, task.partition) for file in result.staged):
            raise errors.ProofError(f"{what}, but wrote into another.")
        sums = [written[path] for path in task.file_paths]
        # What was copied as bytes has a proof of its own, of bytes.
        if proof.source.row_checksum is None or proof.copied.rows or None in sums:
            continue
        if sum(share or 0 for share in sums) & _MASK != proof.source.row_checksum:
            raise errors.ProofError(f"{what}, but found other rows than had been written for it.")
