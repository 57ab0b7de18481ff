"""R12 beside Iceberg Java: the same table compacted by both, with merging of manifests. Ours ends up with no more
manifests, and Java reads the merged ones: rows, entries and their numbers, partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from iceberg_compaction import Compactor, Kind
from iceberg_compaction.settings import CatalogSettings

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

MAKE = (
    "create table lake.db.{t} (id bigint, part int, name string) using iceberg partitioned by (part) tblproperties"
    " ('format-version'='{version}','write.delete.mode'='merge-on-read','commit.manifest-merge.enabled'='false')"
)


def make(java: SparkSession, lake: Path, name: str, version: int) -> None:
    """Java and PyIceberg write in turn; the partition column becomes wider and another one is renamed meanwhile."""
    java.sql(MAKE.format(t=name, version=version))
    for number in range(4):
        java.sql(f"insert into lake.db.{name} select id + {number} * 100, {number} % 2, 'a' from range(6)")
    append(lake, name, 500, pa.int32(), "name")
    java.sql(f"alter table lake.db.{name} alter column part type bigint")
    java.sql(f"alter table lake.db.{name} rename column name to label")
    for number in range(4, 8):
        java.sql(f"insert into lake.db.{name} select id + {number} * 100, {number} % 2, 'b' from range(6)")
    append(lake, name, 900, pa.int64(), "label")
    if version == 2:
        for at in (1, 2, 101, 102):
            java.sql(f"delete from lake.db.{name} where id = {at}")
    java.sql(
        f"alter table lake.db.{name} set tblproperties"
        " ('commit.manifest-merge.enabled'='true','commit.manifest.min-count-to-merge'='3')"
    )


def append(lake: Path, name: str, first: int, kind: pa.DataType, label: str) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("lake", uri=f"sqlite:///{lake}/catalog.db", warehouse=f"file://{lake}")
    ids = range(first, first + 4)
    columns = {"id": pa.array(ids, pa.int64()), "part": pa.array([i % 2 for i in ids], kind), label: ["p"] * 4}
    catalog.load_table(f"db.{name}").append(pa.table(columns))
    catalog.close()


@pytest.mark.parametrize("version", [1, 2])
def test_merging_is_at_least_as_tidy_as_iceberg_java(java: SparkSession, java_lake: Path, version: int) -> None:
    mine, theirs = f"merge_ours_{version}", f"merge_java_{version}"
    for name in (mine, theirs):
        make(java, java_lake, name, version)
    assert java.sql(f"select * from lake.db.{mine}.manifests").count() >= 10
    java.sql(
        f"call lake.system.rewrite_data_files(table => 'db.{theirs}', where => 'part = 1',"
        " options => map('min-input-files', '2'))"
    ).collect()
    settings = CatalogSettings(name="lake", uri=f"sqlite:///{java_lake}/catalog.db", warehouse=f"file://{java_lake}")
    compactor = Compactor(settings, spark=java, options={"min-input-files": 2, "where": "part = 1"})
    outcome = compactor.compact_table(f"db.{mine}")
    assert outcome.kind is Kind.COMPACTED, outcome.sentence
    assert rows(java, mine) == rows(java, theirs)
    for content in (0, 1):
        counts = [manifests(java, name, content) for name in (mine, theirs)]
        assert counts[0] <= counts[1], f"content {content}"
    assert manifests(java, mine, 0) == 1
    live = java.sql(f"select * from lake.db.{mine}.entries where status < 2").collect()
    (added,) = [entry for entry in live if (entry["status"], entry["snapshot_id"]) == (1, outcome.snapshot_id)]
    if version == 2:
        start = max(entry["sequence_number"] for entry in live)
        assert (added["sequence_number"], added["file_sequence_number"]) == (start, start + 1)
    (bounds,) = java.sql(f"select partition_summaries s from lake.db.{mine}.manifests where content = 0").collect()
    assert (bounds["s"][0]["lower_bound"], bounds["s"][0]["upper_bound"]) == ("0", "1")
    assert java.sql(f"select * from lake.db.{mine} where part = 0").count() > 0
    java.sql(f"call lake.system.rewrite_manifests('db.{mine}')").collect()
    assert rows(java, mine) == rows(java, theirs)


def rows(java: SparkSession, name: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in java.sql(f"select * from lake.db.{name}").collect())


def manifests(java: SparkSession, name: str, content: int) -> int:
    return java.sql(f"select * from lake.db.{name}.manifests where content = {content}").count()
