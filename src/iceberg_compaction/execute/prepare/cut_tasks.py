"""Cuts the groups of a plan into tasks that run side by side. A plan and what goes with its files, deletes and NaN
counts, come in; tasks in plan order go out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from iceberg_compaction.model import file_group, sizing
from iceberg_compaction.model.copy_plan import Way
from iceberg_compaction.model.file_group import GroupReason
from iceberg_compaction.model.output_layout import RowOrder
from iceberg_compaction.model.policies import CopyMode
from iceberg_compaction.model.rewrite_task import RewriteTask, TaskSection

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iceberg_compaction.metadata.deletes.deletes_for_plan import DeletesForPlan
    from iceberg_compaction.metadata.manifest.nan_counts import NanCounts
    from iceberg_compaction.model.policies import Sizes
    from iceberg_compaction.model.rewrite_plan import Plan
    from iceberg_compaction.model.rewrite_task import DeleteFile

# A group has a task for each expected output file, so that cores have something to do. Where data shrinks, files come
# out small; a second round of tasks then puts them together as bytes. There is no second round for sorted rows, nor
# for tasks that somebody else performs. Their tasks are larger: from eight targets on, a rest can always be spread over
# the other files (they grow by at most an eighth of the minimum size, less than Iceberg's 10 %), so no task ends in a
# small file that the next plan would pick up again. Where cores would have nothing to do, tasks hold half as much:
# still none of their files is small, even if data shrinks to a fifth of its size. What is copied keeps its size, so two
# targets are enough for it.
TASK_TARGETS, FEWER_TARGETS, COPIED_TARGETS = 8, 4, 2
COPIED = 0.9  # of a group's bytes from which on the rest does not count
# A group that is encoded into fewer files than there are idle cores is cut finer. Threads within a task help as well,
# but not where files are so small that most of the work is Python's, nor with many cores.
FRAGMENT = 16 * 2**20  # bytes of a task that makes only a part of a file
FRAGMENT_FILE, MANY_CORES = 2**19, 4  # bytes of files that are so small, on average; cores for each task
_ENCODED = (Way.SMALL.value, Way.DELETES.value, Way.CODEC.value)
# Next to a very large file a cut can leave less than its share; a task that lacks more targets joins its neighbour.
LACK = 1


def build_tasks(
    plan: Plan,
    applied: DeletesForPlan | None = None,
    nans: NanCounts | None = None,
    *,
    cores: int = 1,
    gathers: bool = False,
) -> list[RewriteTask]:
    """The tasks of all groups: contiguous files of roughly equal bytes. `applied`: the deletes that go with them;
    `nans`: the NaNs that manifests count; `cores`: how many tasks can run at a time; `gathers`: a second round puts
    small files together."""
    paths, sizes, records = (plan.files[name].to_pylist() for name in plan.files.column_names)
    slices = []
    groups = plan.groups.columns.to_pylist()  # figures are enough: no sentence is made
    for group, cuts in zip(groups, _cuts_of_groups(plan, groups, sizes, cores, gathers=gathers), strict=True):
        begins = [group["first"] + cut for cut in cuts]
        ends = [*begins[1:], group["first"] + group["files"]]
        slices += [(group, start, stop) for start, stop in zip(begins, ends, strict=True)]
    sequence = [] if applied is None else applied.sequence_numbers()
    lies = [_sections(group, start, stop) for group, start, stop in slices]
    starts = [begin for sections in lies for begin, _ in sections]
    deletes = iter([()] * len(starts) if applied is None else applied.of_slices(starts))
    tasks = [
        RewriteTask(
            id=number,
            group_id=group["id"],
            file_paths=tuple(paths[start:stop]),
            file_sizes=tuple(sizes[start:stop]),
            record_counts=tuple(records[start:stop]),
            sequence_numbers=tuple(sequence[start:stop]),
            sizes=plan.layout.cold if group["reason"] == GroupReason.COLD.value else None,
            **_lies([TaskSection(**section, deletes=next(deletes)) for _, section in lies[number]]),
        )
        for number, (group, start, stop) in enumerate(slices)
    ]
    if nans is None:
        return tasks
    # Many files share their counts, and would each get their own if they were validated.
    return [
        task.model_copy(update={"nan_counts": nans.of(start, stop), "told": nans.bounds_of(start, stop)})
        for task, (_, start, stop) in zip(tasks, slices, strict=True)
    ]


def _cuts_of_groups(
    plan: Plan, groups: Sequence[dict[str, Any]], sizes: Sequence[int], cores: int, *, gathers: bool
) -> list[list[int]]:
    """Where the tasks of each group begin, counted from its own first file."""
    targets = _task_targets(plan, cores)
    cuts = []
    for group in groups:
        own = sizes[group["first"] : group["first"] + group["files"]]
        if plan.layout.row_order is RowOrder.GIVEN:
            cuts.append([0])  # one task sorts the whole group, so that the ranges of its files do not overlap
        elif gathers and gathers_small_files(group):
            cuts.append(one_each(own, plan.sizes))
        else:
            of_group = COPIED_TARGETS if targets < TASK_TARGETS and _is_copied(group) else targets
            cuts.append(_cuts(own, plan.sizes.target, of_group, cores))
    total = sum(map(len, cuts))
    if not gathers or total >= cores:
        return cuts
    return [
        _fragments(plan, group, sizes, cuts_of_group, _Idle(cores=cores, tasks=total))
        for group, cuts_of_group in zip(groups, cuts, strict=True)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Idle:
    """A plan with fewer tasks than there are cores."""

    cores: int
    tasks: int


def _fragments(plan: Plan, group: dict[str, Any], sizes: Sequence[int], cuts: list[int], idle: _Idle) -> list[int]:
    """Finer cuts of a group that is encoded, for cores that would have nothing to do: each task makes whole row groups,
    and the second round puts them into files as bytes."""
    own = sizes[group["first"] : group["first"] + group["files"]]
    is_slow = sum(own) < FRAGMENT_FILE * len(own) or idle.cores >= MANY_CORES * idle.tasks
    is_given = plan.layout.row_order is RowOrder.GIVEN
    if is_given or group["copying"] not in _ENCODED or plan.copying.mode is not CopyMode.AUTO or not is_slow:
        return cuts
    share = idle.cores * sum(own) // max(1, plan.input_bytes)
    least = max(FRAGMENT, int(sizing.MARGIN * 2 * plan.copying.least))
    count = min(share, sum(own) // least)
    return _even_cuts(own, count, least // 2) if count > len(cuts) else cuts


def all_deletes(tasks: Sequence[RewriteTask]) -> list[DeleteFile]:
    """Every delete file that the tasks apply, once."""
    return list({delete.file_path: delete for task in tasks for part in task.parts for delete in part.deletes}.values())


def _sections(group: dict[str, Any], start: int, stop: int) -> list[tuple[int, dict[str, Any]]]:
    """The parts of a group's sections between two positions in the plan's files, each with its first position."""
    sections, first = [], group["first"]
    for section in file_group.sections_of(group):
        begin, end = max(first, start), min(first + section["files"], stop)
        if begin < end:
            sections.append((begin, section | {"files": end - begin}))
        first += section["files"]
    return sections


def _lies(sections: list[TaskSection]) -> dict[str, Any]:
    """The fields of a task that say where its files lie."""
    if len(sections) == 1:
        (one,) = sections
        return {"spec_id": one.spec_id, "partition": one.partition, "deletes": one.deletes}
    return {"spec_id": sections[0].spec_id, "partition": "{}", "sections": tuple(sections)}


def gathers_small_files(group: Mapping[str, Any]) -> bool:
    """Whether small files that the tasks of a group leave can be put together as bytes. Sorted ones cannot; and of
    rows that move to other partitions every task would leave a small file in each."""
    return group["copying"] not in (Way.SORTED.value, Way.RESPEC.value)


def one_each(sizes: Sequence[int], of_files: Sizes) -> list[int]:
    """Where tasks begin that write a file each, so that their files are large enough if the bytes keep their size."""
    total = sum(sizes)
    return _even_cuts(sizes, sizing.file_count(total, of_files), int(sizing.MARGIN * of_files.min))


def for_gathering(sizes: Sequence[int], target: int, least: int) -> list[int]:
    """Where tasks begin that put small files together. Files of `least` bytes are copied, and so keep their size but
    for a few percent; smaller ones are encoded again, or lose dictionaries and footers that they have in common."""
    copied = sum(size for size in sizes if size >= least) >= COPIED * sum(sizes)
    return _cuts(sizes, target, COPIED_TARGETS if copied else TASK_TARGETS, cores=1)


def _task_targets(plan: Plan, cores: int) -> int:
    shares = plan.groups.columns["bytes"].to_numpy() // (TASK_TARGETS * plan.sizes.target)
    return TASK_TARGETS if np.maximum(shares, 1).sum() >= cores else FEWER_TARGETS


def _is_copied(group: dict[str, Any]) -> bool:
    return bool(group["copied_bytes"] >= COPIED * group["bytes"])


def _cuts(sizes: Sequence[int], target: int, targets: int, cores: int) -> list[int]:
    """Where the tasks of one group, of so many targets each, begin. Rather than leaving cores idle beside a last few
    tasks, there are fewer and larger ones, so that all cores have the same to do."""
    count = max(1, sum(sizes) // (targets * target))
    if count > cores:
        count -= count % cores
    return _even_cuts(sizes, count, (targets - LACK) * target)


def _even_cuts(sizes: Sequence[int], count: int, least: int) -> list[int]:
    """Where tasks begin, at most so many of about equal bytes, and each of at least so many bytes."""
    if count == 1:
        return [0]
    total = sum(sizes)
    reach = np.cumsum(np.array(sizes, np.int64))
    # A file belongs to the share in which its middle lies.
    share = (reach - np.array(sizes, np.int64) // 2) * count // (total + 1)
    begins = np.flatnonzero(np.append(True, share[1:] != share[:-1]))
    return _join_short([0, *(int(begin) for begin in begins[1:])], [0, *reach.tolist()], least)


def _join_short(begins: list[int], reach: list[int], least: int) -> list[int]:
    """Begins of tasks that all hold at least `least` bytes; a short last task joins the one before."""
    kept = [0]
    for begin in begins[1:]:
        if reach[begin] - reach[kept[-1]] >= least:
            kept.append(begin)
    if len(kept) > 1 and reach[-1] - reach[kept[-1]] < least:
        kept.pop()
    return kept
