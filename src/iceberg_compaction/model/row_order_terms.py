"""What rows are sorted by: terms of a sort order with the ids of their columns, and the text that people write for it
in Iceberg's syntax, `day DESC NULLS LAST, bucket(16, id)`. A text comes in, parsed terms without ids go out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iceberg_compaction.model.value import Count, Value

if TYPE_CHECKING:
    from collections.abc import Iterator

SORTED_BY = "compaction.sorted-by"  # property of a snapshot whose new files are in an order; its value is `key`
_WIDTH_FIRST = ("bucket", "truncate")
_TIMES = {name: name.rstrip("s") for name in ("year", "years", "month", "months", "day", "days", "hour", "hours")}
_CALL = re.compile(r"(\w+)\s*\((.*)\)", re.DOTALL)
_TAIL = re.compile(r"(?i)^(.*?)(?:\s+(asc|desc))?(?:\s+nulls\s+(first|last))?\s*$", re.DOTALL)


class SortTerm(Value):
    """One term of a row order."""

    column: str  # full name
    field_id: Count = 0  # of the column in the table's schema; 0: only the name is known yet
    transform: str = "identity"  # Iceberg's name: identity, bucket[16], truncate[4], year, month, day, hour
    descending: bool = False
    nulls_first: bool = True

    @property
    def text(self) -> str:
        """The term in full, as people write it."""
        return f"{self._called(self.column)} {self._way}"

    @property
    def key(self) -> str:
        """The same by field id, so that a renamed column is the same and another of its old name is not."""
        return f"{self._called(f'#{self.field_id}')} {self._way}"

    @property
    def _way(self) -> str:
        return f"{'DESC' if self.descending else 'ASC'} NULLS {'FIRST' if self.nulls_first else 'LAST'}"

    def _called(self, column: str) -> str:
        name, _, width = self.transform.rstrip("]").partition("[")
        if name == "identity":
            return column
        return f"{name}({width}, {column})" if width else f"{name}({column})"


Terms = tuple[SortTerm, ...]


def text(terms: Terms) -> str:
    """The row order as people write it."""
    return ", ".join(term.text for term in terms)


def key(terms: Terms) -> str:
    """The row order by field ids: equal for two orders only if they sort the same columns in the same way."""
    return ", ".join(term.key for term in terms)


def parse(given: str) -> Terms:
    """The terms of a text; ids are not known yet. ValueError: the text is no row order."""
    terms = tuple(_term(part.strip()) for part in _parts(given))
    columns = [(term.column, term.transform) for term in terms]
    if twice := next((column for column in columns if columns.count(column) > 1), None):
        raise ValueError(f"the column {twice[0]} is named twice")
    return terms


def _parts(given: str) -> Iterator[str]:
    """The text cut at commas that are neither in parentheses nor in quotes."""
    depth, quoted, start = 0, False, 0
    for at, letter in enumerate(given):
        quoted ^= letter in '`"'
        depth += 0 if quoted else (letter == "(") - (letter == ")")
        if letter == "," and not depth and not quoted:
            yield given[start:at]
            start = at + 1
    if depth or quoted:
        raise ValueError(f"{given!r} has an open parenthesis or quote")
    yield given[start:]


def _term(part: str) -> SortTerm:
    match = _TAIL.match(part)
    if match is None or not match[1]:
        raise ValueError("a column is missing; write it as `day DESC NULLS LAST, id`")
    descending = (match[2] or "asc").lower() == "desc"
    nulls = (match[3] or ("last" if descending else "first")).lower()  # as in Iceberg
    column, transform = _column(match[1].strip())
    return SortTerm(column=column, transform=transform, descending=descending, nulls_first=nulls == "first")


def _column(called: str) -> tuple[str, str]:
    """The column and the transform of `id`, `bucket(16, id)` or `days(at)`."""
    call = _CALL.fullmatch(called)
    if call is None:
        return _name(called), "identity"
    function, arguments = call[1].lower(), [argument.strip() for argument in _parts(call[2])]
    if function == "zorder":
        raise ValueError("zorder is not available yet; name the columns in a row, the most important one first")
    if function in _TIMES and len(arguments) == 1:
        return _name(arguments[0]), _TIMES[function]
    if function in _WIDTH_FIRST and len(arguments) == 2:
        width = next((one for one in arguments if one.isascii() and one.isdigit() and int(one) > 0), None)
        if width is not None:
            column = arguments[1 - arguments.index(width)]
            return _name(column), f"{function}[{int(width)}]"
    raise ValueError(f"{called!r} is not a column, nor bucket(16, id), truncate(4, name), year, month, day or hour")


def _name(text: str) -> str:
    name = text.replace("`", "").replace('"', "")
    quoted = text[:1] in '`"' and text[-1:] in '`"'
    if not name or (not quoted and any(letter.isspace() for letter in name)):
        raise ValueError(f"{text!r} is not the name of a column; put odd names into `backticks`")
    return name
