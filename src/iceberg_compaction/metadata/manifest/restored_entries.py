"""Entries of files that an earlier snapshot removed, written as files that a new snapshot adds (R10): data sequence
numbers are those that the files had, so that the same deletes apply to them; file sequence numbers are those of the new
commit, so that others see that the files came back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.formats.avro import avro_decode, avro_encode, container
from iceberg_compaction.metadata import fetch
from iceberg_compaction.metadata.manifest import entry_fields, written_manifests

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile


def restore(
    writing: written_manifests.Writing, source: ManifestFile, paths: pa.Array
) -> written_manifests.NewManifest | None:
    """A manifest that adds the files of these paths which the snapshot of `source` removed; None: it removed none of
    them."""
    where = f"Manifest {source.manifest_path}"
    parsed = container.parse(fetch.read_bytes(writing.io, source.manifest_path, where=where), where=where)
    if int(parsed.metadata.get("format-version", b"1")) != writing.format_version:
        raise errors.UnsupportedError(f"{where} has another format version than the table by now.")
    entries = _chosen(avro_decode.read(parsed, where=where), source, paths)
    if not entries.num_rows:
        return None
    numbers = _numbers(entries, writing.format_version, where)
    entries = _as_added(entries, writing.snapshot_id)
    metadata = dict(parsed.metadata)
    if parsed.codec not in written_manifests.AVRO_CODECS:
        metadata[container.CODEC] = writing.codec.encode()
    codec = metadata.get(container.CODEC, b"null").decode()
    blocks = avro_encode.blocks(parsed.schema, entries, codec, parsed.sync)
    path = writing.new_path()
    length = written_manifests.write_bytes(writing.io, path, [container.header(metadata, parsed.sync), *blocks])
    return written_manifests.NewManifest(
        path=path,
        length=length,
        spec_id=source.partition_spec_id,
        snapshot_id=writing.snapshot_id,
        content=source.content,
        added=written_manifests.Counts(
            files=entries.num_rows,
            records=pc.sum(pc.struct_field(entries["data_file"], "record_count")).as_py(),
            bytes=pc.sum(pc.struct_field(entries["data_file"], "file_size_in_bytes")).as_py(),
        ),
        min_sequence_number=min(numbers),
        summaries=source.partitions,  # they cover more files than these, which the specification allows
    )


def _chosen(entries: pa.Table, source: ManifestFile, paths: pa.Array) -> pa.Table:
    own = pc.equal(pc.fill_null(entries["snapshot_id"], source.added_snapshot_id), source.added_snapshot_id)
    removed = pc.and_(own, pc.equal(entries["status"], entry_fields.DELETED))
    wanted = pc.is_in(pc.struct_field(entries["data_file"], "file_path"), value_set=paths)
    return entries.filter(pc.and_(removed, wanted)).combine_chunks()


def _numbers(entries: pa.Table, version: int, where: str) -> list[int]:
    """The data sequence numbers; format version 1 has none."""
    if version == 1:
        return [0]
    numbers = entries["sequence_number"]
    if numbers.null_count:
        raise errors.MetadataError(f"{where} has removed files without a sequence number.")
    plain: list[int] = numbers.to_pylist()
    return plain


def _as_added(entries: pa.Table, snapshot_id: int) -> pa.Table:
    rows = entries.num_rows
    fields = {
        "status": pa.repeat(pa.scalar(entry_fields.ADDED, pa.int32()), rows),
        "snapshot_id": pa.repeat(pa.scalar(snapshot_id, pa.int64()), rows),
        "file_sequence_number": pa.nulls(rows, pa.int64()),
    }
    for name, column in fields.items():
        at = entries.schema.get_field_index(name)
        if at >= 0:
            entries = entries.set_column(at, name, pa.chunked_array([column]))
    return entries
