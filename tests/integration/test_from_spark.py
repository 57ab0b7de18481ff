"""A Compactor for a catalog of a Spark session: settings, names and the work itself are the session's. One session of
the test run serves all tests; each has its own settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.factories import lake as lakes
from tests.factories import storage

from iceberg_compaction import CompactionError, Compactor, Kind, errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.factories.servers import S3Server

pytestmark = pytest.mark.spark

CLASS = "org.apache.iceberg.spark.SparkCatalog"


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """Settings of the test's own in the shared session."""
    return spark.newSession()


@pytest.fixture
def lake(session: SparkSession, tmp_path: Path) -> Iterator[lakes.Lake]:
    """A JDBC catalog `lake` in SQLite, as Iceberg Java has it, with the namespace `db`; the session knows two more."""
    catalog = lakes.local_catalog(tmp_path)
    configure(session, "lake", type="jdbc", uri=f"jdbc:sqlite:{tmp_path}/lake.db", warehouse=f"file://{tmp_path}/w")
    configure(session, "other", type="hadoop", warehouse="file:///nowhere")
    session.conf.set("spark.sql.catalog.odd", "com.example.OddCatalog")
    yield lakes.Lake(settings=None, catalog=catalog, namespace="db")  # type: ignore[arg-type]
    catalog.close()


def configure(session: SparkSession, name: str, **options: str) -> None:
    session.conf.set(f"spark.sql.catalog.{name}", CLASS)
    for key, value in options.items():
        session.conf.set(f"spark.sql.catalog.{name}.{key}", value)


def test_tables_by_sparks_names_are_compacted_on_the_session(session: SparkSession, lake: lakes.Lake) -> None:
    tables = [lakes.append_small_files(lakes.make_table(lake.catalog, name), 6) for name in ("db.t", "db.a-b")]
    before = [storage.row_multiset(table.scan().to_arrow()) for table in tables]
    compactor = Compactor.from_spark(session, "lake")
    assert compactor.list_tables("lake.db.*") == ["lake.db.`a-b`", "lake.db.t"]
    assert compactor.inspect_table("`lake`.`db`.`t`").sick
    assert compactor.plan_table("lake.db.t").table == compactor.plan_table("db.t").table == "db.t"
    for name in compactor.list_tables():
        outcome = compactor.compact_table(name)
        assert (outcome.kind, outcome.files_removed) == (Kind.COMPACTED, 6), outcome
    assert [storage.row_multiset(table.refresh().scan().to_arrow()) for table in tables] == before
    assert session.range(4).count() == 4


def test_what_is_no_table_of_the_catalog_is_one_sentence(session: SparkSession, lake: lakes.Lake) -> None:
    compactor = Compactor.from_spark(session, "lake")
    with pytest.raises(errors.ConfigError, match=r'other\.db\.t is of the Spark catalog "other"'):
        compactor.compact_table("other.db.t")
    with pytest.raises(errors.ConfigError, match='is of the Spark catalog "spark_catalog"'):
        compactor.inspect_table("spark_catalog.db.t")
    with pytest.raises(errors.NoSuchTableError, match=r'There is no table "db\.u"'):
        compactor.inspect_table("lake.db.u")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nowhere", 'Spark has no catalog called "nowhere": configured are lake, odd, other'),
        ("other", 'The Spark catalog "other" is a Hadoop catalog'),
        ("odd", 'The Spark catalog "odd" is not an Iceberg catalog but com.example.OddCatalog'),
        (None, 'Spark has no catalog called "spark_catalog"'),
    ],
)
def test_what_is_no_catalog_for_us_is_one_sentence(
    session: SparkSession, lake: lakes.Lake, name: str | None, sentence: str
) -> None:
    with pytest.raises(errors.ConfigError, match=sentence):
        Compactor.from_spark(session, name)
    with pytest.raises(errors.ConfigError, match="A SparkSession is needed, not a value of type str"):
        Compactor.from_spark("lake", "lake")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["nessie", "snowflake"])
def test_a_type_without_a_client_is_refused(session: SparkSession, kind: str) -> None:
    configure(session, "lake", type=kind, uri="http://127.0.0.1:1")
    with pytest.raises(CompactionError, match=f"has the type {kind}, which is not supported; supported are"):
        Compactor.from_spark(session, "lake")


@pytest.mark.server
def test_a_rest_catalog_on_s3_needs_nothing_but_the_session(session: SparkSession, s3_server: S3Server) -> None:
    lake = lakes.rest_lake(s3_server, namespace="fromspark")
    table = lakes.append_small_files(lakes.make_table(lake.catalog, "fromspark.t"), 6)
    rows = storage.row_multiset(table.scan().to_arrow())
    options = {"type": "rest", "uri": s3_server.rest_uri, "warehouse": s3_server.warehouse}
    configure(session, "rest", **options, **s3_server.rest_properties)
    outcome = Compactor.from_spark(session, "rest").compact_table("rest.fromspark.t")
    assert (outcome.kind, outcome.files_added) == (Kind.COMPACTED, 1), outcome
    assert storage.row_multiset(table.refresh().scan().to_arrow()) == rows
    wrong = {"credential": "somebody:else", "token": ""}
    with pytest.raises(errors.UnauthorizedError):
        Compactor.from_spark(session, "rest", properties=wrong).inspect_table("rest.fromspark.t")
    lakes.close(lake)
