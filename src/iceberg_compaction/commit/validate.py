"""Whether a rewrite may still be committed on the table as it is now. Run on every attempt, the first one included: the
plan may be hours old. Whatever fails here is final, because waiting does not undo it; a new plan may succeed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.metadata import entries, fetch, manifests, partitions
from iceberg_compaction.metadata.avro import decode
from iceberg_compaction.model import table as table_model

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from iceberg_compaction.commit.replace import ReplaceRequest
    from iceberg_compaction.model.table import Pin

_VERSIONS = (1, 2)
_PATH_ID = 2147483546  # file_path, the column of position delete files
_DELETES = {
    "status": ("status",),
    "sequence_number": ("sequence_number",),
    "content": ("data_file", "content"),
    "file_path": ("data_file", "file_path"),
    "partition": ("data_file", "partition"),
    "referenced_data_file": ("data_file", "referenced_data_file"),
    "lower_bounds": ("data_file", "lower_bounds"),
    "upper_bounds": ("data_file", "upper_bounds"),
}


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
    if removed != added:
        raise errors.CommitError(
            f"{added} records would replace {removed}; a rewrite must not change what a table holds."
        )
    if strange := {(file.spec_id, file.partition) for file in request.added} - set(request.partitions):
        raise errors.CommitError(f"A new file lies in partition {min(strange)[1]}, which the plan does not rewrite.")


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


def check_deletes(io: FileIO, metadata: TableMetadata, rows: Iterable[ManifestFile], request: ReplaceRequest) -> None:
    """No position delete or deletion vector newer than the plan may apply to a replaced file (R6): the new files hold
    the rows that it deletes, at other positions. Newer equality deletes are fine: the new files keep the planned data
    sequence number, so these still apply (R2)."""
    # A delete file newer than the plan came in a manifest newer than the plan, whatever manifest it has moved to since.
    newer = [
        row for row in rows if row.content == manifests.DELETES and row.sequence_number > request.pin.sequence_number
    ]
    if not newer:
        return
    replaced = frozenset(request.removed["file_path"].to_pylist())
    for row in newer:
        for entry in _new_position_deletes(io, metadata, row, request.pin.sequence_number):
            path = _referenced_path(entry)
            place = (row.partition_spec_id, entry["tuple"])
            if path in replaced if path is not None else place in request.partitions:
                raise errors.ConflictError(
                    "Rows of a rewritten file were deleted since the plan was made, by the position delete file "
                    f"{entry['file_path']}; make a new plan."
                )


def _new_position_deletes(io: FileIO, metadata: TableMetadata, row: ManifestFile, start: int) -> list[dict[str, Any]]:
    """The live position delete files and deletion vectors of a manifest that are newer than `start`."""
    where = f"Manifest {row.manifest_path}"
    table = decode.read_table(fetch.read_bytes(io, row.manifest_path, where=where), _DELETES, where=where)
    found = pc.and_(
        pc.and_(
            pc.not_equal(table["status"], entries.DELETED),
            # A sequence number that is not stated is the manifest's own.
            pc.greater(pc.fill_null(table["sequence_number"], row.sequence_number), start),
        ),
        pc.equal(table["content"], table_model.POSITION_DELETES),
    )
    partition = None
    if "partition" in table.column_names:
        partition = table["partition"].filter(found)
        table = table.drop_columns("partition")
    table = table.filter(found)
    spec = metadata.specs()[row.partition_spec_id]
    texts = partitions.encode(partition, spec, metadata.schema(), table.num_rows)
    rows: list[dict[str, Any]] = table.append_column("tuple", texts).to_pylist()
    return rows


def _referenced_path(entry: dict[str, Any]) -> str | None:
    """The one data file that a delete file is for, if it says so (R21)."""
    if entry.get("referenced_data_file"):
        return str(entry["referenced_data_file"])
    lower, upper = (
        next((pair["value"] for pair in entry[name] or () if pair["key"] == _PATH_ID), None)
        for name in ("lower_bounds", "upper_bounds")
    )
    return lower.decode() if lower is not None and lower == upper else None
