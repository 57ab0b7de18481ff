"""The flags about triggers and parallel readers, which all verbs with a policy have. No heavy import here: this module
is loaded for `--help`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from iceberg_compaction.interfaces.cli.flags.cost_options import CostOptions

_WHEN = "When to rewrite"


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerOptions(CostOptions):
    """Which partitions are planned at all, and how much is left for readers."""

    triggers: Annotated[
        str | None,
        typer.Option(
            metavar="PRESET",
            help="Only partitions that a trigger asks for: guide, amoro, or strategy for no trigger; default strategy.",
            rich_help_panel=_WHEN,
        ),
    ] = None
    trigger: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="One threshold of a trigger, such as max_file_count_per_partition=50; repeatable.",
            rich_help_panel=_WHEN,
        ),
    ] = None
    read_parallelism: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Leave at least N files or row groups for parallel readers; default 0, no limit.",
            rich_help_panel=_WHEN,
        ),
    ] = None
