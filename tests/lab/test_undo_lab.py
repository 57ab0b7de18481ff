"""An undo is killed at every step: no row is lost or revived, every file that the table names is there, a second undo
finishes the job or says that it is done, and one plain run later no file is left unexplained."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.factories import lake as lakes
from tests.factories import nursery as nurseries
from tests.factories import reader
from tests.lab import drill, meddle, points, scene

from iceberg_compaction import Compactor, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from tests.lab.drill import Bench
    from tests.lab.points import Point

RUN = "0123456789abcdef0123456789abcdef"


@pytest.fixture(scope="module")
def lab_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("undo-lab")


@pytest.fixture(scope="module")
def nursery(lab_folder: Path) -> Iterator[nurseries.Nursery]:
    with nurseries.nursery({"ICEBERG_COMPACTION_CACHE": str(lab_folder / "lake" / "cache")}) as made:
        yield made


@pytest.fixture(scope="module")
def built(lab_folder: Path, nursery: nurseries.Nursery) -> drill.Bench:
    """A table that a run has compacted, in three commits."""
    lake = lakes.file_lake(lab_folder / "lake")
    scene.build(lake.catalog, "db.t")
    lake.catalog.close()
    made = drill.Bench(
        settings=lake.settings,
        name="db.t",
        state=lab_folder / "lake" / "runs.db",
        nursery=nursery,
        model=scene.model(),
    )
    end = nursery.run(dataclasses.replace(made.job(), run_id=RUN))
    assert (end.killed, end.status) == (False, 0)
    shutil.copytree(lab_folder / "lake", lab_folder / "copy")
    return made


@pytest.fixture
def bench(built: drill.Bench, lab_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    shutil.rmtree(lab_folder / "lake")
    shutil.copytree(lab_folder / "copy", lab_folder / "lake")
    monkeypatch.setenv("ICEBERG_COMPACTION_CACHE", str(lab_folder / "lake" / "cache"))
    return dataclasses.replace(built, model=scene.model())


@pytest.mark.parametrize("point", points.ROLLING_BACK, ids=lambda point: point.name)
def test_killed_while_it_rolls_back(bench: Bench, point: Point) -> None:
    bench.kill(point, undoes=RUN)
    check_undone(bench)
    if point.only_clients:  # complete table metadata stays: it may be of another catalog entry
        with bench.table() as table:
            (left,) = scene.unexplained(table)
            assert left.endswith(".metadata.json")
            Path(left).unlink()
    bench.check_plain_run()


@pytest.mark.parametrize("point", points.RETURNING, ids=lambda point: point.name)
def test_killed_while_files_come_back(bench: Bench, point: Point) -> None:
    meddle.meddle("append", bench.settings, bench.name)
    meddle.apply("append", bench.model)
    bench.kill(point, undoes=RUN)
    check_undone(bench)
    bench.check_plain_run(doubtful=None)


def check_undone(bench: Bench) -> None:
    """All is well right after the crash, and after a second undo the files before the run are back."""
    bench.check_readable()
    check_files(bench)
    compactor = Compactor(bench.settings, engine="inline", state=bench.state)
    outcome = compactor.undo(RUN, bench.name)
    compactor.catalog.close()
    over = "undone already" in outcome.sentence or "it was rolled back" in outcome.sentence
    assert outcome.kind is Kind.UNDONE or over, outcome.sentence
    bench.check_readable()
    check_files(bench)
    with bench.table() as table:
        snapshots = table.snapshots()
        first = next(each for each in snapshots if each.summary and each.summary["compaction.run-id"] == RUN)
        parent = table.metadata.snapshot_by_id(first.parent_snapshot_id)
        assert live(table, parent) <= live(table, table.current_snapshot())


def live(table: Table, snapshot: Snapshot | None) -> set[tuple[str, int]]:
    """Paths with data sequence numbers, which decide which deletes apply."""
    assert snapshot is not None
    return {(file["file_path"], file["sequence_number"]) for file in reader.Reader().live(table, snapshot)}


def check_files(bench: Bench) -> None:
    with bench.table() as table:
        for path, _ in live(table, table.current_snapshot()):
            assert Path(path.removeprefix("file://")).is_file()
