"""Small files that several tasks of a group leave in one partition, gathered: pieces of rows that move to another
partition spec, where each task writes into all partitions that its rows belong to, and files that came out small
because data shrank. A second round of tasks joins them. Results of the first round come in, tasks and what became of
the pieces go out."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors
from iceberg_compaction.execute.prepare import cut_tasks
from iceberg_compaction.model import file_group, sizing
from iceberg_compaction.model.policies import CopyMode
from iceberg_compaction.model.rewrite_task import RewriteTask

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from iceberg_compaction.model.policies import Sizes
    from iceberg_compaction.model.rewrite_plan import Plan
    from iceberg_compaction.model.rewrite_task import StagedFile, TaskResult, Told

_MASK = 2**64 - 1


def second_round(
    plan: Plan, row: Mapping[str, Any], results: Sequence[TaskResult], *, first_id: int
) -> list[RewriteTask]:
    """Tasks that join the pieces of a group, numbered from `first_id` on; none: every partition has its files."""
    moves = _moves(plan, row)
    if len(results) < 2 or not (moves or cut_tasks.gathers_small_files(row)):
        return []
    written: dict[tuple[int, str], list[StagedFile]] = defaultdict(list)
    for result in sorted(results, key=lambda result: result.task_id):
        for file in result.staged:
            written[file.spec_id, file.partition].append(file)
    joined = [shares for files in written.values() for shares in _joined(files, plan, whole=moves)]
    return [_task(first_id + number, row["id"], files) for number, files in enumerate(joined)]


def _joined(files: Sequence[StagedFile], plan: Plan, *, whole: bool) -> list[list[StagedFile]]:
    """The files of a partition that are too small, for one task each time. `whole`: for a single task."""
    sizes = plan.sizes
    small = [file for file in files if file.file_size_in_bytes < sizes.min]
    if whole:
        return [small] if _fewer(small, sizes) else []
    others = sorted((file for file in files if file not in small), key=lambda file: file.file_size_in_bytes)
    if small and others and sum(file.file_size_in_bytes for file in small) < sizing.MARGIN * sizes.min:
        small.append(others[0])  # together they are still too small for a file; the smallest of the others takes them
    least = sizes.max if plan.copying.mode is CopyMode.NEVER else plan.copying.least
    cuts = cut_tasks.for_gathering([file.file_size_in_bytes for file in small], sizes.target, least)
    shares = [small[start:stop] for start, stop in zip(cuts, [*cuts[1:], len(small)], strict=True)]
    return [share for share in shares if len(share) > 1]


def _moves(plan: Plan, row: Mapping[str, Any]) -> bool:
    """Whether rows of a group leave their partitions."""
    current = plan.pin.spec_id
    return not plan.layout.keep_spec and any(spec_id != current for spec_id, _ in file_group.partition_keys(row))


def _fewer(pieces: Sequence[StagedFile], sizes: Sizes) -> bool:
    return sizing.file_count(sum(file.file_size_in_bytes for file in pieces), sizes) < len(pieces)


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
        told=tuple(_told(file) for file in pieces),
    )


def _told(file: StagedFile) -> dict[int, Told]:
    """Nulls and bounds of a file's columns. Footers lack bounds of long texts, so a copy would have none."""
    return {
        number: (count, file.lower_bounds.get(number), file.upper_bounds.get(number))
        for number, count in file.null_value_counts.items()
    }


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
