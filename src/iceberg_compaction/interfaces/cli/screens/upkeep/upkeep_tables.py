"""How plans and outcomes of housekeeping look to people; the same for all operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from iceberg_compaction.interfaces.cli.screens import paragraphs, result_tables
from iceberg_compaction.interfaces.cli.screens.grid import figures, grid, sentences
from iceberg_compaction.model.byte_size import format_size
from iceberg_compaction.model.outcome import Maintained

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from iceberg_compaction.model.outcome import Outcome
    from iceberg_compaction.model.upkeep_plan import UpkeepPlan, UpkeepStep


def plans_overview(plans: Sequence[UpkeepPlan]) -> RenderableType:
    """One line for each table."""
    tables = grid("Table", sentences("Plan"))
    for plan in plans:
        tables.add_row(escape(plan.table), escape(plan.sentence))
    return tables


def plan_story(plan: UpkeepPlan) -> Iterator[RenderableType]:
    """What would be done, what stays, and why."""
    yield paragraphs.plan_head(plan.table, None, plan.sentence)
    if plan.steps:
        yield ""
        yield _lines("What goes or changes", plan.steps)
    if plan.kept:
        yield ""
        yield _lines("What stays", plan.kept)
    for note in plan.notes:
        yield paragraphs.bullet(note)


def overview(outcomes: Sequence[Outcome]) -> Iterator[RenderableType]:
    """One line for each table, and then what happened in words."""
    table = grid("Table", "Outcome", sentences("Done"), figures("Seconds", drop=1))
    for one in outcomes:
        done = one.figures if isinstance(one, Maintained) else {}
        words = ", ".join(f"{count:,} {name.replace('-', ' ')}" for name, count in done.items() if count)
        table.add_row(escape(one.table), result_tables.outcome_kind(one), escape(words), f"{one.seconds:.1f}")
    yield table
    for one in outcomes:
        yield paragraphs.Named(name=one.table, sentence=one.sentence)
        for note in one.notes if isinstance(one, Maintained) else ():
            yield paragraphs.bullet(note)


def _lines(title: str, steps: Sequence[UpkeepStep]) -> RenderableType:
    lines = grid(title, figures("Number"), figures("Size", drop=1), sentences("Why"))
    for step in steps:
        size = "" if step.bytes is None else format_size(step.bytes)
        lines.add_row(escape(step.name), f"{step.count:,}", size, escape(step.sentence))
    return lines
