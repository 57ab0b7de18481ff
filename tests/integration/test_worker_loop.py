"""Workers of a service: work is done as on the command line, and trouble of one table or catalog stays with it."""

from __future__ import annotations

import threading
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import lake as lakes
from tests.factories import reader, service_houses
from tests.factories.service_houses import compact, wait_for, wait_until

from iceberg_compaction import errors
from iceberg_compaction.interfaces.service.service_settings import ServedCatalog
from iceberg_compaction.interfaces.service.work import considerate, work_operations, worker_loop
from iceberg_compaction.interfaces.service.work.worker_loop import WorkerLoop
from iceberg_compaction.model.outcome import Kind
from iceberg_compaction.model.service_member import TableBlocker
from iceberg_compaction.model.work import WorkKind, WorkState
from iceberg_compaction.record import cancel_requests
from iceberg_compaction.record.service.table_blockers import TableBlockers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.factories.lake import Lake

    from iceberg_compaction.interfaces.service.service_house import ServiceHouse
    from iceberg_compaction.model.events import Event


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    made = lakes.file_lake(tmp_path)
    yield made
    lakes.close(made)


@pytest.fixture
def house(lake: Lake, tmp_path: Path) -> ServiceHouse:
    return service_houses.make_house(lake, str(tmp_path / "runs.db"))


def test_work_of_all_kinds_is_done(lake: Lake, house: ServiceHouse) -> None:
    table = lakes.append_small_files(lakes.make_table(lake.catalog, "db.t"), 4)
    before = reader.rows(table)
    request = compact(lake, "t", tenant="shop")
    with service_houses.working(house) as loop:
        loop.book.put(request)
        loop.wake()
        work = wait_for(loop.book, request.work_id)
        assert (work.state, work.outcome, work.run_ids) == (WorkState.DONE, Kind.COMPACTED, (request.work_id,))
        assert work.result is not None
        assert (work.result["files_removed"], work.result["tenant"]) == (4, "shop")
        record = house.store.run(request.work_id)
        assert record is not None
        assert record.outcome.kind is Kind.COMPACTED
        kinds = {
            WorkKind.VERIFY: {"run_id": request.work_id},
            WorkKind.UNDO: {"run_id": request.work_id},
            WorkKind.MAINTAIN: {"options": {"steps": "rewrite,manifests"}},
            WorkKind.EXPIRE: {"options": {"retain-last": 1, "older_than": "1d"}},
            WorkKind.MANIFESTS: {},
            WorkKind.DELETES: {},
            WorkKind.ORPHANS: {"options": {"older-than": "3d"}},
            WorkKind.TAGS: {"options": {"every": "day"}},
            WorkKind.STATISTICS: {},
        }
        results = {}
        for number, (kind, more) in enumerate(kinds.items()):
            each = compact(lake, "t", kind=kind, strategy=None, requested_ms=2000 + number, **more)
            loop.book.put(each)
            loop.wake()
            results[kind] = wait_for(loop.book, each.work_id)
        again = compact(lake, "t", kind=WorkKind.UNDO, run_id=request.work_id, requested_ms=3000)
        loop.book.put(again)
        loop.wake()
        refused = wait_for(loop.book, again.work_id)
        assert (refused.state, refused.attempts) == (WorkState.FAILED, 1)  # why it cannot be undone does not pass
    assert {kind: each.state for kind, each in results.items()} == dict.fromkeys(kinds, WorkState.DONE)
    verified = results[WorkKind.VERIFY]
    assert verified.result is not None
    assert verified.result["verdict"] == "proved"
    assert results[WorkKind.UNDO].outcome is Kind.UNDONE
    assert results[WorkKind.MAINTAIN].outcome is Kind.COMPACTED  # manifests
    assert len(results[WorkKind.MAINTAIN].run_ids) == 2
    assert reader.rows(lake.catalog.load_table("db.t")) == before


def test_what_cannot_be_meant_fails_at_once_with_its_sentence(lake: Lake, house: ServiceHouse) -> None:
    lakes.make_table(lake.catalog, "db.t")
    bad = [
        compact(lake, "none"),
        compact(lake, "t", options={"no-such-option": 1}),
        compact(lake, "t", kind=WorkKind.VERIFY),
        compact(lake, "t", kind=WorkKind.EXPIRE, options={"colour": "red"}),
    ]
    with service_houses.working(house) as loop:
        loop.book.put_all(bad)
        works = [wait_for(loop.book, each.work_id) for each in bad]
    assert [each.state for each in works] == [WorkState.FAILED] * 4
    words = ["There is no table", "Unknown option no-such-option", "name it with run_id", "colour"]
    assert [word in each.sentence for word, each in zip(words, works, strict=True)] == [True] * 4
    for each in bad[1:]:
        with pytest.raises(errors.ConfigError):
            work_operations.check(each, house)
    work_operations.check(bad[0], house)


def test_a_catalog_that_is_down_delays_its_own_tables_only(lake: Lake, tmp_path: Path) -> None:
    lakes.append_small_files(lakes.make_table(lake.catalog, "db.t"), 2)
    down = ServedCatalog(name="down", uri="http://127.0.0.1:9/", type="rest")
    good = service_houses.settings(lake, "x").catalogs["lake"]
    house = service_houses.make_house(
        lake, str(tmp_path / "runs.db"), catalogs={"lake": good, "down": down}, max_runs=1
    )
    lost = [compact(lake, f"x{number}", catalog="down", priority=9) for number in range(5)]
    request = compact(lake, "t", priority=0)
    with service_houses.working(house) as loop:
        loop.book.put_all([*lost, request])
        assert wait_for(loop.book, request.work_id, 30).outcome is Kind.COMPACTED
        waiting = [loop.book.get(each.work_id) for each in lost]
        assert loop.limits.now().away == {"down"}
    assert {each.state for each in waiting if each is not None} == {WorkState.QUEUED}
    assert sum(each.attempts for each in waiting if each is not None) == 1


def test_a_blocked_table_waits_until_the_writer_is_done(lake: Lake, house: ServiceHouse) -> None:
    lakes.append_small_files(lakes.make_table(lake.catalog, "db.t"), 2)
    blockers = TableBlockers(house.store.entries)
    until = house.clock() + 60_000
    blockers.put(TableBlocker(blocker_id="b", catalog="lake", table="db.t", until_ms=until, by="ann", reason="a load"))
    assert [each.by for each in blockers.list(house.clock(), "lake", "db.t")] == ["ann"]
    assert blockers.list(until) == []
    request = compact(lake, "t")
    with service_houses.working(house) as loop:
        loop.book.put(request)
        threading.Event().wait(0.5)
        work = loop.book.get(request.work_id)
        assert work is not None
        assert (work.state, work.attempts) == (WorkState.QUEUED, 0)
        assert blockers.remove("lake", "db.t", "b")
        assert not blockers.remove("lake", "db.t", "b")
        assert wait_for(loop.book, request.work_id, 20).state is WorkState.DONE


class Gate:
    """Holds a run after its first task."""

    def __init__(self) -> None:
        self.reached, self.open = threading.Event(), threading.Event()

    def __call__(self, event: Event) -> None:
        if event.kind == "task-ended":
            self.reached.set()
            self.open.wait(30)


def test_work_that_is_cancelled_ends_with_what_it_has_finished(lake: Lake, house: ServiceHouse) -> None:
    before = reader.rows(service_houses.partitioned(lake))
    gate, request = Gate(), compact(lake, "p")
    with service_houses.working(house, on_event=gate) as loop:
        loop.book.put(request)
        loop.wake()
        assert gate.reached.wait(30)
        loop.book.cancel(request.work_id, by="ann", now_ms=house.clock())
        token = loop._at_work[request.work_id].job.cancel
        wait_until(lambda: token.cancelled)
        gate.open.set()
        work = wait_for(loop.book, request.work_id)
    assert work.state is WorkState.CANCELLED
    assert "was cancelled" in work.sentence
    assert reader.rows(lake.catalog.load_table("db.p")) == before
    assert cancel_requests.find(house.store.entries, request.work_id) is None


def test_a_worker_that_ends_gives_its_work_back_and_another_one_finishes_it(
    lake: Lake, house: ServiceHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = reader.rows(service_houses.partitioned(lake))
    gate, request = Gate(), compact(lake, "p")
    first = WorkerLoop(house=house, member=uuid.uuid4().hex, poll_s=0.05, on_event=gate)
    first.start()
    first.book.put(request)
    first.wake()
    assert gate.reached.wait(30)
    threading.Timer(1.2, gate.open.set).start()
    monkeypatch.setattr(worker_loop, "_FINISH_SHARE", 0.1)
    assert first.stop(10)
    work = first.book.get(request.work_id)
    assert work is not None
    assert (work.state, work.worker) == (WorkState.QUEUED, "")
    assert first.members.list() == []
    with service_houses.working(house) as second:
        work = wait_for(second.book, request.work_id)
        assert [each.slots for each in second.members.list()] == [2]
    assert (work.state, len(work.run_ids), work.attempts) == (WorkState.DONE, 2, 2)
    assert reader.rows(lake.catalog.load_table("db.p")) == before


def test_threads_of_runs_have_their_share_of_the_cores() -> None:
    shares: list[int] = []
    for share in (0.01, 1.0):
        thread = threading.Thread(target=lambda share=share: shares.append(considerate.bind_thread(share)))
        thread.start()
        thread.join()
    assert shares[0] == 1
    assert shares[1] >= shares[0]


def test_a_tenant_that_has_spent_its_hour_waits(lake: Lake, tmp_path: Path) -> None:
    lakes.append_small_files(lakes.make_table(lake.catalog, "db.t"), 2)
    tenants = {"poor": {"tables": ["db.*"], "hourly_cost_limit": 0.0}}
    house = service_houses.make_house(lake, str(tmp_path / "runs.db"), tenants=tenants)
    requests = [compact(lake, "t", tenant="poor"), compact(lake, "t")]
    with service_houses.working(house) as loop:
        loop.book.put_all(requests)
        assert wait_for(loop.book, requests[1].work_id).state is WorkState.DONE
        work = loop.book.get(requests[0].work_id)
    assert work is not None
    assert (work.state, work.attempts) == (WorkState.QUEUED, 0)


def test_a_blocker_that_comes_while_work_is_claimed_holds(
    lake: Lake, house: ServiceHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks for peace gets it, or sees the work at work: never an answer and then a run that begins."""
    lakes.append_small_files(lakes.make_table(lake.catalog, "db.t"), 2)
    blockers = TableBlockers(house.store.entries)
    peace = TableBlocker(blocker_id="b", catalog="lake", table="db.t", until_ms=house.clock() + 60_000, by="me")
    loop = WorkerLoop(house=house, member=uuid.uuid4().hex)
    limits = loop.limits.now()
    request = compact(lake, "t")
    loop.book.put(request)
    blockers.put(peace)
    monkeypatch.setattr(worker_loop.LimitKeeper, "now", lambda self: limits)  # read before the blocker came
    loop.step()
    work = loop.book.get(request.work_id)
    assert work is not None
    assert (work.state, work.run_ids, loop.doing()) == (WorkState.QUEUED, (), ())
    assert "asks for peace" in work.sentence


def test_a_claim_whose_answer_was_lost_is_not_kept_for_ever(
    lake: Lake, house: ServiceHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    lakes.append_small_files(lakes.make_table(lake.catalog, "db.t"), 2)
    real, lost = worker_loop.WorkBook.claim, []

    def claim(self: Any, *given: Any) -> Any:
        claimed = real(self, *given)
        if claimed is not None and not lost:
            lost.append(claimed)
            raise errors.StoreError("The answer of the store was lost.")
        return claimed

    monkeypatch.setattr(worker_loop.WorkBook, "claim", claim)
    request = compact(lake, "t")
    with service_houses.working(house) as loop:
        loop.book.put(request)
        work = wait_for(loop.book, request.work_id, 30)
    assert lost
    assert (work.state, work.outcome, len(work.run_ids)) == (WorkState.DONE, Kind.COMPACTED, 1)


def test_a_request_cannot_spend_the_budget_of_another_tenant(lake: Lake, tmp_path: Path) -> None:
    lakes.append_small_files(lakes.make_table(lake.catalog, "db.t"), 2)
    tenants = {"own": {"tables": ["db.*"]}, "other": {"tables": ["x.*"], "hourly_cost_limit": 1e-12}}
    house = service_houses.make_house(lake, str(tmp_path / "runs.db"), tenants=tenants)
    request = compact(lake, "t", tenant="own", strategy="full", options={"min-input-files": 2, "tenant": "other"})
    with service_houses.working(house) as loop:
        loop.book.put(request)
        work = wait_for(loop.book, request.work_id)
        assert work.result is not None
        assert (work.outcome, work.result["tenant"]) == (Kind.COMPACTED, "own")
        loop.limits._waiting_at = -1e9
        assert loop.limits.now().waiting == frozenset()
