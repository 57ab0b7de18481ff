"""Reads manifests that may be damaged: what can be read goes on, and the rest is told. An entry of the manifest list
comes in; the manifest's entries, and how they differ from what the list says, go out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.formats.avro import avro_decode, container
from iceberg_compaction.metadata import fetch
from iceberg_compaction.metadata.manifest import entry_counts, entry_fields
from iceberg_compaction.model.repair_plan import Damage, Finding, Remedy

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile

_SELECT = {
    "status": ("status",),
    "sequence_number": ("sequence_number",),
    **{
        name: ("data_file", name)
        for name in ("content", "file_path", "file_format", "record_count", "file_size_in_bytes")
    },
}
_STATUSES = (
    (entry_fields.ADDED, "added"),
    (entry_fields.EXISTING, "existing"),
    (entry_fields.DELETED, "deleted"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestRead:
    """A manifest as it lies in storage."""

    manifest: ManifestFile
    findings: tuple[Finding, ...]
    live: pa.Table  # its live entries
    positions: NDArray[np.int64]  # their numbers in the manifest


def read(io: FileIO, manifest: ManifestFile) -> ManifestRead:
    """Reads a manifest. One that is lost has no live entries here, and a finding that says so."""
    where = f"Manifest {manifest.manifest_path}"
    try:
        data = fetch.read_bytes(io, manifest.manifest_path, where=where)
    except errors.MetadataError:
        return _lost(manifest, "no file is there")
    try:
        rows = avro_decode.read(container.parse(data, where=where), _SELECT, where=where)
    except errors.MetadataError as error:
        return _lost(manifest, f"it cannot be read: {str(error).removeprefix(where).strip()}")
    if missing := set(_SELECT) - {"content", "sequence_number"} - set(rows.column_names):
        return _lost(manifest, f"it has no {', '.join(sorted(missing))}")
    promised = entry_counts.promised(manifest)
    if len(data) < manifest.manifest_length and promised is not None and rows.num_rows < promised:
        # Corrected counts would make the lost entries a fact.
        return _lost(manifest, f"it is cut short: {len(data)} bytes with {rows.num_rows} entries")
    positions = np.flatnonzero(rows["status"].to_numpy() != entry_fields.DELETED)
    return ManifestRead(
        manifest=manifest,
        findings=_differences(manifest, rows, len(data)),
        live=rows.take(pa.array(positions)),
        positions=positions,
    )


def _lost(manifest: ManifestFile, actual: str) -> ManifestRead:
    finding = Finding(
        damage=Damage.LOST_MANIFEST,
        remedy=Remedy.RESTORE,
        path=manifest.manifest_path,
        manifest=manifest.manifest_path,
        stated=f"{manifest.manifest_length} bytes with {entry_counts.promised(manifest)} entries",
        actual=actual,
    )
    empty = pa.table({name: pa.array([], pa.string()) for name in _SELECT})
    return ManifestRead(manifest=manifest, findings=(finding,), live=empty, positions=np.zeros(0, np.int64))


def _differences(manifest: ManifestFile, rows: pa.Table, length: int) -> tuple[Finding, ...]:
    """How the manifest list differs from the manifest. Old lists of version 1 have no counts."""
    actual = {"length": length}
    for status, name in _STATUSES:
        chosen = rows.filter(pc.equal(rows["status"], status))
        actual[f"{name} files"] = chosen.num_rows
        actual[f"{name} rows"] = pc.sum(chosen["record_count"]).as_py() or 0
    stated = {
        "length": manifest.manifest_length,
        "added files": manifest.added_files_count,
        "added rows": manifest.added_rows_count,
        "existing files": manifest.existing_files_count,
        "existing rows": manifest.existing_rows_count,
        "deleted files": manifest.deleted_files_count,
        "deleted rows": manifest.deleted_rows_count,
    }
    wrong = [name for name, count in stated.items() if count is not None and count != actual[name]]
    if not wrong:
        return ()
    return (
        Finding(
            damage=Damage.COUNTS,
            remedy=Remedy.FIX,
            path=manifest.manifest_path,
            manifest=manifest.manifest_path,
            stated=", ".join(f"{name} {stated[name]}" for name in wrong),
            actual=", ".join(f"{name} {actual[name]}" for name in wrong),
        ),
    )
