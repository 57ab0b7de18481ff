"""How rewrites of manifests look to people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from iceberg_compaction.interfaces.cli.screens import result_tables
from iceberg_compaction.model.byte_size import format_size
from iceberg_compaction.model.outcome import Compacted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from iceberg_compaction.model.manifest_plan import ManifestPlan
    from iceberg_compaction.model.outcome import Outcome


def plan_story(plan: ManifestPlan) -> Iterator[RenderableType]:
    """Which manifests become how many, why, and what stays."""
    at = f" at snapshot {plan.pin.snapshot_id} of {plan.pin.branch}" if plan.pin else ""
    yield f"[bold]{escape(plan.table)}[/]{escape(at)}: {escape(plan.sentence)}"
    if not plan.groups:
        return
    groups = result_tables.grid("Spec", "Lists", ">Files", ">Manifests", ">Size", ">Manifests of a partition", "Why")
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
        kept = result_tables.grid("Left alone", ">Manifests", ">Size", "Why")
        for one in plan.kept:
            kept.add_row(one.reason.value, f"{one.manifests:,}", format_size(one.bytes), escape(one.sentence))
        yield kept


def overview(found: Sequence[Outcome]) -> Iterator[RenderableType]:
    """One line for each table, and then what happened in words."""
    table = result_tables.grid("Table", "Outcome", ">Manifests", ">Files in them", ">Seconds")
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
        yield f"{escape(one.table)}: {escape(one.sentence)}"
