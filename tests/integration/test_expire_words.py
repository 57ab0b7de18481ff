"""What an expiry says when nothing expires, or files stay: the true reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import lake as lakes
from tests.factories import runs

from iceberg_compaction.interfaces import upkeep_operations, wiring
from iceberg_compaction.model import run_record
from iceberg_compaction.model.outcome import Kind, Maintained
from iceberg_compaction.model.snapshot_retention import RetentionGoal
from iceberg_compaction.storage import remove
from iceberg_compaction.workflow import operate

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from iceberg_compaction.model.outcome import Outcome

FAR = 10**14  # a moment after all of them
RUN = "a" * 32


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return lakes.local_catalog(tmp_path)


def make(catalog: Catalog, appends: int, *, flink: bool = False) -> Table:
    table = lakes.make_table(catalog, "db.t")
    for number in range(appends):
        summary = {"flink.job-id": "j", "flink.max-committed-checkpoint-id": str(number)} if flink else {}
        table.append(lakes.rows(lakes.NUMBERS, 2), snapshot_properties=summary if number == 0 else {})
    return table


def expire(catalog: Catalog, store: Any = None, **goal: Any) -> Outcome:
    operation = upkeep_operations.expire("db.t", RetentionGoal(**{"older_than_ms": FAR, "allow_recent": True, **goal}))
    house = operate.House(catalog=catalog, engines=wiring.engine_factory("inline"))
    return operate.operate(operation, house, wiring.new_run(store=store))


def said(outcome: Outcome) -> str:
    assert outcome.kind is Kind.HEALTHY, outcome.sentence
    return outcome.sentence


def test_another_run_at_work(catalog: Catalog, tmp_path: Path) -> None:
    table, store = make(catalog, 4), wiring.run_store(tmp_path / "runs.db")
    store.begin(runs.make_start(table, RUN, run_record.Process(host="elsewhere/1", pid=1, started="")))
    sentence = said(expire(catalog, store))
    assert sentence == (
        f"No snapshot expires: 3 stay because of another run on the table (run {RUN}, which is at work)."
    )
    sentence = said(expire(catalog, store, retain_last=2))
    assert sentence.startswith("No snapshot expires: 1 is one of the last of its branch and 2 stay because of another ")
    named = table.metadata.snapshots[0].snapshot_id
    sentence = said(expire(catalog, store, older_than_ms=None, snapshot_ids=(named,)))
    assert sentence.startswith("No snapshot expires: 2 were not named and 1 stays because of another run ")


def test_young_snapshots(catalog: Catalog) -> None:
    make(catalog, 3)
    assert said(expire(catalog, older_than_ms=None)) == "No snapshot is old enough to expire."


def test_the_last_of_a_branch(catalog: Catalog) -> None:
    make(catalog, 3)
    assert said(expire(catalog, retain_last=3)) == "No snapshot expires: 2 are among the last of their branches."


def test_what_a_flink_job_needs(catalog: Catalog) -> None:
    make(catalog, 3, flink=True)
    assert said(expire(catalog)) == "No snapshot expires: 2 stay for Flink jobs."


def test_heads_and_nothing(catalog: Catalog) -> None:
    table = make(catalog, 0)
    assert said(expire(catalog)) == "The table has no snapshots."
    table.append(lakes.rows(lakes.NUMBERS, 2))
    assert said(expire(catalog)) == "No snapshot can expire: a branch or tag points to each."


def test_one_file_that_cannot_be_removed(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(catalog, 1)
    table.overwrite(lakes.rows(lakes.NUMBERS, 2))
    monkeypatch.setattr(remove, "_remove", lambda io, path, proof: not path.endswith(".parquet"))
    outcome = expire(catalog)
    assert isinstance(outcome, Maintained), outcome.sentence
    assert any(note.startswith("1 file that nobody needs could not be removed;") for note in outcome.notes)
