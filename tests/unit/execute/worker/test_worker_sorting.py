"""Outputs in the order that the table asks for (R34, R42): every row is there, bit for bit, in order, whether or not
the rows fit in memory, alone or together with another partition spec."""

from __future__ import annotations

import functools
import random
import struct
from collections import Counter
from decimal import Decimal
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
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
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
from iceberg_compaction.execute.worker.arrange import sort_order_keys, sort_rows
from iceberg_compaction.model.policies import ProofLevel

if TYPE_CHECKING:
    from pathlib import Path

    from iceberg_compaction.model.rewrite_task import TaskResult


def _field(number: int, name: str, kind: iceberg.IcebergType) -> iceberg.NestedField:
    return iceberg.NestedField(number, name, kind, required=False)


SCHEMA = Schema(
    _field(1, "id", iceberg.LongType()),
    _field(2, "flag", iceberg.BooleanType()),
    _field(3, "i", iceberg.IntegerType()),
    _field(4, "f", iceberg.FloatType()),
    _field(5, "d", iceberg.DoubleType()),
    _field(6, "day", iceberg.DateType()),
    _field(7, "time", iceberg.TimeType()),
    _field(8, "at", iceberg.TimestamptzType()),
    _field(9, "amount", iceberg.DecimalType(30, 4)),
    _field(10, "word", iceberg.StringType()),
    _field(11, "bytes", iceberg.BinaryType()),
    _field(12, "three", iceberg.FixedType(3)),
    _field(13, "key", iceberg.UUIDType()),
    _field(14, "s", iceberg.StructType(_field(15, "x", iceberg.DoubleType()), _field(16, "u", iceberg.UUIDType()))),
    _field(17, "list", iceberg.ListType(18, iceberg.StringType(), element_required=False)),
    _field(19, "map", iceberg.MapType(20, iceberg.StringType(), 21, iceberg.LongType(), value_required=False)),
    _field(
        22,
        "deep",
        iceberg.ListType(
            23, iceberg.StructType(_field(24, "l", iceberg.ListType(25, iceberg.IntegerType(), False))), False
        ),
    ),
)
WORDS = ["", "a", "b", "ab", "zz", "\u00e9", "\uffff", "\U0001f600"]
FLOATS = [0.0, -0.0, 1.5, -1.5, float("inf"), float("-inf"), float("nan"), -float("nan")]


def _row(at: int, dice: random.Random) -> dict[str, Any]:
    """Few distinct values, so that there are ties, among them all that are special."""
    row = {
        "flag": dice.random() < 0.5,
        "i": dice.choice([-(2**31), -1, 0, 1, 2**31 - 1]),
        "f": dice.choice(FLOATS),
        "d": dice.choice(FLOATS),
        "day": dice.randint(-400, 400),
        "time": dice.randint(0, 86_399_999_999),
        "at": dice.randint(-(10**15), 10**15),
        "amount": Decimal(dice.randint(-(10**24), 10**24)).scaleb(-4),
        "word": dice.choice(WORDS),
        "bytes": dice.randbytes(dice.randint(0, 2)),
        "three": dice.randbytes(3),
        "key": dice.randbytes(16),
        "s": {"x": dice.choice([None, *FLOATS]), "u": dice.choice([None, dice.randbytes(16)])},
        "list": dice.choice([[], [None], ["x", ""]]),
        "map": dice.choice([[], [("k", None), ("l", at)]]),
        "deep": dice.choice([[], [None, {"l": None}], [{"l": []}, {"l": [at, 2]}]]),
    }
    return {"id": at, **{name: None if dice.random() < 0.2 else value for name, value in row.items()}}


SORTABLE = [number for number in range(1, 17) if number != 14]
TRANSFORMS = [
    IdentityTransform(),
    BucketTransform(3),
    TruncateTransform(2),
    DayTransform(),
    YearTransform(),
    VoidTransform(),
]


@st.composite
def orders(draw: st.DrawFn) -> SortOrder:
    fields = []
    for number in draw(st.lists(st.sampled_from(SORTABLE), min_size=1, max_size=3, unique=True)):
        kind = SCHEMA.find_type(number)
        transform = draw(st.sampled_from([one for one in TRANSFORMS if one.can_transform(kind)]))
        fields.append(
            _sort_field(number, transform, draw(st.sampled_from(SortDirection)), draw(st.sampled_from(NullOrder)))
        )
    return SortOrder(*fields, order_id=7)


def _sort_field(
    number: int,
    transform: Transform[Any, Any] | None = None,
    direction: SortDirection = SortDirection.ASC,
    nulls: NullOrder = NullOrder.NULLS_FIRST,
) -> SortField:
    return SortField(
        source_id=number, transform=transform or IdentityTransform(), direction=direction, null_order=nulls
    )


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    columns = []
    for field in arrow_schemas.file_schema(SCHEMA):
        kind, values = arrow_schemas.plain(field.type), [row.get(field.name) for row in rows]
        if pa.types.is_temporal(kind):
            columns.append(pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind))
        else:
            columns.append(pa.array(values, kind))
    schema = pa.schema(
        [field.with_type(arrow_schemas.plain(field.type)) for field in arrow_schemas.file_schema(SCHEMA)]
    )
    return pa.Table.from_arrays(columns, schema=schema)


def _value(row: dict[str, Any], number: int) -> Any:
    """A field's value in PyIceberg's internal form."""
    parts = SCHEMA.find_column_name(number).split(".")  # type: ignore[union-attr]
    for part in parts:
        row = None if row is None else row[part]  # type: ignore[assignment]
    return row


def _compare(wanted: SortOrder) -> Any:
    """Two rows by the words of the specification, one value at a time."""

    def number(value: float) -> int:
        (bits,) = struct.unpack(">q", struct.pack(">d", value))
        return bits if bits >= 0 else bits ^ (2**63 - 1)

    def key(value: Any) -> Any:
        return number(value) if isinstance(value, float) else value.encode() if isinstance(value, str) else value

    def compare(left: dict[str, Any], right: dict[str, Any]) -> int:
        for field in wanted.fields:
            function = field.transform.transform(SCHEMA.find_type(field.source_id))
            one, other = (function(_value(row, field.source_id)) for row in (left, right))
            if one is None or other is None:
                if one is not other:
                    first = field.null_order == NullOrder.NULLS_FIRST
                    return -1 if (one is None) == first else 1
                continue
            if key(one) != key(other):
                return -1 if (key(one) < key(other)) != (field.direction == SortDirection.DESC) else 1
        return 0

    return compare


def _rewritten(root: Path, tables: list[pa.Table], wanted: SortOrder | None, **options: Any) -> TaskResult:
    spec = options.pop("spec", None)
    paths = [tasks.write_input(root / f"in-{n}.parquet", table, SCHEMA) for n, table in enumerate(tables)]
    update: dict[str, Any] = {"sort_order": wanted.model_dump_json() if wanted else None}
    if spec is not None:
        update["output_spec_id"] = spec.spec_id
        update["partition_specs"] = {0: UNPARTITIONED_PARTITION_SPEC.model_dump_json(), 5: spec.model_dump_json()}
    limits = options.pop("limits", budgets.DEFAULT)
    context = tasks.make_context(root, SCHEMA, verify=ProofLevel.DEEP, **options).model_copy(update=update)
    return execute_task.rewrite(tasks.make_task(paths), context, "0", limits)


SMALL_RUNS = budgets.Budgets(run_bytes=2000, block_bytes=300, merge_bytes=800)


@pytest.mark.parametrize("spilling", [False, True])
@examples(20)
@given(count=st.integers(0, 60), seed=st.integers(0, 99), wanted=orders(), pieces=st.integers(1, 6))
def test_r34_all_rows_come_out_in_order(spilling: bool, count: int, seed: int, wanted: SortOrder, pieces: int) -> None:
    """Any type in any place, any transform, nulls as declared, floats in total order, text by its bytes; equal rows
    stay as they came."""
    dice = random.Random(seed)
    rows = [_row(at, dice) for at in range(count)]
    limits = budgets.Budgets(run_bytes=1500, block_bytes=300, merge_bytes=600) if spilling else budgets.DEFAULT
    table = _table(rows)
    sorter = sort_rows.Sorter(sort_order_keys.bind(wanted, SCHEMA, table.schema), table.schema, limits)
    size = max(1, -(-len(rows) // pieces))
    for start in range(0, len(rows), size):
        for batch in table.slice(start, size).combine_chunks().to_batches():
            sorter.add(batch)
    found = list(sorter.batches())
    assert all(batch.schema.equals(table.schema, check_metadata=True) for _, batch in found)
    sorter.close()
    expected = sorted(rows, key=functools.cmp_to_key(_compare(wanted)))
    ids = [number for _, batch in found for number in batch.column(0).to_pylist()]
    assert ids == [row["id"] for row in expected]
    joined = pa.Table.from_batches([batch for _, batch in found], schema=table.schema)
    assert tasks.comparable(joined.to_pylist()) == tasks.comparable(table.take(pa.array(ids, pa.int64())).to_pylist())


def _random_rows(count: int) -> list[dict[str, Any]]:
    dice = np.random.default_rng(3)
    return [
        {
            "id": at,
            "i": int(dice.integers(0, 50)) if at % 9 else None,
            "d": float(dice.normal()) if at % 13 else float("nan"),
            "word": f"word {dice.integers(0, 20)}" if at % 8 else None,
            "amount": Decimal(int(dice.integers(-99, 99))).scaleb(-4),
            "key": dice.bytes(16),
            "s": {"x": float(dice.normal()), "u": dice.bytes(16)} if at % 5 else None,
            "list": [f"{at}", None],
            "map": [("a", at), ("b", None)],
            "deep": [{"l": [at, at]}, None],
        }
        for at in range(count)
    ]


@pytest.mark.parametrize("spilling", [False, True])
@pytest.mark.parametrize("respec", [False, True])
def test_r34_r42_files_are_sorted_and_say_so(tmp_path: Path, spilling: bool, respec: bool) -> None:
    limits = SMALL_RUNS if spilling else budgets.DEFAULT
    rows = _random_rows(600)
    wanted = SortOrder(
        _sort_field(10, nulls=NullOrder.NULLS_LAST), _sort_field(15, direction=SortDirection.DESC), order_id=4
    )
    field = PartitionField(source_id=3, field_id=1000, transform=BucketTransform(5), name="b")
    spec = PartitionSpec(field, spec_id=5) if respec else None
    tables = [_table(rows[at : at + 150]) for at in range(0, 600, 150)]
    result = _rewritten(tmp_path, tables, wanted, spec=spec, limits=limits)
    assert len({file.partition for file in result.staged}) == (6 if respec else 1)
    seen = []
    for file in result.staged:
        assert file.sort_order_id == 4
        stored = pq.read_table(file.file_path)
        assert [arrow_schemas.field_id(f) for f in stored.schema] == [f.field_id for f in SCHEMA.fields]
        found = stored.to_pylist()
        assert found == sorted(found, key=functools.cmp_to_key(_compare(wanted)))
        (said,) = pq.read_metadata(file.file_path).row_group(0).sorting_columns
        assert said == pq.SortingColumn(9, descending=False, nulls_first=False)
        seen += found
    assert Counter(tasks.comparable(seen)) == Counter(tasks.comparable(_table(rows).to_pylist()))


def test_r42_files_without_an_order_say_that_too(tmp_path: Path) -> None:
    rows = _random_rows(50)
    for wanted in (None, SortOrder(order_id=0)):
        result = _rewritten(tmp_path / str(wanted is None), [_table(rows)], wanted)
        (file,) = result.staged
        assert file.sort_order_id == 0
        assert pq.read_metadata(file.file_path).row_group(0).sorting_columns == ()
        assert pq.read_table(file.file_path)["id"].to_pylist() == list(range(50))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ([_sort_field(3), _sort_field(8, DayTransform()), _sort_field(13)], [2]),
        ([_sort_field(3, BucketTransform(2)), _sort_field(13)], []),
        ([_sort_field(4), _sort_field(3)], []),
        ([_sort_field(16), _sort_field(1, direction=SortDirection.DESC)], [14, 0]),
    ],
)
def test_footers_name_only_columns_that_are_sorted_in_parquets_own_order(
    fields: list[SortField], said: list[int]
) -> None:
    columns = arrow_schemas.file_schema(SCHEMA)
    bound = sort_order_keys.bind(SortOrder(*fields, order_id=1), SCHEMA, columns)
    assert [one.column_index for one in sort_order_keys.sorting_columns(bound, columns)] == said


@pytest.mark.parametrize("field", [_sort_field(1, UnknownTransform("zorder")), _sort_field(99), _sort_field(18)])
def test_orders_that_cannot_be_computed_are_refused_before_anything_is_written(
    tmp_path: Path, field: SortField
) -> None:
    with pytest.raises(errors.UnsupportedError, match="sort order 9"):
        _rewritten(tmp_path, [_table(_random_rows(5))], SortOrder(field, order_id=9))
    assert tasks.files_below(tmp_path) == []


def test_rolled_files_do_not_overlap(tmp_path: Path) -> None:
    """A task is sorted as a whole, so its files follow one another."""
    tables = [_table(_random_rows(500)) for _ in range(3)]
    result = _rewritten(tmp_path, tables, SortOrder(_sort_field(5), order_id=2), target=10_000, limits=SMALL_RUNS)
    assert len(result.staged) > 2
    ranges = [pq.read_table(file.file_path)["d"].drop_null().to_numpy() for file in result.staged]
    numbers = np.concatenate(ranges)
    assert (np.diff(numbers[~np.isnan(numbers)]) >= 0).all()


def test_runs_leave_nothing_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{scratch},/elsewhere")
    spilled = []
    whole = sort_rows.Sorter._spill

    def watched(self: sort_rows.Sorter) -> None:
        whole(self)
        spilled.append(sum(file.tell() for file in self._files))

    monkeypatch.setattr(sort_rows.Sorter, "_spill", watched)
    _rewritten(tmp_path, [_table(_random_rows(300))], SortOrder(_sort_field(5), order_id=2), limits=SMALL_RUNS)
    assert len(spilled) > 0
    assert list(scratch.iterdir()) == []
