"""The writers that make small files, and their remedies. Writers come in, sentences go out. Table properties that help
are in `prevention`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.model import plurals
from iceberg_compaction.model.byte_size import format_size

if TYPE_CHECKING:
    from iceberg_compaction.model.policies import Sizes
    from iceberg_compaction.model.table_health import TableHealth, Writer

MOST = 3  # writers
SMALL_SHARE = 0.5  # of a writer's files, from which on it is a cause if the writers of live files are unknown
SLOW_SECONDS = 600  # a longer interval between commits is no cause
SCATTERED = 2.0  # files per partition and commit, from which on rows are spread over too many tasks

_KNOBS = {
    "flink": "a checkpoint interval of 10 minutes (execution.checkpointing.interval)",
    "spark": "a trigger of 10 minutes (trigger(processingTime='10 minutes')), or fewer, larger batches,",
    "kafka-connect": "a commit interval of 10 minutes (iceberg.control.commit.interval-ms=600000)",
    "trino": "one INSERT for every 10 minutes of rows",
}
_ANY_KNOB = "collecting rows for 10 minutes before each commit"


def guilty(health: TableHealth) -> list[Writer]:
    """Writers that added small files, the worst first. Rewrites do not count, since their rows come from others."""
    return [
        writer
        for writer in health.writers
        if writer.operation != "replace"
        and (writer.live_small_files or (writer.live_small_files is None and writer.small_share >= SMALL_SHARE))
    ]


def files_per_partition(writer: Writer) -> float:
    """The number of files that one commit adds to each partition it touches."""
    return writer.files_per_commit / max(1.0, writer.partitions_per_commit or 1.0)


def files_each(writer: Writer) -> str:
    """The number of files that one commit adds: a whole number without a fraction."""
    return f"{writer.files_per_commit:,.1f}".removesuffix(".0")


def causes(health: TableHealth, sizes: Sizes) -> tuple[str, ...]:
    """Writer, files, cadence and remedy of up to MOST writers; none if small files are no problem."""
    if health.small_files <= health.partitions:
        return ()
    return tuple(f"{_deed(writer, health)} {_remedy(writer, sizes)}" for writer in guilty(health)[:MOST])


def _deed(writer: Writer, health: TableHealth) -> str:
    if writer.live_small_files is None:
        wrote = f"added {plurals.count(writer.added_files, 'file')}"
    else:
        wrote = f"wrote {writer.live_small_files:,} of the {health.small_files:,} small files"
    often = f"a commit every {span(writer.median_interval_seconds)}" if writer.median_interval_seconds else "one commit"
    files = f"{files_each(writer)} {plurals.form(round(writer.files_per_commit, 1), 'file')} each"
    size = f"{format_size(writer.mean_file_bytes)} on average"
    return f"{writer.name[0].upper()}{writer.name[1:]} {wrote}: {often}, {files}, {size}."


def _remedy(writer: Writer, sizes: Sizes) -> str:
    interval = writer.median_interval_seconds
    if interval and interval < SLOW_SECONDS:
        fewer = min(SLOW_SECONDS / interval, writer.commits)
        knob = _KNOBS.get(writer.engine, _ANY_KNOB)
        return f"{knob[0].upper()}{knob[1:]} would make about {fewer:,.0f} times fewer files."
    if files_per_partition(writer) > SCATTERED:
        return "Its rows are spread over too many tasks: let it shuffle them by partition before it writes."
    share = writer.mean_file_bytes / sizes.target
    return f"Each commit holds only {share:.1%} of a full file, so compaction at regular times is the remedy."


def span(seconds: float) -> str:
    """A time span in the unit that people would use."""
    for unit, length in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"
