"""Work of a service whose worker died: what its run has committed is kept, and the rest is done once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.table.snapshots import Snapshot
from tests.factories import lake as lakes
from tests.factories import reader, service_houses
from tests.factories.service_houses import compact, partitioned, wait_for

from iceberg_compaction.interfaces import wiring
from iceberg_compaction.interfaces.service.work.dead_runs import DeadRun
from iceberg_compaction.interfaces.service.work.work_limits import LimitKeeper
from iceberg_compaction.model import events
from iceberg_compaction.model.outcome import Kind
from iceberg_compaction.model.policies import Policy, Strategy
from iceberg_compaction.model.work import WorkState
from iceberg_compaction.operations.past_runs.run_commits import RunCommits
from iceberg_compaction.operations.rewrite_files.file_rewrite import RewriteFiles
from iceberg_compaction.record.rules.work_book import WorkBook
from iceberg_compaction.workflow import operate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.factories.lake import Lake

    from iceberg_compaction.interfaces.service.service_house import ServiceHouse
    from iceberg_compaction.model.work import WorkRequest


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    made = lakes.file_lake(tmp_path)
    yield made
    lakes.close(made)


@pytest.fixture
def house(lake: Lake) -> ServiceHouse:
    return service_houses.make_house(lake, "memory://")


def die_with(lake: Lake, house: ServiceHouse, request: WorkRequest, **policy: Any) -> WorkBook:
    """The work is that of a worker that died without a word, after its run has committed something."""
    book = WorkBook(house.store.entries)
    book.put(request)
    claimed = book.claim("dead", house.clock(), LimitKeeper(house=house, monotonic=time.monotonic).now())
    assert claimed is not None
    book.started(claimed, request.work_id, house.clock())
    rewrite = RewriteFiles(table=request.table, policy=Policy(strategy=Strategy.FULL, min_input_files=2, **policy))
    world = operate.House(catalog=lake.catalog, engines=wiring.engine_factory("inline"))
    assert operate.operate(rewrite, world, wiring.new_run(run_id=request.work_id)).kind is Kind.COMPACTED
    return book


def test_what_a_dead_run_has_not_committed_is_done_at_once(lake: Lake, house: ServiceHouse) -> None:
    before = reader.rows(partitioned(lake))
    request = compact(lake, "p")
    book = die_with(lake, house, request, where="id < 2")
    with service_houses.working(house):
        work = wait_for(book, request.work_id)
    assert (work.state, work.outcome, len(work.run_ids)) == (WorkState.DONE, Kind.COMPACTED, 2)
    part = house.store.run(request.work_id)
    assert part is not None
    assert "had committed some of its work when its worker died. Another run does the rest." in part.outcome.sentence
    assert (part.outcome.files_removed, part.outcome.files_added) == (6, 2)
    table = lake.catalog.load_table("db.p")
    assert table.inspect.files().num_rows == 4
    assert len([each for each in table.snapshots() if each.summary.operation.value == "replace"]) == 2
    assert reader.rows(table) == before


def test_work_is_done_by_a_dead_run_whose_events_died_with_it(lake: Lake, house: ServiceHouse) -> None:
    partitioned(lake)
    request = compact(lake, "p")
    book = die_with(lake, house, request)
    with service_houses.working(house):
        work = wait_for(book, request.work_id)
    assert (work.state, work.outcome) == (WorkState.DONE, Kind.COMPACTED)
    assert "has committed its work; its worker died before it could say so." in work.sentence
    remembered = house.store.run(request.work_id)
    assert remembered is not None
    assert remembered.outcome.sentence == work.sentence


def test_a_rewrite_without_a_fixed_point_is_not_done_twice(lake: Lake, house: ServiceHouse) -> None:
    partitioned(lake)
    request = compact(lake, "p", options={"min-input-files": 2, "rewrite-all": True}, strategy="full")
    book = die_with(lake, house, request, rewrite_all=True)
    with service_houses.working(house):
        work = wait_for(book, request.work_id)
    assert (work.state, work.outcome, len(work.run_ids)) == (WorkState.DONE, Kind.COMPACTED, 1)
    assert "The next run finds what is left." in work.sentence


def commits(*snapshot_ids: int) -> RunCommits:
    made = tuple(Snapshot(snapshot_id=each, timestamp_ms=1, manifest_list="m") for each in snapshot_ids)
    return RunCommits(run_id="a", snapshots=made)


def test_events_tell_how_much_of_a_plan_is_in_the_table() -> None:
    told = [
        events.Planned(table="t", run_id="a", sentence="", groups=3),
        events.Committing(table="t", run_id="a", groups=1),
        events.Committed(table="t", run_id="a", snapshot_id=1, groups=1),
        events.Committing(table="t", run_id="a", groups=2),
    ]
    logged = tuple(events.LoggedEvent(number=at, at_ms=at, event=event) for at, event in enumerate(told))

    def dead(*snapshot_ids: int, known: int = 4) -> tuple[int | None, int, bool]:
        run = DeadRun(commits=commits(*snapshot_ids), logged=logged[:known])
        return run.groups, run.committed, run.is_whole

    assert dead(1, 2) == (3, 3, True)  # the event of the second commit was lost
    assert dead(1) == (3, 1, False)  # it was never made
    assert dead(1, known=0) == (None, 0, False)
    assert "1 of 3 file groups" in DeadRun(commits=commits(1), logged=logged).words
