"""Schedules: when tables are next due, and pauses."""

from __future__ import annotations

from fastapi import APIRouter, Response

from iceberg_compaction import errors
from iceberg_compaction.interfaces.service.api import live_tables, problems, replies, request_work
from iceberg_compaction.interfaces.service.api.replies import After, Limit
from iceberg_compaction.interfaces.service.api.request_work import IdempotencyKey, Wait, WorkOrder
from iceberg_compaction.interfaces.service.api.routes.table_routes import CatalogName, Table
from iceberg_compaction.interfaces.service.api.service_desk import Asking, Somebody
from iceberg_compaction.interfaces.service.api.strict_route import PREFIX, StrictRoute
from iceberg_compaction.model import table_names
from iceberg_compaction.model.principal import Role
from iceberg_compaction.model.service_answers import AcceptedWork, ListPage
from iceberg_compaction.model.service_requests import PauseOrder
from iceberg_compaction.model.table_schedule import NextTimes, SchedulePause
from iceberg_compaction.model.work import Work, WorkKind
from iceberg_compaction.record.service import schedule_book

router = APIRouter(prefix=PREFIX, route_class=StrictRoute, tags=["schedules"])
_ACCEPTED = {"model": AcceptedWork, "description": "The work is in the queue; `run` and `events` show it."}


@router.get(
    "/schedules",
    summary="When tables are next due",
    response_model=ListPage[NextTimes],
    responses=problems.documented(409),
)
async def list_schedules(
    asking: Somebody, catalog: CatalogName = None, limit: Limit = 50, after: After = ""
) -> Response:
    """The tables of one catalog, by name, as far as the scheduler has seen them."""

    def look() -> Response:
        from iceberg_compaction.interfaces.service.scheduling import next_times

        asking.require(Role.VIEWER)
        house, name = asking.desk.house, asking.catalog_name(catalog)
        start, now_ms = replies.position(after) if after else "", house.clock()
        watches = schedule_book.ScheduleBook(house.store.entries).watches(name)
        tables = sorted(table for table in watches if table > start and asking.may_see(table))
        shown = (next_times.next_times(house, name, table, now_ms) for table in tables[:limit])
        following = replies.cursor(tables[limit - 1]) if len(tables) > limit else None
        return replies.reply(ListPage[NextTimes](items=tuple(each for each in shown if each), next=following))

    return await asking.desk.work(look)


@router.get(
    "/tables/{table}/schedule",
    summary="When a table is next due",
    response_model=NextTimes,
    responses=problems.documented(404, 409, 502),
)
def one_schedule(table: Table, asking: Somebody, catalog: CatalogName = None) -> Response:
    """And what keeps it from being worked on: a pause, quiet hours, failures in a row."""
    from iceberg_compaction.interfaces.service.scheduling import next_times

    asking.require(Role.VIEWER)
    served, house = asking.table(table, catalog), asking.desk.house
    times = next_times.next_times(house, served.catalog, served.table, house.clock())
    if times is None:
        live_tables.check_there(asking, served)
        raise problems.HttpRefusal(
            404,
            "not-looked-at",
            f"The scheduler has not seen {served.table} so far; it looks at its next tick, unless it is turned off.",
        )
    return replies.reply(times)


@router.get(
    "/schedules/pauses", summary="Pauses", response_model=ListPage[SchedulePause], responses=problems.documented()
)
def list_pauses(asking: Somebody) -> Response:
    """All pauses that last, of your own tables and patterns."""
    asking.require(Role.VIEWER)
    pauses = schedule_book.ScheduleBook(asking.desk.house.store.entries).pauses()
    return replies.reply(
        ListPage[SchedulePause](items=tuple(pause for pause in pauses if _is_own(asking, pause.pattern)))
    )


@router.post(
    "/schedules/pause", summary="Pause schedules", response_model=SchedulePause, responses=problems.documented(413)
)
def pause(order: PauseOrder, asking: Somebody) -> Response:
    """The scheduler asks for no work on these tables until `resume`. Moments that pass meanwhile are not caught up."""
    asking.require(Role.OPERATOR)
    _check(asking, order)
    house = asking.desk.house
    made = SchedulePause(pattern=order.tables, catalog=order.catalog, by=asking.principal.name, since_ms=house.clock())
    schedule_book.ScheduleBook(house.store.entries).pause(made)
    return replies.reply(made)


@router.post(
    "/schedules/resume",
    summary="Resume schedules",
    status_code=204,
    response_class=Response,
    responses=problems.documented(404, 413),
)
def resume(order: PauseOrder, asking: Somebody) -> Response:
    """End a pause, given by the same text."""
    asking.require(Role.OPERATOR)
    _check(asking, order)
    if not schedule_book.ScheduleBook(asking.desk.house.store.entries).resume(order.tables, order.catalog):
        raise problems.not_there(f"pause of {order.tables!r}")
    return replies.nothing()


@router.post(
    "/tables/{table}/schedule/run",
    summary="Do now what the schedule would",
    response_model=AcceptedWork,
    response_description="The work has ended within `wait`.",
    responses={202: _ACCEPTED, **problems.documented(404, 409, 502)},
)
async def run_now(
    table: Table,
    asking: Somebody,
    catalog: CatalogName = None,
    wait: Wait = 0,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """All upkeep that the table's policy asks for, or the rewrite of its files alone."""

    def queued() -> Work:
        from iceberg_compaction.workflow import table_upkeep

        asking.require(Role.OPERATOR)
        served, house = asking.table(table, catalog), asking.desk.house
        live_tables.check_there(asking, served)
        properties = schedule_book.ScheduleBook(house.store.entries).properties(served.catalog, served.table)
        policy = house.policies.followed().effective(served.table, properties).policy
        kind = WorkKind.MAINTAIN if len(table_upkeep.steps_of(policy)) > 1 else WorkKind.COMPACT
        return request_work.enqueue(asking, served, WorkOrder(kind=kind, options={}, key=idempotency_key))

    return await request_work.answer(asking, await asking.desk.quick(queued), wait)


def _check(asking: Asking, order: PauseOrder) -> None:
    """Whoever stands for single tenants may name their tables, and the patterns of their tenants."""
    asking.note(target=order.tables, catalog=order.catalog or "", tenant=_tenant(asking, order.tables))
    if order.catalog is not None:
        asking.catalog_name(order.catalog)
    if not _is_own(asking, order.tables):
        raise errors.ForbiddenError(
            f"{order.tables[:100]!r} is neither a table nor a pattern of your tenants; name your tables one by one."
        )


def _is_own(asking: Asking, pattern: str) -> bool:
    if asking.principal.tenants is None:
        return True
    return asking.principal.may_see(_tenant(asking, pattern))


def _tenant(asking: Asking, pattern: str) -> str | None:
    """The tenant that a pattern is of: it is one of the tenant's own, or a table of it."""
    house = asking.desk.house
    for name, tenant in house.settings.tenants.items():
        if pattern in tenant.tables:
            return name
    return None if table_names.is_pattern(pattern) else house.tenant_of(pattern)
