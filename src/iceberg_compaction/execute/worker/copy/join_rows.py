"""Makes one row group out of several small ones. Row groups of inputs come in, their bytes are loaded, and columns go
out: most of them joined as bytes, the others named, so that the caller decodes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import garbage
from iceberg_compaction.execute.worker.input import read_files
from iceberg_compaction.execute.worker.output import output_file
from iceberg_compaction.formats.parquet import splice
from iceberg_compaction.formats.parquet.join import join_row_groups
from iceberg_compaction.storage import look_ahead, task_progress

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from iceberg_compaction.execute.worker import prepared_task
    from iceberg_compaction.execute.worker.copy import copied_row_groups
    from iceberg_compaction.formats.parquet.join import source_chunks

_AT_ONCE = 8  # files that are read at a time


def take(sources: Sequence[copied_row_groups.Copy], size: int) -> int:
    """How many of the first row groups come closest to so many bytes together; at least one."""
    total = 0
    for count, source in enumerate(sources):
        if count and total + source.weight / 2 > size:
            return count
        total += source.weight
    return len(sources)


def join(
    prepared: prepared_task.PreparedTask, sources: Sequence[copied_row_groups.Copy], decoded: Collection[int]
) -> tuple[output_file.JoinedRows, frozenset[int]]:
    """The joined columns, and field ids of the top-level columns that must be decoded, `decoded` among them."""
    wanted, progress = prepared.wanted, task_progress.current()
    assert wanted is not None
    with garbage.paused():
        groups: list[source_chunks.LoadedGroup] = []
        for group in look_ahead.in_order(lambda source: _load(prepared, source), sources, at_once=_AT_ONCE):
            progress.read(sources[len(groups)].bytes)
            groups.append(group)
        columns = [number for number, top in enumerate(wanted.tops) if top not in decoded]
        joined = join_row_groups.join(groups, wanted.leaves, columns, prepared.output.options.parquet, prepared.cores)
    missing = frozenset(wanted.tops[number] for number in columns if number not in joined) | frozenset(decoded)
    kept = {number: column for number, column in joined.items() if wanted.tops[number] not in missing}
    return output_file.JoinedRows(tuple(sources), kept), missing


def _load(prepared: prepared_task.PreparedTask, source: copied_row_groups.Copy) -> source_chunks.LoadedGroup:
    deleted = None
    if source.deleted and prepared.deletes is not None:
        deleted = prepared.deletes.dead_mask(source.number, source.first_row, source.stored_rows)
        if (count := int(np.count_nonzero(deleted))) != source.deleted:
            raise errors.ProofError(f"{source.deleted} rows of {source.footer.path} were to be left out, not {count}.")
    with read_files.translated(source.footer.path), splice.Source(prepared.io, source.raw) as file:
        return file.load(source.raw.groups[source.group], source.columns, deleted)
