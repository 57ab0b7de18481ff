"""Logs on standard error. Our own loggers follow the flags; those of libraries stay at warnings, because their debug
logs show headers and properties. Known secrets are struck out of every line."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.storage import redact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iceberg_compaction.interfaces.cli.options import ConsoleOptions

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
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
    level = level_of(console)
    root = logging.getLogger()
    root.handlers[:] = [handler for handler in root.handlers if not isinstance(handler, _StandardError)]
    root.addHandler(_StandardError())
    root.setLevel(logging.WARNING)
    logging.getLogger("iceberg_compaction").setLevel(level)


def keep_secret(properties: Mapping[str, str]) -> None:
    """Never show the values of these properties whose names tell that they are secrets."""
    _secrets.update(redact.secrets_of(properties))


def clean(text: str) -> str:
    """The text without known secrets, and without what looks like one."""
    return redact.redact_text(text, _secrets)


class _StandardError(logging.Handler):
    """Looks standard error up for every line: while bars are drawn, it is a stream that writes above them."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s", datefmt="%H:%M:%S"))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(clean(self.format(record)) + "\n")
        except OSError:
            self.handleError(record)
