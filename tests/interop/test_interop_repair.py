"""Sound tables of Iceberg Java have no finding, and Java reads a table whose metadata was mended (R10, R75)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import damage as damages

from iceberg_compaction import Compactor, Kind
from iceberg_compaction.model.repair_plan import Damage
from iceberg_compaction.settings import CatalogSettings

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.manifest import ManifestEntry
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

NAME = "db.mended"
NUMBERS = (
    "select data_file.file_path, snapshot_id, sequence_number, file_sequence_number, data_file.record_count"
    f" from lake.{NAME}.entries where status < 2 order by 1"
)


def answer(java: SparkSession, query: str) -> list[Any]:
    return [row.asDict(recursive=True) for row in java.sql(query).collect()]


def test_java_reads_and_goes_on_with_mended_metadata(java: SparkSession, java_lake: Path) -> None:
    java.sql(
        f"create table lake.{NAME} (id bigint, city string) using iceberg partitioned by (city)"
        " tblproperties ('format-version'='2', 'write.delete.mode'='merge-on-read')"
    )
    for number in range(2):
        ids = f"range({number * 6}, {number * 6 + 6})"
        java.sql(f"insert into lake.{NAME} select id, concat('c', id % 2) from {ids}")
    java.sql(f"delete from lake.{NAME} where id = 4")
    java.sql(f"delete from lake.{NAME} where id in (6, 8, 10)")  # a whole file: an entry that is DELETED
    compactor = Compactor(
        CatalogSettings(uri=f"sqlite:///{java_lake}/catalog.db", warehouse=f"file://{java_lake}", name="lake"),
        engine="inline",
    )
    assert compactor.check_table(NAME, deep=True).findings == ()
    numbers, rows = answer(java, NUMBERS), answer(java, f"select * from lake.{NAME} order by id")

    def wrong(entries: list[ManifestEntry]) -> list[ManifestEntry]:
        return [damages.changed(entries[0], file_size_in_bytes=7, record_count=1), *entries[1:], entries[1]]

    damages.damage(compactor.catalog.load_table(NAME), wrong)
    plan = compactor.check_table(NAME)
    assert {finding.damage for finding in plan.findings} == {Damage.SIZE, Damage.RECORDS, Damage.TWICE}
    result = compactor.repair_table(NAME)
    assert result.kind is Kind.MAINTAINED, result.sentence
    java.sql(f"refresh table lake.{NAME}")
    assert answer(java, NUMBERS) == numbers
    assert answer(java, f"select * from lake.{NAME} order by id") == rows
    java.sql(f"delete from lake.{NAME} where id = 1")
    java.sql(f"call lake.system.rewrite_manifests('{NAME}')")
    assert answer(java, f"select id from lake.{NAME} order by id") == [
        {"id": row["id"]} for row in rows if row["id"] != 1
    ]
    assert compactor.check_table(NAME, deep=True).findings == ()
