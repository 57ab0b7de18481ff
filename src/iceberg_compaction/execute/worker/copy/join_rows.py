"""Makes one row group out of several small ones. Row groups of inputs come in, their bytes are loaded, and columns go
out: most of them joined as bytes, the others named, so that the caller decodes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from iceberg_compaction.execute.worker import garbage
from iceberg_compaction.execute.worker.input import read_files
from iceberg_compaction.execute.worker.output import output_file
from iceberg_compaction.formats.parquet import splice
from iceberg_compaction.formats.parquet.join import join_row_groups
from iceberg_compaction.storage import look_ahead, task_progress

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyiceberg.io import FileIO

    from iceberg_compaction.execute.worker.copy import copied_row_groups
    from iceberg_compaction.formats.parquet.join import source_chunks
    from iceberg_compaction.storage import task_cores

_AT_ONCE = 8  # files that are read at a time


def take(sources: Sequence[copied_row_groups.Copy], size: int) -> int:
    """How many of the first row groups come closest to so many bytes together; at least one."""
    total = 0
    for count, source in enumerate(sources):
        if count and total + source.bytes / 2 > size:
            return count
        total += source.bytes
    return len(sources)


def join(
    io: FileIO,
    sources: Sequence[copied_row_groups.Copy],
    wanted: copied_row_groups.Wanted,
    decoded: Collection[int],
    arguments: dict[str, Any],
    cores: task_cores.TaskCores,
) -> tuple[output_file.JoinedRows, frozenset[int]]:
    """The joined columns, and field ids of the top-level columns that must be decoded, `decoded` among them."""
    progress = task_progress.current()
    with garbage.paused():
        groups: list[source_chunks.LoadedGroup] = []
        for group in look_ahead.in_order(lambda source: _load(io, source), sources, at_once=_AT_ONCE):
            progress.read(sources[len(groups)].bytes)
            groups.append(group)
        columns = [number for number, top in enumerate(wanted.tops) if top not in decoded]
        joined = join_row_groups.join(groups, wanted.leaves, columns, arguments, cores)
    missing = frozenset(wanted.tops[number] for number in columns if number not in joined) | frozenset(decoded)
    kept = {number: column for number, column in joined.items() if wanted.tops[number] not in missing}
    return output_file.JoinedRows(tuple(sources), kept), missing


def _load(io: FileIO, source: copied_row_groups.Copy) -> source_chunks.LoadedGroup:
    with read_files.translated(source.footer.path), splice.Source(io, source.raw) as file:
        return file.load(source.raw.groups[source.group], source.columns)
