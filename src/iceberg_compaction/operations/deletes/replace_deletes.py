"""Delete files replaced by others that take the same rows, as one `replace` snapshot (R9). A request comes in, the
committed snapshot goes out. Every attempt validates against the table as it is then: a group is left out unless its
delete files and data files are all there, and nothing else is within the reach of what leaves. Data files stay."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.snapshots import Snapshot

from iceberg_compaction import errors
from iceberg_compaction.commit import commit_retry, merge_manifests, snapshot_summary, spine
from iceberg_compaction.commit.new_snapshot import NewSnapshot
from iceberg_compaction.metadata.deletes import delete_index, delete_scopes, useless_deletes
from iceberg_compaction.metadata.manifest import entry_fields, live_files, snapshot_manifests, written_manifests
from iceberg_compaction.model import table_view
from iceberg_compaction.operations.deletes import delete_partitions
from iceberg_compaction.operations.rewrite_files.change import (
    arrange_manifests,
    replace_request,
    stage_snapshot,
    validate_replace,
)
from iceberg_compaction.storage import exact_paths, file_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

    from iceberg_compaction.commit.change import Committer
    from iceberg_compaction.model.partition_key import PartitionKey
    from iceberg_compaction.model.rewrite_task import StagedFile
    from iceberg_compaction.operations.deletes.delete_request import DeletesRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedDeletes(NewSnapshot):
    """A snapshot in which delete files are replaced or dropped."""

    groups: tuple[int, ...]  # ids
    dangling: int  # files


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletesResult:
    """The snapshot that was committed."""

    snapshot_id: int
    attempts: int
    landed: tuple[int, ...]  # ids of groups
    conflicts: dict[int, str]  # the other groups, and why
    dangling: int  # files that were dropped


def replace(table: Table, request: DeletesRequest, run: Committer) -> DeletesResult:
    """Commits what is not in conflict. Raises ConflictError if that is nothing and something was, NothingLeftError if
    others did the same meanwhile, StateUnknownError if the catalog did not tell. In all cases but the last, no metadata
    file is left that the table does not use. Delete files are the caller's."""
    change = DeletesReplacement(table, request, run)
    committed = spine.commit(table, change, run)
    staged = committed.staged
    return DeletesResult(
        snapshot_id=staged.snapshot.snapshot_id,
        attempts=committed.attempts,
        landed=staged.groups,
        conflicts={key: why for key, why in change.conflicts.items() if key not in staged.groups},
        dangling=staged.dangling,
    )


class DeletesReplacement:
    """The request as a change that may take several attempts. Manifests are kept from attempt to attempt where the same
    files leave."""

    def __init__(self, table: Table, request: DeletesRequest, run: Committer) -> None:
        self._request, self._run, self._groups = request, run, request.groups
        self.snapshot_id = table.metadata.new_snapshot_id()
        self.written: list[str] = []
        self.conflicts: dict[int, str] = {}
        self._numbers = itertools.count()
        self._added: dict[tuple[int, ...], list[written_manifests.NewManifest]] = {}  # by groups
        self._rewrites: dict[frozenset[str], arrange_manifests.Rewrites] = {}  # by the files that leave

    @property
    def label(self) -> str:
        return f"snapshot {self.snapshot_id}"

    def stage(self, table: Table, now_ms: int) -> StagedDeletes:
        """Validates the request and writes the snapshot. Groups that cannot be committed any more are dropped for
        good."""
        metadata = table.metadata
        head = validate_replace.check_history(metadata, self._request.pin)
        manifests = snapshot_manifests.read(table.io, head)
        live = self._live(table, manifests)
        useless = self._validate(metadata, live)
        replaced = [path for group in self._groups for path in group.replaced.to_pylist()]
        leaving = frozenset(replaced) | useless
        if not leaving:
            self._raise_nothing_left()
        writing = self._writing(table, metadata)
        deletes = self._arrange(metadata, manifests, leaving, writing)
        data = manifests.live(snapshot_manifests.DATA)
        gone = live.filter(pc.is_in(live["file_path"], value_set=pa.array(list(leaving), pa.string())))
        figures = self._figures(metadata, deletes, gone, len(data))
        manifest_files = [
            written_manifests.with_counts(table.io, manifest)
            for manifest in (*data, *(item.manifest_file for item in deletes.items))
        ]
        path = self._new_path(
            metadata,
            file_names.manifest_list(self._run.run_id, next(self._numbers), snapshot_id=self.snapshot_id),
        )
        number = metadata.next_sequence_number()
        written_manifests.write_list(writing, path, manifest_files, head, number)
        snapshot = Snapshot(
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=head.snapshot_id,
            sequence_number=number,
            timestamp_ms=max(now_ms, metadata.last_updated_ms),
            manifest_list=path,
            summary=snapshot_summary.summarize(figures, head.summary, self._request.snapshot_properties),
            schema_id=metadata.current_schema_id,
        )
        return StagedDeletes(
            parent=metadata,
            branch=self._request.pin.branch,
            snapshot=snapshot,
            files=frozenset((path, *(made.path for made in deletes.made))),
            groups=tuple(group.id for group in self._groups),
            dangling=len(useless),
        )

    def _live(self, table: Table, manifests: snapshot_manifests.SnapshotManifests) -> pa.Table:
        """The live files of the head; often that is still the planned snapshot, which never changes."""
        planned = self._request.live
        if planned is not None and manifests.snapshot.snapshot_id == self._request.pin.snapshot_id:
            return planned
        return live_files.live_files(table, manifests, cache=self._run.cache, branch=self._request.pin.branch)

    def _validate(self, metadata: TableMetadata, live: pa.Table) -> frozenset[str]:
        """Drops the groups in conflict; returns the paths of delete files that still apply to nothing."""
        global_specs = delete_scopes.unpartitioned(metadata.specs())
        index = delete_index.build(live, unpartitioned_specs=global_specs)
        is_data = live["content"].to_numpy() == table_view.DATA
        deletes = live["file_path"].filter(pa.array(~is_data))
        counts = dict(zip(deletes.to_pylist(), index.live_targets()["in_scope"].to_pylist(), strict=True))
        data = live["file_path"].filter(pa.array(is_data)).combine_chunks()
        for group in self._groups:
            missing = {file.spec_id for file in group.added} - metadata.specs().keys()
            why = f"Partition spec {min(missing)} was removed from the table; run again." if missing else None
            if why := why or group.is_held_by(data, counts):
                self.conflicts[group.id] = why
        self._groups = tuple(group for group in self._groups if group.id not in self.conflicts)
        if not self._request.dangling:
            return frozenset()
        free = deletes.filter(pa.array(useless_deletes.mask_of_snapshot(live, index, global_specs)))
        return self._request.dangling.intersection(free.to_pylist())

    def _raise_nothing_left(self) -> NoReturn:
        if not self.conflicts:
            raise errors.NothingLeftError("The delete files of the plan have left the table meanwhile.")
        first = next(iter(self.conflicts.values()))
        others = f" ({len(self.conflicts)} groups are in conflict.)" if len(self.conflicts) > 1 else ""
        raise errors.ConflictError(first + others, conflicts=self.conflicts)

    def _arrange(
        self,
        metadata: TableMetadata,
        manifests: snapshot_manifests.SnapshotManifests,
        leaving: frozenset[str],
        writing: written_manifests.Writing,
    ) -> arrange_manifests.ArrangedManifests:
        task = arrange_manifests.ManifestTask(
            manifest_files=manifests.live(snapshot_manifests.DELETES),
            added=self._add(metadata, writing),
            removed=pa.array(list(leaving), pa.string()),
            may_hold=lambda _: True,
            writing=writing,
            merging=merge_manifests.merging(metadata.properties),
            layout=lambda spec_id: stage_snapshot.writable_layout(metadata, spec_id),
        )
        arrangement = self._rewrites.setdefault(leaving, arrange_manifests.Rewrites()).arrange(task)
        removed = arrangement.removed
        if len(removed) != len(leaving) or leaving != frozenset(removed):
            raise errors.MetadataError(
                "A delete file to remove is listed twice, or not at all, in the table's manifests; nothing was "
                "committed."
            )
        return arrangement

    def _add(
        self, metadata: TableMetadata, writing: written_manifests.Writing
    ) -> Sequence[written_manifests.NewManifest]:
        """Manifests of the new delete files."""
        ids = tuple(group.id for group in self._groups)
        if ids not in self._added:
            by_spec: dict[int, list[StagedFile]] = defaultdict(list)
            for file in (file for group in self._groups for file in group.added):
                by_spec[file.spec_id].append(file)
            target, number = merge_manifests.merging(metadata.properties).target, self._request.pin.sequence_number
            self._added[ids] = [
                made
                for spec_id, files in sorted(by_spec.items())
                for made in written_manifests.write_manifests(
                    writing, files, _layout(metadata, spec_id), number, target
                )
            ]
        return self._added[ids]

    def _figures(
        self,
        metadata: TableMetadata,
        deletes: arrange_manifests.ArrangedManifests,
        gone: pa.Table,
        data_manifests: int,
    ) -> snapshot_summary.SummaryFigures:
        added = [file for group in self._groups for file in group.added]
        keys: set[PartitionKey] = set(replace_request.partition_keys(gone))
        keys |= {(file.spec_id, file.partition) for file in added}
        with_partitions = len(keys) <= commit_retry.number(metadata.properties, snapshot_summary.PARTITION_LIMIT, 0)
        changes = delete_partitions.changes(gone, added)
        total = sum(changes.values(), snapshot_summary.FileChanges())
        return snapshot_summary.SummaryFigures(
            position_deletes=total.position_deletes,
            equality_deletes=total.equality_deletes,
            added_position_deletes=total.added_position_deletes,
            changed_partitions=len(keys),
            partitions=delete_partitions.by_path(metadata, changes) if with_partitions else {},
            manifests_created=len(deletes.made),
            manifests_kept=data_manifests + len(deletes.kept),
            manifests_replaced=deletes.replaced,
        )

    def _writing(self, table: Table, metadata: TableMetadata) -> written_manifests.Writing:
        return written_manifests.Writing(
            io=table.io,
            snapshot_id=self.snapshot_id,
            format_version=metadata.format_version,
            codec=written_manifests.codec(metadata.properties),
            new_path=lambda: self._new_path(
                metadata,
                file_names.manifest(self._run.run_id, next(self._numbers), snapshot_id=self.snapshot_id),
            ),
        )

    def _new_path(self, metadata: TableMetadata, name: str) -> str:
        path = load_location_provider(metadata.location, metadata.properties).new_metadata_location(name)
        self.written.append(exact_paths.check_new(path, metadata.location))
        return path


def _layout(metadata: TableMetadata, spec_id: int) -> entry_fields.ManifestLayout:
    return entry_fields.ManifestLayout(
        spec=metadata.specs()[spec_id], schema=metadata.schema(), format_version=metadata.format_version
    )
