"""Wrong usage in one sentence, in the same form as every other error, and where to read on."""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING, Any

import typer

from iceberg_compaction.interfaces.cli import commands, logs
from iceberg_compaction.model import validation_words

if TYPE_CHECKING:
    from collections.abc import Sequence

USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]  # typer does not export it


def complain(error: Any) -> str:
    """The sentence, which is written to standard error."""
    sentence = f"{validation_words.text(error.format_message())}."
    sentence = logs.clean(f"{sentence[:-1]}" if sentence.endswith("?.") else sentence)
    sys.stderr.write(f"error: {sentence}\n")
    if error.ctx is not None:
        called = error.ctx.command_path.replace(commands.PROGRAM, commands.program(), 1)
        sys.stderr.write(f"Try '{called} {error.ctx.help_option_names[0]}'.\n")
    return sentence


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether a program reads the output, as far as arguments tell that were not understood."""
    pairs = itertools.pairwise([*arguments, ""])
    return any(name == "--output=json" or (name, value) == ("--output", "json") for name, value in pairs)
