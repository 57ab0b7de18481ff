"""Bytes move while a task is performed, in whichever way its rows move, and all of them are done at its end."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType
from tests.factories import delete_files, tasks

from iceberg_compaction.execute.worker import execute_task
from iceberg_compaction.model.policies import CopyMode
from iceberg_compaction.storage import passing_faults, task_progress

if TYPE_CHECKING:
    from pathlib import Path

    from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "text", StringType(), required=False))
ROWS, FILES = 40_000, 4
BY_ID = SortOrder(SortField(source_id=1, transform=IdentityTransform()))


class Watched(task_progress.TaskProgress):
    """Remembers how far the task was after every movement."""

    def __init__(self, **totals: int) -> None:
        super().__init__(**totals)
        self.seen: list[int] = []

    def read(self, size: int) -> None:
        super().read(size)
        self.seen.append(self.bytes_done)

    def wrote(self, size: int) -> None:
        super().wrote(size)
        self.seen.append(self.bytes_done)

    def wrote_rows(self, rows: int) -> None:
        super().wrote_rows(rows)
        self.seen.append(self.bytes_done)


def perform(task: RewriteTask, context: RewriteContext, monkeypatch: pytest.MonkeyPatch) -> Watched:
    monkeypatch.setattr(task_progress, "TaskProgress", Watched)
    with task_progress.watching(size=task.bytes, rows=sum(task.record_counts)) as progress:
        execute_task.rewrite(task, context, "0")
    assert isinstance(progress, Watched)
    return progress


def inputs(folder: Path, **options: Any) -> RewriteTask:
    chance = np.random.default_rng(7)
    paths = []
    for number in range(FILES):
        texts = [bytes(row).hex() for row in chance.integers(0, 255, (ROWS, 8), dtype=np.uint8)]
        columns = {"id": chance.integers(0, 2**60, ROWS), "text": texts}
        table = pa.table(columns, schema=SCHEMA.as_arrow())
        paths.append(tasks.write_input(folder / f"in-{number}.parquet", table, SCHEMA, **options))
    return tasks.make_task(paths)


@pytest.mark.parametrize("way", ["encode", "sort", "copy", "join"])
def test_bytes_move_while_rows_do(tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    task = inputs(tmp_path)
    update: dict[str, Any] = {
        "encode": {"copy_row_groups": CopyMode.NEVER},
        "sort": {"sort_order": BY_ID.model_dump_json()},
        "copy": {"copy_row_groups": CopyMode.ALWAYS},
        "join": {"min_row_group": 64 * 2**20},
    }[way]
    context = tasks.make_context(tmp_path, SCHEMA).model_copy(update=update)
    progress = perform(task, context, monkeypatch)
    assert len({seen * 10 // task.bytes for seen in progress.seen}) > (3 if way == "join" else 4)
    assert progress.seen == sorted(progress.seen)
    assert 0.97 * task.bytes < progress.bytes_done <= task.bytes  # footers of the inputs are part of their bytes


def test_rows_that_are_deleted_are_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = inputs(tmp_path)
    gone = [(tmp_path / "in-0.parquet", row) for row in range(0, ROWS, 2)]
    deletes = delete_files.position_delete(tmp_path / "deletes.parquet", gone, sequence_number=2)
    task = task.model_copy(update={"sequence_numbers": (1,) * FILES, "deletes": (deletes,)})
    context = tasks.make_context(tmp_path, SCHEMA).model_copy(update={"copy_row_groups": CopyMode.NEVER})
    progress = perform(task, context, monkeypatch)
    assert 0.97 * task.bytes < progress.bytes_done <= task.bytes


def test_an_attempt_that_failed_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, waits = execute_task._perform, []

    def fail_once(*arguments: Any) -> Any:
        result = real(*arguments)
        if not waits:
            raise TimeoutError("the store hung up")
        return result

    monkeypatch.setattr(execute_task, "_perform", fail_once)
    monkeypatch.setattr(execute_task, "ATTEMPTS", passing_faults.Patience(retries=3, first=1.0, sleep=waits.append))
    task = inputs(tmp_path)
    progress = perform(task, tasks.make_context(tmp_path, SCHEMA), monkeypatch)
    assert waits
    assert any(after < before / 2 for before, after in itertools.pairwise(progress.seen))
    assert progress.bytes_done <= task.bytes
