"""Sorts any number of rows: those that exceed the budget go to local disk as sorted runs. Batches come in, the same
rows go out in order, bit for bit; they are only ever sliced, taken and written as Arrow."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from iceberg_compaction.execute.worker import budgets, scratch_files
from iceberg_compaction.execute.worker.arrange import sort_order_keys
from iceberg_compaction.execute.worker.input import value_widths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_PARTITION = pa.field("partition", pa.int32(), nullable=False)
_ROW = pa.field("row", pa.int64(), nullable=False)
_FIRST = pa.array([0])


@dataclass(frozen=True, slots=True)
class _Block:
    """A piece of a run that is read in one go, and the keys of its first row."""

    run: pa.RecordBatchFileReader
    number: int
    first: list[sort_order_keys.Key]


class Sorter:
    """Sorts by partition number, then by the fields of a sort order, then by arrival."""

    def __init__(
        self,
        fields: tuple[sort_order_keys.SortField, ...],
        columns: pa.Schema,
        limits: budgets.Budgets = budgets.DEFAULT,
    ) -> None:
        self._fields = fields
        self._columns = columns
        self._limits = limits
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._rows = 0
        self._blocks: list[_Block] = []
        self._files: list[IO[bytes]] = []
        self.counts: dict[int, int] = {}  # rows by partition number

    @property
    def columns(self) -> pa.Schema:
        """The schema of the rows that come out. Runs on disk hold no dictionaries."""
        return self._plain if self._blocks else self._columns

    @property
    def _plain(self) -> pa.Schema:
        return pa.schema([f.with_type(_value_type(f.type)) for f in self._columns])

    def add(self, batch: pa.RecordBatch, partitions: NDArray[np.int32] | None = None) -> None:
        """Takes rows; `partitions` has the number of each row's partition, all 0 if left out."""
        numbers = np.zeros(batch.num_rows, np.int32) if partitions is None else partitions
        for number, count in zip(*np.unique(numbers, return_counts=True), strict=True):
            self.counts[int(number)] = self.counts.get(int(number), 0) + int(count)
        rows = np.arange(self._rows, self._rows + batch.num_rows)
        self._rows += batch.num_rows
        self._batches.append(_with_positions(batch, pa.array(numbers), pa.array(rows)))
        self._bytes += batch.nbytes
        if self._bytes >= self._limits.run_bytes:
            self._spill()

    def batches(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """All rows in order, each batch with the number of its partition."""
        if self._blocks and self._batches:
            self._spill()
        pieces = self._merged() if self._blocks else self._sorted(self._limits.merge_bytes)
        for piece in pieces:
            yield from _by_partition(piece)

    def close(self) -> None:
        """Removes the runs from disk."""
        self._blocks, self._batches = [], []
        while self._files:
            self._files.pop().close()

    def _sorted(self, bytes_each: int) -> Iterator[pa.RecordBatch]:
        """The rows in memory, in order and in pieces; memory holds none of them afterwards."""
        if not self._batches:
            return
        size, batches = self._bytes, self._batches
        self._batches, self._bytes = [], 0
        whole = joined(batches)
        indices = sort_order_keys.sort_indices(
            [_partition_key(whole), *sort_order_keys.keys(self._fields, whole, alone=True)]
        )
        rows = min(self._limits.merge_rows, max(1, int(len(indices) * bytes_each / max(1, size))))
        for start in range(0, len(indices), rows):
            yield whole.take(pa.array(indices[start : start + rows]))

    def _spill(self) -> None:
        file = scratch_files.open_file()
        self._files.append(file)
        schema = pa.schema([*self._plain, _PARTITION, _ROW])
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        firsts = []
        with pa.ipc.new_file(file, schema, options=options) as writer:
            for piece in self._sorted(self._limits.block_bytes):
                widths, most = value_widths.row_bytes(piece), 2 * self._limits.block_bytes
                for start, rows in value_widths.cuts(widths, piece.num_rows, most):
                    plain = _decoded(piece.slice(start, rows), schema)
                    firsts.append(self._keys(plain.take(_FIRST)))  # a slice would keep the whole block in memory
                    writer.write_batch(plain)
        file.flush()
        pa.default_memory_pool().release_unused()  # sorting has many sizes of buffers, which would pile up
        run = pa.ipc.open_file(file)
        self._blocks += [_Block(run, number, first) for number, first in enumerate(firsts)]

    def _keys(self, batch: pa.RecordBatch) -> list[sort_order_keys.Key]:
        """The keys of rows. No two rows of a task are equal in them, so the order does not depend on the runs."""
        return [
            _partition_key(batch),
            *sort_order_keys.keys(self._fields, batch),
            (batch.column(batch.num_columns - 1), "ascending"),
        ]

    def _merged(self) -> Iterator[pa.RecordBatch]:
        """All runs as one. Blocks are read in the order of their first rows, so all rows that are not greater than the
        first row of the next block have been read before it."""
        firsts = [
            _stacked([block.first[index] for block in self._blocks]) for index in range(len(self._blocks[0].first))
        ]
        waiting = [self._blocks[index] for index in sort_order_keys.sort_indices(firsts)[::-1].tolist()]
        rest: pa.RecordBatch | None = None
        while waiting:
            held = [] if rest is None else [rest]
            least, size = max(self._limits.merge_bytes, 0 if rest is None else rest.nbytes), 0
            while waiting and size < least:
                block = waiting.pop()
                held.append(block.run.get_batch(block.number))
                size += held[-1].nbytes
            whole = joined(held)
            keys = self._keys(whole)
            if not waiting:
                yield from self._taken(whole, sort_order_keys.sort_indices(keys))
                return
            bound = [_stacked([key, first]) for key, first in zip(keys, waiting[-1].first, strict=True)]
            indices = sort_order_keys.sort_indices(bound)
            cut = int(np.flatnonzero(indices == whole.num_rows)[0])
            yield from self._taken(whole, indices[:cut])
            rest = whole.take(pa.array(indices[cut + 1 :]))
            del whole, keys, bound  # before the next step is loaded

    def _taken(self, whole: pa.RecordBatch, indices: NDArray[np.uint64]) -> Iterator[pa.RecordBatch]:
        for start in range(0, len(indices), self._limits.merge_rows):
            yield whole.take(pa.array(indices[start : start + self._limits.merge_rows]))


def _stacked(keys: list[sort_order_keys.Key]) -> sort_order_keys.Key:
    return pa.concat_arrays([array for array, _ in keys]), keys[0][1]


def _partition_key(batch: pa.RecordBatch) -> sort_order_keys.Key:
    return batch.column(batch.num_columns - 2), "ascending"


def _with_positions(batch: pa.RecordBatch, partitions: pa.Array, rows: pa.Array) -> pa.RecordBatch:
    schema = pa.schema([*batch.schema, _PARTITION, _ROW])
    return pa.RecordBatch.from_arrays([*batch.columns, partitions, rows], schema=schema)


def _by_partition(piece: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The piece cut where its partition changes, without the columns that were only for sorting."""
    numbers = piece.column(piece.num_columns - 2).to_numpy()
    rows = piece.select(list(range(piece.num_columns - 2)))
    cuts = [0, *(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist(), len(numbers)]
    for start, stop in itertools.pairwise(cuts):
        if stop > start:
            yield int(numbers[start]), rows.slice(start, stop - start)


def joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch of all. Column by column, and the list is emptied, so that hardly more than one copy is held."""
    table = pa.Table.from_batches(batches).unify_dictionaries()
    batches.clear()
    schema, columns = table.schema, list(table.columns)
    del table
    joined: list[Any] = []
    while columns:
        column = columns.pop(0).combine_chunks()
        joined.append(column.chunk(0) if isinstance(column, pa.ChunkedArray) else column)
    return pa.RecordBatch.from_arrays(joined, schema=schema)


def _decoded(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
