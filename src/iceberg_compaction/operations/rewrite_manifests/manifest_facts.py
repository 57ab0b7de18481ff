"""Facts about the manifests of a snapshot that decide about their rewrite. The entries of its manifest list come in;
sizes, counts and the partitions of each manifest go out. The partitions are those of the live files, which come from
the cache where they can."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyiceberg.transforms import UnknownTransform

from iceberg_compaction import errors
from iceberg_compaction.metadata import support
from iceberg_compaction.metadata.manifest import live_files, snapshot_manifests, written_manifests
from iceberg_compaction.model import manifest_plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table

    from iceberg_compaction.metadata.cache import arrow_cache
    from iceberg_compaction.metadata.manifest.snapshot_manifests import SnapshotManifests


def with_live_files(table: Table, manifests: SnapshotManifests) -> SnapshotManifests:
    """Those of the manifests that list live files, with all their counts."""
    live = filter(snapshot_manifests.has_live_files, manifests.manifest_files)
    counted = tuple(written_manifests.with_counts(table.io, manifest) for manifest in live)
    return replace(manifests, manifest_files=counted)


def read(
    table: Table, manifests: SnapshotManifests, *, branch: str, cache: arrow_cache.ArrowCache
) -> list[manifest_plan.ManifestFacts]:
    """The facts of each manifest, in order. All of them list live files."""
    if not manifests.manifest_files:
        return []
    files = live_files.live_files(table, manifests, cache=cache, branch=branch)
    facts = of_files(manifests, files)
    del files
    pa.default_memory_pool().release_unused()  # a rewrite that follows needs it
    return facts


def of_files(manifests: SnapshotManifests, files: pa.Table) -> list[manifest_plan.ManifestFacts]:
    """The same from the live files of these manifests, in the order of the manifests."""
    counts = [
        (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
        for manifest in manifests.manifest_files
    ]
    if sum(counts) != files.num_rows:
        raise errors.MetadataError(
            f"The manifests of snapshot {manifests.snapshot.snapshot_id} hold {files.num_rows} live files, but its "
            f"manifest list says {sum(counts)}."
        )
    column = files["partition"].unify_dictionaries()
    chunks = [chunk.indices.to_numpy() for chunk in column.chunks]
    codes = np.concatenate(chunks).astype(np.int64) if chunks else np.zeros(0, np.int64)
    return [
        manifest_plan.ManifestFacts(
            path=manifest.manifest_path,
            spec_id=manifest.partition_spec_id,
            content=manifest_plan.Content.DELETES
            if manifest.content == snapshot_manifests.DELETES
            else manifest_plan.Content.DATA,
            bytes=manifest.manifest_length,
            live=count,
            dead=manifest.deleted_files_count or 0,
            partitions=np.unique(codes[end - count : end]),
        )
        for manifest, count, end in zip(manifests.manifest_files, counts, itertools.accumulate(counts), strict=True)
    ]


def target_size(table: Table) -> int:
    """Bytes of a manifest by the table's own setting."""
    text = table.properties.get(manifest_plan.TARGET_PROPERTY, "")
    is_number = text.isascii() and text.isdigit()
    return max(manifest_plan.LEAST_TARGET, int(text)) if is_number else manifest_plan.DEFAULT_TARGET


def check(table: Table, manifest_files: Sequence[ManifestFile]) -> None:
    """Raises UnsupportedError if manifests of the table cannot be rewritten without loss."""
    version = table.metadata.format_version
    if version > support.NEWEST_FORMAT_VERSION:
        raise errors.UnsupportedError(f"The table has format version {version}; versions 1 and 2 can be rewritten.")
    encrypted = support.ENCRYPTION_KEY in table.properties or any(manifest.key_metadata for manifest in manifest_files)
    if encrypted:
        raise errors.UnsupportedError("The table is encrypted, and its manifests cannot be rewritten yet.")


def unwritable_specs(table: Table) -> frozenset[int]:
    """Specs whose partition values have a type that is not known here, so that their bounds cannot be written."""
    unknown = {
        spec_id
        for spec_id, spec in table.specs().items()
        if any(isinstance(field.transform, UnknownTransform) for field in spec.fields)
    }
    return support.unwritable_specs(table) | frozenset(unknown)
