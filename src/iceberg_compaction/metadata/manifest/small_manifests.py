"""Small manifests read many at a time: to ask for a few entries costs more than to decode them. Rows of the manifest
list come in; parsed files go out, together where one query or one file can hold them all."""

from __future__ import annotations

from concurrent import futures
from typing import TYPE_CHECKING, Any

from iceberg_compaction.formats.avro import container
from iceberg_compaction.metadata import fetch
from iceberg_compaction.metadata.manifest import entry_change

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile

    Read = tuple[ManifestFile, container.Container]

SMALL, TOGETHER = 64 << 10, 100  # bytes, and how many that small go together
_THREADS = 8  # reading is waiting for the store


def batches(rows: Sequence[ManifestFile]) -> Iterator[list[ManifestFile]]:
    """The manifests in order, small neighbours together."""
    some: list[ManifestFile] = []
    for row in rows:
        if some and (row.manifest_length > SMALL or some[-1].manifest_length > SMALL or len(some) == TOGETHER):
            yield some
            some = []
        some.append(row)
    if some:
        yield some


def read(io: FileIO, row: ManifestFile) -> container.Container:
    """One manifest, with as many entries as the manifest list says."""
    where = f"Manifest {row.manifest_path}"
    parsed = container.parse(fetch.read_bytes(io, row.manifest_path, where=where), where=where)
    entry_change.check_count(row, parsed.rows)
    return parsed


def read_all(io: FileIO, rows: Sequence[ManifestFile]) -> list[list[Read]]:
    """The manifests, those of one Avro schema, format version and codec together."""
    with futures.ThreadPoolExecutor(_THREADS) as pool:
        parsed = list(pool.map(lambda row: (row, read(io, row)), rows))
    found: dict[tuple[Any, ...], list[Read]] = {}
    for row, file in parsed:
        kind = (file.metadata[container.SCHEMA], file.metadata.get("format-version"), file.codec)
        found.setdefault(kind, []).append((row, file))
    return list(found.values())
