"""PyIceberg's REST catalog with an end to its patience: a server that takes a request and never answers would hold a
run for ever, since PyIceberg sets no timeouts. Uses `_config_headers`, the one private hook that sees each new session
before its first request."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from pyiceberg.catalog.rest import RestCatalog

from iceberg_compaction import errors

if TYPE_CHECKING:
    from requests import Session

# Names and units are those of Iceberg Java. A commit to a large table may take a server a while.
CONNECT_TIMEOUT_MS = ("rest.client.connection-timeout-ms", 10_000)
SOCKET_TIMEOUT_MS = ("rest.client.socket-timeout-ms", 120_000)


class TimedRestCatalog(RestCatalog):
    """A REST catalog whose every request has a time limit."""

    def _config_headers(self, session: Session) -> None:
        super()._config_headers(session)
        limits = (_seconds(self.properties, *CONNECT_TIMEOUT_MS), _seconds(self.properties, *SOCKET_TIMEOUT_MS))
        session.request = functools.partial(session.request, timeout=limits)  # type: ignore[method-assign]


def _seconds(properties: dict[str, str], key: str, default: int) -> float:
    try:
        return int(properties.get(key, default)) / 1000
    except ValueError as error:
        raise errors.ConfigError(f"{key} must be a number of milliseconds.") from error
