"""Rules that every plan keeps."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.factories import inventories
from tests.factories.examples import examples

from iceberg_compaction.execute.prepare import cut_tasks
from iceberg_compaction.model import rewrite_plan
from iceberg_compaction.model.file_group import sections_of
from iceberg_compaction.model.policies import JobOrder, Policy, Strategy
from iceberg_compaction.plan import build, quick_look

if TYPE_CHECKING:
    from iceberg_compaction.model.table_view import TableView

TARGET = 1000
ROW = st.tuples(
    st.one_of(st.integers(0, 800), st.integers(700, 1900), st.integers(1800, 9000)),  # size
    st.sampled_from(["{}", '{"p": 1}', '{"p": 2}']),
    st.integers(0, 1),  # spec
    st.integers(1, 5),  # sequence number
    st.sampled_from([0, 0, 0, 0, 1]),  # content
    st.sampled_from([True, True, True, False]),  # selected
    st.sampled_from([None, (1, 2), (1, 9), (-(2**63), 0), (2**63 - 1, 2**63 - 1)]),  # bounds of the clustering column
)


@st.composite
def tables(draw: st.DrawFn) -> TableView:
    rows: list[tuple[Any, ...]] = draw(st.lists(ROW, max_size=80))
    size, part, spec, sequence, content, selected, bounds = ([row[i] for row in rows] for i in range(7))
    files = inventories.files(size, partitions=part, specs=spec, sequence=sequence, content=content, bounds=bounds)
    chosen = draw(st.sampled_from([None, pa.array(selected, pa.bool_())]))
    return inventories.view(files, selected=chosen)


# Their groups have limits of their own, see test_plan_sorting.
SORTING = (Strategy.SORT, Strategy.TIME_SERIES, Strategy.DIMENSIONAL)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    return Policy(
        strategy=draw(st.sampled_from([each for each in Strategy if each not in SORTING])),
        target_file_size_bytes=TARGET,
        min_input_files=draw(st.integers(1, 6)),
        max_file_group_size_bytes=draw(st.sampled_from([500, 3000, 10**6])),
        max_file_group_input_files=draw(st.sampled_from([None, 1, 7])),
        max_files_to_rewrite=draw(st.sampled_from([None, 1, 10])),
        max_bytes_to_rewrite=draw(st.sampled_from([None, None, 1, 2000])),
        rewrite_all=draw(st.sampled_from([False, False, True])),
        rewrite_job_order=draw(st.sampled_from(JobOrder)),
    )


def reading_order(row: dict[str, Any]) -> tuple[Any, ...]:
    """By lower bound of the clustering column, nulls last, then by sequence number, then as listed."""
    low = row["cluster_lower"]
    return low is None, low or 0, row["sequence_number"], row["file_sequence_number"]


def rows_of(
    plan: rewrite_plan.Plan, group: rewrite_plan.FileGroup, files: dict[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    return [files[path] for path in plan.files_of(group)["file_path"].to_pylist()]


@examples(100)
@given(tables(), policies())
def test_every_plan_keeps_the_rules(view: TableView, policy: Policy) -> None:
    plan = build.build(view, policy, plan_id="p", now_ms=0)
    files = {row["file_path"]: row for row in view.files.to_pylist()}
    data = [row for row in files.values() if row["content"] == 0]

    # Every data file is in one group, or left out once.
    paths = plan.files["file_path"].to_pylist()
    assert max(Counter(paths).values(), default=0) <= 1
    assert plan.input_files + sum(entry.files for entry in plan.left_out) == len(data)
    assert plan.input_bytes + sum(entry.bytes for entry in plan.left_out) == sum(
        row["file_size_in_bytes"] for row in data
    )
    assert len({entry.reason for entry in plan.left_out}) == len(plan.left_out)

    # Only selected data files are rewritten.
    selected = view.selected.to_pylist() if view.selected is not None else [True] * len(files)
    allowed = {path for path, chosen in zip(files, selected, strict=True) if chosen and files[path]["content"] == 0}
    assert set(paths) <= allowed

    for group in plan.groups:
        rows = rows_of(plan, group, files)
        # Files of one partition are side by side and in order; only those whose rows move may lie in several.
        sections = [((section.spec_id, section.partition), section.files) for section in group.sections]
        sections = sections or [((group.spec_id, group.partition), group.files)]
        assert [(row["spec_id"], row["partition"]) for row in rows] == [
            partition_key for partition_key, count in sections for _ in range(count)
        ]
        assert len(dict(sections)) == len(sections)
        assert len(sections) == 1 or not any(spec_id == inventories.PIN.spec_id for (spec_id, _), _ in sections)
        for partition_key in dict(sections):
            mine = [row for row in rows if (row["spec_id"], row["partition"]) == partition_key]
            assert mine == sorted(mine, key=reading_order)
        assert group.bytes == sum(row["file_size_in_bytes"] for row in rows)
        assert group.bytes <= policy.max_file_group_size_bytes or group.files == 1
        assert group.files <= (policy.max_file_group_input_files or group.files)
        assert group.sentence
    assert plan.input_files <= (policy.max_files_to_rewrite or plan.input_files)
    assert plan.input_bytes <= (policy.max_bytes_to_rewrite or plan.input_bytes)


@examples(80)
@given(tables(), policies())
def test_a_quick_look_agrees_with_the_plan(view: TableView, policy: Policy) -> None:
    assert quick_look.needs_work(view, policy) is not build.build(view, policy, plan_id="p", now_ms=0).empty


@examples(100)
@given(tables(), policies())
def test_plans_are_reproducible_and_survive_json(view: TableView, policy: Policy) -> None:
    plan = build.build(view, policy, plan_id="p", now_ms=0)
    assert build.build(view, policy, plan_id="p", now_ms=0) == plan
    assert rewrite_plan.from_json(plan.model_dump_json()) == plan


@examples(100)
@given(tables(), policies())
def test_tasks_hold_the_files_of_the_plan_in_its_order(view: TableView, policy: Policy) -> None:
    plan = build.build(view, policy, plan_id="p", now_ms=0)
    tasks = cut_tasks.build_tasks(plan)
    assert inventories.unsplit(tasks) == plan.files["file_path"].to_pylist()
    assert [task.id for task in tasks] == list(range(len(tasks)))
    for group in plan.groups:
        own = [task for task in tasks if task.group_id == group.id]
        assert sum(task.bytes for task in own) == group.bytes
        lies = [[part.spec_id, part.partition, path] for task in own for part in task.parts for path in part.file_paths]
        assert lies == [
            [section["spec_id"], section["partition"], path]
            for section, path in zip(
                (section for section in sections_of(group.model_dump()) for _ in range(section["files"])),
                plan.files_of(group)["file_path"].to_pylist(),
                strict=True,
            )
        ]
        assert all(task.bytes >= 7 * TARGET for task in own) or len(own) == 1
