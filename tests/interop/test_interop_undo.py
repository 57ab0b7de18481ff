"""After an undo beside commits of Iceberg Java, Java reads the same rows, applies the deletes that came back, and can
compact the table further. A run whose files Java has compacted since is not undone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from iceberg_compaction import Compactor, Kind
from iceberg_compaction.settings import CatalogSettings

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop
TABLE = "lake.db.undone"


def rows(java: SparkSession) -> list[int]:
    java.sql(f"refresh table {TABLE}")
    return sorted(row[0] for row in java.sql(f"select id from {TABLE}").collect())


def test_java_reads_and_compacts_what_came_back(java: SparkSession, java_lake: Path) -> None:
    java.sql(
        f"create table {TABLE} (id bigint, p string) using iceberg partitioned by (p)"
        " tblproperties ('format-version'='2', 'write.delete.mode'='merge-on-read')"
    )
    for first in (0, 10, 20):
        values = ", ".join(f"({number}, '{'ab'[number % 2]}')" for number in range(first, first + 6))
        java.sql(f"insert into {TABLE} values {values}")
    java.sql(f"delete from {TABLE} where id in (3, 12)")
    uri, warehouse = f"sqlite:///{java_lake}/catalog.db", f"file://{java_lake}"
    settings = CatalogSettings(name="lake", uri=uri, warehouse=warehouse)
    options = {"min-input-files": 2, "delete-file-threshold": 1}
    compactor = Compactor(settings, engine="inline", options=options)
    run = compactor.compact_table("db.undone")
    assert run.kind is Kind.COMPACTED, run.sentence
    java.sql(f"refresh table {TABLE}")
    java.sql(f"insert into {TABLE} values (100, 'a'), (101, 'b')")
    before = rows(java)

    undone = compactor.undo(run.run_id, "db.undone")
    assert (undone.kind, undone.way) == (Kind.UNDONE, "replace"), undone.sentence
    assert rows(java) == before
    assert java.sql(f"select count(*) from {TABLE}.delete_files").collect()[0][0] > 0

    again = compactor.compact_table("db.undone")
    assert again.kind is Kind.COMPACTED, again.sentence
    java.sql(f"refresh table {TABLE}")
    java.sql("call lake.system.rewrite_data_files(table => 'db.undone', options => map('rewrite-all', 'true'))")
    assert rows(java) == before
    refused = compactor.undo(again.run_id, "db.undone")
    assert (refused.kind, "deleted or rewritten since" in refused.sentence) == (Kind.CONFLICT, True)
    assert rows(java) == before
