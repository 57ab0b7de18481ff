"""An expiry is killed at every step: no row is lost or revived, every file that a snapshot of the table names is there,
and a second expiry finishes the job, after which no file is left unexplained."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.factories import lake as lakes
from tests.factories import nursery as nurseries
from tests.factories import reader
from tests.lab import drill, points, scene

from iceberg_compaction import Compactor, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab.drill import Bench
    from tests.lab.points import Point


@pytest.fixture(scope="module")
def lab_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("expire-lab")


@pytest.fixture(scope="module")
def nursery(lab_folder: Path) -> Iterator[nurseries.Nursery]:
    with nurseries.nursery({"ICEBERG_COMPACTION_CACHE": str(lab_folder / "lake" / "cache")}) as made:
        yield made


@pytest.fixture(scope="module")
def built(lab_folder: Path, nursery: nurseries.Nursery) -> drill.Bench:
    """A table that a run has compacted, in three commits, with a tag on a snapshot before that."""
    lake = lakes.file_lake(lab_folder / "lake")
    table = scene.build(lake.catalog, "db.t")
    table.manage_snapshots().create_tag(table.metadata.snapshots[0].snapshot_id, "first").commit()
    lake.catalog.close()
    made = drill.Bench(
        settings=lake.settings,
        name="db.t",
        state=lab_folder / "lake" / "runs.db",
        nursery=nursery,
        model=scene.model(),
    )
    end = nursery.run(made.job())
    assert (end.killed, end.status) == (False, 0)
    shutil.copytree(lab_folder / "lake", lab_folder / "copy")
    return made


@pytest.fixture
def bench(built: drill.Bench, lab_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    shutil.rmtree(lab_folder / "lake")
    shutil.copytree(lab_folder / "copy", lab_folder / "lake")
    monkeypatch.setenv("ICEBERG_COMPACTION_CACHE", str(lab_folder / "lake" / "cache"))
    return dataclasses.replace(built, model=scene.model())


@pytest.mark.parametrize("point", points.EXPIRING, ids=lambda point: point.name)
def test_killed_while_it_expires(bench: Bench, point: Point) -> None:
    """R70"""
    bench.kill(point, expires=True)
    bench.check_readable()
    check_files(bench)
    compactor = Compactor(bench.settings, engine="inline", state=bench.state)
    outcome = compactor.expire_snapshots(bench.name, older_than="2100-01-01", allow_recent=True)
    compactor.catalog.close()
    assert outcome.kind in (Kind.MAINTAINED, Kind.HEALTHY), outcome.sentence
    bench.check_readable()
    check_files(bench)
    with bench.table() as table:
        assert set(table.metadata.refs) == {"main", "first"}
        assert len(table.metadata.snapshots) == 2
        left = scene.unexplained(table)
        # Complete table metadata stays: it may be of another catalog entry.
        assert all(path.endswith(".metadata.json") for path in left), outcome.sentence
        assert bool(left) <= point.only_clients


def check_files(bench: Bench) -> None:
    """Every file of every snapshot is there."""
    with bench.table() as table:
        for snapshot in table.metadata.snapshots:
            for file in reader.Reader().live(table, snapshot):
                assert Path(file["file_path"].removeprefix("file://")).is_file()
