"""Counts the bytes of writes: a metadata file that is stored only in part would make the whole table unreadable, and a
store may lose bytes without an error. So the stored size is compared before a file is published. Files are written in
one go, and again as a whole after a fault that passes."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from pyiceberg.io import FileIO, OutputFile

from iceberg_compaction.storage import passing_faults

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from pyiceberg.io import InputFile


def new_output(io: FileIO, location: str) -> OutputFile:
    """A file to write. Closing it raises OSError if storage holds another number of bytes than were written."""
    return _CountedFile(io, location)


class CountingIO(FileIO):
    """The same FileIO, except that all it writes is counted, and that `then` is called once a file is stored: what that
    raises comes out of closing the file."""

    def __init__(self, io: FileIO, then: Callable[[], None]) -> None:
        super().__init__(io.properties)
        self._io, self._then = io, then

    def new_input(self, location: str) -> InputFile:
        return self._io.new_input(location)

    def new_output(self, location: str) -> OutputFile:
        return _CountedFile(self._io, location, self._then)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self._io.delete(location)


class _CountedFile(OutputFile):
    def __init__(self, io: FileIO, location: str, then: Callable[[], None] = lambda: None) -> None:
        super().__init__(location=location)
        self._io, self.then = io, then
        self._real = io.new_output(location)

    def __len__(self) -> int:
        return len(self._real)

    def exists(self) -> bool:
        return self._real.exists()

    def to_input_file(self) -> InputFile:
        return self._real.to_input_file()

    def create(self, overwrite: bool = False) -> Any:
        return _CountedStream(self, overwrite=overwrite)

    def write(self, parts: list[bytes], *, overwrite: bool) -> None:
        """All of the file, in one try."""
        stream = self._real.create(overwrite=overwrite)
        try:
            for part in parts:
                stream.write(part)
        except BaseException:
            with contextlib.suppress(Exception):
                stream.close()
            raise
        stream.close()

    def check(self, written: int) -> None:
        stored = len(self._io.new_input(self.location))
        if stored != written:
            raise OSError(f"storage holds {stored} bytes of {self.location} where {written} were written")


class _CountedStream:
    def __init__(self, file: _CountedFile, *, overwrite: bool) -> None:
        self._file, self._overwrite = file, overwrite
        self._parts: list[bytes] = []
        self._open = True

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        passing_faults.patiently(self._write)
        passing_faults.patiently(lambda: self._file.check(sum(map(len, self._parts))))
        self._file.then()  # what it raises is no fault of storage

    def _write(self) -> None:
        overwrite, self._overwrite = self._overwrite, True  # what a try that failed has left is ours
        self._file.write(self._parts, overwrite=overwrite)

    def __enter__(self) -> _CountedStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        self._open = False
