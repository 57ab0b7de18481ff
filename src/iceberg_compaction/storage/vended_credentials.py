"""Credentials that a REST catalog gives along with a table, and that expire, often after an hour. A table comes in; out
comes a FileIO that loads the table anew when storage says that its credentials have expired. Workers cannot: they know
no catalog."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from pyiceberg.io import FileIO, InputFile, OutputFile

from iceberg_compaction import errors
from iceberg_compaction.model import table_names
from iceberg_compaction.storage import passing_faults, redact

if TYPE_CHECKING:
    from pyiceberg.table import Table

T = TypeVar("T")
Load: TypeAlias = Callable[[], FileIO]

_STORES = ("s3.", "gcs.", "adls.")
_OWN_KEYS = ("s3.access-key-id", "client.access-key-id")


def is_vended(table: Table) -> bool:
    """Whether the table has credentials for its files that are not the catalog's own."""
    own_properties = table.catalog.properties
    return any(
        key.startswith(_STORES) and redact.is_secret(key) and own_properties.get(key) != value
        for key, value in table.io.properties.items()
    )


def lasting(table: Table, load: Load) -> FileIO:
    """The table's FileIO, for as long as the catalog gives credentials. `load`: a new one, with fresh ones."""
    return LastingIO(table.io, load) if is_vended(table) else table.io


def check_no_remote_signing(table: Table) -> None:
    """UnsupportedError: the catalog wants to sign every request to storage itself."""
    properties = table.io.properties
    signs_remotely = "s3.signer" in properties or str(properties.get("s3.remote-signing-enabled", "")).lower() == "true"
    if signs_remotely and not any(properties.get(key) for key in _OWN_KEYS):
        raise errors.UnsupportedError(
            f"The catalog signs requests for the files of {table_names.text(table.name())} itself (remote signing), "
            "which workers cannot ask for; have it vend credentials instead, or give s3.access-key-id and "
            "s3.secret-access-key."
        )


class LastingIO(FileIO):
    """A FileIO whose credentials are renewed when storage says that they have expired."""

    def __init__(self, io: FileIO, load: Load) -> None:
        super().__init__(io.properties)
        self.current, self._load = io, load
        self._lock = threading.Lock()

    def new_input(self, location: str) -> Any:
        return _File(self, location)

    def new_output(self, location: str) -> Any:
        return _File(self, location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self.using(lambda io: io.delete(location if isinstance(location, str) else location.location))

    def using(self, act: Callable[[FileIO], T]) -> T:
        """The result of an act, which is repeated with fresh credentials if they have expired."""
        io = self.current
        try:
            return act(io)
        except Exception as error:
            if not passing_faults.is_expired(error):
                raise
        return act(self.renewed(io))

    def renewed(self, expired: FileIO) -> FileIO:
        """A FileIO with fresh credentials, in place of one whose credentials have expired."""
        with self._lock:  # of many threads that find out at once, one asks the catalog
            if self.current is expired:
                self.current = self._load()
                self.properties = self.current.properties
            return self.current


class _File(InputFile, OutputFile):
    def __init__(self, io: LastingIO, location: str) -> None:
        super().__init__(location=location)
        self._io = io

    def __len__(self) -> int:
        return self._io.using(lambda io: len(io.new_input(self.location)))

    def exists(self) -> bool:
        return self._io.using(lambda io: io.new_input(self.location).exists())

    def open(self, seekable: bool = True) -> Any:
        return self._lasting(lambda io: io.new_input(self.location).open(seekable))

    def create(self, overwrite: bool = False) -> Any:
        return self._lasting(lambda io: io.new_output(self.location).create(overwrite))

    def _lasting(self, act: Callable[[FileIO], Any]) -> Any:
        """The stream that an act opens. Files in object stores make their requests later than that: they open
        themselves again where the store refuses one."""
        stream, used = self._io.using(lambda io: (act(io), io))

        def reopen(error: Exception) -> Any:
            nonlocal used
            if not passing_faults.is_expired(error):
                return None
            used = self._io.renewed(used)
            return act(used)

        if hasattr(stream, "reopen"):
            stream.reopen = reopen
        return stream

    def to_input_file(self) -> Any:
        return self
