"""Keeps manifest entries on local disk, as memory should not hold them all: Avro records are written one after the
other into a file without a name, and read back in any order. Several threads may do either."""

from __future__ import annotations

import os
import tempfile
import threading
from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction import errors
from iceberg_compaction.formats.avro import avro_encode

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]


class Spill:
    """A temporary file of records; a context manager that leaves nothing behind."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        self._lock = threading.Lock()
        self._end = 0

    def __enter__(self) -> Spill:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def clear(self) -> None:
        """Removes all records."""
        self._file.truncate(0)
        self._end = 0

    def add(self, records: Iterable[pa.Array]) -> tuple[Numbers, Numbers]:
        """Writes records, and returns where each begins and its size."""
        starts, sizes = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for array in records:
            offsets = avro_encode.offsets_of(array).astype(np.int64)
            data = memoryview(array.buffers()[2] or b"")[int(offsets[0]) : int(offsets[-1])]
            with self._lock:
                at, self._end = self._end, self._end + len(data)
            self._write(data, at)
            starts.append(offsets[:-1] - offsets[0] + at)
            sizes.append(np.diff(offsets))
        return np.concatenate(starts), np.concatenate(sizes)

    def _write(self, data: memoryview, at: int) -> None:
        try:
            while data:
                written = os.pwrite(self._file.fileno(), data, at)
                data, at = data[written:], at + written
        except OSError as error:
            raise errors.ExecuteError(
                f"Manifest entries could not be written to the local folder {tempfile.gettempdir()}: {error.strerror}; "
                "set TMPDIR to another folder."
            ) from error

    def read(self, starts: Numbers, sizes: Numbers) -> bytes:
        """Reads these records, joined in this order. Neighbours are read at once."""
        breaks = np.flatnonzero(starts[1:] != starts[:-1] + sizes[:-1]) + 1
        first = np.concatenate([[0], breaks])
        ends = np.concatenate([breaks - 1, [len(starts) - 1]])
        spans = zip(starts[first].tolist(), (starts[ends] + sizes[ends] - starts[first]).tolist(), strict=True)
        return b"".join(os.pread(self._file.fileno(), size, start) for start, size in spans)
