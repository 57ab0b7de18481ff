"""Work side by side and ahead of its consumer, on so many cores and no more."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from iceberg_compaction.storage.task_cores import TaskCores

if TYPE_CHECKING:
    from collections.abc import Iterator

MANY = 1 << 30


class Busy:
    """Counts the threads that are inside at the same time, and their most."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *raised: object) -> None:
        with self._lock:
            self.now -= 1


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "task-ahead"]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_results_come_in_the_order_of_the_items(count: int) -> None:
    assert TaskCores(count).map(lambda item: item * item, range(40)) == [item * item for item in range(40)]
    assert TaskCores(count).map(str, []) == []


def test_items_are_done_at_the_same_time_but_no_more_than_there_are_cores() -> None:
    both, busy = threading.Barrier(3), Busy()

    def work(item: int) -> int:
        with busy:
            both.wait(30)  # broken unless three threads meet
        return item

    assert TaskCores(3).map(work, range(6)) == list(range(6))
    assert busy.most == 3


def test_one_core_starts_no_thread() -> None:
    cores = TaskCores(1)
    assert set(cores.map(lambda _: threading.get_ident(), range(5))) == {threading.get_ident()}
    assert set(cores.ahead((threading.get_ident() for _ in range(5)), lambda _: 1, MANY)) == {threading.get_ident()}


def test_the_first_failure_is_raised_when_nothing_runs_any_more() -> None:
    busy, began = Busy(), threading.Barrier(2)

    def work(item: int) -> None:
        with busy:
            began.wait(30)
            raise ValueError(f"item {item}")

    with pytest.raises(ValueError, match=r"^item 0$"):
        TaskCores(2).map(work, range(50))
    assert busy.now == 0


def test_an_exit_within_a_helping_thread_is_raised_too() -> None:
    caller, began = threading.get_ident(), threading.Barrier(2)

    def work(item: int) -> None:
        began.wait(30)
        if threading.get_ident() != caller:
            raise SystemExit(f"item {item}")

    with pytest.raises(SystemExit, match="item"):
        TaskCores(2).map(work, range(2))


def test_items_are_made_ahead_in_order() -> None:
    made = threading.Event()

    def items() -> Iterator[int]:
        yield 0
        yield 1
        made.set()
        yield 2

    ahead = TaskCores(2).ahead(items(), lambda _: 1, MANY)
    assert next(ahead) == 0
    assert made.wait(30)  # nobody has asked for it
    assert list(ahead) == [1, 2]
    assert not threads()


def test_items_that_wait_are_bounded() -> None:
    made: list[int] = []
    full = threading.Event()

    def items() -> Iterator[int]:
        for number in range(20):
            made.append(number)
            if number == 3:
                full.set()
            yield number

    with_room_for_three = TaskCores(2).ahead(items(), lambda _: 10, 25)
    assert next(with_room_for_three) == 0
    assert full.wait(30)
    assert made == [0, 1, 2, 3]
    assert list(with_room_for_three) == list(range(1, 20))


def test_a_failure_comes_in_its_turn() -> None:
    def items() -> Iterator[int]:
        yield 0
        raise KeyError("lost")

    ahead = TaskCores(2).ahead(items(), lambda _: 1, MANY)
    assert next(ahead) == 0
    with pytest.raises(KeyError, match="lost"):
        next(ahead)
    assert not threads()


def test_whoever_stops_early_leaves_no_thread_and_closes_the_items() -> None:
    closed = threading.Event()

    def items() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.set()

    ahead = TaskCores(2).ahead(items(), lambda _: 1, 5)
    next(ahead)
    ahead.close()
    assert closed.is_set()
    assert not threads()


def test_work_ahead_and_work_side_by_side_share_the_cores() -> None:
    cores, busy = TaskCores(2), Busy()

    def items() -> Iterator[int]:
        for number in range(200):
            with busy:
                sum(range(1000))
            yield number

    def work(item: int) -> int:
        with busy:
            return sum(range(1000))

    for _ in cores.ahead(items(), lambda _: 1, 10):
        cores.map(work, range(4))
    assert busy.most <= 2


def test_a_consumer_that_waits_lends_its_core() -> None:
    cores, busy, both = TaskCores(2), Busy(), threading.Barrier(2)

    def work(item: int) -> int:
        with busy:
            both.wait(30)  # broken unless two threads meet
        return item

    def items() -> Iterator[int]:
        yield from cores.map(work, range(4))

    assert list(cores.ahead(items(), lambda _: 1, MANY)) == [0, 1, 2, 3]
    assert busy.most == 2
    assert cores.map(work, range(2)) == [0, 1]  # both cores are back
