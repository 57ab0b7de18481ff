"""Keeps other sites out of a service that asks for no token: a browser on this machine reaches it, and whatever page is
open there could use it. A name of another site that leads here (DNS rebinding) and requests that another site's page
sends are refused; programs send no Origin, and use the names of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from iceberg_compaction import errors
from iceberg_compaction.interfaces.service.service_settings import LOOPBACK

if TYPE_CHECKING:
    from starlette.requests import Request

_READING = ("GET", "HEAD", "OPTIONS")  # a page of another site cannot see the answers to these


def check(request: Request, *, is_fixed: bool) -> None:
    """ForbiddenError: another site is behind a request of somebody without a token. `is_fixed`: AUTH=none is written
    out, so that the service may have any name."""
    host = request.headers.get("host", "")
    if not is_fixed and _name(host) not in LOOPBACK:
        raise errors.ForbiddenError(
            f"Without a token the service answers to the names of this machine alone, not to {host[:100]!r}; make a "
            "token with `iceberg-compact token create NAME --role admin`, or write AUTH=none."
        )
    origin = request.headers.get("origin")
    if origin is not None and request.method not in _READING and _authority(origin) != host.lower():
        raise errors.ForbiddenError(
            f"A page of another site ({origin[:100]}) may not use a service that asks for no token."
        )


def _authority(origin: str) -> str:
    """Host and port of an origin. The scheme may be that of a proxy."""
    return origin.lower().partition("://")[2]


def _name(host: str) -> str:
    """The name in a Host header; empty: there is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
