"""Deletes in plans: delete-heavy files are rewritten, and a run leaves none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.factories import inventories
from tests.factories.examples import examples
from tests.factories.simulated_writer import Data, perform

from iceberg_compaction import errors
from iceberg_compaction.model.policies import JobOrder, Policy, Strategy
from iceberg_compaction.model.rewrite_plan import GroupReason, LeftOutReason, Plan, from_json
from iceberg_compaction.plan import build, quick_look
from iceberg_compaction.plan.strategies import registry

if TYPE_CHECKING:
    from iceberg_compaction.model.table_view import TableView

MIB = 2**20
TARGET = 100_000


def make_view(sizes: list[int], met: list[int], deleted: list[int], **changes: Any) -> TableView:
    """Files of 100 bytes per row; `met`: delete files that apply to each; `deleted`: rows that they delete."""
    columns = {"delete_files": pa.array(met, pa.int64()), "deleted_rows": pa.array(deleted, pa.int64())}
    selected = changes.pop("selected", None)
    unwritable = changes.pop("unwritable_specs", frozenset())
    rows = inventories.files(sizes, **changes)
    return inventories.view(rows, selected=selected, unwritable_specs=unwritable, **columns)


def planned(view: TableView, **policy: Any) -> Plan:
    return build.build(view, Policy.model_validate(policy), plan_id="p", now_ms=0)


def left(plan: Plan) -> dict[str, int]:
    return {entry.reason.value: entry.files for entry in plan.left_out}


def test_delete_files_takes_every_file_that_a_delete_applies_to_and_no_other() -> None:
    plan = planned(make_view([500 * MIB] * 3, [0, 1, 0], [0, 5, 0]), strategy="delete-files")
    (group,) = plan.groups
    assert (group.files, group.reason, group.delete_files, group.deleted_rows) == (1, GroupReason.DELETES, 1, 5)
    assert group.sentence == "1 file of 500.0 MiB, with 1 delete file and about 0% of rows deleted, becomes 1"
    assert plan.files["file_path"].to_pylist() == ["f-1.parquet"]
    assert left(plan) == {"few-deletes": 2}
    assert plan.left_out[0].sentence == "2 files (1000.0 MiB) have no deletes"


def test_the_sentence_has_figures() -> None:
    plan = planned(make_view([10_000] * 12, [3] * 8 + [4] * 4, [31] * 12), strategy="delete-files")
    assert plan.groups[0].sentence == (
        "12 files of 9.8 KiB on average, with 3.3 delete files each and about 31% of rows deleted, become 1"
    )


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({}, [0, 1, 2, 3]),
        ({"delete-file-threshold": 2}, [1, 2, 3]),  # file 3 by its ratio
        ({"delete-file-threshold": 4, "delete-ratio-threshold": 0.9}, [2]),
        ({"delete-ratio-threshold": 0.3}, [3]),
        ({"delete-ratio-threshold": 0.1}, [1, 3]),
    ],
)
def test_thresholds_of_delete_files(policy: dict[str, Any], expected: list[int]) -> None:
    table = make_view([10_000] * 5, [1, 2, 4, 1, 0], [1, 29, 0, 30, 0])
    plan = planned(table, strategy="delete-files", **policy)
    assert plan.files["file_path"].to_pylist() == [f"f-{number}.parquet" for number in expected]
    assert left(plan) == {"few-deletes": 5 - len(expected)}


@pytest.mark.parametrize("strategy", ["small-files", "full"])
def test_other_strategies_take_delete_heavy_files_as_iceberg_does(strategy: str) -> None:
    """A ratio of 0.3 by default; the number of delete files counts only with a threshold."""
    sizes = [512 * MIB] * 3
    rows = sizes[0] // 100
    light, heavy = int(rows * 0.29), int(rows * 0.31)
    assert planned(make_view(sizes, [99] * 3, [light] * 3), strategy=strategy).empty
    plan = planned(make_view(sizes, [1, 1, 1], [light, heavy, light]), strategy=strategy)
    assert plan.groups[0].reason is GroupReason.DELETES
    assert "f-1.parquet" in plan.files["file_path"].to_pylist()
    counted = planned(make_view(sizes, [9, 10, 9], [0] * 3), strategy=strategy, **{"delete-file-threshold": 10})
    assert counted.input_files == (1 if strategy == "small-files" else 3)


def test_a_delete_heavy_file_travels_with_the_small_files_of_its_partition() -> None:
    plan = planned(make_view([512 * MIB, MIB, MIB], [1, 0, 0], [512 * MIB // 100, 0, 0]))
    (group,) = plan.groups
    assert (group.files, group.outputs, group.reason) == (
        3,
        1,
        GroupReason.DELETES,
    )  # too few small files by themselves
    plan = planned(make_view([512 * MIB] + [MIB] * 5, [1] + [0] * 5, [2 * MIB] + [0] * 5))
    assert [group.reason for group in plan.groups] == [GroupReason.SMALL_FILES]


def test_expected_outputs_are_those_of_the_rows_that_are_left() -> None:
    rows = 512 * MIB // 100
    (group,) = planned(make_view([512 * MIB] * 4, [1] * 4, [rows // 2] * 4), strategy="delete-files").groups
    assert (group.files, group.outputs) == (4, 2)


def test_a_budget_keeps_a_lone_delete_heavy_file() -> None:
    plan = planned(make_view([MIB] * 3, [1] * 3, [0] * 3), strategy="delete-files", **{"max-files-to-rewrite": 1})
    assert (plan.input_files, left(plan)) == (1, {"over-budget": 2})


def test_where_and_deletes() -> None:
    table = make_view([MIB] * 3, [1] * 3, [0] * 3, selected=pa.array([True, False, False]))
    assert planned(table, strategy="delete-files").files["file_path"].to_pylist() == ["f-0.parquet"]


def test_specs_that_cannot_be_written_are_refused_only_where_they_would_be() -> None:
    table = make_view([MIB] * 6, [0] * 6, [0] * 6, specs=[1] * 6, unwritable_specs=frozenset({1}))
    assert planned(table).input_files == 6
    with pytest.raises(errors.UnsupportedError, match="keep-spec"):
        planned(table, **{"keep-spec": True})


@pytest.mark.parametrize(
    "wrong", [{"delete-file-threshold": 0}, {"delete-ratio-threshold": 0}, {"delete-ratio-threshold": 1.1}]
)
def test_thresholds_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="threshold"):
        Policy.model_validate(wrong)


@st.composite
def tables(draw: st.DrawFn) -> TableView:
    size = st.one_of(st.integers(100, 75_000), st.integers(75_000, 180_000), st.integers(180_000, 500_000))
    row = st.tuples(size, st.integers(0, 1), st.sampled_from([0, 0, 1, 3]), st.floats(0, 1))
    rows = draw(st.lists(st.tuples(row, st.sampled_from([1, 4, 30])), max_size=6))
    files = [row for row, count in rows for _ in range(count)]
    draw(st.randoms(use_true_random=False)).shuffle(files)
    met = [deletes for _, _, deletes, _ in files]
    deleted = [int(share * (size // 100)) if deletes else 0 for size, _, deletes, share in files]
    parts = [f'{{"p": {part}}}' for _, part, _, _ in files]
    return make_view([size for size, _, _, _ in files], met, deleted, partitions=parts)


POLICIES = st.builds(
    Policy,
    strategy=st.sampled_from([name for name, each in registry.STRATEGIES.items() if not each.weighs]),
    target_file_size_bytes=st.just(TARGET),
    max_file_group_size_bytes=st.sampled_from([3 * TARGET, 16 * TARGET, 10**9]),
    delete_file_threshold=st.sampled_from([None, 1, 3]),
    delete_ratio_threshold=st.sampled_from([None, 0.1, 1.0]),
    rewrite_job_order=st.sampled_from(JobOrder),
)


def delete_heavy_paths(table: TableView, policy: Policy) -> set[str]:
    """File by file, in the words of the documentation."""
    assert table.delete_files is not None
    assert table.deleted_rows is not None
    thresholds = registry.choose(policy).delete_thresholds(policy)
    paths = set()
    for row, met, deleted in zip(
        table.files.to_pylist(), table.delete_files.to_pylist(), table.deleted_rows.to_pylist(), strict=True
    ):
        many = thresholds.files is not None and met >= thresholds.files
        if met and (many or deleted >= thresholds.ratio * row["record_count"]):
            paths.add(row["file_path"])
    return paths


@examples(40)
@given(table=tables(), policy=POLICIES, seed=st.integers(0, 99))
def test_every_delete_heavy_file_is_in_a_group_and_no_run_leaves_one(
    table: TableView, policy: Policy, seed: int
) -> None:
    first = build.build(table, policy, plan_id="first", now_ms=0)
    assume(all(left.reason is not LeftOutReason.TOO_LARGE_TO_SORT for left in first.left_out))
    chosen = set(first.files["file_path"].to_pylist())
    delete_heavy = delete_heavy_paths(table, policy)
    assert delete_heavy <= chosen
    assert policy.strategy is not Strategy.DELETE_FILES or delete_heavy == chosen
    assert first.input_files + sum(entry.files for entry in first.left_out) == table.files.num_rows
    assert quick_look.needs_work(table, policy) is not first.empty
    assert from_json(first.model_dump_json()) == first

    after = perform(first, table, Data(seed=seed))
    assert not delete_heavy_paths(after, policy)
    second = build.build(after, policy, plan_id="second", now_ms=0)
    assert all(group.reason is not GroupReason.DELETES for group in second.groups)
    if policy.strategy is Strategy.DELETE_FILES:
        assert second.empty, second.sentence
