"""Catalogs that the README names, on their servers: PostgreSQL and Glue. Others are in tests/interop."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from pyarrow import fs
from pyiceberg.catalog.glue import GlueCatalog
from pyiceberg.catalog.sql import SqlCatalog
from tests.factories import glue, servers, whole_way

from iceberg_compaction.settings import CatalogSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.factories.store_servers import StoreServer

pytestmark = pytest.mark.server


@pytest.fixture
def postgres_uri(store_server: Callable[[str], StoreServer]) -> str:
    """A database of its own."""
    import psycopg

    server = store_server("postgresql")
    name = f"c{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"create database {name}")
    return server.url.rpartition("/")[0] + f"/{name}"


@pytest.fixture
def postgres(postgres_uri: str, tmp_path: Path) -> Iterator[SqlCatalog]:
    catalog = SqlCatalog("prod", uri=postgres_uri, warehouse=f"file://{tmp_path}/lake")
    yield catalog
    catalog.close()


def on_postgres(uri: str, tmp_path: Path) -> whole_way.Typed:
    return whole_way.Typed(
        flags=["--catalog-name", "prod"], environment={"CATALOG_URI": uri}, state=tmp_path / "runs.db"
    )


def test_the_whole_way_on_postgresql(postgres: SqlCatalog, postgres_uri: str, tmp_path: Path) -> None:
    whole_way.walk(postgres, "shop.events", on_postgres(postgres_uri, tmp_path))


def test_races_on_postgresql(postgres: SqlCatalog, postgres_uri: str, tmp_path: Path) -> None:
    whole_way.race(postgres, "shop.events", on_postgres(postgres_uri, tmp_path))
    whole_way.no_update_is_lost(postgres, "shop.orders", CatalogSettings(name="prod", uri=postgres_uri))


def test_trouble_with_postgresql(postgres: SqlCatalog, postgres_uri: str, tmp_path: Path) -> None:
    whole_way.sick_table(postgres, "shop.events")
    address = postgres_uri.rpartition("@")[2]
    wrong = whole_way.complaint(on_postgres(f"postgresql://store:wr0ng-pass@{address}", tmp_path), "doctor")
    assert "password authentication failed" in wrong
    assert "check the credentials" in wrong
    assert "wr0ng-pass" not in wrong
    for uri, words in (
        (f"postgresql://store:s3cret@127.0.0.1:{servers.free_port()}/db", "refused"),
        (postgres_uri + "x", "does not exist"),
    ):
        sentence = whole_way.complaint(on_postgres(uri, tmp_path), "doctor")
        assert words in sentence
        assert "s3cret" not in sentence


@pytest.fixture(scope="module")
def glue_server() -> Iterator[glue.GlueServer]:
    with glue.running() as server:
        yield server


@dataclass(frozen=True, slots=True, kw_only=True)
class GlueLake:
    """Tables in Glue, files in S3."""

    server: glue.GlueServer
    properties: dict[str, str]
    catalog: GlueCatalog
    state: Path

    def typed(self, keys: dict[str, str] | None = None, endpoint: str | None = None) -> whole_way.Typed:
        """Keys and endpoint of Glue in the environment, as Amazon's own tools take them."""
        stored = [text for key, value in self.properties.items() for text in ("--catalog-property", f"{key}={value}")]
        environment = {"AWS_ENDPOINT_URL_GLUE": endpoint or self.server.endpoint, "AWS_REGION": "us-east-1"}
        return whole_way.Typed(
            flags=["--catalog-uri", "glue://us-east-1", *stored],
            environment=environment | (self.server.keys if keys is None else keys),
            state=self.state,
        )

    @property
    def name(self) -> str:
        return f"g{uuid.uuid4().hex[:8]}.events"


@pytest.fixture
def glue_lake(
    glue_server: glue.GlueServer, s3_server: servers.S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> GlueLake:
    """Files in a bucket of their own."""
    bucket = f"b{uuid.uuid4().hex[:12]}"
    fs.S3FileSystem(
        access_key=s3_server.access_key,
        secret_key=s3_server.secret_key,
        region="us-east-1",
        endpoint_override=s3_server.s3_endpoint,
        allow_bucket_creation=True,
    ).create_dir(bucket)
    properties = s3_server.s3_properties | {"warehouse": f"s3://{bucket}"}
    own = {"glue.endpoint": glue_server.endpoint, "glue.region": "us-east-1"}
    keys = {
        "glue.access-key-id": glue_server.keys["AWS_ACCESS_KEY_ID"],
        "glue.secret-access-key": glue_server.keys["AWS_SECRET_ACCESS_KEY"],
    }
    catalog = GlueCatalog("default", **own, **keys, **properties)
    return GlueLake(server=glue_server, properties=properties, catalog=catalog, state=tmp_path / "runs.db")


def test_the_whole_way_on_glue(glue_lake: GlueLake) -> None:
    whole_way.walk(glue_lake.catalog, glue_lake.name, glue_lake.typed())


def test_races_on_glue(glue_lake: GlueLake) -> None:
    whole_way.race(glue_lake.catalog, glue_lake.name, glue_lake.typed())
    properties = {str(key): str(value) for key, value in glue_lake.catalog.properties.items()}
    whole_way.no_update_is_lost(
        glue_lake.catalog, glue_lake.name, CatalogSettings(uri="glue://us-east-1", properties=properties)
    )


def test_trouble_with_glue(glue_lake: GlueLake) -> None:
    name = glue_lake.name
    whole_way.sick_table(glue_lake.catalog, name)
    secret = "wr0ng-secret"
    for keys, words in (
        (glue_lake.server.keys | {"AWS_SECRET_ACCESS_KEY": secret}, "refuses the signature"),
        ({"AWS_ACCESS_KEY_ID": "AKIANOBODY", "AWS_SECRET_ACCESS_KEY": secret}, "does not know the access key"),
        (glue_lake.server.foreign_keys, "grant them glue:GetDatabases"),
        ({}, "There are no credentials"),
    ):
        sentence = whole_way.complaint(glue_lake.typed(keys), "doctor")
        assert words in sentence
        assert secret not in sentence
    closed = f"http://127.0.0.1:{servers.free_port()}"
    sentence = whole_way.complaint(glue_lake.typed(endpoint=closed), "doctor")
    assert f"Nothing answers at {closed}" in sentence
