"""Tables with deletes from plan to commit: the rows that readers saw are the rows that stay, and what a rewrite has
made superfluous goes with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortDirection, SortField, SortOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType
from tests.factories import lake as lakes
from tests.factories import manifests, storage, work

from iceberg_compaction import Compactor, Kind, errors
from iceberg_compaction.execute.prepare import cut_tasks, shared_context
from iceberg_compaction.metadata import look
from iceberg_compaction.metadata.cache import arrow_cache
from iceberg_compaction.metadata.deletes import deletes_for_plan
from iceberg_compaction.metadata.manifest import snapshot_manifests
from iceberg_compaction.model.policies import Policy
from iceberg_compaction.model.rewrite_plan import GroupReason

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from iceberg_compaction.model.rewrite_plan import Plan

ROWS = pa.schema([pa.field("id", pa.int64()), pa.field("day", pa.int64()), pa.field("name", pa.string())])
SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "day", LongType()), NestedField(3, "name", StringType())
)
BY_DAY = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "day"), spec_id=0)


def rows(first: int, count: int, day: int = 1) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table([list(numbers), [day] * count, [f"n{number}" for number in numbers]], schema=ROWS)


def make(lake: lakes.Lake, *, spec: PartitionSpec | None = None, days: int = 1, each: int = 3) -> Table:
    """`each` files of ten rows for every day; ids count up from 0, file by file and day by day."""
    given: dict[str, Any] = {} if spec is None else {"spec": spec}
    table = lakes.make_table(lake.catalog, "db.t", SCHEMA, **given)
    for number in range(days * each):
        table.append(rows(number * 10, 10, day=number // each))
    return table


def paths(table: Table) -> list[str]:
    """Data files in the order of their rows."""
    files = table.inspect.data_files()
    lowest = [dict(metrics)["id"]["lower_bound"] for metrics in files["readable_metrics"].to_pylist()]
    return [path for _, path in sorted(zip(lowest, files["file_path"].to_pylist(), strict=True))]


def deletes_of(table: Table, plan: Plan) -> deletes_for_plan.DeletesForPlan | None:
    listed = snapshot_manifests.of_plan(table, plan)
    return deletes_for_plan.deletes_for_plan(table, plan, listed, arrow_cache.NO_CACHE)


def ids(table: Table) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def keys(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def compactor(lake: lakes.Lake, strategy: str = "delete-files", **options: Any) -> Compactor:
    return Compactor(
        lake.settings, strategy, engine="inline", options={name.replace("_", "-"): v for name, v in options.items()}
    )


@pytest.mark.parametrize("strategy", ["delete-files", "small-files", "full"])
def test_deletes_of_all_kinds_are_applied_and_removed(local_lake: lakes.Lake, strategy: str) -> None:
    table = make(local_lake, each=6)
    first, second, third, *_ = paths(table)
    table = manifests.add_position_delete(table, {first: [0, 3]})
    table = manifests.add_position_delete(table, {second: [9], third: [0]}, file_scoped=False)
    table = manifests.add_equality_delete(table, keys(31, 32, 3, 999))
    table.append(rows(60, 10))
    expected = sorted(set(range(70)) - {0, 3, 19, 20, 31, 32})

    outcome = compactor(local_lake, strategy).compact_table("db.t")

    assert outcome.kind is Kind.COMPACTED, outcome.sentence
    assert (outcome.deleted_rows, outcome.delete_files_removed) == (6, 3)
    assert "; 6 deleted rows are gone and 3 delete files were removed." in outcome.sentence
    assert outcome.proof is not None
    assert outcome.proof.expected_rows == outcome.records + 6
    table.refresh()
    assert table.inspect.delete_files().num_rows == 0
    assert ids(table) == expected
    summary = table.current_snapshot().summary
    assert summary["compaction.proof.deleted-rows"] == "6"
    assert summary["removed-delete-files"] == "3"
    assert compactor(local_lake, strategy).compact_table("db.t").kind is Kind.HEALTHY
    assert storage.referenced_data_files(table) <= storage.files_under(table)


def test_r9_a_group_whose_rows_are_all_deleted_leaves_no_file(local_lake: lakes.Lake) -> None:
    table = make(local_lake, each=2)
    table = manifests.add_equality_delete(table, keys(*range(20)))
    outcome = compactor(local_lake).compact_table("db.t")
    assert (outcome.kind, outcome.files_removed, outcome.files_added) == (Kind.COMPACTED, 2, 0), outcome.sentence
    assert (outcome.records, outcome.deleted_rows, outcome.delete_files_removed) == (0, 20, 1)
    table.refresh()
    assert ids(table) == []
    assert compactor(local_lake).plan_table("db.t").empty


def test_only_delete_heavy_files_are_rewritten_and_deletes_that_others_need_stay(local_lake: lakes.Lake) -> None:
    table = make(local_lake, spec=BY_DAY, days=2)
    first, _, _, fourth, *_ = paths(table)
    table = manifests.add_position_delete(table, {first: [1, 2, 3, 4]})
    table = manifests.add_equality_delete(table, keys(7, 17), like=first)
    table = manifests.add_position_delete(table, {fourth: [5]})

    plan = compactor(local_lake, delete_ratio_threshold=0.4).plan_table("db.t")

    assert plan.files["file_path"].to_pylist() == [first]
    assert plan.groups[0].reason is GroupReason.DELETES
    outcome = compactor(local_lake).apply(plan)
    assert (outcome.kind, outcome.deleted_rows) == (Kind.COMPACTED, 5), outcome.sentence
    assert outcome.delete_files_removed == 1  # the second file still needs the equality delete, the fourth its own
    table.refresh()
    assert table.inspect.delete_files().num_rows == 2
    assert sorted(table.inspect.data_files()["record_count"].to_pylist()) == [5, 10, 10, 10, 10, 10]


def test_tasks_carry_exactly_what_applies(local_lake: lakes.Lake) -> None:
    table = make(local_lake, spec=BY_DAY, days=2)
    first, second, *_ = paths(table)
    table = manifests.add_position_delete(table, {first: [1]})
    table = manifests.add_position_delete(table, {first: [2], second: [2]}, file_scoped=False)
    table = manifests.add_equality_delete(table, keys(5), like=first)
    table.append(rows(60, 10, day=0))
    plan = work.plan_table(local_lake.catalog, "db.t", Policy(rewrite_all=True), compactor(local_lake)._run())

    tasks = cut_tasks.build_tasks(plan, deletes_of(table, plan))

    by_day = {task.partition: task for task in tasks}
    assert [(d.content, d.sequence_number, d.equality_ids) for d in by_day['{"day":0}'].deletes] == [
        (2, 9, (1,)),
        (1, 8, ()),
        (1, 7, ()),
    ]
    assert by_day['{"day":0}'].sequence_numbers == (1, 2, 3, 10)
    assert by_day['{"day":1}'].deletes == ()
    everything = cut_tasks.all_deletes(tasks)
    context = shared_context.build_context(table, plan, "run", everything)
    assert {path: len(data) for path, data in context.delete_contents.items()} == {
        delete.file_path: delete.file_size_in_bytes for delete in everything
    }
    assert (context.output_spec_id, context.sort_order, context.delete_fields) == (None, None, {})


def test_many_delete_bytes_are_not_sent_along(local_lake: lakes.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(local_lake)
    table = manifests.add_equality_delete(table, keys(5))
    plan = compactor(local_lake).plan_table("db.t")
    deletes = cut_tasks.all_deletes(cut_tasks.build_tasks(plan, deletes_of(table, plan)))
    monkeypatch.setattr(shared_context, "INLINE_BYTES", deletes[0].file_size_in_bytes)
    assert shared_context.build_context(table, plan, "run", deletes).delete_contents == {}
    assert compactor(local_lake).compact_table("db.t").deleted_rows == 1


def test_a_table_without_deletes_is_not_looked_into(local_lake: lakes.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(local_lake)
    plan = compactor(local_lake, rewrite_all=True).plan_table("db.t")
    monkeypatch.setattr(
        deletes_for_plan.live_files, "live_files", lambda *args, **kwargs: pytest.fail("files were read")
    )
    assert deletes_of(table, plan) is None


def test_a_plan_whose_files_are_not_in_its_snapshot_is_stale(local_lake: lakes.Lake) -> None:
    table = make(local_lake)
    table = manifests.add_equality_delete(table, keys(5))
    plan = compactor(local_lake).plan_table("db.t")
    assert plan.pin is not None
    gone = plan.model_copy(update={"pin": plan.pin.model_copy(update={"snapshot_id": 1})})
    with pytest.raises(errors.StalePlanError, match="is gone"):
        deletes_of(table, gone)
    table.append(rows(30, 10))
    later = compactor(local_lake, rewrite_all=True).plan_table("db.t")
    with pytest.raises(errors.StalePlanError, match="not in snapshot"):
        deletes_of(table, later.model_copy(update={"pin": plan.pin}))


def test_r23_fields_that_the_schema_has_lost_are_looked_up_in_older_ones(local_lake: lakes.Lake) -> None:
    table = make(local_lake)
    table = manifests.add_equality_delete(table, pa.table({"name": ["n5", "n15"]}))
    with table.update_schema() as update:
        update.delete_column("name")
    plan = compactor(local_lake).plan_table("db.t")
    deletes = cut_tasks.all_deletes(cut_tasks.build_tasks(plan, deletes_of(table, plan)))
    context = shared_context.build_context(table, plan, "run", deletes)
    assert list(context.delete_fields) == [3]
    assert '"name"' in context.delete_fields[3]
    strange = deletes[0].model_copy(update={"equality_ids": (77,)})
    with pytest.raises(errors.UnsupportedError, match="field 77"):
        shared_context.build_context(table, plan, "run", [strange])
    outcome = compactor(local_lake).compact_table("db.t")
    assert outcome.deleted_rows == 2, outcome.sentence
    assert ids(table.refresh()) == sorted(set(range(30)) - {5, 15})


def test_r32_outputs_have_the_current_spec_unless_the_inputs_own_is_kept(local_lake: lakes.Lake) -> None:
    table = make(local_lake, each=6)
    with table.update_spec() as update:
        update.add_field("day", IdentityTransform(), "day")
    plan = compactor(local_lake, "small-files").plan_table("db.t")
    assert shared_context.build_context(table, plan, "run").output_spec_id == 1
    assert sorted(shared_context.build_context(table, plan, "run").partition_specs) == [0, 1]
    kept = compactor(local_lake, "small-files", keep_spec=True).plan_table("db.t")
    assert shared_context.build_context(table, kept, "run").output_spec_id is None

    assert compactor(local_lake, "small-files", keep_spec=True).compact_table("db.t").kind is Kind.COMPACTED
    assert {row["spec_id"] for row in table.refresh().inspect.data_files().to_pylist()} == {0}
    assert compactor(local_lake, "full", rewrite_all=True).compact_table("db.t").kind is Kind.COMPACTED
    assert {row["spec_id"] for row in table.refresh().inspect.data_files().to_pylist()} == {1}
    assert ids(table) == list(range(60))


def test_files_of_a_spec_whose_column_is_gone_move_to_the_current_spec(local_lake: lakes.Lake) -> None:
    table = make(local_lake, spec=BY_DAY, days=2, each=5)
    with table.update_spec() as update:
        update.remove_field("day")
    with table.update_schema() as update:
        update.delete_column("day")
    kept = compactor(local_lake, "small-files", keep_spec=True).compact_table("db.t")
    assert (kept.kind, "keep-spec" in kept.sentence) == (Kind.UNSUPPORTED, True)
    moved = compactor(local_lake, "small-files").compact_table("db.t")
    assert moved.kind is Kind.COMPACTED, moved.sentence
    table.refresh()
    found = look.look(table, name="db.t").view  # PyIceberg's own list fails on the lost column
    assert set(found.files["spec_id"].to_pylist()) == {table.spec().spec_id}
    assert ids(table) == list(range(100))


def test_the_tables_sort_order_goes_with_the_tasks(local_lake: lakes.Lake) -> None:
    order = SortOrder(SortField(1, IdentityTransform(), SortDirection.DESC), order_id=1)
    table = local_lake.catalog.create_table("db.t", SCHEMA, sort_order=order)
    for number in range(5):
        table.append(rows(number * 10, 10))
    plan = compactor(local_lake, "small-files").plan_table("db.t")
    found = shared_context.build_context(table, plan, "run").sort_order
    assert found is not None
    assert SortOrder.model_validate_json(found) == table.sort_order()
    assert Schema.model_validate_json(shared_context.build_context(table, plan, "run").table_schema) == table.schema()


def test_r47_where_and_deletes_keep_rows_that_do_not_match(local_lake: lakes.Lake) -> None:
    """R47: files are chosen, not rows."""
    table = make(local_lake)
    table = manifests.add_equality_delete(table, keys(5, 15))
    outcome = compactor(local_lake, where="id < 3").compact_table("db.t")
    assert (outcome.files_removed, outcome.deleted_rows, outcome.delete_files_removed) == (1, 1, 0), outcome.sentence
    found = table.refresh().inspect.data_files()
    assert pc.sum(found["record_count"]).as_py() == 29
