"""Files replaced by others with the same rows, as one `replace` snapshot. A request comes in, the committed snapshot
goes out. Every attempt validates against the table as it is then, and groups in conflict are dropped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.commit import spine
from iceberg_compaction.metadata.deletes import delete_paths
from iceberg_compaction.metadata.manifest import snapshot_manifests
from iceberg_compaction.operations.rewrite_files.change import (
    concurrent_deletes,
    dangling_deletes,
    stage_snapshot,
    validate_replace,
)
from iceberg_compaction.operations.rewrite_files.change.replace_request import ReplaceGroup, ReplaceRequest

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from iceberg_compaction.commit.change import Committer
    from iceberg_compaction.operations.rewrite_files.change import arrange_manifests

__all__ = ["CommitResult", "ReplaceGroup", "ReplaceRequest", "replace"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """The snapshot that was committed."""

    snapshot_id: int
    sequence_number: int
    attempts: int
    landed: tuple[int, ...]  # ids of groups
    conflicts: dict[int, str]  # the other groups: the id, and a sentence that says why
    removed_delete_files: int = 0  # that nothing is left for


def replace(table: Table, request: ReplaceRequest, run: Committer) -> CommitResult:
    """Commits the groups of the request that are not in conflict. Raises ConflictError if that is none,
    if others changed what all depend on or if they kept winning, StateUnknownError if the catalog did not tell. In all
    cases but the last, no metadata file is left that the table does not use. Data files are the caller's."""
    with spine.naming_defects(table):
        validate_replace.check_request(request)
        change = Replacement(table, request, run)
    committed = spine.commit(table, change, run)
    staged = committed.staged
    return CommitResult(
        snapshot_id=staged.snapshot.snapshot_id,
        sequence_number=staged.snapshot.sequence_number or 0,  # format version 1 has none
        attempts=committed.attempts,
        landed=staged.groups,
        conflicts={key: why for key, why in change.staging.conflicts.items() if key not in staged.groups},
        removed_delete_files=staged.removed_delete_files,
    )


class Replacement:
    """The request as a change that may take several attempts."""

    def __init__(self, table: Table, request: ReplaceRequest, run: Committer) -> None:
        self.staging = stage_snapshot.Staging(
            io=table.io, request=request, run_id=run.run_id, snapshot_id=table.metadata.new_snapshot_id()
        )
        self._paths = delete_paths.NamedPaths()
        self._cache = run.cache

    @property
    def label(self) -> str:
        return f"snapshot {self.staging.snapshot_id}"

    @property
    def written(self) -> list[str]:
        return self.staging.written

    def stage(self, table: Table, now_ms: int) -> stage_snapshot.StagedSnapshot:
        """Validates the request and writes the snapshot. Groups that cannot be committed any more are dropped for
        good."""
        metadata, staging = table.metadata, self.staging
        staging.io = table.io  # credentials that a catalog gives with a table expire
        head = validate_replace.check_history(metadata, staging.request.pin)
        manifests = snapshot_manifests.read(staging.io, head)
        staging.drop(validate_replace.without_spec(metadata, staging.request))
        staging.drop(concurrent_deletes.conflicts(table, manifests, staging.request, self._paths))
        parent = stage_snapshot.Parent(metadata=metadata, manifests=manifests)
        data = self._arrange_data(parent)
        useless = dangling_deletes.dangling(table, manifests, staging.request, self._paths, self._cache)
        if not staging.request.groups and not useless.num_rows:
            raise errors.NothingLeftError("No delete file is left in the table that applies to nothing.")
        return staging.stage(parent, data, useless, now_ms)

    def _arrange_data(self, parent: stage_snapshot.Parent) -> arrange_manifests.ArrangedManifests:
        """Arranges the manifests of data files, which shows whether all files to replace are still there. Rarely one is
        not; then its group is dropped, and only the manifests of that group are written again."""
        while True:
            arrangement = self.staging.arrange_data(parent)
            request = self.staging.request
            gone = validate_replace.without_inputs(request, arrangement.removed)
            gone |= validate_replace.with_newer_inputs(request, arrangement.removed_after(request.pin.sequence_number))
            if not gone:
                return arrangement
            self.staging.drop(gone)
