"""Amazon's signature, version 4, of one request to S3. A request and keys come in; the headers to send go out."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

_ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    access_key: str
    secret_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)
    region: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsigned:
    """A request; its path is percent-encoded already, and its query, too, in the order of names."""

    method: str
    host: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    query: str = ""


def sign(request: Unsigned, keys: Keys, now: datetime) -> dict[str, str]:
    """The request's headers with those of the signature."""
    time, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    payload = hashlib.sha256(request.body).hexdigest()
    headers = {name.lower(): value for name, value in request.headers.items()}
    headers |= {"host": request.host, "x-amz-content-sha256": payload, "x-amz-date": time}
    if keys.session_token:
        headers["x-amz-security-token"] = keys.session_token
    names = ";".join(sorted(headers))
    lines = [f"{name}:{headers[name].strip()}" for name in sorted(headers)]
    canonical = "\n".join([request.method, request.path, request.query, *lines, "", names, payload])
    scope = f"{day}/{keys.region}/s3/aws4_request"
    text = "\n".join([_ALGORITHM, time, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{keys.secret_key}".encode()
    for part in (day, keys.region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signed = hmac.digest(key, text.encode(), "sha256").hex()
    credential = f"{keys.access_key}/{scope}"
    headers["authorization"] = f"{_ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={signed}"
    return headers
