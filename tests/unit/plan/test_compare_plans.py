"""Two plans of one table, compared."""

from __future__ import annotations

from typing import Any

import pytest
from tests.factories import inventories

from iceberg_compaction.model import rewrite_plan
from iceberg_compaction.model.plan_difference import GroupChange, PlanDifference
from iceberg_compaction.model.policies import Policy
from iceberg_compaction.plan import build, compare_plans

MIB = 2**20
DAYS = [f'{{"day": "2026-01-0{number}"}}' for number in range(1, 6)]


def plan(files: dict[int, int], *, snapshot: int = 7, prefix: str = "f", **options: Any) -> rewrite_plan.Plan:
    """The plan of a table with so many small files in each of some days."""
    rows = inventories.files(
        [MIB] * sum(files.values()),
        partitions=[DAYS[day] for day, count in files.items() for _ in range(count)],
        prefix=prefix,
    )
    pin = inventories.PIN.model_copy(update={"snapshot_id": snapshot})
    made = build.build(inventories.view(rows, pin=pin), Policy(**options), plan_id=f"plan-{snapshot}", now_ms=0)
    return rewrite_plan.from_json(made.model_dump_json())  # as it comes from a file


def changes(difference: PlanDifference) -> list[tuple[str, str, int, int, int]]:
    return [
        (group.change.value, group.partition, group.old_files, group.new_files, group.shared_files)
        for group in difference.groups
    ]


def figures(difference: PlanDifference) -> dict[str, float]:
    return {figure.name: figure.change for figure in difference.figures}


def test_a_plan_is_the_same_as_itself() -> None:
    made = plan({0: 9, 1: 9})
    difference = compare_plans.compare(made, made)
    assert difference.sentence == "2 groups have the same files in both plans."
    assert (difference.groups, difference.options, difference.same_groups) == ((), (), 2)
    assert set(figures(difference).values()) == {0}


def test_groups_are_new_gone_or_changed() -> None:
    old, new = plan({0: 9, 1: 9, 2: 9}), plan({0: 9, 1: 12, 3: 9}, snapshot=8)
    difference = compare_plans.compare(old, new)
    # File names go on over days, so day 2 shares its first files, and day 3 has three of what was day 2.
    assert changes(difference) == [
        ("changed", DAYS[1], 9, 12, 9),
        ("changed", DAYS[3], 9, 9, 6),
    ]
    assert figures(difference) == {
        "files": 3,
        "bytes": 3 * MIB,
        "groups": 0,
        "outputs": 0,
        "core-seconds": pytest.approx(3 * MIB / 40e6, rel=0.1),
        "cost": pytest.approx(new.cost.cost - old.cost.cost),
        "saving": pytest.approx(new.cost.saving - old.cost.saving),
    }
    assert old.cost.cost > 0
    assert difference.sentence == "2 changed, 1 as before; the table has moved from snapshot 7 to 8."
    assert difference.groups[0].sentence == "day=2026-01-02: 3 came to it"


def test_a_group_without_common_files_in_the_same_partition_has_changed() -> None:
    difference = compare_plans.compare(plan({0: 9, 1: 9}), plan({0: 6, 2: 9}, snapshot=8, prefix="g"))
    assert changes(difference) == [
        ("changed", DAYS[0], 9, 6, 0),
        ("gone", DAYS[1], 9, 0, 0),
        ("new", DAYS[2], 0, 9, 0),
    ]
    gone, new = difference.groups[1:]
    assert gone.sentence == "day=2026-01-02: 9 files (9.0 MiB), of no group any more"
    assert new.sentence == "day=2026-01-03: 9 files (9.0 MiB), of no group before"
    assert difference.cause == "the table has moved from snapshot 7 to 8"


def test_options_that_differ_are_the_reason_and_a_group_that_is_left_alone_says_why() -> None:
    old = plan({0: 9})
    new = plan({0: 9}, triggers={"max_file_count_per_partition": 20}, min_input_files=3)
    difference = compare_plans.compare(old, new)
    assert [(option.name, option.old, option.new) for option in difference.options] == [
        ("min-input-files", "5", "3"),
        ("triggers.max-file-count-per-partition", "not set", "20"),
    ]
    (group,) = difference.groups
    assert group.change is GroupChange.GONE
    assert difference.cause == "options differ: min-input-files, triggers.max-file-count-per-partition"
    assert difference.sentence == f"1 gone, 0 as before; {difference.cause}."
    (left,) = difference.left_out
    assert "not > max_file_count_per_partition 20" in left


def test_a_group_that_was_divided_is_one_that_changed_and_new_ones() -> None:
    difference = compare_plans.compare(plan({0: 9}), plan({0: 9}, max_file_group_input_files=5))
    assert changes(difference) == [("changed", DAYS[0], 9, 5, 5)]
    many = compare_plans.compare(plan({0: 15}), plan({0: 15}, max_file_group_input_files=5))
    assert changes(many) == [
        ("changed", DAYS[0], 15, 5, 5),
        ("new", DAYS[0], 0, 5, 5),
        ("new", DAYS[0], 0, 5, 5),
    ]
    assert "5 of them of other groups before" in many.groups[1].sentence


def test_plans_without_groups_are_compared_too() -> None:
    empty = plan({0: 1})
    assert compare_plans.compare(empty, empty).sentence == "Neither plan has a group."
    assert figures(compare_plans.compare(empty, plan({0: 9})))["groups"] == 1
