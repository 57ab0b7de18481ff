"""R54: whoever commits to a catalog where clients write table metadata removes the files that leave the metadata log,
if the table asks for it, and no other file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from tests.factories import lake as lakes
from tests.factories import runs

from iceberg_compaction import Compactor, Kind
from iceberg_compaction.catalog import load_tables, metadata_log, publish
from iceberg_compaction.operations import set_properties

if TYPE_CHECKING:
    from pyiceberg.table import Table

KEEP_TWO = {metadata_log.ENABLED: "true", "write.metadata.previous-versions-max": "2"}


def small_table(lake: lakes.Lake, **asked: str) -> Table:
    return lakes.append_small_files(lakes.make_table(lake.catalog, "db.t", properties=KEEP_TWO | asked), 4)


def stored(table: Table) -> set[str]:
    folder = Path(table.location().removeprefix("file://")) / "metadata"
    return {path.as_uri() for path in folder.glob("*.metadata.json")}


def logged(table: Table) -> set[str]:
    table.refresh()
    return {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}


def set_mark(lake: lakes.Lake, value: str, seen: str | None = None) -> None:
    set_properties.set_properties(lake.catalog.load_table("db.t"), {"mark": value}, {"mark": seen}, runs.make_run())


def test_every_commit_of_ours_removes_what_leaves_the_log(local_lake: lakes.Lake) -> None:
    table = small_table(local_lake)
    compactor = Compactor(local_lake.settings, "full", engine="inline", options={"rewrite-all": True})
    assert len(stored(table)) == 3
    for commit in (
        lambda: compactor.compact_table("db.t").kind is Kind.COMPACTED,
        lambda: compactor.rewrite_manifests("db.t").kind in (Kind.COMPACTED, Kind.HEALTHY),
        lambda: set_mark(local_lake, "1") is None,
    ):
        assert commit()
        assert stored(table) == logged(table)
        assert len(stored(table)) == 3
    assert table.metadata.metadata_log


@pytest.mark.parametrize("asked", [{metadata_log.ENABLED: "false"}, {metadata_log.GC: "false"}])
def test_files_stay_where_the_table_does_not_ask_or_shares_them(local_lake: lakes.Lake, asked: dict[str, str]) -> None:
    table = small_table(local_lake, **asked)
    before = stored(table)
    set_mark(local_lake, "1")
    assert stored(table) > before


def test_a_database_is_asked_for_as_many_as_leave_at_once(local_lake: lakes.Lake) -> None:
    """As when a table that kept thousands is to keep a few."""
    used = {small_table(local_lake).metadata_location}
    gone = {f"file:///t/metadata/{number:05d}-a.metadata.json" for number in range(2000)}
    assert metadata_log._in_use(local_lake.catalog, gone | used) == used


def test_what_another_entry_of_the_catalog_has_stays(local_lake: lakes.Lake) -> None:
    table = small_table(local_lake)
    *_, oldest = sorted(logged(table), reverse=True)
    with SqlCatalog("other", uri=local_lake.settings.uri, warehouse=local_lake.settings.warehouse) as other:
        other.create_namespace("db")
        other.register_table("db.again", oldest)
        set_mark(local_lake, "1")
        assert oldest in stored(table) - logged(table)
        assert other.load_table("db.again").metadata_location == oldest
    set_mark(local_lake, "2", "1")
    assert stored(table) == logged(table) | {oldest}


def test_what_lies_in_another_folder_stays(local_lake: lakes.Lake) -> None:
    table = small_table(local_lake)
    before = stored(table)
    with table.transaction() as change:
        change.set_properties({"write.metadata.path": f"{table.location()}/elsewhere"})
    for number in range(3):
        set_mark(local_lake, str(number), str(number - 1) if number else None)
    assert before - {min(before)} <= stored(table)  # the one that PyIceberg's own commit removed
    assert not stored(table) & logged(table)


def test_a_file_that_cannot_be_removed_is_a_warning(local_lake: lakes.Lake, caplog: pytest.LogCaptureFixture) -> None:
    table = small_table(local_lake)
    *_, oldest = sorted(logged(table), reverse=True)
    path = Path(oldest.removeprefix("file://"))
    path.unlink()
    path.mkdir()
    set_mark(local_lake, "1")
    assert f"{oldest} could not be removed" in caplog.text
    assert publish.reload(load_tables.load_table(local_lake.catalog, "db.t")).properties["mark"] == "1"
