"""Why work waits that could begin otherwise: for whoever looks at it in the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.interfaces import run_words
from iceberg_compaction.model.work import WorkState
from iceberg_compaction.record.service.table_blockers import TableBlockers

if TYPE_CHECKING:
    from iceberg_compaction.interfaces.service.service_house import ServiceHouse
    from iceberg_compaction.model.work import Work


def with_reason(house: ServiceHouse, work: Work) -> Work:
    """The work with a sentence on what it waits for, if it is more than its turn."""
    if work.state is not WorkState.QUEUED:
        return work
    words = _words(house, work)
    return work.model_copy(update={"sentence": words}) if words else work


def _words(house: ServiceHouse, work: Work) -> str:
    request = work.request
    blockers = TableBlockers(house.store.entries).list(house.clock(), request.catalog, request.table)
    if blockers:
        last = max(blockers, key=lambda each: each.until_ms)
        reason = f" ({last.reason})" if last.reason else ""
        return f"It waits: {last.by} asks for peace on the table{reason} until {run_words.moment(last.until_ms)} UTC."
    tenant = house.settings.tenants.get(request.tenant or "")
    limit = None if tenant is None else tenant.hourly_cost_limit
    if limit is not None and sum(house.spending.by_tenant().get(request.tenant, ())) >= limit:
        return f"It waits: the tenant {request.tenant} has spent its budget for an hour."
    return ""
