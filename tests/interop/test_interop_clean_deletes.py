"""R25: delete files that Iceberg Java wrote are merged and converted; Java reads the same rows afterwards, may delete
more, and compacts what is left. Java's own readers decide, with vectorised Parquet and without."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.factories import java_deletes, java_rows

from iceberg_compaction import Compactor, Kind
from iceberg_compaction.settings import CatalogSettings

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop


def paths(table: java_deletes.JavaTable, kind: str = "data_files") -> list[str]:
    found = table.session.sql(f"select file_path from lake.{table.name}.{kind} order by file_path").collect()
    return [row[0] for row in found]


def paths_of(table: java_deletes.JavaTable, partition: str) -> list[str]:
    where = f"where partition.p = '{partition}' order by file_path"
    found = table.session.sql(f"select file_path from lake.{table.name}.data_files {where}").collect()
    assert found
    return [row[0] for row in found]


def by_spark(table: java_deletes.JavaTable) -> list[tuple[int, str]]:
    return sorted(tuple(row) for row in table.session.sql(f"select id, p from lake.{table.name}").collect())


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_java_reads_the_same_rows_and_goes_on(java: SparkSession, java_lake: Path, granularity: str) -> None:
    name = f"db.clean_{granularity}"
    java.sql(
        f"create table lake.{name} (id bigint, p string) using iceberg partitioned by (p) tblproperties"
        f" ('format-version'='2', 'write.delete.mode'='merge-on-read', 'write.delete.granularity'='{granularity}')"
    )
    table = java_deletes.load(java, name)
    for first in (0, 10, 20):
        numbers = range(first, first + 10)
        java_rows.append(table, pa.table({"id": list(numbers), "p": [("a", "b")[n % 2] for n in numbers]}))
    for path in paths_of(table, "a"):
        for position in (0, 2):
            java_deletes.commit(table, deletes=[java_rows.position_delete(table, [(path, position)], partition="p=a")])
    keys = [{"id": n} for n in (3, 4, 13, 26, 99)]
    for partition in ("p=a", "p=b"):
        java_deletes.commit(table, deletes=[java_rows.equality_delete(table, keys, ["id"], partition=partition)])
    java_rows.append(table, pa.table({"id": [3, 4], "p": ["b", "a"]}))
    java.sql(f"delete from lake.{name} where id = 17")  # Spark's own position deletes
    before, spark_before = java_rows.rows(table), by_spark(table)
    data = paths(table)

    settings = CatalogSettings(name="lake", uri=f"sqlite:///{java_lake}/catalog.db", warehouse=f"file://{java_lake}")
    # Tasks on Spark, and in this process.
    compactor = Compactor(settings, spark=java) if granularity == "partition" else Compactor(settings, engine="inline")
    outcome = compactor.clean_deletes(name, verify="deep")

    assert outcome.kind is Kind.MAINTAINED, outcome.sentence
    assert (java_rows.rows(table), by_spark(table)) == (before, spark_before)
    assert paths(table) == data
    contents = java.sql(f"select content, count(*) from lake.{name}.delete_files group by content").collect()
    assert [row[0] for row in contents] == [1]
    referenced = java.sql(f"select referenced_data_file from lake.{name}.delete_files").collect()
    assert all((row[0] in data) == (granularity == "file" or row[0] is not None) for row in referenced)
    assert compactor.clean_deletes(name).kind is Kind.HEALTHY

    java.sql(f"delete from lake.{name} where id = 25")
    left = [row for row in spark_before if row[0] != 25]
    assert by_spark(table) == left
    java.sql(
        f"CALL lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true',"
        " 'remove-dangling-deletes', 'true'))"
    ).collect()
    assert by_spark(table) == left
    assert compactor.clean_deletes(name).ok
    assert by_spark(table) == left
    assert paths(table, "delete_files") == []


def test_java_merges_what_we_wrote(java: SparkSession, java_lake: Path) -> None:
    java.sql(
        "create table lake.db.remerged (id bigint, p string) using iceberg tblproperties ('format-version'='2',"
        " 'write.delete.mode'='merge-on-read', 'write.delete.granularity'='partition')"
    )
    table = java_deletes.load(java, "db.remerged")
    java_rows.append(table, pa.table({"id": list(range(10)), "p": ["a"] * 10}))
    java_deletes.commit(table, deletes=[java_rows.equality_delete(table, [{"id": 3}], ["id"])])
    settings = CatalogSettings(name="lake", uri=f"sqlite:///{java_lake}/catalog.db", warehouse=f"file://{java_lake}")
    assert Compactor(settings, engine="inline").clean_deletes("db.remerged").kind is Kind.MAINTAINED
    java.sql("delete from lake.db.remerged where id = 5")
    before = by_spark(table)
    assert len(before) == 8
    java.sql(
        "CALL lake.system.rewrite_position_delete_files(table => 'db.remerged', options => map('rewrite-all', 'true'))"
    ).collect()
    assert by_spark(table) == before


def test_java_goes_on_where_each_partition_was_treated_in_its_own_way(java: SparkSession, java_lake: Path) -> None:
    name = "db.cheapest"
    java.sql(
        f"create table lake.{name} (id bigint, p string) using iceberg partitioned by (p) tblproperties"
        " ('format-version'='2', 'write.delete.mode'='merge-on-read')"
    )
    table = java_deletes.load(java, name)
    for partition, count in (("a", 20), ("b", 20_000), ("c", 20_000)):
        java_rows.append(table, pa.table({"id": list(range(count)), "p": [partition] * count}))
    (small,), (large,) = paths_of(table, "a"), paths_of(table, "b")
    java_deletes.commit(table, deletes=[java_rows.position_delete(table, [(small, 1)], partition="p=a")])
    for position in (0, 2, 5):
        java_deletes.commit(table, deletes=[java_rows.position_delete(table, [(large, position)], partition="p=b")])
    for number in range(4):
        keys = [{"id": number}, {"id": number + 100}]
        java_deletes.commit(table, deletes=[java_rows.equality_delete(table, keys, ["id"], partition="p=c")])
    before = by_spark(table)

    settings = CatalogSettings(name="lake", uri=f"sqlite:///{java_lake}/catalog.db", warehouse=f"file://{java_lake}")
    options = {"strategy": "delete-files", "scans-per-day": 2, "prices": "gb-month=10"}
    compactor = Compactor(settings, engine="inline", options=options)
    assert [each.way.value for each in compactor.plan_table(name).deletes] == ["apply", "merge", "convert"]
    outcome = compactor.compact_table(name)

    assert outcome.kind is Kind.COMPACTED, outcome.sentence
    assert by_spark(table) == before
    contents = java.sql(f"select content, count(*) from lake.{name}.delete_files group by content").collect()
    assert [tuple(row) for row in contents] == [(1, 2)]
    assert compactor.compact_table(name).kind is Kind.HEALTHY
    java.sql(
        f"CALL lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true',"
        " 'remove-dangling-deletes', 'true'))"
    ).collect()
    assert by_spark(table) == before
    assert paths(table, "delete_files") == []
