"""The report of one run as one HTML page that needs nothing else. A report comes in, text goes out; everything that
comes from a table is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from iceberg_compaction.interfaces import run_words
from iceberg_compaction.interfaces.html import outcome_parts, page, run_charts, tags
from iceberg_compaction.interfaces.html.script import COPY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.interfaces.html.sections import Command
    from iceberg_compaction.model.run_report import RunReport

_MOST_EVENTS = 500


def render(report: RunReport, command: Command) -> str:
    """The whole document."""
    title = f"Run {escape(report.run_id[:8])} on {escape(report.table)}"
    return page.document(title, "", parts(report, command), COPY)


def parts(report: RunReport, command: Command) -> list[str]:
    """The parts of the document, for a page of another kind, too."""
    state = run_words.state(report)
    outcome = None if report.record is None else report.record.outcome
    shown = [
        f"<h1>{tags.name(report.table)}</h1>",
        f'<p>{tags.badge(state)} <span class="soft">run <code>{escape(report.run_id)}</code>, '
        f"{escape(run_words.time_taken(report))}</span></p>",
        f"<p>{tags.sentence(report.sentence)}</p>",
        "" if outcome is None else outcome_parts.tiles(outcome),
        _before_and_after(report),
        _plan_and_time(report),
        "" if outcome is None else outcome_parts.groups(outcome),
        _commits(report),
        _over_time(report),
        _events(report),
        _followed(report),
        _unknown(report),
        _commands(report, command),
    ]
    return [part for part in shown if part]


def _before_and_after(report: RunReport) -> str:
    rows = run_words.before_and_after(report)
    if not rows:
        return ""
    figures = _figures(("The table", ">Before", ">After", ">Change"), rows, "The table before and after the run")
    sizes = ""
    if bars := run_words.sizes(report):
        key = '<p class="soft">Grey: before the run. Coloured: after it, with nobody else\'s changes.</p>'
        sizes = f"<div><h3>Sizes</h3>{run_charts.sizes(bars)}{key}</div>"
    return tags.card("Before and after", f'<div class="columns"><div>{figures}</div>{sizes}</div>')


def _plan_and_time(report: RunReport) -> str:
    rows, stages = run_words.predicted_and_actual(report), run_words.stages(report)
    columns = ""
    if rows:
        names = ("The plan", ">Predicted", ">Actual", ">Difference")
        note = f'<p class="soft">{escape(run_words.forecast_note(report))}</p>'
        columns += f"<div><h3>Predicted and actual</h3>{_figures(names, rows, 'Predicted and actual')}{note}</div>"
    if stages:
        columns += f"<div><h3>Time by stage</h3>{run_charts.stages(stages)}</div>"
    facts = "".join(f"<li>{tags.sentence(fact)}</li>" for fact in run_words.facts(report))
    proof = f"<h3>Proof and effort</h3><ul>{facts}</ul>" if facts else ""
    if not columns and not proof:
        return ""
    return tags.card("Plan, time and proof", f'<div class="columns">{columns}</div>{proof}')


def _commits(report: RunReport) -> str:
    rows = [
        [
            f"<code>{commit.snapshot_id}</code>",
            "" if commit.at_ms is None else f"{run_words.moment(commit.at_ms)} UTC",
            "" if commit.groups is None else f"{commit.groups:,}",
            "" if commit.attempts is None else f"{commit.attempts:,}",
        ]
        for commit in report.commits
    ]
    names = ("Snapshot", "Committed", ">Groups", ">Attempts")
    return tags.card("Commits", tags.table(names, rows, caption="Commits of the run")) if rows else ""


def _over_time(report: RunReport) -> str:
    moments = [at_ms for at_ms in (report.started_ms, report.finished_ms) if at_ms is not None]
    drawings = run_charts.over_time(report.health, moments)
    return tags.card("The table over time", f'<div class="columns">{_each(drawings)}</div>') if drawings else ""


def _each(drawings: str) -> str:
    return "".join(f"<div>{figure}</figure></div>" for figure in drawings.split("</figure>") if figure)


def _events(report: RunReport) -> str:
    rows = [
        [run_words.moment(each.at_ms), tags.sentence(run_words.event_words(each.event))]
        for each in report.events[:_MOST_EVENTS]
    ]
    return tags.card("Events", tags.table(("Time (UTC)", "Event"), rows, caption="Events of the run")) if rows else ""


def _followed(report: RunReport) -> str:
    rows = [
        [
            f"<code>{escape(run.run_id[:8])}</code>",
            run_words.moment(run.started_ms),
            escape(run.kind.value),
            tags.sentence(run.sentence),
        ]
        for run in report.followed_by
    ]
    names = ("Run", "Started (UTC)", "Outcome", "What happened")
    return tags.card("Later runs on the table", tags.table(names, rows, caption="Later runs")) if rows else ""


def _unknown(report: RunReport) -> str:
    items = "".join(f"<li>{tags.sentence(sentence)}</li>" for sentence in report.unknown)
    return tags.card("Not known", f"<ul>{items}</ul>") if items else ""


def _commands(report: RunReport, command: Command) -> str:
    lines = [command("report", report.run_id), command("history", "--table", report.table)]
    lines += [] if report.command is None else [report.command]
    return tags.card("Commands", "".join(tags.command(line) for line in lines))


def _figures(names: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> str:
    return tags.table(names, [[escape(text) for text in row] for row in rows], caption=caption)
