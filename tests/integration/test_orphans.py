"""Orphan files of real tables: what is one, what is not, and what is refused."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.table.statistics import PartitionStatisticsFile
from pyiceberg.table.update import SetLocationUpdate
from pyiceberg.transforms import IdentityTransform
from tests.factories import lake, orphans
from tests.factories.stores import make_start

from iceberg_compaction import errors
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.model.orphan_plan import OrphanGoal
from iceberg_compaction.model.outcome import Kind, Maintained
from iceberg_compaction.operations import upkeep_file
from iceberg_compaction.operations.orphans.quarantine import FOLDER
from iceberg_compaction.operations.orphans.quarantine_end import EndQuarantine
from iceberg_compaction.storage.tree import copy_file
from iceberg_compaction.workflow import operate

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from iceberg_compaction.model import orphan_plan

RECENT = OrphanGoal(older_than_ms=0, allow_recent=True, force_share=True)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return lake.local_catalog(tmp_path)


@pytest.fixture
def table(catalog: Catalog) -> Table:
    table = lake.append_small_files(lake.make_table(catalog, "db.t"), 3)
    orphans.age_all(table)
    return table


def kept(plan: orphan_plan.OrphanPlan) -> dict[str, int]:
    return {step.name: step.count for step in plan.kept}


def test_a_table_without_leftovers_has_no_orphans(catalog: Catalog, table: Table) -> None:
    plan = orphans.find(catalog, "db.t")
    assert plan.empty
    assert plan.sentence == "There are no orphan files."
    assert kept(plan) == {"files of the table": len(orphans.every_file(table))}


def test_old_files_that_nobody_refers_to_are_orphans(catalog: Catalog, table: Table) -> None:
    left = [orphans.strew(table, "data/left.parquet"), orphans.strew(table, "metadata/left.avro")]
    orphans.strew(table, "data/_temporary/0/part.parquet")
    orphans.strew(table, "data/.part.crc")
    orphans.strew(table, "data/young.parquet", days=2)
    plan = orphans.find(catalog, "db.t")
    assert sorted(plan.files.paths) == sorted(left)
    assert {step.name: step.count for step in plan.steps} == {"data files": 1, "metadata files": 1}
    assert kept(plan)["hidden files"] == 2
    assert kept(plan)["young files"] == 1
    assert plan.listed == len(orphans.every_file(table))


def test_folders_of_partition_fields_are_not_hidden(catalog: Catalog) -> None:
    table = lake.make_table(catalog, "db.p")
    with table.update_spec() as change:
        change.add_field("name", IdentityTransform(), "_name")
    table.append(lake.rows(lake.NUMBERS, 2))
    orphans.age_all(table)
    left = orphans.strew(table, "data/_name=x/left.parquet")
    orphans.strew(table, "data/_other=x/left.parquet")
    plan = orphans.find(catalog, "db.p")
    assert list(plan.files.paths) == [left]


def test_links_are_left_alone(catalog: Catalog, table: Table, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    os.symlink(tmp_path / "elsewhere", orphans.folder(table) / "data" / "folder")
    os.symlink(tmp_path / "lake.db", orphans.folder(table) / "data" / "file.parquet")
    plan = orphans.find(catalog, "db.t", RECENT)
    assert plan.empty
    assert kept(plan)["links and odd names"] == 2


def test_other_folders_of_the_table_are_listed(catalog: Catalog, tmp_path: Path) -> None:
    properties = {
        "write.data.path": f"file://{tmp_path}/far/data",
        "write.object-storage.path": f"file://{tmp_path}/hash",
    }
    table = lake.append_small_files(lake.make_table(catalog, "db.far", properties=properties), 2)
    orphans.age_all(table)
    (tmp_path / "far/data/left.parquet").write_bytes(b"left")
    (tmp_path / "hash/0101/left.parquet").parent.mkdir(parents=True)
    (tmp_path / "hash/0101/left.parquet").write_bytes(b"left")
    plan = orphans.find(catalog, "db.far", RECENT)
    assert list(plan.files.paths) == [
        f"file://{tmp_path}/far/data/left.parquet",
        f"file://{tmp_path}/hash/0101/left.parquet",
    ]


def test_folders_that_are_one_in_two_spellings_are_listed_once(catalog: Catalog, table: Table) -> None:
    left = orphans.strew(table, "data/left.parquet")
    with table.transaction() as change:
        change.set_properties({"write.data.path": f"{table.location().replace('file://', 'file:')}/data"})
    assert orphans.find(catalog, "db.t").files.paths == (left,)


def test_live_files_outside_of_all_folders_are_reported(catalog: Catalog, table: Table, tmp_path: Path) -> None:
    with table.transaction() as change:
        change.set_properties({"write.data.path": f"file://{tmp_path}/once/data"})
    table.refresh().append(lake.rows(lake.NUMBERS, 2))
    with table.transaction() as change:
        change.remove_properties("write.data.path")
    plan = orphans.find(catalog, "db.t", RECENT)
    assert plan.empty
    assert any(f"1 file below file://{tmp_path}/once/data," in note and "--location" in note for note in plan.notes)
    (tmp_path / "once/data/left.parquet").write_bytes(b"left")
    wider = RECENT.model_copy(update={"locations": (f"file://{tmp_path}/once",)})
    assert list(orphans.find(catalog, "db.t", wider).files.paths) == [f"file://{tmp_path}/once/data/left.parquet"]


def test_removed_orphans_come_back(catalog: Catalog, table: Table) -> None:
    left = orphans.strew(table, "data/a b%20c/left.parquet", content=b"precious")
    before = orphans.every_file(table)
    outcome = orphans.remove(catalog, "db.t")
    assert isinstance(outcome, Maintained), outcome.sentence
    assert outcome.figures == {"files": 1, "bytes": 8, "uploads": 0, "left": 0}
    assert "orphans restore" in outcome.notes[0]
    assert left not in orphans.every_file(table)
    assert orphans.find(catalog, "db.t").empty
    assert kept(orphans.find(catalog, "db.t"))["quarantine"] == 2
    back = operate.operate(
        EndQuarantine(table="db.t", way="restore", run_id=outcome.run_id[:8]), orphans.house(catalog), wiring.new_run()
    )
    assert back.kind is Kind.MAINTAINED, back.sentence
    assert orphans.every_file(table) == before
    assert (orphans.folder(table) / "data/a b%20c/left.parquet").read_bytes() == b"precious"


@pytest.mark.parametrize("content", [b"something new", b"new"])
def test_a_file_that_is_there_again_is_not_replaced(catalog: Catalog, table: Table, content: bytes) -> None:
    """Nor is its copy taken for it, if it happens to have as many bytes."""
    orphans.strew(table, "data/left.parquet", content=b"old")
    orphans.remove(catalog, "db.t")
    orphans.strew(table, "data/left.parquet", content=content)
    back = operate.operate(EndQuarantine(table="db.t", way="restore"), orphans.house(catalog), wiring.new_run())
    assert back.kind is Kind.FAILED
    assert "other content" in back.sentence
    assert (orphans.folder(table) / "data/left.parquet").read_bytes() == content
    assert any(FOLDER in path and path.endswith(".parquet") for path in orphans.every_file(table))


def test_purge_waits_and_then_deletes_what_the_manifest_names(catalog: Catalog, table: Table) -> None:
    orphans.strew(table, "data/left.parquet")
    outcome = orphans.remove(catalog, "db.t")
    alien = orphans.strew(table, f"{FOLDER}/{outcome.run_id}/alien.parquet")
    house = orphans.house(catalog)
    early = operate.operate(EndQuarantine(table="db.t", way="purge"), house, wiring.new_run())
    assert early.kind is Kind.HEALTHY
    assert "too short" in early.sentence
    late = operate.operate(EndQuarantine(table="db.t", way="purge", older_than_ms=0), house, wiring.new_run())
    assert isinstance(late, Maintained)
    assert late.figures["files"] == 1
    assert {path for path in orphans.every_file(table) if FOLDER in path} == {alien}


def test_purge_spares_what_the_table_refers_to_again(catalog: Catalog, table: Table) -> None:
    """Somebody may have registered an older state of the table."""
    orphans.strew(table, "data/left.parquet")
    outcome = orphans.remove(catalog, "db.t")
    live = next(iter(table.inspect.files()["file_path"].to_pylist()))
    manifest = orphans.folder(table) / FOLDER / outcome.run_id / "manifest-00000.jsonl"
    left = f"{table.location()}/data/left.parquet"
    manifest.write_text(manifest.read_text().replace(left, live))
    late = operate.operate(
        EndQuarantine(table="db.t", way="purge", older_than_ms=0), orphans.house(catalog), wiring.new_run()
    )
    assert late.kind is Kind.FAILED
    assert "refers to" in late.sentence


def test_a_manifest_of_another_table_is_refused(catalog: Catalog, table: Table) -> None:
    orphans.strew(table, "data/left.parquet")
    outcome = orphans.remove(catalog, "db.t")
    manifest = orphans.folder(table) / FOLDER / outcome.run_id / "manifest-00000.jsonl"
    text = manifest.read_text()
    manifest.write_text(text.replace(f"{outcome.run_id}/00000", "../data/00000"))
    with pytest.raises(errors.MetadataError, match="not beside it"):
        operate.plan_only(EndQuarantine(table="db.t", way="purge"), orphans.house(catalog), wiring.new_run())
    manifest.write_text(text[:40])
    with pytest.raises(errors.MetadataError, match="damaged"):
        operate.plan_only(EndQuarantine(table="db.t", way="purge"), orphans.house(catalog), wiring.new_run())


def test_a_quarantine_of_ones_own(catalog: Catalog, table: Table, tmp_path: Path) -> None:
    orphans.strew(table, "data/left.parquet")
    with pytest.raises(errors.ConfigError, match="orphans again"):
        orphans.find(catalog, "db.t", quarantine=f"{table.location()}/quarantine")
    before = orphans.every_file(table)
    outcome = orphans.remove(catalog, "db.t", quarantine=f"file://{tmp_path}/aside")
    assert outcome.kind is Kind.MAINTAINED
    assert len(orphans.every_file(table)) == len(before) - 1
    end = EndQuarantine(table="db.t", way="restore", quarantine=f"file://{tmp_path}/aside")
    operate.operate(end, orphans.house(catalog), wiring.new_run())
    assert orphans.every_file(table) == before


def test_orphans_are_deleted_on_explicit_word(catalog: Catalog, table: Table) -> None:
    left = orphans.strew(table, "data/left.parquet")
    outcome = orphans.remove(catalog, "db.t", to_quarantine=False)
    assert isinstance(outcome, Maintained)
    assert "cannot be brought back" in outcome.notes[0]
    assert left not in orphans.every_file(table)
    assert not (orphans.folder(table) / FOLDER).exists()


def test_an_odd_share_needs_a_word(catalog: Catalog, table: Table) -> None:
    left = [orphans.strew(table, f"data/left-{number}.parquet") for number in range(5)]
    plan = orphans.find(catalog, "db.t")
    assert plan.refusal is not None
    assert "--force-share" in plan.refusal
    outcome = orphans.remove(catalog, "db.t", OrphanGoal())
    assert outcome.kind is Kind.FAILED
    assert set(left) < orphans.every_file(table)


def test_a_folder_without_files_of_the_table_needs_a_word(catalog: Catalog, table: Table, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/a.parquet").write_bytes(b"somebody's")
    goal = OrphanGoal(older_than_ms=0, allow_recent=True, locations=(f"file://{tmp_path}/elsewhere",))
    assert "is one of the table" in str(orphans.find(catalog, "db.t", goal).refusal)


def test_a_plan_takes_so_many_files_at_a_time(catalog: Catalog, table: Table) -> None:
    for number in range(5):
        orphans.strew(table, f"data/left-{number}.parquet")
    goal = OrphanGoal(most_files=2, force_share=True)
    plan = orphans.find(catalog, "db.t", goal)
    assert (len(plan.files.paths), plan.left) == (2, 3)
    assert "5 orphan files" in plan.sentence
    orphans.remove(catalog, "db.t", goal)
    assert orphans.find(catalog, "db.t", goal).left == 1


def test_a_saved_plan_removes_nothing_that_it_does_not_name(catalog: Catalog, table: Table, tmp_path: Path) -> None:
    named, rewritten = (orphans.strew(table, f"data/{name}.parquet") for name in ("named", "rewritten"))
    upkeep_file.save(orphans.find(catalog, "db.t", orphans.ANY_SHARE), tmp_path / "plan.json")
    later = orphans.strew(table, "data/later.parquet")
    orphans.strew(table, "data/rewritten.parquet", days=9, content=b"other")
    outcome = operate.operate(
        upkeep_file.load_operation(tmp_path / "plan.json"), orphans.house(catalog), wiring.new_run()
    )
    assert outcome.kind is Kind.MAINTAINED, outcome.sentence
    left = orphans.every_file(table)
    assert named not in left
    assert {later, rewritten} <= left


def test_r76_files_that_are_committed_during_the_removal_stay(catalog: Catalog, table: Table) -> None:
    """4194: a writer that took longer than the age commits its files at the last moment."""
    import pyarrow.parquet as pq

    late = f"{table.location()}/data/late.parquet"
    pq.write_table(lake.rows(lake.NUMBERS, 3), late.removeprefix("file://"))
    orphans.age(orphans.folder(table) / "data/late.parquet", 10)
    run = wiring.new_run()

    def commit(event: object) -> None:
        if type(event).__name__ == "Planned":
            catalog.load_table("db.t").add_files([late])

    run.on_event = commit
    outcome = orphans.remove(catalog, "db.t", run=run)
    assert outcome.files_removed == 0
    assert "became part of the table meanwhile" in outcome.sentence
    assert catalog.load_table("db.t").scan().to_arrow().num_rows == 33


def test_r76_files_that_are_committed_while_they_are_copied_stay(
    catalog: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow.parquet as pq

    late = f"{table.location()}/data/late.parquet"
    pq.write_table(lake.rows(lake.NUMBERS, 3), late.removeprefix("file://"))
    orphans.age(orphans.folder(table) / "data/late.parquet", 10)
    copy = copy_file.copy

    def copy_slowly(*given: Any) -> None:
        copy(*given)
        catalog.load_table("db.t").add_files([late])

    monkeypatch.setattr(copy_file, "copy", copy_slowly)
    outcome = orphans.remove(catalog, "db.t")
    assert "became part of the table meanwhile" in outcome.sentence
    assert catalog.load_table("db.t").scan().to_arrow().num_rows == 33
    monkeypatch.undo()
    house = orphans.house(catalog)
    run = wiring.new_run()
    run.clock = lambda: wiring.now_ms() + 2 * 3_600_000  # before, the removal might still be at work
    operate.operate(EndQuarantine(table="db.t", way="restore"), house, run)
    assert catalog.load_table("db.t").scan().to_arrow().num_rows == 33
    assert not any(FOLDER in path for path in orphans.every_file(table))


def test_r50_a_table_that_is_dropped_and_made_anew_meanwhile_keeps_its_files(catalog: Catalog, table: Table) -> None:
    orphans.strew(table, "data/left.parquet")
    run = wiring.new_run()

    def replace(event: object) -> None:
        if type(event).__name__ == "Planned":
            catalog.drop_table("db.t")
            catalog.create_table("db.t", lake.NUMBERS, location=table.location())

    run.on_event = replace
    outcome = orphans.remove(catalog, "db.t", run=run)
    assert outcome.kind is Kind.CONFLICT
    assert (orphans.folder(table) / "data/left.parquet").exists()


def test_files_of_unfinished_runs_stay(catalog: Catalog, table: Table, tmp_path: Path) -> None:
    store = wiring.run_store(tmp_path / "runs.db")
    run_id = "0123456789abcdef0123456789abcdef"
    start = make_start(run_id=run_id, table="db.t", table_uuid=str(table.metadata.table_uuid))
    store.begin(start)
    orphans.strew(table, f"data/00000-1-{run_id}-00000.parquet")
    orphans.strew(table, "metadata/00009-01234567-89ab-cdef-0123-456789abffff.metadata.json")
    plan = orphans.find(catalog, "db.t", run=wiring.new_run(store=store))
    assert plan.empty
    assert kept(plan)["unfinished runs"] == 2
    store.finish(run_id)
    assert len(orphans.find(catalog, "db.t", run=wiring.new_run(store=store)).files.paths) == 2


# Each of these destroyed tables elsewhere.


def test_4652_paths_with_another_authority_or_scheme_stop_everything(catalog: Catalog, tmp_path: Path) -> None:
    """4652 and 5795: the listing says `file:/x`, the metadata `file://host/x`, and all files look like orphans."""
    table = lake.append_small_files(lake.make_table(catalog, "db.t"), 2)
    orphans.age_all(table)
    goal = OrphanGoal(locations=(table.location().replace("file://", "file:"),))
    assert orphans.find(catalog, "db.t", goal).empty  # one and the same
    bare = goal.model_copy(update={"locations": (table.location().replace("file://", ""),)})
    assert orphans.find(catalog, "db.t", bare).empty


def test_9284_and_5795_statistics_of_both_kinds_stay(catalog: Catalog, table: Table) -> None:
    snapshot_id = table.current_snapshot().snapshot_id  # type: ignore[union-attr]
    path = orphans.strew(table, "metadata/stats.parquet")
    puffin = orphans.strew(table, "metadata/table.stats")
    partition = PartitionStatisticsFile(
        **{"snapshot-id": snapshot_id, "statistics-path": path, "file-size-in-bytes": 9, "type": "x"}
    )
    metadata = table.metadata.model_copy(update={"partition_statistics": [partition]})
    written = catalog._write_metadata  # type: ignore[attr-defined]
    location = f"{table.location()}/metadata/99999-{'0' * 8}-0000-0000-0000-{'0' * 12}.metadata.json"
    written(metadata, table.io, location)
    orphans.age_all(table)
    catalog.drop_table("db.t")
    catalog.register_table("db.t", location)
    plan = orphans.find(catalog, "db.t")
    assert path not in plan.files.paths
    assert puffin in plan.files.paths  # nothing refers to this one


def test_16324_metadata_is_read_anew_and_never_from_an_old_load(catalog: Catalog, table: Table) -> None:
    """A plan of a stale table: files committed after the load are not orphans."""
    operation = orphans.RemoveOrphans(table="db.t", goal=RECENT)
    stale = catalog.load_table("db.t")
    from iceberg_compaction.catalog import load_tables
    from iceberg_compaction.operations import run_ledger

    loaded = load_tables.load_table(catalog, "db.t")
    stale.append(lake.rows(lake.NUMBERS, 5))
    run = wiring.new_run()
    plan = operation.plan(loaded, run, run_ledger.Ledger(table="db.t", run_id=run.run_id)).plan
    assert plan.empty or not set(plan.files.paths) & set(
        catalog.load_table("db.t").inspect.files()["file_path"].to_pylist()
    )
    assert plan.files.paths == ()


def test_16351_the_root_of_a_store_is_refused(catalog: Catalog, table: Table) -> None:
    with pytest.raises(errors.UnsupportedError, match="root of a file store"):
        orphans.find(catalog, "db.t", OrphanGoal(locations=("file:///",)))


def test_8994_tiny_ages_need_a_word(catalog: Catalog, table: Table) -> None:
    with pytest.raises(errors.ConfigError, match="--allow-recent"):
        orphans.find(catalog, "db.t", OrphanGoal(older_than_ms=0))


def test_gc_that_is_switched_off_is_obeyed(catalog: Catalog, table: Table) -> None:
    with table.transaction() as change:
        change.set_properties({"gc.enabled": "false"})
    with pytest.raises(errors.UnsupportedError, match=r"gc\.enabled"):
        orphans.find(catalog, "db.t")


def test_shared_and_nested_folders_are_refused(catalog: Catalog, table: Table) -> None:
    inner = catalog.create_table("db.inner", lake.NUMBERS, location=f"{table.location()}/data/inner")
    for name in ("db.t", "db.inner"):
        with pytest.raises(errors.UnsupportedError, match="would be orphans"):
            orphans.find(catalog, name)
    catalog.drop_table("db.inner")
    assert orphans.find(catalog, "db.t").empty
    catalog.register_table("db.twin", inner.metadata_location)
    catalog.register_table("db.other", inner.metadata_location)
    with pytest.raises(errors.UnsupportedError, match="another name"):
        orphans.find(catalog, "db.twin")


def test_a_table_whose_location_was_inside_once_still_has_its_files_there(catalog: Catalog, table: Table) -> None:
    inner = catalog.create_table("db.inner", lake.NUMBERS, location=f"{table.location()}/inner")
    lake.append_small_files(inner, 1)
    catalog.commit_table(inner, (), (SetLocationUpdate(location=f"{table.location()}-aside"),))
    with pytest.raises(errors.UnsupportedError, match=r"db\.inner has its files in .*/inner/metadata"):
        orphans.find(catalog, "db.t")


def test_a_folder_of_another_table_behind_a_link_is_refused(catalog: Catalog, table: Table, tmp_path: Path) -> None:
    os.symlink(orphans.folder(table), tmp_path / "link")
    catalog.create_table("db.linked", lake.NUMBERS, location=f"file://{tmp_path}/link/inner")
    with pytest.raises(errors.UnsupportedError, match="would be orphans"):
        orphans.find(catalog, "db.t")


def test_files_that_the_table_knows_by_another_way_through_links(catalog: Catalog, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    os.symlink(tmp_path / "real", tmp_path / "link")
    table = catalog.create_table("db.linked", lake.NUMBERS, location=f"file://{tmp_path}/link/t")
    lake.append_small_files(table, 12)
    assert orphans.find(catalog, "db.linked", RECENT).empty
    aside = tmp_path / "real/t/data/live.parquet"
    pq.write_table(lake.rows(table.schema().as_arrow(), 3), aside)
    table.add_files([aside.as_uri()])
    with pytest.raises(errors.UnsupportedError, match="links make"):
        orphans.find(catalog, "db.linked", RECENT)


def test_metadata_that_the_table_knows_by_another_way_through_links(catalog: Catalog, tmp_path: Path) -> None:
    """A location that was written with a link once, and without it now: manifests keep their old paths."""
    (tmp_path / "real").mkdir()
    os.symlink(tmp_path / "real", tmp_path / "link")
    properties = {"write.data.path": f"file://{tmp_path}/real/store"}
    table = catalog.create_table("db.linked", lake.NUMBERS, location=f"file://{tmp_path}/link/t", properties=properties)
    lake.append_small_files(table, 2)
    catalog.commit_table(table, (), (SetLocationUpdate(location=f"file://{tmp_path}/real/t"),))
    with pytest.raises(errors.UnsupportedError, match="links make"):
        orphans.find(catalog, "db.linked", RECENT)


def test_a_folder_that_the_table_knows_by_a_link_inside_its_own(catalog: Catalog, table: Table) -> None:
    data = orphans.folder(table) / "data"
    os.symlink(data, orphans.folder(table) / "day=1")
    pq.write_table(lake.rows(table.schema().as_arrow(), 3), data / "live.parquet")
    table.add_files([f"{table.location()}/day=1/live.parquet"])
    with pytest.raises(errors.UnsupportedError, match="links make"):
        orphans.find(catalog, "db.t", RECENT)


def test_the_same_table_under_two_names_is_refused(catalog: Catalog, table: Table) -> None:
    catalog.register_table("db.twin", table.metadata_location)
    with pytest.raises(errors.UnsupportedError, match="same table"):
        orphans.find(catalog, "db.t")


def test_tables_that_cannot_be_looked_at_need_a_word(catalog: Catalog, table: Table) -> None:
    broken = lake.make_table(catalog, "db.broken")
    os.remove(broken.metadata_location.removeprefix("file://"))
    with pytest.raises(errors.UnsupportedError, match="--allow-unlisted"):
        orphans.find(catalog, "db.t")
    assert orphans.find(catalog, "db.t", OrphanGoal(allow_unlisted=True)).empty


def test_metadata_that_cannot_be_read_stops_everything(catalog: Catalog, table: Table) -> None:
    orphans.strew(table, "data/left.parquet")
    os.remove(table.current_snapshot().manifest_list.removeprefix("file://"))  # type: ignore[union-attr]
    with pytest.raises(errors.MetadataError):
        orphans.find(catalog, "db.t")


def test_the_library_finds_removes_and_restores(catalog: Catalog, table: Table) -> None:
    from iceberg_compaction import Compactor

    left = orphans.strew(table, "data/left.parquet")
    compactor = Compactor(catalog, engine="inline")
    assert compactor.find_orphans("db.t").files.paths == (left,)
    outcome = compactor.remove_orphans("db.t", force_share=True)
    assert left not in orphans.every_file(table)
    compactor.restore_orphans("db.t", outcome.run_id)
    assert left in orphans.every_file(table)
