"""Schema evolution and odd input files: found by field id, values keep their meaning, the rest is refused."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)
from tests.factories import tasks

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import execute_task
from iceberg_compaction.model.policies import ProofLevel

if TYPE_CHECKING:
    from pathlib import Path

    from iceberg_compaction.model.rewrite_task import TaskResult


def _optional(field_id: int, name: str, kind: Any) -> NestedField:
    return NestedField(field_id, name, kind, required=False)


def _run(root: Path, table: Schema, paths: list[Path], **options: Any) -> TaskResult:
    context = tasks.make_context(root, table, verify=ProofLevel.DEEP, **options)
    return execute_task.rewrite(tasks.make_task(paths), context, uuid.uuid4().hex)


def _output(result: TaskResult) -> list[dict[str, Any]]:
    return [row for file in result.staged for row in pq.read_table(file.file_path).to_pylist()]


def test_r27_r29_evolution_at_every_level(tmp_path: Path) -> None:
    old = Schema(
        _optional(1, "a", IntegerType()),
        _optional(2, "gone", StringType()),
        _optional(3, "f", FloatType()),
        _optional(4, "d", DecimalType(5, 2)),
        _optional(5, "s", StructType(_optional(6, "x", IntegerType()), _optional(7, "y", StringType()))),
        _optional(8, "l", ListType(9, StructType(_optional(10, "p", IntegerType())), element_required=False)),
        _optional(
            11, "m", MapType(12, StringType(), 13, StructType(_optional(14, "q", FloatType())), value_required=False)
        ),
    )
    new = Schema(
        _optional(
            11, "m2", MapType(12, StringType(), 13, StructType(_optional(14, "q", DoubleType())), value_required=False)
        ),
        _optional(1, "renamed", LongType()),
        _optional(15, "added", StringType()),
        _optional(3, "f", DoubleType()),
        _optional(4, "d", DecimalType(12, 2)),
        _optional(
            5,
            "s",
            StructType(
                _optional(16, "z", LongType()), _optional(7, "why", StringType()), _optional(6, "x", LongType())
            ),
        ),
        _optional(
            8,
            "l",
            ListType(
                9,
                StructType(_optional(17, "n", StringType()), _optional(10, "p", LongType())),
                element_required=False,
            ),
        ),
    )
    rows = [
        {
            "a": -7,
            "gone": "g",
            "f": 0.1,
            "d": Decimal("1.25"),
            "s": {"x": 1, "y": "u"},
            "l": [{"p": 5}, None, {"p": None}],
            "m": [("k", {"q": 2.5}), ("n", None)],
        },
        {"a": None, "gone": None, "f": None, "d": None, "s": None, "l": None, "m": None},
        {
            "a": 2**31 - 1,
            "gone": "h",
            "f": -0.0,
            "d": Decimal("-999.99"),
            "s": {"x": None, "y": None},
            "l": [],
            "m": [],
        },
    ]
    small = pa.array([0.1], pa.float32()).cast(pa.float64())[0].as_py()
    first = tasks.write_input(tmp_path / "old.parquet", rows, old)
    second = tasks.write_input(tmp_path / "new.parquet", [{"renamed": 2**40, "added": "now", "f": 0.25}], new)
    result = _run(tmp_path, new, [first, second])
    assert _output(result) == [
        {
            "m2": [("k", {"q": 2.5}), ("n", None)],
            "renamed": -7,
            "added": None,
            "f": small,
            "d": Decimal("1.25"),
            "s": {"z": None, "why": "u", "x": 1},
            "l": [{"n": None, "p": 5}, None, {"n": None, "p": None}],
        },
        {"m2": None, "renamed": None, "added": None, "f": None, "d": None, "s": None, "l": None},
        {
            "m2": [],
            "renamed": 2**31 - 1,
            "added": None,
            "f": -0.0,
            "d": Decimal("-999.99"),
            "s": {"z": None, "why": None, "x": None},
            "l": [],
        },
        {"m2": None, "renamed": 2**40, "added": "now", "f": 0.25, "d": None, "s": None, "l": None},
    ]
    assert result.staged[0].lower_bounds[1] == (-7).to_bytes(8, "little", signed=True)


def test_r27_swapped_names_follow_the_ids(tmp_path: Path) -> None:
    old = Schema(_optional(1, "a", StructType(_optional(3, "x", LongType()), _optional(4, "y", LongType()))))
    new = Schema(_optional(1, "a", StructType(_optional(4, "x", LongType()), _optional(3, "y", LongType()))))
    path = tasks.write_input(tmp_path / "in.parquet", [{"a": {"x": 1, "y": 2}}], old)
    assert _output(_run(tmp_path, new, [path])) == [{"a": {"x": 2, "y": 1}}]


def test_r27_output_has_field_ids_at_every_level(tmp_path: Path) -> None:
    schema = Schema(
        _optional(1, "a b.c", LongType()),
        _optional(2, "l", ListType(3, StructType(_optional(4, "p", UUIDType())), element_required=False)),
        _optional(5, "m", MapType(6, StringType(), 7, DateType())),
    )
    rows = [{"a_x20b_x2Ec": 1, "l": [{"p": b"0" * 16}], "m": [("k", dt.date(2020, 1, 1))]}]
    result = _run(tmp_path, schema, [tasks.write_input(tmp_path / "in.parquet", rows, schema)])
    stored = str(pq.ParquetFile(result.staged[0].file_path).schema)
    for number in range(1, 8):
        assert f"field_id={number} " in stored
    assert "(UUID)" in stored
    assert _output(result)[0]["l"] == [{"p": uuid.UUID(bytes=b"0" * 16)}]


SPEC = PartitionSpec(
    PartitionField(2, 1000, IdentityTransform(), "day"), PartitionField(3, 1001, DayTransform(), "ts_day"), spec_id=4
)
PARTITIONED = Schema(
    _optional(1, "id", LongType()), _optional(2, "day", DateType()), _optional(3, "ts", TimestampType())
)


def test_r27_an_identity_partition_column_that_the_file_lacks_is_filled_in(tmp_path: Path) -> None:
    with_day = [{"id": 1, "day": dt.date(2026, 1, 31), "ts": None}]
    columns = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    pq.write_table(pa.table({"id": [2, 3]}, schema=columns), tmp_path / "lacks.parquet")
    paths = [tasks.write_input(tmp_path / "has.parquet", with_day, PARTITIONED), tmp_path / "lacks.parquet"]
    context = tasks.make_context(tmp_path, PARTITIONED, spec=SPEC, verify=ProofLevel.DEEP)
    partition = '{"day":"2026-01-31","ts_day":null}'
    result = execute_task.rewrite(tasks.make_task(paths, spec_id=4, partition=partition), context, "7")
    assert [row["day"] for row in _output(result)] == [dt.date(2026, 1, 31)] * 3
    assert result.proof.source.nulls == {1: 0, 2: 0, 3: 3}
    (file,) = result.staged
    assert file.spec_id == 4
    assert file.partition == partition
    assert file.file_path == f"{tmp_path}/table/data/day=2026-01-31/ts_day=null/00000-7-5b1e-00000.parquet"


def test_r27_r30_files_without_ids_need_the_name_mapping(tmp_path: Path) -> None:
    schema = Schema(
        _optional(1, "id", LongType()),
        _optional(2, "s", StructType(_optional(3, "x", StringType()))),
        _optional(4, "l", ListType(5, LongType(), element_required=False)),
    )
    pq.write_table(
        pa.table({"ID": [1, 2], "s": [{"x": "a"}, None], "l": [[1], []], "other": [0, 0]}), tmp_path / "in.parquet"
    )
    with pytest.raises(errors.UnsupportedError, match=r"in\.parquet .*no field ids.*name-mapping"):
        _run(tmp_path, schema, [tmp_path / "in.parquet"])
    mapping = (
        '[{"field-id": 1, "names": ["id", "ID"]},'
        ' {"field-id": 2, "names": ["s"], "fields": [{"field-id": 3, "names": ["x"]}]},'
        ' {"field-id": 4, "names": ["l"], "fields": [{"field-id": 5, "names": ["element"]}]}]'
    )
    result = _run(tmp_path, schema, [tmp_path / "in.parquet"], properties={"schema.name-mapping.default": mapping})
    assert _output(result) == [{"id": 1, "s": {"x": "a"}, "l": [1]}, {"id": 2, "s": None, "l": []}]
    assert set(result.staged[0].value_counts) == {1, 3}


def _foreign(root: Path, name: str, columns: list[tuple[int, str, pa.Array]], **options: Any) -> Path:
    fields = [
        pa.field(column, array.type, metadata={"PARQUET:field_id": str(number)}) for number, column, array in columns
    ]
    path = root / f"{name}.parquet"
    pq.write_table(pa.table([array for _, _, array in columns], schema=pa.schema(fields)), path, **options)
    return path


def test_layouts_of_other_writers(tmp_path: Path) -> None:
    schema = Schema(
        _optional(1, "t", StringType()),
        _optional(2, "ts", TimestampType()),
        _optional(3, "tz", TimestamptzType()),
        _optional(4, "u", UUIDType()),
        _optional(5, "d", DecimalType(9, 2)),
        _optional(6, "l", ListType(7, StringType(), element_required=False)),
    )
    when = [dt.datetime(2020, 5, 1, 12, 30, 15, 123000), None, dt.datetime(1901, 1, 1)]
    ids = [uuid.UUID(int=index).bytes for index in range(3)]
    texts, lists = ["ä", None, "z" * 50], [["a"], None, ["b", None]]

    def columns(text: Any, unit: str, list_type: Any, uuids: pa.Array) -> list[tuple[int, str, pa.Array]]:
        numbers = pa.array([Decimal("1.50"), None, Decimal("-3.25")], pa.decimal128(7, 2))
        return [
            (1, "t", pa.array(texts, pa.string()).cast(text)),
            (2, "ts", pa.array(when, pa.timestamp(unit))),
            (3, "tz", pa.array(when, pa.timestamp(unit))),
            (4, "u", uuids),
            (5, "d", numbers),
            (6, "l", pa.array(lists, list_type)),
        ]

    plain = pa.array(ids, pa.binary(16))
    tagged = pa.ExtensionArray.from_storage(pa.uuid(), plain)
    paths = [
        _foreign(tmp_path, "large", columns(pa.large_string(), "us", pa.large_list(pa.large_string()), plain)),
        _foreign(tmp_path, "views", columns(pa.string_view(), "ms", pa.list_(pa.string_view()), tagged)),
        _foreign(tmp_path, "dict", columns(pa.dictionary(pa.int8(), pa.string()), "us", pa.list_(pa.string()), plain)),
        _foreign(
            tmp_path,
            "int96",
            columns(pa.binary(), "us", pa.list_(pa.string()), tagged),
            use_deprecated_int96_timestamps=True,
            store_decimal_as_integer=True,
            store_schema=False,
        ),
    ]
    result = _run(tmp_path, schema, paths)
    utc = [None if value is None else value.replace(tzinfo=dt.timezone.utc) for value in when]
    expected = [{"t": texts[i], "ts": when[i], "tz": utc[i], "u": uuid.UUID(int=i), "l": lists[i]} for i in range(3)]
    got = [{key: value for key, value in row.items() if key != "d"} for row in _output(result)]
    assert got == expected * 4
    assert [row["d"] for row in _output(result)] == [Decimal("1.50"), None, Decimal("-3.25")] * 4


def test_columns_that_were_written_without_a_type_are_null(tmp_path: Path) -> None:
    """pandas knows no type of a column without values, nor of lists without elements."""
    kinds = [StringType(), UUIDType(), DecimalType(9, 2), DoubleType(), StructType(_optional(20, "x", LongType()))]
    lists = [ListType(30, StringType(), element_required=False), MapType(40, StringType(), 41, LongType(), False)]
    schema = Schema(
        _optional(1, "id", LongType()), *(_optional(n + 2, f"c{n}", kind) for n, kind in enumerate((*kinds, *lists)))
    )
    untyped = [(n + 2, f"c{n}", pa.nulls(3)) for n in range(len(kinds) + 1)]
    element = pa.field("element", pa.null(), metadata={"PARQUET:field_id": "30"})
    empty = [(7, "c5", pa.array([[], None, [None]], pa.list_(element)))]
    ids = (1, "id", pa.array([1, 2, 3]))
    paths = [
        _foreign(tmp_path, "untyped", [ids, *untyped]),
        _foreign(tmp_path, "lists", [ids, *untyped[:5], *empty]),
    ]
    result = _run(tmp_path, schema, paths)
    none = {f"c{n}": None for n in range(len(kinds) + len(lists))}
    assert _output(result) == [
        *({"id": n, **none} for n in (1, 2, 3)),
        {"id": 1, **none, "c5": []}, {"id": 2, **none}, {"id": 3, **none, "c5": [None]},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "array", "words"),
    [
        (LongType(), pa.array(["a"]), "is long in the table but string in the file"),
        (IntegerType(), pa.array([1], pa.int64()), "is int in the table but int64"),
        (TimestampType(), pa.array([1], pa.timestamp("ns")), "timestamp"),
        (DecimalType(5, 2), pa.array([Decimal("1.234")]), "decimal"),
        (DecimalType(5, 2), pa.array([Decimal("123456.23")]), "decimal"),
        (StructType(_optional(2, "x", LongType())), pa.array([1]), "struct"),
    ],
)
def test_what_cannot_be_read_as_the_table_says_is_refused(
    tmp_path: Path, kind: Any, array: pa.Array, words: str
) -> None:
    path = _foreign(tmp_path, "odd", [(1, "c", array)])
    with pytest.raises(errors.UnsupportedError, match=words) as caught:
        _run(tmp_path, Schema(_optional(1, "c", kind)), [path])
    assert "odd.parquet" in str(caught.value)
    assert tasks.files_below(tmp_path) == []


def test_required_columns_are_held_to_it(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "a", LongType(), required=True), NestedField(2, "b", LongType(), required=True))
    with pytest.raises(errors.UnsupportedError, match=r"b .* is required but missing"):
        _run(tmp_path, schema, [_foreign(tmp_path, "lacks", [(1, "a", pa.array([1]))])])
    good = _foreign(tmp_path, "good", [(1, "a", pa.array([1])), (2, "b", pa.array([2]))])
    nulls = _foreign(tmp_path, "nulls", [(1, "a", pa.array([1])), (2, "b", pa.array([None], pa.int64()))])
    with pytest.raises(errors.ExecuteError, match=r"nulls\.parquet .*required but holds nulls"):
        _run(tmp_path, schema, [good, nulls])
    assert _output(_run(tmp_path, schema, [good])) == [{"a": 1, "b": 2}]
    nested = Schema(_optional(1, "s", StructType(NestedField(2, "x", LongType(), required=True))))
    inner = pa.struct([pa.field("x", pa.int64(), metadata={"PARQUET:field_id": "2"})])
    hidden = _foreign(tmp_path, "hidden", [(1, "s", pa.array([{"x": 1}, None], inner))])
    assert _output(_run(tmp_path, nested, [hidden])) == [{"s": {"x": 1}}, {"s": None}]
    shown = _foreign(tmp_path, "shown", [(1, "s", pa.array([{"x": None}], inner))])
    with pytest.raises(errors.ExecuteError, match="required but holds nulls"):
        _run(tmp_path, nested, [shown])
