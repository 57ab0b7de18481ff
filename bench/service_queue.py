"""Very much queued work, two workers, one of which is killed: nothing is lost and nothing done twice. The work writes
one line into a file, and says whether it did so before, as a run does by what it has committed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.factories import store_servers

from bench import service_lakes
from iceberg_compaction.interfaces.service import service_house
from iceberg_compaction.interfaces.service.service_settings import ServiceSettings
from iceberg_compaction.model.outcome import Kind
from iceberg_compaction.model.work import WorkRequest
from iceberg_compaction.record.rules.work_book import WorkBook, WorkEnd

if TYPE_CHECKING:
    from iceberg_compaction.interfaces.service.work.work_ends import WorkVerdict
    from iceberg_compaction.interfaces.service.work.work_job import WorkJob

RUNS = 1000


def bars(quick: bool) -> list[dict[str, Any]]:
    count = RUNS // 10 if quick else RUNS
    with tempfile.TemporaryDirectory() as name, store_servers.running("postgresql") as server:
        folder = Path(name)
        service_lakes.make(folder, 1, 1).close()
        more = {"takeover": 3.0, "max_runs": 8, "limits": {"queued_runs": count}}
        chosen = service_lakes.settings(folder, server.new_url(), **more)
        chosen = chosen.model_copy(
            update={"catalogs": {"lake": chosen.catalogs["lake"].model_copy(update={"max_runs": 1000})}}
        )
        file = service_lakes.save_settings(chosen, folder)
        book = WorkBook(service_house.build(chosen).store.entries, most_queued=count)
        began = time.perf_counter()
        book.put_all([_request(number) for number in range(count)])
        put_s = time.perf_counter() - began
        began = time.perf_counter()
        workers = [_start(file, folder, f"worker{number}") for number in range(2)]
        try:
            _wait(lambda: book.last_ended() >= count // 3 and any(c.worker == "worker0" for c in book.claims()))
            workers[0].send_signal(signal.SIGKILL)
            _wait(lambda: book.last_ended() >= count)
        finally:
            for worker in workers:
                worker.kill()
                worker.wait(timeout=30)
        seconds = time.perf_counter() - began
        lines = (folder / "done").read_text().split()
        left = book.counts()
        book.entries.close()
    twice, lost = len(lines) - len(set(lines)), count - len(set(lines))
    assert (left.queued, left.running) == (0, 0), left
    return [
        service_lakes.bar(f"{count:,} queued runs, two replicas, one killed: lost", lost, 0),
        service_lakes.bar(f"{count:,} queued runs, two replicas, one killed: done twice", twice, 0),
        service_lakes.bar(f"{count:,} queued runs: put into the queue, s", put_s, 10),
        service_lakes.bar(f"{count:,} queued runs: all done, s", seconds, 120),
    ]


def _request(number: int) -> WorkRequest:
    tenant = f"tenant{number % 7}"
    return WorkRequest(work_id=f"w{number}", catalog="lake", table=f"db.t{number}", tenant=tenant, requested_ms=number)


def _start(file: Path, folder: Path, name: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "bench.service_queue", str(file), str(folder / "done"), name])


def _wait(condition: Any) -> None:
    end = time.monotonic() + 300
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.05)


def main(file: str, done: str, name: str) -> None:
    """A worker that only counts."""
    from iceberg_compaction.interfaces.service.work import work_ends
    from iceberg_compaction.interfaces.service.work.worker_loop import WorkerLoop

    def count(job: WorkJob) -> WorkVerdict:
        if not (job.claimed.inherited and f"{job.request.work_id}\n" in Path(done).read_text()):
            job.begin()
            time.sleep(0.02)
            opened = os.open(done, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(opened, f"{job.request.work_id}\n".encode())
            os.close(opened)
        return work_ends.WorkVerdict(end=WorkEnd(outcome=Kind.HEALTHY))

    house = service_house.build(ServiceSettings.model_validate_json(Path(file).read_text()))
    WorkerLoop(house=house, member=name, poll_s=0.2, perform=count).start()
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main(*sys.argv[1:])
