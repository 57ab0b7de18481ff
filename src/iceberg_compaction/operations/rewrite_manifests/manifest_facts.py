"""What is known of the manifests of a snapshot before they are rewritten: rows of its manifest list come in, and with
them the partitions that each manifest holds, which the live files tell; these come from the cache where they can."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyiceberg.transforms import UnknownTransform

from iceberg_compaction import errors
from iceberg_compaction.metadata import support
from iceberg_compaction.metadata.cache import arrow_cache
from iceberg_compaction.metadata.manifest import live_files, written_manifests
from iceberg_compaction.model import manifest_plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


def live_manifests(table: Table, rows: Sequence[ManifestFile]) -> list[ManifestFile]:
    """The rows of a manifest list whose manifests have live files, with all their counts."""
    return [written_manifests.with_counts(table.io, row) for row in rows if written_manifests.has_live_files(row)]


def read(
    table: Table, snapshot: Snapshot, rows: Sequence[ManifestFile], *, branch: str = "main"
) -> list[manifest_plan.ManifestFacts]:
    """One for each of the snapshot's live manifests, in their order."""
    if not rows:
        return []
    found = live_files.live_files(table, snapshot, manifests=rows, cache=arrow_cache.from_environment(), branch=branch)
    counts = [(row.added_files_count or 0) + (row.existing_files_count or 0) for row in rows]
    if sum(counts) != found.num_rows:
        raise errors.MetadataError(
            f"The manifests of snapshot {snapshot.snapshot_id} hold {found.num_rows} live files, but its manifest "
            f"list says {sum(counts)}."
        )
    column = found["partition"].unify_dictionaries()
    chunks = [chunk.indices.to_numpy() for chunk in column.chunks]
    codes = np.concatenate(chunks).astype(np.int64) if chunks else np.zeros(0, np.int64)
    del found, column
    pa.default_memory_pool().release_unused()  # a rewrite that follows needs it
    return [
        manifest_plan.ManifestFacts(
            path=row.manifest_path,
            spec_id=row.partition_spec_id,
            content=manifest_plan.Content.DELETES
            if row.content == written_manifests.DELETES
            else manifest_plan.Content.DATA,
            bytes=row.manifest_length,
            live=count,
            dead=row.deleted_files_count or 0,
            partitions=np.unique(codes[end - count : end]),
        )
        for row, count, end in zip(rows, counts, itertools.accumulate(counts), strict=True)
    ]


def check(table: Table, rows: Sequence[ManifestFile]) -> None:
    """Raise UnsupportedError if manifests of the table cannot be rewritten without loss."""
    version = table.metadata.format_version
    if version > support.NEWEST_FORMAT_VERSION:
        raise errors.UnsupportedError(f"The table has format version {version}; versions 1 and 2 can be rewritten.")
    encrypted = support.ENCRYPTION_KEY in table.properties or any(row.key_metadata for row in rows)
    if encrypted:
        raise errors.UnsupportedError("The table is encrypted, and its manifests cannot be rewritten yet.")


def unwritable_specs(table: Table) -> frozenset[int]:
    """Specs whose partition values have a type that is not known here: what their bounds would be is not known."""
    unknown = {
        spec_id
        for spec_id, spec in table.specs().items()
        if any(isinstance(field.transform, UnknownTransform) for field in spec.fields)
    }
    return support.unwritable_specs(table) | frozenset(unknown)
