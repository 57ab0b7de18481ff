"""The one place where a table changes: the catalog's compare-and-set. Requirements and updates go in; out comes
nothing, or a CommitError that says whether the commit surely did not land. Files may be deleted on that word alone, so
whatever is not known to have failed counts as unknown."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from iceberg_compaction import errors
from iceberg_compaction.catalog import load_tables, metadata_log, staged_metadata
from iceberg_compaction.model import table_names
from iceberg_compaction.storage import redact, remove, translate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import StagedTable, Table
    from pyiceberg.table.update import TableRequirement, TableUpdate

_log = logging.getLogger(__name__)

# What PyIceberg and Iceberg Java say of a snapshot whose sequence number another branch has taken meanwhile.
_OUTRUN = "older than last sequence number"
# PostgreSQL rolled the transaction back: serialization failure, deadlock.
_ROLLED_BACK = frozenset({"40001", "40P01"})


class Witness(Protocol):
    """The run behind a change, as far as publishing concerns it."""

    @property
    def run_id(self) -> str:
        """Goes into the name of a table metadata file that is written here."""
        ...

    def publishing(self, metadata: str | None) -> None:
        """The change is about to be published; with this table metadata file, once it is written here. Raises
        CommitError if it must not be."""
        ...

    def left_behind(self, paths: Sequence[str]) -> None:
        """These files were not removed, though they should be or may have to be."""
        ...


def publish(
    table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...], witness: Witness
) -> None:
    """Commit updates if the requirements hold. Raises ConflictError (surely not landed, try again on fresh metadata),
    CommitError (surely not landed, trying again will not help) or StateUnknownError (may have landed)."""
    secrets = redact.secrets_of(table.catalog.properties)
    publication = _Publication(table=table, witness=witness)
    try:
        catalog = staged_metadata.naming(table.catalog, witness.run_id, publication)
        witness.publishing(None)
    except errors.CompactionError:
        raise
    except Exception as error:  # noqa: BLE001 - nothing was sent yet, whatever it is
        raise translate.defect(error, table_names.text(table.name()), secrets) from translate.safe_cause(error, secrets)
    try:
        catalog.commit_table(table, requirements, updates)
    except errors.CommitError:  # our own error: the file is there, and nobody was asked to take it
        publication.remove()
        raise
    except Exception as error:  # noqa: BLE001 - an error of any kind leaves the state unknown
        begun = catalog is table.catalog or bool(publication.written)
        reason = translate.sentence_of(error, secrets)
        verdict = _verdict(error, table, reason, begun=begun, stored=publication.stored)
        publication.clean_up(verdict)
        raise verdict from translate.safe_cause(error, secrets)
    publication.remove_expired()


@dataclass(slots=True, kw_only=True)
class _Publication:
    """The table metadata files that the client writes for one change, where a catalog leaves that to it."""

    table: Table
    witness: Witness
    stored: bool = False  # the last one is surely in storage, so that the catalog may have been asked to take it
    _staged: list[tuple[Table | None, StagedTable]] = field(default_factory=list)  # each with what it is built on

    @property
    def written(self) -> list[str]:
        return [staged.metadata_location for _, staged in self._staged]

    def on_staged(self, base: Table | None, staged: StagedTable) -> None:
        """A file is about to be written."""
        self._staged.append((base, staged))

    def on_stored(self) -> None:
        """The file is there, and nobody was asked to take it. The run confirms again: whoever takes it for dead from
        now on finds the file (R49)."""
        self.stored = True
        self.witness.publishing(self.written[-1])

    def remove(self) -> None:
        """Remove what nobody was asked to take."""
        self.witness.left_behind(remove.remove_files(self.table.io, self.written, remove.RemovalProof.NEVER_SENT))

    def clean_up(self, verdict: errors.CommitError) -> None:
        """Remove files that did not become the table's; PyIceberg leaves them behind. The word of the catalog is not
        enough: a client library that sends a request twice is told of a conflict with itself."""
        if not self.written:
            return
        if isinstance(verdict, errors.StateUnknownError):
            self.witness.left_behind(self.written)
            return
        try:
            current = reload(self.table)
        except Exception as error:  # noqa: BLE001 - it must not hide why the commit failed
            _log.warning("The metadata file %s may be left over: %s", self.written[0], type(error).__name__)
            self.witness.left_behind(self.written)
            return
        if current.metadata_location == self.table.metadata_location:
            self.witness.left_behind(self.written)  # nothing has landed yet, or the answer is out of date
            return
        used = {current.metadata_location, *(entry.metadata_file for entry in current.metadata.metadata_log)}
        unused = [path for path in self.written if path not in used]
        self.witness.left_behind(remove.remove_files(self.table.io, unused, remove.RemovalProof.NOT_COMMITTED))

    def remove_expired(self) -> None:
        """Remove the files that left the metadata log with this change."""
        for base, staged in self._staged:
            metadata_log.remove_expired(self.table, base, staged)


def reload(table: Table) -> Table:
    """The table as the catalog has it now. ConflictError: another one has its name by now, and what that knows says
    nothing about this one (R50)."""
    name = table_names.text(table.name())
    now = load_tables.load_table(table.catalog, name)
    if now.metadata.table_uuid != table.metadata.table_uuid:
        raise errors.ConflictError(f"The table {name} was dropped and created anew, or another was put in its place.")
    return now


def _verdict(error: Exception, table: Table, said: str, *, begun: bool, stored: bool) -> errors.CommitError:
    """`begun`: the client may have come as far as to make the new metadata; `stored`: it surely has written it, so that
    the catalog may have been asked to take it."""
    from pyiceberg import exceptions

    from iceberg_compaction.catalog import rest

    name = table_names.text(table.name())
    if isinstance(error, errors.UnsupportedError):  # our own word, said before anything was written
        return errors.CommitError(f"The commit to {name} could not be made: {error}")
    if isinstance(error, exceptions.CommitFailedException):
        return errors.ConflictError(f"{name} was changed by somebody else: {said}.")
    if isinstance(error, exceptions.TooManyRequestsError):
        return errors.ConflictError(f"The catalog is too busy to commit to {name}: {said}.")
    if _OUTRUN in said:
        return errors.ConflictError(f"A commit to another branch of {name} was faster: {said}.")
    if isinstance(error, ValueError) and not begun:  # the table is no longer what the snapshot was made for
        return errors.ConflictError(f"The commit to {name} could not be made: {said}.")
    if _refused(translate.http_status(error)):
        return errors.CommitError(f"The catalog refused the commit to {name}: {said}; the table is unchanged.")
    if rest.never_connected(error):
        return errors.CommitError(f"The catalog could not be reached for the commit to {name}: {said}.")
    if isinstance(error, OSError) and stored:  # a driver's: whatever it says, storage has done its part
        return _unknown(name, said)
    return _sql_verdict(error, table, name, said) or _unknown(name, said)


def _unknown(name: str, said: str) -> errors.StateUnknownError:
    return errors.StateUnknownError(
        f"The catalog did not say whether the commit to {name} landed ({said}); nothing was deleted, look at the table."
    )


def _refused(status: int | None) -> bool:
    """Whether the server looked at the request and said no. 408 is a timeout, 429 comes before."""
    return status is not None and 400 <= status < 500 and status != 408


def _sql_verdict(error: Exception, table: Table, name: str, said: str) -> errors.CommitError | None:
    """A SQL catalog writes the metadata file, then swaps one row in one transaction."""
    from pyiceberg.catalog.sql import SqlCatalog
    from sqlalchemy.exc import DBAPIError

    if not isinstance(table.catalog, SqlCatalog):
        return None
    if isinstance(error, DBAPIError):
        # A busy SQLite refuses the lock before it writes; the session then rolls back.
        if "database is locked" in said or getattr(error.orig, "sqlstate", None) in _ROLLED_BACK:
            return errors.ConflictError(
                f"Another process held the catalog database's lock; the commit to {name} was not made."
            )
        if getattr(error.orig, "pgcode", None) in _ROLLED_BACK:
            return errors.ConflictError(f"The catalog's database rolled back the commit to {name}: {said}.")
        if "readonly database" in said:
            return errors.CommitError(f"The catalog's database is read-only; {name} is unchanged.")
        return None
    if isinstance(error, OSError) and not _is_network(error):
        return errors.CommitError(f"The new metadata of {name} could not be written: {said}; the table is unchanged.")
    return None


def _is_network(error: OSError) -> bool:
    """Errors that a database driver, too, could raise; a file store's are plain."""
    return isinstance(error, ConnectionError | TimeoutError) or not type(error).__module__.startswith("builtins")
