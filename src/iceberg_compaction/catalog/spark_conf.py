"""A catalog as Spark is configured for it. spark-defaults.conf and `--conf` pairs come in, settings by URI go out, so
what a Spark job can reach is reached with the same words. PyIceberg's SQL catalog shares Iceberg Java's JDBC tables
under the same catalog name, hence the Spark catalog's name is kept."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.catalog import jdbc
from iceberg_compaction.settings import CatalogSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

_PREFIX = "spark.sql.catalog."
_LINE = re.compile(r"\s*(?P<key>[^\s=:#!][^\s=:]*)\s*[=:\s]\s*(?P<value>.*?)\s*")

_TYPE_OF_CLASS = {
    "org.apache.iceberg.rest.RESTCatalog": "rest",
    "org.apache.iceberg.hive.HiveCatalog": "hive",
    "org.apache.iceberg.aws.glue.GlueCatalog": "glue",
    "org.apache.iceberg.aws.dynamodb.DynamoDbCatalog": "dynamodb",
    "org.apache.iceberg.jdbc.JdbcCatalog": "jdbc",
    "org.apache.iceberg.hadoop.HadoopCatalog": "hadoop",
    "org.apache.iceberg.nessie.NessieCatalog": "nessie",
    "org.apache.iceberg.gcp.bigquery.BigQueryMetastoreCatalog": "bigquery",
}
_TYPES = {"rest": "rest", "hive": "hive", "glue": "glue", "jdbc": "sql", "dynamodb": "dynamodb", "bigquery": "bigquery"}

# Java's names where PyIceberg's differ.
_RENAMED = {
    "client.assume-role.arn": "client.role-arn",
    "client.assume-role.session-name": "client.role-session-name",
}
# Settings of the JVM side alone; the type, URI and warehouse are handled one by one.
_DROPPED = re.compile(
    r"type|catalog-impl|io-impl|uri|warehouse|clients|default-namespace|client\.factory|metrics-reporter-impl|"
    r"(cache|jdbc|lock|table-default|table-override|view-default|view-override)[.-].*|s3\.path-style-access"
)
_S3A = {
    "fs.s3a.access.key": "s3.access-key-id",
    "fs.s3a.secret.key": "s3.secret-access-key",
    "fs.s3a.session.token": "s3.session-token",
    "fs.s3a.endpoint.region": "s3.region",
}


def read_settings(settings: CatalogSettings, environ: Mapping[str, str]) -> CatalogSettings:
    """Settings by URI for `settings.spark_catalog`; warehouse and properties of `settings` win."""
    name = settings.spark_catalog or ""
    conf = read_defaults(environ) | settings.spark_conf
    mapped = map_catalog(name, conf)
    return CatalogSettings(
        name=name,
        uri=mapped.uri,
        type=settings.type or mapped.type,
        warehouse=settings.warehouse or mapped.warehouse,
        properties=mapped.properties | settings.properties,
    )


def read_defaults(environ: Mapping[str, str]) -> dict[str, str]:
    """The pairs of spark-defaults.conf in SPARK_CONF_DIR, else in SPARK_HOME/conf; empty where there is none."""
    folder = environ.get("SPARK_CONF_DIR")
    if not folder and environ.get("SPARK_HOME"):
        folder = str(Path(environ["SPARK_HOME"]) / "conf")
    path = Path(folder) / "spark-defaults.conf" if folder else None
    if path is None or not path.is_file():
        return {}
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise errors.ConfigError(f"{path} cannot be read: {type(error).__name__}.") from error
    return parse_defaults(text)


def parse_defaults(text: str) -> dict[str, str]:
    """Java's properties format: key and value apart by space, `=` or `:`; `#` and `!` begin comments; a line that ends
    in a backslash goes on."""
    joined = re.sub(r"\\\r?\n\s*", "", text)
    lines = (line for line in joined.splitlines() if not line.lstrip().startswith(("#", "!")))
    return {match["key"]: match["value"] for line in lines if (match := _LINE.fullmatch(line))}


def map_catalog(
    name: str, conf: Mapping[str, str], if_none: str = "; is SPARK_CONF_DIR or SPARK_HOME set?"
) -> CatalogSettings:
    """One Spark catalog in PyIceberg's terms. `if_none`: the end of the sentence if no catalog is configured at all."""
    own = _options(name, conf, if_none)
    kind = _type(name, own)
    uri = own.get("uri")
    if kind == "jdbc":
        uri = jdbc.sqlalchemy_uri(_need(name, "uri", uri), own.get("jdbc.user"), own.get("jdbc.password"))
    elif kind == "hive":
        metastores = conf.get("spark.hadoop.hive.metastore.uris") or conf.get("spark.hive.metastore.uris")
        uri = _need(name, "uri", uri or metastores)
    elif kind == "rest":
        uri = _need(name, "uri", uri)
    return CatalogSettings(
        name=name, uri=uri, type=_TYPES[kind], warehouse=own.get("warehouse"), properties=_properties(own, conf)
    )


def catalogs(conf: Mapping[str, str]) -> set[str]:
    """The names of the catalogs that Spark is configured for."""
    return {key[len(_PREFIX) :].partition(".")[0] for key in conf if key.startswith(_PREFIX)}


def _options(name: str, conf: Mapping[str, str], if_none: str) -> dict[str, str]:
    root = _PREFIX + name
    implementation = conf.get(root)
    own = {key[len(root) + 1 :]: value for key, value in conf.items() if key.startswith(root + ".")}
    if implementation is None and not own:
        configured = sorted(catalogs(conf))
        hint = f"configured are {', '.join(configured)}" if configured else f"none is{if_none}"
        raise errors.ConfigError(f'Spark has no catalog called "{name}": {hint}.')
    if implementation is not None and not implementation.startswith("org.apache.iceberg.spark."):
        raise errors.ConfigError(f'The Spark catalog "{name}" is not an Iceberg catalog but {implementation}.')
    return own


def _type(name: str, own: Mapping[str, str]) -> str:
    implementation = own.get("catalog-impl")
    if implementation is not None and implementation not in _TYPE_OF_CLASS:
        raise errors.ConfigError(f'The Spark catalog "{name}" uses {implementation}, which has no counterpart here.')
    # Iceberg's own default is hive.
    kind = _TYPE_OF_CLASS[implementation] if implementation else own.get("type", "hive").lower()
    if kind == "hadoop":
        raise errors.ConfigError(
            f'The Spark catalog "{name}" is a Hadoop catalog, whose commits are renames that no other tool can join '
            "safely; move its tables to a REST, JDBC, Hive or Glue catalog."
        )
    if kind not in _TYPES:
        raise errors.ConfigError(
            f'The Spark catalog "{name}" has the type {kind}, which is not supported; '
            "supported are glue, hive, jdbc and rest."
        )
    return kind


def _need(name: str, key: str, value: str | None) -> str:
    if not value:
        raise errors.ConfigError(f"{_PREFIX}{name}.{key} is not set.")
    return value


def _properties(own: Mapping[str, str], conf: Mapping[str, str]) -> dict[str, str]:
    """The rest goes over as it is: names are mostly the same, and what PyIceberg does not know it ignores."""
    kept = {_RENAMED.get(key, key): value for key, value in own.items() if not _DROPPED.fullmatch(key)}
    if path_style := own.get("s3.path-style-access"):
        kept["s3.force-virtual-addressing"] = "false" if path_style.lower() == "true" else "true"
    if not any(key.startswith("s3.") for key in kept):
        kept |= _s3a(conf)
    return kept


def _s3a(conf: Mapping[str, str]) -> dict[str, str]:
    """Hadoop's S3 settings, for catalogs that leave files to HadoopFileIO."""
    hadoop = {key[len("spark.hadoop.") :]: value for key, value in conf.items() if key.startswith("spark.hadoop.")}
    properties = {ours: hadoop[theirs] for theirs, ours in _S3A.items() if theirs in hadoop}
    if endpoint := hadoop.get("fs.s3a.endpoint"):
        secure = hadoop.get("fs.s3a.connection.ssl.enabled", "true").lower() != "false"
        properties["s3.endpoint"] = endpoint if "://" in endpoint else f"{'https' if secure else 'http'}://{endpoint}"
    if hadoop.get("fs.s3a.path.style.access", "").lower() == "true":
        properties["s3.force-virtual-addressing"] = "false"
    return properties
