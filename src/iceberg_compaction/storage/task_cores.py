"""The cores of one task: work side by side, and work ahead of its consumer. One core is that of the task's own thread;
other threads borrow the rest, so that never more threads compute than the task has cores. Results come in order, and
whoever stops early leaves no thread behind."""

from __future__ import annotations

import collections
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

T = TypeVar("T")
R = TypeVar("R")


class TaskCores:
    """So many cores. With a single one, no thread is started."""

    def __init__(self, count: int = 1) -> None:
        self.count = max(1, count)
        self._spare = threading.Semaphore(self.count - 1)

    def map(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """The result of each item. The caller's thread works too. Raises the error of the first item that failed,
        after all items that were begun are done."""
        threads = min(self.count, len(items)) - 1
        if threads <= 0:
            return [work(item) for item in items]
        shared = _SharedItems(work, items)
        for _ in range(threads):
            threading.Thread(target=shared.help, args=[self._spare], daemon=True, name="task-core").start()
        return shared.perform()

    def ahead(self, items: Iterator[T], size: Callable[[T], int], most: int) -> Generator[T, None, None]:
        """The items as they are, made by another thread before they are asked for, as long as those that wait have less
        than `most` bytes. The iterator is used by one thread at a time, and is closed by it."""
        if self.count == 1:
            yield from items
            return
        produced = _Produced(items, size, most)
        thread = threading.Thread(target=produced.produce, args=[self._spare], daemon=True, name="task-ahead")
        thread.start()
        try:
            yield from produced.take(self._spare)
        finally:
            produced.stop()
            thread.join()


class _SharedItems(Generic[T, R]):
    """Items that threads take one by one."""

    def __init__(self, work: Callable[[T], R], items: Sequence[T]) -> None:
        self._work = work
        self._waiting = collections.deque(enumerate(items))
        self._count = len(items)
        self._results: dict[int, R] = {}
        self._errors: dict[int, BaseException] = {}
        self._helped = 0  # items that other threads work on
        self._change = threading.Condition()

    def perform(self) -> list[R]:
        try:
            while (item := self._take()) is not None:
                self._do(*item)
        finally:  # a signal may end it early
            self._waiting.clear()
            with self._change:
                self._change.wait_for(lambda: not self._helped)
        if self._errors:
            raise self._errors[min(self._errors)]
        return [self._results[number] for number in range(self._count)]

    def help(self, spare: threading.Semaphore) -> None:
        """In another thread: works whenever a core is spare."""
        while self._waiting and not self._errors:
            with spare:
                if (item := self._take(helped=1)) is not None:
                    try:
                        self._do(*item)
                    except BaseException as error:  # noqa: BLE001 - an exit ends the caller, which waits for this item
                        self._errors[item[0]] = error
                    finally:
                        with self._change:
                            self._helped -= 1
                            self._change.notify_all()

    def _take(self, *, helped: int = 0) -> tuple[int, T] | None:
        with self._change:
            if not self._waiting or self._errors:
                return None
            self._helped += helped
            return self._waiting.popleft()

    def _do(self, number: int, item: T) -> None:
        try:
            self._results[number] = self._work(item)
        except Exception as error:  # noqa: BLE001 - raised by the caller's thread
            self._errors[number] = error


class _Produced(Generic[T]):
    """Items between the thread that makes them and the one that takes them."""

    def __init__(self, items: Iterator[T], size: Callable[[T], int], most: int) -> None:
        self._items = items
        self._size = size
        self._most = most
        self._ready: collections.deque[tuple[T, int]] = collections.deque()
        self._bytes = 0
        self._error: BaseException | None = None
        self._ended = self._stopped = False
        self._change = threading.Condition()

    def produce(self, spare: threading.Semaphore) -> None:
        """In another thread: makes items whenever a core is spare and there is room for them."""
        try:
            while self._has_room():
                with spare:
                    item = next(self._items)
                    size = self._size(item)
                with self._change:
                    self._ready.append((item, size))
                    self._bytes += size
                    self._change.notify_all()
                del item
        except StopIteration:
            pass
        except BaseException as error:  # noqa: BLE001 - raised by the thread that takes
            self._error = error
        finally:
            if (close := getattr(self._items, "close", None)) is not None:
                close()
            with self._change:
                self._ended = True
                self._change.notify_all()

    def take(self, spare: threading.Semaphore) -> Iterator[T]:
        """Items in order. While there is none, the core of the thread that waits is spare."""
        while True:
            self._wait(spare)
            with self._change:
                if not self._ready:
                    break
                item, size = self._ready.popleft()
                self._bytes -= size
                self._change.notify_all()
            yield item
            del item
        if self._error is not None:
            raise self._error

    def _wait(self, spare: threading.Semaphore) -> None:
        if self._ready or self._ended:
            return
        spare.release()
        try:
            with self._change:
                self._change.wait_for(lambda: self._ready or self._ended)
        finally:
            spare.acquire()

    def stop(self) -> None:
        with self._change:
            self._stopped = True
            self._ready.clear()
            self._change.notify_all()

    def _has_room(self) -> bool:
        with self._change:
            self._change.wait_for(lambda: self._stopped or self._bytes < self._most)
            return not self._stopped
