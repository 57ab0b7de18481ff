"""Digests the live files of manifests, so that two sets of manifests can be compared: entries add up to counts and to a
checksum that does not depend on their order. It covers the fields that a rewrite must never change: path, partition,
sizes, and the snapshot and sequence numbers that an entry states or inherits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.formats import hash64
from iceberg_compaction.formats.avro import avro_decode
from iceberg_compaction.metadata import fetch, partition_tuples
from iceberg_compaction.metadata.manifest import entry_fields

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile

INHERITED = ("snapshot_id", "sequence_number", "file_sequence_number")
_DATA_FILE = ("file_path", "content", "record_count", "file_size_in_bytes", "partition")
SELECT: dict[str, tuple[str, ...]] = {
    **{name: (name,) for name in ("status", *INHERITED)},
    **{name: ("data_file", name) for name in _DATA_FILE},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """The sums over all live entries of a set of manifests."""

    entries: int = 0
    records: int = 0
    bytes: int = 0
    checksum: int = 0  # 64 bits

    def __add__(self, other: Digest) -> Digest:
        return Digest(
            entries=self.entries + other.entries,
            records=self.records + other.records,
            bytes=self.bytes + other.bytes,
            checksum=(self.checksum + other.checksum) % 2**64,
        )


def digest(live: pa.Table, partition: pa.DictionaryArray) -> Digest:
    """The digest of live entries with explicit numbers, in the columns of SELECT, with the canonical texts of their
    partitions."""
    digests = hash64.text_digests(live["file_path"].cast(pa.string()).combine_chunks())
    texts = hash64.text_digests(partition.dictionary.cast(pa.string()))
    columns = [texts[partition.indices.to_numpy()]] if len(texts) else []
    for name in (*INHERITED, "record_count", "file_size_in_bytes"):
        columns.append(live[name].cast(pa.int64()).to_numpy().view(np.uint64))
    columns.append(content(live).astype(np.uint64))
    for column, factor in zip(columns, hash64.factors(len(columns)), strict=False):
        digests = hash64.fin(digests ^ column * factor)
    return Digest(
        entries=live.num_rows,
        records=pc.sum(live["record_count"]).as_py() or 0,
        bytes=pc.sum(live["file_size_in_bytes"]).as_py() or 0,
        checksum=int(digests.sum(dtype=np.uint64)),
    )


def content(live: pa.Table) -> NDArray[np.int64]:
    """The kind of each file. Version 1 does not state it, and has data files only."""
    if "content" not in live.column_names:
        return np.zeros(live.num_rows, np.int64)
    kinds: NDArray[np.int64] = pc.fill_null(live["content"], 0).cast(pa.int64()).to_numpy()
    return kinds


def read_back(io: FileIO, manifest: ManifestFile, layout: entry_fields.ManifestLayout) -> Digest:
    """The digest of a new manifest as it lies in storage. Its entries must all be EXISTING and explicit."""
    if layout.format_version == 1:
        manifest.sequence_number = 0  # version 1 has none, and readers take this
    where = f"Manifest {manifest.manifest_path}"
    rows = avro_decode.read_table(fetch.read_bytes(io, manifest.manifest_path, where=where), SELECT, where=where)
    if pc.any(pc.not_equal(rows["status"], entry_fields.EXISTING)).as_py():
        raise errors.ProofError(f"{where} was written with entries of the wrong status; nothing was committed.")
    rows = explicit(rows, manifest)
    return digest(rows, partition_texts(rows, layout, where))


def partition_texts(rows: pa.Table, layout: entry_fields.ManifestLayout, where: str) -> pa.DictionaryArray:
    """The canonical text of each entry's partition."""
    column = rows["partition"] if "partition" in rows.column_names else None
    return partition_tuples.encode(column, layout.spec, layout.schema, rows.num_rows, where=where)


def explicit(live: pa.Table, source: ManifestFile) -> pa.Table:
    """Live entries with nothing left to inherit from their manifest. Only ADDED entries inherit sequence numbers; all
    others must state them, except those of format version 1 (0)."""
    heirs = pc.equal(live["status"], entry_fields.ADDED)
    for name, inherited in zip(INHERITED, (source.added_snapshot_id, *(source.sequence_number,) * 2), strict=True):
        stated = live[name] if name in live.column_names else pa.chunked_array([pa.nulls(live.num_rows, pa.int64())])
        if stated.null_count:
            lost = pc.and_(stated.is_null(), pc.invert(heirs))
            if name != "snapshot_id" and source.sequence_number and pc.any(lost).as_py():
                raise errors.MetadataError(
                    f"Manifest {source.manifest_path} has live entries without a {name} that do not inherit one."
                )
            stated = pc.fill_null(stated, pa.scalar(inherited, pa.int64()))
        at = live.schema.get_field_index(name)
        live = live.append_column(name, stated) if at < 0 else live.set_column(at, name, stated)
    return live
