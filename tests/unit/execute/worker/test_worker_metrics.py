"""Metrics of output files (R24, R40, R41): those that Iceberg Java would have written for the same rows, or none."""

from __future__ import annotations

import math
import struct
import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform, TruncateTransform, VoidTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    UUIDType,
)
from tests.factories import tasks

from iceberg_compaction.execute.worker import execute_task
from iceberg_compaction.execute.worker.output import column_bounds

if TYPE_CHECKING:
    from pathlib import Path

    from iceberg_compaction.model.rewrite_task import StagedFile

_METRICS = "write.metadata.metrics."


def _optional(field_id: int, name: str, kind: IcebergType) -> NestedField:
    return NestedField(field_id, name, kind, required=False)


def _staged(
    root: Path, table: Schema, rows: list[dict[str, Any]], properties: dict[str, str] | None = None, group: int = 2**20
) -> StagedFile:
    path = tasks.write_input(root / f"{uuid.uuid4().hex}.parquet", rows, table)
    given = {"write.parquet.row-group-size-bytes": str(group), **(properties or {})}
    context = tasks.make_context(root, table, properties=given)
    (file,) = execute_task.rewrite(tasks.make_task([path]), context, uuid.uuid4().hex).staged
    return file


def _double(value: float) -> bytes:
    return struct.pack("<d", value)


TABLE = Schema(
    _optional(1, "id", LongType()),
    _optional(2, "s", StructType(_optional(3, "d", DoubleType()), NestedField(4, "t", StringType(), required=True))),
    _optional(5, "l", ListType(6, DoubleType(), element_required=False)),
    _optional(7, "m", MapType(8, StringType(), 9, StructType(_optional(10, "x", LongType())), value_required=False)),
)
ROWS: list[dict[str, Any]] = [
    {"id": 1, "s": {"d": math.nan, "t": "a"}, "l": [1.0, math.nan], "m": [("k", {"x": 1})]},
    {"id": None, "s": {"d": None, "t": "b"}, "l": [], "m": []},
    {"id": -3, "s": None, "l": None, "m": None},
    {"id": 7, "s": {"d": 2.5, "t": ""}, "l": [None], "m": [("n", None)]},
]


def test_r40_counts_include_nulls_nans_and_null_parents_but_nothing_below_lists_and_maps(tmp_path: Path) -> None:
    file = _staged(tmp_path, TABLE, ROWS)
    assert file.value_counts == {1: 4, 3: 4, 4: 4}
    assert file.null_value_counts == {1: 1, 3: 2, 4: 1}
    assert file.nan_value_counts == {3: 1}
    assert set(file.column_sizes) == {1, 3, 4, 6, 8, 10}
    assert file.lower_bounds == {1: (-3).to_bytes(8, "little", signed=True), 3: _double(2.5), 4: b""}
    assert file.upper_bounds == {1: (7).to_bytes(8, "little"), 3: _double(2.5), 4: b"b"}


def test_r41_modes_by_column_and_nothing_at_all_for_none(tmp_path: Path) -> None:
    modes = {"default": "counts", "column.id": "none", "column.s.t": "truncate(1)", "column.l.element": "none"}
    file = _staged(tmp_path, TABLE, ROWS, {_METRICS + key: value for key, value in modes.items()})
    assert set(file.column_sizes) == {3, 4, 8, 10}
    assert file.value_counts == {3: 4, 4: 4}
    assert file.nan_value_counts == {3: 1}
    assert set(file.lower_bounds) == set(file.upper_bounds) == {4}
    assert _staged(tmp_path, TABLE, ROWS, {_METRICS + "default": "none"}).column_sizes == {}


@pytest.mark.parametrize(
    ("values", "lower", "upper"),
    [
        ([0.0, 0.0], 0.0, 0.0),
        ([-0.0, -0.0], -0.0, -0.0),
        ([0.0, -0.0], -0.0, 0.0),
        ([-0.0, 5.0], -0.0, 5.0),
        ([-5.0, 0.0, math.nan], -5.0, 0.0),
        ([math.nan, -math.inf, math.inf], -math.inf, math.inf),
        ([math.inf, math.inf], math.inf, math.inf),
        ([math.nan, math.nan, None], None, None),
        ([None, None], None, None),
    ],
)
def test_r40_bounds_of_floats_know_both_zeros_and_no_nan(
    tmp_path: Path, values: list[float | None], lower: float | None, upper: float | None
) -> None:
    """A footer has -0.0 and 0.0 for either zero; Iceberg has what is there."""
    table = Schema(_optional(1, "d", DoubleType()), _optional(2, "s", StructType(_optional(3, "f", FloatType()))))
    rows: list[dict[str, Any]] = [{"d": value, "s": {"f": value}} for value in values]
    for group in (2**20, 1):  # in one row group, in one each
        file = _staged(tmp_path, table, rows, group=group)
        assert file.lower_bounds == ({} if lower is None else {1: _double(lower), 3: struct.pack("<f", lower)})
        assert file.upper_bounds == ({} if upper is None else {1: _double(upper), 3: struct.pack("<f", upper)})
        nans = sum(value is not None and math.isnan(value) for value in values)
        assert file.nan_value_counts == {1: nans, 3: nans}
    assert len(file.split_offsets) == len(values)


TEXTS = Schema(
    _optional(1, "t", StringType()),
    _optional(2, "b", BinaryType()),
    _optional(3, "s", StructType(_optional(4, "t", StringType()))),
    _optional(5, "f", FixedType(20)),
    _optional(6, "u", UUIDType()),
)


def _texts(*values: str | None) -> list[dict[str, Any]]:
    return [
        {"t": value, "b": value and value.encode(), "s": {"t": value}, "f": b"f" * 20, "u": b"u" * 16}
        for value in values
    ]


@pytest.mark.parametrize("repeats", [1, 400])  # repeated values come as dictionaries
def test_r41_long_values_have_the_bounds_that_footers_leave_out(tmp_path: Path, repeats: int) -> None:
    long, longer = "a" * 5000, "b" * 5000
    for values, lower, upper in [
        ([long, "b"], "a" * 16, "b"),
        (["a", longer], "a", "b" * 15 + "c"),
        ([longer, long, None], "a" * 16, "b" * 15 + "c"),
        (["m", "c" * 5000, "z"], "c" * 16, "z"),
    ]:
        for group in (2**20, 1) if repeats == 1 else (2**20,):
            file = _staged(tmp_path, TEXTS, _texts(*values) * repeats, group=group)
            for number in (1, 2, 4):
                assert file.lower_bounds[number] == lower.encode(), (values, number)
                assert file.upper_bounds[number] == upper.encode(), (values, number)
            assert file.null_value_counts[1] == repeats * (None in values)


def test_r41_whole_bounds_however_long(tmp_path: Path) -> None:
    file = _staged(tmp_path, TEXTS, _texts("a" * 5000, "b" * 6000), {_METRICS + "default": "full"})
    assert file.lower_bounds[1] == b"a" * 5000
    assert file.upper_bounds[4] == b"b" * 6000


def test_r41_text_is_cut_by_code_points_bytes_by_bytes_and_nothing_else_at_all(tmp_path: Path) -> None:
    file = _staged(tmp_path, TEXTS, _texts("\u00e4\U0001f600\u00e4\u00e4"), {_METRICS + "default": "truncate(3)"})
    assert file.lower_bounds[1].decode() == "\u00e4\U0001f600\u00e4"
    assert file.upper_bounds[1].decode() == "\u00e4\U0001f600\u00e5"
    assert file.lower_bounds[2] == "\u00e4".encode() + b"\xf0"
    assert file.upper_bounds[2] == "\u00e4".encode() + b"\xf1"
    assert file.lower_bounds[5] == file.upper_bounds[5] == b"f" * 20
    assert file.lower_bounds[6] == file.upper_bounds[6] == b"u" * 16


def test_r41_no_upper_bound_where_none_can_be_made(tmp_path: Path) -> None:
    file = _staged(tmp_path, TEXTS, _texts("\U0010ffff" * 17))
    assert file.lower_bounds[1].decode() == "\U0010ffff" * 16
    assert 1 not in file.upper_bounds
    assert 4 not in file.upper_bounds
    assert file.upper_bounds[2]  # as bytes it is not the largest


@pytest.mark.parametrize(
    ("text", "length", "expected"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "abd"),
        ("ab\ud7ffd", 3, "ab\ue000"),
        ("a\U0010ffff\U0010ffffz", 3, "b"),
        ("\U0010ffff\U0010ffff", 1, None),
    ],
)
def test_r41_upper_bounds_of_cut_text(text: str, length: int, expected: str | None) -> None:
    assert column_bounds.raised_text(text, length) == expected


def test_r41_upper_bounds_of_cut_bytes() -> None:
    assert column_bounds.raised_bytes(b"ab", 2) == b"ab"
    assert column_bounds.raised_bytes(b"a\xff\xff", 2) == b"b"
    assert column_bounds.raised_bytes(b"\xff\xff\xff", 2) is None


def test_r41_columns_without_statistics_have_a_size_and_floats_all_that_iceberg_counts_itself(tmp_path: Path) -> None:
    off = {f"write.parquet.stats-enabled.column.{name}": "false" for name in ("id", "s.d")}
    file = _staged(tmp_path, TABLE, ROWS, off)
    assert {1, 3} <= set(file.column_sizes)
    assert file.value_counts == {3: 4, 4: 4}
    assert file.null_value_counts == {3: 2, 4: 1}
    assert file.nan_value_counts == {3: 1}
    assert set(file.lower_bounds) == {3, 4}


def _order(*fields: tuple[int, Any]) -> str:
    return SortOrder(*[SortField(number, transform) for number, transform in fields]).model_dump_json()


def test_r41_columns_of_the_sort_order_have_bounds(tmp_path: Path) -> None:
    table = Schema(*[_optional(number, f"c{number}", StringType()) for number in range(1, 6)])
    order = _order((1, IdentityTransform()), (2, BucketTransform(8)), (3, TruncateTransform(2)), (4, VoidTransform()))

    def bounded(**properties: str) -> dict[int, int | None]:
        named = {_METRICS + key.replace("_", "."): value for key, value in properties.items()}
        return {number: mode.length for number, mode in column_bounds.modes(table, named, order).items() if mode.bounds}

    assert bounded(default="none") == bounded(default="counts") == {1: 16, 3: 16}
    assert bounded(default="counts", column_c1="none", column_c5="full") == {3: 16, 5: None}
    assert bounded(default="truncate(4)") == dict.fromkeys(range(1, 6), 4)
    assert bounded(**{"max-inferred-column-defaults": "1"}) == {1: 16, 3: 16}
    assert bounded(**{"max-inferred-column-defaults": "0"}, column_c4="full") == {1: 16, 3: 16, 4: None}
    assert bounded(**{"max-inferred-column-defaults": "-1"}) == dict.fromkeys(range(1, 6), 16)


def test_r41_modes_that_nobody_knows_are_passed_over() -> None:
    table = Schema(_optional(1, "a", StringType()), _optional(2, "b", StringType()))
    given = {"default": "truncate(0)", "column.a": "some", "column.b": "FULL", "column.gone": "none"}
    found = column_bounds.modes(table, {_METRICS + key: value for key, value in given.items()})
    assert found == {1: column_bounds.DEFAULT, 2: column_bounds.FULL}
    assert (
        column_bounds.modes(table, {_METRICS + "default": "counts", _METRICS + "column.a": "?"})[1]
        == column_bounds.COUNTS
    )


def test_r41_wide_tables_keep_metrics_of_their_first_columns() -> None:
    fields = [_optional(index, f"c{index}", LongType()) for index in range(1, 121)]
    wide = Schema(*fields[:50], _optional(200, "s", StructType(*fields[50:60])), *fields[60:])
    found = column_bounds.modes(wide, {})
    assert [number for number, mode in found.items() if mode is column_bounds.NONE] == [
        *range(111, 121),
        *range(51, 61),
    ]
    assert column_bounds.NONE not in column_bounds.modes(wide, {_METRICS + "default": "full"}).values()
    assert column_bounds.modes(wide, {_METRICS + "column.c115": "counts"})[115] == column_bounds.COUNTS


def test_r24_a_row_group_without_bounds_leaves_the_file_without(tmp_path: Path) -> None:
    """Text that is not UTF-8 has no place among the bounds of text; a bound over the rest would hide it."""
    bad = pa.array([b"\xff", b"a", b"\xfe\xff"]).view(pa.string())
    columns = pa.schema([pa.field("t", pa.string(), metadata={"PARQUET:field_id": "1"})])
    file = _staged(tmp_path, Schema(_optional(1, "t", StringType())), pa.table([bad], schema=columns), group=1)  # type: ignore[arg-type]
    assert file.lower_bounds == {1: b"a"}
    assert file.upper_bounds == {}
    assert file.value_counts == {1: 3}


def test_bounds_of_all_other_types_are_iceberg_values(tmp_path: Path) -> None:
    table = Schema(_optional(1, "b", BooleanType()), _optional(2, "d", DateType()))
    file = _staged(tmp_path, table, [{"b": True, "d": -1}, {"b": False, "d": None}])
    assert file.lower_bounds == {1: b"\0", 2: (-1).to_bytes(4, "little", signed=True)}
    assert file.upper_bounds == {1: b"\1", 2: (-1).to_bytes(4, "little", signed=True)}


def test_r42_split_offsets_are_where_row_groups_begin(tmp_path: Path) -> None:
    """The dictionary of the first column is the first thing in a row group."""
    table = Schema(_optional(1, "t", StringType()), _optional(2, "id", LongType()))
    rows = [{"t": "ab"[n % 2], "id": n} for n in range(3000)]
    file = _staged(tmp_path, table, rows, group=4000)
    found = pq.read_metadata(file.file_path)
    groups = [found.row_group(number) for number in range(found.num_row_groups)]
    assert len(groups) > 2
    assert all(group.column(0).has_dictionary_page for group in groups)
    sizes = [sum(group.column(place).total_compressed_size for place in range(2)) for group in groups]
    assert file.split_offsets == tuple(4 + sum(sizes[:number]) for number in range(len(groups)))
