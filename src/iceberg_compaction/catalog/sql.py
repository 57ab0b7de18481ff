"""What a SQL catalog needs before it is used: a maintenance tool must not create a catalog by mistyping its path, as
PyIceberg does, nor find nothing because the rows belong to a catalog of another name."""

from __future__ import annotations

import difflib
import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors
from iceberg_compaction.storage import redact

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table


def check_database_exists(uri: str) -> None:
    """Refuse an SQLite file that is not there; opening it would create it."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(uri)
    except (ArgumentError, ValueError):
        raise errors.ConfigError(
            "The SQL catalog's URI cannot be read; write it like sqlite:////data/catalog.db or "
            "postgresql://user:password@host/database."
        ) from None  # SQLAlchemy may quote the whole URI
    if url.get_backend_name() != "sqlite":
        return
    if url.database in (None, "", ":memory:"):
        raise errors.ConfigError("An SQLite catalog in memory has no tables; give a file: sqlite:////data/catalog.db.")
    path = _file(url.database or "")
    if not path.exists():
        raise errors.ConfigError(
            f"There is no SQLite catalog at {path}; check the path "
            "(sqlite:///relative/path has three slashes, sqlite:////absolute/path four)."
        )


def check_holds_catalog(catalog: SqlCatalog) -> None:
    """The database must hold an Iceberg catalog, and if it holds any, one of this name."""
    import sqlalchemy
    from pyiceberg.catalog import sql

    where = redact.redact_text(str(catalog.properties["uri"]))
    if not sqlalchemy.inspect(catalog.engine).has_table(sql.IcebergTables.__tablename__):
        raise errors.ConfigError(f"The database {where} holds no Iceberg catalog: it has no table iceberg_tables.")
    with catalog.engine.connect() as connection:
        names: set[Any] = set()
        for rows in (sql.IcebergTables, sql.IcebergNamespaceProperties):
            names |= set(connection.execute(sqlalchemy.select(rows.catalog_name).distinct()).scalars())
    if names and catalog.name not in names:
        others = sorted(str(name) for name in names)
        held = f'the catalog "{others[0]}"' if len(others) == 1 else f"the catalogs {', '.join(others)}"
        near = difflib.get_close_matches(catalog.name, others, n=1) or others[:1]
        raise errors.ConfigError(
            f'The database {where} holds {held} and none called "{catalog.name}"; name it with --catalog-name '
            f"{shlex.quote(near[0])}."
        )


def read_limited(catalog: SqlCatalog) -> SqlCatalog:
    """The same catalog, which reads table metadata in Google's store as other catalogs do: with the FileIO that
    `gcs_client` gives an end to its patience. PyIceberg makes another one here."""
    vars(catalog)["_convert_orm_to_iceberg"] = partial(_to_table, catalog, catalog._convert_orm_to_iceberg)
    return catalog


def _to_table(catalog: SqlCatalog, convert: Callable[[Any], Table], row: Any) -> Table:
    location = row.metadata_location
    if not location or not location.startswith("gs://"):
        return convert(row)
    from pyiceberg.serializers import FromInputFile
    from pyiceberg.table import Table

    metadata = FromInputFile.table_metadata(catalog._load_file_io(location=location).new_input(location))
    return Table(
        identifier=(*catalog.identifier_to_tuple(row.table_namespace), row.table_name),
        metadata=metadata,
        metadata_location=location,
        io=catalog._load_file_io(metadata.properties, location),
        catalog=catalog,
    )


def _file(database: str) -> Path:
    if database.startswith("file:"):  # SQLite's own URIs: file:/data/catalog.db?mode=ro
        return Path("/" + database.removeprefix("file:").partition("?")[0].lstrip("/"))
    return Path(database)
