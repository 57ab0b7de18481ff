"""Everything that a replace snapshot points to, written before it is published: rewritten manifests, a manifest of the
added files and a manifest list. Manifests are kept from attempt to attempt, so that a lost race costs one manifest list
and what the winner changed."""

from __future__ import annotations

import concurrent.futures
import itertools
import uuid
from collections import defaultdict
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.snapshots import Snapshot

from iceberg_compaction import errors
from iceberg_compaction.commit import prune, summary
from iceberg_compaction.metadata import entries, manifest_rewrite, manifests

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table.metadata import TableMetadata

    from iceberg_compaction.commit.replace import ReplaceRequest
    from iceberg_compaction.metadata.manifest_rewrite import RewrittenManifest

_THREADS = 8  # reading and writing manifests is waiting for the store, and decoding them releases the GIL


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedSnapshot:
    """A snapshot that is written but not published."""

    snapshot: Snapshot
    files: frozenset[str]  # of those that this commit wrote, the ones that the snapshot needs


@dataclass(slots=True, kw_only=True)
class Staging:
    """The files written for one commit, over all its attempts."""

    io: FileIO
    request: ReplaceRequest
    snapshot_id: int
    written: list[str] = field(default_factory=list)  # every path, noted before it is written
    _uuid: str = field(default_factory=lambda: str(uuid.uuid4()))
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    _looked: dict[str, RewrittenManifest | None] = field(default_factory=dict)  # by source path; None: untouched
    _added: list[manifests.NewManifest] = field(default_factory=list)

    def stage(
        self, metadata: TableMetadata, head: Snapshot, rows: Sequence[ManifestFile], timestamp_ms: int
    ) -> StagedSnapshot:
        """Write what the snapshot on top of `head`, whose manifest list has these rows, needs."""
        writing = self._writing(metadata)
        live = [row for row in rows if manifests.has_live_files(row)]
        self._rewrite(writing, live, prune.Scope(metadata, self.request.partitions))
        rewritten = [found for row in live if (found := self._looked.get(row.manifest_path)) is not None]
        self._check_removed(rewritten)
        if not self._added:
            self._add(writing, metadata)
        mine = [*self._added, *(found.manifest for found in rewritten)]
        sources = {found.source for found in rewritten}
        kept = [manifests.with_counts(self.io, row) for row in live if row.manifest_path not in sources]
        figures = summary.Figures(
            added=reduce(add, (made.added for made in mine)),
            removed=reduce(add, (made.deleted for made in mine)),
            changed_partitions=len(set(self.request.partitions)),
            manifests_created=len(mine),
            manifests_kept=len(kept),
            manifests_replaced=len(rewritten),
        )
        if figures.added.records != figures.removed.records:
            raise errors.CommitError(
                f"{figures.added.records} records would replace {figures.removed.records}; nothing was committed."
            )
        sequence_number = metadata.next_sequence_number()
        snapshot = Snapshot(
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=head.snapshot_id,
            sequence_number=sequence_number,
            timestamp_ms=max(timestamp_ms, metadata.last_updated_ms),
            manifest_list=self._write_list(metadata, head, [*(made.to_row() for made in mine), *kept]),
            summary=summary.summarize(figures, head.summary, self.request.snapshot_properties),
            schema_id=metadata.current_schema_id,
        )
        return StagedSnapshot(
            snapshot=snapshot, files=frozenset((snapshot.manifest_list, *(made.path for made in mine)))
        )

    def _writing(self, metadata: TableMetadata) -> manifests.Writing:
        return manifests.Writing(
            io=self.io,
            snapshot_id=self.snapshot_id,
            format_version=metadata.format_version,
            codec=manifests.codec(metadata.properties),
            new_path=lambda: self._new_path(metadata, f"{self._uuid}-m{next(self._numbers)}.avro"),
        )

    def _new_path(self, metadata: TableMetadata, name: str) -> str:
        path = load_location_provider(metadata.location, metadata.properties).new_metadata_location(name)
        self.written.append(path)
        return path

    def _rewrite(self, writing: manifests.Writing, live: Sequence[ManifestFile], scope: prune.Scope) -> None:
        todo = [
            row
            for row in live
            if row.content == manifests.DATA and row.manifest_path not in self._looked and scope.may_be_in(row)
        ]
        removed = manifest_rewrite.Removed(self.request.removed["file_path"].combine_chunks())
        with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
            done = pool.map(lambda row: manifest_rewrite.rewrite_manifest(writing, row, removed), todo)
            for row, rewritten in zip(todo, done, strict=True):
                self._looked[row.manifest_path] = rewritten

    def _check_removed(self, rewritten: Sequence[RewrittenManifest]) -> None:
        """Every replaced file must still be live (R5), and in one entry only."""
        found = [path for manifest in rewritten for path in manifest.removed]
        distinct = set(found)
        missing = [path for path in self.request.removed["file_path"].to_pylist() if path not in distinct]
        if missing:
            named = ", ".join(missing[:3]) + (" and others" if len(missing) > 3 else "")
            raise errors.ConflictError(
                f"{len(missing)} of the files to replace are no longer in the table ({named}); make a new plan."
            )
        if len(found) != len(distinct):
            twice = next(path for path in found if found.count(path) > 1)
            raise errors.MetadataError(f"{twice} is listed twice in the table's manifests; nothing was committed.")

    def _add(self, writing: manifests.Writing, metadata: TableMetadata) -> None:
        by_spec = defaultdict(list)
        for file in self.request.added:
            by_spec[file.spec_id].append(file)
        for spec_id, files in sorted(by_spec.items()):
            layout = entries.Layout(
                spec=metadata.specs()[spec_id], schema=metadata.schema(), format_version=metadata.format_version
            )
            sequence_number = self.request.pin.sequence_number
            self._added.append(manifests.write_manifest(writing, files, layout, sequence_number))

    def _write_list(self, metadata: TableMetadata, head: Snapshot, rows: list[ManifestFile]) -> str:
        path = self._new_path(metadata, f"snap-{self.snapshot_id}-{next(self._numbers)}-{self._uuid}.avro")
        manifests.write_list(self._writing(metadata), path, rows, head, metadata.next_sequence_number())
        return path
