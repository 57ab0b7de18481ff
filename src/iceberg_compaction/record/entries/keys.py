"""Keys of entries: words with `/` between them. A word may be any text, such as the name of a table."""

from __future__ import annotations

from urllib import parse

_LATEST_MS = 10**14 - 1


def key(*words: str | int) -> str:
    """A key of these words. Numbers keep their order."""
    return "/".join(f"{word:016d}" if isinstance(word, int) else parse.quote(word, safe="") for word in words)


def prefix(*words: str | int) -> str:
    """The beginning of all keys that have these words first."""
    return key(*words) + "/"


def words(text: str) -> list[str]:
    """The words of a key."""
    return [parse.unquote(word) for word in text.split("/")]


def newest_first(milliseconds: int) -> int:
    """A number by which later times come first."""
    return _LATEST_MS - milliseconds
