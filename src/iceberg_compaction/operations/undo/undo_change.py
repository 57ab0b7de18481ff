"""The change of `undo` for the spine of commits. Each attempt judges the table as it is then: it rolls the branch back,
or writes a snapshot in which the files of the run are replaced by those that the run had replaced."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.snapshots import Snapshot

from iceberg_compaction import errors
from iceberg_compaction.commit import merge_manifests, snapshot_pin, snapshot_summary
from iceberg_compaction.commit.new_snapshot import NewSnapshot
from iceberg_compaction.metadata.manifest import (
    prune_manifests,
    restored_entries,
    snapshot_manifests,
    written_manifests,
)
from iceberg_compaction.model import table_view
from iceberg_compaction.model.undo_plan import UndoWay
from iceberg_compaction.operations.past_runs import run_commits
from iceberg_compaction.operations.rewrite_files.change import arrange_manifests, stage_snapshot
from iceberg_compaction.operations.undo import judge_undo, later_commits, later_deletes, rollback_change
from iceberg_compaction.storage import exact_paths, file_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.manifest import ManifestContent, ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate

    from iceberg_compaction.commit.change import Committer
    from iceberg_compaction.operations.undo.judge_undo import UndoRequest, WayBack


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedReturn(NewSnapshot):
    """A snapshot in which files come back. The snapshots that keep these files must still be there when the catalog
    takes it: expiry that came in between would remove the files."""

    parents: tuple[int, ...]

    @property
    def updates(self) -> tuple[TableUpdate, ...]:
        # `super()` needs the class by name in a dataclass with slots.
        return (*itertools.chain(*map(self._pins, self.parents)), *NewSnapshot.updates.fget(self))  # type: ignore[attr-defined]

    def _pins(self, parent: int) -> tuple[TableUpdate, ...]:
        return snapshot_pin.updates(parent, f"undo-{self.snapshot.snapshot_id}-{parent}")


class UndoChange:
    """The undo of one run, in as many attempts as it takes. `back` is the way back of the last one."""

    def __init__(self, request: UndoRequest, table: Table, run: Committer, properties: Mapping[str, str]) -> None:
        self._request, self._run, self._properties = request, run, properties
        self._numbers = itertools.count()
        self.snapshot_id = table.metadata.new_snapshot_id()
        self.written: list[str] = []
        self.back: WayBack | None = None

    @property
    def label(self) -> str:
        return f"the undo of run {self._request.undone_run_id}"

    def stage(self, table: Table, now_ms: int) -> rollback_change.StagedRollback | StagedReturn:
        """Judges the table, and writes the snapshot if there is one. Raises ConflictError if the run cannot be undone
        any more."""
        try:
            self.back = back = judge_undo.judge(self._request, table, self._run.cache)
        except later_deletes.UndoRefusal as refusal:
            raise errors.ConflictError(f"The run cannot be undone any more: {refusal}.") from refusal
        if back.way is UndoWay.ROLLBACK:
            return rollback_change.StagedRollback(
                parent=table.metadata, branch=back.branch, head_id=back.head.snapshot_id, target_id=back.target
            )
        return self._stage_return(table, back, now_ms)

    def _stage_return(self, table: Table, back: WayBack, now_ms: int) -> StagedReturn:
        metadata, head = table.metadata, back.head
        manifests = snapshot_manifests.read(table.io, head)
        writing = self._writing(table)
        data = self._arrange(table, writing, manifests.live(snapshot_manifests.DATA), back, snapshot_manifests.DATA)
        if sorted(data.removed) != sorted(back.leaving["file_path"].to_pylist()):
            raise errors.MetadataError("A file to remove is listed twice, or not at all, in the table's manifests.")
        deletes = self._arrange(
            table, writing, manifests.live(snapshot_manifests.DELETES), back, snapshot_manifests.DELETES
        )
        made, kept = [*data.made, *deletes.made], [*data.kept, *deletes.kept]
        path = self._new_path(
            metadata, file_names.manifest_list(self._run.run_id, next(self._numbers), snapshot_id=self.snapshot_id)
        )
        number = metadata.next_sequence_number()
        items = (*data.items, *deletes.items)
        next_files = [written_manifests.with_counts(table.io, item.manifest_file) for item in items]
        written_manifests.write_list(writing, path, next_files, head, number)
        figures = _figures(back, made=len(made), kept=len(kept), replaced=data.replaced + deletes.replaced)
        properties = {**self._properties, run_commits.BRANCH: back.branch}
        snapshot = Snapshot(
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=head.snapshot_id,
            sequence_number=number,
            timestamp_ms=max(now_ms, metadata.last_updated_ms),
            manifest_list=path,
            summary=snapshot_summary.summarize(figures, head.summary, properties),
            schema_id=metadata.current_schema_id,
        )
        return StagedReturn(
            parent=metadata,
            branch=back.branch,
            snapshot=snapshot,
            files=frozenset((path, *(each.path for each in made))),
            parents=back.parents,
        )

    def _arrange(
        self,
        table: Table,
        writing: written_manifests.Writing,
        manifest_files: tuple[ManifestFile, ...],
        back: WayBack,
        content: ManifestContent,
    ) -> arrange_manifests.ArrangedManifests:
        """The manifests of one content: those of files that come back, then those of the head without the others."""
        is_data = content == snapshot_manifests.DATA
        returning = (back.returning if is_data else back.restored)["file_path"].combine_chunks()
        sources = [each for change in back.changes for each in change.removed_in if each.content == content]
        restored = [restored_entries.restore(writing, source, returning) for source in sources]
        added = [manifest for manifest in restored if manifest is not None]
        if sum(manifest.added.files for manifest in added) != len(returning):
            raise errors.MetadataError("A file that should come back is listed twice, or not at all, where it left.")
        scope = prune_manifests.PartitionScope(table.metadata, tuple(later_commits.keys(back.leaving)))
        task = arrange_manifests.ManifestTask(
            manifest_files=manifest_files,
            added=added,
            removed=back.leaving["file_path"].combine_chunks() if is_data else pa.array([], pa.string()),
            may_hold=scope.may_be_in if is_data else lambda manifest: False,
            writing=writing,
            merging=merge_manifests.merging(table.metadata.properties),
            layout=lambda spec_id: stage_snapshot.writable_layout(table.metadata, spec_id),
        )
        return arrange_manifests.Rewrites().arrange(task)

    def _writing(self, table: Table) -> written_manifests.Writing:
        metadata = table.metadata
        return written_manifests.Writing(
            io=table.io,
            snapshot_id=self.snapshot_id,
            format_version=metadata.format_version,
            codec=written_manifests.codec(metadata.properties),
            new_path=lambda: self._new_path(
                metadata, file_names.manifest(self._run.run_id, next(self._numbers), snapshot_id=self.snapshot_id)
            ),
        )

    def _new_path(self, metadata: TableMetadata, name: str) -> str:
        path = load_location_provider(metadata.location, metadata.properties).new_metadata_location(name)
        self.written.append(exact_paths.check_new(path, metadata.location))
        return path


def _figures(back: WayBack, *, made: int, kept: int, replaced: int) -> snapshot_summary.SummaryFigures:
    position, equality = (
        _counts(back.restored.filter(pc.equal(back.restored["content"], content)))
        for content in (table_view.POSITION_DELETES, table_view.EQUALITY_DELETES)
    )
    changed: Any = later_commits.keys(back.leaving) | later_commits.keys(back.returning)
    return snapshot_summary.SummaryFigures(
        added=_counts(back.returning),
        removed=_counts(back.leaving),
        added_position_deletes=position,
        added_equality_deletes=equality,
        changed_partitions=len(changed),
        manifests_created=made,
        manifests_kept=kept,
        manifests_replaced=replaced,
    )


def _counts(files: pa.Table) -> written_manifests.Counts:
    return written_manifests.Counts(
        files=files.num_rows,
        records=pc.sum(files["record_count"]).as_py() or 0,
        bytes=pc.sum(files["file_size_in_bytes"]).as_py() or 0,
    )
