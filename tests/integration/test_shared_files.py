"""Files that one table has taken over from another without copying them (R71): whatever deletes files of the one, the
other can still be read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from tests.factories import lake as lakes
from tests.factories import orphans, work

from iceberg_compaction.interfaces import wiring
from iceberg_compaction.metadata.cache import arrow_cache
from iceberg_compaction.metadata.reach import avro_bulk
from iceberg_compaction.model.outcome import Kind, Maintained
from iceberg_compaction.model.snapshot_retention import RetentionGoal
from iceberg_compaction.operations.expire.expire_snapshots import ExpireSnapshots
from iceberg_compaction.operations.neighbourhood import look_around, reached_folders
from iceberg_compaction.operations.orphans.quarantine_end import EndQuarantine
from iceberg_compaction.workflow import operate

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from iceberg_compaction.record.runs import Run


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return lakes.local_catalog(tmp_path)


@pytest.fixture
def owner(catalog: Catalog) -> Table:
    return lakes.append_small_files(lakes.make_table(catalog, "db.owner"), 3)


def live(table: Table) -> list[str]:
    return [task.file.file_path for task in table.scan().plan_files()]


def sharer(catalog: Catalog, files: list[str], name: str = "db.sharer") -> Table:
    """A table that refers to files of another one."""
    table = lakes.make_table(catalog, name)
    table.add_files(files, check_duplicate_files=False)
    return table


def emptied(owner: Table) -> None:
    """The owner's files are needed by old snapshots only."""
    owner.overwrite(lakes.rows(owner.schema().as_arrow(), 2, first=500))


def a_run(tmp_path: Path) -> Run:
    run = wiring.new_run()
    run.cache = arrow_cache.ArrowCache(tmp_path / "cache")
    return run


def test_a_file_that_another_table_refers_to_outlives_its_snapshot(catalog: Catalog, owner: Table) -> None:
    shared, own, *_ = live(owner)
    other = sharer(catalog, [shared])
    rows = other.scan().to_arrow()
    emptied(owner)
    plan = work_plan(catalog, "db.owner")
    result = work.expire(catalog, "db.owner", wiring.new_run())
    assert isinstance(result, Maintained), result.sentence
    assert other.scan().to_arrow() == rows
    assert not Path(own.removeprefix("file://")).exists()
    assert any("db.sharer" in note for note in result.notes), result.notes
    counts = {step.name: step.count for step in plan.steps}
    assert (counts["data files"], result.figures["data-files"]) == (2, 2)
    other.delete()
    assert work.expire(catalog, "db.sharer", wiring.new_run()).kind is Kind.MAINTAINED
    assert not Path(shared.removeprefix("file://")).exists()  # the table that was the last to need it lets it go


def work_plan(catalog: Catalog, name: str):  # type: ignore[no-untyped-def]
    operation = ExpireSnapshots(table=name, goal=work.EVERYTHING_OLD, count_files=True)
    return operate.plan_only(operation, orphans.house(catalog), wiring.new_run())


def test_a_file_that_another_table_refers_to_is_no_orphan(catalog: Catalog, owner: Table) -> None:
    shared = live(owner)[0]
    other = sharer(catalog, [shared])
    rows = other.scan().to_arrow()
    emptied(owner)
    work.expire(catalog, "db.owner", wiring.new_run(), work.EVERYTHING_OLD.model_copy(update={"keep_files": True}))
    orphans.age_all(owner)
    plan = orphans.find(catalog, "db.owner")
    assert shared not in plan.files.paths
    assert {step.name: step.count for step in plan.kept}["files of other tables"] == 1
    assert len([path for path in plan.files.paths if path.endswith(".parquet")]) == 2
    assert orphans.remove(catalog, "db.owner").kind is Kind.MAINTAINED
    assert other.scan().to_arrow() == rows


@pytest.mark.parametrize("spelling", ["file://{}", "file:{}", "{}"])
def test_spellings_of_a_path_and_links_make_no_difference(
    catalog: Catalog, owner: Table, tmp_path: Path, spelling: str
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "warehouse")
    plain = live(owner)[0].removeprefix("file://")
    sharer(catalog, [spelling.format(plain)])
    emptied(owner)
    work.expire(catalog, "db.owner", wiring.new_run())
    assert Path(plain).exists()
    sharer(catalog, [spelling.format(plain).replace("/warehouse/", "/link/")], "db.linked")
    catalog.drop_table("db.sharer")
    orphans.age_all(owner)
    plan = orphans.refusal(catalog, "db.owner")
    assert "link" in plan


def test_doubt_about_another_table_keeps_the_files_until_it_is_gone(
    catalog: Catalog, owner: Table, tmp_path: Path
) -> None:
    stranger = lakes.append_small_files(lakes.make_table(catalog, "db.stranger"), 1)
    (manifest,) = stranger.current_snapshot().manifests(stranger.io)  # type: ignore[union-attr]
    path = Path(manifest.manifest_path.removeprefix("file://"))
    content = path.read_bytes()
    path.write_bytes(b"no manifest")
    emptied(owner)
    files = orphans.every_file(owner)
    run = a_run(tmp_path)
    run.store = wiring.store_to_write(str(tmp_path / "runs.db"))
    result = work.expire(catalog, "db.owner", run)
    assert isinstance(result, Maintained), result.sentence
    assert (result.figures["snapshots"], files - orphans.every_file(owner)) == (4, set())
    assert any("db.stranger" in note and "--allow-unlisted" in note for note in result.notes), result.notes
    path.write_bytes(content)
    again = a_run(tmp_path)
    again.store = run.store
    result = work.expire(catalog, "db.owner", again)
    assert isinstance(result, Maintained), result.sentence
    assert result.figures["data-files"] == 3
    run.store.entries.close()


def test_whoever_knows_better_deletes_in_doubt(catalog: Catalog, owner: Table) -> None:
    stranger = lakes.make_table(catalog, "db.stranger")
    Path(stranger.metadata_location.removeprefix("file://")).write_text("{")
    emptied(owner)
    goal = RetentionGoal(**{**work.EVERYTHING_OLD.model_dump(), "allow_unlisted": True})
    result = work.expire(catalog, "db.owner", wiring.new_run(), goal)
    assert isinstance(result, Maintained), result.sentence
    assert result.figures["data-files"] == 3


def test_manifests_of_other_tables_are_read_once_and_for_all_commands(
    catalog: Catalog, owner: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        lakes.append_small_files(lakes.make_table(catalog, f"db.other{number}"), 2)
    read: list[str] = []
    fetch = avro_bulk._fetch
    monkeypatch.setattr(avro_bulk, "_fetch", lambda io, *more: (read.append(more[-1].location), fetch(io, *more))[1])
    loads: list[str] = []
    load = type(catalog).load_table
    monkeypatch.setattr(type(catalog), "load_table", lambda self, name: (loads.append(name), load(self, name))[1])

    look = look_around.Neighbourhoods().of(owner, a_run(tmp_path))
    assert (len(look.neighbours), look.unknown) == (3, ())
    assert len(read) == len(set(read)) == 3 * (2 + 2)  # manifest lists and manifests of each append
    read.clear()
    loads.clear()
    again = look_around.Neighbourhoods().of(owner, a_run(tmp_path))
    assert [each.reach.folders for each in again.neighbours] == [each.reach.folders for each in look.neighbours]
    assert (read, loads) == ([], [])  # a database says that nothing has changed
    catalog.load_table("db.other1").append(lakes.rows(lakes.NUMBERS, 2))
    read.clear()
    loads.clear()
    assert len(look_around.Neighbourhoods().of(owner, a_run(tmp_path)).neighbours) == 3
    assert (len(read), len(loads)) == (2, 1)


def test_a_large_catalog_is_looked_at_in_parts(
    catalog: Catalog, owner: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        lakes.append_small_files(lakes.make_table(catalog, f"db.other{number}"), 1)
    monkeypatch.setattr(reached_folders, "MOST_READS", 5)
    unknown = [len(look_around.Neighbourhoods().of(owner, a_run(tmp_path)).unknown) for _ in range(6)]
    assert unknown[0] > 0
    assert unknown == sorted(unknown, reverse=True)
    assert unknown[-1] == 0


def test_purge_is_the_last_net_for_a_file_that_another_table_has_taken_over(catalog: Catalog, owner: Table) -> None:
    orphan = orphans.strew(
        owner, "data/left.parquet", content=Path(live(owner)[0].removeprefix("file://")).read_bytes()
    )
    assert orphans.remove(catalog, "db.owner", orphans.ANY_SHARE).kind is Kind.MAINTAINED
    path = Path(orphan.removeprefix("file://"))
    assert not path.exists()
    path.write_bytes(Path(live(owner)[0].removeprefix("file://")).read_bytes())
    other = sharer(catalog, [orphan])
    path.unlink()  # as if it had been moved at the very moment in which the other table took it over
    purge = EndQuarantine(table="db.owner", way="purge", older_than_ms=0)
    result = operate.operate(purge, orphans.house(catalog), wiring.new_run())
    assert (result.kind, "db.sharer refers to" in result.sentence) == (Kind.FAILED, True)
    restore = EndQuarantine(table="db.owner", way="restore")
    assert operate.operate(restore, orphans.house(catalog), wiring.new_run()).kind is Kind.MAINTAINED
    assert other.scan().to_arrow().num_rows == 10


def test_one_look_serves_all_tables_of_a_command(
    catalog: Catalog, owner: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["db.owner", *(f"db.t{number}" for number in range(5))]
    for name in names[1:]:
        lakes.append_small_files(lakes.make_table(catalog, name), 2)
    loads: list[str] = []
    load = type(catalog).load_table
    monkeypatch.setattr(type(catalog), "load_table", lambda self, name: (loads.append(name), load(self, name))[1])
    shared = look_around.Neighbourhoods()
    for name in names:
        operation = ExpireSnapshots(table=name, goal=work.EVERYTHING_OLD, neighbourhoods=shared)
        assert not operate.plan_only(operation, orphans.house(catalog), wiring.new_run()).empty
    assert len(loads) == 2 * len(names)  # once to plan, once for the others


def test_a_table_that_changes_while_a_command_is_at_work_is_looked_at_again(catalog: Catalog, owner: Table) -> None:
    other = lakes.make_table(catalog, "db.sharer")
    run, shared = wiring.new_run(), look_around.Neighbourhoods()
    run.clock = lambda: 0
    (before,) = shared.of(owner, run).neighbours
    other.add_files(live(owner)[:1], check_duplicate_files=False)
    assert shared.of(owner, run).neighbours == (before,)
    run.clock = lambda: look_around.FRESH_MS
    (after,) = shared.of(owner, run).neighbours
    folder = live(owner)[0].removeprefix("file://").rpartition("/")[0]
    assert (folder in before.reach.folders, folder in after.reach.folders) == (False, True)


def test_a_link_is_seen_beside_files_that_are_shared_without_one(
    catalog: Catalog, owner: Table, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "warehouse")
    direct, linked, *_ = live(owner)
    other = sharer(catalog, [direct, linked.replace("/warehouse/", "/link/")])
    rows = other.scan().to_arrow()
    emptied(owner)
    result = work.expire(catalog, "db.owner", wiring.new_run())
    assert other.scan().to_arrow() == rows
    assert any("links" in note for note in result.notes), result.notes  # type: ignore[union-attr]


@pytest.mark.parametrize("part", ["day=1", "plain"])
def test_a_link_to_one_folder_of_a_table_is_seen(catalog: Catalog, owner: Table, tmp_path: Path, part: str) -> None:
    """The folders of partitions are left off where folders are compared."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / part).symlink_to(orphans.folder(owner) / "data")
    other = sharer(catalog, [f"file://{tmp_path}/elsewhere/{part}/{Path(live(owner)[0]).name}"])
    rows = other.scan().to_arrow()
    emptied(owner)
    work.expire(catalog, "db.owner", wiring.new_run())
    assert other.scan().to_arrow() == rows


def test_a_table_that_lies_behind_a_link_itself(catalog: Catalog, tmp_path: Path) -> None:
    """Its partition may lie elsewhere, where another table takes a file of it."""
    owner = lakes.append_small_files(lakes.make_table(catalog, "db.owner"), 3)
    data = orphans.folder(owner) / "data"
    data.rename(tmp_path / "disk")
    data.symlink_to(tmp_path / "disk")
    other = sharer(catalog, [f"file://{tmp_path}/disk/{Path(live(owner)[0]).name}"])
    rows = other.scan().to_arrow()
    emptied(owner)
    work.expire(catalog, "db.owner", wiring.new_run())
    assert other.scan().to_arrow() == rows


def test_tables_below_one_link_share_files_by_their_paths(catalog: Catalog, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    owner = catalog.create_table("db.linked", lakes.NUMBERS, location=f"file://{tmp_path}/link/owner")
    shared, own, *_ = live(lakes.append_small_files(owner, 3))
    other = sharer(catalog, [shared])
    rows = other.scan().to_arrow()
    emptied(owner)
    result = work.expire(catalog, "db.linked", wiring.new_run())
    assert isinstance(result, Maintained), result.sentence
    assert result.figures["data-files"] == 2, result.notes
    assert not Path(own.removeprefix("file://")).exists()
    assert other.scan().to_arrow() == rows


def beside(catalog: Catalog) -> Catalog:
    """A catalog of another name in the same database."""
    other = SqlCatalog("other", **catalog.properties)
    other.create_namespace("db")
    return other


def test_a_table_of_another_catalog_in_the_same_database_keeps_its_files(catalog: Catalog, owner: Table) -> None:
    """Engines that call one database by several names have a row for each."""
    far = beside(catalog)
    other = sharer(far, [live(owner)[0]])
    rows = other.scan().to_arrow()
    emptied(owner)
    result = work.expire(catalog, "db.owner", wiring.new_run())
    assert isinstance(result, Maintained), result.sentence
    assert result.figures["data-files"] == 2
    assert any("db.sharer of the catalog other" in note for note in result.notes), result.notes
    assert other.scan().to_arrow() == rows


def test_the_same_table_in_another_catalog_of_the_database_is_refused(catalog: Catalog, owner: Table) -> None:
    far = beside(catalog)
    far.register_table("db.owner", owner.metadata_location)
    emptied(owner)
    files = orphans.every_file(owner)
    result = work.expire(catalog, "db.owner", wiring.new_run())
    assert (result.kind, orphans.every_file(owner)) == (Kind.UNSUPPORTED, files), result.sentence
    assert "db.owner of the catalog other" in orphans.refusal(catalog, "db.owner")


def test_a_table_of_another_catalog_that_cannot_be_read_matters_only_nearby(catalog: Catalog, owner: Table) -> None:
    far = beside(catalog)
    lost = lakes.make_table(far, "db.lost")
    Path(lost.metadata_location.removeprefix("file://")).unlink()
    emptied(owner)
    result = work.expire(catalog, "db.owner", wiring.new_run())
    assert isinstance(result, Maintained), result.sentence
    assert result.figures["data-files"] == 3
    near = far.register_table("db.near", owner.metadata_location)
    Path(near.metadata_location.removeprefix("file://")).write_text("{")
    assert "db.near of the catalog other" in orphans.refusal(catalog, "db.owner")


def test_a_table_that_gets_another_name_meanwhile_keeps_its_files(
    catalog: Catalog, owner: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = sharer(catalog, [live(owner)[0]])
    rows = other.scan().to_arrow()
    emptied(owner)
    look = look_around.Neighbourhoods.of

    def rename_after(*arguments: Any) -> look_around.Neighbourhood:
        others = look(*arguments)
        if catalog.table_exists("db.sharer"):
            catalog.rename_table("db.sharer", "db.renamed")
        return others

    monkeypatch.setattr(look_around.Neighbourhoods, "of", rename_after)
    result = work.expire(catalog, "db.owner", wiring.new_run())
    assert catalog.load_table("db.renamed").scan().to_arrow() == rows
    assert any("another name" in note for note in result.notes), result.notes  # type: ignore[union-attr]


def test_a_long_command_looks_again(catalog: Catalog, owner: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catalogs that do not say which tables have changed are asked for each, if there are not too many."""
    monkeypatch.setattr(look_around.entry_locations, "read", lambda catalog: {})
    run, neighbourhoods = wiring.new_run(), look_around.Neighbourhoods()
    now_ms = run.clock()
    run.clock = lambda: now_ms
    assert neighbourhoods.of(owner, run).neighbours == ()
    sharer(catalog, [live(owner)[0]])
    run.clock = lambda: now_ms + look_around.FEW_MS
    assert [each.table for each in neighbourhoods.of(owner, run).neighbours] == ["db.sharer"]
    monkeypatch.setattr(look_around, "MANY_TABLES", 1)
    sharer(catalog, [live(owner)[0]], "db.second")
    run.clock = lambda: now_ms + look_around.FEW_MS + look_around.RECENT_MS - 1
    assert len(neighbourhoods.of(owner, run).neighbours) == 1
    run.clock = lambda: now_ms + look_around.FEW_MS + look_around.RECENT_MS
    assert len(neighbourhoods.of(owner, run).neighbours) == 2
