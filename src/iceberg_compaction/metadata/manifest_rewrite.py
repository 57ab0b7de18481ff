"""A manifest written anew without some of its files (R10): their entries become DELETED, the other live ones EXISTING
with nothing left to inherit. Blocks in which nothing changes are copied as they are, and fields beyond our knowledge
are kept."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.metadata import entries, fetch, manifests
from iceberg_compaction.metadata.avro import container, decode, encode
from iceberg_compaction.model import table as table_model

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyiceberg.manifest import ManifestFile

    Mask = NDArray[np.bool_]

_SLIM = {
    "status": ("status",),
    "snapshot_id": ("snapshot_id",),
    "sequence_number": ("sequence_number",),
    "file_sequence_number": ("file_sequence_number",),
    "content": ("data_file", "content"),
    "file_path": ("data_file", "file_path"),
    "record_count": ("data_file", "record_count"),
    "file_size_in_bytes": ("data_file", "file_size_in_bytes"),
}
_BLOCK_SIZE_ID = 105  # data_file.block_size_in_bytes: required in v1, not written in v2


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenManifest:
    """A manifest without the removed files, and the one that it stands for."""

    source: str
    manifest: manifests.NewManifest
    removed: list[str]  # the paths whose entries became DELETED
    kinds: dict[int, manifests.Counts]  # of these, by their content: data files, position deletes, equality deletes


class Removed:
    """The removed paths, quick to look up for manifests of any size."""

    def __init__(self, paths: pa.Array) -> None:
        self._paths = paths
        self._set = frozenset(paths.to_pylist())

    def among(self, paths: pa.ChunkedArray) -> Mask:
        """Which of these paths are removed."""
        # Arrow hashes all removed paths on each call, which a small manifest cannot repay.
        if len(paths) * 8 < len(self._set):
            return np.fromiter((path in self._set for path in paths.to_pylist()), np.bool_, len(paths))
        return _mask(pc.is_in(paths, value_set=self._paths.cast(paths.type)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """What becomes of each entry of the source, as parallel columns."""

    live: Mask  # not DELETED before
    gone: Mask  # DELETED now
    stale: Mask  # does not look as it must from now on
    fields: dict[str, pa.ChunkedArray]  # the entry's own fields, explicit, as they must look

    @property
    def stay(self) -> Mask:
        return self.live & ~self.gone


def rewrite_manifest(writing: manifests.Writing, source: ManifestFile, removed: Removed) -> RewrittenManifest | None:
    """Write `source` anew without the removed files; None: it holds none of them."""
    where = f"Manifest {source.manifest_path}"
    parsed = container.parse(fetch.read_bytes(writing.io, source.manifest_path, where=where), where=where)
    slim = decode.read(parsed, _SLIM, where=where)
    _check_count(source, slim.num_rows)
    live = _mask(pc.not_equal(slim["status"], entries.DELETED))
    gone = live & removed.among(slim["file_path"])
    if not gone.any():
        return None
    change = _change(slim, source, writing.snapshot_id, live=live, gone=gone)
    path = writing.new_path()
    length = manifests.write_bytes(writing.io, path, _compose(parsed, _header(parsed, writing), change, where))
    sequence_numbers = change.fields["sequence_number"].to_numpy()[change.stay]
    return RewrittenManifest(
        source=source.manifest_path,
        manifest=manifests.NewManifest(
            path=path,
            length=length,
            spec_id=source.partition_spec_id,
            snapshot_id=writing.snapshot_id,
            content=source.content,
            existing=_counts(slim, change.stay),
            deleted=_counts(slim, gone),
            min_sequence_number=int(sequence_numbers.min()) if len(sequence_numbers) else None,
            summaries=source.partitions,  # of more files than are left, which a summary may be
        ),
        removed=slim["file_path"].filter(pa.array(gone)).to_pylist(),
        kinds=_kinds(slim, gone),
    )


def _check_count(source: ManifestFile, rows: int) -> None:
    """A manifest cut at a block border is a readable file, only shorter."""
    counts = (source.added_files_count, source.existing_files_count, source.deleted_files_count)
    if None not in counts and sum(count or 0 for count in counts) != rows:
        raise errors.MetadataError(
            f"Manifest {source.manifest_path} holds {rows} entries, but the manifest list says "
            f"{sum(count or 0 for count in counts)}."
        )


def _change(slim: pa.Table, source: ManifestFile, snapshot_id: int, *, live: Mask, gone: Mask) -> _Change:
    """Decide each entry's status and make explicit what it inherits from the manifest."""
    stale = gone | _mask(pc.not_equal(slim["status"], entries.EXISTING))
    # Only ADDED entries inherit sequence numbers; all others must state them, except those of format version 1 (0).
    heirs = _mask(pc.equal(slim["status"], entries.ADDED)) | (source.sequence_number == 0)
    fields = {}
    for name, inherited in (
        ("snapshot_id", source.added_snapshot_id),
        ("sequence_number", source.sequence_number),
        ("file_sequence_number", source.sequence_number),
    ):
        stated = slim[name] if name in slim.column_names else pa.chunked_array([pa.nulls(slim.num_rows, pa.int64())])
        missing = _mask(stated.is_null())
        if name != "snapshot_id" and (missing & live & ~heirs).any():
            raise errors.MetadataError(
                f"Manifest {source.manifest_path} has live entries without a {name} that do not inherit one."
            )
        fields[name] = pc.fill_null(stated, pa.scalar(inherited, pa.int64()))
        stale = stale | missing
    deleted = pa.array(gone)
    fields["snapshot_id"] = pc.if_else(deleted, pa.scalar(snapshot_id, pa.int64()), fields["snapshot_id"])
    status = pc.if_else(deleted, pa.scalar(entries.DELETED, pa.int32()), pa.scalar(entries.EXISTING, pa.int32()))
    fields["status"] = pa.chunked_array([status])
    return _Change(live=live, gone=gone, stale=stale, fields=fields)


def _header(parsed: container.Container, writing: manifests.Writing) -> dict[str, bytes]:
    """The source's header, brought to the table's format version and to a codec that we write."""
    metadata = dict(parsed.metadata)
    if parsed.codec not in manifests.AVRO_CODECS:
        metadata[container.CODEC] = writing.codec.encode()
    if writing.format_version > int(metadata.get("format-version", b"1")):
        schema = parsed.schema
        _upgrade(schema)
        metadata[container.SCHEMA] = json.dumps(schema).encode()
        metadata["format-version"] = str(writing.format_version).encode()
        metadata.setdefault("content", b"data")
    return metadata


def _upgrade(schema: dict[str, Any]) -> None:
    """Version 1 to 2: sequence numbers and the kind of file come in, the block size goes."""
    data_file = next(field["type"] for field in schema["fields"] if field["name"] == "data_file")
    data_file["fields"] = [
        {"name": "content", "type": "int", "field-id": 134},
        *(field for field in data_file["fields"] if field.get("field-id") not in (134, _BLOCK_SIZE_ID)),
    ]
    known = {field["name"] for field in schema["fields"]}
    schema["fields"][2:2] = [
        {"name": name, "type": ["null", "long"], "default": None, "field-id": field_id}
        for name, field_id in (("sequence_number", 3), ("file_sequence_number", 4))
        if name not in known
    ]


def _compose(parsed: container.Container, metadata: dict[str, bytes], change: _Change, where: str) -> list[bytes]:
    """The bytes of the new file. DELETED entries get blocks of their own: the next rewrite drops just these."""
    if metadata == parsed.metadata:
        same = ~np.logical_or.reduceat(change.stale | ~change.live, np.cumsum(parsed.counts) - parsed.counts)
    else:
        same = np.zeros(len(parsed.counts), np.bool_)
    spans = zip(parsed.starts[same].tolist(), parsed.ends[same].tolist(), strict=True)
    parts = [container.header(metadata, parsed.sync), *(parsed.data[start:end] for start, end in spans)]
    todo = ~np.repeat(same, parsed.counts)
    table = _with_content(decode.read(container.only(parsed, ~same), where=where))
    for name, column in change.fields.items():
        column = column.filter(pa.array(todo))
        at = table.schema.get_field_index(name)
        table = table.append_column(name, column) if at < 0 else table.set_column(at, name, column)
    schema, codec = json.loads(metadata[container.SCHEMA]), metadata.get(container.CODEC, b"null").decode()
    for chosen in (change.stay[todo], change.gone[todo]):
        parts += encode.blocks(schema, table.filter(pa.array(chosen)), codec, parsed.sync)
    return parts


def _with_content(table: pa.Table) -> pa.Table:
    """Entries of version 1 manifests do not say that their files are data files."""
    at = table.schema.get_field_index("data_file")
    kind = table.schema.field(at).type
    if kind.get_field_index("content") >= 0:
        return table
    names = [field.name for field in kind]
    content = pa.chunked_array([pa.repeat(pa.scalar(0, pa.int32()), table.num_rows)])
    children = [pc.struct_field(table["data_file"], name) for name in names]
    return table.set_column(at, "data_file", pc.make_struct(content, *children, field_names=["content", *names]))


def _counts(slim: pa.Table, chosen: Mask) -> manifests.Counts:
    return manifests.Counts(
        files=int(chosen.sum()),
        records=int(slim["record_count"].to_numpy()[chosen].sum()),
        bytes=int(slim["file_size_in_bytes"].to_numpy()[chosen].sum()),
    )


def _kinds(slim: pa.Table, chosen: Mask) -> dict[int, manifests.Counts]:
    """The chosen entries by content. Version 1 does not state it, and has data files only."""
    if "content" not in slim.column_names:
        return {table_model.DATA: _counts(slim, chosen)}
    content = pc.fill_null(slim["content"], table_model.DATA).to_numpy()
    return {int(kind): _counts(slim, chosen & (content == kind)) for kind in np.unique(content[chosen])}


def _mask(column: pa.ChunkedArray) -> Mask:
    mask: Mask = column.to_numpy()
    return mask
