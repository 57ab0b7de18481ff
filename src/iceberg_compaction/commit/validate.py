"""Whether a rewrite may still be committed on the table as it is now. Run on every attempt, the first one included: the
plan may be hours old. Whatever fails here is final, because waiting does not undo it; a new plan may succeed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from iceberg_compaction import errors

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from iceberg_compaction.commit.replace import ReplaceRequest
    from iceberg_compaction.model.table import Pin

_VERSIONS = (1, 2)


def check_request(request: ReplaceRequest) -> None:
    """What must hold whatever the table looks like."""
    if request.pin.format_version not in _VERSIONS:
        raise errors.UnsupportedError(f"Format version {request.pin.format_version} cannot be committed to yet.")
    paths = request.removed["file_path"]
    if not len(paths):
        raise errors.CommitError("There is nothing to commit: a rewrite removes at least one file.")
    if len(paths.unique()) != len(paths):
        raise errors.CommitError("The plan names a file twice, so its rows would be doubled; make a new plan.")
    removed = pc.sum(request.removed["record_count"]).as_py()
    added = sum(file.record_count for file in request.added)
    check_records(added, removed, request.deleted_records)
    if not request.moved and (strange := request.outputs - request.inputs):
        raise errors.CommitError(f"A new file lies in partition {min(strange)[1]}, which the plan does not rewrite.")


def check_records(added: int, removed: int, deleted: int) -> None:
    """Rows may only be gone where deletes took them (R8)."""
    if deleted < 0 or added != removed - deleted:
        taken = f" of which deletes took {deleted}" if deleted else ""
        raise errors.CommitError(
            f"{added} records would replace {removed}{taken}; a rewrite must not change what a table holds."
        )


def check_specs(metadata: TableMetadata, request: ReplaceRequest) -> None:
    """The partition specs of all files are still there."""
    if missing := {spec_id for spec_id, _ in request.inputs | request.outputs} - metadata.specs().keys():
        raise errors.ConflictError(f"Partition spec {min(missing)} was removed from the table; make a new plan.")


def check_history(metadata: TableMetadata, pin: Pin) -> Snapshot:
    """The branch head that a commit may build on: it descends from the planned snapshot (R7)."""
    if str(metadata.table_uuid) != pin.table_uuid:
        raise errors.ConflictError("The table was dropped and created anew since the plan was made; make a new plan.")
    if metadata.format_version != pin.format_version:  # R39
        raise errors.ConflictError(
            f"The table went from format version {pin.format_version} to {metadata.format_version} since the plan "
            "was made; make a new plan."
        )
    head = metadata.snapshot_by_name(pin.branch)
    if head is None:
        raise errors.ConflictError(f"The branch {pin.branch} is gone since the plan was made.")
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    if pin.snapshot_id not in snapshots:
        raise errors.ConflictError(f"The planned snapshot {pin.snapshot_id} has expired; make a new plan.")
    ancestor: Snapshot | None = head
    while ancestor is not None and ancestor.snapshot_id != pin.snapshot_id:
        parent = ancestor.parent_snapshot_id
        ancestor = snapshots.get(parent) if parent is not None else None
    if ancestor is None:
        raise errors.ConflictError(
            f"The branch {pin.branch} no longer descends from the planned snapshot {pin.snapshot_id} "
            "(rolled back, replaced, or history has expired); make a new plan."
        )
    return head
