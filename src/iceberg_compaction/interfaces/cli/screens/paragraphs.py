"""Sentences that wrap at words, with the lines after the first one indented. Names and commands are never broken: they
stay one line for the terminal to wrap, so that they can be copied."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from iceberg_compaction.interfaces.cli import commands
from iceberg_compaction.interfaces.cli.screens.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, ConsoleOptions, RenderResult

    from iceberg_compaction.model.table_view import Pin


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """Text behind a mark such as `- `; its further lines begin below its first word."""

    text: str
    mark: str = ""
    style: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        indent, text = len(self.mark), printable(self.text, lines=True)
        if commands.PROGRAM in text:  # a line break in a command could not be pasted
            yield Text(f"{self.mark}{text}", style=self.style, no_wrap=True, overflow="ignore")
            return
        for number, line in enumerate(_lines(Text(text, style=self.style), options.max_width - indent)):
            yield Text(self.mark if number == 0 else " " * indent, overflow="ignore", no_wrap=True) + line


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A name and a sentence about it. A name that takes more than half of the screen has a line of its own."""

    name: str
    sentence: str
    joint: str = ": "  # between them on one line

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        name, sentence = Text(printable(self.name), style="bold"), printable(self.sentence, lines=True)
        if name.cell_len * 2 > options.max_width or commands.PROGRAM in self.sentence:
            name.no_wrap, name.overflow = True, "ignore"
            yield name
            yield Paragraph(text=sentence, mark="  ")
            return
        yield from _lines(Text.assemble(name, self.joint, sentence), options.max_width)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command to paste, behind a label; on a line of its own if it does not fit."""

    label: str
    command: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        whole = Text(f"{self.label} {self.command}")
        if whole.cell_len <= options.max_width:
            yield whole
            return
        yield Text(self.label)
        yield Text(self.command, no_wrap=True, overflow="ignore")


def _lines(text: Text, width: int) -> Iterator[Text]:
    """The text in lines that are broken between words. A word that is too long, such as a path, stays whole."""
    for paragraph in text.split("\n", allow_blank=True):
        cuts, used = [], 0
        for word in re.finditer(r"\S+\s*", paragraph.plain):
            if used and used + cell_len(word[0].rstrip()) > width:
                cuts.append(word.start())
                used = 0
            used += cell_len(word[0])
        for line in paragraph.divide(cuts):
            line.rstrip()
            line.no_wrap, line.overflow = True, "ignore"
            yield line


def bullet(text: str) -> Paragraph:
    """One item of a list."""
    return Paragraph(text=text, mark="- ")


def detail(text: str) -> Paragraph:
    """A sentence below another one."""
    return Paragraph(text=text, mark="  ")


def plan_head(table: str, pin: Pin | None, sentence: str) -> Named:
    """The first lines of a plan: the table, the snapshot that the plan was made on, and the plan in one sentence."""
    at = f"at snapshot {pin.snapshot_id} of {pin.branch}: " if pin else ""
    return Named(name=table, sentence=f"{at}{sentence}", joint=" " if pin else ": ")
