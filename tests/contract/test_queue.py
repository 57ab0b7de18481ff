"""The queue in the run store, for every place that a store may be in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import stores

from iceberg_compaction import errors
from iceberg_compaction.record.rules.queue import ItemState, Queue, QueueItem

if TYPE_CHECKING:
    from iceberg_compaction.record.store import RunStore

HOUR = 3_600_000


@pytest.fixture
def queue(every_place: stores.Place) -> Queue:
    return Queue(every_place.open().entries)


def item(item_id: str, at_ms: int = 0, **more: Any) -> QueueItem:
    return QueueItem(**{"item_id": item_id, "payload": "{}", "put_ms": at_ms, "due_ms": at_ms, **more})


def claimed(queue: Queue, now_ms: int = 10, visible_after_ms: int = 100) -> QueueItem:
    got = queue.claim("w", now_ms, visible_after_ms)
    assert got is not None
    return got


def test_the_highest_priority_comes_first_and_then_the_oldest(queue: Queue) -> None:
    for each in (
        item("b", 2),
        item("a", 3),
        item("c", 1),
        item("urgent", 4, priority=9),
        item("later", 50, priority=9),
    ):
        queue.put(each)
    assert [claimed(queue).item_id for _ in range(4)] == ["urgent", "c", "b", "a"]
    assert queue.claim("w", 10, 100) is None
    assert claimed(queue, 50).item_id == "later"


def test_an_item_of_the_same_id_is_put_once(queue: Queue) -> None:
    first = queue.put(item("a", payload="first"))
    assert queue.put(item("a", payload="second", due_ms=5)) == first
    queue.done(claimed(queue))
    assert queue.put(item("a")).state is ItemState.DONE
    assert [each.item_id for each in queue.items()] == ["a"]
    assert queue.remove("a")
    assert queue.put(item("a")).state is ItemState.WAITING
    assert not queue.remove("a")


def test_an_item_whose_owner_is_silent_is_anybodys_again_and_the_owner_is_refused(queue: Queue) -> None:
    queue.put(item("a"))
    slow = claimed(queue)
    assert queue.claim("other", 109, 100) is None
    other = queue.claim("other", 110, 100)
    assert other is not None
    assert (other.owner, other.token) == ("other", slow.token + 1)
    for use in (lambda: queue.done(slow), lambda: queue.fail(slow, 120, "x"), lambda: queue.extend(slow, 120, 100)):
        with pytest.raises(errors.StoreError, match="The item a of the queue work is not w's any more"):
            use()
    assert queue.done(other).state is ItemState.DONE
    assert queue.claim("w", 10**9, 100) is None


def test_an_owner_keeps_an_item_by_extending_it(queue: Queue) -> None:
    queue.put(item("a"))
    held = queue.extend(claimed(queue), 100, 100)
    assert queue.claim("other", 150, 100) is None
    assert queue.done(held).state is ItemState.DONE


def test_failures_are_tried_again_later_and_not_for_ever(queue: Queue) -> None:
    queue.put(item("a", most_failures=3))
    now_ms, waits = 10, []
    for _ in range(3):
        failed = queue.fail(claimed(queue, now_ms), now_ms, "The table is away.")
        waits.append(failed.due_ms - now_ms)
        assert queue.claim("w", failed.due_ms - 1, 100) is None
        now_ms = failed.due_ms
    assert waits == [1000, 2000, 4000]
    assert (failed.state, failed.failures, failed.sentence) == (ItemState.FAILED, 3, "The table is away.")
    assert queue.claim("w", now_ms + HOUR, 100) is None


def test_a_cancelled_item_is_nobodys(queue: Queue) -> None:
    for name in ("waiting", "at work"):
        queue.put(item(name, priority=0 if name == "waiting" else 1))
    held = claimed(queue)
    for name in ("waiting", "at work"):
        cancelled = queue.cancel(name)
        assert cancelled is not None
        assert cancelled.state is ItemState.CANCELLED
        assert queue.cancel(name) is None
    assert queue.cancel("none") is None
    with pytest.raises(errors.StoreError):
        queue.done(held)
    assert queue.claim("w", HOUR, 100) is None


def test_items_are_listed_in_pages(queue: Queue) -> None:
    for number in range(5):
        queue.put(item(f"i{number}"))
    Queue(queue.entries, "other").put(item("x"))
    assert [each.item_id for each in queue.items(limit=2)] == ["i0", "i1"]
    assert [each.item_id for each in queue.items(after="i1")] == ["i2", "i3", "i4"]
    with pytest.raises(errors.ConfigError, match="The priority 10 is not between 0 and 9"):
        queue.put(item("y", priority=10))


def claim_any(store: RunStore, run_id: str) -> str | None:
    got = Queue(store.entries).claim(run_id, 10, 100)
    return None if got is None else got.item_id


def test_of_two_that_claim_at_once_each_gets_another_item(queue: Queue, every_place: stores.Place) -> None:
    rounds = [str(number) for number in range(10)]
    for number in range(20):
        queue.put(item(f"i{number}"))
    first, second = stores.at_once(every_place, rounds, claim_any, claim_any)
    assert sorted([*first, *second]) == sorted(f"i{number}" for number in range(20))
