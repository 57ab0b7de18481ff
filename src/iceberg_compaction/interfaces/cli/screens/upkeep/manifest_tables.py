"""How rewrites of manifests look to people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from iceberg_compaction.interfaces.cli.screens import paragraphs, result_tables
from iceberg_compaction.interfaces.cli.screens.grid import figures, grid, sentences
from iceberg_compaction.model.byte_size import format_size
from iceberg_compaction.model.outcome import Compacted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from iceberg_compaction.model.manifest_plan import ManifestPlan
    from iceberg_compaction.model.outcome import Outcome


def plans_overview(plans: Sequence[ManifestPlan]) -> RenderableType:
    """One line for each table: the work, and why it is done or not."""
    tables = grid("Table", figures("Files", drop=2), figures("Manifests"), figures("Size", drop=1), sentences("Why"))
    for plan in plans:
        cells = ("", "", "")
        if plan.groups:
            before, after = (
                sum(len(group.manifests) for group in plan.groups),
                sum(group.outputs for group in plan.groups),
            )
            entries, size = sum(group.entries for group in plan.groups), sum(group.bytes for group in plan.groups)
            cells = (f"{entries:,}", f"{before:,} -> {after:,}", format_size(size))
        why = "\n".join(dict.fromkeys(group.sentence for group in plan.groups)) or plan.sentence
        tables.add_row(escape(plan.table), *cells, escape(why))
    return tables


def plan_story(plan: ManifestPlan) -> Iterator[RenderableType]:
    """Which manifests become how many, why, and what stays."""
    yield paragraphs.plan_head(plan.table, plan.pin, plan.sentence)
    yield ""
    if not plan.groups:
        return
    groups = grid(
        "Spec",
        "Lists",
        figures("Files", drop=1),
        figures("Manifests"),
        figures("Size", drop=3),
        figures("For a partition", drop=2),
        sentences("Why", least=20),
    )
    for group in plan.groups:
        groups.add_row(
            str(group.spec_id),
            group.content.value,
            f"{group.entries:,}",
            f"{len(group.manifests):,} -> {group.outputs:,}",
            format_size(group.bytes),
            f"{group.spread:.1f} -> {group.spread_after:.1f}",
            escape(group.sentence),
        )
    yield groups
    if plan.kept:
        kept = grid("Left alone", figures("Manifests"), figures("Size", drop=1), sentences("Why"))
        for one in plan.kept:
            kept.add_row(one.reason.value, f"{one.manifests:,}", format_size(one.bytes), escape(one.sentence))
        yield kept


def overview(found: Sequence[Outcome]) -> Iterator[RenderableType]:
    """One line for each table, and then what happened in words."""
    table = grid("Table", "Outcome", figures("Manifests"), figures("Files in them", drop=2), figures("Seconds", drop=1))
    for one in found:
        changed = isinstance(one, Compacted)
        table.add_row(
            escape(one.table),
            result_tables.outcome_kind(one),
            f"{one.manifests_removed:,} -> {one.manifests_added:,}" if changed else "",
            f"{one.manifest_entries:,}" if changed else "",
            f"{one.seconds:.1f}",
        )
    yield table
    for one in found:
        yield paragraphs.Named(name=one.table, sentence=one.sentence)
