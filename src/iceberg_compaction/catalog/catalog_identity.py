"""Which catalog a table was loaded from, as a text without secrets that tells it from every other one (R48). One that
is written in several ways counts as several: that leaves files behind, where taking two for one could cost a table."""

from __future__ import annotations

import logging
import platform
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from iceberg_compaction.storage import redact

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

_LOCAL = ("", "localhost", "::1", "0.0.0.0")
_MEMORY = (None, "", ":memory:")
_REST_KEYS = ("warehouse", "prefix")  # a versioned catalog has the branch in its URI or its prefix
_GLUE_KEYS = ("glue.endpoint", "glue.region", "client.region")
_log = logging.getLogger(__name__)


def identity(table: Table) -> str:
    """The catalog that the table was loaded from. Empty: it cannot be told from others."""
    return _identity(table.catalog, table)


def of_catalog(catalog: Catalog) -> str:
    """The same for a catalog without any of its tables. Empty: only a table can tell, as in AWS Glue."""
    return _identity(catalog, None)


def _identity(catalog: Catalog, table: Table | None) -> str:
    identities: dict[str, Any] = {"SqlCatalog": _sql, "RestCatalog": _rest, "HiveCatalog": _hive, "GlueCatalog": _glue}
    for kind in type(catalog).__mro__:
        if kind.__module__.startswith("pyiceberg.catalog.") and kind.__name__ in identities:
            try:
                return str(identities[kind.__name__](catalog, table))
            except Exception as error:  # noqa: BLE001 - nothing depends on it but whether files can be removed
                _log.warning("The catalog of this table has no identity: %s", type(error).__name__)
                return ""
    return ""


def _sql(catalog: Catalog, table: Table | None) -> str:
    """The rows of several catalogs may be in one database, each with the catalog's name."""
    from pathlib import Path

    from sqlalchemy.engine import URL, make_url

    url = make_url(str(catalog.properties["uri"]))
    if url.get_backend_name() == "sqlite":
        if url.database in _MEMORY or str(url.database).startswith("file:"):
            return ""
        return _joined("sql", _on_this_machine(str(Path(str(url.database)).resolve())), name=catalog.name)
    public = {key: value for key, value in url.query.items() if not redact.is_secret(key)}
    bare = URL.create(url.get_backend_name(), host=url.host, port=url.port, database=url.database, query=public)
    address = bare.render_as_string()
    return _joined("sql", address if not _is_local(url.host or "") else _on_this_machine(address), name=catalog.name)


def _rest(catalog: Catalog, table: Table | None) -> str:
    properties = catalog.properties
    scope = {key: str(properties[key]) for key in _REST_KEYS if properties.get(key)}
    # Servers that are several catalogs may tell them apart by a header.
    headers = {key: str(value) for key, value in sorted(properties.items()) if key.startswith("header.")}
    public = {key: value for key, value in headers.items() if not redact.is_secret(key)}
    return _joined("rest", _address(str(properties["uri"])), **scope, **public)


def _hive(catalog: Catalog, table: Table | None) -> str:
    return _joined("hive", ",".join(_address(uri.strip()) for uri in str(catalog.properties["uri"]).split(",")))


def _glue(catalog: Any, table: Table | None) -> str:
    """Which account it is may depend on the credentials alone; the service tells."""
    if table is None:
        return ""
    database, name = table.name()[-2:]
    account = catalog._get_glue_table(database, name).get("CatalogId")
    where = {key: str(catalog.properties[key]) for key in _GLUE_KEYS if catalog.properties.get(key)}
    region = str(catalog.glue.meta.region_name)
    return _joined("glue", f"{region}/{account}", **where) if account else ""


def _address(uri: str) -> str:
    """A server's address without credentials. What is local is another one on every machine."""
    parts = urlsplit(uri)
    bare = redact.redact_text(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl())
    bare = bare.rstrip("/")
    return _on_this_machine(bare) if _is_local(parts.hostname or "") else bare


def _is_local(host: str) -> bool:
    return host.lower() in _LOCAL or host.startswith("127.")


def _on_this_machine(address: str) -> str:
    return f"{address} on {platform.node()}"


def _joined(kind: str, address: str, **more: str) -> str:
    return " ".join([kind, address, *(f"{key}={redact.redact_text(value)}" for key, value in more.items())])
