"""Why a table's metadata file cannot be read, where the catalog leaves reading it to clients: a store that cannot be
used, or a file that is missing or damaged. The catalog, the table and the error come in, our error goes out."""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.model import table_names
from iceberg_compaction.storage import network_trouble, redact, store_trouble, translate

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_ARROW_KEY = re.compile(r"for key '(?P<key>[^']+)' in bucket '(?P<bucket>[^']+)'")
_DAMAGE = (ValueError, EOFError, zlib.error)


def explain(catalog: Catalog, identifier: tuple[str, ...], error: Exception) -> errors.CompactionError | None:
    """Our error; None: it is not about the table's metadata file."""
    from pyiceberg import exceptions

    name, secrets = table_names.text(identifier), redact.secrets_of(catalog.properties)
    location = _location(catalog, identifier, error)
    file = f"The metadata file {redact.redact_text(location)} of {name}" if location else f"The metadata of {name}"
    if not isinstance(error, (*_DAMAGE, exceptions.ValidationError)):
        if location is None or not store_trouble.is_of_store(error):
            return None
        if trouble := store_trouble.explain(error, location, catalog.properties):
            return trouble
        if isinstance(error, FileNotFoundError):
            return errors.MetadataError(
                f"{file} is missing; register the table again with a metadata file that is there, or drop it."
            )
        if isinstance(error, PermissionError):
            return errors.UnauthorizedError(f"{file} may not be read by this user; check its permissions.")
        return None
    if location is None and translate.translate(error, name) is not None:
        return None
    return errors.MetadataError(f"{file} is damaged: {_damage(error, secrets)}.")


def is_absent(error: Exception) -> bool:
    """Whether nobody was reached at the store."""
    return store_trouble.is_of_store(error) and network_trouble.is_absent(str(error))


def _damage(error: Exception, secrets: frozenset[str]) -> str:
    """The damage in words. Pydantic's first line is a count; its second names the field."""
    from pydantic import ValidationError

    invalid = next((each for each in (error, *error.args, error.__cause__) if isinstance(each, ValidationError)), None)
    if invalid is None:
        return translate.sentence_of(error, secrets)
    first = invalid.errors(include_url=False, include_input=False)[0]
    parts = [str(part) for part in first["loc"]]
    field = ".".join(parts[1:] if parts and parts[0].isdigit() else parts)  # the first one is the format version
    said = first["msg"].removeprefix("Value error, ").rstrip(".")
    return redact.redact_text(f"{field}: {said}" if field else said, secrets)


def _location(catalog: Catalog, identifier: tuple[str, ...], error: Exception) -> str | None:
    """Where the table's metadata file lies: Arrow says it for S3, and a database can be asked."""
    from pyiceberg.catalog import sql
    from sqlalchemy import exc, orm, select

    if match := _ARROW_KEY.search(str(error)):
        return f"s3://{match['bucket']}/{match['key']}"
    if not isinstance(catalog, sql.SqlCatalog):
        return None
    tables = sql.IcebergTables
    which = (
        tables.catalog_name == catalog.name,
        tables.table_namespace == ".".join(identifier[:-1]),
        tables.table_name == identifier[-1],
    )
    try:
        with orm.Session(catalog.engine) as session:
            return session.scalar(select(tables.metadata_location).where(*which))
    except exc.SQLAlchemyError:
        return None
