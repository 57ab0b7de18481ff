"""Work that clients ask for: `POST /compact`, the verbs of housekeeping, and the queue."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from fastapi import APIRouter, Query, Response

from iceberg_compaction.interfaces.service.api import (
    live_tables,
    problems,
    replies,
    request_work,
    waiting_work,
    work_roles,
)
from iceberg_compaction.interfaces.service.api.replies import After, Limit
from iceberg_compaction.interfaces.service.api.request_work import IdempotencyKey, Wait, WorkOrder
from iceberg_compaction.interfaces.service.api.service_desk import Asking, Somebody
from iceberg_compaction.interfaces.service.api.strict_route import PREFIX, StrictRoute
from iceberg_compaction.model.planned_upkeep import PlannedUpkeep
from iceberg_compaction.model.principal import Role
from iceberg_compaction.model.rewrite_plan import EmptyPlan, Plan
from iceberg_compaction.model.service_answers import AcceptedWork, ListPage
from iceberg_compaction.model.service_requests import CompactOrder, UpkeepOrder
from iceberg_compaction.model.work import Work, WorkKind, WorkState
from iceberg_compaction.record.rules import work_rows

router = APIRouter(prefix=PREFIX, route_class=StrictRoute)
_WORK = "/work"
_ACCEPTED = {"model": AcceptedWork, "description": "The work is in the queue; `run` and `events` show it."}


class UpkeepVerb(str, Enum):
    """Housekeeping that can be asked for. Closed set."""

    MAINTAIN = "maintain"
    EXPIRE = "expire"
    ORPHANS = "orphans"
    MANIFESTS = "manifests"
    DELETES = "deletes"
    TTL = "ttl"
    TAGS = "tags"
    STATISTICS = "statistics"


@router.post(
    "/compact",
    tags=["work"],
    summary="Compact a table",
    response_model=AcceptedWork | Plan | EmptyPlan,
    response_description="The work has ended within `wait`; or, of a dry run, the plan with its reasons.",
    responses={202: _ACCEPTED, **problems.documented(404, 408, 409, 413, 502)},
)
async def compact(
    order: CompactOrder, asking: Somebody, wait: Wait = 0, idempotency_key: IdempotencyKey = None
) -> Response:
    """Rewrite the files of a table as its policy says; options of the request come first."""
    return await _answer(asking, WorkKind.COMPACT, order, strategy=order.strategy, key=idempotency_key, wait=wait)


@router.post(
    "/maintenance/{verb}",
    tags=["work"],
    summary="Do housekeeping on a table",
    response_model=AcceptedWork | PlannedUpkeep,
    response_description="The work has ended within `wait`; or, of a dry run, the plan with its reasons.",
    responses={202: _ACCEPTED, **problems.documented(404, 408, 409, 413, 502)},
)
async def maintenance(
    verb: UpkeepVerb, order: UpkeepOrder, asking: Somebody, wait: Wait = 0, idempotency_key: IdempotencyKey = None
) -> Response:
    """`maintain` does all that the policy asks for. `expire` and `ttl` delete for good, and need the role admin."""
    return await _answer(asking, WorkKind(verb.value), order, strategy=None, key=idempotency_key, wait=wait)


async def _answer(
    asking: Asking, kind: WorkKind, order: UpkeepOrder, *, strategy: str | None, key: str | None, wait: float
) -> Response:
    options = work_roles.normal(kind, order.options)
    wanted = WorkOrder(kind=kind, options=options, strategy=strategy, priority=order.priority, key=key)

    def planned() -> Response:
        asking.require(Role.VIEWER)
        served = asking.table(order.table, order.catalog)
        request = request_work.request_of(asking, served, wanted)
        return replies.reply(live_tables.plan(asking, served, request))

    def queued() -> Work:
        asking.require(work_roles.role_for(kind, options))
        served = asking.table(order.table, order.catalog)
        live_tables.check_there(asking, served)
        return request_work.enqueue(asking, served, wanted)

    if order.dry_run:
        return await asking.desk.work(planned)
    return await request_work.answer(asking, await asking.desk.quick(queued), wait)


@router.get(
    _WORK,
    tags=["work"],
    summary="List work, the newest first",
    response_model=ListPage[Work],
    responses=problems.documented(),
)
def list_work(
    asking: Somebody,
    state: Annotated[WorkState | None, Query(description="default: all")] = None,
    table: Annotated[str | None, Query(max_length=1000)] = None,
    limit: Limit = 50,
    after: After = "",
) -> Response:
    """Work that waits, runs, or has ended, of all tables that you may see."""
    asking.require(Role.VIEWER)
    start = replies.position(after) if after else ""
    tenants = asking.principal.tenants
    listed = asking.desk.book.list(state, tenants=tenants, table=table, after=start, limit=limit + 1)
    following = replies.cursor(work_rows.cursor(listed[limit - 1])) if len(listed) > limit else None
    return replies.reply(ListPage[Work](items=tuple(listed[:limit]), next=following))


@router.get(
    f"{_WORK}/{{work_id}}",
    tags=["work"],
    summary="One piece of work",
    response_model=Work,
    responses=problems.documented(404),
)
def one_work(work_id: str, asking: Somebody) -> Response:
    """How far it is, its runs, and how it ended."""
    asking.require(Role.VIEWER)
    work = asking.desk.book.get(work_id)
    if work is None or not asking.may_see(work.request.table):
        raise problems.not_there(f"work {work_id!r}")
    return replies.reply(waiting_work.with_reason(asking.desk.house, work))
