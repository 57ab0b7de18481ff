"""Formats of a run store, and the steps from each to the next; there is no way back. Format 1 were the tables of a
SQLite file, which `sqlite` brings forward to format 2, the first of entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iceberg_compaction.record.entries.door import StoreEntries

FORMAT_KEY = "meta/format"
FIRST_OF_ENTRIES = 2

# The step at place 0 leads from format 2 to 3, and so on. A step may be done twice, or by two processes at once.
STEPS: Sequence[Callable[[StoreEntries], None]] = ()


def check(entries: StoreEntries, steps: Sequence[Callable[[StoreEntries], None]] = STEPS) -> int | None:
    """The store's format; None: it has none yet. StoreError: a newer version has written it."""
    entry = entries.get([FORMAT_KEY]).get(FORMAT_KEY)
    if entry is None:
        return None
    newest = FIRST_OF_ENTRIES + len(steps)
    if not entry.value.isdecimal() or int(entry.value) > newest:
        raise errors.StoreError(
            f"The run store {entries} has format {entry.value}, and this version knows formats up to {newest}; install "
            "the newer version of iceberg-compaction that wrote it, or choose another store."
        )
    return int(entry.value)


def bring_forward(entries: StoreEntries, steps: Sequence[Callable[[StoreEntries], None]] = STEPS) -> None:
    """Bring the store to the newest format before something is written."""
    newest = FIRST_OF_ENTRIES + len(steps)
    while (number := check(entries, steps)) != newest:
        if number is None:
            entries.change({FORMAT_KEY: str(newest)}, {FORMAT_KEY: None})
            continue
        entry = entries.get([FORMAT_KEY])[FORMAT_KEY]
        steps[number - FIRST_OF_ENTRIES](entries)
        entries.change({FORMAT_KEY: str(number + 1)}, {FORMAT_KEY: entry.version})
