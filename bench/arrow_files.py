"""Arrow's S3 client as a file system for DuckDB, whose own one is an extension that its package does not contain."""

from __future__ import annotations

import io
import threading
from typing import TYPE_CHECKING, Any

from fsspec.implementations.arrow import ArrowFSWrapper

if TYPE_CHECKING:
    import pyarrow as pa

PROTOCOL = "lake"


class ArrowFiles(ArrowFSWrapper):  # type: ignore[misc]
    """Paths are lake://bucket/key."""

    protocol = PROTOCOL

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path.removeprefix(f"{PROTOCOL}://")

    def _open(self, path: str, mode: str = "rb", **_: Any) -> SharedFile:
        return SharedFile(self.fs.open_input_file(self._strip_protocol(path)))


class SharedFile(io.RawIOBase):
    """DuckDB seeks and reads in two steps, by several threads at once: each thread has a position of its own."""

    def __init__(self, file: pa.NativeFile) -> None:
        self._file, self._length, self._place = file, file.size(), threading.local()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return getattr(self._place, "value", 0)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self.tell(), io.SEEK_END: self._length}[whence]
        self._place.value = start + offset
        return int(self._place.value)

    def read(self, size: int = -1) -> bytes:
        start = self.tell()
        count = self._length - start if size < 0 else min(size, self._length - start)
        data: bytes = self._file.read_at(count, start)
        self._place.value = start + len(data)
        return data
