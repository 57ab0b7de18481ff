"""One look at a table by the scheduler: metadata is read only if the table has changed, and its health goes into the
run store, where triggers, people and other processes find it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from iceberg_compaction.catalog.changes import table_pointers
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.policy.sources import table_properties
from iceberg_compaction.workflow import diagnose

if TYPE_CHECKING:
    from collections.abc import Callable

    from iceberg_compaction.model.policies import Policy
    from iceberg_compaction.model.run_figures import HealthEntry
    from iceberg_compaction.model.table_schedule import TableWatch


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedLook:
    """What was seen. `health` None: the table is as it was at the last look."""

    pointer: str
    etag: str
    updated_ms: int
    properties: dict[str, str]
    health: HealthEntry | None = None


def look(
    catalog: Any, watch: TableWatch, policy_of: Callable[[str, dict[str, str]], Policy], now_ms: int
) -> WatchedLook | None:
    """Look at a table. None: it is as it was. NoSuchTableError: it is gone; CompactionError: it cannot be read."""
    table, etag = table_pointers.load_unless(catalog, watch.table, watch.etag if watch.seen_ms else "")
    if table is None:
        return None
    properties = table_properties.relevant(table.properties)
    seen = WatchedLook(
        pointer=table.metadata_location,
        etag=etag,
        updated_ms=table.metadata.last_updated_ms,
        properties=properties,
    )
    if watch.seen_ms and not watch.changed and table.metadata_location == watch.pointer:
        return seen
    policy = policy_of(watch.table, properties)
    cache = wiring.manifest_cache()
    made = diagnose.diagnose_loaded(table, watch.table, policy, diagnose.HealthLook(cache=cache, now_ms=now_ms))
    return replace(seen, health=made.entry(now_ms))
