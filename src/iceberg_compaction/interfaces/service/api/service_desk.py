"""What routes share: the house, the guard, the queue, the view of all tables, and who asks. Whoever may not see a table
gets the answer of a table that does not exist."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import anyio
from anyio import to_thread
from fastapi import Depends, Request

from iceberg_compaction import errors
from iceberg_compaction.interfaces.service.access import browser_guard
from iceberg_compaction.interfaces.service.access.guard import Guard
from iceberg_compaction.interfaces.service.api import problems, strict_route
from iceberg_compaction.interfaces.service.api.fleet_view import FleetView
from iceberg_compaction.interfaces.service.api.table_lookup import TableFolders
from iceberg_compaction.interfaces.service.service_house import ServiceHouse
from iceberg_compaction.model import table_names
from iceberg_compaction.model.principal import ANYBODY, Principal, Role
from iceberg_compaction.record.rules.work_book import WorkBook
from iceberg_compaction.record.service.audit_log import AuditLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from iceberg_compaction.observe.metrics.metric_values import MetricValues
    from iceberg_compaction.observe.metrics.run_metrics import RunMetrics

T = TypeVar("T")
_MOST_WAITING = 16  # heavy requests beside those at work


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceDesk:
    """The parts that all requests share."""

    house: ServiceHouse
    guard: Guard
    fleet: FleetView
    folders: TableFolders
    book: WorkBook
    audit: AuditLog
    new_id: Callable[[], str]
    monotonic: Callable[[], float]
    pause: Callable[[float], None]
    meter: MetricValues  # of requests
    run_metrics: RunMetrics | None = None  # of the runs of this process
    woken: list[Callable[[], None]] = field(default_factory=list)  # whoever waits for work in this process
    ending: threading.Event = field(default_factory=threading.Event)  # the process ends: streams do, too
    heavy: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(4))  # plans and looks at a time
    streams: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(256))

    def wake(self) -> None:
        """There is new work."""
        for each in self.woken:
            each()

    async def work(self, function: Callable[[], T]) -> T:
        """Do something that reads tables, with few others at a time. HttpRefusal: too many wait."""
        if self.heavy.statistics().tasks_waiting >= _MOST_WAITING:
            raise problems.HttpRefusal(503, "busy", "Too many plans are being made; try again.", retry_after_s=5)
        return await to_thread.run_sync(function, limiter=self.heavy)

    async def quick(self, function: Callable[[], T]) -> T:
        """Do something that asks the store, and at most a catalog."""
        return await to_thread.run_sync(function)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedName:
    """A table by its full name, its catalog as the service names it, and its tenant."""

    catalog: str
    table: str
    tenant: str | None

    @property
    def missing(self) -> errors.NoSuchTableError:
        """The one answer for tables that do not exist and for those that nobody may know of."""
        return errors.NoSuchTableError(f"There is no table {self.table!r} in the catalog {self.catalog!r}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Who asks, and what they may."""

    desk: ServiceDesk
    principal: Principal
    address: str
    request: Request

    def require(self, role: Role) -> None:
        """ForbiddenError: the role is not enough."""
        self.desk.guard.require(self.principal, role)

    def require_all_tenants(self, role: Role) -> None:
        """The same for what concerns all tenants."""
        self.require(role)
        if self.principal.tenants is not None:
            raise errors.ForbiddenError(
                f"This concerns all tenants; {self.principal.name} stands for {len(self.principal.tenants)} of them."
            )

    def may_see(self, table: str) -> bool:
        """Whether the table exists for whoever asks."""
        return self.principal.may_see(self.desk.house.tenant_of(table))

    def catalog_name(self, given: str | None) -> str:
        """The catalog that is meant; ConfigError: there is none of that name."""
        name = given or self.desk.house.settings.default_catalog
        self.desk.house.catalogs.entry(name)
        return name

    def catalog(self, name: str) -> Any:
        """The catalog. CatalogError: it cannot be used now; that its settings are wrong is no fault of who asks."""
        try:
            return self.desk.house.catalogs.catalog(name)
        except errors.ConfigError as error:
            raise errors.CatalogError(f"The catalog {name!r} cannot be used: {error}") from None

    def table(self, given: str, catalog: str | None = None) -> ServedName:
        """The table that is meant. A bare name is looked for among the tables that whoever asks may see.
        NoSuchTableError: there is none for them."""
        catalog_name = self.catalog_name(catalog)
        if table_names.is_pattern(given):
            raise errors.ConfigError(f"{given[:100]!r} is a pattern; name one table, or quote a name that has signs.")
        parts = table_names.parse(given)
        namespace = self.desk.house.catalogs.entry(catalog_name).namespace
        if len(parts) == 1 and namespace:
            parts = (*table_names.parse(namespace), *parts)
        name = table_names.text(parts)
        if len(parts) == 1:
            name = self._only(name, parts[0], catalog_name)
        served = ServedName(catalog=catalog_name, table=name, tenant=self.desk.house.tenant_of(name))
        self.note(catalog=served.catalog, table=served.table, tenant=served.tenant)
        if not self.principal.may_see(served.tenant):
            raise served.missing
        return served

    def note(self, **facts: Any) -> None:
        """Facts of the request for the audit log."""
        self.request.state.audit = {**getattr(self.request.state, "audit", {}), **facts}

    def _only(self, name: str, bare: str, catalog_name: str) -> str:
        from iceberg_compaction.catalog import load_tables

        listed = load_tables.list_tables(self.catalog(catalog_name))
        meant = [full for full in listed if table_names.parse(full)[-1] == bare and self.may_see(full)]
        if not meant:
            raise ServedName(catalog=catalog_name, table=name, tenant=None).missing
        if len(meant) > 1:
            raise errors.ConfigError(
                f"{len(meant)} namespaces have a table {name}: {', '.join(meant[:5])}; name one of them."
            )
        return meant[0]


def desk_of(request: Request) -> ServiceDesk:
    """The desk of the app."""
    desk: ServiceDesk = request.app.state.desk
    return desk


async def asking(request: Request) -> Asking:
    """Who sends a request. UnauthenticatedError, TooManyError: nobody that is known, or they ask too often. Most
    clients were seen a moment ago: then no other thread is needed."""
    desk = desk_of(request)
    address = request.client.host if request.client else ""
    header = request.headers.get("authorization")
    if desk.guard.is_sure(header):
        principal = desk.guard.principal(header, address)
    else:
        principal = await to_thread.run_sync(desk.guard.principal, header, address)
    request.state.principal = principal
    if principal is ANYBODY:
        browser_guard.check(request, is_fixed=desk.guard.is_fixed)
    strict_route.check_query(request)
    return Asking(desk=desk, principal=principal, address=address, request=request)


Somebody = Annotated[Asking, Depends(asking)]
