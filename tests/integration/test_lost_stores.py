"""The run store may be lost, or its server may die, at any moment of a run: the run finishes or ends truthfully, no row
and no file is lost, and the next run works."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import lake as lakes
from tests.factories import reader, storage, store_servers, work

from iceberg_compaction import Kind, Policy
from iceberg_compaction.interfaces import wiring

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.factories.store_servers import StoreServer
    from tests.factories.stores import Place

    from iceberg_compaction.model.events import Event
    from iceberg_compaction.model.outcome import Outcome
    from iceberg_compaction.record.store import RunStore

# Two groups, each with a commit of its own.
OPTIONS = {"min-input-files": 2, "max-file-group-input-files": 2, "partial-progress": True}
TRUTHFUL = ("or the run store was lost; nothing was committed", "cannot check that no other run took it for dead")


class Scene:
    """A table with four small files."""

    def __init__(self, lake: lakes.Lake) -> None:
        self.lake = lake
        table = lakes.make_table(lake.catalog, "db.t", properties={"commit.status-check.num-retries": "0"})
        self.rows = storage.row_multiset(lakes.append_small_files(table, 4).scan().to_arrow())

    def run(
        self, store: RunStore, kind: str = "", act: Callable[[], None] = lambda: None, heartbeat_s: float = 10.0
    ) -> Outcome:
        """A run; the act takes place at its first event of the kind."""
        waiting = [act]

        def on_event(event: Event) -> None:
            if event.kind == kind and waiting:
                waiting.pop()()

        run = replace(wiring.new_run(store=store, on_event=on_event), heartbeat_s=heartbeat_s)
        outcome = work.compact_table(
            self.lake.catalog, "db.t", Policy.model_validate(OPTIONS), wiring.engine_factory("inline"), run
        )
        assert not waiting or not kind, f"there was no event {kind}"
        return outcome

    def check_rows(self) -> Any:
        table: Any = self.lake.catalog.load_table("db.t")
        assert storage.row_multiset(table.scan().to_arrow()) == self.rows
        return table

    def check(self) -> None:
        """The table has its rows, and every file is explained by the table."""
        table = self.check_rows()
        assert storage.files_under(table) == reader.known_files(table)


@pytest.fixture
def scene(local_lake: lakes.Lake) -> Scene:
    return Scene(local_lake)


def is_truthful(outcome: Outcome) -> bool:
    return outcome.kind is Kind.COMPACTED or any(words in outcome.sentence for words in TRUTHFUL)


@pytest.mark.parametrize("moment", ["task-ended", "committing", "committed"])
def test_a_store_that_is_lost_in_the_middle_costs_no_row_and_no_file(
    scene: Scene, every_place: Place, moment: str
) -> None:
    entries = every_place.entries()

    def lose() -> None:
        while listed := entries.scan("", limit=50):
            entries.change(dict.fromkeys(entry.key for entry in listed))

    outcome = scene.run(every_place.open(), moment, lose)
    assert is_truthful(outcome), outcome.sentence
    assert outcome.kind is not Kind.COMPACTED  # it was in the journal, and is not any more
    scene.check()
    again = every_place.open()
    assert scene.run(again).kind is Kind.COMPACTED
    scene.check()
    assert again.history()[0].outcome.kind is Kind.COMPACTED
    assert again.unfinished() == []


@pytest.mark.parametrize("moment", ["task-ended", "committing", "committed"])
@pytest.mark.parametrize("kind", store_servers.KINDS)
def test_a_server_that_is_killed_and_started_again_in_the_middle_is_waited_for(
    scene: Scene, kind: str, moment: str, store_server: Callable[[str], StoreServer]
) -> None:
    server = store_server(kind)
    store = wiring.run_store(server.new_url())

    def restart() -> None:
        server.kill()
        server.start()

    outcome = scene.run(store, moment, restart)
    assert (outcome.kind, outcome.groups_landed) == (Kind.COMPACTED, 2), outcome.sentence
    scene.check()
    assert [record.run_id for record in store.history()] == [outcome.run_id]
    assert store.unfinished() == []
    store.entries.close()


@pytest.mark.parametrize("kind", store_servers.KINDS)
def test_a_server_that_stays_away_ends_the_run_truthfully_and_each_warning_is_given_once(
    scene: Scene, kind: str, store_server: Callable[[str], StoreServer], caplog: pytest.LogCaptureFixture
) -> None:
    server = store_server(kind)
    store = wiring.run_store(server.new_url())
    outcome = scene.run(store, "committed", server.kill, heartbeat_s=0.1)
    try:
        assert outcome.kind is not Kind.COMPACTED
        assert TRUTHFUL[1] in outcome.sentence
        assert store_servers.PASSWORD not in outcome.sentence
        assert outcome.groups_landed == 1
        warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        assert sum("journal" in warning for warning in warnings) in (
            1,
            2,
        )  # a read and a write have reasons of their own
        assert len(warnings) == len(set(warnings))
        scene.check_rows()  # a finished task may keep its file for the next run
    finally:
        server.start()
    for _ in range(600):  # the end of the run is written down as soon as the store is there
        if all(run.ended for run in store.unfinished()):
            break
        time.sleep(0.05)
    assert scene.run(store).kind is Kind.COMPACTED
    scene.check()
    store.entries.close()
