"""Gathers the live entries of manifests in one form on local disk, as Avro records. Entries of the manifest list come
in; columns to order the live entries by, and a digest of them, go out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.formats.avro import avro_decode, avro_encode, avro_maps, container
from iceberg_compaction.metadata import cluster_column, fetch
from iceberg_compaction.metadata.manifest import entry_counts, entry_fields, entry_schema, snapshot_manifests
from iceberg_compaction.operations.rewrite_manifests import manifest_digest
from iceberg_compaction.storage import look_ahead

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray
    from pyiceberg.manifest import ManifestContent, ManifestFile
    from pyiceberg.types import NestedField

    from iceberg_compaction.metadata.manifest import entry_spill, written_manifests

    Numbers = NDArray[np.int64]

_LEAST = np.iinfo(np.int64).min


def ignore_entries(count: int) -> None:
    """Takes the number of entries that were read, for callers who do not show progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestClustering:
    """How manifests of one spec and content are rewritten."""

    writing: written_manifests.Writing
    layout: entry_fields.ManifestLayout
    content: ManifestContent
    target: int  # bytes
    column: NestedField | None  # whose lower bound orders the files of a partition
    on_entries: Callable[[int], None] = ignore_entries  # called with the number of entries as they are read


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """Live entries as parallel columns."""

    starts: Numbers  # where their records lie in the spill
    sizes: Numbers
    partition: pa.DictionaryArray  # canonical texts
    lower: Numbers  # key of the clustering column's lower bound
    sequence_number: Numbers
    record_count: Numbers
    file_size: Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The live entries of all manifests."""

    entries: Entries
    digest: manifest_digest.Digest
    schema: dict[str, Any]  # of the records
    headers: tuple[dict[str, bytes], ...]  # of the manifests, one for each schema that they have


def gather(sources: Sequence[ManifestFile], clustering: ManifestClustering, spill: entry_spill.Spill) -> Gathered:
    """Decodes all sources, and writes their live entries to the spill."""
    schema = entry_fields.avro_schema(clustering.layout)
    while True:
        gathering = _Gathering(spill, clustering, schema)
        try:
            parts = []
            for part in look_ahead.in_order(gathering.gather, sources):
                parts.append(part)
                clustering.on_entries(part[1].entries)
        except _TooNarrow as narrow:  # a writer with fields or types of its own; there are few kinds of writers
            schema = narrow.schema
            spill.clear()
            clustering.on_entries(-sum(digest.entries for _, digest in parts))
            continue
        return Gathered(
            entries=_join([part for part, _ in parts]),
            digest=sum((digest for _, digest in parts), manifest_digest.Digest()),
            schema=schema,
            headers=tuple(gathering.headers.values()),
        )


class _TooNarrow(Exception):
    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema


class _Gathering:
    """Decodes manifests by one schema of the records."""

    def __init__(self, spill: entry_spill.Spill, clustering: ManifestClustering, schema: dict[str, Any]) -> None:
        self._spill, self._clustering, self._schema = spill, clustering, schema
        self._fitting: set[bytes] = set()  # schemas of sources
        self.headers: dict[bytes, dict[str, bytes]] = {}

    def gather(self, source: ManifestFile) -> tuple[Entries, manifest_digest.Digest]:
        """The live entries of one source."""
        where = f"Manifest {source.manifest_path}"
        parsed = container.parse(
            fetch.read_bytes(self._clustering.writing.io, source.manifest_path, where=where), where=where
        )
        self._check_schema(parsed)
        live = _live(avro_decode.read(parsed, where=where), source)
        columns = _columns(live)
        if set(manifest_digest.content(columns).tolist()) & _wrong_kinds(self._clustering.content):
            raise errors.MetadataError(f"{where} mixes data files and delete files.")
        partition = manifest_digest.partition_texts(columns, self._clustering.layout, where)
        conformed = entry_schema.conform(live, parsed.schema, self._schema)
        starts, sizes = self._spill.add(avro_encode.records(self._schema, conformed))
        entries = Entries(
            starts=starts,
            sizes=sizes,
            partition=partition,
            lower=self._lower(live),
            sequence_number=_copy(columns["sequence_number"]),
            record_count=_copy(columns["record_count"]),
            file_size=_copy(columns["file_size_in_bytes"]),
        )
        return entries, manifest_digest.digest(columns, partition)

    def _check_schema(self, parsed: container.Container) -> None:
        text = parsed.metadata[container.SCHEMA]
        self.headers.setdefault(text, parsed.metadata)
        if text in self._fitting:
            return
        schema = entry_schema.widened(self._schema, parsed.schema, self._clustering.layout.format_version)
        if schema != self._schema:
            raise _TooNarrow(schema)
        self._fitting.add(text)

    def _lower(self, live: pa.Table) -> Numbers:
        """Keys of lower bounds; those without one come first."""
        column = self._clustering.column
        if column is None or live.schema.field("data_file").type.get_field_index("lower_bounds") < 0:
            return np.full(live.num_rows, _LEAST)
        bounds = avro_maps.pick(pc.struct_field(live["data_file"], "lower_bounds"), column.field_id)
        keys: Numbers = pc.fill_null(cluster_column.keys(bounds, column.field_type), _LEAST).to_numpy()
        return keys


def _live(rows: pa.Table, source: ManifestFile) -> pa.Table:
    """The live entries, all EXISTING and with nothing left to inherit (R10)."""
    entry_counts.check_count(source, rows.num_rows)
    live = pc.not_equal(rows["status"], entry_fields.DELETED)
    rows = manifest_digest.explicit(rows if pc.all(live).as_py() else rows.filter(live), source)
    status = pa.chunked_array([pa.repeat(pa.scalar(entry_fields.EXISTING, pa.int32()), rows.num_rows)])
    return rows.set_column(rows.schema.get_field_index("status"), "status", status)


def _columns(live: pa.Table) -> pa.Table:
    """The columns of the entries that order and digest need, out of their records."""
    kind = live.schema.field("data_file").type
    columns = {}
    for name, path in manifest_digest.SELECT.items():
        if len(path) == 1:
            columns[name] = live[name]
        elif kind.get_field_index(path[1]) >= 0:
            columns[name] = pc.struct_field(live["data_file"], path[1])
    return pa.table(columns)


def _copy(column: pa.ChunkedArray) -> Numbers:
    """The column in memory of its own: one of DataFusion keeps everything alive that was decoded with it."""
    return np.array(column.cast(pa.int64()).to_numpy(), np.int64, copy=True)


def _wrong_kinds(content: ManifestContent) -> set[int]:
    return {0} if content == snapshot_manifests.DELETES else {1, 2}


def _join(parts: list[Entries]) -> Entries:
    partition = pa.chunked_array([part.partition for part in parts]).unify_dictionaries().combine_chunks()
    names = ("starts", "sizes", "lower", "sequence_number", "record_count", "file_size")
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return Entries(partition=partition, **joined)
