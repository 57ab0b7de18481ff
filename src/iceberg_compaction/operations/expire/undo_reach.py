"""Which runs of this product can still be undone once snapshots have expired, and until when. An undo brings back the
files of the snapshot before the run, so it ends when that snapshot expires."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.commit import snapshot_summary
from iceberg_compaction.model import plurals, times
from iceberg_compaction.operations.past_runs import run_commits

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from iceberg_compaction.model.snapshot_retention import Retention

_NAMED = 3


def notes(metadata: TableMetadata, expired: Collection[int], held: Retention, now_ms: int) -> tuple[str, ...]:
    """What the expiry means for undoing, in sentences. Ages are counted from now on with the same retention."""
    lost: list[tuple[str, Snapshot]] = []
    left: list[tuple[str, Snapshot]] = []
    by_id = {each.snapshot_id: each for each in metadata.snapshots}
    for run_id, first in _first_commits(metadata).items():
        before = by_id.get(first.parent_snapshot_id or 0)
        if before is not None:
            (lost if before.snapshot_id in expired or first.snapshot_id in expired else left).append((run_id, before))
    sentences = ["An expired snapshot cannot be brought back, and neither can files that only it needed."]
    if lost:
        sentences.append(f"After this {_names([run_id for run_id, _ in lost])} cannot be undone any more.")
    age_ms = now_ms - held.older_than_ms.value
    for run_id, before in left[-_NAMED:]:
        until = times.utc_minute(before.timestamp_ms + age_ms)
        sentences.append(
            f"Run {run_id} can be undone as long as snapshot {before.snapshot_id} is there: until {until} at least."
        )
    return tuple(sentences)


def _first_commits(metadata: TableMetadata) -> dict[str, Snapshot]:
    """The first commit of each run in the table's history, the oldest run first."""
    first: dict[str, Snapshot] = {}
    for each in sorted(metadata.snapshots, key=lambda each: (each.sequence_number or 0, each.timestamp_ms)):
        run_id = run_commits.properties(each).get(snapshot_summary.RUN_ID)
        if run_id is not None:
            first.setdefault(run_id, each)
    return first


def _names(run_ids: list[str]) -> str:
    if len(run_ids) <= _NAMED:
        return f"{'runs' if len(run_ids) > 1 else 'run'} {', '.join(run_ids)}"
    return f"{plurals.count(len(run_ids), 'run')} of this product"
