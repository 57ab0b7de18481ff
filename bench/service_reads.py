"""Reads of a service: 64 clients ask for the fleet, tables and runs, with 10,000 tables and 100,000 runs in an SQLite
store. The service is a process of its own; so are the clients, on the same two cores."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iceberg_compaction.interfaces import wiring
from iceberg_compaction.model import outcome
from iceberg_compaction.model.run_figures import HealthEntry, StageTime, TableFigures
from iceberg_compaction.model.run_record import RunRecord
from iceberg_compaction.record import health_log
from iceberg_compaction.record.rules import run_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iceberg_compaction.record.store import RunStore

CLIENTS = 64
SECONDS = 10.0
TENANTS = 20
_AT_ONCE = 12  # runs of one change


def bars(quick: bool) -> list[dict[str, Any]]:
    """Requests a second, and the slowest of a hundred."""
    tables, runs = (1000, 5000) if quick else (10_000, 100_000)
    with tempfile.TemporaryDirectory(prefix="bench-service-") as folder:
        store = Path(folder, "runs.db")
        _fill(wiring.run_store(store), tables, runs)
        with _serving(store) as port:
            seconds, times = asyncio.run(_load(port, tables, 3.0 if quick else SECONDS))
    times.sort()
    rate, slowest = len(times) / seconds, times[int(len(times) * 0.99)] * 1000
    return [
        {
            "name": f"reads: {CLIENTS} clients, {tables:,} tables, {runs:,} runs (requests/s)",
            "value": round(rate, 1),
            "reach": ">= 300",
            "ok": rate >= 300,
        },
        {
            "name": "reads: the slowest of a hundred (ms)",
            "value": round(slowest, 1),
            "reach": "<= 250",
            "ok": slowest <= 250,
        },
    ]


def _table(number: int) -> str:
    return f"tenant{number % TENANTS}.table{number}"


def _fill(store: RunStore, tables: int, runs: int) -> None:
    now = wiring.now_ms()
    chance = random.Random(1)
    looks = [
        HealthEntry(
            at_ms=now - number,
            catalog="bench",
            table=_table(number),
            figures=TableFigures(
                snapshot_id=number,
                data_files=chance.randrange(1, 10_000),
                small_files=chance.randrange(1, 1000),
                bytes=chance.randrange(1 << 40),
                score=chance.randrange(101),
                sick=chance.random() < 0.3,
            ),
        )
        for number in range(tables)
    ]
    health_log.HealthLog(entries=store.entries).save(looks)
    values: dict[str, str | None] = {}
    for number in range(runs):
        record = _record(number, tables, now - number * 20_000)
        values |= run_rows.history_entries(record.run_id, run_rows.history_row(record))
        if number % _AT_ONCE == _AT_ONCE - 1 or number == runs - 1:
            store.entries.change(values)
            values = {}


def _record(number: int, tables: int, started_ms: int) -> RunRecord:
    table, run_id = _table(number % tables), f"{number:032x}"
    end = outcome.Compacted(
        table=table,
        sentence="40 files became 1.",
        run_id=run_id,
        snapshot_id=number + 1,
        files_removed=40,
        files_added=1,
        cost=0.01,
    )
    stages = tuple(StageTime(stage=stage, seconds=1.0) for stage in ("planning", "rewriting", "committing"))
    return RunRecord(
        run_id=run_id,
        table=table,
        version="1",
        started_ms=started_ms,
        finished_ms=started_ms + 5000,
        outcome=end,
        stages=stages,
    )


@contextlib.contextmanager
def _serving(store: Path) -> Iterator[int]:
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        port = int(own.getsockname()[1])
    settings = store.parent / "service.yaml"
    tenants = "".join(f"  tenant{number}: {{tables: [tenant{number}]}}\n" for number in range(TENANTS))
    settings.write_text(
        f"store: {store}\nauth: none\nport: {port}\nhost: 127.0.0.1\nrole: api\n"
        "limits: {requests_per_minute: 10000000}\n"
        f"catalogs: {{lake: {{uri: 'sqlite:///{store.parent}/catalog.db'}}}}\ntenants:\n{tenants}"
    )
    command = [sys.executable, "-m", "iceberg_compaction", "serve", "--settings", str(settings)]
    process = subprocess.Popen(command, env=dict(os.environ), stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5).close()
                break
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait(timeout=30)


async def _load(port: int, tables: int, seconds: float) -> tuple[float, list[float]]:
    await _client(port, _paths(0, tables), 2.0)  # the service has read the store once
    began = time.monotonic()
    each = await asyncio.gather(*(_client(port, _paths(number, tables), seconds) for number in range(CLIENTS)))
    return time.monotonic() - began, list(itertools.chain(*each))


def _paths(seed: int, tables: int) -> Iterator[str]:
    """Fleet, ranking, tables, one table, runs of all and of one table, one run."""
    chance = random.Random(seed)
    while True:
        number = chance.randrange(tables)
        yield "/api/v1/fleet"
        yield f"/api/v1/tables/{_table(number)}"
        yield "/api/v1/runs?limit=20"
        yield f"/api/v1/runs?table={_table(number)}&limit=20"
        yield "/api/v1/fleet/ranking?limit=20"
        yield f"/api/v1/runs/{number:032x}"
        yield "/api/v1/tables?limit=20"


async def _client(port: int, paths: Iterator[str], seconds: float) -> list[float]:
    """One connection that asks again as soon as it has an answer; the seconds of each."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        writer.write(f"GET {next(paths)} HTTP/1.1\r\nHost: bench\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head.split(b"\r\n", 1)[0]:
            raise AssertionError(head.decode())
        lines = head.lower().split(b"\r\n")
        length = next(int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length"))
        await reader.readexactly(length)
        times.append(time.monotonic() - began)
    writer.close()
    return times
