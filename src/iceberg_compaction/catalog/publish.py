"""The one place where a table changes: the catalog's compare-and-set. Requirements and updates go in; out comes
nothing, or a CommitError that says whether the commit surely did not land. Files may be deleted on that word alone, so
whatever is not known to have failed counts as unknown."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.catalog import load_tables, metadata_log, run_names, run_watch
from iceberg_compaction.model import table_names
from iceberg_compaction.storage import redact, translate

if TYPE_CHECKING:
    from pyiceberg.table import StagedTable, Table
    from pyiceberg.table.update import TableRequirement, TableUpdate

_log = logging.getLogger(__name__)

# What PyIceberg and Iceberg Java say of a snapshot whose sequence number another branch has taken meanwhile.
_OUTRUN = "older than last sequence number"
# PostgreSQL rolled the transaction back: serialization failure, deadlock.
_ROLLED_BACK = frozenset({"40001", "40P01"})


def publish(table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]) -> None:
    """Commit updates if the requirements hold. Raises ConflictError (surely not landed, try again on fresh metadata),
    CommitError (surely not landed, trying again will not help) or StateUnknownError (may have landed)."""
    secrets = redact.secrets_of(table.catalog.properties)
    made: list[tuple[Table | None, StagedTable]] = []  # on what, and what
    stored: list[str] = []

    def confirm() -> None:
        """Said again after the file is there: whoever takes the run for dead from now on finds it (R49)."""
        stored.append(made[-1][1].metadata_location)
        run_watch.tell_publishing(updates, stored[-1])

    try:
        catalog = run_names.naming(
            table.catalog,
            run_names.run_of(updates),
            lambda base, staged: made.append((base, staged)),
            confirm,
        )
        run_watch.tell_publishing(updates)
    except errors.CompactionError:
        raise
    except Exception as error:  # noqa: BLE001 - nothing was sent yet, whatever it is
        raise translate.defect(error, table_names.text(table.name()), secrets) from translate.safe_cause(error, secrets)
    try:
        catalog.commit_table(table, requirements, updates)
    except errors.CommitError:  # our own word: the file is there, and nobody was asked to take it
        for _, staged in made:
            _remove_unused(table, staged.metadata_location)
        raise
    except Exception as error:  # noqa: BLE001 - an error of any kind leaves the state unknown
        written = [staged.metadata_location for _, staged in made]
        begun = catalog is table.catalog or bool(written)
        translated = _verdict(error, table, translate.sentence_of(error, secrets), begun=begun, stored=bool(stored))
        if isinstance(translated, errors.StateUnknownError):
            for path in written:
                run_watch.tell_left(path)
        else:
            _remove(table, written)
        raise translated from translate.safe_cause(error, secrets)
    for base, staged in made:
        metadata_log.remove_expired(table, base, staged)


def reload(table: Table) -> Table:
    """The table as the catalog has it now. ConflictError: another one has its name by now, and what that knows says
    nothing about this one (R50)."""
    name = table_names.text(table.name())
    now = load_tables.load_table(table.catalog, name)
    if now.metadata.table_uuid != table.metadata.table_uuid:
        raise errors.ConflictError(f"The table {name} was dropped and created anew, or another was put in its place.")
    return now


def _remove_unused(table: Table, path: str) -> None:
    try:
        table.io.delete(path)
    except Exception as error:  # noqa: BLE001 - it must not hide why nothing was committed
        _log.warning("The metadata file %s may be left over: %s", path, type(error).__name__)
        run_watch.tell_left(path)


def _remove(table: Table, written: list[str]) -> None:
    """Remove table metadata that did not become the table's; PyIceberg leaves it behind. The word of the catalog is not
    enough here: a client library that sends a request twice is told of a conflict with itself."""
    if not written:
        return
    try:
        current = reload(table)
        used = {current.metadata_location, *(entry.metadata_file for entry in current.metadata.metadata_log)}
        for path in written:
            if current.metadata_location == table.metadata_location:
                run_watch.tell_left(path)  # nothing has landed yet, or the answer is out of date
            elif path not in used:
                table.io.delete(path)
    except FileNotFoundError:
        return  # the commit was refused before it was written
    except Exception as error:  # noqa: BLE001 - it must not hide why the commit failed
        _log.warning("The metadata file %s may be left over: %s", written[0], type(error).__name__)
        run_watch.tell_left(written[0])


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
            return errors.ConflictError(f"The catalog's database was busy with another commit than that to {name}.")
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
