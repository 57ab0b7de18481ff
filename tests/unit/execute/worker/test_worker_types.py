"""Every v2 type, bit for bit, from whatever layout other writers chose (R33). What cannot be kept as it is, is refused
before anything is written."""

from __future__ import annotations

import datetime as dt
import struct
import uuid
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
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
from tests.factories import parquet_files, tasks

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import execute_task
from iceberg_compaction.model.policies import ProofLevel

if TYPE_CHECKING:
    from pathlib import Path

    from iceberg_compaction.model.rewrite_task import TaskResult


def _optional(field_id: int, name: str, kind: IcebergType) -> NestedField:
    return NestedField(field_id, name, kind, required=False)


def _field(number: int, name: str, kind: pa.DataType, *, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable, {"PARQUET:field_id": str(number)})


def _write(path: Path, fields: list[pa.Field], arrays: list[Any], **options: Any) -> Path:
    pq.write_table(pa.table(arrays, schema=pa.schema(fields)), path, **{"store_schema": False, **options})
    return path


def _run(root: Path, table: Schema, paths: list[Path]) -> TaskResult:
    context = tasks.make_context(root, table, verify=ProofLevel.DEEP)
    return execute_task.rewrite(tasks.make_task(paths), context, uuid.uuid4().hex)


def _table(result: TaskResult) -> pa.Table:
    return pa.concat_tables([pq.read_table(file.file_path) for file in result.staged])


def _signed(value: int) -> bytes:
    """As few bytes as hold it, as Java's BigInteger has them."""
    width = next(n for n in range(1, 17) if -(2 ** (8 * n - 1)) <= value < 2 ** (8 * n - 1))
    return value.to_bytes(width, "big", signed=True)


def test_r33_decimals_of_every_width_and_from_every_physical_type(tmp_path: Path) -> None:
    """INT32 and INT64 by precision, else as few bytes as hold it; read from integers, fixed bytes and plain bytes."""
    table = Schema(*[_optional(p, f"d{p}", DecimalType(p, p // 2)) for p in range(1, 39)])
    columns = pa.schema([_field(p, f"d{p}", pa.decimal128(p, p // 2)) for p in range(1, 39)])

    def values(precision: int) -> list[Decimal | None]:
        unscaled = [10**precision - 1, 1 - 10**precision, 0, -1, 1, None]
        scale = -(precision // 2)
        return [None if u is None else Decimal((int(u < 0), tuple(map(int, str(abs(u)))), scale)) for u in unscaled]

    arrays = [pa.array(values(p), pa.decimal128(p, p // 2)) for p in range(1, 39)]
    integers = _write(tmp_path / "integers.parquet", list(columns), arrays, store_decimal_as_integer=True)
    fixed = _write(tmp_path / "fixed.parquet", list(columns), arrays)
    raw = [[None if v is None else _signed(int(v.scaleb(p // 2))) for v in values(p)] for p in range(1, 19)]
    plain = _write(
        tmp_path / "plain.parquet", [_field(p, f"d{p}", pa.binary()) for p in range(1, 19)], [pa.array(c) for c in raw]
    )
    for p in range(1, 19):
        parquet_files.decimal_in_bytes(plain, f"d{p}", p, p // 2)
    result = _run(tmp_path, table, [integers, fixed, plain])
    found = _table(result)
    for p in range(1, 39):
        expected = values(p) * 3 if p < 19 else [*values(p) * 2, *[None] * 6]
        assert found[f"d{p}"].to_pylist() == expected, p
        column = pq.ParquetFile(result.staged[0].file_path).schema.column(p - 1)
        width = next(width for width in range(1, 17) if 2 ** (8 * width - 1) > 10**p - 1)
        physical = "INT32" if p < 10 else "INT64" if p < 19 else "FIXED_LEN_BYTE_ARRAY"
        assert (column.physical_type, column.length if p > 18 else width) == (physical, width), p
        assert result.staged[0].lower_bounds[p] == _signed(1 - 10**p)
        assert result.staged[0].upper_bounds[p] == _signed(10**p - 1)


_DOUBLES = [0x7FF8000000000000, 0x7FF8000000000001, 0xFFF8000000000000, 0x7FF0000000000001, 0xFFFFFFFFFFFFFFFF]
_DOUBLES += [0, 1 << 63, 0x7FF0000000000000, 0xFFF0000000000000, 1, 0x3FF0000000000000]
_FLOATS = [0x7FC00000, 0x7FC00001, 0xFFC00000, 0x7F800001, 0xFFFFFFFF, 0, 1 << 31, 0x7F800000, 0xFF800000, 1]


@pytest.mark.parametrize("repeats", [1, 500])  # few values are stored plainly, repeated ones in a dictionary
def test_r33_floats_keep_every_bit(tmp_path: Path, repeats: int) -> None:
    """Payloads of NaNs, the signs of zeros, infinities, numbers next to nothing; at the top and inside lists."""
    doubles = pa.array(np.array(_DOUBLES * repeats, np.uint64).view(np.float64))
    floats = pa.array(np.array([*_FLOATS, 7] * repeats, np.uint32).view(np.float32))
    lists = pa.ListArray.from_arrays(pa.array(range(len(doubles) + 1), pa.int32()), doubles)
    fields = [_field(1, "d", pa.float64()), _field(2, "f", pa.float32())]
    fields.append(_field(3, "l", pa.list_(_field(4, "element", pa.float64()))))
    path = _write(tmp_path / "in.parquet", fields, [doubles, floats, lists.cast(fields[2].type)])
    table = Schema(
        _optional(1, "d", DoubleType()),
        _optional(2, "f", FloatType()),
        _optional(3, "l", ListType(4, DoubleType(), element_required=False)),
    )
    found = _table(_run(tmp_path, table, [path])).combine_chunks()
    assert found["d"].to_numpy().view(np.uint64).tolist() == _DOUBLES * repeats
    assert found["f"].to_numpy().view(np.uint32).tolist() == [*_FLOATS, 7] * repeats
    assert found["l"].chunk(0).flatten().to_numpy().view(np.uint64).tolist() == _DOUBLES * repeats


def test_r33_times_before_1970_in_every_unit_with_and_without_zone(tmp_path: Path) -> None:
    table = Schema(
        _optional(1, "d", DateType()),
        _optional(2, "t", TimeType()),
        _optional(3, "ts", TimestampType()),
        _optional(4, "tz", TimestamptzType()),
    )
    days = [dt.date(1, 1, 1), dt.date(1582, 10, 4), dt.date(1969, 12, 31), dt.date(9999, 12, 31), None]
    times = [dt.time(0), dt.time(23, 59, 59, 999000), None, dt.time(0, 0, 0, 1000), dt.time(12)]
    stamps = [
        dt.datetime(1, 1, 1),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999000),
        None,
        dt.datetime(9999, 12, 31, 23, 59, 59, 999000),
        dt.datetime(1582, 10, 4, 12, 0, 0, 1000),
    ]
    aware = [None if value is None else value.replace(tzinfo=dt.timezone.utc) for value in stamps]
    paths = []
    for unit, time, zones in [("ms", pa.time32("ms"), ("UTC", None)), ("us", pa.time64("us"), (None, "+05:00"))]:
        kinds = [pa.date32(), time, pa.timestamp(unit, zones[0]), pa.timestamp(unit, zones[1])]
        fields = [_field(at + 1, "dts"[at : at + 1] or "z", kind) for at, kind in enumerate(kinds)]
        arrays = [pa.array(days, kinds[0]), pa.array(times, time)]
        arrays += [pa.array(stamps, pa.timestamp(unit)).view(kind) for kind in kinds[2:]]
        paths.append(_write(tmp_path / f"{unit}.parquet", fields, arrays))
    fields = [_field(3, "ts", pa.timestamp("us")), _field(4, "tz", pa.timestamp("us"))]
    arrays = [pa.array(stamps[1:3], pa.timestamp("us"))] * 2
    paths.append(_write(tmp_path / "int96.parquet", fields, arrays, use_deprecated_int96_timestamps=True))
    assert "int96" in str(pq.ParquetFile(paths[-1]).schema)
    found = _table(_run(tmp_path, table, paths))
    assert found["d"].to_pylist() == [*days * 2, None, None]
    assert found["t"].to_pylist() == [*times * 2, None, None]
    assert found["ts"].to_pylist() == [*stamps * 2, *stamps[1:3]]
    assert found["tz"].to_pylist() == [*aware * 2, *aware[1:3]]


def _texts(values: list[bytes | None], kind: pa.DataType) -> pa.Array:
    return pa.array(values, pa.binary()).view(kind)


@pytest.mark.parametrize("repeats", [1, 300])
def test_r33_text_and_bytes_pass_as_they_are(tmp_path: Path, repeats: int) -> None:
    """Empty, with zero bytes, longer than a footer's bounds may be, and text that is not UTF-8, which is not ours to
    judge: neither as text of the file, nor as bytes that the table calls text, nor in a dictionary."""
    values = [
        b"",
        b"\0",
        b"a\0b",
        "\U0010ffff\u00e4".encode(),
        b"x" * 5000,
        b"\xff\xfe",
        b"\xed\xa0\x80",
        None,
    ] * repeats
    table = Schema(
        _optional(1, "s", StringType()),
        _optional(2, "b", BinaryType()),
        _optional(3, "f", FixedType(3)),
        _optional(4, "l", ListType(5, StringType(), element_required=False)),
        _optional(6, "t", StringType()),
    )
    lists = pa.ListArray.from_arrays(pa.array(range(len(values) + 1), pa.int32()), _texts(values, pa.string()))
    list_type = pa.list_(_field(5, "element", pa.string()))
    kinds = [pa.string(), pa.binary(), pa.binary(3), list_type, pa.string()]
    arrays = [
        _texts(values, pa.string()),
        _texts(values, pa.binary()),
        pa.array([b"\0\xff\n", None] * (len(values) // 2), pa.binary(3)),
        lists.cast(list_type),
        _texts(values, pa.string()),
    ]
    fields = [_field(number, name, kind) for number, name, kind in zip((1, 2, 3, 4, 6), "sbflt", kinds, strict=True)]
    path = _write(tmp_path / "in.parquet", fields, arrays)
    parquet_files.without_annotation(path, "t")
    assert pq.ParquetFile(path).schema_arrow.field("t").type == pa.binary()
    result = _run(tmp_path, table, [path])
    found = _table(result).combine_chunks()
    for name in "sbt":
        assert found[name].chunk(0).view(pa.binary()).to_pylist() == values, name
    assert found["f"].to_pylist() == [b"\0\xff\n", None] * (len(values) // 2)
    assert found["l"].chunk(0).flatten().view(pa.binary()).to_pylist() == values
    assert result.staged[0].lower_bounds[1] == b""
    assert 1 not in result.staged[0].upper_bounds  # the largest is no text, so there is no bound


NESTED = Schema(
    _optional(
        1,
        "m",
        MapType(
            2,
            StructType(NestedField(3, "k", StringType(), required=True), _optional(4, "n", LongType())),
            5,
            ListType(
                6,
                MapType(7, IntegerType(), 8, StructType(_optional(9, "u", UUIDType())), value_required=False),
                element_required=False,
            ),
            value_required=False,
        ),
    ),
    _optional(
        10,
        "l",
        ListType(
            11,
            ListType(
                12,
                ListType(13, StructType(_optional(14, "t", TimeType())), element_required=True),
                element_required=False,
            ),
            element_required=False,
        ),
    ),
    _optional(
        15,
        "s",
        StructType(_optional(16, "s", StructType(_optional(17, "s", StructType(_optional(18, "x", FixedType(2))))))),
    ),
)
_KEY = {"k": "a", "n": None}
NESTED_ROWS: list[dict[str, Any]] = [
    {"m": None, "l": None, "s": None},
    {"m": [], "l": [], "s": {"s": None}},
    {"m": [(_KEY, None)], "l": [None], "s": {"s": {"s": None}}},
    {"m": [(_KEY, []), ({"k": "", "n": 5}, [None])], "l": [[]], "s": {"s": {"s": {"x": None}}}},
    {"m": [(_KEY, [[]])], "l": [[None, [], None]], "s": {"s": {"s": {"x": b"\0\xff"}}}},
    {"m": [(_KEY, [[(1, None), (2, {"u": None})], None])], "l": [[[{"t": None}], [{"t": dt.time(1)}]], []], "s": None},
    {"m": [(_KEY, [[(-1, {"u": b"0123456789abcdef"})], []])], "l": [None, [], [None]], "s": {"s": None}},
]


def test_r33_empty_and_null_at_every_level_of_deep_nestings(tmp_path: Path) -> None:
    paths = [
        tasks.write_input(tmp_path / f"in-{size}.parquet", NESTED_ROWS, NESTED, row_group_size=size)
        for size in (1, 3, 100)
    ]
    result = _run(tmp_path, NESTED, paths)
    assert tasks.read_rows(result) == tasks.comparable(NESTED_ROWS) * 3
    assert result.staged[0].null_value_counts == {18: 18}


def test_r33_lists_of_two_levels_as_old_writers_made_them(tmp_path: Path) -> None:
    table = Schema(
        _optional(1, "l", ListType(2, LongType(), element_required=False)),
        _optional(3, "ls", ListType(4, StructType(_optional(5, "x", LongType())), element_required=False)),
    )
    element = _field(4, "element", pa.struct([_field(5, "x", pa.int32())]), nullable=False)
    fields = [
        _field(1, "l", pa.list_(_field(2, "element", pa.int32(), nullable=False))),
        _field(3, "ls", pa.list_(element)),
    ]
    rows = [{"l": [1, 2], "ls": [{"x": 1}, {"x": None}]}, {"l": None, "ls": []}, {"l": [], "ls": None}]
    arrays = [pa.array([row[field.name] for row in rows], field.type) for field in fields]
    path = _write(tmp_path / "in.parquet", fields, arrays)
    for name in ("l", "ls"):
        parquet_files.two_level_list(path, name)
    assert "repeated int32 field_id=2 array" in str(pq.ParquetFile(path).schema)
    result = _run(tmp_path, table, [path])
    assert _table(result).to_pylist() == rows
    assert "repeated group field_id=-1 list" in str(pq.ParquetFile(result.staged[0].file_path).schema)


def test_r29_promotions_inside_structs_lists_and_maps(tmp_path: Path) -> None:
    """R29: int to long, float to double and wider decimals, wherever they are."""

    def table(number: IcebergType, real: IcebergType, exact: IcebergType) -> Schema:
        inner = StructType(_optional(4, "n", number), _optional(5, "r", real), _optional(6, "e", exact))
        return Schema(
            _optional(1, "m", MapType(2, number, 3, ListType(7, inner, element_required=False), value_required=False)),
            _optional(8, "l", ListType(9, exact, element_required=False)),
            _optional(10, "k", MapType(11, exact, 12, real, value_required=False)),
        )

    old = table(IntegerType(), FloatType(), DecimalType(9, 2))
    new = table(LongType(), DoubleType(), DecimalType(38, 2))
    big, real = Decimal("-9999999.99"), struct.unpack("<f", struct.pack("<f", 0.1))[0]
    rows = [
        {
            "m": [
                (-(2**31), [{"n": 2**31 - 1, "r": 0.1, "e": big}, None, {"n": None, "r": None, "e": None}]),
                (1, None),
            ],
            "l": [big, None],
            "k": [(big, 0.1)],
        },
        {"m": None, "l": [], "k": []},
    ]
    result = _run(tmp_path, new, [tasks.write_input(tmp_path / "in.parquet", rows, old)])
    rows[0]["m"][0][1][0]["r"] = real  # type: ignore[index]
    rows[0]["k"] = [(big, real)]
    assert _table(result).to_pylist() == rows
    stored = str(pq.ParquetFile(result.staged[0].file_path).schema)
    assert "int32" not in stored
    assert "float field" not in stored


@pytest.mark.parametrize(
    ("kind", "array"),
    [
        (LongType(), pa.array([1], pa.uint64())),
        (FloatType(), pa.array([1.0], pa.float64())),
        (FloatType(), pa.array([1.0], pa.float16())),
        (DoubleType(), pa.array([1], pa.int32())),
        (DateType(), pa.array([1], pa.int32())),
        (TimeType(), pa.array([1], pa.time64("ns"))),
        (TimestamptzType(), pa.array([1], pa.timestamp("ns", "UTC"))),
        (DecimalType(38, 2), pa.array([Decimal("1.00")], pa.decimal256(39, 2))),
        (DecimalType(9, 2), pa.array([1], pa.int32())),
        (UUIDType(), pa.array(["f79c3e09-677c-4bbd-a479-3f349cb785e7"])),
        (FixedType(2), pa.array([b"abc"], pa.binary(3))),
        (FixedType(2), pa.array([b"ab"], pa.binary())),
        (BinaryType(), pa.array([b"ab"], pa.binary(2))),
        (ListType(2, LongType(), element_required=False), pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))),
        (MapType(2, StringType(), 3, LongType()), pa.array([[1]])),
    ],
    ids=lambda value: str(value.type if isinstance(value, pa.Array) else value),
)
def test_r33_what_cannot_be_kept_is_refused_before_anything_is_written(
    tmp_path: Path, kind: IcebergType, array: pa.Array
) -> None:
    path = _write(tmp_path / "odd.parquet", [_field(1, "c", array.type)], [array], store_schema=True)
    with pytest.raises(errors.UnsupportedError, match=r"odd\.parquet"):
        _run(tmp_path, Schema(_optional(1, "c", kind)), [path])
    assert tasks.files_below(tmp_path) == []
