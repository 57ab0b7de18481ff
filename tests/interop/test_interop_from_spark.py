"""The session that people have: Spark SQL with Iceberg's own catalog writes and reads, a Compactor of the same session
compacts, and both mean the same table by a name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from iceberg_compaction import Compactor, Kind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.spark]


def test_spark_sql_and_a_compactor_share_session_catalog_and_names(java: SparkSession) -> None:
    java.sql("create table lake.db.`from-spark` (id bigint, name string) using iceberg")
    for first in range(0, 60, 10):
        java.range(first, first + 10).selectExpr("id", "'x' as name").writeTo("lake.db.`from-spark`").append()
    java.sql("use lake.db")
    compactor = Compactor.from_spark(java)
    names = compactor.list_tables("lake.db.from-spark")
    assert names == ["lake.db.`from-spark`"]
    assert compactor.inspect_table(names[0]).sick
    assert compactor.compact_table(names[0]).kind is Kind.COMPACTED
    rows = java.table(names[0])
    assert (rows.count(), rows.selectExpr("sum(id)").first()[0]) == (60, sum(range(60)))  # type: ignore[index]
    assert java.sql(f"select operation from {names[0]}.snapshots order by committed_at desc").first()[0] == "replace"  # type: ignore[index]
    java.sql(f"drop table {names[0]}")
