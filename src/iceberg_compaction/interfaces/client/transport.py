"""Requests to a service: JSON in, values out, problem details as the errors that they stand for. What may be sent twice
is sent again after a fault that passes. A token goes to the service that was named, never after a redirect."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib import parse

import requests
from pydantic import TypeAdapter, ValidationError

from iceberg_compaction import errors, version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_ATTEMPTS = 4
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 30.0
_LATER = (429, 503)
_BAD_GATEWAY, _SERVER_ERROR, _REDIRECT, _BAD_REQUEST = 502, 500, 300, 400
_LONGEST_BODY = 100 << 20
Answer = TypeVar("Answer")
_ERRORS: dict[int, type[errors.CompactionError]] = {
    401: errors.UnauthenticatedError,
    403: errors.ForbiddenError,
    409: errors.RefusedError,
    502: errors.CatalogError,
    503: errors.UnreachableError,
}
_KINDS: dict[str, type[errors.CompactionError]] = {
    "no-such-table": errors.NoSuchTableError,
    "unsupported-table": errors.UnsupportedError,
    "declined": errors.DeclinedError,
    "at-work": errors.LeasedError,
    "stale-plan": errors.StalePlanError,
    "store-unavailable": errors.StoreError,
}


class _Bearer(requests.auth.AuthBase):
    """A token in the header of each request."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


@dataclass(slots=True, kw_only=True)
class Transport:
    """One service. ConfigError: the URL cannot be one. UnreachableError: it does not answer."""

    url: str
    token: str | None = field(default=None, repr=False)
    timeout_s: float = 60.0
    pause: Callable[[float], None] = time.sleep
    _session: requests.Session = field(default_factory=requests.Session, repr=False)

    def __post_init__(self) -> None:
        parts = parse.urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise errors.ConfigError(f"{self.url!r} is not the URL of a service; write it like http://localhost:8080.")
        self.url = self.url.rstrip("/").removesuffix("/api/v1")
        self._session.headers["User-Agent"] = f"iceberg-compaction/{version.__version__}"
        if self.token:
            self._session.auth = _Bearer(self.token)  # a header alone would be replaced by an entry of a netrc file

    def get(self, path: str, answer: type[Answer] | Any, **query: Any) -> Answer:
        """Read something."""
        read: Answer = self._call("GET", path, answer, query=query)
        return read

    def send(
        self,
        method: str,
        path: str,
        answer: type[Answer] | Any,
        body: Any = None,
        *,
        key: str | None = None,
        **query: Any,
    ) -> Answer:
        """Change something. What may be repeated, also by its idempotency key, is sent again after faults."""
        made: Answer = self._call(method, path, answer, query=query, body=body, key=key)
        return made

    def stream(self, path: str, last_id: str | None = None) -> Iterator[tuple[str, str | None, str]]:
        """Server-sent events: the kind, the id and the data of each."""
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_id} if last_id else {})
        timeout = (self.timeout_s, self.timeout_s)
        try:
            with self._session.get(
                self._address(path), headers=headers, stream=True, timeout=timeout, allow_redirects=False
            ) as reply:
                if not reply.ok or reply.is_redirect:
                    raise _error(reply)
                yield from _events(line.decode() for line in reply.iter_lines(chunk_size=1))
        except requests.RequestException as error:
            raise self._unreachable(error) from None

    def close(self) -> None:
        self._session.close()

    def _call(
        self, method: str, path: str, answer: Any, *, query: Mapping[str, Any], body: Any = None, key: str | None = None
    ) -> Any:
        may_repeat = method in ("GET", "PUT", "DELETE") or key is not None
        headers = {} if key is None else {"Idempotency-Key": key}
        chosen = {name: value for name, value in query.items() if value is not None}
        for attempt in range(1, _ATTEMPTS + 1):
            is_last = attempt == _ATTEMPTS or not may_repeat
            try:
                reply = self._session.request(
                    method,
                    self._address(path),
                    params=chosen,
                    json=body,
                    headers=headers,
                    timeout=self.timeout_s + float(chosen.get("wait", 0)),
                    allow_redirects=False,
                )
            except requests.RequestException as error:
                if is_last:
                    raise self._unreachable(error) from None
                self.pause(_wait_s(attempt, None))
                continue
            if reply.status_code in _LATER and not is_last:
                self.pause(_wait_s(attempt, reply.headers.get("Retry-After")))
                continue
            return _parsed(reply, answer)
        raise AssertionError("the last attempt returns or raises")

    def _address(self, path: str) -> str:
        return self.url + path

    def _unreachable(self, error: requests.RequestException) -> errors.UnreachableError:
        kind = type(error).__name__
        return errors.UnreachableError(f"The service at {_shown(self.url)} does not answer: {kind}.")


def quoted(word: str) -> str:
    """One part of a path."""
    return parse.quote(word, safe="")


def _parsed(reply: requests.Response, answer: Any) -> Any:
    if not reply.ok or reply.is_redirect:
        raise _error(reply)
    if answer is None or not reply.content:
        return None
    if answer is str:
        return reply.text
    try:
        return TypeAdapter(answer).validate_json(reply.content)
    except ValidationError as error:
        raise errors.CompactionError(
            "The service answered what this version of the client cannot read: "
            f"{error.errors()[0]['msg']}; is it another version?"
        ) from None


def _error(reply: requests.Response) -> errors.CompactionError:
    """The error that an answer stands for."""
    try:
        problem = reply.json()
        detail, kind = str(problem["detail"]), str(problem["type"]).rpartition(":")[2]
    except (ValueError, KeyError, TypeError):
        detail, kind = f"It is no service of iceberg-compaction that answers {reply.status_code} there.", ""
    status = reply.status_code
    if status == _LATER[0]:
        return errors.TooManyError(detail, retry_after_s=_seconds(reply.headers.get("Retry-After")) or 1.0)
    chosen = _KINDS.get(kind) or _ERRORS.get(status)
    if chosen is None:
        chosen = errors.ConfigError if _BAD_REQUEST <= status < _SERVER_ERROR else errors.CompactionError
    return chosen(detail)


def _events(lines: Iterator[str]) -> Iterator[tuple[str, str | None, str]]:
    kind, event_id, data = "message", None, list[str]()
    for line in lines:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "" if not line:
                if data:
                    yield kind, event_id, "\n".join(data)
                kind, data = "message", []
            case "event":
                kind = value
            case "id":
                event_id = value
            case "data":
                data.append(value)


def _wait_s(attempt: int, retry_after: str | None) -> float:
    named = _seconds(retry_after)
    return min(_LONGEST_WAIT_S, named if named is not None else _FIRST_WAIT_S * 2 ** (attempt - 1))


def _seconds(text: str | None) -> float | None:
    return float(text) if text and text.isascii() and text.isdigit() else None


def _shown(url: str) -> str:
    """The URL without a user and password."""
    parts = parse.urlsplit(url)
    host = parts.hostname or ""
    return parse.urlunsplit((parts.scheme, f"{host}:{parts.port}" if parts.port else host, parts.path, "", ""))
