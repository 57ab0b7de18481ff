"""Small pieces of HTML that several parts of the report share. Text comes in plain and goes out escaped, except where a
docstring says that it is HTML already."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_CODE = re.compile(r"`([^`]+)`|^(Run: )(.+)$")
_PROGRAM = "iceberg-compact"
_PARTS = re.compile(r"(?<=[._/-])(?=[^._/-])")


def badge(state: str) -> str:
    """A state as a coloured word."""
    return f'<span class="badge {state}">{state}</span>'


def command(text: str) -> str:
    """A command on a line of its own. The script shows the button, because it does nothing without the script."""
    return (
        f'<span class="command"><code>{escape(text)}</code>'
        '<button type="button" class="copy" aria-label="Copy this command" hidden>Copy</button></span>'
    )


def name(text: str) -> str:
    """A name that breaks after its punctuation if it is too long for the line. Its direction is its own."""
    return f"<bdi>{'<wbr>'.join(escape(part) for part in _PARTS.split(text))}</bdi>"


def sentence(text: str) -> str:
    """A sentence, with its commands as commands and its other code as code: code is in backticks or follows `Run:`."""
    pieces, end = [], 0
    for match in _CODE.finditer(text):
        code = match[1] or match[3]
        pieces.append(escape(text[end : match.start()]) + escape(match[2] or ""))
        pieces.append(command(code) if match[3] or _PROGRAM in code else f"<code>{escape(code)}</code>")
        end = match.end()
    rest = text[end:]
    return "".join(pieces) + ("" if pieces and rest == "." and pieces[-1].endswith("</span>") else escape(rest))


def table(names: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str) -> str:
    """A table whose rows become cards on narrow screens. Cells are HTML already; a name that starts with `>` is
    right-aligned."""
    body = "".join(row([cell(name, text) for name, text in zip(names, each, strict=True)]) for each in rows)
    return (
        f'<table role="table" class="cards"><caption class="unseen">{escape(caption)}</caption>'
        f'{head(names)}<tbody role="rowgroup">{body}</tbody></table>'
    )


def tiles(figures: Iterable[tuple[str, str]]) -> str:
    """Large figures in a row, each with its name."""
    items = "".join(
        f'<li class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></li>' for value, name in figures
    )
    return f'<ul class="tiles">{items}</ul>'


def bars(rows: Sequence[tuple[str, int]]) -> str:
    """A bar for each name, as long as its number."""
    most = max((number for _, number in rows), default=0) or 1
    items = "".join(
        f'<div><dt>{escape(name)}</dt><dd><span class="meter"><i style="width:{100 * number / most:.1f}%"></i></span>'
        f"<b>{number:,}</b></dd></div>"
        for name, number in rows
    )
    return f'<dl class="bars">{items}</dl>'


def card(title: str, content: str) -> str:
    """A part of a page under its title. `content` is HTML already."""
    return f'<section class="card"><h2>{escape(title)}</h2>{content}</section>'


def head(names: Sequence[str]) -> str:
    """The first row of a table."""
    cells = (f'<th role="columnheader" scope="col"{_aligned(name)}>{escape(name.lstrip(">"))}</th>' for name in names)
    return f'<thead role="rowgroup"><tr role="row">{"".join(cells)}</tr></thead>'


def row(cells: Sequence[str], attributes: str = "") -> str:
    """A row of cells, which are HTML already."""
    return f'<tr role="row"{attributes}>{"".join(cells)}</tr>'


def cell(name: str, text: str, *, order: float | str | None = None) -> str:
    """A cell under the name of its column. `text` is HTML already; `order` is the value that rows are sorted by."""
    value = "" if order is None else f' data-order="{escape(str(order))}"'
    return f'<td role="cell" data-label="{escape(name.lstrip(">"))}"{_aligned(name)}{value}>{text}</td>'


def _aligned(name: str) -> str:
    return ' class="n"' if name.startswith(">") else ""
