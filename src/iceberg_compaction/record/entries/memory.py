"""Entries in the memory of this process, `memory://`: for tests, and for runs that nothing need remember."""

from __future__ import annotations

import bisect
import itertools
import threading
from typing import TYPE_CHECKING

from iceberg_compaction.record.entries.door import StoreEntry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


class MemoryEntries:
    """See `door.StoreEntries`. Text in Python is ordered as its UTF-8 bytes are."""

    def __init__(self) -> None:
        self._entries: dict[str, StoreEntry] = {}
        self._keys: list[str] = []  # in order
        self._versions = itertools.count(1)
        self._lock = threading.RLock()

    def __str__(self) -> str:
        return "memory://"

    def get(self, keys: Sequence[str]) -> dict[str, StoreEntry]:
        with self._lock:
            return {key: self._entries[key] for key in keys if key in self._entries}

    def scan(
        self, prefix: str, *, after: str = "", limit: int | None = None, reverse: bool = False
    ) -> list[StoreEntry]:
        with self._lock:
            keys = self._backward(prefix, after) if reverse else self._forward(prefix, after)
            return [self._entries[key] for key in itertools.islice(keys, limit)]

    def change(self, values: Mapping[str, str | None], expected: Mapping[str, int | None] | None = None) -> bool:
        with self._lock:
            if any(self._version(key) != version for key, version in (expected or {}).items()):
                return False
            for key, value in values.items():
                self._write(key, value)
            return True

    def close(self) -> None:
        """There is nothing to give back."""

    def _forward(self, prefix: str, after: str) -> Iterator[str]:
        first = max(bisect.bisect_left(self._keys, prefix), bisect.bisect_right(self._keys, after))
        return itertools.takewhile(lambda key: key.startswith(prefix), itertools.islice(self._keys, first, None))

    def _backward(self, prefix: str, after: str) -> Iterator[str]:
        end = len(self._keys) if not prefix else bisect.bisect_left(self._keys, prefix[:-1] + chr(ord(prefix[-1]) + 1))
        end = min(end, bisect.bisect_left(self._keys, after)) if after else end
        return itertools.takewhile(
            lambda key: key.startswith(prefix), (self._keys[at] for at in range(end - 1, -1, -1))
        )

    def _version(self, key: str) -> int | None:
        entry = self._entries.get(key)
        return None if entry is None else entry.version

    def _write(self, key: str, value: str | None) -> None:
        at = bisect.bisect_left(self._keys, key)
        if value is None:
            if self._entries.pop(key, None) is not None:
                del self._keys[at]
            return
        if key not in self._entries:
            self._keys.insert(at, key)
        self._entries[key] = StoreEntry(key, value, next(self._versions))
