"""The verdict on a commit must be true: what is called refused did not land, and what may have landed is unknown."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, SetPropertiesUpdate
from tests.factories import lake as lakes
from tests.factories import proxy as proxies

from iceberg_compaction import errors
from iceberg_compaction.catalog import connect, load_tables, publish

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyiceberg.table import Table


@pytest.fixture
def table(lake: lakes.Lake) -> Iterator[Table]:
    lakes.append_small_files(lakes.make_table(lake.catalog, lake.name("events")), 1)
    with connect.connect(lake.settings) as catalog:
        yield load_tables.load_table(catalog, lake.name("events"))


class Nobody:
    """A run that remembers nothing."""

    run_id = "nobody"

    def publishing(self, metadata: str | None) -> None: ...
    def left_behind(self, paths: Any) -> None: ...


def mark(table: Table, value: str) -> None:
    """A small commit that holds on to the current snapshot."""
    snapshot = table.current_snapshot()
    requirements = (
        AssertTableUUID(uuid=table.metadata.table_uuid),
        AssertRefSnapshotId(ref="main", **{"snapshot-id": snapshot.snapshot_id if snapshot else None}),
    )
    publish.publish(table, requirements, (SetPropertiesUpdate(updates={"mark": value}),), Nobody())


def test_a_commit_lands(table: Table) -> None:
    mark(table, "1")
    assert publish.reload(table).properties["mark"] == "1"


def test_a_competing_commit_is_a_conflict(table: Table, lake: lakes.Lake) -> None:
    lakes.append_small_files(lake.catalog.load_table(lake.name("events")), 1)
    with pytest.raises(errors.ConflictError, match="changed by somebody else") as caught:
        mark(table, "2")
    assert caught.value.retryable
    assert "mark" not in publish.reload(table).properties


def test_a_dropped_table_is_not_an_unknown_state(table: Table, lake: lakes.Lake) -> None:
    lake.catalog.drop_table(lake.name("events"))
    with pytest.raises(errors.CommitError) as caught:
        mark(table, "2")
    assert not isinstance(caught.value, errors.StateUnknownError)
    with pytest.raises(errors.NoSuchTableError):
        publish.reload(table)


def test_a_locked_database_is_a_conflict(local_lake: lakes.Lake) -> None:
    lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.events"), 1)
    uri = f"{local_lake.settings.uri}?timeout=0.1"
    path = (local_lake.settings.uri or "").removeprefix("sqlite:///")
    with connect.connect(local_lake.settings.model_copy(update={"uri": uri})) as catalog:
        table = load_tables.load_table(catalog, "db.events")
        other = sqlite3.connect(path)
        other.execute("begin immediate")
        try:
            with pytest.raises(errors.ConflictError, match="held the catalog database's lock"):
                mark(table, "2")
        finally:
            other.rollback()
            other.close()
        assert "mark" not in publish.reload(table).properties
        mark(table, "3")
        assert publish.reload(table).properties["mark"] == "3"


def test_metadata_that_cannot_be_written_is_a_refusal(local_lake: lakes.Lake, tmp_path: Path) -> None:
    lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.events"), 1)
    # Root may write anywhere, so permissions would prove nothing: a file stands where the folder should be.
    aside = tmp_path / "aside"
    aside.write_text("in the way")
    with connect.connect(local_lake.settings) as catalog:
        table = load_tables.load_table(catalog, "db.events")
        with pytest.raises(errors.CommitError, match="could not be written") as caught:
            publish.publish(
                table, (), (SetPropertiesUpdate(updates={"write.metadata.path": aside.as_uri()}),), Nobody()
            )
        assert not isinstance(caught.value, errors.StateUnknownError)
        assert publish.reload(table).metadata_location == table.metadata_location


@pytest.fixture
def proxied(s3_lake: lakes.Lake) -> Iterator[tuple[proxies.Proxy, Table]]:
    lakes.append_small_files(lakes.make_table(s3_lake.catalog, s3_lake.name("events")), 1)
    with proxies.lossy_proxy(s3_lake.settings.uri or "") as proxy:
        properties = s3_lake.settings.properties | {"rest.client.socket-timeout-ms": "2000"}
        settings = s3_lake.settings.model_copy(update={"uri": proxy.uri, "properties": properties})
        with connect.connect(settings) as catalog:
            yield proxy, load_tables.load_table(catalog, s3_lake.name("events"))


@pytest.mark.server
@pytest.mark.parametrize(
    ("fault", "landed"),
    [
        (proxies.Fault.LOSE_ANSWER, True),
        (proxies.Fault.GATEWAY_TIMEOUT, True),
        (proxies.Fault.LOSE_REQUEST, False),
        (proxies.Fault.HANG, False),
    ],
)
def test_a_lost_answer_is_an_unknown_state_and_is_not_sent_twice(
    proxied: tuple[proxies.Proxy, Table], fault: proxies.Fault, landed: bool
) -> None:
    proxy, table = proxied
    proxy.fault = fault
    before = proxy.posts
    with pytest.raises(errors.StateUnknownError, match="did not say whether") as caught:
        mark(table, "4")
    assert not caught.value.retryable
    assert proxy.posts == before + 1
    assert ("mark" in publish.reload(table).properties) == landed


@pytest.mark.server
def test_a_busy_server_may_be_asked_again(proxied: tuple[proxies.Proxy, Table]) -> None:
    proxy, table = proxied
    proxy.fault = proxies.Fault.TOO_MANY
    with pytest.raises(errors.ConflictError, match="too busy"):
        mark(table, "5")
    proxy.fault = proxies.Fault.NONE
    mark(table, "6")
    assert publish.reload(table).properties["mark"] == "6"


@pytest.mark.server
def test_a_server_that_is_gone_was_not_told(s3_lake: lakes.Lake) -> None:
    lakes.append_small_files(lakes.make_table(s3_lake.catalog, s3_lake.name("events")), 1)
    with proxies.lossy_proxy(s3_lake.settings.uri or "") as proxy:
        catalog = connect.connect(s3_lake.settings.model_copy(update={"uri": proxy.uri}))
        table = load_tables.load_table(catalog, s3_lake.name("events"))
        catalog.close()
    with pytest.raises(errors.CommitError, match="could not be reached") as caught:
        mark(table, "7")
    assert not isinstance(caught.value, errors.StateUnknownError)
