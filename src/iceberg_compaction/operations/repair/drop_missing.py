"""Takes data files that are missing in storage out of a table, knowingly: one `delete` snapshot, whose summary says how
many rows are lost. Paths come in, the committed snapshot goes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table.snapshots import Operation

from iceberg_compaction import errors
from iceberg_compaction.metadata import look, support
from iceberg_compaction.metadata.manifest import live_files, snapshot_manifests
from iceberg_compaction.model import rewrite_plan, table_view
from iceberg_compaction.operations.rewrite_files.change import replace_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyiceberg.table import Table

    from iceberg_compaction.record.runs import Run

LOST_ROWS = "compaction.repair.lost-rows"  # a property of the snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedFiles:
    """The commit by which files left."""

    snapshot_id: int
    attempts: int
    files: int
    rows: int
    bytes: int
    conflicts: int  # partitions that stayed as they were


def drop(
    table: Table, paths: Sequence[str], run: Run, *, branch: str, properties: Mapping[str, str]
) -> DroppedFiles | None:
    """Commits that the files leave. None: none of them is in the table any more."""
    snapshot = table.metadata.snapshot_by_name(branch)
    if snapshot is None:
        return None
    files = live_files.live_files(table, snapshot_manifests.read(table.io, snapshot), cache=run.cache, branch=branch)
    if reasons := support.unsupported(table, files.select(table_view.FILES.names)):
        raise errors.UnsupportedError(f"{'.'.join(table.name())} cannot be changed safely: {reasons[0]}")
    lost = files.filter(pc.is_in(files["file_path"], value_set=pa.array(sorted(paths), pa.string())))
    if not lost.num_rows:
        return None
    groups = {group.id: group for group in _groups(lost)}
    rows = sum(group.deleted_records for group in groups.values())
    request = replace_files.ReplaceRequest(
        pin=look.pin_of(table, branch, snapshot),
        groups=tuple(groups.values()),
        snapshot_properties={**properties, LOST_ROWS: str(rows)},
        operation=Operation.DELETE,
    )
    result = replace_files.replace(table, request, run)
    landed = [groups[number] for number in result.landed]
    return DroppedFiles(
        snapshot_id=result.snapshot_id,
        attempts=result.attempts,
        files=sum(group.removed.num_rows for group in landed),
        rows=sum(group.deleted_records for group in landed),
        bytes=sum(int(pc.sum(group.removed["file_size_in_bytes"]).as_py() or 0) for group in landed),
        conflicts=len(result.conflicts),
    )


def _groups(files: pa.Table) -> Iterator[replace_files.ReplaceGroup]:
    """The files of each partition."""
    keys = list(zip(files["spec_id"].to_pylist(), files["partition"].to_pylist(), strict=True))
    for number, key in enumerate(sorted(set(keys)), 1):
        members = files.filter(pa.array([each == key for each in keys]))
        yield replace_files.ReplaceGroup(
            id=number,
            removed=members.select(rewrite_plan.PLAN_FILES.names).cast(rewrite_plan.PLAN_FILES),
            partitions=(key,),
            added=(),
            deleted_records=int(pc.sum(members["record_count"]).as_py() or 0),
        )
