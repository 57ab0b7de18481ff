"""`iceberg-compact usage`: what tenants have used in a month, from the run store."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from iceberg_compaction.interfaces.cli import exits, logs, options, spread

if TYPE_CHECKING:
    from collections.abc import Callable


class UsageAction(str, Enum):
    """What to do."""

    EXPORT = "export"
    SHOW = "show"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageOptions:
    """Which month, and who the tenants are."""

    month: Annotated[
        str | None, typer.Option(metavar="YYYY-MM", help="The month, in UTC; default: the current one.")
    ] = None
    settings: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The settings of the service, which name tenants; default: by policies."),
    ] = None


@exits.reported
@spread.spread
def usage_of_tenants(
    action: Annotated[
        UsageAction, typer.Argument(metavar="ACTION", help="export (CSV, or JSON) or show.", show_default=False)
    ],
    console: options.ConsoleOptions,
    how: UsageOptions,
    state: options.State = None,
) -> None:
    """Show or export what each tenant has used in a month: runs, bytes, requests, compute seconds, cost.

    Examples:

        iceberg-compact usage show

        iceberg-compact usage export --month 2026-10 > usage.csv

        iceberg-compact usage export --month 2026-10 --settings service.yaml --output json
    """
    logs.configure(console)
    from iceberg_compaction.interfaces import usage_files, wiring
    from iceberg_compaction.interfaces.cli import output
    from iceberg_compaction.record.service import month_usage

    month = how.month or month_usage.month_of(wiring.now_ms())
    month_usage.month_bounds(month)
    chosen, tenant_of = _tenants(how.settings, state)
    store = wiring.store_to_read(chosen)
    rows = [] if store is None else month_usage.usage(store, month_usage.UsageRequest(month=month, tenant_of=tenant_of))
    if action is UsageAction.EXPORT and console.output is options.Format.TABLE:
        sys.stdout.write(usage_files.csv_text(rows))
        return
    output.output(console.output).usage(rows, month)


def _tenants(file: str | None, state: str | None) -> tuple[str | None, Callable[[str], str | None]]:
    """The store, and the tenant of each table."""
    if file is None:
        return state, lambda table: None
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.interfaces.service import tenants

    loaded = wiring.service_settings(file)
    tenant_map = tenants.TenantMap(patterns={name: each.tables for name, each in loaded.tenants.items()})
    return state or loaded.store, tenant_map.tenant_of
