"""Updates that a catalog takes only while it has a snapshot. Requirements of REST catalogs do not cover that, so a
request names the snapshot for a moment, with a tag that the same request removes: no catalog makes a tag on a snapshot
that it does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import RemoveSnapshotRefUpdate, SetSnapshotRefUpdate

if TYPE_CHECKING:
    from pyiceberg.table.update import TableUpdate


def updates(snapshot_id: int, tag_name: str) -> tuple[TableUpdate, ...]:
    """They change nothing. `tag_name`: that nobody else has."""
    tag = SetSnapshotRefUpdate(
        ref_name=tag_name,
        type=SnapshotRefType.TAG,
        snapshot_id=snapshot_id,
        max_ref_age_ms=None,
        max_snapshot_age_ms=None,
        min_snapshots_to_keep=None,
    )
    return tag, RemoveSnapshotRefUpdate(ref_name=tag_name)
