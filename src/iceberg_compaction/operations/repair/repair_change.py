"""Mends manifests: those with a finding are written anew with corrected entries, as one `replace` snapshot in which no
file comes or goes. Findings come in, the committed snapshot goes out. Each new manifest is read back and compared with
what the old one must become, by code that does not write."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.commit import spine
from iceberg_compaction.formats.avro import avro_decode, container
from iceberg_compaction.metadata import fetch
from iceberg_compaction.metadata.manifest import entry_correction, entry_fields, rewrite_entries
from iceberg_compaction.model import table_view
from iceberg_compaction.model.repair_plan import Damage
from iceberg_compaction.operations.rewrite_manifests import manifest_digest, manifest_swap
from iceberg_compaction.storage import remove

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table

    from iceberg_compaction.commit.change import Committer
    from iceberg_compaction.commit.new_snapshot import NewSnapshot
    from iceberg_compaction.metadata.manifest import written_manifests
    from iceberg_compaction.metadata.manifest.entry_change import Mask
    from iceberg_compaction.metadata.manifest.entry_correction import CorrectedColumns
    from iceberg_compaction.model.repair_plan import Finding
    from iceberg_compaction.model.table_view import Pin

_ROWS_OF = {
    table_view.DATA: "total-records",
    table_view.POSITION_DELETES: "total-position-deletes",
    table_view.EQUALITY_DELETES: "total-equality-deletes",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairRequest:
    """What to mend. The findings were made on the pinned snapshot."""

    pin: Pin
    findings: Sequence[Finding]  # that can be mended
    manifest_files: Sequence[ManifestFile]  # of that snapshot
    snapshot_properties: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairResult:
    """The snapshot that was committed."""

    snapshot_id: int
    attempts: int
    replaced: int  # manifests
    made: int


def mend(table: Table, request: RepairRequest, run: Committer) -> RepairResult:
    """Writes, proves and commits. Raises ConflictError if others replaced the same manifests or kept winning,
    StateUnknownError if the catalog did not tell; in all cases but the last no file is left that the table does not
    use."""
    change = Mending(table, request, run.run_id)
    try:
        with spine.naming_defects(table):
            change.prepare(table)
    except BaseException:
        run.left_behind(remove.remove_files(table.io, change.written, remove.RemovalProof.NEVER_SENT))
        raise
    committed = spine.commit(table, change, run)
    swap = change.swap
    return RepairResult(
        snapshot_id=swap.snapshot_id, attempts=committed.attempts, replaced=len(swap.replaced), made=len(swap.made)
    )


class Mending:
    """The request as a change that may take several attempts."""

    def __init__(self, table: Table, request: RepairRequest, run_id: str) -> None:
        self._request = request
        self._totals: Counter[str] = Counter()
        self.swap = manifest_swap.ManifestSwap(
            pin=request.pin,
            replaced=frozenset(finding.manifest for finding in request.findings),
            planned=frozenset(manifest.manifest_path for manifest in request.manifest_files),
            run_id=run_id,
            snapshot_id=table.metadata.new_snapshot_id(),
            corrections=self._totals,
        )

    @property
    def label(self) -> str:
        return f"snapshot {self.swap.snapshot_id}"

    @property
    def written(self) -> list[str]:
        return self.swap.written

    def prepare(self, table: Table) -> None:
        """Writes the new manifests, one after the other, and proves each."""
        by_manifest: dict[str, list[Finding]] = {path: [] for path in sorted(self.swap.replaced)}
        for finding in self._request.findings:
            by_manifest[finding.manifest].append(finding)
        sources = {manifest.manifest_path: manifest for manifest in reversed(self._request.manifest_files)}
        for path, findings in by_manifest.items():
            made = self._mend(table, sources[path], correction_of(findings))
            if made is not None:  # a manifest without live files leaves the table (R11)
                self.swap.made.append(made)

    def stage(self, table: Table, now_ms: int) -> NewSnapshot:
        return self.swap.stage(table, now_ms, self._request.snapshot_properties)

    def _mend(
        self, table: Table, source: ManifestFile, correction: entry_correction.EntryCorrection
    ) -> written_manifests.NewManifest | None:
        where = f"Manifest {source.manifest_path}"
        parsed = container.parse(fetch.read_bytes(table.io, source.manifest_path, where=where), where=where)
        rows = avro_decode.read(parsed, manifest_digest.SELECT, where=where)
        corrected = correction.of(rows)
        live = rows["status"].to_numpy() != entry_fields.DELETED
        layout = entry_fields.ManifestLayout(
            spec=table.metadata.specs()[source.partition_spec_id],
            schema=table.metadata.schema(),
            format_version=table.metadata.format_version,
        )
        expected = manifest_digest.explicit(_as_corrected(rows, corrected, live & ~corrected.left_out), source)
        wanted = manifest_digest.digest(expected, manifest_digest.partition_texts(expected, layout, where))
        made = rewrite_entries.correct_manifest(self.swap.writing(table), source, parsed, correction)
        written = manifest_digest.Digest()
        if made is not None:
            written = manifest_digest.read_back(table.io, made.to_manifest_file(), layout)
        if written != wanted:
            raise errors.ProofError(
                f"The mended {where[0].lower()}{where[1:]} lists {written.entries} files instead of {wanted.entries}, "
                "or other ones; nothing was committed."
            )
        self._totals.update(_differences(rows, corrected, live))
        return made


def correction_of(findings: Sequence[Finding]) -> entry_correction.EntryCorrection:
    """The corrections of one manifest."""

    def values(damage: Damage) -> dict[str, int]:
        return {each.path: each.value for each in findings if each.damage is damage and each.value is not None}

    return entry_correction.EntryCorrection(
        sizes=values(Damage.SIZE),
        records=values(Damage.RECORDS),
        left_out=frozenset(each.entry for each in findings if each.entry is not None),
    )


def _as_corrected(rows: pa.Table, corrected: CorrectedColumns, stays: Mask) -> pa.Table:
    for name, values in (("record_count", corrected.records), ("file_size_in_bytes", corrected.sizes)):
        rows = rows.set_column(rows.schema.get_field_index(name), name, pa.chunked_array([pa.array(values)]))
    return rows.filter(pa.array(stays))


def _differences(rows: pa.Table, corrected: CorrectedColumns, live: Mask) -> Counter[str]:
    """By how much the totals of the snapshot's summary change."""
    stays = live & ~corrected.left_out
    contents = manifest_digest.content(rows)
    sizes = pc.cast(rows["file_size_in_bytes"], pa.int64()).to_numpy()
    records = pc.cast(rows["record_count"], pa.int64()).to_numpy()
    totals = Counter({"total-files-size": int(corrected.sizes[stays].sum() - sizes[live].sum())})
    for content, name in _ROWS_OF.items():
        mine = contents == content
        totals[name] += int(corrected.records[stays & mine].sum() - records[live & mine].sum())
        files = "total-data-files" if content == table_view.DATA else "total-delete-files"
        totals[files] -= int(np.count_nonzero(live & corrected.left_out & mine))
    return totals
