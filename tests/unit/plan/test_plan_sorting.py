"""Strategies that sort: which files they choose, how they group them, and that a second plan finds nothing, whatever
the ranges, nulls, sizes and marks of the files are. Groups are performed by a simulated writer."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.factories.examples import examples
from tests.factories.keyed_tables import BY_KEY, ORDER, ROW, KeyedFile, KeyedTable

from iceberg_compaction import errors
from iceberg_compaction.execute.prepare import cut_tasks
from iceberg_compaction.model import row_order_terms
from iceberg_compaction.model.output_layout import RowOrder
from iceberg_compaction.model.policies import Policy, Strategy
from iceberg_compaction.model.rewrite_plan import EmptyPlan, GroupReason, LeftOutReason, Plan
from iceberg_compaction.model.row_order_terms import SortTerm
from iceberg_compaction.model.table_shape import ColumnShape, PartitionTerm, TableShape
from iceberg_compaction.plan import build

TARGET = 100 * ROW
DAY_MS, DAY_US = 86_400_000, 86_400_000_000
TIMES = TableShape(columns=(ColumnShape(name="k", field_id=1, type="timestamp"),))


def plan_of(table: KeyedTable, strategy: Strategy = Strategy.SORT, **options: Any) -> Plan | EmptyPlan:
    policy = Policy(strategy=strategy, **{"target_file_size_bytes": TARGET, **options})
    return build.build(table.view(), policy, plan_id="p", now_ms=table.now_ms)


def keyed(*ranges: tuple[int, int], order_id: int | None = ORDER, rows: int = 100) -> KeyedTable:
    """Files of so many rows each, whose keys run from one end of a range to the other."""
    files = [
        KeyedFile(
            path=f"f{number}",
            keys=tuple(low + (high - low) * row // max(1, rows - 1) for row in range(rows)),
            order_id=order_id,
        )
        for number, (low, high) in enumerate(ranges)
    ]
    return KeyedTable(files=tuple(files))


def reasons(plan: Plan | EmptyPlan) -> dict[LeftOutReason, int]:
    return {left.reason: left.files for left in plan.left_out}


KEYS = st.one_of(st.none(), st.integers(-5, 5), st.integers(-1000, 1000), st.sampled_from([-(2**63), 2**63 - 1]))


@st.composite
def tables(draw: st.DrawFn) -> KeyedTable:
    files = []
    for number in range(draw(st.integers(0, 14))):
        base, width = draw(st.integers(0, 900)), draw(st.sampled_from([0, 1, 10, 300]))
        count = draw(st.sampled_from([1, 5, 40, 80, 120, 170, 400]))
        dice = random.Random(draw(st.integers(0, 999)))
        keys: list[int | None] = [base + dice.randint(0, width) for _ in range(count)]
        odd = draw(st.lists(KEYS, max_size=2)) if draw(st.booleans()) else []
        if draw(st.integers(0, 9)) == 0:
            keys, odd = [None] * count, []
        files.append(
            KeyedFile(
                path=f"f{number}",
                keys=(*odd, *keys),
                partition=f'{{"p": {draw(st.integers(0, 1))}}}',
                sequence=draw(st.sampled_from([1, 2, 3])),
                order_id=draw(st.sampled_from([None, 0, ORDER])),
            )
        )
    marks = {1: None, 2: row_order_terms.key(BY_KEY)}  # the snapshot of 3 has expired
    return KeyedTable(files=tuple(files), sorted_by=marks, writes_order=draw(st.booleans()))


@examples(60)
@given(
    table=tables(),
    most=st.sampled_from([3, 8, 30, 1000]),
    depth=st.sampled_from([1, 2]),
    few=st.sampled_from([2, 5]),
    ratio=st.sampled_from([0.4, 1.0, 1.15]),
    strategy=st.sampled_from([Strategy.SORT, Strategy.DIMENSIONAL]),
)
def test_a_second_plan_is_empty(
    table: KeyedTable, most: int, depth: int, few: int, ratio: float, strategy: Strategy
) -> None:
    ad_hoc = {} if table.writes_order else {"sort_order": "k"}
    given_order = ad_hoc if strategy is Strategy.SORT else {}
    shape = table.shape if table.writes_order else replace(table.shape, sort_orders={})
    table = replace(table, shape=shape)
    options = {"max_sort_bytes": most * TARGET, "max_overlap_depth": depth, "min_input_files": few, **given_order}
    first = plan_of(table, strategy, **options)
    after = table.after(first, ratio) if isinstance(first, Plan) else table
    second = plan_of(after, strategy, **options)
    assert second.empty, second.sentence
    assert sorted(map(str, keys_of(after))) == sorted(map(str, keys_of(table)))
    if isinstance(first, Plan):
        assert all(group.bytes <= most * TARGET or group.files == 1 for group in first.groups)
        assert len(cut_tasks.build_tasks(first, cores=64, gathers=True)) == len(first.groups)
    counted = sum(left.files for left in first.left_out) + first.input_files
    assert counted == len(table.files)


def keys_of(table: KeyedTable) -> list[tuple[str, int | None]]:
    return [(file.partition, key) for file in table.files for key in file.keys]


@examples(60)
@given(table=tables())
def test_ranges_of_a_partition_are_disjoint_afterwards(table: KeyedTable) -> None:
    first = plan_of(table, max_sort_bytes=10**9)
    after = table.after(first) if isinstance(first, Plan) else table
    for partition in {file.partition for file in after.files}:
        ranges = sorted(file.bounds for file in after.files if file.partition == partition and file.bounds)
        assert all(left[1] <= right[0] for left, right in pairwise(ranges)), ranges


def test_files_that_are_not_sorted_become_one_group_and_one_task() -> None:
    plan = plan_of(keyed(*[(0, 1000)] * 12, order_id=None))
    assert [(group.files, group.reason) for group in plan.groups] == [(12, GroupReason.UNSORTED)]
    assert plan.layout.row_order is RowOrder.GIVEN
    assert plan.layout.sort_terms == BY_KEY
    assert len(cut_tasks.build_tasks(plan, cores=8, gathers=True)) == 1
    assert Plan.model_validate_json(plan.model_dump_json()) == plan
    assert plan.groups[0].sentence == "12 files of 97.7 KiB on average, not in order, become 12"


def test_sorted_files_that_overlap_are_sorted_together_and_others_stay() -> None:
    plan = plan_of(keyed((0, 10), (20, 30), (25, 40), (40, 50)))
    assert plan.files["file_path"].to_pylist() == ["f1", "f2"]
    assert plan.groups[0].reason is GroupReason.OVERLAPPING
    assert reasons(plan) == {LeftOutReason.IN_ORDER: 2}
    assert "in order by k ASC NULLS FIRST" in plan.left_out[0].sentence


def test_ranges_that_touch_or_are_one_value_do_not_overlap() -> None:
    assert plan_of(keyed((0, 5), (5, 5), (5, 5), (5, 9))).empty
    assert not plan_of(keyed((0, 9), (5, 5))).empty


def test_sorted_files_may_overlap_as_deep_as_the_policy_says() -> None:
    staggered = keyed((0, 12), (10, 22), (20, 32), (30, 42))
    assert not plan_of(staggered).empty
    assert plan_of(staggered, max_overlap_depth=2).empty
    assert not plan_of(keyed((0, 12), (1, 22), (2, 32)), max_overlap_depth=2).empty


def test_what_one_task_cannot_sort_is_left_alone_with_a_reason() -> None:
    plan = plan_of(keyed(*[(0, 100)] * 20, (200, 210), (205, 220)), max_sort_bytes=5 * TARGET)
    assert plan.files["file_path"].to_pylist() == ["f20", "f21"]
    assert reasons(plan) == {LeftOutReason.TOO_LARGE_TO_SORT: 20}
    assert "more than one task sorts (488.3 KiB, by max-sort-bytes)" in plan.left_out[0].sentence


def test_a_large_partition_is_cut_where_ranges_do_not_overlap() -> None:
    plan = plan_of(keyed(*[(at * 10, at * 10 + 10) for at in range(20)], order_id=None), max_sort_bytes=5 * TARGET)
    assert [group.files for group in plan.groups] == [5, 5, 5, 5]


def test_small_sorted_files_are_merged_with_their_neighbours_only() -> None:
    ranges = [(at * 10, at * 10 + 5) for at in range(12)]
    plan = plan_of(keyed(*ranges, rows=10))
    assert [(group.files, group.reason) for group in plan.groups] == [(12, GroupReason.SMALL_FILES)]
    large = KeyedFile(path="large", keys=tuple(range(56, 58)) * 50, order_id=ORDER)
    table = keyed(*ranges, rows=10)
    plan = plan_of(replace(table, files=(*table.files, large)))
    assert [group.files for group in plan.groups] == [6, 6]


def test_a_file_without_bounds_that_is_not_sorted_puts_its_whole_partition_in_question() -> None:
    table = keyed((0, 10), (20, 30))
    lost = KeyedFile(path="lost", keys=(None,) * 100)
    plan = plan_of(replace(table, files=(*table.files, lost)))
    assert plan.groups[0].files == 3


def test_a_budget_that_cuts_a_group_drops_it() -> None:
    plan = plan_of(keyed(*[(0, 100)] * 4, order_id=None), max_files_to_rewrite=3)
    assert plan.empty
    assert reasons(plan) == {LeftOutReason.OVER_BUDGET: 4}


def test_a_group_that_is_too_much_for_a_budget_does_not_keep_smaller_ones_waiting() -> None:
    files = [KeyedFile(path=f"large-{number}", keys=tuple(range(100)), partition='{"p": 1}') for number in range(6)]
    files += [KeyedFile(path=f"small-{number}", keys=tuple(range(100)), partition='{"p": 2}') for number in range(3)]
    plan = plan_of(KeyedTable(files=tuple(files)), max_files_to_rewrite=4)
    assert plan.files["file_path"].to_pylist() == ["small-0", "small-1", "small-2"]
    assert reasons(plan) == {LeftOutReason.OVER_BUDGET: 6}


def test_rewrite_all_sorts_every_file() -> None:
    table = keyed((0, 5), (5, 9))
    plan = plan_of(table, rewrite_all=True)
    assert plan.groups[0].files == 2
    too_large = plan_of(keyed(*[(0, 9)] * 6), rewrite_all=True, max_sort_bytes=3 * TARGET)
    assert [(group.files, group.reason) for group in too_large.groups] == [(6, GroupReason.REWRITE_ALL)]


def test_an_order_that_begins_with_the_wanted_one_will_do() -> None:
    longer = (*BY_KEY, SortTerm(column="x", field_id=2))
    table = keyed((0, 5), (6, 9))
    shape = replace(table.shape, sort_orders={ORDER: longer})
    assert plan_of(replace(table, shape=shape), sort_order="k").empty
    assert not plan_of(replace(table, shape=shape), sort_order="k desc").empty


def test_leading_columns_whose_bounds_do_not_tell_leave_it_to_the_marks() -> None:
    table = replace(keyed((0, 9), (0, 9)), measured="other")
    assert plan_of(table).empty
    assert not plan_of(replace(table, files=(*table.files, KeyedFile(path="new", keys=(1,))))).empty


def hours(*spans: tuple[float, float], partition: str = "{}", rows: int = 100) -> list[KeyedFile]:
    """Files whose times run between so many hours before now (30 days after 1970)."""
    now = 30 * DAY_US
    files = []
    for number, (old, young) in enumerate(spans):
        low, high = now - int(old * DAY_US / 24), now - int(young * DAY_US / 24)
        keys = tuple(low + (high - low) * row // max(1, rows - 1) for row in range(rows))
        files.append(KeyedFile(path=f"t{partition}{number}", keys=keys, partition=partition))
    return files


def timed(*files: KeyedFile, shape: TableShape = TIMES) -> KeyedTable:
    return KeyedTable(files=files, shape=shape, now_ms=30 * DAY_MS, writes_order=False)


def test_hot_files_are_left_alone_and_others_ordered_by_time() -> None:
    table = timed(*hours((100, 90), (95, 85), (50, 10), (10, 1)))
    plan = plan_of(table, Strategy.TIME_SERIES)
    assert plan.input_files == 2
    assert reasons(plan) == {LeftOutReason.HOT: 2}
    assert plan.left_out[0].sentence.endswith("are hot: rows there have k in the last 1d (hot-window)")
    assert plan_of(table.after(plan), Strategy.TIME_SERIES).empty
    assert plan_of(table, Strategy.TIME_SERIES, hot_window="30m").input_files == 4


def test_a_partition_of_time_is_hot_as_a_whole() -> None:
    by_day = replace(TIMES, partition=(PartitionTerm(name="k_day", column="k", transform="day"),))
    old, new = hours((100, 90), (95, 85), partition='{"k_day": 1}'), hours((30, 26), (20, 1), partition='{"k_day": 2}')
    plan = plan_of(timed(*old, *new, shape=by_day), Strategy.TIME_SERIES)
    assert plan.input_files == 2
    assert reasons(plan) == {LeftOutReason.HOT: 2}


def test_cold_partitions_get_larger_files() -> None:
    old = hours(*[(600 + at, 590 + at) for at in range(12)], partition='{"p": 1}')
    new = hours(*[(100 + at, 90 + at) for at in range(12)], partition='{"p": 2}')
    table = timed(*old, *new)
    options = {"cold_after": "20d", "cold_target_file_size_bytes": 6 * TARGET}
    plan = plan_of(table, Strategy.TIME_SERIES, **options)
    assert {(group.reason, group.outputs) for group in plan.groups} == {
        (GroupReason.COLD, 2),
        (GroupReason.UNSORTED, 12),
    }
    tasks = {task.partition: task.sizes for task in cut_tasks.build_tasks(plan)}
    assert tasks['{"p": 1}'] == plan.layout.cold
    assert tasks['{"p": 2}'] is None
    assert plan_of(table.after(plan), Strategy.TIME_SERIES, **options).empty
    assert Plan.model_validate_json(plan.model_dump_json()) == plan


SPANS = st.tuples(st.floats(0, 1000), st.floats(0, 60)).map(lambda pair: (pair[0] + pair[1], pair[0]))


@examples(60)
@given(
    old=st.lists(SPANS, max_size=8),
    new=st.lists(SPANS, max_size=8),
    rows=st.sampled_from([3, 60, 150]),
    by_time=st.booleans(),
    cold=st.sampled_from([None, 4 * TARGET]),
)
def test_a_second_plan_of_time_series_is_empty_at_the_same_moment(
    old: list[tuple[float, float]], new: list[tuple[float, float]], rows: int, by_time: bool, cold: int | None
) -> None:
    partition = (PartitionTerm(name="p", column="k", transform="month"),) if by_time else ()
    files = [*hours(*old, partition='{"p": 1}', rows=rows), *hours(*new, partition='{"p": 2}', rows=rows)]
    table = timed(*files, shape=replace(TIMES, partition=partition))
    options = {"cold_after": "5d", "cold_target_file_size_bytes": cold}
    first = plan_of(table, Strategy.TIME_SERIES, **options)
    after = table.after(first) if isinstance(first, Plan) else table
    second = plan_of(after, Strategy.TIME_SERIES, **options)
    assert second.empty, second.sentence


def test_the_time_column_is_the_one_named_or_suggested() -> None:
    columns = tuple(
        ColumnShape(name=name, field_id=at, type=kind)
        for at, (name, kind) in enumerate([("k", "long"), ("a", "date"), ("b", "timestamptz"), ("c", "date")], start=1)
    )
    shape = TableShape(columns=columns)
    by_b = replace(shape, partition=(PartitionTerm(name="b_day", column="b", transform="day"),))
    sorted_c = replace(shape, sort_order=(SortTerm(column="c", field_id=4),))
    for given_shape, column in ((shape, "a"), (by_b, "b"), (sorted_c, "c")):
        plan = plan_of(timed(*hours((90, 80)), shape=given_shape), Strategy.TIME_SERIES)
        assert plan.layout.sort_terms[0].column == column
    plan = plan_of(timed(*hours((90, 80)), shape=sorted_c), Strategy.TIME_SERIES, time_column="b")
    assert [term.column for term in plan.layout.sort_terms] == ["b", "c"]


@pytest.mark.parametrize(
    ("strategy", "options", "kind", "words"),
    [
        (Strategy.TIME_SERIES, {}, errors.UnsupportedError, "it has no column of a date or timestamp"),
        (Strategy.TIME_SERIES, {"time_column": "k"}, errors.ConfigError, "is of type long, not a date"),
        (Strategy.TIME_SERIES, {"time_column": "kk"}, errors.ConfigError, "did you mean k"),
        (Strategy.SORT, {}, errors.UnsupportedError, "name columns with sort-order"),
        (Strategy.SORT, {"sort_order": "q"}, errors.ConfigError, "sort-order names 'q'"),
        (Strategy.DIMENSIONAL, {}, errors.UnsupportedError, "name them with cluster-by"),
        (Strategy.DIMENSIONAL, {"cluster_by": "k, k"}, errors.ConfigError, "names a column twice"),
    ],
)
def test_a_table_that_cannot_be_ordered_gets_a_sentence(
    strategy: Strategy, options: dict[str, Any], kind: type[Exception], words: str
) -> None:
    shape = TableShape(columns=(ColumnShape(name="k", field_id=1, type="long"),))
    with pytest.raises(kind, match=words):
        plan_of(replace(keyed((0, 1)), shape=shape), strategy, **options)


def test_dimensions_are_suggested_by_partitioning_and_sort_order() -> None:
    columns = tuple(ColumnShape(name=name, field_id=at, type="long") for at, name in enumerate("abcd", start=1))
    shape = TableShape(
        columns=columns,
        partition=(
            PartitionTerm(name="a", column="a", transform="identity"),
            PartitionTerm(name="b_bucket", column="b", transform="bucket[8]"),
        ),
        sort_order=(SortTerm(column="a", field_id=1), SortTerm(column="d", field_id=4, descending=True)),
    )
    plan = plan_of(replace(keyed((0, 1)), shape=shape), Strategy.DIMENSIONAL)
    assert row_order_terms.text(plan.layout.sort_terms) == "b ASC NULLS FIRST, d DESC NULLS FIRST"
    plan = plan_of(replace(keyed((0, 1)), shape=shape), Strategy.DIMENSIONAL, cluster_by="c,b")
    assert [term.column for term in plan.layout.sort_terms] == ["c", "b"]
