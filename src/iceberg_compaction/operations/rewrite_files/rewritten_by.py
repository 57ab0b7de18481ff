"""Who rewrote the files of a plan before it could. A table and a plan come in, none of whose files is in the table any
more; out come the snapshots that replaced them, if no file left the table in another way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import ManifestContent, ManifestEntryStatus
from pyiceberg.table.snapshots import Operation

from iceberg_compaction.commit import snapshot_summary
from iceberg_compaction.metadata import fetch, snapshot_log
from iceberg_compaction.model import snapshot_history
from iceberg_compaction.operations import run_facts
from iceberg_compaction.operations.rewrite_files.groups import prove_groups
from iceberg_compaction.storage import translate

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from iceberg_compaction.model.rewrite_plan import Plan


def rewritten_by(table: Table, plan: Plan) -> run_facts.RewrittenBy | None:
    """The rewrites that took all files of the plan. None: some file was deleted or overwritten, or the history since
    the plan is not complete any more."""
    since = _since(table, plan)
    if since is None:
        return None
    rewrites = [snapshot for snapshot in since if _operation(snapshot) is Operation.REPLACE and _removes(snapshot)]
    if not rewrites:
        return None
    if any(_operation(each) is not Operation.REPLACE and _removes(each) for each in since):
        removed = {snapshot.snapshot_id: _removed_files(table, snapshot) for snapshot in rewrites}
        every_path = plan.files["file_path"]
        paths = pa.array(sorted(set().union(*removed.values())), pa.string())
        if not pc.all(pc.is_in(every_path, value_set=paths)).as_py():
            return None
        planned = set(every_path.to_pylist())
        rewrites = [snapshot for snapshot in rewrites if removed[snapshot.snapshot_id] & planned]
    return run_facts.RewrittenBy(
        snapshot_ids=tuple(snapshot.snapshot_id for snapshot in rewrites),
        writers=tuple(dict.fromkeys(_writer(snapshot, plan) for snapshot in rewrites)),
    )


def _since(table: Table, plan: Plan) -> list[Snapshot] | None:
    """The snapshots of the branch after the planned one, the oldest first. None: it is not in the branch's line."""
    newer: list[Snapshot] = []
    for snapshot in snapshot_log.line(table.metadata, plan.pin.branch):
        if snapshot.snapshot_id == plan.pin.snapshot_id:
            return newer[::-1]
        newer.append(snapshot)
    return None


def _operation(snapshot: Snapshot) -> Operation | None:
    return None if snapshot.summary is None else snapshot.summary.operation


def _removes(snapshot: Snapshot) -> bool:
    """Whether data files may have left the table in this snapshot."""
    if _operation(snapshot) is Operation.APPEND:
        return False
    count = snapshot.summary.additional_properties.get("deleted-data-files") if snapshot.summary else None
    return count not in (None, "0") or _operation(snapshot) is not Operation.REPLACE


def _removed_files(table: Table, snapshot: Snapshot) -> set[str]:
    """The data files that left the table in this snapshot."""
    with translate.border(f"the manifests of snapshot {snapshot.snapshot_id}"):
        return {
            entry.data_file.file_path
            for manifest in fetch.list_manifests(table.io, snapshot)
            if manifest.added_snapshot_id == snapshot.snapshot_id and manifest.content == ManifestContent.DATA
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
            if entry.status == ManifestEntryStatus.DELETED
        }


def _writer(snapshot: Snapshot, plan: Plan) -> str:
    """The writer of a rewrite in words."""
    summary = dict(snapshot.summary.additional_properties) if snapshot.summary else {}
    if run_id := summary.get(snapshot_summary.RUN_ID):
        same = " with this very plan" if prove_groups.is_of(plan, snapshot) else ""
        return f"run {run_id} of iceberg-compact{same}"
    engine, app = snapshot_log.writer_of(summary)
    name = "a writer that left no name" if engine == snapshot_history.UNKNOWN else engine.capitalize()
    return f"{name} (application {app})" if app else name
