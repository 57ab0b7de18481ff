"""All tables together: figures, ranks, and what was spent against budgets. From the store alone."""

from __future__ import annotations

import itertools
from typing import Annotated

from fastapi import APIRouter, Query, Response

from iceberg_compaction.interfaces import usage_files
from iceberg_compaction.interfaces.service.api import fleet_view, problems, replies
from iceberg_compaction.interfaces.service.api.replies import After, Limit
from iceberg_compaction.interfaces.service.api.service_desk import Somebody
from iceberg_compaction.interfaces.service.api.strict_route import PREFIX, StrictRoute
from iceberg_compaction.model.principal import Role
from iceberg_compaction.model.service_answers import FleetSummary, ListPage, RankedLook, TenantSpending
from iceberg_compaction.model.usage_row import UsageRow
from iceberg_compaction.record.service import month_usage

router = APIRouter(prefix=PREFIX, route_class=StrictRoute, tags=["fleet"])


@router.get("/fleet", summary="All tables in figures", response_model=FleetSummary, responses=problems.documented())
def fleet(asking: Somebody) -> Response:
    """Sums over all tables that you may see, and by tenant."""
    asking.require(Role.VIEWER)
    sums = asking.desk.fleet.figures(asking.principal)
    return replies.reply(
        FleetSummary(
            at_ms=asking.desk.fleet.looks().at_ms,
            figures=fleet_view.total(list(sums.values())),
            by_tenant={tenant: each for tenant, each in sums.items() if tenant is not None},
            queue=_queue(asking),
        )
    )


@router.get(
    "/fleet/ranking",
    summary="Tables by health",
    response_model=ListPage[RankedLook],
    responses=problems.documented(),
)
def ranking(asking: Somebody, limit: Limit = 50, after: After = "") -> Response:
    """The sickest first, as they were at their last look."""
    asking.require(Role.VIEWER)
    start = replies.number(after)
    tenant_of, principal = asking.desk.house.tenant_of, asking.principal
    visible = (
        (entry, tenant)
        for entry in asking.desk.fleet.looks().by_rank
        if principal.may_see(tenant := tenant_of(entry.table))
    )
    listed = list(itertools.islice(visible, start, start + limit + 1))
    ranked = (fleet_view.ranked(start + at, *each) for at, each in enumerate(listed[:limit], start=1))
    following = replies.cursor(str(start + limit)) if len(listed) > limit else None
    return replies.reply(ListPage[RankedLook](items=tuple(ranked), next=following))


@router.get(
    "/fleet/spending",
    summary="Spending against budgets",
    response_model=ListPage[TenantSpending],
    responses=problems.documented(),
)
def spending(asking: Somebody) -> Response:
    """What runs that ended in the last hour have cost, by tenant, and the tenant's limit."""
    asking.require(Role.VIEWER)
    return replies.reply(ListPage[TenantSpending](items=tuple(asking.desk.fleet.spending(asking.principal))))


@router.get(
    "/usage",
    summary="What tenants have used in a month",
    response_model=ListPage[UsageRow],
    responses={200: {"content": {"text/csv": {"schema": {"type": "string"}}}}, **problems.documented()},
)
async def usage(
    asking: Somebody,
    month: Annotated[str | None, Query(max_length=20, description="such as 2026-11; default: this month")] = None,
    format: Annotated[str, Query(pattern="^(json|csv)$")] = "json",
) -> Response:
    """Runs, bytes, requests, compute seconds and cost, by tenant."""
    asking.require(Role.VIEWER)
    house = asking.desk.house
    request = month_usage.UsageRequest(
        month=month or month_usage.month_of(house.clock()),
        tenant_of=house.tenant_of,
        may_see=asking.principal.may_see,
    )
    rows = await asking.desk.work(lambda: month_usage.usage(house.store, request))
    if format == "csv":
        return Response(usage_files.csv_text(rows), media_type="text/csv")
    return replies.reply(ListPage[UsageRow](items=tuple(rows)))


def _queue(asking: Somebody) -> dict[str, int]:
    counts, tenants = asking.desk.book.counts(), asking.principal.tenants
    if tenants is None:
        return {"queued": counts.queued, "running": counts.running}
    return {
        "queued": sum(counts.queued_by_tenant.get(tenant, 0) for tenant in tenants),
        "running": sum(counts.running_by_tenant.get(tenant, 0) for tenant in tenants),
    }
