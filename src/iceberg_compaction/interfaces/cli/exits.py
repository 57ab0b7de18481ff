"""How a command ends: the one table from error to exit code, and the one sentence on standard error. A traceback is for
developers, so it is a debug log."""

from __future__ import annotations

import functools
import logging
import re
import sys
from typing import TYPE_CHECKING, Any

import typer

from iceberg_compaction import errors
from iceberg_compaction.interfaces import user_folders
from iceberg_compaction.interfaces.cli import commands, logs
from iceberg_compaction.interfaces.cli.options import Format

if TYPE_CHECKING:
    from collections.abc import Callable

DONE, FAILED, USAGE, SICK, CANCELLED = 0, 1, 2, 3, 130

# The first class that fits counts.
_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (errors.SetupError, FAILED),
    (errors.ConfigError, USAGE),
    (errors.CancelledError, CANCELLED),
    (KeyboardInterrupt, CANCELLED),
    (BaseException, FAILED),
)

_DOUBLE_STOP = re.compile(r"(?<!\.)\.\.(?=\s|$)")
_log = logging.getLogger(__name__)


def code_of(error: BaseException) -> int:
    """The exit code for an error."""
    return next(code for kind, code in _CODES if isinstance(error, kind))


def sentence_of(error: BaseException) -> str:
    """The error in one sentence, never with a secret in it."""
    if isinstance(error, KeyboardInterrupt):
        said = "Cancelled; what was committed before stays, and nothing else is left behind."
    elif isinstance(error, errors.CompactionError):
        said = str(error)
    else:
        said = f"Unexpected {type(error).__name__}: {error} (this is a defect; -vv shows where)"
    said = _DOUBLE_STOP.sub(".", said)  # the words of a library may end with one of their own
    return commands.complete(logs.clean(said))


def complain(error: BaseException) -> None:
    """Say what went wrong, on standard error."""
    complain_in_words(sentence_of(error))
    _log.debug("where it happened", exc_info=error)


def complain_in_words(sentence: str) -> None:
    """The same for trouble that is no error of the whole command."""
    logs.write(sentence, source="cli", level=logging.ERROR, prefix="error: ")


def print_document(error: BaseException) -> None:
    """The error as a JSON document, in place of the results."""
    from iceberg_compaction.interfaces import documents

    content = {
        "kind": "error",
        "error": type(error).__name__,
        "sentence": sentence_of(error),
        "retryable": isinstance(error, errors.CompactionError) and error.retryable,
        "exit_code": code_of(error),
    }
    sys.stdout.write(documents.text(content))


def reported(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb, with every error turned into its sentence and exit code."""

    @functools.wraps(verb)
    def call(*args: Any, **values: Any) -> None:
        commands.remember(values)
        try:
            user_folders.ensure_temporary_folder()
            verb(*args, **values)
        except (typer.Exit, BrokenPipeError):
            raise
        except typer.Abort:  # Ctrl-C or the end of the input, instead of an answer
            complain(KeyboardInterrupt())
            raise typer.Exit(CANCELLED) from None
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 nothing is above this but the shell
            complain(error)
            if values.get("output") is Format.JSON:
                print_document(error)
            raise typer.Exit(code_of(error)) from None

    return call
