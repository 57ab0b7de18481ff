"""The files that one snapshot added and removed, by the manifests that it wrote. A snapshot comes in, two tables of
files go out. Snapshots of the past have them as long as they have not expired."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from iceberg_compaction.formats.avro import container
from iceberg_compaction.metadata import fetch
from iceberg_compaction.metadata.manifest import parse_manifest, snapshot_manifests
from iceberg_compaction.model import table_view

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFiles:
    """Data and delete files that came and went with a snapshot (model.table_view.FILES)."""

    added: pa.Table
    removed: pa.Table
    removed_in: tuple[ManifestFile, ...]  # the manifests that list removed files
    removed_versions: frozenset[int]  # the format versions of these manifests


def read(table: Table, snapshot: Snapshot) -> ChangedFiles:
    """Reads the manifests that the snapshot wrote. Manifests of its parents are not opened."""
    reading = parse_manifest.reading(table, ())
    added, removed, removed_in, versions = [], [], [], set()
    for manifest in snapshot_manifests.read(table.io, snapshot).manifest_files:
        if manifest.added_snapshot_id != snapshot.snapshot_id:
            continue
        where = f"Manifest {manifest.manifest_path}"
        data = fetch.read_bytes(table.io, manifest.manifest_path, where=where)
        came, went = parse_manifest.parse_changes(data, manifest, reading)
        added.append(came)
        removed.append(went)
        if went.num_rows:
            removed_in.append(manifest)
            versions.add(int(container.parse(data, where=where).metadata.get("format-version", b"1")))
    return ChangedFiles(
        added=_joined(added),
        removed=_joined(removed),
        removed_in=tuple(removed_in),
        removed_versions=frozenset(versions),
    )


def _joined(parts: list[pa.Table]) -> pa.Table:
    files = [part.select(table_view.FILES.names) for part in parts]
    return pa.concat_tables([table_view.FILES.empty_table(), *files]).unify_dictionaries().combine_chunks()
