"""How the report of a run looks in a terminal: small tables with one line for each figure, and sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from iceberg_compaction.interfaces import run_words
from iceberg_compaction.interfaces.cli.screens import paragraphs, result_tables
from iceberg_compaction.interfaces.cli.screens.grid import GridColumn, figures, grid, sentences

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from iceberg_compaction.model.run_report import RunReport

_BAR = 20  # cells
_MOST_EVENTS = 30


def story(report: RunReport) -> Iterator[RenderableType]:
    """The whole report."""
    head = f"run {report.run_id}, {run_words.state(report)}, {run_words.time_taken(report)}"
    yield paragraphs.Named(name=report.table, sentence=head)
    yield paragraphs.detail(report.sentence)
    if report.command is not None:
        yield paragraphs.Command(label="  To go on:", command=report.command)
    yield ""
    yield from _figures(report)
    yield from _stages(report)
    yield from _groups(report)
    yield from _commits(report)
    yield from (paragraphs.Paragraph(text=fact) for fact in run_words.facts(report))
    yield from _events(report)
    yield from _followed(report)
    if report.unknown:
        yield "Not known:"
        yield from (paragraphs.bullet(sentence) for sentence in report.unknown)


def _figures(report: RunReport) -> Iterator[RenderableType]:
    if rows := run_words.before_and_after(report):
        table = grid("The table", figures("Before"), figures("After"), figures("Change"))
        for row in rows:
            table.add_row(*row)
        yield table
    if bars := run_words.sizes(report):
        most = max((max(before, after) for _, before, after in bars), default=0) or 1
        table = grid("Sizes of data files", figures("Before"), figures("After"), GridColumn(name="After, as bars"))
        for label, before, after in bars:
            table.add_row(escape(label), f"{before:,}", f"{after:,}", _bar(after / most))
        yield table
    if rows := run_words.predicted_and_actual(report):
        table = grid("The plan", figures("Predicted"), figures("Actual"), figures("Difference"))
        for row in rows:
            table.add_row(*row)
        yield table
        yield paragraphs.Paragraph(text=run_words.forecast_note(report))
        yield ""


def _stages(report: RunReport) -> Iterator[RenderableType]:
    if not report.stages:
        return
    table = grid("Stage", figures("Time"), figures("Share"), GridColumn(name="As bars"))
    for name, seconds, share in run_words.stages(report):
        table.add_row(name, run_words.span(seconds), f"{share:.0%}", _bar(share))
    yield table


def _groups(report: RunReport) -> Iterator[RenderableType]:
    if ends := run_words.group_ends(report):
        table = grid("Groups", figures("Number"))
        for name, number in ends:
            table.add_row(name, f"{number:,}")
        yield table
    if report.record is not None:
        yield from result_tables.groups_left(report.record.outcome)


def _commits(report: RunReport) -> Iterator[RenderableType]:
    if not report.commits:
        return
    table = grid("Snapshot", "Committed (UTC)", figures("Groups"), figures("Attempts"))
    for commit in report.commits:
        table.add_row(
            str(commit.snapshot_id),
            "" if commit.at_ms is None else run_words.moment(commit.at_ms),
            "" if commit.groups is None else f"{commit.groups:,}",
            "" if commit.attempts is None else f"{commit.attempts:,}",
        )
    yield table


def _events(report: RunReport) -> Iterator[RenderableType]:
    if not report.events:
        return
    yield ""
    table = grid("Time (UTC)", sentences("Event"))
    for each in report.events[:_MOST_EVENTS]:
        table.add_row(run_words.moment(each.at_ms), escape(run_words.event_words(each.event)))
    yield table
    if len(report.events) > _MOST_EVENTS:
        yield f"… and {len(report.events) - _MOST_EVENTS:,} more events (--output json shows all)."


def _followed(report: RunReport) -> Iterator[RenderableType]:
    if not report.followed_by:
        return
    table = grid("Later run", "Started (UTC)", "Outcome", sentences("What happened", drop=1))
    for run in report.followed_by:
        table.add_row(run.run_id[:8], run_words.moment(run.started_ms), run.kind.value, escape(run.sentence))
    yield table


def _bar(share: float) -> str:
    return "█" * max(round(_BAR * share), 1 if share else 0)
