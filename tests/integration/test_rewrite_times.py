"""When partitions were rewritten last, on real tables: by this program, by others, undone, or only in the run store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.factories import rewrites, runs, work
from tests.factories.cities import BY_CITY, SCHEMA
from tests.factories.lake import make_table

from iceberg_compaction import Compactor, Policy
from iceberg_compaction.metadata import look, rewrite_times
from iceberg_compaction.operations.rewrite_files.change import replace_files

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table import Table
    from tests.factories.lake import Lake

    from iceberg_compaction.model.rewrite_past import RewritePast

HOUR_MS = 3_600_000


@pytest.fixture
def table(local_lake: Lake) -> Table:
    made = make_table(local_lake.catalog, "db.t", SCHEMA, spec=BY_CITY)
    append(made)
    return made


def append(table: Table) -> None:
    for first in range(0, 30, 10):
        ids = pa.array(range(first, first + 10), pa.int64())
        table.append(pa.table({"id": ids, "city": ["Bern", "Oslo"] * 5}))


def past(table: Table, **given: Any) -> RewritePast:
    view = rewrite_times.add(look.look(table, name="db.t").view, table.metadata, now_ms=1, **given)
    assert view.past is not None
    return view.past


def moments(table: Table) -> dict[str, set[int | None]]:
    """The moments of each city."""
    view = look.look(table, name="db.t").view
    column = past(table).partition_ms
    assert column is not None
    cities: dict[str, set[int | None]] = {}
    for city, moment in zip(view.files["partition"].to_pylist(), column.to_pylist(), strict=True):
        cities.setdefault(city, set()).add(moment)
    return cities


def rewrite(table: Table, city: str) -> int:
    """A rewrite of one partition by another tool; when it was."""
    chosen = [file for file in rewrites.live_data_files(table) if file.partition[0] == city]
    properties = {"engine-name": "spark"}
    replace_files.replace(table, rewrites.rewrite_request(table, chosen, properties=properties), runs.make_run())
    table.refresh()
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot.timestamp_ms


def test_a_table_that_was_never_rewritten_has_only_commits(table: Table) -> None:
    assert (past(table).partition_ms, past(table).table_ms, past(table).commits) == (None, None, 3)
    assert past(table, stored_ms=42).table_ms == 42


def test_a_rewrite_by_others_counts_for_the_partitions_that_it_touched(table: Table) -> None:
    moment = rewrite(table, "Bern")
    append(table)
    by_city = moments(table)
    assert by_city['{"city":"Bern"}'] == {moment, None}
    assert by_city['{"city":"Oslo"}'] == {None}
    assert (past(table).table_ms, past(table).commits) == (moment, 3)
    assert past(table, stored_ms=42).table_ms == moment


def test_a_rewrite_by_this_program_counts_until_it_is_undone(local_lake: Lake, table: Table, tmp_path: Path) -> None:
    options = {"min-input-files": 2}
    compactor = Compactor(local_lake.catalog, engine="inline", options=options, state=tmp_path / "runs.db")
    outcome = compactor.compact_table("db.t")
    table.refresh()
    append(table)  # so that the undo is a snapshot of its own
    assert all(max(each or 0 for each in found) > 0 for found in moments(table).values())
    assert past(table).commits == 3
    assert compactor.undo(outcome.run_id).ok
    table.refresh()
    assert (past(table).partition_ms, past(table).table_ms, past(table).commits) == (None, None, 6)


def test_a_time_trigger_waits_for_the_partition_that_was_rewritten(table: Table) -> None:
    moment = rewrite(table, "Bern")
    append(table)

    def planned(hours: float) -> set[str]:
        run = runs.make_run(clock=lambda: moment + round(hours * HOUR_MS))
        policy = Policy(min_input_files=2, triggers={"rewrite_interval": "2h"})
        plan = work.plan_table(table.catalog, "db.t", policy, run)
        return {partition for _, partition in plan.partitions}

    assert planned(1) == {'{"city":"Oslo"}'}
    assert planned(3) == {'{"city":"Oslo"}', '{"city":"Bern"}'}


def test_triggers_of_a_run_leave_a_second_run_nothing(local_lake: Lake, table: Table, tmp_path: Path) -> None:
    options = {"min-input-files": 2, "triggers": {"preset": "amoro"}}
    compactor = Compactor(local_lake.catalog, engine="inline", options=options, state=tmp_path / "runs.db")
    assert compactor.compact_table("db.t").ok
    second = compactor.plan_table("db.t")
    assert second.empty
    assert [left.reason.value for left in second.left_out] == ["no-trigger"]
    (due,) = compactor.due_tables()
    assert (due.table, due.triggers, due.state.value) == ("db.t", (), "unknown")  # partitions may have changed since
    compactor.compact_table("db.t")  # finds nothing, and looks at all partitions
    (due,) = compactor.due_tables()
    assert (due.state.value, due.unknown) == ("quiet", ())
