"""Looks at the tables of a REST catalog that cannot list changes: how many loads a minute, and how soon busy tables are
seen. The catalog is a real server with real tables; the clock of the scheduler goes faster than that of the wall."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from pyiceberg.catalog.rest import RestCatalog
from tests.factories import servers

from bench import service_lakes
from iceberg_compaction.catalog import load_tables
from iceberg_compaction.interfaces.service import service_house
from iceberg_compaction.interfaces.service.scheduling.scheduler_loop import SchedulerLoop
from iceberg_compaction.interfaces.service.service_settings import ServedCatalog, ServiceSettings

TABLES, BUSY = 2000, 20
TICK_MS, MINUTE_MS = 10_000, 60_000
MINUTES = 15  # that are measured, after all tables were seen once
LOADS, SEEN_S = 100, 120


def bars(quick: bool) -> list[dict[str, Any]]:
    count, busy = (TABLES // 10, BUSY // 10) if quick else (TABLES, BUSY)
    with tempfile.TemporaryDirectory() as name, servers.seaweedfs() as server:
        catalog = RestCatalog("lake", uri=server.rest_uri, warehouse=server.warehouse, **server.rest_properties)
        catalog.create_namespace("bench")
        for number in range(count):
            catalog.create_table(f"bench.t{number}", service_lakes.ROWS.schema)
        served = ServedCatalog(
            name="lake", uri=server.rest_uri, warehouse=server.warehouse, properties=server.rest_properties
        )
        chosen = ServiceSettings(store=str(Path(name) / "runs.db"), catalogs={"lake": served})
        loop = SchedulerLoop(house=service_house.build(chosen), member="bench", patience_s=600)
        loads, waits = _measure(loop, catalog, busy)
        loop.stop()
        catalog.close()
    title = f"REST catalog, {count:,} tables, {busy} busy"
    return [
        service_lakes.bar(f"{title}: loads in a minute at most", loads, LOADS),
        service_lakes.bar(f"{title}: a change is seen after at most, s", max(waits), SEEN_S),
        service_lakes.bar(f"{title}: a change is seen after, mean s", sum(waits) / len(waits), SEEN_S),
    ]


def _measure(loop: SchedulerLoop, catalog: RestCatalog, busy: int) -> tuple[int, list[float]]:
    """The most loads in a minute, counted where tables are loaded, and the waits of changes in seconds."""
    loaded: list[int] = []
    load_table = load_tables.load_table
    now = service_lakes.now_ms()

    def counted(*given: Any) -> Any:
        loaded.append(now)
        return load_table(*given)

    load_tables.load_table = counted
    try:
        written: dict[str, tuple[int, str]] = {}
        waits: list[float] = []
        begun: int | None = None
        while begun is None or now < begun + MINUTES * MINUTE_MS:
            if now % MINUTE_MS < TICK_MS:
                _write(catalog, busy, written, now)
            loop.tick(now)
            watches = loop._catalogs["lake"].watches
            for table, (at_ms, pointer) in list(written.items()):
                if watches[table].pointer == pointer:
                    waits += [(now - at_ms) / 1000] if begun is not None and at_ms >= begun else []
                    del written[table]
            if begun is None and all(watch.seen_ms for watch in watches.values()):
                begun = now + 5 * MINUTE_MS
            now += TICK_MS
    finally:
        load_tables.load_table = load_table
    most = max(sum(moment <= each < moment + MINUTE_MS for each in loaded) for moment in sorted(set(loaded)))
    waits += [(now - at_ms) / 1000 for at_ms, _ in written.values()]  # those that were not seen by the end
    return most, waits


def _write(catalog: RestCatalog, busy: int, written: dict[str, tuple[int, str]], now_ms: int) -> None:
    """Change the busy tables whose last change was seen."""
    for number in range(busy):
        name = f"bench.t{number}"
        if name not in written:
            table = catalog.load_table(name)
            with table.transaction() as change:
                change.set_properties(touched=str(now_ms))
            written[name] = (now_ms, catalog.load_table(name).metadata_location)
