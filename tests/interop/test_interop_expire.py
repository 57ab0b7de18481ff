"""Iceberg Java's `expire_snapshots` and ours (R70), on tables of the same history with the same options: the same
snapshots stay and the same files go. Java then reads every snapshot that we kept."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from iceberg_compaction import Compactor, Kind
from iceberg_compaction.settings import CatalogSettings

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop
PROPERTIES = "('format-version'='2', 'write.delete.mode'='merge-on-read', 'write.update.mode'='copy-on-write'{more})"
FAR = "2100-01-01 00:00:00"


def history(java: SparkSession, name: str, shape: str) -> None:
    """A table with a history of that shape."""
    table = f"lake.db.{name}"
    more = ", 'commit.manifest.min-count-to-merge'='2'" if shape == "merged manifests" else ""
    java.sql(f"create table {table} (id bigint, p string) using iceberg tblproperties {PROPERTIES.format(more=more)}")
    for number in range(3):
        java.sql(f"insert into {table} values ({number}, 'a'), ({number + 10}, 'b')")
    ids = [row[0] for row in java.sql(f"select snapshot_id from {table}.snapshots order by committed_at").collect()]
    match shape:
        case "branches and tags":
            java.sql(f"alter table {table} create tag v1 as of version {ids[0]}")
            java.sql(f"alter table {table} create branch b as of version {ids[1]}")
            java.sql(f"insert into {table}.branch_b values (50, 'x')")
            java.sql(f"insert overwrite {table} values (60, 'y')")
        case "refs with retention":
            java.sql(f"alter table {table} create tag old as of version {ids[0]} retain 1 days")
            java.sql(f"alter table {table} create branch b as of version {ids[1]} with snapshot retention 2 snapshots")
            java.sql(f"insert into {table}.branch_b values (50, 'x')")
            java.sql(f"insert into {table}.branch_b values (51, 'x')")
            java.sql(f"insert overwrite {table} values (60, 'y')")
        case "deletes":
            java.sql(f"delete from {table} where id = 1")
            java.sql(f"update {table} set p = 'z' where id = 11")
            java.sql(f"delete from {table} where id = 12")
        case "rolled back":
            java.sql(f"call lake.system.rollback_to_snapshot('db.{name}', {ids[1]})")
            java.sql(f"insert into {table} values (70, 'r')")
        case "staged":
            java.sql(f"alter table {table} set tblproperties ('write.wap.enabled'='true')")
            java.conf.set("spark.wap.id", "w1")
            java.sql(f"insert into {table} values (80, 's')")
            java.conf.unset("spark.wap.id")
            java.sql(f"insert into {table} values (81, 's')")
        case "merged manifests" | "rewritten":
            java.sql(f"call lake.system.rewrite_data_files(table => 'db.{name}', options => map('rewrite-all','true'))")
            java.sql(f"insert into {table} values (90, 'm')")


OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("branches and tags", {}),
    ("branches and tags", {"retain_last": 2}),
    ("refs with retention", {}),
    ("deletes", {}),
    ("deletes", {"retain_last": 3}),
    ("rolled back", {}),
    ("staged", {}),
    ("merged manifests", {}),
    ("rewritten", {"retain_last": 2}),
]


@pytest.mark.parametrize(("shape", "options"), OPTIONS, ids=lambda each: str(each).replace(" ", "-"))
def test_the_same_snapshots_stay_and_the_same_files_go(
    java: SparkSession, java_lake: Path, shape: str, options: dict[str, Any]
) -> None:
    """Both work on the very same metadata, one after the other: Java on a copy that is put back before ours."""
    name = f"expire_{OPTIONS.index((shape, options))}"
    history(java, name, shape)
    folder, database = java_lake / "db" / name, java_lake / "catalog.db"
    saved = java_lake / f"saved-{name}"
    shutil.copytree(folder, saved / "table")
    shutil.copy(database, saved / "catalog.db")
    retain = f", retain_last => {options['retain_last']}" if "retain_last" in options else ""
    java.sql(
        f"call lake.system.expire_snapshots(table => 'db.{name}', older_than => timestamp '{FAR}'{retain})"
    ).collect()
    theirs = _kept(java, name), _files(folder)

    shutil.rmtree(folder)
    shutil.copytree(saved / "table", folder)
    _put_back(saved / "catalog.db", database, name)
    settings = CatalogSettings(name="lake", uri=f"sqlite:///{database}", warehouse=f"file://{java_lake}")
    compactor = Compactor(settings, engine="inline")
    rows_before = sorted(java.sql(f"select * from lake.db.{name}").collect())
    outcome = compactor.expire_snapshots(f"db.{name}", older_than=FAR, allow_recent=True, **options)
    assert outcome.kind in (Kind.MAINTAINED, Kind.HEALTHY), outcome.sentence
    ours = _kept(java, name), _files(folder)
    assert ours[0] == theirs[0]
    assert ours[1] == theirs[1]
    assert sorted(java.sql(f"select * from lake.db.{name}").collect()) == rows_before
    for snapshot_id in ours[0]:
        java.sql(f"select * from lake.db.{name} version as of {snapshot_id}").collect()


def _kept(java: SparkSession, name: str) -> set[int]:
    return {row[0] for row in java.sql(f"select snapshot_id from lake.db.{name}.snapshots").collect()}


def _files(folder: Path) -> set[str]:
    """All files but those of table metadata, which each commit adds to, and checksums of Hadoop."""
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and ".metadata.json" not in path.name and not path.name.endswith(".crc")
    }


def _put_back(saved: Path, database: Path, name: str) -> None:
    """The table's entry in the catalog, as it was."""
    import sqlite3

    with sqlite3.connect(saved) as source, sqlite3.connect(database) as target:
        columns = "metadata_location, previous_metadata_location"
        row = source.execute(f"select {columns} from iceberg_tables where table_name = ?", (name,)).fetchone()
        target.execute(
            "update iceberg_tables set metadata_location = ?, previous_metadata_location = ? where table_name = ?",
            (*row, name),
        )
