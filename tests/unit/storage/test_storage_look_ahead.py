"""Work ahead: in order, bounded, failures in their turn, and nothing left behind by those who stop early."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from iceberg_compaction.storage import look_ahead

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_as_many_items_as_asked_for_are_under_way_and_results_are_in_order() -> None:
    running, most, lock, gate = 0, 0, threading.Lock(), threading.Barrier(4, timeout=60)

    def work(item: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        if item < 4:
            gate.wait()  # all four must be under way at once, or nobody gets on
        with lock:
            running -= 1
        return item * 2

    assert list(look_ahead.in_order(work, range(50), at_once=4)) == [item * 2 for item in range(50)]
    assert most == 4


@pytest.mark.parametrize("count", [0, 1])
def test_no_thread_is_started_for_a_single_item(count: int) -> None:
    threads = look_ahead.in_order(lambda item: threading.current_thread(), range(count))
    assert list(threads) == [threading.current_thread()] * count


def test_few_results_are_held_and_items_are_taken_as_late() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for item in range(100):
            taken.append(item)
            yield item

    results = look_ahead.in_order(lambda item: item, items(), at_once=4)
    for wanted, result in zip(range(10), results, strict=False):
        assert result == wanted
        assert len(taken) <= wanted + 4
    results.close()
    assert len(taken) <= 13


def _fails_at_seven(item: int) -> int:
    if item == 7:
        raise OSError("broken")
    return item


def test_a_failure_is_raised_in_its_turn() -> None:
    results = look_ahead.in_order(_fails_at_seven, range(100), at_once=4)
    assert [next(results) for _ in range(7)] == list(range(7))
    with pytest.raises(OSError, match="broken"):
        next(results)


def test_nothing_is_begun_after_a_failure() -> None:
    begun: list[int] = []

    def work(item: int) -> int:
        begun.append(item)
        return _fails_at_seven(item)

    with pytest.raises(OSError, match="broken"):
        list(look_ahead.in_order(work, range(100), at_once=3))
    assert max(begun) < 10


@pytest.mark.parametrize("stop", [4, 8])
def test_results_that_nobody_took_are_released(stop: int) -> None:
    """Also after a failure: at item 7, of which there is no result."""
    made: list[int] = []
    taken: list[int] = []
    released: list[int] = []

    def work(item: int) -> int:
        made.append(_fails_at_seven(item))
        return item

    results = look_ahead.in_order(work, range(100), at_once=4, release=released.append)
    try:
        taken.extend(next(results) for _ in range(stop))
    except OSError:
        assert stop == 8
    results.close()
    assert sorted(taken + released) == sorted(made)
    assert not {thread.name for thread in threading.enumerate() if thread.name.startswith("look-ahead")}
