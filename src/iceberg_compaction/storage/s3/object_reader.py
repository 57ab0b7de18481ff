"""An object as a file to read. Opening costs no request: a request is made for bytes that are not here yet, and its
answer says how long the object is. Small objects come whole, and ends of files with their length."""

from __future__ import annotations

import io
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from iceberg_compaction.storage import look_ahead

if TYPE_CHECKING:
    from collections.abc import Callable

    from iceberg_compaction.storage import request_counts
    from iceberg_compaction.storage.s3 import kept_objects, plain_requests

_TAIL = 64 * 2**10  # bytes that are read at the end of an object of unknown length
_PART = 16 * 2**20  # bytes of one request, where somebody wants more
_PARTS_AT_ONCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectSource:
    """Three ways to the bytes of one object."""

    key: str
    kept: kept_objects.KeptObjects
    get: Callable[[str | None], plain_requests.Answer | None]  # of a range as HTTP writes it; None: the way is closed
    open_native: Callable[[], Any]  # Arrow's file
    count: request_counts.RequestCount


class ObjectReader(io.RawIOBase):
    """Reads ranges of one object; several threads may use `read_at`."""

    def __init__(self, source: ObjectSource) -> None:
        self.reopen: Callable[[Exception], ObjectReader | None] = lambda error: None  # the same file, without the error
        self.source = source
        self._native: Any = None  # Arrow's file, once the plain way is closed
        self._position = 0
        self._size: int | None = None
        self._kept: tuple[int, bytes] = (0, b"")  # bytes that were read ahead, and where they begin
        self._lock = threading.Lock()
        if (content := source.kept.get(source.key)) is not None:
            self._size, self._kept = len(content), (0, content)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        starts = {io.SEEK_SET: lambda: 0, io.SEEK_CUR: lambda: self._position, io.SEEK_END: self.size}
        self._position = offset + starts[whence]()
        return self._position

    def size(self) -> int:
        """Bytes of the object."""
        if self._size is None and self._request(f"-{_TAIL}") is None:
            self._size = int(self._native.size())
        return self._size or 0  # an empty object has no ranges

    def read(self, size: int | None = -1) -> bytes:
        if size is None or size < 0:
            return self.readall()
        data = self.read_at(size, self._position)
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        if self._position:
            return self.read(max(0, self.size() - self._position))
        answer = self._request(None) if self._size is None else None
        content = self.read(self.size()) if answer is None else answer.body
        self._position = len(content)
        self.source.kept.keep(self.source.key, content)
        return content

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def read_at(self, size: int, start: int) -> bytes:
        """So many bytes from `start` on; fewer where the object ends."""
        if self._size is not None:
            size = min(size, self._size - start)
        if size <= 0:
            return b""
        first, kept = self._kept
        if first <= start and start + size <= first + len(kept):
            return kept if size == len(kept) else kept[start - first : start - first + size]
        if size <= _PART:
            return self._read_part(size, start)
        end = start + size
        parts = [(min(_PART, end - at), at) for at in range(start, end, _PART)]
        return b"".join(look_ahead.in_order(lambda part: self._read_part(*part), parts, at_once=_PARTS_AT_ONCE))

    def _read_part(self, size: int, start: int) -> bytes:
        answer = self._request(f"{start}-{start + size - 1}")
        if answer is None:
            self.source.count.add(gets=1)
            return bytes(self._native.read_at(size, start))
        return answer.body if answer.status == 206 else answer.body[start : start + size]

    def _request(self, span: str | None) -> plain_requests.Answer | None:
        """The answer for a range; None: Arrow's file is open instead."""
        try:
            return self._request_once(span)
        except Exception as error:
            if (other := self.reopen(error)) is None:
                raise
        self.source, self._native = other.source, None
        return self._request_once(span)

    def _request_once(self, span: str | None) -> plain_requests.Answer | None:
        answer = self.source.get(span) if self._native is None else None
        if answer is None:
            with self._lock:
                self._native = self._native or self.source.open_native()
            return None
        if answer.size is not None:
            self._size = answer.size
            if answer.status == 200:
                self._kept = (0, answer.body)
            elif span is not None and span.startswith("-"):
                self._kept = (self._size - len(answer.body), answer.body)
        return answer

    def close(self) -> None:
        if self._native is not None and not self.closed:
            self._native.close()
        self._kept = (0, b"")
        super().close()
