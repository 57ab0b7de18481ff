"""How outcomes and the cache look to people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from typing_extensions import assert_never

from iceberg_compaction.interfaces.cli.screens import paragraphs
from iceberg_compaction.interfaces.cli.screens.grid import figures, grid, sentences
from iceberg_compaction.model import outcome, partition_words, plurals
from iceberg_compaction.model.byte_size import format_size
from iceberg_compaction.model.outcome import GroupEnd, Maintained

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from iceberg_compaction.model.cache_figures import CacheFigures
    from iceberg_compaction.model.outcome import Outcome

__all__ = ["cache_sentence", "grid", "groups_left", "outcome_kind", "outcome_overview", "outcome_sentences"]

_MOST_GROUPS = 20


def outcome_kind(one: Outcome) -> str:
    """How it ended, in colour."""
    match one:
        case outcome.Compacted(groups_failed=failed) if failed:
            return f"[red]{one.kind.value}, {failed:,} failed[/]"
        case outcome.Compacted() | outcome.Healthy() | outcome.Undone() | outcome.Maintained():
            return f"[green]{one.kind.value}[/]"
        case outcome.Skipped() | outcome.Unsupported():
            return f"[yellow]{one.kind.value}[/]"
        case outcome.Conflict() | outcome.Failed():
            return f"[red]{one.kind.value}[/]"
        case _:
            assert_never(one)


def outcome_overview(found: Sequence[Outcome]) -> RenderableType:
    """One line for each table: how it ended and the figures."""
    table = grid(
        "Table",
        "Outcome",
        figures("Files"),
        figures("Size", drop=1),
        figures("Rows", drop=3),
        figures("Groups", drop=4),
        figures("Seconds", drop=2),
    )
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
        yield paragraphs.Named(name=one.table, sentence=one.sentence)
        details = (
            one.proof.sentence if one.proof is not None else "",
            one.effort.sentence,
            one.requests.sentence,
            one.effort.memory_sentence,
        )
        yield from (paragraphs.detail(sentence) for sentence in details if sentence)
        yield from (paragraphs.bullet(note) for note in (one.notes if isinstance(one, Maintained) else ()))
        yield from groups_left(one)


def groups_left(one: Outcome) -> Iterator[RenderableType]:
    """The groups that were not committed, and why. Groups with one reason are one line."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for group in one.group_outcomes:
        if group.outcome is not GroupEnd.COMMITTED:
            reasons.setdefault((group.outcome.value, group.sentence), []).append(
                partition_words.text(group.partition) or str(group.id)
            )
    if not reasons:
        return
    table = grid("Groups", "Outcome", sentences("What happened"))
    for (end, sentence), members in list(reasons.items())[:_MOST_GROUPS]:
        names = members[0] if len(members) == 1 else f"{len(members):,} groups"
        table.add_row(escape(names), end, escape(sentence))
    yield table
    if len(reasons) > _MOST_GROUPS:
        left = sum(len(members) for members in list(reasons.values())[_MOST_GROUPS:])
        yield f"… and {plurals.count(left, 'more group', 'more groups')} (--output json shows all)."


def cache_sentence(found: CacheFigures, *, cleared: bool) -> str:
    """The cache in words."""
    if found.path is None:
        return "Nothing is cached: ICEBERG_COMPACTION_CACHE is off."
    entries = f"{plurals.count(found.entries, 'entry', 'entries')} ({format_size(found.bytes)})"
    if cleared:
        return f"Removed {entries} from {found.path}."
    return f"{found.path}: {entries} of at most {format_size(found.capacity)}."
