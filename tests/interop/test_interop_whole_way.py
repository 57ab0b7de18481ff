"""Catalogs and storage that the README names and whose servers are heavier: a Hive metastore, Google's and Microsoft's
object stores. PostgreSQL and Glue are in tests/integration."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
from hive_metastore.ThriftHiveMetastore import Client
from hive_metastore.ttypes import LockResponse, LockState
from pyiceberg.catalog.hive import HiveCatalog
from pyiceberg.catalog.sql import SqlCatalog
from tests.factories import clouds, servers, whole_way
from tests.factories import metastore as metastores

from iceberg_compaction.settings import CatalogSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.interop, pytest.mark.server]


@pytest.fixture(scope="module")
def metastore() -> Iterator[metastores.Metastore]:
    with metastores.running() as running:
        yield running


@pytest.fixture
def hive(metastore: metastores.Metastore) -> HiveCatalog:
    return HiveCatalog("default", uri=metastore.uri)


@pytest.fixture
def on_hive(metastore: metastores.Metastore, tmp_path: Path) -> whole_way.Typed:
    return whole_way.Typed(flags=["--catalog-uri", metastore.uri], state=tmp_path / "runs.db")


def new_name() -> str:
    return f"d{uuid.uuid4().hex[:8]}.events"


def test_the_whole_way_on_hive(hive: HiveCatalog, on_hive: whole_way.Typed) -> None:
    whole_way.walk(hive, new_name(), on_hive)


def test_races_on_hive(hive: HiveCatalog, on_hive: whole_way.Typed) -> None:
    name = new_name()
    whole_way.race(hive, name, on_hive, lambda: update_without_a_lock(hive, name))
    whole_way.no_update_is_lost(hive, new_name(), CatalogSettings(uri=str(hive.properties["uri"])))


def update_without_a_lock(hive: HiveCatalog, name: str) -> None:
    """What Iceberg Java does where `engine.hive.lock-enabled` is false: the metastore's own check is enough for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Client, "lock", lambda *_: LockResponse(lockid=0, state=LockState.ACQUIRED))
        patch.setattr(Client, "unlock", lambda *_: None)
        whole_way.set_property(hive, name, "in-between", "1")


def test_trouble_with_hive(on_hive: whole_way.Typed, tmp_path: Path) -> None:
    closed = f"thrift://127.0.0.1:{servers.free_port()}"
    typed = whole_way.Typed(flags=["--catalog-uri", closed], state=tmp_path / "runs.db")
    assert f"Nothing answers at {closed}" in whole_way.complaint(typed, "doctor")
    assert 'There is no namespace "no"' in whole_way.complaint(on_hive, "doctor", "--table", "no.such")


@pytest.fixture(scope="module", params=["gcs", "azure"])
def cloud(request: pytest.FixtureRequest) -> Iterator[clouds.Cloud]:
    with getattr(clouds, request.param)() as running:
        yield running


def on_cloud(folder: Path, cloud: clouds.Cloud, **changes: str) -> tuple[SqlCatalog, whole_way.Typed]:
    """A SQLite catalog whose tables are in the cloud, and the words for it."""
    uri = f"sqlite:///{folder}/catalog.db"
    properties = cloud.properties | changes
    flags = [text for key, value in properties.items() for text in ("--catalog-property", f"{key}={value}")]
    catalog = SqlCatalog("default", uri=uri, warehouse=cloud.warehouse, **cloud.properties)
    return catalog, whole_way.Typed(flags=["--catalog-uri", uri, *flags], state=folder / "runs.db")


def test_the_whole_way_in_a_cloud(cloud: clouds.Cloud, tmp_path: Path) -> None:
    catalog, typed = on_cloud(tmp_path, cloud)
    with catalog:
        whole_way.walk(catalog, new_name(), typed)


def test_trouble_with_google(tmp_path: Path) -> None:
    closed = f"http://127.0.0.1:{servers.free_port()}"
    with clouds.gcs() as cloud:
        catalog, typed = on_cloud(tmp_path, cloud, **{"gcs.service.host": closed})
        with catalog:
            whole_way.sick_table(catalog, "shop.events")
            sentence = whole_way.complaint(typed, "doctor", "--table", "shop.events")
    assert "Nothing answers for the store of gs://lake" in sentence
    assert "check gcs.service.host" in sentence


def test_trouble_with_azure(tmp_path: Path) -> None:
    """A wrong key is said at once. The right one may be in the environment, as Azure's own tools take it."""
    wrong = "AAAA" + clouds.ACCOUNT_KEY[4:]
    with clouds.azure() as cloud:
        connection = cloud.properties["adls.connection-string"]
        changed = connection.replace(clouds.ACCOUNT_KEY, wrong)
        catalog, typed = on_cloud(tmp_path, cloud, **{"adls.connection-string": changed})
        with catalog:
            whole_way.sick_table(catalog, "shop.events")
            sentence = whole_way.complaint(typed, "doctor", "--table", "shop.events")
            plain = whole_way.Typed(
                flags=typed.flags[:2], environment={"AZURE_STORAGE_CONNECTION_STRING": connection}, state=typed.state
            )
            assert plain.document("doctor", "--table", "shop.events")["data_files"] == whole_way.FILES
    assert "refuses the credentials" in sentence
    assert wrong not in sentence


@pytest.mark.spark
def test_spark_compacts_in_a_cloud(cloud: clouds.Cloud, tmp_path: Path) -> None:
    """Executors get the properties of the store."""
    catalog, typed = on_cloud(tmp_path, cloud)
    with catalog:
        whole_way.sick_table(catalog, "shop.events")
        outcome = typed.document("run", "--table", "shop.events", "--engine", "spark")
        assert outcome["kind"] == "compacted", outcome
        assert catalog.load_table("shop.events").scan().to_arrow().num_rows == 10 * whole_way.FILES
