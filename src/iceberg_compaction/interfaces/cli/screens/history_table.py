"""How past runs, and runs that have not ended, look to people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from iceberg_compaction.interfaces import run_words
from iceberg_compaction.interfaces.cli.screens import paragraphs, result_tables
from iceberg_compaction.interfaces.cli.screens.grid import GridColumn, figures, grid, sentences
from iceberg_compaction.model.outcome import Kind
from iceberg_compaction.model.run_listing import RunState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from iceberg_compaction.model.run_listing import UnfinishedListing
    from iceberg_compaction.model.run_record import RunRecord

_SHORT = 8  # characters of an id


def history(
    found: Sequence[RunRecord], unfinished: Sequence[UnfinishedListing], *, filtered: bool
) -> Iterator[RenderableType]:
    """Runs without an end, then past runs, the newest first: a line for each, and what happened in words."""
    if not found and not unfinished:
        yield "No run fits these options." if filtered else "No run is recorded."
        return
    table = grid(
        "Table",
        GridColumn(name="Started (UTC)"),
        GridColumn(name="Run", drop=2),
        "Outcome",
        figures("Files", drop=1),
        figures("Copied", drop=4),
        figures("Seconds", drop=3),
        sentences("What happened", least=40, drop=5),
    )
    for run in unfinished:
        colour = "cyan" if run.state is RunState.RUNNING else "red"
        words = run.sentence.partition(". ")[0].rstrip(".") + "."
        start = (escape(run.table), run_words.moment(run.started_ms), run.run_id[:_SHORT])
        table.add_row(*start, f"[{colour}]{run.state.value}[/]", "", "", "", escape(words))
    for entry in found:
        one = entry.outcome
        table.add_row(
            escape(entry.table),
            run_words.moment(entry.started_ms),
            entry.run_id[:_SHORT],
            result_tables.outcome_kind(one) + (f" by {escape(one.operation)}" if one.kind is Kind.MAINTAINED else ""),
            f"{one.files_removed:,} -> {one.files_added:,}" if one.files_removed else "",
            f"{one.effort.copied_share:.0%}" if one.effort.groups else "",
            f"{one.seconds:.1f}",
            escape(one.sentence),
        )
    table.instead["What happened"] = [
        paragraphs.Named(name=f"{entry.run_id[:_SHORT]} {entry.table}", sentence=entry.outcome.sentence)
        for entry in found
        if not entry.outcome.ok
    ]
    yield table
    for run in unfinished:
        if run.state is RunState.STOPPED:
            yield paragraphs.Named(name=run.table, sentence=f"run {run.run_id[:_SHORT]}: {run.sentence}")
            if run.command is not None:
                yield paragraphs.Command(label="  To go on:", command=run.command)
