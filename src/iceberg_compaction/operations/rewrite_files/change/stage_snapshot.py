"""Writes everything that a replace snapshot points to before it is published: rewritten manifests, manifests of the
added files and a manifest list. Manifests are kept from attempt to attempt, so that a lost race costs one manifest list
and the winner's changes."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.snapshots import Snapshot

from iceberg_compaction import errors
from iceberg_compaction.commit import commit_retry, merge_manifests, snapshot_summary
from iceberg_compaction.commit.new_snapshot import NewSnapshot
from iceberg_compaction.metadata.deletes import delete_scopes
from iceberg_compaction.metadata.manifest import (
    entry_fields,
    prune_manifests,
    snapshot_manifests,
    written_manifests,
)
from iceberg_compaction.model import table_view
from iceberg_compaction.operations.rewrite_files.change import (
    arrange_manifests,
    dangling_deletes,
    partition_summaries,
    replace_request,
    validate_replace,
)
from iceberg_compaction.storage import exact_paths, file_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestContent, ManifestFile
    from pyiceberg.table.metadata import TableMetadata

    from iceberg_compaction.operations.rewrite_files.change.replace_request import ReplaceRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """The branch head that an attempt builds on."""

    metadata: TableMetadata
    manifests: snapshot_manifests.SnapshotManifests


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedSnapshot(NewSnapshot):
    """A snapshot in which groups of files are replaced."""

    removed_delete_files: int
    groups: tuple[int, ...]  # ids


@dataclass(slots=True, kw_only=True)
class Staging:
    """The files written for one commit, over all its attempts."""

    io: FileIO
    request: ReplaceRequest  # without the groups that were dropped
    run_id: str  # goes into the names of files, so that a later run knows them
    snapshot_id: int
    written: list[str] = field(default_factory=list)  # every path, noted before it is written
    conflicts: dict[int, str] = field(default_factory=dict)  # the groups that were dropped, and why
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    _added: list[written_manifests.NewManifest] = field(default_factory=list)
    _data: arrange_manifests.Rewrites = field(default_factory=arrange_manifests.Rewrites)
    # By the delete files that leave.
    _deletes: dict[frozenset[str], arrange_manifests.Rewrites] = field(default_factory=dict)

    def drop(self, conflicts: Mapping[int, str]) -> None:
        """Drops these groups for good; raises ConflictError if none is left. Manifests that were written for the other
        groups stay valid."""
        if not conflicts:
            return
        self.conflicts |= conflicts
        self.request = self.request.without(conflicts)
        if not self.request.groups:
            first = next(iter(conflicts.values()))
            others = f" ({len(self.conflicts)} groups are in conflict.)" if len(self.conflicts) > 1 else ""
            raise errors.ConflictError(first + others, conflicts=self.conflicts)
        self._data.forget(frozenset(self.request.removed["file_path"].to_pylist()))
        self._added.clear()

    def arrange_data(self, parent: Parent) -> arrange_manifests.ArrangedManifests:
        """Arranges the manifests of data files. Those of an earlier attempt are used again where the same files
        leave."""
        if not self._added:
            self._add(parent.metadata)
        scope = prune_manifests.PartitionScope(parent.metadata, self.request.partitions)
        removed = self.request.removed["file_path"].combine_chunks()
        return self._data.arrange(
            self._task(parent, snapshot_manifests.DATA, added=self._added, removed=removed, may_hold=scope.may_be_in)
        )

    def stage(
        self, parent: Parent, data: arrange_manifests.ArrangedManifests, dangling: pa.Table, timestamp_ms: int
    ) -> StagedSnapshot:
        """Writes the snapshot on top of the parent. `data` are its manifests of data files, `dangling` the delete files
        that leave."""
        metadata, head = parent.metadata, parent.manifests.snapshot
        deletes = self._arrange_deletes(parent, frozenset(dangling["file_path"].to_pylist()))
        made = [*data.made, *deletes.made]
        figures = self._figures(metadata, data, deletes, dangling)
        validate_replace.check_records(figures.added.records, figures.removed.records, self.request.deleted_records)
        items = (*data.items, *deletes.items)
        manifest_files = [written_manifests.with_counts(self.io, item.manifest_file) for item in items]
        snapshot = Snapshot(
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=head.snapshot_id,
            sequence_number=metadata.next_sequence_number(),
            timestamp_ms=max(timestamp_ms, metadata.last_updated_ms),
            manifest_list=self._write_list(metadata, head, manifest_files),
            summary=snapshot_summary.summarize(
                figures, head.summary, self.request.properties(), self.request.operation
            ),
            schema_id=metadata.current_schema_id,
        )
        return StagedSnapshot(
            parent=metadata,
            branch=self.request.pin.branch,
            snapshot=snapshot,
            files=frozenset((snapshot.manifest_list, *(manifest.path for manifest in made))),
            removed_delete_files=dangling.num_rows,
            groups=self.request.ids,
        )

    def _arrange_deletes(self, parent: Parent, useless: frozenset[str]) -> arrange_manifests.ArrangedManifests:
        scope = prune_manifests.PartitionScope(parent.metadata, self.request.partitions)
        global_specs = delete_scopes.unpartitioned(parent.metadata.specs())
        task = self._task(
            parent,
            snapshot_manifests.DELETES,
            removed=pa.array(sorted(useless), pa.string()),
            may_hold=lambda manifest: (
                bool(useless)
                and dangling_deletes.may_list_dangling(manifest, scope, global_specs, tidies=self.request.tidies)
            ),
        )
        arrangement = self._deletes.setdefault(useless, arrange_manifests.Rewrites()).arrange(task)
        if sorted(arrangement.removed) != sorted(useless):
            raise errors.MetadataError(
                "A delete file to remove is listed twice, or not at all, in the table's manifests; nothing was "
                "committed."
            )
        return arrangement

    def _task(self, parent: Parent, content: ManifestContent, **more: Any) -> arrange_manifests.ManifestTask:
        metadata = parent.metadata
        return arrange_manifests.ManifestTask(
            manifest_files=parent.manifests.live(content),
            writing=self._writing(metadata),
            merging=merge_manifests.merging(metadata.properties),
            layout=lambda spec_id: writable_layout(metadata, spec_id),
            **more,
        )

    def _figures(
        self,
        metadata: TableMetadata,
        data: arrange_manifests.ArrangedManifests,
        deletes: arrange_manifests.ArrangedManifests,
        dangling: pa.Table,
    ) -> snapshot_summary.SummaryFigures:
        removed: dict[int, written_manifests.Counts] = defaultdict(written_manifests.Counts)
        for rewritten in (*data.rewritten, *deletes.rewritten):
            for content, counts in rewritten.removed_counts.items():
                removed[content] += counts
        changed = len(self.request.inputs | self.request.outputs | set(replace_request.partition_keys(dangling)))
        with_partitions = changed <= commit_retry.number(metadata.properties, snapshot_summary.PARTITION_LIMIT, 0)
        return snapshot_summary.SummaryFigures(
            added=sum((made.added for made in data.made), written_manifests.NONE),
            removed=removed[table_view.DATA],
            position_deletes=removed[table_view.POSITION_DELETES],
            equality_deletes=removed[table_view.EQUALITY_DELETES],
            changed_partitions=changed,
            partitions=partition_summaries.changes(metadata, self.request, dangling) if with_partitions else {},
            manifests_created=len(data.made) + len(deletes.made),
            manifests_kept=len(data.kept) + len(deletes.kept),
            manifests_replaced=data.replaced + deletes.replaced,
        )

    def _writing(self, metadata: TableMetadata) -> written_manifests.Writing:
        return written_manifests.Writing(
            io=self.io,
            snapshot_id=self.snapshot_id,
            format_version=metadata.format_version,
            codec=written_manifests.codec(metadata.properties),
            # A run may commit several snapshots.
            new_path=lambda: self._new_path(
                metadata, file_names.manifest(self.run_id, next(self._numbers), snapshot_id=self.snapshot_id)
            ),
        )

    def _new_path(self, metadata: TableMetadata, name: str) -> str:
        path = load_location_provider(metadata.location, metadata.properties).new_metadata_location(name)
        self.written.append(exact_paths.check_new(path, metadata.location))
        return path

    def _add(self, metadata: TableMetadata) -> None:
        by_spec = defaultdict(list)
        for file in self.request.added:
            by_spec[file.spec_id].append(file)
        target = merge_manifests.merging(metadata.properties).target
        for spec_id, files in sorted(by_spec.items()):
            layout = entry_fields.ManifestLayout(
                spec=metadata.specs()[spec_id], schema=metadata.schema(), format_version=metadata.format_version
            )
            self._added += written_manifests.write_manifests(
                self._writing(metadata), files, layout, self.request.pin.sequence_number, target
            )

    def _write_list(self, metadata: TableMetadata, head: Snapshot, manifest_files: list[ManifestFile]) -> str:
        name = file_names.manifest_list(self.run_id, next(self._numbers), snapshot_id=self.snapshot_id)
        path = self._new_path(metadata, name)
        sequence_number = metadata.next_sequence_number()
        written_manifests.write_list(self._writing(metadata), path, manifest_files, head, sequence_number)
        return path


def writable_layout(metadata: TableMetadata, spec_id: int) -> entry_fields.ManifestLayout | None:
    """The layout of the spec's manifests; None: a column of the spec is gone, or its type is not known here."""
    spec = metadata.specs().get(spec_id)
    if spec is None:
        return None
    layout = entry_fields.ManifestLayout(spec=spec, schema=metadata.schema(), format_version=metadata.format_version)
    return layout if layout.is_writable else None
