"""`deletes` leaves every row as it was: dead or alive, by whichever delete files (R17-R26)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.types import IntegerType
from tests.factories import delete_tables, manifests, reader, storage
from tests.factories.cities import BY_CITY, SCHEMA
from tests.factories.lake import make_table

from iceberg_compaction import Compactor, Kind
from iceberg_compaction.operations import upkeep_file
from iceberg_compaction.workflow import operate

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.table import Table
    from tests.factories.lake import Lake

    from iceberg_compaction import Outcome


def rows(*ids: int, city: str = "Rome") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "city": pa.array([city] * len(ids))}).cast(SCHEMA.as_arrow())


def keys(*ids: int | None) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def clean(table: Table, **wanted: Any) -> Outcome:
    return Compactor(table.catalog, engine="inline").clean_deletes(".".join(table.name()), **wanted)


def fresh(table: Table) -> Table:
    return table.catalog.load_table(table.name())


def live(table: Table) -> list[dict[str, Any]]:
    inspected: list[dict[str, Any]] = fresh(table).inspect.files().to_pylist()
    return inspected


def deletes(table: Table, content: int | None = None) -> list[dict[str, Any]]:
    return [file for file in live(table) if file["content"] and content in (None, file["content"])]


def paths(table: Table) -> list[str]:
    return [file["file_path"] for file in live(table) if not file["content"]]


def entries(table: Table) -> list[ManifestEntry]:
    """Of the current snapshot."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return [entry for manifest in snapshot.manifests(table.io) for entry in manifest.fetch_manifest_entry(table.io)]


@pytest.fixture
def table(local_lake: Lake) -> Table:
    return make_table(local_lake.catalog, local_lake.name("t"), SCHEMA, spec=BY_CITY)


def test_equality_deletes_become_position_deletes(table: Table) -> None:
    table.append(rows(1, 2, 3))
    table.append(rows(4, 5, 1))
    (path, _) = paths(table)
    table = manifests.add_equality_delete(fresh(table), keys(1, 5, 99), like=path)
    table.append(rows(1, 7))  # newer than the delete
    before = reader.rows(fresh(table))
    data = set(paths(table))

    outcome = clean(table)

    assert outcome.kind is Kind.MAINTAINED, outcome.sentence
    assert outcome.figures["converted-delete-files"] == 1
    assert outcome.figures["positions"] == 3
    assert reader.rows(fresh(table)) == before
    assert set(paths(table)) == data
    assert [file["record_count"] for file in deletes(table, 1)] in ([1, 2], [2, 1])
    assert not deletes(table, 2)
    assert clean(table).kind is Kind.HEALTHY
    assert not storage.files_under(table) - reader.known_files(fresh(table))


def test_r17_r18_only_what_applies_to_nothing_leaves_with_dangling(local_lake: Lake) -> None:
    t = delete_tables.delete_table(local_lake)
    (rome,) = t.data("Rome")
    applies = [t.position("Rome", rome, scoped=True), t.position("Rome", rome), t.equality("Rome")]
    with t.table.update_spec() as update:
        update.remove_field("city")
    t.refresh()
    everywhere = t.equality(None, spec_id=1)  # its own spec has no data, and it is global
    t.equality("Oslo", spec_id=0)
    before = t.live()

    outcome = clean(t.table, dangling=True)

    assert outcome.kind is Kind.MAINTAINED, outcome.sentence
    assert t.deletes() == {*applies, everywhere}
    assert [row for row in t.live() if not row["content"]] == [row for row in before if not row["content"]]
    assert clean(t.table, dangling=True).kind is Kind.HEALTHY


def test_17203_a_position_delete_for_a_file_that_is_gone_leaves_whatever_its_number(local_lake: Lake) -> None:
    t = delete_tables.delete_table(local_lake)
    t.data("Rome")
    t.position("Rome", "file:///gone.parquet", scoped=True)
    assert clean(t.table, dangling=True).delete_files_removed == 1
    assert not t.deletes()


def test_r25_r21_r26_position_deletes_of_a_data_file_become_one(table: Table) -> None:
    table.append(rows(*range(10)))
    table.append(rows(*range(10, 20)))
    one, other = paths(table)
    for positions in ({one: [7]}, {one: [2, 3]}, {other: [0]}):
        table = manifests.add_position_delete(fresh(table), positions)
    table = manifests.add_position_delete(fresh(table), {one: [2, 9], other: [0, 5]}, file_scoped=False)
    newest = table.current_snapshot().sequence_number
    table.append(rows(30, 31))
    before = reader.rows(fresh(table))

    outcome = clean(table, merge=True)

    assert reader.rows(fresh(table)) == before
    assert outcome.figures["merged-delete-files"] == 4
    assert outcome.figures["positions"] == 6
    made = deletes(table, 1)
    assert sorted(file["record_count"] for file in made) == [2, 4]
    table = fresh(table)
    for entry in (entry for each in made for entry in entries(table) if entry.data_file.file_path == each["file_path"]):
        assert entry.sequence_number == newest  # R25, 7651
        file = entry.data_file
        assert file.lower_bounds[manifests.FILE_PATH_ID] in (one.encode(), other.encode())  # R21: full
        assert file.upper_bounds[manifests.FILE_PATH_ID] == file.lower_bounds[manifests.FILE_PATH_ID]
        assert file.sort_order_id is None  # R26
    for file in made:
        stored = pq.read_table(file["file_path"].removeprefix("file://"))
        order = list(zip(stored["file_path"].to_pylist(), stored["pos"].to_pylist(), strict=True))
        assert order == sorted(order)  # R26
    assert clean(table, merge=True).kind is Kind.HEALTHY


@pytest.mark.parametrize(("granularity", "files"), [("file", 2), ("partition", 1)])
def test_a_table_says_what_a_delete_file_is_for(table: Table, granularity: str, files: int) -> None:
    table.append(rows(*range(10)))
    table.append(rows(*range(10, 20)))
    one, other = paths(table)
    with table.transaction() as transaction:
        transaction.set_properties({"write.delete.granularity": granularity})
    for positions in ({one: [1], other: [2]}, {one: [3], other: [4]}, {one: [5], f"{one}.gone": [1]}):
        table = manifests.add_position_delete(fresh(table), positions, file_scoped=False)
    before = reader.rows(fresh(table))
    outcome = clean(table)
    assert reader.rows(fresh(table)) == before
    assert (outcome.figures["new-position-delete-files"], outcome.figures["positions"]) == (
        files,
        5,
    )  # the dead row left
    assert clean(table).kind is Kind.HEALTHY


def test_r22_r23_keys_of_dropped_columns_nulls_and_several_sets_of_columns(table: Table) -> None:
    table.append(rows(1, 2, 3))
    (path,) = paths(table)
    with fresh(table).update_schema() as update:
        update.add_column("size", IntegerType())
    table = fresh(table)
    sized = pa.table({"id": pa.array([4, None, 6]), "city": ["Rome"] * 3, "size": pa.array([1, 2, None], pa.int32())})
    table.append(sized)
    table = manifests.add_equality_delete(fresh(table), pa.table({"size": pa.array([None], pa.int32())}), like=path)
    table = manifests.add_equality_delete(fresh(table), keys(None), like=path)
    before = reader.rows(fresh(table))
    assert sorted(before) == [(4, "Rome", 1)]  # old files have no size: it is null
    with fresh(table).update_schema() as update:
        update.delete_column("size")

    outcome = clean(table, convert=True, verify="deep")

    assert outcome.figures["converted-delete-files"] == 2, outcome.sentence
    assert reader.rows(fresh(table)) == Counter({(4, "Rome"): 1})
    assert not deletes(table, 2)


def test_r18_a_global_delete_leaves_only_if_all_partitions_are_converted(table: Table) -> None:
    table.append(pa.concat_tables([rows(1, 2), rows(1, 3, city="Oslo")]))
    with table.update_spec() as update:
        update.remove_field("city")
    table = fresh(table)
    table.append(rows(1, 9, city="Bonn"))
    table = manifests.add_equality_delete(fresh(table), keys(1))
    table.append(rows(1))
    before = reader.rows(fresh(table))
    assert clean(table, convert=True, where="city = 'Rome'").kind is Kind.HEALTHY  # Oslo lies outside
    assert clean(table, convert=True, where="current_date() < '2000-01-01'").kind is Kind.HEALTHY
    assert len(deletes(table, 2)) == 1

    outcome = clean(table, convert=True, verify="deep")

    assert outcome.figures == {
        "dangling-delete-files": 0,
        "merged-delete-files": 0,
        "converted-delete-files": 1,
        "new-position-delete-files": 3,
        "positions": 3,
    }
    assert reader.rows(fresh(table)) == before
    assert not deletes(table, 2)


def test_conversion_keeps_positions_that_are_there(table: Table) -> None:
    table.append(rows(1, 2, 3, 4))
    (path,) = paths(table)
    table = manifests.add_position_delete(fresh(table), {path: [0]})
    table = manifests.add_equality_delete(fresh(table), keys(1, 2), like=path)
    before = reader.rows(fresh(table))
    outcome = clean(table, convert=True)
    assert outcome.figures["positions"] == 1  # row 0 is deleted by position already
    assert len(deletes(table, 1)) == 2
    assert reader.rows(fresh(table)) == before
    assert clean(table).figures["merged-delete-files"] == 2  # now the data file has two
    assert reader.rows(fresh(table)) == before


def test_a_saved_plan_is_performed_and_nothing_more(table: Table, tmp_path: Path) -> None:
    table.append(rows(1, 2, 3, 4))
    (path,) = paths(table)
    table = manifests.add_equality_delete(fresh(table), keys(1), like=path)
    compactor, name = Compactor(table.catalog, engine="inline"), ".".join(table.name())
    plan = compactor.plan_deletes(name)
    upkeep_file.save(plan, tmp_path / "plan.json")
    table = manifests.add_equality_delete(fresh(table), keys(2), like=path)
    before = reader.rows(fresh(table))

    operation = upkeep_file.load_operation(tmp_path / "plan.json")
    outcome = operate.operate(operation, compactor._house(), compactor._run())

    assert outcome.figures["converted-delete-files"] == 1
    assert len(deletes(table, 2)) == 1  # the second one is not in the plan
    assert reader.rows(fresh(table)) == before


def test_a_table_without_deletes_needs_nothing(table: Table) -> None:
    assert clean(table).sentence == "The table has no delete files."
    table.append(rows(1))
    assert clean(table).kind is Kind.HEALTHY


def test_a_run_is_verified_by_its_rows_and_undone_while_nothing_followed(table: Table, tmp_path: Path) -> None:
    table.append(rows(1, 2, 3, 4))
    (path,) = paths(table)
    table = manifests.add_equality_delete(fresh(table), keys(1), like=path)
    before, old = reader.rows(fresh(table)), {file["file_path"] for file in deletes(table)}
    compactor = Compactor(table.catalog, engine="inline", state=tmp_path / "runs.db")
    outcome = compactor.clean_deletes(".".join(table.name()))

    verified = compactor.verify(outcome.run_id)
    assert verified.verdict.value == "proved", verified.sentence
    assert "the rows of the 1 file whose delete files are others are the same" in verified.sentence
    assert compactor.undo(outcome.run_id).kind is Kind.UNDONE
    assert {file["file_path"] for file in deletes(table)} == old
    assert reader.rows(fresh(table)) == before


def test_verify_sees_positions_that_are_wrong(table: Table, tmp_path: Path) -> None:
    table.append(rows(1, 2, 3, 4))
    (path,) = paths(table)
    table = manifests.add_equality_delete(fresh(table), keys(1), like=path)
    compactor = Compactor(table.catalog, engine="inline", state=tmp_path / "runs.db")
    outcome = compactor.clean_deletes(".".join(table.name()))
    (made,) = deletes(table)
    file = made["file_path"].removeprefix("file://")
    stored = pq.read_table(file)
    pq.write_table(stored.set_column(1, stored.schema.field(1), pa.array([2], pa.int64())), file)

    assert compactor.verify(outcome.run_id).verdict.value == "differs"
