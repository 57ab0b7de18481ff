"""One spine for every change of a table. Each attempt loads the table again, has the change validate and stage itself,
and publishes it, up to the attempt that lands. Files that do not become part of the table are removed, unless nobody
knows whether they did."""

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
from iceberg_compaction.storage import redact, remove, translate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableRequirement, TableUpdate

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed(Generic[S]):
    """The attempt that became part of the table, and how many it took."""

    staged: S
    attempts: int


def commit(table: Table, change: Change[S], run: Committer) -> Committed[S]:
    """Commit the change. Raises ConflictError if others changed what it depends on or kept winning,
    StateUnknownError if the catalog did not say. Any other CompactionError, for defects of our own too, means that
    nothing was published. In all cases but StateUnknownError, no file of `written` is left that the table does not
    use. A cancel takes effect between two attempts, and waits while one is published."""
    attempts = _Attempts(table=table, change=change, run=run)
    try:
        with naming_defects(table, attempts):
            committed = attempts.make()
    except BaseException as error:
        if not attempts.in_doubt:
            run.left_behind(remove.remove_files(attempts.table.io, change.written, remove.Proof.NOT_COMMITTED))
        elif isinstance(error, errors.CompactionError) and not isinstance(error, errors.StateUnknownError):
            # Any other error of ours would mean that nothing was published.
            raise errors.StateUnknownError(
                f"The commit of {change.label} was sent to the catalog. Whether it landed could not be found out, so "
                f"nothing was deleted: {error}"
            ) from error
        raise
    _tidy_up(attempts.table, change, committed.staged, run)
    return committed


def _tidy_up(table: Table, change: Change[S], staged: S, run: Committer) -> None:
    try:
        run.committed(None if staged.snapshot is None else staged.snapshot.snapshot_id)
        unused = [path for path in change.written if path not in staged.files]
        run.left_behind(remove.remove_files(table.io, unused, remove.Proof.NOT_COMMITTED))
    except Exception as error:  # noqa: BLE001 - the change has landed, whatever this is
        _log.warning("The commit of %s landed, but not all was tidied up: %s", change.label, type(error).__name__)


@contextmanager
def naming_defects(table: Table, attempts: _Attempts[S] | None = None) -> Iterator[None]:
    """Turn any exception of our own code before anything is published into an error that says so. A state in doubt
    passes as it is."""
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
class _Witness:
    """The run, as the catalog's door sees it while one change is published."""

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


class _Publication(NamedTuple):
    """The arguments of one compare-and-set, complete before it may be sent."""

    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]
    witness: _Witness

    def send(self, table: Table) -> None:
        publish.publish(table, *self)


@dataclass(slots=True, kw_only=True)
class _Attempts(Generic[S]):
    table: Table  # as last loaded
    change: Change[S]
    run: Committer
    in_doubt: bool = False  # something was published, and it is not known that it failed
    _tried: list[S] = field(default_factory=list)

    def make(self) -> Committed[S]:
        """Try until the change lands, a conflict is final or the retries are used up."""
        waits = commit_retry.commit_retry(self.table.metadata.properties).waits(self.run.chance, self.run.clock)
        for attempt in itertools.count(1):
            if landed := self._reload():
                return Committed(staged=landed, attempts=attempt - 1)
            self.run.cancel.check()
            staged = self.change.stage(self.table, self.run.clock())
            self._tried.append(staged)
            try:
                with self.run.cancel.shield():
                    self._publish(staged)
            except errors.ConflictError as conflict:
                _log.info("Commit attempt %d did not land: %s", attempt, conflict)
                wait = next(waits, None)
                if wait is not None:
                    self.run.pause(wait)
                elif landed := self._reload():
                    return Committed(staged=landed, attempts=attempt)
                else:
                    raise
            else:
                return Committed(staged=staged, attempts=attempt)
        raise AssertionError("unreachable")

    def _reload(self) -> S | None:
        """Load the table again, and with it the credentials that some catalogs give. A race may be lost against
        ourselves, when a proxy has sent our commit twice: then the attempt that landed is returned."""
        try:
            self.table = publish.reload(self.table)
        except errors.CompactionError as error:
            if not self.in_doubt:
                raise
            raise errors.StateUnknownError(
                f"The catalog refused {self.change.label}; whether it had taken it before, and was asked twice, could "
                f"not be looked up, so nothing was deleted: {error}"
            ) from error
        landed = self._landed(self.table.metadata)
        self.in_doubt = landed is not None  # once it has landed, the files are the table's whatever goes wrong
        return landed

    def _landed(self, metadata: TableMetadata) -> S | None:
        """The attempt that is in the table; the last one where nothing tells them apart any more."""
        if not self._tried or not self._tried[-1].landed(metadata):
            return None
        return next((staged for staged in self._tried if staged.is_exactly(metadata)), self._tried[-1])

    def _publish(self, staged: S) -> None:
        """The compare-and-set. Raises ConflictError when the change surely did not land and may be tried again."""
        publication = _Publication(
            staged.requirements, staged.updates, _Witness(run=self.run, snapshot=staged.snapshot)
        )
        self.in_doubt = True
        try:
            publication.send(self.table)
        except errors.StateUnknownError as error:
            self._find_out(staged, error, again=publication)
        except errors.ConflictError:
            raise  # the next look at the table tells whether it landed all the same
        except errors.CommitError:
            self.in_doubt = False
            raise
        except KeyboardInterrupt as stopped:
            try:
                self._find_out(staged, stopped)
            except errors.ConflictError:
                raise stopped from None  # nothing landed, and nobody wants it to

    def _find_out(self, staged: S, error: BaseException, again: _Publication | None = None) -> None:
        """Find out whether the change landed after all. That it is absent proves nothing, for a slow server may yet
        add it (R14), and it may have landed and expired since. To send the very same commit once more is safe: since
        it holds on to the parent, at most one of them lands, and whichever does is ours. That is done as long as
        nothing at all has become of the table; and a refusal settles nothing, only the table does."""
        waits = commit_retry.status_check(self.table.metadata.properties).waits(self.run.chance, self.run.clock)
        for look in itertools.count():
            table = self._look()
            if table is not None and self._is_in(table.metadata, staged, error):
                return
            if (wait := next(waits, None)) is None:
                break
            untouched = table is not None and table.metadata_location == self.table.metadata_location
            if look and untouched and again is not None and self._is_taken(again):
                return
            self.run.pause(wait)
        raise errors.StateUnknownError(
            f"The catalog did not say whether {self.change.label} landed, and it has not appeared; nothing was "
            "deleted. Look for it in the table's history: if it stays absent, its files are orphans."
        ) from error

    def _look(self) -> Table | None:
        """The table as it is now; None: the catalog did not answer."""
        try:
            return publish.reload(self.table)
        except errors.CompactionError as failure:
            _log.warning("The state of the commit could not be looked up: %s", failure)
            return None

    def _is_in(self, metadata: TableMetadata, staged: S, error: BaseException) -> bool:
        """Whether the change is in the table. Raises ConflictError if it surely never will be."""
        if self._landed(metadata) is not None:
            return True
        if staged.beaten(metadata):
            self.in_doubt = False
            raise errors.ConflictError("Another commit landed instead of ours.") from error
        return False

    def _is_taken(self, publication: _Publication) -> bool:
        """Whether the catalog says that it has the commit now that it is sent once more."""
        try:
            publication.send(self.table)
        except errors.CompactionError as failure:
            _log.info("The commit was sent once more, and not taken: %s", failure)
            return False
        return True
