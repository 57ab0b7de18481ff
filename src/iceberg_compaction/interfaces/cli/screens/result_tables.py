"""How results look to people: rich tables and sentences from the model's values."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from rich import box
from rich.markup import escape
from rich.table import Table
from typing_extensions import assert_never

from iceberg_compaction.model import outcome, plurals
from iceberg_compaction.model.byte_size import format_size
from iceberg_compaction.model.outcome import GroupEnd

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from iceberg_compaction.model.cache_figures import CacheFigures
    from iceberg_compaction.model.outcome import Outcome
    from iceberg_compaction.model.rewrite_plan import EmptyPlan, Plan
    from iceberg_compaction.model.run_record import RunRecord

_MOST_GROUPS = 20
_SENTENCES = ("What happened", "Why")  # columns that may take several lines


def grid(*columns: str, title: str | None = None) -> Table:
    """An empty table; a column whose name starts with `>` is right-aligned."""
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for name in columns:
        table.add_column(
            name.lstrip(">"), justify="right" if name.startswith(">") else "left", no_wrap=name not in _SENTENCES
        )
    return table


def plan_story(plan: Plan | EmptyPlan) -> Iterator[RenderableType]:
    """What a plan does to which files, why, and what it leaves alone."""
    at = f" at snapshot {plan.pin.snapshot_id} of {plan.pin.branch}" if plan.pin else ""
    yield f"[bold]{escape(plan.table)}[/]{escape(at)}: {escape(plan.sentence)}"
    if plan.groups:
        groups = grid(">Group", "Partition", ">Files", ">Size", ">Becomes", ">Copied", "Why")
        for group in plan.groups[:_MOST_GROUPS]:
            groups.add_row(
                str(group.id),
                escape(group.partition),
                f"{group.files:,}",
                format_size(group.bytes),
                f"{group.outputs:,}",
                f"{group.copied_bytes / max(1, group.bytes):.0%}",
                escape(f"{group.sentence};\n{group.copy_sentence}"),
            )
        yield groups
    if len(plan.groups) > _MOST_GROUPS:
        yield f"… and {len(plan.groups) - _MOST_GROUPS} more groups (--output json shows all)."
    if plan.groups:
        yield escape(plan.copying.sentence)
    if plan.groups and plan.left_out:
        left_out = grid("Left alone", ">Files", ">Size", "Why")
        for left in plan.left_out:
            left_out.add_row(left.reason.value, f"{left.files:,}", format_size(left.bytes), escape(left.sentence))
        yield left_out


def outcome_kind(one: Outcome) -> str:
    """How it ended, in colour."""
    match one:
        case outcome.Compacted(groups_failed=failed) if failed:
            return f"[red]{one.kind.value}, {failed:,} failed[/]"
        case outcome.Compacted() | outcome.Healthy():
            return f"[green]{one.kind.value}[/]"
        case outcome.Skipped() | outcome.Unsupported():
            return f"[yellow]{one.kind.value}[/]"
        case outcome.Conflict() | outcome.Failed():
            return f"[red]{one.kind.value}[/]"
        case _:
            assert_never(one)


def outcome_overview(found: Sequence[Outcome]) -> RenderableType:
    """One line for each table: how it ended and the figures."""
    table = grid("Table", "Outcome", ">Files", ">Size", ">Rows", ">Groups", ">Seconds")
    for one in found:
        changed = one.groups_landed > 0
        table.add_row(
            escape(one.table),
            outcome_kind(one),
            f"{one.files_removed:,} -> {one.files_added:,}" if changed else "",
            f"{format_size(one.bytes_removed)} -> {format_size(one.bytes_added)}" if changed else "",
            f"{one.records:,}" if changed else "",
            _landed(one) if one.groups else "",
            f"{one.seconds:.1f}",
        )
    return table


def _landed(one: Outcome) -> str:
    return f"{one.groups:,}" if one.groups_landed == one.groups else f"{one.groups_landed:,} of {one.groups:,}"


def outcome_sentences(found: Sequence[Outcome]) -> Iterator[RenderableType]:
    """What happened to each table in words, and its proof."""
    for one in found:
        yield f"{escape(one.table)}: {escape(one.sentence)}"
        if one.proof is not None:
            yield f"  {escape(one.proof.sentence)}"
        if one.effort.sentence:
            yield f"  {escape(one.effort.sentence)}"
        if one.requests.sentence:
            yield f"  {escape(one.requests.sentence)}"
        if one.effort.memory_sentence:
            yield f"  {escape(one.effort.memory_sentence)}"
        yield from _groups_left(one)


def _groups_left(one: Outcome) -> Iterator[RenderableType]:
    """The groups that did not land, and why."""
    left = [group for group in one.group_outcomes if group.outcome is not GroupEnd.COMMITTED]
    if not left:
        return
    table = grid(">Group", "Partition", "Outcome", "What happened")
    for group in left[:_MOST_GROUPS]:
        table.add_row(str(group.id), escape(group.partition), group.outcome.value, escape(group.sentence))
    yield table
    if len(left) > _MOST_GROUPS:
        yield f"… and {len(left) - _MOST_GROUPS} more groups (--output json shows all)."


def history(found: Sequence[RunRecord]) -> RenderableType:
    """Past runs, the newest first."""
    table = grid("Started (UTC)", "Run", "Table", "Outcome", ">Files", ">Copied", ">Seconds", "What happened")
    for entry in found:
        one = entry.outcome
        table.add_row(
            f"{datetime.fromtimestamp(entry.started_ms / 1000, timezone.utc):%Y-%m-%d %H:%M:%S}",
            entry.run_id[:8],
            escape(entry.table),
            outcome_kind(one),
            f"{one.files_removed:,} -> {one.files_added:,}" if one.files_removed else "",
            f"{one.effort.copied_share:.0%}" if one.effort.groups else "",
            f"{one.seconds:.1f}",
            escape(one.sentence),
        )
    return table


def cache_sentence(found: CacheFigures, *, cleared: bool) -> str:
    """The cache in words."""
    if found.path is None:
        return "Nothing is cached: ICEBERG_COMPACTION_CACHE is off."
    entries = f"{plurals.count(found.entries, 'entry', 'entries')} ({format_size(found.bytes)})"
    if cleared:
        return f"Removed {entries} from {escape(found.path)}."
    return f"{escape(found.path)}: {entries} of at most {format_size(found.capacity)}."
