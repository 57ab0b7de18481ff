"""Files replaced by others with the same rows, as one `replace` snapshot. A request comes in, the committed snapshot
goes out. Every attempt reads the table anew, validates, stages and publishes; groups in conflict are dropped. What does
not become part of the table is removed, unless nobody knows whether it did."""

from __future__ import annotations

import itertools
import logging
import random as randomness
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, AssertTableUUID, SetSnapshotRefUpdate

from iceberg_compaction import errors
from iceberg_compaction.catalog import publish
from iceberg_compaction.commit import concurrent_deletes, dangling, retry, stage, sweep, validate
from iceberg_compaction.commit.request import ReplaceGroup, ReplaceRequest
from iceberg_compaction.metadata import delete_paths, fetch

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from iceberg_compaction.metadata.manifest_rewrite import RewrittenManifest

__all__ = ["CommitResult", "ReplaceGroup", "ReplaceRequest", "replace"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """The snapshot that landed."""

    snapshot_id: int
    sequence_number: int
    attempts: int
    landed: tuple[int, ...]  # ids of groups
    conflicts: dict[int, str]  # the other groups: the id, and a sentence that says why
    removed_delete_files: int = 0  # that nothing is left for


def _now_ms() -> int:
    return int(time.time() * 1000)


def replace(
    table: Table,
    request: ReplaceRequest,
    *,
    sleep: Callable[[float], None] = time.sleep,
    random: Callable[[], float] = randomness.random,
    clock: Callable[[], int] = _now_ms,
) -> CommitResult:
    """Commit the request, or of its groups those that others have left possible. Raises ConflictError if that is none,
    if others changed what all depend on or if they kept winning, StateUnknownError if the catalog did not tell. In all
    cases but the last, no metadata file is left that the table does not use. Data files are the caller's."""
    validate.check_request(request)
    staging = stage.Staging(io=table.io, request=request, snapshot_id=table.metadata.new_snapshot_id())
    commit = _Commit(table=table, staging=staging, sleep=sleep, random=random, clock=clock)
    try:
        landed, attempts = commit.run()
    except BaseException:
        if not commit.in_doubt:
            sweep.sweep(staging.io, staging.written)
        raise
    sweep.sweep(staging.io, [path for path in staging.written if path not in landed.files])
    sequence_number = landed.snapshot.sequence_number or 0  # format version 1 has none
    return CommitResult(
        snapshot_id=staging.snapshot_id,
        sequence_number=sequence_number,
        attempts=attempts,
        landed=landed.groups,
        conflicts={group_id: why for group_id, why in staging.conflicts.items() if group_id not in landed.groups},
        removed_delete_files=landed.removed_delete_files,
    )


@dataclass(slots=True, kw_only=True)
class _Commit:
    """The attempts of one commit, up to the one that lands."""

    table: Table  # as last loaded
    staging: stage.Staging
    sleep: Callable[[float], None]
    random: Callable[[], float]
    clock: Callable[[], int]
    in_doubt: bool = False  # something was published, and it is not known that it failed
    _paths: delete_paths.NamedPaths = field(default_factory=delete_paths.NamedPaths)
    _tried: dict[str, stage.StagedSnapshot] = field(default_factory=dict)  # by manifest list

    def run(self) -> tuple[stage.StagedSnapshot, int]:
        """Try until the snapshot lands, a conflict is final or the retries are used up; what landed, and attempts."""
        waits = retry.commit_retry(self.table.metadata.properties).waits(self.random)
        attempts = 0
        while True:
            if landed := self._reload():
                return landed, attempts
            attempts += 1
            staged = self._stage()
            try:
                self._publish(staged)
            except errors.ConflictError as conflict:
                _log.info("Commit attempt %d did not land: %s", attempts, conflict)
                wait = next(waits, None)
                if wait is not None:
                    self.sleep(wait)
                elif landed := self._reload():
                    return landed, attempts
                else:
                    raise
            else:
                return staged, attempts

    def _reload(self) -> stage.StagedSnapshot | None:
        """Load the table anew. A race may be lost against ourselves, when a proxy has sent our commit twice: then what
        landed is returned."""
        self.table = publish.reload(self.table)
        self.staging.io = self.table.io  # credentials that a catalog gives with a table expire
        snapshot = self.table.metadata.snapshot_by_id(self.staging.snapshot_id)
        return self._tried[snapshot.manifest_list] if snapshot is not None else None

    def _stage(self) -> stage.StagedSnapshot:
        metadata, staging = self.table.metadata, self.staging
        head = validate.check_history(metadata, staging.request.pin)
        rows = fetch.list_manifests(staging.io, head)
        staging.drop(validate.without_spec(metadata, staging.request))
        staging.drop(concurrent_deletes.conflicts(self.table, rows, staging.request, self._paths))
        parent = stage.Parent(metadata=metadata, snapshot=head, rows=rows)
        data = self._rewrite_data(parent)
        useless = dangling.dangling(self.table, head, rows, staging.request, self._paths)
        staged = staging.stage(parent, data, useless, self.clock())
        self._tried[staged.snapshot.manifest_list] = staged
        return staged

    def _rewrite_data(self, parent: stage.Parent) -> list[RewrittenManifest]:
        """Which files are still there shows while manifests are written. That one is not is rare, and then only what
        its group had a part in is written again."""
        while True:
            found = self.staging.rewrite_data(parent)
            gone = validate.without_inputs(self.staging.request, [path for made in found for path in made.removed])
            if not gone:
                return found
            self.staging.drop(gone)

    def _publish(self, staged: stage.StagedSnapshot) -> None:
        """The compare-and-set. Raises ConflictError when the snapshot surely did not land and may be tried again."""
        requirements, updates = _changes(self.table.metadata, self.staging.request.pin.branch, staged.snapshot)
        self.in_doubt = True
        try:
            publish.publish(self.table, requirements, updates)
        except errors.StateUnknownError as error:
            self._settle(staged.snapshot, error)
        except errors.CommitError:
            self.in_doubt = False
            raise
        except KeyboardInterrupt as stopped:
            try:
                self._settle(staged.snapshot, stopped)
            except errors.ConflictError:
                raise stopped from None  # nothing landed, and nobody wants it to

    def _settle(self, snapshot: Snapshot, error: BaseException) -> None:
        """Find out whether the snapshot landed after all. That it is absent proves nothing, for a slow server may yet
        add it (R14); only once the branch has moved on can it no longer land."""
        waits = retry.status_check(self.table.metadata.properties).waits(self.random)
        for wait in itertools.chain((None,), waits):
            if wait is not None:
                self.sleep(wait)
            try:
                metadata = publish.reload(self.table).metadata
            except errors.CompactionError as failure:
                _log.warning("The state of the commit could not be looked up: %s", failure)
                continue
            if metadata.snapshot_by_id(snapshot.snapshot_id) is not None:
                return
            head = metadata.snapshot_by_name(self.staging.request.pin.branch)
            if head is None or head.snapshot_id != snapshot.parent_snapshot_id:
                self.in_doubt = False
                raise errors.ConflictError("Another commit landed instead of ours.") from error
        raise errors.StateUnknownError(
            f"The catalog did not say whether snapshot {snapshot.snapshot_id} landed, and it has not appeared; nothing "
            "was deleted. Look for it in the table's history: if it stays absent, its files are orphans."
        ) from error


def _changes(
    metadata: TableMetadata, branch: str, snapshot: Snapshot
) -> tuple[tuple[TableRequirement, ...], tuple[TableUpdate, ...]]:
    """Add the snapshot and move the branch to it, if the branch has not moved; its retention settings stay."""
    ref = metadata.refs[branch]
    requirements = (
        AssertTableUUID(uuid=metadata.table_uuid),
        AssertRefSnapshotId(ref=branch, snapshot_id=snapshot.parent_snapshot_id),
    )
    moved = SetSnapshotRefUpdate(
        ref_name=branch,
        type=SnapshotRefType.BRANCH,
        snapshot_id=snapshot.snapshot_id,
        max_ref_age_ms=ref.max_ref_age_ms,
        max_snapshot_age_ms=ref.max_snapshot_age_ms,
        min_snapshots_to_keep=ref.min_snapshots_to_keep,
    )
    return requirements, (AddSnapshotUpdate(snapshot=snapshot), moved)
