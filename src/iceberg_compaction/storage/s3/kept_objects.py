"""Small objects that one FileIO has read whole, kept for the next who opens them: files of a table never change, and a
footer, the rows and the page index of one file are wanted by different readers."""

from __future__ import annotations

import threading

BUDGET = 32 * 2**20  # bytes of one FileIO
LARGEST = 16 * 2**20  # bytes of an object


class KeptObjects:
    """Contents by key. What came first stays; nothing is kept beyond the budget."""

    def __init__(self, budget: int = BUDGET) -> None:
        self.left = budget
        self._contents: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def get(self, key: str) -> bytes | None:
        return self._contents.get(key)

    def keep(self, key: str, content: bytes) -> None:
        """Keeps the content if there is room."""
        with self._lock:
            if key not in self._contents and len(content) <= min(self.left, LARGEST):
                self._contents[key] = content
                self.left -= len(content)

    def drop(self, key: str) -> None:
        """The object changes."""
        with self._lock:
            if (content := self._contents.pop(key, None)) is not None:
                self.left += len(content)
