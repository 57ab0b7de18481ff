"""What a worker and a scheduler cost while nothing happens, with very many tables known: memory, and share of a
core."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil

from bench import service_lakes

TABLES = 10_000


def bars(quick: bool) -> list[dict[str, Any]]:
    count, seconds = (TABLES // 10, 20.0) if quick else (TABLES, 120.0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        catalog = service_lakes.make(folder, count, 1)
        chosen = service_lakes.settings(folder, str(folder / "runs.db"))
        service_lakes.seed_watches(catalog, chosen, service_lakes.now_ms())
        catalog.close()
        file = service_lakes.save_settings(chosen, folder)
        process = subprocess.Popen([sys.executable, "-m", "bench.service_idle", str(file)])
        try:
            time.sleep(15)  # it has started and taken the lead
            watched = psutil.Process(process.pid)
            before = watched.cpu_times()
            time.sleep(seconds)
            after, memory = watched.cpu_times(), watched.memory_info().rss / 1e6
        finally:
            process.terminate()
            process.wait(timeout=60)
    share = 100 * (after.user + after.system - before.user - before.system) / seconds
    return [
        service_lakes.bar(f"idle, {count:,} tables known: memory, MB", memory, 250),
        service_lakes.bar(f"idle, {count:,} tables known: share of a core, %", share, 2),
    ]


def main(file: str) -> None:
    """The process that is measured."""
    import signal

    from iceberg_compaction.interfaces.cli import lean_start

    lean_start.spare_pandas()
    from iceberg_compaction.interfaces.service import service_house
    from iceberg_compaction.interfaces.service.scheduling.scheduler_loop import SchedulerLoop
    from iceberg_compaction.interfaces.service.service_settings import ServiceSettings
    from iceberg_compaction.interfaces.service.work.worker_loop import WorkerLoop

    house = service_house.build(ServiceSettings.model_validate_json(Path(file).read_text()))
    worker = WorkerLoop(house=house, member="bench")
    scheduler = SchedulerLoop(house=house, member="bench")
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    worker.start()
    scheduler.start()
    over.wait()
    scheduler.stop()
    worker.stop(5)


if __name__ == "__main__":
    main(*sys.argv[1:])
