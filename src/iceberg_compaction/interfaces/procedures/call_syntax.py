"""Reads `CALL catalog.system.procedure(...)` as Spark does: named and positional arguments, strings in either quotes,
numbers, booleans, NULL, map(...), array(...), TIMESTAMP '...' and DATE '...'. Text comes in, a call with plain values
goes out; an error shows the place."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from iceberg_compaction import errors
from iceberg_compaction.metadata.filter import filter_words, time_values
from iceberg_compaction.model import sql_texts

_TOKEN = re.compile(
    r"""(?:
        (?P<string>(?:[rR]?'(?:[^'\\]|\\.|'')*')|(?:[rR]?"(?:[^"\\]|\\.|"")*"))
      | (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[LSYDlsyd]?)
      | (?P<name>`(?:[^`]|``)+`|[^\W\d]\w*)
      | (?P<mark>=>|[(),.;\[\]=:+-])
    )""",
    re.VERBOSE,
)
_SKIPPED = re.compile(r"\s+|--[^\n]*|/\*.*?\*/", re.DOTALL)  # spaces, or one comment
_MOMENTS = ("timestamp", "timestamp_ntz", "timestamp_ltz", "date")
_END = "the end"
_STATEMENT = "CALL catalog.system.procedure(...)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A literal such as TIMESTAMP '2026-01-31 08:00:00', or words that have to be computed, such as now() - interval 5
    days."""

    text: str
    computed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcedureCall:
    """A procedure with its arguments: those by position, then those by name."""

    catalog: str | None
    procedure: str
    positional: tuple[Any, ...] = ()
    named: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Token:
    kind: str
    text: str
    at: int


def parse(statement: str) -> ProcedureCall:
    """The call of a statement. ConfigError: it is none, with the place that cannot be read."""
    return _CallReader(statement).call()


class _CallReader:
    def __init__(self, statement: str) -> None:
        self._text = statement
        self._tokens = self._cut()
        self._next = 0

    def call(self) -> ProcedureCall:
        self._word("call")
        path = [self._name()]
        while self._take("."):
            path.append(self._name())
        if len(path) > 3 or (len(path) > 1 and path[-2].lower() != "system"):
            raise self._wrong(self._tokens[1], "a procedure such as catalog.system.rewrite_data_files")
        self._expect("(")
        positional: list[Any] = []
        named: dict[str, Any] = {}
        while not self._take(")"):
            self._argument(positional, named)
            if not self._take(","):
                self._expect(")")
                break
        self._take(";")
        if self._peek().kind != "end":
            raise self._wrong(self._peek(), "the end of the statement")
        catalog = path[0] if len(path) == 3 else None
        return ProcedureCall(catalog=catalog, procedure=path[-1].lower(), positional=tuple(positional), named=named)

    def _argument(self, positional: list[Any], named: dict[str, Any]) -> None:
        token = self._peek()
        follows = self._tokens[self._next + 1] if self._next + 1 < len(self._tokens) else token
        if token.kind == "name" and follows.text == "=>":
            name = self._name().lower()
            self._expect("=>")
            if name in named:
                raise self._wrong(token, f"each argument once; {name} is there twice")
            named[name] = self._value()
        elif named:
            raise self._wrong(token, "a named argument, as the one before it has a name")
        else:
            positional.append(self._value())

    def _value(self) -> Any:
        token = self._advance()
        if token.kind == "string":
            return _unquoted(token.text)
        if token.kind == "number":
            return _number(token.text)
        word = token.text.lower()
        if token.kind == "name" and word in ("true", "false", "null"):
            return {"true": True, "false": False, "null": None}[word]
        if token.kind == "name" and word in _MOMENTS and self._peek().kind == "string":
            moves = self._tokens[self._next + 1].text in ("+", "-")
            return self._computed(token) if moves else Moment(text=_unquoted(self._advance().text))
        if token.kind == "name" and word in time_values.FUNCTIONS:
            return self._computed(token)
        if token.kind == "name" and word in ("map", "array") and self._take("("):
            return self._items() if word == "array" else self._pairs(token)
        raise self._wrong(token, "a value: text in quotes, a number, true, false, map(...), array(...)")

    def _pairs(self, token: _Token) -> dict[str, Any]:
        items = self._items()
        if len(items) % 2:
            raise self._wrong(token, "pairs of keys and values in map(...)")
        pairs = {str(key): value for key, value in zip(items[::2], items[1::2], strict=True)}
        if 2 * len(pairs) < len(items):
            raise self._wrong(token, "each key once in map(...)")
        return pairs

    def _computed(self, first: _Token) -> Moment:
        """The words up to the end of the argument."""
        texts, depth = [first.text], 0
        while self._peek().kind != "end" and (depth or self._peek().text not in (",", ")")):
            token = self._advance()
            depth += (token.text == "(") - (token.text == ")")
            texts.append(token.text)
        return Moment(text=" ".join(texts), computed=True)

    def _items(self) -> list[Any]:
        items: list[Any] = []
        while not self._take(")"):
            items.append(self._value())
            if not self._take(","):
                self._expect(")")
                break
        return items

    def _cut(self) -> list[_Token]:
        tokens, text = [], self._text.rstrip()
        at = self._skip(0)
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                expected = "a comment that is closed by */" if text.startswith("/*", at) else _STATEMENT
                raise self._wrong(_Token(kind="end", text=text[at : at + 1], at=at), expected)
            kind = match.lastgroup or ""
            tokens.append(_Token(kind=kind, text=match[kind], at=at))
            at = self._skip(match.end())
        return [*tokens, _Token(kind="end", text=_END, at=len(text))]

    def _skip(self, at: int) -> int:
        """The place after spaces and comments."""
        while match := _SKIPPED.match(self._text, at):
            at = match.end()
        return at

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _advance(self) -> _Token:
        token = self._tokens[self._next]
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    def _take(self, mark: str) -> bool:
        if self._peek().kind == "mark" and self._peek().text == mark:
            self._advance()
            return True
        return False

    def _expect(self, mark: str) -> None:
        if not self._take(mark):
            raise self._wrong(self._peek(), repr(mark))

    def _word(self, word: str) -> None:
        token = self._advance()
        if token.kind != "name" or token.text.lower() != word:
            raise self._wrong(token, _STATEMENT)

    def _name(self) -> str:
        token = self._advance()
        if token.kind != "name":
            raise self._wrong(token, "a name")
        return token.text[1:-1].replace("``", "`") if token.text.startswith("`") else token.text

    def _wrong(self, token: _Token, expected: str) -> errors.ConfigError:
        line_start = self._text.rfind("\n", 0, token.at) + 1
        line = self._text[line_start:].split("\n", 1)[0]
        what = f"{token.text[:40]!r}" if token.text != _END else token.text
        caret = filter_words.pointed_at(line, token.at - line_start)
        return errors.ConfigError(f"The statement cannot be read at {what}; expected is {expected}.{caret}")


def _unquoted(text: str) -> str:
    return text[2:-1] if text[0] in "rR" else sql_texts.unquoted(text)


def _number(text: str) -> int | float:
    digits = text.rstrip("LSYDlsyd")
    return float(digits) if any(mark in digits for mark in ".eE") else int(digits)
