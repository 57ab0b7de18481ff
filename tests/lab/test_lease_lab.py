"""Two processes start to compact the same table at the same moment, again and again, on each kind of run store: one of
them works, and the other one leaves the table to it or finds it healthy."""

from __future__ import annotations

import os
from concurrent import futures
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.factories import lake as lakes
from tests.factories import nursery as nurseries
from tests.factories import stores
from tests.lab import scene

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROUNDS = {stores.SqliteDatabase: 50, stores.ServerPlace: 20}  # on servers 50, too, if ICEBERG_COMPACTION_EXPLORE is set


@pytest.fixture(scope="module")
def nurseries_of_two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[nurseries.Nursery]]:
    with ExitStack() as stack:
        environments = [{"ICEBERG_COMPACTION_CACHE": str(tmp_path_factory.mktemp("cache"))} for _ in range(2)]
        yield [stack.enter_context(nurseries.nursery(environment)) for environment in environments]


def url_of(place: stores.Place) -> str:
    if isinstance(place, stores.SqliteDatabase):
        return str(place.path)
    assert isinstance(place, stores.ServerPlace)
    return place.url


@pytest.mark.server
def test_of_two_runs_that_start_at_the_same_moment_one_works(
    every_place: stores.Place, tmp_path: Path, nurseries_of_two: list[nurseries.Nursery]
) -> None:
    if not every_place.outlives_processes:
        return  # a store in memory has one process
    lake = lakes.file_lake(tmp_path)
    table = lakes.make_table(lake.catalog, "db.t", pa.schema([pa.field("id", pa.int64())]), properties=scene.IMPATIENT)
    job = nurseries.Job(
        settings=lake.settings.model_dump_json(),
        table="db.t",
        state=url_of(every_place),
        options={"min-input-files": 2},
        lists_calls=True,
    )
    ids, rounds = 0, 50 if "ICEBERG_COMPACTION_EXPLORE" in os.environ else ROUNDS[type(every_place)]
    with futures.ThreadPoolExecutor(2) as threads:
        for number in range(rounds):
            for _ in range(2):
                table.append(pa.table({"id": pa.array([ids], pa.int64())}))
                ids += 1
            before = set(scene.run_snapshots(table))
            ends = list(threads.map(lambda nursery: nursery.run(job), nurseries_of_two))
            assert [end.status for end in ends] == [0, 0]
            table.refresh()
            workers = set(scene.run_snapshots(table)) - before
            tasks = sorted(end.calls.get("engine.task", 0) for end in ends)
            assert (len(workers), tasks) == (1, [0, 1]), f"round {number}"
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(ids))
    lakes.close(lake)
