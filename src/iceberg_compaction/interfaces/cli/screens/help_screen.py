"""The help of the command line: plain text that is complete at any width and loads nothing heavy. Names of options are
never cut, and examples that are too long are broken where a shell goes on reading."""

from __future__ import annotations

import re
import shutil
import textwrap
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_WIDEST = 100  # columns; longer lines are hard to read
_NARROW = 70  # columns; below, the meaning of an option is below its name
_WIDEST_NAMES = 34
_OWN, _ARGUMENTS = "Options", "Arguments"
_EXTRAS = re.compile(r"\s*\[([^\[\]]*)\]$")


class VerbCommand(TyperCommand):
    """A verb with this help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(text(self, ctx))


def text(command: Any, ctx: Any) -> str:
    """The help of a verb, or of the whole application."""
    width = min(shutil.get_terminal_size().columns, _WIDEST)
    pieces = (piece.strip("{}") for piece in command.collect_usage_pieces(ctx))
    usage = " ".join(("Usage:", ctx.command_path, *pieces))
    lines = [usage, "", *_description(command.help or "", width)]
    for title, rows in _sections(command, ctx).items():
        lines += ["", f"{title}:", *_rows(rows, width)]
    return "\n".join(lines) + "\n"


def _description(given: str, width: int) -> Iterator[str]:
    """Paragraphs, wrapped; indented ones are examples and follow each other closely."""
    before = ""
    for paragraph in re.split(r"\n\s*\n", textwrap.dedent(given).strip("\n")):
        example = paragraph.startswith("    ")
        if before and not (example and before in ("example", "label")):
            yield ""
        if example:
            yield from example_lines(paragraph.strip(), width)
        else:
            yield from textwrap.wrap(" ".join(paragraph.split()), width, break_on_hyphens=False)
        before = "example" if example else "label" if paragraph.rstrip().endswith(":") else "text"


def example_lines(command: str, width: int) -> Iterator[str]:
    """A command, broken in front of options with a backslash where it is too long."""
    line = "  "
    for piece in re.split(r" (?=-)", " ".join(command.split())):
        if line.strip() and len(line) + len(piece) + 3 > width:
            yield f"{line} \\"
            line = "      " + piece
        else:
            line = f"{line} {piece}" if line.strip() else f"  {piece}"
    yield line


def _sections(command: Any, ctx: Any) -> dict[str, list[tuple[str, str]]]:
    """Names and meanings by title: arguments, own options, those that verbs share, verbs."""
    found: dict[str, list[tuple[str, str]]] = {_ARGUMENTS: [], _OWN: []}
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is None:
            continue
        argument = parameter.param_type_name == "argument"
        title = _ARGUMENTS if argument else getattr(parameter, "rich_help_panel", None) or _OWN
        names = _argument_name(parameter, record[0]) if argument else _option_names(parameter, record[0])
        found.setdefault(title, []).append((names, _meaning(parameter, record[1])))
    verbs = {name: command.get_command(ctx, name) for name in getattr(command, "commands", {})}
    found["Commands"] = [(name, _first_sentence(verb.help or "")) for name, verb in verbs.items() if not verb.hidden]
    return {title: rows for title, rows in found.items() if rows}


def _argument_name(parameter: Any, record: str) -> str:
    """`FILE`, or the words to choose from."""
    return str(parameter.metavar or record.rpartition(" ")[2].strip("<>[]"))


def _option_names(parameter: Any, record: str) -> str:
    """`-t, --table NAME`: a value has a name, a flag has none."""
    names = sorted(parameter.opts, key=len) + list(parameter.secondary_opts)
    if parameter.is_flag or parameter.count:
        return ", ".join(names)
    value = record.rpartition(" ")[2].strip("<>[]")
    if value in ("str", "TEXT"):
        value = names[-1].rpartition("-")[2].upper()
    return f"{', '.join(names)} {'N' if value in ('int', 'INTEGER') else value}"


def _meaning(parameter: Any, record: str) -> str:
    """The help of a parameter, with its default and whether it is required in words."""
    extras = _EXTRAS.search(record)
    plain = _EXTRAS.sub("", record).strip()
    kept = [one for one in (extras[1].split("; ") if extras else ()) if not getattr(parameter, "count", False)]
    shown = [re.sub(r"^x>=(\d+)$", r"at least \1", one) for one in kept]
    return f"{plain} [{'; '.join(shown)}]" if shown else plain


def _first_sentence(given: str) -> str:
    first = " ".join(given.split("\n\n")[0].split())
    return re.split(r"(?<=\.) ", first)[0]


def _rows(rows: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    """Names and, beside them, their meanings; below them where a name is long or the screen narrow."""
    fitting = [len(names) for names, _ in rows if len(names) <= _WIDEST_NAMES]
    column = 2 + max(fitting, default=0) + 2 if width >= _NARROW else 6
    for names, meaning in rows:
        lines = textwrap.wrap(meaning, max(width - column, 20), break_on_hyphens=False, break_long_words=False)
        if len(names) + 4 <= column and lines:
            yield f"  {names}".ljust(column) + lines.pop(0)
        else:
            yield f"  {names}"
        yield from (" " * column + line for line in lines)
