"""Writes manifests of added files, and the manifest list. Staged files come in; new manifests and their entries for the
manifest list go out. `rewrite_entries` makes the manifests that lose files."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.compute as pc
from pyiceberg import manifest as pyiceberg_manifest
from pyiceberg.manifest import ManifestContent, ManifestFile

from iceberg_compaction import errors
from iceberg_compaction.formats.avro import avro_decode, avro_encode, container
from iceberg_compaction.metadata import fetch
from iceberg_compaction.metadata.manifest import entry_fields
from iceberg_compaction.model import table_view
from iceberg_compaction.storage import counted_writes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Literal, TypeAlias

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import PartitionFieldSummary
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.typedef import TableVersion

    Codec: TypeAlias = Literal["null", "deflate", "zstandard"]

    from iceberg_compaction.model.rewrite_task import StagedFile

UNASSIGNED = -1  # a sequence number that the manifest list fills in
CODEC_PROPERTY = "write.avro.compression-codec"
_CODECS: dict[str, Codec] = {
    "gzip": "deflate",
    "zstd": "zstandard",
    "uncompressed": "null",
}  # Iceberg's names and Avro's
AVRO_CODECS: frozenset[str] = frozenset(_CODECS.values())  # those that we write


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Files of one status in a manifest."""

    files: int = 0
    records: int = 0
    bytes: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            files=self.files + other.files, records=self.records + other.records, bytes=self.bytes + other.bytes
        )


NONE = Counts()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewManifest:
    """A manifest that this commit wrote, with all fields of its entry in the manifest list."""

    path: str
    length: int
    spec_id: int
    snapshot_id: int
    content: ManifestContent = ManifestContent.DATA
    added: Counts = NONE
    existing: Counts = NONE
    deleted: Counts = NONE
    min_sequence_number: int | None  # of the live files; None: there are none
    summaries: list[PartitionFieldSummary] | None

    def to_manifest_file(self) -> ManifestFile:
        """The entry of the manifest list, a new object on each call: PyIceberg's list writer changes its input."""
        return ManifestFile.from_args(
            manifest_path=self.path,
            manifest_length=self.length,
            partition_spec_id=self.spec_id,
            content=self.content,
            sequence_number=UNASSIGNED,
            min_sequence_number=UNASSIGNED if self.min_sequence_number is None else self.min_sequence_number,
            added_snapshot_id=self.snapshot_id,
            added_files_count=self.added.files,
            existing_files_count=self.existing.files,
            deleted_files_count=self.deleted.files,
            added_rows_count=self.added.records,
            existing_rows_count=self.existing.records,
            deleted_rows_count=self.deleted.records,
            partitions=self.summaries,
            key_metadata=None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """The settings that all manifests of one commit share."""

    io: FileIO
    snapshot_id: int
    format_version: TableVersion
    codec: Codec
    new_path: Callable[[], str]


def codec(properties: Mapping[str, str]) -> Codec:
    """Avro's name of the table's codec for metadata; Iceberg's default where it is one that we cannot write."""
    return _CODECS.get(properties.get(CODEC_PROPERTY, "gzip").lower(), "deflate")


def write_manifest(
    writing: Writing, files: Sequence[StagedFile], layout: entry_fields.ManifestLayout, sequence: int
) -> NewManifest:
    """As `write_manifests`, in a single manifest."""
    (made,) = write_manifests(writing, files, layout, sequence)
    return made


def write_manifests(
    writing: Writing,
    files: Sequence[StagedFile],
    layout: entry_fields.ManifestLayout,
    sequence: int,
    target: int | None = None,
) -> list[NewManifest]:
    """Writes the files, all of one spec and kind, as ADDED entries, in manifests of at most the target size. Their data
    sequence number is `sequence`, unless they have one of their own."""
    deletes = files[0].content != table_view.DATA
    avro = entry_fields.avro_schema(layout, references=deletes)
    table = entry_fields.added(files, layout, snapshot_id=writing.snapshot_id, sequence_number=sequence)
    sync = secrets.token_bytes(container.SYNC_SIZE)
    header = container.header(header_metadata(layout, avro, writing.codec, deletes=deletes), sync)
    made, first = [], 0
    for blocks in _rolled(avro_encode.blocks(avro, table, writing.codec, sync), len(header), target):
        last = first + sum(container.get_long(block, 0)[0] for block in blocks)
        made.append(_write_added(writing, files[first:last], layout, sequence, [header, *blocks]))
        first = last
    return made


def _rolled(blocks: Iterable[bytes], header: int, target: int | None) -> Iterator[list[bytes]]:
    filling: list[bytes] = []
    size = header
    for block in blocks:
        if filling and target is not None and size + len(block) > target:
            yield filling
            filling, size = [], header
        filling.append(block)
        size += len(block)
    yield filling


def _write_added(
    writing: Writing,
    files: Sequence[StagedFile],
    layout: entry_fields.ManifestLayout,
    sequence: int,
    parts: Sequence[bytes],
) -> NewManifest:
    path = writing.new_path()
    return NewManifest(
        path=path,
        length=write_bytes(writing.io, path, parts),
        spec_id=layout.spec.spec_id,
        snapshot_id=writing.snapshot_id,
        content=ManifestContent.DATA if files[0].content == table_view.DATA else ManifestContent.DELETES,
        added=Counts(
            files=len(files),
            records=sum(file.record_count for file in files),
            bytes=sum(file.file_size_in_bytes for file in files),
        ),
        min_sequence_number=min(entry_fields.sequence_numbers(files, sequence)),
        summaries=pyiceberg_manifest.construct_partition_summaries(
            layout.spec, layout.schema, entry_fields.tuples(files, layout)
        ),
    )


def _counts_of(manifest: ManifestFile) -> tuple[int | None, ...]:
    files = (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count)
    return (*files, manifest.added_rows_count, manifest.existing_rows_count, manifest.deleted_rows_count)


def write_list(
    writing: Writing, path: str, manifest_files: list[ManifestFile], parent: Snapshot, sequence_number: int
) -> None:
    """Writes a manifest list. The commit's own manifests, which have no sequence number yet, get the given one."""
    try:
        with pyiceberg_manifest.write_manifest_list(
            writing.format_version,
            counted_writes.new_output(writing.io, path),
            writing.snapshot_id,
            parent.snapshot_id,
            sequence_number,
            writing.codec,
        ) as writer:
            writer.add_manifests(manifest_files)
    except OSError as error:
        raise errors.CommitError(f"Manifest list {path} could not be written: {error}.") from error


def with_counts(io: FileIO, manifest: ManifestFile) -> ManifestFile:
    """The entry with all counts of files and rows, which version 2 demands and old writers of version 1 left out."""
    if all(count is not None for count in _counts_of(manifest)):
        return manifest
    select = {"status": ("status",), "record_count": ("data_file", "record_count")}
    where = f"Manifest {manifest.manifest_path}"
    table = avro_decode.read_table(fetch.read_bytes(io, manifest.manifest_path, where=where), select, where=where)
    counts = {}
    for status, name in (
        (entry_fields.ADDED, "added"),
        (entry_fields.EXISTING, "existing"),
        (entry_fields.DELETED, "deleted"),
    ):
        chosen = table.filter(pc.equal(table["status"], status))
        counts[f"{name}_files_count"] = chosen.num_rows
        counts[f"{name}_rows_count"] = pc.sum(chosen["record_count"]).as_py() or 0
    return ManifestFile.from_args(
        manifest_path=manifest.manifest_path,
        manifest_length=manifest.manifest_length,
        partition_spec_id=manifest.partition_spec_id,
        content=manifest.content,
        sequence_number=manifest.sequence_number,
        min_sequence_number=manifest.min_sequence_number,
        added_snapshot_id=manifest.added_snapshot_id,
        partitions=manifest.partitions,
        key_metadata=manifest.key_metadata,
        **counts,
    )


def header_metadata(
    layout: entry_fields.ManifestLayout, avro: dict[str, object], codec: str, *, deletes: bool = False
) -> dict[str, bytes]:
    """The metadata in the header of a manifest of data files, or of delete files."""
    spec_fields = [field.model_dump(by_alias=True, mode="json") for field in layout.spec.fields]
    metadata = {
        "schema": layout.schema.model_dump_json(),
        "schema-id": str(layout.schema.schema_id),
        "partition-spec": json.dumps(spec_fields),
        "partition-spec-id": str(layout.spec.spec_id),
        "format-version": str(layout.format_version),
        **({"content": "deletes" if deletes else "data"} if layout.format_version > 1 else {}),
        container.SCHEMA: json.dumps(avro),
        container.CODEC: codec,
    }
    return {key: value.encode() for key, value in metadata.items()}


def write_bytes(io: FileIO, path: str, parts: Sequence[bytes]) -> int:
    """Writes a manifest and returns its length."""
    try:
        with counted_writes.new_output(io, path).create() as stream:
            for part in parts:
                stream.write(part)
    except OSError as error:
        raise errors.CommitError(f"Manifest {path} could not be written: {error}.") from error
    return sum(map(len, parts))
