"""Keeps secrets out of what people read. Properties and third-party text come in, the same without secrets goes out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

HIDDEN = "***"

_SECRET_KEY = re.compile(
    r"secret|password|passwd|token(?!-expires|-refresh)|credential|access[-_.]?key|account[-_.]?key|sas[-_.]|"
    r"connection-string|authorization|private|signature|^key$|api[-_.]?key",
    re.IGNORECASE,
)
_PATTERNS = (
    # scheme://user:password@host; a lone user name is hidden too, since some services take a token there
    (re.compile(r"(?<=://)[^/\s@'\"]+@"), f"{HIDDEN}@"),
    (re.compile(r"\b(Bearer|Basic)\s+(?!token\b)[\w.~+/=-]{6,}", re.IGNORECASE), rf"\1 {HIDDEN}"),
    (
        re.compile(
            r"(?P<key>[\w.-]*(?:password|passwd|secret|token|credential|signature|(?:access|account)[-_]?key)[\w.-]*"
            r"['\"]?\s*[=:]\s*['\"]?)(?P<value>[^\s'\",;&)}]{4,})",
            re.IGNORECASE,
        ),
        rf"\g<key>{HIDDEN}",
    ),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b"), HIDDEN),
    # What signs a URL of Azure, and who signs a request to it
    (re.compile(r"\b(sig=|SharedKey(?:Lite)?\s+[\w-]+:)[^\s'\",;&)}]{4,}", re.IGNORECASE), rf"\1{HIDDEN}"),
)
_SHORTEST = 4  # replacing shorter values would garble ordinary words and protect nothing


def is_secret(key: str) -> bool:
    """Whether the value of a property of this name must not be shown."""
    return _SECRET_KEY.search(key) is not None


def redact_properties(properties: Mapping[str, Any]) -> dict[str, str]:
    """Properties fit to be shown: secrets hidden, everything else as text."""
    return {key: HIDDEN if is_secret(key) else redact_text(str(value)) for key, value in properties.items()}


def secrets_of(properties: Mapping[str, Any]) -> frozenset[str]:
    """The secret values in catalog properties, nested ones and the URI's password included."""
    secrets: set[str] = set()
    for key, value in properties.items():
        if isinstance(value, dict):
            secrets |= secrets_of(value)
        elif isinstance(value, str):
            if is_secret(key):
                secrets |= {value, value.partition(":")[2]}  # a credential is `client-id:client-secret`
            if key == "uri":
                secrets |= _password(value)
    return frozenset(text for text in secrets if len(text) >= _SHORTEST)


def redact_text(text: str, secrets: Iterable[str] = ()) -> str:
    """Text without the given secrets, and without parts that look like secrets."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def _password(uri: str) -> set[str]:
    try:
        password = urlsplit(uri).password
    except ValueError:
        return set()
    return {password, unquote(password)} if password else set()
