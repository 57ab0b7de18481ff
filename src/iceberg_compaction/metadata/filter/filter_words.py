"""The words of a filter: names, texts, numbers and marks, each with its place. A text comes in, words go out; what is
no word is told with its place."""

from __future__ import annotations

import decimal
import re
from dataclasses import dataclass

from pyiceberg.expressions import literals

from iceberg_compaction.model import sql_texts

KEYWORDS = frozenset({"and", "or", "not", "is", "in", "null", "nan", "like", "between", "true", "false"})
_WORD = re.compile(
    r"""(?:
        (?P<text>'(?:[^'\\]|\\.|'')*')
      | (?P<quoted>"(?:[^"\\]|\\.|"")*")
      | (?P<name>`(?:[^`]|``)+`|[^\W\d][\w$]*)
      | (?P<number>[+-]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)(?:[lLsSyYdDfF]|[bB][dD])?(?![\w.])
      | (?P<mark><=>|<=|>=|<>|!=|==|[<>=(),.+-])
    )""",
    re.VERBOSE | re.DOTALL,
)
_SHOWN = 36  # characters on each side of the place that an error points at: a line of 80 is not broken


class FilterError(ValueError):
    """What is wrong with a filter, and from where on. `lead`: the beginning of the sentence."""

    def __init__(self, words: str, at: int, lead: str = "cannot be read") -> None:
        super().__init__(words)
        self.at, self.lead = at, lead


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A word of a filter. `kind`: text, quoted, name, number, mark or end."""

    kind: str
    text: str
    at: int
    end: int  # the place after it

    @property
    def keyword(self) -> str:
        """The keyword that it is; empty: it is none."""
        lower = self.text.lower()
        return lower if self.kind == "name" and lower in KEYWORDS else ""

    @property
    def plain(self) -> str:
        """A name without quotes, in lower case; empty: it is none."""
        return self.text.lower() if self.kind == "name" and not self.text.startswith("`") else ""

    @property
    def shown(self) -> str:
        return "the end" if self.kind == "end" else repr(self.text if len(self.text) <= 40 else f"{self.text[:40]}…")

    def is_mark(self, mark: str) -> bool:
        return self.kind == "mark" and self.text == mark


def cut(text: str) -> list[Word]:
    """The words, and one for the end. FilterError: something is no word."""
    words, at = [], 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        match = _WORD.match(text, at)
        if match is None:
            raise FilterError(_wrong(text, at), at)
        kind = match.lastgroup or ""
        words.append(Word(kind=kind, text=match[kind], at=at, end=match.end()))
        at = match.end()
    return [*words, Word(kind="end", text="", at=len(text), end=len(text))]


def _wrong(text: str, at: int) -> str:
    if text[at] in "'\"`":
        return f"the quote {text[at]} has no end"
    return f"{text[at]!r} has no meaning here"


def name_of(word: Word) -> str:
    """The name that a word stands for, without its quotes."""
    if word.text.startswith("`"):
        return word.text[1:-1].replace("``", "`")
    return word.text[1:-1].replace('""', '"').replace('\\"', '"') if word.kind == "quoted" else word.text


def text_of(word: Word) -> str:
    """The text within quotes."""
    return sql_texts.unquoted(word.text)


def number_of(word: Word) -> literals.Literal[int] | literals.Literal[decimal.Decimal]:
    """A number as a literal. FilterError: it has more digits than any column."""
    try:
        if any(mark in word.text for mark in ".eE"):
            return literals.DecimalLiteral(decimal.Decimal(word.text))
        return literals.LongLiteral(int(word.text))
    except (ValueError, ArithmeticError):
        raise FilterError("the number is out of every range", word.at) from None


def pointed_at(text: str, at: int) -> str:
    """The part of the text around a place, and below it a caret."""
    start, end = (0, len(text)) if len(text) <= 2 * _SHOWN else (max(0, at - _SHOWN), at + _SHOWN)
    before = "…" if start else ""
    line = "".join(letter if letter.isprintable() else " " for letter in text[start:end])
    return f"\n  {before}{line}{'…' if end < len(text) else ''}\n  {' ' * (len(before) + at - start)}^"
