"""Tasks of a process share one budget of memory: their peak is foreseen, reserved, cut or refused."""

from __future__ import annotations

import dataclasses
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, LongType, NestedField, StringType
from tests.factories import bombs, tasks

from iceberg_compaction import errors, settings
from iceberg_compaction.execute import perform_task, task_failure
from iceberg_compaction.execute.worker import arrow_schemas, budgets, execute_task, prepared_task
from iceberg_compaction.execute.worker.input import column_slices, read_files
from iceberg_compaction.execute.worker.memory import (
    fit_budgets,
    memory_budget,
    memory_limit,
    peak_forecast,
    unused_memory,
)
from iceberg_compaction.model.policies import CopyMode
from iceberg_compaction.model.rewrite_task import Effort

if TYPE_CHECKING:
    from pathlib import Path

    from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask

MIB = 2**20
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "price", DoubleType(), required=False),
    NestedField(3, "note", StringType(), required=False),
)


def _wait(event: threading.Event) -> bool:
    return event.wait(30)


def test_a_task_waits_until_others_return_their_memory() -> None:
    budget, granted = memory_budget.MemoryBudget(), threading.Event()
    first = budget.reservation(limit=100)
    first.raise_to(70)

    def second() -> None:
        with budget.reservation(limit=100) as reservation:
            reservation.raise_to(60)
            granted.set()

    thread = threading.Thread(target=second)
    thread.start()
    assert not granted.wait(0.1)
    with first:
        pass
    assert _wait(granted)
    thread.join()
    assert budget.is_idle
    assert budget.reserved == 0


def test_a_task_alone_never_waits() -> None:
    with memory_budget.MemoryBudget().reservation(limit=10, resident=5) as reservation:
        assert reservation.most == 5
        reservation.raise_to(1000)
        assert reservation.bytes == 1000


def test_tasks_that_all_need_more_do_not_wait_for_one_another() -> None:
    budget, both, done = memory_budget.MemoryBudget(), threading.Barrier(2), []

    def task() -> None:
        with budget.reservation(limit=100) as reservation:
            reservation.raise_to(40)
            both.wait(30)
            reservation.raise_to(80)
            done.append(1)

    threads = [threading.Thread(target=task) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(done) == 2
    assert budget.reserved == 0


@pytest.mark.parametrize("name", ["memory.max", "memory/memory.limit_in_bytes", "pod/task/memory.max"])
def test_the_limit_of_the_container_is_shared_by_its_processes(tmp_path: Path, name: str) -> None:
    limit = tmp_path / "cgroup" / name
    limit.parent.mkdir(parents=True)
    limit.write_text(f"{1000 * MIB}\n")
    (tmp_path / "cgroup" / "memory.high").write_text("max")
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "cgroup").write_text("0::/pod/task\n")
    share = budgets.MemoryShare(processes=2, beside=250 * MIB)
    assert memory_limit.limit(share, tmp_path / "cgroup", proc) == 300 * MIB
    assert memory_limit.limit(budgets.MemoryShare(bytes=7), tmp_path / "cgroup", proc) == 7


def test_without_a_container_the_machine_is_the_limit(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("max\n")
    limit = memory_limit.limit(budgets.MemoryShare(), tmp_path)
    assert limit is not None
    assert limit > 256 * MIB


def test_the_user_may_set_the_memory() -> None:
    assert settings.load_memory({}) is None
    assert settings.load_memory({"ICEBERG_COMPACTION_MEMORY": "2GiB"}) == 2 << 30
    with pytest.raises(errors.ConfigError, match="ICEBERG_COMPACTION_MEMORY: "):
        settings.load_memory({"ICEBERG_COMPACTION_MEMORY": "much"})


def _task(root: Path, rows: int, files: int = 2) -> tuple[RewriteTask, RewriteContext]:
    random = np.random.default_rng(1)
    columns: dict[str, Any] = {
        "id": pa.array(random.integers(0, 2**60, rows)),
        "price": pa.array(random.random(rows)),
        "note": pa.array(random.integers(0, 2**60, rows)).cast(pa.string()),
    }
    paths = [
        bombs.write(root / f"{number}.parquet", columns, arrow_schemas.file_schema(SCHEMA)) for number in range(files)
    ]
    context = tasks.make_context(root, SCHEMA).model_copy(update={"copy_row_groups": CopyMode.NEVER})
    return tasks.make_task(paths), context


def test_a_task_that_does_not_fit_is_cut(tmp_path: Path) -> None:
    """Its buffers are smaller, and so is its forecast; its rows are the same."""
    task, context = _task(tmp_path, 500_000)
    whole = prepared_task.prepare(task, context, budgets.DEFAULT)
    small = dataclasses.replace(budgets.DEFAULT, task_bytes=whole.forecast.total // 2)
    cut = prepared_task.prepare(task, context, small)
    assert cut.forecast.total <= small.task_bytes < whole.forecast.total
    assert cut.budgets.buffer_bytes < whole.budgets.buffer_bytes
    result = execute_task.rewrite(task, context, "0", small)
    assert sum(file.record_count for file in result.staged) == 1_000_000


def test_a_task_that_cannot_fit_is_refused_before_it_writes(tmp_path: Path) -> None:
    task, context = _task(tmp_path, 1000)
    unused_memory.release()  # as the task does: it would fit into what others have left
    limits = dataclasses.replace(budgets.DEFAULT, memory=budgets.MemoryShare(bytes=memory_limit.resident() + MIB))

    def rewrite(*arguments: Any) -> Any:
        return execute_task.rewrite(*arguments, limits)

    end = perform_task.perform_task(task, context, "0", rewrite)
    assert isinstance(end, task_failure.Failure)
    assert end.refused
    assert end.sentence.startswith("A task of 2 files takes ")
    assert "give it more memory" in end.sentence
    assert not tasks.files_below(tmp_path)
    assert memory_budget.PROCESS.is_idle


@pytest.mark.parametrize("cores", [pytest.param(1, marks=pytest.mark.lab), 2])
def test_the_forecast_is_above_the_peak_and_not_far_above(tmp_path: Path, cores: int) -> None:
    task, context = _task(tmp_path, 700_000, files=4)
    figures = bombs.rewrite(task, context, cores)
    assert figures["peak_megabytes"] <= figures["foreseen_megabytes"] <= 1.7 * figures["peak_megabytes"]


def test_a_task_that_is_short_of_memory_leaves_cores_idle_before_its_files_change(tmp_path: Path) -> None:
    task, _ = _task(tmp_path, 700_000, files=2)
    reader = read_files.DataFileReader(io=PyArrowFileIO(), budgets=budgets.DEFAULT)
    inputs = zip(task.file_paths, task.record_counts, task.file_sizes, strict=True)
    footers = reader.footers([read_files.InputFacts(path=path, rows=rows, size=size) for path, rows, size in inputs])
    shape = peak_forecast.TaskShape(footers=footers, parts=[read_files.FilePart(footer) for footer in footers])
    with_four = dataclasses.replace(budgets.DEFAULT, cores=4)
    needs = {
        cores: peak_forecast.forecast(shape, dataclasses.replace(budgets.DEFAULT, cores=cores)).total
        for cores in (1, 2, 4)
    }
    assert needs[1] < needs[2] < needs[4]
    assert fit_budgets.fit(shape, with_four, None) == with_four
    assert fit_budgets.fit(shape, with_four, needs[4] - 1) == dataclasses.replace(with_four, cores=2)
    assert fit_budgets.fit(shape, with_four, needs[2] - 1) == dataclasses.replace(with_four, cores=1)
    assert fit_budgets.fit(shape, with_four, needs[1] - 1).buffer_bytes < with_four.buffer_bytes


def test_smaller_budgets_keep_what_is_no_memory() -> None:
    smaller = fit_budgets.scaled(dataclasses.replace(budgets.DEFAULT, cores=3), 0.25)
    assert smaller.buffer_bytes * 4 == budgets.DEFAULT.buffer_bytes
    assert smaller.batch_rows == budgets.DEFAULT.batch_rows
    assert smaller.cores == 3
    assert smaller.files_ahead >= 1


def test_columns_are_decoded_in_turn_where_their_pages_would_take_too_much(tmp_path: Path) -> None:
    """Streams of their rows are cut at different rows, and texts may be dictionaries."""
    columns = {f"c{number}": pa.array([f"{number}-{row % 700}" for row in range(5000)]) for number in range(6)}
    schema = Schema(*(NestedField(n + 1, name, StringType(), required=False) for n, name in enumerate(columns)))
    path = bombs.write(tmp_path / "in.parquet", columns, arrow_schemas.file_schema(schema), data_page_size=5000)
    limits = budgets.Budgets(open_bytes=150_000, batch_rows=999)
    result = execute_task.rewrite(tasks.make_task([path]), tasks.make_context(tmp_path, schema), "0", limits)
    assert tasks.read_rows(result) == tasks.comparable(pa.table(columns).to_pylist())


def test_the_dictionaries_of_columns_that_are_decoded_in_turn_do_not_meet(tmp_path: Path) -> None:
    columns = {f"c{n}": pa.array([f"{row % 9500:0100}" for row in range(10_000)]) for n in range(16)}
    schema = Schema(*(NestedField(n + 1, name, StringType(), required=False) for n, name in enumerate(columns)))
    path = bombs.write(tmp_path / "in.parquet", columns, arrow_schemas.file_schema(schema), data_page_size=5000)
    limits = budgets.Budgets(open_bytes=6 * MIB, batch_bytes=MIB, whole_file_bytes=1)
    reader = read_files.DataFileReader(io=PyArrowFileIO(), budgets=limits)
    facts = read_files.InputFacts(path=str(path), rows=10_000, size=path.stat().st_size)
    (footer,) = reader.footers([facts])
    del columns
    before = pa.total_allocated_bytes()
    rows = 0
    for _, _, batch in reader.batches([read_files.FilePart(footer)], frozenset()):
        rows += batch.num_rows
        assert pa.total_allocated_bytes() - before < 8 * MIB  # all dictionaries: 15 MiB
    assert rows == 10_000


def test_slices_are_put_side_by_side_whatever_their_batches() -> None:
    table = pa.table({"a": range(10), "b": range(10, 20), "c": range(20, 30)})
    slices = column_slices.cut({"a": 5, "b": 4, "c": 9}, 9)
    assert slices == [["a", "b"], ["c"]]
    batches = column_slices.batches(slices, lambda names: table.select(names).to_batches(3 if "c" in names else 4))
    assert pa.Table.from_batches(batches).equals(table)


def test_columns_with_different_numbers_of_rows_are_refused() -> None:
    lengths = {"a": 3, "b": 4}
    streams = column_slices.batches(
        [["a"], ["b"]], lambda names: pa.table({names[0]: range(lengths[names[0]])}).to_batches()
    )
    with pytest.raises(ValueError, match="number of rows"):
        list(streams)


def test_efforts_have_the_most_memory_of_all_tasks() -> None:
    both = Effort(memory_foreseen=5 * MIB, memory_peak=4 * MIB) + Effort(memory_foreseen=9 * MIB, memory_peak=3 * MIB)
    assert both.memory_sentence == "A process took up to 4.0 MiB of memory; 9.0 MiB were foreseen."
    assert Effort.model_validate_json('{"copied_groups": 1}').memory_sentence == ""
