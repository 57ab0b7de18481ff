"""The meter of a proof: batches come in, a `Side` goes out. Two meters stand at the two ends of the pipeline, one where
rows leave a source file and one where they enter the Parquet encoder; they share nothing but the table schema."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from iceberg_compaction.execute.worker import arrow_schemas
from iceberg_compaction.execute.worker.proof import checksum
from iceberg_compaction.model import policies, proof

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.schema import Schema

    from iceberg_compaction.storage import task_cores

_MASK = 2**64 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _MeasuredColumn:
    """A column of the table: at a position of the batch, constant, or missing."""

    field_id: int
    position: int | None
    constant: pa.Array | None
    hashes: checksum.Hasher | None


class Meter:
    """Counts rows and nulls, and from level `checksum` on sums the hashes of values and rows. `constants` are the
    values of columns that a batch may lack: one-element arrays by field id, for partition values and defaults (R27)."""

    def __init__(
        self, schema: Schema, level: policies.ProofLevel | None, constants: Mapping[int, pa.Array] | None = None
    ) -> None:
        self._schema = schema
        self._level = level  # None: count rows only, for benchmarks
        self._hashing = level in (policies.ProofLevel.CHECKSUM, policies.ProofLevel.DEEP)
        self._constants = dict(constants or {})
        self._rows = 0
        self._row_sum = 0
        self._nulls = {field.field_id: 0 for field in schema.fields}
        self._sums = {field.field_id: 0 for field in schema.fields}
        self._batch_schema: pa.Schema | None = None
        self._columns: list[_MeasuredColumn] = []
        self._lock = threading.Lock()  # held while totals change

    def add_all(self, batches: Sequence[pa.RecordBatch], cores: task_cores.TaskCores) -> None:
        """Measures batches side by side."""
        cores.map(self.add, batches)

    def add(self, batch: pa.RecordBatch) -> None:
        """Measures a batch whose fields carry field ids; a field of the table that it lacks counts as null."""
        with self._lock:
            self._rows += batch.num_rows
            if self._level is None:
                return
            if self._batch_schema is None or not self._batch_schema.equals(batch.schema, check_metadata=True):
                self._columns, self._batch_schema = self._bind(batch.schema), batch.schema
            columns = self._columns
        arrays, nulls = [], {}
        for column in columns:
            if column.position is not None:
                arrays.append(batch.column(column.position))
                nulls[column.field_id] = arrays[-1].null_count
            elif column.constant is not None:
                arrays.append(_repeated(column.constant, batch.num_rows))
            else:
                nulls[column.field_id] = batch.num_rows
        sums, row_sum = dict[int, int](), 0
        if self._hashing:  # a batch without columns has rows, too
            present = [column for column in columns if column.hashes is not None]
            sums, row_sum = _hash(list(zip(present, arrays, strict=True)), batch.num_rows)
        with self._lock:
            _add(self._nulls, nulls)
            _add(self._sums, sums)
            self._row_sum += row_sum

    def _bind(self, schema: pa.Schema) -> list[_MeasuredColumn]:
        positions = arrow_schemas.positions(schema)
        columns = []
        for field in self._schema.fields:
            number, hashes, constant = field.field_id, None, None
            if (position := positions.get(number)) is not None:
                kind = schema.field(position).type
            elif (constant := self._constants.get(number)) is not None:
                kind = pa.dictionary(pa.int32(), constant.type)
            if position is not None or constant is not None:
                hashes = checksum.hasher(number, field.field_type, kind, self._constants)
            columns.append(_MeasuredColumn(field_id=number, position=position, constant=constant, hashes=hashes))
        return columns

    @property
    def row_sum(self) -> int | None:
        """The sum of the hashes of all rows so far; None: it is not measured."""
        return self._row_sum if self._hashing else None

    @property
    def side(self) -> proof.Side:
        """The measurements of all batches so far."""
        return proof.Side(
            rows=self._rows,
            nulls=dict(self._nulls) if self._level else {},
            checksums={number: total & _MASK for number, total in self._sums.items()} if self._hashing else {},
            row_checksum=self._row_sum & _MASK if self._hashing else None,
        )


def _repeated(value: pa.Array, count: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, dtype=np.int32)), value)


def _add(totals: dict[int, int], more: Mapping[int, int]) -> None:
    for number, count in more.items():
        totals[number] += count


def _hash(columns: list[tuple[_MeasuredColumn, pa.Array]], rows: int) -> tuple[dict[int, int], int]:
    """The sums of the hashes of each column's values, and of the rows."""
    bound = [(column.field_id, column.hashes(array)) for column, array in columns if column.hashes is not None]
    sums, row_sum = {number: 0 for number, _ in bound}, 0
    accumulator = np.empty(min(rows, checksum.CHUNK), dtype=np.uint64)
    for start in range(0, rows, checksum.CHUNK):
        stop = min(start + checksum.CHUNK, rows)
        row = accumulator[: stop - start]
        row.fill(0)
        for number, hashes in bound:
            values = hashes(start, stop)
            row += values
            sums[number] += int(np.add.reduce(values))
        row_sum += int(np.add.reduce(checksum.row_hashes(row)))
    return sums, row_sum
