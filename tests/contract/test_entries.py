"""The contract of `record.entries.door.StoreEntries`, for every place that a run store may be in."""

from __future__ import annotations

from concurrent import futures
from typing import TYPE_CHECKING

import pytest

from iceberg_compaction.record.entries import keys

if TYPE_CHECKING:
    from tests.factories import stores

    from iceberg_compaction.record.entries.door import StoreEntries

TABLES = ["shop/events", "shop.événements", "a b", "x%y", "日本.表", "😀"]


@pytest.fixture
def entries(every_place: stores.Place) -> StoreEntries:
    return every_place.entries()


def scanned(entries: StoreEntries, prefix: str = "", **how: object) -> list[str]:
    return [entry.key for entry in entries.scan(prefix, **how)]  # type: ignore[arg-type]


def test_an_empty_place_has_nothing(entries: StoreEntries) -> None:
    assert entries.get(["a", "b"]) == {}
    assert entries.scan("") == entries.scan("a/", reverse=True) == []


def test_a_value_is_read_as_it_was_written(entries: StoreEntries) -> None:
    text = '{"name": "Zürich 😀", "quote": "\'%s ? \\\\"}' + "x" * 500_000
    assert entries.change({"a": text, "b": ""})
    assert {key: entry.value for key, entry in entries.get(["a", "b", "c"]).items()} == {"a": text, "b": ""}
    assert entries.change({"a": None, "never": None})
    assert scanned(entries) == ["b"]


def test_scans_are_in_order_both_ways_and_go_on_after_a_key(entries: StoreEntries) -> None:
    entries.change({name: name for name in ["a/1", "a/2", "a/3", "a", "a0", "b/1", "a/2/x"]})
    assert scanned(entries, "a/") == ["a/1", "a/2", "a/2/x", "a/3"]
    assert scanned(entries, "a/", reverse=True) == ["a/3", "a/2/x", "a/2", "a/1"]
    assert scanned(entries, "a/", limit=2) == ["a/1", "a/2"]
    assert scanned(entries, "a/", after="a/2", limit=1) == ["a/2/x"]
    assert scanned(entries, "a/", after="a/2", reverse=True) == ["a/1"]
    assert scanned(entries, "a/", after="a/0") == ["a/1", "a/2", "a/2/x", "a/3"]
    assert scanned(entries, "a/", after="a/9") == []
    assert scanned(entries, limit=0) == []
    assert scanned(entries) == sorted(["a/1", "a/2", "a/3", "a", "a0", "b/1", "a/2/x"])


def test_any_text_can_be_a_word_of_a_key(entries: StoreEntries) -> None:
    entries.change({keys.key("table", name, 7): name for name in TABLES})
    for name in TABLES:
        (entry,) = entries.scan(keys.prefix("table", name))
        assert (entry.value, keys.words(entry.key)[1]) == (name, name)
    assert len(entries.scan(keys.prefix("table"))) == len(TABLES)


def test_a_change_is_made_only_if_everything_is_as_expected(entries: StoreEntries) -> None:
    assert entries.change({"a": "1"}, {"a": None})
    assert not entries.change({"a": "2", "b": "2"}, {"a": None})
    version = entries.get(["a"])["a"].version
    assert entries.get(["b"]) == {}
    assert entries.change({"a": "2"}, {"a": version, "b": None})
    assert not entries.change({"a": "3"}, {"a": version})
    assert not entries.change({"c": "3"}, {"a": version})
    assert entries.get(["a", "c"]).keys() == {"a"}
    assert entries.change({}, {"a": entries.get(["a"])["a"].version})


def test_a_key_that_was_removed_and_written_again_has_another_version(entries: StoreEntries) -> None:
    entries.change({"a": "1"})
    version = entries.get(["a"])["a"].version
    entries.change({"a": None})
    entries.change({"a": "1"})
    assert entries.get(["a"])["a"].version != version
    assert not entries.change({"a": "2"}, {"a": version})


def test_of_many_who_expect_the_same_one_wins(entries: StoreEntries) -> None:
    entries.change({"count": "0"})

    def add_one() -> None:
        while True:
            (entry,) = entries.get(["count"]).values()
            if entries.change({"count": str(int(entry.value) + 1)}, {"count": entry.version}):
                return

    with futures.ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(add_one) for _ in range(40)]:
            done.result()
    assert entries.get(["count"])["count"].value == "40"


def test_a_hundred_keys_change_at_once(entries: StoreEntries) -> None:
    names = [f"k/{at:03d}" for at in range(50)]
    assert entries.change(dict.fromkeys(names, "v"), dict.fromkeys(names))
    assert scanned(entries, "k/") == names
    assert entries.change(dict.fromkeys(names))
    assert scanned(entries, "k/") == []


def test_closed_entries_open_again(entries: StoreEntries) -> None:
    entries.change({"a": "1"})
    entries.close()
    assert entries.get(["a"])["a"].value == "1"
