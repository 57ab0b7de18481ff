"""The process is killed while it works with a catalog on a server and files in an object store. There the server
writes table metadata, every request may be the last one, and a file that is not closed was never there."""

from __future__ import annotations

import dataclasses
import random
import uuid
from typing import TYPE_CHECKING

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from tests.factories import nursery as nurseries
from tests.factories import storage
from tests.lab import drill, points, scene

from iceberg_compaction import CatalogSettings, Compactor, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.factories.lake import Lake
    from tests.factories.servers import S3Server
    from tests.lab.drill import Bench
    from tests.lab.points import Point

pytestmark = pytest.mark.server

SEED = 20_262
RANDOM_TIMES = 3


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[nurseries.Nursery]:
    with nurseries.nursery({"ICEBERG_COMPACTION_CACHE": str(tmp_path_factory.mktemp("cache"))}) as made:
        yield made


@pytest.fixture
def bench(s3_lake: Lake, nursery: nurseries.Nursery, tmp_path: Path) -> Bench:
    name = s3_lake.name(f"t{uuid.uuid4().hex[:8]}")
    scene.build(s3_lake.catalog, name)
    return drill.Bench(
        settings=s3_lake.settings, name=name, state=tmp_path / "runs.db", nursery=nursery, model=scene.model()
    )


@pytest.mark.parametrize("point", points.REST, ids=lambda point: point.name)
def test_killed_at_any_point_a_plain_run_finishes_the_job(bench: Bench, point: Point) -> None:
    bench.kill(point)
    bench.check_readable()
    bench.check_plain_run(doubtful=None)


@pytest.mark.parametrize("name", ["last task ends", "the journal has the snapshot", "first snapshot has landed"])
def test_a_run_in_another_catalog_leaves_alone_what_a_dead_one_wrote(
    bench: Bench, s3_server: S3Server, tmp_path: Path, name: str
) -> None:
    """The table is registered in a database, too, with its files where they are."""
    other = tmp_path / "other.db"
    made = SqlCatalog("default", uri=f"sqlite:///{other}", warehouse=s3_server.warehouse, **s3_server.s3_properties)
    made.create_namespace("db")
    with bench.table() as table:
        made.register_table("db.t", table.metadata_location)
    made.close()
    bench.kill(points.BY_NAME[name])
    with bench.table() as table:
        before = storage.files_under(table)
    settings = CatalogSettings(
        uri=f"sqlite:///{other}", warehouse=s3_server.warehouse, properties=s3_server.s3_properties
    )
    alias = dataclasses.replace(bench, settings=settings, name="db.t")
    compactor = Compactor(settings, "small-files", options=scene.OPTIONS, engine="inline", state=bench.state)
    outcome = compactor.compact_table("db.t")
    compactor.catalog.close()
    assert outcome.kind is Kind.COMPACTED
    assert f"did not finish, but worked on {bench.name} of the catalog rest {s3_server.rest_uri}" in outcome.sentence
    alias.check_readable()
    with bench.table() as table:
        assert before <= storage.files_under(table)
    bench.check_readable()
    compactor = Compactor(bench.settings, "small-files", options=scene.OPTIONS, engine="inline", state=bench.state)
    assert "worked on" not in compactor.compact_table(bench.name).sentence
    compactor.catalog.close()
    alias.check_readable()
    bench.check_readable()


@pytest.mark.parametrize("turn", range(RANDOM_TIMES))
def test_killed_at_random_times(bench: Bench, turn: int) -> None:
    bench.kill_after(random.Random(SEED + turn).uniform(0.1, 1.5))
    bench.check_readable()
    bench.check_plain_run(doubtful=None)
