"""The app of a service: its routes, limits, problems, OpenAPI document and pages. A house and a guard come in."""

from __future__ import annotations

import contextlib
import secrets
import time
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from iceberg_compaction.interfaces.service.access import guard
from iceberg_compaction.interfaces.service.api import audit_trail, problems, request_limits, service_metrics
from iceberg_compaction.interfaces.service.api.fleet_view import FleetView
from iceberg_compaction.interfaces.service.api.routes import (
    admin_routes,
    compact_routes,
    fleet_routes,
    notice_routes,
    page_routes,
    policy_routes,
    probe_routes,
    run_routes,
    schedule_routes,
    table_routes,
)
from iceberg_compaction.interfaces.service.api.service_desk import ServiceDesk
from iceberg_compaction.interfaces.service.api.strict_route import PREFIX
from iceberg_compaction.interfaces.service.api.table_lookup import TableFolders
from iceberg_compaction.interfaces.service.service_settings import ServiceRole
from iceberg_compaction.observe.metrics import metric_values
from iceberg_compaction.record.rules.work_book import WorkBook
from iceberg_compaction.record.service.audit_log import AuditLog
from iceberg_compaction.version import __version__

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from iceberg_compaction.interfaces.service.access.guard import Guard
    from iceberg_compaction.interfaces.service.service_house import ServiceHouse
    from iceberg_compaction.observe.metrics.run_metrics import RunMetrics

_ROUTES = (
    compact_routes,
    table_routes,
    run_routes,
    policy_routes,
    schedule_routes,
    fleet_routes,
    notice_routes,
    admin_routes,
)
_THREADS = 8  # that ask the store at a time
_ABOUT = (
    "Keeps Apache Iceberg tables fast and cheap, and proves that no row was lost or revived. Moments are milliseconds "
    "since 1970. Errors are problem details (RFC 9457). Lists have pages: hand `next` back as `after`."
)


def make_app(house: ServiceHouse, door: Guard | None = None, run_metrics: RunMetrics | None = None) -> FastAPI:
    """The app. A worker answers probes and metrics only. `run_metrics`: of the runs of this process."""
    app = FastAPI(
        title="iceberg-compaction",
        version=__version__,
        description=_ABOUT,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=_lifespan,
        redirect_slashes=False,  # behind a proxy the address would be a wrong one, and without TLS
    )
    app.state.desk = make_desk(house, door or guard.make_guard(house), run_metrics)
    problems.install(app)
    app.include_router(probe_routes.router)
    if house.settings.role is not ServiceRole.WORKER:
        app.include_router(page_routes.router)
        for each in _ROUTES:
            app.include_router(each.router)
    app.openapi = partial(_document, app)  # type: ignore[method-assign]
    limits = house.settings.limits
    app.add_middleware(audit_trail.AuditTrail, desk=app.state.desk)
    app.add_middleware(
        request_limits.RequestLimits,
        most_bytes=int(limits.body),
        seconds=limits.request_seconds,
    )
    app.add_middleware(service_metrics.RequestMeter, values=app.state.desk.meter, monotonic=time.monotonic)
    return app


@contextlib.asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Few threads: they take turns anyway, and the more wait for theirs, the longer the slowest answer takes."""
    to_thread.current_default_thread_limiter().total_tokens = _THREADS
    yield


def make_desk(house: ServiceHouse, door: Guard, run_metrics: RunMetrics | None = None) -> ServiceDesk:
    """The desk of a process."""
    entries = house.store.entries
    return ServiceDesk(
        house=house,
        guard=door,
        fleet=FleetView(house=house, monotonic=time.monotonic),
        folders=TableFolders(house=house, monotonic=time.monotonic),
        book=WorkBook(entries=entries, most_queued=house.settings.limits.queued_runs),
        audit=AuditLog(entries=entries, unique=lambda: secrets.token_hex(4)),
        monotonic=time.monotonic,
        pause=time.sleep,
        new_id=lambda: uuid.uuid4().hex,
        meter=metric_values.MetricValues(),
        run_metrics=run_metrics,
        heavy=anyio.CapacityLimiter(4),
        streams=anyio.CapacityLimiter(256),
    )


def _document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document: errors are problems, and a token may come in two ways."""
    if app.openapi_schema is None:
        made = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
            openapi_version="3.1.0",
        )
        schemes = made.setdefault("components", {}).setdefault("securitySchemes", {})
        schemes["bearer"] = {"type": "http", "scheme": "bearer"}
        schemes["basic"] = {"type": "http", "scheme": "basic", "description": "The token is the password."}
        for path, methods in made["paths"].items():
            for operation in methods.values():
                if path.startswith(PREFIX) or path == "/metrics":
                    operation["security"] = [{"bearer": []}, {"basic": []}, {}]
                for status, answer in operation["responses"].items():
                    if status[0] in "45" and "application/json" in answer.get("content", {}):
                        answer["content"] = {problems.MEDIA_TYPE: answer["content"]["application/json"]}
        app.openapi_schema = made
    return app.openapi_schema
