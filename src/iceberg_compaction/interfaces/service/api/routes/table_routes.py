"""Tables: what the store has of them, and what they say themselves: explanations, plans, diagnoses, policies."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Path, Query, Response

from iceberg_compaction.interfaces.service.api import live_tables, problems, replies, request_work
from iceberg_compaction.interfaces.service.api.replies import After, Limit
from iceberg_compaction.interfaces.service.api.service_desk import Asking, ServedName, Somebody
from iceberg_compaction.interfaces.service.api.strict_route import PREFIX, StrictRoute
from iceberg_compaction.model import table_names
from iceberg_compaction.model.explanation import Explanation
from iceberg_compaction.model.policy_origin import EffectivePolicy
from iceberg_compaction.model.principal import Role
from iceberg_compaction.model.rewrite_plan import EmptyPlan, Plan
from iceberg_compaction.model.run_figures import HealthEntry
from iceberg_compaction.model.service_answers import ListPage, ServedTable
from iceberg_compaction.model.table_health import PartitionHealth, TableHealth
from iceberg_compaction.model.work import WorkKind, WorkState
from iceberg_compaction.plan.triggers import table_check
from iceberg_compaction.record import health_log
from iceberg_compaction.record.service import schedule_book

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import BaseModel

router = APIRouter(prefix=PREFIX, route_class=StrictRoute, tags=["tables"])
Table = Annotated[str, Path(min_length=1, max_length=1000, description="namespace.table")]
CatalogName = Annotated[str | None, Query(max_length=200, description="default: the first of the service")]
_MOST_PARTITIONS = 10_000


@router.get("/tables", summary="List tables", response_model=ListPage[HealthEntry], responses=problems.documented())
def list_tables(
    asking: Somebody,
    pattern: Annotated[str, Query(max_length=1000, description="such as shop.*")] = "*",
    limit: Limit = 50,
    after: After = "",
) -> Response:
    """The last look at each table, by name, from the store. Tables that nobody has looked at are not among them."""
    asking.require(Role.VIEWER)
    table, _, catalog = (replies.position(after) if after else "").partition("\n")
    fits = (
        entry
        for entry in asking.desk.fleet.looks().after(table, catalog)
        if asking.may_see(entry.table) and (pattern == "*" or table_names.matches(entry.table, pattern))
    )
    listed = list(itertools.islice(fits, limit + 1))
    last = listed[limit - 1] if len(listed) > limit else None
    following = None if last is None else replies.cursor(f"{last.table}\n{last.catalog}")
    return replies.reply(ListPage[HealthEntry](items=tuple(listed[:limit]), next=following))


@router.get(
    "/tables/{table}", summary="One table", response_model=ServedTable, responses=problems.documented(404, 409, 502)
)
def one_table(table: Table, asking: Somebody, catalog: CatalogName = None) -> Response:
    """Its last look, whether it is due, its last run and its open work, from the store."""
    asking.require(Role.VIEWER)
    served = asking.table(table, catalog)
    house, health = asking.desk.house, _look(asking, served)
    runs = house.store.history(served.table, limit=1)
    work = asking.desk.book.list(WorkState.RUNNING, table=served.table, limit=10)
    work += asking.desk.book.list(WorkState.QUEUED, table=served.table, limit=10)
    if health is None and not runs and not work:
        live_tables.check_there(asking, served)
    due = None
    if health is not None:
        properties = schedule_book.ScheduleBook(house.store.entries).properties(served.catalog, served.table)
        policy = house.policies.followed().effective(served.table, properties).policy.rewrite
        due = table_check.check(health, policy, house.clock())
    last_run = runs[0] if runs else None
    return replies.reply(
        ServedTable(
            table=served.table, tenant=served.tenant, health=health, due=due, last_run=last_run, work=tuple(work)
        )
    )


@router.get(
    "/tables/{table}/health",
    summary="The last look at a table",
    response_model=HealthEntry,
    responses=problems.documented(404, 409, 502),
)
def table_health(table: Table, asking: Somebody, catalog: CatalogName = None) -> Response:
    """From the store; `diagnosis` looks anew."""
    asking.require(Role.VIEWER)
    served = asking.table(table, catalog)
    if (entry := _look(asking, served)) is None:
        raise _unseen(asking, served)
    return replies.reply(entry)


@router.get(
    "/tables/{table}/health/history",
    summary="Looks at a table over time",
    response_model=ListPage[HealthEntry],
    responses=problems.documented(404, 409, 502),
)
def health_history(
    table: Table, asking: Somebody, catalog: CatalogName = None, limit: Limit = 100, after: After = ""
) -> Response:
    """The newest first, from the store."""
    asking.require(Role.VIEWER)
    served = asking.table(table, catalog)
    if (entry := _look(asking, served)) is None:
        raise _unseen(asking, served)
    start = replies.number(after)
    looks = health_log.HealthLog(entries=asking.desk.house.store.entries)
    listed = looks.of_table(entry.catalog, served.table, limit=start + limit + 1)[start:]
    following = replies.cursor(str(start + limit)) if len(listed) > limit else None
    return replies.reply(ListPage[HealthEntry](items=tuple(listed[:limit]), next=following))


@router.get(
    "/tables/{table}/diagnosis",
    summary="Look at a table now",
    response_model=TableHealth,
    responses=problems.documented(404, 409, 502),
)
async def diagnosis(table: Table, asking: Somebody, catalog: CatalogName = None) -> Response:
    """Its health in words and figures, as `doctor` has it, from its metadata."""
    return await _live(asking, table, catalog, functools.partial(live_tables.diagnosis, worst=10))


@router.get(
    "/tables/{table}/partitions",
    summary="Files by partition",
    response_model=ListPage[PartitionHealth],
    responses=problems.documented(404, 409, 502),
)
async def partitions(
    table: Table, asking: Somebody, catalog: CatalogName = None, limit: Limit = 50, after: After = ""
) -> Response:
    """The files, bytes, rows and deletes of each partition, those with most small and delete files first."""

    def look() -> Response:
        asking.require(Role.VIEWER)
        start = replies.number(after)
        worst = min(start + limit + 1, _MOST_PARTITIONS)
        health = live_tables.diagnosis(asking, asking.table(table, catalog), worst=worst)
        listed = health.worst_partitions[start:]
        following = replies.cursor(str(start + limit)) if len(listed) > limit else None
        return replies.reply(ListPage[PartitionHealth](items=listed[:limit], next=following))

    return await asking.desk.work(look)


@router.get(
    "/tables/{table}/explain",
    summary="Why a table is compacted or not",
    response_model=Explanation,
    responses=problems.documented(404, 409, 502),
)
async def explain(table: Table, asking: Somebody, catalog: CatalogName = None) -> Response:
    """What a run would do now and why, with the policy's values and their origins."""
    return await _live(asking, table, catalog, live_tables.explain)


@router.get(
    "/tables/{table}/plan",
    summary="The plan of a table",
    response_model=Plan | EmptyPlan,
    responses=problems.documented(404, 409, 502),
)
async def plan(
    table: Table,
    asking: Somebody,
    catalog: CatalogName = None,
    strategy: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    """What a run would do now, file by file; `POST /compact` with `dry_run` takes options as well."""

    def look() -> Response:
        asking.require(Role.VIEWER)
        served = asking.table(table, catalog)
        order = request_work.WorkOrder(kind=WorkKind.COMPACT, options={}, strategy=strategy)
        return replies.reply(live_tables.plan(asking, served, request_work.request_of(asking, served, order)))

    return await asking.desk.work(look)


@router.get(
    "/tables/{table}/policy",
    summary="The policy of a table",
    response_model=EffectivePolicy,
    responses=problems.documented(404, 409, 502),
)
async def policy(table: Table, asking: Somebody, catalog: CatalogName = None) -> Response:
    """Every value that holds for the table, with its origin."""
    return await _live(asking, table, catalog, live_tables.effective_policy)


async def _live(
    asking: Asking, table: str, catalog: str | None, look: Callable[[Asking, ServedName], BaseModel]
) -> Response:
    """What a table says of itself now."""

    def answer() -> Response:
        asking.require(Role.VIEWER)
        return replies.reply(look(asking, asking.table(table, catalog)))

    return await asking.desk.work(answer)


def _unseen(asking: Asking, served: ServedName) -> problems.HttpRefusal:
    """There is a table that nobody has looked at. NoSuchTableError: there is none."""
    live_tables.check_there(asking, served)
    return problems.HttpRefusal(
        404, "not-looked-at", f"Nobody has looked at {served.table} so far; its `diagnosis` is a look."
    )


def _look(asking: Asking, served: ServedName) -> HealthEntry | None:
    """The last look at the table. Where several catalogs have one of this name, the newest look counts that is not of
    another catalog of the service."""
    entries = asking.desk.fleet.looks().of_table.get(served.table, ())
    others = {
        name: identity
        for name in asking.desk.house.settings.catalogs
        if name != served.catalog and len(entries) > 1 and (identity := asking.desk.house.catalogs.identity(name))
    }
    own = [entry for entry in entries if entry.catalog not in others.values()]
    return max(own, key=lambda entry: entry.at_ms, default=None)
