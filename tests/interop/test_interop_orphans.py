"""Orphans as Iceberg Java sees them: both list the same files of one table, Java leaves our quarantine alone, and what
Java writes is never an orphan (R76)."""

from __future__ import annotations

import os
import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest
from tests.factories import orphans

from iceberg_compaction import Compactor, Kind
from iceberg_compaction.settings import CatalogSettings

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

NAME = "db.orphans"


def listed_by_java(java: SparkSession) -> set[str]:
    before = datetime.fromtimestamp(time.time() - 3 * 86_400, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
    rows = java.sql(
        f"call lake.system.remove_orphan_files(table => '{NAME}', dry_run => true, older_than => timestamp '{before}')"
    ).collect()
    return {"file:///" + row[0].removeprefix("file:").lstrip("/") for row in rows}


def test_both_list_the_same_orphans(java: SparkSession, java_lake: Path) -> None:
    java.sql(
        f"create table lake.{NAME} (id bigint, _part string) using iceberg partitioned by (_part) tblproperties"
        " ('format-version'='2', 'write.delete.mode'='merge-on-read', 'write.metadata.previous-versions-max'='2',"
        " 'write.object-storage.enabled'='true')"
    )
    for number in range(4):
        java.sql(f"insert into lake.{NAME} select id, concat('c', id % 2) from range({number * 5}, {number * 5 + 5})")
    java.sql(f"delete from lake.{NAME} where id = 3")
    java.sql(f"alter table lake.{NAME} create tag kept")
    java.sql(f"call lake.system.rewrite_data_files(table => '{NAME}', options => map('rewrite-all', 'true'))")
    java.sql(f"call lake.system.compute_table_stats(table => '{NAME}')")
    settings = CatalogSettings(uri=f"sqlite:///{java_lake}/catalog.db", warehouse=f"file://{java_lake}", name="lake")
    compactor = Compactor(settings, engine="inline")
    table = compactor.catalog.load_table(NAME)
    orphans.age_all(table)
    assert listed_by_java(java) == set(compactor.find_orphans(NAME, allow_unlisted=True).files.paths)

    strewn = {
        orphans.strew(table, name)
        for name in ("data/left.parquet", "data/_part=x/left.parquet", "metadata/left.avro", "odd/a b/left.orc")
    }
    for name in ("data/_tmp/x.parquet", "data/.crc", "data/_other=1/x.parquet"):
        orphans.strew(table, name)
    orphans.strew(table, "data/young.parquet", days=1)
    plan = compactor.find_orphans(NAME, allow_unlisted=True)
    assert strewn <= set(plan.files.paths)
    assert listed_by_java(java) == set(plan.files.paths)

    rows = java.sql(f"select * from lake.{NAME} order by id").collect()
    outcome = compactor.remove_orphans(NAME, force_share=True, allow_unlisted=True)
    assert outcome.kind is Kind.MAINTAINED, outcome.sentence
    for path in orphans.folder(table).rglob("*"):
        if path.is_file():
            os.utime(path, (1_700_000_000, 1_700_000_000))
    assert listed_by_java(java) == {f"{table.location()}/data/young.parquet"}  # and nothing of the quarantine
    assert java.sql(f"select * from lake.{NAME} order by id").collect() == rows
    assert java.sql(f"select count(*) from lake.{NAME} version as of 'kept'").collect()[0][0] == 19
    compactor.catalog.close()
