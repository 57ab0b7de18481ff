"""Logs on standard error. Our own loggers follow the flags; those of libraries stay at warnings, because their debug
logs show headers and properties. Known secrets are struck out of every line."""

from __future__ import annotations

import logging
import platform
import sys
from importlib import metadata
from importlib.util import find_spec
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.interfaces.cli.options import LogFormat
from iceberg_compaction.storage import redact
from iceberg_compaction.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iceberg_compaction.interfaces.cli.options import ConsoleOptions

_FORMAT = "%(asctime)s.%(msecs)03d %(levelname)-7s %(name)s: %(message)s"
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_secrets: set[str] = set()
_log = logging.getLogger(__name__)


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
    root.addHandler(_StandardError(console.log_format))
    logging.captureWarnings(console.log_format is LogFormat.JSON)
    root.setLevel(logging.WARNING)
    logging.getLogger("iceberg_compaction").setLevel(level)
    if level <= logging.INFO:
        _log.info("iceberg-compact %s, Python %s, %s", __version__, platform.python_version(), _libraries())


def _libraries() -> str:
    """The versions of libraries that results depend on."""
    names = ("pyiceberg", "pyarrow", "pyspark")
    return ", ".join(f"{name} {metadata.version(name)}" for name in names if find_spec(name) is not None)


def keep_secret(properties: Mapping[str, str]) -> None:
    """Never show the values of these properties whose names tell that they are secrets."""
    _secrets.update(redact.secrets_of(properties))


def clean(text: str) -> str:
    """The text without known secrets, and without what looks like one."""
    return redact.redact_text(text, _secrets)


def write(sentence: str, *, source: str, level: int = logging.INFO, prefix: str = "") -> None:
    """Write a sentence for people on standard error, whatever the level of logs: as a line of theirs if they are JSON,
    so that each line is an object."""
    handler = next((each for each in logging.getLogger().handlers if isinstance(each, _StandardError)), None)
    if handler is not None and handler.is_json:
        handler.emit(logging.LogRecord(f"iceberg_compaction.{source}", level, "", 0, sentence, None, None))
    else:
        sys.stderr.write(f"{prefix}{sentence}\n")
        sys.stderr.flush()


def _json_lines() -> logging.Formatter:
    from iceberg_compaction.observe import log_lines

    return log_lines.JsonLines(clean)


class _StandardError(logging.Handler):
    """Looks standard error up for every line: while bars are drawn, it is a stream that writes above them."""

    def __init__(self, log_format: LogFormat) -> None:
        super().__init__()
        self.is_json = log_format is LogFormat.JSON
        self.setFormatter(_json_lines() if self.is_json else logging.Formatter(_FORMAT, datefmt="%H:%M:%S"))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self._line(record)
            sys.stderr.write((line if self.is_json else clean(line)) + "\n")
        except OSError:
            self.handleError(record)

    def _line(self, record: logging.LogRecord) -> str:
        """A library may give arguments that do not fit its message; that is its fault, and fails nothing."""
        try:
            return self.format(record)
        except Exception as error:  # noqa: BLE001 - whatever an argument raises as text
            text = f"{record.msg} ({type(error).__name__}: its arguments do not fit)"
            return self.format(logging.LogRecord(record.name, record.levelno, "", 0, text, None, None))
