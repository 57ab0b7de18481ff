"""Real catalogs: connect, find tables, and say what is wrong in one sentence without a secret."""

from __future__ import annotations

import gzip
import os
import sqlite3
import time
import traceback
from pathlib import Path

import pytest
from tests.factories import gate as gates
from tests.factories import lake as lakes
from tests.factories import proxy as proxies
from tests.factories import servers

from iceberg_compaction import errors
from iceberg_compaction.catalog import connect, load_tables
from iceberg_compaction.settings import CatalogSettings
from iceberg_compaction.storage import file_io, passing_faults, s3_client

WRONG = "wrong-secret-9f8e7d"


def with_properties(lake: lakes.Lake, **changes: str) -> CatalogSettings:
    named = {key.replace("__", "-").replace("_", "."): value for key, value in changes.items()}
    return lake.settings.model_copy(update={"properties": lake.settings.properties | named})


def shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def test_a_table_is_found_and_read(lake: lakes.Lake) -> None:
    lakes.append_small_files(lakes.make_table(lake.catalog, lake.name("events")), 2)
    with connect.connect(lake.settings) as catalog:
        table = load_tables.load_table(catalog, lake.name("events"))
        assert table.scan().to_arrow().num_rows == 20
        assert load_tables.load_table(catalog, f"default.{lake.name('events')}").name() == table.name()
        assert load_tables.list_tables(catalog, f"{lake.namespace}.*") == [lake.name("events")]


def test_workers_get_what_files_need_and_no_more(lake: lakes.Lake) -> None:
    lakes.append_small_files(lakes.make_table(lake.catalog, lake.name("events")), 1)
    with connect.connect(lake.settings) as catalog:
        table = load_tables.load_table(catalog, lake.name("events"))
        properties = file_io.io_properties(table)
        path = next(iter(table.scan().plan_files())).file.file_path
    assert file_io.open_io(properties, path).new_input(path).exists()
    assert all(key.startswith(("s3.", "client.")) for key in properties)
    assert ("s3.secret-access-key" in properties) == (lake.settings.properties != {})


def test_a_typo_is_answered_with_the_nearest_names(lake: lakes.Lake) -> None:
    for name in ("events", "orders"):
        lakes.make_table(lake.catalog, lake.name(name))
    with connect.connect(lake.settings) as catalog:
        with pytest.raises(errors.NoSuchTableError, match=rf"did you mean {lake.name('events')}"):
            load_tables.load_table(catalog, lake.name("event"))
        with pytest.raises(errors.NoSuchTableError, match=rf"no namespace .* did you mean .*{lake.name('orders')}"):
            load_tables.load_table(catalog, f"{lake.namespace}x.orders")
        with pytest.raises(errors.NoSuchTableError, match="the namespace has"):
            load_tables.load_table(catalog, lake.name("zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"))


@pytest.mark.parametrize("name", ["events", "a..b", ".a", ""])
def test_a_name_without_a_namespace_is_refused(local_lake: lakes.Lake, name: str) -> None:
    with pytest.raises(errors.ConfigError, match="write it like namespace"):
        load_tables.load_table(local_lake.catalog, name)


def test_patterns_reach_into_nested_namespaces(local_lake: lakes.Lake) -> None:
    catalog = local_lake.catalog
    for namespace in ("shop", "shop.eu", "shopping"):
        catalog.create_namespace(namespace)
    for name in ("shop.events", "shop.eu.events", "shop.eu.orders", "shopping.list", "db.t"):
        lakes.make_table(catalog, name)
    assert len(load_tables.list_tables(catalog)) == 5
    assert load_tables.list_tables(catalog, "shop.*") == ["shop.eu.events", "shop.eu.orders", "shop.events"]
    assert load_tables.list_tables(catalog, "*.events") == ["shop.eu.events", "shop.events"]
    assert load_tables.list_tables(catalog, "shop*.l?st") == ["shopping.list"]
    assert load_tables.list_tables(catalog, "shop.eu.events") == ["shop.eu.events"]
    assert load_tables.list_tables(catalog, "none.*") == []


def test_a_missing_sqlite_file_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(errors.ConfigError, match="no SQLite catalog at"):
        connect.connect(CatalogSettings(uri=f"sqlite:///{tmp_path}/typo.db"))
    assert list(tmp_path.iterdir()) == []


def test_a_database_without_a_catalog_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    database = sqlite3.connect(path)
    database.execute("create table people (name text)")
    database.commit()
    database.close()
    before = path.read_bytes()
    with pytest.raises(errors.ConfigError, match="holds no Iceberg catalog"):
        connect.connect(CatalogSettings(uri=f"sqlite:///{path}"))
    assert path.read_bytes() == before


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to have a header" * 100)
    with pytest.raises(errors.CatalogError, match="file is not a database"):
        connect.connect(CatalogSettings(uri=f"sqlite:///{path}"))


@pytest.mark.parametrize("uri", ["sqlite://", "sqlite:///:memory:", "postgresql://u:hunter2@h:port/d"])
def test_sql_uris_that_lead_nowhere(uri: str) -> None:
    with pytest.raises(errors.ConfigError, match="sqlite:////data") as caught:
        connect.connect(CatalogSettings(uri=uri))
    assert "hunter2" not in shown(caught.value)


def test_rows_of_another_catalog_name_are_pointed_out(local_lake: lakes.Lake) -> None:
    with pytest.raises(
        errors.ConfigError, match=r'catalog "default" and none called "prod"; .* --catalog-name default\.'
    ):
        connect.connect(local_lake.settings.model_copy(update={"name": "prod"}))


def test_a_spark_jdbc_catalog_reaches_the_same_tables(local_lake: lakes.Lake) -> None:
    lakes.make_table(local_lake.catalog, "db.events")
    path = (local_lake.settings.uri or "").removeprefix("sqlite:///")
    conf = {"spark.sql.catalog.default.type": "jdbc", "spark.sql.catalog.default.uri": f"jdbc:sqlite:{path}"}
    with connect.connect(CatalogSettings(spark_catalog="default", spark_conf=conf), {}) as catalog:
        assert load_tables.list_tables(catalog) == ["db.events"]


def test_missing_table_metadata_is_said(local_lake: lakes.Lake) -> None:
    table = lakes.make_table(local_lake.catalog, "db.events")
    os.remove(table.metadata_location.removeprefix("file://"))
    with pytest.raises(errors.MetadataError, match=r"metadata\.json"):
        load_tables.load_table(local_lake.catalog, "db.events")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("v.metadata.json", b"\xae\xff"),
        ("v.gz.metadata.json", gzip.compress(b"{}", mtime=0)[:-4]),
        ("v.gz.metadata.json", gzip.compress(b"{}", mtime=0)[:10] + b"\xff" * 20),
    ],
    ids=["no text", "cut short", "no deflate"],
)
def test_damaged_table_metadata_is_said(local_lake: lakes.Lake, name: str, data: bytes) -> None:
    table = lakes.make_table(local_lake.catalog, "db.events")
    folder = Path(table.metadata_location.removeprefix("file://")).parent
    (folder / f"00000-{name}").write_bytes(data)
    with sqlite3.connect((local_lake.settings.uri or "").removeprefix("sqlite:///")) as database:
        database.execute("update iceberg_tables set metadata_location = ?", ((folder / f"00000-{name}").as_uri(),))
    database.close()
    with pytest.raises(errors.MetadataError, match=r"The metadata file \S+ of db\.events is damaged: "):
        load_tables.load_table(local_lake.catalog, "db.events")


@pytest.mark.server
@pytest.mark.parametrize(
    "changes",
    [{"credential": f"{servers.ACCESS_KEY}:{WRONG}"}, {"credential": "", "token": WRONG}],
    ids=["wrong secret", "wrong token"],
)
def test_a_bad_credential_is_refused_and_not_shown(s3_lake: lakes.Lake, changes: dict[str, str]) -> None:
    settings = with_properties(s3_lake, **changes)
    settings = settings.model_copy(update={"properties": {k: v for k, v in settings.properties.items() if v}})
    with pytest.raises(errors.UnauthorizedError, match="check the credentials") as caught:
        load_tables.list_tables(connect.connect(settings))
    assert WRONG not in shown(caught.value)
    assert servers.SECRET_KEY not in shown(caught.value)


@pytest.mark.server
def test_credentials_may_come_from_the_environment(
    s3_lake: lakes.Lake, s3_server: servers.S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    lakes.append_small_files(lakes.make_table(s3_lake.catalog, s3_lake.name("events")), 1)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.secret_key)
    kept = {key: value for key, value in s3_lake.settings.properties.items() if key in ("credential", "s3.endpoint")}
    with connect.connect(s3_lake.settings.model_copy(update={"properties": kept})) as catalog:
        table = load_tables.load_table(catalog, s3_lake.name("events"))
        assert table.scan().to_arrow().num_rows == 10
        told = {key: value for key, value in file_io.io_properties(table).items() if key not in s3_client.DEFAULTS}
        assert told == {"s3.endpoint": s3_server.s3_endpoint, "client.region": "us-east-1"}


def test_a_stopped_server_fails_fast() -> None:
    uri = f"http://127.0.0.1:{servers.free_port()}"
    started = time.monotonic()
    with pytest.raises(errors.UnreachableError, match="Connection refused") as caught:
        connect.connect(CatalogSettings(uri=uri, properties={"credential": f"id:{WRONG}"}))
    assert time.monotonic() - started < 20  # a socket is given two minutes otherwise
    assert uri in str(caught.value)
    assert WRONG not in shown(caught.value)


def test_a_server_that_never_answers_is_given_up() -> None:
    properties = {"credential": f"id:{WRONG}", "rest.client.socket-timeout-ms": "300"}
    started = time.monotonic()
    with proxies.lossy_proxy("http://127.0.0.1:9") as proxy:
        proxy.fault = proxies.Fault.HANG  # the token request is a POST
        with pytest.raises(errors.UnreachableError, match="Read timed out"):
            connect.connect(CatalogSettings(uri=proxy.uri, properties=properties))
    assert time.monotonic() - started < 20  # a socket is given two minutes otherwise


@pytest.mark.server
@pytest.mark.parametrize("fault", gates.Fault, ids=lambda one: one.name)
def test_a_catalog_is_asked_again_what_can_be_asked_twice(
    s3_lake: lakes.Lake, fault: gates.Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    lakes.append_small_files(lakes.make_table(s3_lake.catalog, s3_lake.name("events")), 1)
    waits: list[float] = []
    monkeypatch.setattr(passing_faults, "USUAL", passing_faults.Patience(sleep=waits.append))
    with gates.gate(s3_lake.settings.uri or "") as gate:
        settings = s3_lake.settings.model_copy(update={"uri": gate.uri})
        with connect.connect(settings) as catalog:
            gate.turn(gates.Weather(rate=1.0, kinds=(fault,), times=passing_faults.USUAL.retries))
            assert load_tables.load_table(catalog, s3_lake.name("events")).current_snapshot() is not None
            gate.turn(gates.Weather(rate=1.0, kinds=(fault,)))
            with pytest.raises(errors.CatalogError):
                load_tables.load_table(catalog, s3_lake.name("events"))
    assert len(waits) == 2 * passing_faults.USUAL.retries
    assert gate.happened["faults"] == 2 * passing_faults.USUAL.retries + 1


@pytest.mark.server
def test_a_stores_refusal_is_recognised(s3_lake: lakes.Lake) -> None:
    from iceberg_compaction.storage import translate

    table = lakes.append_small_files(lakes.make_table(s3_lake.catalog, s3_lake.name("events")), 1)
    properties = file_io.io_properties(table)
    closed, impatient = f"http://127.0.0.1:{servers.free_port()}", "pyarrow.fs.AwsDefaultS3RetryStrategy"
    for change, expected in (
        ({"s3.secret-access-key": WRONG}, errors.UnauthorizedError),
        ({"s3.endpoint": closed, "s3.retry-strategy-impl": impatient}, errors.UnreachableError),
    ):
        io = file_io.open_io(properties | change, table.location())
        with pytest.raises(OSError, match="AWS Error") as caught:
            io.new_input(table.metadata_location).open().read()
        assert isinstance(translate.storage_error(caught.value, table.metadata_location), expected)
