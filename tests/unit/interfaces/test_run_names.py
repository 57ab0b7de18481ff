"""RUN in commands: a run id, its beginning, or `latest`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.factories.stores import make_record, make_start

from iceberg_compaction import errors
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.interfaces.cli import run_names

if TYPE_CHECKING:
    from pathlib import Path

    from iceberg_compaction.record.store import RunStore

FIRST, SECOND, THIRD = "1111aaaa0000", "1111bbbb0000", "2222cccc0000"


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    """Two runs of one table, and an unfinished one of another."""
    store = wiring.run_store(tmp_path / "runs.db")
    store.save(make_record(FIRST, "shop.events", started_ms=10))
    store.save(make_record(SECOND, "shop.events", started_ms=20))
    store.begin(make_start(THIRD, table="shop.orders", started_ms=30))
    return store


@pytest.mark.parametrize("name", [FIRST, "1111a", "1111AAAA", " 1111aaaa "])
def test_a_run_is_named_by_its_id_or_a_beginning_of_it(store: RunStore, name: str) -> None:
    run = run_names.find(store, name)
    assert (run.run_id, run.table, run.unfinished) == (FIRST, "shop.events", None)


def test_an_unfinished_run_has_no_record(store: RunStore) -> None:
    run = run_names.find(store, "2222")
    assert (run.run_id, run.table, run.started_ms, run.record) == (THIRD, "shop.orders", 30, None)


def test_a_run_that_ended_and_left_files_has_both(store: RunStore) -> None:
    store.save(make_record(THIRD, "shop.orders", started_ms=30))
    run = run_names.find(store, THIRD)
    assert run.record is not None
    assert run.unfinished is not None


@pytest.mark.parametrize(("table", "latest"), [(None, THIRD), ("shop.events", SECOND), ("shop.*", THIRD)])
def test_latest_is_the_run_that_started_last(store: RunStore, table: str | None, latest: str) -> None:
    assert run_names.find(store, "latest", table=table).run_id == latest


def test_a_short_id_is_enough_if_it_is_the_whole_id(store: RunStore) -> None:
    store.save(make_record("a"))
    assert run_names.find(store, "a").run_id == "a"


@pytest.mark.parametrize(
    ("name", "table", "words"),
    [
        ("1111", None, ["2 runs begin with '1111'", FIRST, SECOND, "more characters"]),
        ("111", None, ["too short", "4 characters"]),
        (
            "9999",
            None,
            ["no run '9999'", FIRST, SECOND, "2222cccc0000 (shop.orders, 1970-01-01 00:00 UTC, unfinished)"],
        ),
        ("1111aaab0000", None, ["no run '1111aaab0000'", f"{FIRST} is near"]),
        ("2222", "shop.events", ["no run '2222' of shop.events", FIRST]),
        ("latest", "shop.nothing", ["no run of shop.nothing"]),
    ],
)
def test_a_name_that_means_no_single_run_is_refused_with_the_runs_there_are(
    store: RunStore, name: str, table: str | None, words: list[str]
) -> None:
    with pytest.raises(errors.ConfigError) as error:
        run_names.find(store, name, table=table)
    assert [word for word in words if word not in str(error.value)] == []


def test_an_empty_store_and_none_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(errors.ConfigError, match="has no run"):
        run_names.find(wiring.run_store(tmp_path / "runs.db"), "1234")
    with pytest.raises(errors.ConfigError, match="no run store"):
        run_names.find(None, "1234")
