"""Strategies that sort, from plan to commit on real tables: rows stay, outputs are sorted and their ranges disjoint,
and a second run has nothing to do; with nulls, NaN, odd texts, deletes and older partition specs."""

from __future__ import annotations

import random
import struct
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.types import DecimalType, DoubleType, LongType, NestedField, StringType, TimestampType
from tests.factories import lake as lakes
from tests.factories import manifests, reader
from tests.factories.examples import examples

from iceberg_compaction import Compactor, Kind, errors
from iceberg_compaction.model.rewrite_plan import LeftOutReason

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table import Table

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "x", DoubleType()),
    NestedField(3, "s", StringType()),
    NestedField(4, "at", TimestampType()),
    NestedField(5, "d", DecimalType(20, 2)),
)
ROWS = SCHEMA.as_arrow()
SMALL = {"write.target-file-size-bytes": "8000"}
ODD = [
    "",
    "a",
    "ä",
    "\U0010ffff" * 20,
    "z\u0000",
    "zebra",
    "👩‍👩‍👧",
    "é",
    "\ud7ff",
    "aaaaaaaaaaaaaaaaaaaa1",
    "aaaaaaaaaaaaaaaaaaaa2",
]
NUMBERS = [float("nan"), float("-inf"), -0.0, 0.0, 1.5, float("inf"), -3.25, None]


def data(seed: int, rows: int) -> pa.Table:
    dice = random.Random(seed)
    noon = datetime(2026, 1, 1, 12)
    return pa.table(
        {
            "id": [dice.choice([None, dice.randrange(-500, 500), dice.randrange(10)]) for _ in range(rows)],
            "x": [dice.choice([*NUMBERS, dice.random()]) for _ in range(rows)],
            "s": [dice.choice([None, *ODD, f"{dice.random()}"]) for _ in range(rows)],
            "at": [noon + timedelta(minutes=dice.randrange(6000)) for _ in range(rows)],
            "d": [Decimal(dice.randrange(1000)) / 4 for _ in range(rows)],
        },
        schema=ROWS,
    )


def make(lake: lakes.Lake, name: str, *, files: int = 4, rows: int = 300, seed: int = 0, **given: Any) -> Table:
    table = lake.catalog.create_table(lake.name(name), SCHEMA, properties=SMALL, **given)
    for number in range(files):
        table.append(data(seed * 100 + number, rows))
    return table


def compactor(lake: lakes.Lake, strategy: str = "sort", **options: Any) -> Compactor:
    given_options = {name.replace("_", "-"): value for name, value in options.items()}
    return Compactor(lake.settings, strategy, engine="inline", options=given_options)


def contents(table: Table) -> list[tuple[str, int | None, pa.Table]]:
    """Partition, sort order id and rows of every data file, file by file in the order of writing."""
    table = table.refresh()
    files = sorted((task.file for task in table.scan().plan_files()), key=lambda file: file.file_path)
    return [
        (
            str(file.partition),
            file.sort_order_id,
            pq.read_table(file.file_path.removeprefix("file://"), partitioning=None),
        )
        for file in files
    ]


def key(value: Any, *, descending: bool = False, nulls_first: bool = True) -> tuple[int, Any]:
    """A value as Iceberg orders it."""
    if value is None:
        return (0 if nulls_first else 2), 0
    if isinstance(value, float):
        (bits,) = struct.unpack(">q", struct.pack(">d", value))
        value = bits if bits >= 0 else bits ^ (2**63 - 1)
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogatepass")
    if descending:
        value = (*(-byte for byte in value), 1) if isinstance(value, bytes) else -value
    return 1, value


def check_sorted(table: Table, column: str, **way: bool) -> int:
    """Rows of each partition are in order, from file to file too. The number of files."""
    by_partition: dict[str, list[list[tuple[int, Any]]]] = {}
    found = contents(table)
    for partition, _, rows in found:
        by_partition.setdefault(partition, []).append([key(value, **way) for value in rows[column].to_pylist()])
    for files in by_partition.values():
        for values in files:
            assert all(left <= right for left, right in pairwise(values))
        files.sort(key=lambda values: (values[0], values[-1]))
        assert all(left[-1] <= right[0] for left, right in pairwise(files))
    return len(found)


def settle(lake: lakes.Lake, name: str, strategy: str = "sort", **options: Any) -> Table:
    """One run, after which a second one has nothing to do; the rows are the same."""
    table = lake.catalog.load_table(lake.name(name))
    before = reader.rows(table)
    outcome = compactor(lake, strategy, **options).compact_table(lake.name(name))
    assert outcome.kind is Kind.COMPACTED, outcome.sentence
    assert outcome.proof is not None
    again = compactor(lake, strategy, **options).plan_table(lake.name(name))
    assert again.empty, again.sentence
    table = table.refresh()
    assert {str(row): count for row, count in reader.rows(table).items()} == {
        str(row): count for row, count in before.items()
    }
    return table


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("sorting")
    made = lakes.file_lake(folder)
    yield made
    lakes.close(made)


@examples(4)
@given(
    seed=st.integers(0, 10**6),
    column=st.sampled_from(["id", "x", "s", "d"]),
    descending=st.booleans(),
    nulls_first=st.booleans(),
    by_bucket=st.booleans(),
)
def test_r34_any_column_is_sorted_within_partitions_and_a_second_run_is_empty(
    lake: lakes.Lake, seed: int, column: str, descending: bool, nulls_first: bool, by_bucket: bool
) -> None:
    name = f"table_{len(lake.catalog.list_tables(lake.namespace))}"
    spec = (
        PartitionSpec(PartitionField(1, 1000, BucketTransform(2), "b")) if by_bucket else UNPARTITIONED_PARTITION_SPEC
    )
    make(lake, name, seed=seed, files=3, partition_spec=spec)
    way = f"{'DESC' if descending else 'ASC'} NULLS {'FIRST' if nulls_first else 'LAST'}"
    table = settle(lake, name, sort_order=f"{column} {way}, s DESC" if column != "s" else f"s {way}")
    assert check_sorted(table, column, descending=descending, nulls_first=nulls_first) > 1
    assert {order_id for _, order_id, _ in contents(table)} == {0}


def test_r42_outputs_name_the_table_order_that_was_applied_whichever_it_is(lake: lakes.Lake) -> None:
    by_s = SortOrder(SortField(3, IdentityTransform(), SortDirection.ASC, NullOrder.NULLS_FIRST))
    table = make(lake, "orders", sort_order=by_s)
    own = table.sort_order().order_id
    table = settle(lake, "orders")
    assert check_sorted(table, "s") > 1
    assert {order_id for _, order_id, _ in contents(table)} == {own}
    with table.update_sort_order() as update:
        update.desc("id", IdentityTransform())
    newer = table.refresh().sort_order().order_id
    assert newer != own
    table = settle(lake, "orders")  # by the new order
    assert {order_id for _, order_id, _ in contents(table)} == {newer}
    assert check_sorted(table, "id", descending=True, nulls_first=False) > 1
    table = settle(lake, "orders", sort_order="s ASC NULLS FIRST")  # an older order of the table
    assert {order_id for _, order_id, _ in contents(table)} == {own}
    table = settle(lake, "orders", sort_order="s DESC")  # none of the table's
    assert {order_id for _, order_id, _ in contents(table)} == {0}
    assert table.current_snapshot().summary["compaction.sort-order"] == "s DESC NULLS LAST"


def test_deleted_rows_go_and_the_others_are_sorted(lake: lakes.Lake) -> None:
    table = make(lake, "deleted", files=3)
    first, second, *_ = sorted(task.file.file_path for task in table.scan().plan_files())
    table = manifests.add_position_delete(table, {first: [0, 3, 5], second: [1]}, file_scoped=False)
    table = manifests.add_equality_delete(table, pa.table({"id": pa.array([1, 2, 3], pa.int64())}))
    table.append(data(77, 50))
    table = settle(lake, "deleted", sort_order="id")
    check_sorted(table, "id")
    assert table.inspect.delete_files().num_rows == 0


def test_rows_of_older_specs_move_and_are_sorted_with_those_that_are_there(lake: lakes.Lake) -> None:
    table = make(lake, "evolved", files=2)
    with table.update_spec() as update:
        update.add_field("id", BucketTransform(3), "b")
    for number in range(3):
        table.append(data(50 + number, 200))
    table = settle(lake, "evolved", sort_order="at")
    check_sorted(table, "at")
    assert {task.file.spec_id for task in table.scan().plan_files()} == {table.spec().spec_id}


def test_what_is_appended_later_is_all_that_a_later_run_sorts(lake: lakes.Lake) -> None:
    table = make(lake, "later", files=4)
    table = settle(lake, "later", sort_order="at")
    before = {task.file.file_path for task in table.scan().plan_files()}
    late = data(99, 300)
    far = pa.array([value.as_py() + timedelta(days=40) for value in late["at"]], pa.timestamp("us"))
    table.append(late.set_column(3, ROWS.field(3), far))
    table = settle(lake, "later", sort_order="at")
    after = {task.file.file_path for task in table.scan().plan_files()}
    assert len(before & after) >= len(before) - 1  # the last may be joined with them for its size
    check_sorted(table, "at")


def test_time_series_orders_by_time_and_cold_partitions_have_larger_files(lake: lakes.Lake) -> None:
    by_day = PartitionSpec(PartitionField(4, 1000, DayTransform(), "day"))
    make(lake, "times", files=5, rows=900, partition_spec=by_day)
    options = {"cold_target_file_size_bytes": 200_000, "cold_after": "2d", "min_input_files": 2}
    warm = compactor(lake, "time-series", min_input_files=2).plan_table(lake.name("times"))
    table = settle(lake, "times", "time-series", **options)
    files = check_sorted(table, "at")
    assert files == len({partition for partition, _, _ in contents(table)})
    assert warm.output_files > files


def test_the_hot_window_counts_from_now(lake: lakes.Lake) -> None:
    table = make(lake, "hot", files=3)
    now = datetime.now().replace(microsecond=0)
    rows = data(5, 100)
    fresh = pa.array([now - timedelta(seconds=number) for number in range(100)], pa.timestamp("us"))
    table.append(rows.set_column(3, ROWS.field(3), fresh))
    plan = compactor(lake, "time-series", hot_window="2d").plan_table(lake.name("hot"))
    assert plan.input_records == 900
    assert [left.reason for left in plan.left_out] == [LeftOutReason.HOT]


def test_dimensional_clusters_by_the_columns_given(lake: lakes.Lake) -> None:
    make(lake, "dimensions", files=3)
    table = settle(lake, "dimensions", "dimensional", cluster_by="s, id")
    check_sorted(table, "s")


def test_snapshots_that_have_expired_do_not_make_sorted_files_unsorted(lake: lakes.Lake) -> None:
    table = settle(lake, make(lake, "expired", files=3).name()[1], sort_order="id")
    table.append(data(3, 10).drop_null())  # nulls have no range, so files with them may be left alone
    keep = table.refresh().current_snapshot().snapshot_id
    old = [snapshot.snapshot_id for snapshot in table.snapshots() if snapshot.snapshot_id != keep]
    table.maintenance.expire_snapshots().by_ids(old).commit()
    plan = compactor(lake, sort_order="id").plan_table(lake.name("expired"))
    assert not plan.empty
    table = settle(lake, "expired", sort_order="id")
    check_sorted(table, "id")


def test_a_transform_that_has_no_meaning_for_a_column_gets_a_sentence(lake: lakes.Lake) -> None:
    make(lake, "meaning", files=1)
    with pytest.raises(errors.ConfigError, match="sort-order applies day to s, which is of type string"):
        compactor(lake, sort_order="day(s)").compact_table(lake.name("meaning"))
