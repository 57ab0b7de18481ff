"""Arrow tables kept on local disk between runs: named tables come in, memory-mapped ones go out. Nothing depends on an
entry being there. Entries are written whole and then renamed, so that several processes share a folder. An entry that
was changed since, or that another user wrote, counts as absent. The least recently used go when the folder is full."""

from __future__ import annotations

import contextlib
import logging
import mmap
import os
import secrets
import stat
import threading
import time
from concurrent import futures
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import xxhash

from iceberg_compaction import settings
from iceberg_compaction.model import cache_figures

if TYPE_CHECKING:
    from collections.abc import Iterable
    from io import BufferedRandom

_log = logging.getLogger(__name__)

_SUFFIX, _UNFINISHED = ".arrow", ".tmp"
_MAGIC = b"iccache3"
_TRAILER = len(_MAGIC) + 8  # a checksum, then the magic bytes
_PART = 16 << 20  # bytes that one thread sums up at a time
_ABANDONED_S = 3600  # an unfinished file older than this was left by a process that died
_LARGE = 16 << 20  # bytes of a table from which on it is written in the background


class ArrowCache:
    """A folder of entries. Without a folder it keeps nothing."""

    def __init__(self, directory: Path | None, capacity: int = settings.CACHE_BYTES) -> None:
        self.directory = directory
        self.capacity = capacity
        # Entries whose bytes were checked. Whatever is done to a file, by us or others, changes its identity.
        self._checked: dict[Path, tuple[int, ...]] = {}
        # Large tables on their way to disk. The caller of `store` goes on at once, and `load` gives the table out of
        # memory. The process does not end before it is written.
        self._under_way: dict[Path, tuple[pa.Table, threading.Thread]] = {}

    def load(self, name: str) -> pa.Table | None:
        """The entry's table, mapped into memory rather than read; None: there is none."""
        if self.directory is None:
            return None
        path = self._path(self.directory, name)
        if path in self._under_way:
            with contextlib.suppress(KeyError):  # written just now
                return self._under_way[path][0]
        try:
            return self._open(path)
        except FileNotFoundError:
            return None
        except _ForeignError as error:
            _log.warning("The cache entry %s is not used: %s", path, error)
            return None
        except (OSError, ValueError, pa.ArrowException) as error:
            _log.warning("The cache entry %s is not readable and is made anew: %s", path, error)
            self.remove([name])
            return None

    def load_pack(self, name: str) -> pa.Table | None:
        """The same for an entry that stands for many: other places may have it, too."""
        return self.load(name)

    def store_pack(self, name: str, table: pa.Table, *, instead_of: Iterable[str] = ()) -> None:
        """Keeps an entry that stands for many."""
        self.store(name, table, instead_of=instead_of)

    def store(self, name: str, table: pa.Table, *, instead_of: Iterable[str] = ()) -> None:
        """Keeps a table under a name, and then removes the entries that it replaces."""
        if self.directory is None:
            return
        path, old = self._path(self.directory, name), tuple(instead_of)
        self._wait_for(path)
        if table.nbytes < _LARGE:
            self._put(path, table, old)
            return

        def put() -> None:
            try:
                self._put(path, table, old)
            finally:
                self._under_way.pop(path, None)

        thread = threading.Thread(target=put, name="cache")
        self._under_way[path] = (table, thread)
        thread.start()

    def _put(self, path: Path, table: pa.Table, instead_of: tuple[str, ...]) -> None:
        unfinished = path.with_name(f"{path.stem}-{os.getpid()}-{secrets.token_hex(4)}{_UNFINISHED}")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _write(unfinished, table) <= self.capacity:
                unfinished.replace(path)
                self._make_room(path.stem)
                self.remove(instead_of)
        except (OSError, pa.ArrowException) as error:
            _log.warning("Nothing can be cached in %s: %s", path.parent, error)
        _remove(unfinished)

    def _wait_for(self, *paths: Path) -> None:
        """Waits for tables on their way to these paths, or to any."""
        for path, (_, thread) in list(self._under_way.items()):
            if path in paths or not paths:
                thread.join()

    def _open(self, path: Path) -> pa.Table:
        """The table in a file. Its bytes are checked unless they were checked before. Every question is put to the open
        file, because the path may name another one by now."""
        file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # a pipe would wait for a writer
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                raise _ForeignError("it is no file")
            if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
                raise _ForeignError("it belongs to another user")
            table = _mapped(file, checked=self._checked.get(path) == _identity(status))
            with contextlib.suppress(OSError):  # the folder may be read-only
                os.utime(file if os.utime in os.supports_fd else path)  # the time of use decides when room is made
            self._checked[path] = _identity(os.fstat(file))
            return table
        finally:
            os.close(file)

    def remove(self, names: Iterable[str]) -> None:
        """Removes entries."""
        if self.directory is not None:
            for path in [self._path(self.directory, name) for name in names]:
                self._wait_for(path)
                _remove(path)

    def clear(self) -> cache_figures.CacheFigures:
        """Removes everything and returns the figures from before."""
        figures = self.figures()
        for entry in self._entries(_SUFFIX, _UNFINISHED):
            _remove(Path(entry.path))
        return figures

    def figures(self) -> cache_figures.CacheFigures:
        """The number and size of all entries."""
        self._wait_for()
        entries = self._entries(_SUFFIX)
        return cache_figures.CacheFigures(
            path=None if self.directory is None else str(self.directory),
            entries=len(entries),
            bytes=sum(size for _, size in map(_age_and_size, entries)),
            capacity=self.capacity,
        )

    def _make_room(self, newest: str) -> None:
        now = time.time()
        for entry in self._entries(_UNFINISHED):
            if _age_and_size(entry)[0] < now - _ABANDONED_S:
                _remove(Path(entry.path))
        oldest_first = sorted((*_age_and_size(entry), entry.path) for entry in self._entries(_SUFFIX))
        total = sum(size for _, size, _ in oldest_first)
        for _, size, path in oldest_first:
            if total <= self.capacity:
                return
            if Path(path).stem != newest:
                _remove(Path(path))
                total -= size

    def _entries(self, *suffixes: str) -> list[os.DirEntry[str]]:
        if self.directory is None:
            return []
        try:
            with os.scandir(self.directory) as entries:
                return [entry for entry in entries if entry.name.endswith(suffixes)]
        except OSError:
            return []

    @staticmethod
    def _path(directory: Path, name: str) -> Path:
        return directory / f"{name}{_SUFFIX}"


NO_CACHE = ArrowCache(None)


def open_cache(chosen: settings.CacheSettings) -> ArrowCache:
    """The cache that the settings name."""
    return ArrowCache(None if chosen.directory is None else Path(chosen.directory), chosen.capacity)


def _write(path: Path, table: pa.Table) -> int:
    """Writes a table uncompressed, so that it can be mapped, and returns the size. Only the user may read the file, as
    paths and partitions may be secrets."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    with path.open("r+b") as written:
        written.write(_checksum_of_file(written) + _MAGIC)
        return written.tell()


class _ForeignError(ValueError):
    """An entry that this user has not written."""


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _mapped(file: int, *, checked: bool) -> pa.Table:
    content = pa.py_buffer(mmap.mmap(file, 0, access=mmap.ACCESS_READ))
    size = content.size - _TRAILER
    if size < 0 or content.slice(size + 8).to_pybytes() != _MAGIC:
        raise ValueError("it is cut short or of another kind")
    body = content.slice(0, size)
    if not checked and _checksum(body) != content.slice(size, 8).to_pybytes():
        raise ValueError("its bytes are not those that were written")
    return pa.ipc.open_file(body).read_all()


def _checksum(content: pa.Buffer) -> bytes:
    """The checksum of a buffer, computed by several cores."""
    parts = [content.slice(first, min(_PART, content.size - first)) for first in range(0, content.size, _PART)]
    with futures.ThreadPoolExecutor(min(len(parts), os.cpu_count() or 1) or 1) as pool:
        return _digest(pool.map(xxhash.xxh3_64_digest, parts), content.size)


def _checksum_of_file(file: BufferedRandom) -> bytes:
    """The same checksum of a file, from where it stands to its end. A map would count as memory once more."""
    sums, size = [], 0
    while part := file.read(_PART):
        sums.append(xxhash.xxh3_64_digest(part))
        size += len(part)
    return _digest(sums, size)


def _digest(sums: Iterable[bytes], size: int) -> bytes:
    """One digest of all parts, which depends on their order."""
    return xxhash.xxh3_64_digest(b"".join(sums) + size.to_bytes(8, "little"))


def _age_and_size(entry: os.DirEntry[str]) -> tuple[float, int]:
    try:
        status = entry.stat()
    except OSError:
        return 0.0, 0  # another process has removed it
    return status.st_mtime, status.st_size


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
