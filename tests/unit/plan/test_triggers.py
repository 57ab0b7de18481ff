"""Triggers: every row of the decision table at, below and above its threshold; presets; what is left out and why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.factories import inventories
from tests.factories.examples import examples
from tests.factories.simulated_writer import Data, perform

from iceberg_compaction.model.policies import Policy, Strategy, resolve_sizes
from iceberg_compaction.model.rewrite_past import LONG_AGO, RewritePast
from iceberg_compaction.model.rewrite_plan import EmptyPlan, LeftOutReason, Plan
from iceberg_compaction.model.table_view import DATA, EQUALITY_DELETES, POSITION_DELETES, TableView
from iceberg_compaction.model.triggers import THRESHOLDS, TriggerPreset, Triggers, canonical_name
from iceberg_compaction.plan import build, plan_request
from iceberg_compaction.plan.triggers import decision_table, measures, trigger_check

MIB, HOUR_MS = 2**20, 3_600_000
NOW_MS = 1_767_225_600_000
DAY_1, DAY_2 = '{"day": "2026-01-01"}', '{"day": "2026-01-02"}'
TARGET = 128 * MIB


def view(
    sizes: list[int],
    *,
    deletes: tuple[int, ...] = (),
    hours: float | None = None,
    commits: int | None = None,
    **more: Any,
) -> TableView:
    """A table of one partition; `deletes` are contents of delete files, `hours` since its last rewrite."""
    rows = inventories.files(
        [*sizes, *[1000] * len(deletes)], partitions=DAY_1, content=[*[DATA] * len(sizes), *deletes]
    )
    past = RewritePast(
        now_ms=NOW_MS, table_ms=None if hours is None else NOW_MS - round(hours * HOUR_MS), commits=commits
    )
    return inventories.view(rows, past=past, **more)


def with_deletes(sizes: list[int], files: int, share: float) -> TableView:
    """A table in which so many position delete files apply to each data file, and so many of its rows are deleted."""
    made = view(sizes)
    records = made.files["record_count"].to_pylist()
    deleted = pa.array([round(share * count) for count in records], pa.int64())
    return replace(made, delete_files=pa.array([files] * len(records), pa.int64()), deleted_rows=deleted)


def fires(table: TableView, **thresholds: Any) -> list[str]:
    """The triggers that fire in the only partition."""
    policy = Policy(target_file_size_bytes=TARGET, triggers=thresholds)
    outcome = trigger_check.check(plan_request.resolve(table, policy))
    assert outcome is not None
    (names,) = outcome.names(outcome.measures.partition[:1])
    return names.split(", ") if names else []


# Each row: the trigger, its threshold, a table at which it just does not fire, and one at which it just does.
EDGES = {
    "max_file_count_per_partition": (100, view([64 * MIB] * 100), view([64 * MIB] * 101)),
    "small_file_threshold": (32 * MIB, view([31 * MIB, 33 * MIB]), view([31 * MIB, 33 * MIB - 2])),
    "max_delete_ratio": (
        0.1,
        view([MIB] * 10, deletes=(EQUALITY_DELETES,)),
        view([MIB] * 19, deletes=(EQUALITY_DELETES, POSITION_DELETES)),
    ),
    "max_small_file_count": (12, view([MIB] * 12 + [64 * MIB] * 9), view([MIB] * 13)),
    "min_files_to_compact": (3, view([MIB] * 2 + [64 * MIB] * 9), view([MIB] * 3)),
    "rewrite_interval": ("6h", view([MIB], hours=5.999), view([MIB], hours=6)),
    "commits_since_rewrite": (10, view([MIB], commits=9), view([MIB], commits=10)),
    "minor_trigger_file_count": (
        12,
        view([16 * MIB] * 10 + [16 * MIB + 1] * 20, deletes=(EQUALITY_DELETES,)),
        view([16 * MIB] * 11, deletes=(EQUALITY_DELETES,)),
    ),
    "minor_trigger_interval": ("1h", view([MIB] * 2, hours=1), view([MIB] * 2, hours=1.001)),
    "minor_trigger_position_delete_files": (1, with_deletes([120 * MIB], 1, 0.01), with_deletes([120 * MIB], 2, 0.01)),
    "major_trigger_duplicate_ratio": (0.1, with_deletes([20_000_000], 1, 0.1), with_deletes([20_000_000], 1, 0.1001)),
    "major_trigger_undersized_targets": (1, view([42 * MIB] * 3), view([43 * MIB] * 3)),
    "full_trigger_interval": ("24h", view([20 * MIB] * 2, hours=24), view([20 * MIB] * 2, hours=24.01)),
}


def test_every_threshold_is_a_row_of_the_decision_table_and_of_this_test() -> None:
    assert [rule.name for rule in decision_table.TABLE] == list(THRESHOLDS) == list(EDGES)


@pytest.mark.parametrize("rule", decision_table.TABLE, ids=lambda rule: rule.name)
def test_a_trigger_fires_from_its_threshold_on(rule: decision_table.TriggerRule) -> None:
    threshold, quiet, due = EDGES[rule.name]
    assert fires(quiet, **{rule.name: threshold}) == []
    assert fires(due, **{rule.name: threshold}) == [rule.name]
    assert fires(due, **{rule.name: "off"}, **_another(rule.name)) == []


def _another(name: str) -> dict[str, int]:
    """A trigger that never fires, so that triggers are on at all."""
    other = "max_file_count_per_partition" if name != "max_file_count_per_partition" else "max_small_file_count"
    return {other: 10**6}


@pytest.mark.parametrize("rule", decision_table.TABLE, ids=lambda rule: rule.name)
@pytest.mark.parametrize("preset", ["guide", "amoro"])
def test_a_preset_has_the_default_of_the_table(rule: decision_table.TriggerRule, preset: str) -> None:
    _, _, due = EDGES[rule.name]
    is_on = rule.default(TriggerPreset(preset)) is not None
    assert (rule.name in fires(due, preset=preset)) is is_on
    assert rule.name not in fires(due, preset=preset, **{rule.name: "off"})


GUIDE = [  # data files, mean size in MiB, delete files; the guide's decision
    (101, 64, 0, ["max_file_count_per_partition"]),
    (100, 64, 0, []),
    (1, 31, 0, ["small_file_threshold"]),
    (13, 31, 0, ["small_file_threshold", "max_small_file_count"]),
    (20, 64, 2, []),
    (20, 64, 3, ["max_delete_ratio"]),
    (200, 1, 30, ["max_file_count_per_partition", "small_file_threshold", "max_delete_ratio", "max_small_file_count"]),
]


@pytest.mark.parametrize(("files", "mean", "deletes", "expected"), GUIDE)
def test_the_guide_decides_as_its_function_does(files: int, mean: int, deletes: int, expected: list[str]) -> None:
    table = view([mean * MIB] * files, deletes=(POSITION_DELETES,) * deletes)
    assert fires(table, preset="guide") == expected


AMORO = [  # a table, and what Amoro calls for
    (view([16 * MIB] * 12, hours=0), ["minor_trigger_file_count"]),
    (view([16 * MIB] * 11, hours=0), []),
    (view([16 * MIB], hours=9), []),  # one fragment waits for another, however long
    (view([16 * MIB] * 2), ["minor_trigger_interval"]),  # never rewritten: at once
    (view([97 * MIB] * 9, hours=9), []),  # above 0.75 x target: nothing to gain
    (view([96 * MIB, 33 * MIB], hours=9), []),  # the two do not fit into one target
    (view([95 * MIB, 33 * MIB], hours=9), ["major_trigger_undersized_targets"]),
    (with_deletes([20 * MIB], 1, 0.2), ["major_trigger_duplicate_ratio"]),
    (with_deletes([10 * MIB], 1, 0.2), []),  # a fragment, whose deletes go with it when it is merged
]


@pytest.mark.parametrize(("table", "expected"), AMORO)
def test_amoro_decides_as_its_evaluator_does(table: TableView, expected: list[str]) -> None:
    assert fires(table, preset="amoro") == expected


def test_equality_deletes_alone_are_no_position_deletes() -> None:
    table = view([120 * MIB] * 2, deletes=(EQUALITY_DELETES,) * 3, hours=0)
    counts = pa.array([3, 3, 0, 0, 0], pa.int64())
    table = replace(table, delete_files=counts, deleted_rows=pa.array([0] * 5, pa.int64()))
    assert fires(table, preset="amoro") == []


def plan(rows: pa.Table, past: RewritePast | None = None, **options: Any) -> Plan | EmptyPlan:
    return build.build(inventories.view(rows, past=past), Policy(**options), plan_id="p", now_ms=NOW_MS)


def test_partitions_that_no_trigger_asks_for_are_left_out_with_figures() -> None:
    rows = inventories.files([MIB] * 20 + [MIB] * 7, partitions=[DAY_1] * 20 + [DAY_2] * 7)
    made = plan(rows, triggers={"max_file_count_per_partition": 10})
    (group,) = made.groups
    assert (group.partition, group.files, group.triggers) == (DAY_1, 20, "max_file_count_per_partition")
    assert group.sentence.endswith("fit into 1 (trigger: max_file_count_per_partition)")
    (left,) = made.left_out
    assert (left.reason, left.files) == (LeftOutReason.NOT_TRIGGERED, 7)
    assert left.sentence == (
        "7 files (7.0 MiB) lie in partitions that no trigger asks for (files 7, not > max_file_count_per_partition 10)"
    )
    assert [(score.partition, score.triggers) for score in made.partition_scores] == [
        (DAY_1, ("files 20 > max_file_count_per_partition 10",)),
        (DAY_2, ()),
    ]


def test_a_partition_that_a_trigger_asks_for_is_still_planned_by_the_strategy() -> None:
    made = plan(inventories.files([MIB] * 3), triggers="guide")
    assert made.empty
    assert [left.reason for left in made.left_out] == [LeftOutReason.TOO_FEW_FILES]


def test_without_triggers_a_plan_is_as_before() -> None:
    rows = inventories.files([MIB] * 20)
    made = plan(rows)
    assert (made.groups[0].triggers, made.partition_scores, made.notes) == ("", (), ())
    assert plan(rows, triggers={"preset": "strategy"}).groups == made.groups


def test_amoros_ratio_of_deleted_rows_makes_files_delete_heavy() -> None:
    table = with_deletes([120 * MIB] * 2, 1, 0.2)
    options: dict[str, Any] = {"target_file_size_bytes": TARGET}
    assert build.build(table, Policy(**options), plan_id="p", now_ms=0).empty
    made = build.build(table, Policy(triggers="amoro", **options), plan_id="p", now_ms=0)
    assert [group.triggers for group in made.groups] == ["major_trigger_duplicate_ratio"]
    stated = Policy(triggers="amoro", delete_ratio_threshold=0.5, **options)
    assert build.build(table, stated, plan_id="p", now_ms=0).empty


def test_time_triggers_fire_on_quiet_tables_until_they_are_rewritten() -> None:
    rows = inventories.files([MIB] * 9, partitions=DAY_1)
    options = {"triggers": {"rewrite_interval": "1d"}}
    long_ago = RewritePast(now_ms=NOW_MS, table_ms=NOW_MS - 25 * HOUR_MS, commits=0)
    assert plan(rows, long_ago, **options).input_files == 9
    assert plan(rows, LONG_AGO, **options).input_files == 9
    assert plan(rows, replace(long_ago, table_ms=NOW_MS - HOUR_MS), **options).empty


def test_partitions_have_times_of_their_own() -> None:
    rows = inventories.files([MIB] * 18, partitions=[DAY_1] * 9 + [DAY_2] * 9)
    moments = pa.array([None] * 8 + [NOW_MS - HOUR_MS] + [None] * 9, pa.int64())
    past = RewritePast(now_ms=NOW_MS, partition_ms=moments)
    made = plan(rows, past, triggers={"rewrite_interval": "2h"})
    assert [group.partition for group in made.groups] == [DAY_2]
    assert [score.hours for score in made.partition_scores] == [None, 1.0]


def test_the_score_is_the_sum_of_its_parts() -> None:
    past = RewritePast(now_ms=NOW_MS, table_ms=NOW_MS - 6 * HOUR_MS)
    content = [DATA] * 50 + [POSITION_DELETES] * 5
    sizes = [MIB] * 40 + [64 * MIB] * 10 + [10] * 5
    rows = inventories.files(sizes, partitions=DAY_1, content=content)
    (score,) = plan(rows, past, triggers="guide").partition_scores
    assert (score.files_part, score.fragment_part, score.time_part, score.small_part) == (0.15, 0.03, 0.05, 0.16)
    assert (score.score, score.hours, score.fragment_ratio, score.small_ratio) == (0.39, 6.0, 0.1, 0.8)
    assert score.sum_words == "0.15 + 0.03 + 0.05 + 0.16"


def test_never_rewritten_counts_as_a_day() -> None:
    (score,) = plan(inventories.files([64 * MIB]), triggers="guide").partition_scores
    assert (score.hours, score.time_part) == (None, 0.2)


@examples(60)
@given(
    counts=st.lists(st.tuples(st.integers(1, 40), st.integers(1_000, 300_000)), min_size=1, max_size=6),
    strategy=st.sampled_from([Strategy.SMALL_FILES, Strategy.FULL]),
    triggers=st.sampled_from(["guide", "amoro", {"max_file_count_per_partition": 5}, {"rewrite_interval": "1h"}]),
    seed=st.integers(0, 99),
)
def test_a_second_plan_under_triggers_is_empty(
    counts: list[tuple[int, int]], strategy: Strategy, triggers: Any, seed: int
) -> None:
    files = [(size, f'{{"p": {part}}}') for part, (count, size) in enumerate(counts) for _ in range(count)]
    rows = inventories.files([size for size, _ in files], partitions=[part for _, part in files])
    policy = Policy(strategy=strategy, target_file_size_bytes=100_000, triggers=triggers)
    table = inventories.view(rows)
    first = build.build(table, policy, plan_id="first", now_ms=0)
    without = build.build(table, policy.model_copy(update={"triggers": Triggers()}), plan_id="all", now_ms=0)
    assert set(first.files["file_path"].to_pylist()) <= set(without.files["file_path"].to_pylist())
    assert first.input_files + sum(left.files for left in first.left_out) == len(files)
    if isinstance(first, Plan):
        second = build.build(perform(first, table, Data(seed=seed)), policy, plan_id="second", now_ms=0)
        assert second.empty, second.sentence


def test_an_empty_table_has_nothing_to_check() -> None:
    made = plan(inventories.files([]), triggers="amoro")
    assert (made.empty, made.sentence) == (True, "Nothing to do: the table has no data files.")


def test_partitions_with_delete_files_alone_do_not_fire() -> None:
    rows = inventories.files([MIB] * 3, content=EQUALITY_DELETES)
    measured = measures.measure(inventories.view(rows), resolve_sizes(Policy(), {}), Triggers())
    assert not measured.has_data.any()


def test_the_page_on_triggers_prints_the_decision_table() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "triggers.md").read_text()
    lines = [line for line in page.splitlines() if line.startswith("| `") and line.count("|") == 7]
    assert lines == [_line(rule) for rule in decision_table.TABLE]
    for rule in decision_table.TABLE:
        assert rule.amoro_property is None or f".{rule.amoro_property}`" in page
        assert rule.amoro_property is None or canonical_name(f"self-optimizing.{rule.amoro_property}")[0] == rule.name


def _line(rule: decision_table.TriggerRule) -> str:
    guide, amoro = ("off" if value is None else rule.unit.text(value) for value in (rule.guide, rule.amoro))
    return f"| `{rule.name}` | {rule.sign} {rule.unit.value} | {guide} | {amoro} | {rule.work.value} | {rule.what} |"
