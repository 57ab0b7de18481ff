"""Moves bytes from file to file. Local files pass through one small buffer; files in object stores are read in parts, a
few at once, and written in order. Memory is bounded, and digests cover exactly the bytes that were written."""

from __future__ import annotations

import collections
import os
import threading
from typing import TYPE_CHECKING, Any

import xxhash
from pyiceberg.io.pyarrow import PyArrowFileIO

from iceberg_compaction.storage import look_ahead, passing_faults, task_progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyiceberg.io import FileIO

Span = tuple[int, int]  # offset of the first byte, and number of bytes

_PART = 8 * 2**20
_PARTS_AT_ONCE = 4
_BUFFER = 256 * 2**10  # fits a processor's cache: bytes are hashed and written from there right after the read


def local_path(io: FileIO, location: str) -> str | None:
    """The path of a file on this machine, if the FileIO would open it there. Other implementations than PyArrow's may
    do more than open a file, so they always read it themselves."""
    if type(io) is not PyArrowFileIO:
        return None
    scheme, _, path = io.parse_location(location, io.properties)
    return path if scheme == "file" and path.startswith("/") else None


class Input:
    """A file to read bytes from. Several threads may read at once."""

    def __init__(self, io: FileIO, location: str) -> None:
        self.location = location
        path = local_path(io, location)
        self.descriptor = None if path is None else os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._stream: Any = passing_faults.patiently(io.new_input(location).open) if path is None else None
        self._lock = threading.Lock()

    def read(self, start: int, length: int) -> bytes:
        """Exactly `length` bytes from `start` on. Raises OSError if the file ends earlier."""
        if self.descriptor is not None:
            data = os.pread(self.descriptor, length, start)
        else:
            data = passing_faults.patiently(lambda: self._fetch(start, length))
        if len(data) != length:
            raise self.too_short()
        return data

    def _fetch(self, start: int, length: int) -> bytes:
        if hasattr(self._stream, "read_at"):
            data = bytes(self._stream.read_at(length, start))
        else:
            with self._lock:
                self._stream.seek(start)
                data = bytes(self._stream.read(length))
        if len(data) != length:
            raise passing_faults.EndedEarly(str(self.too_short()))
        return data

    def too_short(self) -> OSError:
        return OSError(f"{self.location} has become shorter than its footer says")

    def close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None
        if self._stream is not None:
            self._stream.close()

    def __enter__(self) -> Input:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RangeOutput:
    """A new file. Raises FileExistsError, and leaves the old file alone, if the name is taken."""

    def __init__(self, io: FileIO, location: str) -> None:
        self.position = 0
        self._progress = task_progress.current()
        self._counted = 0  # bytes that count as written already
        self.descriptor: int | None = None
        self._stream: Any = None
        if (path := local_path(io, location)) is None:
            self._stream = passing_faults.patiently(io.new_output(location).create)
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)

    def write(self, data: Any) -> None:
        self.position += len(data)
        counted = min(self._counted, len(data))
        self._counted -= counted
        self._progress.wrote(len(data) - counted)
        if self.descriptor is None:
            self._stream.write(data)
            return
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self.descriptor, rest) :]

    def encoded(self, size: int) -> None:
        """So many bytes are ready, and will be written next."""
        self._counted += size
        self._progress.wrote(size)

    def moved(self, size: int) -> None:
        """So many bytes come straight from an input."""
        self._progress.read(size)

    def close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None
        if self._stream is not None:
            self._stream.close()


def move(source: Input, target: RangeOutput, spans: Sequence[Span], *, digest: bool = False) -> list[int | None]:
    """Append bytes of the source to the target, span by span. Returns a digest of each, if wanted."""
    hashed = _Digests(spans) if digest else None
    for piece in _pieces(source, spans, target.position):
        if hashed is not None:
            hashed.update(piece)
        target.moved(len(piece))
        target.write(piece)
    return [None] * len(spans) if hashed is None else list(hashed.finish())


def write_pieces(target: RangeOutput, pieces: Iterable[Any], *, digest: bool = False) -> int | None:
    """Append bytes that are in memory. Returns one digest of all of them, if wanted."""
    hashed = xxhash.xxh3_64()
    for piece in pieces:
        if digest:
            hashed.update(piece)
        target.write(piece)
    return hashed.intdigest() if digest else None


def digests(source: Input, spans: Sequence[Span]) -> list[int]:
    """The digests of spans of a file, read for nothing else."""
    hashed = _Digests(spans)
    for piece in _pieces(source, spans, spans[0][0] if spans else 0):
        hashed.update(piece)
    return hashed.finish()


class _Digests:
    """Cuts bytes that come one after the other into spans again, and digests each."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._hashes = [xxhash.xxh3_64() for _ in spans]
        self._open = collections.deque(
            (hashed, length) for hashed, (_, length) in zip(self._hashes, spans, strict=True)
        )

    def update(self, piece: memoryview) -> None:
        while piece:
            hashed, left = self._open.popleft()
            hashed.update(piece[:left])
            if left > len(piece):
                self._open.appendleft((hashed, left - len(piece)))
            piece = piece[left:]

    def finish(self) -> list[int]:
        return [hashed.intdigest() for hashed in self._hashes]


def _joined(spans: Iterable[Span]) -> list[Span]:
    """The same bytes in as few spans as possible."""
    joined: list[Span] = []
    for start, length in spans:
        if joined and sum(joined[-1]) == start:
            joined[-1] = (joined[-1][0], joined[-1][1] + length)
        elif length:
            joined.append((start, length))
    return joined


def _pieces(source: Input, spans: Sequence[Span], position: int) -> Iterator[memoryview]:
    """The bytes of spans in order, to be written at a position of a file. Each piece is overwritten by the next one.
    Pieces of local files end at page borders of the kernel's cache, so that no page is touched twice."""
    if source.descriptor is None:
        yield from _parts(source, spans)
        return
    buffer = memoryview(bytearray(_BUFFER))
    for start, length in _joined(spans):
        end = start + length
        while start < end:
            count = os.preadv(source.descriptor, [buffer[: min(end - start, _BUFFER - position % _BUFFER)]], start)
            if not count:
                raise source.too_short()
            yield buffer[:count]
            start, position = start + count, position + count


def _parts(source: Input, spans: Sequence[Span]) -> Iterator[memoryview]:
    todo = [
        (at, min(_PART, start + length - at))
        for start, length in _joined(spans)
        for at in range(start, start + length, _PART)
    ]
    parts = look_ahead.in_order(lambda part: source.read(*part), todo, at_once=_PARTS_AT_ONCE)
    yield from (memoryview(part) for part in parts)
