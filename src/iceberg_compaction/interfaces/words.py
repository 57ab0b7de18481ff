"""A table's health in words and short figures, for the terminal and the report alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.inspect.causes import files_each, span
from iceberg_compaction.model import plurals
from iceberg_compaction.model.byte_size import format_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iceberg_compaction.model.table_health import GrowthDay, TableHealth, Writer

_LEVELS = "▁▂▃▄▅▆▇█"
_WIDEST = 60


def state_of(health: TableHealth) -> str:
    """A table's state in one word."""
    if health.unsupported:
        return "unsupported"
    return "sick" if health.sick else "healthy"


def facts(health: TableHealth) -> Iterator[tuple[str, str]]:
    """What is around the data files, as pairs of name and figures."""
    manifests = f"{health.manifests:,}, {format_size(health.manifest_bytes)}, {health.small_manifests:,} of them small"
    yield "manifests", manifests
    refs = plurals.form(health.refs, "branch or tag", "branches and tags")
    yield "snapshots", f"{health.snapshots:,}; {health.refs:,} {refs}"
    if health.metadata_files:
        size = "" if health.metadata_bytes is None else f"; the current one and manifests {_size(health)}"
        yield "metadata files", f"{health.metadata_files:,} kept track of{size}"
    if health.maintainers:
        yield "other maintainers", "; ".join(maintainer.words for maintainer in health.maintainers)
    if good := [note.sentence for note in health.lifecycle if note.is_good]:
        yield "unfinished uploads", " ".join(good)
    deletes = health.deletes
    if deletes.files:
        position = f"{deletes.position_files:,} position ({plurals.count(deletes.position_rows, 'row')})"
        equality = f"{deletes.equality_files:,} equality ({plurals.count(deletes.equality_rows, 'key')})"
        vectors = f"{plurals.count(deletes.vectors, 'vector')} ({plurals.count(deletes.vector_rows, 'row')})"
        yield "deletes", f"{position}, {equality}, {vectors}"
        yield "deleted rows", f"{deletes.deleted_row_ratio:.1%} by position, fragment ratio {deletes.fragment_ratio:g}"
    if deletes.files and deletes.per_data_file_mean is not None:
        met = f"{deletes.per_data_file_mean:g} on average, {deletes.per_data_file_max:,} at most"
        yield "deletes for a file", f"{met}; {deletes.dangling_files:,} apply to nothing"
    if len(health.specs) > 1 or health.stale_spec_ratio:
        shares = ", ".join(
            f"{spec.spec_id}{' (current)' if spec.current else ''}: {spec.files:,}" for spec in health.specs
        )
        yield "files by spec", shares
    if health.clustering is not None:
        found = health.clustering
        sample = (
            ""
            if found.sampled_files == found.files
            else f" (estimated from {plurals.count(found.sampled_files, 'file')})"
        )
        hold = plurals.form(found.depth, "file holds", "files hold")
        yield "clustering", f"{found.depth:g} {hold} a value of {found.column or 'its column'}{sample}"


def writer_figures(writer: Writer) -> tuple[str, str, str, str, str]:
    """Commits, cadence, files for each commit, mean file, live small files."""
    return (
        f"{writer.commits:,}",
        span(writer.median_interval_seconds) if writer.median_interval_seconds else "",
        files_each(writer),
        format_size(writer.mean_file_bytes),
        "" if writer.live_small_files is None else f"{writer.live_small_files:,} of {writer.live_files:,}",
    )


def growth_line(days: Sequence[GrowthDay]) -> str:
    """Data files at the end of each day as a sparkline, and what that makes for a day."""
    known = [day.total_files for day in days if day.total_files is not None]
    files = plurals.count(sum(day.added_files for day in days), "file")
    added = f"{files} added in {plurals.count(sum(day.commits for day in days), 'commit')}"
    if not known:
        return added
    if len(days) == 1:
        return f"{plurals.count(known[-1], 'data file')} at the end of {days[0].day}; {added}"
    return f"{sparkline(known)}  {known[0]:,} -> {known[-1]:,} data files on {len(days):,} days with commits; {added}"


def sparkline(values: Sequence[int]) -> str:
    """One character for each value, the last ones if there are many."""
    shown = values[-_WIDEST:]
    most = max(max(shown), 1)
    return "".join(_LEVELS[min(len(_LEVELS) - 1, value * len(_LEVELS) // (most + 1))] for value in shown)


def _size(health: TableHealth) -> str:
    return format_size(health.metadata_bytes or 0)
