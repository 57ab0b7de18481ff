"""When partitions were rewritten last, by this program or by others, from the snapshots that are still kept. A view and
the table's metadata come in; the view goes out with its `past`. The sequence number of a live file names the commit
that added it, and so the partitions that a rewrite has touched; format version 1 has no such numbers, so there the
last rewrite counts for all partitions. The run store helps where no snapshot of a rewrite is kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyiceberg.table.snapshots import Operation

from iceberg_compaction.metadata import snapshot_log
from iceberg_compaction.model.rewrite_past import RewritePast
from iceberg_compaction.model.table_view import DATA

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from iceberg_compaction.model.table_view import TableView

_REMOVED = ("deleted-data-files", "removed-delete-files")
_RUN, _UNDOES = "compaction.run-id", "compaction.undoes-run-id"  # properties of this program's snapshots


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteLog:
    """The rewrites of a branch that are still kept."""

    moments: dict[int, int]  # by sequence number; 0: the table has none
    commits: int | None  # since the last of them; of all that are kept if there is none

    @property
    def last_ms(self) -> int | None:
        return max(self.moments.values(), default=None)


def read(metadata: TableMetadata, branch: str) -> RewriteLog:
    """The rewrites in the line of a branch, and the other commits since the last one."""
    moments: dict[int, int] = {}
    undone: set[str] = set()  # runs; the line begins with the newest snapshot
    commits = 0
    for snapshot in snapshot_log.line(metadata, branch):
        summary = {} if snapshot.summary is None else snapshot.summary.additional_properties
        if _UNDOES in summary:
            undone.add(summary[_UNDOES])
        elif summary.get(_RUN) in undone:
            continue
        elif is_rewrite(snapshot):
            number = snapshot.sequence_number or 0
            moments[number] = max(snapshot.timestamp_ms, moments.get(number, 0))
        elif not moments:
            commits += 1
    return RewriteLog(moments=moments, commits=commits)


def is_rewrite(snapshot: Snapshot) -> bool:
    """Whether a snapshot replaced files; a rewrite of manifests alone leaves every file where it was."""
    summary = snapshot.summary
    if summary is None or summary.operation is not Operation.REPLACE:
        return False
    return any(summary.additional_properties.get(key, "0") != "0" for key in _REMOVED)


def add(view: TableView, metadata: TableMetadata, *, now_ms: int, stored_ms: int | None = None) -> TableView:
    """The view with its past. `stored_ms`: the last run that compacted the table, as the run store has it."""
    if view.pin is None:
        return view
    log = read(metadata, view.pin.branch)
    partition_ms = None
    if log.moments and 0 not in log.moments:
        partition_ms = _of_partitions(view, log.moments)
    table_ms = stored_ms if log.last_ms is None else log.last_ms
    past = RewritePast(now_ms=now_ms, partition_ms=partition_ms, table_ms=table_ms, commits=log.commits)
    return replace(view, past=past)


def _of_partitions(view: TableView, moments: dict[int, int]) -> pa.Int64Array | None:
    """For each file the moment at which a rewrite added it, else null; the latest of a partition counts for it. None:
    no file of any rewrite is left, so that nothing says which partitions they touched."""
    numbers = view.files["file_sequence_number"].to_numpy()
    order = sorted(moments)
    at = np.minimum(np.searchsorted(order, numbers), len(order) - 1)
    added = (np.array(order)[at] == numbers) & (view.files["content"].to_numpy() == DATA)
    if not added.any():
        return None
    return pa.array(np.array([moments[number] for number in order], np.int64)[at], mask=~added)
