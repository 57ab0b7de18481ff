"""Checks that a manifest has as many entries as its manifest list promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction import errors

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile


def promised(manifest: ManifestFile) -> int | None:
    """The number of entries that the manifest list promises; None: it has no counts, as in old lists of version 1."""
    counts = (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count)
    return None if None in counts else sum(count or 0 for count in counts)


def check_count(manifest: ManifestFile, entries: int) -> None:
    """Raises MetadataError for another number: a manifest that is cut at the border of a block is still readable."""
    count = promised(manifest)
    if count is not None and entries != count:
        raise errors.MetadataError(
            f"Manifest {manifest.manifest_path} holds {entries} entries, but the manifest list promises {count}."
        )
