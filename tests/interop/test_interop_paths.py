"""Iceberg Java and this product find each other's files, whatever partitions and folders are called (R52)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from iceberg_compaction import Compactor, Kind, errors
from iceberg_compaction.settings import CatalogSettings

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop


def compactor(java_lake: Path) -> Compactor:
    settings = CatalogSettings(name="lake", uri=f"sqlite:///{java_lake}/catalog.db", warehouse=f"file://{java_lake}")
    return Compactor(settings, "full", engine="inline", options={"min-input-files": 2, "partial-progress": False})


def rows(java: SparkSession, name: str) -> Counter[str]:
    return Counter(str(row) for row in java.sql(f"select cast(struct(*) as string) from lake.db.{name}").collect())


def told(java: SparkSession, name: str) -> set[str]:
    """What the last snapshot's summary calls its partitions."""
    found = java.sql(f"select summary from lake.db.{name}.snapshots order by committed_at").collect()[-1][0]
    return {key for key in found if key.startswith("partitions.")}


@pytest.mark.parametrize(
    ("column", "kind", "values"),
    [
        ("p", "string", ["'a#b'", "'a?b'", "'a/b'", "'..'", "''", "' '", "'a%23b'", "'a+b'", "'ü\\n;=:'", "null"]),
        ("p", "date", [f"date_from_unix_date({day})" for day in (2932897, -719529, 0, -2147483648, 2147483647)]),
        ("days(p)", "timestamp", [f"timestamp_micros({at})" for at in (253402300800000000, -62167219200000001, 0)]),
        ("hours(p)", "timestamp_ntz", ["timestamp_ntz'+12000-01-31 23:00:00'", "timestamp_ntz'-0300-01-31 23:00:00'"]),
    ],
    ids=["text", "date", "days", "hours"],
)
def test_partitions_have_the_same_names(
    java: SparkSession, java_lake: Path, column: str, kind: str, values: list[str]
) -> None:
    name = f"paths_{kind}"
    java.sql(
        f"create table lake.db.{name} (id bigint, p {kind}) using iceberg partitioned by ({column})"
        " tblproperties ('write.summary.partition-limit'='100')"
    )
    every = " union all ".join(f"select {number}, {value}" for number, value in enumerate(values))
    for _ in range(2):
        java.sql(f"insert into lake.db.{name} {every}")
    expected, by_java = rows(java, name), told(java, name)

    outcome = compactor(java_lake).compact_table(f"db.{name}")

    assert outcome.kind is Kind.COMPACTED, outcome.sentence
    assert rows(java, name) == expected
    assert told(java, name) == by_java
    assert java.sql(f"select count(*) from lake.db.{name}.files").collect()[0][0] == len(values)


def test_files_that_java_puts_behind_a_hash_are_read_there(java: SparkSession, java_lake: Path) -> None:
    java.sql(
        "create table lake.db.hashed (id bigint) using iceberg"
        f" tblproperties ('write.data.path'='file:{java_lake}/data#1?x')"
    )
    for number in range(2):
        java.sql(f"insert into lake.db.hashed select {number}")
    expected = rows(java, "hashed")

    refused = compactor(java_lake).compact_table("db.hashed")
    java.sql("alter table lake.db.hashed unset tblproperties ('write.data.path')")
    outcome = compactor(java_lake).compact_table("db.hashed")

    assert refused.kind is Kind.UNSUPPORTED
    assert "has '#' in it" in refused.sentence
    assert outcome.kind is Kind.COMPACTED, outcome.sentence
    assert rows(java, "hashed") == expected
    (path,) = [row[0] for row in java.sql("select file_path from lake.db.hashed.files").collect()]
    assert "#" not in path


def test_a_table_behind_a_hash_is_left_alone(java: SparkSession, java_lake: Path) -> None:
    java.sql(f"create table lake.db.behind (id bigint) using iceberg location 'file:{java_lake}/a#b/behind'")
    java.sql("insert into lake.db.behind select 1")
    with pytest.raises(errors.CompactionError):
        compactor(java_lake).plan_table("db.behind")
    assert rows(java, "behind").total() == 1
