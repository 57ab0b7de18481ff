"""How checks and undos of past runs look to people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from iceberg_compaction.interfaces.cli.screens import paragraphs
from iceberg_compaction.interfaces.cli.screens.grid import figures, grid, sentences
from iceberg_compaction.model import partition_words
from iceberg_compaction.model.verification import CheckVerdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from iceberg_compaction.model.outcome import Outcome
    from iceberg_compaction.model.undo_plan import UndoPlan
    from iceberg_compaction.model.verification import PartitionCheck, Verification

_COLOURS = {CheckVerdict.PROVED: "green", CheckVerdict.DIFFERS: "red", CheckVerdict.UNCHECKED: "yellow"}
_MOST_PARTITIONS = 50
_WORST_FIRST = (CheckVerdict.DIFFERS, CheckVerdict.UNCHECKED, CheckVerdict.PROVED)


def verification(result: Verification) -> Iterator[RenderableType]:
    """The verdict, and the partitions of each commit, those that differ first."""
    yield paragraphs.Named(name=result.table, sentence=result.sentence)
    for commit in result.commits:
        if not commit.partitions:
            if len(result.commits) > 1:
                yield paragraphs.detail(commit.sentence)
            continue
        yield ""
        table = grid(
            f"Snapshot {commit.snapshot_id}",
            "Verdict",
            figures("Files", drop=2),
            figures("Rows", drop=1),
            sentences("Why"),
        )
        partitions = sorted(commit.partitions, key=lambda each: _WORST_FIRST.index(each.verdict))
        for partition in partitions[:_MOST_PARTITIONS]:
            table.add_row(*_row(partition))
        yield table
        if len(partitions) > _MOST_PARTITIONS:
            yield paragraphs.detail(
                f"{len(partitions) - _MOST_PARTITIONS:,} more partitions; --output json has all of them."
            )


def _row(partition: PartitionCheck) -> tuple[str, ...]:
    name = "all partitions" if partition.partition is None else partition_words.text(partition.partition) or "the table"
    rows = "" if partition.rows_written is None else f"{partition.rows_written:,}"
    colour = _COLOURS[partition.verdict]
    return (
        escape(name),
        f"[{colour}]{partition.verdict.value}[/]",
        f"{partition.files_read:,} -> {partition.files_written:,}",
        rows,
        escape(partition.sentence),
    )


def plan(undo: UndoPlan) -> Iterator[RenderableType]:
    """The way back, or why there is none."""
    yield paragraphs.Named(name=undo.table, sentence=undo.sentence)
    if not undo.empty:
        yield paragraphs.detail("Rows are compared before anything is committed. Nothing has been changed yet.")


def outcome(end: Outcome) -> Iterator[RenderableType]:
    """What became of the undo."""
    yield paragraphs.Named(name=end.table, sentence=end.sentence)
