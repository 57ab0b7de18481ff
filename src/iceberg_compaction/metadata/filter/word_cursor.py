"""A place among the words of a filter, that moves on as they are read. The last word is the end, and stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.metadata.filter import filter_words
from iceberg_compaction.metadata.filter.filter_words import FilterError

if TYPE_CHECKING:
    from collections.abc import Collection

    from iceberg_compaction.metadata.filter.filter_words import Word


class WordCursor:
    """Reads the words of a text one after the other. FilterError: something is no word."""

    def __init__(self, text: str) -> None:
        self._words = filter_words.cut(text)
        self.at = 0

    def next(self) -> Word:
        word = self.peek()
        self.at += 1
        return word

    def peek(self, further: int = 0) -> Word:
        return self._words[min(self.at + further, len(self._words) - 1)]

    def last(self) -> Word:
        """The word that was read last."""
        return self._words[min(self.at, len(self._words)) - 1]

    def expect(self, mark: str) -> None:
        word = self.next()
        if not word.is_mark(mark):
            raise unexpected(word, mark)

    def expect_name(self, names: Collection[str], expected: str) -> str:
        """One of these names, in lower case."""
        word = self.next()
        if word.plain not in names:
            raise unexpected(word, expected)
        return word.plain


def unexpected(word: Word, expected: str) -> FilterError:
    return FilterError(f"{word.shown} is not expected here; expected is {expected}", word.at)
