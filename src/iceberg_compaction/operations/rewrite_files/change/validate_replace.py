"""Checks whether a rewrite may still be committed on the table as it is now. It runs on every attempt, the first one
included: the plan may be hours old. A conflict of the whole commit is raised; conflicts of single groups are returned,
as their ids with a sentence each. Either is final, because waiting does not undo it; a new plan may succeed."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.commit import new_snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from iceberg_compaction.model.table_view import Pin
    from iceberg_compaction.operations.rewrite_files.change.replace_request import ReplaceGroup, ReplaceRequest

_VERSIONS = (1, 2)


def check_request(request: ReplaceRequest) -> None:
    """Checks the rules that do not depend on the table."""
    if request.pin.format_version not in _VERSIONS:
        raise errors.UnsupportedError(f"Format version {request.pin.format_version} cannot be committed to yet.")
    if not request.groups and not request.tidies:
        raise errors.CommitError("There is nothing to commit: the request has no groups.")
    if len(set(request.ids)) != len(request.ids):
        raise errors.CommitError("The request names a group twice.")
    for group in request.groups:
        _check_group(group)
    paths = request.removed["file_path"]
    if len(paths.unique()) != len(paths):
        raise errors.CommitError("The plan names a file twice, so its rows would be doubled; make a new plan.")


def _check_group(group: ReplaceGroup) -> None:
    if not group.removed.num_rows:
        raise errors.CommitError("There is nothing to commit: a rewrite removes at least one file.")
    removed = pc.sum(group.removed["record_count"]).as_py()
    check_records(sum(file.record_count for file in group.added), removed, group.deleted_records)
    if not group.moved and (strange := group.outputs - frozenset(group.partitions)):
        raise errors.CommitError(f"A new file lies in partition {min(strange)[1]}, which the plan does not rewrite.")


def check_records(added: int, removed: int, deleted: int) -> None:
    """Rows may only be gone where deletes took them (R8)."""
    if deleted < 0 or added != removed - deleted:
        taken = f" of which deletes took {deleted}" if deleted else ""
        raise errors.CommitError(
            f"{added} records would replace {removed}{taken}; a rewrite must not change what a table holds."
        )


def without_spec(metadata: TableMetadata, request: ReplaceRequest) -> dict[int, str]:
    """The groups with a file of a partition spec that is no longer there."""
    specs = metadata.specs().keys()
    if not {spec_id for spec_id, _ in request.inputs | request.outputs} - specs:
        return {}
    conflicts = {}
    for group in request.groups:
        if missing := {spec_id for spec_id, _ in group.outputs.union(group.partitions)} - specs:
            conflicts[group.id] = f"Partition spec {min(missing)} was removed from the table; make a new plan."
    return conflicts


def without_inputs(request: ReplaceRequest, leaving: Sequence[str]) -> dict[int, str]:
    """The groups with a file that is no longer live (R5), given the paths that are. Each may be in one entry only."""
    distinct = frozenset(leaving)
    if len(leaving) != len(distinct):
        twice = next(path for path in leaving if leaving.count(path) > 1)
        raise errors.MetadataError(f"{twice} is listed twice in the table's manifests; nothing was committed.")
    if len(distinct) == request.removed.num_rows:
        return {}
    missing: dict[int, list[str]] = defaultdict(list)
    for path, owner in zip(request.removed["file_path"].to_pylist(), request.owners.tolist(), strict=True):
        if path not in distinct:
            missing[owner].append(path)
    return {owner: _missing(paths) for owner, paths in missing.items()}


def with_newer_inputs(request: ReplaceRequest, newer: Sequence[str]) -> dict[int, str]:
    """The groups with one of these files, which a later commit than the planned snapshot has added. Such a file left
    and came back: deletes in between do not apply to its rows any more, but would to ours, which are older."""
    if not newer:
        return {}
    again = frozenset(newer)
    owners = zip(request.removed["file_path"].to_pylist(), request.owners.tolist(), strict=True)
    return {
        owner: f"The file {path} left the table and came back since the plan was made; make a new plan."
        for path, owner in owners
        if path in again
    }


def _missing(paths: list[str]) -> str:
    named = ", ".join(paths[:3]) + (" and others" if len(paths) > 3 else "")
    return f"{len(paths)} of the files to replace are no longer in the table ({named}); make a new plan."


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
    if metadata.snapshot_by_id(pin.snapshot_id) is None:
        raise errors.ConflictError(f"The planned snapshot {pin.snapshot_id} has expired; make a new plan.")
    if not new_snapshot.descends(metadata, head, pin.snapshot_id):
        raise errors.ConflictError(
            f"The branch {pin.branch} no longer descends from the planned snapshot {pin.snapshot_id} "
            "(rolled back, replaced, or history has expired); make a new plan."
        )
    return head
