"""Runs: the list, one of them, its events as they come, its report, its end, its check and its undo."""

from __future__ import annotations

import shlex
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Response
from fastapi.responses import HTMLResponse, StreamingResponse

from iceberg_compaction.interfaces.service.api import (
    event_stream,
    live_tables,
    problems,
    replies,
    request_work,
    run_looks,
    work_roles,
)
from iceberg_compaction.interfaces.service.api.replies import After, Limit
from iceberg_compaction.interfaces.service.api.request_work import IdempotencyKey, Wait, WorkOrder
from iceberg_compaction.interfaces.service.api.service_desk import Somebody
from iceberg_compaction.interfaces.service.api.strict_route import PREFIX, StrictRoute
from iceberg_compaction.model import moments
from iceberg_compaction.model.cancel_request import Cancellation
from iceberg_compaction.model.outcome import Kind
from iceberg_compaction.model.principal import Role
from iceberg_compaction.model.run_listing import UnfinishedListing
from iceberg_compaction.model.run_record import RunRecord
from iceberg_compaction.model.run_report import RunReport
from iceberg_compaction.model.service_answers import AcceptedWork, ListPage, ServedRun
from iceberg_compaction.model.service_requests import UndoOrder
from iceberg_compaction.model.undo_plan import UndoPlan
from iceberg_compaction.model.work import Work, WorkKind
from iceberg_compaction.record import past_runs
from iceberg_compaction.record.reports import report_run
from iceberg_compaction.record.rules.run_history import RunsPage

router = APIRouter(prefix=PREFIX, route_class=StrictRoute, tags=["runs"])
RunId = Annotated[str, Path(min_length=1, max_length=200)]
Moment = Annotated[
    str | None, Query(max_length=40, description="2026-01-31, 2026-01-31T12:00:00, or 7d for a week ago")
]
CatalogName = Annotated[str | None, Query(max_length=200, description="default: that of the run's work")]
_ACCEPTED = {"model": AcceptedWork, "description": "The work is in the queue; `run` and `events` show it."}


@router.get(
    "/runs", summary="List runs that have ended", response_model=ListPage[RunRecord], responses=problems.documented()
)
def list_runs(  # noqa: PLR0913 - a filter each
    asking: Somebody,
    table: Annotated[str | None, Query(max_length=1000, description="the full name of a table")] = None,
    kind: Annotated[Kind | None, Query(description="how they ended")] = None,
    since: Moment = None,
    until: Moment = None,
    limit: Limit = 50,
    after: After = "",
) -> Response:
    """The newest first. A page may have fewer than `limit` though there are more: follow `next`."""
    asking.require(Role.VIEWER)
    now_ms = asking.desk.house.clock()
    if table is not None and not asking.may_see(table):
        return replies.reply(ListPage[RunRecord](items=()))
    records, following = asking.desk.house.store.page(
        RunsPage(
            table=table,
            kind=None if kind is None else kind.value,
            since_ms=None if since is None else moments.parse_ms(since, now_ms),
            until_ms=None if until is None else moments.parse_ms(until, now_ms, end=True),
            after=replies.position(after) if after else "",
            limit=limit,
            fits=asking.may_see,
        )
    )
    return replies.reply(
        ListPage[RunRecord](items=tuple(records), next=None if following is None else replies.cursor(following))
    )


@router.get(
    "/unfinished-runs",
    summary="List runs that have not ended",
    response_model=ListPage[UnfinishedListing],
    responses=problems.documented(),
)
def list_unfinished(asking: Somebody) -> Response:
    """Runs at work, and those that died without an outcome, of any process that uses the store."""
    asking.require(Role.VIEWER)
    house = asking.desk.house
    listed = past_runs.unfinished(house.store, past_runs.HistoryFilter(), house.clock())
    return replies.reply(ListPage[UnfinishedListing](items=tuple(run for run in listed if asking.may_see(run.table))))


@router.get("/runs/{run_id}", summary="One run", response_model=ServedRun, responses=problems.documented(404))
def one_run(run_id: RunId, asking: Somebody) -> Response:
    """Its place in the queue, what it does, or how it ended."""
    asking.require(Role.VIEWER)
    return replies.reply(run_looks.find(asking, run_id))


@router.get(
    "/runs/{run_id}/report",
    summary="The report of a run",
    response_model=RunReport,
    responses={200: {"content": {"text/html": {"schema": {"type": "string"}}}}, **problems.documented(404)},
)
def run_report(
    run_id: RunId,
    asking: Somebody,
    format: Annotated[str, Query(pattern="^(json|html)$", description="json, or a page for a browser")] = "json",
) -> Response:
    """What it found, expected, did and left."""
    asking.require(Role.VIEWER)
    run_looks.find(asking, run_id, begun=True)
    house = asking.desk.house
    report = report_run.report(house.store, run_id, house.clock())
    if format == "json":
        return replies.reply(report)
    from iceberg_compaction.interfaces.html import run_page

    return HTMLResponse(run_page.render(report, lambda *words: shlex.join(("iceberg-compact", *words))))


@router.get(
    "/runs/{run_id}/events",
    summary="The events of a run, as they come",
    response_class=StreamingResponse,
    response_description="Server-sent events. The id of each is run/number; the last one is `end`.",
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}, **problems.documented(404)},
)
async def run_events(
    run_id: RunId,
    asking: Somebody,
    last_event_id: Annotated[str | None, Header(max_length=250, description="go on after this one")] = None,
) -> Response:
    """Events of `model.events` as JSON, of runs of any replica. The stream ends when the run has ended."""
    asking.require(Role.VIEWER)
    run = await asking.desk.quick(lambda: run_looks.find(asking, run_id))
    stream = event_stream.EventStream(desk=asking.desk, run_id=run.run_id, work=run.work, last_id=last_event_id or "")
    return await stream.response()


@router.post(
    "/runs/{run_id}/cancel", summary="Cancel a run", response_model=Cancellation, responses=problems.documented(404)
)
def cancel(run_id: RunId, asking: Somebody) -> Response:
    """Work that waits ends at once. A run at work commits what it has finished, and ends within seconds."""
    asking.require(Role.OPERATOR)
    return replies.reply(run_looks.cancel(asking, run_looks.find(asking, run_id)))


@router.post(
    "/runs/{run_id}/verify",
    summary="Check a run",
    response_model=AcceptedWork,
    responses={202: _ACCEPTED, **problems.documented(404, 409)},
)
async def verify(
    run_id: RunId,
    asking: Somebody,
    catalog: CatalogName = None,
    wait: Wait = 0,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Its files are read again and compared with its proof, and with the files that it replaced."""
    asking.require(Role.OPERATOR)

    def queued() -> Work:
        served = run_looks.table_of(asking, run_id, catalog)
        order = WorkOrder(kind=WorkKind.VERIFY, options={}, run_id=run_id, key=idempotency_key)
        return request_work.enqueue(asking, served, order)

    return await request_work.answer(asking, await asking.desk.quick(queued), wait)


@router.post(
    "/runs/{run_id}/undo",
    summary="Undo a run",
    response_model=AcceptedWork | UndoPlan,
    responses={202: _ACCEPTED, **problems.documented(404, 409, 413, 502)},
)
async def undo(
    run_id: RunId,
    order: UndoOrder,
    asking: Somebody,
    catalog: CatalogName = None,
    wait: Wait = 0,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """The files that it replaced come back, all or none. `despite_differences` needs the role admin."""

    options = {"despite_differences": True} if order.despite_differences else {}
    wanted = WorkOrder(kind=WorkKind.UNDO, options=options, run_id=run_id, key=idempotency_key)

    def planned() -> Response:
        asking.require(Role.VIEWER)
        served = run_looks.table_of(asking, run_id, catalog)
        return replies.reply(live_tables.plan(asking, served, request_work.request_of(asking, served, wanted)))

    def queued() -> Work:
        asking.require(work_roles.role_for(WorkKind.UNDO, options))
        return request_work.enqueue(asking, run_looks.table_of(asking, run_id, catalog), wanted)

    if order.dry_run:
        return await asking.desk.work(planned)
    return await request_work.answer(asking, await asking.desk.quick(queued), wait)
