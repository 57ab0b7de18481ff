"""A new object as a file to write. Bytes are kept until the file is closed or too large for one request: a small file
is one PUT, a large one goes through Arrow's client, in parts."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

PART = 10 * 2**20  # bytes; those of Arrow's parts


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectTarget:
    """Two ways to store one object."""

    put: Callable[[bytes], None]  # all of it
    begin: Callable[[], Any]  # opens an upload in parts
    ended: Callable[[int], None]  # an upload of so many bytes is complete


class ObjectWriter(io.RawIOBase):
    """Takes bytes in order, and stores the file when it is closed."""

    def __init__(self, target: ObjectTarget) -> None:
        self.reopen: Callable[[Exception], ObjectWriter | None] = lambda error: None  # the same file, without the error
        self.target = target
        self._kept = bytearray()
        self._upload: Any = None
        self._position = 0

    def writable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Says where the file stands; it cannot go elsewhere."""
        if (offset, whence) != (0, io.SEEK_CUR):
            raise io.UnsupportedOperation("seek")
        return self._position

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self._position += size
        if self._upload is not None:
            self._upload.write(data)
            return size
        self._kept += data
        if len(self._kept) > PART:
            kept, self._kept = bytes(self._kept), bytearray()
            self._upload = self._again(lambda: self.target.begin())
            self._upload.write(kept)
        return size

    def close(self) -> None:
        """Raises the errors of storing the file, once."""
        if self.closed:
            return
        super().close()
        if self._upload is None:
            self._again(lambda: self.target.put(bytes(self._kept)))
        else:
            self._upload.close()
            self.target.ended(self._position)

    def _again(self, act: Callable[[], T]) -> T:
        try:
            return act()
        except Exception as error:
            if (other := self.reopen(error)) is None:
                raise
        self.target = other.target
        return act()

    def __del__(self) -> None:
        """A file that nobody closed is not stored."""
