"""Statistics beside those of Iceberg Java: the same rows for every partition, the same hashes in every sketch; and Java
reads ours, plans with them and goes on from them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasketches import compact_theta_sketch

from iceberg_compaction import Compactor, Kind
from iceberg_compaction.formats import puffin
from iceberg_compaction.settings import CatalogSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

SUMS = (
    "data_record_count",
    "data_file_count",
    "total_data_file_size_in_bytes",
    "position_delete_record_count",
    "position_delete_file_count",
)


@pytest.fixture
def compactor(java_lake: Path) -> Compactor:
    settings = CatalogSettings(uri=f"sqlite:///{java_lake}/catalog.db", warehouse=f"file://{java_lake}", name="lake")
    return Compactor(settings, engine="inline")


def java_table(java: SparkSession, name: str) -> Any:
    return java._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(java._jsparkSession, f"lake.{name}")


def local(path: str) -> Path:
    return Path(path.removeprefix("file:").replace("//", "/"))


def rows_of(compactor: Compactor, name: str) -> list[dict[str, Any]]:
    """The partition statistics of the current snapshot, read without Iceberg."""
    table = compactor.catalog.load_table(name)
    (file,) = [
        each for each in table.metadata.partition_statistics if each.snapshot_id == table.metadata.current_snapshot_id
    ]
    assert local(file.statistics_path).stat().st_size == file.file_size_in_bytes
    return pq.read_table(local(file.statistics_path)).to_pylist()


def by_partition(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (str(row["partition"]), row["spec_id"]))


def forget(java: SparkSession, name: str) -> None:
    """Remove all partition statistics from the table's metadata."""
    table = java_table(java, name)
    for file in list(table.partitionStatisticsFiles()):
        table.updatePartitionStatistics().removePartitionStatistics(file.snapshotId()).commit()


def by_java(java: SparkSession, compactor: Compactor, name: str) -> list[dict[str, Any]]:
    java.sql(f"call lake.system.compute_partition_stats('{name}')")
    return rows_of(compactor, name)


def read_by_java(java: SparkSession, name: str) -> list[tuple[str, int, int, int]]:
    table = java_table(java, name)
    scan = table.newPartitionStatisticsScan().useSnapshot(table.currentSnapshot().snapshotId()).scan()
    found, each = [], scan.iterator()
    while each.hasNext():
        row = each.next()
        found.append((row.partition().toString(), row.specId(), row.dataRecordCount(), row.positionDeleteRecordCount()))
    return found


@pytest.mark.parametrize("version", [1, 2])
def test_partitions_are_counted_as_java_counts_them(java: SparkSession, compactor: Compactor, version: int) -> None:
    name = f"db.counted_v{version}"
    java.sql(
        f"create table lake.{name} (id bigint, city string, price decimal(9,2), at timestamp, raw binary) using iceberg"
        f" partitioned by (city, truncate(100, price)) tblproperties ('format-version'='{version}',"
        " 'write.delete.mode'='merge-on-read')"
    )
    values = (
        "select id, if(id % 4 = 3, null, concat('ü', id % 4)), id * 1.25, timestamp_seconds(id * 40000),"
        " cast(string(id % 7) as binary)"
    )
    java.sql(f"insert into lake.{name} {values} from range(0, 40)")
    java.sql(f"alter table lake.{name} add partition field day(at)")
    java.sql(f"insert into lake.{name} {values} from range(40, 80)")
    java.sql(f"alter table lake.{name} drop partition field city")
    java.sql(f"alter table lake.{name} add partition field raw")
    java.sql(f"insert into lake.{name} {values} from range(80, 90)")
    java.sql(f"delete from lake.{name} where city = 'ü1' and id < 40")  # whole files
    java.sql(f"delete from lake.{name} where id in (2, 45, 46)")

    assert compactor.refresh_statistics(name).kind is Kind.MAINTAINED
    ours = rows_of(compactor, name)
    assert len(ours) > 30
    read = read_by_java(java, name)
    forget(java, name)
    theirs = by_java(java, compactor, name)
    assert by_partition(ours) == by_partition(theirs)
    assert sorted(read) == sorted(read_by_java(java, name))
    assert [row[0] for row in read] == [row[0] for row in read_by_java(java, name)]  # in the same order

    # From ours, Java goes on with the commits since.
    forget(java, name)
    assert compactor.refresh_statistics(name).kind is Kind.MAINTAINED
    java.sql(f"insert into lake.{name} {values} from range(85, 95)")
    java.sql(f"delete from lake.{name} where id in (5, 47)")
    went_on = by_java(java, compactor, name)
    assert len(compactor.catalog.load_table(name).metadata.partition_statistics) == 2
    forget(java, name)
    assert compactor.refresh_statistics(name).kind is Kind.MAINTAINED
    assert counted(went_on) == counted(rows_of(compactor, name))


def counted(rows: list[dict[str, Any]]) -> dict[str, list[int]]:
    """What is in each partition of each spec. Rows of one partition are summed, and empty ones left out."""
    found: dict[str, list[int]] = {}
    for row in rows:
        sums = found.setdefault(f"{row['partition']} {row['spec_id']}", [0] * 5)
        for at, name in enumerate(SUMS):
            sums[at] += row[name]
    return {partition: sums for partition, sums in found.items() if sums[1]}


def test_a_dropped_column_divides_partitions_no_more(java: SparkSession, compactor: Compactor) -> None:
    name = "db.counted_less"
    java.sql(f"create table lake.{name} (id bigint, city string, n int) using iceberg partitioned by (city, n)")
    java.sql(f"insert into lake.{name} select id, concat('c', id % 3), int(id % 2) from range(0, 12)")
    java.sql(f"alter table lake.{name} drop partition field city")
    java.sql(f"insert into lake.{name} select id, concat('c', id % 3), int(id % 2) from range(0, 4)")
    java.sql(f"alter table lake.{name} drop column city")
    assert compactor.refresh_statistics(name).kind is Kind.MAINTAINED
    ours = rows_of(compactor, name)
    assert [(row["partition"], row["spec_id"], row["data_record_count"]) for row in ours] == [
        ({"n": 0}, 0, 6),
        ({"n": 0}, 1, 2),
        ({"n": 1}, 0, 6),
        ({"n": 1}, 1, 2),
    ]
    assert len(read_by_java(java, name)) == 4
    forget(java, name)
    theirs = by_java(java, compactor, name)
    assert len(theirs) == 8  # Java has a row for each value of the dropped column
    assert counted(ours) == counted(theirs)


COLUMNS = {
    "flag": "id % 2 = 0",
    "small": "int(id - 300)",
    "big": "id * 1000003",
    "single": "float(id % 97 - 40) / 3",
    "double_": "double(id % 89 - 40) / 3",
    "price": "cast((id - 500) * 1.25 as decimal(9, 2))",
    "amount": "cast((id - 500) as decimal(38, 5)) * cast(123456789012345678 as decimal(20, 0))",
    "day": "date_from_unix_date(int(id) - 400)",
    "at": "timestamp_seconds(id * 40000 - 9999)",
    "local": "cast(timestamp_seconds(id * 40000) as timestamp_ntz)",
    "city": "if(id % 5 = 0, null, if(id % 5 = 1, '', repeat(concat('ü', id), int(id % 9))))",
    "raw": "cast(concat('x', repeat(string(id), int(id % 20))) as binary)",
}


def sketches_of(compactor: Compactor, name: str) -> dict[str, tuple[set[int], float, str]]:
    """Hashes, bound and the stated number of each column's sketch, read without Iceberg."""
    table = compactor.catalog.load_table(name)
    (file,) = table.metadata.statistics
    content = local(file.statistics_path).read_bytes()
    assert len(content) == file.file_size_in_bytes
    found = {}
    for blob in puffin.read(content, where="it"):
        data = blob.data if blob.codec is None else pa.input_stream(pa.py_buffer(blob.data), compression="zstd").read()
        sketch = compact_theta_sketch.deserialize(data)
        found[table.schema().find_column_name(blob.fields[0])] = (set(sketch), sketch.theta, blob.properties["ndv"])
    return found


def test_sketches_hold_the_hashes_of_java_and_java_plans_with_them(java: SparkSession, compactor: Compactor) -> None:
    name = "db.sketched"
    columns = ", ".join(f"{expression} as {column}" for column, expression in COLUMNS.items())
    java.sql(
        f"create table lake.{name} using iceberg partitioned by (flag) tblproperties ('format-version'='2',"
        f" 'write.delete.mode'='merge-on-read') as select id, {columns} from range(0, 1000)"
    )
    java.sql(f"insert into lake.{name} select id, {columns} from range(500, 3000)")
    java.sql(f"delete from lake.{name} where id % 10 = 4")

    outcome = compactor.refresh_statistics(name, columns="all", partitions=False)
    assert (outcome.kind, outcome.figures) == (Kind.MAINTAINED, {"columns": len(COLUMNS) + 1})
    ours = sketches_of(compactor, name)
    assert ours["id"][2] == "2700"
    plan = java.sql(f"select * from lake.{name}")
    with_statistics = {"spark.sql.cbo.enabled": "true", "spark.sql.iceberg.report-column-stats": "true"}
    for key, value in with_statistics.items():
        java.conf.set(key, value)
    try:
        known = java.sql(f"select * from lake.{name}")._jdf.queryExecution().optimizedPlan().stats().attributeStats()
        text = known.toString()
    finally:
        for key in with_statistics:
            java.conf.unset(key)
    assert plan.count() == 3150
    assert "ColumnStat(Some(2700)" in text, text
    java.sql(f"call lake.system.compute_table_stats('{name}')")
    theirs = sketches_of(compactor, name)
    assert theirs.keys() == ours.keys()
    for column, (hashes, theta, ndv) in theirs.items():
        assert (ours[column][0], ours[column][1], ours[column][2]) == (hashes, theta, ndv), column


def test_many_values_are_estimated_as_java_does(java: SparkSession, compactor: Compactor) -> None:
    name = "db.many_values"
    java.sql(f"create table lake.{name} using iceberg as select id, concat('n', id % 20000) name from range(0, 60000)")
    assert compactor.refresh_statistics(name, columns="id,name").kind is Kind.MAINTAINED
    ours = sketches_of(compactor, name)
    java.sql(f"call lake.system.compute_table_stats('{name}')")
    theirs = sketches_of(compactor, name)
    for column, values in (("id", 60_000), ("name", 20_000)):
        assert abs(int(ours[column][2]) / values - 1) < 0.06
        assert abs(int(theirs[column][2]) / values - 1) < 0.06
        smallest = min(ours[column][1], theirs[column][1])  # below both bounds, the same hashes are kept
        below = [{each for each in side[column][0] if each < smallest * 2**63} for side in (ours, theirs)]
        assert below[0] == below[1]
