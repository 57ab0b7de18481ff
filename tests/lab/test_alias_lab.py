"""One table under many names: whatever becomes of its catalog entries, and wherever a run on one of them dies, runs
under any name remove nothing that any entry refers to (R48, R49). `python -m tests.lab.test_alias_lab 600` lives
random lives for so many seconds, and prints what led to one that goes wrong."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.factories import nursery as nurseries
from tests.factories import ports
from tests.lab import aliases, points
from tests.lab.aliases import HOUR, Entry, Life, World

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab.points import Point

SEED = 20_264
LIVES, STEPS = 4, 12
A, B, C = (Entry(lake=0, name=name) for name in aliases.NAMES)
ELSEWHERE = Entry(lake=1, name="db.a")
BY_NAME = {point.name: point for point in aliases.DEATHS}
STATES = [
    BY_NAME[name]
    for name in (
        "first task ends",
        "before the journal has the snapshot",
        "the journal has the snapshot",
        "table metadata is written and not in the journal",
        "table metadata is written and not swapped in",
        "first snapshot has landed",
        "before the run leaves the journal",
    )
]
PUBLISHED = [BY_NAME["first snapshot has landed"], BY_NAME["second snapshot has landed"]]
SECOND_ENTRY = ports.Moment(call="store.begin", when=ports.AFTER, nth=2)
LATER = {"host": "other", "late_ms": 1000 * HOUR}


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[nurseries.Nursery]:
    with nurseries.nursery({"ICEBERG_COMPACTION_CACHE": str(tmp_path_factory.mktemp("cache"))}) as made:
        yield made


@pytest.fixture
def world(tmp_path: Path, nursery: nurseries.Nursery) -> Iterator[World]:
    made = World(tmp_path, nursery)
    yield made
    made.close()


@pytest.mark.parametrize("point", STATES, ids=lambda point: point.name)
def test_a_run_under_another_name_leaves_alone_what_a_dead_one_wrote(world: World, point: Point) -> None:
    """In the same catalog, and in another one."""
    for alias in (B, ELSEWHERE):
        world.register(alias, world.load(A).metadata_location)
    assert world.run(A, point=point).killed
    left = files(world)
    for alias in (B, ELSEWHERE):
        world.append(alias, 3)
        assert world.run(alias, **LATER).status == 0
    assert left <= files(world)
    assert world.run(A, **LATER).status == 0
    world.check_readable()


@pytest.mark.parametrize("point", PUBLISHED, ids=lambda point: point.name)
@pytest.mark.parametrize(
    "change",
    [
        "put back",
        "expired",
        "rolled back and expired",
        "swapped",
        "renamed",
        "cloned and expired",
        "cloned, put back and cleaned",
    ],
)
def test_what_was_published_stays_when_it_leaves_its_own_entry(world: World, change: str, point: Point) -> None:
    """It landed on A, and B or a clone has it; then A, or what is called A, does not know of it any more."""
    base = world.load(A).metadata_location
    assert world.run(A, point=point).killed
    if change.startswith("cloned"):
        world.clone(A, "db.clone")
    elif change == "swapped":
        world.register(B, base)
    else:
        world.register(B, world.load(A).metadata_location)
    if change.endswith(("put back", "cleaned")):
        world.register(A, base)
    elif change == "expired":
        world.expire(A)
    elif change == "swapped":
        world.swap(A, B)
    elif change == "renamed":
        world.register(C, base)
        world.rename(A, "db.kept")
        world.rename(C, "db.a")
    else:
        world.roll_back(A, 2)
        world.append(A, 2)
        world.expire(A)
    world.append(A, 6)
    if change.endswith("cleaned"):
        world.clean()
    assert world.run(A, **LATER).status == 0
    world.check_readable()


@pytest.mark.parametrize("heir", ["ends", "dies after its commit", "dies at its own work"])
def test_what_an_heir_has_published_of_a_dead_run_stays_when_it_leaves_its_own_entry(world: World, heir: str) -> None:
    """A run dies, and another one commits its files on A; B has that commit, and then A is put back (R63)."""
    base = world.load(A).metadata_location
    assert world.run(A, point=BY_NAME["before the journal has the snapshot"]).killed
    world.append(A, 4)
    if heir == "ends":
        assert world.run(A).status == 0
    else:
        point = PUBLISHED[0] if "commit" in heir else points.Point(name="", moment=SECOND_ENTRY)
        assert world.run(A, point=point).killed
    world.register(B, world.load(A).metadata_location)
    world.register(A, base)
    world.append(A, 6)
    for _ in range(2):
        assert world.run(A, **LATER).status == 0
    world.check_readable()


@pytest.mark.parametrize("point", STATES, ids=lambda point: point.name)
@pytest.mark.parametrize("change", ["none", "put back"])
def test_a_run_that_wakes_up_after_it_was_taken_for_dead_breaks_nothing(
    world: World, change: str, point: Point
) -> None:
    """It is suspended, others sweep what it staged; it must not publish that, even if all is as it was before."""
    base = world.load(A).metadata_location
    stopped = world.run(A, point=point, stops=True, host="asleep").stopped
    assert stopped
    assert world.run(A, **LATER).status == 0
    if change == "put back":
        world.register(A, base)
    assert world.resume(stopped).status == 0
    world.check_readable()


@pytest.mark.parametrize("seed", range(SEED, SEED + LIVES))
def test_nothing_that_any_entry_refers_to_is_removed_in_a_random_life(
    tmp_path: Path, nursery: nurseries.Nursery, seed: int
) -> None:
    life = Life(seed, tmp_path, nursery)
    try:
        life.live(STEPS)
    finally:
        life.close()


def files(world: World) -> set[Path]:
    """All that lies in the warehouses."""
    roots = [Path(str(lake.settings.warehouse).removeprefix("file://")) for lake in world.lakes]
    return {path for root in roots for path in root.rglob("*") if path.is_file()}


def main(seconds: float, seed: int) -> None:
    ends = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as home:
        cache = str(Path(home) / "cache")
        os.environ["ICEBERG_COMPACTION_CACHE"] = cache
        with nurseries.nursery({"ICEBERG_COMPACTION_CACHE": cache}) as nursery:
            while time.monotonic() < ends:
                folder = Path(home) / str(seed)
                life = Life(seed, folder, nursery)
                try:
                    life.live(3 * STEPS)
                except BaseException:
                    sys.stderr.write(f"seed {seed}:\n" + "\n".join(life.world.log) + "\n")
                    raise
                finally:
                    life.close()
                seed += 1
    sys.stdout.write(f"All was well up to seed {seed}.\n")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else SEED)
