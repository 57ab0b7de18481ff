"""Output in another partition spec than the inputs': tuples recomputed from rows, one per file, memory and open files
bounded (R31, R32)."""

from __future__ import annotations

import datetime as dt
import uuid
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg import types as iceberg
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
    YearTransform,
)
from tests.factories import tasks
from tests.factories.examples import examples

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import arrow_schemas, budgets, execute_task
from iceberg_compaction.execute.worker.arrange import transforms
from iceberg_compaction.execute.worker.output import rolling_writer, sink
from iceberg_compaction.metadata import partition_tuples
from iceberg_compaction.model.policies import ProofLevel

if TYPE_CHECKING:
    from iceberg_compaction.model.rewrite_task import RewriteContext, TaskResult

SECONDS = 1_000_000
SOURCES: list[tuple[iceberg.PrimitiveType, st.SearchStrategy[Any]]] = [
    (iceberg.BooleanType(), st.booleans()),
    (iceberg.IntegerType(), st.integers(-(2**31) + 1000, 2**31 - 1)),
    (iceberg.LongType(), st.integers(-(2**63) + 1000, 2**63 - 1)),
    (iceberg.FloatType(), st.floats(width=32)),
    (iceberg.DoubleType(), st.floats()),
    (iceberg.DateType(), st.integers(-719_162, 2_932_896)),
    (iceberg.TimeType(), st.integers(0, 86_400 * SECONDS - 1)),
    (iceberg.TimestampType(), st.integers(-62_135_596_800 * SECONDS, 253_402_300_800 * SECONDS - 1)),
    (iceberg.TimestamptzType(), st.integers(-62_135_596_800 * SECONDS, 253_402_300_800 * SECONDS - 1)),
    (iceberg.DecimalType(9, 2), st.decimals(-9_999_999, 9_999_999, places=2)),
    (iceberg.DecimalType(38, 10), st.decimals(-(10**27), 10**27, places=10)),
    (iceberg.StringType(), st.text()),
    (iceberg.BinaryType(), st.binary()),
    (iceberg.FixedType(3), st.binary(min_size=3, max_size=3)),
    (iceberg.UUIDType(), st.uuids().map(lambda value: value.bytes)),
]
TRANSFORMS: list[Transform[Any, Any]] = [
    IdentityTransform(),
    VoidTransform(),
    BucketTransform(1),
    BucketTransform(16),
    BucketTransform(1009),
    TruncateTransform(1),
    TruncateTransform(7),
    TruncateTransform(100),
    YearTransform(),
    MonthTransform(),
    DayTransform(),
    HourTransform(),
]


def _arrow(values: list[Any], kind: iceberg.IcebergType) -> pa.Array:
    """From PyIceberg's internal values: times are numbers."""
    wanted = arrow_schemas.plain(arrow_schemas.arrow_type(kind))
    if pa.types.is_temporal(wanted):
        return pa.array(values, pa.int32() if wanted.bit_width == 32 else pa.int64()).view(wanted)
    return pa.array(values, wanted)


def _bits(values: list[Any]) -> list[Any]:
    return [np.float64(value).tobytes() if isinstance(value, float) else value for value in values]


@pytest.mark.parametrize(("kind", "value"), SOURCES, ids=[str(kind) for kind, _ in SOURCES])
@examples(20)
@given(data=st.data())
def test_r31_transforms_are_those_of_pyiceberg(
    kind: iceberg.PrimitiveType, value: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    """Column at a time gives what PyIceberg gives value by value, before 1970 and for nulls too."""
    values = data.draw(st.lists(st.none() | value, max_size=8))
    array = _arrow(values, kind)
    for transform in TRANSFORMS:
        if not transform.can_transform(kind):
            continue
        scalar = transform.transform(kind)
        found = transforms.apply(transform, kind, array)
        if pa.types.is_temporal(found.type):
            found = found.view(pa.int32() if found.type.bit_width == 32 else pa.int64())
        assert _bits(found.to_pylist()) == _bits([scalar(one) for one in values]), transform
        if pa.types.is_string(array.type):
            assert transforms.apply(transform, kind, array.dictionary_encode()).equals(found)


def test_truncating_the_least_number_wraps_around_as_java_does() -> None:
    found = transforms.apply(TruncateTransform(10), iceberg.IntegerType(), pa.array([-(2**31), None], pa.int32()))
    assert found.to_pylist() == [2147483646, None]


def test_truncating_a_decimal_may_add_a_digit() -> None:
    array = pa.array([Decimal("-9999999.99")], pa.decimal128(9, 2))
    found = transforms.apply(TruncateTransform(10), iceberg.DecimalType(9, 2), array)
    assert found.to_pylist() == [Decimal("-10000000.00")]


SCHEMA = Schema(
    iceberg.NestedField(1, "id", iceberg.LongType(), required=False),
    iceberg.NestedField(2, "word", iceberg.StringType(), required=False),
    iceberg.NestedField(3, "at", iceberg.TimestampType(), required=False),
    iceberg.NestedField(
        4,
        "s",
        iceberg.StructType(
            iceberg.NestedField(5, "code", iceberg.IntegerType(), required=False),
            iceberg.NestedField(6, "x", iceberg.DoubleType(), required=False),
        ),
        required=False,
    ),
    iceberg.NestedField(7, "key", iceberg.UUIDType(), required=False),
    iceberg.NestedField(8, "gone", iceberg.DecimalType(20, 3), required=False),
)


def _spec(*fields: tuple[int, Transform[Any, Any]]) -> PartitionSpec:
    return PartitionSpec(
        *(
            PartitionField(source_id=source, field_id=1000 + place, transform=transform, name=f"p{place}")
            for place, (source, transform) in enumerate(fields)
        ),
        spec_id=3,
    )


def _rows(count: int, seed: int = 0) -> list[dict[str, Any]]:
    dice = np.random.default_rng(seed)
    return [
        {
            "id": seed * count + at,
            "word": None if at % 11 == 0 else f"w{dice.integers(0, 6)}",
            "at": dt.datetime(1969, 12, 30) + dt.timedelta(hours=int(dice.integers(0, 120))),
            "s": None if at % 7 == 0 else {"code": int(dice.integers(-3, 3)), "x": float(dice.integers(0, 2)) * -0.0},
            "key": uuid.UUID(int=int(dice.integers(0, 5))).bytes,
            "gone": Decimal(int(dice.integers(-5, 5))).scaleb(-3),
        }
        for at in range(count)
    ]


def _context(root: Path, spec: PartitionSpec, **options: Any) -> RewriteContext:
    context = tasks.make_context(root, SCHEMA, **options)
    return context.model_copy(
        update={
            "output_spec_id": spec.spec_id,
            "partition_specs": {0: UNPARTITIONED_PARTITION_SPEC.model_dump_json(), 3: spec.model_dump_json()},
        }
    )


def _run(root: Path, spec: PartitionSpec, files: int = 3, rows: int = 400, **options: Any) -> TaskResult:
    paths = [tasks.write_input(root / f"in-{seed}.parquet", _rows(rows, seed), SCHEMA) for seed in range(files)]
    limits = options.pop("limits", budgets.DEFAULT)
    return execute_task.rewrite(tasks.make_task(paths), _context(root, spec, **options), "0", limits)


def _check(result: TaskResult, spec: PartitionSpec, expected: list[dict[str, Any]]) -> None:
    """Every file holds rows of its own tuple only, in the order of the inputs, and nothing is missing."""
    found = []
    for file in result.staged:
        assert file.spec_id == spec.spec_id
        rows = pq.read_table(file.file_path).to_pylist()
        ids = [row["id"] for row in rows]
        assert ids == sorted(ids)
        assert {_tuple(row, spec) for row in rows} == {file.partition}
        assert file.record_count == len(rows)
        found += rows
    assert Counter(tasks.comparable(found)) == Counter(tasks.comparable(expected))
    assert len({file.file_path for file in result.staged}) == len(result.staged)


def _tuple(row: dict[str, Any], spec: PartitionSpec) -> str:
    """One row's tuple by PyIceberg's scalar functions."""
    values = {1: row["id"], 2: row["word"], 3: row["at"], 5: (row["s"] or {}).get("code"), 6: (row["s"] or {}).get("x")}
    values |= {7: row["key"] if isinstance(row["key"], uuid.UUID) else uuid.UUID(bytes=row["key"]), 8: row["gone"]}
    found = []
    for field in spec.fields:
        value = values[field.source_id]
        if isinstance(value, dt.datetime):
            value = round((value - dt.datetime(1970, 1, 1)) / dt.timedelta(microseconds=1))
        found.append(field.transform.transform(SCHEMA.find_type(field.source_id))(value))
    return partition_tuples.encode_one(found, spec, SCHEMA)


@pytest.mark.parametrize(
    "spec",
    [
        _spec((3, DayTransform())),
        _spec((2, IdentityTransform()), (1, BucketTransform(4))),
        _spec((5, TruncateTransform(2)), (6, IdentityTransform())),
        _spec((7, BucketTransform(8)), (8, TruncateTransform(3)), (2, VoidTransform())),
        _spec((3, HourTransform()), (2, TruncateTransform(1))),
        _spec((7, IdentityTransform())),
        _spec(),
    ],
    ids=["day", "identity and bucket", "nested", "three", "many", "uuid", "unpartitioned"],
)
def test_r31_rows_go_to_the_partition_of_their_values(tmp_path: Path, spec: PartitionSpec) -> None:
    result = _run(tmp_path, spec, limits=budgets.Budgets(open_partitions=3), verify=ProofLevel.DEEP)
    _check(result, spec, [row for seed in range(3) for row in _rows(400, seed)])
    assert result.proof.stored is not None


def test_r32_identity_columns_that_only_the_old_tuple_knows_are_written_and_partitioned_by(tmp_path: Path) -> None:
    """R27: a file of the old spec may lack its partition column; its value comes from the manifest."""
    old = PartitionSpec(
        PartitionField(source_id=2, field_id=999, transform=IdentityTransform(), name="word"), spec_id=1
    )
    columns = [field for field in arrow_schemas.file_schema(SCHEMA) if field.name != "word"]
    rows = [{name: value for name, value in row.items() if name != "word"} for row in _rows(50)]
    plain = pa.schema([field.with_type(arrow_schemas.plain(field.type)) for field in columns])
    path = tasks.write_input(tmp_path / "in.parquet", pa.Table.from_pylist(rows, schema=plain), SCHEMA)
    new = _spec((2, TruncateTransform(1)))
    context = _context(tmp_path, new)
    context = context.model_copy(update={"partition_specs": {1: old.model_dump_json(), 3: new.model_dump_json()}})
    task = tasks.make_task([path], spec_id=1, partition='{"word":"kept"}')
    result = execute_task.rewrite(task, context, "0")
    assert [file.partition for file in result.staged] == ['{"p0":"k"}']
    assert set(pq.read_table(result.staged[0].file_path)["word"].to_pylist()) == {"kept"}


def test_r32_the_inputs_spec_is_kept_where_nothing_else_is_asked_for(tmp_path: Path) -> None:
    spec = PartitionSpec(PartitionField(source_id=2, field_id=999, transform=IdentityTransform(), name="w"), spec_id=3)
    path = tasks.write_input(tmp_path / "in.parquet", _rows(20), SCHEMA)
    for wanted in (None, 3):
        context = _context(tmp_path, spec).model_copy(update={"output_spec_id": wanted})
        task = tasks.make_task([path], spec_id=3, partition='{"w":"as the manifest says"}')
        result = execute_task.rewrite(task, context, f"to {wanted}")
        assert [(file.spec_id, file.partition) for file in result.staged] == [(3, '{"w":"as the manifest says"}')]


@pytest.mark.parametrize(
    ("source", "transform", "said"),
    [
        (1, UnknownTransform("zorder"), "not known"),
        (6, BucketTransform(4), "no meaning"),
        (99, IdentityTransform(), "field 99"),
        (4, IdentityTransform(), "field 4"),
    ],
)
def test_r31_what_cannot_be_computed_is_refused_before_anything_is_written(
    tmp_path: Path, source: int, transform: Transform[Any, Any], said: str
) -> None:
    with pytest.raises(errors.UnsupportedError, match=said):
        _run(tmp_path, _spec((source, transform)))
    assert tasks.files_below(tmp_path) == []


def test_thousands_of_partitions_keep_few_files_open_and_little_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = budgets.Budgets(
        run_bytes=60_000, block_bytes=4_000, merge_bytes=20_000, open_partition_bytes=50_000, chunk_rows=300
    )
    opened = most = 0
    begin, end = rolling_writer.RollingWriter._open_file, rolling_writer.RollingWriter._finish_file

    def opening(self: rolling_writer.RollingWriter, *first: Any) -> Any:
        nonlocal opened, most
        opened += 1
        most = max(most, opened)
        return begin(self, *first)

    def finishing(self: rolling_writer.RollingWriter) -> None:
        nonlocal opened
        opened -= 1
        end(self)

    monkeypatch.setattr(rolling_writer.RollingWriter, "_open_file", opening)
    monkeypatch.setattr(rolling_writer.RollingWriter, "_finish_file", finishing)
    held = []
    write = sink.Sink.write

    def writing(self: sink.Sink, rows: Any) -> None:
        write(self, rows)
        held.append(self.buffered_bytes)

    monkeypatch.setattr(sink.Sink, "write", writing)
    spec = _spec((1, TruncateTransform(3)))
    result = _run(tmp_path, spec, files=4, rows=500, limits=limits)
    assert len(result.staged) == 667
    assert most <= limits.open_partitions
    assert max(held) <= 50_000
    _check(result, spec, [row for seed in range(4) for row in _rows(500, seed)])


def test_names_differ_even_where_paths_do_not_name_the_partition(tmp_path: Path) -> None:
    properties = {"write.object-storage.enabled": "true", "write.object-storage.partitioned-paths": "false"}
    spec = _spec((2, IdentityTransform()))
    result = _run(tmp_path, spec, properties=properties)
    names = {Path(file.file_path).name for file in result.staged}
    assert len(names) == len(result.staged) == 7
    again = _run(tmp_path / "again", spec)
    assert all("/p0=w" in file.file_path or "/p0=null" in file.file_path for file in again.staged)


def test_a_failure_halfway_removes_the_files_of_all_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rolling_writer.RollingWriter.close
    closed = 0

    def failing(self: rolling_writer.RollingWriter) -> Any:
        nonlocal closed
        closed += 1
        if closed == 5:
            raise OSError("disk full")
        return whole(self)

    monkeypatch.setattr(rolling_writer.RollingWriter, "close", failing)
    with pytest.raises(errors.ExecuteError, match="disk full"):
        _run(
            tmp_path,
            _spec((2, IdentityTransform())),
            limits=budgets.Budgets(open_partitions=2, chunk_rows=100, open_partition_bytes=1000),
        )
    assert tasks.files_below(tmp_path) == []
