"""Metrics of a service: requests of this process, and what the run store says about the queue, the processes, tables
and spending at the moment of a scrape. Labels name tenants and catalogs, never tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction.model.principal import ANYBODY
from iceberg_compaction.observe.metrics import metric_list, metric_values, prometheus_text
from iceberg_compaction.observe.metrics.metric_list import Metric, MetricKind
from iceberg_compaction.record.service import service_members

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from iceberg_compaction.interfaces.service.api.service_desk import ServiceDesk

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def _gauge(name: str, unit: str, text: str, *labels: str) -> Metric:
    return Metric(name=f"service_{name}", kind=MetricKind.GAUGE, unit=unit, help=text, labels=labels)


REQUESTS = Metric(
    name="service_requests",
    kind=MetricKind.COUNTER,
    unit="{request}",
    help="Requests that were answered, by route and status.",
    labels=("method", "route", "status"),
)
REQUEST_SECONDS = Metric(
    name="service_request_duration_seconds",
    kind=MetricKind.HISTOGRAM,
    unit="s",
    help="Time until an answer began.",
    labels=("route",),
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
)
QUEUED = _gauge("queued_work", "{work}", "Work that waits.", "tenant")
RUNNING = _gauge("running_work", "{work}", "Work that runs.", "tenant")
RUNNING_BY_CATALOG = _gauge("catalog_running_work", "{work}", "Work that runs, by catalog.", "catalog")
OLDEST = _gauge("oldest_queued_seconds", "s", "Age of the work that waits first; 0 if none does.")
MEMBERS = _gauge("members", "{process}", "Processes of the service with a sign of life in the store.", "role")
STREAMS = _gauge("event_streams", "{stream}", "Clients of this process that watch events of runs.")
TABLES = _gauge("tables", "{table}", "Tables that were looked at.", "tenant")
SICK = _gauge("sick_tables", "{table}", "Tables that need work, as of their last look.", "tenant")
SCORE = _gauge("score", "1", "Mean score of tables by bytes, 0 (sick) to 100 (healthy).", "tenant")
SPENT = _gauge("hour_cost_dollars", "USD", "Cost of runs that ended in the last hour.", "tenant")
BUDGET = _gauge("hour_cost_limit_dollars", "USD", "The most that runs of a tenant may cost in an hour.", "tenant")
METRICS = tuple(value for value in list(vars().values()) if isinstance(value, Metric))


def text(desk: ServiceDesk) -> bytes:
    """All values as Prometheus reads them."""
    own = {**desk.meter.snapshot(), **_from_store(desk).snapshot()}
    runs = {} if desk.run_metrics is None else desk.run_metrics.snapshot()
    return prometheus_text.text(own, METRICS) + prometheus_text.text(runs, metric_list.METRICS)


def _from_store(desk: ServiceDesk) -> metric_values.MetricValues:
    values = metric_values.MetricValues()
    counts = desk.book.counts()
    for metric, by_name in (
        (QUEUED, counts.queued_by_tenant),
        (RUNNING, counts.running_by_tenant),
        (RUNNING_BY_CATALOG, counts.running_by_catalog),
    ):
        for name, count in by_name.items():
            values.set(metric, count, name)
    waited_ms = 0 if counts.oldest_ms is None else desk.house.clock() - counts.oldest_ms
    values.set(OLDEST, max(0, waited_ms) / 1000)
    values.set(STREAMS, desk.streams.borrowed_tokens)
    roles = [member.role for member in service_members.ServiceMembers(desk.house.store.entries).list()]
    for role in set(roles):
        values.set(MEMBERS, roles.count(role), role)
    for tenant, figures in desk.fleet.figures(ANYBODY).items():
        values.set(TABLES, figures.tables, tenant or "")
        values.set(SICK, figures.sick, tenant or "")
        if figures.score is not None:
            values.set(SCORE, figures.score, tenant or "")
    for spending in desk.fleet.spending(ANYBODY):
        values.set(SPENT, spending.hour_cost, spending.tenant or "")
        if spending.hourly_limit is not None:
            values.set(BUDGET, spending.hourly_limit, spending.tenant or "")
    return values


@dataclass(slots=True)
class RequestMeter:
    """An ASGI middleware that counts requests and their time, by route."""

    app: ASGIApp
    values: metric_values.MetricValues
    monotonic: Callable[[], float]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = self.monotonic()

        async def watch(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", "other")
                self.values.add(REQUESTS, 1, scope["method"], route, str(message["status"]))
                self.values.observe(REQUEST_SECONDS, self.monotonic() - began, route)
            await send(message)

        await self.app(scope, receive, watch)
