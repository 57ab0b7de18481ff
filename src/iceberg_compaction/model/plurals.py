"""Numbers with the right form of their noun or verb, and lists of names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def form(number: float, one: str, many: str | None = None) -> str:
    """The form of a word for a number: `one` for 1, else `many`; without `many`, `one` with an s."""
    if number == 1:
        return one
    return f"{one}s" if many is None else many


def count(number: int, one: str, many: str | None = None) -> str:
    """A number and its noun: `1 file`, `3,000 files`."""
    return f"{number:,} {form(number, one, many)}"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence: `a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
