"""Which tables have changed, as cheaply as a catalog can say it: a database names the metadata of all tables in one
query, and a REST catalog with ETags answers in a few bytes that a table is as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.catalog import load_tables
from iceberg_compaction.catalog.changes import conditional_load
from iceberg_compaction.model import table_names
from iceberg_compaction.storage import translate

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


def pointers(catalog: Catalog) -> dict[str, str] | None:
    """Where the metadata of every table is; None: the catalog does not say that in one answer."""
    if all(kind.__name__ != "SqlCatalog" for kind in type(catalog).__mro__):
        return None
    from pyiceberg.catalog import sql
    from sqlalchemy import select

    assert isinstance(catalog, sql.SqlCatalog)
    entries = sql.IcebergTables
    query = select(entries.table_namespace, entries.table_name, entries.metadata_location).where(
        entries.catalog_name == catalog.name
    )
    with translate.catalog_border(catalog), catalog.engine.connect() as connection:
        rows = connection.execute(query).all()
    return {table_names.text((*space.split("."), name)): location for space, name, location in rows if location}


def load_unless(catalog: Catalog, name: str, etag: str) -> tuple[Table | None, str]:
    """The table, and its ETag if the catalog has such. None: it is as it was when it had this ETag."""
    condition = getattr(catalog, "condition", None)
    if not isinstance(condition, conditional_load.LoadCondition):
        return load_tables.load_table(catalog, name), ""
    try:
        with condition.unless(etag):
            table = load_tables.load_table(catalog, name)
            return table, condition.etag
    except conditional_load.NotModifiedSignal:
        return None, etag
