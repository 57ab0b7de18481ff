"""What all parts of a service share: settings, the run store, catalogs, policies, tenants and a clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.interfaces.service.catalog_shelf import CatalogShelf
from iceberg_compaction.interfaces.service.hour_spending import HourSpending
from iceberg_compaction.interfaces.service.notices.notice_queue import NoticeQueue
from iceberg_compaction.interfaces.service.notices.service_notices import ServiceNotices
from iceberg_compaction.interfaces.service.policy_shelf import PolicyShelf
from iceberg_compaction.interfaces.service.tenants import TenantMap

if TYPE_CHECKING:
    from collections.abc import Callable

    from iceberg_compaction.interfaces.service.service_settings import ServiceSettings
    from iceberg_compaction.record.store import RunStore


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceHouse:
    """The parts that live as long as the process."""

    settings: ServiceSettings
    store: RunStore
    catalogs: CatalogShelf
    policies: PolicyShelf
    tenants: TenantMap
    notices: ServiceNotices
    spending: HourSpending
    clock: Callable[[], int] = wiring.now_ms  # milliseconds since 1970

    def tenant_of(self, table: str) -> str | None:
        return self.tenants.tenant_of(table)


def build(settings: ServiceSettings) -> ServiceHouse:
    """The house of these settings. Neither catalogs nor Spark are touched. ConfigError: there is no store, or it
    cannot be one."""
    if settings.store is None:
        raise errors.ConfigError("A service needs a run store; name one with --store or STORE_URL.")
    store, clock = wiring.run_store(settings.store), wiring.now_ms
    tenants = TenantMap(patterns={name: each.tables for name, each in settings.tenants.items()})
    queue = NoticeQueue(entries=store.entries, webhooks=settings.webhooks, clock=clock)
    return ServiceHouse(
        settings=settings,
        store=store,
        catalogs=CatalogShelf(settings=settings.catalogs),
        policies=PolicyShelf(entries=store.entries, file=settings.policy_file, environment=settings.environment),
        tenants=tenants,
        notices=ServiceNotices(queue=queue, tenant_of=tenants.tenant_of, clock=clock),
        spending=HourSpending(store=store, tenant_of=tenants.tenant_of, clock=clock),
    )
