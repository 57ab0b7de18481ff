"""Cuts the groups of a plan into tasks that run side by side. A plan and the deletes that apply to its files come in,
tasks in plan order go out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.model.task import RewriteTask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.metadata.applied import AppliedDeletes
    from iceberg_compaction.model.plan import Plan
    from iceberg_compaction.model.task import DeleteFile

# From eight targets on, a rest can always be spread over the other files (they grow by at most an eighth of the minimum
# size, less than Iceberg's 10 %), so no task ends in a small file that the next plan would pick up again. Even where
# data shrinks to 0.3 of its size, two targets remain, which divide into files within the range.
TASK_TARGETS = 8
# Next to a very large file a cut can leave less than its share; below this a task joins its neighbour.
LEAST_TARGETS = 7


def build_tasks(plan: Plan, applied: AppliedDeletes | None = None) -> list[RewriteTask]:
    """The tasks of all groups: contiguous files of roughly equal bytes. `applied`: the deletes that go with them."""
    paths, sizes, records = (plan.files[name].to_pylist() for name in plan.files.column_names)
    slices = []
    for group in plan.groups.columns.to_pylist():  # figures are enough: no sentence is made
        first, end = group["first"], group["first"] + group["files"]
        cuts = [first + cut for cut in _cuts(sizes[first:end], plan.sizes.target)]
        slices += [(group, start, stop) for start, stop in zip(cuts, [*cuts[1:], end], strict=True)]
    sequence = [] if applied is None else applied.sequence_numbers()
    deletes = [()] * len(slices) if applied is None else applied.of_slices([start for _, start, _ in slices])
    return [
        RewriteTask(
            id=number,
            group_id=group["id"],
            spec_id=group["spec_id"],
            partition=group["partition"],
            file_paths=tuple(paths[start:stop]),
            file_sizes=tuple(sizes[start:stop]),
            record_counts=tuple(records[start:stop]),
            sequence_numbers=tuple(sequence[start:stop]),
            deletes=deletes[number],
        )
        for number, (group, start, stop) in enumerate(slices)
    ]


def all_deletes(tasks: Sequence[RewriteTask]) -> list[DeleteFile]:
    """Every delete file that the tasks apply, once."""
    return list({delete.file_path: delete for task in tasks for delete in task.deletes}.values())


def _cuts(sizes: list[int], target: int) -> list[int]:
    """Where the tasks of one group begin."""
    total = sum(sizes)
    count = max(1, total // (TASK_TARGETS * target))
    if count == 1:
        return [0]
    reach = np.cumsum(np.array(sizes, np.int64))
    # A file belongs to the share in which its middle lies.
    share = (reach - np.array(sizes, np.int64) // 2) * count // (total + 1)
    begins = np.flatnonzero(np.append(True, share[1:] != share[:-1]))
    return _join_short([0, *(int(begin) for begin in begins[1:])], [0, *reach.tolist()], LEAST_TARGETS * target)


def _join_short(begins: list[int], reach: list[int], least: int) -> list[int]:
    """Begins of tasks that all hold at least `least` bytes; a short last task joins the one before."""
    kept = [0]
    for begin in begins[1:]:
        if reach[begin] - reach[kept[-1]] >= least:
            kept.append(begin)
    if len(kept) > 1 and reach[-1] - reach[kept[-1]] < least:
        kept.pop()
    return kept
