"""Names as they may be printed: characters that would move the cursor, colour the screen or turn the direction of text
are spelled out, as a name comes from whoever made the table."""

from __future__ import annotations

import unicodedata

_HARMLESS = "\u200c\u200d"  # join or separate letters and emoji


def printable(text: str, *, lines: bool = False) -> str:
    """The text without control characters; `lines`: line breaks stay."""
    return "".join(one if _is_plain(one) or (lines and one == "\n") else _spelled(one) for one in text)


def _is_plain(one: str) -> bool:
    return one.isprintable() or one in _HARMLESS or unicodedata.category(one) == "Zs"


def _spelled(one: str) -> str:
    return one.encode("unicode_escape").decode("ascii")
