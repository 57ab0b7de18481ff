"""The process is killed at every named point and at random times. Whatever the moment, no row is lost or revived, the
table can be read, and one plain run later everything is compacted and no file is left unexplained."""

from __future__ import annotations

import dataclasses
import random
import shutil
import uuid
from typing import TYPE_CHECKING

import pytest
from tests.crash import child, meddle, points, scene
from tests.factories import lake as lakes
from tests.factories import reader, storage

from iceberg_compaction import Compactor, Kind

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator
    from pathlib import Path

    from pyiceberg.table import Table
    from tests.crash.points import Point
    from tests.factories.reader import Row

    from iceberg_compaction import Outcome
    from iceberg_compaction.settings import CatalogSettings

SEED = 20_261
RANDOM_TIMES = 6


@dataclasses.dataclass(slots=True, kw_only=True)
class Bench:
    """A table to die on, and what is known about it."""

    settings: CatalogSettings
    name: str
    state: Path
    nursery: child.Nursery
    model: Counter[Row]

    def kill(self, point: Point) -> None:
        """A run that dies at the point."""
        job = dataclasses.replace(self.job(), target=point.target, when=point.when, nth=point.nth, meddle=point.meddle)
        end = self.nursery.run(job)
        assert end.killed, f"the run got past the point: {point.name}"
        meddle.apply(point.meddle, self.model)

    def job(self) -> child.Job:
        return child.Job(
            settings=self.settings.model_dump_json(),
            table=self.name,
            state=str(self.state),
            options=scene.OPTIONS,
        )

    def check_readable(self) -> None:
        """No row is lost or revived, right after the crash."""
        with self.table() as table:
            assert reader.rows(table) == self.model

    def check_plain_run(self) -> Outcome:
        """A plain run succeeds, and nothing is left to do or to remove."""
        compactor = Compactor(self.settings, "small-files", options=scene.OPTIONS, engine="inline", state=self.state)
        outcome = compactor.compact_table(self.name)
        compactor.catalog.close()
        assert outcome.kind in (Kind.COMPACTED, Kind.HEALTHY), outcome.sentence
        with self.table() as table:
            assert reader.rows(table) == self.model
            files = reader.Reader().live(table, table.current_snapshot())
            assert sorted(file["partition"] for file in files) == [(0,), (1,), (2,)], outcome.sentence
            # Without equality deletes PyIceberg can read it, too.
            assert storage.row_multiset(table.scan().to_arrow()) == as_read(self.model)
            assert scene.unexplained(table) == set(), outcome.sentence
        return outcome

    def table(self) -> _Loaded:
        return _Loaded(self.settings, self.name)


class _Loaded:
    """The table as the catalog has it now, by a connection of its own."""

    def __init__(self, settings: CatalogSettings, name: str) -> None:
        self._settings, self._name = settings, name

    def __enter__(self) -> Table:
        from iceberg_compaction.catalog import connect

        self._catalog = connect.connect(self._settings)
        return self._catalog.load_table(self._name)

    def __exit__(self, *stop: object) -> None:
        self._catalog.close()


def as_read(model: Counter[Row]) -> Counter[str]:
    names = scene.ROWS.names
    return type(storage.row_multiset(scene.rows(0, 0, 0)))(
        {repr(dict(zip(names, row, strict=True))): count for row, count in model.items()}
    )


@pytest.fixture(scope="module")
def lab_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("crash-lab")


@pytest.fixture(scope="module")
def nursery(lab_folder: Path) -> Iterator[child.Nursery]:
    with child.nursery({"ICEBERG_COMPACTION_CACHE": str(lab_folder / "lake" / "cache")}) as made:
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
def bench(built: lakes.Lake, lab_folder: Path, nursery: child.Nursery, monkeypatch: pytest.MonkeyPatch) -> Bench:
    shutil.rmtree(lab_folder / "lake")
    shutil.copytree(lab_folder / "copy", lab_folder / "lake")
    monkeypatch.setenv("ICEBERG_COMPACTION_CACHE", str(lab_folder / "lake" / "cache"))
    return Bench(
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
    bench.check_plain_run()


@pytest.mark.parametrize("point", points.SETTLING, ids=lambda point: point.name)
def test_killed_while_it_tidies_up_after_another(bench: Bench, point: Point) -> None:
    bench.kill(points.BY_NAME["last task ends"])
    bench.kill(point)
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
    share = random.Random(SEED + turn).random()
    bench.nursery.run(dataclasses.replace(bench.job(), seconds=max(0.02, share * 0.6)))
    bench.check_readable()
    bench.check_plain_run()


def test_a_run_that_nobody_kills_gets_to_its_end(bench: Bench) -> None:
    end = bench.nursery.run(bench.job())
    assert (end.killed, end.status) == (False, 0)
    assert bench.check_plain_run().kind is Kind.HEALTHY


@pytest.mark.server
@pytest.mark.parametrize("point", points.REST, ids=lambda point: point.name)
def test_killed_with_a_rest_catalog(s3_lake: lakes.Lake, nursery: child.Nursery, tmp_path: Path, point: Point) -> None:
    name = s3_lake.name(f"t{uuid.uuid4().hex[:8]}")
    scene.build(s3_lake.catalog, name)
    bench = Bench(
        settings=s3_lake.settings, name=name, state=tmp_path / "runs.db", nursery=nursery, model=scene.model()
    )
    bench.kill(point)
    bench.check_readable()
    bench.check_plain_run()
