"""A worker of a service as a process, for tests that kill it. SLOW: seconds that each run waits between its rewrite and
its commit. SCHEDULER: the process has a scheduler, too."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from iceberg_compaction.interfaces.service import service_house
from iceberg_compaction.interfaces.service.scheduling.scheduler_loop import SchedulerLoop
from iceberg_compaction.interfaces.service.service_settings import ServiceSettings
from iceberg_compaction.interfaces.service.work.worker_loop import WorkerLoop

if TYPE_CHECKING:
    from iceberg_compaction.model.events import Event


def slowly(event: Event) -> None:
    """Runs take a while, so that they can be killed at work."""
    if event.kind == "task-ended":
        time.sleep(float(os.environ.get("SLOW", "0")))


def main(file: str, name: str) -> None:
    settings = ServiceSettings.model_validate_json(Path(file).read_text())
    house = service_house.build(settings)
    loop = WorkerLoop(house=house, member=name, poll_s=0.1, on_event=slowly)
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    loop.start()
    scheduler = SchedulerLoop(house=house, member=name, on_asked=loop.wake) if "SCHEDULER" in os.environ else None
    if scheduler is not None:
        scheduler.start()
    stopped.wait()
    if scheduler is not None:
        scheduler.stop()
    loop.stop(settings.grace)


if __name__ == "__main__":
    main(*sys.argv[1:])
