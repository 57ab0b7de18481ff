"""Deleted rows by their position. Position delete files come in, one bit per row of the task goes out. It does not
matter in which order, how often and by how many delete files a row is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.execute.worker.deletes import load_deletes
from iceberg_compaction.formats import arrow_buffers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from iceberg_compaction.model import rewrite_task

_FIELDS = {load_deletes.PATH_ID: "file_path", load_deletes.POSITION_ID: "pos"}
_COUNTED = 1 << 23  # rows counted at a time


class DeadRows:
    """The deleted rows of a task's files: one bit per row, the files one after the other."""

    def __init__(self, rows: Sequence[int]) -> None:
        self._rows = np.array(rows, dtype=np.int64)
        self._starts = np.concatenate(([0], np.cumsum(self._rows)))
        self._bits = np.zeros(int(self._starts[-1]) // 8 + 1, dtype=np.uint8)

    def add(self, files: NDArray[np.int64] | int, positions: NDArray[np.int64]) -> None:
        """Marks rows by the number of their file and their position in it. Positions beyond a file's end are
        ignored."""
        valid = (positions >= 0) & (positions < self._rows[files])
        rows = (positions + self._starts[:-1][files])[valid]
        np.bitwise_or.at(self._bits, rows >> 3, np.left_shift(1, rows & 7).astype(np.uint8))

    def mask(self, file: int, first: int, count: int) -> NDArray[np.bool_]:
        """True for each deleted row of a range of one file."""
        return arrow_buffers.bits(pa.py_buffer(self._bits), int(self._starts[file]) + first, count).view(np.bool_)

    def count(self, file: int) -> int:
        """Deleted rows of one file."""
        rows = int(self._rows[file])
        return sum(
            int(np.count_nonzero(self.mask(file, first, min(_COUNTED, rows - first))))
            for first in range(0, rows, _COUNTED)
        )


def mark(
    dead: DeadRows,
    task: rewrite_task.RewriteTask,
    deletes: Sequence[rewrite_task.DeleteFile],
    reader: load_deletes.DeleteReader,
) -> None:
    """Marks the rows that position deletes name, if their file is not newer than the deletes (R20)."""
    paths = pa.array(task.file_paths, pa.string())
    sequences = np.array(task.sequence_numbers, dtype=np.int64)
    for file in deletes:
        reached = np.append(sequences <= file.sequence_number, False)  # the last one: a file of another task
        for batch in reader.batches(file, _FIELDS):
            if batch.column(0).null_count or batch.column(1).null_count:
                raise errors.DamagedFileError(f"Delete file {file.file_path} has records without a path or a position.")
            numbers = _numbers(batch.column(0), paths)
            kept = np.flatnonzero(reached[numbers])
            if len(kept):
                positions = batch.column(1).cast(pa.int64()).to_numpy(zero_copy_only=False)
                dead.add(numbers[kept], positions[kept])


def _numbers(column: pa.Array, paths: pa.Array) -> NDArray[np.int64]:
    """The number of each record's file in the task, or -1."""
    if pa.types.is_dictionary(column.type):
        of_values = _numbers(column.dictionary, paths)
        indices: NDArray[np.int64] = column.indices.to_numpy(zero_copy_only=False)
        return of_values[indices]
    indexes = pc.index_in(column.cast(pa.string()), value_set=paths)
    numbers: NDArray[np.int64] = indexes.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers
