"""Delete files that apply to nothing are dropped as by Iceberg Java's removeDanglingDeleteFiles; others are not, so
that no deleted row comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.factories import java_deletes

from iceberg_compaction import Compactor, Kind
from iceberg_compaction.settings import CatalogSettings

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from iceberg_compaction import Outcome

pytestmark = pytest.mark.interop


def create(java: SparkSession, name: str, partitioned_by: str) -> java_deletes.JavaTable:
    java.sql(
        f"create table lake.db.{name} (id bigint, p string) using iceberg {partitioned_by}"
        " tblproperties ('format-version'='2', 'write.delete.mode'='merge-on-read')"
    )
    return java_deletes.load(java, f"db.{name}")


def keys(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def rows(table: java_deletes.JavaTable) -> list[int]:
    return sorted(row[0] for row in table.session.sql(f"select id from lake.{table.name}").collect())


def deletes(table: java_deletes.JavaTable) -> list[str]:
    """The partitions of delete files."""
    found = table.session.sql(f"select cast(partition as string) from lake.{table.name}.delete_files").collect()
    return sorted(row[0] for row in found)


def java_drops(table: java_deletes.JavaTable) -> None:
    table.table.refresh()
    table.jvm.org.apache.iceberg.spark.actions.SparkActions.get().removeDanglingDeleteFiles(table.table).execute()


def we_drop(lake: Path, name: str) -> Outcome:
    settings = CatalogSettings(name="lake", uri=f"sqlite:///{lake}/catalog.db", warehouse=f"file://{lake}")
    return Compactor(settings, engine="inline", options={"delete-ratio-threshold": 1}).compact_table(name)


def test_deletes_of_a_partition_without_data_leave_as_with_java(java: SparkSession, java_lake: Path) -> None:
    def make(name: str) -> java_deletes.JavaTable:
        table = create(java, name, "partitioned by (p)")
        data = java_deletes.data_file(table, pa.table({"id": [1, 2, 3], "p": ["a"] * 3}), partition="p=a")
        java_deletes.commit(table, rows=[data])
        gone = [("file:///gone.parquet", 0)]
        applying = java_deletes.equality_delete(table, keys(2), partition="p=a")
        useless = java_deletes.equality_delete(table, keys(2), partition="p=b")
        shared = java_deletes.position_delete(table, gone, partition="p=c")
        java_deletes.commit(table, deletes=[applying, useless, shared])
        return table

    theirs, ours = make("useless_java"), make("useless_ours")
    java_drops(theirs)
    outcome = we_drop(java_lake, "db.useless_ours")

    assert (outcome.kind, outcome.delete_files_removed) == (Kind.COMPACTED, 2), outcome.sentence
    assert len(deletes(theirs)) == 1
    assert deletes(ours) == deletes(theirs)
    assert rows(ours) == rows(theirs) == [1, 3]
    assert we_drop(java_lake, "db.useless_ours").kind is Kind.HEALTHY


def test_r18_a_global_delete_is_kept_although_its_own_spec_has_no_data(java: SparkSession, java_lake: Path) -> None:
    def make(name: str) -> java_deletes.JavaTable:
        table = create(java, name, "")
        java.sql(f"alter table lake.db.{name} add partition field p")
        table.table.refresh()
        data = java_deletes.data_file(table, pa.table({"id": [1, 2, 3], "p": ["a"] * 3}), partition="p=a")
        java_deletes.commit(table, rows=[data])
        java_deletes.commit(table, deletes=[java_deletes.equality_delete(table, keys(2), spec_id=0)])
        assert rows(table) == [1, 3]
        return table

    theirs, ours = make("global_java"), make("global_ours")
    java_drops(theirs)
    assert we_drop(java_lake, "db.global_ours").kind is Kind.HEALTHY

    assert rows(ours) == rows(theirs) == [1, 3]
    assert len(deletes(ours)) == 1
