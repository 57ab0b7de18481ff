"""Wrong usage in one sentence, in the same form as every other error, and where to read on."""

from __future__ import annotations

import sys
from typing import Any

import typer

from iceberg_compaction.interfaces.cli import commands, logs
from iceberg_compaction.model import validation_words

USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]  # typer does not export it


def complain(error: Any) -> None:
    """The sentence on standard error."""
    message = validation_words.text(error.format_message())
    sys.stderr.write(logs.clean(f"error: {message}.\n".replace("?.\n", "?\n")))
    if error.ctx is not None:
        called = error.ctx.command_path.replace(commands.PROGRAM, commands.program(), 1)
        sys.stderr.write(f"Try '{called} {error.ctx.help_option_names[0]}'.\n")
