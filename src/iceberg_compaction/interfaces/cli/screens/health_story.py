"""How a table's health looks to people: the overview of many, and all that is known of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from iceberg_compaction.interfaces import words
from iceberg_compaction.interfaces.cli import commands
from iceberg_compaction.interfaces.cli.screens.result_tables import grid
from iceberg_compaction.model.byte_size import format_size
from iceberg_compaction.model.table_health import BrokenTable, TableHealth

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from iceberg_compaction.workflow.fleet import Diagnosis

_BAR_WIDTH = 40
_MOST_WRITERS = 5
_COLOURS = {"sick": "red", "healthy": "green", "unsupported": "yellow"}


def overview(found: Sequence[Diagnosis]) -> Iterator[RenderableType]:
    """One line for each table, the sickest first; what is wrong with those that could not be read."""
    table = grid("Table", "State", ">Score", ">Files", ">Size", ">Mean", ">Target", ">Small", ">Deletes", ">Partitions")
    broken = [one for one in found if isinstance(one, BrokenTable)]
    for one in sorted(broken, key=lambda one: one.table):
        table.add_row(escape(one.table), "[red]broken[/]")
    known = [one for one in found if isinstance(one, TableHealth)]
    for health in sorted(known, key=lambda one: (one.score, one.table)):
        state = words.state_of(health)
        table.add_row(
            escape(health.table),
            f"[{_COLOURS[state]}]{state}[/]",
            str(health.score),
            f"{health.data_files:,}",
            format_size(health.bytes),
            format_size(health.mean_file_bytes),
            format_size(health.target_file_bytes),
            f"{health.small_files:,} ({health.small_ratio:.0%})",
            f"{health.delete_files:,}",
            f"{health.partitions:,}",
        )
    yield table
    for one in broken:
        yield f"- {escape(one.table)}: {escape(one.error)}"


def details(health: TableHealth) -> Iterator[RenderableType]:
    """Everything about one table: score, sizes, partitions, surroundings, writers, growth, and what to do."""
    yield from _score(health)
    yield from _sizes(health)
    yield from _partitions(health)
    about = grid("", "", title="Around the files")
    about.show_header = False
    for name, fact in words.facts(health):
        about.add_row(escape(name), escape(fact))
    yield about
    yield from _writers(health)
    if health.growth:
        yield f"Growth  {escape(words.growth_line(health.growth))}\n"
    for sentence in (*health.unsupported, *health.advice, *health.causes):
        yield f"- {escape(sentence)}"
    for fix in health.fixes:
        old = "not set" if fix.old is None else fix.old
        yield f"- Set {escape(fix.name)}={escape(fix.new)} (now {escape(old)}): {escape(fix.why)}"
    if health.fixes:
        command = commands.line("doctor", "--table", health.table, "--fix-properties")
        yield f"  {escape(command)} sets what it says."


def _score(health: TableHealth) -> Iterator[RenderableType]:
    parts = grid("Part", ">Points", ">Of", "How", title=f"Score {health.score} of 100")
    for part in health.score_parts:
        parts.add_row(escape(part.name), f"{part.points:g}", str(part.most), escape(part.why))
    if health.score_parts:
        yield parts
    if health.score_note:
        yield f"The score is {health.score}: {escape(health.score_note)}.\n"


def _sizes(health: TableHealth) -> Iterator[RenderableType]:
    most = max((bucket.files for bucket in health.histogram), default=0)
    if not most:
        return
    bars = grid("File size", ">Files", ">Size", "", title="How large the files are")
    for bucket in health.histogram:
        bar = "█" * round(_BAR_WIDTH * bucket.files / most)
        bars.add_row(escape(bucket.label), f"{bucket.files:,}", format_size(bucket.bytes), bar)
    yield bars


def _partitions(health: TableHealth) -> Iterator[RenderableType]:
    if health.partitions < 2 or not health.worst_partitions:
        return
    worst = grid(
        "Partition", ">Files", ">Small", ">Deletes", ">Size", ">Depth", title="Partitions with the most to gain"
    )
    for part in health.worst_partitions:
        worst.add_row(
            escape(part.partition),
            f"{part.files:,}",
            f"{part.small_files:,}",
            f"{part.delete_files:,}",
            format_size(part.bytes),
            "" if part.clustering_depth is None else f"{part.clustering_depth:.1f}",
        )
    yield worst


def _writers(health: TableHealth) -> Iterator[RenderableType]:
    if not health.writers:
        return
    shown = grid("Writer", ">Commits", ">Every", ">Files", ">Mean", ">Live small", title="Who wrote it")
    for writer in health.writers[:_MOST_WRITERS]:
        shown.add_row(escape(writer.name), *words.writer_figures(writer))
    yield shown
