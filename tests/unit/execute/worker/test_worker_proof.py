"""Rows that get lost, doubled or changed between the source and the writer are seen, and nothing is left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, FloatType, ListType, LongType, NestedField, StringType, StructType
from tests.factories import tasks

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import arrow_schemas, execute_task, source
from iceberg_compaction.execute.worker.input import gather_rows
from iceberg_compaction.execute.worker.output import output_file, rolling_writer
from iceberg_compaction.model.policies import ProofLevel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

INNER = StructType(NestedField(10, "y", DoubleType(), required=False))
PLACE = StructType(NestedField(6, "x", DoubleType(), required=False), NestedField(9, "inner", INNER, required=False))
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "left", LongType(), required=False),
    NestedField(3, "right", LongType(), required=False),
    NestedField(4, "name", StringType(), required=False),
    NestedField(5, "place", PLACE, required=False),
    NestedField(7, "tags", ListType(8, StringType(), element_required=False), required=False),
    NestedField(11, "ratio", FloatType(), required=False),
)

QUIET, SIGNALLING = 0x7FC00001, 0x7F800001  # of the same payload
Batches = "Iterator[pa.RecordBatch]"


def _with(batch: pa.RecordBatch, column: int, values: Any) -> pa.RecordBatch:
    array = values if isinstance(values, pa.Array) else pa.array(values, batch.schema.field(column).type)
    return batch.set_column(column, batch.schema.field(column), array)


def _edited(column: int, edit: Callable[[list[Any]], None]) -> Callable[[pa.RecordBatch], list[pa.RecordBatch]]:
    def change(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        values = batch.column(column).to_pylist()
        edit(values)
        array = pa.array(values, batch.schema.field(column).type)
        return [_with(batch, column, array)]

    return change


def _set(index: int, value: Any) -> Callable[[list[Any]], None]:
    def edit(values: list[Any]) -> None:
        assert values[index] != value
        values[index] = value

    return edit


def _swap(values: list[Any]) -> None:
    values[3], values[4] = values[4], values[3]


def _swap_columns(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    return [_with(_with(batch, 1, batch.column(2)), 2, batch.column(1))]


def _nans(*bits: int) -> pa.Array:
    return pa.array(bits, pa.uint32()).view(pa.float32())


COUNTED = {
    "dropped batch": lambda batch: [],
    "doubled batch": lambda batch: [batch, batch],
    "dropped row": lambda batch: [batch.slice(1)],
    "value nulled": _edited(1, _set(3, None)),
    "null filled": _edited(1, _set(0, 17)),
    "text nulled": _edited(3, _set(2, None)),
}
CHECKSUMMED = {
    "value changed": _edited(1, _set(3, 1_000_000)),
    "text changed": _edited(3, _set(2, "name-!")),
    "nested value changed": _edited(4, _set(5, {"x": -5.0, "inner": {"y": None}})),
    "sign of zero changed": _edited(4, lambda values: values.__setitem__(1, {"x": -0.0, "inner": {"y": None}})),
    "nested value nulled": _edited(4, _set(5, {"x": None, "inner": {"y": None}})),
    "struct of nulls nulled": _edited(4, _set(5, {"x": 4.0, "inner": None})),
    "quiet NaN made a signalling one": lambda batch: [_with(batch, 6, _nans(SIGNALLING, *[QUIET] * 19))],
    "list shortened": _edited(5, _set(6, ["t6"])),
    "list reordered": _edited(5, _set(6, ["u", "t6"])),
    "values swapped between rows": _edited(1, _swap),
    "texts swapped between rows": _edited(3, _swap),
    "columns swapped": _swap_columns,
}


def _inputs(root: Path) -> list[Path]:
    rows = [
        {
            "id": index,
            "left": index * 10 if index % 20 else None,
            "right": index * 10 + 5 if index % 20 else None,
            "name": f"name-{index}",
            "place": {"x": float(index % 20 - 1), "inner": {"y": None}},
            "tags": [f"t{index % 20}", "u"],
        }
        for index in range(100)
    ]
    table = pa.Table.from_pylist(rows, arrow_schemas.file_schema(SCHEMA))
    table = table.set_column(6, table.schema.field(6), _nans(*[QUIET] * 100))
    return [tasks.write_input(root / f"in-{n}.parquet", table.slice(n * 20, 20), SCHEMA) for n in range(5)]


def _break_third_batch(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[pa.RecordBatch], list[pa.RecordBatch]]
) -> None:
    whole = source.project_rows

    def broken(raw: Any, prepared: Any) -> Iterator[pa.RecordBatch]:
        for index, batch in enumerate(whole(raw, prepared)):
            yield from change(batch) if index == 2 else [batch]

    monkeypatch.setattr(source, "project_rows", broken)
    monkeypatch.setattr(gather_rows, "_FEW_ROWS", 0)  # a batch for each file


def _assert_caught(tmp_path: Path, level: ProofLevel) -> None:
    context = tasks.make_context(tmp_path, SCHEMA, verify=level)
    with pytest.raises(errors.ProofError, match="Proof failed"):
        execute_task.rewrite(tasks.make_task(_inputs(tmp_path)), context, "0")
    assert tasks.files_below(tmp_path) == []


@pytest.mark.parametrize("level", list(ProofLevel))
@pytest.mark.parametrize("change", COUNTED.values(), ids=COUNTED.keys())
def test_every_level_sees_lost_doubled_and_nulled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Any, level: ProofLevel
) -> None:
    _break_third_batch(monkeypatch, change)
    _assert_caught(tmp_path, level)


@pytest.mark.parametrize("change", CHECKSUMMED.values(), ids=CHECKSUMMED.keys())
def test_checksums_see_changed_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    _break_third_batch(monkeypatch, change)
    _assert_caught(tmp_path, ProofLevel.CHECKSUM)


def test_checksums_see_a_batch_swapped_for_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows and nulls are the same, so only checksums can tell."""
    whole = source.project_rows

    def broken(raw: Any, prepared: Any) -> Iterator[pa.RecordBatch]:
        batches = list(whole(raw, prepared))
        yield from [*batches[:3], batches[2], *batches[4:]]

    monkeypatch.setattr(source, "project_rows", broken)
    monkeypatch.setattr(gather_rows, "_FEW_ROWS", 0)  # a batch for each file
    _assert_caught(tmp_path, ProofLevel.CHECKSUM)


def test_the_meter_also_sees_what_happens_inside_the_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rolling_writer.RollingWriter._take
    monkeypatch.setattr(
        rolling_writer.RollingWriter, "_take", lambda self, rows: [b.slice(0, 5) for b in whole(self, rows)]
    )
    _assert_caught(tmp_path, ProofLevel.CHECKSUM)


def _damage_after_writing(monkeypatch: pytest.MonkeyPatch, damage: Callable[[str], None]) -> None:
    whole = output_file.MixedFile.finish

    def finish(self: Any, partition: str) -> output_file.WrittenFile:
        file = whole(self, partition)
        damage(file.path)
        return file

    monkeypatch.setattr(output_file.MixedFile, "finish", finish)


def test_footers_on_storage_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def shorten(path: str) -> None:
        table = pq.read_table(path)
        pq.write_table(table.slice(1), path)

    _damage_after_writing(monkeypatch, shorten)
    context = tasks.make_context(tmp_path, SCHEMA)
    with pytest.raises(errors.ProofError, match="storage holds"):
        execute_task.rewrite(tasks.make_task(_inputs(tmp_path)), context, "0")
    assert tasks.files_below(tmp_path) == []


def test_deep_sees_what_storage_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of the same length, rows and nulls, with one value changed."""
    properties = {"write.parquet.compression-codec": "uncompressed"}

    def alter(path: str) -> None:
        with open(path, "r+b") as file:
            data = file.read()
            file.seek(data.index(b"name-42"))
            file.write(b"name-!!")

    _damage_after_writing(monkeypatch, alter)
    inputs = tasks.make_task(_inputs(tmp_path))
    for level, error in [(ProofLevel.CHECKSUM, None), (ProofLevel.DEEP, errors.ExecuteError)]:
        context = tasks.make_context(tmp_path, SCHEMA, verify=level, properties=properties)
        if error is None:
            execute_task.rewrite(inputs, context, level.value)
            continue
        before = tasks.files_below(tmp_path)
        with pytest.raises(error):
            execute_task.rewrite(inputs, context, level.value)
        assert tasks.files_below(tmp_path) == before


def test_the_proof_of_a_good_rewrite(tmp_path: Path) -> None:
    task = tasks.make_task(_inputs(tmp_path))
    sides = {}
    for level in ProofLevel:
        result = execute_task.rewrite(task, tasks.make_context(tmp_path, SCHEMA, verify=level), level.value)
        sides[level] = result.proof
        assert result.proof.failures == ()
        assert result.proof.footers.rows == result.proof.expected_rows == 100
        assert result.proof.footers.nulls == {1: 0, 2: 5, 3: 5, 4: 0, 11: 0}
        assert result.proof.source.nulls == {1: 0, 2: 5, 3: 5, 4: 0, 5: 0, 7: 0, 11: 0}
    assert sides[ProofLevel.COUNTS].checksum == ""
    assert sides[ProofLevel.CHECKSUM].checksum == sides[ProofLevel.DEEP].checksum != ""
    assert sides[ProofLevel.DEEP].stored == sides[ProofLevel.DEEP].source
