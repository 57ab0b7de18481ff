"""Logs on standard error. Our own loggers follow the flags; those of libraries stay at warnings, because their debug
logs show headers and properties. Known secrets are struck out of every line."""

from __future__ import annotations

import logging
import re
import sys
from typing import TYPE_CHECKING

from iceberg_compaction import errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iceberg_compaction.interfaces.cli.options import ConsoleOptions

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_SECRET_KEY = re.compile(r"secret|token|password|credential|access-key|account-key|sas", re.IGNORECASE)
_URI_PASSWORD = re.compile(r"(?<=://)([^/@:\s]*):([^@/\s]+)@")
_secrets: set[str] = set()


def level_of(console: ConsoleOptions) -> int:
    """The level that the flags ask for."""
    if console.log_level is not None:
        level = _LEVELS.get(console.log_level.lower())
        if level is None:
            raise errors.ConfigError(f"{console.log_level!r} is not a log level; choose one of {', '.join(_LEVELS)}.")
        return level
    if console.quiet:
        return logging.ERROR
    return (logging.WARNING, logging.INFO, logging.DEBUG)[min(console.verbose, 2)]


def configure(console: ConsoleOptions) -> None:
    """Send logs to standard error at the level that was asked for."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Redacting("%(asctime)s %(levelname)-7s %(name)s: %(message)s", datefmt="%H:%M:%S"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("iceberg_compaction").setLevel(level_of(console))


def keep_secret(properties: Mapping[str, str]) -> None:
    """Never show the values of these properties whose names tell that they are secrets."""
    for key, value in properties.items():
        if _SECRET_KEY.search(key):
            # A credential is `id:secret`; the secret alone must not show either.
            _secrets.update(part for part in (value, value.rpartition(":")[2]) if len(part) >= 4)


def redact(text: str) -> str:
    """The text without known secrets and without passwords in URIs."""
    for secret in sorted(_secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return _URI_PASSWORD.sub(r"\1:***@", text)


class _Redacting(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))
