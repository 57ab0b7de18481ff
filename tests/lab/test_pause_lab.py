"""A run is frozen past its lease (SIGSTOP), another run takes over and works, and the first one wakes up (SIGCONT).
Its late commit is refused or harmless: the table has exactly its rows, and every file that it refers to is there (R49).
On each kind of catalog that can be started here."""

from __future__ import annotations

import dataclasses
import time
import uuid
from typing import TYPE_CHECKING

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from tests.factories import lake as lakes
from tests.factories import nursery as nurseries
from tests.lab import drill, points, scene

from iceberg_compaction import CatalogSettings, Compactor, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.factories.store_servers import StoreServer
    from tests.lab.drill import Bench
    from tests.lab.points import Point

    from iceberg_compaction import Outcome

pytestmark = pytest.mark.server

HEARTBEAT = "0.2s"
PAST_THE_LEASE = 0.5
CATALOGS = ("sqlite", "postgresql", "rest")
POINTS = [
    points.BY_NAME[name]
    for name in (
        "first task begins",  # nothing is staged
        "last task ends",  # all data files are, and one group is committed
        "first manifest is about to be written",
        "before the journal has the snapshot",  # all of the commit is staged, and nothing confirmed
        "first snapshot is about to be published",  # all is confirmed; the next step is the request
        "table metadata is written and not in the journal",
        "table metadata is written and not swapped in",  # all is confirmed once more, right before the swap
        "last snapshot is about to be published",
        "first snapshot has landed and the journal does not have it",
    )
]


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[nurseries.Nursery]:
    cache = str(tmp_path_factory.mktemp("cache"))
    with nurseries.nursery({"ICEBERG_COMPACTION_CACHE": cache, "ICEBERG_COMPACTION_HEARTBEAT": HEARTBEAT}) as made:
        yield made


@pytest.fixture(params=CATALOGS)
def lake(
    request: pytest.FixtureRequest, tmp_path: Path, store_server: Callable[[str], StoreServer]
) -> Iterator[lakes.Lake]:
    if request.param == "sqlite":
        made = lakes.file_lake(tmp_path)
    elif request.param == "postgresql":
        made = postgres_lake(store_server("postgresql").url, tmp_path)
    else:
        made = request.getfixturevalue("s3_lake")
    yield made
    if request.param != "rest":
        lakes.close(made)


def postgres_lake(url: str, folder: Path) -> lakes.Lake:
    """A catalog in PostgreSQL under a name of its own, and a warehouse in a local folder."""
    name, uri = f"lake{uuid.uuid4().hex[:8]}", url.replace("postgresql://", "postgresql+psycopg2://")
    warehouse = folder / "warehouse"
    warehouse.mkdir()
    catalog = SqlCatalog(name, uri=uri, warehouse=warehouse.as_uri())
    catalog.create_namespace_if_not_exists("db")
    settings = CatalogSettings(name=name, uri=uri, warehouse=warehouse.as_uri())
    return lakes.Lake(settings=settings, catalog=catalog, namespace="db")


@pytest.fixture
def bench(lake: lakes.Lake, nursery: nurseries.Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setenv("ICEBERG_COMPACTION_HEARTBEAT", HEARTBEAT)
    name = lake.name(f"t{uuid.uuid4().hex[:8]}")
    scene.build(lake.catalog, name)
    return drill.Bench(
        settings=lake.settings, name=name, state=tmp_path / "runs.db", nursery=nursery, model=scene.model()
    )


def freeze(bench: Bench, point: Point, host: str = "asleep") -> int:
    """The number of a process, on another machine, that stands still at the point."""
    assert bench.nursery is not None
    job = dataclasses.replace(bench.job(), stops=True, host=host, **dataclasses.asdict(point.moment))
    stopped = bench.nursery.run(job).stopped
    assert stopped, f"the run got past the point: {point.name}"
    return stopped


def take_over(bench: Bench) -> Outcome:
    compactor = Compactor(bench.settings, "small-files", options=scene.OPTIONS, engine="inline", state=bench.state)
    try:
        return compactor.compact_table(bench.name)
    finally:
        compactor.catalog.close()


def snapshots_by_run(bench: Bench) -> dict[str, list[int]]:
    with bench.table() as table:
        return scene.run_snapshots(table)


@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.name)
def test_a_run_that_wakes_up_after_its_lease_has_gone_to_another_commits_nothing(bench: Bench, point: Point) -> None:
    if point.only_clients and bench.settings.uri is not None and bench.settings.uri.startswith("http"):
        pytest.skip("The server writes table metadata.")
    check_wakes_up_in_vain(bench, freeze(bench, point))


@pytest.mark.parametrize("name", ["first task begins", "first snapshot is about to be published"])
def test_a_run_that_is_stopped_on_this_machine_loses_its_lease_as_well(bench: Bench, name: str) -> None:
    check_wakes_up_in_vain(bench, freeze(bench, points.BY_NAME[name], host=""))


def check_wakes_up_in_vain(bench: Bench, stopped: int) -> None:
    time.sleep(PAST_THE_LEASE)
    outcome = take_over(bench)
    assert outcome.kind in (Kind.COMPACTED, Kind.HEALTHY), outcome.sentence
    before = snapshots_by_run(bench)
    assert outcome.run_id in before, outcome.sentence  # the other run had something to do, and did it
    assert bench.nursery is not None
    assert bench.nursery.resume(stopped).status == 0
    assert snapshots_by_run(bench) == before
    bench.check_readable()
    bench.check_plain_run(doubtful=None)
