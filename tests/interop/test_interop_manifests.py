"""Manifests that this product has rewritten, as Iceberg Java sees them: the same rows, files and sequence numbers; and
Java rewrites, deletes and compacts on top of them. Java's own manifests and PyIceberg's are joined in one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from iceberg_compaction import Compactor, Kind
from iceberg_compaction.settings import CatalogSettings

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

NAME = "db.manifests"
ENTRIES = (
    "select data_file.file_path, data_file.content, data_file.partition, data_file.record_count, snapshot_id,"
    " sequence_number, file_sequence_number, data_file.lower_bounds, data_file.equality_ids"
    f" from lake.{NAME}.entries where status < 2 order by 1"
)


def found(java: SparkSession, query: str) -> list[Any]:
    return [row.asDict(recursive=True) for row in java.sql(query).collect()]


def manifests(java: SparkSession) -> list[Any]:
    return found(
        java, f"select content, length, added_data_files_count added, partition_summaries from lake.{NAME}.manifests"
    )


def test_java_reads_and_goes_on_with_rewritten_manifests(java: SparkSession, java_lake: Path) -> None:
    java.sql(
        f"create table lake.{NAME} (id bigint, city string, price decimal(9,2)) using iceberg"
        " partitioned by (city, truncate(100000, price)) tblproperties ('format-version'='2',"
        " 'commit.manifest-merge.enabled'='false', 'write.delete.mode'='merge-on-read')"
    )
    for number in range(3):
        ids = f"range({number * 9}, {number * 9 + 9})"
        java.sql(f"insert into lake.{NAME} select id, concat('c', id % 3), id * 1.25 from {ids}")
    for victim in (4, 5, 6):
        java.sql(f"delete from lake.{NAME} where id = {victim}")
    compactor = Compactor(
        CatalogSettings(uri=f"sqlite:///{java_lake}/catalog.db", warehouse=f"file://{java_lake}", name="lake"),
        engine="inline",
    )
    table = compactor.catalog.load_table(NAME)
    prices = pa.array([1, 25], pa.decimal128(9, 2))
    table.append(pa.table({"id": pa.array([100, 101]), "city": ["c0", None], "price": prices}))
    before, rows = found(java, ENTRIES), found(java, f"select * from lake.{NAME} order by id")
    assert len(manifests(java)) == 7

    outcome = compactor.rewrite_manifests(NAME)
    assert (outcome.kind, outcome.manifests_removed, outcome.manifests_added) == (Kind.COMPACTED, 7, 2)
    compactor.catalog.close()
    assert found(java, ENTRIES) == before
    assert found(java, f"select * from lake.{NAME} order by id") == rows
    assert sorted(one["content"] for one in manifests(java)) == [0, 1]
    city = next(one for one in manifests(java) if one["content"] == 0)["partition_summaries"][0]
    assert (city["contains_null"], city["lower_bound"], city["upper_bound"]) == (True, "c0", "c2")
    one_city = found(java, f"select count(*) n from lake.{NAME} where city = 'c1'")
    assert one_city == [{"n": sum(row["city"] == "c1" for row in rows)}]

    java.sql(f"insert into lake.{NAME} values (200, 'c9', 3.00)")
    java.sql(f"delete from lake.{NAME} where id = 7")
    java.sql(f"call lake.system.rewrite_manifests('{NAME}')")
    java.sql(f"call lake.system.rewrite_data_files(table => '{NAME}', options => map('rewrite-all', 'true'))")
    expected = [row["id"] for row in rows if row["id"] != 7] + [200]
    assert [row["id"] for row in found(java, f"select id from lake.{NAME} order by id")] == expected
