"""Reads small manifests many at a time, because a query for a few entries costs more than decoding them. Entries of the
manifest list come in; parsed files go out, together where one query or one file can hold them all."""

from __future__ import annotations

from concurrent import futures
from typing import TYPE_CHECKING, Any

from iceberg_compaction.formats.avro import container
from iceberg_compaction.metadata import fetch
from iceberg_compaction.metadata.manifest import entry_counts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile

    Read = tuple[ManifestFile, container.Container]

SMALL, TOGETHER = 64 << 10, 100  # bytes, and how many that small go together
_THREADS = 8  # reading is waiting for the store


def batches(manifest_files: Sequence[ManifestFile]) -> Iterator[list[ManifestFile]]:
    """The manifests in order, small neighbours together."""
    batch: list[ManifestFile] = []
    for manifest in manifest_files:
        if batch and (manifest.manifest_length > SMALL or batch[-1].manifest_length > SMALL or len(batch) == TOGETHER):
            yield batch
            batch = []
        batch.append(manifest)
    if batch:
        yield batch


def read(io: FileIO, manifest: ManifestFile) -> container.Container:
    """Reads one manifest, which must have as many entries as the manifest list promises."""
    where = f"Manifest {manifest.manifest_path}"
    parsed = container.parse(fetch.read_bytes(io, manifest.manifest_path, where=where), where=where)
    entry_counts.check_count(manifest, parsed.rows)
    return parsed


def read_all(io: FileIO, manifest_files: Sequence[ManifestFile]) -> list[list[Read]]:
    """Reads the manifests; those of one Avro schema, format version and codec come together."""
    with futures.ThreadPoolExecutor(_THREADS) as pool:
        parsed = list(pool.map(lambda manifest: (manifest, read(io, manifest)), manifest_files))
    alike: dict[tuple[Any, ...], list[Read]] = {}
    for manifest, file in parsed:
        form = (file.metadata[container.SCHEMA], file.metadata.get("format-version"), file.codec)
        alike.setdefault(form, []).append((manifest, file))
    return list(alike.values())
