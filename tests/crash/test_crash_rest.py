"""The process is killed while it works with a catalog on a server and files in an object store. There the server
writes table metadata, every request may be the last one, and a file that is not closed was never there."""

from __future__ import annotations

import random
import uuid
from typing import TYPE_CHECKING

import pytest
from tests.crash import child, drill, points, scene

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.crash.drill import Bench
    from tests.crash.points import Point
    from tests.factories.lake import Lake

pytestmark = pytest.mark.server

SEED = 20_262
RANDOM_TIMES = 3


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[child.Nursery]:
    with child.nursery({"ICEBERG_COMPACTION_CACHE": str(tmp_path_factory.mktemp("cache"))}) as made:
        yield made


@pytest.fixture
def bench(s3_lake: Lake, nursery: child.Nursery, tmp_path: Path) -> Bench:
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


@pytest.mark.parametrize("turn", range(RANDOM_TIMES))
def test_killed_at_random_times(bench: Bench, turn: int) -> None:
    bench.kill_after(random.Random(SEED + turn).uniform(0.1, 1.5))
    bench.check_readable()
    bench.check_plain_run(doubtful=None)
