"""Source and sink of a task in processes of their own: only plain values and an Arrow stream lie between them, and a
third process proves the whole from their measurements."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, UUIDType
from tests.factories import delete_files, tasks

from iceberg_compaction.execute.worker.proof import measurements
from iceberg_compaction.model import policies, proof, rewrite_task

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "word", StringType(), required=False),
    NestedField(3, "ratio", DoubleType(), required=False),
    NestedField(4, "key", UUIDType(), required=False),
)
BY_WORD = PartitionSpec(
    PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="word"), spec_id=1
)
BY_RATIO = SortOrder(SortField(source_id=3, transform=IdentityTransform()), order_id=3)

_READ = """
import sys
import pyarrow as pa
from iceberg_compaction.execute.worker import budgets, source
from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask
folder = sys.argv[1]
task = RewriteTask.model_validate_json(open(f"{folder}/task.json").read())
context = RewriteContext.model_validate_json(open(f"{folder}/context.json").read())
rows = source.open_source(task, context, budgets.Budgets(batch_rows=50))
open(f"{folder}/inputs.json", "w").write(rows.prepared.output.inputs.model_dump_json())
with pa.OSFile(f"{folder}/rows", "wb") as file, pa.ipc.new_stream(file, rows.prepared.output.columns) as stream:
    for batch in rows.batches():
        stream.write_batch(batch)
open(f"{folder}/source.json", "w").write(rows.measurements.model_dump_json())
"""

_WRITE = """
import sys
import pyarrow as pa
from iceberg_compaction.execute.worker import budgets
from iceberg_compaction.execute.worker.arrange import arrange_rows
from iceberg_compaction.execute.worker.output import output_plan, sink
from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask, TaskResult
from iceberg_compaction.storage import file_io
folder, *names = sys.argv[1:]
task = RewriteTask.model_validate_json(open(f"{folder}/task.json").read())
context = RewriteContext.model_validate_json(open(f"{folder}/context.json").read())
inputs = output_plan.InputSummary.model_validate_json(open(f"{folder}/inputs.json").read())
plan = output_plan.plan_output(task, context, inputs)
io, limits = file_io.open_io(context.io_properties, context.table_location), budgets.DEFAULT
for name in names:
    request = sink.SinkRequest(task=task, context=context, attempt=name, plan=plan, budgets=limits)
    output = sink.open_sink(io, request)
    with pa.OSFile(f"{folder}/{name}") as file, pa.ipc.open_stream(file) as stream:
        for rows in arrange_rows.arrange(stream, plan.arrangement(limits)):
            output.write(rows)
    output.close()
    open(f"{folder}/{name}.sink.json", "w").write(output.take_measurements().model_dump_json())
    open(f"{folder}/{name}.staged", "w").write("\\n".join(file.model_dump_json() for file in output.stage()))
"""


def _spawn(code: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, env=dict(os.environ))


def _rows(first: int, count: int) -> list[dict[str, Any]]:
    return [
        {
            "id": first + at,
            "word": ["red", "green", None][at % 3],
            "ratio": (at * 7919 % 101) / 7 if at % 11 else None,
            "key": at.to_bytes(16, "big"),
        }
        for at in range(count)
    ]


def _read(folder: Path, context: rewrite_task.RewriteContext) -> measurements.SourceMeasurements:
    """Reads four files, of which deletes of both kinds take rows, in a process of its own."""
    folder.mkdir()
    paths = [tasks.write_input(folder / f"in-{n}.parquet", _rows(100 * n, 100), SCHEMA) for n in range(4)]
    deletes = (
        delete_files.position_delete(folder / "p", [(paths[1], 7), (paths[1], 8)], sequence_number=2),
        delete_files.equality_delete(folder / "e", [{"id": 205}], Schema(SCHEMA.fields[0]), [1], sequence_number=2),
    )
    update = {"sequence_numbers": (1,) * len(paths), "deletes": deletes}
    (folder / "task.json").write_text(tasks.make_task(paths).model_copy(update=update).model_dump_json())
    (folder / "context.json").write_text(context.model_dump_json())
    _spawn(_READ, str(folder))
    return measurements.SourceMeasurements.model_validate_json((folder / "source.json").read_text())


def _write(folder: Path, *names: str) -> dict[str, measurements.SinkMeasurements]:
    """Writes streams of batches, each to a sink of its own, in another process."""
    _spawn(_WRITE, str(folder), *names)
    texts = {name: (folder / f"{name}.sink.json").read_text() for name in names}
    return {name: measurements.SinkMeasurements.model_validate_json(text) for name, text in texts.items()}


def _staged(folder: Path, name: str) -> list[rewrite_task.StagedFile]:
    lines = (folder / f"{name}.staged").read_text().splitlines()
    return [rewrite_task.StagedFile.model_validate_json(line) for line in lines]


def _edit(folder: Path, name: str, change: Callable[[list[pa.RecordBatch]], list[pa.RecordBatch]]) -> None:
    """Another stream with changed batches."""
    with pa.OSFile(str(folder / "rows")) as file, pa.ipc.open_stream(file) as stream:
        schema, batches = stream.schema, list(stream)
    with pa.OSFile(str(folder / name), "wb") as file, pa.ipc.new_stream(file, schema) as writer:
        for batch in change(batches):
            writer.write_batch(batch)


def _context(root: Path, level: policies.ProofLevel, **update: Any) -> rewrite_task.RewriteContext:
    return tasks.make_context(root, SCHEMA, verify=level).model_copy(update=update)


def _left() -> list[int]:
    return [number for number in range(400) if number not in (107, 108, 205)]


@dataclass(frozen=True, kw_only=True)
class Cut:
    """A task whose rows went through a stream, once as they were and several times changed."""

    folder: Path
    source: measurements.SourceMeasurements
    sinks: dict[str, measurements.SinkMeasurements]  # by the name of the stream

    def prove(self, *names: str) -> proof.Proof:
        """The proof of a third party, which has nothing but the measurements."""
        sink = sum((self.sinks[name] for name in names), measurements.SinkMeasurements())
        return measurements.combine(policies.ProofLevel.CHECKSUM, self.source, sink)


CHANGES: dict[str, Callable[[list[pa.RecordBatch]], list[pa.RecordBatch]]] = {
    "dropped": lambda batches: batches[1:],
    "duplicated": lambda batches: [*batches, batches[2]],
    "swapped": lambda batches: [*batches[:4], batches[5], *batches[5:]],
    "odd": lambda batches: batches[::-2],
    "even": lambda batches: batches[-2::-2],
}


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Cut:
    root = tmp_path_factory.mktemp("seam")
    source = _read(root / "task", _context(root, policies.ProofLevel.CHECKSUM))
    for name, change in CHANGES.items():
        _edit(root / "task", name, change)
    return Cut(folder=root / "task", source=source, sinks=_write(root / "task", "rows", *CHANGES))


def _ids(folder: Path, *names: str) -> list[int]:
    files = [file for name in names for file in _staged(folder, name)]
    return [number for file in files for number in pq.read_table(file.file_path)["id"].to_pylist()]


def test_a_third_party_proves_a_task_whose_source_and_sink_ran_in_other_processes(cut: Cut) -> None:
    whole = cut.prove("rows")
    assert whole.failures == ()
    assert (whole.expected_rows, whole.deleted_rows, whole.sink.rows, whole.footers.rows) == (400, 3, 397, 397)
    assert _ids(cut.folder, "rows") == _left()


@pytest.mark.parametrize("change", ["dropped", "duplicated", "swapped"])
def test_a_batch_that_is_lost_or_doubled_on_the_way_is_seen(cut: Cut, change: str) -> None:
    assert any("checksum differs" in failure for failure in cut.prove(change).failures)


def test_measurements_of_several_sinks_add_up(cut: Cut) -> None:
    """As after a shuffle: each sink has a part of the rows, in any order."""
    assert cut.prove("odd", "even").failures == ()
    assert sorted(_ids(cut.folder, "odd", "even")) == _left()
    assert cut.prove("odd", "odd").failures != ()
    assert cut.prove("odd").failures != ()


def test_rows_are_parted_and_sorted_in_the_process_of_the_sink(tmp_path: Path) -> None:
    specs = {0: UNPARTITIONED_PARTITION_SPEC.model_dump_json(), 1: BY_WORD.model_dump_json()}
    update = {"partition_specs": specs, "output_spec_id": 1, "sort_order": BY_RATIO.model_dump_json()}
    source = _read(tmp_path / "task", _context(tmp_path, policies.ProofLevel.DEEP, **update))
    sink = _write(tmp_path / "task", "rows")["rows"]
    assert measurements.combine(policies.ProofLevel.DEEP, source, sink).failures == ()
    staged = _staged(tmp_path / "task", "rows")
    assert {file.partition for file in staged} == {'{"word":"red"}', '{"word":"green"}', '{"word":null}'}
    for file in staged:
        ratios = pq.read_table(file.file_path)["ratio"].drop_null().to_pylist()
        assert ratios == sorted(ratios)
    assert sorted(_ids(tmp_path / "task", "rows")) == _left()


def test_nulls_count_only_where_all_sinks_have_counted_them() -> None:
    """A footer may lack the nulls of a column, and then the sum says nothing about them."""
    counted = measurements.SinkMeasurements(files=1, footers=proof.Side(rows=5, nulls={1: 0, 2: 3}))
    silent = measurements.SinkMeasurements(files=1, footers=proof.Side(rows=5, nulls={1: 1}))
    assert (counted + silent).footers == proof.Side(rows=10, nulls={1: 1})
    assert (counted + measurements.SinkMeasurements()).footers == counted.footers
