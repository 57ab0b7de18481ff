"""Arrow tables kept on local disk between runs: named tables come in, memory-mapped ones go out. Nothing depends on an
entry being there. Entries are written whole and then renamed, so that several processes share a folder; one that is
not as it was written, or that somebody else wrote, counts as absent; the least recently used go when the folder is
full."""

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
    from collections.abc import Iterable, Mapping
    from io import BufferedRandom

_log = logging.getLogger(__name__)

_SUFFIX, _UNFINISHED = ".arrow", ".tmp"
_MAGIC = b"iccache3"
_TRAILER = len(_MAGIC) + 8  # a checksum, then the magic bytes
_PART = 16 << 20  # bytes that one thread sums up at a time
_ABANDONED_S = 3600  # an unfinished file older than this was left by a process that died


# Entries that this process has checked. Whatever is done to a file, by us or others, changes its identity.
_known: dict[str, tuple[int, ...]] = {}

# Large tables on their way to disk, by path. Who kept one goes on at once, and who asks for it gets it from memory;
# the process does not end before it is written.
_LARGE = 16 << 20
_under_way: dict[Path, tuple[pa.Table, threading.Thread]] = {}


class Cache:
    """A folder of entries. Without a folder it keeps nothing."""

    def __init__(self, directory: Path | None, capacity: int = settings.CACHE_BYTES) -> None:
        self.directory = directory
        self.capacity = capacity

    def load(self, name: str) -> pa.Table | None:
        """The entry's table, mapped into memory rather than read; None: there is none."""
        if self.directory is None:
            return None
        path = self._path(self.directory, name)
        if path in _under_way:
            with contextlib.suppress(KeyError):  # written just now
                return _under_way[path][0]
        try:
            return _open(path)
        except FileNotFoundError:
            return None
        except _ForeignError as error:
            _log.warning("The cache entry %s is not used: %s", path, error)
            return None
        except (OSError, ValueError, pa.ArrowException) as error:
            _log.warning("The cache entry %s is not readable and is made anew: %s", path, error)
            self.remove([name])
            return None

    def store(self, name: str, table: pa.Table, *, instead_of: Iterable[str] = ()) -> None:
        """Keep a table under a name; entries that it stands for go once it is there."""
        if self.directory is None:
            return
        path, old = self._path(self.directory, name), tuple(instead_of)
        self._settle(path)
        if table.nbytes < _LARGE:
            self._put(path, table, old)
            return

        def put() -> None:
            try:
                self._put(path, table, old)
            finally:
                _under_way.pop(path, None)

        thread = threading.Thread(target=put, name="cache")
        _under_way[path] = (table, thread)
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

    def _settle(self, *paths: Path) -> None:
        """Wait for tables on their way to these paths, or to any."""
        for path, (_, thread) in list(_under_way.items()):
            if path in paths or not paths:
                thread.join()

    def remove(self, names: Iterable[str]) -> None:
        """Forget entries."""
        if self.directory is not None:
            for path in [self._path(self.directory, name) for name in names]:
                self._settle(path)
                _remove(path)

    def clear(self) -> cache_figures.CacheFigures:
        """Forget everything; what was there is returned."""
        figures = self.figures()
        for entry in self._entries(_SUFFIX, _UNFINISHED):
            _remove(Path(entry.path))
        return figures

    def figures(self) -> cache_figures.CacheFigures:
        """What the folder holds."""
        self._settle()
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
        found = sorted((*_age_and_size(entry), entry.path) for entry in self._entries(_SUFFIX))
        total = sum(size for _, size, _ in found)
        for _, size, path in found:
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


def from_environment(environ: Mapping[str, str] = os.environ) -> Cache:
    """The cache that the user's settings name."""
    chosen = settings.load_cache_settings(environ)
    return Cache(None if chosen.directory is None else Path(chosen.directory), chosen.capacity)


def _write(path: Path, table: pa.Table) -> int:
    """Uncompressed, so that it can be mapped; its size. Only the user may read it, as paths and partitions tell."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    with path.open("r+b") as written:
        written.write(_checksum_of_file(written) + _MAGIC)
        return written.tell()


class _ForeignError(ValueError):
    """An entry that this user has not written."""


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _open(path: Path) -> pa.Table:
    """The table in a file. Its bytes are checked unless they are known to be those that were checked before. All is
    asked of the file that is open: what the path names may be another one by now."""
    file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # a pipe would wait for somebody to write to it
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise _ForeignError("it is no file")
        if hasattr(os, "geteuid") and found.st_uid != os.geteuid():
            raise _ForeignError("it belongs to another user")
        table = _mapped(file, known=_known.get(str(path)) == _identity(found))
        with contextlib.suppress(OSError):  # the folder may be read-only
            os.utime(file if os.utime in os.supports_fd else path)  # used now: what counts when room is made
        _known[str(path)] = _identity(os.fstat(file))
        return table
    finally:
        os.close(file)


def _mapped(file: int, *, known: bool) -> pa.Table:
    content = pa.py_buffer(mmap.mmap(file, 0, access=mmap.ACCESS_READ))
    size = content.size - _TRAILER
    if size < 0 or content.slice(size + 8).to_pybytes() != _MAGIC:
        raise ValueError("it is cut short or of another kind")
    body = content.slice(0, size)
    if not known and _checksum(body) != content.slice(size, 8).to_pybytes():
        raise ValueError("its bytes are not those that were written")
    return pa.ipc.open_file(body).read_all()


def _checksum(content: pa.Buffer) -> bytes:
    """By several cores, a part each."""
    parts = [content.slice(first, min(_PART, content.size - first)) for first in range(0, content.size, _PART)]
    with futures.ThreadPoolExecutor(min(len(parts), os.cpu_count() or 1) or 1) as pool:
        return _digest(pool.map(xxhash.xxh3_64_digest, parts), content.size)


def _checksum_of_file(file: BufferedRandom) -> bytes:
    """The same for a file, from where it stands to its end; not mapped, which would count as memory once more."""
    sums, size = [], 0
    while part := file.read(_PART):
        sums.append(xxhash.xxh3_64_digest(part))
        size += len(part)
    return _digest(sums, size)


def _digest(sums: Iterable[bytes], size: int) -> bytes:
    """Parts that change places, too, give another one."""
    return xxhash.xxh3_64_digest(b"".join(sums) + size.to_bytes(8, "little"))


def _age_and_size(entry: os.DirEntry[str]) -> tuple[float, int]:
    try:
        found = entry.stat()
    except OSError:
        return 0.0, 0  # another process has removed it
    return found.st_mtime, found.st_size


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
