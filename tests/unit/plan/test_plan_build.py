"""Plans of tables with a known answer."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from tests.factories import inventories

from iceberg_compaction import errors
from iceberg_compaction.execute.prepare import cut_tasks
from iceberg_compaction.model import partition_words, rewrite_plan, table_view
from iceberg_compaction.model.policies import Policy, Strategy
from iceberg_compaction.model.rewrite_plan import GroupReason, LeftOutReason
from iceberg_compaction.plan import build

MIB = 2**20
DAY_1, DAY_2 = '{"day": "2026-01-01"}', '{"day": "2026-01-02"}'


def planned(rows: pa.Table, policy: Policy | None = None, **changes: Any) -> rewrite_plan.Plan:
    return build.build(inventories.view(rows, **changes), policy or Policy(), plan_id="p1", now_ms=5)


def left(plan: rewrite_plan.Plan) -> dict[str, int]:
    return {entry.reason.value: entry.files for entry in plan.left_out}


def test_small_files_of_a_partition_become_one() -> None:
    plan = planned(inventories.files([MIB] * 23, partitions=DAY_1))
    (group,) = plan.groups
    assert (group.files, group.bytes, group.outputs, group.reason) == (23, 23 * MIB, 1, GroupReason.SMALL_FILES)
    assert group.records == sum(plan.files["record_count"].to_pylist())
    assert group.sentence == "day=2026-01-01: 23 files of 1.0 MiB on average, all below 384.0 MiB, fit into 1"
    assert plan.sentence == "23 files in 1 group become about 1."
    assert (plan.id, plan.created_ms, plan.pin, plan.left_out) == ("p1", 5, inventories.PIN, ())


def test_an_unpartitioned_table_is_one_partition_without_a_name() -> None:
    (group,) = planned(inventories.files([MIB] * 5)).groups
    assert group.sentence.startswith("5 files of 1.0 MiB")


def test_a_large_file_is_split() -> None:
    (group,) = planned(inventories.files([2048 * MIB, 500 * MIB])).groups
    assert (group.files, group.outputs, group.reason) == (1, 4, GroupReason.LARGE_FILES)
    assert group.sentence == "1 file of 2.0 GiB, above 921.6 MiB, becomes 4"


@pytest.mark.parametrize(
    ("sizes", "reason"),
    [
        ([512] * 9, "well-sized"),
        ([1], "too-few-files"),
        ([1] * 4, "too-few-files"),
        ([370, 370], "no-gain"),  # more than one target, but two files would come out again
    ],
)
def test_files_are_left_alone_for_a_reason(sizes: list[int], reason: str) -> None:
    plan = planned(inventories.files([size * MIB for size in sizes]))
    assert plan.empty
    assert left(plan) == {reason: len(sizes)}
    assert plan.sentence.startswith(f"Nothing to do: {len(sizes)} file")


def test_full_rewrites_a_partition_with_its_well_sized_files() -> None:
    rows = inventories.files([512 * MIB] * 3 + [MIB] * 6 + [512 * MIB] * 5, partitions=[DAY_1] * 9 + [DAY_2] * 5)
    plan = planned(rows, Policy(strategy=Strategy.FULL))
    assert [(group.partition, group.files, group.reason) for group in plan.groups] == [
        (DAY_1, 9, GroupReason.NOT_OPTIMAL)
    ]
    assert left(plan) == {"well-sized": 5}
    assert planned(rows).input_files == 6


def test_full_tolerates_one_small_file_and_no_large_one() -> None:
    full = Policy(strategy=Strategy.FULL)
    assert planned(inventories.files([512 * MIB] * 7 + [MIB]), full).empty
    (group,) = planned(inventories.files([512 * MIB] * 7 + [1024 * MIB]), full).groups
    assert (group.files, group.reason) == (8, GroupReason.LARGE_FILES)


def test_full_in_a_partition_of_many_groups_rewrites_only_the_group_that_needs_it() -> None:
    rows = inventories.files([512 * MIB] * 20 + [MIB] * 2 + [512 * MIB] * 20)
    policy = Policy(strategy=Strategy.FULL, max_file_group_size_bytes=8 * 512 * MIB)
    plan = planned(rows, policy)
    assert [group.files for group in plan.groups] == [9]
    assert plan.files["file_path"].to_pylist() == [f"f-{number}.parquet" for number in range(20, 29)]  # neighbours
    assert left(plan) == {"well-sized": 33}


def test_rewrite_all_filters_nothing() -> None:
    plan = planned(inventories.files([MIB, 512 * MIB], partitions=[DAY_1, DAY_2]), Policy(rewrite_all=True))
    assert [(group.files, group.reason) for group in plan.groups] == [(1, GroupReason.REWRITE_ALL)] * 2
    assert plan.left_out == ()


def test_specs_are_never_mixed_even_with_equal_partition_texts() -> None:
    plan = planned(inventories.files([MIB] * 10, partitions=DAY_1, specs=[0, 1] * 5))
    assert [(group.spec_id, group.files) for group in plan.groups] == [(0, 5), (1, 5)]


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (4, "are too few: no group of 5 in one partition, nor"),
        (40, "are too few in each partition: no group of 5, nor"),
    ],
)
def test_many_files_are_called_too_few_only_of_each_partition(files: int, told: str) -> None:
    partitions = [json.dumps({"day": day}) for day in range(files)]
    plan = planned(inventories.files([1000] * files, partitions=partitions), Policy())
    assert plan.empty
    (entry,) = plan.left_out
    assert entry.sentence.endswith(f" {told} more than 512.0 MiB together")


def test_r32_files_of_older_specs_are_one_group_with_those_of_a_partition_side_by_side() -> None:
    """Old partitions may feed the same new ones, so that files are gathered across them; the lowest values first."""
    bounds = [(50, 60), (1, 9), (70, 80), (20, 30), (40, 45), (10, 19)]
    rows = inventories.files([MIB] * 6, partitions=[DAY_1, DAY_2, DAY_1, DAY_2, "{}", DAY_1], specs=1, bounds=bounds)
    (group,) = planned(rows).groups
    assert (group.spec_id, group.partition) == (1, "{}")
    assert [(section.partition, section.files) for section in group.sections] == [(DAY_2, 2), (DAY_1, 3), ("{}", 1)]
    assert planned(rows).partitions == ((1, DAY_2), (1, DAY_1), (1, "{}"))
    paths = rows["file_path"].to_pylist()
    assert planned(rows).files["file_path"].to_pylist() == [paths[position] for position in (1, 3, 5, 0, 2, 4)]
    assert planned(rows, Policy(keep_spec=True)).empty  # too few of each partition


def test_files_are_read_by_sequence_number_then_as_listed() -> None:
    plan = planned(inventories.files([MIB] * 5, sequence=[3, 1, 2, 1, 3]))
    assert plan.files["file_path"].to_pylist() == [f"f-{number}.parquet" for number in (1, 3, 2, 0, 4)]


def test_where_leaves_the_other_files_out() -> None:
    selected = pa.array([True] * 5 + [False] * 3 + [None])
    plan = planned(inventories.files([MIB] * 9), Policy(where="day > 5"), selected=selected)
    assert plan.input_files == 5
    assert left(plan) == {"not-selected": 4}
    assert "day > 5" in plan.left_out[0].sentence


def test_delete_files_are_no_data_files() -> None:
    plan = planned(inventories.files([MIB] * 6, content=[0] * 5 + [1]))
    assert plan.input_files == 5
    assert plan.left_out == ()


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("none", [5, 7, 6]),
        ("bytes-asc", [6, 5, 7]),
        ("bytes-desc", [7, 5, 6]),
        ("files-asc", [5, 6, 7]),
        ("files-desc", [7, 6, 5]),
    ],
)
def test_groups_are_ordered_and_the_files_with_them(order: str, expected: list[int]) -> None:
    sizes = [3 * MIB] * 5 + [3 * MIB] * 7 + [MIB] * 6
    parts = ['{"n": 1}'] * 5 + ['{"n": 2}'] * 7 + ['{"n": 3}'] * 6
    plan = planned(inventories.files(sizes, partitions=parts), Policy.model_validate({"rewrite-job-order": order}))
    assert [group.files for group in plan.groups] == expected
    assert [group.id for group in plan.groups] == [0, 1, 2]
    for group in plan.groups:
        assert plan.files_of(group)["file_size_in_bytes"].to_numpy().sum() == group.bytes


@pytest.mark.parametrize(("budget", "groups"), [(1, []), (3, [3]), (5, [5]), (6, [5]), (8, [5, 3]), (99, [5, 7])])
def test_a_budget_shortens_the_last_group_or_drops_it_when_nothing_is_gained(budget: int, groups: list[int]) -> None:
    rows = inventories.files([MIB] * 12, partitions=[DAY_1] * 5 + [DAY_2] * 7)
    plan = planned(rows, Policy(max_files_to_rewrite=budget))
    assert [group.files for group in plan.groups] == groups
    assert left(plan) == ({"over-budget": 12 - sum(groups)} if sum(groups) < 12 else {})


@pytest.mark.parametrize(
    ("budget", "groups"), [(1, []), (MIB, []), (3 * MIB, [3]), (6 * MIB + 1, [5]), (8 * MIB, [5, 3]), ("1GB", [5, 7])]
)
def test_a_budget_of_bytes_cuts_too(budget: int | str, groups: list[int]) -> None:
    rows = inventories.files([MIB] * 12, partitions=[DAY_1] * 5 + [DAY_2] * 7)
    plan = planned(rows, Policy.model_validate({"max-bytes-to-rewrite": budget, "max-files-to-rewrite": 99}))
    assert [group.files for group in plan.groups] == groups
    if sum(groups) < 12:
        assert left(plan) == {"over-budget": 12 - sum(groups)}
        assert "max-files-to-rewrite is 99 and max-bytes-to-rewrite is" in plan.left_out[0].sentence


def test_a_file_larger_than_the_capacity_gets_its_own_group() -> None:
    rows = inventories.files([MIB] * 5 + [4096 * MIB] + [MIB] * 5)
    plan = planned(rows, Policy(max_file_group_size_bytes=1024 * MIB))
    assert [group.files for group in plan.groups] == [5, 1, 5]


def test_a_group_holds_no_more_files_than_allowed() -> None:
    plan = planned(inventories.files([MIB] * 17), Policy(max_file_group_input_files=6))
    assert [group.files for group in plan.groups] == [6, 6, 5]


def test_dictionaries_that_differ_between_chunks_or_repeat_a_text_are_one_partition() -> None:
    chunks = [inventories.files([MIB] * 3, partitions=part) for part in ([DAY_2, DAY_1, DAY_1], [DAY_1, DAY_2, DAY_1])]
    doubled = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int32()), pa.array([DAY_1, DAY_1]))
    last = inventories.files([MIB] * 3)
    last = last.set_column(4, table_view.FILES.field("partition"), doubled)
    plan = planned(pa.concat_tables([*chunks, last]))
    assert [(group.partition, group.files) for group in plan.groups] == [(DAY_1, 7)]
    assert left(plan) == {"too-few-files": 2}


def test_a_table_without_a_snapshot_has_nothing_to_do() -> None:
    plan = planned(table_view.FILES.empty_table(), pin=None)
    assert [entry.reason for entry in plan.left_out] == [LeftOutReason.NO_DATA]
    assert plan.sentence == "Nothing to do: the table has no data files."


def test_sizes_come_from_the_table_unless_the_policy_says_otherwise() -> None:
    rows = inventories.files([MIB] * 5)
    properties = {"write.target-file-size-bytes": str(MIB)}
    assert planned(rows, properties=properties).empty
    assert not planned(rows, Policy(target_file_size_bytes=8 * MIB), properties=properties).empty


@pytest.mark.parametrize("target", ["no number", "0", "-5"])
def test_a_table_property_that_makes_no_sense_is_the_tables_trouble(target: str) -> None:
    with pytest.raises(errors.MetadataError, match=r"shop\.events"):
        planned(inventories.files([MIB]), properties={"write.target-file-size-bytes": target})


def test_an_unsupported_table_is_refused_with_all_reasons() -> None:
    view = inventories.view(inventories.files([MIB] * 9), unsupported=("format v3", "delete files"))
    with pytest.raises(errors.UnsupportedError, match="format v3; delete files"):
        build.build(view, Policy(), plan_id="p", now_ms=0)


def test_a_refusal_ends_in_one_full_stop() -> None:
    reasons = ("Format v3.", "1 live file with encryption keys.")
    view = inventories.view(inventories.files([MIB] * 9), unsupported=reasons)
    with pytest.raises(errors.UnsupportedError, match=r": Format v3; 1 live file with encryption keys\.$"):
        build.build(view, Policy(), plan_id="p", now_ms=0)


def test_a_plan_survives_json() -> None:
    plan = planned(inventories.files([MIB] * 12 + [512 * MIB], partitions=[DAY_1] * 6 + [DAY_2] * 7))
    again = rewrite_plan.Plan.model_validate_json(plan.model_dump_json())
    assert again == plan
    assert again.files.schema == rewrite_plan.PLAN_FILES


def test_a_plan_whose_groups_are_not_its_files_is_refused() -> None:
    plan = planned(inventories.files([MIB] * 12, partitions=[DAY_1] * 6 + [DAY_2] * 6))
    stored = plan.model_dump()
    for change in ({"first": 1}, {"files": 5}, {"bytes": 1}, {"records": 1}):
        damaged = {**stored, "groups": [stored["groups"][0] | change, stored["groups"][1]]}
        with pytest.raises(ValueError, match="group"):
            rewrite_plan.Plan.model_validate(damaged)


def test_a_plan_of_another_format_is_refused() -> None:
    stored = planned(inventories.files([MIB] * 12)).model_dump() | {"format": 1}
    with pytest.raises(ValueError, match="format 1, not 5; make a new plan"):
        rewrite_plan.Plan.model_validate(stored)


def test_groups_are_a_sequence() -> None:
    rows = inventories.files([MIB] * 15, partitions=[DAY_1] * 5 + [DAY_2] * 5 + ["{}"] * 5)
    plan = planned(rows)
    every = list(plan.groups)
    assert [group.id for group in every] == [0, 1, 2]
    assert (plan.groups[1], plan.groups[-1]) == (every[1], every[2])
    assert plan.groups[1:] == plan.groups[:-3:-1][::-1] == tuple(every[1:])
    assert every[1] in plan.groups
    by = (plan.sizes, plan.copying)
    assert plan.groups == rewrite_plan.Groups.of(every, *by) != rewrite_plan.Groups.of(every[:2], *by)
    assert plan.partitions == ((0, DAY_1), (0, DAY_2), (0, "{}"))
    with pytest.raises(IndexError):
        plan.groups[3]


def test_partition_numbers_may_be_sparse() -> None:
    rows = inventories.files([MIB] * 10, partitions=[DAY_1, DAY_2] * 5, specs=[7, 10**9] * 5)
    plan = planned(rows, Policy(keep_spec=True))
    assert [(group.spec_id, group.partition) for group in plan.groups] == [(7, DAY_1), (10**9, DAY_2)]


def test_sums_beyond_exact_floats_are_exact() -> None:
    plan = planned(inventories.files([2**53 + 1, 2**53 + 1]), Policy(max_file_group_size_bytes=2**62))
    assert plan.groups[0].bytes == plan.input_bytes == 2**54 + 2


def test_partitions_in_words() -> None:
    assert partition_words.text("{}") == ""
    assert partition_words.text('{"day": "2026-01-31", "n": 7, "x": null}') == "day=2026-01-31/n=7/x=null"


_LONG = 2**63 - 1


@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize(
    ("properties", "options"),
    [
        ({"write.target-file-size-bytes": str(_LONG)}, {}),
        ({"write.parquet.row-group-size-bytes": "9" * 30}, {"min-row-group-size-bytes": _LONG}),
        ({}, {"target-file-size-bytes": 2**60}),
        ({}, {"target-file-size-bytes": _LONG - 1, "min-file-size-bytes": 2**61, "max-file-size-bytes": _LONG}),
        ({}, {"max-file-group-size-bytes": _LONG, "max-bytes-to-rewrite": _LONG, "max-files-to-rewrite": 10**30}),
        ({}, {"max-file-group-size-bytes": 10**9, "max-file-group-input-files": 10**30, "min-input-files": 10**30}),
    ],
)
def test_the_largest_number_means_no_limit(
    strategy: Strategy, properties: dict[str, str], options: dict[str, object]
) -> None:
    view = inventories.view(inventories.files([100, 2 * 10**9] * 6), properties=properties)
    policy = Policy.model_validate({**options, "strategy": strategy})
    plan = build.build(view, policy, plan_id="p", now_ms=0)
    assert sum(len(task.file_paths) for task in cut_tasks.build_tasks(plan, cores=4)) == plan.files.num_rows
    if plan.sizes.target >= 2**56:
        assert [group.outputs for group in plan.groups] == ([] if strategy is Strategy.DELETE_FILES else [1])
