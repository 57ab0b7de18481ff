"""A writer made of arithmetic: performs a plan on an inventory and says which files there would be afterwards. It rolls
as the worker does, learns the compression ratio as it goes, and every input file deviates from that ratio a little."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from tests.factories import inventories

from iceberg_compaction.execute.prepare import cut_tasks
from iceberg_compaction.model import sizing
from iceberg_compaction.model.rewrite_task import StagedFile
from iceberg_compaction.operations.rewrite_files.groups import gather_pieces

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from iceberg_compaction.model.policies import Sizes
    from iceberg_compaction.model.rewrite_plan import Plan
    from iceberg_compaction.model.rewrite_task import RewriteTask
    from iceberg_compaction.model.table_view import TableView

PIECES = 64  # a writer notices that a file is full within a 64th of the target


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """How the bytes behave when they are written anew."""

    ratio: float = 1.0  # output bytes / input bytes
    noise: float = 0.05  # by how much a single input file deviates from that
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A file that a task writes."""

    size: int
    inputs: tuple[str, ...]  # paths of the files that its rows come from


def write(task: RewriteTask, sizes: Sizes, data: Data, left: Mapping[str, float] | None = None) -> list[Output]:
    """A task's output files. `left` is the share of its rows that deletes leave, by path; all where it is not told."""
    left = left or {}
    dice = random.Random(data.seed * 1_000_003 + task.id)
    done: list[Output] = []
    inputs: dict[str, None] = {}
    consumed = written = current = 0.0
    roll = sizing.roll_size(task.bytes, sizes)
    for path, size in zip(task.file_paths, task.file_sizes, strict=True):
        factor = left.get(path, 1.0) * data.ratio * (1 + dice.uniform(-data.noise, data.noise))
        pieces = max(1, size * PIECES // sizes.target)
        for _ in range(pieces):
            if current >= roll:
                done.append(Output(size=int(current), inputs=tuple(inputs)))
                current, inputs = 0.0, {}
            inputs[path] = None
            consumed += size / pieces
            written += size / pieces * factor
            current += size / pieces * factor
            to_come = (task.bytes - consumed) * written / consumed
            roll = sizing.roll_size(int(current + to_come), sizes, int(current))
    if not written:
        return []  # deletes have taken every row
    return [*done, Output(size=max(1, int(current)), inputs=tuple(inputs))]


def perform(plan: Plan, view: TableView, data: Data, *, cores: int = 1) -> TableView:
    """The inventory after the plan's commit."""
    stays = pc.invert(pc.is_in(view.files["file_path"], plan.files["file_path"])).combine_chunks()
    kept = view.files.filter(stays)
    added = []
    known, left = bounds(view), _left(view)
    tasks = cut_tasks.build_tasks(plan, cores=cores, gathers=True)
    written = {task.id: write(task, plan.sizes, data, left) for task in tasks}
    for task, outputs in _gathered(plan, tasks, written, data):
        rows = inventories.files(
            [output.size for output in outputs],
            partitions=task.partition,
            specs=task.spec_id,
            sequence=[inventories.PIN.sequence_number] * len(outputs),
            bounds=[_around([known[path] for path in output.inputs]) for output in outputs],
            prefix=f"out-{task.id}",
        )
        added.append(rows)
    files = pa.concat_tables([kept, *added])
    return replace(view, files=files, **_deletes(view, stays, files.num_rows))


def _gathered(
    plan: Plan, tasks: list[RewriteTask], written: dict[int, list[Output]], data: Data
) -> Iterator[tuple[RewriteTask, list[Output]]]:
    """The outputs of all tasks after the second round, whose bytes keep their size."""
    for row in plan.groups.columns.to_pylist():
        of_group = [task for task in tasks if task.group_id == row["id"]]
        by_path = {f"{task.id}-{at}": output for task in of_group for at, output in enumerate(written[task.id])}
        results = [
            Staging(task.id, [_staged(f"{task.id}-{at}", task, output) for at, output in enumerate(written[task.id])])
            for task in of_group
        ]
        later = gather_pieces.second_round(plan, row, results, first_id=len(tasks) + 1000 * row["id"])  # type: ignore[arg-type]
        gone = gather_pieces.pieces(later)
        for task in of_group:
            yield task, [each for at, each in enumerate(written[task.id]) if f"{task.id}-{at}" not in gone]
        for task in later:
            inputs = tuple(dict.fromkeys(path for piece in task.file_paths for path in by_path[piece].inputs))
            outputs = write(task, plan.sizes, replace(data, ratio=1.0, noise=0.0))
            yield task, [replace(output, inputs=inputs) for output in outputs]


class Staging(NamedTuple):
    """The result of a task, as far as the second round looks at it."""

    task_id: int
    staged: list[StagedFile]


def _staged(path: str, task: RewriteTask, output: Output) -> StagedFile:
    return StagedFile(
        file_path=path,
        file_size_in_bytes=output.size,
        record_count=1,
        spec_id=task.spec_id,
        partition=task.partition,
    )


def _left(view: TableView) -> dict[str, float]:
    if view.deleted_rows is None:
        return {}
    columns = (view.files["file_path"], view.files["record_count"], view.deleted_rows)
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    return {path: 1 - deleted / max(1, records) for path, records, deleted in rows}


def _deletes(view: TableView, stays: pa.BooleanArray, count: int) -> dict[str, pa.Int64Array]:
    """The columns about deletes after a commit: none applies to the files that it adds."""
    if view.delete_files is None or view.deleted_rows is None:
        return {}
    kept = {"delete_files": view.delete_files.filter(stays), "deleted_rows": view.deleted_rows.filter(stays)}
    return {
        name: pa.concat_arrays([column, pa.array([0] * (count - len(column)), pa.int64())])
        for name, column in kept.items()
    }


def bounds(view: TableView) -> dict[str, tuple[int, int] | None]:
    """Bounds of the clustering column by path."""
    columns = (view.files[name].to_pylist() for name in ("file_path", "cluster_lower", "cluster_upper"))
    return {path: None if low is None else (low, high) for path, low, high in zip(*columns, strict=True)}


def _around(found: list[tuple[int, int] | None]) -> tuple[int, int] | None:
    known = [bound for bound in found if bound]
    return (min(low for low, _ in known), max(high for _, high in known)) if known else None
