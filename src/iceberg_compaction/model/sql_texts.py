"""What a text in quotes means in Spark's SQL: a quote written twice, and escapes. Filters and statements come in as
people wrote them for Spark, and must mean the same here."""

from __future__ import annotations

import re

_ESCAPE = re.compile(
    r"(?P<twice>''|\"\")|\\(?:u(?P<hex>[0-9a-fA-F]{4})|(?P<octal>[0-3][0-7]{2})|(?P<letter>.))", re.DOTALL
)
# LIKE takes a meaning from \% and \_, and so they stay.
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0", "Z": "\x1a", "%": r"\%", "_": r"\_"}


def unquoted(quoted: str) -> str:
    """The text of a literal in single or double quotes."""
    quote = quoted[0]

    def meant(match: re.Match[str]) -> str:
        if twice := match["twice"]:
            return quote if twice[0] == quote else twice
        if match["hex"]:
            return chr(int(match["hex"], 16))
        return chr(int(match["octal"], 8)) if match["octal"] else _LETTERS.get(match["letter"], match["letter"])

    text = _ESCAPE.sub(meant, quoted[1:-1])
    # Two halves of a character may be written one after the other.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if r"\u" in quoted else text
