"""Rewrites manifests: one without some of its files or with corrected entries, or several as one (R10, R12). Entries of
the manifest list come in, a new manifest goes out. Blocks without a change are copied as bytes, and unknown fields are
kept."""

from __future__ import annotations

import json
from concurrent import futures
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction.formats.avro import avro_decode, avro_encode, container
from iceberg_compaction.metadata import partition_order, partition_tuples
from iceberg_compaction.metadata.manifest import (
    entry_change,
    entry_fields,
    entry_schema,
    small_manifests,
    written_manifests,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from pyiceberg.manifest import ManifestFile, PartitionFieldSummary

    from iceberg_compaction.metadata.manifest.entry_correction import CorrectedColumns, EntryCorrection

Removed = entry_change.Removed

_THREADS = 8  # writing is waiting for the store
_BLOCK_SIZE_ID = 105  # data_file.block_size_in_bytes: required in v1, not written in v2
_WORTH_COPYING = 2048  # bytes of a block: many small ones would stay small, and compress badly
_PARTITION = {"partition": ("data_file", "partition")}


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenManifest:
    """A new manifest, and those that it replaces."""

    sources: tuple[str, ...]
    manifest: written_manifests.NewManifest
    removed: list[str]  # the paths whose entries became DELETED
    removed_numbers: list[int]  # their file sequence numbers
    # Of these, by content: data files, position deletes, equality deletes.
    removed_counts: dict[int, written_manifests.Counts]


@dataclass(frozen=True, slots=True, kw_only=True)
class _EntryPart:
    """Entries of manifests that were written with one Avro schema and codec, and the decisions about them."""

    parsed: container.Container
    header: dict[str, bytes]  # as our format version and codecs want it
    manifest_files: Sequence[ManifestFile]
    change: entry_change.EntryChange
    corrected: CorrectedColumns | None = None  # None: files are as their entries say

    @property
    def where(self) -> str:
        others = " or one that is merged with it" if self.manifest_files[1:] else ""
        return f"Manifest {self.manifest_files[0].manifest_path}{others}"


def rewrite_manifest(
    writing: written_manifests.Writing, source: ManifestFile, removed: Removed
) -> RewrittenManifest | None:
    """Rewrites `source` without the removed files; None: it holds none of them."""
    return _rewrite(
        writing, _open(writing, [(source, small_manifests.read(writing.io, source))], removed, entry_change.SLIM)
    )


def correct_manifest(
    writing: written_manifests.Writing, source: ManifestFile, parsed: container.Container, correction: EntryCorrection
) -> written_manifests.NewManifest | None:
    """Rewrites `source`, whose bytes were parsed, with corrected entries. The counts of its manifest list do not
    matter. None: it has no live files."""
    part = _open(writing, [(source, parsed)], Removed(pa.array([], pa.string())), entry_change.SLIM)
    corrected = correction.of(part.change.slim)
    part = replace(part, change=corrected.change(part.change), corrected=corrected)
    if not part.change.kept.any():
        return None
    return _write(writing, [part], part.header, source.partitions).manifest


def rewrite_small_manifests(
    writing: written_manifests.Writing, sources: Sequence[ManifestFile], removed: Removed
) -> list[RewrittenManifest | None]:
    """As `rewrite_manifest`, each for itself. They are decoded and encoded together, because a query costs more than a
    few entries do."""
    outputs: dict[str, RewrittenManifest] = {}
    for members in small_manifests.read_all(writing.io, sources):
        for output in _write_each(writing, members, _open(writing, members, removed, entry_change.SLIM)):
            outputs[output.sources[0]] = output
    return [outputs.get(source.manifest_path) for source in sources]


def _rewrite(writing: written_manifests.Writing, part: _EntryPart) -> RewrittenManifest | None:
    if not part.change.gone.any():
        return None
    # The summaries cover more files than are left, which the specification allows.
    return _write(writing, [part], part.header, part.manifest_files[0].partitions)


def _write_each(
    writing: written_manifests.Writing, members: Sequence[small_manifests.Read], part: _EntryPart
) -> list[RewrittenManifest]:
    """Those members of the part that lose files, each as a manifest of its own."""
    counts, change = np.array([parsed.rows for _, parsed in members], np.int64), part.change
    owner = np.repeat(np.arange(len(members)), counts)
    touched = np.flatnonzero(np.bincount(owner, change.gone, len(members)))
    blocks = _blocks_by_owner(part, np.where(np.isin(owner, touched), owner, -1)) if len(touched) else {}

    def write(number: int) -> RewrittenManifest:
        source, parsed = members[number]
        path = writing.new_path()
        header = container.header(_header(parsed, writing), part.parsed.sync)
        length = written_manifests.write_bytes(writing.io, path, [header, *blocks[number]])
        own = change.slice(int(counts[:number].sum()), int(counts[number]))
        return _describe(writing, [source], [own], path, length, source.partitions)

    with futures.ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(write, touched.tolist()))


def _blocks_by_owner(part: _EntryPart, owner: NDArray[np.int64]) -> dict[int, list[bytes]]:
    """The entries as blocks for the files of their owners, DELETED ones in blocks of their own; -1 has no file."""
    change, schema = part.change, json.loads(part.header[container.SCHEMA])
    rows = np.flatnonzero(change.kept & (owner >= 0))
    rows = rows[np.lexsort((change.gone[rows], owner[rows]))]
    borders = np.flatnonzero(np.diff(2 * owner[rows] + change.gone[rows])) + 1
    every = np.ones(len(owner), np.bool_)
    table = _changed(part, np.zeros(len(part.parsed.counts), np.bool_), every, schema).take(pa.array(rows))
    codec, sync = part.header.get(container.CODEC, b"null").decode(), part.parsed.sync
    by_owner: dict[int, list[bytes]] = {}
    at = 0
    for block in avro_encode.blocks(schema, table, codec, sync, borders):
        by_owner.setdefault(int(owner[rows[at]]), []).append(block)
        at += container.get_long(block, 0)[0]
    return by_owner


def merge_manifests(
    writing: written_manifests.Writing,
    sources: Sequence[ManifestFile],
    removed: Removed,
    layout: entry_fields.ManifestLayout,
) -> RewrittenManifest:
    """Writes the sources, of one spec and content, as one manifest without the removed files. Raises UnsupportedError
    where they do not go together."""
    alike = small_manifests.read_all(writing.io, sources)
    parts = [_open(writing, members, removed, entry_change.SLIM | _PARTITION) for members in alike]
    schema = parts[0].header[container.SCHEMA]
    for part in parts[1:]:
        schema = _widened(schema, part.header[container.SCHEMA], writing)
    header = {**reduce(lambda first, second: second | first, (part.header for part in parts)), container.SCHEMA: schema}
    return _write(writing, parts, header, _summaries(parts, layout))


def _open(
    writing: written_manifests.Writing,
    members: Sequence[small_manifests.Read],
    removed: Removed,
    select: dict[str, tuple[str, ...]],
) -> _EntryPart:
    manifest_files = [manifest for manifest, _ in members]
    parsed = container.join([parsed for _, parsed in members])
    slim = avro_decode.read(parsed, select, where=f"Manifest {manifest_files[0].manifest_path}")
    counts = np.array([parsed.rows for _, parsed in members], np.int64)
    origin = entry_change.EntryOrigin(manifest_files=manifest_files, counts=counts)
    change = entry_change.decide(slim, origin, writing, removed)
    return _EntryPart(parsed=parsed, header=_header(parsed, writing), manifest_files=manifest_files, change=change)


def _widened(schema: bytes, other: bytes, writing: written_manifests.Writing) -> bytes:
    mine = json.loads(schema)
    made = entry_schema.widened(mine, json.loads(other), writing.format_version)
    return schema if made == mine else json.dumps(made).encode()


def _summaries(parts: Sequence[_EntryPart], layout: entry_fields.ManifestLayout) -> list[PartitionFieldSummary]:
    """The partition summaries of the new manifest, those of DELETED entries included."""
    texts: set[str] = set()
    for part in parts:
        slim = part.change.slim
        column = slim["partition"] if "partition" in slim.column_names else None
        codes = partition_tuples.encode(column, layout.spec, layout.schema, slim.num_rows, where=part.where)
        texts.update(codes.filter(pa.array(part.change.kept)).unique().to_pylist())
    return partition_order.summaries(texts, layout)


def _write(
    writing: written_manifests.Writing,
    parts: Sequence[_EntryPart],
    header: dict[str, bytes],
    summaries: list[PartitionFieldSummary] | None,
) -> RewrittenManifest:
    path = writing.new_path()
    length = written_manifests.write_bytes(writing.io, path, list(_compose(parts, header)))
    sources = [source for part in parts for source in part.manifest_files]
    return _describe(writing, sources, [part.change for part in parts], path, length, summaries)


def _describe(
    writing: written_manifests.Writing,
    sources: Sequence[ManifestFile],
    changes: Sequence[entry_change.EntryChange],
    path: str,
    length: int,
    summaries: list[PartitionFieldSummary] | None,
) -> RewrittenManifest:
    """Describes a new manifest for the manifest list and the snapshot summary."""
    sequence_numbers = [number for change in changes if (number := change.min_sequence_number) is not None]
    removed_counts: dict[int, written_manifests.Counts] = {}
    for content, counts in (pair for change in changes for pair in change.removed_counts().items()):
        removed_counts[content] = removed_counts.get(content, written_manifests.NONE) + counts
    return RewrittenManifest(
        sources=tuple(source.manifest_path for source in sources),
        manifest=written_manifests.NewManifest(
            path=path,
            length=length,
            spec_id=sources[0].partition_spec_id,
            snapshot_id=writing.snapshot_id,
            content=sources[0].content,
            added=reduce(add, (change.counts(change.added) for change in changes)),
            existing=reduce(add, (change.counts(change.stay & ~change.added) for change in changes)),
            deleted=reduce(add, (change.counts(change.gone) for change in changes)),
            min_sequence_number=min(sequence_numbers, default=None),
            summaries=summaries,
        ),
        removed=[path for change in changes for path in change.removed],
        removed_numbers=[number for change in changes for number in change.removed_numbers],
        removed_counts=removed_counts,
    )


def _compose(parts: Sequence[_EntryPart], header: dict[str, bytes]) -> Iterator[bytes]:
    """The bytes of the new file. DELETED entries get blocks of their own: the next rewrite drops just these."""
    sync, schema = parts[0].parsed.sync, json.loads(header[container.SCHEMA])
    codec = header.get(container.CODEC, b"null").decode()
    yield container.header(header, sync)
    gone = []
    for part in parts:
        parsed, change = part.parsed, part.change
        same = np.zeros(len(parsed.counts), np.bool_)
        if parsed.codec == codec and parsed.schema == schema and len(same):
            same = ~np.logical_or.reduceat(change.stale | ~change.kept, np.cumsum(parsed.counts) - parsed.counts)
            if len(part.manifest_files) > 1:
                same &= parsed.ends - parsed.starts >= _WORTH_COPYING
        yield from container.framed(parsed, same, sync)
        todo = ~np.repeat(same, parsed.counts)
        table = _changed(part, same, todo, schema)
        yield from avro_encode.blocks(schema, table.filter(pa.array(change.stay[todo])), codec, sync)
        gone.append(table.filter(pa.array(change.gone[todo])))
    for table in gone:
        yield from avro_encode.blocks(schema, table, codec, sync)


def _changed(part: _EntryPart, same: entry_change.Mask, todo: entry_change.Mask, schema: dict[str, Any]) -> pa.Table:
    """The entries that are not copied, as they must look."""
    table = _with_content(avro_decode.read(container.only(part.parsed, ~same), where=part.where))
    for name, column in part.change.fields.items():
        column = column.filter(pa.array(todo))
        at = table.schema.get_field_index(name)
        table = table.append_column(name, column) if at < 0 else table.set_column(at, name, column)
    if part.corrected is not None:
        table = part.corrected.apply(table, todo)
    mine = json.loads(part.header[container.SCHEMA])
    return table if mine == schema else entry_schema.conform(table, mine, schema)


def _header(parsed: container.Container, writing: written_manifests.Writing) -> dict[str, bytes]:
    """The source's header, brought to the table's format version and to a codec that we write."""
    metadata = dict(parsed.metadata)
    if parsed.codec not in written_manifests.AVRO_CODECS:
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
    names = {field["name"] for field in schema["fields"]}
    schema["fields"][2:2] = [
        {"name": name, "type": ["null", "long"], "default": None, "field-id": field_id}
        for name, field_id in (("sequence_number", 3), ("file_sequence_number", 4))
        if name not in names
    ]


def _with_content(table: pa.Table) -> pa.Table:
    """The entries with their content. Those of version 1 manifests leave out that their files are data files."""
    at = table.schema.get_field_index("data_file")
    kind = table.schema.field(at).type
    if kind.get_field_index("content") >= 0:
        return table
    names = [field.name for field in kind]
    content = pa.chunked_array([pa.repeat(pa.scalar(0, pa.int32()), table.num_rows)])
    children = [pc.struct_field(table["data_file"], name) for name in names]
    return table.set_column(at, "data_file", pc.make_struct(content, *children, field_names=["content", *names]))
