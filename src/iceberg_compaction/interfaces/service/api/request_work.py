"""Work of a request: it goes into the queue once, however often it is sent with one Idempotency-Key, and is waited for
if the client wants that."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any
from urllib import parse

import anyio
from anyio import to_thread
from fastapi import Header, Query

from iceberg_compaction.interfaces.service.api import live_tables, problems, replies, waiting_work, work_roles
from iceberg_compaction.model.service_answers import AcceptedWork
from iceberg_compaction.model.work import Work, WorkKind, WorkRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import Response

    from iceberg_compaction.interfaces.service.api.service_desk import Asking, ServedName

RUNS = "/api/v1/runs"
_LOOK_S = 0.25  # between two looks at work that is waited for
_SAME = ("kind", "catalog", "table", "strategy", "options", "run_id")
IdempotencyKey = Annotated[
    str | None,
    Header(min_length=1, max_length=255, description="requests with one key are one request, however often they come"),
]
Wait = Annotated[
    float, Query(ge=0, le=3600, allow_inf_nan=False, description="seconds to wait for the end, before the answer")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOrder:
    """What a request asks for."""

    kind: WorkKind
    options: Mapping[str, Any]
    strategy: str | None = None
    priority: int = 5
    run_id: str | None = None
    key: str | None = None  # of the client, by which it knows the request again


def request_of(asking: Asking, served: ServedName, order: WorkOrder) -> WorkRequest:
    """The request as the queue has it. ForbiddenError: an option is not for everybody."""
    work_roles.check(asking.principal, order.options)
    return WorkRequest(
        work_id=asking.desk.new_id() if order.key is None else _id_of(asking, order.key),
        kind=order.kind,
        catalog=served.catalog,
        table=served.table,
        tenant=served.tenant,
        strategy=order.strategy,
        options=dict(order.options),
        run_id=order.run_id,
        priority=order.priority,
        reason="It was asked for over REST.",
        requested_by=asking.principal.name,
        requested_ms=asking.desk.house.clock(),
    )


def enqueue(asking: Asking, served: ServedName, order: WorkOrder) -> Work:
    """Put work into the queue. The same key gives the same work. What cannot be done is refused now, and not when a
    worker comes to it. ForbiddenError, ConfigError, QueueFullError."""
    from iceberg_compaction.interfaces.service.work import work_operations

    asking.require(work_roles.role_for(order.kind, order.options))
    request = request_of(asking, served, order)
    live_tables.meant(lambda: work_operations.check(request, asking.desk.house))
    work = asking.desk.book.put(request)
    if any(getattr(work.request, name) != getattr(request, name) for name in _SAME):
        raise problems.HttpRefusal(
            422, "key-reused", "This Idempotency-Key was sent with another request; use a new one for each."
        )
    asking.note(target=work.request.work_id, sentence=f"{order.kind.value} is {work.state.value}.")
    asking.desk.wake()
    return work


async def answer(asking: Asking, work: Work, wait: float) -> Response:
    """202 with the work and where to watch it; 200 if it has ended by then."""
    if wait:
        work = await _ended(asking, work, wait)
    work = await to_thread.run_sync(waiting_work.with_reason, asking.desk.house, work)
    paths = f"{RUNS}/{parse.quote(work.run_id, safe='')}"
    accepted = AcceptedWork(
        work=work, run_id=work.run_id, run=paths, events=f"{paths}/events", cancel=f"{paths}/cancel"
    )
    return replies.reply(accepted, 202 if work.state.is_open else 200, headers={"Location": paths})


async def _ended(asking: Asking, work: Work, wait: float) -> Work:
    """The work as it is when it has ended, or the time is over, or the client is gone."""
    with anyio.move_on_after(wait):
        while work.state.is_open and not asking.desk.ending.is_set() and not await asking.request.is_disconnected():
            await anyio.sleep(_LOOK_S)
            present = await to_thread.run_sync(asking.desk.book.get, work.request.work_id)
            work = work if present is None else present
    return work


def _id_of(asking: Asking, key: str) -> str:
    """Keys of two clients never meet, though two tokens may have one name."""
    who = asking.principal
    client = f"name {who.name}" if who.token_id is None else f"token {who.token_id}"
    return hashlib.sha256(f"{client}\n{key}".encode()).hexdigest()[:32]
