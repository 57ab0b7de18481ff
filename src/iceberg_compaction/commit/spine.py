"""The attempts of one commit, up to the one that lands; the same for every operation. Each loads the table anew,
has the operation validate and stage its snapshot, and publishes it. What does not become part of the table is removed,
unless nobody knows whether it did."""

from __future__ import annotations

import itertools
import logging
import random as randomness
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertDefaultSpecId,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetSnapshotRefUpdate,
)

from iceberg_compaction import errors
from iceberg_compaction.catalog import publish, run_watch
from iceberg_compaction.commit import commit_retry
from iceberg_compaction.model import table_names
from iceberg_compaction.operations.rewrite_files.change import validate_replace
from iceberg_compaction.storage import redact, remove, translate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableRequirement, TableUpdate

_log = logging.getLogger(__name__)


class Staged(Protocol):
    """A snapshot that is written but not published."""

    @property
    def snapshot(self) -> Snapshot: ...
    @property
    def files(self) -> frozenset[str]:
        """Of the files that the commit wrote, those that the snapshot needs."""
        ...


S = TypeVar("S", bound=Staged)
S_co = TypeVar("S_co", bound=Staged, covariant=True)


class Operation(Protocol[S_co]):
    """What is to be committed. The snapshot id is the same in all attempts, so that it can be looked for."""

    @property
    def snapshot_id(self) -> int: ...
    @property
    def branch(self) -> str: ...
    @property
    def written(self) -> list[str]:
        """Every path that was written for the commit, noted before it is written."""
        ...

    def stage(self, table: Table, now_ms: int) -> S_co:
        """Validate against the table as it is now, and write what the snapshot needs. Raises ConflictError where no
        further attempt could succeed."""
        ...


def _now_ms() -> int:
    return int(time.time() * 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Time and chance."""

    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = randomness.random
    clock: Callable[[], int] = _now_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed(Generic[S]):
    """What was published, and how many attempts it took."""

    staged: S
    attempts: int


def land(table: Table, operation: Operation[S], around: Surroundings | None = None) -> Landed[S]:
    """Commit the operation. Raises ConflictError if others changed what it depends on or kept winning,
    StateUnknownError if the catalog did not tell. Any other CompactionError, for defects of our own too, means that
    nothing was published. In all cases but StateUnknownError, no file of `written` is left that the table does not
    use."""
    attempts = _Attempts(table=table, operation=operation, around=around or Surroundings())
    try:
        with naming_defects(table, lambda: attempts.in_doubt):
            landed = attempts.run()
    except BaseException as error:
        if not attempts.in_doubt:
            _remove(attempts.table, operation.written, remove.Proof.NOT_COMMITTED)
        elif isinstance(error, errors.CompactionError) and not isinstance(error, errors.StateUnknownError):
            # Any other word of ours would mean that nothing was published.
            raise errors.StateUnknownError(
                f"Snapshot {operation.snapshot_id} was sent to the catalog, and whether it landed could not be found "
                f"out, so nothing was deleted: {error}"
            ) from error
        raise
    try:
        run_watch.tell_landed(landed.staged.snapshot)
        unused = [path for path in operation.written if path not in landed.staged.files]
        _remove(attempts.table, unused, remove.Proof.NOT_COMMITTED)
    except Exception as error:  # noqa: BLE001 - it has landed, whatever this is
        _log.warning("Snapshot %d landed, but not all was tidied up: %s", operation.snapshot_id, type(error).__name__)
    return landed


def _remove(table: Table, paths: Iterable[str], proof: remove.Proof) -> None:
    for path in remove.remove_files(table.io, paths, proof):
        run_watch.tell_left(path)


@contextmanager
def naming_defects(table: Table, in_doubt: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Turn whatever our own code raises before anything is published into an error that says so. What is in doubt
    passes as it is."""
    try:
        yield
    except errors.CompactionError:
        raise
    except Exception as error:
        if in_doubt():
            raise
        secrets = redact.secrets_of(table.catalog.properties)
        raise translate.unpublished(error, table_names.text(table.name()), secrets) from translate.safe_cause(
            error, secrets
        )


@dataclass(slots=True, kw_only=True)
class _Attempts(Generic[S]):
    table: Table  # as last loaded
    operation: Operation[S]
    around: Surroundings
    in_doubt: bool = False  # something was published, and it is not known that it failed
    _tried: dict[str, S] = field(default_factory=dict)  # by manifest list, in order

    def run(self) -> Landed[S]:
        """Try until the snapshot lands, a conflict is final or the retries are used up."""
        waits = commit_retry.commit_retry(self.table.metadata.properties).waits(self.around.random, self.around.clock)
        for attempt in itertools.count(1):
            if landed := self._reload():
                return Landed(staged=landed, attempts=attempt - 1)
            staged = self.operation.stage(self.table, self.around.clock())
            self._tried[staged.snapshot.manifest_list] = staged
            try:
                self._publish(staged.snapshot)
            except errors.ConflictError as conflict:
                _log.info("Commit attempt %d did not land: %s", attempt, conflict)
                wait = next(waits, None)
                if wait is not None:
                    self.around.sleep(wait)
                elif landed := self._reload():
                    return Landed(staged=landed, attempts=attempt)
                else:
                    raise
            else:
                return Landed(staged=staged, attempts=attempt)
        raise AssertionError("unreachable")

    def _reload(self) -> S | None:
        """Load the table anew, and with it the credentials that some catalogs give. A race may be lost against
        ourselves, when a proxy has sent our commit twice: then what landed is returned."""
        try:
            self.table = publish.reload(self.table)
        except errors.CompactionError as error:
            if not self.in_doubt:
                raise
            raise errors.StateUnknownError(
                f"The catalog refused snapshot {self.operation.snapshot_id}; whether it had taken it before, and was "
                f"asked twice, could not be looked up, so nothing was deleted: {error}"
            ) from error
        if not _has_landed(self.table.metadata, self.operation.snapshot_id):
            self.in_doubt = False
            return None
        self.in_doubt = True  # whatever goes wrong from now on, the files are the table's
        snapshot = self.table.metadata.snapshot_by_id(self.operation.snapshot_id)
        return next(reversed(self._tried.values())) if snapshot is None else self._tried[snapshot.manifest_list]

    def _publish(self, snapshot: Snapshot) -> None:
        """The compare-and-set. Raises ConflictError when the snapshot surely did not land and may be tried again."""
        requirements, updates = _changes(self.table.metadata, self.operation.branch, snapshot)
        self.in_doubt = True
        try:
            publish.publish(self.table, requirements, updates)
        except errors.StateUnknownError as error:
            self._settle(snapshot, error, again=lambda table: publish.publish(table, requirements, updates))
        except errors.ConflictError:
            raise  # the next look at the table tells whether it landed all the same
        except errors.CommitError:
            self.in_doubt = False
            raise
        except KeyboardInterrupt as stopped:
            try:
                self._settle(snapshot, stopped)
            except errors.ConflictError:
                raise stopped from None  # nothing landed, and nobody wants it to

    def _settle(self, snapshot: Snapshot, error: BaseException, again: Callable[[Table], None] | None = None) -> None:
        """Find out whether the snapshot landed after all. That it is absent proves nothing, for a slow server may yet
        add it (R14), and it may have landed and expired since. `again` sends the very same commit once more: since it
        holds on to the parent, at most one of them lands, and whichever does is ours. That is done as long as nothing
        at all has become of the table; and a refusal settles nothing, only the table does."""
        waits = commit_retry.status_check(self.table.metadata.properties).waits(self.around.random, self.around.clock)
        for look in itertools.count():
            table = self._look()
            if table is not None and self._is_settled(table.metadata, snapshot, error):
                return
            if (wait := next(waits, None)) is None:
                break
            untouched = table is not None and table.metadata_location == self.table.metadata_location
            if look and untouched and again is not None and _took(again, self.table):
                return
            self.around.sleep(wait)
        raise errors.StateUnknownError(
            f"The catalog did not say whether snapshot {snapshot.snapshot_id} landed, and it has not appeared; nothing "
            "was deleted. Look for it in the table's history: if it stays absent, its files are orphans."
        ) from error

    def _look(self) -> Table | None:
        """The table as it is now; None: nobody knows."""
        try:
            return publish.reload(self.table)
        except errors.CompactionError as failure:
            _log.warning("The state of the commit could not be looked up: %s", failure)
            return None

    def _is_settled(self, metadata: TableMetadata, snapshot: Snapshot, error: BaseException) -> bool:
        """Whether the snapshot is in the table. Raises ConflictError if it surely never will be."""
        if _has_landed(metadata, snapshot.snapshot_id):
            return True
        if _is_beaten(metadata, self.operation.branch, snapshot):
            self.in_doubt = False
            raise errors.ConflictError("Another commit landed instead of ours.") from error
        return False


def _took(again: Callable[[Table], None], table: Table) -> bool:
    """Whether the catalog says that it has the commit now."""
    try:
        again(table)
    except errors.CompactionError as failure:
        _log.info("The commit was sent once more, and not taken: %s", failure)
        return False
    return True


def _has_landed(metadata: TableMetadata, snapshot_id: int) -> bool:
    """Whether the snapshot is in the table, or was when another was committed on top of it."""
    return any(snapshot_id in (one.snapshot_id, one.parent_snapshot_id) for one in metadata.snapshots)


def _is_beaten(metadata: TableMetadata, branch: str, snapshot: Snapshot) -> bool:
    """Whether others committed in the place of a snapshot that is not in the table, so that it can land no more: the
    branch has gone on from its parent, or its sequence number is taken. A head that does not descend from the parent
    proves nothing: the answer may be out of date, or the snapshot may be in the history that has expired."""
    head, parent = metadata.snapshot_by_name(branch), snapshot.parent_snapshot_id
    if head is None or parent is None or not validate_replace.descends(metadata, head, parent):
        return False
    return head.snapshot_id != parent or metadata.next_sequence_number() > (snapshot.sequence_number or 0)


def _changes(
    metadata: TableMetadata, branch: str, snapshot: Snapshot
) -> tuple[tuple[TableRequirement, ...], tuple[TableUpdate, ...]]:
    """Add the snapshot and move the branch to it, if the branch has not moved; its retention settings stay. A partition
    spec that new files have cannot be removed while it is the default one."""
    ref = metadata.refs[branch]
    requirements = (
        AssertTableUUID(uuid=metadata.table_uuid),
        AssertDefaultSpecId(default_spec_id=metadata.default_spec_id),
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
