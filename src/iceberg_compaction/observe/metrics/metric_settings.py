"""Where metrics go, as typed values. Flags and environment come in; a wrong setting is found before any work."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

from pydantic import Field

from iceberg_compaction import errors, settings
from iceberg_compaction.model import durations
from iceberg_compaction.model.prices import Prices
from iceberg_compaction.model.value import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

_TABLES = "ICEBERG_COMPACTION_METRICS_TABLES"
_LAST_PORT = 65535
TABLES = 500  # about 30 series each


class MetricsSettings(Value):
    """Where metrics go."""

    address: Annotated[str, Field(description="that the port listens at; empty: all")] = ""
    port: Annotated[int | None, Field(description="that Prometheus scrapes")] = None
    file: Annotated[str | None, Field(description="for the textfile collector of node_exporter")] = None
    push: Annotated[str | None, Field(repr=False, description="URL of a push gateway")] = None
    tables: Annotated[int, Field(ge=0, description="that have series of their own")] = TABLES
    wait: Annotated[float, Field(ge=0, description="seconds at the end in which the port may be scraped")] = 0.0
    prices: Prices = Prices()

    @property
    def wanted(self) -> bool:
        """Whether metrics go to Prometheus at all."""
        return self.port is not None or self.file is not None or self.push is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsFlags:
    """What a command line says; None where it says nothing."""

    port: str | None = None
    file: str | None = None
    push: str | None = field(default=None, repr=False)


def load_metrics_settings(flags: MetricsFlags, environ: Mapping[str, str]) -> MetricsSettings:
    """Flags over environment: `ICEBERG_COMPACTION_METRICS_PORT`, `_FILE`, `_PUSH`, `_TABLES`, `_WAIT`, and
    `ICEBERG_COMPACTION_PRICES`. Raises ConfigError for one that cannot be meant."""
    address, port = _listener(flags.port or environ.get("ICEBERG_COMPACTION_METRICS_PORT"))
    return MetricsSettings(
        address=address,
        port=port,
        file=_file(flags.file or environ.get("ICEBERG_COMPACTION_METRICS_FILE")),
        push=_url(flags.push or environ.get("ICEBERG_COMPACTION_METRICS_PUSH")),
        tables=_tables(environ.get(_TABLES)),
        wait=durations.parse_seconds(wait) if (wait := environ.get("ICEBERG_COMPACTION_METRICS_WAIT")) else 0.0,
        prices=settings.load_prices(environ),
    )


def _listener(text: str | None) -> tuple[str, int | None]:
    """`PORT` or `ADDRESS:PORT`."""
    if not text:
        return "", None
    address, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > _LAST_PORT:
        raise errors.ConfigError(f"--metrics-port {text!r} is not a port; write one such as 9464 or 127.0.0.1:9464.")
    return address.strip("[]"), int(port)


def _file(text: str | None) -> str | None:
    if not text:
        return None
    path = Path(text)
    if path.is_dir():
        raise errors.ConfigError(
            f"--metrics-file {path} is a folder; name a file in it, such as {path}/compaction.prom."
        )
    if not path.parent.is_dir():
        raise errors.ConfigError(f"--metrics-file {path} cannot be written: there is no folder {path.parent}.")
    if not os.access(path.parent, os.W_OK):
        raise errors.ConfigError(f"--metrics-file {path} cannot be written: no permission in {path.parent}.")
    return text


def _url(text: str | None) -> str | None:
    if not text:
        return None
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port is not False
    except ValueError:
        valid = False
    if not valid:
        raise errors.ConfigError("--metrics-push is not the URL of a push gateway, such as http://gateway:9091.")
    return text


def _tables(text: str | None) -> int:
    if not text:
        return TABLES
    if not text.isascii() or not text.isdigit():
        raise errors.ConfigError(f"{_TABLES}: {text!r} is not a number of tables.")
    return int(text)
