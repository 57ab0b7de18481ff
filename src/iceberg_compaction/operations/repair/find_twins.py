"""Finds files that have more than one live entry. Digests of all paths come in; for each file, all entries but one are
findings. An entry may only be left out if the rows that readers see of the file, once, are the same whichever entry
stays; else a person must choose."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from iceberg_compaction import errors
from iceberg_compaction.formats import hash64
from iceberg_compaction.formats.avro import avro_decode
from iceberg_compaction.metadata import fetch
from iceberg_compaction.metadata.manifest import entry_fields
from iceberg_compaction.model import table_view
from iceberg_compaction.model.repair_plan import Damage, Finding, Remedy
from iceberg_compaction.operations.rewrite_manifests import manifest_digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table

    from iceberg_compaction.operations.repair.read_manifests import ManifestRead


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    manifest: str
    position: int  # in the manifest
    sequence_number: int
    kind: tuple[int, int, str]  # content, spec, partition
    records: int


class TwinSearch:
    """Eight bytes are kept of each live entry."""

    def __init__(self) -> None:
        self._manifests: list[ManifestFile] = []
        self._digests: list[hash64.Hashes] = []
        self._positions: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
        self._has_deletes = False

    def add(self, read: ManifestRead) -> None:
        if not read.live.num_rows:
            return
        paths = read.live["file_path"].cast(pa.string()).combine_chunks()
        self._manifests.append(read.manifest)
        self._digests.append(hash64.text_digests(paths))
        self._positions.append(read.positions)
        self._has_deletes |= bool(manifest_digest.content(read.live).any())

    def findings(self, table: Table) -> Iterator[Finding]:
        """The entries that are too many. Only manifests with files that may be listed twice are read again."""
        if not self._digests:
            return
        twins = hash64.repeated(np.concatenate(self._digests))
        if twins is None:
            return
        masks = np.split(twins.to_numpy(zero_copy_only=False), np.cumsum([len(each) for each in self._digests])[:-1])
        by_path: dict[str, list[_Entry]] = defaultdict(list)
        for manifest, positions, mask in zip(self._manifests, self._positions, masks, strict=True):
            if mask.any():
                for path, entry in _entries(table, manifest, positions[mask]):
                    by_path[path].append(entry)
        for path, entries in by_path.items():
            if len(entries) > 1:  # paths of one digest may differ
                yield from _too_many(path, entries, has_deletes=self._has_deletes)


def twice_listed(manifest_files: Sequence[ManifestFile]) -> tuple[list[ManifestFile], list[Finding]]:
    """Each manifest once, and those that the manifest list has twice."""
    first: dict[str, ManifestFile] = {}
    findings = []
    for manifest in manifest_files:
        other = first.setdefault(manifest.manifest_path, manifest)
        if other is not manifest:
            facts = [
                (each.partition_spec_id, each.content, each.sequence_number, each.added_snapshot_id)
                for each in (other, manifest)
            ]
            findings.append(
                Finding(
                    damage=Damage.TWICE,
                    remedy=Remedy.FIX if facts[0] == facts[1] else Remedy.CHOOSE,
                    path=manifest.manifest_path,
                    manifest=manifest.manifest_path,
                    stated="the manifest list has it twice",
                    actual="it is one manifest",
                )
            )
    return list(first.values()), findings


def _entries(
    table: Table, manifest: ManifestFile, positions: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> Iterator[tuple[str, _Entry]]:
    where = f"Manifest {manifest.manifest_path}"
    data = fetch.read_bytes(table.io, manifest.manifest_path, where=where)
    rows = avro_decode.read_table(data, manifest_digest.SELECT, where=where).take(pa.array(positions))
    rows = manifest_digest.explicit(rows, manifest)
    metadata = table.metadata
    if manifest.partition_spec_id not in metadata.specs():
        raise errors.MetadataError(f"{where} has partition spec {manifest.partition_spec_id}, which the table has not.")
    layout = entry_fields.ManifestLayout(
        spec=metadata.specs()[manifest.partition_spec_id],
        schema=metadata.schema(),
        format_version=metadata.format_version,
    )
    columns = zip(
        rows["file_path"].to_pylist(),
        positions.tolist(),
        rows["sequence_number"].to_pylist(),
        manifest_digest.content(rows).tolist(),
        manifest_digest.partition_texts(rows, layout, where).to_pylist(),
        rows["record_count"].to_pylist(),
        strict=True,
    )
    for path, position, number, content, partition, records in columns:
        yield (
            path,
            _Entry(
                manifest=manifest.manifest_path,
                position=position,
                sequence_number=number,
                kind=(content, manifest.partition_spec_id, partition),
                records=records,
            ),
        )


def _too_many(path: str, entries: list[_Entry], *, has_deletes: bool) -> Iterator[Finding]:
    """All entries but the one that stays. A delete file reaches the more the younger it is, so that the youngest entry
    does what all do. For a data file its age decides which deletes apply, which matters where there are any."""
    is_data = entries[0].kind[0] == table_view.DATA
    ages = {entry.sequence_number for entry in entries}
    alike = len({entry.kind for entry in entries}) == 1
    safe = alike and (not is_data or len(ages) == 1 or not has_deletes)
    stays = (min if is_data else max)(entries, key=lambda entry: entry.sequence_number)
    reason = "it is one file" if safe else "it is one file, but its entries differ in age or partition"
    for entry in entries:
        if entry is not stays:
            yield Finding(
                damage=Damage.TWICE,
                remedy=Remedy.FIX if safe else Remedy.CHOOSE,
                path=path,
                manifest=entry.manifest,
                stated=f"listed {len(entries)} times",
                actual=reason,
                entry=entry.position,
                records=entry.records,
            )
