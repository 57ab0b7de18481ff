"""All tables as the run store has them, in memory for some seconds: lists, ranks and sums over ten thousand tables are
asked for far more often than they change. Entries that have not changed are not parsed again."""

from __future__ import annotations

import logging
import threading
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pydantic

from iceberg_compaction.model.run_figures import HealthEntry
from iceberg_compaction.model.service_answers import FleetFigures, RankedLook, TenantSpending
from iceberg_compaction.record import health_log
from iceberg_compaction.record.entries import keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from iceberg_compaction.interfaces.service.service_house import ServiceHouse
    from iceberg_compaction.model.principal import Principal
    from iceberg_compaction.record.entries.door import StoreEntry

_FRESH_S = 3.0  # looks at tables
_AT_ONCE = 500  # looks
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLooks:
    """The last look at each table, at one moment. Three lists of the same looks."""

    at_ms: int
    by_name: tuple[HealthEntry, ...] = ()  # by table and catalog
    names: tuple[tuple[str, str], ...] = ()  # of `by_name`
    by_rank: tuple[HealthEntry, ...] = ()  # the sickest first
    of_table: dict[str, tuple[HealthEntry, ...]] = field(default_factory=dict)
    figures: dict[str | None, FleetFigures] = field(default_factory=dict)  # by tenant

    def after(self, table: str, catalog: str) -> Iterator[HealthEntry]:
        """The looks by name, from the one after this on."""
        yield from self.by_name[bisect_right(self.names, (table, catalog)) if table else 0 :]


@dataclass(slots=True, kw_only=True)
class FleetView:
    """The view of one process. Threads share it; one of them reads the store at a time, and the others take what is
    there, if it is not too old."""

    house: ServiceHouse
    monotonic: Callable[[], float]
    _looks: TableLooks | None = None
    _parsed: dict[str, tuple[int, HealthEntry]] = field(default_factory=dict)  # by key, with the version
    _read_at: float = 0.0
    _reading: threading.Lock = field(default_factory=threading.Lock)

    def looks(self) -> TableLooks:
        """The looks, at most some seconds old."""
        present = self._looks
        if present is not None and self.monotonic() - self._read_at < _FRESH_S:
            return present
        if not self._reading.acquire(blocking=present is None):
            assert present is not None  # another thread is at it, and what is there will do
            return present
        try:
            if self._looks is None or self.monotonic() - self._read_at >= _FRESH_S:
                self._looks = self._read()
                self._read_at = self.monotonic()
            return self._looks
        finally:
            self._reading.release()

    def figures(self, principal: Principal) -> dict[str | None, FleetFigures]:
        """Sums by tenant, of those that somebody may see."""
        return {tenant: sums for tenant, sums in self.looks().figures.items() if principal.may_see(tenant)}

    def spending(self, principal: Principal) -> list[TenantSpending]:
        """What tenants have spent in the last hour, against their limits."""
        spent = self.house.spending.by_tenant()
        limits = {name: each.hourly_cost_limit for name, each in self.house.settings.tenants.items()}
        tenants = sorted({*limits, *spent}, key=lambda name: (name is not None, name or ""))
        return [
            TenantSpending(
                tenant=tenant,
                hour_cost=round(sum(spent.get(tenant, ())), 6),
                hourly_limit=limits.get(tenant) if tenant is not None else None,
                runs=len(spent.get(tenant, ())),
            )
            for tenant in tenants
            if principal.may_see(tenant)
        ]

    def _read(self) -> TableLooks:
        parsed: dict[str, tuple[int, HealthEntry]] = {}
        for row in self._rows():
            before = self._parsed.get(row.key)
            if before is not None and before[0] == row.version:
                parsed[row.key] = before
                continue
            try:
                parsed[row.key] = (row.version, HealthEntry.model_validate_json(row.value))
            except pydantic.ValidationError:
                _log.warning("The entry %s of the run store is unreadable and ignored.", row.key)
        at_ms = self.house.clock()
        if (
            self._looks is not None
            and parsed.keys() == self._parsed.keys()
            and all(parsed[key] is before for key, before in self._parsed.items())
        ):
            return replace(self._looks, at_ms=at_ms)
        self._parsed = parsed
        entries = [entry for _, entry in parsed.values()]
        by_name = sorted(entries, key=lambda entry: (entry.table, entry.catalog))
        of_table: dict[str, list[HealthEntry]] = defaultdict(list)
        of_tenant: dict[str | None, list[HealthEntry]] = defaultdict(list)
        for entry in by_name:
            of_table[entry.table].append(entry)
            of_tenant[self.house.tenant_of(entry.table)].append(entry)
        return TableLooks(
            at_ms=at_ms,
            by_name=tuple(by_name),
            names=tuple((entry.table, entry.catalog) for entry in by_name),
            by_rank=tuple(sorted(by_name, key=_sickness)),
            of_table={table: tuple(each) for table, each in of_table.items()},
            figures={tenant: _figures(each) for tenant, each in of_tenant.items()},
        )

    def _rows(self) -> Iterator[StoreEntry]:
        """The last look at each table, read in parts: other threads ask the store in between."""
        prefix, after = keys.prefix(health_log.LATEST), ""
        while page := self.house.store.entries.scan(prefix, after=after, limit=_AT_ONCE):
            yield from page
            after = page[-1].key


def ranked(rank: int, entry: HealthEntry, tenant: str | None) -> RankedLook:
    """A look with its rank."""
    figures = entry.figures
    return RankedLook(
        rank=rank,
        table=entry.table,
        catalog=entry.catalog,
        tenant=tenant,
        score=figures.score,
        sick=figures.sick,
        data_files=figures.data_files,
        small_files=figures.small_files,
        delete_files=figures.delete_files,
        bytes=figures.bytes,
        seen_ms=entry.at_ms,
    )


def total(parts: list[FleetFigures]) -> FleetFigures:
    """Sums of sums."""
    weights = [(part.score, max(1, part.bytes)) for part in parts if part.score is not None]
    weight = sum(each for _, each in weights)
    names = ("tables", "sick", "unscored", "bytes", "data_files", "small_files", "delete_files")
    return FleetFigures(
        score=round(sum(score * each for score, each in weights) / weight, 1) if weight else None,
        **{name: sum(getattr(part, name) for part in parts) for name in names},
    )


def _figures(entries: list[HealthEntry]) -> FleetFigures:
    figures = [entry.figures for entry in entries]
    scored = [(each.score, max(1, each.bytes)) for each in figures if each.score is not None]
    weight = sum(each for _, each in scored)
    return FleetFigures(
        tables=len(figures),
        sick=sum(1 for each in figures if each.sick),
        unscored=len(figures) - len(scored),
        score=round(sum(score * each for score, each in scored) / weight, 1) if weight else None,
        bytes=sum(each.bytes for each in figures),
        data_files=sum(each.data_files for each in figures),
        small_files=sum(each.small_files for each in figures),
        delete_files=sum(each.delete_files for each in figures),
    )


def _sickness(entry: HealthEntry) -> tuple[bool, float, int, str, str]:
    """Low scores first, then many small files; tables without a score come last."""
    figures = entry.figures
    return figures.score is None, figures.score or 0, -figures.small_files, entry.table, entry.catalog
