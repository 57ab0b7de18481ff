"""A run's report in words and short figures, for the terminal and the page alike."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from typing_extensions import assert_never

from iceberg_compaction.model import events, plurals
from iceberg_compaction.model.byte_size import format_size
from iceberg_compaction.model.outcome import GroupEnd

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iceberg_compaction.model.events import Event
    from iceberg_compaction.model.outcome import Outcome
    from iceberg_compaction.model.run_figures import TableFigures
    from iceberg_compaction.model.run_report import RunReport

_GROUP_WORDS = {
    GroupEnd.COMMITTED: "committed",
    GroupEnd.CONFLICT: "in conflict",
    GroupEnd.FAILED: "failed",
    GroupEnd.DROPPED: "dropped",
    GroupEnd.UNKNOWN: "unknown",
    GroupEnd.NOT_REACHED: "not reached",
}

_MANY_TIMES = 10


def moment(milliseconds: int) -> str:
    """A moment in UTC, to the second."""
    return f"{datetime.fromtimestamp(milliseconds / 1000, timezone.utc):%Y-%m-%d %H:%M:%S}"


def span(seconds: float) -> str:
    """A duration: with hundredths below ten seconds, and tenths below a minute."""
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def state(report: RunReport) -> str:
    """How the run ended, or how far it is, in one word."""
    return report.state.value if report.record is None else report.record.outcome.kind.value


def time_taken(report: RunReport) -> str:
    """When it began and how long it took."""
    if report.finished_ms is None:
        return f"began {moment(report.started_ms)} UTC"
    return f"{moment(report.started_ms)} UTC, took {span((report.finished_ms - report.started_ms) / 1000)}"


def before_and_after(report: RunReport) -> list[tuple[str, str, str, str]]:
    """Name, figure before, figure after, difference. Only figures that are there."""
    before, after = report.before, _after(report)
    if before is None:
        return []
    counts = {
        "Data files": "data_files",
        "Small files": "small_files",
        "Large files": "large_files",
        "Delete files": "delete_files",
        "Row groups": "row_groups",
        "Rows": "records",
        "Snapshots": "snapshots",
        "Score": "score",
    }
    rows = []
    for name, field in counts.items():
        old, new = getattr(before, field), getattr(after, field, None)
        if old is not None and (old or new or field == "data_files"):
            rows.append(
                (name, f"{old:,}", "" if new is None else f"{new:,}", "" if new is None else _signed(new - old))
            )
    for name, field in {"Size": "bytes", "Mean file": "mean_file_bytes"}.items():
        old, new = getattr(before, field), getattr(after, field, None)
        rows.append((name, format_size(old), *(("", "") if new is None else (format_size(new), _share(old, new)))))
    return rows


def _after(report: RunReport) -> TableFigures | None:
    """The table after the run: as it was, if the run ended and committed nothing. None: the run may go on."""
    return report.after or (None if report.record is None else report.before)


def predicted_and_actual(report: RunReport) -> list[tuple[str, str, str, str]]:
    """Name, the plan's figure, the run's figure, difference."""
    plan, run = report.forecast, report.actual
    if plan is None or not (plan.files or plan.groups):
        return []
    amounts = {
        "Files to rewrite": ("files", "{:,}".format),
        "Files written": ("output_files", "{:,}".format),
        "Groups": ("groups", "{:,}".format),
        "Bytes read": ("bytes", format_size),
        "Copied as bytes": ("copied_bytes", format_size),
        "Time of workers": ("core_seconds", span),
    }
    rows = []
    for name, (field, text) in amounts.items():
        predicted, actual = getattr(plan, field), None if run is None else getattr(run, field)
        is_told = actual is not None and text(predicted) != text(actual)
        difference = _share(predicted, actual) if is_told and actual is not None else ""
        rows.append((name, text(predicted), "" if actual is None else text(actual), difference))
    return rows


def forecast_note(report: RunReport) -> str:
    """The origin of the forecast; empty without one."""
    if report.forecast is None or not report.forecast.files:
        return ""
    return (
        "The time was predicted by rates of earlier runs."
        if report.forecast.measured
        else "The time was predicted by assumed rates: no earlier run had measured any."
    )


def stages(report: RunReport) -> list[tuple[str, float, float]]:
    """Name, seconds, share of the run."""
    total = sum(each.seconds for each in report.stages)
    return [(each.stage.value, each.seconds, each.seconds / total if total else 0.0) for each in report.stages]


def sizes(report: RunReport) -> list[tuple[str, int, int]]:
    """Bar of the histogram, files before, files after. None without an end: nobody knows how the files are now."""
    before, after = report.before, _after(report)
    if before is None or after is None:
        return []
    return [(old.label, old.files, new.files) for old, new in zip(before.histogram, after.histogram, strict=False)]


def group_ends(report: RunReport) -> list[tuple[str, int]]:
    """How groups ended, and how many did so."""
    return [] if report.record is None else ends_of(report.record.outcome)


def ends_of(outcome: Outcome) -> list[tuple[str, int]]:
    """The same of an outcome."""
    ends = Counter(group.outcome for group in outcome.group_outcomes)
    ends[GroupEnd.COMMITTED] = outcome.groups_landed
    return [(_GROUP_WORDS[end], ends[end]) for end in GroupEnd if ends[end]]


def facts(report: RunReport) -> Iterator[str]:
    """The proof, the effort, requests, tasks and memory in sentences."""
    if report.record is not None:
        yield from facts_of(report.record.outcome)
    if (tasks := report.tasks) is not None:
        failed = f", {tasks.failed:,} failed" if tasks.failed else ""
        yield (
            f"{plurals.count(tasks.tasks, 'task')}{failed}: {format_size(tasks.bytes_read)} read, "
            f"{format_size(tasks.bytes_written)} written to {plurals.count(tasks.files, 'file')}; the longest took "
            f"{span(tasks.longest_seconds)} of {span(tasks.seconds)} in all."
        )


def facts_of(outcome: Outcome) -> Iterator[str]:
    """The proof, the effort, requests and memory of an outcome."""
    proof = outcome.proof.sentence if outcome.proof is not None else ""
    effort = outcome.effort
    yield from filter(None, (proof, effort.sentence, outcome.requests.sentence, effort.memory_sentence))


def event_words(event: Event) -> str:
    """An event for people."""
    match event:
        case events.Planning() | events.Comparing() | events.Committing():
            return event.kind
        case events.Planned() | events.GroupFailed():
            return f"{event.kind.replace('-', ' ')}: {event.sentence}"
        case events.Recovering():
            return f"recovering {plurals.count(event.runs, 'earlier run')}"
        case events.EngineChosen():
            return event.sentence
        case events.Starting():
            return f"starting {event.engine}"
        case events.Rewriting():
            return f"rewriting {plurals.count(event.files_total, 'file')} ({format_size(event.bytes_total)})"
        case events.Committed():
            return f"committed snapshot {event.snapshot_id}"
        case events.TaskEnded():
            return f"task {event.task_id} ended"
        case events.Finished():
            return f"finished: {event.outcome.kind.value}"
        case _:
            assert_never(event)


def _signed(number: int) -> str:
    return f"{number:+,}" if number else ""


def _share(before: float, after: float) -> str:
    """A difference in percent, or how many times as much it is."""
    if not before or before == after:
        return ""
    if after >= _MANY_TIMES * before:
        return f"{after / before:,.0f} x"
    share = f"{(after - before) / before:+.0%}"
    return share if share.strip("+-") != "0%" else ""
