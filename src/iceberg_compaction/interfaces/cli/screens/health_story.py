"""How a table's health looks to people: the overview of many, and all that is known of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from iceberg_compaction.interfaces import words
from iceberg_compaction.interfaces.cli import commands
from iceberg_compaction.interfaces.cli.screens import paragraphs
from iceberg_compaction.interfaces.cli.screens.grid import GridColumn, figures, grid, sentences
from iceberg_compaction.model import partition_words
from iceberg_compaction.model.byte_size import format_size
from iceberg_compaction.model.table_health import BrokenTable, TableHealth

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from iceberg_compaction.workflow.fleet import Diagnosis

_BAR_WIDTH = 30
_MOST_WRITERS = 5
_COLOURS = {"sick": "red", "healthy": "green", "unsupported": "yellow"}


def overview(found: Sequence[Diagnosis]) -> Iterator[RenderableType]:
    """One line for each table, the sickest first; what is wrong with those that could not be read."""
    table = grid(
        "Table",
        "State",
        figures("Score"),
        figures("Files"),
        figures("Size"),
        figures("Mean", drop=3),
        figures("Target", drop=4),
        figures("Small", drop=1),
        figures("Deletes", drop=2),
        figures("Partitions", drop=5),
    )
    broken = [one for one in found if isinstance(one, BrokenTable)]
    for one in sorted(broken, key=lambda one: one.table):
        table.add_row(escape(one.table), f"[red]{one.state}[/]")
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
        yield paragraphs.Named(name=one.table, sentence=one.error)


def details(health: TableHealth) -> Iterator[RenderableType]:
    """Everything about one table: score, sizes, partitions, surroundings, writers, growth, and what to do."""
    yield from _score(health)
    yield from _sizes(health)
    yield from _partitions(health)
    about = grid("", sentences(""), title="Around the files", header=False)
    for name, fact in words.facts(health):
        about.add_row(escape(name), escape(fact))
    yield about
    yield from _writers(health)
    if health.growth:
        yield paragraphs.Paragraph(text=words.growth_line(health.growth), mark="Growth  ")
        yield ""
    dangers = [note.sentence for note in health.lifecycle if not note.is_good]
    for sentence in (*health.unsupported, *dangers, *health.advice, *health.causes):
        about_command = sentence.startswith("This ")  # the command of the sentence before
        yield paragraphs.detail(sentence) if about_command else paragraphs.bullet(sentence)
    for fix in health.fixes:
        old = "not set" if fix.old is None else fix.old
        yield paragraphs.bullet(f"Set {fix.name}={fix.new} (now {old}): {fix.why}")
    if health.fixes:
        command = commands.line("doctor", "--table", health.table, "--fix-properties")
        yield paragraphs.Command(label="  Set them with:", command=command)


def _score(health: TableHealth) -> Iterator[RenderableType]:
    parts = grid("Part", figures("Points"), figures("Of"), sentences("How"), title=f"Score {health.score} of 100")
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
        "Partition",
        figures("Files"),
        figures("Small", drop=1),
        figures("Deletes", drop=3),
        figures("Size", drop=2),
        figures("Depth", drop=4),
        GridColumn(name="Score: files, deletes, time, small", drop=5),
        title="Partitions with the most to gain",
    )
    for part in health.worst_partitions:
        score = part.rewrite_score
        worst.add_row(
            escape(partition_words.text(part.partition)),
            f"{part.files:,}",
            f"{part.small_files:,}",
            f"{part.delete_files:,}",
            format_size(part.bytes),
            "" if part.clustering_depth is None else f"{part.clustering_depth:.1f}",
            "" if score is None else f"{score.score:.2f}: {score.sum_words}",
        )
    yield worst


def _writers(health: TableHealth) -> Iterator[RenderableType]:
    if not health.writers:
        return
    shown = grid(
        "Writer",
        figures("Commits"),
        figures("Every", drop=4),
        figures("Files each", drop=2),
        figures("Mean file", drop=3),
        figures("Live small", drop=1),
        title="Who wrote it",
    )
    for writer in health.writers[:_MOST_WRITERS]:
        shown.add_row(escape(writer.name), *words.writer_figures(writer))
    yield shown
