"""What a catalog URI says: which type of catalog it is, and in which form PyIceberg wants it. Pure text."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from iceberg_compaction import errors

if TYPE_CHECKING:
    from collections.abc import Mapping

_TYPE_OF_SCHEME = {
    "http": "rest",
    "https": "rest",
    "sqlite": "sql",
    "postgresql": "sql",
    "postgres": "sql",
    "thrift": "hive",
    "glue": "glue",
}
KNOWN_SCHEMES = "http(s)://, sqlite:///, postgresql://, thrift://, glue://"

# Other tools' names for the same thing.
_ALIASES = {"jdbc": "sql", "sqlite": "sql", "postgres": "sql", "postgresql": "sql", "hms": "hive"}
TYPES = ("rest", "sql", "hive", "glue", "dynamodb", "bigquery")


def catalog_type(text: str) -> str:
    """PyIceberg's name of a catalog type."""
    name = _ALIASES.get(text.lower(), text.lower())
    if name not in TYPES:
        raise errors.ConfigError(f"{text!r} is not a catalog type; the types are {', '.join(TYPES)}.")
    return name


def properties_of(uri: str, type_: str | None) -> dict[str, str]:
    """PyIceberg's properties for a URI. An explicit type wins over what the scheme says."""
    # A driver may follow the scheme: postgresql+psycopg://
    scheme = uri.partition("://")[0].partition("+")[0].lower() if "://" in uri else ""
    if type_ is None and scheme not in _TYPE_OF_SCHEME:
        subject = f"{scheme}://" if scheme else "A catalog URI without a scheme"
        raise errors.ConfigError(
            f"{subject} is not known as a catalog; known are {KNOWN_SCHEMES}. "
            "For another kind of server give its type too (--catalog-type)."
        )
    name = catalog_type(type_ or _TYPE_OF_SCHEME[scheme])
    if scheme == "glue":
        return {"type": name} | _glue(uri)
    if scheme == "postgres":
        uri = "postgresql" + uri[len("postgres") :]  # SQLAlchemy knows the long name only
    return {"type": name, "uri": uri}


def _glue(uri: str) -> dict[str, str]:
    """`glue://`, `glue://eu-west-1` or `glue://eu-west-1/123456789012` (the Glue catalog id)."""
    parts = urlsplit(uri)
    properties = {"glue.region": parts.netloc, "glue.id": parts.path.strip("/")}
    return {key: value for key, value in properties.items() if value}


def with_region(properties: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """The S3 region from the environment where properties have none. With an endpoint of one's own any region does;
    without one PyIceberg would ask AWS where the bucket is, and wait for it."""
    if "s3.region" in properties or "client.region" in properties:
        return dict(properties)
    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    own_store = properties.get("s3.endpoint") or environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL")
    if region is None and own_store:
        region = "us-east-1"
    return dict(properties) | ({"client.region": region} if region else {})
