"""The process is killed at every named point, and the run is resumed: no row is lost or revived, no file is left
unexplained, and no input of a task that was done is read again (R63). Small runs are killed at random points while
storage and catalog fail, and are resumed.

`make lab` does 100 small runs; ICEBERG_COMPACTION_EXPLORE, as `make explore` sets it, times as many."""

from __future__ import annotations

import dataclasses
import os
import random
import shutil
import uuid
from typing import TYPE_CHECKING

import pytest
from tests.factories import counting, reader, storage
from tests.factories import lake as lakes
from tests.factories import nursery as nurseries
from tests.lab import drill, points, scene

from iceberg_compaction import Compactor, Kind, errors
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.record.checkpoint import checkpoints

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.lab.drill import Bench
    from tests.lab.points import Point

SEED = 20_262
SMALL_RUNS = 100 * max(1, int(os.environ.get("ICEBERG_COMPACTION_EXPLORE", "1")))
MOST_TRIES = 3
# Of calls that do not depend on the files, which have a FileIO of their own in bad weather.
_MOMENTS = [
    point.moment for point in [*points.REWRITING, *points.COMMITTING] if not point.moment.call.startswith("io.")
]
# Before these a run has nothing to resume.
_DONE_SOMETHING = [*points.REWRITING, *points.COMMITTING, *points.CONTENDED]


@pytest.fixture(scope="module")
def lab_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("resume-lab")


@pytest.fixture(scope="module")
def nursery(lab_folder: Path) -> Iterator[nurseries.Nursery]:
    with nurseries.nursery({"ICEBERG_COMPACTION_CACHE": str(lab_folder / "lake" / "cache")}) as made:
        yield made


@pytest.fixture(scope="module")
def built(lab_folder: Path) -> lakes.Lake:
    lake = lakes.file_lake(lab_folder / "lake")
    scene.build(lake.catalog, "db.t")
    lake.catalog.close()
    shutil.copytree(lab_folder / "lake", lab_folder / "copy")
    return lake


def _put_back(built: lakes.Lake, lab_folder: Path, nursery: nurseries.Nursery) -> Bench:
    shutil.rmtree(lab_folder / "lake")
    shutil.copytree(lab_folder / "copy", lab_folder / "lake")
    state = lab_folder / "lake" / "runs.db"
    return drill.Bench(settings=built.settings, name="db.t", state=state, nursery=nursery, model=scene.model())


@pytest.fixture
def bench(built: lakes.Lake, lab_folder: Path, nursery: nurseries.Nursery, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setenv("ICEBERG_COMPACTION_CACHE", str(lab_folder / "lake" / "cache"))
    return _put_back(built, lab_folder, nursery)


def resume(bench: Bench, run_id: str) -> Kind | str:
    """How it ended, or why there was nothing to resume. Inputs of tasks that were done must not be read."""
    kept = checkpoints.Checkpoints(wiring.run_store(bench.state).entries)
    stored = [result for held in kept.heads() for result in kept.content(held.head).results]
    with bench.table() as table:
        known = storage.referenced_data_files(table)
    counted = {**bench.settings.properties, "py-io-impl": counting.FILE_IO}
    settings = bench.settings.model_copy(update={"properties": counted})
    compactor = Compactor(settings, engine="inline", state=bench.state)
    counting.opened.clear()
    try:
        outcome = compactor.resume(run_id)
    except errors.ConfigError as error:
        return str(error)
    finally:
        compactor.catalog.close()
    with bench.table() as table:
        for each in stored:
            used = {file.file_path.removeprefix("file://") for file in each.result.staged}
            if used and used <= storage.referenced_data_files(table) - known:
                assert not counting.opened.keys() & set(each.file_paths), outcome.sentence
    return outcome.kind


@pytest.mark.parametrize("point", _DONE_SOMETHING, ids=lambda point: point.name)
def test_killed_at_any_point_and_resumed(bench: Bench, point: Point) -> None:
    dead = uuid.uuid4().hex
    bench.kill(point, run_id=dead)
    end = resume(bench, dead)
    if isinstance(end, Kind):
        assert end in (Kind.COMPACTED, Kind.HEALTHY, Kind.CONFLICT), end
    else:
        assert "nothing" in end.lower() or "no work" in end, end
    bench.check_readable()
    bench.check_plain_run(doubtful=None if point.doubtful else False)


@pytest.mark.parametrize("turn", range(4))
def test_killed_twice_and_resumed(bench: Bench, turn: int) -> None:
    dead = uuid.uuid4().hex
    bench.kill(points.BY_NAME["the first results are in the checkpoint"], run_id=dead)
    bench.kill_after(random.Random(SEED + turn).random() * 0.6)
    resume(bench, dead)
    bench.check_readable()
    bench.check_plain_run(doubtful=None)


def test_small_runs_in_bad_weather_are_killed_and_resumed(
    built: lakes.Lake, lab_folder: Path, nursery: nurseries.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a thousand, 999 end compacted or healthy."""
    monkeypatch.setenv("ICEBERG_COMPACTION_CACHE", str(lab_folder / "lake" / "cache"))
    dice = random.Random(SEED)
    well = 0
    for _ in range(SMALL_RUNS):
        bench = _put_back(built, lab_folder, nursery)
        well += _ends_well(bench, dice)
        with bench.table() as table:
            assert reader.rows(table) == bench.model
    assert well >= SMALL_RUNS - SMALL_RUNS // 1000


def _ends_well(bench: Bench, dice: random.Random) -> bool:
    """Kill a run at a random point, and resume it; where there is nothing to resume, the next run does the work."""
    dead = uuid.uuid4().hex
    how = {"settings": bench.settings.model_dump_json(), "table": bench.name, "state": str(bench.state)}
    assert bench.nursery is not None
    moment = dataclasses.asdict(dice.choice(_MOMENTS))
    weather = dice.randint(1, 10**9)
    first = nurseries.Job(**how, options=scene.OPTIONS, run_id=dead, weather=weather, **moment)  # type: ignore[arg-type]
    if bench.nursery.run(first).status == 0:
        return True
    for number in range(MOST_TRIES):
        goes_on = dead if number == 0 else ""
        job = nurseries.Job(**how, options=scene.OPTIONS, goes_on=goes_on, weather=dice.randint(1, 10**9))  # type: ignore[arg-type]
        if bench.nursery.run(job).status == 0:
            return True
    return False
