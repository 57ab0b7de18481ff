"""How the difference of two plans looks to people: figures side by side, options that differ, and groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from iceberg_compaction.interfaces.cli.screens import paragraphs
from iceberg_compaction.interfaces.cli.screens.grid import figures, grid, sentences
from iceberg_compaction.model import plan_cost
from iceberg_compaction.model.byte_size import format_size
from iceberg_compaction.model.plan_difference import GroupChange

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from iceberg_compaction.model.plan_difference import FigureChange, PlanDifference

_MOST_GROUPS = 20


def story(difference: PlanDifference) -> Iterator[RenderableType]:
    """Everything about the difference; of many groups the first."""
    yield paragraphs.Named(name=difference.table, sentence=f"{difference.sentence}")
    yield ""
    table = grid("", figures("Old plan"), figures("New plan"), figures("Change"))
    for figure in difference.figures:
        old, new, size = (_text(figure, value) for value in (figure.old, figure.new, abs(figure.change)))
        sign = "" if size == _text(figure, 0) else "+" if figure.change > 0 else "-"
        table.add_row(escape(figure.name), old, new, sign + size)
    yield table
    if difference.options:
        options = grid("Option", "Old plan", "New plan")
        for option in difference.options:
            options.add_row(escape(option.name), escape(option.old), escape(option.new))
        yield options
    yield from _groups(difference)


def _groups(difference: PlanDifference) -> Iterator[RenderableType]:
    if not difference.groups:
        return
    shown = grid("Group", figures("Files"), figures("Were", drop=1), figures("Size", drop=2), sentences("Why"))
    for group in difference.groups[:_MOST_GROUPS]:
        size = format_size(group.new_bytes or group.old_bytes)
        counts = (f"{group.new_files:,}", f"{group.old_files:,}", size)
        shown.add_row(group.change.value, *counts, escape(group.sentence))
    yield shown
    if any(group.change is not GroupChange.NEW for group in difference.groups):
        for sentence in difference.left_out:
            yield paragraphs.bullet(f"Left alone now: {sentence}.")
    more = len(difference.groups) - _MOST_GROUPS
    if more > 0:
        yield paragraphs.Paragraph(text=f"And {more:,} more; --output json lists every group.")


def _text(figure: FigureChange, value: float) -> str:
    if figure.name == "bytes":
        return format_size(value)
    if figure.name in ("cost", "saving"):
        return plan_cost.dollars(value)
    return f"{value:,.1f}" if figure.name == "core-seconds" else f"{value:,.0f}"
