"""A tick of the scheduler over a SQL catalog with very many tables, of which a few have changed."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from bench import service_lakes
from iceberg_compaction.interfaces.service import service_house
from iceberg_compaction.interfaces.service.scheduling.scheduler_loop import SchedulerLoop

TABLES, CHANGED = 10_000, 100


def bars(quick: bool) -> list[dict[str, Any]]:
    count, changed = (TABLES // 10, CHANGED // 10) if quick else (TABLES, CHANGED)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        catalog = service_lakes.make(folder, count, changed)
        chosen = service_lakes.settings(folder, str(folder / "runs.db"))
        now = service_lakes.now_ms()
        service_lakes.seed_watches(catalog, chosen, now)
        loop = SchedulerLoop(house=service_house.build(chosen), member="bench", patience_s=600)
        first = _timed(loop, now)
        quiet = _timed(loop, now + 10_000)
        for number in range(changed):
            catalog.load_table(f"db.t{number}").append(service_lakes.ROWS)
        busy, report = _timed_report(loop, now + 120_000)
        turn = report.turns["lake"]
        assert (turn.changed, turn.looks + turn.left) == (changed, changed), turn
        ticks, whole = 1, busy
        while report.left:
            seconds, report = _timed_report(loop, now + 120_000 + ticks * 1000)
            ticks, whole = ticks + 1, whole + seconds
        loop.stop()
        catalog.close()
    title = f"{count:,} tables of a SQL catalog"
    return [
        service_lakes.bar(f"{title}: the first tick of a new leader, s", first, 5),
        service_lakes.bar(f"{title}: a tick, none changed, s", quiet, 0.5),
        service_lakes.bar(f"{title}: a tick, {changed} changed, s", busy, 2),
        service_lakes.bar(f"{title}: all {changed} looked at, in {ticks} ticks, s", whole, 10),
    ]


def _timed(loop: SchedulerLoop, now_ms: int) -> float:
    return _timed_report(loop, now_ms)[0]


def _timed_report(loop: SchedulerLoop, now_ms: int) -> tuple[float, Any]:
    began = time.perf_counter()
    report = loop.tick(now_ms)
    return time.perf_counter() - began, report
