"""Two workers of a service on PostgreSQL, and what happens when one is killed, stopped or restarted (R80): all work is
done, each piece once, and no row is lost."""

from __future__ import annotations

import signal
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from tests.factories import lake as lakes
from tests.factories import reader, service_houses
from tests.factories.service_houses import compact, wait_until

from iceberg_compaction.interfaces import wiring
from iceberg_compaction.model.outcome import Kind
from iceberg_compaction.model.work import WorkState
from iceberg_compaction.record.rules.work_book import WorkBook
from iceberg_compaction.record.service import leadership
from iceberg_compaction.settings import CatalogSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.factories.lake import Lake
    from tests.factories.store_servers import StoreServer

RUNS = 200


@pytest.fixture
def store_url(store_server: Callable[[str], StoreServer]) -> str:
    return store_server("postgresql").new_url()


@pytest.fixture
def lake(store_server: Callable[[str], StoreServer], tmp_path: Path) -> Iterator[Lake]:
    uri = store_server("postgresql").url.replace("postgresql://", "postgresql+psycopg2://")
    name, warehouse = f"lake{uuid.uuid4().hex[:8]}", (tmp_path / "warehouse").as_uri()
    catalog = SqlCatalog(name, uri=uri, warehouse=warehouse)
    catalog.create_namespace("db")
    yield lakes.Lake(settings=CatalogSettings(name=name, uri=uri, warehouse=warehouse), catalog=catalog, namespace="db")
    catalog.close()


@pytest.fixture
def book(store_url: str) -> Iterator[WorkBook]:
    entries = wiring.run_store(store_url).entries
    yield WorkBook(entries)
    entries.close()


def replaces(table: Any) -> int:
    """The rewrites that are part of a table."""
    return sum(snapshot.summary.operation.value == "replace" for snapshot in table.metadata.snapshots)


@pytest.fixture
def workers() -> Iterator[list[Any]]:
    started: list[Any] = []
    yield started
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            service_houses.kill(process)


def test_r80_two_replicas_do_all_that_is_due_once_though_the_leader_is_killed(
    lake: Lake, store_url: str, book: WorkBook, tmp_path: Path, workers: list[Any]
) -> None:
    tables = service_houses.small_tables(lake, RUNS, files=2)
    before = {name: reader.rows(lake.catalog.load_table(lake.name(name))) for name in tables}
    policy = tmp_path / "policy.yaml"
    policy.write_text("tables:\n  'db.*': {strategy: full, min-input-files: 2}\n")
    tenants = {"odd": {"tables": ["db.t*[13579]"]}, "even": {"tables": ["db.t*[02468]"]}}
    more = {"policy_file": str(policy), "scheduler": {"tick": "1s"}, "tenants": tenants}
    settings = service_houses.settings(lake, store_url, max_runs=3, **more)
    workers.append(service_houses.start_worker(settings, tmp_path, "one", SCHEDULER="1"))
    wait_until(lambda: leadership.leader_of(book.entries) is not None)
    workers.append(service_houses.start_worker(settings, tmp_path, "two", SCHEDULER="1"))
    wait_until(lambda: book.last_ended() >= RUNS // 4 and any(claim.worker == "one" for claim in book.claims()), 180)
    leader = leadership.leader_of(book.entries)
    assert leader is not None
    assert leader.member == "one"
    service_houses.kill(workers[0])
    wait_until(lambda: book.last_ended() >= RUNS, 300)
    works = book.list(limit=2 * RUNS)
    assert [(each.state, each.sentence) for each in works if each.outcome is not Kind.COMPACTED] == []
    assert sorted(each.request.table for each in works) == sorted(map(lake.name, tables))
    for name in tables:
        table = lake.catalog.load_table(lake.name(name))
        assert (name, replaces(table)) == (name, 1)
        assert reader.rows(table) == before[name]
    assert book.claims() == ()
    workers[1].send_signal(signal.SIGTERM)
    assert workers[1].wait(timeout=40) == 0
    assert [member.member for member in _members(book)] == ["one"]  # the dead one could not say that it went


def _members(book: WorkBook) -> Any:
    from iceberg_compaction.record.service.service_members import ServiceMembers

    return ServiceMembers(book.entries).list()


def many_groups(lake: Lake) -> Any:
    """A table whose rewrite has eight groups."""
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import LongType, NestedField

    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "value", LongType()))
    spec = PartitionSpec(PartitionField(source_id=1, field_id=1000, transform=IdentityTransform(), name="id"))
    table = lakes.make_table(lake.catalog, "db.p", schema, spec=spec)
    for _ in range(3):
        table.append(lakes.rows(table.schema().as_arrow(), 8))
    return table


@pytest.mark.parametrize("asleep", [False, True])
def test_r80_a_run_whose_worker_died_or_slept_is_gone_on_with(
    lake: Lake, store_url: str, book: WorkBook, tmp_path: Path, workers: list[Any], asleep: bool
) -> None:
    before = reader.rows(many_groups(lake))
    settings = service_houses.settings(lake, store_url)
    request = compact(lake, "p")
    book.put(request)
    beat = {"ICEBERG_COMPACTION_HEARTBEAT": "0.5s"}
    workers.append(service_houses.start_worker(settings, tmp_path, "one", SLOW="1", **beat))
    entries = book.entries
    wait_until(lambda: len(entries.scan("checkpoint")) > 3)  # some of its tasks are done
    workers[0].send_signal(signal.SIGSTOP if asleep else signal.SIGKILL)
    workers.append(service_houses.start_worker(settings, tmp_path, "two", **beat))
    (work,) = service_houses.all_done(book, [request.work_id])
    if asleep:
        workers[0].send_signal(signal.SIGCONT)
        wait_until(lambda: any(member.member == "one" and not member.doing for member in _members(book)))
    assert (work.state, work.outcome, work.attempts) == (WorkState.DONE, Kind.COMPACTED, 2)
    assert book.get(request.work_id) == work  # whoever slept could not change it
    table = lake.catalog.load_table("db.p")
    assert replaces(table) == 1
    assert table.inspect.files().num_rows == 8
    assert f"It went on with run {request.work_id}" in work.sentence
    assert reader.rows(table) == before
