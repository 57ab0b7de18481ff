"""Names of tables as text: `namespace.table`, namespaces nested with dots. A part that has a dot of its own, or begins
with a quote, stands in double quotes, as in SQL, or in Spark's backticks, so that no text means two tables. In a
pattern `*`, `?` and `[…]` are wildcards outside of quotes only."""

from __future__ import annotations

import fnmatch
import glob
import re
from typing import TYPE_CHECKING

from iceberg_compaction import errors

if TYPE_CHECKING:
    from collections.abc import Iterable

_PLAIN = r"""[^.\s"`](?:[^.]*[^.\s])?"""
_QUOTED = r"""(?:"((?:[^"]|"")+)"|`((?:[^`]|``)+)`)"""
_PART = re.compile(rf"""\s*(?:{_QUOTED}|({_PLAIN}))\s*""")
_QUOTED_PART = re.compile(rf"(?:(?<=^)|(?<=\.))\s*{_QUOTED}\s*(?=\.|$)")
_WILDCARDS = re.compile(r"[*?\[]")
_PLAIN_IN_SPARK = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def parse(name: str) -> tuple[str, ...]:
    """The parts of a table's name; a single one if it has no namespace."""
    parts, at = [], 0
    while found := _PART.match(name, at):
        quoted, ticked, plain = found.groups()
        parts.append(plain or _unquoted(quoted, ticked))
        at = found.end()
        if name[at : at + 1] != ".":
            break
        at += 1
    if not parts or at != len(name) or name.endswith("."):
        raise errors.ConfigError(f"{name!r} is not a table name; write it like namespace.table.")
    return tuple(parts)


def first_part(name: str) -> tuple[str, str]:
    """The first part of a name or a pattern, and the text of all others; that is empty if there are no others."""
    part = _PART.match(name)
    if part is None or name[part.end() : part.end() + 1] != ".":
        return name, ""
    quoted, ticked, plain = part.groups()
    return plain or _unquoted(quoted, ticked), name[part.end() + 1 :]


def is_pattern(name: str) -> bool:
    """Whether the text has a wildcard outside of quotes, and so stands for any number of tables."""
    return _WILDCARDS.search(_QUOTED_PART.sub("", name)) is not None


def glob_pattern(pattern: str) -> str:
    """The pattern for names that `text` made: quoted parts mean themselves, and all else is as it is."""
    return _QUOTED_PART.sub(lambda part: glob.escape(text([_unquoted(*part.groups())])), pattern.strip())


def within(namespace: str, pattern: str) -> str:
    """A pattern without a namespace as one of this namespace; another pattern as it is."""
    if "." in _QUOTED_PART.sub("", pattern):
        return pattern
    return f"{glob.escape(text(parse(namespace)))}.{pattern}"


def matches(name: str, pattern: str) -> bool:
    """Whether a name that `text` made fits a pattern, or is the very text of it. Quotes of the name are no letters of
    it: `a*` means a table `a.b` as well."""
    wanted = glob_pattern(pattern)
    if fnmatch.fnmatchcase(name, wanted) or name == pattern:
        return True
    return is_pattern(pattern) and fnmatch.fnmatchcase(".".join(parse(name)), wanted)


def text(identifier: Iterable[str]) -> str:
    """The name of which `parse` makes the same parts."""
    return ".".join(part if re.fullmatch(_PLAIN, part) else _quoted(part) for part in identifier)


def spark_text(identifier: Iterable[str]) -> str:
    """The name as Spark SQL takes it: odd parts are in backticks."""
    return ".".join(part if _PLAIN_IN_SPARK.fullmatch(part) else f"`{part.replace('`', '``')}`" for part in identifier)


def _unquoted(quoted: str | None, ticked: str | None) -> str:
    return quoted.replace('""', '"') if quoted is not None else (ticked or "").replace("``", "`")


def _quoted(part: str) -> str:
    escaped = part.replace('"', '""')
    return f'"{escaped}"'
