"""Runs that share a store hold leases of what they work on: another run leaves that alone; but not for longer than the
first one lives, and not on another branch."""

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
from iceberg_compaction.metadata import table_folders
from iceberg_compaction.model import lease, run_record
from iceberg_compaction.operations.rewrite_manifests.manifest_rewrite import ManifestGoal
from iceberg_compaction.record import leases, processes

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

    def begin(self, where: run_record.Process, *partitions: str, holds: tuple[str, ...] = ()) -> lease.Lease:
        """Another run that has only just begun."""
        start = runs.make_start(self.table, OTHER, where, heartbeat_s=10.0)
        self.store.begin(start)
        holds = holds or lease.of_partitions((0, text) for text in partitions)
        wanted = lease.Lease(
            run_id=OTHER, token=0, branch="main", holds=holds, process=where, since_ms=start.started_ms
        )
        given = leases.Leases(entries=self.store.entries).give(table_folders.entry(self.table), wanted, [])
        assert given is not None
        return given

    def holders(self) -> list[str]:
        board = leases.Leases(entries=self.store.entries).board(table_folders.entry(self.table))
        return [holder.run_id for holder in board.holders]


OTHER = "7" * 32
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
    assert f"(run {OTHER} on {processes.this_process().machine}, since 20" in left.sentence
    assert [group.partition for group in scene.plan().groups] == [OSLO]


def test_nothing_is_done_where_all_is_left_to_another_run(scene: Scene) -> None:
    scene.begin(processes.this_process(), BERN, OSLO)
    outcome = scene.compact()
    assert (outcome.kind, outcome.groups) == (Kind.HEALTHY, 0)
    assert outcome.sentence.startswith("Nothing to do: 6 files (")
    assert f") are {AT_WORK} (run {OTHER} on " in outcome.sentence


def test_a_dead_run_keeps_nobody_away(scene: Scene) -> None:
    here = processes.this_process()
    scene.begin(here.model_copy(update={"started": "1"}), BERN, OSLO)
    assert scene.compact().groups_landed == 2


def test_a_run_elsewhere_counts_while_it_gives_signs_of_life(scene: Scene) -> None:
    scene.begin(ELSEWHERE, BERN)
    assert len(scene.plan().groups) == 1
    now = wiring.new_run().clock
    waits: list[float] = []
    assert len(scene.plan(clock=lambda: now() + 20_000, pause=waits.append).groups) == 2
    assert sum(waits) == pytest.approx(15, abs=2)


def test_a_run_elsewhere_whose_clock_is_wrong_is_watched_and_left_alone(scene: Scene) -> None:
    scene.begin(ELSEWHERE, BERN)
    now = wiring.new_run().clock

    def beat(seconds: float) -> None:
        scene.store.heartbeat(OTHER, now() + 1)

    for minutes in (-20, 20):
        assert len(scene.plan(clock=lambda minutes=minutes: now() + minutes * 60_000, pause=beat).groups) == 1


def test_a_dead_run_is_taken_over_and_may_publish_nothing(scene: Scene) -> None:
    scene.begin(ELSEWHERE, BERN)
    now = wiring.new_run().clock
    assert scene.compact(clock=lambda: now() + 20_000, pause=lambda seconds: None).groups_landed == 2
    attempt = run_record.Attempt(snapshot_id=1, parent_snapshot_id=None, sequence_number=9, at_ms=now())
    assert not scene.store.publishing(OTHER, attempt)
    assert scene.holders() == []


def test_r49_a_run_that_has_lost_its_lease_commits_nothing(scene: Scene) -> None:
    def steal(event: Event) -> None:
        if event.kind == "committing":
            board = leases.Leases(entries=scene.store.entries)
            entry = table_folders.entry(scene.table)
            board.give_back(entry, board.board(entry).holders[0])

    outcome = scene.compact(on_event=steal)
    assert outcome.kind is Kind.FAILED
    assert "nothing was committed" in outcome.sentence
    assert scene.table.inspect.data_files().num_rows == 6


def test_a_run_that_was_overtaken_between_plan_and_lease_plans_again(scene: Scene) -> None:
    seconds: list[Outcome] = []

    def second(event: Event) -> None:
        if event.kind == "planned" and not seconds:
            seconds.append(scene.compact())

    first = scene.compact(on_event=second)
    assert seconds[0].groups_landed == 2
    assert (first.kind, first.groups) == (Kind.HEALTHY, 0)
    assert scene.holders() == []


def test_leases_have_tokens_that_only_grow(scene: Scene) -> None:
    first = scene.begin(processes.this_process(), BERN)
    scene.store.finish(OTHER)
    assert scene.begin(processes.this_process(), OSLO).token > first.token


def test_a_rewrite_of_manifests_waits_for_no_rewrite_of_files(scene: Scene) -> None:
    scene.begin(processes.this_process(), BERN, OSLO)
    goal = ManifestGoal(target_size_bytes=1 << 20)
    assert work.rewrite_manifests(scene.catalog, "db.t", wiring.new_run(store=scene.store), goal).kind in (
        Kind.COMPACTED,
        Kind.HEALTHY,
    )


def test_of_two_rewrites_of_manifests_one_is_skipped(scene: Scene) -> None:
    for first in range(30, 400, 10):
        scene.table.append(pa.table({"id": pa.array([first], pa.int64()), "city": ["Bern"]}))
    scene.begin(processes.this_process(), holds=(lease.MANIFESTS,))
    outcome = work.rewrite_manifests(scene.catalog, "db.t", wiring.new_run(store=scene.store))
    assert outcome.kind is Kind.SKIPPED
    assert f"Another run is working on db.t (run {OTHER}" in outcome.sentence


def test_a_plan_is_applied_where_nobody_else_works(scene: Scene) -> None:
    plan = scene.plan()
    scene.begin(processes.this_process(), BERN)
    outcome = work.apply_plan(scene.catalog, plan, wiring.engine_factory("inline"), wiring.new_run(store=scene.store))
    assert (outcome.kind, outcome.groups_landed) == (Kind.COMPACTED, 1)
    assert "Another run is working on its partition" in outcome.sentence


def test_a_plan_whose_partitions_are_all_taken_is_skipped(scene: Scene) -> None:
    plan = scene.plan()
    scene.begin(processes.this_process(), BERN, OSLO)
    outcome = work.apply_plan(scene.catalog, plan, wiring.engine_factory("inline"), wiring.new_run(store=scene.store))
    assert outcome.kind is Kind.SKIPPED
    assert OTHER in outcome.sentence


def test_a_board_of_a_newer_version_stops_nobody(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.begin(processes.this_process(), BERN)
    (key,) = [entry.key for entry in scene.store.entries.scan("lease/")]
    scene.store.entries.change({key: '{"format": 99}'})
    assert scene.compact().groups_landed == 2
    assert "a newer version may have written them" in caplog.text


def test_a_run_on_another_branch_keeps_nobody_away(scene: Scene) -> None:
    scene.begin(processes.this_process(), BERN, OSLO)
    head = scene.table.metadata.current_snapshot_id
    assert head is not None
    scene.table.manage_snapshots().create_branch(head, "other").commit()
    assert len(scene.plan(branch="other").groups) == 2


def test_a_store_that_cannot_be_read_keeps_nobody_away(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.state.write_text("no database")
    assert len(scene.plan().groups) == 2
    assert "The leases of other runs are not used" in caplog.text
