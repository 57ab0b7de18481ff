"""Runs that share a store keep out of each other's way: what one is at work on, another that plans meanwhile leaves to
it; but not for longer than the first one lives, and not on another branch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.factories import runs, storage, work
from tests.factories.cities import BY_CITY, SCHEMA
from tests.factories.lake import make_table

from iceberg_compaction import Kind, Policy
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.model import run_record
from iceberg_compaction.record import claims, processes

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table import Table
    from tests.factories.lake import Lake

    from iceberg_compaction import Event, Outcome
    from iceberg_compaction.model.rewrite_plan import Plan

BERN, OSLO = '{"city":"Bern"}', '{"city":"Oslo"}'
POLICY = Policy(min_input_files=2)
AT_WORK = "in partitions that another run is working on"


class Scene:
    """A table with three small files for Bern, three for Oslo, and a store of runs."""

    def __init__(self, lake: Lake, folder: Path) -> None:
        self.catalog, self.state = lake.catalog, folder / "runs.db"
        self.store = wiring.run_store(self.state)
        table = make_table(lake.catalog, "db.t", SCHEMA, spec=BY_CITY)
        for first in range(0, 30, 10):
            ids = pa.array(range(first, first + 10), pa.int64())
            table.append(pa.table({"id": ids, "city": ["Bern", "Oslo"] * 5}))

    @property
    def table(self) -> Table:
        return self.catalog.load_table("db.t")

    def compact(self, policy: Policy = POLICY, **how: Any) -> Outcome:
        run = replace(wiring.new_run(store=self.store), **how)
        return work.compact_table(self.catalog, "db.t", policy, wiring.engine_factory("inline"), run)

    def plan(self, branch: str = "main", **how: Any) -> Plan:
        run = replace(wiring.new_run(store=self.store), **how)
        return work.plan_table(self.catalog, "db.t", POLICY, run, branch)

    def begin(self, where: run_record.Process, *claimed: str) -> None:
        """Another run that has only just begun."""
        claims = tuple((0, text) for text in claimed)
        self.store.begin(runs.make_start(self.table, "7" * 32, where, claims=claims))


ELSEWHERE = run_record.Process(host="elsewhere", pid=1, started="1")


@pytest.fixture
def scene(local_lake: Lake, tmp_path: Path) -> Scene:
    return Scene(local_lake, tmp_path)


def test_two_runs_at_once_do_not_fight(scene: Scene) -> None:
    rows, seconds = storage.row_multiset(scene.table.scan().to_arrow()), []

    def second(event: Event) -> None:
        if event.kind == "committing" and not seconds:
            seconds.append(scene.compact())

    first = scene.compact(Policy(min_input_files=2, where="city = 'Bern'"), on_event=second)
    assert (first.kind, first.groups_landed, first.groups_conflicted) == (Kind.COMPACTED, 1, 0)
    assert (seconds[0].kind, seconds[0].groups_landed, seconds[0].groups_conflicted) == (Kind.COMPACTED, 1, 0)
    assert [one.partition for one in seconds[0].group_outcomes] == [OSLO]
    assert scene.table.inspect.data_files().num_rows == 2
    assert storage.row_multiset(scene.table.scan().to_arrow()) == rows


def test_what_is_left_to_another_run_is_told(scene: Scene) -> None:
    scene.begin(processes.this_process(), BERN)
    (left,) = (left for left in scene.plan().left_out if left.reason == "claimed")
    assert (left.files, AT_WORK in left.sentence) == (3, True)
    assert [group.partition for group in scene.plan().groups] == [OSLO]


def test_nothing_is_done_where_all_is_left_to_another_run(scene: Scene) -> None:
    scene.begin(processes.this_process(), BERN, OSLO)
    outcome = scene.compact()
    assert (outcome.kind, outcome.groups) == (Kind.HEALTHY, 0)
    assert f"Nothing to do: 6 files ({outcome.sentence.partition('(')[2].partition(')')[0]}) are {AT_WORK}." == (
        outcome.sentence
    )


def test_a_dead_run_keeps_nobody_away(scene: Scene) -> None:
    here = processes.this_process()
    scene.begin(here.model_copy(update={"started": "1"}), BERN, OSLO)
    assert scene.compact().groups_landed == 2


def test_a_run_elsewhere_counts_while_it_gives_signs_of_life(scene: Scene) -> None:
    scene.begin(ELSEWHERE, BERN)
    assert len(scene.plan().groups) == 1
    now = wiring.new_run().clock
    assert len(scene.plan(clock=lambda: now() + claims.SILENT_MS + 1000).groups) == 2


def test_a_run_on_another_branch_keeps_nobody_away(scene: Scene) -> None:
    scene.begin(processes.this_process(), BERN, OSLO)
    head = scene.table.metadata.current_snapshot_id
    assert head is not None
    scene.table.manage_snapshots().create_branch(head, "other").commit()
    assert len(scene.plan(branch="other").groups) == 2


def test_a_store_that_cannot_be_read_keeps_nobody_away(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.state.write_text("no database")
    assert len(scene.plan().groups) == 2
    assert "The claims of other runs are not used" in caplog.text
