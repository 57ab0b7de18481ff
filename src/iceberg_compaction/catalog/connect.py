"""Settings become a PyIceberg catalog: by URI, by Spark's configuration, or by name from PyIceberg's own. A URI stands
for itself: PyIceberg's configuration of a catalog that happens to have the same name is not read, lest its credentials
go to another server. Raises ConfigError, UnreachableError or UnauthorizedError in one sentence."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors
from iceberg_compaction.catalog import catalog_uri, spark_conf, sql
from iceberg_compaction.settings import DEFAULT_NAME, CatalogSettings
from iceberg_compaction.storage import translate
from iceberg_compaction.storage.clouds import gcs_client

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_DOOR = ("name", "properties", "load_table", "list_namespaces", "list_tables")  # by which a catalog is known
_EXTRAS = {"hive": "hive", "glue": "glue", "sql": "postgres"}


def connect(settings: CatalogSettings, environ: Mapping[str, str] | None = None) -> Catalog:
    """The catalog, ready to use."""
    from iceberg_compaction.storage import s3_client

    name, properties = resolve(settings, os.environ if environ is None else environ)
    return _open(name, s3_client.DEFAULTS | properties)


def catalog_of(given: Any) -> Catalog:
    """The catalog that a program means: one of PyIceberg, settings, properties as a mapping, a URI, or a name.
    ConfigError: it is none of them."""
    match given:
        case CatalogSettings():
            return connect(given)
        case str() if given.strip():
            return connect(CatalogSettings(uri=given) if "://" in given else CatalogSettings(name=given))
        case Mapping():
            return connect(_of_mapping(given))
        case _ if not isinstance(given, type) and all(hasattr(given, name) for name in _DOOR):
            catalog: Catalog = given
            return catalog
    what = "an empty text" if isinstance(given, str) else f"a value of type {type(given).__name__}"
    raise errors.ConfigError(
        f"A catalog is needed, not {what}: its name in PyIceberg's configuration, its URI, its properties as a "
        "mapping, CatalogSettings, or a catalog that PyIceberg has loaded."
    )


def _of_mapping(given: Mapping[Any, Any]) -> CatalogSettings:
    """Properties as PyIceberg's load_catalog takes them, and `name`."""
    if wrong := [key for key, value in given.items() if not isinstance(key, str) or not isinstance(value, str)]:
        raise errors.ConfigError(f"The catalog's property {wrong[0]!r} is not text: names and values must be.")
    if not given.keys() & {"uri", "type", "name", "py-catalog-impl"}:
        raise errors.ConfigError(
            "The catalog's properties lack the uri: give where it is, such as "
            '{"uri": "https://catalog.example.com", "warehouse": "prod"}.'
        )
    own = {key: given[key] for key in ("name", "uri", "type", "warehouse") if given.get(key)}
    return CatalogSettings(**own, properties={key: value for key, value in given.items() if key not in own})


def resolve(settings: CatalogSettings, environ: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """The name and PyIceberg properties that settings stand for, with `type` always set."""
    if settings.spark_catalog:
        settings = spark_conf.read_settings(settings, environ)
    given = dict(settings.properties) | ({"warehouse": settings.warehouse} if settings.warehouse else {})
    if settings.uri:
        name, properties = settings.name, catalog_uri.properties_of(settings.uri, settings.type) | given
    else:
        name, properties = _configured(settings, given)
    return name, catalog_uri.with_region(properties, environ)


def _configured(settings: CatalogSettings, given: dict[str, str]) -> tuple[str, dict[str, Any]]:
    """A catalog from PyIceberg's configuration, settings laid over it."""
    from pyiceberg.utils.config import Config, merge_config

    with translate.border("PyIceberg's configuration"):
        config = Config()  # read now: PyIceberg's own copy is as old as its import
        name = settings.name
        if name == DEFAULT_NAME and config.get_catalog_config(name) is None:
            name = config.get_default_catalog_name()
        entry = config.get_catalog_config(name)
        names = sorted(config.get_known_catalogs())
    if entry is None and settings.type is None:
        raise errors.ConfigError(_not_configured(name, names))
    properties: dict[str, Any] = dict(merge_config(entry or {}, dict(given)))
    if settings.type:
        properties["type"] = settings.type
    if "py-catalog-impl" in properties:
        return name, properties
    if "type" in properties:
        return name, properties | {"type": catalog_uri.catalog_type(str(properties["type"]))}
    return name, catalog_uri.properties_of(str(properties.get("uri", "")), None) | properties


def _not_configured(name: str, names: list[str]) -> str:
    hint = f"configured are {', '.join(names)}" if names else "none is configured there"
    return (
        f'No catalog called "{name}" is in PyIceberg\'s configuration ({hint}); '
        "give --catalog-uri, --spark-catalog or CATALOG_URI."
    )


def _open(name: str, properties: dict[str, Any]) -> Catalog:
    from pyiceberg.exceptions import NotInstalledError

    with translate.border_of(name, properties):
        try:
            return gcs_client.limit_catalog(_load(name, properties))
        except (NotInstalledError, ImportError) as error:
            raise errors.SetupError(_missing_driver(properties, error)) from error


def _load(name: str, properties: dict[str, Any]) -> Catalog:
    from pyiceberg import catalog as catalogs

    if "py-catalog-impl" in properties:
        return catalogs.load_catalog(name, **properties)
    kind = catalogs.CatalogType(properties["type"])
    if kind in (catalogs.CatalogType.REST, catalogs.CatalogType.HIVE, catalogs.CatalogType.SQL):
        _need_uri(name, properties)
    if kind is catalogs.CatalogType.REST:
        from iceberg_compaction.catalog import rest

        return rest.TimedRestCatalog(name, **_with_token_uri(properties))
    if kind is catalogs.CatalogType.SQL:
        return _load_sql(name, properties)
    if kind is catalogs.CatalogType.HIVE:
        from iceberg_compaction.catalog.drivers import hive

        return hive.CheckedHiveCatalog(name, **properties)
    if kind is catalogs.CatalogType.GLUE:
        from iceberg_compaction.catalog.drivers import glue

        properties = glue.client_properties(properties)
    return catalogs.AVAILABLE_CATALOGS[kind](name, properties)


def _load_sql(name: str, properties: dict[str, Any]) -> Catalog:
    from pyiceberg.catalog import sql as pyiceberg_sql

    sql.check_database_exists(str(properties["uri"]))
    catalog = pyiceberg_sql.SqlCatalog(name, **{"init_catalog_tables": "false"} | properties)
    try:
        sql.check_holds_catalog(catalog)
    except BaseException:
        catalog.close()
        raise
    return sql.read_limited(catalog)


def _need_uri(name: str, properties: Mapping[str, Any]) -> None:
    if not properties.get("uri"):
        raise errors.ConfigError(f'The {properties["type"]} catalog "{name}" has no URI; give --catalog-uri.')


def _with_token_uri(properties: dict[str, Any]) -> dict[str, Any]:
    """PyIceberg's own default for where tokens come from, said aloud: left unsaid it warns in every run."""
    if not properties.get("credential") or "oauth2-server-uri" in properties:
        return properties
    return properties | {"oauth2-server-uri": str(properties["uri"]).rstrip("/") + "/v1/oauth/tokens"}


def _missing_driver(properties: Mapping[str, Any], error: BaseException) -> str:
    kind = str(properties.get("type"))
    cause = error.__cause__ or error
    module = getattr(cause, "name", None)
    # SigV4 signing of REST requests wants boto3, which the glue extra brings.
    extra = "glue" if module == "boto3" else _EXTRAS.get(kind)
    missing = f" ({module})" if module else ""
    package = f"iceberg-compaction[{extra}]" if extra else f"pyiceberg[{kind}]"
    return f"The {kind} catalog needs a driver that is not installed{missing}: pip install '{package}'."
