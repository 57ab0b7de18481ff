"""The same words select the same files: filters of `--where` here, and of rewrite_data_files in Iceberg Java. Java's
choice is the plan of its own scan, as the procedure makes it; some calls are really performed."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

import pytest

from iceberg_compaction import Compactor
from iceberg_compaction.interfaces.procedures import iceberg_options
from iceberg_compaction.metadata import look
from iceberg_compaction.metadata.filter import where_clause
from iceberg_compaction.settings import CatalogSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

TABLES = {
    "plain": "",
    "by_day": "partitioned by (days(ts))",
    "by_bucket": "partitioned by (bucket(4, id), truncate(2, name))",
    "by_number": "partitioned by (truncate(10, id), dt)",
    "evolved": "partitioned by (months(ts))",
}
COLUMNS = (
    "id bigint, name string, ts timestamp, ntz timestamp_ntz, dt date, n int, price decimal(9,2), `größe` int, x double"
)
NOW = datetime.datetime.now(datetime.timezone.utc)
RECENT, AWAY = ((NOW - datetime.timedelta(days=days)).strftime("%Y-%m-%d %H:%M:%S") for days in (3, 10))
# Each line is one insert, and so at least one file.
ROWS = [
    [(1, "'abcd'", "2026-01-01 05:00:00", 1, 1.5, 1, "1"), (2, "'abce'", "2026-01-01 23:59:59", 1, 1.5, 1, "2.5")],
    [(13, "'abxx'", "2026-01-02 00:00:00", 3, 2.25, 2, "null"), (14, "null", "2026-01-02 10:00:00", 3, 2.25, 3, "3")],
    [(25, "null", "2026-01-31 23:00:00", 3, 1.5, 5, "null"), (29, "null", "2026-02-01 00:00:00", 4, 9.99, 8, "null")],
    [(-7, "'zz'", "2025-12-31 23:59:59", 5, 0.5, 13, "double('NaN')")],
    [(31, "'new'", RECENT, 7, 3.5, 21, "double('Infinity')")],
    [(32, "'older'", AWAY, 7, 3.5, 21, "double('NaN')"), (33, "'older'", AWAY, 7, 3.5, 21, "2.5")],
]
FILTERS = [
    "ts >= '2026-01-02'",
    "ts < timestamp '2026-01-01 06:00:00'",
    "ts = timestamp '2026-01-02 10:00:00'",
    "ts >= '2026-01-02 10:00:00+00:00'",
    "ts between '2026-01-01' and '2026-01-01 12:00:00'",
    "ntz >= timestamp_ntz '2026-01-31 23:00:00'",
    "dt = date '2026-01-02'",
    "dt in ('2026-01-01', '2025-12-31')",
    "dt <> '2026-01-01'",
    "`größe` > 2 and `größe` <= 5",
    "`id` in (1, 2, 99)",
    "id not in (1, 2, 13)",
    "id not between 2 and 14",
    "14 < id",
    "name like 'ab%'",
    "name not like 'ab%'",
    "name = 'abcd'",
    'name = "zz"',
    "name is null",
    "name is not null",
    "n <> 3",
    "name <> 'abxx'",
    "not (name = 'abxx')",
    "name not in ('abxx', 'zz')",
    "name <> 'zz' or n <> 5",
    "name = 'ab\\\\cd' or name like 'abx%'",
    "name < 'ab\\144'",
    "id > 12L and price < 9.0BD",
    "ts < '2026-01-02 00:00:00 UTC'",
    "n = 3 or price = 1.50",
    "price > 2.0",
    "not (id < 4 or name = 'zz')",
    "id < 4 and (name = 'zz' or ts > '2026-01-01')",
    "1=1",
    "0=1",
    "1=1 and id > 20",
    "lake.system.bucket(4, id) = 2",
    "lake.system.bucket(4, id) in (0, 3)",
    "not lake.system.bucket(4, id) = 1",
    "lake.system.bucket(8, id) = 3",
    "lake.system.truncate(2, name) = 'ab'",
    "lake.system.truncate(4, name) = 'abcd'",
    "lake.system.truncate(10, id) = 10",
    "lake.system.truncate(10, id) < 10",
    "lake.system.days(ts) >= date '2026-01-02'",
    "lake.system.days(ts) = date '2026-01-01'",
    "lake.system.years(ts) = 56",
    "lake.system.months(ts) > 672",
    "lake.system.hours(ts) = 490901",
    "lake.system.days(dt) <> date '2026-01-01'",
    "dt >= current_date() - interval 7 days",
    "dt >= current_date - 7",
    "dt < date_sub(current_date(), 7)",
    "dt between date_add(current_date(), -20) and current_date() - interval '5' day",
    "ts >= current_date() - interval 7 days",
    "ts >= now() - interval 1 week",
    "ts < current_timestamp() - interval '5 days 2 hours'",
    "ts > current_date() - interval 120 hours",
    "dt > add_months(current_date(), -1)",
    "ts >= date_trunc('year', now()) and ts < date_trunc('year', now()) + interval 1 month",
    "dt < trunc(date '2026-02-15', 'MM')",
    "ts >= cast('2026-01-31' as timestamp)",
    "dt = to_date('2026-01-02') or dt = date('2025-12-31')",
    "ntz < timestamp_ntz '2026-01-03 00:00:00' - interval 1 day",
    "lake.system.days(ts) >= current_date() - interval 7 days",
    "name <=> 'abxx'",
    "name <=> null",
    "not (name <=> null)",
    "not (n <=> 3)",
    "name is distinct from 'zz' and id > 20",
    "name is not distinct from 'zz'",
    "id in (1, null)",
    "id not in (1, null)",
    "not (id in (1, null))",
    "id in (null) or n = 5",
    "name in ('zz', null) or n = 1",
    "isnull(x)",
    "isnotnull(x)",
    "x = 'NaN'",
    "x = double('NaN')",
    "x <= 2.5",
    "x < 2.5",
    "x = 'Infinity'",
    "x < '-Infinity'",
    "cast(ts as date) = '2026-01-01'",
    "CAST(ntz AS DATE) < DATE '2026-01-01'",
    "to_date(ts) between '2026-01-02' and '2026-01-31'",
    "ts >= '2026-1-2 9:00'",
    "ts < '2026'",
    "ntz >= '2026-02'",
    "ts < '2026-01-01 07:00:00 +02:00'",
    "ts >= '2026-01-02 10:00:00.000000999'",
    "dt = '2026-1-1' or dt > '2026-02-01 10:00:00'",
    "dt >= timestamp '2026-01-01 10:00:00'",
    "dt < timestamp '2026-01-01 10:00:00'",
    "dt > timestamp_ntz '2026-01-02 00:00:00'",
    "dt >= now() - interval 7 days",
    "n < 2147483648 and name not in ('a', 'b')",
    "`größe` <> 2147483648",
    "lake.system.bucket(8, name) = 3",
]


@pytest.fixture(scope="module")
def compactor(java: SparkSession, java_lake: Path) -> Iterator[Compactor]:
    java.sql("create namespace lake.filters")  # the session is shared, and others have tables of these names
    for name, spec in TABLES.items():
        java.sql(f"create table lake.filters.{name} ({COLUMNS}) using iceberg {spec}")
        for number, rows in enumerate(ROWS):
            if name == "evolved" and number == 2:
                java.sql("alter table lake.filters.evolved replace partition field ts_month with hours(ts)")
            values = ", ".join(
                f"({id}, {text}, timestamp '{at}', timestamp_ntz '{at}', date '{at[:10]}', {n}, {price}, {size}, {x})"
                for id, text, at, n, price, size, x in rows
            )
            java.sql(f"insert into lake.filters.{name} values {values}")
    settings = CatalogSettings(name="lake", uri=f"sqlite:///{java_lake}/catalog.db", warehouse=f"file://{java_lake}")
    made = Compactor(settings, engine="inline")
    yield made
    made.catalog.close()


class Oracle:
    """The files that Java's own planning selects for a filter."""

    def __init__(self, java: SparkSession) -> None:
        self._java, self._jvm = java, java.sparkContext._jvm

    def paths(self, name: str, where: str) -> set[str]:
        jvm: Any = self._jvm
        session = self._java._jsparkSession
        converter = jvm.org.apache.spark.sql.execution.datasources.SparkExpressionConverter
        resolved = converter.collectResolvedSparkExpression(session, f"lake.filters.{name}", where)
        expression = converter.convertToIcebergExpression(resolved)
        table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session, f"lake.filters.{name}")
        files = table.newScan().filter(expression).ignoreResiduals().planFiles()
        paths = {task.file().location() for task in _each(files.iterator())}
        files.close()
        return paths


def _each(iterator: Any) -> Iterator[Any]:
    while iterator.hasNext():
        yield iterator.next()


def _ours(compactor: Compactor, name: str, where: str) -> set[str]:
    table = compactor.catalog.load_table(f"filters.{name}")
    pinned = where_clause.pin(where, table.schema(), int(NOW.timestamp() * 1000))
    view = look.look(table, name=f"filters.{name}", where=pinned).view
    return set(view.files.filter(view.selected)["file_path"].to_pylist())


@pytest.mark.parametrize("name", list(TABLES))
def test_the_same_words_select_the_same_files(java: SparkSession, compactor: Compactor, name: str) -> None:
    oracle, differences, counts = Oracle(java), [], set()
    total = len(_ours(compactor, name, "true"))
    for where in FILTERS:
        theirs, ours = oracle.paths(name, where), _ours(compactor, name, where)
        counts.add(len(theirs))
        if theirs != ours:
            differences.append(f"{where}: Java {len(theirs)}, here {len(ours)} of {total}")
    assert not differences, "\n".join(differences)
    assert len(counts) > 2, "filters that select all files prove nothing"


def test_files_of_nan_are_selected_where_spark_finds_rows_and_java_none(
    java: SparkSession, compactor: Compactor
) -> None:
    """NaN is greater than every number for Spark, and has no bounds for Iceberg."""
    theirs, ours = Oracle(java).paths("plain", "x > 2.5"), _ours(compactor, "plain", "x > 2.5")
    rows = java.sql("select distinct input_file_name() from lake.filters.plain where isnan(x) or x > 2.5").collect()
    assert theirs < ours
    assert {urlparse(path).path for path in ours} == {urlparse(row[0]).path for row in rows}


@pytest.mark.parametrize("where", ["not lake.system.bucket(8, name) = 3", "lake.system.truncate(2, name) <> 'ab'"])
def test_files_of_nulls_are_left_out_where_a_transform_is_unequal_and_java_keeps_them(
    java: SparkSession, compactor: Compactor, where: str
) -> None:
    theirs, ours = Oracle(java).paths("plain", where), _ours(compactor, "plain", where)
    rows = java.sql(f"select distinct input_file_name() from lake.filters.plain where {where}").collect()
    assert ours < theirs
    assert {urlparse(row[0]).path for row in rows} <= {urlparse(path).path for path in ours}


@pytest.mark.parametrize(
    ("name", "where"),
    [("by_day", "ts >= '2026-01-02'"), ("by_bucket", "lake.system.bucket(4, id) in (0, 3)"), ("plain", "n = 3")],
)
def test_the_procedure_rewrites_what_is_selected_here(
    java: SparkSession, compactor: Compactor, name: str, where: str
) -> None:
    table = compactor.catalog.load_table(f"filters.{name}")
    before, selected = table.current_snapshot().snapshot_id, _ours(compactor, name, where)
    assert selected
    quoted = where.replace("'", "\\'")
    java.sql(
        f"call lake.system.rewrite_data_files(table => 'filters.{name}', where => '{quoted}', "
        "options => map('rewrite-all', 'true'))"
    )
    left = set(table.refresh().inspect.data_files()["file_path"].to_pylist())
    java.sql(f"call lake.system.rollback_to_snapshot('filters.{name}', {before})")
    gone = set(table.refresh().inspect.data_files()["file_path"].to_pylist()) - left
    assert gone == selected


def test_every_option_of_the_procedures_has_an_answer(java: SparkSession, compactor: Compactor) -> None:
    """The planners and runners of Iceberg Java name the options that they take."""
    jvm: Any = java.sparkContext._jvm
    session = java._jsparkSession
    table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session, "lake.filters.plain")
    actions = jvm.org.apache.iceberg.actions
    data = set(actions.BinPackRewriteFilePlanner(table).validOptions())
    assert "rewrite-all" in data
    assert not {name for name in data if name not in iceberg_options.REWRITE_DATA_FILES}
    deletes = set(actions.BinPackRewritePositionDeletePlanner(table).validOptions())
    assert not {name for name in deletes if name not in iceberg_options.REWRITE_POSITION_DELETE_FILES}
