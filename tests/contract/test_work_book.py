"""The work book of a service, for every place that a store may be in (R80)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.factories import stores
from tests.factories.service_work import NO_LIMITS, claim_all, claimed, request

from iceberg_compaction import errors
from iceberg_compaction.model.outcome import Kind
from iceberg_compaction.model.work import WorkState
from iceberg_compaction.model.work_board import WorkLimits
from iceberg_compaction.record.rules import work_book, work_rows
from iceberg_compaction.record.rules.work_book import ClaimState, WorkBook, WorkEnd

if TYPE_CHECKING:
    from iceberg_compaction.record.store import RunStore

HOUR = 3_600_000
MINUTE = 60_000


@pytest.fixture
def book(every_place: stores.Place) -> WorkBook:
    return WorkBook(every_place.open().entries)


def test_the_highest_priority_comes_first_and_then_the_oldest_and_waiting_makes_up_for_priority(book: WorkBook) -> None:
    book.put_all([request("b", 2), request("a", 3), request("c", 1), request("urgent", 4, priority=9)])
    book.put(request("later", 4, priority=9), due_ms=50)
    assert claim_all(book) == ["urgent", "c", "b", "a"]
    assert claim_all(book, 50) == ["later"]
    book.put_all([request("old", HOUR, priority=0), request("new", HOUR + 95 * MINUTE, priority=9)])
    assert claim_all(book, 3 * HOUR) == ["old", "new"]


def test_work_of_the_same_id_is_put_once(book: WorkBook) -> None:
    first = book.put(request("a", reason="first"))
    assert book.put(request("a", reason="second"), due_ms=5) == first
    book.done(claimed(book), WorkEnd(outcome=Kind.HEALTHY, sentence="Nothing to do.", result={"x": 1}), 20)
    again = book.put(request("a"))
    assert (again.state, again.outcome, again.result) == (WorkState.DONE, Kind.HEALTHY, {"x": 1})
    assert claim_all(book) == []
    assert book.counts().queued == 0
    both = book.put_all([request("a"), request("b")])
    assert [each.state for each in both] == [WorkState.DONE, WorkState.QUEUED]


def test_r80_work_of_a_dead_worker_is_taken_over_and_the_dead_one_is_refused(book: WorkBook) -> None:
    book.put(request("a"))
    slow = book.started(claimed(book), "run1", 11)
    assert book.claim("other", 12, NO_LIMITS) is None
    other = book.claim("other", 12, NO_LIMITS, dead={"w"})
    assert other is not None
    assert (other.inherited, other.work.worker, other.work.run_ids, other.work.attempts) == (
        True,
        "other",
        ("run1",),
        2,
    )
    assert other.token > slow.token
    for use in (
        lambda: book.done(slow, WorkEnd(), 20),
        lambda: book.fail(slow, WorkEnd(), 20),
        lambda: book.release(slow, 20),
        lambda: book.started(slow, "run2", 20),
    ):
        with pytest.raises(errors.LostWorkError, match="Another worker has the work a by now"):
            use()
    assert book.look([slow, other]) == {"a": ClaimState.HELD}
    assert book.look([slow]) == {"a": ClaimState.LOST}
    assert book.done(other, WorkEnd(), 30).state is WorkState.DONE
    assert book.claim("w", 10**9, NO_LIMITS, dead={"w", "other"}) is None


def test_work_that_kills_its_workers_ends(book: WorkBook) -> None:
    book.put(request("a"))
    for number in range(3):
        work = book.claim(f"w{number}", 10, NO_LIMITS, dead={f"w{number - 1}"})
        assert work is not None
    assert book.claim("w3", 10, NO_LIMITS, dead={"w2"}) is None
    ended = book.get("a")
    assert ended is not None
    assert (ended.state, ended.sentence) == (WorkState.FAILED, "3 workers died with it.")
    assert book.claims() == ()


def test_failures_are_tried_again_later_and_not_for_ever(book: WorkBook) -> None:
    book.put(request("a"))
    now_ms, waits = 10, []
    end = WorkEnd(state=WorkState.FAILED, outcome=Kind.FAILED, sentence="The table is away.")
    for _ in range(work_book.MOST_FAILURES - 1):
        failed = book.fail(claimed(book, now_ms), end, now_ms)
        assert failed.state is WorkState.QUEUED
        before = now_ms
        while book.claim("probe", now_ms, WorkLimits(total=0)) is None and not _is_due(book, now_ms):
            now_ms += 1000
        waits.append(now_ms - before)
    assert waits == [5000, 10_000, 20_000, 40_000]
    last = book.fail(claimed(book, now_ms), end, now_ms)
    assert (last.state, last.outcome, last.sentence) == (WorkState.FAILED, Kind.FAILED, "The table is away.")
    assert book.claim("w", now_ms + HOUR, NO_LIMITS) is None


def _is_due(book: WorkBook, now_ms: int) -> bool:
    (entry,) = book.entries.scan("work-queued/")
    return work_rows.parse_queued(entry).due_ms <= now_ms


def test_work_that_is_given_back_is_somebody_elses_at_once_or_later(book: WorkBook) -> None:
    book.put(request("a"))
    back = book.release(claimed(book), 20, sentence="The worker ends.")
    assert (back.state, back.worker, back.sentence) == (WorkState.QUEUED, "", "The worker ends.")
    again = claimed(book, 20, "other")
    book.release(again, 30, due_ms=100)
    assert book.claim("w", 99, NO_LIMITS) is None
    assert not claimed(book, 100).inherited


def test_cancelled_work_ends_or_is_asked_to(book: WorkBook) -> None:
    book.put_all([request("waiting"), request("running", priority=9)])
    held = claimed(book)
    waiting = book.cancel("waiting", by="ann", now_ms=20)
    assert waiting is not None
    assert (waiting.state, waiting.sentence) == (WorkState.CANCELLED, "ann has cancelled it before it began.")
    running = book.cancel("running", by="ann", now_ms=20)
    assert running is not None
    assert (running.state, running.sentence) == (WorkState.RUNNING, "ann has asked for its end.")
    assert book.look([held]) == {"running": ClaimState.CANCELLED}
    assert book.cancel("waiting", by="ann", now_ms=20) is None
    assert book.cancel("none", by="ann", now_ms=20) is None
    assert book.fail(held, WorkEnd(state=WorkState.CANCELLED), 30).state is WorkState.CANCELLED
    assert claim_all(book, HOUR) == []


def test_limits_hold_for_catalogs_tenants_and_all(book: WorkBook) -> None:
    for number in range(3):
        for catalog, tenant in (("c", "t"), ("c", "u"), ("d", "t")):
            book.put(request(f"{catalog}{tenant}{number}", catalog=catalog, tenant=tenant))
    limits = {"catalogs": {"c": 3}, "tenants": {"u": 1}}
    ids = claim_all(book, **limits)
    assert sorted(each[:2] for each in ids) == ["ct", "ct", "cu", "dt", "dt", "dt"]
    book.put(request("more", catalog="d", tenant="v"))
    assert claim_all(book, total=6) == []
    assert claim_all(book, total=7, **limits) == ["more"]


def test_one_work_on_a_table_at_a_time_and_none_while_it_is_blocked_or_its_catalog_is_away(book: WorkBook) -> None:
    book.put_all(
        [request("a", 1, table="db.t"), request("b", 2, table="db.t"), request("other", 3, catalog="d", table="db.t")]
    )
    assert claim_all(book, away=frozenset({"d"}), blocked=frozenset({("c", "db.t")})) == []
    assert claim_all(book, away=frozenset({"d"})) == ["a"]
    assert claim_all(book) == ["other"]
    (first, _) = sorted(book.claims(), key=lambda claim: claim.work_id)
    work = book.get(first.work_id)
    assert work is not None
    book.done(work_book.ClaimedWork(work=work, token=first.token), WorkEnd(), 20)
    assert claim_all(book) == ["b"]


def test_too_much_waiting_work_of_a_tenant_is_refused(book: WorkBook) -> None:
    book.most_queued = 2
    book.put_all([request("a", tenant="t"), request("b", tenant="t"), request("c", tenant="u")])
    with pytest.raises(errors.QueueFullError, match="There are 2 requests of t in the queue already; try again later"):
        book.put(request("d", tenant="t"))
    assert book.put(request("b", tenant="t")).state is WorkState.QUEUED
    claimed(book)
    claimed(book)
    book.put(request("d", tenant="t"))
    counts = book.counts()
    assert (counts.queued, counts.running, counts.queued_by_tenant) == (2, 2, {"t": 2})
    assert counts.running_by_tenant == {"t": 1, "u": 1}
    assert counts.oldest_ms == 0


def test_work_is_listed_in_pages_the_newest_first(book: WorkBook) -> None:
    book.put_all(
        [request(f"i{number}", number, tenant="tu"[number % 2], table=f"db.{number % 3}") for number in range(6)]
    )
    assert [each.request.work_id for each in book.list(limit=2)] == ["i5", "i4"]
    after = work_rows.cursor(book.list(limit=2)[-1])
    assert [each.request.work_id for each in book.list(after=after)] == ["i3", "i2", "i1", "i0"]
    assert [each.request.work_id for each in book.list(tenants=["t"])] == ["i4", "i2", "i0"]
    assert [each.request.work_id for each in book.list(tenants=["t", "u"], limit=3)] == ["i5", "i4", "i3"]
    assert [each.request.work_id for each in book.list(tenants=["t", "u"], after=after, limit=2)] == ["i3", "i2"]
    assert [each.request.work_id for each in book.list(table="db.0")] == ["i3", "i0"]
    held = claimed(book, tenants={"u": 0})
    assert [each.request.work_id for each in book.list(WorkState.RUNNING)] == [held.work_id]
    assert book.list(tenants=[]) == []


def test_ends_have_numbers_in_their_order_and_are_forgotten_in_time(book: WorkBook) -> None:
    book.put_all([request(f"i{number}", number) for number in range(4)])
    for number in range(3):
        book.done(claimed(book), WorkEnd(), 100 + number)
    book.cancel("i3", now_ms=200)
    assert [(number, work.request.work_id) for number, work in book.ended_after(0)] == [
        (1, "i0"),
        (2, "i1"),
        (3, "i2"),
        (4, "i3"),
    ]
    assert [number for number, _ in book.ended_after(2)] == [3, 4]
    assert book.last_ended() == 4
    assert book.prune(102) == 2
    assert book.get("i0") is None
    assert book.get("i2") is not None
    assert book.prune(10**9) == 2
    assert {entry.key for entry in book.entries.scan("work")} == {work_rows.BOARD}


def test_an_idle_queue_costs_one_look_at_the_board(book: WorkBook, monkeypatch: pytest.MonkeyPatch) -> None:
    book.put(request("a"), due_ms=HOUR)
    assert book.claim("w", 10, NO_LIMITS) is None
    monkeypatch.setattr(book.entries, "scan", lambda *given, **more: pytest.fail("the queue is looked through again"))
    assert book.claim("w", 11, NO_LIMITS) is None
    book.put(request("b"))
    monkeypatch.undo()
    assert claimed(book, 12).work_id == "b"


def claim_and_inherit(store: RunStore, worker: str) -> tuple[str | None, str | None]:
    """Take waiting work, and what `dead` has; end the latter."""
    book = WorkBook(store.entries)
    mine = book.claim(worker, 10, NO_LIMITS)
    others = book.claim(worker, 10, WorkLimits(total=0), dead={"dead"})
    if others is not None:
        book.done(others, WorkEnd(), 20)
    return None if mine is None else mine.work_id, None if others is None else others.work_id


def test_r80_of_two_that_claim_or_take_over_at_once_each_gets_other_work(
    book: WorkBook, every_place: stores.Place
) -> None:
    rounds = [str(number) for number in range(10)]
    book.put_all([request(f"dead{number}") for number in range(10)])
    for _ in rounds:
        claimed(book, worker="dead")
    book.put_all([request(f"i{number}") for number in range(20)])
    answers = [
        each for both in stores.at_once(every_place, rounds, claim_and_inherit, claim_and_inherit) for each in both
    ]
    assert sorted(str(mine) for mine, _ in answers) == sorted(f"i{number}" for number in range(20))
    assert sorted(others for _, others in answers if others) == [f"dead{number}" for number in range(10)]
    assert (len(book.claims()), book.last_ended()) == (20, 10)


def _of_a_newer_version(book: WorkBook, work_id: str) -> None:
    """Another replica, of a version that knows more, has written this row."""
    key = work_rows.key(work_id)
    row = json.loads(book.entries.get([key])[key].value)
    book.entries.change({key: json.dumps({**row, "of_tomorrow": 1})})


def test_work_that_only_a_newer_version_can_read_waits_for_it(book: WorkBook) -> None:
    book.put_all([request("new", 1), request("old", 2, table="db.other")])
    _of_a_newer_version(book, "new")
    assert claim_all(book) == ["old"]
    assert book.counts().queued == 1
    key = work_rows.key("new")
    row = json.loads(book.entries.get([key])[key].value)
    book.entries.change({key: json.dumps({name: each for name, each in row.items() if name != "of_tomorrow"})})
    assert claim_all(book, 10_000) == ["new"]


def test_the_claim_of_a_dead_worker_of_a_newer_version_is_left_to_one_that_can_read_it(book: WorkBook) -> None:
    book.put_all([request("new", 1)])
    assert claimed(book).work_id == "new"
    _of_a_newer_version(book, "new")
    book.put(request("second", 2, table="db.new"))
    assert book.claim("other", 20, NO_LIMITS, dead={"w"}) is None
    assert [claim.work_id for claim in book.claims()] == ["new"]


def test_r80_that_a_worker_died_is_known_until_a_run_begins_anew(book: WorkBook) -> None:
    """Else work that could not be looked at, because the catalog was away, would be done a second time."""
    book.put(request("a"))
    book.started(claimed(book), "run1", 11)
    heir = book.claim("heir", 12, NO_LIMITS, dead={"w"})
    assert heir is not None
    book.release(heir, 13)
    later = book.claim("heir", 14, NO_LIMITS)
    assert later is not None
    assert later.inherited
    book.release(book.started(later, "run2", 15), 16)
    last = book.claim("heir", 17, NO_LIMITS)
    assert last is not None
    assert not last.inherited


def test_cancelled_work_that_is_given_back_has_ended(book: WorkBook) -> None:
    book.put(request("a"))
    held = claimed(book)
    book.cancel("a", by="ann", now_ms=12)
    work = book.release(held, 13, due_ms=99_999)
    assert (work.state, work.sentence) == (WorkState.CANCELLED, "ann has cancelled it.")
    assert (claim_all(book, 10**6), book.counts().queued) == ([], 0)


def test_work_that_is_handed_over_in_the_middle_of_a_run_is_gone_on_with(book: WorkBook) -> None:
    book.put(request("a"))
    book.hand_over(book.started(claimed(book), "run1", 11), 12, "The service ends.")
    heir = book.claim("heir", 13, NO_LIMITS)
    assert heir is not None
    assert (heir.inherited, heir.work.run_ids, heir.work.attempts) == (True, ("run1",), 2)
