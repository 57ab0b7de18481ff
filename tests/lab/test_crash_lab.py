"""The process is killed at every named point and at random times. Whatever the moment, no row is lost or revived, the
table can be read, and one plain run later everything is compacted and no file is left unexplained; where nobody can
tell whether a commit was published once, its files stay, and that is told."""

from __future__ import annotations

import dataclasses
import random
import shutil
from typing import TYPE_CHECKING

import pytest
from tests.factories import lake as lakes
from tests.factories import nursery as nurseries
from tests.factories import reader
from tests.lab import drill, points, scene

from iceberg_compaction import Compactor, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.lab.drill import Bench
    from tests.lab.points import Point

SEED = 20_261
RANDOM_TIMES = 6
HOUR = 3_600_000


@pytest.fixture(scope="module")
def lab_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("crash-lab")


@pytest.fixture(scope="module")
def nursery(lab_folder: Path) -> Iterator[nurseries.Nursery]:
    with nurseries.nursery({"ICEBERG_COMPACTION_CACHE": str(lab_folder / "lake" / "cache")}) as made:
        yield made


@pytest.fixture(scope="module")
def built(lab_folder: Path) -> lakes.Lake:
    """The lake is built once. A copy of it is put in its place for every test, since paths in metadata are absolute."""
    lake = lakes.file_lake(lab_folder / "lake")
    table = scene.build(lake.catalog, "db.t")
    assert reader.rows(table) == scene.model()
    lake.catalog.close()
    shutil.copytree(lab_folder / "lake", lab_folder / "copy")
    return lake


@pytest.fixture
def bench(built: lakes.Lake, lab_folder: Path, nursery: nurseries.Nursery, monkeypatch: pytest.MonkeyPatch) -> Bench:
    shutil.rmtree(lab_folder / "lake")
    shutil.copytree(lab_folder / "copy", lab_folder / "lake")
    monkeypatch.setenv("ICEBERG_COMPACTION_CACHE", str(lab_folder / "lake" / "cache"))
    return drill.Bench(
        settings=built.settings,
        name="db.t",
        state=lab_folder / "lake" / "runs.db",
        nursery=nursery,
        model=scene.model(),
    )


@pytest.mark.parametrize("point", points.POINTS, ids=lambda point: point.name)
def test_killed_at_any_point_a_plain_run_finishes_the_job(bench: Bench, point: Point) -> None:
    bench.kill(point)
    bench.check_readable()
    bench.check_plain_run(doubtful=point.doubtful)


@pytest.mark.parametrize("point", points.MANIFESTS, ids=lambda point: point.name)
def test_killed_while_it_rewrites_manifests(bench: Bench, point: Point) -> None:
    bench.kill(point)
    bench.check_readable()
    bench.check_plain_run(doubtful=point.doubtful)


@pytest.mark.parametrize("point", points.DELETES, ids=lambda point: point.name)
def test_killed_while_it_replaces_delete_files(bench: Bench, point: Point) -> None:
    bench.kill(point)
    bench.check_readable()
    bench.check_plain_run(doubtful=point.doubtful)


@pytest.mark.parametrize("point", [*points.COUNTING, *points.COUNTED], ids=lambda point: point.name)
def test_killed_while_it_makes_statistics(bench: Bench, point: Point) -> None:
    """R82"""
    bench.kill(point, counts=True)
    bench.check_readable()
    bench.check_statistics()
    compactor = Compactor(bench.settings, engine="inline", state=bench.state)
    outcome = compactor.refresh_statistics(bench.name, columns="id,name")
    compactor.catalog.close()
    assert outcome.kind in (Kind.MAINTAINED, Kind.HEALTHY), outcome.sentence
    bench.check_readable()
    bench.check_statistics()
    with bench.table() as table:
        metadata = table.metadata
        head = metadata.current_snapshot_id
        made = (*metadata.statistics, *metadata.partition_statistics)
        assert [each.snapshot_id for each in made if each.snapshot_id == head] == [head, head]
        left = {path for path in scene.unexplained(table) if not path.endswith(".metadata.json")}
        assert len(left) == (2 if point in points.COUNTED else 0), outcome.sentence
        assert all("partition-stats-" in path or path.endswith(".stats") for path in left)


@pytest.mark.parametrize("point", points.RECOVERING, ids=lambda point: point.name)
def test_killed_while_it_recovers_another(bench: Bench, point: Point) -> None:
    bench.kill(points.BY_NAME["last task ends"])
    bench.kill(point)
    bench.check_readable()
    bench.check_plain_run()


@pytest.mark.parametrize("point", points.RECOVERED, ids=lambda point: point.name)
def test_killed_when_another_counts_as_recovered(bench: Bench, point: Point) -> None:
    bench.kill(points.BY_NAME["last task ends"])
    bench.kill(point, late_ms=HOUR)
    bench.check_readable()
    bench.check_plain_run()


def test_killed_again_and_again(bench: Bench) -> None:
    names = [
        "a file is closed",
        "first snapshot has landed",
        "a file has rows and no footer",
        "manifest list is written",
    ]
    for name in names:
        bench.kill(points.BY_NAME[name])
        bench.check_readable()
    assert "which did not finish, were removed" in bench.check_plain_run().sentence


@pytest.mark.parametrize("turn", range(RANDOM_TIMES))
def test_killed_at_random_times(bench: Bench, turn: int, lab_folder: Path) -> None:
    """A part of the time that a whole run took; where that is depends on the machine, the verdict does not."""
    bench.kill_after(max(0.02, random.Random(SEED + turn).random() * 0.6))
    bench.check_readable()
    bench.check_plain_run(doubtful=None)


def test_a_run_that_nobody_kills_gets_to_its_end(bench: Bench) -> None:
    end = bench.nursery.run(bench.job())
    assert (end.killed, end.status) == (False, 0)
    assert bench.check_plain_run().kind is Kind.HEALTHY


def test_each_call_that_changes_something_has_a_point(bench: Bench) -> None:
    """Reading a file changes nothing."""
    end = bench.nursery.run(dataclasses.replace(bench.job(), lists_calls=True, meddle="append"))
    assert (end.killed, end.status) == (False, 0)
    named = {point.moment.call for point in [*points.POINTS, *points.RECOVERING]}
    assert {call for call in end.calls if not call.endswith((".read", ".read-back"))} <= named
    assert end.calls.keys() >= {"store.publishing", "io.manifest-list.delete", "catalog.commit_table", "engine.task"}
