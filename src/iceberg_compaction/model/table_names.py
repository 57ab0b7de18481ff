"""Names of tables as text: `namespace.table`, namespaces nested with dots. A part that has a dot of its own, or begins
with a quote, stands in double quotes, as in SQL, or in Spark's backticks, so that no text means two tables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iceberg_compaction import errors

if TYPE_CHECKING:
    from collections.abc import Iterable

_PLAIN = r"""[^.\s"`](?:[^.]*[^.\s])?"""
_PART = re.compile(rf"""\s*(?:"((?:[^"]|"")+)"|`((?:[^`]|``)+)`|({_PLAIN}))\s*""")


def parse(name: str) -> tuple[str, ...]:
    """The parts of a table's name."""
    parts, at = [], 0
    while found := _PART.match(name, at):
        quoted, ticked, plain = found.groups()
        parts.append(plain or (quoted or "").replace('""', '"') or ticked.replace("``", "`"))
        at = found.end()
        if name[at : at + 1] != ".":
            break
        at += 1
    if not parts or at != len(name) or name.endswith("."):
        raise errors.ConfigError(f"{name!r} is not a table name; write it like namespace.table.")
    if len(parts) < 2:
        raise errors.ConfigError(f"The table name {name!r} has no namespace; write it like namespace.{name.strip()}.")
    return tuple(parts)


def text(identifier: Iterable[str]) -> str:
    """The name of which `parse` makes the same parts."""
    return ".".join(part if re.fullmatch(_PLAIN, part) else _quoted(part) for part in identifier)


def _quoted(part: str) -> str:
    escaped = part.replace('"', '""')
    return f'"{escaped}"'
