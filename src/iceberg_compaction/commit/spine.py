"""One spine for every change of a table. Each attempt loads the table again, lets the change validate and stage itself,
and publishes it, up to the attempt that is committed. Files that surely did not become part of the table are
removed."""

from __future__ import annotations

import itertools
import logging
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, NamedTuple

from iceberg_compaction import errors
from iceberg_compaction.catalog import publish
from iceberg_compaction.commit import commit_retry
from iceberg_compaction.commit.change import Change, Committer, S
from iceberg_compaction.model import table_names
from iceberg_compaction.model.run_record import Announcement
from iceberg_compaction.observe.tracing import spans
from iceberg_compaction.storage import redact, remove, translate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableRequirement, TableUpdate

_CANCELLED = "Cancelled; commits before that stay."
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedChange(Generic[S]):
    """The attempt that became part of the table, and how many it took."""

    staged: S
    attempts: int


@spans.of_commit()
def commit(table: Table, change: Change[S], run: Committer) -> CommittedChange[S]:
    """Commit the change. Raises ConflictError if others changed files that it depends on or won every race,
    StateUnknownError if the catalog did not say whether it landed. Any other CompactionError, also for a defect of our
    own, means that nothing was published. In all cases but StateUnknownError, no file of `written` is left that the
    table does not use. A cancel takes effect between two attempts, and waits while one is published."""
    attempts = _Attempts(table=table, change=change, run=run)
    try:
        with naming_defects(table, attempts):
            committed = attempts.make()
    except BaseException as error:
        if not attempts.in_doubt:
            run.left_behind(remove.remove_files(attempts.table.io, change.written, remove.RemovalProof.NOT_COMMITTED))
        elif isinstance(error, errors.CompactionError) and not isinstance(error, errors.StateUnknownError):
            # Any other error of ours would mean that nothing was published.
            raise errors.StateUnknownError(
                f"The commit of {change.label} was sent to the catalog, and it is unknown whether it landed, so "
                f"nothing was deleted: {error}"
            ) from error
        raise
    with run.cancel.shield():  # nobody would hear of the commit otherwise
        _tidy_up(attempts.table, change, committed.staged, run)
    return committed


def _tidy_up(table: Table, change: Change[S], staged: S, run: Committer) -> None:
    try:
        run.committed(None if staged.snapshot is None else staged.snapshot.snapshot_id)
        unused = [path for path in change.written if path not in staged.files]
        run.left_behind(remove.remove_files(table.io, unused, remove.RemovalProof.NOT_COMMITTED))
    except Exception as error:  # noqa: BLE001 - the change is committed, whatever this is
        _log.warning("The commit of %s landed, but the work after it failed: %s", change.label, type(error).__name__)
    except KeyboardInterrupt:  # the caller enters the commit first, and stops at the next check
        run.cancel.cancel(_CANCELLED)


@contextmanager
def naming_defects(table: Table, attempts: _Attempts[S] | None = None) -> Iterator[None]:
    """Turn an exception of our own code before anything is published into an error that says so. An exception while a
    commit is in doubt passes as it is."""
    try:
        yield
    except errors.CompactionError:
        raise
    except Exception as error:
        if attempts is not None and attempts.in_doubt:
            raise
        secrets = redact.secrets_of(table.catalog.properties)
        raise translate.unpublished(error, table_names.text(table.name()), secrets) from translate.safe_cause(
            error, secrets
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunWitness:
    """The run, as `catalog.publish` sees it while one change is published."""

    run: Committer
    snapshot: Snapshot | None

    @property
    def run_id(self) -> str:
        return self.run.run_id

    def publishing(self, metadata: str | None) -> None:
        snapshot = self.snapshot
        if snapshot is None:
            self.run.publishing(Announcement(metadata=metadata))
            return
        self.run.publishing(
            Announcement(
                snapshot_id=snapshot.snapshot_id,
                parent_snapshot_id=snapshot.parent_snapshot_id,
                sequence_number=snapshot.sequence_number,
                metadata=metadata,
            )
        )

    def left_behind(self, paths: Sequence[str]) -> None:
        self.run.left_behind(paths)


class _CompareAndSet(NamedTuple):
    """The arguments of one compare-and-set, complete before it may be sent."""

    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]
    witness: _RunWitness

    def send(self, table: Table) -> None:
        publish.publish(table, *self)


@dataclass(slots=True, kw_only=True)
class _Attempts(Generic[S]):
    table: Table  # as last loaded
    change: Change[S]
    run: Committer
    in_doubt: bool = False  # something was published, and did not surely fail
    _staged: list[S] = field(default_factory=list)

    def make(self) -> CommittedChange[S]:
        """Try until the change is committed, a conflict is final or the retries are used up."""
        waits = commit_retry.commit_retry(self.table.metadata.properties).waits(self.run.chance, self.run.clock)
        for attempt in itertools.count(1):
            if landed := self._reload():
                return CommittedChange(staged=landed, attempts=attempt - 1)
            self.run.cancel.check()
            staged = self.change.stage(self.table, self.run.clock())
            self._staged.append(staged)
            try:
                with self.run.cancel.shield():
                    landed = self._publish(staged)
            except errors.ConflictError as conflict:
                _log.info("Commit attempt %d did not land: %s", attempt, conflict)
                wait = next(waits, None)
                if wait is not None:
                    self.run.pause(wait)
                elif landed := self._reload():
                    return CommittedChange(staged=landed, attempts=attempt)
                else:
                    raise
            else:
                return CommittedChange(staged=landed, attempts=attempt)
        raise AssertionError("unreachable")

    def _reload(self) -> S | None:
        """Load the table again, with fresh credentials where the catalog vends them. A race may be lost against
        ourselves, when a proxy has sent our commit twice: then the attempt that landed is returned."""
        try:
            self.table = publish.reload(self.table)
        except errors.CompactionError as error:
            if not self.in_doubt:
                raise
            raise errors.StateUnknownError(
                f"The catalog refused {self.change.label}, but may have committed an earlier copy of the same request; "
                f"that could not be checked, so nothing was deleted: {error}"
            ) from error
        landed = self._landed(self.table.metadata)
        self.in_doubt = landed is not None  # its files are the table's once it landed, whatever fails later
        return landed

    def _landed(self, metadata: TableMetadata) -> S | None:
        """The attempt that is in the table. All attempts add the same snapshot id, and each needs files of its own, so
        files may be removed only if it is known which attempt it was."""
        if not self._staged or not self._staged[-1].landed(metadata):
            return None
        exact = next((staged for staged in self._staged if staged.is_exactly(metadata)), None)
        if exact is None and len(self._staged) > 1:
            self.in_doubt = True
            raise errors.StateUnknownError(
                f"One of {len(self._staged)} attempts to commit {self.change.label} landed and has expired since; "
                "which one is unknown, so nothing was deleted."
            )
        return exact or self._staged[-1]

    def _publish(self, staged: S) -> S:
        """Do the compare-and-set, and return the attempt that landed: an earlier one may have been under way still.
        Raises ConflictError if the change surely did not land and may be tried again."""
        request = _CompareAndSet(
            staged.requirements, staged.updates, _RunWitness(run=self.run, snapshot=staged.snapshot)
        )
        self.in_doubt = True
        try:
            request.send(self.table)
        except errors.StateUnknownError as error:
            return self._check_landed(staged, error, again=request)
        except errors.ConflictError:
            raise  # the next load of the table shows whether it landed all the same
        except errors.CommitError:
            self.in_doubt = False
            raise
        except KeyboardInterrupt as stopped:
            self.run.cancel.cancel(_CANCELLED)
            try:
                return self._check_landed(staged, stopped)
            except errors.ConflictError:
                raise stopped from None  # nothing landed, and nobody wants it to
        return staged

    def _check_landed(self, staged: S, error: BaseException, again: _CompareAndSet | None = None) -> S:
        """Return the attempt that landed after all. Its absence proves nothing: a slow server may add it later (R14),
        or it landed and has expired since. Sending the same commit once more is safe: both require the same parent, so
        at most one of them lands, and either is ours. It is sent again only while the table has not changed at all. A
        refusal proves nothing; only the table's metadata does."""
        waits = commit_retry.status_check(self.table.metadata.properties).waits(self.run.chance, self.run.clock)
        for check in itertools.count():
            table = self._load_current()
            if table is not None and (landed := self._in_table(table.metadata, staged, error)) is not None:
                return landed
            if (wait := next(waits, None)) is None:
                break
            untouched = table is not None and table.metadata_location == self.table.metadata_location
            if check and untouched and again is not None and self._send_again(again):
                return staged
            self.run.pause(wait)
        raise errors.StateUnknownError(
            f"The catalog did not say whether {self.change.label} landed, and it has not appeared, so nothing was "
            "deleted. Look for it in the table's history: if it stays absent, its files are orphans."
        ) from error

    def _load_current(self) -> Table | None:
        """Load the table as it is now. None: the catalog did not answer."""
        try:
            return publish.reload(self.table)
        except errors.CompactionError as failure:
            _log.warning("The state of the commit could not be looked up: %s", failure)
            return None

    def _in_table(self, metadata: TableMetadata, staged: S, error: BaseException) -> S | None:
        """The attempt that is in the table. Raises ConflictError if the change surely never will be."""
        landed = self._landed(metadata)
        if landed is None and staged.beaten(metadata):
            self.in_doubt = False
            raise errors.ConflictError("Another commit landed instead of ours.") from error
        return landed

    def _send_again(self, request: _CompareAndSet) -> bool:
        """Send the same commit once more. Returns whether the catalog confirms it."""
        try:
            request.send(self.table)
        except errors.CompactionError as failure:
            _log.info("The commit was sent once more and refused: %s", failure)
            return False
        return True
