"""Puts new manifests in the place of old ones, as one `replace` snapshot. The planned state of the branch and the paths
to replace come in; manifests are written through it, and it stages the snapshot on the branch as it is at each attempt.
The swap stays valid while the branch has all the old manifests, whatever else is added."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.snapshots import Snapshot

from iceberg_compaction import errors
from iceberg_compaction.commit import snapshot_summary
from iceberg_compaction.commit.new_snapshot import NewSnapshot
from iceberg_compaction.metadata.manifest import snapshot_manifests, written_manifests
from iceberg_compaction.model import plurals
from iceberg_compaction.operations.rewrite_files.change import validate_replace
from iceberg_compaction.storage import exact_paths, file_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

    from iceberg_compaction.model.table_view import Pin


@dataclass(slots=True, kw_only=True)
class ManifestSwap:
    """The manifests to replace, and those that were written for it."""

    pin: Pin  # the state that was planned on
    replaced: frozenset[str]  # paths
    planned: frozenset[str]  # paths of all manifests of that state
    run_id: str
    snapshot_id: int
    corrections: Mapping[str, int] = field(default_factory=dict)  # of totals that the head's summary has wrong
    written: list[str] = field(default_factory=list)  # every file
    made: list[written_manifests.NewManifest] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def stage(self, table: Table, now_ms: int, properties: Mapping[str, str]) -> NewSnapshot:
        """Writes the manifest list for the branch as it is now. Manifests that came since the plan stay, in front."""
        metadata = table.metadata
        head = validate_replace.check_history(metadata, self.pin)
        listed = snapshot_manifests.read(table.io, head).manifest_files
        self._check_present(listed)
        live = filter(snapshot_manifests.has_live_files, listed)
        kept = [
            written_manifests.with_counts(table.io, manifest)
            for manifest in live
            if manifest.manifest_path not in self.replaced
        ]
        newer = [manifest for manifest in kept if manifest.manifest_path not in self.planned]
        older = [manifest for manifest in kept if manifest.manifest_path in self.planned]
        figures = snapshot_summary.SummaryFigures(
            added=written_manifests.NONE,
            removed=written_manifests.NONE,
            changed_partitions=0,
            manifests_created=len(self.made),
            manifests_kept=len(kept),
            manifests_replaced=len(self.replaced),
        )
        name = file_names.manifest_list(self.run_id, next(self._numbers), snapshot_id=self.snapshot_id)
        path = self._new_path(metadata, name)
        next_files = [*newer, *(made.to_manifest_file() for made in self.made), *older]
        sequence_number = metadata.next_sequence_number()
        written_manifests.write_list(self.writing(table), path, next_files, head, sequence_number)
        snapshot = Snapshot(
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=head.snapshot_id,
            sequence_number=sequence_number,
            timestamp_ms=max(now_ms, metadata.last_updated_ms),
            manifest_list=path,
            summary=snapshot_summary.summarize(figures, self._corrected(head), properties),
            schema_id=metadata.current_schema_id,
        )
        return NewSnapshot(
            parent=metadata,
            branch=self.pin.branch,
            snapshot=snapshot,
            files=frozenset((path, *(made.path for made in self.made))),
        )

    def writing(self, table: Table) -> written_manifests.Writing:
        """How manifests of the snapshot are written."""
        metadata = table.metadata
        return written_manifests.Writing(
            io=table.io,
            snapshot_id=self.snapshot_id,
            format_version=metadata.format_version,
            codec=written_manifests.codec(metadata.properties),
            new_path=lambda: self._new_path(metadata, file_names.manifest(self.run_id, next(self._numbers))),
        )

    def _corrected(self, head: Snapshot) -> Mapping[str, str] | None:
        """The head's summary with totals that fit its files; one that is nonsense stays so, and is left out later."""
        if head.summary is None or not self.corrections:
            return head.summary
        summary = dict(head.summary.additional_properties)
        for name, difference in self.corrections.items():
            text = summary.get(name, "")
            if text.isascii() and text.isdigit():
                summary[name] = str(int(text) + difference)
        return summary

    def _check_present(self, listed: Sequence[ManifestFile]) -> None:
        if missing := self.replaced - {manifest.manifest_path for manifest in listed}:
            are = plurals.form(len(missing), "is", "are")
            raise errors.ConflictError(
                f"{len(missing)} of the manifests to replace {are} no longer in the table "
                f"(such as {min(missing)}), because another commit rewrote or merged them; run again."
            )

    def _new_path(self, metadata: TableMetadata, name: str) -> str:
        path = load_location_provider(metadata.location, metadata.properties).new_metadata_location(name)
        self.written.append(exact_paths.check_new(path, metadata.location))
        return path
