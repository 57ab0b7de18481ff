"""Houses of a service over a lake of a test, and workers in processes of their own that can be killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.factories import lake as lakes

from iceberg_compaction.interfaces.service import service_house
from iceberg_compaction.interfaces.service.service_settings import ServedCatalog, ServiceSettings
from iceberg_compaction.interfaces.service.work.worker_loop import WorkerLoop
from iceberg_compaction.model.work import Work, WorkRequest, WorkState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.factories.lake import Lake

    from iceberg_compaction.interfaces.service.service_house import ServiceHouse
    from iceberg_compaction.record.rules.work_book import WorkBook

ROOT = Path(__file__).resolve().parents[2]


def settings(lake: Lake, store: str, **more: Any) -> ServiceSettings:
    """The settings of a service with one catalog, `lake`."""
    served = ServedCatalog(**{**lake.settings.model_dump(), "engine": "inline", "max_runs": 100})
    given = {"store": store, "catalogs": {"lake": served}, "takeover": 2.0, "max_runs": 2, **more}
    return ServiceSettings.model_validate(given)


def make_house(lake: Lake, store: str, **more: Any) -> ServiceHouse:
    return service_house.build(settings(lake, store, **more))


def compact(lake: Lake, table: str, **more: Any) -> WorkRequest:
    """A request to rewrite all files of a table."""
    facts = {"work_id": uuid.uuid4().hex, "catalog": "lake", "table": lake.name(table), "requested_ms": 1000}
    how = {"strategy": "full", "options": {"min-input-files": 2}} if "kind" not in more else {}
    return WorkRequest(**{**facts, **how, **more})


@contextlib.contextmanager
def working(house: ServiceHouse, **more: Any) -> Iterator[WorkerLoop]:
    """A worker in threads of this process."""
    loop = WorkerLoop(house=house, member=uuid.uuid4().hex, **{"poll_s": 0.05, **more})
    loop.start()
    try:
        yield loop
    finally:
        loop.stop(10)


def wait_until(condition: Callable[[], Any], seconds: float = 60) -> Any:
    """Wait for something to be true."""
    end = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < end, f"waited {seconds} seconds in vain"
        time.sleep(0.05)
    return answer


def wait_for(book: WorkBook, work_id: str, seconds: float = 60) -> Work:
    """The work when it has ended."""

    def ended() -> Work | None:
        work = book.get(work_id)
        return work if work is not None and not work.state.is_open else None

    work: Work = wait_until(ended, seconds)
    return work


def all_done(book: WorkBook, work_ids: Sequence[str], seconds: float = 120) -> list[Work]:
    """All of this work, which must have ended well."""
    works = [wait_for(book, work_id, seconds) for work_id in work_ids]
    assert [(each.state, each.sentence) for each in works if each.state is not WorkState.DONE] == []
    return works


def start_worker(settings: ServiceSettings, folder: Path, name: str, **more: str) -> subprocess.Popen[bytes]:
    """A worker in a process of its own: `python -m tests.factories.worker_process`."""
    file = folder / f"{name}.json"
    file.write_text(settings.model_dump_json())
    environ = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", **more}
    command = [sys.executable, "-m", "tests.factories.worker_process", str(file), name]
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(command, env=environ, stdout=log, stderr=log)


def kill(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=30)


def small_tables(lake: Lake, count: int, files: int = 3) -> list[str]:
    """Tables that need compaction."""
    names = [f"t{number}" for number in range(count)]
    for name in names:
        lakes.append_small_files(lakes.make_table(lake.catalog, lake.name(name)), files)
    return names


def partitioned(lake: Lake) -> Any:
    """A table whose rewrite has several groups."""
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.transforms import IdentityTransform

    table = lakes.make_table(lake.catalog, "db.p")
    spec = PartitionSpec(PartitionField(source_id=1, field_id=1000, transform=IdentityTransform(), name="id"))
    lake.catalog.drop_table("db.p")
    table = lakes.make_table(lake.catalog, "db.p", table.schema(), spec=spec)
    for _ in range(3):
        table.append(lakes.rows(table.schema().as_arrow(), 4))
    return table
