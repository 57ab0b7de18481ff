"""Numbers with the right form of their noun or verb."""

from __future__ import annotations


def form(number: float, one: str, many: str | None = None) -> str:
    """The form of a word for a number: `one` for 1, else `many`; without `many`, `one` with an s."""
    if number == 1:
        return one
    return f"{one}s" if many is None else many


def count(number: int, one: str, many: str | None = None) -> str:
    """A number and its noun: `1 file`, `3,000 files`."""
    return f"{number:,} {form(number, one, many)}"
