"""Facts about a table's snapshots, branches and tags, from its metadata, and about who is at work on them, from the run
store. A snapshot that a running rewrite or an unfinished plan is based on must stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table.refs import SnapshotRefType

from iceberg_compaction.model.snapshot_retention import RefFacts, SnapshotFacts
from iceberg_compaction.operations.past_runs import run_commits
from iceberg_compaction.plan.expiry import choose_snapshots
from iceberg_compaction.record.checkpoint import checkpoints

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from iceberg_compaction.record.runs import Run
    from iceberg_compaction.record.store import RunStore

FLINK_JOB, FLINK_OPERATOR = "flink.job-id", "flink.operator-id"
FLINK_CHECKPOINT = "flink.max-committed-checkpoint-id"
_SLACK_MS = 3_600_000  # a run plans before it is in the journal


def read(metadata: TableMetadata, run: Run) -> choose_snapshots.SnapshotsOfTable:
    """The table as the choice of snapshots sees it. StoreError: nobody can say who is at work."""
    snapshots = [_facts(each) for each in metadata.snapshots]
    refs = [
        RefFacts(
            name=name,
            snapshot_id=ref.snapshot_id,
            is_branch=ref.snapshot_ref_type is SnapshotRefType.BRANCH,
            max_ref_age_ms=ref.max_ref_age_ms,
            max_snapshot_age_ms=ref.max_snapshot_age_ms,
            min_snapshots_to_keep=ref.min_snapshots_to_keep,
        )
        for name, ref in metadata.refs.items()
    ]
    alone = choose_snapshots.SnapshotsOfTable(snapshots=snapshots, refs=refs, in_use={})
    in_use = {} if run.store is None else dict(_in_use(alone, str(metadata.table_uuid), run.run_id, run.store))
    return choose_snapshots.SnapshotsOfTable(snapshots=snapshots, refs=refs, in_use=in_use)


def _facts(snapshot: Snapshot) -> SnapshotFacts:
    properties = run_commits.properties(snapshot)
    job, checkpoint = properties.get(FLINK_JOB), properties.get(FLINK_CHECKPOINT, "")
    is_flink = job is not None and checkpoint.lstrip("-").isdigit()
    return SnapshotFacts(
        snapshot_id=snapshot.snapshot_id,
        parent_id=snapshot.parent_snapshot_id,
        timestamp_ms=snapshot.timestamp_ms,
        flink_job=f"{job}/{properties.get(FLINK_OPERATOR, '')}" if is_flink else None,
        flink_checkpoint=int(checkpoint) if is_flink else None,
    )


def _in_use(
    table: choose_snapshots.SnapshotsOfTable, table_uuid: str, own_id: str, store: RunStore
) -> Iterator[tuple[int, str]]:
    """Snapshots that runs on the table, under whatever name, are based on or were about to commit. A plan in a
    checkpoint names its snapshot; of a run that says nothing all that it may have seen count."""
    kept = checkpoints.Checkpoints(store.entries)
    for held in kept.heads(table_uuid):
        plan = kept.content(held.head).plan
        who = f"the unfinished run {held.head.run_id}"
        if plan is not None:
            yield plan.pin.snapshot_id, who
        else:
            yield from ((each, who) for each in _since(table, held.head.saved_ms))
    for each in store.unfinished(table_uuid):
        if each.start.run_id == own_id or each.ended:
            continue
        who = f"run {each.start.run_id}, which is at work"
        yield from ((snapshot_id, who) for snapshot_id in _since(table, each.start.started_ms))
        if each.attempt is not None and each.attempt.parent_snapshot_id is not None:
            yield each.attempt.parent_snapshot_id, who


def _since(table: choose_snapshots.SnapshotsOfTable, at_ms: int) -> Iterator[int]:
    """Every snapshot that was the head of a branch at that time, or came later."""
    by_id = table.by_id
    for ref in table.refs:
        for each in choose_snapshots.ancestors(by_id, ref.snapshot_id if ref.is_branch else None):
            yield each.snapshot_id
            if each.timestamp_ms < at_ms - _SLACK_MS:
                break
