"""Tables whose metadata does not fit their files, as bugs of writers leave them: manifests of a branch's head are
written again by PyIceberg, with entries or counts that are wrong."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest,
)
from pyiceberg.table.snapshots import Operation
from tests.factories import manifests

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyiceberg.table import Table

FIELDS = (
    *("content", "file_path", "file_format", "partition", "record_count", "file_size_in_bytes", "column_sizes"),
    *("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds", "split_offsets"),
    *("equality_ids", "sort_order_id"),
)

LISTED = (
    *("manifest_path", "manifest_length", "partition_spec_id", "content", "sequence_number", "min_sequence_number"),
    *("added_snapshot_id", "added_files_count", "existing_files_count", "deleted_files_count", "added_rows_count"),
    *("existing_rows_count", "deleted_rows_count", "partitions", "key_metadata"),
)


def changed(entry: ManifestEntry, **changes: Any) -> ManifestEntry:
    """The entry as EXISTING, with other fields of its data file, or its own `sequence_number`."""
    number = changes.pop("sequence_number", entry.sequence_number)
    old = entry.data_file
    file = DataFile.from_args(**({name: getattr(old, name) for name in FIELDS} | changes))
    file.spec_id = old.spec_id
    return ManifestEntry.from_args(
        status=ManifestEntryStatus.EXISTING,
        snapshot_id=entry.snapshot_id,
        sequence_number=number,
        file_sequence_number=entry.file_sequence_number,
        data_file=file,
    )


def relisted(manifest: ManifestFile, **changes: Any) -> ManifestFile:
    """The entry of a manifest list, with other fields."""
    return ManifestFile.from_args(**({name: getattr(manifest, name) for name in LISTED} | changes))


def live(table: Table) -> list[ManifestEntry]:
    """All live entries of the main branch, in the order of its manifests."""
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    return [entry for manifest in snapshot.manifests(table.io) for entry in manifest.fetch_manifest_entry(table.io)]


def damage(
    table: Table,
    entries: Callable[[list[ManifestEntry]], Sequence[ManifestEntry]] = list,
    listed: Callable[[list[ManifestFile]], list[ManifestFile]] = list,
) -> Table:
    """Commit the live entries as one manifest for each kind of file, after `entries` has changed them, in a manifest
    list that `listed` has changed."""
    snapshot_id = table.refresh().metadata.new_snapshot_id()
    made = []
    wrong = entries([changed(entry) for entry in live(table)])
    for is_data in (True, False):
        own = [entry for entry in wrong if (entry.data_file.content == DataFileContent.DATA) == is_data]
        if own:
            made.append(_write(table, own, snapshot_id))
    return manifests.commit_manifests(table, snapshot_id, listed(made), operation=Operation.REPLACE, keep_head=False)


def _write(table: Table, entries: Sequence[ManifestEntry], snapshot_id: int) -> ManifestFile:
    output = table.io.new_output(f"{table.location()}/metadata/{uuid.uuid4()}-m0.avro")
    first = entries[0].data_file
    spec = table.specs()[first.spec_id]
    if first.content == DataFileContent.DATA:
        opened = write_manifest(table.metadata.format_version, spec, table.schema(), output, snapshot_id, "gzip")
    else:
        opened = manifests.DeleteManifestWriter(spec, table.schema(), output, snapshot_id, "gzip")
    with opened as writer:
        for entry in entries:
            writer.existing(entry)
    return writer.to_manifest_file()
