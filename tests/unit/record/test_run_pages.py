"""Pages of the list of runs: every run once, the newest first, whatever counts."""

from __future__ import annotations

import pytest
from tests.factories import stores

from iceberg_compaction.model.outcome import Kind
from iceberg_compaction.record.entries.memory import MemoryEntries
from iceberg_compaction.record.rules import run_history
from iceberg_compaction.record.rules.run_history import RunsPage
from iceberg_compaction.record.store import RunStore


@pytest.fixture
def store() -> RunStore:
    """Thirty runs on three tables, two at each moment; every fifth found nothing to do."""
    made = RunStore(MemoryEntries())
    for number in range(30):
        kind = Kind.HEALTHY if number % 5 == 0 else Kind.COMPACTED
        made.save(stores.make_record(f"r{number:02}", f"db.t{number % 3}", 1000 + number // 2, kind=kind))
    return made


def pages(store: RunStore, limit: int, **wanted: object) -> list[str]:
    listed: list[str] = []
    after: str | None = ""
    for _ in range(100):
        records, after = store.page(RunsPage(limit=limit, after=after or "", **wanted))  # type: ignore[arg-type]
        assert len(records) <= limit
        listed += [record.run_id for record in records]
        if after is None:
            return listed
    raise AssertionError("there is no end")


@pytest.mark.parametrize("limit", [1, 2, 7, 29, 30, 31, 1000])
def test_every_run_is_on_one_page(store: RunStore, limit: int) -> None:
    everything = [record.run_id for record in store.history(limit=100)]
    assert len(everything) == 30
    assert pages(store, limit) == everything
    assert pages(store, limit, table="db.t1") == [each for each in everything if int(each[1:]) % 3 == 1]
    assert pages(store, limit, kind="healthy") == [each for each in everything if int(each[1:]) % 5 == 0]
    assert pages(store, limit, fits=lambda table: table != "db.t0") == [
        each for each in everything if int(each[1:]) % 3
    ]
    within = [each for each in everything if 1003 <= 1000 + int(each[1:]) // 2 <= 1009]
    assert sorted(pages(store, limit, since_ms=1003, until_ms=1009)) == sorted(within)


def test_a_search_among_many_ends_a_page_early_and_goes_on(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_history, "_SEARCHED_AT_ONCE", 5)
    records, after = store.page(RunsPage(limit=3, fits=lambda table: False))
    assert records == []
    assert after is not None
    assert pages(store, 3, fits=lambda table: table == "db.t2") == pages(store, 50, table="db.t2")


def test_runs_that_were_read_are_not_read_again(store: RunStore) -> None:
    read = {f"r{number:02}" for number in range(28)}
    assert {record.run_id for record in store.history_but(read, since_ms=0, limit=100)} == {"r28", "r29"}
    assert store.history_but(read, since_ms=10_000, limit=100) == []
