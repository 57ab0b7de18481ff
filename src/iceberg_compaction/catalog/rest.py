"""PyIceberg's REST catalog with manners of its own. It has an end to its patience: a server that takes a request and
never answers would hold a run for ever, since PyIceberg sets no timeouts. And it asks again, after a moment, what can
be asked twice: a commit cannot. Uses `_config_headers`, the one private hook that sees each new session before its
first request."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests
import urllib3
from pyiceberg.catalog.rest import RestCatalog

from iceberg_compaction import errors
from iceberg_compaction.catalog.changes.conditional_load import LoadCondition
from iceberg_compaction.storage import passing_faults

if TYPE_CHECKING:
    from collections.abc import Callable

    from requests import Response, Session

_log = logging.getLogger(__name__)

# Names and units are those of Iceberg Java. A commit to a large table may take a server a while.
CONNECT_TIMEOUT_MS = ("rest.client.connection-timeout-ms", 10_000)
SOCKET_TIMEOUT_MS = ("rest.client.socket-timeout-ms", 120_000)

_PASSING = frozenset({408, 429, 500, 502, 503, 504})
_LOOKS = frozenset({"GET", "HEAD", "OPTIONS"})
_NEW_TOKEN = "/oauth/tokens"


class TimedRestCatalog(RestCatalog):
    """A REST catalog whose every request has a time limit, and whose questions are asked again."""

    def _config_headers(self, session: Session) -> None:
        super()._config_headers(session)
        limits = (_seconds(self.properties, *CONNECT_TIMEOUT_MS), _seconds(self.properties, *SOCKET_TIMEOUT_MS))
        answered: set[str] = vars(self).setdefault("_answered", set())
        vars(session)["request"] = _Asking(session.request, limits, answered, self.condition)

    @property
    def condition(self) -> LoadCondition:
        """Under which tables are loaded."""
        condition: LoadCondition = vars(self).setdefault("_condition", LoadCondition())
        return condition


class _Asking:
    """A session's way to send requests. `answered`: the servers that did so once; nobody waits for others."""

    def __init__(
        self,
        send: Callable[..., Response],
        limits: tuple[float, float],
        answered: set[str],
        condition: LoadCondition,
    ) -> None:
        self._send, self._limits, self._answered, self._condition = send, limits, answered, condition

    def __call__(self, method: str, url: str, **more: Any) -> Response:
        waits = passing_faults.USUAL.waits() if method.upper() in _LOOKS or url.endswith(_NEW_TOKEN) else iter(())
        if wanted := self._condition.headers(method, url):
            more["headers"] = {**(more.get("headers") or {}), **wanted}
        while True:
            try:
                response = self._send(method, url, **{"timeout": self._limits, **more})
            except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError) as error:
                absent = is_silent(error) and urlsplit(url).netloc not in self._answered
                if absent or (wait := next(waits, None)) is None:
                    raise
                reason = type(error).__name__
            else:
                self._answered.add(urlsplit(url).netloc)
                if response.status_code not in _PASSING or (wait := next(waits, None)) is None:
                    self._condition.answered(method, url, response.status_code, response.headers.get("ETag", ""))
                    return response
                reason = f"status {response.status_code}"
                wait = max(wait, _asked_to_wait(response))
                response.close()
            _log.info("The catalog is asked again in %.1f s: %s", wait, reason)
            passing_faults.USUAL.sleep(wait)


def is_silent(error: requests.RequestException) -> bool:
    """Whether nothing at all came back: nobody listens there, or nobody answers."""
    return isinstance(error, requests.Timeout) or never_connected(error)


def never_connected(error: Exception) -> bool:
    """Whether a request failed before anything was sent."""
    if not isinstance(error, requests.ConnectionError):
        return False
    reason: Any = getattr(error.args[0], "reason", None) if error.args else None
    return isinstance(reason, urllib3.exceptions.NewConnectionError | urllib3.exceptions.ConnectTimeoutError)


def _asked_to_wait(response: Response) -> float:
    """Seconds that the server wants to be left alone, within reason."""
    seconds = response.headers.get("Retry-After", "")
    return min(float(seconds), passing_faults.USUAL.longest) if seconds.isascii() and seconds.isdigit() else 0.0


def _seconds(properties: dict[str, str], key: str, default: int) -> float:
    try:
        return int(properties.get(key, default)) / 1000
    except ValueError as error:
        raise errors.ConfigError(f"{key} must be a number of milliseconds.") from error
