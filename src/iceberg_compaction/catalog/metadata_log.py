"""Table metadata files that a commit of ours moved out of the metadata log (R54). A table may ask to have them removed
(`write.metadata.delete-after-commit.enabled`); servers do that themselves, but where clients write table metadata it is
the duty of whoever commits. What is in doubt stays: these files are small, and one may be all that another entry of a
catalog has."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from iceberg_compaction.storage import file_names, remove

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import StagedTable, Table

ENABLED = "write.metadata.delete-after-commit.enabled"
GC = "gc.enabled"  # Iceberg's own word for a table that shares files with another one
_ASKED_AT_ONCE = 500  # SQLite takes no more than a thousand terms
_log = logging.getLogger(__name__)


def remove_expired(table: Table, base: Table | None, published: StagedTable) -> None:
    """Remove what left the log with a commit that has landed: `base` is what it was built on. Failures are warnings."""
    try:
        expired = _expired(base, published)
        if doomed := sorted(expired - _in_use(table.catalog, expired)):
            remove.remove_files(table.io, doomed, remove.RemovalProof.LEFT_LOG)
    except Exception as error:  # noqa: BLE001 - the commit has landed, whatever this is
        _log.warning("Metadata files that left the log were not removed: %s", type(error).__name__)


def _expired(base: Table | None, published: StagedTable) -> set[str]:
    """The files that the table asks to remove, and that surely are its own: in the folder where it has its metadata."""
    from pyiceberg.table import locations

    properties = published.metadata.properties
    if base is None or not _is(properties.get(ENABLED), "true") or _is(properties.get(GC), "false"):
        return set()
    kept = {entry.metadata_file for entry in published.metadata.metadata_log}
    kept |= {base.metadata_location, published.metadata_location}
    folder = locations.load_location_provider(published.metadata.location, properties).metadata_path
    return {
        entry.metadata_file
        for entry in base.metadata.metadata_log
        if entry.metadata_file not in kept and entry.metadata_file.rpartition("/")[0] == folder
    }


def _is(text: str | None, wanted: str) -> bool:
    return text is not None and text.strip().lower() == wanted


def _in_use(catalog: Catalog, paths: set[str]) -> set[str]:
    """Those that are the current metadata of another entry of the catalog, as a table has that was registered twice.
    Only a database can be asked at once for all its entries."""
    from pyiceberg.catalog import sql
    from sqlalchemy import or_, orm, select

    if not paths or not isinstance(catalog, sql.SqlCatalog):
        return set()
    column = sql.IcebergTables.metadata_location
    names = {file_names.base_name(path): path for path in paths}  # another entry may write it with another scheme
    waiting, present = list(names), set[str]()
    with orm.Session(catalog.engine) as session:
        while waiting:
            batch, waiting = waiting[:_ASKED_AT_ONCE], waiting[_ASKED_AT_ONCE:]
            like = or_(*(column.endswith(name, autoescape=True) for name in batch))
            present |= {file_names.base_name(text) for text in session.scalars(select(column).where(like)) if text}
    return {path for name, path in names.items() if name in present}
