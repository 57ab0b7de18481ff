"""How long a lease takes to change hands: a process on another machine holds it and is killed, and a run that waits for
the lease takes it over. All is real but the name of the other machine.

`python -m bench.store --part leases`; `python -m bench.store_leases STORE SECONDS` is the process that is killed.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.model import lease, run_record
from iceberg_compaction.record import processes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iceberg_compaction.record.runs import Run

REACH = 2.0  # heartbeats
SEED = 19
HOME = run_record.TableHome(
    entry=run_record.CatalogEntry(catalog="bench", table="db.t", table_uuid="0"),
    location="file:///t",
    data_path="file:///t/data",
    metadata_path="file:///t/metadata",
)


def bars(quick: bool) -> list[dict[str, Any]]:
    """The slowest of several takeovers, in heartbeats."""
    seconds, rounds = (0.5, 6) if quick else (2.0, 12)
    chance = random.Random(SEED)
    with tempfile.TemporaryDirectory() as folder:
        state = f"{folder}/runs.db"
        times = [_take_over(state, seconds, chance.uniform(0, seconds)) / seconds for _ in range(rounds)]
    print(f"  takeover of a lease: median {statistics.median(times):.2f} heartbeats of {seconds:g} s")
    slowest = round(max(times), 3)
    name = f"takeover of a lease of a killed process, slowest of {rounds}, heartbeats"
    return [{"name": name, "value": slowest, "reach": f"<= {REACH}", "ok": slowest <= REACH}]


def _take_over(state: str, seconds: float, late: float) -> float:
    """The seconds from the end of the holder to a lease of our own."""
    command = [sys.executable, "-W", "ignore", "-m", "bench.store_leases", state, str(seconds)]
    run = _run(state, seconds)
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[1]) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"holding\n"
        until = time.monotonic() + seconds + late
        while time.monotonic() < until:
            assert not _gets_lease(run)
            time.sleep(seconds / 20)
        holder.kill()
        killed = time.monotonic()
        while not _gets_lease(run):
            time.sleep(seconds / 50)
        return time.monotonic() - killed


def _gets_lease(run: Run) -> bool:
    try:
        with _at_work(run):
            return True
    except errors.LeasedError:
        return False


@contextmanager
def _at_work(run: Run) -> Iterator[None]:
    with run.at_work(HOME, branch="main", command="bench", resources=(lease.EVERYTHING,)):
        yield


def _run(state: str, seconds: float) -> Run:
    run = wiring.new_run(store=wiring.run_store(state))
    run.heartbeat_s = seconds
    return run


def hold(state: str, seconds: float) -> None:
    """Hold the lease, on another machine, until this process is killed."""
    processes._host = lambda: "elsewhere"
    with _at_work(_run(state, seconds)):
        sys.stdout.write("holding\n")
        sys.stdout.flush()
        time.sleep(3600)


if __name__ == "__main__":
    hold(sys.argv[1], float(sys.argv[2]))
