"""Everything that planning and health may know about a table, gathered once: a table comes in, one pinned snapshot's
files, settings and counts go out. Only metadata is read."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from pyiceberg.table import refs

from iceberg_compaction import errors
from iceberg_compaction.metadata import files as live
from iceberg_compaction.metadata import filter as file_filter
from iceberg_compaction.metadata import support
from iceberg_compaction.model import table as table_model

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


def take_inventory(
    table: Table, *, name: str, branch: str = refs.MAIN_BRANCH, where: str | None = None
) -> table_model.Inventory:
    """The branch's head as an inventory. `where` marks, in `selected`, the files that may hold matching rows."""
    condition = None if where is None else file_filter.parse(where, table.schema())
    snapshot = _head(table, name, branch)
    files, manifests = _read(table, snapshot, () if condition is None else condition.field_ids)
    selected = None if condition is None else condition.select(files, table.specs())
    files = files.select(table_model.FILES.names)
    return table_model.Inventory(
        table=name,
        pin=None if snapshot is None else _pin(table, branch, snapshot),
        files=files,
        properties=dict(table.properties),
        selected=selected,
        manifests=manifests,
        snapshots=len(table.metadata.snapshots),
        refs=len(table.metadata.refs),
        unsupported=support.unsupported(table, files),
    )


def _read(table: Table, snapshot: Snapshot | None, field_ids: tuple[int, ...]) -> tuple[pa.Table, int]:
    """The live files, with the metrics of these fields, and how many manifests list them."""
    if snapshot is None:
        return live.no_files(metrics=field_ids), 0
    try:
        manifests = live.list_manifests(table.io, snapshot)
        return live.live_files(table, snapshot, metrics=field_ids, manifests=manifests), len(manifests)
    except errors.MetadataError:
        if support.ENCRYPTION_KEY not in table.properties:
            raise
        # Manifests of an encrypted table are encrypted, too; that the table is not supported says it better.
        return live.no_files(metrics=field_ids), 0


def _head(table: Table, name: str, branch: str) -> Snapshot | None:
    known = table.metadata.refs
    if branch not in known:
        if branch == refs.MAIN_BRANCH and not table.metadata.snapshots:
            return None
        branches = sorted(key for key, ref in known.items() if ref.snapshot_ref_type == refs.SnapshotRefType.BRANCH)
        near = difflib.get_close_matches(branch, branches, n=3) or branches
        raise errors.ConfigError(f"Table {name} has no branch {branch!r}; there is {', '.join(near) or 'none'}.")
    if known[branch].snapshot_ref_type != refs.SnapshotRefType.BRANCH:
        raise errors.ConfigError(f"{branch!r} is a tag of table {name}, and a tag does not move; name a branch.")
    snapshot = table.metadata.snapshot_by_id(known[branch].snapshot_id)
    if snapshot is None:
        raise errors.MetadataError(
            f"Branch {branch!r} of table {name} points to snapshot {known[branch].snapshot_id}, which does not exist."
        )
    return snapshot


def _pin(table: Table, branch: str, snapshot: Snapshot) -> table_model.Pin:
    metadata = table.metadata
    return table_model.Pin(
        table_uuid=str(metadata.table_uuid),
        branch=branch,
        snapshot_id=snapshot.snapshot_id,
        sequence_number=snapshot.sequence_number or 0,  # v1 has none
        schema_id=metadata.current_schema_id,  # outputs are written in the current schema, whatever the snapshot's was
        spec_id=metadata.default_spec_id,
        format_version=metadata.format_version,
    )
