"""Entries on their way to the store, some of them as drafts."""

from __future__ import annotations

from concurrent import futures
from typing import TYPE_CHECKING

import pytest

from iceberg_compaction import errors
from iceberg_compaction.record import outbox
from iceberg_compaction.record.entries.memory import MemoryEntries

if TYPE_CHECKING:
    from collections.abc import Mapping


class AwayEntries(MemoryEntries):
    """A store that may be away."""

    is_away = False

    def change(self, values: Mapping[str, str | None], expected: Mapping[str, int | None] | None = None) -> bool:
        if self.is_away:
            raise errors.StoreError("away")
        return super().change(values, expected)


def written(entries: MemoryEntries) -> dict[str, str]:
    return {entry.key: entry.value for entry in entries.scan("")}


def test_drafts_are_finished_by_the_next_flush() -> None:
    entries, made = MemoryEntries(), list[str]()
    box = outbox.Outbox(entries=entries)

    def draft() -> dict[str, str]:
        made.append("a")
        return {"a": "1", "b": "2"}

    box.put_later(draft)
    box.put("c", "3")
    assert made == []
    box.flush()
    box.flush()
    assert (made, written(entries)) == (["a"], {"a": "1", "b": "2", "c": "3"})


def test_drafts_wait_as_entries_while_the_store_is_away() -> None:
    entries = AwayEntries()
    box = outbox.Outbox(entries=entries)
    entries.is_away = True
    box.put_later(lambda: {"a": "1"})
    with pytest.raises(errors.StoreError):
        box.flush()
    entries.is_away = False
    box.flush()
    assert written(entries) == {"a": "1"}


def test_very_many_drafts_do_not_wait_for_a_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "_MOST_DRAFTS", 10)
    made: list[int] = []

    def draft() -> dict[str, str]:
        made.append(1)
        return {}

    box = outbox.Outbox(entries=MemoryEntries())
    for _ in range(25):
        box.put_later(draft)
    assert len(made) == 22  # twice eleven


def test_no_draft_of_many_threads_is_lost() -> None:
    entries = MemoryEntries()
    box = outbox.Outbox(entries=entries)

    def put(first: int) -> None:
        for number in range(first, first + 200):
            box.put_later(lambda number=number: {f"k/{number:04}": "1"})  # type: ignore[misc]
            if number % 7 == 0:
                box.flush()

    with futures.ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(put, first) for first in range(0, 800, 200)]:
            done.result()
    box.flush()
    assert len(written(entries)) == 800
