"""The flags about money: prices, expected scans, and budgets. `options` has the others; values stay text here, too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

_COST = "Cost and budgets"


@dataclass(frozen=True, slots=True, kw_only=True)
class CostOptions:
    """What work may cost, and what it is worth."""

    max_cost: Annotated[
        str | None,
        typer.Option(metavar="DOLLARS", help="What all work of the command may cost.", rich_help_panel=_COST),
    ] = None
    hourly_cost_limit: Annotated[
        str | None,
        typer.Option(
            metavar="DOLLARS", help="What all runs of the tenant may cost within an hour.", rich_help_panel=_COST
        ),
    ] = None
    tenant: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Whose hourly limit the work counts against.", rich_help_panel=_COST),
    ] = None
    scans_per_day: Annotated[
        str | None,
        typer.Option(metavar="N", help="Scans that read a file on a day; default 24.", rich_help_panel=_COST),
    ] = None
    horizon_days: Annotated[
        str | None,
        typer.Option(metavar="DAYS", help="Days over which savings count; default 30.", rich_help_panel=_COST),
    ] = None
    prices: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            envvar="ICEBERG_COMPACTION_PRICES",
            help="Prices of requests, computing and storage: a YAML or JSON file, or NAME=DOLLARS pairs.",
            rich_help_panel=_COST,
        ),
    ] = None
