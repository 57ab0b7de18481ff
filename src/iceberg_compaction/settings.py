"""Which catalog to use, and where to keep what was read, as typed values. Flags and environment come in, each field
documented; only the outsides call the catalog's loader. Precedence: flag, then environment, then PyIceberg's own
configuration, which `catalog.connect` reads for a catalog that is given by name alone."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from iceberg_compaction import errors
from iceberg_compaction.model import byte_size, durations, prices
from iceberg_compaction.model.retention_periods import RetentionPeriods
from iceberg_compaction.model.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

DEFAULT_NAME = "default"
HEARTBEAT_SECONDS = 10.0
_LEAST_HEARTBEAT, _MOST_HEARTBEAT = 0.1, 600.0
_PRICES = "ICEBERG_COMPACTION_PRICES"
_MOST_PRICES = 100_000  # characters
CACHE_BYTES = 2 << 30  # room for about seven million files

# Secrets have variables of their own so that they need not stand in a command line, which every user of a machine sees.
_SECRET_VARIABLES = {"CATALOG_CREDENTIAL": "credential", "CATALOG_TOKEN": "token"}


class CatalogSettings(Value):
    """How to reach one catalog: by URI, by a Spark catalog's configuration, or by name from PyIceberg's own."""

    name: Annotated[
        str, Field(min_length=1, description="the catalog's name; in a SQL catalog it is part of every table's key")
    ] = DEFAULT_NAME
    # A database URI may carry a password, hence no repr.
    uri: Annotated[str | None, Field(repr=False, description="where the catalog is; PyIceberg's file is not read")] = (
        None
    )
    type: Annotated[str | None, Field(description="rest, sql, hive, glue …; by default the URI's scheme says")] = None
    warehouse: Annotated[str | None, Field(description="warehouse location or, for REST, identifier")] = None
    properties: Annotated[dict[str, str], Field(repr=False, description="further PyIceberg catalog properties")] = {}
    spark_catalog: Annotated[str | None, Field(description="take spark.sql.catalog.NAME.* instead")] = None
    spark_conf: Annotated[dict[str, str], Field(repr=False, description="laid over spark-defaults.conf")] = {}


class CacheSettings(Value):
    """Where parsed manifests are kept between runs."""

    directory: Annotated[str | None, Field(description="a folder of the user's own; None: nothing is kept")] = None
    capacity: Annotated[int, Field(ge=0, description="bytes; the least recently used entries make room")] = CACHE_BYTES
    shared: Annotated[str | None, Field(repr=False, description="URL of a place that other machines use, too")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogFlags:
    """What a command line says about the catalog; None or empty where it says nothing. Pairs are `key=value`."""

    name: str | None = None
    uri: str | None = field(default=None, repr=False)
    type: str | None = None
    warehouse: str | None = None
    properties: Sequence[str] = field(default=(), repr=False)
    spark_catalog: str | None = None
    conf: Sequence[str] = field(default=(), repr=False)


def load_catalog_settings(flags: CatalogFlags, environ: Mapping[str, str]) -> CatalogSettings:
    """Flags over environment (`CATALOG_NAME`, `CATALOG_URI`, `CATALOG_TYPE`, `CATALOG_WAREHOUSE`, `CATALOG_CREDENTIAL`,
    `CATALOG_TOKEN`). A flag that names the catalog itself, `uri` or `spark_catalog`, also puts aside the environment's
    URI and type: a type belongs to its URI."""
    if flags.uri and flags.spark_catalog:
        raise errors.ConfigError("Give either --catalog-uri or --spark-catalog, not both.")
    chosen_by_flag = bool(flags.uri or flags.spark_catalog)
    secrets = {key: value for variable, key in _SECRET_VARIABLES.items() if (value := environ.get(variable))}
    return CatalogSettings(
        name=flags.name or environ.get("CATALOG_NAME") or DEFAULT_NAME,
        uri=flags.uri or (None if chosen_by_flag else environ.get("CATALOG_URI") or None),
        type=flags.type or (None if chosen_by_flag else environ.get("CATALOG_TYPE") or None),
        warehouse=flags.warehouse or environ.get("CATALOG_WAREHOUSE") or None,
        properties=secrets | parse_pairs(flags.properties, option="--catalog-property"),
        spark_catalog=flags.spark_catalog,
        spark_conf=parse_pairs(flags.conf, option="--conf"),
    )


def load_namespace(environ: Mapping[str, str]) -> str | None:
    """`CATALOG_NAMESPACE`: where tables are looked for that are named without a namespace."""
    return environ.get("CATALOG_NAMESPACE") or None


def load_cache_settings(environ: Mapping[str, str]) -> CacheSettings:
    """`ICEBERG_COMPACTION_CACHE` names the folder, and `off` keeps nothing; else it is in the user's cache folder.
    `ICEBERG_COMPACTION_CACHE_SIZE` is how much it may hold, such as 512MB. `ICEBERG_COMPACTION_CACHE_URL` is a place
    that other machines use, too."""
    capacity = _size(environ, "ICEBERG_COMPACTION_CACHE_SIZE")
    capacity = CACHE_BYTES if capacity is None else capacity
    chosen = environ.get("ICEBERG_COMPACTION_CACHE")
    if not chosen:
        root = environ.get("XDG_CACHE_HOME") or (environ.get("HOME") and os.path.join(environ["HOME"], ".cache"))
        chosen = os.path.join(root, "iceberg-compaction") if root else "off"
    return CacheSettings(
        directory=None if chosen.lower() == "off" else chosen,
        capacity=capacity,
        shared=environ.get("ICEBERG_COMPACTION_CACHE_URL") or None,
    )


def load_store(environ: Mapping[str, str]) -> str | None:
    """The run store: the URL or file in `STORE_URL`, `ICEBERG_COMPACTION_STATE` or `REDIS_URL`, the first that is set;
    else a file in the user's state folder. None: there is no such folder, because there is no home."""
    for variable in ("STORE_URL", "ICEBERG_COMPACTION_STATE", "REDIS_URL"):
        if chosen := environ.get(variable):
            return chosen
    home = environ.get("HOME")
    state = environ.get("XDG_STATE_HOME") or (home and os.path.join(home, ".local", "state"))
    return os.path.join(state, "iceberg-compaction", "runs.db") if state else None


def load_memory(environ: Mapping[str, str]) -> int | None:
    """`ICEBERG_COMPACTION_MEMORY`: bytes of a process that performs tasks, such as 2GB; None: it depends on the limits
    of its container, executor or machine."""
    return _size(environ, "ICEBERG_COMPACTION_MEMORY")


def load_retention(environ: Mapping[str, str]) -> RetentionPeriods:
    """`ICEBERG_COMPACTION_KEEP_HISTORY`, `_EVENTS`, `_HEALTH` and `_CHECKPOINTS`: how long the run store keeps them,
    such as 90d."""
    periods: dict[str, int] = {}
    for name in RetentionPeriods.model_fields:
        variable = f"ICEBERG_COMPACTION_KEEP_{name.removesuffix('_ms').upper()}"
        if given := environ.get(variable):
            try:
                periods[name] = int(durations.parse_seconds(given) * 1000)
            except errors.ConfigError as error:
                raise errors.ConfigError(f"{variable}: {error}") from error
    return RetentionPeriods(**periods)


def load_prices(environ: Mapping[str, str]) -> prices.Prices:
    """`ICEBERG_COMPACTION_PRICES`: a file with prices, or the prices themselves as NAME=DOLLARS pairs."""
    return read_prices(environ.get(_PRICES) or "", origin=_PRICES)


def read_prices(given: str, *, origin: str) -> prices.Prices:
    """Prices of a file (YAML or JSON: a number for each name), or of a text such as `task-hour=0.04`. `origin`: the
    flag or variable that has the text, for errors."""
    if not given.strip() or "=" in given or given.lstrip().startswith("{"):
        return prices.parse_prices(given, variable=origin)
    try:
        with open(given, encoding="utf-8") as file:
            content = file.read(_MOST_PRICES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise errors.ConfigError(f"{origin}: the price file {given} cannot be read: {reason}.") from None
    if len(content) > _MOST_PRICES:
        raise errors.ConfigError(f"{origin}: the price file {given} is longer than {_MOST_PRICES:,} characters.")
    return prices.parse_prices(content, variable=f"{origin} {given}")


def load_heartbeat(environ: Mapping[str, str]) -> float:
    """`ICEBERG_COMPACTION_HEARTBEAT`: the time between two heartbeats of a run, such as 10s. A run on another machine
    that is silent for twice as long is over, and another run takes its leases."""
    given = environ.get("ICEBERG_COMPACTION_HEARTBEAT")
    if not given:
        return HEARTBEAT_SECONDS
    try:
        seconds = durations.parse_seconds(given)
    except errors.ConfigError as error:
        raise errors.ConfigError(f"ICEBERG_COMPACTION_HEARTBEAT: {error}") from error
    if not _LEAST_HEARTBEAT <= seconds <= _MOST_HEARTBEAT:
        raise errors.ConfigError("ICEBERG_COMPACTION_HEARTBEAT must be from 0.1s to 10m.")
    return seconds


def _size(environ: Mapping[str, str], variable: str) -> int | None:
    if not (given := environ.get(variable)):
        return None
    try:
        return byte_size.parse_size(given)
    except errors.ConfigError as error:
        raise errors.ConfigError(f"{variable}: {error}") from error


def parse_pairs(pairs: Iterable[str], *, option: str) -> dict[str, str]:
    """`key=value` pairs as a dict; later ones win. A pair is never echoed, since it may hold a secret."""
    parsed = {}
    for position, pair in enumerate(pairs, start=1):
        key, separator, value = pair.partition("=")
        if not separator or not key.strip():
            raise errors.ConfigError(f"{option} number {position} is not of the form key=value.")
        parsed[key.strip()] = value.strip()
    return parsed
