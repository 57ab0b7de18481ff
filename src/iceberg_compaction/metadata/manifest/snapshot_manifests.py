"""The manifests of one snapshot, listed once. A table and a snapshot, or a plan that is pinned to one, come in; a value
goes out that all readers of the snapshot take, so that none of them reads the manifest list again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.manifest import ManifestContent

from iceberg_compaction import errors
from iceberg_compaction.metadata import fetch

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from iceberg_compaction.model.rewrite_plan import Plan

DATA, DELETES = ManifestContent.DATA, ManifestContent.DELETES


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotManifests:
    """A snapshot, and the entries of its manifest list in their order."""

    snapshot: Snapshot
    manifest_files: tuple[ManifestFile, ...]

    def live(self, content: ManifestContent) -> tuple[ManifestFile, ...]:
        """The manifests of this content that list live files."""
        return tuple(each for each in self.manifest_files if each.content == content and has_live_files(each))


def read(io: FileIO, snapshot: Snapshot) -> SnapshotManifests:
    """Reads the snapshot's manifest list."""
    return SnapshotManifests(snapshot=snapshot, manifest_files=tuple(fetch.list_manifests(io, snapshot)))


def of_plan(table: Table, plan: Plan, listed: SnapshotManifests | None = None) -> SnapshotManifests:
    """The manifests of the snapshot that the plan is pinned to: those `listed` when the plan was made, if they are of
    that snapshot. StalePlanError: the snapshot is gone."""
    snapshot = table.metadata.snapshot_by_id(plan.pin.snapshot_id)
    if snapshot is None:
        raise errors.StalePlanError(f"The snapshot that the plan for {plan.table} was made on is gone; plan again.")
    if listed is not None and listed.snapshot.snapshot_id == snapshot.snapshot_id:
        return listed
    return read(table.io, snapshot)


def has_live_files(manifest: ManifestFile) -> bool:
    """Whether a manifest lists live files, so that the next snapshot keeps it (R11). Old manifest lists may not say."""
    return manifest.has_added_files() or manifest.has_existing_files()
