"""What this product compacts, Iceberg Java reads: the same rows, the right sequence numbers, metadata tables that add
up; and Java goes on compacting it without error. Each scenario is written by Java, by PyIceberg or by both."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.factories import racing

from iceberg_compaction import Compactor, Kind
from iceberg_compaction.settings import CatalogSettings

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

OPTIONS = {"min-input-files": 2, "partial-progress": False}  # one snapshot, so that it can be looked at
COLUMNS = "id bigint, name string, day date, at timestamp, price decimal(12,2), score double, tags array<string>"
ROW = (
    "select {i} * 100 + id as id, concat('n', id % 17) as name, date_add(date'2026-01-01', cast(id % 3 as int)) as day,"
    " timestamp'2026-01-01 00:00:00' + make_interval(0,0,0,0,cast(id % 48 as int)) as at,"
    " cast(id * 1.25 as decimal(12,2)) as price,"
    " case id % 5 when 0 then cast('NaN' as double) when 1 then null else id / 3 end as score,"
    " case id % 4 when 0 then null when 1 then array() else array('a', cast(id as string), null) end as tags"
    " from range(40)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    name: str
    columns: str = COLUMNS
    partitioned_by: str = ""
    properties: str = ""
    insert: str = ROW
    appends: int = 4
    then: tuple[str, ...] = ()  # statements after half of the appends
    strategy: str = "small-files"
    java_again: bool = False  # Java compacts it afterwards


SCENARIOS = [
    Scenario(name="plain", java_again=True),
    Scenario(name="full", strategy="full"),
    Scenario(name="v1", properties="'format-version'='1'", java_again=True),
    Scenario(name="v1_days", properties="'format-version'='1'", partitioned_by="days(at)"),
    Scenario(name="by_day", partitioned_by="days(at)"),
    Scenario(name="by_identity_date", partitioned_by="day"),
    Scenario(name="by_month_and_bucket", partitioned_by="months(at), bucket(3, id)", java_again=True),
    Scenario(name="by_hour_truncate", partitioned_by="hours(at), truncate(1, name)", insert=ROW.replace("40", "12")),
    Scenario(name="by_decimal", partitioned_by="truncate(50, price)"),
    Scenario(name="by_double_with_nan_and_null", partitioned_by="score", insert=ROW.replace("range(40)", "range(12)")),
    Scenario(name="snappy", properties="'write.parquet.compression-codec'='snappy'"),
    Scenario(
        name="gzip_pages", properties="'write.parquet.compression-codec'='gzip','write.parquet.page-size-bytes'='4096'"
    ),
    Scenario(name="object_store_layout", properties="'write.object-storage.enabled'='true'", partitioned_by="day"),
    Scenario(
        name="metrics_modes",
        properties="'write.metadata.metrics.default'='counts','write.metadata.metrics.column.id'='full'",
    ),
    Scenario(name="sorted_table", then=("alter table lake.db.{t} write ordered by id",)),
    Scenario(
        name="columns_evolved",
        then=(
            "alter table lake.db.{t} rename column name to label",
            "alter table lake.db.{t} drop column score",
            "alter table lake.db.{t} add column score string",
            "alter table lake.db.{t} alter column price type decimal(20,2)",
            "insert into lake.db.{t} select 9000 + id, 'x', date'2026-01-01', timestamp'2026-01-01 00:00:00', 1.5,"
            " array('z'), 's' from range(5)",
        ),
    ),
    Scenario(
        name="promoted",
        columns="id int, f float",
        insert="select cast({i} * 100 + id as int) as id, cast(id / 7 as float) as f from range(30)",
        then=(
            "alter table lake.db.{t} alter column id type bigint",
            "alter table lake.db.{t} alter column f type double",
            "insert into lake.db.{t} values (5000000000, 1e300)",
        ),
    ),
    Scenario(
        name="spec_evolved",
        partitioned_by="day",
        then=("alter table lake.db.{t} add partition field bucket(2, id)",),
        java_again=True,
    ),
    Scenario(
        name="deleted_rows_copy_on_write",
        then=("delete from lake.db.{t} where id % 7 = 0",),
        properties="'write.delete.mode'='copy-on-write'",
    ),
    Scenario(
        name="nested",
        java_again=True,
        columns=(
            "id bigint, s struct<a:int,b:struct<c:string,d:array<struct<e:double,f:date>>>>,"
            " m map<string,array<bigint>>"
        ),
        insert=(
            "select {i} * 100 + id as id,"
            " case when id % 3 = 0 then null else named_struct('a', cast(id as int), 'b',"
            " case when id % 4 = 0 then null else named_struct('c', cast(id as string),"
            " 'd', array(named_struct('e', id / 3, 'f', date'2026-02-03'), null)) end) end as s,"
            " case when id % 5 = 0 then map() when id % 5 = 1 then null"
            " else map('k', array(id, null), 'l', null) end as m"
            " from range(30)"
        ),
    ),
]


@pytest.fixture(scope="module")
def compactor(java: SparkSession, java_lake: Path) -> Compactor:
    settings = CatalogSettings(name="lake", uri=f"sqlite:///{java_lake}/catalog.db", warehouse=f"file://{java_lake}")
    return Compactor(settings, spark=java)


def rows(java: SparkSession, table: str) -> Counter[str]:
    return Counter(repr(row) for row in java.table(f"lake.db.{table}").collect())


def one(java: SparkSession, query: str) -> Any:
    return java.sql(query).collect()[0]


def build(java: SparkSession, scenario: Scenario) -> None:
    by = f"partitioned by ({scenario.partitioned_by})" if scenario.partitioned_by else ""
    properties = f"tblproperties ({scenario.properties})" if scenario.properties else ""
    java.sql(f"create table lake.db.{scenario.name} ({scenario.columns}) using iceberg {by} {properties}")
    for i in range(scenario.appends):
        insert = scenario.insert.format(i=i)
        if i == scenario.appends // 2:
            for statement in scenario.then:
                java.sql(statement.format(t=scenario.name))
            if any("column" in statement and "alter" in statement for statement in scenario.then):
                return  # the insert no longer fits; the scenario brought its own rows
        java.sql(f"insert into lake.db.{scenario.name} {insert}").collect()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_java_reads_what_we_compacted(java: SparkSession, compactor: Compactor, scenario: Scenario) -> None:
    build(java, scenario)
    name = scenario.name
    before, head = (
        rows(java, name),
        one(java, f"select * from lake.db.{name}.snapshots order by committed_at desc limit 1"),
    )
    files_before = one(java, f"select count(*) c, sum(record_count) r from lake.db.{name}.files")

    ours = Compactor(compactor.catalog, strategy=scenario.strategy, spark=java, options=OPTIONS)
    outcome = ours.compact_table(f"db.{name}")

    assert outcome.kind is Kind.COMPACTED, outcome.sentence
    assert outcome.proof is not None
    assert not outcome.proof.failures
    assert rows(java, name) == before
    check_metadata_tables(java, name, outcome, files_before)
    check_sequence_numbers(java, name, outcome, head)
    assert ours.compact_table(f"db.{name}").kind is Kind.HEALTHY
    if not scenario.java_again:
        return
    java.sql(
        f"call lake.system.rewrite_data_files(table => 'db.{name}', options => map('rewrite-all', 'true'))"
    ).collect()
    java.sql(f"call lake.system.rewrite_manifests('db.{name}')").collect()
    assert rows(java, name) == before


def check_metadata_tables(java: SparkSession, name: str, outcome: Any, files_before: Any) -> None:
    files = one(java, f"select count(*) c, sum(record_count) r, sum(file_size_in_bytes) b from lake.db.{name}.files")
    assert files.r == files_before.r
    assert files.c == files_before.c - outcome.files_removed + outcome.files_added
    snapshot = one(java, f"select * from lake.db.{name}.snapshots where snapshot_id = {outcome.snapshot_id}")
    assert snapshot.operation == "replace"
    assert int(snapshot.summary["total-data-files"]) == files.c
    assert int(snapshot.summary["total-records"]) == files.r
    assert int(snapshot.summary["total-files-size"]) == files.b
    assert snapshot.summary["added-records"] == snapshot.summary["deleted-records"] == str(outcome.records)
    assert snapshot.summary["compaction.proof.checksum"] == outcome.proof.checksum
    manifests = one(
        java,
        "select sum(added_data_files_count + existing_data_files_count) live, sum(deleted_data_files_count) gone"
        f" from lake.db.{name}.manifests",
    )
    assert manifests.live == files.c
    assert manifests.gone == outcome.files_removed
    partitions = java.sql(f"select * from lake.db.{name}.partitions").collect()
    assert sum(row.record_count for row in partitions) == files.r
    assert sum(row.file_count for row in partitions) == files.c


def check_sequence_numbers(java: SparkSession, name: str, outcome: Any, head: Any) -> None:
    """R1, R10: new files have the planning snapshot's data sequence number; removed entries keep theirs."""
    entries = java.sql(
        f"select status, snapshot_id, sequence_number, file_sequence_number from lake.db.{name}.entries"
    ).collect()
    added = [e for e in entries if e.snapshot_id == outcome.snapshot_id and e.status == 1]
    gone = [e for e in entries if e.snapshot_id == outcome.snapshot_id and e.status == 2]
    assert len(added) == outcome.files_added
    assert len(gone) == outcome.files_removed
    version_1 = head.summary.get("x") is None and all(e.sequence_number == 0 for e in entries)
    if not version_1:
        start = max(e.sequence_number for e in entries if e.status != 1)
        assert {e.sequence_number for e in added} == {start}
        assert {e.file_sequence_number for e in added} == {start + 1}
    assert all(e.sequence_number <= e.file_sequence_number for e in entries)


def test_a_table_by_pyiceberg_is_read_by_java(java: SparkSession, compactor: Compactor) -> None:
    data = pa.table({"id": pa.array(range(50), pa.int64()), "text": [f"é{i}" for i in range(50)]})
    table = compactor.catalog.create_table("db.by_pyiceberg", schema=data.schema)
    for start in range(0, 50, 5):
        table.append(data.slice(start, 5))
    before = rows(java, "by_pyiceberg")
    outcome = compactor.compact_table("db.by_pyiceberg")
    assert (outcome.kind, outcome.files_removed, outcome.files_added) == (Kind.COMPACTED, 10, 1)
    assert rows(java, "by_pyiceberg") == before
    assert sum(before.values()) == 50


def test_java_appends_between_plan_and_commit(java: SparkSession, compactor: Compactor) -> None:
    java.sql("create table lake.db.raced (id bigint) using iceberg")
    for i in range(6):
        java.sql(f"insert into lake.db.raced values ({i})").collect()
    plan = compactor.plan_table("db.raced")
    java.sql("insert into lake.db.raced values (100)").collect()
    outcome = compactor.apply(plan)
    assert outcome.kind is Kind.COMPACTED, outcome.sentence
    assert sorted(row.id for row in java.table("lake.db.raced").collect()) == [0, 1, 2, 3, 4, 5, 100]


def test_java_deletes_between_plan_and_commit(java: SparkSession, compactor: Compactor) -> None:
    """R6: a position delete on an input that came after the plan must not be lost."""
    java.sql(
        "create table lake.db.deleted_meanwhile (id bigint) using iceberg"
        " tblproperties ('write.delete.mode'='merge-on-read')"
    )
    for i in range(6):
        both = f"select /*+ coalesce(1) */ * from values ({i}), ({i + 10})"  # one file, so that a part of it is deleted
        java.sql(f"insert into lake.db.deleted_meanwhile {both}").collect()
    plan = compactor.plan_table("db.deleted_meanwhile")
    java.sql("delete from lake.db.deleted_meanwhile where id = 3").collect()
    java.sql("insert into lake.db.deleted_meanwhile values (200)").collect()
    outcome = racing.apply_as_planned(compactor, plan)
    assert outcome.kind is Kind.CONFLICT, outcome.sentence
    assert 3 not in {row.id for row in java.table("lake.db.deleted_meanwhile").collect()}
    assert compactor.compact_table("db.deleted_meanwhile").kind is Kind.COMPACTED
    assert 3 not in {row.id for row in java.table("lake.db.deleted_meanwhile").collect()}
