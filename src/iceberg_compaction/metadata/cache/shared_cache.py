"""A cache whose packs are also kept in a place that machines share, so that a new machine or pod is warm. The local
folder comes first. Trouble with the place costs speed alone: after the second, it is left alone."""

from __future__ import annotations

import logging
import os
import secrets
import threading
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from iceberg_compaction.metadata.cache import arrow_cache

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MOST_BYTES = 1 << 30  # of a pack on local disk; larger ones are not shared
_MOST_TROUBLES = 2
_LENGTH = 8  # bytes of the length before the compressed content
_log = logging.getLogger(__name__)


class SharedPlace(Protocol):
    """Named contents that several machines read and replace. Any error may be raised."""

    def load(self, name: str) -> bytes | None:
        """The content; None: there is none."""
        ...

    def store(self, name: str, content: bytes) -> None:
        """Keep the content under this name, in place of another."""
        ...


class SharedCache(arrow_cache.ArrowCache):
    """A folder of entries, and a place that has its packs."""

    def __init__(self, directory: Path, capacity: int, shared: SharedPlace) -> None:
        super().__init__(directory, capacity)
        self._folder = directory
        self._shared: SharedPlace | None = shared
        self._troubles = 0  # some stores refuse to say that an entry is missing, and take it all the same

    def load_pack(self, name: str) -> pa.Table | None:
        table = self.load(name)
        if table is None and self._fetch(name):
            table = self.load(name)
        return table

    def store_pack(self, name: str, table: pa.Table, *, instead_of: Iterable[str] = ()) -> None:
        self.store(name, table, instead_of=instead_of)
        if self._shared is not None:  # the process does not end before it is sent
            threading.Thread(target=self._send, args=(name,), name="shared cache").start()

    def _fetch(self, name: str) -> bool:
        """Bring a pack into the folder. Its checksum is examined as that of every entry."""
        path = self._path(self._folder, name)
        unfinished = path.with_name(f"{path.stem}-{os.getpid()}-{secrets.token_hex(4)}.tmp")
        try:
            content = None if self._shared is None else self._shared.load(name)
            if content is None:
                return False
            size = int.from_bytes(content[:_LENGTH], "little")
            if size > min(MOST_BYTES, self.capacity):
                return False
            data = pa.decompress(content[_LENGTH:], size, codec="zstd", asbytes=True)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
            unfinished.replace(path)
        except Exception as error:  # noqa: BLE001 - clients of any kind
            self._note(error)
            unfinished.unlink(missing_ok=True)
            return False
        return True

    def _send(self, name: str) -> None:
        path = self._path(self._folder, name)
        self._wait_for(path)
        try:
            data = path.read_bytes()
            if self._shared is not None and len(data) <= MOST_BYTES:
                self._shared.store(
                    name, len(data).to_bytes(_LENGTH, "little") + pa.compress(data, "zstd", asbytes=True)
                )
        except FileNotFoundError:
            return  # there was no room for it
        except Exception as error:  # noqa: BLE001 - clients of any kind
            self._note(error)

    def _note(self, error: Exception) -> None:
        self._troubles += 1
        if self._troubles == _MOST_TROUBLES:
            self._shared = None
            _log.warning("Parsed manifests are not shared with other machines: %s", error)
