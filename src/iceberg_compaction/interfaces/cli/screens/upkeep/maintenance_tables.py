"""How the upkeep of tables looks to people: a line for each step of each table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from iceberg_compaction.interfaces.cli.screens import result_tables
from iceberg_compaction.interfaces.cli.screens.grid import grid, sentences

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from iceberg_compaction.model.maintenance import TableMaintenance


def overview(results: Sequence[TableMaintenance]) -> RenderableType:
    """What was done, step by step."""
    table = grid("Table", "Step", "Outcome", sentences("What happened"))
    for each in results:
        for number, step in enumerate(each.steps):
            name = escape(each.table) if number == 0 else ""
            table.add_row(
                name, step.step.value, result_tables.outcome_kind(step.outcome), escape(step.outcome.sentence)
            )
    return table
