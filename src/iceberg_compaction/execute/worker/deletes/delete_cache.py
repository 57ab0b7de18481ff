"""Delete files that this process has read, within a memory budget: the tasks of a run that share a delete file read it
once. The file that was used longest ago is forgotten first."""

from __future__ import annotations

import collections
import itertools
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeAlias

    import pyarrow as pa

    Key: TypeAlias = tuple[str, int]  # path and size; a delete file never changes
    Batches: TypeAlias = list[pa.RecordBatch]

BUDGET = 96 * 2**20  # bytes of Arrow data per process


class DeleteCache:
    """Loads each key once, even if several threads want it at the same time; a load that fails is tried again."""

    def __init__(self, budget: int = BUDGET) -> None:
        self.budget = budget
        self._lock = threading.Lock()
        self._loading: dict[Key, threading.Lock] = {}
        self._held: collections.OrderedDict[Key, Batches] = collections.OrderedDict()
        self._bytes = 0

    def get(self, key: Key, load: Callable[[], Iterable[pa.RecordBatch]]) -> Iterable[pa.RecordBatch]:
        """The batches of the key, loaded if need be. Batches beyond the budget are not held but passed on as they
        come."""
        with self._lock:
            mine = self._loading.setdefault(key, threading.Lock())
        with mine:
            with self._lock:
                if (held := self._held.get(key)) is not None:
                    self._held.move_to_end(key)
                    return held
            loaded: Batches = []
            size, coming = 0, iter(load())
            for batch in coming:
                loaded.append(batch)
                size += batch.nbytes
                if size > self.budget:
                    return itertools.chain(_emptied(loaded), coming)
            self._keep(key, loaded)
            return loaded

    def _keep(self, key: Key, batches: Batches) -> None:
        with self._lock:
            self._held[key] = batches
            self._bytes += _size(batches)
            while self._bytes > self.budget and self._held:
                oldest, batches = self._held.popitem(last=False)
                self._bytes -= _size(batches)
                self._loading.pop(oldest, None)


def _emptied(batches: Batches) -> Iterator[pa.RecordBatch]:
    """The batches, each of them forgotten when it is handed out."""
    batches.reverse()
    while batches:
        yield batches.pop()


def _size(batches: Batches) -> int:
    return sum(batch.nbytes for batch in batches)


PROCESS = DeleteCache()
