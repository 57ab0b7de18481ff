"""Filters that hold for every strategy: what they leave out, for which reason, and in which words."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.factories import inventories

from iceberg_compaction import errors
from iceberg_compaction.model import table_view
from iceberg_compaction.model.policies import Policy, Strategy
from iceberg_compaction.model.rewrite_plan import EmptyPlan, LeftOutReason, Plan
from iceberg_compaction.plan import build

if TYPE_CHECKING:
    from iceberg_compaction.model.table_view import TableView

HOUR = 3_600_000
COMMITS = pa.table(
    {
        "sequence_number": [2, 3, 5, 6],
        "snapshot_id": [20, 30, 50, 60],
        "timestamp_ms": [2 * HOUR, 3 * HOUR, 5 * HOUR, 6 * HOUR],
        "rewrites": [False, False, False, True],
        "sorted_by": pa.nulls(4, pa.string()),
    },
    schema=table_view.COMMITS,
)


def view(*files: tuple[str, int], specs: list[int] | int = 0, **changes: Any) -> TableView:
    """Small files, each in a partition and of a file sequence number, seen after ten hours."""
    rows = inventories.files([100] * len(files), partitions=[partition for partition, _ in files], specs=specs)
    index = rows.column_names.index("file_sequence_number")
    numbers = pa.array([number for _, number in files], pa.int64())
    rows = rows.set_column(index, table_view.FILES.field("file_sequence_number"), numbers)
    return replace(inventories.view(rows), commits=COMMITS, now_ms=10 * HOUR, **changes)


A, B, NULL = '{"day": "2026-01-31", "n": 1}', '{"day": "2026-02-01", "n": 2}', '{"day": null, "n": 2}'


def plan_of(seen: TableView, **options: Any) -> Plan | EmptyPlan:
    policy = Policy(**{"strategy": Strategy.FULL, "rewrite_all": True, **options})
    return build.build(seen, policy, plan_id="p", now_ms=seen.now_ms)


def left(plan: Plan | EmptyPlan) -> list[tuple[LeftOutReason, int, str]]:
    return [(each.reason, each.files, each.sentence) for each in plan.left_out]


@pytest.mark.parametrize(
    ("filters", "files"),
    [
        ("day=2026-01-31", 2),
        (["day=2026-01-*", "day=2026-02-01"], 3),
        (["day=2026-*", "n=2"], 1),
        ("day=null", 1),
        ("n=[12]", 4),
        ("day=2027*", 0),
    ],
)
def test_partitions_are_chosen_by_value_or_pattern(filters: Any, files: int) -> None:
    plan = plan_of(view((A, 1), (A, 1), (B, 1), (NULL, 1)), partition=filters)
    assert plan.input_files == files
    if files == 2:
        assert left(plan) == [
            (LeftOutReason.OTHER_PARTITION, 2, "2 files (200 B) are in other partitions than day=2026-01-31")
        ]


def test_a_partition_field_that_no_file_has_is_a_wrong_setting() -> None:
    with pytest.raises(errors.ConfigError, match=r"no file has a partition field 'days' \(did you mean day\?\)"):
        plan_of(view((A, 1)), partition="days=1")
    with pytest.raises(ValueError, match="is no partition filter"):
        Policy(partition="day")


def test_files_of_other_specs_that_lack_the_field_do_not_match() -> None:
    plan = plan_of(view((A, 1), ("{}", 1), specs=[0, 1]), partition="day=*")
    assert plan.input_files == 1


@pytest.mark.parametrize(("age", "files"), [("1h", 3), ("5h", 2), ("7h", 1), ("8h", 0)])
def test_young_files_are_left_alone_by_the_time_of_their_snapshot(age: str, files: int) -> None:
    """Sequence number 4 has expired, so its files are at least as old as those of 5; 3 is from the third hour."""
    plan = plan_of(view((A, 3), (A, 4), (A, 6)), min_file_age=age)
    assert plan.input_files == files
    if files == 2:
        assert left(plan) == [(LeftOutReason.TOO_YOUNG, 1, "1 file (100 B) was added less than 5h ago")]


@pytest.mark.parametrize(
    ("since", "partitions"), [("20", {A, B}), ("30", {B}), ("50", set()), ("1970-01-01T04:00", {B}), ("7h", {B})]
)
def test_only_partitions_with_later_files_count_and_rewrites_do_not(since: str, partitions: set[str]) -> None:
    plan = plan_of(view((A, 2), (A, 3), (A, 6), (B, 2), (B, 5), (NULL, 2)), changed_since=since)
    assert {group.partition for group in plan.groups} == partitions
    assert all(reason is LeftOutReason.UNCHANGED for reason, _, _ in left(plan))


def test_before_the_first_snapshot_that_is_kept_everything_counts() -> None:
    assert plan_of(view((A, 1), (B, 3)), changed_since="1970-01-01").input_files == 2


def test_a_snapshot_that_is_not_there_is_a_wrong_setting() -> None:
    with pytest.raises(errors.ConfigError, match="has no snapshot 99, which changed-since names"):
        plan_of(view((A, 1)), changed_since="99")
    with pytest.raises(errors.ConfigError, match="is not a moment"):
        plan_of(view((A, 1)), changed_since="yesterday")


@pytest.mark.parametrize("options", [{"min_file_age": "1h"}, {"changed_since": "7d"}])
def test_format_version_1_has_no_ages(options: dict[str, Any]) -> None:
    with pytest.raises(errors.UnsupportedError, match="have no sequence numbers, as in format version 1"):
        plan_of(replace(view((A, 0)), commits=COMMITS.slice(0, 0)), **options)
    assert plan_of(replace(view(), commits=None), **options).empty


def test_old_specs_and_sequence_numbers() -> None:
    plan = plan_of(view((A, 1), (B, 1), ("{}", 1), specs=[0, 0, 1]), only_old_spec=True, keep_spec=True)
    assert plan.input_files == 1
    assert left(plan)[0][2].endswith("are of the current partition spec, because of only-old-spec")
    plan = plan_of(view((A, 2), (A, 3), (A, 4)), max_file_sequence_number=3)
    assert plan.input_files == 2
    assert left(plan)[0][2].endswith("1 file (100 B) has a file sequence number above 3")


def test_a_file_counts_under_the_first_filter_that_rules_it_out() -> None:
    plan = plan_of(view((A, 2), (B, 6)), partition="n=1", min_file_age="9h", max_file_sequence_number=1)
    assert [(reason, count) for reason, count, _ in left(plan)] == [
        (LeftOutReason.OTHER_PARTITION, 1),
        (LeftOutReason.TOO_YOUNG, 1),
    ]
