"""What earlier runs have cost, from the run store: hourly limits count over all runs of a tenant."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from iceberg_compaction import errors

if TYPE_CHECKING:
    from iceberg_compaction.record.runs import Run

_HOUR_MS = 3_600_000
_LONGEST_MS = 24 * _HOUR_MS  # runs that began earlier are not looked for
_MOST_RUNS = 10_000
_log = logging.getLogger(__name__)


def last_hour(run: Run, tenant: str | None) -> float:
    """The dollars that runs of a tenant have spent which ended within the last hour; None: runs without a tenant. A
    store that cannot be read must not stop work, so it counts as nothing, with a warning."""
    if run.store is None:
        _log.warning("The hourly cost limit counts this run alone: there is no run store.")
        return 0.0
    now = run.clock()
    try:
        records = run.store.history(since_ms=now - _LONGEST_MS, limit=_MOST_RUNS)
    except errors.StoreError as error:
        _log.warning("The hourly cost limit counts this run alone: %s", error)
        return 0.0
    recent = [record.outcome for record in records if record.finished_ms >= now - _HOUR_MS]
    return sum(outcome.cost for outcome in recent if outcome.tenant == tenant)
