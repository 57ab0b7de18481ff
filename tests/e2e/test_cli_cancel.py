"""A run is cancelled from another process: it ends soon and cleanly, and says who wanted that."""

from __future__ import annotations

import getpass
import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import lake as lakes
from tests.factories import slow_run, storage, stores
from tests.factories.cities import BY_CITY, SCHEMA
from tests.factories.cities import rows as city_rows
from typer.testing import CliRunner

from iceberg_compaction import Compactor
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.interfaces.cli.app import app
from iceberg_compaction.model import run_record
from iceberg_compaction.record import cancel_requests, processes

if TYPE_CHECKING:
    from pathlib import Path

CITIES = tuple(chr(ord("A") + number) for number in range(20))  # one group each
ELSEWHERE = run_record.Process(host="south/boot/pid:[1]", pid=1, started="1")


def cancel(state: Path, *args: str) -> Any:
    return CliRunner().invoke(app, ["cancel", *args, "--state", str(state)])


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def begin(state: Path, process: run_record.Process, started_ms: int, run_id: str = "ab" * 16) -> str:
    """A run in the journal."""
    wiring.run_store(state).begin(stores.make_start(run_id, process=process, started_ms=started_ms, heartbeat_s=10.0))
    return run_id


def test_a_run_in_another_process_ends_cleanly_with_what_it_has_finished(local_lake: lakes.Lake, state: Path) -> None:
    table = lakes.make_table(local_lake.catalog, "db.t", SCHEMA, spec=BY_CITY)
    for number in range(2):
        table.append(city_rows(number * 100, CITIES, 2 * len(CITIES)))
    before, store = storage.row_multiset(table.scan().to_arrow()), wiring.run_store(state)
    with slow_run.slow_run(local_lake.settings, "db.t", state, 0.5) as process:
        run_id = slow_run.wait_for_run(store, process)
        result = cancel(state, run_id[:8], "--wait", "1m", "--output", "json")
        assert result.exit_code == 0, result.output
        last, _ = process.communicate(timeout=60)
    document = json.loads(result.stdout)
    assert (document["state"], document["run_id"]) == ("cancelled", run_id)
    assert document["outcome"]["sentence"] in document["sentence"]
    for sentence in (last, document["sentence"]):
        assert (
            f"Run {run_id} was cancelled by {getpass.getuser()} on {processes.this_process().machine} at 20" in sentence
        )
    table.refresh()
    assert storage.row_multiset(table.scan().to_arrow()) == before
    parquet = {path for path in storage.files_under(table) if path.endswith(".parquet")}
    assert parquet == storage.referenced_data_files(table)
    assert all(each.ended for each in store.unfinished())
    assert [json.loads(entry.value)["holders"] for entry in store.entries.scan("lease/")] == [[]]
    assert not cancel_requests.find(store.entries, run_id)


def test_a_run_of_no_such_name_is_wrong_usage(state: Path) -> None:
    begin(state, ELSEWHERE, 10)
    result = cancel(state, "ffffffff")
    assert result.exit_code == 2
    assert "There is no run 'ffffffff'" in result.stderr


def test_a_run_that_has_ended_is_not_cancelled(state: Path) -> None:
    wiring.run_store(state).save(stores.make_record("ab" * 16))
    result = cancel(state, "latest")
    assert result.exit_code == 0
    assert "has ended already (compacted); there is nothing to cancel" in " ".join(result.stdout.split())


def test_a_run_whose_process_is_gone_is_not_waited_for(state: Path) -> None:
    begin(state, processes.this_process().model_copy(update={"started": "1"}), wiring.new_run().clock())
    document = json.loads(cancel(state, "latest", "--output", "json").stdout)
    assert document["state"] == "dead"
    assert "is gone, so there is nothing to cancel" in document["sentence"]


def test_a_run_on_a_silent_machine_is_not_waited_for(state: Path) -> None:
    run_id = begin(state, ELSEWHERE, wiring.new_run().clock() - 60_000)
    document = json.loads(cancel(state, "latest", "--output", "json").stdout)
    assert document["state"] == "dead"
    assert f"Run {run_id} on db.t has sent no heartbeat from south since 20" in document["sentence"]
    assert cancel_requests.find(wiring.run_store(state).entries, run_id) is not None


def test_a_run_that_another_one_declared_dead_is_not_waited_for(state: Path) -> None:
    begin(state, ELSEWHERE, 10)
    store = wiring.run_store(state)
    assert store.take_over(store.unfinished()[0]) is not None
    assert "Another run has declared run" in cancel(state, "latest").stdout


def test_a_second_request_names_the_first(state: Path) -> None:
    run_id = begin(state, ELSEWHERE, wiring.new_run().clock())
    first = cancel(state, run_id, "--wait", "0")
    second = cancel(state, run_id, "--wait", "0")
    assert (first.exit_code, second.exit_code) == (0, 0)
    assert f"Run {run_id} on db.t will end within seconds" in " ".join(first.stdout.split())
    assert f"This was requested before, by {getpass.getuser()} on " in " ".join(second.stdout.split())


def test_the_library_cancels_too(local_lake: lakes.Lake, state: Path) -> None:
    run_id = begin(state, ELSEWHERE, wiring.new_run().clock())
    answer = Compactor(local_lake.catalog, engine="inline", state=state).cancel(run_id, wait=0)
    assert answer.state == "requested"
