"""Columns that a file lacks (R27, R28): the partition's value, else the initial default, else null; at every level.
Every rewrite here is proved to the last value, and the proof knows the rules on its own."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform, VoidTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from tests.factories import tasks

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import execute_task
from iceberg_compaction.metadata import partition_tuples
from iceberg_compaction.model.policies import ProofLevel

if TYPE_CHECKING:
    from pathlib import Path

    from iceberg_compaction.model.rewrite_task import TaskResult

_WHEN = dt.datetime(1969, 12, 31, 23, 59, 59, 999999)
_UUID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
# Type, value as Python has it, value in PyIceberg's internal form
VALUES: list[tuple[IcebergType, Any, Any]] = [
    (BooleanType(), True, True),
    (IntegerType(), -5, -5),
    (LongType(), 2**40, 2**40),
    (FloatType(), 0.5, 0.5),
    (DoubleType(), -0.25, -0.25),
    (DateType(), dt.date(1969, 12, 31), -1),
    (TimeType(), dt.time(1, 2, 3, 4), 3723000004),
    (TimestampType(), _WHEN, -1),
    (TimestamptzType(), _WHEN.replace(tzinfo=dt.timezone.utc), -1),
    (StringType(), "gr\u00fc\u00df", "gr\u00fc\u00df"),
    (BinaryType(), b"\x00\xff", b"\x00\xff"),
    (FixedType(3), b"a\x00b", b"a\x00b"),
    (UUIDType(), _UUID, _UUID),
    (DecimalType(9, 2), Decimal("-1.50"), Decimal("-1.50")),
    (
        DecimalType(38, 4),
        Decimal("-123456789012345678901234567890.1234"),
        Decimal("-123456789012345678901234567890.1234"),
    ),
]


def _optional(field_id: int, name: str, kind: Any, default: Any = None) -> NestedField:
    return NestedField(field_id, name, kind, required=False, initial_default=default)


def _run(root: Path, table: Schema, path: Path, spec: PartitionSpec | None = None, partition: Any = ()) -> TaskResult:
    options: dict[str, Any] = {} if spec is None else {"spec": spec}
    text = "{}" if spec is None else partition_tuples.encode_one(partition, spec, table)
    context = tasks.make_context(root, table, verify=ProofLevel.DEEP, **options)
    task = tasks.make_task([path], spec_id=0 if spec is None else spec.spec_id, partition=text)
    return execute_task.rewrite(task, context, uuid.uuid4().hex)


def _output(result: TaskResult) -> list[dict[str, Any]]:
    return [row for file in result.staged for row in pq.read_table(file.file_path).to_pylist()]


@pytest.fixture
def ids_only(tmp_path: Path) -> Path:
    return tasks.write_input(tmp_path / "in.parquet", [{"id": 1}, {"id": 2}], Schema(_optional(1, "id", LongType())))


def test_r28_an_initial_default_fills_rows_from_before_its_column(tmp_path: Path, ids_only: Path) -> None:
    fields = [_optional(10 + at, f"c{at}", kind, value) for at, (kind, value, _) in enumerate(VALUES)]
    result = _run(tmp_path, Schema(_optional(1, "id", LongType()), *fields), ids_only)
    expected = {f"c{at}": value for at, (_, value, _) in enumerate(VALUES)}
    assert _output(result) == [{"id": 1, **expected}, {"id": 2, **expected}]
    assert result.staged[0].null_value_counts[10] == 0


def test_r28_a_default_is_no_value_of_rows_that_have_the_column(tmp_path: Path) -> None:
    table = Schema(_optional(1, "id", LongType()), _optional(2, "x", StringType(), "then"))
    path = tasks.write_input(tmp_path / "in.parquet", [{"id": 1, "x": None}, {"id": 2, "x": "now"}], table)
    assert [row["x"] for row in _output(_run(tmp_path, table, path))] == [None, "now"]


def test_r28_a_required_column_may_be_missing_if_it_has_a_default(tmp_path: Path, ids_only: Path) -> None:
    required = NestedField(2, "x", IntegerType(), required=True, initial_default=7)
    result = _run(tmp_path, Schema(_optional(1, "id", LongType()), required), ids_only)
    assert [row["x"] for row in _output(result)] == [7, 7]
    bare = NestedField(2, "x", IntegerType(), required=True, write_default=7)  # of rows to come, not of old ones
    with pytest.raises(errors.UnsupportedError, match="required but missing"):
        _run(tmp_path, Schema(_optional(1, "id", LongType()), bare), ids_only)


def test_r28_defaults_below_structs_lists_and_maps_follow_their_parents(tmp_path: Path) -> None:
    def table(*more: NestedField) -> Schema:
        inner = StructType(_optional(20, "a", LongType()), *more)
        return Schema(_optional(1, "s", StructType(_optional(2, "t", inner))))

    def deep(*more: NestedField) -> Schema:
        value = ListType(12, StructType(_optional(13, "a", LongType()), *more), element_required=False)
        return Schema(_optional(10, "m", MapType(11, StringType(), 14, value, value_required=False)))

    rows = [{"s": {"t": {"a": 1}}}, {"s": {"t": None}}, {"s": None}]
    path = tasks.write_input(tmp_path / "in.parquet", rows, table())
    result = _run(tmp_path, table(_optional(21, "b", StringType(), "new")), path)
    assert [row["s"] for row in _output(result)] == [{"t": {"a": 1, "b": "new"}}, {"t": None}, None]
    assert result.staged[0].null_value_counts[21] == 2
    rows = [{"m": [("k", [{"a": 1}, None]), ("n", None), ("e", [])]}, {"m": None}, {"m": []}]
    path = tasks.write_input(tmp_path / "deep.parquet", rows, deep())
    result = _run(tmp_path, deep(_optional(15, "b", DateType(), dt.date(2020, 1, 1))), path)
    new = {"a": 1, "b": dt.date(2020, 1, 1)}
    assert [row["m"] for row in _output(result)] == [[("k", [new, None]), ("n", None), ("e", [])], None, []]


def test_r28_a_struct_that_was_added_whole_is_null_whatever_its_fields_say(tmp_path: Path, ids_only: Path) -> None:
    struct = StructType(_optional(3, "x", LongType(), 5))
    result = _run(tmp_path, Schema(_optional(1, "id", LongType()), _optional(2, "s", struct)), ids_only)
    assert [row["s"] for row in _output(result)] == [None, None]


@pytest.mark.parametrize(("kind", "value", "internal"), VALUES, ids=[str(kind) for kind, _, _ in VALUES])
def test_r27_identity_partition_values_of_every_type(
    tmp_path: Path, ids_only: Path, kind: IcebergType, value: Any, internal: Any
) -> None:
    table = Schema(_optional(1, "id", LongType()), _optional(2, "p", kind))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "p"), spec_id=3)
    result = _run(tmp_path, table, ids_only, spec, [internal])
    assert [row["p"] for row in _output(result)] == [value, value]
    assert result.proof.source.nulls == {1: 0, 2: 0}
    assert result.staged[0].lower_bounds[2] == result.staged[0].upper_bounds[2]


def test_r27_the_partition_goes_before_the_default_and_its_null_too(tmp_path: Path, ids_only: Path) -> None:
    table = Schema(_optional(1, "id", LongType()), _optional(2, "p", StringType(), "default"))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "p"), spec_id=3)
    assert [row["p"] for row in _output(_run(tmp_path, table, ids_only, spec, ["eu"]))] == ["eu", "eu"]
    assert [row["p"] for row in _output(_run(tmp_path, table, ids_only, spec, [None]))] == [None, None]


def test_r27_other_transforms_say_nothing_about_values(tmp_path: Path, ids_only: Path) -> None:
    table = Schema(
        _optional(1, "id", LongType()), _optional(2, "p", StringType(), "default"), _optional(3, "q", LongType())
    )
    spec = PartitionSpec(
        PartitionField(2, 1000, BucketTransform(4), "p_bucket"),
        PartitionField(3, 1001, VoidTransform(), "q_void"),
        spec_id=3,
    )
    result = _run(tmp_path, table, ids_only, spec, [2, None])
    assert [(row["p"], row["q"]) for row in _output(result)] == [("default", None)] * 2


def test_r27_identity_of_a_field_inside_a_struct(tmp_path: Path) -> None:
    old = Schema(_optional(1, "s", StructType(_optional(2, "a", LongType()))))
    new = Schema(_optional(1, "s", StructType(_optional(2, "a", LongType()), _optional(3, "p", StringType()))))
    spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "p"), spec_id=3)
    path = tasks.write_input(tmp_path / "in.parquet", [{"s": {"a": 1}}, {"s": {"a": None}}], old)
    result = _run(tmp_path, new, path, spec, ["eu"])
    assert _output(result) == [{"s": {"a": 1, "p": "eu"}}, {"s": {"a": None, "p": "eu"}}]
    other = Schema(*new.fields, _optional(9, "id", LongType()))
    lacks = tasks.write_input(tmp_path / "lacks.parquet", [{"id": 1}], Schema(_optional(9, "id", LongType())))
    with pytest.raises(errors.UnsupportedError, match=r"s is missing .* fields \[3\]"):
        _run(tmp_path, other, lacks, spec, ["eu"])


MAPPED = Schema(
    _optional(1, "id", LongType()),
    _optional(2, "s", StructType(_optional(3, "x", StringType()), _optional(4, "y", DoubleType()))),
    _optional(5, "l", ListType(6, StructType(_optional(7, "v", LongType())), element_required=False)),
    _optional(8, "m", MapType(9, StringType(), 10, StructType(_optional(11, "w", DateType())), value_required=False)),
    _optional(12, "later", IntegerType(), 3),
)
MAPPING = [
    {"field-id": 1, "names": ["id", "ID", "Id"]},
    {
        "field-id": 2,
        "names": ["s"],
        "fields": [{"field-id": 3, "names": ["x", "ex"]}, {"field-id": 4, "names": ["y"]}],
    },
    {
        "field-id": 5,
        "names": ["l"],
        "fields": [{"field-id": 6, "names": ["element"], "fields": [{"field-id": 7, "names": ["v", "vee"]}]}],
    },
    {
        "field-id": 8,
        "names": ["m"],
        "fields": [
            {"field-id": 9, "names": ["key"]},
            {"field-id": 10, "names": ["value"], "fields": [{"field-id": 11, "names": ["w"]}]},
        ],
    },
]


def test_r27_r30_name_mapping_at_every_level_with_several_names_and_metrics(tmp_path: Path) -> None:
    day = dt.date(2024, 2, 29)
    kinds = pa.schema(
        [
            ("Id", pa.int32()),
            ("s", pa.struct([("unmapped", pa.int8()), ("ex", pa.string()), ("y", pa.float32())])),
            ("l", pa.list_(pa.field("item", pa.struct([("vee", pa.int32())])))),
            ("m", pa.map_(pa.string(), pa.struct([("w", pa.date32())]))),
            ("unmapped", pa.string()),
        ]
    )
    row = {"Id": 1, "s": {"unmapped": 1, "ex": "a", "y": 0.5}, "l": [{"vee": 4}, None], "m": [("k", {"w": day})]}
    pq.write_table(pa.Table.from_pylist([{**row, "unmapped": "u"}], schema=kinds), tmp_path / "in.parquet")
    properties = {"schema.name-mapping.default": json.dumps(MAPPING)}
    context = tasks.make_context(tmp_path, MAPPED, verify=ProofLevel.DEEP, properties=properties)
    result = execute_task.rewrite(tasks.make_task([tmp_path / "in.parquet"]), context, "0")
    assert _output(result) == [
        {"id": 1, "s": {"x": "a", "y": 0.5}, "l": [{"v": 4}, None], "m": [("k", {"w": day})], "later": 3}
    ]
    (file,) = result.staged
    assert file.lower_bounds == file.upper_bounds
    assert set(file.lower_bounds) == {1, 3, 4, 12}
    assert set(file.column_sizes) == {1, 3, 4, 7, 9, 11, 12}


def test_r27_a_mapping_says_nothing_about_files_that_have_ids(tmp_path: Path) -> None:
    table = Schema(_optional(1, "id", LongType()), _optional(2, "name", StringType()))
    old = Schema(_optional(1, "name", LongType()))  # the name that the mapping gives to another column
    path = tasks.write_input(tmp_path / "in.parquet", [{"name": 5}], old)
    mapping = json.dumps([{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["name"]}])
    context = tasks.make_context(tmp_path, table, properties={"schema.name-mapping.default": mapping})
    assert _output(execute_task.rewrite(tasks.make_task([path]), context, "0")) == [{"id": 5, "name": None}]


def test_r28_a_default_that_is_no_value_of_its_type_is_refused(tmp_path: Path, ids_only: Path) -> None:
    table = Schema(_optional(1, "id", LongType()), _optional(2, "x", IntegerType(), 2**40))
    with pytest.raises(errors.UnsupportedError, match="initial default of column x"):
        _run(tmp_path, table, ids_only)
    assert tasks.files_below(tmp_path) == []
