"""Storage and a catalog that fail, are slow, and lie: the real ones with a dice in front of every operation. FileIO is
chosen by its name in the catalog's properties, as any other; the catalog is a SQLite catalog."""

from __future__ import annotations

import io
import random
import re
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import InputFile, OutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE_IO = "tests.lab.faults.FaultyFileIO"
FAILING, SLOW = 0.10, 0.20  # of all operations
SLOW_S = 0.003
_ERRORS = (OSError, TimeoutError, ConnectionResetError, PermissionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What fails, and how often. Operations that are not named always succeed."""

    operations: frozenset[str] = frozenset()
    rate: float = FAILING
    grace: int = 0  # up to so many operations succeed before the first may fail
    lies: bool = False  # whether a write may silently store fewer bytes
    tear: str | None = None  # the first file whose path matches this is silently cut short


@dataclass(slots=True, kw_only=True)
class Dice:
    """What fails is decided here."""

    kind: Kind = field(default_factory=Kind)
    random: random.Random = field(default_factory=random.Random)
    happened: Counter[str] = field(default_factory=Counter)
    _grace: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._grace = self.random.randint(0, self.kind.grace)

    def fails(self, operation: str) -> bool:
        """One throw for one operation: it may be slow, and it may fail."""
        if operation not in self.kind.operations:
            return False
        with self._lock:
            self._grace -= 1
            slow, fails = self.random.random() < SLOW, self.random.random() < self.kind.rate and self._grace < 0
            self.happened[operation] += fails
        if slow:
            time.sleep(SLOW_S)
        return fails

    def tears(self, location: str) -> bool:
        if self.kind.tear is None or self.happened["tear"] or not re.search(self.kind.tear, location):
            return False
        self.happened["tear"] += 1
        return True

    def choose(self, kinds: tuple[Any, ...]) -> Any:
        with self._lock:
            return self.random.choice(kinds)

    def check(self, operation: str) -> None:
        """Raises if the operation fails."""
        if self.fails(operation):
            raise self.choose(_ERRORS)(f"{operation} failed on purpose")


CALM = Dice()
dice = CALM


@contextmanager
def throwing(seed: int, kind: Kind) -> Iterator[Dice]:
    """Faults for as long as this lasts."""
    global dice
    dice = Dice(kind=kind, random=random.Random(seed))
    try:
        yield dice
    finally:
        dice = CALM


class FaultyFileIO(PyArrowFileIO):
    """Files of any kind: table metadata, manifests, data."""

    def new_input(self, location: str) -> Any:
        return _File(super().new_input(location))

    def new_output(self, location: str) -> Any:
        return _File(super().new_output(location))

    def delete(self, location: Any) -> None:
        dice.check("delete")
        super().delete(location.location if isinstance(location, _File) else location)


class _File(InputFile, OutputFile):
    def __init__(self, real: Any) -> None:
        super().__init__(location=real.location)
        self._real = real

    def __len__(self) -> int:
        dice.check("look")
        return len(self._real)

    def exists(self) -> bool:
        dice.check("look")
        return bool(self._real.exists())

    def to_input_file(self) -> Any:
        return self

    def open(self, seekable: bool = True) -> Any:
        dice.check("open")
        stream = self._real.open(seekable)
        return _BrokenReading(stream) if dice.fails("read") else stream

    def create(self, overwrite: bool = False) -> Any:
        dice.check("create")
        stream = self._real.create(overwrite)
        if dice.tears(self.location):
            return _TornWriting(stream, silent=True)
        if dice.fails("write"):
            return _TornWriting(stream, silent=dice.kind.lies and dice.choose((True, False)))
        return stream


class _BrokenReading(io.RawIOBase):
    """Stops in the middle."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def read(self, size: int = -1) -> bytes:
        raise TimeoutError("read failed on purpose")

    readall = read

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._real.seek(offset, whence))

    def tell(self) -> int:
        return int(self._real.tell())

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        self._real.close()
        super().close()


class _TornWriting(io.RawIOBase):
    """Keeps half of what it is given, and raises; or says nothing."""

    def __init__(self, real: Any, *, silent: bool) -> None:
        self._real, self._silent, self._position = real, silent, 0

    def write(self, data: Any) -> int:
        data = bytes(data)
        self._real.write(data[: len(data) // 2])
        self._position += len(data)
        if not self._silent:
            raise OSError("write failed on purpose")
        return len(data)

    def tell(self) -> int:
        return self._position

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed:
            self._real.close()
        super().close()


class FaultyCatalog(SqlCatalog):
    """Commits may be refused; or the answer is lost, and then the commit landed or did not."""

    def load_table(self, identifier: Any) -> Any:
        dice.check("load")
        return super().load_table(identifier)

    def commit_table(self, table: Any, requirements: Any, updates: Any) -> Any:
        if not dice.fails("commit"):
            return super().commit_table(table, requirements, updates)
        kind = dice.choose(("refused", "lost", "answer lost"))
        dice.happened[kind] += 1
        if kind == "refused":
            raise CommitFailedException("somebody was faster, on purpose")
        if kind == "answer lost":
            super().commit_table(table, requirements, updates)
        raise dice.choose((TimeoutError, ConnectionResetError))("no answer, on purpose")
