"""Where the metadata of all tables of a catalog is, from catalogs that say so at once. It tells which tables have
changed without loading them, and which other catalogs have their tables in the same database."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from iceberg_compaction.model import table_names
from iceberg_compaction.storage import translate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.catalog import Catalog


def read(catalog: Catalog) -> Mapping[str, str]:
    """Metadata locations by table; empty: the catalog has to be asked for each table."""
    from pyiceberg.catalog import sql
    from sqlalchemy import orm, select

    if not isinstance(catalog, sql.SqlCatalog):
        return {}
    entries = sql.IcebergTables
    query = select(entries.table_namespace, entries.table_name, entries.metadata_location).where(
        entries.catalog_name == catalog.name, entries.metadata_location.is_not(None)
    )
    with translate.catalog_border(catalog), orm.Session(catalog.engine) as session:
        rows = session.execute(query).all()
    return {table_names.text((*namespace.split("."), name)): str(location) for namespace, name, location in rows}


def beside(catalog: Catalog) -> list[Catalog]:
    """Catalogs of other names in the same database, to read from: engines that call one database by several names
    register tables under each."""
    from pyiceberg.catalog import sql
    from sqlalchemy import orm, select

    if not isinstance(catalog, sql.SqlCatalog):
        return []
    query = select(sql.IcebergTables.catalog_name).where(sql.IcebergTables.catalog_name != catalog.name).distinct()
    with translate.catalog_border(catalog), orm.Session(catalog.engine) as session:
        names = sorted(str(name) for name in session.execute(query).scalars())
    return [_named(catalog, name) for name in names]


def _named(catalog: Catalog, name: str) -> Catalog:
    other = copy.copy(catalog)  # with the same connections
    other.name = name
    return other
