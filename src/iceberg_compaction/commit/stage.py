"""Everything that a replace snapshot points to, written before it is published: rewritten manifests, a manifest of the
added files and a manifest list. Manifests are kept from attempt to attempt, so that a lost race costs one manifest list
and what the winner changed."""

from __future__ import annotations

import concurrent.futures
import itertools
import uuid
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.snapshots import Snapshot

from iceberg_compaction import errors
from iceberg_compaction.commit import dangling as dangling_deletes
from iceberg_compaction.commit import prune, summary, validate
from iceberg_compaction.metadata import delete_scopes, entries, manifest_rewrite, manifests
from iceberg_compaction.model import table as table_model

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table.metadata import TableMetadata

    from iceberg_compaction.commit.request import ReplaceRequest
    from iceberg_compaction.metadata.manifest_rewrite import RewrittenManifest

_THREADS = 8  # reading and writing manifests is waiting for the store, and decoding them releases the GIL


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """The branch head that an attempt builds on."""

    metadata: TableMetadata
    snapshot: Snapshot
    rows: Sequence[ManifestFile]  # of its manifest list

    @property
    def live(self) -> list[ManifestFile]:
        """Those that the next snapshot keeps or replaces."""
        return [row for row in self.rows if manifests.has_live_files(row)]


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedSnapshot:
    """A snapshot that is written but not published."""

    snapshot: Snapshot
    files: frozenset[str]  # of those that this commit wrote, the ones that the snapshot needs
    removed_delete_files: int
    groups: tuple[int, ...]  # ids


@dataclass(slots=True, kw_only=True)
class Staging:
    """The files written for one commit, over all its attempts."""

    io: FileIO
    request: ReplaceRequest  # without the groups that were dropped
    snapshot_id: int
    written: list[str] = field(default_factory=list)  # every path, noted before it is written
    conflicts: dict[int, str] = field(default_factory=dict)  # the groups that were dropped, and why
    _uuid: str = field(default_factory=lambda: str(uuid.uuid4()))
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    # By the path of a manifest and the delete files that were to leave it; None: it holds nothing that leaves.
    _looked: dict[tuple[str, frozenset[str]], RewrittenManifest | None] = field(default_factory=dict)
    _added: list[manifests.NewManifest] = field(default_factory=list)

    def drop(self, conflicts: Mapping[int, str]) -> None:
        """Go on without these groups; raises ConflictError if none is left. What was written for others stays good."""
        if not conflicts:
            return
        self.conflicts |= conflicts
        self.request = self.request.without(conflicts)
        if not self.request.groups:
            first = next(iter(conflicts.values()))
            others = f" ({len(self.conflicts)} groups are in conflict.)" if len(self.conflicts) > 1 else ""
            raise errors.ConflictError(first + others, conflicts=self.conflicts)
        leaving = frozenset(self.request.removed["file_path"].to_pylist())
        for key, found in list(self._looked.items()):
            if found is not None and not key[1] and not leaving.issuperset(found.removed):
                del self._looked[key]
        self._added.clear()

    def rewrite_data(self, parent: Parent) -> list[RewrittenManifest]:
        """The manifests that lose data files, written anew. Those of an earlier attempt are good again where the same
        files leave them."""
        scope = prune.Scope(parent.metadata, self.request.partitions)
        rows = [row for row in parent.live if row.content == manifests.DATA and scope.may_be_in(row)]
        return self._look(parent.metadata, rows, self.request.removed["file_path"].combine_chunks(), frozenset())

    def stage(
        self, parent: Parent, data: Sequence[RewrittenManifest], dangling: pa.Table, timestamp_ms: int
    ) -> StagedSnapshot:
        """Write what the snapshot on top of the parent needs. `data` are the manifests that lose data files, `dangling`
        the delete files that leave with them."""
        metadata, head = parent.metadata, parent.snapshot
        rewritten = [*data, *self._rewrite_deletes(parent, frozenset(dangling["file_path"].to_pylist()))]
        if not self._added:
            self._add(metadata)
        mine = [*self._added, *(found.manifest for found in rewritten)]
        sources = {found.source for found in rewritten}
        kept = [manifests.with_counts(self.io, row) for row in parent.live if row.manifest_path not in sources]
        figures = self._figures(rewritten, dangling, manifests_created=len(mine), manifests_kept=len(kept))
        validate.check_records(figures.added.records, figures.removed.records, self.request.deleted_records)
        snapshot = Snapshot(
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=head.snapshot_id,
            sequence_number=metadata.next_sequence_number(),
            timestamp_ms=max(timestamp_ms, metadata.last_updated_ms),
            manifest_list=self._write_list(metadata, head, [*(made.to_row() for made in mine), *kept]),
            summary=summary.summarize(figures, head.summary, self.request.properties()),
            schema_id=metadata.current_schema_id,
        )
        return StagedSnapshot(
            snapshot=snapshot,
            files=frozenset((snapshot.manifest_list, *(made.path for made in mine))),
            removed_delete_files=dangling.num_rows,
            groups=self.request.ids,
        )

    def _figures(
        self, rewritten: Sequence[RewrittenManifest], dangling: pa.Table, **manifest_counts: int
    ) -> summary.Figures:
        removed: dict[int, manifests.Counts] = defaultdict(manifests.Counts)
        for found in rewritten:
            for kind, counts in found.kinds.items():
                removed[kind] += counts
        places = dangling.select(["spec_id", "partition"]).group_by(["spec_id", "partition"]).aggregate([])
        freed = zip(places["spec_id"].to_pylist(), places["partition"].cast(pa.string()).to_pylist(), strict=True)
        return summary.Figures(
            added=sum((made.added for made in self._added), manifests.NONE),
            removed=removed[table_model.DATA],
            position_deletes=removed[table_model.POSITION_DELETES],
            equality_deletes=removed[table_model.EQUALITY_DELETES],
            changed_partitions=len(self.request.inputs | self.request.outputs | set(freed)),
            manifests_replaced=len(rewritten),
            **manifest_counts,
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

    def _rewrite_deletes(self, parent: Parent, useless: frozenset[str]) -> list[RewrittenManifest]:
        if not useless:
            return []
        scope = prune.Scope(parent.metadata, self.request.partitions)
        everywhere = delete_scopes.unpartitioned(parent.metadata.specs())
        concerned = [row for row in parent.live if dangling_deletes.concerned(row, scope, everywhere)]
        found = self._look(parent.metadata, concerned, pa.array(sorted(useless), pa.string()), useless)
        if sorted(path for manifest in found for path in manifest.removed) != sorted(useless):
            raise errors.MetadataError("A delete file that leaves is not listed once; nothing was committed.")
        return found

    def _look(
        self, metadata: TableMetadata, rows: Sequence[ManifestFile], removed: pa.Array, useless: frozenset[str]
    ) -> list[RewrittenManifest]:
        todo = [row for row in rows if (row.manifest_path, useless) not in self._looked]
        writing, leaving = self._writing(metadata), manifest_rewrite.Removed(removed)
        with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
            done = pool.map(lambda row: manifest_rewrite.rewrite_manifest(writing, row, leaving), todo)
            for row, rewritten in zip(todo, done, strict=True):
                self._looked[row.manifest_path, useless] = rewritten
        return [found for row in rows if (found := self._looked[row.manifest_path, useless]) is not None]

    def _add(self, metadata: TableMetadata) -> None:
        by_spec = defaultdict(list)
        for file in self.request.added:
            by_spec[file.spec_id].append(file)
        for spec_id, files in sorted(by_spec.items()):
            layout = entries.Layout(
                spec=metadata.specs()[spec_id], schema=metadata.schema(), format_version=metadata.format_version
            )
            sequence_number = self.request.pin.sequence_number
            self._added.append(manifests.write_manifest(self._writing(metadata), files, layout, sequence_number))

    def _write_list(self, metadata: TableMetadata, head: Snapshot, rows: list[ManifestFile]) -> str:
        path = self._new_path(metadata, f"snap-{self.snapshot_id}-{next(self._numbers)}-{self._uuid}.avro")
        manifests.write_list(self._writing(metadata), path, rows, head, metadata.next_sequence_number())
        return path
