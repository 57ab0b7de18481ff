"""Any number of equality deletes. Their keys are read and held up to a budget. If all of them fit, one index per set of
fields goes out, and rows are looked up in it as they are rewritten. If not, the keys of the data files go to local
disk, are looked up in each part of the deletes in turn, and become deleted positions."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from iceberg_compaction import errors
from iceberg_compaction.execute.worker.deletes import equality_keys, key_columns
from iceberg_compaction.execute.worker.input import read_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import TypeAlias

    from iceberg_compaction.execute.worker.deletes import load_deletes, positions
    from iceberg_compaction.model import rewrite_task

    Fields: TypeAlias = Mapping[tuple[int, ...], Sequence[key_columns.KeyField]]  # by the set of their ids
    Parts: TypeAlias = dict[tuple[int, ...], list[tuple[int, pa.RecordBatch]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedFiles:
    """The data files that keys are looked up in: footers by the files' numbers, and their data sequence numbers."""

    reader: read_files.DataFileReader
    footers: Mapping[int, read_files.Footer]
    sequences: Sequence[int]


def index(
    deletes: Sequence[rewrite_task.DeleteFile],
    fields: Fields,
    reader: load_deletes.DeleteReader,
    data: KeyedFiles,
    dead: positions.DeadRows,
) -> list[equality_keys.EqualityIndex]:
    """Indexes of all deletes; or none, after everything that they delete was marked as dead."""
    parts: Parts = {}
    held = 0
    spool: Spool | None = None
    try:
        for ids, sequence, batch in _read(deletes, fields, reader):
            parts.setdefault(ids, []).append((sequence, batch))
            held += 2 * batch.nbytes + batch.num_rows * equality_keys.ROW_BYTES
            if held >= reader.budgets.key_bytes:
                spool = spool or Spool(data, fields, max(file.sequence_number for file in deletes))
                spool.mark(_indexes(parts, fields), dead)
                held = 0
        indexes = _indexes(parts, fields)
        if spool is None:
            return indexes
        spool.mark(indexes, dead)
        return []
    finally:
        if spool is not None:
            spool.close()


def _read(
    deletes: Sequence[rewrite_task.DeleteFile], fields: Fields, reader: load_deletes.DeleteReader
) -> Iterator[tuple[tuple[int, ...], int, pa.RecordBatch]]:
    """The keys of all deletes in the fields' own types."""
    for file in deletes:
        ids = file.equality_ids
        schema = pa.schema([field.stored for field in fields[ids]])
        for batch in reader.batches(file, {field.field_id: field.name for field in fields[ids]}):
            with read_files.translated(file.file_path, "Delete file", "applied"):
                columns = [
                    field.deleted_values(column) for field, column in zip(fields[ids], batch.columns, strict=True)
                ]
            if batch.num_rows:
                yield ids, file.sequence_number, pa.RecordBatch.from_arrays(columns, schema=schema)


def _indexes(parts: Parts, fields: Fields) -> list[equality_keys.EqualityIndex]:
    """An index for each set of fields; the parts are used up."""
    indexes = []
    while parts:
        ids, batches = parts.popitem()
        indexes.append(equality_keys.EqualityIndex(fields[ids], batches))
    return indexes


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        folder = tempfile.gettempdir()
        raise errors.ExecuteError(
            f"Keys of data files could not be kept in {folder}: {error}; set TMPDIR to a folder with more room."
        ) from error


class Spool:
    """The key columns of all data files that deletes can reach, in a local file that is gone when this is closed."""

    def __init__(self, data: KeyedFiles, fields: Fields, newest: int) -> None:
        self._sequences = data.sequences
        self._fields = list({field.field_id: field for group in fields.values() for field in group}.values())
        self._schema = pa.schema([field.stored for field in self._fields])
        self._origins: list[tuple[int, int]] = []  # of each batch: the file's number, and the first row
        self._file = tempfile.NamedTemporaryFile(prefix="iceberg-compaction-keys-")  # noqa: SIM115 - closed by `close`
        with _translated(), pa.OSFile(self._file.name, "wb") as sink, pa.ipc.new_stream(sink, self._schema) as writer:
            for number, first, batch in self._keys(data, newest):
                self._origins.append((number, first))
                writer.write_batch(batch)

    def _keys(self, data: KeyedFiles, newest: int) -> Iterator[tuple[int, int, pa.RecordBatch]]:
        for number, footer in data.footers.items():
            if data.sequences[number] >= newest:
                continue
            tops = read_files.columns_with([footer], {number for field in self._fields for number in field.columns})
            columns = None
            for _, first, batch in data.reader.batches([read_files.FilePart(footer)], frozenset(), tops):
                columns = columns or key_columns.KeyColumns(self._fields, batch.schema)
                with read_files.translated(footer.path):
                    values = columns.values(columns.arrays(batch))
                yield number, first, pa.RecordBatch.from_arrays(values, schema=self._schema)

    def mark(self, indexes: Sequence[equality_keys.EqualityIndex], dead: positions.DeadRows) -> None:
        """Looks all keys up and marks the rows that are deleted."""
        columns = [key_columns.KeyColumns(key_index.fields, self._schema) for key_index in indexes]
        with _translated(), pa.OSFile(self._file.name) as stored, pa.ipc.open_stream(stored) as batches:
            for (number, first), batch in zip(self._origins, batches, strict=True):
                for key_index, of_keys in zip(indexes, columns, strict=True):
                    if key_index.newest > self._sequences[number]:
                        rows = key_index.find(of_keys, batch, self._sequences[number])
                        dead.add(number, rows.astype(np.int64) + first)

    def close(self) -> None:
        self._file.close()
